"""A site's page in a real browser: narrow and wide, light and dark, by keyboard alone."""

# Fixtures of others.
# ruff: noqa: F401, F811
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from silot.privacy.ledger import Ledger
from silot.sites.kit import Kit
from tests.lazily import package
from tests.render.axe import axe_faults, needs_axe
from tests.render.test_browser import CHROMIUM, DRIVER, browser

from .test_console import Browser, key, kit, ledger, outside, wait

webdriver = package("selenium.webdriver", needs="selenium")
ui = package("selenium.webdriver.support.ui")


pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)
SIZES = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]

# Of all texts that are shown, the least contrast with what is behind, as WCAG has it.
CONTRAST = """
const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
const light = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= .04045 ? v / 12.92
  : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
let least = [99, ''];
for (const item of document.querySelectorAll('body *')) {
  const own = [...item.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !item.getClientRects().length || item.closest('.skip')) continue;
  let behind = item;
  while (behind && (parts(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0)
    behind = behind.parentElement;
  const back = parts(getComputedStyle(behind || document.body).backgroundColor).slice(0, 3);
  const text = parts(getComputedStyle(item).color).slice(0, 3);
  const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < least[0]) least = [ratio, item.outerHTML.slice(0, 200)];
}
return least;
"""
# What assistive software needs: what is not as it should be.
FAULTS = """
const faults = [];
const levels = [...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1]);
if (levels[0] !== 1 || levels.filter(l => l === 1).length !== 1) faults.push('h1');
levels.forEach((l, k) => { if (k && l > levels[k - 1] + 1) faults.push('heading ' + k); });
if (document.querySelectorAll('main').length !== 1) faults.push('main');
if (document.querySelectorAll('header').length !== 1) faults.push('header');
for (const nav of document.querySelectorAll('nav')) if (!nav.ariaLabel) faults.push('nav');
for (const t of document.querySelectorAll('table')) {
  if (!t.caption || !t.caption.textContent.trim()) faults.push('caption');
  for (const th of t.querySelectorAll('th')) if (!th.scope) faults.push('scope');
}
for (const i of document.querySelectorAll('input:not([type=hidden])'))
  if (!i.labels.length) faults.push('label');
for (const f of document.querySelectorAll('fieldset')) if (!f.querySelector('legend'))
  faults.push('legend');
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
if (new Set(ids).size !== ids.length) faults.push('ids');
if (document.documentElement.lang !== 'en') faults.push('lang');
if (document.scripts.length) faults.push('script');
return faults;
"""


@pytest.fixture
def shown(browser: Any, outside: Browser) -> Iterator[Any]:
    """A browser in which the page is open."""
    browser.get_log("browser")
    browser.get(outside.console.url)
    browser.find_element("css selector", "button").send_keys(webdriver.Keys.ENTER)
    ui.WebDriverWait(browser, 30).until(lambda b: "Questions to" in b.title)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    faults = [each for each in browser.get_log("browser") if "status of 4" not in each["message"]]
    assert faults == []


def sized(browser: Any, width: int, scheme: str) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def fill(kit: Kit, ledger: Ledger) -> str:
    """Something of everything; the id of the first question that waits."""
    first = wait(ledger, 1, level="record", question="records", asker="uni@example.org")
    for k, asker in enumerate(["x" * 200, "<b>bank</b>\u202e", "מרכז רפואי", "東京"], 2):
        wait(ledger, k, asker=asker, question="q" * 300 if k == 2 else "moments")
        ledger.note(key(k), level="record", question="interpolate", asker=asker)
        ledger.refuse("records", "policy-level", asker)
    ledger.reserve(key(20), mu=0.1, budget=1, mechanism="discrete Gaussian, sketch", asker="uni")
    wait(ledger, 30)
    ledger.decide(ledger.waiting[-1].id, approved=False)
    log = {"asker": "x" * 200, "question": "interpolate", "level": "record", "bytes": 10, "mu": 0.1}
    ledger.log_question(log)
    return first.id


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_fit_and_can_be_read(
    shown: Any,
    kit: Kit,
    ledger: Ledger,
    width: int,
    scheme: str,
) -> None:
    home, id = shown.current_url, fill(kit, ledger)
    sized(shown, width, scheme)
    for path in ("", f"question/{id}", "pause", "?watch=1", "nowhere"):
        shown.get(home + path)
        dark = shown.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (scheme == "dark")
        wide = shown.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, path
        assert shown.execute_script(FAULTS) == [], path
        ratio, item = shown.execute_script(CONTRAST)
        assert ratio >= 4.5, (path, item)
        # What is pressed is large enough for a finger.
        low = shown.execute_script(
            "return Math.min(99, ...[...document.querySelectorAll('button,.button')].map(b => "
            "b.getBoundingClientRect().height))"
        )
        assert low >= 24


@needs_axe
def test_axe_finds_nothing(shown: Any, kit: Kit, ledger: Ledger) -> None:
    home, id = shown.current_url, fill(kit, ledger)
    for path in ("", f"question/{id}", "pause", "nowhere"):
        shown.get(home + path)
        assert axe_faults(shown) == [], path


def focused(browser: Any) -> tuple[str, bool]:
    """Where the keyboard is, and whether that can be seen."""
    return tuple(browser.execute_script(
        "const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();"
        "return [e.id || e.textContent.trim(), s.outlineStyle !== 'none' && "
        "parseFloat(s.outlineWidth) >= 2 && b.width > 0 && b.right > 0]"
    ))  # fmt: skip


def press(browser: Any, key: str) -> None:
    webdriver.ActionChains(browser).send_keys(key).perform()


def reach(browser: Any, wanted: str) -> None:
    """Press the tabulator until something has the focus; everything on the way is seen."""
    for _ in range(60):
        press(browser, webdriver.Keys.TAB)
        name, seen = focused(browser)
        assert seen, name
        if name == wanted:
            return
    raise AssertionError(f"{wanted} is not reached")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_keyboard_alone_approves(
    shown: Any,
    ledger: Ledger,
    width: int,
    scheme: str,
) -> None:
    wait(ledger)
    sized(shown, width, scheme)
    shown.refresh()
    press(shown, webdriver.Keys.TAB)
    assert focused(shown) == ("Skip to the content", True)
    press(shown, webdriver.Keys.ENTER)
    reach(shown, "Read and decide")
    press(shown, webdriver.Keys.ENTER)
    ui.WebDriverWait(shown, 30).until(lambda b: "A question of uni" in b.title)
    # Nothing is chosen before, and nothing is sent without a choice.
    reach(shown, "Save the decision")
    press(shown, webdriver.Keys.ENTER)
    assert ledger.waiting[0].state == "waiting"
    shown.refresh()
    reach(shown, "choice-deny")
    press(shown, webdriver.Keys.ARROW_DOWN)
    assert focused(shown)[0] == "choice-once"
    reach(shown, "Save the decision")
    press(shown, webdriver.Keys.ENTER)
    ui.WebDriverWait(shown, 30).until(lambda b: "It was approved" in b.page_source)
    assert ledger.waiting[0].state == "approved" and ledger.allowed == ()


def test_a_page_refreshes_only_when_wanted_and_never_a_form(
    shown: Any,
    ledger: Ledger,
) -> None:
    home, id = shown.current_url, wait(ledger).id
    refreshing = "return document.querySelectorAll('meta[http-equiv=refresh]').length"
    for path, expected in (("", 0), ("?watch=1", 1), (f"question/{id}?watch=1", 0),
                           ("pause?watch=1", 0)):  # fmt: skip
        shown.get(home + path)
        assert shown.execute_script(refreshing) == expected, path
        assert expected == 0 or not shown.find_elements("css selector", "form")


def test_a_pause_is_seen_and_ended(shown: Any, ledger: Ledger) -> None:
    home = shown.current_url
    for button, paused in (("Pause the site", True), ("Go on", False)):
        shown.get(f"{home}pause")
        found = shown.find_element("css selector", "button")
        assert found.text == button
        found.click()
        ui.WebDriverWait(shown, 30).until(lambda b: "Questions to" in b.title)
        assert ledger.paused is paused
        state = shown.find_element("css selector", "[role=status]").text
        assert state.startswith("Paused" if paused else "Not paused")


def test_the_cookie_is_kept_from_scripts_and_other_paths(shown: Any) -> None:
    assert shown.execute_script("return document.cookie") == ""
    (cookie,) = shown.get_cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and len(cookie["path"]) == 18
    assert "expiry" not in cookie
