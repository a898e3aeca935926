"""Questions about how far to believe models where: features by class, and where records lie.

Classes, ``unlabelled`` and ``least`` are as in ``learning.questions.models``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...distances.questions import decode_classes, encode_labels
from ...errors import InputError, WireError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.question import Array, Names, register
from ..federated import DensitySpec, fit_density, random_features
from ..federated.features import in_units
from ..federated.questions.models import AboutLabelled, AboutModel, nothing


@dataclass(frozen=True, kw_only=True)
class ClassFeatures(AboutLabelled):
    """Means of random features: of all records, and of the labelled ones class by class.

    Columns are divided by ``scale`` first, where there is one.
    ``means`` has a row a class, of zeros where ``counts`` is 0. A class tells fewer numbers than
    its records have, over ``least``, or none: more could be solved for the records.

    Level record: the mean of all records less those of large classes is that of a rare class.
    """

    kind: ClassVar[str] = "class-features"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    features: int
    bandwidth: float
    seed: int = 0
    scale: Array = field(default_factory=nothing)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights > 0
        records = in_units(points[used], self.scale)
        fewest = self.least * self.features / points.shape[1] if self.least > 1 else 1.0
        if len(records) < fewest:
            raise InputError(
                f"{self.features} numbers are too many for the records.", code="answer-fine"
            )
        lifted = random_features(
            records, features=self.features, bandwidth=self.bandwidth, seed=self.seed
        )
        known = len(decode_classes(self.classes))
        codes = np.full(len(records), known, dtype=np.int64)
        if labels is not None:
            names = labels[used]
            found, _, _ = encode_labels(names, self.classes, len(records))
            codes = np.where((found < known) & (names != self.unlabelled), found, known)
        counts = self._told(codes)[:known]
        counts = np.where(counts >= fewest, counts, 0)
        means = np.zeros((known, self.features))
        for code in np.flatnonzero(counts):
            means[code] = lifted[codes == code].mean(axis=0)
        return Answer({"mean": lifted.mean(axis=0), "means": means, "counts": counts})


@dataclass(frozen=True, kw_only=True)
class FitDensity(AboutModel, AboutLabelled):
    """Where the labelled records lie: a Gaussian a class on a public random projection.

    Level record: beside the mean of all records it tells what rare classes hold.
    """

    kind: ClassVar[str] = "fit-density"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    dimensions: int = 16
    seed: int = 0

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec = self.spec
        records, codes = self.labelled(points, weights, labels)
        kept = self._told(codes)[codes] > 0
        if not kept.any():
            raise InputError("no class has enough records.", code="records-few")
        law = DensitySpec(spec.inputs, spec.classes, self.dimensions, self.seed)
        return Answer({"density": fit_density(law, spec.scaled(records[kept]), codes[kept])})


def models_of(parameters: Array) -> Array:
    """Rows of parameters, or a ``WireError``."""
    if parameters.ndim != 2 or len(parameters) == 0:
        raise WireError("models are no rows of parameters.", code="question-fields")
    return parameters


register(ClassFeatures, FitDensity)
