"""Reading and adding rows of a ledger, inside a transaction of the caller."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from json import dumps

from ._ledger_file import VERSION
from ._ledger_rows import COLUMNS, FIRST, Row, broken_error, digest_of, now
from .accounting import compose

_INSERT = (
    f"INSERT INTO rows ({', '.join(COLUMNS)}, reply) VALUES ({', '.join('?' * len(COLUMNS))}, ?)"
)


@dataclass(frozen=True)
class Tally:
    """What exact answers below level record have told so far, as rules about them need it.

    Attributes
    ----------
    numbers
        Numbers told about inputs that askers chose, by asker.
    bits
        What those can hold together.
    named, named_bits
        Numbers of statistics that askers only named, and what those can hold.
    kinds
        Kinds of named statistics that were told.
    data
        Version of the records at the first of them; empty when there was none.
    limits
        Most numbers and bits that the records allow, fixed at the first of them.
    """

    numbers: Mapping[str, int]
    bits: float = 0.0
    named: int = 0
    named_bits: float = 0.0
    kinds: frozenset[str] = frozenset()
    data: str = ""
    limits: tuple[int, float] | None = None

    @property
    def total(self) -> int:
        """Numbers told about chosen inputs, to all askers together."""
        return sum(self.numbers.values())


@dataclass(frozen=True)
class AnswerSummary:
    """Answers of one kind to one asker, added up.

    Attributes
    ----------
    asker, account, kind
        To whom; ``"release"``, ``"chosen"``, ``"named"`` or ``"record"``; what was asked, of a
        release the mechanism.
    first, last
        When.
    times, numbers, mu
        How many answers, how many numbers they told, and what they spent together.
    again
        Whether they had been told to another asker, whom they were charged to.
    """

    asker: str
    account: str
    kind: str
    first: str
    last: str
    times: int
    numbers: int
    mu: float
    again: bool


def summarize_answers(connection: sqlite3.Connection) -> list[AnswerSummary]:
    """What was told, to each asker, the latest first."""
    cursor = connection.execute(
        "SELECT asker, 'release', mechanism, MIN(time), MAX(time) AS latest, COUNT(*), 0, "
        "SUM(mu * mu), 0 FROM rows WHERE event = 'reserve' GROUP BY asker, mechanism UNION ALL "
        "SELECT asker, mechanism, json_extract(parameters, '$.question'), MIN(time), MAX(time), "
        "COUNT(*), SUM(json_extract(parameters, '$.numbers')), 0.0, 0 FROM rows "
        "WHERE event = 'count' GROUP BY 1, 2, 3 UNION ALL "
        "SELECT asker, mechanism, json_extract(parameters, '$.question'), MIN(time), MAX(time), "
        "COUNT(*), SUM(json_extract(parameters, '$.numbers')), "
        "SUM(json_extract(parameters, '$.mu') * json_extract(parameters, '$.mu')), 1 FROM rows "
        "WHERE event = 'again' GROUP BY 1, 2, 3 ORDER BY latest DESC"
    )
    return [
        AnswerSummary(*values[:7], mu=math.sqrt(values[7]), again=bool(values[8]))
        for values in cursor
    ]


def tally(connection: sqlite3.Connection) -> Tally:
    """Add up the exact answers that count."""
    numbers: dict[str, int] = {}
    bits, named, named_bits, kinds = 0.0, 0, 0.0, set[str]()
    data, limits = "", None
    cursor = connection.execute(
        "SELECT asker, mechanism, parameters FROM rows WHERE event = 'count' AND mechanism IN "
        "('named', 'chosen') ORDER BY sequence"
    )
    for asker, account, text in cursor:
        entry = json.loads(text)
        data = data or entry["data"]
        limits = limits or (entry["limits"][0], entry["limits"][1])
        if account == "named":
            named += entry["numbers"]
            named_bits += entry["bits"]
            kinds.add(entry["question"])
        else:
            numbers[asker] = numbers.get(asker, 0) + entry["numbers"]
            bits += entry["bits"]
    return Tally(numbers, bits, named, named_bits, frozenset(kinds), data, limits)


def name(connection: sqlite3.Connection) -> str:
    """What the ledger called itself when it was made."""
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
    """Begin the chain."""
    parameters = dumps({"ledger": secrets.token_hex(16), "version": VERSION})
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
    before = last(connection)
    total = compose([spent(connection), mu]) if event == "reserve" else before.total
    new = Row(
        before.sequence + 1, event, now(), asker, mechanism, parameters, key, mu, total, digest,
        before.hash,
    ).with_hash()  # fmt: skip
    connection.execute(_INSERT, (*(getattr(new, name) for name in COLUMNS), reply))


def add_again(connection: sqlite3.Connection, first: Row, asker: str) -> None:
    """Note, once, that an asker gets what was told to another one before; it spends nothing.

    Parameters
    ----------
    connection
        To the file.
    begun
        What was charged or counted when it was told first.
    asker
        Who gets it now.
    """
    key = sha256(dumps([first.key, asker]).encode()).hexdigest()
    if asker in ("", first.asker) or row(connection, "again", key) is not None:
        return
    release = first.event == "reserve"
    entry = {} if release else json.loads(first.parameters)
    again = {
        "question": first.mechanism if release else entry["question"],
        "numbers": 0 if release else entry["numbers"],
        "mu": first.mu,
    }
    account = "release" if release else first.mechanism
    add(connection, "again", key, mechanism=account, parameters=dumps(again), asker=asker)


def spent(connection: sqlite3.Connection) -> float:
    """What all reserves spend together, whether they came to a release or not."""
    (squares,) = connection.execute(
        "SELECT COALESCE(SUM(mu * mu), 0.0) FROM rows WHERE event = 'reserve'"
    ).fetchone()
    return math.sqrt(squares)


def last(connection: sqlite3.Connection) -> Row:
    """The last row."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    if values is None:
        raise broken_error(0, "is missing")
    return Row(*values)


def numbered(connection: sqlite3.Connection, sequence: int) -> Row | None:
    """The row of a number, if there is one."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE sequence = ?", (sequence,)
    ).fetchone()
    return None if values is None else Row(*values)


def row(connection: sqlite3.Connection, event: str, key: str) -> Row | None:
    """The row of an event about a question, if there is one."""
    values = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE event = ? AND key = ?", (event, key)
    ).fetchone()
    return None if values is None else Row(*values)


def refusals(connection: sqlite3.Connection) -> list[Row]:
    """Rows of what was refused."""
    cursor = connection.execute(
        f"SELECT {', '.join(COLUMNS)} FROM rows WHERE event = 'refuse' ORDER BY sequence"
    )
    return [Row(*values) for values in cursor]


def find_reply(connection: sqlite3.Connection, key: str, event: str = "release") -> bytes | None:
    """The stored answer to a question, if there is one and it is as it was."""
    values = connection.execute(
        "SELECT sequence, digest, reply FROM rows WHERE event = ? AND key = ?", (event, key)
    ).fetchone()
    if values is None:
        return None
    sequence, digest, reply = values
    if digest_of(reply or b"") != digest:
        raise broken_error(sequence, "was changed")
    return reply


def rows(connection: sqlite3.Connection) -> Iterator[tuple[Row, bytes | None]]:
    """All rows with the answers they store."""
    cursor = connection.execute(f"SELECT {', '.join(COLUMNS)}, reply FROM rows ORDER BY sequence")
    for *values, reply in cursor:
        yield Row(*values), reply
