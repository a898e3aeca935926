"""The gallery: files run as scripts, are notebooks, and lead to pages that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
FILES = sorted(GALLERY.glob("[0-9]*.py"))
_NEEDS = {"torch": "import torch", "opendp": "silot[privacy]"}
_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(#[^)\s]+)?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def cells(path: Path) -> list[tuple[str, str]]:
    """Kind (what stands behind ``# %%``) and text of each cell of a file in percent format."""
    parts = re.split(r"^# %%(.*)$", path.read_text(), flags=re.MULTILINE)
    assert not parts[0].strip(), "something stands before the first cell"
    return list(zip((kind.strip() for kind in parts[1::2]), parts[2::2], strict=True))


def words(path: Path) -> str:
    """The markdown of a page, or of all the markdown cells of a file."""
    if path.suffix == ".md":
        return path.read_text()
    texts = [text for kind, text in cells(path) if kind == "[markdown]"]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in _lines(texts))


def _lines(texts: list[str]) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


def anchors(path: Path) -> set[str]:
    """Addresses of the headings of a page."""
    titles = _HEADING.findall(words(path))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_runs_and_what_it_asserts_holds(path, tmp_path):
    for package, mark in _NEEDS.items():
        if mark in path.read_text() and find_spec(package) is None:
            pytest.skip(f"needs {package}")
    found = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={
            **os.environ,
            "MPLBACKEND": "agg",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "SILOT_STATE": str(tmp_path / "state"),
        },
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert found.stdout.strip(), "it prints nothing"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_a_notebook_kept_as_text(path):
    found = cells(path)
    kind, first = found[0]
    assert kind == "[markdown]" and first.lstrip().startswith("# # ")
    assert found[-1][0] == "[markdown]"
    for kind, text in found:
        assert kind == "[markdown]" or not kind or re.fullmatch(r'alt="[^"]+"', kind), kind
        if kind == "[markdown]":
            assert all(line.startswith("#") for line in text.strip().splitlines())
        else:
            compile(text, str(path), "exec")
            # A picture that only the sighted have is half a picture.
            assert ("plt.show()" in text) == bool(kind), text
    if find_spec("jupytext"):
        import jupytext

        assert len(jupytext.read(path).cells) == len(found)


@pytest.mark.parametrize("path", [*FILES, GALLERY / "index.md"], ids=lambda path: path.stem)
def test_every_link_leads_to_a_page_and_heading_that_exist(path):
    links = _LINK.findall(words(path))
    assert links
    for place, anchor in links:
        if place.startswith("http"):
            continue
        target = (path.parent / place).resolve()
        assert target.is_file(), place
        assert not anchor or anchor[1:] in anchors(target), place + anchor


def test_every_file_is_in_the_index():
    index = (GALLERY / "index.md").read_text()
    assert len(FILES) >= 5
    for path in FILES:
        assert f"]({path.name})" in index, path.name
