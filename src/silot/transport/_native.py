"""The compiled kernels, where this installation has them and they are wanted.

``SILOT_KERNELS`` chooses: the name of an instruction set, or ``pure`` for none. Which path is in
use changes the time that an answer takes, and its last digits.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


PURE = "pure"


def _load() -> tuple[ModuleType | None, str]:
    wanted = os.environ.get("SILOT_KERNELS", "")
    if wanted == PURE:
        return None, "SILOT_KERNELS is 'pure'"
    try:
        from . import _kernels
    except ImportError:
        return None, "they were not compiled when silot was installed"
    if not wanted:
        return _kernels, ""
    if wanted not in _kernels.sets():
        return None, f"SILOT_KERNELS is {wanted!r}, which this processor has not"
    _kernels.use(wanted)
    return _kernels, ""


kernels, missing = _load()
"""The kernels or ``None``, and why there are none."""


def path() -> str:
    """The instruction set in use, or ``"pure"``."""
    return PURE if kernels is None else kernels.used()
