"""Certified bounds of transport from potentials, without a matrix of costs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._check import as_order
from ..errors import MismatchError
from ._autograd import uncompiled
from ._entropic import Effort
from ._pairs import Pairs
from ._tiles import TiledProblem, Tiles

_ROUNDING = 1e-12


class Bounds(NamedTuple):
    """``lower <= W_p^p <= upper``, shapes (...), float64."""

    lower: Tensor
    upper: Tensor


@uncompiled
def bounds(
    x: Tensor,
    y: Tensor,
    potentials: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    epsilon: float,
    p: int = 2,
) -> Bounds:
    r"""Bounds of ``W_p^p`` by potentials of y, whatever they are; close for good ones.

    Below, the value of the dual at their transforms (c-transform) :math:`f_i = \min_j |x_i - y_j|^p
    - g_j` and :math:`\min_i |x_i - y_j|^p - f_i`. Above, the cost of the entropic plan of g, whose
    marginals are mended: columns that have too much are scaled down, and what is then left over
    goes from everywhere to everywhere. Both are computed by tiles in double precision on the
    device of the tensors, and widened by what rounding may do.

    Parameters
    ----------
    x, y, a, b, p
        As ``wasserstein``.
    potentials
        ``g``, shape (..., m), as ``silot_transport.torch.potentials`` or ``exact_plan`` give them.
    epsilon
        Regularisation of the plan above; that which the potentials are of.

    Returns
    -------
    Bounds
        Without gradients.

    Raises
    ------
    InputError, MismatchError
        As ``sinkhorn_divergence``; potentials of another shape, or not finite.

    Notes
    -----
    Altschuler, Weed and Rigollet, *Near-linear time approximation algorithms for optimal transport
    via Sinkhorn iteration*, 2017, algorithm 2, for the mended plan.

    Examples
    --------
    >>> import torch
    >>> from silot_transport.torch import potentials
    >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [3.0]])
    >>> _, g = potentials(x, y, epsilon=0.1)
    >>> found = bounds(x, y, g, epsilon=0.1)
    >>> bool(found.lower <= 4.0) and bool(found.upper >= 4.0)
    True
    """
    effort = Effort(epsilon, as_order(p), 1.0, 1)
    pairs = Pairs.of(x, y, a, b)
    g = _checked(potentials, pairs)
    found = [_bounded(*each, one, effort) for each, one in zip(pairs.each(), g, strict=True)]
    lower, upper = torch.tensor(found, dtype=torch.float64, device=x.device).T
    return Bounds(lower.reshape(pairs.shape), upper.reshape(pairs.shape))


def _checked(potentials: Tensor, pairs: Pairs) -> Tensor:
    size = pairs.y.shape[1]
    try:
        g = potentials.detach().expand(*pairs.shape, size).reshape(-1, size)
    except RuntimeError:
        raise MismatchError(
            f"potentials have shape {tuple(potentials.shape)}; one for each of the {size} points "
            "of y is needed.",
            code="weights-length",
        ) from None
    if not bool(g.isfinite().all()):
        raise MismatchError("potentials have values that are not finite.", code="measure-nan")
    return g.to(pairs.y.device, torch.float64)


def _bounded(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, g: Tensor, effort: Effort
) -> tuple[float, float]:
    tiles = Tiles.of(x, y, effort.p)
    room = _room(tiles)
    f = _least(tiles, g)
    g_best = _least(tiles.turned, f)
    lower = float(a @ f + b @ g_best) - 2.0 * room
    lower -= _ROUNDING * float(a @ f.abs() + b @ g_best.abs())
    upper = _mended(tiles, a, b, g, effort.epsilon)
    return max(lower, 0.0), upper * (1.0 + _ROUNDING) + room


def _room(tiles: Tiles) -> float:
    """What rounding may do to a cost."""
    digits = float(torch.finfo(torch.float64).eps)
    return 4.0 * (tiles.x.shape[1] + 8) * digits * tiles.largest


def _least(tiles: Tiles, g: Tensor) -> Tensor:
    return torch.cat([tiles.cost(rows).sub_(g).amin(1) for rows in tiles.rows()])


def _mended(tiles: Tiles, a: Tensor, b: Tensor, g: Tensor, epsilon: float) -> float:
    """Cost of the plan with marginals a and b that is made of the entropic plan of g."""
    f_array, columns, _ = TiledProblem(tiles, a, b).exact()(g.cpu().numpy(), epsilon)
    f, sums = (torch.from_numpy(each).to(a.device) for each in (f_array, columns))
    scale = torch.where(sums > b, b / sums, 1.0)
    lacking = (b - sums * scale).clamp(min=0.0)
    shifted = g / epsilon + b.log()
    cost_of, left = 0.0, torch.zeros_like(a)
    spread = torch.zeros_like(a)
    for rows in tiles.rows():
        cost = tiles.cost(rows)
        plan = (cost * (-1.0 / epsilon)).add_(shifted).add_(f[rows, None] / epsilon).exp_()
        plan.mul_(scale).mul_(a[rows, None])
        left[rows] = a[rows] - plan.sum(1)
        spread[rows] = cost @ lacking
        cost_of += float((plan * cost).sum())
    # Sums are rounded: what they miss goes as far as anything.
    missed = float((-left).clamp(min=0.0).sum()) + 1e-15 * len(a)
    rest = left.clamp(min=0.0)
    total = max(float(lacking.sum()), float(rest.sum()))
    if total > 0.0:
        cost_of += float(rest @ spread) / total
    missed += abs(float(lacking.sum()) - float(rest.sum()))
    return cost_of + missed * tiles.largest
