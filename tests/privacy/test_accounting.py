"""What releases spend: the accountant against closed forms, and its inverse."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from silot.errors import InputError
from silot.privacy import compose, epsilon_of, mu_of
from silot.privacy.accounting import ROUNDING, delta_of, largest_auc, largest_power, scale_for
from tests.tiers import examples

pytestmark = pytest.mark.all_cases

epsilons = st.floats(0.01, 50.0)
deltas = st.floats(1e-12, 0.1)


def test_figures_of_the_paper_at_epsilon_one() -> None:
    assert 1 / mu_of(1.0, 1e-5) == pytest.approx(3.7304, abs=1e-3)


@given(epsilons, deltas)
@settings(max_examples=examples(25), deadline=None)
def test_spending_what_a_budget_allows_and_rounding_stay_within_it(
    epsilon: float, delta: float
) -> None:
    mu = mu_of(epsilon, delta)
    assert epsilon_of(mu, delta) <= epsilon
    assert epsilon_of(mu * (1 + ROUNDING), delta) <= epsilon
    assert epsilon_of(mu * 1.001, delta) > epsilon


@given(epsilons, deltas)
@settings(max_examples=examples(25), deadline=None)
def test_delta_is_that_of_the_curve_of_the_gaussian(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert delta_of(mu, epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-15)
    assert delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-4)


@given(st.floats(0.05, 5.0), st.floats(1e-8, 0.01))
@settings(max_examples=examples(10), deadline=None)
def test_epsilon_is_that_of_the_accountant_of_a_library(mu: float, delta: float) -> None:
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    library = losses.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    assert epsilon_of(mu, delta) == pytest.approx(library.get_epsilon_for_delta(delta), abs=2e-4)


@given(st.integers(1, 400), st.floats(0.05, 2.0), st.floats(0.0, 3.0))
@settings(max_examples=examples(50), deadline=None)
def test_discrete_noise_costs_what_is_charged_and_hardly_less(
    sensitivity: int, mu: float, epsilon: float
) -> None:
    """The hockey-stick divergence of two shifted discrete Gaussians, summed term by term."""
    scale = scale_for(float(sensitivity), mu)
    reach = int(14 * scale) + 2 * sensitivity
    grid = np.arange(-reach, reach + 1)
    noise = np.exp(-0.5 * (grid / scale) ** 2)
    noise /= noise.sum()
    moved = np.exp(-0.5 * ((grid - sensitivity) / scale) ** 2)
    moved /= moved.sum()
    exact = float(np.maximum(noise - math.exp(epsilon) * moved, 0.0).sum())
    assert exact <= delta_of(mu, epsilon) + 1e-14
    if scale > 64:
        # A discrete sum steps where the continuous integral does not: about one part in the scale.
        assert exact >= delta_of(mu * (1 - 1e-3), epsilon) - 3.0 / scale * noise.max()


def test_no_attack_does_better_than_the_optimal_test_of_two_gaussians() -> None:
    rng = np.random.default_rng(0)
    mu = 1.3
    outside, inside = rng.normal(size=200_000), rng.normal(size=200_000) + mu
    cut = np.quantile(outside, 0.99)
    assert (inside > cut).mean() == pytest.approx(largest_power(mu, 0.01), abs=0.004)
    ranks = np.concatenate([outside, inside]).argsort().argsort()
    auc = (ranks[200_000:].mean() - (200_000 - 1) / 2) / 200_000
    assert auc == pytest.approx(largest_auc(mu), abs=0.003)


def test_more_budget_is_more_mu() -> None:
    mus = [mu_of(epsilon, 1e-5) for epsilon in (0.1, 0.5, 1.0, 4.0)]
    assert mus == sorted(mus)
    assert mu_of(1.0, 1e-3) > mu_of(1.0, 1e-5) > mu_of(1.0, 1e-9)


def test_no_budget_and_no_bound() -> None:
    assert epsilon_of(0.0, 1e-5) == 0.0
    assert epsilon_of(math.inf, 1e-5) == epsilon_of(1e200, 1e-5) == math.inf
    assert epsilon_of(1e-200, 1e-5) == 0.0
    assert mu_of(math.inf, 1e-5) == math.inf


@given(st.lists(st.floats(0.0, 1e6), max_size=20))
def test_releases_add_in_squares_in_any_order(mus: list[float]) -> None:
    assert compose(mus) == pytest.approx(
        math.sqrt(math.fsum(mu**2 for mu in mus)), rel=1e-14, abs=1e-150
    )
    assert compose(mus[::-1]) == pytest.approx(compose(mus), rel=1e-14)
    assert compose([compose(mus[:3]), *mus[3:]]) == pytest.approx(compose(mus), rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, True, "1", None, [1.0, 2.0]])
def test_an_epsilon_out_of_range_is_coded(epsilon: object) -> None:
    with pytest.raises(InputError) as caught:
        mu_of(epsilon, 1e-5)  # type: ignore[arg-type]
    assert caught.value.code == "option-epsilon"


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf, True, "1"])
def test_a_delta_out_of_range_is_coded(delta: object) -> None:
    for call in (mu_of, epsilon_of):
        with pytest.raises(InputError) as caught:
            call(1.0, delta)  # type: ignore[arg-type]
        assert caught.value.code == "option-delta"


@pytest.mark.parametrize("mu", [-0.1, math.nan, True, "1", None])
def test_a_mu_out_of_range_is_coded(mu: object) -> None:
    for call in (lambda: epsilon_of(mu, 1e-5), lambda: compose([mu])):  # type: ignore[arg-type]
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "option-mu"


def test_an_epsilon_no_noise_reaches_is_said() -> None:
    with pytest.raises(InputError, match="no noise of a reasonable size"):
        mu_of(1e-12, 1e-30)
