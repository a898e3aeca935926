"""The compiled kernels, where there are any: without them everything is exact, only slower."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

kernels: ModuleType | None
try:
    kernels = import_module("._kernels", __package__)
except ImportError:
    kernels = None
