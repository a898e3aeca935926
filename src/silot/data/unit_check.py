"""Numbers that look as if they were in another unit than the schema says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .column_kinds import Number
from .conversion import conversion
from .units import CONVERSIONS, Conversion, Way, few_converted, way_of

Array = npt.NDArray[np.float64]
Quartiles = tuple[float, float, float]

# How far, in its spreads, the middle may be from the typical quartiles, and how much wider or
# narrower the numbers may be once they are converted.
_FAR, _NEAR, _WIDE = 1.5, 0.5, 1.7
# Part of the numbers out of the range from where on the range speaks where nothing is typical.
_OUTSIDE = 0.5
# So many numbers in another unit are no slip of a pen.
_FEW = 10
_ANY_NAME = {"mass", "length", "pressure", "temperature", "energy", "time"}
_UCUM = {"mmHg": "mm[Hg]", "lb": "[lb_av]", "in": "[in_i]", "ft": "[ft_i]"}


@dataclass(frozen=True)
class Suspicion:
    """A conversion that would bring the numbers of a column to where they are expected.

    Attributes
    ----------
    sentence
        What it is and what to do, without any value of the data.
    strong
        Whether another explanation is hard to think of.
    count
        How many numbers it is about; 0 for all.
    unit
        The unit that they seem to be in; of an unknown one nothing.
    """

    sentence: str
    strong: bool
    count: int = 0
    unit: str = ""


def suspected(name: str, column: Number, quartiles: Quartiles, outside: float) -> Suspicion | None:
    """Whether the numbers of a column would fit in another unit, and do not as they are.

    Parameters
    ----------
    name, column
        What the schema says; its ``typical`` quartiles, or else its range, tell what is expected.
    quartiles
        Of the numbers, in the unit of the schema as the site has it.
    outside
        Part of the numbers that is out of the range.

    Examples
    --------
    >>> column = Number(kind="number", unit="mmol/L", substance="glucose", range=(0.5, 60),
    ...                 typical=(4.8, 5.6, 7.0))
    >>> print(suspected("glucose", column, (86.0, 101.0, 126.0), 1.0).sentence.partition("?")[0])
    divided by 18.02 they would fit: in mg/dL, where the schema has mmol/L
    >>> suspected("glucose", column, (4.6, 5.9, 8.0), 0.0) is None
    True
    """
    if not all(map(math.isfinite, quartiles)) or not _odd(column, quartiles, outside):
        return None
    fits = [
        (not way[0].words, off, k, way)
        for k, way in enumerate(_ways(name, column))
        if (off := _off(column, [way_of(way, q) for q in quartiles])) is not None
    ]
    if not fits:
        return None
    way = min(fits)[3]
    clear = bool(way[0].words) and way[0].clear
    words = f"{_how(way)} they would fit: {_sentence(way, column)} {_cure(name, column)}"
    return Suspicion(words, clear or outside > _OUTSIDE)


def suspected_few(
    name: str, column: Number, quartiles: Quartiles, few: Array, records: int
) -> Suspicion | None:
    """Whether the few numbers out of the range would lie among the others in another unit.

    Parameters
    ----------
    name, column
        What the schema says.
    quartiles
        Of the numbers, in the unit of the schema as the site has it.
    few, records
        The numbers out of the range, all of them, and how many there are in all.

    Examples
    --------
    >>> column = Number(kind="number", unit="Cel", range=(30, 45))
    >>> few = np.array([97.9, 98.6, 99.1, 101.3])
    >>> print(suspected_few("temp", column, (36.4, 36.8, 37.5), few, 104).sentence)
    4 of 104 numbers would fit as [degF]: in [degF], where the schema has Cel? Use one unit.
    """
    best = few_converted(quartiles, few, _ways(name, column)) if len(few) else None
    if best is None:
        return None
    way, count = best
    words = (
        f"{count} of {records} numbers would fit {_how(way)}: {_sentence(way, column)} Use one "
        "unit."
    )
    strong = count >= _FEW and bool(way[0].words and column.unit) and way[0].clear
    return Suspicion(words, strong, count, _source(way) if way[0].words else "")


def _ways(name: str, column: Number) -> list[Way]:
    """Conversions that lead to the unit of the schema."""
    return [
        (rule, turned)
        for rule in CONVERSIONS
        for turned in (False, True)
        if _applies(rule, name, column, turned=turned)
    ]


def _odd(column: Number, quartiles: Quartiles, outside: float) -> bool:
    if column.typical is None:
        return outside > _OUTSIDE
    low, _, high = column.typical
    far = _FAR * (high - low)
    return outside > _OUTSIDE or not low - far <= quartiles[1] <= high + far


def _applies(rule: Conversion, name: str, column: Number, *, turned: bool) -> bool:
    """Whether the conversion leads to the unit of the schema."""
    if not rule.words:
        return True
    named = rule.concerns(name) or rule.concerns(column.substance)
    if not column.unit:
        return named
    return (named or rule.quantity in _ANY_NAME) and _same(rule.of if turned else rule.to, column)


def _same(unit: str, column: Number) -> bool:
    try:
        return conversion(_UCUM.get(unit, unit), column.unit) == (1.0, 0.0)
    except InputError:
        return False


def _off(column: Number, converted: Iterable[float]) -> float | None:
    """How far converted quartiles are from what is expected; ``None`` where they do not fit."""
    first, middle, last = converted
    if column.typical is None:
        low, high = column.range
        centre = 0.5 * (low + high)
        return abs(middle - centre) / (high - low) if low <= first and last <= high else None
    low, centre, high = column.typical
    spread = high - low
    if not spread > 0 or not 1 / _WIDE <= (last - first) / spread <= _WIDE:
        return None
    off = abs(middle - centre) / spread
    return off if low - _NEAR * spread <= middle <= high + _NEAR * spread else None


def _how(way: Way) -> str:
    """What brings numbers to the unit of the schema."""
    rule, turned = way
    if rule.offset:
        return f"as {_source(way)}"
    return f"{'divided' if turned else 'multiplied'} by {rule.factor:.4g}"


def _source(way: Way) -> str:
    rule, turned = way
    source = rule.to if turned else rule.of
    return _UCUM.get(source, source)


def _sentence(way: Way, column: Number) -> str:
    if not way[0].words:
        return "in another unit, or without a decimal point?"
    expected = f"the schema has {column.unit}" if column.unit else "the schema names no unit"
    return f"in {_source(way)}, where {expected}?"


def _cure(name: str, column: Number) -> str:
    """What to do about it."""
    if column.unit:
        return f"Write its unit (columns: {name}: unit: ...) in a site file."
    return "Convert it, or give the schema its unit, and a site file the site's."
