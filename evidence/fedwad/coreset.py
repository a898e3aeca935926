"""FedWaD, figures 4, 5 and 12: federated coresets, and the nearest-neighbour classifier on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from sklearn.cluster import KMeans

import silot
from evidence.common import Array, Context, Labels, stream
from evidence.report import Claim, Judged, Report, Table, mean_sd, number, pick, spread, verdict
from silot import Measure
from silot.teaching.federated import NearestNeighbour
from silot_transport import exact_plan, interpolate

PRIVATE = Claim("the differentially private one is better than as many random records", "none")

SEEDS = 5
DIMENSION, PUBLIC, TESTS = 32, 2000, 2000
HOLDERS, POOLED = (10, 20, 50), 4000
SIZES = (10, 50, 100, 200)
FIGURE_4 = {"holders": 100, "active": 10, "records": 200}
# Of the paper's coreset: supports and iterations of FedWaD, and epochs (the paper: 1000).
SUPPORTS, ITERATIONS, EPOCHS = (10, 100), 20, 20
LABELLED, PLAIN, K_MEANS = "labelled", "without labels", "k-means of all records"
TWENTY = f"20 points {PLAIN}"
FURTHER = "by FedWaD, against exact plans"
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
PRIVATE_HOLDERS, PRIVATE_RECORDS, EPSILONS = 5, 3000, (1.0, 4.0)
DATA = ("mnist", "fashion_mnist", "usps", "mixture")


@dataclass(frozen=True)
class Records:
    """Features and classes: public ones, those that holders have, and those to test on."""

    public: Measure
    points: Array
    labels: Labels
    test: Measure

    @classmethod
    def of(cls, points: Array, labels: Labels, test: Array, kinds: Labels) -> Records:
        """Features on the principal components of the public records."""
        rng = stream(2, 19)
        order = rng.permutation(len(points))
        some = points[order[:PUBLIC]]
        mean = some.mean(axis=0)
        axes = np.linalg.svd(some - mean, full_matrices=False)[2][:DIMENSION].T
        left, few = order[PUBLIC:], rng.permutation(len(test))[:TESTS]
        return cls(
            Measure((some - mean) @ axes, labels=labels[order[:PUBLIC]]),
            (points[left] - mean) @ axes,
            labels[left],
            Measure((test[few] - mean) @ axes, labels=kinds[few]),
        )

    def holders(
        self, count: int, records: int, classes: int, rng: np.random.Generator
    ) -> dict[str, Measure]:
        """Holders of some classes each, equally many records of all of theirs; none has one twice.

        Classes are dealt so that each is held about equally often.
        """
        kinds = np.unique(self.labels)
        # Where records are few, and classes of unequal sizes, none may run short.
        records = min(records, len(self.points) // 2 // count)
        deck = np.concatenate([rng.permutation(kinds) for _ in range(-(-count * classes // 10))])
        left = {kind: list(rng.permutation(np.flatnonzero(self.labels == kind))) for kind in kinds}
        found: dict[str, Measure] = {}
        for k in range(count):
            own = np.unique(deck[k * classes : (k + 1) * classes])
            more = rng.permutation(np.setdiff1d(kinds, own))[: classes - len(own)]
            rows: list[int] = []
            for kind in [*own, *more]:
                rows += left[kind][: records // classes]
                del left[kind][: records // classes]
            found[f"h{k:03}"] = Measure(self.points[rows], labels=self.labels[rows])
        return found


QUICK = {
    "SEEDS": 1, "DATA": DATA[:3], "HOLDERS": HOLDERS[:1], "SIZES": SIZES[:2],
    "EPSILONS": EPSILONS[-1:], "EPOCHS": 5,
}  # fmt: skip


def run(context: Context) -> Report:
    data = {name: records_of(context, name) for name in DATA}
    tables = [*_modes(context, data), _curve(context, data), _private(context, data)]
    return Report(
        title="FedWaD, figures 4, 5 and 12: federated coresets",
        about="`silot.coreset`: a few free points near the records of all holders, and the "
        "1-nearest-neighbour classifier on them.",
        setup=[
            f"MNIST, Fashion-MNIST, USPS, and a mixture of 10 classes of 3 Gaussians each: the "
            f"first {DIMENSION} principal components of {PUBLIC} public records that no holder has "
            "(the paper: an autoencoder of half of the records). Nothing was tuned on the last "
            f"three. {TESTS} test records (USPS: all there are).",
            f"Figure 4: {FIGURE_4['holders']} holders of {FIGURE_4['records']} records "
            f"(Fashion-MNIST: {len(data['fashion_mnist'].points) // 2 // FIGURE_4['holders']}), of "
            f"8 or 2 classes each, {FIGURE_4['active']} asked a round, as in the paper. A mode is "
            "there where most of the 50 records nearest to a point are of its class. By FedWaD: "
            f"{EPOCHS} epochs from normal points; each moves the points halfway to their partners "
            "in the holders, read from the measure between, the mean over holders; "
            f"{ITERATIONS} iterations at t = .5. The other rows follow exact plans, 30 rounds.",
            f"Curve: {POOLED} records in all (USPS: {len(data['usps'].points) // 2}), 8 classes a "
            "holder, all asked every round, 10 rounds at most. Points are shared by all holders "
            "and found class by class; [figure 5](fedwad-figure-5.md) has a coreset of each "
            "holder, without labels, as the paper. Random: as many records of the union.",
            f"Private: {PRIVATE_HOLDERS} holders of {PRIVATE_RECORDS} records of all classes, one "
            "release each (`method='sketch'`), delta 1e-5, 100 points.",
            f"Mean ± standard deviation over seeds 0 to {SEEDS - 1}, which draw holders, points "
            "and random records; noise has no seed.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge modes of MNIST by their range over seeds, accuracies by the means of every row."""
    modes = {
        (row["points"], int(row["classes a holder"])): row
        for row in pick(tables, "points", "classes a holder", *NAMES.values())
    }
    curve = pick(tables, "coreset", "random records", "points", "holders")
    private = pick(tables, "private coreset", "random records", "all public records")
    distances = pick(tables, FURTHER, "classes a holder")

    def count(way: str, classes: int) -> tuple[float, float]:
        """Fewest and most modes of MNIST."""
        low, high = modes[way, classes]["MNIST"].split("(")[1].rstrip(")").split(" to ")
        return number(low), number(high)

    def points(rows: Sequence[Mapping[str, str]], column: str, other: str) -> list[float]:
        return [number(row[column]) - number(row[other]) for row in rows]

    def accuracies(claim: Claim, differences: Sequence[float], why: str = "") -> Judged:
        """Matched where all are above 0, partly where their mean is."""
        return claim.judged(
            f"{spread(differences, '+.1f')} points of accuracy",
            verdict(min(differences) > 0, partly=float(np.mean(differences)) > 0),
            why,
        )

    walked, two = count(_by(SUPPORTS[0]), 8), count(_by(SUPPORTS[0]), 2)
    means = {key: number(row["MNIST"]) for key, row in modes.items()}
    by_support = [
        abs(number(modes[_by(SUPPORTS[0]), classes][name])
            - number(modes[_by(SUPPORTS[1]), classes][name]))
        for classes in (8, 2) for name in NAMES.values()
    ]  # fmt: skip
    worse = [number(row[FURTHER]) for row in distances]
    gains = points(private, "private coreset", "random records")
    public = points(private, "private coreset", "all public records")
    both = ("private coreset", "random records")
    errors = [np.hypot(*(number(row[k].split("± ")[1]) for k in both)) for row in private]
    clear = np.array(gains) - 2.0 * np.array(errors) / SEEDS**0.5
    sizes = sorted({int(row["points"]) for row in curve})
    first, last = (
        [number(row["coreset"]) for row in curve if int(row["points"]) == size]
        for size in (sizes[0], sizes[-1])
    )
    return [
        Claim("all ten modes, 8 classes a holder (figure 4, top)", "yes").judged(
            f"{spread(walked, '.0f')} of 10; by exact plans {spread(count(PLAIN, 8), '.0f')}, with "
            f"20 points {spread(count(TWENTY, 8), '.0f')}, with labels "
            f"{spread(count(LABELLED, 8), '.0f')}",
            verdict(walked[0] == 10, partly=walked[1] == 10),
            "Ten points without labels are too few: k-means of the pooled records has "
            f"{spread(count(K_MEANS, 8), '.0f')}.",
        ),
        Claim("modes are lost, 2 classes a holder (figure 4, middle)", "yes").judged(
            f"{spread(two, '.0f')} of 10; by exact plans {spread(count(PLAIN, 2), '.0f')}, with "
            f"labels {spread(count(LABELLED, 2), '.0f')}",
            verdict(means[_by(SUPPORTS[0]), 2] < means[_by(SUPPORTS[0]), 8]),
            "Every holder has to spread its two classes over ten points of one weight: the "
            "objective averages classes. With labels, points are of one class each.",
        ),
        Claim(f"supports of {SUPPORTS[0]} and {SUPPORTS[1]} differ little (D.2)", "yes").judged(
            f"modes differ by {spread(by_support, '.1f')} in the mean",
            verdict(max(by_support) <= 1.0, partly=min(by_support) <= 1.0),
            "One mode of ten counts as little.",
        ),
        Claim("FedWaD finds a worse minimum than exact distances (D.2)", "yes").judged(
            f"distance to the holders {spread(worse, '+.1%')}",
            verdict(min(worse) > 0, partly=max(worse) > 0),
            f"Support {SUPPORTS[0]}; the mean over holders, against the same by exact plans.",
        ),
        accuracies(
            Claim("better with more points (figures 5 and 12)", "yes"),
            [b - a for a, b in zip(first, last, strict=True)],
            f"From {sizes[0]} to {sizes[-1]} points.",
        ),
        accuracies(
            Claim("better than as many random records", "not compared"),
            points(curve, "coreset", "random records"),
        ),
        PRIVATE.judged(
            f"{spread(gains, '+.1f')} points of accuracy",
            verdict(min(clear) > 0, partly=max(clear) > 0),
            "Matched where every gain is above two standard errors. Random records are no private "
            "choice: they are records.",
        ),
        Claim("and better than all of the public records, with their labels", "none").judged(
            f"{spread(public, '+.1f')} points of accuracy",
            verdict(min(public) > 0, partly=max(public) > 0),
            f"{PUBLIC} labelled public records of the holders' distribution are a classifier "
            "by themselves. A private coreset is for where those have no labels to trust, or "
            "another distribution, or a few points are wanted.",
        ),
    ]


def records_of(context: Context, name: str) -> Records:
    if name == "mixture":
        rng = stream(3, 19)
        centres = rng.normal(size=(30, 64)) * 0.6
        codes = rng.integers(0, 30, 24000)
        points, labels = centres[codes] + rng.normal(size=(24000, 64)), codes % 10
        return Records.of(points[4000:], labels[4000:], points[:4000], labels[:4000])
    (x, y), (z, w) = context.images(name), context.images(name, "test")
    return Records.of(x.reshape(len(x), -1) / 255.0, y, z.reshape(len(z), -1) / 255.0, w)


def _by(atoms: int) -> str:
    return f"by FedWaD, support {atoms}"


def _modes(context: Context, data: Mapping[str, Records]) -> list[Table]:
    """Modes of ten points by how they were found, and how far points are from the holders."""
    ways: dict[str, Callable[[dict[str, Measure], int], Array]] = {
        LABELLED: partial(_points, size=10, labels=True),
        PLAIN: partial(_points, size=10),
        **{_by(atoms): partial(_by_fedwad, atoms=atoms) for atoms in SUPPORTS},
        TWENTY: partial(_points, size=20),
        K_MEANS: _k_means,
    }
    cells: dict[tuple[str, int], dict[str, str]] = {}
    apart: list[list[str]] = []
    for name, classes in product(NAMES, (8, 2)):
        counts: dict[str, list[int]] = {way: [] for way in ways}
        further: list[float] = []
        for seed in range(SEEDS):
            rng = stream(seed, 4, classes)
            holders = data[name].holders(FIGURE_4["holders"], FIGURE_4["records"], classes, rng)
            pooled = pooled_of(holders)
            points = {way: points_of(holders, seed) for way, points_of in ways.items()}
            for way, found in points.items():
                counts[way].append(_modes_of(found, pooled))
            walked, exact = (
                np.mean(
                    [exact_plan(points[way], each.points).distance for each in holders.values()]
                )
                for way in (_by(SUPPORTS[0]), PLAIN)
            )
            further.append(float(walked / exact - 1.0))
        for way, found in counts.items():
            cells.setdefault((way, classes), {})[NAMES[name]] = (
                f"{np.mean(found):.1f} ({min(found)} to {max(found)})"
            )
        apart.append([NAMES[name], str(classes), f"{np.mean(further):+.1%}"])
        context.say(f"modes, {name}, {classes} classes a holder")
    rows = sorted(cells.items(), key=lambda item: list(ways).index(item[0][0]))
    return [
        Table(
            "Modes of 10 points: mean over seeds, and in brackets the fewest and the most.",
            ["points", "classes a holder", *NAMES.values()],
            [[way, str(classes), *found.values()] for (way, classes), found in rows],
        ),
        Table(
            "Mean distance from the points to the holders, by FedWaD against exact plans.",
            ["data", "classes a holder", FURTHER],
            apart,
        ),
    ]


def _by_fedwad(holders: dict[str, Measure], seed: int, *, atoms: int) -> Array:
    """Ten points by the gradients of FedWaD's distances to the holders of an epoch."""
    rng = stream(seed, 8)
    points = rng.standard_normal((10, DIMENSION))
    names = sorted(holders)
    for _ in range(EPOCHS):
        moved = np.zeros_like(points)
        for place in rng.choice(len(names), FIGURE_4["active"], replace=False):
            middle = rng.standard_normal((atoms, DIMENSION))
            for _ in range(ITERATIONS):
                near = interpolate(middle, points, t=0.5).atoms
                far = interpolate(middle, holders[names[place]].points, t=0.5).atoms
                middle = interpolate(near, far, t=0.5).atoms
            plan = exact_plan(points, middle)
            moved += len(points) * (plan.plan @ middle) / FIGURE_4["active"]
        points = moved
    return points


def _points(holders: dict[str, Measure], seed: int, *, size: int, labels: bool = False) -> Array:
    active = FIGURE_4["active"]
    return silot.coreset(holders, size, labels=labels, seed=seed, active=active, rounds=30).points


def _k_means(holders: dict[str, Measure], seed: int) -> Array:
    model = KMeans(10, n_init=1, random_state=seed)
    return model.fit(pooled_of(holders).points).cluster_centers_


def pooled_of(holders: Mapping[str, Measure]) -> Measure:
    measures = list(holders.values())
    points = np.vstack([each.points for each in measures])
    return Measure(points, labels=np.concatenate([each.labels for each in measures]))


def _modes_of(points: Array, pooled: Measure) -> int:
    """Classes that most of the records nearest to some point are of."""
    squares = np.sum((points[:, None] - pooled.points[None]) ** 2, axis=2)
    near = pooled.labels[np.argsort(squares, axis=1)[:, :50]]
    return len({np.bincount(row.astype(int)).argmax() for row in near})


def by_seed(seeds: int, run: Callable[[int], dict[str, float]]) -> dict[str, Array]:
    """Every number of a run, an array over the seeds."""
    runs = [run(seed) for seed in range(seeds)]
    return {key: np.array([one[key] for one in runs]) for key in runs[0]}


def accuracy_table(
    caption: str, rows: list[dict], where: Mapping[str, str], accuracies: Mapping[str, str]
) -> Table:
    """What a row is about and its accuracies in per cent: keys of the rows by column."""
    columns: dict[str, Callable[[dict], object]] = {
        **{name: lambda row, key=key: row[key] for name, key in where.items()},
        **{name: lambda row, key=key: mean_sd(100 * row[key])
           for name, key in accuracies.items()},
    }  # fmt: skip
    return Table.of(caption, rows, columns)


def _curve(context: Context, data: Mapping[str, Records]) -> Table:
    rows = []
    for name, records in data.items():
        for count in HOLDERS if name == "mnist" else HOLDERS[:1]:
            for size in SIZES:
                found = by_seed(SEEDS, partial(_accuracies, records, count, size))
                rows.append({"data": name, "holders": count, "size": size, **found})
            context.say(f"curve, {name}, {count} holders")
    return accuracy_table(
        "Accuracy in %, 1-nearest neighbour.", rows,
        {"data": "data", "holders": "holders", "points": "size"},
        {"coreset": "coreset", "random records": "random"},
    )  # fmt: skip


def _accuracies(records: Records, count: int, size: int, seed: int) -> dict[str, float]:
    rng = stream(seed, 5, count)
    holders = records.holders(count, POOLED // count, 8, rng)
    found = silot.coreset(holders, size, labels=True, seed=seed, rounds=10)
    return {
        "coreset": found.classifier.accuracy(records.test),
        "random": _random(holders, size, records.test, rng),
    }


def _random(
    holders: Mapping[str, Measure], size: int, test: Measure, rng: np.random.Generator
) -> float:
    """Of so many records of the union, drawn at random."""
    pooled = pooled_of(holders)
    return NearestNeighbour.of(part_of(pooled, rng.permutation(pooled.size)[:size])).accuracy(test)


def part_of(measure: Measure, rows: Labels) -> Measure:
    return Measure(measure.points[rows], labels=measure.labels[rows])


def _private(context: Context, data: Mapping[str, Records]) -> Table:
    rows = []
    for name, records in data.items():
        held = min(PRIVATE_RECORDS, len(records.points) // PRIVATE_HOLDERS)
        for epsilon in EPSILONS:
            found = by_seed(SEEDS, partial(_with_noise, records, held, epsilon))
            rows.append({"data": name, "records": held, "epsilon": f"{epsilon:g}", **found})
            context.say(f"private, {name}, epsilon {epsilon:g}")
    return accuracy_table(
        "Accuracy in % with differential privacy, 100 points.", rows,
        {"data": "data", "records a holder": "records", "epsilon": "epsilon"},
        {"private coreset": "private", "random records": "random", "all public records": "all"},
    )  # fmt: skip


def _with_noise(records: Records, held: int, epsilon: float, seed: int) -> dict[str, float]:
    rng = stream(seed, 6)
    rows = rng.permutation(len(records.points))
    whole = Measure(records.points, labels=records.labels)
    holders = {
        f"h{k}": part_of(whole, part)
        for k, part in enumerate(rows[: PRIVATE_HOLDERS * held].reshape(PRIVATE_HOLDERS, held))
    }
    found = silot.coreset(
        holders, 100, labels=True, method="sketch", public=records.public,
        privacy_epsilon=epsilon, seed=seed, rounds=10,
    )  # fmt: skip
    return {
        "private": found.classifier.accuracy(records.test),
        "random": _random(holders, 100, records.test, rng),
        "all": NearestNeighbour.of(records.public).accuracy(records.test),
    }
