"""Exact distances and one round of each protocol, against the solvers everybody has."""

from __future__ import annotations

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import silot
from benchmarks.timing import medians, show
from silot import transport

SHAPES = (
    # n, m, d, weighted
    (300, 300, 64, False),
    (1000, 1000, 50, False),
    (2000, 2000, 50, False),
    (2000, 2000, 10, False),
    (2000, 2000, 2, False),
    (1500, 2000, 50, False),
    (2000, 2000, 50, True),
)
REPEATS = 5


def main() -> None:
    """Print both tables."""
    exact()
    protocols()


def exact() -> None:
    """``exact_plan``, with its dual proof, against plain solvers on a ``cdist`` matrix."""
    rows = []
    for n, m, d, weighted in SHAPES:
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) * 1.3 + 0.5
        a = rng.random(n) if weighted else np.ones(n)
        a, b = a / a.sum(), np.full(m, 1 / m)
        found: dict[str, float] = {}

        def ours(x=x, y=y, a=a, b=b, found=found) -> None:
            found["silot"] = transport.exact_plan(x, y, a, b).cost

        def emd(x=x, y=y, a=a, b=b, found=found) -> None:
            found["emd"] = float(ot.emd2(a, b, cdist(x, y, "sqeuclidean"), numItermax=10**9))

        def assignment(x=x, y=y, found=found) -> None:
            cost = cdist(x, y, "sqeuclidean")
            found["assignment"] = float(cost[linear_sum_assignment(cost)].mean())

        runs = {"silot": ours, "emd": emd}
        if n == m and not weighted:
            runs["assignment"] = assignment
        seconds = medians(runs, REPEATS)
        spread = max(found.values()) / min(found.values()) - 1
        ratio = seconds["silot"] / seconds["emd"]
        other = seconds["silot"] / seconds["assignment"] if "assignment" in runs else None
        rows.append(
            (
                f"{n} x {m}, d = {d}{', weighted' if weighted else ''}",
                f"{seconds['silot']:.3f} s",
                f"{ratio:.2f}",
                "-" if other is None else f"{other:.2f}",
                f"{spread:.0e}",
            )
        )
    show(
        "exact W2 with dual proof: time as a share of cdist + solver (below 1 is faster)",
        ("problem", "silot", "/ ot.emd2", "/ linear_sum_assignment", "costs differ by"),
        rows,
    )


def protocols() -> None:
    """One TriangleWad and one FedWaD round against one direct distance."""
    rows = []
    for n, d in ((500, 64), (1000, 50), (2000, 50)):
        rng = np.random.default_rng(1)
        x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d)) * 1.3 + 0.5

        def direct(x=x, y=y) -> None:
            silot.distance(x, y)

        def triangle(x=x, y=y, n=n) -> None:
            silot.distance(x, y, method="trianglewad", support=n, moments=False)

        def fedwad(rounds: int, x=x, y=y, n=n) -> None:
            silot.distance(
                x, y, method="fedwad", support=n, rounds=rounds, tol=0.0, moments=False,
                distances="every",
            )  # fmt: skip

        seconds = medians(
            {
                "direct": direct,
                "triangle": triangle,
                "two": lambda fedwad=fedwad: fedwad(2),
                "five": lambda fedwad=fedwad: fedwad(5),
            },
            3,
        )
        round_ = (seconds["five"] - seconds["two"]) / 3
        rows.append(
            (
                f"{n} x {n}, d = {d}",
                f"{seconds['direct']:.3f} s",
                f"{seconds['triangle'] / seconds['direct']:.2f}",
                f"{round_ / seconds['direct']:.2f}",
            )
        )
    show(
        "protocols: time as a multiple of one direct distance of the same size",
        ("problem", "direct", "trianglewad", "one fedwad round"),
        rows,
    )


if __name__ == "__main__":
    main()
