"""Rows of a ledger, and the chain of hashes that joins them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from ..errors import FileError
from .accounting import ROUNDING

EVENTS = ("open", "reserve", "release", "commit")
FIRST = "0" * 64


@dataclass(frozen=True)
class Row:
    """One event in a ledger. Rows are added and never changed.

    Attributes
    ----------
    sequence
        Number of the row, from 0.
    event
        ``"open"`` once; then for each release ``"reserve"`` before anything is computed,
        ``"release"`` when the noisy answer is stored, ``"commit"`` before it is handed over.
    time
        Coordinated universal time, ISO 8601.
    asker
        Who asked, as the runtime knows it.
    mechanism, parameters
        What is released; parameters as JSON, arrays by their digest.
    key
        SHA-256 of the question.
    mu
        What the release spends; 0 in other rows.
    total
        What all reserves so far spend together.
    digest
        SHA-256 of the stored answer, in a release.
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

    def chained(self) -> Row:
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
    stages: dict[str, int] = {}
    squares = 0.0
    for position, (row, reply) in enumerate(rows):
        if row.sequence != position:
            raise broken(position, "is missing")
        if row.previous != (chain[-1].hash if chain else FIRST):
            raise broken(position, "does not follow the row before it")
        if row.hash != row.computed_hash():
            raise broken(position, "was changed")
        stage = EVENTS.index(row.event) if row.event in EVENTS else -1
        if stage != stages.get(row.key, 0) + 1 and (position, stage) != (0, 0):
            raise broken(position, "is out of order")
        stages[row.key] = stage
        if row.event == "reserve":
            squares += row.mu**2
        fits = math.isclose(row.total, math.sqrt(squares), rel_tol=ROUNDING)
        if not fits or not _fits(row, reply):
            raise broken(position, "does not add up")
        chain.append(row)
    if not chain:
        raise broken(0, "is missing")
    return chain


def _fits(row: Row, reply: bytes | None) -> bool:
    if row.event == "reserve":
        return 0 < row.mu < math.inf and reply is None
    if row.event == "release":
        return row.mu == 0 and reply is not None and digest_of(reply) == row.digest
    return row.mu == 0 and reply is None


def broken(position: int, what: str) -> FileError:
    """The error for a ledger whose rows are not as they were written."""
    return FileError(
        f"the ledger is broken: row {position} {what}. Nothing may be released against it; "
        "find out what happened, and count what it had spent as spent.",
        code="ledger-broken",
    )
