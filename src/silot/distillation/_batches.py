"""What fitting and training share: rows of inputs as tensors, and random numbers of their own."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError

Inputs = npt.NDArray[np.float64] | npt.NDArray[np.float32] | Sequence[str]

# torch draws dropout and first parameters from one generator per process.
_drawing = threading.RLock()
# Whoever asks or trains a part of a module has it alone.
_guards: WeakKeyDictionary[torch.nn.Module, threading.RLock] = WeakKeyDictionary()
_guarding = threading.Lock()


def count_of(inputs: Inputs) -> int:
    """Number of inputs.

    Raises
    ------
    InputError
        One text in place of several, or what has no rows.
    """
    wrong = isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence | np.ndarray)
    if wrong or (isinstance(inputs, np.ndarray) and inputs.ndim == 0):
        raise InputError(
            "inputs are neither an array of rows nor a sequence of texts.", code="input-kind"
        )
    return len(inputs)


def batches_of(rows: npt.NDArray[np.intp], batch: int) -> list[npt.NDArray[np.intp]]:
    """Rows in batches; a last one of a single row goes to the one before: it has no spread."""
    ends = list(range(batch, len(rows), batch))
    if ends and batch > 1 and len(rows) - ends[-1] == 1:
        ends.pop()
    return np.split(rows, ends)


def batch_of(
    module: torch.nn.Module, inputs: Inputs, rows: npt.NDArray[np.integer]
) -> torch.Tensor:
    """Tensor of some inputs as ``module`` takes it, where its parameters are.

    Through ``module.encode`` if there is one, else as float32.

    Raises
    ------
    InputError
        Inputs of a module without ``encode`` that are not an array of finite numbers.
    """
    if isinstance(inputs, np.ndarray):
        chosen = inputs[rows]
    else:
        chosen = [inputs[int(row)] for row in rows]
    encode = getattr(module, "encode", None)
    found = floats(chosen) if encode is None else encode(chosen)
    return found.to(device_of(module))


def floats(values: npt.ArrayLike) -> torch.Tensor:
    """Array of finite numbers as a float32 tensor."""
    try:
        given = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        given = None
    if given is None or given.ndim == 0:
        raise InputError(
            "inputs are no array of numbers. This model takes an array of one row per input; a "
            "model of texts has encode().",
            code="input-kind",
        )
    if not np.isfinite(given).all():
        raise InputError(
            "inputs are not finite (or too large for float32). Remove or fill these rows.",
            code="input-nan",
        )
    return torch.from_numpy(given)


def device_of(module: torch.nn.Module) -> torch.device:
    """Where the parameters of a module are; the processor if it has none."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@contextmanager
def modes_of(module: torch.nn.Module) -> Generator[None, None, None]:
    """Put every part back to training or asking, whichever it was in.

    Nobody else has any of these parts meanwhile: of modules with a common part, asked in several
    threads, one would find it in the mode that another left it in.
    """
    with ExitStack() as held:
        for guard in _guards_of(module):
            held.enter_context(guard)
        modes = [(part, part.training) for part in module.modules()]
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode


def _guards_of(module: torch.nn.Module) -> list[threading.RLock]:
    # In one order for all, or two threads might each wait for what the other has.
    parts = sorted(module.modules(), key=id)
    with _guarding:
        return [_guards.setdefault(part, threading.RLock()) for part in parts]


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Generator[None, None, None]:
    """Let torch draw from ``seed``, then go on as if nothing had been drawn.

    Blocks of several threads follow one another, for torch's generator belongs to the process.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed must be a whole number from 0 to 2**63 - 1.", code="option-seed")
    place = [device.index or 0] if device is not None and device.type == "cuda" else []
    with _drawing, torch.random.fork_rng(devices=place):
        # torch.manual_seed would also set the generators of devices that are not in use.
        torch.default_generator.manual_seed(seed)
        for index in place:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
