"""Losses of a student's predictions against a teacher's (extra ``silot[torch]``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError, MismatchError
from ._label_transport import Array, Solution, solve_entropic, solve_exact
from .labels import LabelSpace

Reduction = Literal["mean", "sum", "none"]

# Entries may be below 0, and sums off 1, by this much: what half precision leaves, and what a
# finite difference does to one entry.
_NEGATIVE, _SUM = 1e-5, 1e-2
# The least epsilon, as a share of the largest cost: costs over epsilon are exponents.
_SMALL = 1e-6


def sinkhorn_loss(
    p: Tensor,
    q: Tensor,
    space: LabelSpace | npt.ArrayLike,
    *,
    reduction: Reduction = "mean",
    epsilon: float | None = None,
    tolerance: float = 1e-4,
) -> Tensor:
    r"""Compute the transport cost from predictions to predictions, differentiable and converged.

    .. math::
        T_\varepsilon(p, q) = \min_{\pi \in \Pi(p, q)} \langle \pi, C \rangle
            + \varepsilon\, \mathrm{KL}(\pi \,\Vert\, p \otimes q),
        \quad \nabla_p T_\varepsilon = f - \langle f, p \rangle

    With ``epsilon=None`` it is the exact :math:`W(p, q)`: on a line the L1 distance of cumulative
    distributions; else shortest augmenting paths for all pairs at the same time, on the CPU. Every
    value is proven: a flow costs what the potentials are worth, to 1e-9.

    Parameters
    ----------
    p, q
        Shape (..., L), student and teacher, leading axes broadcast; probabilities. Rows are
        divided by their sums, which must be 1 to 1e-2. Computed in float64, whatever they are.
    space
        The labels; or their costs, shape (L, L), which must be a metric unless ``epsilon`` is
        given.
    reduction
        ``"mean"`` or ``"sum"`` over all pairs, or ``"none"``: one value per pair.
    epsilon
        Weight of the entropy in the unit of the cost, at least 1e-6 of the largest, or ``None``
        for exact transport. With it the loss of equal predictions is not 0.
    tolerance
        With ``epsilon``: largest share of a value by which it may be off, certified by the dual.
        Rounding comes on top: up to 1e-15 L c (10 + c / epsilon), with c the largest cost.

    Returns
    -------
    Tensor
        In the unit of the cost, of the dtype of ``p`` and ``q``.

    Raises
    ------
    InputError, MismatchError
        No probabilities, shapes that do not fit, costs that are not a metric, options out of range.
    SolverError
        Some problem did not converge at this ``epsilon``.

    Notes
    -----
    Paper 004, equation 2 and algorithm 1 of the appendix. The gradient is that of the potentials.
    A constant may be added to them; the one chosen here is the derivative of the loss as it is
    computed, with rows divided by their sums, so that it agrees with finite differences of single
    entries as well as through a softmax. Where p is 0, f is the soft minimum (exact: the minimum)
    of :math:`C_{ij} - g_j` over the support of q: the derivative of a little mass put there. Where
    exact transport has a kink the gradient is a subgradient. Second derivatives are right between
    the kinks of exact transport; those of regularised transport are an error (``loss-second``).

    Examples
    --------
    >>> space = LabelSpace.preset("sentiment-5")
    >>> p = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]], requires_grad=True)
    >>> q = torch.tensor([[0.0, 0.0, 0.0, 0.5, 0.5]])
    >>> loss = sinkhorn_loss(p, q, space)
    >>> loss.backward()
    >>> loss.item(), p.grad.tolist()
    (1.5, [[2.0, 1.0, 0.0, -1.0, -2.0]])
    """
    cost, positions = _read_costs(space, metric=epsilon is None)
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon >= _SMALL * cost.max()):
        raise InputError(
            f"epsilon must be {_SMALL:g} of the largest cost, {cost.max():g}, or more. "
            "Pass None for exact transport.",
            code="option-epsilon",
        )
    if not 0 < tolerance < 1:
        raise InputError("tolerance is not between 0 and 1.", code="option-tolerance")
    student, teacher = _broadcast(p, q, len(cost), reduction)
    shape = student.shape[:-1]
    student, teacher = student.reshape(-1, len(cost)), teacher.reshape(-1, len(cost))

    def solve(one: Tensor, other: Tensor) -> Solution:
        if epsilon is None:
            return solve_exact(one, other, cost, positions)
        return solve_entropic(one, other, cost, epsilon, tolerance)

    values = _Transport.apply(student, teacher, solve, epsilon is None)
    return _reduce(values.reshape(shape), reduction, torch.promote_types(p.dtype, q.dtype))


def entropy_loss(
    p: Tensor, q: Tensor, *, symmetric: bool = False, reduction: Reduction = "mean"
) -> Tensor:
    r"""Compute the Kullback–Leibler divergence of a student's predictions from a teacher's.

    .. math:: \mathrm{KL}(q \Vert p) = \sum_l q_l (\log q_l - \log p_l)

    Parameters
    ----------
    p, q
        Shape (..., L), student and teacher; probabilities, taken as they are.
    symmetric
        Add :math:`\mathrm{KL}(p \Vert q)`.
    reduction
        As ``sinkhorn_loss``.

    Returns
    -------
    Tensor
        In nats.

    Raises
    ------
    InputError, MismatchError
        No probabilities, shapes that do not fit, an option out of range.

    Notes
    -----
    Logarithms are those of max(p, smallest normal number of the dtype). A label the teacher gives
    mass and the student none then costs 87 nats (708 in float64) per unit of mass instead of
    infinity, and gives no gradient at that entry; through a softmax it would have given none
    either. Everything else is as without.

    Examples
    --------
    >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    >>> round(entropy_loss(p, q).item(), 6)
    0.693147
    """
    dtype = torch.promote_types(p.dtype, q.dtype) if _are_tensors(p, q) else None
    student, teacher = _broadcast(p, q, None, reduction, dtype)
    # No logarithm is infinite: a mass at a label that the student excludes costs a finite loss.
    least = torch.finfo(student.dtype).tiny
    logs = teacher.clamp_min(least).log() - student.clamp_min(least).log()
    # KL(q, p) + KL(p, q) = sum of (q - p) (log q - log p).
    weights = teacher - student if symmetric else teacher
    return _reduce((weights * logs).sum(-1), reduction, student.dtype)


class _Transport(torch.autograd.Function):
    """Transport cost whose derivatives are its potentials."""

    @staticmethod
    def forward(
        ctx: Any, p: Tensor, q: Tensor, solve: Callable[[Tensor, Tensor], Solution], linear: bool
    ) -> Tensor:
        # The envelope theorem: at the optimum potentials are the derivatives, so that no gradient
        # has to pass through the iterations.
        values, f, g = solve(p, q)
        ctx.save_for_backward(p, q, f, g)
        ctx.linear = linear
        return values

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        p, q, f, g = ctx.saved_tensors
        if not ctx.linear and torch.is_grad_enabled():
            # Potentials of regularised transport move with p and q, and how is not known here.
            f, g = _Once.apply(f, p, q), _Once.apply(g, p, q)
        by_p = _project_tangent(f, p) * grads[0][:, None] if ctx.needs_input_grad[0] else None
        by_q = _project_tangent(g, q) * grads[0][:, None] if ctx.needs_input_grad[1] else None
        return by_p, by_q, None, None


class _Once(torch.autograd.Function):
    """Potentials whose derivative is an error, not 0."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return potentials.clone()

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[None, None, None]:
        raise InputError(
            "second derivatives of regularised transport are not available. Use "
            "epsilon=None: exact transport is piecewise linear.",
            code="loss-second",
        )


def _project_tangent(potentials: Tensor, weights: Tensor) -> Tensor:
    """Compute the derivative with respect to rows that are divided by their sums afterwards."""
    # d/dp of T(p / s, q) with s = sum(p): potentials less their mean under p, over s.
    total = weights.sum(1, keepdim=True)
    return (potentials - (potentials * weights).sum(1, keepdim=True) / total) / total


def _read_costs(space: LabelSpace | npt.ArrayLike, *, metric: bool) -> tuple[Array, Array | None]:
    if isinstance(space, LabelSpace):
        return space.cost, space.coordinates[:, 0] if space.line else None
    cost = np.asarray(space, dtype=np.float64)
    if cost.ndim != 2 or cost.shape[0] != cost.shape[1] or len(cost) < 2:
        raise MismatchError(
            f"costs of shape {cost.shape} arrived. Give a LabelSpace, or L x L costs, L >= 2.",
            code="cost-shape",
        )
    if not ((cost >= 0) & (cost < np.inf)).all() or np.diagonal(cost).any():
        raise InputError(
            "costs must be finite, 0 or more, and 0 on the diagonal.", code="cost-values"
        )
    if not cost.any():
        raise InputError("all costs are 0, so transport is free.", code="cost-values")
    if metric:
        _check_metric(cost)
    return cost, None


def _check_metric(cost: Array) -> None:
    apart = cost + np.eye(len(cost))
    # The shortest way over one more label. Only where none is shorter than the direct way may
    # mass that p and q have in common stay, as the exact solver takes for granted.
    detour = (cost[:, :, None] + cost[None]).min(axis=1)
    if (apart <= 0).any() or (cost != cost.T).any() or (cost > detour * (1 + 1e-9)).any():
        raise InputError(
            "exact transport needs costs that are a metric: symmetric, positive between "
            "different labels, no detour shorter than the direct way. Pass epsilon for others.",
            code="cost-metric",
        )


def _are_tensors(p: object, q: object) -> bool:
    return all(isinstance(side, Tensor) and side.is_floating_point() for side in (p, q))


def _broadcast(
    p: Tensor,
    q: Tensor,
    size: int | None,
    reduction: Reduction,
    dtype: torch.dtype | None = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Check both sides and give them one shape and dtype."""
    if reduction not in get_args(Reduction):
        raise InputError(
            f"reduction {reduction!r} is not one of {', '.join(get_args(Reduction))}.",
            code="option-reduction",
        )
    if not _are_tensors(p, q) or dtype is None:
        raise InputError(
            "predictions are not tensors of floating-point numbers. Convert them first.",
            code="loss-tensor",
        )
    if p.ndim == 0 or q.ndim == 0 or p.shape[-1] != q.shape[-1] or size not in (None, p.shape[-1]):
        raise MismatchError(
            f"predictions of shapes {tuple(p.shape)} and {tuple(q.shape)} arrived"
            + (f" for {size} labels." if size else "; their last axes must agree."),
            code="loss-shape",
        )
    if p.device != q.device:
        raise MismatchError(
            f"predictions are on {p.device} and {q.device}. Move them to one.", code="loss-device"
        )
    _check_simplex(p, "student's")
    _check_simplex(q, "teacher's")
    try:
        student, teacher = torch.broadcast_tensors(p.to(dtype), q.to(dtype))
    except RuntimeError:
        raise MismatchError(
            f"predictions of shapes {tuple(p.shape)} and {tuple(q.shape)} do not broadcast.",
            code="loss-shape",
        ) from None
    return student, teacher


def _check_simplex(predictions: Tensor, whose: str) -> None:
    values = predictions.detach().double()
    is_valid = values.isfinite().all() & (values >= -_NEGATIVE).all()
    if values.numel() == 0 or not bool(is_valid & ((values.sum(-1) - 1).abs() <= _SUM).all()):
        raise InputError(
            f"a {whose} predictions are not probabilities: none arrived, or an entry is not "
            "finite or negative, or a row does not sum to 1. Apply softmax to logits once.",
            code="loss-simplex",
        )


def _reduce(values: Tensor, reduction: Reduction, dtype: torch.dtype) -> Tensor:
    if reduction == "none":
        return values.to(dtype)
    return (values.mean() if reduction == "mean" else values.sum()).to(dtype)
