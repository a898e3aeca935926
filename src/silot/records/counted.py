"""How many records are faulty, from how many there are in a few bins of suspicion, with noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from silot_transport._check import Array

from ._arrays import Codes
from .flips import even_swaps, labels_of
from .screen import Screen

# Shares of clean records above an edge: more edges tell more, and bring more noise.
_ABOVE = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005])
# Clean records above the last edge: fewer say nothing of a share.
_BEYOND = 3.0
# Half the 95 % quantile of chi-squared with one degree of freedom, doubled for squares.
_DROP = 3.84
_Z = 1.96
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 241)])


class Number(NamedTuple):
    """A number of records, with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bins:
    """Bins of log likelihood ratios, and what shares of public records lie in them."""

    edges: Array = field(repr=False)
    """Rising (B - 1,): a ratio lies in the bin of its place among them."""
    sound: Array
    """Shares (B,) of clean records."""
    broken: Array | None
    """Shares (B,) of faulty records; ``None`` where faults may be of any kind."""
    size: float
    """How many records of equal weight the shares are known from."""

    @classmethod
    def of_features(cls, screen: Screen) -> Self:
        """Bins of the ratios of features."""
        return cls._of(screen.sound_features, screen.weights, None, screen.size)

    @classmethod
    def of_labels(cls, screen: Screen) -> Self:
        """Bins of the ratios of labels: of the right ones, and of all others in their place."""
        swaps, classes, codes = even_swaps(screen.classes), screen.classes, screen.codes
        right = labels_of(screen.shares, codes, swaps)
        wrong = [
            labels_of(screen.shares, (codes + step) % classes, swaps) for step in range(1, classes)
        ]
        return cls._of(right, screen.weights, np.array(wrong), screen.size)

    @classmethod
    def _of(cls, sound: Array, weights: Array, broken: Array | None, size: float) -> Self:
        order = np.argsort(-sound, kind="stable")
        above = np.cumsum(weights[order])
        tried = _ABOVE[_ABOVE * size >= _BEYOND]
        places = np.minimum(np.searchsorted(above, tried), len(above) - 1)
        edges = np.unique(sound[order][places])
        bins = cls(edges, np.zeros(0), None, size)
        shares = bins.count(sound, weights)
        if broken is None:
            return cls(edges, shares, None, size)
        masses = np.tile(weights / len(broken), len(broken))
        return cls(edges, shares, bins.count(broken.ravel(), masses), size)

    def places(self, ratios: Array) -> Codes:
        """The bin of each ratio (n,)."""
        return places_of(ratios, self.edges)

    def count(self, ratios: Array, masses: Array) -> Array:
        """Mass in every bin (B,)."""
        totals = np.bincount(self.places(ratios), masses, minlength=len(self.edges) + 1)
        return totals.astype(np.float64)

    def estimate(self, counts: Array, noise: float) -> Number:
        """Return how many of the records in these bins are faulty.

        Parameters
        ----------
        counts
            Records in every bin (B,), with noise: they may be negative.
        noise
            Its standard deviation in each.
        """
        records = max(float(counts.sum()), 1.0)
        if self.broken is None:
            return self._above(counts, noise, records)
        return self._mixed(counts, noise, records, self.broken)

    def _mixed(self, counts: Array, noise: float, records: float, broken: Array) -> Number:
        r"""The share that explains counts best, with its profile interval.

        .. math:: \min_\pi \sum_b \frac{(N_b - n f_b)^2}{v_b} + \log v_b,
                  \quad f = (1 - \pi) f^0 + \pi f^1

        the variance v being that of a count, of the noise, and of public shares.
        """
        misses = np.empty(len(_GRID))
        for k, share in enumerate(_GRID.tolist()):
            mixed = (1.0 - share) * self.sound + share * broken
            variance = (1.0 - share) ** 2 * self.sound + share**2 * broken
            spread = records * mixed + noise**2 + records**2 * variance / self.size
            spread = np.maximum(spread, 1e-9)
            size = float((counts * mixed / spread).sum() / (mixed**2 / spread).sum())
            misses[k] = float(((counts - size * mixed) ** 2 / spread + np.log(spread)).sum())
        likely = np.flatnonzero(misses <= misses.min() + _DROP)
        best = int(misses.argmin())
        # Between two points of the grid: the next one outside is the bound.
        low = _GRID[max(likely[0] - 1, 0)] if best else 0.0
        high = _GRID[min(likely[-1] + 1, len(_GRID) - 1)]
        return Number(*(records * float(share) for share in (_GRID[best], low, high)))

    def _above(self, counts: Array, noise: float, records: float) -> Number:
        """Return what clean records do not explain of those above an edge (``share_above``)."""
        below = self._below
        sound = float(self.sound[:below].sum())
        if sound <= 0.0:
            return Number(0.0, 0.0, records)
        kept = float(counts[:below].sum())
        # Of the count itself, of the public share, and of the noise on either side of the edge.
        error = (
            (1.0 - sound) / sound * max(kept, 0.0)
            + (kept / sound) ** 2 * (1.0 - sound) / sound / self.size
            + noise**2 * ((1.0 / sound - 1.0) ** 2 * below + (len(counts) - below))
        ) ** 0.5
        value = records - kept / sound
        return Number(*(min(max(value + z * error, 0.0), records) for z in (0.0, -_Z, _Z)))

    @property
    def _below(self) -> int:
        """Bins of the lower four fifths of clean records, where hardly any faulty one lies."""
        return int(np.searchsorted(np.cumsum(self.sound), 0.8 - 1e-9)) + 1

    def flagged(self, counts: Array, noise: float, fdr: float, broken: Number) -> Number:
        """About how many records a holder would flag at a level, as far as bins tell.

        The most suspect ones of which at most ``fdr`` are sound, a bin's records being spread
        evenly over it.
        """
        flagged = np.concatenate([[0.0], np.cumsum(counts[::-1])])
        size = max(float(counts.sum()) - broken.value, 0.0)
        sound = size * np.concatenate([[0.0], np.cumsum(self.sound[::-1])])
        room = fdr * flagged - sound
        last = int(np.flatnonzero(room >= 0)[-1])
        value = float(flagged[last])
        if last < len(counts):
            value += float(room[last] / (room[last] - room[last + 1]) * counts[::-1][last])
        error = _Z * noise * max(last, 1) ** 0.5
        value = max(value, 0.0)
        return Number(value, max(value - error, 0.0), value + error)


def places_of(ratios: Array, edges: Array) -> Codes:
    """The bin of each ratio (n,); what is no number is in the last, the most suspect."""
    return np.searchsorted(edges, ratios, side="right")
