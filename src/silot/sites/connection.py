"""The asker's side: a runtime whose parties are sites, over a wire that may lose messages."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeGuard, TypeVar

from ..errors import HolderError, MismatchError, SilotError, WireError, nature_of
from ..federation.answer import WAITING, Answer, Failure, decode_reply, encode_reply
from ..federation.exchange import Limits, Unreached, exchange
from ..federation.message import Buffer
from ..federation.protocol import Protocol
from ..federation.result import RunResult
from ..federation.run import Clock, Progress, Reply, run
from ..federation.sealed import Sealed
from .authority import Member, Role
from .credential import Credential, Identity
from .journal import Journal, key_of
from .site import make_hello, raise_refusal, read_credential

B = TypeVar("B", bound=RunResult)

# Seconds of the first try, and bytes a second of a wire that is slow.
PATIENCE = 5.0
_SLOW = 1e6
# Bytes above which a reply cannot be a failure, and needs no decoding to tell.
_LARGEST_FAILURE = 1 << 16

Carry = Callable[[str, bytes, float], bytes]
"""Brings bytes to a site and its reply back, within some seconds; ``Unreached`` if it cannot."""


class Sites:
    """Sites by name, asked over a wire: a runtime, and a federation of its own.

    Every question is signed in the name of who asks and locked for its site, every answer the
    other way round: whoever carries them learns sizes and times. A site repeats its answers, so a
    message that was lost is sent again and nothing is charged twice.

    Parameters
    ----------
    identity
        Asker.
    carry
        The wire.
    names
        Of the sites.
    limits
        How long to wait, how often to try, how many at once.
    journal
        Keeps replies, so that a run that stopped can be resumed.
    run
        Name of the run; by default a fresh one.
    """

    def __init__(
        self,
        identity: Identity,
        carry: Carry,
        names: Collection[str],
        *,
        limits: Limits | None = None,
        journal: Journal | None = None,
        run: str = "",
    ) -> None:
        self._identity, self._carry, self._names = identity, carry, tuple(names)
        self._limits = Limits() if limits is None else limits
        self._journal = journal
        self.asker = identity.member().name
        self.run_name = run or os.urandom(16).hex()
        self._round = 0
        self._credentials: dict[str, Credential] = {}
        self._cancelled = threading.Event()
        # How often each site was asked each message. A second time is another question, which a
        # site answers from its memory and charges nothing for.
        self._times = Counter[bytes]()
        self._absences: dict[tuple[str, bytes, int], Failure] = {}
        self._notes: dict[tuple[str, bytes], bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites."""
        return self._names

    def run(
        self, protocol: Protocol[B], *, progress: Callable[[Progress], None] | None = None
    ) -> B:
        """Run a protocol and return its result with its cost and transcript."""
        return run(protocol, self, progress=progress)

    def settle(self) -> None:
        """Wait until all replies are on the disk, or raise a ``FileError``."""
        if self._journal is not None:
            self._journal.settle()

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel the run, from any thread: it sends no more questions."""
        self._cancelled.set()

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Send each message to its site and collect the replies, except those in the journal."""
        self._keep_absences()
        replies = self._exchange(messages, clock, self._limits, self._cancelled)
        self._check_cancelled()
        return replies

    def exchange_until(
        self,
        messages: Mapping[str, bytes],
        clock: Clock,
        *,
        seconds: float,
        over: threading.Event,
        failed: threading.Event,
    ) -> Mapping[str, Reply | Failure]:
        """Exchange as ``exchange`` does, with this many seconds for an answer.

        Parameters
        ----------
        over
            Once set, no more replies are waited for.
        failed
            Set once a site gave no answer.
        """
        limits = replace(self._limits, deadline=seconds)
        replies = self._exchange(messages, clock, limits, _Either(over, self._cancelled), failed)
        self._check_cancelled()
        return replies

    def _note_absences(
        self,
        messages: Mapping[str, bytes],
        replies: Mapping[str, Reply | Failure],
        times: Mapping[str, int] | None = None,
    ) -> None:
        for name, reply in replies.items():
            if isinstance(reply, Failure) and reply.kind != WAITING:
                time_ = self._count(name, messages[name]) if times is None else times[name]
                self._absences[name, messages[name], time_] = reply

    def _keep_absences(self) -> None:
        """Keep the failures after which the run went on, so that it goes the same way if resumed.

        The last failures are not kept until then, because they may have ended the run.
        """
        if self._journal is not None:
            for (name, message, time_), failure in self._absences.items():
                self._journal.keep(name, message, encode_reply(failure), time_)
        self._absences.clear()

    def find_kept(self, name: str, message: bytes) -> bytes | None:
        """Return what was kept of a site, or of the coordinator."""
        if self._journal is None:
            return self._notes.get((name, message))
        return self._journal.find(name, message)

    def is_kept(self, name: str, message: bytes) -> bool:
        """Return whether the journal has the reply to a message that would be sent now."""
        time_ = self._times[key_of(name, message)]
        return self._journal is not None and self._journal.has(name, message, time_)

    def keep(self, name: str, message: bytes, reply: bytes) -> None:
        """Keep what the coordinator did itself, as replies are."""
        if self._journal is None:
            self._notes[name, message] = reply
        else:
            self._journal.keep(name, message, reply)
            self.settle()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            # Raised, because a protocol that can do without a site would go on.
            raise HolderError(
                "the run was cancelled before all sites answered.", code="run-cancelled"
            )

    def _exchange(
        self,
        messages: Mapping[str, bytes],
        clock: Clock,
        limits: Limits,
        cancelled: threading.Event,
        failed: threading.Event | None = None,
    ) -> Mapping[str, Reply | Failure]:
        round_, self._round = self._round, self._round + 1
        journal = self._journal
        self.settle()
        errors: list[SilotError] = []
        times = {name: self._count(name, message) for name, message in messages.items()}
        late, over = Counter[str](), threading.Event()

        def ask(name: str, message: bytes, seconds: float) -> Buffer | Failure:
            kept = None if journal is None else journal.find(name, message, times[name])
            if kept is not None:
                return kept if _is_answer(kept) else _to_failure(kept)
            # A site that died would otherwise keep the run until its deadline. One that computes,
            # or a slow wire, gets twice the time after each try that was too short; a site repeats
            # its answer.
            patience = (PATIENCE + len(message) / _SLOW) * 2.0 ** late[name]
            run = f"{self.run_name}.{times[name]}" if times[name] else self.run_name
            began = time.monotonic()
            try:
                reply = self._ask(name, message, (run, round_), min(seconds, patience))
            except Unreached:
                late[name] += time.monotonic() - began > 0.5 * patience
                raise
            if not _is_answer(reply):
                _check_lasting(reply, failed)
                return reply
            try:
                # A reply that comes too late is not kept: the run went on without it.
                if journal is not None and not over.is_set():
                    journal.keep(name, message, reply, times[name])
            except SilotError as error:
                errors.append(error)
                raise
            return reply

        replies = exchange(messages, ask, clock, limits, cancelled)
        over.set()
        self._note_absences(messages, replies, times)
        if errors:
            raise errors[0]
        if journal is not None:
            # Once for all sites, because it takes longer than everything else in a round.
            journal.settle(wait=False)
        return replies

    def _count(self, name: str, message: bytes) -> int:
        """Count a message to a site, and return how often it was sent before."""
        key = key_of(name, message)
        self._times[key] += 1
        return self._times[key] - 1

    def about(self, name: str, seconds: float | None = None) -> About:
        """Return what a site says of itself, by default within the deadline of an answer.

        Raises a ``MismatchError`` if it refused or is not who it should be, and a ``HolderError``
        if it cannot be reached.
        """
        sealed = self._seal(name, b"", (self.run_name, 0))
        began = datetime.now(UTC)
        answer, until = self._deliver(name, sealed, seconds or self._limits.deadline or 60.0)
        return About.of(name, answer.facts, until=until, sent=began, answered=datetime.now(UTC))

    def _ask(
        self, name: str, message: bytes, place: tuple[str, int], seconds: float
    ) -> Buffer | Failure:
        try:
            answer, _ = self._deliver(name, self._seal(name, message, place), seconds)
        except SilotError as error:
            return Failure(error.code, "failed", type(error).__name__)
        return answer.reply

    def _seal(self, name: str, message: bytes, place: tuple[str, int]) -> Sealed:
        return Sealed(
            kind="question", author=self.asker, question=message, facts={"holder": name},
            run=place[0], round=place[1],
        )  # fmt: skip

    def _deliver(self, name: str, question: Sealed, seconds: float) -> tuple[Sealed, datetime]:
        """Return the answer to a question, its writer verified, and when the writer expires."""
        credential = self._credentials.get(name)
        if credential is None:
            credential = read_credential(self._carry(name, make_hello(), seconds))
            _check_writer(self._identity.verify(credential), name)
            self._credentials[name] = credential
        message = bytes(self._identity.write(question, credential.key))
        # In a list, from which the reply is taken: it may be large, and no copy must stay here.
        data = [self._carry(name, message, seconds)]
        try:
            raise_refusal(data[0])
            answer, _, member = self._identity.read(data.pop(), ["answer"])
        except SilotError:
            # The site may have been started anew with another key.
            del self._credentials[name]
            raise
        _check_writer(member, name)
        expected = (question.run, question.round, question.answers)
        if (answer.run, answer.round, answer.facts.get("answers")) != expected:
            raise MismatchError(f"{name!r} answered a different question.", code="answer-question")
        return answer, member.until


# Facts that a site may state, and characters of one and of its version.
_FACTS = ("schema", "schema_name", "paused", "stopped")
_LONGEST, _LONGEST_VERSION = 200, 40


@dataclass(frozen=True)
class About:
    """What a site says of itself: short, plain, and never more than was said."""

    name: str
    """In its certificate."""
    silot: str
    """Its version, and the commit where that is not a release."""
    wire: object
    """Its version of messages."""
    clock: float
    """Seconds by which its clock is ahead."""
    until: datetime
    """When its certificate expires."""
    facts: Mapping[str, str | bool]
    """Other facts, such as the hash of its schema."""

    @classmethod
    def of(
        cls,
        name: str,
        said: Mapping[str, Any],
        *,
        until: datetime,
        sent: datetime,
        answered: datetime,
    ) -> About:
        """Return what a site said between two moments here, or raise a ``WireError``."""
        try:
            ahead = (datetime.fromisoformat(str(said["clock"])) - sent).total_seconds()
        except (KeyError, ValueError, TypeError):
            raise WireError(
                f"the statement of {name!r} about itself has no time. The site runs other or "
                "faulty code.",
                code="wire-format",
            ) from None
        facts = {key: said[key] for key in _FACTS if key in said and _is_plain(said[key])}
        # The site read its clock half way between the two moments, as far as can be known.
        clock = ahead - (answered - sent).total_seconds() / 2
        version = str(said.get("silot", ""))[:_LONGEST_VERSION]
        return cls(name, version, said.get("wire"), clock, until, facts)


class _Either(threading.Event):
    """Set once either is."""

    def __init__(self, *events: threading.Event) -> None:
        super().__init__()
        self._events = events

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._events)


def _check_writer(member: Member, name: str) -> None:
    if member.role is not Role.SITE or member.name != name:
        raise MismatchError(
            f"the party that answers for {name!r} has the certificate of {member.role} "
            f"{member.name!r}. Do not use its answers; inform the coordinator of the project.",
            code="certificate-name",
        )


def _is_plain(fact: object) -> bool:
    """Return whether a fact can be shown: a site that was broken into may say anything."""
    if isinstance(fact, str):
        return len(fact) <= _LONGEST and fact.isprintable()
    return isinstance(fact, bool)


def _to_failure(reply: bytes) -> Buffer | Failure:
    decoded = decode_reply(reply)
    return decoded if isinstance(decoded, Failure) else reply


def _check_lasting(reply: Buffer | Failure, failed: threading.Event | None) -> None:
    """Raise ``Unreached`` where a site did not answer and asking it again may help.

    A lock passes by itself, and a full disk may get room, so such a site is asked again until the
    deadline; not where others compute with it, who must know that it ``failed``.
    """
    if failed is not None:
        failed.set()
        return
    with suppress(WireError):
        failure = reply if isinstance(reply, Failure) else decode_reply(reply)
        if isinstance(failure, Failure) and nature_of(failure.code) == "passes":
            raise Unreached(failure.code)


def _is_answer(reply: Buffer | Failure) -> TypeGuard[Buffer]:
    """Return whether a reply is worth keeping: a site that refused or waited is asked again."""
    if isinstance(reply, Failure):
        return False
    try:
        return len(reply) > _LARGEST_FAILURE or isinstance(decode_reply(reply), Answer)
    except WireError:
        return False
