"""Leakage against accuracy, method by method: what is gained by sending more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from evidence.common import WALK, Array, Context, stream
from evidence.report import Claim, Judged, Report, Table, verdict
from silot import Measure
from silot.distances.questions import Interpolate
from silot.distances.worth.contributions import contributions
from silot.errors import ExtraError, InputError
from silot.federation import LocalFederation, Own
from silot_transport import exact_plan, interpolate

DIRECT = Claim(
    "at level record nothing beats direct", "FedWaD, TriangleWad and FedBary keep records hidden"
)

SPLITS = (3, 5)  # as usual, and with --full
MOST = 100
_DEFAULT = "fedwad, S = n, t often near 0 (default)"
_UNIFORM = "fedwad, S = n, t uniform (published)"
_PARAMETERS = (0.001, 0.01, 0.03, 0.1, 0.3, 0.5)


@dataclass(frozen=True)
class Data:
    """Records of two holders, that differ in their classes, and public ones of nobody."""

    name: str
    x: Array
    y: Array
    public: Array
    seed: int = 0

    @property
    def scale(self) -> float:
        """A length of the right size that anybody could state: of standardised features."""
        return float(np.sqrt(self.x.shape[1]))


@dataclass(frozen=True)
class Outcome:
    """Value a run found, with all that its coordinator saw of holder x."""

    value: float
    run: silot.federation.RunResult


@dataclass(frozen=True)
class Case:
    """A method, and how to run it."""

    name: str
    level: str
    run: Callable[[Data], Outcome]


def _distance(data: Data, method: str, **options: object) -> Outcome:
    if method != "direct":
        options["seed"] = data.seed
    found = silot.distance(data.x, data.y, method=method, **options)
    return Outcome(found.value, found)


def _fedwad(data: Data, part: float, **options: object) -> Outcome:
    return _distance(data, support=_part(data, part), **WALK, **options)


def _triangle(data: Data, part: float) -> Outcome:
    support = 1 if part == 0 else _part(data, part)
    return _distance(data, "trianglewad", support=support, interpolation="barycentric")


def _fedbary(data: Data, part: float) -> Outcome:
    protocol = contributions(
        ["x"], own=Own(Measure(data.y)), method="fedbary", support=_part(data, part),
        seed=data.seed,
    )  # fmt: skip
    found = LocalFederation({"x": data.x}).run(protocol)
    return Outcome(found.holders[0].distance.value, found)


def _target(data: Data) -> Outcome:
    found = LocalFederation({"x": data.x}).run(contributions(["x"], own=Own(Measure(data.y))))
    return Outcome(found.holders[0].distance.value, found)


def _sketch(data: Data, epsilon: float) -> Outcome:
    return _distance(data, "sketch", public=data.public, privacy_epsilon=epsilon)


def _part(data: Data, part: float) -> int:
    return max(round(part * len(data.x)), 1)


CASES = (
    Case("direct", "record", lambda data: _distance(data, "direct")),
    Case(_DEFAULT, "record", lambda data: _fedwad(data, 1)),
    Case(_UNIFORM, "record",
         lambda data: _fedwad(data, 1, t="uniform")),
    Case("fedwad, S = n, t = .5", "record", lambda data: _fedwad(data, 1, t=0.5)),
    Case("fedwad, S = n, t = .9", "record", lambda data: _fedwad(data, 1, t=0.9)),
    Case("fedwad, S = n / 2", "record", lambda data: _fedwad(data, 1 / 2)),
    Case("fedwad, S = n / 2, t uniform", "record", lambda data: _fedwad(data, 1 / 2, t="uniform")),
    Case("fedwad, S = n / 8", "record", lambda data: _fedwad(data, 1 / 8)),
    Case("trianglewad, S = 1", "record", lambda data: _triangle(data, 0)),
    Case("trianglewad, S = n", "record", lambda data: _triangle(data, 1)),
    Case("trianglewad, S = n / 2", "record", lambda data: _triangle(data, 1 / 2)),
    Case("fedbary (holder against validation), S = n", "record", lambda data: _fedbary(data, 1)),
    Case("fedbary, S = n / 2", "record", lambda data: _fedbary(data, 1 / 2)),
    Case("fedbary, S = n / 8", "record", lambda data: _fedbary(data, 1 / 8)),
    Case("target (holder against validation)", "scalar", _target),
    Case("sketch, epsilon 1", "sketch", lambda data: _sketch(data, 1.0)),
    Case("sketch, epsilon 4", "sketch", lambda data: _sketch(data, 4.0)),
    Case("sketch, epsilon 10", "sketch", lambda data: _sketch(data, 10.0)),
    Case("secure", "scalar", lambda data: _distance(data, "secure", scale=data.scale)),
)  # fmt: skip
QUICK = {"SPLITS": (1,), "MOST": 25}


def run(context: Context) -> Report:
    seeds = range(context.size(SPLITS))
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    exactly: dict[tuple[str, str], list[float]] = defaultdict(list)
    named: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    untold: dict[tuple[str, str], str] = {}
    asked: list[list[str]] = []
    sizes: dict[str, str] = {}
    for seed in seeds:
        for data in _data(seed):
            sizes[data.name] = f"{data.name} {len(data.x)} x {data.x.shape[1]}"
            exact = silot.distance(data.x, data.y).value
            for case in CASES:
                # One run of many seconds: noise has no part in it.
                if case.name == "secure" and seed > 0:
                    continue
                key = (case.name, data.name)
                try:
                    outcome = case.run(data)
                except ExtraError:
                    untold[key] = "skipped: not installed"
                    continue
                except InputError as error:
                    if error.code != "sketch-small":
                        raise
                    untold[key] = "refused: too few records"
                    continue
                errors[key].append(abs(outcome.value / exact - 1.0))
                recovered, points = _found(outcome, data)
                exactly[key].append(recovered)
                named[key].append((_named(points, data), _chance(points, data)))
                if case.name in (_DEFAULT, _UNIFORM):
                    asked.append([data.name, case.name, str(seed), f"{_least_t(outcome):.4f}",
                                  f"{100 * errors[key][-1]:.3f} %"])  # fmt: skip
                context.say(f"{seed} {key} {errors[key][-1]:.5f} {recovered:.2f} {named[key][-1]}")
    names = list(sizes)
    rows = [
        [case.name, case.level, *(_cell(errors, untold, case.name, name) for name in names),
         *(_shares(exactly, named, case.name, name) for name in names)]
        for case in CASES
    ]  # fmt: skip
    columns = ["method", "level", *(f"error, {name}" for name in names),
               *(f"recovered / identified, {name}" for name in names)]  # fmt: skip
    report = Report(
        title="Leakage against accuracy",
        about=(
            "Error of the distance between holders x and y, against the share of x's records that "
            "the coordinator has afterwards. `direct` is the baseline: it sends the records, and "
            "is exact. Where records may be seen, nothing beats it; where they may not, no method "
            "of level record will do, whatever its error."
        ),
        setup=[
            f"Records by features a holder: {', '.join(sizes.values())}; standardised, holders "
            f"differ in their classes; mean of {len(seeds)} splits (secure: 1).",
            "error: |value / exact - 1| of the value the method reports.",
            "recovered: share of x's records that `silot privacy audit` finds exactly in its "
            "messages.",
            "identified: share of x's records that are, of all records of the data set, nearest to "
            "a point that x sent or the audit guessed; in brackets for as many points of the "
            "normal law of x's mean and covariance.",
            "What these attacks do not find is not thereby safe: of the methods below level "
            "record, sketch and secure alone have a guarantee (docs/privacy.md).",
        ],
        tables=[
            Table(
                "Error of the value, and records recovered / identified (chance).", columns, rows
            ),
            Table(
                "FedWaD with S = n: the smallest t that x was asked with, and the error.",
                ["data", "parameters", "split", "smallest t", "error"],
                asked,
            ),
            Table(
                "One FedWaD message with S = n: how far an atom lies from the nearest record of "
                "its sender, of the median distance between neighbouring records (largest of "
                "all atoms / median).",
                ["t", *names],
                [[f"{t:g}", *(_apart(data, t) for data in _data(0))] for t in _PARAMETERS],
            ),
        ],
    )
    report.claims = _claims(errors, exactly, names)
    return report


def _cell(
    errors: dict[tuple[str, str], list[float]], untold: dict[tuple[str, str], str], case: str,
    name: str,
) -> str:  # fmt: skip
    told = errors.get((case, name))
    return f"{100 * np.mean(told):.2f} %" if told else untold.get((case, name), "skipped")


def _shares(
    exactly: dict[tuple[str, str], list[float]],
    named: dict[tuple[str, str], list[tuple[float, float]]], case: str, name: str,
) -> str:  # fmt: skip
    key = (case, name)
    if key not in exactly:
        return "-"
    share, chance = 100 * np.mean(named[key], axis=0)
    return f"{100 * np.mean(exactly[key]):.0f} % / {share:.0f} % ({chance:.0f} %)"


def _found(outcome: Outcome, data: Data) -> tuple[float, Array]:
    """Share of x's records that are recovered exactly, and all points that tell of them."""
    nothing = np.empty((0, data.x.shape[1]))
    transcript = outcome.run.transcript
    if transcript is None or not len(transcript.entries):
        return 0.0, nothing  # secret shares: nothing but the number is told
    names = {entry.holder for entry in transcript.entries}
    truth = {name: rows for name, rows in (("x", data.x), ("y", data.y)) if name in names}
    tried = silot.audit(transcript, truth=truth).of("x")
    recovered = max((attack.exact_rate or 0.0 for attack in tried), default=0.0)
    points = [attack.recovered for attack in tried if attack.recovered is not None]
    for entry in transcript.seen_by("x"):
        arrays = getattr(entry.open(), "arrays", {}) if entry.direction != "sent" else {}
        points += [k for k in arrays.values() if k.ndim == 2 and k.shape[1] == data.x.shape[1]]
    seen = np.vstack([nothing, *points])
    return recovered, seen[np.isfinite(seen).all(axis=1)]


def _named(points: Array, data: Data) -> float:
    """Share of x's records that are nearest to some point, of all records there are."""
    if not len(points):
        return 0.0
    everybody = np.vstack([data.x, data.y, data.public])
    nearest = set(cdist(points, everybody).argmin(axis=1).tolist())
    return len(nearest & set(range(len(data.x)))) / len(data.x)


def _chance(points: Array, data: Data) -> float:
    rng = stream(len(points), 142)
    drawn = rng.multivariate_normal(data.x.mean(axis=0), np.cov(data.x.T), size=len(points))
    return _named(drawn, data)


def _least_t(outcome: Outcome) -> float:
    """Smallest parameter of an interpolant that x was asked for."""
    transcript = outcome.run.transcript
    assert transcript is not None
    questions = [k.open() for k in transcript.seen_by("x") if k.direction == "sent"]
    return min(float(k.t) for k in questions if isinstance(k, Interpolate))


def _neighbours(x: Array) -> float:
    """Median distance of a record to the nearest other one."""
    apart = cdist(x, x)
    np.fill_diagonal(apart, np.inf)
    return float(np.median(apart.min(axis=1)))


def _apart(data: Data, t: float) -> str:
    rng = stream(9, 141)
    reference = rng.normal(size=data.x.shape)
    atoms = interpolate(data.x, reference, t=t).atoms
    assert exact_plan(data.x, reference).optimal
    apart = cdist(atoms, data.x).min(axis=1) / _neighbours(data.x)
    return f"{100 * apart.max():.1f} % / {100 * np.median(apart):.1f} %"


def _data(seed: int) -> list[Data]:
    tables = {"wine": load_wine(), "cancer": load_breast_cancer(), "digits": load_digits()}
    found: list[Data] = []
    for k, (name, table) in enumerate(tables.items()):
        rng = stream(seed, k, 140)
        spread = table.data.std(axis=0)
        points = (table.data - table.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        size = min(MOST, len(points) // 3)
        order = rng.permutation(len(points))[: max(3 * size, min(len(points), 700))]
        public, private = order[2 * size :], order[: 2 * size]
        # Most of the first classes at x, most of the last at y.
        later = table.target[private] + rng.normal(size=2 * size)
        private = private[np.argsort(later, kind="stable")]
        found.append(
            Data(name, points[private[:size]], points[private[size:]], points[public], seed)
        )
    return found


def _claims(
    errors: dict[tuple[str, str], list[float]],
    exactly: dict[tuple[str, str], list[float]],
    names: list[str],
) -> list[Judged]:
    record = [case.name for case in CASES if case.level == "record" and case.name != "direct"]

    def mean(table: dict[tuple[str, str], list[float]], case: str) -> list[float]:
        return [float(np.mean(table[(case, name)])) for name in names]

    worse = all(error >= 0.0 for case in record for error in mean(errors, case))
    given = [case for case in record if min(mean(exactly, case)) == 1.0]
    single = "trianglewad, S = 1"
    quiet = [case for case in record if max(mean(exactly, case)) < 0.5]
    small = min((min(mean(errors, case)) for case in quiet), default=float("nan"))
    return [
        DIRECT.judged(
            f"{len(given)} of {len(record)} give all records of all data sets away; errors "
            f"0 to {100 * max(max(mean(errors, case)) for case in record):.0f} %",
            verdict(worse and bool(given)),
            "direct has error 0 and needs one round.",
        ),
        Claim("record methods of which less than half of the records are recovered", "").judged(
            f"{len(quiet)}, with errors of {100 * small:.1f} % and more" if quiet else "none",
            "partly" if quiet else "matched",
            "By these attacks: means of few records tell who is in the data, recovered or not.",
        ),
        Claim("TriangleWad with a reference of one atom", "").judged(
            f"error {100 * max(mean(errors, single)):.1g} %, records recovered "
            f"{100 * min(mean(exactly, single)):.0f} %",
            "matched",
            "The interpolant is the records, scaled: exact, and no protection at all.",
        ),
        Claim("FedWaD with the published uniform t against t often near 0", "").judged(
            "error " + "; ".join(
                f"{name} {100 * u:.1f} against {100 * d:.1f} %"
                for name, u, d in zip(names, mean(errors, _UNIFORM), mean(errors, _DEFAULT),
                                      strict=True)
            ),
            "matched",
            "All records are recovered with either; a message with a small t nearly is the "
            "records.",
        ),
    ]  # fmt: skip
