"""The engine in a process of its own, which can be ended at any moment.

The engine waits without end for a party that is gone, or ends its process without a word. So a
party starts it as a child, sends it orders over one pipe and reads its reports from another.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, cast

import numpy as np
from msgpack import packb, unpackb

_START = "from silot.sites.secure._worker import main; main()"
_LENGTH = struct.Struct(">Q")
# A shell that waits until the party's process ends, which closes its input, and then kills the
# engine. The engine cannot do that itself: for seconds at a time it lets no other thread run.
_GUARD = 'read -r _; kill -9 "$0" 2>/dev/null; rm -rf "$1"'


class Worker:
    """A child process that computes; a context manager that ends it.

    Attributes
    ----------
    reports
        Reports that nobody read yet.
    descriptor
        Readable when there are more.
    """

    def __init__(self, folder: str) -> None:
        self.reports: deque[dict[str, Any]] = deque()
        self._data = b""
        orders, self._orders = os.pipe()
        self.descriptor, answers = os.pipe()
        os.set_blocking(self.descriptor, False)
        package = str(Path(__file__).parents[2])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(orders), str(answers), folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(orders, answers),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        finally:
            os.close(orders)
            os.close(answers)
        # In a session of its own, because a signal to this process may go to its whole group.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(self._process.pid), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.kill()
        self._guard.communicate()
        self._process.kill()
        self._process.wait()
        os.close(self._orders)
        os.close(self.descriptor)

    def order(self, **words: Any) -> None:
        """Send it an order; it listens at all times."""
        with suppress(BrokenPipeError):
            _write(self._orders, words)

    def poll(self) -> bool:
        """Read its reports, and return whether it still runs."""
        while True:
            try:
                data = os.read(self.descriptor, 2**20)
            except BlockingIOError:
                break
            if not data:
                return False
            self._data += data
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                break
            self.reports.append(unpackb(self._data[_LENGTH.size : end]))
            self._data = self._data[end:]
        return True


def main() -> None:
    """Follow orders: import the engine, compile, compute, and report the outcome."""
    orders, answers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders, queue), daemon=True).start()
    try:
        _work(queue, answers, folder)
    except Exception as error:  # noqa: BLE001 - its text may quote data, so only its type is reported
        _write(answers, {"failed": type(error).__name__})
    threading.Event().wait()


def _work(queue: SimpleQueue[dict[str, Any]], answers: int, folder: str) -> None:
    from . import _engine as engine
    from ._program import Program

    engine.start_log(Path(folder))
    _write(answers, {"engine": engine.read_version()})
    program = Program.unpacked(queue.get()["program"])
    executable = engine.compile_part(program, 0)
    _write(answers, {"compiled": True})
    work = queue.get()
    arrays = [np.frombuffer(data).reshape(shape) for shape, data in work["arrays"]]
    link = engine.connect(work["session"], work["rank"], work["addresses"], work["seconds"])
    shares = engine.split_arrays(arrays, program) if arrays else []
    inputs = [engine.deal(link, owner, shares) for owner in work["owners"]]
    output, parts = engine.run_party(link, program, executable, inputs)
    gathered = engine.collect(link, work["receiver"], output)
    opened = engine.reconstruct(gathered, program) if gathered else []
    # The process stays until it is ended, because others may still read what it sent.
    _write(answers, {"opened": opened, "parts": parts})


def _listen(descriptor: int, queue: SimpleQueue[dict[str, Any]]) -> None:
    """Queue orders as they come, and end the process when the party is gone."""
    while True:
        head = _read(descriptor, _LENGTH.size)
        body = _read(descriptor, _LENGTH.unpack(head)[0]) if head else b""
        if not body:
            os._exit(1)
        queue.put(cast("dict[str, Any]", unpackb(body)))


def _read(descriptor: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = os.read(descriptor, count - len(data))
        if not more:
            return b""
        data += more
    return bytes(data)


def _write(descriptor: int, words: dict[str, Any]) -> None:
    body = cast("bytes", packb(words))
    data = memoryview(_LENGTH.pack(len(body)) + body)
    while data:
        data = data[os.write(descriptor, data) :]
