"""Records as threads through the cells of all rounds, found from how cells overlap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse

from silot.audits.inversion import Array
from silot.audits.time_limit import check_time

Index = npt.NDArray[np.intp]
_WIDTH = 20
_KEPT = 30
_MOST = 400
_LIGHT = 1e-3
_STAGE = np.geomspace(0.5, 0.05, 40)
_LAST = np.geomspace(0.5, 1e-5, 150)
_LARGEST = 200_000


@dataclass(frozen=True)
class Cells:
    """Different cells of all rounds.

    ``sums``: sums of the records in each (M, d). ``inside``: in which rounds each is (M, K).
    ``room``: how many records each has (M,). ``where``: atom of each in every round told, those
    that repeat others too, or -1 (M, T).
    """

    sums: Array = field(repr=False)
    inside: npt.NDArray[np.bool_] = field(repr=False)
    room: Index = field(repr=False)
    where: Index = field(repr=False)

    @property
    def first(self) -> Index:
        """First round of each cell."""
        return self.inside.argmax(axis=1)


def incidence(cells: Cells, paths: Index) -> Array:
    """Which cells are on each path (M, P)."""
    matrix = np.zeros((len(cells.room), len(paths)))
    for cell in paths.T:
        matrix[cell, np.arange(len(paths))] = 1.0
    return matrix


def overlaps(cells: Cells, second: Array) -> tuple[Array, int]:
    r"""How much cells overlap (M, M), and the rank of the records.

    With :math:`\Sigma` the sum of :math:`(x, 1) (x, 1)^T` over records and :math:`X` the matrix
    of all, :math:`X \Sigma^+ X^T` is a projection: the identity where records are linearly
    independent, and near a multiple of it otherwise. Between cells it therefore counts, about,
    the records that both have.
    """
    lifted = np.column_stack([cells.sums, cells.room])
    size = np.sqrt(np.maximum(np.diag(second), 0.0))
    used = size > 1e-6 * size.max()
    scaled = second[np.ix_(used, used)] / np.outer(size[used], size[used])
    values, vectors = np.linalg.eigh(scaled)
    good = values > 1e-9 * values[-1]
    white = (lifted[:, used] / size[used]) @ (vectors[:, good] / np.sqrt(values[good]))
    return white @ white.T, int(good.sum())


@dataclass
class Threads:
    """Candidate records and how likely each is.

    A record is one cell a round. Of all such sequences few are records, and sums of cells are
    sums of few rows: a multiple-measurement sparse Bayesian problem, with the number of records
    of every cell as a constraint. Rounds are added one by one, so that the likely beginnings
    limit how many sequences there are.
    """

    cells: Cells
    overlap: Array
    rank: int
    paths: Index = field(init=False)
    mass: Array = field(init=False)

    def __post_init__(self) -> None:
        cells = self.cells
        rounds = cells.inside.shape[1]
        self._first = cells.first
        records = int(cells.room[cells.inside[:, 0]].sum())
        self._second = self.overlap * (records / self.rank)
        start = np.flatnonzero(cells.inside[:, 0])
        self.paths, self.mass = start[:, None], cells.room[start].astype(np.float64)
        for k in range(1, rounds):
            self._extend(k)
            if k < rounds - 1:
                self._fit(_STAGE)
                self._thin()
        self._fit(_LAST)

    def _extend(self, k: int) -> None:
        """Continue every path into round k: where its cells are, otherwise into new ones."""
        paths = self.paths
        stay = np.full(len(paths), -1, dtype=np.intp)
        for cell in paths.T:
            there = self.cells.inside[cell, k]
            stay[there] = cell[there]
        kept = stay >= 0
        new, moved = np.flatnonzero(self._first == k), paths[~kept]
        if len(new) == 0 or len(moved) == 0:
            self.paths = np.column_stack([paths, stay])[kept]
            self.mass = self.mass[kept]
            return
        if k == 1:
            near = self.overlap[np.ix_(moved[:, 0], new)]
            width = min(len(new), max(_WIDTH, _LARGEST // len(moved)))
        else:
            # What the path's own record has of the new cell, its partners taken out.
            used = self._used
            own = self._matrix(moved)[used].T
            near = own @ (self._inverse @ self._second[np.ix_(used, new)])
            width = min(len(new), _WIDTH)
        best = np.argpartition(-near, width - 1, axis=1)[:, :width]
        grown = np.column_stack([np.repeat(moved, width, axis=0), new[best.ravel()]])
        self.paths = np.vstack([np.column_stack([paths[kept], stay[kept]]), grown])
        self.mass = np.concatenate([self.mass[kept], np.repeat(self.mass[~kept] / width, width)])

    def _thin(self) -> None:
        """Leave out unlikely paths, but no cell without a choice."""
        last = self.paths[:, -1]
        order = np.lexsort((-self.mass, last))
        place = np.arange(len(order)) - np.searchsorted(last[order], last[order])
        kept = self.mass > _LIGHT
        kept[order[place < _KEPT]] = True
        kept[order[place >= _MOST]] = False
        self.paths, self.mass = self.paths[kept], self.mass[kept]

    def _matrix(self, paths: Index) -> sparse.csr_array:
        """Which cells are on each path (M, P)."""
        row, k = np.nonzero(self._first[paths] == np.arange(paths.shape[1]))
        shape = (len(self._first), len(paths))
        return sparse.csr_array((np.ones(len(row)), (paths[row, k], row)), shape=shape)

    def _fit(self, noise: Array) -> None:
        """Masses by the fixed point of sparse Bayesian learning, with less and less noise."""
        paths, rounds = self.paths, self.paths.shape[1]
        used = np.flatnonzero(self._first < rounds)
        matrix = self._matrix(paths)[used]
        across = matrix.T.tocsr()
        second = self._second[np.ix_(used, used)]
        place = np.zeros(len(self._first), dtype=np.intp)
        place[used] = np.arange(len(used))
        here, at = self._first[paths] == np.arange(rounds), place[paths]
        pairs: list[tuple[Index, Index, Index, float]] = []
        for k in range(rounds):
            for j in range(k + 1):
                both = np.flatnonzero(here[:, k] & here[:, j])
                pairs.append((both, at[both, k], at[both, j], 1.0 if j == k else 2.0))

        def squares(form: Array) -> Array:
            found = np.zeros(len(paths))
            for both, row, column, times in pairs:
                found[both] += times * form[row, column]
            return np.maximum(found, 1e-300)

        mass = self._balanced(self.mass, 20)
        inverse = np.empty((0, 0))
        for level in noise:
            check_time()
            model = ((matrix * mass) @ across).toarray()
            model[np.diag_indices(len(used))] += level
            inverse = np.linalg.inv(model)
            inverse = 0.5 * (inverse + inverse.T)
            seen, due = squares(inverse @ second @ inverse), squares(inverse)
            mass = self._balanced(np.maximum(mass * np.sqrt(seen / due), 1e-12), 3)
        self.mass, self._used, self._inverse = mass, used, inverse

    def _balanced(self, mass: Array, times: int) -> Array:
        """Masses scaled until every cell has as many records as it should."""
        room = self.cells.room
        for _ in range(times):
            for cell in self.paths.T:
                total = np.bincount(cell, mass, minlength=len(room))
                mass = mass * (room / np.maximum(total, 1e-200))[cell]
        return mass
