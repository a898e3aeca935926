"""Copies: exact, nearly, and what chance makes equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from silot.records.copies import Nearness, accidental, originals
from silot.records.frames import Frames
from tests.problems import Array, seeds
from tests.tiers import examples


def frames_of(points: Array) -> Frames:
    return Frames(points, np.full(len(points), 1 / len(points)))


def found(points: Array, validation: Array, fdr: float = 0.1) -> np.ndarray:
    frames = frames_of(validation)
    return originals(points, frames, Nearness.of(frames), fdr)


@given(seeds)
@settings(max_examples=examples(20))
def test_exact_copies_point_at_their_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, validation = rng.normal(size=(80, 3)), rng.normal(size=(60, 3))
    points[[9, 30, 31]] = points[4]
    origin = found(points, validation)
    assert (origin[[9, 30, 31]] == 4).all() and origin[4] == -1
    assert (origin >= 0).sum() <= 6


@pytest.mark.parametrize("d", [6, 20, 60])
def test_copies_with_a_little_noise_are_found_and_few_others(d: int) -> None:
    others = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        points, validation = rng.normal(size=(300, d)), rng.normal(size=(150, d))
        points[-20:] = points[:20] + 0.01 * rng.normal(size=(20, d))
        origin = found(points, validation)
        assert (origin[-20:] == np.arange(20)).mean() >= 0.95
        others.append((origin[:-20] >= 0).sum() / 20)
    assert np.mean(others) <= 0.2


def test_few_sound_records_are_called_copies() -> None:
    counts = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts.append((found(rng.normal(size=(200, 5)), rng.normal(size=(100, 5))) >= 0).any())
    assert np.mean(counts) <= 0.2


@pytest.mark.parametrize("d", [1, 4, 9])
def test_tables_of_few_values_have_equal_records_by_accident(d: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        # Two groups, so that columns depend on one another.
        group = rng.random((400, 1)) < 0.5
        points = (rng.random((400, d)) < np.where(group, 0.1, 0.6)).astype(float)
        assert accidental(points)
        assert (found(points, points[:150]) == -1).all()


def test_equal_values_in_one_exact_column_are_no_accident() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 2, (400, 4)), rng.normal(size=400)])
    points, validation = rows[:300].copy(), rows[300:]
    assert accidental(points)
    points[-6:] = points[:6]
    assert not accidental(points)
    assert (found(points, validation)[-6:] == np.arange(6)).all()


def test_padding_with_many_copies_of_one_record_is_found() -> None:
    rng = np.random.default_rng(1)
    points, validation = rng.normal(size=(300, 20)), rng.normal(size=(200, 20))
    points[100:] = points[0] + 1e-3 * rng.normal(size=(200, 20))
    origin = found(points, validation)
    assert (origin[100:] == 0).mean() > 0.95


def test_order_of_records_moves_the_first_only() -> None:
    rng = np.random.default_rng(2)
    points, validation = rng.normal(size=(90, 4)), rng.normal(size=(60, 4))
    points[50:60] = points[:10]
    order = rng.permutation(90)
    before, after = found(points, validation), found(points[order], validation)
    assert (before >= 0).sum() == (after >= 0).sum() == 10
    np.testing.assert_array_equal(points[order][after >= 0], points[order][after[after >= 0]])


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((1, 3)),
        np.zeros((5, 3)),
        np.arange(4.0)[:, None],
        np.full((3, 2), 1e12),
        np.array([[0.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_odd_records_raise_nothing(points: Array) -> None:
    rng = np.random.default_rng(3)
    validation = rng.normal(size=(30, points.shape[1]))
    assert found(points, validation).shape == (len(points),)
    assert found(points, np.tile(validation[:1], (30, 1))).shape == (len(points),)
    assert (found(points, validation, 0.0) == -1).all()
