"""Whether a process runs with a kit: two with one ledger and one name would be in their own way."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import FileError, MismatchError

if TYPE_CHECKING:
    from .kit import Kit

RUNNING = "running"
ELSEWHERE = "kit-elsewhere"

BEAT = 20.0
"""Seconds between words of a process that it runs."""

# Seconds without a word, after which another copy may begin.
_GONE = 3.0 * BEAT

# The handle must live as long as the process: closing any handle of the file gives the lock away.
_held: dict[str, int] = {}


def hold(kit: Kit) -> None:
    """Keep a kit to this process, until it ends.

    Raises
    ------
    FileError
        Another has it (``kit-in-use``), or the kit cannot be written (``file-unwritable``).
    """
    path = _path(kit)
    if path in _held:
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
    # When it began, for whoever looks.
    os.utime(handle)
    _held[path] = handle


def check_free(kit: Kit) -> None:
    """Raise ``kit-in-use`` where a process runs with the kit."""
    if since(kit) is not None:
        raise _in_use(kit)


def since(kit: Kit) -> float | None:
    """When the process began that runs with a kit (seconds of the epoch); ``None`` if none does."""
    path = _path(kit)
    try:
        if path in _held:
            return os.fstat(_held[path]).st_mtime
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


class Places:
    """Where the processes of each name run, as the server hears: of two copies the first stays."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def heard(self, name: str, place: bytes) -> str:
        """The code of why a process may not go on; empty if it may."""
        now = self._clock()
        with self._lock:
            first, last = self._heard.get(name, (place, now))
            if first != place and now - last < _GONE:
                return ELSEWHERE
            self._heard[name] = place, now
        return ""


def place_of(kit: Kit) -> bytes:
    """A name of this copy of a kit, the same after a restart; it tells nothing of the machine."""
    words = f"{uuid.getnode()} {socket.gethostname()} {kit.folder} {kit.name}"
    return sha256(words.encode()).digest()[:16]


def elsewhere(kit: Kit) -> MismatchError:
    """What is said where another copy of the kit runs."""
    return MismatchError(
        f"a copy of the kit of {kit.name!r} runs elsewhere, and was heard of within the last "
        f"{_GONE:.0f} s. End it; if nobody runs it, the keys were stolen: have the coordinator "
        "revoke the certificate.",
        code=ELSEWHERE,
    )


def _path(kit: Kit) -> str:
    # As in kit.OWN.
    return str(kit.folder / "silot" / RUNNING)


def _in_use(kit: Kit) -> FileError:
    return FileError(
        f"{kit.folder} is in use by another process. `silot site status` says since when; end "
        "that one first.",
        code="kit-in-use",
    )


__all__ = ["Places", "check_free", "elsewhere", "hold", "place_of", "since"]
