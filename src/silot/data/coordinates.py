"""Turn the fields of a column into coordinates, only by the schema and the record itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import numpy.typing as npt

from .column_checks import is_missing_code
from .column_kinds import Category, Date, Feature, Number, Ordered, Value, YesNo
from .fields import ALIKE, EMPTY, UNREAD, Fields, as_codes, as_days, as_numbers
from .notation import PLAIN, Notation, Numbers

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_YES = ("yes", "y", "true", "t", "1")
_NO = ("no", "n", "false", "f", "0")
_EPOCH = date(1970, 1, 1)
# First and last days of the calendars of programs, which stand for an unknown day.
_CALENDARS = ("0001-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1900-01-02",
              "1901-01-01", "1970-01-01", "2099-12-31", "2999-12-31", "9999-12-31")  # fmt: skip
NO_DAYS = {float((date.fromisoformat(day) - _EPOCH).days) for day in _CALENDARS}
"""Days since 1970 that stand for missing ones, or begin a calendar."""


@dataclass(frozen=True)
class Writing:
    """How a site writes a column, if not as the schema says.

    Numbers in the unit of the schema are ``factor * x + offset``. The ``codes`` have the category
    in the schema of each code of the site, and ``sentinels`` come beside those of the schema.
    """

    factor: float = 1.0
    offset: float = 0.0
    codes: Mapping[str, str] = field(default_factory=dict[str, str])
    format: str = ""
    sentinels: tuple[str, ...] = ()
    notation: Notation | None = None


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """Coordinates (n, k) of a column, which fields are misfits, by kind, and uncut numbers."""

    coordinates: Array
    misfits: dict[str, Bools]
    numbers: Array | None = None


def layout(name: str, column: Feature) -> list[tuple[str, float, float]]:
    """Return the coordinates of a column: their names, smallest and largest values."""
    weight = column.weight
    if isinstance(column, Category):
        names = [f"{name}={kind}" for kind in (*column.categories, *["other"] * column.other)]
        low, high = 0.0, float(weight / np.sqrt(2.0))
    elif isinstance(column, Number | Date) and column.period is not None:
        names, low, high = [f"{name} (cos)", f"{name} (sin)"], -0.5 * weight, 0.5 * weight
    else:
        names, low, high = [name], 0.0, weight
        if isinstance(column, Number):
            high = float(number_coordinates(column, column.range)[1])
    extra = [(f"{name} missing", 0.0, weight)] if column.missing == "indicator" else []
    return [*((name, low, high) for name in names), *extra]


def units(column: Feature) -> tuple[Array, Array]:
    """Return how much of its column one unit of each coordinate is, and where its zero is.

    Coordinates that are not linear in their column stay as they are.
    """
    _, low, high = (np.array(side) for side in zip(*layout("", column), strict=True))
    lengths, zeros = np.ones(len(low)), np.zeros(len(low))
    if isinstance(column, Date):
        return lengths, zeros
    if isinstance(column, Number):
        if column.period is not None or column.transform != "none":
            return lengths, zeros
        lengths[0], zeros[0] = column.range[1] - column.range[0], column.range[0]
    return lengths / np.where(high > low, high - low, 1.0), zeros


def encode(column: Feature, fields: Fields, writing: Writing) -> EncodedColumn:
    """Compute the coordinates of the fields of a column, each by itself.

    What does not fit is counted; its coordinates mean nothing unless the description of the column
    says what becomes of it.
    """
    if isinstance(column, Number):
        encoded = _encode_numbers(column, fields, writing)
    elif isinstance(column, Date):
        encoded = _encode_dates(column, fields, writing)
    else:
        encoded = _encode_categories(column, fields, writing)
    if column.missing != "indicator":
        return encoded
    indicator = np.where(encoded.misfits["missing"], column.weight, 0.0)
    return replace(encoded, coordinates=np.column_stack([encoded.coordinates, indicator]))


def _encode_numbers(column: Number, fields: Fields, writing: Writing) -> EncodedColumn:
    read = as_numbers(fields, (*column.sentinels, *writing.sentinels), writing.notation or PLAIN)
    values = read.values
    fraction = (values != np.floor(values)) & ~np.isnan(values) & (column.kind == "integer")
    if (writing.factor, writing.offset) != (1.0, 0.0):
        values = writing.factor * values + writing.offset
    cut, misfits = _cut(Numbers(values, read.unread), column, *column.range)
    coordinates = _coordinates(column, np.where(np.isnan(cut), stand_in(column), cut))
    outside = (values < column.range[0]) | (values > column.range[1])
    # Codes are recognised as the site writes them, before conversion.
    coded = np.zeros(len(outside), dtype=np.bool_)
    for row in np.flatnonzero(outside):
        value = float(read.values[row])
        coded[row] = value == 0 or is_missing_code(value)
    misfits |= {"fraction": fraction, "coded": coded}
    return EncodedColumn(coordinates, misfits, values)


def stand_in(column: Number) -> float:
    """Return the number that stands for a missing one: a public value, or mid-range."""
    if isinstance(column.missing, Value):
        return column.missing.value
    return 0.5 * column.range[0] + 0.5 * column.range[1]


def number_coordinates(column: Number, values: npt.ArrayLike) -> Array:
    """Return the coordinates of numbers, cut to the range, of a column without a period."""
    return _coordinates(column, np.clip(np.asarray(values, float), *column.range))[:, 0]


def read_back(column: Feature, coordinates: Array) -> float | str:
    """Return what stands in a column of a table, by its coordinates (k,): a number, or words.

    Nothing where they do not tell, as those of a column with a period.
    """
    if column.missing == "indicator" and coordinates[-1] > 0.5 * column.weight:
        return "missing"
    share = float(coordinates[0]) / column.weight
    if isinstance(column, Category):
        return (*column.categories, *["other"] * column.other)[int(coordinates.argmax())]
    if isinstance(column, YesNo):
        return "yes" if share > 0.5 else "no"
    if isinstance(column, Ordered):
        return column.categories[round(share * (len(column.categories) - 1))]
    if column.period is not None:
        return ""
    if isinstance(column, Date):
        first, last = (day.toordinal() for day in column.range)
        return date.fromordinal(round(first + share * (last - first))).isoformat()
    low, high = column.range
    if column.transform == "rank":
        levels = np.linspace(0.0, 1.0, len(column.quantiles))
        return float(np.interp(share, levels, column.quantiles))
    if column.transform == "log":
        return low * math.exp(share * (column.spread or math.log(high / low)))
    return low + share * (column.spread or high - low)


def _coordinates(column: Number, values: Array) -> Array:
    """Return the coordinates of numbers in the range."""
    low, high = column.range
    if column.period is not None:
        return _circle((values - low) / column.period, column.weight)
    if column.transform == "rank":
        shares = _shares(values, np.array(column.quantiles))
    elif column.transform == "log":
        # One by one, since vectorised logarithms may depend on how many there are.
        logs = np.fromiter(map(math.log, values.tolist()), np.float64, len(values))
        shares = (logs - math.log(low)) / (column.spread or math.log(high) - math.log(low))
    else:
        shares = (values - low) / (column.spread or high - low)
    return column.weight * shares[:, None]


def _shares(values: Array, quantiles: Array) -> Array:
    """Return the share of the public distribution below each value, linear between quantiles."""
    last = len(quantiles) - 2
    place = np.minimum(np.searchsorted(quantiles, values, side="right") - 1, last)
    low, high = quantiles[place], quantiles[place + 1]
    return (place + (values - low) / (high - low)) / (len(quantiles) - 1)


def _circle(turns: Array, weight: float) -> Array:
    angles = (2.0 * math.pi * (turns - np.floor(turns))).tolist()
    pairs = [(math.cos(angle), math.sin(angle)) for angle in angles]
    return 0.5 * weight * np.array(pairs, dtype=np.float64).reshape(-1, 2)


def _encode_dates(column: Date, fields: Fields, writing: Writing) -> EncodedColumn:
    sentinels = (*column.sentinels, *writing.sentinels)
    read = as_days(fields, writing.format or column.format, sentinels)
    first, last = (float((day - _EPOCH).days) for day in column.range)
    # A time on the last day is in the range.
    days = np.where(np.floor(read.values) == last, last, read.values)
    cut, misfits = _cut(Numbers(days, read.unread), column, first, last)
    moments = np.where(cut == days, read.values, cut)
    public = 0.5 * first + 0.5 * last
    if isinstance(column.missing, Value):
        public = float((date.fromisoformat(column.missing.value) - _EPOCH).days)
    values = np.where(np.isnan(moments), public, moments)
    if column.period is not None:
        coordinates = _circle(_turns(values, column.period), column.weight)
    else:
        coordinates = column.weight * ((np.minimum(values, last) - first) / (last - first))[:, None]
    is_outside = (days < first) | (days > last)
    misfits["coded"] = is_outside & np.isin(np.floor(read.values), [*NO_DAYS])
    return EncodedColumn(coordinates, misfits)


def _turns(days: Array, period: str) -> Array:
    """Return how often the period has passed; only the fractions matter."""
    if period == "day":
        return days
    if period == "week":
        return days / 7.0
    midnights = np.floor(days).astype("datetime64[D]")
    years = midnights.astype("datetime64[Y]")
    start = years.astype("datetime64[D]").astype(np.float64)
    end = (years + np.timedelta64(1, "Y")).astype("datetime64[D]").astype(np.float64)
    return (days - start) / (end - start)


def _cut(
    numbers: Numbers, column: Number | Date, low: float, high: float
) -> tuple[Array, dict[str, Bools]]:
    """Return numbers cut to the range, missing ones as NaN, and what did not fit."""
    values = numbers.values
    below, above = values < low, values > high
    cut = np.clip(values, low, high)
    empty = np.isnan(values)
    if column.unread == "refuse":
        empty &= ~numbers.unread
    if column.outside == "missing":
        empty |= below | above
        cut[below | above] = np.nan
    return cut, {"missing": empty, "unread": numbers.unread, "below": below, "above": above}


def _encode_categories(
    column: YesNo | Category | Ordered, fields: Fields, writing: Writing
) -> EncodedColumn:
    places = category_places(column)
    count = max(places.values()) + 1
    codes = as_codes(
        fields,
        places | {text: places[name] for text, name in writing.codes.items()},
        (*column.sentinels, *writing.sentinels),
    )
    missing, other, alike = (codes == kind for kind in (EMPTY, UNREAD, ALIKE))
    misfits = {"missing": missing, "unknown": other, "alike": alike}
    if isinstance(column, YesNo):
        misfits = {"missing": missing, "unread": other | alike}
    elif isinstance(column, Category) and column.other:
        misfits = {"missing": missing, "other": other, "alike": alike}
        codes = np.where(other, count, codes)
        count += 1
    if isinstance(column.missing, Value):
        value = column.missing.value
        codes = np.where(missing, int(value) if isinstance(value, bool) else places[value], codes)
    # Negative codes are no categories.
    if isinstance(column, Category):
        coordinates = np.zeros((len(codes), count))
        rows = np.flatnonzero(codes >= 0)
        coordinates[rows, codes[rows]] = column.weight / np.sqrt(2.0)
    else:
        coordinates = column.weight * np.where(codes >= 0, codes / (count - 1), 0.5)[:, None]
    return EncodedColumn(coordinates, misfits)


def category_places(column: YesNo | Category | Ordered) -> dict[str, int]:
    """Return the code of each name of a category."""
    if not isinstance(column, YesNo):
        return {name: code for code, name in enumerate(column.categories)}
    if column.yes:
        return {**dict.fromkeys(column.no, 0), **dict.fromkeys(column.yes, 1)}
    places: dict[str, int] = {}
    for code, words in enumerate((_NO, _YES)):
        for word in words:
            places |= dict.fromkeys((word, word.upper(), word.capitalize()), code)
    return places
