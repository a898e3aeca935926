"""The quadtree: what one record moves, and what is read from its noisy counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.distances.sketches.questions import SketchTree
from silot.errors import MismatchError, WireError
from silot.privacy.quadtree import Tree, tree_cells, tree_counts, tree_sensitivity
from tests.tiers import examples

pytestmark = pytest.mark.all_cases

LOW, HIGH = np.array([-4.0, -2.0]), np.array([4.0, 6.0])
DATA = np.random.default_rng(0).normal(size=(500, 2)) * 0.7 + 1.0
seeds = st.integers(0, 2**32 - 1)


def question(**options: object) -> SketchTree:
    fields = {"low": LOW, "high": HIGH, "depth": 4, "privacy_mu": 0.2}
    return SketchTree(**(fields | options))  # type: ignore[arg-type]


@settings(max_examples=examples(200), deadline=None)
@given(seed=seeds, depth=st.integers(1, 6), limit=st.sampled_from([0.0, 2.0]))
def test_one_record_moves_the_tree_by_at_most_its_sensitivity(
    seed: int, depth: int, limit: float
) -> None:
    rng = np.random.default_rng(seed)
    asked = question(depth=depth, mass_limit=limit)
    record = rng.normal(size=(1, 2)) * 10.0 ** rng.uniform(-3, 300)
    if rng.random() < 0.2:
        record[0, rng.integers(2)] = rng.choice([np.nan, np.inf, -np.inf])
    mass = rng.choice([0.0, rng.random(), 1.0, 1e9])
    before = asked.exact(DATA[:20], np.ones(20))
    after = asked.exact(np.vstack([DATA[:20], record]), np.append(np.ones(20), mass))
    moved = float(np.linalg.norm((after - before).astype(float)))
    assert moved <= asked.sensitivity == tree_sensitivity(depth)
    if mass == 1e9:
        assert moved == pytest.approx(asked.sensitivity)


def test_each_level_counts_every_record_once() -> None:
    vector = tree_counts(DATA, np.ones(500), LOW, HIGH, 4)
    tree = Tree.of(vector, 4, np.inf)
    for upper, lower in zip(tree.levels, tree.levels[1:], strict=False):
        half = len(upper)
        np.testing.assert_array_equal(lower.reshape(half, 2, half, 2).sum(axis=(1, 3)), upper)
    assert [level.sum() for level in tree.levels] == [500] * 4


def test_without_noise_the_finest_counts_come_back() -> None:
    cells = tree_cells(LOW, HIGH, 4, DATA)
    found = Tree.of(tree_counts(DATA, np.ones(500), LOW, HIGH, 4), 4, np.inf).decode(cells)
    nearest = ((DATA[:, None] - cells.centres) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(
        found.weights[0], np.bincount(nearest, minlength=256) / 500, atol=1e-12
    )
    assert found.records == pytest.approx(500)


def test_levels_that_agree_and_pruning_make_noisy_counts_better() -> None:
    rng = np.random.default_rng(1)
    cells = tree_cells(LOW, HIGH, 5, DATA)
    clean = Tree.of(tree_counts(DATA, np.ones(500), LOW, HIGH, 5), 5, 0.5)
    truth = clean.levels[-1] / 500
    raw, read = [], []
    for _ in range(10):
        levels = [k + clean.noise * rng.standard_normal(k.shape) for k in clean.levels]
        found = Tree(levels, clean.noise).decode(cells)
        read.append(np.abs(found.weights.reshape(32, 32) - truth).sum())
        raw.append(np.abs(levels[-1] / 500 - truth).sum())
    assert np.mean(read) < 0.3 * np.mean(raw)


@settings(max_examples=examples(60), deadline=None)
@given(seed=seeds, size=st.floats(-3, 15), depth=st.integers(1, 5))
def test_whatever_the_noise_what_is_decoded_is_a_measure(
    seed: int, size: float, depth: int
) -> None:
    rng = np.random.default_rng(seed)
    width = sum(4**level for level in range(1, depth + 1))
    vector = np.rint(rng.normal(size=width) * 10.0**size).astype(np.int64)
    cells = tree_cells(LOW, HIGH, depth, DATA)
    tree = Tree.of(vector, depth, 0.2)
    found = tree.decode(cells)
    assert (found.weights >= 0).all() and found.weights.sum() == pytest.approx(1.0)
    assert found.records >= 1 and np.isfinite(found.records)


@pytest.mark.parametrize(
    "options",
    [
        {"low": HIGH},
        {"low": np.array([np.nan, 0.0])},
        {"low": np.zeros(3), "high": np.ones(3)},
        {"depth": 0},
        {"depth": 12},
        {"embedding": "full"},
        {"mass_limit": -1.0},
    ],
)
def test_questions_that_cannot_be_are_refused_before_any_charge(options: dict[str, object]) -> None:
    with pytest.raises(WireError):
        question(**options).check(2, False)


def test_three_features_have_no_quadtree() -> None:
    with pytest.raises(MismatchError):
        question().check(3, False)
