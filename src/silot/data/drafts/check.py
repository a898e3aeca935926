"""How well a table fits a schema, and what a site file would cure."""

from __future__ import annotations

from typing import Any

from ..column_kinds import Category, Date, Label, Number
from ..fit import MOST_OUTSIDE, Fit, Problem
from ..reading import Schema, TableSource, Tell, read_by_schema
from ..site import Site
from .number_proposals import round_below, rounded_outwards
from .profile import TableProfile
from .result import SchemaCheck
from .site_proposals import SiteProposals

# Of columns, what no site file cures.
_INCURABLE = ("missing", "filled", "fraction", "repeated")


def check(
    source: TableSource, schema: Schema, site: Site, tell: Tell | None, *, is_cured: bool = True
) -> SchemaCheck:
    """Say how well a table fits, and what to write in its site file."""
    absent, fit = read_there(source, schema, site, tell)
    problems = sorted([*absent, *(fit.problems if fit else ())], key=lambda p: not p.refused)
    counts = {name: dict(column.counts) for name, column in (fit.columns if fit else {}).items()}
    way = SiteProposals(schema, source.names, site, is_fixed=True)
    curable = {problem.column for problem in problems if problem.kind not in _INCURABLE} - {""}
    if is_cured and curable:
        with source.naming():
            way.propose(TableProfile.of(source, way.sources, site))
    cures = {name: entries for name, entries in way.entries.items() if name in {*curable, ""}}
    records = fit.records if fit else 0
    return SchemaCheck(schema, records, tuple(problems), counts, source.title, cures)


def read_there(
    source: TableSource, schema: Schema, site: Site, tell: Tell | None
) -> tuple[list[Problem], Fit | None]:
    """Read the columns that are there, and say which are absent."""
    columns = [*schema.used, *(part.column for part in schema.roles.values())]
    sources = {name: site.entry(name).source or name for name in columns}
    absent = [name for name in columns if sources[name] not in source.names]
    problems = [
        Problem(
            name, "absent", f"Column {sources[name]!r} is not there. Say what it is "
            f"called here in a site file (columns: {name}: from: ...).", True, 1,
        )
        for name in absent
    ]  # fmt: skip
    if schema.used.keys() <= set(absent):
        return problems, None
    if absent:
        body = schema.model_dump()
        body["columns"] = {n: part for n, part in body["columns"].items() if n not in absent}
        body |= {what: None for what, part in schema.roles.items() if part.column in absent}
        schema = Schema.of(body)
        kept = {name: part for name, part in site.columns.items() if name not in absent}
        site = site.model_copy(update={"columns": kept})
    return problems, read_by_schema(source, schema, site, tell=tell, check=False).fit


def widened(schema: Schema, fit: Fit | None) -> dict[str, dict[str, Any]]:
    """Return entries by which a schema reads a table that it would refuse as it is."""
    needs: dict[str, dict[str, Any]] = {}
    for problem in fit.problems if fit else ():
        part = schema.used.get(problem.column) or schema.label
        entries = _wider(part, problem, fit) if fit and problem.refused else {}
        if entries:
            needs.setdefault(problem.column, {}).update(entries)
    return needs


def _wider(part: Any, problem: Problem, fit: Fit) -> dict[str, Any]:
    kind, is_few = problem.kind, problem.count <= MOST_OUTSIDE * fit.records
    if kind == "missing" and isinstance(part, Label):
        return {"classes": [*part.classes, "none"], "missing": "none"}
    if kind == "unread" and is_few and isinstance(part, Number | Date):
        return {"unread": "missing", "missing": "indicator"}
    if kind == "unknown" and isinstance(part, Category | Label):
        return {"other": True}
    # A code for missing values that is far from all others was proposed as a sentinel before.
    is_beyond = kind in ("outside", "sentinel") and isinstance(part, Number)
    if is_beyond and part.transform in ("none", "log"):
        ends = sorted([*part.range, *fit.columns[problem.column].strays.array[:, 0].tolist()])
        if part.transform == "log" and ends[0] <= 0:
            return {}
        low, high = rounded_outwards(ends[0], ends[-1])
        is_zero = part.transform == "log" and low <= 0
        return {"range": [round_below(ends[0]) if is_zero else low, high]}
    return {"missing": {"missing": "indicator"}, "fraction": {"kind": "number"}}.get(kind, {})
