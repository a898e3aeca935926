"""The algorithm in the clear: its bounds hold and are close, whatever the data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.sites.secure._effort import Effort, Part, Stage, choose_effort
from silot.sites.secure._opening import GRADES, bounds_of, open_noisily, open_number
from silot.sites.secure._program import Program
from silot.sites.secure._sinkhorn import (
    Block,
    Bracket,
    advance,
    bounds,
    prepare,
)
from silot.sites.secure.options import SecureOptions
from silot_transport import exact_plan
from tests.tiers import examples

RNG = np.random.default_rng(0)


def repeat_here(count: int, body, state):
    """Run ``body`` ``count`` times, without secrets."""
    for _ in range(count):
        state = body(state)
    return state


def block(points, weights=None) -> Block:
    points = np.asarray(points, float)
    n = len(points)
    weights = np.full(n, 1.0 / n) if weights is None else np.asarray(weights) / np.sum(weights)
    mean = weights @ points
    centred = points - mean
    numbers = np.array([weights @ (centred**2).sum(1), 0.0])
    return Block(centred, weights, weights**-0.5, mean, numbers)


def effort_of(x, y, protocol="aby3", accuracy="normal") -> Effort:
    return choose_effort(protocol, (len(x), len(y)), x.shape[1], accuracy)


def found(x, y, a=None, b=None, effort: Effort | None = None) -> list[Bracket]:
    """Bounds after each part."""
    effort = effort or effort_of(x, y)
    problem = prepare([block(x, a)], [block(y, b)], ([1.0], [1.0]), effort, np)
    made, state = [], None
    for part in range(len(effort.parts)):
        state = advance(problem, state, part, effort, np, repeat_here)
        made.append(bounds(problem, state, effort, np))
    return made


def exact(x, y, a=None, b=None) -> float:
    return exact_plan(x, y, a, b, p=2).upper ** 2


def opened(x, y, **options) -> tuple[float, int, int]:
    program = SecureOptions(**options).program((len(x), len(y)), 1, x.shape[1])
    arrays = [array for points in (x, y) for array in block(points)]
    (number, grade), parts = run_in_the_clear(program, arrays, np)
    return number, int(grade), parts


def run_in_the_clear(program: Program, arrays, xp) -> tuple[list[float], int]:
    """Run the program without secrets: what is opened, and how many parts it took."""
    for part in range(program.parts):
        numbers, *others = program.run(part, xp, repeat_here, arrays)
        if not others or others[0]:
            return [float(number) for number in numbers], part + 1
        arrays = others[1:]
    raise AssertionError("the last part has no successor")


def scaled(x, y):
    """The pair in units of its spread, as a public scale would be chosen."""
    size = np.sqrt(x.var(0).sum() + y.var(0).sum())
    return x / size, y / size


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
    x, y = scaled(*CASES[name])
    told, true = opened(x, y), exact(x, y)
    assert abs(np.sqrt(told[0] / true) - 1.0) < 0.01
    low, high = bounds_of(*told)
    assert low <= true <= high


@pytest.mark.parametrize("name", ["near, d = 64", "far", "clusters", "heavy tails", "duplicates"])
def test_the_fast_setting_is_within_two_percent(name: str) -> None:
    x, y = scaled(*CASES[name])
    told, true = opened(x, y, accuracy="fast"), exact(x, y)
    assert abs(np.sqrt(told[0] / true) - 1.0) < 0.02
    low, high = bounds_of(*told)
    assert low <= true <= high


@pytest.mark.parametrize("name", ["near, d = 2", "far", "duplicates"])
def test_two_party_effort_is_within_two_percent(name: str) -> None:
    x, y = scaled(*(side[:100] for side in CASES[name]))
    number, _, _ = opened(x, y, two_party=True)
    assert abs(np.sqrt(number / exact(x, y)) - 1.0) < 0.02


def test_a_small_move_of_every_record_is_measured() -> None:
    x = RNG.normal(size=(120, 2))
    y = x[RNG.permutation(120)] + 0.01 * RNG.normal(size=(120, 2))
    number, grade, _ = opened(x, y)
    assert grade > 0
    assert abs(np.sqrt(number / exact(x, y)) - 1.0) < 0.01


@pytest.mark.parametrize("protocol", ["aby3", "cheetah"])
@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6),
    st.sampled_from(["normal", "tails", "far", "lattice", "same"]),
    st.sampled_from([0.0, 1.0, 3.0, 6.0]),
)  # fmt: skip
def test_bounds_hold_for_any_measures_after_every_part(
    protocol: str, n: int, m: int, d: int, seed: int, kind: str, uneven: float
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + rng.normal()
    if kind == "tails":
        x, y = rng.standard_cauchy((n, d)), rng.standard_cauchy((m, d))
    elif kind == "far":
        x[: n // 2] += 1e3
        y[: m // 3] += 1e3
    elif kind == "lattice":
        x, y = np.round(x), np.round(y)
    elif kind == "same":
        y = x[rng.integers(n, size=m)]
    a, b = np.exp(-uneven * rng.random(n)), np.exp(-uneven * rng.random(m))
    a, b = a / a.sum(), b / b.sum()
    spread = (a @ (x - a @ x) ** 2 + b @ (y - b @ y) ** 2).sum()
    size = np.sqrt(spread) if spread > 1e-18 else 1.0
    x, y = x / size, y / size
    true = exact(x, y, a, b)
    for accuracy in ("normal", "fast"):
        for both in found(x, y, a, b, effort_of(x, y, protocol, accuracy)):
            # What rounding may cost is added when the number is opened.
            slack = 1e-9 * (true + 1.0)
            assert both.lower <= true + slack
            assert true <= both.upper + slack


@pytest.mark.parametrize("name", CASES)
def test_bounds_hold_long_before_convergence(name: str) -> None:
    x, y = CASES[name]
    short = replace(effort_of(x, y), parts=(Part((Stage(0, 1, 1), Stage(2, 1, 1)), 0.24),))
    both = found(x, y, effort=short)[0]
    assert both.lower <= exact(x, y) <= both.upper


def test_bounds_hold_whatever_the_kernel_is() -> None:
    x, y = CASES["near, d = 2"]
    effort = effort_of(x, y)
    problem = prepare([block(x)], [block(y)], ([1.0], [1.0]), effort, np)
    state = advance(problem, None, 0, effort, np, repeat_here)
    for _ in range(20):
        wild = state._replace(
            kernel=RNG.random(state.kernel.shape) ** RNG.integers(1, 30),
            rows=RNG.random(200) / 200,
            columns=RNG.random(200),
        )
        # Rows that have their mass, as every part leaves them.
        rows = 1.0 / 200 / (wild.kernel @ wild.columns)
        wild = wild._replace(rows=rows, raised=RNG.normal(size=200))
        both = bounds(problem, wild, effort, np)
        assert both.lower <= exact(x, y) <= both.upper


def test_translation_adds_the_squared_distance_of_the_means() -> None:
    x, y = RNG.normal(size=(30, 3)), RNG.normal(size=(40, 3))
    y = y - y.mean(0) + x.mean(0)
    near, far = found(x, y)[0], found(x, y + np.array([3.0, 0.0, 4.0]))[0]
    assert np.isclose(far.lower - near.lower, 25.0, rtol=1e-9)
    assert np.isclose(far.upper - near.upper, 25.0, rtol=1e-9)


def test_equal_measures_open_as_a_lower_bound_of_zero() -> None:
    x = RNG.normal(size=(50, 3))
    assert bounds_of(*opened(x, x)) == (pytest.approx(0.0, abs=1e-9), np.inf)


def test_far_data_need_one_part_and_near_ones_more() -> None:
    x, y = RNG.normal(size=(60, 2)), RNG.normal(size=(60, 2))
    assert opened(x, y + 5.0)[2] == 1
    assert opened(x, x[RNG.permutation(60)] + 1e-3)[2] == 4


def told(lower: float, upper: float, independent: float = 9.0, mass: float = 1.0, part=0):
    effort = choose_effort("aby3", (50, 50), 3, "normal")
    number, enough = open_number(Bracket(lower, upper, independent, mass), part, effort, np)
    return float(number[0]), int(number[1]), bool(enough)


@pytest.mark.parametrize(
    ("lower", "upper", "independent", "mass"),
    [
        (5.0, 1.0, 9.0, 1.0),
        (-1.0, 1.0, 9.0, 1.0),
        (1.0, 50.0, 9.0, 1.0),
        (1e12, 1.01e12, 2e12, 1.0),
        (1.0, 1.1, 9.0, 1e6),
        (1.0, 1.1, 9.0, -3.0),
    ],
)
def test_what_cannot_be_bounds_opens_as_a_failure(
    lower: float, upper: float, independent: float, mass: float
) -> None:
    assert told(lower, upper, independent, mass)[:2] == (0.0, -1)


@pytest.mark.parametrize("part", [0, 2])
@pytest.mark.parametrize("gap", [0.001, 0.02, 0.05, 0.1, 0.3, 0.44])
def test_the_grade_covers_the_gap_and_no_more_than_the_next(gap: float, part: int) -> None:
    number, grade, enough = told(1.0, 1.0 + gap, part=part)
    low, high = bounds_of(number, grade, part + 1)
    assert low <= 1.0
    assert high >= 1.0 + gap
    assert grade == sum(limit >= gap / number for limit in GRADES)
    assert enough == (gap / number <= 0.03)


def test_bounds_far_apart_open_as_the_lower_one() -> None:
    number, grade, enough = told(1.0, 3.0)
    assert (number, grade, enough) == (pytest.approx(1.0), 0, False)
    assert bounds_of(number, grade, 1) == (number, np.inf)


def test_noise_is_added_after_clipping_and_never_to_unproven_numbers() -> None:
    effort = choose_effort("aby3", (50, 50), 3, "normal")

    def noisy(lower: float, upper: float) -> float:
        both = Bracket(lower, upper, 9.0, 1.0)
        return float(open_noisily(both, 0.25, 4.0, 0.1, -77.0, effort, np)[0])

    assert noisy(2.0, 2.05) == pytest.approx(2.275)
    assert noisy(4.5, 4.55) == pytest.approx(4.25)
    assert noisy(2.0, 2.2) == -76.75


def test_a_union_of_holders_is_the_pooled_measure() -> None:
    parts = [RNG.normal(size=(n, 3)) * (k + 1.0) + k for k, n in enumerate((30, 20, 10))]
    y = RNG.normal(size=(40, 3))
    sizes = (30, 20, 10, 40)
    program = Program("aby3", sizes, 3, 3, choose_effort("aby3", sizes, 3, "normal"))
    arrays = [array for part in (*parts, y) for array in block(part)]
    (number, _), _ = run_in_the_clear(program, arrays, np)
    assert abs(np.sqrt(number / exact(np.concatenate(parts), y)) - 1.0) < 0.01


def test_programs_agree_on_shapes() -> None:
    program = SecureOptions().program((3, 4), 1, 2)
    made = [array.shape for part in (np.ones((3, 2)), np.ones((4, 2))) for array in block(part)]
    assert program.shapes == made
    assert Program.unpacked(program.packed()) == program
