"""One party of a secure distance, as a process of its own, over mutually authenticated TLS."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any, cast

from ..errors import HolderError, InputError, MismatchError, SilotError
from ..federation.answer import Answer
from ..federation.disclosure import Disclosure
from ..federation.holder import Own
from ..federation.question import Describe
from ..measure import Measure
from ..results import Distance, Run
from . import _engine as engine
from ._inputs import NAMES
from ._program import Program
from .distance import result_of, transcript_of
from .options import ROLES, Role, SecureOptions
from .peers import Peers
from .tunnel import Tunnel


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


def play(
    role: Role,
    peers: Peers,
    options: SecureOptions,
    measure: Measure | None = None,
    *,
    timeout: float = 120.0,
) -> Played:
    """Take part in a secure distance between processes, and wait for it.

    Parties first compare versions, options, sizes and dimensions, which are public; only when
    they agree, each data holder splits its records into secret shares, one for each party. The
    holders of data are ``"a"`` and ``"b"``; where the third party has data too, its union with
    ``"a"`` is compared with ``"b"``.

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
        Seconds to wait for the others, at the start and in every step.

    Returns
    -------
    Played

    Raises
    ------
    InputError
        Data or a certificate that cannot take part.
    MismatchError
        Parties differ in a version (code ``"secure-version"``), an option
        (``"secure-options"``) or the number of features.
    HolderError
        A peer that is not there (``"secure-unreachable"``), has a wrong certificate
        (``"secure-certificate"``) or does not go on (``"secure-timeout"``).
    ExtraError
        ``spu`` is not installed.
    """
    began = time.perf_counter()
    if (measure is None) == (role != "third") and role != "third":
        raise InputError(f"{role!r} computes on its own data: give them.", code="secure-data")
    if role not in ROLES[: options.parties]:
        raise InputError(
            f"{options.protocol} is computed by {', '.join(ROLES[: options.parties])}; "
            f"{role!r} has no part in it.",
            code="option-role",
        )
    engine.load()
    addresses = peers.addresses(options.parties)
    with Tunnel(role, addresses, peers.files(role), timeout) as tunnel:
        try:
            link = engine.connect(peers.session, ROLES.index(role), tunnel.local(), timeout)
            told = _agree(link, role, options, measure)
            program, owners = _program(told, options)
            opened, parts = _compute(link, role, options, program, owners, measure)
        except SilotError:
            raise
        except Exception as error:  # noqa: BLE001 - the engine raises RuntimeError and its like
            raise HolderError(
                f"another party stopped, or did not go on in time ({type(error).__name__}). See "
                "what it says, or raise the timeout.",
                code="secure-timeout",
            ) from None
        try:
            # What is left in the engine's queues must be on its way before the tunnel ends.
            engine.finish(link)
        except Exception as error:  # noqa: BLE001 - as above
            # The receiver has its number, whatever became of the others since.
            if not opened:
                raise HolderError(
                    f"another party stopped at the end ({type(error).__name__}); the receiver may "
                    "have the number all the same.",
                    code="secure-timeout",
                ) from None
    sent, received = tunnel.sent, tunnel.received
    traffic = (engine.Traffic(sent, received, 0),)
    result = None
    if opened:
        seconds = time.perf_counter() - began
        split = program.split
        sides = "+".join(owners[:split]), "+".join(owners[split:])
        run = Run(
            rounds=1,
            bytes_sent=sent,
            bytes_received=received,
            seconds=seconds,
            disclosure=str(Disclosure.SCALAR),
            privacy_mu=options.privacy_epsilon or 0.0,
            transcript=transcript_of(opened, parts, options, program, owners, seconds),
        )
        result = result_of(opened, parts, options, program, sides, "secure", traffic).with_run(run)
    return Played(role, options.receiver, result, sent, received)


def _agree(
    link: Any, role: Role, options: SecureOptions, measure: Measure | None
) -> dict[str, dict[str, Any]]:
    """Tell and hear what is public, and raise where parties differ."""
    own: dict[str, Any] = {
        "role": role,
        "silot": _version(),
        "engine": engine.version(),
        "options": options.public(),
        "digest": options.digest(),
        "records": 0,
        "dimension": 0,
    }
    if measure is not None:
        described = Own(measure).answer(Describe(embedding=options.embedding))
        assert isinstance(described, Answer)
        own["records"] = described.scalars["records"]
        own["dimension"] = described.scalars["dimension"]
    told = [_heard(text) for text in engine.gather(link, json.dumps(own, sort_keys=True))]
    for peer, other in zip(ROLES, told, strict=False):
        if other["role"] != peer:
            raise MismatchError(
                f"the party at the address of {peer!r} says it is another one. Give every party "
                "its role and the same peers.yml.",
                code="secure-role",
            )
        for name in ("silot", "engine"):
            if other[name] != own[name]:
                raise MismatchError(
                    f"{peer!r} runs another version of {name}. Install the same everywhere.",
                    code="secure-version",
                )
        if other["digest"] != own["digest"]:
            theirs = other["options"] if isinstance(other["options"], dict) else {}
            names = sorted(
                name for name, value in options.public().items() if theirs.get(name) != value
            )
            raise MismatchError(
                f"{peer!r} runs with other options: {', '.join(names) or 'unknown ones'}. Agree "
                "on all of them.",
                code="secure-options",
            )
    return dict(zip(ROLES, told, strict=False))


def _heard(text: str | bytes) -> dict[str, Any]:
    try:
        said = cast("object", json.loads(text))
    except ValueError:
        said = None
    expected = {
        "role": str, "silot": str, "engine": str, "digest": str, "options": dict,
        "records": int, "dimension": int,
    }  # fmt: skip
    if not isinstance(said, dict):
        said = {}
    words = cast("dict[str, Any]", said)
    if not all(isinstance(words.get(name), kind) for name, kind in expected.items()):
        raise HolderError(
            "a party said something that is not silot's. Install the same version everywhere.",
            code="secure-version",
        )
    return words


def _program(
    told: dict[str, dict[str, Any]], options: SecureOptions
) -> tuple[Program, tuple[Role, ...]]:
    """Return the program for the sizes told, and who owns its inputs."""
    owners = tuple(role for role in ("a", "third", "b") if role in told and told[role]["records"])
    if "a" not in owners or "b" not in owners:
        raise MismatchError("'a' and 'b' need data; one of them has none.", code="secure-data")
    widths = {int(told[role]["dimension"]) for role in owners}
    if len(widths) > 1:
        raise MismatchError(
            f"the parties have {' and '.join(map(str, sorted(widths)))} features. Give all the "
            "same features in the same order.",
            code="dimension-mismatch",
        )
    sizes = tuple(int(told[role]["records"]) for role in owners)
    return options.program(sizes, len(owners) - 1, widths.pop()), cast("tuple[Role, ...]", owners)


def _compute(
    link: Any,
    role: Role,
    options: SecureOptions,
    program: Program,
    owners: tuple[Role, ...],
    measure: Measure | None,
) -> tuple[list[float], int]:
    """Share, compute, and open the number towards the receiver; also the parts computed."""
    rank = ROLES.index(role)
    ready = "ready"
    shares: list[bytes] = []
    failure: SilotError | None = None
    try:
        if measure is not None:
            answer = Own(measure).answer(options.inputs(program))
            assert isinstance(answer, Answer)
            shares = engine.shares_of([answer.arrays[name] for name in NAMES], program)
        executable = engine.compiled(program, 0)
    except SilotError as error:
        # The others wait for shares: they are told that none will come, and not why.
        ready, failure, executable = "stopped", error, None
    states = engine.gather(link, ready)
    if failure is not None:
        raise failure
    for peer, state in zip(ROLES, states, strict=False):
        if state not in ("ready", b"ready"):
            raise HolderError(
                f"{peer!r} cannot take part with its data. Its owner sees why there.",
                code="secure-stopped",
            )
    inputs = [engine.deal(link, ROLES.index(owner), shares) for owner in owners]
    output, parts = engine.run_party(link, program, executable, inputs)
    place = ROLES.index(options.receiver)
    gathered = engine.collect(link, place, output)
    return (engine.opened_from(gathered, program) if rank == place else []), parts


def _version() -> str:
    try:
        return installed("silot")
    except PackageNotFoundError:
        return "0"
