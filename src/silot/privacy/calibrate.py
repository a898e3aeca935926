r"""Estimates of distances that were corrected, and given intervals, where the truth is known.

Pairs of distributions with known distances are made of the public records alone (``tilts``),
sketched with
noise of the same distribution as the holders', and estimated in several ways. A local regression
tells
which of those to believe, and by how much they err: bias, noise and sampling together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from silot_transport import cost_matrix
from silot_transport._check import Array
from silot_transport._threads import on_cores
from silot_transport.entropic import HistogramDivergence
from silot_transport.moments import Embedding

from .cells import Cells, Codes, nearest
from .compare import Drawn, Rate, Sampler, distances_of
from .regression import Estimate, Fit
from .sketch import RESOLUTION, Decoded, Reading, decode, parts, sensitivity, simplex
from .tilts import FEWEST_RECORDS, MOST_RECORDS, Pair, Truth, pairs_of, truth_of

T = TypeVar("T")

# Refitted centres start at those of all public records and keep four fifths of the records,
# so few steps of Lloyd's algorithm settle them.
_FOLDS, _STEPS = 5, 10
# Numbers of records that are near enough to be simulated as one.
_ALIKE = 1.25
_MOST_ALIKE = 5
# Pairs that are compared together.
_TOGETHER = 32
# Every simulated pair needs a distance of samples: smaller ones than ``compare`` draws.
DRAWN = 100
"""Records drawn from a sketch."""


@dataclass(frozen=True, eq=False)
class Side:
    """What is compared of one sketch.

    Attributes
    ----------
    shares
        The noisy counts alone, as probabilities of the cells (S,).
    masses
        Those of the distribution that the release describes (S,).
    decoded, drawn
        The measure that the release describes, and samples of it.
    """

    shares: Array = field(repr=False)
    masses: Array = field(repr=False)
    decoded: Decoded
    drawn: Drawn

    @cached_property
    def variance(self) -> float:
        """Variance of the distribution that the release describes."""
        atoms = self.decoded.atoms
        around = (atoms - self.masses @ atoms) ** 2
        return float(self.masses @ around.sum(axis=1)) + self.decoded.scatter


@dataclass(frozen=True)
class Source:
    """What a sketch was made of: about how many records, and whether noise was added."""

    records: float
    noisy: bool


@dataclass(frozen=True, eq=False)
class Calibration:
    """Simulated pairs for one plan of sketches; a fit for every pair of sizes that is requested.

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
        """Build a calibration on public records; ``None`` where they are too few or all alike."""
        if len(points) < FEWEST_RECORDS:
            return None
        # The second number of a seed separates streams: the choice of records shares no random
        # numbers with the pairs, the noise and the cells.
        rows = np.random.default_rng([options["seed"], 23]).permutation(len(points))[:MOST_RECORDS]
        # With fewer distinct records than cells every offset is 0, and there is nothing to fit.
        if len(np.unique(points[rows], axis=0)) < options["cells"].size:
            return None
        return cls(points[rows], None if codes is None else codes[rows], **options)

    @cached_property
    def sampler(self) -> Sampler:
        """Of every sketch that is compared."""
        return Sampler.of(self.cells.dimension, self.seed, size=DRAWN, embedding=self.embedding)

    def side(self, reading: Reading, decoded: Decoded) -> Side:
        """Return what is compared of a sketch."""
        counts = reading.counts.sum(axis=0)
        # Noise can take the sum of the counts to 0 and below.
        shares = simplex(counts / max(float(counts.sum()), 1.0))
        masses = decoded.weights.sum(axis=0)
        return Side(shares, masses, decoded, self.sampler.draw(decoded))

    def estimates(
        self, pairs: Sequence[tuple[Side, Side]], sources: Sequence[tuple[Source, Source]]
    ) -> list[Estimate]:
        """Estimate distances of the records behind sketches; no pair depends on the others."""
        fits = [self.fit(*both) for both in sources]
        lengths = self._compare(pairs)
        groups = [
            [k for k, other in enumerate(fits) if other is fit] for fit in dict.fromkeys(fits)
        ]
        batches = [batch for rows in groups for batch in _split(rows)]
        results = on_cores(lambda rows: fits[rows[0]].estimates(lengths[rows]), batches)
        order = np.argsort([k for batch in batches for k in batch])
        estimates = [estimate for result in results for estimate in result]
        return [estimates[place] for place in order]

    def fit(self, x: Source, y: Source) -> Fit:
        """Fit the regression that judges pairs of sketches of two sources."""
        # A fit is the same in either order of its sources, so one simulation serves both.
        first, second = sorted((x, y), key=lambda one: (one.noisy, one.records))
        if (first, second) not in self._fits:
            pairs, truth = self._known
            rng = np.random.default_rng([self.seed, 29])
            rows = [self._simulate(pair, first, second, rng) for pair in pairs]
            # Estimates are about the records that a holder has, and the means of records that are
            # drawn differ from those of their distributions by chance.
            distances = truth.at(first.records, second.records) + [
                by_chance for _, by_chance in rows
            ]
            sides = on_cores(
                self._read_side, [reading for readings, _ in rows for reading in readings]
            )
            lengths = self._compare(list(zip(sides[::2], sides[1::2], strict=True)))
            self._fits[first, second] = Fit.of(lengths, distances, self._unit)
        return self._fits[first, second]

    def _read_side(self, reading: Reading) -> Side:
        """Decode a sketch as a run does."""
        return self.side(reading, decode(reading, self.cells, self.prior))

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
    def _divergence(self) -> HistogramDivergence:
        return HistogramDivergence.of(cost_matrix(self.cells.centres, self.cells.centres))

    @cached_property
    def _refitted(self) -> list[Array]:
        """The centres, fitted again without each fold of the public records.

        Holders' records are none the centres were fitted to, so neither may simulated ones be.
        """
        folds = np.arange(len(self.points)) % _FOLDS
        return [_refine_centres(self.points[folds != k], self.cells.centres) for k in range(_FOLDS)]

    def _place(self, points: Array) -> tuple[Codes, Array, Array]:
        """Find cells (m,), clipped offsets (m, d) and squares (m,) of public records."""
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
        return self._place(self.points)

    def _simulate(
        self, pair: Pair, x: Source, y: Source, rng: np.random.Generator
    ) -> tuple[tuple[Reading, Reading], float]:
        """Simulate two sketches; return how much chance adds to the gap of their means."""
        readings: list[Reading] = []
        gaps = np.zeros((2, self.points.shape[1]))
        # Records that do not move are in the cells that are known already.
        still = pair.scale == 1.0 and not pair.shift.any()
        moved = self.points if still else pair.move(self.points)
        for sign, source, points, weights in zip(
            (1.0, -1.0), (x, y), (self.points, moved), pair.weights, strict=True
        ):
            # A holder has a sample of its distribution, so a sample is sketched, not the weights.
            drawn = rng.multinomial(round(source.records), weights)
            # The first row is the gap between means of records, the second that of distributions.
            gaps += sign * np.stack([drawn / drawn.sum(), weights]) @ points
            placed = self._public if points is self.points else self._place(points)
            readings.append(self._reading(source, placed, drawn, rng))
        by_chance = float(gaps[0] @ gaps[0] - gaps[1] @ gaps[1])
        return (readings[0], readings[1]), by_chance

    def _reading(
        self, source: Source, placed: tuple[Codes, Array, Array], drawn: Codes,
        rng: np.random.Generator,
    ) -> Reading:  # fmt: skip
        """Sketch public records with multiplicities, with the noise of a release."""
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

    def _compare(self, pairs: Sequence[tuple[Side, Side]]) -> Array:
        """Compute squared lengths (N, 10) that judge pairs, the same in either order."""
        sides = list(dict.fromkeys(side for both in pairs for side in both))
        # The cost of a sketch to itself depends on no partner, and is computed once a sketch.
        own = dict(zip(sides, np.vstack(on_cores(self._own, _split(sides))), strict=True))
        return np.vstack(on_cores(lambda part: self._parts(part, own), _split(pairs)))

    def _own(self, sides: Sequence[Side]) -> Array:
        """Compute entropic costs (N, 2) of shares and of masses to themselves."""
        both = ([side.shares for side in sides], [side.masses for side in sides])
        return np.stack([self._divergence.own(np.stack(rows)) for rows in both], axis=1)

    def _parts(self, pairs: Sequence[tuple[Side, Side]], costs: Mapping[Side, Array]) -> Array:
        sides = list(zip(*pairs, strict=True))
        shares, masses = (
            [np.stack([getattr(side, name) for side in column]) for column in sides]
            for name in ("shares", "masses")
        )
        own = [np.array([costs[side] for side in column]).T for column in sides]
        by_counts, shrunk = (
            self._divergence.between(x, y, (own[0][k], own[1][k]))
            for k, (x, y) in enumerate((shares, masses))
        )
        centres = self.cells.centres
        centre, raw = (np.matmul((x - y)[:, None, :], centres)[:, 0] for x, y in (masses, shares))
        offset = np.stack([x.decoded.atoms[0] - y.decoded.atoms[0] for x, y in pairs])
        scatters, variances = (
            [np.array([read(side) for side in column]) for column in sides] for read in _SPREADS
        )
        # ``regression`` reads these by place: 6 and 8 are differences, which may be 0, and the last
        # is the estimate that it corrects.
        return np.stack([
            by_counts,
            shrunk,
            np.maximum(shrunk - (centre**2).sum(axis=1), 0.0),
            ((centre + offset) ** 2).sum(axis=1),
            ((raw + offset) ** 2).sum(axis=1),
            np.sqrt(scatters[0] * scatters[1]),
            (np.sqrt(scatters[0]) - np.sqrt(scatters[1])) ** 2,
            np.sqrt(variances[0] * variances[1]),
            (np.sqrt(variances[0]) - np.sqrt(variances[1])) ** 2,
            distances_of([(x.drawn, y.drawn) for x, y in pairs], self.rate),
        ], axis=1)  # fmt: skip


@lru_cache(maxsize=8)
def _known(
    data: bytes, shape: tuple[int, int], codes: bytes | None, embedding: Embedding, seed: int
) -> tuple[list[Pair], Truth]:
    """Make pairs and measure their distances, once for all runs with the same public records."""
    points: npt.NDArray[np.float64] = np.frombuffer(data).reshape(shape)
    classes = None if codes is None else np.frombuffer(codes, dtype=np.int64)
    rng = np.random.default_rng([seed, 31])
    pairs = pairs_of(points, classes, rng)
    return pairs, truth_of(points, classes, embedding, pairs, rng)


def _split(items: Sequence[T]) -> list[Sequence[T]]:
    """Split items into batches."""
    return [items[k : k + _TOGETHER] for k in range(0, len(items), _TOGETHER)]


def merge_counts(records: dict[str, float]) -> dict[str, float]:
    """Replace numbers of records that differ little by one: a simulation serves them all."""
    # Names break ties, so that the groups do not depend on the order of the holders.
    order = sorted(records, key=lambda name: (records[name], name))
    # Every pair of groups is simulated, so the ratio grows until there are few groups. Noise over
    # records varies on a logarithmic scale, so a group is simulated at its geometric mean.
    ratios = (_ALIKE**power for power in count(1))
    groups = next(groups for ratio in ratios
                  if len(groups := _near(records, order, ratio)) <= _MOST_ALIKE)  # fmt: skip
    return {
        name: max(float(np.exp(np.mean(np.log([records[one] for one in group])))), 1.0)
        for group in groups
        for name in group
    }


def _near(records: dict[str, float], order: list[str], ratio: float) -> list[list[str]]:
    """Group names, in order, whose numbers are within a ratio."""
    groups: list[list[str]] = []
    for name in order:
        if groups and records[name] <= ratio * records[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _refine_centres(points: Array, centres: Array) -> Array:
    """Move centres to the means of their cells, again and again (Lloyd)."""
    for _ in range(_STEPS):
        codes, _ = nearest(points, centres)
        sizes = np.bincount(codes, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, codes, points)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return centres


_SPREADS: tuple[Callable[[Side], float], ...] = (
    lambda side: side.decoded.scatter,
    lambda side: side.variance,
)
