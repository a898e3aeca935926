"""Differentially private releases: sketches, noise, accounting and the ledger."""

from .accounting import compose, delta_of, epsilon_of, largest_auc, largest_power, mu_of
from .ledger import BudgetError, Ledger
from .mechanism import add_noise

__all__ = [
    "BudgetError",
    "Ledger",
    "add_noise",
    "compose",
    "delta_of",
    "epsilon_of",
    "largest_auc",
    "largest_power",
    "mu_of",
]
