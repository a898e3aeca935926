"""Size and load time of a report about 100 holders with 500 records each.

Load times need chromium and chromedriver.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from evidence.common import Context
from evidence.speed._timing import show
from silot.api.report import write
from tests.render.factory import many

HOLDERS, RECORDS, LOADS = 100, 500, 5


def run(context: Context) -> None:
    """Print the table."""
    found, scores = many(HOLDERS, RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        began = time.perf_counter()
        write(path, found, records=scores)
        written = time.perf_counter() - began
        rows = [
            ("writing", f"{written:.1f} s"),
            ("size", f"{path.stat().st_size / 1e6:.2f} MB"),
            *_loads(path),
        ]
    show(f"report: {HOLDERS} holders with {RECORDS} records each", ("what", "measured"), rows)


def _loads(path: Path) -> list[tuple[str, str]]:
    """Median time from navigation to the end of the load event, and to the first paint after."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        return [("loading", "no chromium here")]
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )
    loaded: list[float] = []
    painted: list[float] = []
    try:
        for _ in range(LOADS):
            chrome.get("about:blank")
            chrome.get(path.as_uri())
            painted.append(chrome.execute_async_script(_PAINTED) / 1000)
            loaded.append(chrome.execute_script(_LOADED) / 1000)
    finally:
        chrome.quit()
    return [
        ("loading, to the load event", f"{statistics.median(loaded):.2f} s"),
        ("loading, to a frame with every image decoded", f"{statistics.median(painted):.2f} s"),
    ]


_LOADED = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
_PAINTED = """
const done = arguments[arguments.length - 1];
Promise.all([...document.images].map(image => image.decode())).then(
  () => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
"""
