"""Sketches of data the caller owns, through a local federation with ledgers in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ..data.measure import Covariance, Data, Embedding, Measure
from ..distances.methods import check_method_options
from ..distances.sketches.release_options import Private
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch, Sketching
from ..errors import InputError
from ..federation.accounts import BUDGET, budget_policy, check_budget, check_masses, open_ledgers
from ..federation.parties import PUBLIC, Holders, Parties, check_measures, read_measure
from ..federation.policy import Policy
from ..federation.protocol import Protocol, Questions
from ..federation.run import B, Progress
from ..options import Options, anything, check_known, none_or, number, option, taking
from ..privacy.accounting import compose

if TYPE_CHECKING:
    from ..keywords import SketchKeywords


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

    def behind(self, parties: Parties, first: Questions, private: Private) -> Parties:
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


@taking(Sketching, Spending, without=("embedding",))
def sketches(
    holders: Holders,
    validation: Data | None = None,
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SketchKeywords],
) -> Sketches:
    """One differentially private release of every holder, and all that follows from it.

    Parameters
    ----------
    holders
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on. A
        federation (as for ``distance_matrix``) has ledgers of its holders' own.
    validation
        Data of the coordinator, to value holders by; no noise is added to them.
    labels, covariance
        Whether to sketch class by class (for data frames the name of the column that has the
        labels), and the covariance block of the OTDD vectors that distances then compare. Class
        names must be public: those of ``public``, or ``classes``.
    progress
        Called after every exchange.

    Returns
    -------
    Sketches
        ``distance``, ``matrix``, ``barycenter`` and ``values`` spend nothing more, nor does
        ``silot.cluster`` of it.

    Raises
    ------
    InputError, MismatchError
        Data that are not measures or do not fit together, options out of range, too few records.
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(4500, 2))
    >>> released = sketches(
    ...     {"a": x[:1500], "b": x[1500:3000], "c": x[3000:] + 5.0}, public=public
    ... )
    >>> released.distance("a", "c").value > released.distance("a", "b").value
    True
    """
    check_known(Sketching, options, "sketches", own=Spending.options)
    parties = Parties.of(holders, labels, validation)
    return run_sketches(parties, covariance=covariance, progress=progress, **options)


def run_private(
    parties: Parties,
    protocol: Protocol[B],
    private: Private,
    spending: Spending,
    progress: Callable[[Progress], None] | None = None,
) -> B:
    """Run what holders answer with noise, charged to their ledgers."""
    if spending.ledgers is not None:
        parties = spending.behind(parties, next(protocol.start()), private)
    return parties.run(protocol, progress)


def run_sketches(
    parties: Parties,
    *,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Sketches:
    """Sketch parties whose data, where they are the caller's, were checked."""
    spending, options = Spending.split(options)
    options = prepare_release(parties, options, spending)
    check_method_options(Sketch, options)
    if options.pop("p", 2) != 2:
        raise InputError("sketches give W2 only. Give p=2.", code="option-p")
    embedding: Embedding = covariance if parties.labels else "none"
    release = Sketching(embedding=embedding, **options)
    protocol = release.among(parties.names, parties.own)
    result = run_private(parties.beside(options), protocol, release, spending, progress)
    return replace(result, columns=parties.columns)


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
