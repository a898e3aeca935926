"""Which cells share records, from where each can lie: for cells of two records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evidence.attacks.places import Region, agreeing, balanced, places
from evidence.attacks.rounds import tied
from evidence.attacks.threads import Cells, Index, incidence
from silot.audits.inversion import Array
from silot.audits.time_limit import check_time

_POINTS = 96
_WIDTH, _NARROW, _WORK = 16, 4, 4000
_TOLERANCE = 1e-8
_PASSES = 6
_MENDS = 6


@dataclass(frozen=True)
class Ring:
    """Records that go round a group of cells, all known but for one point.

    ``cells`` has the cell before and after of each (2m, 2); record i lies at
    ``offsets[i] + signs[i] * z`` for z near ``places``.
    """

    cells: Index = field(repr=False)
    offsets: Array = field(repr=False)
    signs: Array = field(repr=False)
    places: Array = field(repr=False)
    weight: float = 0.0

    @cached_property
    def records(self) -> Array:
        """About where they are (2m, d)."""
        return self.offsets + self.signs[:, None] * self.places.mean(axis=0)

    @cached_property
    def spread(self) -> float:
        """Variance of a coordinate of z."""
        return float(self.places.var(axis=0).mean())


@dataclass(frozen=True)
class _Stays:
    """Every round of every record: the round, its atom there, and which record it is."""

    rounds: Index
    atoms: Array
    record: Index

    def and_(self, rounds: Index, atoms: Array, record: int) -> _Stays:
        """With those of one more record."""
        return _Stays(
            np.concatenate([self.rounds, rounds]),
            np.vstack([self.atoms, atoms]),
            np.concatenate([self.record, np.full(len(rounds), record, dtype=np.intp)]),
        )


@dataclass(frozen=True)
class _Chain:
    """A ring begun: what is known of its records, and where its first one can be."""

    cells: tuple[tuple[int, int], ...]
    offsets: Array
    signs: Array
    cell: int
    region: Region
    places: Array
    left: frozenset[int]
    right: frozenset[int]
    weight: float
    stays: _Stays
    pull: Array
    pairs: int


@dataclass(frozen=True)
class _Begun:
    """The next record of a chain: at ``offset + sign * z``, whichever cell it goes to."""

    chain: _Chain
    offset: Array
    sign: float
    closes: bool
    region: Region
    kept: Array

    def first(self, there: Region, mean: Array) -> tuple[Array, float] | None:
        """Locate the first record of a chain from this one, with its share of the distribution.

        Half the difference of the records of a cell has a normal law, unless the ring closes.
        """
        inside = there.inside(self.kept)
        if inside.any():
            apart = self.sign * self.kept + self.offset - mean
            squares = np.einsum("ij,ij->i", apart, apart)
            likely = np.ones(len(inside)) if self.closes else np.exp(-0.5 * squares)
            at = self.kept[int(np.argmax(np.where(inside, likely, -1.0)))]
            return at, float(likely[inside].sum()) / _POINTS
        low, high = self.chain.places.min(axis=0), self.chain.places.max(axis=0)
        room = high - low + _TOLERANCE
        low, high = low - room, high + room
        # One half-space rules most cells out: no programme is needed for those.
        least = np.where(there.normals > 0, there.normals * low, there.normals * high).sum(axis=1)
        if (least > there.limits).any():
            return None
        at = self.region.and_(there.normals, there.limits).point()
        if at is None:
            return None
        far = self.sign * at + self.offset - mean
        return at, 0.2 / _POINTS * (1.0 if self.closes else float(np.exp(-0.5 * far @ far)))


@dataclass(frozen=True, eq=False)
class Rings:
    r"""Search for how records go round a group of cells of two rounds.

    The cells of two rounds form rings: a record of a cell before lies in a cell after, whose
    other record lies in the next cell before, and so on. With the first record at z all others
    are :math:`\pm z + p_i`, p known, so every next cell is a convex condition on z, and of any
    two records an exchange must not pay. Half the difference of the two records of a cell has
    covariance one in the coordinates used here (that of all records less that of the means):
    by that z has a normal law, cut to where it can be. The search keeps the ways whose mass
    under it is largest; few are left after some steps.
    """

    cells: Cells
    references: Sequence[Array]
    regions: Sequence[Region]
    rng: np.random.Generator

    def solve(self, before: Sequence[int], after: Sequence[int]) -> list[Ring]:
        """The likeliest rings through these cells, the best first."""
        means = self.means
        d = means.shape[1]
        # From the cell that has the least room.
        start = min(before, key=self._spread)
        points, region = self.regions[start].sampled(
            means[start], self.rng, means[start], 1.0, steps=60
        )
        none = np.zeros(0, dtype=np.intp)
        nobody = _Stays(none, np.zeros((0, d)), none)
        # Long ways in many features take long: the covariance says more there.
        width = int(np.clip(_WORK // (len(before) * d), _NARROW, _WIDTH))
        chains = [
            _Chain((), np.zeros((0, d)), np.zeros(0), start, region, points,
                   frozenset(before) - {start}, frozenset(after), 0.0, nobody,
                   means[start], 1)
        ]  # fmt: skip
        for step in range(2 * len(before)):
            longer: list[_Chain] = []
            for chain in chains:
                check_time()
                longer += self._longer(chain, start, step, 2 * len(before))
            longer.sort(key=lambda chain: -chain.weight)
            chains = [self._spread_out(chain) for chain in longer[:width]]
            if not chains:
                return []
        return [
            Ring(np.array(c.cells, np.intp), c.offsets, c.signs, c.places, c.weight) for c in chains
        ]

    @cached_property
    def means(self) -> Array:
        """Mean of the records of each cell (M, d)."""
        return self.cells.sums / self.cells.room[:, None]

    def _spread(self, cell: int) -> float:
        mean = self.means[cell]
        points, _ = self.regions[cell].sampled(mean, self.rng, mean, 1.0)
        return float(points.std(axis=0).sum())

    def _spread_out(self, chain: _Chain) -> _Chain:
        points, region = chain.region.sampled(
            chain.places[0], self.rng, chain.pull / chain.pairs, float(chain.pairs)
        )
        return replace(chain, region=region, places=points)

    def _longer(self, chain: _Chain, start: int, step: int, last: int) -> list[_Chain]:
        """The chain with one more record, in every cell it can go to."""
        forward, closes = step % 2 == 0, step == last - 1
        sign = 1.0 if forward else -1.0
        mean = self.means[chain.cell]
        offset = 2.0 * mean - chain.offsets[-1] if step else np.zeros(len(mean))
        options = chain.right if forward else chain.left
        own = self._exchanges(chain, chain.cell, offset, sign)
        if own is None:
            return []
        region = chain.region.and_(*own)
        kept = chain.places[region.inside(chain.places)]
        begun = _Begun(chain, offset, sign, closes, region, kept)
        longer = (self._into(cell, begun) for cell in ({start} if closes else options))
        return [one for one in longer if one is not None]

    def _into(self, cell: int, begun: _Begun) -> _Chain | None:
        """The chain with its next record in this cell, ``None`` where it cannot be."""
        chain, offset, sign = begun.chain, begun.offset, begun.sign
        theirs = self._exchanges(chain, cell, offset, sign)
        if theirs is None:
            return None
        place, mean = self.regions[cell], self.means[cell]
        there = Region(sign * place.normals, place.limits - place.normals @ offset).and_(*theirs)
        first = begun.first(there, mean)
        if first is None:
            return None
        at, share = first
        pair = (chain.cell, cell) if sign > 0 else (cell, chain.cell)
        stays = chain.stays
        for one in pair:
            stays = stays.and_(*self._atoms[one], len(chain.cells))
        return _Chain(
            (*chain.cells, pair),
            np.vstack([chain.offsets, offset]),
            np.append(chain.signs, sign),
            cell,
            begun.region.and_(there.normals, there.limits),
            at[None],
            chain.left - {cell},
            chain.right - {cell},
            chain.weight + float(np.log(max(share, 1e-300))),
            stays,
            chain.pull if begun.closes else chain.pull + sign * (mean - offset),
            chain.pairs + (not begun.closes),
        )

    @cached_property
    def _atoms(self) -> list[tuple[Index, Array]]:
        """Rounds of every cell, and its atom in each."""
        rounds = [np.flatnonzero(own >= 0) for own in self.cells.where]
        return [
            (there, np.array([self.references[t][own[t]] for t in there.tolist()]))
            for own, there in zip(self.cells.where, rounds, strict=True)
        ]

    def _exchanges(
        self, chain: _Chain, cell: int, offset: Array, sign: float
    ) -> tuple[Array, Array] | None:
        """What no exchange with an earlier record asks of z; ``None`` where one pays anyway."""
        rounds, atoms = self._atoms[cell]
        own = np.full((len(self.references), atoms.shape[1]), np.nan)
        own[rounds] = atoms
        stays = chain.stays
        way = own[stays.rounds] - stays.atoms
        # In the same cell there is nothing to exchange.
        both = np.abs(way).max(axis=1, initial=0.0) > 0
        way, record = way[both], stays.record[both]
        room = np.einsum("ij,ij->i", way, offset - chain.offsets[record])
        same = chain.signs[record] == sign
        if (room[same] < -_TOLERANCE).any():
            return None
        return -2.0 * sign * way[~same], room[~same] + _TOLERANCE


def followed(
    cells: Cells, references: Sequence[Array], covariance: Array, seed: int
) -> Index | None:
    """The cell of every record in every round (n, K), ``None`` where nothing was found.

    ``covariance`` is that of the records (d, d).
    """
    rng = np.random.default_rng([seed, 14])
    rounds = cells.inside.shape[1]
    if (cells.room != 2).any() or rounds < 2 or (cells.where < 0).all(axis=1).any():
        return None
    cells, references = _whitened(cells, references, covariance)
    rings = Rings(cells, references, places(cells, references, rng), rng)
    groups: list[tuple[int, list[Ring]]] = []
    for k in range(1, rounds):
        here, there = cells.inside[:, k - 1], cells.inside[:, k]
        before, after = np.flatnonzero(here & ~there), np.flatnonzero(there & ~here)
        for left, right in balanced(cells.sums[before], cells.sums[after]):
            found = rings.solve(before[left].tolist(), after[right].tolist())
            groups.append((k, found or [_unknown(before[left], after[right], cells)]))
    records = int(cells.room[cells.inside[:, 0]].sum())
    position = np.zeros((records, cells.sums.shape[1]))
    doubt = np.full(records, np.inf)
    paths = np.empty((0, rounds), dtype=np.intp)
    for _ in range(_PASSES):
        again = _through(cells, groups, position, doubt)
        if np.array_equal(again, paths):
            break
        paths = again
        # Exact places of the records that the sums of cells that agree tie down.
        rows, sure = tied_rows(cells, paths)
        position[sure], doubt[sure] = rows[sure], 1e-12
    return _mended(cells, paths)


def _mended(cells: Cells, paths: Index) -> Index:
    """Let two records of a cell exchange the rest of their ways where more sums agree for it."""
    size = float(np.abs(cells.sums).max()) or 1.0
    matrix = incidence(cells, paths)
    good = agreeing(matrix, cells.sums, size)
    for _ in range(_MENDS):
        wrong = np.flatnonzero(~good)
        best = int(good.sum()), paths, good
        near = np.isin(paths, wrong).any(axis=1)
        for k in range(1, paths.shape[1]):
            for cell in np.unique(paths[near, k - 1]):
                pair = np.flatnonzero(paths[:, k - 1] == cell)
                if len(pair) != 2 or paths[pair[0], k] == paths[pair[1], k]:
                    continue
                other = paths.copy()
                other[pair, k:] = paths[pair[::-1], k:]
                fits = agreeing(incidence(cells, other), cells.sums, size)
                if int(fits.sum()) > best[0]:
                    best = int(fits.sum()), other, fits
        if best[0] == int(good.sum()):
            break
        _, paths, good = best
    return paths


def _whitened(
    cells: Cells, references: Sequence[Array], covariance: Array
) -> tuple[Cells, list[Array]]:
    """Coordinates in which half the difference of a cell's records has covariance one."""
    first = cells.inside[:, 0]
    means = cells.sums[first] / cells.room[first][:, None]
    values, vectors = np.linalg.eigh(covariance - means.T @ means / len(means))
    values = np.maximum(values, 1e-3 * float(values[-1]))
    root = vectors * np.sqrt(values)
    moved = Cells(cells.sums @ (vectors / np.sqrt(values)), cells.inside, cells.room, cells.where)
    return moved, [reference @ root for reference in references]


def _unknown(before: Index, after: Index, cells: Cells) -> Ring:
    """Any way round, with nothing known of where."""
    d = cells.sums.shape[1]
    pairs = np.column_stack([np.repeat(before, 2), np.repeat(after, 2)])
    far = np.full((2, d), 0.5) * np.array([[1e6], [-1e6]])
    return Ring(pairs, np.zeros((len(pairs), d)), np.ones(len(pairs)), far)


def _through(
    cells: Cells, groups: Sequence[tuple[int, Sequence[Ring]]], position: Array, doubt: Array
) -> Index:
    """Send all records through all rounds; where each is gets surer on the way."""
    first = np.flatnonzero(cells.inside[:, 0])
    paths = np.full((len(position), cells.inside.shape[1]), -1, dtype=np.intp)
    paths[:, 0] = np.repeat(first, 2)
    for k in range(1, paths.shape[1]):
        stay = cells.inside[paths[:, k - 1], k]
        paths[stay, k] = paths[stay, k - 1]
        for _, found in (group for group in groups if group[0] == k):
            _follow(found, paths, k, position, doubt)
    return paths


def _follow(found: Sequence[Ring], paths: Index, k: int, position: Array, doubt: Array) -> None:
    """Send the records of a group of cells on by the ring that fits best where they are.

    ``doubt`` is the variance of a coordinate of ``position``.
    """
    scored = [_moves(ring, paths[:, k - 1], position, doubt) for ring in found]
    best = min(range(len(found)), key=lambda i: scored[i][0])
    ring, (_, moves) = found[best], scored[best]
    for i, entry in moves:
        paths[i, k] = ring.cells[entry, 1]
        if ring.spread < doubt[i]:
            position[i], doubt[i] = ring.records[entry], ring.spread


def _moves(
    ring: Ring, here: Index, position: Array, doubt: Array
) -> tuple[float, list[tuple[int, int]]]:
    """How ill a ring fits, and which of its records those in these cells are then."""
    cost, moves = 0.0, list[tuple[int, int]]()
    for cell in np.unique(ring.cells[:, 0]):
        ids = np.flatnonzero(here == cell)
        entries = np.flatnonzero(ring.cells[:, 0] == cell)
        room = doubt[ids] + ring.spread + 1e-12
        way, back = (
            float((((position[ids] - ring.records[order]) ** 2).sum(axis=1) / room).sum())
            for order in (entries, entries[::-1])
        )
        entries = entries if way <= back else entries[::-1]
        cost += min(way, back)
        moves += list(zip(ids.tolist(), entries.tolist(), strict=True))
    return 0.5 * cost - ring.weight, moves


def tied_rows(cells: Cells, paths: Index) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Records by their ways through the rounds, and which follow from sums that agree."""
    matrix = incidence(cells, paths)
    size = float(np.abs(cells.sums).max()) or 1.0
    good = np.flatnonzero(agreeing(matrix, cells.sums, size))
    solved = np.linalg.lstsq(matrix[good], cells.sums[good], rcond=1e-10)[0]
    return np.asarray(solved, dtype=np.float64), tied(matrix[good])[0]
