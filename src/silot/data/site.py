"""How a site writes its table, where that is not what the schema says."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from ..errors import InputError
from .column_kinds import Category, Date, Feature, Number, Ordered, Sentinels, YesNo
from .conversion import conversion
from .coordinates import Writing
from .dialect import Dialect
from .documents import LONGEST, ByName, Document, Plain
from .label_names import label_name
from .names import listing
from .notation import Notation

# What a draft writes before a category that nothing but shares suggest: a person takes it away.
GUESS = "EDIT "


class SiteColumn(BaseModel):
    """How a site writes one column of the schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    source: Plain = Field(default="", alias="from")
    unit: str = ""
    factor: float | None = Field(default=None, gt=0, lt=math.inf)
    codes: Mapping[Any, Any] = Field(default_factory=dict)
    format: str = ""
    sentinels: Sentinels = ()
    notation: Notation | None = None

    @field_validator("codes")
    @classmethod
    def _name_codes(cls, codes: Mapping[Any, Any]) -> Mapping[str, Any]:
        """Codes by the rule of labels; of two that are one, the second would win."""
        names = {label_name(code): value for code, value in codes.items()}
        if len(names) < len(codes):
            raise ValueError("two of the codes are the same")
        return names


class Site(Document):
    """How a site writes its table, where that is not what the schema says.

    It stays at the site. Its columns have the schema's names: ``from`` says what a column is
    called there, ``unit`` in which unit its numbers are, or ``factor`` by what they are multiplied
    to be in the schema's, ``codes`` what its categories are called
    in the schema, ``format`` how its days are written, ``sentinels`` what stands for missing
    values, ``notation`` how its numbers are written. ``decimal`` and ``group`` are the marks in
    the numbers of all columns that have no notation of their own. ``repeats: drop`` counts the
    first of equal records alone. ``file`` says how a text is a table: its ``encoding``,
    ``separator``, ``quote``, ``header`` and ``comment``. ``drafted`` names the entries that a draft
    inferred from records: no table is read by them before ``confirmed_by`` has a name.

    Examples
    --------
    >>> Site.of({"columns": {"sex": {"from": "GESCHL", "codes": {"1": "m", "2": "f"}}}}).columns[
    ...     "sex"
    ... ].source
    'GESCHL'
    """

    called: ClassVar = "the site file"
    wrong: ClassVar = "site-invalid"

    silot: Literal["site"] = "site"
    columns: ByName[SiteColumn] = Field(default_factory=dict)
    decimal: Literal[".", ","] | None = None
    group: Literal["", ".", ",", " ", "'"] = ""
    repeats: Literal["keep", "drop"] = "keep"
    file: Dialect = Field(default_factory=Dialect)
    drafted: tuple[str, ...] = ()
    confirmed_by: str = Field(default="", max_length=LONGEST)
    _file: str = PrivateAttr("")

    @property
    def notation(self) -> Notation | None:
        """The format of all columns, if the file gives one."""
        if self.decimal is None and not self.group:
            return None
        mark = self.decimal or ("," if self.group == "." else ".")
        return Notation(decimal=mark, group=self.group)

    def entry(self, name: str) -> SiteColumn:
        """Return how it writes a column; by default as the schema says."""
        return self.columns.get(name, SiteColumn())

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.decimal and self.decimal == self.group:
            raise ValueError("group: it is the mark of decimals")
        for name, entry in self.columns.items():
            guessed = any(str(value).startswith(GUESS) for value in entry.codes.values())
            if guessed and (self.confirmed_by or not self.drafted):
                raise ValueError(
                    f"columns.{name}.codes: what begins with {GUESS.strip()} is a guess of the "
                    f"draft. Write the category of the schema in its place, without {GUESS.strip()}"
                )
        return self

    @property
    def unconfirmed(self) -> str:
        """Return why no table is read by this file yet, and what to type; empty if it may be."""
        if not self.drafted or self.confirmed_by:
            return ""
        return (
            f"{self._file or self.called} was drafted from records, and nobody has confirmed "
            f"{listing(self.drafted, 4)}. Look at each entry, then type `silot schema confirm "
            f'{self._file or "FILE"} --by "YOUR NAME"`.'
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a .yml, .yaml or .json file, and remember where it is."""
        site = super().load(path)
        site._file = shlex.quote(str(path))
        return site


def writing_of(name: str, column: Feature, site: Site) -> Writing:
    """Return how a site writes a column."""
    entry = site.entry(name)
    factor, offset = 1.0, 0.0
    if entry.unit:
        if not isinstance(column, Number) or not column.unit:
            raise InputError(
                f"the site file gives a unit of {name!r}, and the schema has none to convert to.",
                code="site-invalid",
            )
        factor, offset = conversion(entry.unit, column.unit, column.substance)
    if entry.factor is not None:
        if entry.unit:
            raise InputError(
                f"the site file gives both a unit and a factor of {name!r}. Give one of them.",
                code="site-invalid",
            )
        factor = entry.factor
    for what, value, kinds, things in (
        ("codes", entry.codes, YesNo | Category | Ordered, "categories"),
        ("a format", entry.format, Date, "days"),
        ("a factor", entry.factor, Number, "numbers"),
        ("a notation", entry.notation, Number, "numbers"),
    ):
        if value and not isinstance(column, kinds):
            raise InputError(
                f"the site file gives {what} of {name!r}, which has no {things}.",
                code="site-invalid",
            )
    notation = entry.notation or site.notation
    if notation is None and isinstance(column, Number):
        notation = column.notation
    codes = {code: _target(name, column, value) for code, value in entry.codes.items()}
    return Writing(factor, offset, codes, entry.format, entry.sentinels, notation)


def _target(name: str, column: Feature, value: Any) -> str:
    """The category of the schema that a code of a site stands for."""
    names = column.categories if isinstance(column, Category | Ordered) else ()
    if isinstance(column, YesNo):
        yes, no = column.yes or ("yes",), column.no or ("no",)
        names = (*yes, *no)
        # YAML reads yes and no as true and false.
        if isinstance(value, bool):
            value = yes[0] if value else no[0]
    word = label_name(value)
    if word not in names:
        raise InputError(
            f"the site file maps a code of {name!r} to something that is not one of its categories "
            f"in the schema ({listing(names)}).",
            code="site-invalid",
        )
    return word
