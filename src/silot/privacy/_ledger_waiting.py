"""Questions of a ledger that wait for a person, what was decided, and whether anything is told."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal

from ..errors import InputError
from . import _ledger_table as table
from ._ledger_rows import COLUMNS, Row, broken_error

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


def decisions(connection: sqlite3.Connection) -> list[Decision]:
    """All that persons did, the first first."""
    questions = {row.key: row for row in _rows(connection, "wait")}
    entries: list[Decision] = []
    for row in _rows(connection, "approve", "deny", "allow", "end", "pause", "go-on"):
        about = questions.get(row.key, row)
        content, question = json.loads(row.parameters or "{}"), json.loads(about.parameters or "{}")
        entries.append(Decision(
            row.time, content.get("by", ""), row.event, row.asker, about.mechanism,
            question.get("question", ""), content.get("until", ""),
        ))  # fmt: skip
    return entries


def waiting(connection: sqlite3.Connection, now: datetime) -> list[Waiting]:
    """All questions that ever waited, the first first, and what became of each."""
    questions: dict[str, Waiting] = {}
    for row in _rows(connection, "wait", "approve", "deny"):
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
                questions[row.key], state=state, by=_by(row),
                decided=datetime.fromisoformat(row.time),
            )  # fmt: skip
    return list(questions.values())


def allowances(connection: sqlite3.Connection) -> list[Allowed]:
    """All that was ever allowed for a while, the first first."""
    spans: dict[str, Allowed] = {}
    for row in _rows(connection, "allow", "end"):
        time = datetime.fromisoformat(row.time)
        if row.event == "allow":
            until = datetime.fromisoformat(json.loads(row.parameters)["until"])
            spans[row.key] = Allowed(
                row.key[:12], row.asker, row.mechanism, time, until, _by(row)
            )  # fmt: skip
        else:
            spans[row.key] = replace(spans[row.key], until=time, ended=_by(row))
    return list(spans.values())


def allowed(connection: sqlite3.Connection, now: datetime) -> list[Allowed]:
    """What is allowed now without a decision.

    An approval is over once the ledger noted a time out of its span after it: a clock that is set
    back makes no hour longer, and one that was ahead leaves none for later.
    """
    return [
        item
        for item in allowances(connection)
        if item.since <= now < item.until and _is_within(connection, item)
    ]


def _is_within(connection: sqlite3.Connection, allowance: Allowed) -> bool:
    key = _key(connection, "allow", allowance.id)
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


def hold(
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
    if any((item.asker, item.level) == (asker, level) for item in allowed(connection, now)):
        return "approved"
    earlier = [item for item in waiting(connection, now) if item.asker == asker]
    same = [item.state for item in earlier if item.key == key and item.state != "expired"]
    if same:
        return same[-1]
    if sum(item.state == "waiting" for item in earlier) >= _MOST:
        return "crowded"
    body = {"question": question, "key": key, "until": (now + KEPT).isoformat(timespec="seconds")}
    body |= {"run": run} if run else {}
    _add(connection, "wait", _fresh(), mechanism=level, asker=asker, body=body)
    return "waiting"


def decide(connection: sqlite3.Connection, word: str, *, approved: bool, now: datetime) -> Waiting:
    """Note what was decided on the question that an id, or its first digits, name."""
    word = word.strip().lower()
    matches = [
        item for item in waiting(connection, now)
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
    _add(
        connection, "approve" if approved else "deny", _key(connection, "wait", question.id),
        asker=question.asker, body={},
    )  # fmt: skip
    return replace(question, state="approved" if approved else "denied", by=_who(), decided=now)


def end(connection: sqlite3.Connection, word: str, *, now: datetime) -> Allowed | None:
    """End what is allowed for a while, if an id, or its first digits, name that and no question."""
    word = word.strip().lower()
    if len(word) < _SHORTEST:
        return None
    # Also one that has not begun, by a clock that was set back since.
    matches = [
        item
        for item in allowances(connection)
        if not item.ended and now < item.until and item.id.startswith(word)
    ]
    if len(matches) != 1 or any(item.id.startswith(word) for item in waiting(connection, now)):
        return None
    (allowance,) = matches
    _add(connection, "end", _key(connection, "allow", allowance.id), asker=allowance.asker,
         mechanism=allowance.level, body={})  # fmt: skip
    return replace(allowance, until=now, ended=_who())


def allow(
    connection: sqlite3.Connection, *, asker: str, level: str, span: timedelta, now: datetime
) -> Allowed:
    """Let questions of a level and asker be answered for a while without a decision."""
    until = now + span
    body, key = {"until": until.isoformat(timespec="seconds")}, _fresh()
    _add(connection, "allow", key, mechanism=level, asker=asker, body=body)
    return Allowed(key[:12], asker, level, now, until, _who())


def paused(connection: sqlite3.Connection) -> bool:
    """Whether nothing is told at all for now."""
    rows = _rows(connection, "pause", "go-on")
    return bool(rows) and rows[-1].event == "pause"


def set_paused(connection: sqlite3.Connection, wanted: bool) -> None:
    """Stop telling anything, or go on."""
    rows = _rows(connection, "pause", "go-on")
    if wanted and not paused(connection):
        _add(connection, "pause", _fresh(), body={})
    elif not wanted and paused(connection):
        _add(connection, "go-on", rows[-1].key, body={})


def _rows(connection: sqlite3.Connection, *events: str) -> list[Row]:
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


def _add(
    connection: sqlite3.Connection,
    event: str,
    key: str,
    *,
    mechanism: str = "",
    asker: str = "",
    body: Mapping[str, str],
) -> None:
    """A row; what a person did says who."""
    content = body if event == "wait" else {**body, "by": _who()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    table.add(connection, event, key, mechanism=mechanism, parameters=text, asker=asker)


def _key(connection: sqlite3.Connection, event: str, id: str) -> str:
    return next(row.key for row in _rows(connection, event) if row.key.startswith(id))


def _who() -> str:
    """Whose process it is: a name of the system, and that of who became it by sudo."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user {os.getuid()}"
    original = os.environ.get("SUDO_USER", "")
    return f"{original} as {name}"[:100] if original and original != name else name


def _by(row: Row) -> str:
    return str(json.loads(row.parameters or "{}").get("by", ""))


def _fresh() -> str:
    """A key of its own: the same question may wait again once it lapsed."""
    return sha256(secrets.token_bytes(32)).hexdigest()


def utc() -> datetime:
    """Now."""
    return datetime.now(UTC)


__all__ = ["KEPT", "Allowed", "Decision", "Waiting", "utc"]
