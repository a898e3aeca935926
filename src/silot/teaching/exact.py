"""The network problem solved to proven optimality."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from silot_transport._check import real

from ..errors import InputError
from .costs import (
    Array,
    Indices,
    LinkCosts,
    Mixing,
    NoEligibleSource,
    canonical_order,
    reordered,
    restored,
)
from .location import Location, Problem, locate
from .mixing import Mixture, mixture_named
from .plan import (
    TOLERANCE,
    Kinds,
    LinkPlan,
    Search,
    best_alpha,
    checked_unserved,
    make_plan,
    unreachable,
)
from .tangents import listable, outer_approximation

DEFAULT_GAP = 1e-4
# Relative gap below which the solver tells plans no more apart.
_RESOLUTION = 1e-7
_OPTIMAL = "proven optimal: no plan has a lower objective at these costs"


def solve_exact(
    costs: LinkCosts,
    *,
    mixing: Mixing = "none",
    allow_unserved: float | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
) -> LinkPlan:
    r"""Best sources, links and weights, with a proof.

    Without mixing each target does best with one source, so the problem is facility location:
    with :math:`y_i = 1` for a source and :math:`c_{ij} = \phi_T T_{ij} + \phi_E K_{ij}`,

    .. math::

        \min \phi_S \sum_i S_i y_i + \sum_{ij} c_{ij} x_{ij}
        \quad\text{s.t.}\quad y_j + \sum_i x_{ij} = 1,\; x_{ij} \le y_i,\; y_i \in \{0, 1\}

    Local search finds a plan, Lagrange multipliers bound all others and leave out what no better
    plan can use, and HiGHS solves what is left; where that is many links a source, branch and
    bound with multipliers does.

    With mixing, weights a at target j add

    ========= ====================================================================
    variance  :math:`m_j(a) = c \sqrt{\sum_i a_i^2 / n_i}`, n labelled records: few records make
              an uncertain model, and independent errors average out
    ambiguity :math:`m_j(a) = -\frac{s}{2} \sum_{ik} a_i a_k D_{j,ik}`, D mean squared
              differences of predictions at j: the mean squared error of averaged outputs is the
              average error minus this (Krogh and Vedelsby, 1995)
    mmd       :math:`m_j(a) = s \, \|\sum_i a_i \mu_i - \mu_j\|`, from inner products of the
              mean embeddings of the devices' records
    ========= ====================================================================

    All are convex in a, and each link in use costs its energy. With up to 14 possible
    sources, and 20 where energy leaves few supports worth a look, every set of sources and
    every support of every target is compared, in closed form. With more, tangents bound the
    convex part from below in a mixed-integer program, which is solved again with more of them
    until the gap is small or time is up; it may be, with a gap of some per cent.

    Parameters
    ----------
    costs
        The network.
    mixing
        What mixing sources adds to a target's cost, as below.
    allow_unserved
        Cost of leaving a target without a model; ``None`` does not allow it. Such a target has
        ``psi`` 1, weights 0, and is listed in ``unserved``.
    time_limit
        Seconds after which the best plan so far is returned, with its bound.
    gap
        Relative gap that is good enough; 0 asks for the optimum, and with tangents for 1e-4.

    Returns
    -------
    LinkPlan
        The same plan for the same costs, however devices are listed: they are put in an order
        first that depends on their costs and, where these agree, on their names. If devices
        agree in every cost and are given each other's names, they change roles with the names; the
        objective never changes. A plan that the time limit cut short may differ between runs.

    Raises
    ------
    NoEligibleSource
        No device may be a source (``no-eligible-source``).
    InputError
        A device that may not be a source and has no link in (``target-unreachable``); options
        out of range; data of the mixing that were not given, ``disagreement`` that no predictions
        have (``disagreement-definite``).
    SolverError
        The mixed-integer solver failed.

    Notes
    -----
    *Who can teach whom* (ST-LF), eq. 11 to 16, with the missing
    :math:`\alpha_{ij} \le 1 - \psi_i`. The hard networks are random ones without energy in which
    training costs one to two times what links differ by: above some 150 devices the time limit
    may end the search.

    Examples
    --------
    >>> costs = LinkCosts(
    ...     source=[1, 1, 9],
    ...     transfer=[[0, 3, 1], [3, 0, 2], [1, 1, 0]],
    ...     energy=[[0, 1, 1], [1, 0, 1], [1, 1, 0]],
    ... )
    >>> plan = solve_exact(costs)
    >>> plan.links, plan.objective, plan.gap
    ((('0', '2', 1.0),), 8.0, 0.0)
    >>> costs = LinkCosts(
    ...     [0.1, 0.1, 9], [[0.2] * 3] * 3, [[0.01] * 3] * 3, labelled=[100, 100, 1]
    ... )
    >>> plan = solve_exact(costs, mixing="variance")
    >>> plan.alpha[:, 2].tolist(), plan.gap
    ([0.5, 0.5, 0.0], 0.0)
    """
    mixture = mixture_named(mixing, costs)
    price = checked_unserved(allow_unserved)
    _check_options(costs, price, time_limit, gap)
    began = time.perf_counter()
    order = canonical_order(costs)
    listed = reordered(costs, order)
    if mixing == "none":
        solved = _located(listed, price, time_limit, gap)
    elif listable(listed, mixture):
        solved = _compared(listed, mixture, price)
    else:
        left = time_limit - (time.perf_counter() - began)
        solved = _approximated(listed, mixture, price, gap or DEFAULT_GAP, left)
    alpha = solved.alpha
    if alpha is None:
        alpha = best_alpha(solved.psi, listed, mixing=mixing, allow_unserved=price)
    psi, alpha = restored(solved.psi, alpha, order)
    return make_plan(
        psi,
        alpha,
        costs,
        Search(
            method="exact",
            status=solved.status,
            lower_bound=solved.bound,
            tolerance=solved.tolerance,
            seconds=time.perf_counter() - began,
            details=solved.numbers,
        ),
        mixing=mixing,
        allow_unserved=price,
    )


class _Solved(NamedTuple):
    """Sources, what is proven about them, and their weights where these are not the best ones."""

    psi: Kinds
    status: str
    bound: float
    tolerance: float
    numbers: dict[str, float]
    alpha: Array | None = None


def _check_options(costs: LinkCosts, price: float | None, time_limit: float, gap: float) -> None:
    """Refuse options out of range, and networks in which nobody can teach somebody."""
    checked_time(time_limit)
    checked_gap(gap)
    if price is not None:
        return
    if not costs.eligible.any():
        raise NoEligibleSource(
            "no device may be a source, so nobody can teach. Give labels to one, or pass "
            "allow_unserved.",
            code="no-eligible-source",
        )
    alone = ~costs.eligible & np.isinf(costs.links).all(axis=0)
    if alone.any():
        raise unreachable(costs.names[int(np.argmax(alone))])


def checked_time(seconds: float) -> float:
    """Refuse a limit that leaves no time."""
    if not real(seconds, "time_limit", "option-time-limit") > 0:
        raise InputError(
            f"time_limit is {seconds}; give seconds above 0.", code="option-time-limit"
        )
    return seconds


def checked_gap(gap: float) -> float:
    """Refuse a gap below 0."""
    if real(gap, "gap", "option-gap") < 0:
        raise InputError(f"gap is {gap}; give 0 or more.", code="option-gap")
    return gap


def _located(costs: LinkCosts, price: float | None, time_limit: float, gap: float) -> _Solved:
    """Facility location: one source is best for each target."""
    problem = Problem.of(costs.phi[0] * costs.source, costs.links, costs.eligible, price)
    found = locate(problem, time_limit=time_limit, gap=gap)
    return _Solved(
        psi=np.where(found.open, 0, 1).astype(np.int64),
        status=_status(found, gap, time_limit),
        bound=found.bound,
        # What a finished search leaves is rounding of its solver.
        tolerance=max(gap, _RESOLUTION if found.finished else TOLERANCE),
        numbers={"nodes": float(found.nodes)},
    )


def _status(found: Location, gap: float, time_limit: float) -> str:
    if found.finished:
        if gap == 0:
            return _OPTIMAL
        return f"proven within a gap of {gap:g}: no plan at these costs is better by more"
    return (
        f"stopped at the time limit of {time_limit:g} s: the plan holds every constraint, and "
        "lower_bound tells how far from the best it can be. Raise time_limit, or accept a gap"
    )


def _approximated(
    costs: LinkCosts, mixture: Mixture, price: float | None, gap: float, time_limit: float
) -> _Solved:
    """Tangents, for many possible sources."""
    found = outer_approximation(costs, mixture, price, gap=gap, time_limit=time_limit)
    numbers = {"rounds": float(found.rounds), "tangents": float(found.tangents)}
    return _Solved(found.psi, found.status, found.bound, gap, numbers, found.alpha)


def _compared(costs: LinkCosts, mixture: Mixture, price: float | None) -> _Solved:
    """Every set of sources."""
    return _Solved(
        psi=_best_set(costs, mixture, price),
        status=_OPTIMAL,
        bound=np.inf,
        tolerance=TOLERANCE,
        numbers={"sets": float(2 ** int(costs.eligible.sum()))},
    )


def _best_set(costs: LinkCosts, mixture: Mixture, price: float | None) -> Kinds:
    """Sources of least total cost, by the cost of every set of them."""
    may = np.flatnonzero(costs.eligible)
    e = len(may)
    total = np.zeros(2**e)
    sets = np.arange(2**e)
    for bit, i in enumerate(may):
        total[(sets >> bit) & 1 == 1] += costs.phi[0] * costs.source[i]
    for j in range(costs.size):
        served = _served(costs, j, may, mixture, price)
        own = np.flatnonzero(may == j)
        if len(own):  # a source needs no model
            served = np.where((sets >> own[0]) & 1 == 1, 0.0, served)
        total += served
    best = int(np.argmin(total))
    psi = np.ones(costs.size, dtype=np.int64)
    psi[may[(best >> np.arange(e)) & 1 == 1]] = 0
    return psi


def _served(costs: LinkCosts, j: int, may: Indices, mixture: Mixture, price: float | None) -> Array:
    """Least cost of serving j, for every set of sources by mask."""
    bits = np.flatnonzero(np.isfinite(costs.links[may, j]))
    table = mixture.shape(costs, j, may[bits]).table()
    cost = np.full(2 ** len(may), np.inf)
    masks = np.zeros(len(table), dtype=np.intp)
    for place, bit in enumerate(bits):
        masks[1 << place : 2 << place] = masks[: 1 << place] | (1 << bit)
    cost[masks] = table
    if price is not None:
        cost[0] = price
    for bit in range(len(may)):  # what a set can do, every larger one can
        halves = cost.reshape(-1, 2, 1 << bit)
        np.minimum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    return cost
