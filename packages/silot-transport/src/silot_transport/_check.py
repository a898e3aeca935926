"""Checks of arrays and options that users pass."""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from ._foreign import as_array
from .errors import InputError, MismatchError

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Weights = npt.ArrayLike | None
"""Masses of points; ``None`` gives every point the same."""

# Squares of larger coordinates overflow, and so do squares of sums of many of them.
LARGEST_COORDINATE = 1e150
_LARGEST_POTENTIAL = 1e302
# Whole numbers up to here are held exactly by float64.
_WHOLE = 2**53


def as_points(points: npt.ArrayLike, name: str = "points") -> Array:
    """Return ``points`` as a finite C-ordered float64 array of shape (n, d)."""
    return _as_bounded(points, name, LARGEST_COORDINATE)[0]


def as_costs(cost: npt.ArrayLike) -> tuple[Array, float, float]:
    """Return a matrix of costs (n, m), which are never squared, and the least and the largest."""
    return _as_bounded(cost, "cost", _LARGEST_POTENTIAL)


def _as_bounded(points: npt.ArrayLike, name: str, most: float) -> tuple[Array, float, float]:
    if np.ma.is_masked(points):
        raise InputError(
            f"{name} is a masked array with masked entries. Drop or fill them.",
            code="measure-masked",
        )
    try:
        raw = as_array(points, name)
    except ValueError:
        raise InputError(
            f"{name} is a ragged sequence. Give one array with one row per record.",
            code="measure-shape",
        ) from None
    if raw.dtype.kind not in "buif":
        raise InputError(
            f"{name} has dtype {raw.dtype}; numbers are needed. Encode text and dates as "
            "numbers first, or select the numeric columns.",
            code="measure-dtype",
        )
    if raw.ndim != 2:
        raise InputError(
            f"{name} has shape {raw.shape}; (records, features) is needed. Use x[:, None] for "
            "one feature, or x.reshape(len(x), -1) for images.",
            code="measure-shape",
        )
    if raw.shape[0] == 0 or raw.shape[1] == 0:
        raise InputError(
            f"{name} has shape {raw.shape}: it is empty. A measure needs at least one record "
            "and one feature.",
            code="measure-empty",
        )
    array = np.ascontiguousarray(_to_double(raw))
    return array, *_check_values(array, name, most)


def _to_double(raw: npt.NDArray[np.generic]) -> Array:
    if raw.dtype == np.float64:
        return cast("Array", raw)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        return raw.astype(np.float64)


def _check_values(array: Array, name: str, most: float) -> tuple[float, float]:
    # A NaN anywhere is both the least and the largest value: one pass finds it.
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = np.isfinite(array)
        bad = np.argwhere(~finite)
        row, column = (int(k) for k in bad[0])
        is_nan = bool(np.isnan(array[row, column]))
        kind = "NaN" if is_nan else "infinite"
        raise InputError(
            f"{name} holds {len(bad)} NaN or infinite value(s), the first {kind} in row {row}, "
            f"column {column} (from 0). Drop those rows or impute them.",
            code="measure-nan" if is_nan else "measure-infinite",
        )
    if max(-low, high) > most:
        what = "squares" if most == LARGEST_COORDINATE else "sums"
        raise InputError(
            f"{name} holds values above {most:g}, whose {what} overflow. Divide all by one number.",
            code="measure-magnitude",
        )
    return low, high


def as_weights(weights: npt.ArrayLike | None, size: int, name: str = "weights") -> Array:
    """Return ``weights`` normalised to sum 1; ``None`` means uniform weights."""
    if weights is None:
        return np.full(size, 1.0 / size)
    try:
        raw = as_array(weights, name)
    except ValueError:
        raise InputError(
            f"{name} are ragged; one number for each record is needed.", code="weights-shape"
        ) from None
    if raw.dtype.kind not in "buif":
        raise InputError(
            f"{name} has dtype {raw.dtype}; non-negative numbers are needed.",
            code="weights-dtype",
        )
    if raw.shape != (size,):
        raise MismatchError(
            f"{name} has shape {raw.shape} for {size} records; ({size},) is needed.",
            code="weights-shape",
        )
    array = _to_double(raw)
    # A NaN anywhere is both the least and the largest value.
    least, largest = float(array.min()), float(array.max())
    if not (math.isfinite(least) and math.isfinite(largest)):
        raise InputError(
            f"{name} holds NaN or infinite values. Use 0 for records to be ignored.",
            code="weights-nan",
        )
    if least < 0:
        row = int(np.argmax(array < 0))
        raise InputError(
            f"{name} holds {int((array < 0).sum())} negative value(s), the first in row {row}. "
            "Weights are masses: zero or more.",
            code="weights-negative",
        )
    if largest == 0.0:
        raise InputError(
            f"{name} sums to zero. At least one record needs a positive weight.",
            code="weights-zero",
        )
    # Huge weights would overflow the sum. Dividing by a power of two does not round, so counts
    # have the same sum in any order.
    array = np.ldexp(array, -math.frexp(largest)[1])
    return array / array.sum()


def as_order(p: float) -> int:
    """Return the order of the distance, 1 or 2."""
    if isinstance(p, bool) or np.ndim(p) > 0 or p not in (1, 2):
        raise InputError(f"p is {p!r}; silot computes p = 1 and p = 2.", code="option-p")
    return int(p)


def as_power(p: float) -> float:
    """Return the order of the distance, any number from 1 on; 1 and 2 as integers."""
    power = real(p, "p", "option-p")
    if not 1.0 <= power < math.inf:
        raise InputError(f"p is {p!r}; a number of 1 or more is needed.", code="option-p")
    return int(power) if power in (1.0, 2.0) else power


def as_potentials(potentials: npt.ArrayLike, size: int, name: str) -> Array:
    """Return ``potentials`` as a finite float64 array of shape (size,)."""
    try:
        values = np.asarray(potentials, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(
            f"{name} is not an array of numbers; one potential for each point is needed.",
            code="measure-dtype",
        ) from None
    if not np.isfinite(values).all():
        raise InputError(f"{name} has values that are not finite.", code="measure-nan")
    if values.size > 0 and float(np.abs(values).max()) > _LARGEST_POTENTIAL:
        raise InputError(
            f"{name} holds values above {_LARGEST_POTENTIAL:g}, which no cost has.",
            code="measure-magnitude",
        )
    if values.shape != (size,):
        raise MismatchError(
            f"{name} has shape {np.shape(potentials)}; one potential for each of the {size} points "
            "is needed.",
            code="weights-length",
        )
    return values


def same_dimension(x: Array, y: Array) -> None:
    """Raise unless both clouds live in the same space."""
    if x.shape[1] != y.shape[1]:
        raise MismatchError(
            f"the measures have {x.shape[1]} and {y.shape[1]} features. Give both the same "
            "features in the same order.",
            code="dimension-mismatch",
        )


def as_clouds(
    x: npt.ArrayLike, y: npt.ArrayLike, a: npt.ArrayLike | None, b: npt.ArrayLike | None
) -> tuple[Array, Array, Array, Array]:
    """Return two weighted clouds of one dimension, checked by ``as_points`` and ``as_weights``."""
    first, second = as_points(x, "x"), as_points(y, "y")
    same_dimension(first, second)
    return first, second, as_weights(a, len(first), "a"), as_weights(b, len(second), "b")


def as_exact_clouds(
    x: npt.ArrayLike, y: npt.ArrayLike, a: npt.ArrayLike | None, b: npt.ArrayLike | None
) -> tuple[Array, Array, Array, Array, float]:
    """Return clouds as ``as_clouds`` does, and by how much a distance of two points may be off.

    Whole numbers beyond 2^53 are moved, exactly, to where float64 holds them, if it can: distances
    stay as they are. What is rounded is a wider spread, or a longer float.
    """
    kinds = [_find_kind(points) for points in (x, y)]
    is_held = "long" not in kinds
    if "large" in kinds and set(kinds) <= {"large", "whole"}:
        exact = [np.asarray(points).astype(object) for points in (x, y)]
        if exact[0].ndim == exact[1].ndim == 2 and exact[0].shape[1] == exact[1].shape[1]:
            least = np.minimum(exact[0].min(axis=0), exact[1].min(axis=0))
            moved = [points - least for points in exact]
            is_held = max(int(points.max()) for points in moved) <= _WHOLE
            x, y = (points.astype(np.float64) for points in moved)
    elif "large" in kinds:
        is_held = False
    x, y, a, b = as_clouds(x, y, a, b)
    if is_held:
        return x, y, a, b, 0.0
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    return x, y, a, b, 2.0 * math.sqrt(x.shape[1]) * 2.0**-53 * largest


def _find_kind(points: npt.ArrayLike) -> str:
    """Say whether numbers are ``"whole"``, ``"large"`` whole ones, ``"long"`` floats or others."""
    if np.ma.is_masked(points):
        return ""
    try:
        raw = np.asarray(points)
    except (ValueError, TypeError, RuntimeError):
        return ""
    if raw.dtype.kind == "f":
        # Whole numbers among others are rounded where a list or a frame is made an array.
        is_mixed = not hasattr(points, "dtype") and raw.size > 0
        is_rounded = is_mixed and float(np.abs(raw).max()) >= _WHOLE
        return "long" if raw.dtype.itemsize > 8 or is_rounded else ""
    if raw.dtype.kind not in "iu" or raw.size == 0:
        return ""
    return "large" if max(abs(int(raw.min())), abs(int(raw.max()))) > _WHOLE else "whole"


def integer(value: object, name: str, code: str, *, least: int = 1, most: int = 10_000_000) -> int:
    """Return a whole number between bounds; numpy integers count, truth values do not."""
    try:
        number = operator.index(cast("SupportsIndex", value))
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise InputError(
            f"{name} is {value!r}; a whole number from {least} to {most} is needed.", code=code
        )
    return number


def real(value: object, name: str, code: str) -> float:
    """Return a finite number; texts, truth values and arrays are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} is {value!r}; a number is needed.", code=code)
    try:
        number = float(cast("float", value))
    except OverflowError:
        number = math.inf
    if not np.isfinite(number):
        raise InputError(f"{name} is {value!r}; a finite number is needed.", code=code)
    return number


def flag(value: object, name: str, code: str) -> bool:
    """Return a truth value; nothing else counts as one."""
    if not isinstance(value, bool) and type(value) is not np.bool_:
        raise InputError(f"{name} is {value!r}; True or False is needed.", code=code)
    return bool(value)


def interval(value: float, name: str, code: str) -> float:
    """Return an interpolation parameter, strictly between 0 and 1."""
    if not 0.0 < real(value, name, code) < 1.0:
        raise InputError(f"{name} is {value!r}; 0 < {name} < 1 is needed.", code=code)
    return float(value)
