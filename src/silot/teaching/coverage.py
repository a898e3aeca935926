"""Links chosen class by class: every class of a target by a source that knows it."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ..errors import InputError, SolverError
from ..options import none_or, number
from .costs import Array, Flags, LinkCosts, NoEligibleSource
from .mixing import COVERAGE
from .plan import LinkPlan, make_plan, terms_of

# Classes a target all but lacks need no source.
_NO_SHARE = 1e-9


def solve_coverage(
    costs: LinkCosts,
    *,
    budget: float | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
) -> LinkPlan:
    r"""Sources, targets and links so that every class of a target has a source that knows it.

    .. math::
        \min \; \phi_S \sum_i y_i S_i
        + \phi_T \sum_j (1 - y_j) \sum_c \pi_{jc} \min_{i: z_{ij} = 1} e_{ijc}
        + \phi_E \sum_{ij} K_{ij} z_{ij}

    over sources :math:`y` and links :math:`z_{ij} \le y_i`, at least one for each target and
    none for a source; with a budget :math:`B`, also
    :math:`\sum_{ij} K_{ij} z_{ij} \le \sum_{j: y_j = 0} \max(B \sum_i K_{ij}, \min_i K_{ij})`
    over eligible i: one link a target is always allowed.
    That is facility location with a client for every class of a target, solved to proven
    optimality as a mixed-integer linear program (HiGHS).

    Unlike the paper's objective it rewards several sources at one target: one that knows the
    classes the others do not. The weights of a target's links are equal.

    Parameters
    ----------
    costs
        The network, with class proportions :math:`\pi` (``shares``) and expected errors of
        source i on class c of device j (``class_errors``); ``transfer`` only bars links (``inf``).
    budget
        Largest share of the energy of all links that may be used; ``None`` for no limit.
    time_limit
        Seconds.
    gap
        Relative gap that is good enough.

    Returns
    -------
    LinkPlan
        ``mixing`` is ``"coverage"``; the term ``transfer`` is that of the objective above.

    Raises
    ------
    NoEligibleSource
        No device may be a source.
    InputError
        Costs without shares and errors of classes, a target nobody may reach.
    SolverError
        No plan was found within the time.

    Examples
    --------
    >>> energy = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> errors = np.ones((3, 3, 2))
    >>> errors[0, :, 0] = errors[1, :, 1] = 0.0
    >>> costs = LinkCosts(
    ...     [0, 0, 1], energy, energy, phi=(1, 1, 0.1), eligible=[True, True, False],
    ...     shares=[[1, 0], [0, 1], [0.5, 0.5]], class_errors=errors,
    ... )
    >>> plan = solve_coverage(costs)
    >>> plan.links
    (('0', '2', 0.5), ('1', '2', 0.5))
    """
    began = time.perf_counter()
    shares, errors = COVERAGE.data(costs)
    none_or(number(above=0)).of(budget, "budget", "option-budget")
    if not costs.eligible.any():
        raise NoEligibleSource("no device may be a source.", code="no-eligible-source")
    allowed = np.isfinite(costs.links)
    alone = ~allowed.any(axis=0) & ~costs.eligible
    if alone.any():
        name = costs.names[int(np.argmax(alone))]
        raise InputError(
            f"device {name!r} may not be a source and no source may reach it.",
            code="target-unreachable",
        )
    program = _Program(costs, shares, errors, allowed, budget)
    solution = program.solve(time_limit, gap)
    if solution is None:
        raise SolverError("no plan was found within the time. Raise time_limit.", code="links-time")
    return _plan(costs, *solution, gap, began)


class _Program:
    """The program as sparse constraints; variables are sources, links, and who covers what."""

    def __init__(
        self, costs: LinkCosts, shares: Array, errors: Array, allowed: Flags, budget: float | None
    ) -> None:
        n = costs.size
        self.costs = costs
        self.senders, self.receivers = np.nonzero(allowed)
        pairs = len(self.senders)
        needs = shares > _NO_SHARE
        pair, kinds = np.nonzero(needs[self.receivers])
        covers = len(pair)
        i, j = self.senders[pair], self.receivers[pair]
        source, transfer, energy = costs.phi
        power = costs.energy[self.senders, self.receivers]
        self.objective = np.concatenate(
            [
                source * costs.source,
                energy * power,
                transfer * shares[j, kinds] * errors[i, j, kinds],
            ]
        )
        first, at = n, n + pairs
        width = n + pairs + covers
        links, rows = np.arange(pairs), np.arange(covers)
        client = np.unique(j * shares.shape[1] + kinds, return_inverse=True)[1].ravel()
        clients = int(client.max()) + 1 if covers else 0
        owner = np.zeros(clients, dtype=np.int64)
        owner[client] = j
        self.constraints = [
            # Every class of a target is covered once, and none of a source.
            LinearConstraint(
                _table(
                    np.concatenate([client, np.arange(clients)]),
                    np.concatenate([at + rows, owner]),
                    np.ones(covers + clients),
                    (clients, width),
                ),
                1.0,
                1.0,
            ),
            LinearConstraint(_below(rows, at + rows, first + pair, width), -np.inf, 0.0),
            LinearConstraint(_below(links, first + links, self.senders, width), -np.inf, 0.0),
        ]
        if budget is not None:
            cheapest = np.full(n, np.inf)
            np.minimum.at(cheapest, self.receivers, power)
            reached = np.isfinite(cheapest)
            worth = budget * np.bincount(self.receivers, power, minlength=n)
            # One link a target is always allowed, or a small budget would leave no plan at all.
            worth[reached] = np.maximum(worth[reached], cheapest[reached])
            unit = float(power.max(initial=0.0)) or 1.0
            self.constraints.append(
                LinearConstraint(
                    _table(
                        np.zeros(pairs + n, dtype=np.int64),
                        np.concatenate([first + links, np.arange(n)]),
                        np.concatenate([power, worth]).astype(np.float64) / unit,
                        (1, width),
                    ),
                    -np.inf,
                    float(worth.sum()) / unit,
                )
            )
        upper = np.ones(width)
        upper[:n] = costs.eligible
        lower = np.zeros(width)
        # A device nobody may reach has to be a source.
        lower[:n] = ~allowed.any(axis=0)
        self.bounds = Bounds(lower, upper)
        # Who covers what follows from the links: it need not be an integer.
        self.integrality = (np.arange(width) < at).astype(np.int64)

    def solve(self, time_limit: float, gap: float) -> tuple[Flags, Flags, float] | None:
        # The solver's tolerances are absolute.
        scale = float(np.abs(self.objective).max(initial=0.0)) or 1.0
        solution = milp(
            self.objective / scale,
            constraints=self.constraints,
            bounds=self.bounds,
            integrality=self.integrality,
            options={"time_limit": time_limit, "mip_rel_gap": gap},
        )
        if solution.x is None:
            return None
        n = self.costs.size
        sources = np.asarray(solution.x[:n] > 0.5)
        links = np.zeros((n, n), dtype=bool)
        links[self.senders, self.receivers] = solution.x[n : n + len(self.senders)] > 0.5
        # Links to a source cost nothing where energy is free, and have no use.
        links[:, sources] = False
        bound = solution.mip_dual_bound
        return sources, self._needed(links), -np.inf if bound is None else scale * float(bound)

    def _needed(self, links: Flags) -> Flags:
        """Links that are best for a class of their target: a free one that is not has no use."""
        shares, errors = COVERAGE.data(self.costs)
        kept = np.zeros_like(links)
        for j in np.flatnonzero(links.any(axis=0)):
            senders = np.flatnonzero(links[:, j])
            wanted = shares[j] > _NO_SHARE
            # Of equally good sources the one that takes least energy, as the objective would.
            ranked = senders[np.argsort(self.costs.energy[senders, j], kind="stable")]
            kept[ranked[errors[ranked, j][:, wanted].argmin(axis=0)], j] = True
        return kept


def _plan(
    costs: LinkCosts, sources: Flags, links: Flags, bound: float, gap: float, began: float
) -> LinkPlan:
    psi = np.where(sources, 0, 1).astype(np.int64)
    alpha = links / np.maximum(links.sum(axis=0), 1)
    total = terms_of(psi, alpha, costs, mixing="coverage").total
    # HiGHS proves no more than its own tolerance of 1e-6.
    open_gap, tolerance = max(0.0, total - bound) / max(1.0, abs(total)), max(gap, 1e-6)
    status = "proven optimal: no plan has a lower objective at these costs"
    if open_gap > tolerance:
        status = (
            f"stopped by the time limit: the best plan may be {open_gap:.2%} better. Raise "
            "time_limit"
        )
    return make_plan(
        psi,
        alpha,
        costs,
        method="coverage",
        status=status,
        lower_bound=bound,
        tolerance=tolerance,
        seconds=time.perf_counter() - began,
        mixing="coverage",
    )


def _table(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    values: Array,
    shape: tuple[int, int],
) -> coo_array:
    return coo_array((values, (rows, columns)), shape=shape)


def _below(
    rows: npt.NDArray[np.int64],
    lower: npt.NDArray[np.int64],
    upper: npt.NDArray[np.int64],
    width: int,
) -> coo_array:
    """Row by row: one variable is at most another."""
    count = len(rows)
    return _table(
        np.concatenate([rows, rows]),
        np.concatenate([lower, upper]),
        np.concatenate([np.ones(count), -np.ones(count)]),
        (count, width),
    )
