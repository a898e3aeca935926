"""Which cells share records, from where each can lie: for cells of two records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from ._evidence import Array
from ._threads import Cells, Index

_EXACT = 1e-9
_MOST_SUBSETS = 400_000
_LARGEST_PART = 6
_POINTS = 96
_STEPS = 14
_WIDTH = 24
_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Region:
    """Half-spaces ``normals @ x <= limits``."""

    normals: Array = field(repr=False)
    limits: Array = field(repr=False)

    def and_(self, normals: Array, limits: Array) -> Region:
        """Their intersection with others."""
        return Region(np.vstack([self.normals, normals]), np.concatenate([self.limits, limits]))

    def inside(self, points: Array) -> npt.NDArray[np.bool_]:
        """Which points are in all of them."""
        return (points @ self.normals.T <= self.limits).all(axis=1)

    def point(self) -> Array | None:
        """A point well inside, ``None`` where there is none."""
        d = self.normals.shape[1]
        length = np.linalg.norm(self.normals, axis=1)
        found = linprog(
            np.append(np.zeros(d), -1.0),
            np.column_stack([self.normals, length]),
            self.limits,
            bounds=[(None, None)] * d + [(0.0, 1.0)],
            method="highs-ds",
        )
        return np.asarray(found.x[:d]) if found.status == 0 else None

    def sampled(
        self, start: Array, rng: np.random.Generator, steps: int = _STEPS
    ) -> tuple[Array, Region]:
        """Points spread over it (hit and run), and the half-spaces that any of them met.

        Leaving half-spaces out makes the region larger: nothing right is ever cut off.
        """
        points = np.repeat(start[None], _POINTS, axis=0)
        met = np.zeros(len(self.limits), dtype=bool)
        for _ in range(steps):
            way = rng.standard_normal(points.shape)
            along = way @ self.normals.T
            room = np.maximum(self.limits - points @ self.normals.T, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = room / along
            ahead = np.where(along > 1e-14, reach, np.inf)
            behind = np.where(along < -1e-14, reach, -np.inf)
            met[ahead.argmin(axis=1)] = met[behind.argmax(axis=1)] = True
            low, high = np.maximum(behind.max(axis=1), -1e6), np.minimum(ahead.min(axis=1), 1e6)
            points = points + (low + (high - low) * rng.random(_POINTS))[:, None] * way
        return points, Region(self.normals[met], self.limits[met])


def places(cells: Cells, references: Sequence[Array], rng: np.random.Generator) -> list[Region]:
    r"""Where the records of each cell can lie.

    A record of cell j in a round with reference :math:`\gamma` has, by duality,
    :math:`\langle x, \gamma_k - \gamma_j \rangle \le v_k - v_j` for all k. Means of cells obey
    the same, so shortest paths over :math:`\langle c_k, \gamma_k - \gamma_l \rangle` bound the
    differences of the unknown prices v. The two records of a cell mirror each other at its mean.
    """
    means = cells.sums / cells.room[:, None]
    normals: list[list[Array]] = [[] for _ in means]
    limits: list[list[Array]] = [[] for _ in means]
    for t, reference in enumerate(references):
        here = np.flatnonzero(cells.where[:, t] >= 0)
        atoms = cells.where[here, t]
        if len(here) < len(reference):
            # Atoms whose records are known already say nothing new.
            reference = reference[atoms]
            atoms = np.arange(len(here))
        centre = np.empty((len(reference), means.shape[1]))
        centre[atoms] = means[here]
        gain = np.einsum("kd,kd->k", centre, reference)[:, None] - centre @ reference.T
        for k in range(len(gain)):
            gain = np.minimum(gain, gain[:, k : k + 1] + gain[k : k + 1])
        for cell, j in zip(here.tolist(), atoms.tolist(), strict=True):
            others = np.arange(len(reference)) != j
            way, limit = (reference - reference[j])[others], gain[others, j]
            normals[cell] += [way, -way]
            limits[cell] += [limit, limit - 2.0 * way @ means[cell]]
    found: list[Region] = []
    size = float(np.abs(means).max())
    for mean, way, limit in zip(means, normals, limits, strict=True):
        whole = Region(np.vstack(way), np.concatenate(limit) + _TOLERANCE * size)
        # The mean itself is inside: no start has to be looked for.
        _, thin = whole.sampled(mean, rng, steps=60)
        found.append(thin)
    return found


def balanced(first: Array, second: Array) -> list[tuple[list[int], list[int]]]:
    """Smallest groups of sums on either side that have the same total, largest group last."""
    way = np.random.default_rng(13).standard_normal(first.shape[1])
    left, right = list(range(len(first))), list(range(len(second)))
    size = float(max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0))) or 1.0
    found: list[tuple[list[int], list[int]]] = []
    for count in range(1, _LARGEST_PART + 1):
        if 2 * count > len(left) or comb(len(left), count) > _MOST_SUBSETS:
            break
        one = np.array(list(combinations(left, count)), dtype=np.intp)
        two = np.array(list(combinations(right, count)), dtype=np.intp)
        here, there = (first @ way)[one].sum(axis=1), (second @ way)[two].sum(axis=1)
        order = np.argsort(there)
        slack = 4.0 * _EXACT * size * count
        low, high = (np.searchsorted(there[order], here + side) for side in (-slack, slack))
        for i in np.flatnonzero(high > low):
            for j in order[low[i] : high[i]]:
                same = np.abs(first[one[i]].sum(axis=0) - second[two[j]].sum(axis=0)).max()
                free = set(one[i]) <= set(left) and set(two[j]) <= set(right)
                if free and same <= 10.0 * _EXACT * size * count:
                    found.append((one[i].tolist(), two[j].tolist()))
                    left = [k for k in left if k not in one[i]]
                    right = [k for k in right if k not in two[j]]
    if left:
        found.append((left, right))
    return found


@dataclass(frozen=True)
class Ring:
    """Records that go round a group of cells, all known but for one point.

    ``cells`` has the cell before and after of each (2m, 2); record i lies at
    ``offsets[i] + signs[i] * z`` for z near ``points``.
    """

    cells: Index = field(repr=False)
    offsets: Array = field(repr=False)
    signs: Array = field(repr=False)
    points: Array = field(repr=False)
    weight: float = 0.0

    @property
    def records(self) -> Array:
        """About where they are (2m, d)."""
        return self.offsets + self.signs[:, None] * self.points.mean(axis=0)

    @property
    def spread(self) -> float:
        """How far z may be off."""
        return float(self.points.std(axis=0).max())


@dataclass(frozen=True)
class _Chain:
    """A ring begun: what is known of its records, and where its first one can be."""

    cells: tuple[tuple[int, int], ...]
    offsets: Array
    signs: Array
    cell: int
    region: Region
    points: Array
    left: frozenset[int]
    right: frozenset[int]
    weight: float


@dataclass(frozen=True)
class Rings:
    r"""Search for how records go round a group of cells of two rounds.

    The cells of two rounds form rings: a record of a cell before lies in a cell after, whose
    other record lies in the next cell before, and so on. With the first record at z all others
    are :math:`\pm z + p_i`, p known, so every next cell is a convex condition on z, and of any
    two records an exchange must not pay. Few ways are left after few steps; the search keeps the
    likeliest by the share of z they leave.
    """

    cells: Cells
    references: Sequence[Array]
    regions: Sequence[Region]
    rng: np.random.Generator

    def solve(self, before: Sequence[int], after: Sequence[int], width: int = _WIDTH) -> list[Ring]:
        """The likeliest rings through these cells, the best first."""
        means = self.cells.sums / self.cells.room[:, None]
        d = means.shape[1]
        # From the cell that has the least room.
        start = min(before, key=lambda cell: self._spread(cell, means))
        points, region = self.regions[start].sampled(means[start], self.rng, steps=60)
        chains = [
            _Chain((), np.zeros((0, d)), np.zeros(0), start, region, points,
                   frozenset(before) - {start}, frozenset(after), 0.0)
        ]  # fmt: skip
        for step in range(2 * len(before)):
            longer: list[_Chain] = []
            for chain in chains:
                longer += self._longer(chain, start, step, 2 * len(before), means)
            longer.sort(key=lambda chain: -chain.weight)
            chains = [self._spread_out(chain) for chain in longer[:width]]
            if not chains:
                return []
        return [
            Ring(np.array(c.cells, np.intp), c.offsets, c.signs, c.points, c.weight) for c in chains
        ]

    def _spread(self, cell: int, means: Array) -> float:
        points, _ = self.regions[cell].sampled(means[cell], self.rng)
        return float(points.std(axis=0).sum())

    def _spread_out(self, chain: _Chain) -> _Chain:
        points, region = chain.region.sampled(chain.points[0], self.rng)
        return _Chain(
            chain.cells, chain.offsets, chain.signs, chain.cell, region, points, chain.left,
            chain.right, chain.weight,
        )  # fmt: skip

    def _longer(
        self, chain: _Chain, start: int, step: int, last: int, means: Array
    ) -> list[_Chain]:
        """The chain with one more record, in every cell it can go to."""
        forward = step % 2 == 0
        sign = 1.0 if forward else -1.0
        offset = 2.0 * means[chain.cell] - chain.offsets[-1] if step else np.zeros(means.shape[1])
        options = chain.right if forward else chain.left
        if step == last - 1:
            options = frozenset({start})
        own = self._exchanges(chain, chain.cell, offset, sign)
        if own is None:
            return []
        base = chain.region.and_(*own)
        kept = chain.points[base.inside(chain.points)]
        found: list[_Chain] = []
        for cell in options:
            theirs = self._exchanges(chain, cell, offset, sign)
            if theirs is None:
                continue
            place = self.regions[cell]
            normals = np.vstack([sign * place.normals, theirs[0]])
            limits = np.concatenate([place.limits - place.normals @ offset, theirs[1]])
            inside = (kept @ normals.T <= limits).all(axis=1)
            region = base.and_(normals, limits)
            if inside.any():
                at = kept[int(np.argmax(inside))]
            else:
                point = region.point()
                if point is None:
                    continue
                at = point
            pair = (chain.cell, cell) if forward else (cell, chain.cell)
            share = (float(inside.sum()) + 0.2) / _POINTS
            found.append(
                _Chain(
                    (*chain.cells, pair),
                    np.vstack([chain.offsets, offset]),
                    np.append(chain.signs, sign),
                    cell,
                    region,
                    at[None],
                    chain.left - {cell},
                    chain.right - {cell},
                    chain.weight + float(np.log(share)),
                )
            )
        return found

    def _exchanges(
        self, chain: _Chain, cell: int, offset: Array, sign: float
    ) -> tuple[Array, Array] | None:
        """What no exchange with an earlier record asks of z; ``None`` where one pays anyway."""
        d = len(offset)
        ways: list[Array] = []
        rooms: list[Array] = []
        for side in (0, 1):
            others = np.array([pair[side] for pair in chain.cells], dtype=np.intp)
            for t, reference in enumerate(self.references):
                atom = self.cells.where[cell, t]
                if atom < 0 or len(others) == 0:
                    continue
                there = self.cells.where[others, t]
                both = np.flatnonzero((there >= 0) & (others != cell))
                if len(both) == 0:
                    continue
                way = reference[atom] - reference[there[both]]
                room = np.einsum("ij,ij->i", way, offset - chain.offsets[both])
                same = chain.signs[both] == sign
                if (room[same] < -_TOLERANCE).any():
                    return None
                ways.append(-2.0 * sign * way[~same])
                rooms.append(room[~same] + _TOLERANCE)
        if not ways:
            return np.zeros((0, d)), np.zeros(0)
        return np.vstack(ways), np.concatenate(rooms)


def followed(cells: Cells, references: Sequence[Array], seed: int) -> Index | None:
    """The cell of every record in every round (n, K), ``None`` where nothing was found."""
    rng = np.random.default_rng([seed, 14])
    rounds = cells.inside.shape[1]
    if (cells.room != 2).any() or rounds < 2:
        return None
    rings = Rings(cells, references, places(cells, references, rng), rng)
    first = np.flatnonzero(cells.inside[:, 0])
    paths = np.full((2 * len(first), rounds), -1, dtype=np.intp)
    paths[:, 0] = np.repeat(first, 2)
    position = np.full((len(paths), cells.sums.shape[1]), np.nan)
    doubt = np.full(len(paths), np.inf)
    for k in range(1, rounds):
        here, there = cells.inside[:, k - 1], cells.inside[:, k]
        stay = there[paths[:, k - 1]]
        paths[stay, k] = paths[stay, k - 1]
        before, after = np.flatnonzero(here & ~there), np.flatnonzero(there & ~here)
        for left, right in balanced(cells.sums[before], cells.sums[after]):
            found = rings.solve(before[left].tolist(), after[right].tolist())
            if not found:
                return None
            _follow(found, paths, k, position, doubt)
    return paths


def _follow(found: Sequence[Ring], paths: Index, k: int, position: Array, doubt: Array) -> None:
    """Send the records of a group of cells on by the ring that fits best where they are."""
    best: tuple[float, list[tuple[int, int, Array]], float] | None = None
    for ring in found:
        where = ring.records
        cost, moves = 0.0, list[tuple[int, int, Array]]()
        for cell in np.unique(ring.cells[:, 0]):
            ids = np.flatnonzero(paths[:, k - 1] == cell)
            entries = np.flatnonzero(ring.cells[:, 0] == cell)
            far = [
                float(np.nansum((position[ids] - where[order]) ** 2))
                for order in (entries, entries[::-1])
            ]
            entries = entries if far[0] <= far[1] else entries[::-1]
            cost += min(far)
            moves += [
                (int(i), int(ring.cells[e, 1]), where[e]) for i, e in zip(ids, entries, strict=True)
            ]
        scored = cost / (1e-12 + float(np.mean(ring.points.var(axis=0)))) * 1e-3 - ring.weight
        if best is None or scored < best[0]:
            best = scored, moves, ring.spread
    assert best is not None
    for i, cell, at in best[1]:
        paths[i, k] = cell
        if best[2] < doubt[i]:
            position[i], doubt[i] = at, best[2]
