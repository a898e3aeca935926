"""Models of every kind, in torch (extra ``silot[torch]``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ExtraError
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
    *,
    fixed: int = 0,
) -> Array:
    """Train all layers but the ``fixed`` last."""
    torch = _torch()
    with _one_thread(torch):
        layers = _layers(torch, spec, parameters, grad=True)
        flat = [tensor for pair in layers for tensor in pair]
        for tensor in flat[len(flat) - 2 * fixed :]:
            tensor.requires_grad_(False)
        moved = [tensor for tensor in flat if tensor.requires_grad]
        optimiser = torch.optim.SGD(moved, lr=rate, momentum=momentum)
        records, labels = _tensor(torch, spec, inputs), torch.from_numpy(codes.copy())
        for rows in torch.from_numpy(batches):
            optimiser.zero_grad(set_to_none=True)
            # Takes logits: softmax is applied once, inside.
            loss = torch.nn.functional.cross_entropy(
                _logits(torch, layers, records[rows]), labels[rows]
            )
            loss.backward()
            optimiser.step()
        return np.concatenate([t.detach().numpy().astype(np.float64).ravel() for t in flat])


def probabilities(spec: ModelSpec, parameters: Array, inputs: Array) -> Array:
    """Compute the probability of every class for every record, (n, C)."""
    torch = _torch()

    def softmax(layers: list[tuple[Any, Any]], records: Any) -> Any:
        return torch.softmax(_logits(torch, layers, records).double(), dim=1)

    return _evaluate(torch, spec, parameters, inputs, softmax)


def body_outputs(spec: ModelSpec, parameters: Array, inputs: Array) -> Array:
    """Compute the inputs of the last layer for every record, (n, its inputs)."""
    torch = _torch()

    def outputs(layers: list[tuple[Any, Any]], records: Any) -> Any:
        return _body(torch, layers, records).double()

    return _evaluate(torch, spec, parameters, inputs, outputs)


def _evaluate(
    torch: ModuleType,
    spec: ModelSpec,
    parameters: Array,
    inputs: Array,
    outputs: Callable[[list[tuple[Any, Any]], Any], Any],
) -> Array:
    """Compute outputs of layers for all records, some rows at once."""
    with _one_thread(torch), torch.no_grad():
        layers = _layers(torch, spec, parameters, grad=False)
        parts = [
            outputs(layers, _tensor(torch, spec, inputs[at : at + _ROWS])).numpy()
            for at in range(0, len(inputs), _ROWS)
        ]
        return np.concatenate(parts)


def _body(torch: ModuleType, layers: list[tuple[Any, Any]], records: Any) -> Any:
    apply = torch.nn.functional
    outputs = records
    for weights, bias in layers[:-1]:
        if weights.ndim == 4:
            outputs = apply.relu(apply.max_pool2d(apply.conv2d(outputs, weights, bias), 2))
        else:
            outputs = apply.relu(outputs.flatten(1) @ weights + bias)
    return outputs.flatten(1)


def _logits(torch: ModuleType, layers: list[tuple[Any, Any]], records: Any) -> Any:
    weights, bias = layers[-1]
    logits = _body(torch, layers, records) @ weights + bias
    # One unit stands for two classes: it is the log odds of the second.
    return logits if logits.shape[1] > 1 else torch.cat([torch.zeros_like(logits), logits], 1)


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


def _tensor(torch: ModuleType, spec: ModelSpec, inputs: Array) -> Any:
    """Records as the first layer takes them: rows, or images with channels first."""
    if spec.kind != "cnn":
        return torch.from_numpy(inputs.astype(np.float32))
    height, width = spec.shape[:2]
    images = inputs.astype(np.float32).reshape(len(inputs), height, width, -1)
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError:
        raise ExtraError(
            "a cnn and federated training need torch. Run: pip install 'silot[torch]'.",
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
