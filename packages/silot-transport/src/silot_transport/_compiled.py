"""Exact transport by the compiled kernels: assignments, and whole masses along shortest paths."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np

from ._assignment import common_units
from ._check import Array
from ._network import feasible
from ._pot import installed
from ._solution import Index, Solution
from ._sweep import Problem, solved

# Beyond, the paths of an assignment are longer than the rounds of column generation.
_LARGEST_ASSIGNMENT = 12_000
# Largest exponent of 2 of costs that are solved as they are.
_EXTREME = 400
# Many potentials prove one assignment, and intervals are made of them: up to here, as without
# kernels, they are the highest ones below the least costs of the columns.
_UNIQUE = 300
# Cells, and points of a side, up to which masses are sent along shortest paths.
_LARGEST_SHIPPING, _LONGEST_SIDE = 640_000, 1000
# From so many cells on, paths are so long that potentials to start from pay: of few sweeps of
# Sinkhorn's iteration, at this share of the mean cost. Assignments want them where the dimension
# is low, or from so many points on.
_SEEDED, _SHARE, _SWEEPS = 50_000, 0.01, 20
_FLAT, _MANY = 4, 3000
# Points of an assignment from which on lists of about so many cells a row pay.
_LISTED, _CELLS = 1500, 48
# Masses that have no common unit are counted in this one: less than their own rounding.
_UNITS = 1 << 52
_LARGEST_UNITS = 1 << 40


def suits(cost: Array, a: Array, b: Array) -> bool:
    """Whether one of the kernels is the fastest way to solve this."""
    small = cost.size <= _LARGEST_SHIPPING and max(cost.shape) <= _LONGEST_SIDE
    matching = len(a) == len(b) <= _LARGEST_ASSIGNMENT and _uniform(a) and _uniform(b)
    # Without POT no network simplex is there that larger masses would be left to.
    return small or matching or not installed()


def solve_compiled(
    kernels: ModuleType, cost: Array, a: Array, b: Array, d: int, start: Array | None
) -> Solution:
    """Solve by a kernel; ``d`` is how many dimensions the costs are distances in, if known.

    ``start`` are potentials of the columns near the best ones, if there are any.
    """
    # The kernels mark what is far by large numbers, and divide by ranges of costs: those must not
    # be near either end of what numbers there are.
    exponent = int(np.frexp(float(cost.max()))[1])
    if abs(exponent) > _EXTREME:
        near = None if start is None else np.ldexp(start, -exponent)
        found = solve_compiled(kernels, np.ldexp(cost, -exponent), a, b, d, near)
        return replace(found, f=np.ldexp(found.f, exponent), g=np.ldexp(found.g, exponent))
    if len(a) == len(b) and _uniform(a) and _uniform(b):
        seeded = cost.size >= _SEEDED and (0 < d <= _FLAT or len(a) >= _MANY)
        return _assign(kernels, cost, _start(cost, a, b, seeded, start))
    return _ship(kernels, cost, a, b, _start(cost, a, b, cost.size >= _SEEDED, start))


def _start(cost: Array, a: Array, b: Array, seeded: bool, start: Array | None) -> Array:
    if start is not None:
        return start
    return _seed(cost, a, b) if seeded else cost.min(axis=0)


def _uniform(weights: Array) -> bool:
    return bool(weights.max() - weights.min() <= 1e-13 * weights.max())


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
    """Potentials of the columns near the best ones. Any give the same optimum, in more time."""
    share = _SHARE * float(cost.mean())
    if not share > 0.0:
        return cost.min(axis=0)
    g = solved(Problem(cost, a, b), share, 0.0, _SWEEPS, symmetric=False).g
    return feasible(cost, a, b, g).g


def _ship(kernels: ModuleType, cost: Array, a: Array, b: Array, start: Array) -> Solution:
    n, m = cost.shape
    supply, demand, total = _whole(a, b)
    f, g = np.empty(n), start.copy()
    rows, cols = np.empty(n + m, dtype=np.int32), np.empty(n + m, dtype=np.int32)
    masses = np.empty(n + m, dtype=np.int64)
    count = kernels.ship(cost, supply, demand, f, g, rows, cols, masses)
    rows, cols, mass = rows[:count], cols[:count], masses[:count] / total
    return Solution(rows.astype(np.intp), cols.astype(np.intp), mass, f, g, "shortest paths")


def _whole(a: Array, b: Array) -> tuple[Index, Index, float]:
    """Masses as whole numbers of one sum, and the sum."""
    units = common_units(a, b, _LARGEST_UNITS)
    if units is not None:
        return units[0], units[1], float(units[0].sum())
    supply, demand = (np.rint(w * _UNITS).astype(np.int64) for w in (a, b))
    for masses in (supply, demand):
        masses[masses.argmax()] += _UNITS - int(masses.sum())
    return supply, demand, float(_UNITS)
