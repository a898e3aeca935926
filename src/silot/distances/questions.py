"""Questions that distances are made of: sizes, records, moments, interpolants, classes, errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from silot_transport import ExactPlan, Interpolant, cost_matrix, exact_plan, interpolate
from silot_transport import moments as moments_of
from silot_transport.classwise import distances_to_classes, labelled_plan
from silot_transport.cost import paired_cost
from silot_transport.decomposition import canonical_order, decompose
from silot_transport.geodesic import Interpolation
from silot_transport.resampling import FEWEST, corrected_cost, distinct_records, lots

from ..data.foreign import parse_json
from ..data.measure import Embedding
from ..errors import InputError, MismatchError, WireError
from ..federation.answer import Answer
from ..federation.disclosure import Disclosure
from ..federation.message import LARGEST_TEXT, Scalar
from ..federation.question import Array, Codes, Names, Question, register
from .verdict import add_verdict


@dataclass(frozen=True, kw_only=True)
class Describe(Question):
    """Size, dimension, and whether weights are uniform: what two parties need to agree."""

    kind: ClassVar[str] = "describe"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights[weights > 0]
        return Answer(
            scalars={
                "records": len(used),
                "dimension": points.shape[1],
                # Weights that were normalised differ in their last digits: a few thousand roundings
                # count as equal, and no weights that a user means to differ.
                "uniform": bool(np.ptp(used) <= 1e-12 * used.max()),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Records(Question):
    """The records themselves: pooling, the baseline every protocol is compared with."""

    kind: ClassVar[str] = "records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        # All of them is a view, and no copy: records may be large.
        used = slice(None) if (weights > 0).all() else weights > 0
        arrays: dict[str, npt.NDArray[Any]] = {"points": points[used], "weights": weights[used]}
        if self.embedding == "none" or labels is None:
            return Answer(arrays)
        # Coordinates of labels do not name them, and a class that is renamed is another one.
        names, codes = np.unique(labels[used], return_inverse=True)
        arrays["codes"] = codes.ravel().astype(np.int64)
        return Answer(arrays, {"classes": encode_classes([str(name) for name in names])})


@dataclass(frozen=True, kw_only=True)
class Moments(Question):
    """Mean and covariance, for the Gelbrich lower bound."""

    kind: ClassVar[str] = "moments"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        moments = moments_of(points, weights)
        return Answer({"mean": moments.mean, "covariance": moments.covariance})


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


@dataclass(frozen=True, kw_only=True)
class DistanceTo(_WithReference):
    """``W_p`` of the records and a reference: one number."""

    kind: ClassVar[str] = "distance-to"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self._check(points)
        plan = exact_plan(points, self.reference, weights, self.reference_weights, p=self.p)
        return Answer(
            # The upper end is sent as the distance: bounds that are built on it hold although a
            # plan may be short of optimal.
            scalars={"distance": plan.upper, "distance_lower": plan.lower, "optimal": plan.optimal}
        )


@dataclass(frozen=True, kw_only=True)
class Interpolate(_WithReference):
    """An interpolating measure between the records (t = 0) and a reference (t = 1).

    With ``on_reference`` a barycentric interpolant is supported on the reference's atoms, else
    on the records. ``scalars`` asks for the distance to the reference and the displacement too.
    Every record can be reconstructed from the answer.
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
            # On the reference every side has the same atoms, which FedWaD can walk on; on the
            # records a holder sends as many atoms as it has records.
            support="y" if self.on_reference else "x",
        )


@dataclass(frozen=True, kw_only=True)
class _WithTarget(Interpolate):
    """An interpolant that stays with the holder, compared with a target it is sent."""

    target: Array
    target_weights: Array

    def _collect_scalars(self, interpolant: Interpolant) -> dict[str, Scalar]:
        sent: dict[str, Scalar] = {"geodesic": interpolant.geodesic, "optimal": interpolant.optimal}
        if self.scalars:
            sent["displacement"] = interpolant.displacement
        return sent


@dataclass(frozen=True, kw_only=True)
class InterpolantDistance(_WithTarget):
    """``W_p`` of the interpolant and a target: one number."""

    kind: ClassVar[str] = "interpolant-distance"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        interpolant = self._interpolate(points, weights)
        plan = exact_plan(
            interpolant.atoms, self.target, interpolant.weights, self.target_weights, p=self.p
        )
        sent = self._collect_scalars(interpolant)
        sent["target_distance"] = plan.upper
        sent["target_lower"] = plan.lower
        # Two plans stand behind the number: it is proven only where both are.
        sent["optimal"] = interpolant.optimal and plan.optimal
        return Answer(scalars=sent)


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
        return Answer(
            {"costs": costs, "weights": interpolant.weights}, self._collect_scalars(interpolant)
        )


# Costs held at once: 32 MB of floats.


def encode_classes(names: list[str]) -> str:
    """Encode class names as one text, or raise an ``InputError`` where it is too long."""
    text = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > LARGEST_TEXT:
        raise InputError(
            f"{len(names)} classes have names of {len(text)} characters together; at most "
            f"{LARGEST_TEXT} fit. Are the labels classes, not numbers? Merge or rename them.",
            code="classes-many",
        )
    return text


def decode_classes(text: str) -> list[str]:
    """Decode class names, or raise a ``WireError`` where a text is not a list of them."""

    def fail(why: str) -> WireError:
        return WireError(
            f"class names are not a list of distinct texts ({why}). Install the same silot on "
            "both sides.",
            code="question-fields",
        )

    value = cast("object", parse_json(text, fail))
    names = cast("list[object]", value) if isinstance(value, list) else []
    texts = [name for name in names if isinstance(name, str)]
    # Two equal names would be one class with two codes; texts alone can be labels.
    if isinstance(value, list) and len(set(texts)) == len(texts) == len(names):
        return texts
    raise fail("something else")


def encode_labels(labels: Names | None, classes: str, size: int) -> tuple[Codes, int, int]:
    """Encode labels; return the codes, the number of listed classes, and that of all others.

    Classes that are not listed get the codes after the listed ones, in the order of their names.
    """
    # Without classes all records are of one, listed class: what computes by class needs no other
    # path.
    if not classes:
        return np.zeros(size, dtype=np.int64), 1, 0
    if labels is None:
        raise InputError("the records have no labels.", code="labels-absent")
    listed = decode_classes(classes)
    new = sorted(set(labels.tolist()) - set(listed))
    place = {name: code for code, name in enumerate([*listed, *new])}
    codes = np.array([place[name] for name in labels.tolist()], dtype=np.int64)
    return codes, len(listed), len(new)


@dataclass(frozen=True, kw_only=True)
class ClassSizes(Question):
    """Mass of every class. Without ``classes`` the holder sends the names of its own."""

    kind: ClassVar[str] = "class-sizes"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    classes: str = ""

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        if labels is None:
            raise InputError("the records have no labels.", code="labels-absent")
        used = weights > 0
        # Sorted: the order of the records must not show.
        text = self.classes or encode_classes(sorted(set(labels[used].tolist())))
        codes, size, _ = encode_labels(labels, text, len(points))
        # bincount of nothing counts in integers.
        masses = np.bincount(codes[used], weights[used], minlength=size).astype(np.float64)
        total = float(masses.sum())
        answer = {"masses": masses[:size] / total if total > 0 else masses[:size]}
        return Answer(answer, {} if self.classes else {"classes": text})


def check_shared_labels(codes: Codes, weights: Array, listed: int) -> None:
    """Raise where no record has a class of the question: other spellings look like errors."""
    if not (codes[weights > 0] < listed).any():
        raise MismatchError(
            "no record has any of the requested labels. Write labels in the same way on "
            "both sides, or compare without them.",
            code="labels-disjoint",
        )


@dataclass(frozen=True, kw_only=True)
class LabelledRecords(Question):
    """Records with the codes of their labels."""

    kind: ClassVar[str] = "labelled-records"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    classes: str = ""

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        used = weights > 0
        return Answer({"points": points[used], "weights": weights[used], "codes": codes[used]})


@dataclass(frozen=True, kw_only=True)
class _WithLabelledTarget(Question):
    """A question that brings a labelled measure along."""

    target: Array
    target_weights: Array
    target_codes: Codes
    classes: str = ""

    def _check(self, points: Array, listed: int) -> None:
        if self.target.ndim != 2 or self.target.shape[1] != points.shape[1]:
            raise MismatchError(
                "the target has another number of features than the records.",
                code="dimension-mismatch",
            )
        codes = self.target_codes
        if codes.shape != self.target.shape[:1] or codes.min() < 0 or codes.max() >= listed:
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
        codes, listed, _ = encode_labels(labels, self.classes, len(points))
        self._check(points, listed)
        if not 0.0 <= self.t <= 1.0:
            raise WireError("t is not between 0 and 1.", code="question-fields")
        atoms = self.target.copy()
        scatter, masses = np.zeros(listed), np.bincount(codes, weights, minlength=listed)[:listed]
        optimal = True
        for code in range(listed):
            own = (codes == code) & (weights > 0)
            goal = (self.target_codes == code) & (self.target_weights > 0)
            if not own.any() or not goal.any():
                continue
            plan = exact_plan(
                points[own], self.target[goal], weights[own], self.target_weights[goal]
            )
            # The barycentric projection onto the atoms: all that the other side needs of a plan, in
            # S numbers a column instead of n S.
            means = (plan.plan.T @ points[own]) / np.asarray(plan.plan.sum(axis=0)).reshape(-1, 1)
            atoms[goal] = (1.0 - self.t) * means + self.t * self.target[goal]
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

    def _square_label_distances(
        self, points: Array, target: Array, weights: Array, codes: Codes, new: int
    ) -> Array:
        """Compute squared distances from every class of the records to every one of the target."""
        between, slack = self.class_distances, self.class_slack
        fits = slack.ndim == 1 and between.shape == (len(slack), len(slack))
        if not fits or self.target_codes.max() >= len(slack):
            raise WireError("class distances do not fit the classes.", code="question-fields")
        is_metric = all(
            np.isfinite(part).all() and part.min() >= 0
            for part in (between, slack, np.array([self.label_weight]))
        )
        # Distances of a coordinator's choice change what the answer tells: at least they must be
        # distances.
        if not is_metric or not np.array_equal(between, between.T):
            raise WireError("class distances are not distances.", code="question-fields")
        rows = [between]
        for code in range(len(slack), len(slack) + new):
            members = codes == code
            mass = weights[members]
            # A class without mass still needs a place, for its records are scored too.
            share = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1.0 / len(mass))
            # A class that only the holder has is placed by the records of it, as the coordinator
            # placed the others by the records of the target.
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
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        return self.solve(points, weights, labels)[0]

    def solve(
        self, points: Array, weights: Array, labels: Names | None
    ) -> tuple[Answer, ExactPlan, Array]:
        """Return the answer, the plan, and squared distances from all classes to the target's."""
        codes, listed, new = encode_labels(labels, self.classes, len(points))
        self._check(points, listed)
        check_shared_labels(codes, weights, listed)
        squares = self._square_label_distances(points, self.target, weights, codes, new)
        plan, low, high = labelled_plan(
            points,
            self.target,
            weights,
            self.target_weights,
            squares[np.ix_(codes, self.target_codes)],
        )
        scalars: dict[str, Scalar] = {
            "distance": high**0.5,
            "distance_lower": low**0.5,
            "estimate": min(max(plan.cost, low), high) ** 0.5,
            "optimal": plan.optimal,
        }
        return Answer(scalars=scalars), plan, squares


def count_features(width: int, embedding: Embedding) -> int:
    """Count the features among columns; the others are coordinates of labels.

    Examples
    --------
    >>> count_features(4, "none"), count_features(12, "diagonal"), count_features(24, "full")
    (4, 4, 4)
    """
    if embedding == "none":
        return width
    # Label vectors have 3 d columns with diagonal covariances, 2 d + d^2 with full ones.
    return round((width + 1) ** 0.5) - 1 if embedding == "full" else width // 3


@dataclass(frozen=True, kw_only=True)
class CostParts(LabelledDistanceTo):
    """Parts of the squared distance to a target: by column, of labels, and by class.

    ``columns`` (d,) and ``labels`` sum to the squared cost of an optimal plan. With ``classes``
    ``class_costs`` (C + 1,) do too, and ``masses`` (C + 1,) sum to 1: those of the classes asked
    about, and of all other classes together. ``label_weight`` 0 leaves labels out of the cost.

    Whoever chooses the target learns means of features and masses of classes from the parts: each
    part counts as a number the asker chose. They are more than half of the rank of any data,
    which is the most that a policy below level record ever discloses.
    """

    kind: ClassVar[str] = "cost-parts"

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        codes, listed, new = encode_labels(labels, self.classes, len(points))
        self._check(points, listed)
        squares = None
        if self.label_weight > 0 and self.classes:
            # Before records are put in order: these are the squares of the distance sent before.
            squares = self._square_label_distances(points, self.target, weights, codes, new)
        rows = canonical_order(points, weights, codes)
        columns = canonical_order(self.target, self.target_weights, self.target_codes)
        x, a, own = points[rows], weights[rows], codes[rows]
        y, b = self.target[columns], self.target_weights[columns]
        label_cost = None
        if squares is None:
            plan = exact_plan(x, y, a, b)
        else:
            label_cost = squares[np.ix_(own, self.target_codes[columns])]
            plan, _, _ = labelled_plan(x, y, a, b, label_cost)
        parts = decompose(
            plan,
            x,
            y,
            a,
            features=count_features(points.shape[1], self.embedding),
            label_cost=label_cost,
            # All classes that were not asked about are one: how many a holder has besides is not
            # disclosed.
            codes=np.minimum(own, listed),
            classes=listed + 1,
        )
        arrays = {"columns": parts.columns}
        if self.classes:
            arrays |= {"class_costs": parts.classes, "masses": parts.masses}
        return Answer(arrays, {"labels": parts.labels})


@dataclass(frozen=True, kw_only=True)
class DistanceWithError(DistanceTo):
    """``W_2`` of the records and a reference, its error, and the verdict of a test.

    ``corrected`` is the distance without the bias of a finite sample, ``margin`` half the length
    of the 95 % interval of its square, ``approximate`` says whether heavy tails or few records may
    make that too short, and ``size`` how many records of their own they count for. With ``tested``,
    for a reference that is a sample, the verdict says
    whether both are of one distribution (``silot.distances.verdict``). Holders of few records send
    no error.
    """

    kind: ClassVar[str] = "distance-with-error"

    tested: bool = True

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self._check(points)
        plan = exact_plan(points, self.reference, weights, self.reference_weights, p=self.p)
        answer = Answer(
            scalars={
                "distance": plan.upper,
                "distance_lower": plan.lower,
                "optimal": plan.optimal,
            }
        )
        codes = np.zeros(len(points), dtype=np.int64)
        # Without labels all records are of one class, as in all that computes by class.
        goal = np.zeros(len(self.reference), dtype=np.int64)
        target = (self.reference, self.reference_weights, goal)
        if self.p == 2:
            errors = _estimate_errors(points, weights, codes, target, plan, None)
            answer = replace(answer, scalars={**answer.scalars, **errors})
        # A barycenter is no sample: nothing can be tested with it.
        if not self.tested:
            return answer
        return add_verdict(answer, (points, weights, codes), target, self.embedding)


@dataclass(frozen=True, kw_only=True)
class LabelledDistanceWithError(LabelledDistanceTo):
    """``W_2`` of the labelled records and a labelled target, its error, and a verdict.

    As ``DistanceWithError``; the test compares classes too.
    """

    kind: ClassVar[str] = "labelled-distance-with-error"

    tested: bool = True

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        answer, plan, squares = self.solve(points, weights, labels)
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        target = (self.target, self.target_weights, self.target_codes)
        errors = _estimate_errors(points, weights, codes, target, plan, squares)
        answer = replace(answer, scalars={**answer.scalars, **errors})
        if not self.tested:
            return answer
        return add_verdict(answer, (points, weights, codes), target, self.embedding)


def _estimate_errors(
    points: Array, weights: Array, codes: Codes, target: tuple[Array, Array, Codes],
    plan: ExactPlan, squares: Array | None,
) -> dict[str, Scalar]:  # fmt: skip
    """Estimate the errors that an answer sends beside the distance."""
    used = np.flatnonzero(weights > 0)
    places = used[distinct_records(points[used], weights[used], codes[used])]
    own, masses, kinds = points[places], weights[places] / weights[places].sum(), codes[places]
    # Kish's effective size: weights make a sample count for less.
    size = 1.0 / float(masses @ masses)
    if size < FEWEST:
        return {}
    if len(places) < len(points):
        f, g = plan.potentials
        plan = replace(plan, potentials=(f[places], g))
    used = target[1] > 0
    atoms, loads, classes = target[0][used], target[1][used], target[2][used]
    loads = loads / loads.sum()
    label_cost = None if squares is None else squares[np.ix_(kinds, classes)]
    # The halves are drawn from the records themselves, so that the same ones give the same error.
    order = lots(own, masses, kinds)
    # Plans of halves of the sample bound the cost from above on average, and their potentials at
    # the other half from below (Mak, Morton and Wood, 1999): the estimate lies between the two.
    estimate = corrected_cost(own, masses, label_cost, (atoms, loads), plan, order)
    return {
        "corrected": max(estimate.cost, 0.0) ** 0.5,
        "margin": estimate.margin,
        "approximate": estimate.is_approximate,
        "size": size,
    }


register(
    Describe, Records, Moments, DistanceTo, Interpolate, InterpolantDistance, InterpolantCosts,
    ClassSizes, LabelledRecords, InterpolateByClass, LabelledDistanceTo, CostParts,
    DistanceWithError, LabelledDistanceWithError,
)  # fmt: skip
