"""The rounds of the sketch: a noisy count where sizes are private, and one release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data.measure import Embedding, Measure
from ...errors import InputError, MismatchError
from ...federation.answer import Failure
from ...federation.protocol import COORDINATOR, Answers, Steps, failure_error, required
from ...federation.question import Answerer
from ...privacy.accounting import epsilon_of
from ...privacy.calibrate import Calibration
from ...privacy.cells import (
    FEWEST_CELLS,
    MOST_CELLS,
    Cells,
    Public,
    nearest,
    public_law,
)
from ...privacy.compare import Rate, rate_of
from ...privacy.quadtree import DEEPEST, Tree, tree_cells
from ...privacy.sketch import Array, Codes, Reading, decode
from ..questions.labelled import LabelledRecords, encode_classes
from .derived import LEAST_NU, DecodedSketches, Page
from .questions import FINEST, CountRecords, SketchPeriod, SketchRecords, SketchTree
from .releasing import Releasing
from .result import Sketches

# Part of the squared budget that goes to the number of records, when it is not public.
_FOR_COUNT = 0.02
# Largest number that is believed in an answer.
_MOST = 2**53
# Part of the variance of public records that is much for one in a hundred: of normal records it
# has 2 to 8 %.
_HEAVY = 0.2
# Sizes a sketch comes in. Few of them: a noisy count moves the size less often, and the question
# with it, which a ledger would charge again.
_SIZES = (8, 11, 16, 22, 32, 45, 64, 90, 128)


@dataclass(frozen=True)
class SketchPlan:
    """One run: options, holders, and what is public about records."""

    holders: tuple[str, ...]
    own: Answerer | None
    sample: Array = field(repr=False)
    drawn: bool
    box: tuple[Array, Array] | None
    classes: tuple[str, ...]
    prior_codes: npt.NDArray[np.str_] | None
    options: Releasing
    seed: int
    embedding: Embedding
    periods: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def asks_count(self) -> bool:
        """Whether some of the budget goes to the number of records."""
        return self.options.size is None and self.options.cells is None

    def start(self) -> Steps[Sketches]:
        mu, least = self.options.mu, self.options.size
        if self.asks_count:
            mu = self.options.mu * (1.0 - _FOR_COUNT) ** 0.5
            least = yield from self._count()
        if least is not None:
            self._check_size(least, mu)
        geometry = self._tree(least or 0, mu) if self.box else self._cells(least or 0, mu)
        asked = geometry.question
        answers = yield {name: of_period(asked, self.periods.get(name)) for name in self.holders}
        pages: dict[str, Page] = {}
        for name in self.holders:
            vector = integers_of(answers, name, "sketch", geometry.width)
            pages[name] = geometry.page(vector, mu)
        if self.own is not None:
            # Nothing bounds what its own records may weigh, so count them finely.
            fine = replace(geometry.question, mass_limit=1.0, resolution=FINEST)
            own = replace(geometry, question=fine)
            pages[COORDINATOR] = own.page(self._own(self.own, fine), np.inf)
        return self._result(pages, geometry, mu)

    def _cells(self, records: int, mu: float) -> _CellSketch:
        size = self._count_of(records, mu)
        cells = Cells.of_sample(self.sample, size, self.seed, drawn=self.drawn)
        question = SketchRecords(
            centres=cells.centres,
            radius=cells.radius,
            radius2=cells.radius2,
            classes=encode_classes(list(self.classes)) if self.classes else "",
            mass_limit=self.options.limit,
            privacy_mu=mu,
        )
        groups = len(self.classes) + 1 if self.classes else 1
        return _CellSketch(cells, question, self._prior(cells), groups)

    def _tree(self, records: int, mu: float) -> _TreeSketch:
        """A finest square for every unit of nu, and one level more: empty ones stay whole."""
        assert self.box is not None
        depth = int(np.clip(np.log(max(records * mu, 1.0)) / np.log(4.0) + 1.0, 2, DEEPEST))
        question = SketchTree(
            low=self.box[0],
            high=self.box[1],
            depth=depth,
            mass_limit=self.options.limit,
            privacy_mu=mu,
        )
        return _TreeSketch(tree_cells(*self.box, depth, self.sample), question)

    def _count(self) -> Steps[int]:
        """Noisy number of records of the smallest holder."""
        question = CountRecords(
            privacy_mu=self.options.mu * _FOR_COUNT**0.5, mass_limit=self.options.limit
        )
        answers = yield dict.fromkeys(self.holders, question)
        counts = [int(integers_of(answers, name, "count", 1)[0]) for name in self.holders]
        return max(round(min(counts) / question.resolution), 0)

    def _check_size(self, records: int, mu: float) -> None:
        if records * mu >= LEAST_NU:
            return
        needed = int(np.ceil(LEAST_NU / mu))
        epsilon, delta = self.options.privacy_epsilon, self.options.privacy_delta
        enough = epsilon_of(LEAST_NU / records, delta) if records > 0 else np.inf
        told = " That number was released, and is charged." if self.asks_count else ""
        other = f", or privacy_epsilon of {enough:.2g} or more" if enough < 50 else ""
        raise InputError(
            f"the smallest holder has about {records} records: too few for a sketch at "
            f"privacy_epsilon {epsilon:g}. About {needed} records would do{other}.{told}",
            code="sketch-small",
        )

    def _count_of(self, records: int | None, mu: float) -> int:
        """How many cells."""
        return self.options.cells or cells_for(len(self.sample), records, mu)

    def _public_rows(self) -> Codes | None:
        """Class of every public record, where they have classes."""
        if not self.classes or self.prior_codes is None:
            return None
        position = {name: k for k, name in enumerate(self.classes)}
        other = len(self.classes)
        return np.array([position.get(name, other) for name in self.prior_codes.tolist()])

    def _prior(self, cells: Cells) -> Array | None:
        """Public masses by class and cell, where public records have classes."""
        rows = self._public_rows()
        if rows is None:
            return None
        places, _ = nearest(self.sample, cells.centres)
        found = np.zeros((len(self.classes) + 1, cells.size))
        np.add.at(found, (rows, places), 1.0)
        return found / found.sum()

    def _calibration(
        self, geometry: _CellSketch | _TreeSketch, rate: Rate, mu: float
    ) -> Calibration | None:
        """What estimates are corrected by: nothing, where no public record tells."""
        rows = self._public_rows()
        if self.drawn or isinstance(geometry, _TreeSketch) or (self.classes and rows is None):
            return None
        return Calibration.of(
            self.sample,
            rows,
            classes=geometry.groups,
            embedding=self.embedding,
            cells=geometry.cells,
            prior=geometry.prior,
            mu=mu,
            rate=rate,
            seed=self.seed,
        )

    def _own(self, own: Answerer, question: SketchRecords | SketchTree) -> Codes:
        """The coordinator's own records, sketched without noise."""
        classes = question.classes if isinstance(question, SketchRecords) else ""
        asked = LabelledRecords(classes=classes)
        answer = required({COORDINATOR: own.answer(asked)}, COORDINATOR)
        points, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        if points.shape[1] != self.sample.shape[1]:
            raise MismatchError(
                f"the coordinator's own measure has {points.shape[1]} features and the public "
                f"sample {self.sample.shape[1]}.",
                code="dimension-mismatch",
            )
        names = None
        if self.classes:
            known = np.array([*self.classes, "\0"])
            names = known[np.minimum(answer.arrays["codes"], len(self.classes))]
        # Its own weights need no public limit: they are relative to the largest.
        return question.exact(points, weights / weights.max(), names)

    def _result(
        self, pages: Mapping[str, Page], geometry: _CellSketch | _TreeSketch, mu: float
    ) -> Sketches:
        cells = geometry.cells
        decoded = {name: pages[name].decoded for name in self.holders}
        nu = mu * min(found.records for found in decoded.values())
        rate = rate_of(self.sample, cells, self.seed)
        book = DecodedSketches(
            names=self.holders,
            pages=pages,
            cells=cells,
            rate=rate,
            classes=self.classes,
            embedding=self.embedding,
            nu=nu,
            seed=self.seed,
            calibration=self._calibration(geometry, rate, mu),
            tails=tails_of(self.sample),
            sample=self.sample,
        )
        return Sketches(
            names=self.holders,
            measures={name: book.measure(name) for name in self.holders},
            records={name: found.records for name, found in decoded.items()},
            scatter={name: found.scatter for name, found in decoded.items()},
            cells=cells.size,
            nu=nu,
            privacy_epsilon=self.options.privacy_epsilon,
            privacy_delta=self.options.privacy_delta,
            spent_mu=self.options.mu,
            status=book.status,
            seed=self.seed,
            book=book,
        )


@dataclass(frozen=True, eq=False)
class _CellSketch:
    """Cells, the question about them, and how to read its answer."""

    cells: Cells
    question: SketchRecords
    prior: Array | None
    groups: int

    @property
    def width(self) -> int:
        """Numbers in an answer."""
        return self.groups * self.cells.size + self.cells.dimension + 1

    def page(self, vector: Codes, mu: float) -> Page:
        """Read and decode an answer."""
        reading = Reading.of(
            vector, self.cells, mu, count=self.groups, resolution=self.question.resolution
        )
        return Page(decode(reading, self.cells, self.prior), reading)


@dataclass(frozen=True, eq=False)
class _TreeSketch:
    """A quadtree, the question about it, and how to read its answer."""

    cells: Cells
    question: SketchTree

    @property
    def width(self) -> int:
        """Numbers in an answer."""
        return sum(4**level for level in range(1, self.question.depth + 1))

    def page(self, vector: Codes, mu: float) -> Page:
        """Read and decode an answer."""
        tree = Tree.of(vector, self.question.depth, mu, self.question.resolution)
        return Page(tree.decode(self.cells))


def of_period(
    question: SketchRecords | SketchTree, period: str | None
) -> SketchRecords | SketchTree:
    """The question of a period, where one is named."""
    if period is None:
        return question
    if not isinstance(question, SketchRecords):
        raise InputError(
            "a period takes cells of public records, or a number of cells. Give cells=.",
            code="option-period",
        )
    values = {item.name: getattr(question, item.name) for item in fields(question)}
    return SketchPeriod(**values, period=period)


def tails_of(sample: Array) -> str:
    """Words about public records of which few have most of the variance."""
    squares = ((sample - sample.mean(axis=0)) ** 2).sum(axis=1)
    far = np.sort(squares)[-max(len(squares) // 100, 1) :]
    share = float(far.sum() / squares.sum()) if squares.sum() > 0 else 0.0
    if share < _HEAVY:
        return ""
    return (
        f". They have heavy tails (one in a hundred has {100 * share:.0f} % of the variance): the "
        "estimate is of records cut off at the public range (take logarithms or ranks first)"
    )


def public_box(
    public: Public | None, mean: npt.ArrayLike | None, scale: npt.ArrayLike | None
) -> tuple[Array, Array] | None:
    """Corners of the box a quadtree parts: two features without a sample."""
    if public is not None or mean is None or scale is None:
        return None
    middle, spread = public_law(mean, scale)
    return (middle - 4.0 * spread, middle + 4.0 * spread) if len(middle) == 2 else None


def class_names(public: Public | None) -> npt.NDArray[np.str_] | None:
    """Labels of public records, where they have any."""
    return public.names if isinstance(public, Measure) else None


def public_classes(public: Public | None, classes: Sequence[object] | None) -> tuple[str, ...]:
    """Public class names; those of a holder would tell which classes it has."""
    if classes is not None:
        # By the rule of measures: 3, 3.0 and "3" are one.
        given: npt.NDArray[Any] = np.asarray(classes)
        named = Measure(np.zeros((len(given), 1)), labels=given).names
    else:
        named = class_names(public)
    if named is None:
        raise InputError(
            "labels need public classes. Give classes=[...], or a labelled Measure as public.",
            code="sketch-classes",
        )
    return tuple(sorted(set(named.tolist())))


def integers_of(answers: Answers, name: str, field: str, width: int) -> Codes:
    """A vector of so many whole numbers from an answer, which may come from anybody."""
    found = required(answers, name).arrays.get(field)
    fits = found is not None and found.dtype == np.int64 and found.shape == (width,)
    # Beyond that, sums of what it tells are no longer exact, and no count is as large.
    if found is None or not fits or found.min() < -_MOST or found.max() > _MOST:
        raise failure_error(name, Failure("answer-malformed"))
    return found


def cells_for(public: int, records: int | None, mu: float) -> int:
    """How many cells, for so many public records and records in a sketch."""
    # Centres of few public records each are off by chance, and holders in different cells
    # then seem further apart: eight a cell, where three would do.
    most = float(np.clip(public // 8, FEWEST_CELLS, MOST_CELLS))
    wanted = min(max((records or 0) * mu / 6.0, FEWEST_CELLS), most)
    return max(size for size in _SIZES if size <= wanted)
