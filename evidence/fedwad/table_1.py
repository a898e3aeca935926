"""FedWaD, table 1: groups of holders by their distances, and federated training within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np

import silot
from evidence.common import Context
from evidence.fedwad._holders import SETTING, Pictures
from evidence.fedwad.groups import ASKED, METHODS
from evidence.report import Claim, Judged, Report, Table, mean_sd, number, pick, spread, verdict
from silot import Measure
from silot.teaching import Clustering

ALWAYS = Claim("strong structure: groups always improve (FedAvg, FedRep, FedPer)", "always")
UPLIFT = Claim("strong structure, MNIST, affinity: FedAvg gains 20 points and more", "59.7 to 80.0")
OTHERS = Claim("strong structure, MNIST, affinity: FedPer and FedRep gain", "0.8 to 27.8")
LOOSE = Claim("no structure: groups almost always improve FedAvg and FedRep", "34 of 36 cells")
BEST = Claim("affinity is the best of the three, on average", "MNIST 26.4 against 24.4 and 24.4")
LOSS = Claim("no structure: groups that are found automatically cost a point at most", "none")

# Draws of each case; of many holders, whose distances and models take minutes, fewer.
SEEDS, FEWER = 3, {40: 1, 100: 1}
PAPERS = ("mnist", "cifar10")
DATA = (*PAPERS, "fashion_mnist")
# Records of one holder, by how many there are.
SIZES = {10: 300, 20: 150, 40: 75, 100: 60}
# Most holders of each, by default and in full, and most of those whose distances are computed by
# the larger support too, or tested.
MOST = {"mnist": (100, 100), "cifar10": (100, 100), "fashion_mnist": (10, 100)}
WIDE, MOST_WIDE, MOST_TESTED = 100, 20, 40
BY_WIDE = {f"{way}, S = {WIDE}": options for way, options in ASKED.items()}
BY_DISTANCE = {**ASKED, **BY_WIDE}
ALGORITHMS = ("fedavg", "fedrep", "fedper")
TRAINING = {"rounds": 12, "passes": 3.0, "batch": 20, "alone": False}

Runs = dict[tuple[str, int, str], list[dict[str, float]]]
QUICK = {"SEEDS": 1, "DATA": DATA[:2], "SIZES": {10: 100}, "MOST_WIDE": 0}
QUICK["TRAINING"] = TRAINING | {"rounds": 4}


def run(context: Context) -> Report:
    runs: Runs = {}
    for name in DATA:
        pictures = Pictures.of(context, name)
        for (holders, records), structure in product(SIZES.items(), ("strong", "none")):
            if holders > context.size(MOST[name]):
                continue
            seeds = range(min(SEEDS, FEWER.get(holders, SEEDS)))
            each = [_one(pictures, holders, records, structure, seed) for seed in seeds]
            runs[name, holders, structure] = each
            means = ", ".join(f"{k} {np.mean([one[k] for one in each]):.2f}" for k in each[0])
            context.say(f"{name}, {holders} holders, {structure}: {means}")
    return _report(runs)


def _one(
    pictures: Pictures, holders: int, records: int, structure: str, seed: int
) -> dict[str, float]:
    dealt, _ = pictures.dealt(holders, records, structure, seed)
    groups: dict[str, Clustering] = {}
    for support, ways in {METHODS["fedwad"]["support"]: ASKED, WIDE: BY_WIDE}.items():
        if support < WIDE or holders <= MOST_WIDE:
            chosen = {**METHODS["fedwad"], "support": support}
            paper = silot.cluster(dealt, "fedwad", labels=True, k=5, seed=seed, **chosen)
            groups |= {way: silot.cluster(paper.matrix, **each) for way, each in ways.items()}
    if holders <= MOST_TESTED:
        groups["automatic"] = silot.cluster(dealt, "direct", labels=True, seed=seed)
    found: dict[str, float] = {}
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    assigned: Mapping[str, Mapping[str, int]] = {
        "vanilla": dict.fromkeys(dealt, 0),
        **{way: each.assignment for way, each in groups.items()},
    }
    for algorithm, (way, assignment) in product(ALGORITHMS, assigned.items()):
        case = (algorithm, tuple(assignment.values()))
        if case not in known:
            known[case] = _accuracy(dealt, algorithm, assignment, seed)
        found[f"{algorithm} {way}"] = known[case]
    return found


def _accuracy(
    dealt: Mapping[str, Measure], algorithm: str, groups: Mapping[str, int], seed: int
) -> float:
    """Mean over holders of the accuracy on what each held out."""
    sizes = np.bincount(list(groups.values()))
    # One holder in ten of each group, one at least.
    active = max(1, round(0.1 * float(sizes[sizes > 0].mean())))
    found = silot.train(
        dealt, algorithm=algorithm, groups=groups, active=active, seed=seed, **TRAINING
    )
    return float(np.mean([value for value in found.accuracies.values() if value is not None]))


def _report(runs: Runs) -> Report:
    ways = ("vanilla", *ASKED, *BY_WIDE, "automatic")
    tables = [
        Table(
            "Accuracy in %, without groups and with those that were found.",
            ["data", "structure", "algorithm", "holders", *ways],
            [
                [
                    name, structure, algorithm, str(holders),
                    *(mean_sd([100 * one.get(f"{algorithm} {way}", np.nan) for one in each])
                      for way in ways),
                ]
                for (name, holders, structure), each in runs.items()
                for algorithm in ALGORITHMS
            ],
        )
    ]  # fmt: skip
    return Report(
        title="FedWaD, table 1: groups of holders, and federated training within them",
        about="`silot.cluster` finds groups of holders by the distances between their labelled "
        "records, and `silot.train` trains a model for each, against one model of all.",
        setup=[
            SETTING
            + ". "
            + ", ".join(f"{n} holders of {r} records" for n, r in SIZES.items())
            + "; the paper does not say how many. A fifth is held out at each.",
            "Groups are found in the matrix of FedWaD's distances (labels as OTDD vectors, support "
            f"{METHODS['fedwad']['support']} as in the paper, {METHODS['fedwad']['rounds']} "
            "rounds), five of them, by the paper's three affinities ('rescaled' is its affinity). "
            "'Automatic' is not the paper's: by exact distances, as many groups as the test of "
            f"`silot.cluster` tells apart, of {MOST_TESTED} holders at most. S = {WIDE}: by that "
            f"support, half of the paper's tables 2 to 5, of {MOST_WIDE} holders at most.",
            f"Training: one hidden layer of 64 units, {TRAINING['rounds']} rounds of "
            f"{TRAINING['passes']:.0f} passes, batches of {TRAINING['batch']}, rate .01, "
            "momentum .9; one holder in ten (of each group, one at least) is asked a round, as in "
            "the code the paper used. "
            "Accuracies are means over holders of what each held out.",
            f"Seeds 0 to {SEEDS - 1}, which draw holders, models and batches; of 40 and 100 "
            "holders one. Mean ± standard deviation.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge gains by the rows of accuracies, over the number of holders and the affinities."""
    rows = pick(tables, "structure", "algorithm", "vanilla", *ASKED)

    def gains(
        structure: str, *algorithms: str, data: Sequence[str] = PAPERS,
        ways: Iterable[str] = BY_DISTANCE,
    ) -> dict[str, float]:  # fmt: skip
        return {
            f"{row['algorithm']}, {way}, {row['data']} with {row['holders']}": number(row[way])
            - number(row["vanilla"])
            for row in rows
            for way in ways
            if row["structure"] == structure
            and row[way] != "–"
            and row["algorithm"] in algorithms
            and row["data"] in data
        }

    def short(cells: Mapping[str, float], least: float = 0.0) -> str:
        below = [f"{key} {value:+.1f}" for key, value in cells.items() if value <= least]
        some = "; ".join(below[:4]) + (f"; {len(below) - 4} more" if len(below) > 4 else "")
        return f"Not above {least:g}: {some}." if below else ""

    def share(claim: Claim, cells: Mapping[str, float], wanted: float, why: str = "") -> Judged:
        positive = sum(value > 0 for value in cells.values()) / len(cells)
        return claim.judged(
            f"{positive:.0%} of {len(cells)} cells; {spread(list(cells.values()), '+.1f')}",
            verdict(positive >= wanted, partly=positive >= 0.75),
            f"{why}{' ' if why else ''}{short(cells)}".strip(),
        )

    strong, loose = gains("strong", *ALGORITHMS), gains("none", "fedavg", "fedrep")
    uplift = gains("strong", "fedavg", data=("mnist",), ways=["rescaled"])
    more = gains("strong", "fedrep", "fedper", data=("mnist",), ways=["rescaled"])
    cifar = gains("strong", "fedrep", data=("cifar10",), ways=["rescaled"])
    cifar_loose = gains("none", "fedavg", data=("cifar10",), ways=["rescaled"])
    means = {
        way: float(np.mean(list(gains("strong", *ALGORITHMS, ways=[way]).values())))
        for way in ASKED
    }
    costs = gains("none", *ALGORITHMS, data=DATA, ways=["automatic"])
    heads = "Heads are fitted anew in every round here, and fit two classes well without groups."
    return [
        share(ALWAYS, strong, 1.0, heads),
        UPLIFT.judged(
            spread(list(uplift.values()), "+.1f"),
            verdict(min(uplift.values()) >= 20, partly=max(uplift.values()) >= 20),
            short(uplift, 20.0),
        ),
        share(OTHERS, more, 1.0, heads),
        Claim("strong structure, CIFAR-10: FedRep gains up to 9 points", "3.4 to 8.7").judged(
            spread(list(cifar.values()), "+.1f"),
            verdict(min(cifar.values()) >= 3.4, partly=min(cifar.values()) > 0),
            heads,
        ),
        BEST.judged(
            ", ".join(f"{way} {value:+.1f}" for way, value in means.items()),
            verdict(max(means.values()) == means["rescaled"]),
            "Mean gains over data, holders and algorithms with strong structure.",
        ),
        share(LOOSE, loose, 0.9),
        Claim("no structure, CIFAR-10: FedAvg gains", "27.1 to 53.2").judged(
            spread(list(cifar_loose.values()), "+.1f"),
            verdict(min(cifar_loose.values()) >= 20, partly=min(cifar_loose.values()) > 0),
            short(cifar_loose, 20.0),
        ),
        LOSS.judged(
            spread(list(costs.values()), "+.1f"),
            verdict(min(costs.values()) >= -1),
            f"With {MOST_TESTED} holders at most. {short(costs, -1.0)}",
        ),
    ]
