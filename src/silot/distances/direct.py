"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from silot_transport import ExactPlan, GroupsResult, TwoSampleResult, exact_plan
from silot_transport.bounded import fitting_plan
from silot_transport.decomposition import canonical_order, decompose

from ..data.measure import Embedding
from ..errors import InputError
from ..federation.answer import Answer, Array, build_malformed_error
from ..federation.protocol import COORDINATOR, Protocol, Steps, ask, required
from ..federation.question import Answerer, Names
from ..federation.result import RunResult
from ..options import count, option
from .cost_parts import Parts
from .methods import Pairwise, Sides, build_pair
from .questions import Codes, Records, count_features, decode_classes
from .result import Distance
from .shared_options import switch
from .sides import agree_on_dimension
from .verdict import compare, compare_several

Cloud = tuple[Array, Array]

# Relative gap of the bounds below which a distance counts as converged.
_CLOSE = 0.01


class Direct(Pairwise):
    """Exact ``W_p`` by sending all records to the coordinator: the baseline.

    Returns
    -------
    Protocol[Distance]
        Discloses every record. Bounds are the primal and dual value of the exact plan; of costs
        that do not fit into memory, of one within a hundredth of it, as ``status`` says.
        ``verdict`` says whether both are samples of one distribution, as far as a test shows.

    Examples
    --------
    >>> from silot.federation import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0]], "b": [[2.0]]})
    >>> fed.run(Direct().between("a", "b")).value
    2.0
    """

    name = "direct"
    sends = "all records to the coordinator"
    needs = "one round; all records are collected at the coordinator"
    guarantees = "exact W, proven by primal and dual value"
    privacy = "none: it sends the records"

    why: bool = switch(
        "Tell what the squared distance is made of, as ``parts`` of the result. It is computed "
        "from records that are sent anyway; with labels also by the classes of the first holder. "
        "Needs ``p`` 2: the distance itself is not a sum over columns.",
        brief="What distances are made of, by column and class.",
    )

    permutations: int = option(
        "Random divisions of the records that the test draws, 19 or more; the "
        "smallest possible p-value is ``1 / (1 + permutations)``.",
        count(19),
        default=199,
        flag=False,
    )

    def fit(self) -> None:
        if self.why and self.p != 2:
            raise InputError(
                "why needs p = 2, because a distance of order 1 is not a sum over columns. Give "
                "p=2, or leave why out.",
                code="option-why",
            )

    def steps(self, sides: Sides) -> Steps[Distance]:
        collected = yield from self._collect(sides.names, sides.own)
        return collected.distance(*sides.names)

    def release(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Collected]:
        names = (*holders, *([] if own is None else [COORDINATOR]))
        return Protocol(
            self.name, tuple(holders), self.disclosure, lambda: self._collect(names, own),
            self.parameters(), expected_rounds=self.most_rounds,
        )  # fmt: skip

    def _collect(self, names: Sequence[str], own: Answerer | None) -> Steps[Collected]:
        answers = yield from ask(dict.fromkeys(names, Records(embedding=self.embedding)), own)
        samples = {name: ReceivedRecords.received(required(answers, name)) for name in names}
        # Records come before sizes do, so that dimensions are checked here.
        agree_on_dimension({name: one.atoms.shape[1] for name, one in samples.items()})
        return Collected(method=self, samples=samples)


@dataclass(frozen=True, kw_only=True)
class Collected(RunResult):
    """Records of all holders at the coordinator, from which all exact distances follow."""

    method: Direct
    samples: Mapping[str, ReceivedRecords] = field(repr=False)
    status: str = ""

    @property
    def value(self) -> int:
        """How many holders there are."""
        return len(self.samples)

    def to_dict(self) -> dict[str, Any]:
        return {"names": list(self.samples), "status": self.status, **self._cost_dict()}

    def distance(self, a: str, b: str) -> Distance:
        """Compute the distance of two holders, or of one and the ``"coordinator"``'s measure."""
        first, second, method = self.samples[a], self.samples[b], self.method
        parts: Parts | None = None
        if method.why:
            x, y = first.ordered(), second.ordered()
            plan = x.compute_plan(y)
            parts = x.break_down(y, plan, method.embedding)
        else:
            # Exact where the costs fit into memory; else a plan within a hundredth of the optimum,
            # as its dual bound shows.
            plan = fitting_plan(first.atoms, second.atoms, first.weights, second.weights, method.p)
        # When somebody reads it: for small records the test takes longer than the distance.
        verdict = TwoSampleResult.later(
            lambda: compare(
                (first.atoms, first.weights, first.labels),
                (second.atoms, second.weights, second.labels), method.embedding,
                permutations=method.permutations, seed=method.seed,
            )
        )  # fmt: skip
        distance = build_distance(plan, (a, b), method.p, method.seed, verdict)
        return distance if parts is None else replace(distance, parts=parts)

    def groups(self, level: float, seed: int) -> GroupsResult:
        """Test which of the samples, in the order of their names, differ in distribution."""
        samples = [self.samples[name] for name in sorted(self.samples)]
        return compare_several(
            [(one.atoms, one.weights) for one in samples],
            [one.labels for one in samples],
            self.method.embedding,
            level=level,
            seed=seed,
        )


direct = build_pair(Direct)


def read_cloud(answer: Answer) -> Cloud:
    """Read the points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def compute_exact_distance(
    first: Cloud, second: Cloud, sides: tuple[str, str], p: int, seed: int
) -> Distance:
    """Compute the exact ``W_p`` of two clouds, between the values of its plan and its dual."""
    return build_distance(fitting_plan(first[0], second[0], first[1], second[1], p), sides, p, seed)


def build_distance(
    plan: ExactPlan,
    sides: tuple[str, str],
    p: int,
    seed: int,
    verdict: TwoSampleResult | None = None,
) -> Distance:
    """Build the distance of a plan: its value, between those of the plan and of its dual."""
    return Distance(
        value=plan.distance,
        # The certified value is rounded independently of both bounds: it must lie between them all
        # the same.
        lower=min(plan.lower, plan.distance),
        upper=max(plan.upper, plan.distance),
        method="direct",
        status=_describe_plan(plan),
        converged=plan.optimal or _is_close(plan),
        holders=sides,
        p=p,
        seed=seed,
        test=verdict,
    )


def _describe_plan(plan: ExactPlan) -> str:
    # Optimal means proven: primal and dual value agree to rounding, not only that the solver ended.
    if plan.optimal:
        return "converged: exact, proven by the dual bound"
    return f"certified: {plan.status}" if _is_close(plan) else plan.status


def _is_close(plan: ExactPlan) -> bool:
    return plan.upper - plan.lower <= _CLOSE * plan.upper


@dataclass(frozen=True, eq=False)
class ReceivedRecords:
    """Records of one side, with their classes where they have any."""

    atoms: Array
    weights: Array
    codes: Codes
    classes: tuple[str, ...] = ()

    @classmethod
    def received(cls, answer: Answer) -> ReceivedRecords:
        """Read the records that a holder sent; one without labels has all of one class."""
        # Checked before anything is computed of them: arrays from the wire have any shape.
        points, weights = read_cloud(answer)
        if len(weights) != len(points):
            raise build_malformed_error("weights of another number of records than it has")
        text = answer.scalars.get("classes")
        classes = tuple(decode_classes(str(text))) if text else ()
        codes = np.zeros(len(points), dtype=np.int64)
        return cls(
            points,
            weights,
            _read_codes(answer, len(points), len(classes)) if classes else codes,
            classes,
        )

    @property
    def labels(self) -> Names | None:
        """Name of the class of each record."""
        # Parts are by the classes of the first side; the other's names are for the verdict.
        return np.array(self.classes)[self.codes] if self.classes else None

    def ordered(self) -> OrderedRecords:
        """Return the records in the order of their values."""
        return OrderedRecords.of(self.atoms, self.weights, self.codes, self.classes)


@dataclass(frozen=True, eq=False)
class OrderedRecords(ReceivedRecords):
    """Records in the order of their values.

    The order makes plans, and the parts of their costs, independent of the order of records.
    """

    @classmethod
    def of(
        cls, points: Array, weights: Array, codes: Codes, classes: Sequence[str] = ()
    ) -> OrderedRecords:
        """Put records in the order of their values."""
        order = canonical_order(points, weights, codes)
        return cls(points[order], weights[order], codes[order], tuple(classes))

    @property
    def _rank(self) -> tuple[int, bytes, bytes]:
        # Any total order of contents does, as long as both callers see the same one: size decides
        # mostly, bytes only between sides of one size.
        return len(self.atoms), self.atoms.tobytes(), self.weights.tobytes()

    def compute_plan(self, other: OrderedRecords) -> ExactPlan:
        """Compute an optimal plan: the same one from either side, where several are optimal."""
        if self._rank <= other._rank:
            return exact_plan(self.atoms, other.atoms, self.weights, other.weights)
        # Solved from the other side and turned round. Several plans may be optimal, and which of
        # them a solver finds depends on which side is first.
        plan = exact_plan(other.atoms, self.atoms, other.weights, self.weights)
        return replace(plan, rows=plan.cols, cols=plan.rows, potentials=plan.potentials[::-1])

    def break_down(
        self, other: OrderedRecords, plan: ExactPlan, embedding: Embedding, of: str = "records"
    ) -> Parts:
        """Break the cost of a plan down by column, and by the classes of this side."""
        # The plan is one, so that its parts sum to its cost exactly; parts of two plans of equal
        # cost could not be compared.
        costs = decompose(
            plan,
            self.atoms,
            other.atoms,
            self.weights,
            features=count_features(self.atoms.shape[1], embedding),
            codes=self.codes,
            classes=max(len(self.classes), 1),
        )
        return Parts.of_costs(
            costs.columns,
            costs.labels if embedding != "none" else None,
            classes=self.classes,
            class_costs=costs.classes if self.classes else None,
            masses=costs.masses,
            of=of,
        )


def _read_codes(answer: Answer, size: int, classes: int) -> Codes:
    codes = answer.arrays.get("codes")
    fits = codes is not None and codes.dtype == np.int64 and codes.shape == (size,)
    if codes is None or not fits or codes.min() < 0 or codes.max() >= classes:
        raise build_malformed_error("codes of no class")
    return codes
