"""Distributions that samples of a test are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evidence.common import Array

Draw = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True)
class Setting:
    """A distribution, and the numbers of records of two samples."""

    draw: Draw
    sizes: tuple[int, int] = (100, 100)


def _normal(columns: int) -> Draw:
    return lambda rng, n: rng.standard_normal((n, columns))


def _categories(rng: np.random.Generator, n: int) -> Array:
    """Two columns of four categories, one-hot."""
    return np.hstack([np.eye(4)[rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])] for _ in range(2)])


def _rare(rng: np.random.Generator, n: int) -> Array:
    # A rare event alone has too few divisions for any level: a number stands beside it.
    return np.column_stack([rng.random(n) < 0.01, rng.standard_normal(n)]).astype(np.float64)


SETTINGS: Mapping[str, Setting] = {
    "normal": Setting(_normal(3)),
    "Student's t, 3 degrees": Setting(lambda rng, n: rng.standard_t(3, (n, 3))),
    "lognormal": Setting(lambda rng, n: rng.lognormal(size=(n, 3))),
    "one-hot categories": Setting(_categories),
    "counts with ties": Setting(lambda rng, n: rng.poisson(1.0, (n, 3)).astype(np.float64)),
    "rare event, 1 %": Setting(_rare, (300, 300)),
    "normal, 100 columns": Setting(_normal(100), (60, 60)),
    "normal, 30 against 300": Setting(_normal(3), (30, 300)),
}
