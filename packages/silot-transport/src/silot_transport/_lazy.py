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
    """Import names of a package when they are first used: those under its ``TYPE_CHECKING``.

    Most programs need few of them. Modules of the package are imported when they are first used,
    too; a module never replaces a function of the same name.

    Parameters
    ----------
    package
        Full name of the package, which calls this at its end.
    extra
        Extra of the distribution that all names need, and the library of that name.
    """
    places = _read_places(package)

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in places:
                module, original = places[name]
                # A name without an original is a module.
                value = _import(module, package, extra)
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


def _import(module: str, package: str, extra: str | None) -> ModuleType:
    try:
        return import_module(module, package)
    except ModuleNotFoundError as error:
        if extra is None or error.name != extra:
            raise
        distribution = package.partition(".")[0].replace("_", "-")
        raise ExtraError(
            f"{package} needs {extra}. Run: pip install '{distribution}[{extra}]'.",
            code=f"extra-{extra}",
        ) from None


def _read_places(package: str) -> dict[str, tuple[str, str]]:
    """Read, from the imports for type checkers, the relative module and the name of every name."""
    places: dict[str, tuple[str, str]] = {}
    for block in ast.parse(getsource(sys.modules[package])).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for line in block.body:
            if not isinstance(line, ast.ImportFrom):
                continue
            for item in line.names:
                where = "." * line.level + (line.module or "")
                place = (where, item.name) if line.module else (f"{where}{item.name}", "")
                places[item.asname or item.name] = place
    return places
