"""What a sketch adds up, what one record can change of it, and what is read from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.distances.sketches.questions import CountRecords, SketchRecords
from silot.privacy.cells import Cells
from silot.privacy.compare import Rate, Sampler, distances_of, rate_of
from silot.privacy.sketch import RESOLUTION, Reading, decode, encode, parts, sensitivity, simplex
from tests.tiers import examples

pytestmark = pytest.mark.all_cases

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(400, 5))
CELLS = Cells.of_sample(PUBLIC, 16)
DATA = RNG.normal(size=(30, 5))
CLASSES = '["a","b"]'
NAMES = np.array(["a", "b", "unknown"])[np.arange(30) % 3]
seeds = st.integers(0, 2**32 - 1)


def question(**options: object) -> SketchRecords:
    fields = {
        "centres": CELLS.centres,
        "radius": CELLS.radius,
        "radius2": CELLS.radius2,
        "privacy_mu": 0.2,
    }
    return SketchRecords(**(fields | options))  # type: ignore[arg-type]


def draw_record(rng: np.random.Generator, d: int) -> np.ndarray:
    record = rng.normal(size=(1, d)) * 10.0 ** rng.uniform(-3, 6)
    kind = rng.integers(6)
    if kind == 0:
        record[0, rng.integers(d)] = rng.choice([np.nan, np.inf, -np.inf])
    elif kind == 1:
        record *= 1e200
    elif kind == 2:  # exactly on the way out of the ball
        step = rng.normal(size=d)
        record[0] = CELLS.centres[3][:d] + CELLS.radius * step / np.linalg.norm(step)
    return record


# The guarantee.


@settings(max_examples=examples(300), deadline=None)
@given(seed=seeds, limit=st.sampled_from([0.0, 0.5, 1.0, 3.0]), labelled=st.booleans())
def test_one_record_moves_the_sketch_by_at_most_its_sensitivity(
    seed: int, limit: float, labelled: bool
) -> None:
    rng = np.random.default_rng(seed)
    asked = question(mass_limit=limit, classes=CLASSES if labelled else "")
    masses = rng.random(30) * 2
    points = np.vstack([DATA, draw_record(rng, 5)])
    weight = rng.choice([0.0, 1e-9, rng.random(), 1.0, 5.0, 1e9])
    names = np.append(NAMES, rng.choice(["a", "b", "new"])) if labelled else None
    before = asked.exact(DATA, masses, names[:-1] if names is not None else None)
    after = asked.exact(points, np.append(masses, weight), names)
    assert np.linalg.norm((after - before).astype(float)) <= asked.sensitivity
    assert before.dtype == after.dtype == np.int64
    if weight == 0.0:
        np.testing.assert_array_equal(after, before)
    count = CountRecords(privacy_mu=0.1, mass_limit=limit)
    moved = count.exact(points, np.append(masses, weight)) - count.exact(DATA, masses)
    assert 0 <= moved[0] <= count.sensitivity == RESOLUTION


@pytest.mark.parametrize("d", [1, 2, 5, 64, 784])
def test_the_bound_holds_in_every_dimension_and_is_nearly_reached(d: int) -> None:
    rng = np.random.default_rng(d)
    cells = Cells.of_sample(rng.normal(size=(60, d)), 8)
    largest = 0.0
    for k in range(60):
        step = rng.normal(size=d) if k % 2 else np.sign(rng.normal(size=d))
        point = cells.centres[k % 8] + 10.0 ** (k % 5) * cells.radius * step
        largest = max(largest, float(np.linalg.norm(encode(point[None], np.ones(1), cells))))
    assert 0.9 * sensitivity(d) <= largest <= sensitivity(d)


def test_the_order_of_records_changes_nothing() -> None:
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_array_equal(
        question().exact(DATA, np.ones(30)), question().exact(DATA[order], np.ones(30))
    )


def test_classes_and_cells_part_the_records() -> None:
    plain = question().exact(DATA, np.ones(30))
    labelled = question(classes=CLASSES).exact(DATA, np.ones(30), NAMES)
    np.testing.assert_array_equal(labelled[: 3 * 16].reshape(3, 16).sum(axis=0), plain[:16])
    np.testing.assert_array_equal(labelled[3 * 16 :], plain[16:])
    unit = parts(RESOLUTION)[0]
    np.testing.assert_array_equal(labelled[: 3 * 16].reshape(3, 16).sum(axis=1) / unit, [10] * 3)


def test_a_record_of_half_the_limit_counts_for_half() -> None:
    asked = question(mass_limit=4.0)
    half = asked.exact(np.repeat(DATA, 2, axis=0), np.full(60, 2.0))
    whole = asked.exact(DATA, np.full(30, 4.0))
    # Up to the rounding of each contribution.
    assert np.abs(half - whole).max() <= 60


# Decoding.


@settings(max_examples=examples(60), deadline=None)
@given(seed=seeds, size=st.floats(-3, 15), classes=st.sampled_from([1, 3]))
def test_whatever_the_noise_what_is_decoded_is_a_measure(
    seed: int, size: float, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = (
        rng.normal(size=(2, classes * 16 + 6)) * 10.0**size * rng.choice([-1, 1, 0], 2)[:, None]
    )
    found = []
    for vector in vectors:
        reading = Reading.of(np.rint(vector).astype(np.int64), CELLS, 0.2, count=classes)
        found.append(decode(reading, CELLS))
        one = found[-1]
        assert (one.weights >= 0).all() and one.weights.sum() == pytest.approx(1.0)
        assert np.isfinite(one.atoms).all() and 0 <= one.scatter < np.inf and one.records >= 1
    sampler = Sampler.of(5, 0, size=40, embedding="full" if classes > 1 else "none")
    rate = Rate(0.9, 0.4)
    value = distances_of([tuple(sampler.draw(one) for one in found)], rate)[0]
    assert np.isfinite(value) and value >= 0


def test_without_noise_counts_means_and_scatter_come_back() -> None:
    data = np.random.default_rng(3).normal(size=(5000, 5)) * 0.8 + 0.1
    reading = Reading.of(encode(data, np.ones(5000), CELLS), CELLS, np.inf)
    assert reading.count_noise == 0
    found = decode(reading, CELLS)
    apart = ((data[:, None] - CELLS.centres) ** 2).sum(axis=2)
    codes = apart.argmin(axis=1)
    assert found.records == pytest.approx(5000)
    np.testing.assert_allclose(found.weights[0], np.bincount(codes, minlength=16) / 5000)
    assert found.scatter == pytest.approx(apart.min(axis=1).mean(), rel=0.03)


def test_noise_that_drowns_the_counts_leaves_the_public_law() -> None:
    vector = encode(PUBLIC[:150] + 0.5, np.ones(150), CELLS)
    gaps = []
    for mu in (np.inf, 1e-6):
        found = decode(Reading.of(vector, CELLS, mu), CELLS)
        gaps.append(float(np.abs(found.weights[0] - CELLS.weights).sum()))
    assert gaps[0] > 0.2
    assert gaps[1] == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=examples(100), deadline=None)
@given(seed=seeds, n=st.integers(1, 30), size=st.floats(-6, 6))
def test_the_nearest_probabilities_are_nearer_than_any_others(
    seed: int, n: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0**size
    found = simplex(values)
    assert found.sum() == pytest.approx(1.0) and (found >= 0).all()
    others = rng.dirichlet(np.ones(n), 20)
    room = 1e-9 * (1 + np.abs(values).max())
    for other in others:
        assert np.linalg.norm(found - values) <= np.linalg.norm(other - values) + room


# Distances.


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_the_distance_of_two_shifted_samples_is_near_the_exact_one(shift: float) -> None:
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 800, 5))
    y[:, 0] += shift
    cost = cdist(x, y) ** 2
    exact = cost[linear_sum_assignment(cost)].mean() ** 0.5
    sampler, rate = Sampler.of(5, 0), rate_of(PUBLIC, CELLS, 0)
    sides = [
        sampler.draw(decode(Reading.of(encode(k, np.ones(800), CELLS), CELLS, np.inf), CELLS))
        for k in (x, y)
    ]
    assert distances_of([sides], rate)[0] ** 0.5 == pytest.approx(exact, rel=0.1)
    swapped = distances_of([sides[::-1]], rate)[0]
    assert swapped == pytest.approx(distances_of([sides], rate)[0], rel=1e-12)


def test_samples_of_a_law_grow_nearer_with_their_size() -> None:
    rate = rate_of(PUBLIC, CELLS, 0)
    # In five dimensions squared distances of samples go about like n to the -2/5.
    assert 0.2 < rate.power < 0.6
    assert rate.at(100) > rate.at(1000) > rate.at(10000) > rate.at(np.inf) == 0


def test_a_public_sample_without_any_chance_in_it_has_rate_zero() -> None:
    sample = np.repeat([[0.0, 0.0], [1.0, 1.0]], 100, axis=0)
    rate = rate_of(sample, Cells.of_sample(sample, 8), 0)
    assert np.isfinite(rate.at(100.0))
