"""Tables in files of every kind: names of columns, and records block by block or at once."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FileError
from .cells import Cells, column_of, read_cells
from .columnar import collect_columns, names_of_columns, scan_columns
from .container import Source
from .dialect import Dialect, open_rows
from .fields import Signs
from .foreign import check_count, guard
from .names import canonical, header_names
from .notation import PLAIN, read_numbers
from .tables import Rows, Table, Texts, may_be_value, named, table_of

# Rows of columns with a type, and of cells, that are held at a time.
_SLICE = 1 << 17
_UNDECLARED = Dialect()


def read_table(
    source: Source, dialect: Dialect = _UNDECLARED, texts: Collection[str | None] = ()
) -> Table:
    """Read a table of records, of which some columns are texts even if they are numbers too."""
    with guard(source.fail):
        if source.kind in ("parquet", "arrow"):
            names_of_columns(source)
            query, _, _ = scan_columns(source)
            return table_of(nw.from_native(collect_columns(query, source)))
        if source.kind != "text":
            cells = read_cells(source)
            rows = list(cells.rows)
            columns = _columns(_header(source, cells.names, cells.first - 1), rows)
            lines = range(cells.first, cells.first + len(rows))
            return Table(columns, lines, "row")
        return _read_text(source, dialect, {canonical(name) for name in texts if name})


def _read_text(source: Source, dialect: Dialect, texts: Collection[str]) -> Table:
    """Read plain numbers at once, and other columns when it is clear that they are others."""
    lines, places = array("q"), list[int]()
    matrix, is_named = Rows(0), False
    with open_rows(source, dialect) as rows:
        names = _header(source, rows.names, rows.header)
        signs = {name: Signs() for name in names}
        for block, block_lines in rows.blocks():
            read = [read_numbers(part) for part in block]
            if not lines:
                is_named = named(dict(zip(names, block, strict=True)))
                places = [k for k, name in enumerate(names)
                          if name not in texts and not read[k].unread.any()]  # fmt: skip
                matrix = Rows(len(places))
            for name, part, numbers in zip(names, block, read, strict=True):
                signs[name].add(part, numbers.unread)
            values = [read[k].values for k in places]
            matrix.add(np.array(values).reshape(len(places), len(block_lines)).T, rows.share())
            lines.extend(block_lines)
    plain = {
        names[k]: matrix.array[:, place] for place, k in enumerate(places)
        if signs[names[k]].reading().notation == PLAIN
    }  # fmt: skip
    columns = {name: plain.get(name, Texts()) for name in names}
    if len(plain) < len(names):
        with open_rows(source, dialect, is_measured=False) as rows:
            for block, _ in rows.blocks():
                for column, part in zip(columns.values(), block, strict=True):
                    if isinstance(column, Texts):
                        column.extend(part)
    is_regular = bool(lines) and lines[-1] - lines[0] + 1 == len(lines)
    return Table(
        columns,
        range(lines[0], lines[-1] + 1) if is_regular else lines,
        "line",
        frozenset(name for name in plain if signs[name].pointed),
        is_named,
        matrix.array if len(plain) == len(places) else None,
    )


def read_names(source: Source, dialect: Dialect = _UNDECLARED) -> list[str]:
    """Read the names of the columns of a table."""
    with guard(source.fail):
        if source.kind in ("parquet", "arrow"):
            return header_names(names_of_columns(source))
        if source.kind != "text":
            cells = read_cells(source)
            return _header(source, cells.names, cells.first - 1)
        with open_rows(source, dialect, is_measured=False) as rows:
            return _header(source, rows.names, rows.header)


def _header(source: Source, names: Sequence[str], line: int) -> list[str]:
    """Return the names of columns, if they are some."""
    numbers = [name.strip() for name in names if name.strip() and may_be_value(name)]
    if (numbers and not _places(numbers, alone=len(numbers) == len(names))) or not any(names):
        cure = "Put a line of names first"
        if line > 1:
            cure = "If another line has them, say so in a site file: file: {header: 1}"
        raise FileError(
            f"line {line} of {source.name} holds numbers or days: names of columns are needed "
            f"there. {cure}.",
            code="file-header",
        )
    return header_names(names)


def _places(names: Sequence[str], *, alone: bool) -> bool:
    """Return whether names count columns or years: whole numbers in a row, three among others."""
    if not all(name.isdecimal() for name in names):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(names)}
    return steps <= {1} and (int(names[0]) < 2 if alone else len(names) > 2)


@dataclass(frozen=True, eq=False)
class Block:
    """Some records of a table: fields by column, the share that was read, and their lines."""

    columns: Mapping[str, Sequence[str]] | Mapping[str, nw.Series[Any]] = field(repr=False)
    height: int
    share: float = 1.0
    lines: Sequence[int] = field(default=(), repr=False)
    line: str = "line"

    @property
    def named(self) -> bool:
        """Return whether the columns have names for sure, if this is the first block."""
        return named(self.columns)


def read_blocks(
    source: Source, wanted: Collection[str], dialect: Dialect = _UNDECLARED
) -> Iterator[Block]:
    """Yield the records of a table some thousand at a time, the wanted columns only."""
    with guard(source.fail):
        if source.kind in ("parquet", "arrow"):
            yield from _columnar_blocks(source, wanted)
        elif source.kind == "text":
            yield from _text_blocks(source, wanted, dialect)
        else:
            yield from _cell_blocks(source, read_cells(source), wanted)


def _text_blocks(source: Source, wanted: Collection[str], dialect: Dialect) -> Iterator[Block]:
    with open_rows(source, dialect) as rows:
        names = _header(source, rows.names, rows.header)
        for columns, lines in rows.blocks():
            chosen = {
                name: texts for name, texts in zip(names, columns, strict=True) if name in wanted
            }
            yield Block(chosen, len(lines), rows.share(), lines)


def _columnar_blocks(source: Source, wanted: Collection[str]) -> Iterator[Block]:
    raw = names_of_columns(source)
    plain = dict(zip(raw, header_names(raw), strict=True))
    lazy, names, height = scan_columns(source, {n for n in raw if plain[n] in wanted}, _SLICE)
    for start in range(0, height, _SLICE):
        frame = nw.from_native(collect_columns(lazy.slice(start, _SLICE), source))
        size = min(_SLICE, height - start)
        columns = {plain[name]: frame.get_column(name) for name in names}
        lines = range(start + 1, start + size + 1)
        yield Block(columns, size, (start + size) / height, lines, "record")


def _cell_blocks(source: Source, cells: Cells, wanted: Collection[str]) -> Iterator[Block]:
    names = _header(source, cells.names, cells.first - 1)
    first = cells.first
    while rows := list(islice(cells.rows, _SLICE)):
        columns = {n: column for n, column in _columns(names, rows).items() if n in wanted}
        yield Block(columns, len(rows), 1.0, range(first, first + len(rows)), "row")
        first += len(rows)


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    check_count(len(names) * len(rows), 1 << 28, "cells")
    parts = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: column_of(part) for name, part in zip(names, parts, strict=True)}


def frame_block(table: Table) -> Block:
    """A table that is in memory, in one block."""
    columns: Any = table.columns
    return Block(columns, table.height, lines=range(1, table.height + 1), line="record")
