"""Values of players: Shapley, leave-one-out, and what the updates of a federated training tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evidence.common import Array
from silot.distances.worth.shapley import RunningMean, compute_exact_values

Utility = Callable[[frozenset[Any]], float]
ModelUtility = Callable[[Array], float]

# Fewer orders than this say too little about their own spread to stop on it.
_LEAST_ORDERS = 30


@dataclass(frozen=True)
class PlayerValues:
    """What each player is worth, and how many coalitions, models and orders that took."""

    names: tuple[Hashable, ...]
    values: tuple[float, ...]
    evaluations: int
    orders: int = 0


class Game:
    """Players and a utility of coalitions, which are bit masks over ``order``."""

    def __init__(self, players: Iterable[Hashable], utility: Utility) -> None:
        self.names = tuple(players)
        # Sorted, so that nothing depends on how the players were listed.
        self.order = sorted(self.names, key=repr)
        self.size = len(self.order)
        self.everyone = (1 << self.size) - 1
        self.evaluations = 0
        self._utility = utility
        self._values: dict[int, float] = {}

    def value(self, mask: int) -> float:
        """Return the utility of a coalition, computed once: it is often a training."""
        if mask not in self._values:
            coalition = [name for k, name in enumerate(self.order) if mask >> k & 1]
            self.evaluations += 1
            self._values[mask] = float(self._utility(frozenset(coalition)))
        return self._values[mask]

    def exact_values(self) -> Array:
        """Compute Shapley values by ``order`` from the utility of every coalition."""
        self.evaluations += 1 << self.size
        return compute_exact_values(self.order, self._utility)

    def gains(self, players: Iterable[int], truncation: float) -> Array:
        """Compute what each player adds on joining in turn.

        Once the coalition is worth as much as all players, to less than ``truncation``, the others
        count as adding nothing and are not evaluated.
        """
        gains = np.zeros(self.size)
        goal = self.value(self.everyone)
        mask, before = 0, self.value(0)
        for player in players:
            if abs(goal - before) < truncation:
                break
            mask |= 1 << player
            after = self.value(mask)
            gains[player] = after - before
            before = after
        return gains

    def result(self, values: Iterable[float], orders: int = 0) -> PlayerValues:
        """Return values by ``order`` in the order in which the caller named the players."""
        by_name = dict(zip(self.order, map(float, values), strict=True))
        ordered = tuple(by_name[name] for name in self.names)
        return PlayerValues(self.names, ordered, self.evaluations, orders)


def exact_shapley(players: Iterable[Hashable], utility: Utility) -> PlayerValues:
    """Compute Shapley values from the utility of every coalition."""
    game = Game(players, utility)
    return game.result(game.exact_values())


def leave_one_out(players: Iterable[Hashable], utility: Utility) -> PlayerValues:
    """Compute what all players together lose when one leaves."""
    game = Game(players, utility)
    total = game.value(game.everyone)
    return game.result(total - game.value(game.everyone ^ 1 << k) for k in range(game.size))


def monte_carlo_shapley(
    players: Iterable[Hashable],
    utility: Utility,
    *,
    tolerance: float = 0.01,
    truncation: float = 0.0,
    max_permutations: int = 10_000,
    seed: int = 0,
) -> PlayerValues:
    """Estimate Shapley values from sampled orders of the players, truncated (TMC).

    Ghorbani and Zou, "Data Shapley: equitable valuation of data for machine learning", algorithm 1
    (2019). Sampling stops when the largest standard error is at most ``tolerance``, after 30
    orders at the least; theirs compares running means.
    """
    game = Game(players, utility)
    rng = np.random.default_rng(seed)
    running = RunningMean(game.size)
    while running.count < max_permutations and not (
        running.count >= _LEAST_ORDERS and float(running.errors.max()) <= tolerance
    ):
        running.add(game.gains(rng.permutation(game.size).tolist(), truncation))
    return game.result(running.mean, running.count)


@dataclass(frozen=True, eq=False)
class TrainingRound:
    """What a server saw in one round of federated training.

    ``parameters``: the global model before the round. ``updates``: by player, its own model
    less ``parameters``. Players who sat the round out are left out. ``weights``: by player, the
    number of its records.
    """

    parameters: Array
    updates: Mapping[Any, Array]
    weights: Mapping[Any, float]

    def step(self, coalition: frozenset[Any]) -> Array:
        """Compute the mean of the updates of a coalition, by weight; zero for nobody."""
        # The order of a set differs from run to run, and with it the last bit of a sum.
        present = sorted((name for name in self.updates if name in coalition), key=repr)
        total = np.zeros_like(self.parameters)
        largest = max((self.weights[name] for name in present), default=1.0)
        shares = [self.weights[name] / largest for name in present]
        mass = math.fsum(shares)
        for name, share in zip(present, shares, strict=True):
            total += share / mass * self.updates[name]
        return total

    def game(self, utility: ModelUtility) -> Game:
        """Build the game of the round: coalitions are worth what their models are worth."""
        return Game(self.updates, lambda group: utility(self.parameters + self.step(group)))


def _players(rounds: Sequence[TrainingRound]) -> dict[Hashable, float]:
    """Nothing for each player of the rounds, in the order they first appear."""
    return dict.fromkeys((name for step in rounds for name in step.updates), 0.0)


def _summed(rounds: Sequence[TrainingRound], results: Iterable[PlayerValues]) -> PlayerValues:
    """Sum values of the games of several rounds, their evaluations and their orders."""
    totals, evaluations, orders = _players(rounds), 0, 0
    for result in results:
        evaluations += result.evaluations
        orders += result.orders
        for name, value in zip(result.names, result.values, strict=True):
            totals[name] += value
    return PlayerValues(tuple(totals), tuple(totals.values()), evaluations, orders)


def multi_rounds(rounds: Sequence[TrainingRound], utility: ModelUtility) -> PlayerValues:
    """Sum the exact Shapley values of every round (MR).

    Song, Tong and Wei, "Profit allocation for federated learning" (2019). A player who sat a round
    out gets 0 for it.
    """
    games = [step.game(utility) for step in rounds]
    return _summed(rounds, (game.result(game.exact_values()) for game in games))


def one_round(rounds: Sequence[TrainingRound], utility: ModelUtility) -> PlayerValues:
    """Compute Shapley values of the first model and all updates of a coalition (OR).

    Song, Tong and Wei (2019). The updates were computed from the model of all players, so these
    are not the models that a coalition would have trained.
    """

    def worth(coalition: frozenset[Any]) -> float:
        model = rounds[0].parameters.copy()
        for step in rounds:
            model += step.step(coalition)
        return utility(model)

    game = Game(_players(rounds), worth)
    return game.result(game.exact_values())


def gtg_shapley(
    rounds: Sequence[TrainingRound],
    utility: ModelUtility,
    *,
    tolerance: float = 0.05,
    truncation: float = 0.001,
    round_truncation: float = 0.01,
    max_permutations: int = 1000,
    guided: bool = True,
    seed: int = 0,
) -> PlayerValues:
    """Estimate the Shapley values of every round, guided and truncated (GTG).

    Not guided, orders are plain random ones: its variants GTG-Ti, with ``round_truncation=0``, and
    GTG-Tib.

    A round that moves the utility by less than ``round_truncation`` counts nothing and costs two
    evaluations. In the others every player leads a sampled order in turn, a cycle, until the
    running means of as many cycles as make 30 orders differ by at most ``tolerance``, relative.

    Liu, Chen, Yu, Liu and Cui, "GTG-Shapley: efficient and accurate participant contribution
    evaluation in federated learning" (2022). Two changes: the change of the means is divided by
    the sum of their sizes, not each by its own, which a player worth 0 has none of; and it is
    looked at after whole cycles only, where every player has led as often.
    """
    rng = np.random.default_rng(seed)
    results: list[PlayerValues] = []
    for step in rounds:
        game = step.game(utility)
        values, orders = np.zeros(game.size), 0
        if abs(game.value(game.everyone) - game.value(0)) >= round_truncation:
            cycles = _sample_cycles(game, rng, tolerance, truncation, max_permutations, guided)
            values, orders = cycles.mean, cycles.count * game.size
        results.append(game.result(values, orders))
    return _summed(rounds, results)


def _sample_cycles(
    game: Game, rng: np.random.Generator, tolerance: float, truncation: float, most: int,
    guided: bool,
) -> RunningMean:  # fmt: skip
    """Sample cycles of as many orders as players, which each leads in turn where guided."""
    n = game.size
    window = math.ceil(_LEAST_ORDERS / n)
    running = RunningMean(n)
    past: list[Array] = []
    while (running.count + 1) * n <= most:
        gains = np.zeros(n)
        for leader in range(n):
            order = rng.permutation(n).tolist()
            if guided:
                order = [leader, *(player for player in order if player != leader)]
            gains += game.gains(order, truncation)
        running.add(gains / n)
        past = [*past[-window:], running.mean]
        if running.count > window:
            change = max(float(np.abs(running.mean - mean).sum()) for mean in past)
            if change <= tolerance * float(np.abs(running.mean).sum()):
                break
    return running
