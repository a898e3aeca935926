"""Measure how good a reconstruction is: exact rows, re-identified rows, words and members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ..errors import InputError, MismatchError
from .inversion import Array

# Relative error of an exact value: far above rounding that 1 / (1 - t) enlarges, far below any
# difference that matters to a person.
_EXACT = 1e-6
# Rows beyond this many are assigned to their nearest: an assignment would take too long.
_LARGEST_MATCH = 4000


@dataclass(frozen=True)
class Score:
    """Rates of one reconstruction against the truth."""

    exact_rate: float
    reidentification_rate: float
    chance: float
    relative_rmse: float


def score(rows: Array, truth: Array, *, ordered: bool, seed: int = 0) -> Score:
    """Compare guessed rows with the true ones.

    Where row i is not the guess of record i, rows are matched with records first, as well as they
    can be. ``chance`` is then what matching achieves for rows drawn, by the seed, from a normal
    distribution with the columns' means and deviations.
    """
    matched = match_rows(rows, truth, ordered=ordered)
    chance = _chance_in_order(truth)
    # Matching finds near rows for any guess, the more the more guesses: chance must have as many.
    if not ordered or len(rows) != len(truth):
        rng = np.random.default_rng([seed, 7])
        drawn = truth.mean(axis=0) + truth.std(axis=0) * rng.standard_normal(
            (len(rows), truth.shape[1])
        )
        chance = max(chance, _reidentified(match_rows(drawn, truth), truth))
    spread = float(np.sqrt(np.mean((truth - truth.mean(axis=0)) ** 2)))
    rmse = float(np.sqrt(np.mean((matched - truth) ** 2)))
    return Score(
        exact_rate=float(exact_rows(matched, truth).mean()),
        reidentification_rate=_reidentified(matched, truth),
        chance=chance,
        relative_rmse=rmse / spread if spread > 0 else float(rmse > 0),
    )


def tolerance(truth: Array) -> Array:
    """Return the largest error of an exact value, column by column (d,)."""
    size = np.abs(truth).max(axis=0)
    # Columns near 0 are rounded like the large ones that were computed beside them.
    return _EXACT * np.maximum(size, 1e-3 * size.max(initial=0.0))


def exact_rows(rows: Array, truth: Array) -> npt.NDArray[np.bool_]:
    """Return which records were recovered exactly (n,)."""
    return np.all(np.abs(rows - truth) <= tolerance(truth), axis=1)


def match_rows(rows: Array, truth: Array, *, ordered: bool = False) -> Array:
    """Return the row that stands for each record (n, d): its own where rows are in order."""
    if ordered and len(rows) == len(truth):
        return rows
    distance = cdist(truth, rows)
    match = distance.argmin(axis=1)
    if max(distance.shape) <= _LARGEST_MATCH:
        # Exact hits first: equal records may share a row, and no match should cost one.
        places, columns = linear_sum_assignment(distance)
        hit = distance.min(axis=1) <= np.linalg.norm(tolerance(truth))
        better = ~hit[places]
        match[places[better]] = columns[better]
    return rows[match]


def _reidentified(matched: Array, truth: Array) -> float:
    """Return the share of records nearest to their own row; equal records count as one."""
    nearest = cdist(matched, truth).argmin(axis=1)
    return float((np.abs(truth[nearest] - truth) <= tolerance(truth)).all(axis=1).mean())


def _chance_in_order(truth: Array) -> float:
    """Return what naming any one record scores: the largest share of equal records."""
    _, counts = np.unique(truth, axis=0, return_counts=True)
    return float(counts.max() / len(truth))


def check_vocabulary(words: Sequence[str], vectors: npt.ArrayLike) -> Array:
    """Check the vectors of words (n, d), and return them."""
    checked = np.asarray(vectors, dtype=np.float64)
    if checked.ndim != 2 or len(checked) != len(words) or not np.isfinite(checked).all():
        raise InputError(
            f"the vocabulary has {len(words)} words and vectors of shape {checked.shape}; one "
            "finite vector for each word is needed.",
            code="audit-vocabulary",
        )
    return checked


def word_rates(rows: Array, truth: Array, vectors: Array, *, ordered: bool) -> tuple[float, float]:
    """Return the share of records whose word is nearest to their guess, and the mean cosine."""
    matched = match_rows(rows, truth, ordered=ordered)
    same = _nearest_words(matched, vectors) == _nearest_words(truth, vectors)
    cosine = np.sum(_unit(matched) * _unit(truth), axis=1)
    return float(same.mean()), float(cosine.mean())


def _nearest_words(rows: Array, vectors: Array) -> npt.NDArray[np.intp]:
    """Return the position of the word nearest to each row, by cosine (k,)."""
    if rows.shape[1] != vectors.shape[1]:
        raise MismatchError(
            f"the vocabulary has vectors of {vectors.shape[1]} numbers and the records "
            f"{rows.shape[1]}.",
            code="dimension-mismatch",
        )
    return np.argmax(_unit(rows) @ _unit(vectors).T, axis=1)


def _unit(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


def membership_auc(rows: Array, truth: Array, outsiders: Array) -> float:
    """Return how well the distance to the nearest guess tells records from outsiders."""
    inside, outside = (-cdist(k, rows).min(axis=1) for k in (truth, outsiders))
    return float(above(inside, outside).mean())


def above(first: Array, second: Array) -> Array:
    """Return the share of the second that each of the first is above, ties counted half."""
    ordered = np.sort(second)
    low = np.searchsorted(ordered, first, "left")
    high = np.searchsorted(ordered, first, "right")
    return 0.5 * (low + high) / len(second)
