"""FedBary and TriangleWad, table 2: how the time grows with the number of holders."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

import silot
from evidence.common import Array, Context, Labels, mean, stream
from evidence.fedbary import _games as games
from evidence.fedbary._baselines import Federated
from evidence.fedbary._data import pixels
from evidence.report import Claim, Judged, Report, Table, pick, shown, verdict
from evidence.runs import exact, fedwad, triangle

LINEAR = Claim(
    "time grows linearly with the number of holders",
    "yes (FedBary: 1 to 21 minutes from 5 to 100 holders)",
)
FASTER = Claim(
    "FedBary is faster than exact Shapley values, at 5 holders and more", "31 minutes against 1"
)
FASTER_THAN_ALL = Claim(
    "FedBary is faster than GTG, MR and DataSV too, at 10 holders", "2 minutes against 7 to 150"
)
ATOMS = Claim(
    "FedBary, fewer atoms: less time, a larger gap (TriangleWad, table 2)", "1 to 7 minutes"
)
ONCE = Claim(
    "TriangleWad is faster than exact, GTG, MR and DataSV, at 10 holders",
    "4 minutes against 7 to 200",
)
AHEAD = Claim(
    "TriangleWad is faster than FedBary with 1000 atoms, 5 holders", "2 minutes against 7"
)

Client = tuple[Array, Labels]

RECORDS, SUPPORT, ROUNDS, T = 500, 100, 10, 0.5
WALKS = {f"FedBary, S = {atoms}": atoms for atoms in (100, 500, 1000, 5000)}
FIRST, THOUSAND, TRIANGLE, SILOT = "FedBary, S = 100", "FedBary, S = 1000", "TriangleWad", "silot"
SHAPLEY = ("exact", "GTG", "MR", "DataSV")
# Most holders of each; exact trains 2^N models.
MOST = {
    **dict(zip(WALKS, (100, 10, 5, 5), strict=True)),
    TRIANGLE: 100, SILOT: 10, **dict.fromkeys(SHAPLEY, 10),
}  # fmt: skip
FULL = {**MOST, **dict.fromkeys([*WALKS, TRIANGLE, SILOT], 100)}
PAPERS = ("exact Shapley", "GTG", "MR", "DataSV", "FedBary, S = 100", "500", "1000", "5000",
          "TriangleWad")  # fmt: skip
PAPER = {
    5: ("31m", "33s", "5m", "25m", "1m", "2m", "7m", "20m", "2m"),
    10: ("3h20m", "7m", "40m", "2h30m", "2m", "4m", "14m", "40m", "4m"),
    50: ("-", "-", "-", "-", "14m", "30m", "1h10m", "3h20m", "20m"),
    100: ("-", "-", "-", "-", "21m", "1h", "2h20m", "6h40m", "40m"),
}
QUICK = {"PAPER": {5: PAPER[5]}, "MOST": {**MOST, SILOT: 5, THOUSAND: 0, "FedBary, S = 5000": 0}}


def run(context: Context) -> Report:
    pool = pixels(context, "mnist")
    most = FULL if context.full else MOST
    seconds: dict[str, dict[int, float]] = {name: {} for name in most}
    excess: dict[str, float] = {}
    for holders in PAPER:
        rng = stream(28, holders)
        validation = pool.draw(rng, RECORDS)[0]
        # Holders of a large federation share records; that changes no time.
        rows = [rng.permutation(len(pool.x))[:RECORDS] for _ in range(holders)]
        clients = {str(k): (pool.x[chosen], pool.y[chosen]) for k, chosen in enumerate(rows)}
        for name in seconds:
            if holders <= most[name]:
                seconds[name][holders], values = _timed(name, clients, validation)
                context.say(f"{name}, {holders} holders: {seconds[name][holders]:.2f} s")
                if holders == 5 and values:
                    truth = [exact(x, validation[0]).value for x, _ in clients.values()]
                    over = [value / true - 1 for value, true in zip(values, truth, strict=True)]
                    excess[name] = mean(over)
    theirs = Table(
        "The papers' times.",
        ["holders", *PAPERS],
        [[str(holders), *cells] for holders, cells in PAPER.items()],
    )
    table = Table(
        "Here: processor seconds of distances, and of Shapley values of a logistic regression.",
        ["holders", *(f"{name}, s" for name in seconds)],
        [
            [str(holders), *(shown(found.get(holders), ".2f") for found in seconds.values())]
            for holders in PAPER
        ],
    )
    gaps = Table(
        "Mean excess over the exact distance, 5 holders.",
        ["method", "excess"],
        [[name, f"{value:+.1%}"] for name, value in excess.items()],
    )
    return Report(
        title="FedBary and TriangleWad, table 2: time by number of holders",
        about=f"Distances of holders with {RECORDS} records each to as many for validation, 784 "
        "features, no labels, by the papers' methods, and Shapley values of the same holders.",
        setup=[
            "Processor seconds, which other work on the machine moves little; seed 0, one run. "
            "MNIST, pixels; holders of a large federation share records. All are computed one "
            "after another on one core; in a federation their work is done at the same time.",
            f"FedBary: {ROUNDS} rounds at t = .5, interpolants by means of S atoms (the papers do "
            f"not tell the rounds). TriangleWad: {SUPPORT} atoms, by means, t = .5. silot: "
            "`value_holders` as it is by default: exact distances with intervals and ranks.",
            "exact, GTG, MR, DataSV: federated averaging of a logistic regression (6 rounds of 5 "
            "steps of full batches), its accuracy on the validation records. exact trains all 2^N "
            "coalitions, DataSV (TMC, truncated at .01) those of its orders; GTG and MR are timed "
            "after one training, as the paper timed. The paper "
            "does not say what model it trained; a larger one takes longer, a distance does not.",
            "The papers' machines are not known; only growth and order can be compared. Cells with "
            "– need --full.",
        ],
        claims=judged([table, gaps]),
        tables=[table, gaps, theirs],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge growth and ratios by the seconds of the table."""
    rows = pick(tables, "holders", f"{FIRST}, s", "exact, s")
    gaps = {
        row["method"]: float(row["excess"].removesuffix("%"))
        for row in pick(tables, "method", "excess")
    }

    def of(name: str) -> dict[int, float]:
        return {
            int(row["holders"]): float(row[f"{name}, s"])
            for row in rows
            if row[f"{name}, s"] != shown(None)
        }

    powers = {
        name: float(np.polyfit(np.log(list(k)), np.log(list(k.values())), 1)[0])
        for name in (FIRST, TRIANGLE)
        if len(k := of(name)) > 1
    }
    steepest = max(powers.values(), default=float("inf"))

    def faster(claim: Claim, ours: str, *names: str, least: int = 0, why: str = "") -> Judged:
        mine = of(ours)
        pairs = {
            f"{name}, {holders} holders": (mine[holders], peer)
            for name in names
            for holders, peer in of(name).items()
            if holders in mine and holders >= least
        }
        return claim.judged(
            "; ".join(f"{key}: {a:.2f} s against {b:.2f}" for key, (a, b) in pairs.items()),
            verdict(
                bool(pairs) and all(a < b for a, b in pairs.values()),
                partly=any(a < b for a, b in pairs.values()),
            ),
            why,
        )

    small = (
        "The models are logistic regressions, which train in seconds: with a network the order can "
        "be the paper's."
    )
    walks = [name for name in WALKS if of(name)]
    times, over = [of(name)[5] for name in walks], [gaps[name] for name in walks]
    longer = times == sorted(times)
    return [
        LINEAR.judged(
            ", ".join(f"{name} N^{power:.2f}" for name, power in powers.items()),
            verdict(steepest < 1.2, partly=steepest < 1.5),
            "Least-squares slopes of logarithms; below 1.2 counts as linear.",
        ),
        faster(FASTER, FIRST, "exact", why=small),
        faster(FASTER_THAN_ALL, FIRST, *SHAPLEY[1:], least=10, why=small),
        ATOMS.judged(
            "; ".join(f"{name}: {of(name)[5]:.1f} s, {gaps[name]:+.1f} %" for name in walks),
            verdict(longer and over == sorted(over, reverse=True), partly=longer),
        ),
        faster(AHEAD, TRIANGLE, THOUSAND),
        faster(ONCE, TRIANGLE, *SHAPLEY, least=10, why=small),
    ]


def _timed(name: str, clients: dict[str, Client], validation: Client) -> tuple[float, list[float]]:
    """Processor seconds, and the distances of the papers' methods."""
    points = {key: x for key, (x, _) in clients.items()}
    other = validation[0]
    values: list[float] = []
    game = Federated(clients, 10, validation)
    if name in ("GTG", "MR"):
        game.train(sorted(clients))
    begun = time.process_time()
    if name == "exact":
        games.exact_shapley(clients, game.utility)
    elif name == "DataSV":
        games.monte_carlo_shapley(clients, game.utility, truncation=0.01, tolerance=0.002)
    elif name == "GTG":
        games.gtg_shapley(game.history, game.worth)
    elif name == "MR":
        games.multi_rounds(game.history, game.worth)
    elif name == SILOT:
        silot.value_holders(points, other, seed=0)
    else:
        solve = (
            partial(triangle, support=SUPPORT, form="barycentric")
            if name == TRIANGLE
            else partial(fedwad, support=WALKS[name], rounds=ROUNDS)
        )
        values = [solve(x, other, t=T).value for x in points.values()]
    return time.process_time() - begun, values
