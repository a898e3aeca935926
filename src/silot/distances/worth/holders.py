"""Shares and ranks from distances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array

from ...errors import InputError

Ranks = npt.NDArray[np.int64]

# Distances this close are one rank: rounding must not rank holders.
_TIE = 1e-9


def inverse_shares(distances: npt.ArrayLike) -> Array:
    r"""Shares in proportion to the inverse distance.

    .. math:: s_i = \frac{1 / W_i}{\sum_j 1 / W_j}

    Parameters
    ----------
    distances
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,), summing to 1. Holders at distance zero, if any, share everything equally.

    Raises
    ------
    InputError
        Negative or infinite distances.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, sec. 5.1. Two samples
    of one law are never at distance zero, so shares are pulled towards 1 / N the more the fewer
    records there are: use ``explained_shares`` to compare markets.

    Examples
    --------
    >>> inverse_shares([1.0, 3.0])
    array([0.75, 0.25])
    """
    values = _as_distances(distances)
    nearest = float(values.min())
    if nearest == 0:
        zero = values == 0
        return zero / zero.sum()
    inverse = nearest / values
    return inverse / inverse.sum()


def explained(distances: npt.ArrayLike, spread: float) -> Array:
    r"""How much of the target's spread the holder's data explain.

    .. math:: e_i = \max(0,\ 1 - W_i^2 / V^2)

    with ``V`` the distance of the target to its own mean. It has no unit and does not depend on
    how many holders there are or on the scale of the features.

    Parameters
    ----------
    distances
        Shape (N,), zero or more.
    spread
        ``V``, zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,), between 0 (no better than the mean of the target) and 1 (a copy of it).

    Raises
    ------
    InputError
        Negative or infinite numbers.

    Examples
    --------
    >>> explained([0.0, 1.0, 5.0], 2.0)
    array([1.  , 0.75, 0.  ])
    """
    values = _as_distances(distances)
    if not np.isfinite(spread) or spread < 0:
        raise InputError(f"spread is {spread!r}; zero or more is needed.", code="valuation-spread")
    if spread == 0:
        return (values == 0).astype(np.float64)
    return np.maximum(1.0 - (values / spread) ** 2, 0.0)


def explained_shares(parts: npt.ArrayLike) -> Array:
    """Parts that sum to 1; equal parts when all are zero.

    Parameters
    ----------
    parts
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,).

    Raises
    ------
    InputError
        Negative or infinite parts.

    Examples
    --------
    >>> explained_shares([0.5, 0.0])
    array([1., 0.])
    """
    values = _as_distances(parts)
    total = float(values.sum())
    return values / total if total > 0 else np.full(len(values), 1.0 / len(values))


def ranks(distances: npt.ArrayLike) -> Ranks:
    """Rank of every distance, 1 for the smallest; equal ones share a rank.

    Parameters
    ----------
    distances
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,) of integers.

    Raises
    ------
    InputError
        Negative or infinite distances.

    Examples
    --------
    >>> ranks([2.0, 1.0, 2.0])
    array([2, 1, 2])
    """
    values = _as_distances(distances)
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values), dtype=np.int64)
    rank, last = 0, -np.inf
    for place, index in enumerate(order.tolist(), start=1):
        if values[index] > last + _TIE * max(float(values[index]), 0.0):
            rank = place
            last = float(values[index])
        found[index] = rank
    return found


def _as_distances(distances: npt.ArrayLike) -> Array:
    values = np.asarray(distances, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values.min() < 0:
        raise InputError(
            "distances must be one finite number of zero or more for each holder.",
            code="valuation-distances",
        )
    return values
