"""Transport of clouds larger than memory: bounds, seconds and memory. Linux only."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evidence.common import Array, Context, stream
from evidence.speed._timing import show
from silot_transport import bounded_plan, exact_plan

CLUSTERS = 20


@dataclass(frozen=True)
class Problem:
    """Two clouds of one size, and the gap that is asked for."""

    kind: str
    size: int
    d: int = 64
    gap: float = 0.01
    weighted: bool = False
    p: int = 2

    @property
    def name(self) -> str:
        """As the table has it."""
        more = ", weighted" * self.weighted + ", W1" * (self.p == 1)
        return f"{self.kind}, {self.size:,}, d = {self.d}{more}"


PROBLEMS = (
    Problem("normal", 20_000, gap=0.0),
    Problem("normal", 50_000),
    Problem("normal", 50_000, weighted=True),
    Problem("clusters", 50_000),
    Problem("clusters", 50_000, weighted=True),
    Problem("images", 20_000),  # all that the data folder has of each
)
LARGER = (
    Problem("normal", 50_000, p=1),
    Problem("normal", 100_000),
    Problem("clusters", 100_000),
    Problem("normal", 1_000_000, d=8),
)
QUICK = {"PROBLEMS": (Problem("normal", 2000), Problem("clusters", 2000))}


def run(context: Context) -> None:
    rows = []
    for problem in PROBLEMS + (LARGER if context.full else ()):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            lower, upper, seconds, peak = pool.apply(_solved, (problem, context))
        rows.append((
            problem.name, f"{lower:.6g}", f"{upper:.6g}", f"{100 * problem.gap:.0f} %",
            f"{100 * (1 - lower / upper):.2g} %", f"{seconds:.0f} s", f"{peak:.2f} GiB",
        ))  # fmt: skip
        context.say(" · ".join(rows[-1]))
    show(
        "bounded_plan, without the matrix of costs (20,000: 3 GiB; 50,000: 19; 100,000: 75)",
        ("problem", "lower", "upper", "gap asked", "gap", "processor", "peak"),
        rows,
    )


def _solved(problem: Problem, context: Context) -> tuple[float, float, float, float]:
    exact_plan(np.eye(3), 1.0 - np.eye(3))  # loads everything
    rng = stream(20, problem.size)
    x, y = _clouds(problem, context, rng)
    a, b = (rng.exponential(size=problem.size) for _ in "ab") if problem.weighted else (None, None)
    # What making the data took is not the solver's: the count starts from what is in use now.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = time.process_time()
    plan = bounded_plan(x, y, a, b, gap=problem.gap, p=problem.p)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 2**20
    return plan.lower_cost, plan.upper_cost, time.process_time() - before, peak


def _clouds(problem: Problem, context: Context, rng: np.random.Generator) -> tuple[Array, Array]:
    shape = (problem.size, problem.d)
    if problem.kind == "images":
        return _images(context, problem)
    if problem.kind == "normal":
        return rng.normal(size=shape), rng.normal(size=shape)
    centres = 6.0 * rng.normal(size=(CLUSTERS, problem.d))
    widths = rng.uniform(0.5, 1.5, size=CLUSTERS)
    labels = [
        rng.choice(CLUSTERS, problem.size, p=rng.dirichlet(np.full(CLUSTERS, 2.0))) for _ in "xy"
    ]
    x, y = (centres[own] + widths[own, None] * rng.normal(size=shape) for own in labels)
    return x, y


def _images(context: Context, problem: Problem) -> tuple[Array, Array]:
    x, y = (
        context.images(folder)[0][: problem.size].reshape(problem.size, -1).astype(np.float32) / 255
        for folder in ("mnist", "fashion_mnist")
    )
    both = np.concatenate([x, y])
    both -= both.mean(axis=0)
    components = np.linalg.eigh(both.T @ both)[1][:, -problem.d :]
    return (x @ components).astype(np.float64), (y @ components).astype(np.float64)
