"""Packages whose names are imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def lazily(package: str, places: Mapping[str, str]) -> None:
    """Import the names of a package when they are first used.

    A command, or the process of a party, needs few of them. So it is with modules in the package;
    one that is imported does not take the place of the function of its name.

    Parameters
    ----------
    package
        Its full name; call this at the end of it.
    places
        The module, relative to the package, that each name lives in.
    """

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in places:
                value = getattr(import_module(places[name], package), name)
                self.__dict__[name] = value
                return value
            if name.startswith("__") or find_spec(f"{package}.{name}") is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return import_module(f".{name}", package)

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in places and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *places})

    sys.modules[package].__class__ = Package
