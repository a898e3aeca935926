"""How many records are broken, told with noise, of data the caller owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..data.columns import matched
from ..data.measure import Data, Measure
from ..errors import InputError, MismatchError
from ..federation.local import LocalFederation, Progress
from ..federation.party import Holder, Own
from ..federation.protocol import COORDINATOR
from ..privacy.accounting import mu_of
from ..privacy.ledger import Ledger
from ..records.counts import BrokenCounts, Screener
from ..records.result import RecordScores
from ..records.suspects import suspects
from ._holders import checked_measures, measure_named, named_holders, unreserved, with_columns
from .sketch import DELTA, EPSILON, budget_policy, check_masses, ledgers_of, public_of

PUBLIC = "public records"


def count_broken(
    holders: Mapping[str, Data] | Sequence[Data],
    validation: Data | None = None,
    *,
    public: Data,
    labels: bool | str = False,
    fdr: float = 0.1,
    privacy_epsilon: float = EPSILON,
    privacy_delta: float = DELTA,
    mass_limit: float | None = None,
    ledgers: str | Path | None = None,
    budget_epsilon: float = 1.0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> BrokenCounts:
    """How many records of each holder are broken, told with noise; scores stay with the holders.

    Models are fitted on public records, weighted by a differentially private sketch of the
    validation data. Each holder screens its records with them and tells noisy counts.

    Parameters
    ----------
    holders
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on.
    validation
        Data that are trusted, of the coordinator: what is told of them is charged as what is told
        of a holder. Without, public records are trusted as they are.
    public
        Public records, of the law records should have and of nobody's: 50 or more, 1000 for good.
        With ``labels`` their labels are right, and their classes public.
    labels
        Whether labels may be wrong too; for data frames the name of their column.
    fdr
        Share of the flagged records that may be sound.
    privacy_epsilon, privacy_delta
        What one record may change: the budget of this run, for each holder and for the
        validation data.
    mass_limit
        For weighted records: the largest weight, public.
    ledgers
        A folder with a durable ledger for each holder, ``NAME.ledger``, and for the validation
        data, ``coordinator.ledger``. Without it nothing remembers the run, and what several runs
        spend adds up.
    budget_epsilon
        Of all releases in a ledger together.
    seed
        Of public cells and models.
    progress
        Called after every exchange.

    Returns
    -------
    BrokenCounts
        Estimates with intervals, by holder. ``screen(data)`` has the scores and flags of each
        record, for the holder itself.

    Raises
    ------
    InputError, MismatchError
        Data that are no measures or do not fit together; ``validation-few``.
    RefusedError
        A ledger does not allow the run.
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> public, valid, x = np.random.default_rng(0).normal(size=(3, 600, 3))
    >>> x[:150] *= 6.0
    >>> found = count_broken({"seller": x}, valid, public=public, privacy_epsilon=4.0)
    >>> 80 < found.holders["seller"].broken["features"].value < 200
    True
    """
    named = dict(unreserved(named_holders(holders)))
    last = {} if validation is None else {COORDINATOR: validation}
    measures = checked_measures({**named, **last}, labels)
    column = labels if isinstance(labels, str) else None
    sample = public_of(public, column, measures)
    if labels and not sample.labelled:
        raise InputError(
            "the public records have no labels. Give a labelled Measure, or leave the label "
            "option out.",
            code="labels-absent",
        )
    check_masses(measures, mass_limit)
    mu_of(privacy_epsilon, privacy_delta)
    parties = _parties(measures, ledgers, budget_epsilon, privacy_epsilon, privacy_delta)
    own = parties.pop(COORDINATOR, None)
    protocol = suspects(
        list(parties),
        public=sample,
        own=own,
        labels=bool(labels),
        fdr=fdr,
        privacy_epsilon=privacy_epsilon,
        privacy_delta=privacy_delta,
        mass_limit=mass_limit,
        seed=seed,
    )
    found = LocalFederation(parties).run(protocol, progress=progress)
    return replace(found, screener=_Owner(found.screener, sample, column))


def _parties(
    measures: Mapping[str, Measure],
    ledgers: str | Path | None,
    budget: float,
    epsilon: float,
    delta: float,
) -> dict[str, Holder]:
    """Holders, and the coordinator as one of its validation data, behind ledgers."""
    if ledgers is None:
        policy = budget_policy(epsilon, delta)
        return {name: Holder(each, policy, Ledger()) for name, each in measures.items()}
    policy = budget_policy(budget, delta)
    kept = ledgers_of({n: each for n, each in measures.items() if n != COORDINATOR}, ledgers)
    if COORDINATOR in measures:
        kept |= ledgers_of({COORDINATOR: measures[COORDINATOR]}, ledgers)
    return {name: Holder(each, policy, kept[name]) for name, each in measures.items()}


@dataclass(frozen=True)
class _Owner:
    """Models that screen data of whoever calls."""

    inner: Screener
    public: Measure
    labels: str | None

    def screen(self, data: Data, name: str, fdr: float) -> RecordScores:
        given = measure_named(name, data, self.labels)
        if given.dimension != self.public.dimension:
            raise MismatchError(
                f"{name!r} has {given.dimension} features and the public records have "
                f"{self.public.dimension}. Give both the same features.",
                code="dimension-mismatch",
            )
        if self.public.columns is not None and given.columns is not None:
            given = matched({PUBLIC: self.public, name: given}, (name,))[name]
        return with_columns(self.inner.screen(Own(given), name, fdr), self.public)
