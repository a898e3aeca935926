"""Rows of a ledger, and the chain of hashes that joins them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from ..errors import FileError
from .accounting import ROUNDING

FIRST = "0" * 64
# What must stand before an event, for the same question; nothing for those that begin one.
_BEFORE = {"reserve": "", "release": "reserve", "commit": "release", "count": "", "told": "count",
           "again": "", "refuse": "", "wait": "", "approve": "wait", "deny": "wait", "allow": "",
           "end": "allow", "pause": "", "go-on": "pause"}  # fmt: skip


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
        each exact answer ``"count"`` before anything is computed, ``"told"`` before it is handed
        over (below level record, with the answer); ``"again"`` once for each further asker that
        was handed an answer of before; ``"refuse"`` once for each asker, kind of
        question and reason. Of persons: ``"wait"`` for a question that is to be decided on,
        ``"approve"`` or ``"deny"`` once it was, ``"allow"`` for a level and an asker for a while,
        ``"end"`` before that is over, ``"pause"`` and ``"go-on"`` for everything; who did it is in
        ``parameters``.
    time
        Coordinated universal time, ISO 8601.
    asker
        Who asked, as the runtime knows it.
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
        """The row with its hash."""
        return replace(self, hash=self.computed_hash())

    def computed_hash(self) -> str:
        """SHA-256 of all fields but ``hash``, as a JSON list."""
        content = [getattr(self, name) for name in COLUMNS[:-1]]
        return hashlib.sha256(_JSON.encode(content).encode("ascii")).hexdigest()


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)
COLUMNS = tuple(item.name for item in fields(Row))


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest_of(reply: bytes) -> str:
    """SHA-256 of a stored answer."""
    return hashlib.sha256(reply).hexdigest()


def check_chain(rows: Iterable[tuple[Row, bytes | None]]) -> list[Row]:
    """Return the rows if every hash, total and stored answer fits; else say which row does not."""
    chain: list[Row] = []
    events: set[tuple[str, str]] = set()
    previous = FIRST
    squares = 0.0
    for position, (row, reply) in enumerate(rows):
        if row.sequence != position:
            raise broken_error(position, "is missing")
        if row.previous != previous:
            raise broken_error(position, "does not follow the row before it")
        if row.hash != row.computed_hash():
            raise broken_error(position, "was changed")
        if not _is_in_order(row, events):
            raise broken_error(position, "is out of order")
        events.add((row.event, row.key))
        if row.event == "reserve":
            squares += row.mu**2
        fits = math.isclose(row.total, math.sqrt(squares), rel_tol=ROUNDING)
        if not fits or not _fits(row, reply):
            raise broken_error(position, "does not add up")
        chain.append(row)
        previous = row.hash
    if not chain:
        raise broken_error(0, "is missing")
    return chain


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
    if row.event in ("release", "told"):
        return row.mu == 0 and reply is not None and digest_of(reply) == row.digest
    return row.mu == 0 and reply is None


def broken_error(position: int, what: str) -> FileError:
    """The error for a ledger whose rows are not as they were written."""
    return FileError(
        f"the ledger is broken: row {position} {what}. Nothing may be released against it; "
        "find out what happened, and count what it had spent as spent.",
        code="ledger-broken",
    )
