"""Packages whose names are imported when they are used."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource
from types import ModuleType
from typing import Any

from .errors import ExtraError


def lazily(package: str, *, extra: str | None = None) -> None:
    """Import the names of a package when they are first used: those under ``TYPE_CHECKING``.

    A command, or the process of a party, needs few of them. So it is with modules in the package;
    one that is imported does not take the place of the function of its name.

    Parameters
    ----------
    package
        Its full name; call this at the end of it.
    extra
        Of silot, and the library of that name, without which the names are not found.
    """
    places = _places(package)

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in places:
                module, original = places[name]
                # A name without an origin is a module.
                value = _imported(module, package, extra)
                value = getattr(value, original) if original else value
                self.__dict__[name] = value
                return value
            if name.startswith("__"):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            if find_spec(f"{package}.{name}") is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return import_module(f".{name}", package)

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in places and places[name][1] and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *places})

    sys.modules[package].__class__ = Package


def _imported(module: str, package: str, extra: str | None) -> ModuleType:
    try:
        return import_module(module, package)
    except ModuleNotFoundError as error:
        if extra is None or error.name != extra:
            raise
        raise ExtraError(
            f"{package} needs {extra}. Run: pip install 'silot[{extra}]'.", code=f"extra-{extra}"
        ) from None


def _places(package: str) -> dict[str, tuple[str, str]]:
    """The module, relative to the package, of each name that type checkers are told of."""
    found: dict[str, tuple[str, str]] = {}
    for block in ast.parse(getsource(sys.modules[package])).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for line in block.body:
            if not isinstance(line, ast.ImportFrom):
                continue
            for item in line.names:
                where = "." * line.level + (line.module or "")
                place = (where, item.name) if line.module else (f"{where}{item.name}", "")
                found[item.asname or item.name] = place
    return found
