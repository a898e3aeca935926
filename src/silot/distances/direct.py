"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from silot_transport import ExactPlan, TwoSampleResult, exact_plan
from silot_transport.bounded import fitting_plan
from silot_transport.decomposition import canonical_order, decompose

from ..data.measure import Embedding
from ..errors import InputError
from ..federation.answer import Answer, Array, build_malformed_error
from ..federation.protocol import Steps, ask, required
from ..federation.question import Answerer, Names, Question
from ..options import count, option
from .cost_parts import Parts
from .methods import Pairwise, Sides, build_pair
from .questions import Codes, Records, count_features, decode_classes
from .result import Distance
from .shared_options import switch
from .sides import agree_on_dimension
from .verdict import compare

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
        if self.why:
            return (yield from self._explain(sides))
        answers = yield from sides.ask(Records(embedding=self.embedding))
        first, second = map(read_cloud, answers)
        # Records come before sizes do, so that dimensions are checked here.
        agree_on_dimension(
            {side: c[0].shape[1] for side, c in zip(sides.names, (first, second), strict=True)}
        )
        # Exact where the costs fit into memory; else a plan within a hundredth of the optimum, as
        # its dual bound shows.
        plan = fitting_plan(first[0], second[0], first[1], second[1], self.p)
        # Both sides are here, so the test costs no further question.
        verdict = self._compare(first, second, *map(read_labels, answers))
        return build_distance(plan, sides.names, self.p, self.seed, verdict)

    def _compare(
        self, first: Cloud, second: Cloud, x_labels: Names | None, y_labels: Names | None
    ) -> TwoSampleResult:
        # When somebody reads it: for small records the test takes longer than the distance.
        return TwoSampleResult.later(
            lambda: compare(
                (*first, x_labels), (*second, y_labels), self.embedding,
                permutations=self.permutations, seed=self.seed,
            )
        )  # fmt: skip

    def _explain(self, sides: Sides) -> Steps[Distance]:
        x, y = yield from request_records(sides.names, self.embedding, sides.own)
        agree_on_dimension(
            {side: c.atoms.shape[1] for side, c in zip(sides.names, (x, y), strict=True)}
        )
        plan = x.compute_plan(y)
        parts = x.break_down(y, plan, self.embedding)
        verdict = self._compare((x.atoms, x.weights), (y.atoms, y.weights), x.labels, y.labels)
        return replace(build_distance(plan, sides.names, self.p, self.seed, verdict), parts=parts)


direct = build_pair(Direct)


def read_cloud(answer: Answer) -> Cloud:
    """Read the points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def read_classes(answer: Answer) -> tuple[tuple[str, ...], Codes]:
    """Read the classes that a holder sent with its records, and the code of each record."""
    # A holder without labels sends none, and all its records are of one class.
    size, text = len(answer.array("points", ndim=2)), answer.scalars.get("classes")
    if not text:
        return (), np.zeros(size, dtype=np.int64)
    classes = tuple(decode_classes(str(text)))
    return classes, _read_codes(answer, size, len(classes))


def read_labels(answer: Answer) -> Names | None:
    """Read the labels that a holder sent with its records; ``None`` where it sent none."""
    # Parts are by the classes of the first side; the other's names are for the verdict.
    classes, codes = read_classes(answer)
    return np.array(classes)[codes] if classes else None


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
class OrderedRecords:
    """Records of one side in the order of their values, with their classes where they have any.

    The order makes plans, and the parts of their costs, independent of the order of records.
    """

    atoms: Array
    weights: Array
    codes: Codes
    classes: tuple[str, ...] = ()

    @property
    def labels(self) -> Names | None:
        """Name of the class of each record."""
        return np.array(self.classes)[self.codes] if self.classes else None

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


def request_records(
    sides: tuple[str, str], embedding: Embedding, own: Answerer | None
) -> Steps[tuple[OrderedRecords, OrderedRecords]]:
    """Request the records of both sides; of the first with classes, where labels are compared."""
    questions: dict[str, Question] = {side: Records(embedding=embedding) for side in sides}
    answers = yield from ask(questions, own)
    clouds: list[OrderedRecords] = []
    for side in sides:
        answer = required(answers, side)
        # Checked before anything is computed of them: arrays from the wire have any shape.
        points, weights = read_cloud(answer)
        classes, codes = read_classes(answer)
        if len(weights) != len(points):
            raise build_malformed_error("weights of another number of records than it has")
        clouds.append(OrderedRecords.of(points, weights, codes, classes))
    return clouds[0], clouds[1]


def _read_codes(answer: Answer, size: int, classes: int) -> Codes:
    codes = answer.arrays.get("codes")
    fits = codes is not None and codes.dtype == np.int64 and codes.shape == (size,)
    if codes is None or not fits or codes.min() < 0 or codes.max() >= classes:
        raise build_malformed_error("codes of no class")
    return codes
