"""Bounds of every method against an exact oracle, on problems of every shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

import silot
from silot import Measure

# The oracle is known to some 1e-9 of the largest distance in the problem.
ORACLE = 1e-9


@dataclass(frozen=True)
class Problem:
    x: Measure
    y: Measure
    p: int
    exact: float
    scale: float


def oracle(x: Measure, y: Measure, p: int) -> tuple[float, float]:
    distances = cdist(x.points, y.points)
    scale = float(distances.max())
    if scale == 0.0:
        return 0.0, 0.0
    a, b = x.weights, y.weights
    cost = float(ot.emd2(a, b / b.sum() * a.sum(), (distances / scale) ** p, numItermax=10**7))
    return scale * max(cost, 0.0) ** (1 / p), scale


def draw_weights(rng: np.random.Generator, n: int) -> np.ndarray | None:
    kind = rng.integers(4)
    if kind == 0:
        return None
    weights = rng.random(n) ** (1 if kind == 1 else 4)
    weights[rng.random(n) < 0.25] = 0.0
    weights[rng.integers(n)] = 1.0
    if kind == 3:
        weights = np.ceil(weights * 3)
    return weights


def draw_problem(seed: int) -> Problem:
    """Sizes equal or not, weights or not, zero weights, duplicates, ties, d from 1 to 200."""
    rng = np.random.default_rng(seed)
    n, m = (int(k) for k in rng.integers(1, 30, size=2))
    if rng.random() < 0.3:
        m = n
    d = int(rng.choice([1, 2, 3, 8, 50, 200]))
    p = int(rng.choice([1, 2]))
    x = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 3)
    kind = rng.integers(5)
    if kind == 0:  # shared and duplicated points
        y = x[rng.integers(n, size=m)]
    elif kind == 1:  # a grid with ties
        x = np.round(x / np.abs(x).max() * 2)
        y = np.round(rng.normal(size=(m, d)))
    elif kind == 2:  # a translation
        y = x[rng.integers(n, size=m)] + rng.normal(size=d) * np.abs(x).mean()
    elif kind == 3:  # far from the origin, where references are not
        y = rng.normal(size=(m, d)) * np.abs(x).mean()
        offset = 1e3 * np.abs(x).max()
        x, y = x + offset, y + offset
    else:
        y = rng.normal(size=(m, d)) * np.abs(x).mean() + rng.normal()
    mu = Measure(x, draw_weights(rng, n))
    nu = Measure(y, draw_weights(rng, m))
    exact, scale = oracle(mu, nu, p)
    return Problem(mu, nu, p, exact, scale)


def options(method: str, problem: Problem, seed: int) -> dict[str, object]:
    rng = np.random.default_rng(seed + 1)
    scale = float(np.abs(problem.x.points).std() + 1e-3)
    shared = {"reference_scale": scale, "seed": seed}
    if method == "fedwad":
        return shared | {
            "support": int(rng.integers(1, 30)),
            "rounds": 6,
            "interpolation": str(rng.choice(["barycentric", "exact"])),
            "distances": str(rng.choice(["every", "last", "never"])),
            "t": [None, 0.5][rng.integers(2)],
            "moments": bool(rng.integers(2)),
        }
    if method == "trianglewad":
        return shared | {
            "support": [None, int(rng.integers(1, 30))][rng.integers(2)],
            "interpolation": str(rng.choice(["auto", "exact", "barycentric"])),
            "t": float(rng.uniform(0.05, 0.95)),
            "distances": bool(rng.integers(2)),
            "moments": bool(rng.integers(2)),
        }
    return {}


# A sketch has no certified bounds.
@pytest.mark.parametrize("method", sorted(set(silot.METHODS) - {"sketch"}))
@pytest.mark.parametrize("block", range(8))
def test_exact_distance_lies_between_the_bounds_and_so_does_the_value(
    method: str, block: int
) -> None:
    for seed in range(40 * block, 40 * block + 40):
        problem = draw_problem(seed)
        result = silot.distance(
            problem.x, problem.y, method=method, p=problem.p, **options(method, problem, seed)
        )
        room = ORACLE * problem.scale
        assert result.lower <= problem.exact + room, (seed, result)
        assert problem.exact <= result.upper + room, (seed, result)
        assert 0 <= result.lower <= result.value <= result.upper, (seed, result)
        if method == "direct":
            assert result.value == pytest.approx(problem.exact, rel=1e-8, abs=room), seed
            # The square root turns the rounding of a vanishing cost into some 1e-8.
            assert result.upper - result.lower <= 1e-6 * problem.scale, seed


@pytest.mark.parametrize("hidden", [False, True])
def test_exact_distance_to_a_union_lies_between_the_bounds(hidden: bool) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        d = int(rng.choice([1, 2, 10, 60]))
        sellers = {
            f"s{k}": rng.normal(size=(int(rng.integers(1, 20)), d)) + k
            for k in range(int(rng.integers(1, 4)))
        }
        buyer = rng.normal(size=(int(rng.integers(1, 30)), d)) * 2
        union = Measure(np.concatenate(list(sellers.values())))
        exact, scale = oracle(union, Measure(buyer), 2)
        result = silot.pooled_distance(
            sellers,
            buyer,
            hidden=hidden,
            seed=seed,
            interpolation=str(rng.choice(["exact", "barycentric"])),
            distances=bool(rng.integers(2)),
        )
        assert result.lower <= exact + ORACLE * scale, seed
        assert exact <= result.upper + ORACLE * scale, seed
        assert result.lower <= result.value <= result.upper, seed


@pytest.mark.parametrize("offset", [1e4, 1e8])
@pytest.mark.parametrize("reference_mean", [0.0, 1e3, 1e7, 1e17])
@pytest.mark.parametrize("t", [0.5, 0.99, 1 - 1e-9])
def test_bounds_hold_far_from_the_origin_and_near_the_reference(
    offset: float, reference_mean: float, t: float
) -> None:
    """Rounding grows with coordinates and with 1 / (1 - t); the bounds have to know."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, m, d = int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 4))
        # Differences of such coordinates are exact, so the oracle is.
        x = np.round(rng.normal(size=(n, d)) * 64) / 64 + offset
        y = np.round(rng.normal(size=(m, d)) * 64 + 320) / 64 + offset
        exact, _ = oracle(Measure(x), Measure(y), 2)
        options = {"t": t, "reference_mean": reference_mean, "seed": seed}
        for result in (
            silot.distance(x, y, method="trianglewad", **options),
            silot.distance(x, y, method="trianglewad", interpolation="barycentric", **options),
            silot.distance(x, y, method="fedwad", support=5, rounds=2, **options),
            silot.pooled_distance({"s": x}, y, **options),
        ):
            assert result.lower <= exact * (1 + 1e-9), (seed, result)
            assert exact <= result.upper * (1 + 1e-9), (seed, result)


def test_swapping_holders_changes_nothing_when_their_clouds_have_one_mean() -> None:
    x = np.array([[1.0, 0], [-1, 0], [0, 3], [0, -3]])
    y = np.array([[2.0, 1], [-2, -1], [1, -5], [-1, 5]])
    reference = np.array([[0.5, 0.2], [-0.5, -0.2], [0.1, 0.7], [-0.1, -0.7]])
    options = {"method": "fedwad", "reference": reference, "rounds": 3}
    first, second = silot.distance(x, y, **options), silot.distance(y, x, **options)
    assert first.value == second.value and first.bounds == second.bounds


def test_lower_bounds_of_tight_distant_clusters_hold() -> None:
    """Plans of such costs cannot be proven optimal; what they claim must not count."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(3, 2)) * 1e4
        x = np.repeat(centres, 10, axis=0) + rng.normal(size=(30, 2)) * 1e-3
        y = x + rng.normal(size=(30, 2)) * 1e-3
        known = float(np.sqrt(((x - y) ** 2).sum(axis=1).mean()))  # of one coupling
        for method in ("fedwad", "trianglewad"):
            result = silot.distance(x, y, method=method, reference=y, moments=False, **(
                {"support": 30, "rounds": 2} if method == "fedwad" else {}))  # fmt: skip
            assert result.lower <= known, (seed, result)
