"""One BLAS thread where more would only wait for one another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

_lock = threading.Lock()
_users = 0
_limiter: Any = None


@cache
def _limit() -> Callable[..., Any]:
    # Finding the loaded libraries takes a millisecond. threadpoolctl has no type stubs.
    found = ThreadpoolController()
    return cast("Callable[..., Any]", found.limit)  # pyright: ignore[reportUnknownMemberType]


@contextmanager
def one_blas_thread() -> Generator[None, None, None]:
    """Keep BLAS to one thread in this process until every user has left.

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
