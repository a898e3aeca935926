"""The party that owns a model: it answers with predictions, and nothing else."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from ..privacy.ledger import Ledger
from ..transport._check import whole
from .answer import Answer, Array, Failure, decode_reply, encode_reply
from .charging import charged_reply, failure_of
from .message import Scalar
from .policy import Memory, Policy
from .predictions import (
    TOLERANCE,
    DescribeTeacher,
    Inputs,
    Predict,
    PredictNoise,
    ReleasePredictions,
    digest_of,
    fault_of,
    inputs_of,
    proper,
    shape_fault,
)
from .protocol import COORDINATOR
from .question import Codes, Question, decode_question
from .release import Release

Predictor = Callable[[Any], npt.ArrayLike]

_CACHED_REPLIES = 128
# What single precision leaves.
_COARSE = 1e-4
_FAULTS = {
    "answer-malformed": "is no matrix of numbers",
    "prediction-rows": "has not one row per input",
    "prediction-labels": "has another number of labels than was asked for",
    "prediction-nan": "has entries that are not finite",
    "prediction-simplex": "is no matrix of probabilities: give softmax(logits)",
}


class Teacher:
    """A model that answers questions about its predictions under a policy.

    Parameters
    ----------
    predict
        The model: takes records, float64 (n, d), or a list of n texts, and returns probabilities
        (n, L). It is called by one question at a time.
    size
        Number of records it was trained on, for weights by size and for ``minimum_records`` of
        the policy; ``None`` tells nobody.
    labels
        Names of the L labels, in the order of its predictions. An asker who means others, or
        another order, is told so; without names nobody can know.
    policy
        Its rules. The default ``Policy()`` allows predictions: they are of level aggregate, as
        means of records are. Whoever asks may find out whether a given record was among the
        training records, or train a copy of the model. ``Policy(level="sketch",
        privacy_epsilon=...)`` allows noisy predictions alone.
    ledger
        The account that noisy predictions are charged to. It belongs to the training records:
        give all teachers trained on the same records the same.
    parts
        ``predict`` is the mean of so many models, each trained on its own part of the records,
        where a record's part depends on no other record. Noise is so many times smaller.
    inputs
        The transfer set, where it is shared and questions carry places in it.
    most_inputs
        Most inputs one question may bring.
    askers
        Who is answered, by the names the runtime gives; ``None`` for everybody.

    Attributes
    ----------
    replaced
        Predictions that were no probabilities where noisy ones were asked for. They counted as
        uniform, for a failure would tell about the records without noise. Above 0 the model is
        broken. Elsewhere such a prediction is a failure.

    Raises
    ------
    InputError
        Something that cannot be called, options out of range, inputs that are none.

    Examples
    --------
    >>> from silot.federation import Predict
    >>> def fair(inputs):
    ...     return np.full((len(inputs), 2), 0.5)
    >>> question = Predict(labels=2, vectors=np.zeros((3, 4)))
    >>> Teacher(fair).answer(question).arrays["probabilities"].shape
    (3, 2)
    """

    def __init__(
        self,
        predict: Predictor,
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
        if not callable(predict):
            raise InputError("predict cannot be called. Give a function.", code="teacher-model")
        if isinstance(labels, str) or isinstance(askers, str):
            raise InputError("labels and askers are sequences of texts.", code="label-names")
        self._predict = predict
        self._size = None if size is None else whole(size, "size", "option-size", most=1 << 62)
        self._labels = None if labels is None else tuple(str(name) for name in labels)
        self.policy = policy if policy is not None else Policy()
        self._ledger = ledger
        self._parts = whole(parts, "parts", "option-parts")
        self._inputs: Inputs | None = None if inputs is None else inputs_of(inputs)
        self._digest = "" if self._inputs is None else digest_of(self._inputs)
        self._most = whole(most_inputs, "most_inputs", "option-inputs")
        self._askers = None if askers is None else frozenset(askers)
        self.replaced = 0
        self._replies: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._model = threading.Lock()

    def __repr__(self) -> str:
        return f"Teacher(policy level {self.policy.level!r})"

    def reply(self, message: bytes, asker: str = COORDINATOR) -> bytes:
        """Answer a question given as bytes, as bytes. Never raises.

        The same question gets the same bytes again, without asking the model; a noisy answer for
        ever, for it is in the ledger.

        Parameters
        ----------
        message
            The question.
        asker
            Who asks, as the runtime knows it.
        """
        try:
            question = decode_question(message)
            refused = self._refusal(question, asker)
            if refused is not None:
                return encode_reply(refused)
            if isinstance(question, ReleasePredictions):
                return self._release(question, asker)
            key = hashlib.sha256(message).digest()
            with self._lock:
                known = self._replies.get(key)
                if known is not None:
                    self._replies.move_to_end(key)
                    return known
            encoded = encode_reply(self._compute(question))
            with self._lock:
                self._replies[key] = encoded
                while len(self._replies) > _CACHED_REPLIES:
                    self._replies.popitem(last=False)
        except Exception as error:  # noqa: BLE001 - see failure_of
            return encode_reply(failure_of(error))
        return encoded

    def answer(self, question: Question, asker: str = COORDINATOR) -> Answer | Failure:
        """Answer a question, or say why not. Never raises."""
        try:
            refused = self._refusal(question, asker)
            if refused is not None:
                return refused
            if isinstance(question, ReleasePredictions):
                return decode_reply(self._release(question, asker))
            return self._compute(question)
        except Exception as error:  # noqa: BLE001 - see failure_of
            return failure_of(error)

    def _refusal(self, question: Question, asker: str) -> Failure | None:
        if self._askers is not None and asker not in self._askers:
            return Failure("policy-asker", "refused")
        if isinstance(question, DescribeTeacher):
            kinds = self.policy.questions
            allowed = kinds is None or question.kind in kinds
            return None if allowed else Failure("policy-question", "refused")
        if not isinstance(question, Predict | PredictNoise | ReleasePredictions):
            return Failure("teacher-question", "refused")
        code = self.policy.refusal(question, self._records(question), Memory())
        return None if code is None else Failure(code, "refused")

    def _records(self, question: Question) -> int:
        # How many records there are is for the noise of a release to hide.
        hidden = self._size is None or isinstance(question, Release)
        return sys.maxsize if hidden or self._size is None else self._size

    def _compute(self, question: Question) -> Answer:
        if isinstance(question, DescribeTeacher):
            return self._describe(question)
        assert isinstance(question, Predict | PredictNoise)
        inputs = question.inputs(self._inputs, self._digest, self._most)
        return question.answer_of(self._probabilities(inputs, question.labels))

    def _describe(self, question: DescribeTeacher) -> Answer:
        told: dict[str, Scalar] = {"parts": self._parts}
        if self._labels is not None:
            told["labels"] = json.dumps(self._labels)
        if self._inputs is not None:
            told |= {"inputs": len(self._inputs), "shared": self._digest}
        # A number of records is exact: only where numbers of level scalar may be told.
        allowed = self.policy.refusal(question, self._records(question), Memory()) is None
        if self._size is not None and allowed:
            told["size"] = self._size
        return Answer(scalars=told)

    def _said(self, inputs: Inputs, labels: int) -> tuple[Array, float]:
        """What the model says, of the right shape, and how far sums may be off for its dtype."""
        with self._model:
            said = np.asarray(self._predict(inputs))
        tolerance = TOLERANCE if said.dtype == np.float64 else _COARSE
        if said.dtype.kind == "f":
            said = said.astype(np.float64)
        fault = shape_fault(said, (len(inputs), labels))
        if fault is not None:
            raise _broken(fault)
        return said, tolerance

    def _probabilities(self, inputs: Inputs, labels: int) -> Array:
        said, tolerance = self._said(inputs, labels)
        fault = fault_of(said, said.shape, tolerance)
        if fault is not None:
            raise _broken(fault)
        return _normalised(said)

    def _release(self, release: ReleasePredictions, asker: str) -> bytes:
        def check() -> None:
            if release.parts > self._parts:
                raise MismatchError("there are fewer parts than that.", code="parts-mismatch")
            if release.embedding != "none":
                raise InputError("a model has no embedding.", code="release-embedding")
            # One prediction, which stays here: its shape is of the model, not of the records.
            inputs = release.inputs(self._inputs, self._digest, self._most)
            self._said(inputs[:1], release.labels)

        def exact() -> Codes:
            inputs = release.inputs(self._inputs, self._digest, self._most)
            said, tolerance = self._said(inputs, release.labels)
            # To fail here would tell, without noise, what the records made of the model.
            fine = proper(said, tolerance)
            self.replaced += int((~fine).sum())
            said = np.where(fine[:, None], said, 1.0 / release.labels)
            return release.vector(_normalised(said))

        return charged_reply(
            release, self._ledger, self.policy, check=check, exact=exact, asker=asker
        )


def _normalised(said: Array) -> Array:
    clipped: Array = np.maximum(said, 0.0)
    return clipped / clipped.sum(axis=1, keepdims=True)


def _broken(fault: str) -> InputError:
    return InputError(f"what the model returned {_FAULTS[fault]}.", code=fault)


__all__ = ["Teacher"]
