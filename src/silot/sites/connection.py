"""The coordinator's side: a runtime whose parties are sites, over a wire that may lose messages."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from ..errors import HolderError, InputError, MismatchError, SilotError, WireError
from ..federation.answer import WAITING, Answer, Failure, decode_reply, encode_reply
from ..federation.exchange import Limits, Unreached, exchange
from ..federation.protocol import Protocol
from ..federation.result import Billed, Run
from ..federation.run import Clock, Progress, Reply, run
from ..federation.sealed import Sealed
from .about import About
from .authority import Member, Role
from .credential import Credential, Identity
from .journal import Journal, note_of
from .site import hello, introduced, raise_refusal

if TYPE_CHECKING:
    from ..distances.result import Distance
    from .kit import Kit
    from .secure.distance import Simulation
    from .secure.forecast import Forecast

B = TypeVar("B", bound=Billed)

# Seconds of the first try, and bytes a second of a wire that is slow.
PATIENCE = 5.0
_SLOW = 1e6
# No failure is as long.
_LARGEST_FAILURE = 1 << 16

Carry = Callable[[str, bytes, float], bytes]
"""Brings bytes to a site and its reply back, within so many seconds; ``Unreached`` if it cannot."""


class Sites:
    """Sites by name, asked over a wire: a runtime, and a federation of its own.

    Every question is signed in the name of who asks and locked for its site, every answer the
    other way round: whoever carries them learns sizes and times. A site repeats what it told, so
    a message that was lost is asked again and nothing is charged twice.

    Parameters
    ----------
    identity
        Who asks.
    carry
        The wire.
    names
        Of the sites.
    limits
        How long to wait, how often to try, how many at once.
    journal
        Keeps replies: a run that stopped goes on where it was.
    run
        Name of the run; by default a fresh one.
    kit
        Of who asks, for secure distances.
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
        kit: Kit | None = None,
    ) -> None:
        self._identity, self._carry, self._names = identity, carry, tuple(names)
        self._limits = Limits() if limits is None else limits
        self._journal = journal
        self.asker = identity.member().name
        self.run_name = run or os.urandom(16).hex()
        self._kit = kit
        self._round = 0
        self._credentials: dict[str, Credential] = {}
        self._cancelled = threading.Event()
        # How often each site was asked each message: what it is asked a second time is another
        # question, which a site answers from its memory and charges nothing for.
        self._times = Counter[bytes]()
        self._absences: dict[tuple[str, bytes, int], Failure] = {}
        self._joint = 0
        self._noted: dict[tuple[str, bytes], bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites."""
        return self._names

    def run(
        self, protocol: Protocol[B], *, progress: Callable[[Progress], None] | None = None
    ) -> B:
        """Run a protocol and return its result with its bill and transcript."""
        return run(protocol, self, progress=progress)

    @property
    def cancelled(self) -> bool:
        """Whether the run asks nobody any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have the run ask nobody any more, from any thread."""
        self._cancelled.set()

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Send each message to its site, and collect the replies; those of before are not asked."""
        self._keep_absences()
        replies = self._exchanged(messages, clock, self._limits, self._cancelled)
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
                time_ = self._time(name, messages[name]) if times is None else times[name]
                self._absences[name, messages[name], time_] = reply

    def _keep_absences(self) -> None:
        """Keep who failed where the run went on: resumed, it goes the same way.

        What failed last is not kept until then: it may have ended the run.
        """
        if self._journal is not None:
            for (name, message, time_), failure in self._absences.items():
                self._journal.keep(name, message, encode_reply(failure), time_)
        self._absences.clear()

    def asked(
        self,
        messages: Mapping[str, bytes],
        clock: Clock,
        *,
        seconds: float,
        over: threading.Event,
        failed: threading.Event,
    ) -> Mapping[str, Reply | Failure]:
        """As ``exchange``, with so many seconds for an answer.

        Parameters
        ----------
        over
            Once set, nobody is waited for any more.
        failed
            Set once a site gave no answer.
        """
        limits = replace(self._limits, deadline=seconds)
        replies = self._exchanged(messages, clock, limits, _Either(over, self._cancelled), failed)
        self._check_cancelled()
        return replies

    def jointly(
        self, asked: Simulation, tell: Callable[[Forecast], None] | None
    ) -> tuple[Distance, Run]:
        """A secure distance, which two sites compute with one another and, of three, with us."""
        # Slow to import, and few runs are secure.
        from .computing import Computing
        from .seat import Seat

        def seat() -> Seat:
            if self._kit is None:
                raise InputError(
                    "this federation has no kit, whose certificate links would need. Use "
                    "silot.connect.",
                    code="secure-addresses",
                )
            return Seat.of(self._kit)

        place, self._joint = self._joint, self._joint + 1
        return Computing(self, asked, seat, place, tell).run()

    def kept(self, name: str, message: bytes) -> bytes | None:
        """What the journal has of a site, or of the coordinator, if there is a journal."""
        if self._journal is None:
            return self._noted.get((name, message))
        return self._journal.find(name, message)

    def is_kept(self, name: str, message: bytes) -> bool:
        """Whether the journal has what comes of a message, asked now."""
        time_ = self._times[note_of(name, message)]
        return self._journal is not None and self._journal.has(name, message, time_)

    def keep(self, name: str, message: bytes, reply: bytes) -> None:
        """Keep what the coordinator did itself, as replies are."""
        if self._journal is None:
            self._noted[name, message] = reply
        else:
            self._journal.keep(name, message, reply)
            self._journal.settle()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            # A protocol that can do without a site must not go on.
            raise HolderError(
                "the run was cancelled before all sites answered.", code="run-cancelled"
            )

    def _exchanged(
        self,
        messages: Mapping[str, bytes],
        clock: Clock,
        limits: Limits,
        cancelled: threading.Event,
        failed: threading.Event | None = None,
    ) -> Mapping[str, Reply | Failure]:
        round_, self._round = self._round, self._round + 1
        broken: list[SilotError] = []
        times = {name: self._time(name, message) for name, message in messages.items()}
        late, over = Counter[str](), threading.Event()

        def ask(name: str, message: bytes, seconds: float) -> bytes | Failure:
            kept = None if self._journal is None else self._journal.find(name, message, times[name])
            if kept is not None:
                return kept if _is_answer(kept) else _failure_in(kept)
            # A site that died would else keep the run until its deadline; one that computes, or
            # a slow wire, is given twice the time once it was over, and a site repeats what it
            # told.
            patience = (PATIENCE + len(message) / _SLOW) * 2.0 ** late[name]
            run = f"{self.run_name}.{times[name]}" if times[name] else self.run_name
            began = time.monotonic()
            try:
                reply = self._asked(name, message, (run, round_), min(seconds, patience))
            except Unreached:
                late[name] += time.monotonic() - began > 0.5 * patience
                raise
            answered = _is_answer(reply)
            if failed is not None and not answered:
                failed.set()
            try:
                # What comes too late is no part of the run: it went on without.
                if self._journal is not None and answered and not over.is_set():
                    self._journal.keep(name, message, reply, times[name])
            except SilotError as error:
                broken.append(error)
                raise
            return reply

        replies = exchange(messages, ask, clock, limits, cancelled)
        over.set()
        self._note_absences(messages, replies, times)
        if broken:
            raise broken[0]
        if self._journal is not None:
            # Once for all sites: it takes longer than the rest of a round.
            self._journal.settle()
        return replies

    def _time(self, name: str, message: bytes) -> int:
        key = note_of(name, message)
        self._times[key] += 1
        return self._times[key] - 1

    def about(self, name: str, seconds: float | None = None) -> About:
        """What a site says of itself, by default within the deadline of an answer.

        Raises
        ------
        MismatchError
            It refused, or is not who it should be.
        HolderError
            It cannot be reached.
        """
        sealed = self._question(name, b"", (self.run_name, 0))
        began = datetime.now(UTC)
        answer, until = self._carried(name, sealed, seconds or self._limits.deadline or 60.0)
        return About.of(name, answer.facts, until=until, asked=began, answered=datetime.now(UTC))

    def _asked(
        self, name: str, message: bytes, place: tuple[str, int], seconds: float
    ) -> bytes | Failure:
        try:
            answer, _ = self._carried(name, self._question(name, message, place), seconds)
        except SilotError as error:
            return Failure(error.code, "failed", type(error).__name__)
        return answer.reply

    def _question(self, name: str, message: bytes, place: tuple[str, int]) -> Sealed:
        return Sealed(
            kind="question", author=self.asker, question=message, facts={"holder": name},
            run=place[0], round=place[1],
        )  # fmt: skip

    def _carried(self, name: str, question: Sealed, seconds: float) -> tuple[Sealed, datetime]:
        """The answer to a question, its writer checked."""
        credential = self._credentials.get(name)
        if credential is None:
            credential = introduced(self._carry(name, hello(), seconds))
            self._check(credential.member(self._identity.root, self._identity.revoked), name)
            self._credentials[name] = credential
        written = self._identity.write(question, credential.key)
        data = [self._carry(name, written, seconds)]
        try:
            raise_refusal(data[0])
            answer, _, member = self._identity.read(data.pop(), ["answer"])
        except SilotError:
            # It may have another key since it was started anew.
            del self._credentials[name]
            raise
        self._check(member, name)
        fits = (question.run, question.round, question.answers)
        if (answer.run, answer.round, answer.facts.get("answers")) != fits:
            raise MismatchError(
                f"{name!r} answered another question than it was asked.", code="answer-question"
            )
        return answer, member.until

    @staticmethod
    def _check(member: Member, name: str) -> None:
        if member.role is not Role.SITE or member.name != name:
            raise MismatchError(
                f"who answers for {name!r} has the certificate of {member.role} {member.name!r}. "
                "Do not use its answers; ask the coordinator of the project.",
                code="certificate-name",
            )


class _Either(threading.Event):
    """Set once either is."""

    def __init__(self, one: threading.Event, other: threading.Event) -> None:
        super().__init__()
        self._both = one, other

    def is_set(self) -> bool:
        return any(each.is_set() for each in self._both)


def _failure_in(reply: bytes) -> bytes | Failure:
    found = decode_reply(reply)
    return found if isinstance(found, Failure) else reply


def _is_answer(reply: bytes | Failure) -> TypeGuard[bytes]:
    """Whether a reply is worth keeping: whoever refused or waited is asked again."""
    if isinstance(reply, Failure):
        return False
    try:
        return len(reply) > _LARGEST_FAILURE or isinstance(decode_reply(reply), Answer)
    except WireError:
        return False


__all__ = ["Carry", "Sites"]
