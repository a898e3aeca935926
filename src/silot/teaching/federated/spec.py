"""Architectures of models, described in public; parameters as one vector of numbers."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer, real

from ...data.foreign import parse_json
from ...errors import InputError, WireError
from . import registry
from ._estimator import LARGEST_MODEL

if TYPE_CHECKING:
    from .registry import Architecture

Array = npt.NDArray[np.float64]
Kind = Literal["logistic", "mlp", "cnn"]
KINDS: tuple[str, ...] = get_args(Kind)

_SIDE = 5
_LEAST_IMAGE = 16
_MAPS = (10, 20)
# Settings of an estimator that travel.
_MOST_SETTINGS = 64


@dataclass(frozen=True)
class ModelSpec:
    r"""A model all parties know: its architecture, without its parameters.

    Parameters
    ----------
    kind
        ``"logistic"``: multinomial logistic regression. ``"mlp"``: fully connected layers with
        ReLU. ``"cnn"`` (extra ``silot[torch]``): two convolutions (10 and 20 maps, kernel 5),
        each followed by max-pooling of 2 and ReLU, then fully connected layers; the model of
        paper 003. Or the name of an architecture that a package of every holder offers, see
        ``registry``: ``"sklearn:SGDClassifier"``, or one of the entry points ``silot.models``.
    shape
        Shape of one record: ``(d,)`` for a table, ``(h, w)`` or ``(h, w, channels)`` for an
        image. Records travel as rows of as many numbers, in this order.
    classes
        Number of classes, two or more. Their names are a public list kept elsewhere.
    hidden
        Widths of the fully connected hidden layers, by default (64,) and for ``"cnn"`` (50,).
    centre, scale
        Records enter the model as :math:`(x - \mathrm{centre}) / \mathrm{scale}`: public, the
        same for all parties; one number each, or one for each number of a record.
    settings
        Arguments of an estimator of scikit-learn, as pairs of name and value.

    Raises
    ------
    InputError
        An unknown kind, sizes that are not positive whole numbers, images of fewer than 16
        pixels a side, a model of more than 2^25 parameters.

    Examples
    --------
    >>> spec = ModelSpec("mlp", (4,), 3, hidden=(8,))
    >>> spec.size, ModelSpec.from_text(spec.to_text()) == spec
    (67, True)
    """

    kind: Kind | str
    shape: tuple[int, ...]
    classes: int
    hidden: tuple[int, ...] | None = None
    centre: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    settings: tuple[tuple[str, registry.Setting], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            registry.check_kind(self.kind, KINDS)
        hidden = self.hidden
        if hidden is None:
            hidden = {"mlp": (64,), "cnn": (50,)}.get(self.kind, ())
        if self.kind not in ("mlp", "cnn") and len(hidden) > 0:
            raise InputError(
                f"a model of kind {self.kind!r} takes no hidden layers. Use kind='mlp'.",
                code="model-shape",
            )
        checked = {
            "shape": _sizes(self.shape, "shape"),
            "hidden": _sizes(hidden, "hidden"),
            "classes": integer(self.classes, "classes", "model-shape", least=2),
            "centre": _columns(self.centre, "centre"),
            "scale": _columns(self.scale, "scale"),
            "settings": _settings(self.settings, self.kind),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not np.all(np.asarray(self.scale) > 0):
            raise InputError(
                f"scale is {np.min(self.scale)} somewhere; it must be positive.", code="model-scale"
            )
        self._check_shape()
        for name in ("centre", "scale"):
            if np.size(getattr(self, name)) not in (1, self.inputs):
                raise InputError(
                    f"{name} has {np.size(getattr(self, name))} numbers; give one, or one for "
                    f"each of the {self.inputs} numbers of a record.",
                    code="model-scale",
                )
        if self.inputs > LARGEST_MODEL or self.size > LARGEST_MODEL:
            raise InputError(
                f"a model of more than {LARGEST_MODEL} parameters is too large. Use smaller "
                "layers.",
                code="model-size",
            )

    def _check_shape(self) -> None:
        if self.kind != "cnn":
            if not self.shape:
                raise InputError("shape is empty; give (features,).", code="model-shape")
            return
        if len(self.shape) not in (2, 3) or min(self.shape[:2]) < _LEAST_IMAGE:
            raise InputError(
                f"shape is {self.shape}; a cnn needs (h, w) or (h, w, channels) with sides of "
                f"{_LEAST_IMAGE} or more. Use kind='mlp' for smaller images.",
                code="model-shape",
            )

    @property
    def inputs(self) -> int:
        """Numbers of one record."""
        return math.prod(self.shape)

    @property
    def layers(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Shape of the weights of every layer, and how many inputs each of its units has.

        Fully connected weights are (inputs, outputs), convolutions (maps, channels, 5, 5). A
        bias of one number an output or map follows each.
        """
        layers: list[tuple[tuple[int, ...], int]] = []
        width = self.inputs
        if self.kind == "cnn":
            channels = self.shape[2] if len(self.shape) == 3 else 1
            high, wide = self.shape[:2]
            for maps in _MAPS:
                layers.append(((maps, channels, _SIDE, _SIDE), channels * _SIDE * _SIDE))
                high, wide = (high - _SIDE + 1) // 2, (wide - _SIDE + 1) // 2
                channels = maps
            width = channels * high * wide
        for units in (*(self.hidden or ()), self.outputs):
            layers.append(((width, units), width))
            width = units
        return tuple(layers)

    @property
    def architecture(self) -> Architecture | None:
        """What trains a model of another kind than ``KINDS``."""
        if self.kind in KINDS:
            return None
        return registry.architecture(self.kind, self.shape, self.classes, self.settings)

    @property
    def head(self) -> tuple[int, int]:
        """Inputs and outputs of the last layer, whose parameters are the vector's last.

        (0, 0) of a model that has no layers, or one alone.
        """
        built = self.architecture
        if built is not None:
            return built.head
        layers = self.layers
        return cast("tuple[int, int]", layers[-1][0]) if len(layers) > 1 else (0, 0)

    @property
    def outputs(self) -> int:
        """Units of the last layer; one stands for two classes, except in a cnn."""
        return 1 if self.classes == 2 and self.kind != "cnn" else self.classes

    @property
    def size(self) -> int:
        """Number of parameters P."""
        built = self.architecture
        if built is not None:
            return built.size
        return sum(math.prod(shape) + _biases(shape) for shape, _ in self.layers)

    def scaled(self, points: npt.NDArray[Any]) -> Array:
        """Records as they enter the model, shape (n, inputs)."""
        return (points - np.asarray(self.centre)) / np.asarray(self.scale)

    def split(self, parameters: npt.NDArray[Any]) -> list[tuple[Array, Array]]:
        """Weights and bias of every layer, as views of the vector."""
        parts: list[tuple[Array, Array]] = []
        at = 0
        for shape, _ in self.layers:
            weights, biases = math.prod(shape), _biases(shape)
            parts.append(
                (
                    parameters[at : at + weights].reshape(shape),
                    parameters[at + weights : at + weights + biases],
                )
            )
            at += weights + biases
        return parts

    def to_text(self) -> str:
        """The description as JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ModelSpec:
        """Read a description; anything malformed is a ``WireError`` or an ``InputError``."""

        def fail(why: str) -> WireError:
            return WireError(
                f"the text describes no model ({why}). Install the same silot on both sides.",
                code="model-text",
            )

        body = cast("object", parse_json(text, fail))
        names = set(cls.__dataclass_fields__)
        if not isinstance(body, dict) or set(cast("dict[str, object]", body)) != names:
            raise fail("its fields are others")
        fields = cast("dict[str, Any]", body)
        for name in ("shape", "hidden"):
            fields[name] = _sizes(fields[name], name)
        for name in ("centre", "scale"):
            if isinstance(fields[name], list):
                fields[name] = tuple(cast("list[Any]", fields[name]))
        return cls(**fields)


def _settings(values: object, kind: str) -> tuple[tuple[str, registry.Setting], ...]:
    """Return settings of an estimator in the order of their names."""
    entries = cast("list[Any]", values) if isinstance(values, tuple | list) else [()]
    pairs: list[tuple[Any, Any]] = []
    for entry in entries:
        if isinstance(entry, tuple | list) and len(cast("list[Any]", entry)) == 2:
            name, value = cast("list[Any]", entry)
            pairs.append((name, tuple(value) if isinstance(value, list) else value))
    fits = len(entries) == len(pairs) <= _MOST_SETTINGS
    fits = fits and all(isinstance(name, str) and registry.is_plain(v) for name, v in pairs)
    if not fits or (pairs and not kind.startswith(registry.SKLEARN)):
        raise InputError(
            "settings are pairs of a name and a number, numbers, a truth value or a short text, "
            "for an estimator of scikit-learn.",
            code="model-settings",
        )
    return tuple(sorted(pairs))


def _columns(values: object, name: str) -> float | tuple[float, ...]:
    if not isinstance(values, tuple | list | np.ndarray):
        return real(values, name, "model-scale")
    return tuple(real(value, name, "model-scale") for value in cast("list[Any]", values))


def _biases(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) == 2 else shape[0]


def _sizes(values: object, name: str) -> tuple[int, ...]:
    if not isinstance(values, tuple | list) or len(cast("list[object]", values)) > 8:
        raise InputError(
            f"{name} is not a short sequence of whole numbers; give for example (28, 28).",
            code="model-shape",
        )
    entries = cast("list[object]", values)
    return tuple(integer(value, name, "model-shape", most=LARGEST_MODEL) for value in entries)
