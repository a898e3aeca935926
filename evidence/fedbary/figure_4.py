"""FedBary, figure 4; TriangleWad, D.4: what five clients are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import silot
from evidence.common import Array, Context, Labels, rank_correlation, stream
from evidence.fedbary import _games as games
from evidence.fedbary._baselines import Federated
from evidence.fedbary._data import Pool, digits, embedded, noisy_features, wrong_labels
from evidence.report import Claim, Judged, Report, Table, number, pick, spread, typical, verdict
from evidence.runs import fedwad, triangle
from silot import Measure

INVERTED = Claim(
    "case 5: approximations of Shapley values invert the order", "more noise, larger share"
)
FURTHEST = Claim("without validation data the noisy client is furthest from the barycenter", "yes")

Split = Literal["equal classes", "random"]
Client = tuple[Array, Labels]

# Seeds of cases 4 and 5, and of the others, as usual and with --full.
SEEDS = ((10, 5), (20, 10))
FOLDERS = {"CIFAR-10": "cifar10", "MNIST": "mnist", "Fashion-MNIST": "fashion_mnist"}
CLIENTS = tuple("12345")
TRAIN = 1000
SPLITS: tuple[Split, ...] = ("equal classes", "random")
CASES = {
    1: "same distribution, same size",
    2: "two classes each hold 80 %",
    3: "sizes 10, 15, 20, 25, 30 %",
    4: "wrong labels 0, 5, 10, 15, 20 %",
    5: "noisy features 0, 5, 10, 15, 20 %",
}
# What a right ranking is, best first, where there is one. Sizes: more records are worth more.
BETTER = {3: (1, 2, 3, 4, 5), 4: (5, 4, 3, 2, 1), 5: (5, 4, 3, 2, 1)}
EXACT = "exact Shapley"
VARIANTS: dict[str, dict[str, Any]] = {
    "GTG": {}, "GTG-Ti": {"guided": False, "round_truncation": 0.0}, "GTG-Tib": {"guided": False},
}  # fmt: skip
PUBLISHED, TRIANGLE = "FedBary, S = 100", "TriangleWad"
ATOMS, WALKED = 100, 5
GAMES = ("DataSV", "GTG", "GTG-Ti", "GTG-Tib", "MR", "OR", "leave-one-out")
OURS = "silot, classes"
DEFAULT = "silot"
CENTRE = "silot, no validation"
SHARES, FIFTH = "shares, %", "the fifth is furthest"

Runs = dict[str, list[Array]]
QUICK = {"SEEDS": ((1, 1),), "TRAIN": 250, "FOLDERS": {}}


def run(context: Context) -> Report:
    many, few = context.size(SEEDS)
    pools = {name: embedded(context, folder) for name, folder in FOLDERS.items()}
    pools["digits"] = digits()
    found: dict[tuple[str, int, Split], Runs] = {}
    odd: dict[str, list[Array]] = {}
    for name, pool in pools.items():
        for case in CASES:
            seeds = many if case > 3 else few
            for split in SPLITS:
                runs: Runs = {}
                for seed in range(seeds):
                    centre = split == "equal classes" and seed < (few if case > 3 else 3)
                    for method, shares in _draw(pool, case, split, seed, centre=centre).items():
                        runs.setdefault(method, []).append(shares)
                found[name, case, split] = runs
            context.say(f"{name}, case {case} done")
        odd[name] = [_one_noisy(pool, seed) for seed in range(few)]
    tables = [
        *(_table(found, case) for case in CASES),
        Table.of(
            "Four like clients, and a fifth with noise in 20 % of its records: distance to the "
            "barycenter, medians.",
            odd,
            {
                "data": str,
                "distances": lambda name: " / ".join(
                    f"{value:.3f}" for value in np.median(odd[name], axis=0)
                ),
                FIFTH: lambda name: f"{np.mean([np.argmax(run) == 4 for run in odd[name]]):.0%}",
            },
        ),
    ]
    return Report(
        title="FedBary, figure 4; TriangleWad, D.4: five clients",
        about="Shares of five clients in five cases, by distance (with and without validation "
        "data) and by Shapley values of federated training.",
        setup=[
            f"{TRAIN} training records in all; validation and test records apart: 500 and 1000 "
            "(images in 64 principal components of ones used for nothing else), 300 and 400 "
            f"(digits). Seeds 0 to {many - 1} in cases 4 and 5, 0 to {few - 1} in the others; "
            "medians.",
            "Equal classes: every client has the same number of records of a class, as in the "
            "paper. Random: plain random draws.",
            "Wrong labels: another class, evenly. Noisy features: N(0, 1) added to so many of the "
            "records (data of variance 1); the paper leaves open what its percentages are of.",
            "Exact Shapley: test accuracy of a logistic regression trained by FedAvg (6 rounds of "
            "5 full-batch steps) for each of the 32 coalitions; DataSV samples the same game, "
            "truncated at .01 (TMC). GTG, MR and OR use the models' updates: GTG-Ti truncates "
            "within rounds, GTG-Tib whole rounds too, neither guides its orders. FedShapley's "
            "values are MR's where all take part in every round. Negative values get no share.",
            f"FedBary: inverse of the distance by {WALKED} rounds with {ATOMS} atoms, t = .5, "
            "labels as vectors; verdicts are about it. TriangleWad: the same by its one round, a "
            f"reference of {ATOMS} atoms and deviation 1. silot, classes: `value_holders` by the "
            "distances of records and classes (`faults=False`). silot: "
            "`value_holders(..., labels=True)` as it is by default, with utility by models; cases "
            "4 and 5 with equal classes, 2 seeds at most.",
            "No validation: the barycenter of the clients, labels as vectors, 50 atoms, 5 rounds, "
            f"equal classes only, {few} seeds (3 in cases 1 to 3). It turns case 3 around: a small "
            "sample lies closer to a barycenter of few atoms.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def clients_of(
    pool: Pool, case: int, split: Split, rng: np.random.Generator
) -> tuple[dict[str, Client], Client, Client]:
    """Draw the clients of a case, validation and test records."""
    equal = split == "equal classes"
    held, tested = (500, 1000) if len(pool.x) > 3000 else (300, 400)
    sizes = [0.1, 0.15, 0.2, 0.25, 0.3] if case == 3 else [0.2] * 5
    counts = [round(TRAIN * size) for size in sizes]
    *parts, validation, test = pool.draw(rng, *counts, held, tested, by_class=equal)
    if case == 2:
        parts = _by_class(parts, rng, equal=equal)
    clients: dict[str, Client] = {}
    for place, (name, (x, y)) in enumerate(zip(CLIENTS, parts, strict=True)):
        if case == 4:
            y = wrong_labels(rng, y, 0.05 * place)[0]
        if case == 5:
            x = noisy_features(rng, x, 0.05 * place)[0]
        clients[name] = (x, y)
    return clients, validation, test


def _by_class(parts: list[Client], rng: np.random.Generator, *, equal: bool) -> list[Client]:
    """80 % of two classes to each client, the rest to the others evenly."""
    x, y = np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])
    owner = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y).tolist():
        members = rng.permutation(np.flatnonzero(y == label))
        first = label // 2
        others = [k for k in range(5) if k != first]
        if equal:
            turn = np.arange(len(members))
            owner[members] = np.where(turn % 5 < 4, first, np.take(others, turn // 5 % 4))
        else:
            taken = rng.random(len(members)) < 0.8
            owner[members] = np.where(taken, first, rng.choice(others, len(members)))
    return [(x[owner == k], y[owner == k]) for k in range(5)]


def _draw(pool: Pool, case: int, split: Split, seed: int, *, centre: bool) -> dict[str, Array]:
    rng = stream(22, case, SPLITS.index(split), seed)
    clients, validation, test = clients_of(pool, case, split, rng)
    game = Federated(clients, 10, test)
    known: dict[frozenset[str], float] = {}

    def utility(coalition: frozenset[str]) -> float:
        if coalition not in known:
            known[coalition] = game.utility(coalition)
        return known[coalition]

    tmc = {"truncation": 0.01, "tolerance": 0.002, "max_permutations": 1000, "seed": seed}
    found = {
        EXACT: games.exact_shapley(CLIENTS, utility),
        "DataSV": games.monte_carlo_shapley(CLIENTS, utility, **tmc),
        "leave-one-out": games.leave_one_out(CLIENTS, utility),
    }
    game.train(CLIENTS)
    history = list(game.history)
    for name, chosen in VARIANTS.items():
        found[name] = games.gtg_shapley(history, game.worth, seed=seed, **chosen)
    found["MR"] = games.multi_rounds(history, game.worth)
    found["OR"] = games.one_round(history, game.worth)
    shares = {name: np.array(item.values) for name, item in found.items()}
    shares["accuracy"] = np.array([utility(frozenset(CLIENTS))])
    holders = {name: Measure(x, labels=y) for name, (x, y) in clients.items()}
    target = Measure(validation[0], labels=validation[1])
    # As the paper has them: by the inverse of the distance.
    once: dict[str, Any] = {"form": "barycentric", "support": ATOMS, "seed": seed, "labels": True}
    for method, measured in (
        (PUBLISHED, [walked(x, target, ATOMS, WALKED, seed) for x in holders.values()]),
        (TRIANGLE, [triangle(x, target, **once).value for x in holders.values()]),
    ):
        inverse = 1.0 / np.array(measured)
        shares[method] = inverse / inverse.sum()
    options: dict[str, dict[str, Any]] = {OURS: {"faults": False}}
    if centre:
        result = _centred(holders, seed)
        shares[CENTRE] = np.array([result.shares[client] for client in CLIENTS])
        if case > 3 and seed < 2:
            options[DEFAULT] = {}
    for name, chosen in options.items():
        result = silot.value_holders(
            holders, target, labels=True, seed=seed, intervals=False, **chosen
        )
        shares[name] = np.array([result.shares[client] for client in CLIENTS])
    return shares


def walked(x: Measure, target: Measure, atoms: int, rounds: int, seed: int) -> float:
    """FedBary's distance."""
    return fedwad(x, target, support=atoms, rounds=rounds, t=0.5, seed=seed, labels=True).value


def _centred(holders: dict[str, Measure], seed: int) -> Any:
    return silot.value_holders(
        holders, labels=True, label_metric="vectors", seed=seed, support=50, rounds=5
    )


def _one_noisy(pool: Pool, seed: int) -> Array:
    """Distances to the barycenter of four like clients and one with 20 % noisy features."""
    rng = stream(23, seed)
    parts = pool.draw(rng, *[200] * 5, by_class=True)
    x, y = parts[4]
    parts[4] = (noisy_features(rng, x, 0.2)[0], y)
    holders = {name: Measure(a, labels=b) for name, (a, b) in zip(CLIENTS, parts, strict=True)}
    result = _centred(holders, seed)
    return np.array([result[client].distance.value for client in CLIENTS])


def _truth(runs: Runs, method: str, case: int) -> list[float]:
    return [rank_correlation(shares, np.array(BETTER[case])) for shares in runs[method]]


def _agreement(runs: Runs, method: str) -> list[float]:
    return [rank_correlation(a, b) for a, b in zip(runs[method], runs[EXACT], strict=False)]


def _checked(runs: Runs, method: str, what: str, case: int) -> str:
    if method not in runs or (method == EXACT and what == "as exact"):
        return "–"
    return typical(_truth(runs, method, case) if what == "order" else _agreement(runs, method))


def _table(found: dict[tuple[str, int, Split], Runs], case: int) -> Table:
    names = list(dict.fromkeys(key[0] for key in found))
    equal = {name: found[name, case, SPLITS[0]] for name in names}
    checks = ("order", "as exact") if case in BETTER else ("as exact",)
    heads = [SHARES, *(f"{what}{split}" for what in checks for split in ("", ", random"))]
    rows = [
        [name, method, _shares(equal[name][method]),
         *(_checked(found[name, case, split], method, what, case)
           for what in checks for split in SPLITS)]
        for name in names
        for method in (EXACT, PUBLISHED, TRIANGLE, *GAMES, OURS, DEFAULT, CENTRE)
        if method in equal[name]
    ]  # fmt: skip
    level = ", ".join(f"{name} {np.median(equal[name]['accuracy']):.2f}" for name in names)
    order = "Spearman correlation with the right order; " if case in BETTER else ""
    return Table(
        f"Case {case}, {CASES[case]}. Median shares of clients 1 to 5 (equal classes); {order}"
        "Spearman correlation with exact Shapley; medians, in brackets the worst seed. Accuracy of "
        f"all: {level}.",
        ["data", "method", *heads],
        rows,
    )


def _normal(runs: list[Array]) -> Array:
    """Values as shares (seeds, clients): nothing for negative ones."""
    positive = np.maximum(runs, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 0.2)


def _shares(runs: list[Array]) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in np.median(_normal(runs), axis=0))


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of each case: medians over seeds."""

    def of(case: int, method: str, column: str) -> list[float]:
        rows = pick([tables[case - 1]], "method", column)
        return [number(row[column]) for row in rows if row["method"] == method]

    def order(case: int, method: str, split: str = "") -> list[float]:
        return of(case, method, f"order{split}")

    def apart(case: int, method: str) -> list[float]:
        rows = pick([tables[case - 1]], "method", SHARES)
        return [
            float(np.ptp([float(share) for share in row[SHARES].split(" / ")])) / 100
            for row in rows
            if row["method"] == method
        ]

    equal, wide, loose = (apart(1, method) for method in (PUBLISHED, TRIANGLE, EXACT))
    sizes, exact_sizes = apart(3, PUBLISHED), apart(3, EXACT)
    fourth, fifth = order(4, PUBLISHED), order(5, PUBLISHED)
    fourth_ours, fifth_ours = order(4, OURS), order(5, OURS)
    random = order(4, PUBLISHED, ", random"), order(5, PUBLISHED, ", random")
    others = [value for method in GAMES for value in order(5, method)]
    second = {
        method: of(2, method, "as exact") for method in (PUBLISHED, TRIANGLE, OURS, "MR", "GTG")
    }
    by_triangle = order(4, TRIANGLE), order(5, TRIANGLE)
    as_fedbary = [max(wide) < 0.02, min(second[TRIANGLE]) > 0.7]
    as_fedbary += [min(orders) > 0.95 for orders in by_triangle]
    lone = [number(row[FIFTH]) for row in pick(tables, FIFTH)]
    centre = order(4, CENTRE), order(5, CENTRE)
    return [
        Claim("case 1: all clients get about 20 %", "almost equal").judged(
            f"median shares differ by at most {spread(equal, '.1%')}; exact Shapley "
            f"{spread(loose, '.1%')}",
            verdict(max(equal) < 0.02),
        ),
        Claim("case 2: shares follow exact Shapley", "similar").judged(
            f"Spearman {spread(second[PUBLISHED], '.2f')} (silot, classes "
            f"{spread(second[OURS], '.2f')}, MR {spread(second['MR'], '.2f')}, GTG "
            f"{spread(second['GTG'], '.2f')})",
            verdict(min(second[PUBLISHED]) > 0.7, partly=min(second[PUBLISHED]) > 0),
            "Distance favours classes that lie in the middle of the others; accuracy favours "
            "classes that are easily learnt.",
        ),
        Claim("case 3: size hardly matters", "trivial influence").judged(
            f"shares differ by {spread(sizes, '.1%')}; exact Shapley {spread(exact_sizes, '.1%')}",
            verdict(max(sizes) < 0.1),
            "A larger sample lies a little closer to its distribution, so the order is still "
            "that of size.",
        ),
        Claim("case 4: the more wrong labels, the smaller the share", "right order").judged(
            f"Spearman {spread(fourth, '.2f')}, random splits {spread(random[0], '.2f')}; silot, "
            f"classes {spread(fourth_ours, '.2f')}",
            verdict(min(fourth) > 0.95, partly=max(fourth) > 0.95),
            "Where classes overlap a wrong label costs next to nothing, and chance decides.",
        ),
        Claim("case 5: the noisier the features, the smaller the share", "right order").judged(
            f"Spearman {spread(fifth, '.2f')}, random splits {spread(random[1], '.2f')}; silot, "
            f"classes {spread(fifth_ours, '.2f')}",
            verdict(min(fifth) > 0.95, partly=min(fifth) > 0.7),
        ),
        Claim(
            "TriangleWad: like FedBary in cases 1 and 2, right order in 4 and 5 (D.4)", "yes"
        ).judged(
            f"case 1: shares differ by at most {spread(wide, '.1%')}; Spearman with exact Shapley "
            f"in case 2 {spread(second[TRIANGLE], '.2f')}; with the right order "
            f"{spread(by_triangle[0], '.2f')} and {spread(by_triangle[1], '.2f')}",
            verdict(all(as_fedbary), partly=any(as_fedbary)),
        ),
        INVERTED.judged(
            f"Spearman with the right order {spread(others, '.2f')}",
            verdict(max(others) < 0.0),
            "No order at all, exact Shapley values included: noise in some records hardly changes "
            "what a linear model learns.",
        ),
        FURTHEST.judged(
            f"in {spread(lone, '.0%')} of seeds; Spearman in case 4 {spread(centre[0], '.2f')}, in "
            f"case 5 {spread(centre[1], '.2f')}",
            verdict(min(lone) == 1.0, partly=min(lone) > 0.5),
        ),
    ]
