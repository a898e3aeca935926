"""The embedded runtime: holders in this process, through the same bytes as deployed ones."""

from __future__ import annotations

import inspect
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol as TypingProtocol
from typing import Self, TypeVar, cast, runtime_checkable

from .._columns import matched
from ..errors import InputError, MismatchError, WireError
from ..measure import Data, Measure
from ..privacy.accounting import compose
from ..privacy.ledger import Ledger
from ..results import Run
from ..transport._check import real
from ..transport._pot import importing
from ..transport._threads import one_blas_thread
from .answer import CHARGED, Answer, Failure, decode_reply
from .disclosure import Disclosure
from .party import Holder
from .policy import Policy
from .protocol import COORDINATOR, Answers, Protocol, Questions, drive
from .question import encode_question
from .spool import Spool, Stored
from .transcript import Entry, Transcript


class Billable(TypingProtocol):
    """A result that takes the bill of the run that made it."""

    def with_run(self, run: Run) -> Self:
        """Return the result with its bill."""
        ...


@runtime_checkable
class Party(TypingProtocol):
    """Whoever answers bytes with bytes: a ``Holder``, a ``Teacher``, or a way to a distant one.

    One whose ``reply`` takes an ``asker`` too is told who asks. A way to a distant party has its
    own way to prove that.
    """

    def reply(self, message: bytes) -> bytes:
        """Answer a question."""
        ...


B = TypeVar("B", bound=Billable)

# Seconds of an answer that another thread would not make faster.
_QUICK = 0.02


@dataclass(frozen=True)
class Progress:
    """How far a run has come: exchanges done, and the most it will make."""

    protocol: str
    rounds: int
    expected_rounds: int


class LocalFederation:
    """Holders by name, in this process.

    Every question and answer is turned into bytes and back, exactly as between machines, so
    that bytes on the bill are real. Holders answer concurrently.

    Parameters
    ----------
    holders
        ``Holder`` or ``Teacher`` objects by name, or anything with their ``reply``, such as a way
        to one in another process. Data (a ``Measure``, an array or a data frame) stand for a
        holder whose data the caller owns: its policy allows everything, and its ledger is in
        memory. Columns of such data are matched by name; those of a ``Holder`` count by place.
    timeout
        Seconds a holder has for one answer; ``None`` waits. A holder that exceeds it counts as
        failed, and its computation is abandoned in the background.
    asker
        Name under which holders are asked: they count and refuse by it, and keep it.

    Raises
    ------
    InputError
        No holders, or a name that is not a non-empty text of its own.

    Examples
    --------
    >>> from silot.protocols import direct
    >>> fed = LocalFederation({"north": [[0.0, 0.0]], "south": [[3.0, 4.0]]})
    >>> round(fed.run(direct("north", "south")).value, 9)
    5.0
    """

    def __init__(
        self,
        holders: Mapping[str, Party | Data],
        *,
        timeout: float | None = None,
        asker: str = COORDINATOR,
    ) -> None:
        if not holders:
            raise InputError("a federation needs at least one holder.", code="holder-names")
        for name in holders:
            if type(name) is not str or not name or name == COORDINATOR:
                raise InputError(
                    f"{name!r} cannot name a holder: a non-empty text other than "
                    f"{COORDINATOR!r} is needed.",
                    code="holder-names",
                )
        if timeout is not None and not real(timeout, "timeout", "option-timeout") > 0:
            raise InputError(f"timeout is {timeout!r}; seconds are needed.", code="option-timeout")
        if type(asker) is not str or not asker:
            raise InputError(
                f"{asker!r} cannot name who asks: a non-empty text is needed.", code="asker-name"
            )
        self._timeout = timeout
        # What an answer took the last time.
        self._seconds = 0.0
        parties: dict[str, Party] = {}
        owned: dict[str, Measure] = {}
        for name, holder in holders.items():
            if isinstance(holder, Party):
                parties[name] = holder
            else:
                owned[name] = Measure.of(holder)
        for name, measure in matched(owned).items():
            parties[name] = Holder(measure, Policy.open(), Ledger())
        self._holders = {name: parties[name] for name in holders}
        named = {
            name: party.columns
            for name, party in self._holders.items()
            if isinstance(party, Holder) and party.columns is not None
        }
        first = min(named, default="")
        other = min((name for name in named if named[name] != named[first]), default=None)
        if other is not None:
            raise MismatchError(
                f"{first!r} and {other!r} have other columns, or the same in "
                "another order, and holders of their own are asked by place. Give all of them "
                "their columns in one order.",
                code="columns-mismatch",
            )
        self._replies = {name: _replies(party, asker) for name, party in self._holders.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the holders."""
        return tuple(self._holders)

    def run(
        self, protocol: Protocol[B], *, progress: Callable[[Progress], None] | None = None
    ) -> B:
        """Run a protocol and return its result with its bill and transcript.

        Parameters
        ----------
        protocol
            What to run; build it with a function of ``silot.protocols``.
        progress
            Called after every exchange.

        Raises
        ------
        MismatchError
            The protocol names a holder this federation does not have.
        HolderError, RefusedError
            A holder the protocol cannot do without failed or refused.
        """
        unknown = [name for name in protocol.holders if name not in self._holders]
        if unknown:
            raise MismatchError(
                f"there is no holder {unknown[0]!r}; holders are {', '.join(self._holders)}.",
                code="holder-unknown",
            )
        elapsed = _stopwatch()
        entries: list[Entry] = []
        spool = Spool()
        rounds = 0
        told: list[Disclosure] = []
        charged: dict[str, list[float]] = {}

        def exchange(questions: Questions) -> Answers:
            nonlocal rounds
            if not questions:
                return {}
            answers = self._exchange(questions, rounds, elapsed, entries, spool)
            rounds += 1
            for name, answer in answers.items():
                charged.setdefault(name, []).append(_charge(answer))
            told.extend(
                question.level
                for name, question in questions.items()
                if isinstance(answers[name], Answer)
            )
            if progress is not None:
                progress(Progress(protocol.name, rounds, protocol.expected_rounds))
            return answers

        with one_blas_thread():
            result = drive(protocol, exchange)
        transcript = Transcript(protocol.name, dict(protocol.parameters), tuple(entries))
        return result.with_run(
            Run(
                rounds=rounds,
                bytes_sent=transcript.bytes_sent,
                bytes_received=transcript.bytes_received,
                seconds=elapsed(),
                # What was told, not what might have been: a holder may have refused.
                disclosure=str(max(told, default=protocol.disclosure)),
                privacy_mu=max(map(compose, charged.values()), default=0.0),
                transcript=transcript,
            )
        )

    def _exchange(
        self,
        questions: Questions,
        round_: int,
        elapsed: Callable[[], float],
        entries: list[Entry],
        spool: Spool,
    ) -> Answers:
        """Send each question to its holder, all at once, and collect replies."""
        replies: dict[str, tuple[float, object]] = {}
        work: dict[str, Callable[[], None]] = {}
        # A transcript keeps every message: what a hundred holders are asked alike, once.
        kept: dict[bytes, tuple[bytes, bytes | Stored]] = {}
        for name in sorted(questions):
            message = encode_question(questions[name])
            if message not in kept:
                kept[message] = (message, spool.keep(message))
            message, stored = kept[message]
            entries.append(Entry(round_, name, "sent", elapsed(), stored))
            work[name] = partial(self._ask, name, message, elapsed, replies)
        late = self._worked(work)
        answers: dict[str, Answer | Failure] = {}
        for name in work:
            # What was read is not held twice: answers are views of their own.
            reply = replies.pop(name, None)
            if name in late or reply is None:
                kind = "timeout" if name in late else "failed"
                answers[name] = Failure("holder-timeout" if name in late else "holder-raised", kind)
                continue
            at, payload = reply
            if not isinstance(payload, bytes):
                # Nothing a transcript could keep or a bill could count.
                answers[name] = Failure("wire-format", "failed", type(payload).__name__)
                continue
            entries.append(Entry(round_, name, "received", at, spool.keep(payload)))
            answers[name] = _read(payload)
        return answers

    def _ask(
        self,
        name: str,
        message: bytes,
        elapsed: Callable[[], float],
        replies: dict[str, tuple[float, object]],
    ) -> None:
        # Whatever a holder's code raises is a missing reply; its text stays here.
        with suppress(Exception, SystemExit):
            # What a party of the caller's own returns need not be bytes.
            reply: object = self._replies[name](message)
            replies[name] = (elapsed(), reply)

    def _worked(self, work: Mapping[str, Callable[[], None]]) -> frozenset[str]:
        """Have everybody answer; who is late.

        One after the other where answers took no time the last time: a thread takes as long as a
        small answer, and waits for the others' interpreter lock.
        """
        started = time.perf_counter()
        # Of other parties nobody knows whether they wait for one another, or for a wire.
        here = all(type(self._holders[name]) is Holder for name in work)
        # As many at work as there are processors, or a hundred holders would hold a hundred cost
        # matrices. With a timeout all start at once, for waiting would count as theirs.
        several = len(work) if self._timeout is not None else min(len(work), os.cpu_count() or 1)
        if self._timeout is None and (several == 1 or (here and self._seconds < _QUICK)):
            for each in work.values():
                each()
            self._seconds = (time.perf_counter() - started) / len(work)
            return frozenset()
        # A thread for each holder would keep memory for each.
        waiting, late = deque(work), set(work)

        def answering() -> None:
            # An empty queue ends it.
            with suppress(IndexError):
                while True:
                    name = waiting.popleft()
                    with suppress(BaseException):
                        work[name]()
                    late.discard(name)

        # Daemons: a holder that never answers, or an interruption, must not keep the interpreter.
        threads = [threading.Thread(target=answering, daemon=True) for _ in range(several)]
        for thread in threads:
            thread.start()
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        self._seconds = (time.perf_counter() - started) * several / len(work)
        return frozenset(late)


def _stopwatch() -> Callable[[], float]:
    """Seconds from now, without those that imports take: a transcript's and a bill's alike."""
    began, imported = time.perf_counter(), sum(importing)
    return lambda: max(time.perf_counter() - began - (sum(importing) - imported), 0.0)


def _replies(party: Party, asker: str) -> Callable[[bytes], bytes]:
    """How a party is asked in a name."""
    try:
        parameters = inspect.signature(party.reply).parameters
        kinds = {each.kind for each in parameters.values()}
        named = "asker" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
    except (TypeError, ValueError):
        named = False
    if not named:
        return lambda message: party.reply(message)
    reply = cast("Callable[..., bytes]", party.reply)
    return lambda message: reply(message, asker=asker)


def _read(reply: bytes) -> Answer | Failure:
    try:
        return decode_reply(reply)
    except WireError as error:
        return Failure(error.code, "failed", type(error).__name__)


def _charge(answer: Answer | Failure) -> float:
    """What a holder says it charged for an answer, 0 for what is no such number."""
    said = answer.scalars.get(CHARGED) if isinstance(answer, Answer) else None
    if isinstance(said, bool) or not isinstance(said, int | float):
        return 0.0
    return float(said) if 0 <= said < math.inf else 0.0


__all__ = ["Billable", "LocalFederation", "Party", "Progress"]
