"""Exact transport between equal masses, as an assignment problem."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._check import Array
from ._solution import Index, Solution

# Masses count as multiples of 1/units when they are closer than this to one.
_UNIT_TOLERANCE = 1e-13


def common_units(a: Array, b: Array, largest: int) -> tuple[Index, Index] | None:
    """Integers k, l with a = k / sum(k), b = l / sum(l) and sum(k) = sum(l) <= largest.

    Tried for uniform masses and for masses that are multiples of the smallest one;
    ``None`` when there are no such integers.
    """
    multiples: list[Index] = []
    for weights in (a, b):
        ratio = weights / weights.min()
        whole = np.rint(ratio)
        if ratio.sum() > largest or np.abs(ratio - whole).max() > _UNIT_TOLERANCE * ratio.max():
            return None
        multiples.append(whole.astype(np.intp))
    k, l = multiples
    total = math.lcm(int(k.sum()), int(l.sum()))
    if total > largest:
        return None
    return k * (total // int(k.sum())), l * (total // int(l.sum()))


def solve_units(cost: Array, k: Index, l: Index) -> Solution:
    """Transport integer masses by splitting every point into unit copies."""
    g = cost.min(axis=0)
    plain = bool((k == 1).all() and (l == 1).all())
    rows, cols = np.arange(len(k)), np.arange(len(l))
    reduced = _reduced(cost)
    if not plain:
        rows, cols = np.repeat(rows, k), np.repeat(cols, l)
        reduced = reduced[np.ix_(rows, cols)]
    assigned = linear_sum_assignment(reduced)[1]
    h = _column_potentials(reduced, assigned)
    g = g + h if plain else g + _first_of_each(h, l)
    f = (cost - g).min(axis=1)
    units = len(rows)
    if plain:
        return Solution(rows, assigned, np.full(units, 1.0 / units), f, g, "assignment")
    cells, counts = np.unique(rows * len(l) + cols[assigned], return_counts=True)
    return Solution(cells // len(l), cells % len(l), counts / units, f, g, "replicated assignment")


def unit_cost(cost: Array) -> float:
    """Optimal mean cost (n, n) of an assignment alone, without potentials."""
    rows, cols = linear_sum_assignment(_reduced(cost))
    return float(cost[rows, cols].mean())


def _reduced(cost: Array) -> Array:
    # The shortest augmenting paths of the solver are short on reduced costs: an optimal
    # assignment is the same for cost and reduced cost.
    reduced = cost - cost.min(axis=0)
    reduced -= reduced.min(axis=1, keepdims=True)
    return reduced


def _first_of_each(values: Array, repeats: Index) -> Array:
    # Copies of one point have one potential: each copy's is tight, and all are feasible.
    starts = np.concatenate([[0], np.cumsum(repeats)[:-1]])
    return values[starts]


def _column_potentials(cost: Array, assigned: Index) -> Array:
    """Potentials of the columns from an optimal assignment, by shortest paths.

    The constraints ``g[j] <= g[s(i)] + C[i, j] - C[i, s(i)]`` are relaxed row by row until
    none is violated (Bellman-Ford); a row is looked at again only after its own column moved.
    """
    n = len(assigned)
    own = cost[np.arange(n), assigned]
    tolerance = 1e-14 * max(float(own.max()), float(np.abs(cost[0]).max()))
    row_of = np.empty(n, dtype=np.intp)
    row_of[assigned] = np.arange(n)
    g = np.zeros(n)
    active = np.arange(n)
    block = max(1, (1 << 18) // n)
    # Each sweep settles one more edge of every shortest path; rounding may ask for more.
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
