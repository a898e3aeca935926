"""What is gathered of the columns of a table, block by block: enough to propose a description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..column_checks import HolderSample
from ..coordinates import Writing
from ..fields import Fields, Sample, Signs, as_days, as_names, as_numbers, is_textual, texts_of
from ..label_names import label_name
from ..names import canonical
from ..notation import MISSING, PLAIN, Reading
from ..reading import TableSource, Tell
from ..site import Site

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

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
UNKNOWN = frozenset(
    (
        "unknown", "unkn", "unk", "?", "-", "--", ".", "..", "missing", "not known", "n.a.", "n.a",
        "n/a.", "#n/a", "<na>", "not available", "not recorded", "not stated", "not reported",
        "not done", "undefined", "unbekannt", "keine angabe", "k.a.", "inconnu", "desconocido",
    )
)  # fmt: skip
"""Words that say that nothing is known."""


@dataclass(eq=False)
class Numbers:
    """Fields that are read as numbers, or as days in one way of writing, and those that are not.

    ``ends`` counts the smallest and largest distinct numbers, and ``texts`` what is no number.
    """

    read: int = 0
    unread: int = 0
    all_integers: bool = True
    ends: Counter[float] = field(default_factory=Counter[float])
    texts: Counter[str] = field(default_factory=Counter[str])

    def add(self, values: Array, weights: Counts) -> None:
        is_number = np.isfinite(values)
        # Adding zero makes one of the two zeros.
        kept, counts = values[is_number] + 0.0, weights[is_number]
        self.read += int(counts.sum())
        self.all_integers = self.all_integers and bool(np.all(kept == np.floor(kept)))
        distinct, place = np.unique(kept, return_inverse=True)
        sums = np.bincount(place.ravel(), counts, len(distinct)).astype(np.int64)
        order = np.arange(len(distinct))
        is_end = np.minimum(order, order[::-1]) < _ENDS
        self.ends.update(dict(zip(distinct[is_end].tolist(), sums[is_end].tolist(), strict=True)))
        rising = sorted(self.ends)
        for value in rising[_ENDS:-_ENDS]:
            del self.ends[value]


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
    sample, codes
        The numbers of some rows, and numbers that are equal where fields are.
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
        self.days: dict[str, Numbers] = {}
        self.typed = ""
        self.sample = np.empty(0)
        self.codes = np.empty(0, dtype=np.int64)
        self._kept = Sample(_SAMPLE)
        self._formats: tuple[str, ...] | None = (writing.format,) if writing.format else None
        self._writing = writing

    @property
    def value_count(self) -> int:
        """Fields with a value."""
        return self.rows - self.missing

    def add(self, column: Fields) -> None:
        """Count the fields of a block, and keep those of some rows."""
        self.rows += len(column)
        if isinstance(column, nw.Series) and not is_textual(column.dtype):
            self._add_typed(column)
        else:
            counted = Counter(texts_of(column))
            self._add_texts(list(counted), np.fromiter(counted.values(), np.int64, len(counted)))
        self._keep(column)

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

    def _name(self, texts: list[str], weights: Counts, empty: npt.NDArray[np.bool_]) -> None:
        if self.many or len(texts) > MOST_NAMES:
            self.many = True
            return
        for name, count, no in zip(as_names(texts), weights.tolist(), empty.tolist(), strict=True):
            if name is not None and not no:
                self.names[self._writing.codes.get(name, name)] += count
        self.many = len(self.names) > MOST_NAMES

    def _date(self, texts: list[str], weights: Counts, empty: npt.NDArray[np.bool_]) -> None:
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
            self.days.setdefault(form, Numbers()).add(days, weights[places])

    def _add_typed(self, column: nw.Series[Any]) -> None:
        kind = column.dtype
        if kind in (nw.Date, nw.Datetime) or isinstance(kind, nw.Datetime):
            days = as_days(column, "iso").values
            self.typed = "day"
            self.missing += int(np.isnan(days).sum())
            self.days.setdefault("iso", Numbers()).add(days, np.ones(len(days), dtype=np.int64))
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

    def _keep(self, column: Fields) -> None:
        rows = self._kept.rows()
        places = range(len(column))[rows]
        # Lists and the like have no names.
        values, codes = np.full(len(places), np.nan), np.zeros(len(places), dtype=np.int64)
        if self.typed != "other":
            notation = self._writing.notation or PLAIN
            fields: Any = column
            if len(places) < len(column):
                fields = column[[*places]] if isinstance(column, nw.Series) else column[rows]
            values = as_numbers(fields, self._writing.sentinels, notation).values
            texts = fields.to_list() if isinstance(fields, nw.Series) else fields
            codes = np.fromiter(map(hash, texts), np.int64, len(texts))
        self.sample, self.codes = self._kept.add(len(column), values, codes)


@dataclass(eq=False)
class TableProfile:
    """What was gathered of the columns of a table, by name."""

    columns: Mapping[str, ColumnProfile]
    rows: int = 0
    named: bool = True

    @classmethod
    def of(
        cls, source: TableSource, columns: Mapping[str, str], site: Site, tell: Tell | None = None
    ) -> Self:
        """Read a table twice: for its notations, and with them for all else.

        ``columns`` has the names in the table by those of the profile.
        """
        entries = {name: site.entry(name) for name in columns}
        stated = {name: entry.notation or site.notation for name, entry in entries.items()}
        signs = {name: Signs() for name in columns if stated[name] is None}
        for block in source.blocks(set(columns.values())):
            for name, column in signs.items():
                column.add(block.columns[columns[name]])
            if tell is not None:
                tell(0.5 * min(block.share, 1.0))

        def profile(name: str) -> ColumnProfile:
            entry, reading = entries[name], signs[name].reading(UNKNOWN) if name in signs else None
            # Units are those of the site.
            writing = Writing(
                codes={label_name(text): label_name(value) for text, value in entry.codes.items()},
                format=entry.format,
                sentinels=tuple(map(label_name, entry.sentinels)),
                notation=stated[name] or next(iter(reading.notations if reading else ()), PLAIN),
            )
            return ColumnProfile(writing, reading, signs.get(name))

        gathered = cls({name: profile(name) for name in columns})
        for block in source.blocks(set(columns.values())):
            if not gathered.rows:
                gathered.named = block.named
            for name, column in gathered.columns.items():
                column.add(block.columns[columns[name]])
            gathered.rows += block.height
            if tell is not None:
                tell(0.5 + 0.5 * min(block.share, 1.0))
        if not gathered.rows:
            raise InputError("the table has names of columns and no record.", code="measure-empty")
        return gathered


def sample_of(rows: Array) -> HolderSample:
    """Return rows as the sample that the checks of tables without a schema take."""
    return HolderSample.of("", rows, np.ones(len(rows)))
