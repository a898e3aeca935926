"""How labels go wrong at a holder, and how common its classes are."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from silot_transport._check import Array

from ._arrays import Codes

LARGEST = 30.0
"""Log ratios beyond this say no more."""

_STEPS = 200


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


def law(shares: Array, codes: Codes, masses: Array) -> tuple[Array, Array]:
    r"""Log odds (C,) of classes at the holder against validation data, and swaps (C, C).

    Of models in which classes are as common as in the validation data or not, and a wrong label
    is of any other class or, by :math:`T_{kl}`, of some rather than others, the one that explains
    records and labels best by the Bayesian information criterion:

    .. math:: \sum_i \log \sum_k w_k\, p(k | x_i)\, ((1 - \pi) [k = l_i] + \pi T_{k l_i})

    by expectation and maximisation, with pseudo-counts (Saerens, Latinne and Decaestecker, 2002,
    for the odds :math:`w_k` of classes).
    """
    classes = shares.shape[1]
    plain = even_swaps(classes)
    if len(codes) == 0:
        return np.zeros(classes), plain
    rows, chances, size = np.arange(len(codes)), np.exp(shares), len(codes)

    def fitted(shifted: bool, free: bool) -> tuple[float, Array, Array]:
        swaps, rate, common = plain, 0.1, masses
        gain = -np.inf
        for _ in range(_STEPS):
            held = chances * (common / masses)
            sound = (1.0 - rate) * held[rows, codes]
            held *= rate * swaps[:, codes].T
            total = sound + held.sum(axis=1)
            before, gain = gain, float(np.log(total).sum())
            if gain - before < 1e-6 * size:
                break
            held /= total[:, None]
            rate = (float(held.sum()) + 0.05) / (size + 1.0)
            if free:
                counts = np.zeros((classes, classes))
                np.add.at(counts.T, codes, held)
                counts += classes * plain
                swaps = counts / counts.sum(axis=1, keepdims=True)
            if shifted:
                held[rows, codes] += sound / total
                common = (held.sum(axis=0) + classes * masses) / (size + classes)
        price = shifted * (classes - 1) + free * classes * (classes - 2)
        return gain - 0.5 * price * np.log(size), common / masses, swaps

    models = [
        fitted(shifted, free) for shifted in (False, True) for free in (False, True)[: classes - 1]
    ]
    _, odds, swaps = max(models, key=lambda model: model[0])
    return np.log(odds), swaps
