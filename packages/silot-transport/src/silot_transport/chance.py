"""How far apart two samples of one law are by chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ._assignment import unit_cost
from ._check import Array
from ._solution import Index
from .cost import cost_matrix
from .exact import plan_from_cost
from .resampling import FEWEST, Codes, mixed, record_keys

Embed = Callable[[Array, Array, Codes], Array]

_SPLIT = 150
"""Geometric mean of the sizes of the two sides that chance is tried on, at most."""
_LARGEST_SIDE = 1000
_SPLITS = 6
_LEAST_SIDE = 5
_MOST_TIMES = 4
# Of the logarithm of a distance, for every doubling of the size beyond what was tried.
_RATE_ERROR = 0.005
# The same where the law is known by as many records as one side has.
_TARGET_ERROR = 0.02
_LEVEL = 0.95


@dataclass(frozen=True)
class Chance:
    """What the distance of two samples of one law is, at some sizes.

    Attributes
    ----------
    mean
        On average.
    spread
        Standard deviation of the next one around it, as far as the splits seen tell.
    error
        Standard error of the mean that more splits would not take away.
    freedom
        Degrees of freedom of ``spread``.
    """

    mean: float
    spread: float
    error: float
    freedom: int

    @property
    def distance(self) -> float:
        """What the next distance stays below in 95 % of cases."""
        return self.mean + float(stdtrit(self.freedom, _LEVEL)) * math.hypot(
            self.spread, self.error
        )


def chance_law(
    own: tuple[Array, Array, Codes], target: tuple[Array, Array, Codes], between: Array | None,
    *, p: int = 2, matched: bool = False, pooled: bool = True, splits: int = _SPLITS,
    embed: Embed | None = None,
) -> Chance | None:  # fmt: skip
    """What ``chance_distance`` stands on: mean, spread and error of what chance makes.

    ``embed`` makes coordinates of the points, masses and codes of a sample, where those depend on
    the sample as a whole: those of its classes do.
    """
    if min(1.0 / float(side[1] @ side[1]) for side in (own, target)) < FEWEST:
        return None
    part, tried = _tried(len(own[0]), len(target[0]), pooled)
    if not pooled and sum(tried) > len(target[0]):
        return None
    points, weights, codes = target[0], target[1] * len(target[0]), target[2]
    if pooled:
        points, codes = np.concatenate([own[0], points]), np.concatenate([own[2], codes])
        # Weights of one record on average, or the smaller side's would outweigh the other's.
        weights = np.concatenate([own[1] * len(own[0]), weights])
    law = _Law(points, weights, codes, between, p, matched, embed)
    full, half = law.split(tried, splits, halves=part < 1.0)
    distances = full ** (1.0 / p)
    mean = float(distances.mean())
    spread = math.sqrt(float(distances.var(ddof=1)) * (1.0 + 1.0 / splits))
    if part == 1.0 or mean == 0:
        return Chance(mean, spread, 0.0, splits - 1)
    # How often the size doubles beyond what was tried, and by what the distance falls then.
    doublings = -math.log2(part)
    fall, error = _fall(full, half, p)
    scale = 2.0 ** (-fall * doublings)
    error = math.hypot(error, _RATE_ERROR if pooled else _TARGET_ERROR) * doublings
    return Chance(mean * scale, spread * scale, mean * error * scale, splits - 1)


def chance_distance(
    own: tuple[Array, Array, Codes], target: tuple[Array, Array, Codes], between: Array | None,
    *, p: int = 2, matched: bool = False, pooled: bool = True,
) -> float | None:  # fmt: skip
    r"""Distance that two samples of one law stay below in 95 % of cases, at the sizes given.

    Both sides are put together and split at random, again and again: the law of these distances
    is that of two samples of the pooled law. What is returned is their mean and the standard
    errors that make the next one lie below with that probability. Samples of more than 150 records
    are tried at that size and half of it, and the power of the size that fits both is followed
    to the full one.

    Parameters
    ----------
    own, target
        Points, weights (none of them zero) and codes of labels of both sides.
    between
        What the labels of two codes add to the cost (C, C); ``None`` without labels.
    p
        1 or 2.
    matched
        Whether the second side is weighted to have the class proportions of the first, as a
        target is within its tolerance.
    pooled
        Whether the one law is that of both sides together; else that of the target alone, of
        which there are too few records for both: sizes are smaller in proportion, and followed
        to the full ones.

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
    law = chance_law(own, target, between, p=p, matched=matched, pooled=pooled)
    return None if law is None else law.distance


def _tried(own: int, target: int, pooled: bool) -> tuple[float, list[int]]:
    """The part of the records that chance is tried on, and how many of each side that is."""
    part = 1.0
    if not pooled:
        # Beyond some times as many, it is the number of the fewer that counts.
        own = min(own, _MOST_TIMES * target)
        part = target / (own + target)
    part = min(part, _SPLIT / math.sqrt(own * target))
    return part, [min(max(int(part * k), _LEAST_SIDE), k, _LARGEST_SIDE) for k in (own, target)]


def _fall(full: Array, half: Array, p: int) -> tuple[float, float]:
    """Power of the size by which a distance falls, and the error of its logarithm a doubling."""
    ratio = half / float(full.mean())
    fall = math.log2(min(max(float(ratio.mean()), 1.0), 2.0)) / p
    spread = float((ratio - full / float(full.mean())).std(ddof=1)) / (math.log(2.0) * p)
    return fall, math.log(2.0) * spread / math.sqrt(len(full))


@dataclass(frozen=True, eq=False)
class _Law:
    """Records of one law, that are split at random into two samples."""

    cloud: Array
    weights: Array
    codes: Codes
    between: Array | None
    p: int
    matched: bool
    embed: Embed | None = None

    def split(self, sizes: list[int], splits: int, *, halves: bool) -> tuple[Array, Array]:
        """Costs between samples of these sizes, split by split, and between halves of these."""
        keys = record_keys(self.cloud, self.weights, self.codes)
        full, half = np.empty(splits), np.empty(splits)
        for k in range(splits):
            order = np.argsort(mixed(keys, k + 1), kind="stable")[: sum(sizes)]
            first, second = order[: sizes[0]], order[sizes[0] :]
            cost = self._costs(first, second)
            full[k] = self._cost(cost, first, second)
            if halves:
                few, least = first[: sizes[0] // 2], second[: sizes[1] // 2]
                part = cost[: len(few), : len(least)]
                half[k] = self._cost(part if self.embed is None else self._costs(few, least),
                                     few, least)  # fmt: skip
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
        return _split_cost(cost, *sides, matched=self.matched)


def _split_cost(
    cost: Array, first: tuple[Array, Codes], second: tuple[Array, Codes], *, matched: bool
) -> float:
    a, b = first[0] / first[0].sum(), second[0] / second[0].sum()
    if matched:
        most = int(max(first[1].max(), second[1].max())) + 1
        there = np.bincount(second[1], b, minlength=most)
        wanted = np.bincount(first[1], a, minlength=most)
        ratio = np.divide(wanted, there, out=np.zeros(most), where=there > 0)[second[1]]
        if float(b @ ratio) > 0:
            b = b * ratio / float(b @ ratio)
    if len(a) == len(b) and (a == a[0]).all() and (b == b[0]).all():
        # Most samples are such, and nobody looks at their plans.
        return max(unit_cost(cost), 0.0)
    return max(plan_from_cost(cost, a, b).cost, 0.0)
