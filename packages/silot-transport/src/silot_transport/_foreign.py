"""Conversion of arrays of other libraries to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .errors import InputError

# Devices of DLPack whose memory numpy reads.
_HOST = (1, 3, 11)


def as_array(values: object, name: str, dtype: Any = None) -> npt.NDArray[Any]:
    """Convert values to a numpy array: those of other libraries by their own method or DLPack.

    A tensor of torch is read without its gradient.

    Raises
    ------
    InputError
        Sparse data, arrays outside the memory of the host (``"array-device"``), and arrays that
        numpy cannot read.
    ValueError
        Ragged sequences.
    """
    if type(values) is np.ndarray and dtype is None:
        return values
    if sparse.issparse(values):
        raise _make_sparse_error(values, name, "toarray")
    array: Any = values
    try:
        if type(array).__module__.partition(".")[0] == "torch" and hasattr(array, "detach"):
            if "strided" not in str(array.layout):
                raise _make_sparse_error(array, name, "to_dense")
            array = array.detach()
            _check_device(array, name)
            # numpy lacks this type; the next larger one holds its numbers exactly.
            array = array.float() if "bfloat16" in str(array.dtype) else array
        elif not isinstance(values, np.ndarray) and hasattr(array, "__dlpack_device__"):
            _check_device(array, name)
            if not hasattr(array, "__array__"):
                return np.asarray(np.from_dlpack(array), dtype=dtype)
        return np.asarray(array, dtype=dtype)
    except (TypeError, RuntimeError, BufferError) as error:
        raise InputError(
            f"{name}: a {type(array).__name__} that numpy cannot read ({type(error).__name__}). "
            "Give a numpy array.",
            code="measure-dtype",
        ) from None


def _check_device(values: Any, name: str) -> None:
    """Refuse arrays on an accelerator: their owner decides whether they are copied."""
    try:
        kind = int(values.__dlpack_device__()[0])
    except ValueError as error:  # a device without memory
        raise TypeError from error
    if kind not in _HOST:
        raise InputError(
            f"{name} is a {type(values).__name__} on an accelerator. Move it to the host: "
            "x.cpu() in torch, jax.device_get(x), cupy.asnumpy(x).",
            code="array-device",
        )


def _make_sparse_error(values: Any, name: str, method: str) -> InputError:
    size = 8.0 * float(np.prod(tuple(values.shape)))
    return InputError(
        f"{name} is a sparse array of shape {tuple(values.shape)}. Give its {method}(), which "
        f"takes {size / 1e9:.3g} GB, or fewer features (by a truncated SVD, for example).",
        code="measure-sparse",
    )
