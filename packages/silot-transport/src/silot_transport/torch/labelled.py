"""Exact transport of labelled records: labels as coordinates, as ``silot.distance`` has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..errors import InputError, MismatchError
from ._autograd import uncompiled
from ._pairs import Pairs
from .exact import wasserstein


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
    r"""Exact ``W_p^p`` of records with the mean and spread of their class as coordinates.

    .. math:: z_i = [x_i;\ m_{y_i};\ s_{y_i}]

    with the means :math:`m` and standard deviations :math:`s` of the features in the class of a
    record, of its own measure: what ``silot.distance(..., labels=True)`` computes (OTDD with
    diagonal covariances). Gradients go through means and deviations too.

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
    one = _embedded(pairs.x, pairs.a, kinds[0])
    other = _embedded(pairs.y, pairs.b, kinds[1])
    found = wasserstein(one, other, pairs.a, pairs.b, p=p, on_host=on_host)
    return pairs.shaped(found)


def _codes(kinds: Any, shape: torch.Size, points: Tensor) -> Tensor:
    if not isinstance(kinds, Tensor) or kinds.is_floating_point() or kinds.is_complex():
        raise InputError("labels are no tensors of whole numbers.", code="labels-shape")
    size = points.shape[1]
    try:
        kinds = kinds.expand(*shape, size)
    except RuntimeError:
        raise MismatchError(
            f"labels have shape {tuple(kinds.shape)} for {size} records.",
            code="labels-shape",
        ) from None
    return torch.unique(kinds, return_inverse=True)[1].reshape(-1, size).to(points.device)


def _embedded(points: Tensor, masses: Tensor, codes: Tensor) -> Tensor:
    members = one_hot(codes).double()
    mass = members * masses[..., None]
    total = mass.sum(1, keepdim=True)
    # A class without mass moves nothing; its vectors only have to exist.
    mass = torch.where(total > 0.0, mass, members)
    share = mass / mass.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    means = members @ (share.transpose(1, 2) @ points)
    spread = members @ (share.transpose(1, 2) @ (points - means).square())
    varies = spread > 0.0
    deviations = torch.where(varies, torch.where(varies, spread, 1.0).sqrt(), 0.0)
    return torch.cat([points, means, deviations], -1)
