"""Distance between the union of several holders and the coordinator's own measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import (
    COORDINATOR,
    Answers,
    Protocol,
    Steps,
    ask,
    required,
)
from ..federation.question import (
    Answerer,
    Describe,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    Question,
    Records,
)
from ..measure import Embedding
from ..results import Distance
from ..transport import plan_from_cost
from ..transport._check import as_order, flag, interval, real, whole
from ..transport.geodesic import Interpolation
from ._record_costs import record_costs
from ._sides import (
    Bounds,
    Description,
    Received,
    Reference,
    cloud_rounding,
    moments_bound,
    present,
    read_descriptions,
    received_weights,
    reference_options,
)
from .trianglewad import reference_spread

DEFAULT_SAMPLES = (0.25, 0.5, 0.75)


def pooled(
    sellers: Sequence[str],
    *,
    own: Answerer,
    t: float | None = None,
    hidden: bool = False,
    samples: Sequence[float] = DEFAULT_SAMPLES,
    shares: Mapping[str, float] | None = None,
    quorum: int | None = None,
    support: int | None = None,
    seed: int = 0,
    p: int = 2,
    interpolation: Interpolation = "exact",
    distances: bool = True,
    reference: npt.ArrayLike | None = None,
    reference_mean: float = 0.0,
    reference_scale: float = 1.0,
    moments: bool = True,
    embedding: Embedding = "none",
) -> Protocol[Distance]:
    r"""TriangleWad between a buyer and the pooled records of several sellers (sec. 3.4).

    The buyer is the coordinator, with its own measure :math:`\mu` and interpolant
    :math:`\eta_\mu(t)`. Each seller i interpolates its records towards the shared reference and
    sends the costs between its interpolant and the buyer's; the stacked matrix gives
    :math:`W(\eta_\mu(t), \cup_i \eta_{\nu_i}(s))`.

    With ``hidden=False`` sellers are told ``t`` and use s = t. With ``hidden=True`` they are
    not: they answer at the ``samples`` s, a quadratic is fitted by least squares (eq. 10, 11)

    .. math:: W^2(\eta_\mu(t), \eta_\nu(s)) \approx f(s) = a_2 s^2 + a_1 s + a_0

    and the estimate is :math:`\widehat W^2 = f(t) / (1 - t)^2`. A single seller then answers
    with one number a sample instead of a matrix. The matrices of several sellers determine the
    costs between all records, entry by entry, and so the distance itself.

    Parameters
    ----------
    sellers
        Holders whose union is measured.
    own
        The buyer's ``Own(measure)``.
    t
        The buyer's parameter. Default .5, or drawn between .2 and .8 when ``hidden``.
    hidden
        Whether ``t`` is kept from the sellers. It can be found out from the messages.
    samples
        Parameters sellers are asked at when ``t`` is hidden: three or more, distinct.
    shares
        Mass of each seller in the union; by default in proportion to its number of records.
    quorum
        Fewest sellers that must answer; all by default. Sellers that fail beyond it are left
        out and named in ``status``.
    support, seed, p, reference, reference_mean, reference_scale, embedding
        As ``trianglewad``.
    interpolation
        ``"exact"`` or ``"barycentric"``.
    distances
        Ask sellers for their displacement, without which a hidden ``t`` gives no upper bound
        where one seller answers.
    moments
        Ask all for mean and covariance too, for the Gelbrich lower bound (p = 2).

    Returns
    -------
    Protocol[Distance]
        With a hidden ``t`` and several sellers the distance, wherever the buyer has more atoms
        than dimensions; otherwise an estimate. Interpolants of the sellers are each on a
        geodesic, their union is not, so similar triangles certify nothing here; the bounds come
        from moments, displacements and, with a shared ``t``, from the spread of the reference.
        Discloses every record of the sellers, and shows the buyer's interpolant to them.

    Raises
    ------
    InputError
        Options out of range.

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
    >>> from silot import LocalFederation, Measure, Own
    >>> rng = np.random.default_rng(0)
    >>> fed = LocalFederation({k: rng.normal(size=(20, 2)) for k in ("s1", "s2")})
    >>> buyer = Own(Measure(rng.normal(size=(40, 2)) + 5.0))
    >>> result = fed.run(pooled(["s1", "s2"], own=buyer, seed=0))
    >>> result.lower <= result.value <= result.upper
    True
    """
    names = tuple(sellers)
    if not names:
        raise InputError("no seller is named; one or more are needed.", code="holder-names")
    needed = len(names) if quorum is None else whole(quorum, "quorum", "option-quorum")
    if needed > len(names):
        raise InputError(f"quorum is {quorum!r} for {len(names)} sellers.", code="option-quorum")
    if not isinstance(interpolation, str) or interpolation not in ("exact", "barycentric"):
        raise InputError(
            f"interpolation is {interpolation!r}; give 'exact' or 'barycentric'.",
            code="option-interpolation",
        )
    points = tuple(interval(s, "sample", "option-samples") for s in samples)
    if hidden and len(set(points)) < 3:
        raise InputError(
            f"samples are {list(samples)}; a quadratic needs three distinct ones.",
            code="option-samples",
        )
    checked = reference_options(reference, support, reference_mean, reference_scale, seed)
    if t is None:
        # A third stream of the seed, apart from the reference and from FedWaD's parameters.
        rng = np.random.default_rng([checked.seed, 2])
        t = float(rng.uniform(0.2, 0.8)) if hidden else 0.5
    plan = _Plan(
        sellers=names,
        own=own,
        t=interval(t, "t", "option-t"),
        samples=points if hidden else (t,),
        hidden=hidden,
        shares=_check_shares(shares, names),
        quorum=needed,
        p=as_order(p),
        interpolation=interpolation,
        distances=flag(distances, "distances", "option-distances"),
        reference=checked,
        moments=flag(moments, "moments", "option-moments") and p == 2,
        embedding=embedding,
    )
    if hidden and plan.p == 1:
        raise InputError("the quadratic of a hidden t is that of p = 2.", code="option-p")
    return Protocol(
        "pooled-trianglewad",
        names,
        Disclosure.RECORD,
        plan.start,
        {
            "support": plan.reference.support,
            "seed": plan.reference.seed,
            "p": plan.p,
            "hidden": hidden,
            "interpolation": interpolation,
            "distances": plan.distances,
            "embedding": embedding,
        },
        expected_rounds=1 + len(plan.samples) + plan.moments,
    )


def _check_shares(
    shares: Mapping[str, float] | None, names: Sequence[str]
) -> Mapping[str, float] | None:
    if shares is None:
        return None
    if set(shares) != set(names):
        raise MismatchError(
            f"shares name {sorted(shares)} and the sellers are {sorted(names)}.",
            code="option-shares",
        )
    if not all(real(share, "share", "option-shares") > 0 for share in shares.values()):
        raise InputError("shares must be positive numbers.", code="option-shares")
    return dict(shares)


@dataclass(frozen=True)
class _Plan:
    """Checked options of one protocol."""

    sellers: tuple[str, ...]
    own: Answerer
    t: float
    samples: tuple[float, ...]
    hidden: bool
    shares: Mapping[str, float] | None
    quorum: int
    p: int
    interpolation: Interpolation
    distances: bool
    reference: Reference
    moments: bool
    embedding: Embedding

    def start(self) -> Steps[Distance]:
        missing: dict[str, Failure] = {}
        sides = (*self.sellers, COORDINATOR)
        answers = yield from ask(
            {side: Describe(embedding=self.embedding) for side in sides}, self.own
        )
        present = self._present(answers, self.sellers, missing)
        described = read_descriptions(answers, [*present, COORDINATOR])
        atoms, weights = self.reference.build(described)
        buyer = self._interpolate_own(atoms, weights, described.dimension)
        rounds: list[Answers] = []
        for s in self.samples:
            question = self._question(atoms, weights, s, buyer, single=len(self.sellers) == 1)
            answers = yield from ask(dict.fromkeys(present, question))
            present = self._present(answers, present, missing)
            rounds.append(answers)
        bounds, optimal = Bounds(), buyer.optimal
        squares: list[float] = []
        for answers in rounds:
            union = self._union(
                buyer, {name: required(answers, name) for name in present}, described
            )
            squares.append(union.distance**2)
            self._learn(bounds, union, buyer, atoms, weights)
            optimal = optimal and union.optimal
        if self.hidden and len(self.sellers) > 1:
            optimal &= self._learn_records(bounds, buyer, rounds, present, described)
        if self.moments:
            masses = self._masses(present, described)
            sides = (*present, COORDINATOR)
            bounds.raise_lower((yield from moments_bound(sides, self.embedding, self.own, masses)))
        value, lower, upper = bounds.settle(self._estimate(squares))
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="pooled-trianglewad",
            status=self._status(missing, bounds, optimal),
            converged=bounds.close,
            holders=("+".join(present), COORDINATOR),
            p=self.p,
            seed=self.reference.seed,
            history=tuple(
                {"sample": s, "distance": square**0.5}
                for s, square in zip(self.samples, squares, strict=True)
            ),
        )

    def _present(
        self, answers: Answers, names: Sequence[str], missing: dict[str, Failure]
    ) -> tuple[str, ...]:
        """The sellers that answered; raise when they are fewer than the quorum."""
        return present(answers, names, missing, self.quorum)

    def _interpolate_own(self, atoms: Array, weights: Array, dimension: int) -> Received:
        question = Interpolate(
            reference=atoms,
            reference_weights=weights,
            t=self.t,
            p=self.p,
            interpolation=self.interpolation,
            embedding=self.embedding,
        )
        answer = self.own.answer(question)
        return Received.of(required({COORDINATOR: answer}, COORDINATOR), dimension)

    def _question(
        self, atoms: Array, weights: Array, s: float, buyer: Received, *, single: bool
    ) -> Question:
        kind = InterpolantDistance if single else InterpolantCosts
        return kind(
            reference=atoms,
            reference_weights=weights,
            t=s,
            p=self.p,
            interpolation=self.interpolation,
            scalars=self.distances,
            target=buyer.atoms,
            target_weights=buyer.weights,
            embedding=self.embedding,
        )

    def _union(
        self, buyer: Received, answers: Mapping[str, Answer], described: Description
    ) -> _Union:
        """Distance of the buyer's interpolant and the union of the sellers'."""
        masses = self._masses(answers, described)
        displacements = [answers[name].optional_number("displacement") for name in answers]
        known = [value for value in displacements if value is not None]
        moved = None
        if len(known) == len(displacements):
            powers = [
                masses[name] * value**self.p for name, value in zip(answers, known, strict=True)
            ]
            moved = sum(powers) ** (1.0 / self.p)
        optimal = all(answer.flag("optimal") for answer in answers.values())
        if len(self.sellers) == 1:
            distance = next(iter(answers.values())).number("target_distance")
            lower = next(iter(answers.values())).number("target_lower")
            return _Union(distance, lower, moved, optimal)
        costs, weights = _stacked(answers, masses, len(buyer.atoms))
        plan = plan_from_cost(costs, weights, buyer.weights)
        lower = max(plan.lower_cost, 0.0) ** (1.0 / self.p)
        distance = max(plan.cost, 0.0) ** (1.0 / self.p)
        return _Union(distance, lower, moved, optimal and plan.optimal)

    def _masses(self, names: Iterable[str], described: Description) -> dict[str, float]:
        """Mass of each seller in the union."""
        masses = {
            name: float(described.records[name]) if self.shares is None else self.shares[name]
            for name in names
        }
        total = sum(masses.values())
        return {name: mass / total for name, mass in masses.items()}

    def _learn_records(
        self,
        bounds: Bounds,
        buyer: Received,
        rounds: Sequence[Answers],
        present: Sequence[str],
        described: Description,
    ) -> bool:
        """Bounds from the costs of the records themselves; whether their plan is optimal."""
        masses = self._masses(present, described)
        stacked = [
            _stacked({name: required(answers, name) for name in present}, masses, len(buyer.atoms))
            for answers in rounds
        ]
        weights = stacked[0][1]
        if not all(np.array_equal(weights, other) for _, other in stacked):
            # Atoms of another order, or other ones: a holder that plans anew for each s.
            return True
        own = required(
            {COORDINATOR: self.own.answer(Records(embedding=self.embedding))}, COORDINATOR
        )
        records = own.array("points", ndim=2, columns=described.dimension)
        costs, rounding = record_costs(
            self.samples, [costs for costs, _ in stacked], buyer.atoms, records
        )
        plan = plan_from_cost(costs, weights, received_weights(own, len(records)))
        bounds.cut_upper((plan.upper_cost + rounding) ** 0.5)
        bounds.raise_lower(max(plan.lower_cost - rounding, 0.0) ** 0.5)
        return plan.optimal

    def _learn(
        self, bounds: Bounds, union: _Union, buyer: Received, atoms: Array, weights: Array
    ) -> None:
        # The wire carries costs, not points: their rounding is a hundred times that of a sum.
        slack = 1e-9 * union.distance + 2.0 * (buyer.rounding + cloud_rounding(atoms))
        if union.displacement is not None and buyer.displacement is not None:
            moved = union.displacement + buyer.displacement
            bounds.cut_upper(union.distance + slack + moved)
            bounds.raise_lower(union.lower - slack - moved)
        if not self.hidden:
            room = 2.0 * self.t * reference_spread(atoms, weights, self.p) + slack
            bounds.cut_upper((union.distance + room) / (1.0 - self.t))
            bounds.raise_lower((union.lower - room) / (1.0 - self.t))

    def _estimate(self, squares: Sequence[float]) -> float:
        if not self.hidden:
            return squares[0] ** 0.5 / (1.0 - self.t)
        coefficients = np.polynomial.polynomial.polyfit(self.samples, squares, 2)
        fitted = float(np.polynomial.polynomial.polyval(self.t, coefficients))
        return max(fitted, 0.0) ** 0.5 / (1.0 - self.t)

    def _status(self, missing: Mapping[str, Failure], bounds: Bounds, optimal: bool) -> str:
        if bounds.close and self.hidden and len(self.sellers) > 1:
            text = "certified: costs at several s are quadratics, which give those of the records"
        else:
            text = "estimate: from " + (
                "a quadratic fit at a hidden t" if self.hidden else "similar triangles over a union"
            )
            if math.isinf(bounds.upper):
                text += "; no displacements were told, so there is no upper bound. "
                text += "Use distances=True"
            else:
                text += ", which certifies nothing: only the bounds hold"
                if not self.hidden and len(self.sellers) > 1 and self.p == 2:
                    text += ". The messages of hidden=True determine the distance"
        if not optimal:
            text += "; a plan was not proven optimal, rescale the features"
        if missing:
            text += f"; without {', '.join(sorted(missing))}, which failed or refused"
        return text


def _stacked(
    answers: Mapping[str, Answer], masses: Mapping[str, float], columns: int
) -> tuple[Array, Array]:
    """Costs of all sellers' atoms, and the atoms' masses in the union."""
    costs = {
        name: answer.array("costs", ndim=2, columns=columns) for name, answer in answers.items()
    }
    weights = [
        masses[name] * received_weights(answer, len(costs[name]))
        for name, answer in answers.items()
    ]
    return np.concatenate(list(costs.values())), np.concatenate(weights)


@dataclass(frozen=True)
class _Union:
    """Distance of the buyer's interpolant to the sellers' union, and how far that was moved."""

    distance: float
    lower: float
    displacement: float | None
    optimal: bool
