"""What a server keeps of a federated training, and the games its rounds make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from silot_transport._check import LARGEST_COORDINATE, Array, real

from ...errors import InputError, MismatchError
from ._game import Game, Name, checked_callable, checked_players, text_of

ModelUtility = Callable[[npt.NDArray[np.float64]], float]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TrainingRound(Generic[Name]):
    """What a server saw in one round of federated training.

    Parameters
    ----------
    parameters
        The global model before the round: finite numbers of any shape.
    updates
        By player, what they would add to it: their own model less ``parameters``, of the same
        shape. Players who sat the round out are left out.
    weights
        By player, how much their update counts, above 0: the number of their records.

    Raises
    ------
    InputError
        No players, or an array that is not made of finite numbers (``game-players``,
        ``rounds-parameters``); a weight that is not above 0 (``rounds-weights``).
    MismatchError
        An update of another shape than the parameters (``rounds-shape``), weights of other
        players than the updates (``rounds-weights``).

    Examples
    --------
    >>> TrainingRound([0.0, 0.0], {"north": [1.0, 0.0]}, {"north": 300})
    TrainingRound(1 players, 2 parameters)
    """

    parameters: Array
    updates: Mapping[Name, Array]
    weights: Mapping[Name, float]

    def __init__(
        self,
        parameters: npt.ArrayLike,
        updates: Mapping[Name, npt.ArrayLike],
        weights: Mapping[Name, float],
    ) -> None:
        if not isinstance(updates, Mapping) or not isinstance(weights, Mapping):
            raise InputError(
                f"updates is a {type(updates).__name__} and weights a {type(weights).__name__}; "
                "two dictionaries by player are needed.",
                code="rounds-weights",
            )
        model = _numbers(parameters, "parameters")
        names = checked_players(updates)
        changes = {name: _numbers(updates[name], f"the update of {name!r}") for name in names}
        for name, change in changes.items():
            if change.shape != model.shape:
                raise MismatchError(
                    f"the update of {name!r} has shape {change.shape}, the parameters "
                    f"{model.shape}. Give both the same parameters in the same order.",
                    code="rounds-shape",
                )
        if set(weights) != set(names):
            odd = min(set(weights) ^ set(names), key=text_of)
            raise MismatchError(
                f"{odd!r} has {'a weight and no update' if odd in weights else 'no weight'}. Give "
                "every player of the round both.",
                code="rounds-weights",
            )
        sizes = {
            name: real(weights[name], f"the weight of {name!r}", "rounds-weights") for name in names
        }
        for name, size in sizes.items():
            if size <= 0.0:
                raise InputError(
                    f"the weight of {name!r} is {size:g}; above 0 is needed. Leave players "
                    "without records out of the round.",
                    code="rounds-weights",
                )
        object.__setattr__(self, "parameters", model)
        object.__setattr__(self, "updates", changes)
        object.__setattr__(self, "weights", sizes)

    def __reduce__(self) -> tuple[type[TrainingRound[Any]], tuple[Any, ...]]:
        # Copies are made by the constructor, which makes their arrays read-only too.
        return TrainingRound, (self.parameters, self.updates, self.weights)

    def step(self, coalition: frozenset[Name]) -> Array:
        r"""What the updates of some players add to the model, averaged by weight.

        .. math:: \Delta_S = \sum_{i \in S} w_i \Delta_i / \sum_{i \in S} w_i

        Parameters
        ----------
        coalition
            Players; those who sat the round out do not count.

        Returns
        -------
        numpy.ndarray
            Of the shape of the parameters, zero when nobody is left.

        Examples
        --------
        >>> one = TrainingRound([0.0], {"north": [1.0], "south": [5.0]}, {"north": 3, "south": 1})
        >>> one.step(frozenset({"north", "south"}))
        array([2.])
        """
        # The order of a set differs from run to run, and with it the last bit of a sum.
        present = sorted((name for name in self.updates if name in coalition), key=text_of)
        total = np.zeros_like(self.parameters)
        largest = max((self.weights[name] for name in present), default=1.0)
        shares = [self.weights[name] / largest for name in present]
        mass = math.fsum(shares)
        for name, share in zip(present, shares, strict=True):
            total += share / mass * self.updates[name]
        return total

    def __repr__(self) -> str:
        return f"TrainingRound({len(self.updates)} players, {self.parameters.size} parameters)"


def checked_rounds(rounds: Sequence[TrainingRound[Name]]) -> list[TrainingRound[Name]]:
    """Return the rounds, at least one, all of one model."""
    history = list(rounds) if isinstance(rounds, Sequence) else []
    if not history or not all(isinstance(step, TrainingRound) for step in history):
        raise InputError(
            f"rounds is a {type(rounds).__name__}; a list of at least one TrainingRound, and of "
            "nothing else, is needed.",
            code="rounds-empty",
        )
    shape = history[0].parameters.shape
    for k, step in enumerate(history):
        if step.parameters.shape != shape:
            raise MismatchError(
                f"round {k} (from 0) has parameters of shape {step.parameters.shape}, round 0 of "
                f"{shape}. Give the rounds of one training.",
                code="rounds-shape",
            )
    return history


def players_of(history: Sequence[TrainingRound[Name]]) -> tuple[Name, ...]:
    """Players of any round, in the order they first appear."""
    return tuple(dict.fromkeys(name for step in history for name in step.updates))


def round_game(step: TrainingRound[Name], utility: ModelUtility) -> Game[Name]:
    """The game of one round: what the models that subsets of its players make are worth."""
    checked_callable(utility)

    def worth(coalition: frozenset[Name]) -> float:
        model = step.parameters.copy()
        model += step.step(coalition)
        return utility(model)

    return Game(tuple(step.updates), worth)


def _numbers(values: npt.ArrayLike, name: str) -> Array:
    try:
        raw: npt.NDArray[Any] = np.asarray(values)
    except ValueError:
        raw = np.empty(0, dtype=object)
    if raw.dtype.kind not in "buif" or raw.size == 0:
        raise InputError(
            f"{name} of dtype {raw.dtype} and shape {raw.shape} is not an array of numbers. Give "
            "all parameters as one array.",
            code="rounds-parameters",
        )
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite: see below
        array = raw.astype(np.float64)
    # Written so that NaN fails too.
    wrong = ~(np.abs(array) <= LARGEST_COORDINATE)
    if wrong.any():
        raise InputError(
            f"{name} holds {int(wrong.sum())} value(s) that are NaN, infinite or above "
            f"{LARGEST_COORDINATE:g}. Leave out rounds that diverged.",
            code="rounds-parameters",
        )
    array.setflags(write=False)
    return array
