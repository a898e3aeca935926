"""What a draft of a schema, and trying one on a table, return."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...render.shown import Shown
from ..files import write_whole

if TYPE_CHECKING:
    from ..fit import Problem
    from ..reading import Schema
    from .proposals import Note

_HEAD = """\
# A draft: proposed from the records of one site, which nobody has looked at.
# The entries under read_off (at the end) depend on those records and may tell about them, and so
# do the kinds. Replace them by public knowledge, then put your name in confirmed_by, and remove
# these lines. What each entry means is in docs/schema.md.
"""


@dataclass(frozen=True)
class Draft(Shown):
    """A schema proposed from the records of one site, and what a person should look at.

    Attributes
    ----------
    schema
        What is proposed; its ``read_off`` names the entries that depended on records.
    notes
        What to look at, by column; a note that is ``refused`` keeps the table from being read.
    records
        How many there are.
    missing
        Records without a value, by column.
    """

    view: ClassVar[str] = "view:draft"

    schema: Schema
    notes: tuple[Note, ...] = ()
    records: int = 0
    missing: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    source: str = ""

    @property
    def readable(self) -> bool:
        """Return whether the schema reads the table that it was drafted from."""
        return not any(note.refused for note in self.notes)

    def save(self, path: str | Path) -> None:
        """Write the schema to a file; a YAML with a few lines for people on top."""
        head = "" if Path(path).suffix.lower() == ".json" else _HEAD
        write_whole(Path(path), (head + self.schema.text(path)).encode())

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "schema": self.schema.body(),
            "hash": self.schema.hash,
            "records": self.records,
            "missing": dict(self.missing),
            "notes": [vars(note) for note in self.notes],
            "readable": self.readable,
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


@dataclass(frozen=True)
class SchemaCheck(Shown):
    """How well a table fits a schema, in counts, for the site that has it.

    Attributes
    ----------
    schema
        The schema.
    records
        How many there are; none were read where columns are absent.
    problems
        What does not fit, what refuses the table first; no sentence has a value of the data.
    counts
        By column and kind of problem, how many fields.
    """

    view: ClassVar[str] = "view:check"

    schema: Schema
    records: int
    problems: tuple[Problem, ...]
    counts: Mapping[str, Mapping[str, int]] = field(repr=False)
    source: str = ""

    @property
    def fits(self) -> bool:
        """Return whether the table can be read by the schema."""
        return not any(problem.refused for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "fits": self.fits,
            "records": self.records,
            "hash": self.schema.hash,
            "problems": [vars(problem) for problem in self.problems],
            "counts": {name: dict(kinds) for name, kinds in self.counts.items()},
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)
