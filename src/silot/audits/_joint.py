"""Records from all rounds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..transport import exact_plan
from ._clock import look
from ._evidence import Array

_FIT = 1e-8


@dataclass(frozen=True)
class Round:
    """Means of the records that go to each atom of a known reference."""

    means: Array = field(repr=False)
    reference: Array = field(repr=False)
    weights: Array = field(repr=False)
    p: int = 2


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


def averages(rows: Array, masses: Array, one: Round) -> Array:
    """Matrix whose product with the rows gives the means the holder would have sent."""
    look()
    plan = exact_plan(rows, one.reference, masses, one.weights, p=one.p)
    return np.asarray(plan.plan.todense(), dtype=np.float64).T / one.weights[:, None]


def misfit(rows: Array, masses: Array, rounds: Sequence[Round]) -> float:
    """Largest difference between what the rows would have sent and what was sent, relative."""
    size = max(float(np.abs(one.means).max()) for one in rounds) or 1.0
    worst = 0.0
    for one in rounds:
        sent = averages(rows, masses, one) @ rows
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
    masses = np.full(size, 1.0 / size)
    told = np.vstack([one.means for one in rounds])
    scale = float(np.abs(told).max()) or 1.0
    best, least = rows, np.inf
    for _ in range(steps):
        matrix = np.vstack([averages(rows, masses, one) for one in rounds])
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
    return best, misfit(best, masses, rounds)


def repaired(
    rows: Array, rounds: Sequence[Round], *, seed: int, tries: int = 5
) -> tuple[Array, float]:
    """Replace rows that do not fit until all do or tries are spent; the rows and their misfit."""
    rng = np.random.default_rng([seed, 10])
    told = np.vstack([one.means for one in rounds])
    mean = rounds[0].weights @ rounds[0].means
    masses = np.full(len(rows), 1.0 / len(rows))
    best, least = rows, misfit(rows, masses, rounds)
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
    masses = np.full(len(rows), 1.0 / len(rows))
    scale = max(float(np.abs(one.means).max()) for one in rounds) or 1.0
    inside, open_cells = np.zeros(len(rows)), []
    for one in rounds:
        matrix = averages(rows, masses, one)
        fits = np.abs(matrix @ rows - one.means).max(axis=1) <= 1e-7 * scale
        inside += (matrix * one.weights[:, None])[fits].sum(axis=0)
        open_cells.append(~fits)
    share = inside * len(rows) / len(rounds)
    return share > 0.5, np.flatnonzero(np.concatenate(open_cells))


def determined(rows: Array, rounds: Sequence[Round]) -> np.ndarray:
    """Which rows the means tie down, given the plans (n,)."""
    masses = np.full(len(rows), 1.0 / len(rows))
    matrix = np.vstack([averages(rows, masses, one) for one in rounds])
    _, values, vectors = np.linalg.svd(matrix, full_matrices=True)
    rank = int((values > 1e-9 * values[0]).sum())
    free = vectors[rank:]
    return np.abs(free).max(axis=0, initial=0.0) <= 1e-8


def shares_determined(
    rows: Array, rounds: Sequence[Round], *, moments: bool
) -> tuple[float, float]:
    """Share of records that the means tie down given the plans, and share that nothing does.

    The second is 0 where the mean and covariance that were told may tie down what is left: they
    are d (d + 1) / 2 equations for d numbers a direction that is left open. Where these are
    more, other records near by give the same messages: plans do not change at once.
    """
    masses = np.full(len(rows), 1.0 / len(rows))
    matrix = np.vstack([averages(rows, masses, one) for one in rounds])
    _, values, vectors = np.linalg.svd(matrix, full_matrices=True)
    free = vectors[int((values > 1e-9 * values[0]).sum()) :]
    tied = float(np.mean(np.abs(free).max(axis=0, initial=0.0) <= 1e-8))
    d = rows.shape[1]
    enough = moments and 2 * len(free) <= d + 1
    return tied, 0.0 if enough else 1.0 - tied


def sorted_rows(one: Round, records: int) -> Array | None:
    """One feature: plans sort, so the means are linear in the sorted records."""
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
