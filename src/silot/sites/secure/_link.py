"""One connection that never blocks: plain or TLS, read into a function or passed on to another."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHUNK = 2**18
# Bytes that wait for the other end, above which no more are read for it.
_FULL = 2**23
# Seconds for a TLS handshake.
_HANDSHAKE = 10.0


def connect(address: str) -> socket.socket:
    """Begin a connection to ``host:port`` or ``unix:path``, or raise an ``OSError``."""
    path, host, port, family = _parse_address(address)
    connection = socket.socket(family)
    try:
        if path:
            # Blocking, because a local socket connects at once or fails at once.
            connection.connect(path)
            connection.setblocking(False)
        else:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect_ex((host, port))
    except OSError:
        connection.close()
        raise
    return connection


def listen(address: str) -> socket.socket:
    """Accept connections at ``host:port`` or ``unix:path``."""
    path, host, port, family = _parse_address(address)
    if path:
        listener = socket.socket(family)
        listener.bind(path)
        listener.listen()
    else:
        listener = socket.create_server((host, port), family=family)
    listener.setblocking(False)
    return listener


class Link:
    """A connection, served by a selector.

    Parameters
    ----------
    connection
        A socket that does not block, connected or about to be.
    selector
        Where it is registered; the key's data is the function to call.
    forget
        Called with the link when it ended.
    context
        TLS settings, ``None`` for a plain connection.
    expected
        Owner that a connection made by this side must lead to; ``None`` of an accepted one.
    owner_of
        Returns whose a certificate (DER) is; by default its common name, if TLS verified it.

    Attributes
    ----------
    owner
        Common name of the certificate at the other end, once that is proven.
    is_open, is_mistrusted, is_closed
        Whether it is ready for data, was refused for its certificate, has ended.
    on_data, on_end
        What to call.
    """

    def __init__(
        self,
        connection: socket.socket,
        selector: selectors.BaseSelector,
        forget: Callable[[Link], None],
        *,
        context: ssl.SSLContext | None = None,
        expected: str | None = None,
        owner_of: Callable[[bytes], str | None] | None = None,
    ) -> None:
        self.owner: str | None = None
        self.is_open = self.is_mistrusted = self.is_closed = False
        self.on_data: Callable[[bytes], None] = self.hold
        self.on_end: Callable[[], None] = lambda: None
        self._selector, self._forget, self._expected = selector, forget, expected
        self._owner_of = owner_of
        self._out: deque[memoryview] = deque()
        self._held: list[bytes] = []
        self.unsent = 0
        self._other: Link | None = None
        self._is_paused = False
        self._events = 0
        self._until = time.monotonic() + _HANDSHAKE
        connection.setblocking(False)
        self._socket: Any = connection
        # The socket is wrapped for TLS once the plain connection is established.
        self._context = context
        self.is_open = context is None
        self._is_ending = False
        self._register(selectors.EVENT_READ | selectors.EVENT_WRITE)

    def is_late(self, now: float) -> bool:
        """Return whether the TLS handshake did not end in time."""
        return not self.is_open and now > self._until

    def hold(self, data: bytes) -> None:
        """Keep data until it is decided where they go."""
        self.on_data = self.hold
        if data:
            self._held.append(data)

    def forward(self, other: Link, count: Callable[[int], None]) -> None:
        """Send what is held, and all that arrives, to another link, and end with it."""

        def pass_on(data: bytes) -> None:
            other.write(data)
            count(len(data))
            if other.unsent > _FULL and not self._is_paused:
                self._is_paused = True
                self._register(self._events)

        self._other = other
        self.on_data, self.on_end = pass_on, other.end
        for data in self._held:
            pass_on(data)
        self._held.clear()
        if self.is_closed:
            other.end()

    def write(self, data: bytes) -> None:
        """Send data, now or when the other end can take them."""
        if self.is_closed or not data:
            return
        self._out.append(memoryview(data))
        self.unsent += len(data)
        if self.is_open and len(self._out) == 1:
            self._flush()

    def end(self) -> None:
        """Close once what was written is sent."""
        if self.unsent and self.is_open and not self.is_closed:
            self.on_end = lambda: None
            self._is_paused = True
            self._is_ending = True
            self._flush()
        else:
            self.close()

    def close(self) -> None:
        """End the connection."""
        if self.is_closed:
            return
        self.is_closed = True
        self._register(0)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
        self._forget(self)
        self.on_end()

    def _register(self, events: int) -> None:
        if self._is_paused:
            events &= ~selectors.EVENT_READ
        if events == self._events:
            return
        if self._events == 0:
            self._selector.register(self._socket, events, self._ready)
        elif events == 0:
            self._selector.unregister(self._socket)
        else:
            self._selector.modify(self._socket, events, self._ready)
        self._events = events

    def _ready(self, events: int) -> None:
        try:
            if not self.is_open and not self._continue_handshake():
                return
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ and not self.is_closed:
                self._read()
        except ssl.SSLCertVerificationError:
            self.is_mistrusted = True
            self.close()
        except (OSError, ssl.SSLError):
            self.close()

    def _continue_handshake(self) -> bool:
        """Continue the handshake; return whether it ended, with the expected owner."""
        if self._context is not None:
            failure = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise OSError(failure, "no connection")
            context, self._context = self._context, None
            events = self._events
            self._register(0)
            self._socket = context.wrap_socket(
                self._socket,
                server_side=self._expected is None,
                do_handshake_on_connect=False,
            )
            self._register(events)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._register(selectors.EVENT_READ)
            return False
        except ssl.SSLWantWriteError:
            self._register(selectors.EVENT_WRITE)
            return False
        if self._owner_of is None:
            self.owner = _find_common_name(self._socket.getpeercert())
        else:
            certificate = self._socket.getpeercert(binary_form=True)
            self.owner = self._owner_of(certificate) if certificate else None
        if self.owner is None or self._expected not in (None, self.owner):
            self.is_mistrusted = True
            self.close()
            return False
        self.is_open = True
        self._flush()
        return not self.is_closed

    def _flush(self) -> None:
        try:
            while self._out:
                first = self._out[0]
                count = self._socket.send(first)
                self.unsent -= count
                if count == len(first):
                    self._out.popleft()
                else:
                    self._out[0] = first[count:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.close()
            return
        if self._is_ending and not self._out:
            self.close()
            return
        writes = selectors.EVENT_WRITE if self._out or not self.is_open else 0
        self._register(selectors.EVENT_READ | writes)
        source = self._other
        if source is not None and source._is_paused and self.unsent <= _FULL // 2:
            source._resume()

    def _resume(self) -> None:
        if not self._is_ending and not self.is_closed:
            self._is_paused = False
            self._register(self._events | selectors.EVENT_READ)
            # Called directly, because the selector does not notice what TLS has read already.
            self._ready(selectors.EVENT_READ)

    def _read(self) -> None:
        # To the end, because TLS may hold data that the selector does not notice.
        while not self.is_closed and not self._is_paused:
            try:
                data = self._socket.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self.close()
                return
            self.on_data(data)


def _find_common_name(certificate: Any) -> str | None:
    """Return the common name of a certificate that was verified."""
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def _parse_address(address: str) -> tuple[str, str, int, socket.AddressFamily]:
    """Return the path of a local address, or host and port of another, and its family."""
    if address.startswith("unix:"):
        return address.removeprefix("unix:"), "", 0, socket.AF_UNIX
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    return "", host, int(port), socket.AF_INET6 if ":" in host else socket.AF_INET
