"""Exact transport with the gradient of its optimum."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .._check import Array, as_order
from ..errors import SolverError
from ..exact import ExactPlan, exact_plan
from ._autograd import uncompiled, wanted, with_slopes
from ._pairs import Pairs, check_host


@uncompiled
def wasserstein(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    p: int = 2,
    on_host: bool = False,
) -> Tensor:
    r"""Exact ``W_p^p`` of weighted clouds, with its gradient.

    .. math:: W_p^p = \min_{P \ge 0,\ P 1 = a,\ P^T 1 = b} \sum_{ij} P_{ij} |x_i - y_j|^p

    ``silot_transport.exact_plan`` solves each pair, on the host and in double precision. By the
    envelope theorem the gradient is that of the cost at the optimal plan, and by masses it is the
    optimal potential:

    .. math:: \nabla_{x_i} = \sum_j P_{ij} \nabla_{x_i} |x_i - y_j|^p, \qquad
              \partial_{a_i} = f_i - \sum_k a_k f_k

    Parameters
    ----------
    x, y
        Points, shapes (..., n, d) and (..., m, d), float32 or float64; leading dimensions
        broadcast.
    a, b
        Weights, shapes (..., n) and (..., m), divided by their sums; the gradient is by the
        weights as given. ``None`` means uniform.
    p
        1 or 2.
    on_host
        Whether tensors of an accelerator may be moved to the host for this. The result is on
        their device.

    Returns
    -------
    torch.Tensor
        Shape (...): the cost, not its root. ``.sqrt()`` is W_2.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; other tensors (``"tensor-type"``, ``"tensor-mixed"``,
        ``"tensor-device"``). Differentiating the gradient (``"second-derivatives"``).
    SolverError
        A plan that could not be proven optimal.

    Notes
    -----
    Where several plans or potentials are optimal, as potentials are for equal weights, the
    gradient is that of one of them: a supergradient by the points for p = 2, a subgradient by the
    weights. At a weight of zero it is the slope towards more mass. For p = 1 a pair at distance
    zero adds nothing to it.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
    >>> cost = wasserstein(x, torch.tensor([[2.0], [3.0]]))
    >>> cost.backward()
    >>> cost.item(), x.grad.tolist()
    (4.0, [[-2.0], [-2.0]])
    """
    order, pairs = as_order(p), Pairs.of(x, y, a, b)
    check_host(on_host, x)
    ask = wanted(pairs.inputs)
    arrays = [[k.cpu().numpy() for k in each] for each in pairs.each()]
    plans = [_proven(exact_plan(*each[:2], *each[2:], p=order)) for each in arrays]
    values = torch.tensor([plan.cost for plan in plans], dtype=torch.float64)
    if not any(ask):
        return pairs.shaped(values.to(x.device))
    moves = [_moves(plan, *each[:2]) for plan, each in zip(plans, arrays, strict=True)]
    slopes = (
        np.stack([each[0] for each in moves]),
        np.stack([each[1] for each in moves]),
        *(np.stack([plan.potentials[side] for plan in plans]) for side in (0, 1)),
    )
    kept = [
        torch.from_numpy(slope).to(x.device) if needed else None
        for slope, needed in zip(slopes, ask, strict=True)
    ]
    return pairs.shaped(with_slopes(values.to(x.device), pairs.inputs, kept))


def _proven(plan: ExactPlan) -> ExactPlan:
    if not plan.status.startswith("optimal"):
        raise SolverError(plan.status, code="solver-gap")
    return plan


def _moves(plan: ExactPlan, x: Array, y: Array) -> tuple[Array, Array]:
    """Gradients of the cost of a plan by both clouds."""
    steps = x[plan.rows] - y[plan.cols]
    if plan.p == 2:
        steps *= 2.0 * plan.mass[:, None]
    else:
        lengths = np.linalg.norm(steps, axis=1)
        steps *= (plan.mass / np.where(lengths > 0.0, lengths, 1.0))[:, None]
    by_x, by_y = np.zeros_like(x), np.zeros_like(y)
    np.add.at(by_x, plan.rows, steps)
    np.subtract.at(by_y, plan.cols, steps)
    return by_x, by_y
