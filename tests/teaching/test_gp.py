"""Successive geometric programming: what it promises, and what it cannot."""

from __future__ import annotations

import builtins
import itertools
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.stlf.stored_runs import rebuild
from silot.errors import ExtraError, InputError, SilotError
from silot.teaching.costs import LinkCosts, NoEligibleSource
from silot.teaching.exact import links
from silot.teaching.gp import (
    FLOOR,
    GeometricProgram,
    Point,
    Relaxation,
    Relaxed,
    Start,
    Surrogate,
    starting_point,
)
from silot.teaching.plan import LinkPlan, best_alpha, check_plan, evaluate, terms_of
from silot.teaching.published import PublishedSolver
from tests.teaching import networks
from tests.tiers import examples

_FIELDS = ("errors", "divergences", "records", "energy")

if find_spec("cvxpy") is None or find_spec("clarabel") is None:
    pytest.skip("geometric programming needs silot[gp]", allow_module_level=True)


def relax_gp(costs: LinkCosts, **options: Any) -> Relaxation:
    return GeometricProgram(**options).relax(costs)


def solve_gp(costs: LinkCosts, **options: Any) -> LinkPlan:
    return GeometricProgram(**options).solve(costs)


STARTS: tuple[Start, ...] = ("paper", "symmetric", "random")


def network(
    seed: int, size: int, *, scale: float = 1.0, barred: float = 0.0, low: float = 0.0
) -> LinkCosts:
    """A random network in which every device can be served."""
    rng = np.random.default_rng([seed, size])
    eligible = np.arange(size) < max(1, rng.integers(1, size + 1))
    energy = rng.uniform(0.1, 2.0, (size, size))
    energy[rng.uniform(size=(size, size)) < barred] = np.inf
    energy[0] = np.where(np.isinf(energy[0]), 1.0, energy[0])
    return LinkCosts(
        scale * rng.uniform(low, 5.0, size),
        scale * rng.uniform(low, 5.0, (size, size)),
        scale * energy,
        phi=(1.0, rng.uniform(0.2, 5.0), rng.uniform(0.0, 2.0)),
        eligible=eligible,
    )


def uniform_network(devices: int = 10) -> LinkCosts:
    """Half the devices have labels; all distances, errors and energies alike."""
    half = np.arange(devices) < devices // 2
    return LinkCosts(
        np.where(half, 2.6, 3.4),
        np.full((devices, devices), 12.7),
        np.full((devices, devices), 3.5),
        eligible=half,
    )


def best_by_force(costs: LinkCosts) -> float:
    """Smallest objective of any plan."""
    best = np.inf
    for kinds in itertools.product((0, 1), repeat=costs.size):
        psi = np.array(kinds)
        reached = np.isfinite(costs.links[psi == 0]).any(axis=0) | (psi == 0)
        if costs.eligible[psi == 0].all() and reached.all():
            best = min(best, terms_of(psi, best_alpha(psi, costs), costs).total)
    return best


@pytest.mark.heavy
@settings(max_examples=examples(12), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 7),
    start=st.sampled_from(STARTS),
    missing=st.booleans(),
)
def test_the_surrogate_never_rises(seed: int, size: int, start: Start, missing: bool) -> None:
    found = relax_gp(
        network(seed, size), start=start, seed=seed, missing_constraint=missing, max_iterations=25
    )
    surrogate = np.array([entry["surrogate"] for entry in found.history])
    assert (np.diff(surrogate) <= 0).all()


@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 7))
def test_the_surrogate_is_above_the_relaxed_objective_and_meets_it(seed: int, size: int) -> None:
    costs = network(seed, size, low=0.5)
    found = relax_gp(costs, start="random", seed=seed)
    largest = sum(phi * max(1.0, np.abs(part).max()) for phi, part in _parts(costs))
    for entry in found.history:
        assert entry["surrogate"] >= entry["objective"] - 1e-5 * largest
    # What remains between them: variables at their floor, and the excess of the sums.
    last = found.history[-1]
    assert last["surrogate"] - last["objective"] <= 1e-3 * largest * size
    assert last["objective"] == found.objective


def _parts(costs: LinkCosts) -> list[tuple[float, Any]]:
    return list(zip(costs.phi, (costs.source, costs.transfer, costs.energy), strict=True))


@settings(max_examples=examples(15), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 6),
    start=st.sampled_from(STARTS),
    rounding=st.sampled_from(["best-response", "paper", "threshold"]),
    missing=st.booleans(),
    barred=st.sampled_from([0.0, 0.3]),
)
def test_a_plan_is_valid_and_no_better_than_the_best(
    seed: int, size: int, start: Start, rounding: Any, missing: bool, barred: float
) -> None:
    costs = network(seed, size, barred=barred)
    plan = solve_gp(
        costs,
        start=start,
        seed=seed,
        rounding=rounding,
        missing_constraint=missing,
        max_iterations=20,
    )
    check_plan(plan.psi, plan.alpha, costs)
    assert np.abs(plan.alpha.sum(axis=0) - plan.psi).max() <= 1e-9
    assert (plan.psi[~costs.eligible] == 1).all()
    assert plan.objective == pytest.approx(evaluate(plan, costs), abs=1e-12)
    best = best_by_force(costs)
    assert plan.objective >= best - 1e-9 * max(1.0, abs(best))
    assert plan.lower_bound == -np.inf and not plan.optimal and "without proof" in plan.status
    of = plan.details
    assert of["threshold_objective"] <= of["best_response_objective"] + 1e-9
    assert of["best_response_objective"] <= of["paper_rounding_objective"] + 1e-9
    assert 0.0 <= of["non_binariness"] <= 0.5


@settings(max_examples=examples(25), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 9),
    start=st.sampled_from(STARTS),
    missing=st.booleans(),
)
def test_every_start_is_feasible(seed: int, size: int, start: Start, missing: bool) -> None:
    problem, point = _started(network(seed, size), start, seed, missing=missing)
    sums = problem.sums(point.alpha)
    assert (sums <= point.psi + point.excess + 0.01 + 1e-9).all()
    assert (sums >= point.psi + point.excess - 0.01 - 1e-9).all()
    assert (point.psi[~problem.eligible] == 1).all()
    if missing:
        assert (point.alpha + point.psi[problem.rows] <= 1 + 2 * FLOOR).all()


def _started(
    costs: LinkCosts, start: Start, seed: int, *, missing: bool = True
) -> tuple[Relaxed, Point]:
    problem = Relaxed.of(costs, barred=missing, epsilon_energy=0.01, epsilon_sum=0.01)
    return problem, starting_point(problem, costs.names, start, seed=seed)


def test_one_device_that_may_train_serves_all() -> None:
    costs = LinkCosts(
        [9.0, 1.0, 1.0, 1.0],
        np.full((4, 4), 7.0),
        np.full((4, 4), 0.5),
        eligible=[True, False, False, False],
    )
    for start in STARTS:
        plan = solve_gp(costs, start=start)
        assert plan.sources == ("0",)
        assert plan.links == (("0", "1", 1.0), ("0", "2", 1.0), ("0", "3", 1.0))


def test_without_the_missing_constraint_targets_serve_each_other() -> None:
    # Receiving from a source costs 5 times 10, from another target its energy alone.
    half = [True, True, False, False]
    costs = LinkCosts([1.0] * 4, np.full((4, 4), 10.0), np.full((4, 4), 0.1), eligible=half)
    printed = solve_gp(costs, missing_constraint=False)
    mended = solve_gp(costs)
    assert printed.details["phantom_links"] >= 2
    assert printed.details["phantom_weight"] > 0.9
    assert printed.details["relaxed_objective"] < 0.2 * mended.objective
    assert mended.details["phantom_links"] == 0
    # The plan itself is one all the same.
    check_plan(printed.psi, printed.alpha, costs)


def test_equal_distances_from_a_symmetric_start_give_equal_weights() -> None:
    costs = uniform_network()
    found = relax_gp(costs, start="symmetric")
    to_unlabelled = found.alpha[:5, 5:]
    assert np.ptp(to_unlabelled) < 1e-3 and to_unlabelled.mean() == pytest.approx(0.2, abs=5e-3)
    assert np.ptp(found.psi[:5]) < 1e-3
    # A saddle: the best plan has one link a target.
    plan = solve_gp(costs, start="symmetric", rounding="paper")
    assert plan.objective > 1.1 * terms_of(_half(10), best_alpha(_half(10), costs), costs).total


def test_the_start_of_the_paper_gives_its_uniform_regime() -> None:
    costs = uniform_network()
    plan = solve_gp(costs, rounding="paper")
    assert plan.psi.tolist() == _half(10)
    np.testing.assert_allclose(plan.alpha[:5, 5:], 0.2, atol=1e-2)
    one_each = terms_of(_half(10), best_alpha(_half(10), costs), costs).total
    assert plan.objective - one_each == pytest.approx(5 * 4 * 3.5)
    assert plan.details["best_response_objective"] == pytest.approx(one_each)


def _half(devices: int) -> list[int]:
    return [0] * (devices // 2) + [1] * (devices - devices // 2)


def test_everybody_trains_where_no_link_is_allowed() -> None:
    barred = np.full((3, 3), np.inf)
    plan = solve_gp(LinkCosts([1.0, 2.0, 3.0], np.zeros((3, 3)), barred))
    assert plan.sources == ("0", "1", "2") and plan.objective == 6.0 and plan.history == ()


def test_without_a_source_the_nearest_to_it_is_opened() -> None:
    # From the symmetric start every psi ends above one half: 4 sources share each target.
    plan = solve_gp(uniform_network(8), start="symmetric")
    assert plan.details["non_binariness"] > 0.1
    assert len(plan.sources) == plan.details["opened"] == 1


def test_same_seed_same_plan_whatever_the_order_of_devices() -> None:
    costs = network(3, 6)
    order = np.array([4, 0, 5, 2, 1, 3])
    pairs = np.ix_(order, order)
    other = LinkCosts(
        costs.source[order],
        costs.transfer[pairs],
        costs.energy[pairs],
        phi=costs.phi,
        eligible=costs.eligible[order],
        names=[costs.names[i] for i in order],
    )
    first, second = (
        relax_gp(each, start="random", seed=7, tolerance=1e-3) for each in (costs, other)
    )
    again = relax_gp(costs, start="random", seed=7, tolerance=1e-3)
    assert first.history == again.history
    np.testing.assert_array_equal(
        _started(costs, "random", 7)[1].psi[order], _started(other, "random", 7)[1].psi
    )
    assert first.objective == pytest.approx(second.objective, rel=1e-2)
    different = relax_gp(costs, start="random", seed=8, tolerance=1e-3)
    assert different.history[0] != first.history[0]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(scale: float) -> None:
    small, scaled = (network(11, 5, scale=by) for by in (1.0, scale))
    first, second = solve_gp(small), solve_gp(scaled)
    assert first.psi.tolist() == second.psi.tolist()
    assert second.objective == pytest.approx(scale * first.objective, rel=1e-9)


def test_negative_costs_are_shifted() -> None:
    costs = network(5, 5)
    lower = LinkCosts(
        costs.source - 7.0 / costs.phi[0],
        costs.transfer - 7.0 / costs.phi[1],
        costs.energy,
        phi=costs.phi,
        eligible=costs.eligible,
    )
    first, second = solve_gp(costs), solve_gp(lower)
    check_plan(second.psi, second.alpha, lower)
    best = best_by_force(lower)
    assert best == pytest.approx(best_by_force(costs) - 7.0 * 5)
    assert second.objective >= best - 1e-9
    assert first.objective >= best + 35.0 - 1e-9
    assert (np.diff([entry["surrogate"] for entry in second.history]) <= 0).all()
    with pytest.raises(InputError) as caught:
        solve_gp(lower, missing_constraint=False)
    assert caught.value.code == "gp-negative"


@pytest.mark.parametrize("phi", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 1)])
def test_scales_may_be_zero(phi: tuple[float, float, float]) -> None:
    costs = LinkCosts(
        [1, 0, 3],
        [[0, 0, 2], [1, 0, 1], [2, 2, 0]],
        [[0, 1, 0], [2, 0, 3], [1, 1, 0]],
        phi=phi,
        eligible=[True, True, False],
    )
    plan = solve_gp(costs)
    check_plan(plan.psi, plan.alpha, costs)
    assert plan.objective >= best_by_force(costs) - 1e-12


def test_two_devices() -> None:
    costs = LinkCosts([1, 8], [[0, 1], [1, 0]], np.ones((2, 2)), eligible=[True, False])
    plan = solve_gp(costs)
    assert plan.psi.tolist() == [0, 1] and plan.links == (("0", "1", 1.0),)
    assert plan.objective == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"rounding": "up"}, "option-rounding"),
        ({"start": "best"}, "option-start"),
        ({"start_psi": 0.7}, "option-start-psi"),
        ({"epsilon_energy": 0.0}, "option-epsilon"),
        ({"epsilon_sum": np.nan}, "option-epsilon"),
        ({"max_iterations": 0}, "option-iterations"),
        ({"tolerance": -1.0}, "option-tolerance"),
        ({"time_limit": 0.0}, "option-time-limit"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        solve_gp(network(0, 3), **options)
    assert caught.value.code == code


def test_nobody_may_train_or_somebody_cannot_be_reached() -> None:
    with pytest.raises(NoEligibleSource) as none:
        solve_gp(LinkCosts([1, 1], np.ones((2, 2)), np.ones((2, 2)), eligible=[False, False]))
    assert none.value.code == "no-eligible-source"
    energy = np.ones((3, 3))
    energy[:, 2] = np.inf
    with pytest.raises(InputError) as alone:
        solve_gp(LinkCosts([1] * 3, np.ones((3, 3)), energy, eligible=[True, True, False]))
    assert alone.value.code == "target-unreachable"


def test_little_time_gives_the_start_and_says_so() -> None:
    plan = solve_gp(network(2, 6), time_limit=1e-9)
    assert "time limit" in plan.status and plan.history == ()
    plan = solve_gp(network(2, 6), max_iterations=2, tolerance=0.0)
    assert "stopped after 2 iterations" in plan.status and len(plan.history) == 2


def test_a_solver_that_fails_is_an_error_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import cvxpy

    def broken(*_: object, **__: object) -> None:
        raise cvxpy.SolverError("no")

    monkeypatch.setattr(cvxpy.Problem, "solve", broken)
    with pytest.raises(SilotError) as caught:
        solve_gp(network(2, 4))
    assert caught.value.code == "gp-solver"


@pytest.mark.parametrize(("rise", "converged"), [(1e-9, True), (0.5, False)])
def test_a_surrogate_that_rises_ends_it_and_is_left_out(
    monkeypatch: pytest.MonkeyPatch, rise: float, converged: bool
) -> None:
    values = iter([3.0, 2.0, 2.0 + rise])

    def inexact(self: Surrogate, point: Point, *, time_limit: float) -> tuple[float, Point]:
        return next(values), point

    monkeypatch.setattr(Surrogate, "around", inexact)
    found = relax_gp(network(2, 4))
    assert len(found.history) == 2 and found.converged is converged
    assert "accuracy" in found.stopped if converged else "error" in found.stopped


def test_the_extra_is_named_when_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "cvxpy":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExtraError, match=r"silot\[gp\]") as caught:
        solve_gp(network(2, 4))
    assert caught.value.code == "extra-gp"


@pytest.mark.slow
def test_thirty_devices() -> None:
    costs = network(1, 30)
    plan = solve_gp(costs)
    check_plan(plan.psi, plan.alpha, costs)
    assert (np.diff([entry["surrogate"] for entry in plan.history]) <= 0).all()


@pytest.mark.heavy
def test_the_published_solver_is_not_that_of_the_printed_problem() -> None:
    energy = np.array([[0.0, 9.0, 3.0], [9.0, 0.0, 3.0], [9.0, 9.0, 0.0]])
    transfer = np.array([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    costs = LinkCosts([0.1, 0.1, 9.0], transfer, energy, eligible=[True, True, False])
    run = PublishedSolver().run(costs)
    assert run.psi.shape == (50, 3) and len(run.objective) == 50
    # No target sends, weights have a floor, and sum to 1 at most.
    assert (run.psi[-1][:, None] * run.alpha <= 1e-3 * (1 + 1e-4)).all()
    assert (run.alpha >= 1e-3 * (1 - 1e-6)).all() and (run.alpha.sum(axis=0) <= 1 + 1e-4).all()
    plan = links(costs, method="st-lf")
    assert plan.method == "st-lf" and plan.sources == ("0", "1")
    # A link pays by its weight: two cost no more than one.
    assert {i for i, j, _ in plan.links} == {"0", "1"}
    with pytest.raises(InputError) as caught:
        links(costs, method="st-lf", start_psi=0.02)
    assert caught.value.code == "option-unknown"


@pytest.mark.heavy
def test_a_stored_run_of_the_authors_is_computed_again() -> None:
    data = Path(os.environ.get("SILOT_DATA", "../shared/data")) / "stlf_runs" / "runs.npz"
    if not data.is_file():
        pytest.skip("the stored runs are not here")
    with np.load(data) as stored:
        run = {k: stored[f"005/{k}"] for k in (*_FIELDS, "psi", "alpha", "objective", "phi_e")}
    again = rebuild({"name": "5", **run})
    assert (again.version, again.scale, again.psi) == ("last", 0.5, True)
    assert again.first < 1e-5 and again.alpha < 0.01 and again.objective < 1e-4


@pytest.mark.parametrize("kind", ["uniform", "ties", "negative"])
def test_the_published_programs_take_networks_with_barred_links(kind: str) -> None:
    costs = networks.network(kind, 6, 0, barred=0.4)
    plan = PublishedSolver(iterations=10).solve(costs)
    used = plan.alpha > 0
    np.fill_diagonal(used, False)
    assert np.isfinite(costs.transfer[used]).all() and np.isfinite(costs.energy[used]).all()
