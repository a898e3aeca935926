"""Links class by class: proven optimal, and what expected errors are made of."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.adaptation import LinkCosts, NoEligibleSource
from silot.adaptation.coverage import coverage_terms, solve_coverage
from silot.adaptation.matching import class_distances, match
from silot.errors import InputError
from silot.learning import random_features

seeds = st.integers(0, 10_000)


def instance(
    n: int, classes: int, seed: int, phi: tuple[float, float, float] = (0.2, 1.0, 0.02)
) -> tuple[LinkCosts, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    eligible = np.arange(n) < max(1, n - 2)
    errors = rng.uniform(size=(n, n, classes))
    errors[rng.uniform(size=errors.shape) < 0.4] = 1.0
    barred = np.where(rng.uniform(size=(n, n)) < 0.1, np.inf, 0.0)
    barred[0] = 0.0
    costs = LinkCosts(
        rng.uniform(size=n), barred, rng.uniform(1, 3, (n, n)), phi=phi, eligible=eligible
    )
    return costs, rng.dirichlet(np.ones(classes), n), errors


def brute_force(
    costs: LinkCosts, shares: np.ndarray, errors: np.ndarray, budget: float | None
) -> float:
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
            best = min(best, coverage_terms(costs, shares, errors, sources, links).total)
    return best


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 4), st.sampled_from([None, 0.3, 0.6]))
def test_the_plan_is_as_good_as_the_best_of_all(
    seed: int, n: int, classes: int, budget: float | None
) -> None:
    costs, shares, errors = instance(n, classes, seed)
    best = brute_force(costs, shares, errors, budget)
    if not np.isfinite(best):
        return
    plan = solve_coverage(costs, shares, errors, budget=budget)
    assert plan.objective == pytest.approx(best, abs=1e-7)
    assert plan.optimal
    assert plan.lower_bound <= plan.objective


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_plan_is_a_plan(seed: int) -> None:
    costs, shares, errors = instance(8, 5, seed, phi=(0.0, 1.0, 1e-3))
    plan = solve_coverage(costs, shares, errors, budget=0.4)
    targets = plan.psi == 1
    np.testing.assert_allclose(plan.alpha[:, targets].sum(axis=0), 1.0, atol=1e-12)
    assert (plan.alpha[:, ~targets] == 0).all()
    assert (plan.alpha[targets] == 0).all()
    assert (costs.eligible | targets).all()
    assert plan.energy == pytest.approx(costs.energy[plan.alpha > 0].sum())


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_the_order_of_devices_does_not_matter(seed: int) -> None:
    costs, shares, errors = instance(7, 4, seed)
    order = np.random.default_rng(seed).permutation(7)
    other = LinkCosts(
        costs.source[order], costs.transfer[np.ix_(order, order)],
        costs.energy[np.ix_(order, order)], phi=costs.phi, eligible=costs.eligible[order],
        names=[costs.names[k] for k in order],
    )  # fmt: skip
    first = solve_coverage(costs, shares, errors)
    second = solve_coverage(other, shares[order], errors[np.ix_(order, order)])
    assert second.objective == pytest.approx(first.objective, abs=1e-9)
    assert set(second.links) == set(first.links)


def test_two_sources_that_know_different_classes_are_both_linked() -> None:
    energy = np.ones((3, 3))
    costs = LinkCosts([0, 0, 0], 0 * energy, energy, phi=(0, 1, 0.1), eligible=[True, True, False])
    errors = np.ones((3, 3, 2))
    errors[0, 2], errors[1, 2] = [0.0, 1.0], [1.0, 0.0]
    half = solve_coverage(costs, [[1, 0], [0, 1], [0.5, 0.5]], errors)
    assert half.links == (("0", "2", 0.5), ("1", "2", 0.5))
    whole = solve_coverage(costs, [[1, 0], [0, 1], [0.95, 0.05]], errors)
    assert whole.links == (("0", "2", 1.0),)
    within = solve_coverage(costs, [[1, 0], [0, 1], [0.5, 0.5]], errors, budget=0.5)
    assert len(within.links) == 1


def test_however_small_the_budget_a_target_gets_one_link() -> None:
    costs, shares, errors = instance(6, 3, 0, phi=(0.0, 1.0, 0.0))
    plan = solve_coverage(costs, shares, errors, budget=1e-9)
    assert len(plan.links) == len(plan.targets) > 0


def test_a_hundred_devices_are_solved_to_the_end() -> None:
    costs, shares, errors = instance(60, 10, 1, phi=(0.0, 1.0, 1e-3))
    assert solve_coverage(costs, shares, errors, budget=0.3).optimal


def test_what_cannot_be_solved_is_said() -> None:
    energy = np.ones((2, 2))
    shares, errors = np.ones((2, 1)), np.ones((2, 2, 1))
    nobody = LinkCosts([0, 0], energy, energy, eligible=[False, False])
    with pytest.raises(NoEligibleSource):
        solve_coverage(nobody, shares, errors)
    barred = LinkCosts([0, 0], [[0, np.inf], [0, 0]], energy, eligible=[True, False])
    with pytest.raises(InputError) as caught:
        solve_coverage(barred, shares, errors)
    assert caught.value.code == "target-unreachable"
    fine = LinkCosts([0, 0], energy, energy, eligible=[True, False])
    for change, code in (
        ({"shares": np.ones((2, 2))}, "coverage-shape"),
        ({"shares": np.full((2, 1), 0.5)}, "coverage-range"),
        ({"errors": np.full((2, 2, 1), 1.5)}, "coverage-range"),
        ({"errors": np.full((2, 2, 1), np.nan)}, "coverage-range"),
        ({"budget": 0.0}, "option-budget"),
    ):
        with pytest.raises(InputError) as caught:
            solve_coverage(fine, **({"shares": shares, "errors": errors} | change))  # type: ignore[arg-type]
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
        ({"ridge": 0.0}, "option-matching"),
        ({"domain_weight": -1.0}, "option-matching"),
    ):
        given_ = {
            "means": means, "class_means": by_class, "counts": counts, "class_errors": errors,
        } | change  # fmt: skip
        with pytest.raises(InputError) as caught:
            match(**given_)  # type: ignore[arg-type]
        assert caught.value.code == code
