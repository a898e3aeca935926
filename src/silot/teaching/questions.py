"""Questions about records, about labelled records, and about models that are trained on them.

Classes travel as codes into a list of names both sides know. Records whose label is
``unlabelled`` (empty by default), and all records of a holder without labels, have no class;
records of classes outside the list take no part where classes matter. Records of weight 0 never
do, and all others count alike.

In federated training every holder holds part of its records out, the same in all rounds of a run:
no model trains on them, and accuracies are theirs. ``flagged`` are places of records that are not
trained on either; those that were held out stay, so that accuracies with and without them are of
the same records.

Questions that bring classifiers or models along are of level record all the same, though their
answers are statistics of many records: whoever chooses the models can single a record out, answer
by answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypedDict, cast

import numpy as np

from ..distances.questions import decode_classes, encode_classes, encode_labels
from ..errors import InputError, MismatchError, WireError
from ..federation.answer import Answer
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.question import Array, Codes, Names, Question, Singles, Subject, register
from .federated import Model, ModelSpec, Rule, probabilities, random_features, train
from .federated.features import in_units
from .federated.training import (
    ALGORITHMS,
    InRound,
    Training,
    cross_predictions,
    descend,
    initial,
    local_round,
    network,
    personal,
    shared_size,
)

MOST_FEATURES = 1 << 16
# Of random features.
MOST_SEED = 1 << 62
_MOST_ITERATIONS = 100_000
_MOST_STEPS = 1_000_000
# Classifiers in one question: devices of one network that a device is compared with.
_MOST_CLASSIFIERS = 4096
_LEAST_PROBABILITY = 1e-12
# Changes of models in one question.
_MOST_CHANGES = 4096
MOST_LOG_ODDS = -math.log(_LEAST_PROBABILITY)
# Rows of features held at once.
_CHUNK = 4096


@dataclass(frozen=True, kw_only=True)
class Spread(Question):
    """Mean and variance of every feature."""

    kind: ClassVar[str] = "spread"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        mean = weights @ points
        variance = weights @ (points - mean) ** 2
        return Answer({"mean": mean, "variance": variance})


def nothing() -> Array:
    """Return the array of a question that has none."""
    return np.zeros(0)


def singles(parameters: Array) -> Singles:
    """Parameters as they travel, in single precision: half the bytes, and what torch has."""
    with np.errstate(over="ignore"):
        return parameters.astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class AboutLabelled(Question):
    """A question about labelled records; what is not labelled has the label ``unlabelled``."""

    classes: str = ""
    unlabelled: str = ""

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def labelled(self, points: Array, weights: Array, labels: Names | None) -> tuple[Array, Codes]:
        """Return the records of the classes in the list, and their codes."""
        if labels is None:
            raise InputError("the records have no labels.", code="labels-absent")
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        listed = codes < len(decode_classes(self.classes))
        used = (weights > 0) & listed & (labels != self.unlabelled)
        if not used.any():
            raise InputError("no record has a label of a known class.", code="labels-absent")
        return points[used], codes[used]

    def class_counts(self, codes: Codes) -> Codes:
        """Count the records of each class."""
        counts = np.bincount(codes, minlength=len(decode_classes(self.classes)))
        return counts.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CountLabelled(AboutLabelled):
    """How many records have a label, how many have none, and how wide they are.

    Without ``classes`` the holder names its own. ``centre`` and ``variance`` are the mean of all
    numbers of all records, and the sum of the features' variances.
    """

    kind: ClassVar[str] = "count-labelled"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights > 0
        labelled = np.array([], dtype=np.str_) if labels is None else labels[used]
        names, sizes = np.unique(labelled[labelled != self.unlabelled], return_counts=True)
        numbers = {
            str(name): int(size) for name, size in zip(names.tolist(), sizes.tolist(), strict=True)
        }
        text = self.classes or encode_classes(sorted(numbers))
        counts = np.array([numbers.get(name, 0) for name in decode_classes(text)], dtype=np.int64)
        records = points[used]
        scalars: dict[str, Scalar] = {
            "labelled": int(counts.sum()),
            "unlabelled": int(used.sum() - sizes.sum()),
            "dimension": points.shape[1],
            "centre": float(records.mean()),
            "variance": float(records.var(axis=0).sum()),
        }
        if not self.classes:
            scalars["classes"] = text
        return Answer({"counts": counts}, scalars)


@dataclass(frozen=True, kw_only=True)
class AboutModel(Question):
    """A question that describes a model: its architecture, and the units of its inputs.

    ``units`` has the centres and the scales of all columns, (2, d), where these differ.
    """

    model: str
    units: Array = field(default_factory=nothing)

    @property
    def spec(self) -> ModelSpec:
        """The description."""
        spec = ModelSpec.from_text(self.model)
        if not self.units.size:
            return spec
        if self.units.shape != (2, spec.inputs):
            raise WireError("units are not those of the model.", code="question-fields")
        centre, scale = (tuple(row) for row in self.units.tolist())
        return replace(spec, centre=centre, scale=scale)


class Described(TypedDict):
    """Fields of a question about a model."""

    model: str
    units: Array


def described(spec: ModelSpec) -> Described:
    """Describe a model for a question, whose text must be short: units of columns are arrays."""
    if isinstance(spec.centre, float) and isinstance(spec.scale, float):
        return {"model": spec.to_text(), "units": nothing()}
    parts = (np.asarray(spec.centre), np.asarray(spec.scale))
    units = np.stack([np.broadcast_to(part, spec.inputs) for part in parts])
    return {"model": replace(spec, centre=0.0, scale=1.0).to_text(), "units": units}


@dataclass(frozen=True, kw_only=True)
class AboutTraining(AboutModel, AboutLabelled):
    """A question that says how a model is trained on labelled records, from a start by ``seed``."""

    iterations: int = 100
    passes: float = 0.0
    batch: int = 10
    rate: float = 0.01
    momentum: float = 0.0
    folds: int = 0
    seed: int = 0

    @property
    def training(self) -> Training:
        """The options of ``train``."""
        return Training(
            iterations=self.iterations, passes=self.passes, batch=self.batch, rate=self.rate,
            momentum=self.momentum, seed=self.seed,
        )  # fmt: skip

    def held_out(self, spec: ModelSpec, records: Array, codes: Codes) -> Array | None:
        """Predict records by models trained without them, where ``folds`` says so."""
        folds = min(self.folds, len(records))
        if folds < 2:
            return None
        start = initial(spec, self.seed)
        return cross_predictions(spec, start, records, codes, folds=folds, **self.training)


@dataclass(frozen=True, kw_only=True)
class TrainModel(AboutTraining):
    """Train a model on the labelled records; tell its parameters and its errors.

    ``error`` is the error on the very records the model was trained on. With ``folds`` of two or
    more, ``held_out`` is the error of models trained without the records they are tested on.

    Level record: parameters after few steps on few records can be inverted (a gradient of a
    layer is a combination of its inputs), and nobody has shown that they give no record away.
    """

    kind: ClassVar[str] = "train-model"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec = self.spec
        records, codes = self.labelled(points, weights, labels)
        steps = max(self.iterations, self.passes * len(records) / max(self.batch, 1))
        _bounded(steps <= _MOST_STEPS and self.folds >= 0)
        trained = train(spec, initial(spec, self.seed), records, codes, **self.training)
        outputs = {
            "error": probabilities(spec, trained, records),
            "held_out": self.held_out(spec, records, codes),
        }
        scalars: dict[str, Scalar] = {
            name: float((rows.argmax(axis=1) != codes).mean())
            for name, rows in outputs.items()
            if rows is not None
        }
        return Answer({"parameters": singles(trained)}, scalars)


@dataclass(frozen=True)
class _Parts:
    """Records to train on, and records held out, as they enter the model."""

    inputs: Array
    codes: Codes
    held: Array
    held_codes: Codes


@dataclass(frozen=True, kw_only=True)
class _Training(AboutModel, AboutLabelled):
    """What both questions say."""

    level: ClassVar[Disclosure] = Disclosure.RECORD

    algorithm: str = "fedavg"
    passes: float = 1.0
    head_passes: float = 0.0
    batch: int = 10
    rate: float = 0.01
    momentum: float = 0.0
    held_out: float = 0.0
    flagged: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    seed: int = 0
    split: int = 0

    @property
    def in_round(self) -> InRound:
        return InRound(
            self.passes, self.head_passes, self.batch, self.rate, self.momentum, self.seed
        )

    def _parts(
        self, spec: ModelSpec, points: Array, weights: Array, labels: Names | None
    ) -> _Parts:
        """Split the records; a ``WireError`` for fields that no coordinator of silot sends."""
        kept = np.ones(len(points), dtype=bool)
        if self.flagged.ndim != 1 or (
            self.flagged.size and not 0 <= self.flagged.min() <= self.flagged.max() < len(points)
        ):
            raise WireError("flagged records are not among the records.", code="question-fields")
        kept[self.flagged] = False
        # The places of records travel beside them through what drops some of them.
        numbered = np.column_stack([points, kept])
        rows, codes = self.labelled(numbered, weights, labels)
        records, kept = rows[:, :-1], rows[:, -1] > 0
        steps = max(self.passes, self.head_passes) * len(records) / max(self.batch, 1)
        _bounded(
            self.algorithm in ALGORITHMS
            and 0 <= steps <= _MOST_STEPS
            and min(self.passes, self.head_passes, self.split, self.seed) >= 0
            and 0 <= self.held_out < 1
            and self.batch >= 1
            and self.rate > 0
            and 0 <= self.momentum < 1
            and records.shape[1] == spec.inputs
        )
        order = np.random.default_rng([self.split, 7]).permutation(len(records))
        held = np.zeros(len(records), dtype=bool)
        held[order[: int(self.held_out * len(records) + 1e-9)]] = True
        train = kept & ~held
        if not train.any():
            raise InputError(
                "all records that would be trained on are flagged.", code="records-flagged"
            )
        scaled = spec.scaled(records)
        return _Parts(scaled[train], codes[train], scaled[held], codes[held])


def _right(spec: ModelSpec, model: Array, parts: _Parts) -> dict[str, Scalar]:
    """Count the records trained on, and those held out that a model gets right; sum their loss."""
    right, loss = 0, 0.0
    if len(parts.held):
        outputs = network(spec).probabilities(model, parts.held)
        right = int((outputs.argmax(axis=1) == parts.held_codes).sum())
        chances = outputs[np.arange(len(outputs)), parts.held_codes]
        loss = float(-np.log(np.maximum(chances, _LEAST_PROBABILITY)).sum())
    tests = len(parts.held_codes)
    return {"records": len(parts.codes), "right": right, "tests": tests, "loss": loss}


@dataclass(frozen=True, kw_only=True)
class TrainRound(_Training):
    """Train from what is shared, tell what it has become, and how good it was before.

    ``start`` are the parameters that the ``algorithm`` shares: all layers, or all but the head,
    which is fitted first. ``right`` of ``tests`` records that were held out are those that the
    model at the start of the round, with that head, gets right, and ``loss`` is their summed
    cross-entropy. With no ``passes`` nothing is trained, and no parameters are sent; with
    ``personal_passes`` the holder trains on by itself, and ``personal`` are those that it then gets
    right.

    Level record: parameters after few steps on few records can be inverted.
    """

    kind: ClassVar[str] = "train-round"

    start: Singles
    personal_passes: float = 0.0

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec, how = self.spec, self.in_round
        parts = self._parts(spec, points, weights, labels)
        steps = self.personal_passes * len(parts.codes) / self.batch
        if (
            self.start.shape != (shared_size(spec, self.algorithm),)
            or not 0 <= steps <= _MOST_STEPS
        ):
            raise WireError("parameters do not fit the model.", code="question-fields")
        model = self.start.astype(np.float64)
        if self.algorithm != "fedavg":
            model = personal(spec, model, parts.inputs, parts.codes, how)
        numbers = _right(spec, model, parts)
        if self.personal_passes > 0:
            own = descend(spec, model, parts.inputs, parts.codes, how, self.personal_passes)
            numbers["personal"] = _right(spec, own, parts)["right"]
        if self.passes == 0:
            return Answer({}, numbers)
        trained = local_round(spec, self.algorithm, model, parts.inputs, parts.codes, how)
        return Answer({"parameters": singles(trained)}, numbers)


@dataclass(frozen=True, kw_only=True)
class TrainAlone(_Training):
    """Train a model of one's own from the common start, and tell how good it is, no more."""

    kind: ClassVar[str] = "train-alone"

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec, how = self.spec, self.in_round
        parts = self._parts(spec, points, weights, labels)
        start = initial(spec, self.split)
        model = descend(spec, start, parts.inputs, parts.codes, how, how.passes)
        return Answer({}, _right(spec, model, parts))


@dataclass(frozen=True, kw_only=True)
class MeanFeatures(Question):
    r"""Mean of random Fourier features of the records.

    .. math:: \phi(x) = \sqrt{2 / D}\, [\cos(\omega_k^T x), \sin(\omega_k^T x)]_{k \le D / 2},
        \quad \omega_k \sim N(0, h^{-2} I)

    so that :math:`\phi(x)^T \phi(y)` estimates :math:`e^{-|x - y|^2 / 2 h^2}` and
    :math:`|\phi(x)| = 1`. ``squares`` is :math:`\sum_i w_i^2`, for the unbiased correction.
    Columns are divided by ``scale`` first, if any.
    """

    kind: ClassVar[str] = "mean-features"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    features: int
    bandwidth: float
    seed: int
    scale: Array = field(default_factory=nothing)

    def check_fields(self) -> None:
        _bounded(0 < self.features <= MOST_FEATURES and self.features % 2 == 0)
        _bounded(bool(((self.scale > 0) & np.isfinite(self.scale)).all()))
        _bounded(0 < self.bandwidth < np.inf and 0 <= self.seed <= MOST_SEED)

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self.check_fields()
        moved = in_units(points, self.scale)
        mean = np.zeros(self.features)
        for first in range(0, len(points), _CHUNK):
            rows = slice(first, first + _CHUNK)
            mean += weights[rows] @ random_features(
                moved[rows], features=self.features, bandwidth=self.bandwidth, seed=self.seed
            )
        return Answer({"mean": mean}, {"squares": float(weights @ weights)})


@dataclass(frozen=True, kw_only=True)
class _AboutDomains(Question):
    """A question about domain classifiers, one a row, that a holder shares with others.

    Records are shifted by ``centre`` and divided by ``scale``; ``sides`` are the labels that all
    of them have for each classifier.
    """

    level: ClassVar[Disclosure] = Disclosure.RECORD

    model: str
    parameters: Array
    sides: Codes
    centre: Array
    scale: Array

    def _moved(self, points: Array, weights: Array) -> tuple[Array, Array]:
        """Records of positive weight in the units of the model, and their weights."""
        fits = self.parameters.ndim == 2 and self.sides.shape == (len(self.parameters),)
        _bounded(fits and 0 < len(self.sides) <= _MOST_CLASSIFIERS)
        _bounded(bool(np.isin(self.sides, (0, 1)).all() and np.isfinite(self.parameters).all()))
        if self.centre.shape != points.shape[1:] or self.scale.shape != points.shape[1:]:
            raise MismatchError(
                "the classifier has another number of features than the records.",
                code="dimension-mismatch",
            )
        _bounded(bool(np.isfinite(self.centre).all()) and bool((self.scale > 0).all()))
        used = weights > 0
        return (points[used] - self.centre) / self.scale, weights[used]

    def _log_odds(self, points: Array, weights: Array) -> tuple[Array, Array]:
        """Log odds of side 1, shape (classifiers, records), and the records' weights."""
        spec = ModelSpec.from_text(self.model)
        moved, masses = self._moved(points, weights)
        odds = np.empty((len(self.sides), len(moved)))
        for row, parameters in enumerate(self.parameters):
            logs = np.log(np.maximum(probabilities(spec, parameters, moved), _LEAST_PROBABILITY))
            odds[row] = logs[:, 1] - logs[:, 0]
        return odds, masses


@dataclass(frozen=True, kw_only=True)
class TrainDomain(_AboutDomains):
    """Training of domain classifiers: the records all have the label ``sides`` gives.

    The answer is the parameters after ``iterations`` of stochastic gradient descent. Parameters of
    a model trained on few records for few iterations can be inverted: gradients of a layer on a
    batch are combinations of its inputs.
    """

    kind: ClassVar[str] = "train-domain"

    seeds: Codes
    iterations: int
    batch: int
    rate: float
    momentum: float = 0.0

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec = ModelSpec.from_text(self.model)
        moved, masses = self._moved(points, weights)
        _bounded(self.seeds.shape == self.sides.shape and bool((self.seeds >= 0).all()))
        _bounded(0 < self.iterations <= _MOST_ITERATIONS and self.batch > 0)
        trained = np.empty_like(self.parameters)
        for row, seed in enumerate(self.seeds.tolist()):
            records = _resampled(moved, masses, seed)
            trained[row] = train(
                spec,
                self.parameters[row],
                records,
                np.full(len(records), self.sides[row], dtype=np.int64),
                iterations=self.iterations,
                batch=self.batch,
                rate=self.rate,
                momentum=self.momentum,
                seed=seed,
            )
        return Answer({"parameters": trained})


@dataclass(frozen=True, kw_only=True)
class DomainScores(_AboutDomains):
    """Quantile functions of the log odds of side 1, averaged over equal steps.

    Steps are ``quantiles``, or the number of records where they are fewer.

    Level record: log odds of a linear classifier are coordinates, and the finest steps are
    records.
    """

    kind: ClassVar[str] = "domain-scores"

    quantiles: int

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        _bounded(1 < self.quantiles <= MOST_FEATURES)
        odds, masses = self._log_odds(points, weights)
        # No more steps than records of the heaviest weight make up the mass.
        steps = min(self.quantiles, int(1.0 / float(weights.max()) + 1e-9))
        return Answer({"scores": _step_means(odds, masses, steps)})


@dataclass(frozen=True, kw_only=True)
class DomainErrors(_AboutDomains):
    """Share of the mass that each domain classifier takes for the other side's.

    A record is taken for side 1 where its log odds exceed the classifier's entry of
    ``thresholds``.

    Level record: enough classifiers that part space find where each record lies.
    """

    kind: ClassVar[str] = "domain-errors"

    thresholds: Array

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        _bounded(self.thresholds.shape == self.sides.shape)
        _bounded(bool((np.abs(self.thresholds) <= MOST_LOG_ODDS).all()))
        odds, masses = self._log_odds(points, weights)
        above = odds - self.thresholds[:, None]
        # A classifier that cannot decide is wrong half of the time, whichever the side.
        # Summed row by row: a matrix product would round by how many classifiers there are.
        as_side_one = ((np.sign(above) + 1.0) / 2.0 * masses).sum(axis=1) / masses.sum()
        errors = np.abs(as_side_one - self.sides)
        return Answer({"errors": np.clip(errors, 0.0, 1.0)})


def _step_means(values: Array, weights: Array, steps: int) -> Array:
    """Average the quantile functions of every row of values over equal steps of mass."""
    edges = np.linspace(0.0, 1.0, steps + 1)
    means = np.empty((len(values), steps))
    for row, line in enumerate(values):
        order = np.argsort(line, kind="stable")
        mass = np.concatenate([[0.0], np.cumsum(weights[order])])
        middle = float(weights @ line)
        # Around the middle: the integral of large numbers would lose what they differ by.
        integral = np.concatenate([[0.0], np.cumsum(weights[order] * (line[order] - middle))])
        at = cast("Array", np.interp(edges * mass[-1], mass, integral))
        means[row] = (at[1:] - at[:-1]) * steps + middle
    return means


def _resampled(points: Array, weights: Array, seed: int) -> Array:
    """Records as often as they weigh: training takes each as one."""
    if float(np.ptp(weights)) <= 1e-12 * float(weights.max()):
        return points
    rng = np.random.default_rng([seed, 41])
    return points[rng.choice(len(points), size=len(points), p=weights / weights.sum())]


def _bounded(holds: bool) -> None:
    if not holds:
        raise WireError("a field of the question is out of range.", code="question-fields")


@dataclass(frozen=True, kw_only=True)
class ClassFeatures(AboutLabelled):
    """Means of random features: of all records, and of the labelled ones class by class.

    Columns are divided by ``scale`` first, where there is one.
    ``means`` has a row for each class, of zeros where ``counts`` is 0.

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
        lifted = random_features(
            records, features=self.features, bandwidth=self.bandwidth, seed=self.seed
        )
        classes = len(decode_classes(self.classes))
        codes = np.full(len(records), classes, dtype=np.int64)
        if labels is not None:
            names = labels[used]
            own, _, _ = encode_labels(names, self.classes, len(records))
            codes = np.where((own < classes) & (names != self.unlabelled), own, classes)
        counts = self.class_counts(codes)[:classes]
        means = np.zeros((classes, self.features))
        for code in np.flatnonzero(counts):
            means[code] = lifted[codes == code].mean(axis=0)
        return Answer({"mean": lifted.mean(axis=0), "means": means, "counts": counts})


@dataclass(frozen=True, kw_only=True)
class ScoreModels(AboutTraining):
    """Score models where the records have labels, and say how far apart their predictions are.

    Of V changes of S models: predictions times ``factors`` (V, S, C), of records times and plus
    ``moves`` (V, 2, d). The holder's ``own`` model is scored by models trained without the records
    they are tested on, as ``TrainModel`` does with the same options. ``trained`` has the labelled
    records of every model by class (S, C).

    The answer: ``counts`` (C,) of labelled records; ``errors`` (V, C, S), halved Brier scores by
    class; ``apart`` (V, S, S), halved squared distances of predictions; ``right`` (V,), the share
    that the mixture with ``weights`` gets right; and without a change ``wrong`` (S, C), the share
    of mistakes among classes that model and records both have, ``outputs`` (S, C) and
    ``by_class`` (C, S, C), means of predictions.

    Level record: models single records out, answer by answer.
    """

    kind: ClassVar[str] = "score-models"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    parameters: Singles
    weights: Array
    trained: Codes
    factors: Array
    moves: Array
    own: int = -1

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec, models = self.spec, models_of(self.parameters)
        size, classes, width = len(models), len(decode_classes(self.classes)), points.shape[1]
        changes = len(self.factors)
        _bounded(
            spec.classes == classes
            and self.weights.shape == (size,)
            and self.trained.shape == (size, classes)
            and self.factors.shape == (changes, size, classes)
            and self.moves.shape == (changes, 2, width)
            and 0 < changes <= _MOST_CHANGES
            and -1 <= self.own < size
            and bool((self.factors > 0).all() and np.isfinite(self.factors).all())
            and bool(np.isfinite(self.moves).all() and np.isfinite(models).all())
        )
        records = points[weights > 0]
        inside = np.zeros((0, width)), np.zeros(0, dtype=np.int64)
        if labels is not None and (labels[weights > 0] != self.unlabelled).any():
            inside = self.labelled(points, weights, labels)
        held_out = self.held_out(spec, *inside) if self.own >= 0 else None
        counts = self.class_counts(inside[1])
        arrays: dict[str, Array] = {
            "errors": np.zeros((changes, classes, size)),
            "apart": np.empty((changes, size, size)),
            "right": np.zeros(changes),
        }
        for v in range(changes):
            outputs = self._outputs(spec, records, v)
            arrays["apart"][v] = _distances(outputs)
            if v == 0:
                arrays["outputs"] = outputs.mean(axis=1)
            outputs = self._outputs(spec, inside[0], v, held_out)
            off = outputs - np.eye(classes)[inside[1]]
            for c in np.flatnonzero(counts):
                squares = off[:, inside[1] == c] ** 2
                arrays["errors"][v, c] = squares.sum(axis=2).mean(axis=1) / 2.0
            if len(inside[1]):
                mixed = np.einsum("k,knc->nc", self.weights, outputs)
                arrays["right"][v] = float((mixed.argmax(axis=1) == inside[1]).mean())
            if v == 0:
                arrays |= self._by_class(outputs, inside[1], counts)
        return Answer({**arrays, "counts": counts})

    def _outputs(
        self, spec: ModelSpec, records: Array, change: int, held_out: Array | None = None
    ) -> Array:
        """Predictions of every model (S, n, C), changed."""
        scale, shift = self.moves[change]
        moved = records * scale + shift
        outputs = np.empty((len(self.parameters), len(records), spec.classes))
        for k, parameters in enumerate(self.parameters if len(records) else []):
            is_own = held_out is not None and k == self.own
            outputs[k] = held_out if is_own else probabilities(spec, parameters, moved)
        outputs *= self.factors[change][:, None]
        return outputs / np.maximum(outputs.sum(axis=2, keepdims=True), _LEAST_PROBABILITY)

    def _by_class(self, outputs: Array, codes: Codes, counts: Codes) -> dict[str, Array]:
        """Mean predictions by class, and mistakes among classes that both sides have."""
        classes, size = len(counts), len(self.parameters)
        means, wrong = np.zeros((classes, size, classes)), np.zeros((size, classes))
        for c in np.flatnonzero(counts):
            means[c] = outputs[:, codes == c].mean(axis=1)
        for k in range(size):
            both = np.flatnonzero((self.trained[k] > 0) & (counts > 0))
            for c in both if len(both) > 1 else []:
                # Shares of classes alone contradict nobody.
                own = outputs[k][codes == c][:, both] / self.trained[k, both]
                wrong[k, c] = float((both[own.argmax(axis=1)] != c).mean())
        return {"by_class": means, "wrong": wrong}


def _distances(outputs: Array) -> Array:
    """Halved mean squared distances of the predictions of every two models (S, n, C)."""
    size, records = outputs.shape[:2]
    flat = outputs.reshape(size, -1)
    products = flat @ flat.T / max(records, 1)
    squares = np.diag(products)
    return np.maximum(squares[:, None] + squares - 2.0 * products, 0.0) / 2.0


def models_of(parameters: Singles) -> Array:
    """Rows of parameters, or a ``WireError``."""
    if parameters.ndim != 2 or len(parameters) == 0:
        raise WireError("models are not rows of parameters.", code="question-fields")
    return parameters.astype(np.float64)


def _no_rows() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True, kw_only=True)
class EvaluateCombination(AboutModel, AboutLabelled):
    """Accuracy of a combination of models on the evaluation records.

    Records of classes outside the list count as mistakes. ``factors`` is (S, C) and ``move``
    (2, d), (0, 0) for none.
    """

    kind: ClassVar[str] = "evaluate-combination"
    on: ClassVar[Subject] = "evaluation"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    parameters: Singles
    weights: Array
    rule: str = "output"
    factors: Array = field(default_factory=_no_rows)
    move: Array = field(default_factory=_no_rows)

    def combination(self) -> Model:
        """Return the combination the question brings along."""
        return Model(
            spec=self.spec,
            classes=tuple(decode_classes(self.classes)),
            parameters=models_of(self.parameters),
            weights=self.weights,
            rule=cast("Rule", self.rule),
            factors=self.factors if self.factors.size else None,
            move=self.move if self.move.size else None,
        )

    @classmethod
    def about(cls, model: Model, **fields: Any) -> Self:
        """Ask about a combination."""
        if model.factors is not None:
            fields["factors"] = model.factors
        if model.move is not None:
            fields["move"] = model.move
        return cls(
            **described(model.spec),
            classes=encode_classes(list(model.classes)),
            parameters=singles(model.parameters),
            weights=model.weights,
            rule=model.rule,
            **fields,
        )

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        if labels is None:
            raise InputError("the evaluation records have no labels.", code="labels-absent")
        used = (weights > 0) & (labels != self.unlabelled)
        if not used.any():
            raise InputError("no evaluation record has a label.", code="labels-few")
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        right = self.combination().predict_proba(points[used]).argmax(axis=1) == codes[used]
        return Answer(scalars={"accuracy": float(right.mean())})


register(
    Spread, CountLabelled, TrainModel, TrainRound, TrainAlone, MeanFeatures, TrainDomain,
    DomainScores, DomainErrors, ClassFeatures, EvaluateCombination, ScoreModels,
)  # fmt: skip
