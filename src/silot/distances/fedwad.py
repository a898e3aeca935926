"""FedWaD: a distance by walking a measure towards the geodesic between two holders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from silot_transport import Interpolant, exact_plan, interpolate
from silot_transport.geodesic import Interpolation

from ..errors import HolderError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import Steps, ask, failure_error
from ..options import count, none_or, number, option, share, word, word_or
from .methods import Sides, WithReference, build_pair
from .questions import DistanceTo, Interpolate
from .result import Distance
from .shared_options import rounds_option
from .sides import CLOSE, Bounds, Received, bound_by_distances, bound_by_means

When = Literal["every", "last", "never"]
Uniform = Literal["uniform"]
Choice = Literal["auto", "exact", "barycentric"]

# Random parameters follow the arcsine law: near 0 and near 1 often, where the triangle sum
# learns most, because interpolants near 0 are nearly the records. Clipping protects nothing: it
# keeps plans to a reference that is no copy of either side. Steps of the golden ratio from a
# random start spread parameters evenly, so that a few rounds are enough to see both ends.
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_T_RANGE = (0.002, 0.998)
# Zero itself is no parameter.
_LEAST_T = 1e-9
# Up to so many records a reference is as large as two equal sides: beyond, and for other sides,
# exact interpolants of fewer atoms come as close at less cost.
_MOST_ATOMS = 1000
_FEW_ATOMS = 100


class FedWaD(WithReference):
    r"""Federated Wasserstein distance (FedWaD, Algorithm 1).

    Starting from a public reference :math:`\xi`, every round asks both holders for an
    interpolating measure between their records and :math:`\xi`, and replaces :math:`\xi` by an
    interpolating measure of the two. By the triangle inequality

    .. math:: W_p(\mu, \nu) \le W_p(\mu, \xi) + W_p(\xi, \nu)

    with equality when :math:`\xi` lies on the geodesic between the holders.

    Returns
    -------
    Protocol[Distance]
        ``value`` is the certified ``upper`` bound: the best triangle sum, over the reference or
        over both interpolants. ``lower`` is the best bound from what was exchanged. ``converged``
        says that the two are within 2 % of one another, not that the walk has settled. Discloses
        records: with exact interpolation, or as many atoms as records, one round gives them all
        back, with fewer several rounds give most.

    Notes
    -----
    Rakotomamonjy, Nadjahi and Ralaivola, *Federated Wasserstein Distance*, 2024. Eq. 5 and 10
    are ``transport.interpolate``. More bounds are ours: with an interpolant :math:`\xi_\mu`
    displaced from :math:`\mu` by :math:`\delta_\mu`, W is between
    :math:`W(\xi_\mu, \xi_\nu) \pm (\delta_\mu + \delta_\nu)`, and at least
    :math:`|W(\mu, \xi) - W(\xi, \nu)|`; and the difference of means, which interpolants give
    away.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 2))
    >>> fed = LocalFederation({"a": x, "b": x + [3.0, 4.0]})
    >>> result = fed.run(FedWaD(support=50, rounds=20, seed=0).between("a", "b"))
    >>> abs(result.value - 5.0) < 0.01
    True
    """

    name = "fedwad"
    sends = "an interpolating measure in each round, distances to the reference, moments"
    needs = "a reference of S atoms; about 20 rounds; S near the number of records"
    guarantees = (
        "upper bound (triangle inequality) and lower bound, both certified; the "
        "upper bound converges to W from above or to a slightly larger number"
    )

    support: int | None = option(
        "Atoms S of the reference. ``None``: as many as each side has records, if both have "
        "equally many of equal weight and at most 1000; otherwise 100. A round sends about (n + m "
        "+ 4 S) d numbers with exact interpolation, 4 S d with barycentric.",
        none_or(count()),
        default=None,
    )
    rounds: int = rounds_option()
    tol: float = option(
        "Stop when the upper bound fell by less than this share over five rounds, or the bounds "
        'are this close. Needs ``distances="every"``.',
        number(least=0),
        default=1e-4,
    )
    t: float | Uniform | None = option(
        "Interpolation parameter. ``None`` draws a new one for each fit, often near "
        '0 and 1; ``"uniform"`` draws each uniformly from 0 to 1, as published; a '
        "number between 0 and 1 is used for every fit, which usually converges to a point off the "
        "geodesic and overestimates. A holder sends its records moved by the share t of their way "
        "to the reference: with t near 0 it sends them nearly as they are, and this is where small "
        "errors come from.",
        none_or(word_or("uniform", share())),
        default=None,
        brief="Interpolation parameter, 0 to 1, or 'uniform'.",
    )
    interpolation: Choice = option(
        'Form of the interpolating measures. ``"exact"``: n + S - 1 atoms, a point '
        'of the geodesic for all sizes and weights. ``"barycentric"``, as published: '
        'S atoms, which are off the geodesic where they merge records. ``"auto"``: '
        "barycentric if both sides and the reference have equally many atoms of "
        "equal weight, because it is exact then; otherwise exact.",
        word(*get_args(Choice)),
        default="auto",
    )
    distances: When = option(
        "When holders send their distance to the reference: every round "
        '(``"every"``), after the last round only (``"last"``), or ``"never"``. '
        "Fewer distances mean weaker bounds.",
        word(*get_args(When)),
        default="every",
        flag=False,
    )

    @property
    def most_rounds(self) -> int:
        return self.rounds + 2 + self.asks_moments

    def steps(self, sides: Sides) -> Steps[Distance]:
        described = yield from sides.describe()
        largest = max(described.records.values())
        # A plan costs more than the square of its atoms: beyond 1000 they are not worth it.
        few = largest if described.even and largest <= _MOST_ATOMS else _FEW_ATOMS
        reference = replace(self.public, support=self.public.support or few)
        state = Geodesic(*reference.build(described))
        # Then barycentric interpolants are exact.
        matched = described.even and len(state.weights) == largest
        form = self._choose_form(matched)
        parameters = self._draw_parameters()
        # Moments are asked for once, before the walk: their bound does not depend on any iterate,
        # and every later round is measured against it.
        if self.asks_moments:
            state.bounds.raise_lower((yield from sides.bound_by_moments()))
        settled = False
        # Each round moves the reference towards the geodesic between the two sides. On the geodesic
        # the triangle inequality is an equality, so that the sum of both distances to it is W
        # itself.
        for k in range(self.rounds):
            yield from self._run_round(sides, state, parameters, k, described.dimension, form)
            if self.distances == "every" and state.has_settled(self.tol):
                settled = True
                break
        # The last move has not been judged yet: its distances may cut the upper bound once more.
        if self.distances != "never":
            yield from self._request_distances(sides, state)
        return self._build_result(sides, state, settled, form, matched)

    def _choose_form(self, matched: bool) -> Interpolation:
        if self.interpolation != "auto":
            return self.interpolation
        return "barycentric" if matched else "exact"

    def _run_round(
        self,
        sides: Sides,
        state: Geodesic,
        parameters: Iterator[float],
        k: int,
        dimension: int,
        form: Interpolation,
    ) -> Steps[None]:
        t = next(parameters)
        question = Interpolate(
            reference=state.atoms,
            reference_weights=state.weights,
            t=t,
            p=self.p,
            interpolation=form,
            on_reference=True,
            scalars=self.distances == "every",
            embedding=self.embedding,
        )
        answers = yield from sides.ask(question)
        first, second = (Received.of(answer, dimension) for answer in answers)
        if _is_before(second, first):
            # The walk must not depend on which holder is named first.
            first, second = second, first
        # The next reference is an interpolant of the two interpolants: exact interpolation of exact
        # points keeps it on a geodesic between them.
        merged = interpolate(
            first.atoms, second.atoms, first.weights, second.weights, t=next(parameters), p=self.p
        )
        state.learn(first, second, t, merged, k)
        state.move(merged, self.p)

    def _request_distances(self, sides: Sides, state: Geodesic) -> Steps[None]:
        """Request the distances of both sides to the last iterate."""
        question = DistanceTo(
            reference=state.atoms,
            reference_weights=state.weights,
            p=self.p,
            embedding=self.embedding,
        )
        answers = yield from ask(dict.fromkeys(sides.names, question), sides.own)
        distances: list[float] = []
        for side in sides.names:
            answer = answers.get(side, Failure("holder-silent"))
            if isinstance(answer, Answer):
                distances.append(answer.number("distance"))
            elif answer.kind == "refused":
                state.refused = failure_error(side, answer)
            else:
                raise failure_error(side, answer)
        # The triangle inequality needs both distances; one alone bounds nothing from above.
        if len(distances) == 2:
            state.learn_sum(distances[0] + distances[1])
            state.note(len(state.history))

    def _draw_parameters(self) -> Iterator[float]:
        """Draw the interpolation parameters, one for each fit."""
        # A second stream of the seed, so that they do not depend on the draw of the reference.
        rng = np.random.default_rng([self.seed, 1])
        place = rng.random()
        while True:
            if isinstance(self.t, float):
                yield self.t
            elif self.t == "uniform":
                yield float(rng.uniform(_LEAST_T, 1.0))
            else:
                place = (place + _GOLDEN) % 1.0
                # The quantile function of the arcsine law, at an evenly spread place.
                yield float(np.clip(np.sin(0.5 * np.pi * place) ** 2, *_T_RANGE))

    def _build_result(
        self, sides: Sides, state: Geodesic, settled: bool, form: Interpolation, matched: bool
    ) -> Distance:
        # The upper bound is the least triangle sum so far. Without any, the interpolants of the
        # last round stand for the distances that holders kept.
        has_sum = np.isfinite(state.estimate)
        estimate = state.bounds.upper if has_sum else state.estimate_sum(self.p)
        value, lower, upper = state.bounds.settle(estimate)
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="fedwad",
            status=self._describe_status(state, settled, form, matched),
            converged=state.bounds.close,
            holders=sides.names,
            p=self.p,
            seed=self.seed,
            history=tuple(state.history),
        )

    def _describe_status(
        self, state: Geodesic, settled: bool, form: Interpolation, matched: bool
    ) -> str:
        bounds = state.bounds
        if np.isinf(bounds.upper):
            why = f" ({state.refused.message})" if state.refused is not None else ""
            return (
                f"estimate: no distances were sent{why}, so there is no upper bound. Use "
                "distances='last' or 'every'"
            )
        if bounds.close:
            return f"converged: the bounds are within {CLOSE:.0%} of one another"
        if settled:
            text = (
                f"settled: the upper bound fell by less than {self.tol:g} in {PATIENCE} rounds, "
                "and may still be above W"
            )
        else:
            text = f"stopped: {self.rounds} rounds done, raise rounds to tighten the bounds"
        if isinstance(self.t, float):
            text += "; a random t comes closer"
        if form == "barycentric" and not matched:
            text += "; interpolation='exact' comes closer, because sizes and weights differ"
        if not state.optimal:
            text += "; a plan was not proven optimal, rescale the features"
        return text


fedwad = build_pair(FedWaD)


def _is_before(first: Received, second: Received) -> bool:
    """Compare two interpolants in an order that depends on their content alone."""
    # Cheap comparisons first: sizes and means differ for all but copies, whose bytes then decide.
    sizes = [len(k.atoms) for k in (first, second)]
    if sizes[0] != sizes[1]:
        return sizes[0] < sizes[1]
    means = [(k.weights @ k.atoms).tolist() for k in (first, second)]
    if means[0] != means[1]:
        return bool(means[0] < means[1])
    contents = [(k.atoms.tobytes(), k.weights.tobytes()) for k in (first, second)]
    return contents[0] < contents[1]


# Rounds without progress after which the method has settled.
# Progress varies with the t that is drawn: one round without it says little.
PATIENCE = 5


@dataclass
class Geodesic:
    """The walking measure of FedWaD between rounds, with the bounds of the distance so far."""

    atoms: Array
    weights: Array
    bounds: Bounds = field(default_factory=Bounds)
    estimate: float = np.inf
    history: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    optimal: bool = True
    most: int = 0
    refused: HolderError | None = None
    last: tuple[Received, Received, float, Array, Array] | None = None

    def learn(
        self, first: Received, second: Received, t: float, between: Interpolant, k: int
    ) -> None:
        """Tighten the bounds by a round's interpolants and the one ``between`` them."""
        self.optimal &= first.optimal and second.optimal and between.optimal
        self.last = (first, second, t, self.atoms, self.weights)
        # Interpolation is linear in the mean, so that means of records follow from those of
        # interpolants, whatever the plans were (``Received.recover_mean``).
        reference_mean = self.weights @ self.atoms
        self.bounds.raise_lower(bound_by_means(first, second, t, reference_mean))
        if first.displacement is not None and second.displacement is not None:
            moved = first.displacement + second.displacement + first.rounding + second.rounding
            # The triangle inequality the other way: the records are at least as far apart as their
            # interpolants, less what both moved.
            self.bounds.raise_lower(between.lower - moved)
            # From the records to their interpolants and across, as the triangle inequality has it.
            self.learn_sum(between.distance + moved)
        if first.distance is not None and second.distance is not None:
            self.bounds.raise_lower(bound_by_distances(first, second))
            self.learn_sum(first.distance + second.distance)
        self.note(k)

    def move(self, between: Interpolant, p: int) -> None:
        """Walk on from an interpolant, with no more atoms than the first one has.

        Where records are equal, plans split them in ways that add atoms every round: the weights
        of the measure so far are then kept, and its atoms go to the means of what they meet.
        """
        atoms, weights = between.atoms, between.weights
        # Fixed by the first move: from then on the measure may not grow, for a round costs more
        # than the square of its atoms.
        self.most = self.most or max(len(weights), len(self.weights))
        if len(weights) > self.most:
            plan = exact_plan(self.atoms, atoms, self.weights, weights, p=p).plan
            # The barycentric image of the old atoms: as many, of the same weights.
            mass = np.asarray(plan.sum(axis=1)).reshape(-1, 1)
            atoms, weights = np.asarray(plan @ atoms) / mass, self.weights
        self.atoms, self.weights = atoms, weights

    def learn_sum(self, total: float) -> None:
        """Cut the upper bound by a sum of distances over a third measure."""
        self.bounds.cut_upper(total)
        self.estimate = min(self.estimate, total)

    def estimate_sum(self, p: int) -> float:
        """Estimate the triangle sum from interpolants, when no holder sent a distance."""
        if self.last is None:
            return np.inf
        first, second, t, atoms, weights = self.last
        # On a geodesic the interpolant at t is (1 - t) W(records, reference) from the reference.
        parts = [
            exact_plan(side.atoms, atoms, side.weights, weights, p=p).distance / (1.0 - t)
            for side in (first, second)
        ]
        return sum(parts)

    def note(self, k: int) -> None:
        """Add the bounds after a round to the history."""
        self.history.append(
            {"round": float(k), "lower": self.bounds.lower, "upper": self.bounds.upper}
        )

    def has_settled(self, tol: float) -> bool:
        """Check whether more rounds would change little: bounds are close, or progress is slow."""
        upper = self.bounds.upper
        # A tolerance of 0 asks for all rounds, and without an upper bound there is no progress to
        # see.
        if tol == 0 or np.isinf(upper):
            return False
        if upper - self.bounds.lower <= tol * upper:
            return True
        # So early there is no round to compare with.
        if len(self.history) <= PATIENCE:
            return False
        return self.history[-1 - PATIENCE]["upper"] - upper <= tol * upper
