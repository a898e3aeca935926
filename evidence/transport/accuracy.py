"""How far above the exact distance the protocols end, on data that ship with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from evidence.common import WALK, Array, Context
from evidence.report import Report, Table
from silot import Measure

SEEDS = range(8)
DATA = (
    "digits 300 / 300", "digits 200 / 300", "breast cancer 250 / 250",
    "breast cancer 250 / 250, weighted", "wine 60 / 118, weighted", "normal d = 50, 200 / 200",
    "normal d = 2, 100 / 100",
)  # fmt: skip


def _published(
    x: Measure, y: Measure, *, share: int = 1, **options: object
) -> silot.distances.Distance:
    """FedWaD as published, with as many atoms as the larger side has records, or a share."""
    return silot.distance(x, y, support=max(x.size, y.size) // share, **WALK, **options)


def _pooled(x: Measure, y: Measure, **options: object) -> silot.distances.Distance:
    """Half of the records of x with each of two sellers."""
    sellers = {f"s{k}": Measure(x.points[k::2], x.weights[k::2]) for k in (0, 1)}
    shares = {f"s{k}": float(x.weights[k::2].sum()) for k in (0, 1)}
    return silot.pooled_distance(sellers, y, shares=shares, **options)


SETTINGS = {
    "fedwad": partial(silot.distance, method="fedwad"),
    "fedwad as published": _published,
    "the same, t = .5": partial(_published, t=0.5),
    "the same, support / 3": partial(_published, share=3),
    "trianglewad, t = .5": partial(silot.distance, method="trianglewad"),
    "trianglewad, t = .9, barycentric": partial(
        silot.distance, method="trianglewad", t=0.9, interpolation="barycentric"
    ),
    "pooled, two sellers": _pooled,
    "pooled, two sellers, hidden t": partial(_pooled, hidden=True),
    "pooled, one seller, hidden t": lambda x, y, seed: silot.pooled_distance(
        {"s": x}, y, hidden=True, seed=seed
    ),
}
QUICK = {"SEEDS": range(1)}


def run(context: Context) -> Report:
    columns = ("data", "method", "value / W - 1", "1 - lower / W")
    return Report(
        title="How far above the exact distance the protocols end",
        about="Our own table (no paper prints it). `value / W - 1` is the overestimate, "
        "`1 - lower / W` how far the certified lower bound is below W.",
        setup=[
            f"Median and, in brackets, worst of {len(SEEDS)} draws, seeds {SEEDS[0]} to "
            f"{SEEDS[-1]}. Weights are uniform random.",
            "fedwad: default options; as published: means of records, as many atoms as the larger "
            "side has records; at most 20 rounds.",
        ],
        tables=[Table("Overestimate and bound.", columns, [r for d in DATA for r in _rows(d)])],
    )


def _rows(name: str) -> list[tuple[str, str, str, str]]:
    draws = list(_draws(name))
    exact = [silot.distance(x, y).value for x, y in draws]
    lines: list[tuple[str, str, str, str]] = []
    for label, setting in SETTINGS.items():
        results = [setting(x, y, seed=seed) for seed, (x, y) in zip(SEEDS, draws, strict=True)]
        pairs = list(zip(results, exact, strict=True))
        over = [result.value / true - 1 for result, true in pairs]
        under = [1 - result.lower / true for result, true in pairs]
        lines.append(("" if lines else name, label, _summary(over), _summary(under)))
    return lines


def _summary(values: list[float]) -> str:
    return f"{100 * np.median(values):.2f} % ({100 * max(values):.2f} %)"


def _draws(name: str) -> Iterator[tuple[Measure, Measure]]:
    n, m = (
        int(word) for word in name.split(",")[-1 if "=" in name else 0].split() if word.isdigit()
    )
    for seed in SEEDS:
        rng = np.random.default_rng(1000 + seed)
        weights = [rng.random(k) for k in (n, m)] if "weighted" in name else [None, None]
        if name.startswith("normal"):
            d = 50 if "50" in name else 2
            x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + rng.uniform(0, 3, size=d)
        else:
            table = _table(name)
            order = rng.permutation(len(table))
            x, y = table[order[:n]], table[order[n : n + m]]
        yield Measure(x, weights[0]), Measure(y, weights[1])


def _table(name: str) -> Array:
    if name.startswith("digits"):
        return load_digits(return_X_y=True)[0] / 16.0
    table = (load_wine if name.startswith("wine") else load_breast_cancer)(return_X_y=True)[0]
    return (table - table.mean(axis=0)) / table.std(axis=0)
