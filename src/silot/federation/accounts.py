"""Run what is answered with noise, charged to ledgers of the caller's own data if it has any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from typing import Protocol as Structural
from urllib.parse import quote

from ..data.files import make_folder
from ..data.measure import Data, Measure
from ..errors import InputError, RefusedError
from ..options import Options, anything, none_or, number, option
from ..privacy.accounting import ROUNDING, compose, epsilon_of
from ..privacy.ledger import Ledger
from .parties import PUBLIC, Parties, check_measures, read_measure
from .policy import Policy
from .protocol import Protocol, Questions
from .run import B, Progress

BUDGET = 1.0
"""Epsilon of all releases in a ledger together where nobody names another."""


class ReleaseCost(Structural):
    """What the run of a release costs each holder."""

    @property
    def privacy_epsilon(self) -> float: ...

    @property
    def privacy_delta(self) -> float: ...

    @property
    def mu(self) -> float: ...


class Spending(Options):
    """Ledgers that releases are charged to, on the machine of who owns the data."""

    ledgers: str | Path | None = option(
        "Folder with a durable ledger for each holder. ``NAME.ledger``. A release is "
        "charged to it, and refused if all releases together would exceed "
        "``budget_epsilon``. Without a folder, only this process remembers the "
        "charge, although the privacy loss of several runs adds up.",
        anything("path, or None"),
        default=None,
    )
    budget_epsilon: float | None = option(
        "Epsilon of all releases in a ledger together, by default 1.",
        none_or(number(above=0)),
        default=None,
        code="option-budget",
    )

    def fit(self) -> None:
        if self.budget_epsilon is not None and self.ledgers is None:
            raise InputError(
                "budget_epsilon limits what ledgers count, but there are no ledgers. Give "
                "ledgers= too (on the command line --ledgers FOLDER), or leave it out: sites "
                "have budgets of their own.",
                code="option-budget",
            )

    def policy(self, delta: float) -> Policy:
        """Return rules that allow releases alone, up to the budget."""
        return budget_policy(self.budget_epsilon or BUDGET, delta)

    def accounts(
        self, private: ReleaseCost, *groups: Mapping[str, Measure]
    ) -> tuple[Policy, dict[str, Ledger]]:
        """Return rules, and a ledger for each measure, in memory if no folder is named."""
        names = [name for group in groups for name in group]
        if self.ledgers is None:
            policy = budget_policy(private.privacy_epsilon, private.privacy_delta)
            return policy, {name: Ledger() for name in names}
        ledgers: dict[str, Ledger] = {}
        for group in groups:
            ledgers |= open_ledgers(group, self.ledgers)
        return self.policy(private.privacy_delta), ledgers

    def behind(self, parties: Parties, first: Questions, private: ReleaseCost) -> Parties:
        """Return the parties behind ledgers, if any, that allow these first questions."""
        if self.ledgers is None:
            return parties
        delta, policy = private.privacy_delta, self.policy(private.privacy_delta)
        kept = open_ledgers(parties.measures, self.ledgers)
        behind = parties.behind(policy, kept)
        new = [name for name, question in first.items() if kept[name].find(question.key) is None]
        for name in new:
            # All of the run or none of it: a count alone would be charged, and serve nothing.
            account = kept[name].account
            paths = [path for path, _ in account.ledgers]
            sharing = sum(str(kept[holder].path) in paths for holder in new)
            cost = compose([private.mu] * sharing)
            check_budget(name, account.spent, cost, policy.budget_mu or 0.0, delta)
        return behind


def run_private(
    parties: Parties,
    protocol: Protocol[B],
    private: ReleaseCost,
    spending: Spending,
    progress: Callable[[Progress], None] | None = None,
) -> B:
    """Run what holders answer with noise, charged to their ledgers."""
    if spending.ledgers is not None:
        parties = spending.behind(parties, next(protocol.start()), private)
    return parties.run(protocol, progress)


def prepare_release(
    parties: Parties, options: Mapping[str, Any], spending: Spending
) -> dict[str, Any]:
    """Return options of a release, its public records in the holders' order of features."""
    if spending.ledgers is not None:
        parties.check_owned("ledgers=", "option-ledgers")
    check_masses(parties.measures, options.get("mass_limit"))
    own = dict(options)
    if own.get("public") is not None:
        classes = own.get("classes")
        column = parties.labels if isinstance(parties.labels, str) and classes is None else None
        own["public"] = read_public(own["public"], column, parties.measures)
    return own


def read_public(public: Data, labels: str | None, measures: Mapping[str, Measure]) -> Measure:
    """Read public records, with their features in the order of the holders'."""
    # Holders of a federation see for themselves whether theirs fit.
    last = (PUBLIC,) if measures else ()
    read = {PUBLIC: read_measure(PUBLIC, public, labels)}
    return check_measures({**measures, **read}, labels=False, last=last)[PUBLIC]


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
