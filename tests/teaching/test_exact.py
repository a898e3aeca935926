"""The exact solver: brute force, bounds, constraints, and no dependence on order."""

from __future__ import annotations

import dataclasses
import json
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.errors import InputError, MismatchError, SilotError
from silot.teaching import exact
from silot.teaching.costs import LinkCosts, NoEligibleSource
from silot.teaching.exact import links, solve_exact
from silot.teaching.plan import LinkPlan, best_alpha, check_plan, evaluate
from tests.teaching.networks import KINDS, brute_force, network, plain_program, small_networks


def solved(costs: LinkCosts, **options: float) -> LinkPlan | None:
    """The plan, checked; None where no plan exists."""
    try:
        plan = solve_exact(costs, **options)
    except InputError as error:
        assert error.code in ("target-unreachable", "no-eligible-source")
        return None
    check_plan(plan.psi, plan.alpha, costs, unserved="allow_unserved" in options)
    assert plan.objective == evaluate(plan, costs)
    assert plan.lower_bound <= plan.objective
    return plan


def permuted(costs: LinkCosts, order: list[int], *, rename: bool = False) -> LinkCosts:
    square = np.ix_(order, order)
    return LinkCosts(
        costs.source[order],
        costs.transfer[square],
        costs.energy[square],
        phi=costs.phi,
        eligible=costs.eligible[order],
        names=costs.names if rename else [costs.names[i] for i in order],
    )


@given(small_networks())
def test_equals_brute_force(costs: LinkCosts) -> None:
    plan, best = solved(costs), brute_force(costs)
    if plan is None:
        assert best == np.inf
    else:
        assert plan.objective == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert plan.optimal
        assert plan.status == "proven optimal: no plan has a lower objective at these costs"
        assert plan.gap <= 1e-9


@given(small_networks(), st.sampled_from((0.0, 0.5, 4.0, 100.0)))
def test_targets_without_a_model_equal_brute_force(costs: LinkCosts, price: float) -> None:
    plan = solved(costs, allow_unserved=price)
    assert plan is not None
    assert plan.objective == pytest.approx(brute_force(costs, price), rel=1e-12, abs=1e-12)
    assert plan.terms.unserved == len(plan.unserved) * price
    assert set(plan.unserved) <= set(plan.targets)
    assert not plan.alpha[:, [plan.names.index(name) for name in plan.unserved]].any()


@given(small_networks(12), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_devices(costs: LinkCosts, random) -> None:
    order = list(range(costs.size))
    random.shuffle(order)
    first, second = solved(costs), solved(permuted(costs, order))
    if first is None or second is None:
        assert first is second
        return
    assert second.objective == pytest.approx(first.objective, rel=1e-12)
    assert set(second.sources) == set(first.sources)
    assert set(second.links) == set(first.links)


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_new_names_change_nothing_when_devices_differ(seed: int, random) -> None:
    costs = network("ties", 8, seed, eligible="all")
    order = list(range(8))
    random.shuffle(order)
    first, second = solve_exact(costs), solve_exact(permuted(costs, order, rename=True))
    assert second.objective == first.objective
    outs = [tuple(sorted(row)) for row in costs.links.tolist()]
    ins = [tuple(sorted(row)) for row in costs.links.T.tolist()]
    if len(set(zip(costs.source.tolist(), outs, ins, strict=True))) == 8:
        assert second.psi.tolist() == first.psi[order].tolist()
        assert (second.alpha == first.alpha[np.ix_(order, order)]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eligible", ["half", "all"])
def test_larger_networks_are_proven_optimal(kind: str, eligible: str) -> None:
    costs = network(kind, 40, 3, eligible=eligible, barred=0.2 if kind == "uniform" else 0.0)
    plan = solved(costs)
    assert plan is not None
    assert plan.optimal
    assert plan.gap <= 1e-9
    # Every target sits at its cheapest source, and no change of one device's role pays.
    assert (plan.alpha == best_alpha(plan.psi, costs)).all()
    for i in np.flatnonzero(costs.eligible):
        other = plan.psi.copy()
        other[i] = 1 - other[i]
        try:
            alpha = best_alpha(other, costs)
        except InputError:
            continue
        value = costs.phi[0] * costs.source[other == 0].sum() + np.nansum(costs.links[alpha > 0])
        assert value >= plan.objective - 1e-9


@given(small_networks(), st.sampled_from((None, 0.5, 4.0)))
def test_branching_equals_brute_force(costs: LinkCosts, price: float | None) -> None:
    options = {} if price is None else {"allow_unserved": price}
    # Without local search.
    with mock.patch.object(exact, "improve", lambda _, start: start):
        plan = solved(costs, **options)
    best = brute_force(costs, price)
    if plan is None:
        assert best == np.inf
    else:
        assert plan.objective == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert plan.optimal


@pytest.mark.parametrize("kind", ["alike", "dear sources", "uniform", "ties"])
@pytest.mark.parametrize("eligible", ["half", "all"])
def test_branching_and_programming_agree(kind: str, eligible: str) -> None:
    costs = network(kind, 30, 2, eligible=eligible, barred=0.1)
    plan = solved(costs)
    assert plan is not None
    assert plan.objective == pytest.approx(plain_program(costs), rel=1e-7)
    assert plan.optimal
    rough = solved(costs, gap=0.05)
    assert rough is not None
    assert rough.lower_bound <= plan.objective + 1e-9
    assert rough.objective <= plan.objective + 0.05 * max(1.0, abs(plan.objective)) + 1e-9
    assert rough.gap <= 0.05
    assert rough.details["nodes"] <= plan.details["nodes"]


def test_a_time_limit_leaves_a_plan_a_bound_and_words() -> None:
    costs = network("alike", 200, 0, eligible="all")
    plan = solved(costs, time_limit=0.3)
    assert plan is not None
    assert plan.gap > 0
    assert not plan.optimal
    assert "time limit" in plan.status
    assert "time_limit" in plan.status
    accepted = solved(costs, gap=2 * plan.gap)
    assert accepted is not None
    assert accepted.optimal


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["uniform", "paper", "ties", "negative"])
def test_never_worse_than_the_published_solver(kind: str) -> None:
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    for seed, eligible in ((0, "half"), (1, "all")):
        costs = network(kind, 6, seed, eligible=eligible)
        published = links(costs, method="gp")
        assert solve_exact(costs).objective <= evaluate(published, costs) + 1e-9


def test_no_energy_and_free_training_make_every_device_a_source() -> None:
    costs = LinkCosts(np.ones(4), np.ones((4, 4)), np.ones((4, 4)), phi=(0, 5, 1))
    assert solve_exact(costs).targets == ()


def test_dear_links_do_not_make_every_device_a_target() -> None:
    costs = network("uniform", 6, 0, eligible="half")
    dear = LinkCosts(
        costs.source, costs.transfer, costs.energy, phi=(1, 5, 1e6), eligible=costs.eligible
    )
    plan = solve_exact(dear)
    assert set(plan.sources) == {"0", "1", "2"}
    assert len(plan.links) == 3


def test_nobody_can_teach() -> None:
    costs = LinkCosts([1, 1], np.ones((2, 2)), np.ones((2, 2)), eligible=[False, False])
    with pytest.raises(NoEligibleSource) as caught:
        solve_exact(costs)
    assert caught.value.code == "no-eligible-source"
    plan = solve_exact(costs, allow_unserved=3.0)
    assert (plan.objective, plan.unserved, plan.links) == (6.0, ("0", "1"), ())
    assert evaluate(plan, costs) == 6.0


def test_a_target_that_nobody_reaches_is_named() -> None:
    transfer = np.ones((3, 3))
    transfer[:, 2] = np.inf
    costs = LinkCosts(
        np.ones(3), transfer, np.ones((3, 3)), eligible=[True, True, False], names=["a", "b", "c"]
    )
    with pytest.raises(InputError, match="'c'") as caught:
        solve_exact(costs)
    assert caught.value.code == "target-unreachable"
    assert solve_exact(costs, allow_unserved=1.0).unserved == ("c",)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"time_limit": 0.0}, "option-time-limit"),
        ({"time_limit": float("nan")}, "option-time-limit"),
        ({"gap": -1.0}, "option-gap"),
        ({"gap": float("nan")}, "option-gap"),
        ({"allow_unserved": -1.0}, "option-unserved"),
        ({"allow_unserved": float("inf")}, "option-unserved"),
        ({"method": "guess"}, "option-method"),
        ({"start": "paper"}, "option-unknown"),
        ({"method": "gp", "allow_unserved": 1.0}, "gp-objective"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(SilotError) as caught:
        links(network("uniform", 4, 0), **options)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_evaluate_reads_the_plan_itself() -> None:
    costs = network("uniform", 6, 1)
    plan = solve_exact(costs)
    fields = {each.name: getattr(plan, each.name) for each in dataclasses.fields(plan)}
    forged = LinkPlan(**{**fields, "objective": -5.0})
    assert evaluate(forged, costs) == plan.objective
    with pytest.raises(MismatchError):
        evaluate(plan, permuted(costs, [1, 0, 2, 3, 4, 5]))
    wrong = plan.alpha.copy()
    wrong[wrong > 0] = 1 + 1e-6
    with pytest.raises(InputError) as caught:
        evaluate(LinkPlan(**{**fields, "alpha": wrong}), costs)
    assert caught.value.code == "plan-weights"


@pytest.mark.parametrize(
    ("psi", "alpha", "code"),
    [
        ([0, 1, 1], [[0, 1, 0], [0, 0, 1], [0, 0, 0]], "plan-constraint"),  # a target sends
        ([0, 1, 0], [[0, 1, 1], [0, 0, 0], [0, 0, 0]], "plan-constraint"),  # a source receives
        ([1, 1, 0], [[0, 0, 0], [0, 0, 0], [1, 1, 0]], "plan-constraint"),  # may not be a source
        ([0, 1, 1], [[0, 1, 0], [0, 0, 0], [0, 0, 0]], "plan-weights"),
        ([0, 1, 1], [[0, 1, np.nan], [0, 0, 0], [0, 0, 0]], "plan-weights"),
        ([0, 2, 1], [[0, 1, 1], [0, 0, 0], [0, 0, 0]], "plan-psi"),
        ([0, 1], [[0, 1], [0, 0]], "plan-shape"),
    ],
)
def test_what_is_no_plan_is_refused(psi: list[int], alpha: list[list[float]], code: str) -> None:
    costs = LinkCosts(np.ones(3), np.ones((3, 3)), np.ones((3, 3)), eligible=[True, True, False])
    with pytest.raises(InputError) as caught:
        check_plan(psi, alpha, costs)
    assert caught.value.code == code


def test_a_plan_is_json() -> None:
    plan = solve_exact(network("uniform", 5, 0), allow_unserved=2.0)
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["details"]["unserved_cost"] == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"phi": None}, "costs-type"),
        ({"phi": 3}, "costs-type"),
        ({"phi": ("a", 1, 1)}, "costs-type"),
        ({"eligible": [[True], [True, False]]}, "costs-type"),
        ({"source": [1e308, 1.0], "phi": (10, 1, 1)}, "costs-large"),
    ],
)
def test_costs_of_a_wrong_kind_are_refused(fields: dict[str, Any], code: str) -> None:
    known: dict[str, Any] = {
        "source": [1.0, 2.0], "transfer": [[0, 1], [1, 0]], "energy": [[0, 1], [1, 0]],
    }  # fmt: skip
    with pytest.raises(InputError) as caught:
        LinkCosts(**(known | fields))
    assert caught.value.code == code


def test_options_of_a_wrong_kind_are_refused() -> None:
    costs = LinkCosts([1.0, 2.0], [[0, 1], [1, 0]], [[0, 1], [1, 0]])
    plan = links(costs)
    calls: tuple[tuple[Any, str], ...] = (
        (lambda: links(costs, gap="x"), "option-gap"),  # type: ignore[arg-type]
        (lambda: links(costs, time_limit=None), "option-time-limit"),  # type: ignore[arg-type]
        (lambda: links(costs, allow_unserved="x"), "option-unserved"),  # type: ignore[arg-type]
        (lambda: links({"a": 1}), "costs-type"),  # type: ignore[arg-type]
        (lambda: evaluate(costs, plan), "plan-type"),  # type: ignore[arg-type]
    )
    for call, code in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == code


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_fifty_devices_of_dear_training_are_branched_on(seed: int) -> None:
    rng = np.random.default_rng([seed, 50])
    pairs = rng.uniform(size=(50, 50))
    costs = LinkCosts(5 * rng.uniform(5, 10, 50), pairs, np.zeros((50, 50)), phi=(1, 5, 1))
    plan = solve_exact(costs)
    assert plan.optimal
    assert plan.details["nodes"] > 0
    assert plain_program(costs) == pytest.approx(plan.objective, rel=1e-7)
