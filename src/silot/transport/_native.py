"""The compiled kernels, where there are any: without them everything is exact, only slower."""

from __future__ import annotations

from types import ModuleType

kernels: ModuleType | None
try:
    from . import _kernels as kernels  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:
    kernels = None
