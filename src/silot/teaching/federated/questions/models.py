"""Questions about labelled records, and about models that are trained on them.

Classes travel as in ``labelled``: codes into a list of names both sides know. Records whose
label is ``unlabelled`` (empty by default), and all records of a holder without labels, have no
class; records of classes outside the list take no part where classes matter. Records of weight
0 never do, and all others count alike.

``least`` is the fewest records of
a class for it to be told of; a holder raises it to what its policy wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypedDict

import numpy as np
import numpy.typing as npt

from ....distances.questions import decode_classes, encode_classes, encode_labels
from ....errors import InputError, WireError
from ....federation.answer import Answer
from ....federation.disclosure import Account, Disclosure
from ....federation.message import Scalar
from ....federation.question import Array, Codes, Names, Question, register
from ..spec import ModelSpec
from ..training import Training, cross_predictions, initial, probabilities, train

_MOST_STEPS = 1_000_000


def nothing() -> Array:
    """An array a question leaves out."""
    return np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class AboutLabelled(Question):
    """A question about labelled records; what is not labelled has the label ``unlabelled``."""

    classes: str = ""
    unlabelled: str = ""
    least: int = 1

    def check_fields(self) -> None:
        if self.classes:
            decode_classes(self.classes)

    def coarser(self, least: int) -> Self:
        return replace(self, least=max(self.least, least))

    def labelled(self, points: Array, weights: Array, labels: Names | None) -> tuple[Array, Codes]:
        """Records of known classes, and their codes."""
        if labels is None:
            raise InputError("the records have no labels.", code="labels-absent")
        known = len(decode_classes(self.classes))
        codes, _, _ = encode_labels(labels, self.classes, len(points))
        used = (weights > 0) & (codes < known) & (labels != self.unlabelled)
        if not used.any():
            raise InputError("no record has a label of a known class.", code="labels-absent")
        return points[used], codes[used]

    def _enough(self, records: int) -> int:
        """A number of records, or 0 where they are too few to tell of."""
        return records if records >= max(self.least, 1) else 0

    def _told(self, codes: Codes) -> Codes:
        """How many records each class has; 0 where they are too few to tell."""
        counts = np.bincount(codes, minlength=len(decode_classes(self.classes)))
        return np.where(counts >= max(self.least, 1), counts, 0).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CountLabelled(AboutLabelled):
    """How many records have a label, how many have none, and how wide they are.

    Classes of fewer than ``least`` records count as absent, and as few without a label as none:
    it is the asker who says which label stands for none. Without ``classes`` the holder names
    its own. ``centre`` and ``variance`` are the mean of all numbers of all records, and the sum
    of the features' variances.
    """

    kind: ClassVar[str] = "count-labelled"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE

    def accounted(self, dimension: int) -> Account:
        """Over a public list of classes; names of the holder's own are texts of its records."""
        return Account.NAMED if self.classes else Account.RECORD

    def numbers(self, records: int, dimension: int) -> int:
        return len(decode_classes(self.classes)) + 4

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        used = weights > 0
        names = np.array([], dtype=np.str_) if labels is None else labels[used]
        found, sizes = np.unique(names[names != self.unlabelled], return_counts=True)
        told = {
            str(name): int(size)
            for name, size in zip(found.tolist(), sizes.tolist(), strict=True)
            if size >= max(self.least, 1)
        }
        text = self.classes or encode_classes(sorted(told))
        counts = np.array([told.get(name, 0) for name in decode_classes(text)], dtype=np.int64)
        records = points[used]
        scalars: dict[str, Scalar] = {
            "labelled": int(counts.sum()),
            "unlabelled": self._enough(int(used.sum() - sizes.sum())),
            "dimension": points.shape[1],
            "centre": float(records.mean()),
            "variance": float(records.var(axis=0).sum()),
        }
        if not self.classes:
            scalars["classes"] = text
        return Answer({"counts": counts}, scalars)

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float]:
        records = points[weights > 0]
        centre = float(np.abs(records.mean(axis=1) - records.mean()).max())
        far = float(((records - records.mean(axis=0)) ** 2).sum(axis=1).max())
        return {"centre": centre / len(records), "variance": far / len(records)}


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
    """How a question describes a model: a text must be short."""
    if isinstance(spec.centre, float) and isinstance(spec.scale, float):
        return {"model": spec.to_text(), "units": nothing()}
    parts = (np.asarray(spec.centre), np.asarray(spec.scale))
    units = np.stack([np.broadcast_to(part, spec.inputs) for part in parts])
    return {"model": replace(spec, centre=0.0, scale=1.0).to_text(), "units": units}


@dataclass(frozen=True, kw_only=True)
class TrainModel(AboutModel, AboutLabelled):
    """Train a model on the labelled records; tell its parameters and its errors.

    ``start`` are the parameters to start from; when empty they are drawn from ``seed``. With
    ``folds`` of two or more, ``held_out`` is the error of models trained without the records
    they are tested on, and ``class_errors`` that of every class (1 for a class without
    records). ``error`` is the error on the very records the model was trained on.

    Level record: parameters after few steps on few records can be inverted (a gradient of a
    layer is a combination of its inputs), and nobody has shown that they give no record away.
    """

    kind: ClassVar[str] = "train-model"
    level: ClassVar[Disclosure] = Disclosure.RECORD

    start: Array = field(default_factory=nothing)
    iterations: int = 100
    passes: float = 0.0
    batch: int = 10
    rate: float = 0.01
    momentum: float = 0.0
    folds: int = 0
    seed: int = 0

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec = self.spec
        records, codes = self.labelled(points, weights, labels)
        steps = max(self.iterations, self.passes * len(records) / max(self.batch, 1))
        if not steps <= _MOST_STEPS or self.folds < 0:
            raise WireError("a field of the question is out of range.", code="question-fields")
        start = self.start if self.start.size else initial(spec, self.seed)
        options: Training = {
            "iterations": self.iterations,
            "passes": self.passes,
            "batch": self.batch,
            "rate": self.rate,
            "momentum": self.momentum,
            "seed": self.seed,
        }
        found = train(spec, start, records, codes, **options)
        wrong = probabilities(spec, found, records).argmax(axis=1) != codes
        arrays: dict[str, Array] = {"parameters": found}
        scalars: dict[str, Scalar] = {"error": float(wrong.mean())}
        if self.folds > 1 and len(records) > 1:
            folds = min(self.folds, len(records))
            told = cross_predictions(spec, start, records, codes, folds=folds, **options)
            wrong = told.argmax(axis=1) != codes
            scalars["held_out"] = float(wrong.mean())
            arrays["class_errors"] = self._by_class(wrong, codes)
        return Answer(arrays, scalars)

    def _by_class(self, wrong: npt.NDArray[np.bool_], codes: Codes) -> Array:
        """Errors class by class, drawn to the error of all by two pseudo-records."""
        counts = self._told(codes)
        mistakes = np.bincount(codes, wrong, minlength=len(counts))
        overall = float(np.mean(wrong))
        return np.where(counts > 0, (mistakes + 2.0 * overall) / (counts + 2.0), 1.0)


register(CountLabelled, TrainModel)
