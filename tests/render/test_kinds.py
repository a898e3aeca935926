"""Rules that every kind of report keeps, with twenty sites and names of forty characters."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.api.report import page, render
from silot.data.reported import Reported, Result
from silot.render import Bar, Block, Details, Heading, Intervals, Paragraph, Picture, Table
from silot.render.html import render as render_blocks
from tests.lazily import package
from tests.render.axe import axe_faults, needs_axe
from tests.render.kinds import KINDS, kind_of, shown_kinds
from tests.render.test_browser import CHROMIUM, CONTRAST, DRIVER, browser
from tests.render.test_report import Page

images = package("PIL.Image", needs="PIL")
__all__ = ["browser"]
in_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are needed: apt-get install chromium chromium-driver",
)
kinds = pytest.mark.parametrize("name", KINDS)
# Bytes of a page.
MOST = 150_000
# Kinds without a quantity that lies in an interval.
NO_CHART = ("links", "releases", "audit")


@cache
def text_of(name: str) -> str:
    result, beside, options = kind_of(name)
    return render(result, *beside, **options)


def every(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from every(block.blocks)


@pytest.mark.heavy
@kinds
def test_a_page_begins_with_a_verdict_and_has_five_columns_and_one_warning(name: str) -> None:
    result, beside, options = kind_of(name)
    blocks = page(result, *beside, **options)
    title, verdict = blocks[:2]
    assert isinstance(title, Heading) and len(str(title.text).split()) <= 10
    assert isinstance(verdict, Paragraph) and verdict.kind == "lead" and verdict.text
    for block in every(blocks):
        if isinstance(block, Table):
            assert len(block.columns) <= Table.most_columns, block.caption
            assert all(column.title for column in block.columns)
    charts = [block for block in blocks if isinstance(block, Intervals)]
    assert len(charts) == (name not in NO_CHART)
    for bar in charts[0].bars if charts else ():
        assert isinstance(bar, Bar) and bar.low <= bar.value <= bar.high and bar.words
        assert bar.noise is None or bar.noise >= 0
    drawn = [place for place, block in enumerate(blocks) if isinstance(block, Picture | Table)]
    assert not charts or blocks.index(charts[0]) < min(drawn, default=len(blocks))
    shown = Page(text_of(name))
    assert all(head.get("scope") in ("col", "row") for head in shown.all("th"))
    above = text_of(name).split("<main>")[0]
    assert above.count('class="warning"') <= 1


@pytest.mark.heavy
@kinds
def test_a_page_needs_nothing_beside_itself_and_can_be_sent(name: str) -> None:
    text = text_of(name)
    assert "://" not in text and str(Path.cwd()) not in text
    sources = [str(item.get("src", item.get("srcset"))) for kind in ("img", "source")
               for item in Page(text).all(kind)]  # fmt: skip
    assert all(source.startswith("data:") for source in sources)
    assert len(text) <= MOST


SCHEMA = json.loads(files("silot.data").joinpath("result.schema.json").read_text())
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "number": (int, float), "integer": int,
    "null": type(None),
}  # fmt: skip


def faults(value: Any, rule: dict[str, Any], place: str = "") -> Iterator[str]:
    """Yield where a value breaks a rule, of the words of JSON schemas that ours has."""
    if "$ref" in rule:
        yield from faults(value, SCHEMA["$defs"][rule["$ref"].rpartition("/")[2]], place)
    if "anyOf" in rule and all([*faults(value, one, place)] for one in rule["anyOf"]):
        yield f"{place}: none of several"
    kinds = rule.get("type", [])
    allowed = tuple(TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if allowed and not isinstance(value, allowed):
        yield f"{place}: {value!r} is no {kinds}"
    if value not in rule.get("enum", [value]) or value != rule.get("const", value):
        yield f"{place}: {value!r}"
    if isinstance(value, int | float) and value < rule.get("minimum", value):
        yield f"{place}: {value!r} is too small"
    if isinstance(value, str | list) and len(value) < rule.get("minLength", 0):
        yield f"{place}: empty"
    if isinstance(value, list):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
            yield f"{place}: {len(value)} items"
        for item in value:
            yield from faults(item, rule.get("items", {}), place)
    if isinstance(value, dict):
        yield from (f"{place}: no {name}" for name in rule.get("required", ()) if name not in value)
        for name, item in value.items():
            own = rule.get("properties", {}).get(name, rule.get("additionalProperties", {}))
            yield from faults(item, own, f"{place}.{name}")


@pytest.mark.heavy
@kinds
def test_every_result_has_the_same_face_and_json_that_the_schema_describes(
    name: str, tmp_path: Path
) -> None:
    results, beside, _ = kind_of(name)
    for result in results if isinstance(results, list) else [results]:
        assert isinstance(result, Reported)
        asked: Result = result
        body = json.loads(asked.to_json())
        assert [*faults(body, SCHEMA)] == []
        assert body["kind"] == type(result).__name__ and body["verdict"] == asked.verdict
        assert set(asked.to_dict()) <= set(body)
        assert asked.value is not None
        assert asked.plot().has_data()
        if not beside:
            asked.report(tmp_path / "report.html")
            assert "<h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_all_results_have_that_face() -> None:
    kinds = shown_kinds()
    assert len(kinds) > 20
    words = ("verdict", "interval", "cost", "disclosure", "to_dict", "to_json", "plot", "report")
    for kind in kinds:
        assert issubclass(kind, Reported), kind
        assert all(hasattr(kind, word) or word in kind.__annotations__ for word in words), kind
        assert hasattr(kind, "value") or "value" in kind.__dataclass_fields__, kind


def test_json_that_is_not_of_the_schema_is_seen() -> None:
    body = json.loads(kind_of("distance")[0].to_json())
    for name, value in (
        ("format", 2), ("kind", 3), ("verdict", None), ("value", "1"), ("interval", [1.0]),
        ("cost", {}), ("disclosure", "some"),
    ):  # fmt: skip
        assert [*faults({**body, name: value}, SCHEMA)], name
        assert [*faults({key: item for key, item in body.items() if key != name}, SCHEMA)], name


def test_of_several_warnings_one_is_a_box_and_the_others_are_folded() -> None:
    warnings = [Paragraph(f"warning {k}", "warning") for k in range(3)]
    text = render_blocks([Heading("A", level=1), Paragraph("b", "lead"), *warnings])
    assert text.count('class="warning"') == 1
    assert "Also: 2 more warnings" in text
    assert all(f"warning {k}" in text for k in range(3))


# Elements that pass the right edge or hide a part of themselves.
CUT = """
const edge = document.documentElement.clientWidth + 1;
return [...document.body.querySelectorAll('*')].filter(e => e.checkVisibility() && (
  e.getBoundingClientRect().right > edge || (e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1)
)).map(e => `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 60)}`);
"""


def opened(browser: Any, folder: Path, name: str) -> None:
    path = folder / "report.html"
    path.write_text(text_of(name), encoding="utf-8")
    browser.get(path.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def seen(browser: Any, width: int) -> Any:
    """Return the page as numbers from 0 to 255 (height, width, 3)."""
    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 12_000), "scale": 1}
    options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
    return np.asarray(images.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


@pytest.fixture
def windowed(browser: Any) -> Iterator[Any]:
    yield browser
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def sized(browser: Any, width: int, scheme: str, media: str = "") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


@in_browser
@pytest.mark.heavy
@kinds
def test_nothing_is_cut_or_white_in_the_dark_on_any_screen(
    windowed: Any, tmp_path: Path, name: str
) -> None:
    opened(windowed, tmp_path, name)
    for width in (390, 768, 1280):
        for scheme in ("light", "dark"):
            sized(windowed, width, scheme)
            assert windowed.execute_script(CUT) == [], (width, scheme)
            assert min(windowed.execute_script(CONTRAST))[0] >= 4.5, (width, scheme)
        assert (seen(windowed, width).min(axis=2) > 240).mean() < 1e-4, width
    # A sheet of A4 less its margins, in pixels.
    sized(windowed, 688, "dark", "print")
    assert windowed.execute_script(CUT) == []
    assert (seen(windowed, 688).min(axis=2) > 240).mean() > 0.3


@in_browser
@needs_axe
@pytest.mark.heavy
@kinds
def test_axe_finds_nothing(windowed: Any, tmp_path: Path, name: str) -> None:
    opened(windowed, tmp_path, name)
    for width, scheme in ((390, "dark"), (1280, "light")):
        sized(windowed, width, scheme)
        assert axe_faults(windowed) == [], (width, scheme)
