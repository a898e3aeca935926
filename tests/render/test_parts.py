"""The section of a report on what distances are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from silot.api.report import render, write
from silot.distances.cost_parts import ClassPart, Parts
from silot.distances.worth.result import Contributions
from silot.render import Column, plain_table
from tests.render.factory import contributions
from tests.render.test_report import Page

NAMES = ["north", "<b>south</b>", "west", "east", "centre"]
LONG = "glucose_of_a_name_that_goes_on_and_on_without_any_place_to_break_it_" * 2


def parts(beyond: str | None = None) -> Parts:
    columns = {LONG: 0.9} | {f"c{k}": 0.05 / 60 for k in range(60)}
    classes = {"seven & <i>": ClassPart(share=0.4, mass=0.1)} | {
        f"class {k}": ClassPart(share=0.6 / 20, mass=0.9 / 20) for k in range(20)
    }
    of = "records" if beyond is None else "cells"
    return Parts(cost=4.0, columns=columns, labels=0.05, classes=classes, of=of, beyond=beyond)


def told(count: int = len(NAMES), beyond: str | None = None) -> Contributions:
    found = contributions(NAMES)
    items = tuple(
        replace(item, distance=replace(item.distance, parts=parts(beyond))) if k < count else item
        for k, item in enumerate(found.holders)
    )
    return replace(found, holders=items)


@pytest.mark.heavy
def test_each_holder_that_told_its_parts_has_few_rows_of_one_table() -> None:
    page = Page(render(told()))
    assert "what-the-distances-are-made-of" in page.sections and {
        "href": "#what-the-distances-are-made-of"
    } in page.all("a")
    assert "90.0 %" in page.text and "class seven & <i>" in page.text and "10.0 %" in page.text
    assert page.text.count("53 more") == len(NAMES) and page.text.count("13 more") == len(NAMES)
    assert page.text.count("Shares of the squared distance, and of the records") == 1


@pytest.mark.heavy
def test_holders_that_told_none_have_none() -> None:
    assert Page(render(told(1))).text.count("53 more") == 1
    assert "what-the-distances-are-made-of" not in Page(render(told(0))).sections


@pytest.mark.heavy
def test_records_beyond_the_public_range_are_a_warning() -> None:
    text = Page(render(told(2, beyond="bmi"))).text
    assert "sketched cells" in text
    assert text.count("many records lie beyond the public range, mostly in bmi") == 2


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(width: int, tmp_path: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from tests.render import test_browser as here

    if here.CHROMIUM is None or here.DRIVER is None:
        pytest.skip("chromium and chromedriver are needed")
    options = webdriver.ChromeOptions()
    options.binary_location = here.CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    browser = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=here.DRIVER)
    )
    try:
        write(tmp_path / "r.html", told(beyond=LONG))
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        browser.get((tmp_path / "r.html").as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        hidden = browser.execute_script(
            "return [...document.querySelectorAll('#what-the-distances-are-made-of table')]"
            ".map(each => each.scrollWidth - each.clientWidth)"
        )
        assert len(hidden) == 1 and max(hidden) <= 0
    finally:
        browser.quit()


def test_a_table_is_shown_without_columns_that_have_nothing() -> None:
    heads = [Column("a"), Column("b"), Column("c")]
    table = replace(plain_table(heads, [["1", "", "\u2013"], ["", "", "2"]]), filled=True)
    (table,) = table.written("page")
    assert [head.title for head in table.columns] == ["a", "c"]
    assert [[cell.text for cell in row] for row in table.rows] == [["1", "\u2013"], ["", "2"]]
