"""Blocks on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text as Line

from .sections import (
    Block,
    Bullets,
    Card,
    Column,
    Facts,
    Intervals,
    Paragraph,
    Table,
    plain_text,
)

# Wider lines are hard to read, and shorter charts say nothing.
_WIDEST, _SHORTEST = 80, 16
# The sign of each kind of step, and what stands for it where signs are few; and its style.
_SIGNS = {"use": "✓+", "fix": "✎~", "apart": "↔|", "exclude": "✗x"}
_STYLES = {"use": "bold green", "fix": "bold yellow", "apart": "bold", "exclude": "bold red"}
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
                grid.add_row(term, plain_text(said))
            console.print(grid, highlight=False, markup=False)
        elif isinstance(block, Table):
            console.print(_grid(block, console.width), highlight=False, markup=False)
        elif isinstance(block, Paragraph):
            console.print(plain_text(block.text), highlight=False, markup=False)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.print(f"- {plain_text(item)}", highlight=False, markup=False)
        elif isinstance(block, Card):
            _show_card(console, block)
        elif isinstance(block, Intervals):
            _show_intervals(console, block)


def _show_card(console: Console, card: Card) -> None:
    plain = not console.encoding.lower().startswith("utf")
    head = Line(card.subject, style="bold")
    for k, (kind, words) in enumerate(card.steps):
        sign = _SIGNS[kind][plain]
        head.append(", then " if k else "  ", style="not bold")
        head.append(f"{sign} {words}", style=_STYLES[kind])
    gap = min(console.width, _WIDEST) - head.cell_len - cell_len(card.note)
    # Where both do not fit into a line the note has one of its own.
    head.append(" " * gap if gap > 1 else "\n   ")
    head.append(card.note, style="not bold")
    console.print(head)
    for words in card.lines:
        _print_indented(console, plain_text(words), "   ", "   ", "")
    if card.command:
        _print_indented(console, card.command, "   $ ", "       ", "cyan", " \\")
    console.print()


def _print_indented(
    console: Console, words: str, first: str, then: str, style: str, end: str = ""
) -> None:
    """Print words at most as wide as a page, wrapped between them; ``end`` ends broken lines."""
    width = min(console.width, _WIDEST) - max(len(first), len(then)) - len(end)
    lines = textwrap.wrap(words, max(width, 20), break_long_words=False, break_on_hyphens=False)
    for k, text in enumerate(lines):
        line = Line(first if k == 0 else then)
        line.append(text + (end if k < len(lines) - 1 else ""), style=style)
        console.print(line, soft_wrap=True)


def _show_intervals(console: Console, chart: Intervals) -> None:
    if len(chart.bars) == 1 and chart.bars[0].noise is None:
        # Beside nothing, one interval says no more than its numbers, which follow.
        return
    console.print(plain_text(chart.caption), highlight=False, markup=False)
    signs = "░│·├─●┤▸" if console.encoding.lower().startswith("utf") else ".|.[-o]>"
    noise, edge, empty, low, line, mark, high = signs[:7]
    names = min(max(cell_len(bar.name) for bar in chart.bars), 20)
    words = max(cell_len(bar.words) for bar in chart.bars)
    width = min(console.width, _WIDEST) - names - words - 4

    def place(value: float) -> int:
        return round(chart.place(value) * (width - 1))

    for bar in chart.bars:
        name = Line(_shortened(bar.name, names))
        name.truncate(names, overflow="ellipsis", pad=True)
        if width < _SHORTEST:
            # Numbers are worth more than a chart that is too short to read.
            console.print(f"{name.plain}  {bar.words}", highlight=False, markup=False)
            continue
        cells = [empty] * width
        if bar.noise is not None:
            cells[place(0.0) : place(bar.noise)] = [noise] * (place(bar.noise) - place(0.0))
            cells[place(bar.noise)] = edge
        start, end = place(bar.low), place(bar.high)
        cells[start : end + 1] = [line] * (end + 1 - start)
        cells[start], cells[end] = low, signs[7] if bar.high > chart.end else high
        cells[place(bar.value)] = mark
        console.print(
            f"{name.plain}  {''.join(cells)}  {bar.words.rjust(words)}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    if width >= _SHORTEST:
        start = f"{chart.start:.3g}"
        ends = f"{start}{f'{chart.end:.3g} {chart.unit}'.rstrip().rjust(width - len(start))}"
        console.print(f"{' ' * names}  {ends}", highlight=False, markup=False, soft_wrap=True)


def _shortened(name: str, most: int) -> str:
    """Return a name without its middle: those of one house often differ at the end."""
    over = cell_len(name) - most
    half = (most - 1) // 2
    return f"{name[:half]}…{name[half + over + 1 :]}" if over > 0 else name


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
