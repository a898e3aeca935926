"""How often ``silot release watch`` raises an alarm, with a change and without one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.stats import beta

from evidence.common import Array, Context, columns, stream
from evidence.report import Claim, Judged, Report, Table, verdict
from silot import Measure, Policy
from silot.distances.sketches.drift import LEVEL, Drift, measure_drift
from silot.distances.sketches.result import Sketches
from silot.distances.sketches.sketch import Sketching
from silot.federation import Holder, LocalFederation
from silot.privacy import Ledger

RECORDS, PUBLIC, EPSILON = 2000, 800, 1.0
STILL, MOVED = 40, 10
WORKERS = 2
Source = Callable[[Context], Array]


# What is added to the first column.
CHANGES: dict[str, Callable[[Array], Array | float]] = {
    "one column by 0.1 deviations": lambda column: 0.1 * column.std(),
    "one column by 0.2 deviations": lambda column: 0.2 * column.std(),
    "one column half as wide again": lambda column: 0.5 * (column - column.mean()),
    "one record of ten far off in one column": lambda column: (
        4.0 * column.std() * (np.arange(len(column)) < len(column) // 10)
    ),
}


@dataclass(frozen=True)
class Rates:
    """Alarms of one table: of how many pairs without a change, and of each change."""

    name: str
    still: list[Drift]
    moved: dict[str, list[Drift]]


def run(context: Context) -> Report:
    with ProcessPoolExecutor(WORKERS) as pool:
        found = list(pool.map(partial(_measured, context), range(len(SOURCES))))
    return Report(
        title="Drift: how often `silot release watch` raises an alarm",
        about="`silot release watch` of two releases of one site: of records from the same "
        "distribution, and from one that changed in between. An alarm is a p-value of 5 % or less.",
        setup=[
            f"{RECORDS} records a release, epsilon {EPSILON:g}, delta 1e-5, {PUBLIC} public "
            "records; records and public records are drawn from one table without overlap between "
            "the two releases of a pair, with overlap between pairs of real tables.",
            f"{STILL} pairs a table without a change, {MOVED} pairs with each; deviations are "
            "those of the column. Real tables are standardised by the public records.",
            "Noise has no seed, so figures vary a little.",
        ],
        claims=_claims(found),
        tables=[
            Table.of(
                "Pairs with an alarm.",
                found,
                {
                    "table": lambda rates: rates.name,
                    "nothing changed": lambda rates: f"{_rate(rates.still):.0f} %",
                    **{what: lambda rates, what=what: f"{_rate(rates.moved[what]):.0f} %"
                       for what in CHANGES},
                },
            )
        ],
    )  # fmt: skip


def _measured(context: Context, index: int) -> Rates:
    name, source = SOURCES[index]
    points = source(context)
    rng = stream(57, index)
    points = points[rng.permutation(len(points))]
    public, rest = points[:PUBLIC], points[PUBLIC:]
    middle, scale = public.mean(axis=0), public.std(axis=0)
    public, rest = (public - middle) / scale, (rest - middle) / scale

    def pair() -> tuple[Array, Array]:
        rows = rng.permutation(len(rest))[: 2 * RECORDS]
        return rest[rows[:RECORDS]], rest[rows[RECORDS:]]

    pairs = {("still", k): pair() for k in range(STILL)}
    for what, change in CHANGES.items():
        for k in range(MOVED):
            x, y = pair()
            y[:, 0] += change(y[:, 0])
            pairs[what, k] = (x, y)
    sites = {f"{what}/{k}/{side}": x for (what, k), both in pairs.items()
             for side, x in zip("ab", both, strict=True)}  # fmt: skip
    rules = Policy(privacy_epsilon=EPSILON)
    holders = {name: Holder(Measure(x), rules, Ledger()) for name, x in sites.items()}
    asked = Sketching(public=public, size=RECORDS, privacy_epsilon=EPSILON)
    sketches = LocalFederation(holders).run(asked.among(list(sites)))
    assert isinstance(sketches, Sketches)

    def drift(what: str, k: int) -> Drift:
        two = (f"{what}/{k}/a", f"{what}/{k}/b")
        return measure_drift("site", replace(sketches, names=two))

    still = [drift("still", k) for k in range(STILL)]
    context.say(f"{name}: {sum(each.drifted for each in still)} of {STILL} without a change")
    moved = {what: [drift(what, k) for k in range(MOVED)] for what in CHANGES}
    context.say(f"{name}: " + ", ".join(f"{_rate(each):.0f} %" for each in moved.values()))
    return Rates(name, still, moved)


def _rate(found: list[Drift]) -> float:
    return 100.0 * float(np.mean([each.drifted for each in found]))


def _claims(found: list[Rates]) -> list[Judged]:
    every = [each for rates in found for each in rates.still]
    count, n = sum(each.drifted for each in every), len(every)
    low = float(beta.ppf(0.025, max(count, 1e-9), n - count + 1))
    high = float(beta.ppf(0.975, count + 1, n - count))
    what = "one column by 0.2 deviations"
    rates = [_rate(each.moved[what]) for each in found]
    alarms = [each.since[0] for rates in found for each in rates.moved[what] if each.drifted]
    first = [each.test.drivers[:1] == ("column 0",) for each in alarms]
    share = 100.0 * float(np.mean(first or [0.0]))
    return [
        Claim("alarms where nothing changed", f"{100 * LEVEL:g} %").judged(
            f"{100 * count / n:.1f} % of {n} (95 %: {100 * low:.1f} to {100 * high:.1f} %)",
            verdict(low <= LEVEL <= high, partly=low <= 2 * LEVEL),
            "A promise of the package.",
        ),
        Claim(f"alarms, {what}", "80 % or more").judged(
            f"{np.mean(rates):.0f} % (by table {min(rates):.0f} to {max(rates):.0f} %)",
            verdict(min(rates) >= 80, partly=float(np.mean(rates)) >= 80),
        ),
        Claim("of these, the column that moved is named first", "90 % or more").judged(
            f"{share:.0f} % of {len(first)}", verdict(share >= 90, partly=share >= 70)
        ),
    ]


def _normal(dimension: int) -> Source:
    return lambda _: stream(58, dimension).normal(size=(100_000, dimension))


def _ward(_: Context) -> Array:
    """Skewed, correlated and rounded columns, as of a ward."""
    rng = stream(59, 1)
    n = 100_000
    age = rng.normal(62, 15, n).clip(18, 100).round()
    glucose = rng.lognormal(4.6 + 0.003 * age, 0.3)
    creatinine = rng.lognormal(-0.2 + 0.004 * age, 0.4)
    pressure = rng.normal(110 + 0.3 * age, 16).round()
    stay = rng.poisson(4, n) + rng.exponential(3, n).round()
    return np.column_stack([glucose, age, creatinine, pressure, stay])


def _credit(context: Context) -> Array:
    return columns([{k: v for k, v in row.items() if k in _CREDIT} for row in
                    context.table("credit_default")])  # fmt: skip


_CREDIT = ("LIMIT_BAL", "AGE", "BILL_AMT1", "BILL_AMT6", "PAY_AMT1", "PAY_AMT6")
SOURCES: tuple[tuple[str, Source], ...] = (
    ("normal, 3 columns", _normal(3)),
    ("normal, 12 columns", _normal(12)),
    ("a ward, 5 columns", _ward),
    ("credit_default, 6 columns", _credit),
)
QUICK = {"STILL": 2, "MOVED": 1, "SOURCES": SOURCES[:2], "RECORDS": 500}
