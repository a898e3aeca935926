"""Results that people look at, and the functions that show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import InputError

if TYPE_CHECKING:
    from .sections import Block

View = Literal["sections", "page"]
"""What a terminal and a notebook show, or what an HTML file shows."""


class Shown:
    """Base of results that people look at."""

    view: ClassVar[str] = ""
    """The module beside the result's that shows it, and what its two functions begin with."""

    def sections(self) -> list[Block]:
        """Return what a terminal and a notebook show: facts, tables and paragraphs."""
        return view_of(self, "sections")(self)

    def framed(self, blocks: Sequence[Block], what: View) -> list[Block]:
        """Return the blocks of a view with what this kind of result always adds to them."""
        return list(blocks)

    def _repr_html_(self) -> str:
        # Slow to import.
        from .html import notebook

        return notebook(self.sections())


def view_of(result: object, what: View) -> Callable[..., list[Block]]:
    """Return the function that makes the sections or the page of a result."""
    for kind in type(result).__mro__:
        module, _, name = str(vars(kind).get("view", "")).partition(":")
        if name and isinstance(result, Shown):
            # Slow to import, and results that nobody looks at do without.
            room = import_module(f".{module}", kind.__module__.rpartition(".")[0])
            return partial(_shown, getattr(room, f"{name}_{what}"), what, result)
    raise InputError(
        f"a {type(result).__name__} cannot be shown. Give a result of a run.", code="report-kind"
    )


def _shown(
    show: Callable[..., list[Block]], what: View, owner: Shown, *arguments: Any, **options: Any
) -> list[Block]:
    return owner.framed(show(*arguments, **options), what)
