"""Conversions are found in both directions, and not where there are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.data.units import CONVERSIONS, Conversion, conversion_between


def quartiles(seed: int, scale: float = 1.0, shift: float = 0.0) -> list[float]:
    x = np.random.default_rng(seed).lognormal(4.0, 0.3, 400)
    return np.quantile(scale * x + shift, [0.25, 0.5, 0.75]).tolist()


@pytest.mark.parametrize("each", CONVERSIONS, ids=lambda each: f"{each.of} to {each.to}")
def test_each_conversion_is_recognised_in_both_directions(each: Conversion) -> None:
    column = each.words[0] if each.words else "x"
    first = quartiles(0)
    second = [each.factor * q + each.offset for q in quartiles(1)]
    if each.offset:
        # Of a spread that is small beside what is added.
        first = [36.2, 36.6, 37.1]
        second = [each.factor * q + each.offset for q in first]
    for pair in ((first, second), (second, first)):
        found = conversion_between(column, *pair)
        assert found is not None
        assert found.factor == each.factor


@given(seed=st.integers(0, 200), name=st.sampled_from(["glucose", "weight", "temp", "x"]))
def test_samples_of_one_law_are_in_one_unit(seed: int, name: str) -> None:
    assert conversion_between(name, quartiles(2 * seed), quartiles(2 * seed + 1)) is None


def test_small_factors_are_told_only_of_names_that_say_what_is_measured() -> None:
    first, second = quartiles(0), quartiles(1, 2.2046)
    assert conversion_between("x", first, second) is None
    assert conversion_between("body_weight", first, second) is not None
    # Of a shift alone no unit is told.
    assert conversion_between("glucose", first, quartiles(1, 1.0, 900.0)) is None


def test_a_power_of_ten_is_of_no_quantity_that_the_name_does_not_say() -> None:
    first, second = quartiles(0), quartiles(1, 100.0)
    for column in ("area", "x"):
        found = conversion_between(column, first, second)
        assert found is not None and not found.words
    found = conversion_between("height", first, second)
    assert found is not None and found.quantity == "length"
