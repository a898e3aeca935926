"""What was told of models: what they say of inputs, and their parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from ..distillation.questions import (
    RESOLUTION,
    DescribeTeacher,
    Predict,
    ReleasePredictions,
    decode_texts,
)
from ..federation.answer import Answer
from ..teaching.federated import DensitySpec, ModelSpec, initial
from ..teaching.federated.questions import TrainModel, TrainRound
from ..teaching.questions import FitDensity, TrainDomain
from ._case import Case
from ._evidence import Array, InapplicableError
from .result import NEEDS

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Queried:
    """What a teacher said of which inputs.

    Attributes
    ----------
    told
        Probabilities (n, L), moved onto the simplex where noise took them off it.
    vectors, texts
        The inputs: one of the two.
    labels
        Names of the labels, where they were told.
    size
        How many records the model was trained on, where that was told.
    """

    told: Array = field(repr=False)
    vectors: Array | None = field(repr=False)
    texts: list[str] = field(repr=False)
    labels: Sequence[str] | None = None
    size: int | None = None

    def places(self, points: Array) -> Codes:
        """Which input each point is, or -1."""
        if self.vectors is None or self.vectors.shape[1] != points.shape[1]:
            return np.full(len(points), -1, dtype=np.intp)
        scale = float(np.abs(self.vectors).max()) or 1.0
        apart, places = cKDTree(self.vectors).query(points)
        return np.where(np.asarray(apart) <= 1e-9 * scale, places, -1).astype(np.intp)

    def around(self, points: Array, neighbours: int) -> Array | None:
        """Mean prediction for the inputs nearest to each point, itself left out (n, L)."""
        if self.vectors is None or len(self.vectors) <= neighbours + 1:
            return None
        scale = self.vectors.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        _, near = cKDTree(self.vectors / scale).query(points / scale, neighbours + 1)
        return self.told[np.asarray(near)[:, 1:]].mean(axis=1)


def queried(case: Case) -> Queried:
    """All predictions of single inputs that were told."""
    told = _told(case)
    raised = np.maximum(np.vstack([said for _, said in told]), 0.0)
    total = raised.sum(axis=1, keepdims=True)
    flat = np.full_like(raised, 1.0 / raised.shape[1])
    said = np.where(total > 0, raised / np.where(total > 0, total, 1.0), flat)
    vectors = [question.vectors for question, _ in told if question.vectors.size]
    texts = [
        text
        for question, _ in told
        if not question.vectors.size
        for text in decode_texts(question.texts)
    ]
    labels, size = _described(case)
    return Queried(said, np.vstack(vectors) if vectors else None, texts, labels, size)


def _told(case: Case) -> list[tuple[Predict | ReleasePredictions, Array]]:
    """Questions about single inputs that travelled with them, and what the model said."""
    asked = [
        (question, _said(question, answer))
        for question, answer in case.answered(Predict, ReleasePredictions)
        if isinstance(question, Predict) or not question.mean
    ]
    told = [(question, said) for question, said in asked if not question.indices.size]
    if not asked:
        raise InapplicableError("no predictions were seen")
    if not told:
        raise InapplicableError(
            f"{NEEDS}the inputs, which travelled as places in a shared transfer set"
        )
    return told


def _said(question: Predict | ReleasePredictions, answer: Answer) -> Array:
    if isinstance(question, Predict):
        return answer.array("probabilities", ndim=2)
    return np.asarray(answer.arrays["noisy"], dtype=np.float64) / RESOLUTION


def _described(case: Case) -> tuple[Sequence[str] | None, int | None]:
    """Names of the labels and the size of the training set, where they were told."""
    told = [answer.scalars for _, answer in case.answered(DescribeTeacher)]
    names = [name for one in told if isinstance(name := one.get("labels"), str)]
    sizes = [size for one in told if isinstance(size := one.get("size"), int)]
    return json.loads(names[-1]) if names else None, sizes[-1] if sizes else None


def codes_of_candidates(
    labels: npt.NDArray[np.str_] | None, names: Sequence[str] | None, count: int
) -> Codes | None:
    """Codes of labels by name; by order where names were not told. ``None`` if they do not fit."""
    if labels is None:
        return None
    kinds = _kinds(labels, count) if names is None else names
    known = {name: code for code, name in enumerate(kinds)}
    if len(known) > count or not known.keys() >= set(labels.tolist()):
        return None
    return np.array([known[name] for name in labels.tolist()], dtype=np.intp)


def _kinds(labels: npt.NDArray[np.str_], count: int) -> list[str]:
    """Names in the order of codes: labels that are codes themselves stand for these."""
    kinds = [str(name) for name in np.unique(labels)]
    codes = all(name.isdecimal() and int(name) < count for name in kinds)
    return [str(code) for code in range(count)] if codes else kinds


@dataclass(frozen=True)
class Trained:
    """Models of one shape that a holder trained.

    Attributes
    ----------
    question
        How it was asked to train them.
    spec
        Their shape; records enter them as ``(x - centre) / scale``.
    before, after
        Parameters before and after the training (k, P).
    """

    question: TrainModel | TrainDomain | TrainRound
    spec: ModelSpec
    before: Array = field(repr=False)
    after: Array = field(repr=False)
    centre: Array = field(repr=False)
    scale: Array = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether all layers were told: a head that stays with its holder is 0 here."""
        return not isinstance(self.question, TrainRound) or self.question.algorithm == "fedavg"


def trained(case: Case) -> list[Trained]:
    """All models whose parameters were told after training, at least one."""
    found: list[Trained] = []
    for question, answer in case.answered(TrainModel, TrainDomain, TrainRound):
        if isinstance(question, TrainDomain):
            spec, before = ModelSpec.from_text(question.model), question.parameters
            after = answer.array("parameters", ndim=2)
            centre, scale = question.centre, question.scale
        elif "parameters" in answer.arrays:
            spec, start = question.spec, question.start
            if isinstance(question, TrainModel) and not start.size:
                start = initial(spec, question.seed)
            told = answer.array("parameters", ndim=1)
            before, after = (
                np.pad(each, (0, spec.size - len(each)))[None] for each in (start, told)
            )
            centre, scale = np.array(spec.centre), np.array(spec.scale)
        else:
            # The last round of a training trains nothing.
            continue
        found.append(Trained(question, spec, before, after, centre, scale))
    if not found:
        raise InapplicableError("no parameters of a model were seen")
    return found


def law_of(question: FitDensity) -> DensitySpec:
    """The shape of a density that a question asks for."""
    spec = question.spec
    return DensitySpec(spec.inputs, spec.classes, question.dimensions, question.seed)
