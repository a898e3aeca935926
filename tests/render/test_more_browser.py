"""Reports of plans, of adaptations and of distillations opened from disk in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.api.report import write
from silot.distillation import LabelSpace
from tests.distillation.test_view import distillation
from tests.render.test_browser import CHROMIUM, DRIVER, browser, opened
from tests.teaching.test_links_view import network
from tests.teaching.test_view import adaptation

__all__ = ["browser"]
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)


def names_of(n: int) -> list[str]:
    return ["$x_1$", "東京", *(f"device {k} " + "x" * 60 for k in range(n - 2))]


def sections_at(browser: Any, path: Path, width: int) -> list[str]:
    """Sections of a page in a window of that width, which it must fit."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        found = opened(browser, path)
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width
    return found


@pytest.mark.parametrize("n", [2, 10, 30])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_report_of_a_plan_opens_without_a_word_and_fits_its_window(
    browser: Any, tmp_path: Path, n: int, width: int
) -> None:
    write(tmp_path / "a.html", *network(n, names=names_of(n)))
    found = sections_at(browser, tmp_path / "a.html", width)
    assert found == [
        "who-teaches-whom", "devices", "what-the-plan-costs", "what-pairs-of-devices-cost",
        "how-to-read-this",
    ]  # fmt: skip


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_report_of_an_adaptation_does_too(
    browser: Any, tmp_path: Path, n: int, width: int
) -> None:
    missing = {"far " + "x" * 60: "holder-timeout"}
    write(tmp_path / "a.html", adaptation(n, names=names_of(n), missing=missing))
    found = sections_at(browser, tmp_path / "a.html", width)
    assert found == [
        "accuracy-at-the-targets", "who-teaches-whom", "devices", "what-the-plan-costs",
        "what-pairs-of-devices-cost", "divergences-between-devices", "devices-that-took-no-part",
        "cost", "what-was-disclosed", "how-to-read-this",
    ]  # fmt: skip


@pytest.mark.parametrize("labels", [2, 5, 40])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_report_of_a_distillation_does_too(
    browser: Any, tmp_path: Path, labels: int, width: int
) -> None:
    circle = np.linspace(0, 5, labels)
    names = ["$y_1$", "怒り", *(f"label {k} " + "y" * 60 for k in range(labels - 2))]
    space = LabelSpace(np.column_stack([np.cos(circle), np.sin(circle)]), names)
    found = distillation(
        space,
        teachers=names_of(9),
        tests=("all", "local " + "z" * 60),
        excluded={"far " + "x" * 60: "prediction-nan"},
    )
    write(tmp_path / "a.html", found)
    assert sections_at(browser, tmp_path / "a.html", width) == [
        "before-and-after", "class-by-class", "who-taught", "teachers-that-took-no-part",
        "how-it-was-learnt", "the-labels", "cost", "what-was-disclosed",
        "how-to-read-this",
    ]  # fmt: skip
