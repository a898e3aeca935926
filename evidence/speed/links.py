"""Exact links of random networks, against the plain program.

Both run in turn in one process, within the same time limit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from evidence.common import Context
from evidence.speed._timing import show
from silot.teaching.costs import LinkCosts
from silot.teaching.exact import solve_exact

Array = npt.NDArray[np.float64]
Costs = tuple[Array, Array, Array]
SIZES = {10: 10, 50: 4, 100: 4, 200: 2}
LIMITS = {10: 0.1, 50: 1.0, 100: 2.0, 200: 10.0}


class Timed(NamedTuple):
    """One solver on one network."""

    seconds: float
    objective: float
    proven: bool


QUICK = {"SIZES": {10: 2}}


def run(context: Context) -> None:
    rows: list[tuple[str, ...]] = []
    for n, repeats in SIZES.items():
        for name, draw in FAMILIES.items():
            networks = [_network(n, seed, draw) for seed in range(repeats)]
            ours: list[Timed] = []
            plain: list[Timed] = []
            for costs in networks:
                ours.append(_ours(costs, LIMITS[n]))
                plain.append(_plain(costs, LIMITS[n]))
            apart = [a.objective / b.objective - 1 for a, b in zip(ours, plain, strict=True)]
            rows.append((
                f"{name}, N = {n}", *_numbers(ours), *_numbers(plain),
                f"{max(apart, key=abs):+.0e}",
            ))  # fmt: skip
    show(
        f"links: seconds; limits {', '.join(f'{s:g} s at N = {n}' for n, s in LIMITS.items())}; "
        "differ: silot's objective from that of milp",
        ("network", "silot", "worst", "proven", "milp", "worst", "proven", "differ"),
        rows,
    )


def _numbers(runs: list[Timed]) -> tuple[str, str, str]:
    seconds = [run.seconds for run in runs]
    proven = sum(run.proven for run in runs)
    return f"{statistics.median(seconds):.3f}", f"{max(seconds):.3f}", f"{proven}/{len(runs)}"


def _network(n: int, seed: int, draw: Callable[[np.random.Generator, int], Costs]) -> LinkCosts:
    source, transfer, energy = draw(np.random.default_rng([seed, n]), n)
    eligible = np.arange(n) < (n if seed % 2 else n // 2)
    return LinkCosts(source, transfer, energy, phi=(1, 5, 1), eligible=eligible)


def _ours(costs: LinkCosts, limit: float) -> Timed:
    began = time.perf_counter()
    plan = solve_exact(costs, time_limit=limit)
    return Timed(time.perf_counter() - began, plan.objective, plan.optimal)


def _plain(costs: LinkCosts, limit: float) -> Timed:
    """The program as it is written down, with every constraint and variable."""
    began = time.perf_counter()
    n, pairs = costs.size, costs.links
    i, j = np.nonzero(np.isfinite(pairs))
    links = np.arange(len(i))
    rows, columns = np.concatenate([np.arange(n), j]), np.concatenate([np.arange(n), n + links])
    served = sparse.csr_array((np.ones(n + len(i)), (rows, columns)), shape=(n, n + len(i)))
    entries = np.concatenate([np.ones(len(i)), -np.ones(len(i))])
    where = np.concatenate([links, links]), np.concatenate([n + links, i])
    below = sparse.csr_array((entries, where), shape=(len(i), n + len(i)))
    upper = np.concatenate([costs.eligible.astype(np.float64), np.ones(len(i))])
    found = milp(
        np.concatenate([costs.phi[0] * costs.source, pairs[i, j]]),
        constraints=[LinearConstraint(served, 1.0, 1.0), LinearConstraint(below, -np.inf, 0.0)],
        bounds=Bounds(0.0, upper),
        integrality=(np.arange(n + len(i)) < n).astype(int),
        options={"time_limit": limit, "mip_rel_gap": 0.0},
    )
    seconds = time.perf_counter() - began
    return Timed(seconds, np.inf if found.x is None else float(found.fun), found.status == 0)


def _uniform(rng: np.random.Generator, n: int) -> Costs:
    return rng.uniform(size=n), rng.uniform(size=(n, n)), rng.uniform(size=(n, n))


def _bounds(rng: np.random.Generator, n: int) -> Costs:
    """Magnitudes of the paper's eq. 17 and 18, and joule of its radios."""
    error, apart = rng.uniform(0.05, 0.5, n), rng.uniform(size=(n, n))
    return error + 2.5, error[:, None] + 12.0 + 0.5 * apart, rng.uniform(2.3, 5.0, (n, n))


def _plane(rng: np.random.Generator, n: int) -> Costs:
    places = rng.uniform(size=(n, 2))
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    return np.full(n, 0.5), apart, 0.1 * apart


def _skew(rng: np.random.Generator, n: int) -> Costs:
    return rng.exponential(size=n), rng.lognormal(size=(n, n)), rng.exponential(size=(n, n))


def _alike(rng: np.random.Generator, n: int) -> Costs:
    return tuple(1 + 1e-3 * part for part in _uniform(rng, n))  # type: ignore[return-value]


def _integers(rng: np.random.Generator, n: int) -> Costs:
    source, pairs = rng.integers(1, 10, n), rng.integers(0, 10, (2, n, n))
    return source.astype(float), pairs[0].astype(float), (pairs[1] // 3).astype(float)


def _dear(least: float) -> Callable[[np.random.Generator, int], Costs]:
    """Training that costs this many times, and up to twice that, what links differ by."""

    def draw(rng: np.random.Generator, n: int) -> Costs:
        return 5 * rng.uniform(least, 2 * least, n), rng.uniform(size=(n, n)), np.zeros((n, n))

    return draw


FAMILIES: dict[str, Callable[[np.random.Generator, int], Costs]] = {
    "uniform": _uniform,
    "paper's bounds": _bounds,
    "plane": _plane,
    "skew": _skew,
    "alike": _alike,
    "integers": _integers,
    "training x 5": _dear(5),
    "training x 1": _dear(1),
}
