"""Accounts of people: ledgers about the same records share one budget.

A register in the state folder, beside the heads of ledgers, holds keyed fingerprints of the records
of every ledger. Where the table of a ledger shares records with that of another one, both join one
account, and what they spent adds up. Tables are compared when a holder opens them, which its owner
does, before any question: no asker can have two ledgers joined. There is no budget for each record,
because its refusals would say which records a holder has.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import FileError
from . import ledger_file as file
from .accounting import ROUNDING, compose

KEY, REGISTER = "people.key", "people.sqlite"

# Bytes of a fingerprint. Two unrelated tables of a million records have equal ones with odds of
# 1e12 / 2^64 = 5e-8, and one pair alone joins nothing.
_SIZE = 8
# Records that are converted at once, so that memory does not hold a second copy of the table.
_ROWS = 1 << 14
# A table is a copy, a part or a later version of another one if so much of the smaller one is in
# the other. Not all of it, because some records may have been corrected.
_PART = 0.99
# Otherwise so many records must be equal and without repetition in both: two, so that one accident
# joins nothing, and a share of the smaller table, though of a large one no more than ten.
_FEWEST, _SHARE, _ENOUGH = 2, 0.01, 10
# And so many times what people who are different would share.
_BEYOND_CHANCE = 3.0

_SCHEMA = (
    "CREATE TABLE mark (value BLOB NOT NULL) STRICT",
    "CREATE TABLE ledgers (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "path TEXT NOT NULL, account INTEGER NOT NULL, square REAL NOT NULL, exact INTEGER NOT NULL, "
    "pending TEXT NOT NULL, pending_mu REAL NOT NULL) STRICT",
    "CREATE TABLE fingerprints (ledger INTEGER NOT NULL, kind TEXT NOT NULL, marks BLOB NOT NULL, "
    "counts BLOB NOT NULL, PRIMARY KEY (ledger, kind)) STRICT",
    "CREATE TABLE apart (ledger INTEGER NOT NULL, other INTEGER NOT NULL, "
    "PRIMARY KEY (ledger, other)) STRICT",
)


class PeopleWarning(UserWarning):
    """A ledger joined the account of others, because its records are the same people's."""


@dataclass(frozen=True, eq=False)
class Marks:
    """Distinct fingerprints (m,), sorted, and how often each occurs (m,)."""

    values: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.uint32]

    @property
    def size(self) -> int:
        """How many records there are."""
        return int(self.counts.sum(dtype=np.int64))

    def count(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Count how often each of some fingerprints (k,) occurs (k,)."""
        if not len(self.values):
            return np.zeros(len(values), dtype=np.uint32)
        places = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        return np.where(self.values[places] == values, self.counts[places], np.uint32(0))

    def has(self, other: Marks) -> bool:
        """Return whether it has all fingerprints of another, each as often at least."""
        return bool((self.count(other.values) >= other.counts).all())

    def merge(self, other: Marks) -> Marks:
        """Return the fingerprints of both, each as often as the table has it that has it most."""
        values = np.union1d(self.values, other.values)
        return Marks(values, np.maximum(self.count(values), other.count(values)))


@dataclass(frozen=True, eq=False)
class Prints:
    """Both fingerprints of every record of a table.

    Attributes
    ----------
    named
        Of the values in the order of the columns' names; without names in that of the table.
    sorted
        Of the values in the order of size: files without names of columns, or with other ones,
        have the same.
    """

    named: Marks
    sorted: Marks

    def has(self, other: Prints) -> bool:
        """Return whether it has all records of another."""
        return self.named.has(other.named) and self.sorted.has(other.sorted)

    def merge(self, other: Prints) -> Prints:
        """Return the records of both tables."""
        return Prints(self.named.merge(other.named), self.sorted.merge(other.sorted))


@dataclass(frozen=True)
class Account:
    """Ledgers about the same people.

    Attributes
    ----------
    ledgers
        The path that each ledger had last, and what it spent, as mu.
    exact
        Exact answers of which a policy allows a limited number, in all these ledgers.
    """

    ledgers: tuple[tuple[str, float], ...]
    exact: int = 0

    @property
    def spent(self) -> float:
        """What all of them spent together, as mu."""
        return compose([mu for _, mu in self.ledgers])

    @property
    def words(self) -> str:
        """Which ledgers are about the same people, and what all of them spent."""
        others = ", ".join(f"{name} (mu {mu:.6g})" for name, mu in self.ledgers[1:])
        return f"mu {self.spent:.6g}, shared with {others}" if others else "its own"


def fingerprint_records(
    points: npt.NDArray[np.float64], columns: Sequence[str] | None, key: bytes
) -> Prints:
    """Compute the keyed fingerprints (HMAC-SHA256) of records (n, d), whatever their order.

    Labels and weights are not part of a record here: the same people under other labels, or counted
    otherwise, are the same people.
    """
    order = range(points.shape[1])
    if columns is not None:
        order = sorted(order, key=columns.__getitem__)
    sign_named, sign_sorted = (_signer(hmac.digest(key, kind, "sha256")) for kind in _KINDS)
    named, by_size = list[npt.NDArray[np.uint64]](), list[npt.NDArray[np.uint64]]()
    for start in range(0, len(points), _ROWS):
        # Single precision, so that a copy in float32 is the same. Decimal digits would not do: a
        # number and its copy may be rounded to different sides. Adding 0 makes 0 of -0.
        with np.errstate(over="ignore"):
            rows = points[start : start + _ROWS].astype("<f4") + np.float32(0.0)
        rows[np.isnan(rows)] = np.nan
        named.append(sign_named(rows[:, list(order)]))
        rows.sort(axis=1)
        by_size.append(sign_sorted(rows))
    return Prints(_count_marks(named), _count_marks(by_size))


_KINDS = (b"named", b"sorted")


def _signer(key: bytes) -> Callable[[npt.NDArray[np.float32]], npt.NDArray[np.uint64]]:
    """Return what computes HMAC-SHA256 of rows; its two hashes of the key are computed once."""
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(row: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(row)
        second.update(first.digest())
        return second.digest()[:_SIZE]

    def sign_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
        data, width = np.ascontiguousarray(rows).tobytes(), rows.shape[1] * rows.itemsize
        marks = b"".join(sign(data[k : k + width]) for k in range(0, len(data), width))
        return np.frombuffer(marks, dtype="<u8").astype(np.uint64)

    return sign_rows


def _count_marks(parts: list[npt.NDArray[np.uint64]]) -> Marks:
    values, counts = np.unique(np.concatenate(parts), return_counts=True)
    return Marks(values, counts.astype(np.uint32))


def share_people(first: Prints, second: Prints) -> bool:
    """Return whether two tables are about the same people, at least in part.

    They are if 99 % of the smaller table are in the other one, a repeated record as often as it is
    repeated; or if at least 2 records that are repeated in neither table are in both, 10 of them or
    1 % of the smaller table, and three times as many as of different people. How many of those are
    equal by accident, the pairs within each table tell: two records of different people are equal
    within a table as often as between two. So a table of few different records (answers yes or no)
    joins its copies, and small tables of the same answers; of two of one size, other people's
    differ by more than 1 %, unless there are far more records than different ones.
    """
    if _is_part(first.named, second.named):
        return True
    return _overlaps(first.named, second.named) or _overlaps(first.sorted, second.sorted)


def _is_part(first: Marks, second: Marks) -> bool:
    shared = np.minimum(first.counts, second.count(first.values)).sum(dtype=np.int64)
    return bool(shared >= _PART * min(first.size, second.size))


def _overlaps(first: Marks, second: Marks) -> bool:
    """Return whether more records that nothing repeats are in both tables than by accident."""
    in_second, in_first = second.count(first.values), first.count(second.values)
    between = int(((first.counts == 1) & (in_second == 1)).sum())
    # Pairs of equal records inside one table. Were all pairs accidents, one of n and m records
    # would be between the tables with odds of 2 n m : n^2 + m^2.
    inside = int(((first.counts == 2) & (in_second == 0)).sum())
    inside += int(((second.counts == 2) & (in_first == 0)).sum())
    n, m = float(first.size), float(second.size)
    by_accident = inside * 2.0 * n * m / (n**2 + m**2)
    enough = max(_FEWEST, min(_ENOUGH, math.ceil(_SHARE * min(n, m))))
    return between >= enough and between > _BEYOND_CHANCE * by_accident


class People:
    """The register of a user: which ledgers are about the same people, and what each spent.

    Parameters
    ----------
    folder
        Where it is, with the key of the fingerprints, readable by the owner only. Both are made
        when the first records are registered.
    timeout
        Seconds to wait for another process.
    """

    def __init__(self, folder: Path, timeout: float = 30.0) -> None:
        self._folder, self._timeout = folder, timeout
        self._file = folder / REGISTER

    def fingerprint(
        self, points: npt.NDArray[np.float64], columns: Sequence[str] | None = None
    ) -> Prints:
        """Compute the fingerprints of records under the key of this register."""
        with file.translate_errors(self._file):
            return fingerprint_records(points, columns, self._read_key())

    def register(self, ledger: str, path: Path, spent: float, prints: Prints) -> tuple[str, ...]:
        """Register the records of a ledger and join the accounts that share people with it.

        Parameters
        ----------
        ledger, path
            The name that the ledger gave itself, and where it is.
        spent
            What it spent, as mu.
        prints
            Fingerprints of the records. Those of earlier records stay: a ledger is charged for all
            people who ever were in its table.

        Returns
        -------
        tuple
            The paths of the ledgers that share its account from now on and did not before.
        """
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO ledgers SELECT NULL, ?, '', COALESCE(MAX(number), 0) + 1, 0.0, 0, '', "
                "0.0 FROM ledgers WHERE true ON CONFLICT (name) DO NOTHING",
                (ledger,),
            )
            connection.execute(
                "UPDATE ledgers SET path = ?, square = MAX(square, ?) WHERE name = ?",
                (str(path), spent**2, ledger),
            )
            number, account = connection.execute(
                "SELECT number, account FROM ledgers WHERE name = ?", (ledger,)
            ).fetchone()
            before = _read_prints(connection, number)
            table = prints
            if before is not None:
                if before.has(prints):
                    return ()
                table = before.merge(prints)
            _write_prints(connection, number, table)
            return _join(connection, number, account, table)

    def charge(
        self,
        ledger: str,
        *,
        spent: float,
        mu: float,
        budget: float,
        key: str,
        is_noted: Callable[[str], bool],
    ) -> float:
        """Charge a release to the account, if the budget allows it, before the ledger notes it.

        Whoever is killed before the ledger has noted the release leaves an account that spent more
        than was used: the next charge of this ledger corrects that.

        Parameters
        ----------
        ledger
            The name that the ledger gave itself.
        spent
            What the ledger spent, as its own rows say.
        mu, budget
            What the release spends, and what the account may spend in all.
        key
            SHA-256 of the question.
        is_noted
            Whether the ledger has noted the release of a question.

        Returns
        -------
        float
            What the account had spent before.
        """
        if not self._file.exists():
            return spent
        with self._writing() as connection:
            row = connection.execute(
                "SELECT number, account, square, pending, pending_mu FROM ledgers WHERE name = ?",
                (ledger,),
            ).fetchone()
            if row is None:
                return spent
            number, account, square, pending, pending_mu = row
            if pending and not is_noted(pending):
                square -= pending_mu**2
            # The ledger may be an older copy that its owner trusts: what it forgot is spent.
            own = max(square, spent**2)
            (others,) = connection.execute(
                "SELECT COALESCE(SUM(square), 0.0) FROM ledgers WHERE account = ? AND number != ?",
                (account, number),
            ).fetchone()
            together = math.sqrt(own + others)
            if compose([together, mu]) <= budget * (1 + ROUNDING):
                connection.execute(
                    "UPDATE ledgers SET square = ?, pending = ?, pending_mu = ? WHERE number = ?",
                    (own + mu**2, key, mu, number),
                )
            return together

    def count(self, ledger: str, exact: int, most: int) -> int:
        """Count one more exact answer where fewer than ``most`` were noted; return how many were.

        Parameters
        ----------
        ledger
            The name that the ledger gave itself.
        exact
            How many it noted itself.
        most
            How many the account may have in all.
        """
        if not self._file.exists():
            return exact
        with self._writing() as connection:
            (others,) = connection.execute(
                "SELECT COALESCE(SUM(exact), 0) FROM ledgers WHERE name != ? AND account = "
                "(SELECT account FROM ledgers WHERE name = ?)",
                (ledger, ledger),
            ).fetchone()
            if exact + others < most:
                connection.execute(
                    "UPDATE ledgers SET exact = ? WHERE name = ?", (exact + 1, ledger)
                )
            return exact + int(others)

    def account(self, ledger: str, path: Path, spent: float, exact: int = 0) -> Account:
        """Read the account of a ledger, itself first: it alone where it shares none."""
        own = (str(path), spent)
        if not self._file.exists():
            return Account((own,), exact)
        with self._using() as connection:
            rows = connection.execute(
                "SELECT name, path, square, exact FROM ledgers WHERE account = "
                "(SELECT account FROM ledgers WHERE name = ?) ORDER BY number",
                (ledger,),
            ).fetchall()
        squares = [square for name, _, square, _ in rows if name == ledger]
        own = (str(path), max([spent, *map(math.sqrt, squares)]))
        others = [row for row in rows if row[0] != ledger]
        return Account(
            (own, *((name, math.sqrt(square)) for _, name, square, _ in others)),
            exact + sum(number for *_, number in others),
        )

    def separate(self, ledger: str) -> tuple[str, ...]:
        """Give a ledger an account of its own, for good; return the ledgers it shared one with.

        What it spent stays with it, and what the others spent stays with them. The register
        remembers which ledgers are about other people, and joins them no more.
        """
        if not self._file.exists():
            return ()
        with self._writing() as connection:
            row = connection.execute(
                "SELECT number, account FROM ledgers WHERE name = ?", (ledger,)
            ).fetchone()
            if row is None:
                return ()
            number, account = row
            others = connection.execute(
                "SELECT number, path FROM ledgers WHERE account = ? AND number != ?",
                (account, number),
            ).fetchall()
            (free,) = connection.execute("SELECT MAX(account) + 1 FROM ledgers").fetchone()
            connection.execute("UPDATE ledgers SET account = ? WHERE number = ?", (free, number))
            connection.executemany(
                "INSERT OR IGNORE INTO apart VALUES (?, ?)",
                [pair for other, _ in others for pair in ((number, other), (other, number))],
            )
            return tuple(path for _, path in others)

    def _read_key(self) -> bytes:
        """Read the key, which the first process that needs it makes."""
        path = self._folder / KEY
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # It appears whole or not at all, and of two processes one is first.
            with _new_file(path) as partial:
                partial.write_bytes(secrets.token_bytes(32))
        return path.read_bytes()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """Open the register for one use: a connection must not go into a forked process."""
        with file.translate_errors(self._file):
            mark = hmac.digest(self._read_key(), b"register", "sha256")
            if not self._file.exists():
                with _new_file(self._file) as partial, closing(self._connect(partial)) as new:
                    new.execute("PRAGMA journal_mode = WAL")
                    for statement in _SCHEMA:
                        new.execute(statement)
                    new.execute("INSERT INTO mark VALUES (?)", (mark,))
            with closing(self._connect(self._file)) as connection:
                if connection.execute("SELECT value FROM mark").fetchone() != (mark,):
                    raise FileError(
                        f"{self._folder / KEY} is not the key that {REGISTER} was made with, so "
                        "records cannot be compared with those of other ledgers. Restore it.",
                        code="ledger-head",
                    )
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open one transaction that no other process can come between, durable at its end."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _connect(self, path: Path) -> sqlite3.Connection:
        # Never made here: an empty file, where somebody just removed it, would be no register.
        name = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(name, timeout=self._timeout, isolation_level=None, uri=True)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        return connection


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Have a file written that appears durably, whole or not at all, unless one is there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        with suppress(FileExistsError):
            os.link(partial, path)
        file.sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _read_prints(connection: sqlite3.Connection, number: int) -> Prints | None:
    rows: list[tuple[str, bytes, bytes]] = connection.execute(
        "SELECT kind, marks, counts FROM fingerprints WHERE ledger = ?", (number,)
    ).fetchall()
    marks = {
        kind: Marks(
            np.frombuffer(values, "<u8").astype(np.uint64, copy=False),
            np.frombuffer(counts, "<u4").astype(np.uint32, copy=False),
        )
        for kind, values, counts in rows
    }
    return Prints(**marks) if marks else None


def _write_prints(connection: sqlite3.Connection, number: int, prints: Prints) -> None:
    for kind, marks in (("named", prints.named), ("sorted", prints.sorted)):
        values, counts = marks.values.astype("<u8"), marks.counts.astype("<u4")
        connection.execute(
            "INSERT OR REPLACE INTO fingerprints VALUES (?, ?, ?, ?)",
            (number, kind, values.tobytes(), counts.tobytes()),
        )


def _join(
    connection: sqlite3.Connection, number: int, account: int, prints: Prints
) -> tuple[str, ...]:
    """Join the accounts of all ledgers that share people with one; return their paths."""
    rows: list[tuple[int, int]] = connection.execute(
        "SELECT number, account FROM ledgers WHERE account != ? AND number NOT IN "
        "(SELECT other FROM apart WHERE ledger = ?) ORDER BY number",
        (account, number),
    ).fetchall()
    accounts: list[int] = []
    for other, its_account in rows:
        table = None if its_account in accounts else _read_prints(connection, other)
        if table is not None and share_people(prints, table):
            accounts.append(its_account)
    paths: list[str] = []
    for its_account in accounts:
        paths += [
            path
            for (path,) in connection.execute(
                "SELECT path FROM ledgers WHERE account = ? ORDER BY number", (its_account,)
            )
        ]
        connection.execute(
            "UPDATE ledgers SET account = ? WHERE account = ?", (account, its_account)
        )
    return tuple(paths)
