"""The engine's remarks, kept off the terminal of who asks."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

# Of the lines below the engine: read once, as they are loaded. What fails has a code of ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# One at a time: of two the later would put back what the earlier had put there, for good.
_alone = threading.RLock()


@contextmanager
def silence() -> Iterator[None]:
    """Drop what is printed meanwhile."""
    with _alone, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


__all__ = ["silence"]
