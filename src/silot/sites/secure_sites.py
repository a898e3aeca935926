"""Secure distances between two sites, for an asker who is the third party of them.

A run has two exchanges: both sites say whether they will take part, and of how many records; then
they begin, and answer when it is over. Meanwhile the asker computes too, unless they do without it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from typing import Any

from ..distances.result import Distance
from ..errors import HolderError, InputError, MismatchError, SilotError
from ..federation.answer import Answer, Failure, decode_reply, encode_reply
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, failure_error, required
from ..federation.question import encode_question
from ..federation.result import Run
from ..federation.run import Clock, Reply, run
from ..federation.transcript import Entry, Transcript
from .connection import Sites
from .endpoint import Endpoint
from .kit import Kit
from .secure._engine import Traffic, missing_spu
from .secure.distance import Opened, Simulation
from .secure.forecast import Forecast, forecast_program
from .secure.options import Role
from .secure.party import compute_as_party, longest_seconds
from .secure.questions import SIZES, SecureDistance

# Seconds for what sites have to say once it is over here.
_GRACE = 20.0
# What a party reports whose run another one ended.
_ECHOES = frozenset({"secure-stopped", "secure-lost", "secure-engine", "run-cancelled"})
_BEGUN = b"begun\n"


class SecureSites(Sites):
    """Sites that compute secure distances with one another and, of three parties, with the asker.

    Parameters
    ----------
    *parts, **options
        As of ``Sites``.
    kit
        Of the asker; without one, it is no third party.
    """

    def __init__(self, *parts: Any, kit: Kit | None = None, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._kit = kit
        self._secure_runs = 0

    def run_secure(
        self, simulation: Simulation, tell: Callable[[Forecast], None] | None
    ) -> tuple[Distance, Run]:
        """Compute the distance that a simulation is of, and return it with its cost."""
        place, self._secure_runs = self._secure_runs, self._secure_runs + 1
        return _PairRun(self, simulation, place, tell).run()

    def endpoint(self) -> Endpoint:
        """Return the asker as the other parties reach it."""
        if self._kit is None:
            raise InputError(
                "this federation has no kit, whose certificate links would need. Use "
                "silot.connect.",
                code="secure-addresses",
            )
        return Endpoint.of(self._kit)


class _PairRun:
    """A runtime of one secure distance.

    Parameters
    ----------
    sites
        The sites, whose journal keeps what was reached.
    simulation
        What is computed.
    place
        How many secure distances the run requested before.
    tell
        Called with the forecast.

    Raises
    ------
    InputError
        It is not between two sites (``method-secure``), or the asker names no addresses
        (``secure-addresses``, ``secure-peer``).
    ExtraError
        The asker computes too, and ``spu`` is not installed (``extra-secure``).
    """

    def __init__(
        self, sites: SecureSites, simulation: Simulation, place: int,
        tell: Callable[[Forecast], None] | None,
    ) -> None:  # fmt: skip
        holders = (*simulation.first, *simulation.second)
        if len(holders) != 2 or COORDINATOR in holders:
            raise InputError(
                "two sites compute a secure distance: give two names. For your own data, and "
                "for unions, use `silot distance secure`.",
                code="method-secure",
            )
        unknown = [name for name in holders if name not in sites.names]
        if unknown:
            raise MismatchError(f"there is no site {unknown[0][:60]!r}.", code="holder-unknown")
        self.names, self._options, self._tell = holders, simulation.options, tell
        members: dict[Role, str] = {"a": holders[0], "b": holders[1]}
        has_third = self._options.parties > 2
        if has_third:
            members["third"] = sites.asker
            if find_spec("spu") is None:
                raise missing_spu()
        self._sites = sites
        receivers = {"a": holders[0], "b": holders[1], "third": COORDINATOR}
        self._receiver = receivers[self._options.receiver]
        # A run that broke off was charged, and cannot be resumed: the next is one of its own.
        questions = (
            SecureDistance.of(self._options, members, _name_session(sites, place, attempt))
            for attempt in count()
        )
        self._question = next(question for question in questions if self._is_open(question))
        self._start = _encode_start(self._question)
        self._links = None
        if has_third:
            self._links = sites.endpoint().links(members, self._question.session)
        self._expected: Forecast | None = None
        self._error: SilotError | None = None

    def _is_open(self, question: SecureDistance) -> bool:
        """Return whether a run did not begin yet, or its number was received."""
        start = _encode_start(question)
        has_begun = self._sites.find_kept(COORDINATOR, _BEGUN + start) is not None
        return not has_begun or self._sites.find_kept(self._receiver, start) is not None

    def run(self) -> tuple[Distance, Run]:
        """Compute; return the result and its cost, with what all parties sent."""
        protocol = Protocol(
            "secure", self.names, Disclosure.STATISTICS, self._steps, self._options.public(), 2
        )
        result = run(protocol, self)
        transcript = result.transcript or Transcript("secure", {}, ())
        own = self._sites.find_kept(COORDINATOR, self._start)
        if own is not None:
            entry = Entry(1, COORDINATOR, "received", result.seconds, own)
            transcript = replace(transcript, entries=(*transcript.entries, entry))
        return result, Run(
            rounds=result.rounds,
            bytes_sent=result.bytes_sent + _sum_bytes(result, "bytes_sent"),
            bytes_received=result.bytes_received + _sum_bytes(result, "bytes_received"),
            seconds=result.seconds,
            disclosure=result.disclosure,
            transcript=transcript,
            preflight=result.preflight,
            # A site's last reply may be lost, and with it what it charged.
            privacy_mu=max(result.privacy_mu, self._options.privacy_mu),
        )

    def _steps(self) -> Steps[Distance]:
        ready = yield dict.fromkeys(self.names, self._question)
        sizes, widths = zip(
            *(_read_sizes(required(ready, name)) for name in self.names), strict=True
        )
        if len(set(widths)) > 1:
            raise MismatchError(
                f"{self.names[0]!r} has {widths[0]} features and {self.names[1]!r} has "
                f"{widths[1]}. Give both the same features in the same order.",
                code="dimension-mismatch",
            )
        program = self._options.program(sizes, 1, widths[0])
        self._expected = forecast_program(program)
        if self._tell is not None:
            self._tell(self._expected)
        replies = yield dict.fromkeys(self.names, replace(self._question, go=True))
        own = self._sites.find_kept(COORDINATOR, self._start)
        answers = {**replies, **({} if own is None else {COORDINATOR: decode_reply(own)})}
        answer = answers.get(self._receiver)
        if not isinstance(answer, Answer):
            raise self._find_cause(replies)
        parties = [*self.names, *([] if self._links is None else [COORDINATOR])]
        opened = [answer.scalars[name] for name in ("opened", "grade") if name in answer.scalars]
        numbers = [float(number) for number in opened if isinstance(number, int | float)]
        if not numbers:
            raise HolderError(
                "the receiver of the number does not send it.", code="answer-malformed"
            )
        traffic = [_read_traffic(answers.get(name)) for name in parties]
        return Opened(numbers, int(answer.number("parts")), self._options, program).build_result(
            self.names, "secure", traffic, passed_on=self._receiver != COORDINATOR
        )

    def _find_cause(self, replies: Mapping[str, Answer | Failure]) -> SilotError:
        """Return why there is no number: what ended the run first."""
        failures = {name: reply for name, reply in replies.items() if isinstance(reply, Failure)}
        first = [name for name, failure in failures.items() if failure.code not in _ECHOES]
        if first or self._error is None:
            name = [*first, *failures, self.names[0]][0]
            return failure_error(name, failures.get(name, Failure("holder-silent")))
        return self._error

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Ask the sites whether they will; then have all begin, and compute with them."""
        if self._expected is None:
            return self._sites.exchange(messages, clock)
        names = (*messages, self._receiver)
        kept = {name: self._sites.find_kept(name, self._start) for name in names}
        if kept[self._receiver] is not None:
            return {name: Reply(kept[name], clock()) for name in messages if kept[name]}
        self._sites.keep(COORDINATOR, _BEGUN + self._start, _BEGUN)
        seconds = longest_seconds(self._expected) + _GRACE
        background = _BackgroundExchange(self._sites, messages, clock, seconds)
        try:
            if self._links is not None:
                self._compute(background)
            else:
                background.wait_until_failed()
            background.wait(_GRACE)
        finally:
            background.end()
        return background.replies()

    def _compute(self, background: _BackgroundExchange) -> None:
        """Be the third party, and keep the number before it is used."""
        assert self._links is not None
        try:
            outcome = compute_as_party("third", self._links, self._options, check=background.check)
        except SilotError as error:
            self._error = error
            return
        self._sites.keep(COORDINATOR, self._start, encode_reply(Answer(scalars=outcome.facts)))


class _BackgroundExchange:
    """An exchange with the sites in a thread, while this process computes."""

    def __init__(
        self, sites: Sites, messages: Mapping[str, bytes], clock: Clock, seconds: float
    ) -> None:
        self._sites, self._over, self._failed = sites, threading.Event(), threading.Event()
        pool = ThreadPoolExecutor(1)
        self._replies = pool.submit(
            sites.exchange_until,
            messages, clock, seconds=seconds, over=self._over, failed=self._failed,
        )  # fmt: skip
        pool.shutdown(wait=False)

    def check(self) -> None:
        """Raise where a site will not continue, or the run was cancelled."""
        if self._sites.cancelled or self._failed.is_set():
            raise HolderError("a site cannot continue.", code="secure-stopped")

    def wait(self, seconds: float) -> None:
        """Wait until all replied, or so long."""
        wait([self._replies], seconds)

    def wait_until_failed(self) -> None:
        """Wait until all replied, or one failed."""
        while not (self._replies.done() or self._failed.is_set()):
            self.wait(0.1)

    def end(self) -> None:
        """Wait for no more replies."""
        self._over.set()
        wait([self._replies])

    def replies(self) -> Mapping[str, Reply | Failure]:
        """Return what sites replied; who did not failed."""
        return self._replies.result()


def _name_session(sites: Sites, place: int, attempt: int) -> str:
    """Return a name that no other run has."""
    words = f"{sites.run_name} {place} {attempt}"
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def _encode_start(question: SecureDistance) -> bytes:
    return encode_question(replace(question, go=True))


def _read_sizes(answer: Answer) -> tuple[int, int]:
    records, dimension = (int(answer.number(name)) for name in SIZES)
    return records, dimension


def _read_traffic(answer: Answer | Failure | None) -> Traffic:
    """Return what a party says it sent and received."""
    if not isinstance(answer, Answer):
        return Traffic(0, 0, 0)
    sent, received = (int(answer.optional_number(name) or 0) for name in ("sent", "received"))
    return Traffic(sent, received, 0)


def _sum_bytes(result: Distance, field: str) -> int:
    return sum(int(party[field]) for party in result.history)
