r"""Questions about a model's predictions: probabilities of labels, and nothing else.

Inputs travel as records (``vectors``), as texts (``texts``), or as their places in a transfer set
that both sides have (``indices`` and ``shared``, its digest). Exactly one of the three is given.

A prediction discloses the records that the model was trained on: whether a given record was among
them (membership), and enough predictions make a copy of the model. That is level record.
``ReleasePredictions`` is level private: noise bounds what one training record can change.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import as_points

from ..data.foreign import parse_json
from ..errors import InputError, MismatchError, WireError
from ..federation.answer import Answer
from ..federation.disclosure import Disclosure
from ..federation.message import LARGEST_MESSAGE
from ..federation.question import Array, Codes, Question, Subject, Text, register
from ..federation.release import Release
from .labels import are_probabilities

Inputs = Array | list[str]
"""Records (n, d), or n texts."""

# Far above the rounding of a softmax in float64, and far below what anybody would notice.
TOLERANCE = 1e-6
"""How far a prediction may be off the simplex."""

# Fine enough that counting adds little to the sensitivity, sqrt(L) / R beside sqrt(2) / m, for a
# teacher of up to 100,000 parts m.
RESOLUTION = 1 << 20
"""Steps that a probability of a release is counted in."""

_MOST_BYTES = 1 << 28
_MOST_DECIMALS = 12
_MOST_LABELS = 4096


def check_inputs(inputs: npt.ArrayLike | Sequence[str]) -> Inputs:
    """Check inputs: finite records as float64 (n, d), or a list of texts."""
    if isinstance(inputs, str):
        raise InputError("one text is given. Give a sequence of texts.", code="inputs-texts")
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind != "U":
        return as_points(cast("npt.NDArray[Any]", inputs), "inputs")
    items: list[Any] = list(cast("Sequence[Any]", inputs))
    texts = [str(item) for item in items if isinstance(item, str)]
    if not texts:
        return as_points(items, "inputs")
    if len(texts) < len(items):
        raise InputError(
            f"{len(items) - len(texts)} of {len(items)} inputs are not texts.", code="inputs-texts"
        )
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise InputError(
            "a text contains an invalid character (half a surrogate pair).", code="inputs-texts"
        ) from None
    return texts


def hash_inputs(inputs: Inputs) -> str:
    """Compute the SHA-256 of inputs, for two sides to see that they mean the same."""
    if isinstance(inputs, list):
        return hashlib.sha256(b"texts" + encode_texts(inputs).tobytes()).hexdigest()
    shape = ",".join(map(str, inputs.shape)).encode()
    numbers = np.ascontiguousarray(inputs, dtype="<f8").tobytes()
    return hashlib.sha256(b"points" + shape + b":" + numbers).hexdigest()


def encode_texts(texts: Sequence[str]) -> Text:
    """Write texts as the UTF-8 bytes of a JSON list."""
    return np.frombuffer(json.dumps(list(texts), ensure_ascii=False).encode(), dtype=np.uint8)


def decode_texts(field: Text) -> list[str]:
    """Read what ``encode_texts`` wrote, or raise a ``WireError``."""
    texts = parse_texts(field.tobytes())
    if texts is None:
        raise _fail_texts("something else")
    return texts


def _fail_texts(why: str) -> WireError:
    return WireError(
        f"the texts are not a JSON list of texts ({why}). Install the same silot on both sides.",
        code="question-fields",
    )


def parse_texts(text: str | bytes) -> list[str] | None:
    """Parse a JSON list of texts that another party wrote; return ``None`` where it is none."""
    try:
        # What is in a message had its size checked with that.
        texts = cast("object", parse_json(text, _fail_texts, most=LARGEST_MESSAGE))
    except WireError:
        return None
    if not isinstance(texts, list):
        return None
    items = cast("list[object]", texts)
    return cast("list[str]", items) if all(isinstance(item, str) for item in items) else None


def find_shape_fault(values: object, shape: tuple[int, ...]) -> str | None:
    """Return the code of what is wrong with the type or shape of predictions, or ``None``."""
    if not isinstance(values, np.ndarray):
        return "answer-malformed"
    array = cast("npt.NDArray[Any]", values)
    if array.dtype != np.float64 or array.ndim != len(shape):
        return "answer-malformed"
    if array.shape[-1] != shape[-1]:
        return "prediction-labels"
    return None if array.shape == shape else "prediction-rows"


def find_fault(values: object, shape: tuple[int, ...], tolerance: float = TOLERANCE) -> str | None:
    """Return the code of what is wrong with predictions; ``None`` for points of the simplex."""
    fault = find_shape_fault(values, shape)
    if fault is not None:
        return fault
    array = cast("Array", values)
    if not np.isfinite(array).all():
        return "prediction-nan"
    return None if are_probabilities(array, tolerance).all() else "prediction-simplex"


def normalise(predictions: Array) -> Array:
    """Bring predictions that are probabilities up to rounding onto the simplex."""
    clipped: Array = np.maximum(predictions, 0.0)
    return clipped / clipped.sum(axis=-1, keepdims=True)


def apply_temperature(probabilities: Array, temperature: float) -> Array:
    r"""Compute :math:`h_l^{1 / T} / \sum_m h_m^{1 / T}`: flatter probabilities for T above 1.

    Examples
    --------
    >>> apply_temperature(np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
    [[0.941, 0.059]]
    """
    if temperature == 1.0:
        return probabilities
    # Divided by the largest first: of a small temperature all powers would be 0.
    raised = (probabilities / probabilities.max(axis=-1, keepdims=True)) ** (1.0 / temperature)
    return raised / raised.sum(axis=-1, keepdims=True)


def round_probabilities(probabilities: Array, decimals: int) -> Array:
    """Round to steps of 10**-decimals that still sum to 1, by largest remainders.

    Examples
    --------
    >>> round_probabilities(np.array([[1 / 3, 1 / 3, 1 / 3]]), 1).tolist()
    [[0.4, 0.3, 0.3]]
    """
    steps = 10**decimals
    scaled = probabilities / probabilities.sum(axis=-1, keepdims=True) * steps
    counts = np.floor(scaled)
    # The largest remainders get the steps that rounding down has dropped; ties by place, so that
    # the same prediction is always rounded alike.
    missing = steps - counts.sum(axis=-1, keepdims=True)
    order = np.argsort(counts - scaled, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return (counts + (rank < missing)) / steps


@dataclass(frozen=True, kw_only=True)
class DescribeTeacher(Question):
    """What a teacher is: ``labels`` it predicts, ``parts`` it was trained in, its transfer set.

    ``size``, the number of its training records, is in the answer where its policy allows exact
    statistics; with ``private`` it never is, for no noise of the answers that follow would hide it.
    Names of labels are absent where it has none.
    """

    kind: ClassVar[str] = "describe-teacher"
    on: ClassVar[Subject] = "model"
    level: ClassVar[Disclosure] = Disclosure.PUBLIC

    private: bool = False


@dataclass(frozen=True, kw_only=True)
class _OfInputs:
    """Inputs to predict, and how many labels there are."""

    labels: int
    vectors: Array = field(default_factory=lambda: np.zeros((0, 0)))
    texts: Text = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    indices: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    shared: str = ""

    def inputs(self, own: Inputs | None, digest: str, most: int) -> Inputs:
        """Return the inputs, at most so many; ``own`` is the shared transfer set."""
        arrays = [array for array in (self.vectors, self.texts, self.indices) if array.size]
        if len(arrays) != 1 or not 2 <= self.labels <= _MOST_LABELS:
            raise _wrong("a question about predictions has records, texts or indices, and labels.")
        if sum(array.nbytes for array in arrays) > _MOST_BYTES:
            raise _too_many(most)
        if self.indices.size:
            inputs = self._select(own, digest, most)
        else:
            inputs = decode_texts(self.texts) if self.texts.size else self.vectors
        if len(inputs) > most:
            raise _too_many(most)
        if isinstance(inputs, np.ndarray) and (inputs.ndim != 2 or not np.isfinite(inputs).all()):
            raise _wrong("the records are not a finite matrix.")
        if not len(inputs):
            raise _wrong("there are no inputs.")
        return inputs

    def _select(self, own: Inputs | None, digest: str, most: int) -> Inputs:
        if own is None:
            raise InputError("there is no shared transfer set.", code="inputs-absent")
        if self.shared != digest:
            raise MismatchError("the transfer set is another one.", code="inputs-mismatch")
        if self.indices.ndim != 1:
            raise _wrong("indices are not a vector.")
        if len(self.indices) > most:
            raise _too_many(most)
        if (self.indices < 0).any() or (self.indices >= len(own)).any():
            raise _wrong("an index is outside the transfer set.")
        if isinstance(own, np.ndarray):
            return own[self.indices]
        return [own[i] for i in self.indices.tolist()]


@dataclass(frozen=True, kw_only=True)
class Shown(_OfInputs, Question):
    """A question for predictions that are scaled by a temperature and rounded at the teacher."""

    on: ClassVar[Subject] = "model"
    level: ClassVar[Disclosure] = Disclosure.RECORD
    array: ClassVar[str]
    """Name of the array in the answer."""
    mean: ClassVar[bool]
    """Whether it is the mean over the inputs."""

    temperature: float = 1.0
    decimals: int = -1

    def answer_of(self, probabilities: Array) -> Answer:
        """Compute the answer: scale the model's probabilities, average them, then round."""
        is_scale = math.isfinite(self.temperature) and self.temperature > 0
        if not is_scale or not -1 <= self.decimals <= _MOST_DECIMALS:
            raise _wrong("temperature or decimals are out of range.")
        shown = apply_temperature(probabilities, self.temperature)
        if self.mean:
            shown = shown.mean(axis=0)
        if self.decimals >= 0:
            shown = round_probabilities(shown, self.decimals)
        return Answer({self.array: shown})


@dataclass(frozen=True, kw_only=True)
class Predict(Shown):
    """Probabilities of labels for each input: ``probabilities`` (n, L).

    ``temperature`` flattens (above 1) or sharpens them, ``decimals`` rounds them unless it is -1.
    """

    kind: ClassVar[str] = "predict"
    array: ClassVar[str] = "probabilities"
    mean: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class PredictNoise(Shown):
    """The mean prediction over inputs of noise, ``mean`` (L,).

    The probability bias B of paper 004, section 5.2.
    """

    kind: ClassVar[str] = "predict-noise"
    array: ClassVar[str] = "mean"
    mean: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ReleasePredictions(_OfInputs, Release):
    r"""Predictions with noise: ``noisy`` (n, L), in steps of 1 / ``RESOLUTION``.

    A teacher is the mean of ``parts`` models, each trained on its own part of the records, where
    a record's part depends on no other record. Changing, adding or removing one record changes
    one of them, in any way, so one prediction moves by at most :math:`\sqrt 2 / m` in the
    Euclidean norm, and n predictions, rounded to R steps, by

    .. math:: \Delta = \sqrt{n} \left( R \frac{\sqrt 2}{m} + \sqrt{L} \right).

    With ``mean`` it is the mean prediction over the inputs alone, and n is 1. There is neither
    temperature nor rounding: both cost nothing once there is noise, and the asker does them.
    """

    kind: ClassVar[str] = "release-predictions"
    on: ClassVar[Subject] = "model"
    mechanism: ClassVar[str] = "discrete Gaussian, predictions"

    parts: int = 1
    mean: bool = False

    @property
    def rows(self) -> int:
        """Number of predictions in the answer."""
        if self.mean:
            return 1
        if self.texts.size:
            return len(decode_texts(self.texts))
        # As ``inputs`` sees which of them are given.
        return self.indices.size or len(self.vectors)

    @property
    def sensitivity(self) -> float:
        """Most that one training record moves the answer."""
        if self.parts < 1 or self.rows < 1 or not 2 <= self.labels <= _MOST_LABELS:
            raise _wrong("a field of the question is out of range.")
        # Two points of the simplex are at most sqrt(2) apart; rounding moves each entry by up to
        # half a step, twice.
        one = RESOLUTION * math.sqrt(2.0) / self.parts + math.sqrt(self.labels)
        return math.sqrt(self.rows) * one

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of every probability."""
        return self.sensitivity / self.privacy_mu / RESOLUTION

    def vector(self, probabilities: Array) -> Codes:
        """Compute the vector before noise from the model's predictions."""
        rows = probabilities.mean(axis=0, keepdims=True) if self.mean else probabilities
        return np.rint(rows * RESOLUTION).astype(np.int64).ravel()

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"noisy": noisy.reshape(self.rows, self.labels)})


def _wrong(message: str) -> WireError:
    return WireError(message, code="question-fields")


def _too_many(most: int) -> InputError:
    return InputError(
        f"more inputs than one question may have, {most}. Use smaller batches.",
        code="batch-large",
    )


register(DescribeTeacher, Predict, PredictNoise, ReleasePredictions)
