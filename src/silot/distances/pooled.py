"""Distance between the union of several holders and the coordinator's own measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..data.measure import Embedding
from ..errors import InputError, MismatchError
from ..federation.answer import Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import (
    COORDINATOR,
    Answers,
    Protocol,
    Steps,
    ask,
    required,
)
from ..federation.question import Answerer, Question
from ..transport import plan_from_cost
from ..transport._check import as_order, flag, interval, real, whole
from ..transport.geodesic import Interpolation
from .questions.distances import (
    Describe,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    Records,
)
from .record_costs import record_costs
from .result import Distance
from .sides import (
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
from .union import Union

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
        left = present(answers, self.sellers, missing, self.quorum)
        described = read_descriptions(answers, [*left, COORDINATOR])
        atoms, weights = self.reference.build(described)
        buyer = self._interpolate_own(atoms, weights, described.dimension)
        rounds: list[Answers] = []
        for s in self.samples:
            question = self._question(atoms, weights, s, buyer, single=len(self.sellers) == 1)
            answers = yield from ask(dict.fromkeys(left, question))
            left = present(answers, left, missing, self.quorum)
            rounds.append(answers)
        bounds, optimal = Bounds(), buyer.optimal
        masses = self._masses(left, described)
        unions = [
            Union.of({name: required(answers, name) for name in left}, masses, buyer, self.p)
            for answers in rounds
        ]
        for union in unions:
            self._learn(bounds, union, buyer, atoms, weights)
            optimal = optimal and union.optimal
        if self.hidden:
            optimal &= self._learn_records(bounds, buyer, unions)
        squares = [union.distance**2 for union in unions]
        if self.moments:
            sides = (*left, COORDINATOR)
            bounds.raise_lower((yield from moments_bound(sides, self.embedding, self.own, masses)))
        value, lower, upper = bounds.settle(self._estimate(squares))
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="pooled-trianglewad",
            status=self._status(missing, bounds, optimal),
            converged=bounds.close,
            holders=("+".join(left), COORDINATOR),
            p=self.p,
            seed=self.reference.seed,
            history=tuple(
                {"sample": s, "distance": square**0.5}
                for s, square in zip(self.samples, squares, strict=True)
            ),
        )

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

    def _masses(self, names: Iterable[str], described: Description) -> dict[str, float]:
        """Mass of each seller in the union."""
        masses = {
            name: float(described.records[name]) if self.shares is None else self.shares[name]
            for name in names
        }
        total = sum(masses.values())
        return {name: mass / total for name, mass in masses.items()}

    def _learn_records(self, bounds: Bounds, buyer: Received, unions: Sequence[Union]) -> bool:
        """Bounds from the costs of the records themselves; whether their plan is optimal."""
        costs = [union.costs for union in unions if union.costs is not None]
        masses = [union.weights for union in unions if union.weights is not None]
        # Atoms of another order, or other ones, are those of a holder that plans anew for each s.
        if not masses or not all(np.array_equal(masses[0], other) for other in masses):
            return True
        own = required(
            {COORDINATOR: self.own.answer(Records(embedding=self.embedding))}, COORDINATOR
        )
        records = own.array("points", ndim=2, columns=buyer.atoms.shape[1])
        found, rounding = record_costs(self.samples, costs, buyer.atoms, records)
        plan = plan_from_cost(found, masses[0], received_weights(own, len(records)))
        bounds.cut_upper((plan.upper_cost + rounding) ** 0.5)
        bounds.raise_lower(max(plan.lower_cost - rounding, 0.0) ** 0.5)
        return plan.optimal

    def _learn(
        self, bounds: Bounds, union: Union, buyer: Received, atoms: Array, weights: Array
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
