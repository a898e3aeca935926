"""Exact transport of any masses, by network simplex on a growing set of candidate cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy import sparse

from ._check import Array
from ._pot import OPTIMAL, network_simplex
from ._solution import Index, Solution, staircase

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
_BLOCK = 1 << 18
_PIVOTS = 1_000_000_000


def solve_network(cost: Array, a: Array, b: Array, start: Array | None = None) -> Solution:
    """Network simplex: dense when small, by column generation from potentials otherwise."""
    if cost.size <= _DENSE_CELLS:
        return _solve_dense(cost, a, b)
    return _generate_columns(cost, a, b, _coarse_potential(cost, a, b) if start is None else start)


def _solve_dense(cost: Array, a: Array, b: Array) -> Solution:
    start = feasible(cost, a, b, cost.min(axis=0))
    reduced = cost - start.g
    reduced -= start.f[:, None]
    scale = float(reduced.max()) or 1.0
    reduced /= scale
    plan, _, g, finished = _simplex(a, b, reduced)
    rows, cols = np.nonzero(plan)
    # The potentials of the simplex are feasible up to its own tolerance; these are exactly so.
    duals = max(start, feasible(cost, a, b, start.g + g * scale), key=_value)
    return Solution(rows, cols, plan[rows, cols], duals.f, duals.g, "network simplex", finished)


def _simplex(a: Array, b: Array, cost: Any) -> tuple[Any, Array, Array, bool]:
    plan, f, g, code = network_simplex(a, b, cost, _PIVOTS)
    return plan, f, g, code == OPTIMAL


def _coarse_potential(cost: Array, a: Array, b: Array) -> Array:
    """A guess of ``g``: solve the problem on a quarter of the points and extend it.

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
    """Solve on few cells, find the cells whose reduced cost is negative, add them, repeat.

    Ends when a feasible dual pair proves the plan optimal for the whole matrix. The potentials
    of a small problem swing widely, those of the best proof do not; a proof is therefore also
    looked for between the two.
    """
    n, m = cost.shape
    # The simplex works on reduced costs: what all cells of a row or a column have in common
    # (two clouds far apart, an outlier) would cost it digits.
    start = best = feasible(cost, a, b, g)
    start_rows, start_cols, _ = staircase(a, b)
    cells = _distinct(np.concatenate([_nearest(cost, best.f, best.g), start_rows * m + start_cols]))
    flat = cost.reshape(-1)
    scale = 0.0
    for round_ in count():
        values = flat[cells] - start.f[cells // m] - start.g[cells % m]
        if round_ == 0:
            scale = float(values.max()) or 1.0
        problem = sparse.coo_matrix((values / scale, (cells // m, cells % m)), shape=(n, m))
        plan, f, g, finished = _simplex(a, b, problem)
        f, g = start.f + f * scale, start.g + g * scale
        rows, cols, mass = plan.row.astype(np.intp), plan.col.astype(np.intp), plan.data
        primal = float(mass @ cost[rows, cols])
        merged = cells
        # A distance that is small compared with the costs needs its own digits.
        tolerance = min(1e-13 * scale, 1e-10 * primal)
        if primal - best.value > tolerance:
            share = _SHARES[round_] if round_ < len(_SHARES) else 0.0
            lowest, found = _price(cost, f, g, tolerance, share)
            merged = _distinct(np.concatenate([cells, found]))
            # Lifting every row to its lowest reduced cost makes the pair feasible.
            best = max(best, _Duals.of(f + lowest, g, a, b), key=_value)
            shift = float(b @ (best.g - g))
            best = max(
                best,
                feasible(cost, a, b, _TRUST * best.g + (1.0 - _TRUST) * (g + shift)),
                key=_value,
            )
        if not finished or len(merged) == len(cells) or primal - best.value <= tolerance:
            return Solution(rows, cols, mass, best.f, best.g, "network simplex", finished)
        if round_ > len(_SHARES) and cost.size <= _DENSE_FALLBACK_CELLS:
            # So many tied plans that candidates never settle; all cells at once do.
            return _solve_dense(cost, a, b)
        cells = merged
    raise AssertionError("count() does not end")


@dataclass(frozen=True)
class _Duals:
    """A feasible pair of potentials and the bound it proves."""

    f: Array
    g: Array
    value: float

    @classmethod
    def of(cls, f: Array, g: Array, a: Array, b: Array) -> _Duals:
        return cls(f, g, float(a @ f + b @ g))


def _value(duals: _Duals) -> float:
    return duals.value


def feasible(cost: Array, a: Array, b: Array, g: Array) -> _Duals:
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


def _nearest(cost: Array, f: Array, g: Array) -> Index:
    """The cells of least reduced cost in every row and in every column."""
    n, m = cost.shape
    k = min(_NEIGHBOURS, n, m)
    found: list[Index] = []
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        reduced = cost[start : start + step] - g
        nearest = np.argpartition(reduced, k - 1, axis=1)[:, :k]
        rows = np.arange(start, start + len(reduced))
        found.append((rows[:, None] * m + nearest).ravel())
    step = max(1, _BLOCK // n)
    for start in range(0, m, step):
        reduced = np.ascontiguousarray(cost[:, start : start + step].T) - f
        nearest = np.argpartition(reduced, k - 1, axis=1)[:, :k]
        cols = np.arange(start, start + len(reduced))
        found.append((nearest * m + cols[:, None]).ravel())
    return np.concatenate(found)


def _price(cost: Array, f: Array, g: Array, tolerance: float, share: float) -> tuple[Array, Index]:
    """Lowest reduced cost of every row, and the cells worth adding.

    Per row: the cells nearly as bad as its worst; per column: its worst. Adding every negative
    cell would make the next problem as large as the whole one.
    """
    n, m = cost.shape
    lowest = np.empty(n)
    column_low = np.full(m, -tolerance)
    column_row = np.full(m, -1, dtype=np.intp)
    found: list[Index] = []
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
        found.append((start + bad[i]) * m + j)
        worst = part.argmin(axis=0)
        value = part[worst, np.arange(m)]
        better = value < column_low
        column_low[better] = value[better]
        column_row[better] = start + bad[worst[better]]
    columns = np.flatnonzero(column_row >= 0)
    found.append(column_row[columns] * m + columns)
    return lowest, np.concatenate(found)


def _distinct(cells: Index) -> Index:
    # Sorting beats the hash table of numpy.unique several times over at these sizes.
    cells = np.sort(cells)
    return cells[np.concatenate([[True], cells[1:] != cells[:-1]])]
