"""Changes that are planted into one of two samples of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evidence.common import Array, Labels
from evidence.verdicts._tables import RealTable

WIDE = 100
"""Columns of the wide table: one of them moves."""


@dataclass(frozen=True)
class Pair:
    """Two samples, with labels where the change is of them, and the column that changed."""

    x: Array
    y: Array
    x_labels: Labels | None = None
    y_labels: Labels | None = None
    column: int | None = None


Change = Callable[[RealTable, np.random.Generator, int], Pair]


def _halves(table: RealTable, rng: np.random.Generator, size: int) -> tuple[Array, Array, int]:
    """Draw two samples, and a column that is a number."""
    (x, _), (y, _) = table.draw(rng, size, size)
    return x, y.copy(), int(rng.choice(table.numbers))


def none(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Change nothing."""
    x, y, _ = _halves(table, rng, size)
    return Pair(x, y)


def _of_column(
    change: Callable[[Array, Array, np.random.Generator], object], *, is_moved: bool = True
) -> Change:
    """Change a column in place by its values in the whole table; ``is_moved``: it can be seen."""

    def changed(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
        x, y, k = _halves(table, rng, size)
        change(y[:, k], table.x[:, k], rng)
        return Pair(x, y, column=k if is_moved else None)

    return changed


def _mean(values: Array, every: Array, _: np.random.Generator) -> None:
    values += 0.3 * every.std()


def _scale(values: Array, every: Array, _: np.random.Generator) -> None:
    values[:] = np.median(every) + 1.35 * (values - np.median(every))


def _tail(values: Array, every: Array, rng: np.random.Generator) -> None:
    """Put values of 6 % of the records 4 standard deviations from the mean, on both sides."""
    few = rng.permutation(len(values))[: round(0.06 * len(values))]
    values[few] = every.mean() + rng.choice([-4.0, 4.0], len(few)) * every.std()


def _shuffled(values: Array, _: Array, rng: np.random.Generator) -> None:
    """Shuffle a column: it no longer goes with the others."""
    values[:] = rng.permutation(values)


def _outlier(values: Array, every: Array, rng: np.random.Generator) -> None:
    """Move a column, and put one of its values 50 standard deviations away."""
    values += 0.3 * every.std()
    values[rng.integers(len(values))] -= 50.0 * every.std()


def _one_of_many(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Move one of 100 columns: those of the table, and shuffled copies of its numbers."""
    x, y, k = _halves(table, rng, size)
    copies = rng.choice(table.numbers, max(WIDE - x.shape[1], 0))
    x, y = (
        np.hstack([side, rng.permuted(table.x[:, copies], axis=0)[: len(side)]]) for side in (x, y)
    )
    y[:, k] += 0.4 * table.x[:, k].std()
    return Pair(x, y, column=k)


def _swapped(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Exchange two columns in 10 % of the records."""
    x, y, k = _halves(table, rng, size)
    other = int(rng.choice([j for j in table.numbers if j != k] or [k]))
    rows = rng.permutation(len(y))[: round(0.1 * len(y))]
    y[rows, k], y[rows, other] = y[rows, other], y[rows, k]
    return Pair(x, y)


def _contaminated(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Add noise of 3 standard deviations to all numbers of 5 % of the records."""
    x, y, _ = _halves(table, rng, size)
    rows, columns = rng.permutation(len(y))[: round(0.05 * len(y))], list(table.numbers)
    noise = rng.standard_normal((len(rows), len(columns))) * table.x[:, columns].std(axis=0)
    y[rows[:, None], columns] += 3.0 * noise
    return Pair(x, y)


def _shares(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Draw one class half as often again as the others."""
    order = rng.permutation(len(table.x))
    size = min(size, len(order) // 3)
    rows, others = order[:size], order[size:]
    weights = np.where(table.y[others] == rng.choice(table.y), 1.7, 1.0)
    # A record drawn twice would give the second sample away to whoever looks for copies.
    drawn = rng.choice(others, size, replace=False, p=weights / weights.sum())
    return Pair(table.x[rows], table.x[drawn], table.y[rows], table.y[drawn])


def _renamed(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Call 15 % of the records by the next class."""
    (x, a), (y, b) = table.draw(rng, size, size)
    rows = rng.permutation(len(b))[: round(0.15 * len(b))]
    b = b.copy()
    b[rows] = (b[rows] + 1) % (table.y.max() + 1)
    return Pair(x, y, a, b)


def _rotated(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Rotate two standardised columns by 20 degrees."""
    x, y, k = _halves(table, rng, size)
    other = int(rng.choice([j for j in table.numbers if j != k] or [k]))
    two = [k, other]
    middle, scale = table.x[:, two].mean(axis=0), table.x[:, two].std(axis=0)
    angle = np.pi / 9
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    y[:, two] = (y[:, two] - middle) / scale @ turn * scale + middle
    return Pair(x, y)


def _missing(table: RealTable, rng: np.random.Generator, size: int) -> Pair:
    """Lose values of a column: 4 % in one sample, 11 % in the other."""
    x, y, k = _halves(table, rng, size)
    x = x.copy()
    x[rng.random(len(x)) < 0.04, k] = np.nan
    y[rng.random(len(y)) < 0.11, k] = np.nan
    return Pair(x, y, column=k)


CHANGES: Mapping[str, Change] = {
    "mean of a column, .3 sd": _of_column(_mean),
    "scale of a column, 1.35": _of_column(_scale),
    "tail, 6 % at 4 sd": _of_column(_tail),
    "one of 100 columns, .4 sd": _one_of_many,
    "column shuffled": _of_column(_shuffled, is_moved=False),
    "pair swapped, 10 %": _swapped,
    "5 % contaminated, 3 sd": _contaminated,
    "class shares, 1.7": _shares,
    "renamed classes, 15 %": _renamed,
    "two columns rotated, 20°": _rotated,
    "outlier and shift, .3 sd": _of_column(_outlier),
    "missing, 4 against 11 %": _missing,
}
