"""Tables in files: csv, as it is written, and parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any

import narwhals as nw

from ..errors import FileError
from .foreign import (
    COLUMNS,
    NOT_UTF8,
    ROW_LETTERS,
    Lines,
    UnfitError,
    check_count,
    collect_parquet,
    guard,
    open_text,
    parquet_names,
    scan_parquet,
)
from .names import header_names
from .tables import Table, Texts, may_be_value, named, table_of

# What may part fields; of two that part a header into as many, the first.
_SEPARATORS = (",", ";", "\t")
# Rows that are texts of Python before they are columns.
_ROWS = 8192
# Fields of a block; and fields that lines may lack beyond their characters, for a header of many
# columns over short lines is a table that no one has.
_CELLS = 1 << 22
# Rows of columns with a type that are held at a time.
_SLICE = 1 << 17


def read_table(file: Path, kind: str) -> Table:
    """Read a table of records."""
    with _reading(file, kind):
        if kind == ".parquet":
            query, _, _ = scan_parquet(file)
            return table_of(nw.from_native(collect_parquet(query, file)))
        with _rows(file) as rows:
            names = _header(file, rows)
            columns = {name: Texts() for name in names}
            for block in rows.blocks(names):
                for column, texts in zip(columns.values(), block, strict=True):
                    column.extend(texts)
            return Table(columns)


def read_names(file: Path, kind: str) -> list[str]:
    """Read the names of the columns of a table."""
    with _reading(file, kind):
        if kind == ".parquet":
            return header_names(parquet_names(file))
        with _rows(file, is_measured=False) as rows:
            return _header(file, rows)


@contextmanager
def _reading(file: Path, kind: str) -> Iterator[None]:
    """Turn what readers raise on a damaged table into a coded error."""
    needs = (
        "Write it anew, with its records as rows and one type a column."
        if kind == ".parquet"
        else "It needs a header line, no line with more fields than that, UTF-8 text and closed "
        "quotes."
    )

    def fail(why: str) -> FileError:
        text = f"{file.name} cannot be read as {kind} ({why}). {needs}"
        if why == NOT_UTF8:
            text = f"{file.name} is not UTF-8 text. Save it as UTF-8."
        return FileError(text, code="file-unreadable")

    with guard(fail):
        yield


@dataclass(frozen=True)
class _Rows:
    """Rows of a csv, and what stands between their fields."""

    lines: Lines
    separator: str
    share: Callable[[], float]
    """How much of the file has been read."""

    def __iter__(self) -> Iterator[list[str]]:
        # Strictly: a quote that is not closed must not swallow other records.
        for row in csv.reader(self.lines, delimiter=self.separator, strict=True):
            self.lines.row = 0
            # A blank line is no record.
            if row:
                yield row

    def blocks(self, names: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
        """Some thousand rows at a time, by columns."""
        rows, gaps = iter(self), 0
        while block := list(islice(rows, max(1, min(_ROWS, _CELLS // len(names))))):
            if max(map(len, block)) > len(names):
                raise UnfitError("a line has more fields than the header")
            gaps += len(names) * len(block) - sum(map(len, block))
            if gaps > _CELLS + self.lines.letters:
                raise UnfitError("almost all fields are missing in its lines")
            # Of a row with fewer fields than the header, the others are missing.
            yield [texts[1:] for texts in zip_longest(names, *block, fillvalue="")]


@contextmanager
def _rows(file: Path, *, is_measured: bool = True) -> Iterator[_Rows]:
    with open_text(file, is_measured=is_measured) as (text, share):
        separator = _separator(text.readline(ROW_LETTERS))
        text.seek(0)
        yield _Rows(Lines(text), separator, share)


def _separator(header: str) -> str:
    """What parts the names of the columns, which are public: no record has a say."""

    def parts(separator: str) -> int:
        # A field has 131,072 characters at most, and without its separator a header is one field.
        with suppress(csv.Error):
            return len(next(csv.reader([header], delimiter=separator), []))
        return 0

    return max(_SEPARATORS, key=parts)


def _header(file: Path, rows: _Rows) -> list[str]:
    names = next(iter(rows), None)
    if names is None:
        raise UnfitError("it has no line")
    check_count(len(names), COLUMNS, "columns")
    numbers = [name.strip() for name in names if name.strip() and may_be_value(name)]
    if (numbers and not _places(numbers, alone=len(numbers) == len(names))) or not any(names):
        raise FileError(
            f"the first line of {file.name} holds numbers or days: names of columns are needed "
            "there. Put a line of names first.",
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
    """Some records of a table: fields by column, and how much of the file has been read."""

    columns: Mapping[str, Sequence[str]] | Mapping[str, nw.Series[Any]] = field(repr=False)
    height: int
    share: float = 1.0

    @property
    def named(self) -> bool:
        """Return whether the columns have names for sure, if this is the first block."""
        return named(self.columns)


def read_blocks(file: Path, kind: str, wanted: Collection[str]) -> Iterator[Block]:
    """Yield the records of a table some thousand at a time, the wanted columns only."""
    with _reading(file, kind):
        yield from (_parquet_blocks if kind == ".parquet" else _text_blocks)(file, wanted)


def _text_blocks(file: Path, wanted: Collection[str]) -> Iterator[Block]:
    with _rows(file) as rows:
        names = _header(file, rows)
        for columns in rows.blocks(names):
            chosen = {
                name: texts for name, texts in zip(names, columns, strict=True) if name in wanted
            }
            yield Block(chosen, len(columns[0]), rows.share())


def _parquet_blocks(file: Path, wanted: Collection[str]) -> Iterator[Block]:
    raw = parquet_names(file)
    plain = dict(zip(raw, header_names(raw), strict=True))
    lazy, names, height = scan_parquet(file, {n for n in raw if plain[n] in wanted}, _SLICE)
    for start in range(0, height, _SLICE):
        frame = nw.from_native(collect_parquet(lazy.slice(start, _SLICE), file))
        size = min(_SLICE, height - start)
        columns = {plain[name]: frame.get_column(name) for name in names}
        yield Block(columns, size, share=(start + size) / height)


def frame_block(table: Table) -> Block:
    """A table that is in memory, in one block."""
    return Block(table.columns, table.height)
