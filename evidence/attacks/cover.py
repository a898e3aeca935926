"""Records among means of few records: the set whose masses add up in every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.spatial.distance import cdist

from evidence.attacks.rounds import Round
from silot.audits.inversion import Array
from silot.audits.time_limit import check_time, remaining_seconds

Index = npt.NDArray[np.intp]
_MOST_POINTS = 1500
_SECONDS = 20.0
_LIGHTEST = 1e-6


def distinct_rows(rows: Array) -> tuple[Array, Index]:
    """Rows without repetitions, up to rounding, and which of them each row is."""
    centre = rows.mean(axis=0)
    scale = float(np.abs(rows - centre).max()) or 1.0
    # Sorted along one direction, equal rows are neighbours.
    along = (rows - centre) @ _way(rows.shape[1], 0)
    label = np.full(len(rows), -1, dtype=np.intp)
    kept: list[int] = []
    recent: list[int] = []
    for k in np.argsort(along):
        recent = [j for j in recent if along[k] - along[kept[j]] <= 1e-7 * scale]
        for j in recent:
            if np.abs(rows[k] - rows[kept[j]]).max() <= 1e-8 * scale:
                label[k] = j
                break
        else:
            label[k] = len(kept)
            recent.append(len(kept))
            kept.append(int(k))
    return rows[kept], label


@dataclass(frozen=True)
class Mixtures:
    """Points that are mixtures of two others: ``(1 - share) first + share second``."""

    point: Index
    first: Index
    second: Index
    share: Array = field(repr=False)


def mixtures_among(points: Array) -> Mixtures:
    """Points on a line between two others.

    Chance puts no three points on a line in two or more dimensions.
    """
    way = _way(points.shape[1], 4)
    found: list[tuple[int, int, int, float]] = []
    for a, point in enumerate(points if points.shape[1] > 1 else points[:0]):
        check_time()
        moved = points - point
        length = np.linalg.norm(moved, axis=1)
        length[a] = 1.0
        unit = moved / length[:, None]
        along = unit @ way
        along[a] = np.inf
        order = np.argsort(along)
        value = along[order]
        start = 0
        for end in np.append(np.flatnonzero(np.diff(value[:-1]) > 1e-9) + 1, len(value) - 1):
            bundle = order[start:end]
            start = int(end)
            bundle = bundle[np.argsort(length[bundle])]
            for k, near in enumerate(bundle):
                # Each line is met from both of its ends.
                found.extend(
                    (int(near), a, int(far), float(length[near] / length[far]))
                    for far in bundle[k + 1 :]
                    if a < far and np.abs(unit[near] - unit[far]).max() <= 1e-8
                )
    table = np.array(found, dtype=np.float64).reshape(-1, 4).T
    point_, first, second = table[:3].astype(np.intp)
    return Mixtures(point_, first, second, table[3])


@dataclass(frozen=True)
class Cover:
    """How many records each candidate is, in how many points it takes part, what is explained."""

    counts: Index
    parts: Index
    explained: npt.NDArray[np.bool_]


def best_cover(
    points: Array, candidates: Array, mixtures: Mixtures,
    label: Index, rounds: Sequence[Round], records: int, *, equal: bool = True,
) -> Cover:  # fmt: skip
    """The candidates that explain most of all rounds with masses that are the same in each.

    An integer programme: every atom of every round is a candidate, a mixture of two, or left
    open; what a candidate is given in a round is at most its mass. Where records weigh the same
    that is a whole number of records, otherwise at most so many candidates have any. ``label``
    says which of the points each atom of all rounds is.
    """
    nearest, alone = _whole(points, candidates)
    single = np.flatnonzero(alone)
    # A candidate alone, or a mixture of a first and a second; -1 where there is no second.
    point = np.concatenate([single, mixtures.point])
    first = np.concatenate([nearest[single], mixtures.first])
    second = np.concatenate([np.full(len(single), -1), mixtures.second])
    share = np.concatenate([np.zeros(len(single)), mixtures.share])
    atom, way = _matches(label, point)
    mass = (records * np.concatenate([one.weights for one in rounds]))[atom]
    point, first, second, share = point[way], first[way], second[way], share[way]
    size, mixed = len(candidates), second >= 0
    above = size * np.repeat(np.arange(len(rounds)), [len(one.weights) for one in rounds])[atom]
    column = np.arange(len(atom))
    given = sparse.csr_array(
        (
            np.concatenate([mass * (1.0 - share), (mass * share)[mixed]]),
            (
                np.concatenate([above + first, (above + second)[mixed]]),
                np.concatenate([column, column[mixed]]),
            ),
        ),
        shape=(len(rounds) * size, len(atom)),
    )
    shape = (len(label), len(atom))
    taken = sparse.csr_array((np.ones(len(atom)), (atom, column)), shape=shape)
    # A little is better explained by one record than by two.
    programme = _programme(given, taken, mass * (1.0 + 1e-6 * ~mixed), size, records)
    if not equal:
        programme = programme.with_switches(size, records)
    masses, shares = np.split(programme.solved(), [size])
    used = shares[: len(atom)] > 0.99
    explained = np.zeros(len(points), dtype=bool)
    explained[point[used]] = True
    pairs = np.column_stack([np.tile(point, 2), np.concatenate([first, second])])
    shown = np.unique(pairs[np.tile(used, 2) & (pairs[:, 1] >= 0)], axis=0)
    counts = np.rint(masses) if equal else masses > _LIGHTEST
    return Cover(counts.astype(np.intp), np.bincount(shown[:, 1], minlength=size), explained)


def _matches(values: Index, among: Index) -> tuple[Index, Index]:
    """All pairs of places with the same value, in the order of the first and then the second."""
    order = np.argsort(among, kind="stable")
    low, high = (np.searchsorted(among[order], values, side) for side in ("left", "right"))
    places = [order[start:end] for start, end in zip(low, high, strict=True)]
    return np.repeat(np.arange(len(values)), high - low), np.concatenate(places)


@dataclass(frozen=True)
class _Programme:
    """Least ``gain @ x`` with ``matrix @ x <= upper`` and x from 0 to ``most``."""

    gain: Array
    matrix: sparse.csr_array
    upper: Array
    most: Array
    whole: Index

    def with_switches(self, size: int, records: int) -> _Programme:
        """One switch a candidate: mass only where it is on, and only so many on."""
        on = sparse.eye_array(size)
        matrix = sparse.block_array(
            [
                [self.matrix, None],
                [sparse.eye_array(size, len(self.gain)), -float(records) * on],
                [None, sparse.csr_array(np.ones((1, size)))],
            ],
            format="csr",
        )
        return _Programme(
            np.append(self.gain, np.zeros(size)),
            matrix,
            np.concatenate([self.upper, np.zeros(size), [float(records)]]),
            np.append(self.most, np.ones(size)),
            np.repeat([0, 1], [len(self.gain), size]),
        )

    def solved(self) -> Array:
        """The best x that was found; 0 where none was."""
        found = milp(
            self.gain,
            constraints=LinearConstraint(self.matrix, -np.inf, self.upper),
            bounds=Bounds(0.0, self.most),
            integrality=self.whole,
            options={"time_limit": remaining_seconds(_SECONDS)},
        )
        x = np.zeros(len(self.gain)) if found.x is None else found.x
        return np.asarray(x, dtype=np.float64)


def _programme(
    given: sparse.csr_array, taken: sparse.csr_array, gain: Array, size: int, records: int
) -> _Programme:
    """Masses of the candidates, then which way is taken; the rows: rounds, atoms, all masses."""
    owned = sparse.vstack([-sparse.eye_array(size)] * (given.shape[0] // size))
    everything = sparse.csr_array(np.ones((1, size)))
    limits = [np.full(given.shape[0], 1e-9), np.ones(taken.shape[0]), [float(records)]]
    return _Programme(
        np.append(np.zeros(size), -gain),
        sparse.block_array([[owned, given], [None, taken], [everything, None]], format="csr"),
        np.concatenate(limits),
        np.append(np.full(size, float(records)), np.ones(len(gain))),
        np.repeat([1, 0], [size, len(gain)]),
    )


def records_among(
    rounds: Sequence[Round], records: int, *, equal: bool = True
) -> tuple[Array, int, Array]:
    """Records among the means of all rounds, how many of the first are beyond doubt, and others.

    The others may be records as well. Where records are not of ``equal`` weight, each is told once.
    """
    points, label = distinct_rows(np.vstack([one.means for one in rounds]))
    atoms = len(rounds[0].means)
    units = lcm(records, atoms) // atoms
    if len(points) > _MOST_POINTS or points.shape[1] == 1:
        return points[:0], 0, points
    pool = points
    known, proven, others = points[:0], 0, points
    for _ in range(4):
        candidates, mixtures = _candidates(pool, len(points), units, equal=equal)
        cover = best_cover(points, candidates, mixtures, label, rounds, records, equal=equal)
        counts, used = cover.counts, cover.counts > 0
        whole = bool(cover.explained.all()) and int(counts.sum()) == records
        # What explains one point only may as well be a mixture that came once.
        sure = used & (whole | (cover.parts > 1))
        order = np.concatenate([np.flatnonzero(sure), np.flatnonzero(used & ~sure)])
        known = np.repeat(candidates[order], counts[order], axis=0)
        proven = int(counts[sure].sum())
        others = candidates[~used]
        if whole or proven == 0 or not equal:
            break
        more = crossings(points[~cover.explained], candidates[sure], np.arange(1, units) / units)
        more = more[cdist(more, pool, "chebyshev").min(axis=1, initial=np.inf) > 1e-9]
        if len(more) == 0:
            break
        pool = np.vstack([pool, more])
    return known, proven, others


def _candidates(pool: Array, told: int, units: int, *, equal: bool) -> tuple[Array, Mixtures]:
    """Points that may be records, and which of the first ``told`` are mixtures of two."""
    lines = mixtures_among(pool)
    # A record lies between no two of these points, save by chance.
    seen = (lines.first < told) & (lines.second < told)
    outer = np.setdiff1d(np.arange(len(pool)), lines.point[seen])
    place = np.full(len(pool), -1)
    place[outer] = np.arange(len(outer))
    first, second, shares = place[lines.first], place[lines.second], lines.share
    fits = (first >= 0) & (second >= 0) & (lines.point < told)
    if equal:
        steps = np.rint(shares * units)
        fits &= np.abs(shares * units - steps) <= 1e-5 * units
        shares = steps / units
    return pool[outer], Mixtures(lines.point[fits], first[fits], second[fits], shares[fits])


def crossings(rest: Array, known: Array, shares: Array) -> Array:
    """Points reached from two known records through two mixtures."""
    d = rest.shape[1]
    if len(rest) == 0 or len(shares) == 0 or len(rest) * len(known) * len(shares) > 4e6:
        return np.empty((0, d))
    way = _way(d, 2)
    # (m - s a) / (1 - s) along one direction, for all mixtures m, records a and shares s.
    along = ((rest @ way)[:, None, None] - shares * (known @ way)[None, :, None]) / (1.0 - shares)
    order = np.argsort(along, axis=None)
    scale = float(np.abs(known).max()) or 1.0
    near = np.flatnonzero(np.diff(along.ravel()[order]) <= 1e-10 * scale)
    (m, a, s), (n, b, r) = (np.unravel_index(order[near + k], along.shape) for k in (0, 1))
    apart = (a != b) & (m != n)
    one, two = (
        ((rest[i] - shares[k][:, None] * known[j]) / (1.0 - shares[k])[:, None])[apart]
        for i, j, k in ((m, a, s), (n, b, r))
    )
    same = np.abs(one - two).max(axis=1) <= 1e-8 * scale
    found = known
    for row in one[same]:
        if np.abs(found - row).max(axis=1).min() > 1e-8 * scale:
            found = np.vstack([found, row])
    return found[len(known) :]


def _whole(points: Array, candidates: Array) -> tuple[Index, npt.NDArray[np.bool_]]:
    """The candidate each point is, and whether it is one."""
    way = _way(points.shape[1], 3)
    along = candidates @ way
    order = np.argsort(along)
    aims = points @ way
    place = np.clip(np.searchsorted(along[order], aims), 1, max(len(order) - 1, 1))
    options = np.stack([order[np.minimum(place, len(order) - 1)], order[place - 1]])
    apart = np.stack([np.abs(points - candidates[k]).max(axis=1) for k in options])
    nearest = options[apart.argmin(axis=0), np.arange(len(points))]
    return nearest, apart.min(axis=0) <= 1e-8 * (float(np.abs(candidates).max()) or 1.0)


def _way(d: int, number: int) -> Array:
    """A direction in which different points differ."""
    way = np.random.default_rng([number, 11]).standard_normal(d)
    return way / np.linalg.norm(way)
