"""What an adapter found: the tables of a terminal and a notebook, and the page."""

from __future__ import annotations

from ..federation.view import facts
from ..render import Block, Cell, Column, Heading, Paragraph, Table, textual
from ..render.words import percent, printable, short_number
from .adaptation import DomainChange

_MOST = 8
_VERDICTS = {
    "none": "No change: what differs is within chance",
    "classes": "Other shares of the classes explain the target",
    "units": "Other units of the columns, and shares of the classes, explain the target",
    "transport": "Nothing less explains the target: each record was moved to its image there",
    "unexplained": "Neither shares nor units explain the target: nothing was changed",
}


def adaptation_sections(result: DomainChange) -> list[Block]:
    """What explains the target, and how."""
    return [facts({"verdict": _VERDICTS[result.change]}), *_tables(result, _MOST)]


def adaptation_page(result: DomainChange) -> list[Block]:
    """The page of the same."""
    return [
        Heading("How does the target differ?", level=1),
        Paragraph(f"{_VERDICTS[result.change]}.", "lead"),
        *_tables(result, len(result.scale)),
    ]


def _tables(result: DomainChange, most: int) -> list[Block]:
    tried = [
        [
            Cell(each.change),
            Cell(short_number(each.distance)),
            Cell(f"{each.p_value:.3f}"),
            Cell("explains" if each.explains else ""),
        ]
        for each in result.steps
    ]
    blocks: list[Block] = [
        Table(
            "What was tried: how far the source so changed is from the target, and the chance of a "
            "difference as clear.",
            [textual("change"), Column("W2"), Column("p"), textual("")],
            tried,
        )
    ]
    if result.change in ("classes", "units", "transport"):
        shares = [
            [Cell(printable(name, 30)), Cell(percent(before)), Cell(percent(after))]
            for name, (before, after) in result.shares.items()
        ]
        columns = [textual("class"), Column("source"), Column("target")]
        blocks.append(Table("Shares of the classes.", columns, shares))
    if result.change == "units":
        order = sorted(result.scale, key=lambda name: -abs(result.scale[name] - 1.0))
        units = [
            [
                Cell(printable(name, 30)),
                Cell(short_number(result.scale[name])),
                Cell(short_number(result.offset[name])),
            ]
            for name in order[:most]
        ]
        columns = [textual("column"), Column("times"), Column("plus")]
        blocks.append(Table("Target from source, column by column.", columns, units))
    return blocks
