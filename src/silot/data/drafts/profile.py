"""What is gathered of the columns of a table, block by block: enough to propose a description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ..column_checks import HolderSample
from ..coordinates import Writing
from ..fields import Fields, Signs, as_days, as_names, as_numbers, is_textual, texts_of
from ..names import canonical
from ..notation import MISSING, PLAIN, Reading

Array = npt.NDArray[np.float64]

# Distinct names that are counted; a column of more is no category.
MOST_NAMES = 2000
# Rows of the sample that quartiles and likeness are taken of.
_SAMPLE = 1 << 13
# Smallest and largest distinct numbers that are counted.
_ENDS = 6
# Distinct texts that are no numbers, and are counted.
_MOST_UNREAD = 200

FORMATS = (
    "iso", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
    "%d %b %Y", "%d-%b-%Y", "%b %d, %Y",
)  # fmt: skip
"""How days may be written, the likelier first."""
_DAY = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([ T]\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?"
    r"|\d{8}|\d{1,2}[ -][A-Za-z]{3}[ -]\d{4}|[A-Za-z]{3} \d{1,2}, \d{4}"
)
_PADDED = re.compile(r"0\d+")


@dataclass(eq=False)
class Numbers:
    """What fields are as numbers.

    Attributes
    ----------
    read, unread
        Fields that are numbers, and that are neither numbers nor missing.
    all_integers
        Whether all numbers are whole.
    ends
        How often the smallest and the largest distinct numbers are there.
    texts
        How often the commonest texts are there that are no numbers.
    """

    read: int = 0
    unread: int = 0
    all_integers: bool = True
    ends: dict[float, int] = field(default_factory=dict[float, int])
    texts: Counter[str] = field(default_factory=Counter[str])

    def add(self, values: Array, weights: npt.NDArray[np.int64]) -> None:
        is_number = np.isfinite(values)
        # Adding zero makes one of the two zeros.
        kept, counts = values[is_number] + 0.0, weights[is_number]
        if not kept.size:
            return
        self.read += int(counts.sum())
        self.all_integers = self.all_integers and bool(np.all(kept == np.floor(kept)))
        distinct, place = np.unique(kept, return_inverse=True)
        sums = np.bincount(place.ravel(), counts).astype(np.int64)
        for k in {
            *range(min(_ENDS, len(distinct))),
            *range(max(len(distinct) - _ENDS, 0), len(distinct)),
        }:
            value = float(distinct[k])
            self.ends[value] = self.ends.get(value, 0) + int(sums[k])
        rising = sorted(self.ends)
        if len(rising) > 2 * _ENDS:
            self.ends = {v: self.ends[v] for v in (*rising[:_ENDS], *rising[-_ENDS:])}


@dataclass(eq=False)
class Days:
    """Fields that can be read as days in one way of writing: how many, the first and the last."""

    read: int = 0
    first: float = np.inf
    last: float = -np.inf

    def add(self, days: Array, weights: npt.NDArray[np.int64]) -> None:
        is_day = np.isfinite(days)
        if is_day.any():
            self.read += int(weights[is_day].sum())
            self.first = min(self.first, float(days[is_day].min()))
            self.last = max(self.last, float(days[is_day].max()))


class ColumnProfile:
    """What was gathered of one column.

    Attributes
    ----------
    rows, missing
        Fields, and those without a value.
    names
        How often each name is there, of a column with no more than ``MOST_NAMES``.
    many
        Whether there are more.
    numbers, days
        What they are as numbers, and as days by the way of writing.
    padded
        Fields of digits that begin with 0: codes, not numbers.
    shaped
        Fields that look like days, however written.
    reading, signs
        The notations that its numbers may have, and what shows them, where no site file says.
    typed
        ``"day"`` or ``"other"`` for a column of such a type, which has no texts.
    """

    def __init__(
        self, writing: Writing, reading: Reading | None = None, signs: Signs | None = None
    ) -> None:
        self.reading, self.signs = reading, signs
        self.rows = self.missing = self.padded = self.shaped = 0
        self.names: Counter[str] = Counter()
        self.many = False
        self.numbers = Numbers()
        self.days: dict[str, Days] = {}
        self.typed = ""
        self.sample = np.empty(0)
        self.codes = np.empty(0, dtype=np.int64)
        self._formats: tuple[str, ...] | None = (writing.format,) if writing.format else None
        self._writing = writing

    @property
    def value_count(self) -> int:
        """Fields with a value."""
        return self.rows - self.missing

    def add(self, column: Fields, rows: slice) -> None:
        """Count the fields of a block, and keep those of some rows."""
        self.rows += len(column)
        if isinstance(column, nw.Series) and not is_textual(column.dtype):
            self._add_typed(column)
        else:
            texts = texts_of(column)
            counted = Counter(texts)
            self._add_texts(list(counted), np.fromiter(counted.values(), np.int64, len(counted)))
        self._keep(column, rows)

    def _add_texts(self, texts: list[str], weights: npt.NDArray[np.int64]) -> None:
        stripped = [canonical(text) for text in texts]
        sentinels = {*MISSING, *self._writing.sentinels}
        empty = np.fromiter((text in sentinels for text in stripped), np.bool_, len(texts))
        self.missing += int(weights[empty].sum())
        self._name(texts, weights, empty)
        read = as_numbers(texts, self._writing.sentinels, self._writing.notation or PLAIN)
        self.numbers.add(np.where(empty, np.nan, read.values), weights)
        odd = np.flatnonzero(read.unread & ~empty)
        self.numbers.unread += int(weights[odd].sum())
        for k in odd.tolist():
            if stripped[k] in self.numbers.texts or len(self.numbers.texts) < _MOST_UNREAD:
                self.numbers.texts[stripped[k]] += int(weights[k])
        self.padded += sum(
            int(weights[k]) for k, text in enumerate(stripped)
            if text[:1] == "0" and _PADDED.fullmatch(text)
        )  # fmt: skip
        self._date(texts, weights, empty)

    def _name(
        self, texts: list[str], weights: npt.NDArray[np.int64], empty: npt.NDArray[np.bool_]
    ) -> None:
        if self.many or len(texts) > MOST_NAMES:
            self.many = True
            return
        for name, count, no in zip(as_names(texts), weights.tolist(), empty.tolist(), strict=True):
            if name is not None and not no:
                self.names[self._writing.codes.get(name, name)] += count
        self.many = len(self.names) > MOST_NAMES

    def _date(
        self, texts: list[str], weights: npt.NDArray[np.int64], empty: npt.NDArray[np.bool_]
    ) -> None:
        places = np.flatnonzero(~empty)
        if self._formats == () or not len(places):
            return
        fields = [texts[k] for k in places]
        if not self._writing.format:
            shaped = [bool(_DAY.fullmatch(text.strip())) for text in fields]
            self.shaped += int(weights[places][shaped].sum())
            if self._formats is None and np.mean(shaped) < 0.5:
                self._formats = ()
                return
        read = {
            form: as_days(fields, form, self._writing.sentinels).values
            for form in self._formats or FORMATS
        }
        if self._formats is None:
            # Of the first fields at least half: what is no day in one way is none later.
            read = {form: days for form, days in read.items() if np.isfinite(days).mean() >= 0.5}
            self._formats = tuple(read)
        for form, days in read.items():
            self.days.setdefault(form, Days()).add(days, weights[places])

    def _add_typed(self, column: nw.Series[Any]) -> None:
        kind = column.dtype
        if kind in (nw.Date, nw.Datetime) or isinstance(kind, nw.Datetime):
            days = as_days(column, "iso").values
            self.typed = "day"
            self.missing += int(np.isnan(days).sum())
            self.days.setdefault("iso", Days()).add(days, np.ones(len(days), dtype=np.int64))
            return
        if not (kind.is_numeric() or kind == nw.Boolean):
            self.typed = "other"
            self.missing += int(column.null_count())
            return
        read = as_numbers(column, self._writing.sentinels)
        self.missing += int((np.isnan(read.values) & ~read.unread).sum())
        self.numbers.unread += int(read.unread.sum())
        self.numbers.add(read.values, np.ones(len(column), dtype=np.int64))
        if self.many or kind == nw.Decimal or column.n_unique() > MOST_NAMES:
            self.many = True
            return
        kept = column.filter(nw.new_series("k", np.isfinite(read.values).tolist(), nw.Boolean,
                                           backend=column.implementation))  # fmt: skip
        self.names.update(name for name in as_names(kept) if name is not None)
        self.many = len(self.names) > MOST_NAMES

    def _keep(self, column: Fields, rows: slice) -> None:
        if self.typed == "other":
            # Lists and the like have no names.
            self.sample = np.concatenate(
                [self.sample, np.full(len(range(len(column))[rows]), np.nan)]
            )
            self.codes = np.zeros(len(self.sample), dtype=np.int64)
            return
        fields: Any
        if isinstance(column, nw.Series):
            places = range(len(column))[rows]
            fields = column[list(places)] if len(places) < len(column) else column
        else:
            fields = column[rows]
        read = as_numbers(fields, self._writing.sentinels, self._writing.notation or PLAIN)
        texts = fields.to_list() if isinstance(fields, nw.Series) else fields
        codes = np.fromiter((hash(text) for text in texts), np.int64, len(texts))
        self.sample = np.concatenate([self.sample, read.values])
        self.codes = np.concatenate([self.codes, codes])

    def thin(self) -> None:
        """Keep every other row of the sample."""
        self.sample, self.codes = self.sample[::2], self.codes[::2]


@dataclass(eq=False)
class TableProfile:
    """What was gathered of the columns of a table, by name."""

    columns: Mapping[str, ColumnProfile]
    rows: int = 0
    named: bool = True
    _step: int = 1
    _next: int = 0

    def add(self, fields: Mapping[str, Fields], height: int) -> None:
        """Count a block of records."""
        rows = slice(self._next, None, self._step)
        for name, profile in self.columns.items():
            profile.add(fields[name], rows)
        self.rows += height
        count = len(range(height)[rows])
        self._next += count * self._step - height
        sizes = [len(profile.sample) for profile in self.columns.values()]
        while sizes and sizes[0] > _SAMPLE:
            # Every other one from now on, and of those that are kept.
            self._next += self._step * (sizes[0] % 2)
            for profile in self.columns.values():
                profile.thin()
            sizes = [len(profile.sample) for profile in self.columns.values()]
            self._step *= 2


def sample_of(rows: Array) -> HolderSample:
    """Return rows as the sample that the checks of tables without a schema take."""
    return HolderSample.of("", rows, np.ones(len(rows)))
