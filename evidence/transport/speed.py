"""Exact, bounded and entropic transport beside the packages that people use for them: time and gap.

``--quick`` is what CI runs: it fails where a problem takes longer than with POT. Packages that are
not installed are left out; `pip install lapx lapjv fastlap ott-jax` brings those of the page.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from evidence.common import Array, Context
from evidence.report import Claim, Judged, Report, Table, number, verdict
from evidence.speed._timing import medians
from silot import transport
from silot_transport import _native

GENERAL = Claim("general masses, 800 points and more: twice as fast as ot.emd, each cell", "issue")
EACH = "The slowest cell decides, not the median."

# name, n, m, d, weighted
PROBLEMS = (
    ("normal", 30, 30, 5, True),
    ("normal", 128, 128, 10, True),
    ("normal", 400, 500, 10, True),
    ("clusters", 300, 300, 2, True),
    ("heavy tails", 500, 500, 5, True),
    ("near copies", 500, 500, 8, True),
    ("normal", 800, 800, 2, True),
    ("normal", 1500, 2000, 50, False),
    ("clusters", 800, 800, 10, True),
    ("clusters", 1500, 2000, 2, True),
    ("heavy tails", 800, 800, 2, True),
    ("heavy tails", 2000, 2000, 20, True),
    ("near copies", 1000, 1000, 4, True),
    ("ties", 2000, 2000, 3, True),
    ("normal", 2000, 3000, 50, True),
    ("clusters", 5000, 5000, 8, True),
    ("normal", 300, 300, 64, False),
    ("ties", 300, 300, 6, False),
    ("ties", 1000, 1000, 6, False),
    ("near copies", 1000, 1000, 4, False),
    ("normal", 2000, 2000, 50, False),
    ("normal", 2000, 2000, 10, False),
    ("normal", 2000, 2000, 2, False),
    ("clusters", 1000, 1000, 8, False),
    ("heavy tails", 1000, 1000, 5, False),
    ("digits", 2000, 2000, 64, False),
    ("digits", 5000, 5000, 64, False),
)
# n, d, epsilon as a share of the mean cost
ENTROPIC = ((500, 10, 0.05), (500, 10, 0.005), (1000, 5, 0.02), (1000, 5, 0.002))
BOUNDED = (
    ("normal", 50_000, 2, False),
    ("normal", 50_000, 8, False),
    ("clusters", 50_000, 64, True),
)
LARGEST = (
    *BOUNDED,
    ("normal", 100_000, 8, False),
    ("clusters", 100_000, 64, False),
    ("normal", 1_000_000, 2, False),
    ("normal", 1_000_000, 8, False),
)
# Marginal error of entropic plans, and the sweeps after which a peer is given up.
TOLERANCE, SWEEPS = 1e-5, 1_000
PEERS = ("pot", "scipy", "lapx", "lapjv", "fastlap", "ott-jax")

Problem = tuple[str, int, int, int, bool]


def draw(name: str, n: int, m: int, d: int, weighted: bool) -> tuple[Array, Array, Array, Array]:
    """Two clouds of a kind and their masses."""
    rng = np.random.default_rng([7, n, m, d])
    if name == "digits":
        images = load_digits().data
        x, y = (images[rng.integers(len(images), size=k)] + rng.normal(size=(k, d)) for k in (n, m))
    elif name == "clusters":
        centres = 8.0 * rng.normal(size=(8, d))
        x, y = (centres[rng.integers(8, size=k)] + 0.3 * rng.normal(size=(k, d)) for k in (n, m))
    elif name == "heavy tails":
        x, y = rng.standard_t(1.5, size=(n, d)), rng.standard_t(1.5, size=(m, d)) + 0.5
    elif name == "ties":
        x, y = (rng.integers(4, size=(k, d)).astype(np.float64) for k in (n, m))
    elif name == "near copies":
        x = rng.normal(size=(n, d))
        y = x[rng.integers(n, size=m)] + 1e-3 * rng.normal(size=(m, d))
    else:
        x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) * 1.3 + 0.5
    a, b = (rng.random(k) + 0.1 if weighted else np.ones(k) for k in (n, m))
    return x, y, a / a.sum(), b / b.sum()


def assignment_peers() -> dict[str, Callable[[Array], Any]]:
    """Solvers of assignment by name, where their package is installed."""
    peers: dict[str, Callable[[Array], Any]] = {"scipy": linear_sum_assignment}
    for name, package, solve in (
        ("lapx", "lap", "lapjv"), ("lapjv", "lapjv", "lapjv"), ("fastlap", "fastlap", "solve_lap"),
    ):  # fmt: skip
        if find_spec(package):
            peers[name] = getattr(import_module(package), solve)
    return peers


def compare(problem: Problem, repeats: int) -> dict[str, float]:
    """Seconds of each solver on a matrix of costs that all are given."""
    _, n, m, _, weighted = problem
    x, y, a, b = draw(*problem)
    cost = transport.cost_matrix(x, y)
    values: dict[str, float] = {}

    def ours() -> None:
        values["silot"] = transport.plan_from_cost(cost, a, b).cost

    def emd() -> None:
        values["POT"] = float((ot.emd(a, b, cost, numItermax=10**9) * cost).sum())

    runs: dict[str, Callable[[], object]] = {"silot": ours, "POT": emd}
    if n == m and not weighted:
        runs |= {k: lambda solve=solve: solve(cost) for k, solve in assignment_peers().items()}
    with threadpool_limits(1):
        seconds = medians(runs, repeats)
    if abs(values["silot"] / values["POT"] - 1.0) > 1e-7:
        raise RuntimeError(f"costs differ on {problem}: {values}")
    return seconds


def compare_entropic(n: int, d: int, share: float) -> dict[str, float]:
    """Seconds of each solver until a marginal is off by at most ``TOLERANCE``; NaN where never."""
    x, y, a, b = draw("normal", n, n, d, True)
    cost = transport.cost_matrix(x, y)
    epsilon = share * float(a @ cost @ b)

    def pot() -> Array:
        return ot.bregman.sinkhorn_log(
            a, b, cost, epsilon, numItermax=SWEEPS, stopThr=TOLERANCE / n**0.5, warn=False
        )  # fmt: skip

    runs: dict[str, Callable[[], Any]] = {
        "silot": lambda: transport.sinkhorn(x, y, a, b, epsilon=epsilon, tolerance=TOLERANCE),
        "POT": pot,
    }
    missed = set[str]()
    if np.abs(pot().sum(axis=0) - b).sum() > 2 * TOLERANCE:
        missed.add("POT")
    try:
        import jax
        from ott.geometry import geometry
        from ott.solvers import linear
    except ModuleNotFoundError:
        pass
    else:
        jax.config.update("jax_enable_x64", True)
        solve = jax.jit(
            lambda: linear.solve(
                geometry.Geometry(cost_matrix=cost, epsilon=epsilon), a=a, b=b,
                threshold=TOLERANCE, max_iterations=SWEEPS,
            )
        )  # fmt: skip
        if not bool(solve().converged):
            missed.add("OTT-JAX")
        runs["OTT-JAX"] = lambda: solve().f.block_until_ready()
    # Who does not come so far is not timed.
    with threadpool_limits(1):
        seconds = medians({k: run for k, run in runs.items() if k not in missed}, 3)
    return seconds | dict.fromkeys(missed, np.nan)


def measure_large(problem: Problem) -> tuple[float, float, float, str]:
    """CPU seconds, peak memory in GB, relative gap and status, in a process of its own."""
    code = f"import sys; from evidence.transport.speed import _large; _large({problem!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu, memory, gap, status = done.stdout.strip().split("|")
    return float(cpu), float(memory), float(gap), status


def _large(problem: tuple[str, int, int, bool]) -> None:
    name, n, d, weighted = problem
    x, y, a, b = draw(name, n, n, d, weighted)
    began = time.process_time()
    plan = transport.bounded_plan(x, y, a, b, gap=0.01, time_limit=1800.0)
    cpu = time.process_time() - began
    memory = _peak_memory()
    print(cpu, memory, (plan.upper_cost - plan.lower_cost) / plan.upper_cost, plan.status, sep="|")


def _peak_memory() -> float:
    """Peak memory of this process in GB; what the system reports else begins with its parent's."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text(encoding="utf-8").splitlines()
        return next(float(k.split()[1]) for k in lines if k.startswith("VmHWM")) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _name(problem: Problem) -> str:
    name, n, m, d, weighted = problem
    return f"{name}, {n} × {m}, d {d}{', weighted' if weighted else ''}"


QUICK = {"PROBLEMS": tuple(problem for problem in PROBLEMS if problem[1] in (400, 800, 1000))}


def run(context: Context) -> Report:
    times = {problem: compare(problem, 3 if problem[1] < 2000 else 1) for problem in PROBLEMS}
    context.say("exact problems are done")
    ratios = {
        problem: {k: v / seconds["silot"] for k, v in seconds.items() if k != "silot"}
        for problem, seconds in times.items()
    }
    slow = [_name(problem) for problem, others in ratios.items() if others["POT"] < 1.0]
    if context.quick and slow:
        raise SystemExit(f"slower than ot.emd: {'; '.join(slow)}")
    peers = list(dict.fromkeys(k for others in ratios.values() for k in others))
    rows = [
        [_name(problem), f"{1e3 * times[problem]['silot']:.3g}",
         *(f"{others[k]:.2f}" if k in others else "–" for k in peers)]
        for problem, others in ratios.items()
    ]  # fmt: skip
    tables = [
        Table(
            "Exact, from a matrix of costs that all are given, one thread: milliseconds of silot, "
            "and how many times as long others take.",
            ["problem", "silot, ms", *peers],
            rows,
        )
    ]
    if context.quick:
        return Report("Speed of transport", "A look.", [], tables=tables)
    entropic = {key: compare_entropic(*key) for key in ENTROPIC}
    large = {key: measure_large(key) for key in context.size((BOUNDED, LARGEST))}
    tables += [_of_points(), _of_entropic(entropic), _of_large(large)]
    return Report(
        title="Speed of transport, beside other packages",
        about="Times of `exact_plan`'s solvers, of `sinkhorn` and of `bounded_plan` on random "
        f"problems, medians of three turns; kernels: {_native.path()}. Peers: {_versions()}.",
        setup=[
            "normal: the second cloud 1.3 times as wide and moved by .5; clusters: 8, each .3 "
            "wide, centres 8 apart; heavy tails: Student's t, 1.5 degrees of freedom; near copies: "
            "points of the other cloud, moved by .001; ties: a grid of 4 values a column.",
            f"Entropic: until a marginal is off by at most {TOLERANCE:g}; a dash where a peer did "
            f"not come so far in {SWEEPS:,} sweeps.",
            "Large: one process each, at most 30 minutes, the gap that was asked for is 1 %.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def _versions() -> str:
    packages = metadata.packages_distributions().values()
    installed = {name.lower(): name for names in packages for name in names}
    named = [installed[name] for name in PEERS if name in installed]
    return ", ".join(f"{name} {metadata.version(name)}" for name in named)


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the ratios of every problem, and by the gaps of the large ones."""
    exact, *_, entropic, large = tables
    # By problem, how many times as long each of the others takes; POT is the first.
    ratios, sparse = (
        {row[0]: [number(cell) for cell in row[2:] if cell != "–"] for row in table.rows}
        for table in (exact, entropic)
    )
    sizes = {name: [int(k) for k in name.split(", ")[1].split(" × ")] for name in ratios}

    def words(values: list[float]) -> str:
        return f"least {min(values):.2f}, median {np.median(values):.1f}"

    general = [v[0] for name, v in ratios.items() if min(sizes[name]) >= 800
               and ("weighted" in name or len({*sizes[name]}) > 1)]  # fmt: skip
    small = [v[0] for k, v in ratios.items() if sizes[k][0] <= 500 and "weighted" in k]
    uniform = [min(v) for v in ratios.values() if len(v) > 1]
    quickest = [min(v) for v in sparse.values() if v]
    gaps = [number(row[-1]) for row in large.rows if "50000 × 50000" in row[0]]
    return [
        GENERAL.judged(words(general), verdict(min(general) >= 2.0), EACH),
        Claim("general masses, 30 to 500 points: no slower than ot.emd, each cell", "issue").judged(
            words(small), verdict(min(small) >= 1.0), EACH
        ),
        Claim("uniform masses: 1.2 times as fast as the best assignment package", "issue").judged(
            words(uniform), verdict(min(uniform) >= 1.2), EACH
        ),
        Claim("small epsilon: no slower than the quickest peer that converges", "ours").judged(
            words(quickest), verdict(min(quickest) >= 1.0), EACH
        ),
        Claim("50,000 points: bounds within 1 %", "issue").judged(
            f"largest gap {max(gaps):.2g}", verdict(all(gap <= 0.01 for gap in gaps))
        ),
    ]


def _of_points() -> Table:
    """Points of which many coincide: from the points, those that do are solved as one."""
    rows: list[list[str]] = []
    for problem in (("ties", 300, 300, 3, True), ("ties", 2000, 2000, 3, True)):
        x, y, a, b = draw(*problem)
        runs: dict[str, Callable[[], object]] = {
            "silot": lambda x=x, y=y, a=a, b=b: transport.exact_plan(x, y, a, b),
            "POT": lambda x=x, y=y, a=a, b=b: ot.emd2(a, b, ot.dist(x, y), numItermax=10**9),
        }
        with threadpool_limits(1):
            seconds = medians(runs, 3)
        rows.append([_name(problem), f"{1e3 * seconds['silot']:.3g}",
                     f"{seconds['POT'] / seconds['silot']:.1f}"])  # fmt: skip
    return Table(
        "Exact, from points of which many coincide, costs included: milliseconds of silot, and how "
        "many times as long POT takes.",
        ["problem", "silot, ms", "POT"],
        rows,
    )


def _of_entropic(entropic: dict[tuple[int, int, float], dict[str, float]]) -> Table:
    peers = list(dict.fromkeys(k for seconds in entropic.values() for k in seconds if k != "silot"))
    rows = [
        [f"normal, {n} × {n}, d {d}, epsilon {share:g} of the mean cost",
         f"{1e3 * seconds['silot']:.3g}",
         *("–" if np.isnan(seconds[k]) else f"{seconds[k] / seconds['silot']:.2f}" for k in peers)]
        for (n, d, share), seconds in entropic.items()
    ]  # fmt: skip
    return Table(
        "Entropic: milliseconds of silot, and how many times as long others take.",
        ["problem", "silot, ms", *peers],
        rows,
    )


def _of_large(large: dict[tuple[str, int, int, bool], tuple[float, float, float, str]]) -> Table:
    rows = [
        [_name((name, n, n, d, weighted)), f"{cpu:.0f}", f"{memory:.2f}", f"{gap:.2g}"]
        for (name, n, d, weighted), (cpu, memory, gap, _) in large.items()
    ]
    return Table(
        "Bounded, without a matrix of costs: CPU seconds, peak memory of the process, and the "
        "certified gap.",
        ["problem", "CPU, s", "GB", "gap"],
        rows,
    )
