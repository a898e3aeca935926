"""A secure distance between two sites, asked for by a member who is the third party of it.

Two exchanges: both sites say whether they will take part, and of how many records; then they
begin, and answer when it is over. Meanwhile the asker computes too, unless they do without it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING

from ..distances.result import Distance
from ..errors import HolderError, InputError, MismatchError, SilotError
from ..federation.answer import Answer, Failure, decode_reply, encode_reply
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, failure_error, required
from ..federation.question import encode_question
from ..federation.result import Run
from ..federation.run import Clock, Reply, run
from ..federation.transcript import Entry, Transcript
from .seat import Seat
from .secure._engine import Traffic, absent
from .secure.charging import mu_of_laplace
from .secure.distance import Simulation, result_of
from .secure.forecast import Forecast, forecast_of
from .secure.options import Role
from .secure.party import computed, longest
from .secure.questions import SIZES, SecureDistance

if TYPE_CHECKING:
    from .connection import Sites

# Seconds for what sites have to say once it is over here.
_GRACE = 20.0
# What a party says whose run another one ended.
_ECHOES = frozenset({"secure-stopped", "secure-lost", "secure-engine", "run-cancelled"})
_BEGUN = b"begun\n"


class Computing:
    """A runtime of one secure distance.

    Parameters
    ----------
    sites
        Who are asked, and kept account of.
    asked
        What is computed.
    seat
        The asker's place among the parties, where it needs one.
    place
        How many secure distances the run asked for before.
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
        self, sites: Sites, asked: Simulation, seat: Callable[[], Seat], place: int,
        tell: Callable[[Forecast], None] | None,
    ) -> None:  # fmt: skip
        holders = (*asked.first, *asked.second)
        if len(holders) != 2 or COORDINATOR in holders:
            raise InputError(
                "sites compute a secure distance in pairs: give names of two of them. For data of "
                "your own, and for unions, there is `silot secure`.",
                code="method-secure",
            )
        unknown = [name for name in holders if name not in sites.names]
        if unknown:
            raise MismatchError(f"there is no site {unknown[0][:60]!r}.", code="holder-unknown")
        self.names, self._options, self._tell = holders, asked.options, tell
        members: dict[Role, str] = {"a": holders[0], "b": holders[1]}
        third = asked.options.parties > 2
        if third:
            members["third"] = sites.asker
            if find_spec("spu") is None:
                raise absent()
        self._sites = sites
        tellers = {"a": holders[0], "b": holders[1], "third": COORDINATOR}
        self._teller = tellers[asked.options.receiver]
        runs = (
            SecureDistance.of(asked.options, members, _session(sites, place, attempt))
            for attempt in count()
        )
        self._question = next(each for each in runs if self._is_open(each))
        self._go = _going(self._question)
        self._links = seat().links(members, self._question.session) if third else None
        self._expected: Forecast | None = None
        self._error: SilotError | None = None

    def _is_open(self, question: SecureDistance) -> bool:
        """Whether a run did not begin yet, or its number is known.

        One that broke off was charged, and cannot be gone on with: the next is one of its own.
        """
        go = _going(question)
        begun = self._sites.kept(COORDINATOR, _BEGUN + go) is not None
        return not begun or self._sites.kept(self._teller, go) is not None

    def run(self) -> tuple[Distance, Run]:
        """Compute; the result and its bill, with what all parties sent."""
        protocol = Protocol(
            "secure", self.names, Disclosure.SCALAR, self._steps, self._options.public(), 2
        )
        found = run(protocol, self)
        traffic = [Traffic(int(each["bytes_sent"]), int(each["bytes_received"]), 0)
                   for each in found.history]  # fmt: skip
        epsilon = self._options.privacy_epsilon
        mu = 0.0 if epsilon is None else mu_of_laplace(epsilon)
        transcript = found.transcript or Transcript("secure", {}, ())
        own = self._sites.kept(COORDINATOR, self._go)
        if own is not None:
            entry = Entry(1, COORDINATOR, "received", found.seconds, own)
            transcript = replace(transcript, entries=(*transcript.entries, entry))
        return found, Run(
            rounds=found.rounds,
            bytes_sent=found.bytes_sent + sum(each.sent for each in traffic),
            bytes_received=found.bytes_received + sum(each.received for each in traffic),
            seconds=found.seconds,
            disclosure=found.disclosure,
            transcript=transcript,
            preflight=found.preflight,
            # A site's last word may be lost, and with it what it charged.
            privacy_mu=max(found.privacy_mu, mu),
        )

    def _steps(self) -> Steps[Distance]:
        ready = yield dict.fromkeys(self.names, self._question)
        sizes, widths = zip(*(_sizes(required(ready, name)) for name in self.names), strict=True)
        if len(set(widths)) > 1:
            raise MismatchError(
                f"{self.names[0]!r} has {widths[0]} features and {self.names[1]!r} has "
                f"{widths[1]}. Give both the same features in the same order.",
                code="dimension-mismatch",
            )
        program = self._options.program(sizes, 1, widths[0])
        self._expected = forecast_of(program)
        if self._tell is not None:
            self._tell(self._expected)
        replies = yield dict.fromkeys(self.names, replace(self._question, go=True))
        own = self._sites.kept(COORDINATOR, self._go)
        answers = {**replies, **({} if own is None else {COORDINATOR: decode_reply(own)})}
        told = answers.get(self._teller)
        if not isinstance(told, Answer):
            raise self._cause(replies)
        parties = [*self.names, *([] if self._links is None else [COORDINATOR])]
        opened = [told.scalars[name] for name in ("opened", "grade") if name in told.scalars]
        numbers = [float(number) for number in opened if isinstance(number, int | float)]
        if not numbers:
            raise HolderError("who was told the number does not tell it.", code="answer-malformed")
        return result_of(
            numbers, int(told.number("parts")), self._options, program, self.names,
            "secure", [_traffic(answers.get(name)) for name in parties],
            passed_on=self._teller != COORDINATOR,
        )  # fmt: skip

    def _cause(self, replies: Mapping[str, Answer | Failure]) -> SilotError:
        """Why there is no number: what ended the run first."""
        failures = {name: each for name, each in replies.items() if isinstance(each, Failure)}
        first = [name for name, each in failures.items() if each.code not in _ECHOES]
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
        kept = {name: self._sites.kept(name, self._go) for name in (*messages, self._teller)}
        if kept[self._teller] is not None:
            return {name: Reply(kept[name], clock()) for name in messages if kept[name]}
        self._sites.keep(COORDINATOR, _BEGUN + self._go, _BEGUN)
        asking = _Asking(self._sites, messages, clock, longest(self._expected) + _GRACE)
        try:
            if self._links is not None:
                self._compute(asking)
            else:
                asking.wait(until_failed=True)
            asking.wait(_GRACE)
        finally:
            asking.end()
        return asking.replies()

    def _compute(self, asking: _Asking) -> None:
        """Be the third party; the number is kept before it is used."""
        assert self._links is not None
        try:
            done = computed("third", self._links, self._options, check=asking.check)
        except SilotError as error:
            self._error = error
            return
        self._sites.keep(COORDINATOR, self._go, encode_reply(Answer(scalars=done.facts)))


class _Asking:
    """The sites asked in a thread, while this process computes."""

    def __init__(
        self, sites: Sites, messages: Mapping[str, bytes], clock: Clock, seconds: float
    ) -> None:
        self._sites, self._over, self._failed = sites, threading.Event(), threading.Event()
        self._replies: Mapping[str, Reply | Failure] = {}
        self._error: SilotError | None = None

        def ask() -> None:
            try:
                self._replies = sites.asked(
                    messages, clock, seconds=seconds, over=self._over, failed=self._failed
                )
            except SilotError as error:
                self._error = error

        self._thread = threading.Thread(target=ask, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise where a site will not go on, or the run was cancelled."""
        if self._sites.cancelled or self._failed.is_set():
            raise HolderError("a site cannot go on.", code="secure-stopped")

    def wait(self, seconds: float | None = None, *, until_failed: bool = False) -> None:
        """Wait until all replied, or so long, or until one failed."""
        if not until_failed:
            self._thread.join(seconds)
        while until_failed and self._thread.is_alive() and not self._failed.is_set():
            self._thread.join(0.1)

    def end(self) -> None:
        """Ask nobody any more."""
        self._over.set()
        self._thread.join()

    def replies(self) -> Mapping[str, Reply | Failure]:
        """What sites replied; who did not failed."""
        if self._error is not None:
            raise self._error
        return self._replies


def _session(sites: Sites, place: int, attempt: int) -> str:
    """A name that no other run has."""
    words = f"{sites.run_name} {place} {attempt}"
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def _going(question: SecureDistance) -> bytes:
    return encode_question(replace(question, go=True))


def _sizes(answer: Answer) -> tuple[int, int]:
    records, dimension = (int(answer.number(name)) for name in SIZES)
    return records, dimension


def _traffic(answer: Answer | Failure | None) -> Traffic:
    """What a party sent and received, by its own word."""
    if not isinstance(answer, Answer):
        return Traffic(0, 0, 0)
    sent, received = (int(answer.optional_number(name) or 0) for name in ("sent", "received"))
    return Traffic(sent, received, 0)


__all__ = ["Computing"]
