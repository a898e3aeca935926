"""Compute the calibration of sketches once for all workers, processes and targets of ``make``.

Calibrating a sketch takes seconds and depends on public records alone, so tests that use the same
public records share it in files. The folder's name is a hash of the code that computes them.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy

from silot.privacy import calibrate
from silot_transport import exact_plan

T = TypeVar("T")

CACHE = Path(__file__).parents[1] / ".pytest_cache" / "calibrations"


def share_calibrations() -> None:
    """Let this process, and those that are forked from it, read calibrations from files."""
    stored = store_results(calibrate._known.__wrapped__, CACHE / hash_of_code())
    # The package keeps as many in memory, so that no file is read twice.
    calibrate._known = lru_cache(maxsize=8)(stored)


def hash_of_code() -> str:
    """Hash the source, the kernels and the versions that a calibration depends on."""
    code = hashlib.sha256(f"{np.__version__} {scipy.__version__}".encode())
    for part in (calibrate, exact_plan):
        folder = Path(inspect.getfile(part)).parent
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.so"), *folder.rglob("*.pyd")]):
            code.update(path.read_bytes())
    return code.hexdigest()[:16]


def store_results(function: Callable[..., T], folder: Path) -> Callable[..., T]:
    """Keep what a function returns in files, which several processes may write and read at once."""

    def compute(*arguments: Any) -> T:
        name = hashlib.sha256(pickle.dumps(arguments)).hexdigest()
        path = folder / name
        if path.exists():
            return pickle.loads(path.read_bytes())
        result = function(*arguments)
        folder.mkdir(parents=True, exist_ok=True)
        # A rename is atomic, so nobody reads half a file.
        draft = folder / f"{name}.{os.getpid()}"
        draft.write_bytes(pickle.dumps(result))
        draft.replace(path)
        return result

    return compute
