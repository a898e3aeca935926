"""Send one message to each of many parties, few at a time, and collect replies in time."""

from __future__ import annotations

import heapq
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from ..errors import InputError
from .answer import Failure
from .message import Buffer
from .run import Clock, Reply

Ask = Callable[[str, bytes, float], Buffer | Failure]
"""The reply of a party to a message, within so many seconds. ``Unreached`` may be tried again."""

LARGEST_FLIGHT = 32
"""Most parties asked at once; as many threads again may hang in parties that were given up."""

# What says only that nothing came back; and for how many seconds any other reason counts, such as
# a server between that is silent, or a party whose disk is full.
_SILENT, _FRESH = ("holder-timeout", "holder-unreachable"), 15.0
# Seconds between looks at whether a run was cancelled.
_LOOK = 0.1


class Unreached(Exception):  # noqa: N818 - no error: the exchange tries again
    """A message or its reply was lost: asking again is free, for parties repeat their reply."""

    def __init__(self, code: str = "holder-unreachable") -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long an exchange waits, and how often it tries.

    Attributes
    ----------
    deadline
        Seconds a party has for one answer, lost messages included; ``None`` waits.
    in_flight
        Most parties that are asked at once.
    first_pause, longest_pause
        Seconds before a lost message is sent again: twice as long each time, up to the longest,
        and each time a random part of that, so that many do not come at once.
    """

    deadline: float | None = 120.0
    in_flight: int = LARGEST_FLIGHT
    first_pause: float = 0.1
    longest_pause: float = 5.0

    def __post_init__(self) -> None:
        if self.deadline is not None and not self.deadline > 0:
            raise InputError(
                f"timeout is {self.deadline!r}; seconds are needed.", code="option-timeout"
            )
        if not 1 <= self.in_flight <= LARGEST_FLIGHT:
            raise InputError(
                f"in_flight is {self.in_flight!r}; 1 to {LARGEST_FLIGHT} are needed.",
                code="option-in-flight",
            )


def exchange(
    messages: Mapping[str, bytes],
    ask: Ask,
    clock: Clock,
    limits: Limits,
    cancelled: threading.Event | None = None,
) -> dict[str, Reply | Failure]:
    """Send each message to its party, and collect replies until the deadline.

    A party's time counts from when it is asked first. What was lost is asked again, after a
    pause; whoever fails otherwise failed. Nothing that was raised leaves: it may quote data.

    Parameters
    ----------
    messages
        By party.
    ask
        How a party is asked.
    clock
        Seconds of the run.
    limits
        Time, tries, and how many at once.
    cancelled
        Once set, nothing is sent any more, and who has not answered failed (``run-cancelled``).
    """
    work = _Work(messages, ask, clock, limits)
    work.start(min(limits.in_flight, len(messages)))
    try:
        return work.collect(cancelled)
    finally:
        work.end()


class _Work:
    """Schedules the messages of one exchange and collects the replies."""

    def __init__(
        self, messages: Mapping[str, bytes], ask: Ask, clock: Clock, limits: Limits
    ) -> None:
        self._messages, self._ask, self._clock, self._limits = messages, ask, clock, limits
        self._order = count()
        # Of each that waits: when it may be asked, its turn, its name, and how often it was.
        self._waiting = [(0.0, next(self._order), name, 0) for name in messages]
        self._ends: dict[str, float] = {}
        self._asking = set[str]()
        # When and why a message to each was lost last, where that is known.
        self._lost: dict[str, tuple[float, str]] = {}
        self._replies: dict[str, Reply | Failure] = {}
        self._changed = threading.Condition()
        self._over = False
        self._started = 0

    def start(self, threads: int) -> None:
        """Start threads that ask; they are daemons, as a party may never answer."""
        for _ in range(min(threads, 2 * LARGEST_FLIGHT - self._started)):
            self._started += 1
            threading.Thread(target=self._ask_all, daemon=True).start()

    def collect(self, cancelled: threading.Event | None) -> dict[str, Reply | Failure]:
        """Wait for all replies, or for the deadlines of those that are asked."""
        with self._changed:
            while len(self._replies) < len(self._messages):
                if cancelled is not None and cancelled.is_set():
                    self._give_up("run-cancelled", set(self._messages))
                    break
                now = time.monotonic()
                self._give_up("holder-timeout", {n for n, end in self._ends.items() if end <= now})
                if len(self._replies) == len(self._messages):
                    break
                waits = [end - now for name, end in self._ends.items() if name not in self._replies]
                # An Event and a Condition cannot be awaited together, so the event is polled.
                waits += [] if cancelled is None else [_LOOK]
                wait = min(waits, default=math.inf)
                self._changed.wait(None if wait == math.inf else max(wait, 0.001))
            return {name: self._replies[name] for name in self._messages}

    def end(self) -> None:
        """Stop asking, whatever ended the exchange."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _ask_all(self) -> None:
        """Ask one party after another, until all replied."""
        while (turn := self._next()) is not None:
            name, seconds, tries = turn
            reply: Reply | Failure | Unreached = Failure("holder-raised")
            # Whatever a party's code raises is a missing reply; its text stays here.
            with suppress(BaseException):
                try:
                    sent = self._ask(name, self._messages[name], seconds)
                    reply = sent if isinstance(sent, Failure) else Reply(sent, self._clock())
                except Unreached as lost:
                    reply = lost
            self._done(name, reply, tries)

    def _next(self) -> tuple[str, float, int] | None:
        """Return the next party, the seconds that it has and its earlier tries, or ``None``."""
        with self._changed:
            while not self._over and len(self._replies) < len(self._messages):
                now = time.monotonic()
                if self._waiting and self._waiting[0][0] <= now:
                    _, _, name, tries = heapq.heappop(self._waiting)
                    if name not in self._replies:
                        deadline = self._limits.deadline
                        end = math.inf if deadline is None else now + deadline
                        end = self._ends.setdefault(name, end)
                        self._asking.add(name)
                        # Who collects waits for this end too.
                        self._changed.notify_all()
                        return name, max(end - now, 0.001), tries
                else:
                    self._changed.wait(self._waiting[0][0] - now if self._waiting else None)
        return None

    def _done(self, name: str, reply: Reply | Failure | Unreached, tries: int) -> None:
        """Keep a reply, or ask again after a pause; late replies are dropped."""
        limits = self._limits
        with self._changed:
            self._asking.discard(name)
            if isinstance(reply, Unreached):
                now = time.monotonic()
                if reply.code not in _SILENT:
                    self._lost[name] = now, reply.code
                pause = min(limits.first_pause * 2.0 ** min(tries, 30), limits.longest_pause)
                again = now + pause * random.uniform(0.5, 1.0)
                if again < self._ends[name]:
                    heapq.heappush(self._waiting, (again, next(self._order), name, tries + 1))
                else:
                    self._replies.setdefault(name, Failure(reply.code, "timeout"))
            elif not self._over:
                self._replies.setdefault(name, reply)
            self._changed.notify_all()

    def _give_up(self, code: str, names: set[str]) -> None:
        """Note that parties failed; a thread that one of them keeps is replaced, if it may be."""
        late = names - self._replies.keys()
        for name in late:
            lost, way = self._lost.get(name, (-math.inf, ""))
            is_fresh = time.monotonic() - lost < _FRESH and code == "holder-timeout"
            self._replies[name] = Failure(way if is_fresh else code, "timeout")
        kept = self._asking & self._replies.keys()
        self.start(len(late & self._asking))
        if len(kept) >= self._started:
            # No thread is left to ask the others.
            for name in self._messages.keys() - self._replies.keys():
                self._replies[name] = Failure(code, "timeout")


__all__ = ["Ask", "Limits", "Unreached", "exchange"]
