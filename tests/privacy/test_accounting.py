"""What releases spend: the accountant against closed forms, and its inverse."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from silot.errors import InputError
from silot.privacy import compose, epsilon_of, mu_of
from silot.privacy.accounting import _ORDERS, ROUNDING
from tests.tiers import examples

pytestmark = pytest.mark.all_cases

epsilons = st.floats(0.01, 50.0)
deltas = st.floats(1e-12, 0.1)


def test_figures_of_the_paper_at_epsilon_one() -> None:
    assert 1 / mu_of(1.0, 1e-5) == pytest.approx(4.045, abs=1e-3)


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
def test_the_accountant_never_promises_more_than_the_exact_curve_of_the_gaussian(
    epsilon: float, delta: float
) -> None:
    mu = mu_of(epsilon, delta)
    exact = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    exact -= math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    assert exact <= delta


@given(st.floats(1e-8, 1e4), deltas)
@settings(max_examples=examples(25), deadline=None)
def test_epsilon_is_that_of_the_accountant_of_a_library(mu: float, delta: float) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    accountant = rdp.RdpAccountant(orders=tuple(_ORDERS.tolist()))
    accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    assert epsilon_of(mu, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-13)


@given(st.floats(0.001, 3.0), deltas)
@settings(max_examples=examples(25), deadline=None)
def test_epsilon_is_the_least_over_orders(mu: float, delta: float) -> None:
    orders = 1 + np.logspace(-5, 8, 20_001)
    values = mu**2 / 2 * orders + np.log1p(-1 / orders)
    values -= (math.log(delta) + np.log(orders)) / (orders - 1)
    assert epsilon_of(mu, delta) == pytest.approx(max(values.min(), 0.0), rel=2e-3)


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
    with pytest.raises(InputError, match="no noise of a sensible size"):
        mu_of(1e-12, 1e-30)
