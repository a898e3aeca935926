"""Drift of a site: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Sequence

from ...federation.view import bill_sections, facts
from ...render import Block, Cell, Column, Heading, Paragraph, Table, textual
from ...render.words import number, printable, short_number
from .drift import Drift, Since

_MOST = 8


def drift_sections(result: Drift) -> list[Block]:
    """Distances since each period, the columns that moved most, and what follows."""
    warnings = dict.fromkeys(text for each in result.sketches.releases for text in each.warnings)
    return [
        *(Paragraph(f"Warning: {printable(text, 600)}") for text in warnings),
        _periods(result),
        Paragraph(""),
        _columns(result.since[-1:], _MOST),
        facts({"status": result.status}),
    ]


def drift_page(result: Drift) -> list[Block]:
    """The page of the same."""
    warnings = dict.fromkeys(text for each in result.sketches.releases for text in each.warnings)
    return [
        Heading(f"{printable(result.name)}, {printable(result.period)}", level=1),
        Paragraph(f"{printable(result.status[:1].upper() + result.status[1:], 600)}.", "lead"),
        *(Paragraph(printable(text, 600), "alert") for text in warnings),
        Heading("Since each release", "since", "Since"),
        _periods(result),
        Paragraph(
            "Chance: what two releases of one law, of these sizes and this noise, stay below in "
            "95 % of cases. The p-value is of the clearest difference of all, of distance, cells "
            "and columns; an alarm takes 5 % or less, shared among the releases before.",
            "small",
        ),
        Heading("By column", "columns", "Columns"),
        _columns(result.since, None),
        *bill_sections([("", result.sketches)]),
    ]


def _periods(result: Drift) -> Table:
    columns = [textual("since"), Column("distance"), Column("chance"), Column("p"), textual("")]
    rows = [
        [
            Cell(printable(each.period)),
            Cell(short_number(each.distance.value)),
            Cell(short_number(each.chance)),
            Cell(f"{each.p_value:.3f}"),
            Cell("drift" if each.drifted else "as by chance", warn=each.drifted),
        ]
        for each in result.since
    ]
    return Table(f"{printable(result.name)}, {printable(result.period)}", columns, rows)


def _columns(since: Sequence[Since], most: int | None) -> Table:
    columns = [textual("since"), textual("column"), Column("mean moved"), Column("chance"),
               textual("")]  # fmt: skip
    rows = [
        [
            Cell(printable(each.period)),
            Cell(printable(change.column, 30)),
            Cell(number(change.change)),
            Cell(number(change.chance)),
            Cell("drift" if change.drifted else "", warn=change.drifted),
        ]
        for each in since
        for change in each.columns[:most]
    ]
    return Table("In units of the schema, the clearest first.", columns, rows, filter=True)
