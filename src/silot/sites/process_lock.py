"""One process for each kit: two with one ledger and one name would hinder each other."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from hashlib import sha256

from ..errors import FileError, MismatchError
from .kit import Kit

ELSEWHERE = "kit-elsewhere"

BEAT = 20.0
"""Seconds between a process's statements that it runs."""

# Seconds without a statement, after which another copy of the kit may begin.
_EXPIRY = 3.0 * BEAT

# The handle must stay open as long as the process runs: closing any handle of a file releases the
# lock of its process.
_handles: dict[str, int] = {}


def lock_kit(kit: Kit) -> None:
    """Reserve a kit for this process, until it ends.

    Raises a ``FileError`` if another process has it (``kit-in-use``), or the kit cannot be written
    (``file-unwritable``).
    """
    path = _lock_file(kit)
    if path in _handles:
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({type(error).__name__}). Check the folder and its rights.",
            code="file-unwritable",
        ) from None
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise _in_use(kit) from None
    # The time of the file says when the process began.
    os.utime(handle)
    _handles[path] = handle


def check_unlocked(kit: Kit) -> None:
    """Raise ``kit-in-use`` where a process runs with the kit."""
    if locked_since(kit) is not None:
        raise _in_use(kit)


def locked_since(kit: Kit) -> float | None:
    """Return when the process with a kit began (seconds of the epoch); ``None`` if none runs."""
    path = _lock_file(kit)
    try:
        if path in _handles:
            return os.fstat(_handles[path]).st_mtime
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)
    return None


class KitCopies:
    """Which copy of each kit runs, as the server learns it: of two copies the first stays."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def record(self, name: str, copy: bytes) -> str:
        """Record that a copy runs; return the code of why it must end, empty if it may go on."""
        now = self._clock()
        with self._lock:
            first, last = self._last.get(name, (copy, now))
            if first != copy and now - last < _EXPIRY:
                return ELSEWHERE
            self._last[name] = copy, now
        return ""


def identify_copy(kit: Kit) -> bytes:
    """Return an id of this copy of a kit, the same after a restart.

    It is a digest, so that it discloses nothing of the machine.
    """
    words = f"{uuid.getnode()} {socket.gethostname()} {kit.folder} {kit.name}"
    return sha256(words.encode()).digest()[:16]


def copied_elsewhere(kit: Kit) -> MismatchError:
    """Return the error for where another copy of the kit runs."""
    return MismatchError(
        f"a copy of the kit of {kit.name!r} runs elsewhere, and was heard of within the last "
        f"{_EXPIRY:.0f} s. End it; if nobody runs it, the keys were stolen: have the coordinator "
        "revoke the certificate.",
        code=ELSEWHERE,
    )


def _lock_file(kit: Kit) -> str:
    return str(kit.own / "running")


def _in_use(kit: Kit) -> FileError:
    return FileError(
        f"{kit.folder} is in use by another process. `silot site status` says since when; end "
        "that one first.",
        code="kit-in-use",
    )
