"""Inputs a model was asked about, and what it said."""

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
from ._case import Case
from ._evidence import Array
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
    texts: list[str] | None = field(repr=False)
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


def queried(case: Case) -> Queried | str:
    """All predictions of single inputs that were told, or why there are none."""
    if not case.outside:
        return "no predictions were seen"
    told: list[Array] = []
    vectors: list[Array] = []
    texts: list[str] = []
    labels: Sequence[str] | None = None
    size: int | None = None
    by_place = False
    for item in case.view.about(case.target):
        question, answer = item.question, item.answer
        if answer is None:
            continue
        if isinstance(question, DescribeTeacher):
            names, count = answer.scalars.get("labels"), answer.scalars.get("size")
            labels = json.loads(names) if isinstance(names, str) else labels
            size = count if isinstance(count, int) else size
        if not isinstance(question, Predict | ReleasePredictions):
            continue
        if isinstance(question, ReleasePredictions) and question.mean:
            continue
        if question.indices.size:
            by_place = True
            continue
        if isinstance(question, Predict):
            said = answer.array("probabilities", ndim=2)
        else:
            said = np.asarray(answer.arrays["noisy"], dtype=np.float64) / RESOLUTION
        told.append(said)
        if question.vectors.size:
            vectors.append(question.vectors)
        else:
            texts += decode_texts(question.texts)
    if not told:
        if by_place:
            return f"{NEEDS}the inputs, which travelled as places in a shared transfer set"
        return "no predictions were seen"
    raised = np.maximum(np.vstack(told), 0.0)
    total = raised.sum(axis=1, keepdims=True)
    flat = np.full_like(raised, 1.0 / raised.shape[1])
    said = np.where(total > 0, raised / np.where(total > 0, total, 1.0), flat)
    return Queried(said, np.vstack(vectors) if vectors else None, texts or None, labels, size)


def codes_of_candidates(
    labels: npt.NDArray[np.str_] | None, names: Sequence[str] | None, count: int
) -> Codes | None:
    """Codes of labels by name; by order where names were not told. ``None`` if they do not fit."""
    if labels is None:
        return None
    if names is None:
        kinds: list[str] = [str(name) for name in np.unique(labels)]
        if all(name.isdecimal() and int(name) < count for name in kinds):
            kinds = [str(code) for code in range(count)]
    else:
        kinds = list(names)
    known = {name: code for code, name in enumerate(kinds)}
    if len(known) > count or not all(name in known for name in labels.tolist()):
        return None
    return np.array([known[name] for name in labels.tolist()], dtype=np.intp)
