r"""Transport between many pairs of distributions over few labels, with its potentials.

Exact transport is a sum on a line, and else the work of a compiled kernel (shortest augmenting
paths), whose every answer is proven by a flow that costs what the potentials are worth. Entropic
transport is Sinkhorn's iterations in the log domain, from a large epsilon down to the wanted one,
each followed by a Newton step on the same dual where that step raises it. Iterations alone need
thousands of rounds at a small epsilon; with the steps it is tens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from silot_transport import _native, plan_from_cost

from ..errors import SolverError

Array = npt.NDArray[np.float64]
Solution = tuple[Tensor, Tensor, Tensor]
"""Values (n,), potentials of p (n, L), potentials of q (n, L)."""

# The largest gap between cost and dual value, as a share of the cost, that counts as none: far
# above the rounding of sums of some hundred terms, far below what a user could notice.
_GAP = 1e-9

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


def solve_exact(p: Tensor, q: Tensor, cost: Array, positions: Array | None) -> Solution:
    """Compute ``W(p, q)`` for every row of (n, L), divided by its sum.

    ``cost`` (L, L) is a metric, and ``positions`` (L,) are where labels lie on a line, if they do.
    """
    change = _subtract(p, q)
    if positions is None:
        f = torch.from_numpy(find_potentials(change.cpu().numpy(), cost)).to(p.device)
    else:
        f = _solve_on_line(change, torch.from_numpy(positions.copy()).to(p.device))
    # |<f, d>|, since two potentials that tie can differ in sign by rounding.
    values = (f * change).sum(1).abs()
    of_p, of_q = f, -f
    # Where neither side has mass any lower potential would do. The highest is the derivative of a
    # little mass put there.
    rows = ((p == 0) & (q == 0)).any(1).nonzero()[:, 0]
    if len(rows):
        matrix, inner = torch.from_numpy(cost.copy()).to(p.device), f[rows]
        of_p, of_q = of_p.clone(), of_q.clone()
        of_p[rows] = torch.where(q[rows, None] > 0, matrix + inner[:, None], torch.inf).amin(2)
        of_q[rows] = torch.where(p[rows, None] > 0, matrix - inner[:, None], torch.inf).amin(2)
    return values, of_p, of_q


def _subtract(p: Tensor, q: Tensor) -> Tensor:
    """Compute ``p / sum(p) - q / sum(q)`` without losing the digits of small differences."""
    change = p - q
    excess = change.sum(1, keepdim=True) / q.sum(1, keepdim=True)
    return (change - q * excess) / p.sum(1, keepdim=True)


def _solve_on_line(change: Tensor, positions: Tensor) -> Tensor:
    places, order = positions.sort()
    passing = change[:, order].cumsum(1)[:, :-1]
    # W1 is the sum of |CDF difference| * gap; each label's derivative sums over the gaps after it.
    slopes = passing.sign() * places.diff()
    f = torch.zeros_like(change)
    f[:, order[:-1]] = slopes.flip(1).cumsum(1).flip(1)
    return f


def find_potentials(change: Array, cost: Array) -> Array:
    """Compute potentials f with ``f_i - f_j <= cost_ij`` that are best for every row of ``change``.

    Rows (n, L) sum to 0, and the costs (L, L) are a metric.
    """
    surplus, deficit = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    # Each side by itself: where hardly any mass moves, rounding makes their sums unlike.
    totals = surplus.sum(axis=1), deficit.sum(axis=1)
    f = np.zeros_like(change)
    unsolved = (totals[0] > 0) & (totals[1] > 0)
    if _native.kernels is not None:
        paid, tiny = np.empty(len(change)), np.finfo(np.float64).tiny
        _native.kernels.labels(np.ascontiguousarray(cost), np.ascontiguousarray(change), f, paid)
        ins, outs = (np.maximum(total, tiny) for total in totals)
        value = (f * surplus).sum(axis=1) / ins - (f * deficit).sum(axis=1) / outs
        unsolved = ~(paid - value <= _GAP * paid)
    # One by one without kernels, and where costs are so unlike that rounding or ties got in the
    # way of a proof.
    for row in np.flatnonzero(unsolved):
        plan = plan_from_cost(cost, surplus[row] / totals[0][row], deficit[row] / totals[1][row])
        into = deficit[row] > 0
        f[row] = (cost[:, into] - plan.potentials[1][into]).min(axis=1)
    return f


def solve_entropic(p: Tensor, q: Tensor, cost: Array, epsilon: float, tolerance: float) -> Solution:
    r"""Compute :math:`T_\varepsilon(p, q)` for every row of (n, L), divided by its sum.

    Rows of the plan are exact. Both g and an optimal one are soft minima of costs, hence within the
    largest cost D in range, and with an L1 error e of the columns the dual value is no more than e
    D below :math:`T_\varepsilon`. ``tolerance`` is the largest share of the value by which it may
    be off.
    """
    p, q = p.clamp_min(0.0), q.clamp_min(0.0)
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    matrix = torch.from_numpy(cost.copy()).to(p.device)
    diameter = float(cost.max())
    least = _ROUNDING * p.shape[1] * (10.0 + diameter / epsilon)

    def is_near(now: _Round) -> Tensor:
        return now.error <= _NEAR

    def is_done(now: _Round) -> Tensor:
        wanted = tolerance * now.value / diameter
        return now.error <= wanted.clamp(least, max(least, 1e-3 * tolerance))

    g = torch.zeros_like(q)
    level = diameter
    while level > epsilon:
        _raise_dual(p, q, matrix, level, g, is_near, _ROUNDS)
        level *= _FALL
    unsolved = _raise_dual(p, q, matrix, epsilon, g, is_done, _MOST)
    if unsolved:
        raise SolverError(
            f"{unsolved} of {len(p)} entropic problems have not converged after {_MOST} rounds "
            f"at epsilon {epsilon:g} (largest cost {diameter:g}). Use a larger epsilon, or "
            f"epsilon=None for exact transport.",
            code="sinkhorn-not-converged",
        )
    final = _Round(p, q, matrix, epsilon, g)
    return final.value, final.f, g


def _raise_dual(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    epsilon: float,
    g: Tensor,
    is_enough: Callable[[_Round], Tensor],
    most: int,
) -> int:
    """Improve the rows of ``g`` in place until they are good enough; count those that are not."""
    active = torch.arange(len(p), device=p.device)
    limit = torch.full((len(p), 1), _STEP * epsilon, dtype=p.dtype, device=p.device)
    now = _Round(p, q, cost, epsilon, g)
    for _ in range(most):
        plain = now.at(_softmin(now.p, cost.T, epsilon, now.f))
        g[active] = plain.g
        open_rows = ~is_enough(plain)
        if not open_rows.all():
            active, limit, plain = active[open_rows], limit[open_rows], plain.select(open_rows)
        if len(active) == 0:
            return 0
        step = plain.newton_step()
        size = step.abs().amax(1, keepdim=True)
        step = step * (limit / size.clamp_min(limit))
        bold = plain.at(plain.g + step)
        # The dual is concave: as long as it still rises at the end of the step, or does not fall
        # steeply there, the step went up. Values themselves would drown in rounding.
        before, after = plain.slope(step), bold.slope(step)
        helps = ((before > 0) & (after >= -_STEEP * before))[:, None]
        limit = limit * torch.where(helps, _LONGER, _SHORTER)
        now = plain.at(torch.where(helps, bold.g, plain.g))
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
        """Compute the round of the same problems at other potentials."""
        return _Round(self.p, self.q, self.cost, self.epsilon, g)

    def select(self, rows: Tensor) -> _Round:
        """Compute the round of a part of the problems."""
        return _Round(self.p[rows], self.q[rows], self.cost, self.epsilon, self.g[rows])

    def slope(self, step: Tensor) -> Tensor:
        """Compute how fast the value changes along a step of g."""
        return ((self.q - self.columns) * step).sum(1)

    def newton_step(self) -> Tensor:
        """Compute Newton's step on the dual as a function of g alone, f being optimal for it."""
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
