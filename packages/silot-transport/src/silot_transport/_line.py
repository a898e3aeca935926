"""Exact transport on the line, by sorting."""

from __future__ import annotations

import numpy as np

from ._check import Array
from ._solution import Solution, staircase


def solve_line(x: Array, y: Array, a: Array, b: Array, p: int) -> Solution:
    """Monotone coupling of two measures on the line: optimal for every p >= 1.

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
