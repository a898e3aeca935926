"""FedWaD, section 4.4: groups of holders by federated distances, and by private sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, roc_auc_score

import silot
from evidence.common import Context
from evidence.fedwad._holders import SETTING, STRUCTURES, Pictures
from evidence.report import (
    Claim,
    Judged,
    Report,
    Table,
    every,
    mean_sd,
    number,
    pick,
    shown,
    spread,
    verdict,
)
from silot.teaching import Clustering

FOUND = Claim("strong structure: the groups are found, five asked for (adjusted Rand)", "yes")
SEEN = Claim(
    "strong structure is clear in the matrix of MNIST, less so of CIFAR-10 (figure 15)", "yes"
)
AUTO = Claim(
    "strong structure: as many groups are found automatically (adjusted Rand >= .95)", "none"
)
PRIVATE = Claim("strong structure, found by sketches of epsilon = 4 (adjusted Rand >= .95)", "none")
ONE = Claim(
    "all holders with the same distribution: one group, automatically, in 95 % of runs", "none"
)
LOOSE = Claim(
    "pairs of classes drawn at random: who holds the same pair, automatically (adjusted "
    "Rand >= .95)",
    "none",
)

SEEDS = 5
DATA = ("mnist", "cifar10", "fashion_mnist")
# Records of one holder, by how many there are.
SIZES = {10: 200, 20: 100}
SKETCHED = {10: 3000}
ASKED: dict[str, dict[str, Any]] = {
    "rescaled": {"k": 5},
    "3 neighbours": {"k": 5, "affinity": "neighbours", "neighbours": 3},
    "5 neighbours": {"k": 5, "affinity": "neighbours", "neighbours": 5},
}
WAYS = (*ASKED, "automatic")
METHODS: dict[str, dict[str, Any]] = {"direct": {}, "fedwad": {"support": 10, "rounds": 10}}

Runs = dict[tuple[str, int, str, str], list[dict[str, float]]]
QUICK = {"SEEDS": 1, "DATA": DATA[:1], "SIZES": {10: 200}}


def run(context: Context) -> Report:
    runs: Runs = {}
    for name in DATA:
        pictures = Pictures.of(context, name)
        # How many groups there are takes a test of records, which FedWaD keeps apart.
        cases = [
            (size, structure, method)
            for sizes, structures, methods in (
                (SIZES, ("strong",), METHODS), (SIZES, STRUCTURES[1:], ("direct",)),
                (SKETCHED, ("strong", "same"), ("sketch",)),
            )
            for size, structure, method in product(sizes.items(), structures, methods)
        ]  # fmt: skip
        for (holders, records), structure, method in cases:
            runs[name, holders, structure, method] = [
                _found(pictures, holders, records, structure, method, seed) for seed in range(SEEDS)
            ]
            context.say(f"{name}, {holders} holders, {structure}, {method}")
    return _report(runs)


def _found(
    pictures: Pictures, holders: int, records: int, structure: str, method: str, seed: int
) -> dict[str, float]:
    dealt, truth = pictures.dealt(holders, records, structure, seed)
    options = METHODS.get(method, {"public": pictures.public, "privacy_epsilon": 4.0})
    if structure == "none":
        held = {name: tuple(sorted(each.names)) for name, each in sorted(dealt.items())}
        truth = [sorted(set(held.values())).index(pair) for pair in held.values()]
    k = 5 if method == "fedwad" else "auto"
    first = silot.cluster(dealt, method, labels=True, k=k, seed=seed, **options)
    asked = {way: silot.cluster(first.matrix, **options) for way, options in ASKED.items()}
    pairs = np.triu_indices(holders, 1)
    near = float("nan")
    if structure == "strong":
        near = roc_auc_score(np.equal.outer(truth, truth)[pairs], -first.matrix.values[pairs])
    return {
        "near": float(near),
        **{way: rand(truth, each) for way, each in asked.items()},
        "automatic": float("nan") if first.requested == 5 else rand(truth, first),
        "k": float("nan") if first.requested == 5 else first.k,
        "one": float(first.k == 1),
        "records": min(each.size for each in dealt.values()),
    }


def rand(truth: Sequence[int], found: Clustering) -> float:
    """Adjusted Rand index of groups against the true ones."""
    return float(adjusted_rand_score(truth, [found.assignment[n] for n in sorted(found.names)]))


def _report(runs: Runs) -> Report:
    table = _table(runs)
    return Report(
        title="FedWaD, section 4.4: groups of holders",
        about="`silot.cluster` finds groups of holders by the distances between their labelled "
        "records. The paper shows accuracies of models trained within its groups "
        "([table 1](fedwad-table-1.md)), and no index of the groups themselves.",
        setup=[
            SETTING
            + "; 'same': all classes alike. "
            + ", ".join(f"{n} holders of {r} records" for n, r in SIZES.items())
            + ". FedWaD: support 10, as in the paper, 10 rounds. Direct: exact distances.",
            "Sketches: epsilon 4, delta 1e-5, one release each, of holders of up to "
            + " and ".join(f"{r} ({n} holders)" for n, r in SKETCHED.items())
            + " records, as far as the data go.",
            "'Automatic': as many groups as the test of `silot.cluster` tells apart, of records "
            "(direct) or of releases (sketch); FedWaD keeps records apart, and has no test. "
            "Else five are asked for, by the three affinities of the paper.",
            f"Mean ± standard deviation over seeds 0 to {SEEDS - 1}; noise has no seed.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of the table: indices are means over seeds."""
    rows = pick(tables, "data", "structure", "method", *WAYS, "one group", "within nearer")

    def of(column: str, structure: str, *methods: str, data: Sequence[str] = DATA) -> list[float]:
        return [
            number(row[column])
            for row in rows
            if row["structure"] == structure and row["method"] in methods and row["data"] in data
        ]

    def found(claim: Claim, values: Sequence[float]) -> Judged:
        return claim.judged(spread(values, ".2f"), every(value >= 0.95 for value in values))

    near = {name: of("within nearer", "strong", "fedwad", data=[name]) for name in DATA}
    ones = of("one group", "same", "direct", "sketch")
    clear = min(near["mnist"]) >= 0.95
    return [
        found(FOUND, of("rescaled", "strong", "fedwad", data=DATA[:2])),
        SEEN.judged(
            "; ".join(f"{name} {spread(values, '.0%')}" for name, values in near.items()),
            verdict(clear and max(near.get("cifar10", [0.0])) < min(near["mnist"]), partly=clear),
            "By FedWaD: how often two holders of a group are nearer than two of different groups.",
        ),
        found(AUTO, of("automatic", "strong", "direct")),
        found(PRIVATE, of("automatic", "strong", "sketch")),
        ONE.judged(
            f"{np.mean(ones):.0%} of runs", verdict(np.mean(ones) >= 0.95, partly=max(ones) > 0)
        ),
        found(LOOSE, of("automatic", "none", "direct")),
    ]


def _mean(each: Sequence[Mapping[str, float]], key: str) -> float:
    return float(np.mean([one[key] for one in each]))


def _table(runs: Runs) -> Table:
    rows = [
        [
            name, str(holders), structure, method, f"{_mean(each, 'records'):.0f}",
            *(mean_sd([one[way] for one in each], ".2f")
              if structure == "strong" or (structure, way) == ("none", "automatic") else "–"
              for way in WAYS),
            shown(_mean(each, "k"), ".1f"), shown(_mean(each, "one"), ".0%"),
            shown(_mean(each, "near"), ".1%"),
        ]
        for (name, holders, structure, method), each in runs.items()
    ]  # fmt: skip
    columns = ["data", "holders", "structure", "method", "records", *WAYS, "groups, automatic",
               "one group", "within nearer"]  # fmt: skip
    return Table("Adjusted Rand index of the groups that were found.", columns, rows)
