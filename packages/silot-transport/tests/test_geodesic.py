"""Interpolating measures: where they lie, what they weigh, and how far they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import Interpolant, exact_plan, interpolate
from silot_transport.errors import InputError
from tests.problems import (
    MASS_ROUNDING,
    ORDERS,
    Array,
    Pair,
    Problem,
    affine_problems,
    assert_refused,
    pairs,
    seeds,
    translation_problems,
)

orders = pytest.mark.parametrize("p", ORDERS)
times = st.sampled_from((0.01, 0.25, 0.5, 0.8, 0.99))
sides = st.sampled_from(("x", "y"))
# Coordinates of any layout but an offset of a million: t x + (1 - t) y is rounded there.
LAYOUTS = ("normal", "grid", "clusters", "near", "constant", "uneven")


def between(
    pair: Pair, t: float, p: int = 2, *, interpolation: Any = "exact", support: Any = "x"
) -> Interpolant:
    return interpolate(*pair.arrays, t=t, p=p, interpolation=interpolation, support=support)


def distances(pair: Pair, eta: Interpolant, p: int) -> tuple[float, float]:
    """From the first cloud to the interpolant and from there to the second, by exact plans."""
    return (
        exact_plan(pair.x, eta.atoms, pair.a, eta.weights, p=p).distance,
        exact_plan(eta.atoms, pair.y, eta.weights, pair.b, p=p).distance,
    )


def room(pair: Pair, p: int) -> float:
    """What the rounding of masses and of atoms can do to a distance."""
    coordinates = max(float(np.abs(pair.x).max()), float(np.abs(pair.y).max()))
    return (MASS_ROUNDING * pair.largest_cost(p)) ** (1 / p) + 1e-14 * coordinates


def assert_measure(eta: Interpolant, d: int) -> None:
    assert eta.atoms.shape == (len(eta.weights), d)
    assert np.isfinite(eta.atoms).all()
    assert (eta.weights > 0).all()
    assert eta.weights.sum() == pytest.approx(1.0, abs=1e-13)


def mean(points: Array, weights: Array) -> Array:
    return weights @ points


# Exact interpolation.


@orders
@given(pair=pairs(layouts=LAYOUTS), t=times)
def test_the_exact_interpolant_lies_on_the_geodesic(pair: Pair, t: float, p: int) -> None:
    eta = between(pair, t, p)
    assert_measure(eta, pair.x.shape[1])
    assert eta.geodesic and eta.optimal
    assert 0.0 <= eta.gap <= 1e-9 * pair.largest_cost(p)
    assert len(eta.weights) <= len(pair.x) + len(pair.y) - 1
    whole = exact_plan(*pair.arrays, p=p)
    assert eta.distance == pytest.approx(whole.distance, rel=1e-12)
    assert eta.lower == pytest.approx(whole.lower, rel=1e-9, abs=room(pair, p))
    assert eta.displacement == pytest.approx(t * whole.distance, rel=1e-12)
    to_eta, from_eta = distances(pair, eta, p)
    assert to_eta == pytest.approx(t * whole.distance, rel=1e-8, abs=room(pair, p))
    assert from_eta == pytest.approx((1 - t) * whole.distance, rel=1e-8, abs=room(pair, p))


@given(problem=translation_problems(), t=times)
def test_a_translation_is_interpolated_by_moving_part_of_the_way(
    problem: Problem, t: float
) -> None:
    eta = between(problem, t, problem.p)
    a, b = problem.masses
    shift = mean(problem.y, b) - mean(problem.x, a)
    expected = Pair("moved", problem.x + t * shift, eta.atoms, problem.a, eta.weights)
    miss = exact_plan(*expected.arrays, p=2).distance
    # Any plan of p = 1 may do; only p = 2 singles out the translation.
    if problem.p == 2:
        extent = float(np.abs(problem.x).max() + np.abs(problem.y).max())
        assert miss <= 2e-7 * extent


@given(problem=affine_problems(), t=times)
def test_convex_gradients_are_interpolated_point_by_point(problem: Problem, t: float) -> None:
    eta = between(problem, t)
    to_eta, from_eta = distances(problem, eta, 2)
    slack = room(problem, 2)
    assert to_eta == pytest.approx(t * problem.distance, rel=1e-8, abs=slack)
    assert from_eta == pytest.approx((1 - t) * problem.distance, rel=1e-8, abs=slack)


def test_one_point_splits_towards_every_target() -> None:
    pair = Pair("split", np.zeros((1, 2)), np.diag([4.0, 8.0]), None, np.array([1.0, 3.0]))
    eta = between(pair, 0.25)
    weight_of = dict(zip(map(tuple, eta.atoms.tolist()), eta.weights.tolist(), strict=True))
    assert weight_of == {(1.0, 0.0): 0.25, (0.0, 2.0): 0.75}
    merged = between(pair, 0.25, interpolation="barycentric")
    assert merged.atoms.tolist() == [[0.25, 1.5]]
    assert merged.weights.tolist() == [1.0]
    assert not merged.geodesic
    kept = between(pair, 0.25, interpolation="barycentric", support="y")
    assert kept.atoms.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert kept.geodesic


def test_two_points_merge_into_their_mean() -> None:
    pair = Pair("merge", np.array([[0.0], [2.0]]), np.array([[11.0]]))
    assert between(pair, 0.5, interpolation="barycentric").atoms.tolist() == [[5.5], [6.5]]
    merged = between(pair, 0.5, interpolation="barycentric", support="y")
    assert merged.atoms.tolist() == [[6.0]]
    # Both records travel to 6, from 0 and from 2.
    assert merged.displacement == pytest.approx(((6**2 + 4**2) / 2) ** 0.5)
    assert not merged.geodesic


# Barycentric interpolation.


@orders
@given(pair=pairs(layouts=LAYOUTS), t=times, support=sides)
def test_displacement_is_an_upper_bound_on_both_supports(
    pair: Pair, t: float, support: str, p: int
) -> None:
    eta = between(pair, t, p, interpolation="barycentric", support=support)
    assert_measure(eta, pair.x.shape[1])
    to_eta, _ = distances(pair, eta, p)
    assert to_eta <= eta.displacement * (1 + 1e-9) + room(pair, p)
    if eta.geodesic:
        assert eta.displacement == pytest.approx(t * eta.distance, rel=1e-8, abs=room(pair, p))


@given(pair=pairs(layouts=LAYOUTS), t=times)
def test_displacement_on_the_first_support_is_at_most_its_share_of_the_distance(
    pair: Pair, t: float
) -> None:
    # Jensen: averaging the targets of a point can only shorten its way.
    for p in ORDERS:
        eta = between(pair, t, p, interpolation="barycentric")
        assert eta.displacement <= t * eta.distance * (1 + 1e-9) + room(pair, p)


@given(pair=pairs(layouts=LAYOUTS), t=times, support=sides)
def test_a_barycentric_interpolant_keeps_the_weights_of_its_support(
    pair: Pair, t: float, support: str
) -> None:
    eta = between(pair, t, interpolation="barycentric", support=support)
    weights = pair.masses["xy".index(support)]
    np.testing.assert_allclose(eta.weights, weights[weights > 0], rtol=1e-14)


@orders
@given(
    n=st.integers(1, 15), d=st.sampled_from((1, 2, 9)), weighted=st.booleans(), t=times,
    support=sides, seed=seeds,
)  # fmt: skip
def test_barycentric_equals_exact_when_no_row_splits(
    n: int, d: int, weighted: bool, t: float, support: str, seed: int, p: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((n, d)) + 1.0
    weights = None
    if weighted:
        # Distinct masses far apart with y a slight move of x: no record wants to split.
        weights = rng.random(n) + 0.5
        y = x + 1e-3 * rng.standard_normal((n, d))
        x, y = x + 10.0 * np.arange(n)[:, None], y + 10.0 * np.arange(n)[:, None]
    pair = Pair("matched", x, y, weights, weights)
    exact = between(pair, t, p)
    eta = between(pair, t, p, interpolation="barycentric", support=support)
    assert eta.geodesic
    assert len(eta.atoms) == len(exact.atoms) == n
    one, other = np.lexsort(eta.atoms.T), np.lexsort(exact.atoms.T)
    np.testing.assert_allclose(eta.atoms[one], exact.atoms[other], rtol=0, atol=1e-12 * 10 * n)
    np.testing.assert_allclose(eta.weights[one], exact.weights[other], rtol=1e-12)
    assert eta.displacement == pytest.approx(exact.displacement, rel=1e-9)


@given(pair=pairs(), t=times, support=sides)
@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
def test_the_mean_is_interpolated_linearly(
    interpolation: str, pair: Pair, t: float, support: str
) -> None:
    for p in ORDERS:
        eta = between(pair, t, p, interpolation=interpolation, support=support)
        a, b = pair.masses
        expected = (1 - t) * mean(pair.x, a) + t * mean(pair.y, b)
        coordinates = max(np.abs(pair.x[a > 0]).max(), np.abs(pair.y[b > 0]).max())
        np.testing.assert_allclose(
            mean(eta.atoms, eta.weights), expected, rtol=0, atol=1e-12 * coordinates
        )


@given(pair=pairs(weights=("zeros",)), t=times, support=sides)
@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
def test_points_without_mass_give_no_atom(
    interpolation: str, pair: Pair, t: float, support: str
) -> None:
    eta = between(pair, t, interpolation=interpolation, support=support)
    assert_measure(eta, pair.x.shape[1])
    kept = replace(
        pair, x=pair.x[pair.a > 0], y=pair.y[pair.b > 0], a=pair.a[pair.a > 0], b=pair.b[pair.b > 0]
    )
    alone = between(kept, t, interpolation=interpolation, support=support)
    # The plan is unique for points in general position; atoms of the exact have its masses.
    unique = pair.x.shape[1] > 1 and pair.name.startswith("normal")
    if unique or interpolation == "barycentric":
        # Dropping zeros sums the weights in another order.
        np.testing.assert_allclose(eta.weights, alone.weights, rtol=0, atol=1e-15)
    if unique:
        np.testing.assert_allclose(eta.atoms, alone.atoms, rtol=0, atol=1e-12)


@orders
@given(pair=pairs(layouts=("normal", "clusters")), t=times)
def test_swapping_the_clouds_runs_the_geodesic_backwards(pair: Pair, t: float, p: int) -> None:
    # Supporting y at t is supporting x at 1 - t after the swap.
    eta = between(pair, t, p, interpolation="barycentric", support="y")
    back = between(pair.swapped(), 1 - t, p, interpolation="barycentric", support="x")
    np.testing.assert_allclose(eta.weights, back.weights, rtol=1e-14)
    if p == 2 and pair.x.shape[1] > 1 and pair.name.startswith("normal"):
        # The plan is unique for points in general position.
        np.testing.assert_allclose(eta.atoms, back.atoms, rtol=0, atol=1e-9)


@orders
def test_equal_clouds_stay_where_they_are(p: int) -> None:
    rng = np.random.default_rng(0)
    x, a = rng.standard_normal((20, 3)), rng.random(20)
    for interpolation in ("exact", "barycentric"):
        eta = interpolate(x, x, a, a, t=0.3, p=p, interpolation=interpolation)
        order, known = np.lexsort(eta.atoms.T), np.lexsort(x.T)
        np.testing.assert_allclose(eta.atoms[order], x[known], rtol=1e-12)
        assert eta.displacement <= 1e-12
        assert eta.distance <= 1e-9


def test_evenly_divided_masses_on_the_line_leave_no_dust() -> None:
    # Three records of y for each record of x: no record of y splits.
    x, y = np.arange(7.0)[:, None], 10.0 + 2.0 * np.arange(21.0)[:, None]
    pair = Pair("three for one", x, y)
    assert len(between(pair, 0.5).weights) == 21
    assert between(pair, 0.5, interpolation="barycentric", support="y").geodesic


@pytest.mark.parametrize("t", [0.0, 1.0, -1.0, 2.0, np.nan])
def test_a_parameter_outside_the_open_interval_is_refused(t: float) -> None:
    assert_refused(lambda: interpolate([[0.0]], [[1.0]], t=t), InputError, "option-t")


def test_unknown_options_are_refused() -> None:
    def call(**options: Any) -> object:
        return interpolate([[0.0]], [[1.0]], t=0.5, **options)

    assert_refused(
        lambda: call(interpolation="linear"), InputError, "option-interpolation", quoting="linear"
    )
    assert_refused(
        lambda: call(interpolation="barycentric", support="both"),
        InputError,
        "option-support",
        quoting="both",
    )
