"""Exact transport between many pairs of distributions over few labels, with its potentials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from silot_transport import plan_from_cost

from ._trees import potentials

Array = npt.NDArray[np.float64]
Solved = tuple[Tensor, Tensor, Tensor]
"""Values (n,), potentials of p (n, L), potentials of q (n, L)."""


def exact(p: Tensor, q: Tensor, cost: Array, positions: Array | None) -> Solved:
    """Solve ``W(p, q)`` for every row.

    Parameters
    ----------
    p, q
        Shape (n, L), float64; rows are divided by their sums.
    cost
        Shape (L, L), a metric.
    positions
        Shape (L,) where the labels lie on a line, else ``None``.
    """
    change = _difference(p, q)
    if positions is None:
        f = torch.from_numpy(_by_trees(change.cpu().numpy(), cost)).to(p.device)
    else:
        f = _on_line(change, torch.from_numpy(positions.copy()).to(p.device))
    # |<f, d>|, since two potentials that tie can differ in sign by rounding.
    values = (f * change).sum(1).abs()
    of_p, of_q = f, -f
    # Where neither side has mass any lower potential would do. The highest is the derivative of a
    # little mass put there.
    rows = ((p == 0) & (q == 0)).any(1).nonzero()[:, 0]
    if len(rows):
        matrix, some = torch.from_numpy(cost.copy()).to(p.device), f[rows]
        of_p, of_q = of_p.clone(), of_q.clone()
        of_p[rows] = torch.where(q[rows, None] > 0, matrix + some[:, None], torch.inf).amin(2)
        of_q[rows] = torch.where(p[rows, None] > 0, matrix - some[:, None], torch.inf).amin(2)
    return values, of_p, of_q


def _difference(p: Tensor, q: Tensor) -> Tensor:
    """``p / sum(p) - q / sum(q)``, without losing the digits of small differences."""
    change = p - q
    excess = change.sum(1, keepdim=True) / q.sum(1, keepdim=True)
    return (change - q * excess) / p.sum(1, keepdim=True)


def _on_line(change: Tensor, positions: Tensor) -> Tensor:
    places, order = positions.sort()
    passing = change[:, order].cumsum(1)[:, :-1]
    # W1 is the sum of |CDF difference| * gap; each label's derivative sums over the gaps after it.
    slopes = passing.sign() * places.diff()
    f = torch.zeros_like(change)
    f[:, order[:-1]] = slopes.flip(1).cumsum(1).flip(1)
    return f


def _by_trees(change: Array, cost: Array) -> Array:
    f, proven = potentials(change, cost)
    # Costs so unlike that rounding or ties got in the way.
    for row in np.flatnonzero(~proven):
        surplus, deficit = np.maximum(change[row], 0.0), np.maximum(-change[row], 0.0)
        plan = plan_from_cost(cost, surplus / surplus.sum(), deficit / deficit.sum())
        into = deficit > 0
        f[row] = (cost[:, into] - plan.potentials[1][into]).min(axis=1)
    return f
