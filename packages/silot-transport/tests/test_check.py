"""Every refusal of the transport room: its code, its type, and that it quotes no datum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import (
    bounded_plan,
    cost_matrix,
    exact_plan,
    gelbrich_bound,
    interpolate,
    lower_bounds,
    mean_bound,
    moments,
    plan_from_cost,
    sinkhorn,
    sinkhorn_divergence,
    sliced_bound,
    sliced_distance,
)
from silot_transport._check import (
    LARGEST_COORDINATE,
    as_order,
    as_points,
    as_weights,
    integer,
    interval,
)
from silot_transport.errors import InputError, MismatchError, SilotError
from tests.problems import SECRET, SECRET_TEXT, assert_refused, draw_weights, seeds

pytestmark = pytest.mark.all_cases

GOOD = np.array([[0.0, SECRET], [1.0, 2.0]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Every public function of two clouds, on equal terms.
TWO_CLOUDS: dict[str, Callable[..., object]] = {
    "exact_plan": exact_plan,
    "interpolate": lambda *arrays: interpolate(*arrays, t=0.5),
    "sinkhorn": sinkhorn,
    "sinkhorn_divergence": sinkhorn_divergence,
    "gelbrich_bound": gelbrich_bound,
    "mean_bound": mean_bound,
    "sliced_distance": lambda *arrays: sliced_distance(*arrays, rng=rng()),
    "sliced_bound": lambda *arrays: sliced_bound(*arrays, rng=rng()),
    "lower_bounds": lambda *arrays: lower_bounds(*arrays, rng=rng()),
}
two_clouds = pytest.mark.parametrize("call", TWO_CLOUDS.values(), ids=TWO_CLOUDS.keys())

BAD_POINTS: list[tuple[str, Any, str]] = [
    ("NaN", [[0.0, SECRET], [np.nan, 1.0]], "measure-nan"),
    ("infinite", [[0.0, SECRET], [np.inf, 1.0]], "measure-infinite"),
    ("minus infinite", [[0.0, SECRET], [-np.inf, 1.0]], "measure-infinite"),
    ("infinite before NaN", [[np.inf, SECRET], [np.nan, 1.0]], "measure-infinite"),
    ("too large to square", [[0.0, SECRET * 1e150], [1.0, 1.0]], "measure-magnitude"),
    ("no records", np.zeros((0, 2)), "measure-empty"),
    ("no features", np.zeros((2, 0)), "measure-empty"),
    ("one-dimensional", [SECRET, 1.0], "measure-shape"),
    ("a scalar", SECRET, "measure-shape"),
    ("images", np.full((2, 3, 4), SECRET), "measure-shape"),
    ("ragged", [[SECRET, 1.0], [2.0]], "measure-shape"),
    ("text", [["8675309.25", "b"]], "measure-dtype"),
    ("objects", np.array([[SECRET, None]], dtype=object), "measure-dtype"),
    ("complex", np.array([[SECRET + 1j, 0.0]]), "measure-dtype"),
    ("dates", np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "measure-dtype"),
]

BAD_WEIGHTS: list[tuple[str, Any, type[SilotError], str]] = [
    ("negative", [SECRET, -SECRET], InputError, "weights-negative"),
    ("all zero", [0.0, 0.0], InputError, "weights-zero"),
    ("NaN", [SECRET, np.nan], InputError, "weights-nan"),
    ("infinite", [SECRET, np.inf], InputError, "weights-nan"),
    ("text", ["8675309", "1"], InputError, "weights-dtype"),
    ("objects", np.array([SECRET, None], dtype=object), InputError, "weights-dtype"),
    ("complex", [SECRET + 1j, 1.0], InputError, "weights-dtype"),
    ("too short", [SECRET], MismatchError, "weights-shape"),
    ("too long", [SECRET, 1.0, 1.0], MismatchError, "weights-shape"),
    ("two-dimensional", [[SECRET], [1.0]], MismatchError, "weights-shape"),
    ("a scalar", SECRET, MismatchError, "weights-shape"),
]


@pytest.mark.parametrize(
    ("points", "code"), [case[1:] for case in BAD_POINTS], ids=[case[0] for case in BAD_POINTS]
)
def test_bad_points_are_refused_with_their_code(points: Any, code: str) -> None:
    assert_refused(lambda: as_points(points, "cloud"), InputError, code, quoting="cloud")


@two_clouds
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("points", "code"), [case[1:] for case in BAD_POINTS], ids=[case[0] for case in BAD_POINTS]
)
def test_every_function_refuses_bad_points_on_either_side(
    call: Callable[..., object], side: int, points: Any, code: str
) -> None:
    arrays = [GOOD, points] if side else [points, GOOD]
    assert_refused(lambda: call(*arrays), InputError, code, quoting="xy"[side])


@two_clouds
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("weights", "kind", "code"),
    [case[1:] for case in BAD_WEIGHTS],
    ids=[case[0] for case in BAD_WEIGHTS],
)
def test_every_function_refuses_bad_weights_on_either_side(
    call: Callable[..., object], side: int, weights: Any, kind: type[SilotError], code: str
) -> None:
    arrays = [None, weights] if side else [weights, None]
    assert_refused(lambda: call(GOOD, GOOD, *arrays), kind, code, quoting="ab"[side])


@two_clouds
def test_every_function_refuses_clouds_of_different_dimensions(
    call: Callable[..., object],
) -> None:
    assert_refused(
        lambda: call(GOOD, [[SECRET, 1.0, 2.0]]), MismatchError, "dimension-mismatch", quoting="3"
    )


@pytest.mark.parametrize("p", [0, 0.9, -1, np.inf, np.nan, True, "2", None, [2], np.ones(2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda p: cost_matrix(GOOD, GOOD, p=p),
        lambda p: exact_plan(GOOD, GOOD, p=p),
        lambda p: sinkhorn(GOOD, GOOD, p=p),
        lambda p: sinkhorn_divergence(GOOD, GOOD, p=p),
    ],
)
def test_orders_below_one_are_refused(call: Callable[[Any], object], p: Any) -> None:
    assert_refused(lambda: call(p), InputError, "option-p")


@pytest.mark.parametrize("p", [0, 3, -1, 1.5, np.inf, np.nan, True, "2", None, [2], np.ones(2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda p: interpolate(GOOD, GOOD, t=0.5, p=p),
        lambda p: bounded_plan(GOOD, GOOD, p=p),
        lambda p: sliced_distance(GOOD, GOOD, p=p, rng=rng()),
        lambda p: sliced_bound(GOOD, GOOD, p=p, rng=rng()),
        lambda p: lower_bounds(GOOD, GOOD, p=p, rng=rng()),
    ],
)
def test_orders_other_than_one_and_two_are_refused(call: Callable[[Any], object], p: Any) -> None:
    assert_refused(lambda: call(p), InputError, "option-p")


@pytest.mark.parametrize("p", [1, 1.0, 2, 2.0, np.int64(2), np.float32(1)])
def test_orders_one_and_two_are_taken_in_any_numeric_type(p: Any) -> None:
    assert as_order(p) == int(p)
    assert type(as_order(p)) is int


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -0.1, 1.1, np.nan, np.inf, "0.5", None, True, np.array([0.5])]
)
def test_an_interpolation_parameter_outside_the_open_interval_is_refused(value: Any) -> None:
    assert_refused(lambda: interval(value, "t", "option-t"), InputError, "option-t", quoting="t is")


def test_masked_points_are_refused() -> None:
    masked = np.ma.array([[SECRET, 1.0]], mask=[[True, False]])
    assert_refused(lambda: as_points(masked), InputError, "measure-masked")
    # Nothing is hidden under this mask.
    assert as_points(np.ma.array([[1.0, 2.0]], mask=False)).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("value", [1, 4, np.int64(4), np.uint8(4)])
def test_whole_numbers_of_any_integer_type_are_taken(value: Any) -> None:
    assert integer(value, "count", "option-count") == int(value)
    assert type(integer(value, "count", "option-count")) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "3", None, [3], np.nan, 10**12])
def test_counts_that_are_not_whole_numbers_in_range_are_refused(value: Any) -> None:
    assert_refused(
        lambda: integer(value, "count", "option-count"), InputError, "option-count", quoting="count"
    )


def test_the_first_bad_value_is_located_by_row_and_column() -> None:
    points = np.full((4, 3), SECRET)
    points[2, 1] = points[3, 0] = np.nan
    assert_refused(lambda: as_points(points), InputError, "measure-nan", quoting="2 NaN")
    assert_refused(lambda: as_points(points), InputError, "measure-nan", quoting="row 2, column 1")
    weights = [1.0, SECRET, -1.0, -2.0]
    assert_refused(
        lambda: as_weights(weights, 4), InputError, "weights-negative", quoting="2 negative"
    )
    assert_refused(lambda: as_weights(weights, 4), InputError, "weights-negative", quoting="row 2")


def test_ragged_weights_are_refused_with_their_code() -> None:
    with pytest.raises(InputError) as caught:
        as_weights([[SECRET, 1.0], [2.0]], 2)
    assert SECRET_TEXT not in str(caught.value)


def test_long_doubles_beyond_float64_are_refused_as_too_large() -> None:
    with pytest.raises(InputError):
        as_points(np.array([[np.longdouble("1e4000"), SECRET]]))


def test_long_double_weights_beyond_float64_are_refused() -> None:
    with pytest.raises(InputError):
        as_weights(np.array([np.longdouble("1e4000"), SECRET]), 2)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float32, np.longdouble])
def test_every_numeric_dtype_becomes_c_ordered_float64(dtype: Any) -> None:
    points = np.asfortranarray(np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype))
    array = as_points(points)
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert np.array_equal(array, points.astype(float))
    assert as_weights(np.array([1, 1], dtype=dtype), 2).tolist() == [0.5, 0.5]


def test_the_largest_coordinate_is_still_taken() -> None:
    edge = LARGEST_COORDINATE
    assert np.isfinite(exact_plan([[-edge, 0.0]], [[edge, edge]]).cost)
    assert_refused(
        lambda: as_points([[np.nextafter(edge, np.inf)]]), InputError, "measure-magnitude"
    )


@given(
    n=st.integers(1, 50),
    kind=st.sampled_from(("integer", "random", "zeros", "dominant", "tiny")),
    # A weight below 1e-308 has fewer digits than others: tiny ones are 1e-12 of the largest.
    scale=st.sampled_from((1e-290, 1e-6, 1.0, 1e6, 1e300)),
    seed=seeds,
)
def test_weights_are_normalised_whatever_their_scale(
    n: int, kind: str, scale: float, seed: int
) -> None:
    given_weights = draw_weights(np.random.default_rng(seed), kind, n)
    assert given_weights is not None
    before = given_weights * scale
    kept = before.copy()
    weights = as_weights(before, n)
    assert np.array_equal(before, kept), "the argument was changed"
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    positive = before > 0
    assert np.array_equal(weights > 0, positive)
    np.testing.assert_allclose(weights, given_weights / given_weights.sum(), rtol=1e-12)


def test_weights_whose_sum_overflows_are_normalised() -> None:
    assert as_weights([1.7e308, 1.7e308], 2).tolist() == [0.5, 0.5]
    assert as_weights([5e-324, 5e-324], 2).tolist() == [0.5, 0.5]


def test_absent_weights_are_uniform() -> None:
    assert as_weights(None, 4).tolist() == [0.25] * 4


def test_a_moment_or_cost_argument_is_checked_like_a_cloud() -> None:
    assert_refused(lambda: moments([[SECRET, np.nan]]), InputError, "measure-nan")
    assert_refused(lambda: moments(GOOD, [1.0]), MismatchError, "weights-shape")
    assert_refused(lambda: plan_from_cost([[SECRET, np.nan]]), InputError, "measure-nan")
    assert_refused(lambda: plan_from_cost(np.zeros((0, 3))), InputError, "measure-empty")
    assert_refused(lambda: plan_from_cost([SECRET]), InputError, "measure-shape")
    assert_refused(lambda: plan_from_cost(GOOD, [1.0]), MismatchError, "weights-shape", quoting="a")
    assert_refused(lambda: plan_from_cost(GOOD, None, [-1.0, 1.0]), InputError, "weights-negative")
