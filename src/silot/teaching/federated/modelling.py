"""What holders are told to train: the classes, the architecture, and its units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from silot_transport._check import whole

from ...errors import InputError, MismatchError
from ...options import Check, Options, anything, none_or, option, seed
from .devices import Devices
from .spec import KINDS, Kind, ModelSpec


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


class Modelling(Labelled):
    """What model is trained."""

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

    def fit(self) -> None:
        super().fit()
        whole(self.seed, "seed", "option-seed", least=0, most=1 << 62)
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
        inputs = devices.counted[devices.names[0]].dimension
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
