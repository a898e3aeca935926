"""Records from the cells of all rounds where no cell holds one record alone: FedWaD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.spatial.distance import cdist

from ._case import Case
from ._clock import look, seconds
from ._cover import distinct_rows
from ._evidence import Array, Guess
from ._joint import Round, misfit
from ._moments import completed_by_moments
from ._places import agreeing
from ._rings import followed, tied_rows
from ._threads import Cells, Index, Threads, overlaps
from .attacks import means_of

_FIT = 1e-8
_SURE = 0.9
_PASSES = 6
_LIGHT = 1e-3
_SECONDS = 10.0
# Share of the records from which on the overlap of cells is believed to have said what it can.
_ENOUGH = 0.5


def shared_cells(case: Case) -> Guess | str:
    """Which cells share records shows in their overlap, or in where a record can lie.

    Sums of cells then give the records.
    """
    if not case.cells:
        return "no means over cells were seen"
    records, moments = case.records, case.moments
    if any(one.t is None for one in case.cells):
        return "the interpolation parameter was not seen"
    if records is None or moments is None:
        return "the number of records or their covariance was not seen"
    first = case.cells[0]
    atoms = len(first.weights)
    equal = all(np.ptp(one.weights) <= 1e-9 / atoms for one in case.cells)
    same = all(len(one.weights) == atoms and one.mass > 1.0 - 1e-9 for one in case.cells)
    if not case.view.uniform(case.target) or not equal or not same or first.p != 2:
        return "cells of equal mass of records of equal mass (p = 2) were not seen"
    if records % atoms or records == atoms:
        return "a cell does not hold the same whole number of records, two or more"
    mean, covariance = moments
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 1e-9 * (scale.max() or 1.0), scale, 1.0)
    told = [(means_of(one) - mean) / scale for one in case.cells]
    cells = cells_of(told, records // atoms)
    if cells.inside.shape[1] < 2:
        return "no record changed its cell"
    references = [(one.reference - mean) * scale for one in case.cells]
    rows, sure = _found(
        cells, covariance / np.outer(scale, scale), records, records // atoms, references
    )
    rows = rows * scale + mean
    proven = np.arange(records) < sure
    whole = sure == records
    if records - sure <= 3 and not whole:
        last = completed_by_moments(rows[:sure], sure, records, mean, covariance, rows[:0])
        if last is not None:
            rounds = [Round(means_of(k), k.reference, k.weights) for k in case.cells]
            whole = misfit(last, np.full(records, 1.0 / records), rounds) <= 1e-7
            rows, proven = last, proven | whole
    note = "" if whole else f"{sure} rows proven, the others likely, or means of few records"
    return Guess(rows, certified=whole, note=note, sure=proven)


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
    cells: Cells, covariance: Array, records: int, units: int, references: Sequence[Array]
) -> tuple[Array, int]:
    """As many rows as records, the proven ones first, and how many these are."""
    d = cells.sums.shape[1]
    second = np.zeros((d + 1, d + 1))
    second[:d, :d], second[d, d] = records * covariance, records
    none = np.empty((0, len(references)), dtype=np.intp)
    known = Known(references, second, np.empty((0, d)), none)
    taken = _taken_out(cells, known)
    likely = np.empty((0, d))
    if len(taken[0].rows) < _ENOUGH * records and units == 2:
        # Few features say little of overlaps, and much of where a record can lie.
        paths = followed(cells, references, covariance, 0)
        if paths is not None:
            by_place = _taken_out(cells, known, paths)
            if len(by_place[0].rows) > len(taken[0].rows):
                taken = by_place
            likely = tied_rows(cells, paths)
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


def _taken_out(cells: Cells, known: Known, paths: Index | None = None) -> tuple[Known, Cells]:
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
        atoms = left.where[paths].max(axis=1)
        lifted = np.column_stack([rows, np.ones(len(rows))])
        known = Known(
            known.references,
            known.second - lifted.T @ lifted,
            np.vstack([known.rows, rows]),
            np.vstack([known.atoms, atoms]),
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
    column = np.repeat(np.arange(len(paths)), paths.shape[1])
    shape = (len(cells.room), len(paths))
    matrix = sparse.csr_array((np.ones(len(column)), (paths.ravel(), column)), shape=shape)
    matrix.data[:] = 1.0
    # A cell may stay incomplete, at a price.
    price = np.full(len(cells.room), 30.0)
    found = milp(
        np.concatenate([-np.log(np.minimum(mass, 1.0)), price]),
        constraints=LinearConstraint(
            sparse.hstack([matrix, sparse.eye_array(len(price))]), cells.room, cells.room
        ),
        bounds=Bounds(0.0, np.concatenate([most, cells.room])),
        integrality=np.concatenate([np.ones(len(paths)), np.zeros(len(price))]),
        options={"time_limit": seconds(_SECONDS)},
    )
    if found.x is None:
        counts = np.where(mass > _SURE, np.rint(mass), 0.0)
    else:
        counts = np.rint(found.x[: len(paths)])
    return paths[counts > 0], counts[counts > 0].astype(np.intp)


@dataclass(frozen=True)
class Known:
    """What every set of records must agree with: all rounds, all second moments, rows found."""

    references: Sequence[Array] = field(repr=False)
    second: Array = field(repr=False)
    rows: Array = field(repr=False)
    atoms: Index = field(repr=False)

    def against(self, rows: Array, atoms: Index, changed: npt.NDArray[np.bool_]) -> Index:
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
    cells: Cells, paths: Index, counts: Index, known: Known, *, exact: bool
) -> tuple[Index, Array, npt.NDArray[np.bool_]]:
    """Paths, corrected, their rows, and which are tied down by cells that others confirm.

    A cell counts where all of its records are among the paths, its sum fits, and it would have
    been predicted from the other cells: that a wrong sum fits by chance does not happen. Two
    paths may exchange a part and fit as well; rows that differ then count only where moments
    or plans rule the exchange out.
    """
    matrix = incidence(cells, paths) * counts
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
    if len(good) == 0:
        return paths, np.zeros((len(paths), len(cells.sums.T))), np.zeros(len(paths), dtype=bool)
    rows, free, inverse = _solved(matrix[good], cells.sums[good])
    tied = (np.abs(free).max(axis=1, initial=0.0) <= 1e-8) & (counts == 1)
    if exact or not tied.any():
        return paths, rows, tied
    place = np.zeros((len(cells.room), relations.shape[1]))
    place[good] = relations
    loose = np.zeros(len(paths), dtype=bool)
    paths = paths.copy()
    for a, b, k, j in _exchanges(cells, paths, place):
        look()
        if not tied[[a, b]].any() or max(counts[a], counts[b]) > 1:
            continue
        other = paths.copy()
        other[[a, b], k:j] = paths[[b, a], k:j]
        # The new incidence is the old one times I - change (e_a - e_b)^T.
        step = incidence(cells, paths[[a]]) - incidence(cells, other[[a]])
        if np.abs(place.T @ step).max() > 1e-8:
            continue
        change = inverse @ step[good, 0]
        change[np.abs(change) < 1e-9] = 0.0
        scale = 1.0 - change[a] + change[b]
        if abs(scale) < 1e-9:
            # Then the two rows would have to be equal.
            if np.abs(free[a] - free[b]).max(initial=0.0) > 1e-8:
                loose |= change != 0
            continue
        change = change / scale
        new = rows + np.outer(change, rows[a] - rows[b])
        new_free = free + np.outer(change, free[a] - free[b])
        still = (np.abs(new_free).max(axis=1, initial=0.0) <= 1e-8) & (counts == 1)
        moved = tied & (change != 0)
        if not moved.any():
            continue
        moved[moved] = cdist(rows[moved], new[still], "chebyshev").min(axis=1, initial=9.0) > 1e-7
        if not moved.any():
            continue
        touched = change != 0
        touched[[a, b]] = True
        # Before and after, among the rows that are tied.
        now, then = (
            known.against(x[fixed], cells.where[p].max(axis=1)[fixed], touched[fixed]).sum()
            for x, p, fixed in ((rows, paths, tied), (new, other, still))
        )
        if then < now:
            rows, free, paths, tied = new, new_free, other, still
            inverse = inverse + np.outer(change, inverse[a] - inverse[b])
        if min(now, then) or then == now:
            loose |= moved
    return paths, rows, _uncontested(cells, paths, rows, tied & ~loose, known)


def _uncontested(
    cells: Cells, paths: Index, rows: Array, sure: npt.NDArray[np.bool_], known: Known
) -> npt.NDArray[np.bool_]:
    """None where plans or moments rule any of the rows out: what else is wrong is not known."""
    if not sure.any():
        return sure
    atoms = cells.where[paths].max(axis=1)[sure]
    contested = known.against(rows[sure], atoms, np.ones(len(atoms), dtype=bool)).any()
    return sure & ~contested


def incidence(cells: Cells, paths: Index) -> Array:
    """Which cells are on each path (M, P)."""
    matrix = np.zeros((len(cells.room), len(paths)))
    for cell in paths.T:
        matrix[cell, np.arange(len(paths))] = 1.0
    return matrix


def _solved(matrix: Array, sums: Array) -> tuple[Array, Array, Array]:
    """Least-squares rows, a basis of what they leave open, and the inverse of the matrix."""
    left, values, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int((values > 1e-9 * values[0]).sum())
    inverse = right[:rank].T @ (left[:, :rank].T / values[:rank, None])
    return inverse @ sums, right[rank:].T, inverse


def _exchanges(cells: Cells, paths: Index, place: Array) -> list[tuple[int, int, int, int]]:
    """Pairs of paths and rounds from k to before j whose exchange no relation notices."""
    rounds = paths.shape[1]
    own = np.where(cells.first[paths] == np.arange(rounds), paths, -1)
    way = np.random.default_rng([5, 11]).standard_normal(place.shape[1])
    parts = np.where(own >= 0, (place @ way)[paths], 0.0)
    sums = np.cumsum(np.column_stack([np.zeros(len(paths)), parts]), axis=1)
    found: list[tuple[int, int, int, int]] = []
    for k in range(rounds):
        for j in range(k + 1, rounds + (k > 0)):
            value = sums[:, j] - sums[:, k]
            look()
            order = np.argsort(value)
            for start, a in enumerate(order):
                for b in order[start + 1 :]:
                    if value[b] - value[a] > 1e-9:
                        break
                    differ = own[a] != own[b]
                    if differ[k:j].any() and (differ[:k].any() or differ[j:].any()):
                        found.append((int(a), int(b), k, j))
    return found


def _without(cells: Cells, paths: Index, rows: Array) -> Cells:
    """What remains when records are taken out."""
    matrix = incidence(cells, paths)
    room = cells.room - matrix.sum(axis=1).astype(np.intp)
    open_ = room > 0
    sums = (cells.sums - matrix @ rows)[open_]
    return Cells(sums, cells.inside[open_], room[open_], cells.where[open_])
