"""What a question is, and how it travels.

A question is data: the same object is sent over any runtime. It says itself what it needs
(``on``), how detailed its answer is (``level``) and what it computes: no
party knows any question by name.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..data.measure import Embedding
from ..errors import InputError, WireError
from .answer import Answer, Failure
from .disclosure import Disclosure
from .message import Message, Scalar, decode, encode

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Names = npt.NDArray[np.str_]
# Models, in single precision.
Singles = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Text = npt.NDArray[np.uint8]
"""A text as UTF-8, for what is too long for a scalar."""

Subject = Literal["records", "evaluation", "model"]
"""What a party has that a question may be about."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Base of all questions.

    Attributes
    ----------
    embedding
        Label coordinates the holder adds to its records first (``"none"`` for records alone).
    """

    kind: ClassVar[str] = ""
    """Its name on the wire, in policies and in ledgers."""

    on: ClassVar[Subject] = "records"
    """What it is about. Evaluation records are shown to questions about them, and to no other."""

    level: ClassVar[Disclosure] = Disclosure.RECORD
    """The most detailed level that its answer discloses."""

    embedding: Embedding = "none"

    @property
    def key(self) -> str:
        """SHA-256 of the question, by which caches and ledgers identify it."""
        return hashlib.sha256(encode_question(self)).hexdigest()

    @property
    def lasts(self) -> bool:
        """Whether its answer waits for other parties: whoever else asks is answered meanwhile."""
        return False

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        """Answer from a holder's (embedded) points, its weights, and the names of its labels."""
        raise InputError(f"{type(self).__name__} is not a question.", code="question-unknown")


class Answerer(Protocol):
    """Something that answers questions at once: the coordinator's own measure."""

    def answer(self, question: Question) -> Answer | Failure:
        """Answer a question."""
        ...


_KINDS: dict[str, type[Question]] = {}


def register(*questions: type[Question]) -> None:
    """Make kinds of questions known to the codec and to policies."""
    _KINDS.update({question.kind: question for question in questions})


def question_kind(name: str) -> type[Question] | None:
    """Return the kind of questions of a name, if silot knows it."""
    return _KINDS[name] if name in _KINDS else question_kinds().get(name)


def question_kinds() -> Mapping[str, type[Question]]:
    """Return all kinds of questions by name.

    A party imports the questions that it receives. Here every module or package of silot that is
    called ``questions`` is imported, in whatever room it lies.
    """
    _import_questions(__name__.partition(".")[0])
    return dict(sorted(_KINDS.items()))


def _import_questions(package: str) -> None:
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        if module.name.endswith(".questions"):
            import_module(module.name)
        elif module.ispkg:
            _import_questions(module.name)


def encode_question(question: Question) -> bytes:
    """Turn a question into bytes."""
    scalars: dict[str, Scalar] = {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for item in dataclasses.fields(question):
        value = cast("object", getattr(question, item.name))
        if isinstance(value, np.ndarray):
            arrays[item.name] = cast("npt.NDArray[Any]", value)
        else:
            scalars[item.name] = cast("Scalar", value)
    return encode(Message("question", question.kind, scalars, arrays))


def decode_question(data: bytes) -> Question:
    """Read a question; a kind, field or type silot does not know is a ``WireError``."""
    message = decode(data)
    question_class = question_kind(message.kind)
    if message.type != "question" or question_class is None:
        raise WireError("the message is not a question silot knows.", code="question-unknown")
    values: dict[str, object] = {**message.scalars, **message.arrays}
    expected = {item.name: _type_name(item.type) for item in dataclasses.fields(question_class)}
    if set(values) != set(expected):
        raise WireError(
            f"a {message.kind!r} question has fields that do not fit it.", code="question-fields"
        )
    for name, kind in expected.items():
        if not _fits(values[name], kind):
            raise WireError(
                f"field {name!r} of a {message.kind!r} question has the wrong type.",
                code="question-fields",
            )
    return question_class(**cast("dict[str, Any]", values))


def _type_name(kind: object) -> str:
    """Return the declared type of a field, also where annotations are deferred."""
    if isinstance(kind, str):
        return kind
    arrays: dict[str, object] = {
        "Array": Array, "Codes": Codes, "Singles": Singles, "Bytes": Bytes
    }  # fmt: skip
    return next(
        (name for name, alias in arrays.items() if alias == kind), getattr(kind, "__name__", "")
    )


_DTYPES = {
    "Array": np.dtype(np.float64),
    "Codes": np.dtype(np.int64),
    "Singles": np.dtype(np.float32),
    "Text": np.dtype(np.uint8),
    "Bytes": np.dtype(np.uint8),
}


def _fits(value: object, kind: str) -> bool:
    if kind in _DTYPES:
        return isinstance(value, np.ndarray) and (
            cast("npt.NDArray[Any]", value).dtype == _DTYPES[kind]
        )
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)
