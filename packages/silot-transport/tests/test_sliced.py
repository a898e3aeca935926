"""Distances on the line and over projections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from silot_transport import exact_plan, sliced_bound, sliced_distance
from silot_transport.bounds import line_costs
from silot_transport.errors import InputError
from tests.problems import (
    MASS_ROUNDING,
    ORDERS,
    Array,
    Pair,
    Problem,
    assert_cost,
    assert_refused,
    clouds,
    exact_cost,
    line_problems,
    pairs,
    seeds,
    translation_problems,
)

orders = pytest.mark.parametrize("p", ORDERS)
# A frame of 200 dimensions takes milliseconds to draw; test_bounds.py has such.
FEW = (1, 2, 3, 7, 20)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# The line.


@given(problem=line_problems())
def test_costs_on_the_line_are_those_of_sorted_unit_masses(problem: Problem) -> None:
    a, b = problem.masses
    found = line_costs(problem.x.T, problem.y.T, a, b, problem.p)
    assert found.shape == (1,)
    assert_cost(float(found[0]), problem.cost, problem.largest_cost(problem.p))


@given(pair=pairs(dimensions=(1,), layouts=("normal", "grid", "clusters", "near")))
def test_costs_on_the_line_are_those_of_scipy(pair: Pair) -> None:
    a, b = pair.masses
    found = line_costs(pair.x.T, pair.y.T, a, b, 1)
    known = wasserstein_distance(pair.x[:, 0], pair.y[:, 0], a, b)
    assert_cost(float(found[0]), known, pair.largest_cost(1))


@orders
@given(n=st.integers(1, 30), k=st.integers(1, 5), seed=seeds)
def test_equal_sizes_and_weights_give_one_answer_by_both_ways(
    n: int, k: int, seed: int, p: int
) -> None:
    x, y = rng(seed).standard_normal((2, k, n))
    same = np.full(n, 1.0 / n)
    np.testing.assert_allclose(
        line_costs(x, y, None, None, p), line_costs(x, y, same, same, p), rtol=1e-9, atol=1e-13
    )


@orders
@given(pair=pairs(dimensions=(1,)), directions=st.sampled_from((1, 3, 16)))
def test_on_the_line_the_sliced_distance_is_the_distance(
    pair: Pair, directions: int, p: int
) -> None:
    found = sliced_distance(*pair.arrays, p=p, directions=directions, rng=rng())
    assert_cost(found**p, exact_cost(pair, p), pair.largest_cost(p))


@orders
@given(pair=pairs(dimensions=(1,)))
def test_on_the_line_the_sliced_bound_is_the_distance(pair: Pair, p: int) -> None:
    found = sliced_bound(*pair.arrays, p=p, rng=rng())
    known = exact_cost(pair, p)
    coordinates = float(np.abs(pair.x - pair.x.mean()).max() + np.abs(pair.y - pair.x.mean()).max())
    assert found**p == pytest.approx(
        known, rel=1e-9, abs=3e-14 * max(coordinates, coordinates**2) ** 1.0
    )


# Projections.


@orders
@given(pair=pairs(dimensions=FEW), seed=seeds)
def test_the_sliced_distance_is_at_most_the_distance(pair: Pair, seed: int, p: int) -> None:
    found = sliced_distance(*pair.arrays, p=p, directions=8, rng=rng(seed))
    slack = MASS_ROUNDING * pair.largest_cost(p)
    assert 0.0 <= found**p <= exact_cost(pair, p) * (1 + 1e-9) + slack


@orders
@given(pair=pairs(dimensions=FEW), seed=seeds, frames=st.sampled_from((1, 4)))
def test_the_sliced_bound_is_below_the_distance(pair: Pair, seed: int, frames: int, p: int) -> None:
    found = sliced_bound(*pair.arrays, p=p, frames=frames, rng=rng(seed))
    assert 0.0 <= found <= exact_plan(*pair.arrays, p=p).upper
    slack = MASS_ROUNDING * pair.largest_cost(p)
    assert found**p <= exact_cost(pair, p) * (1 + 1e-12) + slack


@given(problem=translation_problems(), seed=seeds)
def test_the_sliced_bound_of_order_two_is_the_distance_for_translations(
    problem: Problem, seed: int
) -> None:
    found = sliced_bound(*problem.arrays, p=2, frames=2, rng=rng(seed))
    a, b = problem.masses
    shift = float(np.sum((a @ problem.x - b @ problem.y) ** 2))
    room = float(np.abs(problem.x).max() + np.abs(problem.y).max()) ** 2 * problem.x.shape[1]
    assert found**2 == pytest.approx(shift, rel=1e-9, abs=1e-13 * room)


@orders
def test_the_sliced_distance_of_two_points_is_their_mean_projection(p: int) -> None:
    # E |<u, v>|^p over the sphere: |v|^2 / d for p = 2, 2 |v| / pi for p = 1 in the plane.
    count = 20_000
    found = sliced_distance([[0.0, 0.0]], [[3.0, 4.0]], p=p, directions=count, rng=rng())
    known = 10.0 / np.pi if p == 1 else 25.0 / 2.0
    deviation = 25.0**0.5 * 0.31 if p == 1 else 25.0 * 8**-0.5
    assert abs(found**p - known) <= 4.0 * deviation / count**0.5


@orders
@given(cloud=clouds(), seed=seeds)
def test_a_cloud_is_at_no_sliced_distance_from_itself(
    cloud: tuple[Array, Array | None], seed: int, p: int
) -> None:
    points, weights = cloud
    assert sliced_distance(points, points, weights, weights, p=p, rng=rng(seed)) == 0.0
    assert sliced_bound(points, points, weights, weights, p=p, rng=rng(seed)) == 0.0


@orders
@given(pair=pairs(dimensions=FEW), seed=seeds)
def test_the_same_seed_gives_the_same_number(pair: Pair, seed: int, p: int) -> None:
    for function in (sliced_distance, sliced_bound):
        first = function(*pair.arrays, p=p, rng=rng(seed))
        assert function(*pair.arrays, p=p, rng=rng(seed)) == first


@given(pair=pairs(dimensions=(2, 7), layouts=("normal", "clusters")), seed=seeds)
def test_more_frames_never_lower_the_bound(pair: Pair, seed: int) -> None:
    bounds = [sliced_bound(*pair.arrays, frames=k, rng=rng(seed)) for k in (1, 2, 4, 8)]
    assert bounds == sorted(bounds)


@orders
@given(pair=pairs(dimensions=FEW, layouts=("normal", "grid")), seed=seeds)
def test_uniform_weights_may_be_spelled_out(pair: Pair, seed: int, p: int) -> None:
    ones = np.ones(len(pair.x)), np.ones(len(pair.y))
    for function in (sliced_distance, sliced_bound):
        implied = function(pair.x, pair.y, p=p, rng=rng(seed))
        spelled = function(pair.x, pair.y, *ones, p=p, rng=rng(seed))
        assert_cost(implied**p, spelled**p, 4.0 * pair.largest_cost(p))


def test_coordinate_axes_are_always_tried() -> None:
    # The first frame is the axes: a shift along one is found exactly for p = 1.
    found = sliced_bound(np.zeros((1, 9)), 2.0 * np.eye(9)[:1], p=1, frames=1, rng=rng())
    assert found == pytest.approx(2.0, rel=1e-9)


def test_counts_below_one_are_refused() -> None:
    assert_refused(
        lambda: sliced_distance([[0.0]], [[1.0]], directions=0, rng=rng()),
        InputError,
        "option-count",
        quoting="directions is 0",
    )
    assert_refused(
        lambda: sliced_bound([[0.0]], [[1.0]], frames=0, rng=rng()),
        InputError,
        "option-count",
        quoting="frames is 0",
    )


@pytest.mark.parametrize("count", [2.5, "3", None])
def test_counts_that_are_not_whole_numbers_are_refused(count: Any) -> None:
    with pytest.raises(InputError):
        sliced_distance([[0.0]], [[1.0]], directions=count, rng=rng())
    with pytest.raises(InputError):
        sliced_bound([[0.0]], [[1.0]], frames=count, rng=rng())
