"""Results that people look at, and where it is declared what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..errors import InputError

if TYPE_CHECKING:
    from .content import Content
    from .sections import Block, Medium


class Shown:
    """Base of results that people look at."""

    view: ClassVar[str] = ""
    """The module beside the result's that declares its content, and what the function that does
    begins with: ``NAME_content``."""

    def sections(self) -> list[Block]:
        """Return what a terminal and a notebook show: facts, tables and paragraphs."""
        return shown(self, "terminal")

    def framed(self, blocks: Sequence[Block], medium: Medium) -> list[Block]:
        """Return the blocks of a medium with what this kind of result always adds to them."""
        return list(blocks)

    def _repr_html_(self) -> str:
        # Slow to import.
        from .html import notebook

        return notebook(self.sections())


def content_of(result: object) -> Callable[..., Content]:
    """Return the function that declares what a result shows."""
    for kind in type(result).__mro__:
        module, _, name = str(vars(kind).get("view", "")).partition(":")
        if name and isinstance(result, Shown):
            # Slow to import, and results that nobody looks at do without.
            room = import_module(f".{module}", kind.__module__.rpartition(".")[0])
            return getattr(room, f"{name}_content")
    raise InputError(
        f"a {type(result).__name__} cannot be shown. Give a result of a run.", code="report-kind"
    )


def verdict_of(result: object) -> str:
    """Return the sentences that a report begins with, or the status of a result without any."""
    from .content import Headline
    from .sections import plain_text

    def headlines(content: object) -> Iterator[Headline]:
        if isinstance(content, Headline):
            yield content
        elif isinstance(content, Sequence) and not isinstance(content, str):
            for part in cast("Sequence[object]", content):
                yield from headlines(part)

    first = next(headlines(content_of(result)(result)), None)
    return plain_text(first.verdict) if first else str(getattr(result, "status", ""))


def shown(result: Any, medium: Medium, *beside: Any, **options: Any) -> list[Block]:
    """Return what a medium shows of a result."""
    from .content import written

    content = content_of(result)(result, *beside, **options)
    return result.framed(written(content, medium), medium)
