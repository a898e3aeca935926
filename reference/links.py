"""Links of a built site: mkdocs looks neither into notebooks nor into what is made as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

_TARGET = re.compile(r"""<(?:a|img|script|link|iframe)\b[^>]*?\s(href|src)=["']?([^"'\s>]+)""")
# Targets that a reader's click leads to; whatever a page loads by itself must be local.
_BY_CLICK = re.compile(r"<a\b")


def broken(site: Path) -> list[str]:
    """Links that lead nowhere, and what pages would load from elsewhere."""
    found: list[str] = []
    for page in sorted(site.rglob("*.html")):
        for tag in _TARGET.finditer(page.read_text(encoding="utf-8")):
            target = unquote(tag[2])
            if re.match(r"[a-z]+:|//", target):
                loads = target.startswith(("http", "//")) and not _BY_CLICK.match(tag[0])
                if loads:
                    found.append(f"{page.relative_to(site)} loads {target}")
                continue
            path = re.split(r"[?#]", target)[0]
            base = site if path.startswith("/") else page.parent
            if path and not (base / path.lstrip("/")).exists():
                found.append(f"{page.relative_to(site)}: {target}")
    return found
