"""How schemas, drafts and checks are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...render import (
    Block,
    Bullets,
    Cell,
    Facts,
    Heading,
    Paragraph,
    Table,
    plain_table,
    textual,
)
from ...render import Column as Head
from ...render.words import printable
from ..column_kinds import Category, Column, Date, LeftOut, Number, Ordered, Value, YesNo
from ..coordinates import coordinate_names
from ..fit import Problem
from ..reading import Schema
from .proposals import Note
from .result import Draft, SchemaCheck

# Categories that are shown in a line.
_SHOWN = 6
_COUNTS = ("missing", "unread", "fraction", "unknown", "alike", "other", "below", "above")
_HEADS = {"below": "low", "above": "high", "fraction": "frac."}


def draft_sections(result: Draft) -> list[Block]:
    """A draft: the schema, and what a person should look at."""
    return [_draft_facts(result), *_columns(result.schema), *_after_draft(result)]


def draft_page(result: Draft) -> list[Block]:
    """The page of a draft."""
    return [
        Heading("A draft of a schema", level=1),
        Paragraph(
            "Proposed from the records of one site; it stays there until a person has replaced "
            "what was read off them.",
            "lead",
        ),
        _draft_facts(result),
        Heading("Columns", "columns", "Columns"),
        *_columns(result.schema),
        Heading("What to look at", "notes", "What to look at"),
        *_after_draft(result),
    ]


def _draft_facts(result: Draft) -> Facts:
    kinds = [each.kind for each in result.schema.columns.values()]
    out = sum(kind in ("text", "identifier") for kind in kinds)
    rows = {
        "records": f"{result.records:,} of {printable(result.source)}",
        "columns": f"{len(kinds)}, {out} of them left out",
        "coordinates": f"{len(result.schema.features)}, radius {result.schema.radius:.4g}",
        "reads this table": "yes" if result.readable else "not before what is marked ! is mended",
    }
    return Facts(list(rows.items()))


def _after_draft(result: Draft) -> list[Block]:
    blocks: list[Block] = [Paragraph("")]
    if result.notes:
        blocks.append(Bullets([_note(note) for note in result.notes]))
    read_off = result.schema.read_off
    if read_off:
        blocks += [
            Paragraph(""),
            Paragraph(
                f"{len(read_off)} entries were read off these records and may tell about them: "
                f"{', '.join(map(printable, read_off))}. Replace them by public knowledge, then "
                "put a name in confirmed_by.",
                "warning",
            ),
        ]
    return blocks


def _note(note: Note) -> str:
    return f"{'! ' if note.refused else ''}{printable(note.sentence, 400)}"


def check_sections(result: SchemaCheck) -> list[Block]:
    """How well a table fits: counts by column, and what to do."""
    return [_check_facts(result), *_counts(result), *_problems(result)]


def check_page(result: SchemaCheck) -> list[Block]:
    """The page of a check."""
    fits = "fits" if result.fits else "does not fit"
    return [
        Heading("A table and its schema", level=1),
        Paragraph(f"{printable(result.source)} {fits} the schema.", "lead"),
        _check_facts(result),
        Heading("By column", "columns", "By column"),
        *_counts(result),
        Heading("What to do", "problems", "What to do"),
        *_problems(result),
    ]


def _check_facts(result: SchemaCheck) -> Facts:
    rows = {
        "table": f"{printable(result.source)}, {result.records:,} records",
        "schema": _title(result.schema),
        "fits": "yes" if result.fits else "no",
    }
    if result.schema.warning:
        rows["warning"] = result.schema.warning
    return Facts(list(rows.items()))


def _counts(result: SchemaCheck) -> list[Block]:
    """Fields that are to be looked at, by column."""
    kinds = [kind for kind in _COUNTS if any(kind in each for each in result.counts.values())]
    refused = {problem.column for problem in result.problems if problem.refused}
    names = [name for name in {**dict.fromkeys(result.counts), **dict.fromkeys(refused)} if name]
    told = {problem.column for problem in result.problems}
    rows = [
        [
            Cell(printable(name)),
            *(Cell(f"{result.counts.get(name, {}).get(kind, 0):,}") for kind in kinds),
            Cell("no" if name in refused else "yes", warn=name in refused),
        ]
        for name in names
        if result.counts.get(name) or name in told
    ]
    if not rows:
        return []
    heads = [Head("column", False, "cut", 22), *(Head(_HEADS.get(k, k)) for k in kinds)]
    return [Paragraph(""), Table("", [*heads, textual("fits")], rows, fold=200)]


def _problems(result: SchemaCheck) -> list[Block]:
    if not result.problems:
        return [Paragraph(""), Paragraph("Nothing is to be said of it.")]
    return [Paragraph(""), Bullets([_problem(each) for each in result.problems])]


def _problem(problem: Problem) -> str:
    return f"{'! ' if problem.refused else ''}{printable(problem.sentence, 600)}"


def schema_sections(schema: Schema) -> list[Block]:
    """A schema: its columns, and what it makes of a record."""
    rows: dict[str, str] = {
        "schema": _title(schema),
        "coordinates": f"{len(schema.features)}, radius {schema.radius:.4g}",
    }
    if schema.label is not None:
        classes = _listed(schema.label.classes, other=schema.label.other)
        rows["label"] = f"{printable(schema.label.column)}: {classes}"
    if schema.weight is not None:
        rows["weight"] = f"{printable(schema.weight.column)}, at most {schema.weight.limit:g}"
    rows["hash"] = schema.hash
    rows["confirmed by"] = printable(schema.confirmed_by) or "nobody"
    blocks: list[Block] = [Facts(list(rows.items())), *_columns(schema)]
    if schema.warning:
        blocks += [Paragraph(""), Paragraph(schema.warning, "warning")]
    return blocks


def difference_sections(a: Schema, b: Schema, names: tuple[str, str]) -> list[Block]:
    """How two schemas differ in what they make of records."""
    differing = a.differing(b)
    if not differing:
        return [Paragraph("Both give the same coordinates, labels and weights.")]
    rows = [row for name in differing for row in _difference(a, b, name)]
    heads = [Head("column", False, "cut", 18), Head("entry", False, "cut", 12)]
    return [plain_table([*heads, *(textual(printable(name), "fold") for name in names)], rows)]


def _difference(a: Schema, b: Schema, name: str) -> list[list[str]]:
    if name == "order of columns":
        return [[name, "", *(", ".join(each.used) for each in (a, b))]]
    both = [_entries(each, name) for each in (a, b)]
    entries = dict.fromkeys([*both[0], *both[1]])
    return [
        [printable(name), entry, *(printable(each.get(entry, "-"), 120) for each in both)]
        for entry in entries
        if both[0].get(entry) != both[1].get(entry)
    ]


def _entries(schema: Schema, name: str) -> Mapping[str, str]:
    part = {"label": schema.label, "weight": schema.weight}.get(name)
    if part is None or name in schema.columns:
        part = schema.columns.get(name)
    if part is None:
        return {}
    shown = part.model_dump(mode="json", exclude_defaults=True)
    left = ("about", "typical", "substance")
    return {k: _value(v) for k, v in shown.items() if k not in left}


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(schema: Schema) -> str:
    return f"{printable(schema.name) or 'without a name'}, {schema.hash[:12]}"


def _columns(schema: Schema) -> list[Block]:
    heads = [
        Head("column", False, "cut", 20), textual("kind"), textual("unit"),
        textual("range or categories"), textual("missing"), Head("coord."),
    ]  # fmt: skip
    rows = [
        [
            printable(name), each.kind, each.unit if isinstance(each, Number) else "",
            _range(each), _missing(each), str(_width(name, each)),
        ]
        for name, each in schema.columns.items()
    ]  # fmt: skip
    return [Paragraph(""), plain_table(heads, rows)]


def _width(name: str, column: Column) -> int:
    return 0 if isinstance(column, LeftOut) else len(coordinate_names(name, column))


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


def _listed(names: Sequence[str], *, other: bool = False, between: str = ", ") -> str:
    shown = [printable(name, 30) for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more")
    return between.join([*shown, *(["other"] if other else [])])


def _missing(column: Column) -> str:
    if isinstance(column, LeftOut):
        return ""
    return "value" if isinstance(column.missing, Value) else column.missing
