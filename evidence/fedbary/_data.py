"""Labelled records for the valuation reports, and the noise that is put into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from evidence.common import Array, Context, Images, Labels, columns

EMBEDDED = 64
STRONG = 4.0
"""N(0, 1) on pixels from 0 to 1, as images are usually stored: about four times their spread."""

# Tables are long; so many rows are enough for every draw.
_ROWS = 12_000


@dataclass(frozen=True)
class Pool:
    """Labelled records from which reports draw disjoint samples.

    Images have mean 0 and variance 1 over all pixels or coordinates, tables in every column.
    """

    name: str
    x: Array
    y: Labels

    def draw(
        self, rng: np.random.Generator, *sizes: int, by_class: bool = False
    ) -> list[tuple[Array, Labels]]:
        """Disjoint samples; with ``by_class`` all with the same number of records a class."""
        order = rng.permutation(len(self.x))
        if by_class:
            # Records in turn by class: any stretch of it has every class equally often.
            place = np.empty(len(order), dtype=np.int64)
            for label in np.unique(self.y):
                members = order[self.y[order] == label]
                place[members] = np.arange(len(members))
            order = order[np.lexsort((self.y[order], place[order]))]
        found, start = [], 0
        for size in sizes:
            chosen = rng.permutation(order[start : start + size])
            found.append((self.x[chosen], self.y[chosen]))
            start += size
        return found

    def coded(self) -> Pool:
        """The same, with classes 0, 1, ..."""
        return replace(self, y=np.unique(self.y, return_inverse=True)[1])


def digits() -> Pool:
    """Digits of 8 x 8 pixels (scikit-learn)."""
    x, y = load_digits(return_X_y=True)
    return Pool("digits", _one_scale(x), y.astype(np.int64))


def pixels(context: Context, folder: str, *, halved: bool = False) -> Pool:
    """Training images, pixel by pixel; ``halved`` takes the means of 2 x 2 pixels."""
    images, labels = context.images(folder)
    images, labels = images[:_ROWS], labels[:_ROWS]
    if halved:
        n, height, width = images.shape[:3]
        blocks = images.reshape(n, height // 2, 2, width // 2, 2, -1)
        return Pool(f"{folder}, half size", _one_scale(_flat(blocks.mean(axis=(2, 4)))), labels)
    return Pool(f"{folder}, pixels", _one_scale(_flat(images)), labels)


def embedded(context: Context, folder: str) -> Pool:
    """Training images in the first principal components of test images, used for nothing else."""
    images, labels = context.images(folder)
    public, _ = context.images(folder, "test")
    seen = _flat(public[:2000])
    mean = seen.mean(axis=0)
    directions = np.linalg.svd(seen - mean, full_matrices=False)[2][:EMBEDDED]
    x = (_flat(images[:_ROWS]) - mean) @ directions.T
    return Pool(f"{folder}, PCA-{EMBEDDED}", _one_scale(x), labels[:_ROWS])


def adult(context: Context) -> Pool:
    """Census records: numbers, and one column for each value that 1 % of them have."""
    rows = _shuffled(context.table("adult"))
    numbers = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    texts = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")
    parts = [np.array([float(row[name]) for row in rows]) for name in numbers]
    for name in texts:
        values = np.array([row[name] for row in rows])
        kinds, counts = np.unique(values, return_counts=True)
        parts += [(values == kind) * 1.0 for kind in kinds[counts >= 0.01 * len(rows)]]
    y = np.array([row["income"].startswith(">") for row in rows]).astype(np.int64)
    return Pool("adult", by_column(np.stack(parts, axis=1)), y)


def credit(context: Context) -> Pool:
    """Credit card clients and whether they defaulted."""
    rows = _shuffled(context.table("credit_default"))
    target = "default.payment.next.month"
    names = [name for name in rows[0] if name not in ("ID", target)]
    x = np.array([[float(row[name]) for name in names] for row in rows])
    y = np.array([int(row[target]) for row in rows], dtype=np.int64)
    return Pool("credit default", by_column(x), y)


def table(context: Context, stem: str, name: str) -> Pool:
    """A small table of the UCI repository; texts are one column a value."""
    rows = [row for row in context.table("uci_small", stem) if "?" not in row.values()]
    y = np.array([int(row["target"]) for row in rows], dtype=np.int64)
    return Pool(name, by_column(columns(rows)), y)


def wine(context: Context) -> Pool:
    """White wines whose quality is poor (5 or less), middling (6) or good (7 or more)."""
    pool = table(context, "winequality-white", "wine quality")
    return replace(pool, y=np.clip(pool.y, 5, 7))


def wrong_labels(rng: np.random.Generator, y: Labels, share: float) -> tuple[Labels, Labels]:
    """Labels of which a share is wrong, and which records those are (0 or 1)."""
    bad = _some(rng, len(y), share)
    classes = np.unique(y)
    found = y.copy()
    places = np.flatnonzero(bad)
    codes = np.searchsorted(classes, y[places])
    moved = (codes + rng.integers(1, len(classes), len(places))) % len(classes)
    found[places] = classes[moved]
    return found, bad


def noisy_features(
    rng: np.random.Generator, x: Array, share: float, deviation: float = 1.0
) -> tuple[Array, Labels]:
    """Records of which a share has normal noise added, and which those are."""
    bad = _some(rng, len(x), share)
    found = x + bad[:, None] * deviation * rng.standard_normal(x.shape)
    return found, bad


def with_fault(
    rng: np.random.Generator, kind: str, x: Array, y: Labels, share: float
) -> tuple[Array, Labels, Labels]:
    """Wrong labels, or noise (``"strong features"``: of more deviation), and which have it."""
    if kind == "labels":
        return x, *wrong_labels(rng, y, share)
    x, bad = noisy_features(rng, x, share, STRONG if kind == "strong features" else 1.0)
    return x, y, bad


def _some(rng: np.random.Generator, size: int, share: float) -> Labels:
    bad = np.zeros(size, dtype=np.int64)
    bad[rng.permutation(size)[: round(share * size)]] = 1
    return bad


def _shuffled(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    order = np.random.default_rng([7, 0]).permutation(len(rows))[:_ROWS]
    return [rows[k] for k in order.tolist()]


def _flat(images: Images | Array) -> Array:
    return np.asarray(images.reshape(len(images), -1) / 255.0)


def _one_scale(x: Array) -> Array:
    x = np.asarray(x, dtype=np.float64)
    centred = x - x.mean(axis=0)
    return centred / centred.std()


def by_column(x: Array) -> Array:
    """Every column with mean 0 and variance 1; constant ones are left out."""
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]


def _breast_cancer(_: Context) -> Pool:
    x, y = load_breast_cancer(return_X_y=True)
    return Pool("breast cancer", by_column(np.asarray(x)), np.asarray(y, np.int64))


def _small(stem: str, name: str) -> Callable[[Context], Pool]:
    return lambda context: table(context, stem, name)


TABLES: Mapping[str, Callable[[Context], Pool]] = {
    "breast cancer": _breast_cancer,
    "digits": lambda _: digits(),
    "pima": _small("pima-indians-diabetes", "pima"),
    "german": _small("german", "german"),
    "banknote": _small("banknote_authentication", "banknote"),
    "wisconsin": _small("breast-cancer-wisconsin", "wisconsin"),
    "wine quality": wine,
    "adult": adult,
    "credit default": credit,
}
"""Nine labelled tables, each read when it is called."""
