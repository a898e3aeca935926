"""Questions about columns, about labelled records, and about models that are trained on them.

Classes travel as codes into a list of names both sides know. Records whose label is
``unlabelled`` (empty by default), and all records of a holder without labels, have no class;
records of classes outside the list take no part where classes matter. Records of weight 0 never
do, and all others count alike.

In federated training every holder holds part of its records out, the same in all rounds of a run:
no model trains on them, and accuracies are theirs. ``flagged`` are places of records that are not
trained on either; those that were held out stay, so that accuracies with and without them are of
the same records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypedDict

import numpy as np

from ...distances.questions import decode_classes, encode_classes, encode_labels
from ...errors import InputError, WireError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.message import Scalar
from ...federation.question import Array, Codes, Names, Question, Singles, register
from .spec import ModelSpec
from .training import (
    ALGORITHMS,
    InRound,
    Training,
    cross_predictions,
    descend,
    initial,
    local_round,
    network,
    personal,
    probabilities,
    shared_size,
    train,
)


@dataclass(frozen=True, kw_only=True)
class Spread(Question):
    """Mean and variance of every feature."""

    kind: ClassVar[str] = "spread"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        mean = weights @ points
        variance = weights @ (points - mean) ** 2
        return Answer({"mean": mean, "variance": variance})


_MOST_STEPS = 1_000_000
_LEAST_CHANCE = 1e-12


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
        if not steps <= _MOST_STEPS or self.folds < 0:
            raise WireError("a field of the question is out of range.", code="question-fields")
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
        sound = (
            self.algorithm in ALGORITHMS
            and 0 <= steps <= _MOST_STEPS
            and min(self.passes, self.head_passes, self.split, self.seed) >= 0
            and 0 <= self.held_out < 1
            and self.batch >= 1
            and self.rate > 0
            and 0 <= self.momentum < 1
        )
        if not sound or records.shape[1] != spec.inputs:
            raise WireError("a field of the question is out of range.", code="question-fields")
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
        loss = float(-np.log(np.maximum(chances, _LEAST_CHANCE)).sum())
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


register(Spread, CountLabelled, TrainModel, TrainRound, TrainAlone)
