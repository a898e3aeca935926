"""The report of an adaptation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.api.report import page as blocks
from silot.api.report import render, write
from silot.render import Intervals
from silot.teaching.federated import Model, ModelSpec
from silot.teaching.result import Adaptation, Divergences
from silot.teaching.view import device_facts
from tests.render.test_report import Page, addresses
from tests.teaching.test_links_view import network


def adaptation(n: int = 6, *, names: list[str] | None = None, **fields: Any) -> Adaptation:
    """An adaptation of random costs and a model that knows nothing."""
    plan, costs = network(n, names=names)
    spec = ModelSpec("logistic", (3,), 2)
    none = np.zeros((1, spec.size))
    values = np.abs(costs.transfer - costs.transfer.T)
    errors = {name: 0.1 for name, able in zip(plan.names, costs.eligible, strict=True) if able}
    filled: dict[str, Any] = {
        "names": plan.names,
        "classes": ("0", "1"),
        "plan": plan,
        "costs": costs,
        "divergences": Divergences(
            names=plan.names, values=values, method="mmd", unit="1: no overlap", reading="root",
            status="estimated", seed=0,
        ),
        "labelled": {name: 50 * (name in errors) for name in plan.names},
        "unlabelled": dict.fromkeys(plan.names, 70),
        "errors": errors,
        "models": {
            name: Model(spec=spec, classes=("no", "yes"), parameters=none, weights=np.ones(1))
            for name in plan.names
        },
        "spec": spec,
        "parameters": dict.fromkeys(errors, none[0]),
        "rule": "output",
        "accuracies": {name: 0.5 + 0.4 * k / n for k, name in enumerate(plan.targets)},
        "energy": plan.energy,
        "energy_share": 0.25,
        "status": "proven optimal",
        "seed": 0,
        "rounds": 6,
        "bytes_sent": 120_000,
        "bytes_received": 340_000,
        "seconds": 1.25,
        "disclosure": "record",
    }  # fmt: skip
    return Adaptation(**{**filled, **fields})


@pytest.mark.heavy
def test_every_section_is_there_when_its_data_are() -> None:
    page = Page(render(adaptation(missing={"far": "holder-timeout"})))
    sections = [
        "accuracy-at-the-targets", "who-teaches-whom", "devices", "what-the-plan-costs",
        "what-pairs-of-devices-cost", "divergences-between-devices", "devices-that-took-no-part",
        "cost", "what-was-disclosed", "how-to-read-this",
    ]  # fmt: skip
    assert page.sections == sections
    assert {str(a["href"]) for a in page.all("a")} == {f"#{name}" for name in sections}
    less = Page(render(adaptation(divergences=None)))
    assert less.sections == [
        name for name in sections if "diverge" not in name and "no-part" not in name
    ]


@pytest.mark.heavy
def test_accuracies_are_in_the_summary_the_chart_and_the_table() -> None:
    found = adaptation(5)
    page = Page(render(found))
    values = [value for value in found.accuracies.values() if value is not None]
    assert f"are right on {100 * np.mean(values):.1f} %" in page.text
    assert f"on {100 * min(values):.1f} % at worst" in page.text
    chart = next(block for block in blocks(found) if isinstance(block, Intervals))
    assert {bar.name: bar.value / 100 for bar in chart.bars} == pytest.approx(found.accuracies)


@pytest.mark.heavy
def test_targets_that_told_nothing_have_a_reason() -> None:
    found = adaptation(6)
    first, *rest = found.accuracies
    silent = adaptation(
        6,
        accuracies={first: None, **dict.fromkeys(rest, 0.5)},
        unevaluated={first: "evaluation-absent"},
    )
    page = Page(render(silent))
    assert "it has no evaluation records (evaluation-absent)" in page.text
    nothing = adaptation(6, accuracies=dict.fromkeys(found.accuracies))
    page = Page(render(nothing))
    assert "No target sent the accuracy of its model." in page.text
    absent = dict.fromkeys(found.accuracies, "evaluation-absent")
    silent = adaptation(6, accuracies=dict.fromkeys(found.accuracies), unevaluated=absent)
    page = Page(render(silent))
    assert "accuracy" not in page.sections
    assert "the accuracy is not known" in page.text


@pytest.mark.heavy
def test_who_is_left_out_has_a_reason() -> None:
    names = adaptation(6).names
    found = adaptation(6, excluded={names[0]: "labels-few"}, missing={"far": "holder-timeout"})
    page = Page(render(found))
    assert "too few of its records have labels" in page.text
    assert "far took no part: " in page.text and f"{names[0]} could be no source: " in page.text


@pytest.mark.heavy
def test_the_cost_and_what_models_disclose_are_stated() -> None:
    text = Page(render(adaptation())).text
    assert "6 120 kB 340 kB 1.25 s" in text
    assert "There is no proof that records cannot be reconstructed from them." in text
    assert "all messages passed the coordinator" in text
    between = adaptation().divergences
    assert between is not None
    direct = Divergences(
        names=between.names, values=between.values, method="direct", unit="", reading="normal",
        status="exact", seed=0, scale=1.0,
    )  # fmt: skip
    text = Page(render(adaptation(divergences=direct))).text
    assert "reads the messages can reconstruct every record" in text


@pytest.mark.heavy
def test_divergences_of_fewer_devices_are_shown_at_their_places() -> None:
    found = adaptation(5)
    between = found.divergences
    assert between is not None
    fewer = Divergences(
        names=between.names[:0:-1], values=between.values[:0:-1, :0:-1], method="mmd", unit="",
        reading="root", status="estimated", seed=0,
    )  # fmt: skip
    shown = device_facts(adaptation(5, divergences=fewer)).divergence
    assert shown is not None
    assert np.array_equal(shown[1:, 1:], between.values[1:, 1:])
    assert np.isnan(shown[0]).all() and np.isnan(shown[:, 0]).all()
    page = Page(render(adaptation(5, divergences=fewer)))
    assert "Grey pairs do not count or may not be linked." in page.text


@pytest.mark.heavy
@pytest.mark.parametrize("n", [2, 13, 60])
def test_a_report_can_be_read_without_seeing_it_and_loads_nothing(n: int) -> None:
    text = render(adaptation(n, names=["<i>x</i>", *(f"d {k}" for k in range(n - 1))]))
    page = Page(text)
    assert not addresses(text)
    assert page.all("i") == [] and page.all("script") == []
    assert all(image["alt"] for image in page.all("img"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head.get("scope") in ("col", "row") for head in page.all("th"))


@pytest.mark.heavy
def test_a_report_is_written_whole(tmp_path: Path) -> None:
    found = adaptation()
    write(tmp_path / "a.html", found)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == render(found)
    assert [item.name for item in tmp_path.iterdir()] == ["a.html"]
