"""Likelihood ratios of a wrong label."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from silot_transport._check import Array

from ._arrays import Codes

LARGEST = 30.0
"""Log ratios beyond this say no more."""


def labels_of(shares: Array, codes: Codes, swaps: Array) -> Array:
    r"""Log of :math:`\sum_{k \ne l} p(k | x) T_{kl} / p(l | x)` (n,)."""
    rows = np.arange(len(codes))
    own = shares[rows, codes]
    with np.errstate(divide="ignore"):
        wrong = shares + np.log(swaps)[:, codes].T
    wrong[rows, codes] = -np.inf
    return np.clip(logsumexp(wrong, axis=1) - own, -LARGEST, LARGEST)


def even_swaps(classes: int) -> Array:
    """Chances that a wrong label is another class, all alike."""
    return (1.0 - np.eye(classes)) / max(classes - 1, 1)
