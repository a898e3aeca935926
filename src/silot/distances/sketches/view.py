"""What is shown of sketches, of releases, and of the drift between these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ... import render
from ...data.reading import Schema
from ...federation.view import cost_content, cost_rows
from ...privacy.sketch import parts
from ...render.words import count, format_bytes, number, printable
from ..verdict import changes_table, group_rows, pairs_of_groups, verdict_rows
from ..view import distances_chart
from ..worth.view import worth_sections
from .drift import Drift, Since
from .release_file import ReleaseFile
from .result import Combined, Sketches


def sketches_content(result: Sketches) -> render.Content:
    """Declare how many records the sketches of holders tell, the guarantee and the cost."""
    columns = [render.names(), render.counts("records, about")]
    rows = [(name, result.records[name]) for name in result.names]
    return [
        render.Headline(
            "Sketches of the holders",
            f"{count(len(rows), 'holder')}, each in one differentially private release: counts of "
            f"records in {count(result.cells, 'cell')}. Results computed from them spend no more "
            "budget.",
        ),
        render.section(
            "Records of the holders",
            render.plain_table(columns, rows),
            render.facts(_sketch_rows(result), terminal=cost_rows(result)),
        ),
        cost_content(result),
    ]


def _sketch_rows(result: Sketches, party: str = "holder") -> Mapping[str, str]:
    return {
        "cells": str(result.cells),
        "guarantee": f"epsilon {result.privacy_epsilon:g}, delta {result.privacy_delta:g} for "
        f"each {party}'s release",
        "status": printable(result.status, 1000),
    }


_COLUMNS = 40
_LACKS = (
    "No record, and no value of a record.",
    "No exact count: the number of records is sent only with noise.",
    "No column, category or class beyond those that the public schema and the options name.",
    "Nothing about the ledger: neither other releases nor the remaining budget.",
)
_STALE = (
    "this is an answer that the site's ledger had stored, about earlier records. "
    "A release of newer records needs another period."
)


def release_content(result: ReleaseFile) -> render.Content:
    """Declare what is inside a release, in facts and sentences."""
    blank, title = render.Paragraph(""), f"What is in {printable(result.file)}"
    signature = "valid: nothing was changed; a signature does not show whose key it is"
    who = {
        "written by": printable(result.name),
        "written": f"{result.written[:19].replace('T', ' ')} UTC",
        "period": result.terms.period or "none named",
        "key": result.fingerprint,
        "signature": f"a trusted key of {result.trusted}" if result.trusted else signature,
        "size": format_bytes(result.size),
    }
    words = "The public contract by which the table was read, word for word as in the file."
    schema = result.schema
    return [
        render.Headline(title, printable(result.sealed.discloses, 1000)),
        _warned([result]),
        not result.fresh and render.Paragraph(_STALE, "alert"),
        render.section("Who wrote it", render.facts(who), render.Paragraph(_verify(result)), blank),
        render.section(
            "What it protects", render.facts(_guarantee(result)), render.Paragraph(_meaning(result))
        ),
        render.section(
            "Which numbers travel", blank, render.facts(_what(result)), blank, _numbers(result)
        ),
        render.section(
            "What it does not contain",
            render.on_terminal(blank, render.Paragraph("What it does not contain:")),
            render.Bullets(_LACKS),
        ),
        schema is not None
        and render.section("The schema", render.Paragraph(words, "small"), blank, _columns(schema)),
    ]


def combined_content(result: Combined) -> render.Content:
    """Declare who released what, what the sites are worth, and how far apart they are."""
    sketches, names = result.sketches, sorted(result.sketches.names)
    rows = _sketch_rows(sketches, "site")
    return [
        render.Headline(
            "Results of all releases together",
            f"{count(len(names), 'site')}, each by one file with a differentially private sketch. "
            "The sites received no other question.",
        ),
        _warned(sketches.releases),
        render.section(
            "Releases",
            _releases(sketches.releases),
            render.on_page(render.facts({"guarantee": rows["guarantee"], **rows})),
        ),
        result.test is not None
        and render.section(
            "Groups",
            render.facts(group_rows(result.test, names)),
            render.on_page(pairs_of_groups(result.test, names)),
        ),
        render.Paragraph(""),
        worth_sections(result.values),
        cost_content(sketches),
    ]


def _releases(releases: Sequence[ReleaseFile]) -> render.Table:
    """Return who released what; fingerprints whole where there is room."""
    nobody = "nobody" if any(release.trusted for release in releases) else ""

    def key(release: ReleaseFile) -> render.Cell:
        return render.Cell(release.fingerprint, warn=not release.trusted)

    def trusted(release: ReleaseFile) -> render.Cell:
        return render.Cell(release.trusted or nobody, warn=not release.trusted)

    caption = "" if nobody else (
        "The signatures are valid: the files were not changed. Only keys show who "
        "wrote them: compare fingerprints, or give --keys."
    )  # fmt: skip
    return render.table(
        caption,
        releases,
        render.names("site", of="name"),
        render.texts("period", of=lambda release: release.terms.period or ""),
        render.texts("written (UTC)", of=lambda release: release.written[:16].replace("T", " ")),
        render.texts("key", of=key, terminal=lambda key: f"{key[:19]}…"),
        render.texts("trusted as", of=trusted),
        filled=True,
    )


def _what(result: ReleaseFile) -> dict[str, str]:
    terms, schema, named, public = result.terms, result.schema, "none", ""
    if schema is not None:
        named = f"{printable(schema.name or 'without a name')}, {schema.hash[:16]}"
        named += f", confirmed by {printable(schema.confirmed_by)}" if schema.confirmed_by else ""
    if terms.public:
        public = f"{terms.public_records} records, {terms.public[:16]}"
    classes = ", ".join(printable(name, 40) for name in terms.classes or ())
    return {
        "schema": named,
        "columns": str(result.question.centres.shape[1]),
        "classes": classes or "none: labels were not used",
        "public records": public or "none: an assumed normal distribution stands for them",
        "question": result.sealed.answers[:16],
    }


def _guarantee(result: ReleaseFile) -> dict[str, str]:
    question = result.question
    return {
        "mechanism": f"{question.mechanism}: new random noise on every number, without a seed",
        "epsilon": f"{result.epsilon:.4g} (mu {result.mu:.4g}; releases of a site add in squares)",
        "delta": f"{result.terms.privacy_delta:g}",
        "sensitivity": f"{question.sensitivity:.4g} units of the grid for one record; noise of "
        f"{question.sensitivity / result.mu:.4g} of them (one deviation)",
    }


def _numbers(result: ReleaseFile) -> render.Table:
    cells, dimension = result.question.centres.shape
    noise = result.question.sensitivity / result.mu
    a, b, q = (number(noise / part) for part in parts(result.question.resolution))
    classes = len(result.terms.classes) + 1 if result.terms.classes else 1
    by = f", in each of {classes} classes" if classes > 1 else ""
    rows = [
        (classes * cells, f"records in each of {cells} public cells{by}", f"{a} records"),
        (dimension, "sum of the records' offsets from their cells, clipped",
         f"{b} clipping lengths"),
        (1, "sum of their squared offsets, clipped", f"{q} squares of a clipping length"),
    ]  # fmt: skip
    titles = ("what each says", "noise (one deviation)")
    return render.plain_table([render.Column("numbers"), *map(render.texts, titles)], rows)


def _columns(schema: Schema) -> render.Table:
    private = {entry.partition(".")[0] for entry in schema.read_off} if schema.warning else ()
    origin = (render.Cell("public"), render.Cell("read off private data", warn=True))
    rows = [
        (name, column.kind, _range(column), origin[name in private])
        for name, column in list(schema.columns.items())[:_COLUMNS]
    ]
    more = len(schema.columns) - _COLUMNS
    caption = f"{count(more, 'column')} more are left out here." if more > 0 else ""
    titles = ("kind", "range or categories", "origin")
    columns = [render.names("column", 40), *map(render.texts, titles)]
    return render.Table(caption, columns, rows, fold=_COLUMNS)


def _range(column: Any) -> str:
    if categories := getattr(column, "categories", ()):
        shown = ", ".join(printable(str(name), 20) for name in categories[:4])
        return shown + (f" and {len(categories) - 4} more" if len(categories) > 4 else "")
    if not hasattr(column, "range"):
        return "left out" if column.kind in ("text", "identifier") else ""
    unit = printable(getattr(column, "unit", ""), 20)
    return f"{column.range[0]} to {column.range[1]} {unit}".strip()


def _meaning(result: ReleaseFile) -> str:
    """Return in one sentence what epsilon means."""
    epsilon = result.epsilon
    most = math.exp(epsilon) / (1.0 + math.exp(epsilon)) if epsilon < 50 else 1.0
    return (
        f"What epsilon {epsilon:.3g} means: somebody who knows everything else, and gives even "
        f"odds to one person's record being in the data, is at most {100 * most:.0f} % sure after "
        f"reading the file (except with probability {result.terms.privacy_delta:g}). Whoever has "
        "several records in the data, or is in several releases, is protected less."
    )


def _verify(result: ReleaseFile) -> str:
    return (
        "To verify the key: compare its fingerprint with the site by telephone, or "
        "put its NAME.pub into a folder for silot release show --keys FOLDER."
        + ("" if result.trusted else " Until then, the name is only a claim of the file.")
    )


def _warned(releases: Sequence[ReleaseFile]) -> list[render.Paragraph]:
    """Return what releases warn of, each warning once."""
    warnings = dict.fromkeys(text for release in releases for text in release.warnings)
    return [render.Paragraph(printable(text, 600), "alert") for text in warnings]


def drift_content(result: Drift) -> render.Content:
    """Declare the verdict since each period, the columns that changed, and what follows."""
    title = f"{printable(result.name)}, {printable(result.period)}"
    periods = render.table(
        title,
        result.since,
        render.names("since", of="period"),
        render.numbers("distance", of="distance.value"),
        render.digits("p", 3, of="test.p_value"),
        render.texts("", of=lambda since: render.Cell(
            "drift" if since.drifted else since.test.verdict, warn=since.drifted)),
    )  # fmt: skip
    chart = distances_chart(
        "Distance to each earlier release",
        {since.period: since.distance for since in result.since},
    )
    return [
        render.Headline(title, f"{printable(result.status[:1].upper() + result.status[1:], 600)}."),
        _warned(result.sketches.releases),
        render.section("Since each release", chart, periods),
        render.Paragraph(
            "The p-value is for the difference in all columns and cells together. There "
            "is an alarm at 5 % or less, divided by the number of earlier releases.",
            "small",
        ),
        render.on_page([_since(since) for since in result.since[:-1]]),
        _since(result.since[-1]),
        render.on_terminal(render.facts({"status": result.status})),
        cost_content(result.sketches),
    ]


def _since(since: Since) -> render.Content:
    return render.section(
        f"Since {printable(since.period)}",
        render.Paragraph(""),
        render.facts(verdict_rows(since.test)),
        changes_table(since.test),
    )
