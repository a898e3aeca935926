"""Optimal transport within bounds, of clouds whose matrix of costs does not fit into memory.

Costs are computed in tiles; every row keeps a short list of its best columns, and the network
simplex solves on the lists. New lists, at the potentials that it ends with, bound the optimum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._check import Array, Index, Weights, as_exact_clouds, as_order, real
from ._solvers import staircase
from ._threads import cores
from .cost import build_cost, paired_cost
from .errors import ExtraError, InputError
from .exact import (
    ExactPlan,
    coincide,
    exact_plan,
    group_points,
    plan_of_points,
    scaled_plan,
    tiny_exponent,
    widened_plan,
)
from .memory import fits

Counts = npt.NDArray[np.int64]
Coupling = tuple[Index, Index, Array]
"""Rows, columns and masses of its cells."""
Short = npt.NDArray[np.int32]
"""Numbers of rows or columns, as the kernel takes them."""

# Cells up to which the matrix is no burden, and its solver is the faster one.
_SMALL = 4000**2
# Times as many points on one side as on the other from which on the matrix is taken, if it fits.
_LOPSIDED = 16
# Cells beyond which lists take a tenth of the memory, and no more time.
_LARGE = 12_000**2
# Where so many costs are alike that lists end no nearer than this, the matrix of costs is solved
# instead, if it fits into memory.
_CLOSE = 1e-6
# Counts that divide both numbers of points evenly are exact up to here: float64 holds them.
_TOTAL = 2**52
_BLOCK = 1 << 22
# Relative room for the rounding of sums, and the relative gap that counts as optimal.
_SUM_ROUNDING, _OPTIMAL = 1e-12, 1e-9
_EPSILON = float(np.finfo(np.float64).eps)

# Entries of a tile, its rows where both sides are tiled, and rows of one scan: a tile stays in the
# cache.
_TILE, _SIDE, _ROWS = 1 << 18, 1 << 9, 256
# Columns on the list of a row: at most, at least, and of all rows together.
_LONGEST, _SHORTEST, _LISTED = 48, 16, 16_000_000
# Columns on the lists of all rows that lists may grow to.
_LONGEST_LISTS = 4 * _LISTED
# Points of every level to one of the next coarser one, down to a size that is solved exactly.
_RATIO, _COARSEST = 4, 2500
# Dimensions up to which coarse levels are means of neighbours; in more, means say little.
_BOXED = 3
# Random points that a sample is stratified by.
_STRATA = 256
# Stretches of columns that lie together, and the part of all columns that a row must be able to
# pass over at first sight for stretches to pay.
_BLOCKS, _PASSED = 64, 0.3
# Rounds of lists, at most, and the relative gap of coarse levels; the share of the time
# that is left which each may take.
_MOST_ROUNDS, _COARSE_GAP, _COARSE_TIME = 30, 0.02, 0.3
# Scans that there must be time for if one of them is to pivot.
_IMPROVING = 3.0
# Rows that are scanned at once while pivoting, at least this part of all. Rows by which tree and
# tiles are compared, and the time of a column, as measured: in a tree, by its coordinates; in a
# tile.
_PARTS, _PROBES = 1000, 64
_TREE_COLUMNS = 12
_OF_TREE, _OF_COLUMN, _OF_TILE = 2.0, 0.7, 4.0


def bounded_plan(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, p: int = 2, gap: float = 0.01, time_limit: float | None = None,
) -> ExactPlan:  # fmt: skip
    r"""Transport two weighted point clouds within a certified gap, without their cost matrix.

    The dual of :math:`W_p^p` needs, for prices :math:`-g_j` of the columns, only the least of
    :math:`|x_i - y_j|^p - g_j` in every row:

    .. math:: \sum_i a_i \min_j \left(|x_i - y_j|^p - g_j\right) + \sum_j b_j g_j
              \;\le\; W_p^p(\mu, \nu) \;\le\; \sum_{ij} P_{ij} |x_i - y_j|^p

    Every row keeps the columns that are nearest at the prices of the moment, found in tiles of the
    matrix, and a floor below which no other column was. Prices come from the same problem on a
    sample, level by level; the network simplex solves on the lists, and again on new lists at the
    prices that it ends with, until the bounds are near enough. Both are certified, the rounding of
    tiles in single precision included.

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights, shapes (n,) and (m,); normalised to sum 1. ``None`` means uniform.
    p
        1 or 2.
    gap
        Part of the cost by which the bounds of the cost may differ; 0 asks for the optimum.
    time_limit
        Seconds after which the bounds reached so far are returned, some passes over the matrix
        later at most. What is reached depends on the machine. Problems small enough for
        ``exact_plan`` are solved to the end.

    Returns
    -------
    ExactPlan
        ``status`` is ``"optimal"``, or says how far apart the bounds are.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; a gap that is not a part, or a time limit that is not positive
        (``"option-gap"``).
    ExtraError
        The compiled kernels are not there (``"kernels-missing"``).

    Notes
    -----
    Schmitzer, *A Sparse Multiscale Algorithm for Dense Optimal Transport*, 2016, for lists that are
    checked; the simplex is that of ``exact_plan``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> plan = bounded_plan(rng.normal(size=(2000, 8)), rng.normal(size=(3000, 8)), gap=0.02)
    >>> plan.upper_cost - plan.lower_cost <= 0.02 * plan.upper_cost
    True
    """
    order = as_order(p)
    x, y, a, b, error = as_exact_clouds(x, y, a, b)
    if not 0.0 <= real(gap, "gap", "option-gap") < 1.0:
        raise InputError(f"gap is {gap!r}; 0 <= gap < 1 is needed.", code="option-gap")
    limit = math.inf if time_limit is None else real(time_limit, "time_limit", "option-gap")
    if not limit > 0.0:
        raise InputError(
            f"time_limit is {time_limit!r}; a number of seconds above 0, or None, is needed.",
            code="option-gap",
        )
    effort = Effort(gap, time.monotonic() + limit)
    exponent = tiny_exponent(x, y)
    if exponent:
        x, y, error = np.ldexp(x, -exponent), np.ldexp(y, -exponent), math.ldexp(error, -exponent)
    if x.shape[1] == 1 or _is_small(x, y) or _is_lopsided(x, y) or coincide(x, y, a, b) is not None:
        plan = exact_plan(x, y, a, b, p=order)
    elif _native.kernels is None:
        raise ExtraError(
            f"transport of {len(x)} x {len(y)} points without their matrix of costs needs the "
            f"compiled kernels: {_native.missing}. Or use fewer records, or exact_plan where the "
            "matrix fits into memory.",
            code="kernels-missing",
        )
    else:
        plan = _solve_masses(x, y, a, b, order, effort)
    plan = widened_plan(plan, x, y, error) if error else plan
    return scaled_plan(plan, exponent) if exponent else plan


def _solve_masses(x: Array, y: Array, a: Array, b: Array, order: int, effort: Effort) -> ExactPlan:
    """Solve for the points that have mass; all others get potentials."""
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    result = _solve_merged(x[rows], y[columns], a[rows], b[columns], order, effort)
    if len(rows) == len(x) and len(columns) == len(y):
        return result
    f, g = np.full(len(x), np.nan), np.full(len(y), np.nan)
    f[rows], g[columns] = result.potentials
    # Points without mass get the largest potentials that are feasible.
    idle = np.flatnonzero(np.isnan(g))
    g[idle] = _find_largest_potential(y[idle], x[rows], f[rows], order)
    idle = np.flatnonzero(np.isnan(f))
    f[idle] = _find_largest_potential(x[idle], y, g, order)
    return replace(result, rows=rows[result.rows], cols=columns[result.cols], potentials=(f, g))


def fitting_plan(x: Array, y: Array, a: Array, b: Array, p: int) -> ExactPlan:
    """Solve by ``exact_plan`` where the matrix of costs is no burden, else by ``bounded_plan``.

    The result is optimal as long as costs would fit into memory, and within 1 % beyond.

    Raises
    ------
    MemoryShortError
        Costs do not fit, and there are no compiled kernels.
    """
    costs_fit = fits(len(x), len(y), x.shape[1])
    if _native.kernels is None or (costs_fit and len(x) * len(y) <= _LARGE):
        return exact_plan(x, y, a, b, p=p)
    plan = bounded_plan(x, y, a, b, p=p, gap=0.0 if costs_fit else 0.01)
    is_close = plan.upper_cost - plan.lower_cost <= _CLOSE * plan.upper_cost
    return exact_plan(x, y, a, b, p=p) if costs_fit and not is_close else plan


def _is_small(x: Array, y: Array) -> bool:
    is_small = len(x) * len(y) <= _SMALL and fits(len(x), len(y), x.shape[1])
    return is_small or min(len(x), len(y)) == 1


def _is_lopsided(x: Array, y: Array) -> bool:
    """Return whether one side is far smaller: each of its points then ends many paths."""
    sizes = sorted((len(x), len(y)))
    return sizes[1] > _LOPSIDED * sizes[0] and fits(len(x), len(y), x.shape[1])


def _solve_merged(x: Array, y: Array, a: Array, b: Array, p: int, effort: Effort) -> ExactPlan:
    """Solve with one point for all that coincide, because many costs would be alike."""
    rows, cols = group_points(x), group_points(y)
    if rows.count == len(x) and cols.count == len(y):
        return _solve(x, y, a, b, p, effort)
    x_one, y_one, a_one, b_one = x[rows.first], y[cols.first], rows.masses(a), cols.masses(b)
    if _is_small(x_one, y_one):
        merged = exact_plan(x_one, y_one, a_one, b_one, p=p)
    else:
        merged = _solve(x_one, y_one, a_one, b_one, p, effort)
    plan = plan_of_points(merged, rows, cols, a, b)
    cost = float(plan.mass @ _compute_paired_costs(x, y, plan.rows, plan.cols, p))
    upper = max(merged.upper_cost, cost * (1.0 + _SUM_ROUNDING))
    plan = replace(plan, cost=cost, upper_cost=upper, lower_cost=min(merged.lower_cost, cost))
    # Sharing among points that coincide rounds masses, so that the coupling may cost a bit more.
    return plan if upper == merged.upper_cost else replace(plan, status=effort.word(plan))


def _find_largest_potential(points: Array, others: Array, potential: Array, p: int) -> Array:
    """Return the largest feasible potentials of points, from those of the other side."""
    largest = np.empty(len(points))
    step = max(1, _BLOCK // len(others))
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        largest[part] = (build_cost(points[part], others, p).matrix - potential).min(axis=1)
    return largest


def _solve(x: Array, y: Array, a: Array, b: Array, p: int, effort: Effort) -> ExactPlan:
    if len(x) < len(y):
        result = _solve(y, x, b, a, p, effort)
        f, g = result.potentials
        return replace(result, rows=result.cols, cols=result.rows, potentials=(g, f))
    shift = a @ x - b @ y if p == 2 else np.zeros(x.shape[1])
    # Powers of two leave all digits as they are, and single precision has their range. What counts
    # is how far points are from the centre, where tiles are computed.
    near_x, near_y, _, _ = Clouds(x, y, shift, p).near
    exponent = math.frexp(max(float(np.abs(near_x).max()), float(np.abs(near_y).max())))[1]
    if abs(exponent) > 40:
        unit = 2.0 ** (exponent * p)
        result = _solve(np.ldexp(x, -exponent), np.ldexp(y, -exponent), a, b, p, effort)
        f, g = result.potentials
        return replace(
            result,
            potentials=(f * unit, g * unit),
            cost=result.cost * unit,
            lower_cost=result.lower_cost * unit,
            upper_cost=result.upper_cost * unit,
        )
    clouds = Clouds(x, y, shift, p)
    order = group_neighbours(clouds, choose_list_length(len(x)))
    if order is None:
        return _run(clouds, a, b, effort)
    rows, columns, blocks = order
    plan = _run(Clouds(x[rows], y[columns], shift, p, blocks), a[rows], b[columns], effort)
    f, g = np.empty(len(x)), np.empty(len(y))
    f[rows], g[columns] = plan.potentials
    return replace(plan, rows=rows[plan.rows], cols=columns[plan.cols], potentials=(f, g))


def _run(clouds: Clouds, a: Array, b: Array, effort: Effort) -> ExactPlan:
    """Solve until the bounds are within the gap."""
    even = len(a) * (len(b) // math.gcd(len(a), len(b)))
    if np.ptp(a) == 0.0 and np.ptp(b) == 0.0 and even <= _TOTAL:
        k, l = (np.full(size, even // size, np.int64) for size in (len(a), len(b)))
    else:
        k, l = as_counts(a), as_counts(b)
    start, coarse = find_start(clouds, a, b, effort, np.random.default_rng(0))
    run = Run(clouds, k, l, start)
    potentials = run.approach(effort)
    plan = _certify(clouds, a, b, run.cells(), potentials)
    if effort.is_over and coarse is not None:
        # Where time was too short for pivots, the coupling of boxes leads to a better one.
        other = _certify(clouds, a, b, coarse.refine(a, b), potentials)
        plan = min(plan, other, key=lambda one: one.upper_cost)
    return replace(plan, status=effort.word(plan))


@dataclass(frozen=True, eq=False)
class Coarse:
    """A coupling of boxes of points."""

    cells: Coupling
    of_rows: Index
    of_columns: Index

    def refine(self, a: Array, b: Array) -> Coupling:
        """Couple the points of boxes as their boxes are."""
        rows, columns, mass = self.cells
        i, cell, part = _glue(self.of_rows, a, rows, mass)
        j, k, part = _glue(self.of_columns, b, columns[cell], part)
        return i[k], j, part


def _glue(of: Index, weights: Array, boxes: Index, mass: Array) -> Coupling:
    """Share the mass of entries of boxes among their points: points, entries, masses."""
    points, entries = np.argsort(of, kind="stable"), np.argsort(boxes, kind="stable")
    i, k, part = staircase(weights[points], mass[entries])
    return points[i], entries[k], part


@dataclass
class Effort:
    """How near bounds are to be, and when to end at the latest."""

    gap: float
    deadline: float
    """Of ``time.monotonic``."""

    @property
    def seconds(self) -> float:
        """Seconds that remain, not below a thousandth."""
        return max(self.deadline - time.monotonic(), 1e-3)

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def end(self) -> None:
        """Let the deadline pass now: for the next step time is too short."""
        self.deadline = -math.inf

    def word(self, plan: ExactPlan) -> str:
        """Say how near the bounds are."""
        part = (plan.upper_cost - plan.lower_cost) / plan.upper_cost if plan.upper_cost else 0.0
        if part <= _OPTIMAL:
            return "optimal"
        if part <= self.gap:
            return (
                f"within {part:.2g} of the optimal cost, but {self.gap:g} was requested; gap=0 "
                "requests the exact optimum"
            )
        if self.is_over:
            return (
                f"within {part:.2g} of the optimal cost when the time limit passed; more time or "
                "fewer records bring it closer"
            )
        return (
            f"within {part:.2g} of the optimal cost, but not within {self.gap:g}: too many costs "
            "are nearly alike. Merge points that coincide, remove outliers, or use fewer records."
        )


def _certify(
    clouds: Clouds, a: Array, b: Array,
    coupling: Coupling, potentials: tuple[Array, Array],
) -> ExactPlan:  # fmt: skip
    """Bound the optimal cost by a coupling, and by potentials."""
    x, y, shift, p = clouds.x, clouds.y, clouds.shift, clouds.p
    (rows, columns, mass), (f, g) = coupling, potentials
    near_x, near_y, x2, y2 = clouds.near
    # Around the means no common offset costs digits; the part of the means is added here.
    squared = float(shift @ shift)
    remainder = a @ near_x - b @ near_y
    dual = float(a @ f + b @ g) + squared + 2.0 * float(remainder @ shift)
    extent = (math.sqrt(squared) + math.sqrt(x2.max()) + math.sqrt(y2.max())) ** 2
    rounding = 4.0 * (x.shape[1] + 8) * _EPSILON * (extent if p == 2 else math.sqrt(extent))
    rounding += _SUM_ROUNDING * (float(a @ np.abs(f) + b @ np.abs(g)) + squared)
    cost = float(mass @ _compute_paired_costs(x, y, rows, columns, p))
    # Counts are masses up to rounding, and at worst that difference travels the whole extent.
    off = np.abs(a - np.bincount(rows, mass, len(a))).sum()
    off += np.abs(b - np.bincount(columns, mass, len(b))).sum()
    upper = cost * (1.0 + _SUM_ROUNDING) + float(off) * (extent if p == 2 else math.sqrt(extent))
    if p == 2:
        f = f + 2.0 * (near_x @ shift) + squared
        g = g - 2.0 * (near_y @ shift)
    middle = 0.5 * (float(b @ g) - float(a @ f))
    return ExactPlan(
        rows=rows,
        cols=columns,
        mass=mass,
        potentials=(f + middle, g - middle),
        cost=cost,
        lower_cost=min(max(dual - rounding, 0.0), cost),
        upper_cost=upper,
        p=p,
        status="",
        solver="listed simplex",
    )


def _compute_paired_costs(x: Array, y: Array, rows: Index, columns: Index, p: int) -> Array:
    costs = np.empty(len(rows))
    step = max(1, _BLOCK // x.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        costs[part] = paired_cost(x[rows[part]], y[columns[part]], p)
    return costs


@dataclass(frozen=True)
class Clouds:
    """Points (n, d) and (m, d), whose costs are ``|x - y - shift|^p``.

    Where there are ``blocks`` (m,), columns of one block follow and lie near one another.
    """

    x: Array
    y: Array
    shift: Array
    p: int
    blocks: Index | None = None

    @cached_property
    def near(self) -> tuple[Array, Array, Array, Array]:
        """Centred points that have the same costs without a shift, and their squared norms."""
        middle = self.y.mean(axis=0)
        x, y = (self.x - middle) - self.shift, self.y - middle
        return x, y, np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)

    def part(self, rows: Index, columns: Index) -> Clouds:
        """Return the clouds of these points alone."""
        blocks = None if self.blocks is None else self.blocks[columns]
        return Clouds(self.x[rows], self.y[columns], self.shift, self.p, blocks)


class Balls:
    """Balls around blocks of columns: no column of a block is nearer than the edge of its ball."""

    def __init__(self, y: Array, blocks: Index) -> None:
        self.starts: Index = np.flatnonzero(np.diff(blocks, prepend=blocks[0] - 1))
        self.ends: Index = np.append(self.starts[1:], len(y))
        counts = (self.ends - self.starts)[:, None]
        self._centres = np.add.reduceat(y, self.starts, axis=0) / counts
        self._squares = np.einsum("ij,ij->i", self._centres, self._centres)
        parts = zip(self.starts, self.ends, self._centres, strict=True)
        far = [np.linalg.norm(y[start:end] - centre, axis=1).max() for start, end, centre in parts]
        # Several times the rounding of a sum of d terms.
        self._rounding = 8.0 * (y.shape[1] + 8) * float(np.finfo(np.float64).eps)
        self._radii = np.array(far) * (1.0 + self._rounding)

    def edges(self, x: Array, x2: Array) -> Array:
        """Return distances (k, B) of points (k, d) to the edges of the balls, or less."""
        sizes = x2[:, None] + self._squares
        squares = (1.0 - self._rounding) * sizes - 2.0 * (x @ self._centres.T)
        return np.maximum(np.sqrt(np.maximum(squares, 0.0)) - self._radii, 0.0)

    def part_passed(self, x: Array, x2: Array, squares: Array) -> float:
        """Return the part of columns whose balls are farther from points than so much (k,)."""
        passed = self.edges(x, x2) ** 2 > squares[:, None]
        sizes = self.ends - self.starts
        return float((passed @ sizes).mean() / sizes.sum())


def group_neighbours(clouds: Clouds, k: int) -> tuple[Index, Index, Index] | None:
    """Order rows and columns so that neighbours follow one another, and split columns in blocks.

    ``None`` where most columns are about as far as the nearest: none can then be passed over.
    """
    nearest = _label_strata(clouds, np.random.default_rng(1), _BLOCKS)
    rows, columns = (np.argsort(label, kind="stable") for label in nearest)
    blocks = nearest[1][columns]
    x, y, x2, _ = clouds.near
    balls = Balls(y[columns], blocks)
    probes, squares = _probe(clouds)
    k = min(k, len(y) - 1)
    squares.partition(k, axis=1)
    share = balls.part_passed(x[probes], x2[probes], squares[:, k])
    return (rows, columns, blocks) if share > _PASSED else None


class Tiles:
    """Products of points, tile by tile, in single precision where it separates neighbours."""

    def __init__(self, clouds: Clouds, k: int) -> None:
        x, y, x2, y2 = clouds.near
        self.p = clouds.p
        self.x2, self.y2 = x2, y2
        self.widest = float(np.sqrt(y2.max()))
        self.d = x.shape[1]
        single = 2.0**-24
        spread = _measure_spread(clouds, k)
        rounding = self._rounding(single, np.sqrt(x2.max()))
        # Floors of rows fall by the rounding, which must be small beside the length of a list.
        is_fine = rounding <= 0.05 * spread
        self.unit = single if is_fine else 2.0**-53
        self.dtype = np.float32 if is_fine else np.float64
        self.of_rows = x.astype(self.dtype)
        self.of_columns = (-2.0 * y).astype(self.dtype)
        self.buffer = np.empty(max(_TILE, _ROWS * 512), self.dtype)
        self.balls = None if clouds.blocks is None else Balls(y, clouds.blocks)
        self.x = None if self.balls is None else x
        self.part = 1.0
        """Of all columns, which rows are compared with."""
        if self.balls is not None:
            rows, squares = _probe(clouds)
            squares.partition(min(k, len(y) - 1), axis=1)
            nearest = squares[:, min(k, len(y) - 1)]
            self.part -= self.balls.part_passed(x[rows], x2[rows], nearest)

    def _rounding(self, unit: float, norm: Any) -> Any:
        """Bound the error of squared distances from products in a precision (Higham, 2002)."""
        return (
            1.01
            * unit
            * (2.0 * (self.d + 6) * norm * self.widest + 4.0 * (norm**2 + self.widest**2))
        )

    def scan(self, listed: Any, rows: Short, price: Array) -> None:
        """Fill the lists of these rows at these prices."""
        listed.scan_begin(rows)
        of_rows, x2 = self.of_rows[rows], self.x2[rows]
        rounding = self._rounding(self.unit, np.sqrt(x2))
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

        def tile(which: Short, start: int, end: int) -> None:
            # Copies are needed only where some rows pass this stretch over.
            is_full = len(which) == len(rows)
            own, low = (of_rows, base) if is_full else (of_rows[which], base[which])
            width = max(512, len(self.buffer) // len(which))
            for first in range(start, end, width):
                part = slice(first, min(end, first + width))
                count = part.stop - first
                out = self.buffer[: len(which) * count].reshape(len(which), count)
                np.matmul(own, self.of_columns[part].T, out=out)
                listed.scan_block(which, out, column[part], low, prices[part], first)

        if self.balls is None or self.x is None:
            tile(np.arange(len(rows), dtype=np.int32), 0, len(price))
        else:
            self._pass_over(self.balls, self.x[rows], x2, price, listed, tile)
        listed.scan_end(lift)

    def _pass_over(
        self,
        balls: Balls,
        x: Array,
        x2: Array,
        price: Array,
        listed: Any,
        tile: Callable[[Short, int, int], None],
    ) -> None:
        """Scan, for every row, the blocks that may have a column for its list."""
        low = balls.edges(x, x2)
        # In the units of the kernel, whose squared distances lack the rows' own norms.
        low = low**2 - x2[:, None] if self.p == 2 else low
        low += np.minimum.reduceat(price, balls.starts)
        # The nearest block of every row comes first: it fills the lists, whose bars then exclude
        # most of the other blocks. Bars are read again after 1, 3, 7, ... of those.
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
                    listed.scan_bars(bars)
                    due *= 2
            listed.scan_bars(bars)


def _measure_spread(clouds: Clouds, k: int) -> float:
    """Return how much farther the last column of a list is than its first, in the median row."""
    _, squares = _probe(clouds)
    k = min(k, squares.shape[1] - 1)
    squares.partition((0, k), axis=1)
    return float(np.median(squares[:, k] - squares[:, 0]))


def _probe(clouds: Clouds) -> tuple[Index, Array]:
    """Pick up to 48 rows at equal steps, and compute their squared distances to all columns."""
    x, y, x2, y2 = clouds.near
    rows = np.linspace(0, len(x) - 1, min(len(x), 48)).astype(np.intp)
    return rows, np.maximum(x[rows] @ (-2.0 * y.T) + y2 + x2[rows, None], 0.0)


def choose_list_length(n: int) -> int:
    """Return how many columns the list of a row has."""
    return max(_SHORTEST, min(_LONGEST, _LISTED // n))


class Run:
    """Network simplex on lists, on one level."""

    def __init__(self, clouds: Clouds, a: Counts, b: Counts, price: Array) -> None:
        assert _native.kernels is not None
        n = len(a)
        k = choose_list_length(n)
        self.a, self.b, self._clouds = a, b, clouds
        self.total = int(a.sum())
        self._tiles, self._length = Tiles(clouds, k), k
        self._price = price - price.mean()
        self._threads = cores()
        self._listed = _native.kernels.Listed(
            clouds.x, clouds.y, clouds.shift, a, b, self._price, k, clouds.p
        )
        self._by_tree = self._pays_tree()

    def _pays_tree(self) -> bool:
        """Return whether a tree of columns finds the lists of some rows faster than tiles do."""
        n, (m, d) = len(self.a), self._clouds.y.shape
        probes = np.linspace(0, n - 1, min(n, _PROBES)).astype(np.int32)
        rows = np.unique(probes)
        looked = self._listed.scan_tree(rows, self._price, self._threads) / (len(rows) * m)
        return looked * (_OF_TREE + d * _OF_COLUMN) < _OF_TILE * self._tiles.part

    def scan(self, *, improve: bool = False) -> None:
        """List the columns of every row again, at the potentials of the moment.

        To ``improve`` is to pivot on every part of the lists before the next one is made.
        """
        rows = np.arange(len(self.a), dtype=np.int32)
        count = max(_ROWS, len(rows) // _PARTS) if improve or not self._by_tree else len(rows)
        for start in range(0, len(rows), count):
            part = rows[start : start + count]
            if improve or start == 0:
                self._listed.prices(self._price)
            if self._by_tree:
                self._listed.scan_tree(part, self._price, self._threads)
            else:
                for first in range(0, len(part), _ROWS):
                    self._tiles.scan(self._listed, part[first : first + _ROWS], self._price)
            if improve:
                self._listed.improve()

    def approach(self, effort: Effort) -> tuple[Array, Array]:
        """Scan and solve until the bounds are near enough; return potentials."""
        # What lists could still gain is a small part of the gap when they are left.
        enough = effort.gap / 4.0
        start = time.monotonic()
        self.scan()
        # What a scan takes is kept for the last one, which says what bounds were reached.
        scan = time.monotonic() - start
        potentials = self._duals()
        best = self._value(potentials)
        for _ in range(_MOST_ROUNDS):
            before = self._listed.pivots()
            self._listed.solve(enough, max(effort.seconds - scan, 1e-3))
            if effort.seconds > _IMPROVING * scan:
                self.scan(improve=True)
                self._listed.solve(enough, max(effort.seconds - scan, 1e-3))
            if effort.seconds < scan / 2.0:
                effort.end()
                break
            self.scan()
            duals = self._duals()
            if self._value(duals) > best:
                best, potentials = self._value(duals), duals
            cost = self._cost()
            # Of squares, what the shift adds to the cost of every coupling.
            total = cost + float(self._clouds.shift @ self._clouds.shift)
            if cost - best <= max(effort.gap, _OPTIMAL) * total or effort.is_over:
                break
            if self._listed.pivots() == before:
                # Floors of lists are lower by the rounding of their products.
                self._length *= 2
                if self._length * len(self.a) > _LONGEST_LISTS:
                    break
                self._listed.lengthen()
        return potentials

    def _value(self, potentials: tuple[Array, Array]) -> float:
        f, g = potentials
        return float(self.a @ f + self.b @ g) / self.total

    def _cost(self) -> float:
        """Compute the cost of the coupling, less what the shift of squares adds to all."""
        rows, columns, mass = self.cells()
        y = self._clouds.y + self._clouds.shift
        return float(mass @ _compute_paired_costs(self._clouds.x, y, rows, columns, self._clouds.p))

    def _duals(self) -> tuple[Array, Array]:
        """Return feasible potentials f and g, after a scan."""
        f = np.empty(len(self.a))
        self._listed.least(f)
        return f, -self._price

    def cells(self) -> Coupling:
        """Return the coupling."""
        size = len(self.a) + len(self.b) - 1
        rows, columns = np.empty((2, size), np.int32)
        counts = np.empty(size, np.int64)
        size = self._listed.cells(rows, columns, counts)
        mass = counts[:size] / float(self.total)
        return rows[:size].astype(np.intp), columns[:size].astype(np.intp), mass


def as_counts(weights: Array, total: int = _TOTAL) -> Counts:
    """Round weights to integers of this sum, each within one of its share."""
    exact = weights * (total / weights.sum())
    counts = np.floor(exact).astype(np.int64)
    short = total - int(counts.sum())
    # The units that the sum of many floors misses go to the largest parts.
    order = np.argsort(counts - exact, kind="stable")
    rounds, units = divmod(short, len(counts))
    counts += rounds
    counts[order[:units]] += 1
    return counts


def find_start(
    clouds: Clouds, a: Array, b: Array, effort: Effort, rng: np.random.Generator
) -> tuple[Array, Coarse | None]:
    """Compute prices of the columns from the same problem of fewer points, level by level.

    In few dimensions, where these are means of neighbours, a coupling of all points follows, too.
    """
    n, m = len(a), len(b)
    sizes = [max(1, min(size, max(size // _RATIO, _COARSEST // 4))) for size in (n, m)]
    boxes: tuple[Index, Index] | None = None
    if clouds.x.shape[1] <= _BOXED:
        boxes = _halve(clouds.x, sizes[0]), _halve(clouds.y, sizes[1])
        (x, a), (y, b) = _means(clouds.x, a, boxes[0]), _means(clouds.y, b, boxes[1])
        part = Clouds(x, y, clouds.shift, clouds.p)
    else:
        strata = _label_strata(clouds, rng, _STRATA)
        rows, a = _sample(a, strata[0], sizes[0], rng)
        columns, b = _sample(b, strata[1], sizes[1], rng)
        part = clouds.part(rows, columns)
    if len(a) * len(b) <= _COARSEST**2:
        x, y, _, _ = part.near
        plan = exact_plan(x, y, a, b, p=clouds.p)
        f, cells = plan.potentials[0], (plan.rows, plan.cols, plan.mass)
    else:
        # A coarse level is a start, and leaves most of the time to finer ones; unless its coupling
        # leads to one of all points.
        share = _COARSE_TIME if boxes is None else 1.0 - _COARSE_TIME
        deadline = time.monotonic() + share * effort.seconds
        coarse = Effort(_COARSE_GAP, min(deadline, effort.deadline))
        run = Run(part, as_counts(a), as_counts(b), find_start(part, a, b, coarse, rng)[0])
        f, cells = run.approach(coarse)[0], run.cells()
    # Both levels are centred alike.
    middle = clouds.y.mean(axis=0)
    price = -_transform(clouds, (part.x - middle) - clouds.shift, f)
    return price, None if boxes is None else Coarse(cells, *boxes)


def _halve(points: Array, boxes: int) -> Index:
    """Halve points along one column after the other until there are this many boxes."""
    box = np.zeros(len(points), np.intp)
    columns = np.argsort(-points.std(axis=0), kind="stable")
    for level in range(math.ceil(math.log2(max(boxes, 2)))):
        order = np.lexsort((points[:, columns[level % len(columns)]], box))
        sizes = np.bincount(box)
        first = np.cumsum(sizes) - sizes
        above = np.empty(len(points), np.intp)
        above[order] = np.arange(len(points)) - first[box[order]] >= (sizes[box[order]] + 1) // 2
        box = 2 * box + above
        # A box of one point has no second half.
        box = np.unique(box, return_inverse=True)[1].ravel()
    return box


def _means(points: Array, weights: Array, box: Index) -> tuple[Array, Array]:
    """Return the mean of the points of each box, and their mass."""
    mass = np.bincount(box, weights).astype(np.float64)
    sums = [np.bincount(box, weights * column) for column in points.T]
    return np.asarray(np.stack(sums, axis=1) / mass[:, None], np.float64), mass


def _transform(clouds: Clouds, points: Array, f: Array) -> Array:
    """Compute ``g_j = min_i C_ij - f_i`` over centred points, rounded: prices to start from."""
    _, y, _, y2 = clouds.near
    if y.shape[1] <= _TREE_COLUMNS:
        assert _native.kernels is not None
        least = np.empty(len(y))
        of_rows = np.ascontiguousarray(points)
        _native.kernels.least_costs(y, of_rows, -f, clouds.p, cores(), least)
        return least
    x, x2 = points, np.einsum("ij,ij->i", points, points)
    of_rows, of_columns = (-2.0 * x).astype(np.float32), y.astype(np.float32)
    base = (x2 if clouds.p == 1 else x2 - f).astype(np.float32)
    squares, single = y2[:, None].astype(np.float32), f.astype(np.float32)
    g = np.full(len(y), np.inf)
    for start in range(0, len(y), _SIDE):
        part = slice(start, start + _SIDE)
        for first in range(0, len(x), _SIDE):
            own = slice(first, first + _SIDE)
            tile = of_columns[part] @ of_rows[own].T
            tile += base[own]
            if clouds.p == 1:
                tile += squares[part]
                np.sqrt(np.maximum(tile, 0.0, out=tile), out=tile)
                tile -= single[own]
            np.minimum(g[part], tile.min(axis=1), out=g[part])
    return g + y2 if clouds.p == 2 else g


def _label_strata(clouds: Clouds, rng: np.random.Generator, most: int) -> tuple[Index, Index]:
    """Label every point by the nearest of a few random points: clusters are strata of a sample."""
    x, y, _, _ = clouds.near
    n, count = len(x), min(most, len(x) + len(y))
    chosen = rng.choice(n + len(y), count, replace=False)
    pivots = np.concatenate([x[chosen[chosen < n]], y[chosen[chosen >= n] - n]])
    half = 0.5 * np.einsum("ij,ij->i", pivots, pivots)
    nearest: list[Index] = []
    for points in (x, y):
        label = np.empty(len(points), np.intp)
        step = _TILE // count
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            label[part] = (points[part] @ pivots.T - half).argmax(axis=1)
        nearest.append(label)
    return nearest[0], nearest[1]


def _sample(
    weights: Array, stratum: Index, size: int, rng: np.random.Generator
) -> tuple[Index, Array]:
    """Draw points at equal steps of mass, stratum by stratum; every stratum keeps its mass."""
    order: Index = np.lexsort((rng.random(len(weights)), stratum))
    edges: Array = np.cumsum(weights[order])
    places: Array = (np.arange(size) + rng.random()) * (edges[-1] / size)
    reached: Index = np.searchsorted(edges, places)
    drawn, times = np.unique(np.minimum(reached, len(order) - 1), return_counts=True)
    # In their own order, in which neighbours may follow one another.
    chosen, times = (k[np.argsort(order[drawn])] for k in (order[drawn], times))
    kept = np.bincount(stratum[chosen], times, minlength=int(stratum.max()) + 1)
    mass = np.bincount(stratum, weights, minlength=len(kept))
    share = times * (mass / np.maximum(kept, 1))[stratum[chosen]]
    return chosen, share / math.fsum(share.tolist())
