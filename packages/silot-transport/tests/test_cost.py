"""Cost matrices: equal to costs from coordinate differences, whatever the clouds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import cost_matrix
from silot_transport.cost import build_cost, paired_cost
from tests.problems import LAYOUTS, ORDERS, Pair, direct_costs, draw_clouds, pairs, seeds

orders = pytest.mark.parametrize("p", ORDERS)


def assert_same_costs(x: np.ndarray, y: np.ndarray, p: int) -> None:
    known = direct_costs(x, y, p)
    np.testing.assert_allclose(cost_matrix(x, y, p=p), known, rtol=1e-9, atol=0.0)


@orders
@given(pair=pairs(largest=40, layouts=tuple(k for k in LAYOUTS if k not in ("near", "outlier"))))
def test_costs_equal_direct_differences(pair: Pair, p: int) -> None:
    assert_same_costs(pair.x, pair.y, p)


@orders
@pytest.mark.parametrize("layout", [k for k in LAYOUTS if k not in ("near", "outlier")])
@pytest.mark.parametrize("d", [1, 3, 200])
def test_costs_of_many_blocks_equal_direct_differences(layout: str, d: int, p: int) -> None:
    x, y = draw_clouds(np.random.default_rng(1), layout, 700, 900, d)
    assert_same_costs(x, y, p)


@orders
@given(pair=pairs(largest=40))
def test_costs_are_within_the_stated_rounding_of_direct_differences(pair: Pair, p: int) -> None:
    cost = build_cost(pair.x, pair.y, p)
    assert np.abs(cost.matrix - direct_costs(pair.x, pair.y, p)).max() <= cost.rounding
    # The statement is useful: far below the costs, but for clouds of one point.
    coordinates = max(np.abs(pair.x).max(), np.abs(pair.y).max())
    assert cost.rounding <= 1e-10 * cost.matrix.max() + (1e-14 * coordinates) ** p


@orders
@pytest.mark.parametrize("distance", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_costs_of_near_coincident_points_equal_direct_differences(distance: float, p: int) -> None:
    rng = np.random.default_rng(2)
    # Dyadic coordinates, so that the points themselves are known exactly.
    x = np.round(rng.standard_normal((60, 5)) * 2**20) / 2**20
    steps = np.round(rng.standard_normal((60, 5)) * distance * 2**40) / 2**40
    assert_same_costs(x, x + steps, p)


@orders
@pytest.mark.parametrize("distance", [1e-11, 1e-12])
def test_costs_of_nearly_equal_points_equal_direct_differences(distance: float, p: int) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([np.zeros((1, 3)), rng.standard_normal((30, 3))])
    y = np.concatenate([np.full((1, 3), distance), rng.standard_normal((30, 3))])
    assert_same_costs(x, y, p)


@orders
@given(pair=pairs(largest=30, layouts=LAYOUTS))
def test_equal_points_cost_exactly_nothing(pair: Pair, p: int) -> None:
    costs = cost_matrix(pair.x, np.concatenate([pair.y, pair.x]), p=p)
    assert (costs[:, len(pair.y) :].diagonal() == 0.0).all()
    assert (costs >= 0.0).all()


@orders
def test_all_points_equal_cost_nothing(p: int) -> None:
    same = np.full((5, 3), 1.1e7)
    assert (cost_matrix(same, same[:2], p=p) == 0.0).all()


@orders
@given(pair=pairs(largest=20, layouts=("normal", "grid", "clusters", "outlier", "uneven")))
def test_costs_are_symmetric(pair: Pair, p: int) -> None:
    one_way, other_way = cost_matrix(pair.x, pair.y, p=p), cost_matrix(pair.y, pair.x, p=p)
    largest = float(one_way.max())
    np.testing.assert_allclose(one_way, other_way.T, rtol=1e-9, atol=1e-12 * largest)


@given(
    n=st.integers(1, 20), d=st.sampled_from((1, 3, 40)), offset=st.sampled_from((2.0**20, 2.0**40)),
    seed=seeds,
)  # fmt: skip
def test_a_common_offset_changes_no_cost(n: int, d: int, offset: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (np.round(rng.standard_normal((n, d)) * 256) / 256 for _ in range(2))
    for p in ORDERS:
        np.testing.assert_allclose(
            cost_matrix(x + offset, y + offset, p=p), direct_costs(x, y, p), rtol=1e-9, atol=0
        )


def test_integer_costs_are_exact() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.integers(-50, 50, (30, 4)), rng.integers(-50, 50, (20, 4))
    known = [[int(((u - v) ** 2).sum()) for v in y] for u in x]
    np.testing.assert_allclose(cost_matrix(x, y), known, rtol=1e-12, atol=0)


def test_costs_agree_with_exact_rational_arithmetic() -> None:
    rng = np.random.default_rng(5)
    x, y = 1e3 + rng.standard_normal((8, 3)), 1e3 + rng.standard_normal((6, 3))
    known = np.array(
        [
            [float(sum((Fraction(s) - Fraction(t)) ** 2 for s, t in zip(u, v, strict=True)))
             for v in y.tolist()]
            for u in x.tolist()
        ]
    )  # fmt: skip
    np.testing.assert_allclose(cost_matrix(x, y, p=2), known, rtol=1e-9)
    np.testing.assert_allclose(cost_matrix(x, y, p=1), np.sqrt(known), rtol=1e-9)


@orders
@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
def test_costs_scale_with_the_units(scale: float, p: int) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((9, 4)), rng.standard_normal((7, 4))
    np.testing.assert_allclose(
        cost_matrix(scale * x, scale * y, p=p), scale**p * direct_costs(x, y, p), rtol=1e-9
    )


@orders
@given(pair=pairs(largest=20))
def test_paired_costs_are_the_diagonal_of_the_matrix(pair: Pair, p: int) -> None:
    k = min(len(pair.x), len(pair.y))
    np.testing.assert_allclose(
        paired_cost(pair.x[:k], pair.y[:k], p),
        direct_costs(pair.x[:k], pair.y[:k], p).diagonal(),
        rtol=1e-12,
    )


def test_arguments_are_left_unchanged() -> None:
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])
    cost_matrix(x, y)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert y.tolist() == [[5.0, 6.0]]
