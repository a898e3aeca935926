"""Entropic optimal transport in the log domain, its debiased divergence, and its potentials."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._check import Array, Weights, as_clouds, as_power, integer, real
from ._sweep import Problem, iterate, sweep
from .cost import Cost, build_cost
from .errors import InputError

# Default regularisation as a share of the mean cost.
_DEFAULT_SHARE = 0.05
# Smallest regularisation as a share of the largest cost: below, potentials keep no digits of it.
_SMALLEST = 1e-14
# Exponent of 2 of the largest cost beyond which costs are scaled.
_EXTREME = 250
# Entries of a block of rows, the least sum that is divided by, and room for rounding of sums.
_BLOCK, _LEAST, _ROUNDING = 1 << 20, 1e-300, 1e-12
# Error of marginals up to which debiased potentials are solved: they are small differences.
_OF_POTENTIALS = 1e-7
# Regularisation of histograms: this share of the mean cost, or so much that no exponent is beyond
# _FURTHEST, where exp() would be zero. A fixed number of sweeps makes results independent of one
# another, and so does a fixed number of rows of one matrix product.
_SHARE, _FURTHEST = 0.2, 300.0
_SWEEPS = 15
_ROWS = 32


@dataclass(frozen=True)
class EntropicPlan:
    r"""Solution of entropic transport.

    Attributes
    ----------
    potentials
        ``(f, g)``; the plan is ``a_i b_j exp((f_i + g_j - C_ij) / epsilon)``.
    value
        Dual value :math:`\langle a, f \rangle + \langle b, g \rangle`, which is
        :math:`\min_P \langle P, C \rangle + \epsilon KL(P | a \otimes b)` at convergence, and
        below it before; unbalanced, the dual value of the problem stated at ``sinkhorn``.
    transport_cost
        ``<P, C>`` of the plan found.
    epsilon
        Regularisation used, in units of cost.
    marginal_error
        L1 error of the second marginal; the first is exact. Of unbalanced transport, the distance
        of the second marginal from ``b exp(-g / marginal_penalty)``, which is its optimality.
    iterations
        Passes over the matrix: sweeps, annealing included, and products of Newton steps.
    status
        ``"converged"``, or words that say what was reached and what to change.
    lower_cost, upper_cost
        Certified bounds of the optimal cost without regularisation, from potentials that are made
        feasible and from the plan rounded to a coupling; NaN where ``sinkhorn`` did not compute
        them: of unbalanced transport.
    """

    potentials: tuple[Array, Array] = field(repr=False)
    value: float
    transport_cost: float
    epsilon: float
    marginal_error: float
    iterations: int
    status: str
    lower_cost: float = math.nan
    upper_cost: float = math.nan

    @property
    def converged(self) -> bool:
        """Whether the marginal error fell below the tolerance."""
        return self.status == "converged"


def sinkhorn(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, epsilon: float | None = None, p: float = 2, marginal_penalty: float | None = None,
    tolerance: float = 1e-6, max_iterations: int = 5000, reg: float | None = None,
) -> EntropicPlan:  # fmt: skip
    r"""Solve entropic transport between two weighted clouds.

    .. math:: OT_\epsilon = \min_{P \in \Pi(a, b)} \langle P, C \rangle
              + \epsilon\, KL(P \,|\, a \otimes b)

    Log-domain Sinkhorn: ``f`` and ``g`` are updated in turn with one exponential per entry and
    sweep, and ``g`` is extrapolated from the sweeps before (Anderson). ``epsilon`` is annealed
    from the largest cost downwards by halves. Where sweeps become many, because values are far
    out or clusters hardly exchange mass, the potentials of exact transport are the start, and
    truncated Newton steps end the iteration. Compiled kernels sweep in single precision first
    where that helps, and always end in double.

    With ``marginal_penalty`` :math:`\rho` marginals may differ from a and b (unbalanced transport):

    .. math:: \min_{P \ge 0} \langle P, C \rangle + \epsilon\, KL(P \,|\, a \otimes b)
              + \rho\, KL(P 1 \,|\, a) + \rho\, KL(P^T 1 \,|\, b)

    Parameters
    ----------
    x, y, a, b, p
        As ``exact_plan``.
    epsilon
        Regularisation in units of ``|x - y|^p``; by default 5 % of the mean cost.
    marginal_penalty
        Weight of the marginals' divergence in units of ``|x - y|^p``; ``None`` keeps them.
    tolerance
        Stop when the L1 error of the second marginal is below it.
    max_iterations
        Most passes over the matrix.
    reg
        What POT calls ``epsilon``, in the same units: give one of the two.

    Returns
    -------
    EntropicPlan

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; ``epsilon``, ``marginal_penalty`` or ``tolerance`` not positive.

    Notes
    -----
    Feydy et al., *Interpolating between Optimal Transport and MMD using Sinkhorn Divergences*,
    2019, for the convention of the potentials. Altschuler, Weed and Rigollet, *Near-linear time
    approximation algorithms for optimal transport via Sinkhorn iteration*, 2017, for the rounding
    of a plan to a coupling. Chizat et al., *Scaling Algorithms for Unbalanced
    Optimal Transport Problems*, 2018, for the penalty. Anderson, *Iterative Procedures for
    Nonlinear Integral Equations*, 1965.

    Examples
    --------
    >>> result = sinkhorn([[0.0], [1.0]], [[0.0], [1.0]], epsilon=0.01)
    >>> result.status, abs(result.transport_cost) < 1e-9
    ('converged', True)
    >>> result.lower_cost <= 0.0 <= result.upper_cost
    True
    """
    order = as_power(p)
    if reg is not None and epsilon is not None:
        raise InputError(
            "epsilon and reg are the same regularisation. Give only epsilon.", code="option-epsilon"
        )
    epsilon = reg if epsilon is None else epsilon
    x, y, a, b = as_clouds(x, y, a, b)
    built = build_cost(x, y, order)
    cost = built.matrix
    epsilon = _choose_epsilon(cost, a, b) if epsilon is None else epsilon
    penalty = np.inf
    if marginal_penalty is not None:
        penalty = real(marginal_penalty, "marginal_penalty", "option-epsilon")
    plan = entropic_plan(cost, a, b, epsilon, tolerance, max_iterations, penalty=penalty)
    return plan if marginal_penalty is not None else _with_bounds(plan, built, a, b)


def _with_bounds(plan: EntropicPlan, built: Cost, a: Array, b: Array) -> EntropicPlan:
    """Bound the optimal cost by feasible potentials, and by the plan rounded to a coupling."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    a, b, (f, g) = a[rows], b[cols], (plan.potentials[0][rows], plan.potentials[1][cols])
    cost = built.matrix
    cost = cost if cost.shape == (len(a), len(b)) else cost[np.ix_(rows, cols)]
    step = max(1, _BLOCK // len(b))
    parts = [slice(start, start + step) for start in range(0, len(a), step)]

    def flow(part: slice) -> Array:
        exponent = (f[part, None] + g - cost[part]) / plan.epsilon + np.log(b)
        # At convergence no row sends a column more than all it has.
        shares = np.exp(np.minimum(exponent, 0.0))
        return shares * (a[part] / np.maximum(shares.sum(axis=1), 1.0))[:, None]

    columns = sum((flow(part).sum(axis=0) for part in parts), np.zeros(len(b)))
    down = np.minimum(1.0, b / np.maximum(columns, _LEAST))
    sent, upper, dual = np.empty(len(a)), 0.0, float(b @ g)
    size = float(b @ np.abs(g))
    for part in parts:
        moved = flow(part) * down
        sent[part] = moved.sum(axis=1)
        upper += float((moved * cost[part]).sum())
        least = (cost[part] - g).min(axis=1)
        dual += float(a[part] @ least)
        size += float(a[part] @ np.abs(least))
    lacking, room = np.maximum(a - sent, 0.0), np.maximum(b - columns * down, 0.0)
    # What is still to be sent is as much as there is room for.
    if room.sum() > 0.0:
        upper += float(lacking @ cost @ room) / float(room.sum())
    slack = built.rounding + _ROUNDING * (size + upper)
    return replace(plan, lower_cost=max(dual - slack, 0.0), upper_cost=upper + slack)


@dataclass(frozen=True)
class SinkhornDivergence:
    """A debiased divergence and the status of its three problems."""

    value: float
    epsilon: float
    status: str

    @property
    def converged(self) -> bool:
        """Whether all three problems converged."""
        return self.status == "converged"


def sinkhorn_divergence(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, epsilon: float | None = None, p: float = 2,
    tolerance: float = 1e-6, max_iterations: int = 5000,
) -> SinkhornDivergence:  # fmt: skip
    r"""Compute the debiased entropic divergence of two weighted clouds.

    .. math:: S_\epsilon(\mu, \nu) = OT_\epsilon(\mu, \nu) - \tfrac12 OT_\epsilon(\mu, \mu)
              - \tfrac12 OT_\epsilon(\nu, \nu)

    Zero for equal measures, non-negative, and tending to ``W_p^p`` as epsilon tends to zero.

    Parameters
    ----------
    x, y, a, b, epsilon, p, tolerance, max_iterations
        As ``sinkhorn``; one ``epsilon`` serves the three problems.

    Returns
    -------
    SinkhornDivergence

    Raises
    ------
    InputError, MismatchError
        As ``sinkhorn``.

    Examples
    --------
    >>> sinkhorn_divergence([[0.0], [1.0]], [[0.0], [1.0]]).value
    0.0
    """
    order = as_power(p)
    x, y, a, b = as_clouds(x, y, a, b)
    cross = build_cost(x, y, order).matrix
    epsilon = _choose_epsilon(cross, a, b) if epsilon is None else epsilon
    # A measure against itself is solved by the symmetric iteration here too, so that the three
    # terms cancel to the last digit.
    same = np.array_equal(x, y) and np.array_equal(a, b)
    parts = [entropic_plan(cross, a, b, epsilon, tolerance, max_iterations, symmetric=same)]
    del cross
    for points, weights in ((x, a), (y, b)):
        own = build_cost(points, points, order).matrix
        parts.append(
            entropic_plan(own, weights, weights, epsilon, tolerance, max_iterations, symmetric=True)
        )
    value = parts[0].value - 0.5 * parts[1].value - 0.5 * parts[2].value
    slow = [part for part in parts if not part.converged]
    # The divergence is never negative; what is below zero is the error of the three solves.
    return SinkhornDivergence(max(value, 0.0), epsilon, slow[0].status if slow else "converged")


def _choose_epsilon(cost: Array, a: Array, b: Array) -> float:
    return _DEFAULT_SHARE * float(a @ cost @ b) or 1.0


def entropic_plan(
    cost: Array,
    a: Array,
    b: Array,
    epsilon: float,
    tolerance: float,
    max_iterations: int,
    *,
    symmetric: bool = False,
    penalty: float = np.inf,
) -> EntropicPlan:
    """Solve entropic transport for a matrix of costs; ``symmetric`` where a measure is itself.

    Masses sum to 1, and points of mass zero get their best potentials.
    """
    max_iterations = integer(max_iterations, "max_iterations", "option-epsilon")
    epsilon = real(epsilon, "epsilon", "option-epsilon")
    tolerance = real(tolerance, "tolerance", "option-epsilon")
    largest = float(cost.max())
    is_lost = epsilon < _SMALLEST * max(largest, 1e-280) or penalty < _SMALLEST * epsilon
    if is_lost or tolerance <= 0:
        raise InputError(
            f"epsilon is {epsilon!r}, tolerance {tolerance!r} and marginal_penalty {penalty!r}; "
            "give positive ones, and an epsilon that is not negligible beside the costs.",
            code="option-epsilon",
        )
    exponent = math.frexp(largest)[1]
    if abs(exponent) > _EXTREME:
        # Squares of potentials must not overflow.
        small, least = np.ldexp(cost, -exponent), math.ldexp(epsilon, -exponent)
        plan = entropic_plan(
            small, a, b, least, tolerance, max_iterations,
            symmetric=symmetric, penalty=math.ldexp(penalty, -exponent),
        )  # fmt: skip
        f, g = (np.ldexp(k, exponent) for k in plan.potentials)
        value, moved = (math.ldexp(k, exponent) for k in (plan.value, plan.transport_cost))
        return replace(
            plan, potentials=(f, g), value=value, transport_cost=moved,
            epsilon=math.ldexp(plan.epsilon, exponent),
        )  # fmt: skip
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    is_full = len(rows) == len(a) and len(cols) == len(b)
    part = cost if is_full else np.ascontiguousarray(cost[np.ix_(rows, cols)])
    problem = Problem(part, a[rows], b[cols], penalty)
    end = iterate(problem, epsilon, tolerance, max_iterations, symmetric=symmetric)
    f, g = end.f, end.g
    value = problem.value(f, g, end.epsilon, end.columns)
    if not is_full:
        swept = g
        f = _transform(cost[:, cols], g, problem.b, end.epsilon, penalty)
        g = _transform(cost[rows].T, f[rows], problem.a, end.epsilon, penalty)
        g[cols] = swept
    return EntropicPlan(
        (f, g), value, end.transport_cost, epsilon, end.error, end.sweeps, end.status(tolerance)
    )


def _transform(cost: Array, g: Array, b: Array, epsilon: float, penalty: float) -> Array:
    cost = np.ascontiguousarray(cost)
    problem = Problem(cost, np.ones(len(cost)), b, penalty)
    return sweep(problem, cost, g, epsilon)[0]


class Potential(NamedTuple):
    """Potential of every record (n,), in units of cost, and whether the iteration converged."""

    values: Array
    converged: bool


def debiased_potential(x: Array, y: Array, a: Array, b: Array, *, epsilon: float) -> Potential:
    """Compute the debiased potential of entropic transport from ``x`` to ``y``.

    .. math:: f_{xy} - f_{xx},

    the derivative of the Sinkhorn divergence by the masses of ``x``.

    Parameters
    ----------
    x, y, a, b
        Points (n, d) and (m, d), weights.
    epsilon
        Regularisation, in units of cost.

    Returns
    -------
    Potential

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, eq. 9; the potentials
    of exact transport are not unique, entropic ones are.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[0.0], [5.0]]), np.array([[0.0], [1.0]])
    >>> half = np.full(2, 0.5)
    >>> potential = debiased_potential(x, y, half, half, epsilon=0.1).values
    >>> bool(potential[1] > potential[0])
    True
    """
    cost = build_cost(x, y, 2).matrix
    across = entropic_plan(cost, a, b, epsilon, _OF_POTENTIALS, 5000)
    cost = build_cost(x, x, 2).matrix
    own = entropic_plan(cost, a, a, epsilon, _OF_POTENTIALS, 5000, symmetric=True)
    difference = across.potentials[0] - own.potentials[0]
    return Potential(difference, across.converged and own.converged)


def calibrated_gradient(potential: npt.ArrayLike, weights: npt.ArrayLike) -> Array:
    r"""Compute the derivative of a transport cost as mass moves to one record from all others.

    .. math:: s_l = f_l - \frac{\sum_{j \ne l} a_j f_j}{1 - a_l}

    Parameters
    ----------
    potential
        Potential of every record (n,).
    weights
        Masses (n,), summing to 1.

    Returns
    -------
    numpy.ndarray
        Shape (n,); zero for a record that has all the mass.

    Notes
    -----
    Eq. 10 of *Data Valuation and Detections in Federated Learning* (FedBary), for any weights.
    Adding a constant to the potential changes nothing.

    Examples
    --------
    >>> calibrated_gradient([0.0, 0.0, 3.0], [1 / 3, 1 / 3, 1 / 3])
    array([-1.5, -1.5,  3. ])
    """
    f, a = np.asarray(potential, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    total = float(a @ f)
    others = 1.0 - a
    has_others = others > 1e-12
    return np.where(has_others, (f - total) / np.where(has_others, others, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class HistogramDivergence:
    r"""Sinkhorn divergences of many pairs of histograms on the same places.

    .. math:: S(a, b) = E(a, b) - \tfrac12 E(a, a) - \tfrac12 E(b, b), \quad
              E(a, b) = \langle a, f \rangle + \langle b, g \rangle
              - \varepsilon \Big( \sum_{ij} e^{(f_i + g_j - C_{ij}) / \varepsilon} - 1 \Big)

    f and g come from a fixed number of averaged sweeps, so E is a lower bound of the entropic cost:
    a number to compare histograms by, not a distance. The result of a pair depends neither on its
    order nor on the other pairs, to the last bit.

    Notes
    -----
    Feydy et al., Interpolating between optimal transport and MMD using Sinkhorn divergences, 2019;
    averaged sweeps: sec. 3.1 there.
    """

    places: Array = field(repr=False)
    """``exp(-C / epsilon)`` (S, S), symmetric."""
    epsilon: float
    """Regularisation, in units of C."""

    @classmethod
    def of(cls, cost: Array) -> HistogramDivergence:
        """Make the divergence of histograms on places that have these costs (S, S)."""
        epsilon = max(_SHARE * float(cost.mean()), float(cost.max()) / _FURTHEST) or 1.0
        return cls(np.exp(-cost / epsilon), epsilon)

    def between(self, a: Array, b: Array, own: tuple[Array, Array]) -> Array:
        """Compute divergences (N,) of rows (N, S), whose costs to themselves are ``own``."""
        return np.maximum(self.cost(a, b) - 0.5 * (own[0] + own[1]), 0.0)

    def own(self, a: Array) -> Array:
        """Compute the entropic costs (N,) of rows (N, S) to themselves."""
        return self.cost(a, a)

    def cost(self, a: Array, b: Array) -> Array:
        """Compute the entropic costs E (N,) of rows (N, S)."""
        u, v = np.ones_like(a), np.ones_like(b)
        for _ in range(_SWEEPS):
            u, v = np.sqrt(u * a / self._multiply(v)), np.sqrt(v * b / self._multiply(u))
        # Places without mass have weight zero, whatever their potential.
        first, second = (
            (w * np.log(np.where(w > 0, k, 1.0))).sum(axis=1) for w, k in ((a, u), (b, v))
        )
        # The plan's mass, half by either order of summation, so that pairs may be swapped.
        mass = 0.5 * ((u * self._multiply(v)).sum(axis=1) + (v * self._multiply(u)).sum(axis=1))
        return self.epsilon * (first + second - (mass - 1.0))

    def _multiply(self, rows: Array) -> Array:
        # BLAS rounds a product by its shape: every block has as many rows, filled up with ones.
        count = -len(rows) % _ROWS
        filled = np.concatenate([rows, np.ones((count, rows.shape[1]))]) if count else rows
        products = np.matmul(filled.reshape(-1, _ROWS, rows.shape[1]), self.places)
        return products.reshape(filled.shape)[: len(rows)]
