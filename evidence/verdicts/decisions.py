"""How often ``silot compare`` decides what was planted, and what it decides where nothing was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from scipy.stats import binom

import silot
from evidence.common import Array, Context, Labels, stream
from evidence.report import Claim, Judged, Report, Table, Verdict, pick, verdict
from evidence.verdicts._power import LEVEL
from evidence.verdicts._tables import RealTable, tables

# Records of the trusted table and of each site.
TRUSTED, RECORDS = 300, 250
ALIKE = ("alike 1", "alike 2", "alike 3")
FACTOR, WRONG, SHIFTS, SPREAD, THINNED = 10.0, (0.05, 0.15, 0.3), (0.3, 0.5, 1.0), 1.5, 0.3


@dataclass
class Site:
    """Records and labels of a site, to be changed, and the columns that are numbers."""

    x: Array
    y: Labels
    numbers: tuple[int, ...]
    rng: np.random.Generator

    def column(self) -> int:
        """Choose a column that is a number."""
        return int(self.rng.choice(self.numbers))


def _unit(site: Site) -> None:
    site.x[:, site.column()] *= FACTOR


def _labels(share: float, site: Site) -> None:
    rows = site.rng.permutation(len(site.y))[: round(share * len(site.y))]
    _rename(site, rows, site.rng.integers(1, len(np.unique(site.y)), len(rows)))


def _rename(site: Site, rows: Labels | slice, steps: Labels | int) -> None:
    """Give records the class that is so many places further on."""
    classes = np.unique(site.y)
    site.y[rows] = classes[(np.searchsorted(classes, site.y[rows]) + steps) % len(classes)]


def _shift(size: float, site: Site) -> None:
    values = site.x[:, site.column()]
    values += size * values.std()


def _spread(site: Site) -> None:
    values = site.x[:, site.column()]
    values[:] = values.mean() + SPREAD * (values - values.mean())


def _dependence(site: Site) -> None:
    values = site.x[:, site.column()]
    values[:] = site.rng.permutation(values)


def _rare(site: Site) -> None:
    common = np.bincount(site.y).argmax()
    kept = (site.y != common) | (site.rng.random(len(site.y)) < THINNED)
    site.x, site.y = site.x[kept], site.y[kept]


def _inverted(site: Site) -> None:
    _rename(site, slice(None), 1)


_DIFFERENT = ("apart", "use although different")
Planted = tuple[Callable[[Site], None], tuple[str, ...]]
PLANTS: Mapping[str, Planted] = {
    f"column x {FACTOR:g}": (_unit, ("convert",)),
    **{f"{share:.0%} wrong labels": (partial(_labels, share), ("clean",)) for share in WRONG},
    **{f"one column shifted by {size:g} sd": (partial(_shift, size), _DIFFERENT)
       for size in SHIFTS},
    f"one column {SPREAD:g} times as spread": (_spread, _DIFFERENT),
    "one column shuffled": (_dependence, _DIFFERENT),
    f"common class thinned to {THINNED:.0%}": (_rare, ("ask", "use although different")),
    "labels inverted": (_inverted, ("exclude", "apart", "clean")),
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Tables, and comparisons of each beside faults and without any."""

    tables: int
    draws: int
    alone: int


@dataclass(frozen=True)
class Outcome:
    """What was decided about one site of one draw."""

    table: str
    draw: int
    site: str
    steps: tuple[str, ...]
    is_covered: bool
    """Whether the interval of faulty records covers the number of wrong labels."""

    @property
    def is_as_planted(self) -> bool:
        """Whether one of the steps is what the fault calls for."""
        return bool({*self.steps} & {*PLANTS[self.site][1]})


VERBS = ("use", "convert", "clean", "ask", "apart", "exclude")
_ALARMS = {"apart", "exclude", "ask", "use although different"}
ALONE, BESIDE = "alike, by themselves", "alike, beside faults"
MISSED = "p-values are adjusted for 14 sites, and records are flagged only where it is certain."
SIZES = (Sizes(9, 2, 10), Sizes(12, 20, 40))  # as usual, and with --full
QUICK = {"SIZES": (Sizes(1, 1, 1),)}


def run(context: Context) -> Report:
    sizes = context.size(SIZES)
    outcomes: list[Outcome] = []
    alone: list[Outcome] = []
    names: list[str] = []
    for k, table in enumerate(tables(context, sizes.tables)):
        names.append(table.name)
        for draw in range(sizes.draws):
            outcomes += decide(table, stream(246, k, draw), draw)
        for draw in range(sizes.alone):
            alone += decide(table, stream(247, k, draw), draw, plants={})
        context.say(f"{table.name}: {len(outcomes)} and {len(alone)} decisions")
    alike = [one for one in outcomes if one.site in ALIKE]
    planted = {name: [one for one in outcomes if one.site == name] for name in PLANTS}
    measured = {ALONE: alone, BESIDE: alike, **planted}
    counted = [
        Table.of(
            "Decisions; a site may have several steps. Covered: the interval of faulty records has "
            "their number in it.",
            measured,
            {
                "sites": str,
                "number": lambda name: len(measured[name]),
                **{verb: lambda name, verb=verb: sum(verb in one.steps for one in measured[name])
                   for verb in VERBS},
                "as planted": lambda name: sum(
                    one.is_as_planted if name in PLANTS else one.steps == ("use",)
                    for one in measured[name]
                ),
                "covered": lambda name: sum(one.is_covered for one in measured[name]),
            },
        ),
        Table(
            "Comparisons in which any of three sites without a fault is called different: they are "
            "compared with one sample, so that alarms come together.",
            ["three sites", "comparisons", "with an alarm"],
            [[name, str(draws * len(names)),
              str(len({(one.table, one.draw) for one in measured[name] if _ALARMS & {*one.steps}}))]
             for name, draws in ((ALONE, sizes.alone), (BESIDE, sizes.draws))],
        ),
    ]  # fmt: skip
    return Report(
        title="Decisions about sites",
        about="`silot compare` says of each site: use, convert, clean, ask for more, keep apart or "
        "exclude. This page plants faults in sites drawn from real tables, and counts what is "
        "decided about them and about sites drawn beside them without a fault. No paper has these "
        "figures.",
        setup=[
            f"{len(names)} tables: {', '.join(names)}. {sizes.draws} draws of each: {TRUSTED} "
            f"trusted records and four samples of {RECORDS}, fewer where the table is short. Three "
            f"sites are as they were drawn; the fourth sample makes {len(PLANTS)} sites, each with "
            f"another fault. All {len(ALIKE) + len(PLANTS)} are compared at once, so p-values are "
            "adjusted for so many, and faults are found less easily than beside few sites.",
            f"By themselves: {sizes.alone} draws of each table, of {TRUSTED} trusted records and "
            f"three sites of {RECORDS}, nothing planted.",
            "Tables are compared raw: schema and site files are drafted. Seeds: streams 246 (with "
            "faults) and 247, table, draw.",
        ],
        claims=judged(counted),
        tables=counted,
    )


def decide(
    table: RealTable, rng: np.random.Generator, draw: int, plants: Mapping[str, Planted] = PLANTS
) -> list[Outcome]:
    """Compare three sites of the trusted table's distribution, and one once for each fault."""
    parts = table.draw(rng, TRUSTED, *[RECORDS] * (len(ALIKE) + 1))
    x, y = parts.pop()
    # One sample with each fault in turn: models of the trusted records are fitted once.
    for plant, _ in plants.values():
        plant(site := Site(x.copy(), y.copy(), table.numbers, rng))
        parts.append((site.x, site.y))
    frames = [
        pl.DataFrame(points, schema=table.columns).with_columns(label=pl.Series(labels).cast(str))
        for points, labels in parts
    ]
    sites = dict(zip([*ALIKE, *plants], frames[1:], strict=True))
    result = silot.compare(sites, frames[0], labels="label", seed=draw)
    outcomes: list[Outcome] = []
    for item in result.decisions:
        steps = [step.verb for step in item.steps]
        if item.verb == "use" and item.p_value <= result.level:
            steps.append("use although different")  # type: ignore[arg-type]
        wrong = sum(item.site == f"{share:.0%} wrong labels" and share for share in WRONG)
        number = round(wrong * item.records)
        is_covered = item.faulty is not None and item.faulty.low <= number <= item.faulty.high
        outcomes.append(Outcome(table.name, draw, item.site, tuple(steps), is_covered))
    return outcomes


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge counts of sites and of comparisons by what is aimed at."""
    rows = {row["sites"]: row for row in pick(tables, "sites", *VERBS, "as planted", "covered")}
    judged: list[Judged] = []

    def add(claim: str, paper: str, hits: int, count: int, word: Verdict, why: str = "") -> None:
        judged.append(Claim(claim, paper).judged(f"{hits} of {count}", word, why))

    def total(column: str, names: Sequence[str]) -> int:
        return sum(int(rows[name][column]) for name in names)

    for row in pick(tables, "three sites", "comparisons", "with an alarm"):
        hits, draws = int(row["with an alarm"]), int(row["comparisons"])
        # Chance makes so many at the level in one page of a hundred.
        many = int(binom.isf(0.01, draws, LEVEL))
        add(f"sites {row['three sites']}: any of three is called different",
            "in 5 % of comparisons at most", hits, draws,
            verdict(hits <= LEVEL * draws, partly=hits <= many),
            f"At the level {many} and fewer are to be expected in 99 of 100 pages.")  # fmt: skip
    count = total("number", [BESIDE])
    for verb, words in (("convert", "is converted"), ("clean", "has flagged records")):
        word = verdict(total(verb, [BESIDE]) <= 0.05 * count)
        claim = f"a site without a fault {words}"
        add(claim, "5 % of sites at most", total(verb, [BESIDE]), count, word)
    for words, names in (
        ("of sites without a fault", [BESIDE]),
        ("of sites with wrong labels", [name for name in PLANTS if name.endswith("wrong labels")]),
    ):
        hits, count = total("covered", names), total("number", names)
        add(f"the interval of faulty records covers their number, {words}", "95 %", hits, count,
            verdict(hits >= 0.93 * count, partly=hits >= 0.85 * count))  # fmt: skip
    for name, (_, steps) in PLANTS.items():
        hits, count = total("as planted", [name]), total("number", [name])
        add(f"planted: {name}", " or ".join(steps), hits, count,
            verdict(hits >= 0.8 * count, partly=hits >= 0.5 * count),
            MISSED if hits < 0.8 * count else "")  # fmt: skip
    return judged
