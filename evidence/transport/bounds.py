"""Bounds of every method with bounds, against an exact oracle, on random problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import silot
from evidence.common import Array, Context
from evidence.report import Claim, Report, Table, verdict
from silot import Measure

PROBLEMS = (2_000, 10_000)  # as usual, and with --full
WORKERS = 2
BLOCK = 50
# What `converged` promises, and the README of FedWaD's default.
CLOSE, PER_CENT = 0.02, 0.01
# The oracle is known to some 1e-9 of the largest distance that a plan of it may use.
ORACLE = 1e-9
KINDS = ("shared", "grid", "moved", "far", "clusters", "heavy", "flat", "normal")


@dataclass(frozen=True)
class Problem:
    """Two measures, their distance, and the largest distance that the oracle handled."""

    kind: str
    x: Measure
    y: Measure
    p: int
    exact: float
    scale: float


@dataclass(frozen=True)
class Found:
    """What a method said of a problem."""

    setting: str
    kind: str
    exact: float
    scale: float
    value: float
    lower: float
    upper: float
    converged: bool

    @property
    def violated(self) -> bool:
        """Whether the bounds miss the distance, or the value its bounds."""
        room = ORACLE * self.scale
        inside = self.lower <= self.exact + room and self.exact <= self.upper + room
        return not (inside and 0.0 <= self.lower <= self.value <= self.upper)

    @property
    def misled(self) -> bool:
        """Whether ``converged`` was said of a value that is not close."""
        return self.converged and abs(self.value - self.exact) > (
            CLOSE * self.value + ORACLE * self.scale
        )


def draw_problem(seed: int) -> Problem:
    """Sizes equal or not, weights or not, zero weights, duplicates, ties, d from 1 to 200."""
    rng = np.random.default_rng(seed)
    n, m = (int(k) for k in rng.integers(1, 30, size=2))
    m = n if rng.random() < 0.3 else m
    d = int(rng.choice([1, 2, 3, 8, 50, 200]))
    p = int(rng.choice([1, 2]))
    kind = KINDS[rng.integers(len(KINDS))]
    x = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 3)
    size = float(np.abs(x).mean())
    y = rng.normal(size=(m, d)) * size
    if kind == "clusters":
        return _clusters(rng, d, p)
    if kind == "shared":
        y = x[rng.integers(n, size=m)]
    elif kind == "grid":
        x = np.round(x / np.abs(x).max() * 2)
        y = np.round(rng.normal(size=(m, d)))
    elif kind == "moved":
        y = x[rng.integers(n, size=m)] + rng.normal(size=d) * size
    elif kind == "far":  # from the origin, where references are
        x, y = x + 1e3 * np.abs(x).max(), y + 1e3 * np.abs(x).max()
    elif kind == "heavy":
        x, y = (size * rng.standard_t(1.5, size=(k, d)) for k in (n, m))
    elif kind == "flat":  # constant columns, and columns of very different units
        units = 10.0 ** rng.integers(-4, 5, size=d) * rng.integers(2, size=d)
        x, y = x * units, (y + size) * units
    else:
        y = y + rng.normal()
    mu, nu = Measure(x, draw_weights(rng, n)), Measure(y, draw_weights(rng, m))
    return Problem(kind, mu, nu, p, *oracle(mu, nu, p))


def draw_weights(rng: np.random.Generator, n: int) -> Array | None:
    """None, random, of very different sizes, or whole; a quarter of them zero."""
    kind = rng.integers(4)
    if kind == 0:
        return None
    weights = rng.random(n) ** (1 if kind == 1 else 4)
    weights[rng.random(n) < 0.25] = 0.0
    weights[rng.integers(n)] = 1.0
    return np.ceil(weights * 3) if kind == 3 else weights


def oracle(x: Measure, y: Measure, p: int) -> tuple[float, float]:
    """Distance by POT's network simplex, and the largest distance of two points."""
    distances = cdist(x.points, y.points)
    scale = float(distances.max())
    if scale == 0.0:
        return 0.0, 0.0
    a, b = x.weights, y.weights
    # Slow to import.
    import ot

    cost = float(ot.emd2(a, b / b.sum() * a.sum(), (distances / scale) ** p, numItermax=10**7))
    return scale * max(cost, 0.0) ** (1 / p), scale


def _clusters(rng: np.random.Generator, d: int, p: int) -> Problem:
    """Tight clusters far apart, of one mass in both measures: plans stay within clusters."""
    count = int(rng.integers(2, 5))
    apart, tight = 10.0 ** rng.uniform(1, 5), 10.0 ** rng.uniform(-4, 0)
    centres = apart * np.arange(count)[:, None] * np.eye(1, d)
    masses = rng.random(count) + 0.1
    parts: list[tuple[Measure, Measure]] = []
    for centre in centres:
        sides = [
            Measure(centre + tight * rng.normal(size=(k, d)), draw_weights(rng, k))
            for k in (int(rng.integers(1, 8)), int(rng.integers(1, 8)))
        ]
        parts.append((sides[0], sides[1]))
    shares = masses / masses.sum()
    told = [oracle(first, second, p) for first, second in parts]
    cost = sum(share * exact**p for share, (exact, _) in zip(shares, told, strict=True))
    x, y = (
        Measure(
            np.concatenate([part[side].points for part in parts]),
            np.concatenate([s * part[side].weights for s, part in zip(shares, parts, strict=True)]),
        )
        for side in (0, 1)
    )
    # Coordinates are rounded to 1e-16 of how far apart the clusters are.
    scale = max(*(scale for _, scale in told), 1e-6 * apart)
    return Problem("clusters", x, y, p, float(cost) ** (1 / p), scale)


def draw_options(method: str, problem: Problem, seed: int) -> dict[str, Any]:
    """Options of a method, all over their ranges."""
    rng = np.random.default_rng(seed + 1)
    shared: dict[str, Any] = {
        "reference_scale": float(np.abs(problem.x.points).std() + 1e-3),
        "seed": seed,
    }
    if method == "fedwad":
        return shared | {
            "support": int(rng.integers(1, 30)),
            "rounds": 6,
            "interpolation": str(rng.choice(["barycentric", "exact"])),
            "distances": str(rng.choice(["every", "last", "never"])),
            "t": [None, 0.5][rng.integers(2)],
            "moments": bool(rng.integers(2)),
        }
    if method == "trianglewad":
        return shared | {
            "support": [None, int(rng.integers(1, 30))][rng.integers(2)],
            "interpolation": str(rng.choice(["auto", "exact", "barycentric"])),
            "t": float(rng.uniform(0.05, 0.95)),
            "distances": bool(rng.integers(2)),
            "moments": bool(rng.integers(2)),
        }
    return {}


def _alone(
    method: str, problem: Problem, seed: int, *, drawn: bool = False
) -> silot.distances.Distance:
    options: dict[str, Any] = {} if method == "direct" else {"seed": seed}
    if drawn:
        options |= draw_options(method, problem, seed)
    return silot.distance(problem.x, problem.y, method=method, p=problem.p, **options)


def _pooled(problem: Problem, seed: int, *, hidden: bool) -> silot.distances.Distance | None:
    """The records of x with one to three sellers; masses such that their union is x."""
    if hidden and problem.p == 1:
        return None
    rng = np.random.default_rng(seed + 2)
    used = np.flatnonzero(problem.x.weights)
    parts = np.array_split(rng.permutation(used), min(len(used), int(rng.integers(1, 4))))
    sellers = {
        f"s{k}": Measure(problem.x.points[part], problem.x.weights[part])
        for k, part in enumerate(parts)
    }
    shares = {f"s{k}": float(problem.x.weights[part].sum()) for k, part in enumerate(parts)}
    return silot.pooled_distance(
        sellers, problem.y, shares=shares, hidden=hidden, p=problem.p, seed=seed,
        interpolation=str(rng.choice(["exact", "barycentric"])),
        distances=bool(rng.integers(2)), moments=bool(rng.integers(2)),
    )  # fmt: skip


SETTINGS: dict[str, Callable[[Problem, int], silot.distances.Distance | None]] = {
    "direct": partial(_alone, "direct"),
    "fedwad": partial(_alone, "fedwad"),
    "fedwad, drawn options": partial(_alone, "fedwad", drawn=True),
    "trianglewad": partial(_alone, "trianglewad"),
    "trianglewad, drawn options": partial(_alone, "trianglewad", drawn=True),
    "pooled": partial(_pooled, hidden=False),
    "pooled, hidden t": partial(_pooled, hidden=True),
}


def examine(seed: int) -> list[Found]:
    """Every setting on one problem."""
    problem = draw_problem(seed)
    rows: list[Found] = []
    for name, setting in SETTINGS.items():
        if (result := setting(problem, seed)) is not None:
            values = (getattr(result, k) for k in ("value", "lower", "upper", "converged"))
            rows.append(Found(name, problem.kind, problem.exact, problem.scale, *values))
    return rows


def _block(start: int) -> list[list[Found]]:
    return [examine(seed) for seed in range(start, start + BLOCK)]


QUICK = {"PROBLEMS": (50,)}


def run(context: Context) -> Report:
    count = context.size(PROBLEMS)
    found: list[Found] = []
    with ProcessPoolExecutor(WORKERS) as pool:
        for k, part in enumerate(pool.map(_block, range(0, count, BLOCK))):
            found += [row for rows in part for row in rows]
            if (k + 1) * BLOCK % 1000 == 0:
                context.say(f"{(k + 1) * BLOCK} problems")
    wrong = [row for row in found if row.violated]
    for row in wrong:
        context.say(str(row))
    misled = [row for row in found if row.misled]
    above = _above([row for row in found if row.setting == "fedwad"])
    return Report(
        title="Bounds: whether they hold",
        about=f"Value and bounds of every method that states bounds, on {count} random problems, "
        "against an exact oracle (`ot.emd2`; of clusters, cluster by cluster).",
        setup=[
            "1 to 29 records a side, d from 1 to 200, p = 1 and 2; weights none, random, of very "
            "different sizes, whole, and zero for a quarter; seeds of problems 0, 1, 2, ...",
            "Kinds: shared and duplicated points, a grid with ties, a translation, far from the "
            "origin, tight clusters far apart (1e-4 to 1 against 10 to 1e5), heavy tails "
            "(Student's t, 1.5 degrees of freedom), constant columns and columns of units from "
            "1e-4 to 1e4, normal.",
            "fedwad and trianglewad with default options, and with options drawn over their "
            "ranges; pooled with one to three sellers whose union is the first measure.",
        ],
        claims=[
            Claim("lower <= W <= upper, and the value is between them", "contract").judged(
                f"{len(wrong)} of {len(found)} results break it",
                verdict(not wrong),
                "To 1e-9 of the largest distance in the problem, which is what the oracle knows.",
            ),
            Claim("converged: the value is within 2 % of W", "contract").judged(
                f"{len(misled)} of {sum(row.converged for row in found)} are not",
                verdict(not misled),
            ),
            Claim("fedwad ends within a per cent of W by default", "README").judged(
                f"{np.median(above):+.2%} in the median, {np.mean(above <= PER_CENT):.1%} within",
                verdict(bool(np.median(above) <= PER_CENT)),
                "Small problems of every shape, of which the table has the worst.",
            ),
        ],
        tables=[_table(found, "setting"), _table(found, "kind")],
    )


def _positive(rows: Sequence[Found]) -> list[Found]:
    return [row for row in rows if row.exact > ORACLE * row.scale]


def _above(rows: Sequence[Found]) -> Array:
    """Value above W, relative, where W is not 0 up to rounding."""
    return np.array([row.value / row.exact - 1.0 for row in _positive(rows)])


def _percent(share: float) -> str:
    return f"{share:+.2%}" if share < 10 else f"{share + 1:.0f} times"


def _table(found: Sequence[Found], by: str) -> Table:
    def of(name: str) -> list[Found]:
        return [row for row in found if getattr(row, by) == name]

    def tight(name: str, share: float) -> str:
        return f"{np.quantile([row.lower / row.exact for row in _positive(of(name))], share):.3f}"

    return Table.of(
        f"By {by}: medians, and the far quantile.",
        dict.fromkeys(getattr(row, by) for row in found),
        {
            by: str,
            "results": lambda name: len(of(name)),
            "bounds broken": lambda name: sum(row.violated for row in of(name)),
            "converged, not close": lambda name: sum(row.misled for row in of(name)),
            "converged": lambda name: f"{np.mean([row.converged for row in of(name)]):.0%}",
            "value above W": lambda name: _percent(np.median(_above(of(name)))),
            "95 % of them": lambda name: _percent(np.quantile(_above(of(name)), 0.95)),
            "lower / W": lambda name: tight(name, 0.5),
            "5 % of them": lambda name: tight(name, 0.05),
        },
    )
