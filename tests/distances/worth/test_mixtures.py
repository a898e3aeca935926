"""Shapley values of mixtures against the linear program of every coalition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from silot.distances.worth.mixtures import TOLERANCE, Cloud, compute_mixture_shapley
from silot.distances.worth.shapley import exact_shapley
from silot.errors import InputError
from tests.tiers import examples


def best_mixture(clouds: list[Cloud], target: Cloud) -> float:
    """Least squared distance of a mixture: one linear program in the plan and the shares."""
    points = np.concatenate([x for x, _ in clouds])
    cost = np.sum((points[:, None] - target[0]) ** 2, axis=2)
    n, m = cost.shape
    rows = sp.kron(sp.eye(n), np.ones((1, m)))
    shares = sp.block_diag([-w[:, None] for _, w in clouds])
    columns = sp.kron(np.ones((1, n)), sp.eye(m))
    equal = sp.bmat([[rows, shares], [columns, sp.csr_matrix((m, len(clouds)))]])
    found = linprog(
        np.append(cost.ravel(), np.zeros(len(clouds))),
        A_eq=equal,
        b_eq=np.append(np.zeros(n), target[1]),
    )
    assert found.success
    return float(found.fun)


def market(seed: int, holders: int) -> tuple[dict[str, Cloud], Cloud, float]:
    """Holders of different sizes, weights and places, and a target."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))

    def cloud(size: int) -> Cloud:
        x = rng.normal(size=(size, d)) * rng.uniform(0.2, 1.5) + rng.normal(size=d)
        return x, rng.dirichlet(np.ones(size))

    target = cloud(int(rng.integers(2, 12)))
    mean = target[1] @ target[0]
    spread = float(target[1] @ np.sum((target[0] - mean) ** 2, axis=1)) ** 0.5
    return {f"h{k}": cloud(int(rng.integers(1, 9))) for k in range(holders)}, target, spread


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_values_are_those_of_the_linear_programs(seed: int, holders: int) -> None:
    clouds, target, spread = market(seed, holders)

    def worth(some: frozenset[str]) -> float:
        chosen = [clouds[name] for name in sorted(some)]
        return max(1.0 - best_mixture(chosen, target) / spread**2, 0.0) if some else 0.0

    found = compute_mixture_shapley(clouds, target, spread)
    assert found.values == pytest.approx(exact_shapley(list(clouds), worth).values, abs=TOLERANCE)
    assert min(found.values.values()) >= 0.0


def test_neither_size_nor_the_same_records_twice_pay() -> None:
    clouds, target, spread = market(3, 4)
    x, w = clouds["h1"]
    twice = {**clouds, "h1": (np.concatenate([x, x]), np.concatenate([w, w]) / 2)}
    plain, more = (compute_mixture_shapley(each, target, spread).values for each in (clouds, twice))
    assert more == pytest.approx(plain, abs=TOLERANCE)


def test_holders_of_one_law_divide_what_one_of_them_would_get() -> None:
    clouds, target, spread = market(5, 2)
    both = compute_mixture_shapley(clouds, target, spread)
    split = compute_mixture_shapley({**clouds, "copy": clouds["h0"]}, target, spread)
    assert split.values["h0"] == pytest.approx(split.values["copy"], abs=2 * TOLERANCE)
    assert sum(split.values.values()) == pytest.approx(sum(both.values.values()), abs=2 * TOLERANCE)


@pytest.mark.heavy
def test_orders_of_many_holders_are_sampled_and_say_how_far_off_they_are() -> None:
    rng = np.random.default_rng(8)
    target = rng.normal(size=(20, 2)), np.full(20, 0.05)
    clouds = {f"h{k}": (rng.normal(size=(3, 2)), np.full(3, 1 / 3)) for k in range(11)}
    spread = float(target[0].var(axis=0).sum()) ** 0.5
    found = compute_mixture_shapley(clouds, target, spread, seed=2)
    assert "permutations" in found.status
    assert found.standard_errors is not None and max(found.standard_errors.values()) > 0.0
    best = 1.0 - best_mixture(list(clouds.values()), target) / spread**2
    assert sum(found.values.values()) == pytest.approx(max(best, 0.0), abs=2 * TOLERANCE)
    turned = dict(reversed(clouds.items()))
    again = compute_mixture_shapley(turned, target, spread, seed=2)
    assert again.values == found.values


def test_a_target_of_one_point_has_no_parts() -> None:
    clouds, target, _ = market(1, 2)
    with pytest.raises(InputError) as caught:
        compute_mixture_shapley(clouds, target, 0.0)
    assert caught.value.code == "valuation-spread"
