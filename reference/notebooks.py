"""What notebooks kept as text lack as pages: links that lead to pages, and words for pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

_SAME_SITE = re.compile(r'href="(?![a-z]+:|#|/)([^"#]+\.(?:md|py))(#[^"]*)?"')
_ALT = re.compile(r'^# %% alt="([^"]+)"', re.MULTILINE)
# What nbconvert writes where nobody said what a picture shows.
_NOBODY = "No description has been provided for this image"


def led(html: str, address: Callable[[str], str]) -> str:
    """Links to sources, such as ``../value.md``, lead to where ``address`` says that its page is.

    Markdown of other pages is mkdocs' to link; that of notebooks becomes HTML before it sees it.
    """
    return _SAME_SITE.sub(lambda found: f'href="{address(found[1])}{found[2] or ""}"', html)


def described(html: str, source: str) -> str:
    """Pictures of a notebook get the alt texts of the cells that draw them, in their order.

    Raises
    ------
    ValueError
        There are more pictures than texts, or fewer.
    """
    texts = _ALT.findall(source)
    parts = html.split(f'alt="{_NOBODY}"')
    if len(parts) != len(texts) + 1:
        raise ValueError(f"{len(parts) - 1} pictures have {len(texts)} alt texts.")
    shown = [f'alt="{escape(text)}"{part}' for text, part in zip(texts, parts[1:], strict=True)]
    return parts[0] + "".join(shown)
