"""``ShiftDetector``: its level, what it sees, and what it blames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import silot
from silot.estimators import ShiftDetector


def draw(rng: np.random.Generator, n: int, d: int = 3) -> np.ndarray:
    return rng.normal(size=(n, d))


@pytest.mark.heavy
@pytest.mark.parametrize("sizes", [(20, 30), (40, 10)])
def test_the_level_holds(sizes: tuple[int, int]) -> None:
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 31])
        detector = ShiftDetector(level=0.2, permutations=19, random_state=seed)
        alarms += detector.fit(draw(rng, sizes[0])).detect(draw(rng, sizes[1])).shifted
    # 20 % by construction; four standard errors.
    assert abs(alarms / 200 - 0.2) <= 4 * (0.16 / 200) ** 0.5


def test_the_distance_is_exact_and_in_deviations_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    x, y = draw(rng, 50) * [1.0, 100.0, 0.01], draw(rng, 40) * [1.0, 100.0, 0.01]
    found = ShiftDetector().fit(x).detect(y)
    exact = silot.distance(y / x.std(axis=0), x / x.std(axis=0))
    assert found.distance == pytest.approx(exact.value, rel=1e-9)
    assert found.lower <= found.distance <= found.upper
    assert sum(found.columns.values()) == pytest.approx(1.0)


def test_the_unit_of_a_column_is_no_matter() -> None:
    rng = np.random.default_rng(1)
    x, y = draw(rng, 60), draw(rng, 60) + np.array([0.4, 0.0, 0.0])
    one = ShiftDetector().fit(x).detect(y)
    other = ShiftDetector().fit(x * 512.0).detect(y * 512.0)
    assert one.p_value == other.p_value and one.distance == pytest.approx(other.distance)


@pytest.mark.heavy
@pytest.mark.parametrize("change", ["moved", "wider", "together"])
def test_a_shift_is_seen(change: str) -> None:
    rng = np.random.default_rng(2)
    x, y = draw(rng, 150), draw(rng, 150)
    if change == "moved":
        y[:, 1] += 1.0
    elif change == "wider":
        y *= 1.6
    else:  # neither means nor columns change
        y[:, 1] = 0.9 * y[:, 0] + 0.19**0.5 * y[:, 1]
    found = ShiftDetector().fit(x).detect(y)
    assert found.shifted and found.p_value == 0.005


def test_columns_are_blamed_by_name() -> None:
    rng = np.random.default_rng(3)
    names = ["age", "dose", "stay"]
    x, y = (pd.DataFrame(draw(rng, 120), columns=names) for _ in range(2))
    y["dose"] *= 3.0
    found = ShiftDetector().fit(x).detect(y)
    assert found.drivers == ("dose",)
    assert max(found.columns, key=found.columns.__getitem__) == "dose"
    assert found.test["dose"].p_value == 0.005 < found.test["age"].p_value
    assert found.test["dose"].spread_ratio == pytest.approx(3.0, rel=0.4)


def test_columns_that_never_change_change_nothing() -> None:
    rng = np.random.default_rng(4)
    x, y = draw(rng, 40), draw(rng, 40)
    bare = ShiftDetector().fit(x).detect(y)
    constant = np.full((40, 1), 7.0)
    found = ShiftDetector().fit(np.hstack([x, constant])).detect(np.hstack([y, constant]))
    assert found.p_value > 0.05 < bare.p_value and found.test["3"].p_value == 1.0


def test_equal_records_are_no_shift() -> None:
    x = draw(np.random.default_rng(5), 30)
    found = ShiftDetector().fit(x).detect(x[::-1])
    assert found.distance == 0.0 and found.p_value > 0.5 and not found.drivers


def test_one_odd_value_neither_hides_nor_makes_a_shift() -> None:
    rng = np.random.default_rng(16)
    x, y = draw(rng, 300), draw(rng, 300)
    x[0, 0] = 99.0
    assert not ShiftDetector().fit(x).detect(y).shifted
    assert ShiftDetector().fit(x).detect(y + np.eye(3)[0]).drivers == ("0",)


def test_a_table_with_one_column_is_tested() -> None:
    rng = np.random.default_rng(7)
    found = ShiftDetector().fit(draw(rng, 100, 1)).detect(draw(rng, 100, 1) + 1.0)
    assert found.shifted and found.test["0"].shift == pytest.approx(1.0, abs=0.4)
