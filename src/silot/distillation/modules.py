"""What is done with any torch module: batches, logits, modes, seeds, and parameters as arrays."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError, MismatchError, SolverError

Inputs = npt.NDArray[np.float64] | npt.NDArray[np.float32] | Sequence[str]

# A thread that uses or trains a part of a module locks it against all others.
_locks: WeakKeyDictionary[torch.nn.Module, threading.RLock] = WeakKeyDictionary()
_locking = threading.Lock()


def count_inputs(inputs: Inputs) -> int:
    """Count inputs; raise ``input-kind`` for one text in place of several, or what has no rows."""
    wrong = isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence | np.ndarray)
    if wrong or (isinstance(inputs, np.ndarray) and inputs.ndim == 0):
        raise InputError(
            "inputs are neither an array of rows nor a sequence of texts.", code="input-kind"
        )
    return len(inputs)


def split_batches(rows: npt.NDArray[np.intp], batch: int) -> list[npt.NDArray[np.intp]]:
    """Split rows into batches; a last single row joins the batch before, for it has no spread."""
    ends = list(range(batch, len(rows), batch))
    if ends and batch > 1 and len(rows) - ends[-1] == 1:
        ends.pop()
    return np.split(rows, ends)


def compute_logits(
    module: torch.nn.Module, inputs: Inputs, rows: npt.NDArray[np.integer]
) -> torch.Tensor:
    """Compute the logits (B, L) of the inputs in ``rows``, where the module's parameters are.

    Inputs pass through ``module.encode`` if there is one, else as float32.
    """
    chosen = inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[int(k)] for k in rows]
    encode = getattr(module, "encode", None)
    tensor = convert_floats(chosen) if encode is None else encode(chosen)
    logits = module(tensor.to(find_device(module)))
    is_tensor = isinstance(logits, torch.Tensor)
    if not is_tensor or logits.ndim != 2 or len(logits) != len(rows) or not logits.shape[1]:
        shape = tuple(logits.shape) if is_tensor else type(logits).__name__
        raise MismatchError(
            f"the module answered {len(rows)} inputs with {shape}; it must return logits, one row "
            f"per input.",
            code="logits-shape",
        )
    return logits


def convert_floats(values: npt.ArrayLike) -> torch.Tensor:
    """Convert an array of finite numbers to a float32 tensor."""
    try:
        array = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        array = None
    if array is None or array.ndim == 0:
        raise InputError(
            "inputs are not an array of numbers. This model takes an array of one row per input; a "
            "model of texts has encode().",
            code="input-kind",
        )
    if not np.isfinite(array).all():
        raise InputError(
            "inputs are not finite (or too large for float32). Remove or fill these rows.",
            code="input-nan",
        )
    return torch.from_numpy(array)


def find_device(module: torch.nn.Module) -> torch.device:
    """Return where the parameters of a module are; the processor if it has none."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def find_trained(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """List the parameters that need a gradient, or raise where there is none."""
    trained = [own for own in module.parameters() if own.requires_grad]
    if not trained:
        raise InputError("the module has no parameter to train.", code="parameters-frozen")
    return trained


def are_finite(parameters: Iterable[torch.Tensor]) -> bool:
    """Return whether all parameters are finite."""
    return all(bool(parameter.isfinite().all()) for parameter in parameters)


def check_finite(is_finite: bool, epoch: int) -> None:
    """Raise ``training-diverged`` where a loss or a parameter of an epoch is not finite."""
    if not is_finite:
        raise SolverError(
            f"the loss or a parameter is not finite in epoch {epoch}. Lower the rate, scale the "
            "inputs, or look for faulty inputs.",
            code="training-diverged",
        )


@contextmanager
def restore_modes(module: torch.nn.Module) -> Generator[None, None, None]:
    """Lock every part of a module, and restore it to training or evaluation mode at the end.

    Of two modules with a common part, used in two threads, one would otherwise run in the mode
    that the other set.
    """
    # In one order for all, or two threads might each wait for what the other has.
    parts = sorted(module.modules(), key=id)
    with _locking:
        locks = [_locks.setdefault(part, threading.RLock()) for part in parts]
    with ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        modes = [(part, part.training) for part in parts]
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode


def parameters_of(module: torch.nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Copy the parameters and stored numbers (buffers) of a module, by name.

    Parameters
    ----------
    module
        On any device. Numbers of 16 bits that numpy does not have become float32, exactly.

    Returns
    -------
    dict
        Arrays that ``numpy.savez`` writes and ``load_parameters`` takes.

    Examples
    --------
    >>> {name: array.shape for name, array in parameters_of(torch.nn.Linear(3, 2)).items()}
    {'weight': (2, 3), 'bias': (2,)}
    """
    return {name: _convert(tensor) for name, tensor in module.state_dict().items()}


def load_parameters(
    module: torch.nn.Module, arrays: Mapping[str, npt.NDArray[Any]]
) -> torch.nn.Module:
    """Replace a module's parameters by arrays: all of them, or none if one does not fit.

    Parameters
    ----------
    module
        Changed in place, and returned.
    arrays
        What ``parameters_of`` returned for a module of the same architecture.

    Raises
    ------
    MismatchError
        Names, shapes or kinds of numbers of another architecture.
    InputError
        Parameters that are not finite.

    Examples
    --------
    >>> one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    >>> loaded = load_parameters(other, parameters_of(one))
    >>> torch.equal(loaded.weight, one.weight)
    True
    """
    own = module.state_dict()
    # Buffers may hold infinities: masks of attention do.
    trained = {name for name, _ in module.named_parameters()}
    if set(own) != set(arrays):
        missing, more = len(set(own) - set(arrays)), len(set(arrays) - set(own))
        raise MismatchError(
            f"these are parameters of another model: {missing} are missing and {more} are "
            "unknown. Build the module as it was when they were saved.",
            code="parameters-names",
        )
    values = {name: np.asarray(arrays[name]) for name in own}
    for name, tensor in own.items():
        array, wanted = values[name], _numpy_kind(tensor)
        if array.shape != tuple(tensor.shape) or array.dtype != wanted:
            raise MismatchError(
                f"parameter {name} is {array.dtype}{list(array.shape)}; this model has "
                f"{wanted}{list(tensor.shape)}.",
                code="parameters-shape",
            )
        if name in trained and not np.isfinite(array).all():
            raise InputError(f"parameter {name} is not finite.", code="parameters-nan")
    with torch.no_grad():
        for name, tensor in own.items():
            # A copy: torch warns of arrays that are read-only.
            tensor.copy_(torch.from_numpy(np.array(values[name])))
    return module


def _convert(tensor: torch.Tensor) -> npt.NDArray[Any]:
    values = tensor.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy().copy()


def _numpy_kind(tensor: torch.Tensor) -> np.dtype[Any]:
    kind = torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype
    return torch.empty(0, dtype=kind).numpy().dtype
