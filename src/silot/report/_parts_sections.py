"""Sections about what distances are made of."""

from __future__ import annotations

from dataclasses import dataclass

from ..results import Contributions
from ..results.parts import shortened
from ._sections import Cell, Column, Table
from ._words import percent, printable

# Columns and classes that are shown one by one.
_MOST = 8
# Holders whose tables are open.
_OPEN = 3


@dataclass(frozen=True)
class HolderParts:
    """What the distance of one holder is made of."""

    name: str
    note: str
    columns: Table
    classes: Table | None


@dataclass(frozen=True)
class Why:
    """The same of all holders that told it; the first are shown, the others when asked for."""

    shown: list[HolderParts]
    folded: list[HolderParts]
    cells: bool


def why(found: Contributions) -> Why | None:
    """What distances are made of, holders in the order of their ranks."""
    holders: list[HolderParts] = []
    cells = False
    for item in found.ranking:
        parts = item.distance.parts
        if parts is None:
            continue
        cells = parts.of == "cells"
        name = printable(item.holder)
        columns, classes = shortened(parts, _MOST)
        by_column = Table(
            f"Share of the squared distance by column: {name}.",
            (Column("column", numeric=False), Column("share")),
            [(_name(column), Cell(percent(share), share)) for column, share in columns],
        )
        by_class = Table(
            f"Share of the squared distance, and of the records, by class: {name}.",
            (Column("class", numeric=False), Column("share"), Column("records")),
            [
                (_name(kind), Cell(percent(part.share), part.share), Cell(percent(part.mass)))
                for kind, part in classes
            ],
        )
        note = parts.note[:1].upper() + parts.note[1:]
        holders.append(
            HolderParts(name, printable(note, 400), by_column, by_class if classes else None)
        )
    if not holders:
        return None
    return Why(holders[:_OPEN], holders[_OPEN:], cells)


def _name(text: str) -> Cell:
    """The name of a column or class, short enough for its share to stand beside it."""
    return Cell(printable(text, 32))
