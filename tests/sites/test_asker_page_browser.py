"""An asker's page in a real browser: narrow and wide, light and dark, from form to report."""

# Fixtures of others.
# ruff: noqa: F401, F811
from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.api._methods import PAIRWISE
from silot.api.report import write
from silot.sites import kit as kits
from silot.sites.asker_page import AskerPage
from silot.sites.authority import Role
from silot.sites.kit import Kit, begin_kit, complete_kit
from silot.sites.project import Project, sign
from silot.sites.runs import RunProgress
from tests.lazily import package
from tests.render.axe import axe_faults, needs_axe
from tests.render.test_browser import CHROMIUM, DRIVER, browser

from .browsing import Browser, serving
from .project import authority, private
from .test_asker_page import desk, facts, keep, kit, made, outside
from .test_console_browser import CONTRAST, FAULTS, SIZES, focused, press, reach, sized

webdriver = package("selenium.webdriver", needs="selenium")
ui = package("selenium.webdriver.support.ui")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)

LONG = [f"hospital-of-a-long-name-in-a-town-{k:02d}.org" for k in range(18)]
MANY = Project(
    name="a-project-of-a-name-of-40-characters-abc", host="localhost", port=9000,
    sites=("north", "south", *LONG), askers=("an-analyst-of-a-name-of-40-characters-ab",),
)  # fmt: skip


def opened(browser: Any, page: AskerPage) -> Any:
    browser.get_log("browser")
    browser.get(page.url)
    browser.find_element("css selector", "button").send_keys(webdriver.Keys.ENTER)
    ui.WebDriverWait(browser, 30).until(lambda b: "Sites, runs" in b.title)
    return browser


def closed(browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    faults = [line for line in browser.get_log("browser") if "status of 4" not in line["message"]]
    assert faults == []


@pytest.fixture
def many(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A browser with the page of an asker of twenty sites, with a run in every state."""
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(kits, "create_key", lambda: private("many"))
    asked = begin_kit(tmp_path / "kit", MANY.askers[0], Role.ASKER)
    kit = complete_kit(tmp_path / "kit", sign(authority(MANY.name), MANY, asked))
    well, _, away = facts()["sites"].values()
    page = AskerPage(kit, PAIRWISE)
    page._survey.facts = {"sites": {name: well | {"schema": "a" * 64, "schema_name": "wards " * 9}
                                    for name in MANY.sites} | {LONG[3]: away}}  # fmt: skip
    page._survey.checked = datetime.now(UTC)
    rng = np.random.default_rng(0)
    result = silot.distance(rng.normal(size=(40, 3)), rng.normal(size=(30, 3)))
    finished = keep(kit, 1, state="done")
    write(finished.place / "report.html", result)
    (finished.place / "result.txt").write_text("W2  " + "1" * 90 + "\n" + "bounds\n" * 9)
    waiting = keep(kit, 2, state=f"waiting for {LONG[0]}", names=MANY.sites)
    waiting.note(RunProgress(done=3, total=190, rounds=3, bytes_sent=9, bytes_received=10**9))
    stopped = keep(kit, 3, state="stopped")
    (stopped.place / "errors.txt").write_text(f"error: [holder-timeout] {'x' * 90} is away.\n")
    keep(kit, 4, state="stopped", words=(), computation="python")
    lock = keep(kit, 5).lock()
    with serving(page):
        yield opened(browser, page)
        closed(browser)
    lock.release()


PATHS = (
    "", "?watch=1", "compare", "compare?method=direct", "check", "nowhere",
    "compare?method=fedwad&site-north=yes&site-south=yes",
    "compare?method=sketch&site-north=yes&site-south=yes",
    "compare?method=secure&site-north=yes&" + "&".join(f"site-{name}=yes" for name in LONG),
    *(f"run/{k:012x}" for k in range(1, 6)), "run/000000000003/resume", "run/000000000005/cancel",
)  # fmt: skip


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_fit_and_can_be_read(many: Any, width: int, scheme: str) -> None:
    home = many.current_url
    sized(many, width, scheme)
    for path in PATHS:
        many.get(home + path)
        dark = many.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (scheme == "dark")
        assert many.execute_script("return document.documentElement.scrollWidth") <= width, path
        assert many.execute_script(FAULTS) == [], path
        ratio, item = many.execute_script(CONTRAST)
        assert ratio >= 4.5, (path, item)
        # What is pressed or filled in is large enough for a finger, and lies in the page.
        sizes = many.execute_script(
            "return [...document.querySelectorAll('button,.button,select,.field input,.choice')]"
            ".map(b => b.getBoundingClientRect()).map(b => [b.height, b.right])"
        )
        assert all(height >= 24 and right <= width for height, right in sizes), path


@needs_axe
def test_axe_finds_nothing(many: Any) -> None:
    home = many.current_url
    for path in PATHS:
        # A page that is watched reloads by itself, because its reader chose that.
        if "watch" not in path:
            many.get(home + path)
            assert axe_faults(many) == [], path


def test_pages_refresh_while_they_must_and_forms_never(many: Any) -> None:
    home = many.current_url
    refreshing = "return document.querySelectorAll('meta[http-equiv=refresh]').length"
    done, running = "run/000000000001", "run/000000000005"
    for path, expected in (("", 0), ("?watch=1", 1), (f"{running}?watch=1", 1), (running, 0),
                           (f"{done}?watch=1", 0), ("compare?watch=1", 0),
                           (f"{running}/cancel?watch=1", 0)):  # fmt: skip
        many.get(home + path)
        assert many.execute_script(refreshing) == expected, path
        assert expected == 0 or not many.find_elements("css selector", "form")


def test_a_report_gets_nothing_of_the_session(many: Any) -> None:
    many.get(f"{many.current_url}run/000000000001")
    many.find_element("link text", "Open the report").click()
    ui.WebDriverWait(many, 30).until(lambda b: b.current_url.endswith("/report"))
    assert "How far apart" in many.find_element("css selector", "h1").text
    assert many.execute_script("return self.origin") == "null"
    # Its style and its pictures are its own: what its policy stops would be in the log.
    assert many.execute_script("return getComputedStyle(document.body).maxWidth") == "1056px"


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), SIZES[::3])
def test_the_keyboard_alone_compares_sites(
    browser: Any, outside: Browser, width: int, scheme: str
) -> None:
    """From the first page to the result, with a wrong option on the way."""
    shown = opened(browser, outside.console)  # type: ignore[arg-type]
    sized(shown, width, scheme)
    for name in ("Compare sites", "field-site-north", "field-site-south", "choice-direct"):
        reach(shown, name)
        press(shown, webdriver.Keys.ENTER if name == "Compare sites" else webdriver.Keys.SPACE)
        ui.WebDriverWait(shown, 30).until(lambda b: b.title == "Compare sites")
    press(shown, webdriver.Keys.ENTER)
    ui.WebDriverWait(shown, 30).until(lambda b: "Options" in b.title)
    reach(shown, "field-p")
    press(shown, "7")
    press(shown, webdriver.Keys.ENTER)
    ui.WebDriverWait(shown, 30).until(lambda b: "[option-p]" in b.page_source)
    field = shown.find_element("id", "field-p")
    assert field.get_attribute("value") == "7"
    field.clear()
    reach(shown, "Start the comparison")
    press(shown, webdriver.Keys.ENTER)
    # It reads itself anew until the run is done.
    ui.WebDriverWait(shown, 120).until(lambda b: "It is done." in b.page_source)
    assert "W2" in shown.find_element("css selector", "pre").text
    assert not shown.find_elements("css selector", "meta[http-equiv=refresh]")
    closed(shown)
