"""Data files as they are: archives of arrays (.npz) and tables (csv, csv.gz, parquet)."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .errors import FileError, InputError
from .files import DAMAGED_ARCHIVE

_TABLES = (".csv", ".csv.gz", ".parquet")
# Fields of a table that mean "missing".
_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
# What stands for a number, in any case, beside what Python reads as one.
_NUMBERS = {**dict.fromkeys(map(str.lower, _MISSING), float("nan")), "true": 1.0, "false": 0.0}
_DAMAGED_TABLE = (pl.exceptions.PolarsError, OSError, EOFError, ValueError, csv.Error, zlib.error)
_GZIP = b"\x1f\x8b"
# What may part fields; of two that part a header into as many, the first.
_SEPARATORS = (",", ";", "\t")
# Rows that are texts of Python before they are columns.
_ROWS = 8192


def known_file(path: str | Path) -> tuple[Path, str]:
    """A file that is there and holds something, and its kind, which is its ending."""
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113 - unlike Path, no error for an overlong name
        raise FileError(
            f"{file} does not exist or is no file. Check the path.", code="file-missing"
        )
    kind = next((end for end in (".npz", *_TABLES) if file.name.lower().endswith(end)), None)
    if kind is None:
        raise FileError(
            f"{file.name} is of no kind silot reads. Give .npz, .csv, .csv.gz or .parquet.",
            code="file-kind",
        )
    if file.stat().st_size == 0:
        raise FileError(f"{file.name} is empty (0 bytes).", code="file-empty")
    return file, kind


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an archive that has records ``X``."""
    try:
        # Opened here, for numpy leaves a file open that turns out to be no archive.
        with file.open("rb") as handle:
            archive = np.load(handle, allow_pickle=False)
            # A single array saved under this name is no archive: it has no X.
            arrays = dict(archive.items()) if isinstance(archive, np.lib.npyio.NpzFile) else {}
    except DAMAGED_ARCHIVE as error:
        raise FileError(
            f"{file.name} cannot be read as .npz ({type(error).__name__}). Write it with "
            "numpy.savez(path, X=..., y=..., w=...), without object arrays.",
            code="file-unreadable",
        ) from None
    if "X" not in arrays:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise FileError(
            f"{file.name} holds {found}; an array named X is needed (and y, w if any).",
            code="file-columns",
        )
    return arrays


@dataclass(frozen=True, eq=False)
class Table:
    """Records by rows, fields by named columns.

    What a field says follows from that field alone. A column has no type in a csv: one that is
    guessed from all its fields would make one record decide how the others are read.

    Attributes
    ----------
    columns
        The columns; those of a csv are texts, as they are written.
    written
        Whether the table is of such texts.
    comma
        Whether a comma may stand for the point of a number.
    """

    columns: pl.DataFrame = field(repr=False)
    written: bool
    comma: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.columns.columns

    @property
    def height(self) -> int:
        """Number of records."""
        return self.columns.height

    def not_numbers(self, name: str) -> str | None:
        """Why a column is not one of numbers, ``None`` if it is; without any value of it."""
        column = self.columns[name]
        if not self.written:
            # A column of missing values only has no type; its NaN are reported as such.
            known = column.dtype.is_numeric() or column.dtype == pl.Boolean
            # What stands in brackets is left out: categories are values of the data.
            odd = not known and column.null_count() < len(column)
            return str(column.dtype).split("(")[0] if odd else None
        numbers = map(self._number, column)
        odd = [row for row, number in enumerate(numbers) if number is None]
        return f"{len(odd)} field(s), the first in row {odd[0]}" if odd else None

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """A column of numbers; missing fields are NaN, and true and false 1 and 0."""
        column = self.columns[name]
        if self.written:
            return np.array([self._number(field) for field in column], dtype=np.float64)
        if column.dtype == pl.Decimal:
            # By their texts: dividing by the power of ten of the column may round otherwise.
            found = column.cast(pl.String).cast(pl.Float64)
        else:
            found = column.cast(pl.Float64)
        return found.fill_null(float("nan")).to_numpy()

    def _number(self, text: str) -> float | None:
        found = _number(text)
        return _number(text.replace(",", ".")) if found is None and self.comma else found

    def values(self, name: str) -> list[Any]:
        """Fields of a column one by one, ``None`` where missing."""
        column = self.columns[name]
        found = column.to_list()
        if self.written:
            return [None if value in _MISSING else value for value in found]
        if column.dtype.is_float():
            # In the type of the column: to a float32, Python gives digits it does not have.
            kind = np.float64 if column.dtype == pl.Float64 else np.float32
            return [None if value is None or value != value else kind(value) for value in found]
        return found

    def texts(self, name: str) -> list[str | None]:
        """Fields of a column as texts, ``None`` where there is nothing; "NA" is a text here."""
        try:
            found = self.columns[name].cast(pl.String)
        except pl.exceptions.PolarsError:
            kind = str(self.columns[name].dtype).split("(")[0]
            raise InputError(
                f"column {name!r} is no text ({kind}).", code="measure-dtype"
            ) from None
        return [text or None for text in found] if self.written else found.to_list()


def _number(text: str) -> float | None:
    """The number a field says, NaN where it is missing, ``None`` where it says no number."""
    try:
        found = float(text)
    except ValueError:
        return _NUMBERS.get(text.strip().lower())
    return None if "_" in text else found


def read_table(file: Path, kind: str) -> Table:
    """A table of records."""
    try:
        if kind == ".parquet":
            return Table(pl.read_parquet(file, glob=False), written=False)
        with _rows(file) as rows:
            return Table(_columns(file, rows.fields), written=True, comma=rows.separator == ";")
    except _DAMAGED_TABLE as error:
        raise _unreadable(file, kind, error) from None


def read_names(file: Path, kind: str) -> list[str]:
    """Names of the columns of a table."""
    try:
        if kind == ".parquet":
            return list(pl.read_parquet_schema(file))
        with _rows(file) as rows:
            return _header(file, rows.fields)
    except _DAMAGED_TABLE as error:
        raise _unreadable(file, kind, error) from None


@dataclass(frozen=True)
class _Rows:
    """Rows of a csv, and what stands between their fields."""

    fields: Iterator[list[str]]
    separator: str


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
        yield _Rows(rows, separator)


def _separator(header: str) -> str:
    """What parts the names of the columns, which are public: no record has a say."""

    def parts(separator: str) -> int:
        return len(next(csv.reader([header], delimiter=separator), []))

    return max(_SEPARATORS, key=parts)


def _header(file: Path, rows: Iterator[list[str]]) -> list[str]:
    names = next(rows, None)
    if names is None:
        raise ValueError
    told = [name.strip() for name in names]
    places = all(name.isdigit() for name in told) and len(set(told)) == len(told)
    if not places and all(_number(name.replace(",", ".")) is not None for name in told):
        raise FileError(
            f"the first line of {file.name} holds numbers: names of columns are needed there. Put "
            "a line of names first.",
            code="file-header",
        )
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise FileError(
            f"{file.name} has more than one column {doubled[0]!r}. Rename them.",
            code="file-columns",
        )
    return names


def _columns(file: Path, rows: Iterator[list[str]]) -> pl.DataFrame:
    names = _header(file, rows)
    schema = dict.fromkeys(names, pl.String)
    parts = [pl.DataFrame(schema=schema)]
    while block := list(islice(rows, _ROWS)):
        if max(map(len, block)) > len(names):
            raise ValueError
        full = [row if len(row) == len(names) else _filled(row, len(names)) for row in block]
        parts.append(pl.DataFrame(list(zip(*full, strict=True)), schema=schema))
    return pl.concat(parts)


def _filled(row: Sequence[str], width: int) -> list[str]:
    """A row with fewer fields than the header: the others are missing."""
    return [*row, *[""] * (width - len(row))]


def _unreadable(file: Path, kind: str, error: Exception) -> FileError:
    return FileError(
        f"{file.name} cannot be read as {kind} ({type(error).__name__}). It needs a header line, "
        "no line with more fields than that, UTF-8 text and closed quotes.",
        code="file-unreadable",
    )
