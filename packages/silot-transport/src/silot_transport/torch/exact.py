"""Exact transport with the gradient of its optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .._check import Array, as_order
from ..errors import InputError, MismatchError, SolverError
from ..exact import ExactPlan, exact_plan
from ._autograd import need_gradients, uncompiled, with_slopes
from ._pairs import Pairs, Weights, check_host


@uncompiled
def wasserstein(
    x: Tensor, y: Tensor, a: Weights = None, b: Weights = None, *, p: int = 2, on_host: bool = False
) -> Tensor:
    r"""Compute the exact ``W_p^p`` of weighted clouds, with its gradient.

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
    needs = need_gradients(pairs.inputs)
    arrays = [[k.cpu().numpy() for k in pair] for pair in pairs.split()]
    plans = [_require_optimal(exact_plan(*pair, p=order)) for pair in arrays]
    values = torch.tensor([plan.cost for plan in plans], dtype=torch.float64)
    if not any(needs):
        return pairs.shape_results(values.to(x.device))
    moves = [_gradients(plan, *pair[:2]) for plan, pair in zip(plans, arrays, strict=True)]
    slopes = (
        *(np.stack([move[side] for move in moves]) for side in (0, 1)),
        *(np.stack([plan.potentials[side] for plan in plans]) for side in (0, 1)),
    )
    tensors = [
        torch.from_numpy(slope).to(x.device) if is_needed else None
        for slope, is_needed in zip(slopes, needs, strict=True)
    ]
    return pairs.shape_results(with_slopes(values.to(x.device), pairs.inputs, tensors))


def _require_optimal(plan: ExactPlan) -> ExactPlan:
    if not plan.status.startswith("optimal"):
        raise SolverError(plan.status, code="solver-gap")
    return plan


def _gradients(plan: ExactPlan, x: Array, y: Array) -> tuple[Array, Array]:
    """Compute the gradients of the cost of a plan by both clouds."""
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


@uncompiled
def labelled_wasserstein(
    x: Tensor,
    y: Tensor,
    labels: tuple[Tensor, Tensor],
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    p: int = 2,
    on_host: bool = False,
) -> Tensor:
    r"""Compute the exact ``W_p^p`` of labelled records, whose class moments are coordinates.

    .. math:: z_i = [x_i;\ m_{y_i};\ s_{y_i}]

    with the means :math:`m` and standard deviations :math:`s` of the features in the class of a
    record, of its own measure: OTDD with diagonal covariances. Gradients go through means and
    deviations too.

    Parameters
    ----------
    x, y, a, b, p, on_host
        As ``wasserstein``.
    labels
        Classes of both sides, whole numbers: shapes (..., n) and (..., m). Classes of the two sides
        have nothing to do with one another.

    Returns
    -------
    torch.Tensor
        Shape (...): the cost, not its root.

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``wasserstein``; labels of another type or shape (``"labels-shape"``).

    Notes
    -----
    Alvarez-Melis and Fusi, *Geometric Dataset Distances via Optimal Transport*, 2020. Where a
    feature does not vary in a class, its deviation adds nothing to the gradient.

    Examples
    --------
    >>> import torch
    >>> x, y = torch.tensor([[0.0], [2.0], [9.0]]), torch.tensor([[1.0], [3.0], [10.0]])
    >>> kinds = torch.tensor([0, 0, 1])
    >>> labelled_wasserstein(x, y, (kinds, kinds)).item()
    2.0
    """
    pairs = Pairs.of(x, y, a, b)
    kinds = [
        _codes(kind, pairs.shape, points)
        for kind, points in zip(labels, (pairs.x, pairs.y), strict=True)
    ]
    one = _embed(pairs.x, pairs.a, kinds[0])
    other = _embed(pairs.y, pairs.b, kinds[1])
    costs = wasserstein(one, other, pairs.a, pairs.b, p=p, on_host=on_host)
    return pairs.shape_results(costs)


def _codes(kinds: Any, shape: torch.Size, points: Tensor) -> Tensor:
    if not isinstance(kinds, Tensor) or kinds.is_floating_point() or kinds.is_complex():
        raise InputError("labels are not tensors of whole numbers.", code="labels-shape")
    size = points.shape[1]
    try:
        kinds = kinds.expand(*shape, size)
    except RuntimeError:
        raise MismatchError(
            f"labels have shape {tuple(kinds.shape)} for {size} records.",
            code="labels-shape",
        ) from None
    return torch.unique(kinds, return_inverse=True)[1].reshape(-1, size).to(points.device)


def _embed(points: Tensor, masses: Tensor, codes: Tensor) -> Tensor:
    """Append the mean and the deviation of every record's class to its features."""
    members = one_hot(codes).double()
    mass = members * masses[..., None]
    total = mass.sum(1, keepdim=True)
    # A class without mass moves nothing; its vectors only have to exist.
    mass = torch.where(total > 0.0, mass, members)
    share = mass / mass.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    means = members @ (share.transpose(1, 2) @ points)
    spread = members @ (share.transpose(1, 2) @ (points - means).square())
    # The root has no derivative at zero, and where() alone would let its NaN through.
    varies = spread > 0.0
    deviations = torch.where(varies, torch.where(varies, spread, 1.0).sqrt(), 0.0)
    return torch.cat([points, means, deviations], -1)
