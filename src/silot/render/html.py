"""Blocks as one HTML file that needs nothing beside itself, or as a piece of a notebook."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .sections import Block, Details, Heading, Paragraph, Private, Table, Text
from .words import count, printable


@dataclass
class _Section:
    """A heading and what stands below it."""

    heading: Heading | None
    blocks: list[Block | _Section] = field(default_factory=list["Block | _Section"])


def render(blocks: Sequence[Block], *, title: str = "") -> str:
    """Render blocks as the text of one HTML file.

    The file needs nothing beside itself: no network, no fonts, and of scripts at most one, which
    filters and sorts tables that are whole without it; the file's policy lets no other run. The
    same blocks give the same text. A ``Heading`` of level 2 begins a section; what stands before
    the first is the summary on top, and the one of level 1 is the title.

    Parameters
    ----------
    blocks
        What the page shows.
    title
        Instead of the title of the blocks.

    Returns
    -------
    str
        The HTML file.

    Examples
    --------
    >>> from silot.render import Facts, Heading
    >>> blocks = [Heading("Cost", "cost"), Facts([("rounds", "3")])]
    >>> page = render(blocks, title="A & B")
    >>> '<h1>A &amp; B</h1>' in page, '<section id="cost">' in page
    (True, True)
    """
    headings = [block for block in blocks if isinstance(block, Heading)]
    titles = [block for block in headings if block.level == 1]
    top = _tree([block for block in blocks if block not in titles])
    own = "".join(map(str, _pieces(titles[0].text))) if titles else "Report"
    sections = (k for k, block in enumerate(top.blocks) if isinstance(block, _Section))
    cut = next(sections, len(top.blocks))
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            title=printable(title.strip() or own, 200),
            summary=_one_warning(top.blocks[:cut]),
            sections=top.blocks[cut:],
            links=[block for block in headings if block.is_listed],
            scripted=any(isinstance(block, Table) and block.filter for block in _every(blocks)),
        )
    )


def _one_warning(blocks: Sequence[Block | _Section]) -> list[Block | _Section]:
    """Return blocks with one box of warnings, the others folded below it: of many none is read."""
    boxes = [
        block
        for block in blocks
        if (isinstance(block, Paragraph) and block.kind in ("warning", "alert"))
        or (isinstance(block, Private) and block.shows)
    ]
    # Who may read the page comes before what it says.
    first = next((box for box in boxes if isinstance(box, Private)), boxes[0] if boxes else None)
    others = [box for box in boxes if box is not first]
    if not others:
        return list(blocks)
    more = [replace(box, kind="") if isinstance(box, Paragraph) else box for box in others]
    details = Details(f"Also: {count(len(others), 'more warning')}", more)
    shown = [block for block in blocks if block is first or block not in others]
    place = next(k for k, block in enumerate(shown) if block is first)
    return [*shown[: place + 1], details, *shown[place + 1 :]]


def is_private(blocks: Sequence[Block]) -> bool:
    """Return whether only the user may read a page of these blocks."""
    return any(isinstance(block, Private) for block in blocks)


def fragment(blocks: Sequence[Block]) -> str:
    """Render blocks as a piece of another page, which brings their style."""
    return (
        environment(labelled=True)
        .get_template("fragment.html.jinja")
        .render(items=_tree(blocks).blocks)
    )


def notebook(blocks: Sequence[Block]) -> str:
    """Render blocks as a piece of a notebook, with a style that suits light and dark ones."""
    return environment().get_template("notebook.html.jinja").render(items=_tree(blocks).blocks)


def _every(blocks: Sequence[Block]) -> Iterator[Block]:
    """Return all blocks, those within others too."""
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _every(block.blocks)


def _tree(blocks: Sequence[Block]) -> _Section:
    """Return blocks below the headings they belong to; only those with an address are sections."""
    top = _Section(None)
    opened = [top]
    for block in blocks:
        if isinstance(block, Heading) and block.level < 4:
            while (head := opened[-1].heading) is not None and head.level >= block.level:
                opened.pop()
            if block.anchor:
                section = _Section(block)
                opened[-1].blocks.append(section)
                opened.append(section)
                continue
        opened[-1].blocks.append(block)
    return top


def _pieces(text: Text) -> Sequence[Any]:
    return (text,) if isinstance(text, str) else text


# Lines, and the marks by which sentences of ours isolate a name.
_KEPT = "\n\t\u2068\u2069"


def _shown(value: Any) -> Any:
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(
        sign if sign.isprintable() or sign in _KEPT else "\N{REPLACEMENT CHARACTER}"
        for sign in value
    )


def _css_string(text: str) -> str:
    """Return a text as a string of a style sheet, which its signs cannot end."""
    return '"' + re.sub(r"[^\w .,:()%-]", lambda sign: f"\\{ord(sign[0]):x} ", text) + '"'


@cache
def environment(*, labelled: bool = False) -> Environment:
    """Return the templates: every value is escaped, and none may be missing.

    Where a page's policy allows no style of an element, cells are ``labelled`` one by one with the
    column that they are of; the other way takes a tenth less room.
    """
    environment = Environment(
        loader=PackageLoader("silot.render", ""),
        # Every template, whatever its name ends with.
        autoescape=True,
        undefined=StrictUndefined,
        # Names are other people's: none may turn a page round, whatever view forgot it.
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = files("silot.render").joinpath("table.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The one script that a page may run: its policy names the digest.
    environment.globals.update(
        table_script=Markup(script), table_digest=f"sha256-{digest}", labelled=labelled
    )
    environment.tests["section"] = lambda block: isinstance(block, _Section)
    environment.filters.update(
        kind=lambda block: type(block).__name__, pieces=_pieces, css=_css_string
    )
    return environment
