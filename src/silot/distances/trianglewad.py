"""TriangleWad: a distance in one round, by similar triangles over a shared reference."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from silot_transport import ExactPlan, exact_plan
from silot_transport.geodesic import Interpolation

from ..federation.answer import Array
from ..federation.protocol import Steps
from ..options import option, share, word
from .methods import Sides, WithReference, build_pair
from .questions import Interpolate
from .result import Distance
from .shared_options import switch
from .sides import (
    Bounds,
    Description,
    Received,
    bound_by_distances,
    bound_by_means,
    estimate_rounding,
)

Choice = Literal["auto", "exact", "barycentric"]


class TriangleWad(WithReference):
    r"""TriangleWad with a shared parameter (eq. 7 and 8).

    Both holders interpolate towards the same public reference with the same ``t``; by similar
    triangles

    .. math:: \widehat W(\mu, \nu) = \frac{1}{1 - t} W_p(\eta_\mu(t), \eta_\nu(t))

    Returns
    -------
    Protocol[Distance]
        For p = 2 the estimate is a certified upper bound when both interpolants lie on
        geodesics (always with ``"exact"``), or both sides have equally many records of uniform
        weight. In all other cases it is an estimate, moved between bounds that hold anyway;
        ``status`` says which. Discloses every record.

    Notes
    -----
    *Private Wasserstein Distance*, sec. 3.3. Corollary 1 there ("unbiased if m = n") does not
    hold: the estimate is at least ``W`` because Wasserstein space over a Euclidean space has
    non-negative curvature, and larger in general. With barycentric interpolation and m other
    than n it is biased upwards by about t / (1 - t).

    Bounds that hold for every plan, with displacements :math:`\delta` and :math:`\sigma` the
    spread of the reference around its mean:
    :math:`|W(\mu, \nu) - W(\eta_\mu, \eta_\nu)| \le \delta_\mu + \delta_\nu` and
    :math:`|(1 - t) W(\mu, \nu) - W(\eta_\mu, \eta_\nu)| \le 2 t \sigma`.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> fed = LocalFederation({"a": x, "b": x + [3.0, 4.0]})
    >>> result = fed.run(TriangleWad(seed=0).between("a", "b"))
    >>> 5.0 - 1e-9 <= result.value < 5.5
    True
    """

    name = "trianglewad"
    sends = "one interpolating measure, distances to the reference, moments"
    needs = "a reference of S atoms; one round; a shared t"
    guarantees = (
        "certified upper bound with exact interpolation, or equally many uniform "
        "records; else an estimate between certified bounds"
    )

    t: float = option(
        "Shared interpolation parameter, 0 to 1. The closer to 1, the more the reference counts.",
        share(),
        default=0.5,
    )
    interpolation: Choice = option(
        'Form of the interpolating measures. ``"exact"`` (eq. 4), ``"barycentric"`` (eq. 5), or '
        '``"auto"``: barycentric for equally many records of uniform weight, where it '
        "overestimates only, exact otherwise. A holder of n records sends n atoms of d numbers "
        "when barycentric, n + S - 1 when exact.",
        word(*get_args(Choice)),
        default="auto",
    )
    distances: bool = switch(
        "Ask for distances to the reference and displacements, for tighter bounds.",
        default=True,
        flag=False,
    )

    @property
    def most_rounds(self) -> int:
        return 2 + self.asks_moments

    def steps(self, sides: Sides) -> Steps[Distance]:
        described = yield from sides.describe()
        atoms, weights = self.public.build(described)
        form = self._choose_form(described)
        bounds = Bounds()
        if self.asks_moments:
            bounds.raise_lower((yield from sides.bound_by_moments()))
        question = Interpolate(
            reference=atoms,
            reference_weights=weights,
            t=self.t,
            p=self.p,
            interpolation=form,
            scalars=self.distances,
            embedding=self.embedding,
        )
        answers = yield from sides.ask(question)
        first, second = (Received.of(answer, described.dimension) for answer in answers)
        # Both interpolants lie the share t on the way to one reference, so that W shrinks by about
        # 1 - t (similar triangles). All that follows bounds how far this is from the truth.
        plan = exact_plan(first.atoms, second.atoms, first.weights, second.weights, p=self.p)
        reference_mean = weights @ atoms
        # Bounds that hold whatever the plans: means move linearly, and displacements say how far
        # each side went.
        bounds.raise_lower(bound_by_means(first, second, self.t, reference_mean))
        learn_from_displacements(bounds, plan, (first, second))
        # Interpolation adds t times a point of the reference to each record: the two sides may meet
        # other atoms, whose difference is twice the spread at most.
        spread = compute_reference_spread(atoms, weights, self.p)
        # Rounding of the atoms, the reference included, grows by 1 / (1 - t) like all else.
        rounding = first.rounding + second.rounding + 2.0 * estimate_rounding(atoms)
        room = 2.0 * self.t * spread + rounding
        # Every bound is divided by 1 - t last, for the room is that of the interpolants, not of the
        # records.
        bounds.raise_lower((plan.lower - room) / (1.0 - self.t))
        bounds.cut_upper((plan.upper + room) / (1.0 - self.t))
        optimal = plan.optimal and first.optimal and second.optimal
        # Non-negative curvature of the 2-Wasserstein space makes similar triangles an upper bound;
        # for p = 1 there is none.
        certified = (
            self.p == 2
            and optimal
            and ((first.geodesic and second.geodesic) or _are_equal_and_uniform(first, second))
        )
        # The similar triangle as published. It is a value between the bounds, and a bound itself
        # only where it is certified.
        estimate = plan.distance / (1.0 - self.t)
        if certified:
            # A plan whose cost is off by a gap is monotone up to that gap.
            slack = 2.0 * self.t * (1.0 - self.t) * (first.gap + second.gap)
            bounds.cut_upper(((plan.upper**2 + slack) ** 0.5 + rounding) / (1.0 - self.t))
            # Rounding included, so that the value is never below the distance.
            estimate = bounds.upper
        value, lower, upper = bounds.settle(estimate)
        return Distance(
            value=value,
            lower=lower,
            upper=upper,
            method="trianglewad",
            status=self._describe_status(described, form, bounds, certified, optimal),
            converged=bounds.close,
            holders=sides.names,
            p=self.p,
            seed=self.seed,
        )

    def _choose_form(self, described: Description) -> Interpolation:
        # A choice of the caller stands, even where it is worse: papers are reproduced with it.
        if self.interpolation != "auto":
            return self.interpolation
        return "barycentric" if described.even else "exact"

    def _describe_status(
        self,
        described: Description,
        form: Interpolation,
        bounds: Bounds,
        certified: bool,
        optimal: bool,
    ) -> str:
        if not optimal:
            return "estimate: a plan was not proven optimal, rescale the features"
        if certified:
            return (
                "certified: the value is an upper bound, and W is at least "
                f"{bounds.lower / bounds.upper if bounds.upper else 1.0:.0%} of it; see fedwad"
            )
        if self.p == 1:
            return (
                "estimate: for p = 1 similar triangles prove nothing, so only the bounds are "
                "certified. Use p = 2"
            )
        sizes = " and ".join(map(str, described.records.values()))
        return (
            f"estimate: {form} interpolation with {sizes} records is biased upwards, by about "
            f"t / (1 - t) = {self.t / (1 - self.t):.3g} spreads of the reference. Use "
            "interpolation='exact' or a smaller t"
        )


trianglewad = build_pair(TriangleWad)


def compute_reference_spread(atoms: Array, weights: Array, p: int) -> float:
    r"""Compute :math:`(\sum_k w_k |\gamma_k - \bar\gamma|^p)^{1/p}`: no average exceeds it."""
    # Around the mean: a shift of the reference is the same for both sides, and cancels.
    distances = np.linalg.norm(atoms - weights @ atoms, axis=1)
    # By Minkowski: whichever atoms a plan averages, they differ from the mean by this at most in
    # the norm of order p.
    return float(weights @ distances**p) ** (1.0 / p)


def learn_from_displacements(
    bounds: Bounds, plan: ExactPlan, received: tuple[Received, Received]
) -> None:
    """Tighten bounds by the displacements of interpolants, where holders sent them."""
    displacements = [side.displacement for side in received]
    sent = [value for value in displacements if value is not None]
    if len(sent) == len(displacements):
        moved = sum(sent) + sum(side.rounding for side in received)
        bounds.cut_upper(plan.upper + moved)
        bounds.raise_lower(plan.lower - moved)
    bounds.raise_lower(bound_by_distances(*received))


def _are_equal_and_uniform(first: Received, second: Received) -> bool:
    # Then an optimal plan of the interpolants pairs records, and barycentric images of two
    # sets of records are monotone: pairs cannot come closer than (1 - t) of their distance.
    weights = np.concatenate([first.weights, second.weights])
    return len(first.atoms) == len(second.atoms) and float(np.ptp(weights)) <= 1e-12
