"""A teacher in a process of its own, that answers what its standard input brings.

A frame is four bytes of length and a message. The first argument says what kind of teacher.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from silot.distillation.teacher import Teacher

ROOT = Path(__file__).parents[1]
SIZE = struct.Struct("<I")


def model(inputs: Any) -> np.ndarray:
    """Three labels of records by their first feature."""
    logits = np.stack([-inputs[:, 0], np.zeros(len(inputs)), inputs[:, 0]], axis=1)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def serve() -> None:
    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    teacher = Teacher(model, size=50)
    while head := reading.read(SIZE.size):
        reply = teacher.reply(reading.read(SIZE.unpack(head)[0]))
        writing.write(SIZE.pack(len(reply)) + reply)
        writing.flush()


class Distant:
    """The way to a teacher in another process.

    Parameters
    ----------
    after
        Replies after which ``harm`` is sent to the process; ``None`` never.
    """

    def __init__(self, after: int | None = None, harm: signal.Signals = signal.SIGKILL) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        self.after, self.harm, self.replies = after, harm, 0

    def reply(self, message: bytes) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.replies == self.after:
            os.kill(self.process.pid, self.harm)
            if self.harm is signal.SIGKILL:
                self.process.wait()
        self.process.stdin.write(SIZE.pack(len(message)) + message)
        self.process.stdin.flush()
        head = self.process.stdout.read(SIZE.size)
        reply = self.process.stdout.read(SIZE.unpack(head)[0])
        self.replies += 1
        return reply

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            # What it was sent last, it may never have read.
            with suppress(BrokenPipeError):
                pipe.close()


if __name__ == "__main__":
    serve()
