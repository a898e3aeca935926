"""How a text is a table: its encoding, what parts its fields, and which line names the columns.

A dialect that is declared is the only one that is tried. Where none is, that one is taken under
which every line at the top of the file has as many fields as the line of names; two such are
refused. All lines are held to it, so a record more can have a table refused, and nothing else.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .container import Source, measure, open_bytes, text_of
from .foreign import COLUMNS, ROW_LETTERS, UnfitError, check_count
from .tables import may_be_value

# Lines from which a dialect is recognised.
_SAMPLE = 100
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_SEPARATORS = (",", ";", "\t", "|")
# The first line of a table that Excel is to read: it names the separator.
_NAMED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE).fullmatch
# Rows that are texts of Python before they are columns, and fields of a block.
_ROWS, _CELLS = 8192, 1 << 22


class Dialect(BaseModel):
    """How a text is a table, where that is declared.

    Attributes
    ----------
    encoding
        As Python calls it: ``"cp1252"``, ``"utf-16-le"``, ``"shift_jis"``. A text that begins with
        a byte order mark says it itself; others are UTF-8.
    separator
        What stands between fields.
    quote
        What stands about a field in which the separator is not a separator.
    header
        The line, from 1, that names the columns.
    comment
        Lines that begin with it are none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoding: str = ""
    separator: Literal["", ",", ";", "\t", "|", " ", ":"] = ""
    quote: Literal['"', "'"] = '"'
    header: int = Field(default=0, ge=0)
    comment: str = Field(default="", max_length=4)

    @field_validator("encoding")
    @classmethod
    def _check(cls, name: str) -> str:
        try:
            # Codecs that are no encoding of text, such as zlib, have the same register.
            "".encode(name or "utf-8")
        except (LookupError, ValueError):
            raise ValueError("it is not an encoding of text; take one such as cp1252") from None
        return name


class _Lines:
    """Lines of a text for a reader of rows, which sets ``row`` to 0 after each of them.

    A row ends within a bound, even if its text has no line break, or a break in every field.
    """

    def __init__(self, text: IO[str], comment: str) -> None:
        self._text, self._comment = text, comment
        self.ahead: list[str] = []
        # Letters of the row that is read, where it starts, and the last line that was read.
        self.row = self.start = self.number = 0

    def look(self) -> list[str]:
        """Return the first lines, which are read again."""
        size = 0
        while len(self.ahead) < _SAMPLE and size < ROW_LETTERS:
            line = self._text.readline(ROW_LETTERS)
            if not line:
                break
            size += len(line)
            self.ahead.append(line)
        return self.ahead

    def skip(self, count: int) -> None:
        """Leave out lines at the top, which were looked at."""
        del self.ahead[:count]
        self.number += count

    def __iter__(self) -> Iterator[str]:
        read = self._text.readline
        rest_of_text = iter(lambda: read(ROW_LETTERS), "")
        for line in chain(self.ahead, rest_of_text):
            self.number += 1
            if self.row == 0:
                self.start = self.number
                if self._comment and line.startswith(self._comment):
                    continue
            self.row += len(line)
            if self.row >= ROW_LETTERS:
                raise UnfitError(f"line {self.start} has {ROW_LETTERS:,} characters or more")
            yield line


@dataclass(frozen=True)
class Rows:
    """Rows of a text: names of columns, and fields that are as many in every row."""

    names: Sequence[str]
    header: int
    """The line of the names, from 1."""
    _lines: _Lines
    _reader: Iterator[list[str]]
    share: Callable[[], float]
    """How much of the file has been read."""

    def blocks(self) -> Iterator[tuple[list[tuple[str, ...]], list[int]]]:
        """Yield some thousand rows at a time, by columns, and the line of each."""
        rows, places, blank = list[list[str]](), list[int](), 0
        width = len(self.names)
        most = max(1, min(_ROWS, _CELLS // width))
        for row in self._reader:
            if len(row) != width or blank:
                # Blank lines may end a file.
                if not row:
                    blank = blank or self._lines.start
                    continue
                self._refuse(row, blank)
            rows.append(row)
            places.append(self._lines.start)
            if len(rows) == most:
                yield list(zip(*rows, strict=True)), places
                rows, places = [], []
        if rows:
            yield list(zip(*rows, strict=True)), places

    def _refuse(self, row: Sequence[str], blank: int) -> None:
        if blank:
            words = f"line {blank} is blank, and records follow: delete it"
            raise UnfitError(words + self._cure(row))
        many, width = len(row), len(self.names)
        line = self._lines.start
        words = (
            f"line {line} has {many} field{'s' * (many != 1)}, and the names of columns, in line "
            f"{self.header}, are {width}"
        )
        if many > width:
            words += self._cure(row)
        if many == width + 1 and not row[-1].strip():
            words += ": it ends with a separator, and the line of names does not"
        raise UnfitError(words)

    def _cure(self, row: Sequence[str]) -> str:
        """Say what to write where a row at the top may be that of the names."""
        line = self._lines.start
        if line > self.header + 8 or not may_be_names(row) or any(map(may_be_value, row)):
            return ""
        cure = f"file: {{header: {line}}}"
        return f"; or, if line {line} has the names, say so in a site file: {cure}"


@contextmanager
def open_rows(source: Source, dialect: Dialect, *, is_measured: bool = True) -> Iterator[Rows]:
    """Open a text as rows.

    A packed one is unpacked twice: once to measure it, for what follows reads more slowly.
    """
    if is_measured:
        measure(source)
    size = max(source.file.stat().st_size, 1)
    with source.file.open("rb") as packed, open_bytes(source, packed) as stream:
        text = text_of(stream, _encoding(source, dialect))
        lines = _Lines(text, dialect.comment)
        try:
            if not any(line.strip() for line in lines.look()):
                raise UnfitError("it is empty, or has only blank lines at the beginning")
            separator, first = _layout(lines.ahead, dialect)
            lines.skip(first)
            reader = _strict(lines, separator, dialect.quote)
            names = next(reader, None)
            if not names or not any(name.strip() for name in names):
                line = max(lines.start, 1)
                raise UnfitError(
                    f"line {line} has no names of columns: write them there, or say which line has "
                    f"them in a site file: file: {{header: {line + 1}}}"
                )
            check_count(len(names), COLUMNS, "columns")
            yield Rows(names, lines.start, lines, reader, lambda: packed.tell() / size)
        except UnicodeError:
            raise UnfitError(_undecoded(source, dialect)) from None


def _strict(lines: _Lines, separator: str, quote: str) -> Iterator[list[str]]:
    """Read rows; a quote that is not closed must not swallow other records."""
    try:
        for row in csv.reader(lines, delimiter=separator, quotechar=quote, strict=True):
            lines.row = 0
            yield row
    except csv.Error as error:
        # Its words name signs and limits, and no field.
        words = str(error)
        if "expected after" in words or "unexpected end" in words:
            words = "a quote is not closed, or text follows a closing quote: write quotes in a "
            words += "field twice, or say in a site file what separates fields, such as blanks: "
            words += "file: {separator: ' '}"
        raise UnfitError(f"line {lines.start}: {words}") from None


def _encoding(source: Source, dialect: Dialect) -> str:
    with open_bytes(source) as stream:
        head = stream.read(512)
    marked = next((encoding for mark, encoding in _MARKS if head.startswith(mark)), "")
    encoding = marked or dialect.encoding or "utf-8"
    if b"\0" in head and not encoding.startswith(("utf-16", "utf-32")):
        raise UnfitError(
            "it has zero bytes, and no byte order mark: if it is text in UTF-16, say so in a site "
            "file: file: {encoding: utf-16-le}"
        )
    return encoding


def _undecoded(source: Source, dialect: Dialect) -> str:
    """Say which line is not in the encoding."""
    encoding = dialect.encoding or "utf-8"
    cure = "save it as UTF-8, or say its encoding in a site file: file: {encoding: cp1252}"
    with open_bytes(source) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(ROW_LETTERS), b""), 1):
            try:
                line.decode(encoding)
            except UnicodeError:
                return f"line {number} is not {encoding.upper()} text: {cure}"
    return f"it is not {encoding.upper()} text: {cure}"


@dataclass(frozen=True)
class _Layout:
    """How the first lines are parted by one separator."""

    separator: str
    header: int
    """Lines before that of the names."""
    width: int
    is_even: bool
    """Whether all rows have as many fields as there are names."""


def _layout(lines: Sequence[str], dialect: Dialect) -> tuple[str, int]:
    """Return the separator, and how many lines are before that of the names."""
    named = _NAMED(lines[0]) if lines else None
    separators = _SEPARATORS
    if dialect.separator or named:
        separators = (dialect.separator or (named[1] if named else ""),)
    first = 1 if named else 0
    if dialect.header:
        if dialect.header > len(lines):
            raise UnfitError(f"it has no line {dialect.header}, which is to name the columns")
        first = dialect.header - 1
    layouts = [_part(lines, first, separator, dialect) for separator in separators]
    even = [layout for layout in layouts if layout.is_even]
    # A table that begins at the top is none below a title; and a field alone is a column.
    many = [one for one in even if one.width > 1]
    top = [one for one in many if one.header == min(layout.header for layout in many)]
    if len(top) > 1:
        ways = " or ".join(f"file: {{separator: {one.separator!r}}}" for one in top)
        raise UnfitError(
            f"{len(top)} separators are possible: say in a site file which one, {ways}"
        )
    widest = max(layouts, key=lambda layout: layout.width)
    best = top[0] if top else widest if widest.width > 1 or not even else even[0]
    return best.separator, best.header


def _part(lines: Sequence[str], first: int, separator: str, dialect: Dialect) -> _Layout:
    rows = list(_split(lines, first, separator, dialect))
    comment = dialect.comment or "#"
    starts = [
        k for k, (place, row) in enumerate(rows)
        if any(row) and not (lines[place].startswith(comment) and not dialect.header)
    ]  # fmt: skip
    top = starts[0] if starts else 0
    if not dialect.header:
        # Titles are left out where a line of names and records of as many fields are below them.
        below = next((k for k in starts if may_be_names(rows[k][1])), top)
        is_table = below == top or (
            not any(text.strip() and may_be_value(text) for text in rows[below][1])
            and _is_even(rows[below:], lines)
            and len(rows) > below + 1
        )
        top = below if is_table else top
        # A line of empty names at the top is one of names that are absent, and no title.
        top = 0 if rows and len(rows[0][1]) > 1 and not any(rows[0][1]) else top
    if not rows:
        return _Layout(separator, first, 0, is_even=False)
    place, names = rows[top]
    above = rows[top - 1][1] if top else []
    is_marked = not dialect.header and not dialect.comment and len(above) == len(names) > 1
    if is_marked and above[0].startswith("#") and any(map(may_be_value, names)):
        raise UnfitError(
            f"line {place} begins with # and may have the names of columns: say so in a site file: "
            f"file: {{header: {place}}}"
        )
    return _Layout(separator, place, len(names), _is_even(rows[top:], lines))


def _is_even(rows: Sequence[tuple[int, list[str]]], lines: Sequence[str]) -> bool:
    """Return whether all rows that are not blank have as many fields as the first."""
    # The last row may be cut off where the sample ends.
    others = rows[1:-1] if len(lines) >= _SAMPLE else rows[1:]
    return all(len(row) == len(rows[0][1]) for _, row in others if row)


def _split(
    lines: Sequence[str], first: int, separator: str, dialect: Dialect
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows and the number of lines before each; titles may have a quote of their own."""
    reader = csv.reader(lines[first:], delimiter=separator, quotechar=dialect.quote)
    place = first
    try:
        for row in reader:
            yield place, row
            place = first + reader.line_num
    except csv.Error:
        return


def may_be_names(row: Sequence[str]) -> bool:
    """Return whether a row may name columns: a title is a field, or one and empty ones after it."""
    filled = [bool(text.strip()) for text in row]
    return len(row) > 1 and any(filled) and (sum(filled) > 1 or not filled[0])
