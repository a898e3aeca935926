"""Sliced transport, with gradients of every order."""

from __future__ import annotations

import torch
from torch import Tensor

from .._check import as_order, integer
from ._pairs import Pairs, Weights


def sliced_wasserstein(
    x: Tensor, y: Tensor, a: Weights = None, b: Weights = None,
    *, p: int = 2, directions: int = 128, generator: torch.Generator,
) -> Tensor:  # fmt: skip
    r"""Estimate the sliced ``SW_p^p`` by Monte Carlo over directions that all pairs share.

    .. math:: SW_p^p = \mathbb{E}_{u \in S^{d-1}} W_p^p(u \cdot \mu, u \cdot \nu)

    On the device of the tensors. Sorting and sums only: wherever no two projected points and no
    two sums of masses meet, the gradient has derivatives too.

    Parameters
    ----------
    x, y, a, b, p
        As ``wasserstein``.
    directions
        Number of directions drawn.
    generator
        Source of the directions, on any device; draw again from one of the same seed for the
        same loss.

    Returns
    -------
    torch.Tensor
        Shape (...): the cost, not its root.

    Raises
    ------
    InputError, MismatchError
        As ``wasserstein``; ``directions`` below 1.

    Examples
    --------
    >>> import torch
    >>> x, y = torch.tensor([[0.0]]), torch.tensor([[2.0]])
    >>> sliced_wasserstein(x, y, generator=torch.Generator().manual_seed(0)).item()
    4.0
    """
    order, pairs = as_order(p), Pairs.of(x, y, a, b)
    count = integer(directions, "directions", "option-count")
    drawn = torch.randn(
        x.shape[-1], count, generator=generator, device=generator.device, dtype=torch.float64
    )
    drawn = (drawn / drawn.norm(dim=0)).to(x.device)
    u, v = ((cloud @ drawn).transpose(1, 2).contiguous() for cloud in (pairs.x, pairs.y))
    if a is None and b is None and u.shape == v.shape:
        costs = _power(u.sort(-1)[0] - v.sort(-1)[0], order).mean(-1)
    else:
        costs = _line(u, v, pairs.a, pairs.b, order)
    return pairs.shape_results(costs.mean(-1))


def _line(u: Tensor, v: Tensor, a: Tensor, b: Tensor, p: int) -> Tensor:
    """Compute ``W_p^p`` of projections (N, k, n), (N, k, m) with masses (N, n), (N, m)."""
    (u, ends), (v, stops) = (_sort(*side) for side in ((u, a), (v, b)))
    # Between two of these sums of masses one point of each side moves.
    times = torch.cat([ends[..., :-1], stops[..., :-1], torch.ones_like(ends[..., :1])], -1)
    times = times.sort(-1)[0]
    mass = times.diff(dim=-1, prepend=torch.zeros_like(times[..., :1]))
    middle = (times - 0.5 * mass).detach()
    rows, columns = (
        torch.searchsorted(sums.detach().contiguous(), middle).clamp(max=sums.shape[-1] - 1)
        for sums in (ends, stops)
    )
    return (mass * _power(u.gather(-1, rows) - v.gather(-1, columns), p)).sum(-1)


def _sort(projected: Tensor, masses: Tensor) -> tuple[Tensor, Tensor]:
    """Sort projected points, and sum the masses up to every one of them."""
    points, order = projected.sort(-1)
    return points, masses[:, None].expand_as(points).gather(-1, order).cumsum(-1)


def _power(difference: Tensor, p: int) -> Tensor:
    return difference.square() if p == 2 else difference.abs()
