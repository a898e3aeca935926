"""From log odds to flags, to the precision of a ranking, and to how many records are faulty."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from silot_transport._check import Array

from ._arrays import Codes, Flags, normed
from .flips import LARGEST

FEWEST = 50
"""Validation records without which nothing is flagged, whatever the level."""

# Records that the likelihood of a share is computed with at most, and draws of a bootstrap.
_SAMPLE, _DRAWS = 4000, 200
# Shares that are tried.
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 0.9, 60)])
# How far wrong labels follow what a record looks like: a power of its chances.
_FOLLOWED = (0.0, 0.5, 0.8)
# Half the 95 % quantile of chi-squared with one degree of freedom.
_DROP = 1.92
# Quantile of clean records below which hardly any faulty one scores, and others that are tried;
# standard errors of an interval, and of the least of several shares.
_EDGE, _EDGES = 0.8, (0.5, 0.8, 0.9, 0.95, 0.98)
_Z, _SURE = 1.96, 2.0
# Of n records of which none seems faulty, up to so many may be; and how far intervals are wider for
# models of few validation records.
_NONE, _DOUBT = 3.0, 1.5
# Validation records that odds are worth: few of these correct odds a little, many decide.
_PRIOR = 2.0
# Draws of validation records that say how far off class shares are by chance, and steps to these.
_CONTRADICTED, _STEPS = 40, 30
# What validation records make of the share of clean ones at least: few of them are no proof.
_LEAST = 0.75


class Share(NamedTuple):
    """A share of records, with a 95 % interval."""

    value: float
    low: float
    high: float


class Ranking(NamedTuple):
    """Records in order of suspicion.

    ``flagged`` (n,) are flags; ``precision`` (n,) is the share expected to be faulty among the
    first one, two, and so on, and never rises.
    """

    flagged: Flags
    precision: Array


def needed(fdr: float) -> int:
    """Fewest validation records (of equal weight) that flags at a level need.

    The share of clean records among few flagged ones is known from few validation records as
    suspect as these.

    Examples
    --------
    >>> needed(0.1), needed(0.02)
    (50, 250)
    """
    return max(FEWEST, math.ceil(5.0 / fdr)) if fdr > 0 else 0


def rank_by_odds(odds: Array, null: Array, fdr: float, share: float) -> Ranking:
    r"""Rank records, and flag the longest run in which about ``fdr`` are clean.

    Log odds :math:`s` expect :math:`\sum_{i \le k} 1 / (1 + e^{s_i})` clean ones among the first k,
    and so :math:`D_k` of m validation records as suspect as these; :math:`A_k` are. Both together
    give the share of clean ones, with a gamma prior that is worth two validation records:

    .. math:: \frac{1}{k} \sum_{i \le k} \frac{1}{1 + e^{s_i}} \cdot
              \max\left(\frac{3}{4}, \frac{2 + A_k}{2 + D_k}\right).

    Parameters
    ----------
    odds
        Log odds (n,) of records that count.
    null
        Log odds (m,) of validation records, each judged by the others.
    fdr
        The level; 0 flags nothing.
    share
        Share of faulty records, as far as is known.
    """
    size, many = len(odds), len(null)
    if size == 0:
        return Ranking(np.zeros(0, dtype=np.bool_), np.zeros(0))
    order, rank = np.argsort(-odds, kind="stable"), np.arange(1, size + 1)
    sound = np.cumsum(expit(-np.clip(odds[order], -LARGEST, LARGEST)))
    above = many - np.searchsorted(np.sort(null), odds[order], side="left")
    due = sound * many / max((1.0 - share) * size, 1.0)
    factor = np.maximum((_PRIOR + above) / (_PRIOR + due), _LEAST)
    wrong = np.clip(sound * factor / rank, 0.0, 1.0)
    # Equal odds are flagged together or not at all, whatever the order of records.
    is_last = np.append(np.diff(odds[order]) < 0, True)
    flagged = np.zeros(size, dtype=np.bool_)
    if fdr > 0 and many:
        flagged[order[: int(rank[is_last & (wrong <= fdr)].max(initial=0))]] = True
    # A longer run that is purer tells what the shorter one is worth at least.
    return Ranking(flagged, np.maximum.accumulate((1.0 - wrong)[::-1])[::-1])


def share_wrong(shares: Array, codes: Codes, null: Array, null_codes: Codes, seed: int) -> Share:
    r"""Estimate the share of wrong labels: the likeliest, less what validation records have.

    .. math:: \hat\pi = \arg\max_\pi \sum_i \log(1 - \pi + \pi e^{g_i})

    with ratios :math:`g` of a wrong label to a right one. Wrong labels that resemble their record
    hide, so each of several powers :math:`\gamma` in :math:`P(l | k, x) \propto p(l | x)^\gamma`
    is tried; the interval (95 %, bootstrap of both sides) spans all that explain the labels about
    as well.

    Parameters
    ----------
    shares, codes
        Log shares (n, C) of the classes, and labels (n,).
    null, null_codes
        Those of validation records (m, C), (m,).
    seed
        Of the bootstrap.
    """
    size = min(len(codes), _SAMPLE)
    if size == 0 or not len(null_codes):
        return Share(0.0, 0.0, 1.0)
    rng = np.random.default_rng([seed, 7])
    # In an order of their own: what is drawn does not depend on how records were given.
    order = np.lexsort((codes, shares[np.arange(len(codes)), codes]))
    chosen = order[np.sort(rng.choice(len(codes), size, replace=False))]
    tried: list[tuple[float, float, Array]] = []
    for power in _FOLLOWED:
        own = _gains(_followed_ratios(shares[chosen], codes[chosen], power))
        other = _gains(_followed_ratios(null, null_codes, power))
        first = rng.multinomial(size, np.full(size, 1.0 / size), _DRAWS)
        second = rng.multinomial(len(other), np.full(len(other), 1.0 / len(other)), _DRAWS)
        drawn = _GRID[(first @ own).argmax(axis=1)] - _GRID[(second @ other).argmax(axis=1)]
        total = own.sum(axis=0)
        best = float(_GRID[total.argmax()] - _GRID[other.sum(axis=0).argmax()])
        tried.append((float(total.max()), best, np.clip(drawn, 0.0, 1.0)))
    likely = [item for item in tried if item[0] > max(tried, key=lambda one: one[0])[0] - _DROP]
    low = min(float(np.quantile(drawn, 0.025)) for _, _, drawn in likely)
    high = max(*(float(np.quantile(drawn, 0.975)) for _, _, drawn in likely), _NONE / len(codes))
    # Where none may be wrong, the mean: the likeliest share is often none at all.
    value = float(np.mean([best if low > 0 else drawn.mean() for _, best, drawn in likely]))
    # No bootstrap of records says how uncertain models of few validation records are.
    doubt = _DOUBT * max(len(null_codes) ** -0.5 - FEWEST**-0.5, 0.0)
    low, high = max(low - doubt, 0.0), min(high + doubt, 1.0)
    return Share(min(max(value, low), high), low, high)


def share_contradicted(
    shares: Array, codes: Codes, null: Array, null_codes: Codes, seed: int
) -> float:
    """Estimate the largest share of labels that contradict what the records say of the classes.

    Where labels have few of a class, models take it for rare; where all records with its label have
    another one instead, that hides them. The shares of classes under which the records are
    likeliest (Saerens, Latinne and Decaestecker, Neural Computation 14, 2002) need no label.

    Parameters
    ----------
    shares, codes
        Log shares (n, C) of the classes by models of validation records alone, and labels (n,).
    null, null_codes
        Those of validation records (m, C), (m,).
    seed
        Of the draws.

    Returns
    -------
    float
        0 where draws of validation records are as far off.
    """
    if not len(codes) or not len(null_codes):
        return 0.0
    rng, size = np.random.default_rng([seed, 8]), min(len(codes), _SAMPLE)
    counts = np.bincount(null_codes, minlength=shares.shape[1]) + 0.5
    prior: Array = np.asarray(counts / counts.sum(), dtype=np.float64)
    drawn = [rng.integers(len(null_codes), size=size) for _ in range(_CONTRADICTED)]
    usual = max(_contradicted(null[rows], null_codes[rows], prior) for rows in drawn)
    observed = _contradicted(shares, codes, prior)
    return min(observed + usual, 1.0) if observed > usual else 0.0


def _contradicted(shares: Array, codes: Codes, prior: Array) -> float:
    """Half of the absolute differences of class shares by labels, and by the records alone."""
    likely, classes = shares - np.log(prior), prior
    for _ in range(_STEPS):
        scores = normed(likely + np.log(np.maximum(classes, 1e-12)))
        classes = np.asarray(np.exp(scores).mean(axis=0))
    listed = np.bincount(codes, minlength=len(classes)) / len(codes)
    return 0.5 * float(np.abs(listed - classes).sum())


def _followed_ratios(shares: Array, codes: Codes, power: float) -> Array:
    """Log ratios (n,) of a wrong label, where classes a record resembles are likelier ones."""
    rows, reach = np.arange(len(codes)), power * shares
    wrong = shares + reach[rows, codes][:, None]
    # Of a record of class k, the wrong label is one of the others.
    total = logsumexp(reach, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        rest_of = total + np.log(-np.expm1(np.minimum(reach - total, -1e-12)))
    wrong = wrong - rest_of
    wrong[rows, codes] = -np.inf
    return np.clip(logsumexp(wrong, axis=1) - shares[rows, codes], -LARGEST, LARGEST)


def _gains(ratios: Array) -> Array:
    """Log likelihoods (n, G) of the shares that are tried."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-_GRID), np.log(_GRID) + ratios[:, None])


def share_above(ratios: Array, null: Array) -> Share:
    r"""Share faulty only by ranks, with its 95 % interval: for faults of an unknown kind.

    .. math:: \hat\pi = 1 - \frac{\#\{g < q\} / n}{\#\{g^0 < q\} / m}

    with ``q`` the 80 % quantile of clean records (Storey, 2002). Faulty records that score below
    it are not counted.
    """
    return _above(ratios, null, _EDGE, _Z)


def share_of_discoveries(flagged: Flags, fdr: float) -> Share:
    """Share faulty by discoveries at a level, of which twice as many may be clean as expected."""
    size = len(flagged)
    part = float(flagged.mean()) if size else 0.0
    room = _Z * (part * (1.0 - part) / max(size, 1)) ** 0.5
    low = max((1.0 - 2.0 * fdr) * part - room, 0.0)
    return Share((1.0 - fdr) * part, low, min(part + max(room, _NONE / max(size, 1)), 1.0))


def surely_above(ratios: Array, null: Array) -> float:
    """Least share that is faulty only by ranks, of several quantiles that which says most.

    Few records that are far out are sure at a high quantile, many that are hardly so at a low one.
    """
    return max(_above(ratios, null, edge, _SURE).low for edge in _EDGES)


def _above(ratios: Array, null: Array, quantile: float, errors: float) -> Share:
    size, many = len(ratios), len(null)
    edge = float(np.quantile(null, quantile))
    # Half a record more on either side: none of few is no proof that there are none.
    sound = ((null < edge).sum() + 0.5) / (many + 1.0)
    kept = ((ratios < edge).sum() + 0.5) / (size + 1.0) / sound
    beyond = 1.0 - min(kept * sound, 1.0)
    error = (beyond * (1.0 - beyond) / size + sound * (1.0 - sound) / many) ** 0.5 / sound
    low, value, high = (min(max(1.0 - kept + k * error, 0.0), 1.0) for k in (-errors, 0.0, errors))
    return Share(value, low, min(max(high, _NONE / size), 1.0))
