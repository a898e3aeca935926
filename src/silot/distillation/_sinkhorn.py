r"""Entropic transport between many pairs of distributions over few labels, converged.

Sinkhorn's iterations in the log domain, from a large epsilon down to the wanted one, each followed
by a Newton step on the same dual where that step raises it. Iterations alone need thousands of
rounds at a small epsilon; with the steps it is tens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import SolverError

Array = npt.NDArray[np.float64]
Solved = tuple[Tensor, Tensor, Tensor]

# Epsilon falls by this factor when the marginals' L1 error is below this, or after so many rounds.
_FALL, _NEAR, _ROUNDS = 0.5, 0.05, 20
# Rounds at the wanted epsilon.
_MOST = 2000
# Newton steps are no longer than this many epsilons at first; each problem's limit is multiplied
# by the second where a step helps and by the third where it does not. Where hardly any mass moves
# the dual is flat until it is not, and a full step overshoots.
_STEP, _LONGER, _SHORTER = 2.0, 2.0, 0.25
# How steeply, for its slope at the start, the dual may fall at the end of a step.
_STEEP = 0.5
# Above 1 by more than rounding: where labels fall apart into groups that exchange no mass a step
# would otherwise point downhill.
_REGULAR = 1.0 + 1e-10
# What rounding alone can do to the sum of a row.
_ROUNDING = 1e-15


def entropic(p: Tensor, q: Tensor, cost: Array, epsilon: float, tolerance: float) -> Solved:
    r"""Solve :math:`T_\varepsilon(p, q)` for every row.

    Rows of the plan are exact. Both g and an optimal one are soft minima of costs, hence within
    the largest cost D in range, and with an L1 error e of the columns the dual value is no more
    than e D below :math:`T_\varepsilon`.

    Parameters
    ----------
    p, q
        Shape (n, L), float64; rows are divided by their sums.
    cost
        Shape (L, L), finite, zero diagonal, 0 or more.
    epsilon
        In the unit of the cost.
    tolerance
        Largest share of the value by which it may be off.

    Raises
    ------
    SolverError
        Problems that have not converged.
    """
    p, q = p.clamp_min(0.0), q.clamp_min(0.0)
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    matrix = torch.from_numpy(cost.copy()).to(p.device)
    diameter = float(cost.max())
    least = _ROUNDING * p.shape[1] * (10.0 + diameter / epsilon)

    def near(now: _Round) -> Tensor:
        return now.error <= _NEAR

    def done(now: _Round) -> Tensor:
        wanted = tolerance * now.value / diameter
        return now.error <= wanted.clamp(least, max(least, 1e-3 * tolerance))

    g = torch.zeros_like(q)
    level = diameter
    while level > epsilon:
        _rise(p, q, matrix, level, g, near, _ROUNDS)
        level *= _FALL
    left = _rise(p, q, matrix, epsilon, g, done, _MOST)
    if left:
        raise SolverError(
            f"{left} of {len(p)} entropic problems have not converged after {_MOST} rounds "
            f"at epsilon {epsilon:g} (largest cost {diameter:g}). Use a larger epsilon, or "
            f"epsilon=None for exact transport.",
            code="sinkhorn-not-converged",
        )
    final = _Round(p, q, matrix, epsilon, g)
    return final.value, final.f, g


def _rise(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    epsilon: float,
    g: Tensor,
    enough: Callable[[_Round], Tensor],
    most: int,
) -> int:
    """Improve the rows of ``g`` in place until they are good enough; how many are not."""
    active = torch.arange(len(p), device=p.device)
    limit = torch.full((len(p), 1), _STEP * epsilon, dtype=p.dtype, device=p.device)
    now = _Round(p, q, cost, epsilon, g)
    for _ in range(most):
        plain = now.at(_softmin(now.p, cost.T, epsilon, now.f))
        g[active] = plain.g
        left = ~enough(plain)
        if not left.all():
            active, limit, plain = active[left], limit[left], plain.of(left)
        if len(active) == 0:
            return 0
        step = plain.newton()
        size = step.abs().amax(1, keepdim=True)
        step = step * (limit / size.clamp_min(limit))
        bold = plain.at(plain.g + step)
        # The dual is concave: as long as it still rises at the end of the step, or does not fall
        # steeply there, the step went up. Values themselves would drown in rounding.
        before, after = plain.slope(step), bold.slope(step)
        helps = ((before > 0) & (after >= -_STEEP * before))[:, None]
        limit = limit * torch.where(helps, _LONGER, _SHORTER)
        now = bold.where(helps, plain)
    return len(active)


class _Round:
    """Where potentials g of q lead: potentials f of p that make rows exact, columns, value."""

    def __init__(self, p: Tensor, q: Tensor, cost: Tensor, epsilon: float, g: Tensor) -> None:
        self.p, self.q, self.cost, self.epsilon, self.g = p, q, cost, epsilon, g
        exponents = q.log()[:, None] + (g[:, None] - cost) / epsilon
        total = exponents.logsumexp(2, keepdim=True)
        self.f = -epsilon * total[:, :, 0]
        self.shares = (exponents - total).exp()
        self.columns = (p[:, :, None] * self.shares).sum(1)
        self.value = (p * self.f).sum(1) + (q * g).sum(1)
        self.error = (q - self.columns).abs().sum(1)

    def at(self, g: Tensor) -> _Round:
        return _Round(self.p, self.q, self.cost, self.epsilon, g)

    def of(self, rows: Tensor) -> _Round:
        return _Round(self.p[rows], self.q[rows], self.cost, self.epsilon, self.g[rows])

    def where(self, helps: Tensor, other: _Round) -> _Round:
        return self.at(torch.where(helps, self.g, other.g))

    def slope(self, step: Tensor) -> Tensor:
        """How fast the value changes along a step of g."""
        return ((self.q - self.columns) * step).sum(1)

    def newton(self) -> Tensor:
        """Newton's step on the dual as a function of g alone, f being optimal for it."""
        columns = self.columns
        used = columns > 0
        root = torch.where(used, columns, 1.0).sqrt()
        # The Hessian, scaled to a unit diagonal where hardly any mass arrives. Adding a constant
        # to g changes nothing: the second term makes that direction regular.
        weighted = self.shares * self.p[:, :, None]
        joint = self.shares.transpose(1, 2) @ weighted / (root[:, :, None] * root[:, None])
        unit = torch.where(used, root, 0.0)
        hessian = _REGULAR * torch.eye(len(self.cost), dtype=root.dtype, device=root.device) - joint
        hessian = hessian + unit[:, :, None] * unit[:, None]
        wanted = torch.where(used, (self.q - columns) / root, 0.0)
        solved, _ = torch.linalg.solve_ex(hessian, wanted[:, :, None])
        step = self.epsilon * solved[:, :, 0] / root
        return torch.where(used & step.isfinite(), step, 0.0)


def _softmin(weights: Tensor, cost: Tensor, epsilon: float, potentials: Tensor) -> Tensor:
    exponents = weights.log()[:, None] + (potentials[:, None] - cost) / epsilon
    return -epsilon * exponents.logsumexp(2)
