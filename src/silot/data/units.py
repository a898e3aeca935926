"""Recognise numbers that are in another unit than the schema says, or than another holder's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from silot_transport._check import Array

from ..errors import InputError
from .column_kinds import Number
from .conversion import conversion
from .names import Quartiles

# Two distributions in one unit may also differ by a factor below this: only a name that says what
# is measured tells the two apart.
_AMBIGUOUS = 5.0
# How far, as a ratio, the medians and the spreads of two holders may be from a conversion; less
# for small factors, as their neighbours are close.
_MEDIAN, _MEDIAN_SMALL, _SPREAD = 1.3, 1.1, 1.7
# A few numbers are in another unit if they lie this many widths of the quartiles beyond them (as
# logarithms), and this near to them once converted; how many they must be, and what part of them.
_FAR_ENDS, _NEAR_ENDS = 3.0, 2.0
_FEWEST, _MOST_OF = 3, 0.8
# Within the range: how many spreads the median must move, how wide the bulk is on either side, and
# which part of a tail lies beyond that place: of one that falls by a factor e in each spread, with
# what error. Of 4,717 pairs of clean public columns and conversions of any quantity 74 were
# suspected, and none of the 91 whose names speak of the quantity.
_APART, _BULK, _TAIL, _UNLIKELY = 3.0, 2.0, 0.12, 1e-3
# How far, in its spreads, the median may be from the typical quartiles, and how much wider or
# narrower the numbers may be once they are converted. How far, in the same and at least as a
# logarithm, quartiles may be on average after a power of ten: 3 standard errors of 150 records,
# and less than between patients of a children's ward and tenths of the ages of others.
_FAR, _NEAR, _WIDE = 1.5, 0.5, 1.7
_CLOSE, _CLOSE_LEAST = 0.3, 0.15
# The range decides if this part of the numbers is out of it and the schema says nothing typical.
_OUTSIDE = 0.5
# Least spread of converted numbers, as a share of the range that they are to fit.
_NARROW = 0.005
# How far beyond the range of usual values one value must lie, in widths of the range.
_BEYOND = 0.25
# This many numbers in another unit are no slip of a pen.
_FEW = 10
_ANY_NAME = {"mass", "length", "pressure", "temperature", "energy", "time"}
_UCUM = {"mmHg": "mm[Hg]", "lb": "[lb_av]", "in": "[in_i]", "ft": "[ft_i]"}


def common_unit(unit: str) -> str:
    """Return a UCUM unit as clinics write it, where that is another word."""
    return next((word for word, code in _UCUM.items() if code == unit), unit)


@dataclass(frozen=True)
class Conversion:
    """One quantity in two units, as UCUM or clinics write them: ``to = factor * of + offset``.

    The ``words`` are pieces of column names that tell the quantity, in lower case; conversions of
    any quantity have none. One that ``is_back`` leads from ``to`` to ``of``.
    """

    quantity: str
    of: str
    to: str
    factor: float
    words: tuple[str, ...] = ()
    offset: float = 0.0
    is_back: bool = False

    def convert(self, value: Any) -> Any:
        """Convert a number, or an array of them."""
        if self.is_back:
            return (value - self.offset) / self.factor
        return self.factor * value + self.offset

    @property
    def ends(self) -> tuple[str, str]:
        """Return the unit that it converts from, and that which it converts to, by UCUM."""
        ends = (self.to, self.of) if self.is_back else (self.of, self.to)
        return _UCUM.get(ends[0], ends[0]), _UCUM.get(ends[1], ends[1])

    @property
    def step(self) -> str:
        """Return what to do with the numbers, in words."""
        if self.offset:
            return f"as {self.ends[0]}"
        return f"{'divided' if self.is_back else 'multiplied'} by {self.factor:.4g}"

    def question(self, column: Number) -> str:
        """Ask whether the numbers of a column are in the unit that it converts from."""
        if not self.words:
            return "in another unit, or without a decimal point?"
        expected = f"the schema has {column.unit}" if column.unit else "the schema names no unit"
        return f"in {self.ends[0]}, where {expected}?"

    @property
    def is_clear(self) -> bool:
        """Return whether another distribution in one unit hardly ever looks like it."""
        return self.offset != 0 or not 1 / _AMBIGUOUS < self.factor < _AMBIGUOUS

    @property
    def in_words(self) -> str:
        """Return the two units, and what a number in the first is multiplied by."""
        added = f", and {self.offset:g} added" if self.offset else ""
        of = f" of {self.quantity}" if self.words else ""
        return f"{self.of} and {self.to}{of} (factor {self.factor:g}{added})"

    def concerns(self, column: str) -> bool:
        """Return whether the name of a column says that it is this quantity."""
        name, tokens = column.lower(), _tokens(column)
        return any(word in tokens if len(word) < 4 else word in name for word in self.words)

    def names(self, column: str) -> bool:
        """Return whether a word of the name of a column begins or ends as this quantity."""
        return any(
            token == word or (len(word) >= 4 and (token.startswith(word) or token.endswith(word)))
            for word in self.words
            for token in _tokens(column)
        )


# Factors of substances follow from their molar masses (conversion.py), all others by definition.
CONVERSIONS = (
    Conversion("glucose", "mmol/L", "mg/dL", 18.016, ("gluc", "glyc", "sugar")),
    Conversion("creatinine", "mg/dL", "umol/L", 88.42, ("creat", "krea", "scr")),
    Conversion("cholesterol", "mmol/L", "mg/dL", 38.67, ("chol", "hdl", "ldl")),
    Conversion("triglycerides", "mmol/L", "mg/dL", 88.57, ("trigl", "tg")),
    Conversion("bilirubin", "mg/dL", "umol/L", 17.104, ("bili",)),
    Conversion("urea nitrogen", "mmol/L", "mg/dL", 2.801, ("urea", "bun", "nitrogen")),
    Conversion("urea", "mmol/L", "mg/dL", 6.006, ("urea",)),
    Conversion("calcium", "mmol/L", "mg/dL", 4.008, ("calc", "ca")),
    Conversion("magnesium", "mmol/L", "mg/dL", 2.4305, ("magnes",)),
    Conversion("phosphate", "mmol/L", "mg/dL", 3.0974, ("phosph",)),
    Conversion("uric acid", "mg/dL", "umol/L", 59.48, ("uric", "urate")),
    Conversion("haemoglobin", "g/dL", "mmol/L", 0.6206, ("hemoglob", "haemoglob", "hgb", "hb")),
    Conversion("lactate", "mmol/L", "mg/dL", 9.008, ("lact",)),
    Conversion("mass", "kg", "lb", 2.2046, ("weight", "mass", "wt", "kg", "lb", "lbs")),
    Conversion(
        "length", "in", "cm", 2.54,
        ("height", "length", "circum", "waist", "hip", "ht", "cm", "inch", "inches"),
    ),
    Conversion("length", "ft", "cm", 30.48, ("height", "length", "ht")),
    Conversion("length", "m", "cm", 100.0, ("height", "length", "ht")),
    Conversion(
        "pressure", "kPa", "mmHg", 7.5006, ("press", "sbp", "dbp", "map", "bp", "pao2", "paco2")
    ),
    Conversion("temperature", "Cel", "[degF]", 1.8, ("temp", "celsius", "fahrenheit"), 32.0),
    Conversion("temperature", "Cel", "K", 1.0, ("temp", "celsius", "kelvin"), 273.15),
    Conversion("energy", "kcal", "kJ", 4.184, ("energy", "calor", "kcal", "kj")),
    Conversion("time", "a", "mo", 12.0, ("age", "year", "month", "durat", "time")),
    Conversion("time", "a", "d", 365.25, ("age", "year", "days", "durat", "time")),
    Conversion("time", "wk", "d", 7.0, ("week", "days", "durat", "stay", "los")),
    Conversion("time", "d", "h", 24.0, ("hour", "days", "durat", "stay", "los", "time")),
    Conversion("time", "h", "min", 60.0, ("hour", "minute", "durat", "time")),
    Conversion("any quantity", "a unit", "its tenth", 10.0),
    Conversion("any quantity", "a unit", "its hundredth", 100.0),
    Conversion("any quantity", "a unit", "its thousandth", 1000.0),
    Conversion("any quantity", "a unit", "its millionth", 1000000.0),
)  # fmt: skip
"""Conversions by which columns of clinical and everyday tables differ."""


def conversion_between(
    column: str, first: Sequence[float], second: Sequence[float]
) -> Conversion | None:
    """Return the conversion by which the numbers of two holders would be alike, or ``None``.

    The numbers are quartiles, in rising order. Conversions of the quantity that the name of the
    column says come first, then powers of ten; one of another quantity must have a factor of 5 or
    more.

    Examples
    --------
    >>> rule = conversion_between("glucose", (85.0, 105.0, 128.0), (4.7, 5.8, 7.1))
    >>> rule.quantity, rule.of, rule.to
    ('glucose', 'mmol/L', 'mg/dL')
    >>> conversion_between("glucose", (85.0, 105.0, 128.0), (84.0, 104.0, 129.0)) is None
    True
    """
    spread, other = first[2] - first[0], second[2] - second[0]
    if spread <= 0 or other <= 0:
        return None
    fits = [
        (*misfit, k)
        for ratio, low, high in ((other / spread, first, second), (spread / other, second, first))
        for k, rule in enumerate(CONVERSIONS)
        # The spreads first, by which few rules pass.
        if _is_near(ratio, rule.factor, _SPREAD)
        and (misfit := _misfit(rule, column, low, high)) is not None
    ]
    return CONVERSIONS[min(fits)[2]] if fits else None


def unit_mistake(column: str, value: float, quantiles: Sequence[float], unit: str = "") -> str:
    """Return the mistake that would explain a value far outside a range, in words, or ``""``.

    The value must lie far beyond the range, by its width, and among the usual values once it is
    converted. Conversions of the quantity that the name of the column says come first.

    Parameters
    ----------
    column
        Its name.
    value
        What stands there.
    quantiles
        Of usual values, at 1, 25, 75 and 99 %.
    unit
        Of the column, if it is stated.

    Examples
    --------
    >>> unit_mistake("weight_kg", 165.0, (46.0, 66.0, 84.0, 104.0))
    'lb for kg?'
    >>> unit_mistake("dose", 5000.0, (2.0, 4.0, 6.0, 8.0))
    '1,000 times?'
    >>> unit_mistake("weight_kg", 105.0, (46.0, 66.0, 84.0, 104.0))
    ''
    """
    low, first, last, high = quantiles
    # Around zero a factor brings anything into a range; on a scale of ratios widths are ratios.
    if low > 0 < value:
        far = max(value / high, low / value) >= (high / low) ** _BEYOND
    else:
        far = max(value - high, low - value) >= _BEYOND * (high - low)
    around = last - first
    for rule in CONVERSIONS if far else ():
        if (low <= 0 and not rule.offset) or (rule.words and not rule.names(column)):
            continue
        stated = {unit.lower(), *_tokens(column)} & {rule.of.lower(), rule.to.lower()}
        # From the first unit to the second, or back; the column's own is not the mistaken one.
        for other in (replace(rule, is_back=True), rule):
            mistaken, own = (rule.to, rule.of) if other.is_back else (rule.of, rule.to)
            if mistaken.lower() in stated:
                continue
            if first - around <= other.convert(value) <= last + around:
                if rule.words:
                    return f"{mistaken} for {own}?"
                return f"{rule.factor:,.0f} times?" if other.is_back else f"1/{rule.factor:,.0f}?"
    return ""


def _tokens(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _misfit(
    rule: Conversion, column: str, low: Sequence[float], high: Sequence[float]
) -> tuple[int, float] | None:
    """Return 0 if a column's name says the quantity, 2 if another; and how far ``high`` is off.

    ``low`` is converted first; ``None`` if it does not fit.
    """
    spread, other = low[2] - low[0], high[2] - high[0]
    named = rule.concerns(column)
    if rule.offset:
        # Measured in spreads, since zero means nothing on these scales.
        distance = abs(rule.factor * low[1] + rule.offset - high[1]) / other
        is_apart = abs(high[1] - low[1]) > 5.0 * spread
        return (0, distance) if named and distance < 1.0 and is_apart else None
    if low[1] * high[1] <= 0 or not (rule.is_clear or named):
        return None
    ratio = high[1] / low[1]
    fits = _is_near(ratio, rule.factor, _MEDIAN if rule.is_clear else _MEDIAN_SMALL)
    rank = 0 if named else 2 if rule.words else 1
    return (rank, abs(math.log(ratio / rule.factor))) if fits else None


def _is_near(ratio: float, factor: float, most: float) -> bool:
    return 1 / most <= ratio / factor <= most


@dataclass(frozen=True)
class Suspicion:
    """A conversion that would bring the numbers of a column to where they are expected.

    It is ``strong`` if another explanation is unlikely, and about ``count`` numbers, or 0 for all.
    The ``unit`` that they seem to be in, the expected ``target`` and the ``quantity`` are empty
    where none is certain. The sentence has no value of the data.
    """

    sentence: str
    strong: bool
    count: int = 0
    unit: str = ""
    target: str = ""
    quantity: str = ""
    factor: float = 0.0
    """What to multiply the numbers by, where no unit is certain; 0 where one is."""


def suspect_unit(
    name: str, column: Number, quartiles: Quartiles, outside: float
) -> Suspicion | None:
    """Return the unit in which the numbers of a column would fit, if they do not as they are.

    The ``typical`` quartiles of the schema, or else its range, are expected of the ``quartiles`` of
    the numbers as the site converts them; ``outside`` is the part of these out of the range.

    Examples
    --------
    >>> column = Number(kind="number", unit="mmol/L", substance="glucose", range=(0.5, 60),
    ...                 typical=(4.8, 5.6, 7.0))
    >>> print(suspect_unit("glucose", column, (86.0, 101.0, 126.0), 1.0).sentence.partition("?")[0])
    divided by 18.02 they would fit: in mg/dL, where the schema has mmol/L
    >>> suspect_unit("glucose", column, (4.6, 5.9, 8.0), 0.0) is None
    True
    """
    if not all(map(math.isfinite, quartiles)) or not is_odd(column, quartiles[1], outside):
        return None
    fits = [
        (not way.words, distance, k, way)
        for k, way in enumerate(_ways_to_schema(name, column))
        # Quantities of zero and below have no unit but of temperature.
        if (quartiles[0] >= 0 or not way.words or way.offset)
        and (distance := _distance_to_schema(column, *map(way.convert, quartiles))) is not None
        and (way.words or _is_close(column.typical, quartiles, way.convert(1.0)))
    ]
    if not fits:
        return None
    way = min(fits)[3]
    cure = "Convert it, or write its unit in the schema and the site's unit in a site file."
    if column.unit:
        cure = f"Write its unit (columns: {name}: unit: ...) in a site file."
    return Suspicion(
        f"{way.step} they would fit: {way.question(column)} {cure}",
        (bool(way.words) and way.is_clear) or outside > _OUTSIDE,
        unit=way.ends[0] if way.words else "",
        target=way.ends[1] if way.words else "",
        quantity=way.quantity,
        factor=0.0 if way.words else way.convert(1.0),
    )


def suspect_unit_of_few(
    name: str, column: Number, quartiles: Quartiles, numbers: Array, records: int
) -> Suspicion | None:
    """Return the unit in which a few numbers would lie among the others.

    Four in five of those out of the range must do so, and three different ones: a repeated number
    is a code, and numbers of 0 and below are codes whatever they are. Within the range, where a
    tail of one unit may lie too, they must lie about the place of the median in that unit. The
    ``numbers`` are a sample with all that are out of the range, and ``records`` counts all of them.

    Examples
    --------
    >>> column = Number(kind="number", unit="Cel", range=(30, 45))
    >>> few = np.array([97.9, 98.6, 99.1, 101.3])
    >>> print(suspect_unit_of_few("temp", column, (36.4, 36.8, 37.5), few, 104).sentence)
    4 of 104 numbers would fit as [degF]: in [degF], where the schema has Cel? Use one unit.
    """
    low, _, high = quartiles
    numbers = numbers[numbers > 0]
    if not 0 < low < high < math.inf:
        return None
    few = numbers[(numbers < column.range[0]) | (numbers > column.range[1])]
    ways = _ways_to_schema(name, column)
    fits: list[tuple[int, Conversion]] = []
    # As logarithms, since quantities on positive scales are more even in them.
    with np.errstate(all="ignore"):
        near, far = np.power(np.float64(high) / low, (_NEAR_ENDS, _FAR_ENDS))
        if len(np.unique(few)) >= _FEWEST:
            few = few[(few < low / far) | (few > high * far)]
            least = max(_FEWEST, _MOST_OF * len(few))
            for way in ways:
                converted = way.convert(few)
                count = int(((converted > low / near) & (converted < high * near)).sum())
                fits += [(count, way)] if count >= least else []
        if not fits:
            fits = [(_count_hump(way, quartiles, numbers), way) for way in ways if way.words]
    count, way = max(fits, key=lambda fit: fit[0], default=(0, None))
    if way is None or count < _FEWEST:
        return None
    named = bool(way.words)
    return Suspicion(
        f"{count} of {records} numbers would fit {way.step}: {way.question(column)} Use one unit.",
        count >= _FEW and named and bool(column.unit) and way.is_clear,
        count,
        way.ends[0] if named else "",
    )


def _count_hump(way: Conversion, quartiles: Quartiles, numbers: Array) -> int:
    """Count the numbers about the place where the median would lie in another unit.

    A tail of one unit falls: beyond that place are far fewer numbers than before it. In another
    unit half of them lie beyond it. The count is 0 where a tail may explain them.
    """
    # Slow to import.
    from scipy.special import bdtrc

    low, middle, high = np.log(quartiles).tolist()
    # A spread of a normal distribution with these quartiles.
    spread = (high - low) / 1.349
    place = (np.log(numbers) - middle) / spread
    converted = (np.log(way.convert(numbers)) - middle) / spread
    back = replace(way, is_back=not way.is_back)
    other = (np.log(back.convert(quartiles[1])) - middle) / spread
    if not abs(other) >= _APART:
        return 0
    sign = np.sign(other)
    is_near = (sign * place > _BULK) & (np.abs(converted) < _BULK)
    beyond = is_near & (sign * converted > 0)
    count = int(is_near.sum())
    explained = bdtrc(int(beyond.sum()) - 1, count, _TAIL) if beyond.any() else 1.0
    is_hump = explained < _UNLIKELY and len(np.unique(numbers[beyond])) >= _FEWEST
    return count if is_hump else 0


def _ways_to_schema(name: str, column: Number) -> list[Conversion]:
    """Return the conversions that lead to the unit of the schema."""
    ways = (replace(rule, is_back=back) for rule in CONVERSIONS for back in (False, True))
    return [way for way in ways if _leads_to_schema(way, name, column)]


def _leads_to_schema(way: Conversion, name: str, column: Number) -> bool:
    if not way.words:
        return True
    named = way.concerns(name) or way.concerns(column.substance)
    if not column.unit:
        return named
    if not named and way.quantity not in _ANY_NAME:
        return False
    return _is_same(way.ends[1], column.unit)


@cache
def _is_same(unit: str, other: str) -> bool:
    try:
        return conversion(unit, other) == (1.0, 0.0)
    except InputError:
        return False


def is_odd(column: Number, median: float, outside: float) -> bool:
    """Return whether numbers are not where the schema expects them."""
    if column.typical is None or outside > _OUTSIDE:
        return outside > _OUTSIDE
    least, most = _around(column.typical, _FAR)
    return not least <= median <= most


def _around(typical: Quartiles, widths: float) -> tuple[float, float]:
    """Return the ends of an interval that goes beyond quartiles, by their width.

    Positive numbers may be as many times smaller as larger: differences leave no room below.
    """
    low, _, high = typical
    far = widths * (high - low)
    return (low * high / (high + far) if low > 0 else low - far), high + far


def _is_close(typical: Quartiles | None, quartiles: Quartiles, factor: float) -> bool:
    """Return whether quartiles times a power of ten are so near to typical ones as to prove it.

    Larger positive numbers are near enough if their median is; smaller ones may be of children.
    """
    if typical is None or (typical[0] > 0 and factor < 1):
        return True
    pairs = [(factor * value, other) for value, other in zip(quartiles, typical, strict=True)]
    least = 0.0
    if min(typical[0], quartiles[0]) > 0:
        pairs = [(math.log(value), math.log(other)) for value, other in pairs]
        least = _CLOSE_LEAST
    width = pairs[2][1] - pairs[0][1]
    apart = sum(value - other for value, other in pairs) / len(pairs)
    return abs(apart) <= max(_CLOSE * width, least)


def _distance_to_schema(column: Number, first: float, median: float, last: float) -> float | None:
    """Return how far quartiles are from the expected ones; ``None`` if they do not fit."""
    if column.typical is None:
        low, high = column.range
        centre, width = 0.5 * (low + high), high - low
        # Divided by enough, anything fits into a range around zero.
        fits = low <= first and last <= high and last - first >= _NARROW * width
        return abs(median - centre) / width if fits else None
    low, centre, high = column.typical
    spread = high - low
    if not spread > 0 or not 1 / _WIDE <= (last - first) / spread <= _WIDE:
        return None
    least, most = _around(column.typical, _NEAR)
    fits = least <= median <= most
    return abs(median - centre) / spread if fits else None
