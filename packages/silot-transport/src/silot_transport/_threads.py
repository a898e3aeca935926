"""Threads: one for BLAS where more would wait for one another, one for each core for solvers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from .errors import InputError

T = TypeVar("T")
R = TypeVar("R")

# Between compiled parts there is Python, which one thread runs at a time: more threads would wait.
_MOST_CORES = 4

_lock = threading.Lock()
_users = 0
_limiter: Any = None


@cache
def _limit() -> Callable[..., Any]:
    """Return the function that limits threads of BLAS; without threadpoolctl it does nothing."""
    try:
        from threadpoolctl import (  # pyright: ignore[reportMissingTypeStubs]
            ThreadpoolController,
        )
    except ModuleNotFoundError:
        return _unlimited
    # Finding the loaded libraries takes a millisecond. threadpoolctl has no type stubs.
    controller = ThreadpoolController()
    return cast("Callable[..., Any]", controller.limit)  # pyright: ignore[reportUnknownMemberType]


def _unlimited(**limits: Any) -> Any:
    """Limit nothing: results are the same, on more threads."""
    return SimpleNamespace(restore_original_limits=lambda: None)


@contextmanager
def one_blas_thread() -> Generator[None, None, None]:
    """Keep BLAS to one thread in this process until the last user leaves.

    For small products, and beside other computations, BLAS threads spend their time spinning
    until the slowest is done: on a busy machine that is several times slower than one thread.
    The setting belongs to the process, hence the count of users.
    """
    global _users, _limiter
    with _lock:
        if _users == 0:
            _limiter = _limit()(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limiter.restore_original_limits()
                _limiter = None


def cores() -> int:
    """Count the cores that this process may use: those it has, and at most ``SILOT_THREADS``."""
    limit = os.environ.get("SILOT_THREADS", "")
    if limit:
        if not limit.isascii() or not limit.isdigit() or int(limit) < 1:
            raise InputError(
                f"SILOT_THREADS is {limit!r}; a number of threads, 1 or more, is needed.",
                code="option-threads",
            )
        return min(int(limit), _count())
    return _count()


def _count() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def on_cores(work: Callable[[T], R], items: Sequence[T], *, alone: bool = False) -> list[R]:
    """Apply ``work`` to every item, on several cores; a result must depend on its item alone.

    It pays where most of the work is in solvers, which let other threads run; where it is not,
    each item is processed ``alone``.
    """
    threads = 1 if alone else min(cores(), _MOST_CORES)
    # One thread of BLAS on any number of cores, so that results do not depend on that number.
    with one_blas_thread():
        if threads < 2 or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))
