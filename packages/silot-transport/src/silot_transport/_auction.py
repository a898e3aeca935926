"""Transport between clouds whose matrix of costs is never held: tiles of it, and short lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._check import Array
from .exact import exact_plan

Counts = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]
Places = npt.NDArray[np.intp]

# Entries of a tile: it stays in the cache.
_TILE, _SIDE = 1 << 18, 1 << 9
_ROWS = 256
# Columns a row's list has, and of how many rows these take what much memory they may.
_LIST, _SHORTEST, _LISTED = 128, 32, 16_000_000
# Points of every level to one of the next coarser one, down to a size that is solved exactly.
_RATIO, _SMALL = 4, 1200
_STRATA = 256
# Stretches of columns that lie together, and the part of all columns that a row must be able to
# pass over at first sight for stretches to be worth while.
_BLOCKS, _PASSED = 64, 0.3
# Steps of prices, as parts of the cost: of coarse levels, and of the points themselves.
FIRST, _COARSE, FINEST = 0.05, 0.02, 0.0016
_COARSE_LEFT = 0.002
# Part of the mass that is left to augmenting paths: the last bids of an auction are many.
_LEFT = 0.02
# Scans a row, on average, after which a run gives up.
_MOST_SCANS = 40
_TOTAL = 2**52


@dataclass(frozen=True)
class Clouds:
    """Points (n, d) and (m, d), whose costs are ``|x - y - shift|^p``.

    Columns with one number in ``blocks`` follow one another and lie near one another, where that
    is known.
    """

    x: Array
    y: Array
    shift: Array
    p: int
    blocks: Places | None = None

    @cached_property
    def near(self) -> tuple[Array, Array, Array, Array]:
        """Centred points that have the same costs, and their squared norms."""
        middle = self.y.mean(axis=0)
        x, y = (self.x - middle) - self.shift, self.y - middle
        return x, y, np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)

    def part(self, rows: Places, columns: Places) -> Clouds:
        """Some of the points."""
        blocks = None if self.blocks is None else self.blocks[columns]
        return Clouds(self.x[rows], self.y[columns], self.shift, self.p, blocks)


class Balls:
    """Balls around stretches of columns: no column of one is nearer than its edge."""

    def __init__(self, y: Array, blocks: Places) -> None:
        self.starts: Places = np.flatnonzero(np.diff(blocks, prepend=blocks[0] - 1))
        self.ends: Places = np.append(self.starts[1:], len(y))
        counts = (self.ends - self.starts)[:, None]
        self._centres = np.add.reduceat(y, self.starts, axis=0) / counts
        self._squares = np.einsum("ij,ij->i", self._centres, self._centres)
        parts = zip(self.starts, self.ends, self._centres, strict=True)
        far = [np.linalg.norm(y[start:end] - centre, axis=1).max() for start, end, centre in parts]
        # Of sums of d terms, several times over.
        self._rounding = 8.0 * (y.shape[1] + 8) * float(np.finfo(np.float64).eps)
        self._radii = np.array(far) * (1.0 + self._rounding)

    def edges(self, x: Array, x2: Array) -> Array:
        """Distances below which no point (k, d) has a column of a ball (k, B)."""
        sizes = x2[:, None] + self._squares
        squares = (1.0 - self._rounding) * sizes - 2.0 * (x @ self._centres.T)
        return np.maximum(np.sqrt(np.maximum(squares, 0.0)) - self._radii, 0.0)


def grouped(clouds: Clouds, k: int) -> tuple[Places, Places, Places] | None:
    """Orders of rows and columns in which neighbours follow one another, and columns' blocks.

    ``None`` where most columns are about as far as the nearest: none can then be passed over.
    """
    nearest = _strata(clouds, np.random.default_rng(1), _BLOCKS)
    rows, columns = (np.argsort(label, kind="stable") for label in nearest)
    blocks = nearest[1][columns]
    x, y, x2, _ = clouds.near
    balls = Balls(y[columns], blocks)
    some, squares = _looked_at(clouds)
    k = min(k, len(y) - 1)
    squares.partition(k, axis=1)
    passed = balls.edges(x[some], x2[some]) ** 2 > squares[:, k, None]
    share = float((passed @ (balls.ends - balls.starts)).mean()) / len(y)
    return (rows, columns, blocks) if share > _PASSED else None


class Tiles:
    """Products of points tile by tile, in single precision where that tells neighbours apart."""

    def __init__(self, clouds: Clouds, k: int) -> None:
        x, y, x2, y2 = clouds.near
        self.p = clouds.p
        self.x2, self.y2 = x2, y2
        self.widest = float(np.sqrt(y2.max()))
        self.d = x.shape[1]
        single = 2.0**-24
        spread = _spread(clouds, k)
        rounding = self._of_products(single, np.sqrt(x2.max()))
        fine = rounding <= 0.05 * spread
        self.unit = single if fine else 2.0**-53
        self.dtype = np.float32 if fine else np.float64
        self.left = x.astype(self.dtype)
        self.right = (-2.0 * y).astype(self.dtype)
        self.buffer = np.empty(max(_TILE, _ROWS * 512), self.dtype)
        self.balls = None if clouds.blocks is None else Balls(y, clouds.blocks)
        self.x = None if self.balls is None else x

    def _of_products(self, unit: float, norm: Any) -> Any:
        return (
            1.01
            * unit
            * (2.0 * (self.d + 6) * norm * self.widest + 4.0 * (norm**2 + self.widest**2))
        )

    def scan(self, auction: Any, rows: Index, price: Array) -> None:
        """Make the lists of some rows anew."""
        auction.scan_begin(rows)
        left, x2 = self.left[rows], self.x2[rows]
        rounding = self._of_products(self.unit, np.sqrt(x2))
        if self.p == 2:
            column = (self.y2 + price).astype(self.dtype)
            base, prices = np.zeros(len(rows), self.dtype), column
            size = float(np.abs(price).max())
            lift = x2 - rounding - 4.0 * self.unit * size
        else:
            column = self.y2.astype(self.dtype)
            base, prices = (x2 - rounding).astype(self.dtype), price.astype(self.dtype)
            size = float(np.abs(price).max())
            lift = -4.0 * self.unit * (np.sqrt(x2) + self.widest + size)

        def tile(which: Index, start: int, end: int) -> None:
            all_of_them = len(which) == len(rows)
            own, low = (left, base) if all_of_them else (left[which], base[which])
            width = max(512, len(self.buffer) // len(which))
            for first in range(start, end, width):
                part = slice(first, min(end, first + width))
                count = part.stop - first
                out = self.buffer[: len(which) * count].reshape(len(which), count)
                np.matmul(own, self.right[part].T, out=out)
                auction.scan_block(which, out, column[part], low, prices[part], first)

        if self.balls is None or self.x is None:
            tile(np.arange(len(rows), dtype=np.int32), 0, len(price))
        else:
            self._pass_over(self.balls, self.x[rows], x2, price, auction, tile)
        auction.scan_end(lift)

    def _pass_over(
        self,
        balls: Balls,
        x: Array,
        x2: Array,
        price: Array,
        auction: Any,
        tile: Callable[[Index, int, int], None],
    ) -> None:
        """Scan, for each row, the stretches that may have a column for its list."""
        low = balls.edges(x, x2)
        # As values of the kernel are: squared distances leave out the rows' own norms.
        low = low**2 - x2[:, None] if self.p == 2 else low
        low += np.minimum.reduceat(price, balls.starts)
        bars, nearest = np.full(len(x), np.inf), low.argmin(axis=1)
        for first in (True, False):
            scanned, due = 0, 1
            for block in np.unique(nearest) if first else low.min(axis=0).argsort(kind="stable"):
                wanted = nearest == block if first else (nearest != block) & (low[:, block] < bars)
                which = np.flatnonzero(wanted).astype(np.int32)
                if len(which) == 0:
                    continue
                tile(which, int(balls.starts[block]), int(balls.ends[block]))
                scanned += 1
                if scanned == due and not first:
                    auction.scan_bars(bars)
                    due *= 2
            auction.scan_bars(bars)


def _spread(clouds: Clouds, k: int) -> float:
    """How much farther the last column of a list is than the first, for most rows."""
    _, squares = _looked_at(clouds)
    k = min(k, squares.shape[1] - 1)
    squares.partition((0, k), axis=1)
    return float(np.median(squares[:, k] - squares[:, 0]))


def _looked_at(clouds: Clouds) -> tuple[Places, Array]:
    """Some rows, and their squared distances to all columns."""
    x, y, x2, y2 = clouds.near
    rows = np.linspace(0, len(x) - 1, min(len(x), 48)).astype(np.intp)
    return rows, np.maximum(x[rows] @ (-2.0 * y.T) + y2 + x2[rows, None], 0.0)


@dataclass(frozen=True)
class Cells:
    """Where mass is, in counts."""

    rows: Index
    columns: Index
    counts: Counts


def longest(n: int) -> int:
    """Columns on the list of a row."""
    return max(_SHORTEST, min(_LIST, _LISTED // n))


class Run:
    """One auction on one level."""

    def __init__(self, clouds: Clouds, a: Counts, b: Counts, price: Array) -> None:
        assert _native.kernels is not None
        n = len(a)
        k = longest(n)
        self.a, self.b = a, b
        self.total = int(a.sum())
        self._tiles = Tiles(clouds, k)
        self._price = price.copy()
        self._auction = _native.kernels.Auction(
            clouds.x, clouds.y, clouds.shift, a, b, price, k, clouds.p
        )
        self._wanted = np.empty(n, np.int32)
        self._most = _MOST_SCANS * n
        self._scan(np.arange(n, dtype=np.int32))

    def _scan(self, rows: Index) -> None:
        self._auction.prices(self._price)
        self._most -= len(rows)
        # Neighbours are scanned together, for they look at the same stretches.
        rows = np.sort(rows)
        for start in range(0, len(rows), _ROWS):
            self._tiles.scan(self._auction, rows[start : start + _ROWS].copy(), self._price)

    def bid(self, step: float, left: float) -> None:
        """Let rows bid, in steps of prices, until no more than a part of the mass is left."""
        self._auction.step(step)
        self._until(self._auction.bid, left)

    def settle(self) -> None:
        """Take back all mass that is not at the least cost plus price of its row."""
        self._auction.settle(0.0)

    def augment(self, left: float) -> bool:
        """Place mass along shortest paths; whether no more than a part of it is left."""
        return self._until(self._auction.augment, left)

    def _until(self, work: Callable[[int, Index], int], left: float) -> bool:
        while count := work(int(left * self.total), self._wanted):
            if self._most < 0:
                return False
            self._scan(self._wanted[:count])
        return True

    def duals(self) -> tuple[Array, Array]:
        """Potentials f and g that no cost is below, of the prices of the moment."""
        self._auction.prices(self._price)
        f = np.empty(len(self.a))
        self._auction.least(f)
        return f, -self._price

    def value(self) -> float:
        """The dual value of these."""
        f, g = self.duals()
        return float(self.a @ f + self.b @ g) / self.total

    def cells(self) -> Cells:
        """What is placed."""
        count = self._auction.count()
        rows, columns = np.empty(count, np.int32), np.empty(count, np.int32)
        counts = np.empty(count, np.int64)
        self._auction.cells(rows, columns, counts)
        return Cells(rows, columns, counts)


def approach(run: Run, steps: Sequence[float]) -> None:
    """Bid in steps, given as parts of the cost, and take back what is not at its best place."""
    scale = run.value()
    for step in steps if scale > 0.0 else ():
        run.bid(step * scale, _LEFT)
        scale = max(scale, run.value())
    run.settle()


def as_counts(weights: Array, total: int = _TOTAL) -> Counts:
    """Whole numbers of this sum, each within one of its share."""
    exact = weights * (total / weights.sum())
    counts = np.floor(exact).astype(np.int64)
    short = total - int(counts.sum())
    # What the sum of many floors misses is given to the largest parts.
    order = np.argsort(counts - exact, kind="stable")
    each, rest = divmod(short, len(counts))
    counts += each
    counts[order[:rest]] += 1
    return counts


def start_price(clouds: Clouds, a: Array, b: Array, rng: np.random.Generator) -> Array:
    """Prices of the columns from the same problem on a sample, coarser and coarser."""
    n, m = len(a), len(b)
    few_rows, few_columns = (max(1, min(size, max(size // _RATIO, _SMALL // 2))) for size in (n, m))
    strata = _strata(clouds, rng, _STRATA)
    rows, a = _sample(a, strata[0], few_rows, rng)
    columns, b = _sample(b, strata[1], few_columns, rng)
    part = clouds.part(rows, columns)
    if len(rows) * len(columns) <= _SMALL**2:
        x, y, _, _ = part.near
        f = exact_plan(x, y, a, b, p=clouds.p).potentials[0]
    else:
        run = Run(part, as_counts(a), as_counts(b), start_price(part, a, b, rng))
        approach(run, (FIRST, _COARSE))
        run.augment(_COARSE_LEFT)
        f = run.duals()[0]
    return -_transform(clouds, rows, f)


def _transform(clouds: Clouds, rows: Places, f: Array) -> Array:
    """``g_j = min_i C_ij - f_i`` over some rows: rounded, for prices to start from."""
    x, y, x2, y2 = clouds.near
    left, right = (-2.0 * x[rows]).astype(np.float32), y.astype(np.float32)
    base = (x2[rows] if clouds.p == 1 else x2[rows] - f).astype(np.float32)
    squares, single = y2[:, None].astype(np.float32), f.astype(np.float32)
    g = np.full(len(y), np.inf)
    for start in range(0, len(y), _SIDE):
        part = slice(start, start + _SIDE)
        for first in range(0, len(rows), _SIDE):
            own = slice(first, first + _SIDE)
            tile = right[part] @ left[own].T
            tile += base[own]
            if clouds.p == 1:
                tile += squares[part]
                np.sqrt(np.maximum(tile, 0.0, out=tile), out=tile)
                tile -= single[own]
            np.minimum(g[part], tile.min(axis=1), out=g[part])
    return g + y2 if clouds.p == 2 else g


def _strata(clouds: Clouds, rng: np.random.Generator, most: int) -> tuple[Places, Places]:
    """Which of a few random points is nearest: clusters keep their masses in a sample."""
    x, y, _, _ = clouds.near
    n, count = len(x), min(most, len(x) + len(y))
    chosen = rng.choice(n + len(y), count, replace=False)
    pivots = np.concatenate([x[chosen[chosen < n]], y[chosen[chosen >= n] - n]])
    half = 0.5 * np.einsum("ij,ij->i", pivots, pivots)
    nearest: list[Places] = []
    for points in (x, y):
        label = np.empty(len(points), np.intp)
        step = _TILE // count
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            label[part] = (points[part] @ pivots.T - half).argmax(axis=1)
        nearest.append(label)
    return nearest[0], nearest[1]


def _sample(
    weights: Array, stratum: Places, size: int, rng: np.random.Generator
) -> tuple[Places, Array]:
    """Points at equal steps of mass, stratum by stratum; every stratum keeps its mass."""
    order: Places = np.lexsort((rng.random(len(weights)), stratum))
    edges: Array = np.cumsum(weights[order])
    places: Array = (np.arange(size) + rng.random()) * (edges[-1] / size)
    reached: Places = np.searchsorted(edges, places)
    found, times = np.unique(np.minimum(reached, len(order) - 1), return_counts=True)
    # In their own order, in which neighbours may follow one another.
    chosen, times = (k[np.argsort(order[found])] for k in (order[found], times))
    kept = np.bincount(stratum[chosen], times, minlength=int(stratum.max()) + 1)
    mass = np.bincount(stratum, weights, minlength=len(kept))
    share = times * (mass / np.maximum(kept, 1))[stratum[chosen]]
    return chosen, share / math.fsum(share.tolist())
