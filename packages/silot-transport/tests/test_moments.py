"""Means, covariances, and distances of Gaussians in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from silot_transport import (
    Moments,
    covariance_root,
    exact_plan,
    gaussian_distance,
    gelbrich_bound,
    moments,
)
from silot_transport.errors import InputError, MismatchError
from silot_transport.moments import bures_squared, centred_root, gelbrich_of_moments
from tests.problems import (
    MASS_ROUNDING,
    SECRET,
    Array,
    Pair,
    Problem,
    affine_problems,
    assert_refused,
    clouds,
    exact_cost,
    normalised,
    pairs,
    seeds,
    translation_problems,
)

dimensions = st.sampled_from((1, 2, 3, 8, 40))
# Roots of 200 x 200 matrices are slow; test_bounds.py has such.
FEW = (1, 2, 3, 7, 20)


def gaussian(mean: object, covariance: object) -> Moments:
    return Moments(np.atleast_1d(np.asarray(mean, float)), np.atleast_2d(covariance).astype(float))


def draw_covariance(rng: np.random.Generator, d: int, rank: int | None = None) -> Array:
    factor = rng.standard_normal((d, rank or 2 * d))
    return factor @ factor.T / d


def rotation(rng: np.random.Generator, d: int) -> Array:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def random_gaussian(rng: np.random.Generator, d: int, rank: int | None = None) -> Moments:
    return gaussian(rng.standard_normal(d), draw_covariance(rng, d, rank))


# Moments of clouds.


@given(cloud=clouds())
def test_moments_are_those_of_numpy(cloud: tuple[Array, Array | None]) -> None:
    points, weights = cloud
    found = moments(points, weights)
    share = normalised(weights, len(points))
    np.testing.assert_allclose(
        found.mean, np.average(points, axis=0, weights=share), rtol=1e-12, atol=1e-12
    )
    d = points.shape[1]
    known = np.cov(points.T, aweights=share, ddof=0).reshape(d, d)
    np.testing.assert_allclose(
        found.covariance, known, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(known).max())
    )
    assert np.array_equal(found.covariance, found.covariance.T)


def test_moments_of_hand_made_points() -> None:
    found = moments([[0.0, 1.0], [4.0, 1.0]], [3.0, 1.0])
    assert found.mean.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found.covariance, [[3.0, 0.0], [0.0, 0.0]], atol=1e-15)


def test_one_point_has_no_covariance() -> None:
    assert moments([[1.0, 2.0]]).covariance.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@given(cloud=clouds())
def test_the_centred_root_is_a_root_of_the_covariance(cloud: tuple[Array, Array | None]) -> None:
    points, weights = cloud
    mean, root = centred_root(points, normalised(weights, len(points)))
    found = moments(points, weights)
    np.testing.assert_allclose(mean, found.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(root.T @ root, found.covariance, rtol=1e-9, atol=1e-9)


def test_moments_of_points_far_from_the_origin_keep_their_covariance() -> None:
    rng = np.random.default_rng(0)
    points = np.round(rng.standard_normal((64, 3)) * 256) / 256
    np.testing.assert_allclose(
        moments(points + 2.0**30).covariance, moments(points).covariance, rtol=1e-9
    )


# Roots.


@given(d=dimensions, seed=seeds, singular=st.booleans())
def test_the_root_squared_is_the_covariance(d: int, seed: int, singular: bool) -> None:
    rng = np.random.default_rng(seed)
    covariance = draw_covariance(rng, d, rank=max(1, d // 2) if singular else None)
    root = covariance_root(covariance)
    size = np.abs(covariance).max()
    np.testing.assert_allclose(root @ root, covariance, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(root, root.T, rtol=0, atol=1e-12 * size**0.5)
    assert np.linalg.eigvalsh(root).min() >= -1e-12 * size**0.5


def test_roots_of_hand_made_covariances() -> None:
    np.testing.assert_allclose(covariance_root([[4.0, 0.0], [0.0, 9.0]]), [[2, 0], [0, 3]])
    np.testing.assert_allclose(covariance_root([[5.0, 4.0], [4.0, 5.0]]), [[2, 1], [1, 2]])
    assert covariance_root(np.zeros((3, 3))).tolist() == np.zeros((3, 3)).tolist()


def test_eigenvalues_below_zero_by_rounding_count_as_zero() -> None:
    root = covariance_root(np.diag([1.0, -1e-12]))
    np.testing.assert_allclose(root, np.diag([1.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [np.diag([SECRET, -1.0]), np.diag([-SECRET]), np.array([[0.0, SECRET], [SECRET, 0.0]])],
)
def test_matrices_with_negative_eigenvalues_are_refused(matrix: Array) -> None:
    assert_refused(lambda: covariance_root(matrix), InputError, "covariance-negative")
    zero = Moments(np.zeros(len(matrix)), np.zeros_like(matrix))
    bad = Moments(np.zeros(len(matrix)), matrix)
    assert_refused(lambda: gaussian_distance(zero, bad), InputError, "covariance-negative")


def test_matrices_that_are_not_square_are_refused() -> None:
    assert_refused(
        lambda: covariance_root([[SECRET, 1.0, 2.0], [1.0, SECRET, 2.0]]),
        InputError,
        "covariance-shape",
        quoting="(2, 3)",
    )


def test_covariances_with_nan_are_refused() -> None:
    assert_refused(lambda: covariance_root([[np.nan]]), InputError, "measure-nan")


# Gaussian distances.


deviations_on_the_line = st.one_of(st.just(0.0), st.floats(1e-6, 1e3))


@given(shift=st.integers(-1000, 1000), one=deviations_on_the_line, other=deviations_on_the_line)
def test_gaussians_on_the_line_differ_in_mean_and_deviation(
    shift: int, one: float, other: float
) -> None:
    found = gaussian_distance(gaussian(0.0, one**2), gaussian(shift, other**2))
    known = np.hypot(shift, one - other)
    assert found == pytest.approx(known, rel=1e-9, abs=3e-7 * max(one, other))


@given(d=dimensions, seed=seeds)
def test_diagonal_gaussians_differ_coordinate_by_coordinate(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, deviations = rng.standard_normal((2, d)), rng.random((2, d)) + 0.1
    found = gaussian_distance(
        *(gaussian(m, np.diag(s**2)) for m, s in zip(means, deviations, strict=False))
    )
    known = np.sum((means[0] - means[1]) ** 2) + np.sum((deviations[0] - deviations[1]) ** 2)
    assert found**2 == pytest.approx(known, rel=1e-9)


@given(d=dimensions, seed=seeds)
def test_commuting_gaussians_differ_along_their_common_axes(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes, means, deviations = rotation(rng, d), rng.standard_normal((2, d)), rng.random((2, d))
    found = gaussian_distance(
        *(gaussian(m, (axes * s**2) @ axes.T) for m, s in zip(means, deviations, strict=True))
    )
    known = np.sum((means[0] - means[1]) ** 2) + np.sum((deviations[0] - deviations[1]) ** 2)
    assert found**2 == pytest.approx(known, rel=1e-7)


@given(d=dimensions, seed=seeds)
def test_any_gaussians_agree_with_the_formula_by_schur_roots(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = random_gaussian(rng, d), random_gaussian(rng, d)
    root = sqrtm(one.covariance).real
    cross = sqrtm(root @ other.covariance @ root).real
    known = (
        np.sum((one.mean - other.mean) ** 2)
        + np.trace(one.covariance)
        + np.trace(other.covariance)
        - 2 * np.trace(cross)
    )
    assert gaussian_distance(one, other) ** 2 == pytest.approx(known, rel=1e-8)


@given(d=st.sampled_from((2, 3, 8, 40)), seed=seeds)
def test_singular_gaussians_on_orthogonal_subspaces_add_their_traces(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = rotation(rng, d)
    half = d // 2
    one = gaussian(np.zeros(d), (axes[:, :half] * rng.random(half)) @ axes[:, :half].T)
    other = gaussian(np.zeros(d), (axes[:, half:] * rng.random(d - half)) @ axes[:, half:].T)
    known = np.trace(one.covariance) + np.trace(other.covariance)
    assert gaussian_distance(one, other) ** 2 == pytest.approx(known, rel=1e-7)


@given(d=dimensions, seed=seeds)
def test_a_gaussian_without_spread_is_a_point(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, point = random_gaussian(rng, d), gaussian(rng.standard_normal(d), np.zeros((d, d)))
    known = np.sum((one.mean - point.mean) ** 2) + np.trace(one.covariance)
    assert gaussian_distance(one, point) ** 2 == pytest.approx(known, rel=1e-12)
    assert gaussian_distance(point, point) == 0.0


@given(d=dimensions, seed=seeds, factor=st.floats(0.01, 100.0))
def test_scaling_a_gaussian_moves_it_by_its_deviation(d: int, seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    one = random_gaussian(rng, d)
    other = Moments(one.mean, factor**2 * one.covariance)
    known = (factor - 1) ** 2 * np.trace(one.covariance)
    size = max(1.0, factor**2) * np.trace(one.covariance)
    assert gaussian_distance(one, other) ** 2 == pytest.approx(known, rel=1e-7, abs=1e-12 * size)


@given(d=dimensions, seed=seeds, singular=st.booleans())
def test_equal_gaussians_are_at_no_distance(d: int, seed: int, singular: bool) -> None:
    rng = np.random.default_rng(seed)
    one = random_gaussian(rng, d, rank=max(1, d // 2) if singular else None)
    assert gaussian_distance(one, one) == 0.0
    assert bures_squared(one.covariance, one.covariance.copy()) == 0.0


@given(d=dimensions, seed=seeds, singular=st.booleans())
def test_gaussian_distances_are_symmetric_and_rotation_invariant(
    d: int, seed: int, singular: bool
) -> None:
    rng = np.random.default_rng(seed)
    rank = max(1, d // 2) if singular else None
    one, other = random_gaussian(rng, d, rank), random_gaussian(rng, d, rank)
    there = gaussian_distance(one, other)
    assert gaussian_distance(other, one) == pytest.approx(there, rel=1e-7)
    turn = rotation(rng, d)
    turned = (Moments(turn @ side.mean, turn @ side.covariance @ turn.T) for side in (one, other))
    assert gaussian_distance(*turned) == pytest.approx(there, rel=1e-6)


@given(d=dimensions, seed=seeds)
def test_gaussian_distances_obey_the_triangle_inequality(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, middle, other = (random_gaussian(rng, d) for _ in range(3))
    around = gaussian_distance(one, middle) + gaussian_distance(middle, other)
    assert gaussian_distance(one, other) <= around * (1 + 1e-9)


def test_means_of_other_dimensions_are_refused() -> None:
    one, other = gaussian([SECRET, 1.0], np.eye(2)), gaussian([1.0, 2.0, 3.0], np.eye(3))
    assert_refused(
        lambda: gaussian_distance(one, other),
        MismatchError,
        "dimension-mismatch",
        quoting="2 and 3",
    )


def test_covariances_of_other_dimensions_are_refused() -> None:
    one, other = gaussian([SECRET, 1.0], np.eye(3)), gaussian([1.0, 2.0], np.eye(2))
    with pytest.raises(InputError):
        gaussian_distance(one, other)


def test_covariances_that_are_not_symmetric_are_refused() -> None:
    skew = gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]])
    unit = gaussian([0.0, 0.0], np.eye(2))
    with pytest.raises(InputError):
        gaussian_distance(skew, unit)


def test_means_with_nan_are_refused() -> None:
    bad, unit = gaussian([np.nan, SECRET], np.eye(2)), gaussian([0.0, 0.0], np.eye(2))
    with pytest.raises(InputError):
        gaussian_distance(bad, unit)


# The Gelbrich bound.


@given(pair=pairs(layouts=("near", "offset")))
def test_the_gelbrich_bound_is_below_the_distance_of_near_clouds(pair: Pair) -> None:
    assert 0.0 <= gelbrich_bound(*pair.arrays) <= exact_plan(*pair.arrays).upper


@pytest.mark.parametrize("value", [7.0, 0.1, 1e6 / 3])
def test_the_gelbrich_bound_of_one_point_and_its_copies_is_zero(value: float) -> None:
    for copies in range(2, 12):
        assert gelbrich_bound([[value]], np.full((copies, 1), value)) == 0.0


@given(pair=pairs(dimensions=FEW, layouts=("normal", "clusters", "outlier", "uneven")))
def test_the_gelbrich_bound_is_below_the_distance(pair: Pair) -> None:
    known = exact_cost(pair, 2)
    bound = gelbrich_bound(*pair.arrays)
    assert 0.0 <= bound <= exact_plan(*pair.arrays).upper
    assert bound**2 <= known * (1 + 1e-12) + MASS_ROUNDING * pair.largest_cost(2)
    from_moments = gelbrich_of_moments(moments(pair.x, pair.a), moments(pair.y, pair.b))
    assert 0.0 <= from_moments <= exact_plan(*pair.arrays).upper


@given(problem=affine_problems())
def test_the_gelbrich_bound_is_the_distance_for_affine_images(problem: Problem) -> None:
    bound = gelbrich_bound(*problem.arrays)
    spread = sum(
        float(np.trace(moments(points, weights).covariance))
        for points, weights in ((problem.x, problem.a), (problem.y, problem.b))
    )
    assert bound**2 == pytest.approx(problem.cost, rel=1e-7, abs=1e-11 * spread)
    assert bound <= problem.distance * (1 + 1e-12)


@given(problem=translation_problems())
def test_the_gelbrich_bound_is_the_distance_for_translations(problem: Problem) -> None:
    bound = gelbrich_bound(*problem.arrays)
    spread = float(np.trace(moments(problem.x, problem.a).covariance))
    known = float(
        np.sum((moments(problem.x, problem.a).mean - moments(problem.y, problem.b).mean) ** 2)
    )
    assert bound**2 == pytest.approx(known, rel=1e-9, abs=1e-11 * spread)


@given(pair=pairs(dimensions=FEW, layouts=("normal", "clusters", "uneven")))
def test_the_gelbrich_bound_is_the_gaussian_distance_of_the_moments(pair: Pair) -> None:
    one, other = moments(pair.x, pair.a), moments(pair.y, pair.b)
    spread = float(np.trace(one.covariance) + np.trace(other.covariance))
    known = gaussian_distance(one, other) ** 2
    assert gelbrich_bound(*pair.arrays) ** 2 == pytest.approx(known, rel=1e-6, abs=1e-6 * spread)


def test_the_gelbrich_bound_holds_at_a_large_common_offset() -> None:
    rng = np.random.default_rng(0)
    x = 1e12 + rng.integers(0, 10, (1000, 3))
    # The same measure, its records in another order: the distance is zero.
    y = x[rng.permutation(1000)]
    assert gelbrich_bound(x, y) == 0.0
