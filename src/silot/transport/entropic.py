"""Entropic optimal transport in the log domain, and its debiased divergence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ._check import Array, as_order, as_points, as_weights, real, same_dimension, whole
from .cost import build_cost

_BLOCK = 1 << 18
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
        :math:`\min_P \langle P, C \rangle + \epsilon KL(P | a \otimes b)` at convergence.
    transport_cost
        ``<P, C>`` of the plan found.
    epsilon
        Regularisation used, in units of cost.
    marginal_error
        L1 error of the second marginal; the first is exact.
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
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> EntropicPlan:
    r"""Entropic transport between two weighted clouds.

    .. math:: OT_\epsilon = \min_{P \in \Pi(a, b)} \langle P, C \rangle
              + \epsilon\, KL(P \,|\, a \otimes b)

    Log-domain Sinkhorn: ``f`` and ``g`` are updated in turn with one exponential per entry and
    sweep. ``epsilon`` is annealed from the largest cost downwards by halves, and the sweeps end
    when the marginal error is below ``tolerance``.

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
        As ``exact_plan``; ``epsilon`` or ``tolerance`` not positive.

    Notes
    -----
    Feydy et al., *Interpolating between Optimal Transport and MMD using Sinkhorn Divergences*,
    2019, for the convention of the potentials.

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
    return _solve(cost, a, b, epsilon, tolerance, max_iterations)


def potentials_of(
    cost: Array, a: Array, b: Array, epsilon: float, *, symmetric: bool = False
) -> tuple[Array, bool]:
    """First potential of entropic transport for a cost matrix, and whether it converged."""
    found = _solve(cost, a, b, epsilon, 1e-7, 5000, symmetric=symmetric)
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
    parts = [_solve(cross, a, b, epsilon, tolerance, max_iterations, symmetric=same)]
    del cross
    for points, weights in ((x, a), (y, b)):
        own = build_cost(points, points, order).matrix
        parts.append(
            _solve(own, weights, weights, epsilon, tolerance, max_iterations, symmetric=True)
        )
    value = parts[0].value - 0.5 * parts[1].value - 0.5 * parts[2].value
    slow = [part for part in parts if not part.converged]
    # The divergence is never negative; what is below zero is the error of the three solves.
    return SinkhornDivergence(max(value, 0.0), epsilon, slow[0].status if slow else "converged")


def _default_epsilon(cost: Array, a: Array, b: Array) -> float:
    return _DEFAULT_SHARE * float(a @ cost @ b) or 1.0


def _solve(
    cost: Array,
    a: Array,
    b: Array,
    epsilon: float,
    tolerance: float,
    max_iterations: int,
    *,
    symmetric: bool = False,
) -> EntropicPlan:
    max_iterations = whole(max_iterations, "max_iterations", "option-epsilon")
    epsilon = real(epsilon, "epsilon", "option-epsilon")
    tolerance = real(tolerance, "tolerance", "option-epsilon")
    if epsilon < _SMALLEST * max(float(cost.max()), 1e-280) or tolerance <= 0:
        raise InputError(
            f"epsilon is {epsilon!r} and tolerance {tolerance!r}; a positive tolerance and an "
            "epsilon that is not lost beside the costs are needed.",
            code="option-epsilon",
        )
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    all_used = len(rows) == len(a) and len(cols) == len(b)
    part = cost if all_used else np.ascontiguousarray(cost[np.ix_(rows, cols)])
    weights_a, weights_b = a[rows], b[cols]
    found = _swept(part, weights_a, weights_b, epsilon, tolerance, max_iterations, symmetric)
    f, g = found.f, found.g
    transport_cost = _transport_cost(part, f, g, weights_a, weights_b, found.epsilon)
    value = float(weights_a @ f + weights_b @ g)
    if not all_used:
        swept = g
        f = _soft_transform(cost[:, cols], g, weights_b, found.epsilon)
        g = _soft_transform(cost[rows].T, f[rows], weights_a, found.epsilon)
        g[cols] = swept
    return EntropicPlan(
        (f, g), value, transport_cost, epsilon, found.error, found.sweeps, found.status(tolerance)
    )


@dataclass(frozen=True, eq=False)
class _Swept:
    """Potentials, and the regularisation at which the last of the sweeps was made."""

    f: Array
    g: Array
    epsilon: float
    error: float
    sweeps: int
    converged: bool

    def status(self, tolerance: float) -> str:
        if self.converged:
            return "converged"
        return (
            f"stopped after {self.sweeps} sweeps with marginal error {self.error:.1e} above "
            f"{tolerance:.1e}: raise max_iterations or epsilon."
        )


def _swept(
    cost: Array,
    a: Array,
    b: Array,
    epsilon: float,
    tolerance: float,
    max_iterations: int,
    symmetric: bool,
) -> _Swept:
    """Sweep from a large regularisation down to ``epsilon``, until the marginals fit."""
    g = np.zeros(len(b))
    current = max(float(cost.max()), epsilon) if max_iterations > 1 else epsilon
    sweeps = 0
    while True:
        f, column_sums = _sweep(cost, g, a, b, current)
        sweeps += 1
        error = float(np.abs(column_sums - b).sum())
        converged = current <= epsilon and error < tolerance
        if converged or sweeps == max_iterations:
            return _Swept(f, g, current, error, sweeps, converged)
        if symmetric:
            # Both potentials are one: alternating updates overshoot it, their mean does not.
            g = 0.5 * (f + g)
        else:
            tiny = np.finfo(np.float64).tiny
            g = g + current * (np.log(b) - np.log(np.maximum(column_sums, tiny)))
        # The last sweep is at epsilon itself, so that potentials and value are its own.
        last = sweeps == max_iterations - 1
        current = epsilon if last else max(0.5 * current, epsilon)


def _sweep(cost: Array, g: Array, a: Array, b: Array, epsilon: float) -> tuple[Array, Array]:
    """Update f, and return the column sums of the plan, with one exponential per entry."""
    n, m = cost.shape
    shifted = g / epsilon + np.log(b)
    f = np.empty(n)
    column_sums = np.zeros(m)
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        kernel = cost[start : start + step] * (-1.0 / epsilon)
        kernel += shifted
        peak = kernel.max(axis=1)
        kernel -= peak[:, None]
        np.exp(kernel, out=kernel)
        total = kernel.sum(axis=1)
        f[start : start + step] = -epsilon * (peak + np.log(total))
        column_sums += (a[start : start + step] / total) @ kernel
    return f, column_sums


def _soft_transform(cost: Array, g: Array, b: Array, epsilon: float) -> Array:
    return _sweep(np.ascontiguousarray(cost), g, np.ones(len(cost)), b, epsilon)[0]


def _transport_cost(cost: Array, f: Array, g: Array, a: Array, b: Array, epsilon: float) -> float:
    total = 0.0
    step = max(1, _BLOCK // cost.shape[1])
    for start in range(0, len(cost), step):
        block = cost[start : start + step]
        plan = np.exp((f[start : start + step, None] + g - block) / epsilon)
        total += float(a[start : start + step] @ (plan * block) @ b)
    return total
