r"""ST-LF as its published runs were computed: successive geometric programs, with their constants.

The runs differ from the problem that the paper prints, and from ``gp``, which solves that one:

- no target sends: :math:`\psi_i \alpha_{ij} \le 10^{-3}` on every link, a constraint that the paper
  lacks and that is a monomial;
- they start at :math:`\psi = .5`, :math:`\alpha = .01` and auxiliary variables of 100 in units of
  cost, which is not feasible;
- weights are at least ``1e-3``, a device may weigh its own model, one excess serves all targets,
  and costs nothing;
- a link pays :math:`K_{ij}` times the monomial for :math:`\alpha + \epsilon_E`, where eq. 14
  divides;
- devices without labels are not barred from training: their error is 1000;
- the auxiliary variable of link (i, j) is expanded at the last one of link (j, i);
- 50 programs are solved, whatever happens, and the last weights are the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from ..options import Options, count, option
from .costs import Array, LinkCosts
from .gp import Monomials, open_sources, scale_kept, solve_program
from .plan import LinkPlan, best_alpha, make_plan

# Where psi, weights, and auxiliary variables (in units of cost) start.
_START_PSI, _START_ALPHA, _START_COST = 0.5, 0.01, 100.0
# Least weight of a link, and most that psi times a weight may be.
_LEAST_ALPHA, _SENDING = 1e-3, 1e-3
# Constants of eq. 14, and of eqs. 75 and 76.
_EPSILON_ENERGY, _EPSILON_SUM = 1e-3, 1e-2
# Error of a device that may not be a source.
_UNLABELLED_COST = 1000.0
_LARGEST = 1.0 + 1e-6
_LEAST_PSI, _LEAST_SLACK, _MOST_SLACK = 1e-6, 1e-8, 1e-4
# Settings of the convex solver, one after the other.
_SETTINGS: tuple[dict[str, Any], ...] = (
    {}, {"equilibrate_enable": False}, {"max_step_fraction": 0.9},
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PublishedRun:
    """The points of one run, before any rounding."""

    psi: Array
    """After each program (T, N)."""
    alpha: Array
    """Weights after the last one (N, N)."""
    objective: Array
    """Of each program (T,)."""


@dataclass(frozen=True, eq=False)
class _Point:
    psi: Array
    alpha: Array
    slack: float
    train: Array
    """Auxiliary variable of the cost of training (N,), in units of cost."""
    receive: Array
    """That of transfer (N, N)."""


class PublishedSolver(Options):
    """The solver of the published runs of ST-LF; its defaults are theirs.

    Raises
    ------
    SolverError
        A convex program that no setting of the solver solves.
    ExtraError
        cvxpy or clarabel is not installed.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    eqs. 19 to 25, and the runs that its authors stored.

    Examples
    --------
    >>> transfer = [[0, 1, 1], [2, 0, 2], [9, 9, 0]]
    >>> costs = LinkCosts([1, 2, 9], transfer, np.ones((3, 3)), eligible=[True, True, False])
    >>> run = PublishedSolver(iterations=20).run(costs)
    >>> (run.psi[-1] > 0.5).tolist()
    [False, False, True]
    """

    name = "st-lf"

    iterations: int = option("Convex programs.", count(), default=50, code="option-iterations")

    def run(self, costs: LinkCosts) -> PublishedRun:
        """Solve all programs of a network."""
        return self.run_arrays(*self._finite(costs), costs.phi)

    def run_arrays(
        self, source: Array, transfer: Array, energy: Array, phi: tuple[float, float, float]
    ) -> PublishedRun:
        """Solve all programs for positive costs (N,), (N, N), (N, N), with their diagonals."""
        n = len(source)
        program = _Program(source, transfer, energy, phi)
        point = _Point(
            psi=np.full(n, _START_PSI),
            alpha=np.full((n, n), _START_ALPHA),
            slack=1e-7,
            train=np.full(n, _START_COST),
            receive=np.full((n, n), _START_COST),
        )
        every: list[Array] = []
        values: list[float] = []
        # Expanded the other way round, auxiliary variables may grow without end.
        with np.errstate(over="ignore"):
            for _ in range(self.iterations):
                point, value = program.solve_around(point)
                every.append(point.psi)
                values.append(value)
        return PublishedRun(np.stack(every), point.alpha, np.array(values))

    def solve(self, costs: LinkCosts) -> LinkPlan:
        """Run, and round: psi below one half is a source, and keeps its weights.

        Where none is, or a target cannot be reached, the device of the least psi is one, too.
        """
        began = time.perf_counter()
        run = self.run(costs)
        psi = run.psi[-1]
        kinds = np.where(costs.eligible & (psi < 0.5), 0, 1).astype(np.int64)
        opened = open_sources(kinds, psi, costs)
        kept = scale_kept(run.alpha, kinds, costs, 2 * _LEAST_ALPHA, best_alpha(kinds, costs))
        values = run.objective[np.isfinite(run.objective)].tolist()
        diverged = "" if len(values) == self.iterations else ", whose objective grew without end"
        last = {} if diverged else {"relaxed_objective": values[-1]}
        return make_plan(
            kinds,
            kept,
            costs,
            method="st-lf",
            status=f"{self.iterations} programs as in the published runs{diverged}; psi rounded at "
            "one half, relaxed weights kept. Nothing is proven; the exact method may be better",
            seconds=time.perf_counter() - began,
            history=tuple({"surrogate": value} for value in values),
            details={**last, "opened": float(opened)},
        )

    @staticmethod
    def _finite(costs: LinkCosts) -> tuple[Array, Array, Array]:
        """Costs as the runs have them: nobody is barred, and the unlabelled err most."""
        source = np.where(costs.eligible, costs.source, costs.source + _UNLABELLED_COST)
        transfer = costs.transfer + np.where(costs.eligible, 0.0, _UNLABELLED_COST)[:, None]
        barred = ~np.isfinite(transfer) | ~np.isfinite(costs.energy)
        transfer = np.where(barred, _UNLABELLED_COST * 10.0, transfer)
        energy = np.where(barred, 0.0, costs.energy)
        # Logarithms need costs above 0, and a network has none of a device to itself.
        np.fill_diagonal(transfer, 2.0 * source)
        np.fill_diagonal(energy, np.max(energy, axis=1))
        least = 1e-9 * float(max(source.max(), transfer.max()))
        return np.maximum(source, least), np.maximum(transfer, least), np.maximum(energy, 1e-12)


class _Program:
    """One program, compiled once; around each point only parameters change.

    Auxiliary variables stay: without them exponents of a million arise.
    """

    def __init__(
        self, source: Array, transfer: Array, energy: Array, phi: tuple[float, float, float]
    ) -> None:
        monomials = self._monomials = Monomials()
        cp = monomials.cp
        self._source, self._transfer = source, transfer
        n = len(source)
        psi, alpha = self._psi, self._alpha = cp.Variable(n), cp.Variable((n, n))
        self._slack = cp.Variable()
        self._train, self._receive = cp.Variable(n), cp.Variable((n, n))
        self._value = cp.Variable()
        ones = np.ones((n, 1))
        senders, receivers = psi[:, None] @ ones.T, ones @ psi[None, :]
        paid: list[Any] = []
        if phi[0] > 0:
            paid.append(self._train + np.log(phi[0] * source))
        if phi[1] > 0:
            sent = self._receive + receivers + alpha + np.log(phi[1] * transfer)
            paid.append(cp.vec(sent, order="C"))
        if phi[2] > 0:
            power = monomials.build("energy", (n, n), alpha) + np.log(phi[2] * energy)
            paid.append(cp.vec(power, order="C"))
        above = (
            monomials.build("above", (n,), psi) + monomials.weight("above 1", (n,)) * self._slack
        )
        below = cp.sum(cp.multiply(monomials.weight("below 0", (n, n)), alpha), axis=0)
        below += monomials.constant("below", (n,))
        constraints = [
            monomials.build("train", (n,), psi, self._train) >= 0,
            monomials.build("receive", (n, n), senders, self._receive) >= 0,
            cp.sum(cp.exp(cp.hstack(paid) - self._value)) <= 1,
            ones.T @ cp.exp(alpha - ones @ above[None, :]) <= 1,
            cp.exp(psi - below) + cp.exp(self._slack - below) <= 1,
            ones.T @ cp.exp(alpha) <= _LARGEST,
            alpha + senders <= np.log(_SENDING),
            alpha <= 0, alpha >= np.log(_LEAST_ALPHA),
            psi <= np.log(_LARGEST), psi >= np.log(_LEAST_PSI),
            self._slack <= np.log(_MOST_SLACK), self._slack >= np.log(_LEAST_SLACK),
        ]  # fmt: skip
        self._problem = cp.Problem(cp.Minimize(self._value), constraints)

    def solve_around(self, point: _Point) -> tuple[_Point, float]:
        """Solve the program whose sums are monomials around a point (eq. 25)."""
        psi, alpha = point.psi, point.alpha
        self._expand("train", psi, point.train / self._source)
        # As published: the auxiliary variables of the links the other way round.
        received = point.receive.T / (alpha * self._transfer)
        self._expand("receive", np.repeat(psi[:, None], len(psi), axis=1), received)
        self._monomials.expand("energy", alpha, constant=_EPSILON_ENERGY)
        total = point.slack + psi + _EPSILON_SUM
        used = psi * np.log(psi) + point.slack * np.log(point.slack)
        constant = np.log(total) - used / total
        self._monomials.set("above", constant, psi / total, point.slack / total)
        total = alpha.sum(axis=0) + _EPSILON_SUM
        share = alpha / total
        self._monomials.set("below", np.log(total) - (share * np.log(alpha)).sum(axis=0), share)
        # An inaccurate optimum is one, as it was for the authors.
        solve_program(self._problem, _SETTINGS, np.inf)
        psi, alpha = np.exp(self._psi.value), np.exp(self._alpha.value)
        train = self._source * np.exp(self._train.value)
        receive = self._transfer * alpha * np.exp(self._receive.value)
        slack = float(np.exp(self._slack.value))
        return _Point(psi, alpha, slack, train, receive), float(np.exp(self._value.value))

    def _expand(self, name: str, first: Array, second: Array) -> None:
        # In this form, since the first programs of a run enlarge any difference of rounding.
        weight = first / (first + second)
        other = 1.0 - weight
        # A part may be so small that its share is 0.
        constant: Array = -np.asarray(xlogy(weight, weight) + xlogy(other, other), np.float64)
        self._monomials.set(name, constant, weight, other)
