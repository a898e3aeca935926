"""Exact distances and one round of each protocol, against the solvers everybody has."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import numpy.typing as npt
import ot
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

import silot
from evidence.common import Context
from evidence.speed._timing import medians, show
from silot import transport
from silot_transport._solvers import solve_costs

Array = npt.NDArray[np.float64]


def run(context: Context) -> None:
    for measure in TABLES:
        measure()


def few() -> None:
    """Distances of few records with their verdicts: all of it, the test, and the plan alone."""
    rows = []
    for n, d in ((10, 2), (100, 5), (1000, 20)):
        rng = np.random.default_rng(6)
        x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d)) + 0.3

        def whole(x: Array = x, y: Array = y) -> float:
            verdict = silot.distance(x, y).test
            return 1.0 if verdict is None else verdict.p_value

        def emd(x: Array = x, y: Array = y) -> object:
            return ot.emd2([], [], ot.dist(x, y), numItermax=10**9)

        runs = {
            "whole": whole,
            "test": lambda x=x, y=y: transport.two_sample(x, y),
            "late": lambda x=x, y=y: transport.two_sample(x, y).detectable,
            "plan": lambda x=x, y=y: transport.exact_plan(x, y),
            "POT": emd,
        }
        with threadpool_limits(1, "blas"):
            seconds = medians(runs, 9, time.process_time)
        rows.append((f"{n} x {n}, d = {d}", *(f"{1e3 * seconds[k]:.3g}" for k in runs)))
    show(
        "few records, milliseconds of CPU",
        ("problem", "distance", "its test", "and detectable", "exact_plan", "ot.emd2"),
        rows,
    )


def matrices() -> None:
    """All pairs of holders with their p-values, against a loop of ``ot.emd2``."""
    rows = []
    for count, n, d in ((10, 100, 5), (50, 100, 5)):
        rng = np.random.default_rng(7)
        clouds = {str(k): rng.normal(size=(n, d)) + 0.1 * k for k in range(count)}
        pairs = list(combinations(clouds.values(), 2))

        def loop(pairs: list[tuple[Array, Array]] = pairs) -> None:
            for x, y in pairs:
                ot.emd2([], [], ot.dist(x, y), numItermax=10**9)

        def plans(pairs: list[tuple[Array, Array]] = pairs) -> None:
            for x, y in pairs:
                transport.exact_plan(x, y)

        runs = {
            "silot": lambda clouds=clouds: silot.distance_matrix(clouds).p_values,
            "plans": plans,
            "POT": loop,
        }
        with threadpool_limits(1, "blas"):
            seconds = medians(runs, 1, time.process_time)
        rows.append((
            f"{count} holders of {n}, d = {d}",
            *(f"{1e3 * seconds[k] / len(pairs):.3g}" for k in runs),
            f"{seconds['POT'] / seconds['silot']:.2f}",
        ))  # fmt: skip
    show(
        "matrices, milliseconds of CPU a pair",
        ("problem", "distance_matrix", "exact_plan", "ot.emd2", "ot.emd2 / distance_matrix"),
        rows,
    )


def trajectory() -> None:
    """A reference that moves as FedWaD's does: each plan starts from the potentials before."""
    n, d, steps = 1000, 50, 10
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(n, d)), rng.normal(size=(n, d)) * 1.3 + 0.5
    a = np.full(n, 1 / n)
    matrices, here = [], rng.normal(size=(n, d))
    for _ in range(steps + 1):
        matrices.append(transport.cost_matrix(x, here))
        plan = transport.exact_plan(here, target)
        here = 0.9 * here + 0.1 * target[plan.cols[np.argsort(plan.rows)]]
    first = solve_costs(matrices[0], a, a, d).g

    def warm() -> None:
        start = first
        for cost in matrices[1:]:
            start = solve_costs(cost, a, a, d, start).g

    runs = {
        "warm": warm,
        "cold": lambda: [solve_costs(cost, a, a, d) for cost in matrices[1:]],
        "emd": lambda: [ot.emd(a, a, cost, numItermax=10**9) for cost in matrices[1:]],
        "assignment": lambda: [linear_sum_assignment(cost) for cost in matrices[1:]],
    }
    seconds = medians(runs, 3)
    show(
        f"a trajectory of {steps} references, {n} x {n}, d = {d}, costs given",
        ("silot, started warm", "cold /", "ot.emd /", "linear_sum_assignment /"),
        [
            (
                f"{seconds['warm'] / steps:.4f} s a plan",
                *(f"{seconds[k] / seconds['warm']:.1f}" for k in ("cold", "emd", "assignment")),
            )
        ],
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
        rows.append((
            f"{n} x {n}, d = {d}", f"{seconds['direct']:.3f} s",
            f"{seconds['triangle'] / seconds['direct']:.2f}", f"{round_ / seconds['direct']:.2f}",
        ))  # fmt: skip
    show(
        "protocols: time as a multiple of one direct distance of the same size",
        ("problem", "direct", "trianglewad", "one fedwad round"),
        rows,
    )


TABLES = (few, matrices, trajectory, protocols)
QUICK = {"TABLES": (few,)}
