"""Lower bounds: never above the distance, and tight where they ought to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from silot_transport import (
    exact_plan,
    gelbrich_bound,
    lower_bounds,
    mean_bound,
    sliced_bound,
)
from tests.problems import (
    LAYOUTS,
    MASS_ROUNDING,
    ORDERS,
    Pair,
    Problem,
    exact_cost,
    grid_problems,
    known_problems,
    pairs,
    seeds,
    translation_problems,
)
from tests.tiers import examples

orders = pytest.mark.parametrize("p", ORDERS)
# A frame of 200 dimensions takes milliseconds to draw; one test below has such.
FEW = (1, 2, 3, 7, 20)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# See test_moments.py for the Gelbrich bound of clouds that are near, far from the origin or
# without spread.
SPREAD_OUT = ("normal", "clusters", "outlier", "uneven")
NOT_SPREAD_OUT = tuple(layout for layout in LAYOUTS if layout not in SPREAD_OUT)


@orders
@given(pair=pairs(dimensions=FEW, layouts=NOT_SPREAD_OUT), seed=seeds)
def test_mean_and_sliced_bounds_are_below_the_distance_of_near_and_flat_clouds(
    pair: Pair, seed: int, p: int
) -> None:
    upper = exact_plan(*pair.arrays, p=p).upper
    assert mean_bound(*pair.arrays) <= upper
    assert sliced_bound(*pair.arrays, p=p, rng=rng(seed)) <= upper


@orders
@settings(max_examples=examples(80))
@given(pair=pairs(dimensions=FEW, layouts=SPREAD_OUT), seed=seeds)
def test_every_bound_is_below_the_distance(pair: Pair, seed: int, p: int) -> None:
    known, slack = exact_cost(pair, p), MASS_ROUNDING * pair.largest_cost(p)
    upper = exact_plan(*pair.arrays, p=p).upper
    for name, bound in lower_bounds(*pair.arrays, p=p, rng=rng(seed)).items():
        assert 0.0 <= bound <= upper, name
        assert bound**p <= known * (1 + 1e-12) + slack, name


@orders
@settings(max_examples=examples(5))
@given(pair=pairs(dimensions=(200,), layouts=SPREAD_OUT), seed=seeds)
def test_every_bound_is_below_the_distance_in_many_dimensions(
    pair: Pair, seed: int, p: int
) -> None:
    upper = exact_plan(*pair.arrays, p=p).upper
    for name, bound in lower_bounds(*pair.arrays, p=p, rng=rng(seed)).items():
        assert 0.0 <= bound <= upper, name


@settings(max_examples=examples(150))
@given(problem=known_problems())
def test_every_bound_is_below_a_known_distance(problem: Problem) -> None:
    slack = MASS_ROUNDING * problem.largest_cost(problem.p)
    for name, bound in lower_bounds(*problem.arrays, p=problem.p, rng=rng()).items():
        assert bound**problem.p <= problem.cost * (1 + 1e-12) + slack, name


@settings(max_examples=examples(100))
@given(problem=grid_problems())
def test_every_bound_holds_without_tolerance_where_the_answer_has_no_rounding(
    problem: Problem,
) -> None:
    for name, bound in lower_bounds(*problem.arrays, p=2, rng=rng()).items():
        assert bound <= problem.distance, name


@orders
def test_bounds_are_named_by_order(p: int) -> None:
    names = {"mean", "sliced"} | ({"gelbrich"} if p == 2 else set())
    assert set(lower_bounds([[0.0]], [[1.0]], p=p, rng=rng())) == names


@given(pair=pairs(dimensions=FEW), seed=seeds)
def test_the_dictionary_holds_the_single_bounds(pair: Pair, seed: int) -> None:
    assert lower_bounds(*pair.arrays, rng=rng(seed)) == {
        "mean": mean_bound(*pair.arrays),
        "sliced": sliced_bound(*pair.arrays, rng=rng(seed)),
        "gelbrich": gelbrich_bound(*pair.arrays),
    }


@given(problem=translation_problems())
def test_the_mean_bound_is_the_distance_for_translations(problem: Problem) -> None:
    coordinates = max(np.abs(problem.x).max(), np.abs(problem.y).max())
    assert mean_bound(*problem.arrays) == pytest.approx(
        problem.distance, rel=1e-9, abs=1e-12 * coordinates
    )


@given(pair=pairs())
def test_the_mean_bound_is_below_the_distance_of_order_one(pair: Pair) -> None:
    slack = MASS_ROUNDING * pair.largest_cost(1)
    assert mean_bound(*pair.arrays) <= exact_cost(pair, 1) * (1 + 1e-12) + slack


def test_the_mean_bound_of_hand_made_clouds() -> None:
    assert mean_bound([[0.0, 0.0], [2.0, 0.0]], [[1.0, 5.0]]) == pytest.approx(5.0)
    assert mean_bound([[0.0], [4.0]], [[5.0]], [3.0, 1.0]) == pytest.approx(4.0)
    assert mean_bound([[0.0], [2.0]], [[1.0]]) == 0.0


@given(pair=pairs(layouts=("normal", "clusters", "uneven", "constant")))
def test_the_gelbrich_bound_is_at_least_the_mean_bound(pair: Pair) -> None:
    extent = pair.largest_cost(2) ** 0.5 + float(np.abs(pair.x).max() + np.abs(pair.y).max())
    assert gelbrich_bound(*pair.arrays) >= mean_bound(*pair.arrays) - 1e-5 * extent


@orders
@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
def test_mean_and_sliced_bounds_hold_at_a_large_common_offset(offset: float, p: int) -> None:
    generator = rng()
    x = offset + generator.integers(0, 10, (1000, 3))
    # The same measure, its records in another order: the distance is zero.
    y = x[generator.permutation(1000)]
    assert mean_bound(x, y) == 0.0
    assert sliced_bound(x, y, p=p, rng=rng()) == 0.0


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_bounds_of_shifted_clouds_survive_a_common_offset(offset: float) -> None:
    generator = rng()
    x = offset + generator.integers(0, 10, (200, 3))
    y = x[generator.permutation(200)] + np.array([3.0, 4.0, 0.0])
    for name, bound in lower_bounds(x, y, rng=rng()).items():
        assert bound == pytest.approx(5.0, rel=1e-6), name
        assert bound <= 5.0, name
