"""Bounded coordinates: how much a feature can count, and what changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import Frame, bounded_coordinates
from silot_transport.errors import InputError, MismatchError
from tests.problems import Array, assert_refused, clouds, direct_costs, normalised, seeds

# The angular frequency of the coordinates.
OMEGA = 1.5


def costs(points: Array, frame: Frame) -> Array:
    image = bounded_coordinates(points, frame)
    return direct_costs(image, image, 2)


@given(clouds())
def test_frame_is_mean_deviation_and_range_of_the_points_with_mass(
    cloud: tuple[Array, Array | None],
) -> None:
    points, weights = cloud
    frame, masses = Frame.of(points, weights), normalised(weights, len(points))
    used = points[masses > 0]
    mean = masses @ points
    deviation = np.sqrt(masses @ (points - mean) ** 2)
    size = np.abs(points).max() + 1.0
    np.testing.assert_allclose(frame.mean, mean, atol=1e-13 * size)
    np.testing.assert_array_equal(frame.low, used.min(axis=0))
    np.testing.assert_array_equal(frame.high, used.max(axis=0))
    varies = np.ptp(used, axis=0) > 1e-9 * size
    np.testing.assert_allclose(frame.scale[varies], deviation[varies], rtol=1e-6)
    assert (frame.scale > 0).all()


@given(clouds(), seeds)
def test_a_feature_counts_a_bounded_amount_inside_the_range(
    cloud: tuple[Array, Array | None], seed: int
) -> None:
    frame = Frame.of(*cloud)
    rng = np.random.default_rng(seed)
    inside = frame.low + rng.random((9, len(frame.mean))) * (frame.high - frame.low)
    inside = np.clip(inside, frame.low, frame.high)
    found = costs(inside, frame)
    assert found.max() <= 13.0 * len(frame.mean) * (1 + 1e-12)
    z = (inside - frame.mean) / frame.scale
    apart = 1.5 * (np.tanh(z / 3)[:, None] - np.tanh(z / 3)[None])
    known = (2 - 2 * np.cos(OMEGA * (z[:, None] - z[None])) + apart**2).sum(axis=-1)
    np.testing.assert_allclose(found, known, atol=1e-10 * len(frame.mean))


@given(clouds())
def test_near_records_are_as_far_apart_as_standardised_ones(
    cloud: tuple[Array, Array | None],
) -> None:
    frame = Frame.of(*cloud)
    step = 1e-3 * frame.scale
    # Half way between the ends, or inside a range that is a point.
    start = 0.5 * (frame.low + frame.high) - 0.5 * step
    pair = np.stack([start, start + step])
    if (np.minimum(frame.high - frame.low, 1.0) < step).any():
        return
    z = (start - frame.mean) / frame.scale
    slopes = OMEGA**2 + (0.5 / np.cosh(np.clip(z / 3, -300, 300)) ** 2) ** 2
    assert costs(pair, frame)[0, 1] == pytest.approx(1e-6 * slopes.sum(), rel=2e-3)


@given(st.floats(0.1, 1e6), st.booleans())
def test_a_value_outside_the_range_shows_the_further_out_the_more(by: float, above: bool) -> None:
    frame = Frame.of([[-1.0], [1.0], [0.0], [0.5]])
    edge = frame.high if above else frame.low
    sign = 1.0 if above else -1.0
    out = bounded_coordinates((edge + sign * by)[None], frame)[0, -1]
    further = bounded_coordinates((edge + sign * 2 * by)[None], frame)[0, -1]
    z = (edge[0] + sign * by - frame.mean[0]) / frame.scale[0]
    known = 1.5 * np.tanh(z / 3) + sign * np.sqrt(by / frame.scale[0])
    assert out == pytest.approx(known, rel=1e-6)
    assert abs(further) > abs(out)


@given(clouds(), seeds)
def test_units_of_features_change_nothing(cloud: tuple[Array, Array | None], seed: int) -> None:
    points, weights = cloud
    rng = np.random.default_rng(seed)
    d = points.shape[1]
    # Powers of two change no digit of a coordinate; all features share one where some are
    # constant, for these are measured in the unit of the others.
    factor = 2.0 ** rng.integers(-20, 20, d)
    if (np.ptp(points, axis=0) == 0).any() or len(points) == 1:
        factor = np.full(d, factor[0])
    other = points + 0.3 * np.ptp(points, axis=0)
    plain = bounded_coordinates(other, Frame.of(points, weights))
    moved = bounded_coordinates(other * factor, Frame.of(points * factor, weights))
    if Frame.of(points, weights).scale.max() == 1.0 == Frame.of(points, weights).scale.min():
        return
    np.testing.assert_allclose(moved, plain, atol=1e-9)


def test_mirrored_features_have_the_same_distances() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(9, 3))
    wide = points * 3
    image = bounded_coordinates(wide, Frame.of(points))
    mirror = bounded_coordinates(-wide, Frame.of(-points))
    np.testing.assert_allclose(
        direct_costs(mirror, mirror, 2), direct_costs(image, image, 2), atol=1e-12
    )


@pytest.mark.parametrize("offset", [0.0, 2.0**20, -(2.0**27)])
def test_offset_changes_nothing(offset: float) -> None:
    points = np.round(np.random.default_rng(1).normal(size=(20, 2)) * 64) / 64
    plain = bounded_coordinates(points * 2, Frame.of(points))
    moved = bounded_coordinates(points * 2 + offset, Frame.of(points + offset))
    np.testing.assert_allclose(moved, plain, atol=1e-6)


def test_points_without_mass_and_order_change_no_frame() -> None:
    points = np.array([[0.0, 1.0], [2.0, 5.0], [900.0, -3.0], [1.0, 1.0]])
    first = Frame.of(points, [1.0, 2.0, 0.0, 1.0])
    second = Frame.of(points[[3, 1, 0]], [1.0, 2.0, 1.0])
    for name in ("mean", "scale", "low", "high"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-14)


def test_constant_features_take_the_median_scale_of_the_others() -> None:
    points = np.array([[-1.0, 7.0, -2.0, -30.0], [1.0, 7.0, 2.0, 30.0]])
    np.testing.assert_allclose(Frame.of(points).scale, [1.0, 2.0, 2.0, 30.0])
    np.testing.assert_array_equal(Frame.of(np.full((4, 2), 1e8)).scale, [1.0, 1.0])


@pytest.mark.parametrize("size", [1e-150, 1e-8, 1e8, 1e140])
def test_coordinates_of_any_size_are_finite(size: float) -> None:
    points = np.random.default_rng(0).normal(size=(6, 2)) * size
    frame = Frame.of(points)
    assert np.isfinite(bounded_coordinates(points, frame)).all()
    assert np.isfinite(bounded_coordinates(np.array([[1e150, -1e150]]), frame)).all()


def test_points_that_do_not_fit_the_frame_are_refused() -> None:
    frame = Frame.of([[0.0, 1.0], [1.0, 2.0]])
    assert_refused(lambda: bounded_coordinates([[1.0]], frame), MismatchError, "dimension-mismatch")
    assert_refused(lambda: bounded_coordinates([[np.nan, 0.0]], frame), InputError, "measure-nan")
    assert_refused(lambda: Frame.of([[0.0], [1.0]], [0.0, 0.0]), InputError, "weights-zero")
