r"""Statistics of records as one vector of integers that one record moves by a bounded length.

The vector is made of blocks. For each block it follows only from public information by how much
adding
or removing one record can move it, whatever the other records are. Blocks are written on one grid,
with steps whose squares share the budget, noise is added to the whole vector once, and the ledger
is charged once. The number of records is private: it is the sum of the first block, and every mean
is the ratio of two noisy numbers.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from silot_transport import plan_from_cost
from silot_transport.errors import SilotError

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

RESOLUTION = 1 << 20
"""Steps of the grid for all blocks together: sums of 2**42 records fit into int64."""

# Of the unit of a block: above the error of an exact plan and of a sum of floats for a million
# records, and below what anybody would see of the noise.
_SLACK = 1e-5
# Shortens vectors that are scaled to length 1, so that no rounding makes one longer.
_INSIDE = 1.0 - 1e-12
# Records of one place have means without spread: noise counts against this much of it.
_LEAST_SPREAD = 0.05
# Records whose vectors are computed at once: so few fit into a cache.
_ROWS = 1 << 12
# Costs held at once while distances to a target are computed: 32 MB of floats.
_COSTS = 1 << 22


@dataclass(frozen=True, eq=False)
class Block(ABC):
    """A part of the vector. One record moves it by at most 1 unit, and by rounding."""

    @property
    @abstractmethod
    def name(self) -> str:
        """By which readings know it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers it has."""

    @property
    def rounding(self) -> float:
        """Length by which rounding can move it too, in steps of the grid."""
        # Each record is rounded by itself, half a step a number.
        return self.size**0.5 / 2.0

    @abstractmethod
    def encode(self, points: Array, masses: Array, codes: Codes, unit: float) -> Codes:
        """Compute the numbers of all records, (size,), with 1 written as ``unit`` steps."""


class Sum(Block):
    """A sum over records of a vector of length at most 1."""

    def encode(self, points: Array, masses: Array, codes: Codes, unit: float) -> Codes:
        # Rounded record by record: a rounded sum of floats depends on the order of the records.
        steps = np.zeros(self.size, dtype=np.int64)
        for first in range(0, len(points), _ROWS):
            part = slice(first, first + _ROWS)
            rows = unit * masses[part, None] * self.rows(points[part], codes[part])
            steps += np.rint(rows).astype(np.int64).sum(axis=0)
        return steps

    @abstractmethod
    def rows(self, points: Array, codes: Codes) -> Array:
        """Compute the vector of each record, (n, size)."""


@dataclass(frozen=True, eq=False)
class Sizes(Sum):
    """How many records each public class has; the last number counts all others."""

    classes: int = 0

    @property
    def name(self) -> str:
        return "sizes"

    @property
    def size(self) -> int:
        return self.classes + 1

    def rows(self, points: Array, codes: Codes) -> Array:
        return np.eye(self.size)[np.clip(codes, 0, self.classes)]


@dataclass(frozen=True, eq=False)
class Waves(Sum):
    r"""Random Fourier features of length 1, for the Gaussian kernel of a public bandwidth.

    .. math:: \sqrt{2 / D}\,[\cos(\omega_k^T x / h), \sin(\omega_k^T x / h)]_{k \le D / 2}

    Columns are divided by a public ``scale`` (d,) first.
    """

    scale: Array
    bandwidth: float
    features: int
    seed: int

    @property
    def name(self) -> str:
        return "waves"

    @property
    def size(self) -> int:
        return self.features

    @cached_property
    def directions(self) -> Array:
        """Draw the public directions, (d, D / 2): those of ``teaching.random_features``."""
        draw = np.random.default_rng([self.seed, 3])
        return draw.standard_normal((len(self.scale), self.features // 2))

    def rows(self, points: Array, codes: Codes) -> Array:
        angles = np.zeros((len(points), self.features // 2))
        with np.errstate(all="ignore"):
            # Column by column: in a matrix product the rounding of a row depends on the rows beside
            # it, and of large angles what is rounded is more than a turn.
            scaled = (points / self.scale / self.bandwidth).T
            for column, direction in zip(scaled, self.directions, strict=True):
                angles += column[:, None] * direction
            both = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        # The cosine of infinity is no number: such a record counts nothing here.
        return np.nan_to_num(both) * (2.0 / self.features) ** 0.5 * _INSIDE


@dataclass(frozen=True, eq=False)
class ToTarget(Block):
    r"""Transport of all records to a target that the asker brings, in a metric with a cut.

    The metric is :math:`\min(d(x, y), t)`, a metric again and nowhere above d; with classes,
    :math:`d^2 = |x - y|^2 + D_{kl}^2` with the distances D of the target's classes. Let
    :math:`S = n W_p^p` and :math:`(f, g)` optimal potentials. A further record x changes S by

    .. math:: \min_y\,[c(x, y) - g(y)] + E g \;\le\; S' - S \;\le\; E\, c(x, y) \le t^p,

    on the left because the potentials can be extended to x, on the right because x can be spread
    over the whole target. Potentials are c-concave, hence
    :math:`g(y) - g(y') \le t^p - (t - d(y, y'))^p`, and the left side is at least -a with a the
    largest mean of that over y'. The middle of the interval, kappa, is subtracted for every record:
    the rest moves by half of its length at most, whatever n is. A record of mass w < 1 moves it by
    w times as much.

    Attributes
    ----------
    target, weights
        Atoms (m, d) and their masses, public.
    reach
        Where the metric is cut, public.
    codes, table
        Classes of the atoms, and distances between classes (C, C); none without labels. A record of
        another class is as far from every class as the two furthest are. Whatever the asker
        sends, the shortest ways between classes count: the bound needs the triangle inequality.
    """

    target: Array
    weights: Array
    reach: float
    p: int = 2
    codes: Codes | None = None
    table: Array | None = None

    @property
    def name(self) -> str:
        return f"target {self.reach!r}"

    @property
    def size(self) -> int:
        return 1

    @property
    def rounding(self) -> float:
        # The whole sum is rounded, with the record and without it.
        return 1.0

    @cached_property
    def _fall(self) -> float:
        """Most that one record takes from S, as a part of the most that it adds."""
        apart = self._metric(self.target, self.codes)
        return float(((1.0 - (1.0 - apart) ** self.p) @ self.weights).max())

    @property
    def half(self) -> float:
        """Most that one record moves the sum: the length of a unit."""
        return self.reach**self.p * (1.0 + self._fall) / 2.0

    @property
    def kappa(self) -> float:
        """What is subtracted for every record."""
        return self.reach**self.p * (1.0 - self._fall) / 2.0

    @cached_property
    def _distances(self) -> Array | None:
        """Distances between classes, and from a class that is not listed in one row more."""
        if self.table is None:
            return None
        metric = shorten_distances(self.table)
        return np.pad(metric, ((0, 1), (0, 0)), constant_values=metric.max(initial=0.0))

    def _metric(self, points: Array, codes: Codes | None) -> Array:
        """Compute distances to the atoms (n, m) as parts of the reach, 1 at most."""
        centre, table = self.weights @ self.target, self._distances
        with np.errstate(all="ignore"):
            squares = cdist(points - centre, self.target - centre, "sqeuclidean")
            if table is not None and self.codes is not None and codes is not None:
                squares += table[np.clip(codes, 0, len(table) - 1)][:, self.codes] ** 2
        # What is no number is as far away as can be.
        squares = np.nan_to_num(squares, nan=np.inf, posinf=np.inf)
        return np.minimum(np.sqrt(squares) / self.reach, 1.0)

    def encode(self, points: Array, masses: Array, codes: Codes, unit: float) -> Codes:
        mass = float(masses.sum())
        if mass == 0.0:
            return np.zeros(1, dtype=np.int64)
        try:
            # As parts of the largest cost, so that no cost is too large for the solver.
            costs = np.empty((len(points), len(self.target)))
            rows = max(_COSTS // len(self.target), 1)
            for first in range(0, len(points), rows):
                part = slice(first, first + rows)
                costs[part] = self._metric(points[part], codes[part]) ** self.p
            power = plan_from_cost(costs, masses, self.weights).cost
        except (MemoryError, SilotError) as error:
            # An error would tell something of the records without noise. All of them at the cut is
            # above any transport, and moves with a record by no more.
            warnings.warn(f"a transport was released as its bound: {error!r}", stacklevel=2)
            power = 1.0
        most = self.reach**self.p
        total = mass * (power - self.kappa / most) * (most / self.half)
        return np.array([np.rint(unit * total)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Summary:
    """Blocks of one release, and their shares of the budget.

    The first block is that of the sizes. Shares are of the square of mu.
    """

    blocks: Sequence[Block]
    shares: Sequence[float]

    @cached_property
    def units(self) -> list[float]:
        """How many steps of the grid 1 is, block by block."""
        return [RESOLUTION * (share / sum(self.shares)) ** 0.5 for share in self.shares]

    @property
    def sensitivity(self) -> float:
        """Most that one record moves the vector, in the Euclidean norm."""
        parts = zip(self.blocks, self.units, strict=True)
        lengths = [unit * (1.0 + _SLACK) + block.rounding for block, unit in parts]
        return float(np.linalg.norm(lengths))

    def encode(self, points: Array, masses: Array, codes: Codes) -> Codes:
        """Compute the exact vector, which must not be shown."""
        pairs = zip(self.blocks, self.units, strict=True)
        return np.concatenate([block.encode(points, masses, codes, unit) for block, unit in pairs])

    @property
    def size(self) -> int:
        """How many numbers the vector has."""
        return sum(block.size for block in self.blocks)

    def read(self, noisy: Codes, scale: float) -> Reading:
        """Read a vector with noise of a scale."""
        values: dict[str, Array] = {}
        noise: dict[str, float] = {}
        first = 0
        for block, unit in zip(self.blocks, self.units, strict=True):
            values[block.name] = noisy[first : first + block.size] / unit
            noise[block.name] = scale / unit
            first += block.size
        return Reading({block.name: block for block in self.blocks}, values, noise)


@dataclass(frozen=True, eq=False)
class Reading:
    """A release as it is read: all of it follows from the noisy vector.

    Attributes
    ----------
    blocks
        By name.
    values, noise
        By block: its numbers, in records, and the standard deviation of the noise of each.
    """

    blocks: Mapping[str, Block]
    values: Mapping[str, Array]
    noise: Mapping[str, float]

    @property
    def records(self) -> float:
        """The number of records, 1 at least."""
        return max(float(self.values["sizes"].sum()), 1.0)

    @property
    def records_noise(self) -> float:
        """Standard deviation of the noise of the number of records."""
        return self.noise["sizes"] * len(self.values["sizes"]) ** 0.5

    def mean_features(self) -> tuple[Array, float]:
        r"""Compute the mean features, and how many records without noise show as much.

        A mean of n records is off by :math:`(1 - |\mu|^2) / n`, squared; noise of deviation s adds
        :math:`D s^2 / n^2`.
        """
        mean = self.values["waves"] / self.records
        noise = len(mean) * (self.noise["waves"] / self.records) ** 2
        spread = max(1.0 - max(float(mean @ mean) - noise, 0.0), _LEAST_SPREAD)
        effective = 1.0 / (1.0 / self.records + noise / spread)
        # Noise can make it longer than any mean of features is.
        return mean / max(float(np.linalg.norm(mean)), 1.0), effective

    def transports(self) -> list[Transport]:
        """Read the transports to the target, the shortest reach first."""
        blocks = [block for block in self.blocks.values() if isinstance(block, ToTarget)]
        return [self._transport(block) for block in sorted(blocks, key=lambda block: block.reach)]

    def _transport(self, block: ToTarget) -> Transport:
        excess = block.half * float(self.values[block.name][0]) / self.records
        spread = np.hypot(block.half * self.noise[block.name], excess * self.records_noise)
        power = float(np.clip(block.kappa + excess, 0.0, block.reach**block.p))
        return Transport(power, float(spread) / self.records, block.reach, block.p)


@dataclass(frozen=True)
class Transport:
    """A transport to the target as it is read.

    Attributes
    ----------
    power, noise
        ``W_p^p`` in the metric that is cut at the reach, and the standard deviation of its noise.
    reach, p
        Where the metric is cut, and the order.
    """

    power: float
    noise: float
    reach: float
    p: int

    @property
    def value(self) -> float:
        """The distance."""
        return self.power ** (1.0 / self.p)

    @property
    def fill(self) -> float:
        """The distance as a share of the reach: near 1 the cut takes much of it away."""
        return self.value / self.reach

    def interval(self, deviations: float = 1.96) -> tuple[float, float]:
        """Compute the ends between which the distance lies but for the noise."""
        ends = (self.power - deviations * self.noise, self.power + deviations * self.noise)
        low, high = np.clip(ends, 0.0, self.reach**self.p) ** (1.0 / self.p)
        return float(low), float(high)


def shorten_distances(table: Array) -> Array:
    """Compute the largest metric that is nowhere above a table of distances.

    Examples
    --------
    >>> shorten_distances(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]]))[0].tolist()
    [0.0, 1.0, 2.0]
    """
    metric = np.minimum(table, table.T)
    np.fill_diagonal(metric, 0.0)
    # Floyd and Warshall: shortest ways by way of the first k classes, for growing k.
    for k in range(len(metric)):
        metric = np.minimum(metric, metric[:, k, None] + metric[k])
    return metric


def reach_of(target: Array, weights: Array, share: float) -> float:
    """Compute a public reach: root of ``share`` times the median squared distance of two atoms.

    A target whose atoms are all one point has none: 1 is taken.
    """
    used = weights > 0
    first, second = np.triu_indices(int(used.sum()), 1)
    squares = cdist(target[used], target[used], "sqeuclidean")[first, second]
    middle = float(np.median(squares)) if len(squares) else 0.0
    if middle <= 0.0:
        middle = float(squares.mean()) if len(squares) else 0.0
    return (share * middle) ** 0.5 if middle > 0.0 else 1.0
