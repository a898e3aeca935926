"""The compiled kernels, where this installation has them and they are wanted.

``SILOT_KERNELS`` chooses: the name of an instruction set, or ``pure`` for none. Which path is in
use changes the time that an answer takes, and its last digits.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

PURE = "pure"


def _load() -> tuple[ModuleType | None, str]:
    wanted = os.environ.get("SILOT_KERNELS", "")
    if wanted == PURE:
        return None, "SILOT_KERNELS is 'pure'"
    try:
        found = import_module("._kernels", __package__)
    except ModuleNotFoundError:
        return None, "no kernels were compiled; install again where there is a C++ compiler"
    except ImportError as error:
        return None, f"the kernels do not load: {error}"
    if not wanted:
        return found, ""
    if wanted not in found.sets():
        return None, f"SILOT_KERNELS is {wanted!r}, which this processor has not"
    found.use(wanted)
    return found, ""


kernels, missing = _load()
"""The kernels or ``None``, and why there are none."""


def path() -> str:
    """The instruction set in use, or ``"pure"``."""
    return PURE if kernels is None else kernels.used()
