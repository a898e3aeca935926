"""A runtime of recorded replies: a party is what it answered before, such as in a file."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import SilotError
from .answer import Failure
from .question import Question, decode_question
from .run import Clock, Reply


@dataclass(frozen=True)
class Recorded:
    """A question that a party was asked, by its SHA-256, and what it replied."""

    name: str
    question: str = field(repr=False)
    reply: bytes = field(repr=False)


@dataclass(frozen=True)
class Waiting:
    """A question that no record answers: whose, and which exchange (from 0) of which run."""

    name: str
    message: bytes = field(repr=False)
    round: int = 0
    run: int = 0


class Unanswered(Exception):  # noqa: N818 - no error: the run goes on once there are answers
    """A run has come to questions that no record answers, or several beside one another have.

    Attributes
    ----------
    waiting
        All questions of the exchange.
    """

    def __init__(self, waiting: Sequence[Waiting]) -> None:
        super().__init__(f"exchange {waiting[0].round} has no answers")
        self.waiting = tuple(waiting)

    @property
    def messages(self) -> dict[str, bytes]:
        """The first question of each party."""
        return {each.name: each.message for each in reversed(self.waiting)}

    @property
    def round(self) -> int:
        """Which exchange of the first run, from 0."""
        return self.waiting[0].round


class Records:
    """Parties that reply what they replied before, to the very same questions.

    A protocol is deterministic, so what it asks in a round follows from the answers of the rounds
    before: run on records it gives what the run that made them would have given.

    Parameters
    ----------
    records
        Of one run.
    names
        Of all parties; by default those that have records.

    Examples
    --------
    >>> from silot.distances import direct
    >>> from silot.federation.run import run
    >>> run(direct("north", "south"), Records([], ["north", "south"]))
    Traceback (most recent call last):
    silot.federation.recorded.Unanswered: exchange 0 has no answers
    """

    def __init__(self, records: Sequence[Recorded], names: Sequence[str] | None = None) -> None:
        self._replies = {(each.name, each.question): each.reply for each in records}
        self._names = tuple(dict.fromkeys(names or [each.name for each in records]))
        self._round, self._run = 0, -1
        self._clock: Clock | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties."""
        return self._names

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """The replies to these messages; ``Unanswered`` where one of them has none."""
        if clock is not self._clock:
            # Every run has a clock of its own.
            self._clock, self._round, self._run = clock, 0, self._run + 1
        replies: dict[str, Reply | Failure] = {}
        for name, message in messages.items():
            key = name, digest_of(message)
            if key in self._replies:
                replies[name] = Reply(self._replies[key], clock())
        if len(replies) < len(messages):
            raise Unanswered(
                [Waiting(name, text, self._round, self._run) for name, text in messages.items()]
            )
        self._round += 1
        return replies


def digest_of(message: bytes) -> str:
    """SHA-256 of a message, by which records know it."""
    return hashlib.sha256(message).hexdigest()


def differing(asked: bytes, answered: bytes) -> list[str]:
    """Names of what differs between two questions, as far as they can be read.

    Examples
    --------
    >>> from silot.federation.question import encode_question
    >>> from silot.distances.sketches.questions import CountRecords
    >>> one, two = (encode_question(CountRecords(privacy_mu=mu)) for mu in (0.1, 0.2))
    >>> differing(one, two)
    ['privacy_mu']
    """
    try:
        first, second = decode_question(asked), decode_question(answered)
    except SilotError:
        return ["form"]
    if first.kind != second.kind:
        return ["kind"]
    names = [item.name for item in dataclasses.fields(first)]
    return [name for name in names if not _same(first, second, name)]


def _same(first: Question, second: Question, name: str) -> bool:
    one, two = getattr(first, name), getattr(second, name)
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.tobytes() == two.tobytes()
    return bool(one == two)


__all__ = ["Recorded", "Records", "Unanswered", "Waiting", "differing", "digest_of"]
