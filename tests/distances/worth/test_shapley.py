"""Shapley values, exact and sampled, of games whose values are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.distances.worth.shapley import ShapleyValues, exact_shapley, sampled_shapley
from tests.problems import seeds

Utility = Callable[[frozenset[str]], float]
PLAYERS = ["a", "b", "c", "d", "e"]


def brute_force(players: Sequence[str], utility: Utility) -> dict[str, float]:
    values = dict.fromkeys(players, 0.0)
    for order in itertools.permutations(players):
        for k, player in enumerate(order):
            gain = utility(frozenset(order[: k + 1])) - utility(frozenset(order[:k]))
            values[player] += gain / math.factorial(len(players))
    return values


def random_game(seed: int) -> tuple[Utility, list[frozenset[str]]]:
    """A game with a random worth for every coalition, the empty one included, and its calls."""
    table = np.random.default_rng(seed).standard_normal(1 << len(PLAYERS))
    calls: list[frozenset[str]] = []

    def utility(group: frozenset[str]) -> float:
        calls.append(group)
        return float(table[sum(1 << PLAYERS.index(player) for player in group)])

    return utility, calls


@given(seed=seeds)
def test_exact_values_are_means_over_all_orders(seed: int) -> None:
    utility, calls = random_game(seed)
    values = exact_shapley(PLAYERS, utility).values
    assert len(calls) == len(set(calls)) == 2 ** len(PLAYERS)
    assert values == pytest.approx(brute_force(PLAYERS, utility), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_sampled_values_are_within_their_errors_of_exact_ones(seed: int) -> None:
    utility, calls = random_game(seed)
    sampled = sampled_shapley(PLAYERS, utility, tolerance=0.05, most_orders=5000, seed=seed)
    assert len(calls) == len(set(calls)) == 2 ** len(PLAYERS)
    assert sampled.status.startswith("converged")
    assert sampled.standard_errors is not None and max(sampled.standard_errors.values()) <= 0.05
    for player, value in exact_shapley(PLAYERS, utility).values.items():
        assert abs(sampled.values[player] - value) <= 4 * sampled.standard_errors[player]


def test_too_few_samples_never_count_as_converged() -> None:
    # Every sample is the same, so that their spread says nothing.
    few, enough = (
        sampled_shapley(["a", "b"], lambda group: float(len(group)), tolerance=1.0,
                        most_orders=most, seed=0)
        for most in (29, 1000)
    )  # fmt: skip
    assert few.status.startswith("stopped early")
    assert enough.status.startswith("converged") and "after 30 permutations" in enough.status
    assert enough.values == {"a": 1.0, "b": 1.0}


@given(values=st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=8))
def test_shares_are_positive_parts_and_sum_to_one(values: list[float]) -> None:
    shares = ShapleyValues({str(k): value for k, value in enumerate(values)}, "exact").shares
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(share >= 0.0 for share in shares.values())
    if max(values) > 0.0:
        assert all(shares[str(k)] == 0.0 for k, value in enumerate(values) if value <= 0.0)
    assert ShapleyValues({"a": 0.0, "b": -2.0}, "exact").shares == {"a": 0.5, "b": 0.5}
