"""False alarms of tests, and whether the detectable shift is detected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from evidence.common import Array, stream
from evidence.verdicts._power import LEVEL
from silot_transport import (
    TwoSampleResult,
    group_histograms,
    group_samples,
    two_histograms,
    two_sample,
)

WIDE = "normal, 100 columns"
HOLDERS, HOLDER_RECORDS = 6, 40
RELEASES, RELEASED, CELLS, NOISE = 4, 1000, 32, 5.0
# Values up to which a column counts as discrete: the word of ``two_sample``.
_DISCRETE = 10

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


Alarm = Callable[[Setting, np.random.Generator, int], bool]


def two_samples_alarm(setting: Setting, rng: np.random.Generator, seed: int) -> bool:
    """Test two samples of one distribution."""
    x, y = (setting.draw(rng, size) for size in setting.sizes)
    return two_sample(x, y, level=LEVEL, detectable=False, seed=seed).verdict == "different"


def groups_alarm(setting: Setting, rng: np.random.Generator, seed: int) -> bool:
    """Group six holders of one distribution."""
    holders = [setting.draw(rng, HOLDER_RECORDS) for _ in range(HOLDERS)]
    return group_samples(holders, level=LEVEL, seed=seed).k > 1


def _count(records: Array, cells: Array, rng: np.random.Generator) -> Array:
    """Count records in the nearest of public cells, with noise."""
    nearest = cdist(records, cells).argmin(axis=1)
    return np.bincount(nearest, minlength=CELLS) + rng.normal(0.0, NOISE, CELLS)


def _releases(setting: Setting, rng: np.random.Generator, count: int) -> tuple[Array, list[Array]]:
    """Count records of several holders in the same cells."""
    cells = setting.draw(rng, CELLS)
    return cells, [_count(setting.draw(rng, RELEASED), cells, rng) for _ in range(count)]


def releases_alarm(setting: Setting, rng: np.random.Generator, seed: int) -> bool:
    """Compare two releases of one distribution."""
    cells, (x, y) = _releases(setting, rng, 2)
    result = two_histograms(cells, x, y, x_noise=NOISE, y_noise=NOISE, level=LEVEL, seed=seed)
    return result.verdict == "different"


def group_releases_alarm(setting: Setting, rng: np.random.Generator, seed: int) -> bool:
    """Group releases of one distribution."""
    cells, counts = _releases(setting, rng, RELEASES)
    noise = [NOISE] * RELEASES
    return group_histograms(cells, counts, noise=noise, level=LEVEL, seed=seed).k > 1


ALARMS: dict[str, Alarm] = {
    "two samples": two_samples_alarm,
    "groups": groups_alarm,
    "releases": releases_alarm,
    "release groups": group_releases_alarm,
}


def distributions(kind: str) -> list[str]:
    """Return the distributions that a kind of verdict is measured on."""
    # 100 columns take seconds for each draw of several holders.
    return [name for name in SETTINGS if kind == "two samples" or name != WIDE]


def count_alarms(kind: str, setting: str, draws: int, *, seed: int = 0) -> int:
    """Count false alarms of a kind of verdict on one distribution."""
    key = (242, seed, list(ALARMS).index(kind), list(SETTINGS).index(setting))
    return sum(ALARMS[kind](SETTINGS[setting], stream(*key, draw), draw) for draw in range(draws))


def _compare_released(
    cells: Array, spread: Array, rng: np.random.Generator, x: Array, y: Array, *, level: float,
    seed: int,
) -> TwoSampleResult:  # fmt: skip
    """Compare releases of two samples."""
    counts = (_count(side, cells, rng) for side in (x, y))
    return two_histograms(
        cells, *counts, x_noise=NOISE, y_noise=NOISE, spread=spread, level=level, seed=seed
    )


def count_detected(
    setting: str, draws: int, *, released: bool = False, seed: int = 0
) -> tuple[int, int, float]:
    """Apply the detectable shift of a pair to one of its columns, and test again.

    Of records, or of what is ``released`` of them: then of columns of many values alone, since
    records of categories that nobody has are in no cell.
    """
    place = list(SETTINGS).index(setting)
    chosen = SETTINGS[setting]
    sizes = (RELEASED, RELEASED) if released else chosen.sizes
    detected, shifts = 0, list[float]()
    for draw in range(draws):
        rng = stream(243, seed, place, draw, released)
        cells, spread = chosen.draw(rng, CELLS), chosen.draw(rng, RELEASED).std(axis=0)
        test = two_sample
        if released:
            test = partial(_compare_released, cells, spread, rng)
        x, y = (chosen.draw(rng, size) for size in sizes)
        shift = test(x, y, level=LEVEL, seed=draw).detectable
        # A fresh pair: the first one need not be typical of what its shift is stated for.
        x, y = (chosen.draw(rng, size) for size in sizes)
        # Of columns that vary: a rare event may be absent.
        levels = [len(np.unique(column)) for column in np.vstack([x, y]).T]
        varying = np.flatnonzero(np.array(levels) > (_DISCRETE if released else 1))
        if not np.isfinite(shift) or not len(varying):
            continue
        shifts.append(shift)
        k = int(rng.choice(varying))
        pooled = np.concatenate([x[:, k], y[:, k]])
        y[:, k] = move(y[:, k], shift * float(pooled.std()), np.unique(pooled), rng)
        detected += test(x, y, level=LEVEL, seed=draw).verdict == "different"
    return detected, len(shifts), float(np.median(shifts)) if shifts else float("inf")


def move(values: Array, by: float, levels: Array, rng: np.random.Generator) -> Array:
    """Shift values; of few levels, move records to the next one so that the mean shifts."""
    if len(levels) > _DISCRETE:
        return values + by
    place = np.searchsorted(levels, values)
    above = levels[np.minimum(place + 1, len(levels) - 1)]
    step = float((above - values).mean())
    return np.where(rng.random(len(values)) * step < by, above, values)
