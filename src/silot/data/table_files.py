"""Tables in files: csv, as it is written, and parquet."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import narwhals as nw

from ..errors import ExtraError, FileError
from .names import listing
from .tables import Table, Texts, errors_of_polars, may_be_value, named, table_of

_DAMAGED_TABLE = (OSError, EOFError, ValueError, csv.Error, zlib.error)
_GZIP = b"\x1f\x8b"
# What may part fields; of two that part a header into as many, the first.
_SEPARATORS = (",", ";", "\t")
# Rows that are texts of Python before they are columns.
_ROWS = 8192
# Rows of columns with a type that are held at a time.
_SLICE = 1 << 17


def read_table(file: Path, kind: str) -> Table:
    """Read a table of records."""
    with _reading(file, kind):
        if kind == ".parquet":
            return table_of(nw.from_native(_polars(file).read_parquet(file, glob=False)))
        with _rows(file) as rows:
            names = _header(file, rows.fields)
            columns = {name: Texts() for name in names}
            for block in _blocks(names, rows.fields):
                for column, texts in zip(columns.values(), block, strict=True):
                    column.extend(texts)
            return Table(columns, comma=rows.separator == ";")


def read_names(file: Path, kind: str) -> list[str]:
    """Read the names of the columns of a table."""
    with _reading(file, kind):
        if kind == ".parquet":
            return list(_polars(file).read_parquet_schema(file))
        with _rows(file) as rows:
            return _header(file, rows.fields)


@contextmanager
def _reading(file: Path, kind: str) -> Iterator[None]:
    """Turn what readers raise on a damaged table into a coded error."""
    try:
        yield
    except UnicodeDecodeError:
        raise FileError(
            f"{file.name} is not UTF-8 text. Save it as UTF-8.",
            code="file-unreadable",
        ) from None
    except (*errors_of_polars(), *_DAMAGED_TABLE) as error:
        raise FileError(
            f"{file.name} cannot be read as {kind} ({type(error).__name__}). It needs a header "
            "line, no line with more fields than that, UTF-8 text and closed quotes.",
            code="file-unreadable",
        ) from None


@dataclass(frozen=True)
class _Rows:
    """Rows of a csv, and what stands between their fields."""

    fields: Iterator[list[str]]
    separator: str
    share: Callable[[], float]
    """How much of the file has been read."""


@contextmanager
def _rows(file: Path) -> Iterator[_Rows]:
    """Rows of a csv. Strictly: a quote that is not closed must not swallow other records."""
    with file.open("rb") as handle:
        packed = handle.read(len(_GZIP)) == _GZIP
    opened = gzip.open if packed else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as text:
        separator = _separator(text.readline())
        text.seek(0)
        # A blank line is no record.
        rows = (row for row in csv.reader(text, delimiter=separator, strict=True) if row)
        size = max(file.stat().st_size, 1)
        raw: Any = text.buffer
        place = raw.fileobj if packed else raw
        yield _Rows(rows, separator, lambda: place.tell() / size)


def _separator(header: str) -> str:
    """What parts the names of the columns, which are public: no record has a say."""

    def parts(separator: str) -> int:
        return len(next(csv.reader([header], delimiter=separator), []))

    return max(_SEPARATORS, key=parts)


def _header(file: Path, rows: Iterator[list[str]]) -> list[str]:
    names = next(rows, None)
    if names is None:
        raise ValueError
    numbers = [name.strip() for name in names if name.strip() and may_be_value(name)]
    if (numbers and not _places(numbers, alone=len(numbers) == len(names))) or not any(names):
        raise FileError(
            f"the first line of {file.name} holds numbers or days: names of columns are needed "
            "there. Put a line of names first.",
            code="file-header",
        )
    doubled = [str(place + 1) for place, name in enumerate(names) if names.count(name) > 1]
    if doubled:
        raise FileError(
            f"{file.name} has columns of one name: no. {listing(doubled)}. Rename them.",
            code="file-columns",
        )
    return names


def _places(names: Sequence[str], *, alone: bool) -> bool:
    """Return whether names count columns or years: whole numbers in a row, three among others."""
    if not all(name.isdecimal() for name in names):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(names)}
    return steps <= {1} and (int(names[0]) < 2 if alone else len(names) > 2)


def _blocks(names: Sequence[str], rows: Iterator[list[str]]) -> Iterator[list[tuple[str, ...]]]:
    """Some thousand rows at a time, by columns."""
    while block := list(islice(rows, _ROWS)):
        if max(map(len, block)) > len(names):
            raise ValueError
        # Of a row with fewer fields than the header, the others are missing.
        yield [texts[1:] for texts in zip_longest(names, *block, fillvalue="")]


@dataclass(frozen=True, eq=False)
class Block:
    """Some records of a table: fields by column, and how much of the file has been read."""

    columns: Mapping[str, Sequence[str]] | Mapping[str, nw.Series[Any]] = field(repr=False)
    height: int
    comma: bool = False
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
        names = _header(file, rows.fields)
        for columns in _blocks(names, rows.fields):
            chosen = {
                name: texts for name, texts in zip(names, columns, strict=True) if name in wanted
            }
            yield Block(chosen, len(columns[0]), rows.separator == ";", rows.share())


def _parquet_blocks(file: Path, wanted: Collection[str]) -> Iterator[Block]:
    lazy = _polars(file).scan_parquet(file, glob=False)
    names = [name for name in lazy.collect_schema() if name in wanted]
    height = int(lazy.select(_polars(file).len()).collect().item())
    for start in range(0, height, _SLICE):
        frame = nw.from_native(lazy.select(names).slice(start, _SLICE).collect())
        size = min(_SLICE, height - start)
        columns = {name: frame.get_column(name) for name in names}
        yield Block(columns, size, share=(start + size) / height)


def frame_block(table: Table) -> Block:
    """A table that is in memory, in one block."""
    return Block(table.columns, table.height, table.comma)


def _polars(file: Path) -> ModuleType:
    """What reads columns of a type; a csv does without."""
    try:
        import polars
    except ImportError:
        raise ExtraError(
            f"{file.name} is read with polars. Run: pip install 'silot[parquet]', or give a csv.",
            code="extra-parquet",
        ) from None
    return polars
