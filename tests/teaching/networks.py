"""Random networks of several kinds, and oracles that share no code with the solvers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from silot.teaching.costs import LinkCosts

Array = npt.NDArray[np.float64]
KINDS = (
    "uniform", "metric", "paper", "equal", "ties", "dear sources", "alike", "free energy",
    "negative",
)  # fmt: skip


def network(
    kind: str, n: int, seed: int, *, eligible: str = "half", barred: float = 0.0
) -> LinkCosts:
    """A random network; row = source, column = target."""
    rng = np.random.default_rng([seed, n])
    source, transfer = rng.uniform(size=n), rng.uniform(size=(n, n))
    energy = rng.uniform(2.3, 5.0, size=(n, n))
    phi = (1.0, 5.0, 1.0)
    if kind == "metric":
        places = rng.uniform(size=(n, 2))
        apart = np.linalg.norm(places[:, None] - places, axis=2)
        source = rng.uniform(0.05, 0.8, n)
        transfer, energy = source[:, None] + apart / 2, 0.05 * energy
    elif kind == "paper":
        source = 2.55 + rng.uniform(0.05, 0.8, n)
        transfer = 9.75 + source[:, None] + 0.5 * transfer
    elif kind == "equal":
        source, transfer, energy = np.ones(n), np.ones((n, n)), np.ones((n, n))
    elif kind == "ties":
        source = rng.integers(1, 4, n).astype(float)
        transfer = rng.integers(0, 3, (n, n)).astype(float)
        energy = rng.integers(0, 3, (n, n)).astype(float)
    elif kind == "dear sources":
        source, energy = 10 * source, 0 * energy
    elif kind == "alike":  # the hard kind: training is dear, and links do not tell devices apart
        source, energy, phi = 2 + 2 * source, 0 * energy, (1.0, 1.0, 1.0)
    elif kind == "free energy":
        phi = (3.0, 5.0, 0.0)
    elif kind == "negative":
        source, transfer = source - 0.5, transfer - 0.7
    if barred:
        transfer = np.where(rng.uniform(size=(n, n)) < barred / 2, np.inf, transfer)
        energy = np.where(rng.uniform(size=(n, n)) < barred / 2, np.inf, energy)
    may = np.ones(n, dtype=bool) if eligible == "all" else np.arange(n) < max(1, n // 2)
    if eligible == "one":
        may = np.arange(n) == 0
    return LinkCosts(source, transfer, energy, phi=phi, eligible=may)


@st.composite
def small_networks(draw: Callable[..., int], most: int = 8) -> LinkCosts:
    """Networks small enough for brute force."""
    return network(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(2, most)),
        draw(st.integers(0, 10**6)),
        eligible=draw(st.sampled_from(("half", "all", "one"))),
        barred=draw(st.sampled_from((0.0, 0.0, 0.4))),
    )


def source_sets(costs: LinkCosts) -> Iterator[tuple[int, ...]]:
    """Every set of devices that may be sources."""
    may = np.flatnonzero(costs.eligible).tolist()
    for size in range(len(may) + 1):
        yield from itertools.combinations(may, size)


def brute_force(costs: LinkCosts, unserved: float | None = None) -> float:
    """Least objective over all sets of sources; each target takes its cheapest way."""
    best = np.inf
    source, transfer, energy = costs.phi
    for chosen in source_sets(costs):
        total = source * sum(costs.source[i] for i in chosen)
        for j in set(range(costs.size)) - set(chosen):
            ways = [
                transfer * costs.transfer[i, j] + energy * costs.energy[i, j]
                for i in chosen
                if np.isfinite(costs.transfer[i, j]) and np.isfinite(costs.energy[i, j])
            ]
            total += min(ways + ([] if unserved is None else [unserved]), default=np.inf)
        best = min(best, float(total))
    return best


def plain_program(costs: LinkCosts) -> float:
    """The least objective by the integer program as it is written down, nothing left out."""
    n, pairs = costs.size, costs.links
    i, j = np.nonzero(np.isfinite(pairs))
    links = np.arange(len(i))
    rows, columns = np.concatenate([np.arange(n), j]), np.concatenate([np.arange(n), n + links])
    served = sparse.csr_array((np.ones(n + len(i)), (rows, columns)), shape=(n, n + len(i)))
    entries = np.concatenate([np.ones(len(i)), -np.ones(len(i))])
    where = np.concatenate([links, links]), np.concatenate([n + links, i])
    below = sparse.csr_array((entries, where), shape=(len(i), n + len(i)))
    solved = milp(
        np.concatenate([costs.phi[0] * costs.source, pairs[i, j]]),
        constraints=[LinearConstraint(served, 1.0, 1.0), LinearConstraint(below, -np.inf, 0.0)],
        bounds=Bounds(0.0, np.concatenate([costs.eligible.astype(np.float64), np.ones(len(i))])),
        integrality=(np.arange(n + len(i)) < n).astype(int),
        options={"time_limit": 60.0, "mip_rel_gap": 0.0},
    )
    assert solved.status == 0, solved.message
    return float(solved.fun)
