"""The SQLite file of a ledger: its rows, the chain of hashes over them, and how both are read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import FileError, SilotError
from .accounting import ROUNDING, compose

APPLICATION = 0x51107  # tells a ledger from other files of SQLite
VERSION = 3
_READABLE = (1, 2, 3)  # version 1 had releases alone, and version 2 no questions

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
    "SQLITE_FULL": ("the disk is full. Free disk space", "ledger-full"),
    "SQLITE_IOERR": ("its disk is full or fails. Free space, or repair the disk", "ledger-disk"),
    "SQLITE_READONLY": ("it is read-only. Check the permissions of file and folder",
                        "ledger-read-only"),
    "SQLITE_BUSY": ("another process has locked it. Try again", "ledger-locked"),
    "SQLITE_LOCKED": ("another process has locked it. Try again", "ledger-locked"),
    "SQLITE_NOTADB": ("it is not a ledger of silot. Name another file", "ledger-kind"),
    "SQLITE_CORRUPT": ("the ledger is broken. Nothing may be released against it", "ledger-broken"),
}  # fmt: skip

# What Python raises on rows whose bytes were changed: texts that are no UTF-8, also in SQLite's own
# messages, and parameters that are no JSON, or lack a field.
_DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError
)  # fmt: skip

FIRST = "0" * 64
# What must stand before an event, for the same question; nothing for those that begin one.
_BEFORE = {"reserve": "", "release": "reserve", "commit": "release", "count": "",
           "answered": "count", "again": "", "refuse": "", "wait": "",
           "approve": "wait", "deny": "wait", "allow": "",
           "end": "allow", "pause": "", "resume": "pause", "join": "", "separate": "",
           "question": "", "rotate": ""}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One event in a ledger. Rows are added and never changed.

    Attributes
    ----------
    sequence
        Number of the row, from 0.
    event
        ``"open"`` once; then for each release ``"reserve"`` before anything is computed,
        ``"release"`` when the noisy answer is stored, ``"commit"`` before it is handed over; for
        each exact answer ``"count"`` before anything is computed, ``"answered"`` before it is
        handed over (below level record, with the answer); ``"again"`` once for each further asker
        that was handed an answer of before; ``"refuse"`` once for each asker, kind of
        question and reason. Of persons: ``"wait"`` for a question that is to be decided on,
        ``"approve"`` or ``"deny"`` once it was, ``"allow"`` for a level and an asker for a while,
        ``"end"`` before that is over, ``"pause"`` and ``"resume"`` for everything, ``"separate"``
        for a declaration that it is about other people; who did it is in ``parameters``.
        ``"join"`` where its records joined the account of other ledgers. ``"question"`` for a
        question that reached a site, with what became of it in ``parameters``, before its answer
        leaves; ``"rotate"`` where rows of old questions were moved away.
    time
        Coordinated universal time, ISO 8601.
    asker
        Asker, as the runtime knows it.
    mechanism, parameters
        What is released; parameters as JSON, arrays by their digest. Of an exact answer, how it
        was accounted for; of a refusal, its code.
    key
        SHA-256 of the question; in a refusal, of who asked for what and why not; where it was
        asked again, of that and who did.
    mu
        What the release spends; 0 in other rows.
    total
        What all reserves so far spend together.
    digest
        SHA-256 of the stored answer.
    previous, hash
        Hash of the row before, and of this row with it.
    """

    sequence: int
    event: str
    time: str
    asker: str
    mechanism: str
    parameters: str
    key: str
    mu: float
    total: float
    digest: str
    previous: str
    hash: str = ""

    def with_hash(self) -> Row:
        """Return the row with its hash."""
        return replace(self, hash=self.computed_hash())

    @property
    def facts(self) -> dict[str, Any]:
        """What happened, in fields that have one name in rows of every event."""
        content = json.loads(self.parameters or "{}")
        level = "" if self.event in ("open", "refuse") else self.mechanism
        if self.event == "reserve":
            # Parameters of a release are many, and of each kind other ones.
            who = {name: content[name] for name in ("run", "by") if name in content}
            content, level = {"question": self.mechanism, "mu": self.mu, **who}, "private"
        own = {"time": self.time, "event": self.event, "asker": self.asker, "level": level}
        return own | content

    def computed_hash(self) -> str:
        """Compute the SHA-256 of all fields but ``hash``, as a JSON list."""
        content = [getattr(self, name) for name in COLUMNS[:-1]]
        return hashlib.sha256(_JSON.encode(content).encode("ascii")).hexdigest()


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)
COLUMNS = tuple(item.name for item in fields(Row))


def now() -> str:
    """Return the time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest_of(reply: bytes) -> str:
    """Compute the SHA-256 of a stored answer."""
    return hashlib.sha256(reply).hexdigest()


class Chain:
    """Follows rows from the first to the last, and says which one does not fit.

    Parameters
    ----------
    fail
        Builds the error, of the number of a row and what is wrong with it.
    next, previous
        The number of the first row, and the hash of the row before it.
    """

    def __init__(
        self, fail: Callable[[int, str], FileError], next: int = 0, previous: str = FIRST
    ) -> None:
        self._fail, self.next, self.previous = fail, next, previous

    def follow(self, row: Row) -> None:
        """Take the next row, or raise if rows before it are missing or it was changed."""
        if row.sequence < self.next:
            raise self._fail(row.sequence, "was put in")
        if row.sequence > self.next:
            raise self._fail(self.next, "is missing")
        if row.previous != self.previous:
            raise self._fail(self.next, "does not follow the row before it")
        if row.hash != row.computed_hash():
            raise self._fail(self.next, "was changed")
        self.next, self.previous = row.sequence + 1, row.hash


class Gaps:
    """Where rows of questions were moved away: their numbers and the hashes on both sides.

    A ``rotate`` row has the digest, so that no other row can be cut out.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.rows = 0

    def add(self, first: int, previous: str, after: Row) -> None:
        """Note that rows from ``first`` on, up to the row ``after`` them, are not there."""
        self.rows += after.sequence - first
        line = f"{first} {previous} {after.sequence} {after.previous}\n"
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        """SHA-256 of all gaps so far."""
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Rotation:
    """What was moved away last: rows of questions before the number ``until``."""

    until: int = 0
    gaps: str = Gaps().digest
    rows: int = 0


def walk_chain(
    rows: Iterable[tuple[Row, bytes | None]], rotation: Rotation | None = None
) -> Iterator[Row]:
    """Yield the rows while every hash, total and stored answer fits; else say which does not."""
    rotation = Rotation() if rotation is None else rotation
    chain, gaps = Chain(broken_error), Gaps()
    events: set[tuple[str, str]] = set()
    squares, first_gap = 0.0, 0
    for row, reply in rows:
        position = chain.next
        if 0 < position < row.sequence and position < rotation.until:
            first_gap = first_gap or position
            gaps.add(position, chain.previous, row)
            chain.next, chain.previous = row.sequence, row.previous
        chain.follow(row)
        position = row.sequence
        if not _is_in_order(row, events):
            raise broken_error(position, "is out of order")
        # Nothing follows from a question, and there are very many.
        if row.event != "question":
            events.add((row.event, row.key))
        if row.event == "reserve":
            squares += row.mu**2
        fits = math.isclose(row.total, math.sqrt(squares), rel_tol=ROUNDING)
        if not fits or not _fits(row, reply):
            raise broken_error(position, "does not add up")
        yield row
    if chain.next == 0:
        raise broken_error(0, "is missing")
    if gaps.digest != rotation.gaps:
        raise broken_error(first_gap, "or a later one is missing, and was not moved away by silot")


def _is_in_order(row: Row, events: Collection[tuple[str, str]]) -> bool:
    """Whether an event may come now: ``open`` first, and no other twice or before its time."""
    if not events or row.event == "open":
        return not events and row.event == "open"
    before = _BEFORE.get(row.event)
    if before is None or (row.event, row.key) in events:
        return False
    return before == "" or (before, row.key) in events


def _fits(row: Row, reply: bytes | None) -> bool:
    if row.event == "reserve":
        return 0 < row.mu < math.inf and reply is None
    if row.event in ("release", "answered"):
        return row.mu == 0 and reply is not None and digest_of(reply) == row.digest
    return row.mu == 0 and reply is None


def broken_error(position: int, what: str) -> FileError:
    """Build the error for a ledger whose rows are not as they were written."""
    return FileError(
        f"the ledger is broken: row {position} {what}. Nothing may be released against it; "
        "find out what happened, and count what it had spent as spent.",
        code="ledger-broken",
    )


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
    except SilotError:
        raise
    except _DAMAGED as error:
        raise FileError(
            f"{where}: the ledger is broken ({type(error).__name__} where rows of silot were "
            "expected). Nothing may be released against it; find out what happened: "
            "`silot privacy ledger verify`.",
            code="ledger-broken",
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
    """Create the tables and triggers of a ledger in an empty database."""
    for statement in (
        *SCHEMA,
        f"PRAGMA application_id = {APPLICATION}",
        f"PRAGMA user_version = {VERSION}",
    ):
        connection.execute(statement)


def check_schema(connection: sqlite3.Connection) -> bool:
    """Return whether the rules against changes are in place."""
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).fetchall()
    return {row[0] for row in statements} == set(SCHEMA)


@contextmanager
def create_file(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Create a ledger for the first row; afterwards it appears at ``path``, whole or not at all.

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
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Write a file to the disk, whoever wrote it."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_log(path: Path) -> None:
    """Write to the disk what was committed to a ledger, by whichever process."""
    log = Path(f"{path}-wal")
    if log.exists():
        sync_file(log)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk: a new file is durable only with them."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_INSERT = (
    f"INSERT INTO rows ({', '.join(COLUMNS)}, reply) VALUES ({', '.join('?' * len(COLUMNS))}, ?)"
)


@dataclass(frozen=True)
class AnswerSummary:
    """Answers of one kind to one asker, added up.

    Attributes
    ----------
    asker, level, kind
        To whom; ``"private"``, ``"statistics"`` or ``"record"``; what was asked, of a release the
        mechanism.
    first, last
        When.
    times, mu
        How many answers, and what they spent together.
    again
        Whether they had been sent to another asker, whom they were charged to.
    """

    asker: str
    level: str
    kind: str
    first: str
    last: str
    times: int
    mu: float
    again: bool


def summarize_answers(connection: sqlite3.Connection) -> list[AnswerSummary]:
    """Sum up the answers to each asker, the latest first."""
    cursor = connection.execute(
        "SELECT asker, 'private', mechanism, MIN(time), MAX(time) AS latest, COUNT(*), SUM(mu * "
        "mu), 0 FROM rows WHERE event = 'reserve' GROUP BY asker, mechanism UNION ALL SELECT "
        "asker, mechanism, json_extract(parameters, '$.question'), MIN(time), MAX(time), COUNT(*), "
        "0.0, 0 FROM rows WHERE event = 'count' GROUP BY 1, 2, 3 UNION ALL SELECT asker, "
        "mechanism, json_extract(parameters, '$.question'), MIN(time), MAX(time), COUNT(*), "
        "SUM(json_extract(parameters, '$.mu') * json_extract(parameters, '$.mu')), 1 FROM rows "
        "WHERE event = 'again' GROUP BY 1, 2, 3 ORDER BY latest DESC"
    )
    return [
        AnswerSummary(*values[:6], mu=math.sqrt(values[6]), again=bool(values[7]))
        for values in cursor
    ]


def count_answers(connection: sqlite3.Connection, question: str) -> int:
    """Count the exact answers of a kind below level record."""
    row = connection.execute(
        "SELECT COUNT(*) FROM rows WHERE event = 'count' AND mechanism != 'record' AND "
        "json_extract(parameters, '$.question') = ?",
        (question,),
    ).fetchone()
    return int(row[0])


def read_name(connection: sqlite3.Connection) -> str:
    """Read the name that the ledger took when it was created."""
    (text,) = connection.execute("SELECT parameters FROM rows WHERE sequence = 0").fetchone() or (
        "{}",
    )
    try:
        ledger = json.loads(text).get("ledger", "")
    except (ValueError, AttributeError):
        ledger = ""
    if not isinstance(ledger, str) or not ledger:
        raise broken_error(0, "has no name")
    return ledger


def add_first(connection: sqlite3.Connection) -> None:
    """Add the first row of the chain."""
    parameters = json.dumps({"ledger": secrets.token_hex(16), "version": VERSION})
    new = Row(0, "open", now(), "", "", parameters, "", 0.0, 0.0, "", FIRST).with_hash()
    connection.execute(_INSERT, (*(getattr(new, name) for name in COLUMNS), None))


def add(
    connection: sqlite3.Connection,
    event: str,
    key: str,
    *,
    mu: float = 0.0,
    mechanism: str = "",
    parameters: str = "",
    asker: str = "",
    digest: str = "",
    reply: bytes | None = None,
) -> None:
    """Add a row, and what all reserves spend with it."""
    before = read_last(connection)
    total = compose([sum_spent(connection), mu]) if event == "reserve" else before.total
    new = Row(
        before.sequence + 1, event, now(), asker, mechanism, parameters, key, mu, total, digest,
        before.hash,
    ).with_hash()  # fmt: skip
    connection.execute(_INSERT, (*(getattr(new, name) for name in COLUMNS), reply))


def add_again(connection: sqlite3.Connection, first: Row, asker: str) -> None:
    """Note, once, that an asker gets what was sent to another one before; it spends nothing.

    Parameters
    ----------
    connection
        To the file.
    begun
        What was charged or counted when it was first sent.
    asker
        Who gets it now.
    """
    key = hashlib.sha256(json.dumps([first.key, asker]).encode()).hexdigest()
    if asker in ("", first.asker) or find_row(connection, "again", key) is not None:
        return
    release = first.event == "reserve"
    entry = {} if release else json.loads(first.parameters)
    again = {
        "question": first.mechanism if release else entry["question"],
        "mu": first.mu,
    }
    level = "private" if release else first.mechanism
    add(connection, "again", key, mechanism=level, parameters=json.dumps(again), asker=asker)


def sum_spent(connection: sqlite3.Connection) -> float:
    """Sum what all reserves spend, whether they came to a release or not."""
    (squares,) = connection.execute(
        "SELECT COALESCE(SUM(mu * mu), 0.0) FROM rows WHERE event = 'reserve'"
    ).fetchone()
    return math.sqrt(squares)


def read_last(connection: sqlite3.Connection) -> Row:
    """Read the last row."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    if values is None:
        raise broken_error(0, "is missing")
    return Row(*values)


def has_more_than_questions(connection: sqlite3.Connection, sequence: int) -> bool:
    """Return whether a row after this one is of another event than a question."""
    row = connection.execute(
        "SELECT 1 FROM rows WHERE sequence > ? AND event <> 'question' LIMIT 1", (sequence,)
    ).fetchone()
    return row is not None


def read_numbered(connection: sqlite3.Connection, sequence: int) -> Row | None:
    """Read the row of a number, if there is one."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE sequence = ?", (sequence,)
    ).fetchone()
    return None if values is None else Row(*values)


def find_row(connection: sqlite3.Connection, event: str, key: str) -> Row | None:
    """Find the row of an event about a question, if there is one."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE event = ? AND key = ?", (event, key)
    ).fetchone()
    return None if values is None else Row(*values)


def read_events(connection: sqlite3.Connection, *events: str) -> list[Row]:
    """Read the rows of some events, first to last; raise where one was changed."""
    cursor = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE event IN ({_marks(events)}) "
        "ORDER BY sequence",
        events,
    )
    return [_intact(Row(*values)) for values in cursor]


def read_latest(
    connection: sqlite3.Connection, events: Sequence[str], last: int | None, skip: int
) -> Iterator[Row]:
    """Read the last rows of some events but the ``skip`` very last of them, first to last."""
    # The index would have to be sorted; from the end of the table a few rows are enough.
    where = f"FROM rows WHERE +event IN ({_marks(events)})"
    start = size = -1
    if last is not None:
        numbers = connection.execute(
            f"SELECT sequence {where} ORDER BY sequence DESC LIMIT ? OFFSET ?",
            (*events, last, skip),
        ).fetchall()
        if not numbers:
            return
        start, size = numbers[-1][0], len(numbers)
    cursor = connection.execute(
        f"SELECT {', '.join(COLUMNS)} {where} AND sequence >= ? ORDER BY sequence LIMIT ?",
        (*events, start, size),
    )
    for values in cursor:
        yield _intact(Row(*values))


def find_span(connection: sqlite3.Connection, since: str, until: str) -> tuple[int, int] | None:
    """Find the numbers of the first and the last row from a time on and before another."""
    first, last = connection.execute(
        "SELECT MIN(sequence), MAX(sequence) FROM rows WHERE time >= ? AND time < ?",
        # A text that is later than any time.
        (since, until or "~"),
    ).fetchone()
    return None if first is None else (first, last)


def read_span(connection: sqlite3.Connection, first: int, last: int) -> Iterator[Row]:
    """Read the rows of these numbers, first to last, without the answers they store."""
    cursor = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE sequence BETWEEN ? AND ? ORDER BY sequence",
        (first, last),
    )
    for values in cursor:
        yield Row(*values)


def read_rotation(connection: sqlite3.Connection) -> Rotation:
    """Read what was moved away last."""
    rows = read_events(connection, "rotate")
    names = [item.name for item in fields(Rotation)]
    content = json.loads(rows[-1].parameters) if rows else {}
    return Rotation(**{name: content[name] for name in names if rows})


def count_events(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of every event."""
    return dict(connection.execute("SELECT event, COUNT(*) FROM rows GROUP BY event").fetchall())


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _intact(row: Row) -> Row:
    # Whoever opened the ledger may not have walked the chain.
    if row.hash != row.computed_hash():
        raise broken_error(row.sequence, "was changed")
    return row


def remove_questions(connection: sqlite3.Connection, stop: int) -> Gaps:
    """Remove the rows of questions before a number; return all gaps in the file."""
    (rule,) = (statement for statement in SCHEMA if "no_removal" in statement)
    connection.execute("DROP TRIGGER no_removal")
    connection.execute("DELETE FROM rows WHERE event = 'question' AND sequence < ?", (stop,))
    connection.execute(rule)
    gaps, next, hash = Gaps(), 0, FIRST
    for row in read_span(connection, 0, stop):
        if row.sequence > next:
            gaps.add(next, hash, row)
        next, hash = row.sequence + 1, row.hash
    return gaps


def copy_file(connection: sqlite3.Connection, path: Path) -> Row:
    """Copy a ledger as it is at one moment to a new file; return its last row, once all fit.

    Others may write meanwhile. The file appears whole or not at all.
    """
    if path.exists():
        raise FileError(f"{path} already exists. Give another name.", code="file-exists")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    os.close(handle)
    partial = Path(name)
    try:
        with contextlib.closing(_open(partial.absolute().as_uri(), 0.0)) as copy:
            connection.backup(copy)
            rows = walk_chain(read_rows(copy), read_rotation(copy))
            (last,) = deque(rows, maxlen=1)
        sync_file(partial)
        os.link(partial, path)
        sync_folder(path.parent)
    finally:
        for end in ("", "-wal", "-shm"):
            Path(f"{partial}{end}").unlink(missing_ok=True)
    return last


def find_reply(connection: sqlite3.Connection, key: str, event: str = "release") -> bytes | None:
    """Find the stored answer to a question; raise where it was changed."""
    values = connection.execute(
        "SELECT sequence, digest, reply FROM rows WHERE event = ? AND key = ?", (event, key)
    ).fetchone()
    if values is None:
        return None
    sequence, digest, reply = values
    if digest_of(reply or b"") != digest:
        raise broken_error(sequence, "was changed")
    return reply


def read_rows(connection: sqlite3.Connection) -> Iterator[tuple[Row, bytes | None]]:
    """Read all rows with the answers they store."""
    cursor = connection.execute(f"SELECT {', '.join(COLUMNS)}, reply FROM rows ORDER BY sequence")
    for *values, reply in cursor:
        yield Row(*values), reply


def list_exact_answers(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """List exact answers and refusals, with the question and the level of each."""
    answers: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.event not in ("count", "again", "refuse"):
            continue
        parameters = json.loads(row.parameters)
        level = {
            "count": row.mechanism,
            "again": f"{row.mechanism}, sent before",
            "refuse": f"refused: {parameters.get('code')}",
        }
        answers[row.key] = {
            "time": row.time,
            "asker": row.asker,
            "question": parameters["question"],
            "level": level[row.event],
        }
    return list(answers.values())


def list_releases(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """List releases, with how far each came."""
    releases: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.event == "reserve":
            releases[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "mechanism": row.mechanism,
                "parameters": json.loads(row.parameters),
                "mu": row.mu,
                "total": row.total,
                "key": row.key,
                "state": "reserve",
            }
        elif row.key in releases:
            releases[row.key]["state"] = row.event
    return list(releases.values())
