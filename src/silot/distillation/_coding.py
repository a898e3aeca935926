"""Labels by name, and as rows of a label space: two types, not to be confused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.label_names import label_name
from ..errors import MismatchError

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """Labels as rows of a label space, made by ``LabelSpace.codes`` or ``LabelSpace.coded``.

    Attributes
    ----------
    values
        Shape (n,): the row of every record's label.
    names
        Names of the label space.
    """

    values: Codes = field(repr=False)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelCodes)
            and self.names == other.names
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.values.tobytes()))

    def __getitem__(self, rows: Codes) -> LabelCodes:
        """Those of some records."""
        return LabelCodes(self.values[rows], self.names)


def coded(labels: Sequence[Any], names: Sequence[str]) -> Codes:
    """Rows of names; of numbers, where no name is a number."""
    places = {label_name(name): code for code, name in enumerate(names)}
    found = [places.get(label_name(label), -1) for label in labels]
    known = ", ".join(names[:12])
    if not numbered(names):
        known += f", or 0 to {len(names) - 1}"
        if not any(code >= 0 for code in found):
            found = [_number(label, len(names)) for label in labels]
    wrong = [row for row, code in enumerate(found) if code < 0]
    if wrong:
        raise MismatchError(
            f"{len(wrong)} of {len(found)} labels are none of the label space, the first in row "
            f"{wrong[0]}. Its labels are {known}.",
            code="labels-unknown",
        )
    return np.array(found, dtype=np.int64)


def numbered(names: Sequence[str]) -> bool:
    """Whether some name is a whole number that is not negative."""
    return any(_number(name, np.inf) >= 0 for name in names)


def ambiguous(labels: Sequence[Any], names: Sequence[str]) -> bool:
    """Whether numbers may be meant as names or as rows, and the two differ."""
    places = {label_name(name): code for code, name in enumerate(names)}
    rows = [_number(label, len(names)) for label in labels]
    named = [places.get(label_name(label), -1) for label in labels]
    return min(rows, default=-1) >= 0 and min(named, default=-1) >= 0 and rows != named


def _number(label: Any, size: float) -> int:
    try:
        value = float(label)
    except (TypeError, ValueError):
        return -1
    return int(value) if value.is_integer() and 0 <= value < size else -1
