"""Links chosen class by class: every class of a target by a source that knows it."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ..errors import InputError, MismatchError, SolverError
from ..results.links import LinkPlan, LinkTerms
from ..transport._check import real
from ._errors import NoEligibleSource
from .costs import Array, LinkCosts

Flags = npt.NDArray[np.bool_]
# Classes a target all but lacks need no source.
_NO_SHARE = 1e-9


def solve_coverage(
    costs: LinkCosts,
    shares: npt.ArrayLike,
    errors: npt.ArrayLike,
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
        Energy, source costs, scales and eligibility; ``transfer`` only bars links (``inf``).
    shares
        Shape (N, C): class proportions :math:`\pi` of every device, rows summing to 1.
    errors
        Shape (N, N, C): expected error of source i on class c of device j, in [0, 1].
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
    InputError, MismatchError
        Arrays that do not fit, a target nobody may reach.
    SolverError
        No plan was found within the time.

    Examples
    --------
    >>> energy = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> costs = LinkCosts([0, 0, 1], energy, energy, phi=(1, 1, 0.1), eligible=[True, True, False])
    >>> errors = np.ones((3, 3, 2))
    >>> errors[0, :, 0] = errors[1, :, 1] = 0.0
    >>> plan = solve_coverage(costs, [[1, 0], [0, 1], [0.5, 0.5]], errors)
    >>> plan.links
    (('0', '2', 0.5), ('1', '2', 0.5))
    """
    began = time.perf_counter()
    wanted, expected = _checked(shares, errors, costs.size)
    if budget is not None and not real(budget, "budget", "option-budget") > 0:
        raise InputError(f"budget is {budget}; a share above 0 is needed.", code="option-budget")
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
    program = _Program(costs, wanted, expected, allowed, budget)
    found = program.solve(time_limit, gap)
    if found is None:
        raise SolverError("no plan was found within the time. Raise time_limit.", code="links-time")
    sources, links, bound = found
    return _plan(costs, wanted, expected, sources, links, bound, gap, began)


def coverage_terms(
    costs: LinkCosts, shares: Array, errors: Array, sources: Flags, links: Flags
) -> LinkTerms:
    """The objective of ``solve_coverage``, from who is a source and which links there are."""
    source, transfer, energy = costs.phi
    targets = np.flatnonzero(~sources)
    best = np.where(links[:, targets, None], errors[:, targets], np.inf).min(axis=0)
    return LinkTerms(
        source=source * float(costs.source[sources].sum()),
        transfer=transfer * float((shares[targets] * best).sum()) if len(targets) else 0.0,
        energy=energy * float(costs.energy[links].sum()),
    )


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
            worth[reached] = np.maximum(worth[reached], cheapest[reached])
            self.constraints.append(
                LinearConstraint(
                    _table(
                        np.zeros(pairs + n, dtype=np.int64),
                        np.concatenate([first + links, np.arange(n)]),
                        np.concatenate([power, worth]).astype(np.float64),
                        (1, width),
                    ),
                    -np.inf,
                    float(worth.sum()),
                )
            )
        upper = np.ones(width)
        upper[:n] = costs.eligible
        lower = np.zeros(width)
        # A device nobody may reach has to be a source.
        lower[:n] = ~allowed.any(axis=0)
        self.bounds = Bounds(lower, upper)
        # Who covers what follows from the links: it need not be whole.
        self.whole = (np.arange(width) < at).astype(np.int64)

    def solve(self, time_limit: float, gap: float) -> tuple[Flags, Flags, float] | None:
        found = milp(
            self.objective,
            constraints=self.constraints,
            bounds=self.bounds,
            integrality=self.whole,
            options={"time_limit": time_limit, "mip_rel_gap": gap},
        )
        if found.x is None:
            return None
        n = self.costs.size
        sources = np.asarray(found.x[:n] > 0.5)
        links = np.zeros((n, n), dtype=bool)
        links[self.senders, self.receivers] = found.x[n : n + len(self.senders)] > 0.5
        links[:, sources] = False
        bound = found.mip_dual_bound
        return sources, links, -np.inf if bound is None else float(bound)


def _plan(
    costs: LinkCosts,
    shares: Array,
    errors: Array,
    sources: Flags,
    links: Flags,
    bound: float,
    gap: float,
    began: float,
) -> LinkPlan:
    terms = coverage_terms(costs, shares, errors, sources, links)
    total = terms.total
    left = max(0.0, total - bound) / max(1.0, abs(total))
    optimal = left <= max(gap, 1e-6)
    counts = np.maximum(links.sum(axis=0), 1)
    return LinkPlan(
        names=costs.names,
        psi=np.where(sources, 0, 1).astype(np.int64),
        alpha=links / counts,
        objective=total,
        terms=terms,
        lower_bound=min(bound, total),
        gap=left,
        status="proven optimal"
        if optimal
        else f"stopped by the time limit: the best plan may be {left:.2%} better. Raise time_limit",
        optimal=optimal,
        seconds=time.perf_counter() - began,
        method="coverage",
        mixing="coverage",
        energy=float(costs.energy[links].sum()),
    )


def _checked(shares: npt.ArrayLike, errors: npt.ArrayLike, size: int) -> tuple[Array, Array]:
    wanted = np.asarray(shares, dtype=np.float64)
    expected = np.asarray(errors, dtype=np.float64)
    classes = wanted.shape[1] if wanted.ndim == 2 else 0
    if wanted.shape != (size, classes) or expected.shape != (size, size, classes) or not classes:
        raise MismatchError(
            f"shares have shape {wanted.shape} and errors {expected.shape}; ({size}, C) and "
            f"({size}, {size}, C) are needed.",
            code="coverage-shape",
        )
    sound = np.isfinite(wanted).all() and np.isfinite(expected).all()
    if not sound or (wanted < 0).any() or (expected < 0).any() or (expected > 1).any():
        raise InputError(
            "shares or errors of classes are not finite, negative, or above 1.",
            code="coverage-range",
        )
    if np.abs(wanted.sum(axis=1) - 1.0).max() > 1e-6:
        raise InputError("class shares of a device do not sum to 1.", code="coverage-range")
    return wanted, expected


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
