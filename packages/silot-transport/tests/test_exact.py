"""Exact transport: ground truth first, then optimality, certificates and invariances."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from silot_transport import (
    ExactPlan,
    _native,
    bounded_plan,
    cost_matrix,
    exact_plan,
    mean_bound,
    plan_from_cost,
)
from silot_transport import _solvers as solvers
from silot_transport import exact as exact_module
from silot_transport._solvers import (
    Solution,
    common_units,
    solve_line,
    solve_program,
    solve_units,
    staircase,
)
from silot_transport.errors import InputError, MismatchError, SolverError
from tests.problems import (
    LAYOUTS,
    MASS_ROUNDING,
    ORDERS,
    WEIGHTS,
    Array,
    Pair,
    Problem,
    assert_certified,
    assert_cost,
    assert_refused,
    brute_force_cost,
    clouds,
    cost_of_matrix,
    direct_costs,
    draw_clouds,
    draw_weights,
    exact_cost,
    grid_problems,
    integer_cost,
    known_problems,
    linear_program_cost,
    pairs,
    seeds,
)
from tests.tiers import examples

orders = pytest.mark.parametrize("p", ORDERS)


@pytest.fixture(name="path", params=["pure", "compiled"])
def each_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without and with the compiled kernels."""
    if request.param == "pure":
        monkeypatch.setattr(_native, "kernels", None)
    elif _native.kernels is None:
        pytest.skip(f"no compiled kernels: {_native.missing}")
    return request.param


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solvers in Python."""
    monkeypatch.setattr(_native, "kernels", None)


def solved(pair: Pair, p: int) -> ExactPlan:
    return exact_plan(*pair.arrays, p=p)


# One pair for every solver, by the regime that calls it.


def drawn(
    n: int, m: int, d: int, kind: str = "uniform", *, layout: str = "normal", seed: int = 0
) -> Pair:
    rng = np.random.default_rng(seed)
    x, y = draw_clouds(rng, layout, n, m, d)
    name = f"{layout} {n} x {m}, d = {d}, {kind} weights"
    return Pair(name, x, y, draw_weights(rng, kind, n), draw_weights(rng, kind, m))


def divisible(n: int, m: int, d: int) -> Pair:
    """Integer masses of one sum: few enough unit copies for an assignment."""
    rng = np.random.default_rng(0)
    total = max(n, m)

    def parts(size: int) -> Array:
        # One record of mass 1, the unit of all others.
        return np.append(
            1.0, 1.0 + rng.multinomial(total - size, np.full(size - 1, 1 / (size - 1)))
        )

    a, b = parts(n), parts(m)
    x, y = draw_clouds(rng, "normal", n, m, d)
    return Pair(f"divisible {n} x {m}, d = {d}", x, y, a, b)


REGIMES: list[tuple[Pair, str]] = [
    (drawn(1, 1, 4), "single point"),
    (drawn(1, 9, 3, "random"), "single point"),
    (drawn(9, 1, 3, "zeros"), "single point"),
    (drawn(1, 1, 1), "line"),
    (drawn(200, 170, 1, "random"), "line"),
    (drawn(64, 64, 1), "line"),
    (drawn(50, 60, 1, "zeros", layout="grid"), "line"),
    (drawn(2, 2, 2), "assignment"),
    (drawn(120, 120, 2), "assignment"),
    (drawn(100, 100, 200), "assignment"),
    (drawn(90, 90, 3, layout="grid"), "linear program"),
    (drawn(400, 400, 12), "linear program"),
    (drawn(120, 40, 3), "replicated assignment"),
    (drawn(30, 150, 20), "replicated assignment"),
    (divisible(7, 32, 2), "replicated assignment"),
    (divisible(200, 90, 10), "replicated assignment"),
    (drawn(30, 41, 5, "random"), "linear program"),
    (drawn(150, 100, 2), "linear program"),
    (drawn(60, 50, 200, "random"), "linear program"),
    (drawn(100, 120, 3, "zeros", layout="grid"), "linear program"),
    (drawn(380, 390, 4, "random"), "linear program"),
    (drawn(450, 500, 2, "random"), "linear program"),
    (drawn(450, 500, 2, "random", layout="grid"), "linear program"),
    (drawn(450, 500, 30, "random"), "linear program"),
    (drawn(450, 500, 3, "tiny"), "linear program"),
    (drawn(450, 500, 3, "dominant"), "linear program"),
    (drawn(480, 470, 3, "zeros", layout="clusters"), "linear program"),
    (drawn(450, 500, 2, "random", layout="near"), "linear program"),
    (drawn(450, 500, 5, "random", layout="uneven"), "linear program"),
    (drawn(420, 420, 2), "linear program"),
]
regimes = pytest.mark.parametrize(
    ("pair", "solver"), REGIMES, ids=[pair.name for pair, _ in REGIMES]
)


def compiled_solver(solver: str, pair: Pair) -> str:
    """Which kernel takes the place of a solver in Python."""
    if solver not in ("replicated assignment", "linear program"):
        return solver
    is_matching = len(pair.x) == len(pair.y) and pair.a is None and pair.b is None
    return "assignment" if is_matching and "grid" not in pair.name else "network simplex"


@orders
@regimes
def test_every_regime_is_certified_and_equals_the_oracle(
    pair: Pair, solver: str, p: int, path: str
) -> None:
    result = solved(pair, p)
    assert result.solver == (solver if path == "pure" else compiled_solver(solver, pair))
    assert_certified(result, pair, p)
    assert_cost(result.cost, exact_cost(pair, p), pair.largest_cost(p))


@pytest.mark.heavy
@orders
@pytest.mark.parametrize("d", [3, 10])
def test_large_uniform_clouds_are_certified_and_equal_the_oracle(d: int, p: int, path: str) -> None:
    pair = drawn(1600, 1600, d)
    result = solved(pair, p)
    assert result.solver == ("linear program" if path == "pure" else "assignment")
    assert_certified(result, pair, p)
    assert_cost(result.cost, exact_cost(pair, p), pair.largest_cost(p))


@pytest.mark.heavy
@orders
@pytest.mark.parametrize("m", [20_000, 80_000], ids=["dense", "column generation"])
def test_very_uneven_sizes_have_a_certified_interval(m: int, p: int) -> None:
    pair = drawn(2, m, 2, "random")
    result, known = solved(pair, p), exact_cost(pair, p)
    assert result.optimal
    assert_cost(result.cost, known, pair.largest_cost(p))
    assert result.lower_cost <= known <= result.cost * (1 + 1e-12)


@pytest.mark.heavy
@orders
def test_potentials_of_very_uneven_sizes_are_feasible(p: int) -> None:
    pair = drawn(2, 20_000, 2, "random")
    f, g = solved(pair, p).potentials
    matrix = pair.costs(p)
    assert (matrix - f[:, None] - g).min() >= -1e-13 * matrix.max()


@settings(max_examples=examples(300))
@given(problem=known_problems(), pure=st.booleans())
def test_known_distances_are_found_and_certified(problem: Problem, pure: bool) -> None:
    with mock.patch.object(_native, "kernels", None if pure else _native.kernels):
        result = solved(problem, problem.p)
    assert_certified(result, problem, problem.p)
    assert_cost(result.cost, problem.cost, problem.largest_cost(problem.p))


@orders
@pytest.mark.parametrize("kind", ["uniform", "random", "zeros"])
@pytest.mark.parametrize("n", [30, 700])
def test_potentials_to_start_from_change_no_optimum(n: int, kind: str, p: int, path: str) -> None:
    pair = drawn(n, n, 5, kind)
    known = solved(pair, p)
    for start in (known.potentials[1], np.zeros(n), 1e3 * np.arange(n), 1e9 * np.arange(n)):
        found = exact_plan(*pair.arrays, p=p, start=start)
        assert found.optimal
        assert_cost(found.cost, known.cost, pair.largest_cost(p))


@orders
@pytest.mark.parametrize("unit", [1e-158, 1e-155, 1e-150, 1e145, 1e149])
@pytest.mark.parametrize("kind", ["uniform", "random"])
def test_units_at_the_ends_of_numbers_end(kind: str, unit: float, p: int, path: str) -> None:
    pair = drawn(60, 60, 2, kind)
    x, y, a, b = pair.arrays
    found = exact_plan(unit * x, unit * y, a, b, p=p)
    assert found.distance / unit == pytest.approx(exact_plan(x, y, a, b, p=p).distance, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-140, 1e-90, 1.0, 1e100])
def test_a_start_that_is_far_from_all_costs_changes_no_optimum(unit: float, path: str) -> None:
    pair = drawn(30, 30, 3, "random")
    x, y, a, b = pair.arrays
    start = 1e300 * np.random.default_rng(0).normal(size=30)
    plan = exact_plan(unit * x, unit * y, a, b, start=start)
    assert plan.optimal
    assert plan.distance / unit == pytest.approx(exact_plan(x, y, a, b).distance, rel=1e-12)


@pytest.mark.parametrize("kind", ["normal", "apart", "clusters", "product", "tied"])
@pytest.mark.parametrize("start", ["none", "near", "poor"])
@pytest.mark.skipif(_native.kernels is None, reason="no compiled kernels")
def test_assignments_by_lists_first_are_optimal(kind: str, start: str) -> None:
    rng, n = np.random.default_rng(1), 400
    x, y = rng.normal(size=(2, n, 4))
    if kind == "apart":
        x, y = x[:, :2], y[:, :2] + 9.0
    if kind == "clusters":
        x, y = (k + 20.0 * rng.integers(0, 3, (n, 1)) for k in (x, y))
    if kind == "tied":
        x, y = (rng.integers(0, 4, (n, 4)).astype(float) for _ in "xy")
    product = np.outer(np.arange(1.0, n + 1), np.arange(1.0, n + 1))
    cost = product if kind == "product" else cost_matrix(x, y)
    optimum = solvers.solve_costs(cost, *np.full((2, n), 1 / n))
    g = {"none": None, "near": optimum.g, "poor": float(cost.mean()) * rng.normal(size=n)}[start]
    with mock.patch.object(solvers, "_LISTED", 0):
        plan = solvers.solve_costs(cost, *np.full((2, n), 1 / n), start=g)
    rows, columns = linear_sum_assignment(cost)
    best = cost[rows, columns].sum()
    assert cost[plan.rows, plan.cols].sum() == pytest.approx(best, rel=1e-12)
    assert plan.f.sum() + plan.g.sum() == pytest.approx(best, rel=1e-10)
    assert (cost - plan.f[:, None] - plan.g).min() > -1e-12 * cost.max()


def test_potentials_to_start_from_are_checked() -> None:
    x = np.zeros((3, 2))
    for start in ([0.0, 1.0], [[0.0], [0.0], [0.0]]):
        assert_refused(lambda start=start: exact_plan(x, x, start=start), MismatchError,
                       "weights-length")  # fmt: skip
    with pytest.raises(InputError):
        exact_plan(x, x, start=[0.0, np.nan, 0.0])


@settings(max_examples=examples(150))
@given(problem=grid_problems())
def test_bounds_hold_without_any_tolerance_where_the_answer_has_no_rounding(
    problem: Problem,
) -> None:
    result = solved(problem, 2)
    assert result.lower_cost <= problem.cost
    assert result.lower <= problem.distance <= result.upper


@settings(max_examples=examples(200))
@given(pair=pairs(), p=st.sampled_from(ORDERS), pure=st.booleans())
def test_any_pair_is_certified_and_equals_the_oracle(pair: Pair, p: int, pure: bool) -> None:
    with mock.patch.object(_native, "kernels", None if pure else _native.kernels):
        result = solved(pair, p)
    assert_certified(result, pair, p)
    known, largest = exact_cost(pair, p), pair.largest_cost(p)
    assert_cost(result.cost, known, largest)
    slack = MASS_ROUNDING * largest
    assert result.lower_cost <= known * (1 + 1e-12) + slack
    assert known <= (result.cost + slack) * (1 + 1e-12)


@orders
@pytest.mark.parametrize("kind", ["uniform", "integer", "random", "zeros"])
@pytest.mark.parametrize("d", [1, 2, 40])
def test_the_linear_program_has_the_same_value(d: int, kind: str, p: int) -> None:
    pair = drawn(9, 12, d, kind, seed=d)
    known = linear_program_cost(pair.costs(p), *pair.masses)
    assert solved(pair, p).cost == pytest.approx(known, rel=1e-9, abs=1e-9)


@orders
@given(n=st.integers(1, 6), d=st.sampled_from((1, 2, 5)), layout=st.sampled_from(LAYOUTS),
       seed=seeds)  # fmt: skip
def test_no_permutation_is_cheaper(n: int, d: int, layout: str, seed: int, p: int) -> None:
    x, y = draw_clouds(np.random.default_rng(seed), layout, n, n, d)
    pair = Pair("few points", x, y)
    assert_cost(solved(pair, p).cost, brute_force_cost(pair.costs(p)), pair.largest_cost(p))


# What must not change the answer.


def self_distance(points: Array, weights: Array | None, p: int) -> tuple[ExactPlan, float]:
    """The distance of a cloud from itself, and the extent of the cloud."""
    result = exact_plan(points, points, weights, weights, p=p)
    return result, float(direct_costs(points, points, 1).max())


@orders
@pytest.mark.parametrize(
    "pair", [pair for pair, _ in REGIMES if "near" not in pair.name], ids=lambda pair: pair.name
)
def test_a_cloud_is_at_no_distance_from_itself(pair: Pair, p: int) -> None:
    for points, weights in ((pair.x, pair.a), (pair.y, pair.b)):
        result, extent = self_distance(points, weights, p)
        assert result.distance <= 1e-9 * extent
        assert result.lower == 0.0
        assert result.optimal


def test_a_large_cloud_with_near_duplicates_is_at_no_distance_from_itself() -> None:
    for seed in range(3):
        pair = drawn(450, 500, 2, "random", layout="near", seed=seed)
        result, extent = self_distance(pair.y, pair.b, 2)
        assert result.distance <= 1e-9 * extent


@orders
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("n", [50, 420])
def test_a_uniform_cloud_with_duplicates_is_at_no_distance_from_itself(
    n: int, d: int, p: int
) -> None:
    points = np.random.default_rng(0).integers(0, 3, (n, d)).astype(float)
    result, _ = self_distance(points, None, p)
    assert result.distance == 0.0
    assert result.optimal


def test_a_weighted_cloud_with_duplicates_is_at_no_distance_from_itself() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 3, (50, 2)).astype(float)
        result, extent = self_distance(points, rng.random(50), 2)
        assert result.distance <= 1e-9 * extent


def test_a_large_weighted_cloud_with_duplicates_is_proven_at_no_distance_from_itself() -> None:
    for seed in range(4):
        pair = drawn(420, 1, 2, "random", layout="grid", seed=seed)
        result, _ = self_distance(pair.x, pair.a, 1)
        assert result.cost <= 1e-15
        assert result.optimal


@orders
@given(pair=pairs())
def test_swapping_the_clouds_changes_nothing(pair: Pair, p: int) -> None:
    one_way, other_way = solved(pair, p), solved(pair.swapped(), p)
    assert_cost(one_way.cost, other_way.cost, pair.largest_cost(p))


@orders
@given(pair=pairs(), seed=seeds)
def test_the_order_of_records_changes_nothing(pair: Pair, seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    i, j = rng.permutation(len(pair.x)), rng.permutation(len(pair.y))
    shuffled = replace(
        pair,
        x=pair.x[i],
        y=pair.y[j],
        a=None if pair.a is None else pair.a[i],
        b=None if pair.b is None else pair.b[j],
    )
    assert_cost(solved(pair, p).cost, solved(shuffled, p).cost, pair.largest_cost(p), relative=1e-8)


@orders
@given(pair=pairs(), axis=st.integers(0, 10**6), share=st.sampled_from((0.5, 0.25, 1 / 3)))
def test_splitting_a_record_changes_nothing(pair: Pair, axis: int, share: float, p: int) -> None:
    i = axis % len(pair.x)
    weights = pair.masses[0].copy()
    part = share * weights[i]
    weights[i] -= part
    split = replace(pair, x=np.concatenate([pair.x, pair.x[i : i + 1]]), a=np.append(weights, part))
    result = solved(split, p)
    assert_certified(result, split, p)
    assert_cost(result.cost, solved(pair, p).cost, pair.largest_cost(p), relative=1e-8)


@orders
@given(pair=pairs(layouts=("normal", "grid", "clusters", "constant")),
       offset=st.sampled_from((1.0, 2.0**10, -(2.0**20), 2.0**30)))  # fmt: skip
def test_a_common_translation_changes_nothing(pair: Pair, offset: float, p: int) -> None:
    # Dyadic coordinates: the translated clouds are the same clouds, to the last bit.
    exact = replace(pair, x=np.round(pair.x * 2**12) / 2**12, y=np.round(pair.y * 2**12) / 2**12)
    moved = replace(exact, x=exact.x + offset, y=exact.y + offset)
    result = solved(moved, p)
    assert_certified(result, moved, p)
    assert_cost(result.cost, solved(exact, p).cost, exact.largest_cost(p), relative=1e-8)


@orders
@given(pair=pairs(), scale=st.sampled_from((1e-6, 1e-3, 0.7, 3.0, 1e3, 1e6)))
def test_units_scale_the_distance(pair: Pair, scale: float, p: int) -> None:
    scaled = replace(pair, x=scale * pair.x, y=scale * pair.y)
    result = solved(scaled, p)
    assert_certified(result, scaled, p)
    assert_cost(result.cost, scale**p * solved(pair, p).cost, scaled.largest_cost(p), relative=1e-8)


@orders
@pytest.mark.parametrize("scale", [1e-70, 1e-30, 1e30, 1e70])
@pytest.mark.parametrize("kind", ["uniform", "random"])
def test_extreme_units_scale_the_distance(kind: str, scale: float, p: int) -> None:
    for pair in (drawn(20, 20, 1, kind), drawn(20, 20, 4, kind), drawn(400, 400, 4, kind)):
        scaled = replace(pair, x=scale * pair.x, y=scale * pair.y)
        assert solved(scaled, p).distance == pytest.approx(scale * solved(pair, p).distance)
        assert solved(scaled, p).optimal


@orders
@given(pair=pairs(weights=("random", "integer", "zeros")),
       scale=st.sampled_from((1e-12, 3.0, 1e12)))  # fmt: skip
def test_the_total_of_the_weights_changes_nothing(pair: Pair, scale: float, p: int) -> None:
    assert pair.a is not None
    scaled = replace(pair, a=scale * pair.a)
    assert_cost(solved(scaled, p).cost, solved(pair, p).cost, pair.largest_cost(p))


@orders
@given(pair=pairs(largest=12), extra=st.integers(1, 4), seed=seeds)
def test_points_without_mass_change_nothing(pair: Pair, extra: int, seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = pair.masses
    far = 1e2 * rng.standard_normal((extra, pair.x.shape[1]))
    padded = replace(
        pair,
        x=np.concatenate([far, pair.x]),
        y=np.concatenate([pair.y, far]),
        a=np.concatenate([np.zeros(extra), a]),
        b=np.concatenate([b, np.zeros(extra)]),
    )
    result = solved(padded, p)
    assert_certified(result, padded, p)
    assert (result.rows >= extra).all() and (result.cols < len(b)).all()
    assert_cost(result.cost, solved(pair, p).cost, pair.largest_cost(p))


@orders
@given(pair=pairs(largest=10, layouts=("normal", "grid", "clusters")), seed=seeds)
def test_the_triangle_inequality_holds(pair: Pair, seed: int, p: int) -> None:
    middle = np.random.default_rng(seed).standard_normal((7, pair.x.shape[1]))
    around = (
        exact_plan(pair.x, middle, pair.a, p=p).upper
        + exact_plan(middle, pair.y, None, pair.b, p=p).upper
    )
    assert solved(pair, p).lower <= around * (1 + 1e-9)


@orders
@pytest.mark.parametrize("place", [1e3, 1e5, 1e7])
@pytest.mark.parametrize(("n", "d"), [(30, 2), (600, 12)], ids=["small", "large"])
def test_a_far_outlier_in_both_clouds_stays_where_it_is(
    n: int, d: int, place: float, p: int
) -> None:
    pair = drawn(n, n, d)
    far = np.full((1, d), place)
    result = exact_plan(np.concatenate([pair.x, far]), np.concatenate([pair.y, far]), p=p)
    # Far enough away, the outlier's cost leaves the proof no digits; the plan is right still.
    assert result.optimal or (place > 1e4 and "outliers" in result.status)
    assert result.cost == pytest.approx(solved(pair, p).cost * n / (n + 1), rel=1e-9)


@orders
@pytest.mark.parametrize("place", [1e3, 1e5])
@pytest.mark.parametrize(
    ("n", "d", "kind"),
    [(30, 1, "random"), (30, 2, "random"), (420, 2, "uniform"), (420, 3, "random")],
    ids=["line", "weighted", "large", "large and weighted"],
)
def test_a_far_outlier_never_breaks_the_interval(
    n: int, d: int, kind: str, place: float, p: int
) -> None:
    pair = drawn(n, n, d, kind)
    a, b = (np.append(weights * n, 1.0) / (n + 1) for weights in pair.masses)
    far = np.full((1, d), place)
    x, y = np.concatenate([pair.x, far]), np.concatenate([pair.y, far])
    result = exact_plan(x, y, a, b, p=p)
    known = solved(pair, p).cost * n / (n + 1)
    # Masses that differ by their rounding travel to the outlier and back.
    unknown = MASS_ROUNDING * float(direct_costs(x, y, p).max())
    assert result.lower_cost <= known + unknown
    assert result.cost >= known - unknown
    if result.optimal:
        assert result.cost == pytest.approx(known, rel=1e-9, abs=unknown)
    else:
        assert "outliers" in result.status


def test_a_plan_called_optimal_has_the_optimal_cost_despite_a_far_outlier() -> None:
    pair = drawn(700, 700, 2)
    far = np.full((1, 2), 1e9)
    result = exact_plan(np.concatenate([pair.x, far]), np.concatenate([pair.y, far]))
    known = exact_cost(pair, 2) * 700 / 701
    assert not result.optimal or result.cost == pytest.approx(known, rel=1e-6)


@orders
def test_one_far_outlier_alone_pays_for_itself(p: int) -> None:
    # Dyadic numbers: 15 points stay, one goes 2^20 away.
    x = np.arange(32.0).reshape(16, 2)
    y = x.copy()
    y[3] += 2.0**20 * np.array([0.0, 1.0])
    result = exact_plan(x, y, p=p)
    assert result.optimal
    if p == 1:
        assert result.cost == pytest.approx(2.0**20 / 16, rel=1e-9)
    assert_cost(result.cost, exact_cost(Pair("outlier", x, y), p), 2.0 ** (20 * p))


@orders
@pytest.mark.parametrize("d", [1, 2])
def test_a_tiny_mass_that_travels_far_is_in_the_interval(d: int, p: int) -> None:
    x = np.zeros((2, d))
    x[1] = 1e8
    a, b = np.array([0.5, 0.5]), np.array([0.5 + 2.0**-45, 0.5 - 2.0**-45])
    known = 2.0**-45 * float(np.sum(x[1] ** 2)) ** (p / 2)
    result = exact_plan(x, x, a, b, p=p)
    # The masses are known to 1e-16 each, that is to 1 % of the one that moves.
    assert result.cost * 1.01 >= known
    assert result.lower_cost <= known * 1.01


@pytest.mark.parametrize("offset", [0.0, 2.0**20, 2.0**30])
@pytest.mark.parametrize("step", [2.0**-20, 2.0**-10, 1.0])
@pytest.mark.parametrize(("n", "d", "weighted"), [(300, 1, True), (300, 3, False), (450, 3, True)])
def test_the_interval_of_a_translation_far_from_the_origin_holds_the_step(
    n: int, d: int, weighted: bool, step: float, offset: float
) -> None:
    # Dyadic numbers: the step is exact wherever the clouds are.
    rng = np.random.default_rng(0)
    x = offset + rng.integers(0, 10, (n, d))
    y = x + step * np.eye(d)[0]
    weights = rng.integers(1, 5, n).astype(float) if weighted else None
    for p in ORDERS:
        result = exact_plan(x, y, weights, weights, p=p)
        assert result.lower <= step <= result.upper
        assert result.distance == pytest.approx(step, rel=1e-9)


@pytest.mark.parametrize("step", [2.0**-20, 2.0**-30, 2.0**-40])
@pytest.mark.parametrize(("n", "d", "weighted"), [(512, 1, False), (450, 1, True), (450, 3, True)])
def test_the_interval_of_near_clouds_holds_the_distance(
    n: int, d: int, weighted: bool, step: float
) -> None:
    # Integer points, each moved by far less than their spacing: every record stays with itself.
    rng = np.random.default_rng(0)
    x = np.arange(float(n))[:, None] * np.ones(d)
    moved = rng.integers(-8, 9, (n, d)) * step
    weights = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    known = float(weights @ np.sum(moved**2, axis=1)) / weights.sum()
    result = exact_plan(x, x + moved, weights, weights)
    assert result.cost == pytest.approx(known, rel=1e-9)
    assert result.lower_cost <= known * (1 + 1e-14)
    assert known <= result.upper_cost * (1 + 1e-14)


# The solvers by themselves.


@given(pair=pairs(dimensions=(1,), largest=40), p=st.sampled_from(ORDERS))
def test_the_line_solver_returns_a_feasible_tight_dual(pair: Pair, p: int) -> None:
    a, b = pair.masses
    solution = solve_line(pair.x[:, 0], pair.y[:, 0], a, b, p)
    matrix = pair.costs(p)
    tolerance = 1e-12 * (float(matrix.max()) + float(np.abs(pair.x).max() > 1e5))
    slack = matrix - solution.f[:, None] - solution.g
    assert slack.min() >= -tolerance
    assert np.abs(slack[solution.rows, solution.cols]).max() <= tolerance


@given(n=st.integers(1, 9), m=st.integers(1, 9), seed=seeds, kind=st.sampled_from(WEIGHTS))
def test_the_staircase_is_a_coupling_on_a_spanning_tree(
    n: int, m: int, seed: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (Pair("", np.zeros((k, 1)), np.zeros((1, 1)), draw_weights(rng, kind, k)).masses[0]
            for k in (n, m))  # fmt: skip
    rows, cols, mass = staircase(a, b)
    assert len(rows) == len(cols) == len(mass) == n + m - 1
    assert (rows[0], cols[0], rows[-1], cols[-1]) == (0, 0, n - 1, m - 1)
    assert (np.diff(rows) + np.diff(cols) == 1).all(), "each step moves one index by one"
    assert (mass >= 0).all()
    np.testing.assert_allclose(np.bincount(rows, mass, n), a, atol=1e-14)
    np.testing.assert_allclose(np.bincount(cols, mass, m), b, atol=1e-14)


def test_common_units_of_hand_made_masses() -> None:
    def units(a: list[float], b: list[float], largest: int = 100) -> object:
        found = common_units(np.array(a), np.array(b), largest)
        return found and tuple(k.tolist() for k in found)

    quarter = [0.25, 0.5, 0.25]
    assert units([0.5, 0.5], [0.5, 0.5]) == ([1, 1], [1, 1])
    assert units([0.5, 0.5], [1.0]) == ([1, 1], [2])
    assert units(quarter, [0.5, 0.5]) == ([1, 2, 1], [2, 2])
    assert units([0.5, 0.5], [1 / 3] * 3) == ([3, 3], [2, 2, 2])
    assert units(quarter, [0.25] * 4, largest=4) == ([1, 2, 1], [1, 1, 1, 1])
    assert units(quarter, [0.25] * 4, largest=3) is None
    assert units([0.3, 0.7], [0.5, 0.5]) is None
    assert units([1e-9, 1.0 - 1e-9], [0.5, 0.5]) is None


@given(
    n=st.integers(1, 6), m=st.integers(1, 6), seed=seeds, ties=st.booleans(),
    total=st.sampled_from((8, 12, 16)),
)  # fmt: skip
def test_the_assignment_solver_is_exact_on_any_cost_matrix(
    n: int, m: int, seed: int, ties: bool, total: int
) -> None:
    rng = np.random.default_rng(seed)
    k = 1 + rng.multinomial(total - n, np.full(n, 1 / n))
    l = 1 + rng.multinomial(total - m, np.full(m, 1 / m))
    cost = rng.integers(0, 3, (n, m)).astype(float) if ties else rng.random((n, m))
    solution = solve_units(cost, k, l)
    known = integer_cost(cost, k, l)
    moved = float(solution.mass @ cost[solution.rows, solution.cols])
    assert moved == pytest.approx(known, rel=1e-12, abs=1e-15)
    dual = float(solution.f @ k + solution.g @ l) / total
    assert dual == pytest.approx(known, rel=1e-12, abs=1e-14)
    assert (solution.f[:, None] + solution.g <= cost + 1e-14).all()


@given(
    n=st.integers(2, 14), m=st.integers(2, 14), seed=seeds, ties=st.booleans(),
    kind=st.sampled_from(("uniform", "random", "dominant", "tiny")), few=st.booleans(),
)  # fmt: skip
def test_the_linear_program_is_exact_on_any_cost_matrix(
    n: int, m: int, seed: int, ties: bool, kind: str, few: bool
) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 3, (n, m)).astype(float) if ties else rng.random((n, m))
    a = Pair("", np.zeros((n, 1)), np.zeros((1, 1)), draw_weights(rng, kind, n)).masses[0]
    b = Pair("", np.zeros((m, 1)), np.zeros((1, 1)), draw_weights(rng, kind, m)).masses[0]
    with mock.patch.object(solvers, "_NEIGHBOURS", 1 if few else 16):
        solution = solve_program(cost, a, b)
    known = linear_program_cost(cost, a, b)
    assert solution.finished
    assert float(solution.mass @ cost[solution.rows, solution.cols]) == pytest.approx(
        known, rel=1e-9, abs=1e-9
    )
    assert float(solution.f @ a + solution.g @ b) == pytest.approx(known, rel=1e-9, abs=1e-9)
    assert (solution.f[:, None] + solution.g <= cost + 1e-12).all()


@settings(max_examples=examples(100))
@given(problem=known_problems())
def test_column_generation_finds_known_distances(problem: Problem) -> None:
    with (
        mock.patch.object(_native, "kernels", None),
        mock.patch.object(solvers, "_NEIGHBOURS", 1),
        mock.patch.object(solvers, "common_units", lambda *_: None),
    ):
        result = solved(problem, problem.p)
    # Rounds end when the gap is proven, and a cell of mass 1e-7 hardly adds to it.
    assert_certified(result, problem, problem.p, tight_from=1e-5)
    assert_cost(result.cost, problem.cost, problem.largest_cost(problem.p))


# What is refused or said when a solver fails.


def broken(**changes: object) -> mock._patch[object]:
    """The network solver, its solution tampered with."""
    return mock.patch.object(
        solvers, "solve_program", lambda *args: replace(solve_program(*args), **changes)
    )


@pytest.mark.usefixtures("pure")
def test_a_coupling_with_wrong_marginals_is_refused() -> None:
    pair = drawn(6, 7, 2, "random")

    def truncated(cost: Array, a: Array, b: Array, start: Array | None) -> Solution:
        solution = solve_program(cost, a, b)
        return replace(
            solution, mass=solution.mass * np.append(0.9, np.ones(len(solution.mass) - 1))
        )

    with mock.patch.object(solvers, "solve_program", truncated):
        assert_refused(
            lambda: solved(pair, 2), SolverError, "solver-marginals", quoting="linear program"
        )


@pytest.mark.usefixtures("pure")
def test_a_worse_coupling_is_not_called_optimal_and_its_interval_holds() -> None:
    pair = drawn(12, 13, 2, "random")
    known = exact_cost(pair, 2)
    rows, cols, mass = staircase(*pair.masses)
    with broken(rows=rows, cols=cols, mass=mass):
        result = solved(pair, 2)
    assert not result.optimal
    assert "not proven optimal" in result.status
    assert result.lower_cost <= known <= result.cost


@pytest.mark.usefixtures("pure")
def test_weaker_potentials_are_not_called_optimal_and_their_interval_holds() -> None:
    pair = drawn(12, 13, 2, "random")
    known = exact_cost(pair, 2)
    with broken(f=np.zeros(12), g=np.zeros(13)):
        mended = solved(pair, 2)
        with mock.patch.object(exact_module, "_LARGEST_SHARPENED", 0):
            result = solved(pair, 2)
    # The coupling is right, and tells better ones.
    assert mended.optimal and mended.lower_cost <= known <= mended.cost
    assert not result.optimal
    # What is left is what the means prove, at most.
    assert 0.0 <= result.lower_cost <= mean_bound(*pair.arrays) ** 2 * (1 + 1e-9)
    assert result.cost == pytest.approx(known)


@pytest.mark.usefixtures("pure")
def test_an_unfinished_solver_is_not_called_optimal() -> None:
    cost = np.random.default_rng(0).random((12, 13))
    with broken(finished=False):
        assert not plan_from_cost(cost).optimal


@pytest.mark.usefixtures("pure")
def test_a_program_that_is_not_solved_is_refused() -> None:
    unsolved = mock.Mock(status=1)
    with mock.patch("scipy.optimize.linprog", return_value=unsolved):
        assert_refused(
            lambda: solved(drawn(6, 7, 2, "random"), 2), SolverError, "solver-program",
            quoting="C++",
        )  # fmt: skip


def test_weights_that_are_nearly_multiples_of_a_unit_are_solved() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 1.0 + 5e-10, 1.0])
    pair = Pair("near units", rng.normal(size=(3, 2)), rng.normal(size=(6, 2)), weights)
    assert solved(pair, 2).cost == pytest.approx(exact_cost(pair, 2), rel=1e-9)


# Plans from cost matrices.


@orders
@given(pair=pairs())
def test_a_plan_from_costs_has_the_cost_of_the_exact_plan(pair: Pair, p: int) -> None:
    matrix = pair.costs(p)
    result = plan_from_cost(matrix, pair.a, pair.b)
    assert_certified(result, pair, 1, matrix=matrix)
    assert_cost(result.cost, solved(pair, p).cost, pair.largest_cost(p))
    assert result.distance == result.cost


@pytest.mark.parametrize("n", [600, 1600])
def test_costs_of_points_on_a_line_have_the_plan_of_sorted_points(n: int) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n))
    result = plan_from_cost((x[:, None] - 1.3 * y) ** 2)
    assert result.optimal
    assert result.cost == pytest.approx(np.mean((np.sort(x) - np.sort(1.3 * y)) ** 2), rel=1e-9)


@orders
@pytest.mark.parametrize(("pair", "solver"), [REGIMES[k] for k in (1, 4, 8, 12, 16, 21, 24)])
def test_a_plan_from_costs_is_certified_in_every_regime(pair: Pair, solver: str, p: int) -> None:
    matrix = pair.costs(p)
    result = plan_from_cost(matrix, pair.a, pair.b)
    assert_certified(result, pair, 1, matrix=matrix)
    assert_cost(result.cost, exact_cost(pair, p), pair.largest_cost(p))


def negative_costs(
    n: int, m: int, kind: str, seed: int, offset: float
) -> tuple[Array, Array | None, Array | None]:
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((n, m)) - offset,
        draw_weights(rng, kind, n),
        draw_weights(rng, kind, m),
    )


@given(
    n=st.integers(1, 12), m=st.integers(1, 12), kind=st.sampled_from(WEIGHTS), seed=seeds,
    offset=st.sampled_from((0.0, 1.0, 5.0, 100.0)),
)  # fmt: skip
def test_costs_of_any_sign_are_solved(n: int, m: int, kind: str, seed: int, offset: float) -> None:
    matrix, a, b = negative_costs(n, m, kind, seed, offset)
    result = plan_from_cost(matrix, a, b)
    masses = Pair("", np.zeros((n, 1)), np.zeros((m, 1)), a, b).masses
    lowest = float(matrix.min())
    known = cost_of_matrix(matrix - lowest, *masses) + lowest
    assert result.optimal
    assert result.cost == pytest.approx(known, rel=1e-9, abs=1e-12)
    assert result.lower_cost == pytest.approx(known, rel=1e-9, abs=1e-9)
    assert result.lower_cost <= known + 1e-13 * (1 + offset)
    f, g = result.potentials
    assert np.isfinite(f).all() and np.isfinite(g).all()
    assert (f[:, None] + g <= matrix + 1e-11 * (1 + offset)).all()
    assert float(masses[0] @ f) == pytest.approx(float(masses[1] @ g), rel=1e-9, abs=1e-9)


def test_the_interval_of_a_negative_cost_holds_it() -> None:
    result = plan_from_cost([[-5.0, -4.0], [-4.0, -5.0]])
    assert result.lower <= result.cost <= result.upper


def test_adding_a_constant_to_all_costs_adds_it_to_the_value() -> None:
    rng = np.random.default_rng(7)
    matrix, a, b = rng.random((8, 9)), rng.random(8), rng.random(9)
    base = plan_from_cost(matrix, a, b).cost
    for constant in (-3.0, 0.5, 1e3):
        assert plan_from_cost(matrix + constant, a, b).cost == pytest.approx(base + constant)


def test_costs_all_equal_are_solved() -> None:
    for value in (0.0, 2.0, -2.0):
        result = plan_from_cost(np.full((4, 5), value))
        assert result.cost == pytest.approx(value, rel=1e-12)
        assert result.optimal


@pytest.mark.parametrize("offset", [0.0, -3.0])
def test_equal_rows_and_columns_of_costs_are_solved_as_one(offset: float) -> None:
    rng = np.random.default_rng(8)
    few = rng.random((7, 9)) + offset
    rows, cols = rng.integers(7, size=150), rng.integers(9, size=120)
    matrix, a, b = (
        few[np.ix_(rows, cols)],
        rng.random(150) * (rng.random(150) > 0.1),
        rng.random(120),
    )
    result = plan_from_cost(matrix, a, b)
    a, b = a / a.sum(), b / b.sum()
    masses = np.bincount(rows, a, 7), np.bincount(cols, b, 9)
    assert result.optimal
    assert result.cost == pytest.approx(cost_of_matrix(few - offset, *masses) + offset, rel=1e-9)
    plan = result.plan.toarray()
    assert np.allclose(plan.sum(axis=1), a) and np.allclose(plan.sum(axis=0), b)
    assert float((plan * matrix).sum()) == pytest.approx(result.cost, rel=1e-9)
    f, g = result.potentials
    assert (f[:, None] + g <= matrix + 1e-11).all()
    # Rows of one cost in the first column, and of one sum, need not be equal.
    matrix[:, 0] = 1.0
    matrix[0, 1:3] = matrix[1, 1:3] + [0.25, -0.25]
    assert plan_from_cost(matrix, a, b).cost == pytest.approx(
        cost_of_matrix(matrix - min(offset, 0.0), a, b) + min(offset, 0.0), rel=1e-9
    )


def test_arguments_are_left_unchanged() -> None:
    pair = drawn(8, 9, 2, "random")
    copies = [np.array(array) for array in pair.arrays]
    solved(pair, 2)
    for kept, array in zip(copies, pair.arrays, strict=True):
        assert np.array_equal(kept, array)
    matrix = np.array([[-1.0, 2.0], [3.0, -4.0]])
    plan_from_cost(matrix)
    assert matrix.tolist() == [[-1.0, 2.0], [3.0, -4.0]]


@orders
@pytest.mark.parametrize(("pair", "solver"), [REGIMES[k] for k in (4, 8, 12, 16, 21)])
def test_the_same_arguments_give_the_same_bits(pair: Pair, solver: str, p: int) -> None:
    first, second = solved(pair, p), solved(pair, p)
    assert (first.cost, first.lower_cost) == (second.cost, second.lower_cost)
    assert np.array_equal(first.mass, second.mass)
    assert np.array_equal(first.potentials[0], second.potentials[0])


@given(cloud=clouds())
def test_bounds_of_a_distance_are_roots_of_the_bounds_of_the_cost(
    cloud: tuple[Array, Array | None],
) -> None:
    points, weights = cloud
    for p in ORDERS:
        result = exact_plan(points, points[:1] + 1.0, weights, p=p)
        assert result.distance == result.cost ** (1 / p)
        assert result.lower == result.lower_cost ** (1 / p)
        assert result.upper == pytest.approx(result.distance, rel=1e-9)


# Masses of a cluster sum to the same up to 1e-17, and that must go far.
@pytest.mark.parametrize(
    ("weighted", "far", "tight"),
    [
        (False, 1e4, 1e-3),
        (False, 1e6, 1e-3),
        (False, 1e4, 1.0),
        (True, 1e3, 1e-3),
        (True, 1e4, 1.0),
    ],
)
@pytest.mark.parametrize("p", [1, 2])
def test_tight_clusters_far_apart_keep_their_lower_bound(
    weighted: bool, far: float, tight: float, p: int
) -> None:
    rng = np.random.default_rng(5)
    code = np.arange(90) % 3
    centres = far * np.eye(3)
    x, y = (centres[code] + tight * rng.normal(size=(90, 3)) for _ in range(2))
    a, b = (rng.random(90) + 0.05 if weighted else np.ones(90) for _ in range(2))
    for k in range(3):
        a[code == k] /= 3 * a[code == k].sum()
        b[code == k] /= 3 * b[code == k].sum()
    found = exact_plan(x, y, a, b, p=p)
    # Every cluster has as much mass on either side, and goes to itself.
    alone = [
        exact_plan(
            x[code == k] - centres[k], y[code == k] - centres[k], a[code == k], b[code == k], p=p
        )
        for k in range(3)
    ]
    true = sum(each.cost for each in alone) / 3
    assert found.cost == pytest.approx(true, rel=1e-4)
    assert 0.999 * true ** (1 / p) <= found.lower <= found.distance
    assert found.optimal
    f, g = found.potentials
    assert (f[:, None] + g <= cost_matrix(x, y, p=p) + 1e-9 * far**p).all()


def rational_costs(x: Any, y: Any) -> list[list[Fraction]]:
    """Squared distances of the numbers themselves, without any rounding."""
    first, second = ([[Fraction(v) for v in row] for row in k.tolist()] for k in (x, y))
    return [[sum((u - v) ** 2 for u, v in zip(p, q, strict=True)) for q in second] for p in first]


def awkward_points(rng: np.random.Generator, kind: str, n: int, d: int) -> Any:
    """Points whose squares underflow, or that float64 does not hold, or of short floats."""
    if kind == "any scale":
        return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 150)
    if kind == "far":
        scale = 10.0 ** rng.integers(-300, 150)
        return scale + rng.normal(size=(n, d)) * scale * 10.0 ** rng.integers(-16, 0)
    if kind == "whole":
        return rng.integers(-(2**63), 2**63, (n, d))
    if kind == "far and whole":
        return 2**62 + rng.integers(-3, 4, (n, d))
    return rng.normal(size=(n, d)).astype(kind)


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=seeds,
    kind=st.sampled_from(["any scale", "far", "whole", "far and whole", "float16", "float32"]),
    n=st.integers(1, 4),
    d=st.integers(1, 3),
)
def test_bounds_hold_of_the_numbers_that_were_given(seed: int, kind: str, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (awkward_points(rng, kind, n, d) for _ in range(2))
    costs = rational_costs(x, y)
    orders = itertools.permutations(range(n))
    optimum = min(sum(costs[i][order[i]] for i in range(n)) for order in orders) / n
    plan = exact_plan(x, y)
    assert Fraction(plan.lower_cost) <= optimum <= Fraction(plan.upper_cost)
    assert plan.lower_cost <= plan.cost <= plan.upper_cost
    if n == 1:
        line = exact_plan(x, y, p=1)
        assert Fraction(line.lower_cost) ** 2 <= optimum <= Fraction(line.upper_cost) ** 2


@pytest.mark.parametrize("scale", [1e-155, 1e-161, 1e-170, 1e-250, 1e-305, 1e140, 4e149])
@pytest.mark.parametrize(("m", "d"), [(60, 5), (60, 1), (70, 2)])
@pytest.mark.parametrize("solve", [exact_plan, bounded_plan, partial(exact_plan, p=1)])
def test_a_distance_keeps_its_digits_at_any_scale(
    solve: Callable[..., ExactPlan], m: int, d: int, scale: float
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-2, 2, (60, d)), rng.uniform(-1, 2, (m, d))
    known, plan = solve(x, y), solve(x * scale, y * scale)
    assert plan.distance / scale == pytest.approx(known.distance, rel=1e-6)
    assert plan.lower / scale <= known.distance * (1 + 1e-12)
    assert plan.upper / scale >= known.distance * (1 - 1e-12)
    assert plan.lower <= plan.distance <= plan.upper <= plan.distance * (1 + 1e-6)


def test_whole_numbers_far_away_keep_their_distances() -> None:
    x = np.array([[2**62], [2**62 + 4]])
    assert exact_plan(x, x + 3).distance == 3.0


def test_what_a_list_or_a_frame_rounded_is_allowed_for() -> None:
    far = 2**53
    plan = exact_plan([[far + 1, 0.5]], [[far, 0.5]], p=1)
    assert plan.lower_cost <= 1.0 <= plan.upper_cost
    unlike = exact_plan([[2**63 + 1, -1]], [[2**63 + 3, -1]], p=1)
    assert unlike.lower_cost <= 2.0 <= unlike.upper_cost


def test_a_mask_of_large_whole_numbers_is_seen() -> None:
    masked = np.ma.array([[2**60], [2**60 + 5]], mask=[[False], [True]])
    with pytest.raises(InputError) as caught:
        exact_plan(masked, np.array([[2**60], [2**60 + 9]]))
    assert caught.value.code == "measure-masked"


@pytest.mark.parametrize("start", [["a", "b"], [[1.0], [1.0, 2.0]], [1e305, 0.0], [np.nan, 0.0]])
def test_a_start_that_is_none_is_refused(start: Any) -> None:
    with pytest.raises(InputError):
        exact_plan([[0.0], [1.0]], [[2.0], [3.0]], start=start)


def test_tied_costs_are_optimal_and_rows_that_differ_late_are_not_merged() -> None:
    rng = np.random.default_rng(5)
    for high in (2, 50):
        cost = rng.integers(0, high, (400, 400)).astype(float)
        # Two kinds of rows and columns that are alike where a group is looked for first.
        cost[:200], cost[:, :200] = cost[0], cost[:, :1]
        cost[7, 390] += 1.0
        plan = plan_from_cost(cost)
        assert plan.cost == pytest.approx(cost[linear_sum_assignment(cost)].mean(), abs=1e-12)
        # Masses are whole numbers of units in the simplex: they are exact to 1e-12, absolutely.
        np.testing.assert_allclose(plan.plan.sum(axis=1), 1 / 400, rtol=0.0, atol=1e-12)
        moved = (plan.plan.toarray() * cost).sum()
        assert moved == pytest.approx(plan.cost, rel=1e-10)


@pytest.mark.parametrize("exponent", [100, 502, 700, 1000])
def test_costs_of_any_scale_have_the_plan_of_the_same_costs_at_another(exponent: int) -> None:
    rng = np.random.default_rng(exponent)
    cost, a, b = rng.normal(size=(30, 40)), rng.random(30), rng.random(40)
    plan = plan_from_cost(np.ldexp(cost, exponent), a, b)
    best = np.ldexp(plan_from_cost(cost, a, b).cost, exponent)
    assert plan.optimal
    assert plan.distance == plan.cost == pytest.approx(best, rel=1e-12)
    assert plan.lower_cost <= plan.cost <= plan.upper_cost
    f, g = plan.potentials
    assert (f[:, None] + g - np.ldexp(cost, exponent)).max() <= np.ldexp(1e-12, exponent)


def test_small_costs_beside_huge_ones_keep_their_bounds() -> None:
    cost = np.full((3, 3), 1e300)
    cost[np.arange(3), [1, 2, 0]] = 1e-20
    plan = plan_from_cost(cost)
    assert plan.cost == pytest.approx(1e-20)
    assert plan.lower_cost <= 1e-20 <= plan.upper_cost


@pytest.mark.parametrize("least", [-25, -10, 3])
def test_bounds_hold_beside_a_cost_that_is_nearly_infinite(least: int) -> None:
    rng = np.random.default_rng(30 + least)
    for exponent in range(155, 303, 7):
        cost = 10.0**least * rng.random((4, 4))
        cost[tuple(rng.integers(4, size=2))] = 10.0**exponent
        plan = plan_from_cost(cost)
        orders = itertools.permutations(range(4))
        best = min(sum(Fraction(cost[i, j]) for i, j in enumerate(k)) for k in orders) / 4
        assert Fraction(plan.lower_cost) <= best <= Fraction(plan.upper_cost)


def test_costs_of_rows_without_mass_have_no_say() -> None:
    cost = np.random.default_rng(0).random((5, 5)) * 1e-200
    cost[0] = 1e302
    plan = plan_from_cost(cost, a=[0, 1, 1, 1, 1])
    assert plan.optimal
    assert plan.cost == pytest.approx(plan_from_cost(cost[1:]).cost)


def test_costs_whose_sums_overflow_are_refused() -> None:
    call = partial(plan_from_cost, [[1e303, 1.0], [1.0, 2.0]])
    assert_refused(call, InputError, "measure-magnitude")
