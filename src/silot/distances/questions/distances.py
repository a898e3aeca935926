"""Questions that distances are made of: sizes, records, moments, and interpolants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from silot_transport import Interpolant, cost_matrix, exact_plan, interpolate
from silot_transport import moments as moments_of
from silot_transport.geodesic import Interpolation

from ...errors import MismatchError
from ...federation.answer import Answer
from ...federation.disclosure import Account, Disclosure
from ...federation.message import Scalar
from ...federation.question import Array, Names, Question, register


@dataclass(frozen=True, kw_only=True)
class Describe(Question):
    """Size, dimension, and whether weights are uniform: what two parties need to agree."""

    kind: ClassVar[str] = "describe"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.FREE

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights[weights > 0]
        return Answer(
            scalars={
                "records": len(used),
                "dimension": points.shape[1],
                "uniform": bool(np.ptp(used) <= 1e-12 * used.max()),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Records(Question):
    """The records themselves: pooling, the baseline every protocol is compared with."""

    kind: ClassVar[str] = "records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights > 0
        return Answer({"points": points[used], "weights": weights[used]})


@dataclass(frozen=True, kw_only=True)
class Moments(Question):
    """Mean and covariance, for the Gelbrich lower bound."""

    kind: ClassVar[str] = "moments"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE
    account: ClassVar[Account] = Account.NAMED
    by_pairs: ClassVar[bool] = True

    def numbers(self, records: int, dimension: int) -> int:
        return dimension + dimension * (dimension + 1) // 2

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        moments = moments_of(points, weights)
        return Answer({"mean": moments.mean, "covariance": moments.covariance})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        far = np.abs(points - answer.arrays["mean"]).max(axis=1)
        return {
            "mean": float((weights * far).max()),
            "covariance": float((weights * far**2).max()),
        }


@dataclass(frozen=True, kw_only=True)
class _WithReference(Question):
    """A question about a reference measure that travels with it."""

    reference: Array
    reference_weights: Array
    p: int = 2

    def _check(self, points: Array) -> None:
        if self.reference.ndim != 2 or self.reference.shape[1] != points.shape[1]:
            raise MismatchError(
                "the reference has another number of features than the records.",
                code="dimension-mismatch",
            )

    def _twice(self, move: float) -> float:
        """Where labels have coordinates, a record moves those of its class as well."""
        return move if self.embedding == "none" else 2.0 * move


@dataclass(frozen=True, kw_only=True)
class DistanceTo(_WithReference):
    """``W_p`` of the records and a reference: one number."""

    kind: ClassVar[str] = "distance-to"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.CHOSEN

    def numbers(self, records: int, dimension: int) -> int:
        return 1

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self._check(points)
        plan = exact_plan(points, self.reference, weights, self.reference_weights, p=self.p)
        return Answer(
            scalars={"distance": plan.upper, "distance_lower": plan.lower, "optimal": plan.optimal}
        )

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        share = share_of(points, weights, self.reference, p=self.p)
        return {"distance": self._twice(move_of(answer.number("distance"), share, self.p))}


@dataclass(frozen=True, kw_only=True)
class Interpolate(_WithReference):
    """An interpolating measure between the records (t = 0) and a reference (t = 1).

    With ``on_reference`` a barycentric interpolant is supported on the reference's atoms, else
    on the records. ``scalars`` asks for the distance to the reference and the displacement too.
    Every record can be computed back from the answer.
    """

    kind: ClassVar[str] = "interpolate"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    t: float
    interpolation: Interpolation = "barycentric"
    on_reference: bool = False
    scalars: bool = True

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        interpolant = self._interpolate(points, weights)
        sent: dict[str, Scalar] = {
            "geodesic": interpolant.geodesic,
            "optimal": interpolant.optimal,
            "gap": interpolant.gap,
        }
        if self.scalars:
            sent |= {
                "distance": interpolant.distance,
                "distance_lower": interpolant.lower,
                "displacement": interpolant.displacement,
            }
        return Answer({"atoms": interpolant.atoms, "weights": interpolant.weights}, sent)

    def _interpolate(self, points: Array, weights: Array) -> Interpolant:
        self._check(points)
        return interpolate(
            points,
            self.reference,
            weights,
            self.reference_weights,
            t=self.t,
            p=self.p,
            interpolation=self.interpolation,
            support="y" if self.on_reference else "x",
        )


@dataclass(frozen=True, kw_only=True)
class _WithTarget(Interpolate):
    """An interpolant that stays with the holder, compared with a target it is sent."""

    target: Array
    target_weights: Array

    def _common(self, interpolant: Interpolant) -> dict[str, Scalar]:
        sent: dict[str, Scalar] = {"geodesic": interpolant.geodesic, "optimal": interpolant.optimal}
        if self.scalars:
            sent["displacement"] = interpolant.displacement
        return sent


@dataclass(frozen=True, kw_only=True)
class InterpolantDistance(_WithTarget):
    """``W_p`` of the interpolant and a target: one number."""

    kind: ClassVar[str] = "interpolant-distance"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.CHOSEN

    def numbers(self, records: int, dimension: int) -> int:
        return 1 + self.scalars

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        interpolant = self._interpolate(points, weights)
        plan = exact_plan(
            interpolant.atoms, self.target, interpolant.weights, self.target_weights, p=self.p
        )
        sent = self._common(interpolant)
        sent["target_distance"] = plan.upper
        sent["target_lower"] = plan.lower
        sent["optimal"] = interpolant.optimal and plan.optimal
        return Answer(scalars=sent)

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        # A record's mass is on atoms between it and the reference, no further from any target
        # than one of these is.
        away = share_of(points, weights, self.reference, p=self.p)
        ends = max(
            share_of(points, weights, self.target, p=self.p),
            float(weights.max()) * farthest(self.reference, self.target, p=self.p),
        )
        shares = {"displacement": self.t**self.p * away, "target_distance": ends}
        return {
            name: self._twice(move_of(answer.number(name), share, self.p))
            for name, share in shares.items()
            if name in answer.scalars
        }


@dataclass(frozen=True, kw_only=True)
class InterpolantCosts(_WithTarget):
    """Pairwise costs of the interpolant's atoms and a target's.

    Costs to d + 1 known points give the atoms, and the atoms give the records.
    """

    kind: ClassVar[str] = "interpolant-costs"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        interpolant = self._interpolate(points, weights)
        costs = cost_matrix(interpolant.atoms, self.target, p=self.p)
        return Answer({"costs": costs, "weights": interpolant.weights}, self._common(interpolant))


# Costs held at once.
_COSTS = 1 << 22


def farthest(x: Array, y: Array, *, p: int = 2) -> float:
    """Largest cost of two points."""
    return share_of(x, np.ones(len(x)), y, p=p)


def share_of(points: Array, weights: Array, target: Array, *, p: int = 2) -> float:
    """Largest part of ``W_p^p`` that one record can have: its mass at the farthest of a target."""
    rows = max(_COSTS // max(len(target), 1), 1)
    return max(
        float((weights[k : k + rows] * cost_matrix(points[k : k + rows], target, p=p).max(1)).max())
        for k in range(0, len(points), rows)
    )


def move_of(distance: float, share: float, p: int) -> float:
    """How far a distance moves when so much of its p-th power goes."""
    rest = distance**p - share
    return distance - rest ** (1.0 / p) if rest > 0 else share ** (1.0 / p)


register(Describe, Records, Moments, DistanceTo, Interpolate, InterpolantDistance, InterpolantCosts)
