"""The network problem solved to proven optimality."""

from __future__ import annotations

import time

import numpy as np

from ..options import Check, number
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
from .plan import TOLERANCE, UNSERVED, LinkPlan, best_alpha, make_plan, unreachable
from .tangents import Solution, listable, outer_approximation

# What tangents reach in reasonable time; a gap of 0 would keep them busy until the time limit.
DEFAULT_GAP = 1e-4
# Relative gap below which branch and bound tells plans no more apart.
_RESOLUTION = 1e-7
SECONDS = Check(number(above=0).of, float, "float, above 0")
GAP = Check(number(least=0).of, float, "float, 0 or more", 0)
"""What a time limit and a gap must be."""
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
    plan can use, and branch and bound with multipliers decides the others.

    With mixing, weights a at target j add

    ========= ====================================================================
    variance  :math:`m_j(a) = c \sqrt{\sum_i a_i^2 / n_i}`, n labelled records: few records make
              an uncertain model, and independent errors average out
    ========= ====================================================================

    It is convex in a, and each link in use costs its energy. With up to 14 possible
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
        out of range; data of the mixing that were not given.
    SolverError
        The mixed-integer solver failed (with mixing).

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
    price = UNSERVED.of(allow_unserved, "allow_unserved", "option-unserved")
    SECONDS.of(time_limit, "time_limit", "option-time-limit")
    GAP.of(gap, "gap", "option-gap")
    if price is None:
        _check_servable(costs)
    began = time.perf_counter()
    order = canonical_order(costs)
    listed = reordered(costs, order)
    if mixing == "none":
        solved = _located(listed, price, time_limit, gap)
    elif listable(listed, mixture):
        solved = _compared(listed, mixture, price)
    else:
        solved = outer_approximation(
            listed,
            mixture,
            price,
            gap=gap or DEFAULT_GAP,
            time_limit=time_limit - (time.perf_counter() - began),
        )
    alpha = solved.alpha
    # Which sources are open decides everything but the weights, which have a closed form.
    if alpha is None:
        alpha = best_alpha(solved.psi, listed, mixing=mixing, allow_unserved=price)
    # The order of the devices that came in, so that the plan fits the caller's costs.
    psi, alpha = restored(solved.psi, alpha, order)
    return make_plan(
        psi,
        alpha,
        costs,
        method="exact",
        status=solved.status,
        lower_bound=solved.bound,
        tolerance=solved.tolerance,
        seconds=time.perf_counter() - began,
        details=solved.details,
        mixing=mixing,
        allow_unserved=price,
    )


def _check_servable(costs: LinkCosts) -> None:
    """Raise where nobody can teach somebody, and every target must be served."""
    if not costs.eligible.any():
        raise NoEligibleSource(
            "no device may be a source, so nobody can teach. Give labels to one, or pass "
            "allow_unserved.",
            code="no-eligible-source",
        )
    alone = ~costs.eligible & np.isinf(costs.links).all(axis=0)
    if alone.any():
        raise unreachable(costs.names[int(np.argmax(alone))])


def _located(costs: LinkCosts, price: float | None, time_limit: float, gap: float) -> Solution:
    """Solve facility location: without mixing one source is best for each target."""
    problem = Problem.of(costs.phi[0] * costs.source, costs.links, costs.eligible, price)
    location = locate(problem, time_limit=time_limit, gap=gap)
    return Solution(
        psi=np.where(location.open, 0, 1).astype(np.int64),
        status=_status(location, gap, time_limit),
        bound=location.bound,
        # The gap of a finished search is rounding.
        tolerance=max(gap, _RESOLUTION if location.finished else TOLERANCE),
        details={"nodes": float(location.nodes)},
    )


def _status(location: Location, gap: float, time_limit: float) -> str:
    if location.finished:
        if gap == 0:
            return _OPTIMAL
        return f"proven within a gap of {gap:g}: no plan at these costs is better by more"
    return (
        f"stopped at the time limit of {time_limit:g} s: the plan holds every constraint, and "
        "lower_bound tells how far from the best it can be. Raise time_limit, or accept a gap"
    )


def _compared(costs: LinkCosts, mixture: Mixture, price: float | None) -> Solution:
    """Compute the cost of every set of sources, and take the least."""
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
    return Solution(psi, _OPTIMAL, np.inf, TOLERANCE, {"sets": float(2**e)})


def _served(costs: LinkCosts, j: int, may: Indices, mixture: Mixture, price: float | None) -> Array:
    """Compute the least cost of serving j, for every set of sources by mask."""
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
