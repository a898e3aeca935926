"""Rounds of cell means: how records fit them, and what they determine of the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from silot.audits.inversion import Array, Interpolant
from silot.audits.time_limit import check_time
from silot_transport import exact_plan

_FIT = 1e-8
_MOMENTS_FIT = 1e-7
_MOST_DOUBTFUL = 24
_MOST_TRIES = 200_000


@dataclass(frozen=True)
class Round:
    """Means of the records that go to each atom of a known reference."""

    means: Array = field(repr=False)
    reference: Array = field(repr=False)
    weights: Array = field(repr=False)
    p: int = 2

    @classmethod
    def of(cls, cells: Interpolant) -> Round:
        """The round of an interpolant of form ``"cells"``."""
        return cls(cells.means, cells.reference, cells.reference_weights, cells.p)


def different(rounds: Sequence[Round]) -> list[Round]:
    """Rounds that say something new: cell means repeat when no record changes its cell."""
    kept: list[Round] = []
    for one in rounds:
        size = float(np.abs(one.means).max()) or 1.0
        if not any(
            one.means.shape == other.means.shape
            and np.abs(one.means - other.means).max() <= 1e-9 * size
            for other in kept
        ):
            kept.append(one)
    return kept


def averages(rows: Array, one: Round) -> Array:
    """Matrix whose product with the rows, of equal mass, gives the means of a round."""
    check_time()
    masses = np.full(len(rows), 1.0 / len(rows))
    plan = exact_plan(rows, one.reference, masses, one.weights, p=one.p)
    return np.asarray(plan.plan.todense(), dtype=np.float64).T / one.weights[:, None]


def misfit(rows: Array, rounds: Sequence[Round]) -> float:
    """Largest difference between what the rows would have sent and what was sent, relative."""
    size = max(float(np.abs(one.means).max()) for one in rounds) or 1.0
    worst = 0.0
    for one in rounds:
        sent = averages(rows, one) @ rows
        worst = max(worst, float(np.abs(sent - one.means).max()))
    return worst / size


def refined(
    rows: Array, rounds: Sequence[Round], *, fixed: int = 0, steps: int = 25
) -> tuple[Array, float]:
    """Alternate between the plans of the rows and the rows that fit the plans best.

    The fit counts distances, not their squares: most cells are right, and wrong ones must not
    spoil the others. The first ``fixed`` rows stay. Returns the best rows and their misfit.
    """
    size = len(rows)
    told = np.vstack([one.means for one in rounds])
    scale = float(np.abs(told).max()) or 1.0
    best, least = rows, np.inf
    for _ in range(steps):
        matrix = np.vstack([averages(rows, one) for one in rounds])
        apart = np.linalg.norm(matrix @ rows - told, axis=1)
        total = float(apart.sum())
        if total < least:
            best, least = rows, total
        if apart.max() <= _FIT * scale or fixed == size:
            break
        for _ in range(3):
            apart = np.linalg.norm(matrix @ rows - told, axis=1)
            heavy = 1.0 / np.maximum(apart, 0.02 * float(np.median(apart)) + 1e-10 * scale)
            heavy /= heavy.mean()
            free = matrix[:, fixed:]
            normal = (free.T * heavy) @ free + 1e-2 * np.eye(size - fixed)
            step = np.linalg.solve(normal, (free.T * heavy) @ (told - matrix @ rows))
            rows = np.vstack([rows[:fixed], rows[fixed:] + step])
    return best, misfit(best, rounds)


def repaired(
    rows: Array, rounds: Sequence[Round], *, seed: int, tries: int = 5
) -> tuple[Array, float]:
    """Replace rows that do not fit until all do or tries are spent; the rows and their misfit."""
    rng = np.random.default_rng([seed, 10])
    told = np.vstack([one.means for one in rounds])
    mean = rounds[0].weights @ rounds[0].means
    best, least = rows, misfit(rows, rounds)
    good, open_cells = fitting(best, rounds)
    for k in range(tries):
        kept, missing = int(good.sum()), int((~good).sum())
        if least <= _FIT or missing == 0:
            break
        if missing == 1:
            # All but one are known, and so is the mean.
            new = (len(rows) * mean - best[good].sum(axis=0))[None]
        elif k % 2 == 0 or len(open_cells) == 0:
            new = best[~good]
        else:
            new = told[rng.choice(open_cells, missing)]
        tried, rest = refined(np.vstack([best[good], new]), rounds, fixed=kept)
        now, cells = fitting(tried, rounds)
        if rest <= _FIT or len(cells) <= len(open_cells):
            best, least, good, open_cells = tried, rest, now, cells
    return best, least


def fitting(rows: Array, rounds: Sequence[Round]) -> tuple[np.ndarray, np.ndarray]:
    """Rows most of whose mass is in cells that fit, and the cells that do not fit."""
    scale = max(float(np.abs(one.means).max()) for one in rounds) or 1.0
    inside, open_cells = np.zeros(len(rows)), []
    for one in rounds:
        matrix = averages(rows, one)
        fits = np.abs(matrix @ rows - one.means).max(axis=1) <= 1e-7 * scale
        inside += (matrix * one.weights[:, None])[fits].sum(axis=0)
        open_cells.append(~fits)
    share = inside * len(rows) / len(rounds)
    return share > 0.5, np.flatnonzero(np.concatenate(open_cells))


def determined(rows: Array, rounds: Sequence[Round]) -> np.ndarray:
    """Which rows the means tie down, given the plans (n,)."""
    return tied(np.vstack([averages(rows, one) for one in rounds]))[0]


def tied(matrix: Array) -> tuple[np.ndarray, int]:
    """Which rows a product with the matrix ties down, and how many directions it leaves open."""
    _, values, vectors = np.linalg.svd(matrix, full_matrices=True)
    free = vectors[int((values > 1e-9 * values[0]).sum()) :]
    return np.abs(free).max(axis=0, initial=0.0) <= 1e-8, len(free)


def tied_shares(rows: Array, rounds: Sequence[Round], *, moments: bool) -> tuple[float, float]:
    """Share of records that the means tie down given the plans, and share that nothing does.

    The second is 0 where the mean and covariance that were told may tie down what is left: they
    are d (d + 1) / 2 equations for d numbers a direction that is left open. Where these are
    more, other records near by give the same messages: plans do not change at once.
    """
    found, left_open = tied(np.vstack([averages(rows, one) for one in rounds]))
    share = float(np.mean(found))
    enough = moments and 2 * left_open <= rows.shape[1] + 1
    return share, 0.0 if enough else 1.0 - share


def sorted_rows(one: Round, records: int) -> Array | None:
    """One feature: plans sort, so the means are linear in the sorted records."""
    if one.reference.shape[1] != 1:
        return None
    order = np.argsort(one.reference[:, 0], kind="stable")
    edges = np.concatenate([[0.0], np.cumsum(one.weights[order])])
    places = np.arange(records + 1) / records
    low = np.maximum(edges[:-1, None], places[:-1])
    high = np.minimum(edges[1:, None], places[1:])
    matrix = np.maximum(high - low, 0.0) / one.weights[order][:, None]
    matrix[matrix < 1e-12] = 0.0
    if np.linalg.matrix_rank(matrix) < records:
        return None
    return np.asarray(np.linalg.lstsq(matrix, one.means[order], rcond=None)[0], np.float64)


def completed_by_moments(
    rows: Array, proven: int, records: int, mean: Array, covariance: Array, pool: Array
) -> Array | None:
    r"""Replace up to three doubtful rows so that mean and covariance are those of the records.

    With all records but two known, their sum :math:`s` and the sum of their squares
    :math:`R` are, and :math:`u, v = s / 2 \pm \delta` with
    :math:`\delta \delta^T = (R - s s^T / 2) / 2`. That this matrix has rank one is the check:
    it fails unless all the others are right.

    The first ``proven`` rows are beyond doubt, and the ``pool`` has others that may be records.
    ``None`` when no few replacements do.
    """
    # Everything is centred: the products then keep their digits.
    near, pool = rows - mean, pool - mean
    scale = float(np.sqrt(np.trace(covariance) / len(mean))) or 1.0
    near, pool, second = near / scale, pool / scale, records * covariance / scale**2
    doubtful = range(proven, len(rows))
    if len(doubtful) > _MOST_DOUBTFUL:
        return None
    squares = second - near.T @ near
    total = -near.sum(axis=0)
    tries = 0
    for left in range(4):
        if not 1 <= records - len(rows) + left <= 3:
            continue
        for dropped in combinations(doubtful, left):
            check_time()
            gone = near[list(dropped)]
            rest = squares + gone.T @ gone
            missing, sum_ = records - len(rows) + left, total + gone.sum(axis=0)
            for found in _solutions(missing, sum_, rest, pool):
                kept = np.delete(rows, list(dropped), axis=0)
                return np.vstack([kept, found * scale + mean])
            tries += len(pool) if missing == 3 else 1
            if tries > _MOST_TRIES:
                return None
    return None


def _solutions(missing: int, total: Array, squares: Array, pool: Array) -> list[Array]:
    if missing == 1:
        fits = np.abs(squares - np.outer(total, total)).max() <= _MOMENTS_FIT
        return [total[None]] if fits else []
    if missing == 2:
        pair = _pair(total, squares)
        return [] if pair is None else [pair]
    for row in pool:
        pair = _pair(total - row, squares - np.outer(row, row))
        if pair is not None:
            return [np.vstack([row[None], pair])]
    return []


def _pair(total: Array, squares: Array) -> Array | None:
    half = 0.5 * (squares - 0.5 * np.outer(total, total))
    diagonal = np.diag(half)
    k = int(diagonal.argmax())
    if diagonal[k] <= 0 or diagonal.min() < -_MOMENTS_FIT:
        same = np.abs(half).max() <= _MOMENTS_FIT
        return np.stack([0.5 * total, 0.5 * total]) if same else None
    apart = half[k] / diagonal[k] ** 0.5
    # Diagonals first: most wrong guesses end here.
    if np.abs(apart**2 - diagonal).max() > _MOMENTS_FIT:
        return None
    if np.abs(np.outer(apart, apart) - half).max() > _MOMENTS_FIT:
        return None
    return np.stack([0.5 * total + apart, 0.5 * total - apart])
