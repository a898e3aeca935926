"""The durable account of what a holder disclosed, spent, counted and decided."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
    AnswerSummary,
    Rotation,
    Row,
    broken_error,
    digest_of,
    read_events,
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

DECISIONS = ("approve", "deny", "allow", "end", "pause", "resume")
"""Events of what a person did."""

_HISTORY = ("question", *DECISIONS)
# Seconds of questions that a power cut may lose, where nothing else was written after them.
_UNSETTLED = 1.0


@dataclass(frozen=True)
class Waiting:
    """A question that a person is to decide on.

    Attributes
    ----------
    id
        How commands name it.
    asker, question, level
        Asker, for what kind of answer, and how much that discloses.
    since, until
        When it was asked, and when it lapses (UTC).
    state
        Outcome.
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
    r"""A durable, append-only account of what a holder discloses, shared by all its processes.

    Each release leaves three rows: ``reserve``, with what it spends, before anything is computed;
    ``release``, with the noisy answer, once that is drawn; ``commit``, before the answer is
    handed over. Every row is on the disk before the next step is taken, so a crash can at worst
    count a release that nobody received. What is reserved is spent, released or not:

    .. math:: \mu_{total} = \sqrt{\sum_i \mu_i^2} \le \text{budget}

    A question has one reserve and one answer for ever. Asked again, by anybody, after a crash or
    by several processes at once, it gets the stored answer and spends nothing: noise cannot be
    averaged away. That a further asker got it is noted. Of a site, every question is a row before
    its answer leaves, whatever became of it.

    An exact answer leaves two rows: ``count``, before anything is computed, with how many numbers
    it sends to whom; ``answered``, with the answer, before that is handed over. A question that was
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
        self._settled = -math.inf
        # Up to which row the times after an approval were within it.
        self._within: dict[str, int] = {}
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
        """Privacy loss of all reservations together, as mu."""
        with self._using() as connection:
            return file.sum_spent(connection)

    @property
    def account(self) -> Account:
        """All ledgers about the same people, this one first, and how much each has spent."""
        with self._using() as connection:
            return self._read_account(connection)

    @property
    def head(self) -> str:
        """Hash of the last row: note it elsewhere, and compare with ``verify(head=...)``."""
        with self._using() as connection:
            return file.read_last(connection).hash

    @property
    def answers(self) -> tuple[AnswerSummary, ...]:
        """Disclosures, summed by asker and kind of question, the latest first."""
        with self._using() as connection:
            return tuple(file.summarize_answers(connection))

    @property
    def refusals(self) -> tuple[Row, ...]:
        """Refusals, once for each asker, kind of question and reason."""
        with self._using() as connection:
            return tuple(read_events(connection, "refuse"))

    @property
    def size(self) -> int:
        """Number of rows."""
        with self._using() as connection:
            return sum(file.count_events(connection).values())

    def entries(self, *events: str) -> tuple[Row, ...]:
        """Read the rows of some events, or of all, first to last."""
        with self._using() as connection:
            if events:
                return tuple(read_events(connection, *events))
            return tuple(row for row, _ in file.read_rows(connection))

    def read_latest(self, *events: str, last: int | None = None, skip: int = 0) -> Iterator[Row]:
        """Read rows of some events, the newest last.

        Parameters
        ----------
        events
            By default questions, and what persons decided.
        last
            How many; by default all, one after the other.
        skip
            How many of the newest are left out.
        """
        with self._using() as connection:
            yield from file.read_latest(connection, events or _HISTORY, last, skip)

    def count_history(self) -> tuple[int, int]:
        """Count questions, also those that were moved away, and decisions."""
        with self._using() as connection:
            counts = file.count_events(connection)
            moved = file.read_rotation(connection).rows
        return counts.get("question", 0) + moved, sum(counts.get(name, 0) for name in DECISIONS)

    def find_span(self, since: str = "", until: str = "") -> tuple[int, int]:
        """Find the numbers of the first and the last row of a span of time.

        Parameters
        ----------
        since, until
            From when to before when (ISO 8601, UTC); by default all. Rows before the last that
            ``rotate`` moved away are out of it.

        Raises
        ------
        InputError
            No row is in it (``trail-empty``), or rows of it were moved away (``trail-moved``).
        """
        with self._using() as connection:
            start = file.read_rotation(connection).until
            span = file.find_span(connection, since, until)
        if span is None or span[1] < start:
            raise InputError(
                "all rows of that time were moved away, or there are none. Give other dates.",
                code="trail-empty",
            )
        first, last = span
        if since and first < start:
            raise InputError(
                f"rows before number {start} were moved away: they are in the file that "
                "`silot site rotate` wrote. Give a later date.",
                code="trail-moved",
            )
        return max(first, start), last

    def read_span(self, first: int, last: int) -> Iterator[Row]:
        """Read the rows of these numbers; raise where one is missing or was changed."""
        with self._using() as connection:
            chain = None
            for row in file.read_span(connection, first, last):
                chain = chain or file.Chain(broken_error, first, row.previous)
                chain.follow(row)
                yield row

    def verify(self, *, head: str | None = None) -> str:
        """Verify the chain of hashes and return its last hash.

        Parameters
        ----------
        head
            A head noted earlier, which must be part of the chain.

        Raises
        ------
        FileError
            A row was changed, removed or put in, or the noted head is not in the chain.
        """
        noted, is_in_chain, last = (head or "").strip().lower(), head is None, ""
        with self._using() as connection:
            if not file.check_schema(connection):
                raise broken_error(0, "may have been changed: the file has lost its rules")
            try:
                rotation = file.read_rotation(connection)
                for row in file.walk_chain(file.read_rows(connection), rotation):
                    is_in_chain = (
                        is_in_chain
                        or noted == row.hash
                        or (row.sequence > 0 and noted == row.previous)
                    )
                    last = row.hash
            except (TypeError, ValueError, OverflowError):
                raise broken_error(0, "or a later one cannot be read") from None
        if not is_in_chain:
            moved = ", or it was moved away with other rows" if rotation.rows else ""
            raise FileError(
                "the chain of the ledger is intact, but the noted head is not in it: rows were "
                f"cut off, or it is another ledger{moved}.",
                code="ledger-broken",
            )
        return last

    def check_place(self) -> None:
        """Compare with the last row that was noted outside the file.

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
        """Charge ``mu`` durably, before anything is computed.

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
            Asker, and in which run, if that has a name.

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
        """Note an exact answer durably, before anything is computed.

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
            Asker.
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

    def store_answer(self, key: str, reply: bytes) -> bytes:
        """Store an exact answer that was counted and return the one to hand over.

        Raises
        ------
        InputError
            Nothing was counted for the question.
        FileError
            The file cannot be written; no answer may leave.
        """
        with self._writing() as connection:
            return self._store(connection, "count", "answered", key, reply)

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
            for begun, event in (("reserve", "release"), ("count", "answered")):
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

    def log_question(self, facts: Mapping[str, Any]) -> None:
        """Note a question that reached a site, and its outcome, before its answer is sent.

        The same question with the same outcome is noted once, however often it is repeated. The
        row survives the end of the process; a power cut may lose the last second of questions that
        nothing else was noted for.

        Parameters
        ----------
        facts
            What went on, ready for JSON; ``asker`` and ``level`` are columns of the row.

        Raises
        ------
        FileError
            The file cannot be written, or is not what it was; no answer may leave.
        """
        content = dict(facts)
        asker, level = plain_name(content.pop("asker", "")), content.pop("level", "")
        text = _json(content)
        key = sha256(_json([asker, level, text]).encode()).hexdigest()
        with self._writing(durable=False) as connection:
            if file.find_row(connection, "question", key) is None:
                file.add(connection, "question", key, mechanism=level, parameters=text, asker=asker)

    def hold(self, key: str, *, question: str, level: str, asker: str, run: str = "") -> str:
        """Return whether a question may be answered that a person is to decide on.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        question, level
            Its kind, and how much an answer discloses.
        asker, run
            Asker, and in which run, if that has a name.

        Returns
        -------
        str
            ``"approved"``, ``"denied"``, ``"waiting"`` (from now on, if it did not before) or
            ``"crowded"``, where too many of the asker wait already.
        """
        with self._writing() as connection:
            return _hold_question(
                connection, key, question=question, level=level, asker=plain_name(asker),
                run=plain_name(run), now=utc(), within=self._within,
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
        """End an approval that is valid for a time; answers that were sent stay disclosed.

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
        """All questions that ever waited for a decision, and their outcomes."""
        with self._using() as connection:
            return tuple(_read_waiting(connection, utc()))

    @property
    def allowed(self) -> tuple[Allowed, ...]:
        """Levels and askers whose questions need no decision now."""
        with self._using() as connection:
            return tuple(_read_allowed(connection, utc(), self._within))

    @property
    def allowances(self) -> tuple[Allowed, ...]:
        """All approvals that were ever valid for a time."""
        with self._using() as connection:
            return tuple(_read_allowances(connection))

    @property
    def paused(self) -> bool:
        """Whether nothing is disclosed for now."""
        with self._using() as connection:
            return _is_paused(connection)

    def pause(self, wanted: bool = True) -> None:
        """Stop answering, in any process, or continue."""
        with self._writing() as connection:
            _set_paused(connection, wanted)

    def rotate(self, until: str, archive: Callable[[int, int], object]) -> Rotation:
        """Move rows of old questions away; rows that budgets or decisions need stay.

        A row of the chain says what was moved, so that nothing else can be cut out.

        Parameters
        ----------
        until
            Before when (ISO 8601, UTC).
        archive
            Called with the numbers of the first and last row that are to be kept elsewhere,
            before any is removed; what it raises stops that.

        Raises
        ------
        InputError
            There is no row to move (``trail-empty``).
        FileError
            The file cannot be written, or is not what it was.
        """
        # The row that is noted outside must never be one that is gone: the last one is noted now.
        self._settled = -math.inf
        with self._writing() as connection:
            newest = file.read_last(connection).sequence
        first, last = self.find_span(until=until)
        last = min(last, newest - 1)
        if last < first:
            raise InputError("the newest row must stay. Give a later date.", code="trail-empty")
        archive(first, last)
        with self._writing() as connection:
            if file.read_rotation(connection).until != first:
                raise InputError(
                    "another process moved rows away meanwhile. Try again.", code="trail-empty"
                )
            gaps = file.remove_questions(connection, last + 1)
            rotation = Rotation(last + 1, gaps.digest, gaps.rows)
            content = _json({**vars(rotation), "by": _name_user()})
            file.add(connection, "rotate", _new_key(), parameters=content)
        return rotation

    def backup(self, path: str | Path) -> Row:
        """Copy the ledger as it is now to a new file, and return its last row.

        Others may write meanwhile.

        Raises
        ------
        FileError
            The file is there (``file-exists``) or cannot be made, or the ledger is broken.
        """
        with self._using() as connection:
            return file.copy_file(connection, Path(path))

    @classmethod
    def trust(cls, path: str | Path, *, spent: float = 0.0, state: str | Path | None = None) -> str:
        """Accept a file as the ledger at its place, and return its last hash.

        For a ledger that was moved from another machine, an older copy that is the newest there
        is, or one whose note of the last row was lost. What a later row had spent, as the note
        says, is charged to it: no budget comes back. Answers that it forgot are drawn again.

        Parameters
        ----------
        path
            The file.
        spent
            What all its releases had spent, as mu, where another record says more than the note.
        state
            Folder in which the last row is noted; by default what ``SILOT_STATE`` names.

        Raises
        ------
        FileError
            The file is absent, no ledger, or broken.
        """
        if not real(spent, "spent", "option-mu") >= 0:
            raise InputError(
                f"spent is {spent!r}; a number of 0 or more is needed.", code="option-mu"
            )
        with cls(path, create=False, readonly=True, state=state) as ledger:
            place, own = ledger._place, ledger.spent
            with ledger._using() as connection:
                assert place is not None
                total = max(spent, place.read_total(connection))
        with (
            file.translate_errors(place.path),
            closing(
                file.connect(place.path, timeout=30.0, readonly=total <= own * (1 + ROUNDING))
            ) as connection,
        ):
            if total > own * (1 + ROUNDING):
                # Before the file is trusted: whoever is killed in between trusts it again.
                connection.execute("BEGIN IMMEDIATE")
                file.add(
                    connection, "reserve", _new_key(), mu=math.sqrt(total**2 - own**2),
                    mechanism="spent before this copy was put back",
                    parameters=_json({"by": _name_user()}),
                )  # fmt: skip
                connection.execute("COMMIT")
            file.sync_log(place.path)
            place.trust(connection)
            return file.read_last(connection).hash

    @staticmethod
    def forget(path: str | Path, *, state: str | Path | None = None) -> bool:
        """Forget a deleted ledger, so that a new one may be created in its place.

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
                f"{' and '.join(present)}: still exist. Move them away first, and keep them.",
                code="ledger-present",
            )
        return Heads(state).forget(Path(path))

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            # SQLite forbids it, and a copy of a ledger in memory would be a second budget.
            raise FileError(
                "the ledger was opened before this process was forked. Open it again.",
                code="ledger-forked",
            )
        with self._lock, file.translate_errors(self.path):
            yield self._connection

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Open one transaction that no other process can come between, on the same file.

        One that is not durable outlives the process, but perhaps no power cut. Rows of questions
        are noted outside once a second, and all others at once.
        """
        with self._using() as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            changes = connection.total_changes
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
            if self._place is None or noted == last.sequence:
                return
            is_due = time.monotonic() - self._settled > _UNSETTLED
            if is_due or file.has_more_than_questions(connection, noted):
                if not durable or connection.total_changes == changes:
                    # The disk may not have all rows, and a note must never be ahead of them.
                    file.sync_log(self._place.path)
                # Before an answer leaves. Killed in between, the file is ahead of its head.
                self._place.note(last)
                self._settled = time.monotonic()


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _budget_exceeded(own: float, spent: float, requested: float, budget: float) -> BudgetError:
    remaining = math.sqrt(max(budget**2 - spent**2, 0.0))
    sharing = "" if spent <= own * (1 + ROUNDING) else ", with other ledgers about the same people"
    return BudgetError(
        f"the budget is a mu of {budget:.4g} in all: {spent:.4g} is spent{sharing}, "
        f"{requested:.4g} was requested, {remaining:.4g} is left (squares add up). "
        "Request a smaller epsilon, or use earlier releases.",
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


def _read_waiting(connection: sqlite3.Connection, now: datetime) -> list[Waiting]:
    """Read all questions that ever waited, the first first, with their states."""
    questions: dict[str, Waiting] = {}
    for row in read_events(connection, "wait", "approve", "deny"):
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
    for row in read_events(connection, "allow", "end"):
        time = datetime.fromisoformat(row.time)
        if row.event == "allow":
            until = datetime.fromisoformat(json.loads(row.parameters)["until"])
            spans[row.key] = Allowed(
                row.key[:12], row.asker, row.mechanism, time, until, _read_author(row)
            )  # fmt: skip
        else:
            spans[row.key] = replace(spans[row.key], until=time, ended=_read_author(row))
    return list(spans.values())


def _read_allowed(
    connection: sqlite3.Connection, now: datetime, within: dict[str, int]
) -> list[Allowed]:
    """Read what is allowed now without a decision.

    An approval is over once the ledger noted a time out of its span after it: a clock that is set
    back makes no hour longer, and one that was ahead leaves none for later. ``within`` keeps up to
    which row the times were looked at.
    """
    return [
        item
        for item in _read_allowances(connection)
        if item.since <= now < item.until and _is_within(connection, item, within)
    ]


def _is_within(connection: sqlite3.Connection, allowance: Allowed, within: dict[str, int]) -> bool:
    key = _find_key(connection, "allow", allowance.id)
    if key not in within:
        within[key] = connection.execute(
            "SELECT sequence FROM rows WHERE event = 'allow' AND key = ?", (key,)
        ).fetchone()[0]
    first, last, number = connection.execute(
        "SELECT MIN(time), MAX(time), MAX(sequence) FROM rows WHERE sequence > ?", (within[key],)
    ).fetchone()
    if first is None:
        return True
    is_within = allowance.since <= datetime.fromisoformat(first) and (
        datetime.fromisoformat(last) < allowance.until
    )
    if is_within:
        within[key] = number
    return is_within


def _hold_question(
    connection: sqlite3.Connection,
    key: str,
    *,
    question: str,
    level: str,
    asker: str,
    run: str,
    now: datetime,
    within: dict[str, int],
) -> str:
    """Return whether a question may be answered; where nobody decided yet, it waits from now on."""
    allowed = _read_allowed(connection, now, within)
    if any((item.asker, item.level) == (asker, level) for item in allowed):
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
            f"{question.id} expired at {question.until:%Y-%m-%d %H:%M} UTC. It waits again when "
            "the asker repeats it.",
            code="approval-expired",
        )
    if question.state != "waiting":
        if (question.state == "approved") == approved:
            return question
        raise InputError(
            f"{question.id} was already {question.state}. That is final, because a disclosed "
            "answer cannot be withdrawn.",
            code="approval-decided",
        )
    _add_decision(
        connection, "approve" if approved else "deny", _find_key(connection, "wait", question.id),
        asker=question.asker, mechanism=question.level,
        body={"question": question.question, "run": question.run},
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
    """Return whether nothing is disclosed for now."""
    rows = read_events(connection, "pause", "resume")
    return bool(rows) and rows[-1].event == "pause"


def _set_paused(connection: sqlite3.Connection, wanted: bool) -> None:
    """Stop telling anything, or continue."""
    rows = read_events(connection, "pause", "resume")
    if wanted and not _is_paused(connection):
        _add_decision(connection, "pause", _new_key(), body={})
    elif not wanted and _is_paused(connection):
        _add_decision(connection, "resume", rows[-1].key, body={})


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
    return next(row.key for row in read_events(connection, event) if row.key.startswith(id))


def _name_user() -> str:
    """Return the user of this process, and who became that user by sudo."""
    # Not by the environment: whoever approves can set its variables.
    try:
        import pwd
    except ImportError:
        # No POSIX: of the session.
        name = os.getlogin()
    else:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = str(os.getuid())
    name = f"user {name}" if name.isdecimal() else name
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
