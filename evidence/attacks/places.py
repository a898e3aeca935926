"""Where records of cells can lie, and which cells share records by their sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from evidence.attacks.threads import Cells
from silot.audits.inversion import Array
from silot.audits.time_limit import check_time

_EXACT = 1e-9
_MOST_SUBSETS = 400_000
_LARGEST_PART = 6
_POINTS = 96
_STEPS = 14
_TOLERANCE = 1e-8
_FIT = 1e-8
# Precision of a law that is flat, nearly: it only has to end.
_FLAT = 0.1


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
        return np.asarray((points @ self.normals.T <= self.limits).all(axis=1), dtype=np.bool_)

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
        if found.status != 0 or found.x is None:
            return None
        return np.asarray(found.x[:d])

    def sampled(
        self,
        start: Array,
        rng: np.random.Generator,
        mean: Array,
        precision: float,
        steps: int = _STEPS,
    ) -> tuple[Array, Region]:
        """Points of a normal law cut to it (hit and run), and the half-spaces any of them met.

        Leaving half-spaces out makes the region larger: nothing right is ever cut off.
        """
        points = np.repeat(start[None], _POINTS, axis=0)
        met = np.zeros(len(self.limits), dtype=bool)
        check_time()
        for _ in range(steps):
            way = rng.standard_normal(points.shape)
            along = way @ self.normals.T
            room = np.maximum(self.limits - points @ self.normals.T, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = room / along
            ahead = np.where(along > 1e-14, reach, np.inf)
            behind = np.where(along < -1e-14, reach, -np.inf)
            met[ahead.argmin(axis=1)] = met[behind.argmax(axis=1)] = True
            # Along a line the law is normal again, cut to an interval.
            length = np.einsum("ij,ij->i", way, way)
            middle = np.einsum("ij,ij->i", way, mean - points) / length
            wide = 1.0 / np.sqrt(precision * length)
            low, high = (
                ndtr(np.clip((end - middle) / wide, -8.0, 8.0))
                for end in (behind.max(axis=1), ahead.min(axis=1))
            )
            drawn = ndtri(np.clip(low + (high - low) * rng.random(_POINTS), 1e-15, 1.0 - 1e-15))
            move = np.clip(middle + wide * drawn, behind.max(axis=1), ahead.min(axis=1))
            points = points + np.where(np.isfinite(move), move, 0.0)[:, None] * way
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
        _, thin = whole.sampled(mean, rng, mean, _FLAT, steps=20)
        found.append(thin)
    return found


def balanced(first: Array, second: Array) -> list[tuple[list[int], list[int]]]:
    """Smallest groups of sums on either side that have the same total, largest group last."""
    left, right = list(range(len(first))), list(range(len(second)))
    found: list[tuple[list[int], list[int]]] = []
    for count in range(1, _LARGEST_PART + 1):
        if 2 * count > len(left) or comb(len(left), count) > _MOST_SUBSETS:
            break
        for one, two in _of_one_total(first, second, left, right, count):
            if set(one) <= set(left) and set(two) <= set(right):
                found.append((one, two))
                left = [k for k in left if k not in one]
                right = [k for k in right if k not in two]
    if left:
        found.append((left, right))
    return found


def _of_one_total(
    first: Array, second: Array, left: Sequence[int], right: Sequence[int], count: int
) -> Iterator[tuple[list[int], list[int]]]:
    """So many of the left with so many of the right whose sums are the same."""
    way = np.random.default_rng(13).standard_normal(first.shape[1])
    size = float(max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0))) or 1.0
    one = np.array(list(combinations(left, count)), dtype=np.intp)
    two = np.array(list(combinations(right, count)), dtype=np.intp)
    here, there = (first @ way)[one].sum(axis=1), (second @ way)[two].sum(axis=1)
    order = np.argsort(there)
    slack = 4.0 * _EXACT * size * count
    low, high = (np.searchsorted(there[order], here + side) for side in (-slack, slack))
    for i in np.flatnonzero(high > low):
        for j in order[low[i] : high[i]]:
            apart = np.abs(first[one[i]].sum(axis=0) - second[two[j]].sum(axis=0)).max()
            if apart <= 10.0 * _EXACT * size * count:
                yield one[i].tolist(), two[j].tolist()


def agreeing(matrix: Array, sums: Array, size: float) -> npt.NDArray[np.bool_]:
    """Cells left when as few as possible are taken out for the others to agree."""
    kept = np.ones(len(matrix), dtype=bool)
    for _ in range(20):
        inside = np.flatnonzero(kept)
        if len(inside) == 0:
            break
        left, values, _ = np.linalg.svd(matrix[inside], full_matrices=True)
        rank = int((values > 1e-9 * values[0]).sum())
        relations = left[:, rank:]
        broken = relations.T @ sums[inside]
        if relations.shape[1] == 0 or np.abs(broken).max() <= _FIT * size:
            break
        # Sparse errors that would explain the broken relations, by reweighting.
        weight = np.ones(len(inside))
        error = np.zeros_like(sums[inside])
        for _ in range(30):
            normal = (relations.T * weight) @ relations
            normal[np.diag_indices(len(normal))] += 1e-12 * np.trace(normal)
            error = weight[:, None] * (relations @ np.linalg.solve(normal, broken))
            weight = np.linalg.norm(error, axis=1) + 1e-9 * size
        apart = np.linalg.norm(error, axis=1)
        kept[inside[apart > min(1e-6 * size, 0.5 * float(apart.max()))]] = False
    return kept
