"""What a holder's distance to a target is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from silot_transport import exact_plan
from silot_transport.classwise import labelled_plan
from silot_transport.decomposition import canonical_order, decompose

from ...data.measure import Embedding
from ...federation.answer import Answer
from ...federation.question import Array, Names, register
from .labelled import LabelledDistanceTo, codes_of, decode_classes


def features_of(width: int, embedding: Embedding) -> int:
    """How many of so many columns are features; the others are coordinates of labels.

    Examples
    --------
    >>> features_of(4, "none"), features_of(12, "diagonal"), features_of(24, "full")
    (4, 4, 4)
    """
    if embedding == "none":
        return width
    # Label vectors have 3 d columns, or 2 d + d^2.
    return round((width + 1) ** 0.5) - 1 if embedding == "full" else width // 3


@dataclass(frozen=True, kw_only=True)
class CostParts(LabelledDistanceTo):
    """Parts of the squared distance to a target: by column, of labels, and by class.

    ``columns`` (d,) and ``labels`` sum to the squared cost of an optimal plan. With ``classes``
    ``class_costs`` (C + 1,) do too, and ``masses`` (C + 1,) sum to 1: those of the classes asked
    about, and of all other classes together. ``label_weight`` 0 leaves labels out of the cost.

    Chosen targets make the parts tell means of features and masses of classes: each counts as a
    number the asker chose. They are more than half of the rank of any data, which is the most
    that a policy below level record ever tells.
    """

    kind: ClassVar[str] = "cost-parts"

    def numbers(self, records: int, dimension: int) -> int:
        classes = len(decode_classes(self.classes)) + 1 if self.classes else 0
        return dimension + 1 + 2 * classes

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        codes, known, new = codes_of(labels, self.classes, len(points))
        self._check(points, known)
        squares = None
        if self.label_weight > 0 and self.classes:
            # Before records are put in order: the distance that was told has these squares.
            squares = self._label_distances(points, self.target, weights, codes, new)
        here = canonical_order(points, weights, codes)
        there = canonical_order(self.target, self.target_weights, self.target_codes)
        x, a, own = points[here], weights[here], codes[here]
        y, b = self.target[there], self.target_weights[there]
        label_cost = None
        if squares is None:
            plan = exact_plan(x, y, a, b)
        else:
            label_cost = squares[np.ix_(own, self.target_codes[there])]
            plan, _, _ = labelled_plan(x, y, a, b, label_cost)
        found = decompose(
            plan,
            x,
            y,
            a,
            features=features_of(points.shape[1], self.embedding),
            label_cost=label_cost,
            codes=np.minimum(own, known),
            classes=known + 1,
        )
        arrays = {"columns": found.columns}
        if self.classes:
            arrays |= {"class_costs": found.classes, "masses": found.masses}
        return Answer(arrays, {"labels": found.labels})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        # When one record changes, another plan may be optimal, of other parts: what bounds their
        # moves is the whole cost alone, with what the record adds to it.
        distance = (float(answer.arrays["columns"].sum()) + answer.number("labels")) ** 0.5
        told = Answer(scalars={"distance": distance})
        most = (distance + super().moves(points, weights, labels, told)["distance"]) ** 2
        heaviest = float(weights.max() / weights.sum())
        mass = min(heaviest / (1.0 - heaviest), 1.0) if heaviest < 1 else 1.0
        return {"columns": most, "labels": most, "class_costs": most, "masses": mass}


register(CostParts)
