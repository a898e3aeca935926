"""Values of the players of a federated training, from the updates they sent: no retraining."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from silot_transport._check import LARGEST_COORDINATE, Array, integer, real

from ...errors import InputError, MismatchError
from .shapley import (
    Game,
    Name,
    PlayerValues,
    Running,
    check_callable,
    check_not_negative,
    check_players,
    check_seed,
    check_size,
    compute_exact_values,
    evaluate_gains,
    write_name,
)

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
        model = _check_numbers(parameters, "parameters")
        names = check_players(updates)
        changes = {name: _check_numbers(updates[name], f"the update of {name!r}") for name in names}
        for name, change in changes.items():
            if change.shape != model.shape:
                raise MismatchError(
                    f"the update of {name!r} has shape {change.shape}, the parameters "
                    f"{model.shape}. Give both the same parameters in the same order.",
                    code="rounds-shape",
                )
        if set(weights) != set(names):
            odd = min(set(weights) ^ set(names), key=write_name)
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
        r"""Compute what the updates of a coalition add to the model, averaged by weight.

        .. math:: \Delta_S = \sum_{i \in S} w_i \Delta_i / \sum_{i \in S} w_i

        Parameters
        ----------
        coalition
            Players; those who sat the round out do not count.

        Returns
        -------
        numpy.ndarray
            Of the shape of the parameters, zero for a coalition of nobody.

        Examples
        --------
        >>> one = TrainingRound([0.0], {"north": [1.0], "south": [5.0]}, {"north": 3, "south": 1})
        >>> one.step(frozenset({"north", "south"}))
        array([2.])
        """
        # The order of a set differs from run to run, and with it the last bit of a sum.
        present = sorted((name for name in self.updates if name in coalition), key=write_name)
        total = np.zeros_like(self.parameters)
        largest = max((self.weights[name] for name in present), default=1.0)
        shares = [self.weights[name] / largest for name in present]
        mass = math.fsum(shares)
        for name, share in zip(present, shares, strict=True):
            total += share / mass * self.updates[name]
        return total

    def __repr__(self) -> str:
        return f"TrainingRound({len(self.updates)} players, {self.parameters.size} parameters)"


def check_rounds(rounds: Sequence[TrainingRound[Name]]) -> list[TrainingRound[Name]]:
    """Return the rounds, at least one, or raise where they are not of one model."""
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


def list_players(history: Sequence[TrainingRound[Name]]) -> tuple[Name, ...]:
    """List the players of all rounds, in the order they first appear."""
    return tuple(dict.fromkeys(name for step in history for name in step.updates))


def build_game(step: TrainingRound[Name], utility: ModelUtility) -> Game[Name]:
    """Build the game of one round: coalitions are worth what their models are worth."""
    check_callable(utility)

    def worth(coalition: frozenset[Name]) -> float:
        model = step.parameters.copy()
        model += step.step(coalition)
        return utility(model)

    return Game(tuple(step.updates), worth)


def _check_numbers(values: npt.ArrayLike, name: str) -> Array:
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
    # Written so that NaN fails too: no comparison with it is true.
    wrong = ~(np.abs(array) <= LARGEST_COORDINATE)
    if wrong.any():
        raise InputError(
            f"{name} holds {int(wrong.sum())} value(s) that are NaN, infinite or above "
            f"{LARGEST_COORDINATE:g}. Leave out rounds that diverged.",
            code="rounds-parameters",
        )
    array.setflags(write=False)
    return array


# Running means are compared over the cycles that make this many permutations.
_WINDOW = 30


def multi_rounds(
    rounds: Sequence[TrainingRound[Name]], utility: ModelUtility, *, decay: float = 1.0
) -> PlayerValues:
    r"""Sum the Shapley values of every round: the MR baseline.

    .. math:: \phi_i = \sum_t \lambda^t\, \phi_i\bigl(v_t\bigr), \qquad
              v_t(S) = u\bigl(M^t + \Delta^t_S\bigr)

    where :math:`M^t` is the global model before round t = 0, 1, ..., :math:`\Delta^t_S` the
    average of the updates of S by weight, and :math:`\lambda` the ``decay``. A player who sat
    a round out gets 0 for it. Without decay, and where the global models followed from the
    updates, the values sum to what the training gained.

    Parameters
    ----------
    rounds
        The training, in order; at most 20 players a round.
    utility
        Gives the worth of a model, as an array of the shape of ``parameters``; called 2^n times
        for a round of n players.
    decay
        Above 0 and at most 1. Below 1, later rounds count less: what they start from is the
        work of all players already.

    Returns
    -------
    PlayerValues
        With standard errors 0; players in the order they first appear.

    Raises
    ------
    InputError
        No rounds (``rounds-empty``), more than 20 players in one (``game-size``), a utility
        that is not a finite number (``game-utility``), a ``decay`` out of its range
        (``option-decay``).
    MismatchError
        Rounds of models of different shapes (``rounds-shape``).

    References
    ----------
    T. Song, Y. Tong and S. Wei, "Profit allocation for federated learning" (2019). The decay is
    that of S. Wei, Y. Tong, Z. Zhou and T. Song, "Efficient and fair data valuation for
    horizontal federated learning" (2020).

    Examples
    --------
    >>> one = TrainingRound([0.0], {"north": [1.0], "south": [3.0]}, {"north": 1, "south": 1})
    >>> multi_rounds([one], lambda model: float(model[0])).values
    (0.0, 2.0)
    """
    history = check_rounds(rounds)
    factor = real(decay, "decay", "option-decay")
    if not 0.0 < factor <= 1.0:
        raise InputError(f"decay is {decay!r}; 0 < decay <= 1 is needed.", code="option-decay")
    games = [build_game(step, utility) for step in history]
    for k, game in enumerate(games):
        check_size(game.size, f"round {k} (from 0) has", "Use gtg_shapley.")
    totals: dict[Hashable, float] = dict.fromkeys(list_players(history), 0.0)
    for k, game in enumerate(games):
        for name, value in zip(game.order, compute_exact_values(game).tolist(), strict=True):
            totals[name] += factor**k * value
    evaluations = sum(game.evaluations for game in games)
    status = f"all {evaluations} models of {len(games)} round(s) were evaluated"
    return PlayerValues.without_error(totals, totals.values(), "multi_rounds", status, evaluations)


def one_round(rounds: Sequence[TrainingRound[Name]], utility: ModelUtility) -> PlayerValues:
    r"""Compute Shapley values of the models that coalitions lead to: the OR baseline.

    .. math:: \phi_i = \phi_i(v), \qquad v(S) = u\Bigl(M^0 + \sum_t \Delta^t_S\Bigr)

    where :math:`M^0` is the first global model and :math:`\Delta^t_S` the average of the updates
    of S in round t by weight. The updates were computed from the model of all players, so
    these are not the models that S would have trained.

    Parameters
    ----------
    rounds, utility
        As ``multi_rounds``, but at most 20 players in all, and 2^n calls for n players.

    Returns
    -------
    PlayerValues
        As ``multi_rounds``, which raises the same errors.

    References
    ----------
    T. Song, Y. Tong and S. Wei, "Profit allocation for federated learning" (2019).

    Examples
    --------
    >>> one = TrainingRound([0.0], {"north": [1.0], "south": [3.0]}, {"north": 1, "south": 1})
    >>> two = TrainingRound([2.0], {"south": [4.0]}, {"south": 1})
    >>> one_round([one, two], lambda model: float(model[0])).values
    (0.0, 6.0)
    """
    history = check_rounds(rounds)
    check_callable(utility)

    def worth(coalition: frozenset[Name]) -> float:
        model = history[0].parameters.copy()
        for step in history:
            model += step.step(coalition)
        return utility(model)

    game = Game(list_players(history), worth)
    check_size(game.size, "the rounds have", "Use gtg_shapley.")
    values = compute_exact_values(game)
    status = f"all {game.evaluations} models were evaluated"
    return game.without_error(values, "one_round", status)


def gtg_shapley(
    rounds: Sequence[TrainingRound[Name]],
    utility: ModelUtility,
    *,
    tolerance: float = 0.05,
    truncation: float = 0.001,
    round_truncation: float = 0.01,
    max_permutations: int = 1000,
    seed: int = 0,
) -> PlayerValues:
    r"""Estimate the Shapley values of every round, guided and truncated: GTG-Shapley.

    .. math:: \phi_i = \sum_t \phi_i(v_t), \qquad v_t(S) = u\bigl(M^t + \Delta^t_S\bigr)

    as ``multi_rounds``, with three savings. A round that moves the utility by less than
    ``round_truncation`` counts nothing and costs two evaluations. In the others every player
    leads a sampled order in turn: a cycle is one order a leader. Within an order, players who
    join once the model is worth as much as that of all, to less than ``truncation``, add
    nothing and are not evaluated.

    Parameters
    ----------
    rounds
        The training, in order; any number of players.
    utility
        Gives the worth of a model, as an array of the shape of ``parameters``.
    tolerance
        A round has converged when the running means after each of its last cycles, as many as
        make 30 orders, differ from the present ones by at most this:
        :math:`\sum_i |\phi_i^k - \phi_i^{k-d}| \le \tau \sum_i |\phi_i^k|`.
    truncation
        Within a round, in units of the utility; 0 evaluates every order to its end.
    round_truncation
        Between rounds, in units of the utility; 0 samples every round.
    max_permutations
        Most orders sampled a round, rounded down to whole cycles; two cycles at the least.
    seed
        Seed of the sampling.

    Returns
    -------
    PlayerValues
        With players in the order they first appear. Standard errors are those of the cycles;
        they do not include what truncation left out. ``evaluations`` and ``permutations`` are
        summed over rounds.

    Raises
    ------
    InputError
        No rounds (``rounds-empty``), a utility that is not a finite number
        (``game-utility``), a negative ``tolerance``, ``truncation`` or ``round_truncation``
        (``option-tolerance``, ``option-truncation``), ``max_permutations`` below twice the
        number of players of a round (``option-permutations``), a seed that is not one
        (``option-seed``).
    MismatchError
        Rounds of models of different shapes (``rounds-shape``).

    References
    ----------
    Z. Liu, Y. Chen, H. Yu, Y. Liu and L. Cui, "GTG-Shapley: efficient and accurate participant
    contribution evaluation in federated learning" (2022). Two changes: the change of the means
    is divided by the sum of their sizes, not each by its own, which a player worth 0 has none
    of; and it is looked at after whole cycles only, where every player has led as often.

    Examples
    --------
    >>> one = TrainingRound([0.0], {"north": [1.0], "south": [3.0]}, {"north": 1, "south": 1})
    >>> found = gtg_shapley([one], lambda model: float(model[0]))
    >>> found.values, found.evaluations
    ((0.0, 2.0), 4)
    """
    history = check_rounds(rounds)
    tolerance = check_not_negative(tolerance, "tolerance", "option-tolerance")
    truncation = check_not_negative(truncation, "truncation", "option-truncation")
    between = check_not_negative(round_truncation, "round_truncation", "option-truncation")
    least = 2 * max(len(step.updates) for step in history)
    most = integer(max_permutations, "max_permutations", "option-permutations", least=least)
    seed = check_seed(seed, "seed", "option-seed")
    rng = np.random.default_rng(seed)
    totals: dict[Hashable, float] = dict.fromkeys(list_players(history), 0.0)
    variances: dict[Hashable, float] = dict.fromkeys(totals, 0.0)
    evaluations = permutations = skipped = truncated = unfinished = 0
    for step in history:
        game = build_game(step, utility)
        # A round that changes nothing has nothing to share out.
        if abs(game.value(game.everyone) - game.value(0)) < between:
            skipped += 1
        else:
            cycles, cut, converged = _sample_cycles(game, rng, tolerance, truncation, most)
            for k, name in enumerate(game.order):
                totals[name] += float(cycles.mean[k])
                # Orders of different rounds are drawn independently: variances add.
                variances[name] += float(cycles.errors[k]) ** 2
            permutations += cycles.count * game.size
            truncated += cut
            unfinished += not converged
        evaluations += game.evaluations
    status = _describe_cycles(len(history), skipped, unfinished, tolerance, most)
    if skipped or truncated:
        status += (
            f"; {skipped} round(s) and {truncated} of {permutations} permutations were truncated, "
            "which the standard errors do not include: lower round_truncation or truncation to "
            "see what they hide"
        )
    return PlayerValues(
        names=tuple(totals),
        values=tuple(totals.values()),
        standard_errors=tuple(math.sqrt(variance) for variance in variances.values()),
        method="gtg_shapley",
        status=status,
        converged=not unfinished,
        evaluations=evaluations,
        permutations=permutations,
        seed=seed,
    )


def _sample_cycles(
    game: Game[Any], rng: np.random.Generator, tolerance: float, truncation: float, most: int
) -> tuple[Running, int, bool]:
    """Sample cycles of orders led by each player; return means, truncated orders, convergence."""
    n = game.size
    # At least 30 orders, whatever the number of players.
    window = math.ceil(_WINDOW / n)
    running = Running(n)
    past: list[Array] = []
    truncated = 0
    while (running.count + 1) * n <= most:
        gains = np.zeros(n)
        for leader in range(n):
            # Every player leads once a cycle: later places may be truncated.
            others = np.delete(np.arange(n), leader)
            order = [leader, *rng.permutation(others).tolist()]
            added, cut = evaluate_gains(game, order, truncation)
            gains += added
            truncated += cut
        running.add(gains / n)
        past = [*past[-window:], running.mean]
        if running.count > window:
            change = max(float(np.abs(running.mean - mean).sum()) for mean in past)
            if change <= tolerance * float(np.abs(running.mean).sum()):
                return running, truncated, True
    return running, truncated, False


def _describe_cycles(
    rounds: int, skipped: int, unfinished: int, tolerance: float, most: int
) -> str:
    sampled = rounds - skipped
    if not unfinished:
        return f"converged: the means of {sampled} sampled round(s) moved by at most {tolerance:g}"
    return (
        f"stopped early: the means of {unfinished} of {sampled} sampled round(s) still moved by "
        f"more than {tolerance:g} within {most} permutations a round; raise max_permutations or "
        "tolerance"
    )
