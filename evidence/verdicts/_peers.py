"""Two-sample tests of others, written small, each from its paper.

All receive the same columns: labels as one-hot columns, missing values as the median and an
indicator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import chi2_contingency, ks_2samp
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances

from evidence.common import Array
from evidence.verdicts._changes import Pair

PERMUTATIONS = 199
# Bandwidths, in medians of the distance of two records.
_BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
_DISCRETE = 10
_TREES = 100


def encode(pair: Pair) -> tuple[Array, int]:
    """Pool the records of a pair, standardised; also the number of the first sample."""
    table = np.concatenate([pair.x, pair.y])
    gaps = np.isnan(table)
    table = np.where(gaps, np.nanmedian(table, axis=0), table)
    parts = [table, gaps[:, gaps.any(axis=0)].astype(np.float64)]
    if pair.x_labels is not None and pair.y_labels is not None:
        labels = np.concatenate([pair.x_labels, pair.y_labels])
        parts.append((labels[:, None] == np.unique(labels)).astype(np.float64))
    columns = np.hstack(parts)
    spread = columns.std(axis=0)
    columns = columns[:, spread > 0]
    return (columns - columns.mean(axis=0)) / columns.std(axis=0), len(pair.x)


def kolmogorov_smirnov_p(table: Array, first: int) -> float:
    """Test each column, and multiply the smallest p-value by their number (Bonferroni).

    Kolmogorov and Smirnov's test of numbers and Pearson's chi-squared test of few values, as
    Rabanser, Günnemann and Lipton (*Failing loudly*, 2019) use them.
    """
    p_values: list[float] = []
    for column in table.T:
        values, codes = np.unique(column, return_inverse=True)
        if len(values) > _DISCRETE:
            p_values.append(float(ks_2samp(column[:first], column[first:], method="asymp").pvalue))
        else:
            counts = [np.bincount(side, minlength=len(values)) for side in np.split(codes, [first])]
            p_values.append(float(chi2_contingency(np.array(counts), correction=False)[1]))
    return min(1.0, min(p_values) * len(p_values))


def _divisions(count: int, first: int, rng: np.random.Generator) -> Array:
    """Draw weights of means (B + 1, n) of both sides, the observed division first."""
    signs = np.full((PERMUTATIONS + 1, count), -1.0 / (count - first))
    signs[:, :first] = 1.0 / first
    signs[1:] = rng.permuted(signs[1:], axis=1)
    return signs


def _quadratic(signs: Array, matrix: Array) -> Array:
    return np.einsum("bi,bi->b", signs @ matrix, signs)


def energy_p(table: Array, first: int, rng: np.random.Generator) -> float:
    """Permutation test of the energy distance (Székely and Rizzo, 2004)."""
    values = _quadratic(_divisions(len(table), first, rng), -euclidean_distances(table))
    return float(np.mean(values >= values[0] - 1e-12))


def aggregated_kernel_p(table: Array, first: int, rng: np.random.Generator) -> float:
    """Permutation test of the largest normalised MMD of several bandwidths.

    Gretton and others (2012) for the statistic; Biggs, Schrab and Gretton (2023) for bandwidths
    that are compared after division by their spread over permutations.
    """
    squared = euclidean_distances(table, squared=True)
    middle = float(np.median(squared[squared > 0]))
    signs = _divisions(len(table), first, rng)
    scores: list[Array] = []
    for bandwidth in _BANDWIDTHS:
        kernel = np.exp(-squared / (2.0 * middle * bandwidth**2))
        np.fill_diagonal(kernel, 0.0)
        values = _quadratic(signs, kernel)
        scores.append((values - values.mean()) / max(float(values.std()), 1e-12))
    largest = np.max(scores, axis=0)
    return float(np.mean(largest >= largest[0] - 1e-12))


def forest_score(table: Array, first: int, seed: int) -> float:
    """Compute how well out-of-bag votes of a random forest tell the samples apart (AUC)."""
    sides = np.arange(len(table)) >= first
    forest = RandomForestClassifier(_TREES, oob_score=True, random_state=seed).fit(table, sides)
    votes = np.nan_to_num(np.asarray(forest.oob_decision_function_)[:, 1], nan=0.5)
    return float(roc_auc_score(sides, votes))


def forest_limit(scores: Sequence[float], level: float) -> float:
    """Compute the score that samples of one distribution exceed at the level.

    Hediger, Michel and Näf (*On the use of random forest for two-sample testing*, 2022) refit
    forests on permuted sides; here refits on divisions of unchanged records of all tables count.
    """
    return float(np.quantile(scores, 1.0 - level))
