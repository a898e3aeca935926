"""Shapley values of the players of a cooperative game, exact or from sampled orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from silot_transport._check import Array

# Fewer samples than this say too little about their own spread to stop on it.
_LEAST_PERMUTATIONS = 30

Name = TypeVar("Name", bound=Hashable)
Utility = Callable[[frozenset[Name]], float]


@dataclass(frozen=True)
class ShapleyValues:
    """What each player adds to the others, on average over all orders of joining."""

    values: dict[str, float]
    """By player, in units of the utility."""
    status: str
    """In words: whether the values are exact, or how far their sampling came."""
    standard_errors: dict[str, float] | None = None
    """By player, of sampled values."""

    @property
    def shares(self) -> dict[str, float]:
        r"""Shares of the players, zero or more, that sum to 1.

        .. math:: s_i = \max(\phi_i, 0) / \sum_j \max(\phi_j, 0)

        A player with a negative value gets nothing. When no value is positive there is nothing
        to divide by merit and all shares are equal.
        """
        largest = max(self.values.values())
        if largest <= 0.0:
            return dict.fromkeys(self.values, 1.0 / len(self.values))
        # Dividing by the largest first keeps tiny values from vanishing in the quotient.
        parts = {name: max(value, 0.0) / largest for name, value in self.values.items()}
        total = math.fsum(parts.values())
        return {name: part / total for name, part in parts.items()}


def compute_exact_values(players: Sequence[Name], utility: Utility[Name]) -> Array:
    r"""Compute Shapley values from the utility of every coalition, 2^n of them.

    .. math:: \phi_i = \sum_{S \subseteq N \setminus i} \frac{|S|!\,(n - |S| - 1)!}{n!}
              \bigl(v(S \cup i) - v(S)\bigr)

    The values sum to :math:`v(N) - v(\emptyset)` (Shapley, "A value for n-person games", 1953).
    """
    n = len(players)
    masks = np.arange(1 << n)
    utilities = np.array([
        utility(frozenset(name for k, name in enumerate(players) if mask >> k & 1))
        for mask in range(1 << n)
    ])  # fmt: skip
    # The number of players of each coalition, bit by bit.
    sizes = np.zeros(1 << n, dtype=np.int64)
    for k in range(n):
        sizes += masks >> k & 1
    shares = np.array([1.0 / (n * math.comb(n - 1, size)) for size in range(n)])
    values = np.empty(n)
    for k in range(n):
        without = masks[masks >> k & 1 == 0]
        gains = utilities[without | 1 << k] - utilities[without]
        # A sum rounded once gives players who are alike the same value, to the last bit.
        values[k] = math.fsum(cast("list[float]", (shares[sizes[without]] * gains).tolist()))
    return values


def exact_shapley(players: Sequence[str], utility: Utility[str]) -> ShapleyValues:
    """Return the exact Shapley values of players by name."""
    values = compute_exact_values(players, utility).tolist()
    status = f"exact: all {1 << len(players)} coalitions were evaluated"
    return ShapleyValues(dict(zip(players, values, strict=True)), status)


def sampled_shapley(
    players: Sequence[str],
    utility: Utility[str],
    *,
    tolerance: float,
    most_orders: int,
    seed: int,
) -> ShapleyValues:
    r"""Estimate Shapley values from sampled orders of the players.

    .. math:: \phi_i = \mathbb{E}_\pi \bigl[v(P_i^\pi \cup i) - v(P_i^\pi)\bigr]

    where :math:`P_i^\pi` are the players before i in the order :math:`\pi`. Sampling stops when
    the largest standard error of a value is at most ``tolerance``, after 30 orders at the least,
    or after ``most_orders``. A coalition is evaluated once.
    """
    utilities: dict[frozenset[str], float] = {}

    def read(coalition: frozenset[str]) -> float:
        if coalition not in utilities:
            utilities[coalition] = utility(coalition)
        return utilities[coalition]

    rng = np.random.default_rng(seed)
    running = RunningMean(len(players))
    largest = math.inf
    while running.count < most_orders and not (
        running.count >= _LEAST_PERMUTATIONS and largest <= tolerance
    ):
        order: list[int] = rng.permutation(len(players)).tolist()
        joined = frozenset[str]()
        gains = np.zeros(len(players))
        before = read(joined)
        for k in order:
            joined |= {players[k]}
            after = read(joined)
            gains[k] = after - before
            before = after
        running.add(gains)
        largest = float(running.errors.max())
    converged = largest <= tolerance and running.count >= _LEAST_PERMUTATIONS
    return ShapleyValues(
        dict(zip(players, running.mean.tolist(), strict=True)),
        f"{'converged' if converged else 'stopped early'}: the largest standard error is "
        f"{largest:.3g} after {running.count} permutations, the tolerance is {tolerance:g}",
        dict(zip(players, running.errors.tolist(), strict=True)),
    )


class RunningMean:
    """Mean of samples and its standard error, updated sample by sample (Welford)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = np.zeros(size)
        self._squares = np.zeros(size)

    def add(self, sample: Array) -> None:
        """Update mean and squares with one more sample."""
        self.count += 1
        # Welford's update: sums of squares would cancel where values are large and alike.
        gap = sample - self.mean
        self.mean = self.mean + gap / self.count
        self._squares += gap * (sample - self.mean)

    @property
    def errors(self) -> Array:
        """Standard errors of the mean, infinite before the second sample."""
        if self.count < 2:
            return np.full(len(self.mean), np.inf)
        return np.sqrt(self._squares / (self.count * (self.count - 1)))
