"""Questions of the sketch: how many records, and where they lie among public cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
        groups, count = self._group(labels)
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

    def _group(self, labels: Names | None) -> tuple[Codes | None, int]:
        """Group records by class, all unlisted ones together; return groups and their number."""
        if not self.classes or labels is None:
            return None, 1
        # Record by record, and no list but the public one: which other classes there are, and
        # how many, must not show.
        classes = decode_classes(self.classes)
        places = {name: code for code, name in enumerate(classes)}
        codes = [places.get(name, len(classes)) for name in labels.tolist()]
        return np.array(codes, dtype=np.int64), len(classes) + 1


@dataclass(frozen=True, kw_only=True)
class SketchPeriod(SketchRecords):
    """The same of a period, such as a month, which has a public name.

    A question that was answered once gets that answer for ever, also of newer data. With another
    period it is another one, drawn anew and charged.
    """

    kind: ClassVar[str] = "sketch-period"

    period: str

    def _check(self) -> None:
        super()._check()
        if not is_period(self.period):
            raise WireError("the period is no short text.", code="question-fields")


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
            raise WireError("the box has no two corners.", code="question-fields")
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


register(CountRecords, SketchRecords, SketchPeriod, SketchTree)


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
