"""Every message of a run as the coordinator saw it, and where a long run keeps them."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, cast

from ..data import foreign
from ..data.files import write_whole
from ..data.foreign import guard, read_bytes
from ..errors import FileError, WireError
from .answer import Answer, Failure, decode_reply
from .message import Buffer, Scalar, pack
from .question import Question, decode_question

_MAGIC = "silot-transcript"
_VERSION = 1
# A thousand messages of the largest size; memory is the limit before.
_LARGEST = 1 << 40
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

    def keep(self, message: Buffer) -> bytes | Stored:
        """Keep a message; return it, or its place in the file."""
        if len(message) < _SMALL or self._held + len(message) <= self.in_memory:
            self._held += len(message)
            return bytes(message)
        try:
            with self._lock:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="silot")  # noqa: SIM115
                    weakref.finalize(self, self._file.close)
                start = self._file.seek(0, 2)
                self._file.write(message)
                self._file.flush()
        except OSError:
            return bytes(message)
        return Stored(len(message), start, self)

    def read(self, start: int, size: int) -> bytes:
        """Read bytes of the file."""
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
        """Read the message."""
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One message.

    Attributes
    ----------
    round
        Exchange it belongs to, from 0.
    holder
        The holder at the other end.
    direction
        ``"sent"`` to the holder or ``"received"`` from it.
    seconds
        Time since the run began.
    message
        The message as it travelled, or where a long run has put it; ``payload`` reads it.
    """

    round: int
    holder: str
    direction: Literal["sent", "received"]
    seconds: float
    message: bytes | Stored = field(repr=False)

    @property
    def payload(self) -> bytes:
        """The message as it travelled."""
        return self.message if isinstance(self.message, bytes) else self.message.read()

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self.message) if isinstance(self.message, bytes) else self.message.size

    def open(self) -> Question | Answer | Failure:
        """Decode the message."""
        if self.direction == "sent":
            return decode_question(self.payload)
        return decode_reply(self.payload)


@dataclass(frozen=True)
class Transcript:
    """The messages of one run, in the order of rounds and, within a round, of holder names.

    Contains what the holders sent: handle it as you would handle their data. Beyond 64 MB of
    messages a run puts the others into a temporary file without a name that only its owner may
    read; it goes with the transcript.
    """

    protocol: str
    parameters: Mapping[str, Scalar]
    entries: tuple[Entry, ...] = field(repr=False)

    @property
    def rounds(self) -> int:
        """Number of exchanges."""
        return 1 + max((entry.round for entry in self.entries), default=-1)

    @property
    def bytes_sent(self) -> int:
        """Bytes the coordinator sent."""
        return sum(entry.size for entry in self.entries if entry.direction == "sent")

    @property
    def bytes_received(self) -> int:
        """Bytes the coordinator received."""
        return sum(entry.size for entry in self.entries if entry.direction == "received")

    def seen_by(self, holder: str) -> tuple[Entry, ...]:
        """Return the entries that a holder took part in: all that it saw."""
        return tuple(entry for entry in self.entries if entry.holder == holder)

    def save(self, path: str | Path) -> None:
        """Write the transcript to a file only its owner may read, whole or not at all."""
        body = {
            "magic": _MAGIC,
            "version": _VERSION,
            "protocol": self.protocol,
            "parameters": dict(self.parameters),
            "entries": [
                [entry.round, entry.holder, entry.direction, entry.seconds, entry.payload]
                for entry in self.entries
            ],
        }
        write_whole(Path(path), pack(body), private=True)

    @classmethod
    def load(cls, path: str | Path) -> Transcript:
        """Read a transcript; a ``FileError`` when the file is not one."""

        def fail(why: str) -> FileError:
            return FileError(
                f"{path} is not a transcript of silot ({why}). Give the file that --transcript or "
                "Transcript.save wrote.",
                code="file-unreadable",
            )

        with guard(fail):
            data = read_bytes(Path(path), fail, _LARGEST)
            body = cast("dict[str, Any]", foreign.unpack(data, fail))
            if body["magic"] != _MAGIC or body["version"] != _VERSION:
                raise FileError(
                    f"{path} is a transcript of another version of silot.", code="file-version"
                )
            entries: list[Entry] = []
            for round_, holder, direction, seconds, payload in body["entries"]:
                if direction not in ("sent", "received") or not isinstance(payload, bytes):
                    raise ValueError("not an entry")
                entry = Entry(int(round_), str(holder), direction, float(seconds), payload)
                try:
                    entry.open()
                except WireError as error:
                    raise fail(error.message.removesuffix(".")) from None
                entries.append(entry)
            return cls(str(body["protocol"]), dict(body["parameters"]), tuple(entries))
