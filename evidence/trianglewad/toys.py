"""TriangleWad, figures 7 and 11 (D.2, D.7): the size of the reference, and labelled blobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import sqrtm
from sklearn.datasets import make_blobs

from evidence.common import Array, Context, Labels, stream
from evidence.report import Claim, Judged, Report, Table, every, number, pick, spread, verdict
from evidence.runs import FORMS, Form, exact, relative, triangle
from silot_transport import cost_matrix, plan_from_cost

BLOBS = Claim("labelled blobs: near exact OTDD (figure 11, D.7)", "210.18 against 208.23: +0.9 %")
ALIKE = Claim("the same, blobs in one box", "not stated")

SEEDS = (10, 50)  # as usual, and with --full
RECORDS, SUPPORTS = 200, (10, 50, 100, 200, 400, 1000)
SOURCE, TARGET, CLASSES, T = 500, 600, 3, 0.5
# How far the target is moved: its records and the means of its classes by as much give the
# paper's distance.
MOVED = {"one box": 0.0, "moved": 208.23 / 2**0.5}
QUICK = {"SEEDS": (2,), "SUPPORTS": (10, 100, 400)}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    supports = [
        [str(support), *(f"{of(runs):+.2%}" for runs in (
            [_toy(support, form, seed) for seed in seeds] for form in FORMS
        ) for of in (np.median, max))]
        for support in SUPPORTS
    ]  # fmt: skip
    context.say("figure 7 done")
    blobs = {where: np.array([_blobs(seed, by) for seed in seeds]) for where, by in MOVED.items()}
    names = ("exact OTDD", "exact, vectors", "TriangleWad")
    tables = [
        Table(
            f"Excess over the exact distance by atoms of the reference, {RECORDS} points a side: "
            "median and largest.",
            ["atoms", *(f"{form}, {what}" for form in FORMS for what in ("median", "largest"))],
            supports,
        ),
        Table(
            f"Blobs, {SOURCE} against {TARGET} points: distances, and excess over exact OTDD.",
            ["blobs", "method", "median distance", "median excess", "least", "largest"],
            [
                [where, name, f"{np.median(values):.2f}",
                 *(f"{of(values / found[:, 0] - 1.0):+.2%}" for of in (np.median, min, max))]
                for where, found in blobs.items()
                for name, values in zip(names, found.T, strict=True)
            ],
        ),
    ]  # fmt: skip
    return Report(
        title="TriangleWad, figures 7 and 11: size of the reference, and labelled blobs",
        about="Two toys: how the number of atoms of the reference changes the value, and the value "
        "for labelled records, whose classes are means and deviations, against exact OTDD.",
        setup=[
            f"Figure 7: {RECORDS} points of N(0, I) and of N((5, 5), I) in two dimensions, a "
            f"standard normal reference, t = {T:g} (the paper's means are not stated). Figure 11: "
            f"`make_blobs` with {CLASSES} classes of deviation 1, centres uniform in a box of 20 "
            f"for both, or the target moved by {MOVED['moved']:.0f}, which gives the paper's "
            f"distance; barycentric form, {min(SOURCE, TARGET)} atoms.",
            "Exact OTDD: squared distance of the records and of the Gaussians of their classes "
            "(Bures). Vectors: the record, its class's mean, and square roots of the diagonal of "
            "its covariance.",
            f"Seeds 0 to {len(seeds) - 1}. The paper does not state its centres: only the ratio "
            "can be compared.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows of both toys."""
    rows = pick(tables, "atoms", "barycentric, median", "exact, median")
    sizes = {form: [number(row[f"{form}, median"]) for row in rows] for form in FORMS}
    worst = [number(row[f"{form}, largest"]) for row in rows for form in FORMS]
    blobs = pick(tables, "blobs", "method", "median excess", "largest")
    near = {row["blobs"]: row for row in blobs if row["method"] == "TriangleWad"}
    plain = [row for row in blobs if row["method"] == "exact, vectors"]
    off = [abs(number(row[name])) for row in plain for name in ("least", "largest")]
    ranges = [float(np.ptp(values)) for values in sizes.values()]
    return [
        Claim("the size of the reference hardly matters (figure 7)", "not significantly").judged(
            "; ".join(
                f"{form} {' / '.join(map('{:+.1%}'.format, of))}" for form, of in sizes.items()
            ),
            every(value < 0.01 for value in ranges),
            f"Medians by atoms ({', '.join(row['atoms'] for row in rows)}); a range below 1 % "
            "counts as none.",
        ),
        Claim("the error falls with the atoms of the reference (theorem 1)", "yes").judged(
            "; ".join(f"{form} {of[0]:+.2%} to {of[-1]:+.2%}" for form, of in sizes.items()),
            every(of[-1] < of[0] for of in sizes.values()),
            "Medians with the fewest and the most atoms.",
        ),
        Claim("near the exact distance (figure 7)", "yes").judged(
            f"largest excess {spread(worst, '+.1%')}",
            every(value < 0.02 for value in worst),
            "Below 2 %.",
        ),
        _near(BLOBS, near["moved"]),
        _near(ALIKE, near["one box"]),
        Claim("labelled blobs: diagonal covariances do not matter", "not stated").judged(
            f"off by {spread(off, '.2%')}",
            verdict(max(off) < 0.01),
            "Exact transport of the vectors against exact OTDD.",
        ),
    ]


def _near(claim: Claim, row: dict[str, str]) -> Judged:
    excess = {name: number(row[name]) for name in ("median excess", "least", "largest")}
    return claim.judged(
        f"{excess['median excess']:+.2%} (median), {row['least']} to {row['largest']}",
        verdict(max(map(abs, excess.values())) < 0.02, partly=abs(excess["median excess"]) < 0.02),
        "Below 2 % for every draw.",
    )


def _toy(support: int, form: Form, seed: int) -> float:
    x, y = stream(49, seed).standard_normal((2, RECORDS, 2))
    y = y + 5.0
    value = triangle(x, y, support=support, t=T, form=form, seed=seed).value
    return relative(value, exact(x, y).value)


def _blobs(seed: int, by: float) -> tuple[float, float, float]:
    """Exact OTDD, the exact distance of the vectors, and TriangleWad's of them."""
    state = int(stream(50, seed).integers(2**31))
    (x, y), (z, w) = (
        make_blobs(size, 2, centers=CLASSES, random_state=state + k)[:2]
        for k, size in enumerate((SOURCE, TARGET))
    )
    z = z + by / 2**0.5
    mine, theirs = _classes(x, y), _classes(z, w)
    metric = np.array([[_bures(a, b) for b in theirs] for a in mine])
    uniform = [np.full(len(points), 1.0 / len(points)) for points in (x, z)]
    truth = plan_from_cost(cost_matrix(x, z) + metric[np.ix_(y, w)], *uniform).cost ** 0.5
    one, other = _vectors(x, y, mine), _vectors(z, w, theirs)
    support = min(SOURCE, TARGET)
    value = triangle(one, other, support=support, t=T, form="barycentric", seed=seed).value
    return truth, exact(one, other).value, value


def _classes(x: Array, y: Labels) -> list[tuple[Array, Array]]:
    return [(x[y == k].mean(axis=0), np.cov(x[y == k].T)) for k in range(CLASSES)]


def _bures(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    """Squared distance of two Gaussians."""
    (a, s), (b, t) = one, other
    root = np.real(sqrtm(s))
    return float(((a - b) ** 2).sum() + np.trace(s + t - 2 * np.real(sqrtm(root @ t @ root))))


def _vectors(x: Array, y: Labels, classes: list[tuple[Array, Array]]) -> Array:
    means = np.array([mean for mean, _ in classes])
    deviations = np.array([np.sqrt(np.diag(covariance)) for _, covariance in classes])
    return np.concatenate([x, means[y], deviations[y]], axis=1)
