"""How long attacks may take: they look at the clock wherever they take long."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(Exception):
    """An attack was given up: its time was over."""


@contextmanager
def ending(end: float) -> Iterator[None]:
    """Give attacks up that look at the clock after ``end``, by ``time.monotonic``."""
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def look() -> None:
    """Look at the clock, and raise where time is over."""
    if time.monotonic() > _END.get():
        raise OutOfTimeError


def seconds(most: float) -> float:
    """Seconds that are left, ``most`` at most, for a solver that has a limit of its own."""
    look()
    return min(most, _END.get() - time.monotonic())
