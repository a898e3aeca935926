"""Tables: records by rows, fields by named columns, and data frames as such."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, islice, pairwise
from numbers import Integral, Number
from typing import Any, NamedTuple, Self, TypeVar, cast, overload

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ..errors import ExtraError, FileError, InputError, MismatchError
from .names import canonical, header_names, listing, similar
from .notation import (
    MISSING,
    PLAIN,
    Reading,
    is_ambiguous,
    is_missing,
    number_of,
    possible,
    read_numbers,
)

T = TypeVar("T")
Array = npt.NDArray[np.float64]
# What no category, and no number, is called.
NO_NAME = "\0"
# What is written above the index of a data frame.
_NAMELESS = ("", "Unnamed: 0", "__index_level_0__")


class Texts(Sequence[str]):
    """Texts one after another in one buffer: as strings, fields of a few letters take tenfold."""

    def __init__(self) -> None:
        self._letters = bytearray()
        self._ends = array("q", [0])
        self.typed: set[int] = set()
        self.days: dict[int, date] = {}

    @classmethod
    def of(cls, values: Sequence[Any], write: Callable[[Any], str]) -> Self:
        """Write values of several types, and keep which are numbers (``typed``) or days.

        What a program writes for them does not depend on the notation or format of the texts.
        """
        texts = cls()
        texts.extend(map(write, values))
        texts.typed = {k for k, value in enumerate(values) if isinstance(value, Number)}
        texts.days = {k: value for k, value in enumerate(values) if isinstance(value, date)}
        return texts

    @property
    def spelled(self) -> Sequence[str]:
        """The texts, empty where a number is."""
        if not self.typed:
            return self
        return ["" if row in self.typed else text for row, text in enumerate(self)]

    def extend(self, texts: Iterable[str]) -> None:
        """Add texts."""
        coded = [text.encode() for text in texts]
        self._ends.extend(islice(accumulate(map(len, coded), initial=self._ends[-1]), 1, None))
        self._letters += b"".join(coded)

    def __iter__(self) -> Iterator[str]:
        letters = bytes(self._letters)
        return (letters[start:end].decode() for start, end in pairwise(self._ends))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        k = range(len(self))[place]
        return self._letters[self._ends[k] : self._ends[k + 1]].decode()


class Rows:
    """Rows of an array that grows in place."""

    def __init__(self, width: int) -> None:
        self._buffer = np.empty((0, width))
        self.size = 0

    def add(self, rows: Array, share: float = 1.0) -> None:
        """Add rows; with them a share of all that come has come."""
        size = self.size + len(rows)
        if self.size == 0:
            # Memory that no row is written to is not taken.
            self._buffer = np.empty((int(1.02 * size / max(share, 1e-6)) + 1, rows.shape[1]))
        if size > len(self._buffer):
            capacity = max(size, len(self._buffer) + len(self._buffer) // 16)
            # In place, since a copy would need the memory twice; no other array shares it.
            self._buffer.resize((capacity, self._buffer.shape[1]), refcheck=False)
        self._buffer[self.size : size] = rows
        self.size = size

    @property
    def array(self) -> Array:
        return self._buffer[: self.size]


@dataclass(frozen=True, eq=False)
class Table:
    """Records by rows, fields by named columns.

    What a field says follows from that field alone. A column has no type in a csv: one that is
    guessed from all its fields would make one record decide how the others are read.

    Attributes
    ----------
    columns
        The columns by name; those of a text are numbers that are read, or texts as they are
        written.
    lines
        The line of each record in its file, where it has lines.
    line
        What a line is called: that of a workbook is a row.
    pointed
        Columns of numbers that are read, some with a decimal point.
    is_named
        Whether the columns have names for sure: the first line of a csv may be a record.
    matrix
        The columns that are arrays, side by side.
    """

    columns: Mapping[str, nw.Series[Any] | Texts | Array] = field(repr=False)
    lines: Sequence[int] = ()
    line: str = "line"
    pointed: frozenset[str] = frozenset()
    is_named: bool = True
    matrix: Array | None = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    @property
    def height(self) -> int:
        """Number of records."""
        return max(map(len, self.columns.values()), default=0)

    def called(self, name: str) -> str:
        """A column in words: its name, or its place where that may be a value of the data."""
        return repr(name) if self.is_named else f"no. {self.names.index(name) + 1}"

    def not_numbers(self, name: str) -> str | None:
        """Why a column is not one of numbers, ``None`` if it is; without any value of it."""
        column = self.columns[name]
        if isinstance(column, nw.Series):
            # A column of missing values only has no type; its NaN are reported as such.
            is_numeric = column.dtype.is_numeric() or column.dtype == nw.Boolean
            if column.dtype == nw.Object:
                # Decimals of pandas, or numbers of several types. A text is none of them.
                texts = list(map(written, fields_of(column)))
                is_numeric = not read_numbers(texts).unread.any()
            # What stands in brackets is left out: categories are values of the data.
            odd = not is_numeric and column.null_count() < len(column)
            return str(column.dtype).split("(")[0] if odd else None
        if isinstance(column, np.ndarray):
            return None
        reading = self.readings[name]
        if reading.notation is not None:
            sign = reading.notation.affix
            # Another table may have another unit, and what a limit stands for is to be decided.
            if sign not in ("", "%"):
                return f"its numbers are in {sign!r}"
            return "its numbers have limits, such as <5" if reading.notation.limits else None
        if not reading.notations:
            fields = "field" if reading.unread == 1 else "fields"
            return f"{reading.unread} {fields}, the first in {self.place(reading.row)}"
        ways = " or ".join(str(notation) for notation in reading.notations[:3])
        return f"{self.place(reading.row)} can be read as different numbers: notation {ways}"

    def place(self, row: int) -> str:
        """Return where a record stands, in words."""
        return f"{self.line} {self.lines[row]}" if self.lines else f"record {row + 1}"

    @cached_property
    def readings(self) -> Mapping[str, Reading]:
        """In which notations each column of texts is one of numbers."""
        texts = {n: column for n, column in self.columns.items() if isinstance(column, Texts)}
        readings = {name: _reading(column) for name, column in texts.items()}
        readings |= {name: Reading((PLAIN,), is_marked=True) for name in self.pointed}
        unsure = [name for name, reading in readings.items() if len(reading.notations) > 1]
        # One table has one mark for decimals, if columns that say which agree.
        marks = {
            reading.notation.decimal
            for reading in readings.values() if reading.notation and reading.is_marked
        }  # fmt: skip
        if unsure and len(marks) == 1:
            readings |= {name: possible(texts[name].spelled, "".join(marks)) for name in unsure}
        return readings

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """A column of numbers; missing fields are NaN, and true and false 1 and 0."""
        column = self.columns[name]
        if isinstance(column, np.ndarray):
            return column
        if isinstance(column, Texts):
            notation = self.readings[name].notation
            assert notation is not None
            return read_numbers(column, notation).values
        if column.dtype == nw.Object or column.dtype == nw.Decimal:
            # By their texts: dividing by the power of ten of the column may round otherwise.
            return read_numbers(list(map(written, fields_of(column)))).values
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)

    def values(self, name: str) -> list[Any]:
        """Fields of a column one by one, ``None`` where missing."""
        column = self.columns[name]
        if isinstance(column, Texts):
            return [None if canonical(value) in MISSING else value for value in column]
        # What is asked for as texts is kept as such.
        assert isinstance(column, nw.Series)
        fields = fields_of(column)
        if column.dtype.is_float():
            # In the type of the column: to a float32, Python gives digits it does not have.
            kind = np.float64 if column.dtype == nw.Float64 else np.float32
            return [None if value is None or value != value else kind(value) for value in fields]
        return fields

    def texts(self, name: str) -> list[str | None]:
        """Fields of a column as texts, ``None`` where there is nothing; "NA" is a text here."""
        column = self.columns[name]
        if isinstance(column, Texts):
            return [text or None for text in column]
        assert isinstance(column, nw.Series)
        try:
            return fields_of(column.cast(nw.String))
        except (*errors_of_polars(), ValueError, TypeError, NotImplementedError):
            kind = str(column.dtype).split("(")[0]
            raise InputError(
                f"column {name!r} is not a text ({kind}).", code="measure-dtype"
            ) from None

    def check_names(self, wanted: Sequence[str]) -> None:
        """Raise where a column is named that is not there."""
        absent = [name for name in wanted if name not in self.columns]
        if absent:
            near = similar(absent[0], self.columns) if self.is_named else ""
            names = listing([self.called(name) for name in self.columns])
            text = f"there is no column {absent[0]!r}; there is {near or names}"
            raise FileError(text + (": write it so." if near else "."), code="file-columns")

    def parts(
        self,
        features: Sequence[str] | None = None,
        *,
        labels: str | None = None,
        weights: str | None = None,
        identifiers: str | None = None,
        missing_label: str | None = None,
    ) -> Parts:
        """Return what a measure is made of; features are by default the columns not named."""
        labels, weights, identifiers = (
            None if name is None else canonical(name) for name in (labels, weights, identifiers)
        )
        chosen = list(map(canonical, features or ()))
        names = self._feature_columns(chosen, labels, weights, identifiers)
        cure = (
            "Name the columns of features, or of the labels, or read the table by a schema, which "
            "takes words and dates too (`silot schema draft FILE`)"
        )
        self.check_numbers(names, cure)
        arrays = [name for name, column in self.columns.items() if isinstance(column, np.ndarray)]
        if self.matrix is not None and names == arrays:
            points = self.matrix
        else:
            points = np.column_stack([self.numbers(name) for name in names])
        cure = "Drop those records, or read the table by a schema with missing: indicator"
        # Both are seen in one pass, and no mask of all fields is made of a table without them.
        if not np.isfinite([points.min(), points.max()]).all():
            self._refuse(names, np.isnan(points), "are missing", cure, "measure-nan")
            cure = "Drop those records, or write what is missing as NA"
            self._refuse(names, np.isinf(points), "are infinite", cure, "measure-infinite")
        if weights is not None and (why := self.not_numbers(weights)) is not None:
            raise InputError(
                f"weight column {weights!r} is not numeric ({why}).", code="weights-dtype"
            )
        masses = None
        if weights is not None:
            masses = self.numbers(weights)
            cure = "Give each record a weight of 0 or more"
            column = masses[:, None]
            self._refuse([weights], np.isnan(column), "are not weights", cure, "weights-nan")
            self._refuse([weights], column < 0, "are below 0", cure, "weights-negative")
        kinds = None if labels is None else self.values(labels)
        if kinds is not None and missing_label is not None:
            kinds = [missing_label if label is None else label for label in kinds]
        if labels is not None and kinds is not None:
            missing = np.array([[label is None] for label in kinds], dtype=np.bool_)
            cure = "Drop those records, or give them a class of their own"
            self._refuse([labels], missing, "are missing", cure, "labels-missing")
        return Parts(points, masses, kinds, names)

    def _refuse(
        self, names: Sequence[str], bad: npt.NDArray[np.bool_], what: str, cure: str, code: str
    ) -> None:
        """Refuse fields (n, d) of columns, by the place of the first of each."""
        if bad.any():
            places = [
                f"{self.called(name)} ({int(column.sum())}, the first in "
                f"{self.place(int(np.argmax(column)))})"
                for name, column in zip(names, bad.T, strict=True)
                if column.any()
            ]
            raise InputError(f"fields {what}: {listing(places)}. {cure}.", code=code)

    def _feature_columns(
        self,
        features: Sequence[str],
        labels: str | None,
        weights: str | None,
        identifiers: str | None,
    ) -> list[str]:
        """Columns of features: those that were named, or those that are nothing else."""
        others = [name for name in (labels, weights, identifiers) if name is not None]
        chosen = list(features)
        self.check_names([*chosen, *others])
        if len(set(chosen)) < len(chosen):
            raise InputError("a feature column is named twice.", code="option-columns")
        # Weights may be labels too: a column of counts.
        mixed = [n for n in others if n in chosen or (n == identifiers and others.count(n) > 1)]
        if mixed:
            raise InputError(
                f"column {mixed[0]!r} is named as two of features, labels, weights, identifiers.",
                code="option-columns",
            )
        names = chosen or [
            name for name in self.columns if name not in others and not self._is_void(name)
        ]
        numbers = [name for name in names if name in _NAMELESS and not chosen]
        if numbers:
            raise InputError(
                f"column no. {self.names.index(numbers[0]) + 1} has no name; it may hold the row "
                "numbers that R and pandas write. Delete it, name it, or name the columns of "
                "features.",
                code="measure-unnamed",
            )
        if not names:
            raise InputError("no feature column is left.", code="measure-empty")
        if self.height == 0:
            raise InputError("the table has names of columns and no record.", code="measure-empty")
        return names

    def _is_void(self, name: str) -> bool:
        """Return whether a column has no name and no field: all lines end with a separator."""
        column = self.columns[name]
        return name == "" and isinstance(column, np.ndarray) and bool(np.isnan(column).all())

    def check_numbers(self, names: Sequence[str], cure: str) -> None:
        """Refuse columns that are not numeric."""
        odd = [name for name in names if self.not_numbers(name) is not None]
        if odd:
            reading = self.readings.get(odd[0])
            if self.line == "line" and reading and not reading.notations and reading.row == 0:
                if len(self.columns) == 1:
                    cure += "; or say what separates fields in a site file (file: {separator: ' '})"
                elif reading.unread == 1:
                    line = f"file: {{header: {self.lines[0]}}}"
                    cure += f"; or say in a site file that this line has the names ({line})"
            why = f"is not numeric ({self.not_numbers(odd[0])})"
            raise InputError(
                f"column {self.called(odd[0])} {why}. {cure}; "
                f"not numeric: {listing([self.called(name) for name in odd])}.",
                code="measure-dtype",
            )
        marked = [
            [name for name in names if self._mark(name) == mark] for mark in (".", ",")
        ]  # fmt: skip
        if all(marked):
            with_point, with_comma = (listing([self.called(name) for name in n]) for n in marked)
            raise InputError(
                f"decimals follow a point in {with_point} and a comma in "
                f"{with_comma}: one of these marks may separate thousands. Write one mark, or read "
                "the table by a schema that says the notation of each column.",
                code="measure-dtype",
            )

    def _mark(self, name: str) -> str:
        """The mark that shows in a column, if it does not part thousands."""
        reading = self.readings.get(name)
        if reading is None or reading.notation is None or not reading.is_marked:
            return ""
        return reading.notation.decimal


def _reading(column: Texts) -> Reading:
    """Find the notations of a column; most have the one of programs, which takes one pass."""
    numbers, texts = read_numbers(column), column.spelled
    if not numbers.unread.any() and not is_ambiguous(texts):
        return Reading((PLAIN,), is_marked=any("." in text for text in texts))
    return possible(texts)


class Parts(NamedTuple):
    """Records, weights and labels of a table, and the names of its features."""

    points: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64] | None
    labels: list[Any] | None
    columns: list[str]


def frame_table(data: object) -> Table | None:
    """Return a data frame of any library as a table, ``None`` where data are not a frame."""
    # Arrays and lists, which are most data, need not wait for an import.
    if isinstance(data, np.ndarray | list | tuple):
        return None
    try:
        if type(data).__module__ == "datasets.arrow_dataset":
            # Of Hugging Face, which hands on no stream, and may have chosen rows of its table.
            data = cast("Any", data).with_format("arrow")[:]
        frame = _native(data)
        if hasattr(data, "__arrow_c_stream__") and not isinstance(frame, nw.DataFrame | nw.Series):
            frame = _of_stream(data)
        if isinstance(frame, nw.LazyFrame):
            raise InputError(
                "the data are a query that was not run. Give its result: frame.collect().",
                code="frame-lazy",
            )
        return table_of(frame) if isinstance(frame, nw.DataFrame) else None
    except FileError as error:
        why = error.message
    except (nw.exceptions.DuplicateError, *errors_of_polars()) as error:
        why = f"the columns cannot be read ({type(error).__name__}). Give each a name of its own."
    raise InputError(why, code="frame-columns")


def _native(data: object) -> Any:
    """Return what narwhals makes of data, themselves where it knows no such kind."""
    return nw.from_native(cast("Any", data), allow_series=True, pass_through=True)


def _of_stream(data: Any) -> nw.DataFrame[Any]:
    """Read a table that Arrow hands on, such as a batch of pyarrow or a relation of duckdb."""
    for backend in ("polars", "pyarrow"):
        with suppress(ImportError):
            return nw.from_arrow(data, backend=backend)
    raise ExtraError(
        f"a {type(data).__name__} is read with polars or pyarrow. Run: pip install "
        "'silot[parquet]', or give a data frame.",
        code="extra-parquet",
    )


def align(records: object, fields: T, what: str) -> T:
    """Return fields in the order of their records: by the index where both are of pandas."""
    sides = _native(records), _native(fields)
    if not all(isinstance(side, nw.DataFrame | nw.Series) for side in sides):
        return fields
    own, other = map(nw.maybe_get_index, sides)
    # Another number of them is refused elsewhere.
    if own is None or other is None or own.equals(other) or len(own) != len(other):
        return fields
    if own.is_unique and other.is_unique and other.isin(own).all():
        return nw.maybe_align_index(*reversed(sides)).to_native()
    raise MismatchError(
        f"the index of {what} is not that of the records. If their rows are in the same order, "
        f"give {what}.to_numpy(), or call .reset_index(drop=True) on both; else set the same "
        "index, without repetitions, on both.",
        code="frame-index",
    )


def table_of(frame: nw.DataFrame[Any]) -> Table:
    """A data frame as a table."""
    names = header_names(frame.columns)
    return Table({n: frame.get_column(raw) for n, raw in zip(names, frame.columns, strict=True)})


def fields_of(column: nw.Series[Any]) -> list[Any]:
    """Return the fields of a column, ``None`` where the library has a missing value."""
    missing = column.is_null().to_list()
    return [None if no else value for value, no in zip(column.to_list(), missing, strict=True)]


def written(value: Any, *, text: bool = False) -> str:
    """Return a field of any type as the text of a number, or as that of no number."""
    if value is None or (text and isinstance(value, str)):
        return value or ""
    if not isinstance(value, np.bool_ | Integral | float | np.floating | Decimal):
        return NO_NAME
    try:
        return repr(float(value))
    except (OverflowError, ValueError):
        return NO_NAME


def may_be_value(name: str) -> bool:
    """Return whether a column name may be a field of a record: a number, a day, or nothing."""
    if is_missing(name) or number_of(name.replace(",", ".")) is not None:
        return True
    try:
        date.fromisoformat(name.strip())
    except ValueError:
        return False
    return True


def named(columns: Mapping[str, Sequence[str]] | Mapping[str, nw.Series[Any]]) -> bool:
    """Return whether columns have names for sure: those of a csv stand above numbers, and are none.

    Of a csv that starts with a record, numbers stand above numbers; of one of texts alone nothing
    tells what its first line is.
    """
    above: list[str] = []
    for name, fields in columns.items():
        if isinstance(fields, nw.Series):
            return True
        if len(fields) and fields[0].strip() not in MISSING and may_be_value(fields[0]):
            above.append(name)
    return bool(above) and not any(map(may_be_value, above))


def errors_of_polars() -> tuple[type[Exception], ...]:
    """Errors of polars, where it was imported: by us, or by whoever gave a frame of it."""
    polars = sys.modules.get("polars")
    return () if polars is None else (polars.exceptions.PolarsError,)
