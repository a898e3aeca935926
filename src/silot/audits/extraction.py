"""A copy of a model from its predictions, and records from a model's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..learning import DensitySpec, ModelSpec
from ..learning import initial as initial_parameters
from ..teaching.questions.divergences import TrainDomain
from ..teaching.questions.models import ClassFeatures, CountLabelled, FitDensity, TrainModel
from ._case import Case
from ._clock import look
from ._evidence import Array, Guess
from ._queries import queried
from .result import NEEDS

_FEWEST = 20
_TREES = 100
_WORDS = 4096
_STILL = 1e-9


@dataclass(frozen=True)
class Copy:
    """How often a copy of a model gives the model's label, and what the commonest label scores."""

    agreement: float
    chance: float
    note: str = ""


def model_extraction(case: Case) -> Copy | str:
    """Train a copy on what was told; every second input tests it."""
    seen = queried(case)
    if isinstance(seen, str):
        return seen
    if len(seen.told) < _FEWEST:
        return f"{NEEDS}answers about {_FEWEST} inputs or more: {len(seen.told)} were seen"
    look()
    # Slow to import.
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.feature_extraction.text import HashingVectorizer

    if seen.vectors is not None:
        inputs = seen.vectors
    else:
        hashed = HashingVectorizer(n_features=_WORDS).transform(seen.texts or [])
        inputs = cast("Any", hashed).toarray()
    order = np.random.default_rng([case.seed, 22]).permutation(len(inputs))
    learnt, tested = np.array_split(order, 2)
    copy = ExtraTreesRegressor(_TREES, random_state=case.seed).fit(
        inputs[learnt], seen.told[learnt]
    )
    truth = seen.told[tested].argmax(axis=1)
    same = float(np.mean(copy.predict(inputs[tested]).argmax(axis=1) == truth))
    commonest = np.bincount(seen.told[learnt].argmax(axis=1)).argmax()
    return Copy(same, float(np.mean(truth == commonest)), f"from {len(learnt)} answers")


def parameter_inversion(case: Case) -> Guess | str:
    r"""What training moved a layer by is made of its inputs.

    For every unit of the first layer the change of the weights over the change of the bias is

    .. math:: \frac{\sum_i g_i x_i}{\sum_i g_i}

    with :math:`g_i` the gradient at record i: a record itself where one alone had a gradient, as
    in one step on one record, and a weighted mean of few where few had.
    """
    if not case.outside:
        return "no parameters of a model were seen"
    rows: list[Array] = []
    for item in case.view.about(case.target):
        question, answer = item.question, item.answer
        if answer is None or not isinstance(question, TrainModel | TrainDomain):
            continue
        plain = isinstance(question, TrainModel)
        spec = question.spec if plain else ModelSpec.from_text(question.model)
        if spec.kind == "cnn":
            continue
        if plain:
            after = answer.array("parameters", ndim=1)[None]
            start = question.start if question.start.size else None
            before = (initial_parameters(spec, question.seed) if start is None else start)[None]
            low, wide = np.array(spec.centre), np.array(spec.scale)
        else:
            after, before = answer.array("parameters", ndim=2), question.parameters
            low, wide = question.centre, question.scale
        for one, other in zip(after, before, strict=True):
            weights, bias = (
                a - b for a, b in zip(spec.split(one)[0], spec.split(other)[0], strict=True)
            )
            moved = np.abs(bias) > _STILL * max(float(np.abs(bias).max()), 1e-300)
            if moved.any():
                rows.append((weights[:, moved] / bias[moved]).T * wide + low)
    if not rows:
        return "no parameters of a model were seen"
    found = np.vstack(rows)
    return Guess(
        found[np.isfinite(found).all(axis=1)],
        note="what training moved each unit of the first layer by: a record where one alone "
        "moved it, else a weighted mean",
    )


def class_means(case: Case) -> Guess | str:
    """Means of classes: of one record, where a class has one."""
    if not case.outside:
        return "no means of classes were seen"
    counts: Array | None = None
    rows: list[Array] = []
    sure: list[bool] = []
    cut = False
    for item in case.view.about(case.target):
        question, answer = item.question, item.answer
        if answer is None:
            continue
        if isinstance(question, CountLabelled | ClassFeatures):
            counts = np.asarray(answer.arrays["counts"], dtype=np.float64)
        if not isinstance(question, FitDensity):
            continue
        spec = question.spec
        law = DensitySpec(spec.inputs, spec.classes, question.dimensions, question.seed)
        if law.width < spec.inputs:
            cut = True
            continue
        density = answer.array("density", ndim=1)
        masses, means = density[: law.classes], density[law.classes :][: law.classes * law.width]
        for code in np.flatnonzero(masses > 0):
            rows.append(means.reshape(law.classes, -1)[code] * np.asarray(spec.scale) + spec.centre)
            alone = counts is not None and len(counts) == law.classes and counts[code] == 1
            sure.append(bool(alone))
    if not rows:
        return (
            "means were seen on fewer dimensions than records have"
            if cut
            else ("no means of classes were seen")
        )
    proven = np.array(sure)
    return Guess(
        np.stack(rows),
        certified=bool(proven.all()) if proven.any() else None,
        note="" if proven.all() else "a mean of all records of a class",
        sure=proven,
    )
