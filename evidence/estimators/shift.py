"""Tests of a shift: the level of `ShiftDetector`, and its power beside tests of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.datasets import load_breast_cancer

from evidence.common import Array, Context, Numbers, mean, stream
from evidence.report import Claim, Judged, Report, Table, every, number, pick, verdict
from evidence.verdicts import _peers as peers
from silot.estimators import ShiftDetector

LEVEL_DRAWS, POWER_DRAWS = (200, 1000), (40, 200)
FEW, MANY, WIDTH = (60, 80), (100, 100), 10
LEVEL = 0.05
DETECTOR, NAMED = "detector", "column named"
PEERS = ("kernel test", "energy distance", "forest", "KS")
Draw = Callable[[np.random.Generator, int], Array]
Shift = Callable[[Array, np.random.Generator], Array]


def _one(change: Shift) -> Shift:
    """Change the first column."""
    return lambda x, rng: np.column_stack([change(x[:, 0], rng), x[:, 1:]])


def _few(part: int, change: Shift) -> Shift:
    """Change one record of so many."""
    return lambda x, rng: np.concatenate([change(x[: len(x) // part], rng), x[len(x) // part :]])


SHIFTS: dict[str, Shift] = {
    "all columns moved by .6 in all": lambda x, _: x + 0.6 / x.shape[1] ** 0.5,
    "one column moved by .5": _one(lambda column, _: column + 0.5),
    "all columns wider by a quarter": lambda x, _: 1.25 * x,
    "one column wider by four fifths": _one(lambda column, _: 1.8 * column),
    "one record of twelve far off": _few(12, lambda x, rng: x + 4.0 * rng.standard_normal(x.shape)),
    "a sixth of the records in a group of its own": _few(6, lambda x, _: 0.3 * x + 1.2),
    # It no longer goes with the others.
    "one column shuffled": _one(lambda column, rng: rng.permutation(column)),
}


QUICK = {"LEVEL_DRAWS": (10,), "POWER_DRAWS": (4,)}


def run(context: Context) -> Report:
    count, tried = context.size(LEVEL_DRAWS), context.size(POWER_DRAWS)
    levels = {}
    for index, name in enumerate(LAWS):
        levels[name] = _level(LAWS[name], index, count)
        context.say(f"{name}: {levels[name]:.1%} alarms")
    powers: dict[str, Numbers] = {}
    seconds = dict.fromkeys((DETECTOR, *PEERS), 0.0)
    limit = _forest_limit(tried)
    for shift in SHIFTS:
        powers[shift] = _power(shift, tried, limit, seconds)
        context.say(f"{shift}: {powers[shift]}")
    rates = list(levels.values())
    held = sum(abs(rate - LEVEL) <= 0.02 for rate in rates)
    power_table = Table.of(
        "Alarms where something shifted; of the detector, how often the column that moved is among "
        "the drivers.",
        powers,
        {
            "shift": str,
            **{name: lambda shift, name=name: f"{powers[shift][name]:.0%}"
               for name in (DETECTOR, *PEERS)},
            "column named": lambda shift: (
                f"{powers[shift][NAMED]:.0%}" if shift.startswith("one column") else "–"
            ),
        },
    )  # fmt: skip
    return Report(
        title="Estimators: tests of a shift",
        about="`silot.estimators.ShiftDetector` on samples from the same distribution and from "
        "two, beside the strongest tests that this repository has of others.",
        setup=[
            f"Level: {FEW[0]} reference records and {FEW[1]} others from the same distribution, "
            f"{count} draws.",
            f"Power: {MANY[0]} and {MANY[1]} normal records of {WIDTH} columns, {tried} draws a "
            "shift; columns are "
            "standardised, shifts in standard deviations. All tests get the same records.",
            "Kernel test: the maximum mean discrepancy aggregated over five bandwidths (Biggs, "
            "Schrab and Gretton, 2023). Energy distance (Székely and Rizzo, 2004). Forest: "
            "out-of-bag AUC of 100 trees (Hediger, Michel and Näf, 2022), its limit from "
            f"{5 * tried} draws without a shift. KS: Kolmogorov and Smirnov's test of each column, "
            "Bonferroni. 199 splits wherever records are permuted.",
            "CPU seconds of a test: "
            + ", ".join(f"{k} {v / tried / len(SHIFTS):.2f}" for k, v in seconds.items())
            + ".",
            "Alarm: a p-value of 5 % or less.",
        ],
        claims=[
            Claim("alarms where nothing shifted", "5 % ± 2 (a wish)").judged(
                f"{min(rates):.1%} to {max(rates):.1%} by law, {np.mean(rates):.1%} in all",
                verdict(held == len(rates), partly=abs(float(np.mean(rates)) - LEVEL) <= 0.02),
                f"By the splits exactly 5 % is expected; {count} draws are known to "
                f"{(LEVEL * (1 - LEVEL) / count) ** 0.5:.1%} (one standard error).",
            ),
            *judged([power_table]),
        ],
        tables=[
            Table.of(
                "Alarms where nothing shifted.",
                levels.items(),
                {"law": lambda item: item[0], "alarms": lambda item: f"{item[1]:.1%}"},
            ),
            power_table,
        ],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge the detector's power by the rows of the table, against the best test of each shift."""
    rows = pick(tables, "shift", DETECTOR, *PEERS)
    power = {name: [number(row[name]) for row in rows] for name in (DETECTOR, *PEERS)}
    gaps = [ours - max(power[name][k] for name in PEERS) for k, ours in enumerate(power[DETECTOR])]
    level = sum(gap >= 0 for gap in gaps)
    means = {name: mean(values) for name, values in power.items()}
    short = ", ".join(
        f"{row['shift']} {100 * gap:+.0f}" for row, gap in zip(rows, gaps, strict=True) if gap < 0
    )
    above = [means[DETECTOR] > means[name] for name in PEERS]
    return [
        Claim("power at least that of the best of the others", "every shift (a wish)").judged(
            f"{level} of {len(gaps)} shifts",
            verdict(level == len(gaps), partly=min(gaps) >= -0.1),
            f"Points short: {short or 'none'}. The best test of a shift is another for each.",
        ),
        Claim("power above that of each of the others on average", "every one (a wish)").judged(
            ", ".join(f"{name} {value:.0%}" for name, value in means.items()),
            every(above),
            "Which shifts there are decides on an average.",
        ),
    ]


def _level(law: Draw, index: int, count: int) -> float:
    alarms = 0
    for draw in range(count):
        rng = stream(231, index, draw)
        x = law(rng, sum(FEW))
        detector = ShiftDetector(level=LEVEL, random_state=draw).fit(x[: FEW[0]])
        alarms += detector.detect(x[FEW[0] :]).shifted
    return alarms / count


def _forest_limit(count: int) -> float:
    draws = [stream(233, 0, k).standard_normal((sum(MANY), WIDTH)) for k in range(5 * count)]
    scores = [peers.forest_score(x, MANY[0], k) for k, x in enumerate(draws)]
    return peers.forest_limit(scores, LEVEL)


def _power(shift: str, count: int, limit: float, seconds: Numbers) -> Numbers:
    """Shares of draws with an alarm, and with the column that moved among the drivers."""
    alarms = dict.fromkeys((DETECTOR, *PEERS, NAMED), 0)
    for draw in range(count):
        rng = stream(232, 0, list(SHIFTS).index(shift), draw)
        x = rng.standard_normal((sum(MANY), WIDTH))
        first, y = x[: MANY[0]], SHIFTS[shift](x[MANY[0] :], rng)
        pooled = np.concatenate([first, y])
        pooled = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
        begun = time.process_time()
        found = ShiftDetector(level=LEVEL, random_state=draw).fit(first).detect(y)
        seconds[DETECTOR] += time.process_time() - begun
        alarms[DETECTOR] += bool(found.shifted)
        alarms[NAMED] += "0" in found.drivers
        for test, alarm in ALARMS.items():
            begun = time.process_time()
            alarms[test] += bool(alarm(pooled, rng, draw, limit))
            seconds[test] += time.process_time() - begun
    return {test: alarm / count for test, alarm in alarms.items()}


ALARMS: dict[str, Callable[[Array, np.random.Generator, int, float], bool]] = {
    "kernel test": lambda x, rng, _, __: peers.aggregated_kernel_p(x, MANY[0], rng) <= LEVEL,
    "energy distance": lambda x, rng, _, __: peers.energy_p(x, MANY[0], rng) <= LEVEL,
    "forest": lambda x, _, seed, limit: peers.forest_score(x, MANY[0], seed) > limit,
    "KS": lambda x, *_: peers.kolmogorov_smirnov_p(x, MANY[0]) <= LEVEL,
}


def _cancer(rng: np.random.Generator, size: int) -> Array:
    x = np.asarray(load_breast_cancer(return_X_y=True)[0], dtype=np.float64)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return x[rng.permutation(len(x))[:size]]


LAWS: dict[str, Draw] = {
    "normal, 3 columns": lambda rng, size: rng.standard_normal((size, 3)),
    "rounded, 4 columns": lambda rng, size: rng.poisson(1.0, (size, 4)).astype(np.float64),
    "breast cancer, 30 columns": _cancer,
}
