"""FedWaD, figures 2, 8 and 9: time and error against the number of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evidence.common import Array, Context, stream
from evidence.report import Claim, Judged, Report, Table, every, pick, shown, spread, verdict
from evidence.runs import exact, fedwad, largest_support, relative, seconds_per_round

HIGH = Claim("d = 50: no method estimates the distance of the means; 10 atoms are worst", "yes")

SIZES = (30, 100, 300, 1000, 3000, 10000)
GAP = 10.0
ROUNDS = 20
SUPPORTS = (2, 10, 100)
# Exact interpolation about doubles its support in a round; these rounds take seconds.
EXACT_ROUNDS = {30: 5, 100: 5, 300: 5, 1000: 3}
# The paper sees errors of the pooled distance at this size.
BEYOND = 5000
DRAWS = {30: 3, 100: 3, 300: 3, 1000: 2, 3000: 1, 10000: 1}


@dataclass(frozen=True)
class Cell:
    """Medians over the draws at one dimension, ratio and size.

    ``ways``: seconds (of a round), error and largest support of each of ``WAYS`` that was run.
    """

    dimension: int
    ratio: int
    size: int
    ways: dict[str, Array]

    def of(self, way: str, place: int) -> float:
        """Seconds, error or largest support of a way; NaN where it was not run."""
        return float(self.ways[way][place]) if way in self.ways else float("nan")


# The pooled distance, the approximate form with so many atoms, and the exact form.
NOT_RUN = shown(None)
WAYS = ("pooled", *(f"a-{support}" for support in SUPPORTS), "e")
QUICK = {"SIZES": (30, 100, 1000), "DRAWS": dict.fromkeys(DRAWS, 1), "BEYOND": 1000}


def run(context: Context) -> Report:
    cells: list[Cell] = []
    for dimension in (2, 50):
        for ratio in (1, 3):
            cells += [
                _cell(dimension, ratio, size, 10 if context.full else DRAWS[size]) for size in SIZES
            ]
            context.say(f"dimension {dimension}, ratio 1:{ratio} done")
    tables = _tables(cells)
    return Report(
        title="FedWaD, figures 2, 8 and 9: time and error against sample size",
        about="Two Gaussian samples with the same covariance; the truth is the distance of the "
        "means. A sample ratio of 1:3 means N points against N / 3. Compared: the distance of the "
        "pooled samples, FedWaD with exact and with approximate (barycentric) interpolation.",
        setup=[
            f"Identity covariance, means {GAP:g} apart (the paper does not say), t = .5; N up "
            f"to {SIZES[-1]}. Medians over seeds "
            + ("0 to 9." if context.full else "0 to 2, two of them at N = 1000, one above."),
            f"Approximate form: {', '.join(map(str, SUPPORTS))} atoms, {ROUNDS} rounds. Exact "
            "form: from 10 atoms, only 5 rounds (3 at N = 1000, none above), because its support "
            "grows from round to round. Times are per round, which favours the exact form.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def _sample(dimension: int, ratio: int, size: int, draw: int) -> tuple[Array, Array]:
    rng = stream(2, dimension, ratio, size, draw)
    x = rng.standard_normal((size, dimension))
    y = rng.standard_normal((size // ratio, dimension))
    y[:, 0] += GAP
    return x, y


def _cell(dimension: int, ratio: int, size: int, draws: int) -> Cell:
    runs: dict[str, list[tuple[float, ...]]] = {"pooled": []}
    settings: dict[str, dict[str, Any]] = {
        f"a-{support}": {"support": support, "rounds": ROUNDS} for support in SUPPORTS
    }
    if size in EXACT_ROUNDS:
        settings["e"] = {"support": 10, "rounds": EXACT_ROUNDS[size], "form": "exact"}
    for draw in range(draws):
        x, y = _sample(dimension, ratio, size, draw)
        pooled = exact(x, y)
        runs["pooled"].append((pooled.seconds, abs(relative(pooled.value, GAP)), 0))
        for way, options in settings.items():
            result = fedwad(x, y, t=0.5, seed=draw, **options)
            error = abs(relative(result.value, GAP))
            runs.setdefault(way, []).append(
                (seconds_per_round(result), error, largest_support(result))
            )
    return Cell(dimension, ratio, size, {way: np.median(k, axis=0) for way, k in runs.items()})


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of seconds and of errors."""
    seconds, errors = (pick([table], "d", "ratio", "N", "e") for table in tables)
    timed = [row for row in seconds if row["e"] != NOT_RUN and int(row["N"]) >= 100]
    groups = {
        "d = 2, N = 100 and 300": [r for r in timed if r["d"] == "2" and int(r["N"]) < 1000],
        "d = 2, N = 1000": [r for r in timed if r["d"] == "2" and int(r["N"]) >= 1000],
        "d = 50": [r for r in timed if r["d"] == "50"],
    }
    faster = {name: [float(row["e / a-10"]) for row in rows] for name, rows in groups.items()}
    flat = [row for row in errors if row["d"] == "2"]
    apart = [
        abs(float(row[way]) - float(row["pooled"]))
        for row in flat
        for way in ("a-10", "e")
        if row["e"] != NOT_RUN
    ]
    high = [
        [float(row[way]) for way in ("a-10", "pooled", "e") if row[way] != NOT_RUN]
        for row in errors
        if row["d"] == "50"
    ]
    numerical = {
        f"{name} from N = {least}": [
            float(row[way]) for row in flat if row[way] != NOT_RUN and int(row["N"]) >= least
        ]
        for name, way, least in (
            ("exact FedWaD", "e", 1000),
            ("the pooled distance", "pooled", BEYOND),
        )
    }
    large = [row for row in seconds if int(row["N"]) >= BEYOND]
    costs = {
        k: [ROUNDS * float(row[f"a-{k}"]) / float(row["pooled"]) for row in large] for k in (2, 10)
    }
    each = {(row["ratio"], row["N"]): float(row["e"]) for row in timed if row["d"] == "2"}
    slower = [each["1:3", size] / each["1:1", size] for ratio, size in each if ratio == "1:1"]
    return [
        Claim(
            "approximate form (10 atoms) over exact form, from N = 100", "at least 10 times faster"
        ).judged(
            "; ".join(f"{name}: {spread(of, '.1f')}" for name, of in faster.items()) + " times",
            every(value >= 10 for of in faster.values() for value in of),
            "Per round, over the first rounds only: later rounds of the exact form can take "
            "minutes, as its support grows. Below N of 1000 a round is mostly messages. In d = 50 "
            "equal sizes keep the support at N, and silot 0.1 picks a slow solver for 1000 records "
            "against few atoms.",
        ),
        Claim("as fast as exact transport from N = 5000 (section 3)", "yes").judged(
            "; ".join(f"{k} atoms: {spread(v, '.1f')}" for k, v in costs.items())
            + " times its seconds",
            every(value <= 1.0 for values in costs.values() for value in values),
            f"All {ROUNDS} rounds, at N = {large[-1]['N']}, against the pooled distance by silot's "
            "solver, which is faster than the paper's.",
        ),
        Claim(
            "d = 2: approximate (10 atoms), exact form and pooled distance have similar errors",
            "yes",
        ).judged(
            f"errors differ by at most {max(apart):.1e}",
            verdict(max(apart) <= 0.02),
            "Errors from the distance of the means.",
        ),
        HIGH.judged(
            f"pooled +{spread([pooled for _, pooled, *_ in high], '.0%')}, 10 atoms "
            f"+{spread([few for few, *_ in high], '.0%')}",
            verdict(all(few > max(others) for few, *others in high)),
            "Sample distances are far above the distance of the distributions in 50 dimensions; "
            "fewer atoms add to it.",
        ),
        Claim("exact form: unequal sizes (1:3) slower than equal ones, d = 2", "yes").judged(
            f"{spread(slower, '.1f')} times per round",
            every(value > 1 for value in slower),
            "Split plans grow the support either way. Equal sizes split too while the reference "
            "has another size.",
        ),
        *(
            Claim(f"numerical errors of {what}, d = 2", "yes").judged(
                f"error {spread(errors, '.1e')}",
                verdict(max(errors) > 0.05),
                "The solver's default iteration limit is the likely cause in the paper; silot "
                "raises it and checks the dual value.",
            )
            for what, errors in numerical.items()
        ),
    ]


def _tables(cells: list[Cell]) -> list[Table]:
    where: dict[str, Callable[[Cell], object]] = {
        "d": lambda cell: cell.dimension,
        "ratio": lambda cell: f"1:{cell.ratio}",
        "N": lambda cell: cell.size,
    }
    return [
        Table.of(
            "Seconds: the pooled distance, and a round of FedWaD (a: approximate with so many "
            "atoms, e: exact).",
            cells,
            {
                **where,
                **{way: lambda cell, way=way: shown(cell.of(way, 0), ".3f") for way in WAYS},
                "largest support of e": lambda cell: shown(cell.of("e", 2), ".0f"),
                **{
                    f"e / {way}": lambda cell, way=way: shown(
                        cell.of("e", 0) / cell.of(way, 0), ".1f"
                    )
                    for way in WAYS[2:4]
                },
            },
        ),
        Table.of(
            "Relative error from the distance of the means.",
            cells,
            where | {way: lambda cell, way=way: shown(cell.of(way, 1), ".1e") for way in WAYS},
        ),
    ]
