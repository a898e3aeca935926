"""FedWaD: a distance by walking a measure towards the geodesic between two holders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.disclosure import Disclosure
from ..federation.distances import DistanceTo, Interpolate
from ..federation.protocol import Protocol, Steps, ask, failure_error, required
from ..federation.question import Answerer
from ..measure import Embedding
from ..results import Distance
from ..transport import interpolate
from ..transport._check import as_order, interval, real, whole
from ..transport.geodesic import Interpolation
from ._sides import (
    CLOSE,
    Received,
    Reference,
    describe,
    moments_bound,
    reference_options,
    sides_of,
)
from ._walk import PATIENCE, Walk

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


def fedwad(
    a: str,
    b: str | None = None,
    *,
    own: Answerer | None = None,
    support: int | None = None,
    rounds: int = 20,
    tol: float = 1e-4,
    seed: int = 0,
    p: int = 2,
    t: float | Uniform | None = None,
    interpolation: Choice = "auto",
    distances: When = "every",
    reference: npt.ArrayLike | None = None,
    reference_mean: float = 0.0,
    reference_scale: float = 1.0,
    moments: bool = True,
    embedding: Embedding = "none",
) -> Protocol[Distance]:
    r"""Federated Wasserstein distance (FedWaD, Algorithm 1).

    Starting from a public reference :math:`\xi`, every round asks both holders for an
    interpolating measure between their records and :math:`\xi`, and replaces :math:`\xi` by an
    interpolating measure of the two. By the triangle inequality

    .. math:: W_p(\mu, \nu) \le W_p(\mu, \xi) + W_p(\xi, \nu)

    with equality when :math:`\xi` lies on the geodesic between the holders.

    Parameters
    ----------
    a, b
        Holders. With ``own`` the second side is the coordinator's own measure.
    own
        ``Own(measure)``, instead of ``b``.
    support
        Atoms S of the reference; ``None``: as many as either side has, where both have equally
        many records of one weight and 1000 at most, else 100. A round sends some (n + m + 4 S) d
        numbers with exact interpolation, 4 S d with barycentric.
    rounds
        Most rounds.
    tol
        Stop when the upper bound fell by less than this share over five rounds, or the bounds are
        this close. Needs ``distances="every"``.
    seed
        Seed of the reference and of the random parameters.
    p
        1 or 2.
    t
        Interpolation parameter. ``None`` draws a new one for each fit, often near 0 and 1;
        ``"uniform"`` draws each from 0 to 1 alike, as published; a number between 0 and 1 is
        that of every fit, which usually settles off the geodesic and overestimates. A holder
        that is asked with t sends its records moved by the share t of their way to the
        reference: near 0 it sends them nearly as they are, and that is where small errors come
        from (docs/results/frontier.md).
    interpolation
        Of what holders send. ``"exact"``: n + S - 1 atoms, a point of the geodesic whatever the
        sizes and weights. ``"barycentric"``, as published: S atoms, which are off the geodesic
        where they merge records. ``"auto"``: barycentric where both sides and the reference
        have equally many atoms of one weight, for it is exact there, else exact.
    distances
        When holders tell their distance to the reference: ``"every"`` round, only after the
        ``"last"``, or ``"never"``. Less often means weaker bounds.
    reference
        Atoms (S, d) to start from, instead of a draw of ``support`` atoms.
    reference_mean, reference_scale
        Mean and standard deviation of the drawn reference, in units of the features.
    moments
        Ask both sides for mean and covariance too, for the Gelbrich lower bound (p = 2). A side
        that refuses only weakens the bound.
    embedding
        Label coordinates added to the records.

    Returns
    -------
    Protocol[Distance]
        ``value`` is the certified ``upper`` bound: the best triangle sum, over the reference or
        over both interpolants. ``lower`` is the best bound from what was exchanged. ``converged``
        says that the two are within 2 % of one another, not that the walk has settled. Discloses
        records: with exact interpolation, or as many atoms as records, one round gives them all
        back, with fewer several rounds give most.

    Raises
    ------
    InputError
        Options out of range.

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
    >>> from silot import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 2))
    >>> fed = LocalFederation({"a": x, "b": x + [3.0, 4.0]})
    >>> result = fed.run(fedwad("a", "b", support=50, rounds=20, seed=0))
    >>> abs(result.value - 5.0) < 0.01
    True
    """
    rounds = whole(rounds, "rounds", "option-rounds")
    if real(tol, "tol", "option-tol") < 0:
        raise InputError(f"tol is {tol!r}; zero or more is needed.", code="option-tol")
    if not isinstance(distances, str) or distances not in ("every", "last", "never"):
        raise InputError(
            f"distances is {distances!r}; give 'every', 'last' or 'never'.",
            code="option-distances",
        )
    if not isinstance(interpolation, str) or interpolation not in get_args(Choice):
        raise InputError(
            f"interpolation is {interpolation!r}; give one of {', '.join(get_args(Choice))}.",
            code="option-interpolation",
        )
    plan = _Plan(
        sides=sides_of(a, b, own),
        own=own,
        rounds=rounds,
        tol=float(tol),
        p=as_order(p),
        t=_checked(t),
        interpolation=interpolation,
        distances=distances,
        reference=reference_options(reference, support, reference_mean, reference_scale, seed),
        moments=moments and p == 2,
        embedding=embedding,
    )
    return Protocol(
        "fedwad",
        tuple(side for side in (a, b) if side is not None),
        Disclosure.RECORD,
        plan.start,
        {
            "support": plan.reference.support,
            "rounds": rounds,
            "tol": plan.tol,
            "seed": plan.reference.seed,
            "p": plan.p,
            "t": plan.t,
            "interpolation": interpolation,
            "distances": distances,
            "embedding": embedding,
        },
        expected_rounds=rounds + 2 + plan.moments,
    )


@dataclass(frozen=True)
class _Plan:
    """Checked options of one protocol."""

    sides: tuple[str, str]
    own: Answerer | None
    rounds: int
    tol: float
    p: int
    t: float | Uniform | None
    interpolation: Choice
    distances: When
    reference: Reference
    moments: bool
    embedding: Embedding

    def start(self) -> Steps[Distance]:
        described = yield from describe(self.sides, self.embedding, self.own)
        largest = max(described.records.values())
        few = largest if described.even and largest <= _MOST_ATOMS else _FEW_ATOMS
        reference = replace(self.reference, support=self.reference.support or few)
        state = Walk(*reference.build(described))
        # Then barycentric interpolants are exact.
        matched = described.even and len(state.weights) == largest
        form = self._form(matched)
        parameters = self._parameters()
        if self.moments:
            state.bounds.raise_lower(
                (yield from moments_bound(self.sides, self.embedding, self.own))
            )
        settled = False
        for k in range(self.rounds):
            yield from self._round(state, parameters, k, described.dimension, form)
            if self.distances == "every" and state.has_settled(self.tol):
                settled = True
                break
        if self.distances != "never":
            yield from self._measure(state)
        return self._result(state, settled, form, matched)

    def _form(self, matched: bool) -> Interpolation:
        if self.interpolation != "auto":
            return self.interpolation
        return "barycentric" if matched else "exact"

    def _round(
        self, state: Walk, parameters: Iterator[float], k: int, dimension: int, form: Interpolation
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
        answers = yield from ask(dict.fromkeys(self.sides, question), self.own)
        first, second = (Received.of(required(answers, side), dimension) for side in self.sides)
        if _precedes(second, first):
            # The walk must not depend on which holder is named first.
            first, second = second, first
        merged = interpolate(
            first.atoms,
            second.atoms,
            first.weights,
            second.weights,
            t=next(parameters),
            p=self.p,
        )
        state.learn(first, second, t, merged, k)
        state.move(merged, self.p)

    def _measure(self, state: Walk) -> Steps[None]:
        """Distances of both sides to the last iterate."""
        question = DistanceTo(
            reference=state.atoms,
            reference_weights=state.weights,
            p=self.p,
            embedding=self.embedding,
        )
        answers = yield from ask(dict.fromkeys(self.sides, question), self.own)
        found: list[float] = []
        for side in self.sides:
            answer = answers.get(side, Failure("holder-silent"))
            if isinstance(answer, Answer):
                found.append(answer.number("distance"))
            elif answer.kind == "refused":
                state.refused = failure_error(side, answer)
            else:
                raise failure_error(side, answer)
        if len(found) == 2:
            state.learn_sum(found[0] + found[1])
            state.note(len(state.history))

    def _parameters(self) -> Iterator[float]:
        """Interpolation parameters, one for each fit."""
        # A second stream, so that they do not depend on how the reference was made.
        rng = np.random.default_rng([self.reference.seed, 1])
        place = rng.random()
        while True:
            if isinstance(self.t, float):
                yield self.t
            elif self.t == "uniform":
                yield float(rng.uniform(_LEAST_T, 1.0))
            else:
                place = (place + _GOLDEN) % 1.0
                yield float(np.clip(np.sin(0.5 * np.pi * place) ** 2, *_T_RANGE))

    def _result(self, state: Walk, settled: bool, form: Interpolation, matched: bool) -> Distance:
        told = np.isfinite(state.estimate)
        estimate = state.bounds.upper if told else state.estimate_untold(self.p)
        value, lower, upper = state.bounds.settle(estimate)
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="fedwad",
            status=self._status(state, settled, form, matched),
            converged=state.bounds.close,
            holders=self.sides,
            p=self.p,
            seed=self.reference.seed,
            history=tuple(state.history),
        )

    def _status(self, state: Walk, settled: bool, form: Interpolation, matched: bool) -> str:
        bounds = state.bounds
        if np.isinf(bounds.upper):
            why = f" ({state.refused.message})" if state.refused is not None else ""
            return (
                f"estimate: no distances were told{why}, so there is no upper bound. Use "
                "distances='last' or 'every'"
            )
        if bounds.close:
            text = f"converged: the bounds are within {CLOSE:.0%} of one another"
        elif settled:
            text = (
                f"settled: the upper bound fell by less than {self.tol:g} in {PATIENCE} rounds, "
                "perhaps above W"
            )
        else:
            text = f"stopped: {self.rounds} rounds done, raise rounds to tighten the bounds"
        if not bounds.close and isinstance(self.t, float):
            text += "; a random t comes closer"
        if not bounds.close and form == "barycentric" and not matched:
            text += "; interpolation='exact' comes closer, for sizes and weights differ"
        if not state.optimal and not bounds.close:
            text += "; a plan was not proven optimal, rescale the features"
        return text


def _checked(t: float | Uniform | None) -> float | Uniform | None:
    if t is None or (isinstance(t, str) and t == "uniform"):
        return t
    if isinstance(t, str):
        raise InputError(
            f"t is {t[:40]!r}; a number between 0 and 1, or 'uniform', is needed.", code="option-t"
        )
    return interval(t, "t", "option-t")


def _precedes(first: Received, second: Received) -> bool:
    """An order of interpolants that depends on their content only."""
    keys = [
        (len(k.atoms), (k.weights @ k.atoms).tolist(), k.atoms.tobytes(), k.weights.tobytes())
        for k in (first, second)
    ]
    return keys[0] < keys[1]
