"""Packages that are slow to import, imported when a test uses them: collecting tests does not."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Package:
    """A package that is imported when something of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # What pytest asks of everything in a module, to see whether it is a test.
        if name.startswith(("__", "_mock", "_pytest")):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def package(name: str, *, needs: str = "") -> Any:
    """Return a package or module to be imported at first use; without what it needs, skip."""
    if needs and find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed", allow_module_level=True)
    return Package(name)
