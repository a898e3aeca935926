"""Divergences between devices: known answers, bounds, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import norm

from silot import Measure, Policy
from silot.distances.sketches.sketch import sketches
from silot.errors import HolderError, InputError, MismatchError, RefusedError, SilotError, WireError
from silot.federation import Answer, Failure, Holder, LocalFederation, Question
from silot.federation.question import decode_question, encode_question
from silot.privacy.ledger import Ledger
from silot.teaching.divergences import (
    DIVERGENCES,
    Devices,
    _best_threshold,
    _leave_out,
    divergences,
)
from silot.teaching.federated import ModelSpec, initial, random_features
from silot.teaching.federated.modelling import codes_of
from silot.teaching.questions import (
    DomainErrors,
    DomainScores,
    MeanFeatures,
    Spread,
    TrainDomain,
)
from silot.teaching.result import Divergences
from tests.lazily import package
from tests.problems import seeds
from tests.saying import Saying
from tests.tiers import examples

ot = package("ot")

Array = np.ndarray
OPEN = Policy.open()
RNG = np.random.default_rng(7)
X = RNG.normal(size=(900, 2))
# Two devices of one law, one of it shifted, one far away; sizes differ.
DEVICES = {
    "one": Measure(X[:200]),
    "two": Measure(X[200:500]),
    "off": Measure(X[500:650] + np.array([1.0, 0.5])),
    "far": Measure(X[650:] + np.array([12.0, -9.0])),
}
NAMES = tuple(DEVICES)
PUBLIC = RNG.normal(size=(200, 2)) * [6.0, 5.0] + [4.0, -3.0]
QUICK: dict[str, dict[str, object]] = {
    "mmd": {},
    "classifier": {"rounds": 8, "rate": 0.05},
    "fedwad": {"support": 30, "rounds": 2},
    "trianglewad": {"support": 30},
    "sketch": {"public": PUBLIC, "privacy_epsilon": 8.0},
    "direct": {},
}


def run(devices: Mapping[str, object], method: str, **options: object) -> Divergences:
    federation = LocalFederation(devices)  # type: ignore[arg-type]
    return federation.run(divergences(list(devices), method=method, **options))


def random_measures(seed: int, *, d: int | None = None, least: int = 2) -> dict[str, Measure]:
    rng = np.random.default_rng(seed)
    d = d or int(rng.choice([1, 2, 5]))
    found = {}
    for name in "abc":
        n = int(rng.integers(least, 20))
        weights = None if rng.random() < 0.4 else rng.random(n) + 0.05
        if weights is not None and n > 3 and rng.random() < 0.5:
            weights[0] = 0.0
        found[name] = Measure(rng.normal(size=(n, d)) * rng.uniform(0.5, 2) + rng.normal(), weights)
    return found


class Dying(Holder):
    """A holder that answers so many questions, and then no more."""

    def __init__(self, measure: Measure, answers: int) -> None:
        super().__init__(measure, OPEN, Ledger())
        self.left = answers

    def reply(self, message: bytes, asker: str = "coordinator") -> bytes:
        if self.left == 0:
            raise KeyError("patient 4711")
        self.left -= 1
        return super().reply(message, asker)


# ---- every method -------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("method", DIVERGENCES)
def test_every_method_orders_near_and_far_and_says_what_it_disclosed(method: str) -> None:
    found = run(DEVICES, method, **QUICK[method])
    assert found.names == NAMES
    assert found.method == method
    values = found.values
    np.testing.assert_array_equal(values, values.T)
    assert (np.diag(values) == 0).all()
    # The fourth device is further from every other than these are from one another.
    assert values[3, :3].min() > values[:3, :3].max()
    assert found["one", "two"] < found["one", "off"]
    error = found.as_error()
    assert (np.diag(error) == 0).all() and error.min() >= 0 and error.max() <= 1
    assert error[3, :3].min() > 0.6
    assert found.disclosure == str(DIVERGENCES[method].disclosure)
    assert found.missing == {} and found.status
    assert found.bytes_sent > 0 and found.bytes_received > 0 and found.rounds >= 1
    protocol = divergences(NAMES, method=method, **QUICK[method])  # type: ignore[arg-type]
    assert found.rounds <= protocol.expected_rounds and protocol.holders == NAMES
    assert json.loads(found.to_json())["names"] == list(NAMES)


@pytest.mark.heavy
@pytest.mark.parametrize("method", [name for name in DIVERGENCES if name != "sketch"])
def test_the_order_of_devices_changes_nothing(method: str) -> None:
    turned = {name: DEVICES[name] for name in ("far", "two", "one", "off")}
    first, second = (run(k, method, **QUICK[method], seed=3) for k in (DEVICES, turned))
    place = [second.names.index(name) for name in first.names]
    np.testing.assert_array_equal(first.values, second.values[np.ix_(place, place)])
    for table in ("errors", "lower", "upper"):
        if getattr(first, table) is not None:
            other = getattr(second, table)[np.ix_(place, place)]
            np.testing.assert_array_equal(getattr(first, table), other)


@pytest.mark.heavy
@given(seeds)
def test_not_a_digit_depends_on_the_order_of_many_devices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = {f"d{k}": rng.normal(size=(12, 3)) * rng.uniform(0.1, 9) for k in range(9)}
    turned = {f"d{k}": devices[f"d{k}"] for k in rng.permutation(9)}
    first, second = (run(k, "mmd") for k in (devices, turned))
    place = [second.names.index(name) for name in first.names]
    np.testing.assert_array_equal(first.values, second.values[np.ix_(place, place)])
    assert first.scale == second.scale and first.details == second.details


@pytest.mark.heavy
@pytest.mark.parametrize("method", DIVERGENCES)
@pytest.mark.parametrize("answers", [0, 1])
def test_a_device_that_dies_is_named_and_the_others_go_on(method: str, answers: int) -> None:
    if method == "direct" and answers:
        pytest.skip("one question is all it asks")
    # As many records as the others: noise on the count of few may call them too few for a sketch.
    devices = {**DEVICES, "dead": Dying(Measure(X[:200]), answers)}
    found = run(devices, method, **QUICK[method])
    assert dict(found.missing) == {"dead": "holder-raised"}
    assert found.names == NAMES
    assert found.values.shape == (4, 4)
    assert "dead (holder-raised)" in found.status
    assert "patient" not in found.to_json()
    assert found.values[3, :3].min() > found.values[:3, :3].max()


@pytest.mark.parametrize("method", DIVERGENCES)
def test_too_few_devices_left_is_an_error_that_names_one(method: str) -> None:
    devices = {"one": DEVICES["one"], "dead": Dying(Measure(X[:40]), 0)}
    with pytest.raises(HolderError, match="'dead'"):
        run(devices, method, **QUICK[method])
    with pytest.raises(HolderError, match="'dead'"):
        run({**DEVICES, "dead": Dying(Measure(X[:40]), 0)}, method, quorum=5, **QUICK[method])


@pytest.mark.parametrize("method", ["mmd", "classifier", "fedwad", "direct"])
def test_devices_of_other_dimensions_are_refused_by_name(method: str) -> None:
    with pytest.raises(MismatchError) as caught:
        run({"a": X[:20], "b": X[:20, :1]}, method, **QUICK[method])
    assert caught.value.code == "dimension-mismatch"


@pytest.mark.parametrize("method", ["mmd", "classifier", "fedwad", "direct"])
def test_the_default_policy_answers_no_exact_question(method: str) -> None:
    holders = {k: Holder(measure, Policy(), Ledger()) for k, measure in DEVICES.items()}
    with pytest.raises(RefusedError) as caught:
        run(holders, method, **QUICK[method])
    assert caught.value.code == "policy-level"


def test_a_policy_that_names_statistics_answers_these_alone() -> None:
    kinds = ["spread", "mean-features"]
    rules = Policy(level="statistics", questions=frozenset(kinds))
    holders = {k: Holder(measure, rules) for k, measure in DEVICES.items()}
    found = run(holders, "mmd")
    assert found.disclosure == "statistics"
    np.testing.assert_array_equal(found.values, run(DEVICES, "mmd").values)
    for method in ("classifier", "fedwad", "trianglewad", "direct"):
        with pytest.raises(RefusedError) as caught:
            run(holders, method, **QUICK[method])
        assert caught.value.code in ("policy-level", "policy-question")


@pytest.mark.parametrize(
    ("holders", "options", "code"),
    [
        (["a", "b"], {"method": "mdm"}, "option-method"),
        (["a", "b"], {"method": "mmd", "directions": 3}, "option-unknown"),
        (["a"], {}, "holder-names"),
        (["a", "a"], {}, "holder-names"),
        (["a", "b"], {"quorum": 1}, "option-quorum"),
        (["a", "b"], {"quorum": 3}, "option-quorum"),
        (["a", "b"], {"seed": -1}, "option-seed"),
        (["a", "b"], {"seed": 2**63 - 1}, "option-seed"),
        (["a", "b"], {"features": 7}, "option-count"),
        (["a", "b"], {"bandwidth": 0.0}, "option-bandwidth"),
        (["a", "b"], {"bandwidth": float("nan")}, "option-bandwidth"),
        (["a", "b"], {"method": "classifier", "rounds": 0}, "option-rounds"),
        (["a", "b"], {"method": "classifier", "rate": 0.0}, "option-training"),
        (["a", "b"], {"method": "classifier", "model": "cnn"}, "option-model"),
        (["a", "b"], {"method": "classifier", "threshold": 0.5}, "option-threshold"),
        (["a", "b"], {"method": "classifier", "standardise": 1}, "option-standardise"),
        (["a", "b"], {"method": "fedwad", "support": 0}, "option-support"),
        (["a", "b"], {"method": "sketch", "public": PUBLIC, "p": 1}, "option-p"),
        (["a", "b"], {"method": "direct", "p": 3}, "option-p"),
    ],
)
def test_bad_options_are_refused_before_anything_is_asked(
    holders: list[str], options: dict[str, object], code: str
) -> None:
    with pytest.raises(InputError) as caught:
        divergences(holders, **options)  # type: ignore[arg-type]
    assert caught.value.code == code


# ---- mmd ----------------------------------------------------------------------------------


def gaussian_kernel_mean(shift: float, s: float, t: float, h: float, d: int) -> float:
    """Mean of the kernel of two spherical normal laws of deviations s and t, ``shift`` apart."""
    total = h**2 + s**2 + t**2
    return (h**2 / total) ** (d / 2) * float(np.exp(-(shift**2) / (2 * total)))


@pytest.mark.heavy
@pytest.mark.parametrize(("shift", "s", "t"), [(1.0, 1.0, 1.0), (0.0, 1.0, 3.0), (3.0, 0.5, 2.0)])
def test_mmd_of_normal_laws_is_the_closed_form(shift: float, s: float, t: float) -> None:
    rng, h, d = np.random.default_rng(11), 1.7, 3
    x, y = rng.normal(size=(6000, d)) * s, rng.normal(size=(3000, d)) * t
    y[:, 0] += shift
    found = run({"x": x, "y": y}, "mmd", bandwidth=h, features=4096)
    square = (
        gaussian_kernel_mean(0.0, s, s, h, d)
        + gaussian_kernel_mean(0.0, t, t, h, d)
        - 2.0 * gaussian_kernel_mean(shift, s, t, h, d)
    )
    assert found["x", "y"] == pytest.approx(square**0.5, rel=0.04)


@pytest.mark.heavy
def test_mmd_has_the_right_mean_for_tiny_samples_of_unequal_size() -> None:
    rng, h, d = np.random.default_rng(5), 1.0, 1
    squares = []
    for draw in range(400):
        x, y = rng.normal(size=(4, d)), rng.normal(size=(7, d)) + 6.0
        found = run({"x": x, "y": y}, "mmd", bandwidth=h, features=512, seed=draw)
        squares.append(found["x", "y"] ** 2)
    population = 2 * gaussian_kernel_mean(0, 1, 1, h, d) - 2 * gaussian_kernel_mean(6, 1, 1, h, d)
    error = float(np.std(squares)) / len(squares) ** 0.5
    assert abs(float(np.mean(squares)) - population) < 4 * error
    # Without the correction the mean would be off by far more than that.
    assert (1 - population / 2) * (1 / 4 + 1 / 7) > 10 * error


@given(seeds)
def test_mmd_leaves_out_the_pairs_of_a_record_with_itself(seed: int) -> None:
    devices = random_measures(seed)
    found = run(devices, "mmd", features=64, bandwidth=1.5, seed=seed)
    d = devices["a"].dimension
    omega = np.random.default_rng([seed, 3]).standard_normal((d, 32)) / 1.5

    def kernel(x: Array, y: Array) -> Array:
        return np.cos((x[:, None] - y[None]) @ omega).mean(axis=2)

    def inner(x: Measure, y: Measure) -> float:
        return float(x.weights @ kernel(x.points, y.points) @ y.weights)

    def apart(x: Measure) -> float:
        own = float((x.weights**2).sum())
        return inner(x, x) if own > 1 - 1e-9 else (inner(x, x) - own) / (1 - own)

    for a, b in combinations(devices, 2):
        x, y = devices[a], devices[b]
        square = apart(x) + apart(y) - 2 * inner(x, y)
        assert found[a, b] == pytest.approx(max(square, 0.0) ** 0.5, abs=1e-6)


def test_the_bandwidth_is_the_mean_squared_distance_of_all_records() -> None:
    devices = {"a": X[:100], "b": X[100:200] + 3.0}
    pooled = np.concatenate(list(devices.values()))
    squares = ((pooled[:, None] - pooled[None]) ** 2).sum(axis=2)
    found = run(devices, "mmd")
    assert found.details["bandwidth"] == pytest.approx(float(squares.mean()) ** 0.5)


def test_devices_that_all_have_one_and_the_same_record_are_not_apart() -> None:
    same = {"a": np.ones((30, 2)), "b": np.ones((50, 2))}
    for method in ("mmd", "classifier", "direct"):
        found = run(same, method, **QUICK[method])
        assert found["a", "b"] == pytest.approx(0.0, abs=1e-6)
        assert found.as_error()[0, 1] == pytest.approx(0.0, abs=1e-6)


# ---- questions ----------------------------------------------------------------------------


def about_domains(rows: int, **changes: object) -> dict[str, Any]:
    fields: dict[str, object] = {
        "model": ModelSpec("logistic", (2,), 2).to_text(),
        "parameters": np.tile([1.0, 0.5, 0.0], (rows, 1)),
        "sides": np.zeros(rows, dtype=np.int64),
        "centre": np.zeros(2),
        "scale": np.ones(2),
    }
    return {**fields, **changes}


@given(st.integers(1, 90), st.integers(1, 30))
def test_scores_are_no_more_than_the_records(records: int, rows: int) -> None:
    measure = Measure(X[:records])
    answer = Holder(measure, OPEN).answer(DomainScores(**about_domains(rows), quantiles=65))
    assert isinstance(answer, Answer)
    scores = answer.arrays["scores"]
    assert scores.shape == (rows, min(records, 65))
    # Averages over equal shares of the records: nothing is lost of their mean.
    np.testing.assert_allclose(scores.mean(axis=1), (measure.points @ [1.0, 0.5]).mean())


@pytest.mark.heavy
def test_a_classifier_runs_under_a_policy_that_lets_records_out() -> None:
    holders = {k: Holder(v, Policy(level="record")) for k, v in DEVICES.items()}
    found = run(holders, "classifier", rounds=20)
    open_ = run(DEVICES, "classifier", rounds=20)
    assert found.missing == {} and found.disclosure == "record"
    np.testing.assert_array_equal(found.values, open_.values)


@given(seeds)
def test_mean_features_are_the_mean_of_random_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    measure = Measure(rng.normal(size=(30, 3)), rng.random(30) + 0.1)
    question = MeanFeatures(features=16, bandwidth=1.3, seed=seed)
    answer = Holder(measure, OPEN).answer(question)
    assert isinstance(answer, Answer) and set(answer.scalars) == {"squares"}
    lifted = random_features(measure.points, features=16, bandwidth=1.3, seed=seed)
    np.testing.assert_allclose(answer.arrays["mean"], measure.weights @ lifted, atol=1e-14)


def test_mean_features_of_many_records_are_added_up_in_parts() -> None:
    x = np.random.default_rng(1).normal(size=(9000, 1))
    answer = Holder(Measure(x), OPEN).answer(MeanFeatures(features=4, bandwidth=1.0, seed=2))
    assert isinstance(answer, Answer)
    lifted = random_features(x, features=4, bandwidth=1.0, seed=2)
    np.testing.assert_allclose(answer.arrays["mean"], lifted.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    "question",
    [
        DomainErrors(**about_domains(1), thresholds=np.zeros(2)),
        DomainErrors(**about_domains(1), thresholds=np.array([np.nan])),
        DomainErrors(**about_domains(1), thresholds=np.array([28.0])),
        DomainErrors(**about_domains(0), thresholds=np.zeros(0)),
        DomainErrors(**about_domains(5000), thresholds=np.zeros(5000)),
        DomainScores(**about_domains(0), quantiles=3),
        DomainScores(**about_domains(5000), quantiles=3),
        DomainScores(**about_domains(1), quantiles=1),
        MeanFeatures(features=0, bandwidth=1.0, seed=0),
        MeanFeatures(features=2, bandwidth=1.0, seed=(1 << 62) + 1),
        MeanFeatures(features=3, bandwidth=1.0, seed=0),
        MeanFeatures(features=1 << 20, bandwidth=1.0, seed=0),
        MeanFeatures(features=2, bandwidth=float("nan"), seed=0),
        MeanFeatures(features=2, bandwidth=0.0, seed=0),
        MeanFeatures(features=2, bandwidth=1.0, seed=-1),
    ],
)
def test_a_holder_refuses_questions_out_of_range(question: Question) -> None:
    answer = Holder(Measure(X), OPEN).answer(question)
    assert answer == Failure("question-fields", "failed", "WireError")


def domain_question(**changes: object) -> TrainDomain:
    spec = ModelSpec("logistic", (2,), 2)
    fields: dict[str, object] = {
        "model": spec.to_text(),
        "parameters": np.tile(initial(spec, 0), (2, 1)),
        "sides": np.array([0, 1]),
        "seeds": np.array([3, 4]),
        "centre": np.zeros(2),
        "scale": np.ones(2),
        "iterations": 3,
        "batch": 5,
        "rate": 0.1,
    }
    return TrainDomain(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sides": np.array([0, 2])}, "question-fields"),
        ({"sides": np.array([0])}, "question-fields"),
        ({"seeds": np.array([0, -1])}, "question-fields"),
        ({"parameters": np.zeros((2, 2))}, "model-parameters"),
        ({"parameters": np.full((2, 3), np.nan)}, "question-fields"),
        ({"scale": np.zeros(2)}, "question-fields"),
        ({"scale": np.ones(3)}, "dimension-mismatch"),
        ({"iterations": 10**9}, "question-fields"),
        ({"batch": 0}, "question-fields"),
        ({"model": "{}"}, "model-text"),
    ],
)
def test_a_holder_refuses_to_train_what_does_not_fit(changes: dict[str, object], code: str) -> None:
    holder = Holder(Measure(X), OPEN)
    assert isinstance(holder.answer(domain_question()), Answer)
    answer = holder.answer(domain_question(**changes))
    assert isinstance(answer, Failure) and answer.code == code


@pytest.mark.parametrize(
    "question",
    [
        Spread(),
        MeanFeatures(features=8, bandwidth=2.0, seed=1),
        domain_question(momentum=0.9),
        DomainErrors(
            model=ModelSpec("logistic", (2,), 2).to_text(),
            parameters=np.zeros((1, 3)),
            sides=np.array([1]),
            centre=np.zeros(2),
            scale=np.ones(2),
            thresholds=np.zeros(1),
        ),
        DomainScores(
            model=ModelSpec("logistic", (2,), 2).to_text(),
            parameters=np.zeros((1, 3)),
            sides=np.array([1]),
            centre=np.zeros(2),
            scale=np.ones(2),
            quantiles=5,
        ),
    ],
)
def test_questions_survive_the_wire(question: Question) -> None:
    back = decode_question(encode_question(question))
    assert type(back) is type(question)
    for name, value in vars(question).items():
        np.testing.assert_array_equal(getattr(back, name), value)


# ---- classifier ---------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_classifier_tells_far_devices_and_not_those_of_one_law() -> None:
    found = run(DEVICES, "classifier", rounds=20)
    assert found["one", "two"] < 0.25
    assert found["one", "far"] > 1.95
    assert 0.4 < found["one", "off"] < 1.5
    assert found.errors is not None
    for (i, a), (j, b) in combinations(enumerate(NAMES), 2):
        half = 0.5 * (found.errors[i, j] + found.errors[j, i])
        assert found[a, b] == pytest.approx(2 * (1 - 2 * min(half, 1 - half)))
    np.testing.assert_allclose(found.as_error(), found.values / 2)


@pytest.mark.heavy
def test_a_linear_classifier_of_normal_laws_learns_their_total_variation() -> None:
    rng = np.random.default_rng(3)
    devices = {
        "x": rng.normal(size=(3000, 2)),
        "y": rng.normal(size=(2000, 2)) + np.eye(2)[0] * 2.0,
    }
    model = ModelSpec("logistic", (2,), 2)
    found = run(devices, "classifier", model=model, rounds=40, iterations=5, batch=100, rate=0.1)
    assert found["x", "y"] / 2 == pytest.approx(2 * norm.cdf(1.0) - 1, abs=0.03)


def test_all_pairs_go_in_step() -> None:
    found = run(DEVICES, "classifier", rounds=3, iterations=1, threshold="half")
    assert found.rounds == 3 + 2
    transcript = found.transcript
    assert transcript is not None
    asked = [k for k in transcript.entries if k.direction == "sent"]
    assert len(asked) == 5 * 4


@given(seeds)
def test_the_best_threshold_is_no_worse_than_the_classifiers_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    zero, one = (np.sort(rng.normal(size=65).round(1) + rng.normal()) for _ in range(2))

    def error(threshold: float) -> float:
        half = 0.5 * float((zero > threshold).mean() + (one <= threshold).mean())
        return min(half, 1 - half)

    found = error(_best_threshold(zero, one))
    assert found <= min(error(k) for k in np.linspace(-4, 4, 401) + 1e-6) + 1e-9


def test_scores_are_quantiles_of_the_log_odds() -> None:
    question = DomainScores(
        model=ModelSpec("logistic", (1,), 2).to_text(),
        parameters=np.array([[2.0, -1.0]]),
        sides=np.array([0]),
        centre=np.zeros(1),
        scale=np.ones(1),
        quantiles=3,
    )
    answer = Holder(Measure([[0.0], [3.0], [1.0]], [1.0, 1.0, 2.0]), OPEN).answer(question)
    assert isinstance(answer, Answer)
    # Log odds -1, 1, 5 of masses 1/4, 1/2, 1/4: two records of the heaviest weight fit.
    np.testing.assert_allclose(answer.arrays["scores"], [[0.0, 3.0]], atol=1e-12)
    even = Holder(Measure([[0.0], [3.0], [1.0]]), OPEN).answer(question)
    assert isinstance(even, Answer)
    np.testing.assert_allclose(even.arrays["scores"], [[-1.0, 1.0, 5.0]])


def test_who_else_takes_part_changes_nothing_between_two_devices() -> None:
    options = {"rounds": 3, "rate": 0.05, "standardise": False}
    all_four = run(DEVICES, "classifier", **options)
    two = run({name: DEVICES[name] for name in ("off", "one")}, "classifier", **options)
    assert two["off", "one"] == all_four["one", "off"]


def test_training_sees_records_as_often_as_they_weigh() -> None:
    ones, far = np.ones((50, 2)), np.full((50, 2), -30.0)
    light = Measure(np.concatenate([ones, far]), [1.0] * 50 + [1e-14] * 50)
    alone = Measure(np.ones((100, 2)))
    first, second = (Holder(k, OPEN).answer(domain_question()) for k in (light, alone))
    assert isinstance(first, Answer) and isinstance(second, Answer)
    np.testing.assert_array_equal(first.arrays["parameters"], second.arrays["parameters"])


def test_weights_count_in_training_and_in_errors() -> None:
    # Half of the records lie with the other device and weigh nothing.
    x = np.concatenate([X[:100], X[:100] + 20.0])
    ignored = Measure(x, [1.0] * 100 + [0.0] * 100)
    light = Measure(x, [1.0] * 100 + [1e-9] * 100)
    other = Measure(X[200:300] + 20.0)
    for measure in (ignored, light):
        found = run({"x": measure, "y": other}, "classifier", **QUICK["classifier"])
        assert found["x", "y"] > 1.95


@pytest.mark.heavy
@settings(max_examples=examples(15))
@given(seeds)
def test_a_classifier_has_a_divergence_between_zero_and_two(seed: int) -> None:
    devices = random_measures(seed, least=1)
    found = run(devices, "classifier", rounds=2, iterations=2, rate=0.5, seed=seed)
    assert found.values.min() >= 0 and found.values.max() <= 2
    assert found.errors is not None and np.isfinite(found.errors).all()


class Scripted(Saying):
    """A device that answers by rote."""

    def __init__(self, place: int, error: float) -> None:
        super().__init__(Measure(np.zeros((2, 1))), OPEN, Ledger())
        self.place, self.error = place, error

    def says(self, question: Question) -> Answer:
        if isinstance(question, Spread):
            return Answer({"mean": np.zeros(1), "variance": np.ones(1)})
        if isinstance(question, TrainDomain):
            return Answer({"parameters": question.parameters + self.place})
        assert isinstance(question, DomainErrors)
        np.testing.assert_array_equal(question.parameters, np.full((1, 2), 0.5))
        return Answer({"errors": np.array([self.error])})


def scripted(errors: tuple[float, float]) -> Divergences:
    """A run of two devices that answer by rote."""
    devices = {
        name: Scripted(k, error) for k, (name, error) in enumerate(zip("ab", errors, strict=True))
    }
    spec = ModelSpec("logistic", (1,), 2)
    return LocalFederation(devices).run(
        divergences(["a", "b"], method="classifier", model=spec, rounds=1, threshold="half")
    )


@pytest.mark.parametrize(
    ("errors", "value"),
    [((0.1, 0.3), 1.2), ((0.5, 0.5), 0.0), ((1.0, 0.0), 0.0), ((0.9, 0.9), 1.6)],
)
def test_parameters_are_averaged_and_errors_read_both_ways(
    errors: tuple[float, float], value: float
) -> None:
    found = scripted(errors)
    assert found["a", "b"] == pytest.approx(value)
    assert ("classifiers were exchanged" in found.status) == (sum(errors) > 1)
    assert found.errors is not None
    assert (found.errors[0, 1], found.errors[1, 0]) == errors


@pytest.mark.parametrize("errors", [(1.5, 0.0), (-0.1, 0.0), (float("nan"), 0.0)])
def test_errors_that_are_no_shares_are_refused(errors: tuple[float, float]) -> None:
    with pytest.raises(HolderError, match="'a'") as caught:
        scripted(errors)
    assert caught.value.code == "answer-malformed"


def test_a_model_of_other_features_is_refused() -> None:
    with pytest.raises(MismatchError):
        run(DEVICES, "classifier", model=ModelSpec("logistic", (3,), 2))


@pytest.mark.heavy
def test_a_threshold_saves_a_cnn_that_drifted_to_one_side() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    # Images of one brightness, and brighter ones.
    devices = {"a": rng.random((40, 256)), "b": rng.random((50, 256))}
    devices["c"] = rng.random((60, 256)) + 0.7
    options = {"model": ModelSpec("cnn", (16, 16), 10), "rounds": 10, "iterations": 4}
    half, best = (run(devices, "classifier", threshold=k, **options) for k in ("half", "best"))
    assert best.rounds == half.rounds + 1
    # Both devices take all images for one side's: the error is ½, as if they were of one law.
    assert half["a", "c"] < 0.5
    assert min(best["a", "c"], best["b", "c"]) > 1.9 > 2 * best["a", "b"]


# ---- pairs --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedwad", "trianglewad", "direct"])
def test_bounds_hold_the_exact_distances(method: str) -> None:
    weighted = {
        **{name: DEVICES[name] for name in ("one", "off")},
        "light": Measure(X[:60] * 2, RNG.random(60)),
    }
    found = run(weighted, method, **QUICK[method])
    assert found.lower is not None and found.upper is not None
    for (i, a), (j, b) in combinations(enumerate(weighted), 2):
        x, y = weighted[a], weighted[b]
        cost = ot.emd2(x.weights, y.weights, ot.dist(x.points, y.points), numItermax=10**7)
        exact = float(cost) ** 0.5
        assert found.lower[i, j] <= exact * (1 + 1e-9)
        assert found.upper[i, j] >= exact * (1 - 1e-9)
        assert found.lower[i, j] <= found.values[i, j] <= found.upper[i, j]
        if method == "direct":
            assert found.values[i, j] == pytest.approx(exact)


@pytest.mark.heavy
def test_sketches_certify_nothing_and_disclose_nothing_finer() -> None:
    found = run(DEVICES, "sketch", **QUICK["sketch"])
    assert found.lower is None and found.upper is None
    assert found.disclosure == "private" and found.privacy_mu > 0
    exact = run(DEVICES, "direct")
    assert found["one", "far"] == pytest.approx(exact["one", "far"], rel=0.2)
    # Cells are as wide as the public law asks for, and widen what is told.
    assert exact.scale is not None and found.scale is not None
    assert 0.8 * exact.scale < found.scale < 3 * exact.scale


@pytest.mark.slow
def test_sketched_distances_are_those_of_sketches_whatever_the_order() -> None:
    holders = {name: Holder(measure, OPEN, Ledger()) for name, measure in DEVICES.items()}
    book = LocalFederation(holders).run(sketches(NAMES, **QUICK["sketch"]))  # type: ignore[arg-type]
    turned = dict(reversed(holders.items()))
    # The ledgers hold the answers: the same sketches again, at no cost.
    found, other = (run(k, "sketch", **QUICK["sketch"]) for k in (holders, turned))
    np.testing.assert_array_equal(found.values, book.matrix().values)
    np.testing.assert_array_equal(found.values, other.values[::-1, ::-1])
    assert found.privacy_mu == 0.0


class Odd(Holder):
    """A holder that changes its answers to one kind of question."""

    def __init__(self, measure: Measure, kind: str, change: Callable[[Answer], Answer]) -> None:
        super().__init__(measure, OPEN, Ledger())
        self.kind, self.change = kind, change

    def _compute(self, question: Question) -> Answer:
        answer = super()._compute(question)
        return self.change(answer) if question.kind == self.kind else answer


def arrays(change: Callable[[Array], Array]) -> Callable[[Answer], Answer]:
    def changed(answer: Answer) -> Answer:
        return Answer({k: change(v) for k, v in answer.arrays.items()}, answer.scalars)

    return changed


def scalars(**values: object) -> Callable[[Answer], Answer]:
    return lambda answer: Answer(answer.arrays, {**answer.scalars, **values})  # type: ignore[dict-item]


def huge_variance(answer: Answer) -> Answer:
    told = answer.arrays
    return Answer({**told, "variance": np.full_like(told["variance"], 1e308)}, answer.scalars)


def negative_variance(answer: Answer) -> Answer:
    return Answer({**answer.arrays, "variance": -answer.arrays["variance"]}, answer.scalars)


CHANGES: dict[str, Callable[[Answer], Answer]] = {
    "nothing": lambda answer: Answer(),
    "nan": arrays(lambda k: k * np.nan),
    "huge": arrays(lambda k: np.full_like(k, 1e308)),
    "large": arrays(lambda k: np.full_like(k, 1e200)),
    "half": arrays(lambda k: k[: len(k) // 2]),
    "twice": arrays(lambda k: np.concatenate([k, k])),
    "deeper": arrays(lambda k: k[None]),
    "single": arrays(lambda k: k.astype(np.float32)),
}
ASKED = {
    "mmd": ("spread", "mean-features"),
    "classifier": ("spread", "train-domain", "domain-scores", "domain-errors"),
    "fedwad": ("spread", "describe", "moments", "interpolate"),
    "trianglewad": ("spread", "describe", "moments", "interpolate"),
    "direct": ("records",),
}
SHORT = {**QUICK, "classifier": {"rounds": 1}, "fedwad": {"support": 10, "rounds": 1}}
FEW = {name: Measure(X[20 * k : 20 * k + 20] + k) for k, name in enumerate("acd")}


def changed(method: str, kind: str, change: Callable[[Answer], Answer]) -> Divergences:
    return run({**FEW, "b": Odd(Measure(X[80:100]), kind, change)}, method, **SHORT[method])


def nonsense(kind: str, change: str) -> bool:
    """Whether an answer so changed cannot be one."""
    if kind == "describe":
        # It has no arrays.
        return change == "nothing"
    if kind == "moments":
        # Traces of the largest numbers warn before they are refused.
        return change != "huge"
    # Half of the records are records; features are compared by number.
    return kind not in ("records", "interpolate", "spread") or change not in ("half", "twice")


NONSENSE = [
    (method, kind, change)
    for method, kinds in ASKED.items()
    for kind in kinds
    for change in CHANGES
    if nonsense(kind, change)
]


@pytest.mark.heavy
@pytest.mark.parametrize(("method", "kind", "change"), NONSENSE)
def test_who_answers_nonsense_is_named_and_the_others_go_on(
    method: str, kind: str, change: str
) -> None:
    found = changed(method, kind, CHANGES[change])
    assert set(found.missing) == {"b"}
    assert found.names == ("a", "c", "d") and np.isfinite(found.values).all()
    assert "without b (" in found.status


@pytest.mark.parametrize(
    ("method", "kind", "change"),
    [
        # The width of everybody's features comes from these.
        ("mmd", "spread", huge_variance),
        # A mean of vectors of norm 1 is not longer.
        ("mmd", "mean-features", arrays(lambda k: k / np.linalg.norm(k) * (1.0 + 1e-8))),
        ("mmd", "mean-features", scalars(squares=0)),
        ("mmd", "mean-features", scalars(squares=1.1)),
        ("classifier", "train-domain", arrays(lambda k: k + 2e6)),
        ("classifier", "domain-scores", arrays(lambda k: k + 60.0)),
        ("classifier", "domain-scores", arrays(lambda k: np.tile(k, (1, 9)))),
        ("classifier", "domain-errors", arrays(lambda k: k + 1.01)),
    ],
)
def test_numbers_that_cannot_be_are_the_fault_of_who_told_them(
    method: str, kind: str, change: Callable[[Answer], Answer]
) -> None:
    assert dict(changed(method, kind, change).missing) == {"b": "answer-malformed"}


def test_a_mean_of_norm_one_is_one() -> None:
    found = changed("mmd", "mean-features", arrays(lambda k: k / np.linalg.norm(k)))
    assert found.missing == {}


@pytest.mark.parametrize("method", ASKED)
def test_nonsense_that_leaves_too_few_ends_the_run_with_a_name(method: str) -> None:
    for kind in ASKED[method]:
        odd = Odd(DEVICES["two"], kind, CHANGES["nothing"])
        with pytest.raises(SilotError, match="'odd'") as caught:
            run({"a": DEVICES["one"], "odd": odd}, method, **SHORT[method])
        assert caught.value.code == "answer-malformed"


def test_where_several_pairs_tell_nonsense_their_common_device_leaves() -> None:
    run_ = Devices(tuple("abcde"), 2)
    error = WireError("nonsense.", code="answer-malformed")
    _leave_out(run_, dict.fromkeys([("a", "b"), ("b", "c"), ("b", "d"), ("c", "e")], error)
               | {("d", "e"): error})  # fmt: skip
    assert codes_of(run_.missing) == {"b": "answer-malformed", "e": "answer-malformed"}
    with pytest.raises(WireError, match="'a' and 'b'"):
        _leave_out(Devices(tuple("abc"), 2), {("a", "b"): error})


@pytest.mark.heavy
@pytest.mark.parametrize("answers", range(5))
def test_a_device_may_die_at_every_question_of_a_classifier(answers: int) -> None:
    devices = {**DEVICES, "dead": Dying(Measure(X[:40]), answers)}
    found = run(devices, "classifier", rounds=2)
    # Spread, twice training, scores, errors.
    assert found.rounds == 5
    assert dict(found.missing) == {"dead": "holder-raised"} and found.names == NAMES


# ---- units --------------------------------------------------------------------------------


def made(reading: str, values: Array, scale: float | None = None) -> Divergences:
    return Divergences(
        names=("a", "b"),
        values=values,
        method="m",
        unit="u",
        reading=reading,  # type: ignore[arg-type]
        status="s",
        seed=0,
        scale=scale,
    )


@given(st.floats(0, 10), st.floats(0.1, 5))
def test_a_distance_reads_as_the_total_variation_of_normal_laws(gap: float, scale: float) -> None:
    values = np.array([[0.0, gap], [gap, 0.0]])
    told = made("normal", values, scale).as_error()
    line = np.linspace(-15 * scale, gap + 15 * scale, 20001)
    apart = np.abs(norm.pdf(line, 0, scale) - norm.pdf(line, gap, scale))
    assert told[0, 1] == pytest.approx(0.5 * trapezoid(apart, line), abs=1e-4)
    assert told[0, 0] == 0.0


def test_units_of_bounded_divergences() -> None:
    values = np.array([[0.0, 2.0], [2.0, 0.0]])
    np.testing.assert_array_equal(made("half", values).as_error(), values / 2)
    np.testing.assert_allclose(made("root", values / 2**0.5).as_error(), values / 2)
    # No spread at all: apart or not.
    np.testing.assert_array_equal(made("normal", values, 0.0).as_error(), values / 2)


def test_mmd_reads_as_no_more_than_the_total_variation() -> None:
    # Of two normal laws one shift apart, for bandwidths that see little and much of it.
    rng = np.random.default_rng(2)
    devices = {"x": rng.normal(size=(2000, 1)), "y": rng.normal(size=(2000, 1)) + 1.5}
    for bandwidth in (0.3, 1.0, 3.0):
        found = run(devices, "mmd", bandwidth=bandwidth)
        assert found.as_error()[0, 1] < 2 * norm.cdf(0.75) - 1


def test_units_of_columns_change_no_divergence_of_standardised_records() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 150, 4)) + np.array([0.0, 0.0, 1.0])[:, None, None]
    units = np.array([1e-6, 1.0, 1e5, 40.0])
    runs = [
        LocalFederation(
            {name: Measure(part) for name, part in zip("abc", points, strict=True)}
        ).run(divergences(list("abc"), method="mmd", standardise=True))
        for points in (x, x * units - 7.0)
    ]
    np.testing.assert_allclose(runs[0].values, runs[1].values, atol=1e-9)
    assert runs[0].values[0, 1] < runs[0].values[0, 2]
