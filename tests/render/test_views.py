"""Every kind of result is shown: on a terminal, in a notebook, and as a page."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import silot
from silot.api.report import page, sections
from silot.api.report import render as render_result
from silot.api.report import write as write_result
from silot.estimators import ShiftDetector
from silot.federation.result import RunResult
from silot.render import Gallery, Heading, Intervals, Private, Table, terminal
from silot.render.html import fragment, is_private, render
from tests.render.kinds import shown_kinds
from tests.render.test_report import Page, svgs

NAMES = ["<b>north</b>", "south", "[bold]west[/bold]"]


def clouds(size: int = 12) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(size, 2)) + k for k, name in enumerate(NAMES)}


def distance(**options: Any) -> silot.distances.Distance:
    x, y, _ = clouds().values()
    return silot.distance(x, y, **options)


def many() -> dict[str, Any]:
    return {name: np.tile(x, (40, 1)) for name, x in clouds().items()}


def labelled() -> dict[str, Any]:
    return {
        name: silot.Measure(x, labels=np.where(x[:, 0] > x[:, 1], "yes", "no"))
        for name, x in clouds().items()
    }


DATA = clouds()
PUBLIC = np.random.default_rng(1).normal(size=(300, 2))
# Computed when a test first asks for one, so that collecting tests computes none.
COMPUTATIONS: dict[str, Callable[[], Any]] = {
    "distance": lambda: distance(why=True),
    "iterated": lambda: distance(method="fedwad", rounds=3, support=8),
    "matrix": lambda: silot.distance_matrix(DATA),
    "clustering": lambda: silot.cluster(DATA),
    "barycenter": lambda: silot.barycenter(DATA, rounds=3, support=6),
    "coreset": lambda: silot.coreset(DATA, 6, rounds=3),
    "federated": lambda: silot.train(labelled(), rounds=2),
    "comparison": lambda: silot.compare(DATA, PUBLIC[:60]),
    "worth": lambda: silot.value_holders(DATA, PUBLIC[:40], why=True, shapley=True),
    "sketches": lambda: silot.api.sketches(many(), public=PUBLIC),
    "policy": lambda: silot.audits.audit_policy(silot.Policy(), many()["south"], draws=50),
}


@cache
def result_of(name: str) -> Any:
    return COMPUTATIONS[name]()


def printed(result: Any) -> str:
    out = io.StringIO()
    terminal.show(Console(file=out, width=80), sections(result))
    return out.getvalue()


def test_no_kind_of_result_is_forgotten() -> None:
    kinds = shown_kinds()
    assert len(kinds) > 20
    for kind in kinds:
        module, _, name = kind.view.partition(":")
        room = import_module(f".{module}", kind.__module__.rpartition(".")[0])
        assert callable(getattr(room, f"{name}_content"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_a_terminal_a_notebook_and_a_page_show_the_same_cost(name: str) -> None:
    result = result_of(name)
    text, notebook, whole = printed(result), Page(result._repr_html_()), Page(render_result(result))
    assert text.strip() and all(len(line) <= 80 for line in text.splitlines())
    if isinstance(result, silot.api.SiteComparison):
        # All tables were here: nothing was sent, and it says so in place of a cost.
        assert all("nothing was sent" in shown for shown in (text, notebook.text, whole.text))
    elif isinstance(result, RunResult):
        cost = "1 round" if result.rounds == 1 else f"{result.rounds} rounds"
        assert cost in text and cost in notebook.text
        assert f"{result.rounds} " in whole.text.split("The cost")[-1]
    if name not in ("policy", "comparison"):
        assert whole.sections[-2:] == ["cost", "what-was-disclosed"]
        assert result.disclosure in whole.text.split("What was disclosed")[-1]
    linked = {str(link["href"]) for link in whole.all("a")}
    assert linked == {f"#{each}" for each in whole.sections}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    [
        "matrix",
        "clustering",
        "comparison",
        "barycenter",
        "coreset",
        "federated",
        "worth",
        "sketches",
    ],
)
def test_names_are_text_and_nothing_else(name: str) -> None:
    result = result_of(name)
    for shown in (Page(result._repr_html_()), Page(render_result(result))):
        assert shown.all("b") == []
        assert "<b>north</b>" in shown.text and "[bold]west[/bold]" in shown.text
    assert "[bold]" in printed(result)


def test_bounds_and_status_are_on_the_page_of_a_distance() -> None:
    found = result_of("iterated")
    text = Page(render_result(found)).text
    assert f"{found.value:.6g}" in text and "certified" in text
    assert svgs(Page(render_result(found))) == []
    (chart,) = [block for block in page(found) if isinstance(block, Intervals)]
    assert (chart.bars[0].low, chart.bars[0].high) == found.bounds
    assert ("Not converged" in text) is not found.converged


def test_every_pair_is_on_the_page_of_a_matrix() -> None:
    found = result_of("matrix")
    pairs = next(each for each in page(found) if isinstance(each, Table))
    assert len(pairs.rows) == len(found.pairs) == 3


def test_the_page_of_a_policy_does_not_read_as_if_it_were_safe() -> None:
    text = Page(render_result(result_of("policy"))).text
    assert "Not tried: side channels" in text and "unknown attacks" in text
    assert "What the policy discloses at most" in text


@pytest.mark.heavy
def test_the_same_result_gives_the_same_page() -> None:
    for result in map(result_of, COMPUTATIONS):
        assert render_result(result) == render_result(result)


def test_what_only_the_user_may_read_is_so_on_disk(tmp_path: Path) -> None:
    audit = silot.audit(distance(method="fedwad", rounds=2).transcript)
    for name, result in (("a", audit), ("b", result_of("distance"))):
        write_result(tmp_path / name, result)
    assert is_private(page(audit)) and not is_private(page(result_of("distance")))
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert (tmp_path / "b").stat().st_mode & 0o044 != 0
    assert Page(render([Private()])).all("p") == []
    write_result(tmp_path / "c", result_of("distance"))
    assert "apart" in (tmp_path / "c").read_text(encoding="utf-8")


def test_sections_without_an_address_are_no_sections() -> None:
    blocks = [Heading("One", "one"), Heading("Two", level=3), Gallery([])]
    assert Page(render(blocks)).sections == ["one"]
    assert "section" in fragment(blocks) and "<h3>Two</h3>" in fragment(blocks)


def test_the_look_of_a_notebook_is_of_results_alone_and_fits_light_and_dark() -> None:
    text = result_of("worth")._repr_html_()
    style = re.sub(r"/\*.*?\*/", "", text.split("<style>")[1].split("</style>")[0], flags=re.DOTALL)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    assert rules and "<style" not in text.split("</style>", 1)[1]
    for selectors, body in rules:
        assert all(each.strip().startswith(".silot.silot") for each in selectors.split(", .")[:1])
        assert all(each.startswith("silot.silot") for each in selectors.split(", .")[1:])
        # A colour that is not made of the text's own is lost on one of the two; paper is white.
        fixed = re.findall(r"(?:^|;)\s*(?:color|background)\s*:\s*#", body)
        assert not fixed or "figure" in selectors


def test_a_shift_shows_itself_in_a_notebook_and_on_a_page() -> None:
    rng = np.random.default_rng(0)
    detector = ShiftDetector().fit(rng.normal(size=(60, 2)))
    for moved in (0.0, 2.0):
        shift = detector.detect(np.array([moved, 0.0]) + rng.normal(size=(40, 2)))
        assert shift.shifted is bool(moved)
        for text in (printed(shift), Page(shift._repr_html_()).text, render_result(shift)):
            assert ("Different (p" in text or "different, p" in text) is shift.shifted
            assert f"p = {shift.p_value:.3g}" in text
            assert f"{shift.distance:.4g}" in text


def test_what_is_no_result_cannot_be_shown() -> None:
    with pytest.raises(silot.errors.SilotError, match="report-kind"):
        render_result(3)


@pytest.mark.heavy
def test_showing_on_a_terminal_draws_nothing() -> None:
    import subprocess

    code = (
        "import sys, silot; from silot.api.report import sections; "
        "sections(silot.distance([[0.0]], [[1.0]])); "
        "assert not {'matplotlib', 'jinja2', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_name_turns_a_page_round_or_breaks_it() -> None:
    names = ("a\x00\x07\x1b[31mz", "\u202eevil\u2066x")
    run = silot.distance([[0.0], [1.0]], [[2.0], [5.0]], why=True)
    named = replace(run, holders=names)
    for text in (render_result(named), named._repr_html_()):
        assert not {"\x00", "\x07", "\x1b", "\u202e", "\u2066"} & set(text)
        assert "evil" in text
