"""A way to the server that can be cut, slowed and stopped."""

from __future__ import annotations

import math
import random
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress


class ConnectProxy:
    """An HTTP proxy with CONNECT on loopback, which alone resolves ``names``.

    ``requests`` are the places that were asked for.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self.names, self.requests = names, list[str]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += line.recv(4096)
            place = head.split()[1].decode()
            self.requests.append(place)
            host, _, port = place.rpartition(":")
            with socket.create_connection((self.names[host], int(port))) as target:
                line.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
                back = threading.Thread(target=_pump, args=(target, line))
                back.start()
                _pump(line, target)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Proxy:
    """Carries TCP connections of one port to another, in a thread.

    ``flow`` says how: ``"on"``; ``"stopped"``, where bytes stay where they are; ``"half"``, where
    those of the server stay, and it hears everything; ``"cut"``, where connections are closed and
    none is let in. ``rate`` bounds bytes a second, each way. What arrives is passed on ``delay``
    seconds later, and up to ``jitter`` more. A share ``loss`` of the pieces is held up as by lost
    packets; one in five of those ends its connection.
    """

    def __init__(self, to: int, seed: int = 0) -> None:
        self._to, self._rng = to, random.Random(seed)
        self.reset()
        self.carried = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port = int(self._listening.getsockname()[1])
        self._over = threading.Event()
        self._pairs: dict[socket.socket, socket.socket] = {}
        # Of each end: what it sent, and when it is passed on.
        self._queues: dict[socket.socket, deque[tuple[float, bytes]]] = {}
        self._servers = set[socket.socket]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Carry everything at once."""
        self.flow, self.rate = "on", 0
        self.delay = self.jitter = self.loss = 0.0

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._listening, selectors.EVENT_READ)
            while not self._over.is_set():
                if self.flow == "stopped":
                    self._over.wait(0.02)
                    continue
                if self.flow == "cut":
                    for each in list(self._pairs):
                        self._drop(waiting, each)
                due = [queue[0][0] for queue in self._queues.values() if queue]
                wait = min(due, default=math.inf) - time.monotonic()
                for key, _ in waiting.select(min(max(wait, 0.0), 0.05)):
                    if key.fileobj is self._listening:
                        self._accept(waiting)
                    elif isinstance(key.fileobj, socket.socket):
                        self._receive(waiting, key.fileobj)
                for each in list(self._pairs):
                    self._pass_on(waiting, each)
            for each in list(self._pairs):
                self._drop(waiting, each)
            self._listening.close()

    def _accept(self, waiting: selectors.BaseSelector) -> None:
        here, _ = self._listening.accept()
        if self.flow == "cut":
            here.close()
            return
        try:
            there = socket.create_connection(("127.0.0.1", self._to), 2)
        except OSError:
            here.close()
            return
        here.settimeout(2)
        self._pairs |= {here: there, there: here}
        self._servers.add(there)
        for each in (here, there):
            self._queues[each] = deque()
            waiting.register(each, selectors.EVENT_READ)

    def _receive(self, waiting: selectors.BaseSelector, source: socket.socket) -> None:
        if source not in self._pairs:
            return
        queue = self._queues[source]
        if len(queue) > 1000 or (self.flow == "half" and source in self._servers):
            # It stays where it is; the loop must not turn without a pause.
            self._over.wait(0.005)
            return
        try:
            data = source.recv(max(self.rate // 10, 1) if self.rate else 1 << 16)
        except OSError:
            data = b""
        late = self.delay + self._rng.random() * self.jitter
        if self._rng.random() < self.loss:
            if self._rng.random() < 0.2:
                data = b""
            else:
                # As TCP does before it sends again.
                late += self._rng.choice((0.2, 0.4, 0.8))
        # The order of bytes holds.
        queue.append((max(time.monotonic() + late, queue[-1][0] if queue else 0.0), data))
        if not data:
            waiting.unregister(source)

    def _pass_on(self, waiting: selectors.BaseSelector, source: socket.socket) -> None:
        while source in self._pairs and self._queues[source]:
            due, data = self._queues[source][0]
            if due > time.monotonic():
                return
            self._queues[source].popleft()
            try:
                self._pairs[source].sendall(data)
            except OSError:
                data = b""
            self.carried += len(data)
            if not data:
                self._drop(waiting, source)
            elif self.rate:
                time.sleep(len(data) / self.rate)

    def _drop(self, waiting: selectors.BaseSelector, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        for each in (one, other):
            if each is not None:
                self._pairs.pop(each, None)
                self._queues.pop(each, None)
                self._servers.discard(each)
                with suppress(KeyError, ValueError):
                    waiting.unregister(each)
                each.close()
