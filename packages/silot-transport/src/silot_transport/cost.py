"""Matrices of pairwise costs."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from ._check import Array, as_points, as_power, same_dimension
from ._threads import one_blas_thread
from .errors import InputError
from .memory import require

# A squared distance this far below the squared size of the clouds is computed again from
# coordinate differences: the product form leaves it too few correct digits.
_CLOSE = 1e-5
# Rows are processed in blocks of about this many entries, to stay in the cache; of fewer rows than
# this the product of a block would spend its time on packing the other side.
_BLOCK, _FEWEST_ROWS = 1 << 18, 512
# Up to so many products differences are as fast as a product of matrices, and more accurate.
_SMALL = 1 << 16
# Up to so many products OpenBLAS, the BLAS of numpy's wheels, uses one thread by itself (its
# GEMM_MULTITHREAD_THRESHOLD); to say so takes longer than the products.
_ONE_THREAD = 1 << 18
# Decimal exponent up to which powers of distances keep room for sums.
_MOST_DIGITS = 280.0


@dataclass(frozen=True)
class Cost:
    """A cost matrix and a bound on its rounding."""

    matrix: Array
    """``|x_i - y_j|^p``, shape (n, m)."""
    rounding: float
    """No entry is off by more than this."""
    largest: float
    """About the largest entry, and not below it."""


def cost_matrix(x: npt.ArrayLike, y: npt.ArrayLike, *, p: float = 2) -> Array:
    """Compute pairwise costs ``C[i, j] = |x_i - y_j|^p`` in the Euclidean norm.

    For p 1 and 2 built as one matrix product of float64 points from which a common centre was
    subtracted, clamped at zero. Entries of nearly coincident points are computed again from
    their differences, so that ``C`` is exactly zero for equal points.

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    p
        1 or more.

    Returns
    -------
    numpy.ndarray
        Shape (n, m), float64.

    Raises
    ------
    InputError, MismatchError
        Points that are not finite numbers of one dimension; ``p`` below 1; other than
        1 and 2, where powers of the distances are beyond float64.

    Examples
    --------
    >>> cost_matrix([[0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]])
    array([[25.,  0.]])
    """
    x, y = as_points(x, "x"), as_points(y, "y")
    same_dimension(x, y)
    return build_cost(x, y, as_power(p)).matrix


def build_cost(x: Array, y: Array, p: float) -> Cost:
    """Compute the costs of checked points, with a bound on their rounding."""
    require(len(x), len(y), x.shape[1])
    n, m, d = len(x), len(y), x.shape[1]
    if n * m * d <= _SMALL or p not in (1, 2):
        return _by_differences(x, y, p)
    centre = 0.5 * (x.mean(axis=0) + y.mean(axis=0))
    # |x|^2 - 2 <x, y> + |y|^2 as a single product: no pass over the matrix is needed to add
    # the norms. Written in place, for copies of wide points cost as much as a product of few.
    rows, columns = np.empty((n, d + 2)), np.empty((m, d + 2))
    x_near, y_near = rows[:, :d], columns[:, :d]
    np.subtract(x, centre, out=x_near)
    np.subtract(y, centre, out=y_near)
    x_squared = np.einsum("ij,ij->i", x_near, x_near)
    y_squared = np.einsum("ij,ij->i", y_near, y_near)
    scale = float(x_squared.max() + y_squared.max())
    if scale == 0.0:
        return Cost(np.zeros((n, m)), 0.0, 0.0)
    if _CLOSE * scale < float(np.finfo(np.float64).tiny):
        # Squares of differences this small have no correct digits.
        return _by_differences(x, y, p)

    x_near *= -2.0
    rows[:, d], rows[:, d + 1] = x_squared, 1.0
    columns[:, d], columns[:, d + 1] = 1.0, y_squared
    matrix = np.empty((n, m))
    # Below this many products a second BLAS thread gains nothing, and the smallest ones get none.
    is_small = _ONE_THREAD < n * m * (d + 2) < 5e8
    with one_blas_thread() if is_small else nullcontext():
        return _fill(matrix, rows, columns.T, x, y, p, scale)


def _fill(
    matrix: Array, rows: Array, columns: Array, x: Array, y: Array, p: float, scale: float
) -> Cost:
    """Multiply block by block, and compute the entries of close pairs again."""
    (n, m), d = matrix.shape, x.shape[1]
    close_limit = _CLOSE * scale
    rows_per_block = max(_FEWEST_ROWS, _BLOCK // m)
    refined = 0
    for start in range(0, n, rows_per_block):
        block = matrix[start : start + rows_per_block]
        np.matmul(rows[start : start + rows_per_block], columns, out=block)
        close = block < close_limit
        count = int(np.count_nonzero(close))
        if count:
            refined += count
            if refined > 0.05 * n * m:
                # Clouds that are tight compared with their spread (far outliers, distant
                # clusters): the product form keeps no digits of most pairs.
                return _by_differences(x, y, p)
            i, j = np.nonzero(close)
            difference = x[start + i] - y[j]
            block[i, j] = np.einsum("ij,ij->i", difference, difference)
        if p == 1:
            np.sqrt(block, out=block)
    epsilon = float(np.finfo(np.float64).eps)
    # A product of d + 2 terms, each at most the scale: Higham, Accuracy and Stability of
    # Numerical Algorithms, 2002, sec. 3.1.
    squared_error = (d + 8) * epsilon * 2.0 * scale
    largest = 2.0 * scale + squared_error
    if p == 2:
        return Cost(matrix, squared_error, largest)
    # d sqrt(c) = dc / (2 sqrt(c)), and c >= close_limit wherever dc is not tiny.
    return Cost(matrix, squared_error / (2.0 * close_limit**0.5), largest**0.5)


def _by_differences(x: Array, y: Array, p: float) -> Cost:
    matrix = cost_by_differences(x, y, p)
    largest = float(matrix.max())
    return Cost(matrix, relative_rounding(x.shape[1], p) * largest, largest)


def relative_rounding(d: int, p: float) -> float:
    """Bound the relative error of a cost that was computed from d differences."""
    units = d + 6 if p in (1, 2) else p * (d + 6) + 4
    return units * float(np.finfo(np.float64).eps)


def cost_by_differences(x: Array, y: Array, p: float) -> Array:
    """Compute costs (n, m), of which each keeps all its digits, far more slowly."""
    if p in (1, 2):
        return cdist(x, y, "sqeuclidean" if p == 2 else "euclidean")
    return to_power(cdist(x, y), p)


def to_power(distances: Array, p: float) -> Array:
    """Raise distances to a power, unless that leaves what float64 has."""
    largest = float(distances.max(initial=0.0))
    if largest > 0.0 and not -_MOST_DIGITS < p * math.log10(largest) < _MOST_DIGITS:
        raise InputError(
            f"distances as far as {largest:.3g} to the power {p:g} are beyond float64. Rescale "
            "the points.",
            code="measure-magnitude",
        )
    return distances**p


def paired_cost(x: Array, y: Array, p: float) -> Array:
    """Compute ``|x_k - y_k|^p`` for paired rows, from their differences."""
    difference = x - y
    squared: Array = np.einsum("ij,ij->i", difference, difference)
    if p in (1, 2):
        return squared if p == 2 else np.sqrt(squared)
    return to_power(np.sqrt(squared), p)
