"""The SQLite file under a ledger: how it is made, opened, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileError

APPLICATION = 0x51107  # tells a ledger from other files of SQLite
VERSION = 2
_READABLE = (1, 2)  # version 1 had releases alone

# STRICT, so that an edited file cannot hold texts for numbers. REPLACE would delete a row without
# any trigger for deletion; "in_order" stops it.
SCHEMA = (
    "CREATE TABLE rows (sequence INTEGER PRIMARY KEY, event TEXT NOT NULL, time TEXT NOT NULL, "
    "asker TEXT NOT NULL, mechanism TEXT NOT NULL, parameters TEXT NOT NULL, key TEXT NOT NULL, "
    "mu REAL NOT NULL, total REAL NOT NULL, digest TEXT NOT NULL, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL, reply BLOB, UNIQUE (event, key)) STRICT",
    "CREATE INDEX spent ON rows (mu) WHERE event = 'reserve'",
    "CREATE TRIGGER no_change BEFORE UPDATE ON rows "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END",
    "CREATE TRIGGER no_removal BEFORE DELETE ON rows "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END",
    "CREATE TRIGGER in_order BEFORE INSERT ON rows "
    "WHEN NEW.sequence <> (SELECT COALESCE(MAX(sequence) + 1, 0) FROM rows) "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END",
)

_MEANINGS = {
    "SQLITE_FULL": ("the disk is full. Make room", "ledger-full"),
    "SQLITE_IOERR": ("its disk is full, or fails. Make room, or see to it", "ledger-disk"),
    "SQLITE_READONLY": ("it may only be read. Check the rights of file and folder",
                        "ledger-read-only"),
    "SQLITE_BUSY": ("another process keeps it locked. Try again", "ledger-locked"),
    "SQLITE_LOCKED": ("another process keeps it locked. Try again", "ledger-locked"),
    "SQLITE_NOTADB": ("it is not a ledger of silot. Name another file", "ledger-kind"),
    "SQLITE_CORRUPT": ("the ledger is broken. Nothing may be released against it", "ledger-broken"),
}  # fmt: skip


@contextmanager
def translate_errors(path: Path | None) -> Iterator[None]:
    """Turn errors of SQLite and of the system into errors with a code."""
    where = "the ledger in memory" if path is None else str(path)
    try:
        yield
    except sqlite3.ProgrammingError:
        raise FileError(f"{where} is closed. Open it again.", code="ledger-closed") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        meaning = next((words for key, words in _MEANINGS.items() if name.startswith(key)), None)
        what, code = meaning or (f"it cannot be used ({name or 'error'})", "file-unreadable")
        raise FileError(f"{where}: {what}.", code=code) from None
    except OSError as error:
        raise FileError(
            f"{where} cannot be made or opened ({type(error).__name__}). Check the folder and "
            "its rights.",
            code="file-unwritable",
        ) from None


def connect(path: Path | None, *, timeout: float, readonly: bool = False) -> sqlite3.Connection:
    """Open a ledger's database, durable at every commit."""
    if path is None:
        connection = _open(":memory:", timeout)
        fill(connection)
        return connection
    mode = "ro" if readonly else "rw"
    connection = _open(f"{path.absolute().as_uri()}?mode={mode}", timeout)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _check_kind(path, application, version)
        # Every commit reaches the disk before it returns: FULL does that in WAL mode, NORMAL
        # does not; fullfsync is what macOS needs for the same.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        if version != VERSION and not readonly:
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(name: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )


def _check_kind(path: Path, application: int, version: int) -> None:
    if application != APPLICATION:
        raise FileError(
            f"{path}: it is not a ledger of silot. Name another file.", code="ledger-kind"
        )
    if version not in _READABLE:
        raise FileError(
            f"{path} is a ledger of another version of silot ({version}, not {VERSION}).",
            code="file-version",
        )


def fill(connection: sqlite3.Connection) -> None:
    """Give an empty database the form of a ledger."""
    for statement in (
        *SCHEMA,
        f"PRAGMA application_id = {APPLICATION}",
        f"PRAGMA user_version = {VERSION}",
    ):
        connection.execute(statement)


def check_schema(connection: sqlite3.Connection) -> bool:
    """Whether the rules against changes are in place."""
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).fetchall()
    return {row[0] for row in statements} == set(SCHEMA)


@contextmanager
def create_file(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A new ledger to put the first row in; afterwards it appears at ``path``, whole or not at all.

    Whoever is killed on the way leaves no half-made ledger behind: that would look like one
    against which nothing was spent. Where another process was faster, its ledger stays.
    """
    # Looked for in this order: where another process has just made the ledger, it is there by now.
    if Path(f"{path}-wal").exists() and not path.exists():
        raise FileError(
            f"{path} is gone while {path.name}-wal is there: the ledger was moved or lost. Put "
            "it back.",
            code="ledger-broken",
        )
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    os.close(handle)
    partial = Path(name)
    try:
        with contextlib.closing(_open(partial.absolute().as_uri(), timeout)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            fill(connection)
            yield connection
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
