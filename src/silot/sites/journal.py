"""What sites replied in one run, kept on disk: a run that stopped goes on where it was."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..errors import FileError, WireError
from ..federation.keys import Key
from ..federation.message import pack, unpack
from ..federation.recorded import digest_of

_MAGIC = b"silot-journal-1\n"
_LENGTH = 8


@dataclass(frozen=True)
class _Place:
    start: int
    size: int
    digest: str


class Journal:
    """An append-only file of replies, each locked for the key of who runs, after a note of it.

    A reply is on the disk before a protocol sees it. What was cut off while it was written, by a
    crash, is cut away: it is asked for again.

    Parameters
    ----------
    path
        The file, made when absent, readable by its owner only.
    key
        Of who runs.

    Raises
    ------
    FileError
        It is no journal, or of another key (``journal-format``), or cannot be written.
    """

    def __init__(self, path: str | Path, key: Key) -> None:
        self.path, self._key = Path(path), key
        self._lock = threading.Lock()
        self._places: dict[tuple[str, str], _Place] = {}
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            self._file = os.fdopen(handle, "r+b")
        except OSError as error:
            raise self._unwritable(error) from None
        self._closing = weakref.finalize(self, self._file.close)
        try:
            self._read()
        except OSError as error:
            self.close()
            raise self._unwritable(error) from None
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        """Close the file."""
        self._closing()

    def find(self, name: str, message: bytes, again: int = 0) -> bytes | None:
        """What a site replied to a message, if it did; ``again`` counts it in the run from 0."""
        note = name, _digest(message, again)
        with self._lock:
            place = self._places.get(note)
            if place is None:
                return None
            self._file.seek(place.start)
            locked = self._file.read(place.size)
        try:
            reply = self._key.unlock(locked)
        except FileError:
            raise self._odd() from None
        if digest_of(reply) != place.digest:
            raise self._odd()
        return reply

    def has(self, name: str, message: bytes, again: int = 0) -> bool:
        """Whether ``find`` would find a reply."""
        with self._lock:
            return (name, _digest(message, again)) in self._places

    def keep(self, name: str, message: bytes, reply: bytes, again: int = 0) -> None:
        """Write down a reply; ``settle`` has it stay.

        Raises
        ------
        FileError
            The file cannot be written: the run must not go on (``journal-unwritable``).
        """
        digest, of_reply = _digest(message, again), digest_of(reply)
        key = self._key.public
        note = key.lock(pack([name, digest, of_reply]))
        head, rest = key.locked(reply)
        size = len(head) + len(rest)
        lengths = len(note).to_bytes(_LENGTH, "big") + size.to_bytes(_LENGTH, "big")
        try:
            with self._lock:
                start = self._file.seek(0, os.SEEK_END)
                try:
                    for part in (lengths, note, head, rest):
                        self._file.write(part)
                    self._file.flush()
                except OSError:
                    # Half a reply would hide those after it.
                    self._file.truncate(start)
                    raise
                start += len(lengths) + len(note)
                self._places[name, digest] = _Place(start, size, of_reply)
        except OSError as error:
            raise self._unwritable(error) from None

    def settle(self) -> None:
        """Have all that was kept be on the disk.

        Raises
        ------
        FileError
            As ``keep``.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None

    def _read(self) -> None:
        """Find the replies; the file ends where the last whole one does."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if size < len(_MAGIC):
            self._file.truncate(0)
            self._file.write(_MAGIC)
            self._file.flush()
            return
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise self._odd()
        end = len(_MAGIC)
        while end + 2 * _LENGTH <= size:
            of_note, of_reply = (int.from_bytes(self._file.read(_LENGTH), "big") for _ in range(2))
            start = end + 2 * _LENGTH + of_note
            # Zeros are what a power cut may leave of what was not settled.
            if start + of_reply > size or of_note == 0:
                break
            name, digest, told = self._note(self._file.read(of_note))
            self._places[name, digest] = _Place(start, of_reply, told)
            end = self._file.seek(start + of_reply)
        self._file.truncate(end)

    def _note(self, locked: bytes) -> tuple[str, str, str]:
        """Who replied, and digests of the message and of the reply."""
        try:
            body = unpack(self._key.unlock(locked))
        except (FileError, WireError):
            raise self._odd() from None
        parts = cast("list[object]", body) if isinstance(body, list) else []
        if [type(part) for part in parts] != [str, str, str]:
            raise self._odd()
        return cast("tuple[str, str, str]", tuple(parts))

    def _odd(self) -> FileError:
        return FileError(
            f"{self.path.name} is no journal of a run, or was changed, or is of another key. Begin "
            "the run anew.",
            code="journal-format",
        )

    def _unwritable(self, error: OSError) -> FileError:
        return FileError(
            f"{self.path} cannot be written ({type(error).__name__}), so the run cannot go on: "
            "make room, and resume it.",
            code="journal-unwritable",
        )


def _digest(message: bytes, again: int) -> str:
    return f"{digest_of(message)}{f'.{again}' if again else ''}"


__all__ = ["Journal"]
