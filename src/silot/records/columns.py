"""Values that are too far out in one column, with control for how many columns there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, hypergeom

from silot_transport._check import Array

from ._arrays import Codes, Flags, blocks

# Distinct values without which a column has no tail.
_FEW = 5
# Validation values of a tail: a tenth, and at least so many.
_PART, _LEAST = 10, 10
# Beyond so many quartile ranges from the median to a hundredth of the values a tail is far.
_WIDE = 4.0
# The narrowest tail, in standard deviations: the next step of a scale of few steps is not far out.
_NARROWEST = 0.3
# How many values a light tail is worth, the heaviest tail, and the lightest one.
_PRIOR, _HEAVIEST, _LIGHTEST = 20, 1.0, 0.02
# The chance that any column of clean records seems crowded, and the farthest values that are
# counted in it: all beyond the first, the third, and a twentieth.
_LEVEL, _FARTHEST = 0.01, (0, 2, 20)
# Ends of the ranges that holders are aligned by, and records without which nothing is known of a
# holder as a whole.
_REACHES, _FEWEST = (0.25, 0.15, 0.1), 20
# How many times too small a chance may be.
_DOUBT = 5.0
# Part of the level at which values are discovered in columns that are not crowded: sound tails are
# heavier than any model of them.
_BESIDE = 0.05
# The share of records that is faulty in a column of which nothing is known.
RARE = 1e-3
# A tail is fitted to so many validation records at most: more cost memory and say little more.
_MOST = 5000


@dataclass(frozen=True)
class Tails:
    """How far out clean values of each column lie: a generalised Pareto tail on each side.

    Attributes
    ----------
    edge, scale, shape
        Of the larger and of the smaller values (2, d): where tails begin, how wide they are and how
        heavy. The scale of a column of few values is infinite: nothing is far out in it.
    mass
        Share of the validation values beyond an edge.
    ordered
        Validation values, column by column in order (m, d), as ``level`` has them.
    middle, width
        Median and quartile range (d,) of columns with far tails; elsewhere the width is infinite.
    """

    edge: Array = field(repr=False)
    scale: Array = field(repr=False)
    shape: Array = field(repr=False)
    mass: float
    ordered: Array = field(repr=False)
    middle: Array = field(repr=False)
    width: Array = field(repr=False)

    @classmethod
    def of(cls, points: Array) -> Self:
        """Fit tails by probability-weighted moments (Hosking and Wallis, 1987).

        Shapes are shrunk towards a light tail, and are larger by their standard error.
        """
        ordered = np.sort(points[:: -(-len(points) // _MOST)], axis=0)
        low, first, middle, last, high = np.quantile(ordered, [0.01, 0.25, 0.5, 0.75, 0.99], axis=0)
        is_far = np.maximum(high - middle, middle - low) > _WIDE * (last - first)
        width = np.where(is_far & (last > first), last - first, np.inf)
        ordered = _level(ordered, middle, width)
        size = len(ordered)
        kept = min(max(_LEAST, size // _PART), size - 1)
        several = 1 + (np.diff(ordered, axis=0) > 0).sum(axis=0) >= _FEW
        edges, scales, shapes = [], [], []
        least = _NARROWEST * ordered.std(axis=0)
        weight = (kept - np.arange(1, kept + 1) + 0.35)[:, None] / kept
        for signed in (ordered, -ordered[::-1]):
            edge = signed[size - kept - 1]
            excess = signed[size - kept :] - edge
            mean, low = excess.mean(axis=0), (excess * weight).mean(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                shape = 2.0 - mean / np.maximum(mean - 2.0 * low, 1e-3 * mean)
            shape = np.nan_to_num(shape) * kept / (kept + _PRIOR) + 0.5 / kept**0.5
            shape = np.clip(shape, _LIGHTEST, _HEAVIEST)
            edges.append(edge)
            wide = np.maximum(mean * (1.0 - np.minimum(shape, 0.9)), least)
            scales.append(np.where(several & (wide > 0), wide, np.inf))
            shapes.append(shape)
        tails = np.array(edges), np.array(scales), np.array(shapes)
        return cls(*tails, kept / size, ordered, middle, width)

    def level(self, points: Array, here: slice) -> Array:
        """Values of columns (n, c) on a scale whose tails a model fits: logs of those far out."""
        return _level(points, self.middle[here], self.width[here])

    def chances(self, points: Array, here: slice) -> Array:
        """Chance (2, n, c) that a clean value, as ``level`` has it, is as large, and as small."""
        both = np.empty((2, *points.shape))
        for side, sign in enumerate((1.0, -1.0)):
            beyond = sign * points - self.edge[side, here]
            far = np.maximum(beyond, 0.0) / self.scale[side, here]
            shape = self.shape[side, here]
            tail = self.mass * (1.0 + shape * far) ** (-1.0 / shape)
            both[side] = np.where((beyond > 0) & np.isfinite(self.scale[side, here]), tail, 1.0)
        return both

    def farthest(self, points: Array) -> Array:
        """Chance (n, d) that a clean value is as far out on either side of a column."""
        every = slice(0, points.shape[1])
        return np.minimum(2.0 * self.chances(self.level(points, every), every).min(axis=0), 1.0)


def _level(points: Array, middle: Array, width: Array) -> Array:
    # No Pareto tail that a few values tell is as heavy as that of a lognormal column.
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(width), np.arcsinh((points - middle) / width), points)


def aligned(points: Array, own: Array, sound: Array) -> Array:
    """Values (n, c) if their holder had the median and the ranges of validation values (m, c).

    What is far out there too is no difference between the two as a whole. Of several ranges the
    one that is like the validation values' counts: faults widen the outer ones, and steps of a
    scale the inner ones.

    Parameters
    ----------
    points
        Values.
    own
        Those of the holder's records that count (k, c).
    sound
        Validation values.
    """
    if len(own) < _FEWEST:
        return points
    middle, centre = np.median(own, axis=0), np.median(sound, axis=0)
    ratio = np.zeros(points.shape[1])
    for reach in _REACHES:
        low, high = np.quantile(own, [reach, 1.0 - reach], axis=0)
        first, last = np.quantile(sound, [reach, 1.0 - reach], axis=0)
        wide = np.maximum(high - low, 1e-300)
        ratio = np.maximum(ratio, np.where(high > low, (last - first) / wide, 0.0))
    return (points - middle) * np.where(ratio > 0, ratio, 1.0) + centre


class OddValues(NamedTuple):
    """What single columns say of n records.

    ``odds`` are log odds that a record is faulty in its farthest column, ``sound`` those of
    validation records; ``flagged`` the discoveries; ``column`` the farthest one, -1 if none is.
    """

    odds: Array
    sound: Array
    flagged: Flags
    column: Codes

    def of(self, whose: npt.NDArray[np.intp]) -> OddValues:
        """Return what is said of records that these are copies of."""
        return self._replace(
            odds=self.odds[whose], flagged=self.flagged[whose], column=self.column[whose]
        )


def odd_values(tails: Tails, validation: Array, points: Array, fdr: float) -> OddValues:
    r"""Judge each value by its column alone, and by what its holder's other values are.

    A chance ``p`` is evidence of :math:`1 / (2 \sqrt p)` at most. In a column beyond whose
    farthest validation values more of the holder's lie than by lot (hypergeometric, at 1 % for all
    columns together), values are discovered among themselves (Benjamini and Hochberg), and their
    share is the prior; in all others they pay for how many columns there are.

    Parameters
    ----------
    tails
        Of the validation records.
    validation, points
        Records (m, d) and (n, d), n at least 1.
    fdr
        Share of the discoveries that may be clean.
    """
    size, width = points.shape
    many = 2 * max(int(np.isfinite(tails.scale).any(axis=0).sum()), 1)
    odds, sound = np.full(size, np.log(RARE)), np.full(len(validation), np.log(RARE))
    flagged, column = np.zeros(size, dtype=np.bool_), np.full(size, -1, dtype=np.int64)
    least = np.ones(size)
    for here in _columns(size + len(validation), width):
        own = tails.level(points[:, here], here)
        moved = aligned(own, own, tails.ordered[:, here])
        chances = np.maximum(tails.chances(own, here), tails.chances(moved, here))
        null = tails.chances(tails.level(validation[:, here], here), here)
        inside = np.minimum(own, moved), np.maximum(own, moved)
        beyond = [
            _crowded(tails.ordered[:, here], inside[0]),
            _crowded(-tails.ordered[::-1, here], -inside[1]),
        ]
        # By how many there are, or by how far out they are.
        crowd = 2.0 * np.minimum(np.stack(beyond), _far(chances))
        for side, place in np.argwhere(crowd * many <= _LEVEL).tolist():
            those = discoveries(chances[side, :, place], fdr)
            flagged |= those
            reached = chances[side, those, place].max(initial=0.0)
            common = max(float(those.mean()), RARE)
            # What is no discovery there keeps the rare share, and pays for no other column.
            for kind, values in ((odds, chances[side, :, place]), (sound, null[side, :, place])):
                prior = np.log(np.where(values <= reached, common, RARE))
                np.maximum(kind, prior + worth(values), out=kind)
        nearest = chances.min(axis=0)
        better = nearest.min(axis=1) < least
        least = np.where(better, nearest.min(axis=1), least)
        column[better] = here.start + nearest[better].argmin(axis=1)
        odds = np.maximum(odds, np.log(RARE) + worth(np.minimum(many * nearest.min(axis=1), 1.0)))
        usual = np.minimum(many * null.min(axis=(0, 2)), 1.0)
        sound = np.maximum(sound, np.log(RARE) + worth(usual))
    flagged |= discoveries(np.minimum(many * least, 1.0), _BESIDE * fdr)
    return OddValues(odds, sound, flagged, column)


def _columns(rows: int, width: int) -> Iterator[slice]:
    """Columns in blocks whose values, on both sides and aligned, fit."""
    return blocks(width, 4 * rows)


def worth(chances: Array) -> Array:
    """The log evidence against a chance."""
    return np.log(0.5) - 0.5 * np.log(np.maximum(chances, 1e-300))


def _crowded(ordered: Array, points: Array) -> Array:
    """Chance (c,) that this many records lie beyond the farthest validation values by lot.

    ``ordered`` are validation values (m, c), rising.
    """
    size, many = len(ordered), len(points)
    least = np.ones(points.shape[1])
    for rank in {*_FARTHEST[:2], max(9, size // _FARTHEST[2])}:
        kept = min(rank, size - 1)
        beyond = (points > ordered[size - 1 - kept]).sum(axis=0)
        by_lot = hypergeom.sf(beyond - 1, size + many, many, beyond + kept)
        least = np.minimum(least, len(_FARTHEST) * by_lot)
    return least


def _far(chances: Array) -> Array:
    """Chance (2, c) that this many values of a column (2, n, c) are as far out.

    As by Berk and Jones, 1979. Chances count several times: no model of a tail is exact.
    """
    size = chances.shape[1]
    ranks = np.arange(1, size + 1)[:, None]
    likely = np.minimum(_DOUBT * np.sort(chances, axis=1), 1.0)
    by_lot = np.asarray(binom.sf(ranks - 1, size, likely))
    # The ranks are tried in turn; so many of them are as good as independent.
    return np.minimum(by_lot.min(axis=1) * (1.0 + np.log2(size)), 1.0)


def discoveries(chances: Array, fdr: float) -> Flags:
    """Flag records by the chance that a clean one is as odd (Benjamini and Hochberg, 1995).

    Examples
    --------
    >>> discoveries(np.array([1e-4, 0.5, 0.9]), 0.1)
    array([ True, False, False])
    """
    order = np.argsort(chances, kind="stable")
    allowed = fdr * np.arange(1, len(chances) + 1) / max(len(chances), 1)
    passing = np.flatnonzero((chances[order] <= allowed) & (fdr > 0))
    most = chances[order[passing[-1]]] if len(passing) else -1.0
    return chances <= most
