"""One BLAS thread while holders compute side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

_lock = threading.Lock()
_users = 0
_limiter: Any = None


@contextmanager
def one_blas_thread() -> Generator[None, None, None]:
    """Keep BLAS to one thread in this process until every user has left.

    Holders already occupy the cores. BLAS threads on top of them wait for one another while
    spinning: on a busy machine that makes small products several times slower. The setting
    belongs to the process, hence the count of users.
    """
    global _users, _limiter
    with _lock:
        if _users == 0:
            # threadpoolctl has no type stubs.
            limit = cast("Callable[..., Any]", ThreadpoolController().limit)  # pyright: ignore[reportUnknownMemberType]
            _limiter = limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limiter.restore_original_limits()
                _limiter = None
