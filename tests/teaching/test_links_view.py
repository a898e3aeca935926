"""The report of a plan: its drawing, what it says, and what it refuses."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.api.report import render, write
from silot.errors import FileError, MismatchError
from silot.teaching.costs import LinkCosts
from silot.teaching.figures import crossings, layout
from silot.teaching.plan import LinkPlan, LinkTerms
from tests.lazily import package
from tests.render.test_report import Page, addresses, svgs

matplotlib = package("matplotlib")


def network(
    n: int,
    *,
    seed: int = 0,
    sources: int | None = None,
    mixed: int = 2,
    unserved: int = 0,
    names: list[str] | None = None,
    **fields: Any,
) -> tuple[LinkPlan, LinkCosts]:
    """A plan of random links, and costs it fits."""
    rng = np.random.default_rng(seed)
    psi = np.ones(n, dtype=np.int64)
    psi[rng.permutation(n)[: max(1, n // 3) if sources is None else sources]] = 0
    training = np.flatnonzero(psi == 0)
    alpha = np.zeros((n, n))
    targets = np.flatnonzero(psi == 1)
    for j in targets[unserved:] if len(training) else []:
        chosen = rng.permutation(training)[: 1 + int(rng.integers(mixed))]
        alpha[chosen, j] = rng.dirichlet(np.ones(len(chosen)))
    named = names or [f"device {k}" for k in range(n)]
    costs = LinkCosts(
        source=rng.uniform(0.1, 0.6, n),
        transfer=rng.uniform(0.2, 1.8, (n, n)),
        energy=rng.uniform(2.6, 4.5, (n, n)),
        eligible=(psi == 0) | (rng.random(n) < 0.5),
        names=named,
    )
    spent = float((costs.energy * (alpha > 0)).sum())
    idle = tuple(named[j] for j in (targets[:unserved] if len(training) else targets))
    terms = LinkTerms(
        float(costs.source[training].sum()),
        5.0 * float((alpha * costs.transfer).sum()),
        spent,
        unserved=2.0 * len(idle),
    )
    filled: dict[str, Any] = {
        "names": tuple(named),
        "psi": psi,
        "alpha": alpha,
        "objective": terms.total,
        "terms": terms,
        "lower_bound": terms.total,
        "gap": 0.0,
        "status": "proven optimal",
        "optimal": True,
        "seconds": 0.01,
        "method": "exact",
        "energy": spent,
        "unserved": idle,
    }
    return LinkPlan(**{**filled, **fields}), costs


def page(n: int = 6, **options: Any) -> Page:
    return Page(render(*network(n, **options)))


@given(
    st.integers(0, 6).flatmap(
        lambda rows: st.lists(
            st.lists(st.booleans(), min_size=5, max_size=5), min_size=rows, max_size=rows
        )
    )
)
def test_crossings_are_counted_as_by_hand(rows: list[list[bool]]) -> None:
    weights = np.array(rows, dtype=np.float64).reshape(len(rows), 5)
    links = [tuple(pair) for pair in np.argwhere(weights > 0).tolist()]
    crossed = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(links, 2))
    assert crossings(weights) == crossed


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000), st.integers(1, 4))
def test_a_layout_shows_every_device_once_and_none_on_another(
    n: int, seed: int, mixed: int
) -> None:
    plan, _ = network(n, seed=seed, mixed=mixed, sources=1 + seed % (n - 1))
    placed = layout(plan)
    assert sorted(placed.order) == list(range(n))
    assert all(plan.psi[k] == 0 for k in placed.sources)
    for heights in (placed.source_heights, placed.target_heights):
        assert np.all(np.diff(heights) >= 1 - 1e-9)
        assert min(heights) >= -1e-9 and max(heights) <= placed.rows - 1 + 1e-9
    given_order = np.ix_(np.flatnonzero(plan.psi == 0), np.flatnonzero(plan.psi == 1))
    shown = plan.alpha[np.ix_(placed.sources, placed.targets)]
    assert crossings(shown) <= crossings(plan.alpha[given_order])


def test_links_of_one_source_a_target_never_cross() -> None:
    for seed in range(20):
        plan, _ = network(30, seed=seed, mixed=1, sources=6)
        placed = layout(plan)
        assert crossings(plan.alpha[np.ix_(placed.sources, placed.targets)]) == 0


@pytest.mark.heavy
def test_the_report_has_its_sections_and_links_to_them() -> None:
    found = page()
    assert found.sections == [
        "who-teaches-whom", "devices", "what-the-plan-costs", "what-pairs-of-devices-cost",
        "how-to-read-this",
    ]  # fmt: skip
    assert {str(a["href"]) for a in found.all("a")} == {f"#{name}" for name in found.sections}


@pytest.mark.heavy
def test_the_summary_says_who_trains_and_whether_it_is_the_best() -> None:
    plan, costs = network(6)
    text = Page(render(plan, costs)).text
    names = " and ".join(plan.sources)
    assert f"Of 6 devices, 2 devices train ({names}) and 4 receive a model" in text
    assert "it is proven that no plan costs less" in text
    short = page(optimal=False, lower_bound=1.0, gap=0.5, status="stopped: raise time_limit").text
    assert "no plan costs less than 1 (gap 50 %)" in short.replace("1.000", "1")
    assert "Not proven optimal: stopped: raise time_limit" in short
    blind = page(optimal=False, lower_bound=-np.inf, gap=np.inf, status="rounded").text
    assert "not known how much less another plan could cost" in blind


@pytest.mark.heavy
def test_every_link_is_in_the_drawing_and_in_the_table() -> None:
    plan, costs = network(6)
    found = Page(render(plan, costs))
    drawn = svgs(found)[0]
    for name in plan.names:
        assert f">{name}<" in drawn
    alt = str(found.all("img")[0]["alt"])
    for source, target, weight in plan.links:
        assert f"{source} to {target} with weight {weight:.2f}" in alt
        assert f"{source} {target} {weight:.3f}" in found.text
    assert drawn.count("opacity:0.75") == len(plan.links)


@pytest.mark.heavy
def test_sources_targets_and_the_unserved_differ_in_shape() -> None:
    plan, costs = network(7, unserved=1)
    found = Page(render(plan, costs))
    assert f"{plan.unserved[0]} is not served" in found.text
    assert "Diamonds are targets without a model." in found.text
    assert "target, unserved" in found.text
    assert "Diamonds" not in page(7).text


def test_a_network_of_nobody_but_unserved_targets_is_drawn() -> None:
    assert "0 devices train (none) and 4 receive a model, over 0 links" in page(4, sources=0).text


@pytest.mark.heavy
@pytest.mark.parametrize("n", [2, 3, 12, 13, 41, 120])
def test_networks_of_all_sizes(n: int) -> None:
    text = render(*network(n))
    found = Page(text)
    assert len(text) < 1_500_000
    for k in range(n):
        assert f"device {k}" in found.text
    assert ("The same as tables" in found.text) == (n <= 12)


@pytest.mark.heavy
def test_names_are_text_and_nothing_else() -> None:
    names = ["<script>alert(1)</script>", "$x_1$", '" onload="x', "東京", "a\x00\u202eb", "x" * 300]
    plan, costs = network(6, names=names)
    text = render(plan, costs, title="<i>title</i>")
    found = Page(text)
    assert found.all("script") == [] and found.all("i") == []
    assert not any("onload" in attributes for _, attributes in found.tags)
    assert "\x00" not in text and "\u202e" not in text
    drawn = "".join(svgs(found))
    assert "$x_1$" in drawn and "東京" in drawn and "<script" not in drawn


@pytest.mark.heavy
def test_nothing_is_loaded_from_anywhere() -> None:
    text = render(*network(6))
    assert not addresses(text)
    for tag, attributes in Page(text).tags:
        assert (attributes.get("src") or "data:").startswith("data:"), tag
        href = attributes.get("href") or "#"
        assert href.startswith("#") or (tag == "link" and href == "data:,")


@pytest.mark.heavy
def test_a_report_can_be_read_without_seeing_it() -> None:
    found = page()
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("title")) == len(found.all("h1")) == 1
    assert all(image["alt"] for image in found.all("img"))
    assert all(head.get("scope") in ("col", "row") for head in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table"))
    assert len(found.all("figcaption")) == len(found.all("figure"))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


@pytest.mark.heavy
def test_the_same_plan_makes_the_same_bytes() -> None:
    once = render(*network(8))
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert render(*network(8)) == once


def test_barred_links_and_what_averaging_saves_are_shown() -> None:
    plan, costs = network(5, terms=LinkTerms(1.0, 5.0, 2.0, -0.5), objective=7.5)
    barred = LinkCosts(
        source=costs.source,
        transfer=np.where(plan.alpha > 0, costs.transfer, np.inf),
        energy=costs.energy,
        eligible=costs.eligible,
        names=plan.names,
    )
    found = Page(render(plan, barred))
    assert "averaging -0.5" in found.text
    assert "Grey pairs do not count or may not be linked." in found.text


@pytest.mark.heavy
def test_an_iterative_method_shows_how_it_went_on() -> None:
    history = tuple({"surrogate": 9.0 / (k + 1), "objective": 8.0 / (k + 1)} for k in range(4))
    plain, found = page(), page(history=history, details={"non_binariness": 0.25}, method="gp")
    assert len(found.all("img")) == len(plain.all("img")) + 1
    assert "surrogate and objective over 4 iterations." in [image["alt"] for image in
                                                            found.all("img")]  # fmt: skip
    assert "non binariness 0.25" in found.text


@pytest.mark.heavy
def test_a_report_is_written_whole(tmp_path: Path) -> None:
    plan, costs = network(5)
    path = tmp_path / "links.html"
    path.write_text("before")
    write(str(path), plan, costs)
    assert path.read_text(encoding="utf-8") == render(plan, costs)
    assert [item.name for item in tmp_path.iterdir()] == ["links.html"]
    with pytest.raises(FileError, match="file-unwritable"):
        write(tmp_path / "nowhere" / "links.html", plan, costs)


def test_costs_of_other_devices_are_refused(tmp_path: Path) -> None:
    plan, _ = network(5)
    for costs in (network(6)[1], network(5, names=list("abcde"))[1]):
        with pytest.raises(MismatchError, match="report-links"):
            write(tmp_path / "links.html", plan, costs)
    assert list(tmp_path.iterdir()) == []
