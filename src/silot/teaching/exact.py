"""The network problem solved to proven optimality."""

from __future__ import annotations

import time

import numpy as np

from ..options import Check, number
from .costs import (
    LinkCosts,
    NoEligibleSource,
    canonical_order,
    reordered,
    restored,
)
from .location import Location, Problem, locate
from .plan import TOLERANCE, UNSERVED, LinkPlan, best_alpha, make_plan, unreachable

# Relative gap below which branch and bound tells plans no more apart.
_RESOLUTION = 1e-7
SECONDS = Check(number(above=0).of, float, "float, above 0")
GAP = Check(number(least=0).of, float, "float, 0 or more", 0)
"""What a time limit and a gap must be."""
_OPTIMAL = "proven optimal: no plan has a lower objective at these costs"


def solve_exact(
    costs: LinkCosts,
    *,
    allow_unserved: float | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
) -> LinkPlan:
    r"""Best sources, links and weights, with a proof.

    Each target does best with one source, so the problem is facility location:
    with :math:`y_i = 1` for a source and :math:`c_{ij} = \phi_T T_{ij} + \phi_E K_{ij}`,

    .. math::

        \min \phi_S \sum_i S_i y_i + \sum_{ij} c_{ij} x_{ij}
        \quad\text{s.t.}\quad y_j + \sum_i x_{ij} = 1,\; x_{ij} \le y_i,\; y_i \in \{0, 1\}

    Local search finds a plan, Lagrange multipliers bound all others and leave out what no better
    plan can use, and branch and bound with multipliers decides the others.

    Parameters
    ----------
    costs
        The network.
    allow_unserved
        Cost of leaving a target without a model; ``None`` does not allow it. Such a target has
        ``psi`` 1, weights 0, and is listed in ``unserved``.
    time_limit
        Seconds after which the best plan so far is returned, with its bound.
    gap
        Relative gap that is good enough; 0 asks for the optimum.

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
        out of range.

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
    """
    price = UNSERVED.of(allow_unserved, "allow_unserved", "option-unserved")
    SECONDS.of(time_limit, "time_limit", "option-time-limit")
    GAP.of(gap, "gap", "option-gap")
    if price is None:
        _check_servable(costs)
    began = time.perf_counter()
    order = canonical_order(costs)
    listed = reordered(costs, order)
    problem = Problem.of(listed.phi[0] * listed.source, listed.links, listed.eligible, price)
    location = locate(problem, time_limit=time_limit, gap=gap)
    kinds = np.where(location.open, 0, 1).astype(np.int64)
    # Which sources are open decides everything but the weights.
    alpha = best_alpha(kinds, listed, allow_unserved=price)
    # The order of the devices that came in, so that the plan fits the caller's costs.
    psi, alpha = restored(kinds, alpha, order)
    return make_plan(
        psi,
        alpha,
        costs,
        method="exact",
        status=_status(location, gap, time_limit),
        lower_bound=location.bound,
        # The gap of a finished search is rounding.
        tolerance=max(gap, _RESOLUTION if location.finished else TOLERANCE),
        seconds=time.perf_counter() - began,
        details={"nodes": float(location.nodes)},
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


def _status(location: Location, gap: float, time_limit: float) -> str:
    if location.finished:
        if gap == 0:
            return _OPTIMAL
        return f"proven within a gap of {gap:g}: no plan at these costs is better by more"
    return (
        f"stopped at the time limit of {time_limit:g} s: the plan holds every constraint, and "
        "lower_bound tells how far from the best it can be. Raise time_limit, or accept a gap"
    )
