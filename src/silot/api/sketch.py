"""Sketches of data the caller owns, through a local federation with ledgers in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

from ..data.measure import Covariance, Data, Embedding, Measure
from ..distances.methods import check_method_options
from ..distances.sketches.release_options import Private
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch, Sketching
from ..errors import FileError, InputError, RefusedError
from ..federation.policy import Policy
from ..federation.protocol import Protocol, Questions
from ..federation.run import B, Progress
from ..options import Options, anything, check_known, none_or, number, option, taking
from ..privacy.accounting import ROUNDING, compose, epsilon_of
from ..privacy.ledger import Ledger
from ._holders import PUBLIC, Holders, Parties, check_measures, read_measure

if TYPE_CHECKING:
    from ..keywords import SketchKeywords

BUDGET = 1.0
"""Epsilon of all releases in a ledger together where nobody names another."""


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
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}). Give a folder for ledgers.",
            code="file-unwritable",
        ) from None
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
