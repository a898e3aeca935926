"""Models in torch (extra ``silot[torch]``): their parameters are one vector."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...errors import ExtraError, InputError

try:
    import torch
    from torch import Tensor, nn

    from ...torch import draw_from
except ImportError:
    raise ExtraError(
        "modules, a cnn and federated training of these models need torch. Run: "
        "pip install 'silot[torch]'.",
        code="extra-torch",
    ) from None

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Records evaluated at once.
_ROWS = 1024

_lock = threading.Lock()
_users = 0
_threads = 1


class Network:
    """A module as a vector: weights, biases and running means, those of the last layer at the end.

    Weights of a fully connected layer are (inputs, outputs) there.
    """

    def __init__(
        self, build: Callable[[int], nn.Module], shape: tuple[int, ...], classes: int,
        *, channels_last: bool = False, draws: bool = True,
    ) -> None:  # fmt: skip
        self._build, self.shape, self.classes = build, shape, classes
        self._channels_last, self._draws = channels_last, draws
        # Parameters travel in single precision, and holders need no accelerator.
        self._module = copy.deepcopy(build(0)).cpu().float().eval()
        linear = {
            f"{name}.weight" if name else "weight"
            for name, part in self._module.named_modules()
            if isinstance(part, nn.Linear)
        }
        last = [name for name, part in self._module.named_modules()
                if any(True for _ in part.parameters(recurse=False))]  # fmt: skip
        if not last:
            raise InputError("the module has no parameters to train.", code="model-outputs")
        self._last = last[-1]
        values = {k: v for k, v in self._module.state_dict().items() if v.is_floating_point()}
        begin = f"{self._last}." if self._last else ""
        body = [name for name in values if len(last) > 1 and not name.startswith(begin)]
        self._names = [*body, *(name for name in values if name not in body)]
        self._turned = linear
        self._shapes = {name: tuple(values[name].shape) for name in self._names}
        self.size = sum(math.prod(shape) for shape in self._shapes.values())
        self._body = body
        part = self._module.get_submodule(self._last)
        self.head: tuple[int, int] = (0, 0)
        if isinstance(part, nn.Linear) and f"{self._last}.bias" in values and body:
            self.head = (part.in_features, part.out_features)
        self._check()

    def _check(self) -> None:
        """Raise where records do not become a number for each class."""
        try:
            with one_thread(), torch.no_grad():
                outputs = cast("Any", self._module(self._records(np.zeros((2, self._inputs)))))
                fits = outputs.shape in (
                    (2, self.classes),
                    *([(2, 1)] if self.classes == 2 else []),
                )
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            why = type(error).__name__
        else:
            why = "" if fits else f"outputs of shape {tuple(outputs.shape)}"
        if why:
            raise InputError(
                f"the module does not turn records of shape (2, {', '.join(map(str, self.shape))}) "
                f"into logits of shape (2, {self.classes}): {why}. Give shape as it takes one "
                "record, and an output for every class.",
                code="model-outputs",
            )

    @property
    def _inputs(self) -> int:
        return math.prod(self.shape)

    def initial(self, seed: int) -> Array:
        """Return the first parameters of the module."""
        return self._vector(self._build(seed))

    def train(
        self, parameters: Array, inputs: Array, codes: Codes, batches: npt.NDArray[np.intp],
        rate: float, momentum: float, *, fixed: int = 0, seed: int = 0,
    ) -> Array:  # fmt: skip
        """Train all layers but the ``fixed`` last, 0 or 1."""
        with one_thread(), draw_from(seed) if self._draws else nullcontext():
            module = self._with(parameters).train()
            still = set(self._names) - set(self._body) if fixed else set[str]()
            moved = [
                tensor.requires_grad_(name not in still)
                for name, tensor in module.named_parameters()
                if name not in still
            ]
            optimiser = torch.optim.SGD(moved, lr=rate, momentum=momentum)
            records, labels = self._records(inputs), torch.from_numpy(codes.copy())
            for rows in torch.from_numpy(batches):
                if len(rows) == 1 and _has_batch_norm(module):
                    continue
                optimiser.zero_grad(set_to_none=True)
                # Takes logits: softmax is applied once, inside.
                loss = nn.functional.cross_entropy(_pairs(module(records[rows])), labels[rows])
                loss.backward()
                optimiser.step()
            return self._vector(module)

    def probabilities(self, parameters: Array, inputs: Array) -> Array:
        """Compute the probability of every class for every record, (n, C)."""
        module = self._with(parameters)

        def softmax(records: Tensor) -> Tensor:
            return torch.softmax(_pairs(module(records)).double(), dim=1)

        return self._evaluate(softmax, inputs)

    def body_outputs(self, parameters: Array, inputs: Array) -> Array:
        """Compute the inputs of the last layer for every record, (n, its inputs)."""
        module = self._with(parameters)
        entered: list[Tensor] = []
        module.get_submodule(self._last).register_forward_pre_hook(
            lambda _, values: entered.append(values[0].flatten(1))
        )

        def outputs(records: Tensor) -> Tensor:
            entered.clear()
            module(records)
            return entered[0].double()

        return self._evaluate(outputs, inputs)

    def _evaluate(self, outputs: Callable[[Tensor], Tensor], inputs: Array) -> Array:
        with one_thread(), torch.no_grad():
            parts = [
                outputs(self._records(inputs[at : at + _ROWS])).numpy()
                for at in range(0, len(inputs), _ROWS)
            ]
            return np.concatenate(parts)

    def _with(self, parameters: Array) -> nn.Module:
        """Return a copy of the module that has these parameters."""
        module = copy.deepcopy(self._module)
        state = module.state_dict()
        at = 0
        for name in self._names:
            shape = self._shapes[name]
            size = math.prod(shape)
            values = parameters[at : at + size]
            at += size
            if name in self._turned:
                values = values.reshape(shape[::-1]).T
            state[name].copy_(torch.from_numpy(np.array(values.reshape(shape))))
        return module

    def _vector(self, module: nn.Module) -> Array:
        state = module.state_dict()
        parts: list[Array] = []
        for name in self._names:
            values = state[name].detach().cpu().numpy().astype(np.float64)
            parts.append((values.T if name in self._turned else values).ravel())
        return np.concatenate(parts)

    def _records(self, inputs: Array) -> Tensor:
        """Records as the first layer takes them; of an image the channels come first."""
        records = inputs.astype(np.float32)
        if not self._channels_last:
            return torch.from_numpy(records.reshape(len(inputs), *self.shape))
        height, width = self.shape[:2]
        images = records.reshape(len(inputs), height, width, -1)
        return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def seeded(seed: int, build: Callable[[], Any]) -> Any:
    """Build a module whose first parameters follow from the seed."""
    with draw_from(seed):
        return build()


@lru_cache(maxsize=64)
def layered(weights: tuple[tuple[int, ...], ...], shape: tuple[int, ...], classes: int) -> Network:
    """Build convolutions, each with pooling, and then fully connected layers, by their weights."""
    convolutions = [size for size in weights if len(size) == 4]
    layers: list[nn.Module] = []
    for size in convolutions:
        layers += [nn.Conv2d(size[1], size[0], size[2]), nn.MaxPool2d(2), nn.ReLU()]
    layers.append(nn.Flatten())
    for size in weights[len(convolutions) :]:
        layers += [nn.Linear(size[0], size[1]), nn.ReLU()]
    module = seeded(0, lambda: nn.Sequential(*layers[:-1]))
    return Network(lambda _: module, shape, classes, channels_last=bool(convolutions), draws=False)


def _pairs(logits: Tensor) -> Tensor:
    """One output stands for two classes: it is the log odds of the second."""
    return logits if logits.shape[1] > 1 else torch.cat([torch.zeros_like(logits), logits], 1)


def _has_batch_norm(module: nn.Module) -> bool:
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())


@contextmanager
def one_thread() -> Generator[None, None, None]:
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
