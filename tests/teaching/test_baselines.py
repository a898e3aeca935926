"""Baselines are plans: constraints hold, draws are repeatable and not tied to the order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.stlf._baselines import (
    average_degree_links,
    fedavg_links,
    random_links,
    random_psi,
    random_sources,
    single_matching,
    uniform_links,
)
from silot.errors import InputError
from silot.teaching.costs import LinkCosts, NoEligibleSource, reordered
from silot.teaching.exact import solve_exact
from silot.teaching.plan import LinkPlan, check_plan, evaluate
from tests.teaching.networks import network, small_networks

Make = Callable[[LinkCosts, int], LinkPlan]
BASELINES: dict[str, Make] = {
    "random-alpha": lambda costs, seed: random_links(
        solve_exact(costs).psi, costs, np.random.default_rng(seed)
    ),
    "uniform": lambda costs, _: uniform_links(solve_exact(costs).psi, costs),
    "average-degree": lambda costs, seed: average_degree_links(
        solve_exact(costs).psi, costs, solve_exact(costs), np.random.default_rng(seed)
    ),
    "random-psi": lambda costs, seed: random_psi(costs, np.random.default_rng(seed)),
    "single-matching": lambda costs, seed: single_matching(costs, np.random.default_rng(seed)),
}
baselines = pytest.mark.parametrize("name", BASELINES)


@baselines
@given(costs=small_networks(9), seed=st.integers(0, 99))
def test_every_baseline_is_a_plan_no_better_than_the_best(
    name: str, costs: LinkCosts, seed: int
) -> None:
    try:
        best = solve_exact(costs)
    except InputError:
        with pytest.raises(InputError):
            BASELINES[name](costs, seed)
        return
    plan = BASELINES[name](costs, seed)
    check_plan(plan.psi, plan.alpha, costs)
    assert plan.method == name
    assert plan.objective == evaluate(plan, costs) >= best.objective - 1e-9
    assert plan.lower_bound == -np.inf
    assert not plan.optimal
    assert plan.energy == pytest.approx(costs.energy[plan.alpha > 0].sum())


@baselines
def test_same_seed_same_plan_whatever_the_order(name: str) -> None:
    costs = network("uniform", 9, 4)
    order = np.random.default_rng(1).permutation(9)
    first, second = BASELINES[name](costs, 7), BASELINES[name](reordered(costs, order), 7)
    assert second.psi.tolist() == first.psi[order].tolist()
    assert np.abs(second.alpha - first.alpha[np.ix_(order, order)]).max() < 1e-12
    if name != "uniform":
        plans = [BASELINES[name](costs, seed).alpha.tobytes() for seed in range(5)]
        assert len(set(plans)) > 1


def test_fedavg_weighs_by_labelled_records() -> None:
    costs, labelled = network("uniform", 6, 0), np.array([30.0, 10.0, 20.0, 1.0, 2.0, 3.0])
    plan = fedavg_links([0, 0, 0, 1, 1, 1], costs, labelled)
    share = labelled[:3] / labelled[:3].sum()
    assert plan.alpha[:3, 3:] == pytest.approx(np.repeat(share[:, None], 3, axis=1))


def test_average_degree_keeps_the_number_of_links() -> None:
    costs = network("uniform", 12, 0)
    psi = np.array([0] * 4 + [1] * 8)
    whole, single = uniform_links(psi, costs), solve_exact(costs)
    rng = np.random.default_rng(0)
    assert len(average_degree_links(psi, costs, whole, rng).links) == 32
    for _ in range(20):
        plan = average_degree_links(single.psi, costs, single, rng)
        degree = max(1, round(len(single.links) / len(single.sources)))
        wanted = max(len(single.targets), degree * len(single.sources))
        assert len(plan.links) == wanted


def test_single_matching_is_one_to_one_and_spread_evenly() -> None:
    rng = np.random.default_rng(0)
    plan = single_matching(network("uniform", 10, 0), rng)
    assert sorted(source for source, _, _ in plan.links) == ["0", "1", "2", "3", "4"]
    costs = network("uniform", 13, 0)  # 6 sources, 7 targets
    used = [source for source, _, _ in single_matching(costs, rng).links]
    assert len(used) == 7
    assert len(set(used)) == 6


def test_bars_that_leave_one_source_do_not_stop_the_matching() -> None:
    transfer = np.ones((6, 6))
    transfer[1:3, 3:] = np.inf
    costs = LinkCosts(np.ones(6), transfer, np.ones((6, 6)), eligible=np.arange(6) < 3)
    plan = single_matching(costs, np.random.default_rng(0))
    assert {source for source, _, _ in plan.links} == {"0"}


def test_random_sources_are_eligible_and_reach_everybody() -> None:
    rng = np.random.default_rng(0)
    costs = network("uniform", 8, 0)
    drawn = np.array([random_sources(costs, rng) for _ in range(200)])
    assert (drawn[:, 4:] == 1).all()
    assert 0.35 < (drawn[:, :4] == 0).mean() < 0.75
    none = LinkCosts(np.ones(2), np.ones((2, 2)), np.ones((2, 2)), eligible=[False, False])
    with pytest.raises(NoEligibleSource):
        random_sources(none, rng)
