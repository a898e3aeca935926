"""A lower bound that keeps its digits where costs of very different sizes meet.

Clusters that are tight and far from one another have costs from 1e-6 to 1e8: what is rounded in
the largest is more than the whole optimum. But an entry only matters for the bound where a
constraint is tight, and there costs are small: they are computed from differences, potentials are
kept small, and every entry is taken down by its own rounding.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from ._check import Array

Index = npt.NDArray[np.intp]

_EPSILON = float(np.finfo(np.float64).eps)
_SWEEPS = 400
# Entries of costs above which the bound of the solver has to do.
LARGEST = 1 << 25


def sharpened(
    x: Array, y: Array, a: Array, b: Array, p: int, rows: Index, cols: Index
) -> tuple[Array, Array, float]:
    r"""Feasible potentials near 0, from the support of an optimal plan, and their dual value.

    With :math:`f_i = C_{ij} - g_j` on the support, feasibility is
    :math:`g_{j'} \le g_j + C_{ij'} - C_{ij}`: shortest paths from anywhere, by sweeps
    (Bellman-Ford). Whatever g comes out, :math:`f_i = \min_j C_{ij} - g_j` is feasible.

    Returns
    -------
    f, g, dual
        Potentials (n,) and (m,), and a certified lower bound of the optimum.
    """
    cost = by_differences(x, y, p)
    own = cost[rows, cols]
    g = np.zeros(len(b))
    for _ in range(_SWEEPS):
        before = g.copy()
        shift = np.full(len(a), np.inf)
        np.minimum.at(shift, rows, g[cols] - own)
        g = np.minimum(g, (cost + shift[:, None]).min(axis=0))
        if (before - g <= 4.0 * _EPSILON * np.abs(g)).all():
            break
    least = cost * (1.0 - (x.shape[1] + 6) * _EPSILON) - g
    least -= 2.0 * _EPSILON * np.abs(least)
    f = least.min(axis=1)
    terms = [*(a * f).tolist(), *(b * g).tolist()]
    rounding = 2.0 * _EPSILON * math.fsum(map(abs, terms))
    return f, g, math.fsum(terms) - rounding


def by_differences(x: Array, y: Array, p: int) -> Array:
    """Costs (n, m), each with all its digits."""
    return cdist(x, y, "sqeuclidean" if p == 2 else "euclidean")
