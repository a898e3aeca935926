"""What devices train, and how: the options of it, and the questions."""

from __future__ import annotations

from typing import TypeVar

from ..distances.questions import encode_classes
from ..errors import InputError
from ..federation.answer import Failure
from ..federation.protocol import Steps
from ..options import count, none_or, number, option
from .costs import NoEligibleSource
from .federated import ModelSpec
from .federated.devices import Devices, Trained, ask_each, read_trained
from .federated.modelling import Modelling
from .federated.questions.models import TrainModel, described

T = TypeVar("T")

# Fewest records of a class that tell anything about it.
LEAST = 3


def settled(value: T | None) -> T:
    """An option that no default is left to choose for."""
    assert value is not None
    return value


class Learning(Modelling):
    """What devices train."""

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
        if self.folds == 1:
            raise InputError("folds is 1; give 0 for none, or two or more.", code="option-folds")
        if not (self.rate > 0 and 0 <= self.momentum < 1 and self.passes >= 0):
            raise InputError(
                "rate > 0, 0 <= momentum < 1 and passes >= 0 are needed.", code="option-training"
            )

    def spec_of(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        """The model that devices train, which must fit their records."""
        counted = [devices.counted[name] for name in devices.names]
        if len(classes) < 2 or not any(item.labelled for item in counted):
            raise NoEligibleSource(
                f"{len(classes)} class(es) have labelled records; two or more are needed. Give "
                "labels to a device, or the label of unlabelled records (unlabelled=...).",
                code="no-eligible-source",
            )
        return super().spec_of(devices, classes)

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
