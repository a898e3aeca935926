"""Costs of any order, partial transport, and certified bounds of entropic plans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from silot_transport import cost_matrix, exact_plan, partial_plan, sinkhorn
from silot_transport.errors import InputError
from tests.problems import Array, assert_refused
from tests.tiers import examples


def _draw(seed: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    n, m, d = rng.integers(1, 9), rng.integers(1, 9), rng.integers(1, 4)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + rng.normal()
    a, b = rng.random(n) * (rng.random(n) < 0.8), rng.random(m)
    a[0] += 0.1
    return x, y, a / a.sum(), b / b.sum()


def _least(cost: Array, a: Array, b: Array, mass: float) -> float:
    """The optimum of partial transport as a linear program, by HiGHS."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    solved = linprog(
        cost.ravel(), A_ub=np.vstack([rows, columns]), b_ub=np.append(a, b) * (1 + 1e-12),
        A_eq=np.ones((1, n * m)), b_eq=[mass],
    )  # fmt: skip
    return float(solved.fun)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**31), st.sampled_from([1, 1.3, 2, 3, 4.5]), st.floats(0.05, 1.0))
def test_partial_plans_of_any_order_are_optimal(seed: int, p: float, mass: float) -> None:
    x, y, a, b = _draw(seed)
    cost = cdist(x, y) ** p
    least = _least(cost, a, b, mass)
    plan = partial_plan(x, y, a, b, mass=mass, p=p)
    room = 1e-7 * (1.0 + cost.max())
    assert plan.optimal
    assert abs(plan.cost - least) <= room
    assert plan.lower_cost - room <= least <= plan.upper_cost + room
    assert plan.mass.sum() == pytest.approx(mass, abs=1e-9)
    assert (np.bincount(plan.rows, plan.mass, len(a)) <= a + 1e-9).all()
    assert (np.bincount(plan.cols, plan.mass, len(b)) <= b + 1e-9).all()


@settings(max_examples=examples(40))
@given(st.integers(0, 2**31), st.sampled_from([1, 1.3, 2, 3, 4.5]))
def test_plans_of_any_order_are_those_of_their_costs(seed: int, p: float) -> None:
    x, y, a, b = _draw(seed)
    plan = exact_plan(x, y, a, b, p=p)
    cost = cdist(x, y) ** p
    assert plan.optimal
    assert plan.cost == pytest.approx(_least(cost, a, b, 1.0), abs=1e-7 * (1.0 + cost.max()))
    f, g = plan.potentials
    assert (f[:, None] + g <= cost + 1e-9 * (1.0 + cost.max())).all()
    assert plan.distance == plan.cost ** (1.0 / p)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**31), st.sampled_from([1, 2, 2.5]), st.floats(1e-3, 10.0))
def test_bounds_of_entropic_plans_hold(seed: int, p: float, epsilon: float) -> None:
    x, y, a, b = _draw(seed)
    exact = exact_plan(x, y, a, b, p=p)
    # Before it has converged, too.
    for most in (1, 5000):
        plan = sinkhorn(x, y, a, b, epsilon=epsilon, p=p, max_iterations=most)
        assert plan.lower_cost <= exact.upper_cost
        assert exact.lower_cost <= plan.upper_cost
    assert np.isnan(sinkhorn(x, y, a, b, marginal_penalty=1.0).upper_cost)


def test_bounds_of_entropic_plans_come_near() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(50, 3))
    epsilon = 0.005 * cost_matrix(x, y).mean()
    plan = sinkhorn(x, y, reg=epsilon)
    assert plan.epsilon == epsilon
    assert plan.upper_cost - plan.lower_cost < 0.03 * plan.upper_cost


def test_what_no_float_holds_is_refused() -> None:
    far = [[0.0], [1e80]]
    for call in (
        lambda: exact_plan(far, [[1.0], [2.0]], p=5),
        lambda: exact_plan([[0.0, 0.0], [1e80, 0.0]], [[1.0, 1.0], [2.0, 0.0]], p=5),
        lambda: cost_matrix(far, [[1.0]], p=5),
    ):
        assert_refused(call, InputError, "measure-magnitude")
    for p in (0.5, np.nan, np.inf):
        assert_refused(lambda p=p: exact_plan(far, far, p=p), InputError, "option-p")
    for mass in (0.0, -1.0, 1.1, np.nan):
        assert_refused(
            lambda mass=mass: partial_plan(far, far, mass=mass), InputError, "option-mass"
        )
    both = {"epsilon": 1.0, "reg": 1.0}
    assert_refused(lambda: sinkhorn([[0.0]], [[1.0]], **both), InputError, "option-epsilon")
