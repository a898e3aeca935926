"""How much each teacher's prediction of each input counts."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import InputError, MismatchError
from .labels import improper

Array = npt.NDArray[np.float64]
Weights = Literal["confidence", "uniform", "size", "uniform-distance"]

# What a row of probabilities may be off by.
_ROUNDING = 1e-9


def teacher_weights(
    outputs: npt.ArrayLike,
    *,
    weights: Weights = "confidence",
    biases: npt.ArrayLike | None = None,
    sizes: npt.ArrayLike | None = None,
    cap: float | None = None,
) -> Array:
    r"""Weights of the teachers for every input.

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
    given = np.asarray(outputs, dtype=np.float64)
    if given.ndim != 3 or given.size == 0 or given.shape[2] < 2:
        raise MismatchError(
            f"outputs of shape {given.shape} arrived. Give (teachers, inputs, labels).",
            code="outputs-shape",
        )
    _check(given, "outputs")
    teachers, inputs, labels = given.shape
    if weights == "confidence":
        centre = _needed(biases, "biases", "confidence", (teachers, labels))
        _check(centre, "biases")
        raw = np.linalg.norm(given - centre[:, None], axis=2)
    elif weights == "uniform-distance":
        raw = np.linalg.norm(given - 1.0 / labels, axis=2)
    elif weights == "size":
        counts = _needed(sizes, "sizes", "size", (teachers,))
        if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
            raise InputError(
                "sizes must be finite, 0 or more, and not all 0.", code="teacher-sizes"
            )
        raw = np.repeat(counts[:, None], inputs, axis=1)
    elif weights == "uniform":
        raw = np.ones((teachers, inputs))
    else:
        raise InputError(
            f"weights {weights!r} is none of {', '.join(get_args(Weights))}.",
            code="option-weights",
        )
    # Smaller ones are rounding, and would be weights of nothing.
    raw = np.where(raw > _ROUNDING, raw, 0.0)
    total = raw.sum(axis=0)
    shares = np.where(total > 0, raw, 1.0) / np.where(total > 0, total, teachers)
    return shares if cap is None else _capped(shares, check_cap(cap))


def check_cap(cap: float) -> float:
    """Raise for a cap that is no number of 1 or more.

    Raises
    ------
    InputError
        ``"option-cap"``.
    """
    if not real(cap, "the cap of weights", "option-cap") >= 1:
        raise InputError(
            f"the cap of weights is {cap:g}. Give 1 or more even shares: at 1 all teachers count "
            "alike.",
            code="option-cap",
        )
    return float(cap)


def _capped(shares: Array, cap: float) -> Array:
    even = 1.0 / len(shares)
    most = float(shares.mean(axis=1).max())
    if most <= cap * even:
        return shares
    kept = (cap - 1.0) * even / (most - even)
    return kept * shares + (1.0 - kept) * even


def _needed(
    values: npt.ArrayLike | None, name: str, weights: Weights, shape: tuple[int, ...]
) -> Array:
    if values is None:
        raise InputError(
            f"weights={weights!r} needs {name}, and none arrived.", code="teacher-weights-absent"
        )
    found = np.asarray(values, dtype=np.float64)
    if found.shape != shape:
        raise MismatchError(
            f"{name} of shape {found.shape} arrived where {shape} fits the outputs.",
            code="teacher-weights-shape",
        )
    return found


def _check(probabilities: Array, name: str) -> None:
    bad = improper(probabilities)
    if bad.any():
        raise InputError(
            f"{name} are not probabilities: {int(bad.sum())} of {bad.size} rows have an entry "
            f"that is not finite or negative, or do not sum to 1.",
            code="outputs-simplex",
        )
