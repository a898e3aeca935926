"""Combining models: what averages are, and when it matters which."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import InputError
from silot.teaching.federated import (
    Model,
    ModelSpec,
    probabilities,
    random_features,
)
from tests.tiers import examples

LOGISTIC = ModelSpec("logistic", (3,), 4)
seeds = st.integers(0, 10_000)


def combined(
    parameters: np.ndarray, weights: object, points: np.ndarray, **fields: object
) -> np.ndarray:
    model = Model(
        spec=LOGISTIC,
        classes=("a", "b", "c", "d"),
        parameters=parameters,
        weights=np.asarray(weights),
        **fields,  # type: ignore[arg-type]
    )
    return model.predict_proba(points)


def models(spec: ModelSpec, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, spec.size))


@settings(max_examples=examples(30), deadline=None)
@given(seeds)
def test_one_model_is_itself_under_every_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = models(LOGISTIC, 1, seed)
    x = rng.normal(size=(7, 3))
    expected = probabilities(LOGISTIC, own[0], x)
    for rule in ("output", "parameter"):
        told = combined(own, [1.0], x, rule=rule)
        np.testing.assert_allclose(told, expected, atol=1e-12)


@settings(max_examples=examples(30), deadline=None)
@given(seeds)
def test_outputs_are_averaged_with_the_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, weights = models(LOGISTIC, 3, seed), rng.dirichlet(np.ones(3))
    x = rng.normal(size=(5, 3))
    expected = sum(w * probabilities(LOGISTIC, m, x) for w, m in zip(weights, own, strict=True))
    np.testing.assert_allclose(combined(own, weights, x), expected, atol=1e-12)
    middle = probabilities(LOGISTIC, weights @ own, x)
    told = combined(own, weights, x, rule="parameter")
    np.testing.assert_allclose(told, middle, atol=1e-12)


def test_factors_adjust_each_model_before_they_are_combined() -> None:
    own = models(LOGISTIC, 2, 3)
    x = np.random.default_rng(1).normal(size=(4, 3))
    factors = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    first = probabilities(LOGISTIC, own[0], x) * factors[0]
    first /= first.sum(axis=1, keepdims=True)
    expected = 0.25 * first + 0.75 * probabilities(LOGISTIC, own[1], x)
    told = combined(own, [0.25, 0.75], x, factors=factors)
    np.testing.assert_allclose(told, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"rule": "vote"}, "option-rule"),
        ({"weights": [1.0]}, "combination-shape"),
        ({"weights": [0.5, 0.6]}, "combination-weights"),
        ({"weights": [1.5, -0.5]}, "combination-weights"),
        ({"weights": [np.nan, 1.0]}, "combination-weights"),
        ({"parameters": np.zeros((2, 3))}, "model-parameters"),
        ({"points": np.zeros((1, 9))}, "dimension-mismatch"),
        ({"factors": np.zeros((2, 4))}, "combination-factors"),
        ({"factors": np.ones((1, 4))}, "combination-factors"),
        ({"factors": np.ones((2, 4)), "rule": "parameter"}, "combination-factors"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], code: str) -> None:
    given = {
        "parameters": models(LOGISTIC, 2, 0),
        "weights": [0.5, 0.5],
        "points": np.zeros((1, 3)),
    } | change
    with pytest.raises(InputError) as caught:
        combined(**given)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_random_features_are_those_of_the_kernel() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    lifted = random_features(x, features=1 << 14, bandwidth=1.5, seed=0)
    squares = ((x[:, None] - x) ** 2).sum(axis=2)
    np.testing.assert_allclose(lifted @ lifted.T, np.exp(-squares / 4.5), atol=0.04)
    np.testing.assert_allclose((lifted**2).sum(axis=1), 1.0)
    with pytest.raises(InputError):
        random_features(x, features=3, bandwidth=1.0, seed=0)
    with pytest.raises(InputError):
        random_features(x, features=4, bandwidth=0.0, seed=0)
