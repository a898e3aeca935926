"""What distances are made of: from records, from what holders tell, and from sketches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from silot_transport import ExactPlan, exact_plan
from silot_transport.decomposition import canonical_order, decompose

from ..data.measure import Embedding
from ..errors import WireError
from ..federation.answer import Answer, Array
from ..federation.protocol import Steps, ask, required
from ..federation.question import Answerer, Question
from ..privacy.cells import Cells
from ..privacy.compare import class_coordinates
from ..privacy.sketch import Decoded
from .cost_parts import Parts
from .questions.distances import Records
from .questions.labelled import ClassSizes, Codes, LabelledRecords, decode_classes, encode_classes
from .questions.parts import features_of

# Mean offset, in lengths that offsets are clipped to, beyond which many records must be clipped.
_BEYOND = 0.5
# Part of a squared distance by which the sum of its parts may miss it.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Cloud:
    """Records of one side in an order of their values, with the classes of those that have any."""

    atoms: Array
    weights: Array
    codes: Codes
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, points: Array, weights: Array, codes: Codes, classes: Sequence[str] = ()) -> Cloud:
        """Put records in order."""
        order = canonical_order(points, weights, codes)
        return cls(points[order], weights[order], codes[order], tuple(classes))

    @property
    def _place(self) -> tuple[int, bytes, bytes]:
        return len(self.atoms), self.atoms.tobytes(), self.weights.tobytes()

    def plan_to(self, other: Cloud) -> ExactPlan:
        """An optimal plan: the same from either side, where there are several."""
        if self._place <= other._place:
            return exact_plan(self.atoms, other.atoms, self.weights, other.weights)
        plan = exact_plan(other.atoms, self.atoms, other.weights, self.weights)
        return replace(plan, rows=plan.cols, cols=plan.rows, potentials=plan.potentials[::-1])

    def parts_to(
        self, other: Cloud, plan: ExactPlan, embedding: Embedding, of: str = "records"
    ) -> Parts:
        """Parts of the cost of a plan, by the classes of this side."""
        found = decompose(
            plan,
            self.atoms,
            other.atoms,
            self.weights,
            features=features_of(self.atoms.shape[1], embedding),
            codes=self.codes,
            classes=max(len(self.classes), 1),
        )
        return Parts.of_costs(
            found.columns,
            found.labels if embedding != "none" else None,
            classes=self.classes,
            class_costs=found.classes if self.classes else None,
            masses=found.masses,
            of=of,
        )


def asked_clouds(
    sides: tuple[str, str], embedding: Embedding, own: Answerer | None
) -> Steps[tuple[Cloud, Cloud]]:
    """Records of both sides; of the first with their classes, where labels are compared."""
    classes: list[str] = []
    questions: dict[str, Question] = {side: Records(embedding=embedding) for side in sides}
    first = sides[0]
    if embedding != "none":
        answers = yield {first: ClassSizes()}
        classes = decode_classes(str(required(answers, first).scalars.get("classes")))
        questions[first] = LabelledRecords(classes=encode_classes(classes), embedding=embedding)
    answers = yield from ask(questions, own)
    told = [required(answers, side) for side in sides]
    points = [answer.array("points", ndim=2) for answer in told]
    weights = [answer.array("weights", ndim=1) for answer in told]
    codes = [np.zeros(len(cloud), dtype=np.int64) for cloud in points]
    if classes:
        codes[0] = _codes(told[0], len(points[0]), len(classes))
    for cloud, masses in zip(points, weights, strict=True):
        if len(masses) != len(cloud):
            raise malformed("weights of another number of records than it has")
    return (
        Cloud.of(points[0], weights[0], codes[0], classes),
        Cloud.of(points[1], weights[1], codes[1]),
    )


def _codes(answer: Answer, size: int, classes: int) -> Codes:
    codes = answer.arrays.get("codes")
    fits = codes is not None and codes.dtype == np.int64 and codes.shape == (size,)
    if codes is None or not fits or codes.min() < 0 or codes.max() >= classes:
        raise malformed("codes of no class")
    return codes


def sketch_parts(
    first: Decoded, second: Decoded, embedding: Embedding, classes: Sequence[str]
) -> Parts:
    """Parts of the cost between the points of cells of two sketches: what was told already."""
    x, y = (cell_cloud(found, embedding, classes) for found in (first, second))
    return x.parts_to(y, x.plan_to(y), embedding, of="cells")


def cell_cloud(found: Decoded, embedding: Embedding, classes: Sequence[str] = ()) -> Cloud:
    """The points of cells of a sketch, with their masses."""
    kinds, cells = np.nonzero(found.weights)
    points = found.atoms[cells]
    if embedding != "none":
        points = np.hstack([points, class_coordinates(found, embedding)[kinds]])
    return Cloud.of(points, found.weights[kinds, cells], kinds, classes)


def column_beyond(measures: Sequence[Array], cells: Cells) -> str | None:
    """The column towards which many records of a sketch lie beyond its cells, if any do.

    Offsets from centres keep their direction where they are clipped: their mean is long only
    where most records have one.
    """
    shifts = [atoms[0] - cells.centres[0] for atoms in measures]
    longest = max(shifts, key=lambda shift: float(shift @ shift))
    if float(longest @ longest) <= (_BEYOND * cells.radius) ** 2:
        return None
    return str(int(np.abs(longest).argmax()))


def malformed(what: str) -> WireError:
    """The error of an answer that has what it must not."""
    return WireError(
        f"the answer has {what}. The holder runs other code, or a broken one.",
        code="answer-malformed",
    )
