"""A run as one party saw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..distances.questions import Describe, DistanceTo, Interpolate, Moments
from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import COORDINATOR
from ..federation.question import Question
from ..federation.transcript import Entry, Transcript
from ._evidence import Array

Q = TypeVar("Q", bound=Question)

# Protocols in which the coordinator may have records of its own beside several holders.
_WITH_OWN = ("pooled-trianglewad", "records", "contributions")


@dataclass(frozen=True)
class Seen:
    """One question, and the answer to it where there is one."""

    round: int
    holder: str
    question: Question
    answer: Answer | None
    refused: bool = False


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
    sizes
        Lengths and times of all messages, for an eavesdropper only.
    """

    viewpoint: str
    protocol: str
    parameters: Mapping[str, Scalar]
    seen: tuple[Seen, ...] = field(repr=False)
    holders: tuple[str, ...]
    sizes: tuple[Size, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, transcript: Transcript, viewpoint: str) -> View:
        """Take from a transcript what ``viewpoint`` saw; an unknown one is an ``InputError``."""
        holders = tuple(
            dict.fromkeys(one.holder for one in transcript.entries if one.holder != COORDINATOR)
        )
        parties = _checked_parties(viewpoint, holders)
        if parties == (EAVESDROPPER,):
            return cls(viewpoint, transcript.protocol, {}, (), holders, tuple(_sizes(transcript)))
        mine = [
            one for one in transcript.entries if COORDINATOR in parties or one.holder in parties
        ]
        return cls(
            viewpoint, transcript.protocol, transcript.parameters, tuple(_exchanges(mine)), holders
        )

    @property
    def refused(self) -> int:
        """How many of the questions it saw were refused or failed."""
        return sum(item.refused for item in self.seen)

    @property
    def level(self) -> Disclosure | None:
        """Level of the finest answer it saw, ``None`` where it saw none."""
        levels = [item.question.level for item in self.seen if item.answer is not None]
        return max(levels, default=None)

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

    def answered(self, holder: str, *kinds: type[Q]) -> list[tuple[Q, Answer]]:
        """Questions of these kinds that the holder answered, with the answers."""
        return [
            (item.question, item.answer)
            for item in self.about(holder)
            if isinstance(item.question, kinds) and item.answer is not None
        ]

    def records(self, holder: str) -> int | None:
        """Number of records, where the holder told it."""
        for _, answer in self.answered(holder, Describe):
            value = answer.optional_number("records")
            return None if value is None else int(value)
        return None

    def uniform(self, holder: str) -> bool:
        """Whether the holder said that its weights are uniform."""
        told = self.answered(holder, Describe)
        return any(answer.scalars.get("uniform") is True for _, answer in told)

    def moments(self, holder: str) -> tuple[Array, Array] | None:
        """Mean and covariance, where the holder told them."""
        for _, answer in self.answered(holder, Moments):
            return answer.array("mean", ndim=1), answer.array("covariance", ndim=2)
        return None


def parties_of(viewpoint: str) -> tuple[str, ...]:
    """Names of those who look together."""
    return tuple(dict.fromkeys(name for part in viewpoint.split(",") if (name := part.strip())))


def _checked_parties(viewpoint: str, holders: tuple[str, ...]) -> tuple[str, ...]:
    parties = parties_of(viewpoint)
    known = {COORDINATOR, EAVESDROPPER, *holders}
    alone = EAVESDROPPER not in parties or len(parties) == 1
    if not parties or not alone or not known.issuperset(parties):
        raise InputError(
            f"viewpoint is {viewpoint!r}; give {COORDINATOR!r}, {EAVESDROPPER!r} or holders "
            f"of the run, several with commas between: {', '.join(holders) or 'it has none'}.",
            code="audit-viewpoint",
        )
    return parties


def _asked(entry: Entry) -> Question | None:
    question = entry.open() if entry.direction == "sent" else None
    return question if isinstance(question, Question) else None


def _exchanges(entries: Sequence[Entry]) -> Iterator[Seen]:
    replies = {
        (entry.round, entry.holder): entry.open()
        for entry in entries
        if entry.direction == "received"
    }
    for entry in entries:
        question = _asked(entry)
        if question is not None:
            reply = replies.get((entry.round, entry.holder))
            answer = reply if isinstance(reply, Answer) else None
            yield Seen(entry.round, entry.holder, question, answer, isinstance(reply, Failure))


def _sizes(transcript: Transcript) -> Iterator[Size]:
    for one in transcript.entries:
        question = _asked(one)
        kind = "" if question is None else question.kind
        yield Size(one.round, one.holder, one.direction, one.seconds, one.size, kind)


def told_distances(view: View, holder: str) -> list[tuple[Array, Array, float]]:
    """References, their weights, and the holder's distance to them."""
    found: list[tuple[Array, Array, float]] = []
    for question, answer in view.answered(holder, DistanceTo, Interpolate):
        told = answer.optional_number("distance")
        if told is not None and question.p == 2:
            found.append((question.reference, question.reference_weights, told))
    return found


def record_width(embedding: str, columns: int) -> int:
    """Features of a record whose vector with label coordinates has so many columns."""
    if embedding == "none":
        return columns
    if embedding == "full":
        return round((columns + 1) ** 0.5) - 1
    return columns // 3
