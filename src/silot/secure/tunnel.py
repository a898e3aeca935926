"""The links between parties: TLS on which both ends prove which party they are.

The engine has TLS of its own, and its server takes plain connections on the same port; it also
asks for any certificate of the authority, not for that of the party. So the engine speaks to
sockets in a folder that only this user can enter, and what leaves the machine goes through here.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from ..errors import HolderError, InputError, SilotError

_HELLO, _WELCOME, _DATA, _BYE = b"?", b"!", b">", b"."
_HANDSHAKE = 5.0
# Seconds that one who is done stays for others who are not.
_FAREWELL = 5.0

Files = tuple[Path, Path, Path]


class Tunnel:
    """Encrypted links of one party with the others; a context manager.

    Parameters
    ----------
    role
        Which party this is.
    addresses
        ``host:port`` of all parties by role.
    files
        Authority, certificate and key of this party. The common name of a certificate is the
        role of the party it belongs to.
    timeout
        Seconds to wait for the others.

    Attributes
    ----------
    sent, received
        Bytes of the engine that left for the other parties, and that came from them.
    """

    def __init__(
        self, role: str, addresses: Mapping[str, str], files: Files, timeout: float
    ) -> None:
        self.role, self.addresses, self.timeout = role, dict(addresses), timeout
        self.sent = self.received = 0
        self._server = context_of(files, server=True)
        self._client = context_of(files, server=False)
        self._folder = tempfile.TemporaryDirectory(prefix="silot-")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listeners: list[asyncio.AbstractServer] = []
        self._ends: list[_End] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._met: set[str] = set()
        self._gone: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._open())
            self._run(self._meet())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def local(self) -> dict[str, str]:
        """Where the engine finds the parties on this machine, by role."""
        return {role: f"unix:{self._socket(role)}" for role in self.addresses}

    def close(self) -> None:
        """End all links."""
        if self._thread.is_alive():
            self._run(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._folder.cleanup()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _socket(self, role: str) -> str:
        return str(Path(self._folder.name) / f"{role}.sock")

    async def _open(self) -> None:
        host, port = _split(self.addresses[self.role])
        try:
            self._listeners.append(
                await self._loop.create_server(
                    lambda: _End(self._welcome),
                    host,
                    port,
                    ssl=self._server,
                    ssl_handshake_timeout=_HANDSHAKE,
                )
            )
        except OSError as error:
            raise InputError(
                f"this party cannot listen at {self.addresses[self.role]} "
                f"({type(error).__name__}). Free the port, or correct peers.yml.",
                code="secure-address",
            ) from None
        for peer in self.addresses:
            if peer != self.role:
                self._listeners.append(
                    await self._loop.create_unix_server(
                        partial(_End, partial(self._outward, peer)), self._socket(peer)
                    )
                )

    async def _meet(self) -> None:
        """Wait until every other party is there and accepts this one."""
        deadline = time.monotonic() + self.timeout
        await asyncio.gather(
            *(self._greet(peer, deadline) for peer in self.addresses if peer != self.role)
        )

    async def _greet(self, peer: str, deadline: float) -> None:
        refused = False
        while True:
            try:
                answer: asyncio.Future[bytes] = self._loop.create_future()
                link = await self._dial(peer, _HELLO, partial(_tell, answer))
                async with asyncio.timeout(_HANDSHAKE):
                    refused = await answer != _WELCOME
                link.close()
                if not refused:
                    self._met.add(peer)
                    return
            except ssl.SSLError:
                raise self._mistrust(peer) from None
            except (OSError, TimeoutError):
                refused = False
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        if refused:
            raise self._mistrust(peer)
        raise HolderError(
            f"{peer!r} does not answer at {self.addresses[peer]}. Start it, or correct peers.yml.",
            code="secure-unreachable",
        )

    def _mistrust(self, peer: str) -> SilotError:
        return HolderError(
            f"{peer!r} at {self.addresses[peer]} has no certificate of this authority for its "
            "role, or refuses this party's. Give all parties certificates of one authority.",
            code="secure-certificate",
        )

    async def _dial(self, peer: str, purpose: bytes, first: Callable[[_End, bytes], None]) -> _End:
        host, port = _split(self.addresses[peer])
        _, end = await self._loop.create_connection(
            lambda: _End(first),
            host,
            port,
            ssl=self._client,
            server_hostname=peer,
            ssl_handshake_timeout=_HANDSHAKE,
        )
        if end.owner != peer:
            end.close()
            raise ssl.SSLError("the certificate is another party's")
        end.write(purpose)
        return end

    def _welcome(self, end: _End, data: bytes) -> None:
        """Serve a connection from outside; only other parties get any answer."""
        if end.owner not in self.addresses or end.owner == self.role or data[:1] == b"":
            end.close()
        elif data[:1] == _HELLO:
            end.write(_WELCOME)
        elif data[:1] == _DATA:
            end.hold(data[1:])
            self._start(self._inward(end))
        elif data[:1] == _BYE:
            self._gone.add(end.owner or "")
            end.close()
        else:
            end.close()

    async def _inward(self, far: _End) -> None:
        deadline = time.monotonic() + self.timeout
        while not far.lost:
            try:
                _, near = await self._loop.create_unix_connection(
                    lambda: _End(_End.hold), self._socket(self.role)
                )
            except OSError:
                # The other party was faster: the engine here is about to start.
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.05)
            else:
                self._join(near=near, far=far)
                return
        far.close()

    def _outward(self, peer: str, near: _End, data: bytes) -> None:
        near.hold(data)

        async def connect() -> None:
            try:
                far = await self._dial(peer, _DATA, _End.hold)
            except (OSError, TimeoutError):
                near.close()
            else:
                self._join(near=near, far=far)

        self._start(connect())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _join(self, *, near: _End, far: _End) -> None:
        self._ends += [near, far]
        near.forward(far, self._count_sent)
        far.forward(near, self._count_received)

    def _count_sent(self, count: int) -> None:
        self.sent += count

    def _count_received(self, count: int) -> None:
        self.received += count

    async def _part(self) -> None:
        """Stay until the others are done as well: the engine may still have answers for them."""
        stay = time.monotonic() + _FAREWELL
        if self._met >= self.addresses.keys() - {self.role}:
            await asyncio.gather(*(self._leave(peer) for peer in self._met))
            while not self._gone >= self._met and time.monotonic() < stay:
                await asyncio.sleep(0.02)

    async def _leave(self, peer: str) -> None:
        try:
            async with asyncio.timeout(_FAREWELL):
                (await self._dial(peer, _BYE, _End.hold)).close()
        except (OSError, TimeoutError, ssl.SSLError):
            # Nobody there needs this party any more.
            self._gone.add(peer)

    async def _shut(self) -> None:
        await self._part()
        for listener in self._listeners:
            listener.close()
        for end in self._ends:
            end.close()
        for task in self._tasks:
            task.cancel()
        # Closing says goodbye to the other end, which takes a turn of the loop or two.
        await asyncio.sleep(0.05)


class _End(asyncio.Protocol):
    """One end of a connection: what arrives goes to ``first``, or on to another end."""

    def __init__(self, first: Callable[[_End, bytes], None]) -> None:
        self._first: Callable[[_End, bytes], None] | None = first
        self._other: _End | None = None
        self._held: list[bytes] = []
        self._count: Callable[[int], None] = lambda count: None
        self._transport: Any = None
        self.owner: str | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.owner = _owner(transport)

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            self._other.write(data)
            self._count(len(data))
        elif self._first is not None:
            first, self._first = self._first, None
            first(self, data)
        else:
            self._held.append(data)

    def hold(self, data: bytes) -> None:
        """Keep data until it is known where they go."""
        self._first = None
        self._held.append(data)

    def forward(self, other: _End, count: Callable[[int], None]) -> None:
        """Send what is held, and all that arrives, to another end."""
        self._other, self._count = other, count
        for data in self._held:
            other.write(data)
            count(len(data))
        self._held.clear()
        if self.lost:
            other.close()

    def write(self, data: bytes) -> None:
        """Send data."""
        if not self.lost:
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and not self._other.lost:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and not self._other.lost:
            self._other._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._first is not None:
            first, self._first = self._first, None
            first(self, b"")
        if self._other is not None:
            self._other.close()

    def close(self) -> None:
        """End the connection once what was written is sent."""
        if not self.lost and self._transport is not None:
            self._transport.close()


def _tell(answer: asyncio.Future[bytes], end: _End, data: bytes) -> None:
    if not answer.done():
        answer.set_result(data)


def context_of(files: Files, *, server: bool) -> ssl.SSLContext:
    """Return TLS settings under which both ends must show a certificate of the authority."""
    ca, certificate, key = files
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        # Names are those of parties, checked in ``_owner``, not of hosts.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError):
        raise InputError(
            f"{ca.name}, {certificate.name} and {key.name} are no authority, certificate and key "
            "that fit together. Make them anew.",
            code="secure-certificate",
        ) from None
    return context


def _owner(transport: asyncio.BaseTransport) -> str | None:
    """Common name of the certificate at the other end."""
    shown: Any = transport.get_extra_info("peercert") or {}
    for part in shown.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
