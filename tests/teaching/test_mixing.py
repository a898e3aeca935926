"""Mixing objectives against convex programs by scipy, and two solvers against one another."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.teaching import tangents as tangents
from silot.teaching.costs import LinkCosts, reordered
from silot.teaching.exact import solve_exact
from silot.teaching.mixing import Shape, mixture_named
from silot.teaching.plan import LinkPlan, best_alpha, check_plan, evaluate, terms_of
from silot.teaching.solve import links
from tests.teaching.networks import mixed_brute_force, mixed_network, mixed_part, mixed_target
from tests.tiers import examples

mixings = pytest.mark.parametrize("mixing", ["variance"])


def by_tangents(costs: LinkCosts, mixing: str, seconds: float = 20.0) -> LinkPlan:
    with mock.patch.object(tangents, "SOURCES", 0):
        return solve_exact(costs, mixing=mixing, time_limit=seconds)


def without(costs: LinkCosts, **changes: object) -> LinkCosts:
    fields = {
        name: getattr(costs, name)
        for name in (
            "phi", "eligible", "names", "labelled", "mixing_scale",
        )
    }  # fmt: skip
    return LinkCosts(costs.source, costs.transfer, costs.energy, **{**fields, **changes})


@mixings
@pytest.mark.parametrize("energy", [0.0, 0.05, 0.3])
def test_equals_brute_force(mixing: str, energy: float) -> None:
    for seed in range(3):
        costs = mixed_network(5, 3, seed, energy=energy)
        plan = solve_exact(costs, mixing=mixing)
        check_plan(plan.psi, plan.alpha, costs)
        best = mixed_brute_force(costs, mixing)
        # Near a mixture that matches exactly the root makes 1e-8 of rounding.
        assert plan.objective <= best + 1e-7
        assert plan.objective == pytest.approx(best, rel=1e-5, abs=1e-5)
        assert plan.objective == evaluate(plan, costs)
        assert plan.optimal


@pytest.mark.heavy
@mixings
def test_weights_of_a_target_are_optimal_and_never_worse_than_a_dense_grid(mixing: str) -> None:
    steps = 60
    grid = np.array(
        [(i, k, steps - i - k) for i in range(steps + 1) for k in range(steps + 1 - i)]
    ) / steps  # fmt: skip
    for seed in range(5):
        costs = mixed_network(4, 3, seed, energy=0.1)
        alpha = best_alpha([0, 0, 0, 1], costs, mixing=mixing)
        value = terms_of([0, 0, 0, 1], alpha, costs, mixing=mixing).total
        for point in grid:
            weights = np.zeros((4, 4))
            weights[:3, 3] = point
            assert terms_of([0, 0, 0, 1], weights, costs, mixing=mixing).total >= value - 1e-9


@mixings
@given(seed=st.integers(0, 10**6), energy=st.sampled_from((0.0, 0.02, 0.2)))
@settings(max_examples=examples(5))
def test_a_face_table_finds_what_scipy_finds(mixing: str, seed: int, energy: float) -> None:
    costs = mixed_network(5, 4, seed, energy=energy)
    shape = mixture_named(mixing).shape(costs, 4, np.arange(4))
    weights, value = shape.best()
    best = mixed_target(costs, mixing, 4, (0, 1, 2, 3))
    assert value <= best + 1e-7
    assert value >= best - 1e-4
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights >= 0).all()
    # The convex part is the definition's, up to rounding.
    whole = np.append(weights, 0.0)
    direct = costs.phi[1] * (weights @ costs.transfer[:4, 4] + mixed_part(costs, mixing, 4, whole))
    assert float(shape.convex(weights[None])[0]) == pytest.approx(float(direct), abs=1e-7)
    # What pruning leaves out, a full search would not have taken.
    with mock.patch.object(Shape, "floor", lambda _: -1e9):
        assert shape.best()[1] == pytest.approx(value, abs=1e-12)


@mixings
def test_no_weight_of_mixing_is_no_mixing(mixing: str) -> None:
    for seed in range(4):
        costs = without(mixed_network(8, 4, seed, energy=0.1), mixing_scale=0.0)
        plain, mixed = solve_exact(costs), solve_exact(costs, mixing=mixing)
        assert mixed.objective == pytest.approx(plain.objective, abs=1e-9)
        assert mixed.psi.tolist() == plain.psi.tolist()
        assert (mixed.alpha == plain.alpha).all()


@pytest.mark.heavy
@mixings
@pytest.mark.parametrize("energy", [0.0, 0.3])
def test_tangents_agree_with_the_closed_form(mixing: str, energy: float) -> None:
    costs = mixed_network(7, 4, 1, energy=energy)
    plan, other = solve_exact(costs, mixing=mixing), by_tangents(costs, mixing)
    check_plan(other.psi, other.alpha, costs)
    assert other.lower_bound <= plan.objective + 1e-7
    assert plan.objective - 1e-9 <= other.objective
    assert other.objective <= plan.objective + 1e-4 * max(1.0, abs(plan.objective))
    assert other.gap <= 1e-4
    assert other.optimal
    assert other.details["tangents"] > 0


@pytest.mark.heavy
@mixings
def test_tangents_bound_a_network_they_cannot_finish(mixing: str) -> None:
    costs = mixed_network(14, 9, 0, energy=0.05)
    plan, other = solve_exact(costs, mixing=mixing), by_tangents(costs, mixing, 2.0)
    check_plan(other.psi, other.alpha, costs)
    assert other.lower_bound <= plan.objective + 1e-7 <= other.objective + 2e-7
    assert other.optimal or "time limit" in other.status


@mixings
@given(seed=st.integers(0, 10**6), n=st.integers(4, 9), price=st.sampled_from((None, 0.5, 20.0)))
@settings(max_examples=examples(15))
def test_constraints_hold_with_barred_links(
    mixing: str, seed: int, n: int, price: float | None
) -> None:
    costs = mixed_network(n, 1 + seed % n, seed, energy=0.1)
    bars = np.random.default_rng(seed).uniform(size=(n, n)) < 0.3
    bars[0] = False
    costs = replace(costs, energy=np.where(bars, np.inf, costs.energy))
    plan = solve_exact(costs, mixing=mixing, allow_unserved=price)
    targets = plan.psi == 1
    sums = plan.alpha.sum(axis=0)
    served = targets & ~np.isin(plan.names, plan.unserved)
    assert np.abs(sums[served] - 1.0).max(initial=0.0) <= 1e-9
    assert not plan.alpha[:, ~served].any()
    assert not plan.alpha[targets | ~costs.eligible].any()
    assert not plan.alpha[bars].any()
    assert (plan.alpha >= 0).all()
    assert plan.objective == evaluate(plan, costs)
    assert plan.optimal


@mixings
def test_the_order_of_devices_does_not_matter(mixing: str) -> None:
    costs = mixed_network(8, 4, 5, energy=0.1)
    order = np.random.default_rng(0).permutation(8)
    first, second = (solve_exact(each, mixing=mixing) for each in (costs, reordered(costs, order)))
    assert second.objective == pytest.approx(first.objective, rel=1e-12)
    assert second.psi.tolist() == first.psi[order].tolist()
    assert np.abs(second.alpha - first.alpha[np.ix_(order, order)]).max() < 1e-9


@mixings
def test_mixing_is_never_worse_than_one_source_each(mixing: str) -> None:
    costs = mixed_network(10, 5, 3, energy=0.02)
    single = solve_exact(costs)
    alone = terms_of(single.psi, single.alpha, costs, mixing=mixing).total
    plan = links(costs, mixing=mixing)
    assert plan.objective < alone
    assert len(plan.links) > len(plan.targets)


@pytest.mark.heavy
@mixings
def test_targets_without_a_model(mixing: str) -> None:
    costs = mixed_network(7, 3, 0, energy=0.1)
    for price in (-0.0, 0.3, 1.0, 100.0):
        plan = solve_exact(costs, mixing=mixing, allow_unserved=price)
        assert plan.objective == evaluate(plan, costs)
        assert plan.objective <= solve_exact(costs, mixing=mixing).objective + 1e-9
        assert plan.terms.unserved == len(plan.unserved) * price
        with mock.patch.object(tangents, "SOURCES", 0):
            other = solve_exact(costs, mixing=mixing, allow_unserved=price)
        assert other.objective == pytest.approx(plan.objective, rel=1e-4, abs=1e-4)


def test_equal_sources_share_equally_and_more_records_weigh_more() -> None:
    costs = LinkCosts(
        np.zeros(4), np.zeros((4, 4)), np.zeros((4, 4)),
        eligible=[True, True, True, False], labelled=[100, 100, 200, 1],
    )  # fmt: skip
    alpha = best_alpha([0, 0, 0, 1], costs, mixing="variance")
    assert alpha[:, 3] == pytest.approx([0.25, 0.25, 0.5, 0.0], abs=1e-12)


def test_twins_do_not_break_the_linear_algebra() -> None:
    costs = LinkCosts(
        np.ones(6), np.ones((6, 6)), 0.1 * np.ones((6, 6)), labelled=np.full(6, 50)
    )  # fmt: skip
    plan = solve_exact(costs, mixing="variance")
    assert np.isfinite(plan.objective)
    assert plan.optimal


@pytest.mark.slow
def test_a_source_nobody_may_reach_is_left_alone_by_many() -> None:
    rng = np.random.default_rng(0)
    n = 26
    eligible = np.arange(n) < n - 1
    transfer = rng.random((n, n))
    transfer[:, 0] = np.inf
    costs = LinkCosts(
        np.full(n, 0.01), transfer, np.full((n, n), 1e-6), phi=(1, 1, 1), eligible=eligible,
        labelled=np.full(n, 5.0),
    )  # fmt: skip
    alpha = best_alpha(np.where(eligible, 0, 1), costs, mixing="variance")
    assert alpha[:, -1].sum() == pytest.approx(1.0)
    plan = links(costs, mixing="variance", time_limit=5)
    assert "0" in plan.sources
