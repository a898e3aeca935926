"""Blocks on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text as Line

from .sections import Block, Bullets, Column, Facts, Paragraph, Table, Text

# Narrower than this a column that fills the line says nothing.
_NARROWEST = 16


def show(console: Console, blocks: Sequence[Block]) -> None:
    """Print facts, tables, paragraphs and lists; what needs a page is left out."""
    for block in blocks:
        if isinstance(block, Facts):
            grid = Grid.grid(padding=(0, 2))
            grid.add_column(style="bold")
            grid.add_column()
            for term, said in block.rows:
                grid.add_row(term, _line(said))
            console.print(grid, highlight=False, markup=False)
        elif isinstance(block, Table):
            console.print(_grid(block, console.width), highlight=False, markup=False)
        elif isinstance(block, Paragraph):
            console.print(_line(block.text), highlight=False, markup=False)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.print(f"- {_line(item)}", highlight=False, markup=False)


def _line(text: Text) -> str:
    pieces = (text,) if isinstance(text, str) else text
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


def _grid(table: Table, width: int) -> Grid:
    is_loose = table.loose is not None
    if is_loose:
        grid = Grid(title=escape(table.caption) or None, title_justify="left", box=None)
    else:
        grid = Grid(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    texts = [[cell.text for cell in row] for row in table.rows]
    for k, column in enumerate(table.columns):
        _add(grid, column, is_loose)
        if column.wrap == "fill":
            _fill([[head.title for head in table.columns], *texts], k, width)
    for row in texts:
        grid.add_row(*row)
    return grid


def _fill(rows: Sequence[list[str]], k: int, width: int) -> None:
    """Cut column ``k`` below its title to what the columns before it leave of the line."""
    wide = sum(max(map(cell_len, cells)) + 1 for cells in list(zip(*rows, strict=True))[:k])
    for row in rows[1:]:
        line = Line(row[k])
        # Left to itself the table would cut all columns alike.
        line.truncate(max(width - wide, _NARROWEST), overflow="ellipsis")
        row[k] = line.plain


def _add(grid: Grid, column: Column, is_loose: bool) -> None:
    grid.add_column(
        column.title,
        justify="right" if column.numeric else "left",
        no_wrap=(column.numeric and not is_loose) or column.wrap in ("cut", "fill"),
        overflow="fold" if column.wrap == "fold" else "ellipsis",
        max_width=column.width,
    )
