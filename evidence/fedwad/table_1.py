"""FedWaD, table 1: groups of holders by their distances, and federated training within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from sklearn.metrics import adjusted_rand_score

import silot
from evidence.common import Claim, Context, Report, Table, spread, verdict
from evidence.fedwad.holders import DIMENSION, PUBLIC, Pictures
from silot import Clustering, DistanceMatrix, Measure

FOUND = Claim("strong structure: the groups are found, five asked for (adjusted Rand)", "yes")
AUTO = Claim("strong structure: as many groups are found unasked (adjusted Rand >= .95)", "none")
PRIVATE = Claim("strong structure, found by sketches of epsilon = 4 (adjusted Rand >= .95)", "none")
ONE = Claim("no structure: one group, unasked", "none")
UPLIFT = Claim("strong structure, MNIST: FedAvg gains 20 points and more", "59.7 to 73.2, N 20-100")
LOSS = Claim("no structure: groups that are found unasked cost a point at most", "none")
OTHERS = Claim("strong structure: FedPer and FedRep gain too (MNIST)", "0.8 to 18.0")

SEEDS = 5
DATA = ("mnist", "cifar10", "fashion_mnist")
# Records of one holder, by how many there are.
SIZES = {10: 400, 20: 200, 40: 100}
LARGE = {100: 60}
BY_FEDWAD = (10, 20)
SKETCHED = {10: 3000, 20: 2000}
WAYS = ("rescaled", "3 neighbours", "5 neighbours", "unasked")
ALGORITHMS = ("fedavg", "fedrep", "fedper")
TRAINING = {"rounds": 20, "passes": 5.0, "alone": False}

Runs = dict[tuple[str, int, str], list[dict[str, float]]]


def run(context: Context) -> Report:
    """Find groups, and train within them."""
    runs: Runs = {}
    private: Runs = {}
    for name in DATA:
        pictures = Pictures.of(context, name)
        sizes = SIZES if name == "fashion_mnist" else SIZES | LARGE
        if name == "fashion_mnist":
            sizes = {20: SIZES[20]}
        for (holders, records), structure in product(sizes.items(), ("strong", "none")):
            seeds = range(SEEDS if name != "cifar10" or holders < 100 else 2)
            key = (name, holders, structure)
            runs[key] = [_one(pictures, holders, records, structure, seed) for seed in seeds]
            context.say(f"{name}, {holders} holders, {structure}")
        for (holders, records), structure in product(SKETCHED.items(), ("strong", "one law")):
            key = (name, holders, structure)
            private[key] = [
                _sketched(pictures, holders, records, structure, seed) for seed in range(SEEDS)
            ]
            context.say(f"{name}, {holders} holders, {structure}, sketches")
    return _report(runs, private)


def _one(
    pictures: Pictures, holders: int, records: int, structure: str, seed: int
) -> dict[str, float]:
    dealt, truth = pictures.dealt(holders, records, structure, seed)
    found: dict[str, float] = {}
    matrix = silot.distance_matrix(dealt, "direct", labels=True)
    groups = _groups(matrix, dealt)
    if holders in BY_FEDWAD:
        published = silot.distance_matrix(
            dealt, "fedwad", labels=True, support=10, rounds=10, seed=seed
        )
        by_fedwad = _groups(published, dealt)
        found |= {f"fedwad {way}": _rand(truth, each) for way, each in by_fedwad.items()}
        found["fedwad k"] = by_fedwad["unasked"].k
    found |= {f"direct {way}": _rand(truth, each) for way, each in groups.items()}
    found["direct k"] = groups["unasked"].k
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


def _groups(matrix: DistanceMatrix, dealt: Mapping[str, Measure]) -> dict[str, Clustering]:
    """Of five groups by three affinities, and of as many as there are."""
    five = {
        "rescaled": silot.cluster(matrix, k=5, resamples=0),
        "3 neighbours": silot.cluster(
            matrix, k=5, affinity="neighbours", neighbours=3, resamples=0
        ),
        "5 neighbours": silot.cluster(
            matrix, k=5, affinity="neighbours", neighbours=5, resamples=0
        ),
    }
    return {**five, "unasked": silot.cluster(matrix, resamples=0)}


def _rand(truth: Sequence[int], found: Clustering) -> float:
    return float(adjusted_rand_score(truth, [found.assignment[n] for n in sorted(found.names)]))


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


def _sketched(
    pictures: Pictures, holders: int, records: int, structure: str, seed: int
) -> dict[str, float]:
    dealt, truth = pictures.dealt(holders, records, structure, seed)
    options = {"labels": True, "public": pictures.public, "privacy_epsilon": 4.0, "seed": seed}
    sketches = silot.sketches(dealt, **options)
    found = silot.cluster(sketches, resamples=0)
    five = silot.cluster(sketches, k=5, resamples=0)
    fewest = min(each.size for each in dealt.values())
    return {"unasked": _rand(truth, found), "five": _rand(truth, five), "k": found.k, "n": fewest}


def _report(runs: Runs, private: Runs) -> Report:
    strong = {key: each for key, each in runs.items() if key[2] == "strong"}
    loose = {key: each for key, each in runs.items() if key[2] == "none"}
    mnist = {key: each for key, each in strong.items() if key[0] == "mnist"}
    five = [_mean(each, f"{m} rescaled") for each in strong.values() for m in _methods(each)]
    auto = [_mean(each, f"{m} unasked") for each in strong.values() for m in _methods(each)]
    secret = [_mean(each, "unasked") for key, each in private.items() if key[2] == "strong"]
    ones = [_mean(each, f"{m} k") for each in loose.values() for m in _methods(each)]
    ones += [_mean(each, "k") for key, each in private.items() if key[2] != "strong"]
    gains = [_gain(each, "fedavg", "rescaled") for each in mnist.values()]
    more = [_gain(each, a, "rescaled") for each in mnist.values() for a in ALGORITHMS[1:]]
    costs = [_gain(each, a, "unasked") for each in loose.values() for a in ALGORITHMS]
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
            + ", ".join(f"{n} holders of {r} records" for n, r in (SIZES | LARGE).items())
            + "; the paper does not say how many. A fifth is held out at each.",
            "Groups are found in the matrix of exact distances (labels as OTDD vectors), of which "
            "FedWaD's are approximations; with 10 and 20 holders also by FedWaD itself, support "
            "10, 10 rounds. 'Unasked': as many groups as the criterion of `silot.cluster` finds.",
            f"Training: one hidden layer of 64 units, {TRAINING['rounds']} rounds of "
            f"{TRAINING['passes']:.0f} passes, batches of 10, rate .01, momentum .9; one holder in "
            "ten (of each group, one at least) is asked a round, as in the code the paper used. "
            "Accuracies are means over holders of what each held out.",
            f"Seeds 0 to {SEEDS - 1} (CIFAR-10 with 100 holders: 2 seeds), which draw holders, "
            "models and batches. Mean ± standard deviation.",
            "Sketches: epsilon 4, delta 1e-5, one release each; holders of up to "
            + " and ".join(f"{r} ({n} holders)" for n, r in SKETCHED.items())
            + " records, as far as the data go; 'one law': all holders have all classes alike.",
        ],
        claims=[
            FOUND.judged(spread(five, ".2f"), verdict(min(five) >= 0.95)),
            AUTO.judged(spread(auto, ".2f"), verdict(min(auto) >= 0.95)),
            PRIVATE.judged(spread(secret, ".2f"), verdict(min(secret) >= 0.95)),
            ONE.judged(f"{spread(ones, '.1f')} groups", verdict(max(ones) == 1.0)),
            UPLIFT.judged(spread(gains, "+.1f"), verdict(min(gains) >= 20)),
            OTHERS.judged(
                spread(more, "+.1f"),
                verdict(min(more) > 0, partly=float(np.mean(more)) > 0),
                "Heads of their own fit holders of two classes as well without groups: they are "
                "fitted anew in every round here.",
            ),
            LOSS.judged(spread(costs, "+.1f"), verdict(min(costs) >= -1)),
        ],
        tables=[_rand_table(runs), _private_table(private), _accuracy_table(runs)],
    )


def _methods(each: Sequence[Mapping[str, float]]) -> list[str]:
    return [m for m in ("fedwad", "direct") if f"{m} k" in each[0]]


def _mean(each: Sequence[Mapping[str, float]], key: str) -> float:
    return float(np.mean([one[key] for one in each]))


def _gain(each: Sequence[Mapping[str, float]], algorithm: str, way: str) -> float:
    return 100 * (_mean(each, f"{algorithm} {way}") - _mean(each, f"{algorithm} vanilla"))


def _shown(each: Sequence[Mapping[str, float]], key: str, unit: float = 100.0) -> str:
    values = unit * np.array([one[key] for one in each])
    form = ".1f" if unit == 100.0 else ".2f"
    return f"{values.mean():{form}} ± {values.std(ddof=1):{form}}"


def _rand_table(runs: Runs) -> Table:
    rows = [
        [
            name, str(holders), structure, method,
            *(
                _shown(each, f"{method} {way}", 1.0) if structure == "strong" else "–"
                for way in WAYS
            ),
            f"{_mean(each, f'{method} k'):.1f}",
        ]
        for (name, holders, structure), each in runs.items()
        for method in _methods(each)
    ]  # fmt: skip
    columns = ["data", "holders", "structure", "distances", *WAYS, "groups, unasked"]
    return Table("Adjusted Rand index of the groups that were found.", columns, rows)


def _private_table(private: Runs) -> Table:
    rows = [
        [
            name, str(holders), structure, f"{_mean(each, 'n'):.0f}",
            *(
                [_shown(each, "five", 1.0), _shown(each, "unasked", 1.0)]
                if structure == "strong"
                else ["–", "–"]
            ),
            f"{_mean(each, 'k'):.1f}",
        ]
        for (name, holders, structure), each in private.items()
    ]  # fmt: skip
    columns = ["data", "holders", "structure", "records", "five asked", "unasked", "groups"]
    return Table("The same by sketches, epsilon 4.", columns, rows)


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
