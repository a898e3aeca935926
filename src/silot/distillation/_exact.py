"""Exact transport between many pairs of distributions over few labels, with its potentials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..transport import plan_from_cost
from ._vertices import MOST, vertices

Array = npt.NDArray[np.float64]
Solved = tuple[Tensor, Tensor, Tensor]
"""Values (n,), potentials of p (n, L), potentials of q (n, L)."""

# Numbers that are looked at together where a problem has many vertices.
_BLOCK = 1 << 21


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
    matrix = torch.from_numpy(cost.copy()).to(p.device)
    if positions is not None:
        f = _on_line(change, torch.from_numpy(positions.copy()).to(p.device))
    elif len(cost) <= MOST:
        f = _best_vertex(change, torch.from_numpy(vertices(cost).copy()).to(p.device))
    else:
        f = _one_by_one(change, cost)
    # |<f, d>|, since two potentials that tie can differ in sign by rounding.
    values = (f * change).sum(1).abs()
    far = torch.inf
    # Where a side has no mass any lower potential would do. The highest is the derivative of a
    # little mass put there, and equal to f elsewhere.
    of_p = torch.where(q[:, None] > 0, matrix + f[:, None], far).amin(2)
    of_q = torch.where(p[:, None] > 0, matrix - f[:, None], far).amin(2)
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


def _best_vertex(change: Tensor, listed: Tensor) -> Tensor:
    f = torch.empty_like(change)
    step = max(1, _BLOCK // len(listed))
    for at in range(0, len(change), step):
        values = change[at : at + step] @ listed.T
        best = values.abs().argmax(1, keepdim=True)
        sign = values.gather(1, best).sign()
        f[at : at + step] = listed[best[:, 0]] * sign
    return f


def _one_by_one(change: Tensor, cost: Array) -> Tensor:
    differences = change.cpu().numpy()
    f = np.zeros_like(differences)
    for row, one in enumerate(differences):
        surplus, deficit = np.maximum(one, 0.0), np.maximum(-one, 0.0)
        if not surplus.any() or not deficit.any():
            continue
        plan = plan_from_cost(cost, surplus / surplus.sum(), deficit / deficit.sum())
        into = deficit > 0
        f[row] = (cost[:, into] - plan.potentials[1][into]).min(axis=1)
    return torch.from_numpy(f).to(change.device)
