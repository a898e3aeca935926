"""The journal of a run: what sites replied, kept on disk so that the run can be resumed."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import cast

from cryptography.exceptions import InvalidTag

from ..errors import FileError, WireError
from ..federation.keys import Key
from ..federation.message import Buffer, make_buffer, pack, unpack
from ..federation.recorded import digest_of

_MAGIC = b"silot-journal-1\n"
_LENGTH, _SALT, _NONCE, _TAG = 8, 32, 12, 16
# Bytes of a reply that a thread writes.
_LARGE = 1 << 20


class Journal:
    """An append-only file of replies, each after a note of it, which only its writer can read.

    A file is the magic, a salt (32 bytes), and for each reply the lengths of note and reply (8
    bytes each), and both under ChaCha20-Poly1305 by ``Key.own``, each after a random nonce (12
    bytes), where they are in the file being authenticated, and with a reply its note: nobody else
    can write one, either.

    Replies are on the disk before the next question leaves, and before a result is returned: a
    thread writes large ones while the protocol computes. A reply that a crash cut off is cut away,
    and requested again.

    Parameters
    ----------
    path
        The file, made when absent, readable by its owner only.
    key
        Of whoever runs the protocol.

    Raises
    ------
    FileError
        It is not a journal, or of another key (``journal-format``), or cannot be written.
    """

    def __init__(self, path: str | Path, key: Key) -> None:
        self.path, self._key = Path(path), key
        self._cipher = key.own(b"")
        self._lock = threading.Lock()
        # One thread, for entries stand one after the other.
        self._writer = ThreadPoolExecutor(1, "silot-journal")
        self._writing: list[Future[None]] = []
        self._is_settled = True
        # Where each note begins. Replies stay on the disk, because a run may have very many.
        self._places: dict[bytes, int] = {}
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
        self._wait()
        return len(self._places)

    def close(self) -> None:
        """Close the file, once all is written."""
        self._writer.shutdown()
        self._closing()

    def find(self, name: str, message: bytes, again: int = 0) -> bytes | None:
        """Return the reply to a message, if there is one; ``again`` counts it in the run from 0."""
        self._wait()
        with self._lock:
            start = self._places.get(key_of(name, message, again))
            if start is None:
                return None
            self._file.seek(start)
            _, of_note, of_reply = self._lengths()
            note, locked = self._file.read(of_note), self._file.read(of_reply)
        return self._decrypt(locked, _bind(start, note))

    def has(self, name: str, message: bytes, again: int = 0) -> bool:
        """Return whether ``find`` would return a reply."""
        self._wait()
        with self._lock:
            return key_of(name, message, again) in self._places

    def keep(self, name: str, message: bytes, reply: Buffer, again: int = 0) -> None:
        """Write a reply, a large one in a thread; ``settle`` makes it survive a power cut.

        Raises a ``FileError`` if the file cannot be written (``journal-unwritable``), or has
        ``settle`` raise it: then the run must not continue.
        """
        self._is_settled = False
        if len(reply) <= _LARGE:
            self._keep(name, message, reply, again)
        else:
            self._writing.append(self._writer.submit(self._keep, name, message, reply, again))

    def _keep(self, name: str, message: bytes, reply: Buffer, again: int) -> None:
        note = pack([name, _digest(message, again)])
        of_note, of_reply = (len(data) + _NONCE + _TAG for data in (note, reply))
        lengths = of_note.to_bytes(_LENGTH, "big") + of_reply.to_bytes(_LENGTH, "big")
        try:
            with self._lock:
                start = self._file.seek(0, os.SEEK_END)
                try:
                    first, second = os.urandom(_NONCE), os.urandom(_NONCE)
                    locked = first + self._cipher.encrypt(first, note, _bind(start))
                    self._file.write(lengths + locked + second)
                    body = make_buffer(len(reply) + _TAG)
                    self._cipher.encrypt_into(second, reply, _bind(start, locked), body)
                    self._file.write(body)
                    self._file.flush()
                except OSError:
                    # Half a reply would make those after it unreadable.
                    self._file.truncate(start)
                    raise
                self._places[key_of(name, message, again)] = start
        except OSError as error:
            raise self._unwritable(error) from None

    def settle(self, *, wait: bool = True) -> None:
        """Wait until all that was kept is on the disk, or raise as ``keep``.

        Without ``wait`` it returns at once where a thread still writes, which then settles that.
        """
        if self._is_settled:
            return
        if self._writing and not wait:
            self._writing.append(self._writer.submit(self._flush))
            return
        self._wait()
        for done in self._writing:
            done.result()
        self._flush()
        self._writing.clear()
        self._is_settled = True

    def _wait(self) -> None:
        """Wait until nothing is written."""
        futures.wait(self._writing)

    def _flush(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None

    def _read(self) -> None:
        """Find the replies, and cut off what follows the last complete one."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        end = len(_MAGIC) + _SALT
        if size < end and _MAGIC.startswith(self._file.read(len(_MAGIC))):
            self._file.truncate(0)
            self._file.write(_MAGIC + os.urandom(_SALT))
            self._file.flush()
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise self._malformed()
        self._cipher = self._key.own(self._file.read(_SALT))
        while end + 2 * _LENGTH <= size:
            length, of_note, _ = self._lengths()
            # A power cut may leave zeros in place of what was not settled.
            if end + length > size or of_note == 0:
                break
            name, digest = self._read_note(self._file.read(of_note), end)
            self._places[_hash_key(name, digest)] = end
            end = self._file.seek(end + length)
        self._file.truncate(end)

    def _lengths(self) -> tuple[int, int, int]:
        """Return the bytes of the entry that begins here, of its note, and of its reply."""
        note, reply = (int.from_bytes(self._file.read(_LENGTH), "big") for _ in range(2))
        return 2 * _LENGTH + note + reply, note, reply

    def _decrypt(self, locked: bytes, bound: bytes) -> bytes:
        """Return a note or a reply."""
        nonce, body = locked[:_NONCE], memoryview(locked)[_NONCE:]
        try:
            return self._cipher.decrypt(nonce, body, bound)
        except (InvalidTag, ValueError):
            raise self._malformed() from None

    def _read_note(self, locked: bytes, start: int) -> tuple[str, str]:
        """Return who replied, and the digest of the message."""
        try:
            body = unpack(self._decrypt(locked, _bind(start)))
        except WireError:
            raise self._malformed() from None
        parts = cast("list[object]", body) if isinstance(body, list) else []
        if [type(part) for part in parts] != [str, str]:
            raise self._malformed()
        return cast("tuple[str, str]", tuple(parts))

    def _malformed(self) -> FileError:
        return FileError(
            f"{self.path.name} is not a journal of a run, or was changed, or belongs to "
            "another key. Start a new run.",
            code="journal-format",
        )

    def _unwritable(self, error: OSError) -> FileError:
        return FileError(
            f"{self.path} cannot be written ({type(error).__name__}), so the run stops: free "
            "disk space, and resume it.",
            code="journal-unwritable",
        )


def _bind(start: int, note: bytes = b"") -> bytes:
    """Return what is authenticated beside a note, or a reply: where it is, and its note.

    So no entry can be moved, and no reply swapped.
    """
    return start.to_bytes(_LENGTH, "big") + note


def key_of(name: str, message: bytes, again: int = 0) -> bytes:
    """Return the key of a message to a site: few bytes, because a run has very many."""
    return _hash_key(name, _digest(message, again))


def _hash_key(name: str, digest: str) -> bytes:
    return hashlib.sha256(f"{digest} {name}".encode()).digest()


def _digest(message: bytes, again: int) -> str:
    return f"{digest_of(message)}{f'.{again}' if again else ''}"
