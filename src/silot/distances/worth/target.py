"""What holders are compared with, and how their answers about it are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from silot_transport.classwise import class_distances

from ...data.measure import Embedding, Measure, label_vectors
from ...federation.answer import Answer, Array, Failure, build_malformed_error
from ...federation.protocol import COORDINATOR, Steps, failure_error, required
from ...federation.question import Answerer, Question
from ..cost_parts import Parts, name_other_classes
from ..questions import (
    ClassSizes,
    Codes,
    CostParts,
    DistanceTo,
    DistanceWithError,
    LabelledDistanceTo,
    LabelledDistanceWithError,
    LabelledRecords,
    count_features,
    decode_classes,
    encode_classes,
)
from ..result import Distance
from ..sides import ROUNDING
from ..verdict import read_verdict

LabelMetric = Literal["none", "classes", "vectors"]


@dataclass(frozen=True)
class Target:
    """A measure all holders are compared with."""

    atoms: Array
    """Shape (m, d)."""
    weights: Array
    """Shape (m,)."""
    codes: Codes
    """Shape (m,): positions in ``classes``."""
    classes: tuple[str, ...]
    """Class names, empty without labels."""
    by_class: bool
    """Whether distances between classes are part of the cost."""
    size: float
    """Records behind it, for the standard error of its class proportions."""
    variance: float
    """Squared distance to the best single point, as far as the features go."""
    metric: Array
    """Distances between classes (C, C)."""

    @classmethod
    def of_validation(cls, own: Answerer, labels: LabelMetric, embedding: Embedding) -> Self:
        """Read the coordinator's own measure; whatever is wrong with it is raised as it is."""
        classes: tuple[str, ...] = ()
        if labels != "none":
            classes = tuple(decode_classes(str(_request_own(own, ClassSizes()).scalars["classes"])))
        text = encode_classes(list(classes)) if classes else ""
        answer = _request_own(own, LabelledRecords(classes=text, embedding=embedding))
        atoms, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        weights = weights / weights.sum()
        mean = weights @ atoms
        codes: Codes = answer.arrays["codes"]
        by_class = labels == "classes"
        return cls(
            atoms,
            weights,
            codes,
            classes,
            by_class,
            # Kish's effective size: weights make a sample count for less.
            size=1.0 / float(np.sum(weights**2)),
            variance=float(weights @ np.sum((atoms - mean) ** 2, axis=1)),
            metric=compute_class_metric(atoms, weights, codes, classes if by_class else ()),
        )

    def embed(self, embedding: Embedding) -> tuple[Array, Array]:
        """Return atoms and weights, with label vectors where labels are apart from the features."""
        if not self.by_class or embedding == "none":
            return self.atoms, self.weights
        labels = np.array(self.classes)[self.codes]
        labelled = Measure(self.atoms, self.weights, labels)
        return label_vectors(labelled, covariance=embedding), self.weights

    @property
    def text(self) -> str:
        """Class names as one text, the way they travel."""
        return encode_classes(list(self.classes)) if self.classes else ""

    def measure_spread(self, label_weight: float) -> float:
        """Compute the distance to one point: the mean, with the most central class."""
        squared = self.variance
        if self.by_class:
            masses = np.bincount(self.codes, self.weights, minlength=len(self.classes))
            # The best single point has a class too: the one with the least mean squared distance to
            # all others.
            squared += label_weight * float((self.metric**2 @ masses).min())
        return squared**0.5

    def reweight(self, proportions: Array, records: int, tolerance: float) -> Array:
        """Compute weights with a holder's class proportions, as far as sampling explains them.

        Proportions of the target are moved towards the holder's by at most ``tolerance``
        standard errors of their difference.
        """
        own = np.bincount(self.codes, self.weights, minlength=len(self.classes))
        if proportions.sum() <= 0:
            # A holder with none of the classes is compared with the target as it is.
            return self.weights
        # If both have the same proportions, those of all records together estimate them best.
        pooled = (proportions * records + own * self.size) / (records + self.size)
        shared = np.clip(pooled, 0.0, 1.0)
        error = np.sqrt(shared * (1.0 - shared) * (1.0 / records + 1.0 / self.size))
        # The standard error of a difference of two proportions, from their pooled estimate.
        room = tolerance * error
        apart = proportions / proportions.sum() - own
        # One step for all classes, so that proportions still sum to 1 and none is moved too far.
        moves = np.abs(apart) > room
        step = float((room[moves] / np.abs(apart[moves])).min()) if moves.any() else 1.0
        return self.weights * ((own + step * apart) / own)[self.codes]

    def build_question(
        self,
        label_weight: float,
        embedding: Embedding,
        *,
        with_error: bool = False,
        sample: bool = False,
    ) -> Question:
        """Build the question about a holder's distance, and about its error.

        ``sample`` says that the target is a sample, which the holder's records can be tested with.
        """
        used = self.weights > 0
        if not self.by_class:
            plain: dict[str, Any] = {
                "reference": self.atoms[used],
                "reference_weights": self.weights[used],
                "embedding": embedding,
            }
            if with_error:
                return DistanceWithError(**plain, tested=sample)
            return DistanceTo(**plain)
        labelled: dict[str, Any] = {
            "target": self.atoms[used],
            "target_weights": self.weights[used],
            "target_codes": self.codes[used],
            "classes": self.text,
            "class_distances": self.metric,
            "class_slack": np.zeros(len(self.metric)),
            "label_weight": label_weight,
            "embedding": embedding,
        }
        if with_error:
            return LabelledDistanceWithError(**labelled, tested=sample)
        return LabelledDistanceTo(**labelled)


def compute_class_metric(
    atoms: Array, weights: Array, codes: Codes, classes: tuple[str, ...]
) -> Array:
    """Compute the distances between classes (C, C); a single zero without classes."""
    return class_distances(atoms, weights, codes, len(classes)) if classes else np.zeros((1, 1))


def _request_own(own: Answerer, question: Question) -> Answer:
    return required({COORDINATOR: own.answer(question)}, COORDINATOR)


def read_class_masses(answer: Answer, classes: int) -> Array:
    """Read the masses of classes: parts of a holder's mass, all zero where it has none."""
    masses = answer.array("masses", ndim=1)
    if masses.shape != (classes,) or masses.min() < 0 or masses.sum() > 1 + 1e-6:
        raise build_malformed_error("weights that do not match the requested classes")
    return masses


def read_distance(answer: Answer, name: str, target: str, seed: int) -> Distance:
    """Read a distance that a holder computed, which lies between its bounds."""
    upper, lower = answer.number("distance"), answer.number("distance_lower")
    optimal, estimate = answer.flag("optimal"), answer.optional_number("estimate")
    value = upper if estimate is None else estimate
    status = "converged: exact, computed by the holder"
    # A holder that breaks its own bounds is faulty or dishonest: nothing else it says can be used.
    if not lower <= value <= upper:
        raise failure_error(name, Failure("answer-malformed"))
    return Distance(
        value=value,
        lower=lower,
        upper=upper,
        method="target",
        status=(
            status if optimal else "stopped: the plan was not proven optimal, rescale the features"
        ),
        converged=optimal,
        holders=(name, target),
        p=2,
        seed=seed,
        # The holder tested its records with the target: no record came here.
        test=read_verdict(answer),
    )


def request_parts(
    targets: Mapping[str, Target],
    distances: Mapping[str, Distance],
    label_weight: float,
    embedding: Embedding,
) -> Steps[dict[str, Parts | Failure]]:
    """Request what the distances of holders to a target are made of."""
    answers = yield {
        name: build_parts_question(target, label_weight, embedding)
        for name, target in targets.items()
    }
    parts: dict[str, Parts | Failure] = {}
    for name, target in targets.items():
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Answer):
            parts[name] = _read_parts(answer, target, distances[name], embedding)
        else:
            parts[name] = answer
    return parts


def build_parts_question(target: Target, label_weight: float, embedding: Embedding) -> CostParts:
    """Build the question about parts that goes with ``target.build_question``."""
    used = target.weights > 0
    size = max(len(target.classes), 1)
    return CostParts(
        target=target.atoms[used],
        target_weights=target.weights[used],
        target_codes=target.codes[used],
        classes=target.text,
        class_distances=target.metric if target.by_class else np.zeros((size, size)),
        class_slack=np.zeros(size),
        label_weight=label_weight if target.by_class else 0.0,
        embedding=embedding,
    )


def _read_parts(answer: Answer, target: Target, distance: Distance, embedding: Embedding) -> Parts:
    """Read the parts of a distance, which must sum to the distance that the holder sent before."""
    features = count_features(target.atoms.shape[1], embedding)
    columns = answer.array("columns", ndim=1, columns=features)
    labels = answer.number("labels")
    labelled = target.by_class or embedding != "none"
    cost = float(columns.sum()) + labels
    # Where a plan is not proven optimal, another order of the records may give another.
    slack = ROUNDING if distance.converged else 1.0
    # Parts are those of the squared distance, and are compared with the squares of its bounds.
    low, high = distance.lower**2 * (1.0 - slack), distance.upper**2 * (1.0 + slack)
    if columns.min() < 0 or not low <= cost <= high or labels * (not labelled):
        raise build_malformed_error("parts that do not sum to the distance it sent")
    if not target.classes:
        return Parts.of_costs(columns, labels if labelled else None)
    costs, masses = _read_class_parts(answer, len(target.classes) + 1, cost)
    return Parts.of_costs(
        columns,
        labels,
        classes=[*target.classes, name_other_classes(target.classes)],
        class_costs=costs,
        masses=masses,
    )


def _read_class_parts(answer: Answer, size: int, cost: float) -> tuple[Array, Array]:
    """Read costs and masses of classes; the costs must sum to those of the columns."""
    costs = answer.array("class_costs", ndim=1, columns=size)
    masses = answer.array("masses", ndim=1, columns=size)
    off = abs(float(masses.sum()) - 1.0) > ROUNDING
    off = off or abs(float(costs.sum()) - cost) > ROUNDING * cost
    if costs.min() < 0 or masses.min() < 0 or off:
        raise build_malformed_error("parts of classes that do not sum to the distance it sent")
    return costs, masses
