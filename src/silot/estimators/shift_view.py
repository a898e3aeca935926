"""A shift from a reference: the tables of a terminal and a notebook, and the page."""

from __future__ import annotations

from ..distances.view import distance_sections
from ..federation.view import facts
from ..render import Block, Cell, Column, Heading, Paragraph, Table, textual
from ..render.words import percent, printable, short_bounds, short_number
from .shift import Shift

_MOST = 8


def shift_sections(result: Shift) -> list[Block]:
    """Whether records shifted, how far, and by which columns, the clearest first."""
    return [facts(_rows(result)), _columns(result, _MOST)]


def shift_page(result: Shift) -> list[Block]:
    """The page of the same."""
    return [
        Heading("Have the records shifted?", level=1),
        Paragraph(f"{_verdict(result)}.", "lead"),
        Heading("The test", "test", "Test"),
        facts(_rows(result)),
        Heading("By column", "columns", "Columns"),
        _columns(result, len(result.columns)),
        Heading("The distance", "distance", "Distance"),
        *distance_sections(result.result),
    ]


def _verdict(result: Shift) -> str:
    p = f"p = {result.p_value:.3f}"
    return f"Shifted: {p}" if result.shifted else f"No shift was found, which proves none: {p}"


def _rows(result: Shift) -> dict[str, str]:
    rows = {
        "verdict": _verdict(result),
        "W2": f"{short_number(result.distance)} standard deviations of the reference",
        "bounds": short_bounds(result.lower, result.upper),
    }
    if result.chance is not None:
        rows["chance"] = f"{short_number(result.chance)}, for two samples of one law"
    return rows


def _columns(result: Shift, most: int) -> Table:
    order = sorted(result.column_p_values, key=lambda name: result.column_p_values[name])
    rows = [
        [
            Cell(printable(name, 30)),
            Cell(percent(result.columns[name]) if name in result.columns else ""),
            Cell(f"{result.column_p_values[name]:.3f}"),
            Cell("shifted" if name in result.blamed else "", warn=name in result.blamed),
        ]
        for name in order[:most]
    ]
    columns = [textual("column"), Column("share"), Column("p"), textual("")]
    return Table("Shares of the squared distance, and the chance of each column.", columns, rows)
