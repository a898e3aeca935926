"""FedWaD, theorems 1 and 3: exact for equal sizes, and for Gaussians of one covariance."""

from __future__ import annotations

import numpy as np

from evidence.common import Array, Context, stream
from evidence.report import Claim, Judged, Report, Table, pick, verdict
from silot_transport import exact_plan

HALVES = Claim("Gaussians: the distance to the midpoint halves each round (theorem 3)", "1/2")
TWICE = Claim(
    "Gaussians: from the first round twice the distance of the interpolants is W (theorem 3)",
    "equal, k >= 1",
)

SEEDS = (5, 20)  # as usual, and with --full
SIZE, DIMENSIONS, ROUNDS = 200, (2, 10), 6
T = 0.5
QUICK = {"SEEDS": (2,)}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    tables = [_interpolation_table(seeds), _gaussian_table(seeds), _sample_table(seeds)]
    return Report(
        title="FedWaD, theorems 1 and 3: exact cases",
        about="What the paper proves of its interpolants: the approximate form (eq. 10) against "
        "points on the geodesic, and rounds of algorithm 1 for Gaussians of one covariance.",
        setup=[
            f"Theorem 1: {SIZE} normal points against as many, or half as many; the approximate "
            "interpolant at t = .5 sends each point half of the way to the mean of its plan's "
            "targets. On the geodesic W(mu, interpolant) + W(interpolant, nu) = W(mu, nu).",
            "Theorem 3, measures: a Gaussian is its mean and covariance, and an interpolant at "
            "t = .5 of two of one covariance is that covariance with the mean halfway: rounds on "
            "means, from a start at random.",
            f"Theorem 3, samples: {SIZE} draws each of mu, nu and of the start, and exact plans.",
            f"Seeds 0 to {len(seeds) - 1}; largest values.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: list[Table]) -> list[Judged]:
    """Judge by the rows of the tables."""
    excess = {row["sizes"]: float(row["excess"]) for row in pick(tables, "sizes", "excess")}
    rounds = pick(tables, "round", "ratio", "error")
    later = [row for row in rounds if int(row["round"]) >= 1]
    samples = pick(tables, "round", "error of samples, d = 2", "error of samples, d = 10")
    errors = [abs(float(row[name])) for row in samples for name in row if name.startswith("error")]
    return [
        Claim("approximate interpolation is exact for equal sizes (theorem 1)", "equal").judged(
            f"sum of distances over W, minus 1: at most {excess['equal']:.0e}",
            verdict(excess["equal"] < 1e-9),
        ),
        Claim("and for other sizes", "not claimed").judged(
            f"at most {excess['half as many']:.3f}",
            verdict(excess["half as many"] < 1e-9),
            "A point whose mass goes to several targets moves to their mean, off the geodesic.",
        ),
        HALVES.judged(
            f"ratio {min(float(row['ratio']) for row in later):.6f} to "
            f"{max(float(row['ratio']) for row in later):.6f}",
            verdict(all(abs(float(row["ratio"]) - 0.5) < 1e-6 for row in later)),
        ),
        TWICE.judged(
            f"relative error at most {max(abs(float(row['error'])) for row in later):.0e}",
            verdict(all(abs(float(row["error"])) < 1e-9 for row in later)),
        ),
        Claim("the same for samples of Gaussians", "not claimed").judged(
            f"relative error up to {max(errors):.3f}",
            verdict(max(errors) < 0.01, partly=max(errors) < 0.1),
            "Samples of one covariance are no translates of one another: the measures between are "
            "off the geodesic, the more the higher the dimension.",
        ),
    ]


def interpolant(x: Array, y: Array) -> Array:
    """Send each point halfway to the mean of where its mass goes (eq. 10)."""
    plan = exact_plan(x, y).plan.toarray()
    return (1 - T) * x + T * (plan @ y) / plan.sum(axis=1, keepdims=True)


def _interpolation_table(seeds: range) -> Table:
    rows: list[list[str]] = []
    for name, other in (("equal", SIZE), ("half as many", SIZE // 2)):
        largest = 0.0
        for seed in seeds:
            rng = stream(41, seed, other)
            x, y = rng.standard_normal((SIZE, 5)), rng.standard_normal((other, 5)) + 1.0
            between = interpolant(y, x)
            total = exact_plan(x, between).distance + exact_plan(between, y).distance
            largest = max(largest, total / exact_plan(x, y).distance - 1.0)
        rows.append([name, f"{largest:.2e}"])
    return Table("Sum of the two distances over W, minus 1.", ["sizes", "excess"], rows)


def _gaussian_table(seeds: range) -> Table:
    ratios, errors = np.zeros((2, len(seeds), ROUNDS))
    for k, seed in enumerate(seeds):
        mu, nu, middle = stream(42, seed).standard_normal((3, DIMENSIONS[-1]))
        goal = (mu + nu) / 2
        for step in range(ROUNDS):
            left, right = (mu + middle) / 2, (nu + middle) / 2
            before = np.linalg.norm(middle - goal)
            middle = (left + right) / 2
            ratios[k, step] = np.linalg.norm(middle - goal) / before
            errors[k, step] = 2 * np.linalg.norm(left - right) / np.linalg.norm(mu - nu) - 1.0
    rows = [
        [str(step + 1), f"{_widest(ratios[:, step], 0.5):.9f}", f"{_widest(errors[:, step]):.2e}"]
        for step in range(ROUNDS)
    ]
    return Table(
        "Gaussians: distance to the midpoint over that of the round before; twice the distance of "
        "the interpolants over W, minus 1.",
        ["round", "ratio", "error"],
        rows,
    )


def _sample_table(seeds: range) -> Table:
    columns: dict[int, list[float]] = {}
    for dimension in DIMENSIONS:
        errors = np.zeros((len(seeds), ROUNDS))
        for k, seed in enumerate(seeds):
            rng = stream(43, seed, dimension)
            mu, nu, middle = rng.standard_normal((3, SIZE, dimension))
            nu = nu + 3.0 / dimension**0.5
            truth = exact_plan(mu, nu).distance
            for step in range(ROUNDS):
                left, right = interpolant(mu, middle), interpolant(nu, middle)
                errors[k, step] = 2 * exact_plan(left, right).distance / truth - 1.0
                middle = interpolant(left, right)
        columns[dimension] = [_widest(errors[:, step]) for step in range(ROUNDS)]
    return Table(
        f"{SIZE} samples each, means 3 apart: twice the distance of the interpolants over the "
        "distance of the samples, minus 1.",
        ["round", *(f"error of samples, d = {dimension}" for dimension in DIMENSIONS)],
        [
            [str(step + 1), *(f"{values[step]:+.3f}" for values in columns.values())]
            for step in range(ROUNDS)
        ],
    )


def _widest(values: Array, centre: float = 0.0) -> float:
    """Find the value that is furthest from a centre."""
    return float(values[np.argmax(np.abs(values - centre))])
