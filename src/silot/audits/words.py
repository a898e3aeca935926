"""Words behind vectors, and who was in the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from ..errors import InputError, MismatchError
from ._evidence import Array
from ._metrics import auc, match_rows


def check_vocabulary(words: Sequence[str], vectors: npt.ArrayLike) -> tuple[list[str], Array]:
    """Words and their vectors (n, d), checked."""
    found = np.asarray(vectors, dtype=np.float64)
    if found.ndim != 2 or len(found) != len(words) or not np.isfinite(found).all():
        raise InputError(
            f"the vocabulary has {len(words)} words and vectors of shape {found.shape}; one "
            "finite vector a word is needed.",
            code="audit-vocabulary",
        )
    return list(words), found


def nearest_words(rows: Array, vectors: Array) -> np.ndarray:
    """Position of the word nearest to each row, by cosine (k,)."""
    if rows.shape[1] != vectors.shape[1]:
        raise MismatchError(
            f"the vocabulary has vectors of {vectors.shape[1]} numbers and the records "
            f"{rows.shape[1]}.",
            code="dimension-mismatch",
        )
    return np.argmax(_unit(rows) @ _unit(vectors).T, axis=1)


def word_rates(rows: Array, truth: Array, vectors: Array, *, ordered: bool) -> tuple[float, float]:
    """Share of records whose word is the one nearest to their guess, and the mean cosine."""
    matched = rows if ordered and len(rows) == len(truth) else match_rows(rows, truth)
    same = nearest_words(matched, vectors) == nearest_words(truth, vectors)
    cosine = np.sum(_unit(matched) * _unit(truth), axis=1)
    return float(same.mean()), float(cosine.mean())


def membership_auc(rows: Array, truth: Array, outsiders: Array) -> float:
    """How well the distance to the nearest guess tells records from outsiders."""
    inside, outside = (-cdist(k, rows).min(axis=1) for k in (truth, outsiders))
    return auc(inside, outside)


def _unit(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
