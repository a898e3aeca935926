"""Cells of workbooks (.xlsx, .ods) and of databases (SQLite) as columns.

Workbooks are read by calamine, which gives nothing where a cell is an error or a formula without a
value, keeps rows that are hidden, and fills memory up to the farthest cell. So a sheet is scanned
first, and refused at the place of such a cell.
"""

from __future__ import annotations

import os
import re
import sqlite3
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.parsers import expat

import narwhals as nw
import numpy as np

from ..errors import ExtraError
from .container import Source, one_of
from .dialect import may_be_names
from .foreign import COLUMNS, UnfitError, check_count, check_unpacked
from .tables import Texts

# Cells of a sheet, empty ones too, that may be without a value, and how many times those with one.
_FREE_CELLS, _MOST_RATIO = 1 << 20, 100
_ROWS = 1 << 16
# Bytes of a field of a database.
_LONGEST = 1 << 24


@dataclass(frozen=True)
class Cells:
    """A table of cells: names of columns, and values of any type by rows from a first one."""

    names: list[str]
    rows: Iterator[Sequence[Any]]
    first: int
    """The number of the first row in its sheet or table, from 1."""


def read_cells(source: Source) -> Cells:
    """Read the cells of a workbook or of a database."""
    return _database(source) if source.kind == "sqlite" else _workbook(source)


def column_of(values: Sequence[Any]) -> nw.Series[Any] | Texts:
    """Return a column: of a type, if all its values are of it, else texts."""
    kinds = {type(value) for value in values if value is not None and value != ""}
    for of, dtype in (({bool}, nw.Boolean), ({int}, nw.Int64), ({int, float}, nw.Float64),
                      ({bytes}, nw.Binary), ({date, datetime}, nw.Datetime)):  # fmt: skip
        if kinds and kinds <= of:
            filled = [None if value == "" else value for value in values]
            if dtype == nw.Datetime:
                filled = [datetime(*v.timetuple()[:6]) if type(v) is date else v for v in filled]
            return nw.new_series("", filled, dtype(), backend="polars")
    return Texts.of(values, _text)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return repr(value).removesuffix(".0")
        case date() | time():
            return value.isoformat()
        case timedelta():
            minutes, seconds = divmod(value.total_seconds(), 60)
            hours, minutes = divmod(int(minutes), 60)
            return f"{hours}:{minutes:02}:{seconds:02.0f}" if seconds.is_integer() else str(value)
        case bytes():
            raise UnfitError("it has fields of bytes")
        case _:
            return str(value)


def _workbook(source: Source) -> Cells:
    try:
        import polars  # noqa: F401 - columns of numbers and days are columns of polars
        import python_calamine
    except ImportError:
        raise ExtraError(
            f"{source.name} is a workbook. Run: pip install 'silot[excel]', or save the sheet as "
            "csv.",
            code="extra-excel",
        ) from None
    with zipfile.ZipFile(source.file) as archive:
        check_unpacked(
            sum(entry.file_size for entry in archive.infolist()), source.file.stat().st_size
        )
        # What an entry says of its size is checked by reading it.
        if (damaged := archive.testzip()) is not None:
            raise UnfitError(f"its entry {damaged!r} is damaged")
        find, walk = (
            (_sheets_of_xlsx, _XlsxScan) if source.kind == "xlsx" else (_sheets_of_ods, _OdsScan)
        )
        sheets = find(archive)
        name = one_of(source, source.part, [*sheets], "sheet")
        scan: _Scan = walk(archive, sheets[name])
    scan.check(name)
    # An object of Python takes up to 64 bytes.
    check_unpacked(64 * scan.rows * scan.columns, source.file.stat().st_size)
    with closing(python_calamine.load_workbook(str(source.file))) as workbook:
        rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
    return _table(rows, scan, name)


def _table(rows: list[list[Any]], scan: _Scan, sheet: str) -> Cells:
    """Return the table of a sheet, below its titles."""
    while rows and not any(map(_is_filled, rows[-1])):
        rows.pop()
    texts = (["x" if _is_filled(value) else "" for value in row] for row in rows)
    filled = [any(row) for row in (list(map(_is_filled, row)) for row in rows)]
    start = next((k for k, row in enumerate(texts) if may_be_names(row)), None)
    if start is None:
        start = next((k for k, one in enumerate(filled) if one), None)
    if start is None:
        raise UnfitError(f"sheet {sheet!r} is empty")
    scan.check_table(start + 1, len(rows))
    used = [
        k for k in range(len(rows[start])) if any(_is_filled(row[k]) for row in rows[start:])
    ]  # fmt: skip
    nameless = next((k for k in used if not _is_filled(rows[start][k])), None)
    if nameless is not None:
        raise UnfitError(f"column {_letters(nameless + 1)} has no name in row {start + 1}")
    blank = next((k for k in range(start, len(rows)) if not filled[k]), None)
    if blank is not None:
        raise UnfitError(f"row {blank + 1} is blank, and records follow: delete it")
    names = [_text(rows[start][k]) for k in used]
    return Cells(names, ([row[k] for k in used] for row in rows[start + 1 :]), start + 2)


def _is_filled(value: Any) -> bool:
    return value is not None and value != ""


@dataclass
class _Scan:
    """What is at odds with a table in a sheet, by place."""

    rows: int = 0
    columns: int = 0
    filled: int = 0
    last: str = ""
    errors: list[str] = field(default_factory=list[str])
    unsaved: list[str] = field(default_factory=list[str])
    hidden: list[int] = field(default_factory=list[int])
    merged: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The last row of merged cells, and where they are."""

    def add(self, row: int, column: int) -> None:
        """Count a cell that has a value."""
        if row >= self.rows or column >= self.columns:
            self.last = _name(row, column)
        self.filled += 1
        self.rows, self.columns = max(self.rows, row), max(self.columns, column)

    def check(self, sheet: str) -> None:
        """Refuse cells that would not be read as they stand, and far ones."""
        area = self.rows * self.columns
        if area > max(_FREE_CELLS, _MOST_RATIO * self.filled):
            raise UnfitError(
                f"sheet {sheet!r} has {self.filled:,} cells with a value in {self.rows:,} rows and "
                f"{self.columns:,} columns: delete what is far from the table, such as {self.last}"
            )
        if self.errors:
            raise UnfitError(
                f"sheet {sheet!r} has cells that are errors ({len(self.errors)}, the first is "
                f"{self.errors[0]}): correct or empty them"
            )
        if self.unsaved:
            raise UnfitError(
                f"sheet {sheet!r} has formulas without a value ({len(self.unsaved)}, the first is "
                f"{self.unsaved[0]}): open the workbook, compute it and save it"
            )

    def check_table(self, first: int, last: int) -> None:
        """Refuse hidden rows and merged cells in the rows of the table."""
        hidden = [row for row in self.hidden if first <= row <= last]
        if hidden:
            raise UnfitError(
                f"rows are hidden ({len(hidden)}, the first is row {hidden[0]}): show or delete "
                "them"
            )
        merged = [place for row, place in self.merged if row >= first]
        if merged:
            raise UnfitError(f"cells are merged in {merged[0]}: split them")


def _letters(column: int) -> str:
    """Name a column (from 1) as workbooks do."""
    letters = ""
    while column:
        column, digit = divmod(column - 1, 26)
        letters = chr(65 + digit) + letters
    return letters


def _name(row: int, column: int) -> str:
    return f"{_letters(column)}{row}"


def _parse(
    archive: zipfile.ZipFile, entry: str, start: Any, end: Any = None, letters: Any = None
) -> None:
    """Walk over the elements of an entry; none of them may define others."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*_: Any) -> None:
        raise UnfitError("its XML defines entities, which silot refuses")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = letters
    with archive.open(entry) as stream:
        parser.ParseFile(stream)


def _sheets_of_xlsx(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the entries of the sheets that are shown, by name."""
    sheets: dict[str, str] = {}
    targets: dict[str, str] = {}

    def sheet(tag: str, entries: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "sheet" and entries.get("state", "visible") == "visible":
            name = next((k for k in entries if k.endswith(":id")), "")
            sheets[entries["name"]] = entries.get(name, "")

    def relation(_: str, entries: dict[str, str]) -> None:
        # Sheets of charts, dialogues and macros have another type.
        if entries.get("Type", "").endswith("/worksheet"):
            targets[entries.get("Id", "")] = entries.get("Target", "")

    _parse(archive, "xl/workbook.xml", sheet)
    _parse(archive, "xl/_rels/workbook.xml.rels", relation)
    paths = {name: targets.get(key, "") for name, key in sheets.items()}
    return {
        name: path[1:] if path.startswith("/") else f"xl/{path}" for name, path in paths.items()
        if path
    }  # fmt: skip


_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})").fullmatch


def _place(text: str) -> tuple[int, int]:
    """Return row and column (from 1) of a place such as B7."""
    match = _PLACE(text)
    if match is None:
        raise UnfitError("a cell has no place")
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - 64
    return int(match[2]), column


class _XlsxScan(_Scan):
    """Walks over the elements of a sheet of an .xlsx."""

    def __init__(self, archive: zipfile.ZipFile, entry: str) -> None:
        super().__init__()
        self._at = (0, 0)
        self._kind = ""
        self._is_filled = self._is_formula = self._is_value = False
        starts = {
            "row": self._row, "c": self._cell, "v": self._value, "is": self._value,
            "f": self._formula, "mergeCell": self._merged,
        }  # fmt: skip

        def start(tag: str, entries: dict[str, str]) -> None:
            if (read := starts.get(tag.rpartition(":")[2])) is not None:
                read(entries)

        _parse(archive, entry, start, self._end, self._letters)

    def _row(self, entries: dict[str, str]) -> None:
        row = int(entries.get("r", self._at[0] + 1))
        if row <= self._at[0]:
            raise UnfitError(f"row {row} comes after row {self._at[0]}, and may replace another")
        self._at = (row, 0)
        if entries.get("hidden") in ("1", "true"):
            self.hidden.append(self._at[0])

    def _cell(self, entries: dict[str, str]) -> None:
        # A cell without a place is the next of its row.
        row, column = self._at
        self._at = _place(entries["r"]) if "r" in entries else (row, column + 1)
        if self._at == (row, column):
            raise UnfitError(f"cell {_name(row, column)} occurs twice")
        self._kind = entries.get("t", "n")
        self._is_filled = self._is_formula = False

    def _value(self, _: dict[str, str]) -> None:
        # A text of a formula may be empty.
        self._is_value, self._is_filled = True, self._kind == "str"

    def _letters(self, _: str) -> None:
        self._is_filled = self._is_filled or self._is_value

    def _formula(self, _: dict[str, str]) -> None:
        self._is_formula = True

    def _merged(self, entries: dict[str, str]) -> None:
        place = entries.get("ref", "")
        self.merged.append((_place(place.rpartition(":")[2])[0], place))

    def _end(self, tag: str) -> None:
        plain = tag.rpartition(":")[2]
        if plain in ("v", "is"):
            self._is_value = False
        if plain == "c" and (self._is_filled or self._is_formula):
            self.add(*self._at)
            if self._kind == "e":
                self.errors.append(_name(*self._at))
            elif not self._is_filled:
                self.unsaved.append(_name(*self._at))


def _sheets_of_ods(archive: zipfile.ZipFile) -> dict[str, str]:
    names: dict[str, str] = {}

    def table(tag: str, entries: dict[str, str]) -> None:
        if tag == "table:table":
            name = entries.get("table:name", "")
            names[name] = name

    _parse(archive, "content.xml", table)
    return names


class _OdsScan(_Scan):
    """Walks over the elements of a sheet of an .ods, whose rows and cells may be repeated."""

    def __init__(self, archive: zipfile.ZipFile, sheet: str) -> None:
        super().__init__()
        self._row = self._column = 0
        self._rows = 1
        is_here = False

        def start(tag: str, entries: dict[str, str]) -> None:
            nonlocal is_here
            if tag == "table:table":
                is_here = entries.get("table:name", "") == sheet
            elif is_here and tag == "table:table-row":
                self._add_row(entries)
            elif is_here and tag in ("table:table-cell", "table:covered-table-cell"):
                self._add_cells(entries)

        _parse(archive, "content.xml", start)

    def _add_row(self, entries: dict[str, str]) -> None:
        self._row, self._column = self._row + self._rows, 0
        self._rows = int(entries.get("table:number-rows-repeated", "1"))
        if entries.get("table:visibility") in ("collapse", "filter"):
            self.hidden.append(self._row)

    def _add_cells(self, entries: dict[str, str]) -> None:
        count = int(entries.get("table:number-columns-repeated", "1"))
        place = _name(self._row, self._column + 1)
        self._column += count
        spans = (entries.get(f"table:number-{of}-spanned", "1") for of in ("columns", "rows"))
        if any(int(span) > 1 for span in spans):
            self.merged.append((self._row, place))
        if "office:value-type" in entries:
            self.add(self._row + self._rows - 1, self._column)
            self.filled += self._rows * count - 1
        elif "table:formula" in entries:
            self.unsaved.append(place)
        if entries.get("calcext:value-type") == "error":
            self.errors.append(place)


def _database(source: Source) -> Cells:
    """Read a table of SQLite."""
    for journal in (Path(f"{source.file}-wal"), Path(f"{source.file}-journal")):
        # A journal that is done with is empty, or begins with zeros.
        if journal.exists() and np.fromfile(journal, np.uint8, 1).any():
            raise UnfitError(
                f"changes are in {journal.name} and not yet in it: close the programs that use it, "
                "or open it once with sqlite3"
            )
    address = f"file:{quote(os.fspath(source.file.resolve()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    # A database of others runs no function but harmless ones.
    connection.execute("PRAGMA trusted_schema = OFF")
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    tables = [
        name
        for name, text in connection.execute(query)
        if not str(text).upper().startswith("CREATE VIRTUAL")
    ]
    table = one_of(source, source.part, tables, "table").replace('"', '""')
    fields = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    names = [str(entry[1]) for entry in fields if entry[6] != 1]
    check_count(len(names), COLUMNS, "columns")
    listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    return Cells(names, connection.execute(f'SELECT {listed} FROM "{table}"'), 1)
