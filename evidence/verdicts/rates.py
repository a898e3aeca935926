"""How often verdicts are wrong, and what they see, of samples, groups, releases and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import binom

from evidence.common import Context, mean
from evidence.report import Claim, Judged, Report, Table, shown, verdict
from evidence.verdicts import _changes, _checks, _groups, _levels
from evidence.verdicts._checks import Checked, measure_checks
from evidence.verdicts._groups import Grouped, measure_groups
from evidence.verdicts._levels import ALARMS, SETTINGS, count_alarms, count_detected, distributions
from evidence.verdicts._power import (
    LEVEL,
    PEERS,
    RECORDS,
    Trial,
    measure_power,
    power_by,
    share,
)
from evidence.verdicts._tables import tables

_LOW, _HIGH = 0.03, 0.07


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    alarms: Mapping[str, int]
    """Pairs of each distribution, by kind of verdict."""
    tables: int
    power: int
    """Pairs of each change and table."""
    forests: int
    """Forests on unchanged pairs of each table, which calibrate the forest's test."""
    groups: Mapping[int, int]
    """Runs of each kind, by the number of holders."""
    detected: int
    """Pairs of each distribution whose detectable shift is applied."""
    checks: int
    """Splits of each table."""


USUAL = Sizes(
    dict(zip(ALARMS, (400, 400, 400, 200), strict=True)), 12, 6, 6, {4: 30, 12: 10, 40: 2}, 100, 4,
)  # fmt: skip
FULL = Sizes(
    dict(zip(ALARMS, (1000, 400, 400, 400), strict=True)), 12, 40, 60, {4: 40, 12: 20, 40: 8},
    400, 40,
)  # fmt: skip


@dataclass(frozen=True)
class Rates:
    """What was measured."""

    alarms: Mapping[tuple[str, str], int]
    """False alarms, by kind of verdict and distribution."""
    detected: Mapping[str, tuple[int, int, float]]
    """Shifts that were detected, of how many, and their median, by distribution."""
    released: Mapping[str, tuple[int, int, float]]
    """The same of releases."""
    trials: Sequence[Trial]
    groups: Sequence[Grouped]
    checks: Sequence[Checked]


def _detection(detected: Mapping[str, tuple[int, int, float]]) -> dict[str, float]:
    """Return shares of detectable shifts that were detected, by distribution."""
    return {name: a / b for name, (a, b, _) in detected.items() if b}


QUICK = {"USUAL": Sizes(dict(zip(ALARMS, (12, 1, 1, 1), strict=True)), 3, 1, 5, {4: 1}, 2, 1)}


def run(context: Context) -> Report:
    sizes = context.size((USUAL, FULL))
    return report(sizes, measure(context, sizes))


def measure(context: Context, sizes: Sizes, *, seed: int = 0) -> Rates:
    """Measure all parts."""
    alarms: dict[tuple[str, str], int] = {}
    for kind, draws in sizes.alarms.items():
        for name in distributions(kind):
            alarms[kind, name] = count_alarms(kind, name, draws, seed=seed)
        rates = [100 * alarms[kind, name] / draws for name in distributions(kind)]
        context.say(f"{kind}: " + ", ".join(f"{rate:.1f}" for rate in rates) + " % false alarms")
    detected = {name: count_detected(name, sizes.detected, seed=seed) for name in SETTINGS}
    context.say(f"detectable shifts: {[f'{a}/{b}' for a, b, _ in detected.values()]}")
    released = {
        name: count_detected(name, sizes.detected, released=True, seed=seed)
        for name in distributions("releases")
    }
    released = {name: one for name, one in released.items() if one[1]}
    context.say(f"of releases: {[f'{a}/{b}' for a, b, _ in released.values()]}")
    every = list(tables(context, sizes.tables))
    trials = measure_power(every, sizes.power, sizes.forests, seed=seed)
    context.say(f"power: {power_by(trials, 'change')}")
    groups = measure_groups(sizes.groups, seed=seed)
    context.say(f"groups: mean adjusted Rand {np.mean([one.rand for one in groups]):.2f}")
    checks = measure_checks(every, sizes.checks, seed=seed)
    return Rates(alarms, detected, released, trials, groups, checks)


def report(sizes: Sizes, rates: Rates) -> Report:
    """Write the page."""
    names = list(dict.fromkeys(trial.table for trial in rates.trials))
    return Report(
        title="Verdicts: false alarms, power and names",
        about="Every verdict of silot comes from one test: `two_sample` of records, "
        "`group_samples` of several holders, `two_histograms` and `group_histograms` of releases. "
        "This page measures how often they are wrong where nothing differs, what they see of "
        "planted changes beside tests of others, whether they name the column that changed, and "
        "whether the shift that they call detectable is detected. The checks before a run are "
        "measured too. No paper has these figures: the numbers beside the claims are aims of ours.",
        setup=[
            "Level 5 %, 199 permutations. Seeds: the stream of each figure has keys 240 to 245 "
            "and the number of the draw.",
            "False alarms: "
            + ", ".join(f"{kind} {draws}" for kind, draws in sizes.alarms.items())
            + " draws of each distribution (100 columns: two samples alone). Samples of 100 "
            "records (60 of 100 columns, 300 of "
            f"rare events); {_levels.HOLDERS} holders of {_levels.HOLDER_RECORDS}; releases of "
            f"{_levels.RELEASED} records in {_levels.CELLS} cells, noise of "
            f"{_levels.NOISE:g} a count, {_levels.RELEASES} in a group.",
            f"Power: {RECORDS} records a side, {sizes.power} draws of each change on each of "
            f"{len(names)} tables: {', '.join(names)}. Changes are of a column drawn at random "
            "among numbers; sd are standard deviations of the table.",
            "Peers get labels as one-hot columns, missing values as median and indicator. Forest: "
            "out-of-bag AUC of 100 trees, its limit from "
            f"{sizes.forests * len(names)} unchanged pairs; MMD: five bandwidths, KS with "
            "Bonferroni (chi-squared for 10 values or fewer), energy distance.",
            f"Groups: {_groups.RECORDS} records of {_groups.COLUMNS} columns a holder; "
            + ", ".join(f"{k} holders in {g} groups" for k, g in _groups.GROUPS.items())
            + "; "
            + ", ".join(f"{n} runs of each kind with {k}" for k, n in sizes.groups.items())
            + ".",
            f"Detectable shift: stated for one pair, applied to a random column of a fresh pair, "
            f"{sizes.detected} draws of each distribution.",
            f"Checks: {sizes.checks} splits of each table into two holders of "
            f"{_checks.RECORDS}. One column x1000; {_checks.CODE:g} in {_checks.CODED:.0%} of a "
            f"column; {_checks.OUTLIERS} values {_checks.FAR:g} sd away (`value_records`, "
            "discoveries 10 % false at most).",
        ],
        claims=judge(sizes, rates),
        tables=[
            _alarm_table(sizes, rates),
            _power_table(rates),
            _table_table(rates),
            _driver_table(rates),
            _group_table(rates),
            _check_table(rates),
        ],
    )


def limits(draws: int, *, risk: float = 0.001) -> tuple[int, int]:
    """Compute the false alarms that a test of the level makes but for a small risk."""
    return int(binom.ppf(risk, draws, LEVEL)), int(binom.isf(risk, draws, LEVEL))


def judge(sizes: Sizes, rates: Rates) -> list[Judged]:
    """Compare what was measured with what is aimed at."""
    power = power_by(rates.trials, "change")
    planted = {name: row for name, row in power.items() if name != "nothing"}
    averages = {name: mean(row[name] for row in planted.values()) for name in ("silot", *PEERS)}
    gaps = {name: row["silot"] - max(row[peer] for peer in PEERS) for name, row in planted.items()}
    best = max(PEERS, key=lambda peer: averages[peer])
    worst = min(gaps, key=lambda name: gaps[name])
    return [
        *(_judge_alarms(kind, sizes.alarms[kind], rates) for kind in ALARMS),
        Claim("power: best on average, 12 changes", "above all peers").judged(
            f"{averages['silot']:.0%}; {best} {averages[best]:.0%}",
            verdict(averages["silot"] >= averages[best]),
        ),
        Claim("power: at most 10 points below the best peer", "each change").judged(
            f"worst: {worst}, {100 * gaps[worst]:+.0f} points",
            verdict(gaps[worst] >= -0.1, partly=sum(gap < -0.1 for gap in gaps.values()) <= 2),
            f"{sum(gap < -0.1 for gap in gaps.values())} of {len(gaps)} changes are further below; "
            "the best of four peers is picked after the fact.",
        ),
        *_judge_drivers(rates),
        *_judge_groups(rates),
        _judge_detected("the detectable shift is detected", rates.detected),
        _judge_detected("the detectable shift of releases is detected", rates.released),
        *_judge_checks(rates),
    ]


def _judge_alarms(kind: str, draws: int, rates: Rates) -> Judged:
    shares = {name: rates.alarms[kind, name] / draws for name in distributions(kind)}
    pooled = float(np.mean(list(shares.values())))
    low, *_, high = sorted(shares, key=lambda name: shares[name])
    total = draws * len(shares)
    error = (LEVEL * (1 - LEVEL) / draws) ** 0.5
    is_within = shares[low] >= _LOW and shares[high] <= _HIGH
    few, many = limits(total)
    return Claim(f"{kind}: false alarms", "3 to 7 %").judged(
        f"{shares[low]:.1%} ({low}) to {shares[high]:.1%} ({high}); {pooled:.1%} of {total}",
        verdict(is_within, partly=few <= pooled * total <= many or _LOW <= pooled <= _HIGH),
        f"One standard error is {error:.1%} a distribution, "
        f"{error / len(shares) ** 0.5:.1%} in all.",
    )


def _judge_drivers(rates: Rates) -> list[Judged]:
    first = [trial.is_first for trial in rates.trials if trial.is_first is not None]
    detected = [trial for trial in rates.trials if trial.is_first is not None]
    alone = share([not trial.names_another for trial in detected])
    still = [trial.names_another for trial in rates.trials if trial.change == "nothing"]
    return [
        Claim("the changed column is named first", "90 % of detected").judged(
            f"{share(first):.0%} of {len(first)}", verdict(share(first) >= 0.9)
        ),
        Claim("no other column is named", "95 % of detected").judged(
            f"{alone:.0%} of {len(detected)}",
            verdict(alone >= 0.95),
            f"Two standard errors are {2 * (0.95 * 0.05 / max(1, len(detected))) ** 0.5:.1%}.",
        ),
        Claim("a column is named though nothing changed", "5 % at most").judged(
            f"{share(still):.1%} of {len(still)}",
            verdict(sum(still) <= limits(len(still), risk=0.025)[1]),
        ),
    ]


def _judge_groups(rates: Rates) -> list[Judged]:
    cells = _by_cell(rates.groups)
    rands = {cell: mean(one.rand for one in runs) for cell, runs in cells.items()}
    kind, holders = worst = min(rands, key=lambda cell: rands[cell])
    cut = [one.is_cut for one in rates.groups]
    return [
        Claim("groups: adjusted Rand", ".9 or more, every kind").judged(
            f"{mean(rands.values()):.2f}; worst {rands[worst]:.2f} ({kind}, {holders} holders)",
            verdict(rands[worst] >= 0.9, partly=mean(rands.values()) >= 0.9),
        ),
        Claim("groups: a true group is cut", "5 % of runs at most").judged(
            f"{share(cut):.1%} of {len(cut)}",
            verdict(share(cut) <= 0.05, partly=sum(cut) <= limits(len(cut), risk=0.025)[1]),
            "Each true group is cut at the level at most; a run has two or three of them.",
        ),
    ]


def _judge_detected(what: str, detected: Mapping[str, tuple[int, int, float]]) -> Judged:
    shares = _detection(detected)
    low, *_, high = sorted(shares, key=lambda name: shares[name])
    draws = max(b for _, b, _ in detected.values())
    return Claim(what, "70 to 90 % (stated: 80 %)").judged(
        f"{shares[low]:.0%} ({low}) to {shares[high]:.0%} ({high}); {mean(shares.values()):.0%}",
        verdict(
            shares[low] >= 0.7 and shares[high] <= 0.9, partly=0.7 <= mean(shares.values()) <= 0.9
        ),
        f"One standard error is {(0.16 / max(draws, 1)) ** 0.5:.0%} a distribution. The shift is "
        "the median over columns, so other columns have more power or less.",
    )


def _judge_checks(rates: Rates) -> list[Judged]:
    judged: list[Judged] = []
    for name, what in (
        ("unit", "x1000 in a column"), ("sentinel", "-999 in 3 %"), ("records", "3 outliers"),
    ):  # fmt: skip
        clean = [flag for one in rates.checks for flag in one.clean[name]]
        planted = [flag for one in rates.checks for flag in one.planted[name]]
        noisy = [one.table for one in rates.checks if share(one.clean[name]) > 0.2]
        judged.append(
            Claim(f"checks: {what}", "90 % flagged, 10 % on clean splits").judged(
                f"{share(planted):.0%} flagged; {share(clean):.0%} of {len(clean)} clean splits",
                verdict(
                    share(planted) >= 0.9 and share(clean) <= 0.1, partly=share(planted) >= 0.9
                ),
                f"Flags on clean splits of {', '.join(noisy)}." if noisy else "",
            )
        )
    return judged


def _by_cell(groups: Sequence[Grouped]) -> dict[tuple[str, int], list[Grouped]]:
    cells: dict[tuple[str, int], list[Grouped]] = {}
    for one in groups:
        cells.setdefault((one.kind, one.holders), []).append(one)
    return cells


def _alarm_table(sizes: Sizes, rates: Rates) -> Table:
    return Table.of(
        "False alarms in per cent; pairs with a detectable shift that were detected, and the "
        "median shift in sd.",
        list(SETTINGS),
        {
            "distribution": str,
            **{
                kind: lambda name, kind=kind: (
                    f"{100 * rates.alarms[kind, name] / sizes.alarms[kind]:.1f}"
                    if name in distributions(kind)
                    else shown(None)
                )
                for kind in ALARMS
            },
            **{
                f"{what}{whose}": partial(_cell, detected, what)
                for whose, detected in (("", rates.detected), (" of releases", rates.released))
                for what in ("detected", "shift")
            },
        },
    )


def _cell(detected: Mapping[str, tuple[int, int, float]], what: str, name: str) -> str:
    if name not in detected:
        return shown(None)
    found, count, shift = detected[name]
    return f"{shift:.2f}" if what == "shift" else f"{100 * found / max(count, 1):.0f} %"


def _power_table(rates: Rates) -> Table:
    power = power_by(rates.trials, "change")
    changes = [name for name in power if name != "nothing"]
    rows = [[name, *(f"{100 * value:.0f}" for value in power[name].values())] for name in power]
    average = [mean(power[name][test] for name in changes) for test in ("silot", *PEERS)]
    rows.append(["mean of changes", *(f"{100 * value:.0f}" for value in average)])
    return Table("Alarms in per cent, over all tables.", ["change", "silot", *PEERS], rows)


def _table_table(rates: Rates) -> Table:
    alarms = power_by([one for one in rates.trials if one.change != "nothing"], "table")
    rows = [[name, *(f"{100 * value:.0f}" for value in row.values())]
            for name, row in alarms.items()]  # fmt: skip
    return Table("Alarms in per cent, over all changes.", ["table", "silot", *PEERS], rows)


def _driver_table(rates: Rates) -> Table:
    detected: dict[str, list[Trial]] = {name: [] for name in _changes.CHANGES}
    for trial in rates.trials:
        if trial.is_first is not None:
            detected[trial.change].append(trial)
    return Table.of(
        "Detected changes of one column: whether it is named first, and no other is named.",
        [(name, own) for name, own in detected.items() if own],
        {
            "change": lambda item: item[0],
            "detected": lambda item: len(item[1]),
            "first, %": lambda item: f"{100 * share([k.is_first for k in item[1]]):.0f}",
            "no other, %": lambda item: (
                f"{100 * share([not k.names_another for k in item[1]]):.0f}"
            ),
        },
    )


def _group_table(rates: Rates) -> Table:
    return Table.of(
        "Holders in groups: mean adjusted Rand index, runs in which a true group was cut.",
        _by_cell(rates.groups).items(),
        {
            "difference": lambda item: item[0][0],
            "holders": lambda item: item[0][1],
            "adjusted Rand": lambda item: f"{mean(one.rand for one in item[1]):.2f}",
            "cut": lambda item: f"{sum(one.is_cut for one in item[1])} of {len(item[1])}",
        },
    )


def _check_table(rates: Rates) -> Table:
    def percent(flags: Sequence[bool]) -> str:
        return shown(100 * share(flags), ".0f")

    return Table.of(
        "Checks, in per cent of splits: flags where nothing was planted / what was planted is "
        "flagged.",
        rates.checks,
        {
            "table": lambda one: one.table,
            **{
                title: lambda one, name=name: (
                    f"{percent(one.clean[name])} / {percent(one.planted[name])}"
                )
                for title, name in (
                    ("unit x1000", "unit"), ("code -999", "sentinel"), ("outliers", "records"),
                )
            },
        },
    )  # fmt: skip
