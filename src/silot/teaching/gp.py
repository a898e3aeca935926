r"""The solver of the ST-LF paper: successive geometric programming (Algorithm 2, appendix H).

The published problem, with variables between 0 and 1, becomes a sequence of geometric programs:
posynomials in denominators are replaced by monomials, (19) to (24), around the last point. It
finds a point that no small change improves, and which one depends on the start; rounding comes
after. :func:`silot.teaching.solve_exact` solves the same problem to proven optimality.

Variables of the convex programs are logarithms. Auxiliary variables are divided by the costs they
stand for: ``source`` is :math:`\chi^S_i / S_i`, ``transfer`` is :math:`\chi^T_{ij} / T_{ij}`,
both in (0, 1], so that no cost enters a constraint; ``excess`` is :math:`\chi^C_j`, one for each
target, since the paper's :math:`N` copies of it carry the same two constraints.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from silot_transport._check import real

from ..distances.shared_options import switch
from ..errors import ExtraError, InputError, SolverError
from ..options import Check, Options, count, none_or, number, option, seed, word
from .costs import Array, Flags, Indices, LinkCosts, NoEligibleSource
from .plan import Kinds, LinkPlan, best_alpha, make_plan, terms_of, unreachable

Start = Literal["paper", "symmetric", "random"]

FLOOR = 1e-6
"""Smallest value of a variable; logarithms need one."""
# alpha + psi <= 1 + SLACK must leave room for alpha at its floor beside psi = 1.
SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The published problem with variables between 0 and 1, in units in which costs are near 1.

    Costs are multiplied by their scales, shifted, and divided by ``unit``: ``unit * cost - shift``
    is a cost in the units of the network.
    """

    rows: Indices  # source and
    columns: Indices  # target of each link that has a variable
    source: Array
    transfer: Array
    energy: Array
    eligible: Flags
    barred: bool  # whether ``alpha + psi <= 1`` holds on every link
    epsilon_energy: float  # the constant of (14)
    epsilon_sum: float  # the constant of (75)
    unit: float
    shift: float

    @classmethod
    def of(
        cls, costs: LinkCosts, *, barred: bool, epsilon_energy: float, epsilon_sum: float
    ) -> Relaxed:
        """Build the problem; links that cannot be used get no variable."""
        usable = np.isfinite(costs.transfer) & np.isfinite(costs.energy)
        np.fill_diagonal(usable, False)
        if barred:
            usable &= costs.eligible[:, None]
        rows, columns = np.nonzero(usable)
        by_source, by_transfer, by_energy = costs.phi
        source = by_source * np.where(costs.eligible, costs.source, 0.0)
        transfer = by_transfer * costs.transfer[rows, columns]
        power = by_energy * costs.energy[rows, columns]
        # Every device pays exactly once, for training or for receiving (weights sum to 1): a
        # constant added to both raises each plan alike. Posynomials need costs that are not
        # negative.
        least = np.where(costs.eligible, source, np.inf)
        np.minimum.at(least, columns, transfer)
        shift = np.where(np.isfinite(least), np.maximum(0.0, -least), 0.0)
        source = np.where(costs.eligible, source + shift, 0.0)
        transfer = transfer + shift[columns]
        every = np.concatenate([source, transfer, power])
        unit = float(np.median(every[every > 0])) if (every > 0).any() else 1.0
        return cls(
            rows=rows,
            columns=columns,
            source=source / unit,
            transfer=transfer / unit,
            energy=power / unit,
            eligible=costs.eligible,
            barred=barred,
            epsilon_energy=epsilon_energy,
            epsilon_sum=epsilon_sum,
            unit=unit,
            shift=float(shift.sum()),
        )

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.source)

    def sums(self, weights: Array) -> Array:
        """Sum of the weights each device receives."""
        return np.bincount(self.columns, weights=weights, minlength=self.size).astype(np.float64)

    def matrix(self, weights: Array) -> Array:
        """Weights of the links as a matrix."""
        full = np.zeros((self.size, self.size))
        full[self.rows, self.columns] = weights
        return full

    def objective(self, point: Point) -> float:
        """Objective (11) with the relaxed energy, in the units that came in."""
        sent = (1.0 - point.psi)[self.rows] * point.psi[self.columns] * point.alpha
        used = point.alpha / (point.alpha + self.epsilon_energy)
        paid = self.source @ (1.0 - point.psi) + self.transfer @ sent + self.energy @ used
        return self.unit * float(paid) - self.shift


@dataclass(frozen=True, eq=False)
class Point:
    """An iterate: psi (N,), weights of the links, and the excess of the sums (N,)."""

    psi: Array
    alpha: Array
    excess: Array


def starting_point(
    problem: Relaxed,
    names: tuple[str, ...],
    start: Start,
    *,
    seed: int = 0,
    start_psi: float = 0.02,
) -> Point:
    """Give a feasible point.

    A target's weights must sum to its ``psi``, and none may exceed ``1 - psi`` of its source.
    Each device gets the ``psi`` of its kind of start, or the largest that leaves enough to every
    device it may serve.
    """
    n, rows, columns = problem.size, problem.rows, problem.columns
    rng = np.random.default_rng(seed) if start == "random" else None
    counts = np.bincount(columns, minlength=n)
    alone = ~problem.eligible & (counts == 0)
    if alone.any():
        raise unreachable(names[int(np.argmax(alone))])
    most = start_psi if start == "paper" else 0.5
    psi = np.where(problem.eligible, np.where(counts > 0, most, FLOOR), 1.0)
    if problem.barred:
        served = ~problem.eligible[columns]
        np.minimum.at(psi, rows[served], 1.0 - 1.0 / counts[columns[served]])
    order = np.argsort(np.array(names))
    if rng is not None:
        # Drawn by name: the order of the devices must not matter.
        draws = np.empty(n)
        draws[order] = rng.uniform(size=n)
        psi = np.where(problem.eligible, psi * draws, 1.0)
    psi = np.maximum(psi, FLOOR)
    room = 1.0 - psi[rows] if problem.barred else np.ones(len(rows))
    parts = room
    if rng is not None:
        pairs = np.empty((n, n))
        pairs[np.ix_(order, order)] = rng.uniform(size=(n, n))
        parts = room * pairs[rows, columns]
    sums, rooms = problem.sums(parts)[columns], problem.sums(room)[columns]
    # Psi at its floor instead of at 0 leaves a sum short by less than epsilon_sum.
    wanted = np.minimum(psi[columns], rooms)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = parts * (wanted / sums)
        filled = parts + (room - parts) * ((wanted - sums) / (rooms - sums))
    alpha = np.where(sums >= wanted, scaled, filled)
    return Point(psi, np.clip(alpha, FLOOR, 1.0), np.full(n, FLOOR))


class Monomials:
    r"""Monomials in place of sums, whose parameters change from point to point.

    Around a point :math:`u`, :math:`\sum_k u_k + c` is no less than the monomial
    :math:`s \prod_k (x_k / u_k)^{u_k / s}` with s its value there (25).
    """

    def __init__(self) -> None:
        self.cp = require_cvxpy()
        self._parameters: dict[str, Any] = {}

    def build(self, name: str, shape: tuple[int, ...], *logs: Any) -> Any:
        """Build the logarithm of a monomial in variables that are given by their logarithms."""
        monomial = self.constant(name, shape)
        for k, log in enumerate(logs):
            monomial += self.cp.multiply(self.weight(f"{name} {k}", shape), log)
        return monomial

    def expand(self, name: str, *terms: Array, constant: float = 0.0) -> None:
        """Set the monomial that stands for a sum around the values of its terms."""
        total = sum(terms) + constant
        weights = [term / total for term in terms]
        logs = sum(weight * np.log(term) for weight, term in zip(weights, terms, strict=True))
        self.set(name, np.log(total) - logs, *weights)

    def set(self, name: str, constant: Array, *weights: Array) -> None:
        """Set the parameters of a monomial, where the program has it."""
        if f"{name} constant" in self._parameters:
            self._parameters[f"{name} constant"].value = constant
            for k, weight in enumerate(weights):
                self._parameters[f"{name} {k}"].value = weight

    def weight(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return the parameter of an exponent."""
        return self._parameters.setdefault(name, self.cp.Parameter(shape, nonneg=True))

    def constant(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return the parameter of a coefficient's logarithm."""
        return self._parameters.setdefault(f"{name} constant", self.cp.Parameter(shape))


def solve_program(program: Any, settings: Sequence[dict[str, Any]], time_limit: float) -> None:
    """Solve a convex program with the first setting of the solver that manages to."""
    cp, outcome = require_cvxpy(), "gave no result"
    limit = {"time_limit": time_limit} if np.isfinite(time_limit) else {}
    for setting in settings:
        if time_limit <= 0:
            raise SolverError("the time limit ended a convex program.", code="gp-time")
        with warnings.catch_warnings():
            # An inaccurate optimum is judged by whether the objective rises.
            warnings.simplefilter("ignore")
            try:
                program.solve(solver=cp.CLARABEL, enforce_dpp=True, **setting, **limit)
            except cp.SolverError:
                continue
        if program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            return
        if program.status == cp.USER_LIMIT:
            raise SolverError("the time limit ended a convex program.", code="gp-time")
        outcome = f"called it {program.status}"
    raise SolverError(
        f"the solver of a convex program {outcome}. Costs of very different sizes can do this: "
        "forbid hopeless links with inf, start from another point, or use the exact method.",
        code="gp-solver",
    )


class Surrogate:
    """The convex program around a point, compiled once; only parameters change.

    Why its optimum never rises: each posynomial in a denominator is replaced by the monomial of
    the arithmetic-geometric mean inequality (25), which is nowhere above it and equal to it at
    the point. So the point is feasible for its own program, with its own value; and what is
    feasible for the program is feasible for the relaxed problem, hence for the next program,
    whose objective is there at most as large. This needs a feasible start and an exact solver.
    """

    def __init__(self, problem: Relaxed) -> None:
        monomials = self._monomials = Monomials()
        cp = monomials.cp
        self._problem = problem
        n, m = problem.size, len(problem.rows)
        links = np.arange(m)
        at_source = sp.csr_matrix((np.ones(m), (links, problem.rows)), shape=(m, n))
        at_target = sp.csr_matrix((np.ones(m), (links, problem.columns)), shape=(m, n))
        psi, alpha, excess = self._main = cp.Variable(n), cp.Variable(m), cp.Variable(n)
        source, transfer = cp.Variable(n), cp.Variable(m)
        train = monomials.build("train", (n,), psi, source)
        receive = monomials.build(
            "receive", (m,), at_source @ psi, transfer - at_target @ psi - alpha
        )
        above = monomials.build("above", (n,), excess, psi)
        below = at_target.T @ cp.multiply(monomials.weight("below 0", (m,)), alpha)
        below += monomials.constant("below", (n,))
        low = np.log(FLOOR)
        constraints = [
            bound
            for part in (psi, alpha, excess, source, transfer)
            for bound in (part <= 0, part >= low)
        ]
        constraints += [train >= 0, receive >= 0]
        constraints += [at_target.T @ cp.exp(alpha - at_target @ above) <= 1]
        constraints += [cp.exp(excess - below) + cp.exp(psi - below) <= 1]
        fixed = np.flatnonzero(~problem.eligible)
        if len(fixed):
            constraints += [psi[fixed] == 0]
        if problem.barred:
            constraints += [cp.exp(alpha) + at_source @ cp.exp(psi) <= 1 + SLACK]
        # The logarithm of the objective, as in (50): costs of any size only add to exponents.
        self._value = cp.Variable()
        paid = [
            part[np.flatnonzero(cost)] + np.log(cost[cost > 0])
            for part, cost in (
                (source, problem.source),
                (transfer, problem.transfer),
                # What divides alpha, as a monomial.
                (alpha - monomials.build("energy", (m,), alpha), problem.energy),
            )
            if cost.any()
        ]
        constraints += [cp.sum(cp.exp(cp.hstack([*paid, excess]) - self._value)) <= 1]
        self._program = cp.Problem(cp.Minimize(self._value), constraints)

    def around(self, point: Point, *, time_limit: float) -> tuple[float, Point]:
        """Optimum of the program around a point, and where; ``SolverError`` when that fails."""
        self._set(point)
        # Where scaling stalls, the plain program often does not.
        settings = [{"equilibrate_enable": scaled} for scaled in (True, False)]
        solve_program(self._program, settings, time_limit)
        parts = [np.clip(np.exp(part.value), FLOOR, 1.0) for part in self._main]
        return float(np.exp(self._value.value)), Point(*parts)

    def _set(self, point: Point) -> None:
        problem, expand = self._problem, self._monomials.expand
        psi, alpha, at_source = point.psi, point.alpha, point.psi[self._problem.rows]
        # Auxiliary variables as small as their constraints let them be: that is feasible, and
        # lowers the objective.
        expand("train", psi, np.maximum(1.0 - psi, FLOOR))
        expand("receive", at_source, np.maximum(1.0 - at_source, FLOOR))
        expand("energy", alpha, constant=problem.epsilon_energy)
        expand("above", point.excess, psi, constant=problem.epsilon_sum)
        total = problem.sums(alpha) + problem.epsilon_sum
        share = alpha / total[problem.columns]
        constant = np.log(total) - problem.sums(share * np.log(alpha))
        self._monomials.set("below", constant, share)


def require_cvxpy() -> Any:
    """Import cvxpy, or say what to install."""
    # Slow to import, and needed by this solver alone.
    try:
        import clarabel  # pyright: ignore[reportMissingImports]
        import cvxpy  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ExtraError(
            "geometric programming needs cvxpy and clarabel. Run: pip install 'silot[gp]'",
            code="extra-gp",
        ) from None
    assert clarabel is not None
    return cvxpy


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
    """Where successive geometric programming ended, before any rounding."""

    psi: Array
    """Between 0 and 1; shape (N,)."""
    alpha: Array
    """Between 0 and 1; shape (N, N)."""
    history: tuple[dict[str, float], ...]
    """One entry an iteration: ``surrogate``, what the convex program minimised (it never rises),
    and ``objective``, the relaxed objective (11) at its point."""
    objective: float
    """The relaxed objective at ``psi`` and ``alpha``."""
    start: Start
    """Where it started."""
    converged: bool
    """Whether the surrogate changed by less than the tolerance."""
    stopped: str
    """In words: what ended it."""

    @property
    def non_binariness(self) -> float:
        """Largest distance of a ``psi`` from 0 and 1."""
        return float(np.minimum(self.psi, 1.0 - self.psi).max())


class GeometricProgram(Options):
    """The solver of the paper: Algorithm 2, whose plan is then rounded.

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
    ST-LF (paper 003), Algorithm 2, eqs. 19-25 and appendix H. Negative costs are shifted to 0,
    for training and receiving at a device alike: plans keep their order, relaxed points need not.
    The penalty of the excess in the sums is in units of the median cost (in the paper: 1,
    whatever the units), so that results do not depend on units. The hypothesis comparison inside
    :math:`T_{ij}` is a constant of ``costs``; the paper leaves it out of its simulations too.

    Examples
    --------
    >>> transfer = [[0, 1, 1], [2, 0, 2], [9, 9, 0]]
    >>> costs = LinkCosts([1, 2, 9], transfer, np.ones((3, 3)), eligible=[True, True, False])
    >>> relaxation = GeometricProgram().relax(costs)
    >>> (relaxation.psi > 0.5).tolist(), relaxation.converged
    ([False, False, True], True)
    >>> plan = GeometricProgram().solve(costs)
    >>> plan.links, round(plan.objective, 6), plan.optimal
    ((('0', '2', 1.0),), 9.0, False)
    """

    name = "gp"

    epsilon_energy: float = option("Constant of (14).", _SHARE, default=1e-2, code="option-epsilon")
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
    seed: int = option("Seed of the random start.", seed(), default=0)
    max_iterations: int = option(
        "Largest number of convex programs.", count(), default=60, code="option-iterations"
    )
    tolerance: float = option(
        "Relative change of the surrogate at which to stop.", number(least=0), default=1e-4
    )
    missing_constraint: bool = switch(
        "Whether :math:`\\alpha_{ij} \\le 1 - \\psi_i` holds. The paper leaves it out, so that "
        "links from one target to another serve it at the price of their energy alone.",
        default=True,
    )
    time_limit: float | None = option(
        "Most seconds; ``None`` for no limit.", none_or(number(above=0)), default=60.0
    )
    rounding: Rounding = option(
        '``"best-response"``: the best weights for the rounded ``psi``; ``"paper"``: the relaxed '
        "weights among sources and targets, those above ``epsilon_energy``, made to sum to 1; "
        '``"threshold"``: the threshold for ``psi`` (instead of one half) whose plan is '
        "cheapest, with the best weights. ``relax`` does not round.",
        word(*get_args(Rounding)),
        default="best-response",
    )

    def relax(self, costs: LinkCosts) -> Relaxation:
        """Run Algorithm 2 and return its point as it is, between 0 and 1."""
        if not costs.eligible.any():
            raise NoEligibleSource(
                "no device may be a source. Give labels to one.", code="no-eligible-source"
            )
        problem = Relaxed.of(
            costs,
            barred=self.missing_constraint,
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
        history: list[dict[str, float]] = []
        converged, stopped = True, "no link is allowed, and every device trains"
        if len(problem.rows):
            point, converged, stopped = self._descend(problem, point, history)
        return Relaxation(
            psi=point.psi,
            alpha=problem.matrix(point.alpha),
            history=tuple(history),
            objective=problem.objective(point),
            start=start,
            converged=converged,
            stopped=stopped,
        )

    def _descend(
        self, problem: Relaxed, point: Point, history: list[dict[str, float]]
    ) -> tuple[Point, bool, str]:
        """Solve convex programs until the surrogate stays or something else ends it.

        Returns the last point, whether the surrogate converged, and what ended it, in words.
        """
        surrogate = Surrogate(problem)
        end = np.inf if self.time_limit is None else time.monotonic() + self.time_limit
        last = np.inf
        for _ in range(self.max_iterations):
            try:
                value, following = surrogate.around(point, time_limit=end - time.monotonic())
            except SolverError as failure:
                if failure.code == "gp-time":
                    return point, False, "stopped by the time limit: allow more"
                if not history:
                    raise
                stopped = "stopped because a convex program failed: start from another point"
                return point, False, stopped
            change = last - value
            if history and change < 0:
                # In exact arithmetic it cannot rise: any further gain is below what the solver
                # resolves. Keeping the point keeps the surrogate from rising.
                if -change <= max(self.tolerance, 1e-6) * abs(last):
                    return point, True, "converged to the accuracy of the convex solver"
                stopped = "stopped because the error of the convex solver increased the objective"
                return point, False, stopped
            point, last = following, value
            minimum = problem.unit * value - problem.shift
            history.append({"surrogate": minimum, "objective": problem.objective(point)})
            if len(history) > 1 and change <= self.tolerance * abs(last):
                return point, True, f"converged after {len(history)} iterations"
        return point, False, f"stopped after {self.max_iterations} iterations: allow more"

    def solve(self, costs: LinkCosts) -> LinkPlan:
        """Run Algorithm 2 and round: ``psi`` below one half is a source.

        Without any, the eligible device with the smallest ``psi`` is one; where a target cannot
        be reached, one more. The weights of a relaxed point belong to its ``psi``, not to the
        rounded one: they are computed again. Without ``missing_constraint`` the relaxed point may
        hold phantom links (of more weight than ``1 - psi`` of their source); the plan never does,
        and its ``details`` count them, with the objectives of all three roundings.
        """
        began = time.perf_counter()
        relaxation = self.relax(costs)
        psi = relaxation.psi
        kinds = np.where(costs.eligible & (psi < 0.5), 0, 1).astype(np.int64)
        opened = open_sources(kinds, psi, costs)
        best, swept = best_alpha(kinds, costs), _swept(psi, costs)
        plans: dict[Rounding, tuple[Kinds, Array]] = {
            "best-response": (kinds, best),
            "paper": (kinds, scale_kept(relaxation.alpha, kinds, costs, self.epsilon_energy, best)),
            "threshold": (swept, best_alpha(swept, costs)),
        }
        objectives = {name: terms_of(*plan, costs).total for name, plan in plans.items()}
        beyond = relaxation.alpha - (1.0 - psi)[:, None]
        phantom = np.where(beyond > self.epsilon_energy, beyond, 0.0)
        total = float(relaxation.alpha.sum())
        return make_plan(
            *plans[self.rounding],
            costs,
            method="gp",
            status=_status(relaxation, self.rounding),
            seconds=time.perf_counter() - began,
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


def scale_kept(alpha: Array, kinds: Kinds, costs: LinkCosts, smallest: float, best: Array) -> Array:
    """Relaxed weights among sources and targets, made to sum to 1; the best where none is left."""
    kept = np.where(np.isfinite(costs.links), alpha * (alpha > smallest), 0.0)
    kept *= (kinds == 0)[:, None] & (kinds == 1)
    sums = kept.sum(axis=0)
    return np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), best)


def open_sources(kinds: Kinds, psi: Array, costs: LinkCosts) -> int:
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
        open_sources(kinds, psi, costs)
        total = terms_of(kinds, best_alpha(kinds, costs), costs).total
        if total < best:
            best, chosen = total, kinds
    return chosen


def _status(relaxation: Relaxation, rounding: Rounding) -> str:
    return (
        f"{relaxation.stopped}, from the {relaxation.start} start; {_ROUNDINGS[rounding]}. "
        "This is a local optimum without proof; another start or the exact method may be better"
    )


_ROUNDINGS: dict[Rounding, str] = {
    "best-response": "psi rounded at one half, weights computed again",
    "paper": "psi rounded at one half, relaxed weights kept",
    "threshold": "psi rounded at its best threshold, weights computed again",
}
