"""Questions about a distance and what it owes to the number of records behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

import numpy as np

from silot_transport import ExactPlan, exact_plan
from silot_transport.chance import chance_distance, chance_law
from silot_transport.resampling import FEWEST, corrected_cost, distinct_records, lots

from ...data.measure import Covariance, class_vectors_of, features_of
from ...federation.answer import Answer
from ...federation.disclosure import Account, Disclosure
from ...federation.message import Scalar
from ...federation.question import Array, Codes, Names, Question, register
from .distances import DistanceTo, move_of, share_of
from .labelled import LabelledDistanceTo, codes_of

# Of the largest part of the cost that one record can have: it moves its own half, and who it puts
# into the other half moves that one; where tails are heavy it decides the degrees of freedom too.
_MOVED = 2.0
_MOVED_MARGIN = 6.0
_NUMBERS = 5
OWN_SPLITS = 24
"""How often a holder splits its records to see what chance makes."""


@dataclass(frozen=True, kw_only=True)
class DistanceWithError(DistanceTo):
    """``W_2`` of the records and a reference, and its error: five numbers.

    ``corrected`` is the distance without the bias of a finite sample, ``margin`` half the length
    of the 95 % interval of its square, which is to be doubled ``tails`` times (0 to 3) for records
    that are rare and far, and ``chance`` the distance that samples of the
    reference's law stay below in 95 % of cases, at the sizes of both. ``chance`` is told only
    ``with_chance``, for a reference that is a sample. Holders of few records tell the distance
    alone.
    """

    kind: ClassVar[str] = "distance-with-error"

    with_chance: bool = True

    def numbers(self, records: int, dimension: int) -> int:
        return _NUMBERS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self._check(points)
        plan = exact_plan(points, self.reference, weights, self.reference_weights, p=self.p)
        told: dict[str, Scalar] = {
            "distance": plan.upper,
            "distance_lower": plan.lower,
            "optimal": plan.optimal,
        }
        if self.p == 2:
            target = (
                self.reference,
                self.reference_weights,
                np.zeros(len(self.reference), np.int64),
            )
            codes = np.zeros(len(points), dtype=np.int64)
            told |= _errors(points, weights, codes, target, plan, None, self.with_chance, False)
        return Answer(scalars=told)

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        share = share_of(points, weights, self.reference, p=self.p)
        found = _moves(answer, share)
        return {name: self._twice(move) for name, move in found.items()}


@dataclass(frozen=True, kw_only=True)
class LabelledDistanceWithError(LabelledDistanceTo):
    """``W_2`` of the labelled records and a labelled target, and its error: five numbers.

    As ``DistanceWithError``; with ``matched`` chance is that of samples one of which is weighted
    to have the class proportions of the other.
    """

    kind: ClassVar[str] = "labelled-distance-with-error"

    with_chance: bool = True
    matched: bool = False

    def numbers(self, records: int, dimension: int) -> int:
        return _NUMBERS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        answer, plan, squares = self.solve(points, weights, labels)
        codes, _, _ = codes_of(labels, self.classes, len(points))
        target = (self.target, self.target_weights, self.target_codes)
        told = _errors(
            points, weights, codes, target, plan, squares, self.with_chance, self.matched
        )
        return Answer(scalars={**answer.scalars, **told})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        share, doubled = self.largest_share(points, weights, labels)
        found = _moves(answer, share)
        return {name: 2.0 * move if doubled else move for name, move in found.items()}


@dataclass(frozen=True, kw_only=True)
class OwnChance(Question):
    """How far apart two samples of the holder's own law are, at its size: three numbers.

    ``mean`` and ``spread`` of the distance ``W_p``, and the ``error`` of the mean, as splits of
    the records tell. Holders of few records tell nothing. Where labels have coordinates, those
    are of each sample by itself: samples of one law differ in them too.
    """

    kind: ClassVar[str] = "own-chance"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.NAMED

    p: int = 2

    def numbers(self, records: int, dimension: int) -> int:
        return 3

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = np.flatnonzero(weights > 0)
        points, codes = features_of(points, self.embedding), np.zeros(len(points), dtype=np.int64)
        embed = None
        if self.embedding != "none":
            codes = np.unique(np.asarray(labels), return_inverse=True)[1].ravel().astype(np.int64)
            covariance = cast("Covariance", self.embedding)
            embed = partial(class_vectors_of, covariance=covariance)
        places = used[distinct_records(points[used], weights[used], codes[used])]
        masses = weights[places] / weights[places].sum()
        own = points[places], masses, codes[places]
        law = chance_law(own, own, None, p=self.p, pooled=False, splits=OWN_SPLITS, embed=embed)
        if law is None:
            return Answer()
        return Answer(scalars={"mean": law.mean, "spread": law.spread, "error": law.error})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        if "mean" not in answer.scalars:
            return {}
        share = share_of(points, weights, points, p=self.p)
        move = move_of(answer.number("mean"), _MOVED * share, self.p)
        # Where labels have coordinates, a record moves those of its class as well.
        move *= 1.0 if self.embedding == "none" else 2.0
        return {"mean": move, "spread": _MOVED * move, "error": _MOVED * move}


def _errors(
    points: Array, weights: Array, codes: Codes, target: tuple[Array, Array, Codes],
    plan: ExactPlan, squares: Array | None, with_chance: bool, matched: bool,
) -> dict[str, Scalar]:  # fmt: skip
    """What is told beside the distance."""
    used = np.flatnonzero(weights > 0)
    places = used[distinct_records(points[used], weights[used], codes[used])]
    own, masses, kinds = points[places], weights[places] / weights[places].sum(), codes[places]
    if 1.0 / float(masses @ masses) < FEWEST:
        return {}
    if len(places) < len(points):
        plan = _part(plan, places)
    there = target[1] > 0
    atoms, loads, classes = target[0][there], target[1][there], target[2][there]
    loads = loads / loads.sum()
    between = None
    label_cost = None
    if squares is not None:
        label_cost = squares[np.ix_(kinds, classes)]
        between = _between(squares)
    order = lots(own, masses, kinds)
    found = corrected_cost(own, masses, label_cost, (atoms, loads), plan, order)
    told: dict[str, Scalar] = {
        "corrected": max(found.cost, 0.0) ** 0.5,
        "margin": found.margin,
        "tails": found.tails,
    }
    if with_chance:
        chance = chance_distance(
            (own, masses, kinds), (atoms, loads, classes), between, matched=matched, pooled=False
        )
        if chance is not None:
            told["chance"] = chance
    return told


def _part(plan: ExactPlan, places: Codes) -> ExactPlan:
    f, g = plan.potentials
    return replace(plan, potentials=(f[places], g))


def _between(squares: Array) -> Array:
    """Squared distances of all classes, those of the holder's own as far as the target's tell."""
    known = squares.shape[1]
    apart = np.sqrt(squares)
    found = np.zeros((len(squares), len(squares)))
    found[:, :known] = apart
    found[:known, known:] = apart[known:].T
    for k in range(known, len(squares)):
        for l in range(known, len(squares)):
            if k != l:
                found[k, l] = float((apart[k] + apart[l]).min())
    return found**2


def _moves(answer: Answer, share: float) -> dict[str, float]:
    found = {"distance": move_of(answer.number("distance"), share, 2)}
    if "corrected" in answer.scalars:
        found["corrected"] = move_of(answer.number("corrected"), _MOVED * share, 2)
        found["margin"] = _MOVED_MARGIN * share
    if "chance" in answer.scalars:
        found["chance"] = move_of(answer.number("chance"), _MOVED * share, 2)
    return found


register(DistanceWithError, LabelledDistanceWithError, OwnChance)
