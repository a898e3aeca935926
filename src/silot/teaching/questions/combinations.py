"""Questions about combinations of models: how far they agree, what they see, how good they are.

Answers are statistics of many records. Still, whoever brings the models along can bring ones
that single a record out, answer by answer: all these questions are of level record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np

from ...distances.questions import encode_labels
from ...errors import InputError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.question import Array, Names, Subject, register
from ..federated import Combination, DensitySpec, Rule, probabilities
from ..federated.questions.models import AboutLabelled, AboutModel, described
from .models import models_of


def _none() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True, kw_only=True)
class Disagreement(AboutModel):
    r"""Mean squared difference of models on the records: :math:`E |h_i(x) - h_k(x)|^2`, (S, S)."""

    kind: ClassVar[str] = "disagreement"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    parameters: Array

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec = self.spec
        models = models_of(self.parameters)
        records = points[weights > 0]
        told = np.stack([probabilities(spec, row, records).ravel() for row in models])
        products = told @ told.T
        norms = np.diag(products)
        squares = np.maximum(norms[:, None] + norms[None, :] - 2.0 * products, 0.0)
        np.fill_diagonal(squares, 0.0)
        return Answer({"squares": 0.5 * (squares + squares.T) / len(records)})


@dataclass(frozen=True, kw_only=True)
class EvaluateCombination(AboutModel, AboutLabelled):
    """Accuracy of a combination of models (``learning.combine``) on the evaluation records.

    Records of classes outside the list count as mistakes. ``densities`` is (S, D) for the rule
    ``"density"``, and ``factors`` (S, C); both are (0, 0) for none.
    """

    kind: ClassVar[str] = "evaluate-combination"
    on: ClassVar[Subject] = "evaluation"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    parameters: Array
    weights: Array
    rule: str = "output"
    densities: Array = field(default_factory=_none)
    dimensions: int = 16
    density_seed: int = 0
    sharpness: float = 1.0
    factors: Array = field(default_factory=_none)

    def combination(self) -> Combination:
        """The combination the question brings along."""
        spec = self.spec
        law = None
        if self.rule == "density":
            law = DensitySpec(
                spec.inputs, spec.classes, self.dimensions, self.density_seed, self.sharpness
            )
        return Combination(
            spec=spec,
            parameters=models_of(self.parameters),
            weights=self.weights,
            rule=cast("Rule", self.rule),
            density=law,
            densities=None if law is None else self.densities,
            factors=self.factors if self.factors.size else None,
        )

    @classmethod
    def about(cls, model: Combination, **fields: Any) -> Self:
        """The question about a combination."""
        law = model.density
        if law is not None and model.densities is not None:
            fields |= {
                "densities": model.densities,
                "dimensions": law.dimensions,
                "density_seed": law.seed,
                "sharpness": law.sharpness,
            }
        if model.factors is not None:
            fields["factors"] = model.factors
        return cls(
            **described(model.spec),
            parameters=model.parameters,
            weights=model.weights,
            rule=model.rule,
            **fields,
        )

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        if labels is None:
            raise InputError("the evaluation records have no labels.", code="labels-absent")
        used = (weights > 0) & (labels != self.unlabelled)
        if used.sum() < max(self.least, 1):
            # The asker says which label stands for none, and could leave a single record.
            raise InputError("too few evaluation records have a label.", code="labels-few")
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        right = self.combination().probabilities(points[used]).argmax(axis=1) == codes[used]
        return Answer(scalars={"accuracy": float(right.mean())})


register(Disagreement, EvaluateCombination)
