"""What a draft of a schema, and trying one on a table, return."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..files import as_file_name, write_whole
from ..names import canonical
from ..reported import Reported
from ..site import Site

if TYPE_CHECKING:
    from ..fit import Note, Problem
    from ..reading import Schema
    from .proposals import Entry

_HEAD = """\
# A draft, proposed from the records of one site. Nobody has checked it yet.
# The entries under read_off (at the end) depend on those records and may tell about them, and so
# do the kinds. Replace them by public knowledge, then put your name in confirmed_by, and remove
# these lines. What each entry means is in docs/schema.md.
"""

_SITE_HEAD = """\
# A draft of a site file: how {title} writes what the schema says otherwise, by its records.
# It stays at the site, and no table is read by it before a person has looked at each entry:
# confirm or edit it, then type
#   silot schema confirm {files} --by "YOUR NAME"
"""


def with_entries(body: dict[str, Any], entries: Mapping[str, Sequence[Entry]]) -> dict[str, Any]:
    """Return the body of a site file with further entries."""
    columns = {name: dict(part) for name, part in body.get("columns", {}).items()}
    for name, parts in entries.items():
        added = {entry.key: entry.value for entry in parts}
        if name:
            columns[name] = columns.get(name, {}) | added
        else:
            body = body | added
    return {**body, "columns": columns}


def entry_text(entry: Entry) -> str:
    """Return an entry of a site file in a line of YAML."""
    return f"{entry.key}: {_in_line(entry.value)}"


def _in_line(value: Any) -> str:
    import yaml

    # In a list, or a text alone would end with the mark of a document's end.
    return yaml.safe_dump(
        [value], default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False
    )[1:-2]


def site_text(entries: Mapping[str, Sequence[Entry]]) -> str:
    """Return entries of a site file as YAML, with the evidence in comments."""

    def shown(entry: Entry, indent: str) -> list[str]:
        why = textwrap.wrap(f"Confirm or edit: {canonical(entry.why)}.", 98 - len(indent))
        return [*(f"{indent}# {line}" for line in why), f"{indent}{entry_text(entry)}"]

    lines = [line for entry in entries.get("", ()) for line in shown(entry, "")]
    columns = {name: parts for name, parts in entries.items() if name and parts}
    lines += ["columns:"] if columns else []
    for name, parts in columns.items():
        lines.append(f"  {_in_line(name)}:")
        lines += [line for entry in parts for line in shown(entry, "    ")]
    return "".join(f"{line}\n" for line in lines)


def site_file_of(schema: Path, site: str) -> Path:
    """Return where the site file of a site is written, beside a drafted schema."""
    return schema.with_name(f"{schema.stem}.{as_file_name(site)}.site.yml")


@dataclass(frozen=True)
class SiteDraft:
    """A site file that is proposed for a table beside that of the schema.

    ``name`` and ``title`` are those of the site and its table; ``entries`` are by column of the
    schema, ``""`` for the whole table, and ``problems`` what still does not fit with them.
    """

    name: str
    title: str
    entries: Mapping[str, Sequence[Entry]]
    problems: tuple[Problem, ...] = ()

    @property
    def drafted(self) -> list[str]:
        """Return the entries, such as ``weight.unit``."""
        entries = [(name, entry) for name, parts in self.entries.items() for entry in parts]
        return [f"{name}.{entry.key}".lstrip(".") for name, entry in entries]

    def text(self, files: str = "SCHEMA SITE") -> str:
        """Return the site file as YAML; ``files`` are those to confirm together."""
        import yaml

        head = _SITE_HEAD.format(title=canonical(self.title), files=files)
        end = yaml.safe_dump({"drafted": self.drafted}, default_flow_style=None, width=100)
        return f"{head}silot: site\n{site_text(self.entries)}{end}"

    @property
    def site(self) -> Site:
        """Return what the file says; nothing is read by it until it is confirmed."""
        return Site.of(with_entries({"drafted": self.drafted}, self.entries))


@dataclass(frozen=True)
class Draft(Reported):
    """A drafted schema from the records of one site, and what a person should check.

    Attributes
    ----------
    schema
        What is proposed; its ``read_off`` names the entries that depended on records.
    notes
        What to check, by column; a note that is ``refused`` keeps the table from being read.
    records
        How many there are.
    missing
        Records without a value, by column.
    sites
        Site files of the tables; those of tables that differ in nothing have no entries.
    """

    view: ClassVar[str] = "view:draft"

    schema: Schema
    notes: tuple[Note, ...] = ()
    records: int = 0
    missing: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    source: str = ""
    sites: tuple[SiteDraft, ...] = ()

    @property
    def readable(self) -> bool:
        """Return whether the schema reads the table that it was drafted from."""
        return not any(note.refused for note in self.notes)

    def save(self, path: str | Path) -> dict[str, Path]:
        """Write the schema, and beside it the site files that have entries; return these by name.

        That of north.csv is called ``trial.north.site.yml`` beside ``trial.yml``.
        """
        file = Path(path)
        head = "" if file.suffix.lower() == ".json" else _HEAD
        write_whole(file, (head + self.schema.text(path)).encode())
        sites = {site.name: site for site in self.sites if site.drafted}
        files = {name: site_file_of(file, name) for name in sites}
        for name, site in sites.items():
            both = shlex.join([str(file), str(files[name])])
            write_whole(files[name], site.text(both).encode())
        return files

    @property
    def value(self) -> int:
        """Number of things that a person should check."""
        return len(self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "schema": self.schema.body(),
            "hash": self.schema.hash,
            "records": self.records,
            "missing": dict(self.missing),
            "notes": [vars(note) for note in self.notes],
            "readable": self.readable,
            "sites": {
                site.name: {"site": site.text(), "problems": [vars(p) for p in site.problems]}
                for site in self.sites
            },
        }


@dataclass(frozen=True)
class SchemaCheck(Reported):
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
    cures
        Entries of a site file that would cure some of it, with the evidence.
    """

    view: ClassVar[str] = "view:check"

    schema: Schema
    records: int
    problems: tuple[Problem, ...]
    counts: Mapping[str, Mapping[str, int]] = field(repr=False)
    source: str = ""
    cures: Mapping[str, Sequence[Entry]] = field(default_factory=dict[str, Any])

    @property
    def cure(self) -> str:
        """Return the entries of a site file that would cure what one can cure, as YAML."""
        return site_text(self.cures)

    @property
    def fits(self) -> bool:
        """Return whether the table can be read by the schema."""
        return not any(problem.refused for problem in self.problems)

    @property
    def value(self) -> int:
        """How many problems there are."""
        return len(self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "fits": self.fits,
            "records": self.records,
            "hash": self.schema.hash,
            "problems": [vars(problem) for problem in self.problems],
            "counts": {name: dict(kinds) for name, kinds in self.counts.items()},
            "site": self.cure,
        }
