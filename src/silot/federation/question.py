"""The questions a coordinator may ask, and the computation each one stands for.

A question is data: the same object is sent over any runtime. ``compute`` is the pure
computation on the holder's arrays; the holder runs it after its policy allowed the question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError, WireError
from ..measure import Embedding
from ..transport import Interpolant, cost_matrix, exact_plan, interpolate
from ..transport import moments as moments_of
from ..transport.geodesic import Interpolation
from .answer import Answer, Failure
from .disclosure import Account, Disclosure
from .message import Message, Scalar, decode, encode

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Names = npt.NDArray[np.str_]
Bytes = npt.NDArray[np.uint8]
Text = npt.NDArray[np.uint8]
"""A text as UTF-8, for what is too long for a scalar."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Base of all questions.

    Attributes
    ----------
    embedding
        Label coordinates the holder adds to its records first (``"none"`` for records alone).
    """

    kind: ClassVar[str] = ""
    level: ClassVar[Disclosure] = Disclosure.RECORD
    account: ClassVar[Account] = Account.RECORD
    by_pairs: ClassVar[bool] = False
    """Whether it tells of pairs of features: a value one record has would single it out."""

    embedding: Embedding = "none"

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        """Answer from a holder's (embedded) points, its weights, and the names of its labels."""
        raise InputError(f"{type(self).__name__} is not a question.", code="question-unknown")

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float | Array]:
        """How far one record can move each number of an answer, and each or any of an array.

        What is not named is not told below level record.
        """
        return {}

    def accounted(self, dimension: int) -> Account:
        """How its answer is accounted for; ``dimension`` is that of the records."""
        return self.account

    def numbers(self, records: int, dimension: int) -> int:
        """How many numbers the answer tells of so many records, where that counts."""
        return 0

    def check_fields(self) -> None:
        """Raise what is wrong with its public fields, whatever the records are.

        Called before anything is counted: numbers are counted from these fields.
        """

    def drawn_from(self, seed: int) -> bool:
        """Whether all that is random in it is the public draw of a seed."""
        return True

    def coarser(self, least: int) -> Self:
        """The same question with no fewer than so many records behind what it tells."""
        return self


class Answerer(Protocol):
    """Something that answers questions at once: the coordinator's own measure."""

    def answer(self, question: Question) -> Answer | Failure:
        """Answer a question."""
        ...


@dataclass(frozen=True, kw_only=True)
class Describe(Question):
    """Size, dimension, and whether weights are uniform: what two parties need to agree."""

    kind: ClassVar[str] = "describe"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.FREE

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights[weights > 0]
        return Answer(
            scalars={
                "records": len(used),
                "dimension": points.shape[1],
                "uniform": bool(np.ptp(used) <= 1e-12 * used.max()),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Records(Question):
    """The records themselves: pooling, the baseline every protocol is compared with."""

    kind: ClassVar[str] = "records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights > 0
        return Answer({"points": points[used], "weights": weights[used]})


@dataclass(frozen=True, kw_only=True)
class Moments(Question):
    """Mean and covariance, for the Gelbrich lower bound."""

    kind: ClassVar[str] = "moments"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE
    account: ClassVar[Account] = Account.NAMED
    by_pairs: ClassVar[bool] = True

    def numbers(self, records: int, dimension: int) -> int:
        return dimension + dimension * (dimension + 1) // 2

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        found = moments_of(points, weights)
        return Answer({"mean": found.mean, "covariance": found.covariance})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        far = np.abs(points - answer.arrays["mean"]).max(axis=1)
        return {
            "mean": float((weights * far).max()),
            "covariance": float((weights * far**2).max()),
        }


@dataclass(frozen=True, kw_only=True)
class _WithReference(Question):
    """A question about a reference measure that travels with it."""

    reference: Array
    reference_weights: Array
    p: int = 2

    def _check(self, points: Array) -> None:
        if self.reference.ndim != 2 or self.reference.shape[1] != points.shape[1]:
            raise MismatchError(
                "the reference has another number of features than the records.",
                code="dimension-mismatch",
            )

    def _twice(self, move: float) -> float:
        """Where labels have coordinates, a record moves those of its class as well."""
        return move if self.embedding == "none" else 2.0 * move


@dataclass(frozen=True, kw_only=True)
class DistanceTo(_WithReference):
    """``W_p`` of the records and a reference: one number."""

    kind: ClassVar[str] = "distance-to"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.CHOSEN

    def numbers(self, records: int, dimension: int) -> int:
        return 1

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self._check(points)
        plan = exact_plan(points, self.reference, weights, self.reference_weights, p=self.p)
        return Answer(
            scalars={"distance": plan.upper, "distance_lower": plan.lower, "optimal": plan.optimal}
        )

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        share = share_of(points, weights, self.reference, p=self.p)
        return {"distance": self._twice(move_of(answer.number("distance"), share, self.p))}


@dataclass(frozen=True, kw_only=True)
class Interpolate(_WithReference):
    """An interpolating measure between the records (t = 0) and a reference (t = 1).

    With ``on_reference`` a barycentric interpolant is supported on the reference's atoms, else
    on the records. ``scalars`` asks for the distance to the reference and the displacement too.
    Every record can be computed back from the answer.
    """

    kind: ClassVar[str] = "interpolate"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    t: float
    interpolation: Interpolation = "barycentric"
    on_reference: bool = False
    scalars: bool = True

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        found = self._interpolate(points, weights)
        sent: dict[str, Scalar] = {
            "geodesic": found.geodesic,
            "optimal": found.optimal,
            "gap": found.gap,
        }
        if self.scalars:
            sent |= {
                "distance": found.distance,
                "distance_lower": found.lower,
                "displacement": found.displacement,
            }
        return Answer({"atoms": found.atoms, "weights": found.weights}, sent)

    def _interpolate(self, points: Array, weights: Array) -> Interpolant:
        self._check(points)
        return interpolate(
            points,
            self.reference,
            weights,
            self.reference_weights,
            t=self.t,
            p=self.p,
            interpolation=self.interpolation,
            support="y" if self.on_reference else "x",
        )


@dataclass(frozen=True, kw_only=True)
class _WithTarget(Interpolate):
    """An interpolant that stays with the holder, compared with a target it is sent."""

    target: Array
    target_weights: Array

    def _common(self, found: Interpolant) -> dict[str, Scalar]:
        sent: dict[str, Scalar] = {"geodesic": found.geodesic, "optimal": found.optimal}
        if self.scalars:
            sent["displacement"] = found.displacement
        return sent


@dataclass(frozen=True, kw_only=True)
class InterpolantDistance(_WithTarget):
    """``W_p`` of the interpolant and a target: one number."""

    kind: ClassVar[str] = "interpolant-distance"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.CHOSEN

    def numbers(self, records: int, dimension: int) -> int:
        return 1 + self.scalars

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        found = self._interpolate(points, weights)
        plan = exact_plan(found.atoms, self.target, found.weights, self.target_weights, p=self.p)
        sent = self._common(found)
        sent["target_distance"] = plan.upper
        sent["target_lower"] = plan.lower
        sent["optimal"] = found.optimal and plan.optimal
        return Answer(scalars=sent)

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        # A record's mass is on atoms between it and the reference, no further from any target
        # than one of these is.
        away = share_of(points, weights, self.reference, p=self.p)
        ends = max(
            share_of(points, weights, self.target, p=self.p),
            float(weights.max()) * farthest(self.reference, self.target, p=self.p),
        )
        shares = {"displacement": self.t**self.p * away, "target_distance": ends}
        return {
            name: self._twice(move_of(answer.number(name), share, self.p))
            for name, share in shares.items()
            if name in answer.scalars
        }


@dataclass(frozen=True, kw_only=True)
class InterpolantCosts(_WithTarget):
    """Pairwise costs of the interpolant's atoms and a target's.

    Costs to d + 1 known points give the atoms, and the atoms give the records.
    """

    kind: ClassVar[str] = "interpolant-costs"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        found = self._interpolate(points, weights)
        costs = cost_matrix(found.atoms, self.target, p=self.p)
        return Answer({"costs": costs, "weights": found.weights}, self._common(found))


# Costs held at once.
_COSTS = 1 << 22


def farthest(x: Array, y: Array, *, p: int = 2) -> float:
    """Largest cost of two points."""
    return share_of(x, np.ones(len(x)), y, p=p)


def share_of(points: Array, weights: Array, target: Array, *, p: int = 2) -> float:
    """Largest part of ``W_p^p`` that one record can have: its mass at the farthest of a target."""
    rows = max(_COSTS // max(len(target), 1), 1)
    return max(
        float((weights[k : k + rows] * cost_matrix(points[k : k + rows], target, p=p).max(1)).max())
        for k in range(0, len(points), rows)
    )


def move_of(distance: float, share: float, p: int) -> float:
    """How far a distance moves when so much of its p-th power goes."""
    rest = distance**p - share
    return distance - rest ** (1.0 / p) if rest > 0 else share ** (1.0 / p)


QUESTIONS: dict[str, type[Question]] = {}


def register(*questions: type[Question]) -> None:
    """Make kinds of questions known to the codec and to policies."""
    QUESTIONS.update({question.kind: question for question in questions})


register(Describe, Records, Moments, DistanceTo, Interpolate, InterpolantDistance, InterpolantCosts)


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
    known = QUESTIONS.get(message.kind)
    if message.type != "question" or known is None:
        raise WireError("the message is not a question silot knows.", code="question-unknown")
    values: dict[str, object] = {**message.scalars, **message.arrays}
    expected = {item.name: str(item.type) for item in dataclasses.fields(known)}
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
    return known(**cast("dict[str, Any]", values))


_DTYPES = {
    "Array": np.dtype(np.float64),
    "Codes": np.dtype(np.int64),
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
