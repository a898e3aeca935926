"""The links between parties: TLS on which both ends prove which party they are.

The engine has TLS of its own, and its server takes plain connections on the same port; it also
asks for any certificate of the authority, not for that of the party. So the engine speaks to
sockets in a folder that only this user can enter, and what leaves the machine goes through here.

All of it is one loop over sockets that never block, run by whoever waits for something else: an
engine sends thousands of small messages, and each of them passes through this loop.
"""

from __future__ import annotations

import json
import selectors
import ssl
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from ...data.foreign import parse_json
from ...errors import HolderError, InputError, SilotError, WireError
from ._link import Link, connect, listen
from .peers import Files, Links

# The first byte of a connection: it carries words of the parties, or data of the engine.
_TALK, _DATA = b"?", b">"
# Seconds before a connection that failed is tried again.
_RETRY = 0.1
# Seconds between signs of life, and without any after which a party counts as lost.
_PULSE, _SILENCE = 2.0, 30.0
# Bytes of one line of a party's words; a longer one is dropped.
_LONGEST = 2**16


class Tunnel:
    """Encrypted links of one party with the others; a context manager.

    Parameters
    ----------
    role
        Which party this is.
    links
        Where all are, and how each proves that it is the party of its role.

    Attributes
    ----------
    sent, received
        Bytes of the engine that left for the other parties, and that came from them.
    heard
        Words of each other party that nobody read yet, first to last.
    lost
        Parties that were connected and no longer are.
    """

    def __init__(self, role: str, links: Links) -> None:
        self.role, self.addresses, self.names = role, links.addresses, links.names
        self.peers = tuple(peer for peer in links.addresses if peer != role)
        self.sent = self.received = 0
        self.heard: dict[str, deque[dict[str, Any]]] = {peer: deque() for peer in self.peers}
        self.lost: set[str] = set()
        self._owner_of, self._source = links.owner, links.source
        self._roles = {links.names[peer]: peer for peer in self.peers}
        self._server = build_context(links.files, server=True)
        self._client = build_context(links.files, server=False, verified=links.owner is None)
        self._folder = tempfile.TemporaryDirectory(prefix="silot-")
        self._selector = selectors.DefaultSelector()
        self._links: set[Link] = set()
        self._talk: dict[str, Link] = {}
        self._partial: dict[str, bytes] = defaultdict(bytes)
        self._sent_lines: list[bytes] = []
        self._refused: dict[str, bool] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._last_times: dict[str, float] = {}
        self._last_pulse = 0.0

    def __enter__(self) -> Self:
        try:
            self._listen()
        except BaseException:
            self.close()
            raise
        for peer in self.peers:
            self._greet(peer)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> str:
        """A folder that only this user can enter; it ends with the tunnel."""
        return self._folder.name

    def local(self) -> dict[str, str]:
        """Return where the engine reaches the parties on this machine, by role."""
        return {role: f"unix:{self._socket(role)}" for role in self.addresses}

    def watch(self, descriptor: int) -> None:
        """Let ``poll`` return when something can be read from a descriptor."""
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    def say(self, **words: Any) -> None:
        """Send all other parties something public; those that connect later receive it first."""
        line = json.dumps(words, sort_keys=True).encode() + b"\n"
        self._sent_lines.append(line)
        for peer in self._talk:
            self._talk[peer].write(line)

    def flush(self, seconds: float) -> None:
        """Wait until what was said has left, towards the parties that are connected."""
        end = time.monotonic() + seconds

        def waits(peer: str, link: Link) -> bool:
            return link.unsent > 0 and not link.is_closed and peer not in self.lost

        while any(waits(*item) for item in self._talk.items()) and time.monotonic() < end:
            self.poll(0.02)

    def poll(self, seconds: float) -> None:
        """Serve the links until something happens, or for so long."""
        now = time.monotonic()
        due = [work for when, work in self._later if when <= now]
        self._later = [(when, work) for when, work in self._later if when > now]
        for work in due:
            work()
        if now - self._last_pulse > _PULSE:
            self._last_pulse = now
            for link in self._talk.values():
                link.write(b"\n")
            self._prune(now)
        wait = min([seconds, *(max(when - now, 0.0) for when, _ in self._later)])
        for key, events in self._selector.select(wait):
            if key.data is not None:
                key.data(events)

    def find_unreachable(self) -> SilotError | None:
        """Return what is wrong with a party that is not connected; ``None`` when all are."""
        for peer in self.peers:
            if peer not in self._last_times:
                if self._refused.get(peer):
                    return self._mistrusted(peer)
                return HolderError(
                    f"{self.names[peer]!r} does not answer at {self.addresses[peer]}. Start it, or "
                    f"correct {self._source}.",
                    code="secure-unreachable",
                )
        return None

    def close(self) -> None:
        """End all links."""
        for link in list(self._links):
            link.close()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                cast("Any", key.fileobj).close()
        self._selector.close()
        self._folder.cleanup()

    def _socket(self, role: str) -> str:
        return str(Path(self._folder.name) / f"{role}.sock")

    def _listen(self) -> None:
        self._accept_at(self.addresses[self.role], self._serve_arrival)
        for peer in self.peers:
            self._accept_at(f"unix:{self._socket(peer)}", partial(self._forward_outward, peer))

    def _accept_at(self, address: str, arrived: Callable[[Any], None]) -> None:
        try:
            server = listen(address)
        except OSError as error:
            raise InputError(
                f"this party cannot listen at {address} ({type(error).__name__}). Free the port, "
                f"or correct {self._source}.",
                code="secure-address",
            ) from None

        def ready(_: int) -> None:
            try:
                connection, _address = server.accept()
            except OSError:
                return
            arrived(connection)

        self._selector.register(server, selectors.EVENT_READ, ready)

    def _link(self, socket: Any, **more: Any) -> Link:
        link = Link(socket, self._selector, self._links.discard, **more)
        self._links.add(link)
        return link

    def _call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, work))

    def _prune(self, now: float) -> None:
        for link in list(self._links):
            if link.is_late(now):
                link.close()
        for peer, last in self._last_times.items():
            if now - last > _SILENCE:
                self.lost.add(peer)

    # This party speaks over the connections it made, and listens to those it accepted.

    def _greet(self, peer: str) -> None:
        try:
            link = self._dial(peer, _TALK)
        except OSError:
            self._call_later(_RETRY, partial(self._greet, peer))
            return
        link.on_end = partial(self._end_greeting, peer, link)
        for line in self._sent_lines:
            link.write(line)
        self._talk[peer] = link

    def _end_greeting(self, peer: str, link: Link) -> None:
        # A link that closes after its handshake was refused for this party's certificate.
        self._refused[peer] = link.is_mistrusted or link.is_open
        if peer in self._last_times:
            self.lost.add(peer)
        else:
            self._call_later(_RETRY, partial(self._greet, peer))

    def _dial(self, peer: str, purpose: bytes) -> Link:
        socket = connect(self.addresses[peer])
        expected, owner_of = self.names[peer], self._owner_of
        link = self._link(socket, context=self._client, expected=expected, owner_of=owner_of)
        link.write(purpose)
        return link

    def _mistrusted(self, peer: str) -> SilotError:
        return HolderError(
            f"{self.names[peer]!r} at {self.addresses[peer]} has no certificate of this authority "
            "for its role, or refuses the one of this party. Give all parties certificates of one "
            "authority.",
            code="secure-certificate",
        )

    def _serve_arrival(self, socket: Any) -> None:
        link = self._link(socket, context=self._server, owner_of=self._owner_of)
        link.on_data = partial(self._serve_first, link)

    def _serve_first(self, link: Link, data: bytes) -> None:
        """Serve a connection from outside, if it is of another party."""
        peer, purpose = self._roles.get(link.owner or ""), data[:1]
        if peer is None or purpose not in (_TALK, _DATA):
            link.close()
        elif purpose == _TALK:
            self._last_times[peer] = time.monotonic()
            self._partial[peer] = b""
            link.on_data = partial(self._hear, peer)
            link.on_end = partial(self.lost.add, peer)
            self._hear(peer, data[1:])
        else:
            link.hold(data[1:])
            self._forward_inward(link)

    def _hear(self, peer: str, data: bytes) -> None:
        self._last_times[peer] = time.monotonic()
        *lines, partial_line = (self._partial[peer] + data).split(b"\n")
        self._partial[peer] = partial_line if len(partial_line) <= _LONGEST else b""
        for line in lines:
            if line:
                self.heard[peer].append(_parse_words(line))

    def _forward_inward(self, far: Link) -> None:
        if far.is_closed:
            return
        try:
            near = connect(f"unix:{self._socket(self.role)}")
        except OSError:
            # The other party was faster, and the engine here is about to start.
            self._call_later(0.05, partial(self._forward_inward, far))
        else:
            self._join(self._link(near), far)

    def _forward_outward(self, peer: str, socket: Any) -> None:
        near = self._link(socket)
        try:
            self._join(near, self._dial(peer, _DATA))
        except OSError:
            near.close()

    def _join(self, near: Link, far: Link) -> None:
        near.forward(far, self._count_sent)
        far.forward(near, self._count_received)

    def _count_sent(self, count: int) -> None:
        self.sent += count

    def _count_received(self, count: int) -> None:
        self.received += count


def _parse_words(line: bytes) -> dict[str, Any]:
    words = None
    with suppress(WireError):
        words = parse_json(line, lambda why: WireError(f"no words ({why}).", code="wire-format"))
    return cast("dict[str, Any]", words) if isinstance(words, dict) else {}


def build_context(files: Files, *, server: bool, verified: bool = True) -> ssl.SSLContext:
    """Return TLS settings under which both ends must show a certificate of the authority.

    A certificate that is not ``verified`` here must be checked by the caller, as ``Links.owner``
    does: members of a project all have certificates of clients, which TLS refuses as servers.
    """
    ca, certificate, key = files
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        # Names are those of parties, checked by ``Link``, not of hosts.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError):
        raise InputError(
            f"{ca.name}, {certificate.name} and {key.name} are not a matching authority, "
            "certificate and key. Make new ones.",
            code="secure-certificate",
        ) from None
    return context
