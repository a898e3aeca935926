"""The blocks of a release: one record moves them by what is claimed, and they read true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.distances.sketches.questions import SummarizeRecords
from silot.errors import SolverError, WireError
from silot.privacy import summary
from silot.privacy.accounting import mu_of, scale_for
from silot.privacy.summary import Sizes, Summary, ToTarget, Waves, reach_of
from silot.teaching.federated import random_features
from silot_transport import exact_plan
from tests.tiers import examples

pytestmark = pytest.mark.all_cases


def layout(
    rng: np.random.Generator, d: int, classes: int, p: int, *, labelled: bool = True
) -> Summary:
    m = int(rng.integers(1, 12))
    target = rng.normal(size=(m, d)) * rng.choice([1e-3, 1.0, 1e4])
    weights = rng.dirichlet(np.ones(m))
    table = rng.uniform(0, 2, (classes, classes)) if classes and labelled else None
    if table is not None:
        table = (table + table.T) * (1 - np.eye(classes))
    codes = rng.integers(0, max(classes, 1), m)
    reach = reach_of(target, weights, 2.0)
    return Summary(
        [
            Sizes(classes),
            Waves(rng.uniform(0.1, 2.0, d), 1.5, 8, 3),
            ToTarget(target, weights, reach, p, None if table is None else codes, table),
        ],
        rng.dirichlet(np.ones(3)) + 0.02,
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 3), st.sampled_from([1, 2]))
@settings(max_examples=examples(200), deadline=None)
def test_one_record_more_moves_the_vector_by_the_sensitivity_at_most(
    seed: int, d: int, classes: int, p: int
) -> None:
    rng = np.random.default_rng(seed)
    release = layout(rng, d, classes, p)
    n = int(rng.integers(0, 12))
    points = rng.standard_t(1.5, (n + 1, d)) * rng.choice([1e-3, 1.0, 1e6])
    points[rng.random(points.shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
    masses = rng.choice([1.0, 0.3], n + 1)
    codes = rng.integers(0, classes + 2, n + 1)
    more = release.encode(points, masses, codes)
    fewer = release.encode(points[:n], masses[:n], codes[:n])
    assert np.linalg.norm((more - fewer).astype(float)) <= release.sensitivity


def test_the_bound_of_a_transport_is_attained() -> None:
    """A record at the far end moves a release by nearly what is claimed: the bound is not slack."""
    target, weights = np.array([[0.0], [1.0]]), np.array([0.5, 0.5])
    block = ToTarget(target, weights, 1.0)
    release = Summary([Sizes(), block], [1e-9, 1.0])
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        points = rng.choice([0.0, 1.0, 50.0], (int(rng.integers(0, 6)), 1))
        added = np.concatenate([points, rng.choice([0.0, 1.0, 50.0], (1, 1))])
        vectors = [
            release.encode(rows, np.ones(len(rows)), np.zeros(len(rows), dtype=np.int64))
            for rows in (points, added)
        ]
        largest = max(largest, float(np.linalg.norm(vectors[1] - vectors[0])))
    assert 0.95 * release.sensitivity < largest <= release.sensitivity


@pytest.mark.parametrize(
    ("weights", "fits"), [([1.0, 1e-310], True), ([1.5e308, 1.5e308], False), ([0.0, 1e-310], True)]
)
def test_masses_of_a_target_that_no_float_can_add_or_divide_are_refused_or_harmless(
    weights: list[float], fits: bool
) -> None:
    """What fails, or warns, only beside some records would tell of them without noise."""
    question = SummarizeRecords(
        privacy_mu=1.0, target=np.array([[0.0], [1.0]]), target_weights=np.array(weights),
        reaches=np.ones(1), shares=np.ones(3),
    )  # fmt: skip
    if not fits:
        with pytest.raises(WireError, match="masses"):
            _ = question.sensitivity
        return
    points = np.array([[0.0], [3.0], [0.5]])
    more, fewer = (question.exact(part, np.ones(len(part))) for part in (points, points[:2]))
    assert np.linalg.norm((more - fewer).astype(float)) <= question.sensitivity


def test_without_noise_a_reading_is_exact() -> None:
    rng = np.random.default_rng(1)
    points, codes = rng.normal(size=(400, 3)) * 0.2 + 0.3, rng.integers(0, 3, 400)
    target = rng.normal(size=(50, 3)) * 0.2
    weights = np.full(50, 1 / 50)
    # Nothing is cut where the reach is longer than any distance.
    release = Summary(
        [
            Sizes(2),
            Waves(np.array([0.5, 1.0, 2.0]), 0.7, 8, 3),
            ToTarget(target, weights, 9.0),
        ],
        [1.0] * 3,
    )
    reading = release.read(release.encode(points, np.ones(400), codes), 0.0)
    assert reading.records == pytest.approx(400, rel=1e-5)
    np.testing.assert_allclose(reading.values["sizes"], np.bincount(codes), atol=1e-2)
    mean, effective = reading.mean_features()
    scaled = points / np.array([0.5, 1.0, 2.0])
    features = random_features(scaled, features=8, bandwidth=0.7, seed=3)
    np.testing.assert_allclose(mean, features.mean(0), atol=1e-5)
    assert effective == pytest.approx(400, rel=1e-4)
    (transport,) = reading.transports()
    assert transport.power == pytest.approx(exact_plan(points, target).cost, rel=1e-4)
    assert transport.noise == 0.0


def test_intervals_of_the_noise_cover() -> None:
    rng = np.random.default_rng(2)
    target, points = rng.normal(size=(60, 2)), rng.normal(size=(600, 2)) + 0.5
    weights = np.full(60, 1 / 60)
    block = ToTarget(target, weights, reach_of(target, weights, 2.0))
    release = Summary([Sizes(), block], [0.15, 0.85])
    exact = release.encode(points, np.ones(600), np.zeros(600, dtype=np.int64))
    truth = release.read(exact, 0.0).transports()[0].power
    scale = scale_for(release.sensitivity, mu_of(1.0, 1e-5))
    drawn = np.rint(rng.normal(size=(2000, 2)) * scale).astype(np.int64) + exact
    inside = 0
    for noisy in drawn:
        (transport,) = release.read(noisy, scale).transports()
        inside += abs(transport.power - truth) <= 1.96 * transport.noise
    assert 0.93 <= inside / len(drawn) <= 0.97


def test_a_mean_with_noise_is_as_precise_as_that_of_the_effective_records() -> None:
    rng = np.random.default_rng(3)
    release = Summary([Sizes(), Waves(np.ones(3), 1.0, 64, 0)], [0.1, 0.9])
    block = release.blocks[1]
    assert isinstance(block, Waves)
    none = np.zeros(300, dtype=np.int64)
    truth = block.rows(rng.normal(size=(200_000, 3)), none).mean(axis=0)
    scale = scale_for(release.sensitivity, mu_of(2.0, 1e-5))
    errors, stated = [], []
    for _ in range(200):
        exact = release.encode(rng.normal(size=(300, 3)), np.ones(300), none)
        noisy = exact + np.rint(rng.normal(size=len(exact)) * scale).astype(np.int64)
        mean, effective = release.read(noisy, scale).mean_features()
        errors.append(np.sum((mean - truth) ** 2))
        stated.append((1.0 - truth @ truth) / effective)
    # The number of records has noise too, which the statement leaves out: it is small.
    assert 0.85 < np.mean(errors) / np.mean(stated) < 1.15
    assert np.mean(stated) > 1.5 * (1.0 - truth @ truth) / 300


def test_a_claim_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above can fail: with the subtracted part forgotten, it does."""
    monkeypatch.setattr(summary.ToTarget, "kappa", property(lambda self: 0.0))
    block = ToTarget(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), 1.0)
    release = Summary([Sizes(), block], [1e-9, 1.0])
    far = release.encode(np.array([[50.0]]), np.ones(1), np.zeros(1, dtype=np.int64))
    none = release.encode(np.zeros((0, 1)), np.zeros(0), np.zeros(0, dtype=np.int64))
    assert np.linalg.norm(far - none) > release.sensitivity


def test_distances_of_classes_that_break_the_triangle_inequality_move_nothing_further() -> None:
    # Two atoms in one place, of classes 0 and 1 that are 0 apart; records of classes 2 and 3 are
    # near to one of them each. As it was sent, one record of class 3 would move the sum by twice
    # the bound.
    far = 100.0
    table = np.array([
        [0.0, 0.0, far, 0.0], [0.0, 0.0, 0.0, far], [far, 0.0, 0.0, far], [0.0, far, far, 0.0],
    ])  # fmt: skip
    block = ToTarget(np.zeros((2, 2)), np.full(2, 0.5), 1.0, 2, np.array([0, 1]), table)
    release = Summary([Sizes(4), block], [0.1, 0.9])
    points, codes = np.zeros((11, 2)), np.array([2] * 10 + [3])
    more = release.encode(points, np.ones(11), codes)
    fewer = release.encode(points[:10], np.ones(10), codes[:10])
    assert np.linalg.norm((more - fewer).astype(float)) <= release.sensitivity


def test_records_far_beyond_any_scale_are_no_error() -> None:
    """An error for some records would tell them from others without noise, and for no charge."""
    table = np.array([[0.0, 1e80], [1e80, 0.0]])
    block = ToTarget(np.zeros((2, 1)), np.full(2, 0.5), 1e100, 2, np.zeros(2, dtype=int), table)
    release = Summary([Sizes(2), block], [1.0, 1.0])
    near, far = np.zeros(30, dtype=int), np.eye(30, dtype=int)[0]
    records = (np.zeros((30, 1)), np.ones(30))
    moved = release.encode(*records, far) - release.encode(*records, near)
    assert np.linalg.norm(moved.astype(float)) <= 2 * release.sensitivity


@pytest.mark.parametrize("error", [MemoryError(), SolverError("no plan.", code="solver-marginals")])
def test_a_transport_without_a_solution_is_its_bound(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(summary, "plan_from_cost", fail)
    release = Summary([Sizes(), ToTarget(np.eye(2), np.full(2, 0.5), 3.0)], [1.0, 1.0])
    with pytest.warns(UserWarning, match="as its bound"):
        exact = release.encode(np.zeros((5, 2)), np.ones(5), np.zeros(5, dtype=int))
    (transport,) = release.read(exact, 0.0).transports()
    assert transport.value == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("bandwidth", [1.0, 1e-14, 1e-60])
def test_features_of_a_record_depend_on_no_other_record(bandwidth: float) -> None:
    """Of large angles what a matrix product rounds is more than a turn."""
    points = np.random.default_rng(0).normal(size=(40, 30))
    waves = Waves(np.ones(30), bandwidth, 128, 0)
    rows = waves.rows(points, np.zeros(40, dtype=int))
    for k in (1, 2, 7, 8, 17, 39):
        assert (waves.rows(points[:k], np.zeros(k, dtype=int)) == rows[:k]).all()
        assert (waves.rows(points[k:], np.zeros(40 - k, dtype=int)) == rows[k:]).all()
