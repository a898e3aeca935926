"""Holders whose records are all sound: how many of them are flagged all the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer

import silot
from evidence.common import Array, Labels, stream
from silot import Measure
from silot.errors import InputError

LAWS = ("normal", "lognormal", "t3", "breast cancer")
SIZES = (50, 100, 200, 500)
FEW = (20, 49)
HELD = 100
FEATURES = 8
FDR = 0.1


@dataclass(frozen=True)
class Level:
    """Share of sound records that are flagged.

    Attributes
    ----------
    law, size
        What the records are drawn from, and the number of validation records.
    level
        What was asked for.
    mean, error, worst
        Over the draws: mean, its standard error, maximum.
    """

    law: str
    size: int
    level: float
    mean: float
    error: float
    worst: float


def levels(draws: int) -> list[Level]:
    """Shares for all laws and sizes."""
    found: list[Level] = []
    for law in LAWS:
        for size in SIZES:
            shares = np.array([_flagged(law, size, draw) for draw in range(draws)])
            error = float(shares.std(ddof=1)) / draws**0.5
            found.append(Level(law, size, FDR, float(shares.mean()), error, float(shares.max())))
    return found


def refusals() -> dict[int, str]:
    """Codes of the refusals with too few validation records."""
    found: dict[int, str] = {}
    for size in FEW:
        codes: set[str] = set()
        for law in LAWS:
            try:
                _flagged(law, size, 0)
                codes.add("not refused")
            except InputError as error:
                codes.add(error.code)
        found[size] = ", ".join(sorted(codes))
    return found


def _flagged(law: str, size: int, draw: int) -> float:
    rng = stream(27, LAWS.index(law), size, draw)
    x, y = _records(law, size + HELD, rng)
    mine = Measure(x[size:], labels=None if y is None else y[size:])
    validation = Measure(x[:size], labels=None if y is None else y[:size])
    result = silot.value_records(mine, validation, labels=y is not None, fdr=FDR, seed=draw)
    return float(result.flagged.mean())


def _records(law: str, count: int, rng: np.random.Generator) -> tuple[Array, Labels | None]:
    shape = (count, FEATURES)
    if law == "normal":
        return rng.standard_normal(shape), None
    if law == "lognormal":
        return rng.lognormal(size=shape), None
    if law == "t3":
        return rng.standard_t(3, size=shape), None
    bunch = load_breast_cancer(return_X_y=True)
    x, y = np.asarray(bunch[0], dtype=np.float64), np.asarray(bunch[1], dtype=np.int64)
    chosen = rng.permutation(len(x))[:count]
    return x[chosen], y[chosen]
