"""Distances between classes, where two classes are as far apart as their records."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from ._check import Array
from .cost import build_cost
from .errors import InputError
from .exact import ExactPlan, exact_plan, plan_from_cost

Codes = npt.NDArray[np.int64]

# A class is represented by at most this many of its records: the distance of two classes need
# not be finer than the sampling error of a class.
_LARGEST_CLASS = 500


def class_distances(points: Array, weights: Array, codes: Codes, classes: int) -> Array:
    r"""Compute Wasserstein-2 distances between the classes of one labelled cloud.

    .. math:: D_{kl} = W_2(P(\cdot \mid y = k),\ P(\cdot \mid y = l))

    Parameters
    ----------
    points, weights
        Shapes (n, d) and (n,).
    codes
        Class of each record (n,), 0 to ``classes - 1``; every class has mass.
    classes
        Number of classes C.

    Returns
    -------
    numpy.ndarray
        Shape (C, C), symmetric, zero diagonal. Classes of more than 500 records are represented
        by 500 of them, drawn with a fixed seed, so ``D`` is a metric in every case.

    Notes
    -----
    The inner distance of LAVA (Just et al., 2023) and OTDD (Alvarez-Melis and Fusi, 2020).

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0], [0.0], [3.0]])
    >>> class_distances(points, np.full(3, 1 / 3), np.array([0, 0, 1]), 2)
    array([[0., 3.],
           [3., 0.]])
    """
    clouds = [_select_class(points, weights, codes == code) for code in range(classes)]
    distances = np.zeros((classes, classes))
    for k, l in combinations(range(classes), 2):
        plan = exact_plan(clouds[k][0], clouds[l][0], clouds[k][1], clouds[l][1])
        distances[k, l] = distances[l, k] = plan.upper
    # Every entry was rounded on its own; shortest paths make a metric of them again.
    return shortest(distances)


def _select_class(
    points: Array, weights: Array, is_member: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return points and weights of one class, or of a sample where it is large."""
    places = np.flatnonzero(is_member & (weights > 0))
    if len(places) == 0:
        raise InputError("a class has no records.", code="classes-empty")
    if len(places) > _LARGEST_CLASS:
        share = weights[places] / weights[places].sum()
        rng = np.random.default_rng(0)
        places = np.sort(rng.choice(places, _LARGEST_CLASS, replace=False, p=share))
        return points[places], np.full(len(places), 1.0 / len(places))
    return points[places], weights[places] / weights[places].sum()


def shortest(distances: Array) -> Array:
    """Compute lengths of shortest paths (C, C): the largest metric below these distances."""
    lengths = distances.copy()
    for via in range(len(lengths)):
        lengths = np.minimum(lengths, lengths[:, via, None] + lengths[None, via])
    return lengths


def distances_to_classes(
    points: Array,
    weights: Array,
    target: Array,
    target_weights: Array,
    target_codes: Codes,
    between: Array,
    slack: Array,
) -> Array:
    r"""Compute distances of a class that the target lacks to the classes that it has.

    .. math:: D_{\cdot l} = \min_k W_2(X, Y_k) + \delta_k + D_{kl}

    which keeps the triangle inequality when ``target`` is displaced by ``slack`` from the
    measure whose class distances are ``between``.

    Parameters
    ----------
    points, weights
        Records of the new class.
    target, target_weights, target_codes
        The labelled target, one class with mass at least.
    between
        Distances (C, C) between the classes of the target.
    slack
        How far each class of the target was displaced (C,).

    Returns
    -------
    numpy.ndarray
        Shape (C,).

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([[0.0], [4.0]])
    >>> distances_to_classes(np.array([[1.0]]), np.ones(1), target, np.full(2, 0.5),
    ...     np.array([0, 1]), np.array([[0.0, 4.0], [4.0, 0.0]]), np.zeros(2))
    array([1., 3.])
    """
    own, own_weights = _select_class(points, weights, np.ones(len(points), dtype=bool))
    # Classes without atoms in the target are reached through the others.
    reach = np.full(len(between), np.inf)
    for code in np.unique(target_codes[target_weights > 0]).tolist():
        cloud, masses = _select_class(target, target_weights, target_codes == code)
        reach[code] = exact_plan(own, cloud, own_weights, masses).upper + slack[code]
    return (reach[:, None] + between).min(axis=0)


def labelled_plan(
    x: Array, y: Array, a: Array, b: Array, label_cost: Array
) -> tuple[ExactPlan, float, float]:
    r"""Solve transport of labelled records exactly, for the cost ``|x - y|^2 + label_cost``.

    Parameters
    ----------
    x, y, a, b
        Points and weights.
    label_cost
        Shape (n, m), zero or more: the squared distance of the labels.

    Returns
    -------
    tuple
        The plan, and certified lower and upper bounds of the optimal cost.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> point = np.zeros((1, 1))
    >>> _, lower, upper = labelled_plan(point, point, one, one, np.full((1, 1), 9.0))
    >>> lower <= 9.0 <= upper
    True
    """
    cost = build_cost(x, y, 2)
    plan = plan_from_cost(cost.matrix + label_cost, a, b)
    # Adding the labels rounds once more.
    error = cost.rounding + 4.0 * float(np.finfo(np.float64).eps) * max(plan.cost, 0.0)
    return plan, max(plan.lower_cost - error, 0.0), plan.upper_cost + error
