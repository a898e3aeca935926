"""What a holder has released and what that has spent, for good."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import Any, Self

from ..errors import FileError, InputError, RefusedError
from ..transport._check import real
from . import _ledger_file as file
from . import _ledger_table as table
from ._ledger_rows import Row, broken, check_chain, digest_of
from .accounting import ROUNDING, compose

_LONGEST_ASKER = 200


class BudgetError(RefusedError):
    """A release would exceed the budget.

    Attributes
    ----------
    spent, asked, left
        As mu; of what a ledger holds, none of it depends on a record.
    """

    def __init__(self, message: str, *, spent: float, asked: float, left: float) -> None:
        super().__init__(message, code="ledger-budget")
        self.spent, self.asked, self.left = spent, asked, left

    def __reduce__(self) -> tuple[object, ...]:
        return _budget_error, (self.message, self.spent, self.asked, self.left)


def _budget_error(message: str, spent: float, asked: float, left: float) -> BudgetError:
    return BudgetError(message, spent=spent, asked=asked, left=left)


class Ledger:
    r"""A durable, append-only account of releases, shared by all processes of a holder.

    Each release leaves three rows: ``reserve``, with what it spends, before anything is computed;
    ``release``, with the noisy answer, once that is drawn; ``commit``, before the answer is
    handed over. Every row is on the disk before the next step is taken, so a crash can at worst
    count a release that nobody received. What is reserved is spent, released or not:

    .. math:: \mu_{total} = \sqrt{\sum_i \mu_i^2} \le \text{budget}

    A question has one reserve and one answer for ever. Asked again, by anybody, after a crash or
    by several processes at once, it gets the stored answer and spends nothing: noise cannot be
    averaged away.

    A ledger belongs to one data set. Keep it when records are added or corrected (the people in
    them are the same), and give a data set of other people another one. It holds noisy answers
    and public parameters, never a record.

    Rows are chained by hashes. ``verify`` finds a row that was changed, removed or put in. It
    cannot find that the *last* rows were cut off, or that a file was put back to an older copy or
    rewritten as a whole: whoever may write the file can do that. Note ``head`` elsewhere from
    time to time and compare.

    Parameters
    ----------
    path
        The file, made when absent, readable by its owner only; SQLite keeps two more files
        beside it while it is open (``-wal``, ``-shm``): copy all three or none. Not on a network
        file system. ``None`` keeps the ledger in memory, for data the caller owns.
    create
        Whether an absent file is made.
    readonly
        Open for reading alone.
    timeout
        Seconds to wait for another process that is writing.

    Raises
    ------
    FileError
        The file is absent, of another kind, unreadable, or its chain is broken.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.reserve("00", mu=0.3, budget=0.5, mechanism="sketch")
    >>> ledger.commit("00", b"noisy")
    b'noisy'
    >>> ledger.find("00")
    b'noisy'
    >>> ledger.spent
    0.3
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        create: bool = True,
        readonly: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.RLock()
        self._process = os.getpid()
        with file.translated(self.path):
            if self.path is not None and not self.path.exists():
                if not create or readonly:
                    raise FileError(f"there is no ledger {self.path}.", code="file-missing")
                with file.made(self.path, timeout) as connection:
                    table.add_first(connection)
            self._connection = file.connect(self.path, timeout=timeout, readonly=readonly)
            if self.path is None:
                table.add_first(self._connection)
        self._closing = weakref.finalize(self, _close, self._connection, self._process)
        try:
            self.verify()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Ledger({'in memory' if self.path is None else str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._closing()

    @property
    def spent(self) -> float:
        """What all reserves spend together, as mu."""
        with self._using() as connection:
            return table.spent(connection)

    @property
    def head(self) -> str:
        """Hash of the last row: note it elsewhere, and compare with ``verify(head=...)``."""
        with self._using() as connection:
            return table.last(connection).hash

    def entries(self) -> tuple[Row, ...]:
        """All rows, first to last."""
        with self._using() as connection:
            return tuple(row for row, _ in table.rows(connection))

    def verify(self, *, head: str | None = None) -> str:
        """Walk the chain and return its head.

        Parameters
        ----------
        head
            A head noted earlier, which must be part of the chain.

        Raises
        ------
        FileError
            A row was changed, removed or put in, or the noted head is not in the chain.
        """
        with self._using() as connection:
            if not file.check_schema(connection):
                raise broken(0, "may be changed: the file has lost its rules")
            try:
                rows = check_chain(table.rows(connection))
            except (TypeError, ValueError, OverflowError):
                raise broken(0, "or a later one cannot be read") from None
        if head is not None and head.strip().lower() not in {row.hash for row in rows}:
            raise FileError(
                f"the ledger has {len(rows)} rows that fit together, and the head that was noted "
                "is not among them: rows were cut off, or it is another ledger.",
                code="ledger-broken",
            )
        return rows[-1].hash

    def find(self, key: str) -> bytes | None:
        """Return the stored answer to a question, ready to be handed over, if there is one.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        """
        with self._writing() as connection:
            reply = table.stored(connection, key)
            if reply is not None and table.row(connection, "commit", key) is None:
                table.add(connection, "commit", key)
            return reply

    def reserve(
        self,
        key: str,
        *,
        mu: float,
        budget: float,
        mechanism: str,
        parameters: Mapping[str, Any] | None = None,
        asker: str = "",
    ) -> None:
        """Spend ``mu``, for good, before anything is computed.

        A question whose answer was never stored, for whatever stopped it, keeps its reserve and
        spends nothing again: no two answers to it can ever leave (see ``commit``).

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        mu
            What the release spends.
        budget
            Most that may be spent in all, as mu; infinity for no bound.
        mechanism, parameters
            What is released, for the record; parameters must go into JSON.
        asker
            Who asked.

        Raises
        ------
        BudgetError
            The budget does not allow it (code ``"ledger-budget"``); nothing was spent.
        InputError
            ``mu`` is not a finite number above 0, or the question is known with another one.
        FileError
            The file cannot be written.
        """
        if not real(mu, "mu", "option-mu") > 0:
            raise InputError(f"mu is {mu!r}; a number above 0 is needed.", code="option-mu")
        try:
            text = dumps(parameters or {}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError):
            raise InputError(
                "parameters of a release do not go into JSON.", code="release-parameters"
            ) from None
        with self._writing() as connection:
            known = table.row(connection, "reserve", key)
            if known is not None:
                if known.mu != mu:
                    raise InputError(
                        f"the question was reserved with mu {known.mu:g}, not {mu:g}.",
                        code="option-mu",
                    )
                return
            spent = table.spent(connection)
            if not compose([spent, mu]) <= budget * (1 + ROUNDING):
                raise _over(spent, float(mu), budget)
            table.add(
                connection,
                "reserve",
                key,
                mu=float(mu),
                mechanism=mechanism,
                parameters=text,
                asker=_plain(asker),
            )

    def commit(self, key: str, reply: bytes) -> bytes:
        """Store the noisy answer and return the one to hand over.

        Where another process stored an answer to the same question meanwhile, that is the one;
        ``reply`` must then be forgotten.

        Raises
        ------
        InputError
            Nothing was reserved for the question.
        FileError
            The file cannot be written; no answer may leave.
        """
        with self._writing() as connection:
            if table.row(connection, "reserve", key) is None:
                raise InputError("nothing was reserved for the question.", code="ledger-order")
            stored = table.stored(connection, key)
            if stored is None:
                table.add(connection, "release", key, digest=digest_of(reply), reply=reply)
        # A transaction of its own: a release without a commit was stored and never handed over.
        found = self.find(key)
        if found is None:
            raise broken(0, "or a later one vanished")
        return found

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            # SQLite forbids it, and a copy of a ledger in memory would be a second budget.
            raise FileError(
                "the ledger was opened by the process this one was forked from. Open it anew.",
                code="ledger-forked",
            )
        with self._lock, file.translated(self.path):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process can come between."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except sqlite3.Error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _over(spent: float, asked: float, budget: float) -> BudgetError:
    left = math.sqrt(max(budget**2 - spent**2, 0.0))
    return BudgetError(
        f"the budget is a mu of {budget:.4g} in all: {spent:.4g} is spent, {asked:.4g} was asked, "
        f"{left:.4g} is left (squares add up). Ask for a smaller epsilon, or use what was "
        "released before.",
        spent=spent,
        asked=asked,
        left=left,
    )


def _plain(asker: str) -> str:
    # Names come from outside: no line breaks or terminal codes, and not without end.
    return "".join(c if c.isprintable() else "?" for c in asker)[:_LONGEST_ASKER]


def _close(connection: sqlite3.Connection, process: int) -> None:
    # In a forked process, closing would drop the locks of the other.
    if os.getpid() == process:
        connection.close()
