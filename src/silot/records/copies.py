"""Records that are copies of others of the same holder, exact or nearly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from silot_transport._check import Array

from ..errors import WireError
from ._arrays import Codes
from .frames import Frames

# The quantile of distances between validation records beyond which a holder's are elsewhere.
_ELSEWHERE = 0.99
# Neighbours that a near copy is linked with.
_LINKED = 8
# Columns whose pairs are crossed.
_CROSSED = 8
# Beyond this quantile of the validation records the tail is taken to be exponential.
_TAIL = 0.8
# Records next to one another, by the column that differs most, of which the nearest is sought:
# copies lie side by side in every column.
_BAND, _TILE = 1 << 14, 1 << 11


@dataclass(frozen=True)
class Nearness:
    """How near clean records are to one another.

    Of every distinct validation record, the log of the mean distance to its nearest few divided
    by that to its nearest one.
    """

    logs: Array = field(repr=False)
    """Sorted (m,)."""
    dimension: float
    """Of the set that records lie on or near (Levina and Bickel, 2004): this many times denser
    records are nearer by that root."""
    least: float
    """Distance of the two nearest of them: where columns have steps, none is nearer."""

    @classmethod
    def of(cls, frames: Frames) -> Self:
        """Read it off validation records."""
        if len(frames.places) < 3:
            return cls(np.zeros(1), 1.0, 0.0)
        first, several, logs = frames.spacing()
        return cls(
            np.sort(np.log(several / first)),
            1.0 / max(float(logs.mean()), 1e-3),
            float(first.min()),
        )

    def check(self) -> None:
        """Raise where fields are not such numbers."""
        sound = self.logs.ndim == 1 and len(self.logs) > 0 and bool(np.isfinite(self.logs).all())
        sound = sound and 0.0 <= self.least < np.inf
        if not sound or not 0.0 < self.dimension < np.inf:
            raise WireError(
                "distances of validation records are not valid.", code="question-fields"
            )

    @property
    def enough(self) -> bool:
        """Whether validation records tell anything."""
        return len(self.logs) > 1

    @property
    def _tail(self) -> tuple[float, float]:
        start = float(np.quantile(self.logs, _TAIL))
        beyond = self.logs[self.logs > start] - start
        # A margin for how few records it is known from.
        return start, float(beyond.mean()) * (1 + 2 / len(beyond) ** 0.5) if len(beyond) else 0.0

    def chance(self, logs: Array, denser: float) -> Array:
        """Chance (n,) that a clean record is as near to another, among records so much denser."""
        start, rate = self._tail
        if rate <= 0:
            return np.ones(len(logs))
        beyond = logs - np.log(denser) / self.dimension - start
        return np.where(beyond > 0, (1 - _TAIL) * np.exp(-np.maximum(beyond, 0) / rate), 1.0)


def originals(points: Array, frames: Frames, nearness: Nearness, fdr: float) -> Codes:
    """For each record the first one that it is a copy of, or -1.

    Equal records are copies if chance makes fewer than ``fdr`` of them. Chance is judged by pairs
    :math:`a_j` that differ in column ``j`` alone, and :math:`a_{jl}` that differ in two: as far as
    two columns are independent given the others, :math:`a_j a_l / a_{jl}` pairs are equal by
    accident; the largest of these counts. Nearly equal ones are copies if validation records, as
    dense as these, are hardly ever so near (Benjamini and Hochberg).

    Parameters
    ----------
    points
        Records (n, d).
    frames, nearness
        Of the validation records.
    fdr
        Share of the copies found that chance may have made.

    Returns
    -------
    numpy.ndarray
        Shape (n,).
    """
    rows, first, whose = np.unique(points, axis=0, return_index=True, return_inverse=True)
    whose = whose.ravel()
    origin = np.full(len(points), -1, dtype=np.int64)
    if fdr <= 0 or len(points) < 2:
        return origin
    if len(rows) < len(points) and _accidents(points, whose) <= fdr * _pairs(np.bincount(whose)):
        origin = np.where(first[whose] < np.arange(len(points)), first[whose], -1)
    if len(rows) > 1 and nearness.enough:
        near = _near(rows, first, frames, nearness, fdr)
        # Equal copies of a near copy are copies of the first of them all too.
        origin = np.where(near[whose] >= 0, near[whose], origin)
        origin[origin == np.arange(len(points))] = -1
    return origin


def accidental(points: Array) -> bool:
    """Return whether chance alone may have made the equal ones among these records."""
    _, whose = np.unique(points, axis=0, return_inverse=True)
    counts = np.bincount(whose.ravel())
    return bool((counts == 1).all()) or _accidents(points, whose.ravel()) > 0.1 * _pairs(counts)


def _pairs(counts: Codes) -> float:
    return float((counts * (counts - 1.0) / 2.0).sum())


def _accidents(points: Array, whose: Codes) -> float:
    """Return how many pairs chance has made equal."""
    equal = _pairs(np.bincount(whose))
    if points.shape[1] == 1:
        return equal
    values = np.stack(
        [np.unique(column, return_inverse=True)[1].ravel() for column in points.T], axis=1
    ).astype(np.uint64)
    # Sums of mixed products with odd numbers tell rows apart, but for one in 2^40 pairs or so.
    keys = np.random.default_rng(0).integers(0, 1 << 63, size=values.shape[1], dtype=np.uint64)
    mixed = (values + np.uint64(1)) * (keys * np.uint64(2) + np.uint64(1))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    total = mixed.sum(axis=1, dtype=np.uint64)

    def alike(*but: int) -> float:
        others = total - mixed[:, list(but)].sum(axis=1, dtype=np.uint64)
        return _pairs(np.unique(others, return_counts=True)[1])

    one = [alike(column) - equal for column in range(values.shape[1])]
    most = sorted(range(len(one)), key=lambda column: -one[column])[:_CROSSED]
    expected = 0.0
    for k, first in enumerate(most):
        for second in most[k + 1 :]:
            both = alike(first, second) - equal - one[first] - one[second]
            expected = max(expected, one[first] * one[second] / (both + 1.0))
    return expected


def _near(rows: Array, first: Codes, frames: Frames, nearness: Nearness, fdr: float) -> Codes:
    """For distinct rows the first record of those they are near copies of, or -1."""
    denser = len(rows) / len(frames.places)
    z = frames.standard(rows)
    around = frames.around(rows)
    other = _nearest(z)
    apart = np.sqrt(((z - z[other]) ** 2).sum(axis=1))
    close = np.flatnonzero((apart > 0) & (around > 0) & (apart < 0.5 * nearness.least))
    chances = np.ones(len(rows))
    logs = np.log(around[close]) - np.log(apart[close])
    if np.median(around) > np.quantile(frames.spacing()[1], _ELSEWHERE):
        # The holder's records lie elsewhere: that they are nearer to one another than to validation
        # records is no sign of copies.
        usual = float(np.median(nearness.logs)) + np.log(denser) / nearness.dimension
        logs -= max(float(np.median(logs)) - usual, 0.0) if len(logs) else 0.0
    chances[close] = nearness.chance(logs, denser)
    order = np.argsort(chances, kind="stable")
    # Each copy makes two records that near, itself and what it is of.
    level = 0.5 * fdr
    passing = np.flatnonzero(chances[order] <= level * np.arange(1, len(rows) + 1) / len(rows))
    origin = np.full(len(rows), -1, dtype=np.int64)
    if not len(passing):
        return origin
    near = np.flatnonzero(chances <= chances[order[passing[-1]]])
    others = other[near]
    group = _groups(z, np.union1d(near, others), apart[near].max(), (near, others))
    first_of = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first_of, group, first)
    several = (np.bincount(group) > 1)[group]
    origin[several] = first_of[group[several]]
    return origin


def _groups(z: Array, near: Codes, reach: float, pairs: tuple[Codes, Codes]) -> Codes:
    """Groups (n,) of records that are linked by pairs, or near and next to one another."""
    count = min(_LINKED + 1, len(near))
    apart, place = cKDTree(z[near]).query(z[near], k=count, distance_upper_bound=2.0 * reach)
    linked = np.isfinite(apart)
    ends = near[np.nonzero(linked)[0]], near[np.asarray(place)[linked]]
    rows, columns = (np.concatenate([one, two]) for one, two in zip(pairs, ends, strict=True))
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(z), len(z)))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _nearest(z: Array) -> Codes:
    """The nearest other of each record (n,), to single precision."""
    order = np.argsort(z[:, int(z.var(axis=0).argmax())], kind="stable")
    rows = (z[order] - z.mean(axis=0)).astype(np.float32)
    # One product gives squared distances, but for what is the same all along a row.
    columns = np.column_stack([-2.0 * rows, np.einsum("ij,ij->i", rows, rows)]).T
    rows = np.column_stack([rows, np.ones(len(rows), dtype=np.float32)])
    nearest = np.zeros(len(rows), dtype=np.int64)
    for top in range(0, len(rows), _TILE):
        mine = slice(top, min(top + _TILE, len(rows)))
        here = np.arange(mine.stop - top)
        least = np.full(len(here), np.inf, dtype=np.float32)
        for start in range(max(top - _BAND, 0), min(top + _BAND, len(rows)), _TILE):
            costs = rows[mine] @ np.ascontiguousarray(columns[:, start : start + _TILE])
            if start == top:
                np.fill_diagonal(costs, np.inf)
            places = costs.argmin(axis=1)
            values = costs[here, places]
            better = values < least
            least[better] = values[better]
            nearest[top + here[better]] = start + places[better]
    places_of = np.empty(len(rows), dtype=np.int64)
    places_of[order] = order[nearest]
    return places_of
