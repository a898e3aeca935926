"""Every item has sizes for a look (``--quick``), and a look at it works: a few a day, in turn."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from evidence.__main__ import figures
from evidence.pages import ROOT, digest_numbers, read_pages

ITEMS = [(paper, figure) for paper, files in figures().items() for figure in files]
# Days until each item had its turn.
DAYS = 20
TODAY = ITEMS[date.today().timetuple().tm_yday % DAYS :: DAYS]


def _has_quick_sizes(path: Path) -> bool:
    """Whether a file, or a helper that it imports, has a ``QUICK``: constants for ``--quick``."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    names = {target.id for node in body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
    helpers = [
        path.with_name(f"{node.module.rpartition('.')[2]}.py")
        for node in body
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(f"evidence.{path.parent.name}._")
    ]
    return "QUICK" in names or any(_has_quick_sizes(each) for each in helpers)


def _top_level(path: Path) -> tuple[set[str], list[str]]:
    """Names that a module has, and those that its ``QUICK`` replaces."""
    names: set[str] = set()
    quick: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            names |= (
                {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
                if (target is not None)
                else set()
            )
            if isinstance(target, ast.Name) and target.id == "QUICK":
                assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict), path
                quick = [ast.literal_eval(key) for key in node.value.keys if key is not None]
    return names, quick


def test_every_item_has_quick_sizes_of_constants_that_there_are() -> None:
    for files in figures().values():
        for path in files.values():
            assert _has_quick_sizes(path), path
    for path in (ROOT / "evidence").glob("*/*.py"):
        names, quick = _top_level(path)
        assert set(quick) <= names, path


def _look(paper: str, figure: str) -> str:
    command = [sys.executable, "-m", "evidence", paper, figure, "--quick"]
    # The limit ends what hangs; it is no promise of speed.
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return digest_numbers(ended.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize(("paper", "figure"), TODAY)
def test_a_look_at_an_item_works(paper: str, figure: str) -> None:
    numbers = _look(paper, figure)
    page = read_pages().get(f"{paper}-{figure}")
    if page is not None and page.quick[0] and numbers != page.quick[0]:
        # Seconds, and noise without a seed, are other ones in every run.
        assert numbers != _look(paper, figure), "run the item again"
