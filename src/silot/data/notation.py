"""How a column writes its numbers: one notation for all fields, declared or the only one possible.

A notation is a grammar. One that is declared, by a schema or a site file, is the only one that is
tried. Where none is, every grammar that the signs of a column allow is tried on all of its fields;
those that remain must say the same numbers, else the column is refused. A record more can only take
readings away, so it may have the table refused, and never changes how another record is read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

Array = npt.NDArray[np.float64]

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
"""Fields that mean "missing", everywhere."""
CURRENCIES = ("$", "€", "£", "¥", "₹", "CHF", "EUR", "USD", "GBP", "JPY", "kr", "zł")
"""Signs of money that are recognised where none is declared."""
# A longer field is no number: expressions take a time that grows with what they are given.
_LONGEST = 60
_EMPTY = frozenset(text.casefold() for text in MISSING)
_TRUTH = {"true": 1.0, "false": 0.0}
# Signs and digits that are another form of a plain one. Never NFKC, which reads 10³ as 103.
_SIGNS: dict[int, str | None] = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " "),
    **dict.fromkeys(map(ord, "\u2019\u02bc\u00b4`"), "'"),
    **dict.fromkeys(map(ord, "\u200b\u200e\u200f\u2060\ufeff"), None),
    0x2264: "<",
    0x2265: ">",
    0x2248: "~",
    0x066A: "%",
    0x066B: ".",
    0x066C: ",",
}


def fold(text: str) -> str:
    """Write the signs and digits of a field in their plain forms, without blanks around it."""
    if not text.isascii():
        text = text.translate(_SIGNS)
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    return text.strip()


def is_missing(text: str, sentinels: Collection[str] = ()) -> bool:
    """Return whether a field says that there is no value."""
    text = fold(text)
    return text in sentinels or text.casefold() in _EMPTY or text.casefold() in sentinels


class Notation(BaseModel):
    """How a column writes its numbers.

    Attributes
    ----------
    decimal, group
        The mark before decimals, and that between groups of digits, if any.
    grouping
        ``"thousands"`` (1,234,567) or ``"indian"`` (12,34,567).
    negative
        How numbers below zero are written: ``"-5"``, ``"5-"`` or ``"(5)"``; ``"enclosed"`` where
        brackets stand about all numbers and mean nothing.
    affix
        A sign before or after numbers: a currency, a unit, or the ``*`` of a footnote. After
        ``"%"`` numbers are divided by 100, and every number has it.
    limits
        Whether ``<0.5``, ``>100``, ``90+`` and ``~12`` stand for 0.5, 100, 90 and 12.
    clock
        Whether ``12:30`` is 12.5: hours and minutes, or minutes and seconds.

    Examples
    --------
    >>> Notation(decimal=",", group=".").number("1.234,5")
    1234.5
    >>> Notation().number("1.234,5") is None
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    decimal: Literal[".", ","] = "."
    group: Literal["", ".", ",", " ", "'"] = ""
    grouping: Literal["thousands", "indian"] = "thousands"
    negative: Literal["-5", "5-", "(5)", "enclosed"] = "-5"
    affix: str = Field(default="", max_length=12)
    limits: bool = False
    clock: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group == self.decimal:
            raise ValueError("group: it is the mark of decimals")
        if re.search(r"[0-9.,()<>+-]", self.affix):
            raise ValueError("affix: it is a currency or a unit, without digits and signs")
        return self

    def __str__(self) -> str:
        """Return the entries that are not the usual ones, as YAML."""
        said = self.model_dump(exclude_defaults=True) or {"decimal": "."}
        words = {True: "true", False: "false"}
        return (
            "{" + ", ".join(f"{k}: {words.get(v) or repr(v)}" for k, v in said.items()) + "}"
        ).replace("'\\''", '"\'"')

    @property
    def is_plain(self) -> bool:
        """Return whether numbers are written as programs write them."""
        return self == PLAIN

    @cached_property
    def _matches(self) -> Callable[[str], re.Match[str] | None]:
        mark, group = re.escape(self.decimal), re.escape(self.group)
        digits = "[0-9]+"
        if self.group:
            inner, most = ("2", "1") if self.grouping == "indian" else ("3", "2")
            grouped = f"[1-9][0-9]{{0,{most}}}(?:{group}[0-9]{{{inner}}})*{group}[0-9]{{3}}"
            digits = f"(?:{grouped}|{digits})"
        number = f"(?:{digits}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]{{1,3}})?"
        if self.clock:
            number = "[0-9]{1,4}:[0-5][0-9](?::[0-5][0-9])?"
        affix = re.escape(self.affix)
        bare = [number]
        if self.affix == "%":
            bare = [f"{number} ?%"]
        elif self.affix:
            bare = [number, f"{affix} ?{number}", f"{number} ?{affix}"]
        forms = [f"[+-]?{form}" for form in bare]
        forms += [f"{affix} ?[+-]{number}"] if self.affix not in ("", "%") else []
        forms += [f"{form} ?-" for form in bare] if self.negative == "5-" else []
        forms += [rf"\( ?{form} ?\)" for form in bare] if self.negative == "(5)" else []
        forms = [rf"\( ?{form} ?\)" for form in forms] if self.negative == "enclosed" else forms
        # One mark only: 90+ is a limit, and >90+ is none.
        form = f"(?:{'|'.join(forms)})"
        limit = rf"(?:[<>]=?|~) ?{form}|{form} ?\+|" if self.limits else ""
        return re.compile(f"{limit}{form}").fullmatch

    def number(self, text: str) -> float | None:
        """Return the number that a folded field says, or ``None`` where it is not so written."""
        value = self.exact(text)
        return None if value is None else float(value)

    def exact(self, text: str) -> Decimal | None:
        """Return the number of a folded field with all its digits."""
        if len(text) > _LONGEST or self._matches(text) is None:
            return None
        digits = text.replace(self.affix, "") if self.affix else text
        is_below = "-" in re.sub("[eE]-", "", digits) or (self.negative == "(5)" and "(" in digits)
        digits = digits.replace(self.group, "") if self.group else digits
        digits = digits.replace(self.decimal, ".").replace(" ", "")
        if self.clock:
            parts = re.findall("[0-9]+", digits)
            value = sum((Decimal(part) / 60**k for k, part in enumerate(parts)), Decimal(0))
        else:
            value = Decimal(re.sub("[^0-9.eE+-]|^[+-]|-$", "", digits.strip("()<>=+-")))
        value = value / 100 if self.affix == "%" else value
        return -value if is_below else value


PLAIN = Notation()


class Numbers(NamedTuple):
    """Fields as numbers (n,): NaN where they are missing or cannot be read (``unread``)."""

    values: Array
    unread: npt.NDArray[np.bool_]


def read_numbers(
    texts: Sequence[str], notation: Notation = PLAIN, sentinels: Collection[str] = ()
) -> Numbers:
    """Read the fields of a column in one notation; infinite numbers are left as they are."""
    unread = np.zeros(len(texts), dtype=np.bool_)
    if notation.is_plain and (values := _all_plain(texts)) is not None:
        return Numbers(values, unread)
    numbers: dict[str, float | None] = {}
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if text not in numbers:
            numbers[text] = np.nan if is_missing(text, sentinels) else number_of(text, notation)
        number = numbers[text]
        unread[row] = number is None
        if number is not None:
            values[row] = number
    typed: Collection[int] = getattr(texts, "typed", ())
    for row in typed:
        # Numbers among texts are in no notation.
        if (number := number_of(texts[row])) is not None:
            values[row], unread[row] = number, False
    return Numbers(values, unread)


def number_of(text: str, notation: Notation = PLAIN) -> float | None:
    """Return the number of one field, ``None`` where it says none; true and false are 1 and 0."""
    text = fold(text)
    if notation.is_plain:
        try:
            # Python reads 1_000 as a number, which no table means.
            return None if "_" in text else float(text)
        except ValueError:
            pass
    number = None if notation.is_plain else notation.number(text)
    return _TRUTH.get(text.lower()) if number is None else number


def _all_plain(texts: Sequence[str]) -> Array | None:
    """Return all fields as numbers, where Python reads each as one."""
    try:
        if "_" not in "".join(texts):
            return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        pass
    return None


@dataclass(frozen=True)
class Reading:
    """Notations in which all fields of a column are numbers, one for each set of numbers.

    ``row`` (from 0) is the first whose number depends on the notation, or that none reads, else -1,
    and ``unread`` counts the rows that the nearest one does not read. A column ``is_marked`` if the
    mark of decimals of the only notation stands in a field.
    """

    notations: tuple[Notation, ...]
    row: int = -1
    unread: int = 0
    is_marked: bool = False

    @property
    def notation(self) -> Notation | None:
        """The only reading, if there is one."""
        return self.notations[0] if len(self.notations) == 1 else None


def possible(
    texts: Iterable[str] | Mapping[str, tuple[int, int]],
    marks: str = ".,",
    sentinels: Collection[str] = (),
) -> Reading:
    """Find the notations in which every field of a column is a number.

    The texts are fields, or by field the row of the first and how many there are. The marks are
    those that decimals may have, by what other columns of the table show.
    """
    rows: dict[str, tuple[int, int]] = {}
    if not isinstance(texts, Mapping):
        for row, text in enumerate(texts):
            place, count = rows.get(text, (row, 0))
            rows[text] = place, count + 1
        texts = rows
    first: dict[str, int] = {}
    weights: dict[str, int] = {}
    for text, (row, count) in texts.items():
        if not is_missing(text, sentinels) and text.strip().lower() not in _TRUTH:
            folded = fold(text)
            first[folded] = min(first.get(folded, row), row)
            weights[folded] = weights.get(folded, 0) + count
    # Fields with many signs first: they take most notations away.
    fields = sorted(first, key=lambda text: (text.isdigit(), -len(text)))
    notations = list(_candidates(fields, marks))
    readings: dict[tuple[Decimal, ...], Notation] = {}
    for notation in notations:
        values = tuple(_read_all(notation, fields))
        if len(values) == len(fields):
            readings.setdefault(values, notation)
    if not readings:
        odd = [[text for text in fields if one.exact(text) is None] for one in notations]
        least = min(odd, key=lambda texts: sum(weights[text] for text in texts))
        return Reading((), min(first[text] for text in least), sum(weights[text] for text in least))
    chosen = tuple(readings.values())
    if len(chosen) == 1:
        return Reading(chosen, is_marked=any(chosen[0].decimal in text for text in fields))
    differing = [
        text for text, values in zip(fields, zip(*readings, strict=True), strict=True)
        if len(set(values)) > 1
    ]  # fmt: skip
    return Reading(chosen, min(first[text] for text in differing))


def _read_all(notation: Notation, fields: Sequence[str]) -> Iterator[Decimal]:
    for text in fields:
        value = notation.exact(text)
        if value is None:
            return
        yield value


def _candidates(fields: Sequence[str], marks: str) -> Iterator[Notation]:
    """Yield the notations that the signs in the fields allow, the plainest first."""
    signs = set[str]().union(*map(set, fields))
    groups = ["", *(mark for mark in ",. '" if mark in signs)]
    affixes = ["", *(one for one in ("%", "*", *CURRENCIES) if any(one in text for text in fields))]
    words = {word[0] for text in fields if (word := _WORD(text))}
    # A unit: one word after all numbers.
    affixes += [word for word in words if len(words) == 1 and word not in affixes]
    negatives = [
        "-5",
        *(["5-"] if "-" in signs else []),
        *(["(5)", "enclosed"] if "(" in signs else []),
    ]
    limits = bool(signs & set("<>~")) or any(text.endswith("+") for text in fields)
    if ":" in signs:
        yield Notation(clock=True)
    for affix, negative, group, mark in product(affixes, negatives, groups, marks):
        for grouping in ("thousands", "indian") if group == "," else ("thousands",):
            if group != mark:
                yield Notation.model_validate(
                    {"decimal": mark, "group": group, "grouping": grouping, "negative": negative,
                     "affix": affix, "limits": limits}
                )  # fmt: skip


def is_ambiguous(texts: Iterable[str]) -> bool:
    """Return whether the points of plain numbers may part thousands: 1.234 everywhere, 1.2 nowhere.

    A column of which this is false is read as it is written, and no other notation says otherwise.
    """
    pointed = False
    for text in texts:
        if "." in text:
            if _GROUPED(text) is None:
                return False
            pointed = True
    return pointed


_WORD = re.compile(r"(?<=[0-9 ])[^\W\d_][^\d\s.,()<>+-]{0,11}$").search
_GROUPED = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+\s*").fullmatch
