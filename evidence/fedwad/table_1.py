"""FedWaD, table 1: groups of holders by their distances, and federated training within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

import silot
from evidence.common import Claim, Context, Report, Table, spread, verdict
from evidence.fedwad._holders import DIMENSION, PUBLIC, Pictures
from evidence.fedwad.groups import ASKED, WAYS, rand
from silot import Measure

FOUND = Claim("strong structure: its groups are found unasked (adjusted Rand >= .95)", "none")
ONE = Claim("no structure: one group is found unasked", "none")
UPLIFT = Claim("strong structure, MNIST: FedAvg gains 20 points and more", "59.7 to 73.2, N 20-100")
LOSS = Claim("no structure: groups that are found unasked cost a point at most", "none")
OTHERS = Claim("strong structure: FedPer and FedRep gain too (MNIST)", "0.8 to 18.0")

SEEDS = 5
DATA = ("mnist", "cifar10", "fashion_mnist")
# Records of one holder, by how many there are.
SIZES = {10: 300, 20: 150, 40: 75, 100: 60}
# Most holders of each, by default and in full.
MOST = {"mnist": (100, 100), "cifar10": (20, 100), "fashion_mnist": (10, 100)}
ALGORITHMS = ("fedavg", "fedrep", "fedper")
TRAINING = {"rounds": 12, "passes": 3.0, "batch": 20, "alone": False}

Runs = dict[tuple[str, int, str], list[dict[str, float]]]


def run(context: Context) -> Report:
    """Find groups, and train within them."""
    runs: Runs = {}
    for name in DATA:
        pictures = Pictures.of(context, name)
        for (holders, records), structure in product(SIZES.items(), ("strong", "none")):
            if holders > context.size(MOST[name]):
                continue
            each = [_one(pictures, holders, records, structure, seed) for seed in range(SEEDS)]
            runs[name, holders, structure] = each
            means = ", ".join(f"{k} {_mean(each, k):.2f}" for k in each[0])
            context.say(f"{name}, {holders} holders, {structure}: {means}")
    return _report(runs)


def _one(
    pictures: Pictures, holders: int, records: int, structure: str, seed: int
) -> dict[str, float]:
    dealt, truth = pictures.dealt(holders, records, structure, seed)
    first = silot.cluster(dealt, "direct", labels=True, seed=seed)
    groups = {way: silot.cluster(first.matrix, **options) for way, options in ASKED.items()}
    groups["unasked"] = first
    found: dict[str, float] = {"k": first.k}
    found |= {f"rand {way}": rand(truth, each) for way, each in groups.items()}
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    chosen: Mapping[str, Mapping[str, int]] = {
        "vanilla": dict.fromkeys(dealt, 0),
        **{way: each.assignment for way, each in groups.items()},
    }
    for algorithm, (way, assignment) in product(ALGORITHMS, chosen.items()):
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
    strong = {key: each for key, each in runs.items() if key[2] == "strong"}
    loose = {key: each for key, each in runs.items() if key[2] == "none"}
    mnist = {key: each for key, each in strong.items() if key[0] == "mnist"}
    found = [_mean(each, "rand unasked") for each in strong.values()]
    ones = [one["k"] for each in loose.values() for one in each]
    alone = sum(k == 1 for k in ones)
    gains = [_gain(each, "fedavg", "rescaled") for each in mnist.values()]
    more = [_gain(each, a, "rescaled") for each in mnist.values() for a in ALGORITHMS[1:]]
    costs = [_gain(each, a, "unasked") for each in loose.values() for a in ALGORITHMS]
    lost = [
        f"{a} on {key[0]} with {key[1]} holders"
        for key, each in loose.items()
        for a in ALGORITHMS
        if _gain(each, a, "unasked") < -1
    ]
    return Report(
        title="FedWaD, table 1: groups of holders, and federated training within them",
        about="`silot.cluster` finds groups of holders by the distances between their labelled "
        "records, and `silot.train` trains a model for each, against one model of all.",
        setup=[
            f"Features: {DIMENSION} principal components of {PUBLIC} public records that no holder "
            "has (the paper: pixels of MNIST, the code of a random autoencoder of CIFAR-10). "
            "Nothing was tuned on Fashion-MNIST.",
            "Holders of two classes: of five pairs of digits or things, groups of random size, two "
            "holders or more each (strong structure), or of a pair drawn for each holder (none). "
            + ", ".join(f"{n} holders of {r} records" for n, r in SIZES.items())
            + "; the paper does not say how many. A fifth is held out at each.",
            "Groups are found in the matrix of exact distances (labels as OTDD vectors), of which "
            "FedWaD's are approximations: [groups](fedwad-groups.md) has what FedWaD and private "
            "sketches find. 'Unasked': as many groups as the test of `silot.cluster` tells apart.",
            f"Training: one hidden layer of 64 units, {TRAINING['rounds']} rounds of "
            f"{TRAINING['passes']:.0f} passes, batches of {TRAINING['batch']}, rate .01, "
            "momentum .9; one holder in ten (of each group, one at least) is asked a round, as in "
            "the code the paper used. "
            "Accuracies are means over holders of what each held out.",
            f"Seeds 0 to {SEEDS - 1}, which draw holders, models and batches. Mean ± standard "
            "deviation. --full has up to 100 holders of the other two too: 100 take some 80 CPU "
            "seconds for each seed and structure.",
        ],
        claims=[
            FOUND.judged(
                f"adjusted Rand {spread(found, '.2f')}",
                verdict(min(found) >= 0.95, partly=max(found) >= 0.95),
                "Where it is lower, the test tells other than five groups apart: "
                + _below(strong, "rand unasked", 0.95)
                + ".",
            ),
            ONE.judged(
                f"{alone} of {len(ones)} runs",
                verdict(alone == len(ones), partly=alone > 0),
                "Pairs drawn at random recur and share classes: the groups that are found are of "
                "such holders, and training within them is better. Holders of one law are one "
                "group ([groups](fedwad-groups.md)).",
            ),
            UPLIFT.judged(spread(gains, "+.1f"), verdict(min(gains) >= 20)),
            OTHERS.judged(
                spread(more, "+.1f"),
                verdict(min(more) > 0, partly=float(np.mean(more)) > 0),
                "Heads of their own fit holders of two classes as well without groups: they are "
                "fitted anew in every round here.",
            ),
            LOSS.judged(
                spread(costs, "+.1f"),
                verdict(min(costs) >= -1),
                f"Losses beyond a point: {', '.join(lost) or 'none'}. Not looked into.",
            ),
        ],
        tables=[_rand_table(runs), _accuracy_table(runs)],
    )


def _mean(each: Sequence[Mapping[str, float]], key: str) -> float:
    return float(np.mean([one[key] for one in each]))


def _below(runs: Runs, key: str, least: float) -> str:
    """Which runs are below, with the number of groups they found."""
    said = [
        f"{_mean(each, 'k'):.1f} on {name} with {holders} holders"
        for (name, holders, _), each in runs.items()
        if _mean(each, key) < least
    ]
    return ", ".join(said) or "none"


def _gain(each: Sequence[Mapping[str, float]], algorithm: str, way: str) -> float:
    return 100 * (_mean(each, f"{algorithm} {way}") - _mean(each, f"{algorithm} vanilla"))


def _shown(each: Sequence[Mapping[str, float]], key: str, unit: float = 100.0) -> str:
    values = unit * np.array([one[key] for one in each])
    form = ".1f" if unit == 100.0 else ".2f"
    return f"{values.mean():{form}} ± {values.std(ddof=1):{form}}"


def _rand_table(runs: Runs) -> Table:
    rows = [
        [name, str(holders), structure]
        + [_shown(each, f"rand {way}", 1.0) if structure == "strong" else "–" for way in WAYS]
        + [f"{_mean(each, 'k'):.1f}"]
        for (name, holders, structure), each in runs.items()
    ]
    columns = ["data", "holders", "structure", *WAYS, "groups, unasked"]
    return Table("Adjusted Rand index of the groups that were found.", columns, rows)


def _accuracy_table(runs: Runs) -> Table:
    ways = ("vanilla", *WAYS)
    rows = [
        [name, structure, algorithm, str(holders)]
        + [_shown(each, f"{algorithm} {way}") for way in ways]
        for (name, holders, structure), each in runs.items()
        for algorithm in ALGORITHMS
    ]
    columns = ["data", "structure", "algorithm", "holders", *ways]
    return Table("Accuracy in %, without groups and with those that were found.", columns, rows)
