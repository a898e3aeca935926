"""Ledgers on disk that releases of the caller's own data are charged to, and what they allow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from ..data.files import make_folder
from ..data.measure import Measure
from ..errors import InputError, RefusedError
from ..privacy.accounting import ROUNDING, compose, epsilon_of
from ..privacy.ledger import Ledger
from .policy import Policy

BUDGET = 1.0
"""Epsilon of all releases in a ledger together where nobody names another."""


def check_budget(name: str, spent: float, cost: float, budget: float, delta: float) -> None:
    """Raise where a ledger does not allow the cost of a run."""
    if compose([spent, cost]) <= budget * (1 + ROUNDING):
        return
    remaining = max(budget**2 - spent**2, 0.0) ** 0.5
    figures = ", ".join(
        f"{word} epsilon {epsilon_of(mu, delta):.4g}"
        for word, mu in (("spent", spent), ("asked", cost), ("left", remaining))
    )
    raise RefusedError(
        f"the ledger of {name!r} does not allow the run ({figures}), and nothing was charged. Give "
        "a larger budget or a smaller privacy_epsilon, or repeat an earlier question.",
        code="ledger-budget",
    )


def budget_policy(epsilon: float, delta: float) -> Policy:
    """Return rules that allow releases alone, up to a budget."""
    return Policy(privacy_epsilon=epsilon, privacy_delta=delta)


def open_ledgers(measures: Mapping[str, Measure], folder: str | Path) -> dict[str, Ledger]:
    """Open the ledgers on disk that releases are charged to, one file for each holder."""
    numbered = measures and set(measures) == {str(k) for k in range(len(measures))}
    if numbered or "/" in "".join(measures):
        # A name that depends on who else is in the run would find another holder's ledger.
        raise InputError(
            f"a ledger needs a different name for each holder; these are {', '.join(measures)}. "
            "Give names (in Python a mapping, on the command line files of different names).",
            code="option-ledgers",
        )
    place = make_folder(Path(folder), "Give a folder for ledgers.", 0o700)
    return {name: Ledger(place / f"{quote(name, safe='')}.ledger") for name in measures}


def check_masses(measures: Mapping[str, Measure], mass_limit: object) -> None:
    """Raise where weights differ and what a record counts for is not bounded publicly.

    Only for data the caller owns: a holder bounds its weights and says nothing.
    """
    for name, measure in measures.items():
        above = isinstance(mass_limit, int | float) and float(measure.masses.max()) > mass_limit > 0
        if above or (mass_limit is None and measure.weighted):
            raise InputError(
                f"the records of {name!r} have weights"
                + (" above mass_limit" if above else "")
                + ". Give mass_limit=, the largest weight that a record may have; it becomes "
                "public.",
                code="sketch-weights",
            )
