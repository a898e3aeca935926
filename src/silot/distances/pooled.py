"""Distance between a buyer and the union of several sellers, by TriangleWad."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from silot_transport import plan_from_cost
from silot_transport._check import interval
from silot_transport.geodesic import Interpolation

from ..errors import InputError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import COORDINATOR, Answers, Protocol, Steps, ask, required
from ..federation.question import Answerer, Question
from ..options import Check, none_or, option, share, word
from .methods import Joint, Referring, build_joint, check_weights, require_own, resolve_quorum
from .questions import Describe, InterpolantCosts, InterpolantDistance, Interpolate, Records
from .result import Distance
from .shared_options import numbers_by_holder, quorum_option, switch
from .sides import (
    Bounds,
    Description,
    Received,
    bound_by_moments,
    estimate_rounding,
    keep_present,
    read_descriptions,
    read_weights,
)
from .trianglewad import compute_reference_spread

_PARAMETERS = Check(
    lambda values, _, code: tuple(interval(s, "sample", code) for s in values),
    None,
    "numbers between 0 and 1",
)


class Pooled(Referring, Joint[Distance]):
    r"""TriangleWad between a buyer and the pooled records of several sellers (sec. 3.4).

    The buyer is the coordinator, with its ``Own(measure)`` :math:`\mu` and interpolant
    :math:`\eta_\mu(t)`. Each seller i interpolates its records towards the shared reference and
    sends the costs between its interpolant and the buyer's; the stacked matrix gives
    :math:`W(\eta_\mu(t), \cup_i \eta_{\nu_i}(s))`.

    With ``hidden=False`` sellers receive ``t`` and use s = t. With ``hidden=True`` they are
    not: they answer at the ``samples`` s, a quadratic is fitted by least squares (eq. 10, 11)

    .. math:: W^2(\eta_\mu(t), \eta_\nu(s)) \approx f(s) = a_2 s^2 + a_1 s + a_0

    and the estimate is :math:`\widehat W^2 = f(t) / (1 - t)^2`. A single seller then answers
    with one number a sample instead of a matrix. The matrices of several sellers determine the
    costs between all records, entry by entry, and so the distance itself.

    Returns
    -------
    Protocol[Distance]
        With a hidden ``t`` and several sellers the distance, wherever the buyer has more atoms
        than dimensions; otherwise an estimate. Interpolants of the sellers are each on a
        geodesic, their union is not, so similar triangles certify nothing here; the bounds come
        from moments, displacements and, with a shared ``t``, from the spread of the reference.
        Discloses every record of the sellers, and shows the buyer's interpolant to them.

    Notes
    -----
    *Private Wasserstein Distance* prints ``f(t) / (1 - t)``; the square of the scale is needed.

    One seller's samples prove little from below: two optimal plans to one reference can take the
    same records to interpolants almost as far apart as both displacements together (:math:`\pm e`
    to :math:`\pm 3 f`, e and f orthogonal, s = t = 1/4: 95 %), so that such distances do not
    keep the records apart. What moments and the triangle inequality say is then all there is.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> from silot.federation import LocalFederation, Own
    >>> rng = np.random.default_rng(0)
    >>> fed = LocalFederation({k: rng.normal(size=(20, 2)) for k in ("s1", "s2")})
    >>> buyer = Own(Measure(rng.normal(size=(40, 2)) + 5.0))
    >>> result = fed.run(Pooled(seed=0).among(["s1", "s2"], buyer))
    >>> result.lower <= result.value <= result.upper
    True
    """

    name = "pooled-trianglewad"

    t: float | None = option(
        "The buyer's interpolation parameter. Default: .5, or random between .2 and "
        ".8 if ``hidden``.",
        none_or(share()),
        default=None,
        brief="The buyer's interpolation parameter, 0 to 1. Default: 0.5.",
    )
    hidden: bool = switch(
        "Whether ``t`` is kept from the sellers. It can be found out from the messages.",
        brief="Keep t from the sellers.",
    )
    samples: Sequence[float] = option(
        "Parameters t at which sellers answer if ``t`` is hidden: three or more, distinct.",
        _PARAMETERS,
        default=(0.25, 0.5, 0.75),
    )
    shares: Mapping[str, float] | None = numbers_by_holder(
        "Mass of each seller in the union; by default in proportion to its number of records.",
        who="seller",
    )
    quorum: int | None = quorum_option(
        "Fewest sellers that must answer; all by default. Sellers that fail are left "
        "out and named in ``status`` if enough others answer.",
        who="sellers",
    )
    interpolation: Interpolation = option(
        "Form of the interpolating measures. For the buyer and each seller.",
        word("exact", "barycentric"),
        default="exact",
    )
    distances: bool = switch(
        "Ask sellers for their displacement, without which a hidden ``t`` gives no upper bound "
        "where one seller answers.",
        default=True,
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        if self.hidden and len(set(self.samples)) < 3:
            raise InputError(
                f"samples are {list(self.samples)}; a quadratic needs three distinct ones.",
                code="option-samples",
            )
        if self.hidden and self.p == 1:
            raise InputError("a hidden t needs p = 2, not 1.", code="option-p")

    @cached_property
    def own_t(self) -> float:
        """The buyer's parameter."""
        if self.t is not None:
            return self.t
        # A third stream of the seed, apart from the reference and from FedWaD's parameters.
        rng = np.random.default_rng([self.seed, 2])
        # Near 0 the buyer would send almost its records, and near 1 almost the reference, whose
        # distance tells nothing.
        return float(rng.uniform(0.2, 0.8)) if self.hidden else 0.5

    @property
    def parameters(self) -> tuple[float, ...]:
        """The parameters at which sellers answer."""
        return tuple(self.samples) if self.hidden else (self.own_t,)

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Distance]:
        names = tuple(holders)
        needed = resolve_quorum(self.quorum, names, "seller")
        shares = (
            None
            if self.shares is None
            else check_weights(self.shares, names, who="seller", of="share")
        )
        run = _Run(self, names, require_own(own, "a pooled distance"), shares, needed)
        return Protocol(
            self.name,
            names,
            self.disclosure,
            run.start,
            {
                "support": self.public.support,
                **self.values("seed", "p", "hidden", "interpolation", "distances", "embedding"),
            },
            expected_rounds=1 + len(self.parameters) + self.asks_moments,
        )


pooled = build_joint(Pooled)


@dataclass(frozen=True)
class _Run:
    """State of one run: options, sellers and the buyer."""

    options: Pooled
    sellers: tuple[str, ...]
    own: Answerer
    shares: Mapping[str, float] | None
    quorum: int

    def start(self) -> Steps[Distance]:
        missing: dict[str, Failure] = {}
        sides = (*self.sellers, COORDINATOR)
        answers = yield from ask(
            {side: Describe(embedding=self.options.embedding) for side in sides}, self.own
        )
        present = keep_present(answers, self.sellers, missing, self.quorum)
        described = read_descriptions(answers, [*present, COORDINATOR])
        atoms, weights = self.options.public.build(described)
        # Interpolated once and before any seller is asked: all rounds compare with the same
        # measure.
        buyer = self._interpolate_own(atoms, weights, described.dimension)
        rounds: list[Answers] = []
        for s in self.options.parameters:
            question = self._build_question(atoms, weights, s, buyer, single=len(self.sellers) == 1)
            answers = yield from ask(dict.fromkeys(present, question))
            present = keep_present(answers, present, missing, self.quorum)
            rounds.append(answers)
        bounds, optimal = Bounds(), buyer.optimal
        # After the last round: a seller that failed in any of them is in none of the unions.
        masses = self._share_masses(present, described)
        unions = [self._read_union(answers, masses, buyer) for answers in rounds]
        for union in unions:
            self._tighten(bounds, union, buyer, atoms, weights)
            optimal = optimal and union.optimal
        if self.options.hidden:
            optimal &= self._tighten_by_records(bounds, buyer, unions)
        # The quadratic in s is one of squared distances (eq. 10).
        squares = [union.distance**2 for union in unions]
        if self.options.asks_moments:
            sides = (*present, COORDINATOR)
            bounds.raise_lower(
                (yield from bound_by_moments(sides, self.options.embedding, self.own, masses))
            )
        value, lower, upper = bounds.settle(self._estimate(squares))
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="pooled-trianglewad",
            status=self._describe_status(missing, bounds, optimal),
            converged=bounds.close,
            holders=("+".join(present), COORDINATOR),
            p=self.options.p,
            seed=self.options.seed,
            history=tuple(
                {"sample": s, "distance": square**0.5}
                for s, square in zip(self.options.parameters, squares, strict=True)
            ),
        )

    def _interpolate_own(self, atoms: Array, weights: Array, dimension: int) -> Received:
        question = Interpolate(
            reference=atoms,
            reference_weights=weights,
            t=self.options.own_t,
            p=self.options.p,
            interpolation=self.options.interpolation,
            embedding=self.options.embedding,
        )
        answer = self.own.answer(question)
        return Received.of(required({COORDINATOR: answer}, COORDINATOR), dimension)

    def _build_question(
        self, atoms: Array, weights: Array, s: float, buyer: Received, *, single: bool
    ) -> Question:
        # The distance of a union is not one of its sellers' distances: from several the costs
        # themselves are needed, and the plan is found here.
        kind = InterpolantDistance if single else InterpolantCosts
        return kind(
            reference=atoms,
            reference_weights=weights,
            t=s,
            p=self.options.p,
            interpolation=self.options.interpolation,
            scalars=self.options.distances,
            target=buyer.atoms,
            target_weights=buyer.weights,
            embedding=self.options.embedding,
        )

    def _share_masses(self, names: Iterable[str], described: Description) -> dict[str, float]:
        """Share the mass of the union among the sellers."""
        masses = {
            name: float(described.records[name]) if self.shares is None else self.shares[name]
            for name in names
        }
        total = sum(masses.values())
        return {name: mass / total for name, mass in masses.items()}

    def _read_union(
        self, answers: Answers, masses: Mapping[str, float], buyer: Received
    ) -> SellersUnion:
        present = {name: required(answers, name) for name in masses}
        return SellersUnion.of(present, masses, buyer, self.options.p)

    def _tighten_by_records(
        self, bounds: Bounds, buyer: Received, unions: Sequence[SellersUnion]
    ) -> bool:
        """Tighten bounds by the costs of the records, and return whether their plan is optimal."""
        costs = [union.costs for union in unions if union.costs is not None]
        masses = [union.weights for union in unions if union.weights is not None]
        # A holder that solves anew for each s may send its atoms in another order: the quadratics
        # of its costs then mix records, and prove nothing.
        if not masses or not all(np.array_equal(masses[0], other) for other in masses):
            return True
        own = required(
            {COORDINATOR: self.own.answer(Records(embedding=self.options.embedding))}, COORDINATOR
        )
        records = own.array("points", ndim=2, columns=buyer.atoms.shape[1])
        # Costs are quadratics in s, whose values at s = 0 are squared distances of the sellers'
        # records from points that the buyer knows. Those from its own records follow: the result is
        # exact, up to the rounding of that extrapolation.
        recovered, rounding = recover_record_costs(
            self.options.parameters, costs, buyer.atoms, records
        )
        plan = plan_from_cost(recovered, masses[0], read_weights(own, len(records)))
        bounds.cut_upper((plan.upper_cost + rounding) ** 0.5)
        bounds.raise_lower(max(plan.lower_cost - rounding, 0.0) ** 0.5)
        return plan.optimal

    def _tighten(
        self, bounds: Bounds, union: SellersUnion, buyer: Received, atoms: Array, weights: Array
    ) -> None:
        # The wire carries costs, not points: their rounding is a hundred times that of a sum.
        slack = 1e-9 * union.distance + 2.0 * (buyer.rounding + estimate_rounding(atoms))
        # From records to interpolants and across, as the triangle inequality has it; nothing is
        # assumed of the plans.
        if union.displacement is not None and buyer.displacement is not None:
            moved = union.displacement + buyer.displacement
            bounds.cut_upper(union.upper + slack + moved)
            bounds.raise_lower(union.lower - slack - moved)
        if not self.options.hidden:
            # As in ``TriangleWad``: plans may meet other atoms of the reference.
            room = (
                2.0 * self.options.own_t * compute_reference_spread(atoms, weights, self.options.p)
                + slack
            )
            bounds.cut_upper((union.upper + room) / (1.0 - self.options.own_t))
            bounds.raise_lower((union.lower - room) / (1.0 - self.options.own_t))

    def _estimate(self, squares: Sequence[float]) -> float:
        if not self.options.hidden:
            return squares[0] ** 0.5 / (1.0 - self.options.own_t)
        # Three or more values at distinct s determine a quadratic: with more the fit averages their
        # rounding.
        coefficients = np.polynomial.polynomial.polyfit(self.options.parameters, squares, 2)
        fitted = float(np.polynomial.polynomial.polyval(self.options.own_t, coefficients))
        # A fit may fall below zero between its nodes where the distance is about zero.
        return max(fitted, 0.0) ** 0.5 / (1.0 - self.options.own_t)

    def _describe_value(self, bounds: Bounds) -> str:
        """Describe whether the distance is certified or an estimate, and of what."""
        hidden, several = self.options.hidden, len(self.sellers) > 1
        if bounds.close and hidden and several:
            return (
                "certified: the cost at several t is a quadratic, which determines the cost "
                "of the records"
            )
        text = "a quadratic fit at a hidden t" if hidden else "similar triangles over a union"
        text = f"estimate: from {text}"
        if math.isinf(bounds.upper):
            text += "; no displacements were sent, so there is no upper bound. "
            return text + "Use distances=True"
        text += ", which is not certified; only the bounds are"
        if several and not hidden and self.options.p == 2:
            text += ". The messages of hidden=True determine the distance"
        return text

    def _describe_status(
        self, missing: Mapping[str, Failure], bounds: Bounds, optimal: bool
    ) -> str:
        text = self._describe_value(bounds)
        if not optimal:
            text += "; a plan was not proven optimal, rescale the features"
        if missing:
            text += f"; without {', '.join(sorted(missing))}, which failed or refused"
        return text


@dataclass(frozen=True)
class SellersUnion:
    """Distance of the buyer's interpolant to the sellers' union, and how far that was moved.

    ``lower`` and ``upper`` bound the distance, and ``displacement`` is a bound too: they allow for
    numbers that a seller rounded. ``costs`` and ``weights`` are those of all sellers' atoms;
    ``None`` where a single seller sent the distance itself.
    """

    distance: float
    lower: float
    upper: float
    displacement: float | None
    optimal: bool
    costs: Array | None = None
    weights: Array | None = None

    @classmethod
    def of(
        cls, answers: Mapping[str, Answer], masses: Mapping[str, float], buyer: Received, p: int
    ) -> SellersUnion:
        """Read the answers of sellers that have these masses in the union."""
        moves = {name: answer.optional_number("displacement") for name, answer in answers.items()}
        powers = [masses[name] * move**p for name, move in moves.items() if move is not None]
        # The union moves by the mean of order p of what its parts move; one unknown part leaves it
        # unknown.
        moved = sum(powers) ** (1.0 / p) if len(powers) == len(moves) else None
        optimal = all(answer.flag("optimal") for answer in answers.values())
        first = next(iter(answers.values()))
        if "target_distance" in first.scalars:
            distance, lower = first.number("target_distance"), first.number("target_lower")
            return cls(distance, lower, distance, moved, optimal)
        parts = {
            name: answer.array("costs", ndim=2, columns=len(buyer.atoms))
            for name, answer in answers.items()
        }
        # Rows of all sellers under one another: the plan of a union sees atoms, and not whose they
        # are.
        costs = np.concatenate(list(parts.values()))
        weights = np.concatenate(
            [
                masses[name] * read_weights(answer, len(parts[name]))
                for name, answer in answers.items()
            ]
        )
        plan = plan_from_cost(costs, weights, buyer.weights)
        distance, lower = (max(c, 0.0) ** (1.0 / p) for c in (plan.cost, plan.lower_cost))
        return cls(distance, lower, distance, moved, optimal and plan.optimal, costs, weights)


_EPSILON = float(np.finfo(np.float64).eps)
# Roundings in an entry of a cost matrix that travelled: a handful for the difference, the square
# and the sum, and as many again for the atoms, with room to spare.
_ROUNDINGS = 16.0


def recover_record_costs(
    samples: Sequence[float], costs: Sequence[Array], target: Array, records: Array
) -> tuple[Array, float]:
    r"""Compute squared distances of sellers' and a buyer's records from those of interpolants.

    An atom of an interpolant is :math:`(1 - s) x_i + s g_i` with the same :math:`g_i` for every
    s, so its squared distance to a point of the target is a quadratic in s, which three samples
    determine; at s = 0 it is that of the record. And :math:`|x_i - y|^2 - |y|^2` is affine in
    y, so its values at the target give those at every y in the target's affine span.

    ``costs`` are, for each of three or more ``samples`` s, the squared distances (k, m) of atoms
    and ``target`` (m, d), the atoms in one order. Returns squared distances (k, n) of the sellers'
    records and the buyer's (n, d), and how far rounding, and parts of ``records`` outside the
    span, can have moved an entry.
    """
    # One row for each sample: 1, s and s squared.
    powers = np.vander(samples, 3, increasing=True)
    # The combination of samples that is exact for 1, s and s^2, at s = 0.
    at_zero = np.linalg.lstsq(powers.T, np.array([1.0, 0.0, 0.0]))[0]
    largest = max(float(np.abs(matrix).max()) for matrix in costs)
    start = sum((w * matrix for w, matrix in zip(at_zero, costs, strict=True)), np.zeros(()))
    missed = float(np.abs(powers.T @ at_zero - [1.0, 0.0, 0.0]).max()) * 4.0 * largest
    # Atoms were rounded when they were computed, and costs are those of the rounded ones.
    atoms = float(np.abs(target).max()) + largest**0.5
    moved = _ROUNDINGS * _EPSILON * target.shape[1] ** 0.5 * atoms
    rounded = 2.0 * largest**0.5 * moved + moved**2 + _ROUNDINGS * _EPSILON * largest
    rounding = float(np.abs(at_zero).sum()) * rounded + missed
    centre = target.mean(axis=0)
    near, wanted = target - centre, records - centre
    # The pseudo-inverse compares columns with the constant one: coordinates near 1 keep it stable.
    scale = max(float(np.abs(near).max()), float(np.abs(wanted).max()), np.finfo(float).tiny)
    points = np.column_stack([near / scale, np.ones(len(near))])
    goals = np.column_stack([wanted / scale, np.ones(len(wanted))])
    combine = goals @ np.linalg.pinv(points)
    affine = start - (near**2).sum(axis=1)
    squares = affine @ combine.T + (wanted**2).sum(axis=1)
    # A residual r of a point costs 2 x r, and one of the constant |x|^2.
    residual = np.abs(combine @ points - goals).sum(axis=1).max()
    # The longest vector between a record of a seller and the centre, for the residuals below.
    size = float(np.sqrt(max(start.max(), 0.0))) + 2.0 * scale * near.shape[1] ** 0.5
    gain = float(np.abs(combine).sum(axis=1).max())
    sums = _ROUNDINGS * _EPSILON * len(near) * float(np.abs(affine).max()) * gain
    rounding = gain * rounding + sums + 2.0 * float(residual) * size * (size + scale)
    last = _ROUNDINGS * _EPSILON * float(np.abs(squares).max())
    return np.maximum(squares, 0.0), rounding + last
