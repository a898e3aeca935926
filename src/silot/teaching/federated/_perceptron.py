"""Fully connected models, trained by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from .spec import Array, ModelSpec

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

Codes = npt.NDArray[np.int64]

# Rows handed to scikit-learn at once: what is in memory beside the records.
_ROWS = 4096


def train(
    spec: ModelSpec,
    parameters: Array,
    inputs: Array,
    codes: Codes,
    batches: npt.NDArray[np.intp],
    rate: float,
    momentum: float,
) -> Array:
    model = _model(spec, parameters, batches.shape[1], rate, momentum)
    step = max(1, _ROWS // batches.shape[1])
    for at in range(0, len(batches), step):
        # Rows in the order of the batches: scikit-learn then takes one step for each.
        rows = batches[at : at + step].ravel()
        model.partial_fit(inputs[rows], codes[rows])
    parts = zip(model.coefs_, model.intercepts_, strict=True)
    return np.concatenate([np.concatenate([w.ravel(), b.ravel()]) for w, b in parts])


def probabilities(spec: ModelSpec, parameters: Array, inputs: Array) -> Array:
    found = _model(spec, parameters, 1, 1.0, 0.0).predict_proba(inputs)
    return cast("Array", np.asarray(found, dtype=np.float64))


def _model(
    spec: ModelSpec, parameters: Array, batch: int, rate: float, momentum: float
) -> MLPClassifier:
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        hidden_layer_sizes=spec.hidden or (),
        solver="sgd",
        alpha=0.0,
        batch_size=cast("Any", batch),  # its stub knows 'auto' only
        learning_rate_init=rate,
        momentum=momentum,
        nesterovs_momentum=False,
        shuffle=False,
        random_state=0,
    )
    # scikit-learn builds a network on first sight of data; then the parameters are put in.
    blank = np.zeros((batch, spec.inputs))
    model.partial_fit(blank, np.zeros(batch, dtype=np.int64), classes=np.arange(spec.classes))
    for place, (weights, bias) in enumerate(spec.split(parameters)):
        model.coefs_[place] = weights.copy()
        model.intercepts_[place] = bias.copy()
    # The velocity of that first step must not reach the second.
    del model._optimizer
    return model
