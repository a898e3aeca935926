"""Types and small arithmetic that all parts share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from silot_transport._check import Array

Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

# Numbers of one matrix between records and validation records that are held at once.
_HELD = 1 << 22


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Rows in blocks whose matrices with this many columns fit."""
    step = max(_HELD // max(columns, 1), 1)
    return (slice(k, min(k + step, rows)) for k in range(0, rows, step))


def quantiles(values: Array, weights: Array, shares: Array) -> Array:
    """Weighted quantiles (k, d) of the columns of values (n, d), between neighbours linearly."""
    order = np.argsort(values, axis=0, kind="stable")
    places = np.take_along_axis(values, order, axis=0)
    masses = weights[order]
    # Each record stands in the middle of its mass, the first and last at the ends.
    middle = np.cumsum(masses, axis=0) - 0.5 * masses
    first, last = middle[:1], middle[-1:]
    middle = (middle - first) / np.where(last > first, last - first, 1.0)
    return np.stack(
        [np.interp(shares, middle[:, j], places[:, j]) for j in range(values.shape[1])], axis=1
    )


def even(values: Array, weights: Array) -> Array:
    """Values of equal mass, sorted, as many as weighted records count for (Kish)."""
    size = max(round(1.0 / float(np.sum(weights**2))), 1)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    steps = (np.arange(size) + 0.5) / size * reached[-1]
    return values[order][np.minimum(np.searchsorted(reached, steps), len(values) - 1)]


def log_votes(shares: Array, unseen: float) -> Array:
    """Log shares (n, C) of the votes of a hundred trees, classes without any counting a little."""
    return np.log((100.0 * shares + unseen) / (100.0 + unseen * shares.shape[1]))


def normed(scores: Array) -> Array:
    """Log shares (n, C) that sum to 1."""
    return scores - logsumexp(scores, axis=1, keepdims=True)
