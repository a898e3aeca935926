"""A module's parameters as plain arrays, to store and to send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError, MismatchError


def parameters_of(module: torch.nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Parameters and stored numbers (buffers) of a module, by name, as copies.

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
    return {name: _array(tensor) for name, tensor in module.state_dict().items()}


def load_parameters(
    module: torch.nn.Module, arrays: Mapping[str, npt.NDArray[Any]]
) -> torch.nn.Module:
    """Put arrays in place of a module's parameters: all of them, or none where one does not fit.

    Parameters
    ----------
    module
        Changed in place.
    arrays
        What ``parameters_of`` returned for a module of the same architecture.

    Returns
    -------
    torch.nn.Module
        The same module.

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
    learnt = {name for name, _ in module.named_parameters()}
    if set(own) != set(arrays):
        missing, more = len(set(own) - set(arrays)), len(set(arrays) - set(own))
        raise MismatchError(
            f"these are parameters of another model: {missing} are missing and {more} are not "
            f"known. Build the module as it was when they were taken.",
            code="parameters-names",
        )
    given = {name: np.asarray(arrays[name]) for name in own}
    for name, tensor in own.items():
        array, wanted = given[name], _kind(tensor)
        if array.shape != tuple(tensor.shape) or array.dtype != wanted:
            raise MismatchError(
                f"parameter {name} is {array.dtype}{list(array.shape)}; this model has "
                f"{wanted}{list(tensor.shape)}.",
                code="parameters-shape",
            )
        if name in learnt and not np.isfinite(array).all():
            raise InputError(f"parameter {name} is not finite.", code="parameters-nan")
    with torch.no_grad():
        for name, tensor in own.items():
            # A copy: torch warns of arrays that are read-only.
            tensor.copy_(torch.from_numpy(np.array(given[name])))
    return module


def _array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    held = tensor.detach().cpu()
    return (held.float() if held.dtype == torch.bfloat16 else held).numpy().copy()


def _kind(tensor: torch.Tensor) -> np.dtype[Any]:
    kind = torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype
    return torch.empty(0, dtype=kind).numpy().dtype
