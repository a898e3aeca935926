r"""What a target's records are made of, and what each source would get wrong there.

A source tells the mean of public random features of its records, class by class; a target tells
the mean of its own, without labels. The target's mean is explained as a mixture of the sources'
class means: whose share of a class is :math:`w_{kc}`. That estimates which classes the target
has, and whose records of a class its own look like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from ..errors import InputError, MismatchError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_ROUNDING = 1e-12
# Weight of the equation that shares sum to 1, beside features of norm 1.
_SUM = 100.0
# Makes the mixture unique where several explain a mean equally well.
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Matching:
    """What is expected of every source at every target, class by class."""

    shares: Array
    """Shape (N, C): estimated class proportions of every device's records."""
    errors: Array
    """Shape (N, N, C): expected error of source i on the records of class c of device j; 1 where
    the source never saw the class."""
    transfer: Array
    r"""Shape (N, N): :math:`T_{ij} = \sum_c \pi_{jc} e_{ijc}`, the expected error of source i at
    device j; 1 where i is no source."""
    between: Array
    """Shape (N, N): distance of the records of one class at two sources, averaged over the classes
    both have; NaN where either is no source."""
    excess: Array
    """Shape (N,): the square of what the mixture leaves unexplained of each device's mean, over
    what chance leaves of so many records (``excess``); NaN where ``records`` were not given."""


def match(
    means: npt.ArrayLike,
    class_means: npt.ArrayLike,
    counts: npt.ArrayLike,
    class_errors: npt.ArrayLike,
    *,
    labelled: npt.ArrayLike | None = None,
    records: npt.ArrayLike | None = None,
) -> Matching:
    r"""Explain every device's records by the sources' classes; expect errors from that.

    .. math::
        w_j = \arg\min_{w \in \Delta} \Big|\mu_j - \sum_{kc} w_{kc} m_{kc}\Big|^2 + 10^{-3} |w|^2,
        \quad \pi_{jc} = \sum_k w_{jkc}, \quad
        e_{ijc} = \min\Big(1, e_{ic} + \sum_k \frac{w_{jkc}}{\pi_{jc}} d_{ik}\Big)

    with :math:`d_{ik}` the root of the mean, over the classes both sources have, of the unbiased
    squared distance of their class means.

    Parameters
    ----------
    means
        Shape (N, D): mean features of all records of every device.
    class_means
        Shape (N, C, D): mean features of the labelled records by class.
    counts
        Shape (N, C): records behind each of these means; 0 for none. A device without any is
        no source.
    class_errors
        Shape (N, C): error each source expects on its own records of a class.
    labelled
        Shape (N, C): labelled records of every class; by default ``counts``. A class that has
        labelled records and no mean anywhere, for it is too small everywhere, is taken to have
        the share at every device that it has of all labelled records.
    records
        Shape (N,): records behind each of the ``means``.

    Returns
    -------
    Matching

    Raises
    ------
    InputError, MismatchError
        Arrays that do not fit together or are not finite; no labelled class anywhere.

    Examples
    --------
    >>> means = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    >>> labelled = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[0.0] * 2] * 2]
    >>> matching = match(means, labelled, [[9, 0], [0, 9], [0, 0]], [[0, 1], [1, 0], [1, 1]])
    >>> matching.shares[2].round(2), matching.transfer[:, 2].round(2)
    (array([0.5, 0.5]), array([0.5, 0.5, 1. ]))
    """
    mean, own = _finite(means, 2, "means"), _finite(class_means, 3, "class_means")
    numbers = np.asarray(counts)
    expected = _finite(class_errors, 2, "class_errors")
    devices, classes, width = own.shape
    shapes = (mean.shape, numbers.shape, expected.shape)
    if shapes != ((devices, width), (devices, classes), (devices, classes)):
        raise MismatchError(
            f"means {mean.shape}, class_means {own.shape}, counts {numbers.shape} and "
            f"class_errors {expected.shape} do not fit together.",
            code="matching-shape",
        )
    rows, columns = np.nonzero(numbers > 0)
    if len(rows) == 0:
        raise InputError(
            "no device tells the mean of any class: classes are too small for so many features. "
            "Give fewer features, or more labels.",
            code="labels-absent",
        )
    trained = numbers if labelled is None else np.asarray(labelled)
    if trained.shape != numbers.shape or (trained < numbers).any():
        raise MismatchError(
            "labelled has another shape than counts, or a smaller count.", code="matching-shape"
        )
    between = class_distances(own, numbers)
    own_errors = np.where(trained > 0, expected, 1.0)
    blind = np.where((numbers > 0).any(axis=0), 0.0, trained.sum(axis=0) / trained.sum())
    shares = np.zeros((devices, classes))
    errors = np.ones((devices, devices, classes))
    over = np.full(devices, np.nan)
    sources = np.flatnonzero((numbers > 0).any(axis=1))
    parts = own[rows, columns].T
    for j in range(devices):
        weights = mixture(parts, mean[j])
        if records is not None:
            behind = np.asarray(records)[j]
            over[j] = excess(mean[j], behind, parts, numbers[rows, columns], weights)
        origin = np.zeros((devices, classes))
        origin[rows, columns] = weights
        shares[j] = origin.sum(axis=0)
        # A class the target does not seem to have gets the origin of all its records.
        of_class = np.where(
            shares[j] > 0, origin / np.where(shares[j] > 0, shares[j], 1.0), origin.sum(1)[:, None]
        )
        away = between[np.ix_(sources, sources)] @ of_class[sources]
        errors[sources, j] = np.minimum(1.0, own_errors[sources] + away)
    # Classes too small for a mean anywhere keep the share that they have of all labelled records.
    shares = (1.0 - blind.sum()) * shares + blind
    transfer = np.einsum("jc,ijc->ij", shares, errors)
    return Matching(shares, errors, transfer, between, over)


def mixture(parts: Array, mean: Array) -> Array:
    """Return the shares of the columns of ``parts`` that make up ``mean``.

    Examples
    --------
    >>> mixture(np.eye(2), np.array([0.25, 0.75])).round(2)
    array([0.25, 0.75])
    """
    count = parts.shape[1]
    system = np.vstack([parts, np.full((1, count), _SUM), _RIDGE**0.5 * np.eye(count)])
    wanted = np.concatenate([mean, [_SUM], np.zeros(count)])
    weights = np.asarray(nnls(system, wanted, maxiter=100 * count)[0], dtype=np.float64)
    # The weighted equation makes shares sum to 1 nearly; now they do.
    return weights / weights.sum()


def excess(mean: Array, records: int, parts: Array, counts: Counts, weights: Array) -> float:
    r"""How far a mixture of means is from a mean, over what chance makes of it.

    .. math::
        \frac{|\mu - \sum_k w_k m_k|^2}
        {(1 - |\mu|^2) / (n - 1) + \sum_k w_k^2 (1 - |m_k|^2) / (n_k - 1)}

    About 1, or less where the weights were fitted, if the records are of the laws that are mixed;
    the more, the less so.

    Parameters
    ----------
    mean, records
        Mean of features of norm 1, and of how many records.
    parts, counts, weights
        Means (D, K) as columns, records behind each, and their shares in the mixture.

    Examples
    --------
    >>> apart = np.array([[0.6, 0.0], [0.0, 0.6]])
    >>> round(excess(np.array([0.3, 0.3]), 101, apart, np.array([51, 51]), np.full(2, 0.5)), 6)
    0.0
    """
    chance = _chance(mean, records) + weights**2 @ _chance(parts, counts)
    return float(np.sum((mean - parts @ weights) ** 2) / max(float(chance), _ROUNDING))


def _chance(means: Array, counts: npt.ArrayLike) -> Array:
    """Mean square by which means of so many features of norm 1 are off."""
    spread = np.maximum(1.0 - np.sum(means**2, axis=0), 0.0)
    # Of one record there is no telling how far its mean is off.
    return np.where(np.asarray(counts) > 1, spread / np.maximum(np.asarray(counts) - 1, 1), 1.0)


def class_distances(class_means: Array, counts: Counts) -> Array:
    """Distances of sources whose classes are compared one by one, (N, N).

    Sources without a common class are as far apart as others are on average. Features have
    norm 1, hence a mean of n of them is off by (1 - |mean|^2) / (n - 1), squared.
    """
    devices = len(class_means)
    noise = _chance(np.moveaxis(class_means, 2, 0), counts)
    between = np.full((devices, devices), np.nan)
    sources = np.flatnonzero((counts > 0).any(axis=1))
    for i in sources:
        for k in sources[sources > i]:
            both = (counts[i] > 0) & (counts[k] > 0)
            if both.any():
                squares = ((class_means[i, both] - class_means[k, both]) ** 2).sum(axis=1)
                excess = np.maximum(squares - noise[i, both] - noise[k, both], 0.0)
                between[i, k] = between[k, i] = float(excess.mean()) ** 0.5
    pairs = np.ix_(sources, sources)
    table = between[pairs]
    upper = table[np.triu_indices(len(sources), 1)]
    distances = upper[~np.isnan(upper)]
    table[np.isnan(table)] = float(distances.mean()) if len(distances) else 0.0
    np.fill_diagonal(table, 0.0)
    between[pairs] = table
    return between


def _finite(values: npt.ArrayLike, ndim: int, name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or not np.isfinite(array).all():
        raise InputError(
            f"{name} is no array of finite numbers with {ndim} axes.", code="matching-shape"
        )
    return array
