"""Differentially private releases: sketches, noise, accounting and the ledger."""

from .accounting import compose, epsilon_of, mu_of
from .ledger import BudgetError, Ledger
from .mechanism import add_noise

__all__ = [
    "BudgetError",
    "Ledger",
    "add_noise",
    "compose",
    "epsilon_of",
    "mu_of",
]
