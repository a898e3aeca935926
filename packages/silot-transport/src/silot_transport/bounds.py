"""Lower bounds of the Wasserstein distance that cost less than a plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._check import as_order, as_points, as_weights, same_dimension
from .moments import gelbrich_bound, mean_gap
from .sliced import sliced_bound


def mean_bound(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
) -> float:
    """``|mean x - mean y|``, a lower bound of ``W_1`` and so of ``W_2`` (Jensen).

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights; ``None`` means uniform.

    Returns
    -------
    float

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``.

    Examples
    --------
    >>> round(mean_bound([[0.0], [2.0]], [[5.0]]), 9)
    4.0
    """
    x, y = as_points(x, "x"), as_points(y, "y")
    same_dimension(x, y)
    centre = 0.5 * (x.mean(axis=0) + y.mean(axis=0))
    return mean_gap(x - centre, y - centre, as_weights(a, len(x), "a"), as_weights(b, len(y), "b"))


def lower_bounds(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    *,
    p: int = 2,
    rng: np.random.Generator,
) -> dict[str, float]:
    """All certified lower bounds that apply, by name.

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
    found = {"mean": mean_bound(x, y, a, b), "sliced": sliced_bound(x, y, a, b, p=order, rng=rng)}
    if order == 2:
        found["gelbrich"] = gelbrich_bound(x, y, a, b)
    return found
