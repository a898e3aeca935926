"""Start, train and apply a model given as one vector of parameters, or all but its last layer.

The last layer is the head, which holders of one model need not share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ...errors import InputError, MismatchError
from ...options import number, part
from .spec import Array, ModelSpec

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

    from .registry import Architecture

Codes = npt.NDArray[np.int64]
Algorithm = Literal["fedavg", "fedper", "fedrep"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)

# Larger parameters belong to no model that was trained, and overflow in every layer.
LARGEST_PARAMETER = 1e6
# Rows handed to scikit-learn at once: what is in memory beside the records.
_PERCEPTRON_ROWS = 4096
# Kinds that need no torch.
_PERCEPTRONS = ("logistic", "mlp")


def network(spec: ModelSpec) -> Architecture:
    """Return what trains a model of any kind; silot's own kinds in torch."""
    built = spec.architecture
    if built is not None:
        return built
    from ._network import layered

    return layered(tuple(shape for shape, _ in spec.layers), spec.shape, spec.classes)


def train_perceptron(
    spec: ModelSpec,
    parameters: Array,
    inputs: Array,
    codes: Codes,
    batches: npt.NDArray[np.intp],
    rate: float,
    momentum: float,
) -> Array:
    """Train a fully connected model with scikit-learn, one step for each row of ``batches``."""
    model = _perceptron(spec, parameters, batches.shape[1], rate, momentum)
    step = max(1, _PERCEPTRON_ROWS // batches.shape[1])
    for at in range(0, len(batches), step):
        # Rows in the order of the batches: scikit-learn then takes one step for each.
        rows = batches[at : at + step].ravel()
        model.partial_fit(inputs[rows], codes[rows])
    parts = zip(model.coefs_, model.intercepts_, strict=True)
    return np.concatenate([np.concatenate([w.ravel(), b.ravel()]) for w, b in parts])


def perceptron_probabilities(spec: ModelSpec, parameters: Array, inputs: Array) -> Array:
    """Return the probability of every class of each record, computed by scikit-learn."""
    outputs = _perceptron(spec, parameters, 1, 1.0, 0.0).predict_proba(inputs)
    return cast("Array", np.asarray(outputs, dtype=np.float64))


def _perceptron(
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


class Training(TypedDict, total=False):
    """Options of ``train``, to be passed on."""

    iterations: int
    passes: float
    batch: int
    rate: float
    momentum: float
    seed: int


def initial(spec: ModelSpec, seed: int) -> Array:
    r"""Draw parameters to start from, (P,): the same for everybody who knows the seed.

    Weights and biases of a layer whose units have m inputs are uniform on :math:`\pm 1 / \sqrt m`;
    a logistic model starts at 0, and a module of the user's as it is.
    """
    rng = np.random.default_rng(integer(seed, "seed", "option-seed", least=0, most=1 << 62))
    built = spec.architecture
    if built is not None:
        return built.initial(seed)
    if spec.kind == "logistic":
        return np.zeros(spec.size)
    parts: list[Array] = []
    for (weights, bias), (_, fan) in zip(spec.split(np.empty(spec.size)), spec.layers, strict=True):
        reach = 1.0 / math.sqrt(fan)
        parts.append(rng.uniform(-reach, reach, weights.size + bias.size))
    return np.concatenate(parts)


def train(
    spec: ModelSpec,
    parameters: npt.ArrayLike,
    points: npt.ArrayLike,
    codes: npt.ArrayLike,
    *,
    iterations: int = 100,
    passes: float = 0.0,
    batch: int = 10,
    rate: float = 0.01,
    momentum: float = 0.0,
    seed: int = 0,
) -> Array:
    r"""Train by stochastic gradient descent on the mean cross-entropy of each batch; return (P,).

    .. math:: v \leftarrow \beta v - r \nabla L(\theta), \qquad \theta \leftarrow \theta + v

    There are ``max(iterations, ceil(passes * n / batch))`` steps, whose batches run through random
    permutations of the records. ``codes`` are classes from 0 to classes - 1, some of which may be
    absent. The same arguments give the same parameters; no global random state is read or changed.
    ST-LF has 100 iterations, batches of 10, rate .01 and no momentum (sec. V).

    Raises
    ------
    InputError, MismatchError
        Arguments out of range or that do not fit together; ``"training-diverged"`` when
        parameters are no longer finite.
    ExtraError
        A cnn or a module, and torch is not installed.

    Examples
    --------
    >>> spec = ModelSpec("logistic", (1,), 2)
    >>> trained = train(spec, initial(spec, 0), [[-1.0], [1.0]], [0, 1], batch=2, rate=1.0)
    >>> probabilities(spec, trained, [[-1.0], [1.0]]).argmax(axis=1)
    array([0, 1])
    """
    start = _parameters(spec, parameters)
    inputs = _inputs(spec, points)
    labels = _codes(spec, codes, len(inputs))
    rate = number(above=0).of(rate, "rate", "option-training")
    momentum = part("number").of(momentum, "momentum", "option-training")
    passes = number(least=0).of(passes, "passes", "option-training")
    size = min(integer(batch, "batch", "option-batch"), len(inputs))
    steps = integer(iterations, "iterations", "option-iterations", least=0)
    steps = max(steps, math.ceil(passes * len(inputs) / size))
    integer(seed, "seed", "option-seed", least=0, most=1 << 62)
    if steps == 0:
        return start
    order = batches_of(len(inputs), size, steps, seed)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            if spec.kind in _PERCEPTRONS:
                trained = train_perceptron(spec, start, inputs, labels, order, rate, momentum)
            else:
                trained = network(spec).train(
                    start, inputs, labels, order, rate, momentum, seed=seed
                )
        except ValueError:
            # scikit-learn raises it where weights are no longer finite.
            trained = np.full(1, np.nan)
    return checked_finite(trained)


def checked_finite(parameters: Array) -> Array:
    """Return parameters after training, or raise ``training-diverged`` where one is too large."""
    if np.isfinite(parameters).all() and np.abs(parameters).max(initial=0.0) <= LARGEST_PARAMETER:
        return parameters
    raise InputError(
        "training diverged: parameters are very large, or no longer finite. Lower the rate, or "
        "scale the features (ModelSpec(centre=..., scale=...)).",
        code="training-diverged",
    )


def probabilities(spec: ModelSpec, parameters: npt.ArrayLike, points: npt.ArrayLike) -> Array:
    """Compute the probability of every class for every record: (n, classes), rows sum to 1.

    Raises
    ------
    InputError, MismatchError
        Parameters or records that do not fit the architecture, or are so large that outputs
        are not finite (``model-outputs``).
    ExtraError
        A cnn or a module, and torch is not installed.
    """
    values = _parameters(spec, parameters)
    records = _inputs(spec, points)
    # What overflows is refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        if spec.kind in _PERCEPTRONS:
            outputs = perceptron_probabilities(spec, values, records)
        else:
            outputs = network(spec).probabilities(values, records)
    if not np.isfinite(outputs).all():
        raise InputError(
            "outputs of the model are not finite: parameters or records are too large. Scale the "
            "records (centre, scale), or lower the rate of training.",
            code="model-outputs",
        )
    return outputs


def cross_predictions(
    spec: ModelSpec,
    parameters: npt.ArrayLike,
    points: npt.ArrayLike,
    codes: npt.ArrayLike,
    *,
    folds: int,
    **options: Unpack[Training],
) -> Array:
    """Predict every record by a model trained without it, (n, classes).

    Each of ``folds`` parts of the records is predicted by a model trained on the others, from the
    same start with the same options (of ``train``). Their errors are to be expected of new records;
    those on the training records are not.
    """
    inputs = np.asarray(points, dtype=np.float64)
    labels = np.asarray(codes)
    folds = integer(folds, "folds", "option-folds", least=2, most=max(2, len(inputs)))
    if len(inputs) < folds:
        raise InputError(f"{len(inputs)} record cannot be split.", code="option-folds")
    order = np.random.default_rng([options.get("seed", 0), 4]).permutation(len(inputs))
    predictions = np.empty((len(inputs), spec.classes))
    for fold in range(folds):
        out = order[fold::folds]
        others = np.setdiff1d(order, out)
        model = train(spec, parameters, inputs[others], labels[others], **options)
        predictions[out] = probabilities(spec, model, inputs[out])
    return predictions


def batches_of(records: int, size: int, steps: int, seed: int) -> npt.NDArray[np.intp]:
    """Draw the rows of each step: full batches from one permutation after the other."""
    rng = np.random.default_rng([seed, 1])
    full = records // size
    rows = [
        rng.permutation(records)[: full * size].reshape(full, size)
        for _ in range(-(-steps // full))
    ]
    return np.concatenate(rows)[:steps]


def _parameters(spec: ModelSpec, parameters: npt.ArrayLike) -> Array:
    array = np.array(parameters, dtype=np.float64)
    if array.shape != (spec.size,):
        raise MismatchError(
            f"parameters have shape {array.shape}; ({spec.size},) fits this model.",
            code="model-parameters",
        )
    if not np.isfinite(array).all():
        raise InputError("a parameter is not finite.", code="model-parameters")
    return array


def _inputs(spec: ModelSpec, points: npt.ArrayLike) -> Array:
    records = np.asarray(points, dtype=np.float64)
    if records.ndim != 2 or records.shape[1] != spec.inputs or len(records) == 0:
        raise MismatchError(
            f"records have shape {records.shape}; (n, {spec.inputs}) fits this model.",
            code="dimension-mismatch",
        )
    if not np.isfinite(records).all():
        raise InputError("a record holds a number that is not finite.", code="measure-nan")
    return spec.scaled(records)


def _codes(spec: ModelSpec, codes: npt.ArrayLike, records: int) -> Codes:
    array = np.asarray(codes)
    if array.shape != (records,) or array.dtype.kind not in "iu":
        raise MismatchError(
            f"codes are {array.dtype} of shape {array.shape}; {records} whole numbers are needed.",
            code="labels-shape",
        )
    if array.min() < 0 or array.max() >= spec.classes:
        raise InputError(f"a code is not from 0 to {spec.classes - 1}.", code="labels-range")
    return array.astype(np.int64)


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
