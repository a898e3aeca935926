"""Many small problems at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import _native
from ._check import Array
from .exact import exact_plan

# Points of a cloud up to which costs of a pair stay in the cache.
_LARGEST = 512


def squared_distances(x: Sequence[Array], y: Sequence[Array]) -> Array:
    r"""Squared distances of pairs of uniform clouds, all of as many points.

    .. math:: W_2^2(X_k, Y_k) = \min_\sigma \frac1n \sum_i |x_{ki} - y_{k \sigma(i)}|^2

    Parameters
    ----------
    x, y
        N clouds each, of shape (n, d) each: finite numbers.

    Returns
    -------
    numpy.ndarray
        Shape (N,). A pair has the same bits whatever others there are.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> squared_distances([x, x], [x + 2, x[::-1]])
    array([4., 0.])
    """
    kernels = _native.kernels
    if kernels is None or len(x[0]) > _LARGEST:
        return np.array([exact_plan(one, other).cost for one, other in zip(x, y, strict=True)])
    left, right = np.stack(x), np.stack(y)
    # Lengths near one, for squares of others may be no numbers.
    exponents = np.frexp(np.maximum(*(np.abs(k).max(axis=(1, 2)) for k in (left, right))))[1]
    down = -exponents[:, None, None]
    found = np.empty(len(left))
    kernels.clouds(np.ldexp(left, down), np.ldexp(right, down), found)
    return np.ldexp(found, 2 * exponents)
