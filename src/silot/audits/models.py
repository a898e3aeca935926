"""Attacks on models: a copy from their predictions, and records from their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from ..distillation.questions import (
    RESOLUTION,
    DescribeTeacher,
    Predict,
    ReleasePredictions,
    decode_texts,
    parse_texts,
)
from ..federation.answer import Answer
from ..teaching.federated import ModelSpec, initial
from ..teaching.questions import TrainDomain, TrainModel, TrainRound
from .case import Case, Labels
from .inversion import Array, Guess, InapplicableError
from .result import NEEDS
from .time_limit import check_time

Codes = npt.NDArray[np.intp]

# Fewest inputs of an extraction: half of them test the copy.
_FEWEST = 20
_TREES = 100
# Columns of hashed words, for inputs that are texts.
_WORDS = 4096
# Units whose bias moved by less than this share of the largest are not used: rounding rules them.
_STILL = 1e-9


@dataclass(frozen=True)
class Queried:
    """Predictions of a teacher, and their inputs."""

    predictions: Array = field(repr=False)
    """Probabilities (n, L), moved onto the simplex where noise took them off it."""
    vectors: Array | None = field(repr=False)
    """The inputs, unless they are texts."""
    texts: list[str] = field(repr=False)
    """The inputs, unless they are vectors."""
    labels: Sequence[str] | None = None
    """Names of the labels, where they were sent."""
    size: int | None = None
    """Number of records the model was trained on, where it was sent."""

    def places(self, points: Array) -> Codes:
        """Return which input each point is, or -1."""
        if self.vectors is None or self.vectors.shape[1] != points.shape[1]:
            return np.full(len(points), -1, dtype=np.intp)
        scale = float(np.abs(self.vectors).max()) or 1.0
        distance, places = cKDTree(self.vectors).query(points)
        return np.where(np.asarray(distance) <= 1e-9 * scale, places, -1).astype(np.intp)

    def around(self, points: Array, neighbours: int) -> Array | None:
        """Return the mean prediction for the inputs nearest to each point, without it (n, L)."""
        if self.vectors is None or len(self.vectors) <= neighbours + 1:
            return None
        scale = positive(self.vectors.std(axis=0))
        _, near = cKDTree(self.vectors / scale).query(points / scale, neighbours + 1)
        return self.predictions[np.asarray(near)[:, 1:]].mean(axis=1)


def positive(scale: Array) -> Array:
    """Replace the scale of constant columns by 1."""
    return np.where(scale > 0, scale, 1.0)


def queried(case: Case) -> Queried:
    """Collect all predictions of single inputs; raise where none travelled with its input."""
    pairs = _predictions(case)
    raised = np.maximum(np.vstack([prediction for _, prediction in pairs]), 0.0)
    total = raised.sum(axis=1, keepdims=True)
    flat = np.full_like(raised, 1.0 / raised.shape[1])
    # Noise may leave nothing above zero: then the prediction says nothing.
    predictions = np.where(total > 0, raised / np.where(total > 0, total, 1.0), flat)
    vectors = [question.vectors for question, _ in pairs if question.vectors.size]
    texts = [
        text
        for question, _ in pairs
        if not question.vectors.size
        for text in decode_texts(question.texts)
    ]
    labels, size = _described(case)
    return Queried(predictions, np.vstack(vectors) if vectors else None, texts, labels, size)


def _predictions(case: Case) -> list[tuple[Predict | ReleasePredictions, Array]]:
    """Return the questions that travelled with their inputs, and the predictions."""
    pairs = [
        (question, _probabilities(question, answer))
        for question, answer in case.answered(Predict, ReleasePredictions)
        if isinstance(question, Predict) or not question.mean
    ]
    if not pairs:
        raise InapplicableError("no predictions were seen")
    with_inputs = [(question, values) for question, values in pairs if not question.indices.size]
    if not with_inputs:
        raise InapplicableError(
            f"{NEEDS}the inputs, which were sent as positions in a shared transfer set"
        )
    return with_inputs


def _probabilities(question: Predict | ReleasePredictions, answer: Answer) -> Array:
    if isinstance(question, Predict):
        return answer.array("probabilities", ndim=2)
    return np.asarray(answer.arrays["noisy"], dtype=np.float64) / RESOLUTION


def _described(case: Case) -> tuple[Sequence[str] | None, int | None]:
    """Return the names of the labels and the size of the training set, where they were sent."""
    scalars = [answer.scalars for _, answer in case.answered(DescribeTeacher)]
    names = [name for one in scalars if isinstance(name := one.get("labels"), str)]
    sizes = [size for one in scalars if isinstance(size := one.get("size"), int)]
    return parse_texts(names[-1]) if names else None, sizes[-1] if sizes else None


def codes_of_labels(labels: Labels | None, names: Sequence[str] | None, count: int) -> Codes | None:
    """Code labels by name, or by order where names were not sent; ``None`` if they do not fit."""
    if labels is None:
        return None
    kinds = _names_of(labels, count) if names is None else names
    codes = {name: code for code, name in enumerate(kinds)}
    if len(codes) > count or not codes.keys() >= set(labels.tolist()):
        return None
    return np.array([codes[name] for name in labels.tolist()], dtype=np.intp)


def _names_of(labels: Labels, count: int) -> list[str]:
    """Return names in the order of codes: labels that are codes themselves stand for these."""
    names = [str(name) for name in np.unique(labels)]
    are_codes = all(name.isdecimal() and int(name) < count for name in names)
    return [str(code) for code in range(count)] if are_codes else names


@dataclass(frozen=True)
class Trained:
    """Models of one shape that a holder trained."""

    question: TrainModel | TrainDomain | TrainRound
    """The question that had them trained."""
    spec: ModelSpec
    """Their shape; records enter them as ``(x - centre) / scale``."""
    before: Array = field(repr=False)
    """Parameters before the training (k, P)."""
    after: Array = field(repr=False)
    """Parameters after the training (k, P)."""
    centre: Array = field(repr=False)
    scale: Array = field(repr=False)

    @property
    def is_complete(self) -> bool:
        """Whether all layers were sent: a head that stays with its holder is 0 here."""
        return not isinstance(self.question, TrainRound) or self.question.algorithm == "fedavg"


def trained(case: Case) -> list[Trained]:
    """Collect all models whose parameters were sent after training; raise where there is none."""
    models: list[Trained] = []
    for question, answer in case.answered(TrainModel, TrainDomain, TrainRound):
        if isinstance(question, TrainDomain):
            spec, before = ModelSpec.from_text(question.model), question.parameters
            after = answer.array("parameters", ndim=2)
            centre, scale = question.centre, question.scale
        elif "parameters" in answer.arrays:
            spec, start = question.spec, initial(question.spec, question.seed)
            if isinstance(question, TrainRound):
                start = question.start.astype(np.float64)
            end = answer.array("parameters", ndim=1, single=True)
            before, after = (np.pad(one, (0, spec.size - len(one)))[None] for one in (start, end))
            centre, scale = np.array(spec.centre), np.array(spec.scale)
        else:
            # The last round of a training trains nothing.
            continue
        models.append(Trained(question, spec, before, after, centre, scale))
    if not models:
        raise InapplicableError("no parameters of a model were seen")
    return models


@dataclass(frozen=True)
class Copy:
    """How often a copy of a model gives the model's label, and what the commonest label scores."""

    agreement: float
    agreement_chance: float
    note: str = ""


def model_extraction(case: Case) -> Copy:
    """Train a copy on one half of the predictions, and test it on the other."""
    answers = queried(case)
    predictions = answers.predictions
    if len(predictions) < _FEWEST:
        raise InapplicableError(
            f"{NEEDS}answers about {_FEWEST} inputs or more: {len(predictions)} were seen"
        )
    check_time()
    # Slow to import.
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.feature_extraction.text import HashingVectorizer

    if answers.vectors is not None:
        inputs = answers.vectors
    else:
        hashed = HashingVectorizer(n_features=_WORDS).transform(answers.texts)
        inputs = cast("Any", hashed).toarray()
    order = np.random.default_rng([case.seed, 22]).permutation(len(inputs))
    train, test = np.array_split(order, 2)
    copy = ExtraTreesRegressor(_TREES, random_state=case.seed).fit(
        inputs[train], predictions[train]
    )
    truth = predictions[test].argmax(axis=1)
    agreement = float(np.mean(copy.predict(inputs[test]).argmax(axis=1) == truth))
    commonest = np.bincount(predictions[train].argmax(axis=1)).argmax()
    return Copy(agreement, float(np.mean(truth == commonest)), f"from {len(train)} answers")


def parameter_inversion(case: Case) -> Guess:
    r"""Compute inputs from how training moved the first layer.

    For every unit of the first layer the change of the weights over the change of the bias is

    .. math:: \frac{\sum_i g_i x_i}{\sum_i g_i}

    with :math:`g_i` the gradient at record i: a record itself where one alone had a gradient, as
    in one step on one record, and a weighted mean of few where few had.
    """
    rows = [
        row
        for models in trained(case)
        if models.spec.kind != "cnn"
        for after, before in zip(models.after, models.before, strict=True)
        for row in _change_ratios(models.spec, after, before) * models.scale + models.centre
    ]
    if not rows:
        raise InapplicableError("no parameters of a model were seen")
    stacked = np.vstack(rows)
    return Guess(
        stacked[np.isfinite(stacked).all(axis=1)],
        note="the change of each unit of the first layer: a record if only one record "
        "changed the unit, otherwise a weighted mean of records",
    )


def _change_ratios(spec: ModelSpec, after: Array, before: Array) -> Array:
    """Divide the change of the weights by that of the bias, for units whose bias moved."""
    weights, bias = (
        new - old for new, old in zip(spec.split(after)[0], spec.split(before)[0], strict=True)
    )
    moved = np.abs(bias) > _STILL * max(float(np.abs(bias).max()), 1e-300)
    return (weights[:, moved] / bias[moved]).T
