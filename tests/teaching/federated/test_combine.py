"""Combining models: what averages are, and when it matters which."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from silot.errors import InputError
from silot.teaching.federated import (
    Combination,
    DensitySpec,
    ModelSpec,
    check_density,
    combine,
    fit_density,
    initial,
    log_density,
    probabilities,
    random_features,
    train,
)
from tests.tiers import examples

LOGISTIC = ModelSpec("logistic", (3,), 4)
seeds = st.integers(0, 10_000)


def models(spec: ModelSpec, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, spec.size))


@settings(max_examples=examples(30), deadline=None)
@given(seeds)
def test_one_model_is_itself_under_every_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = models(LOGISTIC, 1, seed)
    x = rng.normal(size=(7, 3))
    law = DensitySpec(3, 4)
    density = fit_density(law, x, rng.integers(0, 4, 7))[None]
    expected = probabilities(LOGISTIC, own[0], x)
    for rule in ("output", "parameter", "density"):
        told = combine(LOGISTIC, own, [1.0], x, rule=rule, density=law, densities=density)
        np.testing.assert_allclose(told, expected, atol=1e-12)


@settings(max_examples=examples(30), deadline=None)
@given(seeds)
def test_outputs_are_averaged_with_the_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, weights = models(LOGISTIC, 3, seed), rng.dirichlet(np.ones(3))
    x = rng.normal(size=(5, 3))
    expected = sum(w * probabilities(LOGISTIC, m, x) for w, m in zip(weights, own, strict=True))
    np.testing.assert_allclose(combine(LOGISTIC, own, weights, x), expected, atol=1e-12)
    middle = probabilities(LOGISTIC, weights @ own, x)
    told = combine(LOGISTIC, own, weights, x, rule="parameter")
    np.testing.assert_allclose(told, middle, atol=1e-12)


@settings(max_examples=examples(30), deadline=None)
@given(seeds)
def test_equal_densities_are_no_densities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, weights = models(LOGISTIC, 3, seed), rng.dirichlet(np.ones(3))
    x = rng.normal(size=(20, 3))
    law = DensitySpec(3, 4)
    density = np.tile(fit_density(law, x, rng.integers(0, 4, 20)), (3, 1))
    told = combine(LOGISTIC, own, weights, x, rule="density", density=law, densities=density)
    np.testing.assert_allclose(told, combine(LOGISTIC, own, weights, x), atol=1e-9)


def test_disjoint_labels_need_the_rule_that_asks_where_data_lie() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[-6.0, 0.0], [-2.0, 0.0], [2.0, 0.0], [6.0, 0.0]])

    def draw(classes: list[int], n: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.repeat(classes, n)
        return centres[codes] + 0.7 * rng.normal(size=(len(codes), 2)), codes

    spec = ModelSpec("mlp", (2,), 4, hidden=(16,))
    law = DensitySpec(2, 4)
    sources = [draw([0, 3], 100), draw([1, 2], 100)]
    own = np.stack([
        train(spec, initial(spec, 0), x, y, iterations=600, rate=0.1, momentum=0.9)
        for x, y in sources
    ])  # fmt: skip
    density = np.stack([fit_density(law, x, y) for x, y in sources])
    x, truth = draw([0, 1, 2, 3], 100)
    accuracy = {
        rule: (
            combine(spec, own, [0.5, 0.5], x, rule=rule, density=law, densities=density).argmax(1)
            == truth
        ).mean()
        for rule in ("output", "parameter", "density")
    }
    assert accuracy["density"] > 0.95
    assert accuracy["density"] > accuracy["output"] + 0.05
    assert accuracy["density"] > accuracy["parameter"] + 0.05


def test_far_from_all_sources_a_record_still_gets_an_answer() -> None:
    law = DensitySpec(3, 4)
    x = np.random.default_rng(0).normal(size=(30, 3))
    density = np.stack([fit_density(law, x + k, np.arange(30) % 4) for k in range(2)])
    own = models(LOGISTIC, 2, 0)
    far = np.full((2, 3), 1e5)
    told = combine(LOGISTIC, own, [0.5, 0.5], far, rule="density", density=law, densities=density)
    np.testing.assert_allclose(told.sum(axis=1), 1.0)


@settings(max_examples=examples(20), deadline=None)
@given(seeds)
def test_a_density_is_that_of_its_mixture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = DensitySpec(inputs=1, classes=2)
    x, codes = rng.normal(size=(50, 1)), np.arange(50) % 2
    density = fit_density(law, x, codes)
    masses, means, variances = density[:2], density[2:4], density[4:]
    grid = np.linspace(-3, 3, 9)
    expected = sum(
        m * norm.pdf(grid, mean, v**0.5)
        for m, mean, v in zip(masses, means, variances, strict=True)
    )
    np.testing.assert_allclose(np.exp(log_density(law, density, grid[:, None])), expected)
    np.testing.assert_allclose(means, [x[codes == c].mean() for c in (0, 1)])


def test_a_density_of_many_dimensions_is_of_a_public_projection() -> None:
    law = DensitySpec(inputs=200, classes=3, dimensions=8, seed=1)
    x = np.random.default_rng(0).normal(size=(40, 200))
    found = law.project(x)
    assert found.shape == (40, 8)
    np.testing.assert_array_equal(found, DensitySpec(200, 3, 8, 1).project(x))
    assert not np.allclose(found, DensitySpec(200, 3, 8, 2).project(x))
    assert (np.linalg.norm(found, axis=1) <= np.linalg.norm(x, axis=1) + 1e-9).all()
    flat = fit_density(law, np.zeros((5, 200)), np.zeros(5, dtype=np.int64))
    assert np.isfinite(log_density(law, flat, x)).all()


def test_factors_adjust_each_model_before_they_are_combined() -> None:
    own = models(LOGISTIC, 2, 3)
    x = np.random.default_rng(1).normal(size=(4, 3))
    factors = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    first = probabilities(LOGISTIC, own[0], x) * factors[0]
    first /= first.sum(axis=1, keepdims=True)
    expected = 0.25 * first + 0.75 * probabilities(LOGISTIC, own[1], x)
    told = combine(LOGISTIC, own, [0.25, 0.75], x, factors=factors)
    np.testing.assert_allclose(told, expected, atol=1e-12)
    same = Combination(
        spec=LOGISTIC, parameters=own, weights=np.array([0.25, 0.75]), factors=factors
    )
    np.testing.assert_array_equal(same.probabilities(x), told)


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
        ({"rule": "density"}, "density-absent"),
        (
            {"rule": "density", "density": DensitySpec(3, 4), "densities": np.zeros((2, 5))},
            "density-shape",
        ),
        (
            {"rule": "density", "density": DensitySpec(3, 4), "densities": np.zeros((2, 28))},
            "density-invalid",
        ),
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
        combine(LOGISTIC, **given)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_density_that_is_none_is_refused() -> None:
    law = DensitySpec(2, 2)
    sound = fit_density(law, np.eye(2), np.array([0, 1]))
    check_density(law, sound)
    for place, value in ((0, 0.9), (0, -0.5), (-1, 0.0), (3, np.nan)):
        broken = sound.copy()
        broken[place] = value
        with pytest.raises(InputError) as caught:
            check_density(law, broken)
        assert caught.value.code == "density-invalid"


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
