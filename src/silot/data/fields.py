"""Fields of a column as numbers, names and days: each by itself, whatever the others are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .label_names import label_name
from .names import canonical, look_of
from .notation import (
    MISSING,
    PLAIN,
    Notation,
    Numbers,
    Reading,
    is_ambiguous,
    number_of,
    possible,
    read_numbers,
)
from .tables import NO_NAME, Texts, fields_of, written

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]
T = TypeVar("T")
Fields = Sequence[str] | nw.Series[Any]
"""A column of a csv, whose fields are texts, or of a type."""

_SECONDS = 86_400.0
# Numbers that stand for what is none of the names, among codes: like one of them, another, missing.
ALIKE, UNREAD, EMPTY = -3, -2, -1
# Fields that are kept to tell a notation by.
_MOST_SIGNS = 20_000
# Fields beside them that a notation must read, too.
_FEW = 100


class Alike:
    """Return whether a text is like one of some names, and none of them.

    Examples
    --------
    >>> alike = Alike(["type 2", "1"])
    >>> alike("Type-2"), alike("01"), alike("-1"), alike("type 2"), alike("type 3")
    (True, True, False, False, False)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._plain = {plain(name) for name in self._names}

    def __call__(self, text: str) -> bool:
        return text not in self._names and plain(text) in self._plain


def plain(text: str) -> str | float:
    """Return what is left of a name without case, alphabet, blanks, signs and zeros in front.

    Numbers are what they are: -1 is not 1, and <5 is not >5.
    """
    number = number_of(text)
    if number is not None and number == number:
        return number
    return re.sub(r"[\s_.,;:/'\"()\u2044-]+", "", look_of(text)) or text


def as_numbers(
    column: Fields, sentinels: Collection[str] = (), notation: Notation = PLAIN
) -> Numbers:
    """Read fields as numbers; sentinels, too, are compared as numbers."""
    empty = frozenset(sentinels)
    if not isinstance(column, nw.Series) or is_textual(column.dtype):
        values, unread = read_numbers(texts_of(column), notation, empty)
    elif column.dtype == nw.Boolean or (column.dtype.is_numeric() and column.dtype != nw.Decimal):
        values = np.array(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
        unread = np.zeros(len(values), dtype=np.bool_)
    else:
        # By their texts, each as if it were alone: which type a column has follows from all its
        # fields, and a decimal divided by the power of ten of its column may round otherwise.
        texts = Texts.of(fields_of(column), lambda value: written(value, text=True))
        values, unread = read_numbers(texts, notation, empty)
    codes = [
        number
        for sentinel in sentinels
        for number in (number_of(sentinel), number_of(sentinel, notation))
        if number is not None
    ]
    infinite = np.isinf(values)
    if codes or infinite.any():
        # An infinite number cannot be read.
        values, unread = np.where(infinite, np.nan, values), unread | infinite
        values = np.where(np.isin(values, codes), np.nan, values)
    return Numbers(values, unread)


@dataclass(eq=False)
class Signs:
    """Fields of a column that show in which notation it writes its numbers.

    They are gathered block by block: what programs do not read as numbers, and points that may
    part thousands.
    """

    odd: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By field the row of the first, and how many there are."""
    pointed: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    plain: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """A few of the others, as all must be numbers in one notation."""
    is_unsure: bool = True
    """Whether every point so far may part thousands."""
    rows: int = 0

    def add(self, column: Fields, unread: Bools | None = None) -> None:
        """Look at the fields of a block; which are not plain numbers may be passed on."""
        first, self.rows = self.rows, self.rows + len(column)
        if isinstance(column, nw.Series) and not is_textual(column.dtype):
            return
        texts = texts_of(column)
        typed = getattr(texts, "typed", ())
        if unread is None:
            unread = read_numbers(texts).unread
        for row in np.flatnonzero(unread).tolist():
            self._keep(self.odd, texts[row], first + row)
        if len(self.plain) < _FEW:
            others = (row for row in np.flatnonzero(~unread).tolist() if texts[row])
            for row in islice((row for row in others if row not in typed), _FEW):
                self._keep(self.plain, texts[row], first + row)
        if self.is_unsure:
            plain = [
                row for row, text in enumerate(texts)
                if "." in text and not unread[row] and row not in typed
            ]  # fmt: skip
            self.is_unsure = not plain or is_ambiguous(texts[row] for row in plain)
            for row in plain:
                self._keep(self.pointed, texts[row], first + row)

    def _keep(self, of: dict[str, tuple[int, int]], text: str, row: int) -> None:
        if text in of or len(of) < _MOST_SIGNS:
            place, count = of.get(text, (row, 0))
            of[text] = place, count + 1

    def reading(self, sentinels: Collection[str] = (), marks: str = ".,") -> Reading:
        """Return the notations that remain, of all fields that were gathered."""
        if not self.odd and not (self.pointed and self.is_unsure):
            return Reading((PLAIN,), is_marked=bool(self.pointed))
        return possible({**self.plain, **self.pointed, **self.odd}, marks, sentinels)


class Sample:
    """Some rows of a column, evenly over all of them and at most so many."""

    def __init__(self, most: int) -> None:
        self._most, self._step, self._next = most, 1, 0
        self._parts: list[npt.NDArray[Any]] = []

    def rows(self) -> slice:
        """Return which rows of the next block it takes."""
        return slice(self._next, None, self._step)

    def add(self, height: int, *parts: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """Add what these rows of a block of some height have, and return what all rows have."""
        self._next += len(parts[0]) * self._step - height
        before = self._parts or [part[:0] for part in parts]
        self._parts = [np.concatenate(pair) for pair in zip(before, parts, strict=True)]
        while len(self._parts[0]) > self._most:
            # From now on every other row, and every other one of those already here.
            self._next += self._step * (len(self._parts[0]) % 2)
            self._parts, self._step = [part[::2] for part in self._parts], 2 * self._step
        return self._parts


def is_textual(kind: Any) -> bool:
    """Return whether a column of this type has texts."""
    return kind == nw.String or kind == nw.Categorical or isinstance(kind, nw.Enum)


def texts_of(column: Fields) -> Sequence[str]:
    """Return the fields of a column of texts, empty where nothing is there."""
    if isinstance(column, nw.Series):
        return [text or "" for text in fields_of(column.cast(nw.String))]
    return column


def as_codes(column: Fields, places: dict[str, int], sentinels: Collection[str] = ()) -> Codes:
    """Places (n,) of the names of fields.

    ``EMPTY`` for missing ones, ``ALIKE`` for those that differ from a name in how they are written
    alone, and ``UNREAD`` for others.
    """
    missing, alike = {*MISSING, *sentinels}, Alike(places)

    def code(value: Any) -> int:
        name = _name(value)
        if name in places:
            return places[name]
        if name is None or name in missing:
            return EMPTY
        return ALIKE if alike(name) else UNREAD

    return np.array(_each(column, code), dtype=np.int64)


def as_names(column: Fields, missing: Collection[str] = MISSING) -> list[str | None]:
    """Names of fields, as labels are named; ``None`` where they are missing."""

    def name(value: Any) -> str | None:
        text = _name(value)
        return None if text is None or text in missing else text

    return _each(column, name)


def as_days(column: Fields, form: str, sentinels: Collection[str] = ()) -> Numbers:
    """Fields as days since 1970-01-01, with the part of the day that has passed."""
    missing = {*MISSING, *sentinels}
    if days := getattr(column, "days", None):
        column = [days.get(row, text) for row, text in enumerate(column)]
    values = np.array(_each(column, lambda value: _day(value, form, missing)), dtype=np.float64)
    unread = np.isposinf(values)
    return Numbers(np.where(np.isfinite(values), values, np.nan), unread)


def hashes(column: Fields) -> Codes:
    """A number for each field, -1 where it is empty; others share one but for a pair in 2^64."""
    values = _values(column)
    # No value has the hash -1.
    numbers = (-1 if value is None or value == "" else hash(value) for value in values)
    return np.fromiter(numbers, np.int64)


def _each(column: Fields, read: Callable[[Any], T]) -> list[T]:
    """Return what is read of every field, once for all that are the same."""
    results: dict[Any, T] = {}
    fields: list[T] = []
    for value in _values(column):
        # Values of other types may be equal, as 1.0 and True, and are not read alike.
        if type(value) not in (str, int):
            fields.append(read(value))
            continue
        if value not in results:
            results[value] = read(value)
        fields.append(results[value])
    return fields


def _values(column: Fields) -> Sequence[Any]:
    return fields_of(column) if isinstance(column, nw.Series) else column


def _name(value: Any) -> str | None:
    """Return what a field is called, ``None`` where nothing is there."""
    if value is None or (isinstance(value, float | np.floating) and value != value):
        return None
    try:
        return label_name(value)
    except (InputError, ValueError):
        # Of a kind that has no name, or a number that has no text.
        return NO_NAME


def _day(value: Any, form: str, missing: Collection[str]) -> float:
    """Days since 1970-01-01, NaN for a missing field, infinity for one that is not a day."""
    text = canonical(value) if isinstance(value, str) else ""
    if value is None or (isinstance(value, str) and text in missing):
        return np.nan
    try:
        if text:
            value = datetime.fromisoformat(text) if form == "iso" else datetime.strptime(text, form)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        # A number may count days from anywhere.
        if not isinstance(value, datetime):
            return np.inf
        # A time that names its zone is the same moment everywhere.
        moment = value.replace(tzinfo=value.tzinfo or UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / _SECONDS
    except (ValueError, OverflowError):
        return np.inf
