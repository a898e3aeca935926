"""Real tables in their own units, with a class of each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from evidence.common import Array, Context, Labels, MissingError

# Columns with fewer values are no places for a shift of a number.
_FEWEST_VALUES = 10
# Categories that fewer records have get no column.
_RAREST = 0.05
_MOST_ROWS = 4000


@dataclass(frozen=True)
class RealTable:
    """A table: records (n, d), their classes (n,), and the columns that are numbers."""

    name: str
    x: Array
    y: Labels
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, name: str, x: Array, y: Labels) -> RealTable:
        """Leave out constant columns, and put the records in random order."""
        order = np.random.default_rng([7, 3]).permutation(len(x))[:_MOST_ROWS]
        x = x[:, np.ptp(x[order], axis=0) > 0][order]
        values = [len(np.unique(column)) for column in x.T]
        fewest = min(_FEWEST_VALUES, max(values))
        numbers = tuple(k for k, count in enumerate(values) if count >= fewest)
        return cls(name, x, y[order], numbers)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [f"x{k}" for k in range(self.x.shape[1])]

    def draw(self, rng: np.random.Generator, *sizes: int) -> list[tuple[Array, Labels]]:
        """Draw disjoint samples, smaller ones where the table is short."""
        order = rng.permutation(len(self.x))
        scale = min(1.0, len(self.x) / sum(sizes))
        ends = np.cumsum([int(scale * size) for size in sizes])
        return [(self.x[rows], self.y[rows]) for rows in np.split(order, ends)[: len(sizes)]]


def tables(context: Context, most: int) -> Iterator[RealTable]:
    """Yield the tables; a line says which are skipped for want of data."""
    for name in list(_SOURCES)[:most]:
        try:
            yield RealTable.of(name, *_SOURCES[name](context))
        except MissingError as missing:
            context.say(f"{name}: skipped, {missing}")


def _bundled(load: Callable[..., Any]) -> tuple[Array, Labels]:
    x, y = load(return_X_y=True)
    classes = np.asarray(y, dtype=np.float64)
    if len(np.unique(classes)) > _FEWEST_VALUES:
        # A number to predict: above or below its median.
        classes = classes > np.median(classes)
    return np.asarray(x, dtype=np.float64), classes.astype(np.int64)


def _stored(context: Context, folder: str, stem: str, target: str) -> tuple[Array, Labels]:
    rows = [row for row in context.table(folder, stem) if "?" not in row.values()]
    parts: list[Array] = []
    for name in rows[0]:
        if name in (target, "ID", "split", "fnlwgt", "native_country"):
            continue
        texts = np.array([row[name] for row in rows])
        try:
            parts.append(texts.astype(np.float64))
        except ValueError:
            kinds, counts = np.unique(texts, return_counts=True)
            parts += [(texts == kind) * 1.0 for kind in kinds[counts >= _RAREST * len(texts)]]
    classes = np.unique([row[target] for row in rows], return_inverse=True)[1]
    return np.stack(parts, axis=1), classes.astype(np.int64)


def _small(stem: str) -> Callable[[Context], tuple[Array, Labels]]:
    return lambda context: _stored(context, "uci_small", stem, "target")


_SOURCES: Mapping[str, Callable[[Context], tuple[Array, Labels]]] = {
    "breast cancer": lambda _: _bundled(load_breast_cancer),
    "diabetes": lambda _: _bundled(load_diabetes),
    "digits": lambda _: _bundled(load_digits),
    "banknote": _small("banknote_authentication"),
    "pima": _small("pima-indians-diabetes"),
    "white wine": _small("winequality-white"),
    "german credit": _small("german"),
    "mammography": _small("mammography"),
    "wisconsin": _small("breast-cancer-wisconsin"),
    "adult": lambda context: _stored(context, "adult", "adult", "income"),
    "credit default": lambda context: _stored(
        context, "credit_default", "credit_default", "default.payment.next.month"
    ),
    "card fraud": lambda context: _stored(context, "creditcard_fraud", "creditcard_fraud", "Class"),
}
