"""The embedded runtime: holders in this process, through the same bytes as deployed ones."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol as TypingProtocol
from typing import cast, runtime_checkable

from ..data.columns import check_schemas, matched
from ..data.measure import Data, Measure
from ..errors import InputError, MismatchError
from ..privacy.ledger import Ledger
from ..transport._check import real
from .answer import Failure
from .party import Holder
from .policy import Policy
from .protocol import COORDINATOR, Protocol
from .run import RUNTIMES, B, Clock, Progress, Reply, run


@runtime_checkable
class Endpoint(TypingProtocol):
    """Whoever answers bytes with bytes: a ``Holder``, a ``Teacher``, or a way to a distant one.

    One whose ``reply`` takes an ``asker`` too is told who asks. A way to a distant party has its
    own way to prove that.
    """

    def reply(self, message: bytes) -> bytes:
        """Answer a question."""
        ...


# Seconds of an answer that another thread would not make faster.
_QUICK = 0.02


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
    >>> from silot.distances import direct
    >>> fed = LocalFederation({"north": [[0.0, 0.0]], "south": [[3.0, 4.0]]})
    >>> round(fed.run(direct("north", "south")).value, 9)
    5.0
    """

    def __init__(
        self,
        holders: Mapping[str, Endpoint | Data],
        *,
        timeout: float | None = None,
        asker: str = COORDINATOR,
    ) -> None:
        _check_names(holders)
        if timeout is not None and not real(timeout, "timeout", "option-timeout") > 0:
            raise InputError(f"timeout is {timeout!r}; seconds are needed.", code="option-timeout")
        if type(asker) is not str or not asker:
            raise InputError(
                f"{asker!r} cannot name who asks: a non-empty text is needed.", code="asker-name"
            )
        self._timeout = timeout
        # What an answer took the last time.
        self._seconds = 0.0
        self._holders = _parties(holders)
        _check_columns(self._holders)
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
            What to run; build it with a function of a wing, as ``silot.distances.direct``.
        progress
            Called after every exchange.

        Raises
        ------
        MismatchError
            The protocol names a holder this federation does not have.
        HolderError, RefusedError
            A holder the protocol cannot do without failed or refused.
        """
        return run(protocol, self, progress=progress)

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Send each message to its holder, all at once, and collect the replies."""
        arrived: dict[str, Reply] = {}
        work = {
            name: partial(self._ask, name, message, clock, arrived)
            for name, message in messages.items()
        }
        late = self._worked(work)
        replies: dict[str, Reply | Failure] = {}
        for name in messages:
            if name in late:
                replies[name] = Failure("holder-timeout", "timeout")
            else:
                replies[name] = arrived.get(name, Failure("holder-raised"))
        return replies

    def _ask(
        self,
        name: str,
        message: bytes,
        clock: Clock,
        arrived: dict[str, Reply],
    ) -> None:
        # Whatever a holder's code raises is a missing reply; its text stays here.
        with suppress(Exception, SystemExit):
            payload = self._replies[name](message)
            arrived[name] = Reply(payload, clock())

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
        late: frozenset[str] = frozenset()
        if self._timeout is None and (several == 1 or (here and self._seconds < _QUICK)):
            several = 1
            for each in work.values():
                each()
        else:
            late = self._threaded(work, several)
        self._seconds = (time.perf_counter() - started) * several / len(work)
        return late

    def _threaded(self, work: Mapping[str, Callable[[], None]], several: int) -> frozenset[str]:
        """Have so many threads work off everybody's answers; who is late."""
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
        return frozenset(late)


def _check_names(holders: Mapping[str, object]) -> None:
    if not holders:
        raise InputError("a federation needs at least one holder.", code="holder-names")
    for name in holders:
        if type(name) is not str or not name or name == COORDINATOR:
            raise InputError(
                f"{name!r} cannot name a holder: a non-empty text other than "
                f"{COORDINATOR!r} is needed.",
                code="holder-names",
            )


def _parties(holders: Mapping[str, Endpoint | Data]) -> dict[str, Endpoint]:
    """Who answers for each holder; data are answered for by a holder that allows everything."""
    parties: dict[str, Endpoint] = {}
    owned: dict[str, Measure] = {}
    for name, holder in holders.items():
        if isinstance(holder, Endpoint):
            parties[name] = holder
        else:
            owned[name] = Measure.of(holder)
    for name, measure in matched(owned).items():
        parties[name] = Holder(measure, Policy.open(), Ledger())
    return {name: parties[name] for name in holders}


def _check_columns(parties: Mapping[str, Endpoint]) -> None:
    """Refuse holders of two schemas, or that name their columns in different orders."""
    check_schemas(
        {name: party.schema for name, party in parties.items() if isinstance(party, Holder)}
    )
    named = {
        name: party.columns
        for name, party in parties.items()
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


def _replies(party: Endpoint, asker: str) -> Callable[[bytes], bytes]:
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


RUNTIMES["local"] = LocalFederation

__all__ = ["Endpoint", "LocalFederation", "Progress"]
