"""Docstrings as they are at run time: options write theirs when a class is made."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe

from silot.errors import ExtraError

from .pages import plain


class RuntimeDocstrings(griffe.Extension):
    """Take each docstring from the object itself, in Markdown."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Of a class."""
        self._replace(cls)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Of a function."""
        self._replace(func)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Of a module."""
        if mod.docstring is not None:
            mod.docstring.value = plain(mod.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Of an attribute, which has none at run time."""
        if attr.docstring is not None:
            attr.docstring.value = plain(attr.docstring.value)

    def _replace(self, found: griffe.Class | griffe.Function) -> None:
        text = _documented(found) or (found.docstring and found.docstring.value)
        if text and found.docstring is None:
            found.docstring = griffe.Docstring(plain(text), parent=found)
        elif text and found.docstring is not None:
            found.docstring.value = plain(text)


def _documented(found: griffe.Class | griffe.Function) -> str:
    """The docstring of a public class or function of the package."""
    if found.docstring is None or not found.module.path.startswith("silot"):
        return ""
    try:
        thing: Any = import_module(found.module.path)
        for word in found.path.removeprefix(f"{found.module.path}.").split("."):
            thing = inspect.getattr_static(thing, word)
    except (ImportError, AttributeError, ExtraError):
        return ""
    return inspect.cleandoc(thing.__doc__) if isinstance(thing.__doc__, str) else ""
