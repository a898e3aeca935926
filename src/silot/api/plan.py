"""Advise on holders: which to combine, split or exclude, what to drop, what to request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..data.measure import Data, Measure
from ..distances.methods import Joint
from ..distances.questions import (
    ClassSizes,
    Describe,
    LabelledRecords,
    decode_classes,
    encode_classes,
)
from ..distances.result import Distance, DistanceMatrix
from ..distances.sides import agree_on_dimension, build_misfit_error, read_weights
from ..distances.sketches.sketch import Sketching
from ..distances.worth.result import Contributions
from ..errors import InputError
from ..federation.party import Own
from ..federation.protocol import COORDINATOR, Protocol, Steps, required
from ..federation.question import Answerer
from ..federation.result import Billed
from ..federation.run import Progress
from ..options import Options, check_known, option, part, seed, truth
from ..records.result import RecordScores
from ._holders import Holders, Parties, check_method
from .advice.case import LEVEL, MOST_FLAGGED, Case
from .advice.pool import Pool, with_columns_of
from .advice.result import Plan
from .advice.rules import advise
from .cluster import cluster
from .records import value_records
from .sketch import Spending, run_sketches
from .value import value_holders

Step = Callable[[], None]


class Planning(Options):
    """Options of a plan."""

    name = "plan"

    fdr: float = option(
        "Share of the flagged records that may be sound, from 0 (nothing is flagged) up to, not "
        "including, 1.",
        part(),
        default=0.1,
        brief="Share of the flagged records that may be sound. Default: 0.1; 0: no flags.",
    )
    seed: int = option("Seed of everything random.", seed(), default=0)


def plan(
    holders: Holders,
    validation: Data,
    *,
    labels: bool | str = False,
    method: str = "exact",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Plan:
    r"""What would help most: which holders to pool, separate or leave out, what to drop or ask for.

    .. math:: \mathrm{gain} = W_2(P, V) - W_2(P', V)

    where P are all records, holders by how many they have, V the validation records, and P' what
    the pool becomes where the advice is followed.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on. Or a
        federation (as for ``distance_matrix``).
    validation
        Data of the distribution that matters. No holder sees them.
    labels
        Whether labels count: wrong ones, and classes that lack. For data frames the name of
        their column.
    method
        ``"exact"``: every holder is asked for its records, once; everything is computed from
        them. ``"sketch"``: from one differentially private release of each holder; no records
        are scored then, and gains are estimates.
    progress
        Called after every step.
    **options
        ``fdr`` of the record scores, and ``seed``; with ``"sketch"`` those of ``silot.sketches``
        such as ``public`` and ``privacy_epsilon``.

    Returns
    -------
    Plan
        ``advice``: pieces with their evidence, the most helpful first.

    Raises
    ------
    InputError, MismatchError
        As ``value_holders``; ``validation-absent``: no validation data.

    Notes
    -----
    A piece is ``sure`` where sampling makes it in one of 20 cases at most, all pieces together: the
    four kinds that can be sure have 1.25 % each, shared by their candidates.

    - ``leave-out``: the mean potential of the holder's records against that of the others
      (Welch). The squared distance is convex in the pool: it falls by no more than
      :math:`s (\bar f_L - \bar f_R)`, tested against records of the others' distribution.
    - ``drop``: Fisher's exact test of how many records are flagged, against how many of the
      validation records may score as high.
    - ``ask``: Fisher's exact test of the class's share.
    - ``group``: the test between all holders (``cluster``).

    ``pool`` is never sure: no test proves two distributions equal. Sources: Kantorovich duality
    (Peyré and Cuturi, *Computational Optimal Transport*, 2019, sec. 2.5 and prop. 9.2) for
    potentials as gradients. The construction is ours.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 60, 2))
    >>> found = plan({"a": x[0], "b": x[1], "far": x[2] + 5.0}, x[3])
    >>> found.first.kind, found.first.holders, found.first.sure
    ('leave-out', ('far',), True)
    """
    check_method(method, "exact", "sketch")
    if method == "exact":
        check_known(Planning, options, "plan")
    else:
        check_known(Sketching, options, "plan", own=("fdr", *Spending.options))
    planning, options = Planning.split(options)
    # None where a caller has none: said in words before anything is asked.
    if validation is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise InputError(
            "advice is for validation data, and there are none. Give validation=.",
            code="validation-absent",
        )
    parties = Parties.of(holders, labels, validation)
    steps = _Steps(progress, 4 + (len(parties.names) if method == "exact" else 0))
    compute = _from_records if method == "exact" else _from_sketches
    return compute(parties, planning, steps, options)


@dataclass
class _Steps:
    """Count the steps of a plan."""

    progress: Callable[[Progress], None] | None
    most: int
    done: int = 0

    def __call__(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(Progress("plan", self.done, self.most))


def _from_records(
    parties: Parties, planning: Planning, step: Step, options: dict[str, Any]
) -> Plan:
    """Plan from the records of all holders, requested once."""
    gathered = parties.run(Gathering(labels=bool(parties.labels)).among(parties.names))
    step()
    # Of the one run that there was: what follows asks nobody.
    # In one order, whatever order holders were given in.
    own = parties.trusted
    measures = sorted(gathered.measures.items())
    here = {name: with_columns_of(item, own.measure) for name, item in measures}
    labels = bool(parties.labels)
    clustering = None
    if len(here) > 1:
        clustering = cluster(here, labels=labels, seed=planning.seed)
        # Of the one run that there was.
        matrix = _add_cost(clustering.matrix, gathered)
        clustering = replace(clustering, matrix=matrix, test=None)
    step()
    worth = value_holders(here, own.measure, labels=labels, seed=planning.seed)
    step()
    records, notes = _score_records(here, own, labels, planning, step)
    pool = Pool.of(here, own, labels=labels)
    case = Case(pool, clustering, records)
    records = {name: replace(scores, transcript=None) for name, scores in records.items()}
    return _build_plan(
        replace(case, records=records), parties, planning, worth, notes, gathered, step
    )


def _from_sketches(
    parties: Parties, planning: Planning, step: Step, options: dict[str, Any]
) -> Plan:
    """Plan from one release of every holder."""
    sketches = run_sketches(parties, seed=planning.seed, **options)
    step()
    clustering = cluster(sketches, seed=planning.seed) if len(sketches.names) > 1 else None
    step()
    worth = sketches.values("validation")
    step()
    pool = Pool.of(
        sketches.measures, parties.trusted, labels=bool(parties.labels), records=sketches.records
    )
    notes = [
        "records were not scored: releases do not tell them (silot records --method private "
        "counts faulty ones)"
    ]
    case = Case(pool, clustering, {})
    return _build_plan(case, parties, planning, worth, notes, sketches, step)


def _build_plan(
    case: Case, parties: Parties, planning: Planning, worth: Contributions, notes: list[str],
    run: Billed, step: Step,
) -> Plan:  # fmt: skip
    """Build the plan of a case, with the cost of its one run."""
    if not parties.labels:
        notes = [*notes, "labels were not compared: no advice on classes"]
    advice = advise(case)
    total = case.total.span
    have, want = case.pool.shares()
    sure = sum(piece.sure for piece in advice)
    exact = case.pool.certified
    status = (
        f"{sure} of {len(advice)} pieces are sure, at {100 * LEVEL:g} % over all"
        if sure
        else f"nothing is sure, at {100 * LEVEL:g} % over all pieces"
    )
    distance = Distance(
        value=total.value,
        lower=total.lower if exact else 0.0,
        upper=total.upper if exact else math.inf,
        method="exact" if exact else "sketch",
        status="converged: exact" if exact else "estimate: of what was released, nothing certified",
        converged=True,
        holders=("pool", COORDINATOR),
        p=2,
        seed=planning.seed,
    )
    result = Plan(
        names=parties.names,
        advice=advice,
        method="exact" if exact else "sketch",
        distance=distance,
        shares={name: (float(have[k]), float(want[k])) for k, name in enumerate(case.pool.classes)},
        clustering=case.clustering,
        worth=worth,
        records=case.records,
        notes=tuple(notes),
        level=LEVEL,
        status="; ".join([status, *notes]),
        converged=worth.converged and (case.clustering is None or case.clustering.converged),
        seed=planning.seed,
    )
    step()
    return result.with_run(run)


def _add_cost(matrix: DistanceMatrix, run: Billed) -> DistanceMatrix:
    """Return the matrix with the cost of the run that its distances were computed from."""
    pairs = {pair: distance.with_run(run) for pair, distance in matrix.pairs.items()}
    return replace(matrix, pairs=pairs, shared_bill=run.bill)


def _score_records(
    holders: Mapping[str, Measure], own: Own, labels: bool, planning: Planning, step: Step
) -> tuple[dict[str, RecordScores], list[str]]:
    """Score the records of each holder, or say why there are too few."""
    scored: dict[str, RecordScores] = {}
    notes: list[str] = []
    for name, measure in holders.items():
        try:
            scored[name] = value_records(
                measure, own, labels=labels, name=name, fdr=planning.fdr, seed=planning.seed
            )
        except InputError as error:
            if error.code != "validation-few":
                raise
            return {}, [f"records were not scored: {error.message.rstrip('.')}"]
        step()
        if scored[name].flagged.mean() > MOST_FLAGGED:
            notes.append(
                f"more than half of the records of {name} are flagged: it differs as a whole"
            )
    return scored, notes


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered(Billed):
    """The records of all holders.

    Attributes
    ----------
    measures
        By holder, its records of positive weight.
    status
        Of how many holders.
    """

    measures: Mapping[str, Measure] = field(repr=False)
    status: str

    def to_dict(self) -> dict[str, Any]:
        """How many records there are, and the bill: no record."""
        sizes = {name: measure.size for name, measure in self.measures.items()}
        return {"records": sizes, "status": self.status, **self._bill_dict()}


class Gathering(Joint[Gathered]):
    """Ask every holder for its records, with their labels where these count.

    Returns
    -------
    Protocol[Gathered]
        Discloses every record, once.

    Raises
    ------
    InputError
        ``labels-absent``, of a holder without labels.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0], [1.0]]})
    >>> fed.run(Gathering().among(["a"])).measures["a"]
    Measure(2 records, 1 features)
    """

    name = "gathering"

    labels: bool = option("Labels too.", truth(), default=False, flag=False)

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Gathered]:
        names = tuple(holders)
        return Protocol(
            self.name,
            names,
            self.disclosure,
            lambda: self._steps(names),
            self.values("labels"),
            expected_rounds=2,
        )

    def _steps(self, names: tuple[str, ...]) -> Steps[Gathered]:
        first = ClassSizes() if self.labels else Describe()
        answers = yield dict.fromkeys(names, first)
        replies = {name: required(answers, name) for name in names}
        classes: list[str] = []
        if self.labels:
            texts = [str(answer.scalars.get("classes", "")) for answer in replies.values()]
            classes = sorted({kind for text in texts for kind in decode_classes(text)})
        question = LabelledRecords(classes=encode_classes(classes) if classes else "")
        answers = yield dict.fromkeys(names, question)
        measures: dict[str, Measure] = {}
        for name in names:
            answer = required(answers, name)
            points = answer.array("points", ndim=2)
            labels = None
            if self.labels:
                codes = answer.arrays["codes"]
                sound = codes.dtype.kind == "i" and codes.shape == (len(points),)
                if not sound or codes.min() < 0 or codes.max() >= len(classes):
                    raise build_misfit_error()
                labels = np.array(classes)[codes]
            measures[name] = Measure(points, read_weights(answer, len(points)), labels)
        agree_on_dimension({name: measure.dimension for name, measure in measures.items()})
        return Gathered(measures=measures, status=f"the records of {len(names)} holders")
