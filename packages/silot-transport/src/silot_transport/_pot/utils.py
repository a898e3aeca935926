"""What POT's compiled solver imports from the module of this name in its own package."""

from __future__ import annotations

from typing import Any


def dist(*args: Any, **options: Any) -> Any:
    """POT's own: a process has the compiled solver once, and its user may call POT too."""
    import ot  # pyright: ignore[reportMissingTypeStubs]

    return getattr(ot, "dist")(*args, **options)  # noqa: B009 - no type stubs
