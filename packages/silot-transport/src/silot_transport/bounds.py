"""Distances and certified lower bounds that cost less than a plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._check import (
    Array,
    Weights,
    as_clouds,
    as_order,
    as_points,
    as_weights,
    integer,
    same_dimension,
)
from ._solvers import staircase
from .moments import gelbrich_bound, mean_gap


def line_costs(x: Array, y: Array, a: Array | None, b: Array | None, p: int) -> Array:
    r"""Compute ``W_p^p`` between many pairs of measures on the line.

    .. math:: W_p^p = \int_0^1 |F_x^{-1}(u) - F_y^{-1}(u)|^p du

    Parameters
    ----------
    x, y
        Shapes (k, n) and (k, m): one pair of measures a row.
    a, b
        Weights shared by the rows; ``None`` means uniform.
    p
        1 or 2.

    Returns
    -------
    numpy.ndarray
        Shape (k,).
    """
    if a is None and b is None and x.shape[1] == y.shape[1]:
        difference = np.abs(np.sort(x, axis=1) - np.sort(y, axis=1))
        return (difference**p).mean(axis=1)
    masses_x = as_weights(a, x.shape[1])
    masses_y = as_weights(b, y.shape[1])
    costs = np.empty(len(x))
    for k, (u, v) in enumerate(zip(x, y, strict=True)):
        i, j = np.argsort(u, kind="stable"), np.argsort(v, kind="stable")
        rows, cols, mass = staircase(masses_x[i], masses_y[j])
        costs[k] = mass @ np.abs(u[i][rows] - v[j][cols]) ** p
    return costs


def sliced_distance(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, p: int = 2, directions: int = 128, rng: np.random.Generator,
) -> float:  # fmt: skip
    r"""Estimate the sliced Wasserstein distance by Monte Carlo over directions.

    .. math:: SW_p^p = \mathbb{E}_{u \in S^{d-1}} W_p^p(u \cdot \mu, u \cdot \nu)

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights; ``None`` means uniform.
    p
        1 or 2.
    directions
        Number of directions drawn.
    rng
        Source of the directions.

    Returns
    -------
    float

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; ``directions`` below 1.

    Examples
    --------
    >>> import numpy as np
    >>> sliced_distance([[0.0]], [[2.0]], rng=np.random.default_rng(0))
    2.0
    """
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    directions = integer(directions, "directions", "option-count")
    drawn = rng.standard_normal((directions, x.shape[1]))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    costs = line_costs(drawn @ x.T, drawn @ y.T, *_weights(x, y, a, b), order)
    return float(costs.mean()) ** (1.0 / order)


def sliced_bound(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, p: int = 2, frames: int = 4, rng: np.random.Generator,
) -> float:  # fmt: skip
    r"""Compute a certified lower bound of ``W_p`` from projections.

    For every orthonormal frame u, :math:`W_2^2 \ge \sum_k W_2^2(u_k \cdot \mu, u_k \cdot \nu)`,
    because squared distances add over a frame and projecting an optimal coupling gives a
    coupling of the projections. For p = 1 the best single direction is taken. Unlike
    ``sqrt(d) * SW_2``, which bounds in expectation, this holds for every draw.

    Parameters
    ----------
    x, y, a, b, p
        As ``sliced_distance``.
    frames
        Number of frames, of which the best counts; the first is the coordinate axes, the others
        are random.
    rng
        Source of the frames.

    Returns
    -------
    float
        Errors are those of ``sliced_distance``, for ``frames`` below 1 too.

    Examples
    --------
    >>> import numpy as np
    >>> round(sliced_bound([[0.0, 0.0]], [[3.0, 4.0]], rng=np.random.default_rng(0)), 9)
    5.0
    """
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    frames = integer(frames, "frames", "option-count")
    a, b = _weights(x, y, a, b)
    d = x.shape[1]
    centre = 0.5 * (x.mean(axis=0) + y.mean(axis=0))
    rows: Array = np.ascontiguousarray((x - centre).T)
    cols: Array = np.ascontiguousarray((y - centre).T)
    scale = float(np.abs(rows).max() + np.abs(cols).max()) ** order * d
    best = 0.0
    frame = np.eye(d)
    for _ in range(frames):
        costs = line_costs(frame.T @ rows, frame.T @ cols, a, b, order)
        best = max(best, float(costs.sum() if order == 2 else costs.max()))
        frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    # The frame is orthonormal to some 1e-15, which may overstate the sum by as much.
    return max(best * (1.0 - 1e-12) - 1e-15 * scale, 0.0) ** (1.0 / order)


def mean_bound(x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None) -> float:
    """Compute ``|mean x - mean y|``, a lower bound of ``W_1`` and so of ``W_2`` (Jensen).

    Parameters
    ----------
    x, y, a, b
        As ``exact_plan``, which raises the same errors.

    Returns
    -------
    float

    Examples
    --------
    >>> round(mean_bound([[0.0], [2.0]], [[5.0]]), 9)
    4.0
    """
    x, y, a, b = as_clouds(x, y, a, b)
    centre = 0.5 * (x.mean(axis=0) + y.mean(axis=0))
    return mean_gap(x - centre, y - centre, a, b)


def lower_bounds(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, p: int = 2, rng: np.random.Generator,
) -> dict[str, float]:  # fmt: skip
    """Compute all certified lower bounds that apply, by name.

    Parameters
    ----------
    x, y, a, b
        Two weighted clouds.
    p
        1 or 2. The Gelbrich bound applies to 2 only.
    rng
        Source of the projection frames.

    Returns
    -------
    dict
        ``mean``, ``sliced`` and, for p = 2, ``gelbrich``.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(lower_bounds([[0.0]], [[1.0]], rng=np.random.default_rng(0)))
    ['gelbrich', 'mean', 'sliced']
    """
    order = as_order(p)
    bounds = {"mean": mean_bound(x, y, a, b), "sliced": sliced_bound(x, y, a, b, p=order, rng=rng)}
    if order == 2:
        bounds["gelbrich"] = gelbrich_bound(x, y, a, b)
    return bounds


def _weights(
    x: Array, y: Array, a: npt.ArrayLike | None, b: npt.ArrayLike | None
) -> tuple[Array | None, Array | None]:
    # None stays None: uniform clouds of one size need no staircase.
    return (
        None if a is None else as_weights(a, len(x), "a"),
        None if b is None else as_weights(b, len(y), "b"),
    )
