"""What holders are compared with: validation data, or a barycenter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from silot_transport.classwise import class_distances

from ...data.measure import Embedding, Measure, label_vectors
from ...federation.answer import Answer, Array
from ...federation.protocol import COORDINATOR, required
from ...federation.question import Answerer, Question
from ..questions.distances import DistanceTo
from ..questions.labelled import (
    ClassSizes,
    Codes,
    LabelledDistanceTo,
    LabelledRecords,
    decode_classes,
    encode_classes,
)
from ..questions.uncertainty import DistanceWithError, LabelledDistanceWithError
from .answers import FoundBarycenter

LabelMetric = Literal["none", "classes", "vectors"]


@dataclass(frozen=True)
class Target:
    """A measure all holders are compared with.

    Attributes
    ----------
    atoms, weights, codes
        Shapes (m, d), (m,) and (m,); ``codes`` are positions in ``classes``.
    classes
        Class names, empty without labels.
    by_class
        Whether distances between classes are part of the cost.
    size
        Records behind it, for the chance error of its class proportions.
    variance
        Squared distance to the best single point, as far as the features go.
    metric
        Distances between classes (C, C).
    """

    atoms: Array
    weights: Array
    codes: Codes
    classes: tuple[str, ...]
    by_class: bool
    size: float
    variance: float
    metric: Array

    @classmethod
    def of_validation(cls, own: Answerer, labels: LabelMetric, embedding: Embedding) -> Self:
        """The coordinator's own measure; whatever is wrong with it is raised as it is."""
        classes: tuple[str, ...] = ()
        if labels != "none":
            classes = tuple(decode_classes(str(_own(own, ClassSizes()).scalars["classes"])))
        text = encode_classes(list(classes)) if classes else ""
        answer = _own(own, LabelledRecords(classes=text, embedding=embedding))
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
            metric=_metric(atoms, weights, codes, classes if by_class else ()),
        )

    @classmethod
    def of_barycenter(cls, found: FoundBarycenter) -> Self:
        """The barycenter of the holders. Its variance is that of their records around its mean."""
        centre = found.centre
        mean = centre.weights @ centre.atoms
        return cls(
            centre.atoms,
            centre.weights,
            centre.codes,
            found.classes,
            bool(found.classes),
            size=float(sum(found.described.records[name] for name in found.names)),
            variance=centre.objective_at(np.broadcast_to(mean, centre.atoms.shape)),
            metric=_metric(centre.atoms, centre.weights, centre.codes, found.classes),
        )

    def cloud(self, embedding: Embedding) -> tuple[Array, Array]:
        """Atoms and weights, with label vectors where labels were apart from the features."""
        if not self.by_class or embedding == "none":
            return self.atoms, self.weights
        labels = np.array(self.classes)[self.codes]
        labelled = Measure(self.atoms, self.weights, labels)
        return label_vectors(labelled, covariance=embedding), self.weights

    @property
    def text(self) -> str:
        """Class names as they travel."""
        return encode_classes(list(self.classes)) if self.classes else ""

    def spread(self, label_weight: float) -> float:
        """Distance to one point: the mean, with the most central class."""
        squared = self.variance
        if self.by_class:
            masses = np.bincount(self.codes, self.weights, minlength=len(self.classes))
            squared += label_weight * float((self.metric**2 @ masses).min())
        return squared**0.5

    def reweighted(self, told: Array, records: int, tolerance: float) -> Array:
        """Weights with a holder's class proportions, as far as chance explains them.

        Proportions are moved towards the holder's by at most ``tolerance`` standard errors of
        their difference.
        """
        known = np.bincount(self.codes, self.weights, minlength=len(self.classes))
        if told.sum() <= 0:
            # A holder with none of the classes is compared with the target as it is.
            return self.weights
        shared = np.clip((told * records + known * self.size) / (records + self.size), 0.0, 1.0)
        error = np.sqrt(shared * (1.0 - shared) * (1.0 / records + 1.0 / self.size))
        room = tolerance * error
        apart = told / told.sum() - known
        # One step for all classes, so that proportions still sum to 1 and none is moved too far.
        moves = np.abs(apart) > room
        step = float((room[moves] / np.abs(apart[moves])).min()) if moves.any() else 1.0
        return self.weights * ((known + step * apart) / known)[self.codes]

    def distance_question(
        self,
        label_weight: float,
        embedding: Embedding,
        *,
        with_error: bool = False,
        sample: bool = False,
        matched: bool = False,
    ) -> Question:
        """Ask a holder for its distance, and what chance has to do with it.

        ``sample`` says that the target is one, ``matched`` that it has the classes' proportions
        of the holder.
        """
        used = self.weights > 0
        if not self.by_class:
            whole: dict[str, Any] = {
                "reference": self.atoms[used],
                "reference_weights": self.weights[used],
                "embedding": embedding,
            }
            if with_error:
                return DistanceWithError(**whole, with_chance=sample)
            return DistanceTo(**whole)
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
            return LabelledDistanceWithError(**labelled, with_chance=sample, matched=matched)
        return LabelledDistanceTo(**labelled)


def _metric(atoms: Array, weights: Array, codes: Codes, classes: tuple[str, ...]) -> Array:
    return class_distances(atoms, weights, codes, len(classes)) if classes else np.zeros((1, 1))


def _own(own: Answerer, question: Question) -> Answer:
    return required({COORDINATOR: own.answer(question)}, COORDINATOR)
