"""Questions of federated training: a round of a shared model, and a model of one's own.

Every holder holds part of its records out, the same in all rounds of a run: no model trains on
them, and accuracies are theirs. ``flagged`` are places of records that are not trained on either;
those that were held out stay, so that accuracies with and without them are of the same records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ....errors import InputError, WireError
from ....federation.answer import Answer
from ....federation.disclosure import Disclosure
from ....federation.message import Scalar
from ....federation.question import Array, Codes, Names, register
from .. import _network
from ..shared import ALGORITHMS, InRound, descend, local_round, personal, shared_size
from ..spec import ModelSpec
from ..training import initial
from .models import AboutLabelled, AboutModel

_MOST_STEPS = 1_000_000


def _none() -> Codes:
    return np.zeros(0, dtype=np.int64)


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
    flagged: Codes = field(default_factory=_none)
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
        """The two parts; a ``WireError`` for fields that no coordinator of silot sends."""
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
    """How many records were trained on, and how many of those held out a model gets right."""
    right = 0
    if len(parts.held):
        found = _network.probabilities(spec, model, parts.held).argmax(axis=1)
        right = int((found == parts.held_codes).sum())
    return {"records": len(parts.codes), "right": right, "tests": len(parts.held_codes)}


@dataclass(frozen=True, kw_only=True)
class TrainRound(_Training):
    """Train from what is shared, tell what it has become, and how good it was before.

    ``start`` are the parameters that the ``algorithm`` shares: all layers, or all but the head,
    which is fitted first. ``right`` of ``tests`` records that were held out are those that the
    model at the start of the round, with that head, gets right. With no ``passes`` nothing is
    trained, and nothing else told.

    Level record: parameters after few steps on few records can be inverted.
    """

    kind: ClassVar[str] = "train-round"

    start: Array

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        spec, how = self.spec, self.in_round
        parts = self._parts(spec, points, weights, labels)
        if self.start.shape != (shared_size(spec, self.algorithm),):
            raise WireError("parameters do not fit the model.", code="question-fields")
        model = self.start
        if self.algorithm != "fedavg":
            model = personal(spec, model, parts.inputs, parts.codes, how)
        told = _right(spec, model, parts)
        if self.passes == 0:
            return Answer({}, told)
        found = local_round(spec, self.algorithm, model, parts.inputs, parts.codes, how)
        return Answer({"parameters": found}, told)


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


register(TrainRound, TrainAlone)

__all__ = ["TrainAlone", "TrainRound"]
