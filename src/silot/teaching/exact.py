r"""The network problem solved to proven optimality, as facility location.

Which places to open when every device is served or is open itself: minimise
:math:`\sum_i f_i y_i + \sum_{j : y_j = 0} \min(u, \min_{i : y_i = 1} c_{ij})`. Numbers are
shifted first so that every :math:`c_{ij} \ge 0` and serving an open place is free: this is the
uncapacitated facility location problem, where opening one more place never harms service.

Local search finds a plan, and branch and bound of HiGHS, in scipy, a better one or a proof. Where
costs of links are random and opening is dear, the linear relaxation is far from the optimum, and a
proof for more than some hundred devices takes minutes. ``links`` is the entry to this solver and
to those of the paper.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ..distances.shared_options import seed_option
from ..errors import InputError
from ..options import Check, Options, none_or, number, option, taking, word
from .costs import (
    Array,
    Flags,
    LinkCosts,
    NoEligibleSource,
    canonical_order,
    reordered,
    restored,
)
from .gp import GeometricProgram
from .network import Network
from .plan import TOLERANCE, UNSERVED, LinkPlan, best_alpha, make_plan, unreachable
from .published import PublishedSolver

if TYPE_CHECKING:
    from ..keywords import LinkKeywords

# Relative differences of costs below this one are rounding.
_ROUNDING = 1e-12
# What scipy calls a proof.
_SOLVED = 0
# Relative gap below which branch and bound tells plans no more apart.
_RESOLUTION = 1e-6
SECONDS = Check(number(above=0).of, float, "float, above 0")
GAP = Check(number(least=0).of, float, "float, 0 or more", 0)
"""What a time limit and a gap must be."""


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

    Local search finds a plan, and branch and bound of HiGHS a better one or a proof, to a relative
    gap of 1e-6.

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
    training costs one to two times what links differ by: above some 100 devices the time limit
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
    status = "proven optimal: no plan has a lower objective at these costs"
    if not location.finished:
        status = (
            f"stopped at the time limit of {time_limit:g} s: the plan satisfies every constraint, "
            "and lower_bound limits how far it is from the best. Raise time_limit, or accept a gap"
        )
    elif gap > 0:
        status = (
            f"proven within a gap of {gap:g}: no plan at these costs is better by more than that"
        )
    return make_plan(
        psi,
        alpha,
        costs,
        method="exact",
        status=status,
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
            "no device may be a source. Give labels to one, or pass allow_unserved.",
            code="no-eligible-source",
        )
    alone = ~costs.eligible & np.isinf(costs.links).all(axis=0)
    if alone.any():
        raise unreachable(costs.names[int(np.argmax(alone))])


@dataclass(frozen=True)
class Problem:
    """Costs of opening places, the rows of ``service``, and of serving clients, its columns."""

    opening: Array  # inf where a place cannot be opened
    service: Array  # inf where a client cannot be served
    outside: Array  # cost of a client that no place serves, inf where it must be served
    constant: float = 0.0  # added to the cost of every set of places

    @classmethod
    def of(cls, source: Array, links: Array, eligible: Flags, unserved: float | None) -> Problem:
        """Shift costs of training and links (``inf`` where barred) so that none is negative."""
        outside = np.full(len(source), np.inf if unserved is None else unserved)
        least = np.minimum(links.min(axis=0), outside)
        shift = np.where(np.isfinite(least), least, 0.0)
        service = links - shift
        np.fill_diagonal(service, 0.0)
        return cls(
            opening=np.where(eligible, source - shift, np.inf),
            service=np.where(eligible[:, None], service, np.inf),
            outside=outside - shift,
            constant=float(shift.sum()),
        )

    def reach(self, places: Flags) -> Array:
        """Compute the least cost of serving each client from some open places, or not at all."""
        return np.minimum(self.service[places].min(axis=0, initial=np.inf), self.outside)

    def value(self, places: Flags) -> float:
        """Compute the objective of a set of open places, inf where it serves nobody."""
        return float(self.opening[places].sum() + self.reach(places).sum()) + self.constant


def improve(problem: Problem, start: Flags) -> Flags:
    """Open, close or exchange one place as long as the best such move pays."""
    opening, service, outside = problem.opening, problem.service, problem.outside
    n = len(opening)
    possible = np.isfinite(opening)
    finite = [part[np.isfinite(part)] for part in (opening, service, outside)]
    scale = 1.0 + sum(float(np.abs(part).max(initial=0.0)) for part in finite)
    # Serving somebody who is not served yet pays more than anything else.
    huge = 10.0 * n * scale
    f, c = np.where(possible, opening, huge), np.minimum(service, huge)
    places, last = start.copy(), np.inf
    for _ in range(20 * n):
        first, second, nearest = _two_nearest(c, np.minimum(outside, huge), places)
        value = float(f[places].sum() + first.sum())
        if not value < last:  # rounding alone must not keep this going
            break
        last = value
        opened = np.where(possible & ~places, f + np.minimum(0.0, c - first).sum(axis=1), np.inf)
        members = (nearest[:, None] == np.arange(n)).astype(np.float64)
        closed = np.where(places, (second - first) @ members - f, np.inf)
        # What j pays more when i opens and its own place closes, than when i opens alone.
        extra = np.minimum(c, second) - np.minimum(c, first)
        exchanged = opened[:, None] - np.where(places, f, -np.inf) + extra @ members
        best = min(opened.min(), closed.min(), exchanged.min())
        if best >= -_ROUNDING * scale:
            break
        if closed.min() == best:
            places[np.argmin(closed)] = False
        elif opened.min() == best:
            places[np.argmin(opened)] = True
        else:
            into, out = np.unravel_index(np.argmin(exchanged), exchanged.shape)
            places[into], places[out] = True, False
    return places


def _two_nearest(c: Array, outside: Array, places: Flags) -> tuple[Array, Array, Array]:
    """Return the cheapest and second cheapest way to serve everybody, and the cheapest's place."""
    rows = np.flatnonzero(places)
    stacked = np.vstack([outside, c[rows]])
    columns = np.arange(len(outside))
    best = np.argmin(stacked, axis=0)
    first = stacked[best, columns]
    stacked[best, columns] = np.inf
    second = stacked.min(axis=0) if len(rows) else outside
    return first, second, np.append(-1, rows)[best]


@dataclass(frozen=True)
class Location:
    """A set of open places, and what is proven about it."""

    open: Flags
    bound: float
    finished: bool
    nodes: int


def locate(problem: Problem, *, time_limit: float, gap: float) -> Location:
    """Open places at least total cost, with a lower bound on the cost of any set."""
    places = [improve(problem, problem.opening <= 0)]
    result = _solve(problem, time_limit, gap)
    if result.x is not None:
        places.append(improve(problem, result.x[: len(problem.opening)] > 0.5))
    best = min(places, key=problem.value)
    # What is cut off at once: no client costs less than 0, nor the places less than those that pay.
    least = float(np.minimum(problem.opening, 0.0).sum())
    if result.mip_dual_bound is not None:
        least = max(least, result.mip_dual_bound)
    bound = min(least + problem.constant, problem.value(best))
    return Location(best, bound, result.status == _SOLVED, int(result.mip_node_count or 0))


def _solve(problem: Problem, time_limit: float, gap: float) -> Any:
    """Solve the integer program: places y, links x below y, and u for who is not served.

    A place that is open is its own client at no cost.
    """
    opening, service, outside = problem.opening, problem.service, problem.outside
    n = len(opening)
    possible = np.isfinite(opening)
    useful = np.isfinite(service) & possible[:, None] & (service < outside)
    np.fill_diagonal(useful, False)
    sources, clients = np.nonzero(useful)
    spare = np.flatnonzero(np.isfinite(outside))
    links, size = len(sources), n + len(sources) + len(spare)
    costs = np.concatenate([
        np.where(possible, opening, 0.0), service[sources, clients], outside[spare]
    ])  # fmt: skip
    # Numbers of HiGHS should be near 1.
    scale = float(np.abs(costs).max()) or 1.0
    served = coo_array(
        (np.ones(size), (np.concatenate([np.arange(n), clients, spare]), np.arange(size))),
        shape=(n, size),
    )
    open_only = coo_array(
        (
            np.repeat([1.0, -1.0], links),
            (np.tile(np.arange(links), 2), np.concatenate([n + np.arange(links), sources])),
        ),
        shape=(links, size),
    )
    result = milp(
        costs / scale,
        constraints=[
            LinearConstraint(served.tocsr(), 1.0, np.inf),
            *([LinearConstraint(open_only.tocsr(), -np.inf, 0.0)] if links else []),
        ],
        integrality=np.concatenate([np.ones(n), np.zeros(links + len(spare))]),
        bounds=Bounds(0.0, np.concatenate([possible.astype(float), np.ones(size - n)])),
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )
    if result.mip_dual_bound is not None:
        result.mip_dual_bound *= scale
    return result


Method = Literal["exact", "gp", "st-lf"]

# Options of the exact method alone.
_EXACT = {
    "allow_unserved": "serves every target",
    "gap": "proves no bound, so no gap can end it",
}


class Links(Options):
    """How a plan is chosen: by which solver, and what it may do."""

    name = "links"

    method: Method = option(
        '``"exact"``, or ``"gp"``: the paper\'s successive geometric programming (extra '
        '``silot[gp]``) on the problem that it prints, which proves nothing. ``"st-lf"``: as the '
        "published runs were computed (``PublishedSolver``).",
        word(*get_args(Method)),
        default="exact",
        brief="The proven optimum (exact), the paper's solver (gp), or everything as "
        "published (st-lf).",
    )
    allow_unserved: float | None = option(
        "Cost of leaving a target without a model; ``None`` does not allow it.",
        UNSERVED,
        default=None,
        code="option-unserved",
        brief="Allow targets without a model, at this cost each.",
    )
    time_limit: float = option(
        "Seconds.", none_or(SECONDS), default=60.0, brief="Most seconds of the solver."
    )
    gap: float = option(
        "Relative gap that is good enough.",
        GAP,
        default=0.0,
        brief="Relative gap to the bound that is good enough.",
    )
    seed: int = seed_option(
        'Seed of a random start with ``"gp"`` and ``"st-lf"``; the exact methods use no randomness.'
    )

    def solve(self, costs: LinkCosts, **options: Any) -> LinkPlan:
        """The plan of a network; ``options`` are those of ``GeometricProgram``."""
        if self.method == "exact":
            if options:
                raise InputError(
                    f"method='exact' has no option {sorted(options)[0]!r}.", code="option-unknown"
                )
            return solve_exact(costs, **self.values("allow_unserved", "time_limit", "gap"))
        for name, why in _EXACT.items():
            if getattr(self, name):
                raise InputError(
                    f"method={self.method!r} {why}. Use method='exact', or leave {name} out.",
                    code="gp-objective",
                )
        if self.method == "st-lf":
            return PublishedSolver.of(None, options).solve(costs)
        return GeometricProgram(**{**self.values("seed", "time_limit"), **options}).solve(costs)


@taking(Links, also=(GeometricProgram, PublishedSolver))
def links(costs: LinkCosts | Network, **options: Unpack[LinkKeywords]) -> LinkPlan:
    """Choose which devices train, which receive models, and over which links and weights.

    With ``method="gp"`` options of ``GeometricProgram`` may be given too, with ``"st-lf"`` those of
    ``PublishedSolver``.

    Parameters
    ----------
    costs : LinkCosts or Network
        Costs of a network, or a network whose costs are computed with its own options.

    Raises
    ------
    NoEligibleSource
        No device may be a source.
    InputError
        Options out of range, a target that nobody can reach.
    ExtraError
        ``method="gp"`` or ``"st-lf"`` without the extra.

    Examples
    --------
    >>> plan = links(LinkCosts([1, 9], [[0, 2], [2, 0]], [[0, 3], [3, 0]], phi=(1, 2, 1)))
    >>> plan.sources, plan.objective
    (('0',), 8.0)
    """
    network = costs.costs() if isinstance(costs, Network) else costs
    if not isinstance(network, LinkCosts):
        raise InputError(
            f"costs are a {type(costs).__name__}; give LinkCosts(...) or a Network.",
            code="costs-type",
        )
    own, of_solver = Links.split(options)
    return own.solve(network, **of_solver)
