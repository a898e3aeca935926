"""Values of players: games whose values are known, the axioms, and histories of training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.fedbary._baselines import leave_one_out as leave_one_out_of_records
from evidence.fedbary._games import (
    PlayerValues,
    TrainingRound,
    exact_shapley,
    gtg_shapley,
    leave_one_out,
    monte_carlo_shapley,
    multi_rounds,
    one_round,
)
from tests.problems import Array, seeds

Utility = Callable[[frozenset[Any]], float]


def brute_force(players: Sequence[Any], utility: Utility) -> dict[Any, float]:
    values = dict.fromkeys(players, 0.0)
    for order in itertools.permutations(players):
        for k, player in enumerate(order):
            gain = utility(frozenset(order[: k + 1])) - utility(frozenset(order[:k]))
            values[player] += gain / math.factorial(len(players))
    return values


def random_game(players: Iterable[Any], seed: int, scale: float = 1.0) -> Utility:
    """A game with a random worth for every coalition, the empty one included."""
    rng = np.random.default_rng(seed)
    place = {player: 1 << k for k, player in enumerate(players)}
    table = scale * rng.standard_normal(1 << len(place))
    return lambda group: float(table[sum(place[player] for player in group)])


def recorded(utility: Callable[[Any], float]) -> tuple[Callable[[Any], float], list[Any]]:
    calls: list[Any] = []

    def wrapped(group: Any) -> float:
        calls.append(group)
        return utility(group)

    return wrapped, calls


def by_name(found: PlayerValues) -> dict[Hashable, float]:
    return dict(zip(found.names, found.values, strict=True))


def assert_near(found: PlayerValues, known: Mapping[Any, float], gap: float) -> None:
    assert by_name(found) == pytest.approx(dict(known), abs=gap)


# Games whose values are known.


def gloves_value(own: int, other: int) -> float:
    """Chance that a glove finds more gloves of the other hand than of its own before it."""
    n = own + other
    return sum(
        math.comb(own - 1, k) * math.comb(other, m) / (n * math.comb(n - 1, k + m))
        for k in range(own)
        for m in range(k + 1, other + 1)
    )


def gloves(group: frozenset[Any]) -> float:
    lefts = sum(side == "left" for side, _ in group)
    return float(min(lefts, len(group) - lefts))


def airport_values(costs: Sequence[float]) -> dict[int, float]:
    """Every stretch of the runway is shared by those who need it (Littlechild and Owen)."""
    ranked = sorted(range(len(costs)), key=lambda k: costs[k])
    values: dict[int, float] = {}
    paid = before = 0.0
    for rank, k in enumerate(ranked):
        paid += (costs[k] - before) / (len(costs) - rank)
        before = costs[k]
        values[k] = paid
    return values


@pytest.mark.parametrize("n", range(1, 11))
def test_symmetric_votes_are_worth_one_vote_each(n: int) -> None:
    found = exact_shapley(range(n), lambda group: float(len(group) > n / 2))
    assert found.values == pytest.approx([1 / n] * n, rel=1e-12)


@pytest.mark.parametrize("n", range(3, 11))
def test_the_apex_of_a_weighted_vote_has_its_known_power(n: int) -> None:
    # The apex wins with anyone; without it, all others must agree.
    weights = [n - 2] + [1] * (n - 1)
    found = exact_shapley(range(n), lambda group: float(sum(weights[k] for k in group) >= n - 1))
    assert found.values == pytest.approx([(n - 2) / n] + [2 / (n * (n - 1))] * (n - 1), rel=1e-12)


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    quota=st.floats(0.05, 1.0),
)
def test_weighted_votes_are_worth_their_turning_points(weights: list[int], quota: float) -> None:
    def wins(group: frozenset[int]) -> float:
        return float(sum(weights[k] for k in group) >= quota * sum(weights))

    found = exact_shapley(range(len(weights)), wins)
    assert by_name(found) == pytest.approx(brute_force(range(len(weights)), wins), abs=1e-12)


@pytest.mark.parametrize(("lefts", "rights"), [(1, 1), (1, 2), (2, 1), (3, 3), (2, 5), (6, 5)])
def test_gloves_are_worth_the_partners_they_find(lefts: int, rights: int) -> None:
    players = [("left", k) for k in range(lefts)] + [("right", k) for k in range(rights)]
    found = exact_shapley(players, gloves)
    known = [gloves_value(lefts, rights)] * lefts + [gloves_value(rights, lefts)] * rights
    assert found.values == pytest.approx(known, rel=1e-12)


@given(costs=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8))
def test_a_runway_is_paid_stretch_by_stretch(costs: list[float]) -> None:
    found = exact_shapley(
        range(len(costs)), lambda group: max((costs[k] for k in group), default=0.0)
    )
    assert by_name(found) == pytest.approx(airport_values(costs), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", range(1, 12))
def test_miners_who_carry_bars_in_pairs_share_them(n: int) -> None:
    found = exact_shapley(range(n), lambda group: float(len(group) // 2))
    assert found.values == pytest.approx([(n // 2) / n] * n, rel=1e-12)


# Axioms of the exact values.


@given(n=st.integers(1, 6), seed=seeds)
def test_exact_values_are_means_over_all_orders(n: int, seed: int) -> None:
    game = random_game(range(n), seed)
    found = exact_shapley(range(n), game)
    assert by_name(found) == pytest.approx(brute_force(range(n), game), abs=1e-12)


@given(n=st.integers(1, 7), seed=seeds)
def test_exact_values_sum_to_what_all_add_to_the_empty_coalition(n: int, seed: int) -> None:
    game = random_game(range(n), seed)
    found = exact_shapley(range(n), game)
    assert sum(found.values) == pytest.approx(game(frozenset(range(n))) - game(frozenset()))


@given(n=st.integers(1, 6), seed=seeds, factor=st.floats(-5.0, 5.0))
def test_values_of_a_sum_of_games_are_sums_of_values(n: int, seed: int, factor: float) -> None:
    one, two = random_game(range(n), seed), random_game(range(n), seed + 1)
    both = exact_shapley(range(n), lambda group: one(group) + factor * two(group))
    parts = zip(
        exact_shapley(range(n), one).values, exact_shapley(range(n), two).values, strict=True
    )
    assert both.values == pytest.approx([x + factor * y for x, y in parts], abs=1e-11)


@given(n=st.integers(1, 6), seed=seeds, worth=st.floats(-3.0, 3.0))
def test_a_player_who_always_adds_the_same_is_worth_it(n: int, seed: int, worth: float) -> None:
    rest = random_game(range(n), seed)
    found = exact_shapley(
        [*range(n), "dummy"], lambda group: rest(group - {"dummy"}) + worth * ("dummy" in group)
    )
    assert by_name(found)["dummy"] == pytest.approx(worth, abs=1e-12)
    assert found.values[:-1] == pytest.approx(exact_shapley(range(n), rest).values, abs=1e-12)


@given(n=st.integers(2, 7), seed=seeds)
def test_players_who_are_alike_have_the_same_value_to_the_last_bit(n: int, seed: int) -> None:
    # The worth depends on the middle player and on how many others there are.
    table = np.random.default_rng(seed).standard_normal((2, n + 1))
    found = exact_shapley(range(n), lambda group: float(table[int(n // 2 in group), len(group)]))
    assert len({value for k, value in enumerate(found.values) if k != n // 2}) == 1


def test_every_coalition_is_evaluated_once() -> None:
    utility, calls = recorded(lambda group: float(len(group)))
    found = exact_shapley(["abc", *range(7)], utility)
    assert len(calls) == len(set(calls)) == found.evaluations == 2**8
    assert frozenset() in calls


# Leave one out.


def test_leaving_one_out_costs_what_all_lose() -> None:
    utility, calls = recorded(lambda group: float(sum(group) ** 2))
    found = leave_one_out([1, 2, 3], utility)
    assert found.values == (36 - 25.0, 36 - 16.0, 36 - 9.0)
    assert found.evaluations == len(calls) == len(set(calls)) == 4


def test_players_who_can_replace_each_other_lose_nothing_when_left_out() -> None:
    found = leave_one_out(["ab", "c", "d"], lambda group: float(len(group) > 0))
    assert found.values == (0.0, 0.0, 0.0)
    assert leave_one_out(["alone"], lambda group: 5.0 + len(group)).values == (1.0,)


# Sampled values.


@pytest.mark.parametrize("seed", range(5))
def test_sampled_values_are_within_their_errors_of_known_ones(seed: int) -> None:
    players = [("left", k) for k in range(4)] + [("right", k) for k in range(8)]
    known = {name: gloves_value(4, 8) if name[0] == "left" else gloves_value(8, 4)
             for name in players}  # fmt: skip
    found = monte_carlo_shapley(players, gloves, tolerance=0.01, seed=seed)
    assert_near(found, known, 0.04)


@pytest.mark.heavy
def test_sampled_values_of_many_players_share_a_runway() -> None:
    costs = [float(k % 10) for k in range(60)]
    found = monte_carlo_shapley(
        range(60), lambda group: max((costs[k] for k in group), default=0.0), tolerance=0.04
    )
    assert_near(found, airport_values(costs), 0.16)


def test_too_few_samples_never_stop_early() -> None:
    # Every sample is the same, so that their spread says nothing.
    found = monte_carlo_shapley(["a", "b"], lambda group: float(len(group)))
    assert found.orders == 30
    assert found.values == (1.0, 1.0)


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    game = random_game(range(6), 1)
    one = monte_carlo_shapley(range(6), game, max_permutations=50, seed=4)
    assert one == monte_carlo_shapley(range(6), game, max_permutations=50, seed=4)
    assert one.values != monte_carlo_shapley(range(6), game, max_permutations=50, seed=5).values


def test_no_sampled_coalition_is_evaluated_twice() -> None:
    utility, calls = recorded(random_game(range(4), 2))
    found = monte_carlo_shapley(range(4), utility, tolerance=0.0, max_permutations=500)
    assert len(calls) == len(set(calls)) == found.evaluations == 2**4


def test_truncated_orders_are_not_evaluated_past_the_goal() -> None:
    # Three players are worth as much as all twenty.
    utility, calls = recorded(lambda group: float(min(len(group), 3)))
    found = monte_carlo_shapley(range(20), utility, truncation=0.5, max_permutations=200)
    assert {len(group) for group in calls} == {0, 1, 2, 3, 20}
    assert found.evaluations <= 2 + 3 * found.orders
    assert_near(found, dict.fromkeys(range(20), 3 / 20), 0.05)
    utility, calls = recorded(utility)
    monte_carlo_shapley(range(20), utility, max_permutations=40)
    assert {len(group) for group in calls} == set(range(21))


@given(seed=seeds, truncation=st.floats(0.0, 3.0))
def test_truncation_of_a_game_that_only_grows_hides_less_than_itself(
    seed: int, truncation: float
) -> None:
    gains = np.random.default_rng(seed).exponential(size=7)

    def grows(group: frozenset[int]) -> float:
        return float(np.sqrt(sum(gains[k] for k in group)))

    cut, whole = (
        monte_carlo_shapley(
            range(7), grows, tolerance=0.0, truncation=size, max_permutations=30, seed=seed
        )
        for size in (truncation, 0.0)
    )
    assert cut.evaluations <= whole.evaluations
    hidden = [x - y for x, y in zip(whole.values, cut.values, strict=True)]
    assert all(-1e-12 <= gap <= truncation + 1e-12 for gap in hidden)
    assert sum(cut.values) >= grows(frozenset(range(7))) - truncation - 1e-12


def test_without_truncation_a_coalition_as_good_as_all_can_still_gain() -> None:
    # 'b' undoes 'a', and 'c' undoes 'b': {'a'} is worth as much as all.
    worth = {"": 0, "a": 1, "b": 0, "c": 0, "ab": 0, "ac": 1, "bc": 0, "abc": 1}
    found = monte_carlo_shapley(
        ["a", "b", "c"], lambda group: float(worth["".join(sorted(group))]), tolerance=0.02
    )
    assert_near(found, {"a": 5 / 6, "b": -1 / 6, "c": 1 / 3}, 0.08)


# Histories of training.

TRAININGS: tuple[Any, ...] = (multi_rounds, one_round, gtg_shapley)


def first(model: Array) -> float:
    return float(model[0])


def closeness(model: Array) -> float:
    return -float(np.sum((model - 1.0) ** 2))


def history(
    players: Sequence[Any], rounds: int, seed: int, *, absent: float = 0.0, size: int = 3
) -> list[TrainingRound]:
    """A training by FedAvg: the next model is the present one and all updates."""
    rng = np.random.default_rng(seed)
    model = rng.standard_normal(size)
    weights = {name: float(rng.integers(1, 100)) for name in players}
    pulls = {name: rng.standard_normal(size) for name in players}
    steps = []
    for _ in range(rounds):
        present = [name for name in players if rng.uniform() >= absent] or [players[0]]
        updates = {
            name: 0.3 * (1.0 + pulls[name] - model) + 0.1 * rng.standard_normal(size)
            for name in present
        }
        step = TrainingRound(model, updates, {name: weights[name] for name in present})
        steps.append(step)
        total = sum(weights[name] for name in present)
        model = model + sum(weights[name] * updates[name] for name in present) / total
    return steps


def round_of(model: Any, updates: Mapping[Any, Any], weights: Mapping[Any, float]) -> TrainingRound:
    changes = {name: np.array(change) for name, change in updates.items()}
    return TrainingRound(np.array(model), changes, weights)


def averaged(step: TrainingRound, group: Iterable[Any]) -> Array:
    members = [name for name in group if name in step.updates]
    if not members:
        return np.zeros(step.parameters.shape)
    return np.average(
        [step.updates[name] for name in members],
        axis=0,
        weights=[step.weights[name] for name in members],
    )


def additive_history(worths: Sequence[float]) -> tuple[list[TrainingRound], Any]:
    """One round whose game is additive: player k is all that moves parameter k."""
    n = len(worths)
    step = TrainingRound(np.zeros(n), dict(enumerate(np.eye(n))), dict.fromkeys(range(n), 2.0))
    return [step], lambda model: float(np.dot(worths, model > 0.0))


@given(worths=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=6))
def test_all_methods_agree_on_one_round_of_an_additive_game(worths: list[float]) -> None:
    rounds, utility = additive_history(worths)
    for found in (
        multi_rounds(rounds, utility),
        one_round(rounds, utility),
        gtg_shapley(rounds, utility, truncation=0.0, round_truncation=0.0),
    ):
        assert found.values == pytest.approx(worths, abs=1e-12)


@given(n=st.integers(1, 6), seed=seeds)
def test_one_round_is_the_game_of_its_averaged_models(n: int, seed: int) -> None:
    rounds = history(range(n), 1, seed)
    known = exact_shapley(
        range(n), lambda group: closeness(rounds[0].parameters + averaged(rounds[0], group))
    ).values
    assert multi_rounds(rounds, closeness).values == pytest.approx(known, abs=1e-9)
    assert one_round(rounds, closeness).values == pytest.approx(known, abs=1e-9)


def test_two_players_of_a_linear_utility_have_known_values() -> None:
    rounds = [round_of([1.0], {"a": [2.0], "b": [6.0]}, {"a": 3, "b": 1})]
    # Alone 2 and 6, together (3 * 2 + 6) / 4 = 3.
    known = (0.5 * (2.0 + 3.0 - 6.0), 0.5 * (6.0 + 3.0 - 2.0))
    assert multi_rounds(rounds, first).values == pytest.approx(known)
    assert one_round(rounds, first).values == pytest.approx(known)
    assert gtg_shapley(rounds, first).values == pytest.approx(known)


def test_players_who_send_the_same_update_share_its_gain() -> None:
    # Whoever comes first brings all of it: only if all lead as often are the shares equal.
    rounds = [round_of([0.0], {k: [3.0] for k in range(5)}, {k: k + 1.0 for k in range(5)})]
    found = gtg_shapley(rounds, first)
    assert found.values == pytest.approx([3.0 / 5] * 5)
    assert multi_rounds(rounds, first).values == pytest.approx([3.0 / 5] * 5)


@given(seed=seeds)
def test_rounds_of_federated_averaging_add_up_to_what_the_training_gained(seed: int) -> None:
    rounds = history(range(4), 3, seed, absent=0.3)
    end = rounds[-1].parameters + averaged(rounds[-1], range(4))
    gained = closeness(end) - closeness(rounds[0].parameters)
    assert sum(multi_rounds(rounds, closeness).values) == pytest.approx(gained, abs=1e-9)
    assert sum(one_round(rounds, closeness).values) == pytest.approx(gained, abs=1e-9)
    sampled = gtg_shapley(rounds, closeness, truncation=0.0, round_truncation=0.0)
    assert sum(sampled.values) == pytest.approx(gained, abs=1e-9)


@given(seed=seeds)
def test_one_round_replays_all_rounds_for_every_subset(seed: int) -> None:
    rounds = history(range(4), 3, seed, absent=0.4)
    players = {name for step in rounds for name in step.updates}

    def replayed(group: frozenset[int]) -> float:
        return closeness(rounds[0].parameters + sum(averaged(step, group) for step in rounds))

    known = brute_force(sorted(players), replayed)
    assert by_name(one_round(rounds, closeness)) == pytest.approx(known, abs=1e-9)


def test_a_player_gets_nothing_for_rounds_it_sat_out() -> None:
    one = round_of([0.0], {"a": [1.0], "b": [1.0]}, {"a": 1, "b": 1})
    two = round_of([1.0], {"b": [4.0]}, {"b": 1})
    for found in (multi_rounds([one, two], first), gtg_shapley([one, two], first)):
        assert by_name(found) == pytest.approx({"a": 0.5, "b": 4.5})
    # As do all subsets that miss it, were the second round the first.
    assert by_name(one_round([one, two], first)) == pytest.approx({"a": 0.5, "b": 4.5})


@pytest.mark.parametrize("seed", range(4))
def test_guided_samples_are_within_their_errors_of_all_coalitions(seed: int) -> None:
    rounds = history(range(6), 3, seed, absent=0.2)
    known = multi_rounds(rounds, closeness)
    assert known.evaluations == sum(2 ** len(step.updates) for step in rounds)
    utility, calls = recorded(closeness)
    found = gtg_shapley(rounds, utility, tolerance=0.005, truncation=0.0, round_truncation=0.0)
    assert_near(found, by_name(known), 0.1)
    assert found.evaluations == len(calls) <= known.evaluations


def test_guided_sampling_goes_on_until_the_means_settle() -> None:
    rounds = history(range(5), 1, 2)
    found = [
        gtg_shapley(rounds, closeness, tolerance=tolerance, truncation=0.0, max_permutations=20_000)
        for tolerance in (0.5, 0.02, 0.002)
    ]
    counts = [result.orders for result in found]
    # Means over six cycles are compared, so that seven is the least.
    assert 35 <= counts[0] < counts[1] < counts[2]


def test_a_round_that_moves_nothing_is_skipped_after_two_evaluations() -> None:
    moves = round_of([0.0], {"a": [1.0], "b": [1.0]}, {"a": 1, "b": 1})
    # The two cancel out, though each alone would not.
    still = round_of([1.0], {"a": [1.0], "b": [-0.992]}, {"a": 1, "b": 1})
    utility, calls = recorded(first)
    found = gtg_shapley([still], utility)
    assert found.evaluations == len(calls) == 2
    assert found.orders == 0
    assert found.values == (0.0, 0.0)
    assert gtg_shapley([moves, still, still], first).values == pytest.approx((0.5, 0.5))
    looked_at = gtg_shapley([still], first, round_truncation=0.0)
    assert looked_at.values == pytest.approx((0.998, -0.994))
    # No move at all is looked at too.
    cancels = round_of([1.0], {"a": [1.0], "b": [-1.0]}, {"a": 1, "b": 1})
    assert gtg_shapley([cancels], first).orders == 0
    sampled = gtg_shapley([cancels], first, truncation=0.0, round_truncation=0.0)
    assert sampled.values == (1.0, -1.0)


def test_a_round_is_not_evaluated_past_its_goal() -> None:
    # Any two of eight players move the model as far as it counts.
    n = 8
    step = TrainingRound(np.zeros(n), dict(enumerate(np.eye(n))), dict.fromkeys(range(n), 1.0))
    utility, calls = recorded(lambda model: float(min(np.count_nonzero(model), 2)))
    gtg_shapley([step], utility, truncation=0.5)
    assert {int(np.count_nonzero(model)) for model in calls} == {0, 1, 2, n}
    utility, calls = recorded(utility)
    gtg_shapley([step], utility, truncation=0.0)
    assert {int(np.count_nonzero(model)) for model in calls} == set(range(n + 1))


def test_every_player_leads_as_often() -> None:
    n = 7
    step = TrainingRound(np.zeros(n), dict(enumerate(np.eye(n))), dict.fromkeys(range(n), 1.0))
    # All that a first player adds; the others add nothing and nobody is truncated.
    found = gtg_shapley(
        [step],
        lambda model: float(model.any()),
        truncation=0.0,
        tolerance=0.0,
        max_permutations=3 * n - 1,
    )
    assert found.orders == 2 * n
    assert found.values == pytest.approx([1 / n] * n)
    # By plain random orders some lead oftener.
    plain = gtg_shapley(
        [step],
        lambda model: float(model.any()),
        truncation=0.0,
        tolerance=0.0,
        max_permutations=3 * n - 1,
        guided=False,
    )
    assert plain.orders == 2 * n
    assert sum(plain.values) == pytest.approx(1.0)
    assert max(plain.values) > 1 / n + 1e-9


@given(seeds)
def test_leaving_a_record_out_and_its_influence_are_what_fits_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 8
    (x, y), (other, labels) = ((rng.normal(size=(size, 2)), np.arange(size) % 3) for size in (n, 5))

    def error(weights: Array) -> float:
        design, checks = (np.hstack([points, np.ones((len(points), 1))]) for points in (x, other))
        goal, truth = (1.0 * (codes[:, None] == np.arange(3)) for codes in (y, labels))
        gram = design.T @ (weights[:, None] * design) + np.eye(3)
        slopes = np.linalg.solve(gram, design.T @ (weights[:, None] * goal))
        return float(((truth - checks @ slopes) ** 2).sum())

    least = 1e-6
    whole, record = error(np.ones(n)), np.eye(n)
    without = [whole - error(1.0 - record[k]) for k in range(n)]
    slope = [(whole - error(1.0 - least * record[k])) / least for k in range(n)]
    assert leave_one_out_of_records(x, y, other, labels) == pytest.approx(without, abs=1e-9)
    found = leave_one_out_of_records(x, y, other, labels, influence=True)
    assert found == pytest.approx(slope, abs=1e-4, rel=1e-3)


def test_more_players_than_fit_exactly_are_sampled() -> None:
    rounds = history(range(30), 1, 0)
    found = gtg_shapley(rounds, closeness, truncation=0.0, tolerance=0.2)
    gained = closeness(rounds[0].parameters + averaged(rounds[0], range(30)))
    assert sum(found.values) == pytest.approx(gained - closeness(rounds[0].parameters))


def test_the_guided_seed_decides_the_samples() -> None:
    rounds = history(range(5), 2, 3)
    found = gtg_shapley(rounds, closeness, truncation=0.0, seed=7)
    assert found == gtg_shapley(rounds, closeness, truncation=0.0, seed=7)
    assert found.values != gtg_shapley(rounds, closeness, truncation=0.0, seed=8).values


# Rounds.


def test_weights_of_any_size_average() -> None:
    for scale in (1e-300, 1.0, 5e307):
        step = round_of([0.0], {"a": [1.0], "b": [5.0]}, {"a": 3 * scale, "b": scale})
        assert step.step(frozenset({"a", "b"})) == pytest.approx(2.0)
        assert step.step(frozenset({"b", "absent"})) == pytest.approx(5.0)
        assert step.step(frozenset()) == pytest.approx(0.0)
