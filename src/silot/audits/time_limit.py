"""A time limit for attacks: long attacks check the clock before every long step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


class OutOfTimeError(Exception):
    """An attack was stopped because its time was over."""


@contextmanager
def stop_attacks_after(deadline: float) -> Iterator[None]:
    """Stop attacks that check the clock after ``deadline``, in seconds of ``time.monotonic``."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_time() -> None:
    """Raise ``OutOfTimeError`` where the time of the attack is over."""
    if time.monotonic() > _DEADLINE.get():
        raise OutOfTimeError


def remaining_seconds(most: float) -> float:
    """Return the seconds until the deadline, ``most`` at most, for a solver with its own limit."""
    check_time()
    return min(most, _DEADLINE.get() - time.monotonic())
