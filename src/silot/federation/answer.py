"""What comes back from a holder: an answer, or a failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ..errors import InputError, WireError
from .message import Message, Scalar, decode, encode

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """Named arrays and scalars, nothing else."""

    arrays: Mapping[str, npt.NDArray[Any]] = field(
        default_factory=dict[str, npt.NDArray[Any]], repr=False
    )
    scalars: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    def array(self, name: str, *, ndim: int, columns: int | None = None) -> Array:
        """Return a finite float64 array of the answer, or raise a ``WireError``."""
        value = self.arrays.get(name)
        if value is None or value.dtype != np.float64 or value.ndim != ndim or 0 in value.shape:
            raise _malformed(f"no float64 array {name!r} with {ndim} axes")
        if columns is not None and value.shape[-1] != columns:
            raise _malformed(f"array {name!r} with {value.shape[-1]} columns, not {columns}")
        if not np.isfinite(value).all():
            raise _malformed(f"array {name!r} with values that are not finite")
        return value

    def number(self, name: str) -> float:
        """Return a finite non-negative number of the answer, or raise a ``WireError``."""
        value = self.optional_number(name)
        if value is None:
            raise _malformed(f"no number {name!r}")
        return value

    def optional_number(self, name: str) -> float | None:
        """Like ``number``, ``None`` when the holder did not send it."""
        value = self.scalars.get(name)
        if value is None:
            return None
        if isinstance(value, bool | str) or not np.isfinite(value) or value < 0:
            raise _malformed(f"{name!r} that is not a finite number of zero or more")
        return float(value)

    def rounding(self, value: float) -> float:
        """How far a number of the answer, or of an array whose largest it is, was rounded."""
        digits = self.scalars.get(DIGITS)
        if digits is None:
            return 0.0
        if isinstance(digits, bool | str | float) or not 1 <= digits <= 15:
            raise _malformed("digits that are no number of digits")
        # A little more than half a step: rounding is in binary.
        return 0.5000001 * max(_step(value, digits), SMALLEST)

    def flag(self, name: str) -> bool:
        """Return a truth value of the answer, or raise a ``WireError``."""
        value = self.scalars.get(name)
        if not isinstance(value, bool):
            raise _malformed(f"no truth value {name!r}")
        return value


DIGITS = "digits"
"""Name under which an answer says to how many digits its numbers were rounded."""

SMALLEST = 1e-12
"""Smaller numbers are told as 0 where numbers are rounded."""

_LARGEST = 1e12
# Certificates and variants of a number that is told: they would be numbers more.
_MORE = frozenset({"distance_lower", "target_lower", "estimate", "gap"})


def rounded(answer: Answer, digits: int) -> Answer:
    """An answer with so many significant digits, and without what would tell more digits.

    Arrays are rounded to steps of their largest number. Integers and truth values stay.

    Raises
    ------
    InputError
        A number whose power of ten is beyond those that rounded numbers may have.

    Examples
    --------
    >>> rounded(Answer(scalars={"distance": 1.23456, "distance_lower": 1.2}), 3).scalars
    {'distance': 1.23, 'digits': 3}
    """
    scalars = {
        name: _coarse(value, value, digits) if isinstance(value, float) else value
        for name, value in answer.scalars.items()
        if name not in _MORE
    }
    arrays = {
        name: _coarse_array(array, digits) if array.dtype.kind == "f" and array.size else array
        for name, array in answer.arrays.items()
    }
    return Answer(arrays, {**scalars, DIGITS: digits})


def bits_of(digits: int) -> float:
    """What a number rounded to so many digits can hold, with its sign or whether it is exact.

    Examples
    --------
    >>> round(bits_of(3), 2)
    15.4
    """
    powers = math.log10(_LARGEST / SMALLEST)
    return math.log2(9 * 10 ** (digits - 1) * powers + 2) + 1.0


def _step(largest: float, digits: int) -> float:
    size = abs(largest)
    return 0.0 if size < SMALLEST else 10.0 ** (math.floor(math.log10(size)) + 1 - digits)


def _coarse(value: float, largest: float, digits: int) -> float:
    if not abs(value) < _LARGEST:
        raise InputError(
            f"a number is not below {_LARGEST:g}. Scale the features.", code="answer-large"
        )
    if abs(largest) < SMALLEST:
        return 0.0
    step = _step(largest, digits)
    # Through the decimal text, so that equal numbers are equal bits.
    return float(f"{round(value / step) * step:.{max(digits, 1)}e}") + 0.0


def _coarse_array(array: npt.NDArray[Any], digits: int) -> npt.NDArray[Any]:
    largest = float(np.abs(array).max())
    flat = [_coarse(float(value), largest, digits) for value in array.ravel().tolist()]
    return np.array(flat, dtype=array.dtype).reshape(array.shape)


def _malformed(what: str) -> WireError:
    return WireError(
        f"the answer has {what}. The holder runs other code, or a broken one.",
        code="answer-malformed",
    )


@dataclass(frozen=True)
class Failure:
    """Why a holder gave no answer: our code and the type of the error, never its text.

    Attributes
    ----------
    code
        Stable code, such as ``"policy-level"`` or ``"holder-raised"``.
    kind
        ``"refused"``, ``"failed"`` or ``"timeout"``.
    error
        Type of the exception behind it, empty when there was none.
    numbers
        Numbers by name that depend on no record: what was spent, asked and left of a budget.
    """

    code: str
    kind: str = "failed"
    error: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)


def encode_reply(reply: Answer | Failure) -> bytes:
    """Turn a holder's reply into bytes."""
    if isinstance(reply, Failure):
        scalars: dict[str, Scalar] = {"code": reply.code, "error": reply.error}
        scalars |= {k: v for k, v in reply.numbers.items() if _is_number(v) and k not in scalars}
        return encode(Message("failure", reply.kind, scalars))
    return encode(Message("answer", "answer", reply.scalars, reply.arrays))


def decode_reply(data: bytes) -> Answer | Failure:
    """Read a holder's reply."""
    message = decode(data)
    if message.type == "answer":
        return Answer(message.arrays, message.scalars)
    code, error = message.scalars.get("code"), message.scalars.get("error")
    if message.type != "failure" or not isinstance(code, str) or not isinstance(error, str):
        raise WireError("the reply is neither an answer nor a failure.", code="wire-format")
    numbers = {k: float(v) for k, v in message.scalars.items() if _is_number(v)}
    return Failure(code, message.kind, error, numbers)


def _is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


CHARGED = "charged_mu"
"""Name under which the answer to a release says what it was charged; 0 for a stored one."""


def with_charge(stored: bytes, mu: float) -> bytes:
    """A stored answer, with what this time was charged for it.

    Not part of what is stored: that stays the same bytes for ever.
    """
    message = decode(stored)
    return encode(replace(message, scalars={**message.scalars, CHARGED: mu}))
