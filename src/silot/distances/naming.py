"""Names and units of columns in results, where coordinates were measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from silot_transport import GroupsResult, TwoSampleResult

from ..data.schema import Contract

Columns = Sequence[str] | Contract | None
"""What coordinates are called: a schema knows their units too."""

V = TypeVar("V", TwoSampleResult, GroupsResult)


def name_verdict(verdict: V, columns: Columns) -> V:
    """Return a verdict with the names of the columns, and effects in their units."""
    if isinstance(columns, Contract):
        # Coordinates of a schema have no unit of their own: a shift of .3 would say nothing.
        return verdict.named(columns.features, columns.units)
    return verdict if columns is None else verdict.named(columns)


def column_of_each(columns: Columns) -> Sequence[str] | None:
    """Return the column of each coordinate: those of categories have several."""
    return columns.origins if isinstance(columns, Contract) else columns
