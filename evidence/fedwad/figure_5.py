"""FedWaD, figures 5 and 12: the classifier on a federated coreset, against FedRep and FedPer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

import silot
from evidence.common import Context, stream
from evidence.fedwad import coreset
from evidence.fedwad.coreset import DIMENSION, PUBLIC, Records, part_of, pooled_of
from evidence.fedwad.table_1 import TRAINING
from evidence.report import Claim, Judged, Report, Table, every, number, pick, spread
from silot import Measure
from silot.teaching.federated import NearestNeighbour

RANDOM = Claim("better than as many random records", "not compared")
OWN = Claim("better than the nearest of a holder's own records", "not compared")
INSTEAD = Claim("one labelled coreset of all holders is better, with as many points", "a wish")

SEEDS = 5
RECORDS, SIZES, CLASSES, ACTIVE = 4000, {10: 10, 100: 2}, 2, 10
HOLDERS = {"mnist": (10, 100), "fashion_mnist": (10, 100), "usps": (10,)}
TRAINED = ("FedRep", "FedPer")
QUICK = {"SEEDS": 1, "HOLDERS": {"mnist": (10, 100)}}


def run(context: Context) -> Report:
    rows: list[dict] = []
    for name, counts in HOLDERS.items():
        records = coreset.records_of(context, name)
        for count in counts:
            found = coreset.by_seed(SEEDS, partial(_accuracies, records, count))
            rows.append({"data": name, "holders": count, **found})
            context.say(f"{name}, {count} holders")
    table = coreset.accuracy_table(
        "Accuracy in %, 1-nearest neighbour but for FedRep and FedPer.",
        rows,
        {"data": "data", "holders": "holders"},
        {
            "coresets": "coresets", "one of all": "one", "FedRep": "FedRep", "FedPer": "FedPer",
            "random records": "random", "own records": "own", "coresets, all classes": "all",
        },
    )  # fmt: skip
    return Report(
        title="FedWaD, figures 5 and 12: coresets against trained models",
        about="The 1-nearest-neighbour classifier on the coresets of all holders, as the paper has "
        "it, and models of `silot.train` with a head of each holder's own.",
        setup=[
            f"{DIMENSION} principal components of {PUBLIC} public records; {RECORDS} records in "
            f"all (USPS: as many as there are), {CLASSES} classes a holder. A fifth of each "
            "holder's records is in no coreset and trains no model.",
            "Accuracy: mean over holders on what each held out, which has its own classes alone. "
            "'All classes': on test records of all ten, which no head of a holder knows. Chance "
            "is 50 % for a head of two classes, 10 % for a coreset.",
            "Coresets: one of each holder, found by `silot.coreset` from its records alone and "
            "without labels, 10 rounds; a point has the label of the holder's nearest record. "
            + ", ".join(f"{size} points a holder of {n}" for n, size in SIZES.items())
            + ". All points of all holders are the classifier. One of all: as many points, found "
            "class by class from all holders together, which is silot's default and not the "
            "paper's. Random: as many records of the union.",
            f"FedRep and FedPer: one hidden layer of 64 units, {TRAINING['rounds']} rounds of "
            f"{TRAINING['passes']:.0f} passes, {ACTIVE} holders a round; the head is fitted to all "
            "of a holder's own records.",
            f"Mean ± standard deviation over seeds 0 to {SEEDS - 1}. Nothing was tuned on USPS.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge the coresets of the holders by the rows of accuracies."""
    rows = pick(tables, "holders", "coresets", "one of all", "FedRep", "FedPer")

    def gains(over: str, of: str = "coresets", least: int = 0) -> list[float]:
        return [number(row[of]) - number(row[over]) for row in rows if int(row["holders"]) >= least]

    def better(claim: Claim, over: str, of: str = "coresets", why: str = "") -> Judged:
        values = gains(over, of)
        return claim.judged(
            f"{spread(values, '+.1f')} points", every(value > 0 for value in values), why
        )

    trained = [gain for way in TRAINED for gain in gains(way)]
    many = [gain for way in TRAINED for gain in gains(way, least=100)]
    return [
        Claim("competitive with FedRep and FedPer, 2 classes a holder", "yes").judged(
            f"{spread(trained, '+.1f')} points of accuracy against them",
            every(value >= -5 for value in trained),
            "A head of two classes chooses between two, a coreset between ten.",
        ),
        Claim("better than both where holders are many", "yes").judged(
            f"{spread(many, '+.1f')} points at 100 holders",
            every(value > 0 for value in many),
            "Heads are trained on 40 records of a holder each.",
        ),
        better(RANDOM, "random records"),
        better(
            OWN,
            "own records",
            why="A holder of two classes needs nobody to tell these two apart: what coresets add "
            "is all the others.",
        ),
        better(INSTEAD, "coresets", "one of all", "Tested on holders' own classes."),
    ]


def _accuracies(records: Records, count: int, seed: int) -> dict[str, float]:
    rng = stream(seed, 8, count)
    train: dict[str, Measure] = {}
    held: dict[str, Measure] = {}
    for name, each in records.holders(count, RECORDS // count, CLASSES, rng).items():
        order = rng.permutation(each.size)
        fifth = each.size // 5
        held[name], train[name] = part_of(each, order[:fifth]), part_of(each, order[fifth:])
    size = SIZES[count] * count
    coresets = NearestNeighbour.of(
        *(_coreset(name, each, SIZES[count], seed) for name, each in train.items())
    )
    one = silot.coreset(train, size, labels=True, seed=seed, rounds=10).classifier
    pooled = pooled_of(train)
    random = NearestNeighbour.of(part_of(pooled, rng.permutation(pooled.size)[:size]))
    own = {name: NearestNeighbour.of(each) for name, each in train.items()}
    return {
        "coresets": _mean(held, lambda _, each: coresets.accuracy(each)),
        "one": _mean(held, lambda _, each: one.accuracy(each)),
        "random": _mean(held, lambda _, each: random.accuracy(each)),
        "own": _mean(held, lambda name, each: own[name].accuracy(each)),
        **{way: _trained(train, held, way, seed) for way in TRAINED},
        "all": coresets.accuracy(records.test),
    }


def _coreset(name: str, data: Measure, size: int, seed: int) -> Measure:
    """Points of one holder, found without labels, each with the label of the nearest record."""
    points = silot.coreset({name: data}, size, seed=seed, rounds=10).points
    return Measure(points, labels=NearestNeighbour.of(data).predict(points))


def _trained(
    train: Mapping[str, Measure], held: Mapping[str, Measure], algorithm: str, seed: int
) -> float:
    model = silot.train(
        train, algorithm=algorithm.lower(), active=ACTIVE, held_out=0.0, seed=seed, **TRAINING
    )

    def right(name: str, each: Measure) -> float:
        return float(np.mean(model.predict(name, each.points, train[name]) == each.names))

    return _mean(held, right)


def _mean(held: Mapping[str, Measure], accuracy: Callable[[str, Measure], float]) -> float:
    return float(np.mean([accuracy(name, each) for name, each in held.items()]))
