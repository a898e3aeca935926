"""From log likelihood ratios to flags, and to how many records are broken."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from silot_transport._check import Array

from ._arrays import Flags

FEWEST = 50
"""Validation records without which nothing is flagged, whatever the level."""

# Ratios that a likelihood is made of.
_SAMPLE = 1 << 12
# Shares that are tried.
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 0.95, 160)])
# Half the 95 % quantile of chi-squared with one degree of freedom.
_DROP = 1.92
# Quantile of sound records below which hardly any broken one scores.
_EDGE = 0.8
# A record that is more likely sound than so is not flagged by ranks alone.
_SOUND = 0.6


class Share(NamedTuple):
    """A share of records, with a 95 % interval."""

    value: float
    low: float
    high: float


def needed(fdr: float) -> int:
    """Fewest validation records (of equal weight) that flags at a level need.

    A conformal p-value is no smaller than ``1 / (m + 1)``, and the share of sound records among
    few flagged ones is known from few validation records beyond them.

    Examples
    --------
    >>> needed(0.1), needed(0.02)
    (50, 250)
    """
    return max(FEWEST, math.ceil(5.0 / fdr)) if fdr > 0 else 0


def share_broken(ratios: Array, null: Array | None = None) -> Share:
    r"""Share of broken records: the likeliest, and its profile interval.

    .. math:: \hat\pi = \arg\max_\pi \sum_i \log(1 - \pi + \pi e^{g_i})

    Parameters
    ----------
    ratios
        Log likelihood ratios :math:`g` (n,).
    null
        Those of sound records. The share that seems broken of them is taken off, for the ratios
        are only a model.
    """
    profile = _profile(ratios)
    if null is None or not len(null):
        return profile
    excess = _profile(null).value
    return Share(max(profile.value - excess, 0.0), max(profile.low - excess, 0.0), profile.high)


def _profile(ratios: Array) -> Share:
    stands = 1.0
    if len(ratios) > _SAMPLE:
        # Evenly spaced quantiles stand for all of them.
        stands = len(ratios) / _SAMPLE
        places = ((np.arange(_SAMPLE) + 0.5) * stands).astype(np.int64)
        ratios = np.sort(ratios)[places]
    gains = stands * np.array([_gain(ratios, share) for share in _GRID])
    likely = np.flatnonzero(gains > gains.max() - _DROP)
    # Between two points of the grid: the next one outside is the bound.
    low, high = max(likely[0] - 1, 0), min(likely[-1] + 1, len(_GRID) - 1)
    best = int(gains.argmax())
    return Share(float(_GRID[best]), float(_GRID[low]) if best else 0.0, float(_GRID[high]))


def _gain(ratios: Array, share: float) -> float:
    if share == 0.0:
        return 0.0
    return float(np.logaddexp(math.log1p(-share), math.log(share) + ratios).sum())


def share_above(ratios: Array, null: Array) -> Share:
    r"""Share broken by ranks alone, with its 95 % interval: for faults of an unknown kind.

    .. math:: \hat\pi = 1 - \frac{\#\{g < q\} / n}{\#\{g^0 < q\} / m}

    with ``q`` the 80 % quantile of sound records (Storey, 2002). Broken records that score below
    it are not counted.
    """
    size, many = len(ratios), len(null)
    edge = float(np.quantile(null, _EDGE))
    sound, observed = float((null < edge).mean()), float((ratios < edge).mean())
    if sound == 0.0:
        # Sound records are nearly all alike.
        return Share(0.0, 0.0, 1.0)
    kept = observed / sound
    # Relative errors of two binomial shares; only sound records vary.
    counted = max(kept * size, 1.0)
    error = kept * ((1 - sound) / sound * (1 / counted + 1 / many)) ** 0.5
    low, value, high = (min(max(1 - kept + k * error, 0.0), 1.0) for k in (-1.96, 0.0, 1.96))
    return Share(value, low, high)


def flag(ratios: Array, null: Array, fdr: float, share: float) -> Flags:
    r"""Flag records so that about ``fdr`` of the flagged ones are sound.

    The longest run of the most suspect records whose mean chance of being sound is at most
    ``fdr``, by the ratios and the likeliest share broken, as long as validation records agree:
    of them, so few have such ratios. Or, where validation records are many, the longest run with
    conformal p-values :math:`(1 + \#\{g^0 \ge g\}) / (1 + m)` after Benjamini and Hochberg.

    Parameters
    ----------
    ratios
        Log likelihood ratios (n,), of records that count.
    null
        Those of validation records, each compared with the others.
    fdr
        The level; 0 flags nothing.
    share
        Share broken, as far as known: the rest is sound and may score high by chance.

    Returns
    -------
    numpy.ndarray
        Flags (n,).

    Notes
    -----
    Conformal p-values for outliers: Bates et al., *Testing for outliers with conformal p-values*,
    Annals of Statistics, 2023.
    """
    size, many = len(ratios), len(null)
    if size == 0 or fdr <= 0 or many == 0:
        return np.zeros(size, dtype=np.bool_)
    likely = max(_profile(ratios).value, 1e-6)
    order, rank = np.argsort(-ratios, kind="stable"), np.arange(1, size + 1)
    odds = math.log(likely / (1.0 - likely)) + ratios[order]
    sound = 1.0 / (1.0 + np.exp(np.clip(odds, -30.0, 30.0)))
    above = many - np.searchsorted(np.sort(null), ratios[order], side="left")
    expected = (1.0 - share) * size / rank
    model = np.cumsum(sound) / rank
    agree = expected * above / many
    sure = np.where(sound <= _SOUND, expected * (1 + above) / (1 + many), np.inf)
    # Equal ratios are flagged together or not at all, whatever the order of records.
    is_last = np.append(np.diff(ratios[order]) < 0, True)
    by_model, by_null, by_rank = (
        int(rank[is_last & (rate <= fdr)].max(initial=0)) for rate in (model, agree, sure)
    )
    flags = np.zeros(size, dtype=np.bool_)
    flags[order[: max(min(by_model, by_null), by_rank)]] = True
    return flags


def flag_rare(chances: Array, fdr: float) -> Flags:
    """Flag records by the chance that a sound one is as odd (Benjamini and Hochberg, 1995).

    Examples
    --------
    >>> flag_rare(np.array([1e-4, 0.5, 0.9]), 0.1)
    array([ True, False, False])
    """
    order = np.argsort(chances, kind="stable")
    allowed = fdr * np.arange(1, len(chances) + 1) / max(len(chances), 1)
    passing = np.flatnonzero((chances[order] <= allowed) & (fdr > 0))
    most = chances[order[passing[-1]]] if len(passing) else -1.0
    return chances <= most
