"""What is shown of the drift of a site."""

from __future__ import annotations

from collections.abc import Sequence

from ... import render
from ...federation.view import cost_content
from ...render.words import printable
from ..verdict import changes_table, verdict_rows
from .drift import Drift
from .release_file import ReleaseFile

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
