"""What is shown of schemas, drafts and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import render
from ...render import Bullets, Content, Paragraph, facts, on_page, plain_table, section
from ...render.words import printable
from ..column_kinds import Category, Column, Date, LeftOut, Number, Ordered, Value, YesNo
from ..coordinates import layout
from ..fit import Note
from ..reading import Schema
from ..schema import FOR_PEOPLE
from .result import Draft, SchemaCheck, entry_text

# Categories that are shown in a line.
_SHOWN = 6
_COUNTS = ("missing", "unread", "fraction", "unknown", "alike", "other", "below", "above")
_HEADS = {"below": "low", "above": "high", "fraction": "frac."}


def draft_content(result: Draft) -> Content:
    """Declare a draft: the schema, and what a person should look at."""
    kinds = [column.kind for column in result.schema.columns.values()]
    out = sum(kind in ("text", "identifier") for kind in kinds)
    read_off = result.schema.read_off
    warning = Paragraph(
        f"{len(read_off)} entries were read off these records and may disclose something about "
        f"them: {', '.join(map(printable, read_off))}. Replace them by public knowledge, then put "
        "a name in confirmed_by.",
        "warning",
    )
    return [
        render.Headline(
            "A draft of a schema",
            "Proposed from the records of one site; it stays there until a person has "
            "replaced the entries that were read off them.",
        ),
        facts({
            "records": f"{result.records:,} of {printable(result.source)}",
            "columns": f"{len(kinds)}, {out} of them left out",
            "coordinates": _coordinates(result.schema),
            "reads this table": "yes" if result.readable else "no: correct what is marked ! first",
        }),
        section("Columns", _columns(result.schema)),
        section(
            "What to check",
            Paragraph(""),
            bool(result.notes) and Bullets([*map(_marked, result.notes)]),
            bool(read_off) and [Paragraph(""), warning],
        ),
        _sites(result),
    ]  # fmt: skip


def _sites(result: Draft) -> Content:
    """Return what is proposed for site files, and what still does not fit."""
    lines: list[str] = []
    for site in result.sites:
        title = printable(site.title)
        for name, entries in site.entries.items():
            what = f"{title}, {printable(name) or 'all columns'}"
            lines += [f"{what}: {printable(f'{entry_text(e)} ({e.why})', 600)}" for e in entries]
        if not site.drafted and site.title != result.source:
            lines.append(f"{title} is written as the schema says.")
        lines += [f"{title}: {_marked(problem)}" for problem in site.problems if problem.refused]
    return bool(lines) and section("Site files", Paragraph(""), Bullets(lines))


def _coordinates(schema: Schema) -> str:
    return f"{len(schema.features)}, radius {schema.radius:.4g}"


def _marked(remark: Note) -> str:
    """Return what was remarked, marked where the table is refused because of it."""
    return f"{'! ' if remark.refused else ''}{printable(remark.sentence, 600)}"


def check_content(result: SchemaCheck) -> Content:
    """Declare how well a table fits: counts by column, and what to do."""
    source = printable(result.source)
    problems = Bullets([*map(_marked, result.problems)])
    cures = [
        f"{printable(name)}: {printable(entry_text(entry), 600)}"
        for name, entries in result.cures.items()
        for entry in entries
    ]
    return [
        render.Headline(
            "A table and its schema",
            f"{source} {'fits' if result.fits else 'does not fit'} the schema.",
        ),
        facts({
            "table": f"{source}, {result.records:,} records",
            "schema": _title(result.schema),
            "fits": "yes" if result.fits else "no",
            "warning": result.schema.warning or None,
        }),
        section("By column", _counts(result)),
        section(
            "What to do",
            Paragraph(""),
            problems if result.problems else Paragraph("Nothing to correct."),
        ),
        # A terminal gets the whole block, to paste.
        bool(cures) and on_page(section("To paste into a site file", Bullets(cures))),
    ]  # fmt: skip


def _counts(result: SchemaCheck) -> Content:
    """Return fields that are to be looked at, by column."""
    kinds = [kind for kind in _COUNTS if any(kind in fields for fields in result.counts.values())]
    concerned = {problem.column for problem in result.problems}
    refused = [problem.column for problem in result.problems if problem.refused]
    fits = (render.Cell("yes"), render.Cell("no", warn=True))
    rows = [
        (name, *(result.counts.get(name, {}).get(kind, 0) for kind in kinds), fits[name in refused])
        for name in dict.fromkeys([*result.counts, *refused])
        if name and (result.counts.get(name) or name in concerned)
    ]
    heads = [
        render.names("column", wrap="cut", width=22),
        *(render.counts(_HEADS.get(kind, kind), terminal="{:,}".format) for kind in kinds),
        render.texts("fits"),
    ]
    return bool(rows) and [Paragraph(""), render.Table("", heads, rows, fold=200)]


def schema_content(schema: Schema) -> Content:
    """Declare a schema: its columns, and what it makes of a record."""
    label, weight = schema.label, schema.weight
    classes = label and _listed(label.classes, other=label.other)
    rows = {
        "schema": _title(schema),
        "coordinates": _coordinates(schema),
        "label": label and f"{printable(label.column)}: {classes}",
        "weight": weight and f"{printable(weight.column)}, at most {weight.limit:g}",
        "hash": schema.hash,
        "confirmed by": printable(schema.confirmed_by) or "nobody",
    }
    warning = [Paragraph(""), Paragraph(schema.warning, "warning")]
    return [facts(rows), _columns(schema), bool(schema.warning) and warning]


def difference_content(a: Schema, b: Schema, files: tuple[str, str]) -> Content:
    """Declare how two schemas differ in what they make of records."""
    differing = a.differing(b)
    if not differing:
        return Paragraph("Both give the same coordinates, labels and weights.")
    rows = [row for name in differing for row in _difference(a, b, name)]
    heads = [render.Column("column", False, "cut", 18), render.Column("entry", False, "cut", 12)]
    heads += [render.texts(printable(name), wrap="fold") for name in files]
    return plain_table(heads, rows)


def _difference(a: Schema, b: Schema, name: str) -> list[list[str]]:
    if name == "order of columns":
        return [[name, "", *(", ".join(schema.used) for schema in (a, b))]]
    both = [_entries(schema, name) for schema in (a, b)]
    return [
        [printable(name), entry, *(printable(values.get(entry, "-"), 120) for values in both)]
        for entry in dict.fromkeys([*both[0], *both[1]])
        if both[0].get(entry) != both[1].get(entry)
    ]


def _entries(schema: Schema, name: str) -> Mapping[str, str]:
    part = schema.columns.get(name) or schema.roles.get(name)
    if part is None:
        return {}
    entries = part.model_dump(mode="json", exclude_defaults=True)
    return {entry: _value(value) for entry, value in entries.items() if entry not in FOR_PEOPLE}


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(schema: Schema) -> str:
    return f"{printable(schema.name) or 'without a name'}, {schema.hash[:12]}"


def _columns(schema: Schema) -> Content:
    heads = [
        render.names("column", wrap="cut", width=20),
        *map(render.texts, ("kind", "unit", "range or categories", "missing")),
        render.Column("coord."),
    ]
    rows = [
        (name, column.kind, column.unit if isinstance(column, Number) else "", _range(column),
         _missing(column), 0 if isinstance(column, LeftOut) else len(layout(name, column)))
        for name, column in schema.columns.items()
    ]  # fmt: skip
    return [Paragraph(""), plain_table(heads, rows)]


def _range(column: Column) -> str:
    if isinstance(column, Number):
        words = f"{column.range[0]:g} to {column.range[1]:g}"
        more = [column.transform] if column.transform != "none" else []
        more += [f"period {column.period:g}"] if column.period else []
        return ", ".join([words, *more])
    if isinstance(column, Date):
        words = f"{column.range[0]} to {column.range[1]}"
        return f"{words}, of the {column.period}" if column.period else words
    if isinstance(column, Category | Ordered):
        return _listed(
            column.categories, other=isinstance(column, Category) and column.other,
            between=" < " if isinstance(column, Ordered) else ", ",
        )  # fmt: skip
    return "" if isinstance(column, YesNo) else "left out"


def _listed(words: Sequence[str], *, other: bool = False, between: str = ", ") -> str:
    shown = [printable(name, 30) for name in words[:_SHOWN]]
    if len(words) > _SHOWN:
        shown.append(f"{len(words) - _SHOWN} more")
    return between.join([*shown, *(["other"] if other else [])])


def _missing(column: Column) -> str:
    if isinstance(column, LeftOut):
        return ""
    return "value" if isinstance(column.missing, Value) else column.missing
