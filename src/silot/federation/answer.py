"""What comes back from a holder: an answer, or a failure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ..errors import InputError, SilotError, WireError
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
        """Return a number as ``number`` does, ``None`` when the holder did not send it."""
        value = self.scalars.get(name)
        if value is None:
            return None
        if isinstance(value, bool | str) or not np.isfinite(value) or value < 0:
            raise _malformed(f"{name!r} that is not a finite number of zero or more")
        return float(value)

    def rounding(self, name: str) -> float:
        """Return how far a number, or those of an array, may be from what was computed."""
        step = self.scalars.get(STEP + name)
        if step is None:
            return 0.0
        if isinstance(step, bool | str) or not SMALLEST <= step <= _LARGEST:
            raise _malformed(f"a step of {name!r} that is none")
        # A little more than half a step: rounding is in binary.
        return 0.5000001 * step

    def flag(self, name: str) -> bool:
        """Return a truth value of the answer, or raise a ``WireError``."""
        value = self.scalars.get(name)
        if not isinstance(value, bool):
            raise _malformed(f"no truth value {name!r}")
        return value


STEP = "step_"
"""Before the name of a number: under that an answer says to what step it was rounded."""

SMALLEST = 1e-12
"""No number is told to a finer step."""

_LARGEST = 1e12
# Steps are 1, 2 or 5 times a power of ten.
_LEADING = (1.0, 2.0, 5.0)
# Certificates and variants of a number that is told: they would be numbers more.
_MORE = frozenset({"distance_lower", "target_lower", "estimate", "gap"})

BITS = math.log2(3.0 * len(_LEADING) * math.log10(_LARGEST / SMALLEST))
"""What a told number can say of one record to who knows all others: the step, and the cell.

The step is larger than what the record moves the number by, so the number is in one of two
cells, or of three where the step itself is in doubt.
"""


def round_answer(answer: Answer, moves: Mapping[str, float | Array]) -> Answer:
    """Round an answer so that no number is finer than what one record can move it by.

    Numbers are told as multiples of a step that is larger than what one record moves them by.
    Integers and truth values stay, and what would tell more of a number that is told is left out.

    Parameters
    ----------
    answer
        As it was computed.
    moves
        By name, how far one record can move a number, any number of an array, or each of them:
        then each has a step of its own, which is not told.

    Raises
    ------
    InputError
        A number that is too large (``"answer-large"``), or whose move is not known
        (``"answer-moves"``).

    Examples
    --------
    >>> answer = Answer(scalars={"distance": 1.23456, "gap": 1e-9})
    >>> round_answer(answer, {"distance": 0.012}).scalars
    {'distance': 1.24, 'step_distance': 0.02}
    """
    scalars: dict[str, Scalar] = {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, value in answer.scalars.items():
        # Whatever is not plainly no fraction is taken for one.
        if value is None or isinstance(value, bool | int | str):
            scalars[name] = value
        elif name not in _MORE:
            step = _step(moves, name)
            scalars |= {name: _coarse(float(value), step), STEP + name: step}
    for name, array in answer.arrays.items():
        arrays[name] = array
        if array.dtype.kind not in "biu" and array.size:
            bound = moves.get(name)
            if isinstance(bound, np.ndarray):
                steps = [_step({name: float(move)}, name) for move in bound.ravel()]
            else:
                step = scalars[STEP + name] = _step(moves, name)
                steps = [step] * array.size
            arrays[name] = _coarse_array(array, steps)
    return Answer(arrays, scalars)


def _step(moves: Mapping[str, float | Array], name: str) -> float:
    """Return the smallest step that is larger than what one record moves."""
    if name not in moves:
        raise InputError(
            f"how far a record moves {name!r} is not known, so it is not told.",
            code="answer-moves",
        )
    lower = max(float(moves[name]), 0.5 * SMALLEST)
    if not lower < 0.2 * _LARGEST:
        raise _too_large()
    power = 10.0 ** math.floor(math.log10(lower))
    steps = [float(f"{lead * ten:.0e}") for ten in (power, 10.0 * power) for lead in _LEADING]
    return next(step for step in steps if step > lower)


def _coarse(value: float, step: float) -> float:
    if not abs(value) < _LARGEST:
        raise _too_large()
    # Through the decimal text, so that equal numbers are equal bits.
    return float(f"{round(value / step) * step:.15g}") + 0.0


def _coarse_array(array: npt.NDArray[Any], steps: Sequence[float]) -> npt.NDArray[Any]:
    flat = [_coarse(float(v), step) for v, step in zip(array.ravel(), steps, strict=True)]
    return np.array(flat, dtype=array.dtype).reshape(array.shape)


def _too_large() -> InputError:
    return InputError(
        f"a number is not below {_LARGEST:g}. Scale the features.", code="answer-large"
    )


def _malformed(what: str) -> WireError:
    return WireError(
        f"the answer has {what}. The holder runs other code, or a broken one.",
        code="answer-malformed",
    )


WAITING = "waiting"
"""Kind of the failures that may be answers later."""


@dataclass(frozen=True)
class Failure:
    """Why a holder gave no answer: our code and the type of the error, never its text.

    Attributes
    ----------
    code
        Stable code, such as ``"policy-level"`` or ``"holder-raised"``.
    kind
        ``"refused"``, ``"failed"``, ``"timeout"``, or ``"waiting"``: a person has not decided yet.
    error
        Type of the exception behind it, empty when there was none.
    numbers
        Numbers by name that depend on no record: what was spent, asked and left of a budget.
    """

    code: str
    kind: str = "failed"
    error: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Keep of an exception what may leave a party: our code and its type.

        This is the party's boundary. Whatever went wrong, the text of the exception may quote
        records and stays here.
        """
        code = error.code if isinstance(error, SilotError) else "holder-raised"
        return cls(code, "failed", type(error).__name__)


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
    """Add to a stored answer what was charged for it this time.

    Not part of what is stored: that stays the same bytes for ever.
    """
    message = decode(stored)
    return encode(replace(message, scalars={**message.scalars, CHARGED: mu}))
