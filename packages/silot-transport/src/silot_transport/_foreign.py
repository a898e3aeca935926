"""Arrays of other libraries, as numpy reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .errors import InputError

# Devices of DLPack whose memory numpy reads.
_HOST = (1, 3, 11)


def as_array(values: object, name: str, dtype: Any = None) -> npt.NDArray[Any]:
    """Return values as an array: those of torch, jax and others by their own conversion or DLPack.

    A tensor of torch is read without its gradient.

    Raises
    ------
    InputError
        Sparse data, arrays that are not in the memory of the host (``"array-device"``), and what
        numpy cannot read.
    ValueError
        Ragged sequences.
    """
    if sparse.issparse(values):
        raise _sparse(values, name, "toarray")
    given: Any = values
    try:
        if type(given).__module__.partition(".")[0] == "torch" and hasattr(given, "detach"):
            if "strided" not in str(given.layout):
                raise _sparse(given, name, "to_dense")
            given = given.detach()
            _check_device(given, name)
            # A type that numpy has not; the next larger one holds its numbers exactly.
            given = given.float() if "bfloat16" in str(given.dtype) else given
        elif not isinstance(values, np.ndarray) and hasattr(given, "__dlpack_device__"):
            _check_device(given, name)
            if not hasattr(given, "__array__"):
                return np.asarray(np.from_dlpack(given), dtype=dtype)
        return np.asarray(given, dtype=dtype)
    except (TypeError, RuntimeError, BufferError) as error:
        raise InputError(
            f"{name}: a {type(given).__name__} that numpy cannot read ({type(error).__name__}). "
            "Give a numpy array.",
            code="measure-dtype",
        ) from None


def _check_device(values: Any, name: str) -> None:
    """Never copy from an accelerator unasked: what is on one may be there for a reason."""
    try:
        kind = int(values.__dlpack_device__()[0])
    except ValueError as error:  # a device that has no memory
        raise TypeError from error
    if kind not in _HOST:
        raise InputError(
            f"{name} is a {type(values).__name__} on an accelerator. Move it to the host: "
            "x.cpu() in torch, jax.device_get(x), cupy.asnumpy(x).",
            code="array-device",
        )


def _sparse(values: Any, name: str, method: str) -> InputError:
    size = 8.0 * float(np.prod(tuple(values.shape)))
    return InputError(
        f"{name} is a sparse array of shape {tuple(values.shape)}. Give its {method}(), which "
        f"takes {size / 1e9:.3g} GB, or fewer features (by a truncated SVD, for example).",
        code="measure-sparse",
    )
