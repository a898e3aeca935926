"""A way to the server that can be cut, slowed and stopped."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress


class Proxy:
    """Carries TCP connections of one port to another, in a thread.

    ``flow`` says how: ``"on"``; ``"stopped"``, where bytes stay where they are; ``"cut"``, where
    connections are closed and none is let in. ``rate`` bounds bytes a second, each way.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self.flow, self.rate = "on", 0
        self.carried = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port = int(self._listening.getsockname()[1])
        self._over = threading.Event()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

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
                for key, _ in waiting.select(0.05):
                    if key.fileobj is self._listening:
                        self._accept(waiting)
                    elif isinstance(key.fileobj, socket.socket):
                        self._carry(waiting, key.fileobj)
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
        self._pairs |= {here: there, there: here}
        for each in (here, there):
            waiting.register(each, selectors.EVENT_READ)

    def _carry(self, waiting: selectors.BaseSelector, source: socket.socket) -> None:
        target = self._pairs.get(source)
        if target is None:
            return
        try:
            data = source.recv(max(self.rate // 10, 1) if self.rate else 1 << 16)
            if data:
                target.sendall(data)
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
                with suppress(KeyError, ValueError):
                    waiting.unregister(each)
                each.close()
