"""How much each teacher counts: weights for every input, the majority, and what was chosen.

The choice is made on labelled records of the asker's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import ndtri

from silot_transport._check import real

from ..errors import InputError, MismatchError
from .labels import LabelSpace, are_probabilities
from .result import Predictions, Trial

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Weights = Literal["confidence", "uniform", "size", "uniform-distance"]

# Distances below this are what rounding leaves of 0, and would be weights of nothing.
_ROUNDING = 1e-9
VALIDATED = "validation"
"""Name of the constant weights that are best on validation records (``choose_combination``)."""
# Pairs of predictions that are compared at once, for memory.
_BATCH = 1 << 16
# Of the radius of the majority, how far from its centre a teacher may be.
_REACH = 1.5
_FOLDS = 5
# False-alarm rate of a sentence that compares two models.
_LEVEL = 0.05
# Of the mean square of a teacher's predictions, for each root of the records: how far weights are
# drawn to even ones. A tenth to three times as much gave the same on six tables.
_DRAWN = 0.3


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


def weigh(
    answers: Predictions, outputs: Array, weights: str, counted: npt.NDArray[np.bool_],
    cap: float | None,
) -> Array:  # fmt: skip
    """Compute what every teacher counts for every input, (K, n); 0 where it is not ``counted``."""
    shares = np.zeros(outputs.shape[:2])
    sizes = None
    if weights == "size":
        sizes = np.array([answers.sizes[name] or 0.0 for name in answers.names])[counted]
    shares[counted] = teacher_weights(
        outputs[counted],
        weights=cast("Weights", weights),
        biases=None if answers.biases is None else answers.biases[counted],
        sizes=sizes,
        cap=cap,
    )
    return shares


@dataclass(frozen=True)
class Combination:
    """One way to weigh teachers: what it makes of the inputs, and of validation records."""

    weights: str
    robust: bool
    counted: npt.NDArray[np.bool_]
    shares: Array = field(repr=False)
    trial: Trial


def choose_combination(
    answers: Predictions,
    outputs: Array,
    shown: Array,
    codes: Codes,
    space: LabelSpace,
    *,
    ways: Sequence[str],
    robust: bool | None,
    cap: float | None,
) -> tuple[Combination, list[Trial]]:
    r"""Choose weights whose mixture of teachers has the least Brier score on validation records.

    .. math:: \min_w \frac1m \sum_i \tfrac12 \lVert \textstyle\sum_k w_k(x_i) h_k(x_i) - e_{y_i}
              \rVert^2

    among weights by rule and the best constant ones, whose score is that of records left out.
    ``outputs`` (K, n, L) are predictions of the inputs, ``shown`` (K, m, L) those of validation
    records with ``codes``. ``ways`` are the weights to choose from; ``robust=None`` tries all
    teachers and their majority.
    """
    every = np.ones(len(outputs), dtype=np.bool_)
    # What decides is far less than all inputs, where transport between teachers would take long.
    near = every if robust is False else majority(outputs if robust else shown, space)
    kinds = [near] if robust or near.all() else [every, near]
    tried: list[Combination] = []
    for counted in kinds:
        for way in ways:
            title = f"{way}, closest majority" if not counted.all() else way
            if way == VALIDATED:
                mixed = cross_validated(shown[counted], codes)
                shares = np.zeros(outputs.shape[:2])
                shares[counted] = best_weights(shown[counted], codes)[:, None]
            else:
                own = weigh(answers, shown, way, counted, cap)
                mixed = np.einsum("km,kml->ml", own, shown)
                shares = weigh(answers, outputs, way, counted, cap)
            trial = Trial.of("mixture", title, mixed, codes)
            tried.append(Combination(way, not counted.all(), counted, shares, trial))
    best = min(tried, key=lambda item: item.trial.score)
    alone = [
        Trial.of("teacher", name, own, codes)
        for name, own in zip(answers.names, shown, strict=True)
    ]
    return best, [*alone, *(item.trial for item in tried)]


def choose_student(trials: Sequence[Trial]) -> int:
    """Choose the first student, or the best of those that are better by a standard error."""
    gaps = [trials[0].errors - trial.errors for trial in trials]
    clear = [gap.mean() - gap.std() / len(gap) ** 0.5 for gap in gaps]
    better = [k for k, value in enumerate(clear) if value > 0.0]
    return min(better, key=lambda k: trials[k].score, default=0)


def best_weights(shown: Array, codes: Codes) -> Array:
    """Compute the constant weights (K,) of least Brier score, drawn to even ones."""
    teachers, records, labels = shown.shape
    flat = shown.reshape(teachers, -1)
    products = flat @ flat.T / records
    gains = flat @ np.eye(labels)[codes].ravel() / records
    even = np.full(teachers, 1.0 / teachers)
    pull = _DRAWN * float(np.diag(products).mean()) / records**0.5

    def score(w: Array) -> tuple[float, Array]:
        off = w - even
        value = w @ products @ w - 2.0 * gains @ w + pull * off @ off
        return float(value), 2.0 * (products @ w - gains + pull * off)

    result = minimize(
        score, even, jac=True, bounds=[(0.0, 1.0)] * teachers, method="SLSQP",
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
    )  # fmt: skip
    weights = np.clip(result.x, 0.0, None)
    return weights / weights.sum()


def cross_validated(shown: Array, codes: Codes) -> Array:
    """Mix every part of the records by weights that the others chose, (m, L)."""
    mixed = np.empty(shown.shape[1:])
    parts = np.arange(len(codes)) % min(_FOLDS, max(len(codes), 2))
    for part in np.unique(parts):
        own = parts == part
        others = ~own if not own.all() else own
        weights = best_weights(shown[:, others], codes[others])
        mixed[own] = np.einsum("k,kml->ml", weights, shown[:, own])
    return mixed


def compare(trials: Sequence[Trial]) -> str:
    """Say whether the student pays, against the best teacher and the mixture it learnt from."""
    students = [trial for trial in trials if trial.what == "student"]
    student = students[choose_student(students)]
    records = len(student.errors)
    words: list[str] = []
    for title, what in (("the best teacher", "teacher"), ("the mixture of teachers", "mixture")):
        rivals = [trial for trial in trials if trial.what == what]
        other = min(rivals, key=lambda trial: trial.score)
        gap = other.errors - student.errors
        error = float(gap.std()) / records**0.5
        # The best of several looks better than it is: each of them might have been the best.
        verdict = "no different from"
        if gap.mean() > -ndtri(_LEVEL / 2 / len(students)) * error:
            verdict = "better than"
        elif -gap.mean() > -ndtri(_LEVEL / 2 / len(rivals)) * error:
            verdict = "worse than"
        words.append(f"{verdict} {title} ({other.accuracy:.3f})")
    return (
        f"On {records} validation records, which chose weights and loss, the model "
        f"(accuracy {student.accuracy:.3f}) is {' and '.join(words)}, by Brier scores at 95 %."
    )


def ways_of(answers: Predictions, weights: str | None) -> list[str]:
    """List the weights to try: those that are fixed, or all that can be computed."""
    if weights is not None:
        return [weights]
    names = ["uniform", VALIDATED]
    if answers.biases is not None:
        names.insert(0, "confidence")
    if all(answers.sizes[name] is not None for name in answers.names):
        names.append("size")
    return names
