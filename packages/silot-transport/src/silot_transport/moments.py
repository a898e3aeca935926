"""Means and covariances, and the Wasserstein distance between Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ._check import Array, Weights, as_clouds, as_points, as_weights
from .errors import InputError, MismatchError

Embedding = Literal["none", "diagonal", "diagonal-of-root", "full"]
"""Coordinates of a label beside its records: none, or the mean and a block of the covariance."""


@dataclass(frozen=True)
class Moments:
    """Mean (d,) and population covariance (d, d) of a measure."""

    mean: Array
    covariance: Array


def moments(x: npt.ArrayLike, a: npt.ArrayLike | None = None) -> Moments:
    r"""Compute mean and covariance of a weighted cloud.

    .. math:: m = \sum_i a_i x_i, \qquad \Sigma = \sum_i a_i (x_i - m)(x_i - m)^T

    Parameters
    ----------
    x
        Points, shape (n, d).
    a
        Weights; ``None`` means uniform. Errors are those of ``exact_plan``.

    Returns
    -------
    Moments
        The covariance is the population one: zero for a single point.

    Examples
    --------
    >>> moments([[0.0], [2.0]]).covariance
    array([[1.]])
    """
    points = as_points(x, "x")
    weights = as_weights(a, len(points), "a")
    mean, root = centred_root(points, weights)
    return Moments(mean, root.T @ root)


def centred_root(x: Array, a: Array) -> tuple[Array, Array]:
    """Compute the mean, and a factor R (n, d) with ``R.T @ R`` the covariance."""
    mean = a @ x
    return mean, np.sqrt(a)[:, None] * (x - mean)


def covariance_root(covariance: npt.ArrayLike) -> Array:
    """Compute the symmetric positive semi-definite square root of a covariance.

    Parameters
    ----------
    covariance
        Symmetric (d, d); eigenvalues below zero by rounding count as zero.

    Returns
    -------
    numpy.ndarray
        Shape (d, d).

    Raises
    ------
    InputError
        A matrix that is not square, or has clearly negative eigenvalues.

    Examples
    --------
    >>> covariance_root([[4.0]])
    array([[2.]])
    """
    matrix = as_points(covariance, "covariance")
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"covariance has shape {matrix.shape}; a square matrix is needed.",
            code="covariance-shape",
        )
    # Asymmetry, and negative eigenvalues, up to 1e-8 may be rounding: half the digits of float64.
    if np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        raise InputError(
            "covariance is not symmetric: it is not the covariance of any data.",
            code="covariance-shape",
        )
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    largest = max(float(values[-1]), 0.0)
    if values[0] < -1e-8 * largest or largest == 0.0 > values[0]:
        raise InputError(
            "covariance has negative eigenvalues: it is not the covariance of any data.",
            code="covariance-negative",
        )
    root = np.sqrt(np.maximum(values, 0.0))
    return (vectors * root) @ vectors.T


def gaussian_distance(x: Moments, y: Moments) -> float:
    r"""Compute the Wasserstein-2 distance between two Gaussians (Bures metric on covariances).

    .. math:: W_2^2 = |m_x - m_y|^2 + \mathrm{tr}\, \Sigma_x + \mathrm{tr}\, \Sigma_y
              - 2\, \mathrm{tr} (\Sigma_x^{1/2} \Sigma_y \Sigma_x^{1/2})^{1/2}

    For any two measures with these moments it is a lower bound of their ``W_2`` (Gelbrich,
    1990).

    Parameters
    ----------
    x, y
        Moments of one dimension; covariances may be singular.

    Returns
    -------
    float

    Raises
    ------
    InputError, MismatchError
        Covariances that are not symmetric positive semi-definite, or of other dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> unit = Moments(np.zeros(2), np.eye(2))
    >>> gaussian_distance(unit, Moments(np.array([3.0, 4.0]), np.eye(2)))
    5.0
    """
    if x.mean.shape != y.mean.shape:
        raise MismatchError(
            f"the means have {x.mean.size} and {y.mean.size} features; give moments of the same "
            "features.",
            code="dimension-mismatch",
        )
    x_mean, y_mean = (as_points(k.mean[None], "mean")[0] for k in (x, y))
    for side in (x, y):
        if side.covariance.shape != (len(x_mean), len(x_mean)):
            raise MismatchError(
                f"a covariance of shape {side.covariance.shape} does not fit a mean of "
                f"{len(x_mean)} features.",
                code="dimension-mismatch",
            )
    shift = float(np.sum((x_mean - y_mean) ** 2))
    return (shift + bures_squared(x.covariance, y.covariance)) ** 0.5


def bures_squared(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Compute the squared Bures distance of two covariances, never negative."""
    x_root, y_root = covariance_root(x), covariance_root(y)
    return _bures_of_roots(x_root, y_root)


def _bures_of_roots(x_root: Array, y_root: Array) -> float:
    # tr (Sx^1/2 Sy Sx^1/2)^1/2 is the nuclear norm of Rx Ry^T for any roots R^T R = S; the
    # Gram form needs no square root of a nearly singular matrix.
    singular = np.linalg.svd(x_root @ y_root.T, compute_uv=False)
    total = float(np.sum(x_root**2) + np.sum(y_root**2))
    squared = total - 2.0 * float(singular.sum())
    # The difference of equal covariances is rounding: the total is off by some 1e-16 of itself.
    return squared if squared > 1e-14 * len(singular) * total else 0.0


def gelbrich_bound(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None
) -> float:
    """Compute a lower bound of ``W_2`` from means and covariances (Gelbrich, 1990).

    Parameters
    ----------
    x, y, a, b
        As ``exact_plan``, which raises the same errors.

    Returns
    -------
    float
        ``gaussian_distance`` of the two clouds' moments, rounding subtracted.

    Examples
    --------
    >>> round(gelbrich_bound([[0.0], [2.0]], [[5.0], [7.0]]), 9)
    5.0
    """
    x, y, a, b = as_clouds(x, y, a, b)
    centre = 0.5 * (x.mean(axis=0) + y.mean(axis=0))
    near_x, near_y = x - centre, y - centre
    x_root, y_root = thin_root(centred_root(near_x, a)[1]), thin_root(centred_root(near_y, b)[1])
    bures = _bures_of_roots(x_root, y_root)
    spread = float(np.sum(x_root**2) + np.sum(y_root**2))
    # Copies of one point have the spread of their rounding around the common centre.
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    bures = max(bures - x.shape[1] * (1e-15 * largest) ** 2, 0.0)
    return (shave(bures, spread + bures) + mean_gap(near_x, near_y, a, b) ** 2) ** 0.5 * (
        1.0 - 1e-12
    )


def mean_gap(x: Array, y: Array, a: Array, b: Array) -> float:
    """Compute ``|mean x - mean y|`` of clouds around the origin, less its rounding."""
    gap = float(np.linalg.norm(a @ x - b @ y))
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    return max(gap * (1.0 - 1e-12) - 1e-14 * x.shape[1] ** 0.5 * largest, 0.0)


def gelbrich_of_moments(x: Moments, y: Moments) -> float:
    """Compute the bound of ``gelbrich_bound`` only from moments."""
    distance = gaussian_distance(x, y)
    scale = float(np.trace(x.covariance) + np.trace(y.covariance)) + distance**2
    # The root of a covariance is off by the root of its rounding, some 1e-8.
    return max(distance**2 - 1e-7 * scale, 0.0) ** 0.5


def shave(squared: float, scale: float) -> float:
    """Lower a squared bound by its rounding."""
    return max(squared - 1e-12 * scale, 0.0)


def thin_root(root: Array) -> Array:
    """Return a factor of the same covariance with no more rows than columns."""
    n, d = root.shape
    # Of a QR decomposition only R is needed: R.T @ R is still the covariance.
    return np.asarray(np.linalg.qr(root)[1]) if n > d else root
