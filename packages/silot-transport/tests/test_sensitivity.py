"""Potentials of records and calibrated gradients, against closed forms and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from silot_transport import calibrated_gradient, debiased_potential, exact_plan, sinkhorn
from tests.problems import (
    Pair,
    cost_of_matrix,
    direct_costs,
    linear_program_cost,
    normalised,
    pairs,
    seeds,
)
from tests.tiers import examples

FREE = pairs(largest=9, dimensions=(1, 2, 5), layouts=("normal", "grid", "clusters", "constant"))


def share_of(pair: Pair, share: float) -> float:
    return share * (pair.largest_cost(2) or 1.0)


@given(seeds)
@settings(max_examples=examples(30))
def test_calibrated_gradient_is_the_derivative_of_the_exact_cost(seed: int) -> None:
    """Generic problems: potentials are unique up to a constant, which the gradient ignores."""
    rng = np.random.default_rng(seed)
    n, m = 6, 5
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    a, b = normalised(rng.random(n) + 0.2, n), normalised(rng.random(m) + 0.2, m)
    plan = exact_plan(x, y, a, b)
    # No subset of masses sums to another: every basis has n + m - 1 entries.
    assume(len(plan.mass) == n + m - 1 and plan.mass.min() > 1e-3)
    gradient = calibrated_gradient(plan.potentials[0], a)
    cost, step = direct_costs(x, y, 2), 1e-4
    for l in range(n):
        towards = -a / (1 - a[l])
        towards[l] = 1.0
        # The cost is linear in the weights as long as the basis stays.
        up, down = (linear_program_cost(cost, a + s * step * towards, b) for s in (1, -1))
        assert gradient[l] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)


@given(seeds, st.integers(2, 20))
def test_calibrated_gradient_with_uniform_weights_is_equation_ten(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    found = calibrated_gradient(f, np.full(n, 1 / n))
    known = [f[l] - np.delete(f, l).sum() / (n - 1) for l in range(n)]
    np.testing.assert_allclose(found, known, atol=1e-12)


@given(seeds, st.integers(1, 20), st.floats(-1e3, 1e3))
def test_calibrated_gradient_follows_its_definition_and_ignores_constants(
    seed: int, n: int, constant: float
) -> None:
    rng = np.random.default_rng(seed)
    f, a = rng.normal(size=n), rng.random(n)
    a[rng.random(n) < 0.3] = 0.0
    a[rng.integers(n)] += 0.5
    a /= a.sum()
    found = calibrated_gradient(f, a)
    np.testing.assert_allclose(calibrated_gradient(f + constant, a), found, atol=1e-8 * n)
    for l in range(n):
        rest = np.delete(a, l)
        if rest.sum() > 1e-9:
            known = f[l] - rest @ np.delete(f, l) / rest.sum()
            assert found[l] == pytest.approx(known, rel=1e-6, abs=1e-9)
        else:
            assert found[l] == 0.0
    # Moving mass along the weights themselves changes nothing.
    assert float((a * (1 - a)) @ found) == pytest.approx(0.0, abs=1e-9)


def test_debiased_potentials_of_a_cloud_with_itself_are_constant() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(8, 2))
    b = normalised(rng.random(8) + 0.5, 8)
    found = debiased_potential(x, x, b, b, epsilon=0.5)
    assert found.converged
    assert np.ptp(found.values) <= 0.02 * 0.5


@given(
    pairs(largest=8, dimensions=(1, 3), layouts=("normal", "grid"), weights=("uniform", "random")),
    st.sampled_from([0.1, 1.0]),
)
@settings(max_examples=examples(25))
def test_fixed_potentials_are_debiased_sinkhorn_potentials(pair: Pair, share: float) -> None:
    (a, b), epsilon = pair.masses, share_of(pair, share)
    found = debiased_potential(pair.x, pair.y, a, b, epsilon=epsilon)
    assume(found.converged)
    options = {"epsilon": epsilon, "tolerance": 1e-9}
    across = sinkhorn(pair.x, pair.y, a, b, **options).potentials[0]
    within = sinkhorn(pair.x, pair.x, a, a, **options).potentials
    # The symmetric potential of a cloud with itself.
    known = across - 0.5 * (within[0] + within[1])
    gradient = calibrated_gradient(found.values, a)
    scale = float(np.abs(calibrated_gradient(known, a)).max()) + epsilon
    np.testing.assert_allclose(gradient, calibrated_gradient(known, a), atol=0.02 * scale)


def test_fixed_potentials_tend_to_exact_ones_as_regularisation_vanishes() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)) + 1
    a, b = normalised(rng.random(6) + 0.2, 6), normalised(rng.random(5) + 0.2, 5)
    exact = calibrated_gradient(exact_plan(x, y, a, b).potentials[0], a)
    found = debiased_potential(x, y, a, b, epsilon=0.005)
    np.testing.assert_allclose(calibrated_gradient(found.values, a), exact, atol=0.05)


def test_the_balanced_cost_rises_along_the_gradient() -> None:
    """Adding mass to the record scored worst raises the cost, to the best one lowers it."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=(40, 2))
    x = rng.normal(size=(20, 2))
    x[3] = [6.0, 6.0]
    a, b = np.full(20, 0.05), np.full(40, 0.025)
    found = debiased_potential(x, y, a, b, epsilon=0.2).values
    gradient = calibrated_gradient(found, a)
    assert int(np.argmax(gradient)) == 3
    cost = direct_costs(x, y, 2)
    base = cost_of_matrix(cost, a, b)
    for l, sign in ((3, 1), (int(np.argmin(gradient)), -1)):
        more = a + 0.01 * ((np.arange(20) == l) - a)
        assert sign * (cost_of_matrix(cost, more / more.sum(), b) - base) > 0
