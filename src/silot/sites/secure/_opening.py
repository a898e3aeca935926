"""The number that is opened of two bounds, and the bounds that it stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._effort import Effort
from ._sinkhorn import Bracket, Numbers, Shared

# Gaps of the two bounds between which grades distinguish, relative to the number opened.
GRADES = (0.5, 0.34, 0.24, 0.17, 0.12, 0.085, 0.06, 0.042, 0.03, 0.021, 0.015, 0.01)
# Gap at which a run counts as converged.
CLOSE = 0.12
# Where the number opened lies between the bounds after one part, and after more: near the lower
# bound, which is by far the tighter one, and all the more after several parts.
SPLITS = (0.15, 0.05)


def open_number(bracket: Bracket, part: int, effort: Effort, xp: Numbers) -> tuple[Shared, Shared]:
    """Return what is opened, a number and its grade, and whether no further part is needed.

    The grade says how many of ``GRADES`` the gap of the bounds stays below: then the number lies
    between them. Where it stays below none, the number is the lower bound, which is tight long
    before the other; where numbers left their range, it is 0 and the grade -1.
    """
    gap = bracket.upper - bracket.lower
    error = _error(bracket, effort)
    split = SPLITS[min(part, 1)]
    middle = bracket.lower + split * gap
    # Room for the error on either side of the number: see ``bounds_of``.
    room = gap + (1.0 / split) * error
    sides = [(room, limit * middle) for limit in (*GRADES, effort.enough)]
    met, sound = _compare(sides, bracket, effort, xp)
    grade, close = met[:-1].sum(), met[-1]
    number = xp.where(grade > 0.5, middle, xp.maximum(bracket.lower - error, 0.0))
    opened = xp.stack([sound * number, sound * (grade + 1.0) - 1.0])
    return opened, 1.0 - sound * (1.0 - close)


def open_noisily(
    bracket: Bracket,
    noise: Shared,
    largest: float,
    tolerance: float,
    failed: float,
    effort: Effort,
    xp: Numbers,
) -> Shared:
    """Return the squared distance, clipped to [0, largest], plus noise.

    Bounds further apart than the tolerance open as the constant ``failed`` plus noise.
    """
    middle = xp.minimum(xp.maximum(0.5 * (bracket.lower + bracket.upper), 0.0), largest)
    gap = bracket.upper - bracket.lower + 2.0 * _error(bracket, effort)
    met, sound = _compare([(gap, tolerance)], bracket, effort, xp)
    return xp.stack([failed + met[0] * sound * (middle - failed) + noise])


def bounds_of(number: float, grade: int, parts: int) -> tuple[float, float]:
    """Return the bounds of the squared distance that an opened number stands for."""
    if grade <= 0:
        return number, math.inf
    gap, split = GRADES[grade - 1], SPLITS[min(parts - 1, 1)]
    return number * (1.0 - split * gap), number * (1.0 + (1.0 - split) * gap)


def _error(bracket: Bracket, effort: Effort) -> Shared:
    """Return how far rounding to fixed point may have moved a bound."""
    return effort.resolution * bracket.independent + 64.0 * effort.unit


def _compare(
    sides: Sequence[tuple[Shared, Shared]], bracket: Bracket, effort: Effort, xp: Numbers
) -> tuple[Shared, Shared]:
    """Return which left sides are at most the right ones (1 or 0), and whether bounds can be true.

    Bounds that cannot be true come from an overflow. All sides are compared at once, because each
    call costs a fixed number of messages.
    """
    # Twice 1 % of the largest cost, and 1024 steps: much more than rounding moves a bound.
    room = 0.01 * bracket.independent + 2.0**10 * effort.unit
    checks = [
        (bracket.upper, bracket.independent + room),
        (bracket.lower, bracket.upper + room),
        (-bracket.lower, room),
        (bracket.independent, effort.furthest),
        (bracket.mass, 1.01),
        (0.99, bracket.mass),
    ]
    smaller, larger = zip(*sides, *checks, strict=True)
    met = xp.where(xp.stack(smaller) <= xp.stack(larger), 1.0, 0.0)
    return met[: len(sides)], xp.where(met[len(sides) :].sum() > len(checks) - 0.5, 1.0, 0.0)
