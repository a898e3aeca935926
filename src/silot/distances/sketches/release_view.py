"""Releases that came in files: what is inside one, for a data protection officer, and all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...federation.view import bill_sections, facts
from ...privacy.sketch import parts
from ...render import (
    Block,
    Bullets,
    Cell,
    Column,
    Heading,
    Paragraph,
    Table,
    plain_table,
    textual,
)
from ...render.words import count, format_bytes, listed, number, printable
from ..worth.view import value_sections, worth_blocks
from .release_file import ReleaseFile
from .result import Combined

_COLUMNS = 40
_LACKS = (
    "No record, and no value of a record.",
    "No exact count: how many records there are is told with noise alone.",
    "No column, category or class that the public schema and the options do not name.",
    "Nothing of the ledger: what else the site released, and what it has left.",
)


def release_sections(result: ReleaseFile) -> list[Block]:
    """What is inside a release, in facts and sentences."""
    blocks: list[Block] = [
        *(Paragraph(f"Warning: {printable(text, 600)}", "warning") for text in _warnings(result)),
        facts({**_who(result), **_what(result), **_guarantee(result)}),
        Paragraph(""),
        _numbers(result),
    ]
    if result.schema is not None:
        blocks += [Paragraph(""), _columns(result)]
    return [
        *blocks,
        Paragraph(""),
        Paragraph("What it does not contain:"),
        Bullets(_LACKS),
        Paragraph(""),
        Paragraph(_meaning(result)),
        Paragraph(_verify(result)),
    ]


def release_page(result: ReleaseFile) -> list[Block]:
    """The same on one page."""
    return [
        Heading(f"What is in {printable(result.file)}", level=1),
        Paragraph(printable(result.sealed.discloses, 1000), "lead"),
        *(Paragraph(printable(text, 600), "alert") for text in _warnings(result)),
        Heading("Who wrote it", "who", "Who"),
        facts(_who(result)),
        Paragraph(_verify(result), "small"),
        Heading("What it protects", "guarantee", "Guarantee"),
        Paragraph(_meaning(result)),
        facts(_guarantee(result)),
        Heading("Which numbers travel", "numbers", "Numbers"),
        facts(_what(result)),
        _numbers(result),
        Heading("What it does not contain", "not", "What it does not contain"),
        Bullets(_LACKS),
        *_schema_blocks(result),
    ]


def combined_sections(result: Combined) -> list[Block]:
    """Who released what, what the sites are worth, and how far apart they are."""
    sketches = result.sketches
    blocks: list[Block] = [
        *(Paragraph(f"Warning: {printable(text, 600)}") for text in _shared_warnings(result)),
        _releases(sketches.releases),
    ]
    if result.groups:
        blocks.append(facts({"groups": "; ".join(_groups(result))}))
    return [*blocks, Paragraph(""), *value_sections(result.values)]


def combined_page(result: Combined) -> list[Block]:
    """The page of the same."""
    sketches = result.sketches
    blocks: list[Block] = [
        Heading("What the releases tell together", level=1),
        Paragraph(
            f"{count(len(sketches.names), 'site')}, each by one file: a differentially private "
            "sketch that it wrote alone. Nobody asked it anything more.",
            "lead",
        ),
        *(Paragraph(printable(text, 600), "alert") for text in _shared_warnings(result)),
        Heading("Releases", "releases", "Releases"),
        _releases(sketches.releases, 39),
        facts({
            "guarantee": f"epsilon {sketches.privacy_epsilon:g}, delta "
            f"{sketches.privacy_delta:g} for each site's release",
            "cells": str(sketches.cells),
            "status": printable(sketches.status, 1000),
        }),
    ]  # fmt: skip
    if result.groups:
        blocks += [Heading("Groups", "groups", "Groups"), Bullets(_groups(result))]
    blocks += worth_blocks(result.values)
    return [*blocks, *bill_sections([("", sketches)])]


def _releases(releases: Sequence[ReleaseFile], shown: int = 19) -> Table:
    """Who released what; fingerprints whole where there is room."""
    titles = ("site", "period", "written (UTC)", "key", "trusted as")
    trusted = any(each.trusted for each in releases)
    rows = [
        [
            Cell(printable(each.name)),
            Cell(each.terms.period or ""),
            Cell(each.written[:16].replace("T", " ")),
            Cell(each.fingerprint[:shown] + "…" * (shown < 39), warn=not each.trusted),
            Cell(each.trusted or "nobody", warn=not each.trusted),
        ][: 5 if trusted else 4]
        for each in releases
    ]
    caption = "" if trusted else (
        "Signatures hold: the files are as they were written. By whom, keys alone can say: compare "
        "fingerprints, or give --keys."
    )  # fmt: skip
    return Table(caption, [textual(title) for title in titles[: 5 if trusted else 4]], rows).filled


def _shared_warnings(result: Combined) -> list[str]:
    return list(dict.fromkeys(text for each in result.sketches.releases for text in each.warnings))


def _groups(result: Combined) -> list[str]:
    members: dict[int, list[str]] = {}
    for name, group in sorted(result.groups.items()):
        members.setdefault(group, []).append(printable(name))
    return [listed(names, most=len(names)) for _, names in sorted(members.items())]


def _warnings(result: ReleaseFile) -> list[str]:
    stale = [] if result.fresh else [
        "this is the answer that the site's ledger had stored: of the records of then, not of "
        "today. A release of newer records takes another period."
    ]  # fmt: skip
    return [*result.warnings, *stale]


def _who(result: ReleaseFile) -> dict[str, str]:
    trusted = f"a trusted key of {result.trusted}" if result.trusted else (
        "valid: not a byte was changed since; whose key it is, a signature cannot say"
    )  # fmt: skip
    return {
        "written by": printable(result.name),
        "written": f"{result.written[:19].replace('T', ' ')} UTC",
        "period": result.terms.period or "none named",
        "key": result.fingerprint,
        "signature": trusted,
        "size": format_bytes(result.size),
    }


def _what(result: ReleaseFile) -> dict[str, str]:
    terms, schema = result.terms, result.schema
    named = "none" if schema is None else printable(schema.name or "without a name")
    if schema is not None:
        named += f", {schema.hash[:16]}"
        named += f", confirmed by {printable(schema.confirmed_by)}" if schema.confirmed_by else ""
    public = f"{terms.public_records} records, {terms.public[:16]}"
    classes = ", ".join(printable(name, 40) for name in terms.classes or ())
    return {
        "schema": named,
        "columns": str(result.question.centres.shape[1]),
        "classes": classes or "none: labels were not looked at",
        "public records": public if terms.public else "none: an assumed normal law stands for them",
        "question": result.sealed.answers[:16],
    }


def _guarantee(result: ReleaseFile) -> dict[str, str]:
    asked = result.question
    return {
        "mechanism": f"{asked.mechanism}: noise on every number, drawn anew, without a seed",
        "epsilon": f"{result.epsilon:.4g} (mu {result.mu:.4g}; releases of a site add in squares)",
        "delta": f"{result.terms.privacy_delta:g}",
        "sensitivity": f"{asked.sensitivity:.4g} units of the grid for one record; noise of "
        f"{asked.sensitivity / result.mu:.4g} of them (one deviation)",
    }


def _numbers(result: ReleaseFile) -> Table:
    asked = result.question
    cells, dimension = asked.centres.shape
    a, b, q = parts(asked.resolution)
    noise = asked.sensitivity / result.mu
    classes = len(result.terms.classes) + 1 if result.terms.classes else 1
    by = f", in each of {classes} classes" if classes > 1 else ""
    rows = [
        [str(classes * cells), f"records in each of {cells} public cells{by}",
         f"{number(noise / a)} records"],
        [str(dimension), "sum of the records' offsets from their cells, clipped",
         f"{number(noise / b)} clipping lengths"],
        ["1", "sum of their squared offsets, clipped",
         f"{number(noise / q)} squares of a clipping length"],
    ]  # fmt: skip
    columns = [Column("numbers"), textual("what each says"), textual("noise (one deviation)")]
    return plain_table(columns, rows)


def _columns(result: ReleaseFile) -> Table:
    schema = result.schema
    assert schema is not None
    read_off = {entry.partition(".")[0] for entry in schema.read_off}
    warn = bool(schema.warning)
    rows = [
        [
            Cell(printable(name, 40)),
            Cell(each.kind),
            Cell(_range(each)),
            Cell("read off private data" if name in read_off and warn else "public",
                 warn=name in read_off and warn),
        ]
        for name, each in list(schema.columns.items())[:_COLUMNS]
    ]  # fmt: skip
    more = len(schema.columns) - _COLUMNS
    caption = f"{count(more, 'column')} more are left out here." if more > 0 else ""
    titles = ("column", "kind", "range or categories", "where that is from")
    return Table(caption, [textual(title) for title in titles], rows, fold=_COLUMNS)


def _range(column: object) -> str:
    categories = getattr(column, "categories", None)
    if categories:
        shown = ", ".join(printable(str(each), 20) for each in categories[:4])
        return shown + (f" and {len(categories) - 4} more" if len(categories) > 4 else "")
    ends = getattr(column, "range", None)
    if ends is None:
        return "left out" if getattr(column, "kind", "") in ("text", "identifier") else ""
    unit = printable(str(getattr(column, "unit", "")), 20)
    return f"{ends[0]} to {ends[1]} {unit}".strip()


def _schema_blocks(result: ReleaseFile) -> list[Block]:
    if result.schema is None:
        return []
    words = "The public contract by which the table was read; it is in the file, word for word."
    return [Heading("The schema", "schema", "Schema"), Paragraph(words), _columns(result)]


def _meaning(result: ReleaseFile) -> str:
    """Epsilon in one sentence."""
    epsilon = result.epsilon
    most = math.exp(epsilon) / (1.0 + math.exp(epsilon)) if epsilon < 50 else 1.0
    return (
        f"What epsilon {epsilon:.3g} means: somebody who knows everything but whether one person's "
        f"record is in the data, and holds that for even odds, is at most {100 * most:.0f} % sure "
        f"after reading the file (but for a chance of {result.terms.privacy_delta:g}). Whoever has "
        "several records in the data, or is in several releases, is protected less."
    )


def _verify(result: ReleaseFile) -> str:
    return (
        "To verify: read the fingerprint of the key to the site by telephone, or put its NAME.pub "
        "into a folder and give that to silot release show --keys FOLDER."
        + ("" if result.trusted else " Until then the name is only what the file says of itself.")
    )
