"""Flags, and how many records are broken: known mixtures, exact shares, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.records.flags import flag, needed, share_above, share_broken
from tests.problems import Array, seeds
from tests.tiers import examples

APART = 2.5


def mixture(seed: int, n: int, share: float, apart: float = APART) -> tuple[Array, np.ndarray]:
    """Log ratios of N(apart, 1) against N(0, 1), of which a share comes from the first."""
    rng = np.random.default_rng(seed)
    broken = np.arange(n) < round(share * n)
    return apart * (rng.normal(size=n) + apart * broken) - apart**2 / 2, broken


def oracle(ratios: Array, share: float, level: float) -> np.ndarray:
    """Flags of somebody who knows the share: the longest run that is sound enough."""
    order = np.argsort(-ratios)
    sound = 1 / (1 + share / (1 - share) * np.exp(ratios[order]))
    rates = np.cumsum(sound) / np.arange(1, len(ratios) + 1)
    flags = np.zeros(len(ratios), bool)
    flags[order[: int((rates <= level).sum())]] = True
    return flags


@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.3])
def test_flags_hold_their_level_and_find_most(share: float) -> None:
    rates, found, best = [], [], []
    for seed in range(60):
        ratios, broken = mixture(seed, 400, share)
        null, _ = mixture(1000 + seed, 300, 0.0)
        flags = flag(ratios, null, 0.1, share_broken(ratios).value)
        rates.append((flags & ~broken).sum() / max(flags.sum(), 1))
        if share:
            found.append(flags[broken].mean())
            best.append(oracle(ratios, share, 0.1)[broken].mean())
    assert np.mean(rates) <= 0.1 + 2 * np.std(rates) / 60**0.5
    if share:
        assert np.mean(found) >= np.mean(best) - 0.08


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_shares_are_found_and_their_intervals_cover(share: float) -> None:
    # Ranks alone do not count the broken records among the sound ones.
    for estimate, apart in ((share_broken, APART), (share_above, 4.0)):
        hits, values = [], []
        for seed in range(80):
            ratios, _ = mixture(seed, 400, share, apart)
            null, _ = mixture(1000 + seed, 400, 0.0, apart)
            found = estimate(ratios, null)
            assert 0.0 <= found.low <= found.value <= found.high <= 1.0
            hits.append(found.low <= share <= found.high)
            values.append(found.value)
        assert np.mean(hits) >= 0.9, estimate
        assert abs(np.mean(values) - share) <= 0.025, estimate


@given(seeds, st.integers(1, 80), st.floats(0.01, 0.9))
@settings(max_examples=examples(50))
def test_order_changes_nothing_and_ties_fall_together(seed: int, n: int, fdr: float) -> None:
    rng = np.random.default_rng(seed)
    ratios, null = rng.integers(-3, 12, n).astype(float), rng.integers(-6, 3, 60).astype(float)
    order = rng.permutation(n)
    flags = flag(ratios, null, fdr, 0.1)
    np.testing.assert_array_equal(flag(ratios[order], null, fdr, 0.1), flags[order])
    # Whoever is more suspect than a flagged record is flagged.
    if flags.any():
        assert (flags == (ratios >= ratios[flags].min())).all()


@given(seeds, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
@settings(max_examples=examples(40))
def test_a_higher_level_flags_no_fewer(seed: int, first: float, second: float) -> None:
    ratios, _ = mixture(seed, 120, 0.2)
    null, _ = mixture(seed + 1, 100, 0.0)
    low, high = (flag(ratios, null, fdr, 0.1) for fdr in sorted((first, second)))
    assert (low <= high).all()


def test_level_zero_flags_nothing_and_nothing_is_flagged_of_nothing() -> None:
    assert not flag(np.full(3, 30.0), np.zeros(60), 0.0, 0.0).any()
    assert flag(np.zeros(0), np.zeros(60), 0.1, 0.0).shape == (0,)


def test_a_lower_level_needs_more_validation_records() -> None:
    assert [needed(level) for level in (0.2, 0.1, 0.05, 0.01, 0.0)] == [50, 50, 100, 500, 0]


def test_many_ratios_are_judged_like_few() -> None:
    ratios, _ = mixture(3, 40_000, 0.1)
    some = share_broken(ratios)
    assert abs(some.value - 0.1) < 0.01
    assert 0.0 < some.high - some.low < 0.02
