"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import logging
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# mkdocs loads this file by its path: `python -m mkdocs` finds the package from the root.
from reference.links import broken
from reference.notebooks import Runs, described, led
from reference.pages import pages

ROOT = Path(__file__).parents[1]
# A warning of mkdocs ends a strict build.
_LOG = logging.getLogger("mkdocs.hooks")
# Outside the docs, and shown beside them.
SHOWN = ("examples",)
BESIDE = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Where notebooks are, and where they are put once they ran.
NOTEBOOKS, RAN = ("gallery",), ROOT / "build" / "notebooks"
_LINK = re.compile(r"\]\((?:\.\./)+((?:examples|LICENSE|[A-Z]+\.md)[^)#]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill sections of the navigation that list what is in a folder."""
    config.nav = [_filled(item, made()) for item in config.nav or []]
    return config


@cache
def made() -> dict[str, str]:
    """Pages of the reference, once."""
    return pages()


@cache
def runs() -> Runs:
    """Notebooks that run."""
    return Runs()


def _filled(item: Any, here: dict[str, str]) -> Any:
    """An entry of the navigation, with ``FOLDER/*`` replaced by what is there."""
    if isinstance(item, dict):
        return {title: _filled(inside, here) for title, inside in item.items()}
    if not isinstance(item, list):
        return item
    filled: list[Any] = []
    for each in item:
        if isinstance(each, str) and each.endswith("*"):
            filled += _listed(each, here)
        else:
            filled.append(_filled(each, here))
    return filled


def _listed(pattern: str, here: dict[str, str]) -> list[str]:
    docs = ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in docs.glob(pattern)} | {
        path for path in here if re.fullmatch(pattern.replace("*", "[^/]*"), path)
    }
    wanted = (path for path in there if path.endswith((".md", ".py")) and "/_" not in path)
    # An index comes first, whatever else there is.
    listed = sorted(wanted, key=lambda path: (not path.endswith("index.md"), path))
    return [re.sub(r"\.py$", ".ipynb", path) for path in listed]


@event_priority(100)  # Before the plugin that shows notebooks looks for them.
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the files that pages link to."""
    for file in list(files):
        folder, _, name = file.src_uri.partition("/")
        if folder in NOTEBOOKS and name.endswith(".py"):
            files.remove(file)
            ran = RAN / folder / f"{Path(name).stem}.ipynb"
            runs().start(ROOT / "docs" / file.src_uri, ran)
            # At the end: others are made while they run.
            place = ran.relative_to(RAN).as_posix()
            files.append(File(place, str(RAN), config.site_dir, use_directory_urls=False))
    for place, text in made().items():
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, content=text))
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    for folder in SHOWN:
        for path in sorted((ROOT / folder).glob("*.*")):
            if path.suffix in (".yml", ".csv", ".py"):
                place = f"{folder}/{path.name}"
                files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_pre_page(page: Page, **_: Any) -> Page:
    """Wait until a notebook has run; one that fails ends the build."""
    if page.file.src_uri.endswith(".ipynb"):
        runs().finish(Path(page.file.abs_src_path or ""))
    return page


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links to what is outside the docs lead to its copy, or to its page."""
    here = posixpath.dirname(page.file.src_uri) or "."

    def copied(found: re.Match[str]) -> str:
        target = found[1]
        return f"]({posixpath.relpath(target, here)}{found[2] or ''})"

    markdown = re.sub(r"(?<=\]\()((?:\.\./)?[\w/]*\d\d_\w+)\.py(?=\))", r"\1.ipynb", markdown)
    # Blocks of code have one word behind their marks; tests of pages read a second.
    markdown = re.sub(r"^```(\w+) .*$", r"```\1", markdown, flags=re.MULTILINE)
    return _LINK.sub(copied, markdown)


def on_page_content(html: str, *, page: Page, files: Files, **_: Any) -> str:
    """Notebooks have links that lead to pages, and pictures that are described."""
    name = page.file.src_uri
    if not name.endswith(".ipynb"):
        return html
    here = posixpath.dirname(name)

    def address(place: str) -> str:
        ran = re.sub(r"\.py$", ".ipynb", posixpath.normpath(posixpath.join(here, place)))
        target = files.get_file_from_path(ran)
        if target is None:
            _LOG.warning("%s links to %s, which is no page.", name, place)
            return place
        return target.url_relative_to(page.file)

    source = (ROOT / "docs" / name).with_suffix(".py")
    try:
        html = described(html, source.read_text(encoding="utf-8"))
    except ValueError as error:
        _LOG.warning("%s: %s", name, error)
    return led(html, address)


def on_post_template(output_content: str, **_: Any) -> str:
    """The page for addresses that lead nowhere is none of the pages."""
    return on_post_page(output_content)


def on_post_page(output: str, **_: Any) -> str:
    """What the theme leaves out for readers who hear a page, or have no mouse."""
    output = output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
    # Code of notebooks scrolls: a key must reach it, as it does other code.
    return output.replace('<div class="highlight-ipynb', '<div tabindex="0" class="highlight-ipynb')


def on_post_build(config: MkDocsConfig) -> None:
    """End with an error where a link leads nowhere, or a page would fetch something."""
    found = broken(Path(config.site_dir))
    if found:
        raise PluginError("\n".join(["links that lead nowhere:", *found]))
