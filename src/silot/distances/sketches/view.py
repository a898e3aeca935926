"""What is shown of sketches, of releases, and of the drift between these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ... import render
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
    holders = count(len(result.names), "holder")
    rows = [(name, result.records[name]) for name in result.names]
    return [
        render.Headline(
            "Sketches of the holders",
            f"{holders}, each in one differentially private release: counts of records in "
            f"{count(result.cells, 'cell')}. Results computed from them spend no more budget.",
        ),
        render.section(
            "Records of the holders",
            render.plain_table([render.names(), render.counts("records, about")], rows),
            render.facts(sketch_rows(result), terminal=cost_rows(result)),
        ),
        cost_content(result),
    ]


def sketch_rows(result: Sketches) -> Mapping[str, str]:
    """Return what protects the records behind sketches, and what kind of result they are."""
    return {
        "cells": str(result.cells),
        "guarantee": f"epsilon {result.privacy_epsilon:g}, delta {result.privacy_delta:g} for "
        "each holder's release",
        "status": result.status,
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
    blank = render.Paragraph("")
    return [
        render.Headline(
            f"What is in {printable(result.file)}", printable(result.sealed.discloses, 1000)
        ),
        [*warned([result]), *([] if result.fresh else [render.Paragraph(_STALE, "alert")])],
        render.section(
            "Who wrote it", render.facts(_who(result)), render.Paragraph(_verify(result)), blank
        ),
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
        render.section(
            "The schema",
            render.Paragraph(
                "The public contract by which the table was read, word for word as in the file.",
                "small",
            ),
            blank,
            _columns(result),
        )
        if result.schema
        else None,
    ]


def combined_content(result: Combined) -> render.Content:
    """Declare who released what, what the sites are worth, and how far apart they are."""
    sketches = result.sketches
    names = sorted(sketches.names)
    groups = {} if result.test is None else group_rows(result.test, names)
    return [
        render.Headline(
            "Results of all releases together",
            f"{count(len(sketches.names), 'site')}, each by one file with a differentially "
            "private sketch. The sites received no other question.",
        ),
        warned(sketches.releases),
        render.section(
            "Releases",
            _releases(sketches.releases),
            render.on_page(
                render.facts(
                    {
                        "guarantee": sketch_rows(sketches)["guarantee"].replace(
                            "each holder", "each site"
                        ),
                        "cells": str(sketches.cells),
                        "status": printable(sketches.status, 1000),
                    }
                )
            ),
        ),
        render.section(
            "Groups", render.facts(groups), render.on_page(pairs_of_groups(result.test, names))
        )
        if result.test is not None
        else None,
        render.Paragraph(""),
        worth_sections(result.values),
        cost_content(sketches),
    ]


def _releases(releases: Sequence[ReleaseFile]) -> render.Table:
    """Return who released what; fingerprints whole where there is room."""
    is_trusted = any(release.trusted for release in releases)
    rows = [
        (
            release.name,
            release.terms.period or "",
            release.written[:16].replace("T", " "),
            render.Cell(release.fingerprint, warn=not release.trusted),
            render.Cell(
                (release.trusted or "nobody") if is_trusted else "", warn=not release.trusted
            ),
        )
        for release in releases
    ]
    columns = [
        render.names("site"),
        *map(render.texts, ("period", "written (UTC)")),
        render.texts("key", terminal=lambda key: f"{key[:19]}…"),
        render.texts("trusted as"),
    ]
    caption = "" if is_trusted else (
        "The signatures are valid: the files were not changed. Only keys show who "
        "wrote them: compare fingerprints, or give --keys."
    )  # fmt: skip
    return render.Table(caption, columns, rows, filled=True)


def _who(result: ReleaseFile) -> dict[str, str]:
    trusted = f"a trusted key of {result.trusted}" if result.trusted else (
        "valid: nothing was changed; a signature does not show whose key it is"
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
        "classes": classes or "none: labels were not used",
        "public records": public
        if terms.public
        else "none: an assumed normal distribution stands for them",
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
    question = result.question
    cells, dimension = question.centres.shape
    a, b, q = parts(question.resolution)
    noise = question.sensitivity / result.mu
    classes = len(result.terms.classes) + 1 if result.terms.classes else 1
    by = f", in each of {classes} classes" if classes > 1 else ""
    rows = [
        (classes * cells, f"records in each of {cells} public cells{by}",
         f"{number(noise / a)} records"),
        (dimension, "sum of the records' offsets from their cells, clipped",
         f"{number(noise / b)} clipping lengths"),
        (1, "sum of their squared offsets, clipped",
         f"{number(noise / q)} squares of a clipping length"),
    ]  # fmt: skip
    columns = [
        render.Column("numbers"),
        render.texts("what each says"),
        render.texts("noise (one deviation)"),
    ]
    return render.plain_table(columns, rows)


def _columns(result: ReleaseFile) -> render.Table:
    schema = result.schema
    assert schema is not None
    private = {entry.partition(".")[0] for entry in schema.read_off} if schema.warning else ()
    rows = [
        (
            name,
            column.kind,
            _range(column),
            render.Cell(
                "read off private data" if name in private else "public", warn=name in private
            ),
        )
        for name, column in list(schema.columns.items())[:_COLUMNS]
    ]
    more = len(schema.columns) - _COLUMNS
    caption = f"{count(more, 'column')} more are left out here." if more > 0 else ""
    columns = [render.names("column", 40)]
    columns += map(render.texts, ("kind", "range or categories", "origin"))
    return render.Table(caption, columns, rows, fold=_COLUMNS)


def _range(column: object) -> str:
    categories = getattr(column, "categories", None)
    if categories:
        shown = ", ".join(printable(str(name), 20) for name in categories[:4])
        return shown + (f" and {len(categories) - 4} more" if len(categories) > 4 else "")
    ends = getattr(column, "range", None)
    if ends is None:
        return "left out" if getattr(column, "kind", "") in ("text", "identifier") else ""
    unit = printable(str(getattr(column, "unit", "")), 20)
    return f"{ends[0]} to {ends[1]} {unit}".strip()


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


def warned(releases: Sequence[ReleaseFile]) -> list[render.Paragraph]:
    """Return what releases warn of, each warning once."""
    warnings = dict.fromkeys(text for release in releases for text in release.warnings)
    return [render.Paragraph(printable(text, 600), "alert") for text in warnings]


def drift_content(result: Drift) -> render.Content:
    """Declare the verdict since each period, the columns that changed, and what follows."""
    title = f"{printable(result.name)}, {printable(result.period)}"
    return [
        render.Headline(title, f"{printable(result.status[:1].upper() + result.status[1:], 600)}."),
        warned(result.sketches.releases),
        render.section(
            "Since each release",
            distances_chart(
                "Distance to each earlier release",
                {since.period: since.distance for since in result.since},
            ),
            _periods(result, title),
        ),
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


def _periods(result: Drift, title: str) -> render.Table:
    rows = [
        (
            since.period,
            since.distance.value,
            since.test.p_value,
            render.Cell("drift" if since.drifted else since.test.verdict, warn=since.drifted),
        )
        for since in result.since
    ]
    columns = [
        render.names("since"),
        render.numbers("distance"),
        render.digits("p", 3),
        render.texts(""),
    ]
    return render.Table(title, columns, rows)
