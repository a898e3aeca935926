"""One run of a protocol on any runtime: questions to answers, the transcript, and the cost.

A runtime carries bytes to parties and back, and knows nothing of questions. Whatever is counted,
kept or charged of a run is here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar, cast, runtime_checkable
from typing import Protocol as TypingProtocol

from silot_transport._threads import on_cores, one_blas_thread

from ..data.preflight import Preflight
from ..errors import InputError, MismatchError, SilotError, WireError
from ..privacy.accounting import compose
from .answer import CHARGED, WAITING, Answer, Failure, decode_reply
from .disclosure import Disclosure
from .message import Buffer, is_buffer
from .protocol import Answers, Protocol, Questions, failure_error
from .question import encode_question
from .result import Cost, Run
from .telemetry import begin_trace
from .transcript import Entry, Spool, Stored, Transcript

Clock = Callable[[], float]
"""Seconds of the run."""


class Billable(TypingProtocol):
    """A result that takes the cost of the run that made it."""

    def with_run(self, run: Run) -> Self:
        """Return the result with its cost."""
        ...


B = TypeVar("B", bound=Billable)


@dataclass(frozen=True)
class Reply:
    """What a party sent back, and when it was there, by the clock of the run.

    Whatever a party of the caller's own returned is passed on; what is not bytes is not a reply.
    """

    payload: object
    seconds: float


@runtime_checkable
class Runtime(TypingProtocol):
    """How questions travel: parties by name, and one exchange with some of them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties."""
        ...

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Send each message to its party, and wait for the replies.

        A party that does not answer is a ``Failure``, with no text of any exception; one that
        is left out counts as silent.
        """
        ...


@runtime_checkable
class Federation(TypingProtocol):
    """Parties by name, and a way of its own to run protocols between them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties."""
        ...

    def run(self, protocol: Any, *, progress: Callable[[Progress], None] | None = None) -> Any:
        """Run a protocol."""
        ...


# Bytes of a reply from which on threads pay.
_LARGE = 1 << 13

RUNTIMES: dict[str, Callable[[Mapping[str, Any]], Runtime]] = {}
"""By name, what makes a runtime of parties."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come: exchanges done, and the most it will make."""

    protocol: str
    rounds: int
    expected_rounds: int


def run(
    protocol: Protocol[B],
    parties: Runtime | Mapping[str, Any],
    *,
    runtime: str = "local",
    progress: Callable[[Progress], None] | None = None,
    tell: Callable[[Any], None] | None = None,
) -> B:
    """Run a protocol and return its result with its cost and transcript.

    Parameters
    ----------
    protocol
        What to run; build it with a function of a wing, as ``silot.distances.direct``.
    parties
        A runtime that has them, such as a ``LocalFederation``, or parties by name.
    runtime
        What carries questions to parties that are given by name.
    progress
        Called after every exchange.
    tell
        Called with the forecast of a protocol with an engine of its own, before it starts.

    Raises
    ------
    InputError
        No runtime has that name (``"option-runtime"``).
    MismatchError
        The protocol names a holder that is not among the parties.
    HolderError, RefusedError
        A holder the protocol cannot do without failed or refused.

    Examples
    --------
    >>> from silot.distances import direct
    >>> parties = {"north": [[0.0, 0.0]], "south": [[3.0, 4.0]]}
    >>> round(run(direct("north", "south"), parties).value, 9)
    5.0
    """
    if protocol.engine is not None:
        trace = begin_trace(protocol, parties)
        try:
            result, cost = protocol.engine(parties, tell)
        except BaseException as error:
            if trace is not None:
                trace.end(None, _code(error))
            raise
        if trace is not None:
            trace.end(cost)
        if progress is not None:
            progress(Progress(protocol.name, 1, protocol.expected_rounds))
        return result.with_run(cost)
    engine = _runtime(runtime)(parties) if isinstance(parties, Mapping) else parties
    (outcome,), _ = run_together([protocol], engine, progress=progress)
    if isinstance(outcome, SilotError):
        raise outcome
    return outcome


def run_together(
    protocols: Sequence[Protocol[B]],
    engine: Runtime,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[list[B | SilotError], Cost]:
    """Run protocols that share no holder: what all of them ask next is one exchange.

    Parameters
    ----------
    protocols
        Without an engine of their own.
    engine
        The runtime that has all their holders.
    progress
        Called after every exchange, for each protocol that had a part in it.

    Returns
    -------
    list, Cost
        By protocol its result or the error that ended it, each with its own cost and transcript;
        and what all took: fewer exchanges, and less time, than the sum of theirs.

    Raises
    ------
    MismatchError
        A holder is named that is not among the parties, or by two protocols.
    """
    named = [name for protocol in protocols for name in protocol.holders]
    unknown = [name for name in named if name not in engine.names]
    if unknown:
        raise MismatchError(
            f"there is no holder {unknown[0]!r}; holders are {', '.join(engine.names)}.",
            code="holder-unknown",
        )
    if len(set(named)) < len(named):
        raise MismatchError("protocols that are run together share a holder.", code="holder-names")
    clock = _stopwatch()
    seats = [_Seat(protocol, engine, clock, progress) for protocol in protocols]
    exchanges = 0
    with one_blas_thread(), ExitStack() as stack:
        for seat in seats:
            stack.push(seat.leave)
            seat.go_on(None)
        while waiting := [seat for seat in seats if seat.outcome is None]:
            messages = [seat.record.note_questions(seat.questions) for seat in waiting]
            joined = {name: text for batch in messages for name, text in batch.items()}
            replies = dict(engine.exchange(joined, clock))
            exchanges += 1
            # Seats share nothing; of large replies most of the work is in solvers.
            texts = [one.payload for one in replies.values() if isinstance(one, Reply)]
            size = sum(len(text) for text in texts if isinstance(text, bytes))
            work = [(*pair, replies) for pair in zip(waiting, messages, strict=True)]
            on_cores(
                lambda item: item[0].receive(*item[1:]), work, alone=size < _LARGE * len(replies)
            )
    # A runtime that keeps replies may still be writing them.
    getattr(engine, "settle", lambda: None)()
    # Holders have ledgers of their own: their charges are no sum.
    cost = sum((seat.ended.cost for seat in seats), Cost())
    outcomes = [cast("B | SilotError", seat.outcome) for seat in seats]
    return outcomes, replace(cost, rounds=exchanges, seconds=clock(), privacy_mu=0.0)


class _Seat(Generic[B]):
    """One protocol on its way: what it asks next, or its outcome."""

    def __init__(
        self,
        protocol: Protocol[B],
        engine: Runtime,
        clock: Clock,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.record = _Record(clock)
        self.questions: Questions = {}
        self.outcome: B | SilotError | None = None
        self._protocol, self._engine, self._progress = protocol, engine, progress
        self._steps, self._trace = protocol.start(), begin_trace(protocol, engine)

    def leave(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the trace of the run, whatever its end is."""
        if self._trace is not None:
            outcome = error or self.outcome
            code = _code(outcome) if isinstance(outcome, BaseException) else ""
            self._trace.end(None if self.outcome is None else self._ended.cost, code)

    def go_on(self, answers: Answers | None) -> None:
        """Send answers to the protocol, or ``None`` to begin."""
        try:
            questions = next(self._steps) if answers is None else self._steps.send(answers)
            while not questions:
                questions = self._steps.send({})
            self.questions = questions
        except StopIteration as stop:
            self._end(stop.value.with_run, str(self._protocol.disclosure))
        except SilotError as error:
            self._fail(error)

    def receive(self, messages: Mapping[str, bytes], replies: dict[str, Reply | Failure]) -> None:
        """Read the replies to its messages."""
        arrivals = {name: _arrival(replies.get(name), self.record.clock()) for name in messages}
        answers = self.record.read_replies(messages, replies)
        if self._trace is not None:
            for name, (size, seconds) in arrivals.items():
                self._trace.note(
                    self.questions[name], name, answers[name], round_=self.record.rounds,
                    sizes=(len(messages[name]), size), times=(self.record.sent_at, seconds),
                )  # fmt: skip
        self.record.count(self.questions, answers)
        waits = [name for name, answer in answers.items() if _waits(answer)]
        if waits:
            # A protocol that can do without a holder must not: it may answer yet.
            self._fail(failure_error(waits[0], cast("Failure", answers[waits[0]])))
            return
        if self._progress is not None:
            name, most = self._protocol.name, self._protocol.expected_rounds
            self._progress(Progress(name, self.record.rounds, most))
        self.go_on(answers)

    @property
    def ended(self) -> Run:
        """The run behind the outcome."""
        return self._ended

    def _fail(self, error: SilotError) -> None:
        def with_run(run: Run) -> SilotError:
            error.run = run
            return error

        self._end(with_run, level="")

    def _end(self, with_run: Callable[[Run], B | SilotError], level: str) -> None:
        self._ended = self.record.run_of(self._protocol, self._engine, level)
        self.outcome = with_run(self._ended)


class _Record:
    """What is written down of one run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rounds, self.sent_at = 0, 0.0
        self._entries: list[Entry] = []
        self._spool = Spool()
        self._levels: list[Disclosure] = []
        self._charges: dict[str, list[float]] = {}

    def note_questions(self, questions: Questions) -> dict[str, bytes]:
        """Encode questions as messages, and note each."""
        messages: dict[str, bytes] = {}
        self.sent_at = self.clock()
        # A transcript keeps every message: what a hundred holders are asked alike, once.
        kept: dict[bytes, tuple[bytes, bytes | Stored]] = {}
        for name in sorted(questions):
            message = encode_question(questions[name])
            if message not in kept:
                kept[message] = (message, self._spool.keep(message))
            messages[name], stored = kept[message]
            self._entries.append(Entry(self.rounds, name, "sent", self.clock(), stored))
        return messages

    def read_replies(
        self, messages: Mapping[str, bytes], replies: dict[str, Reply | Failure]
    ) -> dict[str, Answer | Failure]:
        """Decode replies as answers, and note each reply."""
        answers: dict[str, Answer | Failure] = {}
        for name in messages:
            # What was read is not held twice: answers are views of their own.
            reply = replies.pop(name, Failure("holder-silent"))
            if isinstance(reply, Failure):
                answers[name] = reply
            elif not is_buffer(reply.payload):
                # Nothing a transcript could keep or a cost could count.
                answers[name] = Failure("wire-format", "failed", type(reply.payload).__name__)
            else:
                stored = self._spool.keep(reply.payload)
                self._entries.append(Entry(self.rounds, name, "received", reply.seconds, stored))
                answers[name] = _read(reply.payload)
        return answers

    def count(self, questions: Questions, answers: Answers) -> None:
        """Count one exchange."""
        self.rounds += 1
        for name, answer in answers.items():
            self._charges.setdefault(name, []).append(_charge(answer))
            if isinstance(answer, Answer):
                self._levels.append(questions[name].level)

    def run_of(self, protocol: Protocol[Any], engine: Runtime, level: str) -> Run:
        """Build the cost and the transcript; ``level`` counts where no question was answered."""
        # A runtime may know whose columns a schema describes: nobody needs to look at those.
        vouched: Collection[str] = getattr(engine, "vouched", ())
        transcript = Transcript(protocol.name, dict(protocol.parameters), tuple(self._entries))
        charged = max(map(compose, self._charges.values()), default=0.0)
        return Run(
            rounds=self.rounds,
            bytes_sent=transcript.bytes_sent,
            bytes_received=transcript.bytes_received,
            seconds=self.clock(),
            # What was disclosed, not what might have been: a holder may have refused.
            disclosure=str(max(self._levels)) if self._levels else level,
            privacy_mu=charged,
            in_memory=charged > 0 and getattr(engine, "in_memory", False),
            transcript=transcript,
            preflight=Preflight.of({}, sorted(set(protocol.holders) - {*vouched})),
        )


def _runtime(name: str) -> Callable[[Mapping[str, Any]], Runtime]:
    if name not in RUNTIMES:
        raise InputError(
            f"there is no runtime {name!r}; runtimes are {', '.join(RUNTIMES)}.",
            code="option-runtime",
        )
    return RUNTIMES[name]


def _stopwatch() -> Clock:
    """Start a clock, for transcripts and costs."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began


def _arrival(reply: Reply | Failure | None, now: float) -> tuple[int, float]:
    """Return the bytes of a reply, and the seconds of the run at which it was there."""
    if not isinstance(reply, Reply):
        return 0, now
    return len(reply.payload) if is_buffer(reply.payload) else 0, reply.seconds


def _code(error: BaseException) -> str:
    """Return what a trace says of an error: never its text, which can quote data."""
    return error.code if isinstance(error, SilotError) else type(error).__name__


def _read(reply: Buffer) -> Answer | Failure:
    try:
        return decode_reply(reply)
    except WireError as error:
        return Failure.of(error)


def _waits(answer: Answer | Failure) -> bool:
    return isinstance(answer, Failure) and answer.kind == WAITING


def _charge(answer: Answer | Failure) -> float:
    """Return what a holder says it charged for an answer, 0 for what is no such number."""
    charge = answer.scalars.get(CHARGED) if isinstance(answer, Answer) else None
    if isinstance(charge, bool) or not isinstance(charge, int | float):
        return 0.0
    return float(charge) if 0 <= charge < math.inf else 0.0


__all__ = ["RUNTIMES", "Federation", "Progress", "Reply", "Runtime", "run", "run_together"]
