"""What teachers count for, chosen on labelled records of the asker's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import ndtri

from .labels import LabelSpace
from .result import Predictions, Trial
from .weights import VALIDATED, Weights, majority, teacher_weights

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_FOLDS = 5
# False-alarm rate of a sentence that compares two models.
_LEVEL = 0.05
# Of the mean square of a teacher's predictions, for each root of the records: how far weights are
# drawn to even ones. A tenth to three times as much gave the same on six tables.
_DRAWN = 0.3


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
