"""The report of decisions about sites: rules that a page of it must keep, in a real browser."""

from __future__ import annotations

import base64
import contextlib
import io
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console

import silot
from silot.api.report import sections, write
from silot.cli.app import build
from silot.render import terminal, written
from tests.api.test_compare import Columns, in_pounds, patients
from tests.lazily import package
from tests.render.test_browser import CHROMIUM, CONTRAST, DRIVER, browser, opened
from tests.render.test_kinds import CUT

pl = package("polars")
__all__ = ["browser"]
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
    ),
]
# Of 40 signs.
LONG = "pressure_of_the_blood_at_the_first_visit"


def compared(folder: Path, tables: dict[str, Columns]) -> tuple[silot.api.SiteComparison, Path]:
    """Compare files of these tables with one of 150 trusted records, and write the report."""
    names: list[str] = []
    for name, table in {"mine": patients(150, 0), **tables}.items():
        columns = {key: values for key, values in table.items() if key != "event"}
        frame = pl.DataFrame(columns).rename({"sbp": LONG})
        names.append(f"{name}.csv")
        frame.write_csv(folder / names[-1])
    (folder / "unreadable.csv").write_text("a,b\n1,2\n")
    # Commands name the files as they were typed: how long a folder's name is, would count as lines.
    with contextlib.chdir(folder):
        result = silot.compare([*names[1:], "unreadable.csv"], names[0])
    page = folder / "report.html"
    write(page, result, folder=Path("compare"))
    return result, page


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[silot.api.SiteComparison, Path]:
    tables = {
        f"hospital_of_a_rather_long_name_{k:09d}": patients(90, k, older=12.0 if k % 5 == 0 else 0)
        for k in range(1, 19)
    }
    tables["in_pounds"] = in_pounds(patients(90, 19))
    return compared(tmp_path_factory.mktemp("many"), tables)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[silot.api.SiteComparison, Path]:
    tables = {"a": in_pounds(patients(120, 1)), "b": patients(120, 2, older=12.0)}
    return compared(tmp_path_factory.mktemp("few"), tables)


OVERLAPPING = """
const boxes = [...document.querySelectorAll('article, figure, table, h2, .intervals')]
  .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect());
return boxes.filter((a, i) => boxes.some((b, j) => i < j &&
  a.top < b.bottom - 1 && b.top < a.bottom - 1 && a.left < b.right - 1 && b.left < a.right - 1 &&
  !(a.top <= b.top && a.bottom >= b.bottom))).length;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_of_twenty_sites_is_cut_or_overlaps(
    browser: Any, many: tuple[silot.api.SiteComparison, Path], width: int, scheme: str
) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        opened(browser, many[1])
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.execute_script(CUT) == []
        assert browser.execute_script(OVERLAPPING) == 0
        assert min(browser.execute_script(CONTRAST))[0] >= 4.5
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_card_has_a_step_an_error_rate_and_a_command_that_is_read(
    browser: Any, many: tuple[silot.api.SiteComparison, Path]
) -> None:
    result, page = many
    opened(browser, page)
    cards = browser.execute_script(
        "return [...document.querySelectorAll('article.card')].map(c => ["
        "c.querySelectorAll('ol li').length, c.textContent, c.querySelector('pre')?.textContent])"
    )
    joint = [words for _, words, _ in cards if "USE as they are" in words]
    assert len(joint) == 1 and len(cards) <= 11
    root = typer.main.get_command(build())
    for steps, words, typed in cards:
        assert steps > 0
        is_rated = "p = " in words or "80 % power" in words
        assert is_rated or "cannot be tested" in words or "CONFIRM" in words
        if words not in joint:
            _, *arguments = shlex.split(typed)
            leaf: Any = root
            while hasattr(leaf, "commands"):
                is_named = arguments[0] in leaf.commands
                leaf = leaf.commands[arguments.pop(0) if is_named else leaf.default]
            flags = {flag for parameter in leaf.params for flag in parameter.opts}
            assert {word for word in arguments if word.startswith("--")} <= flags, typed
    assert len(result.decisions) == 20
    assert browser.execute_script("return document.querySelectorAll('.warning').length") <= 1
    bands = browser.execute_script("return [...document.querySelectorAll('.intervals svg')].length")
    assert bands == sum(item.shift is not None for item in result.decisions)


def test_a_page_holds_no_address_no_path_and_little(
    many: tuple[silot.api.SiteComparison, Path],
) -> None:
    text = many[1].read_text()
    assert "://" not in text and len(text) <= 150_000


def test_three_sites_fit_a_screen_four_sheets_and_a_terminal(
    browser: Any, few: tuple[silot.api.SiteComparison, Path]
) -> None:
    result, page = few
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, page)
        ends = browser.execute_script(
            "return document.querySelector('article.card').getBoundingClientRect().bottom"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert ends < 800
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    assert base64.b64decode(paper["data"]).count(b"/Type /Page\n") <= 4
    console = Console(file=io.StringIO(), width=80)
    terminal.show(console, written(sections(result, folder=Path("compare")), "terminal"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 42 and all(len(line) <= 80 for line in lines), "\n".join(lines)
