"""How well a table fits a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..dialect import Dialect
from ..fit import Problem
from ..reading import Reading, Schema, read_by_schema, read_frame, table_source
from ..site import Site
from ..table_files import read_names
from ..tables import frame_table
from .result import SchemaCheck

Tell = Callable[[float], None]


def check_file(
    path: str | Path, schema: Schema, site: Site | None = None, *, tell: Tell | None = None
) -> SchemaCheck:
    """How well a table in a file fits."""
    source = table_source(path)

    def read(part: Schema, way: Site) -> Reading:
        return read_by_schema(source, part, way, tell=tell, check=False)

    names = read_names(source, site.file if site else Dialect())
    return _check(names, schema, site or Site(), read, source.name)


def check_frame(data: Any, schema: Schema, site: Site | None = None) -> SchemaCheck:
    """How well a data frame fits."""
    table = frame_table(data)
    names = [] if table is None else table.names

    def read(part: Schema, way: Site) -> Reading:
        return read_frame(data, part, way, check=False)

    return _check(names, schema, site or Site(), read, "the data")


def _check(
    names: Sequence[str],
    schema: Schema,
    site: Site,
    read: Callable[[Schema, Site], Reading],
    source: str,
) -> SchemaCheck:
    part, way, absent = _there(names, schema, site)
    if part is None:
        return SchemaCheck(schema, 0, tuple(absent), {}, source)
    fit = read(part, way).fit
    counts = {
        name: {kind: count for kind, count in misfits.counts.items() if count}
        for name, misfits in fit.misfits.items()
    }
    problems = sorted([*absent, *fit.problems], key=lambda problem: not problem.refused)
    return SchemaCheck(schema, fit.records, tuple(problems), counts, source)


def _there(
    names: Sequence[str], schema: Schema, site: Site
) -> tuple[Schema | None, Site, list[Problem]]:
    """The schema and the site of the columns that are there, and what is absent."""
    sources = {name: part.source for name, part in site.columns.items() if part.source}
    absent = [name for name in schema.used if sources.get(name, name) not in names]
    others = {"label": schema.label, "weight": schema.weight}
    named = {what: part.column for what, part in others.items() if part}
    gone = {what: name for what, name in named.items() if sources.get(name, name) not in names}
    problems = [
        Problem(
            name, "absent", 1, f"Column {sources.get(name, name)!r} is not there. Say what it is "
            f"called here in a site file (columns: {name}: from: ...).", refused=True,
        )
        for name in (*absent, *gone.values())
    ]  # fmt: skip
    if not problems:
        return schema, site, []
    if len(absent) == len(schema.used):
        return None, site, problems
    columns = {name: column for name, column in schema.columns.items() if name not in absent}
    part = Schema.of(
        {**schema.model_dump(), "columns": {k: v.model_dump() for k, v in columns.items()},
         **dict.fromkeys(gone)}
    )  # fmt: skip
    kept = {n: e for n, e in site.columns.items() if n not in absent and n not in gone.values()}
    return part, site.model_copy(update={"columns": kept}), problems
