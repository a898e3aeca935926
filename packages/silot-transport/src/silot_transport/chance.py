"""Distances of two samples from the same distribution: sampling noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ._check import Array, Index
from ._solvers import unit_cost
from .cost import cost_matrix
from .exact import plan_from_cost
from .resampling import FEWEST, Codes, mix, record_keys

Embed = Callable[[Array, Array, Codes], Array]

# Sizes of the two samples of a split: their geometric mean at most, and each of them.
_SPLIT, _LEAST_SIDE, _LARGEST_SIDE = 150, 5, 1000
_SPLITS = 6
# Without pooling, so many times the target's records are as good as infinitely many.
_MOST_TIMES = 4
# Standard error of the logarithm of a distance, for every doubling of the size beyond that of the
# splits; and where the distribution is known by as many records as one side has.
_RATE_ERROR, _TARGET_ERROR = 0.005, 0.02
_LEVEL = 0.95


@dataclass(frozen=True)
class Chance:
    """Distance of two samples from the same distribution, at the sizes of two sides."""

    mean: float
    """Mean distance."""
    spread: float
    """Standard deviation of the next distance around it, estimated from the splits."""
    error: float
    """Standard error of the mean that more splits would not reduce."""
    freedom: int
    """Degrees of freedom of ``spread``."""

    @property
    def distance(self) -> float:
        """Noise level: 95 % quantile of the next distance."""
        return self.mean + float(stdtrit(self.freedom, _LEVEL)) * math.hypot(
            self.spread, self.error
        )


def chance_law(
    own: tuple[Array, Array, Codes], target: tuple[Array, Array, Codes], between: Array | None,
    *, p: int = 2, matched: bool = False, pooled: bool = True, splits: int = _SPLITS,
    embed: Embed | None = None,
) -> Chance | None:  # fmt: skip
    """Estimate the mean, spread and error of sampling noise; see ``chance_distance``.

    ``embed`` maps points, masses and codes of a sample to coordinates, where those depend on all
    of the sample, as moments of classes do.
    """
    if min(1.0 / float(side[1] @ side[1]) for side in (own, target)) < FEWEST:
        return None
    part, sizes = _choose_sizes(len(own[0]), len(target[0]), pooled)
    if not pooled and sum(sizes) > len(target[0]):
        return None
    points, weights, codes = target[0], target[1] * len(target[0]), target[2]
    if pooled:
        points, codes = np.concatenate([own[0], points]), np.concatenate([own[2], codes])
        # A record weighs 1 on average on both sides, else those of the smaller side would weigh
        # more.
        weights = np.concatenate([own[1] * len(own[0]), weights])
    law = _Distribution(points, weights, codes, between, p, matched, embed)
    full, half = law.split(sizes, splits, halves=part < 1.0)
    distances = full ** (1.0 / p)
    mean = float(distances.mean())
    spread = math.sqrt(float(distances.var(ddof=1)) * (1.0 + 1.0 / splits))
    if part == 1.0 or mean == 0:
        return Chance(mean, spread, 0.0, splits - 1)
    # How often the size doubles beyond that of the splits, and by how much the distance falls then.
    doublings = -math.log2(part)
    fall, error = _estimate_fall(full, half, p)
    scale = 2.0 ** (-fall * doublings)
    error = math.hypot(error, _RATE_ERROR if pooled else _TARGET_ERROR) * doublings
    return Chance(mean * scale, spread * scale, mean * error * scale, splits - 1)


def chance_distance(
    own: tuple[Array, Array, Codes], target: tuple[Array, Array, Codes], between: Array | None,
    *, p: int = 2, matched: bool = False, pooled: bool = True,
) -> float | None:  # fmt: skip
    """Compute the 95 % quantile of the distance of two samples from the same distribution.

    Both sides are pooled and split at random, several times: distances of the splits are those of
    two samples from the pooled distribution. Their mean and standard errors give the quantile of
    the next distance, at the sizes of the two sides. Samples of more than 150 records are split at
    that size and at half of it, and the power of the size that fits both is extrapolated to the
    full one.

    Parameters
    ----------
    own, target
        Points, weights (none of them zero) and codes of labels of both sides.
    between
        Cost that the labels of two codes add (C, C); ``None`` without labels.
    p
        1 or 2.
    matched
        Whether the second side is weighted to the class proportions of the first, as a target
        is within its tolerance.
    pooled
        Whether the distribution is that of both sides together, else that of the target alone. The
        target has too few records for both samples: their sizes are smaller in proportion, and
        extrapolated to the full ones.

    Returns
    -------
    float or None
        ``None`` where one side has fewer than ten records by Kish's effective number.

    Notes
    -----
    A permutation test; the level holds for the next split, by Student's t of six of them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    >>> w, codes = np.full(40, 1 / 40), np.zeros(40, np.int64)
    >>> 0.3 < chance_distance((x, w, codes), (y, w, codes), None) < 0.8
    True
    """
    noise = chance_law(own, target, between, p=p, matched=matched, pooled=pooled)
    return None if noise is None else noise.distance


def _choose_sizes(own: int, target: int, pooled: bool) -> tuple[float, list[int]]:
    """Return the part of the records that a sample of a split has, and the sizes of both."""
    part = 1.0
    if not pooled:
        # Beyond several times as many, only the smaller number matters.
        own = min(own, _MOST_TIMES * target)
        part = target / (own + target)
    part = min(part, _SPLIT / math.sqrt(own * target))
    return part, [min(max(int(part * k), _LEAST_SIDE), k, _LARGEST_SIDE) for k in (own, target)]


def _estimate_fall(full: Array, half: Array, p: int) -> tuple[float, float]:
    """Return the power of the size that a distance falls by, and its error for each doubling."""
    ratio = half / float(full.mean())
    fall = math.log2(min(max(float(ratio.mean()), 1.0), 2.0)) / p
    spread = float((ratio - full / float(full.mean())).std(ddof=1)) / (math.log(2.0) * p)
    return fall, math.log(2.0) * spread / math.sqrt(len(full))


@dataclass(frozen=True, eq=False)
class _Distribution:
    """Records of one distribution, which are split at random into two samples."""

    cloud: Array
    weights: Array
    codes: Codes
    between: Array | None
    p: int
    matched: bool
    embed: Embed | None = None

    def split(self, sizes: list[int], splits: int, *, halves: bool) -> tuple[Array, Array]:
        """Compute costs between samples of these sizes and between halves of them, by split."""
        keys = record_keys(self.cloud, self.weights, self.codes)
        full, half = np.empty(splits), np.empty(splits)
        for k in range(splits):
            order = np.argsort(mix(keys, k + 1), kind="stable")[: sum(sizes)]
            first, second = order[: sizes[0]], order[sizes[0] :]
            cost = self._costs(first, second)
            full[k] = self._cost(cost, first, second)
            if halves:
                one, other = first[: sizes[0] // 2], second[: sizes[1] // 2]
                part = cost[: len(one), : len(other)]
                # Coordinates that depend on all of a sample differ for its half.
                part = part if self.embed is None else self._costs(one, other)
                half[k] = self._cost(part, one, other)
        return full, half

    def _costs(self, first: Index, second: Index) -> Array:
        x, y = (
            self.cloud[side] if self.embed is None
            else self.embed(self.cloud[side], self.weights[side], self.codes[side])
            for side in (first, second)
        )  # fmt: skip
        cost = cost_matrix(x, y, p=self.p)
        if self.between is not None:
            cost = cost + self.between[np.ix_(self.codes[first], self.codes[second])]
        return cost

    def _cost(self, cost: Array, first: Index, second: Index) -> float:
        sides = [(self.weights[side], self.codes[side]) for side in (first, second)]
        return _compute_cost(cost, *sides, matched=self.matched)


def _compute_cost(
    cost: Array, first: tuple[Array, Codes], second: tuple[Array, Codes], *, matched: bool
) -> float:
    a, b = first[0] / first[0].sum(), second[0] / second[0].sum()
    if matched:
        most = int(max(first[1].max(), second[1].max())) + 1
        goal, actual = (
            np.bincount(codes, w, minlength=most) for codes, w in ((first[1], a), (second[1], b))
        )
        ratio = np.divide(goal, actual, out=np.zeros(most), where=actual > 0)[second[1]]
        if float(b @ ratio) > 0:
            b = b * ratio / float(b @ ratio)
    if len(a) == len(b) and (a == a[0]).all() and (b == b[0]).all():
        # Most samples are uniform, and only the cost of their plans is needed.
        return max(unit_cost(cost), 0.0)
    return max(plan_from_cost(cost, a, b).cost, 0.0)
