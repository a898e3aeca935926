"""One process for each kit: two with one ledger and one name would hinder each other."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from hashlib import sha256

from filelock import FileLock, Timeout

from ..errors import FileError, MismatchError
from .kit import Kit

ELSEWHERE = "kit-elsewhere"
PLACE = "SILOT_PLACE"

BEAT = 20.0
"""Seconds between a process's statements that it runs."""

# Seconds without a statement, after which another copy of the kit may begin.
_EXPIRY = 3.0 * BEAT

# Of this process, by the file that says when it began; kept as long as it runs.
_locks: dict[str, FileLock] = {}


def lock_kit(kit: Kit) -> None:
    """Reserve a kit for this process, until it ends.

    Raises a ``FileError`` if another process has it (``kit-in-use``), or the kit cannot be written
    (``file-unwritable``).
    """
    path = _lock_file(kit)
    if path in _locks:
        return
    try:
        lock = _try_lock(path)
        if lock is None:
            raise _in_use(kit)
        # The time of the file says when the process began.
        with open(path, "ab"):  # noqa: PTH123
            os.utime(path)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({type(error).__name__}). Check the folder and its rights.",
            code="file-unwritable",
        ) from None
    _locks[path] = lock


def _try_lock(path: str) -> FileLock | None:
    """Return the lock if no process has it; that of a killed process is free."""
    lock = FileLock(f"{path}.lock", mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def check_unlocked(kit: Kit) -> None:
    """Raise ``kit-in-use`` where a process runs with the kit."""
    if locked_since(kit) is not None:
        raise _in_use(kit)


def locked_since(kit: Kit) -> float | None:
    """Return when the process with a kit began (seconds of the epoch); ``None`` if none runs."""
    path = _lock_file(kit)
    try:
        if path not in _locks:
            if not os.path.exists(f"{path}.lock"):  # noqa: PTH110
                return None
            lock = _try_lock(path)
            if lock is not None:
                lock.release()
                return None
        return os.stat(path).st_mtime  # noqa: PTH116
    except OSError:
        return None


class KitCopies:
    """Which copy of each kit runs, as the server learns it: of two copies the first stays."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def record(self, name: str, copy: bytes) -> str:
        """Record that a copy runs; return the code of why it must end, empty if it may continue."""
        now = self._clock()
        with self._lock:
            first, last = self._last.get(name, (copy, now))
            if first != copy and now - last < _EXPIRY:
                return ELSEWHERE
            self._last[name] = copy, now
        return ""


def identify_copy(kit: Kit) -> bytes:
    """Return an id of this copy of a kit, the same after a restart.

    It is a digest, so that it discloses nothing of the machine. ``SILOT_PLACE`` stands for the
    machine where that has another name and address at each start, as a container has.
    """
    place = os.environ.get(PLACE) or f"{uuid.getnode()} {socket.gethostname()}"
    words = f"{place} {kit.folder} {kit.name}"
    return sha256(words.encode()).digest()[:16]


def copied_elsewhere(kit: Kit) -> MismatchError:
    """Return the error for where another copy of the kit runs."""
    return MismatchError(
        f"a copy of the kit of {kit.name!r} runs elsewhere, and was active within the last "
        f"{_EXPIRY:.0f} s. Stop it, or wait that long if this machine has a new name; in a "
        f"container set {PLACE} to a name that stays. If you did not start it, the keys "
        "were stolen: have the coordinator revoke the certificate.",
        code=ELSEWHERE,
    )


def _lock_file(kit: Kit) -> str:
    return str(kit.own / "running")


def _in_use(kit: Kit) -> FileError:
    return FileError(
        f"{kit.folder} is in use by another process. End that process first; `silot site "
        "status` says when it started.",
        code="kit-in-use",
    )
