"""What holders train: classes, architecture and units, and what the coordinator knows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ...data.label_names import label_name
from ...distances.questions import decode_classes, encode_classes
from ...distances.shared_options import seed_option
from ...distances.sides import agree_on_dimension
from ...errors import HolderError, InputError, MismatchError, SilotError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Questions, Steps, failure_error
from ...federation.question import Answerer
from ...options import Check, Options, anything, none_or, option
from ..questions import CountLabelled, Spread
from .registry import LOCAL, Settings, check_kind, register
from .spec import KINDS, ModelSpec
from .training import LARGEST_PARAMETER

T = TypeVar("T")

# Random features have norm 1, and their means no more.
_NORM = 1.0 + 1e-9
# Squares of wider records overflow.
_WIDEST = 1e150
# Times what devices' own deviations are in the median.
_FAR = 5.0
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Counted:
    """What one device disclosed of its records."""

    counts: dict[str, int]  # labelled records of every class
    labelled: int
    unlabelled: int
    dimension: int  # numbers of a record
    centre: float  # mean of all its numbers
    variance: float  # sum of its features' variances

    @property
    def records(self) -> int:
        """Records, labelled or not."""
        return self.labelled + self.unlabelled

    def by_class(self, classes: Sequence[str]) -> npt.NDArray[np.int64]:
        """Labelled records of every class, in an order."""
        return np.array([self.counts.get(name, 0) for name in classes], dtype=np.int64)


@dataclass(frozen=True)
class Trained:
    """The model that one device reported: its parameters and its error."""

    parameters: Array
    error: float


@dataclass
class Devices:
    """Devices of one run, by name, and why others take no part."""

    counted: dict[str, Counted] = field(default_factory=dict[str, Counted])
    # Devices that take no part, and those that take part and may be no source.
    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])
    excluded: dict[str, Failure] = field(default_factory=dict[str, Failure])
    quorum: int = 2
    # Mean and variance of every column, of the devices that disclosed them.
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
        """Compute mean and standard deviation of all records, by column where these are known.

        The deviation of what does not vary is 1.
        """
        names = [name for name in self.names if name in self.columns]
        items = [self.counted[name] for name in names or self.names]
        weights = np.array([item.records for item in items], dtype=np.float64)
        weights /= weights.sum()
        if names:
            means = np.array([self.columns[name][0] for name in names])
            variances = np.array([self.columns[name][1] for name in names])
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
        """Exclude devices from now on; raise when fewer than the quorum take part."""
        for name, failure in failures.items():
            self.counted.pop(name, None)
            self.excluded.pop(name, None)
            self.missing[name] = failure
        self.check()

    def check(self) -> None:
        """Raise what the first failure means, when fewer than the quorum take part."""
        if len(self.counted) >= self.quorum:
            return
        if self.missing:
            raise failure_error(*min(self.missing.items()))
        raise InputError("two holders or more are needed.", code="holder-names")


def count_labelled(
    names: Sequence[str], classes: Sequence[str] | None, unlabelled: str, devices: Devices
) -> Steps[tuple[str, ...]]:
    """Ask everybody for counts of labelled records; return the list of classes."""
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
    text = str(answer.scalars.get("classes"))
    names = list(classes) if classes is not None else decode_classes(text)
    counts = answer.arrays.get("counts")
    if counts is None or counts.dtype != np.int64 or counts.shape != (len(names),):
        raise HolderError("counts that are not valid.", code="answer-malformed")
    numbers = {name: int(number) for name, number in zip(names, counts.tolist(), strict=True)}
    item = Counted(
        counts=numbers,
        labelled=int(answer.number("labelled")),
        unlabelled=int(answer.number("unlabelled")),
        dimension=int(answer.number("dimension")),
        centre=_real(answer, "centre"),
        variance=answer.number("variance"),
    )
    if max(abs(item.centre), item.variance) > _WIDEST:
        raise HolderError("moments that are not valid.", code="answer-malformed")
    if min(numbers.values(), default=0) < 0 or sum(numbers.values()) != item.labelled:
        raise HolderError("counts that do not add up.", code="answer-malformed")
    if item.records == 0:
        raise HolderError("almost no records.", code="records-few")
    return item


def ask_columns(devices: Devices) -> Steps[None]:
    """Ask for moments of columns, whose units differ; who fails takes part all the same."""

    def read(name: str, answer: Answer) -> tuple[Array, Array]:
        return read_spread(answer, devices.counted[name].dimension)

    devices.columns, _ = yield from ask_each(dict.fromkeys(devices.names, Spread()), read)


def read_spread(answer: Answer, width: int | None = None) -> tuple[Array, Array]:
    """Read mean and variance of every feature, or raise a ``HolderError``."""
    mean = answer.array("mean", ndim=1, columns=width)
    variance = answer.array("variance", ndim=1, columns=len(mean))
    if max(np.abs(mean).max(), variance.max()) > _WIDEST or variance.min() < 0:
        raise HolderError("moments that are not valid.", code="answer-malformed")
    return mean, variance


def _real(answer: Answer, name: str) -> float:
    value = answer.scalars.get(name)
    if isinstance(value, bool | str | None) or not np.isfinite(value):
        raise HolderError(f"{name} is not a number.", code="answer-malformed")
    return float(value)


def read_trained(answer: Answer, spec: ModelSpec) -> Trained:
    """Read the model of a device, or raise a ``HolderError``."""
    parameters = answer.array("parameters", ndim=1, single=True)
    error = answer.number("error")
    held_out = answer.optional_number("held_out")
    fits = parameters.shape == (spec.size,) and np.abs(parameters).max() <= LARGEST_PARAMETER
    if not fits or error > 1 or (held_out or 0.0) > 1:
        raise HolderError("a model that is not valid.", code="answer-malformed")
    return Trained(parameters, error if held_out is None else held_out)


@dataclass(frozen=True)
class Means:
    """Mean features of one device: of all its records, and of its labelled ones by class."""

    mean: Array
    by_class: Array
    counts: npt.NDArray[np.int64]


def read_means(answer: Answer, classes: int, features: int, *, by_class: bool) -> Means:
    """Read the mean features of a device, or raise a ``HolderError``."""
    mean = answer.array("mean", ndim=1)
    means, counts = np.zeros((classes, features)), np.zeros(classes, dtype=np.int64)
    if by_class:
        means, counts = answer.array("means", ndim=2), answer.arrays.get("counts")
    fits = mean.shape == (features,) and means.shape == (classes, features)
    if not fits or counts is None or counts.dtype != np.int64 or counts.shape != (classes,):
        raise HolderError("means that are not valid.", code="answer-malformed")
    norms = np.linalg.norm(np.vstack([mean[None], means]), axis=1)
    if (counts < 0).any() or not (norms <= _NORM).all():
        raise HolderError("counts or means that are not valid.", code="answer-malformed")
    return Means(mean, means, counts)


def ask_each(
    questions: Questions, read: Callable[[str, Answer], T]
) -> Steps[tuple[dict[str, T], dict[str, Failure]]]:
    """Ask; return what answers hold, and failures, both in the order of names.

    An answer that cannot be read is a failure too.
    """
    values: dict[str, T] = {}
    failed: dict[str, Failure] = {}
    answers = (yield questions) if questions else {}
    for name in sorted(questions):
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            failed[name] = answer
            continue
        try:
            values[name] = read(name, answer)
        except SilotError as error:
            failed[name] = Failure(error.code)
    return values, failed


def answer_locally(steps: Steps[T], parties: Mapping[str, Answerer]) -> T:
    """Run steps whose questions go to the caller's own data; for others there are none."""
    absent = Failure("evaluation-absent")
    try:
        questions = next(steps)
        while True:
            questions = steps.send({
                name: parties[name].answer(question) if name in parties else absent
                for name, question in questions.items()
            })  # fmt: skip
    except StopIteration as stop:
        return stop.value


def codes_of(failures: Mapping[str, Failure]) -> dict[str, str]:
    """Return the codes of failures, in the order of names."""
    return {name: failures[name].code for name in sorted(failures)}


def _classes(value: Any, *_: str) -> tuple[str, ...]:
    """Names of classes: two or more different texts."""
    names = tuple(value)
    texts = {label_name(name) for name in names if isinstance(name, str)}
    if isinstance(value, str) or len(texts) != len(names) or len(names) < 2:
        raise InputError("classes must be two or more different texts.", code="option-classes")
    return tuple(map(label_name, names))


def _unlabelled(value: Any, *_: str) -> str:
    if not isinstance(value, str):
        raise InputError(
            "unlabelled is not a text; give the label that stands for none.",
            code="option-unlabelled",
        )
    return label_name(value)


class Labelled(Options):
    """What is said of all records."""

    classes: Sequence[str] | None = option(
        "Public list of the classes; by default those that devices name.",
        none_or(Check(_classes, None, "list of str")),
        default=None,
        flag=False,
    )
    unlabelled: str = option(
        "Label that marks records without a label.",
        Check(_unlabelled, str, "str"),
        default="",
        brief="Label that marks unlabelled records. Default: empty.",
    )
    seed: int = seed_option(
        "Seed of the common start, of batches, folds, random features and "
        "projections. The result does not depend on the order of ``holders``."
    )


class Modelling(Labelled):
    """What model is trained."""

    model: Any = option(
        'Architecture of all models: ``"mlp"``, ``"logistic"`` or ``"cnn"``; a ``ModelSpec``; a '
        "``torch.nn.Module`` that returns logits, or a linear classifier or perceptron of "
        "scikit-learn, of your own; a function of shape and number of classes that builds one. "
        "Sites build ``sklearn:NAME``, or NAME of the entry points ``silot.models`` of packages "
        "that they have; no code travels. Records are scaled by the mean and the standard "
        "deviation of all numbers of all devices.",
        anything("str, ModelSpec, module, estimator or function", str),
        default="mlp",
        brief="What devices train: mlp, logistic, cnn, sklearn:NAME, or a model that packages "
        "of all devices offer.",
    )
    shape: Sequence[int] | None = option(
        'Shape of one record, such as (28, 28); ``"cnn"`` needs it. A module gets records of this '
        "shape, by default as rows.",
        anything("tuple of int, or None", str),
        default=None,
        brief="Shape of a record as an image, such as 28x28, for a cnn or a module.",
    )

    def fit(self) -> None:
        super().fit()
        integer(self.seed, "seed", "option-seed", least=0, most=1 << 62)
        if isinstance(self.model, ModelSpec):
            if self.shape is not None:
                raise InputError("a ModelSpec has a shape: leave shape out.", code="model-shape")
            return
        kind, _ = self._kind
        needs, takes = kind == "cnn", kind not in ("mlp", "logistic")
        if (needs and self.shape is None) or (not takes and self.shape is not None):
            raise InputError(
                "a cnn needs the shape of its images (shape, such as 28x28), and a mlp or logistic "
                f"model takes none; model is {kind!r} and shape {self.shape}.",
                code="model-kind",
            )
        if self.shape is not None:
            # Checks the shape; the number of classes is not known yet, and no module is built.
            ModelSpec("cnn" if needs else "mlp", tuple(self.shape), 2)

    @property
    def _kind(self) -> tuple[str, Settings]:
        """Kind and settings of the model; one of the caller's own is kept for holders here."""
        if not isinstance(self.model, str):
            return register(self.model)
        if self.model not in KINDS:
            check_kind(self.model, KINDS)
        return self.model, ()

    @property
    def described_model(self) -> str:
        """The model as a transcript has it; of one's own its name alone."""
        if isinstance(self.model, ModelSpec):
            return self.model.to_text()
        kind = self._kind[0]
        return kind.rpartition(":")[0] if kind.startswith(LOCAL) else kind

    @property
    def by_column(self) -> bool:
        """Whether columns have units of their own; pixels of an image have one."""
        return not isinstance(self.model, ModelSpec) and self.shape is None

    def spec_of(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        """Describe the model that devices train, which must fit their records."""
        inputs = devices.counted[devices.names[0]].dimension
        model = self.model
        if not isinstance(model, ModelSpec):
            return self._scaled(*self._kind, devices, inputs, len(classes))
        if model.inputs != inputs or model.classes != len(classes):
            raise MismatchError(
                f"the model is for {model.inputs} numbers and {model.classes} classes; "
                f"records have {inputs} and there are {len(classes)} classes.",
                code="model-mismatch",
            )
        return model

    def _scaled(
        self, kind: str, settings: Settings, devices: Devices, inputs: int, classes: int
    ) -> ModelSpec:
        """Describe a model of a kind, scaled by the moments of all devices."""
        centre, scale = devices.units()
        spec = ModelSpec(
            kind,
            (inputs,) if self.shape is None else tuple(self.shape),
            classes,
            centre=tuple(centre.tolist()) if len(centre) > 1 else float(centre[0]),
            scale=tuple(scale.tolist()) if len(scale) > 1 else float(scale[0]),
            settings=settings,
        )
        if spec.inputs != inputs:
            raise MismatchError(
                f"shape holds {spec.inputs} numbers; records have {inputs}.", code="model-mismatch"
            )
        return spec
