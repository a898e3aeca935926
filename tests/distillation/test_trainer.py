"""Training on predictions: the loss that is meant, and the same numbers whatever happens."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from silot.distillation import LabelSpace
from silot.distillation.fitting import module_predict
from silot.distillation.modules import parameters_of
from silot.distillation.options import Training
from silot.distillation.trainer import FILE, Epoch, train
from silot.errors import FileError, InputError, MismatchError, SilotError, SolverError

from .training import LAST, LINE, fitted, problem, student

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def drawn_from_a_seed() -> Iterator[None]:
    """First parameters of modules are the same in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        yield


def same(one: nn.Module, other: nn.Module) -> bool:
    left, right = parameters_of(one), parameters_of(other)
    return all(np.array_equal(left[name], right[name]) for name in left)


def code(call: Any) -> str:
    with pytest.raises(SilotError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("loss", ["sinkhorn", "entropy"])
def test_the_first_loss_is_the_weighted_sum_over_teachers(loss: Any) -> None:
    x, outputs, weights = problem()
    model = nn.Linear(3, 5)
    p = module_predict(model, x)
    if loss == "sinkhorn":
        each = np.abs(np.cumsum(p - outputs, axis=2)).sum(axis=2)
    else:
        each = (outputs * np.log(outputs / p)).sum(axis=2)
    found = train(model, x, outputs, weights, LINE, loss=loss, epochs=1, batch=len(x))
    assert found.losses[0] == pytest.approx((weights * each).sum(axis=0).mean(), rel=1e-5)
    np.testing.assert_allclose(found.by_teacher[0], each.mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("space", "loss"),
    [
        (LINE, "sinkhorn"),
        (LabelSpace.preset("emotion"), "sinkhorn"),
        (LabelSpace.one_hot(5), "sinkhorn"),
        (LINE, "entropy"),
    ],
)
def test_a_student_of_one_teacher_becomes_like_it(space: LabelSpace, loss: Any) -> None:
    x, outputs, _ = problem(teachers=1)
    model = nn.Linear(3, 5)
    before = np.abs(module_predict(model, x) - outputs[0]).mean()
    weights = np.ones((1, len(x)))
    train(model, x, outputs, weights, space, loss=loss, epochs=80, rate=0.05, batch=120)
    assert np.abs(module_predict(model, x) - outputs[0]).mean() < 0.5 * before


@pytest.mark.parametrize("space", [LINE, LabelSpace.preset("emotion")])
def test_with_epsilon_the_loss_falls_too(space: LabelSpace) -> None:
    x, outputs, weights = problem(inputs=40)
    options: dict[str, Any] = {"epsilon": 0.2, "epochs": 10, "rate": 0.05}
    found = train(nn.Linear(3, 5), x, outputs, weights, space, **options)
    assert found.losses[-1] < 0.95 * found.losses[0]


def test_a_teacher_without_weight_has_no_say() -> None:
    x, outputs, weights = problem()
    weights[1] = 0.0
    weights /= weights.sum(axis=0)
    other = outputs.copy()
    other[1] = np.eye(5)[0]
    models = student(), student()
    for model, taught in zip(models, (outputs, other), strict=True):
        train(model, x, taught, weights, LINE, epochs=2)
    assert same(*models)


def test_the_same_seed_gives_the_same_model_and_another_one_another() -> None:
    models = [student() for _ in range(3)]
    found = [fitted(model, 3, seed=seed) for model, seed in zip(models, (3, 3, 4), strict=True)]
    assert same(models[0], models[1])
    np.testing.assert_array_equal(found[0].losses, found[1].losses)
    assert not same(models[0], models[2])
    assert not models[0].training


def test_the_random_numbers_of_others_stay_as_they_were() -> None:
    before = torch.random.get_rng_state()
    fitted(student(), 1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_model_ends_in_single_precision_and_frozen_parts_stay() -> None:
    model = student().double()
    model[0].requires_grad_(False)  # pyright: ignore[reportArgumentType]
    before = {name: array.astype(np.float32) for name, array in parameters_of(model).items()}
    fitted(model, 2)
    after = parameters_of(model)
    assert all(array.dtype in (np.float32, np.int64) for array in after.values())
    np.testing.assert_array_equal(after["0.weight"], before["0.weight"])
    assert not np.array_equal(after["4.weight"], before["4.weight"])


def test_texts_go_through_encode() -> None:
    class Lengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def encode(self, inputs: Any) -> torch.Tensor:
            assert isinstance(inputs, list)
            return torch.tensor([[float(len(text))] for text in inputs])

        def forward(self, lengths: torch.Tensor) -> torch.Tensor:
            return self.layer(lengths)

    texts = ["a", "bbbbbb"] * 20
    outputs = np.eye(2)[[len(text) // 4 for text in texts]][None]
    model = Lengths()
    space = LabelSpace([0.0, 1.0])
    options: dict[str, Any] = {"loss": "entropy", "epochs": 60, "rate": 0.1}
    train(model, tuple(texts), outputs, np.ones((1, 40)), space, **options)
    assert module_predict(model, ["c", "dddddd"]).argmax(axis=1).tolist() == [0, 1]


# Stopping and going on


class StoppedError(Exception):
    pass


def stop_at(epoch: int) -> Any:
    def tell(done: Epoch) -> None:
        if done.epoch == epoch:
            raise StoppedError

    return tell


@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path, at: int) -> None:
    whole, halted, resumed = student(), student(), student()
    expected = fitted(whole, 5)
    with pytest.raises(StoppedError):
        fitted(halted, 5, checkpoint=tmp_path, progress=stop_at(at))
    told: list[int] = []
    found = fitted(resumed, 5, checkpoint=tmp_path, progress=lambda e: told.append(e.epoch))
    assert same(whole, resumed)
    np.testing.assert_array_equal(found.losses, expected.losses)
    np.testing.assert_array_equal(found.by_teacher, expected.by_teacher)
    assert found.resumed == at
    assert told == list(range(at + 1, 6))


@pytest.mark.heavy
def test_a_process_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    epochs = 20
    assert 3 < LAST < epochs
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.distillation.training", str(tmp_path), str(epochs)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as told:
        while told.readline().strip() != "3":
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        last = max([3, *map(int, told.read().split())])
    whole, resumed = student(), student()
    expected = fitted(whole, epochs)
    again: list[int] = []
    found = fitted(resumed, epochs, checkpoint=tmp_path, progress=lambda e: again.append(e.epoch))
    # It may have been killed between writing an epoch and telling of it.
    assert found.resumed in (last, last + 1)
    assert found.resumed < epochs
    assert again == list(range(found.resumed + 1, epochs + 1))
    assert same(whole, resumed)
    np.testing.assert_array_equal(found.losses, expected.losses)


def test_a_finished_run_is_read_and_may_be_made_longer(tmp_path: Path) -> None:
    first, again, longer, whole = (student() for _ in range(4))
    fitted(first, 3, checkpoint=tmp_path)
    assert fitted(again, 3, checkpoint=tmp_path).resumed == 3
    assert same(first, again)
    assert fitted(longer, 5, checkpoint=tmp_path).resumed == 3
    fitted(whole, 5)
    assert same(longer, whole)
    assert code(lambda: fitted(student(), 3, checkpoint=tmp_path)) == "checkpoint-mismatch"


@pytest.mark.parametrize(
    "changed",
    [{"seed": 4}, {"rate": 0.02}, {"batch": 16}, {"loss": "entropy"}, {"epsilon": 0.1}],
)
def test_a_checkpoint_of_other_options_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    fitted(student(), 1, checkpoint=tmp_path)
    data = (tmp_path / FILE).read_bytes()
    assert code(lambda: fitted(student(), 2, checkpoint=tmp_path, **changed)) == (
        "checkpoint-mismatch"
    )
    assert (tmp_path / FILE).read_bytes() == data


def test_a_checkpoint_of_other_data_or_another_model_is_refused(tmp_path: Path) -> None:
    x, outputs, weights = problem()
    options: dict[str, Any] = {"epochs": 2, "checkpoint": tmp_path}
    train(student(), x, outputs, weights, LINE, **options)
    space = LabelSpace(LINE.coordinates[::-1].copy())
    smaller = nn.Linear(3, 5)
    frozen = student()
    frozen[0].requires_grad_(False)  # pyright: ignore[reportArgumentType]
    for given in (
        (student(), x + 1e-12, outputs, weights, LINE),
        (student(), x, outputs[::-1], weights, LINE),
        (student(), x, outputs, weights[::-1], LINE),
        (student(), x, outputs, weights, space),
        (student(1), x, outputs, weights, LINE),
        (smaller, x, outputs, weights, LINE),
        (frozen, x, outputs, weights, LINE),
    ):
        call = lambda given=given: train(*given, **options)  # noqa: E731
        assert code(call) == "checkpoint-mismatch"
    assert train(student(), x, outputs, weights, LINE, **options).resumed == 2


def test_a_damaged_checkpoint_is_never_gone_on_with(tmp_path: Path) -> None:
    fitted(student(), 2, checkpoint=tmp_path)
    data = (tmp_path / FILE).read_bytes()
    draw = np.random.default_rng(0)
    broken = [data[:size] for size in (0, 1, 100, len(data) // 2, len(data) - 1)]
    broken += [b"no zip at all", data + data]
    for place in draw.integers(len(data), size=40).tolist():
        changed = bytearray(data)
        changed[place] ^= 0xFF
        broken.append(bytes(changed))
    whole = student()
    fitted(whole, 3)
    refused = 0
    for each in broken:
        (tmp_path / FILE).write_bytes(each)
        model = student()
        try:
            fitted(model, 3, checkpoint=tmp_path)
        except (FileError, MismatchError) as error:
            assert error.code in ("checkpoint-broken", "checkpoint-mismatch")
            refused += 1
            continue
        # Bytes that mean nothing, such as a date, may differ.
        assert same(model, whole)
    assert refused > len(broken) / 2


def test_a_checkpoint_is_for_its_owner_and_leaves_nothing_else_behind(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "folder"
    fitted(student(), 2, checkpoint=place)
    assert [each.name for each in place.iterdir()] == [FILE]
    assert (place / FILE).stat().st_mode & 0o077 == 0
    (tmp_path / "file").write_text("x")
    assert code(lambda: fitted(student(), 1, checkpoint=tmp_path / "file")) == "file-unwritable"


# What cannot be trained on


def test_training_that_diverges_ends_in_an_error_and_keeps_the_last_good_epoch(
    tmp_path: Path,
) -> None:
    class Breaking(nn.Module):
        """Gives numbers that are not finite from a certain batch on."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 5)
            self.left = 6

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.left -= 1
            return self.layer(x) * (1.0 if self.left >= 0 else float("nan"))

    with pytest.raises(SolverError) as caught:
        fitted(Breaking(), 5, checkpoint=tmp_path)
    assert caught.value.code == "training-diverged"
    assert "epoch 2" in caught.value.message
    with np.load(tmp_path / FILE) as file:
        assert file["array.losses"].shape == (1,)


class Edge(nn.Module):
    """Its first step has a finite loss, and a gradient that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.extra = nn.Linear(3, 5), nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + 0.0 * torch.sqrt(self.extra)


def test_a_step_that_breaks_the_parameters_is_found_after_the_last_batch() -> None:
    x, outputs, weights = problem()
    call = lambda: train(Edge(), x, outputs, weights, LINE, epochs=1, batch=500)  # noqa: E731
    assert code(call) == "training-diverged"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"loss": "mse"}, "option-loss"),
        ({"epochs": 0}, "option-epochs"),
        ({"rate": 0.0}, "option-rate"),
        ({"rate": np.nan}, "option-rate"),
        ({"rate": 1e39}, "option-rate"),
        ({"batch": 0}, "option-batch"),
        ({"seed": -1}, "option-seed"),
        ({"epsilon": 0.0}, "option-epsilon"),
        ({"epsilon": 0.1, "loss": "entropy"}, "option-epsilon"),
    ],
)
def test_options_are_checked(options: dict[str, Any], expected: str) -> None:
    epochs = options.pop("epochs", 1)
    assert code(lambda: fitted(student(), epochs, **options)) == expected


def test_options_may_be_given_as_one_object() -> None:
    x, outputs, weights = problem()
    models = [student() for _ in range(2)]
    train(models[0], x, outputs, weights, LINE, epochs=2, rate=0.01, loss="entropy")
    train(models[1], x, outputs, weights, LINE, Training(epochs=2, rate=0.01, loss="entropy"))
    assert same(*models)
    assert code(lambda: fitted(student(), 1, losses="entropy")) == "option-unknown"


def test_shapes_and_simplices_are_checked() -> None:
    x, outputs, weights = problem()
    nan, half = outputs.copy(), weights * 0.5
    nan[0, 0, 0] = np.nan
    for given, expected in (
        ((x[:-1], outputs, weights), "prediction-shape"),
        ((x, outputs[0], weights), "prediction-shape"),
        ((x, outputs[:, :, :4], weights), "prediction-shape"),
        ((x, outputs, weights.T), "weights-shape"),
        ((x, nan, weights), "prediction-simplex"),
        ((x, outputs * 1.1, weights), "prediction-simplex"),
        ((x, outputs * 0 + np.array([1.1, -0.1, 0, 0, 0]), weights), "prediction-simplex"),
        ((x, outputs, half), "weights-sum"),
        ((x, outputs, np.where(weights > 0.9, np.nan, np.nan)), "weights-sum"),
        ((["text"] * len(x), outputs, weights), "input-kind"),
    ):
        call = lambda given=given: train(nn.Linear(3, 5), *given, LINE, epochs=1)  # noqa: E731
        assert code(call) == expected
    frozen = nn.Linear(3, 5).requires_grad_(False)
    for model, expected in ((nn.Linear(3, 4), "logits-shape"), (frozen, "parameters-frozen")):
        call = lambda m=model: train(m, x, outputs, weights, LINE, epochs=1)  # noqa: E731
        assert code(call) == expected
    with pytest.raises(InputError):
        train(nn.Linear(3, 5), "one text", outputs, weights, LINE)
