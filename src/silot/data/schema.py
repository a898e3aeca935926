"""Describe a table in public, so that every site reads its records in the same way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from .column_kinds import Column, Feature, Label, LeftOut, Weight
from .documents import LONGEST, ByName, Document, neat
from .files import write_whole
from .names import listing

VERSION = 1
Array = npt.NDArray[np.float64]


class Contract(Document):
    """Describe the columns of a table by name, its labels and its weights.

    ``silot.Schema`` adds how records are read.
    """

    called: ClassVar = "the schema"
    wrong: ClassVar = "schema-invalid"

    silot: Literal["schema"] = "schema"
    version: Literal[1] = 1
    name: str = Field(default="", max_length=LONGEST)
    columns: ByName[Column] = Field(min_length=1)
    label: Label | None = None
    weight: Weight | None = None
    read_off: tuple[str, ...] = ()
    confirmed_by: str = Field(default="", max_length=LONGEST)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.used:
            raise ValueError("columns: all are left out")
        for what, part in self.roles.items():
            if part.column in self.columns:
                raise ValueError(f"{what}: its column is one of the features too")
        if self.label and self.weight and self.label.column == self.weight.column:
            raise ValueError("weight: its column is the column of the labels")
        doubled = {name for name in self.features if self.features.count(name) > 1}
        if doubled:
            raise ValueError(f"columns: two coordinates would both be called {min(doubled)!r}")
        return self

    def body(self) -> dict[str, Any]:
        """Return the schema as plain mappings and lists, without default values."""
        shown = self.model_dump(mode="json", exclude_defaults=True)
        return {"silot": "schema", "version": VERSION, **_plain(shown)}

    def text(self, path: str | Path = "") -> str:
        """Return the schema as YAML, or as JSON if the ending of a path says so."""
        import yaml

        if Path(path).suffix.lower() == ".json":
            return json.dumps(self.body(), indent=2, ensure_ascii=False) + "\n"
        return yaml.safe_dump(
            self.body(), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
        )

    def save(self, path: str | Path) -> None:
        """Write the schema as YAML, or as JSON if the ending says so; whole or not at all."""
        write_whole(Path(path), self.text(path).encode())

    @cached_property
    def roles(self) -> Mapping[str, Label | Weight]:
        """Return what labels and weights are, if they are there."""
        parts = {"label": self.label, "weight": self.weight}
        return {what: part for what, part in parts.items() if part is not None}

    @cached_property
    def used(self) -> Mapping[str, Feature]:
        """Return the columns that are features, by name."""
        return {k: column for k, column in self.columns.items() if not isinstance(column, LeftOut)}

    @cached_property
    def _coordinates(self) -> list[tuple[str, str, float, float]]:
        """Return the column of each coordinate, its name, smallest and largest value."""
        from .coordinates import layout

        return [(k, *row) for k, column in self.used.items() for row in layout(k, column)]

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Return the names of the coordinates."""
        return tuple(name for _, name, _, _ in self._coordinates)

    @cached_property
    def origins(self) -> tuple[str, ...]:
        """Return the column of each coordinate."""
        return tuple(column for column, _, _, _ in self._coordinates)

    @cached_property
    def units(self) -> tuple[tuple[float, float], ...]:
        """Return how much of its column one unit of each coordinate is, and where its zero is."""
        from .coordinates import units

        pairs = [np.stack(units(column), axis=1) for column in self.used.values()]
        return tuple((float(unit), float(zero)) for unit, zero in np.concatenate(pairs))

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Return the public classes, ``None`` without labels."""
        if self.label is None:
            return None
        return (*self.label.classes, "other") if self.label.other else self.label.classes

    @cached_property
    def low(self) -> Array:
        """Return the smallest coordinates (d,) that a record can have."""
        return np.array([low for _, _, low, _ in self._coordinates])

    @cached_property
    def high(self) -> Array:
        """Return the largest coordinates (d,) that a record can have."""
        return np.array([high for _, _, _, high in self._coordinates])

    @property
    def radius(self) -> float:
        """Return the largest distance of a record from the middle between ``low`` and ``high``."""
        return float(0.5 * np.linalg.norm(self.high - self.low))

    @cached_property
    def _deciding(self) -> dict[str, str]:
        """Return what decides coordinates, by column, as canonical text."""
        parts: dict[str, str] = {}
        for name, column in self.used.items():
            shown = column.model_dump(mode="json", exclude_defaults=True)
            parts[name] = _canonical({k: v for k, v in shown.items() if k not in FOR_PEOPLE})
        return parts

    @property
    def _others(self) -> dict[str, str]:
        texts = {
            what: _canonical(part.model_dump(mode="json")) for what, part in self.roles.items()
        }
        return {"label": "", "weight": "", **texts}

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of what decides coordinates, labels and weights; sites compare it."""
        body = [VERSION, list(self._deciding.items()), list(self._others.items())]
        return hashlib.sha256(_canonical(body).encode()).hexdigest()

    def differing(self, other: Contract) -> list[str]:
        """Return the columns for which another schema would give other coordinates.

        ``"label"`` and ``"weight"`` are among them if these differ, and ``"order of columns"`` if
        only that does.
        """
        ours, theirs = self._deciding, other._deciding
        names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        names += [what for what, text in self._others.items() if text != other._others[what]]
        if not names and list(ours) != list(theirs):
            names = ["order of columns"]
        return names

    @property
    def warning(self) -> str:
        """Return a warning while entries that depend on data are not confirmed as public."""
        if not self.read_off or self.confirmed_by:
            return ""
        many = len(self.read_off)
        return (
            f"{many} {'entry of the schema was' if many == 1 else 'entries of the schema were'} "
            f"read off a site's private data ({listing(self.read_off, 4)}) and nobody "
            "has confirmed them as public: they may disclose something about its records. Replace "
            "them by public knowledge and put a name in confirmed_by."
        )


FOR_PEOPLE = ("about", "typical", "substance")
"""Entries of a column that decide no coordinate."""


def _plain(body: Any) -> Any:
    """Return the same entries, whole numbers without a point."""
    if isinstance(body, Mapping):
        entries = cast("Mapping[str, Any]", body)
        return {key: _plain(entry) for key, entry in entries.items()}
    if isinstance(body, list):
        return [_plain(entry) for entry in cast("list[Any]", body)]
    return neat(body) if isinstance(body, float) else body


def _canonical(body: object) -> str:
    """Return one text for equal contents."""
    return json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
