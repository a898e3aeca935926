"""Checks of the tensors that the functions take, and pairs of weighted clouds from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._check import LARGEST_COORDINATE
from ..errors import InputError, MismatchError

Four = tuple[Tensor, Tensor, Tensor, Tensor]
Weights = Tensor | None
"""Masses of points; ``None`` gives every point the same."""

_TYPES = (torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """N pairs of clouds in double precision, on the device of the tensors that came."""

    x: Tensor
    y: Tensor
    """Shapes (N, n, d) and (N, m, d)."""
    a: Tensor
    b: Tensor
    """Masses, shapes (N, n) and (N, m), each row of sum 1."""
    shape: torch.Size
    dtype: torch.dtype
    """Shape and type of the results; N is the product of the shape."""

    @classmethod
    def of(cls, x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None) -> Pairs:
        """Check clouds (..., n, d), (..., m, d) and weights (..., n), (..., m), and pair them.

        Raises
        ------
        InputError, MismatchError
            As ``silot_transport.exact_plan``; tensors of other types or of two devices.
        """
        _check_points(x, "x")
        _check_points(y, "y")
        if x.shape[-1] != y.shape[-1]:
            raise MismatchError(
                f"x and y have {x.shape[-1]} and {y.shape[-1]} features. Give both the same "
                "features in the same order.",
                code="dimension-mismatch",
            )
        masses = _masses(a, x, "a"), _masses(b, y, "b")
        others = [tensor for tensor in (y, *masses) if tensor is not None]
        if any(tensor.dtype != x.dtype or tensor.device != x.device for tensor in others):
            raise MismatchError(
                "x, y and weights need one type and device. Convert them.",
                code="tensor-mixed",
            )
        leads = [x.shape[:-2], y.shape[:-2], *(w.shape[:-1] for w in masses if w is not None)]
        try:
            shape = torch.broadcast_shapes(*leads)
        except RuntimeError:
            raise MismatchError(
                f"x, y and weights have leading dimensions {', '.join(map(str, map(tuple, leads)))}"
                ", which do not broadcast.",
                code="measure-shape",
            ) from None
        clouds = [
            points.expand(*shape, *points.shape[-2:]).reshape(-1, *points.shape[-2:]).double()
            for points in (x, y)
        ]
        weights = [
            cloud.new_full(cloud.shape[:2], 1.0 / cloud.shape[1])
            if masses_of is None
            else _normalise(masses_of, shape)
            for masses_of, cloud in zip(masses, clouds, strict=True)
        ]
        return cls(*clouds, *weights, shape=shape, dtype=x.dtype)

    @property
    def inputs(self) -> Four:
        """The tensors that a result depends on."""
        return self.x, self.y, self.a, self.b

    def split(self) -> list[Four]:
        """Return x, y, a and b of every pair, without gradients."""
        plain = (tensor.detach() for tensor in self.inputs)
        return list(zip(*plain, strict=True))  # pyright: ignore[reportReturnType]

    def shape_results(self, values: Tensor) -> Tensor:
        """Return results (N, ...) in the shape and the type that the caller gets."""
        return values.reshape((*self.shape, *values.shape[1:])).to(self.dtype)


def check_host(on_host: bool, tensor: Tensor) -> None:
    """Refuse tensors of an accelerator where the computation is on the host.

    Raises
    ------
    InputError
        ``"tensor-device"``.
    """
    if not on_host and tensor.device.type != "cpu":
        raise InputError(
            f"the tensors are on {tensor.device}, and this is computed on the host. Move them "
            "there, or give on_host=True; or take sinkhorn_divergence, which stays on the device.",
            code="tensor-device",
        )


def _check_points(points: Any, name: str) -> None:
    if not isinstance(points, Tensor) or points.layout != torch.strided:
        raise InputError(f"{name} is not a dense torch tensor. Convert it.", code="tensor-type")
    if points.dtype not in _TYPES:
        raise InputError(
            f"{name} has type {points.dtype}; torch.float32 or torch.float64 is needed.",
            code="tensor-type",
        )
    if points.ndim < 2:
        raise InputError(
            f"{name} has shape {tuple(points.shape)}; (..., records, features) is needed.",
            code="measure-shape",
        )
    if points.numel() == 0:
        raise InputError(f"{name} has shape {tuple(points.shape)}: it is empty.",
                         code="measure-empty")  # fmt: skip
    largest = float(points.detach().abs().amax())
    # The largest of numbers with a NaN among them is NaN.
    if not largest < float("inf"):
        kind = "NaN" if bool(points.detach().isnan().any()) else "infinite"
        raise InputError(
            f"{name} holds {kind} values. Drop those records or impute them.",
            code="measure-nan" if kind == "NaN" else "measure-infinite",
        )
    if largest > LARGEST_COORDINATE:
        raise InputError(
            f"{name} holds values above {LARGEST_COORDINATE:g}, whose squares overflow. "
            "Rescale the features.",
            code="measure-magnitude",
        )


def _masses(weights: Any, points: Tensor, name: str) -> Tensor | None:
    if weights is None:
        return None
    if not isinstance(weights, Tensor) or weights.dtype not in _TYPES:
        raise InputError(
            f"{name} is not a tensor of torch.float32 or torch.float64. Convert it.",
            code="tensor-type",
        )
    if weights.ndim < 1 or weights.shape[-1] != points.shape[-2]:
        raise MismatchError(
            f"{name} has shape {tuple(weights.shape)} for {points.shape[-2]} records; "
            f"(..., {points.shape[-2]}) is needed.",
            code="weights-shape",
        )
    plain = weights.detach()
    if not bool(plain.isfinite().all()):
        raise InputError(f"{name} holds NaN or infinite values.", code="weights-nan")
    if bool((plain < 0).any()):
        raise InputError(
            f"{name} holds negative values. Weights are masses: zero or more.",
            code="weights-negative",
        )
    if bool((plain.amax(-1) == 0).any()):
        raise InputError(
            f"{name} sums to zero. At least one record needs a positive weight.",
            code="weights-zero",
        )
    return weights


def _normalise(weights: Tensor, shape: torch.Size) -> Tensor:
    weights = weights.expand(*shape, weights.shape[-1]).reshape(-1, weights.shape[-1]).double()
    weights = weights / weights.detach().amax(-1, keepdim=True)
    return weights / weights.sum(-1, keepdim=True)
