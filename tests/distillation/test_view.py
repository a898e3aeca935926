"""The report of a distillation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.api.report import render, write
from silot.distillation import LabelSpace, Scores, scores
from silot.distillation.figures import _boxes, _quantiles
from silot.distillation.result import Distillation
from tests.render.test_report import Page, addresses, svgs

STARS = LabelSpace([-1.0, 0.0, 1.0], ["bad", "fair", "good"], title="stars")


def scored(space: LabelSpace, skill: float, seed: int, absent: Sequence[int] = ()) -> Scores:
    """Scores of a model that is right more often the more skill it has."""
    rng = np.random.default_rng(seed)
    codes = np.array([code for code in np.repeat(np.arange(space.size), 30) if code not in absent])
    told = rng.dirichlet(np.ones(space.size), len(codes))
    told += skill * np.eye(space.size)[codes]
    return scores(told / told.sum(axis=1, keepdims=True), codes, space)


def distillation(
    space: LabelSpace = STARS,
    *,
    teachers: Sequence[str] = ("north", "south"),
    tests: Sequence[str] = ("all", "local"),
    skills: tuple[float, float] = (0.2, 2.0),
    **fields: Any,
) -> Distillation:
    rng = np.random.default_rng(0)
    names = (*teachers, "global")
    weights = rng.dirichlet(np.ones(len(names)), 40).T
    losses = np.linspace(1.0, 0.25, 12)
    filled: dict[str, Any] = {
        "model": None,
        "space": space,
        "teachers": names,
        "losses": losses,
        "by_teacher": losses[:, None] + rng.uniform(0, 0.2, (12, len(names))),
        "weights": weights,
        "biases": rng.dirichlet(np.ones(space.size), len(names)),
        "sizes": {**dict.fromkeys(teachers, 1200), "global": 55},
        "noise": {},
        "before": {name: scored(space, skills[0], k) for k, name in enumerate(tests)},
        "after": {name: scored(space, skills[1], k) for k, name in enumerate(tests)},
        "options": {
            "loss": "sinkhorn", "weights": "confidence", "epsilon": None, "memory": True,
            "epochs": 12, "rate": 0.001, "batch": 64, "temperature": 1.0, "decimals": None,
            "privacy_epsilon": None, "inputs": 40, "noise": 200, "seed": 0,
        },
        "resumed": 0,
        "excluded": {},
        "status": "2 of 2 teachers answered everything.",
        "predictor": lambda inputs: inputs,
        "rounds": 6,
        "bytes_sent": 120_000,
        "bytes_received": 340_000,
        "seconds": 1.25,
        "disclosure": "record",
    }  # fmt: skip
    return Distillation(**{**filled, **fields})


@pytest.mark.heavy
def test_every_section_is_there_when_its_data_are() -> None:
    page = Page(render(distillation(excluded={"far": "prediction-nan"})))
    sections = [
        "before-and-after", "class-by-class", "who-taught", "teachers-that-took-no-part",
        "how-it-was-learnt", "the-labels", "cost", "what-was-disclosed", "how-to-read-this",
    ]  # fmt: skip
    assert page.sections == sections
    assert [str(link["href"]) for link in page.all("a")] == [f"#{name}" for name in sections]
    bare = Page(render(distillation(tests=(), biases=None)))
    assert bare.sections == [
        "who-taught",
        "how-it-was-learnt",
        "the-labels",
        "cost",
        "what-was-disclosed",
        "how-to-read-this",
    ]
    assert "the quality of the model is not known" in bare.text
    assert "Biases" not in bare.text


@pytest.mark.heavy
def test_scores_of_before_and_after_are_those_of_the_result() -> None:
    found = distillation()
    page = Page(render(found))
    for name, new in found.after.items():
        old = found.before[name]
        assert (
            f"{name} {new.records} {old.macro_f1:.3f} → {new.macro_f1:.3f} "
            f"{100 * old.accuracy:.1f} % → {100 * new.accuracy:.1f} % "
            f"{old.semantic_distance:.3f} → {new.semantic_distance:.3f}"
        ) in page.text
        for a, b in zip(old.per_class, new.per_class, strict=True):
            assert (
                f"{b.name} 30 {a.f1:.3f} → {b.f1:.3f} {100 * a.recall:.1f} % → "
                f"{100 * b.recall:.1f} % {a.distance:.3f} → {b.distance:.3f}"
            ) in page.text
    assert "2 teachers (north and south) taught one model, from 40 inputs" in page.text
    assert "The distance fell on 1 of 1 other test set." in page.text
    assert all(each.get("class") != "warning" for each in page.all("p"))


@pytest.mark.heavy
def test_a_model_that_got_worse_is_said_to_be() -> None:
    found = distillation(skills=(2.0, 0.2), losses=np.ones(12))
    page = Page(render(found))
    assert "On all and local the model is worse than before" in page.text
    assert "The loss did not decrease" in page.text
    assert "The distance fell on 0 of 1 other test set." in page.text


@pytest.mark.heavy
def test_teachers_have_their_weights_and_the_memory_has_no_records() -> None:
    found = distillation()
    text = Page(render(found)).text
    for name, row in zip(found.teachers[:2], found.weights, strict=False):
        told = f"{row.mean():.3f} {row.min():.3f} {row.max():.3f}"
        assert f"{name} 1,200 {told}" in text
    assert f"global (before training) – {found.weights[2].mean():.3f}" in text
    alone = distillation(options={**found.options, "memory": False}, teachers=("north",))
    text = Page(render(alone)).text
    assert "(before training)" not in text and "2 teachers (north and global)" in text


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("prediction-nan", "its predictions are not finite"),
        ("prediction-simplex", "its predictions are not probabilities"),
        ("prediction-labels", "it predicts the wrong number of labels"),
        ("labels-mismatch", "it has a label that is not in the label space, or one twice"),
        ("holder-timeout", "it did not answer in time"),
        ("policy-level", "its policy does not allow this disclosure level"),
        ("strange-code", "it could not answer"),
    ],
)
def test_who_took_no_part_has_a_reason(code: str, words: str) -> None:
    text = Page(render(distillation(excluded={"far": code}, tests=()))).text
    assert f"far took no part: {words} ({code})." in text and f"far {words}. {code}" in text


@pytest.mark.heavy
def test_disclosure_and_noise_are_stated() -> None:
    text = Page(render(distillation(tests=()))).text
    assert "whether a teacher was trained on a certain record" in text
    assert "The inputs of the transfer set, and random inputs" in text
    assert "6 120 kB 340 kB 1.25 s" in text
    noisy = distillation(disclosure="private", privacy_mu=0.5, noise={"north": 0.75, "south": 0.1})
    text = Page(render(noisy)).text
    assert "The noise is larger than the predictions of north." in text
    assert "mu 0.5000" in text and "is limited" in text and "may show" not in text


@pytest.mark.heavy
def test_boxes_are_of_coordinates_on_a_line_and_of_distances_elsewhere() -> None:
    drawn = svgs(Page(render(distillation())))
    assert "expected coordinate" in drawn[0] and "the class itself" in drawn[0]
    flat = LabelSpace.preset("emotion")
    page = Page(render(distillation(flat)))
    drawn = svgs(page)
    assert "distance of the expected label" in drawn[0] and "expected coordinate" not in drawn[0]
    assert "axis 1 axis 2 anger \N{MINUS SIGN}0.4 0.8" in page.text


@pytest.mark.parametrize("line", [True, False])
def test_boxes_are_drawn_at_the_quantiles(line: bool) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    each = scored(STARS, 1.0, 0).per_class[2]
    wanted = each.expected_quantiles[:, 0] if line else each.distance_quantiles
    _boxes(axes, [_quantiles(each, line)], np.array([3.0]), "black")
    drawn = np.concatenate([np.asarray(line.get_ydata()) for line in axes.lines])
    assert set(drawn[np.isfinite(drawn)].tolist()) == set(wanted.tolist())
    low, high = axes.patches[0].get_extents().transformed(axes.transData.inverted()).intervaly
    np.testing.assert_allclose([low, high], [wanted[1], wanted[3]], rtol=1e-9)


@pytest.mark.heavy
def test_classes_without_records_and_many_labels_can_be_drawn() -> None:
    many = LabelSpace.one_hot([f"a rather long label, number {k}" for k in range(20)])
    page = Page(render(distillation(many, tests=[f"t{k}" for k in range(8)])))
    assert len(svgs(page)) == 2 * 6 + 1
    assert "2 more test sets: see the table of scores." in page.text
    assert "14 more axes are left out" in page.text
    absent = {"all": scored(STARS, 1.0, 0, absent=[1])}
    text = Page(render(distillation(before=absent, after=absent))).text
    assert "Grey rows have no records." in text


@pytest.mark.heavy
@pytest.mark.parametrize("count", [1, 7, 60])
def test_a_report_can_be_read_without_seeing_it_and_loads_nothing(count: int) -> None:
    names = ["<i>$x</i>", *(f"teacher {k}" for k in range(count - 1))]
    found = distillation(teachers=names, tests=["<b>$a$</b>"], resumed=5)
    page = Page(text := render(found))
    assert not addresses(text)
    assert page.all("i") == [] and page.all("b") == [] and page.all("script") == []
    assert all(image["alt"] for image in page.all("img"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head.get("scope") in ("col", "row") for head in page.all("th"))
    assert "left of the dotted line come from the checkpoint" in page.text
    assert text == render(found)


@pytest.mark.heavy
def test_a_report_is_written_whole(tmp_path: Path) -> None:
    found = distillation()
    write(tmp_path / "a.html", found)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == render(found)
    assert [item.name for item in tmp_path.iterdir()] == ["a.html"]
