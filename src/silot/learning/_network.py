"""The convolutional model, in torch (extra ``silot[torch]``)."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ExtraError
from .spec import Array, ModelSpec

Codes = npt.NDArray[np.int64]

# Records evaluated at once.
_ROWS = 1024

_lock = threading.Lock()
_users = 0
_threads = 1


def train(
    spec: ModelSpec,
    parameters: Array,
    inputs: Array,
    codes: Codes,
    batches: npt.NDArray[np.intp],
    rate: float,
    momentum: float,
) -> Array:
    torch = _torch()
    with _one_thread(torch):
        layers = _layers(torch, spec, parameters, grad=True)
        flat = [tensor for pair in layers for tensor in pair]
        optimiser = torch.optim.SGD(flat, lr=rate, momentum=momentum)
        images, labels = _images(torch, spec, inputs), torch.from_numpy(codes.copy())
        for rows in torch.from_numpy(batches):
            optimiser.zero_grad(set_to_none=True)
            # Takes logits: softmax is applied once, inside.
            loss = torch.nn.functional.cross_entropy(
                _logits(torch, layers, images[rows]), labels[rows]
            )
            loss.backward()
            optimiser.step()
        return np.concatenate([t.detach().numpy().astype(np.float64).ravel() for t in flat])


def probabilities(spec: ModelSpec, parameters: Array, inputs: Array) -> Array:
    torch = _torch()
    with _one_thread(torch), torch.no_grad():
        layers = _layers(torch, spec, parameters, grad=False)
        parts: list[Array] = []
        for at in range(0, len(inputs), _ROWS):
            images = _images(torch, spec, inputs[at : at + _ROWS])
            logits = _logits(torch, layers, images).double()
            parts.append(torch.softmax(logits, dim=1).numpy())
        return np.concatenate(parts)


def _logits(torch: ModuleType, layers: list[tuple[Any, Any]], images: Any) -> Any:
    apply = torch.nn.functional
    found = images
    for weights, bias in layers[:2]:
        found = apply.relu(apply.max_pool2d(apply.conv2d(found, weights, bias), 2))
    found = found.flatten(1)
    for weights, bias in layers[2:-1]:
        found = apply.relu(found @ weights + bias)
    weights, bias = layers[-1]
    return found @ weights + bias


def _layers(
    torch: ModuleType, spec: ModelSpec, parameters: Array, *, grad: bool
) -> list[tuple[Any, Any]]:
    return [
        tuple(
            torch.from_numpy(part.astype(np.float32)).requires_grad_(grad)
            for part in (weights, bias)
        )
        for weights, bias in spec.split(parameters)
    ]


def _images(torch: ModuleType, spec: ModelSpec, inputs: Array) -> Any:
    height, width = spec.shape[:2]
    images = inputs.astype(np.float32).reshape(len(inputs), height, width, -1)
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError:
        raise ExtraError(
            "a cnn needs torch. Run: pip install 'silot[torch]', or use kind='mlp'.",
            code="extra-torch",
        ) from None
    return torch


@contextmanager
def _one_thread(torch: ModuleType) -> Generator[None, None, None]:
    """Keep torch to one thread: sums then have one order, and small batches are faster.

    The setting belongs to the process; the last user puts it back.
    """
    global _users, _threads
    with _lock:
        if _users == 0:
            _threads = torch.get_num_threads()
        # Also where others did before: a thread that computes has its own share of the setting.
        torch.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_num_threads(_threads)
