"""Reports of plans opened from disk in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from silot.report import write_links
from tests.report.test_browser import CHROMIUM, DRIVER, browser, opened
from tests.report.test_links import network

__all__ = ["browser"]
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)


@pytest.mark.parametrize("n", [2, 10, 30])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_report_of_a_plan_opens_without_a_word_and_fits_its_window(
    browser: Any,
    tmp_path: Path,
    n: int,
    width: int,
) -> None:
    path = tmp_path / "links.html"
    names = ["$x_1$", "東京", *(f"device {k} " + "x" * 60 for k in range(n - 2))]
    write_links(path, *network(n, names=names))
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert opened(browser, path) == ["network", "devices", "objective", "costs", "terms"]
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width
