"""Columns of which a few numbers are in another unit than the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .column_kinds import Number
from .findings import Finding, Looks, holders_in_words
from .names import possible
from .unit_check import Suspicion, suspected_few

# Of so large a part of the numbers the column is in another unit, or in two.
_MOST = 0.5


def mixtures(columns: Sequence[str], looks: Sequence[Looks]) -> list[Finding]:
    """Few numbers that cannot be, by what the name says is measured, and are in another unit."""
    compared = [each for each in looks if each.enough]
    found: list[Finding] = []
    for k, column in enumerate(columns if compared else ()):
        # The middle one of all, as other units are told.
        order = sorted(compared, key=lambda each: (float(each.quantiles[3, k]), each.name))
        low, middle, high = order[(len(order) - 1) // 2].quantiles[2:5, k].tolist()
        limits = possible(column, (low, middle, high))
        if limits is None:
            continue
        number = Number(
            kind="number", unit=limits.unit, substance=limits.substance,
            range=(limits.low, limits.high),
        )  # fmt: skip
        grouped: dict[str, dict[str, Suspicion]] = {}
        for each in compared:
            values = each.records[:, k]
            far = values[(values < limits.low) | (values > limits.high)]
            few = suspected_few(column, number, (low, middle, high), far, len(values))
            if few is not None and few.unit and few.count <= _MOST * len(each.records):
                grouped.setdefault(few.unit, {})[each.name] = few
        found += [_finding(column, unit, limits.unit, few) for unit, few in grouped.items()]
    return found


def _finding(column: str, unit: str, rest: str, few: Mapping[str, Suspicion]) -> Finding:
    count = sum(each.count for each in few.values())
    said = (
        f"{count:,} values of {column!r} of {holders_in_words(tuple(few))} cannot be in {rest}, as "
        f"the rest seems to be, and would fit in {unit}. Bring the column to one unit."
    )
    return Finding(column, tuple(few), "unit", said, True, {"count": float(count)})
