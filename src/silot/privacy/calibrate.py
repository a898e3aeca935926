r"""Estimates of distances that were corrected, and given intervals, where the truth is known.

Pairs of laws with known distances are made of the public records alone (``tilts``), sketched with
noise of the same law as the holders', and estimated in several ways. A local regression tells
which of those to believe, and by how much they err: bias, noise and sampling together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.measure import Embedding
from ..transport import cost_matrix, plan_from_cost
from ..transport._check import Array
from ..transport._threads import on_cores
from .cells import Cells, Codes, nearest
from .compare import Drawn, Rate, Sampler, squared_distance
from .sketch import RESOLUTION, Decoded, Reading, decode, parts, sensitivity, simplex
from .tilts import FEWEST_RECORDS, MOST_RECORDS, Pair, Truth, pairs_of, truth_of

_LEVEL = 0.95
# All pairs are of one public sample, and err alike where that is not as its law: on 19 tables of
# known distances intervals had to be so much longer to cover as often as they say.
_ALIKE_ERRORS = 1.15
_FOLDS, _STEPS = 5, 10
# Part of the simulated pairs a distance is judged by: those whose sketches look most alike.
_NEAR = 0.2
_RIDGE = 0.1
# Squared lengths are told apart down to this part of the public variance.
_FLOOR = 0.02
# Sketches further from the simulated ones than so many deviations are judged like those there.
_FURTHEST = 3.5
# Numbers of records that are near enough to be simulated as one.
_ALIKE = 1.25
_MOST_ALIKE = 5
DRAWN = 150
"""Records drawn from a sketch."""


@dataclass(frozen=True, eq=False)
class Side:
    """What is compared of one sketch.

    Attributes
    ----------
    shares
        The noisy counts alone, as probabilities of the cells (S,).
    decoded, drawn
        The measure it tells of, and samples of it.
    """

    shares: Array = field(repr=False)
    decoded: Decoded
    drawn: Drawn


@dataclass(frozen=True)
class Estimate:
    """A distance, and where 95 % of true distances are."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Source:
    """What a sketch was made of: about how many records, and whether noise was added."""

    records: float
    noisy: bool


@dataclass(frozen=True, eq=False)
class Fit:
    r"""Local regression of log W on what two sketches look like.

    .. math:: \log W = \log B + \beta_0(z) + \beta(z)^T z

    B is the estimate from samples of both (``compare.squared_distance``), z the standardised
    ``looks``. The coefficients are fitted by ridge regression on the simulated pairs nearest to
    z, the interval is of their residuals with each pair left out.
    """

    mean: Array = field(repr=False)
    spread: Array = field(repr=False)
    seen: Array = field(repr=False)
    missed: Array = field(repr=False)
    unit: float

    @classmethod
    def of(cls, found: Array, truth: Array, unit: float) -> Fit:
        """From parts (K, 10) and true squared distances (K,)."""
        looks = _looks(found, unit)
        mean, spread = looks.mean(axis=0), looks.std(axis=0) + 1e-9
        # Chance may take away more than there is between two laws; never all.
        missed = 0.5 * np.log(np.maximum(truth, 1e-6 * unit)) - _base(found, unit)
        return cls(mean, spread, (looks - mean) / spread, missed, unit)

    def estimate(self, found: Array) -> Estimate:
        """Distance and interval from the parts (10,) of two sketches."""
        place = (_looks(found[None], self.unit)[0] - self.mean) / self.spread
        place = np.clip(place, -_FURTHEST, _FURTHEST)
        apart = np.linalg.norm(self.seen - place, axis=1)
        width = max(float(np.quantile(apart, _NEAR)), 1e-9) * 1.001
        near = np.flatnonzero(apart < width)
        kernel = 1.0 - (apart[near] / width) ** 2
        design = np.hstack([np.ones((len(near), 1)), self.seen[near] - place])
        weighted = design * kernel[:, None]
        penalty = np.full(design.shape[1], _RIDGE * float(kernel.sum()))
        penalty[0] = 0.0
        inverse = np.linalg.inv(weighted.T @ design + np.diag(penalty))
        slopes = inverse @ (weighted.T @ self.missed[near])
        leverage = np.einsum("ij,jk,ik->i", weighted, inverse, design)
        residuals = (self.missed[near] - design @ slopes) / np.maximum(1.0 - leverage, 0.3)
        order = np.argsort(residuals, kind="stable")
        mass = np.cumsum(kernel[order]) / kernel.sum()
        tail = 0.5 * (1.0 - _LEVEL)
        low, high = (float(residuals[order[np.searchsorted(mass, q)]]) for q in (tail, 1.0 - tail))
        # What the fit itself errs by here: little in the midst of pairs, more at their edge.
        wider = _ALIKE_ERRORS * (1.0 + float(np.sum((inverse[0] @ weighted.T) ** 2))) ** 0.5
        centre = float(_base(found[None], self.unit)[0] + slopes[0])
        ends = (centre + wider * min(low, 0.0), centre, centre + wider * max(high, 0.0))
        least, value, most = (float(np.exp(end)) for end in ends)
        return Estimate(value, least, most)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Simulated pairs for one plan of sketches; a fit for every pair of sizes that is asked for.

    Attributes
    ----------
    points, codes, classes
        Public records (m, d), their classes (m,), if any, and how many classes are counted.
    embedding
        Label coordinates that distances compare.
    cells, prior, mu
        As the holders' sketches have them.
    rate
        Of the samples that are drawn from sketches.
    seed
        Of all that is drawn.
    """

    points: Array = field(repr=False)
    codes: Codes | None = field(repr=False)
    classes: int
    embedding: Embedding
    cells: Cells
    prior: Array | None = field(repr=False)
    mu: float
    rate: Rate
    seed: int
    _fits: dict[tuple[Source, Source], Fit] = field(
        default_factory=dict["tuple[Source, Source]", Fit], repr=False
    )

    @classmethod
    def of(cls, points: Array, codes: Codes | None, **options: Any) -> Calibration | None:
        """A calibration on public records, or none where they are too few or all alike."""
        if len(points) < FEWEST_RECORDS:
            return None
        rows = np.random.default_rng([options["seed"], 23]).permutation(len(points))[:MOST_RECORDS]
        if len(np.unique(points[rows], axis=0)) < options["cells"].size:
            return None
        return cls(points[rows], None if codes is None else codes[rows], **options)

    @cached_property
    def sampler(self) -> Sampler:
        """Of every sketch that is compared."""
        return Sampler.of(self.cells.dimension, self.seed, size=DRAWN, embedding=self.embedding)

    def side(self, reading: Reading, found: Decoded) -> Side:
        """What is compared of a sketch."""
        counts = reading.counts.sum(axis=0)
        shares = simplex(counts / max(float(counts.sum()), 1.0))
        return Side(shares, found, self.sampler.draw(found))

    def estimate(self, x: Side, y: Side, sources: tuple[Source, Source]) -> Estimate:
        """Distance of the records behind two sketches."""
        return self.fit(*sources).estimate(self._parts(x, y))

    def fit(self, x: Source, y: Source) -> Fit:
        """What pairs of sketches of two sources are judged by."""
        first, second = sorted((x, y), key=lambda one: (one.noisy, one.records))
        if (first, second) not in self._fits:
            pairs, truth = self._known
            rng = np.random.default_rng([self.seed, 29])
            rows = [self._simulated(pair, first, second, rng) for pair in pairs]
            true = truth.at(first.records, second.records) + [by_chance for _, by_chance in rows]
            found = on_cores(self._seen, [readings for readings, _ in rows])
            self._fits[first, second] = Fit.of(np.stack(found), true, self._unit)
        return self._fits[first, second]

    def _seen(self, readings: tuple[Reading, Reading]) -> Array:
        """Parts of two sketches as they are read."""
        x, y = (self.side(each, decode(each, self.cells, self.prior)) for each in readings)
        return self._parts(x, y)

    @property
    def _unit(self) -> float:
        return float(self.points.var(axis=0).sum())

    @cached_property
    def _known(self) -> tuple[list[Pair], Truth]:
        codes = None if self.codes is None else self.codes.tobytes()
        return _known(
            self.points.tobytes(), self.points.shape, codes, self.embedding, self.seed
        )  # fmt: skip

    @cached_property
    def _costs(self) -> Array:
        return cost_matrix(self.cells.centres, self.cells.centres)

    @cached_property
    def _refitted(self) -> list[Array]:
        """The centres, fitted again without each fold of the public records.

        Holders' records are none the centres were fitted to, so neither may simulated ones be.
        """
        folds = np.arange(len(self.points)) % _FOLDS
        return [_settled(self.points[folds != k], self.cells.centres) for k in range(_FOLDS)]

    def _placed(self, points: Array) -> tuple[Codes, Array, Array]:
        """Cells (m,), clipped offsets (m, d) and squares (m,) of public records."""
        places = np.zeros(len(points), dtype=np.int64)
        offsets, squares = np.zeros_like(points), np.zeros(len(points))
        folds = np.arange(len(points)) % _FOLDS
        for fold, centres in enumerate(self._refitted):
            rows = folds == fold
            places[rows], squares[rows] = nearest(points[rows], centres)
            offsets[rows] = points[rows] - centres[places[rows]]
        lengths = np.sqrt(squares)
        radius = self.cells.radius
        offsets *= (radius / np.maximum(lengths, radius))[:, None]
        return places, offsets, np.minimum(lengths, self.cells.radius2) ** 2

    @cached_property
    def _public(self) -> tuple[Codes, Array, Array]:
        return self._placed(self.points)

    def _simulated(
        self, pair: Pair, x: Source, y: Source, rng: np.random.Generator
    ) -> tuple[tuple[Reading, Reading], float]:
        """Two sketches; how much further apart their records' means are than the laws'."""
        readings: list[Reading] = []
        gaps = np.zeros((2, self.points.shape[1]))
        still = pair.scale == 1.0 and not pair.shift.any()
        moved = self.points if still else pair.moved(self.points)
        for sign, source, points, weights in zip(
            (1.0, -1.0), (x, y), (self.points, moved), pair.weights, strict=True
        ):
            drawn = rng.multinomial(round(source.records), weights)
            gaps += sign * np.stack([drawn / drawn.sum(), weights]) @ points
            placed = self._public if points is self.points else self._placed(points)
            readings.append(self._reading(source, placed, drawn, rng))
        by_chance = float(gaps[0] @ gaps[0] - gaps[1] @ gaps[1])
        return (readings[0], readings[1]), by_chance

    def _reading(
        self, source: Source, placed: tuple[Codes, Array, Array], drawn: Codes,
        rng: np.random.Generator,
    ) -> Reading:  # fmt: skip
        """A sketch of public records, so often each, with the noise of a release."""
        places, offsets, squares = placed
        cells = places if self.codes is None else self.codes * self.cells.size + places
        shape = (self.classes, self.cells.size)
        counts = np.bincount(cells, weights=drawn, minlength=shape[0] * shape[1]).reshape(shape)
        # As many random numbers with noise as without: pairs stay the same.
        noise = sensitivity(self.cells.dimension) / self.mu if source.noisy else 0.0
        a, b, q = parts(RESOLUTION)
        units = (noise / a, noise * self.cells.radius / b, noise * self.cells.radius2**2 / q)
        return Reading(
            counts + units[0] * rng.standard_normal(shape),
            drawn @ offsets + units[1] * rng.standard_normal(self.cells.dimension),
            float(drawn @ squares) + units[2] * float(rng.standard_normal()),
            *units,
        )

    def _parts(self, x: Side, y: Side) -> Array:
        """Squared lengths two sketches are judged by, the same in either order."""
        masses = [side.decoded.weights.sum(axis=0) for side in (x, y)]
        by_counts = plan_from_cost(self._costs, x.shares, y.shares).cost
        shrunk = plan_from_cost(self._costs, *masses).cost
        centre = (masses[0] - masses[1]) @ self.cells.centres
        offset = x.decoded.atoms[0] - y.decoded.atoms[0]
        told = (x.shares - y.shares) @ self.cells.centres + offset
        scatters = [side.decoded.scatter for side in (x, y)]
        variances = [
            _variance(side.decoded.atoms, mass) + scatter
            for side, mass, scatter in zip((x, y), masses, scatters, strict=True)
        ]
        return np.array([
            by_counts,
            shrunk,
            max(shrunk - float(centre @ centre), 0.0),
            float(np.sum((centre + offset) ** 2)),
            float(told @ told),
            (scatters[0] * scatters[1]) ** 0.5,
            (scatters[0] ** 0.5 - scatters[1] ** 0.5) ** 2,
            (variances[0] * variances[1]) ** 0.5,
            (variances[0] ** 0.5 - variances[1] ** 0.5) ** 2,
            squared_distance(x.drawn, y.drawn, self.rate),
        ])  # fmt: skip


@lru_cache(maxsize=8)
def _known(
    data: bytes, shape: tuple[int, int], codes: bytes | None, embedding: Embedding, seed: int
) -> tuple[list[Pair], Truth]:
    """Pairs and their truths: the same for all runs with the same public records."""
    points: npt.NDArray[np.float64] = np.frombuffer(data).reshape(shape)
    classes = None if codes is None else np.frombuffer(codes, dtype=np.int64)
    rng = np.random.default_rng([seed, 31])
    pairs = pairs_of(points, classes, rng)
    return pairs, truth_of(points, classes, embedding, pairs, rng)


def alike(records: dict[str, float]) -> dict[str, float]:
    """Numbers of records, those that differ little made the same: one simulation serves them."""
    order = sorted(records, key=lambda name: (records[name], name))
    # Every pair of groups is simulated, so there are few, whatever the numbers.
    ratios = (_ALIKE**power for power in count(1))
    groups = next(found for ratio in ratios
                  if len(found := _near(records, order, ratio)) <= _MOST_ALIKE)  # fmt: skip
    return {
        name: max(float(np.exp(np.mean(np.log([records[one] for one in group])))), 1.0)
        for group in groups
        for name in group
    }


def _near(records: dict[str, float], order: list[str], ratio: float) -> list[list[str]]:
    """Names in order, in groups whose numbers are within a ratio."""
    groups: list[list[str]] = []
    for name in order:
        if groups and records[name] <= ratio * records[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _settled(points: Array, centres: Array) -> Array:
    """Centres of mass of cells, again and again, from where they were."""
    for _ in range(_STEPS):
        codes, _ = nearest(points, centres)
        sizes = np.bincount(codes, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, codes, points)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return centres


def _variance(atoms: Array, mass: Array) -> float:
    return float(mass @ ((atoms - mass @ atoms) ** 2).sum(axis=1))


def _looks(found: Array, unit: float) -> Array:
    """Parts on a scale where they compare: lengths, as logarithms or over the public one."""
    logs = 0.5 * np.log(found + _FLOOR * unit)
    for differences in (6, 8):
        logs[:, differences] = np.sqrt(found[:, differences] / unit)
    return logs


def _base(found: Array, unit: float) -> Array:
    return 0.5 * np.log(found[:, -1] + 0.25 * _FLOOR * unit)
