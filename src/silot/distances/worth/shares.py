"""How mass is shared: among holders by their weights, and among atoms by their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from silot_transport._check import real

from ...errors import InputError, MismatchError
from ...federation.answer import Array
from ..questions.labelled import Codes


def allot(masses: Array, size: int) -> Codes:
    """Class of every atom: in proportion to the masses, one atom each at least."""
    if size < len(masses):
        raise InputError(
            f"there are {len(masses)} classes, and atoms for {size}. Give every class one.",
            code="option-support",
        )
    counts = np.ones(len(masses), dtype=np.int64)
    for _ in range(size - len(masses)):
        counts[np.argmax(masses / counts)] += 1
    return np.repeat(np.arange(len(masses)), counts).astype(np.int64)


def shares_of(weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Weights of holders that sum to 1, equal by default."""
    given = dict.fromkeys(names, 1.0) if weights is None else dict(weights)
    if set(given) != set(names):
        raise MismatchError(
            f"weights name {sorted(given)} and the holders are {sorted(names)}.",
            code="option-weights",
        )
    if not all(real(value, "weight", "option-weights") > 0 for value in given.values()):
        raise InputError("weights must be positive numbers.", code="option-weights")
    total = float(sum(sorted(given.values())))
    return {name: float(value) / total for name, value in given.items()}
