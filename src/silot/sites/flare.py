"""NVFlare as the wire: what runs in its server and sites, and how an asker reaches them.

A site's component lives in NVFlare's long-lived process and answers bytes with bytes; no job is
ever submitted. The server's component passes bytes from askers to sites and back.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509

from ..errors import HolderError, MismatchError, SilotError
from ..federation.exchange import Unreached
from .authority import Role, verify_member
from .checks import check_server
from .configuration import open_site
from .credential import Identity, find_writer_fault, read_presence, write_presence
from .engine import CHANNEL, make_target, missing_engine, set_grpc_environment
from .health import VARIABLE, serve_health
from .kit import LOCAL, Kit
from .process_lock import BEAT, ELSEWHERE, KitCopies, copied_elsewhere, identify_copy, lock_kit
from .project import SERVER
from .site import make_refusal, read_refusal

set_grpc_environment()

try:
    from nvflare.apis.event_type import EventType
    from nvflare.apis.fl_component import FLComponent
    from nvflare.apis.fl_constant import ConnectionSecurity, FLContextKey, ReservedKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal
    from nvflare.apis.utils.decomposers import flare_decomposers
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.cellnet.defs import (
        CellChannel,
        Encoding,
        MessageHeaderKey,
        MessageType,
        ReturnCode,
    )
    from nvflare.fuel.f3.cellnet.fqcn import FQCN
    from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
    from nvflare.fuel.f3.drivers.driver_params import DriverParams
    from nvflare.fuel.f3.streaming.byte_receiver import RxTask
    from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, StreamHeaderKey
    from nvflare.fuel.sec.authn import set_add_auth_headers_filters
    from nvflare.fuel.utils.admin_name_utils import new_admin_client_name
    from nvflare.fuel.utils.config_service import ConfigService
    from nvflare.private.defs import ClientType
    from nvflare.private.fed.authenticator import Authenticator, validate_auth_headers

    from .lines import FULL, Driver, exit_on_error, find_drivers, find_refusal
except ImportError:
    raise missing_engine() from None

_ASK, _PRESENCE = "ask", "here"
# Seconds for a reply of the server to a site's statement that it runs.
_PRESENCE_WAIT = 5.0
_TO, _SECONDS = "silot_to", "silot_seconds"
# Bytes of a message above which a collection of garbage pays: NVFlare holds copies in cycles.
_LARGE = 1 << 23
# Seconds of an asker's time that are kept for the way back.
_WAY = 0.5
# Seconds of an asker's time in which a silent server is told from a silent site.
_PROBE = 3.0
# Bytes of a message that travels in one piece: to cut a small one into a stream takes NVFlare
# longer than everything else. In place of a longer reply the asker gets a note that it is long,
# and repeats the question as a stream.
_ONE_PIECE, _LONG = 1 << 20, "silot_long"
# Seconds between tries to join the server, and of all of them.
_RETRY, _LONGEST_JOIN = 0.05, 10.0
# Seconds that a site waits for each reply of the server when it registers, at first and at most,
# and seconds of the first and the longest pause between tries.
_REPLY, _LONGEST_REPLY, _PAUSE, _LONGEST_PAUSE = 30.0, 120.0, 1.0, 30.0
# Questions that a process works on at once, and seconds for one: whoever asks repeats a question.
_WORKERS, _LONGEST_WAIT = 64, 600.0


class SiteComponent(FLComponent):
    """Run the party of a kit at a site, behind NVFlare's connection."""

    registration_tries = 8
    """How often a site tries to register at the server before its process ends."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to answer once NVFlare is connected, and shut everything else before that."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            _get_cell(fl_ctx).core_cell.add_incoming_filter(channel="*", topic="*", cb=_shut)
            client: Any = fl_ctx.get_prop(FLContextKey.SITE_OBJ)
            retry_registration(client.communicator, Path.cwd(), self.registration_tries)
        if event_type != EventType.SYSTEM_START:
            return
        with exit_on_error():
            kit = _load_kit()
            site = open_site(kit)

        def answer(message: Any) -> Any:
            is_one_piece = _is_one_piece(message)
            reply = site.handle(_take_payload(message))
            if is_one_piece and len(reply) > _ONE_PIECE:
                return _make_long_note()
            return make_reply(ReturnCode.OK, "", reply)

        cell = _get_cell(fl_ctx)
        beats = dict[str, float]()

        def beat() -> None:
            connected = _announce(cell, kit)
            beats.update(connected=connected, full=find_refusal(cell) == FULL)

        beat()
        cell.register_request_cb(channel=CHANNEL, topic=_ASK, cb=_use_workers(cell, answer))
        _repeat(BEAT, beat)
        _serve_health(
            kit,
            lambda: {**beats, **{f"{name}_total": float(n) for name, n in site.outcomes.items()}},
        )


def retry_registration(
    communicator: Any, folder: Path, tries: int, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Have NVFlare register a site again where that fails, instead of ending the process at once.

    NVFlare waits for a server that is absent, but gives up where the server takes the connection
    and one reply is late or a refusal, as happens when many sites start at once.

    Parameters
    ----------
    communicator
        NVFlare's own, of the site.
    folder
        The kit of the site.
    tries
        Tries after which the process ends with a code, so that who supervises it starts it again.
    sleep
        Pauses for this many seconds.
    """
    register, wait = communicator.client_registration, communicator.maint_msg_timeout

    def register_again(*arguments: Any) -> Any:
        for number in range(tries):
            if number:
                # A random part of the pause, so that sites that failed together come apart.
                pause = min(_PAUSE * 2.0 ** (number - 1), _LONGEST_PAUSE)
                sleep(pause * random.uniform(0.5, 1.0))
            # A late reply is lost, so that a slow server needs more time at the next try.
            communicator.maint_msg_timeout = min(_REPLY * 2.0**number, _LONGEST_REPLY)
            try:
                with suppress(Exception):
                    return register(*arguments)
            finally:
                communicator.maint_msg_timeout = wait
        with exit_on_error():
            kit = Kit.load(folder)
            check_server(kit, _PROBE)
            code = find_refusal(communicator.cell) if communicator.cell else ""
            raise HolderError(
                f"the server at {kit.project.address} did not register {kit.name!r} in {tries} "
                "attempts. Check that it runs and is not overloaded; its log says more.",
                code=code or "server-unreachable",
            )

    communicator.client_registration = register_again


class ServerComponent(FLComponent):
    """Pass bytes to a site and its reply back, at the server. It can read neither."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to relay once NVFlare listens."""
        if event_type != EventType.SYSTEM_START:
            return
        cell = _get_cell(fl_ctx)
        with exit_on_error():
            kit = _load_kit()
            own = kit.identity()

        counts = {"relayed_total": 0.0, "refused_total": 0.0}

        def relay(message: Any) -> Any:
            name, seconds = message.get_header(_TO), message.get_header(_SECONDS)
            question = _take_payload(message)
            # The project is read anew, because a site may have joined since.
            is_known = name in Kit.load(kit.folder).project.sites and isinstance(seconds, float)
            code = find_writer_fault(question, Role.ASKER, own) if is_known else "site-unknown"
            if code:
                counts["refused_total"] += 1
                return make_reply(ReturnCode.OK, "", make_refusal(code))
            counts["relayed_total"] += 1
            passed = new_cell_message({}, question)
            wait = min(seconds, _LONGEST_WAIT) if seconds > _WAY else _WAY
            reply = _send(cell, _ASK, name, passed, wait, in_one_piece=_is_one_piece(message))
            if reply.get_header(_LONG):
                return _make_long_note()
            code = reply.get_header(MessageHeaderKey.RETURN_CODE)
            answer = _take_payload(reply)
            fault = find_writer_fault(answer, Role.SITE, own)
            return make_reply(code, "", make_refusal(fault) if fault else answer)

        # What lasts as long as the process need not be walked over after each large message.
        gc.freeze()
        copies = KitCopies()

        def record(message: Any) -> Any:
            try:
                # Signed, because NVFlare lets any member claim to be another one.
                code = copies.record(*read_presence(_take_payload(message), own))
            except SilotError as error:
                code = error.code
            return make_reply(ReturnCode.OK, "", make_refusal(code) if code else b"")

        cell.register_request_cb(channel=CHANNEL, topic=_ASK, cb=_use_workers(cell, relay))
        cell.register_request_cb(channel=CHANNEL, topic=_PRESENCE, cb=record)
        engine: Any = fl_ctx.get_engine()
        (driver,) = find_drivers(cell)
        guard = ConnectionGuard(driver, engine.server, own)
        _repeat(1.0, guard.check)
        _serve_health(kit, lambda: {**counts, **driver.count()})


class ConnectionGuard:
    """Closes the server's connections with revoked sites, and those that do not end by themselves.

    NVFlare admits whoever has a certificate of the authority, and checks nothing more while the
    connection lasts: somebody with the keys of a revoked site could take its place, and not answer.

    Parameters
    ----------
    driver
        Of the server's connections.
    server
        NVFlare's own.
    own
        Who the server is: which members are valid, and who was revoked.
    """

    # Seconds in which a site learns why, as it announces itself; later ones are closed at once.
    _GRACE = 1.5 * BEAT
    # What NVFlare signs with before it has read its own key, and keeps for ever.
    _UNSIGNED = "NA"

    def __init__(
        self, driver: Driver, server: Any, own: Identity,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._driver, self._server, self._own, self._clock = driver, server, own, clock
        self._first_times: dict[int, float] = {}

    def check(self) -> None:
        """Close the connections that must end, and have NVFlare sign what it sends."""
        if self._server.my_own_token_signature == self._UNSIGNED:
            # It received a message before it was ready. Askers accept only what is signed.
            self._server.my_own_token_signature = None
        for line in self._driver.lines:
            if line.certificate and self._must_end(_parse_certificate(line.certificate)):
                line.end("certificate-revoked")
        self._driver.sweep()

    def _must_end(self, certificate: x509.Certificate) -> bool:
        try:
            if certificate.serial_number not in self._own.revoked:
                return False
            # Verified at its own beginning: a connection may last longer than its certificate.
            member = verify_member(
                certificate, self._own.root, now=certificate.not_valid_before_utc
            )
            # An asker is refused at each message, with a code, and takes no site's place.
            if member.role is not Role.SITE:
                return False
        except SilotError:
            return False
        now = self._clock()
        return now - self._first_times.setdefault(member.serial, now) >= self._GRACE


@lru_cache(maxsize=4096)
def _parse_certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _repeat(seconds: float, work: Callable[[], None]) -> None:
    """Do some work again and again, in a thread of its own, until the process ends."""

    def run() -> None:
        pause = threading.Event()
        while not pause.wait(seconds):
            # A connection may end at any moment, and the next time comes soon.
            with suppress(Exception):
                work()

    threading.Thread(target=run, daemon=True).start()


# Channels of silot's messages, and those of NVFlare that bring them.
_OPEN = {CHANNEL, CellChannel.RETURN_ONLY, STREAM_CHANNEL}


def _shut(message: Any) -> Any:
    """Refuse what is not a message of silot, before anything of it is read.

    NVFlare runs commands of its server, such as those of a shell, and obeys the site's own rules
    about them only if the server says so.
    """
    if message.get_header(MessageHeaderKey.MSG_TYPE) != MessageType.REQ:
        return None
    channel = message.get_header(MessageHeaderKey.CHANNEL, "")
    streamed = message.get_header(StreamHeaderKey.CHANNEL, channel)
    # Silot's own messages are plain bytes; NVFlare's own encoding can build any object.
    is_encoded = Encoding.FOBS in (
        message.get_header(MessageHeaderKey.PAYLOAD_ENCODING),
        message.get_header(StreamHeaderKey.PAYLOAD_ENCODING),
    )
    if channel in _OPEN and streamed in _OPEN and not (is_encoded and streamed == CHANNEL):
        return None
    return make_reply(ReturnCode.INVALID_REQUEST, "refused", None)


def _use_workers(cell: Any, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Have messages that travel in one piece be answered by threads of our own.

    NVFlare calls back in the threads that read what arrives: if all of them waited for replies,
    nobody would read any.
    """
    pool = ThreadPoolExecutor(_WORKERS, "silot")

    def work(message: Any) -> None:
        try:
            reply = answer(message)
        except Exception:  # noqa: BLE001 - as NVFlare treats errors in its own threads
            reply = make_reply(ReturnCode.PROCESS_EXCEPTION)
        origin = message.get_header(MessageHeaderKey.ORIGIN)
        request = message.get_header(MessageHeaderKey.REQ_ID)
        cell.core_cell.send_reply(reply, origin, [request], optional=True)

    def begin(message: Any) -> Any:
        if not _is_one_piece(message):
            return answer(message)
        pool.submit(work, message)
        return None

    return begin


def _send(
    cell: Any, topic: str, target: str, message: Any, seconds: float, *, in_one_piece: bool = True
) -> Any:
    """Send a message, and return the reply or that there is none."""
    return (cell.core_cell if in_one_piece else cell).send_request(
        channel=CHANNEL, topic=topic, target=target, request=message, optional=True,
        timeout=seconds,
    )  # fmt: skip


def _is_one_piece(message: Any) -> bool:
    return not message.get_header(StreamHeaderKey.STREAM_REQ_ID)


def _make_long_note() -> Any:
    reply = make_reply(ReturnCode.OK, "", b"")
    reply.set_header(_LONG, True)
    return reply


def _take_payload(reply: Any, *, sent: int | None = None) -> Any:
    """Return what arrived, and make NVFlare drop the copy it keeps beside its receipt.

    Of what was ``sent``, by default as much as arrived, it keeps copies in reference cycles.
    """
    if _is_one_piece(reply):
        return reply.payload or b""
    with RxTask.map_lock:
        for task in RxTask.rx_task_map.values():
            # Streams that are not complete yet must stay.
            if task.completed and task.stream_future and task.stream_future.done():
                task.stream_future = None
    payload, reply.payload = reply.payload or b"", None
    if (len(payload) if sent is None else sent) > _LARGE:
        # Only the collector finds the cycles, and it takes a while in a process with much else.
        gc.collect()
    return payload


def _serve_health(kit: Kit, more: Callable[[], Mapping[str, float]]) -> None:
    """Answer who supervises the process, where its environment names a port."""
    port = os.environ.get(VARIABLE, "")
    if port.isdecimal():
        with exit_on_error():
            serve_health(kit, int(port), more)


def _announce(cell: Any, kit: Kit) -> bool:
    """Tell the server which copy of the kit this is; end the process if another one runs.

    Return whether the server answered.

    NVFlare takes the newest connection of a name for the right one: two copies would share the
    questions between them.
    """
    statement = new_cell_message({}, write_presence(kit.identity(), identify_copy(kit)))
    reply = _send(cell, _PRESENCE, "server", statement, _PRESENCE_WAIT)
    code = read_refusal(bytes(reply.payload or b""))
    with exit_on_error():
        if code == ELSEWHERE:
            raise copied_elsewhere(kit)
        if code == "certificate-revoked":
            raise MismatchError(
                f"the certificate of {kit.name!r} was revoked. Ask the coordinator of the project.",
                code=code,
            )
    return reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK


class Wire:
    """An asker's connection to the server; made again when it is lost.

    Parameters
    ----------
    kit
        Of the asker.
    """

    def __init__(self, kit: Kit) -> None:
        ConfigService.initialize({}, [str(kit.folder / LOCAL)])
        self._kit = kit
        self._cell: Cell | None = None
        self._lock = threading.Lock()
        self._last_failure = "server-unreachable"
        # Sites whose replies were long: questions to them are streamed from the beginning.
        self._long = set[str]()

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        """Bring bytes to a site and its reply back."""
        began = time.monotonic()
        cell = self.connect(seconds)
        seconds = max(seconds - (time.monotonic() - began), _WAY)
        in_one_piece = len(data) <= _ONE_PIECE and name not in self._long
        # Some of the time is kept to ask who is silent.
        wait = seconds - _PROBE if seconds > 2.0 * _PROBE else seconds
        message = new_cell_message({_TO: name, _SECONDS: max(wait - _WAY, _WAY)}, data)
        try:
            reply = _send(cell, _ASK, "server", message, wait, in_one_piece=in_one_piece)
        except Exception:  # noqa: BLE001 - whatever NVFlare raises about a lost connection
            code = find_refusal(cell) or "server-unreachable"
            self._drop(cell)
            raise Unreached(code) from None
        if reply.get_header(_LONG) and in_one_piece:
            # The site repeats its answer, so that asking again costs nothing.
            self._long.add(name)
            return self(name, data, seconds)
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        payload = _take_payload(reply, sent=len(data))
        if code == ReturnCode.OK:
            return payload
        if code in (ReturnCode.AUTHENTICATION_ERROR, ReturnCode.UNAUTHENTICATED):
            self._drop(cell)
        late = code == ReturnCode.TIMEOUT and wait < seconds
        if late and _is_alive(cell):
            raise Unreached("holder-timeout")
        silent = "server-unreachable" if late else "holder-unreachable"
        raise Unreached(find_refusal(cell) or silent)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            cell, self._cell = self._cell, None
        if cell is not None:
            _stop(cell)

    def connect(self, seconds: float) -> Cell:
        """Return the connection, made within this many seconds if there is none."""
        began = time.monotonic()
        with self._lock:
            if self._cell is None:
                seconds -= time.monotonic() - began
                if seconds < _WAY:
                    raise Unreached(self._last_failure)  # another thread tried all the time
                # Some of the time is kept to look who listens there, or why nobody does.
                look = min(seconds / 3, _PROBE)
                try:
                    self._cell = _join_server(self._kit, min(seconds - look, _LONGEST_JOIN))
                except Unreached as error:
                    self._last_failure = error.code
                    check_server(self._kit, look)
                    raise
            return self._cell

    def _drop(self, cell: Cell) -> None:
        with self._lock:
            if self._cell is cell:
                self._cell = None
        _stop(cell)


def _is_alive(cell: Cell) -> bool:
    """Return whether the server answers at all: anything, also that it does not understand."""
    with suppress(Exception):
        reply = _send(cell, _PRESENCE, "server", new_cell_message({}, b""), _PROBE - _WAY)
        return reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
    return False


class _Refusal(Signal):
    """Ends NVFlare's tries to join a server that said why it takes no connection."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self._cell = cell

    @property
    def triggered(self) -> bool:
        return bool(find_refusal(self._cell))


def _join_server(kit: Kit, seconds: float) -> Cell:
    """Connect the kit's member to its server, each end having proven who it is.

    This is what a session of NVFlare's console does, without the console, which waits a second
    before it tries again where the connection is not ready at once, and it never is.
    """
    project = kit.project
    root, certificate, key = map(str, kit.files)
    flare_decomposers.register()
    context = FLContext()
    context.set_public_props({ReservedKey.IDENTITY_NAME: kit.name})
    with _drop_prints():
        cell = Cell(
            fqcn=new_admin_client_name(), root_url=f"grpc://{make_target(project)}",
            secure=True, create_internal_listener=False, parent_url=None,
            auth_identity_map={FQCN.ROOT_SERVER: SERVER},
            credentials={
                DriverParams.CA_CERT.value: root, DriverParams.CLIENT_CERT.value: certificate,
                DriverParams.CLIENT_KEY.value: key,
                DriverParams.CONNECTION_SECURITY.value: ConnectionSecurity.MTLS,
            },
        )  # fmt: skip
        try:
            cell.start()
            member = Authenticator(
                cell=cell, project_name=project.name, client_name=kit.name,
                client_type=ClientType.ADMIN, expected_sp_identity=SERVER, secure_mode=True,
                root_cert_file=root, private_key_file=key, cert_file=certificate,
                msg_timeout=seconds, retry_interval=_RETRY, timeout=seconds,
            )  # fmt: skip
            proofs: Any = member.authenticate(context, _Refusal(cell))
            token, signature, session, verifier = proofs
            if token is None:
                raise Unreached
        except Exception:  # noqa: BLE001 - whatever NVFlare raises about a server that is absent
            code = find_refusal(cell) or "server-unreachable"
            _stop(cell)
            raise Unreached(code) from None
    set_add_auth_headers_filters(cell, kit.name, token, signature, session)
    cell.core_cell.add_incoming_filter(
        channel="*", topic="*", cb=validate_auth_headers, token_verifier=verifier,
        logger=logging.getLogger(__name__), local_cell_fqcn=cell.get_fqcn(),
    )  # fmt: skip
    return cell


def _get_cell(context: FLContext) -> Any:
    engine: Any = context.get_engine()
    return engine.get_cell()


def _load_kit() -> Kit:
    """Load and lock the kit of this process, whose folder NVFlare changes to when it starts."""
    kit = Kit.load(Path.cwd())
    lock_kit(kit)
    return kit


def _stop(cell: Cell) -> None:
    with _drop_prints(), suppress(Exception):
        cell.stop()


# One thread at a time: of two the later would restore what the earlier had replaced, for good.
_printing = threading.RLock()


@contextmanager
def _drop_prints() -> Iterator[None]:
    """Keep NVFlare's remarks off the terminal of the asker."""
    with _printing, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
