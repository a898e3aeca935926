"""What is shown of the drift of a site."""

from __future__ import annotations

from collections.abc import Sequence

from ... import render
from ...federation.view import cost_content
from ...render.words import printable
from .drift import Drift, Since
from .release_file import ReleaseFile

_MOST = 8


def warned(releases: Sequence[ReleaseFile]) -> list[render.Paragraph]:
    """Return what releases warn of, each warning once."""
    warnings = dict.fromkeys(text for release in releases for text in release.warnings)
    return [render.Paragraph(printable(text, 600), "alert") for text in warnings]


def drift_content(result: Drift) -> render.Content:
    """Declare distances since each period, the columns that moved most, and what follows."""
    title = f"{printable(result.name)}, {printable(result.period)}"
    return [
        render.Headline(title, f"{printable(result.status[:1].upper() + result.status[1:], 600)}."),
        warned(result.sketches.releases),
        render.section("Since each release", "since", _periods(result, title), link="Since"),
        render.Paragraph(
            "Chance: what two releases of one law, of these sizes and this noise, stay below in "
            "95 % of cases. The p-value is of the clearest difference of all, of distance, cells "
            "and columns; an alarm takes 5 % or less, shared among the releases before.",
            "small",
        ),
        render.on_terminal(render.Paragraph(""), _columns(result.since[-1:], _MOST)),
        render.on_page(
            render.section("By column", "columns", _columns(result.since, None), link="Columns")
        ),
        render.on_terminal(render.facts({"status": result.status})),
        cost_content(result.sketches),
    ]


def _periods(result: Drift, title: str) -> render.Table:
    rows = [
        (
            since.period,
            since.distance.value,
            since.chance,
            since.p_value,
            render.Cell("drift" if since.drifted else "as by chance", warn=since.drifted),
        )
        for since in result.since
    ]
    columns = [
        render.names("since"),
        render.numbers("distance"),
        render.numbers("chance"),
        render.digits("p", 3),
        render.texts(""),
    ]
    return render.Table(title, columns, rows)


def _columns(periods: Sequence[Since], most: int | None) -> render.Table:
    rows = [
        (
            since.period,
            change.column,
            change.change,
            change.chance,
            render.Cell("drift" if change.drifted else "", warn=change.drifted),
        )
        for since in periods
        for change in since.columns[:most]
    ]
    columns = [
        render.names("since"),
        render.names("column", 30),
        render.numbers("mean moved"),
        render.numbers("chance"),
    ]
    text = "In units of the schema, the clearest first."
    return render.Table(text, [*columns, render.texts("")], rows, filter=True)
