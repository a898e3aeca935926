"""Exact solvers of one transport problem, each for the regime in which it is the fastest.

``solve_line`` sorts points on the line. ``solve_costs`` takes any matrix of costs and picks one of
the compiled kernels, scipy's assignment or a network simplex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from . import _native, _pot
from ._check import Array, Index
from ._sweep import Problem, iterate


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


def solve_line(x: Array, y: Array, a: Array, b: Array, p: int) -> Solution:
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


# Points of an assignment in Python; beyond, its augmenting paths are longer than the rounds of
# column generation.
_LARGEST_REPLICATED = 300


def solve_costs(
    cost: Array, a: Array, b: Array, d: int = 0, start: Array | None = None
) -> Solution:
    """Solve transport between positive masses for a matrix of costs (n, m), none negative.

    ``d`` is the dimension of the points whose distances the costs are, 0 where there are none;
    ``start`` are potentials of the columns near the optimal ones, if there are any.
    """
    n, m = cost.shape
    if n == 1 or m == 1:
        rows, cols = (k.ravel() for k in np.indices((n, m)))
        f, g = (cost[:, 0], np.zeros(1)) if m == 1 else (np.zeros(1), cost[0])
        return Solution(rows, cols, (a[:, None] * b).ravel(), f, g, "single point")
    if _native.kernels is not None and is_for_kernels(cost, a, b):
        return solve_compiled(_native.kernels, cost, a, b, d, start)
    # Splitting points into copies pays only while it does not make the problem far larger.
    units = common_units(a, b, min(_LARGEST_REPLICATED, max(n, m)))
    if units is not None and int(units[0].sum()) ** 2 <= 8 * cost.size:
        return solve_units(cost, *units)
    return solve_network(cost, a, b, start)


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
        with np.errstate(over="ignore"):
            ratio = weights / weights.min()
        nearest = np.rint(ratio)
        if ratio.sum() > largest or np.abs(ratio - nearest).max() > _UNIT_TOLERANCE * ratio.max():
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


# Assignments and whole masses, by the compiled kernels. The limits below are the crossings of the
# times that ``evidence/speed/solvers.py`` prints.

# Points up to which an assignment is solved as such; beyond, its paths are longer than the rounds
# of column generation.
_LARGEST_ASSIGNMENT = 12_000
# Largest exponent of 2 of costs that are solved as they are.
_EXTREME = 400
# Many potentials prove one assignment, and intervals depend on which: up to here, as without
# kernels, the highest ones below the least costs of the columns are taken.
_UNIQUE = 300
# Cells, and points of a side, up to which masses are sent along shortest paths.
_LARGEST_SHIPPING, _LONGEST_SIDE = 640_000, 1000
# From so many cells on, paths are so long that potentials to start from pay: those of few sweeps of
# Sinkhorn's iteration, at this share of the mean cost.
_SEEDED, _SHARE, _SWEEPS = 50_000, 0.01, 20
# Without POT larger problems have longer paths still, and closer potentials pay. Where clusters are
# far from one another the mean cost says nothing of the distances within: from this share of the
# cost of the plan on, the iteration goes on at a tenth of that cost.
_CLOSE_SHARE, _CLOSE_SWEEPS = 0.001, 80
_FAR, _NEAR, _NEAR_SWEEPS, _ROUNDS = 0.4, 0.1, 200, 4
# Assignments want potentials to start from where the dimension is low, or from so many points on.
_FLAT, _MANY = 4, 3000
# Points of an assignment from which on lists of about so many cells a row pay.
_LISTED, _CELLS = 1500, 48
# Masses that have no common unit are counted in this one: less than their own rounding.
_UNITS = 1 << 52
_LARGEST_UNITS = 1 << 40


def is_for_kernels(cost: Array, a: Array, b: Array) -> bool:
    """Return whether one of the kernels is the fastest way to solve this."""
    is_matching = len(a) == len(b) <= _LARGEST_ASSIGNMENT and _is_uniform(a) and _is_uniform(b)
    # Without POT there is no fast network simplex to leave larger masses to.
    return _is_short(cost) or is_matching or not _pot.is_installed()


def _is_short(cost: Array) -> bool:
    return cost.size <= _LARGEST_SHIPPING and max(cost.shape) <= _LONGEST_SIDE


def _is_uniform(weights: Array) -> bool:
    return bool(weights.max() - weights.min() <= 1e-13 * weights.max())


def solve_compiled(
    kernels: ModuleType, cost: Array, a: Array, b: Array, d: int, start: Array | None
) -> Solution:
    """Solve by a kernel; see ``solve_costs``."""
    # The kernels mark what is far by large numbers, and divide by ranges of costs: those must not
    # be near either end of the range of float64.
    exponent = int(np.frexp(float(cost.max()))[1])
    if abs(exponent) > _EXTREME:
        near = None if start is None else np.ldexp(start, -exponent)
        scaled = solve_compiled(kernels, np.ldexp(cost, -exponent), a, b, d, near)
        return replace(scaled, f=np.ldexp(scaled.f, exponent), g=np.ldexp(scaled.g, exponent))
    if len(a) == len(b) and _is_uniform(a) and _is_uniform(b):
        is_seeded = cost.size >= _SEEDED and (0 < d <= _FLAT or len(a) >= _MANY)
        if start is None:
            least: Array = cost.min(axis=0)
            start = _seed(cost, a, b) if is_seeded else least
        return _assign(kernels, cost, start)
    if start is None:
        start = _start_shipping(cost, a, b)
    return _ship(kernels, cost, a, b, start)


def _start_shipping(cost: Array, a: Array, b: Array) -> Array:
    if cost.size < _SEEDED:
        return cost.min(axis=0)
    return _seed(cost, a, b) if _is_short(cost) else _seed_closely(cost, a, b)


def _assign(kernels: ModuleType, cost: Array, start: Array) -> Solution:
    n = len(cost)
    f, g, column = np.empty(n), start.copy(), np.empty(n, dtype=np.int32)
    if n < _LISTED or kernels.assign_listed(cost, _CELLS, f, g, column) is None:
        kernels.assign_mixed(cost, f, g, column)
    if n <= _UNIQUE:
        least, highest = np.empty(n), cost.min(axis=0)
        if kernels.settle(cost, least, highest, column):
            f, g = least, highest
    return Solution(np.arange(n), column.astype(np.intp), np.full(n, 1.0 / n), f, g, "assignment")


def _seed(cost: Array, a: Array, b: Array) -> Array:
    """Return potentials of the columns near the optimal ones.

    Any potentials lead to the same optimum: near ones only save time.
    """
    epsilon = _SHARE * float(cost.mean())
    if not epsilon > 0.0:
        return cost.min(axis=0)
    g = iterate(Problem(cost, a, b), epsilon, 0.0, _SWEEPS, symmetric=False).g
    return make_feasible(cost, a, b, g).g


def _seed_closely(cost: Array, a: Array, b: Array) -> Array:
    """Return potentials of the columns nearer the optimal ones than those of ``_seed``."""
    problem, sweeps = Problem(cost, a, b), _CLOSE_SWEEPS
    epsilon = _CLOSE_SHARE * float(cost.mean())
    g = cost.min(axis=0)
    for _ in range(_ROUNDS):
        # Below, rounding of the largest costs is more than the regularisation.
        if not epsilon > 1e-14 * problem.largest:
            break
        end = iterate(problem, epsilon, 0.0, sweeps, symmetric=False)
        g = end.g
        if epsilon <= _FAR * end.transport_cost:
            break
        epsilon, sweeps = _NEAR * end.transport_cost, _NEAR_SWEEPS
    return make_feasible(cost, a, b, g).g


def _ship(kernels: ModuleType, cost: Array, a: Array, b: Array, start: Array) -> Solution:
    n, m = cost.shape
    supply, demand, total = _count_masses(a, b)
    f, g = np.empty(n), start.copy()
    rows, cols = np.empty(n + m, dtype=np.int32), np.empty(n + m, dtype=np.int32)
    masses = np.empty(n + m, dtype=np.int64)
    cells = kernels.ship(cost, supply, demand, f, g, rows, cols, masses)
    rows, cols, mass = rows[:cells], cols[:cells], masses[:cells] / total
    return Solution(rows.astype(np.intp), cols.astype(np.intp), mass, f, g, "shortest paths")


def _count_masses(a: Array, b: Array) -> tuple[Index, Index, float]:
    """Return the masses as integers of one sum, and the sum."""
    units = common_units(a, b, _LARGEST_UNITS)
    if units is not None:
        return units[0], units[1], float(units[0].sum())
    supply, demand = (np.rint(w * _UNITS).astype(np.int64) for w in (a, b))
    for masses in (supply, demand):
        # The largest mass takes what rounding left: it is the smallest change of any, relatively.
        masses[masses.argmax()] += _UNITS - int(masses.sum())
    return supply, demand, float(_UNITS)


# Any masses, by network simplex on a growing set of candidate cells.

# Below this many cells the dense simplex is faster than pricing.
_DENSE_CELLS = 150_000
_DENSE_FALLBACK_CELLS = 4_000_000
_COARSE_SIZE = 400
_COARSE_RATIO = 4
_NEIGHBOURS = 16
# A cell is added when its reduced cost is below this share of the worst in its row; when many
# plans tie, picking cells so carefully goes on for ever, so the share falls from round to round.
_SHARES = (0.7, 0.7, 0.7, 0.7, 0.5, 0.5, 0.3, 0.3, 0.1, 0.1)
# Where between the potentials of the small problem (0) and of the best proof (1) the next proof
# is looked for.
_TRUST = 0.7
# Entries of a block of rows: 2 MB, which a cache holds.
_BLOCK = 1 << 18
# More than any simplex takes: a limit is a way to fail, and none is wanted.
_PIVOTS = 1_000_000_000


def solve_network(cost: Array, a: Array, b: Array, start: Array | None = None) -> Solution:
    """Solve by network simplex: dense when small, else by column generation from potentials."""
    if cost.size <= _DENSE_CELLS:
        return _solve_dense(cost, a, b)
    return _generate_columns(cost, a, b, _guess_potentials(cost, a, b) if start is None else start)


def _solve_dense(cost: Array, a: Array, b: Array) -> Solution:
    start = make_feasible(cost, a, b, cost.min(axis=0))
    # The simplex works on reduced costs: what all cells of a row or a column have in common
    # (two clouds far apart, an outlier) would cost it digits. Its tolerances are absolute, hence
    # the scale.
    reduced = cost - start.g
    reduced -= start.f[:, None]
    scale = float(reduced.max()) or 1.0
    reduced /= scale
    plan, _, g, is_finished = _simplex(a, b, reduced)
    rows, cols = np.nonzero(plan)
    # The potentials of the simplex are feasible up to its own tolerance; these are exactly so.
    duals = max(start, make_feasible(cost, a, b, start.g + g * scale), key=_value)
    mass = plan[rows, cols]
    return Solution(rows, cols, mass, duals.f, duals.g, "network simplex", is_finished)


def _simplex(a: Array, b: Array, cost: Any) -> tuple[Any, Array, Array, bool]:
    plan, f, g, code = _pot.network_simplex(a, b, cost, _PIVOTS)
    return plan, f, g, code == _pot.OPTIMAL


def _guess_potentials(cost: Array, a: Array, b: Array) -> Array:
    """Guess ``g``: solve the problem on a quarter of the points and extend its potentials.

    Any guess gives the same optimum; a good one saves rounds. The subset is drawn with a fixed
    generator, so that results do not depend on chance.
    """
    n, m = cost.shape
    if max(n, m) <= _COARSE_SIZE:
        return cost.min(axis=0)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(n, max(1, n // _COARSE_RATIO), replace=False))
    cols = np.sort(rng.choice(m, max(1, m // _COARSE_RATIO), replace=False))
    part = np.ascontiguousarray(cost[np.ix_(rows, cols)])
    solution = solve_network(part, a[rows] / a[rows].sum(), b[cols] / b[cols].sum())
    g = np.full(m, np.inf)
    for start in range(0, len(rows), max(1, _BLOCK // m)):
        chosen = slice(start, start + max(1, _BLOCK // m))
        np.minimum(g, (cost[rows[chosen]] - solution.f[chosen, None]).min(axis=0), out=g)
    return g


def _generate_columns(cost: Array, a: Array, b: Array, g: Array) -> Solution:
    """Solve on few cells, add the cells whose reduced cost is negative, and repeat.

    Ends when a feasible dual pair proves the plan optimal for the whole matrix. The potentials
    of a small problem swing widely, those of the best proof do not; a proof is therefore also
    looked for between the two.
    """
    n, m = cost.shape
    # On reduced costs, as in the dense case.
    start = best = make_feasible(cost, a, b, g)
    # The cells of a staircase make every problem solvable.
    start_rows, start_cols, _ = staircase(a, b)
    nearest = _list_nearest_cells(cost, best.f, best.g)
    cells = _drop_repeated(np.concatenate([nearest, start_rows * m + start_cols]))
    flat = cost.reshape(-1)
    scale = 0.0
    for round_ in count():
        values = flat[cells] - start.f[cells // m] - start.g[cells % m]
        if round_ == 0:
            scale = float(values.max()) or 1.0
        problem = sparse.coo_matrix((values / scale, (cells // m, cells % m)), shape=(n, m))
        plan, f, g, is_finished = _simplex(a, b, problem)
        f, g = start.f + f * scale, start.g + g * scale
        rows, cols, mass = plan.row.astype(np.intp), plan.col.astype(np.intp), plan.data
        primal = float(mass @ cost[rows, cols])
        merged = cells
        # A distance that is small compared with the costs needs its own digits.
        tolerance = min(1e-13 * scale, 1e-10 * primal)
        if primal - best.value > tolerance:
            share = _SHARES[round_] if round_ < len(_SHARES) else 0.0
            lowest, candidates = _price(cost, f, g, tolerance, share)
            merged = _drop_repeated(np.concatenate([cells, candidates]))
            # Lifting every row to its lowest reduced cost makes the pair feasible.
            best = max(best, _Duals.of(f + lowest, g, a, b), key=_value)
            shift = float(b @ (best.g - g))
            best = max(
                best,
                make_feasible(cost, a, b, _TRUST * best.g + (1.0 - _TRUST) * (g + shift)),
                key=_value,
            )
        if not is_finished or len(merged) == len(cells) or primal - best.value <= tolerance:
            return Solution(rows, cols, mass, best.f, best.g, "network simplex", is_finished)
        if round_ > len(_SHARES) and cost.size <= _DENSE_FALLBACK_CELLS:
            # So many tied plans that candidates never settle; all cells at once do.
            return _solve_dense(cost, a, b)
        cells = merged
    raise AssertionError("count() does not end")


@dataclass(frozen=True)
class _Duals:
    """A feasible pair of potentials and the lower bound that it proves."""

    f: Array
    g: Array
    value: float

    @classmethod
    def of(cls, f: Array, g: Array, a: Array, b: Array) -> _Duals:
        return cls(f, g, float(a @ f + b @ g))


def _value(duals: _Duals) -> float:
    return duals.value


def make_feasible(cost: Array, a: Array, b: Array, g: Array) -> _Duals:
    """Make a feasible pair from ``g``: the largest ``f``, and then the largest ``g``, it allows."""
    n, m = cost.shape
    f = np.empty(n)
    room = np.full(m, np.inf)
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        reduced = cost[start : start + step] - g
        low = reduced.min(axis=1)
        f[start : start + step] = low
        reduced -= low[:, None]
        np.minimum(room, reduced.min(axis=0), out=room)
    return _Duals.of(f, g + room, a, b)


def _list_nearest_cells(cost: Array, f: Array, g: Array) -> Index:
    """List the cells of least reduced cost in every row and in every column."""
    n, m = cost.shape
    k = min(_NEIGHBOURS, n, m)
    cells: list[Index] = []
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        reduced = cost[start : start + step] - g
        nearest = np.argpartition(reduced, k - 1, axis=1)[:, :k]
        rows = np.arange(start, start + len(reduced))
        cells.append((rows[:, None] * m + nearest).ravel())
    step = max(1, _BLOCK // n)
    for start in range(0, m, step):
        reduced = np.ascontiguousarray(cost[:, start : start + step].T) - f
        nearest = np.argpartition(reduced, k - 1, axis=1)[:, :k]
        cols = np.arange(start, start + len(reduced))
        cells.append((nearest * m + cols[:, None]).ravel())
    return np.concatenate(cells)


def _price(cost: Array, f: Array, g: Array, tolerance: float, share: float) -> tuple[Array, Index]:
    """Return the lowest reduced cost of every row, and the cells worth adding.

    Per row: the cells nearly as bad as its worst; per column: its worst. Adding every negative
    cell would make the next problem as large as the full one.
    """
    n, m = cost.shape
    lowest = np.empty(n)
    column_low = np.full(m, -tolerance)
    column_row = np.full(m, -1, dtype=np.intp)
    cells: list[Index] = []
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        reduced = cost[start : start + step] - g
        reduced -= f[start : start + step, None]
        low = reduced.min(axis=1)
        lowest[start : start + step] = low
        bad = np.flatnonzero(low < -tolerance)
        if len(bad) == 0:
            continue
        part = reduced[bad]
        i, j = np.nonzero(part < np.minimum(share * low[bad], -tolerance)[:, None])
        cells.append((start + bad[i]) * m + j)
        worst = part.argmin(axis=0)
        value = part[worst, np.arange(m)]
        is_lower = value < column_low
        column_low[is_lower] = value[is_lower]
        column_row[is_lower] = start + bad[worst[is_lower]]
    columns = np.flatnonzero(column_row >= 0)
    cells.append(column_row[columns] * m + columns)
    return lowest, np.concatenate(cells)


def _drop_repeated(cells: Index) -> Index:
    # Sorting beats the hash table of numpy.unique several times over at these sizes.
    cells = np.sort(cells)
    return cells[np.concatenate([[True], cells[1:] != cells[:-1]])]
