"""Questions about how suspect records are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from silot_transport import calibrated_gradient
from silot_transport.bounded import fitting_plan

from ...distances.questions import check_shared_labels, encode_labels
from ...errors import MismatchError, WireError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.question import Array, Bytes, Codes, Names, Question, register
from ..copies import Nearness
from ..features import Broken
from ..forests import Forest
from ..labels import Experts
from ..screen import Screen, Screened


@dataclass(frozen=True, kw_only=True)
class ScreenModels(Question):
    """A question that brings models of clean records along, and the records they compare with.

    ``silot.records`` says what they are.
    """

    points: Array
    point_weights: Array
    classes: str
    codes: Codes
    shares: Array
    feature: Codes
    right: Codes
    threshold: Array
    leaves: Bytes
    roots: Codes
    centres: Array
    pull: Array
    base: Array
    width: float
    slopes: Array
    heights: Array
    pool: Array
    broken: Array
    broken_height: float
    sound: Array
    nearness: Array
    dimension: float
    least: float

    @classmethod
    def of(cls, screen: Screen, classes: str, **options: Any) -> Self:
        """Pack models, and the other fields of a question, into one."""
        experts = screen.experts
        none, table = np.zeros(0), np.zeros((0, 0))
        codes = np.zeros(0, dtype=np.int64)
        leaves = np.zeros((0, 0), dtype=np.uint8)
        forest = Forest(codes, codes, none, leaves, codes) if experts is None else experts.forest
        if experts is None:
            experts = Experts(forest, table, table, none, 1.0, table, none, codes, none)
        return cls(
            points=screen.points,
            point_weights=screen.weights,
            classes=classes if len(experts.base) else "",
            codes=experts.codes,
            shares=screen.shares,
            feature=forest.feature,
            right=forest.right,
            threshold=forest.threshold,
            leaves=forest.shares,
            roots=forest.roots,
            centres=experts.centres,
            pull=experts.pull,
            base=experts.base,
            width=experts.width,
            slopes=experts.slopes,
            heights=experts.heights,
            pool=experts.pool,
            broken=np.stack([screen.broken.slopes, screen.broken.ceilings]),
            broken_height=screen.broken.height,
            sound=screen.sound,
            nearness=screen.nearness.logs,
            dimension=screen.nearness.dimension,
            least=screen.nearness.least,
            **options,
        )

    @property
    def compared(self) -> int:
        """How many records it brings."""
        return len(self.points)

    def screen(self) -> Screen:
        """Unpack the models; what is not a model is a ``WireError``."""
        experts = None
        if self.classes:
            forest = Forest(self.feature, self.right, self.threshold, self.leaves, self.roots)
            experts = Experts(
                forest, self.centres, self.pull, self.base, self.width, self.slopes, self.heights,
                self.codes, self.pool,
            )  # fmt: skip
        screen = Screen(
            self.points,
            self.point_weights,
            experts,
            self.shares,
            Broken(*_rows(self.broken), self.broken_height),
            self.sound,
            Nearness(self.nearness, self.dimension, self.least),
        )
        screen.check()
        return screen


def _rows(table: Array) -> tuple[Array, Array]:
    if table.ndim != 2 or len(table) != 2:
        raise WireError("the weights of the parts are not valid.", code="question-fields")
    return table[0], table[1]


@dataclass(frozen=True, kw_only=True)
class ScreenRecords(ScreenModels):
    """How suspect every record is, by models of the coordinator's validation records.

    It brings these records and the models along.
    """

    kind: ClassVar[str] = "screen-records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    fdr: float
    seed: int

    def screened(self, points: Array, weights: Array, labels: Names | None) -> Screened:
        """Return what is found of records."""
        screen = self.screen()
        if not 0.0 <= self.fdr < 1.0:
            raise WireError("fdr is not a share.", code="question-fields")
        if screen.points.shape[1] != points.shape[1]:
            raise MismatchError(
                "the validation records have another number of features than the records.",
                code="dimension-mismatch",
            )
        codes = None
        if self.classes:
            codes, listed, _ = encode_labels(labels, self.classes, len(points))
            if listed != screen.classes:
                raise WireError("the classes do not fit the models.", code="question-fields")
            check_shared_labels(codes, weights, listed)
        return screen(points, weights, codes, fdr=self.fdr, seed=self.seed)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        screened = self.screened(points, weights, labels)
        return Answer({**vars(screened), "weights": weights})


@dataclass(frozen=True, kw_only=True)
class ScoreRecords(Question):
    """Gradients of the cost of the transport to a target: one number for each record."""

    kind: ClassVar[str] = "score-records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    target: Array
    target_weights: Array

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        if self.target.ndim != 2 or self.target.shape[1] != points.shape[1]:
            raise MismatchError(
                "the target has another number of features than the records.",
                code="dimension-mismatch",
            )
        plan = fitting_plan(points, self.target, weights, self.target_weights, 2)
        return Answer(
            {"gradients": calibrated_gradient(plan.potentials[0], weights), "weights": weights},
            {"converged": plan.optimal},
        )


register(ScreenRecords, ScoreRecords)
