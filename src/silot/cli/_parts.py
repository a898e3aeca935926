"""The table of what distances are made of."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from rich.markup import escape
from rich.table import Table

from ..results import Parts
from ..results.parts import shortened
from .console import OUT

# Columns and classes that are shown one by one.
_MOST = 8


def show_parts(found: Mapping[str, Parts]) -> None:
    """Print the largest parts of each distance by the holder whose classes are meant."""
    if not found:
        return
    by_class = any(parts.classes for parts in found.values())
    several = len(found) > 1
    where = " between the cells' points" if next(iter(found.values())).of == "cells" else ""
    OUT.print(f"\nwhy: shares of the squared distance{where}", highlight=False)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    if several:
        table.add_column("holder", max_width=14, no_wrap=True)
    table.add_column("column", max_width=20, no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    if by_class:
        of = "" if several else f" of {escape(next(iter(found)))}"
        table.add_column(f"class{of}", max_width=20, no_wrap=True)
        table.add_column("share", justify="right", no_wrap=True)
        table.add_column("records", justify="right", no_wrap=True)
    for name, parts in found.items():
        columns, classes = shortened(parts, _MOST)
        for k, (left, right) in enumerate(zip_longest(columns, classes)):
            cells = [name if k == 0 else ""] if several else []
            cells += ["", ""] if left is None else [left[0], _percent(left[1])]
            if right is not None:
                cells += [right[0], _percent(right[1].share), _percent(right[1].mass)]
            table.add_row(*map(escape, cells))
    OUT.print(table, highlight=False)
    for name, parts in found.items():
        if parts.note:
            OUT.print(f"{name}: {parts.note}", highlight=False, markup=False)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
