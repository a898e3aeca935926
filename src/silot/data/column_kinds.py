"""Kinds of columns of a schema: what each entry means, and what goes together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal, Self, Union

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ..errors import InputError
from .documents import LONGEST, Name
from .label_names import label_name
from .notation import Notation

# More coordinates than this are no table that people wrote a contract for.
_MOST_CATEGORIES = 10_000

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A part of a schema: no field but those it names, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _named(values: tuple[Any, ...], what: str) -> tuple[str, ...]:
    """Texts by the rule of labels, so that 3, 3.0 and "3" are one category."""
    for value in values:
        if isinstance(value, bool):
            raise ValueError(
                f"one of the {what} is true or false, as YAML reads yes and no; put it in quotes"
            )
        if not isinstance(value, str | int | float):
            raise ValueError(f"one of the {what} is neither text nor number; put it in quotes")
    try:
        names = tuple(map(label_name, values))
    except InputError as error:
        raise ValueError(error.message) from None
    if "" in names:
        raise ValueError(f"one of the {what} is empty")
    if len(set(names)) < len(names):
        raise ValueError(f"two of the {what} are the same")
    return names


_Names = tuple[Any, ...]
Sentinels = Annotated[_Names, AfterValidator(partial(_named, what="sentinels"))]
Words = Annotated[_Names, AfterValidator(partial(_named, what="words"))]
Categories = Annotated[_Names, AfterValidator(partial(_named, what="categories"))]
Classes = Annotated[_Names, AfterValidator(partial(_named, what="classes"))]


class Value(Part):
    """A public value that stands for a missing one, in the unit of the column."""

    value: Any


class _Column(Part):
    """What every column has.

    Attributes
    ----------
    weight
        How much a column counts: its coordinates are multiplied by this.
    missing
        What becomes of a record without a value: ``"refuse"`` the table, ``"indicator"`` for a
        coordinate that says so, or a public ``value`` in its place.
    sentinels
        What is written for a missing value, beside empty fields, NA, N/A, NaN, NULL.
    about
        Words for people; they decide nothing.
    """

    weight: Positive = 1.0
    missing: Literal["refuse", "indicator"] | Value = "refuse"
    sentinels: Sentinels = ()
    about: str = ""

    @field_validator("missing")
    @classmethod
    def _check_missing(cls, missing: Any) -> Any:
        return Value(value=cls._public(missing.value)) if isinstance(missing, Value) else missing

    @classmethod
    def _public(cls, value: Any) -> Any:
        """Return a public value for missing ones as a column of this kind has it."""
        return value


class Number(_Column):
    """A number: its coordinate is ``weight * (t(x) - t(low)) / scale``.

    t is the identity or the logarithm, and the scale ``t(high) - t(low)``, or ``spread`` where it
    is given (in units of t(x)). With ``transform="rank"`` the coordinate is the share of the public
    distribution below x, by public quantiles at even shares, and the range is theirs. With a
    ``period`` it
    lies on a circle of diameter ``weight``: two coordinates.

    Attributes
    ----------
    unit
        By UCUM where there is one: ``mmol/L``, ``mm[Hg]``, ``a`` for years.
    substance
        What is measured, such as ``glucose``: units of mass and of amount differ by its molar mass.
    range
        Smallest and largest value, public.
    outside
        What becomes of values out of range: ``"clip"`` them to it (up to 5 % of a table's, else
        it is refused), ``"refuse"`` the table, or count them as ``"missing"``, however many.
    unread
        What becomes of fields that are not numbers: ``"refuse"`` the table, or count them as
        ``"missing"`` (up to 5 % of a table's, else it is refused).
    notation
        How texts write numbers, unless the site file says otherwise. Where neither does, points
        are decimals, and a column whose points may part thousands as well is refused.
    typical
        Public quartiles, by which another unit is suspected; they decide no coordinate.
    """

    kind: Literal["number", "integer"]
    unit: str = Field(default="", max_length=LONGEST)
    substance: str = Field(default="", max_length=LONGEST)
    range: tuple[Finite, Finite]
    spread: Positive | None = None
    period: Positive | None = None
    transform: Literal["none", "log", "rank"] = "none"
    quantiles: tuple[Finite, ...] = ()
    outside: Literal["clip", "refuse", "missing"] = "clip"
    unread: Literal["refuse", "missing"] = "refuse"
    notation: Notation | None = None
    typical: tuple[Finite, Finite, Finite] | None = None

    @model_validator(mode="before")
    @classmethod
    def _ranked(cls, body: Any) -> Any:
        """Quantiles tell the range."""
        if isinstance(body, Mapping) and "range" not in body:
            quantiles = body.get("quantiles")
            if isinstance(quantiles, list | tuple) and len(quantiles) > 1:
                return {**body, "range": (quantiles[0], quantiles[-1])}
        return body

    @model_validator(mode="after")
    def _check(self) -> Number:
        low, high = self.range
        if not low < high:
            raise ValueError("range: the first number must be below the second")
        if not np.isfinite(high - low):
            raise ValueError("range: it is too wide")
        if self.transform == "log" and low <= 0:
            raise ValueError("range: a logarithm needs a range above 0")
        if (self.transform == "rank") != bool(self.quantiles):
            raise ValueError("quantiles: they belong to transform: rank, which needs them")
        if self.quantiles and (len(self.quantiles) < 2 or np.diff(self.quantiles).min() <= 0):
            raise ValueError("quantiles: two or more rising numbers are needed")
        if self.quantiles and (self.quantiles[0], self.quantiles[-1]) != self.range:
            raise ValueError("range: it must be that of the quantiles, or be left out")
        if self.period is not None and (self.transform != "none" or self.spread is not None):
            raise ValueError("period: it cannot be combined with transform or spread")
        if self.typical is not None and not self.typical[0] <= self.typical[1] <= self.typical[2]:
            raise ValueError("typical: the quartiles must rise")
        if isinstance(self.missing, Value) and not low <= self.missing.value <= high:
            raise ValueError("missing: the value is out of the range")
        return self

    @classmethod
    def _public(cls, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("a number is needed as value")
        return float(value)


class YesNo(_Column):
    """Yes or no: 1 or 0, times the weight.

    ``yes`` and ``no`` name how they are written; by default yes, y, true, 1 and no, n, false, 0
    in any case.
    """

    kind: Literal["yes/no"]
    yes: Words = ()
    no: Words = ()

    @model_validator(mode="after")
    def _check(self) -> YesNo:
        if bool(self.yes) != bool(self.no) or set(self.yes) & set(self.no):
            raise ValueError("yes: give words for yes and for no, and no word for both")
        if isinstance(self.missing, Value) and not isinstance(self.missing.value, bool):
            raise ValueError("missing: yes or no is needed as value")
        return self


class _OneOf(_Column):
    """One of several categories; a public value for missing ones is one of them."""

    kind: Any
    categories: Categories = Field(min_length=1, max_length=_MOST_CATEGORIES)

    @classmethod
    def _public(cls, value: Any) -> str:
        return _named((value,), "values")[0]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.missing, Value) and self.missing.value not in self.categories:
            raise ValueError("missing: the value is not one of the categories")
        return self


class Category(_OneOf):
    """One of several categories: a coordinate for each, ``weight / sqrt(2)`` where it is that one.

    Two records of different categories are ``weight`` apart. With ``other`` whatever is none of
    them is one more category; without, such a record does not fit.
    """

    kind: Literal["category"]
    other: bool = False


class Ordered(_OneOf):
    """One of several categories in order: ``weight * k / (K - 1)`` for the k-th of K."""

    kind: Literal["ordered"]
    categories: Categories = Field(min_length=2, max_length=_MOST_CATEGORIES)


class Date(_Column):
    """A day, with or without a time: ``weight * (x - first) / (last - first)``.

    With a ``period`` it lies on a circle of diameter ``weight``: the day of the year, the day of
    the week or the time of the day.

    Attributes
    ----------
    range
        First and last day, public.
    format
        How a text is written, by ``datetime.strptime``; by default ISO 8601 (2026-11-22, with or
        without a time).
    outside, unread
        As for numbers.
    """

    kind: Literal["date"]
    range: tuple[date, date]
    format: str = Field(default="iso", min_length=1, max_length=LONGEST)
    period: Literal["year", "week", "day"] | None = None
    outside: Literal["clip", "refuse", "missing"] = "clip"
    unread: Literal["refuse", "missing"] = "refuse"

    @model_validator(mode="after")
    def _check(self) -> Date:
        if not self.range[0] < self.range[1]:
            raise ValueError("range: the first day must be before the last")
        if isinstance(self.missing, Value):
            day = date.fromisoformat(self.missing.value)
            if not self.range[0] <= day <= self.range[1]:
                raise ValueError("missing: the value is out of the range")
        return self

    @classmethod
    def _public(cls, value: Any) -> str:
        try:
            return date.fromisoformat(str(value)).isoformat()
        except ValueError:
            raise ValueError("a day such as 2026-11-22 is needed as value") from None


class LeftOut(Part):
    """A column that is not a feature: free text, or what a site calls its records."""

    kind: Literal["text", "identifier"]
    about: str = ""


Column = Annotated[
    Union[Number, YesNo, Category, Ordered, Date, LeftOut],  # noqa: UP007 - with a discriminator
    Field(discriminator="kind"),
]
Feature = Number | YesNo | Category | Ordered | Date


class Label(Part):
    """The column that has the labels, and the public classes.

    With ``other`` labels of no public class are one class more, named ``"other"``; ``missing`` is
    the class of records without one, else such a table is refused.
    """

    column: Name
    classes: Classes = Field(min_length=1, max_length=_MOST_CATEGORIES)
    other: bool = False
    missing: Any = None

    @field_validator("missing")
    @classmethod
    def _class(cls, missing: Any) -> Any:
        return None if missing is None else _named((missing,), "classes")[0]

    @model_validator(mode="after")
    def _check(self) -> Label:
        if self.missing is not None and self.missing not in self.classes:
            raise ValueError("missing: it is not one of the classes")
        if self.other and "other" in self.classes:
            raise ValueError("other: there is a class of that name")
        return self


class Weight(Part):
    """The column that has the weights of records, and their public limit, to which they are cut."""

    column: Name
    limit: Positive
