"""Cells: public, deterministic, and right on samples of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import InputError, MismatchError
from silot.privacy.cells import Cells, draw_sample, nearest
from silot.privacy.sketch import encode
from tests.problems import assert_refused
from tests.tiers import examples

pytestmark = pytest.mark.all_cases

SAMPLE = np.random.default_rng(0).normal(size=(300, 4))


def test_the_same_sample_size_and_seed_give_the_same_cells() -> None:
    first, second = Cells.of_sample(SAMPLE, 32, seed=3), Cells.of_sample(SAMPLE.copy(), 32, seed=3)
    np.testing.assert_array_equal(first.centres, second.centres)
    assert first.radius == second.radius
    assert not np.array_equal(first.centres, Cells.of_sample(SAMPLE, 32, seed=4).centres)


@pytest.mark.parametrize("size", [8, 32, 128])
def test_there_are_never_more_cells_than_a_third_of_the_sample(size: int) -> None:
    cells = Cells.of_sample(SAMPLE[:60], size)
    assert cells.size == min(size, 20)
    assert cells.weights.sum() == pytest.approx(1.0)
    assert cells.radius2 == 2 * cells.radius > 0


def test_nearly_all_of_the_public_sample_lies_within_the_radius() -> None:
    cells = Cells.of_sample(SAMPLE, 32)
    _, squares = nearest(SAMPLE, cells.centres)
    assert 0.95 <= np.mean(squares <= cells.radius**2) <= 1.0
    assert np.trace(cells.covariance) == pytest.approx(squares.mean())


@settings(max_examples=examples(60), deadline=None)
@given(
    n=st.integers(1, 40),
    start=st.integers(0, 39),
    seed=st.integers(0, 2**32 - 1),
    grid=st.booleans(),
)
def test_the_cell_of_a_record_depends_on_no_other_record(
    n: int, start: int, seed: int, grid: bool
) -> None:
    # On a grid many records are as near to one centre as to another: rounding decides.
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, (40, 7)) / 10 if grid else rng.normal(size=(40, 7))
    centres = points[:9] if grid else rng.normal(size=(9, 7))
    codes, squares = nearest(points, centres)
    rows = rng.permutation(40)[start % 40 :][:n]
    some, apart = nearest(points[rows], centres)
    np.testing.assert_array_equal(some, codes[rows])
    np.testing.assert_array_equal(apart, squares[rows])


DEGENERATE = {
    "duplicates": np.repeat(SAMPLE[:7], 10, axis=0),
    "two values": np.repeat([[0.0, 1.0], [5.0, 1.0]], 30, axis=0),
    "constant columns": np.hstack([SAMPLE[:, :1], np.full((300, 3), 7.0)]),
    "ones and zeros": (SAMPLE > 0).astype(float),
    "one feature": SAMPLE[:, :1],
    "far from the origin": SAMPLE + 1e9,
    "one far record": np.vstack([np.zeros((50, 2)), [[1e6, 0.0]]]),
    "huge": SAMPLE * 1e100,
    "tiny": SAMPLE * 1e-100,
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_samples_of_every_kind_give_sound_cells(kind: str) -> None:
    sample = DEGENERATE[kind]
    cells = Cells.of_sample(sample, 16)
    assert 0 < cells.radius < np.inf
    assert np.isfinite(cells.centres).all() and np.isfinite(cells.covariance).all()
    vector = encode(sample, np.ones(len(sample)), cells)
    assert vector[: cells.size].sum() > 0


@pytest.mark.parametrize(
    ("sample", "code"),
    [
        (np.ones((50, 3)), "public-constant"),
        (SAMPLE[:23], "public-few"),
        (np.full((50, 2), np.nan), "measure-nan"),
        ([["a", "b"]] * 30, "measure-dtype"),
    ],
)
def test_samples_that_tell_nothing_are_refused(sample: object, code: str) -> None:
    assert_refused(lambda: Cells.of_sample(sample, 8), InputError, code)  # type: ignore[arg-type]


def test_without_a_sample_mean_and_scale_give_cells_of_a_normal_law() -> None:
    sample = draw_sample([1.0, -2.0, 30.0], [1.0, 2.0, 3.0], 0)
    cells = Cells.of_sample(sample, 32, 0, drawn=True)
    assert cells.drawn
    np.testing.assert_allclose(cells.weights @ cells.centres, [1.0, -2.0, 30.0], atol=0.3)


@pytest.mark.parametrize(
    ("mean", "scale", "kind", "code"),
    [
        (None, None, InputError, "public-absent"),
        ([0.0, 0.0], None, InputError, "public-absent"),
        ([0.0, 0.0], 0.0, InputError, "public-scale"),
        ([0.0, 0.0], [1.0, np.nan], InputError, "public-shape"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], MismatchError, "dimension-mismatch"),
        ([[0.0]], 1.0, InputError, "public-shape"),
    ],
)
def test_a_law_that_is_not_told_is_asked_for(
    mean: object, scale: object, kind: type[InputError], code: str
) -> None:
    assert_refused(lambda: draw_sample(mean, scale, 0), kind, code)  # type: ignore[arg-type]
