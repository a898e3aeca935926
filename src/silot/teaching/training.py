"""What devices train, and how: the options of it, and the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from ..distances.questions.labelled import encode_classes
from ..errors import InputError, MismatchError
from ..federation.answer import Failure
from ..federation.protocol import Steps
from ..learning import KINDS, Kind, ModelSpec
from ..options import Check, Options, anything, count, none_or, number, option, seed
from ..transport._check import whole
from .costs import NoEligibleSource
from .devices import Devices, Trained, ask_each, read_trained
from .questions.models import TrainModel, described

T = TypeVar("T")

# Fewest records of a class that tell anything about it.
LEAST = 3


def settled(value: T | None) -> T:
    """An option that no default is left to choose for."""
    assert value is not None
    return value


def _classes(value: Any, *_: str) -> tuple[str, ...]:
    """Names of classes: two or more different texts."""
    names = tuple(value)
    texts: list[Any] = [name for name in names if isinstance(name, str)]
    if isinstance(value, str) or len(set(texts)) != len(names) or len(names) < 2:
        raise InputError("classes must be two or more different texts.", code="option-classes")
    return names


def _unlabelled(value: Any, *_: str) -> str:
    if not isinstance(value, str):
        raise InputError(
            "unlabelled is no text; give the label that stands for none.",
            code="option-unlabelled",
        )
    return value


class Labelled(Options):
    """What is said of all records."""

    classes: Sequence[str] | None = option(
        "Public list of the classes; by default those that devices name.",
        none_or(Check(_classes, None, "list of str")),
        default=None,
        flag=False,
    )
    unlabelled: str = option(
        "Label of records that have none.",
        Check(_unlabelled, str, "str"),
        default="",
        brief="Label that stands for none. Default: empty.",
    )
    seed: int = option(
        "Of the common start, of batches, folds, random features, projections. The result does "
        "not depend on the order of ``holders``.",
        seed(),
        default=0,
        brief="Seed of everything random.",
    )


class Learning(Labelled):
    """What devices train."""

    model: ModelSpec | str = option(
        'Architecture of all models: ``"mlp"``, ``"logistic"`` or ``"cnn"``, scaled by the mean '
        "and the standard deviation of all numbers of all devices, or a ``ModelSpec``.",
        anything("{'mlp', 'logistic', 'cnn'} or ModelSpec", KINDS),
        default="mlp",
        brief="What devices train.",
    )
    shape: Sequence[int] | None = option(
        'Shape of one record, such as (28, 28); ``"cnn"`` needs it.',
        anything("tuple of int, or None", str),
        default=None,
        brief="Shape of a record as an image, such as 28x28, for a cnn.",
    )
    iterations: int = option(
        "Steps of training at a device, as in ``learning.train``. The paper's are 100 iterations "
        "without momentum, which leaves its CNN near chance on small devices.",
        count(1, 1_000_000),
        default=300,
        brief="Steps of training at a device.",
    )
    passes: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.0, flag=False
    )
    batch: int = option(
        "Of the training, as in ``learning.train``.", count(), default=10, flag=False
    )
    rate: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.01, flag=False
    )
    momentum: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.9, flag=False
    )
    folds: int | None = option(
        "Parts for the held-out error, by default 2; 0 believes the error on the training "
        "records, as the paper does, which is too low.",
        none_or(count(0, 100)),
        default=None,
        flag=False,
    )
    minimum_labelled: int = option(
        "Fewest labelled records of a source.",
        count(),
        default=5,
        code="option-labelled",
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        whole(self.seed, "seed", "option-seed", least=0, most=1 << 62)
        if self.folds == 1:
            raise InputError("folds is 1; give 0 for none, or two or more.", code="option-folds")
        if not (self.rate > 0 and 0 <= self.momentum < 1 and self.passes >= 0):
            raise InputError(
                "rate > 0, 0 <= momentum < 1 and passes >= 0 are needed.", code="option-training"
            )
        if isinstance(self.model, ModelSpec):
            if self.shape is not None:
                raise InputError("a ModelSpec has a shape: leave shape out.", code="model-shape")
            return
        if self.model not in KINDS:
            raise InputError(
                f"model is {self.model!r}; give one of {', '.join(KINDS)}, or a ModelSpec(...).",
                code="model-kind",
            )
        if (self.model == "cnn") == (self.shape is None):
            raise InputError(
                "a cnn needs the shape of its images (shape, such as 28x28), and other models "
                f"take none; model is {self.model!r} and shape {self.shape}.",
                code="model-kind",
            )
        if self.shape is not None:
            # Checks the shape; the number of classes is not known yet.
            ModelSpec(cast("Kind", self.model), tuple(self.shape), 2)

    @property
    def by_column(self) -> bool:
        """Whether columns have units of their own; pixels of an image have one."""
        return isinstance(self.model, str) and self.model != "cnn"

    def spec_of(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        """The model that devices train, which must fit their records."""
        counted = [devices.counted[name] for name in devices.names]
        inputs = counted[0].dimension
        if len(classes) < 2 or not any(item.labelled for item in counted):
            raise NoEligibleSource(
                f"{len(classes)} class(es) have labelled records; two or more are needed. Give "
                "labels to a device, or the label of unlabelled records (unlabelled=...).",
                code="no-eligible-source",
            )
        model = self.model
        if isinstance(model, str):
            return self._scaled(cast("Kind", model), devices, inputs, len(classes))
        if model.inputs != inputs or model.classes != len(classes):
            raise MismatchError(
                f"the model is for {model.inputs} numbers and {model.classes} classes; "
                f"records have {inputs} and there are {len(classes)} classes.",
                code="model-mismatch",
            )
        return model

    def _scaled(self, kind: Kind, devices: Devices, inputs: int, classes: int) -> ModelSpec:
        """A model of a kind, scaled by what devices told."""
        centre, scale = devices.units()
        spec = ModelSpec(
            kind,
            (inputs,) if self.shape is None else tuple(self.shape),
            classes,
            centre=tuple(centre.tolist()) if len(centre) > 1 else float(centre[0]),
            scale=tuple(scale.tolist()) if len(scale) > 1 else float(scale[0]),
        )
        if spec.inputs != inputs:
            raise MismatchError(
                f"shape holds {spec.inputs} numbers; records have {inputs}.", code="model-mismatch"
            )
        return spec

    def train(
        self, devices: Devices, spec: ModelSpec, classes: tuple[str, ...]
    ) -> Steps[dict[str, Trained]]:
        """Models of the devices that have labels enough; the others are excluded."""
        able: list[str] = []
        for name in devices.names:
            labelled = devices.counted[name].labelled
            if labelled >= self.minimum_labelled:
                able.append(name)
            elif labelled:
                devices.excluded[name] = Failure("labels-few")
        question = TrainModel(
            **described(spec),
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            least=LEAST,
            folds=settled(self.folds),
            iterations=self.iterations,
            passes=self.passes,
            batch=self.batch,
            rate=self.rate,
            momentum=self.momentum,
            seed=self.seed,
        )
        trained, failed = yield from ask_each(
            dict.fromkeys(able, question), lambda _, answer: read_trained(answer, spec)
        )
        devices.excluded.update(failed)
        if not trained:
            reasons = ", ".join(f"{k} ({v.code})" for k, v in sorted(devices.excluded.items()))
            raise NoEligibleSource(
                f"no device could train a model: {reasons or 'none has labels'}. A source needs "
                f"{self.minimum_labelled} labels or more and a policy of level 'record'.",
                code="no-eligible-source",
            )
        return trained


def guessing(trained: dict[str, Trained], devices: Devices, classes: tuple[str, ...]) -> list[str]:
    """Sources whose model is wrong as often as who always names its largest class."""
    found: list[str] = []
    for name in sorted(trained.keys() & devices.counted.keys()):
        counts = devices.counted[name].by_class(classes)
        largest = counts.max() / counts.sum()
        # Of one class there is nothing to guess.
        if largest < 1.0 and trained[name].error >= 1.0 - largest:
            found.append(name)
    return found
