"""The compiled kernels, where this installation has them.

The environment variable ``SILOT_KERNELS`` chooses an instruction set by its name, or ``pure`` for
none. The choice changes how long a result takes, and its last digits.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

PURE = "pure"


def _load() -> tuple[ModuleType | None, str]:
    choice = os.environ.get("SILOT_KERNELS", "")
    if choice == PURE:
        return None, "SILOT_KERNELS is 'pure'"
    try:
        module = import_module("._kernels", __package__)
    except ModuleNotFoundError:
        return None, "no kernels were compiled; install again on a machine with a C++ compiler"
    except ImportError as error:
        return None, f"the kernels do not load: {error}"
    if not choice:
        return module, ""
    if choice not in module.sets():
        return None, f"SILOT_KERNELS is {choice!r}, which this processor does not have"
    module.use(choice)
    return module, ""


kernels, missing = _load()
"""The kernels or ``None``, and the reason why there are none."""


def path() -> str:
    """Return the instruction set in use, or ``"pure"``."""
    return PURE if kernels is None else kernels.used()
