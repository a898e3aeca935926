r"""What a target's records are made of, and what each source would get wrong there.

A source tells the mean of public random features of its records, class by class; a target tells
the mean of its own, without labels. The target's mean is explained as a mixture of the sources'
class means: whose share of a class is :math:`w_{kc}`. That estimates which classes the target
has, and whose records of a class its own look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from ..errors import InputError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_ROUNDING = 1e-12
# Weight of the equation that shares sum to 1, beside features of norm 1.
_SUM = 100.0
# Makes the mixture unique where several explain a mean equally well.
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Explained:
    """The records of one device as a mixture of the classes of sources."""

    origin: Array
    """Share of each class of each source (S, C); they sum to 1, but for classes without a mean."""
    shares: Array
    """Estimated class proportions (C,)."""
    excess: float
    """The square of what the mixture leaves unexplained, over what sampling explains."""
    even_excess: float
    """The same of all labelled records of the sources, in the proportions that they have."""


def explain_records(
    mean: Array, records: int, class_means: Array, counts: npt.NDArray[Any], labelled: Array
) -> Explained:
    r"""Explain the records of a device by the classes of sources.

    .. math:: w = \arg\min_{w \in \Delta} \Big|\mu - \sum_{kc} w_{kc} m_{kc}\Big|^2
        + 10^{-3} |w|^2, \quad \pi_c = \sum_k w_{kc}

    Parameters
    ----------
    mean, records
        Mean features of all records of the device (D,), and of how many.
    class_means
        Mean features of the labelled records of every source by class (S, C, D).
    counts
        Records behind each of these means (S, C); 0 for none.
    labelled
        Labelled records (S, C). A class that has some and no mean anywhere, for it is too small
        everywhere, has the share that it has of all labelled records.

    Raises
    ------
    InputError
        No mean of any class.

    Examples
    --------
    >>> own = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    >>> counts = np.array([[9, 0], [0, 9]])
    >>> explain_records(np.array([0.5, 0.5]), 9, own, counts, counts * 1.0).shares.round(2)
    array([0.5, 0.5])
    """
    rows, columns = np.nonzero(counts > 0)
    if len(rows) == 0:
        raise InputError(
            "no device tells the mean of any class: classes are too small for so many features. "
            "Give fewer features, or more labels.",
            code="labels-absent",
        )
    parts, behind = class_means[rows, columns].T, counts[rows, columns]
    weights = mixture(parts, mean)
    origin = np.zeros(counts.shape)
    origin[rows, columns] = weights
    is_blind = ~(counts > 0).any(axis=0)
    blind = np.where(is_blind, labelled.sum(axis=0) / labelled.sum(), 0.0)
    return Explained(
        origin=origin,
        shares=(1.0 - blind.sum()) * origin.sum(axis=0) + blind,
        excess=excess(mean, records, parts, behind, weights),
        even_excess=excess(mean, records, parts, behind, behind / behind.sum()),
    )


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
