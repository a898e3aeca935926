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

from silot_transport._check import real

from ..errors import InputError
from ..options import (
    Check,
    Options,
    count,
    documented,
    none_or,
    number,
    option,
    seed,
    truth,
    word,
)
from ._gp import FLOOR, Descent, Energy, Relaxed, Start, starting_point
from .costs import Array, LinkCosts, Mixing, NoEligibleSource
from .evaluate import Kinds, Search, best_alpha, make_plan, terms_of, unreachable
from .plan import LinkPlan

Rounding = Literal["best-response", "paper", "threshold"]


def _share(value: Any, name: str, code: str) -> float:
    if not FLOOR < real(value, name, code) < 1:
        raise InputError(f"{name} is {value}; it must be above {FLOOR:g} and below 1.", code=code)
    return float(value)


def _start_psi(value: Any, name: str, code: str) -> float:
    if not FLOOR <= real(value, name, code) <= 0.5:
        raise InputError(f"{name} is {value}; it must be from {FLOOR:g} to 0.5.", code=code)
    return float(value)


_SHARE = Check(_share, float, f"float, above {FLOOR:g} and below 1")


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


class GeometricProgram(Options):
    """Algorithm 2 of the paper: the options of ``relax_gp`` and ``solve_gp``."""

    name = "gp"

    energy: Energy = option(
        '``"fraction"``: a link pays :math:`K_{ij} \\alpha / (\\alpha + \\epsilon_E)`, as in (14). '
        '``"linear"``: :math:`K_{ij} \\alpha`, as in effect in the published code, whose monomial '
        "for :math:`\\alpha + \\epsilon_E`, the constant of (14), multiplies: links cost no more "
        "than one.",
        word(*get_args(Energy)),
        default="fraction",
    )
    epsilon_energy: float = option("That constant.", _SHARE, default=1e-2, code="option-epsilon")
    epsilon_sum: float = option(
        ":math:`\\epsilon_C` of (75) and (76): how far a target's weights may be from ``psi``.",
        _SHARE,
        default=1e-2,
        code="option-epsilon",
    )
    start: Start = option(
        '``"paper"``: eligible devices train, the others receive from all of them equally, or the '
        "symmetric point when every device is eligible. The paper asks for any feasible point and "
        "names none; this is one from which its figure 5 is nearly met. "
        '``"symmetric"``: every eligible device as undecided as can be, weights equal; '
        '``"random"``: a random feasible point.',
        word(*get_args(Start)),
        default="paper",
    )
    start_psi: float = option(
        'Where ``"paper"`` starts ``psi`` of devices that train. Where it ends depends on it: up '
        "to 0.03 devices mostly stay sources, from 0.05 on many become targets at a loss.",
        Check(_start_psi, float, f"float, {FLOOR:g} to 0.5"),
        default=0.02,
    )
    seed: int = option("Of the random start.", seed(), default=0)
    max_iterations: int = option(
        "Convex programs at most.", count(), default=60, code="option-iterations"
    )
    tolerance: float = option(
        "Relative change of the surrogate at which to stop.", number(least=0), default=1e-4
    )
    missing_constraint: bool = option(
        "Whether :math:`\\alpha_{ij} \\le 1 - \\psi_i` holds. The paper leaves it out, so that "
        "links from one target to another serve it at the price of their energy alone.",
        truth(),
        default=True,
    )
    time_limit: float | None = option(
        "Seconds; ``None`` for no limit.", none_or(number(above=0)), default=60.0
    )
    rounding: Rounding = option(
        '``"best-response"``: the best weights for the rounded ``psi``; ``"paper"``: the relaxed '
        "weights among sources and targets, those above ``epsilon_energy``, made to sum to 1; "
        '``"threshold"``: not one half but the threshold for ``psi`` whose plan is cheapest, with '
        "the best weights. Nothing that ``relax_gp`` does.",
        word(*get_args(Rounding)),
        default="best-response",
    )

    def relax(self, costs: LinkCosts) -> Relaxation:
        """The relaxed point, as ``relax_gp``."""
        if not costs.eligible.any():
            raise NoEligibleSource(
                "no device may be a source. Give labels to one.", code="no-eligible-source"
            )
        problem = Relaxed.of(
            costs,
            barred=self.missing_constraint,
            energy=self.energy,
            epsilon_energy=self.epsilon_energy,
            epsilon_sum=self.epsilon_sum,
        )
        if problem.shift > 0 and not self.missing_constraint:
            raise InputError(
                "a cost is negative: the problem as printed needs costs of 0 or more.",
                code="gp-negative",
            )
        # Nobody has to receive: there, every device trains, and no small change improves that.
        undecided = self.start == "paper" and costs.eligible.all()
        start: Start = "symmetric" if undecided else self.start
        point = starting_point(
            problem, costs.names, start, seed=self.seed, start_psi=self.start_psi
        )
        descent = Descent(problem, point)
        if len(problem.rows):
            descent.run(
                max_iterations=self.max_iterations,
                tolerance=self.tolerance,
                time_limit=self.time_limit,
            )
        return Relaxation(
            psi=descent.point.psi,
            alpha=problem.matrix(descent.point.alpha),
            history=tuple(descent.history),
            objective=problem.objective(descent.point),
            start=start,
            converged=descent.converged,
            stopped=descent.stopped,
        )

    def solve(self, costs: LinkCosts) -> LinkPlan:
        """The rounded plan, as ``solve_gp``."""
        begun = time.perf_counter()
        relaxation = self.relax(costs)
        psi = relaxation.psi
        kinds = np.where(costs.eligible & (psi < 0.5), 0, 1).astype(np.int64)
        opened = _open(kinds, psi, costs)
        best, swept = best_alpha(kinds, costs), _swept(psi, costs)
        plans: dict[Rounding, tuple[Kinds, Array]] = {
            "best-response": (kinds, best),
            "paper": (kinds, _kept(relaxation.alpha, kinds, costs, self.epsilon_energy, best)),
            "threshold": (swept, best_alpha(swept, costs)),
        }
        objectives = {name: terms_of(*plan, costs).total for name, plan in plans.items()}
        beyond = relaxation.alpha - (1.0 - psi)[:, None]
        phantom = np.where(beyond > self.epsilon_energy, beyond, 0.0)
        total = float(relaxation.alpha.sum())
        return make_plan(
            *plans[self.rounding],
            costs,
            Search(
                method="gp",
                status=_status(relaxation, self.rounding),
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
            ),
        )


def relax_gp(costs: LinkCosts, **options: Any) -> Relaxation:
    r"""Run Algorithm 2 and return its point as it is, between 0 and 1.

    Parameters
    ----------
    costs : LinkCosts
        Costs of the network.

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
    return GeometricProgram(**options).relax(costs)


relax_gp.__doc__ = documented(GeometricProgram, relax_gp.__doc__)


def solve_gp(costs: LinkCosts, *, mixing: Mixing = "none", **options: Any) -> LinkPlan:
    r"""Plan of successive geometric programming: Algorithm 2 of the paper, then rounded.

    ``psi`` below one half is a source. Without any, the eligible device with the smallest
    ``psi`` is one; where a target cannot be reached, one more. The weights of a relaxed point
    belong to its ``psi``, not to the rounded one: they are computed anew.

    Parameters
    ----------
    costs : LinkCosts
        Costs of the network. Without ``missing_constraint`` the relaxed point may hold phantom
        links; the plan never does.
    mixing : {'none'}
        The published objective has no other.

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
        As in :func:`relax_gp`; another ``mixing``.
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
    return GeometricProgram(**options).solve(costs)


solve_gp.__doc__ = documented(GeometricProgram, solve_gp.__doc__)


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
