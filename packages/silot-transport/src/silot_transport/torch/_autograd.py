"""Tensors whose values and gradients were both computed outside of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ..errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
Slopes = Sequence[Tensor | None]


def need_gradients(inputs: Sequence[Tensor]) -> tuple[bool, ...]:
    """Return which of these tensors need gradients."""
    return tuple(torch.is_grad_enabled() and tensor.requires_grad for tensor in inputs)


def with_slopes(values: Tensor, inputs: Sequence[Tensor], slopes: Slopes) -> Tensor:
    """Attach slopes (N, ...) to values (N,): their derivatives by inputs (N, ...).

    Gradients of the gradients are refused (``"second-derivatives"``), because slopes alone do not
    determine them.
    """
    if not any(need_gradients(inputs)):
        return values
    return _apply(_Sloped, values, tuple(slopes), *inputs)


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """Keep ``torch.compile`` from compiling a function: the graph of its caller breaks there."""

    @functools.wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        # Decorating at once would import the compiler with this module, which takes seconds.
        if torch.compiler.is_compiling():
            eager: Callable[P, R] = torch.compiler.disable(function)  # pyright: ignore
            return eager(*args, **options)
        return function(*args, **options)

    return run


class _Sloped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, slopes: Slopes, *inputs: Tensor) -> Tensor:
        ctx.slopes = slopes
        ctx.save_for_backward(*inputs)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (up,) = grad_outputs
        inputs = ctx.saved_tensors
        return (
            None,
            None,
            *(None if slope is None else _apply(_Once, up, slope, *inputs) for slope in ctx.slopes),
        )


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, up: Tensor, slope: Tensor, *inputs: Tensor) -> Tensor:
        # The inputs are passed so that a second derivative reaches ``backward``, which refuses it.
        return up.reshape(-1, *(1 for _ in slope.shape[1:])) * slope

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise InputError(
            "second derivatives of transport are not available, only first ones. Use "
            "sliced_wasserstein, or a difference of gradients.",
            code="second-derivatives",
        )


def _apply(function: type[torch.autograd.Function], *args: Any) -> Tensor:
    result: Any = function.apply(*args)
    return result
