"""Matrices of a network as users write them: rows, or mappings of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, MismatchError
from ..results.links import Flags

Rows = tuple[tuple[float, ...], ...]


def as_rows(value: Any, field: str, names: Sequence[str] | None) -> Any:
    """Arrays and mappings of names as rows; all else as it is, for pydantic to judge.

    In a mapping a pair may be given in one direction: it then holds for both.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, Mapping) or names is None:
        return value
    known = set(names)
    for name, row in value.items():
        if not isinstance(row, Mapping):
            raise InputError(
                f"{field}, {str(name)[:80]!r}: a mapping of names to numbers is needed.",
                code="network-field",
            )
        strange = next((key for key in (name, *row) if str(key) not in known), None)
        if strange is not None:
            raise MismatchError(
                f"{field}: there is no device {str(strange)[:80]!r}.", code="device-unknown"
            )
    given = {str(a): {str(b): entry for b, entry in row.items()} for a, row in value.items()}
    return [
        [0.0 if a == b else _entry(given, a, b, field) for b in names]
        for a in names
    ]  # fmt: skip


def _entry(given: Mapping[str, Mapping[str, Any]], a: str, b: str, field: str) -> Any:
    for first, second in ((a, b), (b, a)):
        if second in given.get(first, {}):
            return given[first][second]
    raise MismatchError(
        f"{field}: the pair {a[:80]!r}, {b[:80]!r} is missing.", code="pair-missing"
    )


def check_pairs(
    rows: Rows, field: str, names: Sequence[str], least: float, most: float, *,
    symmetric: bool = False,
) -> None:  # fmt: skip
    """Refuse a matrix of another size, NaN, entries out of range, and asymmetry."""
    n = len(names)
    if len(rows) != n or any(len(row) != n for row in rows):
        raise MismatchError(
            f"{field} has {len(rows)} rows of {sorted({len(row) for row in rows})} entries; "
            f"{n} of {n} are needed.",
            code="network-shape",
        )
    pairs = np.array(rows, dtype=np.float64)
    np.fill_diagonal(pairs, max(least, 0.0))
    wrong = ~np.isfinite(pairs)
    if wrong.any():
        raise InputError(f"{_place(wrong, field, names)} is not a finite number.", code="pair-nan")
    wrong = (pairs < least) | (pairs > most)
    if wrong.any():
        raise InputError(
            f"{_place(wrong, field, names)} is outside [{least:g}, {most:g}].", code="pair-range"
        )
    wrong = np.abs(pairs - pairs.T) > 1e-9
    if symmetric and wrong.any():
        raise InputError(
            f"{_place(wrong, field, names)} differs between the two directions; it must be "
            "symmetric.",
            code="pair-asymmetric",
        )


def _place(wrong: Flags, field: str, names: Sequence[str]) -> str:
    i, j = np.argwhere(wrong)[0]
    return f"{field} of {names[i][:80]!r} and {names[j][:80]!r}"
