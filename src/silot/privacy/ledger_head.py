"""The last row of every ledger, noted outside the ledgers, to detect a file that was put back."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError
from .ledger_file import Row, read_last, read_name, read_numbered, sync_folder

STATE = "SILOT_STATE"
"""Environment variable that names the folder of heads."""

_LINE = re.compile(rb"(?m)^(\d+) ([0-9a-f]{64})(?: ([0-9.e+-]+))?$")
# Heads noted at the same time may stand in any order, near the end.
_TAIL = 1 << 13


@dataclass(frozen=True)
class Head:
    """A row that a ledger is known to have had."""

    sequence: int
    hash: str
    total: float = 0.0

    @property
    def line(self) -> bytes:
        """The line that notes it."""
        return f"{self.sequence} {self.hash} {self.total!r}\n".encode()


def state_folder() -> Path:
    """Return the folder of heads: ``SILOT_STATE``, or the user's folder for state."""
    name, base = os.environ.get(STATE), os.environ.get("XDG_STATE_HOME")
    try:
        home = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:
        home = Path()
    folder = Path(name) if name else home / "silot"
    if not folder.is_absolute():
        # From another folder it would be another one, and know nothing.
        raise FileError(
            f"there is no folder to note the last row of a ledger in. Name an absolute one with "
            f"{STATE}.",
            code="ledger-head",
        )
    return folder


def places_of(path: Path) -> set[str]:
    """Return names of a place: as it is written, and resolved, as a link may change."""
    return {os.path.abspath(path), str(path.parent.resolve() / path.name)}  # noqa: PTH100


class Heads:
    """Heads of all ledgers of a user: for each a file of lines that is only added to.

    Whoever can write both the ledger and this folder can put both back: keep them apart, with
    ``SILOT_STATE`` on another disk or in other hands.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = state_folder() if folder is None else Path(folder)

    def of(self, ledger: str) -> Head | None:
        """Read the head of a ledger, by the name that it gave itself."""
        with self._kept():
            data = _read(self._file(ledger, "head"), _TAIL)
        heads = [
            Head(int(number), digest.decode(), float(total or 0))
            for number, digest, total in _LINE.findall(data)
        ]
        return max(heads, key=lambda head: head.sequence, default=None)

    def at(self, path: Path) -> dict[str, str]:
        """Read the ledgers that were at a place, by the names of the place; no text for none."""
        with self._kept():
            return {
                place: _read(self._file(place, "place"), _TAIL).decode(errors="replace")
                for place in places_of(path)
            }

    def advance(self, ledger: str, path: Path, head: Head) -> None:
        """Note a later row, durably."""
        with self._kept():
            for name in places_of(path):
                place = self._file(name, "place")
                if not place.exists():
                    _write(place, ledger.encode())
            # A line that was begun when the power failed must not join this one.
            line = b"\n" + head.line
            file = self._file(ledger, "head")
            new = not file.exists()
            # One write of one line: others may note theirs at the same time.
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if os.write(handle, line) < len(line):
                    raise OSError("the line was not written whole")
                os.fsync(handle)
            finally:
                os.close(handle)
            if new:
                sync_folder(self.folder)

    def trust(self, ledger: str, path: Path, head: Head) -> None:
        """Take a file for what it is, whatever was noted before."""
        with self._kept():
            _write(self._file(ledger, "head"), head.line)
            for name in places_of(path):
                _write(self._file(name, "place"), ledger.encode())

    def forget(self, path: Path) -> bool:
        """Forget what was at a place; whether anything was."""
        with self._kept():
            places = [self._file(name, "place") for name in places_of(path)]
            had_ledger = any(place.exists() for place in places)
            for place in places:
                place.unlink(missing_ok=True)
        return had_ledger

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.{kind}"

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise FileError(
                f"the last row of a ledger cannot be noted in {self.folder} "
                f"({type(error).__name__}), so nothing may be disclosed. Make the folder writable, "
                f"or name another with {STATE}.",
                code="ledger-head",
            ) from None


class Place:
    """Where one ledger lies: that its path still leads to it, and that no row of it is missing.

    Parameters
    ----------
    path
        The ledger's file.
    folder
        Where heads are kept; ``None`` for what ``SILOT_STATE`` names.
    """

    def __init__(self, path: Path, folder: str | Path | None) -> None:
        self.path = path
        self._heads = Heads(folder)
        self._file: tuple[int, int] | None = None
        self._name = ""

    @property
    def folder(self) -> Path:
        """The folder where its head is noted."""
        return self._heads.folder

    def check_free(self) -> None:
        """Raise if a ledger was here that is gone."""
        had_ledger = any(self._heads.at(self.path).values())
        # Another process may have made it just now.
        if had_ledger and not self.path.exists():
            raise _gone(self.path)

    def settle(self) -> None:
        """Remember which file the path leads to now."""
        self._file = self._identity()

    def check(self, connection: sqlite3.Connection) -> int:
        """Return the number of the row that was noted last, -1 for none; raise if it is missing."""
        self._check_file()
        if not self._name:
            self._name = read_name(connection)
        ledgers, head = self._heads.at(self.path), self._heads.of(self._name)
        if set(ledgers.values()) - {"", self._name}:
            raise _replaced(self.path)
        if head is None:
            if read_last(connection).sequence > 0:
                raise FileError(
                    f"{self.path} was used before, but its last row is not noted in "
                    f"{self._heads.folder}: it comes from another machine, or {STATE} names "
                    f"another folder now. Compare `silot privacy ledger verify {self.path} --head "
                    f"HASH` with a head noted elsewhere, then `silot privacy ledger trust "
                    f"{self.path}`.",
                    code="ledger-unknown",
                )
            return -1
        row = read_numbered(connection, head.sequence)
        if row is None or row.hash != head.hash:
            raise FileError(
                f"{self.path} lacks the row {head.sequence} that it had before: it is an older "
                "copy, or rows were cut off, or a copy was used elsewhere. Restore the newest "
                f"one, with {self.path.name}-wal if there is one. What is missing was disclosed "
                "and charged. If there is no newer one: `silot privacy ledger trust "
                f"{self.path}`, which charges what it had spent.",
                code="ledger-older",
            )
        # A place it is new at has to be noted.
        return head.sequence if all(ledgers.values()) else -1

    def note(self, last: Row) -> None:
        """Note the last row, and see that the file is still there."""
        self._heads.advance(self._name, self.path, Head(last.sequence, last.hash, last.total))
        self._check_file()

    def read_total(self, connection: sqlite3.Connection) -> float:
        """Read what all releases had spent at the row that was noted last, as mu."""
        head = self._heads.of(read_name(connection))
        return 0.0 if head is None else head.total

    def trust(self, connection: sqlite3.Connection) -> None:
        """Take the file for what it is, whatever was noted before."""
        last = read_last(connection)
        head = Head(last.sequence, last.hash, last.total)
        self._heads.trust(read_name(connection), self.path, head)

    def _identity(self) -> tuple[int, int]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            raise _gone(self.path) from None
        return status.st_dev, status.st_ino

    def _check_file(self) -> None:
        """Raise if the path no longer leads to the file that was opened."""
        if self._identity() != self._file:
            raise _replaced(self.path)


def _gone(path: Path) -> FileError:
    return FileError(
        f"the ledger {path} was here and is gone; a new one would forget what was disclosed and "
        f"charged. Restore it, with {path.name}-wal if there is one. For records of other people "
        f"only: `silot privacy ledger forget {path}`.",
        code="ledger-gone",
    )


def _replaced(path: Path) -> FileError:
    return FileError(
        f"{path} is not the ledger that was used here. Restore that one. If this is the "
        f"right one: `silot privacy ledger trust {path}`.",
        code="ledger-replaced",
    )


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as handle:
            handle.seek(max(path.stat().st_size - most, 0))
            return handle.read()
    except FileNotFoundError:
        return b""


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, durably."""
    handle, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
