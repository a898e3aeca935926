"""Distances between classes, and labelled transport, against definitions and linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot_transport.classwise import (
    class_distances,
    distances_to_classes,
    labelled_plan,
    shortest,
)
from silot_transport.errors import InputError
from tests.problems import (
    Array,
    assert_refused,
    cost_of_matrix,
    direct_costs,
    draw_clouds,
    draw_weights,
    linear_program_cost,
    normalised,
    pairs,
    seeds,
)
from tests.tiers import examples

LAYOUTS = ("normal", "grid", "clusters", "outlier", "near", "constant", "uneven")


def draw_classes(seed: int, layout: str, classes: int) -> tuple[Array, Array, Array]:
    """A labelled cloud in which every class has mass; some records have none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(classes, 25))
    points, _ = draw_clouds(rng, layout, n, 1, int(rng.choice([1, 2, 6])))
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    weights = normalised(draw_weights(rng, str(rng.choice(["uniform", "random", "zeros"])), n), n)
    weights[:classes] += 0.01
    return points, weights / weights.sum(), codes


def between(points: Array, weights: Array, first: Array, second: Array) -> float:
    cost = direct_costs(points[first], points[second], 2)
    a, b = weights[first] / weights[first].sum(), weights[second] / weights[second].sum()
    return max(cost_of_matrix(cost, a, b), 0.0) ** 0.5


@given(seeds, st.sampled_from(LAYOUTS), st.integers(1, 5))
def test_class_distances_are_wasserstein_distances_and_a_metric(
    seed: int, layout: str, classes: int
) -> None:
    points, weights, codes = draw_classes(seed, layout, classes)
    found = class_distances(points, weights, codes, classes)
    size = np.abs(points).max() + 1e-300
    known = np.array(
        [[between(points, weights, codes == k, codes == l) for l in range(classes)]
         for k in range(classes)]
    )  # fmt: skip
    np.fill_diagonal(known, 0.0)
    np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-7 * size)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0.0)
    through = (found[:, :, None] + found[None]).min(axis=1)
    assert (found <= through).all()


@given(seeds, st.integers(2, 7))
def test_shortest_paths_are_the_largest_metric_below(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    given_ = rng.random((size, size)) ** 3
    given_ = np.minimum(given_, given_.T)
    np.fill_diagonal(given_, 0.0)
    found = shortest(given_)
    assert (found <= given_).all()
    assert (found <= (found[:, :, None] + found[None]).min(axis=1) * (1 + 1e-12)).all()
    np.testing.assert_array_equal(found, found.T)
    # Every entry is the length of some path: no metric below the given distances is larger.
    paths = given_.copy()
    for _ in range(size):
        paths = (paths[:, :, None] + given_[None]).min(axis=1)
    np.testing.assert_allclose(found, paths, rtol=1e-12)
    np.testing.assert_allclose(shortest(found), found, rtol=1e-14)


def test_large_classes_are_represented_by_some_records_and_keep_the_metric() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [700, 20, 600])
    points = rng.normal(size=(1320, 2)) + 5.0 * codes[:, None]
    weights = np.full(1320, 1 / 1320)
    found = class_distances(points, weights, codes, 3)
    np.testing.assert_array_equal(found, class_distances(points, weights, codes, 3))
    shift = 5 * 2**0.5
    np.testing.assert_allclose(found[0], [0.0, shift, 2 * shift], rtol=0.1)
    assert (found <= (found[:, :, None] + found[None]).min(axis=1)).all()


def test_a_class_without_mass_is_refused() -> None:
    points = np.zeros((2, 1))
    for weights, classes in ((np.array([1.0, 0.0]), 2), (np.full(2, 0.5), 3)):
        assert_refused(
            lambda w=weights, c=classes: class_distances(points, w, np.array([0, 1]), c),
            InputError,
            "classes-empty",
        )


@given(seeds, st.sampled_from(LAYOUTS), st.integers(1, 5), st.booleans())
def test_a_new_class_keeps_the_triangle_inequality_for_every_slack(
    seed: int, layout: str, classes: int, some_left_out: bool
) -> None:
    """Whenever the slack is at least how far each class of the target was displaced."""
    points, weights, codes = draw_classes(seed, layout, classes)
    rng = np.random.default_rng(seed + 1)
    known = class_distances(points, weights, codes, classes)
    moved = points + rng.normal(size=points.shape) * rng.choice([0.0, 0.1, 5.0])
    displaced = np.array(
        [np.sqrt(np.average(np.sum((moved - points)[codes == k] ** 2, axis=1),
                            weights=weights[codes == k])) for k in range(classes)]
    )  # fmt: skip
    slack = displaced + rng.random(classes) * rng.choice([0.0, 1.0])
    own = rng.normal(size=(4, points.shape[1])) * (np.abs(points).max() + 0.1)
    a = normalised(rng.random(4), 4)
    target_weights = weights.copy()
    if some_left_out and classes > 1:
        target_weights[codes == classes - 1] = 0.0
    found = distances_to_classes(own, a, moved, target_weights, codes, known, slack)
    assert found.shape == (classes,) and np.isfinite(found).all()
    room = 1e-9 * (found.max() + known.max() + np.abs(points).max())
    # |D(new, k) - D(new, l)| <= D(k, l) always ...
    assert (np.abs(found[:, None] - found[None]) <= known + room).all()
    # ... and D(k, l) <= D(k, new) + D(new, l), for no distance is below the true one.
    true = np.array([
        max(cost_of_matrix(
            direct_costs(own, points[codes == k], 2), a,
            weights[codes == k] / weights[codes == k].sum(),
        ), 0.0) ** 0.5
        for k in range(classes)
    ])  # fmt: skip
    assert (found >= true - 1e-7 * (np.abs(own).max() + np.abs(points).max())).all()
    assert (known <= found[:, None] + found[None] + 1e-7 * (known.max() + room)).all()


@given(seeds, st.integers(1, 4))
def test_without_slack_a_known_class_is_at_its_own_distances(seed: int, classes: int) -> None:
    points, weights, codes = draw_classes(seed, "normal", classes)
    known = class_distances(points, weights, codes, classes)
    own = codes == classes - 1
    found = distances_to_classes(
        points[own], weights[own], points, weights, codes, known, np.zeros(classes)
    )
    np.testing.assert_allclose(found, known[-1], rtol=1e-7, atol=1e-6)


SMALL = pairs(largest=7, dimensions=(1, 2, 5))


@given(SMALL, seeds, st.sampled_from([0.0, 1.0, 30.0]))
@settings(max_examples=examples(80))
def test_bounds_of_labelled_transport_contain_the_linear_program(
    pair: object, seed: int, scale: float
) -> None:
    x, y, _, _ = pair.arrays  # type: ignore[attr-defined]
    a, b = pair.masses  # type: ignore[attr-defined]
    rng = np.random.default_rng(seed)
    labels = scale * rng.integers(0, 4, (len(x), len(y))).astype(float)
    plan, lower, upper = labelled_plan(x, y, a, b, labels)
    cost = direct_costs(x, y, 2) + labels
    used = cost[np.ix_(a > 0, b > 0)]
    known = linear_program_cost(used, a[a > 0], b[b > 0])
    # The oracle solves to some 1e-9 of the largest cost.
    room = 1e-8 * float(used.max())
    assert lower <= known + room and known - room <= upper
    assert 0 <= lower <= upper
    assert upper - lower <= 1e-7 * float(used.max()) + 1e-300 or pair.name.startswith("offset")  # type: ignore[attr-defined]
    matrix = plan.plan.toarray()
    np.testing.assert_allclose(matrix.sum(axis=1), a, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), b, atol=1e-12)
    assert float((matrix * cost).sum()) == pytest.approx(known, rel=1e-7, abs=room)


def test_labels_that_never_match_add_their_distance() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2))
    half = np.full(5, 0.2)
    _, lower, upper = labelled_plan(x, x + 1.0, half, half, np.full((5, 5), 7.0))
    assert lower == pytest.approx(9.0) and upper == pytest.approx(9.0)
    assert lower <= 9.0 * (1 + 1e-15) and upper >= 9.0 * (1 - 1e-15)
