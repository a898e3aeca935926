"""A run as one party saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..distances.questions.distances import Describe, DistanceTo, Interpolate, Moments
from ..distances.questions.labelled import InterpolateByClass
from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import COORDINATOR
from ..federation.question import Question
from ..federation.transcript import Transcript
from ._evidence import Array, Evidence, Form

# Protocols in which the coordinator may have records of its own beside several holders.
_WITH_OWN = ("pooled-trianglewad", "records", "contributions")


@dataclass(frozen=True)
class Seen:
    """One question, and the answer to it where there is one."""

    round: int
    holder: str
    question: Question
    answer: Answer | None


@dataclass(frozen=True)
class Size:
    """Length of one message, and when it travelled.

    ``kind`` is what the public code of the method sends there; the content stays unread.
    """

    round: int
    holder: str
    direction: str
    seconds: float
    size: int
    kind: str


EAVESDROPPER = "eavesdropper"
"""Whoever sees that messages travel and how long they are, and cannot open them."""


@dataclass(frozen=True)
class View:
    """What one party saw of a run.

    Attributes
    ----------
    viewpoint
        ``"coordinator"``, the name of a holder, several of them with commas between, who put
        together what they saw, or ``"eavesdropper"``.
    protocol, parameters
        Public options of the run.
    seen
        Exchanges it took part in.
    holders
        All holders of the run.
    refused
        How many of the questions it saw were refused or failed.
    level
        Level of the finest answer it saw, ``None`` where it saw none.
    sizes
        Lengths and times of all messages, for an eavesdropper only.
    """

    viewpoint: str
    protocol: str
    parameters: Mapping[str, Scalar]
    seen: tuple[Seen, ...] = field(repr=False)
    holders: tuple[str, ...]
    refused: int = 0
    level: Disclosure | None = None
    sizes: tuple[Size, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, transcript: Transcript, viewpoint: str) -> View:
        """Take from a transcript what ``viewpoint`` saw; an unknown one is an ``InputError``."""
        names = dict.fromkeys(entry.holder for entry in transcript.entries)
        holders = tuple(name for name in names if name != COORDINATOR)
        parties = parties_of(viewpoint)
        known = (COORDINATOR, EAVESDROPPER, *holders)
        unknown = [name for name in parties if name not in known]
        if unknown or not parties or (EAVESDROPPER in parties and len(parties) > 1):
            raise InputError(
                f"viewpoint is {viewpoint!r}; give {COORDINATOR!r}, {EAVESDROPPER!r} or holders "
                f"of the run, several with commas between: {', '.join(holders) or 'it has none'}.",
                code="audit-viewpoint",
            )
        if parties == (EAVESDROPPER,):
            return cls(viewpoint, transcript.protocol, {}, (), holders, sizes=_sizes(transcript))
        if COORDINATOR in parties:
            entries = transcript.entries
        else:
            entries = tuple(one for one in transcript.entries if one.holder in parties)
        replies = {
            (entry.round, entry.holder): entry.open()
            for entry in entries
            if entry.direction == "received"
        }
        seen: list[Seen] = []
        refused = 0
        level: Disclosure | None = None
        for entry in entries:
            question = entry.open() if entry.direction == "sent" else None
            if isinstance(question, Question):
                reply = replies.get((entry.round, entry.holder))
                answer = reply if isinstance(reply, Answer) else None
                refused += isinstance(reply, Failure)
                if answer is not None:
                    level = question.level if level is None else max(level, question.level)
                seen.append(Seen(entry.round, entry.holder, question, answer))
        return cls(
            viewpoint, transcript.protocol, transcript.parameters, tuple(seen), holders, refused,
            level,
        )  # fmt: skip

    @property
    def parties(self) -> tuple[str, ...]:
        """Who looks."""
        return parties_of(self.viewpoint)

    @property
    def central(self) -> bool:
        """Whether the coordinator is among them, who saw every message."""
        return COORDINATOR in self.parties

    @property
    def targets(self) -> tuple[str, ...]:
        """Parties whose records are attacked."""
        others = tuple(name for name in self.holders if name not in self.parties)
        if self.central or self.parties == (EAVESDROPPER,):
            return others
        # The coordinator has records of its own where a holder alone makes no pair of sides.
        alone = len(self.holders) == len(self.parties) == 1
        buyer = self.protocol in _WITH_OWN or alone
        return (*others, COORDINATOR) if buyer else others

    def about(self, holder: str) -> tuple[Seen, ...]:
        """Exchanges with one holder."""
        return tuple(item for item in self.seen if item.holder == holder)

    def records(self, holder: str) -> int | None:
        """Number of records, where the holder told it."""
        for item in self.about(holder):
            if isinstance(item.question, Describe) and item.answer is not None:
                value = item.answer.optional_number("records")
                return None if value is None else int(value)
        return None

    def uniform(self, holder: str) -> bool:
        """Whether the holder said that its weights are uniform."""
        return any(
            isinstance(item.question, Describe)
            and item.answer is not None
            and item.answer.scalars.get("uniform") is True
            for item in self.about(holder)
        )

    def moments(self, holder: str) -> tuple[Array, Array] | None:
        """Mean and covariance, where the holder told them."""
        for item in self.about(holder):
            if isinstance(item.question, Moments) and item.answer is not None:
                return item.answer.array("mean", ndim=1), item.answer.array("covariance", ndim=2)
        return None


def parties_of(viewpoint: str) -> tuple[str, ...]:
    """Names of those who look together."""
    return tuple(dict.fromkeys(name for part in viewpoint.split(",") if (name := part.strip())))


def _sizes(transcript: Transcript) -> tuple[Size, ...]:
    found: list[Size] = []
    for one in transcript.entries:
        question = one.open() if one.direction == "sent" else None
        kind = question.kind if isinstance(question, Question) else ""
        found.append(Size(one.round, one.holder, one.direction, one.seconds, one.size, kind))
    return tuple(found)


def read_interpolants(item: Seen, mean: Array | None) -> list[Evidence]:
    """Interpolants of one exchange."""
    question, answer = item.question, item.answer
    if answer is None:
        return []
    if type(question) is Interpolate:
        used = question.reference_weights > 0
        return [
            Evidence(
                answer.array("atoms", ndim=2),
                _normal(answer.array("weights", ndim=1)),
                question.reference[used],
                _normal(question.reference_weights[used]),
                question.t,
                form_of(question),
                p=question.p,
                round=item.round,
                whole=answer.scalars.get("geodesic") is True,
                distance=answer.optional_number("distance"),
                mean=mean,
            )
        ]
    if isinstance(question, InterpolateByClass):
        return _by_class(item, question, answer)
    return []


def form_of(question: Interpolate) -> Form:
    """What an interpolant is supported on."""
    if question.interpolation == "exact":
        return "pairs"
    return "cells" if question.on_reference else "rows"


def _by_class(item: Seen, question: InterpolateByClass, answer: Answer) -> list[Evidence]:
    atoms, masses = answer.array("atoms", ndim=2), answer.array("masses", ndim=1)
    found: list[Evidence] = []
    for code in range(len(masses)):
        there = (question.target_codes == code) & (question.target_weights > 0)
        if masses[code] <= 0 or not there.any():
            continue
        weights = _normal(question.target_weights[there])
        found.append(
            Evidence(
                atoms[there],
                weights,
                question.target[there],
                weights,
                question.t,
                "cells",
                round=item.round,
                group=code,
                mass=float(masses[code]),
            )
        )
    return found


def told_distances(view: View, holder: str) -> list[tuple[Array, Array, float]]:
    """References, their weights, and the holder's distance to them."""
    found: list[tuple[Array, Array, float]] = []
    for item in view.about(holder):
        if not isinstance(item.question, DistanceTo | Interpolate) or item.answer is None:
            continue
        told = item.answer.optional_number("distance")
        if told is not None and item.question.p == 2:
            found.append((item.question.reference, item.question.reference_weights, told))
    return found


def record_width(embedding: str, columns: int) -> int:
    """Features of a record whose vector with label coordinates has so many columns."""
    if embedding == "none":
        return columns
    if embedding == "full":
        return round((columns + 1) ** 0.5) - 1
    return columns // 3


def _normal(weights: Array) -> Array:
    return weights / np.sum(weights)
