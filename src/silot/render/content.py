"""What a result declares that it shows, and the blocks of it that a medium gets.

A result has one function, ``NAME_content``, that returns its content: blocks and components in
the order in which they are read, in lists as deep as is convenient. What is marked for one medium
is not made for the other; what is ``False`` or ``None`` is not there.
"""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from .sections import (
    Block,
    Details,
    Facts,
    Gallery,
    Heading,
    Medium,
    Paragraph,
    Picture,
    Private,
    Table,
    Text,
)
from .words import printable

_PAGE_KINDS = ("lead", "small", "small warn", "note")


class Component(ABC):
    """Part of a content that is made of others."""

    @abstractmethod
    def on(self, medium: Medium) -> Content:
        """Return what a medium shows of it."""


Content: TypeAlias = (
    "Block | Section | Component | Callable[[], Content] | Sequence[Content] | bool | None"
)


@dataclass(frozen=True)
class Only(Component):
    """What one medium alone shows; functions are called for that one only."""

    medium: Medium
    content: Content

    def on(self, medium: Medium) -> Content:
        return self.content if medium == self.medium else None


def on_page(*content: Content) -> Only:
    """Mark what only a page has room for."""
    return Only("page", content)


def on_terminal(*content: Content) -> Only:
    """Mark what a page says in another way."""
    return Only("terminal", content)


@dataclass(frozen=True)
class Headline(Component):
    """The title of a page, the verdict in a sentence or two, and what limits it.

    A terminal has just printed what the user typed, and gets neither.
    """

    title: str
    verdict: Text = ""
    warnings: Sequence[Text] = ()

    def on(self, medium: Medium) -> Content:
        if medium == "terminal":
            return None
        return [
            Heading(self.title, level=1),
            Paragraph(self.verdict, "lead") if self.verdict else None,
            [Paragraph(text, "warning") for text in self.warnings],
        ]


@dataclass(frozen=True)
class Section:
    """Content below a heading, which a page alone has; with nothing below it there is none."""

    heading: Heading
    content: Content


def section(
    title: Text, *content: Content, anchor: str | None = None, level: Literal[2, 3, 4] = 2
) -> Section:
    """Return content below a heading, whose address is its title, of level 2 and without a name."""
    if anchor is None and isinstance(title, str) and level == 2:
        anchor = re.sub(r"\W+", "-", title.lower()).strip("-")
    return Section(Heading(title, anchor or "", level), content)


def facts(
    rows: Mapping[str, Text | None],
    *,
    terminal: Mapping[str, Text | None] | None = None,
    page: Mapping[str, Text | None] | None = None,
) -> Facts:
    """Return terms and their words, and those that one medium alone has, after the others.

    Terms without words, which are ``None``, are left out.
    """
    every = (rows, terminal or {}, page or {})
    return Facts(*([(term, text) for term, text in own.items() if text is not None]
                   for own in every))  # fmt: skip


def terms(group: str) -> Facts:
    """Return the terms that a kind of report explains: ``terms.toml`` has them."""
    table = files("silot.render").joinpath("terms.toml").read_text(encoding="utf-8")
    return Facts([*tomllib.loads(table)[group].items()])


def not_converged(result: Any, *, several: bool = False) -> list[str]:
    """Return the warning that the solver of a result stopped early, or one of several."""
    if result.converged:
        return []
    return [f"Not {'everything ' if several else ''}converged: {printable(result.status, 400)}"]


def written(content: Content, medium: Medium) -> list[Block]:  # noqa: C901 - a case for each kind
    """Return the blocks of a content that a medium shows, with their values as texts."""
    if content is None or isinstance(content, bool):
        return []
    if isinstance(content, Component):
        return written(content.on(medium), medium)
    if isinstance(content, Section):
        blocks = written(content.content, medium)
        return [content.heading, *blocks] if blocks and medium == "page" else blocks
    if isinstance(content, Sequence):
        return [block for part in content for block in written(part, medium)]
    if isinstance(content, Table):
        return [*content.written(medium)]
    if isinstance(content, Facts):
        rows = [*content.rows, *(content.terminal if medium == "terminal" else content.page)]
        return [Facts(rows)] if rows else []
    if isinstance(content, Details):
        inner = written(content.blocks, medium)
        return [replace(content, blocks=inner)] if medium == "page" and inner else []
    if isinstance(content, Paragraph):
        return _paragraph(content, medium)
    if isinstance(content, Heading | Private | Picture | Gallery):
        return [content] if medium == "page" else []
    if callable(content):
        return written(content(), medium)
    return [content]


def _paragraph(paragraph: Paragraph, medium: Medium) -> list[Block]:
    if medium == "page":
        return [paragraph]
    if paragraph.kind == "alert":
        pieces = (paragraph.text,) if isinstance(paragraph.text, str) else paragraph.text
        return [Paragraph("".join(["Warning: ", *map(str, pieces)]), "warning")]
    return [] if paragraph.kind in _PAGE_KINDS else [paragraph]
