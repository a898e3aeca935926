"""Optimal transport of clouds whose matrix of costs does not fit into memory, within bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from . import _auction, _native
from ._auction import Cells, Clouds, Counts, Run
from ._check import Array, as_order, as_points, as_weights, real, same_dimension
from ._solution import Index, staircase
from .cost import build_cost, paired_cost
from .errors import ExtraError, InputError
from .exact import ExactPlan, coincide, exact_plan
from .memory import fits

# Up to here the matrix is no burden, and its solver is the faster one.
_SMALL = 1200**2
_LOPSIDED = 16
# Beyond, prices and lists find the best matching in less time and a tenth of the memory. Of other
# masses the network simplex is faster, in little more memory than costs: ties of a table's
# categories make long paths.
_LARGE = 12_000**2
# Where so many costs are alike that bids end this near, the matrix takes long for digits that no
# data have.
_CLOSE = 1e-6
# What bids leave is solved as a problem of its own, if it is not larger than this.
_REST = 1 << 22
# Counts that divide both numbers of points evenly are exact up to here.
_EVEN = 2**52
_BLOCK = 1 << 22
_SUM_ROUNDING = 1e-12
_OPTIMAL = 1e-9
_EPSILON = float(np.finfo(np.float64).eps)


def bounded_plan(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    *,
    p: int = 2,
    gap: float = 0.01,
) -> ExactPlan:
    r"""Transport two weighted point clouds within a certified gap, without their cost matrix.

    The dual of :math:`W_p^p` needs, for prices :math:`-g_j` of the columns, only the least of
    :math:`|x_i - y_j|^p - g_j` in every row:

    .. math:: \sum_i a_i \min_j \left(|x_i - y_j|^p - g_j\right) + \sum_j b_j g_j
              \;\le\; W_p^p(\mu, \nu) \;\le\; \sum_{ij} P_{ij} |x_i - y_j|^p

    Every row keeps the columns that are nearest at the prices of the moment, found in tiles of the
    matrix, and a floor below which no other column was. Prices come from the same problem on a
    sample, level by level; an auction brings them close, and shortest augmenting paths on the
    lists place the rest. Prices only rise, so that a floor stays true until its row is looked at
    again, and the lower bound is certified, the rounding of tiles in single precision included.

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

    Returns
    -------
    ExactPlan
        ``status`` is ``"optimal"``, or says how far apart the bounds are.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``, and a gap that is no part (``"option-gap"``).
    ExtraError
        The compiled kernels are not there (``"kernels-missing"``).

    Notes
    -----
    Bertsekas, *The auction algorithm*, Annals of Operations Research 14, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> plan = bounded_plan(rng.normal(size=(2000, 8)), rng.normal(size=(3000, 8)), gap=0.02)
    >>> plan.upper_cost - plan.lower_cost <= 0.02 * plan.upper_cost
    True
    """
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    a, b = as_weights(a, len(x), "a"), as_weights(b, len(y), "b")
    if not 0.0 <= real(gap, "gap", "option-gap") < 1.0:
        raise InputError(f"gap is {gap!r}; 0 <= gap < 1 is needed.", code="option-gap")
    if x.shape[1] == 1 or _is_small(x, y) or _is_lopsided(x, y) or coincide(x, y, a, b) is not None:
        return exact_plan(x, y, a, b, p=order)
    if _native.kernels is None:
        raise ExtraError(
            f"transport of {len(x)} x {len(y)} points without their matrix of costs needs the "
            f"compiled kernels: {_native.missing}. Or take fewer records, or exact_plan where the "
            "matrix fits into memory.",
            code="kernels-missing",
        )
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    result = _merged(x[rows], y[columns], a[rows], b[columns], order, gap)
    if len(rows) == len(x) and len(columns) == len(y):
        return result
    f, g = np.full(len(x), np.nan), np.full(len(y), np.nan)
    f[rows], g[columns] = result.potentials
    # Points without mass get the largest potentials that are feasible.
    idle = np.flatnonzero(np.isnan(g))
    g[idle] = _largest(y[idle], x[rows], f[rows], order)
    idle = np.flatnonzero(np.isnan(f))
    f[idle] = _largest(x[idle], y, g, order)
    return replace(result, rows=rows[result.rows], cols=columns[result.cols], potentials=(f, g))


def fitting_plan(x: Array, y: Array, a: Array, b: Array, p: int) -> ExactPlan:
    """``exact_plan`` where the matrix of costs is no burden, ``bounded_plan`` where it is.

    The optimum is asked for as long as costs would fit into memory, and bounds beyond.

    Raises
    ------
    MemoryShortError
        Costs do not fit, and there are no compiled kernels.
    """
    costs_fit = fits(len(x), len(y), x.shape[1])
    matching = len(x) == len(y) and np.ptp(a) == 0.0 == np.ptp(b)
    held = costs_fit and (len(x) * len(y) <= _LARGE or not matching)
    if _native.kernels is None or held:
        return exact_plan(x, y, a, b, p=p)
    found = bounded_plan(x, y, a, b, p=p, gap=0.0 if costs_fit else 0.01)
    close = found.upper_cost - found.lower_cost <= _CLOSE * found.upper_cost
    return exact_plan(x, y, a, b, p=p) if costs_fit and not close else found


def _is_small(x: Array, y: Array) -> bool:
    return len(x) * len(y) <= _SMALL or min(len(x), len(y)) == 1


def _is_lopsided(x: Array, y: Array) -> bool:
    """Whether one side is far smaller: each of its points then ends many paths, one by one."""
    sizes = sorted((len(x), len(y)))
    return sizes[1] > _LOPSIDED * sizes[0] and fits(len(x), len(y), x.shape[1])


def _merged(x: Array, y: Array, a: Array, b: Array, p: int, gap: float) -> ExactPlan:
    """The same with one point of those that coincide: many costs would be alike."""
    (x_one, a_one, of_x), (y_one, b_one, of_y) = _places(x, a), _places(y, b)
    if len(x_one) == len(x) and len(y_one) == len(y):
        return _solve(x, y, a, b, p, gap)
    if _is_small(x_one, y_one):
        found = exact_plan(x_one, y_one, a_one, b_one, p=p)
    else:
        found = _solve(x_one, y_one, a_one, b_one, p, gap)
    rows, columns, mass = found.rows, found.cols, found.mass
    rows, columns, mass = _shared(rows, columns, mass, of_x, a)
    columns, rows, mass = _shared(columns, rows, mass, of_y, b)
    cost = float(mass @ _costs(x, y, rows, columns, p))
    f, g = found.potentials
    plan = replace(
        found,
        rows=rows,
        cols=columns,
        mass=mass,
        potentials=(f[of_x], g[of_y]),
        cost=cost,
        upper_cost=max(found.upper_cost, cost * (1.0 + _SUM_ROUNDING)),
        lower_cost=min(found.lower_cost, cost),
    )
    # What is shared among points that coincide is rounded, which may leave masses on the way.
    return plan if plan.upper_cost == found.upper_cost else replace(plan, status=_status(plan, gap))


def _places(points: Array, weights: Array) -> tuple[Array, Array, Index]:
    """Points that differ, what all of each weigh, and which one every point is."""
    # One column is enough to see that most points differ.
    if len(np.unique(points[:, 0])) == len(points):
        each: Index = np.arange(len(points))
        return points, weights, each
    places, inverse = np.unique(points, axis=0, return_inverse=True)
    of: Index = inverse.reshape(-1)
    together = np.bincount(of, weights).astype(np.float64)
    return places, together, of


def _shared(
    ends: Index, others: Index, mass: Array, place: Index, weights: Array
) -> tuple[Index, Index, Array]:
    """Share what a place sends among its points, one after the other."""
    order, cells = np.argsort(place, kind="stable"), np.argsort(ends, kind="stable")
    first, second, share = staircase(weights[order], mass[cells] / mass.sum())
    moved = share > 0.0
    return order[first[moved]], others[cells[second[moved]]], share[moved]


def _largest(points: Array, others: Array, potential: Array, p: int) -> Array:
    found = np.empty(len(points))
    step = max(1, _BLOCK // len(others))
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        found[part] = (build_cost(points[part], others, p).matrix - potential).min(axis=1)
    return found


def _solve(x: Array, y: Array, a: Array, b: Array, p: int, gap: float) -> ExactPlan:
    if len(x) < len(y):
        result = _solve(y, x, b, a, p, gap)
        f, g = result.potentials
        return replace(result, rows=result.cols, cols=result.rows, potentials=(g, f))
    # Powers of two leave all digits as they are, and single precision has their range.
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) > 40:
        unit = 2.0 ** (exponent * p)
        result = _solve(np.ldexp(x, -exponent), np.ldexp(y, -exponent), a, b, p, gap)
        f, g = result.potentials
        return replace(
            result,
            potentials=(f * unit, g * unit),
            cost=result.cost * unit,
            lower_cost=result.lower_cost * unit,
            upper_cost=result.upper_cost * unit,
        )
    shift = a @ x - b @ y if p == 2 else np.zeros(x.shape[1])
    clouds = Clouds(x, y, shift, p)
    order = _auction.grouped(clouds, _auction.longest(len(x)))
    if order is None:
        return _placed(clouds, a, b, gap)
    rows, columns, blocks = order
    found = _placed(Clouds(x[rows], y[columns], shift, p, blocks), a[rows], b[columns], gap)
    f, g = np.empty(len(x)), np.empty(len(y))
    f[rows], g[columns] = found.potentials
    return replace(found, rows=rows[found.rows], cols=columns[found.cols], potentials=(f, g))


def _placed(clouds: Clouds, a: Array, b: Array, gap: float) -> ExactPlan:
    """Transport by an auction, and what it proves."""
    even = len(a) * (len(b) // math.gcd(len(a), len(b)))
    if np.ptp(a) == 0.0 and np.ptp(b) == 0.0 and even <= _EVEN:
        k, l = (np.full(size, even // size, np.int64) for size in (len(a), len(b)))
    else:
        k, l = _auction.as_counts(a), _auction.as_counts(b)
    start = _auction.start_price(clouds, a, b, np.random.default_rng(0))
    run = Run(clouds, k, l, start)
    _auction.approach(run, (_auction.FIRST, max(0.8 * gap, _auction.FINEST)))
    best = None
    for left in (gap / 4.0, gap / 16.0, gap / 64.0, 0.0):
        ended = run.augment(left)
        best = _bounded(clouds, a, b, k, l, run)
        if best.upper_cost - best.lower_cost <= max(gap, _OPTIMAL) * best.upper_cost or not ended:
            break
    assert best is not None
    return replace(best, status=_status(best, gap))


def _status(plan: ExactPlan, gap: float) -> str:
    part = (plan.upper_cost - plan.lower_cost) / plan.upper_cost if plan.upper_cost else 0.0
    if part <= _OPTIMAL:
        return "optimal"
    if part <= gap:
        return (
            f"within {part:.2g} of the optimal cost, and {gap:g} was asked for; gap=0 asks for all"
        )
    return (
        f"within {part:.2g} of the optimal cost, and not {gap:g}: too many costs are nearly alike. "
        "Merge points that coincide, remove far outliers, or take fewer records."
    )


def _bounded(clouds: Clouds, a: Array, b: Array, k: Counts, l: Counts, run: Run) -> ExactPlan:
    """A coupling, feasible potentials, and what they prove."""
    x, y, shift, p = clouds.x, clouds.y, clouds.shift, clouds.p
    rows, columns, mass = _completed(clouds, k, l, run.cells(), run.total)
    f, g = run.duals()
    near_x, near_y, x2, y2 = clouds.near
    # Around the means: no common offset costs digits, and what the means contribute is added.
    squared = float(shift @ shift)
    rest = a @ near_x - b @ near_y
    dual = float(a @ f + b @ g) + squared + 2.0 * float(rest @ shift)
    extent = (math.sqrt(squared) + math.sqrt(x2.max()) + math.sqrt(y2.max())) ** 2
    rounding = 4.0 * (x.shape[1] + 8) * _EPSILON * (extent if p == 2 else math.sqrt(extent))
    rounding += _SUM_ROUNDING * (float(a @ np.abs(f) + b @ np.abs(g)) + squared)
    cost = float(mass @ _costs(x, y, rows, columns, p))
    # Counts are masses up to rounding: what that is goes as far as anything.
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
        solver="auction",
    )


def _costs(x: Array, y: Array, rows: Index, columns: Index, p: int) -> Array:
    found = np.empty(len(rows))
    step = max(1, _BLOCK // x.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        found[part] = paired_cost(x[rows[part]], y[columns[part]], p)
    return found


def _completed(
    clouds: Clouds, k: Counts, l: Counts, cells: Cells, total: int
) -> tuple[Index, Index, Array]:
    """The coupling with what no bid and no path has placed yet."""
    rows, columns = cells.rows.astype(np.intp), cells.columns.astype(np.intp)
    mass = cells.counts / float(total)
    supply, demand = k.copy(), l.copy()
    np.subtract.at(supply, rows, cells.counts)
    np.subtract.at(demand, columns, cells.counts)
    left = int(supply.sum())
    if left == 0:
        return rows, columns, mass
    i, j = np.flatnonzero(supply), np.flatnonzero(demand)
    weights = supply[i] / float(left), demand[j] / float(left)
    part = clouds.part(i, j)
    if len(i) * len(j) <= _REST:
        rest = exact_plan(part.x - part.shift, part.y, *weights, p=clouds.p)
        first, second, share = rest.rows, rest.cols, rest.mass
    else:
        by = part.x[:, 0].argsort(kind="stable"), part.y[:, 0].argsort(kind="stable")
        first, second, share = staircase(weights[0][by[0]], weights[1][by[1]])
        first, second = by[0][first], by[1][second]
    return (
        np.concatenate([rows, i[first]]),
        np.concatenate([columns, j[second]]),
        np.concatenate([mass, share * (left / float(total))]),
    )
