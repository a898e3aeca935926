"""What a coordinator learns about devices that train models, and who drops out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...distances.questions import decode_classes, encode_classes
from ...distances.sides import agree_on_dimension
from ...errors import HolderError, InputError, SilotError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Questions, Steps, failure_error
from .questions.columns import Spread
from .questions.models import CountLabelled
from .spec import ModelSpec

T = TypeVar("T")

# Larger parameters belong to no model that was trained, and overflow in every layer.
_LARGEST = 1e6
# Squares of wider records overflow.
_WIDEST = 1e150
# Times what devices' own deviations are in the median.
_FAR = 5.0
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Counted:
    """What one device told of its records.

    Attributes
    ----------
    counts
        Labelled records of every class.
    labelled, unlabelled
        Records with and without a label.
    dimension
        Numbers of a record.
    centre, variance
        Mean of all its numbers, and the sum of its features' variances.
    """

    counts: dict[str, int]
    labelled: int
    unlabelled: int
    dimension: int
    centre: float
    variance: float

    @property
    def records(self) -> int:
        """Records, labelled or not."""
        return self.labelled + self.unlabelled

    def by_class(self, classes: Sequence[str]) -> npt.NDArray[np.int64]:
        """Labelled records of every class, in an order."""
        return np.array([self.counts.get(name, 0) for name in classes], dtype=np.int64)


@dataclass(frozen=True)
class Trained:
    """What one device told of its model."""

    parameters: Array
    error: float
    class_errors: Array


@dataclass
class Devices:
    """Devices of one run, by name and in the order of names, and why some are left out.

    Attributes
    ----------
    counted
        Devices that take part.
    missing
        Devices that do not.
    excluded
        Devices that take part and may be no source.
    columns
        Mean and variance of every column, of the devices that told them.
    """

    counted: dict[str, Counted] = field(default_factory=dict[str, Counted])
    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])
    excluded: dict[str, Failure] = field(default_factory=dict[str, Failure])
    columns: dict[str, tuple[Array, Array]] = field(default_factory=dict[str, tuple[Array, Array]])

    @property
    def names(self) -> tuple[str, ...]:
        """Devices that take part."""
        return tuple(sorted(self.counted))

    @property
    def labelled(self) -> dict[str, int]:
        """How many records have a label."""
        return {name: self.counted[name].labelled for name in self.names}

    @property
    def unlabelled(self) -> dict[str, int]:
        """How many records have none."""
        return {name: self.counted[name].unlabelled for name in self.names}

    def units(self) -> tuple[Array, Array]:
        """Mean and standard deviation of all records, column by column where that was told.

        The deviation of what does not vary is 1.
        """
        told = [name for name in self.names if name in self.columns]
        items = [self.counted[name] for name in told or self.names]
        weights = np.array([item.records for item in items], dtype=np.float64)
        weights /= weights.sum()
        if told:
            means = np.array([self.columns[name][0] for name in told])
            variances = np.array([self.columns[name][1] for name in told])
        else:
            means = np.array([[item.centre] for item in items])
            variances = np.array([[item.variance / item.dimension] for item in items])
        centre = weights @ means
        scale = np.sqrt(weights @ (variances + (means - centre) ** 2))
        # A single far record at one device must not flatten a column for all of them.
        usual, typical = np.median(means, axis=0), _FAR * np.sqrt(np.median(variances, axis=0))
        far = (scale > typical) & (typical > _ROUNDING * np.abs(usual))
        centre, scale = np.where(far, usual, centre), np.where(far, typical, scale)
        # Of a constant only rounding varies.
        return centre, np.where(scale > _ROUNDING * np.abs(centre), scale, 1.0)

    def drop(self, failures: Mapping[str, Failure]) -> None:
        """Leave devices out from now on; raise when fewer than two are left."""
        for name, failure in failures.items():
            self.counted.pop(name, None)
            self.excluded.pop(name, None)
            self.missing[name] = failure
        self.check()

    def check(self) -> None:
        """Raise what the first failure means, when fewer than two devices are left."""
        if len(self.counted) >= 2:
            return
        if self.missing:
            raise failure_error(*min(self.missing.items()))
        raise InputError("two holders or more are needed.", code="holder-names")


def count(
    names: Sequence[str], classes: Sequence[str] | None, unlabelled: str, devices: Devices
) -> Steps[tuple[str, ...]]:
    """Ask everybody for counts; return the list of classes."""
    text = "" if classes is None else encode_classes(list(classes))
    question = CountLabelled(classes=text, unlabelled=unlabelled)
    devices.counted, devices.missing = yield from ask_each(
        dict.fromkeys(names, question), lambda _, answer: _counted(answer, classes)
    )
    devices.check()
    agree_on_dimension({name: devices.counted[name].dimension for name in devices.names})
    if classes is not None:
        return tuple(classes)
    return tuple(sorted({name for item in devices.counted.values() for name in item.counts}))


def _counted(answer: Answer, classes: Sequence[str] | None) -> Counted:
    told = answer.scalars.get("classes")
    names = list(classes) if classes is not None else decode_classes(str(told))
    counts = answer.arrays.get("counts")
    if counts is None or counts.dtype != np.int64 or counts.shape != (len(names),):
        raise HolderError("counts that are none.", code="answer-malformed")
    numbers = {name: int(number) for name, number in zip(names, counts.tolist(), strict=True)}
    found = Counted(
        counts=numbers,
        labelled=int(answer.number("labelled")),
        unlabelled=int(answer.number("unlabelled")),
        dimension=int(answer.number("dimension")),
        centre=_real(answer, "centre"),
        variance=answer.number("variance"),
    )
    if max(abs(found.centre), found.variance) > _WIDEST:
        raise HolderError("moments that are none.", code="answer-malformed")
    if min(numbers.values(), default=0) < 0 or sum(numbers.values()) != found.labelled:
        raise HolderError("counts that do not add up.", code="answer-malformed")
    if found.records == 0:
        raise HolderError("no records to speak of.", code="records-few")
    return found


def ask_columns(devices: Devices) -> Steps[None]:
    """Ask for moments of columns, whose units differ; who does not tell takes part all the same."""

    def read(name: str, answer: Answer) -> tuple[Array, Array]:
        width = devices.counted[name].dimension
        mean = answer.array("mean", ndim=1, columns=width)
        variance = answer.array("variance", ndim=1, columns=width)
        if max(np.abs(mean).max(), variance.max()) > _WIDEST or variance.min() < 0:
            raise HolderError("moments that are none.", code="answer-malformed")
        return mean, variance

    devices.columns, _ = yield from ask_each(dict.fromkeys(devices.names, Spread()), read)


def _real(answer: Answer, name: str) -> float:
    value = answer.scalars.get(name)
    if isinstance(value, bool | str | None) or not np.isfinite(value):
        raise HolderError(f"{name} is no number.", code="answer-malformed")
    return float(value)


def read_trained(answer: Answer, spec: ModelSpec) -> Trained:
    """A model as a device told it, or an error that stands for what is wrong with it."""
    parameters = answer.array("parameters", ndim=1)
    error = answer.number("error")
    held_out = answer.optional_number("held_out")
    fits = parameters.shape == (spec.size,) and np.abs(parameters).max() <= _LARGEST
    if not fits or error > 1 or (held_out or 0.0) > 1:
        raise HolderError("a model that is none.", code="answer-malformed")
    told = error if held_out is None else held_out
    by_class = np.full(spec.classes, told)
    if held_out is not None:
        by_class = answer.array("class_errors", ndim=1)
        if by_class.shape != (spec.classes,) or by_class.min() < 0 or by_class.max() > 1:
            raise HolderError("errors that are none.", code="answer-malformed")
    return Trained(parameters, told, by_class)


def ask_each(
    questions: Questions, read: Callable[[str, Answer], T]
) -> Steps[tuple[dict[str, T], dict[str, Failure]]]:
    """Ask; return what answers hold and failures apart, both in the order of names.

    An answer that cannot be read is a failure too.
    """
    told: dict[str, T] = {}
    failed: dict[str, Failure] = {}
    answers = (yield questions) if questions else {}
    for name in sorted(questions):
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            failed[name] = answer
            continue
        try:
            told[name] = read(name, answer)
        except SilotError as error:
            failed[name] = Failure(error.code)
    return told, failed


def codes_of(failures: Mapping[str, Failure]) -> dict[str, str]:
    """Why devices are left out, in words of code."""
    return {name: failures[name].code for name in sorted(failures)}
