"""NVFlare as the wire: what runs in its server and sites, and how an asker reaches them.

A site's component lives in the engine's long-lived process and answers bytes with bytes; no job is
ever submitted. The server's passes bytes on, of askers to sites and back.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import MismatchError, SilotError
from ..federation.exchange import Unreached
from .authority import ROOT, Role
from .credential import barred, presence, present
from .engine import CHANNEL, absent
from .joined import site_of
from .kit import LOCAL, STARTUP, Kit
from .lines import Lines
from .reach import check_server
from .running import BEAT, ELSEWHERE, Places, elsewhere, hold, place_of
from .silence import silence
from .site import refusal, refused

try:
    from nvflare.apis.event_type import EventType
    from nvflare.apis.fl_component import FLComponent
    from nvflare.apis.fl_constant import ConnectionSecurity, ReservedKey
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
except ImportError:
    raise absent() from None

_TOPIC, _HERE = "ask", "here"
# Seconds for a word of the server.
_WAIT = 5.0
_TO, _SECONDS = "silot_to", "silot_seconds"
# Bytes of a message that is worth the time to look for what holds others of them.
_LARGE = 1 << 23
# Of what is left of an asker's time, what the way back takes.
_WAY = 0.5
# Bytes of a message that travels whole: to cut a small one into a stream takes the engine longer
# than all the rest. Of a longer reply comes a word that it is, and the question is streamed.
_WHOLE, _LONG = 1 << 20, "silot_long"
# Seconds between tries to join the server, and of all of them.
_AGAIN, _LONGEST_JOIN = 0.05, 10.0
# Questions that a process has in hand at once, and seconds for one: whoever asks asks again.
_HANDS, _LONGEST_WAIT = 64, 600.0


class Answering(FLComponent):
    """At a site: the party of the kit, behind the engine's connection."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to answer once the engine is connected, and shut all else before that."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            _cell(fl_ctx).core_cell.add_incoming_filter(channel="*", topic="*", cb=_shut)
        if event_type != EventType.SYSTEM_START:
            return
        with _ending():
            kit = Kit.load(_workspace(fl_ctx))
            hold(kit)
            site = site_of(kit)

        def answer(message: Any) -> Any:
            whole = _is_whole(message)
            reply = site.handle(_received(message))
            if whole and len(reply) > _WHOLE:
                return _long()
            return make_reply(ReturnCode.OK, "", reply)

        cell = _cell(fl_ctx)
        _say_where(cell, kit)
        cell.register_request_cb(channel=CHANNEL, topic=_TOPIC, cb=_in_hand(cell, answer))
        threading.Thread(target=_keep_saying_where, args=(cell, kit), daemon=True).start()


class Relaying(FLComponent):
    """At the server: bytes to a site and its reply back. It can read neither."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to relay once the engine listens."""
        if event_type != EventType.SYSTEM_START:
            return
        folder, cell = _workspace(fl_ctx), _cell(fl_ctx)
        with _ending():
            kit = Kit.load(folder)
            hold(kit)
            own = kit.identity()

        def relay(message: Any) -> Any:
            name, seconds = message.get_header(_TO), message.get_header(_SECONDS)
            asked = _received(message)
            # Read anew: a site may have joined since.
            known = name in Kit.load(folder).project.sites and isinstance(seconds, float)
            code = barred(asked, Role.ASKER, own) if known else "site-unknown"
            if code:
                return make_reply(ReturnCode.OK, "", refusal(code))
            passed = new_cell_message({}, asked)
            wait = min(seconds, _LONGEST_WAIT) if seconds > _WAY else _WAY
            reply = _sent(cell, _TOPIC, name, passed, wait, whole=_is_whole(message))
            if reply.get_header(_LONG):
                return _long()
            code = reply.get_header(MessageHeaderKey.RETURN_CODE)
            told = _received(reply)
            wrong = barred(told, Role.SITE, own)
            return make_reply(code, "", refusal(wrong) if wrong else told)

        places = Places()

        def here(message: Any) -> Any:
            try:
                # The engine lets any member say that it is another.
                code = places.heard(*present(_received(message), own))
            except SilotError as error:
                code = error.code
            return make_reply(ReturnCode.OK, "", refusal(code) if code else b"")

        cell.register_request_cb(channel=CHANNEL, topic=_TOPIC, cb=_in_hand(cell, relay))
        cell.register_request_cb(channel=CHANNEL, topic=_HERE, cb=here)
        engine: Any = fl_ctx.get_engine()
        Lines(cell, engine.server, own).watch()


# Channels of silot's messages, and those of the engine that bring them.
_OPEN = {CHANNEL, CellChannel.RETURN_ONLY, STREAM_CHANNEL}


def _shut(message: Any) -> Any:
    """Refuse what is no message of silot, before anything of it is read.

    The engine runs commands of its server, such as those of a shell, and asks the site's own rules
    about them only if the server says so.
    """
    if message.get_header(MessageHeaderKey.MSG_TYPE) != MessageType.REQ:
        return None
    channel = message.get_header(MessageHeaderKey.CHANNEL, "")
    streamed = message.get_header(StreamHeaderKey.CHANNEL, channel)
    # Silot's own are plain bytes.
    encoded = Encoding.FOBS in (
        message.get_header(MessageHeaderKey.PAYLOAD_ENCODING),
        message.get_header(StreamHeaderKey.PAYLOAD_ENCODING),
    )
    if channel in _OPEN and streamed in _OPEN and not (encoded and streamed == CHANNEL):
        return None
    return make_reply(ReturnCode.INVALID_REQUEST, "refused", None)


def _in_hand(cell: Any, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Have messages that travel whole be answered by threads of our own.

    The engine calls back in those that read what arrives: were all of them to wait for replies,
    none would be read.
    """
    pool = ThreadPoolExecutor(_HANDS, "silot")

    def later(message: Any) -> None:
        try:
            reply = answer(message)
        except Exception:  # noqa: BLE001 - as the engine has it of its own threads
            reply = make_reply(ReturnCode.PROCESS_EXCEPTION)
        asker, asked = (message.get_header(key) for key in _BACK)
        cell.core_cell.send_reply(reply, asker, [asked], optional=True)

    def begin(message: Any) -> Any:
        if not _is_whole(message):
            return answer(message)
        pool.submit(later, message)
        return None

    return begin


_BACK = MessageHeaderKey.ORIGIN, MessageHeaderKey.REQ_ID


def _sent(
    cell: Any, topic: str, target: str, message: Any, seconds: float, *, whole: bool = True
) -> Any:
    """The reply to a message, or that there is none."""
    return (cell.core_cell if whole else cell).send_request(
        channel=CHANNEL, topic=topic, target=target, request=message, optional=True,
        timeout=seconds,
    )  # fmt: skip


def _is_whole(message: Any) -> bool:
    return not message.get_header(StreamHeaderKey.STREAM_REQ_ID)


def _long() -> Any:
    reply = make_reply(ReturnCode.OK, "", b"")
    reply.set_header(_LONG, True)
    return reply


def _received(reply: Any) -> Any:
    """What came, of which the engine lets go: it keeps it beside its note that nothing is lost."""
    if _is_whole(reply):
        return reply.payload or b""
    with RxTask.map_lock:
        for task in RxTask.rx_task_map.values():
            # Others are not read yet.
            if task.completed and task.stream_future and task.stream_future.done():
                task.stream_future = None
    payload, reply.payload = reply.payload or b"", None
    if len(payload) > _LARGE:
        # In its own rings, too.
        gc.collect()
    return payload


def _say_where(cell: Any, kit: Kit) -> None:
    """Tell the server which copy of the kit this is; end the process if another one runs.

    To the engine the newest connection of a name is the right one: two would part the questions.
    """
    word = new_cell_message({}, presence(kit.identity(), place_of(kit)))
    reply = _sent(cell, _HERE, "server", word, _WAIT)
    code = refused(bytes(reply.payload or b""))
    with _ending():
        if code == ELSEWHERE:
            raise elsewhere(kit)
        if code == "certificate-revoked":
            raise MismatchError(
                f"the certificate of {kit.name!r} was revoked. Ask the coordinator of the project.",
                code=code,
            )


def _keep_saying_where(cell: Any, kit: Kit) -> None:
    pause = threading.Event()
    while not pause.wait(BEAT):
        with suppress(Exception):
            _say_where(cell, kit)


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
        # Sites whose replies were long.
        self._long = set[str]()

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        """Bring bytes to a site and its reply back."""
        cell = self.connected(seconds)
        whole = len(data) <= _WHOLE and name not in self._long
        message = new_cell_message({_TO: name, _SECONDS: max(seconds - _WAY, _WAY)}, data)
        try:
            reply = _sent(cell, _TOPIC, "server", message, seconds, whole=whole)
        except Exception:  # noqa: BLE001 - whatever the engine says of a lost connection
            self._drop(cell)
            raise Unreached("server-unreachable") from None
        if reply.get_header(_LONG) and whole:
            # It repeats its answer.
            self._long.add(name)
            return self(name, data, seconds)
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        payload = _received(reply)
        if code == ReturnCode.OK:
            return payload
        if code in (ReturnCode.AUTHENTICATION_ERROR, ReturnCode.UNAUTHENTICATED):
            self._drop(cell)
        raise Unreached

    def close(self) -> None:
        """Leave."""
        with self._lock:
            cell, self._cell = self._cell, None
        if cell is not None:
            _stop(cell)

    def connected(self, seconds: float) -> Cell:
        """The engine's connection, made within so many seconds if there is none."""
        with self._lock:
            if self._cell is None:
                try:
                    self._cell = _joined(self._kit, min(seconds, _LONGEST_JOIN))
                except Unreached:
                    check_server(self._kit)
                    raise
            return self._cell

    def _drop(self, cell: Cell) -> None:
        with self._lock:
            if self._cell is cell:
                self._cell = None
        _stop(cell)


def _joined(kit: Kit, seconds: float) -> Cell:
    """A connection of the kit's member to its server, each having proven who it is.

    It is what a session of the engine's console has, without the console: that waits a second
    before it tries again where the line is not there at once, and it never is.
    """
    project, startup = kit.project, kit.folder / STARTUP
    root, certificate, key = (str(startup / name) for name in (ROOT, "client.crt", "client.key"))
    flare_decomposers.register()
    context = FLContext()
    context.set_public_props({ReservedKey.IDENTITY_NAME: kit.name})
    with silence():
        cell = Cell(
            fqcn=new_admin_client_name(), root_url=f"grpc://{project.host}:{project.port}",
            secure=True, create_internal_listener=False, parent_url=None,
            auth_identity_map={FQCN.ROOT_SERVER: project.host},
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
                client_type=ClientType.ADMIN, expected_sp_identity=project.host, secure_mode=True,
                root_cert_file=root, private_key_file=key, cert_file=certificate,
                msg_timeout=seconds, retry_interval=_AGAIN, timeout=seconds,
            )  # fmt: skip
            proofs: Any = member.authenticate(context, Signal())
            token, signature, session, verifier = proofs
        except Exception:  # noqa: BLE001 - whatever the engine says of a server that is not there
            _stop(cell)
            raise Unreached("server-unreachable") from None
    set_add_auth_headers_filters(cell, kit.name, token, signature, session)
    cell.core_cell.add_incoming_filter(
        channel="*", topic="*", cb=validate_auth_headers, token_verifier=verifier,
        logger=logging.getLogger(__name__), local_cell_fqcn=cell.get_fqcn(),
    )  # fmt: skip
    return cell


def _cell(context: FLContext) -> Any:
    engine: Any = context.get_engine()
    return engine.get_cell()


@contextmanager
def _ending() -> Any:
    """End the process where it cannot begin: the engine would go on without its component."""
    try:
        yield
    except SilotError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(error.exit_status)


def _workspace(context: FLContext) -> Path:
    # The engine goes to the kit's folder when it starts.
    return Path.cwd()


def _stop(cell: Cell) -> None:
    with silence(), suppress(Exception):
        cell.stop()
