"""Architectures that are not silot's: of the user's own package, or of scikit-learn.

A question names an architecture and carries numbers; no code travels. A holder builds what is
named from what is installed with it:

``sklearn:NAME``
    A linear classifier or a perceptron of scikit-learn, with settings that are plain values.
``NAME``
    What a package offers as an entry point of the group ``silot.models``: a function of the shape
    of a record and the number of classes that returns a ``torch.nn.Module`` or an estimator.
``local:NAME``
    A module or an estimator that this process was called with. Holders in the same process have
    it, and others do not.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from ...errors import ExtraError, InputError

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Setting = bool | int | float | str | None | tuple[int, ...]
Settings = tuple[tuple[str, Setting], ...]

GROUP = "silot.models"
SKLEARN = "sklearn:"
LOCAL = "local:"
_MOST_SIZES = 16
_LONGEST_SETTING = 64
_LARGEST_SETTING = 1_000_000
_SKLEARN_MODULES = ("linear_model", "neural_network", "svm", "discriminant_analysis")

_local: dict[str, Any] = {}


class Architecture(Protocol):
    """A model whose parameters are one vector."""

    size: int
    head: tuple[int, int]

    def initial(self, seed: int) -> Array:
        """Draw parameters to start from, (P,)."""
        ...

    def train(
        self, parameters: Array, inputs: Array, codes: Codes, batches: npt.NDArray[np.intp],
        rate: float, momentum: float, *, fixed: int = 0, seed: int = 0,
    ) -> Array:  # fmt: skip
        """Train for one step a row of ``batches``, all but the ``fixed`` last layers."""
        ...

    def probabilities(self, parameters: Array, inputs: Array) -> Array:
        """Compute the probability of every class for every record, (n, C)."""
        ...

    def body_outputs(self, parameters: Array, inputs: Array) -> Array:
        """Compute the inputs of the last layer for every record, (n, its inputs)."""
        ...


def register(model: Any) -> tuple[str, Settings]:
    """Return the kind and the settings of a model of the user's.

    An estimator of scikit-learn whose settings are plain values is named in public. Others are kept
    as they are now, for holders of this process.
    """
    is_estimator = hasattr(model, "get_params") and hasattr(model, "fit")
    if is_estimator and not isinstance(model, type):
        name = type(model).__name__
        if _of_sklearn(name) is type(model):
            usual = type(model)().get_params(deep=False)
            settings = {
                key: value
                for key, value in model.get_params(deep=False).items()
                if value is not usual[key] and value != usual[key]
            }
            if all(map(is_plain, settings.values())):
                return SKLEARN + name, tuple(sorted(settings.items()))
    is_class = isinstance(model, type)
    if is_class or not (is_estimator or hasattr(model, "state_dict") or callable(model)):
        raise InputError(
            f"model is {'a class' if is_class else type(model).__name__}: no architecture by name, "
            "no ModelSpec, no torch module, no estimator of scikit-learn, no function of shape and "
            "classes that builds one. Give an instance, such as SGDClassifier().",
            code="model-kind",
        )
    import copy

    own = model if _is_builder(model) else copy.deepcopy(model)
    name = f"{LOCAL}{getattr(model, '__name__', type(model).__name__)}:{_digest(own)}"
    _local[name] = own
    return name, ()


def is_plain(value: Any) -> bool:
    """Return whether a setting may travel."""
    if isinstance(value, tuple):
        sizes = cast("tuple[Any, ...]", value)
        return len(sizes) <= _MOST_SIZES and all(type(size) is int for size in sizes)
    # Large numbers of iterations would keep a holder busy for ever.
    if isinstance(value, int | float):
        return abs(value) <= _LARGEST_SETTING
    return value is None or (isinstance(value, str) and len(value) <= _LONGEST_SETTING)


def _is_builder(model: Any) -> bool:
    return not (hasattr(model, "state_dict") or hasattr(model, "get_params"))


def _digest(model: Any) -> str:
    """Tell models with other first parameters or settings apart; a function is itself."""
    if _is_builder(model):
        return f"{id(model):x}"
    digest = hashlib.sha256(repr(model).encode())
    if hasattr(model, "state_dict"):
        for name, tensor in model.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def check_kind(kind: object, own: Sequence[str]) -> None:
    """Raise where no architecture has this name here."""
    if isinstance(kind, str):
        if kind.startswith(LOCAL) and kind in _local:
            return
        if kind.startswith(SKLEARN) and _of_sklearn(kind.removeprefix(SKLEARN)) is not None:
            return
        if kind in _offered():
            return
    others = "".join(f", {name}" for name in sorted(_offered()))
    raise InputError(
        f"model {str(kind)[:60]!r} is not known here; models are {', '.join(own)}{others}, "
        f"sklearn:SGDClassifier and such. Install the package that offers it (entry point "
        f"{GROUP}), at every holder.",
        code="model-kind",
    )


def _offered() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _of_sklearn(name: str) -> type | None:
    """Return a classifier of scikit-learn whose parameters can be averaged, by its name."""
    from sklearn.base import ClassifierMixin

    for part in _SKLEARN_MODULES:
        module = importlib.import_module(f"sklearn.{part}")
        item = getattr(module, name, None) if name in module.__all__ else None
        if isinstance(item, type) and issubclass(item, ClassifierMixin):
            return item
    return None


@lru_cache(maxsize=64)
def architecture(
    kind: str, shape: tuple[int, ...], classes: int, settings: Settings
) -> Architecture:
    """Build what ``check_kind`` knows."""
    if kind.startswith(SKLEARN):
        estimator = cast("Any", _of_sklearn(kind.removeprefix(SKLEARN)))
        try:
            model = estimator(**dict(settings))
        except TypeError:
            raise InputError(
                f"{kind} does not take these settings: {', '.join(name for name, _ in settings)}.",
                code="model-settings",
            ) from None
    elif kind.startswith(LOCAL):
        model = _local[kind]
    else:
        model = _offered()[kind].load()
    from ._estimator import Estimator

    if hasattr(model, "get_params"):
        return Estimator(model, int(np.prod(shape)), classes)
    if not _is_builder(model):
        from ._network import Network

        return Network(lambda _: model, shape, classes)
    try:
        from ._network import Network, seeded
    except ExtraError:
        return Estimator(model(shape, classes), int(np.prod(shape)), classes)
    first = seeded(0, lambda: model(shape, classes))
    if hasattr(first, "get_params"):
        return Estimator(first, int(np.prod(shape)), classes)
    return Network(lambda seed: seeded(seed, lambda: model(shape, classes)), shape, classes)
