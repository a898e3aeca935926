"""Exact solvers of one transport problem, each for the regime in which it is the fastest.

``solve_line`` sorts points on the line. ``solve_costs`` takes any matrix of costs: compiled kernels
solve assignments and, by a network simplex, all other masses. Without them scipy does: its
assignment, and HiGHS on a growing set of cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from . import _native
from ._check import Array, Index
from .errors import SolverError


@dataclass(frozen=True)
class Solution:
    """A sparse coupling with dual feasible potentials.

    ``mass[k]`` goes from ``rows[k]`` to ``cols[k]``; ``f[i] + g[j] <= C[i, j]`` up to the
    rounding of the solver.
    """

    rows: Index
    cols: Index
    mass: Array
    f: Array
    g: Array
    solver: str
    finished: bool = True


def staircase(a: Array, b: Array) -> tuple[Index, Index, Array]:
    """Build the north-west corner coupling of ``a`` and ``b``: n + m - 1 cells and their masses.

    Cells of zero mass are kept, so that the cells form a spanning tree of the bipartite graph.
    """
    steps_a, steps_b = np.cumsum(a)[:-1], np.cumsum(b)[:-1]
    times = np.concatenate([steps_a, steps_b])
    is_row_step = np.concatenate([np.ones(len(steps_a), bool), np.zeros(len(steps_b), bool)])
    order = np.argsort(times, kind="stable")
    is_row_step = is_row_step[order]
    rows = np.concatenate([[0], np.cumsum(is_row_step)])
    cols = np.concatenate([[0], np.cumsum(~is_row_step)])
    edges = np.concatenate([[0.0], times[order], [1.0]])
    # Both sums of masses are rounded, so a step may end before it begins by one unit of it.
    return rows, cols, np.maximum(np.diff(edges), 0.0)


def solve_line(x: Array, y: Array, a: Array, b: Array, p: float) -> Solution:
    """Couple two measures on the line monotonically, which is optimal for every p >= 1.

    The potentials follow the staircase of the coupling: a step in i changes ``f`` by the
    difference of costs in its column, a step in j changes ``g`` likewise. They are feasible
    because the cost of sorted points has the Monge property.
    """
    order_x, order_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    sorted_x, sorted_y = x[order_x], y[order_y]
    rows, cols, mass = staircase(a[order_x], b[order_y])
    step = np.abs(sorted_x[rows] - sorted_y[cols]) ** p
    change = np.diff(step)
    row_step = np.diff(rows).astype(bool)
    f = np.empty(len(x))
    g = np.empty(len(y))
    f[order_x] = step[0] + np.concatenate([[0.0], np.cumsum(change[row_step])])
    g[order_y] = np.concatenate([[0.0], np.cumsum(change[~row_step])])
    used = mass > 0
    return Solution(order_x[rows[used]], order_y[cols[used]], mass[used], f, g, "line")


# Potentials of columns differ by the largest cost at most where they are optimal; a start, by more.
_FAR = 4.0
# Points of an assignment in Python; beyond, its augmenting paths are longer than the rounds of
# column generation.
_LARGEST_REPLICATED = 300


def solve_costs(
    cost: Array,
    a: Array,
    b: Array,
    start: Array | None = None,
    largest: float | None = None,
) -> Solution:
    """Solve transport between positive masses for a matrix of costs (n, m), none negative.

    ``start`` are potentials of the columns near the optimal ones, and ``largest`` is about the
    largest cost, where these are at hand.
    """
    n, m = cost.shape
    if n == 1 or m == 1:
        rows, cols = (k.ravel() for k in np.indices((n, m)))
        f, g = (cost[:, 0], np.zeros(1)) if m == 1 else (np.zeros(1), cost[0])
        return Solution(rows, cols, (a[:, None] * b).ravel(), f, g, "single point")
    largest = float(cost.max()) if largest is None else largest
    start = None if start is None else _centre(start, _FAR * largest)
    if _native.kernels is not None:
        return solve_compiled(_native.kernels, cost, a, b, start, largest)
    # Splitting points into copies pays only while it does not make the problem far larger.
    units = common_units(a, b, min(_LARGEST_REPLICATED, max(n, m)))
    if units is not None and int(units[0].sum()) ** 2 <= 8 * cost.size:
        return solve_units(cost, *units)
    return solve_program(cost, a, b, start)


def _centre(start: Array, far: float) -> Array | None:
    # What potentials have in common costs digits, and so do those that are far from all costs.
    with np.errstate(over="ignore", invalid="ignore"):
        near = start - start.mean()
        return near if float(np.abs(near).max()) <= far else None


# Assignment between equal masses, by scipy.

# Masses count as multiples of 1/units when they are closer than this to one: some 400 units in the
# last place, which normalising and adding up a thousand weights may cost.
_UNIT_TOLERANCE = 1e-13


def common_units(a: Array, b: Array, largest: int) -> tuple[Index, Index] | None:
    """Return integers k, l with a = k / sum(k), b = l / sum(l) and sum(k) = sum(l) <= largest.

    They are looked for in uniform masses and in masses that are multiples of the smallest one;
    ``None`` where there are no such integers.
    """
    multiples: list[Index] = []
    for weights in (a, b):
        least, most = float(weights.min()), float(weights.max())
        room = _UNIT_TOLERANCE * most / least
        # Of most masses one is enough to see that they have no unit.
        first = float(weights[0]) / least
        if first > largest or abs(first - round(first)) > room:
            return None
        with np.errstate(over="ignore"):
            ratio = weights / least
        nearest = np.rint(ratio)
        if ratio.sum() > largest or np.abs(ratio - nearest).max() > room:
            return None
        multiples.append(nearest.astype(np.intp))
    k, l = multiples
    total = math.lcm(int(k.sum()), int(l.sum()))
    if total > largest:
        return None
    return k * (total // int(k.sum())), l * (total // int(l.sum()))


def solve_units(cost: Array, k: Index, l: Index) -> Solution:
    """Transport integer masses by splitting every point into unit copies."""
    g = cost.min(axis=0)
    is_plain = bool((k == 1).all() and (l == 1).all())
    rows, cols = np.arange(len(k)), np.arange(len(l))
    reduced = _reduce(cost)
    if not is_plain:
        rows, cols = np.repeat(rows, k), np.repeat(cols, l)
        reduced = reduced[np.ix_(rows, cols)]
    assigned = linear_sum_assignment(reduced)[1]
    h = _find_column_potentials(reduced, assigned)
    # Copies of one point have one potential: that of the first copy is tight for all of them.
    g = g + h if is_plain else g + h[np.concatenate([[0], np.cumsum(l)[:-1]])]
    f = (cost - g).min(axis=1)
    units = len(rows)
    if is_plain:
        return Solution(rows, assigned, np.full(units, 1.0 / units), f, g, "assignment")
    cells, counts = np.unique(rows * len(l) + cols[assigned], return_counts=True)
    return Solution(cells // len(l), cells % len(l), counts / units, f, g, "replicated assignment")


def _reduce(cost: Array) -> Array:
    # The shortest augmenting paths of the solver are short on reduced costs: an optimal
    # assignment is the same for cost and reduced cost.
    reduced = cost - cost.min(axis=0)
    reduced -= reduced.min(axis=1, keepdims=True)
    return reduced


def _find_column_potentials(cost: Array, assigned: Index) -> Array:
    """Find potentials of the columns from an optimal assignment, by shortest paths.

    The constraints ``g[j] <= g[s(i)] + C[i, j] - C[i, s(i)]`` are relaxed row by row until
    none is violated (Bellman-Ford); a row is looked at again only after its own column moved.
    """
    n = len(assigned)
    own = cost[np.arange(n), assigned]
    # A smaller change is rounding: without this limit sweeps may follow it for ever.
    tolerance = 1e-14 * max(float(own.max()), float(np.abs(cost[0]).max()))
    row_of = np.empty(n, dtype=np.intp)
    row_of[assigned] = np.arange(n)
    g = np.zeros(n)
    active = np.arange(n)
    block = max(1, _BLOCK // n)
    # Each sweep settles one more edge of every shortest path, so n sweeps settle all of them.
    for _ in range(n):
        before = g.copy()
        for start in range(0, len(active), block):
            rows = active[start : start + block]
            shift = g[assigned[rows]] - own[rows]
            np.minimum(g, (cost[rows] + shift[:, None]).min(axis=0), out=g)
        moved = np.flatnonzero(g < before - tolerance)
        if len(moved) == 0:
            break
        active = np.sort(row_of[moved])
    return g


# Assignments and any masses, by the compiled kernels. The limits below are where their times cross.

# Points up to which an assignment is solved as such.
_LARGEST_ASSIGNMENT = 12_000
# Largest exponent of 2 of costs that are solved as they are.
_EXTREME = 400
# Many potentials prove one assignment, and intervals depend on which: up to here, as without
# kernels, the highest ones below the least costs of the columns are taken.
_UNIQUE = 300
# Rows that the first passes may leave: beyond one in so many, what is left is searched in half the
# bytes, but for few points; and beyond one in so many, from better potentials.
_LEFT, _MIXED, _NEAR = 16, 600, 4
# Points of an assignment from which on lists of about so many cells a row pay.
_LISTED, _CELLS = 2500, 48
# Masses that have no common unit are counted in this one: less than their own rounding.
_UNITS = 1 << 52
_LARGEST_UNITS = 1 << 40


def _is_uniform(weights: Array) -> bool:
    largest = float(weights.max())
    return largest - float(weights.min()) <= 1e-13 * largest


def solve_compiled(
    kernels: ModuleType,
    cost: Array,
    a: Array,
    b: Array,
    start: Array | None,
    largest: float,
) -> Solution:
    """Solve by a kernel; see ``solve_costs``."""
    # The kernels mark what is far by large numbers, and divide by ranges of costs: those must not
    # be near either end of the range of float64.
    exponent = math.frexp(largest)[1]
    if abs(exponent) > _EXTREME:
        near = None if start is None else np.ldexp(start, -exponent)
        scaled = solve_compiled(kernels, np.ldexp(cost, -exponent), a, b, near, 1.0)
        return replace(scaled, f=np.ldexp(scaled.f, exponent), g=np.ldexp(scaled.g, exponent))
    if len(a) == len(b) <= _LARGEST_ASSIGNMENT and _is_uniform(a) and _is_uniform(b):
        return _assign(kernels, cost, start)
    return _transport(kernels, cost, a, b, start)


def _assign(kernels: ModuleType, cost: Array, start: Array | None) -> Solution:
    n = len(cost)
    highest = cost.min(axis=0)
    f, column = np.empty(n), np.empty(n, dtype=np.int32)
    g = highest.copy() if start is None else start.copy()
    most = n if n <= _UNIQUE else n // (_NEAR if n <= _MIXED else _LEFT)
    unassigned = kernels.assign(cost, most, f, g, column)[1]
    if unassigned > most:
        is_tied = len(np.unique(cost[0])) < n / 2
        is_few = unassigned <= n // (_NEAR if n < _LISTED else 2 * _NEAR)
        is_done = (is_few or is_tied) and _assign_listed(kernels, cost, f, g, column)
        # Lists that lead nowhere may lead on from better potentials.
        if not is_done and not is_tied and (n >= _LISTED or not is_few):
            ones = np.ones(n, dtype=np.int64)
            kernels.near_potentials(cost, ones, ones, f, g)
            is_done = _assign_listed(kernels, cost, f, g, column)
        if not is_done and is_tied:
            # Half the bytes do not tell ties: all would have to be searched again.
            kernels.assign(cost, n, f, g, column)
        elif not is_done:
            kernels.assign_mixed(cost, f, g, column)
    if n <= _UNIQUE and (g != highest).any():
        least = f.copy()
        if kernels.settle(cost, least, highest, column):
            f, g = least, highest
    return Solution(np.arange(n), column.astype(np.intp), np.full(n, 1.0 / n), f, g, "assignment")


def _assign_listed(kernels: ModuleType, cost: Array, *out: npt.NDArray[Any]) -> bool:
    return len(cost) >= _LISTED and kernels.assign_listed(cost, _CELLS, *out) is not None


def _transport(
    kernels: ModuleType, cost: Array, a: Array, b: Array, start: Array | None
) -> Solution:
    n, m = cost.shape
    supply, demand, total = _count_masses(a, b)
    f, g = np.empty(n), np.empty(m) if start is None else start.copy()
    rows, cols = np.empty((2, n + m - 1), dtype=np.int32)
    masses = np.empty(n + m - 1, dtype=np.int64)
    cells = kernels.transport(cost, supply, demand, start is not None, f, g, rows, cols, masses)
    rows, cols, mass = rows[:cells], cols[:cells], masses[:cells] / total
    return Solution(rows.astype(np.intp), cols.astype(np.intp), mass, f, g, "network simplex")


def _count_masses(a: Array, b: Array) -> tuple[Index, Index, float]:
    """Return the masses as integers of one sum, and the sum."""
    units = common_units(a, b, _LARGEST_UNITS)
    if units is not None:
        return units[0], units[1], float(units[0].sum())
    supply, demand = ((w * _UNITS + 0.5).astype(np.int64) for w in (a, b))
    for masses in (supply, demand):
        # The largest mass takes what rounding left: it is the smallest change of any, relatively.
        masses[masses.argmax()] += _UNITS - int(masses.sum())
    return supply, demand, float(_UNITS)


# Any masses without kernels: linear programs on a growing set of cells, by HiGHS.

# Cells of a row and of a column that the first program has, and that each round adds at most.
_NEIGHBOURS, _ADDED = 16, 8
# Entries of a block of rows: 2 MB, which a cache holds.
_BLOCK = 1 << 18


def solve_program(cost: Array, a: Array, b: Array, start: Array | None = None) -> Solution:
    """Solve on few cells, add those of negative reduced cost, and repeat until there is none."""
    m = cost.shape[1]
    # On reduced costs: what all cells of a row or a column have in common (two clouds far apart,
    # an outlier) would cost the solver digits.
    f, g = _make_feasible(cost, cost.min(axis=0) if start is None else start)
    reduced = cost - g
    reduced -= f[:, None]
    # The cells of a staircase make every problem solvable.
    stair_rows, stair_cols, _ = staircase(a, b)
    cells = np.union1d(_list_least(reduced, _NEIGHBOURS), stair_rows * m + stair_cols)
    while True:
        scale = float(reduced.ravel()[cells].max()) or 1.0
        mass, u, v = _solve_cells(reduced.ravel()[cells] / scale, cells // m, cells % m, a, b)
        v *= scale
        beyond = reduced - v
        beyond -= scale * u[:, None]
        candidates = _list_least(beyond, _ADDED)
        negative = candidates[beyond.ravel()[candidates] < -1e-12 * scale]
        merged = np.union1d(cells, negative)
        if len(merged) == len(cells):
            f, g = _make_feasible(cost, g + v)
            used = cells[mass > 0.0]
            return Solution(used // m, used % m, mass[mass > 0.0], f, g, "linear program")
        cells = merged


def _make_feasible(cost: Array, g: Array) -> tuple[Array, Array]:
    """Return the largest ``f``, and then the largest ``g``, that costs allow."""
    f = (cost - g).min(axis=1)
    return f, (cost - f[:, None]).min(axis=0)


def _list_least(matrix: Array, count: int) -> Index:
    """List the least cells of every row and of every column."""
    n, m = matrix.shape
    partition: Any = np.argpartition  # its stubs know no shapes
    in_rows: Index = partition(matrix, min(count, m) - 1, axis=1)[:, :count]
    in_cols: Index = partition(matrix, min(count, n) - 1, axis=0)[:count]
    cells: list[Index] = [np.arange(n)[:, None] * m + in_rows, in_cols * m + np.arange(m)]
    return np.unique(np.concatenate([part.ravel() for part in cells]))


def _solve_cells(
    prices: Array, rows: Index, cols: Index, a: Array, b: Array
) -> tuple[Array, Array, Array]:
    """Return the masses of the cells and the potentials of both sides, by HiGHS."""
    # Slow to import, and needed only where no kernels are compiled.
    from scipy import optimize

    linprog: Any = optimize.linprog  # its stubs know no sparse arrays
    n, m = len(a), len(b)
    columns = np.arange(len(prices))
    entries = np.concatenate([rows, n + cols]), np.concatenate([columns, columns])
    sums = sparse.csr_array((np.ones(2 * len(prices)), entries), shape=(n + m, len(prices)))
    masses = np.concatenate([a, b * (a.sum() / b.sum())])
    # Tolerances of HiGHS are absolute, and 1e-10 is the least that it takes: in this unit it
    # resolves masses and prices to 1e-15, and the rounding of sums is still below the tolerance.
    unit = 2.0**16
    limits = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # The last sum follows from the others, and its rounding would make the problem infeasible.
    result = linprog(
        unit * prices, A_eq=sums[:-1], b_eq=masses[:-1] * unit, method="highs", options=limits
    )
    if result.status != 0:
        raise SolverError(
            "the linear program of this transport was not solved. Rescale the features, or install "
            "again where there is a C++ compiler.",
            code="solver-program",
        )
    duals: Array = np.append(result.eqlin.marginals / unit, 0.0)
    return np.maximum(result.x / unit, 0.0), duals[:n], duals[n:]
