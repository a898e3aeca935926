"""Features of pooled records whose mean differences distinguish samples.

The features depend on the records of all samples together, so they are the same for every way to
divide these records: statistics of all permutations are products of one matrix. Ranks and robust
scales bound what one odd value can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri, ndtri_exp

from ._check import Array, Index

Codes = npt.NDArray[np.int64]
Kind = Literal["largest", "sum", "by column"]

# Random waves, and their width in medians of the distance of two records.
_WAVES, _WIDTH = 96, 0.5
# Products of two columns, a random choice beyond.
_MOST_PAIRS = 3000
# Legendre polynomials of ranks, weighted as in the statistic of Anderson and Darling (1952).
_DEGREES = 8
# Features of a column that are linear in a score of it, and one of how often its values repeat.
_LINEAR = 3
# A value is frequent if so many records have it; fewer may be the same records in both samples.
_FREQUENT = 5
# Ranks beyond which tails are counted, on both sides.
_TAILS = np.array([0.8, 0.9, 0.95, 0.98, 0.99])
# Records of each block that features of several columns are computed of.
DEPTH = 20
RIDGE = 0.05
# Values whose features are computed together.
_AT_ONCE = 1 << 14
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Family:
    """Features that one statistic is made of.

    ``largest``: the largest standardised difference; ``sum``: the sum of squared differences;
    ``by column``: the largest of the sums of each column.
    """

    kind: Kind
    values: Array
    """Mean of each feature in each block of records (K, F), centred."""
    owners: Index | None = None
    """Column of each feature (F,), where it has one; those beyond the columns are of several."""
    names: Index | None = None
    """Pair of columns (F, 2), or class (F,), that a feature is of."""

    @property
    def deviations(self) -> Array:
        """Standard deviation of each feature (F,); none where only sums of them are scored."""
        return np.zeros(0) if self.kind == "sum" else self.values.std(axis=0, ddof=1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """How records are averaged: ``size`` in a row, each of its weight."""

    weights: Array
    size: int

    def mean(self, values: Array) -> Array:
        """Average values (n, F) that are centred first, block by block (K, F)."""
        masses = self.weights.reshape(-1, self.size)
        sums = np.einsum("ks,ksf->kf", masses, values.reshape(*masses.shape, -1))
        loads = masses.sum(axis=1)
        return (sums - np.outer(loads, sums.sum(axis=0) / loads.sum())) / self.size

    def thinned(self) -> tuple[Index, Blocks]:
        """Select the records of each block that joint features are computed of."""
        depth = min(self.size, DEPTH)
        rows = np.arange(0, len(self.weights), self.size)[:, None] + np.arange(depth)
        return rows.ravel(), Blocks(self.weights[rows.ravel()], depth)


def build_families(
    table: Array,
    weights: Array,
    codes: Codes | None,
    size: int,
    seed: int,
    gaps: int = 0,
    *,
    of_cells: bool = False,
) -> dict[str, Family]:
    """Compute the features of pooled records (n, d), n a multiple of the ``size`` of blocks.

    The last ``gaps`` columns say where values are missing. Where records stand for cells, it says
    nothing that values repeat.
    """
    rng = np.random.default_rng([seed, 1])
    blocks = Blocks(weights, size)
    families, scores = build_families_of_columns(table, blocks, of_cells)
    if gaps:
        # A family of their own: other columns are many, and their features more.
        width = int(table.shape[1])
        columns = np.arange(width - gaps, width, dtype=np.int64)
        families["missing"] = Family("largest", blocks.mean(table[:, columns]), columns)
    rows, thin = blocks.thinned()
    z = scores[rows]
    families["pair"] = _of_pairs(z, thin, rng)
    waves = _draw_waves(z, rng)
    families["waves"] = Family("sum", thin.mean(waves))
    if codes is not None:
        families |= _of_classes(z, waves, codes[rows], thin)
    return families


def build_families_of_columns(
    table: Array, blocks: Blocks, of_cells: bool = False
) -> tuple[dict[str, Family], Array]:
    """Compute features of single columns, and the normal scores of the records (n, d)."""
    n, d = table.shape
    means: list[Array] = []
    scores, squares, farthest = np.empty((n, d)), np.zeros(n), np.zeros(n)
    # Some columns at a time: the features of many records are large.
    step = max(1, _AT_ONCE // n)
    for start in range(0, d, step):
        columns = np.ascontiguousarray(table[:, start : start + step].T)
        far = robust(columns)
        squares += np.einsum("kn,kn->n", far, far)
        np.maximum(farthest, np.abs(far).max(axis=0), out=farthest)
        features = column_features(columns, of_cells=of_cells)
        scores[:, start : start + step] = features[..., 0].T
        means += _means_of_columns(features, blocks)
        del features
    if d > 1:
        # How far out a record is, as three more columns: what is odd in no single column.
        white = whiten(scores)
        several = [np.sqrt(squares), farthest, np.sqrt(np.einsum("nk,nk->n", white, white))]
        del white
        means += _means_of_columns(column_features(np.array(several), of_cells=True), blocks)
    columns = np.arange(len(means))
    location = np.hstack([values[:, :_LINEAR] for values in means])
    shape = np.hstack([values[:, _LINEAR : _LINEAR + _DEGREES] for values in means])
    tails = np.hstack([values[:, _LINEAR + _DEGREES :] for values in means])
    return {
        "mean": Family("largest", location, np.repeat(columns, _LINEAR)),
        "means": Family("sum", whiten(_standardise(location[:, : d * _LINEAR : _LINEAR]))),
        "shape": Family("by column", shape, np.repeat(columns, _DEGREES)),
        "tails": Family("largest", tails, np.repeat(columns, 2 * len(_TAILS))),
    }, scores


def _means_of_columns(features: Array, blocks: Blocks) -> list[Array]:
    """Average the features of columns (k, n, F), block by block: k of (K, F)."""
    k, n, count = features.shape
    means = blocks.mean(features.transpose(1, 0, 2).reshape(n, k * count))
    return list(means.reshape(len(means), k, count).swapaxes(0, 1))


def column_features(column: Array, *, of_cells: bool = False) -> Array:
    """Compute the features of columns (..., n): location and size, shape, tails (..., n, F)."""
    # Mid-ranks: ties, constants, heavy tails and units have no influence.
    ranks, repeats = _mid_ranks(column)
    features = np.empty((*column.shape, _LINEAR + _DEGREES + 2 * len(_TAILS)))
    # Ranks do not see how far out the farthest records are, nor that one sample is rounded or has
    # codes, and the other has not.
    is_frequent = repeats >= (np.inf if of_cells else max(_FREQUENT, 0.01 * column.shape[-1]))
    linear = _unit(
        np.stack([ndtri(ranks), robust(column), is_frequent.astype(np.float64)], axis=-2)
    )
    features[..., :_LINEAR] = linear.swapaxes(-1, -2)
    features[..., _LINEAR : _LINEAR + _DEGREES] = _legendre(2.0 * ranks - 1.0)
    features[..., -2 * len(_TAILS) : -len(_TAILS)] = ranks[..., None] > _TAILS
    features[..., -len(_TAILS) :] = ranks[..., None] < 1.0 - _TAILS
    return features


def _of_pairs(z: Array, blocks: Blocks, rng: np.random.Generator) -> Family:
    """Compute products of two columns: dependence."""
    j, k = np.triu_indices(z.shape[1])
    if len(j) > _MOST_PAIRS:
        chosen = rng.choice(len(j), _MOST_PAIRS, replace=False)
        j, k = j[chosen], k[chosen]
    return Family("largest", blocks.mean(z[:, j] * z[:, k]), names=np.stack([j, k], axis=1))


def _draw_waves(z: Array, rng: np.random.Generator) -> Array:
    """Compute random Fourier features of a Gaussian kernel (Rahimi and Recht, 2007)."""
    chosen = rng.choice(len(z), min(len(z), 400), replace=False)
    squares = np.zeros((len(chosen), min(len(chosen), 100)))
    for column in z[chosen].T:
        squares += (column[:, None] - column[: squares.shape[1]]) ** 2
    width = float(np.sqrt(np.median(squares[squares > 0]))) if (squares > 0).any() else 1.0
    phases = z @ (rng.standard_normal((z.shape[1], _WAVES)) / (width * _WIDTH))
    return np.column_stack([np.cos(phases), np.sin(phases)])


def _of_classes(z: Array, waves: Array, codes: Codes, blocks: Blocks) -> dict[str, Family]:
    """Compute shares of classes, their means, and what records do not predict of labels."""
    classes = int(codes.max()) + 1
    kinds = (codes[:, None] == np.arange(classes)).astype(np.float64)
    linear = np.column_stack([np.ones(len(z)), z])
    design = np.column_stack([linear, waves])
    gram = design.T @ design + 0.01 * len(z) * np.eye(design.shape[1])
    # Residuals of a ridge regression: labels that changed though the records did not.
    coefficients = cast("Array", np.linalg.solve(gram, design.T @ kinds))
    residuals = kinds - design @ coefficients
    renamed = (residuals[:, :, None] * linear[:, None, :]).reshape(len(z), -1)
    means = kinds.T @ z / np.maximum(kinds.sum(axis=0), 1.0)[:, None]
    within = (kinds[:, :, None] * (z[:, None, :] - means)).reshape(len(z), -1)
    families: dict[str, Family] = {}
    for single, several, values in (
        ("class", "classes", kinds), ("label", "labels", renamed), ("within", "withins", within),
    ):  # fmt: skip
        averages = blocks.mean(values)
        width = averages.shape[1] // classes
        owners = np.repeat(np.arange(classes), width)
        families[single] = Family("largest", averages, names=owners)
        families[several] = Family("sum", _standardise(averages))
    return families


def _mid_ranks(column: Array) -> tuple[Array, Array]:
    """Rank values along the last axis, equal ones by their mean rank, from 0 to 1; count these."""
    n = int(column.shape[-1])
    order = np.argsort(column, axis=-1, kind="stable")
    differs = np.diff(np.take_along_axis(column, order, -1), axis=-1) != 0
    # Where the ties of each value begin and end.
    edge = np.ones((*column.shape[:-1], 1), dtype=bool)
    places = np.arange(n)
    first = np.where(np.concatenate([edge, differs], axis=-1), places, 0)
    last = np.where(np.concatenate([differs, edge], axis=-1), places + 1, n)
    begin = np.maximum.accumulate(first, axis=-1)
    end = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    ranks, repeats = np.empty(column.shape), np.empty(column.shape)
    np.put_along_axis(ranks, order, (begin + end) / (2.0 * n), -1)
    np.put_along_axis(repeats, order, 1.0 * (end - begin), -1)
    return ranks, repeats


def robust(column: Array) -> Array:
    """Distances from the median in robust deviations, as logarithms beyond about three."""
    ordered = np.sort(column, axis=-1)
    places = np.array([0.25, 0.5, 0.75]) * (column.shape[-1] - 1)
    first = places.astype(np.intp)
    step = ordered[..., np.minimum(first + 1, column.shape[-1] - 1)] - ordered[..., first]
    low, middle, high = np.moveaxis(ordered[..., first] + (places - first) * step, -1, 0)[..., None]
    spread = (high - low) / 1.349
    if (spread == 0).any():
        deviation = column.std(axis=-1, keepdims=True)
        spread = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
    return np.asarray(3.0 * np.arcsinh((column - middle) / (3.0 * spread)))


def _unit(values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    spread = centred.std(axis=-1, keepdims=True)
    # Rounding of a constant column is no variation.
    size = np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1.0)
    varies = spread > TINY * size
    return np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)


def _legendre(t: Array) -> Array:
    degrees = np.arange(1, _DEGREES + 1)
    factors = np.sqrt((2 * degrees + 1) / (degrees * (degrees + 1)))
    values = cast("Array", np.polynomial.legendre.legvander(t, _DEGREES))
    return values[..., 1:] * factors


def _standardise(values: Array) -> Array:
    spread = values.std(axis=0)
    return np.where(spread > TINY, values / np.maximum(spread, TINY), 0.0)


def whiten(values: Array) -> Array:
    """Scale principal directions to variance 1, but for a ridge (Hotelling's statistic)."""
    n, d = values.shape
    if n < d:
        # Only n directions have any variance; those of the rows are the smaller problem.
        variances, scores = np.linalg.eigh(values @ values.T / n)
        variances = np.maximum(variances, 0.0)
        return scores * np.sqrt(n * variances / (variances + RIDGE))
    variances, directions = np.linalg.eigh(values.T @ values / n)
    return values @ (directions / np.sqrt(np.maximum(variances, 0.0) + RIDGE))


def sidak_count(like: Array) -> Array:
    """Return of how many independent normal values the largest |t| has the median of each column.

    Of values (B,) one number, of (B, k) k numbers.
    """
    median = np.minimum(log_ndtr(-_medians(like)) + math.log(2.0), -1e-12)
    return np.asarray(np.maximum(math.log(0.5) / np.log1p(-np.exp(median)), 1.0))


def _medians(values: Array) -> Array:
    """Compute medians along the first axis; np.median takes several times as long for few."""
    ordered = np.sort(values, axis=0)
    n = len(ordered)
    return np.asarray((ordered[(n - 1) // 2] + ordered[n // 2]) / 2.0)


def score_largest(t: Array, count: npt.ArrayLike) -> Array:
    r"""Turn largest |t| of a family into normal scores.

    As the largest of k independent normal values, :math:`P = 1 - (1 - 2 \Phi(-t))^k` (Sidak).
    """
    log_tail = np.minimum(log_ndtr(-t) + math.log(2.0), -1e-12)
    exponent = np.minimum(count * np.log1p(-np.exp(log_tail)), -1e-300)
    # Far out P is k times the tail, whose logarithm does not underflow.
    near = np.log(-np.expm1(exponent))
    far = log_tail < -30.0
    log_p = far * (log_tail + np.log(count)) + ~far * near
    return np.asarray(-ndtri_exp(np.minimum(log_p, -1e-12)))


def score_sums(sums: Array, like: Array | None = None) -> Array:
    """Turn sums of squares (B, k) into normal scores, column by column.

    Cube roots are nearly normal (Wilson and Hilferty, 1931). Each is standardised by the mean and
    spread of all others, which treats every permutation alike; or of others ``like`` them.
    """
    root = np.cbrt(sums)
    if like is not None:
        base = np.cbrt(like)
        return (root - base.mean(axis=0)) / np.maximum(base.std(axis=0), TINY)
    spread = root.std(axis=0)
    z = np.where(spread > TINY, (root - root.mean(axis=0)) / np.maximum(spread, TINY), 0.0)
    return z * np.sqrt((len(sums) - 2) / np.maximum(len(sums) - 1 - z**2, 1e-9))


def two_sided(scores: Array) -> Array:
    """Return the |t| (B,) whose two-sided tail is the upper tail of the scores."""
    tail = np.minimum(log_ndtr(-scores) - math.log(2.0), 0.0)
    return np.maximum(-ndtri_exp(tail), 0.0)


def p_value(scores: Array) -> float:
    """Return the share of scores (B + 1,) as large as the first, which is the observed one."""
    # Equal but for rounding is equal.
    return float((scores >= float(scores[0]) - 1e-9).mean())
