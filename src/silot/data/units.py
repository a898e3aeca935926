"""Conversions between units that tables come in, as data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from silot_transport._check import Array

# A factor below this is also what another law of the same unit makes of a column: only a name
# that says what is measured tells the two apart.
_AMBIGUOUS = 5.0
# How far, as a ratio, the medians and the spreads of two holders may be from a conversion. Of
# small factors less, as their neighbours are close.
_MEDIAN, _MEDIAN_SMALL, _SPREAD = 1.3, 1.1, 1.7
# A few numbers are another unit's that lie so many widths of the quartiles beyond them (as
# logarithms), and once they are converted so near them; how many there must be, and what part.
_FAR_ENDS, _NEAR_ENDS = 3.0, 2.0
_FEWEST, _MOST_OF = 3, 0.8


@dataclass(frozen=True)
class Conversion:
    """One quantity in two units: ``to = factor * of + offset``.

    Attributes
    ----------
    quantity
        What is measured.
    of, to
        The two units, as UCUM writes them or as clinics do.
    factor, offset
        What a number in ``of`` is multiplied by, and what is then added.
    words
        Pieces of names of columns by which the quantity is recognised, in lower case; none for
        conversions of any quantity.
    source
        Where the number is from.
    """

    quantity: str
    of: str
    to: str
    factor: float
    words: tuple[str, ...] = ()
    source: str = ""
    offset: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether another law of one unit hardly ever looks like it."""
        return self.offset != 0 or not 1 / _AMBIGUOUS < self.factor < _AMBIGUOUS

    @property
    def in_words(self) -> str:
        """The two units, and what a number in the first is multiplied by."""
        added = f", and {self.offset:g} added" if self.offset else ""
        of = f" of {self.quantity}" if self.words else ""
        return f"{self.of} and {self.to}{of} (factor {self.factor:g}{added})"

    def concerns(self, column: str) -> bool:
        """Whether the name of a column says that it is this quantity."""
        name = column.lower()
        tokens = re.split(r"[^a-z0-9]+", name)
        return any(word in tokens if len(word) < 4 else word in name for word in self.words)


Way = tuple[Conversion, bool]
"""A conversion, and whether it is turned: from its second unit to the first."""

_MOLAR = "molar mass of {}: grams a mole, times ten for decilitres in a litre"
_EXACT = "by definition of the units"

CONVERSIONS = (
    Conversion(
        "glucose", "mmol/L", "mg/dL", 18.016, ("gluc", "glyc", "sugar"),
        _MOLAR.format("glucose, 180.16"),
    ),
    Conversion(
        "creatinine", "mg/dL", "umol/L", 88.42, ("creat", "krea", "scr"),
        _MOLAR.format("creatinine, 113.12") + ", inverted to micromoles",
    ),
    Conversion(
        "cholesterol", "mmol/L", "mg/dL", 38.67, ("chol", "hdl", "ldl"),
        _MOLAR.format("cholesterol, 386.65"),
    ),
    Conversion(
        "triglycerides", "mmol/L", "mg/dL", 88.57, ("trigl", "tg"),
        _MOLAR.format("triolein, 885.4, by convention"),
    ),
    Conversion(
        "bilirubin", "mg/dL", "umol/L", 17.104, ("bili",),
        _MOLAR.format("bilirubin, 584.66") + ", inverted to micromoles",
    ),
    Conversion(
        "urea nitrogen", "mmol/L", "mg/dL", 2.801, ("urea", "bun", "nitrogen"),
        _MOLAR.format("two nitrogen atoms, 28.01"),
    ),
    Conversion(
        "urea", "mmol/L", "mg/dL", 6.006, ("urea",), _MOLAR.format("urea, 60.06"),
    ),
    Conversion(
        "calcium", "mmol/L", "mg/dL", 4.008, ("calc", "ca"), _MOLAR.format("calcium, 40.08"),
    ),
    Conversion(
        "magnesium", "mmol/L", "mg/dL", 2.4305, ("magnes",), _MOLAR.format("magnesium, 24.305"),
    ),
    Conversion(
        "phosphate", "mmol/L", "mg/dL", 3.0974, ("phosph",), _MOLAR.format("phosphorus, 30.974"),
    ),
    Conversion(
        "uric acid", "mg/dL", "umol/L", 59.48, ("uric", "urate"),
        _MOLAR.format("uric acid, 168.11") + ", inverted to micromoles",
    ),
    Conversion(
        "haemoglobin", "g/dL", "mmol/L", 0.6206, ("hemoglob", "haemoglob", "hgb", "hb"),
        _MOLAR.format("one haem chain, 16114"),
    ),
    Conversion(
        "lactate", "mmol/L", "mg/dL", 9.008, ("lact",), _MOLAR.format("lactic acid, 90.08"),
    ),
    Conversion("mass", "kg", "lb", 2.2046, ("weight", "mass", "wt", "kg", "lb", "lbs"), _EXACT),
    Conversion(
        "length", "in", "cm", 2.54,
        ("height", "length", "circum", "waist", "hip", "ht", "cm", "inch", "inches"), _EXACT,
    ),
    Conversion("length", "ft", "cm", 30.48, ("height", "length", "ht"), _EXACT),
    Conversion(
        "pressure", "kPa", "mmHg", 7.5006, ("press", "sbp", "dbp", "map", "bp", "pao2", "paco2"),
        _EXACT,
    ),
    Conversion(
        "temperature", "Cel", "[degF]", 1.8, ("temp", "celsius", "fahrenheit"), _EXACT, 32.0
    ),
    Conversion("temperature", "Cel", "K", 1.0, ("temp", "celsius", "kelvin"), _EXACT, 273.15),
    Conversion("energy", "kcal", "kJ", 4.184, ("energy", "calor", "kcal", "kj"), _EXACT),
    Conversion("time", "a", "mo", 12.0, ("age", "year", "month", "durat", "time"), _EXACT),
    Conversion("time", "a", "d", 365.25, ("age", "year", "days", "durat", "time"), _EXACT),
    Conversion("time", "wk", "d", 7.0, ("week", "days", "durat", "stay", "los"), _EXACT),
    Conversion("time", "d", "h", 24.0, ("hour", "days", "durat", "stay", "los", "time"), _EXACT),
    Conversion("time", "h", "min", 60.0, ("hour", "minute", "durat", "time"), _EXACT),
    Conversion("any quantity", "a unit", "its tenth", 10.0, (), _EXACT),
    Conversion("any quantity", "a unit", "its hundredth", 100.0, (), _EXACT),
    Conversion("any quantity", "a unit", "its thousandth", 1000.0, (), _EXACT),
    Conversion("any quantity", "a unit", "its millionth", 1e6, (), _EXACT),
)  # fmt: skip
"""Conversions by which columns of clinical and everyday tables differ."""


def conversion_between(
    column: str, first: Sequence[float], second: Sequence[float]
) -> Conversion | None:
    """The conversion by which the first numbers look like the second ones in another unit.

    Parameters
    ----------
    column
        The name of the column.
    first, second
        Quartiles of it at two holders, in rising order.

    Returns
    -------
    Conversion or None
        Of several the one that is nearest; those whose quantity the name says come first. One that
        the name does not say must be of a factor of 5 or more.

    Examples
    --------
    >>> rule = conversion_between("glucose", (85.0, 105.0, 128.0), (4.7, 5.8, 7.1))
    >>> rule.quantity, rule.of, rule.to
    ('glucose', 'mmol/L', 'mg/dL')
    >>> conversion_between("glucose", (85.0, 105.0, 128.0), (84.0, 104.0, 129.0)) is None
    True
    """
    fits = [
        (not rule.concerns(column), off, k)
        for k, rule in enumerate(CONVERSIONS)
        for low, high in ((first, second), (second, first))
        if (off := _off(rule, low, high, named=rule.concerns(column))) is not None
    ]
    return CONVERSIONS[min(fits)[2]] if fits else None


def _off(
    rule: Conversion, low: Sequence[float], high: Sequence[float], *, named: bool
) -> float | None:
    """How far ``high`` is from ``low`` converted; ``None`` where it does not fit."""
    spread, other = low[2] - low[0], high[2] - high[0]
    if spread <= 0 or other <= 0 or not _near(other / spread, rule.factor, _SPREAD):
        return None
    if rule.offset:
        # In units of the spread: zero means nothing here.
        away = abs(rule.factor * low[1] + rule.offset - high[1]) / other
        return away if named and away < 1.0 and abs(high[1] - low[1]) > 5.0 * spread else None
    small = not rule.clear
    if low[1] * high[1] <= 0 or (small and not named):
        return None
    ratio = high[1] / low[1]
    fits = _near(ratio, rule.factor, _MEDIAN_SMALL if small else _MEDIAN)
    return abs(math.log(ratio / rule.factor)) if fits else None


def _near(ratio: float, factor: float, most: float) -> bool:
    return 1 / most <= ratio / factor <= most


def few_converted(
    quartiles: Sequence[float], few: Array, ways: Iterable[Way]
) -> tuple[Way, int] | None:
    """The conversion by which a few numbers of a column would lie among the others.

    Parameters
    ----------
    quartiles
        Of the column.
    few
        Numbers that cannot be, in its unit; those of 0 and below are codes, whatever they are.
    ways
        Conversions and whether they are turned.

    Returns
    -------
    tuple or None
        The conversion that brings most of them among the others, and how many; ``None`` where it
        is less than four in five of them, or they are fewer than three different ones: one number
        that is repeated is a code.

    Examples
    --------
    >>> ways = [(rule, True) for rule in CONVERSIONS if rule.to == "[degF]"]
    >>> (rule, _), count = few_converted((36.5, 37, 37.5), np.array([97.8, 98.6, 99.5]), ways)
    >>> rule.in_words, count
    ('Cel and [degF] of temperature (factor 1.8, and 32 added)', 3)
    """
    low, _, high = quartiles
    few = few[few > 0]
    if len(np.unique(few)) < _FEWEST or not 0 < low < high < math.inf:
        return None
    # Of what is measured on positive scales logarithms are the more even.
    with np.errstate(all="ignore"):
        near, far = np.power(np.float64(high) / low, (_NEAR_ENDS, _FAR_ENDS))
        few = few[(few < low / far) | (few > high * far)]
        candidates = [(way, way_of(way, few)) for way in ways]
        fits = [(int(((x > low / near) & (x < high * near)).sum()), way) for way, x in candidates]
    count, way = max(fits, key=lambda fit: fit[0], default=(0, None))
    return (way, count) if way and count >= max(_FEWEST, _MOST_OF * len(few)) else None


def way_of(way: Way, value: Any) -> Any:
    """A number, or an array of them, converted one way or back."""
    rule, turned = way
    if turned:
        return (value - rule.offset) / rule.factor
    return rule.factor * value + rule.offset
