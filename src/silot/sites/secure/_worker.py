"""The engine in a process of its own, which can be ended at any moment.

The engine waits without end for a party that is gone, or ends its process without a word. So a
party starts it as a child, to which it sends orders and whose reports it reads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, cast

import numpy as np
from msgpack import packb, unpackb

_START = "from silot.sites.secure._worker import main; main()"
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
        pipe, child = Pipe()
        self._pipe = cast("Connection", pipe)
        self.descriptor = self._pipe.fileno()
        package = str(Path(__file__).parents[3])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        with child:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(child.fileno()), folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(child.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
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
        self._pipe.close()

    def order(self, **words: Any) -> None:
        """Send it an order; it listens at all times."""
        with suppress(ConnectionError):
            _write(self._pipe, words)

    def poll(self) -> bool:
        """Read its reports, and return whether it still runs."""
        try:
            while self._pipe.poll():
                self.reports.append(_read(self._pipe))
        except (EOFError, ConnectionError):
            return False
        return True


def main() -> None:
    """Follow orders: import the engine, compile, compute, and report the outcome."""
    pipe, folder = Connection(int(sys.argv[1])), sys.argv[2]
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, orders), daemon=True).start()
    try:
        _work(orders, pipe, folder)
    except Exception as error:  # noqa: BLE001 - its text may quote data, so only its type is reported
        _write(pipe, {"failed": type(error).__name__})
    threading.Event().wait()


def _work(orders: SimpleQueue[dict[str, Any]], pipe: Connection, folder: str) -> None:
    from . import _engine as engine
    from ._program import Program

    engine.start_log(Path(folder))
    _write(pipe, {"engine": engine.read_version()})
    program = Program.unpacked(orders.get()["program"])
    executable = engine.compile_part(program, 0)
    _write(pipe, {"compiled": True})
    work = orders.get()
    arrays = [np.frombuffer(data).reshape(shape) for shape, data in work["arrays"]]
    link = engine.connect(work["session"], work["rank"], work["addresses"], work["seconds"])
    shares = engine.split_arrays(arrays, program) if arrays else []
    inputs = [engine.deal(link, owner, shares) for owner in work["owners"]]
    output, parts = engine.run_party(link, program, executable, inputs)
    gathered = engine.collect(link, work["receiver"], output)
    opened = engine.reconstruct(gathered, program) if gathered else []
    # The process stays until it is ended, because others may still read what it sent.
    _write(pipe, {"opened": opened, "parts": parts})


def _listen(pipe: Connection, orders: SimpleQueue[dict[str, Any]]) -> None:
    """Queue orders as they come, and end the process when the party is gone."""
    while True:
        try:
            orders.put(_read(pipe))
        except (EOFError, ConnectionError):
            os._exit(1)


def _read(pipe: Connection) -> dict[str, Any]:
    return cast("dict[str, Any]", unpackb(pipe.recv_bytes()))


def _write(pipe: Connection, words: dict[str, Any]) -> None:
    # Packed here, because the pipe's own messages are pickles.
    pipe.send_bytes(cast("bytes", packb(words)))
