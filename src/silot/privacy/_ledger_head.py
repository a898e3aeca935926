"""The last row of every ledger, noted outside the ledgers: what finds a file that was put back."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError

STATE = "SILOT_STATE"
"""Environment variable that names the folder of heads."""

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS heads (ledger TEXT PRIMARY KEY, sequence INTEGER NOT NULL, "
    "hash TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS places (path TEXT PRIMARY KEY, ledger TEXT NOT NULL) STRICT",
)


@dataclass(frozen=True)
class Head:
    """A row that a ledger is known to have had."""

    sequence: int
    hash: str


def state_folder() -> Path:
    """Where heads are kept: ``SILOT_STATE``, or the user's folder for state."""
    given = os.environ.get(STATE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "silot"


def place_of(path: Path) -> str:
    """One name for a file, however it is written."""
    return str(path.parent.resolve() / path.name)


class Heads:
    """Heads of all ledgers of a user, in one small file.

    A head only ever goes forward. Whoever can write both the ledger and this file can put both
    back: keep them apart, with ``SILOT_STATE`` on another disk or in other hands.
    """

    def __init__(self, timeout: float) -> None:
        self.folder = state_folder()
        self._timeout = timeout

    def of(self, ledger: str) -> Head | None:
        """The head of a ledger, by the name it gave itself."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT sequence, hash FROM heads WHERE ledger = ?", (ledger,)
            ).fetchone()
        return None if row is None else Head(*row)

    def at(self, path: Path) -> str | None:
        """The ledger that was at a place."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT ledger FROM places WHERE path = ?", (place_of(path),)
            ).fetchone()
        return None if row is None else row[0]

    def advance(self, ledger: str, path: Path, head: Head) -> None:
        """Note a later row, durably; an earlier one than noted changes nothing."""
        with self._open() as connection, _transaction(connection):
            connection.execute(
                "INSERT INTO heads VALUES (?, ?, ?) ON CONFLICT (ledger) DO UPDATE SET "
                "sequence = excluded.sequence, hash = excluded.hash "
                "WHERE excluded.sequence > sequence",
                (ledger, head.sequence, head.hash),
            )
            connection.execute(
                "INSERT OR IGNORE INTO places VALUES (?, ?)", (place_of(path), ledger)
            )

    def trust(self, ledger: str, path: Path, head: Head) -> None:
        """Take a file for what it is, whatever was noted before."""
        with self._open() as connection, _transaction(connection):
            connection.execute(
                "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (ledger, head.sequence, head.hash)
            )
            connection.execute(
                "INSERT OR REPLACE INTO places VALUES (?, ?)", (place_of(path), ledger)
            )

    def forget(self, path: Path) -> bool:
        """Forget what was at a place; whether anything was."""
        with self._open() as connection, _transaction(connection):
            found = connection.execute("DELETE FROM places WHERE path = ?", (place_of(path),))
        return found.rowcount > 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Opened for each use: cheap, and nothing is held across a fork. With a rollback journal,
        # which never grows beyond what is changed.
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.closing(
                sqlite3.connect(
                    self.folder / "heads.sqlite", timeout=self._timeout, isolation_level=None
                )
            ) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")
                for statement in _SCHEMA:
                    connection.execute(statement)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise FileError(
                f"heads of ledgers cannot be kept in {self.folder} ({type(error).__name__}), so "
                f"nothing may be told. Make the folder writable, or name another with {STATE}.",
                code="ledger-head",
            ) from None


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
