"""One party of a secure distance, as a process of its own, over mutually authenticated TLS."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from ...data.measure import Measure
from ...distances.questions import Describe
from ...distances.result import Distance
from ...errors import (
    HolderError,
    InputError,
    SolverError,
)
from ...federation.answer import Answer
from ...federation.party import Holder, Own
from ...federation.policy import Policy
from ...privacy.ledger import Ledger
from ._agreement import agreed, program_of, version
from ._engine import absent
from ._inputs import NAMES
from ._program import Program
from ._worker import Worker
from .charging import Request, charge, check_level
from .distance import Outcome, result_of_party
from .forecast import Forecast, forecast_of
from .options import ROLES, Role, SecureOptions
from .peers import Links, Peers
from .tunnel import Tunnel

# Seconds to meet the others; and how much longer than forecast a run may take.
_MEETING, _PATIENCE = 120.0, 10.0
# Seconds in which the number's receiver makes sure that the others know.
_FAREWELL = 2.0

Pay = Callable[[str, Program], object]
"""Called by a holder of data once parties agree, with a name no other run has: it charges."""


@dataclass(frozen=True)
class Played:
    """What a party knows after a run.

    Attributes
    ----------
    role
        Which party it was.
    receiver
        The party that was told the number.
    result
        The distance, for the receiver; ``None`` for the others.
    sent, received
        Bytes of this party.
    """

    role: Role
    receiver: str
    result: Distance | None
    sent: int
    received: int


def longest(expected: Forecast) -> float:
    """Most seconds that a run takes by default, that parties meet included."""
    return _MEETING + max(_MEETING, _PATIENCE * expected.seconds)


def play(
    role: Role,
    peers: Peers,
    options: SecureOptions,
    measure: Measure | None = None,
    *,
    timeout: float | None = None,
    policy: Policy | None = None,
    ledger: Ledger | None = None,
    tell: Callable[[Forecast], None] | None = None,
) -> Played:
    """Take part in a secure distance between processes, and wait for it.

    Parties first compare versions, options, sizes and dimensions, which are public; only when
    they agree, and every holder's ledger is charged, each data holder splits its records into
    secret shares, one for each party. The holders of data are ``"a"`` and ``"b"``; where the third
    party has data too, its union with ``"a"`` is compared with ``"b"``.

    The engine runs as a child of this process, which ends it in every case: with the number, when
    another party stops or is gone, and when time is up.

    Parameters
    ----------
    role
        ``"a"``, ``"b"`` or ``"third"``.
    peers
        Addresses and certificates.
    options
        Public options.
    measure
        This party's data; ``None`` for a third party without.
    timeout
        Most seconds from start to end. By default 120 to meet the others, and then 120 or ten
        times the forecast, whichever is more.
    policy, ledger
        The holder's rules, and what it charges the run to: see ``silot.sites.secure.charging``.
    tell
        Called with the forecast once parties agree, before any share is sent.

    Returns
    -------
    Played

    Raises
    ------
    InputError
        Data or a certificate that cannot take part.
    RefusedError
        The policy, or what is left in the ledger, does not allow the run.
    MismatchError
        Parties differ in a version (code ``"secure-version"``), an option
        (``"secure-options"``) or the number of features.
    HolderError
        A peer that is not there (``"secure-unreachable"``), has a wrong certificate
        (``"secure-certificate"``), stopped (``"secure-stopped"``), is gone (``"secure-lost"``) or
        does not go on (``"secure-timeout"``).
    SolverError
        The engine failed (``"secure-engine"``).
    ExtraError
        ``spu`` is not installed.
    """
    if measure is None and role != "third":
        raise InputError(f"{role!r} computes on its own data: give them.", code="secure-data")
    if role not in ROLES[: options.parties]:
        raise InputError(
            f"{options.protocol} is computed by {', '.join(ROLES[: options.parties])}; "
            f"{role!r} has no part in it.",
            code="option-role",
        )
    if measure is not None:
        check_level(policy)
    if find_spec("spu") is None:
        raise absent()
    links = peers.links(role, options.parties)

    def pay(session: str, program: Program) -> None:
        assert measure is not None
        request = Request(
            session=session,
            peers=dict(links.addresses),
            sizes=program.sizes,
            dimension=program.dimension,
            options=options.public(),
            asker=options.receiver,
            epsilon=options.privacy_epsilon,
        )
        charge(policy, ledger, request, Holder(measure))

    done = computed(role, links, options, measure, pay, timeout=timeout, tell=tell)
    result = result_of_party(done, options) if done.opened else None
    return Played(role, options.receiver, result, done.sent, done.received)


def computed(
    role: Role,
    links: Links,
    options: SecureOptions,
    measure: Measure | None = None,
    pay: Pay | None = None,
    *,
    timeout: float | None = None,
    tell: Callable[[Forecast], None] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Outcome:
    """Compute as one party, whoever says where the others are and what it costs.

    Parameters
    ----------
    role, options, measure, timeout, tell
        As ``play``.
    links
        The other parties.
    pay
        Charges the run to the holder of the measure.
    check
        Called again and again; what it raises ends the run.

    Returns
    -------
    Outcome

    Raises
    ------
    SilotError
        As ``play``.
    """
    with Tunnel(role, links) as tunnel, Worker(tunnel.folder) as worker:
        tunnel.watch(worker.descriptor)
        run = _Party(role, options, measure, tunnel, worker, timeout, check)
        try:
            return run.play(links.session, pay, tell)
        except BaseException:
            # The others wait: they are told that nothing will come, and not why.
            tunnel.say(stopped=True)
            tunnel.flush(1.0)
            raise


class _Party:
    """The steps of one party, each of which waits for the others."""

    def __init__(
        self,
        role: Role,
        options: SecureOptions,
        measure: Measure | None,
        tunnel: Tunnel,
        worker: Worker,
        timeout: float | None,
        check: Callable[[], None],
    ) -> None:
        self.role: Role = role
        self.options, self.measure = options, measure
        self.tunnel, self.worker, self.timeout, self.check = tunnel, worker, timeout, check
        self.began = time.monotonic()
        self.until = self.began + (_MEETING if timeout is None else timeout)

    def play(
        self,
        session: str,
        pay: Pay | None,
        tell: Callable[[Forecast], None] | None,
    ) -> Outcome:
        told = self._agree()
        program, owners = program_of(told, self.options)
        expected = forecast_of(program)
        if tell is not None:
            tell(expected)
        if self.timeout is None:
            self.until = time.monotonic() + longest(expected) - _MEETING
        self.worker.order(program=program.packed())
        nonces = [session, *(str(told[peer]["nonce"]) for peer in sorted(told))]
        session = hashlib.sha256("/".join(nonces).encode()).hexdigest()[:32]
        arrays: list[Any] = []
        if self.measure is not None:
            if pay is not None:
                # First: that records do not fit the public scale tells of them too.
                pay(session, program)
            answer = Own(self.measure).answer(self.options.inputs(program))
            assert isinstance(answer, Answer)
            arrays = [answer.arrays[name] for name in NAMES]
        self._computed("compiled")
        self.tunnel.say(ready=True)
        self._hear("ready")
        self.worker.order(
            arrays=[(array.shape, array.tobytes()) for array in arrays],
            session=session,
            rank=ROLES.index(self.role),
            addresses=self.tunnel.local(),
            seconds=max(self.until - time.monotonic(), 1.0),
            owners=[ROLES.index(owner) for owner in owners],
            receiver=ROLES.index(cast("Role", self.options.receiver)),
        )
        opened: list[float] = []
        parts = 0
        if self.role == self.options.receiver:
            done = self._computed("opened")
            opened, parts = done["opened"], int(done["parts"])
            self.tunnel.say(done=True)
            self.tunnel.flush(_FAREWELL)
        else:
            # What this party owes the number is sent when the receiver has it.
            self._hear("done", [self.options.receiver])
        return Outcome(
            opened=opened,
            parts=parts,
            sent=self.tunnel.sent,
            received=self.tunnel.received,
            seconds=time.monotonic() - self.began,
            program=program,
            owners=owners,
        )

    def _agree(self) -> dict[str, dict[str, Any]]:
        """Tell and hear what is public, and raise where parties differ."""
        own: dict[str, Any] = {
            "role": self.role,
            "silot": version(),
            "engine": self._computed("engine")["engine"],
            "options": self.options.public(),
            "digest": self.options.digest(),
            "nonce": os.urandom(16).hex(),
            "records": 0,
            "dimension": 0,
        }
        if self.measure is not None:
            described = Own(self.measure).answer(Describe(embedding=self.options.embedding))
            assert isinstance(described, Answer)
            own["records"] = described.scalars["records"]
            own["dimension"] = described.scalars["dimension"]
        self.tunnel.say(hello=own)
        said = {**self._hear("hello"), self.role: own}
        return agreed({peer: said[peer] for peer in self.tunnel.addresses}, own)

    def _hear(self, word: str, peers: list[str] | None = None) -> dict[str, Any]:
        """Wait until the others have said a word, and return what."""
        missing = set(self.tunnel.peers if peers is None else peers)
        said: dict[str, Any] = {}
        while missing:
            for peer in list(missing):
                words = self.tunnel.heard[peer]
                if words and word in words[0]:
                    said[peer] = words.popleft()[word]
                    missing.discard(peer)
            if missing:
                self._wait(missing)
        return said

    def _computed(self, word: str) -> dict[str, Any]:
        """Wait until the engine has said a word."""
        while not self.worker.heard:
            self._wait(self.tunnel.peers)
        words = self.worker.heard.popleft()
        if word in words:
            return words
        self._settle()
        raise SolverError(
            f"the engine stopped ({words.get('failed', 'without a word')}). Use fewer records or "
            "features, or see what the other parties say.",
            code="secure-engine",
        )

    def _settle(self) -> None:
        """Hear what became of the others, whose end may be why the engine failed here."""
        until = min(time.monotonic() + 1.0, self.until)
        while time.monotonic() < until:
            self._wait(self.tunnel.peers)

    def _wait(self, awaited: Iterable[str]) -> None:
        """Serve the links for a moment, and raise when there is nothing to wait for."""
        self.check()
        self.tunnel.poll(0.1)
        there = self.worker.poll()
        for peer in awaited:
            words, name = self.tunnel.heard[peer], self.tunnel.names[peer]
            if words and "stopped" in words[0]:
                raise HolderError(
                    f"{name!r} cannot take part, or cannot go on. Its owner sees why there.",
                    code="secure-stopped",
                )
            if not words and peer in self.tunnel.lost:
                raise HolderError(
                    f"{name!r} is gone: its process ended or its machine does not answer.",
                    code="secure-lost",
                )
        if not there and not self.worker.heard:
            self.worker.heard.append({"failed": "without a word"})
        if time.monotonic() > self.until:
            raise self.tunnel.unreachable() or HolderError(
                f"time is up after {time.monotonic() - self.began:.0f} s. Raise the timeout, use "
                "fewer records, or see what the other parties say.",
                code="secure-timeout",
            )
