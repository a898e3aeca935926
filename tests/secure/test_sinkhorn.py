"""The algorithm in the clear: its bounds hold and are close, whatever the data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.measure import Measure
from silot.secure._program import Program, effort_for, opened_in_the_clear
from silot.secure._sinkhorn import (
    FAILED,
    Block,
    Found,
    bounds_of,
    opened_noisily,
    opened_number,
    squared_distance,
)
from silot.secure.options import SecureOptions
from silot.transport import exact_plan

RNG = np.random.default_rng(0)


def block(points, weights=None) -> Block:
    points = np.asarray(points, float)
    n = len(points)
    weights = np.full(n, 1.0 / n) if weights is None else np.asarray(weights) / np.sum(weights)
    mean = weights @ points
    centred = points - mean
    norms = (centred**2).sum(1)
    numbers = np.array([np.sqrt(weights @ norms), np.sqrt(norms.max()), 0.0])
    return Block(centred, weights, 1.0 / weights, mean, numbers)


def found(x, y, a=None, b=None, protocol="aby3") -> Found:
    effort = effort_for(protocol, (len(x), len(y)), 1)
    return squared_distance([block(x, a)], [block(y, b)], ([1.0], [1.0]), effort, np)


def exact(x, y, a=None, b=None) -> float:
    return exact_plan(x, y, a, b, p=2).upper ** 2


def opened(x, y, protocol="aby3") -> float:
    effort = effort_for(protocol, (len(x), len(y)), 1)
    return float(opened_number(found(x, y, protocol=protocol), effort, np))


CASES = {
    "near, d = 2": (RNG.normal(size=(200, 2)), RNG.normal(size=(200, 2))),
    "near, d = 64": (RNG.normal(size=(150, 64)), RNG.normal(size=(200, 64))),
    "far": (RNG.normal(size=(200, 5)), 3.0 * RNG.normal(size=(150, 5)) + 10.0),
    "on the line": (RNG.normal(size=(200, 1)), 1.1 * RNG.normal(size=(150, 1)) + 0.2),
    "clusters": (
        RNG.choice([-6.0, 0.0, 5.0], (200, 2), p=[0.2, 0.3, 0.5]) + RNG.normal(size=(200, 2)) * 0.3,
        RNG.choice([-6.0, 0.0, 5.0], (200, 2), p=[0.5, 0.3, 0.2]) + RNG.normal(size=(200, 2)) * 0.3,
    ),
    "heavy tails": (RNG.standard_t(2, (200, 3)), RNG.standard_t(2, (150, 3)) + 1.0),
    "duplicates": (
        np.repeat(RNG.normal(size=(20, 3)), 10, 0),
        np.repeat(RNG.normal(size=(20, 3)), 8, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value_is_within_one_percent_and_certified(name: str) -> None:
    x, y = CASES[name]
    number, true = opened(x, y), exact(x, y)
    assert abs(np.sqrt(abs(number) / true) - 1.0) < 0.01
    low, high = bounds_of(number)
    assert low <= true <= high


@pytest.mark.parametrize("name", ["near, d = 2", "far", "duplicates"])
def test_two_party_effort_is_within_two_percent(name: str) -> None:
    x, y = (side[:100] for side in CASES[name])
    assert abs(np.sqrt(opened(x, y, "cheetah") / exact(x, y)) - 1.0) < 0.02


def test_a_small_move_of_every_record_is_measured() -> None:
    x = RNG.normal(size=(120, 2))
    y = x[RNG.permutation(120)] + 0.01 * RNG.normal(size=(120, 2))
    assert abs(np.sqrt(opened(x, y) / exact(x, y)) - 1.0) < 0.01


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6),
    st.sampled_from([1e-3, 1.0, 1e3]), st.booleans(),
)  # fmt: skip
def test_bounds_hold_for_any_measures(
    n: int, m: int, d: int, seed: int, size: float, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, y = size * rng.normal(size=(n, d)), size * (rng.normal(size=(m, d)) + rng.normal())
    a = rng.random(n) + 1e-3 if weighted else np.ones(n)
    b = rng.random(m) + 1e-3 if weighted else np.ones(m)
    a, b = a / a.sum(), b / b.sum()
    both, true = found(x, y, a, b), exact(x, y, a, b)
    slack = 1e-8 * (true + size**2)
    assert both.lower <= true + slack
    assert true <= both.upper + slack


@pytest.mark.parametrize("name", CASES)
def test_bounds_hold_long_before_convergence(name: str) -> None:
    x, y = CASES[name]
    effort = replace(
        effort_for("aby3", (len(x), len(y)), 1), rounds=2, squarings=2, steps=2, last=2
    )
    both = squared_distance([block(x)], [block(y)], ([1.0], [1.0]), effort, np)
    assert both.lower <= exact(x, y) <= both.upper


def test_translation_adds_the_squared_distance_of_the_means() -> None:
    x, y = RNG.normal(size=(30, 3)), RNG.normal(size=(40, 3))
    y = y - y.mean(0) + x.mean(0)
    near, far = found(x, y), found(x, y + np.array([3.0, 0.0, 4.0]))
    assert np.isclose(far.lower - near.lower, 25.0, rtol=0.01)
    assert far.lower - 1e-9 <= exact(x, y) + 25.0 <= far.upper + 1e-9


def test_equal_measures_open_as_a_lower_bound_of_zero() -> None:
    x = RNG.normal(size=(50, 3))
    assert bounds_of(opened(x, x)) == (0.0, np.inf)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(5.0, 1.0), (-1.0, 1.0), (1.0, 50.0), (np.nan, np.nan), (1e12, 1.01e12)],
)
def test_what_cannot_be_bounds_opens_as_a_failure(lower: float, upper: float) -> None:
    effort = effort_for("aby3", (50, 50), 1)
    independent = 2.0 if upper < 1e9 else 2e12
    assert opened_number(Found(lower, upper, independent), effort, np) == FAILED


def test_bounds_far_apart_open_as_the_lower_one() -> None:
    effort = effort_for("aby3", (50, 50), 1)
    number = float(opened_number(Found(1.0, 1.5, 2.0), effort, np))
    assert number == pytest.approx(-1.0)
    assert bounds_of(number) == (-number, np.inf)


def test_noise_is_added_after_clipping_and_never_to_unproven_numbers() -> None:
    effort = effort_for("aby3", (50, 50), 1)

    def told(lower: float, upper: float) -> float:
        return float(opened_noisily(Found(lower, upper, 9.0), 0.25, 4.0, 0.1, -77.0, effort, np))

    assert told(2.0, 2.05) == pytest.approx(2.275)
    assert told(4.5, 4.55) == pytest.approx(4.25)
    assert told(2.0, 2.2) == -76.75


def test_a_union_of_holders_is_the_pooled_measure() -> None:
    parts = [RNG.normal(size=(n, 3)) * (k + 1.0) + k for k, n in enumerate((30, 20, 10))]
    y = RNG.normal(size=(40, 3))
    program = Program((30, 20, 10, 40), 3, 3, effort_for("aby3", (30, 20, 10, 40), 3))
    arrays = [array for part in (*parts, y) for array in block(part).parts()]
    number = opened_in_the_clear(program, arrays, np)
    assert abs(np.sqrt(number / exact(np.concatenate(parts), y)) - 1.0) < 0.01


def test_programs_agree_on_shapes() -> None:
    program = SecureOptions().program((3, 4), 1, 2)
    made = [
        array.shape for part in (np.ones((3, 2)), np.ones((4, 2))) for array in block(part).parts()
    ]
    assert program.shapes == made
    assert Measure(np.ones((3, 2))).size == 3
