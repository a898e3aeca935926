"""Names of features: those of data frames, and those of what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from silot_transport._check import Array, as_points
from silot_transport._foreign import as_array

from ..errors import FileError, InputError, MismatchError

if TYPE_CHECKING:
    from .measure import Measure
    from .schema import Schema
    from .tables import Table

Given = tuple[Any, Any, Any, Sequence[str] | None]


def unframed(points: Any, weights: Any, labels: Any, columns: Sequence[str] | None) -> Given:
    """What a measure is made of; of a data frame the columns that are named are taken out."""
    mass, label = (name if isinstance(name, str) else None for name in (weights, labels))
    table = _table_of(points)
    if table is None:
        for what, name in (("labels", label), ("weights", mass)):
            if name is not None:
                raise MismatchError(
                    f"{what} are one text, as the name of a column is, and the points are no "
                    "data frame. Give one for each record.",
                    code=f"{what}-shape",
                )
        return points, weights, labels, columns
    try:
        cloud, masses, kinds, names = table.parts(columns, labels=label, weights=mass)
    except FileError as error:
        raise InputError(error.message, code="frame-columns") from None
    return cloud, weights if mass is None else masses, labels if label is None else kinds, names


def _table_of(points: Any) -> Table | None:
    # Arrays and lists, which are most data, need not wait for an import.
    if isinstance(points, np.ndarray | list | tuple):
        return None
    from .tables import frame_table

    return frame_table(points)


def features(points: Any, columns: tuple[str, ...] | None) -> Any:
    """Points as they are; of a data frame these columns, or all where none are named."""
    return unframed(points, None, None, columns)[0]


def as_cloud(points: Any, columns: tuple[str, ...] | None) -> Array:
    """Points (n, d), checked; what is wrong with some names their columns."""
    if columns is None:
        return as_points(points, "points")
    if len(set(columns)) < len(columns) or not all(isinstance(name, str) for name in columns):
        raise InputError(
            f"columns are {columns!r}; a name for each feature is needed, none of them twice.",
            code="option-columns",
        )
    try:
        cloud = as_points(points, "points")
    except InputError as error:
        raise InputError(f"{error.message}{_where(points, columns)}", code=error.code) from None
    if cloud.shape[1] != len(columns):
        raise MismatchError(
            f"{len(columns)} names of columns are given for {cloud.shape[1]} features.",
            code="option-columns",
        )
    return cloud


def matched(measures: Mapping[str, Measure], last: Collection[str] = ()) -> dict[str, Measure]:
    """Measures whose columns have one order, that of the first by name whose columns are named.

    The columns of measures without names of columns count by their place. Those of ``last`` come
    after all others: they are no holder's.

    Raises
    ------
    MismatchError
        Columns that one measure has and another has not, or other orders of columns where a
        measure has no names to say which is meant.
    """
    ranked = sorted(measures, key=lambda name: (name in last, name))
    check_schemas({name: measures[name].schema for name in ranked})
    named = {name: columns for name in ranked if (columns := measures[name].columns)}
    if len(set(named.values())) < 2:
        return dict(measures)
    lead, order = next(iter(named.items()))
    for other, columns in named.items():
        here, there = set(order), set(columns)
        if here != there:
            raise MismatchError(
                f"{lead!r} and {other!r} have other columns: "
                f"{_only(lead, here - there)}{_only(other, there - here)}"
                "rename them, or choose the features that both have.",
                code="columns-mismatch",
            )
    nameless = [name for name in measures if name not in named]
    if nameless:
        raise MismatchError(
            f"{nameless[0]!r} has no names of columns, and others have theirs in different "
            "orders. Give it as a data frame, or Measure(..., columns=names).",
            code="columns-mismatch",
        )
    return {name: measure.ordered(order) for name, measure in measures.items()}


def check_schemas(schemas: Mapping[str, Schema | None]) -> None:
    """Refuse data that were read by two schemas, or by one and by none.

    Raises
    ------
    MismatchError
        ``schema-mismatch``, with the columns that differ.
    """
    read = {name: schema for name, schema in schemas.items() if schema is not None}
    if not read:
        return
    lead, first = next(iter(read.items()))
    for other, schema in schemas.items():
        if schema is None:
            raise MismatchError(
                f"{lead!r} was read by a schema and {other!r} was not: their numbers mean other "
                "things. Read both by one schema.",
                code="schema-mismatch",
            )
        if schema.hash != first.hash:
            raise MismatchError(
                f"{lead!r} and {other!r} were read by other schemas; they differ in "
                f"{_listing(map(repr, first.differing(schema)))}. Agree on one schema.",
                code="schema-mismatch",
            )


def _only(holder: str, columns: Collection[str]) -> str:
    """Which columns one holder alone has."""
    return f"{_listing(map(repr, sorted(columns)))} in {holder!r} only; " if columns else ""


def _where(points: Any, columns: tuple[str, ...]) -> str:
    """In which columns numbers are missing or infinite, where that is what is wrong."""
    array = as_array(points, "points")
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[1] != len(columns):
        return ""
    counts = (~np.isfinite(array)).sum(axis=0)
    odd = [f"{columns[k]!r} ({counts[k]})" for k in np.flatnonzero(counts)]
    return f" By columns: {_listing(odd)}." if odd else ""


def _listing(texts: Iterable[str]) -> str:
    from .tables import listing

    return listing(list(texts))
