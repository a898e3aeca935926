"""One connection that never waits: plain or TLS, read into a function or passed on to another."""

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
# Bytes not taken by the other end yet, above which no more are read for it.
_FULL = 2**23
_HANDSHAKE = 10.0


def connecting(address: str) -> socket.socket:
    """Begin a connection to ``host:port`` or ``unix:path``; an ``OSError`` if there is none."""
    if address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(address.removeprefix("unix:"))
        except OSError:
            made.close()
            raise
        made.setblocking(False)
        return made
    host, port = _split(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        made.connect_ex((host, port))
    except OSError:
        made.close()
        raise
    return made


def listening(address: str) -> socket.socket:
    """Take connections at ``host:port`` or ``unix:path``."""
    if address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.bind(address.removeprefix("unix:"))
        made.listen()
    else:
        host, port = _split(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family)
    made.setblocking(False)
    return made


class Link:
    """A connection, served by a selector.

    Parameters
    ----------
    connection
        A socket that does not wait, connected or about to be.
    selector
        Where it is registered; the key's data is the function to call.
    forget
        Called with the link when it ended.
    context
        TLS settings, ``None`` for a plain connection.
    expected
        Whom a connection made by this side must lead to; ``None`` for one that was taken.
    owner_of
        Whose a certificate (DER) is; by default its common name, if TLS verified it.

    Attributes
    ----------
    owner
        Common name of the certificate at the other end, once that is proven.
    opened, mistrusted, closed
        Whether it came to be, was refused for its certificate, ended.
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
        self.opened = self.mistrusted = self.closed = False
        self.on_data: Callable[[bytes], None] = self.hold
        self.on_end: Callable[[], None] = lambda: None
        self._selector, self._forget, self._expected = selector, forget, expected
        self._owner_of = owner_of
        self._out: deque[memoryview] = deque()
        self._held: list[bytes] = []
        self.unsent = 0
        self._other: Link | None = None
        self._paused = False
        self._events = 0
        self._until = time.monotonic() + _HANDSHAKE
        connection.setblocking(False)
        self._socket: Any = connection
        # A connection being made is plain until it stands.
        self._context = context
        self.opened = context is None
        self._ending = False
        self._wants(selectors.EVENT_READ | selectors.EVENT_WRITE)

    def late(self, now: float) -> bool:
        """Whether both ends had time to agree on keys, and did not."""
        return not self.opened and now > self._until

    def hold(self, data: bytes) -> None:
        """Keep data until it is known where they go."""
        self.on_data = self.hold
        if data:
            self._held.append(data)

    def forward(self, other: Link, count: Callable[[int], None]) -> None:
        """Send what is held, and all that arrives, to another link, and end with it."""

        def pass_on(data: bytes) -> None:
            other.write(data)
            count(len(data))
            if other.unsent > _FULL and not self._paused:
                self._paused = True
                self._wants(self._events)

        self._other = other
        self.on_data, self.on_end = pass_on, other.end
        for data in self._held:
            pass_on(data)
        self._held.clear()
        if self.closed:
            other.end()

    def write(self, data: bytes) -> None:
        """Send data, now or when they are taken."""
        if self.closed or not data:
            return
        self._out.append(memoryview(data))
        self.unsent += len(data)
        if self.opened and len(self._out) == 1:
            self._flush()

    def end(self) -> None:
        """Close once what was written is sent."""
        if self.unsent and self.opened and not self.closed:
            self.on_end = lambda: None
            self._paused = True
            self._ending = True
            self._flush()
        else:
            self.close()

    def close(self) -> None:
        """End the connection."""
        if self.closed:
            return
        self.closed = True
        self._wants(0)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
        self._forget(self)
        self.on_end()

    def _wants(self, events: int) -> None:
        if self._paused:
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
            if not self.opened and not self._agree():
                return
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ and not self.closed:
                self._read()
        except ssl.SSLCertVerificationError:
            self.mistrusted = True
            self.close()
        except (OSError, ssl.SSLError):
            self.close()

    def _agree(self) -> bool:
        """Go on agreeing on keys; the other end must then be who it should."""
        if self._context is not None:
            failure = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise OSError(failure, "no connection")
            context, self._context = self._context, None
            events = self._events
            self._wants(0)
            self._socket = context.wrap_socket(
                self._socket,
                server_side=self._expected is None,
                do_handshake_on_connect=False,
            )
            self._wants(events)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._wants(selectors.EVENT_READ)
            return False
        except ssl.SSLWantWriteError:
            self._wants(selectors.EVENT_WRITE)
            return False
        if self._owner_of is None:
            self.owner = _owner(self._socket.getpeercert())
        else:
            shown = self._socket.getpeercert(binary_form=True)
            self.owner = self._owner_of(shown) if shown else None
        if self.owner is None or self._expected not in (None, self.owner):
            self.mistrusted = True
            self.close()
            return False
        self.opened = True
        self._flush()
        return not self.closed

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
        if self._ending and not self._out:
            self.close()
            return
        writes = selectors.EVENT_WRITE if self._out or not self.opened else 0
        self._wants(selectors.EVENT_READ | writes)
        source = self._other
        if source is not None and source._paused and self.unsent <= _FULL // 2:
            source._resume()

    def _resume(self) -> None:
        if not self._ending and not self.closed:
            self._paused = False
            self._wants(self._events | selectors.EVENT_READ)
            # The selector does not see what TLS has read already.
            self._ready(selectors.EVENT_READ)

    def _read(self) -> None:
        # To the end: TLS may hold data that the selector does not see.
        while not self.closed and not self._paused:
            try:
                data = self._socket.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self.close()
                return
            self.on_data(data)


def _owner(shown: Any) -> str | None:
    """Common name of a certificate that was verified."""
    for part in (shown or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
