"""What holders of one model share: all of it, or all but its last layer, the head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .spec import Array, ModelSpec
from .training import batches_of, checked_finite, network

Algorithm = Literal["fedavg", "fedper", "fedrep"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)

Codes = npt.NDArray[np.int64]


def check_head(spec: ModelSpec, algorithm: str) -> None:
    """Raise where a model has a head and nothing else to share."""
    if algorithm != "fedavg" and head_size(spec) == 0:
        raise InputError(
            f"{algorithm} shares all layers but the last, which must be fully connected; a "
            f"{spec.kind} model has no such layer beside others. Use model='mlp', or "
            "algorithm='fedavg'.",
            code="model-head",
        )


def head_size(spec: ModelSpec) -> int:
    """Count the parameters of the last layer."""
    inputs, outputs = spec.head
    return (inputs + 1) * outputs


def shared_size(spec: ModelSpec, algorithm: str) -> int:
    """Count the parameters that travel: all, or those of all layers but the last."""
    return spec.size if algorithm == "fedavg" else spec.size - head_size(spec)


@dataclass(frozen=True)
class InRound:
    """How a holder trains within one round, by stochastic gradient descent."""

    passes: float  # over its records, with the shared part
    head_passes: float  # over its records, to fit a head to the shared part first
    batch: int
    rate: float
    momentum: float
    seed: int  # of the batches

    def steps(self, records: int, passes: float) -> int:
        """Return how many batches there are in this many passes."""
        return math.ceil(passes * records / min(self.batch, records))


def descend(
    spec: ModelSpec,
    start: Array,
    points: Array,
    codes: Codes,
    how: InRound,
    passes: float,
    *,
    fixed: int = 0,
) -> Array:
    """Train all layers but the ``fixed`` last for some passes over scaled points."""
    steps = how.steps(len(points), passes)
    if steps == 0:
        return start
    order = batches_of(len(points), min(how.batch, len(points)), steps, how.seed)
    with np.errstate(over="ignore", invalid="ignore"):
        trained = network(spec).train(
            start, points, codes, order, how.rate, how.momentum, fixed=fixed, seed=how.seed
        )
    return checked_finite(trained)


def personal(spec: ModelSpec, body: Array, points: Array, codes: Codes, how: InRound) -> Array:
    r"""Fit a head to these records, and return it with the shared body: a complete model.

    .. math:: \theta_i = (\phi, h_i), \qquad
        h_i \approx \arg\min_h \tfrac{1}{n_i} \sum_k \ell\big(h^\top \phi(x_k), y_k\big)

    The head starts at 0: it is a function of body and records, so that no holder keeps anything
    between rounds, a site that starts again continues, and a holder that never took part gets its
    model in the same way. ``body`` are the parameters of all layers but the last, and ``points``
    enter the model as they are.
    """
    model = np.concatenate([body, np.zeros(head_size(spec))])
    inner = network(spec).body_outputs(model, points)
    head = ModelSpec("logistic", (inner.shape[1],), spec.classes)
    fitted = descend(head, np.zeros(head.size), inner, codes, how, how.head_passes)
    if head.outputs < spec.head[1]:
        # One unit of log odds for two classes, where the model has a unit for each.
        weights, bias = head.split(fitted)[0]
        pairs = np.stack([np.zeros(len(weights)), weights[:, 0]], axis=1)
        fitted = np.concatenate([pairs.ravel(), [0.0], bias])
    return np.concatenate([body, fitted])


def local_round(
    spec: ModelSpec, algorithm: str, model: Array, points: Array, codes: Codes, how: InRound
) -> Array:
    """Train one round from a holder's complete model, and return what the holder shares.

    FedAvg trains and shares all layers. FedPer trains all and shares all but the head; FedRep
    trains all but the head, which was fitted before, and shares those.
    """
    fixed = 1 if algorithm == "fedrep" else 0
    trained = descend(spec, model, points, codes, how, how.passes, fixed=fixed)
    return trained[: shared_size(spec, algorithm)]
