"""Debiased entropic divergence, with its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._check import as_order
from ._autograd import uncompiled, wanted, with_slopes
from ._entropic import Effort, Entropic, entropic
from ._pairs import Four, Pairs


@uncompiled
def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    epsilon: float,
    p: int = 2,
    tolerance: float = 1e-8,
    max_iterations: int = 5000,
) -> Tensor:
    r"""Debiased entropic divergence of weighted clouds, with its gradient.

    .. math:: S_\epsilon(\mu, \nu) = OT_\epsilon(\mu, \nu) - \tfrac12 OT_\epsilon(\mu, \mu)
              - \tfrac12 OT_\epsilon(\nu, \nu)

    as ``silot_transport.sinkhorn_divergence``: zero for equal measures, and ``W_p^p`` as epsilon
    tends to zero. The iteration is in the log domain; the gradient is that of the dual at its
    optimum (envelope theorem), so nothing is kept of the iterations. On the host the compiled
    kernels sweep a matrix of costs of up to 1 GiB; larger problems, and those on an accelerator,
    are swept by tiles of the matrix, where they are.

    Parameters
    ----------
    x, y, a, b, p
        As ``wasserstein``.
    epsilon
        Regularisation in units of ``|x - y|^p``.
    tolerance
        Largest L1 error of the marginals; errors of the gradient are of its order.
    max_iterations
        Most sweeps over the costs of each of the three problems.

    Returns
    -------
    torch.Tensor
        Shape (...).

    Raises
    ------
    InputError, MismatchError
        As ``wasserstein``; ``epsilon`` or ``tolerance`` not positive.
    SolverError
        Marginals that are not within the tolerance (``"sinkhorn-iterations"``).

    Notes
    -----
    Feydy et al., *Interpolating between Optimal Transport and MMD using Sinkhorn Divergences*,
    2019.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
    >>> value = sinkhorn_divergence(x, torch.tensor([[2.0], [3.0]]), epsilon=0.1)
    >>> value.backward()
    >>> round(value.item(), 6), [[round(g, 6) for g in row] for row in x.grad.tolist()]
    (4.0, [[-2.0], [-2.0]])
    """
    effort = Effort(epsilon, as_order(p), tolerance, max_iterations)
    pairs = Pairs.of(x, y, a, b)
    ask = wanted(pairs.inputs)
    found = [_divergence(each, effort, ask, pairs.dtype) for each in pairs.each()]
    values = torch.tensor([value for value, _ in found], dtype=torch.float64, device=x.device)
    slopes = [
        torch.stack([each[side] for _, each in found]) if needed else None
        for side, needed in enumerate(ask)
    ]
    return pairs.shaped(with_slopes(values, pairs.inputs, slopes))


@uncompiled
def potentials(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    epsilon: float,
    p: int = 2,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> tuple[Tensor, Tensor]:
    """Potentials (f, g) of entropic transport, shapes (..., n) and (..., m), without gradients.

    Parameters
    ----------
    x, y, a, b, epsilon, p, tolerance, max_iterations
        As ``sinkhorn_divergence``.

    Returns
    -------
    tuple of torch.Tensor
        Float64: their sums have more digits than single precision.

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``sinkhorn_divergence``.

    Examples
    --------
    >>> import torch
    >>> x, y = torch.tensor([[0.0]]), torch.tensor([[2.0]])
    >>> f, g = potentials(x, y, epsilon=0.1)
    >>> (f + g).tolist()
    [4.0]
    """
    effort = Effort(epsilon, as_order(p), tolerance, max_iterations)
    pairs = Pairs.of(x, y, a, b)
    found = [entropic(*each, effort) for each in pairs.each()]
    first, second = (torch.stack([getattr(each, k) for each in found]) for k in ("f", "g"))
    return first.reshape(*pairs.shape, -1), second.reshape(*pairs.shape, -1)


def _divergence(
    pair: Four, effort: Effort, ask: Sequence[bool], dtype: torch.dtype
) -> tuple[float, list[Tensor]]:
    """The value, and gradients by x, y, a and b."""
    x, y, a, b = pair
    # A measure against itself is solved by the symmetric iteration throughout, so that all cancels.
    same = torch.equal(x, y) and torch.equal(a, b)
    across = entropic(x, y, a, b, effort, symmetric=same)
    value, moves = across.value, list(across.slopes(ask[0], ask[1], dtype))
    masses = [across.f, across.g]
    del across
    for side, (points, weights) in enumerate(((x, a), (y, b))):
        own = entropic(points, points, weights, weights, effort, symmetric=True)
        value -= 0.5 * own.value
        if ask[side]:
            moves[side] = moves[side] - 0.5 * _both(own, dtype)
        masses[side] = masses[side] - 0.5 * (own.f + own.g)
    # Never negative; what is below zero is the error of the three solves.
    return max(value, 0.0), [*moves, *masses]


def _both(own: Entropic, dtype: torch.dtype) -> Tensor:
    """Gradient of a measure against itself, by both of its places."""
    first, second = own.slopes(True, True, dtype)
    return first + second
