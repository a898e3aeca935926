"""Records among means of few records: the set whose masses add up in every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ._clock import look, seconds
from ._evidence import Array

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
    nothing = np.empty(0, np.intp)
    if points.shape[1] < 2:
        return Mixtures(nothing, nothing, nothing, np.empty(0))
    way = _way(points.shape[1], 4)
    found: list[tuple[int, int, int, float]] = []
    for a, point in enumerate(points):
        look()
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
    if not found:
        return Mixtures(nothing, nothing, nothing, np.empty(0))
    point_, first, second = (np.array(k, dtype=np.intp) for k in list(zip(*found, strict=True))[:3])
    return Mixtures(point_, first, second, np.array([k[3] for k in found]))


@dataclass(frozen=True)
class Cover:
    """How many records each candidate is, in how many points it takes part, what is explained."""

    counts: Array
    parts: Index
    explained: npt.NDArray[np.bool_]


def best_cover(
    points: Array, candidates: Array, mixtures: Sequence[tuple[int, int, int, float]],
    labels: Sequence[Index], weights: Sequence[Array], records: int, *, equal: bool = True,
) -> Cover:  # fmt: skip
    """The candidates that explain most of all rounds with masses that are the same in each.

    An integer programme: every atom of every round is a candidate, a mixture of two, or left
    open; what a candidate is given in a round is at most its mass. Where records weigh the same
    that is a whole number of records, otherwise at most so many candidates have any.
    """
    nearest, alone = _whole(points, candidates)
    options: list[list[tuple[tuple[int, float], ...]]] = [[] for _ in points]
    for k in np.flatnonzero(alone):
        options[k].append(((int(nearest[k]), 1.0),))
    for k, a, b, share in mixtures:
        options[k].append(((a, 1.0 - share), (b, share)))
    size = len(candidates)
    rows: list[int] = []
    cols: list[int] = []
    data: list[float] = []
    gain: list[float] = [0.0] * size
    owner: list[int] = []
    members: list[tuple[int, ...]] = []
    limits, atom = len(labels) * size, 0
    for k, (label, mass) in enumerate(zip(labels, weights, strict=True)):
        rows += range(k * size, (k + 1) * size)
        cols += range(size)
        data += [-1.0] * size
        for j, point in enumerate(label):
            for option in options[point]:
                # A little is better explained by one record than by two.
                gain.append(-float(mass[j]) * records * (1.0 + 1e-6 * (len(option) == 1)))
                owner.append(int(point))
                members.append(tuple(r for r, _ in option))
                for r, part in option:
                    rows.append(k * size + r)
                    cols.append(len(gain) - 1)
                    data.append(float(mass[j]) * records * part)
                rows.append(limits + atom)
                cols.append(len(gain) - 1)
                data.append(1.0)
            atom += 1
    rows += [limits + atom] * size
    cols += range(size)
    data += [1.0] * size
    matrix = sparse.csr_array((data, (rows, cols)), shape=(limits + atom + 1, len(gain)))
    upper = np.concatenate([np.full(limits, 1e-9), np.ones(atom), [float(records)]])
    most = np.concatenate([np.full(size, float(records)), np.ones(len(owner))])
    whole = np.repeat([1, 0], [size, len(owner)])
    if not equal:
        # One switch a candidate: mass only where it is on, and only so many on.
        on = sparse.eye_array(size)
        unused = sparse.csr_array((size, len(owner)))
        limit = sparse.csr_array(np.ones((1, size)))
        matrix = sparse.block_array(
            [
                [matrix, None],
                [sparse.hstack([on, unused]), -float(records) * on],
                [None, limit],
            ],
            format="csr",
        )
        upper = np.concatenate([upper, np.zeros(size), [float(records)]])
        most = np.concatenate([most, np.ones(size)])
        whole = np.repeat([0, 1], [size + len(owner), size])
        gain += [0.0] * size
    found = milp(
        np.array(gain),
        constraints=LinearConstraint(matrix, -np.inf, upper),
        bounds=Bounds(0.0, most),
        integrality=whole,
        options={"time_limit": seconds(_SECONDS)},
    )
    explained = np.zeros(len(points), dtype=bool)
    if found.x is None:
        return Cover(np.zeros(size), np.zeros(size, np.intp), explained)
    taken = np.flatnonzero(found.x[size : size + len(owner)] > 0.99)
    explained[np.array(owner, dtype=np.intp)[taken]] = True
    shown = {(owner[k], r) for k in taken for r in members[k]}
    parts = np.bincount([r for _, r in shown], minlength=size)
    masses = np.asarray(found.x[:size], dtype=np.float64)
    return Cover(np.rint(masses) if equal else masses, parts, explained)


def records_among(
    rounds: Sequence[tuple[Array, Array]], records: int, *, equal: bool = True
) -> tuple[Array, int, Array]:
    """Records among the means of all rounds, and how many of the first are beyond doubt.

    Last, other rows that may be records.

    Parameters
    ----------
    rounds
        Means (S, d) and weights (S,).
    records
        How many records there are.
    equal
        Whether all have one weight. Otherwise every record is told once.
    """
    points, label = distinct_rows(np.vstack([means for means, _ in rounds]))
    units = lcm(records, len(rounds[0][0])) // len(rounds[0][0])
    if len(points) > _MOST_POINTS:
        return points[:0], 0, points
    ends = np.cumsum([len(means) for means, _ in rounds])[:-1]
    labels = np.split(label, ends)
    weights = [mass for _, mass in rounds]
    extra = points[:0]
    known, proven, others = points[:0], 0, points
    for _ in range(4):
        pool = np.vstack([points, extra])
        lines = mixtures_among(pool)
        # A record lies between no two of these points, save by chance.
        place = np.full(len(pool), -1)
        seen = (lines.first < len(points)) & (lines.second < len(points))
        outer = np.setdiff1d(np.arange(len(pool)), lines.point[seen])
        place[outer] = np.arange(len(outer))
        candidates = pool[outer]
        steps = lines.share * units
        fits = (place[lines.first] >= 0) & (place[lines.second] >= 0) & (lines.point < len(points))
        shares = lines.share
        if equal:
            fits &= np.abs(steps - np.rint(steps)) <= 1e-5 * units
            shares = np.rint(steps) / units
        mixtures = [
            (int(lines.point[k]), int(place[lines.first[k]]), int(place[lines.second[k]]),
             float(shares[k]))
            for k in np.flatnonzero(fits)
        ]  # fmt: skip
        cover = best_cover(points, candidates, mixtures, labels, weights, records, equal=equal)
        used = cover.counts > _LIGHTEST
        counts = np.rint(cover.counts).astype(np.intp) if equal else used.astype(np.intp)
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
        fresh = [row for row in more if np.abs(pool - row).max(axis=1).min() > 1e-9]
        if not fresh:
            break
        extra = np.vstack([extra, *fresh])
    return known, proven, others


def crossings(rest: Array, known: Array, shares: Array) -> Array:
    """Points reached from two known records through two mixtures."""
    d = rest.shape[1]
    if len(rest) == 0 or len(shares) == 0 or len(rest) * len(known) * len(shares) > 4e6:
        return np.empty((0, d))
    way = _way(d, 2)
    # (m - s a) / (1 - s) along one direction, for all mixtures m, records a and shares s.
    along = ((rest @ way)[:, None, None] - shares * (known @ way)[None, :, None]) / (1.0 - shares)
    flat = along.ravel()
    scale = float(np.abs(known).max()) or 1.0
    order = np.argsort(flat)
    found: list[Array] = []
    for q in np.flatnonzero(np.diff(flat[order]) <= 1e-10 * scale):
        (m, a, s), (n, b, r) = (np.unravel_index(order[k], along.shape) for k in (q, q + 1))
        if a == b or m == n:
            continue
        one = (rest[m] - shares[s] * known[a]) / (1.0 - shares[s])
        two = (rest[n] - shares[r] * known[b]) / (1.0 - shares[r])
        if np.abs(one - two).max() <= 1e-8 * scale:
            new = np.abs(known - one).max(axis=1).min() > 1e-8 * scale
            if new and all(np.abs(one - other).max() > 1e-8 * scale for other in found):
                found.append(one)
    return np.stack(found) if found else np.empty((0, d))


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
