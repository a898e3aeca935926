"""Values of the players of a cooperative game: Shapley, exact and sampled, and leave-one-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from evidence.common import Array
from silot.distances.worth.shapley import RunningMean, compute_exact_values

Name = TypeVar("Name", bound=Hashable)

# Fewer samples than this say too little about their own spread to stop on it.
_LEAST_PERMUTATIONS = 30


@dataclass(frozen=True, kw_only=True)
class PlayerValues:
    """What each player of a cooperative game is worth.

    Examples
    --------
    >>> found = exact_shapley(["north", "south"], lambda group: 3.0 * len(group))
    >>> found["north"], found.converged
    (3.0, True)
    """

    names: tuple[Hashable, ...]
    """Players, in the order they were given."""
    values: tuple[float, ...]
    """Their values, in units of the utility."""
    standard_errors: tuple[float, ...]
    """Of the values, by sampling alone: 0 for exact values, infinite when a single sample says
    nothing. They do not include what truncation left out."""
    method: str
    """Name of the function that computed them."""
    status: str
    """In words: whether the values are exact or converged, and what to change if not."""
    converged: bool
    """Whether the values are exact or their sampling met its tolerance."""
    evaluations: int
    """How many times the utility was evaluated."""
    permutations: int = 0
    """How many orders of players were sampled, 0 for methods that sample none."""
    seed: int | None = None
    """Seed of the sampling; with it and the same game the values are the same."""

    @classmethod
    def without_error(
        cls,
        names: Iterable[Hashable],
        values: Iterable[float],
        method: str,
        status: str,
        count: int,
    ) -> PlayerValues:
        """Build exact values, for which ``count`` coalitions or models were evaluated."""
        players = tuple(names)
        return cls(
            names=players, values=tuple(values), standard_errors=(0.0,) * len(players),
            method=method, status=f"exact: {status}", converged=True, evaluations=count,
        )  # fmt: skip

    def __getitem__(self, name: Hashable) -> float:
        """Return the value of one player."""
        if name not in self.names:
            raise KeyError(name)
        return self.values[self.names.index(name)]


def exact_shapley(
    players: Iterable[Name], utility: Callable[[frozenset[Name]], float]
) -> PlayerValues:
    r"""Compute Shapley values from the utility of every coalition.

    .. math:: \phi_i = \sum_{S \subseteq N \setminus i} \frac{|S|!\,(n - |S| - 1)!}{n!}
              \bigl(v(S \cup i) - v(S)\bigr)

    The values sum to :math:`v(N) - v(\emptyset)`.

    Parameters
    ----------
    players
        Names, hashable and distinct, n of them, at most 20.
    utility
        Gives the worth of a set of names; called once for each of the 2^n sets, the empty one
        included, whose worth need not be 0. Truth values are not numbers: give ``float(won)``.

    Returns
    -------
    PlayerValues
        With standard errors 0.

    References
    ----------
    L. S. Shapley, "A value for n-person games" (1953).

    Examples
    --------
    Two left gloves and one right glove, where only pairs are worth something.

    >>> def pairs(gloves):
    ...     sides = [side for side, _ in gloves]
    ...     return min(sides.count("left"), sides.count("right"))
    >>> found = exact_shapley([("left", 1), ("left", 2), ("right", 1)], pairs)
    >>> [round(value, 6) for value in found.values]
    [0.166667, 0.166667, 0.666667]
    """
    game = Game(players, utility)
    values = game.exact_values()
    status = f"all {game.evaluations} coalitions were evaluated"
    return game.without_error(values, "exact_shapley", status)


def leave_one_out(
    players: Iterable[Name], utility: Callable[[frozenset[Name]], float]
) -> PlayerValues:
    r"""Compute what all players together lose when one leaves.

    .. math:: \phi_i = v(N) - v(N \setminus i)

    Players who can stand in for one another all get 0, and the values need not sum to
    anything: it is the cheapest baseline, not a fair division.

    Parameters
    ----------
    players, utility
        As ``exact_shapley``, but n players of any number, and n + 1 calls.

    Examples
    --------
    >>> leave_one_out(["north", "south"], lambda group: float("north" in group)).values
    (1.0, 0.0)
    """
    game = Game(players, utility)
    total = game.value(game.everyone)
    values = [total - game.value(game.everyone ^ 1 << k) for k in range(game.size)]
    status = f"all players and {game.size} coalitions of all but one were evaluated"
    return game.without_error(values, "leave_one_out", status)


def monte_carlo_shapley(
    players: Iterable[Name],
    utility: Callable[[frozenset[Name]], float],
    *,
    tolerance: float = 0.01,
    truncation: float = 0.0,
    max_permutations: int = 10_000,
    seed: int = 0,
) -> PlayerValues:
    r"""Estimate Shapley values from sampled orders of the players, truncated.

    .. math:: \phi_i = \mathbb{E}_\pi \bigl[v(P_i^\pi \cup i) - v(P_i^\pi)\bigr]

    where :math:`P_i^\pi` are the players before i in the order :math:`\pi`. Sampling stops when
    the largest standard error of a value is at most ``tolerance``, after 30 orders at the
    least. A coalition already evaluated is not evaluated again.

    Parameters
    ----------
    players
        Names, hashable and distinct; the order they are given in changes nothing.
    utility
        Gives the worth of a set of names, the empty one included; it must give the same set
        the same worth.
    tolerance
        Largest standard error aimed at, in units of the utility.
    truncation
        The rest of an order is taken to add nothing once its coalition is worth as much as all
        players to less than this, in units of the utility; 0 evaluates every order to its end.
        The values then sum to :math:`v(N) - v(\emptyset)` to less than ``truncation``, and each
        is off by less than that if the utility never falls when a player joins.
    max_permutations
        Most orders sampled, at least 2.
    seed
        Seed of the sampling.

    Returns
    -------
    PlayerValues
        ``converged`` says whether ``tolerance`` was met; ``status`` what to change if not.

    References
    ----------
    A. Ghorbani and J. Zou, "Data Shapley: equitable valuation of data for machine learning",
    algorithm 1 (2019). Their stopping rule compares running means; standard errors are used
    here, which say how far the values can be trusted.

    Examples
    --------
    >>> found = monte_carlo_shapley(range(8), lambda group: len(group) ** 2, tolerance=0.5)
    >>> found.converged, max(abs(value - 8.0) for value in found.values) < 2.0
    (True, True)
    """
    most = max_permutations
    # Orders are drawn over ``game.order``: the order of the caller changes nothing.
    game = Game(players, utility)
    rng = np.random.default_rng(seed)
    running = RunningMean(game.size)
    truncated = 0
    largest = math.inf
    while running.count < most and not (
        running.count >= _LEAST_PERMUTATIONS and largest <= tolerance
    ):
        gains, cut = evaluate_gains(game, rng.permutation(game.size).tolist(), truncation)
        running.add(gains)
        truncated += cut
        largest = float(running.errors.max())
    converged = largest <= tolerance and running.count >= _LEAST_PERMUTATIONS
    return PlayerValues(
        names=game.names,
        values=game.restore_order(running.mean),
        standard_errors=game.restore_order(running.errors),
        method="monte_carlo_shapley",
        status=_describe_sampling(running.count, largest, tolerance, converged)
        + _describe_truncation(truncated, running.count, truncation),
        converged=converged,
        evaluations=game.evaluations,
        permutations=running.count,
        seed=seed,
    )


def _describe_sampling(count: int, largest: float, tolerance: float, converged: bool) -> str:
    if converged:
        return (
            f"converged: the largest standard error is {largest:.3g} after {count} permutations, "
            f"within the tolerance of {tolerance:g}"
        )
    advice = f"raise max_permutations to {_LEAST_PERMUTATIONS} or more"
    if largest > tolerance:
        # The error falls with the root of the number of samples.
        needed = count * (largest / tolerance) ** 2 if tolerance > 0.0 else math.inf
        advice = (
            f"raise max_permutations to about {needed:.2g}, or the tolerance"
            if needed <= 10_000_000
            else "raise the tolerance"
        )
    return (
        f"stopped early: the largest standard error is {largest:.3g} after {count} permutations, "
        f"the tolerance is {tolerance:g}; {advice}"
    )


def _describe_truncation(truncated: int, count: int, truncation: float) -> str:
    if not truncated:
        return ""
    return (
        f"; {truncated} of {count} permutations were truncated, which the standard errors do not "
        f"include: lower truncation from {truncation:g} to see what it hides"
    )


class Game(Generic[Name]):
    """Players and a utility of coalitions, which are bit masks over ``order``.

    ``order`` depends on the names alone, so that nothing depends on how they were listed.
    """

    def __init__(
        self, players: Iterable[Name], utility: Callable[[frozenset[Name]], float]
    ) -> None:
        self.names = tuple(players)
        # By their texts, for names of different kinds cannot be compared.
        self.order = sorted(self.names, key=write_name)
        self.evaluations = 0
        self._utility = utility
        self._values: dict[int, float] = {}

    @property
    def size(self) -> int:
        """Number of players."""
        return len(self.order)

    @property
    def everyone(self) -> int:
        """The mask of all players."""
        return (1 << self.size) - 1

    def value(self, mask: int) -> float:
        """Return the utility of a coalition, computed once."""
        # A coalition is evaluated once: utilities are often a training each.
        if mask not in self._values:
            self._values[mask] = self.evaluate(mask)
        return self._values[mask]

    def evaluate(self, mask: int) -> float:
        """Compute the utility of a coalition anew."""
        coalition = [name for k, name in enumerate(self.order) if mask >> k & 1]
        self.evaluations += 1
        return float(self._utility(frozenset(coalition)))

    def exact_values(self) -> Array:
        """Compute Shapley values by ``order``, every coalition evaluated once."""
        self.evaluations += 1 << self.size
        return compute_exact_values(self.order, self._utility)

    def restore_order(self, numbers: npt.ArrayLike) -> tuple[float, ...]:
        """Put numbers by ``order`` into the order in which the caller named the players."""
        by_name = dict(zip(self.order, np.asarray(numbers, dtype=np.float64).tolist(), strict=True))
        return tuple(by_name[name] for name in self.names)

    def without_error(self, numbers: npt.ArrayLike, method: str, status: str) -> PlayerValues:
        """Return exact values by ``order`` as a result."""
        return PlayerValues.without_error(
            self.names, self.restore_order(numbers), method, status, self.evaluations
        )


def write_name(name: Hashable) -> str:
    """Return a text that orders names of any types, the same in every process."""
    if isinstance(name, tuple):
        return "(" + ",".join(write_name(part) for part in name) + ")"
    if isinstance(name, frozenset):
        # Its own text depends on the order of hashes.
        return "{" + ",".join(sorted(write_name(part) for part in name)) + "}"
    return repr(name)


def evaluate_gains(
    game: Game[Any], players: Iterable[int], truncation: float
) -> tuple[Array, bool]:
    """Compute what each player adds on joining in turn, and whether the tail was truncated.

    Once the coalition is worth as much as all players, to less than ``truncation``, the others
    count as adding nothing and are not evaluated.
    """
    gains = np.zeros(game.size)
    goal = game.value(game.everyone)
    mask = 0
    before = game.value(0)
    for player in players:
        if abs(goal - before) < truncation:
            return gains, True
        mask |= 1 << player
        after = game.value(mask)
        gains[player] = after - before
        before = after
    return gains, False
