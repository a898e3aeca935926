"""Score how suspect the records of a holder are, and count faulty ones with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from ..data.measure import Data, Measure
from ..data.preflight import Preflight
from ..errors import InputError
from ..federation.accounts import Spending, check_masses, read_public
from ..federation.parties import MINE, PUBLIC, Holders, Parties, check_measures, read_measure
from ..federation.party import Holder, Own
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation, Progress, Runtime
from ..options import check_known, taking, word
from ..records.counts import BrokenCounts, Screener
from ..records.gradients import RecordGradients
from ..records.result import RecordScores
from ..records.suspects import CountBroken
from ..records.validation import RecordScreening

if TYPE_CHECKING:
    from ..keywords import CountKeywords, RecordKeywords


@taking(RecordScreening, also=(RecordGradients,))
def value_records(
    holder: Data | Federation | Runtime,
    validation: Data | Own,
    *,
    labels: bool | str = False,
    method: str = "screening",
    seed: int = 0,
    name: str = "holder",
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordScores:
    """Score how likely each record of a holder is faulty, compared with validation data.

    Parameters
    ----------
    holder
        Data (as for ``distance``) whose records are scored, or a federation (as for
        ``distance_matrix``) whose holder ``name`` they are.
    validation
        Trusted data of the distribution the holder's should have: 50 records or more. Give one
        ``Own(data)`` for several holders: models are then fitted once.
    labels
        Whether labels may be wrong too; for data frames the name of their column.
    method
        ``"screening"``: models of the validation data. ``"published"``: the calibrated gradients
        of FedBary and TriangleWad, with labels as OTDD vectors, which find far less.
    seed
        Of all that is random.
    name
        What to call the holder, or its name in a federation.
    progress
        Called after every exchange.
    **options
        For ``"published"`` ``t``, ``support``, ``rounds`` and ``covariance``.

    Returns
    -------
    RecordScores
        ``scores`` (n,), higher means more suspect; ``flagged`` (n,); ``suspects()``: why.

    Raises
    ------
    InputError, MismatchError
        As ``barycenter``; ``validation-few`` where validation records are too few for the level.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(120, 3))
    >>> x[7] = [9.0, -9.0, 9.0]
    >>> int(value_records(x[:60], x[60:]).worst[0])
    7
    """
    word("screening", "published").of(method, "method", "option-method")
    column = labels if isinstance(labels, str) else None
    data = validation.measure if isinstance(validation, Own) else validation
    trusted = read_measure(MINE, data, column)
    held = holder if isinstance(holder, Federation | Runtime) else {name: holder}
    parties = Parties.of(held, labels, trusted)
    own = parties.trusted
    if isinstance(validation, Own) and own.measure is validation.measure:
        # What was fitted for another holder is kept by the party.
        own = validation
    kind = RecordScreening if method == "screening" else RecordGradients
    own_options = check_known(kind, options, f"value_records by method {method!r}")
    protocol = kind(labels=bool(labels), seed=seed, **own_options).at(name, own)
    result = parties.run(protocol, progress)
    return result.with_columns(own.measure, *parties.measures.values())


@taking(CountBroken, Spending)
def count_broken(
    holders: Holders,
    validation: Data | None = None,
    *,
    public: Data,
    labels: bool | str = False,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[CountKeywords],
) -> BrokenCounts:
    """Return how many records of each holder are faulty, with noise; scores stay with the holders.

    Models are fitted on public records, weighted by a differentially private sketch of the
    validation data. Each holder screens its records with them and sends noisy counts.

    Parameters
    ----------
    holders
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on. A
        federation (as for ``distance_matrix``) has ledgers of its holders' own.
    validation
        Trusted data of the coordinator: what they disclose is charged as what is disclosed
        of a holder, to ``coordinator.ledger`` among the ``ledgers`` (of a federation that one
        alone). Without, public records are trusted as they are.
    public
        Public records of the right distribution and of no holder: 50 or more, 1000 for good.
        With ``labels`` their labels are right, and their classes public.
    labels
        Whether labels may be wrong too; for data frames the name of their column.
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
        Data that are not measures or do not fit together; ``validation-few``.
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
    check_known(CountBroken, options, "count_broken", own=Spending.options)
    spending, counting = Spending.split(options)
    parties = Parties.of(holders, labels, validation)
    if spending.ledgers is not None and parties.own is None:
        parties.check_owned("ledgers=", "option-ledgers")
    column = labels if isinstance(labels, str) else None
    trusted = {} if parties.own is None else {COORDINATOR: parties.own.measure}
    sample = read_public(public, column, parties.measures or trusted)
    if labels and not sample.labelled:
        raise InputError(
            "the public records have no labels. Give a labelled Measure, or leave the label "
            "option out.",
            code="labels-absent",
        )
    check_masses({**parties.measures, **trusted}, counting.get("mass_limit"))
    protocol = CountBroken(public=sample, labels=bool(labels), **counting)
    policy, ledgers = spending.accounts(protocol, parties.measures, trusted)
    own = None
    if parties.own is not None:
        own = Holder(parties.own.measure, policy, ledgers[COORDINATOR])
    if parties.measures:
        parties = parties.behind(policy, ledgers)
    counts = parties.beside({"public": sample}).run(protocol.among(parties.names, own), progress)
    return replace(counts, screener=_Owner(counts.screener, sample, column))


@dataclass(frozen=True)
class _Owner:
    """Screen a holder's own data with the models of a run."""

    inner: Screener
    public: Measure
    labels: str | None

    def screen(self, data: Data, name: str, fdr: float) -> RecordScores:
        both = {PUBLIC: self.public, name: read_measure(name, data, self.labels)}
        measure = check_measures(both, labels=False, last=(name,))[name]
        scores = self.inner.screen(Own(measure), name, fdr).with_columns(self.public)
        return scores.with_preflight(Preflight.of({name: measure, PUBLIC: self.public}))
