"""The engine of the secure distance: spu, which runs a function of jax on secret shares.

spu and jax are imported here and nowhere else, inside functions, because they are an optional
extra.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgpack import packb

from ...data.foreign import unpack
from ...errors import ExtraError, InputError, SolverError, WireError
from ._program import Program

Array = npt.NDArray[np.float64]

# Parties that compute, by the name of the protocol.
PARTIES = {"aby3": 3, "cheetah": 2}
# Protocols of spu that are refused, because one party could open every share, or might.
_UNTRUSTWORTHY = {
    "semi2k": "its first party creates the randomness and could reconstruct every share",
    "ref2k": "it computes on unencrypted numbers",
    "securenn": "its third party helps without a share, which was not examined for this use",
}
# Most bits after the point that 64-bit numbers are used with: above, products overflow too soon.
_NARROW = 24
# Outputs of a part before its state: what is opened, and whether it is enough.
_BEFORE_STATE = 2
_SENT = re.compile(r"Link details: total send bytes (\d+), recv bytes (\d+), send actions (\d+)")


@dataclass(frozen=True)
class Traffic:
    """What one party sent and received, and in how many messages it sent it."""

    sent: int
    received: int
    messages: int


# The first version of Python for which spu has no wheels.
_FIRST_WITHOUT = (3, 12)


def missing_spu() -> ExtraError:
    """Return the error for where spu is not installed."""
    words = "a secure distance needs spu (about 1 GB, with numpy 1.26), "
    if sys.version_info >= _FIRST_WITHOUT:
        words += "which has wheels for Python 3.11 only. Use Python 3.11"
    else:
        words += "which is not installed. Run: pip install 'silot[secure]'"
    return ExtraError(f"{words}.", code="extra-secure")


def import_spu() -> Any:
    """Import spu, or say which extra to install."""
    try:
        import spu  # pyright: ignore[reportMissingImports]
        from spu.utils import frontend  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise missing_spu() from None
    assert frontend is not None
    return spu


def read_version() -> str:
    """Return the version of the engine, which all parties must share."""
    return str(import_spu().__version__)


def configure(program: Program) -> Any:
    """Make spu's configuration; one whose shares one party could open is refused."""
    lib = import_spu().libspu
    check_protocol(program.protocol)
    bits = -round(math.log2(program.effort.unit))
    config = lib.RuntimeConfig(
        protocol=getattr(lib.ProtocolKind, program.protocol.upper()),
        field=lib.FieldType.FM64 if bits <= _NARROW else lib.FieldType.FM128,
        fxp_fraction_bits=bits,
    )
    return check_trust(config, PARTIES[program.protocol])


def check_protocol(protocol: str) -> None:
    """Raise for a protocol whose shares one party could open, or that silot does not know."""
    if protocol not in PARTIES:
        why = _UNTRUSTWORTHY.get(str(protocol).lower(), "it was not examined for this use")
        raise InputError(
            f"protocol {protocol!r} is refused: {why}. Use 'aby3' (three parties, no two of "
            "whom collude) or 'cheetah' (the two holders alone).",
            code="secure-trust",
        )


def check_trust(config: Any, parties: int) -> Any:
    """Return spu's configuration, or raise if one party could open the shares under it."""
    kind = str(config.protocol).rsplit(".", 1)[-1].lower()
    check_protocol(kind)
    if parties != PARTIES[kind]:
        raise InputError(
            f"{kind} is computed by {PARTIES[kind]} parties; {parties} are given.",
            code="secure-trust",
        )
    return config


def compile_part(program: Program, part: int) -> Any:
    """Compile a part of the program for arrays of its (public) shapes."""
    spu = import_spu()
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
    from jax.experimental import enable_x64  # pyright: ignore[reportMissingImports]
    from spu.utils import frontend  # pyright: ignore[reportMissingImports]

    def repeat(count: int, body: Callable[[Any], Any], state: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, state: body(state), state)

    def function(*arrays: Any) -> Any:
        return program.run(part, cast("Any", jnp), repeat, arrays)

    shapes = program.shapes if part == 0 else program.kept_shapes
    names = [
        f"in{place}" if part == 0 else _name_output(part - 1, _BEFORE_STATE + place)
        for place in range(len(shapes))
    ]
    secret = spu.libspu.Visibility.VIS_SECRET
    with enable_x64():
        executable, _ = frontend.compile(
            frontend.Kind.JAX,
            function,
            [np.zeros(shape) for shape in shapes],
            {},
            names,
            [secret] * len(names),
            lambda outputs: [_name_output(part, place) for place in range(len(outputs))],
        )
    return executable


def split_arrays(arrays: Sequence[Array], program: Program) -> list[bytes]:
    """Split arrays into secret shares: one message for each computing party."""
    spu = import_spu()
    parties = PARTIES[program.protocol]
    io = spu.Io(parties, configure(program))
    split = [
        io.make_shares(np.asarray(array), spu.libspu.Visibility.VIS_SECRET) for array in arrays
    ]
    return [_encode([_pack(shares[party]) for shares in split]) for party in range(parties)]


def reconstruct(shares: Sequence[bytes], program: Program) -> list[float]:
    """Open an array from the shares of all parties."""
    io = import_spu().Io(PARTIES[program.protocol], configure(program))
    opened = np.atleast_1d(io.reconstruct([_unpack(_decode(share)) for share in shares]))
    return [float(number) for number in opened]


def run_party(
    link: Any, program: Program, executable: Any, inputs: Sequence[bytes], *, counted: bool = False
) -> tuple[bytes, int]:
    """Run the program as one party; return its share of what is opened, and the number of parts.

    Before the last part, all parties open whether another one is needed. Traffic is ``counted`` in
    the log of the engine.
    """
    spu = import_spu()
    config = configure(program)
    config.enable_pphlo_profile = counted
    runtime = spu.Runtime(link, config)
    received = [share for message in inputs for share in _decode(message)]
    for name, share in zip(executable.input_names, received, strict=True):
        runtime.set_var(name, _unpack(share))
    for part in range(program.parts):
        if part > 0:
            executable = compile_part(program, part)
        runtime.run(executable)
        if part + 1 < program.parts:
            share = _encode(_pack(runtime.get_var(_name_output(part, 1))))
            # As hexadecimal digits, because the engine gathers nothing but text.
            shares = [bytes.fromhex(text) for text in link.all_gather(share.hex())]
            if reconstruct(shares, program)[0] < 0.5:
                continue
        return _encode(_pack(runtime.get_var(_name_output(part, 0)))), part + 1
    raise AssertionError("the last part has no successor")


def connect(session: str, rank: int, addresses: Mapping[str, str], timeout: float) -> Any:
    """Link the engine of this process with the others, through the sockets of a tunnel."""
    link = import_spu().libspu.link
    description = link.Desc()
    description.id = session
    for name, address in addresses.items():
        description.add_party(name, address)
    wait = max(1, round(1000 * timeout))
    description.recv_timeout_ms = description.http_timeout_ms = wait
    # One connection a direction, because each one costs the tunnel a TLS handshake.
    description.brpc_channel_connection_type = "single"
    # Engines start at different times, and each tries until the time of the run is up.
    description.connect_retry_interval_ms = 100
    description.connect_retry_times = max(1, wait // 100)
    return link.create_brpc(description, rank)


def deal(link: Any, owner: int, shares: Sequence[bytes]) -> bytes:
    """Send an owner's shares, each to its party, and return this party's."""
    if link.rank != owner:
        return link.recv(owner)
    for party, share in enumerate(shares):
        if party != owner:
            link.send(party, share)
    return shares[owner]


def collect(link: Any, receiver: int, share: bytes) -> list[bytes]:
    """Return all shares of the number to the receiver, and an empty list to the others."""
    if link.rank != receiver:
        link.send(receiver, share)
        return []
    return [share if party == receiver else link.recv(party) for party in range(link.world_size)]


def simulate(program: Program, inputs: Sequence[Sequence[Array]]) -> Simulated:
    """Run all parties as threads of this process, and open the number."""
    spu = import_spu()
    start_log()
    parties = PARTIES[program.protocol]
    executable = compile_part(program, 0)
    messages = [split_arrays(arrays, program) for arrays in inputs]
    description = spu.libspu.link.Desc()
    for party in range(parties):
        description.add_party(f"party-{party}", f"thread-{party}")
    # What each party's thread ends with.
    outputs: list[tuple[bytes, int] | Exception] = [(b"", 0)] * parties

    def work(party: int) -> None:
        try:
            link = spu.libspu.link.create_mem(description, party)
            own = [message[party] for message in messages]
            outputs[party] = run_party(link, program, executable, own, counted=True)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            outputs[party] = error

    with _simulating:
        mark = measure_log()
        threads = [threading.Thread(target=work, args=(party,)) for party in range(parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        traffic = read_traffic(mark)
    failed = [output for output in outputs if isinstance(output, Exception)]
    if failed:
        raise SolverError(
            f"the engine stopped ({type(failed[0]).__name__}). Use fewer records or features.",
            code="secure-engine",
        ) from None
    results = cast("list[tuple[bytes, int]]", outputs)
    opened = reconstruct([share for share, _ in results], program)
    # The log has one line a party and part; all parties end a part before any begins the next.
    sums = [_sum(traffic[party::parties]) for party in range(parties)]
    return Simulated(opened, results[0][1], tuple(sums))


@dataclass(frozen=True)
class Simulated:
    """What was opened, after how many parts, and what the parties sent, in no order."""

    opened: list[float]
    parts: int
    traffic: tuple[Traffic, ...]


_simulating = threading.Lock()


@cache
def start_log(folder: Path | None = None) -> Path:
    """Send spu's messages to a file, and return it: traffic is counted from it."""
    import spu  # pyright: ignore[reportMissingImports]

    path = (folder or Path(tempfile.mkdtemp(prefix="silot-spu-"))) / "spu.log"
    options = spu.libspu.logging.LogOptions()
    options.enable_console_logger = False
    options.system_log_path = str(path)
    spu.libspu.logging.setup_logging(options)
    return path


def measure_log() -> int:
    """Return where the log of this process ends now."""
    path = start_log()
    return path.stat().st_size if path.exists() else 0


def read_traffic(mark: int) -> tuple[Traffic, ...]:
    """Return what the parties of this process sent since the log ended at the mark."""
    path = start_log()
    if not path.exists():
        return ()
    text = path.read_bytes()[mark:].decode(errors="replace")
    return tuple(Traffic(*map(int, numbers)) for numbers in _SENT.findall(text))


def _encode(parts: Any) -> bytes:
    return cast("bytes", packb(parts))


def _decode(message: bytes) -> list[Any]:
    def fail(why: str) -> WireError:
        return WireError(
            f"another party sent no shares ({why}). Install the same silot everywhere.",
            code="wire-format",
        )

    parts = unpack(message, fail)
    if not isinstance(parts, list):
        raise fail("it is not a list")
    return cast("list[Any]", parts)


def _pack(share: Any) -> list[Any]:
    return [share.meta, list(share.share_chunks)]


def _unpack(parts: Any) -> Any:
    share = import_spu().libspu.Share()
    share.meta, share.share_chunks = parts
    return share


def _sum(traffic: Sequence[Traffic]) -> Traffic:
    return Traffic(*(
        sum(getattr(item, name) for item in traffic) for name in ("sent", "received", "messages")
    ))  # fmt: skip


def _name_output(part: int, place: int) -> str:
    return f"out{part}-{place}"
