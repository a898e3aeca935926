"""What comes back from a holder: an answer, or a failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ..errors import SilotError, WireError
from .message import Buffer, Message, Scalar, decode, encode

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """Named arrays and scalars, nothing else."""

    arrays: Mapping[str, npt.NDArray[Any]] = field(
        default_factory=dict[str, npt.NDArray[Any]], repr=False
    )
    scalars: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    def array(
        self, name: str, *, ndim: int, columns: int | None = None, single: bool = False
    ) -> Array:
        """Return a finite float64 array of the answer, or raise a ``WireError``.

        A ``single`` one travels as float32.
        """
        value = self.arrays.get(name)
        dtype = np.float32 if single else np.float64
        if value is None or value.dtype != dtype or value.ndim != ndim or 0 in value.shape:
            raise build_malformed_error(f"no {dtype.__name__} array {name!r} with {ndim} axes")
        if columns is not None and value.shape[-1] != columns:
            raise build_malformed_error(
                f"array {name!r} with {value.shape[-1]} columns, not {columns}"
            )
        if not np.isfinite(value).all():
            raise build_malformed_error(f"array {name!r} with values that are not finite")
        return value.astype(np.float64, copy=False)

    def number(self, name: str) -> float:
        """Return a finite non-negative number of the answer, or raise a ``WireError``."""
        value = self.optional_number(name)
        if value is None:
            raise build_malformed_error(f"no number {name!r}")
        return value

    def optional_number(self, name: str) -> float | None:
        """Return a number as ``number`` does, ``None`` when the holder did not send it."""
        value = self.scalars.get(name)
        if value is None:
            return None
        if isinstance(value, bool | str) or not np.isfinite(value) or value < 0:
            raise build_malformed_error(f"{name!r} that is not a finite number of zero or more")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a truth value of the answer, or raise a ``WireError``."""
        value = self.scalars.get(name)
        if not isinstance(value, bool):
            raise build_malformed_error(f"no truth value {name!r}")
        return value


def build_malformed_error(what: str) -> WireError:
    """Build the error of an answer that has what no answer may have."""
    return WireError(
        f"the answer has {what}. The holder runs other or faulty code.",
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
        """Keep the parts of an exception that may leave a party: our code and its type.

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


def decode_reply(data: Buffer, *, align: bool = True) -> Answer | Failure:
    """Read a holder's reply; ``align`` as for ``decode``."""
    message = decode(data, align=align)
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
