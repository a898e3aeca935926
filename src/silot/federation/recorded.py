"""A runtime of recorded replies: a party is what it answered before, such as in a release."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import SilotError
from .answer import Failure
from .message import Buffer
from .question import Question, decode_question
from .run import Clock, Reply


@dataclass(frozen=True)
class Recorded:
    """A question that a party received, by its SHA-256, and its reply."""

    name: str
    question: str = field(repr=False)
    reply: bytes = field(repr=False)


class Unanswered(Exception):  # noqa: N818 - the caller says what a missing reply means
    """A run has come to questions that no record answers.

    Attributes
    ----------
    messages
        All questions of the exchange, by party.
    """

    def __init__(self, messages: Mapping[str, bytes]) -> None:
        super().__init__(f"{', '.join(messages)} did not receive this question before")
        self.messages = dict(messages)


class Records:
    """Parties that repeat recorded replies to the same questions.

    A protocol is deterministic, so what it asks in a round follows from the answers of the rounds
    before: run on records it gives what the run that made them would have given.

    Parameters
    ----------
    records
        Of one run.

    Examples
    --------
    >>> from silot.distances import direct
    >>> from silot.federation.run import run
    >>> records = [Recorded(name, "of another question", b"") for name in ("north", "south")]
    >>> run(direct("north", "south"), Records(records))
    Traceback (most recent call last):
    silot.federation.recorded.Unanswered: north, south did not receive this question before
    """

    def __init__(self, records: Sequence[Recorded]) -> None:
        self._replies = {(record.name, record.question): record.reply for record in records}
        self._names = tuple(dict.fromkeys(record.name for record in records))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties."""
        return self._names

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Reply to these messages; ``Unanswered`` where one of them has no reply."""
        keys = {name: (name, digest_of(message)) for name, message in messages.items()}
        if not self._replies.keys() >= set(keys.values()):
            raise Unanswered(messages)
        return {name: Reply(self._replies[key], clock()) for name, key in keys.items()}


def digest_of(message: Buffer) -> str:
    """Compute the SHA-256 of a message, by which records know it."""
    return hashlib.sha256(message).hexdigest()


def differing(question: bytes, recorded: bytes) -> list[str]:
    """Name what differs between two questions, as far as they can be read.

    Examples
    --------
    >>> from silot.federation.question import encode_question
    >>> from silot.distances.sketches.questions import CountRecords
    >>> one, two = (encode_question(CountRecords(privacy_mu=mu)) for mu in (0.1, 0.2))
    >>> differing(one, two)
    ['privacy_mu']
    """
    try:
        first, second = decode_question(question), decode_question(recorded)
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


__all__ = ["Recorded", "Records", "Unanswered", "differing", "digest_of"]
