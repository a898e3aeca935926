"""What a holder has released and what that has spent, for good."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from typing import Any, Self

from silot_transport._check import real

from ..errors import FileError, InputError, RefusedError
from . import _ledger_file as file
from . import _ledger_table as table
from . import _ledger_waiting as waits
from ._ledger_head import Heads, Place
from ._ledger_rows import Row, broken_error, check_chain, digest_of
from ._ledger_table import AnswerSummary, Tally
from ._ledger_waiting import Allowed, Decision, Waiting
from .accounting import ROUNDING, compose

_LONGEST_ASKER = 200
_RUN = "run"


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


@dataclass(frozen=True)
class Counted:
    """What became of a question for an exact answer.

    Attributes
    ----------
    reply
        The answer it was given before, to be handed over again.
    code
        Why it may not be answered; empty when it may.
    """

    reply: bytes | None = None
    code: str = ""


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
    them are the same), and give a data set of other people another one. It holds answers and
    public parameters, never a record (answers of level record are counted and not kept).

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
        with file.translate_errors(self.path):
            if self._place is not None and self.path is not None and not self.path.exists():
                if not create or readonly:
                    raise FileError(f"there is no ledger {self.path}.", code="file-missing")
                self._place.check_free()
                with file.create_file(self.path, timeout) as connection:
                    table.add_first(connection)
            self._connection = file.connect(self.path, timeout=timeout, readonly=readonly)
            if self._place is None:
                table.add_first(self._connection)
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
            return table.spent(connection)

    @property
    def head(self) -> str:
        """Hash of the last row: note it elsewhere, and compare with ``verify(head=...)``."""
        with self._using() as connection:
            return table.last(connection).hash

    @property
    def tally(self) -> Tally:
        """What exact answers below level record have told so far."""
        with self._using() as connection:
            return table.tally(connection)

    @property
    def answers(self) -> tuple[AnswerSummary, ...]:
        """What was told, added up by asker and kind, the latest first."""
        with self._using() as connection:
            return tuple(table.summarize_answers(connection))

    @property
    def refusals(self) -> tuple[Row, ...]:
        """What was refused: once for each asker, kind of question and reason."""
        with self._using() as connection:
            return tuple(table.refusals(connection))

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
                raise broken_error(0, "may be changed: the file has lost its rules")
            try:
                rows = check_chain(table.rows(connection))
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
            reply = table.find_reply(connection, key)
            begun = table.row(connection, "reserve", key)
            if reply is not None and begun is not None:
                table.add_again(connection, begun, plain_name(asker))
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
            The budget does not allow it (code ``"ledger-budget"``); nothing was spent.
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
            earlier = table.row(connection, "reserve", key)
            if earlier is not None:
                if earlier.mu != mu:
                    raise InputError(
                        f"the question was reserved with mu {earlier.mu:g}, not {mu:g}.",
                        code="option-mu",
                    )
                table.add_again(connection, earlier, plain_name(asker))
                return
            spent = table.spent(connection)
            if not compose([spent, mu]) <= budget * (1 + ROUNDING):
                raise _budget_exceeded(spent, float(mu), budget)
            table.add(
                connection,
                "reserve",
                key,
                mu=float(mu),
                mechanism=mechanism,
                parameters=text,
                asker=plain_name(asker),
            )

    def charged(self, key: str, run: str) -> float:
        """What a release was charged, if that was in this run; 0 in others, and without a name."""
        with self._using() as connection:
            row = table.row(connection, "reserve", key)
        in_run = run and row is not None and loads(row.parameters).get(_RUN) == run
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
            if table.row(connection, "reserve", key) is None:
                raise InputError("nothing was reserved for the question.", code="ledger-order")
            earlier = table.find_reply(connection, key)
            if earlier is None:
                table.add(connection, "release", key, digest=digest_of(reply), reply=reply)
        # A transaction of its own: a release without a commit was stored and never handed over.
        answer = self.find(key)
        if answer is None:
            raise broken_error(0, "or a later one vanished")
        return answer

    def count(
        self,
        key: str,
        *,
        account: str,
        question: str,
        numbers: int,
        bits: float = 0.0,
        data: str = "",
        limits: tuple[int, float] = (0, 0.0),
        asker: str = "",
        rule: Callable[[Tally], str] = lambda _: "",
    ) -> Counted:
        """Count an exact answer, for good, before anything is computed.

        Nothing is given back, whatever becomes of the computation: that it failed may tell about
        the records too. Asked again, a question is not counted again, and gets the answer that
        was stored, if there is one.

        Parameters
        ----------
        key
            SHA-256 of the question, in hexadecimal digits.
        account
            ``"chosen"``, ``"named"`` or ``"record"``: what the numbers are.
        question
            Kind of the question.
        numbers, bits
            How many numbers the answer tells, and what they can hold.
        data
            Version of the records it is about.
        limits
            Most numbers and bits that the records allow, for whoever comes later.
        asker
            Who asked.
        rule
            Given what was told so far, the code of the rule that forbids the question, or
            nothing. No other process counts anything meanwhile.

        Raises
        ------
        FileError
            The file cannot be written, or is not what it was.
        """
        if numbers < 0 or not bits >= 0:
            raise InputError("an answer tells no fewer numbers than none.", code="ledger-numbers")
        asker = plain_name(asker)
        if account == "record":
            # What was asked at level record was not counted, and counts when it is asked below.
            key = sha256(f"record {key}".encode()).hexdigest()
        with self._writing() as connection:
            code = ""
            if account != "record":
                code = rule(table.tally(connection))
                earlier = table.row(connection, "count", key)
                if earlier is not None and code != "policy-version":
                    table.add_again(connection, earlier, asker)
                    return Counted(table.find_reply(connection, key, "told"))
            elif (earlier := table.row(connection, "count", key)) is not None:
                table.add_again(connection, earlier, asker)
                return Counted()
            if code:
                self._refuse(connection, question, code, asker)
                return Counted(code=code)
            entry = {"question": question, "numbers": numbers, "bits": bits, "data": data,
                    "limits": list(limits)}  # fmt: skip
            table.add(
                connection, "count", key, mechanism=account, parameters=_json(entry), asker=asker
            )
        return Counted()

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
            if table.row(connection, "count", key) is None:
                raise InputError("nothing was counted for the question.", code="ledger-order")
            earlier = table.find_reply(connection, key, "told")
            if earlier is None:
                table.add(connection, "told", key, digest=digest_of(reply), reply=reply)
        return reply if earlier is None else earlier

    def before(self, key: str) -> bytes | None:
        """What was told to a question that was charged or counted, to be handed over again.

        Empty where it was and no answer was stored; ``None`` where it never was.
        """
        with self._using() as connection:
            for begun, event in (("reserve", "release"), ("count", "told")):
                if table.row(connection, begun, key) is not None:
                    return table.find_reply(connection, key, event) or b""
        return None

    def refuse(self, question: str, code: str, asker: str) -> None:
        """Note that a question was refused, once for each asker, kind of question and reason."""
        with self._writing() as connection:
            self._refuse(connection, question, code, plain_name(asker))

    @staticmethod
    def _refuse(connection: sqlite3.Connection, question: str, code: str, asker: str) -> None:
        key = sha256(_json([question, code, asker]).encode()).hexdigest()
        if table.row(connection, "refuse", key) is None:
            content = _json({"question": question, "code": code})
            table.add(connection, "refuse", key, mechanism=code, parameters=content, asker=asker)

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
            return waits.hold(
                connection, key, question=question, level=level, asker=plain_name(asker),
                run=plain_name(run), now=waits.utc(),
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
            now = waits.utc()
            question = waits.decide(connection, word, approved=approved, now=now)
            if span is not None and approved:
                whose = question.asker if asker is None else plain_name(asker)
                waits.allow(connection, asker=whose, level=question.level, span=span, now=now)
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
            return waits.end(connection, word, now=waits.utc())

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """All questions that ever waited for a decision, and what became of each."""
        with self._using() as connection:
            return tuple(waits.waiting(connection, waits.utc()))

    @property
    def allowed(self) -> tuple[Allowed, ...]:
        """Levels and askers whose questions need no decision now."""
        with self._using() as connection:
            return tuple(waits.allowed(connection, waits.utc()))

    @property
    def allowances(self) -> tuple[Allowed, ...]:
        """All that was ever allowed for a while."""
        with self._using() as connection:
            return tuple(waits.allowances(connection))

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All that persons did, first to last."""
        with self._using() as connection:
            return tuple(waits.decisions(connection))

    @property
    def paused(self) -> bool:
        """Whether nothing is told for now."""
        with self._using() as connection:
            return waits.paused(connection)

    def pause(self, wanted: bool = True) -> None:
        """Tell nothing any more, in any process, or go on."""
        with self._writing() as connection:
            waits.set_paused(connection, wanted)

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
        """One transaction that no other process can come between, on the file that it was."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                noted = -1 if self._place is None else self._place.check(connection)
                yield connection
                last = table.last(connection)
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
    return dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _budget_exceeded(spent: float, requested: float, budget: float) -> BudgetError:
    remaining = math.sqrt(max(budget**2 - spent**2, 0.0))
    return BudgetError(
        f"the budget is a mu of {budget:.4g} in all: {spent:.4g} is spent, {requested:.4g} was "
        f"asked, {remaining:.4g} is left (squares add up). Ask for a smaller epsilon, or use what "
        "was released before.",
        spent=spent,
        requested=requested,
        remaining=remaining,
    )


def plain_name(asker: str) -> str:
    """A name as a ledger keeps it: without line breaks and terminal codes, and not without end."""
    return "".join(c if c.isprintable() else "?" for c in asker)[:_LONGEST_ASKER]


def _close(connection: sqlite3.Connection, process: int) -> None:
    # In a forked process, closing would drop the locks of the other.
    if os.getpid() == process:
        connection.close()
