"""Links class by class: proven optimal, and what expected errors are made of."""

import dataclasses
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import InputError
from silot.teaching.costs import LinkCosts, NoEligibleSource, reordered
from silot.teaching.coverage import solve_coverage
from silot.teaching.federated import random_features
from silot.teaching.matching import class_distances, match
from silot.teaching.plan import LinkPlan, check_plan, evaluate
from tests.tiers import examples

seeds = st.integers(0, 10_000)


def instance(
    n: int, classes: int, seed: int, phi: tuple[float, float, float] = (0.2, 1.0, 0.02)
) -> LinkCosts:
    rng = np.random.default_rng(seed)
    eligible = np.arange(n) < max(1, n - 2)
    errors = rng.uniform(size=(n, n, classes))
    errors[rng.uniform(size=errors.shape) < 0.4] = 1.0
    barred = np.where(rng.uniform(size=(n, n)) < 0.1, np.inf, 0.0)
    barred[0] = 0.0
    return LinkCosts(
        rng.uniform(size=n), barred, rng.uniform(1, 3, (n, n)), phi=phi, eligible=eligible,
        shares=rng.dirichlet(np.ones(classes), n), class_errors=errors,
    )  # fmt: skip


def value(costs: LinkCosts, sources: np.ndarray, links: np.ndarray) -> float:
    """The objective, from its definition."""
    shares, errors = costs.shares, costs.class_errors
    assert shares is not None
    assert errors is not None
    total = costs.phi[0] * costs.source[sources].sum() + costs.phi[2] * costs.energy[links].sum()
    for j in np.flatnonzero(~sources):
        senders = np.flatnonzero(links[:, j])
        for c, share in enumerate(shares[j]):
            total += costs.phi[1] * share * min(errors[i, j, c] for i in senders)
    return float(total)


def brute_force(costs: LinkCosts, budget: float | None) -> float:
    n = costs.size
    allowed = np.isfinite(costs.links)
    best = np.inf
    for kinds in itertools.product(*[(0, 1) if e else (0,) for e in costs.eligible]):
        sources = np.array(kinds, dtype=bool)
        if not sources.any():
            continue
        options = []
        room = 0.0
        for j in np.flatnonzero(~sources):
            can = np.flatnonzero(allowed[:, j])
            if budget is not None and len(can):
                power = costs.energy[can, j]
                room += max(budget * power.sum(), power.min())
            able = [i for i in can if sources[i]]
            options.append(
                [
                    [(i, j) for i in some]
                    for size in range(1, len(able) + 1)
                    for some in itertools.combinations(able, size)
                ]
            )
        for chosen in itertools.product(*options):
            links = np.zeros((n, n), dtype=bool)
            for i, j in itertools.chain(*chosen):
                links[i, j] = True
            if budget is not None and costs.energy[links].sum() > room + 1e-12:
                continue
            best = min(best, value(costs, sources, links))
    return best


@settings(max_examples=examples(25), deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 4), st.sampled_from([None, 0.3, 0.6]))
def test_the_plan_is_as_good_as_the_best_of_all(
    seed: int, n: int, classes: int, budget: float | None
) -> None:
    costs = instance(n, classes, seed)
    best = brute_force(costs, budget)
    if not np.isfinite(best):
        return
    plan = solve_coverage(costs, budget=budget)
    assert plan.objective == pytest.approx(best, abs=1e-7)
    assert plan.optimal
    assert plan.lower_bound <= plan.objective


@settings(max_examples=examples(25), deadline=None)
@given(seeds)
def test_a_plan_is_a_plan(seed: int) -> None:
    costs = instance(8, 5, seed, phi=(0.0, 1.0, 1e-3))
    plan = solve_coverage(costs, budget=0.4)
    check_plan(plan.psi, plan.alpha, costs)
    assert evaluate(plan, costs) == plan.objective
    targets = plan.psi == 1
    np.testing.assert_allclose(plan.alpha[:, targets].sum(axis=0), 1.0, atol=1e-12)
    assert (plan.alpha[:, ~targets] == 0).all()
    assert (plan.alpha[targets] == 0).all()
    assert (costs.eligible | targets).all()
    assert plan.energy == pytest.approx(costs.energy[plan.alpha > 0].sum())


@settings(max_examples=examples(15), deadline=None)
@given(seeds)
def test_thecosts_of_devices_does_not_matter(seed: int) -> None:
    costs = instance(7, 4, seed)
    order = np.random.default_rng(seed).permutation(7)
    first = solve_coverage(costs)
    second = solve_coverage(reordered(costs, order))
    assert second.objective == pytest.approx(first.objective, abs=1e-9)
    assert set(second.links) == set(first.links)


@settings(max_examples=examples(25))
@given(seeds, seeds)
def test_evaluate_reads_a_plan_that_was_changed(seed: int, change: int) -> None:
    costs, rng = instance(7, 4, seed), np.random.default_rng(change)
    plan = solve_coverage(costs)
    fields = {each.name: getattr(plan, each.name) for each in dataclasses.fields(plan)}
    sources = costs.eligible & (rng.uniform(size=7) < 0.5)
    sources[0] = True  # it may reach everybody
    links = np.isfinite(costs.links) & sources[:, None] & ~sources
    links[1:] &= rng.uniform(size=(6, 7)) < 0.5
    other = LinkPlan(
        **{**fields, "psi": np.where(sources, 0, 1), "alpha": links / np.maximum(links.sum(0), 1)}
    )
    assert evaluate(other, costs) == pytest.approx(value(costs, sources, links), rel=1e-12)
    assert evaluate(other, costs) >= plan.objective - 1e-6
    # Weights do not matter as long as they sum to 1; which links there are does.
    uneven = other.alpha * rng.uniform(0.1, 1.0, (7, 7))
    uneven /= np.where(uneven.sum(axis=0) > 0, uneven.sum(axis=0), 1.0)
    assert evaluate(replace(other, alpha=uneven), costs) == evaluate(other, costs)
    with pytest.raises(InputError) as caught:
        evaluate(plan, replace(costs, shares=None, class_errors=None))
    assert caught.value.code == "coverage-data"
    with pytest.raises(InputError) as caught:
        evaluate(replace(plan, alpha=0.5 * plan.alpha), costs)
    assert caught.value.code == "plan-weights"


def test_two_sources_that_know_different_classes_are_both_linked() -> None:
    energy = np.ones((3, 3))
    errors = np.ones((3, 3, 2))
    errors[0, 2], errors[1, 2] = [0.0, 1.0], [1.0, 0.0]
    even = LinkCosts(
        [0, 0, 0], 0 * energy, energy, phi=(0, 1, 0.1), eligible=[True, True, False],
        shares=[[1, 0], [0, 1], [0.5, 0.5]], class_errors=errors,
    )  # fmt: skip
    assert solve_coverage(even).links == (("0", "2", 0.5), ("1", "2", 0.5))
    one = replace(even, shares=[[1, 0], [0, 1], [0.95, 0.05]])
    assert solve_coverage(one).links == (("0", "2", 1.0),)
    assert len(solve_coverage(even, budget=0.5).links) == 1


def test_however_small_the_budget_a_target_gets_one_link() -> None:
    costs = instance(6, 3, 0, phi=(0.0, 1.0, 0.0))
    plan = solve_coverage(costs, budget=1e-9)
    assert len(plan.links) == len(plan.targets) > 0


def test_a_hundred_devices_are_solved_to_the_end() -> None:
    costs = instance(60, 10, 1, phi=(0.0, 1.0, 1e-3))
    assert solve_coverage(costs, budget=0.3).optimal


def test_what_cannot_be_solved_is_said() -> None:
    energy = np.ones((2, 2))
    fine = LinkCosts(
        [0, 0], energy, energy, eligible=[True, False], shares=np.ones((2, 1)),
        class_errors=np.ones((2, 2, 1)),
    )  # fmt: skip
    with pytest.raises(NoEligibleSource):
        solve_coverage(replace(fine, eligible=[False, False]))
    for costs, options, code in (
        (replace(fine, transfer=[[0, np.inf], [0, 0]]), {}, "target-unreachable"),
        (fine, {"budget": 0.0}, "option-budget"),
        (replace(fine, shares=None, class_errors=None), {}, "coverage-data"),
    ):
        with pytest.raises(InputError) as caught:
            solve_coverage(costs, **options)
        assert caught.value.code == code
    for change, code in (
        ({"shares": np.ones((2, 2))}, "coverage-shape"),
        ({"shares": None}, "coverage-shape"),
        ({"shares": np.full((2, 1), 0.5)}, "coverage-range"),
        ({"class_errors": np.full((2, 2, 1), 1.5)}, "coverage-range"),
        ({"class_errors": np.full((2, 2, 1), np.nan)}, "coverage-range"),
    ):
        with pytest.raises(InputError) as caught:
            replace(fine, **change)
        assert caught.value.code == code


def devices(seed: int, proportions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean features of devices that draw from three classes of one domain."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    means, by_class, counts = [], [], []
    for row in proportions:
        numbers = np.round(400 * row).astype(int)
        codes = np.repeat(np.arange(3), numbers)
        x = centres[codes] + rng.normal(size=(len(codes), 2))
        lifted = random_features(x, features=256, bandwidth=2.0, seed=1)
        means.append(lifted.mean(axis=0))
        by_class.append(
            [lifted[codes == c].mean(axis=0) if numbers[c] else np.zeros(256) for c in range(3)]
        )
        counts.append(numbers)
    return np.array(means), np.array(by_class), np.array(counts)


@pytest.mark.parametrize("seed", range(4))
def test_class_proportions_of_a_target_are_found(seed: int) -> None:
    wanted = np.array([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.1, 0.2, 0.7], [0.8, 0.2, 0.0]])
    means, by_class, counts = devices(seed, wanted)
    known = counts.copy()
    known[2:] = 0
    found = match(means, by_class, known, np.full((4, 3), 0.1))
    np.testing.assert_allclose(found.shares, wanted, atol=0.08)
    # A source without a class gets all its records wrong; one domain adds next to nothing.
    expected = 0.1 + 0.9 * wanted[2, 2]
    assert found.transfer[0, 2] == pytest.approx(expected, abs=0.15)
    assert found.transfer[1, 2] < found.transfer[0, 2]
    assert found.transfer[0, 3] < found.transfer[1, 3]
    np.testing.assert_allclose(found.transfer[2:], 1.0)


def test_one_law_has_no_distance_and_another_domain_has() -> None:
    rng = np.random.default_rng(0)
    total, trials = 0.0, 40
    for _ in range(trials):
        x = rng.normal(size=(2, 30, 2))
        lifted = [random_features(part, features=128, bandwidth=2.0, seed=0) for part in x]
        means = np.array([[part.mean(axis=0)] for part in lifted])
        total += class_distances(means, np.full((2, 1), 30))[0, 1] ** 2
    assert total / trials < 0.02
    far = np.array([[random_features(x[k] + 9.0 * k, features=128, bandwidth=2.0, seed=0).mean(0)]
                    for k in range(2)])  # fmt: skip
    assert class_distances(far, np.full((2, 1), 30))[0, 1] > 0.4


def test_a_class_too_small_to_tell_its_mean_has_the_share_of_all_labels() -> None:
    means, by_class, counts = devices(0, np.array([[0.5, 0.5, 0.0], [0.3, 0.7, 0.0]]))
    labelled = np.where([[True], [False]], [[200, 200, 100]] * 2, 0)
    known = np.where([[True], [False]], counts, 0)
    found = match(means, by_class, known, np.full((2, 3), 0.2), labelled=labelled)
    np.testing.assert_allclose(found.shares[:, 2], 0.2)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.shares[1, :2], 0.8 * np.array([0.3, 0.7]), atol=0.08)
    # Its source expects an error there, not to know nothing of it.
    np.testing.assert_allclose(found.errors[0, :, 2], 0.2)


def test_matching_refuses_what_does_not_fit() -> None:
    means, by_class, counts = np.zeros((2, 4)), np.zeros((2, 3, 4)), np.ones((2, 3), dtype=int)
    errors = np.zeros((2, 3))
    for change, code in (
        ({"means": np.zeros((2, 5))}, "matching-shape"),
        ({"means": np.full((2, 4), np.nan)}, "matching-shape"),
        ({"counts": np.ones((3, 3), dtype=int)}, "matching-shape"),
        ({"class_errors": np.zeros((2, 2))}, "matching-shape"),
        ({"counts": 0 * counts}, "labels-absent"),
        ({"labelled": 0 * counts}, "matching-shape"),
        ({"labelled": np.ones((2, 2))}, "matching-shape"),
    ):
        given_ = {
            "means": means, "class_means": by_class, "counts": counts, "class_errors": errors,
        } | change  # fmt: skip
        with pytest.raises(InputError) as caught:
            match(**given_)  # type: ignore[arg-type]
        assert caught.value.code == code


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_units_do_not_matter(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    n, classes = 6, 3
    fields: dict[str, Any] = {
        "shares": rng.dirichlet(np.ones(classes), n), "class_errors": rng.random((n, n, classes)),
    }  # fmt: skip
    energy, source = rng.random((n, n)), 0.2 * rng.random(n)
    plans = [
        solve_coverage(
            LinkCosts(source, energy, energy * unit, phi=(k, k, 0.1 * k / unit), **fields),
            budget=0.6,
        )
        for k, unit in ((1.0, 1.0), (scale, 1.0), (1.0, scale))
    ]
    for plan, k in zip(plans, (1.0, scale, 1.0), strict=True):
        assert plan.objective == pytest.approx(k * plans[0].objective, rel=1e-6)
        assert plan.lower_bound <= k * plans[0].objective * (1 + 1e-9)
        assert plan.optimal


def test_a_source_that_is_best_for_no_class_is_not_linked() -> None:
    n = 6
    errors = np.full((n, n, 2), 0.9)
    errors[0] = 0.0
    costs = LinkCosts(
        [0.0] * n, np.ones((n, n)), np.ones((n, n)), phi=(0, 1, 0),
        eligible=[True] * 5 + [False], shares=np.full((n, 2), 0.5), class_errors=errors,
    )  # fmt: skip
    assert solve_coverage(costs).links == (("0", "5", 1.0),)
