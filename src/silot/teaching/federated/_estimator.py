"""Estimators of scikit-learn whose parameters can be averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...errors import InputError

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# A description that arrives as a message must not make a holder allocate without limit.
LARGEST_MODEL = 1 << 25
# What estimators that are functions of sums of products call their parameters.
_NAMES = ("coef_", "intercept_", "coefs_", "intercepts_")


class Estimator:
    """A classifier of scikit-learn as a vector of its weights and biases.

    One that learns by ``partial_fit`` continues from the shared parameters, a pass over the records
    at a time. One that has ``warm_start`` is fitted from them; others are fitted again in each
    round. Its own settings hold: rate, momentum and batch of the training are not used.
    """

    head: tuple[int, int] = (0, 0)

    def __init__(self, template: Any, inputs: int, classes: int) -> None:
        self.template, self.inputs, self.classes = template, inputs, classes
        check_layers(template, inputs, classes)
        # Records of all classes, so that parameters have the shapes of a model of all of them.
        rng = np.random.default_rng(0)
        blank = rng.normal(size=(2 * classes + 2, inputs))
        codes = np.arange(len(blank)) % classes
        model = self._clone(0)
        try:
            if hasattr(model, "partial_fit"):
                model.partial_fit(blank, codes, classes=np.arange(classes))
            else:
                model.fit(blank, codes)
        except (TypeError, ValueError, AttributeError):
            raise _unfit(template) from None
        self._fitted = model
        self._parts = [(name, np.shape(array)) for name in _NAMES for array in _arrays(model, name)]
        self.size = sum(math.prod(shape) for _, shape in self._parts)
        if self.size == 0 or not (
            hasattr(model, "predict_proba") or hasattr(model, "decision_function")
        ):
            raise _unfit(template)

    def initial(self, seed: int) -> Array:
        """Draw parameters: 0 of a linear model, small numbers of the layers of a network."""
        rng = np.random.default_rng(seed)
        parts: list[Array] = []
        for name, shape in self._parts:
            reach = 1.0 / math.sqrt(shape[0]) if name == "coefs_" else 0.0
            parts.append(rng.uniform(-reach, reach, math.prod(shape)))
        return np.concatenate(parts)

    def train(
        self, parameters: Array, inputs: Array, codes: Codes, batches: npt.NDArray[np.intp],
        rate: float, momentum: float, *, fixed: int = 0, seed: int = 0,
    ) -> Array:  # fmt: skip
        """Train on the rows of ``batches``, a pass over the records at a time."""
        del rate, momentum, fixed
        try:
            return self._trained(parameters, inputs, codes, batches.ravel(), seed)
        except ValueError:
            # Of weights that are no longer finite.
            return np.full(self.size, np.nan)

    def _trained(
        self, parameters: Array, inputs: Array, codes: Codes, rows: npt.NDArray[np.intp], seed: int
    ) -> Array:
        model = self._with(parameters, seed)
        if hasattr(model, "partial_fit"):
            for at in range(0, len(rows), len(inputs)):
                part = rows[at : at + len(inputs)]
                model.partial_fit(inputs[part], codes[part])
            return self._vector(model, parameters, np.arange(self.classes))
        used = np.unique(rows)
        present = np.unique(codes[used])
        if len(present) < 2:
            # Records of one class show nothing of the others.
            return parameters
        if len(present) < self.classes or "warm_start" not in model.get_params():
            model = self._clone(seed)
        else:
            model.set_params(warm_start=True)
        model.fit(inputs[used], codes[used])
        return self._vector(model, parameters, present)

    def probabilities(self, parameters: Array, inputs: Array) -> Array:
        """Compute the probability of every class: the softmax of scores where there is none."""
        model = self._with(parameters, 0)
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(inputs), dtype=np.float64)
        scores = np.asarray(model.decision_function(inputs), dtype=np.float64)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def body_outputs(self, parameters: Array, inputs: Array) -> Array:
        """Estimators are one piece."""
        raise NotImplementedError

    def _clone(self, seed: int) -> Any:
        from sklearn.base import clone

        model: Any = clone(self.template)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed % (1 << 31))
        return model

    def _with(self, parameters: Array, seed: int) -> Any:
        """Return an estimator that has these parameters."""
        import copy

        model = copy.deepcopy(self._fitted)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed % (1 << 31))
        for array, values in self._pairs(model, parameters):
            # Into the arrays that are there: some estimators have views of them.
            array[...] = values
        # The moments of an optimiser belong to other parameters.
        if hasattr(model, "_optimizer"):
            del model._optimizer
        return model

    def _vector(self, model: Any, start: Array, present: npt.NDArray[Any]) -> Array:
        """Return parameters as a vector; classes without a record keep those of the start."""
        parts: list[Array] = []
        for array, rows in self._pairs(model, start):
            if array.shape != rows.shape:
                rows = rows.copy()
                # Of two classes there is one row: the score of the second over the first.
                rows[present] = array if len(array) > 1 else np.concatenate([-array, array]) / 2
                array = rows
            parts.append(np.asarray(array, dtype=np.float64).ravel())
        return np.concatenate(parts)

    def _pairs(self, model: Any, parameters: Array) -> Iterator[tuple[Array, Array]]:
        """Pair the arrays of a model with the parts of a vector that belong to them."""
        ends = np.cumsum([math.prod(shape) for _, shape in self._parts])
        arrays = [array for name in _NAMES for array in _arrays(model, name)]
        parts = np.split(parameters, ends[:-1])
        for array, part, (_, shape) in zip(arrays, parts, self._parts, strict=True):
            yield array, part.reshape(shape)


def _arrays(model: Any, name: str) -> list[Any]:
    """Return the parameters that an estimator calls so."""
    value = getattr(model, name, None)
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def check_layers(template: Any, inputs: int, classes: int) -> None:
    """Raise where the layers of a perceptron are too large, before anything is allocated."""
    hidden: Any = getattr(template, "hidden_layer_sizes", ())
    sizes = hidden if isinstance(hidden, tuple | list) else (hidden,)
    widths = [inputs, *cast("Sequence[Any]", sizes), classes]
    if all(isinstance(width, int) for width in widths):
        size = sum((a + 1) * b for a, b in pairwise(widths))
        if size > LARGEST_MODEL:
            raise InputError(
                f"a model of more than {LARGEST_MODEL} parameters is too large. Use smaller "
                "layers.",
                code="model-size",
            )


def _unfit(template: Any) -> InputError:
    return InputError(
        f"a {type(template).__name__} has no weights (coef_, coefs_) that can be averaged, or does "
        "not learn from scaled records and classes alone. Give a linear classifier, an "
        "MLPClassifier or a torch module.",
        code="model-estimator",
    )
