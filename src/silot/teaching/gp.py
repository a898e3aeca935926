r"""The solver of the ST-LF paper: successive geometric programming (Algorithm 2, appendix H).

The published problem, with variables between 0 and 1, becomes a sequence of geometric programs:
posynomials in denominators are replaced by monomials, (19) to (24), around the last point. It
finds a point that no small change improves, and which one depends on the start; rounding comes
after. :func:`silot.teaching.solve_exact` solves the same problem to proven optimality.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..errors import InputError, SolverError
from ._gp import FLOOR, Energy, Point, Relaxed, Start, Surrogate, starting_point
from .costs import Array, LinkCosts, Mixing, NoEligibleSource
from .evaluate import Kinds, best_alpha, make_plan, terms_of, unreachable
from .plan import LinkPlan

Rounding = Literal["best-response", "paper", "threshold"]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Where successive geometric programming ended, before any rounding.

    Attributes
    ----------
    psi, alpha
        Between 0 and 1; shapes (N,) and (N, N).
    history
        One entry an iteration: ``surrogate``, what the convex program minimised (it never
        rises), and ``objective``, the relaxed objective (11) at its point.
    objective
        The relaxed objective at ``psi`` and ``alpha``.
    start
        Where it started.
    converged
        Whether the surrogate changed by less than the tolerance.
    stopped
        In words: what ended it.
    """

    psi: Array
    alpha: Array
    history: tuple[dict[str, float], ...]
    objective: float
    start: Start
    converged: bool
    stopped: str

    @property
    def non_binariness(self) -> float:
        """Largest distance of a ``psi`` from 0 and 1."""
        return float(np.minimum(self.psi, 1.0 - self.psi).max())


def relax_gp(
    costs: LinkCosts,
    *,
    energy: Energy = "fraction",
    epsilon_energy: float = 1e-2,
    epsilon_sum: float = 1e-2,
    start: Start = "paper",
    start_psi: float = 0.02,
    seed: int = 0,
    max_iterations: int = 60,
    tolerance: float = 1e-4,
    missing_constraint: bool = True,
    time_limit: float | None = 60.0,
) -> Relaxation:
    r"""Run Algorithm 2 and return its point as it is, between 0 and 1.

    Parameters
    ----------
    costs
        Costs of the network.
    energy
        ``"fraction"``: a link pays :math:`K_{ij} \alpha / (\alpha + \epsilon_E)`, as in (14).
        ``"linear"``: :math:`K_{ij} \alpha`, as in effect in the published code, whose monomial for
        :math:`\alpha + \epsilon_E`, the constant of (14), multiplies: links cost no more than one.
    epsilon_energy
        That constant.
    epsilon_sum
        :math:`\epsilon_C` of (75) and (76): how far a target's weights may be from ``psi``.
    start
        ``"paper"``: eligible devices train, the others receive from all of them equally, or the
        symmetric point when every device is eligible. The paper asks for any feasible point and
        names none; this is one from which its figure 5 is nearly met. ``"symmetric"``: every
        eligible device as undecided as can be, weights equal; ``"random"``: a random feasible
        point.
    start_psi
        Where ``"paper"`` starts ``psi`` of devices that train. Where it ends depends on it: up
        to 0.03 devices mostly stay sources, from 0.05 on many become targets at a loss.
    seed
        Of the random start.
    max_iterations
        Convex programs at most.
    tolerance
        Relative change of the surrogate at which to stop.
    missing_constraint
        Whether :math:`\alpha_{ij} \le 1 - \psi_i` holds. The paper leaves it out, so that links
        from one target to another serve it at the price of their energy alone.
    time_limit
        Seconds; ``None`` for no limit.

    Raises
    ------
    InputError
        An option out of its range; a device that has to be a target and that no link reaches;
        negative costs without the missing constraint.
    NoEligibleSource
        No device may be a source.
    SolverError
        The first convex program failed.
    ExtraError
        cvxpy or clarabel is not installed.

    Notes
    -----
    Negative costs are shifted to 0, for training and receiving at a device alike: plans keep
    their order, relaxed points need not. The penalty of the excess in the sums is in units of
    the median cost (in the paper: 1, whatever the units), so that results do not depend on
    units. The hypothesis comparison inside :math:`T_{ij}` is a constant of ``costs``; the
    paper leaves it out of its simulations too.

    References
    ----------
    ST-LF (paper 003), Algorithm 2, eqs. 19-25 and appendix H.

    Examples
    --------
    >>> transfer = [[0, 1, 1], [2, 0, 2], [9, 9, 0]]
    >>> costs = LinkCosts([1, 2, 9], transfer, np.ones((3, 3)), eligible=[True, True, False])
    >>> relaxation = relax_gp(costs)
    >>> (relaxation.psi > 0.5).tolist(), relaxation.converged
    ([False, False, True], True)
    """
    share = f"it must be above {FLOOR:g} and below 1"
    starts = ", ".join(get_args(Start))
    for fits, fault, code in (
        (FLOOR < epsilon_energy < 1, f"epsilon_energy is {epsilon_energy}; {share}", "epsilon"),
        (FLOOR < epsilon_sum < 1, f"epsilon_sum is {epsilon_sum}; {share}", "epsilon"),
        (start in get_args(Start), f"start={start!r}; known: {starts}", "start"),
        (
            FLOOR <= start_psi <= 0.5,
            f"start_psi is {start_psi}; it must be from {FLOOR:g} to 0.5",
            "start-psi",
        ),
        (
            max_iterations >= 1,
            f"max_iterations is {max_iterations}; 1 or more is needed",
            "iterations",
        ),
        (tolerance >= 0, f"tolerance is {tolerance}; give 0 or more", "tolerance"),
        (
            time_limit is None or time_limit > 0,
            f"time_limit is {time_limit} s; give more than 0, or None",
            "time-limit",
        ),
    ):
        if not fits:
            raise InputError(f"{fault}.", code=f"option-{code}")
    if not costs.eligible.any():
        raise NoEligibleSource(
            "no device may be a source. Give labels to one.", code="no-eligible-source"
        )
    problem = Relaxed.of(
        costs,
        barred=missing_constraint,
        energy=energy,
        epsilon_energy=epsilon_energy,
        epsilon_sum=epsilon_sum,
    )
    if problem.shift > 0 and not missing_constraint:
        raise InputError(
            "a cost is negative: the problem as printed needs costs of 0 or more.",
            code="gp-negative",
        )
    if start == "paper" and costs.eligible.all():
        # Nobody has to receive: there, every device trains, and no small change improves that.
        start = "symmetric"
    descent = _Descent(
        problem, starting_point(problem, costs.names, start, seed=seed, start_psi=start_psi)
    )
    if len(problem.rows):
        descent.run(max_iterations=max_iterations, tolerance=tolerance, time_limit=time_limit)
    return Relaxation(
        psi=descent.point.psi,
        alpha=problem.matrix(descent.point.alpha),
        history=tuple(descent.history),
        objective=problem.objective(descent.point),
        start=start,
        converged=descent.converged,
        stopped=descent.stopped,
    )


class _Descent:
    """One convex program after another, from a point that gets better."""

    def __init__(self, problem: Relaxed, point: Point) -> None:
        self._problem = problem
        self.point = point
        self.history: list[dict[str, float]] = []
        self.converged, self.stopped = True, "no link is allowed, and every device trains"

    def run(self, *, max_iterations: int, tolerance: float, time_limit: float | None) -> None:
        """Iterate until the surrogate stays, or something ends it."""
        surrogate = Surrogate(self._problem)
        end = np.inf if time_limit is None else time.monotonic() + time_limit
        last = np.inf
        for _ in range(max_iterations):
            left = end - time.monotonic()
            try:
                value, point = surrogate.around(self.point, time_limit=left)
            except SolverError as failure:
                if failure.code == "gp-time":
                    return self._end(False, "stopped by the time limit: allow more")
                if not self.history:
                    raise
                return self._end(False, "stopped as a convex program failed: start elsewhere")
            change = last - value
            if self.history and change < 0:
                # In exact arithmetic it cannot rise: what is left to gain is below what the
                # solver resolves. Keeping the point keeps the surrogate from rising.
                if -change <= max(tolerance, 1e-6) * abs(last):
                    return self._end(True, "converged to the accuracy of the convex solver")
                return self._end(False, "stopped as the convex solver's error made it rise")
            self.point, last = point, value
            self.history.append(
                {
                    "surrogate": self._problem.unit * value - self._problem.shift,
                    "objective": self._problem.objective(self.point),
                }
            )
            if len(self.history) > 1 and change <= tolerance * abs(last):
                return self._end(True, f"converged after {len(self.history)} iterations")
        return self._end(False, f"stopped after {max_iterations} iterations: allow more")

    def _end(self, converged: bool, stopped: str) -> None:
        self.converged, self.stopped = converged, stopped


def solve_gp(
    costs: LinkCosts,
    *,
    mixing: Mixing = "none",
    rounding: Rounding = "best-response",
    epsilon_energy: float = 1e-2,
    **options: Any,
) -> LinkPlan:
    r"""Plan of successive geometric programming: Algorithm 2 of the paper, then rounded.

    ``psi`` below one half is a source. Without any, the eligible device with the smallest
    ``psi`` is one; where a target cannot be reached, one more. The weights of a relaxed point
    belong to its ``psi``, not to the rounded one: they are computed anew.

    Parameters
    ----------
    costs, epsilon_energy, **options
        As in :func:`relax_gp`. Without ``missing_constraint`` the relaxed point may hold phantom
        links; the plan never does.
    mixing
        ``"none"``: the published objective has no other.
    rounding
        ``"best-response"``: the best weights for the rounded ``psi``; ``"paper"``: the relaxed
        weights among sources and targets, those above ``epsilon_energy``, made to sum to 1;
        ``"threshold"``: not one half but the threshold for ``psi`` whose plan is cheapest, with
        the best weights.

    Returns
    -------
    LinkPlan
        With ``method="gp"``, a lower bound of ``-inf`` (nothing is proven), the history of
        :class:`Relaxation`, and in ``details``: ``relaxed_objective``, ``non_binariness`` (the
        largest distance of a relaxed ``psi`` from 0 and 1), ``iterations``, ``opened`` (sources
        added so that targets are served), ``phantom_links`` and ``phantom_weight`` (links of more
        weight than ``1 - psi`` of their source, and the part of all weight beyond it), and the
        objectives of all three roundings: ``best_response_objective``,
        ``paper_rounding_objective``, ``threshold_objective``.

    Raises
    ------
    InputError
        As in :func:`relax_gp`; another ``mixing``; an unknown ``rounding``.
    NoEligibleSource, SolverError, ExtraError
        As in :func:`relax_gp`.

    Examples
    --------
    >>> transfer = [[0, 1, 1], [2, 0, 2], [9, 9, 0]]
    >>> costs = LinkCosts([1, 2, 9], transfer, np.ones((3, 3)), eligible=[True, True, False])
    >>> plan = solve_gp(costs)
    >>> plan.links, round(plan.objective, 6), plan.optimal
    ((('0', '2', 1.0),), 9.0, False)
    """
    if mixing != "none":
        raise InputError(
            f"mixing={mixing!r}: gp solves the published objective only. Take the exact method.",
            code="gp-mixing",
        )
    if rounding not in get_args(Rounding):
        raise InputError(
            f"rounding={rounding!r}; known: {', '.join(get_args(Rounding))}.",
            code="option-rounding",
        )
    begun = time.perf_counter()
    relaxation = relax_gp(costs, epsilon_energy=epsilon_energy, **options)
    psi = relaxation.psi
    kinds = np.where(costs.eligible & (psi < 0.5), 0, 1).astype(np.int64)
    opened = _open(kinds, psi, costs)
    best, swept = best_alpha(kinds, costs), _swept(psi, costs)
    plans: dict[Rounding, tuple[Kinds, Array]] = {
        "best-response": (kinds, best),
        "paper": (kinds, _kept(relaxation.alpha, kinds, costs, epsilon_energy, best)),
        "threshold": (swept, best_alpha(swept, costs)),
    }
    objectives = {name: terms_of(*plan, costs).total for name, plan in plans.items()}
    beyond = relaxation.alpha - (1.0 - psi)[:, None]
    phantom = np.where(beyond > epsilon_energy, beyond, 0.0)
    total = float(relaxation.alpha.sum())
    return make_plan(
        *plans[rounding],
        costs,
        method="gp",
        status=_status(relaxation, rounding),
        seconds=time.perf_counter() - begun,
        history=relaxation.history,
        details={
            "relaxed_objective": relaxation.objective,
            "non_binariness": relaxation.non_binariness,
            "iterations": float(len(relaxation.history)),
            "opened": float(opened),
            "phantom_links": float((phantom > 0).sum()),
            "phantom_weight": float(phantom.sum()) / total if total > 0 else 0.0,
            "best_response_objective": objectives["best-response"],
            "paper_rounding_objective": objectives["paper"],
            "threshold_objective": objectives["threshold"],
        },
    )


def _kept(alpha: Array, kinds: Kinds, costs: LinkCosts, smallest: float, best: Array) -> Array:
    """Relaxed weights among sources and targets, made to sum to 1; the best where none is left."""
    kept = np.where(np.isfinite(costs.links), alpha * (alpha > smallest), 0.0)
    kept *= (kinds == 0)[:, None] & (kinds == 1)
    sums = kept.sum(axis=0)
    return np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), best)


def _open(kinds: Kinds, psi: Array, costs: LinkCosts) -> int:
    """Make sources of the devices nearest to it until every target can be served."""
    usable = np.isfinite(costs.links)
    before = int((kinds == 0).sum())
    if not before:
        kinds[int(np.argmin(np.where(costs.eligible, psi, np.inf)))] = 0
    while True:
        alone = (kinds == 1) & ~usable[kinds == 0].any(axis=0)
        if not alone.any():
            return int((kinds == 0).sum()) - before
        target = int(np.argmax(alone))
        could = usable[:, target] | (costs.eligible & (np.arange(costs.size) == target))
        could &= kinds == 1
        if not could.any():
            raise unreachable(costs.names[target])
        kinds[int(np.argmin(np.where(could, psi, np.inf)))] = 0


def _swept(psi: Array, costs: LinkCosts) -> Kinds:
    best, chosen = np.inf, np.empty(0, dtype=np.int64)
    for threshold in np.unique(psi[costs.eligible]):
        kinds = np.where(costs.eligible & (psi <= threshold), 0, 1).astype(np.int64)
        _open(kinds, psi, costs)
        total = terms_of(kinds, best_alpha(kinds, costs), costs).total
        if total < best:
            best, chosen = total, kinds
    return chosen


def _status(relaxation: Relaxation, rounding: Rounding) -> str:
    return (
        f"{relaxation.stopped}, from the {relaxation.start} start; {_ROUNDINGS[rounding]}. "
        "A local point: nothing is proven, another start or the exact method may do better"
    )


_ROUNDINGS: dict[Rounding, str] = {
    "best-response": "psi rounded at one half, weights computed anew",
    "paper": "psi rounded at one half, relaxed weights kept",
    "threshold": "psi rounded at its best threshold, weights computed anew",
}
