"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from silot_transport import ExactPlan, exact_plan
from silot_transport.auction import fitting_plan
from silot_transport.chance import chance_distance
from silot_transport.decomposition import canonical_order, decompose

from ..data.measure import Embedding
from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.protocol import Steps, ask, required
from ..federation.question import Answerer, Question
from .cost_parts import Parts
from .methods import Pairwise, Sides
from .questions import (
    ClassSizes,
    Codes,
    LabelledRecords,
    Records,
    count_features,
    decode_classes,
    encode_classes,
)
from .result import Distance, describe_chance
from .shared_options import switch
from .sides import agree_on_dimension, build_malformed_error

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
        ``chance`` is what two samples of one law stay below.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0]], "b": [[2.0]]})
    >>> fed.run(Direct().between("a", "b")).value
    2.0
    """

    name = "direct"
    sends = "all records to the coordinator"
    needs = "one round; records pooled at the coordinator"
    guarantees = "exact W, proven by primal and dual value"
    privacy = "none: it sends the records"

    why: bool = switch(
        "Tell what the squared distance is made of, as ``parts`` of the result. Of records that "
        "are sent anyway; with labels the first holder tells the classes of its records as well. "
        "Needs ``p`` 2: the distance itself is no sum over columns.",
        brief="What distances are made of, by column and class.",
    )

    def fit(self) -> None:
        if self.why and self.p != 2:
            raise InputError(
                "why is for p = 2: a distance of order 1 is no sum over columns. Give p=2, or "
                "leave why out.",
                code="option-why",
            )

    @property
    def most_rounds(self) -> int:
        return 1 + (self.why and self.embedding != "none")

    def steps(self, sides: Sides) -> Steps[Distance]:
        if self.why:
            return (yield from self._explain(sides))
        first, second = map(read_cloud, (yield from sides.ask(Records(embedding=self.embedding))))
        # Records come before sizes do, so that dimensions are checked here.
        agree_on_dimension(
            {side: c[0].shape[1] for side, c in zip(sides.names, (first, second), strict=True)}
        )
        # Exact where the costs fit into memory; else a plan within a hundredth of the optimum, as
        # its dual bound shows.
        plan = fitting_plan(first[0], second[0], first[1], second[1], self.p)
        return build_distance(
            plan, sides.names, self.p, self.seed, _compute_chance(first, second, self.p)
        )

    def _explain(self, sides: Sides) -> Steps[Distance]:
        x, y = yield from request_records(sides.names, self.embedding, sides.own)
        agree_on_dimension(
            {side: c.atoms.shape[1] for side, c in zip(sides.names, (x, y), strict=True)}
        )
        plan = x.compute_plan(y)
        parts = x.break_down(y, plan, self.embedding)
        chance = _compute_chance((x.atoms, x.weights), (y.atoms, y.weights), self.p)
        return replace(build_distance(plan, sides.names, self.p, self.seed, chance), parts=parts)


direct = Direct.build


def read_cloud(answer: Answer) -> Cloud:
    """Read the points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def compute_exact_distance(
    first: Cloud, second: Cloud, sides: tuple[str, str], p: int, seed: int
) -> Distance:
    """Compute the exact ``W_p`` of two clouds, between the values of its plan and its dual."""
    return build_distance(fitting_plan(first[0], second[0], first[1], second[1], p), sides, p, seed)


def build_distance(
    plan: ExactPlan, sides: tuple[str, str], p: int, seed: int, chance: float | None = None
) -> Distance:
    """Build the distance of a plan: its value, between those of the plan and of its dual."""
    return Distance(
        value=plan.distance,
        # The certified value is rounded independently of both bounds: it must lie between them all
        # the same.
        lower=min(plan.lower, plan.distance),
        upper=max(plan.upper, plan.distance),
        method="direct",
        status=_describe_plan(plan) + describe_chance(plan.distance, chance),
        converged=plan.optimal or _is_close(plan),
        holders=sides,
        p=p,
        seed=seed,
        chance=chance,
    )


def _describe_plan(plan: ExactPlan) -> str:
    # Optimal means proven: primal and dual value agree to rounding, not only that the solver ended.
    if plan.optimal:
        return "converged: exact, proven by the dual bound"
    return f"certified: {plan.status}" if _is_close(plan) else plan.status


def _is_close(plan: ExactPlan) -> bool:
    return plan.upper - plan.lower <= _CLOSE * plan.upper


def _compute_chance(first: Cloud, second: Cloud, order: int) -> float | None:
    # One class for all: labels, where compared, are among the coordinates.
    x, y = (
        (cloud, masses / masses.sum(), np.zeros(len(cloud), dtype=np.int64))
        for cloud, masses in (first, second)
    )
    return chance_distance(x, y, None, p=order)


@dataclass(frozen=True, eq=False)
class OrderedRecords:
    """Records of one side in the order of their values, with their classes where they have any.

    The order makes plans, and the parts of their costs, independent of the order of records.
    """

    atoms: Array
    weights: Array
    codes: Codes
    classes: tuple[str, ...] = ()

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
    classes: list[str] = []
    questions: dict[str, Question] = {side: Records(embedding=embedding) for side in sides}
    first = sides[0]
    if embedding != "none":
        # Names of classes come from the first side alone: parts are told by its classes, and the
        # other may have none.
        answers = yield {first: ClassSizes()}
        classes = decode_classes(str(required(answers, first).scalars.get("classes")))
        questions[first] = LabelledRecords(classes=encode_classes(classes), embedding=embedding)
    answers = yield from ask(questions, own)
    received = [required(answers, side) for side in sides]
    # Checked before anything is computed of them: arrays from the wire have any shape.
    points = [answer.array("points", ndim=2) for answer in received]
    weights = [answer.array("weights", ndim=1) for answer in received]
    codes = [np.zeros(len(cloud), dtype=np.int64) for cloud in points]
    if classes:
        codes[0] = _read_codes(received[0], len(points[0]), len(classes))
    for cloud, masses in zip(points, weights, strict=True):
        if len(masses) != len(cloud):
            raise build_malformed_error("weights of another number of records than it has")
    return (
        OrderedRecords.of(points[0], weights[0], codes[0], classes),
        OrderedRecords.of(points[1], weights[1], codes[1]),
    )


def _read_codes(answer: Answer, size: int, classes: int) -> Codes:
    codes = answer.arrays.get("codes")
    fits = codes is not None and codes.dtype == np.int64 and codes.shape == (size,)
    if codes is None or not fits or codes.min() < 0 or codes.max() >= classes:
        raise build_malformed_error("codes of no class")
    return codes
