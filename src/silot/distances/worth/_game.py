"""A cooperative game: checked players in an order of their own, and checked utilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array, real, whole

from ...errors import InputError

Name = TypeVar("Name", bound=Hashable)

# 2^20 utilities and as many sums a player are the most that fit minutes and memory.
LARGEST_EXACT = 20
# Sums and squares of larger utilities overflow.
_LARGEST_UTILITY = 1e150
_NAMES_SHOWN = 8
_LARGEST_SEED = 2**63 - 1


class Game(Generic[Name]):
    """Players and a utility of coalitions, which are bit masks over ``order``.

    ``order`` depends on the names alone, so that nothing depends on how they were listed.
    """

    def __init__(
        self, players: Iterable[Name], utility: Callable[[frozenset[Name]], float]
    ) -> None:
        self.names = checked_players(players)
        self.order = sorted(self.names, key=text_of)
        self.evaluations = 0
        checked_callable(utility)
        self._utility = utility
        self._known: dict[int, float] = {}

    @property
    def size(self) -> int:
        """Number of players."""
        return len(self.order)

    @property
    def everyone(self) -> int:
        """The mask of all players."""
        return (1 << self.size) - 1

    def value(self, mask: int) -> float:
        """Utility of a coalition, computed once."""
        if mask not in self._known:
            self._known[mask] = self.evaluate(mask)
        return self._known[mask]

    def evaluate(self, mask: int) -> float:
        """Utility of a coalition, computed anew."""
        coalition = [name for k, name in enumerate(self.order) if mask >> k & 1]
        self.evaluations += 1
        return checked_utility(self._utility(frozenset(coalition)), coalition)

    def listed(self, found: npt.ArrayLike) -> tuple[float, ...]:
        """Numbers by ``order`` in the order the players were given."""
        by_name = dict(zip(self.order, np.asarray(found, dtype=np.float64).tolist(), strict=True))
        return tuple(by_name[name] for name in self.names)


def checked_players(players: Iterable[Name]) -> tuple[Name, ...]:
    """Return the players, at least one, all hashable, distinct and with texts of their own."""
    if isinstance(players, str | bytes):
        raise InputError(
            f"players is one text, {players!r}; a list of names is needed.", code="game-players"
        )
    try:
        names = tuple(players)
        distinct = set(names)
    except TypeError:
        raise InputError(
            f"players is a {type(players).__name__} that is not a list of hashable names. Name "
            "players by texts, numbers or tuples of them.",
            code="game-players",
        ) from None
    if not names:
        raise InputError("there are no players. Name at least one.", code="game-players")
    if len(distinct) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(
            f"{len(names) - len(distinct)} player(s) are listed twice, the first {twice!r}. List "
            "each player once.",
            code="game-players",
        )
    if len({text_of(name) for name in names}) < len(names):
        raise InputError(
            "two different players have the same text, so they have no order of their own. Name "
            "players by texts, numbers or tuples of them.",
            code="game-players",
        )
    return names


def text_of(name: Hashable) -> str:
    """Return a text that orders names of any types, the same in every process."""
    if isinstance(name, tuple):
        return "(" + ",".join(text_of(part) for part in name) + ")"
    if isinstance(name, frozenset):
        # Its own text depends on the order of hashes.
        return "{" + ",".join(sorted(text_of(part) for part in name)) + "}"
    return repr(name)


def checked_callable(utility: object) -> None:
    """Raise unless the utility is a function."""
    if not callable(utility):
        raise InputError(
            f"utility is a {type(utility).__name__}; a function is needed that gives a number.",
            code="game-utility",
        )


def checked_utility(value: object, coalition: list[Any]) -> float:
    """Return a utility that can be summed and squared."""
    shown = ", ".join(repr(name) for name in coalition[:_NAMES_SHOWN])
    rest = len(coalition) - _NAMES_SHOWN
    whose = f"the utility of {{{shown}{f' and {rest} more' if rest > 0 else ''}}}"
    number = real(value, whose, "game-utility")
    if abs(number) > _LARGEST_UTILITY:
        raise InputError(
            f"{whose} is {number:g}, whose square overflows. Rescale the utility.",
            code="game-utility",
        )
    return number


def not_negative(value: object, name: str, code: str) -> float:
    """Return a finite number that is zero or more."""
    number = real(value, name, code)
    if number < 0.0:
        raise InputError(f"{name} is {value!r}; zero or more is needed.", code=code)
    return number


def as_seed(seed: object) -> int:
    """Return a seed of numpy's generators."""
    return whole(seed, "seed", "option-seed", least=0, most=_LARGEST_SEED)


def bounded_size(size: int, what: str, advice: str) -> None:
    """Raise when there are too many players to go through all coalitions."""
    if size > LARGEST_EXACT:
        raise InputError(
            f"{what} {size} players, whose 2^{size} coalitions are too many; at most "
            f"{LARGEST_EXACT} can be done exactly. {advice}",
            code="game-size",
        )


def exact_values(game: Game[Any]) -> Array:
    """Shapley values by ``game.order``, every coalition evaluated once."""
    n = game.size
    masks = np.arange(1 << n)
    # Not kept by coalition: a million of sets takes a gigabyte, their utilities eight megabytes.
    utilities = np.array([game.evaluate(mask) for mask in range(1 << n)])
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


def gains_along(game: Game[Any], players: Iterable[int], truncation: float) -> tuple[Array, bool]:
    """What each player adds when they join in turn, and whether the tail was left out.

    Once the coalition is worth as much as all players, to less than ``truncation``, the rest
    is taken to add nothing and is not evaluated.
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


class Running:
    """Mean of samples and its standard error, updated sample by sample (Welford)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = np.zeros(size)
        self._squares = np.zeros(size)

    def add(self, sample: Array) -> None:
        """Take one more sample in."""
        self.count += 1
        gap = sample - self.mean
        self.mean = self.mean + gap / self.count
        self._squares += gap * (sample - self.mean)

    @property
    def errors(self) -> Array:
        """Standard errors of the mean, infinite before the second sample."""
        if self.count < 2:
            return np.full(len(self.mean), np.inf)
        return np.sqrt(self._squares / (self.count * (self.count - 1)))
