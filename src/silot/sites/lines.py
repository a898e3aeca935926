"""NVFlare's connections over gRPC, with what it lacks: limits that both ends learn of, and IPv6."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from nvflare.fuel.f3.comm_config import CommConfigurator
from nvflare.fuel.f3.communicator import driver_mgr
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.grpc.qq import QQ
from nvflare.fuel.f3.drivers.grpc.streamer_pb2_grpc import (
    StreamerServicer,
    StreamerStub,
    add_StreamerServicer_to_server,
)
from nvflare.fuel.f3.drivers.grpc.utils import (
    get_grpc_client_credentials,
    get_grpc_server_credentials,
)
from nvflare.fuel.f3.drivers.grpc_driver import GrpcDriver, StreamConnection
from nvflare.fuel.f3.drivers.net_utils import get_address

from ..errors import TEMPORARY, SilotError, nature_of
from .deployment import port_taken
from .engine import MOST_CONNECTIONS

FULL = "server-full"
"""Why a connection was refused or ended: its member has too many, or all have."""

_MOST_OF_MEMBER = 32
# Seconds after which a line that never said who it is counts as idle, and one that did: NVFlare
# sends a ping each minute, which the other end answers.
_LONGEST_HELLO, _LONGEST_SILENCE = 2.0, 150.0
# Seconds in which the other end reads that a line ends.
_LONGEST_END = 1.0
# Files of a server: three for each connection, should they all come anew at once.
_FILES = 4096
# What gRPC says of a line that the server ended, with the code of why.
_ENDED = grpc.StatusCode.RESOURCE_EXHAUSTED
# No text is in the log, so that the name of who writes a line says what happened.
_log = logging.getLogger(f"silot.{FULL}")


class _Frames(QQ):
    """Frames to be sent, in order; NVFlare's own queue wakes ten times a second to see its end."""

    def __init__(self) -> None:
        super().__init__()
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def append(self, i: Any) -> None:
        if self.closed:
            raise BrokenPipeError
        self._frames.put(i)

    def close(self) -> None:
        self.closed = True
        self._frames.put(None)

    def __next__(self) -> Any:
        frame = None if self.closed else self._frames.get()
        if frame is None:
            raise StopIteration
        return frame


class Line(StreamConnection):
    """A connection with a member, at the server."""

    def __init__(self, connector: Any, context: Any) -> None:
        shown = context.auth_context()
        (name,) = shown.get("x509_common_name", [b""])[:1]
        self.member = name.decode(errors="replace")
        self.certificate = b"".join(shown.get("x509_pem_cert", [])[:1])
        self._call = context
        self._began, self._last_heard = time.monotonic(), 0.0
        self.ended = 0.0
        """When it was ended by this end, if it was."""
        properties = {
            DriverParams.PEER_ADDR.value: context.peer(),
            DriverParams.LOCAL_ADDR.value: get_address(connector.params),
        }
        if self.member:
            properties[DriverParams.PEER_CN.value] = self.member
        super().__init__(_Frames(), connector, properties, "SERVER")

    def receive(self, frames: Iterator[Any]) -> None:
        """Pass on what arrives, until the other end or this one ends."""
        self.read_loop(self._note(frames))

    def _note(self, frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            self._last_heard = time.monotonic()
            yield frame

    @property
    def silence(self) -> float:
        """Seconds since the other end said something."""
        return time.monotonic() - (self._last_heard or self._began)

    @property
    def idle(self) -> bool:
        """Whether nobody uses it, as far as this end can see."""
        return self.silence > (_LONGEST_SILENCE if self._last_heard else _LONGEST_HELLO)

    def end(self, code: str) -> None:
        """End it, and say why: the other end learns the code."""
        if not self.ended:
            self.ended = time.monotonic()
            self._call.set_code(_ENDED)
            self._call.set_details(code)
            self.close()

    def cut(self) -> None:
        """End it without a word: its other end does not read what it is sent."""
        with suppress(Exception):
            self._call.cancel()


class Lines:
    """The connections of a server: who may have one more, and which one makes room for it.

    Where a limit is met, the oldest idle connection of those that count for it ends. Where none is
    idle, a member with fewer takes the place of one with more; else the new connection is refused.
    So no member locks another one out.

    Parameters
    ----------
    most
        Connections of all members together.
    most_of_member
        Connections of one.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_of_member: int = _MOST_OF_MEMBER) -> None:
        self._most, self._most_of_member = most, most_of_member
        # In the order in which they came.
        self._lines: dict[Line, None] = {}
        self._lock = threading.Lock()
        self.full = 0
        """How often a connection was refused or ended because a limit was met."""

    def __iter__(self) -> Iterator[Line]:
        with self._lock:
            return iter(tuple(self._lines))

    def admit(self, line: Line) -> bool:
        """Count a new connection, or return that there is no room for it."""
        with self._lock:
            counts = Counter(other.member for other in self._lines)
            own = counts[line.member]
            if own < self._most_of_member and len(self._lines) < self._most:
                self._lines[line] = None
                return True
            self.full += 1
            largest, count = counts.most_common(1)[0]
            if own >= self._most_of_member:
                victims = [other for other in self._lines if other.member == line.member]
            else:
                victims = list(self._lines)
            victim = next((other for other in victims if other.idle), None)
            if victim is None and count > own + 1 and own < self._most_of_member:
                victim = next(other for other in victims if other.member == largest)
            if victim is None:
                return False
            del self._lines[victim]
            self._lines[line] = None
        victim.end(FULL)
        return True

    def remove(self, line: Line) -> None:
        """Forget a connection that is over."""
        with self._lock:
            self._lines.pop(line, None)


class _Servicer(StreamerServicer):
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def Stream(  # noqa: N802 - gRPC's name
        self, request_iterator: Iterator[Any], context: Any
    ) -> Iterator[Any]:
        """Carry the frames of one connection, in a thread for each way."""
        driver = self._driver
        line = Line(driver.connector, context)
        if not driver.lines.admit(line):
            context.abort(_ENDED, FULL)
        driver.open_lines.add(line)
        try:
            driver.add_connection(line)
            threading.Thread(target=line.receive, args=(request_iterator,), daemon=True).start()
            yield from line.generate_output()
        finally:
            # The thread that receives ends once the call is over, which waits for this one.
            line.close()
            driver.lines.remove(line)
            driver.open_lines.discard(line)
            driver.close_connection(line)


class Driver(GrpcDriver):
    """NVFlare's connections over gRPC, at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines()
        """At the server."""
        self.open_lines: set[Line] = set()
        """At the server: with those that were ended and hold a thread still."""
        self.refusal = ""
        """At the other end: the code with which the server ended the last connection, if any."""
        self._listening: Any = None
        self._logged = 0

    def listen(self, connector: Any) -> None:
        """Listen until the process ends; where it cannot listen, it ends."""
        self.connector = connector
        settings = (CommConfigurator().get_config() or {}).get("grpc", {})
        port = int(connector.params[DriverParams.PORT.value])
        _allow_open_files()
        pool = ThreadPoolExecutor(self.max_workers, "silot-line")
        self._listening = grpc.server(pool, options=self.options)
        add_StreamerServicer_to_server(_Servicer(self), self._listening)
        with exit_on_error():
            try:
                self._listening.add_secure_port(
                    f"{settings['host']}:{port}", get_grpc_server_credentials(connector.params)
                )
            except RuntimeError:
                raise port_taken(port) from None
        self._listening.start()
        self._listening.wait_for_termination()

    def connect(self, connector: Any) -> None:
        """Connect, and stay until the connection ends."""
        address = get_address(connector.params)
        channel = grpc.secure_channel(
            address, get_grpc_client_credentials(connector.params), options=self.options
        )
        properties = {DriverParams.PEER_ADDR.value: address}
        line = StreamConnection(_Frames(), connector, properties, "CLIENT", channel=channel)
        self.add_connection(line)
        try:
            line.read_loop(self._receive(StreamerStub(channel).Stream(line.generate_output())))
        finally:
            line.close()
            self.close_connection(line)

    def _receive(self, call: Any) -> Iterator[Any]:
        """Return what arrives, and remember with which code the server ended the connection."""
        try:
            for frame in call:
                self.refusal = ""
                yield frame
        except grpc.RpcError:
            self.refusal = call.details() if call.code() is _ENDED else ""
            raise

    def shutdown(self) -> None:
        """End all connections."""
        super().shutdown()
        if self._listening is not None:
            self._listening.stop(grace=0.5)

    def count(self) -> dict[str, float]:
        """Count connections, members that have one, and how often there was no room."""
        members = [line.member for line in self.lines]
        return {
            "connections": float(len(members)), "members": float(len(set(members))),
            "full_total": float(self.lines.full),
        }  # fmt: skip

    def sweep(self) -> None:
        """End silent lines, cut those that do not end, and log that there was no room."""
        for line in list(self.open_lines):
            if line.ended and time.monotonic() - line.ended > _LONGEST_END:
                line.cut()
            elif line.silence > _LONGEST_SILENCE:
                line.end("silent")
        if self.lines.full > self._logged:
            self._logged = self.lines.full
            _log.warning("")


def find_drivers(cell: Any) -> list[Driver]:
    """Return the drivers of a cell's connections."""
    connectors = list(cell.core_cell.communicator.conn_manager.connectors.values())
    return [item.driver for item in connectors if isinstance(item.driver, Driver)]


def find_refusal(cell: Any) -> str:
    """Return the code with which the server ended a cell's connection; empty if it did not."""
    return next((driver.refusal for driver in find_drivers(cell) if driver.refusal), "")


def _allow_open_files() -> None:
    """Let the process have a file for each connection; by default it may have 1,024 in all."""
    with suppress(ImportError, ValueError, OSError):
        # Windows has no such limit, nor this module.
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process where it cannot begin: NVFlare would continue without what failed."""
    try:
        yield
    except SilotError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(TEMPORARY if nature_of(error.code) == "passes" else error.exit_status)


# In place of NVFlare's, which takes no second one for a scheme, and its kits know no other scheme.
driver_mgr.class_cache.add(GrpcDriver.__name__)
driver_mgr.register(Driver)
