"""Read the tables of several sites and a reference, by a schema that may be drafted from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import InputError
from ...render.words import count
from ..container import recognise, stem_of
from ..fit import Fit
from ..loading import load_measure
from ..measure import Measure
from ..names import listing
from ..reading import Schema, TableSource, read_by_schema
from ..site import Site
from ..units import common_unit
from .check import check
from .draft import draft
from .proposals import Entry
from .result import Draft, SiteDraft, site_file_of, with_entries
from .site_proposals import is_guess

# Tables below which one that cannot be read ends the reading of all.
_FEWEST_TABLES = 3
# Entries of site files that bring numbers to another unit.
_SCALED = ("unit", "factor")
# Share of equal records up to which these are mistakes, and the chance that they are none.
_MOST_REPEATED, _CERTAIN = 0.02, 0.001

SiteFiles = Mapping[str, Site | str | Path]
Preparation = tuple[Literal["convert", "clean"], str]


@dataclass(frozen=True)
class Sources:
    """Which files were read, and how.

    ``draft`` is the schema that was proposed, where none was named by ``schema_file``.
    ``site_files`` were named, and ``site_drafts`` were proposed and read by; nobody has confirmed
    them.
    """

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    reference: str = ""
    reference_site: str = ""
    draft: Draft | None = None
    schema_file: str = ""
    site_files: Mapping[str, str] = field(default_factory=dict[str, str])
    site_drafts: Mapping[str, SiteDraft] = field(default_factory=dict[str, Any])
    label: str = ""

    def read_by(self, folder: Path, sites: Sequence[str]) -> str:
        """Return the flags by which a command reads the files of the reference and of sites."""
        schema = self.schema_file or (str(folder / "schema.yml") if self.draft else "")
        if not schema:
            return f"--label-column {shlex.quote(self.label)}" if self.label else ""
        words = ["--schema", schema]
        for name in (self.reference_site, *sites):
            is_drafted = name in self.site_drafts
            file = str(site_file_of(folder / "schema.yml", name)) if is_drafted else ""
            if file := file or self.site_files.get(name, ""):
                words += ["--site", f"{name}={file}"]
        return shlex.join(words)

    @property
    def unconfirmed(self) -> int:
        """How many entries a person has to confirm."""
        read_off = len(self.draft.schema.read_off) if self.draft else 0
        return read_off + sum(len(draft.drafted) for draft in self.site_drafts.values())


@dataclass(frozen=True)
class SiteTables:
    """Measures of sites and of the reference, how they were read, and what a person must look at.

    ``prepared`` are by site the steps that were taken as it was read, each a verb and its object,
    ``notes`` what was assumed, and ``unread`` why a table cannot be read.
    """

    measures: Mapping[str, Measure]
    reference: Measure | None = None
    sources: Sources = field(default_factory=Sources)
    prepared: Mapping[str, Sequence[Preparation]] = field(default_factory=dict[str, Any])
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Any])
    unread: Mapping[str, InputError] = field(default_factory=dict[str, InputError])


def as_measure(data: Any) -> Measure:
    """Return data as they are, or those of a file."""
    return load_measure(data) if isinstance(data, str | Path) else Measure.of(data)


def name_by_file(paths: Sequence[Any]) -> dict[str, Any]:
    """Return paths by the names of their files up to the first dot."""
    named = {stem_of(Path(path)): path for path in paths}
    if len(named) < len(paths):
        raise InputError(
            "two files have the same name up to the first dot, so their sites would have the same "
            "name. Rename one, or give names: sites={'north': 'a/data.csv', ...}.",
            code="holder-names",
        )
    return named


def read_sites(
    named: Mapping[str, Any], reference: Any, own: str, *, label: str = "",
    schema: Schema | str | Path | None = None, site_files: SiteFiles | None = None,
    is_private: bool = False,
) -> SiteTables:  # fmt: skip
    """Read tables by a schema, which is drafted where there is none; take measures as they are.

    Parameters
    ----------
    named
        Data of sites by name: measures, arrays, data frames or paths.
    reference
        Data that sites are compared with, or ``None``; ``own`` is their name among the sites.
    label
        Column of the labels, where it is known.
    schema, site_files
        What tables are read by, and by site how it writes its table.
    is_private
        Read by what persons confirmed alone: a draft is read off the records, so coordinates,
        notes and counts from it would tell about them without noise.
    """
    file = str(reference) if isinstance(reference, str | Path) else ""
    files = {name: str(data) for name, data in named.items() if isinstance(data, str | Path)}
    # A pattern such as *.csv names the reference too, which is no site.
    same = {name for name, path in files.items() if Path(path).resolve() == Path(file).resolve()}
    if same < set(named):
        named, files = ({k: v for k, v in m.items() if k not in same} for m in (named, files))
    # Commands call a file by its name up to the first dot.
    stem = stem_of(Path(file)) if file else ""
    owner = stem if stem and stem not in named else own
    site_files = _of_tables(site_files or {}, named, owner, own, schema)
    tables = dict(named) if reference is None else {**named, own: reference}
    sources = Sources(files=files, reference=file, reference_site=owner, label=label)
    reading = _Reading(tables, own, sources)
    if not any(map(_is_raw, tables.values())):
        return reading.gathered({name: as_measure(data) for name, data in tables.items()})
    if is_private and schema is None:
        raise InputError(
            "a drafted schema discloses something about the records, and a release must not. Give "
            "schema= (on the command line --schema FILE), confirmed by `silot schema confirm`.",
            code="option-privacy",
        )
    if schema is None:
        return reading.drafted(next(iter(named)) if reference is None else own)
    contract = Schema.coerce(schema)
    if is_private:
        return reading.as_stated(contract, site_files)
    return reading.by_schema(contract, str(schema), site_files)


def _is_raw(data: Any) -> bool:
    """Return whether data are a table whose columns are to be read by a schema."""
    if isinstance(data, str | Path):
        return recognise(data).is_table
    return hasattr(data, "columns") and not isinstance(data, Measure)


def _of_tables(
    site_files: SiteFiles, sites: Mapping[str, Any], owner: str, own: str, schema: Any
) -> SiteFiles:
    """Return site files by the table that each is of, or raise where one would change nothing."""
    if site_files and schema is None:
        raise InputError(
            "a site file says how a table differs from a schema, but the schema is missing. Give "
            "schema= (on the command line --schema FILE) too, or leave the site files out.",
            code="schema-options",
        )
    unknown = [name for name in site_files if name not in {*sites, owner}]
    if unknown:
        raise InputError(
            f"there is a site file for {unknown[0][:40]!r}, but no table has that name. The tables "
            f"are {listing([*sites, owner], 8)}.",
            code="schema-options",
        )
    return {own if name == owner else name: item for name, item in site_files.items()}


@dataclass(frozen=True)
class _Reading:
    """Tables to read, that of the reference by the name ``own`` among them."""

    raw: Mapping[str, Any]
    own: str
    sources: Sources

    def gathered(self, measures: dict[str, Measure], **more: Any) -> SiteTables:
        reference = measures.pop(self.own, None)
        return SiteTables(measures, reference, **{"sources": self.sources, **more})

    def drafted(self, first: str, *, is_last: bool = False) -> SiteTables:
        """Read by a schema drafted from one table, and site files drafted from the others."""
        others = [name for name in self.raw if name != first]
        try:
            drafted = self._draft([first, *others], self.sources.label)
        except InputError:
            unread = {name: error for name in others if (error := self._misfit([first, name]))}
            if not unread or len(self.raw) < _FEWEST_TABLES:
                raise
            readable = {name: data for name, data in self.raw.items() if name not in unread}
            tables = replace(self, raw=readable).drafted(first)
            return replace(tables, unread={**tables.unread, **unread})
        proposed = dict(zip([first, *others], drafted.sites, strict=True))
        converted = [name for name in others if any(
            entry.key in _SCALED for parts in proposed[name].entries.values() for entry in parts
        )]  # fmt: skip
        if first != self.own and not is_last and 2 * len(converted) > len(others):
            # Most tables are in other units than the first: the odd one is that.
            return self.drafted(converted[0], is_last=True)
        sources = replace(self.sources, draft=drafted)
        return replace(self, sources=sources).converted(drafted.schema, {}, proposed)

    def _draft(self, names: Sequence[str], label: str = "") -> Draft:
        """Draft a schema of the first of some tables, and site files of all."""
        first, *others = (self.raw[name] for name in names)
        return draft(
            first, others, label=label, weight="", identifiers=(), site=None, title="", tell=None,
            called=names,
        )  # fmt: skip

    def _misfit(self, names: Sequence[str]) -> InputError | None:
        """Return why no site file can be drafted of a table, if that is so."""
        try:
            self._draft(names)
        except InputError as error:
            return error
        return None

    def as_stated(self, schema: Schema, site_files: SiteFiles) -> SiteTables:
        """Read by what persons confirmed alone."""
        measures = {
            name: read_by_schema(data, schema, Site.coerce(site_files.get(name))).measure
            for name, data in self.raw.items()
        }
        label = schema.label.column if schema.label else ""
        return self.gathered(measures, sources=replace(self.sources, label=label))

    def by_schema(self, schema: Schema, file: str, site_files: SiteFiles) -> SiteTables:
        """Read by a schema, with what site files lack proposed from the tables."""
        stated = {name: Site.coerce(site) or Site() for name, site in site_files.items()}
        proposed: dict[str, SiteDraft] = {}
        for name, data in self.raw.items():
            site = stated.get(name, Site())
            fit = check(TableSource.of(data, site), schema, site, None)
            title = str(data) if isinstance(data, str) else name
            proposed[name] = SiteDraft(name, title, fit.cures)
        is_file = "\n" not in file and not file.startswith("silot:") and Path(file).is_file()
        named = {self._site_of(name): str(site) for name, site in site_files.items()
                 if isinstance(site, str | Path)}  # fmt: skip
        sources = replace(self.sources, schema_file=file if is_file else "", site_files=named)
        return replace(self, sources=sources).converted(schema, stated, proposed)

    def _site_of(self, table: str) -> str:
        return self.sources.reference_site if table == self.own else table

    def converted(
        self, schema: Schema, stated: Mapping[str, Site], proposed: Mapping[str, SiteDraft]
    ) -> SiteTables:
        """Read by a schema and by site files that nobody has confirmed yet."""
        measures: dict[str, Measure] = {}
        prepared: dict[str, list[Preparation]] = {}
        fits: dict[str, Fit] = {}
        notes: dict[str, list[str]] = {}
        drafts: dict[str, SiteDraft] = {}
        unread: dict[str, InputError] = {}
        for name, data in self.raw.items():
            own_draft, before = proposed[name], stated.get(name, Site())
            # A guess by shares alone is for a person: a site is read without it, or refused.
            entries = {
                column: [entry for entry in parts if not is_guess(entry)]
                for column, parts in own_draft.entries.items()
            }
            body = before.model_dump(by_alias=True, exclude_defaults=True)
            site = Site.of(with_entries(body, entries)) if any(entries.values()) else before
            try:
                records = read_by_schema(data, schema, site)
                measure, unlabelled = _labelled(records.measure, schema)
            except InputError as error:
                if name == self.own or len(self.raw) < _FEWEST_TABLES:
                    raise
                # One table that cannot be read is one decision, and no end of the comparison.
                unread[name] = error
                continue
            measures[name], fits[name] = measure, records.fit
            if any(own_draft.entries.values()):
                site_name = self._site_of(name)
                drafts[site_name] = replace(own_draft, name=site_name)
            prepared[name], remarks = _prepared(schema, entries, records.fit)
            of = f"{unlabelled:,} of {measure.size:,} records"
            absent = [f"{of} have no label, and are left out here"] if unlabelled else []
            notes[name] = absent + remarks
        if unread and not measures.keys() - {self.own}:
            raise next(iter(unread.values()))
        if repeats := _draft_repeats(fits):
            both = {
                name: replace(draft, entries={**draft.entries, "": [
                    *draft.entries.get("", ()), *([repeats[name]] if name in repeats else [])
                ]})
                for name, draft in proposed.items()
            }  # fmt: skip
            return self.converted(schema, stated, both)
        label = self.sources.label or (schema.label.column if schema.label else "")
        # Tables are called as the caller calls the sites.
        drafted = self.sources.draft and replace(self.sources.draft, sites=tuple(drafts.values()))
        sources = replace(self.sources, site_drafts=drafts, draft=drafted, label=label)
        return self.gathered(
            measures, sources=sources, prepared=prepared, notes=notes, unread=unread
        )


def _prepared(
    schema: Schema, entries: Mapping[str, Sequence[Entry]], fit: Fit
) -> tuple[list[Preparation], list[str]]:
    """Return what was done to a table as it was read, and what a person should look at."""
    every = [(column, entry) for column, parts in entries.items() for entry in parts]
    scaled = [(column, entry) for column, entry in every if entry.key in _SCALED]
    steps: list[Preparation] = [
        ("convert", _conversion(schema, column, entry)) for column, entry in scaled
    ]
    if fit.is_dropped and fit.repeated:
        steps.append(("clean", count(fit.repeated, "repeated record")))
    notes = [f"{column}: {entry.why}" for column, entry in scaled]
    notes += [
        f"{column or 'table'}: read with {entry.key} {entry.value}, {entry.why}"
        for column, entry in every if entry.key not in (*_SCALED, "repeats")
    ]  # fmt: skip
    return steps, notes + [problem.sentence for problem in fit.problems]


def _draft_repeats(fits: Mapping[str, Fit]) -> dict[str, Entry]:
    """Return entries of site files for tables in which records were entered more than once.

    Where records seldom are equal by nature, equal pairs grow as the square of the records: given
    how many there are in two tables, those of one are binomial.
    """
    from scipy.special import bdtrc

    rarest = min(fits.values(), key=lambda fit: fit.repeated / fit.records)
    if rarest.repeated > _MOST_REPEATED * rarest.records:
        return {}
    entries: dict[str, Entry] = {}
    for name, fit in fits.items():
        share = fit.records**2 / (fit.records**2 + rarest.records**2)
        chance = bdtrc(fit.repeated - 1, fit.repeated + rarest.repeated, share)
        if fit.repeated and not fit.is_dropped and chance < _CERTAIN / len(fits):
            why = (
                f"{fit.repeated:,} of {fit.records:,} records equal an earlier one, and "
                f"{rarest.repeated:,} of {rarest.records:,} in another table"
            )
            entries[name] = Entry("repeats", "drop", why)
    return entries


def _labelled(measure: Measure, schema: Schema) -> tuple[Measure, int]:
    """Return records of which those without a label have no weight, and how many these are."""
    if measure.names is None or schema.label is None or schema.label.missing is None:
        return measure, 0
    is_unlabelled = measure.names == str(schema.label.missing)
    masses = np.where(is_unlabelled, 0.0, measure.masses)
    if not masses.any():
        raise InputError(
            f"no record has a label in column {schema.label.column!r}. Leave this site out, or "
            "compare without labels.",
            code="labels-absent",
        )
    labelled = Measure(
        measure.points, masses, measure.labels, measure.columns, schema=measure.schema
    )
    return labelled, int(is_unlabelled.sum())


def _conversion(schema: Schema, column: str, entry: Entry) -> str:
    """Return in words how a column is brought to the unit of the schema."""
    if entry.key == "factor":
        return f"{column} x {entry.value:g}"
    unit = str(getattr(schema.used.get(column), "unit", "")) or "the unit of the schema"
    return f"{column} from {common_unit(entry.value)} to {common_unit(unit)}"
