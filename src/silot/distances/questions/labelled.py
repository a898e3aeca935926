"""Questions about records and their labels, for valuation.

Labels travel as the positions of names in a list both sides know: ``classes``, the JSON text of
a list of texts. An empty text stands for no labels at all: every record is of class 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self, cast

import numpy as np

from silot_transport import ExactPlan, exact_plan
from silot_transport.classwise import distances_to_classes, labelled_plan
from silot_transport.cost import paired_cost

from ...errors import InputError, MismatchError, WireError
from ...federation.answer import Answer
from ...federation.disclosure import Account, Disclosure
from ...federation.message import LARGEST_TEXT, Scalar
from ...federation.question import Array, Codes, Names, Question, register
from .distances import move_of, share_of


def encode_classes(names: list[str]) -> str:
    """Class names as one text; too many of them is an ``InputError``."""
    text = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > LARGEST_TEXT:
        raise InputError(
            f"{len(names)} classes have names of {len(text)} characters together; at most "
            f"{LARGEST_TEXT} fit. Are the labels classes, not numbers? Merge or rename them.",
            code="classes-many",
        )
    return text


def decode_classes(text: str) -> list[str]:
    """Read class names."""
    try:
        found = cast("object", json.loads(text))
    except ValueError:
        found = None
    names = cast("list[object]", found) if isinstance(found, list) else []
    texts = [name for name in names if isinstance(name, str)]
    if isinstance(found, list) and len(set(texts)) == len(texts) == len(names):
        return texts
    raise WireError("class names are not a list of distinct texts.", code="question-fields")


def codes_of(labels: Names | None, classes: str, size: int) -> tuple[Codes, int, int]:
    """Codes of records, how many classes are known, and how many are not.

    Unknown classes get the codes after the known ones, in the order of their names.
    """
    if not classes:
        return np.zeros(size, dtype=np.int64), 1, 0
    if labels is None:
        raise InputError("the records have no labels.", code="labels-absent")
    known = decode_classes(classes)
    new = sorted(set(labels.tolist()) - set(known))
    place = {name: code for code, name in enumerate([*known, *new])}
    codes = np.array([place[name] for name in labels.tolist()], dtype=np.int64)
    return codes, len(known), len(new)


@dataclass(frozen=True, kw_only=True)
class ClassSizes(Question):
    """Mass of every class. Without ``classes`` the holder tells the names of its own.

    Classes of fewer than ``least`` records count as absent; a holder raises ``least`` to what
    its policy wants.
    """

    kind: ClassVar[str] = "class-sizes"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE

    classes: str = ""
    least: int = 1

    def accounted(self, dimension: int) -> Account:
        """Over a public list of classes; names of the holder's own are texts of its records."""
        return Account.NAMED if self.classes else Account.RECORD

    def numbers(self, records: int, dimension: int) -> int:
        return len(decode_classes(self.classes))

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def coarser(self, least: int) -> Self:
        return replace(self, least=max(self.least, least))

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        if labels is None:
            raise InputError("the records have no labels.", code="labels-absent")
        used = weights > 0
        names, counts = np.unique(labels[used], return_counts=True)
        large = set(names[counts >= self.least].tolist())
        text = self.classes or encode_classes(sorted(large))
        told = np.array([name in large for name in labels.tolist()]) & used
        codes, known, _ = codes_of(labels, text, len(points))
        # bincount of nothing counts in integers.
        masses = np.bincount(codes[told], weights[told], minlength=known).astype(np.float64)
        total = float(masses.sum())
        answer = {"masses": masses[:known] / total if total > 0 else masses[:known]}
        return Answer(answer, {} if self.classes else {"classes": text})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        # Classes that are told hold all mass but that of those that are not.
        known = decode_classes(self.classes)
        if labels is None:
            return {}
        mass = float(weights[np.isin(labels, list(known))].sum())
        return {"masses": min(float(weights.max()) / mass, 1.0) if mass > 0 else 0.0}


def share_names(codes: Codes, weights: Array, known: int) -> None:
    """Raise where no record has a class of the question: names that differ look like errors."""
    if not (codes[weights > 0] < known).any():
        raise MismatchError(
            "no record has a label of those asked about. Write labels alike on both sides, or "
            "compare without them.",
            code="labels-disjoint",
        )


@dataclass(frozen=True, kw_only=True)
class LabelledRecords(Question):
    """Records with the codes of their labels."""

    kind: ClassVar[str] = "labelled-records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    classes: str = ""

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        codes, _, _ = codes_of(labels, self.classes, len(points))
        used = weights > 0
        return Answer({"points": points[used], "weights": weights[used], "codes": codes[used]})


@dataclass(frozen=True, kw_only=True)
class _WithLabelledTarget(Question):
    """A question that brings a labelled measure along."""

    target: Array
    target_weights: Array
    target_codes: Codes
    classes: str = ""

    def _check(self, points: Array, known: int) -> None:
        if self.target.ndim != 2 or self.target.shape[1] != points.shape[1]:
            raise MismatchError(
                "the target has another number of features than the records.",
                code="dimension-mismatch",
            )
        codes = self.target_codes
        if codes.shape != self.target.shape[:1] or codes.min() < 0 or codes.max() >= known:
            raise WireError("the target has codes of no class.", code="question-fields")


@dataclass(frozen=True, kw_only=True)
class InterpolateByClass(_WithLabelledTarget):
    """Class by class, the barycentric interpolant on the target's atoms.

    Every atom lies at ``t`` between the mean of the records transported to it (t = 0) and
    itself (t = 1). A class the holder does not have leaves its atoms where they are. ``scatter``
    is the transport cost from the records to those means, class by class.
    """

    kind: ClassVar[str] = "interpolate-by-class"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    t: float

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        codes, known, _ = codes_of(labels, self.classes, len(points))
        self._check(points, known)
        if not 0.0 <= self.t <= 1.0:
            raise WireError("t is not between 0 and 1.", code="question-fields")
        atoms = self.target.copy()
        scatter, masses = np.zeros(known), np.bincount(codes, weights, minlength=known)[:known]
        optimal = True
        for code in range(known):
            own = (codes == code) & (weights > 0)
            there = (self.target_codes == code) & (self.target_weights > 0)
            if not own.any() or not there.any():
                continue
            plan = exact_plan(
                points[own], self.target[there], weights[own], self.target_weights[there]
            )
            means = (plan.plan.T @ points[own]) / np.asarray(plan.plan.sum(axis=0)).reshape(-1, 1)
            atoms[there] = (1.0 - self.t) * means + self.t * self.target[there]
            # From differences to the means themselves: nothing cancels far from the origin.
            apart = paired_cost(points[own][plan.rows], means[plan.cols], 2)
            scatter[code] = float(plan.mass @ apart)
            optimal = optimal and plan.optimal
        return Answer({"atoms": atoms, "scatter": scatter, "masses": masses}, {"optimal": optimal})


@dataclass(frozen=True, kw_only=True)
class _WithClassMetric(_WithLabelledTarget):
    """A question that brings the distances between classes along too."""

    class_distances: Array
    class_slack: Array
    label_weight: float = 1.0

    def _label_distances(
        self, points: Array, target: Array, weights: Array, codes: Codes, new: int
    ) -> Array:
        """Squared distances from every class of the records to every class of the target."""
        between, slack = self.class_distances, self.class_slack
        fits = slack.ndim == 1 and between.shape == (len(slack), len(slack))
        if not fits or self.target_codes.max() >= len(slack):
            raise WireError("class distances do not fit the classes.", code="question-fields")
        sound = all(
            np.isfinite(part).all() and part.min() >= 0
            for part in (between, slack, np.array([self.label_weight]))
        )
        if not sound or not np.array_equal(between, between.T):
            raise WireError("class distances are no distances.", code="question-fields")
        rows = [between]
        for code in range(len(slack), len(slack) + new):
            members = codes == code
            mass = weights[members]
            # A class without mass still needs a place, for its records are scored too.
            share = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1.0 / len(mass))
            row = distances_to_classes(
                points[members], share, target, self.target_weights, self.target_codes,
                between, slack,
            )  # fmt: skip
            rows.append(row[None])
        return self.label_weight * np.vstack(rows) ** 2


@dataclass(frozen=True, kw_only=True)
class LabelledDistanceTo(_WithClassMetric):
    """``W_2`` of the labelled records and a labelled target: one number.

    Class distances of the coordinator's choice make that number tell the mass of a class, hence
    the level.
    """

    kind: ClassVar[str] = "labelled-distance-to"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE
    account: ClassVar[Account] = Account.CHOSEN

    def numbers(self, records: int, dimension: int) -> int:
        return 1

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        return self.solve(points, weights, labels)[0]

    def solve(
        self, points: Array, weights: Array, labels: Names | None
    ) -> tuple[Answer, ExactPlan, Array]:
        """The answer, the plan, and squared distances from all classes to those of the target."""
        codes, known, new = codes_of(labels, self.classes, len(points))
        self._check(points, known)
        share_names(codes, weights, known)
        squares = self._label_distances(points, self.target, weights, codes, new)
        plan, low, high = labelled_plan(
            points,
            self.target,
            weights,
            self.target_weights,
            squares[np.ix_(codes, self.target_codes)],
        )
        told: dict[str, Scalar] = {
            "distance": high**0.5,
            "distance_lower": low**0.5,
            "estimate": min(max(plan.cost, low), high) ** 0.5,
            "optimal": plan.optimal,
        }
        return Answer(scalars=told), plan, squares

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        share, doubled = self.largest_share(points, weights, labels)
        move = move_of(answer.number("distance"), share, 2)
        return {"distance": 2.0 * move if doubled else move}

    def largest_share(
        self, points: Array, weights: Array, labels: Names | None
    ) -> tuple[float, bool]:
        """Largest part of the cost that one record can have, and whether it moves others' too."""
        codes, _, new = codes_of(labels, self.classes, len(points))
        squares = self._label_distances(points, self.target, weights, codes, new)
        labels_share = float((weights * squares[codes].max(axis=1)).max())
        # A record of a class of its holder's own moves the place of that class as well.
        doubled = bool(new) or self.embedding != "none"
        return share_of(points, weights, self.target) + labels_share, doubled


register(ClassSizes, LabelledRecords, InterpolateByClass, LabelledDistanceTo)
