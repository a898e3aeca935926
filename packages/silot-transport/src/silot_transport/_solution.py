"""What every exact solver of this room returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._check import Array

Index = npt.NDArray[np.intp]


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
    """The north-west corner coupling of ``a`` and ``b``: n + m - 1 cells and their masses.

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
    return rows, cols, np.maximum(np.diff(edges), 0.0)
