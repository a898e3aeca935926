"""FedWaD, figures 13 and 14: distance and time by rounds, support and size of the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from evidence.common import Context, Images, Labels, mean
from evidence.fedwad.figure_6 import SMALL, Pair, Sizes, couple
from evidence.report import Claim, Judged, Report, Table, every, number, pick, verdict
from evidence.runs import exact, fedwad, timed

SEEDS = (2, 5)  # as usual, and with --full
RECORDS, SUPPORT_USED, ROUNDS_USED = 400, 200, 10
ROUNDS, SUPPORTS, SIZES = (2, 5, 10, 20, 50), (50, 100, 200, 400), (50, 100, 200, 400)
PAIRS = (("mnist", "fashion_mnist"), ("mnist", "usps"))
TOLERANCE = 0.05
# Records and supports of which the seconds are compared.
GROWING, THIN, WIDE = (50, 500, 5000), 10, 1000
QUICK = {"SEEDS": (1,), "GROWING": (50, 200)}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    stored = {name: context.images(name) for name in ("mnist", "fashion_mnist", "usps")}

    def cells(
        pair: Pair = PAIRS[0], records: int = RECORDS, support: int = SUPPORT_USED,
        rounds: int = ROUNDS_USED,
    ) -> list[str]:  # fmt: skip
        runs = [_one(stored, pair, records, support, rounds, seed) for seed in seeds]
        value, truth, ours, theirs = (mean(column) for column in zip(*runs, strict=True))
        context.say(f"{records} records, support {support}, {rounds} rounds")
        return [f"{value:.3f}", f"{truth:.3f}", f"{value / truth - 1:+.1%}", f"{ours:.2f}",
                f"{theirs:.2f}"]  # fmt: skip

    rounds = [[f"{n}", *cells(rounds=n)] for n in ROUNDS]
    supports = [[f"{n}", *cells(support=n)] for n in SUPPORTS]
    sizes = [
        [f"{' to '.join(pair)}", f"{n}", f"{atoms}", *cells(pair, records=n, support=atoms)]
        for n in SIZES for atoms in SUPPORTS[::2] for pair in PAIRS
    ]  # fmt: skip
    growth = [
        [f"{n}", *(f"{_seconds(stored, n, support):.3f}" for support in (THIN, WIDE))]
        for n in GROWING
    ]
    columns = ["FedWaD", "exact", "excess", "FedWaD, s", "exact, s"]
    tables = [
        Table(f"Rounds; support {SUPPORT_USED}.", ["rounds", *columns], rounds),
        Table(f"Support; {ROUNDS_USED} rounds.", ["support", *columns], supports),
        Table(
            f"Records of each; {ROUNDS_USED} rounds.",
            ["pair", "records", "support", *columns],
            sizes,
        ),
        Table(
            f"Seconds by records of each, {PAIRS[0][0]} to {PAIRS[0][1]}; {ROUNDS_USED} rounds.",
            ["size", *(f"support {support}" for support in (THIN, WIDE))],
            growth,
        ),
    ]
    return Report(
        title="FedWaD, figures 13 and 14: rounds, support and size",
        about="FedWaD against the exact distance of the same labelled records, as OTDD vectors.",
        setup=[
            f"{RECORDS} records of each (the paper: 5000), images of {SMALL.side} by {SMALL.side} "
            "pixels, labels as OTDD vectors; approximate interpolation, and a random t for every "
            "fit, as section 3 proposes.",
            "MNIST to Fashion-MNIST, where the paper has KMNIST, which is not here; MNIST to USPS.",
            f"Means over seeds 0 to {len(seeds) - 1}. Processor seconds.",
            f"Accurate: within {TOLERANCE:.0%} of the exact distance.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def _one(
    stored: dict[str, tuple[Images, Labels]], pair: Pair, records: int, support: int, rounds: int,
    seed: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    x, y = couple(stored, pair, seed, Sizes(records, SMALL.side, 1, ()))
    truth, theirs = timed(lambda: exact(x, y, labels=True).value)
    options = {"support": support, "rounds": rounds, "t": None, "seed": seed, "labels": True}
    value, ours = timed(lambda: fedwad(x, y, **options).value)
    return value, truth, ours, theirs


def _seconds(stored: dict[str, tuple[Images, Labels]], records: int, support: int) -> float:
    x, y = couple(stored, PAIRS[0], 0, Sizes(records, SMALL.side, 1, ()))
    options = {"support": support, "rounds": ROUNDS_USED, "t": None, "seed": 0, "labels": True}
    return timed(lambda: fedwad(x, y, **options))[1]


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of excess over the exact distance."""
    rounds = {int(r["rounds"]): number(r["excess"]) for r in pick(tables, "rounds", "excess")}
    supports = {int(r["support"]): number(r["excess"]) for r in pick(tables, "support", "excess")}
    sizes = pick(tables, "pair", "records", "support", "excess")
    small = [number(r["excess"]) for r in sizes if int(r["records"]) < int(r["support"])]
    large = [number(r["excess"]) for r in sizes if int(r["records"]) > int(r["support"])]
    later = [value for n, value in rounds.items() if n >= ROUNDS_USED]
    change = max(later) - min(later)
    steps = list(supports.values())
    growth = pick(tables, "size", f"support {THIN}")
    more = number(growth[-1]["size"]) / number(growth[0]["size"])
    longer = [
        number(growth[-1][column]) / number(growth[0][column])
        for column in (f"support {THIN}", f"support {WIDE}")
    ]
    kept = [
        _same_order([r for r in sizes if (r["records"], r["support"]) == key])
        for key in dict.fromkeys((r["records"], r["support"]) for r in sizes)
    ]
    widest = supports[max(supports)]
    return [
        Claim("rounds hardly matter: 10 are reasonably accurate (figure 13, left)", "yes").judged(
            ", ".join(f"{n}: {value:+.1%}" for n, value in rounds.items()),
            verdict(
                change <= 0.02 and max(later) <= TOLERANCE,
                partly=change <= 0.02 or max(later) <= TOLERANCE,
            ),
            f"From {ROUNDS_USED} rounds on the distance changes by {change:.1%}: the excess stays.",
        ),
        Claim(
            "a support as large as the data is very accurate (figure 13, right)", "5000 for 5000"
        ).judged(
            f"{widest:+.1%} at {max(supports)}",
            verdict(widest <= 0.02, partly=widest <= 0.1),
            "With t = .5 the measure between settles off the geodesic ([figure "
            "3](fedwad-figure-3.md)).",
        ),
        Claim("the distance falls steadily with the support (figure 13, right)", "linearly").judged(
            ", ".join(f"{n}: {value:+.1%}" for n, value in supports.items()),
            verdict(all(a >= b for a, b in pairwise(steps))),
            "Judged: that it never rises.",
        ),
        Claim("the order of the two pairs is kept at every size (figure 14)", "yes").judged(
            f"{sum(kept)} of {len(kept)} sizes and supports",
            every(kept),
            "Two pairs.",
        ),
        Claim("data smaller than the support: accurate (figure 14)", "yes").judged(
            ", ".join(f"{value:+.1%}" for value in small),
            every(value <= TOLERANCE for value in small),
            f"Accurate: within {TOLERANCE:.0%}.",
        ),
        Claim("data larger than the support: overestimated (figure 14)", "yes").judged(
            ", ".join(f"{value:+.1%}" for value in large),
            every(value > max(small) for value in large),
            f"Judged: by more than data smaller than the support, {max(small):+.1%} at most.",
        ),
        Claim(
            "100 times the data take 100 times the seconds of a small support, 10 times those of "
            "a large one (figure 14)",
            "yes",
        ).judged(
            f"{more:.0f} times the data: {longer[0]:.0f} and {longer[1]:.0f} times the seconds",
            every(
                ratio / 3 < times < 3 * ratio
                for times, ratio in zip(longer, (more, more**0.5), strict=True)
            ),
            f"Supports of {THIN} and {WIDE}, which the paper does not number; within a factor 3.",
        ),
    ]


def _same_order(rows: list[dict[str, str]]) -> bool:
    (a, b), (c, d) = ((float(row["FedWaD"]), float(row["exact"])) for row in rows)
    return (a - c) * (b - d) > 0
