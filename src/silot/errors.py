"""The exceptions of silot, each with a stable code and an exit status.

::

    SilotError
    ├── InputError         exit 3   data that cannot be a measure, or an option out of range
    │   └── MismatchError  exit 5   data that are fine alone and do not fit together
    ├── FileError          exit 4   a file that is missing, unreadable or of an unknown kind
    ├── HolderError        exit 6   a holder failed, timed out or answered nonsense
    │   ├── RefusedError   exit 7   a holder's policy refused the question
    │   ├── WaitingError   exit 12  a person at a holder has not decided yet
    │   └── UnfitError     exit 5   a holder's data do not fit: a MismatchError as well
    ├── SolverError        exit 8   a solver could not certify its result
    ├── ExtraError         exit 9   an optional dependency is not installed
    ├── WireError          exit 10  bytes that are not a message of silot
    └── MemoryShortError   exit 11  a problem that does not fit into memory

A message says what arrived and what to do. It never quotes a value of the data: row and
column numbers only.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from silot_transport.errors import (
    ExtraError,
    InputError,
    MemoryShortError,
    MismatchError,
    SilotError,
    SolverError,
)

__all__ = [
    "Explanation",
    "ExtraError",
    "FileError",
    "HolderError",
    "InputError",
    "MemoryShortError",
    "MismatchError",
    "RefusedError",
    "SilotError",
    "SolverError",
    "UnfitError",
    "WaitingError",
    "WireError",
    "explain",
    "explanations",
    "nature_of",
    "reason",
    "said_of_holder",
]


# Of sysexits: a process that runs for ever ends with it where the fault may pass by itself, and
# whoever supervises it starts it again.
TEMPORARY = 75

Nature = Literal["passes", "person", "lasting"]
NATURES: dict[Nature, str] = {
    "passes": "may pass by itself",
    "person": "waits for a person",
    "lasting": "lasts until what the message names is changed",
}
"""What ends a fault, in words."""


def nature_of(code: str) -> Nature:
    """Return what ends a fault, from the table of codes.

    What follows from it: a process that is supervised ends with ``TEMPORARY`` where it passes and
    is started again, a site's answer that failed is requested again until the deadline, and
    ``/metrics`` of a site and the alerts distinguish the three.
    """
    natures = _table()["nature"]
    if code in natures["passes"]:
        return "passes"
    return "person" if code in natures["person"] else "lasting"


class FileError(SilotError):
    """A file that is missing, unreadable, or of a kind silot does not know."""

    exit_status = 4


class HolderError(SilotError):
    """A holder failed, timed out, or answered something that is not an answer."""

    exit_status = 6
    holder: str = ""
    """Its name, where it was one alone."""


class RefusedError(HolderError):
    """A holder's policy refused the question."""

    exit_status = 7


class WaitingError(HolderError):
    """A person at a holder has not decided on the question yet; asked again, it may be answered."""

    exit_status = 12


class UnfitError(HolderError, MismatchError):
    """A holder's data do not fit together with what it was asked about."""

    exit_status = 5


class WireError(SilotError):
    """Bytes that are not a message of silot, or exceed its limits."""

    exit_status = 10


@dataclass(frozen=True)
class Explanation:
    """What is said of a code wherever it is explained: by ``silot doctor`` and on its page."""

    code: str
    kind: str
    """The exception it comes with; ``"Finding"`` for what ``silot site check`` notices."""
    words: str
    """What it is, and what to do."""
    exit_status: int | None
    """Of the command that it ends; ``None`` for a finding."""
    nature: Nature
    """What ends it."""

    @property
    def page(self) -> str:
        """Where the site has it, from the root of the site."""
        return f"reference/errors/{self.code}.html"


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))


@cache
def explanations() -> dict[str, Explanation]:
    """Return every code with its words, from the one table of them."""
    return {
        code: Explanation(code, kind, words, _status(kind), nature_of(code))
        for kind, codes in _table().items()
        if kind not in ("holder", "site", "nature")
        for code, words in codes.items()
    }


def said_of_holder(code: str) -> str:
    """Return what a holder's refusal or failure means, and what to do.

    The words are of this side of the wire: an exception's own text never crosses it.
    """
    return _table()["holder"].get(code, "it could not answer")


def reason(code: str, *, here: bool = False) -> str:
    """Return why a holder gave no answer; with ``here``, as the site says it to its owner."""
    own = _table()["site"].get(code) if here else None
    return own or said_of_holder(code).split(". ")[0]


def _status(kind: str) -> int | None:
    exception = globals().get(kind)
    return None if exception is None else exception.exit_status


def explain(code: str) -> Explanation:
    """Return what a code means.

    Raises
    ------
    InputError
        ``code-unknown``: there is no such code. The message names the nearest.
    """
    table = explanations()
    if code in table:
        return table[code]
    near = get_close_matches(code, table, n=3, cutoff=0.5)
    hint = f" The nearest codes are {', '.join(near)}." if near else ""
    raise InputError(
        f"there is no code {code[:60]!r}.{hint} Give the one between the brackets of a message.",
        code="code-unknown",
    )
