"""Questions of the sketch: how many records, and where they lie among public cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from ...errors import InputError, MismatchError, WireError
from ...federation.answer import Answer, Failure
from ...federation.protocol import Answers, failure_error, required
from ...federation.question import Array, Codes, Names, register
from ...federation.release import Release
from ...privacy.cells import Cells
from ...privacy.quadtree import DEEPEST, tree_counts, tree_sensitivity
from ...privacy.sketch import RESOLUTION, Geometry, encode, sensitivity
from ...privacy.summary import Block, Sizes, Summary, ToTarget, Waves
from ..questions import decode_classes, encode_classes

# Steps of the integer grid: fewer would round records away, more would overflow sums.
_COARSEST, FINEST = 16, 1 << 20
# Radii whose squares are neither lost nor infinite: offsets are clipped by them, and the
# sensitivity rests on that.
_SHORTEST, _LONGEST = 1e-100, 1e150
# With more cells memory runs out for many records and not for few, which discloses their number.
_MOST_CELLS = 4096


@dataclass(frozen=True, kw_only=True)
class ByMass(Release):
    """A release of records by mass.

    With ``mass_limit`` 0 every record of positive mass counts for one. With a positive one,
    which is public, a record of mass m counts for ``min(m, mass_limit) / mass_limit``: the
    heaviest for one, others for less. Either way what a record counts for depends on no other.
    """

    resolution: int = RESOLUTION
    mass_limit: float = 0.0

    def check_masses(self) -> None:
        """Raise where the options of counting are out of range."""
        if self.embedding != "none":
            # Label coordinates hold means of private records: one record would move them all.
            raise WireError("a release takes no label coordinates.", code="question-fields")
        if not _COARSEST <= self.resolution <= FINEST:
            raise WireError("the resolution is out of range.", code="question-fields")
        if not math.isfinite(self.mass_limit) or self.mass_limit < 0:
            raise WireError("the mass limit is negative.", code="question-fields")

    def weigh(self, masses: Array) -> Array:
        """Compute what each record counts for (n,), 1 at most."""
        if self.mass_limit == 0:
            return (masses > 0).astype(np.float64)
        return np.minimum(masses, self.mass_limit) / self.mass_limit


@dataclass(frozen=True, kw_only=True)
class CountRecords(ByMass):
    """How many records there are, with noise."""

    kind: ClassVar[str] = "count-records"
    mechanism: ClassVar[str] = "discrete Gaussian, count"

    @property
    def sensitivity(self) -> float:
        """One record adds at most the resolution."""
        self.check_masses()
        return float(self.resolution)

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        self.check_masses()
        shares = np.floor(self.resolution * self.weigh(masses)).astype(np.int64)
        return np.array([shares.sum()], dtype=np.int64)

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"count": noisy})


@dataclass(frozen=True, kw_only=True)
class SketchRecords(ByMass):
    """Where records lie among public cells: counts, clipped offsets and scatter, with noise.

    ``classes`` names public classes; records of any other are counted together. The holder's own
    list of classes is never used.

    Notes
    -----
    What is counted, and why one record moves it by at most ``sensitivity``, is in
    ``privacy.sketch``. All that the question brings is public, and must not be fitted on the
    records of any holder.
    """

    kind: ClassVar[str] = "sketch-records"
    mechanism: ClassVar[str] = "discrete Gaussian, sketch"

    centres: Array
    radius: float
    radius2: float
    classes: str = ""

    @classmethod
    def about(
        cls, cells: Cells, classes: Sequence[str], mass_limit: float, privacy_mu: float
    ) -> Self:
        """Ask about public cells and classes, with noise of a budget."""
        return cls(
            centres=cells.centres,
            radius=cells.radius,
            radius2=cells.radius2,
            classes=encode_classes(list(classes)) if classes else "",
            mass_limit=mass_limit,
            privacy_mu=privacy_mu,
        )

    def _check(self) -> None:
        self.check_masses()
        shaped = self.centres.ndim == 2 and 0 not in self.centres.shape
        if not shaped or not np.isfinite(self.centres).all():
            raise WireError("the centres are not finite points.", code="question-fields")
        if len(self.centres) > _MOST_CELLS:
            raise WireError("there are too many centres.", code="question-fields")
        if not all(_SHORTEST <= r <= _LONGEST for r in (self.radius, self.radius2)):
            raise WireError("a radius is out of range.", code="question-fields")
        if self.classes:
            decode_classes(self.classes)

    @property
    def sensitivity(self) -> float:
        """As ``privacy.sketch.sensitivity``: classes and cells only part the records."""
        self._check()
        return sensitivity(self.centres.shape[1], self.resolution)

    def check(self, dimension: int, labelled: bool) -> None:
        self._check()
        if dimension != self.centres.shape[1]:
            raise MismatchError(
                "the centres have another number of features than the records.",
                code="dimension-mismatch",
            )
        if self.classes and not labelled:
            raise InputError("the records have no labels.", code="labels-absent")

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        self.check(points.shape[1], labels is not None)
        groups, count = group_by_class(self.classes, labels)
        return encode(
            points,
            self.weigh(masses),
            Geometry(self.centres, self.radius, self.radius2),
            groups=groups,
            count=count,
            resolution=self.resolution,
        )

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"sketch": noisy})


@dataclass(frozen=True, kw_only=True)
class SketchPeriod(SketchRecords):
    """The same of a period, such as a month, which has a public name.

    A question that was answered once gets that answer for ever, also of newer data. With another
    period it is another one, drawn again and charged.
    """

    kind: ClassVar[str] = "sketch-period"

    period: str

    def _check(self) -> None:
        super()._check()
        if not is_period(self.period):
            raise WireError("the period is not a short text.", code="question-fields")


def is_period(text: object) -> bool:
    """Check whether a text can name a period: printable, not empty, of 64 signs at most."""
    return isinstance(text, str) and 0 < len(text.strip()) <= len(text) <= 64 and text.isprintable()


@dataclass(frozen=True, kw_only=True)
class SketchTree(ByMass):
    """How many records lie in each square of a quadtree over a public box, with noise.

    For records of two features where there is no public sample.
    """

    kind: ClassVar[str] = "sketch-tree"
    mechanism: ClassVar[str] = "discrete Gaussian, quadtree"

    low: Array
    high: Array
    depth: int

    def check(self, dimension: int, labelled: bool) -> None:
        self.check_masses()
        if dimension != 2:
            raise MismatchError("a quadtree needs two features.", code="dimension-mismatch")
        shaped = self.low.shape == self.high.shape == (2,)
        if not shaped or not np.isfinite(self.low).all() or not np.isfinite(self.high).all():
            raise WireError("the box needs two corners.", code="question-fields")
        if not (self.low < self.high).all() or not 1 <= self.depth <= DEEPEST:
            raise WireError("the box or its depth is out of range.", code="question-fields")

    @property
    def sensitivity(self) -> float:
        """One record counts once a level."""
        return tree_sensitivity(self.depth, self.resolution)

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        self.check(points.shape[1], labels is not None)
        return tree_counts(
            points, self.weigh(masses), self.low, self.high, self.depth, self.resolution
        )

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"sketch": noisy})


_MOST_ATOMS, _MOST_CLASSES, _MOST_FEATURES, _MOST_REACHES = 20_000, 4096, 4096, 4


def _nothing() -> Array:
    return np.zeros(0)


def _nothing_by_row() -> Array:
    return np.zeros((0, 0))


def _no_codes() -> Codes:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class SummarizeRecords(ByMass):
    """Sizes, random features and the distance to a target, in one release.

    All fields are public. A block that a command does not need is left out, and costs nothing;
    sizes are always sent, because the others are read as ratios to them.

    Attributes
    ----------
    classes
        Public classes, whose sizes are sent; all others count together.
    features, scale, bandwidth, draw
        How many random features, by what columns are divided (d,), for which kernel, and the seed
        of their draw; none with 0.
    target, target_weights, target_codes, table
        Atoms (m, d) that the records are transported to, their masses, their classes and the
        distances between classes; no atoms for no distance, no table for one without classes.
    reaches, p
        Where the metric is cut (k,), a distance each, and the order of the distance.
    shares
        Of the square of mu: of the sizes, the features and each distance (2 + k,).
    """

    kind: ClassVar[str] = "summarize-records"
    mechanism: ClassVar[str] = "discrete Gaussian, summary"

    classes: str = ""
    features: int = 0
    scale: Array = field(default_factory=_nothing)
    bandwidth: float = 1.0
    draw: int = 0
    target: Array = field(default_factory=_nothing_by_row)
    target_weights: Array = field(default_factory=_nothing)
    target_codes: Codes = field(default_factory=_no_codes)
    table: Array = field(default_factory=_nothing_by_row)
    reaches: Array = field(default_factory=_nothing)
    p: int = 2
    shares: Array = field(default_factory=lambda: np.ones(2))

    @cached_property
    def layout(self) -> Summary:
        """What is sent, block by block; raises where the fields do not fit one another."""
        self.check_masses()
        classes = len(decode_classes(self.classes)) if self.classes else 0
        _require(classes <= _MOST_CLASSES, "there are too many classes")
        positive = bool((self.shares > 0).all() and np.isfinite(self.shares).all())
        fits = self.reaches.ndim == 1 and self.shares.shape == (2 + len(self.reaches),)
        _require(fits and positive, "the shares are not positive numbers, one for each block")
        sizes, features, *distances = self.shares.tolist()
        blocks: list[tuple[Block, float]] = [(Sizes(classes), sizes)]
        if self.features:
            fits = 0 < self.features <= _MOST_FEATURES and self.features % 2 == 0
            _require(fits and 0 <= self.draw < 2**63, "the features are out of range")
            _require(_SHORTEST <= self.bandwidth <= _LONGEST, "the bandwidth is out of range")
            fits = self.scale.ndim == 1 and self.scale.size > 0
            fits = fits and bool(((self.scale > 0) & np.isfinite(self.scale)).all())
            _require(fits, "the features have no scale")
            waves = Waves(self.scale, self.bandwidth, self.features, self.draw)
            blocks.append((waves, features))
        if self.target.size:
            blocks += zip(self._target_blocks(classes), distances, strict=True)
        return Summary(*map(tuple, zip(*blocks, strict=True)))

    def _target_blocks(self, classes: int) -> list[ToTarget]:
        atoms = self.target.shape[0]
        _require(self.target.ndim == 2 and atoms <= _MOST_ATOMS, "there are too many atoms")
        _require(bool(np.isfinite(self.target).all()), "the target is not of finite points")
        weights = self.target_weights
        fits = weights.shape == (atoms,) and bool(((weights >= 0) & (weights <= _LONGEST)).all())
        _require(fits and bool(weights.any()), "the target has no masses")
        reaches = sorted(set(self.reaches.tolist()))
        fits = 0 < len(reaches) == len(self.reaches) <= _MOST_REACHES and self.p in (1, 2)
        _require(fits and reaches[0] >= _SHORTEST and reaches[-1] <= _LONGEST, "no reach fits")
        weights = weights / weights.sum()
        own = (self.target, weights)
        if not self.table.size:
            return [ToTarget(*own, reach, self.p) for reach in self.reaches.tolist()]
        codes, table = self.target_codes, self.table
        fits = codes.shape == (atoms,) and table.shape == (classes, classes)
        _require(fits and bool((table >= 0).all()), "the table is not that of the classes")
        _require(bool(np.isfinite(table).all()) and codes.min() >= 0, "the table is not finite")
        _require(int(codes.max()) < classes, "the target has codes of no class")
        return [ToTarget(*own, reach, self.p, codes, table) for reach in self.reaches.tolist()]

    @property
    def sensitivity(self) -> float:
        """As the blocks say, from public fields alone."""
        return self.layout.sensitivity

    def check(self, dimension: int, labelled: bool) -> None:
        widths = {len(self.scale)} - {0} | ({self.target.shape[1]} if self.target.size else set())
        _ = self.layout
        if widths - {dimension}:
            raise MismatchError(
                "the question has another number of features than the records.",
                code="dimension-mismatch",
            )
        if self.classes and not labelled:
            raise InputError("the records have no labels.", code="labels-absent")

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        groups, _ = group_by_class(self.classes, labels)
        codes = np.zeros(len(points), dtype=np.int64) if groups is None else groups
        return self.layout.encode(points, self.weigh(masses), codes)

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"summary": noisy})


def _require(fits: bool, fault: str) -> None:
    if not fits:
        raise WireError(f"{fault}.", code="question-fields")


def group_by_class(classes: str, labels: Names | None) -> tuple[Codes | None, int]:
    """Group records by public class, all others together; return groups and their number."""
    if not classes or labels is None:
        return None, 1
    # Record by record, and no list but the public one: which other classes there are, and how
    # many, must not show.
    listed = decode_classes(classes)
    places = {name: code for code, name in enumerate(listed)}
    codes = [places.get(name, len(listed)) for name in labels.tolist()]
    return np.array(codes, dtype=np.int64), len(listed) + 1


register(CountRecords, SketchRecords, SketchPeriod, SketchTree, SummarizeRecords)


# Largest number that is believed in an answer.
_MOST = 2**53


def read_integers(answers: Answers, name: str, field: str, width: int) -> Codes:
    """Read a vector of whole numbers from an answer, which may come from anybody."""
    vector = required(answers, name).arrays.get(field)
    fits = vector is not None and vector.dtype == np.int64 and vector.shape == (width,)
    # Beyond 2^53 sums of floats are no longer exact, and no count is as large.
    if vector is None or not fits or vector.min() < -_MOST or vector.max() > _MOST:
        raise failure_error(name, Failure("answer-malformed"))
    return vector
