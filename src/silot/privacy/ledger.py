"""The durable account of what a holder disclosed, spent, counted and decided."""

from __future__ import annotations

import json
import math
import os
import pwd
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import FileError, InputError, RefusedError
from . import ledger_file as file
from .accounting import ROUNDING, compose
from .ledger_file import (
    COLUMNS,
    AnswerSummary,
    Row,
    broken_error,
    check_chain,
    digest_of,
)
from .ledger_head import Heads, Place
from .people import Account, People

_LONGEST_ASKER = 200
_RUN = "run"

State = Literal["waiting", "approved", "denied", "expired"]

KEPT = timedelta(days=14)
"""How long a question waits."""

_MOST = 200
"""Questions that wait at once, of one asker: whoever asks without end fills no disk."""

_SHORTEST = 4
"""Digits that must name a question."""


@dataclass(frozen=True)
class Waiting:
    """A question that a person is to decide on.

    Attributes
    ----------
    id
        How commands name it.
    asker, question, level
        Who asked, for what kind of answer, and how much that discloses.
    since, until
        When it was asked, and when it lapses (UTC).
    state
        What became of it.
    key
        SHA-256 of the question.
    run
        In which run, as the asker calls it; empty if it has no name.
    by, decided
        Who decided, as the system knows them, and when; empty while nobody did.
    """

    id: str
    asker: str
    question: str
    level: str
    since: datetime
    until: datetime
    state: State
    key: str
    run: str = ""
    by: str = ""
    decided: datetime | None = None


@dataclass(frozen=True)
class Allowed:
    """Questions of one level and asker that need no decision for a while.

    Attributes
    ----------
    id
        How commands name it.
    asker, level
        Which questions.
    since, until
        From when to when (UTC); to the moment it was ended, if it was.
    by
        Who allowed it.
    ended
        Who ended it before its time; empty if nobody did.
    """

    id: str
    asker: str
    level: str
    since: datetime
    until: datetime
    by: str = ""
    ended: str = ""


@dataclass(frozen=True)
class Decision:
    """What a person did.

    Attributes
    ----------
    time, by
        When (ISO 8601), and who, as the system knows them.
    decision
        ``"approve"`` or ``"deny"`` a question, ``"allow"`` or ``"end"`` all of a level and asker,
        ``"pause"`` or ``"go-on"`` with everything.
    asker, level, question
        What it is about, where it is about that.
    until
        When ``"allow"`` is over (ISO 8601).
    """

    time: str
    by: str
    decision: str
    asker: str
    level: str
    question: str
    until: str


class BudgetError(RefusedError):
    """A release would exceed the budget.

    Attributes
    ----------
    spent, asked, left
        As mu; of what a ledger holds, none of it depends on a record.
    """

    def __init__(self, message: str, *, spent: float, requested: float, remaining: float) -> None:
        super().__init__(message, code="ledger-budget")
        self.spent, self.requested, self.remaining = spent, requested, remaining

    def __reduce__(self) -> tuple[object, ...]:
        return _budget_error, (self.message, self.spent, self.requested, self.remaining)


def _budget_error(message: str, spent: float, requested: float, remaining: float) -> BudgetError:
    return BudgetError(message, spent=spent, requested=requested, remaining=remaining)


class Ledger:
    r"""A durable, append-only account of what a holder tells, shared by all its processes.

    Each release leaves three rows: ``reserve``, with what it spends, before anything is computed;
    ``release``, with the noisy answer, once that is drawn; ``commit``, before the answer is
    handed over. Every row is on the disk before the next step is taken, so a crash can at worst
    count a release that nobody received. What is reserved is spent, released or not:

    .. math:: \mu_{total} = \sqrt{\sum_i \mu_i^2} \le \text{budget}

    A question has one reserve and one answer for ever. Asked again, by anybody, after a crash or
    by several processes at once, it gets the stored answer and spends nothing: noise cannot be
    averaged away. That a further asker got it is noted.

    An exact answer leaves two rows: ``count``, before anything is computed, with how many numbers
    it tells to whom; ``told``, with the answer, before that is handed over. A question that was
    refused leaves one, with the reason.

    A ledger belongs to one data set. Keep it when records are added or corrected (the people in
    them are the same), and give a data set of other people another one. Ledgers on the disk whose
    records are recognised as the same people's have one account (see ``register``): a budget then
    bounds what all of them spent. A ledger holds answers and public parameters, never a record
    (answers of level record are counted and not kept).

    Rows are chained by hashes: a row that was changed, removed or put in is found when the file
    is opened. The last row is noted in another place (``SILOT_STATE``, by default in the user's
    folder for state) before an answer leaves: rows cut off, an older copy put back, a copy used
    beside the original, a file removed or replaced are found there, when the file is opened and
    at every question. Whoever can write both places can put both back.

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
    walk
        Whether the chain is walked now, which takes seconds where there are 100,000 rows and more:
        ``verify`` does it at any time.
    timeout
        Seconds to wait for another process that is writing.
    state
        Folder in which the last row is noted; by default what ``SILOT_STATE`` names.

    Raises
    ------
    FileError
        The file is absent, of another kind, unreadable, its chain is broken, or it is not the
        file it was when it was last used.

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
        walk: bool = True,
        timeout: float = 30.0,
        state: str | Path | None = None,
    ) -> None:
        # From now on, wherever the process goes.
        self.path = None if path is None else Path(path).absolute()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._place = None if self.path is None else Place(self.path, state)
        self._people = None if self._place is None else People(self._place.folder, timeout)
        self._readonly = readonly
        with file.translate_errors(self.path):
            if self._place is not None and self.path is not None and not self.path.exists():
                if not create or readonly:
                    raise FileError(f"there is no ledger {self.path}.", code="file-missing")
                self._place.check_free()
                with file.create_file(self.path, timeout) as connection:
                    file.add_first(connection)
            self._connection = file.connect(self.path, timeout=timeout, readonly=readonly)
            if self._place is None:
                file.add_first(self._connection)
            else:
                self._place.settle()
        self._closing = weakref.finalize(self, _close, self._connection, self._process)
        try:
            if walk:
                self.verify()
            if not readonly:
                with self._writing():
                    pass
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
            return file.sum_spent(connection)

    @property
    def account(self) -> Account:
        """All ledgers about the same people, this one first, and what each spent."""
        with self._using() as connection:
            return self._read_account(connection)

    @property
    def head(self) -> str:
        """Hash of the last row: note it elsewhere, and compare with ``verify(head=...)``."""
        with self._using() as connection:
            return file.read_last(connection).hash

    @property
    def answers(self) -> tuple[AnswerSummary, ...]:
        """What was told, added up by asker and kind, the latest first."""
        with self._using() as connection:
            return tuple(file.summarize_answers(connection))

    @property
    def refusals(self) -> tuple[Row, ...]:
        """What was refused: once for each asker, kind of question and reason."""
        with self._using() as connection:
            return tuple(file.read_refusals(connection))

    def entries(self) -> tuple[Row, ...]:
        """Read all rows, first to last."""
        with self._using() as connection:
            return tuple(row for row, _ in file.read_rows(connection))

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
                raise broken_error(0, "may be changed: the file has lost its rules")
            try:
                rows = check_chain(file.read_rows(connection))
            except (TypeError, ValueError, OverflowError):
                raise broken_error(0, "or a later one cannot be read") from None
        if head is not None and head.strip().lower() not in {row.hash for row in rows}:
            raise FileError(
                f"the ledger has {len(rows)} rows that fit together, and the head that was noted "
                "is not among them: rows were cut off, or it is another ledger.",
                code="ledger-broken",
            )
        return rows[-1].hash

    def check_place(self) -> None:
        """Compare with the row that was noted last, outside the file.

        Raises
        ------
        FileError
            The file is gone, another one, an older copy, or was never used here.
        """
        with self._using() as connection:
            if self._place is not None:
                self._place.check(connection)

    def register(
        self, points: npt.NDArray[np.float64], columns: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Register the records that the ledger is about, by keyed fingerprints of them.

        If other ledgers of this user are about the same people, by ``people.share_people``, they
        have one account from now on, also if the file has another name, format or order.
        A ledger in memory, and one that is only read, registers nothing.

        Parameters
        ----------
        points
            The records (n, d).
        columns
            Names of the columns.

        Returns
        -------
        tuple
            The paths of the ledgers that share the account from now on and did not before.
        """
        if self._people is None or self._readonly:
            return ()
        prints = self._people.fingerprint(points, columns)
        with self._writing() as connection:
            assert self.path is not None
            name, spent = file.read_name(connection), file.sum_spent(connection)
            ledgers = self._people.register(name, self.path, spent, prints)
            if ledgers:
                content = _json({"ledgers": ledgers})
                file.add(connection, "join", _new_key(), parameters=content)
        return ledgers

    def separate(self) -> tuple[str, ...]:
        """Declare that the ledger is about other people than those that share its account.

        It has an account of its own from then on, with what it spent itself, and is not joined
        with those ledgers again. The ledger notes it, and who did it.

        Returns
        -------
        tuple
            The paths of the ledgers that shared its account; none where it had its own already.
        """
        ledgers = tuple(path for path, _ in self.account.ledgers[1:])
        if self._people is None or not ledgers:
            return ()
        # Noted first: whoever is killed in between has a note and shares the account as before.
        with self._writing() as connection:
            content = _json({"ledgers": ledgers, "by": _name_user()})
            file.add(connection, "separate", _new_key(), parameters=content)
            name = file.read_name(connection)
        return self._people.separate(name)

    def _read_account(self, connection: sqlite3.Connection, question: str = "") -> Account:
        spent, exact = file.sum_spent(connection), file.count_answers(connection, question)
        if self._people is None or self.path is None:
            return Account(((str(self.path or ""), spent),), exact)
        return self._people.account(file.read_name(connection), self.path, spent, exact)

    def find(self, key: str, asker: str = "") -> bytes | None:
        """Return the stored answer to a question, ready to be handed over, if there is one.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        asker
            To whom it is handed over; by default to whom it was charged.
        """
        with self._writing() as connection:
            reply = file.find_reply(connection, key)
            begun = file.find_row(connection, "reserve", key)
            if reply is not None and begun is not None:
                file.add_again(connection, begun, plain_name(asker))
            if reply is not None and file.find_row(connection, "commit", key) is None:
                file.add(connection, "commit", key)
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
        run: str = "",
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
        asker, run
            Who asked, and in which run, if that has a name.

        Raises
        ------
        BudgetError
            The budget does not allow it (code ``"ledger-budget"``), with what all ledgers of the
            account spent; nothing was spent.
        InputError
            ``mu`` is not a finite number above 0, or the question is known with another one.
        FileError
            The file cannot be written.
        """
        if not real(mu, "mu", "option-mu") > 0:
            raise InputError(f"mu is {mu!r}; a number above 0 is needed.", code="option-mu")
        try:
            text = _json({**(parameters or {}), **({_RUN: run} if run else {})})
        except (TypeError, ValueError):
            raise InputError(
                "parameters of a release do not go into JSON.", code="release-parameters"
            ) from None
        with self._writing() as connection:
            earlier = file.find_row(connection, "reserve", key)
            if earlier is not None:
                if earlier.mu != mu:
                    raise InputError(
                        f"the question was reserved with mu {earlier.mu:g}, not {mu:g}.",
                        code="option-mu",
                    )
                file.add_again(connection, earlier, plain_name(asker))
                return
            spent = own = file.sum_spent(connection)
            if self._people is not None:
                spent = self._people.charge(
                    file.read_name(connection), spent=own, mu=float(mu), budget=budget, key=key,
                    is_noted=lambda key: file.find_row(connection, "reserve", key) is not None,
                )  # fmt: skip
            if not compose([spent, mu]) <= budget * (1 + ROUNDING):
                raise _budget_exceeded(own, spent, float(mu), budget)
            file.add(
                connection,
                "reserve",
                key,
                mu=float(mu),
                mechanism=mechanism,
                parameters=text,
                asker=plain_name(asker),
            )

    def charge_in(self, key: str, run: str) -> float:
        """Return what a release was charged in this run; 0 in other runs, and without a name."""
        with self._using() as connection:
            row = file.find_row(connection, "reserve", key)
        in_run = run and row is not None and json.loads(row.parameters).get(_RUN) == run
        return row.mu if in_run and row is not None else 0.0

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
            self._store(connection, "reserve", "release", key, reply)
        # A transaction of its own: a release without a commit was stored and never handed over.
        answer = self.find(key)
        if answer is None:
            raise broken_error(0, "or a later one vanished")
        return answer

    def note(
        self, key: str, *, level: str, question: str, asker: str = "", most: int | None = None
    ) -> str:
        """Note an exact answer, for good, before anything is computed.

        Nothing is given back, whatever becomes of the computation. The same question is noted once;
        to another asker, as an answer of before.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        level
            How detailed the answer is: ``"statistics"`` or ``"record"``.
        question
            Kind of the question.
        asker
            Who asked.
        most
            Answers of this kind that may be noted in all; ``None`` for any number.

        Returns
        -------
        str
            The code of a refusal where there were ``most`` already (``policy-exact``), or nothing.

        Raises
        ------
        FileError
            The file cannot be written, or is not what it was.
        """
        asker = plain_name(asker)
        with self._writing() as connection:
            if (earlier := file.find_row(connection, "count", key)) is not None:
                file.add_again(connection, earlier, asker)
                return ""
            if most is not None and self._count_one(connection, question, most) >= most:
                self._refuse(connection, question, "policy-exact", asker)
                return "policy-exact"
            entry = {"question": question}
            file.add(
                connection, "count", key, mechanism=level, parameters=_json(entry), asker=asker
            )
        return ""

    def count_answers(self, question: str) -> int:
        """Count the exact answers of a kind, in all ledgers of the account."""
        with self._using() as connection:
            return self._read_account(connection, question).exact

    def _count_one(self, connection: sqlite3.Connection, question: str, most: int) -> int:
        """Count one more answer where fewer than ``most`` were noted; return how many were."""
        exact = file.count_answers(connection, question)
        if self._people is None:
            return exact
        return self._people.count(file.read_name(connection), exact, most)

    def tell(self, key: str, reply: bytes) -> bytes:
        """Store an exact answer that was counted and return the one to hand over.

        Raises
        ------
        InputError
            Nothing was counted for the question.
        FileError
            The file cannot be written; no answer may leave.
        """
        with self._writing() as connection:
            return self._store(connection, "count", "told", key, reply)

    @staticmethod
    def _store(
        connection: sqlite3.Connection, start: str, event: str, key: str, reply: bytes
    ) -> bytes:
        """Store a reply unless one is stored, once ``start`` is noted; return the stored one."""
        if file.find_row(connection, start, key) is None:
            what = "reserved" if start == "reserve" else "counted"
            raise InputError(f"nothing was {what} for the question.", code="ledger-order")
        earlier = file.find_reply(connection, key, event)
        if earlier is None:
            file.add(connection, event, key, digest=digest_of(reply), reply=reply)
        return reply if earlier is None else earlier

    def before(self, key: str) -> bytes | None:
        """Return the answer to a question that was charged or counted, to be handed over again.

        Empty where it was and no answer was stored; ``None`` where it never was.
        """
        with self._using() as connection:
            for begun, event in (("reserve", "release"), ("count", "told")):
                if file.find_row(connection, begun, key) is not None:
                    return file.find_reply(connection, key, event) or b""
        return None

    def refuse(self, question: str, code: str, asker: str) -> None:
        """Note that a question was refused, once for each asker, kind of question and reason."""
        with self._writing() as connection:
            self._refuse(connection, question, code, plain_name(asker))

    @staticmethod
    def _refuse(connection: sqlite3.Connection, question: str, code: str, asker: str) -> None:
        key = sha256(_json([question, code, asker]).encode()).hexdigest()
        if file.find_row(connection, "refuse", key) is None:
            content = _json({"question": question, "code": code})
            file.add(connection, "refuse", key, mechanism=code, parameters=content, asker=asker)

    def hold(self, key: str, *, question: str, level: str, asker: str, run: str = "") -> str:
        """Whether a question may be answered that a person is to decide on.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        question, level
            Its kind, and how much an answer discloses.
        asker, run
            Who asks, and in which run, if that has a name.

        Returns
        -------
        str
            ``"approved"``, ``"denied"``, ``"waiting"`` (from now on, if it did not before) or
            ``"crowded"``, where too many of the asker wait already.
        """
        with self._writing() as connection:
            return _hold_question(
                connection, key, question=question, level=level, asker=plain_name(asker),
                run=plain_name(run), now=utc(),
            )  # fmt: skip

    def decide(
        self, word: str, *, approved: bool, span: timedelta | None = None, asker: str | None = None
    ) -> Waiting:
        """Approve or deny a question that waits.

        Parameters
        ----------
        word
            Its id, or the first digits.
        approved
            What was decided.
        span
            With it all questions of that level are approved for so long.
        asker
            Whose; by default of the asker of this question.

        Raises
        ------
        InputError
            There is no such question (``approval-unknown``), it lapsed (``approval-expired``) or
            was decided otherwise (``approval-decided``).
        """
        with self._writing() as connection:
            now = utc()
            question = _decide_question(connection, word, approved=approved, now=now)
            if span is not None and approved:
                whose = question.asker if asker is None else plain_name(asker)
                _allow(connection, asker=whose, level=question.level, span=span, now=now)
        return question

    def end(self, word: str) -> Allowed | None:
        """End what was approved for a while; questions that were answered meanwhile stay so.

        Parameters
        ----------
        word
            Its id, or the first digits.

        Returns
        -------
        Allowed or None
            What was ended; ``None`` where nothing that is allowed now has that id.
        """
        with self._writing() as connection:
            return _end_allowance(connection, word, now=utc())

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """All questions that ever waited for a decision, and what became of each."""
        with self._using() as connection:
            return tuple(_read_waiting(connection, utc()))

    @property
    def allowed(self) -> tuple[Allowed, ...]:
        """Levels and askers whose questions need no decision now."""
        with self._using() as connection:
            return tuple(_read_allowed(connection, utc()))

    @property
    def allowances(self) -> tuple[Allowed, ...]:
        """All that was ever allowed for a while."""
        with self._using() as connection:
            return tuple(_read_allowances(connection))

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All that persons did, first to last."""
        with self._using() as connection:
            return tuple(_read_decisions(connection))

    @property
    def paused(self) -> bool:
        """Whether nothing is told for now."""
        with self._using() as connection:
            return _is_paused(connection)

    def pause(self, wanted: bool = True) -> None:
        """Stop answering, in any process, or go on."""
        with self._writing() as connection:
            _set_paused(connection, wanted)

    @classmethod
    def trust(cls, path: str | Path, *, state: str | Path | None = None) -> str:
        """Take a file for the ledger at its place from now on, and return its head.

        For a ledger that was moved from another machine, or whose note of the last row was lost.
        What was told since the copy was made, if it is one, is forgotten by that: compare the
        head with one noted elsewhere first.

        Raises
        ------
        FileError
            The file is absent, no ledger, or broken.
        """
        with cls(path, create=False, readonly=True, state=state) as ledger:
            head = ledger.verify()
            with ledger._using() as connection:
                assert ledger._place is not None
                ledger._place.trust(connection)
        return head

    @staticmethod
    def forget(path: str | Path, *, state: str | Path | None = None) -> bool:
        """Forget that a ledger was at a place, so that a new one may be made there.

        A new ledger is a fresh budget: for other people's records only. Returns whether there
        was anything to forget.

        Raises
        ------
        InputError
            The file is still there.
        """
        present = [name for name in (f"{path}", f"{path}-wal") if Path(name).exists()]
        if present:
            raise InputError(
                f"{' and '.join(present)}: still there. Move them away first, and keep them.",
                code="ledger-present",
            )
        return Heads(state).forget(Path(path))

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            # SQLite forbids it, and a copy of a ledger in memory would be a second budget.
            raise FileError(
                "the ledger was opened by the process this one was forked from. Open it anew.",
                code="ledger-forked",
            )
        with self._lock, file.translate_errors(self.path):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open one transaction that no other process can come between, on the same file."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                noted = -1 if self._place is None else self._place.check(connection)
                yield connection
                last = file.read_last(connection)
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
            if self._place is not None and noted != last.sequence:
                # Before an answer leaves. Killed in between, the file is ahead of its head.
                self._place.note(last)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _budget_exceeded(own: float, spent: float, requested: float, budget: float) -> BudgetError:
    remaining = math.sqrt(max(budget**2 - spent**2, 0.0))
    sharing = "" if spent <= own * (1 + ROUNDING) else ", with other ledgers about the same people"
    return BudgetError(
        f"the budget is a mu of {budget:.4g} in all: {spent:.4g} is spent{sharing}, "
        f"{requested:.4g} was asked, {remaining:.4g} is left (squares add up). Ask for a smaller "
        "epsilon, or use what was released before.",
        spent=spent,
        requested=requested,
        remaining=remaining,
    )


def plain_name(asker: str) -> str:
    """Clean a name as a ledger keeps it: without line breaks and terminal codes, and cut."""
    return "".join(c if c.isprintable() else "?" for c in asker)[:_LONGEST_ASKER]


def _close(connection: sqlite3.Connection, process: int) -> None:
    # In a forked process, closing would drop the locks of the other.
    if os.getpid() == process:
        connection.close()


def _read_decisions(connection: sqlite3.Connection) -> list[Decision]:
    """Read all that persons did, the first first."""
    questions = {row.key: row for row in _read_events(connection, "wait")}
    entries: list[Decision] = []
    for row in _read_events(connection, "approve", "deny", "allow", "end", "pause", "go-on"):
        about = questions.get(row.key, row)
        content, question = json.loads(row.parameters or "{}"), json.loads(about.parameters or "{}")
        entries.append(Decision(
            row.time, content.get("by", ""), row.event, row.asker, about.mechanism,
            question.get("question", ""), content.get("until", ""),
        ))  # fmt: skip
    return entries


def _read_waiting(connection: sqlite3.Connection, now: datetime) -> list[Waiting]:
    """Read all questions that ever waited, the first first, with their states."""
    questions: dict[str, Waiting] = {}
    for row in _read_events(connection, "wait", "approve", "deny"):
        if row.event == "wait":
            body = json.loads(row.parameters)
            until = datetime.fromisoformat(body["until"])
            questions[row.key] = Waiting(
                row.key[:12], row.asker, body["question"], row.mechanism,
                datetime.fromisoformat(row.time), until,
                "waiting" if now < until else "expired", body["key"], body.get("run", ""),
            )  # fmt: skip
        else:
            state: State = "approved" if row.event == "approve" else "denied"
            questions[row.key] = replace(
                questions[row.key], state=state, by=_read_author(row),
                decided=datetime.fromisoformat(row.time),
            )  # fmt: skip
    return list(questions.values())


def _read_allowances(connection: sqlite3.Connection) -> list[Allowed]:
    """Read all that was ever allowed for a while, the first first."""
    spans: dict[str, Allowed] = {}
    for row in _read_events(connection, "allow", "end"):
        time = datetime.fromisoformat(row.time)
        if row.event == "allow":
            until = datetime.fromisoformat(json.loads(row.parameters)["until"])
            spans[row.key] = Allowed(
                row.key[:12], row.asker, row.mechanism, time, until, _read_author(row)
            )  # fmt: skip
        else:
            spans[row.key] = replace(spans[row.key], until=time, ended=_read_author(row))
    return list(spans.values())


def _read_allowed(connection: sqlite3.Connection, now: datetime) -> list[Allowed]:
    """Read what is allowed now without a decision.

    An approval is over once the ledger noted a time out of its span after it: a clock that is set
    back makes no hour longer, and one that was ahead leaves none for later.
    """
    return [
        item
        for item in _read_allowances(connection)
        if item.since <= now < item.until and _is_within(connection, item)
    ]


def _is_within(connection: sqlite3.Connection, allowance: Allowed) -> bool:
    key = _find_key(connection, "allow", allowance.id)
    first, last = connection.execute(
        "SELECT MIN(time), MAX(time) FROM rows WHERE sequence > "
        "(SELECT sequence FROM rows WHERE event = 'allow' AND key = ?)",
        (key,),
    ).fetchone()
    if first is None:
        return True
    return allowance.since <= datetime.fromisoformat(first) and (
        datetime.fromisoformat(last) < allowance.until
    )


def _hold_question(
    connection: sqlite3.Connection,
    key: str,
    *,
    question: str,
    level: str,
    asker: str,
    run: str,
    now: datetime,
) -> str:
    """Whether a question may be answered; where nobody decided yet, it waits from now on."""
    if any((item.asker, item.level) == (asker, level) for item in _read_allowed(connection, now)):
        return "approved"
    earlier = [item for item in _read_waiting(connection, now) if item.asker == asker]
    same = [item.state for item in earlier if item.key == key and item.state != "expired"]
    if same:
        return same[-1]
    if sum(item.state == "waiting" for item in earlier) >= _MOST:
        return "crowded"
    body = {"question": question, "key": key, "until": (now + KEPT).isoformat(timespec="seconds")}
    body |= {"run": run} if run else {}
    _add_decision(connection, "wait", _new_key(), mechanism=level, asker=asker, body=body)
    return "waiting"


def _decide_question(
    connection: sqlite3.Connection, word: str, *, approved: bool, now: datetime
) -> Waiting:
    """Note what was decided on the question that an id, or its first digits, name."""
    word = word.strip().lower()
    matches = [
        item for item in _read_waiting(connection, now)
        if len(word) >= _SHORTEST and item.id.startswith(word[: len(item.id)])
    ]  # fmt: skip
    if len(matches) != 1:
        what = "no question" if not matches else f"{len(matches)} questions"
        raise InputError(
            f"{what} of the inbox begins with {word[:20]!r}. Take an id of `silot site inbox`.",
            code="approval-unknown",
        )
    (question,) = matches
    if question.state == "expired":
        raise InputError(
            f"{question.id} lapsed at {question.until:%Y-%m-%d %H:%M} UTC. It waits again once it "
            "is asked again.",
            code="approval-expired",
        )
    if question.state != "waiting":
        if (question.state == "approved") == approved:
            return question
        raise InputError(
            f"{question.id} was {question.state} before, for good: what was told cannot be taken "
            "back.",
            code="approval-decided",
        )
    _add_decision(
        connection, "approve" if approved else "deny", _find_key(connection, "wait", question.id),
        asker=question.asker, body={},
    )  # fmt: skip
    return replace(
        question, state="approved" if approved else "denied", by=_name_user(), decided=now
    )


def _end_allowance(connection: sqlite3.Connection, word: str, *, now: datetime) -> Allowed | None:
    """End what is allowed for a while, if an id, or its first digits, name that and no question."""
    word = word.strip().lower()
    if len(word) < _SHORTEST:
        return None
    # Also one that has not begun, by a clock that was set back since.
    matches = [
        item
        for item in _read_allowances(connection)
        if not item.ended and now < item.until and item.id.startswith(word)
    ]
    if len(matches) != 1 or any(
        item.id.startswith(word) for item in _read_waiting(connection, now)
    ):
        return None
    (allowance,) = matches
    key = _find_key(connection, "allow", allowance.id)
    asker, level = allowance.asker, allowance.level
    _add_decision(connection, "end", key, asker=asker, mechanism=level, body={})
    return replace(allowance, until=now, ended=_name_user())


def _allow(
    connection: sqlite3.Connection, *, asker: str, level: str, span: timedelta, now: datetime
) -> Allowed:
    """Let questions of a level and asker be answered for a while without a decision."""
    until = now + span
    body, key = {"until": until.isoformat(timespec="seconds")}, _new_key()
    _add_decision(connection, "allow", key, mechanism=level, asker=asker, body=body)
    return Allowed(key[:12], asker, level, now, until, _name_user())


def _is_paused(connection: sqlite3.Connection) -> bool:
    """Whether nothing is told at all for now."""
    rows = _read_events(connection, "pause", "go-on")
    return bool(rows) and rows[-1].event == "pause"


def _set_paused(connection: sqlite3.Connection, wanted: bool) -> None:
    """Stop telling anything, or go on."""
    rows = _read_events(connection, "pause", "go-on")
    if wanted and not _is_paused(connection):
        _add_decision(connection, "pause", _new_key(), body={})
    elif not wanted and _is_paused(connection):
        _add_decision(connection, "go-on", rows[-1].key, body={})


def _read_events(connection: sqlite3.Connection, *events: str) -> list[Row]:
    marks = ", ".join("?" * len(events))
    cursor = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE event IN ({marks}) ORDER BY sequence", events
    )
    rows = [Row(*values) for values in cursor]
    for row in rows:
        # Whoever opened the ledger may not have walked the chain.
        if row.hash != row.computed_hash():
            raise broken_error(row.sequence, "was changed")
    return rows


def _add_decision(
    connection: sqlite3.Connection,
    event: str,
    key: str,
    *,
    mechanism: str = "",
    asker: str = "",
    body: Mapping[str, str],
) -> None:
    """Add a row; what a person did is noted with the name of that person."""
    content = body if event == "wait" else {**body, "by": _name_user()}
    text = _json(content)
    file.add(connection, event, key, mechanism=mechanism, parameters=text, asker=asker)


def _find_key(connection: sqlite3.Connection, event: str, id: str) -> str:
    return next(row.key for row in _read_events(connection, event) if row.key.startswith(id))


def _name_user() -> str:
    """Return the user of this process, and who became that user by sudo."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user {os.getuid()}"
    original = os.environ.get("SUDO_USER", "")
    return f"{original} as {name}"[:100] if original and original != name else name


def _read_author(row: Row) -> str:
    return str(json.loads(row.parameters or "{}").get("by", ""))


def _new_key() -> str:
    """Make a random key: the same question may wait again once it lapsed."""
    return sha256(secrets.token_bytes(32)).hexdigest()


def utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
