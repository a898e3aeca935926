"""One party of a secure distance, as a process of its own, over mutually authenticated TLS."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, cast

from ... import __version__
from ...data.measure import Measure
from ...distances.questions import Describe
from ...distances.result import Distance
from ...errors import HolderError, InputError, MismatchError, SolverError
from ...federation.answer import Answer
from ...federation.party import Holder, Own
from ...federation.policy import Policy
from ...privacy.ledger import Ledger
from ._engine import missing_spu
from ._inputs import NAMES
from ._program import Program
from ._worker import Worker
from .charging import Request, charge
from .distance import Outcome, build_party_result
from .forecast import Forecast, forecast_program
from .options import ROLES, Role, SecureOptions
from .peers import Links, Peers
from .tunnel import Tunnel

# Seconds to meet the others; and how much longer than forecast a run may take.
_MEETING, _PATIENCE = 120.0, 10.0
# Seconds in which the number's receiver makes sure that the others learn of the end.
_FAREWELL = 2.0

Pay = Callable[[str, Program], object]
"""Charges a holder of data once parties agree; called with a name no other run has."""


@dataclass(frozen=True)
class Played:
    """What a party knows after a run."""

    role: Role
    """Which party it was."""
    receiver: str
    """The party that received the number."""
    result: Distance | None
    """The distance, for the receiver; ``None`` for the others."""
    sent: int
    """Bytes this party sent."""
    received: int
    """Bytes this party received."""


def longest_seconds(expected: Forecast) -> float:
    """Return the most seconds that a run takes by default, the parties' meeting included."""
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
    they agree, and every holder's ledger is charged, each holder of data splits its records into
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
        Most seconds for the whole run. By default 120 to meet the others, and then 120 or ten
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
        does not continue (``"secure-timeout"``).
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
            f"{role!r} is not among them.",
            code="option-role",
        )
    if find_spec("spu") is None:
        raise missing_spu()
    links = peers.links(role, options.parties)

    def pay(session: str, program: Program) -> None:
        assert measure is not None
        request = Request(
            session=session, peers=dict(links.addresses), sizes=program.sizes,
            dimension=program.dimension, options=options.public(), asker=options.receiver,
            epsilon=options.privacy_epsilon,
        )  # fmt: skip
        charge(policy, ledger, request, Holder(measure))

    outcome = compute_as_party(role, links, options, measure, pay, timeout=timeout, tell=tell)
    result = build_party_result(outcome, options) if outcome.opened else None
    return Played(role, options.receiver, result, outcome.sent, outcome.received)


def compute_as_party(
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
        try:
            party = _Party(role, options, measure, tunnel, worker, timeout, check)
            return party.play(links.session, pay, tell)
        except BaseException:
            # The others would wait for ever: they learn that nothing will come, and not why.
            tunnel.say(stopped=True)
            tunnel.flush(1.0)
            raise


@dataclass
class _Party:
    """The steps of one party, each of which waits for the others."""

    role: Role
    options: SecureOptions
    measure: Measure | None
    tunnel: Tunnel
    worker: Worker
    timeout: float | None
    check: Callable[[], None]
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.until = self.began + (_MEETING if self.timeout is None else self.timeout)

    def play(
        self, session: str, pay: Pay | None, tell: Callable[[Forecast], None] | None
    ) -> Outcome:
        """Agree, pay, compute, and return how the run ended."""
        statements = self._agree()
        program, owners = build_program(statements, self.options)
        expected = forecast_program(program)
        if tell is not None:
            tell(expected)
        if self.timeout is None:
            self.until = time.monotonic() + longest_seconds(expected) - _MEETING
        self.worker.order(program=program.packed())
        nonces = [session, *(str(statements[peer]["nonce"]) for peer in sorted(statements))]
        session = hashlib.sha256("/".join(nonces).encode()).hexdigest()[:32]
        arrays: list[Any] = []
        if self.measure is not None:
            if pay is not None:
                # Before the inputs: whether records fit the public scale discloses something too.
                pay(session, program)
            answer = Own(self.measure).answer(self.options.inputs(program))
            assert isinstance(answer, Answer)
            arrays = [answer.arrays[name] for name in NAMES]
        self._await_engine("compiled")
        self.tunnel.say(ready=True)
        self._await_peers("ready")
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
            report = self._await_engine("opened")
            opened, parts = report["opened"], int(report["parts"])
            self.tunnel.say(done=True)
            self.tunnel.flush(_FAREWELL)
        else:
            # Once the receiver has the number, it needs nothing more that this party sends.
            self._await_peers("done", [self.options.receiver])
        return Outcome(
            opened=opened, parts=parts, sent=self.tunnel.sent, received=self.tunnel.received,
            seconds=time.monotonic() - self.began, program=program, owners=owners,
        )  # fmt: skip

    def _agree(self) -> dict[str, dict[str, Any]]:
        """Exchange what is public, and raise where parties differ."""
        own: dict[str, Any] = {
            "role": self.role,
            "silot": __version__,
            "engine": self._await_engine("engine")["engine"],
            "options": self.options.public(),
            "digest": self.options.digest(),
            "nonce": os.urandom(16).hex(),
            "records": 0,
            "dimension": 0,
        }
        if self.measure is not None:
            described = Own(self.measure).answer(Describe(embedding=self.options.embedding))
            assert isinstance(described, Answer)
            own |= {name: described.scalars[name] for name in ("records", "dimension")}
        self.tunnel.say(hello=own)
        statements = {**self._await_peers("hello"), self.role: own}
        return check_agreement({peer: statements[peer] for peer in self.tunnel.addresses}, own)

    def _await_peers(self, word: str, peers: list[str] | None = None) -> dict[str, Any]:
        """Wait until the others have said a word, and return what."""
        missing = set(self.tunnel.peers if peers is None else peers)
        statements: dict[str, Any] = {}
        while missing:
            for peer in list(missing):
                words = self.tunnel.heard[peer]
                if words and word in words[0]:
                    statements[peer] = words.popleft()[word]
                    missing.discard(peer)
            if missing:
                self._wait(missing)
        return statements

    def _await_engine(self, word: str) -> dict[str, Any]:
        """Wait until the engine reports a word, and return the report."""
        while not self.worker.reports:
            self._wait(self.tunnel.peers)
        report = self.worker.reports.popleft()
        if word in report:
            return report
        self._await_cause()
        raise SolverError(
            f"the engine stopped ({report.get('failed', 'without a word')}). Use fewer "
            "records or features, or read what the other parties report.",
            code="secure-engine",
        )

    def _await_cause(self) -> None:
        """Wait a moment for news of the others: the end of one may be why the engine failed."""
        until = min(time.monotonic() + 1.0, self.until)
        while time.monotonic() < until:
            self._wait(self.tunnel.peers)

    def _wait(self, awaited: Iterable[str]) -> None:
        """Serve the links for a moment, and raise when there is nothing to wait for."""
        self.check()
        self.tunnel.poll(0.1)
        is_running = self.worker.poll()
        for peer in awaited:
            words, name = self.tunnel.heard[peer], self.tunnel.names[peer]
            if words and "stopped" in words[0]:
                raise HolderError(
                    f"{name!r} cannot take part, or cannot continue. Its owner finds the reason in "
                    "its log.",
                    code="secure-stopped",
                )
            if not words and peer in self.tunnel.lost:
                raise HolderError(
                    f"{name!r} is gone: its process ended or its machine does not answer.",
                    code="secure-lost",
                )
        if not is_running and not self.worker.reports:
            self.worker.reports.append({"failed": "without a word"})
        if time.monotonic() > self.until:
            raise self.tunnel.find_unreachable() or HolderError(
                f"the time limit passed after {time.monotonic() - self.began:.0f} s. Raise the "
                "timeout, use fewer records, or read what the other parties report.",
                code="secure-timeout",
            )


def check_agreement(statements: dict[str, Any], own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what all parties say of themselves, or raise where they differ from this one."""
    checked = {peer: _check_statement(words) for peer, words in statements.items()}
    for peer, other in checked.items():
        if other["role"] != peer:
            raise MismatchError(
                f"the party at the address of {peer!r} has another role. Give every party its "
                "role and the same peers.yml.",
                code="secure-role",
            )
        for name in ("silot", "engine"):
            if other[name] != own[name]:
                raise MismatchError(
                    f"{peer!r} runs another version of {name}. Install the same everywhere.",
                    code="secure-version",
                )
        if other["digest"] != own["digest"]:
            theirs = other["options"]
            names = sorted(
                name for name, value in own["options"].items() if theirs.get(name) != value
            )
            raise MismatchError(
                f"{peer!r} runs with other options: {', '.join(names) or 'unknown ones'}. Agree "
                "on all of them.",
                code="secure-options",
            )
    return checked


def _check_statement(statement: Any) -> dict[str, Any]:
    """Return what a party says of itself, checked to have the fields of a statement."""
    expected = {
        "role": str, "silot": str, "engine": str, "digest": str, "options": dict,
        "nonce": str, "records": int, "dimension": int,
    }  # fmt: skip
    words = cast("dict[str, Any]", statement) if isinstance(statement, dict) else {}
    if not all(isinstance(words.get(name), kind) for name, kind in expected.items()):
        raise HolderError(
            "a party sent something that is not a message of silot. Install the same "
            "version everywhere.",
            code="secure-version",
        )
    return words


def build_program(
    statements: dict[str, dict[str, Any]], options: SecureOptions
) -> tuple[Program, tuple[Role, ...]]:
    """Return the program for the sizes that parties stated, and who owns its inputs."""
    owners = tuple(
        role for role in ("a", "third", "b") if role in statements and statements[role]["records"]
    )
    if "a" not in owners or "b" not in owners:
        raise MismatchError("'a' and 'b' need data; one of them has none.", code="secure-data")
    widths = {int(statements[role]["dimension"]) for role in owners}
    if len(widths) > 1:
        raise MismatchError(
            f"the parties have {' and '.join(map(str, sorted(widths)))} features. Give all the "
            "same features in the same order.",
            code="dimension-mismatch",
        )
    sizes = tuple(int(statements[role]["records"]) for role in owners)
    return options.program(sizes, len(owners) - 1, widths.pop()), cast("tuple[Role, ...]", owners)
