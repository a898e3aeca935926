"""Distillation from end to end: a model, teachers that may fail, and a folder to go on from."""

import inspect
import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import silot
from silot import Policy
from silot.api import Distill
from silot.distillation import LabelSpace, Teacher, Training
from silot.distillation.fitting import module_predict
from silot.distillation.job import check_tests
from silot.distillation.modules import parameters_of
from silot.distillation.questions import Predict, PredictNoise
from silot.distillation.result import Distillation
from silot.distillation.weights import teacher_weights
from silot.errors import (
    FileError,
    HolderError,
    InputError,
    MismatchError,
    SilotError,
    SolverError,
)
from silot.federation import Answer, LocalFederation
from silot.options import declared
from silot.privacy import Ledger, mu_of

from ..serving import Distant, model

SPACE = LabelSpace([-1.0, 0.0, 1.0], names=["low", "middle", "high"])
X = np.random.default_rng(0).normal(size=(96, 2)) * 2
Y = model(X).argmax(axis=1)
QUICK: dict[str, Any] = {"labels": SPACE, "epochs": 12, "rate": 0.05, "batch": 32, "noise": 64}


def fresh(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))


def backwards(x: Any) -> np.ndarray:
    return model(-x)


def run(teachers: Any = None, start: nn.Module | None = None, **options: Any) -> Distillation:
    given = QUICK | options
    if given.get("weights", "confidence") != "confidence":
        given.pop("noise")
    inputs = given.pop("inputs", X)
    known = {"one": model, "two": Teacher(model, size=30)} if teachers is None else teachers
    return silot.distill(fresh() if start is None else start, known, inputs, **given)


def same(one: nn.Module, other: nn.Module) -> bool:
    left, right = parameters_of(one), parameters_of(other)
    return all(np.array_equal(left[name], right[name]) for name in left)


@pytest.mark.heavy
def test_a_student_learns_what_the_teachers_know_and_the_original_stays() -> None:
    start, before = fresh(), parameters_of(fresh())
    found = run(
        start=start, memory=False, test={"far": (X * 2, Y), "near": (X, np.array(SPACE.names)[Y])}
    )
    assert all(np.array_equal(before[name], array) for name, array in parameters_of(start).items())
    assert found.losses[-1] < 0.3 * found.losses[0]
    assert found.after["near"].accuracy > 0.85
    assert found.after["near"].accuracy > found.before["near"].accuracy
    assert found.after["far"].semantic_distance < found.before["far"].semantic_distance
    np.testing.assert_array_equal(found.predict_proba(X), module_predict(found.model, X))
    assert found.predict([[-9.0, 0.0], [9.0, 0.0]]).tolist() == ["low", "high"]
    assert found.teachers == ("one", "two")
    assert found.disclosure == "record"
    assert found.rounds > 1
    assert found.bytes_received > 0
    told = json.loads(found.to_json())
    assert told["weights"]["one"]["mean"] == pytest.approx(0.5)
    assert told["sizes"] == {"one": None, "two": 30}
    assert told["after"]["near"]["accuracy"] == found.after["near"].accuracy
    assert "2 of 2" in told["status"]
    assert "near: accuracy" in repr(found)


def test_the_model_of_before_is_one_more_teacher() -> None:
    start = fresh()
    found = run(start=start, noise=X[:10], temperature=2.0)
    assert found.teachers == ("one", "two", "global")
    assert found.sizes == {"one": None, "two": 30, "global": 30}
    own = module_predict(start, X) ** 0.5
    own /= own.sum(axis=1, keepdims=True)
    noise = module_predict(start, X[:10]) ** 0.5
    noise /= noise.sum(axis=1, keepdims=True)
    assert found.biases is not None
    np.testing.assert_allclose(found.biases[2], noise.mean(axis=0))
    raised = model(X) ** 0.5
    raised /= raised.sum(axis=1, keepdims=True)
    outputs = np.stack([raised, raised, own])
    expected = teacher_weights(outputs, biases=found.biases)
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)


def test_only_memory_keeps_what_the_model_knew() -> None:
    """W1 follows the weighted median: with more weight than the rest, memory has its way."""
    knows = run({"one": model}, memory=False).model
    other = {"odd": Teacher(backwards, size=10)}
    options: dict[str, Any] = {"start": knows, "weights": "size", "test": (X, Y)}
    forgets = run(other, memory=False, **options).after["test"].accuracy
    keeps = run(other, memory_size=30, **options).after["test"].accuracy
    assert keeps > 0.8
    assert forgets < 0.2


@pytest.mark.parametrize("weights", ["confidence", "uniform", "size", "uniform-distance"])
def test_weights_are_those_asked_for(weights: Any) -> None:
    teachers = {"a": Teacher(model, size=30), "b": Teacher(backwards, size=10)}
    found = run(teachers, weights=weights, weight_cap=None, memory_size=60, epochs=1)
    np.testing.assert_allclose(found.weights.sum(axis=0), 1.0)
    assert (found.biases is None) == (weights != "confidence")
    if weights == "size":
        np.testing.assert_allclose(found.weights, np.repeat([[0.3], [0.1], [0.6]], len(X), axis=1))
    if weights == "uniform":
        np.testing.assert_allclose(found.weights, 1 / 3)
    assert found.transcript is not None
    asked = [e.open() for e in found.transcript.entries if e.direction == "sent"]
    rows = sum(len(each.vectors) for each in asked if isinstance(each, Predict))
    assert rows == 2 * (len(X) + (64 if weights == "confidence" else 0))


def test_teachers_may_be_modules_functions_a_sequence_or_a_federation() -> None:
    known = [fresh(3), fresh(4)]
    modules = run(known, epochs=2)
    assert modules.teachers == ("0", "1", "global")
    named = {str(k): (lambda x, m=m: module_predict(m, x)) for k, m in enumerate(known)}
    assert same(modules.model, run(named, epochs=2).model)
    federation = LocalFederation({name: Teacher(each) for name, each in named.items()})
    assert same(modules.model, run(federation, epochs=2).model)
    shared = run(known, epochs=2, shared=True)
    assert same(modules.model, shared.model)
    assert shared.bytes_sent < modules.bytes_sent
    backwards_named = dict(reversed(list(named.items())))
    assert same(modules.model, run(backwards_named, epochs=2).model)


def test_texts_have_noise_of_their_own_words() -> None:
    seen: list[str] = []

    def teacher(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.full((len(texts), 3), 1 / 3)

    class Lengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 3)  # not scored: its first parameters do not matter

        def encode(self, inputs: Any) -> torch.Tensor:
            return torch.tensor([[float(len(text))] for text in inputs])

        def forward(self, lengths: torch.Tensor) -> torch.Tensor:
            return self.layer(lengths)

    pairs = ["a dog\tan animal", "two men\tnobody"] * 8
    found = run({"t": teacher}, start=Lengths(), inputs=pairs, noise=20, epochs=1)
    assert sorted(text for text in seen if text in pairs) == sorted(pairs)
    words = {word for text in pairs for word in text.replace("\t", " ").split()}
    unmeant = [text for text in seen if text not in pairs]
    assert len(unmeant) == 20
    for text in unmeant:
        assert text.count("\t") == 1
        assert set(text.replace("\t", " ").split()) <= words
    assert found.options["noise"] == 20


def test_a_teacher_of_few_inputs_a_question_is_asked_in_small_batches() -> None:
    teachers = {"slow": Teacher(model, most_inputs=10), "one": model}
    assert run(teachers, epochs=1).excluded == {"slow": "batch-large"}
    found = run(teachers, epochs=1, question_batch=10)
    assert found.excluded == {}
    assert found.rounds == 1 + 16


def test_without_torch_the_error_names_what_to_install() -> None:
    text = """
import sys, numpy
sys.modules["torch"] = None
import silot
try:
    silot.distill(None, [lambda x: x], [[0.0]], labels=silot.distillation.LabelSpace([0.0, 1.0]))
except silot.errors.ExtraError as error:
    print(error.code, "silot[torch]" in error.message)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["extra-torch", "True"]


def test_silot_alone_does_not_load_torch() -> None:
    text = "import sys, silot, silot.distillation; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_same_seed_same_model() -> None:
    assert same(run(epochs=2).model, run(epochs=2).model)
    assert not same(run(epochs=2).model, run(epochs=2, seed=1).model)


# Teachers that fail


def nans(x: Any) -> np.ndarray:
    return np.full((len(x), 3), np.nan)


def logits(x: Any) -> np.ndarray:
    return np.ones((len(x), 3))


def four(x: Any) -> np.ndarray:
    return np.full((len(x), 4), 0.25)


def raises(x: Any) -> np.ndarray:
    raise ValueError("patient 4711")


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (nans, "prediction-nan"),
        (logits, "prediction-simplex"),
        (four, "prediction-labels"),
        (raises, "holder-raised"),
        (Teacher(model, policy=Policy()), "policy-level"),
    ],
)
def test_a_bad_teacher_is_named_and_changes_nothing(bad: Any, code: str) -> None:
    found = run({"good": model, "bad": bad}, epochs=2)
    assert found.excluded == {"bad": code}
    assert "'bad'" in found.status
    assert "patient" not in found.to_json()
    assert same(found.model, run({"good": model}, epochs=2).model)
    with pytest.raises(HolderError) as caught:
        run({"good": model, "bad": bad}, epochs=2, min_teachers=2)
    assert caught.value.code == "teachers-few"


def test_a_teacher_killed_in_the_run_is_named_and_the_model_is_that_of_the_others() -> None:
    dying = Distant(after=1)
    try:
        found = run({"dying": dying, "good": model}, epochs=2)
    finally:
        dying.close()
    assert dying.process.returncode == -signal.SIGKILL
    assert found.excluded == {"dying": "holder-raised"}
    assert same(found.model, run({"good": model}, epochs=2).model)


def test_noise_costs_privacy_and_only_once(tmp_path: Path) -> None:
    ledger = Ledger()
    policy = Policy(level="private", privacy_epsilon=2.0)
    teacher = Teacher(model, policy=policy, ledger=ledger, parts=500)
    found = run({"t": teacher}, privacy_epsilon=2.0, epochs=2)
    assert ledger.spent == pytest.approx(mu_of(2.0, 1e-5))
    assert found.privacy_mu == pytest.approx(ledger.spent)
    assert found.disclosure == "private"
    assert 0 < found.noise["t"] < 0.1
    assert run({"t": teacher}, privacy_epsilon=2.0, epochs=2).privacy_mu == 0.0
    with pytest.raises(HolderError, match="budget"):
        run({"t": teacher}, privacy_epsilon=1.0, epochs=2)


# Going on


class StoppedError(Exception):
    pass


def test_nobody_is_asked_twice_and_no_epoch_trained_twice(tmp_path: Path) -> None:
    calls: list[int] = []

    def counting(x: Any) -> np.ndarray:
        calls.append(len(x))
        return model(x)

    def stop(done: Any) -> None:
        if getattr(done, "epoch", 0) == 3:
            raise StoppedError

    teachers = {"t": counting, "bad": nans}
    whole = run(teachers, epochs=5)
    calls.clear()
    with pytest.raises(StoppedError):
        run(teachers, epochs=5, checkpoint=tmp_path, progress=stop)
    assert sum(calls) == len(X) + 64
    told: list[Any] = []
    found = run(teachers, epochs=5, checkpoint=tmp_path, progress=told.append)
    assert sum(calls) == len(X) + 64
    assert [each.epoch for each in told] == [4, 5]
    assert same(found.model, whole.model)
    np.testing.assert_array_equal(found.losses, whole.losses)
    assert found.resumed == 3
    assert found.excluded == whole.excluded == {"bad": "prediction-nan"}
    assert found.cost.bytes_received == whole.cost.bytes_received
    assert found.transcript is None
    assert found.disclosure == "record"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    run(epochs=1, checkpoint=tmp_path)
    for changed in (
        {"temperature": 2.0}, {"seed": 1}, {"rate": 0.01}, {"inputs": X[1:]}, {"memory": False},
        {"noise": 65}, {"start": fresh(1)}, {"teachers": {"one": model}}, {"weights": "uniform"},
    ):  # fmt: skip
        with pytest.raises(SilotError) as caught:
            run(**({"epochs": 1, "checkpoint": tmp_path} | changed))
        assert caught.value.code == "checkpoint-mismatch", changed
    assert run(epochs=1, checkpoint=tmp_path).resumed == 1
    for name in ("predictions.npz", "training.npz"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(FileError) as broken:
            run(epochs=1, checkpoint=tmp_path)
        assert broken.value.code == "checkpoint-broken"
        (tmp_path / name).write_bytes(data)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"labels": [0, 1, 2]}, "label-coordinates"),
        ({"labels": LabelSpace([0.0, 1.0])}, "model-labels"),
        ({"loss": "mse"}, "option-loss"),
        ({"weights": "mine"}, "option-weights"),
        ({"epochs": 0}, "option-epochs"),
        ({"rate": 0.0}, "option-rate"),
        ({"seed": -1}, "option-seed"),
        ({"noise": 0}, "option-noise"),
        ({"noise": ["a"]}, "noise-dimension"),
        ({"memory": 1}, "option-memory"),
        ({"memory_size": 0}, "option-size"),
        ({"temperature": 0.0}, "option-temperature"),
        ({"teachers": {"global": model}}, "holder-names"),
        ({"teachers": {}}, "holder-names"),
        ({"teachers": "abc"}, "holder-names"),
        ({"teachers": 3}, "holder-names"),
        ({"teachers": {"a": 3}}, "teacher-model"),
        ({"teachers": LocalFederation({"a": Teacher(model)}), "timeout": 3.0}, "option-timeout"),
        ({"test": (X, Y[1:])}, "test-labels"),
        ({"test": (X, Y + 1)}, "test-labels"),
        ({"test": (X, np.full(len(X), "other"))}, "test-labels"),
        ({"test": (X, Y * 0.3)}, "test-labels"),
        ({"test": {"t": X}}, "test-labels"),
        ({"inputs": [[np.nan, 0.0]]}, "measure-nan"),
    ],
)
def test_everything_is_checked_before_anybody_is_asked(options: dict[str, Any], code: str) -> None:
    asked: list[int] = []

    def listening(x: Any) -> np.ndarray:
        asked.append(1)
        return model(x)

    with pytest.raises(InputError) as caught:
        run(**({"teachers": {"t": listening}} | options))
    assert caught.value.code == code
    assert not asked


def test_noise_is_not_taken_where_it_has_no_use() -> None:
    with pytest.raises(InputError) as caught:
        silot.distill(fresh(), [model], X, labels=SPACE, weights="uniform", noise=9)
    assert caught.value.code == "option-noise"


def test_training_that_diverges_is_an_error() -> None:
    class Broken(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) * (float("nan") if self.training else 1.0)

    with pytest.raises(SolverError) as caught:
        run(start=Broken(2, 3))
    assert caught.value.code == "training-diverged"


def test_answers_of_a_run_hold_nothing_but_probabilities() -> None:
    found = run(epochs=1, test=(X, Y))
    assert found.transcript is not None
    allowed = {"probabilities", "mean"}
    for entry in found.transcript.entries:
        opened = entry.open()
        if isinstance(opened, Answer):
            assert set(opened.arrays) <= allowed
            assert set(opened.scalars) <= {"parts", "size"}


def test_whole_numbers_are_names_where_names_are_numbers() -> None:
    stars = LabelSpace([-1.0, 0.0, 1.0], names=["1", "2", "3"])
    for labels in (["1", "3", "2"], [1, 3, 2], [1.0, 3.0, 2.0]):
        found = check_tests({"a": (X[:3], labels)}, stars)
        assert found["a"][1].values.tolist() == [0, 2, 1]
    with pytest.raises(MismatchError) as caught:
        check_tests({"a": (X[:3], [0, 1, 2])}, stars)
    assert caught.value.code == "test-labels"


def test_a_class_a_test_set_lacks_decides_nothing() -> None:
    stars = LabelSpace([-1.0, 0.0, 1.0], names=["1", "2", "3"])
    # These were taken for names as long as no 0 was among them.
    with pytest.raises(InputError, match=r"labels\.coded") as caught:
        check_tests({"a": (X[:3], [1, 2, 1])}, stars)
    assert caught.value.code == "test-labels"
    for labels, rows in ((["1", "2", "1"], [0, 1, 0]), (stars.coded([1, 2, 1]), [1, 2, 1])):
        assert check_tests({"a": (X[:3], labels)}, stars)["a"][1].values.tolist() == rows
    whole = run(epochs=2, test=(X, Y)).after["test"]
    part = run(epochs=2, test=(X[Y > 0], Y[Y > 0])).after["test"]
    assert [each.to_dict() for each in part.per_class] == [
        each.to_dict() | {"f1": now.f1}
        for each, now in zip(whole.per_class[1:], part.per_class, strict=True)
    ]
    with pytest.raises(MismatchError, match="another label space"):
        check_tests({"a": (X[:3], stars.coded([0, 1, 2]))}, SPACE)


def test_a_checkpoint_knows_its_teachers(tmp_path: Path) -> None:
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    run({"a": first, "b": model}, epochs=1, checkpoint=tmp_path)
    run({"a": first, "b": model}, epochs=2, checkpoint=tmp_path)
    for teachers, options in (
        ({"a": second, "b": model}, {}),
        ({"a": first, "b": Teacher(model, policy=Policy())}, {}),
        ({"a": first, "b": model}, {"min_teachers": 2}),
    ):
        with pytest.raises(MismatchError) as caught:
            run(teachers, epochs=1, checkpoint=tmp_path, **options)
        assert caught.value.code == "checkpoint-mismatch"


def test_one_input_left_over_does_not_break_batch_norm() -> None:
    normed = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 3))
    found = run({"a": model}, normed, batch=len(X) - 1, epochs=1)
    assert np.isfinite(found.losses).all()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"start": model}, "model-kind"),
        ({"noise": 1.5}, "option-noise"),
        ({"epsilon": 1e-5}, "option-epsilon"),
        ({"memory": False, "memory_size": 3}, "option-size"),
    ],
)
def test_wrong_kinds_have_codes(options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        run({"a": model}, **options)
    assert caught.value.code == code


def test_options_may_be_given_as_one_object() -> None:
    options: dict[str, Any] = {"loss": "entropy", "decimals": 2, "memory": False, "noise": 64}
    named = run(epochs=2, **options)
    found = silot.distill(
        fresh(), {"one": model, "two": Teacher(model, size=30)}, X,
        Distill(epochs=2, rate=0.05, batch=32, **options), labels=SPACE,
    )  # fmt: skip
    assert same(found.model, named.model)
    assert found.options == named.options
    for how, more in ((Distill(), {"epochs": 2}), (Training(), {}), ({"epochs": 2}, {})):
        with pytest.raises(InputError) as caught:
            silot.distill(fresh(), [model], X, how, labels=SPACE, **more)  # type: ignore[arg-type]
        assert caught.value.code == "option-object" and "Distill" in caught.value.message


def test_every_option_is_shown_and_no_other_is_taken() -> None:
    shown = inspect.signature(silot.distill).parameters
    text = silot.distill.__doc__ or ""
    for item in declared(Distill):
        assert shown[item.name].default == item.default
        assert f"{item.name} : {item.check.words}" in text
    assert "options" not in shown
    assert text.index("progress") < text.index("loss : ") < text.index("Returns")
    with pytest.raises(InputError) as caught:
        run(losses="sinkhorn")
    assert caught.value.code == "option-unknown" and "it takes loss, " in caught.value.message


LIES = ("turned", "constant", "random", "next")


def lied(lie: str, points: np.ndarray) -> np.ndarray:
    """What liars say, all of them the same."""
    told = {
        "turned": 4 - line_truth(points),
        "constant": np.zeros(len(points), int),
        "random": np.random.default_rng(7).integers(5, size=len(points)),
        "next": np.minimum(line_truth(points) + 1, 4),
    }[lie]
    return np.eye(5)[told]


def line_truth(points: np.ndarray) -> np.ndarray:
    return np.digitize(points[:, 0] + points[:, 1], [-1.5, -0.5, 0.5, 1.5])


def honest(seed: int) -> Any:
    off = np.random.default_rng(seed).normal(size=2) * 0.1

    def told(points: np.ndarray) -> np.ndarray:
        return 0.8 * np.eye(5)[line_truth(points + off)] + 0.04

    return told


def line_score(teachers: dict[str, Any], **options: Any) -> Distillation:
    """A student of ordered labels, and how good it is."""
    rng = np.random.default_rng(3)
    space = LabelSpace([-2.0, -1.0, 0.0, 1.0, 2.0])
    x, far = rng.normal(size=(600, 2)), rng.normal(size=(800, 2))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        start = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 5))
    return silot.distill(
        start, teachers, x, labels=space, memory=False, epochs=25, rate=0.02, noise=200,
        test=(far, space.coded(line_truth(far))), **options,
    )  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("teachers", "liars"), [(3, 1), (5, 2), (10, 4)])
def test_fewer_than_half_of_the_teachers_may_lie(lie: str, teachers: int, liars: int) -> None:
    good = {str(k): honest(k) for k in range(teachers)}
    bad = good | {str(k): partial(lied, lie) for k in range(liars)}
    clean, found = line_score(good), line_score(bad, robust=True)
    assert clean.after["test"].accuracy > 0.8
    assert found.after["test"].accuracy >= clean.after["test"].accuracy - 0.03
    assert not found.weights[:liars].any()
    assert "Too far from the majority to count: 0" in found.status
    # Without liars what others know is hardly lost.
    kept = line_score(good, robust=True)
    assert kept.after["test"].accuracy >= clean.after["test"].accuracy - 0.03


def test_a_teacher_cannot_gain_weight_by_what_it_says_of_noise() -> None:
    """One of five names a label for every input, and would name the opposite one for noise."""

    class Liar(Teacher):
        def _compute(self, question: Any) -> Answer:
            if isinstance(question, PredictNoise):
                return Answer({"mean": np.eye(5)[4]})
            return super()._compute(question)

    teachers: dict[str, Any] = {str(k): honest(k) for k in range(5)}
    clean = line_score(teachers).after["test"].accuracy
    teachers["0"] = Liar(lambda points: np.eye(5)[np.zeros(len(points), int)])
    found = line_score(teachers)
    assert found.weights[0].max() < 0.01
    assert found.after["test"].accuracy >= clean - 0.03
    # Where it knows what is noise, the cap holds.
    outputs = np.stack([np.tile(np.eye(5)[0], (9, 1)), *np.full((4, 9, 5), 0.2)])
    outputs[1:] = 0.8 * np.eye(5)[np.arange(9) % 5] + 0.04
    biases = np.stack([np.eye(5)[4], *np.full((4, 5), 0.2)])
    assert teacher_weights(outputs, biases=biases)[0].min() > 0.32
    assert teacher_weights(outputs, biases=biases, cap=1.5)[0].mean() <= 0.3 + 1e-12
