"""Modules and estimators of the user's own: trained, averaged, saved, read."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import silot
from silot.data.measure import Measure
from silot.errors import SilotError
from silot.federation.party import Holder, Policy
from silot.teaching.federated import Model, ModelSpec
from silot.teaching.federated.registry import register
from tests.lazily import package

torch = package("torch")
sklearn = package("sklearn.linear_model")
neural = package("sklearn.neural_network")
ensemble = package("sklearn.ensemble")


def parts(classes: int = 3, holders: int = 3, seed: int = 0) -> dict[str, Measure]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120 * holders, 4))
    codes = np.argmax(x[:, :classes] + 0.1 * rng.normal(size=(len(x), classes)), axis=1)
    y = np.array(["a", "b", "c"])[codes]
    return {f"h{k}": Measure(x[k::holders], labels=y[k::holders]) for k in range(holders)}


def module(classes: int = 3, *, norm: bool = False) -> Any:
    nn = torch.nn
    torch.manual_seed(3)
    body = [nn.Linear(4, 16), *([nn.BatchNorm1d(16)] if norm else []), nn.ReLU()]
    return nn.Sequential(*body, nn.Linear(16, classes))


def test_an_average_of_modules_is_the_one_computed_by_hand() -> None:
    """One step of full batches at each holder from the user's weights, and their mean."""
    data, own = parts(holders=2), module()
    models = silot.train(
        data, model=own, rounds=1, batch=120, rate=0.1, momentum=0.0, held_out=0.0, alone=False
    )
    nn = torch.nn
    steps: list[Any] = []
    centre, scale = np.array(models.spec.centre), np.array(models.spec.scale)
    for measure in data.values():
        copy = module()
        x = torch.tensor((measure.points - centre) / scale, dtype=torch.float32)
        codes = np.searchsorted(models.classes, cast("Any", measure.names))
        loss = nn.functional.cross_entropy(copy(x), torch.from_numpy(codes))
        loss.backward()
        with torch.no_grad():
            steps.append([p - 0.1 * p.grad for p in copy.parameters()])
    mean = module()
    with torch.no_grad():
        for parameter, *moved in zip(mean.parameters(), *steps, strict=True):
            parameter.copy_(sum(moved) / 2)
        x = torch.tensor((data["h0"].points - centre) / scale, dtype=torch.float32)
        expected = torch.softmax(mean(x), 1).numpy()
    np.testing.assert_allclose(models.predict_proba("h0", data["h0"].points), expected, atol=1e-5)
    # The module given stays as it was.
    assert all((p == q).all() for p, q in zip(own.parameters(), module().parameters(), strict=True))


ESTIMATORS = [
    lambda: sklearn.SGDClassifier(loss="log_loss"),
    lambda: sklearn.LogisticRegression(C=3.0),
    lambda: sklearn.RidgeClassifier(),
    lambda: neural.MLPClassifier((8,), learning_rate_init=0.03),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("build", ESTIMATORS)
def test_estimators_learn_together(build: Any, classes: int) -> None:
    data = parts(classes)
    estimator = build()
    models = silot.train(data, model=estimator, rounds=8, passes=5.0)
    assert models.spec.kind.startswith("sklearn:")
    assert models.spec == ModelSpec.from_text(models.spec.to_text())
    accuracy = models.accuracy
    assert accuracy is not None and accuracy > 0.75
    assert not hasattr(estimator, "coef_") and not hasattr(estimator, "coefs_")


def test_a_mean_of_equal_holders_is_the_estimator_itself() -> None:
    measure = parts(holders=1)["h0"]
    data = {"a": measure, "b": measure}
    models = silot.train(
        data, model=sklearn.LogisticRegression(tol=1e-8), rounds=2, held_out=0.0, alone=False
    )
    scaled = (measure.points - np.array(models.spec.centre)) / np.array(models.spec.scale)
    alone = sklearn.LogisticRegression(tol=1e-8).fit(scaled, measure.names)
    np.testing.assert_allclose(
        models.predict_proba("a", measure.points), alone.predict_proba(scaled), atol=1e-4
    )


@pytest.mark.parametrize("present", [("a",), ("a", "c")])
@pytest.mark.parametrize("build", ESTIMATORS)
def test_a_holder_that_lacks_classes_keeps_the_shared_rows(build: Any, present: Any) -> None:
    data = parts()
    rows = np.isin(cast("Any", data["h1"].names), present)
    data["h1"] = Measure(data["h1"].points[rows], labels=cast("Any", data["h1"].names)[rows])
    models = silot.train(data, model=build(), rounds=4, passes=3.0)
    assert models.accuracy is not None and models.accuracy > 0.5


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "fedrep"])
def test_models_that_were_saved_predict_the_same(tmp_path: Path, algorithm: str) -> None:
    data, place = parts(), tmp_path / "models.npz"
    models = silot.train(data, model=module(norm=True), rounds=3, algorithm=algorithm)
    models.save(place)
    records = None if algorithm == "fedavg" else data["h1"]
    read = Model.load(place, "h1", module=module(norm=True), records=records)
    expected = models.predict_proba("h1", data["h2"].points, records)
    np.testing.assert_array_equal(read.predict_proba(data["h2"].points), expected)
    assert (
        read.predict(data["h2"].points).tolist()
        == models.predict("h1", data["h2"].points, records).tolist()
    )
    for name, more, code in [
        ("h1", {"records": records}, "model-module"),
        ("h9", {"module": module(norm=True), "records": records}, "model-name"),
        *([] if records is None else [("h1", {"module": module(norm=True)}, "model-head")]),
    ]:
        with pytest.raises(SilotError) as error:
            Model.load(place, name, **cast("Any", more))
        assert error.value.code == code


def test_a_damaged_file_of_models_has_a_code(tmp_path: Path) -> None:
    place = tmp_path / "model.npz"
    silot.train(parts(), model="logistic", rounds=1).model("h0").save(place)
    assert Model.load(place).classes == ("a", "b", "c")
    whole = place.read_bytes()
    for broken in (whole[:200], b"", b"PK" + whole[2:400]):
        place.write_bytes(broken)
        with pytest.raises(SilotError) as error:
            Model.load(place)
        assert error.value.code == "file-unreadable"


def test_devices_adapt_with_a_model_of_ones_own() -> None:
    data = parts()
    data["t"] = Measure(data["h0"].points + 0.01, labels=np.full(120, ""))
    result = silot.adapt(data, model=module(), iterations=200, rate=0.05)
    predicted = result.predict("t", data["h0"].points)
    assert (predicted == data["h0"].names).mean() > 0.7


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: ensemble.RandomForestClassifier(), "model-estimator"),
        (lambda: sklearn.LinearRegression(), "model-estimator"),
        (lambda: torch.nn.Linear(4, 2), "model-outputs"),
        (lambda: torch.nn.Linear(9, 3), "model-outputs"),
        (lambda: torch.nn.ReLU(), "model-outputs"),
        (lambda: 3, "model-kind"),
        (lambda: sklearn.SGDClassifier, "model-kind"),
        (lambda: neural.MLPClassifier((100_000, 100_000)), "model-size"),
        (lambda: neural.MLPClassifier(10**9), "model-size"),
        (lambda: neural.MLPClassifier(early_stopping=True), "model-estimator"),
        (lambda: sklearn.SGDClassifier(alpha=-1.0), "model-estimator"),
        (lambda: "sklearn:RandomForestClassifier", "model-kind"),
        (lambda: "os:system", "model-kind"),
    ],
)
def test_what_is_no_model_has_a_code(build: Any, code: str) -> None:
    with pytest.raises(SilotError) as error:
        silot.train(parts(), model=build(), rounds=1)
    assert error.value.code == code


def test_a_module_in_double_precision_is_trained_in_single() -> None:
    models = silot.train(parts(), model=module().double(), rounds=5, rate=0.05)
    assert models.accuracy is not None and models.accuracy > 0.6


def test_an_estimator_whose_weights_overflow_has_diverged() -> None:
    data = parts()
    with pytest.raises(SilotError) as error:
        silot.train(
            data, rounds=3, passes=5.0,
            model=sklearn.SGDClassifier(loss="squared_error", learning_rate="constant", eta0=9e5),
        )  # fmt: skip
    assert error.value.code == "training-diverged"


def test_a_site_that_lacks_a_module_says_so_and_runs_no_code() -> None:
    """A description names; what is not installed at a holder is refused there."""
    from silot.federation.answer import Failure
    from silot.teaching.questions import TrainAlone

    kind, settings = register(module())
    spec = ModelSpec(kind, (4,), 3, settings=settings)
    text = spec.to_text().replace(kind, "local:Sequential:0")
    holder = Holder(parts()["h0"], Policy.open())
    answer = holder.answer(TrainAlone(model=text, classes='["a","b","c"]'))
    assert isinstance(answer, Failure) and answer.code == "model-kind"
    text = ModelSpec("sklearn:SGDClassifier", (4,), 3, settings=(("alpha", 0.1),)).to_text()
    answer = holder.answer(TrainAlone(model=text.replace("0.1", '"x"'), classes='["a","b","c"]'))
    assert isinstance(answer, Failure)


def test_training_ends_where_accuracy_stays_and_keeps_the_best(tmp_path: Path) -> None:
    data = parts()
    models = silot.train(data, model=module(), rounds=200, rate=0.05, patience=3)
    curve = [entry["accuracy"] for entry in models.history]
    assert len(curve) < 150
    assert models.accuracy == max(curve)
    assert "the best on the records held out" in models.status
    assert all(set(entry["holders"]) == set(data) for entry in models.history)
    losses = [entry["loss"] for entry in models.history]
    assert losses[-1] < losses[0]


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """A run that is cut off after some rounds ends as one that was not."""
    data, place = parts(), tmp_path / "rounds.npz"
    options: dict[str, Any] = {"model": module(), "rounds": 6, "active": 2, "seed": 5}
    whole = silot.train(data, **options)
    rounds = 0

    class CutOffError(Exception):
        pass

    def stop(progress: Any) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 7:
            raise CutOffError

    with pytest.raises(CutOffError):
        silot.train(data, **options, checkpoint=place, progress=stop)
    with np.load(place) as file:
        assert len(file["meta"]) > 0
    resumed = silot.train(data, **options, checkpoint=place)
    np.testing.assert_array_equal(resumed.parameters[0], whole.parameters[0])
    assert resumed.history == whole.history and resumed.right == whole.right
    assert resumed.alone == whole.alone
    with pytest.raises(SilotError) as error:
        silot.train(data, **{**options, "rate": 0.5}, checkpoint=place)
    assert error.value.code == "checkpoint-mismatch"


def test_holders_go_on_by_themselves_where_that_helps() -> None:
    """Where classes mean something else at a holder, its own passes help it."""
    data = parts(holders=4)
    names = cast("Any", data["h3"].names)
    turned = np.select([names == "a", names == "b"], ["b", "c"], "a")
    data["h3"] = Measure(data["h3"].points, labels=turned)
    models = silot.train(data, model=module(), rounds=20, rate=0.05, personal_passes=30.0)
    own, shared = models.accuracies_personal["h3"], models.accuracies["h3"]
    assert own is not None and shared is not None and own > shared + 0.2
    assert models.best["h3"] in ("personal", "alone")
    personal = models.personal_model("h3", data["h3"])
    assert personal.accuracy(data["h3"]) > 0.7


def test_a_site_builds_what_its_packages_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point ``silot.models`` is a function of the shape and the number of classes."""
    from silot.teaching.federated import registry

    class Point:
        def load(self) -> Any:
            return lambda shape, classes: torch.nn.Linear(shape[0], classes)

    monkeypatch.setattr(registry, "_offered", lambda: {"ward-net": Point()})
    registry.architecture.cache_clear()
    models = silot.train(parts(), model="ward-net", rounds=5, rate=0.05)
    assert models.spec.kind == "ward-net" and models.spec.size == 15
    assert models.accuracy is not None and models.accuracy > 0.7
    registry.architecture.cache_clear()
