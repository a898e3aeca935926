"""The party that owns a model and answers with predictions, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ..errors import InputError, MismatchError, reason
from ..federation.answer import Answer, Array
from ..federation.message import Scalar
from ..federation.party import Party
from ..federation.policy import Policy
from ..federation.question import Codes, Question
from ..federation.release import Release
from ..privacy.ledger import Ledger
from .labels import are_probabilities
from .questions import (
    TOLERANCE,
    DescribeTeacher,
    Inputs,
    ReleasePredictions,
    Shown,
    check_inputs,
    find_fault,
    find_shape_fault,
    hash_inputs,
    normalise,
    round_probabilities,
)

Predictor = Callable[[Any], npt.ArrayLike]

# What half and single precision leave of a sum of 1, by bytes of a number.
_COARSE = {2: 1e-2, 4: 1e-4}


class Teacher(Party):
    """Answer questions about the predictions of a model under a policy.

    Parameters
    ----------
    predict
        The model: takes records, float64 (n, d), or a list of n texts, and returns probabilities
        (n, L). One question at a time calls it. Or several models, each trained on its own part
        of the records: predictions are their mean, and ``parts`` is their number.
    size
        Number of records it was trained on, for weights by size; ``None`` discloses it to nobody.
    labels
        Names of the L labels, in the order of its predictions. They show an asker who means
        others, or another order, the mistake.
    policy
        Its rules. Predictions are of level record: whoever asks may find out whether a given
        record was among the training records, or train a copy of the model. By default it allows
        that; ``Policy(privacy_epsilon=...)`` allows noisy predictions alone.
    ledger
        The account that noisy predictions are charged to, and that records who received or was
        refused what. It belongs to the training records: give all teachers trained on the same
        records the same.
    parts
        ``predict`` is the mean of this many models, each trained on its own part of the records,
        where a record's part depends on no other record. Noise is this many times smaller. A
        function that takes this mean itself must never fail and return probabilities whatever
        one of the models does; give the models one by one, and the teacher sees to that.
    inputs
        The transfer set, where it is shared and questions carry places in it.
    most_inputs
        Most inputs one question may bring.
    askers
        Who receives answers, by the names of the runtime; ``None`` for everybody.

    Attributes
    ----------
    replaced
        Number of predictions that were not probabilities in questions for noisy ones, all those of
        a question where the model raised. They counted as uniform, for a failure would disclose
        something about the records without noise. Above 0 the model is broken, or inputs were of
        a kind that it does not take. Elsewhere such a prediction is a failure.

    Raises
    ------
    InputError
        Something that cannot be called, options out of range, inputs that are none.

    Examples
    --------
    >>> from silot.distillation.questions import Predict
    >>> def fair(inputs):
    ...     return np.full((len(inputs), 2), 0.5)
    >>> question = Predict(labels=2, vectors=np.zeros((3, 4)))
    >>> Teacher(fair).answer(question).arrays["probabilities"].shape
    (3, 2)
    """

    def __init__(
        self,
        predict: Predictor | Sequence[Predictor],
        *,
        size: int | None = None,
        labels: Sequence[str] | None = None,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        parts: int = 1,
        inputs: npt.ArrayLike | Sequence[str] | None = None,
        most_inputs: int = 4096,
        askers: Collection[str] | None = None,
    ) -> None:
        self._models = _models_of(predict)
        if isinstance(labels, str) or isinstance(askers, str):
            raise InputError("labels and askers are sequences of texts.", code="label-names")
        self._size = None if size is None else integer(size, "size", "option-size", most=1 << 62)
        self._labels = None if labels is None else tuple(str(name) for name in labels)
        super().__init__(
            policy if policy is not None else Policy(level="record"),
            ledger,
            replies=128,
            size=1 << 26,
        )
        self._parts = _parts_of(predict, parts)
        self._inputs: Inputs | None = None if inputs is None else check_inputs(inputs)
        self._digest = "" if self._inputs is None else hash_inputs(self._inputs)
        self._most = integer(most_inputs, "most_inputs", "option-inputs")
        self._askers = None if askers is None else frozenset(askers)
        self.replaced = 0
        self._model = threading.Lock()

    def rules(self) -> tuple[tuple[Predictor, ...], list[Any]]:
        """Return the models, and all that decides how it answers: for checkpoints of a run."""
        labels = None if self._labels is None else list(self._labels)
        rules = self.policy.model_dump_json(exclude={"secure"})
        return self._models, [rules, self._size, self._parts, labels, self._most]

    def _refusal(self, question: Question, asker: str) -> str:
        if self._askers is not None and asker not in self._askers:
            return "policy-asker"
        return "teacher-question" if question.on != "model" else super()._refusal(question, asker)

    def _compute(self, question: Question) -> Answer:
        if isinstance(question, DescribeTeacher):
            return self._describe(question)
        shown = cast("Shown", question)
        inputs = shown.inputs(self._inputs, self._digest, self._most)
        return shown.answer_of(self._probabilities(inputs, shown.labels))

    def _describe(self, question: DescribeTeacher) -> Answer:
        scalars: dict[str, Scalar] = {"parts": self._parts}
        if self._labels is not None:
            scalars["labels"] = json.dumps(self._labels)
        if self._inputs is not None:
            scalars |= {"inputs": len(self._inputs), "shared": self._digest}
        # A number of records is exact.
        if self._size is not None and self.policy.allows_exact and not question.private:
            scalars["size"] = self._size
        return Answer(scalars=scalars)

    def _probabilities(self, inputs: Inputs, labels: int) -> Array:
        mean = self._mean([self._strict(model, inputs, labels) for model in self._models])
        # Before anything else: means over chosen inputs, and temperatures, would restore digits.
        decimals = self.policy.prediction_decimals
        return mean if decimals is None else round_probabilities(mean, decimals)

    def _strict(self, model: Predictor, inputs: Inputs, labels: int) -> Array:
        """Compute predictions of one model, or raise an error that says what is wrong with them."""
        predictions, tolerance = self._matrix(model, inputs)
        fault = find_fault(predictions, (len(inputs), labels), tolerance)
        if fault is not None:
            raise _broken(fault)
        return normalise(predictions)

    def _even(self, model: Predictor, inputs: Inputs, labels: int) -> Array:
        """Compute predictions of one model, uniform wherever these are none. Never raise.

        A failure would disclose without noise something about the records. Each model is checked
        by itself, for one that is broken may move the mean by its share and no more.
        """
        shape = (len(inputs), labels)
        even = np.full(shape, 1.0 / labels)
        fine = np.zeros(len(inputs), dtype=np.bool_)
        try:
            predictions, tolerance = self._matrix(model, inputs)
            if find_shape_fault(predictions, shape) is None:
                fine = are_probabilities(predictions, tolerance)
                even[fine] = normalise(predictions[fine])
        except (Exception, SystemExit):  # noqa: BLE001 - see above
            fine = np.zeros(len(inputs), dtype=np.bool_)
        self.replaced += int((~fine).sum())
        return even

    def _matrix(self, model: Predictor, inputs: Inputs) -> tuple[npt.NDArray[Any], float]:
        """Return what a model returns, numbers as float64, and how far its sums may be off."""
        with self._model:
            predictions = np.asarray(model(inputs))
        kind, tolerance = predictions.dtype.kind, TOLERANCE
        if kind == "f":
            tolerance = _COARSE.get(predictions.dtype.itemsize, TOLERANCE)
        # Whole numbers are probabilities too: those of a model that is always sure.
        return (predictions.astype(np.float64) if kind in "fbiu" else predictions), tolerance

    @staticmethod
    def _mean(predictions: list[Array]) -> Array:
        return predictions[0] if len(predictions) == 1 else np.mean(predictions, axis=0)

    def _check(self, release: Release) -> None:
        super()._check(release)
        release = cast("ReleasePredictions", release)
        if release.parts > self._parts:
            raise MismatchError("there are fewer parts than that.", code="parts-mismatch")
        # Names are public. The model does not run: whether it fails depends on the records.
        if self._labels is not None and len(self._labels) != release.labels:
            raise _broken("prediction-labels")
        release.inputs(self._inputs, self._digest, self._most)

    def _exact(self, release: Release) -> Codes:
        release = cast("ReleasePredictions", release)
        inputs = release.inputs(self._inputs, self._digest, self._most)
        return release.vector(
            self._mean([self._even(model, inputs, release.labels) for model in self._models])
        )


def _models_of(predict: Predictor | Sequence[Predictor]) -> tuple[Predictor, ...]:
    models = tuple(predict) if isinstance(predict, Sequence) else (predict,)
    if not models or not all(callable(model) for model in models):
        raise InputError("predict cannot be called. Give a function.", code="teacher-model")
    return models


def _parts_of(predict: Predictor | Sequence[Predictor], parts: int) -> int:
    parts = integer(parts, "parts", "option-parts")
    if not isinstance(predict, Sequence):
        return parts
    if parts not in (1, len(predict)):
        raise InputError(
            f"{len(predict)} models are given and parts is {parts}. Leave parts out.",
            code="option-parts",
        )
    return len(predict)


def _broken(fault: str) -> InputError:
    return InputError(f"{reason(fault, here=True)}.", code=fault)
