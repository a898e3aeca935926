"""FedWaD, figure 5: the classifier on a federated coreset, against FedRep and FedPer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import silot
from evidence.common import Claim, Context, Labels, Report, Table, spread, stream, verdict
from evidence.fedwad.coreset import DIMENSION, PUBLIC, Records, pooled_of, records_of
from evidence.fedwad.table_1 import TRAINING
from silot import Measure
from silot.teaching.federated import NearestNeighbour

NEAR = Claim("competitive with FedRep and FedPer, 2 classes a holder", "yes")
MORE = Claim("better than both where holders are many", "yes")
RANDOM = Claim("better than as many random records", "not compared")
OWN = Claim("better than the nearest of a holder's own records", "not compared")

SEEDS = 5
RECORDS, SIZE, CLASSES, ACTIVE = 4000, 100, 2, 10
HOLDERS = {"mnist": (10, 100), "usps": (10,)}
TRAINED = ("fedrep", "fedper")


def run(context: Context) -> Report:
    """Condense, train, and test on what every holder held out."""
    rows: list[dict] = []
    for name, counts in HOLDERS.items():
        records = records_of(context, name)
        for count in counts:
            runs = [_accuracies(records, count, seed) for seed in range(SEEDS)]
            shown = {key: np.array([one[key] for one in runs]) for key in runs[0]}
            rows.append({"data": name, "holders": count, **shown})
            context.say(f"{name}, {count} holders")
    gains = {
        way: [float(row["coreset"].mean() - row[way].mean()) for row in rows]
        for way in (*TRAINED, "random", "own")
    }
    trained = gains["fedrep"] + gains["fedper"]
    many = [gains[way][k] for way in TRAINED for k, row in enumerate(rows) if row["holders"] > 10]
    return Report(
        title="FedWaD, figure 5: coresets against trained models",
        about="The 1-nearest-neighbour classifier on a `silot.coreset` of all holders, and models "
        "of `silot.train` with a head of each holder's own.",
        setup=[
            f"{DIMENSION} principal components of {PUBLIC} public records; {RECORDS} records in "
            f"all (USPS: as many as there are), {CLASSES} classes a holder. A fifth of each "
            "holder's records is in no coreset and trains no model.",
            "Accuracy: mean over holders on what each held out, which has its own classes alone. "
            "'All classes': on test records of all ten, which no head of a holder knows. Chance "
            "is 50 % for a head of two classes, 10 % for a coreset.",
            f"Coreset: {SIZE} points of all holders, found class by class, 10 rounds; the paper "
            "takes one of each holder. Random: as many records of the union.",
            f"FedRep and FedPer: one hidden layer of 64 units, {TRAINING['rounds']} rounds of "
            f"{TRAINING['passes']:.0f} passes, {ACTIVE} holders a round; the head is fitted to all "
            "of a holder's own records.",
            f"Mean ± standard deviation over seeds 0 to {SEEDS - 1}. Nothing was tuned on USPS. "
            "Some four CPU minutes in all.",
        ],
        claims=[
            NEAR.judged(
                f"{_points(trained)} points of accuracy against them",
                verdict(min(trained) >= -0.05, partly=max(trained) >= -0.05),
                "A head of two classes chooses between two, a coreset between ten.",
            ),
            MORE.judged(f"{_points(many)} points", verdict(min(many) > 0, partly=max(many) > 0)),
            RANDOM.judged(f"{_points(gains['random'])} points", verdict(min(gains["random"]) > 0)),
            OWN.judged(
                f"{_points(gains['own'])} points",
                verdict(min(gains["own"]) > 0, partly=max(gains["own"]) > 0),
                "A holder of two classes needs nobody to tell these two apart: what a coreset adds "
                "is all the others.",
            ),
        ],
        tables=[_table(rows)],
    )


def _points(gains: list[float]) -> str:
    return spread([100 * gain for gain in gains], "+.1f")


def _accuracies(records: Records, count: int, seed: int) -> dict[str, float]:
    rng = stream(seed, 8, count)
    train: dict[str, Measure] = {}
    held: dict[str, Measure] = {}
    for name, each in records.holders(count, RECORDS // count, CLASSES, rng).items():
        order = rng.permutation(each.size)
        fifth = each.size // 5
        held[name], train[name] = _part(each, order[:fifth]), _part(each, order[fifth:])
    found = silot.coreset(train, SIZE, labels=True, seed=seed, rounds=10).classifier
    pooled = pooled_of(train)
    random = NearestNeighbour.of(_part(pooled, rng.permutation(pooled.size)[:SIZE]))
    own = {name: NearestNeighbour.of(each) for name, each in train.items()}
    return {
        "coreset": _mean(held, lambda _, each: found.accuracy(each)),
        "random": _mean(held, lambda _, each: random.accuracy(each)),
        "own": _mean(held, lambda name, each: own[name].accuracy(each)),
        **{way: _trained(train, held, way, seed) for way in TRAINED},
        "all": found.accuracy(records.test),
    }


def _trained(
    train: Mapping[str, Measure], held: Mapping[str, Measure], algorithm: str, seed: int
) -> float:
    model = silot.train(
        train, algorithm=algorithm, active=ACTIVE, held_out=0.0, seed=seed, **TRAINING
    )

    def right(name: str, each: Measure) -> float:
        return float(np.mean(model.predict(name, each.points, train[name]) == each.names))

    return _mean(held, right)


def _mean(held: Mapping[str, Measure], accuracy: Callable[[str, Measure], float]) -> float:
    return float(np.mean([accuracy(name, each) for name, each in held.items()]))


def _part(measure: Measure, rows: Labels) -> Measure:
    return Measure(measure.points[rows], labels=measure.labels[rows])


def _table(rows: list[dict]) -> Table:
    def shown(key: str) -> Callable[[dict], object]:
        return lambda row: f"{100 * row[key].mean():.1f} ± {100 * row[key].std(ddof=1):.1f}"

    columns: dict[str, Callable[[dict], object]] = {
        "data": lambda row: row["data"],
        "holders": lambda row: row["holders"],
        "coreset": shown("coreset"),
        "FedRep": shown("fedrep"),
        "FedPer": shown("fedper"),
        "random records": shown("random"),
        "own records": shown("own"),
        "coreset, all classes": shown("all"),
    }
    return Table.of("Accuracy in %, 1-nearest neighbour but for FedRep and FedPer.", rows, columns)
