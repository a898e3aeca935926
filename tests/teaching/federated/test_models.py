"""Models train, and are nothing but their description and one vector."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import InputError, MismatchError, SilotError, WireError
from silot.teaching.federated import (
    ModelSpec,
    cross_predictions,
    initial,
    probabilities,
    train,
)
from tests.tiers import examples

SPECS = [
    ModelSpec("logistic", (6,), 3),
    ModelSpec("mlp", (6,), 3, hidden=(16,)),
    ModelSpec("mlp", (6,), 2, hidden=(8, 8)),
    ModelSpec("cnn", (16, 16), 3),
    ModelSpec("cnn", (16, 18, 2), 2, hidden=(12,)),
]


def clouds(spec: ModelSpec, records: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes around centres far apart."""
    rng = np.random.default_rng(seed)
    codes = np.arange(records) % spec.classes
    centres = np.random.default_rng(7).choice([-1.0, 1.0], (spec.classes, spec.inputs))
    return centres[codes] + 0.3 * rng.normal(size=(records, spec.inputs)), codes


def needs(spec: ModelSpec) -> None:
    if spec.kind == "cnn":
        pytest.importorskip("torch", reason="silot[torch] is not installed")


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.classes}")
def test_training_separates_what_can_be_separated(spec: ModelSpec) -> None:
    needs(spec)
    x, y = clouds(spec)
    new, truth = clouds(spec, seed=1)
    start = initial(spec, 0)
    found = train(spec, start, x, y, iterations=150, rate=0.05, momentum=0.9)
    assert found.shape == (spec.size,)
    assert found.dtype == np.float64
    assert (probabilities(spec, found, new).argmax(axis=1) != truth).mean() < 0.05
    assert (probabilities(spec, start, new).argmax(axis=1) != truth).mean() > 0.2


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.classes}")
def test_probabilities_are_probabilities(spec: ModelSpec) -> None:
    needs(spec)
    told = probabilities(spec, 3.0 * initial(spec, 1), clouds(spec)[0])
    assert told.shape == (60, spec.classes)
    np.testing.assert_allclose(told.sum(axis=1), 1.0, atol=1e-12)
    assert (told >= 0).all()


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.classes}")
def test_the_same_arguments_give_the_same_parameters(spec: ModelSpec) -> None:
    needs(spec)
    x, y = clouds(spec)
    first = train(spec, initial(spec, 3), x, y, iterations=12, seed=5, momentum=0.5)
    results: list[np.ndarray] = []
    np.random.seed(1)  # noqa: NPY002 - to show that it does not matter
    work = [
        threading.Thread(
            target=lambda: results.append(
                train(spec, initial(spec, 3), x, y, iterations=12, seed=5, momentum=0.5)
            )
        )
        for _ in range(3)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(results) == 3
    for found in results:
        np.testing.assert_array_equal(found, first)
    other = train(spec, initial(spec, 3), x, y, iterations=12, seed=6, momentum=0.5)
    assert not np.array_equal(other, first)


def test_torch_keeps_its_own_random_state_and_threads() -> None:
    torch = pytest.importorskip("torch", reason="silot[torch] is not installed")
    spec = SPECS[3]
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    train(spec, initial(spec, 0), *clouds(spec), iterations=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_step_is_that_of_gradient_descent_with_momentum() -> None:
    # Two steps of multinomial regression, by hand.
    spec = ModelSpec("logistic", (2,), 3)
    x, y = np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([0, 2])
    truth = np.eye(3)[y]
    weights, bias = np.zeros((2, 3)), np.zeros(3)
    speed_w, speed_b = 0.0, 0.0
    for _ in range(2):
        scores = np.exp(x @ weights + bias)
        gap = scores / scores.sum(axis=1, keepdims=True) - truth
        speed_w = 0.5 * speed_w - 0.1 * x.T @ gap / 2
        speed_b = 0.5 * speed_b - 0.1 * gap.mean(axis=0)
        weights, bias = weights + speed_w, bias + speed_b
    found = train(spec, initial(spec, 0), x, y, iterations=2, batch=2, rate=0.1, momentum=0.5)
    np.testing.assert_allclose(found, np.concatenate([weights.ravel(), bias]), atol=1e-12)


def test_the_cnn_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="silot[torch] is not installed")
    spec = ModelSpec("cnn", (28, 28), 10, centre=0.5, scale=2.0)
    assert spec.size == 21840
    parts = spec.split(initial(spec, 4))
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 10, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(),
        torch.nn.Conv2d(10, 20, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(320, 50), torch.nn.ReLU(),
        torch.nn.Linear(50, 10), torch.nn.Softmax(dim=1),
    )  # fmt: skip
    layers = [layer for layer in net if hasattr(layer, "weight")]
    x = np.random.default_rng(0).uniform(size=(5, 784))
    with torch.no_grad():
        for layer, (weights, bias) in zip(layers, parts, strict=True):
            given = weights.T if weights.ndim == 2 else weights
            layer.weight.copy_(torch.tensor(given))
            layer.bias.copy_(torch.tensor(bias))
        told = net(torch.tensor((x - 0.5) / 2.0).float().reshape(5, 1, 28, 28)).numpy()
    np.testing.assert_allclose(probabilities(spec, initial(spec, 4), x), told, atol=1e-5)


def test_channels_of_an_image_come_last() -> None:
    pytest.importorskip("torch", reason="silot[torch] is not installed")
    spec = ModelSpec("cnn", (16, 16, 2), 2)
    parameters = initial(spec, 0)
    # A network that does not look at the second channel.
    spec.split(parameters)[0][0][:, 1] = 0.0
    images = np.random.default_rng(0).normal(size=(4, 16, 16, 2))
    changed = images.copy()
    changed[..., 1] += 5.0
    same = [probabilities(spec, parameters, k.reshape(4, -1)) for k in (images, changed)]
    np.testing.assert_array_equal(*same)
    changed[..., 0] += 5.0
    other = probabilities(spec, parameters, changed.reshape(4, -1))
    assert not np.allclose(other, same[0])


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.classes}")
def test_a_description_survives_as_text(spec: ModelSpec) -> None:
    assert ModelSpec.from_text(spec.to_text()) == spec


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    classes=st.integers(2, 6),
    hidden=st.lists(st.integers(1, 9), max_size=3),
    seed=st.integers(0, 2**40),
)
def test_parameters_split_into_layers_and_back(
    shape: list[int], classes: int, hidden: list[int], seed: int
) -> None:
    spec = ModelSpec("mlp", tuple(shape), classes, hidden=tuple(hidden))
    found = initial(spec, seed)
    parts = [np.concatenate([w.ravel(), b]) for w, b in spec.split(found)]
    np.testing.assert_array_equal(np.concatenate(parts), found)
    np.testing.assert_array_equal(found, initial(spec, seed))


@settings(max_examples=examples(25), deadline=None)
@given(
    records=st.integers(1, 40),
    batch=st.integers(1, 50),
    iterations=st.integers(1, 30),
    classes=st.integers(2, 5),
    seed=st.integers(0, 1000),
)
def test_any_batch_and_any_classes_seen_will_do(
    records: int, batch: int, iterations: int, classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    spec = ModelSpec("mlp", (3,), classes, hidden=(4,))
    x, y = rng.normal(size=(records, 3)), rng.integers(0, classes, records)
    found = train(spec, initial(spec, 0), x, y, iterations=iterations, batch=batch)
    assert np.isfinite(found).all()


@pytest.mark.heavy
def test_the_error_of_what_was_held_out_is_honest() -> None:
    # Labels without any relation to the records: nothing can be learnt, only memorised.
    rng = np.random.default_rng(0)
    spec = ModelSpec("mlp", (20,), 2, hidden=(64,))
    x, y = rng.normal(size=(60, 20)), rng.integers(0, 2, 60)
    start = initial(spec, 0)
    found = train(spec, start, x, y, iterations=1500, rate=0.1, momentum=0.9)
    held_out = cross_predictions(
        spec, start, x, y, folds=3, iterations=1500, rate=0.1, momentum=0.9
    )
    assert (probabilities(spec, found, x).argmax(axis=1) != y).mean() < 0.05
    assert 0.3 < (held_out.argmax(axis=1) != y).mean() < 0.7


def test_passes_raise_the_number_of_steps() -> None:
    spec = SPECS[0]
    x, y = clouds(spec)
    by_passes = train(spec, initial(spec, 0), x, y, iterations=1, passes=2.0, batch=10)
    by_steps = train(spec, initial(spec, 0), x, y, iterations=12, batch=10)
    np.testing.assert_array_equal(by_passes, by_steps)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "forest"}, "model-kind"),
        ({"shape": ()}, "model-shape"),
        ({"shape": (0,)}, "model-shape"),
        ({"classes": 1}, "model-shape"),
        ({"hidden": (0,)}, "model-shape"),
        ({"kind": "logistic", "hidden": (3,)}, "model-shape"),
        ({"kind": "cnn", "shape": (8, 8)}, "model-shape"),
        ({"kind": "cnn", "shape": (28,)}, "model-shape"),
        ({"scale": 0.0}, "model-scale"),
        ({"centre": float("nan")}, "model-scale"),
        ({"hidden": (1 << 20, 1 << 20)}, "model-size"),
    ],
)
def test_a_description_of_no_model_is_refused(fields: dict[str, object], code: str) -> None:
    with pytest.raises(InputError) as caught:
        ModelSpec(**({"kind": "mlp", "shape": (4,), "classes": 2} | fields))  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": "mlp"}', SPECS[0].to_text().replace("[6]", '"6"'), "NaN"],
)
def test_a_text_that_describes_no_model_is_refused(text: str) -> None:
    with pytest.raises((WireError, InputError)) as caught:
        ModelSpec.from_text(text)
    assert caught.value.code in ("model-text", "model-shape")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"points": np.zeros((2, 5))}, "dimension-mismatch"),
        ({"points": np.full((2, 6), np.nan)}, "measure-nan"),
        ({"codes": [0]}, "labels-shape"),
        ({"codes": [0.0, 1.0]}, "labels-shape"),
        ({"codes": [0, 3]}, "labels-range"),
        ({"codes": [0, -1]}, "labels-range"),
        ({"parameters": np.zeros(3)}, "model-parameters"),
        ({"parameters": np.full(21, np.inf)}, "model-parameters"),
        ({"rate": 0.0}, "option-training"),
        ({"momentum": 1.0}, "option-training"),
        ({"passes": -1.0}, "option-training"),
        ({"batch": 0}, "option-batch"),
        ({"iterations": -1}, "option-iterations"),
        ({"seed": -1}, "option-seed"),
    ],
)
def test_bad_arguments_of_training_are_refused(change: dict[str, object], code: str) -> None:
    spec = SPECS[0]
    given = {"parameters": np.zeros(21), "points": np.zeros((2, 6)), "codes": [0, 1]} | change
    with pytest.raises((InputError, MismatchError)) as caught:
        train(spec, **given)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize("spec", [SPECS[1], SPECS[3]], ids=lambda s: s.kind)
def test_training_that_diverges_says_so(spec: ModelSpec) -> None:
    needs(spec)
    x, y = clouds(spec)
    with pytest.raises(SilotError) as caught:
        train(spec, initial(spec, 0), 1e6 * x, y, iterations=200, rate=1e6)
    assert caught.value.code == "training-diverged"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "silot.teaching.federated._network", raising=False)
    spec = SPECS[3]
    with pytest.raises(SilotError) as caught:
        probabilities(spec, initial(spec, 0), np.zeros((1, 256)))
    assert caught.value.code == "extra-torch"
    assert "silot[torch]" in str(caught.value)
