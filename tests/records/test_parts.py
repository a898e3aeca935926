"""Forests, experts and oddness: against brute force, with records really left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.ensemble import ExtraTreesClassifier

from silot.errors import WireError
from silot.records._arrays import even, quantiles
from silot.records.features import Broken
from silot.records.forests import TREES, Forest
from silot.records.frames import Frames
from silot.records.labels import Experts, _Kernel
from silot_transport import Frame, bounded_coordinates, cost_matrix
from tests.problems import Array

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 4)) @ (np.eye(4) + 0.4 * RNG.normal(size=(4, 4)))
CODES = (X[:, 0] + 0.5 * RNG.normal(size=90) > 0).astype(np.int64) + (X[:, 1] > 1.0)
WEIGHTS = RNG.random(90) + 0.2
WEIGHTS /= WEIGHTS.sum()
UNIFORM = np.full(90, 1 / 90)
NEW = 2.0 * RNG.normal(size=(30, 4))


def test_a_forest_of_arrays_says_what_its_trees_say() -> None:
    made, own = Forest.fit(X, CODES, UNIFORM, 4, seed=3)
    assert len(made.roots) == 2 * TREES
    np.testing.assert_allclose(made(NEW).sum(axis=1), 1.0)
    assert (made(NEW)[:, 3] == 0).all()  # a class without records
    kind = ExtraTreesClassifier(
        TREES, bootstrap=True, oob_score=True, max_samples=90, random_state=3
    )
    model = kind.fit(X, CODES, sample_weight=UNIFORM * 90)
    half = Forest(*(getattr(made, name) for name in ("feature", "right", "threshold", "shares")),
                  made.roots[:TREES])  # fmt: skip
    np.testing.assert_allclose(half(NEW)[:, :3], model.predict_proba(NEW), atol=2e-3)
    assert own.shape == (90, 4) and np.allclose(own.sum(axis=1), 1.0)
    assert (own.argmax(axis=1) == CODES).mean() < (made(X).argmax(axis=1) == CODES).mean()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "changes",
    [
        {"right": 0},  # goes back: it would never end
        {"right": 10**6},
        {"feature": 4},
        {"threshold": None},
        {"roots": -1},
        {"shares": 0},
    ],
)
def test_what_is_no_forest_is_refused(changes: dict[str, float | None]) -> None:
    made, _ = Forest.fit(X, CODES, UNIFORM, 3, seed=0)
    made.check(4, 3)
    name, value = next(iter(changes.items()))
    array = getattr(made, name).copy()
    if value is None:
        array = array[:-1]
    else:
        inner = (made.feature >= 0) if name in ("right", "feature") else made.feature < 0
        array[0 if name == "roots" else np.flatnonzero(inner)[0]] = value
    with pytest.raises(WireError):
        replace(made, **{name: array}).check(4, 3)


def test_weighted_quantiles_and_masses_are_those_of_repeated_records() -> None:
    counts = RNG.integers(1, 4, 40)
    values = RNG.normal(size=(40, 2))
    many = np.repeat(values, counts, axis=0)
    shares = np.array([0.1, 0.5, 0.9])
    found = quantiles(values, counts / counts.sum(), shares)
    assert np.abs(found - np.quantile(many, shares, axis=0)).max() < 0.25
    np.testing.assert_allclose(
        quantiles(many, np.full(len(many), 1 / len(many)), shares),
        np.quantile(many, shares, axis=0),
    )
    np.testing.assert_array_equal(even(values[:, 0], np.full(40, 1 / 40)), np.sort(values[:, 0]))


def test_a_record_left_out_is_really_left_out() -> None:
    frames = Frames(X, WEIGHTS)
    fast = frames.odd(X, np.arange(90))
    slow = np.array([_left_out(frames, k) for k in range(0, 90, 9)])
    np.testing.assert_allclose(fast.parts[::9], slow, atol=1e-8)


def _left_out(frames: Frames, k: int) -> Array:
    """Parts of record k against the others, by a matrix inverse and sums of their own."""
    rest = np.delete(np.arange(len(X)), k)
    weights = WEIGHTS[rest]
    frame = Frame.of(X, WEIGHTS)
    others = Frame(frame.mean, frame.scale, X[rest].min(axis=0), X[rest].max(axis=0))
    row = bounded_coordinates(X[[k]], others)
    costs = cost_matrix(row, bounded_coordinates(X[rest], frame))[0] / frames._epsilon
    potential = -0.03 * (logsumexp(-costs, b=weights) - np.log(weights.sum()))
    z = frames._z
    centred = z - frames._mean
    covariance = np.linalg.inv(frames._precision.times(np.eye(X.shape[1])))
    mass = (1.0 - frames._precision.shrunk) * WEIGHTS[k]
    precision = np.linalg.inv(covariance - mass * np.outer(centred[k], centred[k]))
    columns = (precision @ centred[k]) ** 2 / np.diag(precision)
    near = np.sort(np.sqrt(cost_matrix(z[[k]], z[rest])[0]))[:5].mean()
    parts = [max(potential, 0.0) + 0.02, np.exp(np.log1p(columns).mean()), near + 1e-3]
    return np.log([*parts, columns.max() + 1e-3])


def test_kernel_scores_are_those_of_refits_without_the_record() -> None:
    z = Frames(X, WEIGHTS).standard(X)
    made = _Kernel.fit(z, CODES, WEIGHTS, 3, np.random.default_rng(0))
    masses = WEIGHTS / WEIGHTS.sum() * 90
    target, base = np.eye(3)[CODES], made.base
    kernel = np.exp(-made.width * cost_matrix(z, z))
    errors = []
    for shrink in (0.03, 0.1, 0.3, 1.0, 3.0):
        own = np.empty((90, 3))
        for k in range(90):
            rest = np.delete(np.arange(90), k)
            inside = kernel[np.ix_(rest, rest)] + shrink * np.diag(1 / masses[rest])
            own[k] = kernel[k, rest] @ np.linalg.solve(inside, target[rest] - base) + base
        errors.append(np.abs(own - made.own).max())
    assert min(errors) < 1e-8


def test_potentials_leave_the_record_itself_out() -> None:
    frames = Frames(X, WEIGHTS)
    found = frames.potentials(CODES, 3)
    for k in (0, 11, 57):
        rest = np.delete(np.arange(90), k)
        costs = cost_matrix(frames._bounded[[k]], frames._bounded[rest])[0] / frames._epsilon
        for code in range(3):
            there = CODES[rest] == code
            expected = 0.3 * logsumexp(-costs[there], b=WEIGHTS[rest][there])
            np.testing.assert_allclose(found[k, code], max(expected, -300.0), atol=1e-9)


def test_experts_know_the_classes_and_their_own_scores_are_honest() -> None:
    frames = Frames(X, WEIGHTS)
    made, own = Experts.fit(X, CODES, WEIGHTS, 3, frames, np.arange(90), 0)
    made.check(4, 90)
    assert (made.pool >= 0).all()
    shares = made(X, frames)
    np.testing.assert_allclose(logsumexp(shares, axis=1), 0.0, atol=1e-9)
    seen, unseen = shares[np.arange(90), CODES].mean(), own[np.arange(90), CODES].mean()
    assert -0.6 < unseen < seen - 0.05


def test_a_wrong_label_among_validation_records_is_known_from_the_others() -> None:
    codes = CODES.copy()
    far = int(np.argmax(X[:, 0]))
    codes[far] = 0
    _, own = Experts.fit(X, codes, UNIFORM, 3, Frames(X, UNIFORM), np.arange(90), 0)
    assert own[far, 0] < np.log(0.35)


def test_noise_has_larger_ratios_than_validation_records() -> None:
    frames = Frames(X, WEIGHTS)
    made, own = Broken.fit(frames, 0)
    noisy = frames.odd(X + 2.0 * X.std(axis=0) * RNG.normal(size=X.shape)).parts
    assert np.median(made(noisy)) > np.quantile(own, 0.95)
    fresh = RNG.normal(size=(400, 4)) @ np.linalg.lstsq(RNG.normal(size=(4, 4)), np.eye(4))[0]
    assert np.isfinite(made(frames.odd(fresh).parts)).all()


def test_nobody_is_sounder_the_further_out() -> None:
    rng = np.random.default_rng(7)
    for d in (3, 64):
        rows = rng.normal(size=(300, d))
        frames = Frames(rows, np.full(300, 1 / 300))
        made, own = Broken.fit(frames, 0)
        for size in (3.0, 20.0, 1000.0):
            far = frames.odd(rng.normal(size=(50, d)) * size).parts
            assert np.median(made(far)) > np.quantile(own, 0.9), (d, size)


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(4, np.nan)])
def test_weights_of_parts_are_checked(bad: Array) -> None:
    with pytest.raises(WireError):
        Broken(bad, np.zeros(4), 0.0).check()
