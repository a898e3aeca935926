"""Weights and losses that validation records choose."""

from typing import Any

import numpy as np
import pytest

from silot import distill
from silot.distillation import LabelSpace
from silot.distillation.result import Trial
from silot.distillation.weights import best_weights, choose_student, compare, cross_validated
from silot.errors import SilotError
from tests.lazily import package

torch = package("torch")

SPACE = LabelSpace([0.0, 1.0, 2.0], names=["low", "middle", "high"])


def records(n: int, seed: int) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return x, np.digitize(x[:, 0], [-0.5, 0.5])


def teacher(edges: tuple[float, float], *, turned: bool = False) -> Any:
    def predict(x: Any) -> Any:
        codes = np.digitize(x[:, 0], edges)
        return 0.9 * np.eye(3)[2 - codes if turned else codes] + 0.1 / 3

    return predict


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def test_weights_are_those_of_least_brier_score_on_a_grid() -> None:
    rng = np.random.default_rng(0)
    shown = rng.dirichlet(np.ones(3), size=(2, 4000))
    codes = rng.integers(3, size=4000)
    shown[0] = 0.7 * shown[0] + 0.3 * np.eye(3)[codes]
    weights = best_weights(shown, codes)
    grid = np.linspace(0, 1, 1001)
    scores = [
        ((a * shown[0] + (1 - a) * shown[1] - np.eye(3)[codes]) ** 2).sum(1).mean() for a in grid
    ]
    # Weights are drawn to even ones, by little where records are many.
    assert weights[0] == pytest.approx(grid[int(np.argmin(scores))], abs=0.03)
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
    mixed = cross_validated(shown, codes)
    assert mixed.shape == (4000, 3)
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0)


def test_a_liar_counts_for_nothing_and_the_student_beats_what_it_learnt_from_blindly() -> None:
    x, _ = records(400, 1)
    shown, truth = records(200, 2)
    new, codes = records(400, 3)
    right, wrong = teacher((-0.5, 0.5)), teacher((-0.5, 0.5), turned=True)
    result = distill(
        model(), {"right": right, "liar": wrong, "second": wrong}, x, labels=SPACE, memory=False,
        epochs=30, rate=0.02, validation=(shown, SPACE.coded(truth)),
        test=(new, SPACE.coded(codes)),
    )  # fmt: skip
    assert result.options["weights"] == "validation"
    assert result.weights[result.teachers.index("right")].mean() > 0.9
    assert result.after["test"].accuracy > 0.9
    assert "validation records" in result.status
    kinds = {trial.what for trial in result.trials}
    assert kinds == {"teacher", "mixture", "student"}
    body = result.to_dict()["trials"]
    assert all(set(row) == {"what", "name", "score", "accuracy"} for row in body)


def test_what_is_fixed_stays_and_only_it_is_tried() -> None:
    x, _ = records(100, 1)
    shown, truth = records(60, 2)
    result = distill(
        model(), {"a": teacher((-0.5, 0.5)), "b": teacher((-0.4, 0.6))}, x, labels=SPACE,
        memory=False, epochs=2, loss="entropy", weights="uniform", robust=False,
        validation=(shown, SPACE.coded(truth)),
    )  # fmt: skip
    assert [t.name for t in result.trials if t.what == "student"] == ["entropy"]
    assert [t.name for t in result.trials if t.what == "mixture"] == ["uniform"]
    np.testing.assert_allclose(result.weights, 0.5)


def test_a_student_is_changed_only_for_one_that_is_clearly_better() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=500)
    noisy = np.eye(3)[codes] * 0.4 + 0.2
    trials = [
        Trial.of("student", "entropy", noisy, codes),
        Trial.of("student", "same", noisy + rng.normal(size=noisy.shape) * 1e-3, codes),
        Trial.of("student", "better", np.eye(3)[codes] * 0.7 + 0.1, codes),
    ]
    assert choose_student(trials[:2]) in (0, 1)
    assert choose_student(trials[:1]) == 0
    assert choose_student(trials) == 2
    assert choose_student(trials[::-1]) == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"weights": "validation"}, "validation-absent"),
        ({"validation": 5, "shared": True}, "option-validation"),
        ({"validation": 5, "privacy_epsilon": 1.0}, "option-validation"),
        ({"validation": 5}, "option-validation"),
        ({"validation": "texts"}, "input-dimension"),
    ],
)
def test_validation_that_cannot_be_is_refused(options: dict[str, Any], code: str) -> None:
    x, _ = records(50, 1)
    if options.get("validation") == 5:
        shown, truth = records(30 if len(options) > 1 else 5, 2)
        options = {**options, "validation": (shown, SPACE.coded(truth))}
    elif "validation" in options:
        options = {"validation": (["a"] * 30, SPACE.coded([0] * 30))}
    with pytest.raises(SilotError) as error:
        distill(model(), {"a": teacher((0.0, 1.0))}, x, labels=SPACE, memory=False, **options)
    assert error.value.code == code


def test_a_checkpoint_keeps_every_student(tmp_path: Any) -> None:
    x, _ = records(100, 1)
    shown, truth = records(60, 2)
    options: dict[str, Any] = {
        "labels": SPACE, "memory": False, "epochs": 3, "rate": 0.01, "checkpoint": tmp_path,
        "validation": (shown, SPACE.coded(truth)),
    }  # fmt: skip
    teachers = {"a": teacher((-0.5, 0.5)), "b": teacher((-0.4, 0.6))}
    first = distill(model(), teachers, x, **options)
    again = distill(model(), teachers, x, **options)
    assert again.resumed == 3 and first.options["loss"] == again.options["loss"]
    np.testing.assert_array_equal(again.losses, first.losses)


def _predictions(rng: np.random.Generator, codes: Any, skill: float) -> Any:
    scores = rng.normal(size=(len(codes), 3))
    scores[np.arange(len(codes)), codes] += skill
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("skill", "word", "least", "most"), [
    (1.0, "worse", 0.0, 0.07), (1.0, "better", 0.0, 0.05), (1.6, "better", 0.7, 1.0),
    (0.4, "worse", 0.7, 1.0),
])  # fmt: skip
def test_sentences_are_false_as_seldom_as_they_say_and_find_what_is_planted(
    skill: float, word: str, least: float, most: float
) -> None:
    """Eight teachers alike: the best of them on these records looks better than it is."""
    rng, draws, said = np.random.default_rng(5), 200, 0
    for _ in range(draws):
        codes = rng.integers(3, size=200)
        others = [
            Trial.of(what, str(k), _predictions(rng, codes, 1.0), codes)
            for what, number in (("teacher", 8), ("mixture", 1))
            for k in range(number)
        ]
        student = Trial.of("student", "entropy", _predictions(rng, codes, skill), codes)
        said += f"{word} than the best teacher" in compare([*others, student])
    assert least <= said / draws <= most
