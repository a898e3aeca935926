"""Bounds of every method against an exact oracle, on problems of every shape."""

from __future__ import annotations

import numpy as np
import pytest

import silot
from evidence.transport.bounds import ORACLE, SETTINGS, examine, oracle
from silot import Measure


@pytest.mark.slow
# `python -m evidence transport bounds` does the same for 10,000 problems.
@pytest.mark.parametrize("block", range(8))
def test_exact_distance_lies_between_the_bounds_and_so_does_the_value(block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        for row in examine(seed):
            assert not row.violated and not row.misled, (seed, row)
            room = ORACLE * row.scale
            if row.setting == "direct":
                assert row.value == pytest.approx(row.exact, rel=1e-8, abs=room), seed


def test_every_method_that_states_bounds_is_examined() -> None:
    # Releases have no certified bounds.
    assert set(silot.api.METHODS) - {"private", "sketch", "secure"} <= set(SETTINGS)


@pytest.mark.heavy
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


@pytest.mark.heavy
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
