"""A draft of a schema, and of site files: proposed from records, for a person to correct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from ...errors import InputError
from ..column_checks import find_duplicates
from ..column_kinds import LONGEST, Category, Date, Feature, LeftOut, YesNo
from ..coordinates import category_places, layout
from ..fit import Note
from ..names import canonical, listing
from ..reading import Schema, TableSource, Tell
from ..site import Site
from .check import check, read_there, widened
from .number_proposals import pooled_days, propose, rounded_outwards, weight_limit
from .profile import ColumnProfile, TableProfile, sample_of
from .proposals import MOST, Proposal, listed_names, note_alike, unknown_words
from .result import Draft, SiteDraft
from .site_proposals import SiteProposals

_UNSURE = (
    "No column shows that the first line holds names (numbers below a text). Check that it is not "
    "a record: a schema takes the names of columns from it, and is public."
)
_MOST_CLASSES = 100
# Numbers beside 0 and 1 from which on they are counts, and no codes.
_FEWEST_NUMBERS = 3
_PAIRED = 40


@dataclass
class _Drafting:
    """One table that a schema is drafted of."""

    site: Site
    names: Sequence[str]
    label: str
    weight: str
    identifiers: Sequence[str]
    notes: list[Note] = field(default_factory=list[Note])
    read_off: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        here = {column.source or name: name for name, column in self.site.columns.items()}
        self.sources = {here.get(source, source): source for source in self.names}
        roles = [name for name in (self.label, self.weight, *self.identifiers) if name]
        absent = [name for name in roles if name not in self.sources]
        if absent:
            raise InputError(
                f"there is no column {absent[0]!r} among the {len(self.names)} of the table: is "
                "that how its first line writes them?",
                code="schema-columns",
            )
        if len(set(roles)) < len(roles):
            raise InputError(
                "a column is named as two of label, weight, identifier.", code="option-columns"
            )
        for name in [name for name in self.sources if not name.strip() or len(name) > LONGEST]:
            source = self.sources.pop(name)
            place = list(self.names).index(source) + 1
            words = f"Column {place} has no name, or one of over {LONGEST} letters: it is left out."
            self.notes.append(Note("", "name", words))

    def draft(self, profile: TableProfile, name: str, title: str) -> Draft:
        """Propose a schema by what was gathered of the table."""
        if not profile.named:
            self.notes.append(Note("", "header", _UNSURE))
        body: dict[str, Any] = {"name": title, "columns": self._columns(profile)}
        for what, entry in (("label", self._label_entry), ("weight", self._weight_entry)):
            if (part := entry(profile)) is not None:
                body[what] = part
        body["read_off"] = self.read_off
        if all(column["kind"] in ("text", "identifier") for column in body["columns"].values()):
            raise InputError(
                f"{name}: no column can be a feature: all are left out, as text, identifiers or "
                "without a value. Write the schema by hand (docs/schema.md).",
                code="schema-columns",
            )
        self.notes += _same(profile, {n for n, column in body["columns"].items()
                                      if column["kind"] not in ("text", "identifier")})  # fmt: skip
        missing = {name: column.missing for name, column in profile.columns.items()}
        notes = sorted(self.notes, key=lambda note: not note.refused)
        return Draft(Schema.of(body), tuple(notes), profile.rows, missing, source=name)

    def _columns(self, profile: TableProfile) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        used_names: set[str] = set()
        for name, column in profile.columns.items():
            if name in (self.label, self.weight):
                continue
            proposal = self._proposal(name, column)
            entries = self._parted(proposal, used_names)
            columns[name] = entries
            self.notes += proposal.notes
            self.read_off += proposal.read_off
        return columns

    def _proposal(self, name: str, profile: ColumnProfile) -> Proposal:
        if name in self.identifiers:
            return Proposal(name).leave_out("identifier", "")
        stated = self.site.entry(name)
        proposal = propose(name, profile, stated.unit)
        if stated.format and proposal.entries["kind"] == "date":
            # The site file says how it writes them.
            proposal.entries.pop("format", None)
            proposal.read_off = [
                entry for entry in proposal.read_off if not entry.endswith(".format")
            ]
        return proposal

    def _parted(self, proposal: Proposal, used_names: set[str]) -> dict[str, Any]:
        """Entries of a column whose coordinates have names of their own."""
        other = "b" if proposal.name == "a" else "a"
        trial = Schema.of({"columns": {proposal.name: proposal.entries, other: {"kind": "yes/no"}}})
        column: Feature | LeftOut = trial.columns[proposal.name]
        if isinstance(column, LeftOut):
            return proposal.entries
        coordinates = {name for name, _, _ in layout(proposal.name, column)}
        if coordinates & used_names:
            proposal.leave_out("text", "its coordinates would have names of another column")
            proposal.notes.clear()
            proposal.note("name", "its coordinates would have the same names as another column's "
                          "coordinates. It is left out: rename it.")  # fmt: skip
        used_names |= coordinates
        return proposal.entries

    def _label_entry(self, profile: TableProfile) -> dict[str, Any] | None:
        if not self.label:
            return None
        proposal, column = Proposal(self.label), profile.columns[self.label]
        words = unknown_words(column.names)
        names = dict(column.names)
        classes, other = listed_names(names)
        if column.many or not len(classes) > 0 or len(names) > _MOST_CLASSES:
            raise InputError(
                f"column {self.label!r} has no public classes: "
                f"{'many' if column.many else f'{len(names):,}'} different labels, "
                f"{len(classes)} of them of 10 records or more. Name a column of few classes; "
                "if no label column is named, this column is compared as any other.",
                code="schema-label",
            )
        entries: dict[str, Any] = {"column": self.label, "classes": classes}
        self.read_off.append("label.classes")
        if other:
            entries["other"] = True
            self.read_off.append("label.other")
            proposal.note("rare", "rare labels are not listed: they are other.")
        if words:
            proposal.note("sentinel", f"{len(words)} of its classes may mean: not known.")
        if column.missing:
            entries |= {"classes": [*classes, "none"], "missing": "none"}
            self.read_off.append("label.missing")
        note_alike(proposal, names, classes)
        self.notes += proposal.notes
        return entries

    def _weight_entry(self, profile: TableProfile) -> dict[str, Any] | None:
        if not self.weight:
            return None
        limit = weight_limit(profile.columns[self.weight])
        if limit is None:
            raise InputError(
                f"column {self.weight!r} has no weights: numbers of 0 or more are needed in "
                "all records, not all of them 0.",
                code="weights-dtype",
            )
        self.read_off.append("weight.limit")
        return {"column": self.weight, "limit": limit}


def draft(
    data: Any, others: Sequence[Any], *, label: str, weight: str, identifiers: Sequence[str],
    site: Site | None, title: str, tell: Tell | None, called: Sequence[str] = (),
) -> Draft:  # fmt: skip
    """Draft a schema of a table, and site files of it and of others, ``called`` so or by files."""
    sources = [TableSource.of(data, site)]
    sources += [TableSource.of(other, name=f"table{k}") for k, other in enumerate(others, 2)]
    if called:
        pairs = zip(sources, called, strict=True)
        sources = [replace(source, name=name) for source, name in pairs]
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise InputError(
            "two of the tables are the same, or have the same name up to the first dot "
            f"({listing(names)}), so their site files would too. Rename one.",
            code="schema-options",
        )
    first, site = sources[0], site or Site()
    with first.naming():
        drafting = _Drafting(site, first.names, label, weight, identifiers)
        profile = TableProfile.of(first, drafting.sources, site, tell)
        result = drafting.draft(profile, first.title, title)
    profiles: list[TableProfile] = []
    for source in sources[1:]:
        with source.naming():
            names_of = SiteProposals(result.schema, source.names).sources
            profiles.append(TableProfile.of(source, names_of, Site(), tell))
    result = _with_others(result, profile, profiles, is_compared=bool(called))
    ways = [SiteProposals(result.schema, first.names, site)]
    ways[0].propose(profile)
    for source, own in zip(sources[1:], profiles, strict=True):
        with source.naming():
            way = SiteProposals(result.schema, source.names)
            way.propose(own, profile, first.title)
        ways.append(way)
        result = _entered(result, way.needs, f"by its name or numbers in {source.title}")
    pairs = list(zip(sources[1:], ways[1:], strict=True))
    before = None
    # What one table needs may change how another is read: until nothing changes.
    while before != result.schema:
        before = result.schema
        for source, way in pairs:
            needs = widened(result.schema, read_there(source, result.schema, way.usable, tell)[1])
            needs = {name: entries for name, entries in needs.items() if name not in way.guessed}
            result = _entered(result, needs, f"for {source.title} needs it")
    drafts = [] if site.columns else [SiteDraft(first.name, first.title, ways[0].entries)]
    drafts += [
        SiteDraft(source.name, source.title, way.entries,
                  tuple(problem for problem in check(source, result.schema, way.usable,
                                                     tell, is_cured=False).problems
                        if problem.column not in way.guessed))
        for source, way in pairs
    ]  # fmt: skip
    return replace(result, sites=tuple(drafts))


def _with_others(
    draft: Draft, first: TableProfile, others: Sequence[TableProfile], *, is_compared: bool
) -> Draft:
    """Open yes/no to what others have there; to compare, leave out what no other table has.

    Categories are those of all tables together: by the first table's alone, rare ones would seem
    rarer there than elsewhere.
    """
    absent = [n for n in draft.schema.used if not any(n in own.columns for own in others)]
    absent = absent if is_compared and others and len(absent) < len(draft.schema.used) else []
    changed: dict[str, tuple[dict[str, Any], str]] = {}
    out = {"kind": "text", "about": "no other table has it"}
    changed |= dict.fromkeys(absent, (out, "no other table has it. It is left out."))
    for name, part in draft.schema.used.items():
        columns = [own.columns[name] for own in others if name in own.columns]
        if isinstance(part, YesNo) and (entries := _opened(part, first.columns[name], columns)):
            changed[name] = entries, f"other tables have more than two values: {entries['kind']}."
        elif columns and isinstance(part, Date):
            days = pooled_days(name, part, columns)
            if days["range"] != [day.isoformat() for day in part.range]:
                changed[name] = days, "its range has the days of all tables."
        elif columns and isinstance(part, Category):
            entries = _pooled(first.columns[name], columns, part.sentinels)
            if entries["categories"] != [*part.categories]:
                changed[name] = entries, "its categories are those of all tables together."
    if not changed:
        return draft
    body, read_off = draft.schema.body(), list[str](draft.schema.read_off)
    for name, (entries, _) in changed.items():
        kept = {} if name in absent else body["columns"][name]
        body["columns"][name] = kept | entries
        read_off = [entry for entry in read_off if name not in absent or
                    not entry.startswith(f"{name}.")]  # fmt: skip
        read_off += [] if name in absent else [f"{name}.{key}" for key in entries]
    body["read_off"] = [*dict.fromkeys(read_off)]
    notes = [Note(name, "absent" if name in absent else "sites", f"Column {name!r}: {words}")
             for name, (_, words) in changed.items()]  # fmt: skip
    return replace(draft, schema=Schema.of(body), notes=(*draft.notes, *notes))


def _opened(part: YesNo, first: ColumnProfile, others: Sequence[ColumnProfile]) -> dict[str, Any]:
    """Return a kind that reads what other tables have beside yes and no; empty if they have not."""
    accepted = category_places(part)
    names = sorted(set(first.names) - set(unknown_words(first.names)))
    for own in others:
        beside = {canonical(text) for text in own.names} - {*accepted, *unknown_words(own.names)}
        is_number = names == ["0", "1"] and own.numbers.read > MOST * own.value_count
        if is_number and (own.many or len(own.names) > _FEWEST_NUMBERS):
            ends = [0.0, 1.0, *(end for column in others for end in column.numbers.ends)]
            return {"kind": "number", "range": list(rounded_outwards(min(ends), max(ends)))}
        # Where neither is there the two are written in other ways.
        if not own.many and 0 < len(beside) < len(own.names):
            return {"kind": "category", "categories": names, "other": True}
    return {}


def _pooled(
    first: ColumnProfile, others: Sequence[ColumnProfile], sentinels: Collection[str]
) -> dict[str, Any]:
    """Return the categories of tables that write most fields as the first one does."""
    names = Counter(first.names)
    written = {canonical(text).casefold() for text in names}
    for own in others:
        agreed = sum(count for text, count in own.names.items() if text in first.names)
        if not own.many and 2 * agreed > own.value_count:
            # Another way to write one is for a site file.
            names.update({
                text: count for text, count in own.names.items()
                if text in first.names or canonical(text).casefold() not in written
            })  # fmt: skip
    words = {*sentinels, *unknown_words(names)}
    listed, other = listed_names({text: names[text] for text in names if text not in words})
    return {"categories": listed} | ({"other": True} if other else {})


def _entered(draft: Draft, needs: Mapping[str, Mapping[str, Any]], why: str) -> Draft:
    """Enter in the schema what other tables need."""
    if not needs:
        return draft
    body, notes = draft.schema.body(), list(draft.notes)
    read_off = list(draft.schema.read_off)
    for name, entries in needs.items():
        is_label = name not in body["columns"]
        (body["label"] if is_label else body["columns"][name]).update(entries)
        read_off += [f"{'label' if is_label else name}.{key}" for key in entries]
        words = f"Column {name!r}: {', '.join(entries)} was entered {why}."
        notes.append(Note(name, "sites", words))
    body["read_off"] = [*dict.fromkeys(read_off)]
    return replace(draft, schema=Schema.of(body), notes=tuple(notes))


def _same(profile: TableProfile, features: set[str]) -> list[Note]:
    """Columns that say what another one says."""
    kept = {name: column for name, column in profile.columns.items() if name in features}
    numeric = [n for n, column in kept.items() if column.numbers.read > 0.5 * column.value_count]
    notes: list[Note] = []
    if len(numeric) > 1:
        rows = np.column_stack([_filled(kept[name].sample) for name in numeric])
        for finding in find_duplicates(numeric, [sample_of(rows)]):
            other = finding.sentence.rpartition(" as ")[2]
            notes.append(Note(finding.column, "duplicate", _alike(finding.column, other)))
    few = [name for name, column in kept.items() if not column.many and len(column.names) > 1]
    for a, b in combinations(few[:_PAIRED], 2):
        has_note = any(note.column == b for note in notes)
        if not has_note and _one_to_one(kept[a], kept[b]):
            notes.append(Note(b, "duplicate", _alike(b, repr(a))))
    return notes


def _alike(column: str, other: str) -> str:
    return (
        f"Column {column!r}: it says almost the same as {other}, and would count twice. Leave one "
        "out (kind: text)."
    )


def _filled(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    is_number = np.isfinite(values)
    return np.where(is_number, values, np.median(values[is_number]) if is_number.any() else 0.0)


def _one_to_one(a: ColumnProfile, b: ColumnProfile) -> bool:
    if len(a.names) != len(b.names) or len(a.codes) < 2 * len(a.names):
        return False
    kinds = len(np.unique(a.codes))
    if kinds != len(np.unique(b.codes)) or kinds < 3:
        return False
    return len(np.unique(np.column_stack([a.codes, b.codes]), axis=0)) == kinds
