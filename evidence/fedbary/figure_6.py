"""FedBary, figure 6, sections 11.1 and 11.2: atoms, rounds, and what time depends on."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from evidence.common import Array, Context, mean, rank_correlation, stream
from evidence.fedbary._baselines import Federated
from evidence.fedbary._data import Pool, digits, embedded
from evidence.fedbary._games import gtg_shapley, multi_rounds
from evidence.fedbary.figure_4 import CASES, CLIENTS, Client, clients_of, walked
from evidence.report import Claim, Judged, Report, Table, every, number, pick, spread, verdict
from evidence.runs import exact
from silot import Measure

CLOSER = Claim("with more atoms the distance approaches the exact one (figure 6, 11.1)", "yes")

SEEDS = (3, 10)  # as usual, and with --full
ATOMS, WALKED = (5, 10, 50, 100, 500), (1, 2, 5, 10, 20)
# Of the rows over rounds, over atoms, and of the timed ones.
USUAL_ATOMS, USUAL_ROUNDS, FEW = 100, 10, (10, 2)
NOISY_CASE = 5
COLUMNS = ("FedBary, s", "GTG, models", "MR, models")
QUICK = {"SEEDS": (1,), "ATOMS": (10, 50, 100), "WALKED": (2, 10)}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    pools = {"CIFAR-10": embedded(context, "cifar10"), "digits": digits()}
    settings = [
        *((atoms, USUAL_ROUNDS) for atoms in ATOMS),
        *((USUAL_ATOMS, rounds) for rounds in WALKED if rounds != USUAL_ROUNDS),
        FEW,
    ]
    rows, seconds = [], []
    for name, pool in pools.items():
        runs = [_distances(pool, seed, settings) for seed in seeds]
        for atoms, rounds in dict.fromkeys(settings):
            excess = [run_[atoms, rounds] / run_[0, 0] - 1.0 for run_ in runs]
            ranks = [rank_correlation(run_[atoms, rounds], run_[0, 0]) for run_ in runs]
            rows.append([
                name, str(atoms), str(rounds), f"{mean(map(mean, excess)):+.2%}",
                " / ".join(f"{value:+.2%}" for value in np.mean(excess, axis=0)),
                f"{mean(ranks):.2f}", f"{min(ranks):.2f}",
            ])  # fmt: skip
        for case in CASES:
            timed = np.median([_seconds(pool, case, seed) for seed in seeds], axis=0)
            seconds.append([name, str(case), CASES[case], *map("{:.3g}".format, timed)])
        context.say(f"{name} done")
    tables = [
        Table(
            "Excess over the exact distance, mean and by client; Spearman with the exact order.",
            ["data", "atoms", "rounds", "excess", "by client", "Spearman", "worst"],
            rows,
        ),
        Table(
            f"Five clients: processor seconds of FedBary ({USUAL_ATOMS} atoms, {USUAL_ROUNDS} "
            "rounds), and rebuilt models that GTG and MR evaluate. Medians.",
            ["data", "case", "what", *COLUMNS],
            seconds,
        ),
    ]
    return Report(
        title="FedBary, figure 6, sections 11.1 and 11.2: atoms, rounds and time",
        about="Distances of five clients to validation records by FedBary against exact ones, for "
        "more and fewer atoms and rounds; and how its time depends on the data.",
        setup=[
            "Clients, records and cases of [figure 4](fedbary-figure-4.md), equal classes; the "
            "distances are those of case 5, with noise in 0 to 20 % of the features' records. The "
            "paper does not say what figure 6 was drawn from.",
            "FedBary: interpolants by means at t = .5 from a normal reference, labels as vectors, "
            "without stopping. Exact: the pooled records, the same cost.",
            "GTG and MR: rebuilt models of one federated training of a logistic regression. What "
            "they take is counted in models: each takes milliseconds here.",
            f"Seeds 0 to {len(seeds) - 1}.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of excess, order and seconds."""
    rows = pick(tables, "data", "atoms", "rounds", "excess", "Spearman")
    names = list(dict.fromkeys(row["data"] for row in rows))

    def along(name: str, what: str, fixed: str, value: int) -> list[float]:
        chosen = [row for row in rows if row["data"] == name and int(row[fixed]) == value]
        chosen.sort(key=lambda row: int(row[what]))
        return [number(row["excess"]) for row in chosen]

    atoms = {name: along(name, "atoms", "rounds", USUAL_ROUNDS) for name in names}
    rounds = {name: along(name, "rounds", "atoms", USUAL_ATOMS) for name in names}
    falls = [bool((np.diff(values) < 0).all()) for values in atoms.values()]
    last = [values[-1] for values in atoms.values()]
    ranges = [float(np.ptp(values)) for values in rounds.values()]
    later = [float(np.ptp(values[len(values) // 2 :])) for values in rounds.values()]
    few = [float(row["Spearman"]) for row in rows if (int(row["atoms"]), int(row["rounds"])) == FEW]
    times = pick(tables, "case", *COLUMNS)
    steady, unsteady, _ = (
        [
            max(values) / min(values)
            for name in names
            if (values := [float(row[column]) for row in times if row["data"] == name])
        ]
        for column in COLUMNS
    )
    models = {(row["data"], row["case"]): float(row["MR, models"]) for row in times}
    noisy = [models[name, str(NOISY_CASE)] / models[name, "1"] for name in names]
    return [
        CLOSER.judged(
            "; ".join(
                f"{name} {' / '.join(map('{:+.1%}'.format, k))}" for name, k in atoms.items()
            ),
            verdict(
                all(falls) and max(last) < 0.02,
                partly=all(values[-1] < values[0] for values in atoms.values()),
            ),
            "More atoms: less of every step. Matched if the excess falls at each step and ends "
            "below 2 %.",
        ),
        Claim("the number of rounds hardly matters (11.1)", "minimal influence").judged(
            f"the excess moves by {spread(ranges, '.1%')} from the fewest to the most rounds, by "
            f"{spread(later, '.1%')} over the second half",
            verdict(max(ranges) < 0.02, partly=max(later) < 0.02),
            "Less than 2 % counts.",
        ),
        Claim("few atoms and rounds rank the clients as exact distances do (11.1)", "yes").judged(
            f"{FEW[0]} atoms, {FEW[1]} rounds: Spearman {spread(few, '.2f')}",
            verdict(min(few) >= 0.95, partly=min(few) >= 0.8),
        ),
        Claim("the time of FedBary does not depend on the data (11.2)", "yes").judged(
            f"slowest case over fastest {spread(steady, '.2f')}",
            verdict(max(steady) < 1.25, partly=max(steady) < 1.5),
            "Less than a quarter more counts.",
        ),
        Claim("how long GTG takes depends on the data (11.2)", "varies").judged(
            f"models: most over fewest {spread(unsteady, '.2f')}",
            every(value > 1.25 for value in unsteady),
        ),
        Claim("MR takes longer where data are noisy (11.2)", "yes").judged(
            f"models: case 5 over case 1 {spread(noisy, '.2f')}",
            every(value > 1.1 for value in noisy),
            "MR evaluates as many rebuilt models whatever the data are.",
        ),
    ]


def _holders(pool: Pool, case: int, seed: int) -> tuple[dict[str, Client], Client, Client]:
    return clients_of(pool, case, "equal classes", stream(47, case, seed))


def _distances(
    pool: Pool, seed: int, settings: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Array]:
    """Distances of the five clients by atoms and rounds; the exact ones at (0, 0)."""
    clients, validation, _ = _holders(pool, NOISY_CASE, seed)
    target = Measure(validation[0], labels=validation[1])
    holders = [Measure(x, labels=y) for x, y in clients.values()]
    found = {(0, 0): np.array([exact(x, target, labels=True).value for x in holders])}
    for atoms, rounds in dict.fromkeys(settings):
        found[atoms, rounds] = np.array([walked(x, target, atoms, rounds, seed) for x in holders])
    return found


def _seconds(pool: Pool, case: int, seed: int) -> tuple[float, int, int]:
    """Seconds of FedBary, and how many models GTG and MR evaluate."""
    clients, validation, test = _holders(pool, case, seed)
    target = Measure(validation[0], labels=validation[1])
    game = Federated(clients, 10, test)
    game.train(CLIENTS)
    history = list(game.history)
    guided = gtg_shapley(history, game.worth, seed=seed)
    rebuilt = multi_rounds(history, game.worth)
    begun = time.process_time()
    for x, y in clients.values():
        walked(Measure(x, labels=y), target, USUAL_ATOMS, USUAL_ROUNDS, seed)
    return time.process_time() - begun, guided.evaluations, rebuilt.evaluations
