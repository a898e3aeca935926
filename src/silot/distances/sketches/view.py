"""What is shown of sketches, of releases, and of the drift between these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ... import render
from ...federation.view import bill_rows, cost_content
from ...privacy.sketch import parts
from ...render.words import count, format_bytes, number, printable
from ..verdict import changes_table, group_rows, pairs_of_groups, verdict_rows
from ..worth.view import value_content, worth_sections
from .drift import Drift
from .release_file import ReleaseFile
from .result import Combined, Sketches


def sketches_content(result: Sketches) -> render.Content:
    """Declare how many records the sketches of holders tell, the guarantee and the bill."""
    holders = count(len(result.names), "holder")
    rows = [(name, result.records[name]) for name in result.names]
    return [
        render.Headline(
            "Sketches of the holders",
            f"{holders}, each in one differentially private release: counts of records in "
            f"{count(result.cells, 'cell')}. What is computed from them spends nothing more.",
        ),
        render.section(
            "Records of the holders",
            "records",
            render.plain_table([render.names(), render.counts("records, about")], rows),
            render.facts(sketch_rows(result), terminal=bill_rows(result)),
            link="Records",
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
    "No exact count: how many records there are is told with noise alone.",
    "No column, category or class that the public schema and the options do not name.",
    "Nothing of the ledger: what else the site released, and what it has left.",
)
_STALE = (
    "this is the answer that the site's ledger had stored: of the records of then, not of "
    "today. A release of newer records takes another period."
)


def release_content(result: ReleaseFile) -> render.Content:
    """Declare what is inside a release, in facts and sentences."""
    who, what, guarantee = _who(result), _what(result), _guarantee(result)
    numbers = _numbers(result)
    blank, columns = render.Paragraph(""), None if result.schema is None else _columns(result)
    return [
        render.Headline(
            f"What is in {printable(result.file)}", printable(result.sealed.discloses, 1000)
        ),
        [*warned([result]), *([] if result.fresh else [render.Paragraph(_STALE, "alert")])],
        render.on_terminal(
            render.facts({**who, **what, **guarantee}),
            [blank, numbers],
            [blank, columns] if columns else None,
            [blank, render.Paragraph("What it does not contain:"), render.Bullets(_LACKS)],
            [blank, render.Paragraph(_meaning(result)), render.Paragraph(_verify(result))],
        ),
        render.on_page(
            render.section(
                "Who wrote it",
                "who",
                render.facts(who),
                render.Paragraph(_verify(result), "small"),
                link="Who",
            ),
            render.section(
                "What it protects",
                "guarantee",
                render.Paragraph(_meaning(result)),
                render.facts(guarantee),
                link="Guarantee",
            ),
            render.section(
                "Which numbers travel", "numbers", render.facts(what), numbers, link="Numbers"
            ),
            render.section("What it does not contain", "not", render.Bullets(_LACKS)),
            render.section(
                "The schema",
                "schema",
                render.Paragraph(
                    "The public contract by which the table was read; it is in the file, word for "
                    "word."
                ),
                columns,
                link="Schema",
            )
            if columns
            else None,
        ),
    ]


def combined_content(result: Combined) -> render.Content:
    """Declare who released what, what the sites are worth, and how far apart they are."""
    sketches = result.sketches
    names = sorted(sketches.names)
    groups = {} if result.verdict is None else group_rows(result.verdict, names)
    return [
        render.Headline(
            "What the releases tell together",
            f"{count(len(sketches.names), 'site')}, each by one file: a differentially private "
            "sketch that it wrote alone. Nobody asked it anything more.",
        ),
        warned(sketches.releases),
        render.section(
            "Releases",
            "releases",
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
            "Groups",
            "groups",
            render.facts(groups),
            render.on_page(pairs_of_groups(result.verdict, names)),
        )
        if result.verdict is not None
        else None,
        render.on_terminal(
            render.Paragraph(""),
            value_content(result.values),
        ),
        render.on_page(worth_sections(result.values)),
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
        "Signatures hold: the files are as they were written. By whom, keys alone can say: compare "
        "fingerprints, or give --keys."
    )  # fmt: skip
    return render.Table(caption, columns, rows, filled=True)


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
    question = result.question
    return {
        "mechanism": f"{question.mechanism}: noise on every number, drawn anew, without a seed",
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
    columns += map(render.texts, ("kind", "range or categories", "where that is from"))
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


_MOST = 8


def warned(releases: Sequence[ReleaseFile]) -> list[render.Paragraph]:
    """Return what releases warn of, each warning once."""
    warnings = dict.fromkeys(text for release in releases for text in release.warnings)
    return [render.Paragraph(printable(text, 600), "alert") for text in warnings]


def drift_content(result: Drift) -> render.Content:
    """Declare the verdict since each period, the columns that changed, and what follows."""
    title = f"{printable(result.name)}, {printable(result.period)}"
    last = result.since[-1]
    return [
        render.Headline(title, f"{printable(result.status[:1].upper() + result.status[1:], 600)}."),
        warned(result.sketches.releases),
        render.section("Since each release", "since", _periods(result, title), link="Since"),
        render.Paragraph(
            "The p-value is of the whole difference, of all columns and cells; an alarm takes 5 % "
            "or less, shared among the releases before.",
            "small",
        ),
        render.on_terminal(
            render.Paragraph(""),
            render.facts(verdict_rows(last.verdict)),
            changes_table(last.verdict, _MOST),
        ),
        render.on_page(
            [
                render.section(
                    f"Since {printable(since.period)}",
                    f"columns-{k}",
                    render.facts(verdict_rows(since.verdict)),
                    changes_table(since.verdict),
                    link=f"Since {printable(since.period)}",
                )
                for k, since in enumerate(result.since)
            ]
        ),
        render.on_terminal(render.facts({"status": result.status})),
        cost_content(result.sketches),
    ]


def _periods(result: Drift, title: str) -> render.Table:
    rows = [
        (
            since.period,
            since.distance.value,
            since.verdict.p_value,
            render.Cell("drift" if since.drifted else since.verdict.verdict, warn=since.drifted),
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
