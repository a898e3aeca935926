"""The network problem solved to proven optimality."""

from __future__ import annotations

import time

import numpy as np

from ..errors import InputError
from ..results.links import LinkPlan
from ..transport._check import real
from ._errors import NoEligibleSource
from ._location import Location, Problem, locate
from ._mix import check_mixing
from ._order import canonical_order, reordered, restored
from .costs import LinkCosts, Mixing
from .evaluate import TOLERANCE, best_alpha, checked_unserved, make_plan, unreachable

# Relative gap below which the solver tells plans no more apart.
_RESOLUTION = 1e-7


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

    Parameters
    ----------
    costs
        The network.
    mixing
        What mixing sources adds; other than ``"none"`` as ``solve_mixing``.
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
    check_options(costs, mixing, allow_unserved, time_limit, gap)
    if mixing != "none":
        from .mixing import solve_mixing

        return solve_mixing(
            costs, mixing=mixing, allow_unserved=allow_unserved, time_limit=time_limit, gap=gap
        )
    began = time.perf_counter()
    price = checked_unserved(allow_unserved)
    order = canonical_order(costs)
    listed = reordered(costs, order)
    problem = Problem.of(listed.phi[0] * listed.source, listed.links, listed.eligible, price)
    found = locate(problem, time_limit=time_limit, gap=gap)
    psi = np.where(found.open, 0, 1).astype(np.int64)
    psi, alpha = restored(psi, best_alpha(psi, listed, allow_unserved=price), order)
    return make_plan(
        psi,
        alpha,
        costs,
        method="exact",
        status=_status(found, gap, time_limit),
        allow_unserved=price,
        lower_bound=found.bound,
        # What a finished search leaves is rounding of its solver.
        tolerance=max(gap, _RESOLUTION if found.finished else TOLERANCE),
        seconds=time.perf_counter() - began,
        details={"nodes": float(found.nodes)},
    )


def check_options(
    costs: LinkCosts,
    mixing: Mixing,
    allow_unserved: float | None,
    time_limit: float,
    gap: float,
) -> None:
    """Refuse options out of range, and networks in which nobody can teach somebody."""
    check_mixing(mixing, costs)
    price = checked_unserved(allow_unserved)
    if not real(time_limit, "time_limit", "option-time-limit") > 0:
        raise InputError(
            f"time_limit is {time_limit}; give seconds above 0.", code="option-time-limit"
        )
    if real(gap, "gap", "option-gap") < 0:
        raise InputError(f"gap is {gap}; give 0 or more.", code="option-gap")
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


def _status(found: Location, gap: float, time_limit: float) -> str:
    if found.finished:
        if gap == 0:
            return "proven optimal: no plan has a lower objective at these costs"
        return f"proven within a gap of {gap:g}: no plan at these costs is better by more"
    return (
        f"stopped at the time limit of {time_limit:g} s: the plan holds every constraint, and "
        "lower_bound tells how far from the best it can be. Raise time_limit, or accept a gap"
    )
