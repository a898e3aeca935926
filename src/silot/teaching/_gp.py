r"""The convex program of one iteration of successive geometric programming (ST-LF, appendix H).

Variables are logarithms. Auxiliary variables are divided by the costs they stand for:
``source`` is :math:`\chi^S_i / S_i`, ``transfer`` is :math:`\chi^T_{ij} / T_{ij}`, both in (0, 1],
so that no cost enters a constraint; ``excess`` is :math:`\chi^C_j`, one for each target, since
the paper's :math:`N` copies of it carry the same two constraints.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ..errors import ExtraError, SolverError
from .costs import Array, Indices, LinkCosts
from .evaluate import unreachable
from .plan import Flags

Energy = Literal["fraction", "linear"]
Start = Literal["paper", "symmetric", "random"]

FLOOR = 1e-6
"""Smallest value of a variable; logarithms need one."""
# alpha + psi <= 1 + SLACK must leave room for alpha at its floor beside psi = 1.
SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The published problem with variables between 0 and 1, in units in which costs are near 1.

    Attributes
    ----------
    rows, columns
        Source and target of each link there is a variable for.
    source, transfer, energy
        Costs of devices (N,) and of links, multiplied by their scales, shifted, divided by
        ``unit``.
    eligible
        Whether a device may be a source.
    barred
        Whether ``alpha + psi <= 1`` holds on every link.
    linear
        Whether a link pays in proportion to its weight, and not as in (14).
    epsilon_energy, epsilon_sum
        The paper's constants in (14) and (75).
    unit, shift
        ``unit * cost - shift`` is a cost in the units that came in.
    """

    rows: Indices
    columns: Indices
    source: Array
    transfer: Array
    energy: Array
    eligible: Flags
    barred: bool
    linear: bool
    epsilon_energy: float
    epsilon_sum: float
    unit: float
    shift: float

    @classmethod
    def of(
        cls,
        costs: LinkCosts,
        *,
        barred: bool,
        energy: Energy,
        epsilon_energy: float,
        epsilon_sum: float,
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
            linear=energy == "linear",
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
        whole = 1.0 if self.linear else point.alpha + self.epsilon_energy
        used = point.alpha / whole
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


class Surrogate:
    """The convex program around a point, compiled once; only parameters change.

    Why its optimum never rises: each posynomial in a denominator is replaced by the monomial of
    the arithmetic-geometric mean inequality (25), which is nowhere above it and equal to it at
    the point. So the point is feasible for its own program, with its own value; and what is
    feasible for the program is feasible for the relaxed problem, hence for the next program,
    whose objective is there at most as large. This needs a feasible start and an exact solver.
    """

    def __init__(self, problem: Relaxed) -> None:
        cp = _cvxpy()
        self._cp = cp
        self._problem = problem
        self._parameters: dict[str, Any] = {}
        n, m = problem.size, len(problem.rows)
        links = np.arange(m)
        at_source = sp.csr_matrix((np.ones(m), (links, problem.rows)), shape=(m, n))
        at_target = sp.csr_matrix((np.ones(m), (links, problem.columns)), shape=(m, n))
        self._psi, self._alpha = cp.Variable(n), cp.Variable(m)
        self._excess, self._source, self._transfer = cp.Variable(n), cp.Variable(n), cp.Variable(m)
        psi, alpha, excess = self._psi, self._alpha, self._excess
        train = self._monomial("train", n, psi, self._source)
        receive = self._monomial(
            "receive", m, at_source @ psi, self._transfer - at_target @ psi - alpha
        )
        energy = self._weight("energy", m)
        energy_constant = self._constant("energy", m)
        above = self._monomial("above", n, excess, psi)
        below = at_target.T @ cp.multiply(self._weight("below", m), alpha) + self._constant(
            "below", n
        )
        low = np.log(FLOOR)
        every = (psi, alpha, excess, self._source, self._transfer)
        constraints = [each for part in every for each in (part <= 0, part >= low)]
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
                (self._source, problem.source),
                (self._transfer, problem.transfer),
                (cp.multiply(energy, alpha) - energy_constant, problem.energy),
            )
            if cost.any()
        ]
        constraints += [cp.sum(cp.exp(cp.hstack([*paid, excess]) - self._value)) <= 1]
        self._program = cp.Problem(cp.Minimize(self._value), constraints)

    def around(self, point: Point, *, time_limit: float) -> tuple[float, Point]:
        """Optimum of the program around a point, and where; ``SolverError`` when that fails."""
        if time_limit <= 0:
            raise _late()
        self._set(point)
        cp = self._cp
        options = {"time_limit": time_limit} if np.isfinite(time_limit) else {}
        with warnings.catch_warnings():
            # An inaccurate optimum is judged by whether the objective rises.
            warnings.simplefilter("ignore")
            # Where scaling stalls, the plain program often does not.
            for scaled in (True, False):
                try:
                    self._program.solve(
                        solver=cp.CLARABEL,
                        enforce_dpp=True,
                        equilibrate_enable=scaled,
                        **options,
                    )
                    break
                except cp.SolverError:
                    if not scaled:
                        raise _failed("gave no result") from None
        status = str(self._program.status)
        if status == cp.USER_LIMIT:
            raise _late()
        if status not in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE}:
            raise _failed(f"called it {status}")
        main = (self._psi, self._alpha, self._excess)
        found = [np.clip(np.exp(part.value), FLOOR, 1.0) for part in main]
        return float(np.exp(self._value.value)), Point(*found)

    def _set(self, point: Point) -> None:
        problem = self._problem
        psi, alpha, excess = point.psi, point.alpha, point.excess
        # Auxiliary variables as small as their constraints let them be: that is feasible, and
        # lowers the objective.
        train = np.maximum(1.0 - psi, FLOOR)
        receive = np.maximum(1.0 - psi[problem.rows], FLOOR)
        self._put("train", psi, train)
        self._put("receive", psi[problem.rows], receive)
        # What divides alpha: alpha + epsilon as a monomial, or 1.
        whole = np.ones_like(alpha) if problem.linear else alpha + problem.epsilon_energy
        weight = np.zeros_like(alpha) if problem.linear else alpha / whole
        self._parameters["energy"].value = 1.0 - weight
        self._parameters["energy constant"].value = np.log(whole) - weight * np.log(alpha)
        self._put("above", excess, psi, constant=problem.epsilon_sum)
        total = problem.sums(alpha) + problem.epsilon_sum
        share = alpha / total[problem.columns]
        self._parameters["below"].value = share
        self._parameters["below constant"].value = np.log(total) - problem.sums(
            share * np.log(alpha)
        )

    def _put(self, name: str, first: Array, second: Array, *, constant: float = 0.0) -> None:
        total = first + second + constant
        shares = first / total, second / total
        self._parameters[f"{name} first"].value = shares[0]
        self._parameters[f"{name} second"].value = shares[1]
        self._parameters[f"{name} constant"].value = (
            np.log(total) - shares[0] * np.log(first) - shares[1] * np.log(second)
        )

    def _monomial(self, name: str, size: int, first: Any, second: Any) -> Any:
        multiply = self._cp.multiply
        return (
            multiply(self._weight(f"{name} first", size), first)
            + multiply(self._weight(f"{name} second", size), second)
            + self._constant(name, size)
        )

    def _weight(self, name: str, size: int) -> Any:
        return self._parameters.setdefault(name, self._cp.Parameter(size, nonneg=True))

    def _constant(self, name: str, size: int) -> Any:
        return self._parameters.setdefault(f"{name} constant", self._cp.Parameter(size))


class Descent:
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


def _cvxpy() -> Any:
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


def _late() -> SolverError:
    return SolverError("the time limit ended a convex program.", code="gp-time")


def _failed(what: str) -> SolverError:
    return SolverError(
        f"the solver of a convex program {what}. Costs of very different sizes can do this: bar "
        "hopeless links with inf, start elsewhere, or take the exact method.",
        code="gp-solver",
    )
