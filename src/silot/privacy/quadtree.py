"""Counts of records in a quadtree over a public box: a sketch of two features without a sample."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from silot_transport._check import Array

from .cells import Cells, Codes
from .sketch import RESOLUTION, Decoded, simplex

# 4096 squares at the finest level, and 5460 noisy counts in all.
DEEPEST = 6
# Squares that hold fewer records than so many deviations of their noise are not parted.
_CLEAR = 2.0


def tree_sensitivity(depth: int, resolution: int = RESOLUTION) -> float:
    """Bound how far one record moves ``tree_counts``: it is counted once a level."""
    return resolution * depth**0.5


def tree_counts(
    points: Array,
    shares: Array,
    low: Array,
    high: Array,
    depth: int,
    resolution: int = RESOLUTION,
) -> Codes:
    """Count records by square, level by level, from 4 squares to ``4 ** depth``.

    Records outside the box count at its edge; one with a number that is not finite at the corner.

    Parameters
    ----------
    points, shares
        Records (n, 2), and what each counts for, 0..1.
    low, high
        Corners of the public box (2,).
    depth
        Levels.
    resolution
        Units a record counts for.

    Examples
    --------
    >>> import numpy as np
    >>> corners = np.array([[0.1, 0.1], [0.9, 0.9]])
    >>> tree_counts(corners, np.ones(2), np.zeros(2), np.ones(2), 1) // RESOLUTION
    array([1, 0, 0, 1])
    """
    side = 1 << depth
    with np.errstate(over="ignore", invalid="ignore"):
        # Single numbers alone: the square of a record depends on no other.
        places = np.nan_to_num((points - low) / (high - low), nan=0.0)
    finest = np.floor(np.clip(places, 0.0, 1.0) * side).astype(np.int64).clip(0, side - 1)
    count = np.floor(resolution * np.clip(shares, 0.0, 1.0)).astype(np.int64)
    levels: list[Codes] = []
    # The bits of a square begin with those of its parents, so all levels count one record alike.
    for level in range(1, depth + 1):
        rows = finest >> (depth - level)
        squares = np.zeros(4**level, dtype=np.int64)
        np.add.at(squares, (rows[:, 0] << level) + rows[:, 1], count)
        levels.append(squares)
    return np.concatenate(levels)


@dataclass(frozen=True, eq=False)
class Tree:
    """A quadtree with noise, in units of records.

    Attributes
    ----------
    levels
        Counts (2^l, 2^l) of each level.
    noise
        Standard deviation of the noise of one count.
    """

    levels: list[Array] = field(repr=False)
    noise: float

    @classmethod
    def of(cls, vector: Codes, depth: int, mu: float, resolution: int = RESOLUTION) -> Tree:
        """Read noisy ``tree_counts``."""
        ends = np.cumsum([4**level for level in range(1, depth + 1)])
        parts = np.split(np.asarray(vector, dtype=np.float64) / resolution, ends[:-1])
        levels = [part.reshape(1 << k + 1, 1 << k + 1) for k, part in enumerate(parts)]
        return cls(levels, tree_sensitivity(depth, resolution) / mu / resolution)

    def decode(self, cells: Cells) -> Decoded:
        """Estimate the measure: one atom at each finest square of ``cells``."""
        leaves = _reconcile(self.levels, self.noise)
        records = max(float(leaves.sum()), 1.0)
        weights = simplex(leaves.ravel() / records)
        return Decoded(cells.centres, weights[None], cells.covariance, records)


def tree_cells(low: Array, high: Array, depth: int, sample: Array) -> Cells:
    """Build cells of the finest squares; ``sample`` is a draw from the public distribution."""
    side = 1 << depth
    steps = (np.arange(side) + 0.5) / side
    width = (high - low) / side
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    counts = tree_counts(sample, np.ones(len(sample)), low, high, depth, 1)[-(side**2) :]
    # No record of a square is further from its centre than half the diagonal.
    radius = 0.5 * float(np.linalg.norm(width))
    return Cells(
        centres=low + grid * (high - low),
        radius=radius,
        radius2=2.0 * radius,
        weights=counts / len(sample),
        # The variance of a uniform distribution on the square.
        covariance=np.diag(width**2 / 12.0),
        drawn=True,
        fitted=False,
    )


def _coarsen(counts: Array) -> Array:
    half = len(counts) // 2
    return counts.reshape(half, 2, half, 2).sum(axis=(1, 3))


def _refine(counts: Array) -> Array:
    return np.repeat(np.repeat(counts, 2, axis=0), 2, axis=1)


def _reconcile(levels: list[Array], noise: float) -> Array:
    """Fit counts of the finest level that add up, by least squares from leaves to root and back.

    Hay et al., *Boosting the Accuracy of Differentially Private Histograms Through Consistency*,
    2010, with squares that noise drowns shared out evenly.
    """
    up = [levels[-1]]
    for height, own in enumerate(reversed(levels[:-1]), start=2):
        more, less = 4.0**height, 4.0 ** (height - 1)
        # The weights minimise the variance of a square's own count and the sum of those below it.
        up.insert(0, ((more - less) * own + (less - 1.0) * _coarsen(up[0])) / (more - 1.0))
    down = up[0]
    for below in up[1:]:
        # What parents have more than their squares is shared equally: all four are as noisy.
        parted = below + _refine(down - _coarsen(below)) / 4.0
        clear = _refine(down) > _CLEAR * noise
        down = np.where(clear, parted, _refine(np.maximum(down, 0.0)) / 4.0)
    return down
