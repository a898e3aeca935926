"""A copy of a model from its predictions, and records from a model's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..federation.answer import Answer
from ..teaching.federated import ModelSpec
from ..teaching.federated.questions import CountLabelled
from ..teaching.questions import ClassFeatures, FitDensity
from ._case import Case
from ._clock import look
from ._evidence import Array, Guess, InapplicableError
from ._queries import law_of, queried, trained
from .result import NEEDS

_FEWEST = 20
_TREES = 100
_WORDS = 4096
_STILL = 1e-9


@dataclass(frozen=True)
class Copy:
    """How often a copy of a model gives the model's label, and what the commonest label scores."""

    agreement: float
    agreement_chance: float
    note: str = ""


def model_extraction(case: Case) -> Copy:
    """Train a copy on what was told; every second input tests it."""
    seen = queried(case)
    if len(seen.told) < _FEWEST:
        raise InapplicableError(
            f"{NEEDS}answers about {_FEWEST} inputs or more: {len(seen.told)} were seen"
        )
    look()
    # Slow to import.
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.feature_extraction.text import HashingVectorizer

    if seen.vectors is not None:
        inputs = seen.vectors
    else:
        hashed = HashingVectorizer(n_features=_WORDS).transform(seen.texts)
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


def parameter_inversion(case: Case) -> Guess:
    r"""What training moved a layer by is made of its inputs.

    For every unit of the first layer the change of the weights over the change of the bias is

    .. math:: \frac{\sum_i g_i x_i}{\sum_i g_i}

    with :math:`g_i` the gradient at record i: a record itself where one alone had a gradient, as
    in one step on one record, and a weighted mean of few where few had.
    """
    rows = [
        row
        for models in trained(case)
        if models.spec.kind != "cnn"
        for one, other in zip(models.after, models.before, strict=True)
        for row in _moved(models.spec, one, other) * models.scale + models.centre
    ]
    if not rows:
        raise InapplicableError("no parameters of a model were seen")
    found = np.vstack(rows)
    return Guess(
        found[np.isfinite(found).all(axis=1)],
        note="what training moved each unit of the first layer by: a record where one alone "
        "moved it, else a weighted mean",
    )


def _moved(spec: ModelSpec, after: Array, before: Array) -> Array:
    """Change of the weights over that of the bias, of units of the first layer that moved."""
    weights, bias = (
        one - other for one, other in zip(spec.split(after)[0], spec.split(before)[0], strict=True)
    )
    moved = np.abs(bias) > _STILL * max(float(np.abs(bias).max()), 1e-300)
    return (weights[:, moved] / bias[moved]).T


def class_means(case: Case) -> Guess:
    """Means of classes: of one record, where a class has one."""
    counts = np.zeros(0)
    found: list[tuple[Array, bool]] = []
    told = case.answered(CountLabelled, ClassFeatures, FitDensity)
    for question, answer in told:
        if isinstance(question, FitDensity):
            found += _of_classes(question, answer, counts)
        else:
            counts = np.asarray(answer.arrays["counts"], dtype=np.float64)
    if not found:
        cut = any(isinstance(question, FitDensity) and _cut(question) for question, _ in told)
        raise InapplicableError(
            "means were seen on fewer dimensions than records have"
            if cut
            else "no means of classes were seen"
        )
    rows, sure = zip(*found, strict=True)
    proven = np.array(sure)
    return Guess(
        np.stack(rows),
        certified=bool(proven.all()) if proven.any() else None,
        note="" if proven.all() else "a mean of all records of a class",
        sure=proven,
    )


def _cut(question: FitDensity) -> bool:
    return law_of(question).width < question.spec.inputs


def _of_classes(
    question: FitDensity, answer: Answer, counts: Array
) -> Iterator[tuple[Array, bool]]:
    """Means of classes, and whether they are of one record; none where they lack dimensions."""
    if _cut(question):
        return
    spec, law = question.spec, law_of(question)
    density = answer.array("density", ndim=1)
    masses, means = density[: law.classes], density[law.classes :][: law.classes * law.width]
    alone = counts == 1 if len(counts) == law.classes else np.zeros(law.classes, dtype=bool)
    for code in np.flatnonzero(masses > 0):
        mean = means.reshape(law.classes, -1)[code] * np.asarray(spec.scale) + spec.centre
        yield mean, bool(alone[code])
