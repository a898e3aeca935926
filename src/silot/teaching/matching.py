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

    ``class_means`` (S, C, D) are those of ``counts`` (S, C) labelled records, 0 for none. A class
    that is too small everywhere to have a mean has the share that it has of the ``labelled``
    records (S, C).
    """
    rows, columns = np.nonzero(counts > 0)
    if len(rows) == 0:
        raise InputError(
            "no device sends the mean of any class: classes are too small for so many "
            "features. Give fewer features, or more labels.",
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
    """Return the shares of the columns of ``parts`` that make up ``mean``."""
    count = parts.shape[1]
    system = np.vstack([parts, np.full((1, count), _SUM), _RIDGE**0.5 * np.eye(count)])
    wanted = np.concatenate([mean, [_SUM], np.zeros(count)])
    weights = np.asarray(nnls(system, wanted, maxiter=100 * count)[0], dtype=np.float64)
    # The weighted equation makes shares sum to 1 nearly; now they do.
    return weights / weights.sum()


def excess(mean: Array, records: int, parts: Array, counts: Counts, weights: Array) -> float:
    r"""Compute how far a mixture of means is from a mean, over what sampling explains.

    .. math::
        \frac{|\mu - \sum_k w_k m_k|^2}
        {(1 - |\mu|^2) / (n - 1) + \sum_k w_k^2 (1 - |m_k|^2) / (n_k - 1)}

    About 1, or less where the weights were fitted, if the records are of the distributions that are
    mixed; the more, the less so. ``parts`` (D, K) are means of features of norm 1, as columns.
    """
    chance = _chance(mean, records) + weights**2 @ _chance(parts, counts)
    return float(np.sum((mean - parts @ weights) ** 2) / max(float(chance), _ROUNDING))


def _chance(means: Array, counts: npt.ArrayLike) -> Array:
    """Mean square by which means of this many features of norm 1 are off."""
    spread = np.maximum(1.0 - np.sum(means**2, axis=0), 0.0)
    # Of one record there is no telling how far its mean is off.
    return np.where(np.asarray(counts) > 1, spread / np.maximum(np.asarray(counts) - 1, 1), 1.0)
