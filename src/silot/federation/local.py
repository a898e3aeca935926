"""The embedded runtime: holders in this process, through the same bytes as deployed ones."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol as TypingProtocol
from typing import cast, runtime_checkable

from silot_transport._check import real

from ..data.matching import check_schemas, match_columns
from ..data.measure import Data, Measure
from ..errors import InputError, MismatchError
from ..privacy.ledger import Ledger
from .answer import Failure
from .exchange import LARGEST_FLIGHT, Limits, exchange
from .party import Holder, Party
from .policy import Policy
from .protocol import COORDINATOR, Protocol
from .release import Release
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
    that bytes on the cost are real. Holders answer concurrently.

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
                f"{asker!r} cannot be the name of an asker: give a non-empty text.",
                code="asker-name",
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

    @property
    def in_memory(self) -> bool:
        """Whether the ledger of a holder is in memory, and forgets its charges with the process."""
        parties = [party for party in self._holders.values() if isinstance(party, Party)]
        return any(party.in_memory for party in parties)

    def run(
        self, protocol: Protocol[B], *, progress: Callable[[Progress], None] | None = None
    ) -> B:
        """Run a protocol and return its result with its cost and transcript.

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
        started = time.perf_counter()
        several = min(len(messages), os.cpu_count() or 1)
        # Of other parties nobody knows whether they wait for one another, or for a wire.
        here = all(type(self._holders[name]) in (Holder, _Owned) for name in messages)
        if self._timeout is None and (several == 1 or (here and self._seconds < _QUICK)):
            # A thread takes as long as a small answer, and waits for the others' interpreter lock.
            several = 1
            replies = {name: self._at_once(name, messages[name], clock) for name in messages}
        else:
            # As many at work as there are processors, or a hundred holders would hold a hundred
            # cost matrices. With a timeout more start at once: they may wait for a wire.
            several = several if self._timeout is None else min(len(messages), LARGEST_FLIGHT)
            limits = Limits(deadline=self._timeout, in_flight=several)
            replies = exchange(messages, self._ask, clock, limits)
        self._seconds = (time.perf_counter() - started) * several / len(messages)
        return replies

    def _ask(self, name: str, message: bytes, _: float) -> bytes:
        return self._replies[name](message)

    def _at_once(self, name: str, message: bytes, clock: Clock) -> Reply | Failure:
        # Whatever a holder's code raises is a missing reply; its text stays here.
        with suppress(Exception, SystemExit):
            return Reply(self._ask(name, message, 0.0), clock())
        return Failure("holder-raised")


class _Owned(Holder):
    """Data of the caller: their ledger is opened for the first release, and counts nothing else."""

    def _release(self, release: Release, asker: str, run: str) -> bytes:
        with self._lock:
            self._ledger = self._ledger or Ledger()
        return super()._release(release, asker, run)


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
    """Return who answers for each holder; plain data get a holder that allows everything."""
    parties: dict[str, Endpoint] = {}
    owned: dict[str, Measure] = {}
    for name, holder in holders.items():
        # Whether it is a protocol of typing takes long to say.
        if not isinstance(holder, Measure) and isinstance(holder, Endpoint):
            parties[name] = holder
        else:
            owned[name] = Measure.of(holder)
    for name, measure in match_columns(owned).items():
        parties[name] = _Owned(measure, Policy.open())
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
            f"{first!r} and {other!r} have different columns, or the same in another order, "
            "and such holders receive questions by position of a column. Give all of them "
            "the same columns in the same order.",
            code="columns-mismatch",
        )


def _replies(party: Endpoint, asker: str) -> Callable[[bytes], bytes]:
    """Return the function that asks a party in the name of the asker."""
    if isinstance(party, Party) and type(party).reply is Party.reply:
        return lambda message: party.reply(message, asker)
    try:
        parameters = inspect.signature(party.reply).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        named = "asker" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
    except (TypeError, ValueError):
        named = False
    if not named:
        return lambda message: party.reply(message)
    reply = cast("Callable[..., bytes]", party.reply)
    return lambda message: reply(message, asker=asker)


RUNTIMES["local"] = LocalFederation

__all__ = ["Endpoint", "LocalFederation", "Progress"]
