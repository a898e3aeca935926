"""Records from the cells of all rounds where no cell holds one record alone: FedWaD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.spatial.distance import cdist

from evidence.attacks.cover import distinct_rows
from evidence.attacks.places import agreeing
from evidence.attacks.rings import followed, tied_rows
from evidence.attacks.rounds import Round, completed_by_moments, misfit
from evidence.attacks.threads import Cells, Index, Threads, incidence, overlaps
from silot.audits.case import Case
from silot.audits.inversion import Array, Guess, InapplicableError, Interpolant
from silot.audits.time_limit import check_time, remaining_seconds

Bools = npt.NDArray[np.bool_]
_SURE = 0.9
_PASSES = 6
_LIGHT = 1e-3
_SECONDS = 10.0
# Share of the records from which on the overlap of cells is believed to have said what it can.
_ENOUGH = 0.5


def shared_cells(case: Case) -> Guess:
    """Which cells share records shows in their overlap, or in where a record can lie.

    Sums of cells then give the records.
    """
    told = case.usable_cells()
    records, moments = case.records, case.moments
    if records is None or moments is None:
        raise InapplicableError("the number of records or their covariance was not seen")
    units = _units(case, told, records)
    mean, covariance = moments
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 1e-9 * scale.max(), scale, 1.0)
    cells = cells_of([(one.means - mean) / scale for one in told], units)
    if cells.inside.shape[1] < 2:
        raise InapplicableError("no record changed its cell")
    references = [(one.reference - mean) * scale for one in told]
    rows, sure = _found(cells, covariance / np.outer(scale, scale), records, references)
    rows = rows * scale + mean
    proven = np.arange(records) < sure
    if 0 < records - sure <= 3:
        last = completed_by_moments(rows[:sure], sure, records, mean, covariance, rows[:0])
        if last is not None:
            rounds = [Round.of(one) for one in told]
            fits = misfit(last, rounds) <= 1e-7
            rows, proven = last, proven | fits
    if proven.all():
        return Guess(rows, certified=True, proven=proven)
    note = f"{sure} rows proven, the others likely, or means of few records"
    return Guess(rows, certified=False, note=note, proven=proven)


def _units(case: Case, told: Sequence[Interpolant], records: int) -> int:
    """How many records each cell holds."""
    atoms = len(told[0].weights)
    if not case.view.is_uniform(case.target) or not all(_of_equal_mass(one, atoms) for one in told):
        raise InapplicableError(
            "cells of equal mass of records of equal mass (p = 2) were not seen"
        )
    if records % atoms or records == atoms:
        raise InapplicableError(
            "a cell does not hold the same whole number of records, two or more"
        )
    return records // atoms


def _of_equal_mass(one: Interpolant, atoms: int) -> bool:
    """Whether these are so many cells of equal mass of all records, for p = 2."""
    equal = len(one.weights) == atoms and bool(np.ptp(one.weights) <= 1e-9 / atoms)
    return equal and one.mass > 1.0 - 1e-9 and one.p == 2


def cells_of(rounds: Sequence[Array], units: int) -> Cells:
    """Cells that are one in several rounds once, rounds that are the same once."""
    points, label = distinct_rows(np.vstack(rounds))
    labels = np.split(label, np.cumsum([len(one) for one in rounds])[:-1])
    inside = np.zeros((len(points), len(rounds)), dtype=bool)
    room = np.zeros(len(points), dtype=np.intp)
    for k, one in enumerate(labels):
        inside[one, k] = True
        # Equal cells of one round are one, of twice the room.
        room = np.maximum(room, units * np.bincount(one, minlength=len(points)))
    where = np.full(inside.shape, -1, dtype=np.intp)
    for k, one in enumerate(labels):
        where[one, k] = np.arange(len(one))
        where[room > units, k] = -1
    _, kept = np.unique(inside, axis=1, return_index=True)
    return Cells(points * room[:, None], inside[:, np.sort(kept)], room, where)


def _found(
    cells: Cells, covariance: Array, records: int, references: Sequence[Array]
) -> tuple[Array, int]:
    """As many rows as records, the proven ones first, and how many these are."""
    d = cells.sums.shape[1]
    second = np.zeros((d + 1, d + 1))
    second[:d, :d], second[d, d] = records * covariance, records
    none = np.empty((0, len(references)), dtype=np.intp)
    known = Agreement(references, second, np.empty((0, d)), none)
    taken = _taken_out(cells, known)
    likely = np.empty((0, d))
    if len(taken[0].rows) < _ENOUGH * records:
        # Few features say little of overlaps, and much of where a record can lie.
        paths = followed(cells, references, covariance, 0)
        if paths is not None:
            by_place = _taken_out(cells, known, paths)
            if len(by_place[0].rows) > len(taken[0].rows):
                taken = by_place
            rows, tied = tied_rows(cells, paths)
            likely = rows[tied]
    known, left = taken
    rest = left.inside[:, 0]
    means = np.repeat(
        left.sums[rest] / np.maximum(left.room[rest], 1)[:, None], left.room[rest], axis=0
    )
    for row in likely:
        # What is not proven, but follows from the likeliest ways, stands for a mean near by.
        if len(means) and np.abs(known.rows - row).max(axis=1).min(initial=np.inf) > 1e-7:
            means = np.delete(means, np.abs(means - row).max(axis=1).argmin(), axis=0)
            known = replace(known, rows=np.vstack([known.rows, row]))
    return np.vstack([known.rows, means]), len(taken[0].rows)


def _taken_out(
    cells: Cells, known: Agreement, paths: Index | None = None
) -> tuple[Agreement, Cells]:
    """Take out proven records, by given paths first, until no more are; what is left of cells."""
    left = cells
    for _ in range(_PASSES):
        if paths is None:
            overlap, rank = overlaps(left, known.second)
            threads = Threads(left, overlap, rank)
            paths, counts = chosen_paths(left, threads.paths, threads.mass)
            exact = rank >= left.room[left.inside[:, 0]].sum()
        else:
            paths, counts = np.unique(paths, axis=0, return_counts=True)
            exact = False
        paths, rows, sure = proven_rows(left, paths, counts, known, exact=bool(exact))
        if not sure.any():
            break
        paths, rows = paths[sure], rows[sure]
        lifted = np.column_stack([rows, np.ones(len(rows))])
        known = replace(
            known,
            second=known.second - lifted.T @ lifted,
            rows=np.vstack([known.rows, rows]),
            atoms=np.vstack([known.atoms, left.where[paths].max(axis=1)]),
        )
        left = _without(left, paths, rows)
        if not left.room.any():
            break
        paths = None
    return known, left


def chosen_paths(cells: Cells, paths: Index, mass: Array) -> tuple[Index, Index]:
    """Whole numbers of the likeliest paths that give every cell its records."""
    likely = mass > _LIGHT
    paths, mass = paths[likely], mass[likely]
    most = np.maximum(np.rint(mass), 1.0)
    matrix = sparse.csr_array(incidence(cells, paths))
    # A cell may stay incomplete, at a price.
    price = np.full(len(cells.room), 30.0)
    found = milp(
        np.concatenate([-np.log(np.minimum(mass, 1.0)), price]),
        constraints=LinearConstraint(
            sparse.hstack([matrix, sparse.eye_array(len(price))]), cells.room, cells.room
        ),
        bounds=Bounds(0.0, np.concatenate([most, cells.room])),
        integrality=np.concatenate([np.ones(len(paths)), np.zeros(len(price))]),
        options={"time_limit": remaining_seconds(_SECONDS)},
    )
    if found.x is None:
        counts = np.where(mass > _SURE, np.rint(mass), 0.0)
    else:
        counts = np.rint(found.x[: len(paths)])
    return paths[counts > 0], counts[counts > 0].astype(np.intp)


@dataclass(frozen=True)
class Agreement:
    """What every set of records must agree with: all rounds, all second moments, rows found."""

    references: Sequence[Array] = field(repr=False)
    second: Array = field(repr=False)
    rows: Array = field(repr=False)
    atoms: Index = field(repr=False)

    def against(self, rows: Array, atoms: Index, changed: Bools) -> Index:
        """How much speaks against each of the changed rows at these atoms (n, T).

        Two records of an optimal plan gain nothing when they exchange atoms, and second moments
        leave no negative ones for the other records.
        """
        lifted = np.column_stack([rows, np.ones(len(rows))])
        least = np.linalg.eigvalsh(self.second - lifted.T @ lifted)[0]
        found = np.full(int(changed.sum()), int(least < -1e-7 * np.trace(self.second)))
        rows, atoms = np.vstack([self.rows, rows]), np.vstack([self.atoms, atoms])
        changed = np.concatenate([np.zeros(len(self.rows), dtype=bool), changed])
        for t, reference in enumerate(self.references):
            told = atoms[:, t] >= 0
            atom, value = atoms[told, t], rows[told] @ reference.T
            loss = value[np.arange(len(value)), atom][:, None] - value
            slack = 1e-9 * float(np.abs(value).max(initial=1.0))
            # Of every two records, what their exchange would cost.
            cost = loss[changed[told]][:, atom] + loss[:, atom[changed[told]]].T
            found[told[changed]] += (cost < -slack).sum(axis=1)
        return found


def proven_rows(
    cells: Cells, paths: Index, counts: Index, known: Agreement, *, exact: bool
) -> tuple[Index, Array, Bools]:
    """Paths, corrected, their rows, and which are tied down by cells that others confirm.

    A cell counts where all of its records are among the paths, its sum fits, and it would have
    been predicted from the other cells: that a wrong sum fits by chance does not happen. Two
    paths may exchange a part and fit as well; rows that differ then count only where moments
    or plans rule the exchange out.
    """
    matrix = incidence(cells, paths) * counts
    good, relations = _confirmed(cells, matrix)
    if len(good) == 0:
        return paths, np.zeros((len(paths), len(cells.sums.T))), np.zeros(len(paths), dtype=bool)
    rows, free, inverse = _solved(matrix[good], cells.sums[good])
    now = _Solution(paths, rows, free, inverse, counts)
    if exact or not now.tied.any():
        return paths, rows, now.tied
    place = np.zeros((len(cells.room), relations.shape[1]))
    place[good] = relations
    exchanges = _Exchanges(cells, known, good, place)
    loose = np.zeros(len(paths), dtype=bool)
    for a, b, k, j in exchanges.unnoticed(paths):
        check_time()
        if now.tied[[a, b]].any() and max(counts[a], counts[b]) == 1:
            now, doubtful = exchanges.tried(now, a, b, slice(k, j))
            loose |= doubtful
    # None where plans or moments rule any of the rows out: what else is wrong is not known.
    sure = now.tied & ~loose
    contested = now.against(cells, known, sure, np.ones_like(sure)).any()
    return now.paths, now.rows, sure & ~contested


def _confirmed(cells: Cells, matrix: Array) -> tuple[Index, Array]:
    """Cells whose sums would have been predicted from the others, and how these are related."""
    size = float(np.abs(cells.sums).max()) or 1.0
    good = np.flatnonzero((matrix.sum(axis=1) == cells.room) & (cells.room > 0))
    good = good[agreeing(matrix[good], cells.sums[good], size)]
    relations = np.empty((0, 0))
    while len(good):
        left, values, _ = np.linalg.svd(matrix[good], full_matrices=True)
        rank = int((values > 1e-9 * values[0]).sum())
        relations = left[:, rank:]
        alone = (left[:, :rank] ** 2).sum(axis=1) > 1.0 - 1e-9
        if not alone.any():
            break
        good = good[~alone]
    return good, relations


@dataclass(frozen=True)
class _Solution:
    """Rows that sums of cells give along paths, a basis of what they leave open, the inverse."""

    paths: Index
    rows: Array
    free: Array
    inverse: Array
    counts: Index

    @cached_property
    def tied(self) -> Bools:
        """Which rows the sums tie down."""
        return (np.abs(self.free).max(axis=1, initial=0.0) <= 1e-8) & (self.counts == 1)

    def exchanged(self, paths: Index, change: Array, a: int, b: int) -> _Solution:
        """The solution along other paths, whose incidence is the old times I - change' e."""

        def moved(old: Array) -> Array:
            return old + change[:, None] * (old[a] - old[b])

        return _Solution(
            paths, moved(self.rows), moved(self.free), moved(self.inverse), self.counts
        )

    def moved(self, other: _Solution, change: Array) -> Bools:
        """Which tied rows another solution has not."""
        moved = self.tied & (change != 0)
        if moved.any():
            apart = cdist(self.rows[moved], other.rows[other.tied], "chebyshev")
            moved[moved] = apart.min(axis=1, initial=9.0) > 1e-7
        return moved

    def against(self, cells: Cells, known: Agreement, fixed: Bools, changed: Bools) -> Index:
        """How much speaks against each of the changed ones among the fixed rows."""
        atoms = cells.where[self.paths].max(axis=1)[fixed]
        return known.against(self.rows[fixed], atoms, changed[fixed])


@dataclass(frozen=True)
class _Exchanges:
    """Parts of two paths exchanged, where the relations between confirmed cells allow it."""

    cells: Cells
    known: Agreement
    good: Index
    place: Array

    def tried(self, now: _Solution, a: int, b: int, part: slice) -> tuple[_Solution, Bools]:
        """The likelier of before and after, and which rows hang on the choice."""
        none = np.zeros(len(now.rows), dtype=bool)
        other = now.paths.copy()
        other[[a, b], part] = now.paths[[b, a], part]
        # The new incidence is the old one times I - change (e_a - e_b)^T.
        step = incidence(self.cells, now.paths[[a]]) - incidence(self.cells, other[[a]])
        if np.abs(self.place.T @ step).max() > 1e-8:
            return now, none
        change = now.inverse @ step[self.good, 0]
        change[np.abs(change) < 1e-9] = 0.0
        scale = 1.0 - change[a] + change[b]
        if abs(scale) < 1e-9:
            # Then the two rows would have to be equal.
            equal = np.abs(now.free[a] - now.free[b]).max(initial=0.0) <= 1e-8
            return now, none if equal else change != 0
        change = change / scale
        then = now.exchanged(other, change, a, b)
        moved = now.moved(then, change)
        if not moved.any():
            return now, none
        touched = change != 0
        touched[[a, b]] = True
        # Before and after, among the rows that are tied.
        before, after = (
            one.against(self.cells, self.known, one.tied, touched).sum() for one in (now, then)
        )
        open_ = min(before, after) > 0 or after == before
        return (then if after < before else now), moved if open_ else none

    def unnoticed(self, paths: Index) -> list[tuple[int, int, int, int]]:
        """Pairs of paths and rounds from k to before j whose exchange no relation notices."""
        cells, place = self.cells, self.place
        rounds = paths.shape[1]
        own = np.where(cells.first[paths] == np.arange(rounds), paths, -1)
        way = np.random.default_rng([5, 11]).standard_normal(place.shape[1])
        parts = np.where(own >= 0, (place @ way)[paths], 0.0)
        sums = np.cumsum(np.column_stack([np.zeros(len(paths)), parts]), axis=1)
        found: list[tuple[int, int, int, int]] = []
        for k in range(rounds):
            for j in range(k + 1, rounds + (k > 0)):
                check_time()
                for a, b in _near(sums[:, j] - sums[:, k]):
                    differ = own[a] != own[b]
                    if differ[k:j].any() and (differ[:k].any() or differ[j:].any()):
                        found.append((a, b, k, j))
        return found


def _near(values: Array) -> Iterator[tuple[int, int]]:
    """Pairs of equal values, up to rounding."""
    order = np.argsort(values)
    for start, a in enumerate(order):
        for b in order[start + 1 :]:
            if values[b] - values[a] > 1e-9:
                break
            yield int(a), int(b)


def _solved(matrix: Array, sums: Array) -> tuple[Array, Array, Array]:
    """Least-squares rows, a basis of what they leave open, and the inverse of the matrix."""
    left, values, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int((values > 1e-9 * values[0]).sum())
    inverse = right[:rank].T @ (left[:, :rank].T / values[:rank, None])
    return inverse @ sums, right[rank:].T, inverse


def _without(cells: Cells, paths: Index, rows: Array) -> Cells:
    """What remains when records are taken out."""
    matrix = incidence(cells, paths)
    room = cells.room - matrix.sum(axis=1).astype(np.intp)
    open_ = room > 0
    sums = (cells.sums - matrix @ rows)[open_]
    return Cells(sums, cells.inside[open_], room[open_], cells.where[open_])
