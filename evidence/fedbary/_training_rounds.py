"""Values of the players of a federated training, from the updates they sent: no retraining."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from evidence.common import Array
from evidence.fedbary._games import Game, Name, PlayerValues, evaluate_gains, write_name
from silot.distances.worth.shapley import RunningMean

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
        model = _read_only(parameters)
        changes = {name: _read_only(change) for name, change in updates.items()}
        sizes = {name: float(weights[name]) for name in changes}
        if not all(change.shape == model.shape for change in changes.values()):
            raise ValueError("every update needs the shape of the parameters")
        if not sizes or not min(sizes.values()) > 0.0:
            raise ValueError("a round needs players, with weights above 0")
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


def list_players(rounds: Sequence[TrainingRound[Name]]) -> tuple[Name, ...]:
    """List the players of all rounds, in the order they first appear."""
    return tuple(dict.fromkeys(name for step in rounds for name in step.updates))


def build_game(step: TrainingRound[Name], utility: ModelUtility) -> Game[Name]:
    """Build the game of one round: coalitions are worth what their models are worth."""

    def worth(coalition: frozenset[Name]) -> float:
        model = step.parameters.copy()
        model += step.step(coalition)
        return utility(model)

    return Game(tuple(step.updates), worth)


def _read_only(values: npt.ArrayLike) -> Array:
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(
            "parameters and updates are finite numbers; leave out rounds that diverged"
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
    games = [build_game(step, utility) for step in rounds]
    totals: dict[Hashable, float] = dict.fromkeys(list_players(rounds), 0.0)
    for k, game in enumerate(games):
        for name, value in zip(game.order, game.exact_values().tolist(), strict=True):
            totals[name] += decay**k * value
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

    def worth(coalition: frozenset[Name]) -> float:
        model = rounds[0].parameters.copy()
        for step in rounds:
            model += step.step(coalition)
        return utility(model)

    game = Game(list_players(rounds), worth)
    values = game.exact_values()
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
    rng = np.random.default_rng(seed)
    totals: dict[Hashable, float] = dict.fromkeys(list_players(rounds), 0.0)
    variances: dict[Hashable, float] = dict.fromkeys(totals, 0.0)
    evaluations = permutations = skipped = truncated = unfinished = 0
    for step in rounds:
        game = build_game(step, utility)
        # A round that changes nothing has nothing to share out.
        if abs(game.value(game.everyone) - game.value(0)) < round_truncation:
            skipped += 1
        else:
            cycles, cut, converged = _sample_cycles(
                game, rng, tolerance, truncation, max_permutations
            )
            for k, name in enumerate(game.order):
                totals[name] += float(cycles.mean[k])
                # Orders of different rounds are drawn independently: variances add.
                variances[name] += float(cycles.errors[k]) ** 2
            permutations += cycles.count * game.size
            truncated += cut
            unfinished += not converged
        evaluations += game.evaluations
    status = _describe_cycles(len(rounds), skipped, unfinished, tolerance, max_permutations)
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
) -> tuple[RunningMean, int, bool]:
    """Sample cycles of orders led by each player; return means, truncated orders, convergence."""
    n = game.size
    # At least 30 orders, whatever the number of players.
    window = math.ceil(_WINDOW / n)
    running = RunningMean(n)
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
