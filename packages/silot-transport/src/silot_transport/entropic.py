"""Entropic optimal transport in the log domain, and its debiased divergence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ._check import Array, as_order, as_points, as_weights, real, same_dimension, whole
from ._sweep import Problem, solved, sweep
from .cost import build_cost
from .errors import InputError

# Default regularisation as a share of the mean cost.
_DEFAULT_SHARE = 0.05
# Smallest regularisation as a share of the largest cost: below, potentials keep no digits of it.
_SMALLEST = 1e-14


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
        Sweeps over the cost matrix, annealing included.
    status
        ``"converged"``, or words that say what was reached and what to change.
    """

    potentials: tuple[Array, Array] = field(repr=False)
    value: float
    transport_cost: float
    epsilon: float
    marginal_error: float
    iterations: int
    status: str

    @property
    def converged(self) -> bool:
        """Whether the marginal error fell below the tolerance."""
        return self.status == "converged"


def sinkhorn(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    *,
    epsilon: float | None = None,
    p: int = 2,
    marginal_penalty: float | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> EntropicPlan:
    r"""Entropic transport between two weighted clouds.

    .. math:: OT_\epsilon = \min_{P \in \Pi(a, b)} \langle P, C \rangle
              + \epsilon\, KL(P \,|\, a \otimes b)

    Log-domain Sinkhorn: ``f`` and ``g`` are updated in turn with one exponential per entry and
    sweep, and ``g`` is extrapolated from the sweeps before (Anderson). ``epsilon`` is annealed
    from the largest cost downwards by halves, and the sweeps end when the marginal error is below
    ``tolerance``. Compiled kernels sweep in single precision first where that helps, and always
    end in double.

    With ``marginal_penalty`` :math:`\rho` marginals may differ from a and b (unbalanced transport):

    .. math:: \min_{P \ge 0} \langle P, C \rangle + \epsilon\, KL(P \,|\, a \otimes b)
              + \rho\, KL(P 1 \,|\, a) + \rho\, KL(P^T 1 \,|\, b)

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights; ``None`` means uniform.
    epsilon
        Regularisation in units of ``|x - y|^p``; by default 5 % of the mean cost.
    p
        1 or 2.
    marginal_penalty
        Weight of the marginals' divergence in units of ``|x - y|^p``; ``None`` keeps them.
    tolerance
        Stop when the L1 error of the second marginal is below it.
    max_iterations
        Most sweeps over the cost matrix.

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
    2019, for the convention of the potentials. Chizat et al., *Scaling Algorithms for Unbalanced
    Optimal Transport Problems*, 2018, for the penalty. Anderson, *Iterative Procedures for
    Nonlinear Integral Equations*, 1965.

    Examples
    --------
    >>> result = sinkhorn([[0.0], [1.0]], [[0.0], [1.0]], epsilon=0.01)
    >>> result.status, abs(result.transport_cost) < 1e-9
    ('converged', True)
    """
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    a, b = as_weights(a, len(x), "a"), as_weights(b, len(y), "b")
    cost = build_cost(x, y, order).matrix
    epsilon = _default_epsilon(cost, a, b) if epsilon is None else epsilon
    penalty = np.inf
    if marginal_penalty is not None:
        penalty = real(marginal_penalty, "marginal_penalty", "option-epsilon")
    return entropic_plan(cost, a, b, epsilon, tolerance, max_iterations, penalty=penalty)


def potentials_of(
    cost: Array, a: Array, b: Array, epsilon: float, *, symmetric: bool = False
) -> tuple[Array, bool]:
    """First potential of entropic transport for a cost matrix, and whether it converged."""
    found = entropic_plan(cost, a, b, epsilon, 1e-7, 5000, symmetric=symmetric)
    return found.potentials[0], found.converged


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
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    *,
    epsilon: float | None = None,
    p: int = 2,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> SinkhornDivergence:
    r"""Debiased entropic divergence.

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
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    a, b = as_weights(a, len(x), "a"), as_weights(b, len(y), "b")
    cross = build_cost(x, y, order).matrix
    epsilon = _default_epsilon(cross, a, b) if epsilon is None else epsilon
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


def _default_epsilon(cost: Array, a: Array, b: Array) -> float:
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
    """``sinkhorn`` for a matrix of costs and masses that sum to 1; ``symmetric`` where a is b."""
    max_iterations = whole(max_iterations, "max_iterations", "option-epsilon")
    epsilon = real(epsilon, "epsilon", "option-epsilon")
    tolerance = real(tolerance, "tolerance", "option-epsilon")
    if epsilon < _SMALLEST * max(float(cost.max()), 1e-280) or tolerance <= 0 or penalty <= 0:
        raise InputError(
            f"epsilon is {epsilon!r}, tolerance {tolerance!r} and marginal_penalty {penalty!r}; "
            "positive ones and an epsilon that is not lost beside the costs are needed.",
            code="option-epsilon",
        )
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    all_used = len(rows) == len(a) and len(cols) == len(b)
    part = cost if all_used else np.ascontiguousarray(cost[np.ix_(rows, cols)])
    problem = Problem(part, a[rows], b[cols], penalty)
    found = solved(problem, epsilon, tolerance, max_iterations, symmetric=symmetric)
    f, g = found.f, found.g
    value = problem.value(f, g, found.epsilon, found.columns)
    if not all_used:
        swept = g
        f = _transform(cost[:, cols], g, problem.b, found.epsilon, penalty)
        g = _transform(cost[rows].T, f[rows], problem.a, found.epsilon, penalty)
        g[cols] = swept
    return EntropicPlan(
        (f, g), value, found.transport_cost, epsilon, found.error, found.sweeps,
        found.status(tolerance),
    )  # fmt: skip


def _transform(cost: Array, g: Array, b: Array, epsilon: float, penalty: float) -> Array:
    cost = np.ascontiguousarray(cost)
    problem = Problem(cost, np.ones(len(cost)), b, penalty)
    return sweep(problem, cost, g, epsilon)[0]
