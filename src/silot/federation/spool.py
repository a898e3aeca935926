"""Where the messages of a run are kept: in memory, and in a file once they are many."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

_IN_MEMORY = 1 << 23
# Smaller ones are not worth a seek.
_SMALL = 1 << 8


@dataclass
class Spool:
    """Keeps messages: the first ``in_memory`` bytes there, those after them in a file.

    The file has no name, its owner alone may read it, and it is gone with the messages. It lies
    in ``tempfile.gettempdir()``. Where it cannot be written, messages stay in memory.
    """

    in_memory: int = _IN_MEMORY
    _held: int = field(default=0, init=False)
    _file: IO[bytes] | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def keep(self, message: bytes) -> bytes | Stored:
        """The message, or its place in the file."""
        if len(message) < _SMALL or self._held + len(message) <= self.in_memory:
            self._held += len(message)
            return message
        try:
            with self._lock:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="silot")  # noqa: SIM115
                    weakref.finalize(self, self._file.close)
                start = self._file.seek(0, 2)
                self._file.write(message)
                self._file.flush()
        except OSError:
            return message
        return Stored(len(message), start, self)

    def read(self, start: int, size: int) -> bytes:
        """Bytes of the file."""
        with self._lock:
            if self._file is None:
                return b""
            self._file.seek(start)
            return self._file.read(size)


@dataclass(frozen=True, slots=True)
class Stored:
    """A message in the file of a spool."""

    size: int
    start: int
    spool: Spool = field(repr=False)

    def read(self) -> bytes:
        """The message."""
        return self.spool.read(self.start, self.size)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Stored):
            return self.size == other.size and self.read() == other.read()
        return isinstance(other, bytes) and self.read() == other

    def __hash__(self) -> int:
        return hash(self.read())

    def __reduce__(self) -> tuple[Callable[[bytes], bytes], tuple[bytes]]:
        # A copy or another process has the message itself: the file is this process's.
        return bytes, (self.read(),)


__all__ = ["Spool", "Stored"]
