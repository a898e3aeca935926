"""Reports opened from disk in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.api.report import write
from tests.lazily import package
from tests.render.factory import contents_of, contributions, many, record_scores

webdriver = package("selenium.webdriver", needs="selenium")
ui = package("selenium.webdriver.support.ui")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)


# What a browser loads of its own, such as its first tab.
OWN = ("data:", "chrome:")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def opened(browser: Any, path: Path) -> list[str]:
    """Open a file, check that the browser has nothing to say, and return ids of sections."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(path.as_uri())
    # The driver returns when the page's load is reported, which may be before it is complete.
    ui.WebDriverWait(browser, 60, poll_frequency=0.05).until(
        lambda driver: driver.execute_script("return document.readyState") == "complete"
    )
    said = [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
    assert said == []
    addresses = {
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    }
    assert path.as_uri() in addresses
    assert {url for url in addresses if not url.startswith(OWN)} == {path.as_uri()}
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight])"
    )
    assert images and all(done and width > 0 and height > 0 for done, width, height in images)
    # An image that was read may still have no room.
    widths = browser.execute_script(
        "return [...document.querySelectorAll('figure img')].filter(i => i.checkVisibility())"
        ".map(i => i.getBoundingClientRect().width)"
    )
    assert all(width > 100 for width in widths)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect())"
        ".map(b => [b.width, b.height])"
    )
    assert all(width > 0 and height > 0 for width, height in drawn)
    return browser.execute_script("return [...document.querySelectorAll('section')].map(s => s.id)")


NAMES = ["north", "<script>alert(1)</script>", "$x_1$", "東京", "a\x00b"]


def test_a_report_of_everything_opens_without_a_word(browser: Any, tmp_path: Path) -> None:
    scores, truth = record_scores("north", 100)
    other, _ = record_scores("$x_1$", 80, seed=1, published=True)
    path = tmp_path / "report.html"
    write(
        path,
        contributions(NAMES, missing={"<b>far</b>": "policy-level"}),
        records=[scores, other],
        images={"north": np.random.default_rng(0).random((100, 8, 8))},
        truth={"north": truth},
    )
    assert opened(browser, path) == [
        "ranking-of-the-holders",
        "distances-between-holders",
        "map-of-the-holders",
        "suspect-records",
        "records-1",
        "records-2",
        "holders-that-took-no-part",
        "cost",
        "what-was-disclosed",
    ]
    assert browser.title == "What the data of the holders are worth"
    assert browser.execute_script("return document.scripts.length") == 1
    heads = [
        item.text
        for item in browser.find_elements("css selector", "#ranking-of-the-holders tbody th")
        if item.is_displayed()
    ]
    assert sorted(heads) == sorted(
        name.replace("\x00", "\N{REPLACEMENT CHARACTER}") for name in NAMES
    )


@pytest.mark.parametrize("width", [360, 390, 1100])
def test_a_report_is_no_wider_than_its_window(browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report.html"
    scores, truth = record_scores("north", 100)
    names = ["north", "x" * 200, *NAMES[2:]]
    write(path, contributions(names), records=scores, truth={"north": truth})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, path)
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


def test_a_report_of_a_hundred_holders_opens(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    found, scores = many()
    write(path, found, records=scores)
    assert opened(browser, path) == [
        "ranking-of-the-holders",
        "distances-between-holders",
        "map-of-the-holders",
        "suspect-records",
        *(f"records-{k}" for k in range(1, 7)),
        "cost",
        "what-was-disclosed",
    ]


LONG = [f"hospital {k} of a very long name in a town of the north" for k in range(30)]
ODD = ["</script><script>document.title='run'</script>", "מרכז רפואי", "東京", *LONG]


def cells(browser: Any, column: int) -> list[str]:
    """Texts of a column of the ranking, as shown."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#ranking-of-the-holders .filtered tbody tr')]"
        ".map(row => row.cells[arguments[0]].textContent)",
        column,
    )


def ranking_page(browser: Any, tmp_path: Path) -> list[str]:
    path = tmp_path / "report.html"
    write(path, contributions(ODD))
    opened(browser, path)
    assert len(cells(browser, 1)) == 20
    browser.find_element("css selector", "#ranking-of-the-holders .all").click()
    return cells(browser, 1)


def test_a_filter_shows_rows_that_hold_all_words_and_counts_them(
    browser: Any, tmp_path: Path
) -> None:
    names = ranking_page(browser, tmp_path)
    assert len(names) == 33 and browser.title == "What the data of the holders are worth"
    search = browser.find_element("css selector", "#ranking-of-the-holders input[type=search]")
    told = browser.find_element("css selector", "#ranking-of-the-holders output")
    assert told.text == "33 of 33 rows"
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#ranking-of-the-holders .filtered tbody tr')]"
        ".map(row => row.innerText)"
    )
    # Words in any order, in either case, of any column.
    search.send_keys("TOWN hospital 7")
    fit = [name for name, row in zip(names, rows, strict=True) if "town" in row and "7" in row]
    assert cells(browser, 1) == fit and 0 < len(fit) < 30
    assert told.text == f"{len(cells(browser, 1))} of 33 rows"
    search.clear()
    search.send_keys("רפואי")
    assert cells(browser, 1) == ["מרכז רפואי"]
    search.clear()
    search.send_keys("no such holder")
    assert cells(browser, 1) == [] and told.text == "0 of 33 rows"
    search.clear()
    search.send_keys(" ")
    assert cells(browser, 1) == names


def test_a_box_shows_flagged_rows_alone(browser: Any, tmp_path: Path) -> None:
    names = ranking_page(browser, tmp_path)
    box = browser.find_element("css selector", "#ranking-of-the-holders input[type=checkbox]")
    assert "did not converge" in box.find_element("xpath", "..").text
    box.click()
    heads = [
        each.text
        for each in browser.find_elements(
            "css selector", "#ranking-of-the-holders .filtered thead th"
        )
    ]
    assert cells(browser, heads.index("status")) == ["stopped"]
    box.click()
    assert cells(browser, 1) == names


def test_columns_sort_by_number_or_by_name_up_down_and_back(browser: Any, tmp_path: Path) -> None:
    names = ranking_page(browser, tmp_path)
    heads = browser.find_elements("css selector", "#ranking-of-the-holders .filtered thead th")
    buttons = [head.find_element("css selector", "button") for head in heads]
    assert buttons[2].accessible_name == "Sort by distance"
    enter = webdriver.Keys.ENTER  # the keyboard alone
    buttons[2].send_keys(enter)
    assert heads[2].get_attribute("aria-sort") == "ascending"
    assert cells(browser, 1) == names
    buttons[2].send_keys(enter)
    assert heads[2].get_attribute("aria-sort") == "descending"
    shown = [float(text.split()[0]) for text in cells(browser, 2)]
    assert shown == sorted(shown, reverse=True) and shown[0] > shown[-1]
    buttons[2].send_keys(enter)
    assert heads[2].get_attribute("aria-sort") is None and cells(browser, 1) == names
    buttons[1].click()
    places = [int(name.split()[1]) for name in cells(browser, 1) if name.startswith("hospital")]
    assert places == list(range(30))
    # Sorting keeps the filter, and the other way round.
    search = browser.find_element("css selector", "#ranking-of-the-holders input[type=search]")
    search.send_keys("hospital 1")
    kept = [int(name.split()[1]) for name in cells(browser, 1)]
    assert kept == sorted(kept) and 0 < len(kept) < 30


def test_without_scripts_all_rows_are_there_and_no_controls(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write(path, contributions(ODD))
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(path.as_uri())
        rows = browser.find_elements("css selector", "#ranking-of-the-holders .filtered tbody tr")
        controls = browser.find_element("css selector", "#ranking-of-the-holders .controls")
        assert len(rows) == 33 and not controls.is_displayed()
        assert browser.find_elements("css selector", "thead button") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_told_from_the_page_in_the_light_and_in_the_dark(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "report.html"
    scores, truth = record_scores("north", 100)
    found = contributions(ODD, missing={"far": "policy-level"}, converged=False)
    images = {"north": np.ones((100, 3, 3))}
    write(path, found, records=scores, truth={"north": truth}, images=images)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        opened(browser, path)
        worst = browser.execute_script(CONTRAST)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    (dark,) = {item[2] for item in worst if item[1] == "BODY"}
    assert dark == (scheme == "dark")
    # What the rules for accessible pages ask of text of this size.
    assert min(worst)[0] >= 4.5, min(worst)


# Of every element with words: contrast with what is behind it, its tag, and whether that is dark.
CONTRAST = """
const light = colour => {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * parts[0] + .7152 * parts[1] + .0722 * parts[2];
};
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const worded = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
return [document.body, ...document.body.querySelectorAll('*')]
  .filter(e => e === document.body || worded(e))
  .filter(e => e.tagName !== 'SCRIPT')
  .map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.tagName, b < .2];
  });
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_sheet_of_paper_is_white_and_holds_every_figure(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "report.html"
    write(path, many()[0])
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        opened(browser, path)
        page, tall, controls = browser.execute_script(
            "return [getComputedStyle(document.body).backgroundColor,"
            "Math.max(...[...document.images].map(image => image.height)),"
            "[...document.querySelectorAll('.controls label, thead button')]"
            ".filter(e => e.offsetParent).length]"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    # A sheet of A4 has 29.7 cm, of which margins and a caption take some.
    assert page == "rgb(255, 255, 255)" and tall <= 25 / 2.54 * 96 and controls == 0


SUSPECTS = "#records-1 .filtered tbody tr"


def suspects_page(browser: Any, tmp_path: Path) -> Any:
    scores, _ = record_scores("north", 300, broken=0.3)
    path = tmp_path / "report.html"
    names = [f"<b>patient {k}</b>" for k in range(300)]
    write(path, scores, contents={"north": contents_of(scores, names)})
    opened(browser, path)
    return scores.suspects()


def test_suspect_records_are_shown_by_kind_by_word_and_in_order(
    browser: Any, tmp_path: Path
) -> None:
    listed = suspects_page(browser, tmp_path)

    browser.find_element("css selector", "#records-1 .all").click()

    def shown() -> list[int]:
        return browser.execute_script(
            f"return [...document.querySelectorAll('{SUSPECTS}')]"
            ".map(row => Number(row.cells[0].textContent))"
        )

    assert shown() == [each.record for each in listed]
    kinds = ui.Select(browser.find_element("css selector", "#records-1 select"))
    for kind in ("label", "features", "copy"):
        kinds.select_by_visible_text(kind)
        assert shown() == [each.record for each in listed if kind in each.kinds] != []
    kinds.select_by_visible_text("all")
    search = browser.find_element("css selector", "#records-1 input[type=search]")
    ending = str(listed[3].record)
    search.send_keys(f"<B>patient {ending}</b>")
    assert shown() == [each.record for each in listed if str(each.record).endswith(ending)] != []
    search.clear()
    search.send_keys(" ")
    browser.find_elements("css selector", "#records-1 .filtered thead button")[0].click()
    assert shown() == sorted(each.record for each in listed)
