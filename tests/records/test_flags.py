"""Flags, and how many records are faulty: mixtures of a known share, ties, levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot import Measure, value_records
from silot.records.columns import Tails, aligned, discoveries, odd_values
from silot.records.flags import needed, rank_by_odds, share_above, share_wrong, surely_above
from tests.problems import Array, seeds
from tests.tiers import examples

APART = 2.5


def mixture(seed: int, n: int, share: float, apart: float = APART) -> tuple[Array, np.ndarray]:
    """Log ratios of N(apart, 1) against N(0, 1), of which a share comes from the first."""
    rng = np.random.default_rng(seed)
    faulty = np.arange(n) < round(share * n)
    return apart * (rng.normal(size=n) + apart * faulty) - apart**2 / 2, faulty


def as_odds(ratios: Array, share: float) -> Array:
    share = max(share, 1e-3)
    return ratios + np.log(share / (1 - share))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.3])
def test_flags_hold_their_level_and_precision_is_what_it_says(share: float) -> None:
    rates, detected, promised, kept = [], [], [], []
    for seed in range(60):
        ratios, faulty = mixture(seed, 400, share)
        null, _ = mixture(1000 + seed, 300, 0.0)
        odds = as_odds(ratios, share)
        ranking = rank_by_odds(odds, as_odds(null, share), 0.1, share)
        rates.append((ranking.flagged & ~faulty).sum() / max(ranking.flagged.sum(), 1))
        first = np.argsort(-odds)[:30]
        promised.append(ranking.precision[29])
        kept.append(faulty[first].mean())
        if share:
            detected.append(ranking.flagged[faulty].mean())
        assert (np.diff(ranking.precision) <= 1e-12).all()
    assert np.mean(rates) <= 0.1 + 2 * np.std(rates) / 60**0.5
    if share >= 0.15:
        assert np.mean(detected) >= 0.5
        assert abs(np.mean(promised) - np.mean(kept)) <= 0.05


def labelled(seed: int, n: int, share: float) -> tuple[Array, np.ndarray]:
    """Log shares of two classes that are exact, and labels of which a share is wrong."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 2, n)
    x = rng.normal(size=n) + 3.0 * (right - 0.5)
    shares = -np.logaddexp(0.0, 3.0 * np.stack([x, -x], axis=1))
    codes = np.where(np.arange(n) < round(share * n), 1 - right, right)
    return shares, codes.astype(np.int64)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_interval_of_wrong_labels_covers_their_share(share: float) -> None:
    covered, values = [], []
    for seed in range(40):
        shares, codes = labelled(seed, 300, share)
        null, null_codes = labelled(1000 + seed, 200, 0.0)
        estimate = share_wrong(shares, codes, null, null_codes, 0)
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
        covered.append(estimate.low <= share <= estimate.high)
        values.append(estimate.value)
    assert np.mean(covered) >= 0.9
    assert abs(np.mean(values) - share) <= 0.05


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_interval_of_ranks_covers_the_share(share: float) -> None:
    covered, least = [], []
    for seed in range(80):
        ratios, _ = mixture(seed, 400, share, 4.0)
        null, _ = mixture(1000 + seed, 400, 0.0, 4.0)
        estimate = share_above(ratios, null)
        covered.append(estimate.low <= share <= estimate.high)
        least.append(surely_above(ratios, null))
    assert np.mean(covered) >= 0.9
    assert np.mean(np.array(least) <= share + 0.01) >= 0.85
    assert np.mean(least) >= 0.5 * share


@given(seeds, st.integers(1, 80), st.floats(0.01, 0.9))
@settings(max_examples=examples(50))
def test_order_changes_nothing_and_ties_fall_together(seed: int, n: int, fdr: float) -> None:
    rng = np.random.default_rng(seed)
    odds, null = rng.integers(-3, 12, n).astype(float), rng.integers(-6, 3, 60).astype(float)
    order = rng.permutation(n)
    flags = rank_by_odds(odds, null, fdr, 0.1).flagged
    np.testing.assert_array_equal(rank_by_odds(odds[order], null, fdr, 0.1).flagged, flags[order])
    # Whoever is more suspect than a flagged record is flagged.
    if flags.any():
        assert (flags == (odds >= odds[flags].min())).all()


@given(seeds, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
@settings(max_examples=examples(40))
def test_a_higher_level_flags_no_fewer(seed: int, first: float, second: float) -> None:
    ratios, _ = mixture(seed, 120, 0.2)
    null, _ = mixture(seed + 1, 100, 0.0)
    low, high = (rank_by_odds(ratios, null, fdr, 0.1).flagged for fdr in sorted((first, second)))
    assert (low <= high).all()


def test_level_zero_flags_nothing_and_nothing_is_flagged_of_nothing() -> None:
    assert not rank_by_odds(np.full(3, 30.0), np.zeros(60), 0.0, 0.0).flagged.any()
    assert rank_by_odds(np.zeros(0), np.zeros(60), 0.1, 0.0).flagged.shape == (0,)


def test_a_lower_level_needs_more_validation_records() -> None:
    assert [needed(level) for level in (0.2, 0.1, 0.05, 0.01, 0.0)] == [50, 50, 100, 500, 0]


# Single columns


@pytest.mark.parametrize("name", ["normal", "t3", "lognormal"])
def test_tails_are_no_lighter_than_those_of_sound_values(name: str) -> None:
    rng = np.random.default_rng(5)
    draw = {
        "normal": lambda n: rng.normal(size=(n, 40)),
        "t3": lambda n: rng.standard_t(3, size=(n, 40)),
        "lognormal": lambda n: np.exp(rng.normal(size=(n, 40))),
    }[name]
    chances = Tails.of(draw(300)).farthest(draw(20_000))
    # Of 300 validation records; chances count five times where columns are judged.
    for level, times in ((1e-2, 1.6), (1e-3, 3.0)):
        assert (chances <= level).mean() <= times * level


def test_weights_in_pounds_are_discovered_in_their_column() -> None:
    rng = np.random.default_rng(6)
    v, x = rng.normal(size=(2, 300, 25))
    v[:, 7], x[:, 7] = 75.0 + 12.0 * v[:, 7], 75.0 + 12.0 * x[:, 7]
    faulty = np.arange(300) < 15
    x[faulty, 7] *= 2.2046
    values = odd_values(Tails.of(v), v, x, 0.1)
    assert values.flagged[faulty].mean() >= 0.8
    assert values.flagged[~faulty].sum() <= 3
    assert (values.column[faulty] == 7).mean() >= 0.8


@pytest.mark.parametrize("change", ["shift", "scale", "pounds"])
def test_a_holder_that_differs_as_a_whole_has_no_odd_values(change: str) -> None:
    rng = np.random.default_rng(7)
    v, x = np.exp(0.2 * rng.normal(size=(300, 8))), np.exp(0.2 * rng.normal(size=(800, 8)))
    x = {"shift": x + 1.0, "scale": 1.0 + 1.5 * (x - 1.0), "pounds": 2.2046 * x}[change]
    assert odd_values(Tails.of(v), v, x, 0.1).flagged.sum() <= 2


def test_aligned_values_have_the_median_and_range_of_the_validation_values() -> None:
    rng = np.random.default_rng(8)
    own = 5.0 + 3.0 * rng.normal(size=(4000, 1))
    moved = aligned(own, own, rng.normal(size=(4000, 1)))
    assert abs(np.median(moved)) < 0.1 and 0.9 < moved.std() < 1.1


def test_discoveries_are_those_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216])
    assert discoveries(chances, 0.05).sum() == 2
    assert not discoveries(chances, 0.0).any()


def test_values_of_far_tails_are_no_faults_and_those_beyond_are_flagged() -> None:
    false, detected = 0, 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 3])
        v, x = np.exp(1.5 * rng.normal(size=(120, 8))), np.exp(1.5 * rng.normal(size=(200, 8)))
        false += int(odd_values(Tails.of(v), v, x, 0.1).flagged.sum())
        x[:10, 2] *= 1e4
        detected += int(odd_values(Tails.of(v), v, x, 0.1).flagged[:10].sum())
    assert false <= 6
    assert detected >= 100


def test_labels_of_one_class_among_records_of_two_may_be_wrong() -> None:
    def draw(seed: int, share: float = 0.3, size: int = 300) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        codes = (rng.random(size) < share).astype(np.int64)
        return rng.normal(size=(size, 3)) + np.outer(codes, [1.6, -1.2, 0.0]), codes

    trusted, listed = draw(0)
    validation = Measure(trusted, labels=listed)
    # The others of the first are wrong, and of the second there are none.
    for points, wrong in ((draw(1)[0], draw(1)[1].sum()), (draw(2, 0.0)[0], 0)):
        scores = value_records(
            Measure(points, labels=np.zeros(300, dtype=int)), validation, labels=True
        )
        assert scores.screening is not None
        broken = scores.screening.broken["all"]
        assert broken.low <= wrong <= broken.high <= max(1.9 * wrong, 30)
