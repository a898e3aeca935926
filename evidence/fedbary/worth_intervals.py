"""Whether intervals of worth hold, ties are declared, and chance is called chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

import silot
from evidence.common import Array, Context, Labels, columns, mean, stream
from evidence.fedbary._data import Pool, adult, by_column, credit, digits, wrong_labels
from evidence.report import Claim, Judged, Report, Table, number, pick, spread, verdict
from silot import Measure
from silot_transport import exact_plan
from silot_transport.classwise import class_distances, labelled_plan

OPEN = Claim("what sampling leaves open is not ranked", "0 pairs in the wrong order (a wish)")
CHANCE = Claim("two samples of one distribution are not distinguishable", "95 % of draws (a wish)")
SMALL_FAIR = Claim(
    "small holders with the same distribution rank no worse",
    "Spearman of size and corrected distance near 0 (a wish)",
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
QUICK = {"DRAWS": (4,), "SEEDS": (1,)}


def run(context: Context) -> Report:
    draws, seeds = context.size(DRAWS), context.size(SEEDS)
    pools = [*(_small(context, name) for name in _SMALL), digits(), adult(context), credit(context)]
    coverage: dict[str, list[float]] = {}
    ordered: dict[str, tuple[int, int]] = {}
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
    tables = [
        Table(
            "Draws whose 95 % interval covers the distance of the pool.",
            ["data", *map(str, SETTINGS)],
            [[name, *(f"{value:.0%}" for value in row)] for name, row in coverage.items()],
        ),
        Table(
            "Wrong labels: pairs told apart in the wrong order; false alarms; mean Spearman of "
            "size with the corrected distance and with the distance as it is.",
            ["data", "wrong pairs", "of", "false alarms", "size, corrected", "size, as it is"],
            [
                [name, *map(str, ordered[name]), f"{alarms[name]:.0%}",
                 *(f"{value:.2f}" for value in sizes[name])]
                for name in ordered
            ],
        ),
    ]  # fmt: skip
    return Report(
        title="Worth with intervals",
        about="`value_holders(..., faults=False)`: intervals of corrected distances against the "
        "distance of the pool that records were drawn from; the order of holders with wrong "
        "labels; verdicts on two samples of one distribution.",
        setup=[
            f"Tables that were not used to choose anything. Validation: 200 records (a fifth of "
            f"small tables); pool: all others, {_LARGEST_POOL} at most; {draws} draws with "
            "replacement for each setting: a share has a standard error of about "
            f"{(0.93 * 0.07 / draws) ** 0.5:.1%}. Truth: the distance of the pool to the same "
            "validation records. Weights: drawn from a gamma law of shape 2. Labels: by class, "
            "`class_tolerance=0`.",
            f"Order: five holders of a seventh of the table (200 at most), labels wrong in 0, 5, "
            f"10, 15, 20 %, {seeds} seeds; two holders are told apart when their ranges of ranks "
            "say so for this pair.",
            "False alarms: a holder and validation data drawn apart from one table, 60 to 100 "
            "records each.",
            "Sizes: holders with the same distribution with 30 to 300 records (a quarter of small "
            "tables), "
            f"{4 * seeds} seeds: mean Spearman of size and distance.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of both tables."""
    cells = [number(row[str(setting)]) for row in pick(tables, str(SETTINGS[0]))
             for setting in SETTINGS]  # fmt: skip
    within = sum(_LOW <= value <= _HIGH for value in cells)
    rows = pick(tables, "wrong pairs", "of", "false alarms", "size, corrected")
    wrong, pairs = (sum(int(row[name]) for row in rows) for name in ("wrong pairs", "of"))
    alarms = [number(row["false alarms"]) for row in rows]
    slopes, plain = ([float(row[f"size, {k}"]) for row in rows] for k in ("corrected", "as it is"))
    return [
        Claim("intervals cover the pool's distance", "85 to 97 % of draws (a wish)").judged(
            f"{within} of {len(cells)} settings within; mean {mean(cells):.1%}, "
            f"{spread(cells, '.0%')}",
            verdict(
                within == len(cells),
                partly=_LOW <= mean(cells) <= _HIGH and within >= 0.8 * len(cells),
            ),
            "Chance alone moves the share of a setting, see the set-up.",
        ),
        OPEN.judged(
            f"{wrong} of {pairs} pairs told apart in the wrong order",
            verdict(wrong == 0, partly=wrong <= 0.05 * pairs),
            "Ranks say where sampling leaves the order open; that is no agreement with the noise "
            "([worth](records-worth.md)).",
        ),
        CHANCE.judged(
            f"called different in {spread(alarms, '.0%')}",
            verdict(max(alarms) <= 0.1, partly=mean(alarms) <= 0.08),
        ),
        SMALL_FAIR.judged(
            f"{spread(slopes, '.2f')} (distance as it is: {spread(plain, '.2f')})",
            verdict(max(map(abs, slopes)) <= 0.3, partly=abs(mean(slopes)) <= 0.3),
        ),
    ]


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
            {"h": own}, validation, labels=setting.labelled, class_tolerance=0.0, faults=False
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


def _order(pool: Pool, k: int, seeds: int) -> tuple[int, int]:
    """Pairs of holders told apart in the wrong order, and all pairs."""
    size = min(len(pool.x) // 7, 200)
    wrong = pairs = 0
    for seed in range(seeds):
        rng = stream(92, k, seed)
        *parts, (x, y) = pool.draw(rng, *[size] * 5, min(len(pool.x) // 5, 300))
        noisy = [(a, wrong_labels(rng, b, _NOISE[i])[0]) for i, (a, b) in enumerate(parts)]
        holders = {f"h{i}": Measure(a, labels=b) for i, (a, b) in enumerate(noisy)}
        validation = Measure(x, labels=y)
        found = silot.value_holders(holders, validation, labels=True, faults=False).holders
        for i, a in enumerate(found):
            for b in found[i + 1 :]:
                pairs += 1
                # Told apart where one range ends before the other begins.
                wrong += (a.ranks or (0, 0))[0] > (b.ranks or (9, 9))[1]
    return wrong, pairs


def _alarms(pool: Pool, rng: np.random.Generator, draws: int) -> float:
    more = 0
    for k in range(draws):
        (x, _), (other, _) = pool.draw(rng, (60, 80, 100)[k % 3], 100)
        more += not silot.distance(x, other).indistinct
    return more / draws


def _sizes(pool: Pool, k: int, seeds: int) -> tuple[float, float]:
    most = min(300, len(pool.x) // 4)
    sizes = [round(30 * (most / 30) ** (i / 4)) for i in range(5)]
    found: list[list[float]] = []
    for seed in range(4 * seeds):
        *parts, (x, _) = pool.draw(stream(94, k, seed), *sizes, min(200, len(pool.x) // 5))
        items = silot.value_holders({str(i): a for i, (a, _) in enumerate(parts)}, x).holders
        values = [[item.corrected for item in items], [item.distance.value for item in items]]
        found.append([spearmanr(sizes, each)[0] for each in values])
    corrected, plain = np.mean(found, axis=0).tolist()
    return corrected, plain
