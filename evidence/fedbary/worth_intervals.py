"""Whether intervals of worth hold, ties are declared, and chance is called chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

import silot
from evidence.common import (
    Array,
    Claim,
    Context,
    Labels,
    Report,
    Table,
    columns,
    spread,
    stream,
    verdict,
)
from evidence.fedbary._data import Pool, adult, by_column, credit, digits, wrong_labels
from silot import Measure
from silot_transport import exact_plan
from silot_transport.classwise import class_distances, labelled_plan

COVER = Claim("intervals cover the distance of the pool", "85 to 97 % of draws")
FOLLOWS = Claim("worth follows label noise, or ties are declared", "Spearman of .9, or ties")
CHANCE = Claim("two samples of one distribution are not distinguishable", "95 % of draws")
SMALL_FAIR = Claim(
    "small holders of one law rank no worse", "Spearman of size and corrected distance near 0"
)

DRAWS, SEEDS = (80, 400), (4, 20)  # as usual, and with --full
_SMALL = {
    "banknote": "banknote_authentication",
    "pima": "pima-indians-diabetes",
    "german": "german",
    "white wine": "winequality-white",
    "mammography": "mammography",
    "wisconsin": "breast-cancer-wisconsin",
}
_LARGEST_POOL = 3000
_LOW, _HIGH = 0.85, 0.97
_NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)


@dataclass(frozen=True)
class Setting:
    """Records a holder draws, and how it is compared."""

    size: int
    weighted: bool = False
    labelled: bool = False

    def __str__(self) -> str:
        more = (", weighted" if self.weighted else "") + (", labels" if self.labelled else "")
        return f"n = {self.size}{more}"


SETTINGS = (
    Setting(50), Setting(150), Setting(500), Setting(200, weighted=True),
    Setting(100, labelled=True), Setting(300, labelled=True),
)  # fmt: skip


def run(context: Context) -> Report:
    """Measure coverage, order, and false alarms."""
    draws, seeds = context.size(DRAWS), context.size(SEEDS)
    pools = [*(_small(context, name) for name in _SMALL), digits(), adult(context), credit(context)]
    coverage: dict[str, list[float]] = {}
    ordered: dict[str, tuple[float, float, int, int]] = {}
    alarms: dict[str, float] = {}
    sizes: dict[str, tuple[float, float]] = {}
    for k, pool in enumerate(pools):
        coverage[pool.name] = [
            _coverage(pool, setting, stream(91, k, i), draws) for i, setting in enumerate(SETTINGS)
        ]
        ordered[pool.name] = _order(pool, k, seeds)
        alarms[pool.name] = _alarms(pool, stream(93, k), draws)
        sizes[pool.name] = _sizes(pool, k, seeds)
        context.say(f"{pool.name}: {coverage[pool.name]} {ordered[pool.name]} {alarms[pool.name]}")
    cells = [value for row in coverage.values() for value in row]
    within = sum(_LOW <= value <= _HIGH for value in cells)
    kept = [row[0] >= 0.9 or row[2] == 0 for row in ordered.values()]
    slopes = [row[0] for row in sizes.values()]
    return Report(
        title="Worth with intervals",
        about="Intervals of corrected distances against the distance of the pool that records were "
        "drawn from; the order of holders with wrong labels; verdicts on two samples of one "
        "distribution.",
        setup=[
            f"Tables that were not used to choose anything. Validation: 200 records (a fifth of "
            f"small tables); pool: all others, {_LARGEST_POOL} at most; {draws} draws with "
            "replacement for each setting. Truth: the distance of the pool to the same validation "
            "records. Weights: drawn from a gamma law of shape 2. Labels: by class, "
            "`class_tolerance=0`.",
            f"Order: five holders of a seventh of the table (200 at most), labels wrong in 0, 5, "
            f"10, 15, 20 %, {seeds} seeds; two holders are told apart when their ranges of ranks "
            "say so for this pair.",
            "False alarms: a holder and validation data drawn apart from one table, 60 to 100 "
            "records each.",
            f"Sizes: holders of one law with 30 to 300 records (a quarter of small tables), "
            f"{4 * seeds} seeds: mean Spearman of size and distance.",
        ],
        claims=[
            COVER.judged(
                f"{within} of {len(cells)} settings within; mean {np.mean(cells):.1%}, "
                f"{spread(cells, '.0%')}",
                verdict(
                    within == len(cells),
                    partly=_LOW <= float(np.mean(cells)) <= _HIGH and within >= 0.8 * len(cells),
                ),
                f"A proportion of {draws} draws has a standard error of about "
                f"{(0.93 * 0.07 / draws) ** 0.5:.1%}.",
            ),
            FOLLOWS.judged(
                f"Spearman {spread([row[0] for row in ordered.values()], '.2f')}; "
                f"{sum(row[2] for row in ordered.values())} of "
                f"{sum(row[3] for row in ordered.values())} pairs told apart in the wrong order",
                verdict(all(kept), partly=sum(kept) >= 0.8 * len(kept)),
                "Where the order is wrong chance leaves it open, and ranks say so.",
            ),
            CHANCE.judged(
                f"called different in {spread(list(alarms.values()), '.0%')}",
                verdict(
                    max(alarms.values()) <= 0.1,
                    partly=float(np.mean(list(alarms.values()))) <= 0.08,
                ),
            ),
            SMALL_FAIR.judged(
                f"{spread(slopes, '.2f')} (distance as it is: "
                f"{spread([row[1] for row in sizes.values()], '.2f')})",
                verdict(max(map(abs, slopes)) <= 0.3, partly=abs(float(np.mean(slopes))) <= 0.3),
            ),
        ],
        tables=[
            Table(
                "Draws whose 95 % interval covers the distance of the pool.",
                ["table", *map(str, SETTINGS)],
                [[name, *(f"{value:.0%}" for value in row)] for name, row in coverage.items()],
            ),
            Table(
                "Wrong labels: mean Spearman of the noise with the corrected distance and with the "
                "distance as it is, pairs told apart in the wrong order; false alarms and size.",
                [
                    "table", "corrected", "as it is", "wrong pairs", "of", "false alarms",
                    "size, corrected", "size, as it is",
                ],
                [
                    [
                        name, f"{row[0]:.2f}", f"{row[1]:.2f}", str(row[2]), str(row[3]),
                        f"{alarms[name]:.0%}", f"{sizes[name][0]:.2f}", f"{sizes[name][1]:.2f}",
                    ]
                    for name, row in ordered.items()
                ],
            ),
        ],
    )  # fmt: skip


def _small(context: Context, name: str) -> Pool:
    rows = context.table("uci_small", _SMALL[name])
    y = np.unique([row["target"] for row in rows], return_inverse=True)[1].astype(np.int64)
    x = by_column(columns(rows))
    order = np.random.default_rng([7, 1]).permutation(len(x))
    return Pool(name, x[order], y[order])


def _coverage(pool: Pool, setting: Setting, rng: np.random.Generator, draws: int) -> float:
    order = rng.permutation(len(pool.x))[: _LARGEST_POOL + 200]
    held = min(200, len(order) // 5)
    target, rest = order[:held], order[held:]
    validation = Measure(pool.x[target], labels=pool.y[target])
    masses = rng.gamma(2.0, size=len(rest)) if setting.weighted else np.ones(len(rest))
    truth = _distance(pool, target, rest, masses / masses.sum(), labelled=setting.labelled)
    hits = 0
    for _ in range(draws):
        drawn = rng.integers(0, len(rest), setting.size)
        own = Measure(pool.x[rest[drawn]], masses[drawn], pool.y[rest[drawn]])
        found = silot.value_holders(
            {"h": own}, validation, labels=setting.labelled, class_tolerance=0.0
        )["h"]
        low, high = found.interval or (0.0, 0.0)
        hits += low <= truth <= high
    return hits / draws


def _distance(pool: Pool, target: Labels, rest: Labels, masses: Array, *, labelled: bool) -> float:
    x, y = pool.x[rest], pool.x[target]
    load = np.full(len(target), 1.0 / len(target))
    if not labelled:
        return exact_plan(x, y, masses, load).distance
    kinds, codes = np.unique(pool.y[target], return_inverse=True)
    shared = np.isin(pool.y[rest], kinds)
    # A class that validation data lack has no distance but by its records: left out of the pool.
    x, masses = x[shared], masses[shared] / masses[shared].sum()
    own = np.searchsorted(kinds, pool.y[rest][shared])
    metric = class_distances(y, load, codes.astype(np.int64), len(kinds))
    return labelled_plan(x, y, masses, load, metric[np.ix_(own, codes)] ** 2)[0].cost ** 0.5


def _order(pool: Pool, k: int, seeds: int) -> tuple[float, float, int, int]:
    size = min(len(pool.x) // 7, 200)
    corrected: list[float] = []
    raw: list[float] = []
    wrong = pairs = 0
    for seed in range(seeds):
        rng = stream(92, k, seed)
        *parts, (x, y) = pool.draw(rng, *[size] * 5, min(len(pool.x) // 5, 300))
        holders = {
            f"h{i}": Measure(a, labels=wrong_labels(rng, b, _NOISE[i])[0])
            for i, (a, b) in enumerate(parts)
        }
        found = silot.value_holders(holders, Measure(x, labels=y), labels=True).holders
        corrected.append(float(spearmanr(_NOISE, [item.corrected for item in found])[0]))
        raw.append(float(spearmanr(_NOISE, [item.distance.value for item in found])[0]))
        for i, a in enumerate(found):
            for b in found[i + 1 :]:
                pairs += 1
                # Told apart where one range ends before the other begins.
                wrong += (a.ranks or (0, 0))[0] > (b.ranks or (9, 9))[1]
    return float(np.mean(corrected)), float(np.mean(raw)), wrong, pairs


def _alarms(pool: Pool, rng: np.random.Generator, draws: int) -> float:
    more = 0
    for k in range(draws):
        size = (60, 80, 100)[k % 3]
        (x, _), (other, _) = pool.draw(rng, size, 100)
        distance = silot.distance(x, other)
        more += not distance.indistinct
    return more / draws


def _sizes(pool: Pool, k: int, seeds: int) -> tuple[float, float]:
    most = min(300, len(pool.x) // 4)
    sizes = [round(30 * (most / 30) ** (i / 4)) for i in range(5)]
    found: list[tuple[float, float]] = []
    for seed in range(4 * seeds):
        *parts, (x, _) = pool.draw(stream(94, k, seed), *sizes, min(200, len(pool.x) // 5))
        items = silot.value_holders({str(i): a for i, (a, _) in enumerate(parts)}, x).holders
        found.append(
            (
                float(spearmanr(sizes, [item.corrected for item in items])[0]),
                float(spearmanr(sizes, [item.distance.value for item in items])[0]),
            )
        )
    means = np.mean(found, axis=0)
    return float(means[0]), float(means[1])
