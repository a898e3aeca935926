"""Arrays of other libraries, as numpy reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import InputError


def as_array(values: object, name: str, dtype: Any = None) -> npt.NDArray[Any]:
    """Return values as an array: a tensor of torch without its gradient, from any device.

    Raises
    ------
    InputError
        Sparse data, and what numpy cannot read.
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
            given = given.detach().cpu()
            # A type that numpy has not; the next larger one holds its numbers exactly.
            given = given.float() if "bfloat16" in str(given.dtype) else given
        return np.asarray(given, dtype=dtype)
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"{name}: a {type(values).__name__} that numpy cannot read ({type(error).__name__}). "
            "Give a numpy array.",
            code="measure-dtype",
        ) from None


def _sparse(values: Any, name: str, method: str) -> InputError:
    size = 8.0 * float(np.prod(tuple(values.shape)))
    return InputError(
        f"{name} is a sparse array of shape {tuple(values.shape)}. Give its {method}(), which "
        f"takes {size / 1e9:.3g} GB, or fewer features (by a truncated SVD, for example).",
        code="measure-sparse",
    )
