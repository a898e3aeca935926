"""How much each teacher counts: weights for every input, and the majority that counts at all."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import InputError, MismatchError
from .labels import LabelSpace, are_probabilities

Array = npt.NDArray[np.float64]
Weights = Literal["confidence", "uniform", "size", "uniform-distance"]

# Distances below this are what rounding leaves of 0, and would be weights of nothing.
_ROUNDING = 1e-9
VALIDATED = "validation"
"""Name of the constant weights that are best on validation records (``choice``)."""
# Pairs of predictions that are compared at once, for memory.
_BATCH = 1 << 16
# Of the radius of the majority, how far from its centre a teacher may be.
_REACH = 1.5


def teacher_weights(
    outputs: npt.ArrayLike,
    *,
    weights: Weights = "confidence",
    biases: npt.ArrayLike | None = None,
    sizes: npt.ArrayLike | None = None,
    cap: float | None = None,
) -> Array:
    r"""Compute the weights of the teachers for every input.

    .. math:: w_k(x) = \frac{W_k(x)}{\sum_j W_j(x)}

    ==================== ======= =========================================================
    ``weights``          variant :math:`W_k(x)`
    ==================== ======= =========================================================
    ``confidence``       E       :math:`\lVert h_k(x) - B_k \rVert_2`
    ``uniform``          A       1
    ``size``             D       records teacher k was trained on
    ``uniform-distance`` U       :math:`\lVert h_k(x) - (1/L, \dots, 1/L) \rVert_2`
    ==================== ======= =========================================================

    Parameters
    ----------
    outputs
        Shape (K, n, L): probabilities of K teachers.
    weights
        Which :math:`W_k`.
    biases
        Shape (K, L), for ``"confidence"``: each teacher's mean prediction of noise,
        :math:`B_k`.
    sizes
        Shape (K,), for ``"size"``: 0 or more, not all 0.
    cap
        How many times its even share, 1 / K, a teacher may count at most in the mean over the
        inputs, 1 or more: where one counts for more, all weights are mixed with even ones, just
        as far as it takes. ``None``, as in the paper, does not limit.

    Returns
    -------
    ndarray
        Shape (K, n); columns sum to 1. Where every :math:`W_k(x)` is 0 teachers count alike.

    Raises
    ------
    InputError
        No probabilities; biases or sizes that are needed and absent, or out of range.
    MismatchError
        Biases or sizes of another shape.

    Notes
    -----
    Paper 004, section 5.2 and, for the normalisation, algorithm 1. A label that a teacher is
    biased against counts for more when the teacher names it.

    Examples
    --------
    >>> outputs = [[[1.0, 0.0]], [[0.5, 0.5]]]
    >>> teacher_weights(outputs, biases=[[0.4, 0.6], [0.7, 0.3]]).round(2).tolist()
    [[0.75], [0.25]]
    """
    predictions = np.asarray(outputs, dtype=np.float64)
    if predictions.ndim != 3 or predictions.size == 0 or predictions.shape[2] < 2:
        raise MismatchError(
            f"outputs of shape {predictions.shape} arrived. Give (teachers, inputs, labels).",
            code="outputs-shape",
        )
    _check_simplex(predictions, "outputs")
    teachers, inputs, labels = predictions.shape
    if weights == "confidence":
        centre = _check_given(biases, "biases", "confidence", (teachers, labels))
        _check_simplex(centre, "biases")
        raw = np.linalg.norm(predictions - centre[:, None], axis=2)
    elif weights == "uniform-distance":
        raw = np.linalg.norm(predictions - 1.0 / labels, axis=2)
    elif weights == "size":
        counts = _check_given(sizes, "sizes", "size", (teachers,))
        if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
            raise InputError(
                "sizes must be finite, 0 or more, and not all 0.", code="teacher-sizes"
            )
        # A size is the same for every input.
        raw = np.repeat(counts[:, None], inputs, axis=1)
    elif weights == "uniform":
        raw = np.ones((teachers, inputs))
    else:
        raise InputError(
            f"weights {weights!r} is not one of {', '.join(get_args(Weights))}.",
            code="option-weights",
        )
    raw = np.where(raw > _ROUNDING, raw, 0.0)
    total = raw.sum(axis=0)
    # Where no teacher is sure of anything all count alike, for weights must sum to 1.
    shares = np.where(total > 0, raw, 1.0) / np.where(total > 0, total, teachers)
    return shares if cap is None else _limit_shares(shares, check_cap(cap))


def check_cap(cap: float) -> float:
    """Return a cap; raise ``option-cap`` where it is no number of 1 or more."""
    if not real(cap, "the cap of weights", "option-cap") >= 1:
        raise InputError(
            f"the cap of weights is {cap:g}. Give 1 or more even shares: at 1 all teachers count "
            "alike.",
            code="option-cap",
        )
    return float(cap)


def _limit_shares(shares: Array, cap: float) -> Array:
    even = 1.0 / len(shares)
    most = float(shares.mean(axis=1).max())
    if most <= cap * even:
        return shares
    # Solves kept * most + (1 - kept) * even = cap * even: the largest mean is then the cap.
    kept = (cap - 1.0) * even / (most - even)
    return kept * shares + (1.0 - kept) * even


def _check_given(
    values: npt.ArrayLike | None, name: str, weights: Weights, shape: tuple[int, ...]
) -> Array:
    if values is None:
        raise InputError(
            f"weights={weights!r} needs {name}, and none arrived.", code="teacher-weights-absent"
        )
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise MismatchError(
            f"{name} of shape {array.shape} arrived where {shape} fits the outputs.",
            code="teacher-weights-shape",
        )
    return array


def _check_simplex(probabilities: Array, name: str) -> None:
    bad = ~are_probabilities(probabilities)
    if bad.any():
        raise InputError(
            f"{name} are not probabilities: {int(bad.sum())} of {bad.size} rows have an entry "
            f"that is not finite or negative, or do not sum to 1.",
            code="outputs-simplex",
        )


def majority(outputs: npt.ArrayLike, space: LabelSpace) -> npt.NDArray[np.bool_]:
    r"""Select the teachers of the closest majority, to resist fewer than half dishonest ones.

    Teachers are as far apart as their predictions are, by exact transport, in the mean over the
    inputs. The majority is the smallest of the balls around one teacher that hold
    :math:`\lfloor K / 2 \rfloor + 1` of them. Fewer than K / 2 dishonest teachers do not fill it,
    however alike their predictions are: it has an honest teacher, and is no larger than the
    smallest that honest ones fill. A teacher within 1.5 times its radius belongs to it. Dishonest
    predictions that are as near as that, and teachers that are right where the majority is wrong,
    cannot be distinguished from others.

    Parameters
    ----------
    outputs
        Shape (K, n, L): probabilities of K teachers.
    space
        Of the labels.

    Returns
    -------
    ndarray
        Shape (K,).

    Examples
    --------
    >>> space = LabelSpace([0.0, 1.0, 2.0])
    >>> outputs = [[[1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0]], [[0.0, 0.0, 1.0]]]
    >>> majority(outputs, space).tolist()
    [True, True, False]
    """
    predictions = np.asarray(outputs, dtype=np.float64)
    teachers = len(predictions)
    apart = np.zeros((teachers, teachers))
    for i in range(teachers):
        for j in range(i):
            apart[i, j] = apart[j, i] = _mean_transport(predictions[i], predictions[j], space)
    # The distance to the farthest of the K // 2 nearest others: itself and these are a majority.
    radii = np.sort(apart, axis=1)[:, teachers // 2]
    centre = int(radii.argmin())
    return apart[centre] <= _REACH * radii[centre]


def _mean_transport(p: Array, q: Array, space: LabelSpace) -> float:
    # Slow to import.
    import torch

    from ._label_transport import solve_exact

    line = space.coordinates[:, 0] if space.line else None
    total = 0.0
    for start in range(0, len(p), _BATCH):
        one, other = (torch.from_numpy(side[start : start + _BATCH]) for side in (p, q))
        total += float(solve_exact(one, other, space.cost, line)[0].sum())
    return total / len(p)
