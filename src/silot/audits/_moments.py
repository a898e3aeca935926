"""The last few records, from the mean and covariance of all."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ._clock import look
from ._evidence import Array

_FIT = 1e-7
_MOST_DOUBTFUL = 24
_MOST_TRIES = 200_000


def completed_by_moments(
    rows: Array, proven: int, records: int, mean: Array, covariance: Array, pool: Array
) -> Array | None:
    r"""Replace up to three doubtful rows so that mean and covariance are those of the records.

    With all records but two known, their sum :math:`s` and the sum of their squares
    :math:`R` are, and :math:`u, v = s / 2 \pm \delta` with
    :math:`\delta \delta^T = (R - s s^T / 2) / 2`. That this matrix has rank one is the check:
    it fails unless all the others are right.

    Parameters
    ----------
    rows
        Records found (k, d), the first ``proven`` of them beyond doubt.
    records
        How many there are.
    mean, covariance
        As the holder told them.
    pool
        Other rows that may be records (m, d).

    Returns
    -------
    numpy.ndarray or None
        Shape (records, d), ``None`` when no few replacements do.
    """
    # Everything is centred: the products then keep their digits.
    near, pool = rows - mean, pool - mean
    scale = float(np.sqrt(np.trace(covariance) / len(mean))) or 1.0
    near, pool, second = near / scale, pool / scale, records * covariance / scale**2
    doubtful = range(proven, len(rows))
    if len(doubtful) > _MOST_DOUBTFUL:
        return None
    squares = second - near.T @ near
    total = -near.sum(axis=0)
    tries = 0
    for left in range(4):
        if not 1 <= records - len(rows) + left <= 3:
            continue
        for dropped in combinations(doubtful, left):
            look()
            gone = near[list(dropped)]
            rest = squares + gone.T @ gone
            missing, sum_ = records - len(rows) + left, total + gone.sum(axis=0)
            for found in _solutions(missing, sum_, rest, pool):
                kept = np.delete(rows, list(dropped), axis=0)
                return np.vstack([kept, found * scale + mean])
            tries += len(pool) if missing == 3 else 1
            if tries > _MOST_TRIES:
                return None
    return None


def _solutions(missing: int, total: Array, squares: Array, pool: Array) -> list[Array]:
    if missing == 1:
        fits = np.abs(squares - np.outer(total, total)).max() <= _FIT
        return [total[None]] if fits else []
    if missing == 2:
        pair = _pair(total, squares)
        return [] if pair is None else [pair]
    for row in pool:
        pair = _pair(total - row, squares - np.outer(row, row))
        if pair is not None:
            return [np.vstack([row[None], pair])]
    return []


def _pair(total: Array, squares: Array) -> Array | None:
    half = 0.5 * (squares - 0.5 * np.outer(total, total))
    diagonal = np.diag(half)
    k = int(diagonal.argmax())
    if diagonal[k] <= 0 or diagonal.min() < -_FIT:
        same = np.abs(half).max() <= _FIT
        return np.stack([0.5 * total, 0.5 * total]) if same else None
    apart = half[k] / diagonal[k] ** 0.5
    # Diagonals first: most wrong guesses end here.
    if np.abs(apart**2 - diagonal).max() > _FIT:
        return None
    if np.abs(np.outer(apart, apart) - half).max() > _FIT:
        return None
    return np.stack([0.5 * total + apart, 0.5 * total - apart])
