"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from jupyter_client.connect import ConnectionFileMixin
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# mkdocs loads this file by its path: `python -m mkdocs` finds the package from the root.
from reference.notebooks import described, led
from reference.pages import pages

ROOT = Path(__file__).parents[1]
# A warning of mkdocs ends a strict build.
_LOG = logging.getLogger("mkdocs.hooks")
# Outside the docs, and shown beside them.
SHOWN = ("examples",)
_LINK = re.compile(r"\]\((?:\.\./)+((?:examples|LICENSE|[A-Z]+\.md)[^)#]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill sections of the navigation that list what is in a folder."""
    # Kernels of the gallery are spoken to by sockets of this machine, not by ports.
    ConnectionFileMixin.transport.default_value = "ipc"
    config.nav = [_filled(item, pages()) for item in config.nav or []]
    return config


def _filled(item: Any, made: dict[str, str]) -> Any:
    """An entry of the navigation, with ``FOLDER/*`` replaced by what is there."""
    if isinstance(item, dict):
        return {title: _filled(inside, made) for title, inside in item.items()}
    if not isinstance(item, list):
        return item
    filled: list[Any] = []
    for each in item:
        if isinstance(each, str) and each.endswith("*"):
            filled += _listed(each, made)
        else:
            filled.append(_filled(each, made))
    return filled


def _listed(pattern: str, made: dict[str, str]) -> list[str]:
    docs = ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in docs.glob(pattern)} | {
        path for path in made if re.fullmatch(pattern.replace("*", "[^/]*"), path)
    }
    return sorted(path for path in there if path.endswith((".md", ".py")) and "/_" not in path)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the files that pages link to."""
    for place, text in pages().items():
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, content=text))
    for folder in SHOWN:
        for path in sorted((ROOT / folder).glob("*.*")):
            if path.suffix in (".yml", ".csv", ".py"):
                place = f"{folder}/{path.name}"
                files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links to what is outside the docs lead to its copy, or to its page."""
    here = posixpath.dirname(page.file.src_uri) or "."

    def copied(found: re.Match[str]) -> str:
        target = found[1]
        return f"]({posixpath.relpath(target, here)}{found[2] or ''})"

    # Blocks of code have one word behind their marks; tests of pages read a second.
    markdown = re.sub(r"^```(\w+) .*$", r"```\1", markdown, flags=re.MULTILINE)
    return _LINK.sub(copied, markdown)


def on_page_content(html: str, *, page: Page, files: Files, **_: Any) -> str:
    """Notebooks have links that lead to pages, and pictures that are described."""
    source = page.file.abs_src_path
    if source is None or not re.fullmatch(r"(gallery|tutorials)/.+\.py", page.file.src_uri):
        return html
    here = posixpath.dirname(page.file.src_uri)

    def address(place: str) -> str:
        target = files.get_file_from_path(posixpath.normpath(posixpath.join(here, place)))
        if target is None:
            _LOG.warning("%s links to %s, which is no page.", page.file.src_uri, place)
            return place
        return target.url_relative_to(page.file)

    try:
        html = described(html, Path(source).read_text(encoding="utf-8"))
    except ValueError as error:
        _LOG.warning("%s: %s", page.file.src_uri, error)
    return led(html, address)
