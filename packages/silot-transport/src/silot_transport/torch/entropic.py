"""Entropic transport of tensors: divergence with its gradient, potentials, and certified bounds.

The compiled kernels sweep a matrix of costs where it is on the host; elsewhere costs are computed
tile by tile on the device of the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from .._check import Array, as_order, integer, real
from .._sweep import Product, Sweep, iterate, single_suits
from ..cost import build_cost
from ..entropic import entropic_plan
from ..errors import InputError, MismatchError, SolverError
from ..memory import fits
from ._autograd import need_gradients, uncompiled, with_slopes
from ._pairs import Four, Pairs, Weights

# Costs of a tile: what a cache of the host holds, and what keeps an accelerator busy.
_TILE, _LARGE_TILE = 1 << 18, 1 << 24
# Entries of a matrix of costs that is kept: 1 GiB.
_LARGEST_MATRIX = 1 << 27
# Smallest regularisation as a share of the largest cost: below, potentials keep no digits of it.
_SMALLEST = 1e-14
# Relative room for the rounding of sums.
_ROUNDING = 1e-12


@uncompiled
def sinkhorn_divergence(
    x: Tensor, y: Tensor, a: Weights = None, b: Weights = None,
    *, epsilon: float, p: int = 2, tolerance: float = 1e-8, max_iterations: int = 5000,
) -> Tensor:  # fmt: skip
    r"""Compute the debiased entropic divergence of weighted clouds, with its gradient.

    .. math:: S_\epsilon(\mu, \nu) = OT_\epsilon(\mu, \nu) - \tfrac12 OT_\epsilon(\mu, \mu)
              - \tfrac12 OT_\epsilon(\nu, \nu)

    as ``silot_transport.sinkhorn_divergence``: zero for equal measures, and ``W_p^p`` as epsilon
    tends to zero. The iteration is in the log domain; the gradient is that of the dual at its
    optimum (envelope theorem), so nothing is kept of the iterations. On the host the compiled
    kernels sweep a matrix of costs of up to 1 GiB; larger problems, and those on an accelerator,
    are swept by tiles of the matrix, where they are.

    Parameters
    ----------
    x, y, a, b, p
        As ``wasserstein``.
    epsilon
        Regularisation in units of ``|x - y|^p``.
    tolerance
        Largest L1 error of the marginals; errors of the gradient are of its order.
    max_iterations
        Most sweeps over the costs of each of the three problems.

    Returns
    -------
    torch.Tensor
        Shape (...).

    Raises
    ------
    InputError, MismatchError
        As ``wasserstein``; ``epsilon`` or ``tolerance`` not positive.
    SolverError
        Marginals that are not within the tolerance (``"sinkhorn-iterations"``).

    Notes
    -----
    Feydy et al., *Interpolating between Optimal Transport and MMD using Sinkhorn Divergences*,
    2019.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
    >>> value = sinkhorn_divergence(x, torch.tensor([[2.0], [3.0]]), epsilon=0.1)
    >>> value.backward()
    >>> round(value.item(), 6), [[round(g, 6) for g in row] for row in x.grad.tolist()]
    (4.0, [[-2.0], [-2.0]])
    """
    effort = Effort(epsilon, as_order(p), tolerance, max_iterations)
    pairs = Pairs.of(x, y, a, b)
    needs = need_gradients(pairs.inputs)
    solved = [_divergence(pair, effort, needs, pairs.dtype) for pair in pairs.split()]
    values = torch.tensor([value for value, _ in solved], dtype=torch.float64, device=x.device)
    slopes = [
        torch.stack([gradients[side] for _, gradients in solved]) if is_needed else None
        for side, is_needed in enumerate(needs)
    ]
    return pairs.shape_results(with_slopes(values, pairs.inputs, slopes))


@uncompiled
def potentials(
    x: Tensor, y: Tensor, a: Weights = None, b: Weights = None,
    *, epsilon: float, p: int = 2, tolerance: float = 1e-6, max_iterations: int = 5000,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute potentials (f, g) of entropic transport, (..., n) and (..., m), without gradients.

    Parameters
    ----------
    x, y, a, b, epsilon, p, tolerance, max_iterations
        As ``sinkhorn_divergence``.

    Returns
    -------
    tuple of torch.Tensor
        Float64: their sums have more digits than single precision.

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``sinkhorn_divergence``.

    Examples
    --------
    >>> import torch
    >>> x, y = torch.tensor([[0.0]]), torch.tensor([[2.0]])
    >>> f, g = potentials(x, y, epsilon=0.1)
    >>> (f + g).tolist()
    [4.0]
    """
    effort = Effort(epsilon, as_order(p), tolerance, max_iterations)
    pairs = Pairs.of(x, y, a, b)
    solved = [solve(*pair, effort) for pair in pairs.split()]
    f, g = (torch.stack([getattr(plan, name) for plan in solved]) for name in ("f", "g"))
    return f.reshape(*pairs.shape, -1), g.reshape(*pairs.shape, -1)


def _divergence(
    pair: Four, effort: Effort, needs: Sequence[bool], dtype: torch.dtype
) -> tuple[float, list[Tensor]]:
    """Return the divergence of one pair, and its gradients by x, y, a and b."""
    x, y, a, b = pair
    # A measure against itself is solved by the symmetric iteration throughout, so that all cancels.
    same = torch.equal(x, y) and torch.equal(a, b)
    across = solve(x, y, a, b, effort, symmetric=same)
    value, moves = across.value, list(across.slopes(needs[0], needs[1], dtype))
    masses = [across.f, across.g]
    del across
    for side, (points, weights) in enumerate(((x, a), (y, b))):
        own = solve(points, points, weights, weights, effort, symmetric=True)
        value -= 0.5 * own.value
        if needs[side]:
            moves[side] = moves[side] - 0.5 * _compute_own_gradient(own, dtype)
        masses[side] = masses[side] - 0.5 * (own.f + own.g)
    # Never negative; what is below zero is the error of the three solves.
    return max(value, 0.0), [*moves, *masses]


def _compute_own_gradient(own: Entropic, dtype: torch.dtype) -> Tensor:
    """Return the gradient of a measure against itself, by both of its places."""
    first, second = own.slopes(True, True, dtype)
    return first + second


class Bounds(NamedTuple):
    """``lower <= W_p^p <= upper``, shapes (...), float64."""

    lower: Tensor
    upper: Tensor


@uncompiled
def bounds(
    x: Tensor,
    y: Tensor,
    potentials: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    epsilon: float,
    p: int = 2,
) -> Bounds:
    r"""Bound ``W_p^p`` by potentials of y: whatever they are, and closely for good ones.

    Below, the value of the dual at their transforms (c-transform) :math:`f_i = \min_j |x_i - y_j|^p
    - g_j` and :math:`\min_i |x_i - y_j|^p - f_i`. Above, the cost of the entropic plan of g after
    its marginals are repaired: columns that have too much are scaled down, and the mass that then
    remains goes from everywhere to everywhere. Both are computed by tiles in double precision on
    the device of the tensors, and widened by a bound of the rounding.

    Parameters
    ----------
    x, y, a, b, p
        As ``wasserstein``.
    potentials
        ``g``, shape (..., m), as ``silot_transport.torch.potentials`` or ``exact_plan`` give them.
    epsilon
        Regularisation of the plan above; that which the potentials are of.

    Returns
    -------
    Bounds
        Without gradients.

    Raises
    ------
    InputError, MismatchError
        As ``sinkhorn_divergence``; potentials of another shape, or not finite.

    Notes
    -----
    Altschuler, Weed and Rigollet, *Near-linear time approximation algorithms for optimal transport
    via Sinkhorn iteration*, 2017, algorithm 2, for the repaired plan.

    Examples
    --------
    >>> import torch
    >>> from silot_transport.torch import potentials
    >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [3.0]])
    >>> _, g = potentials(x, y, epsilon=0.1)
    >>> lower, upper = bounds(x, y, g, epsilon=0.1)
    >>> bool(lower <= 4.0) and bool(upper >= 4.0)
    True
    """
    effort = Effort(epsilon, as_order(p), 1.0, 1)
    pairs = Pairs.of(x, y, a, b)
    g = _check_potentials(potentials, pairs)
    both = [_bound(*pair, row, effort) for pair, row in zip(pairs.split(), g, strict=True)]
    lower, upper = torch.tensor(both, dtype=torch.float64, device=x.device).T
    return Bounds(lower.reshape(pairs.shape), upper.reshape(pairs.shape))


def _check_potentials(potentials: Tensor, pairs: Pairs) -> Tensor:
    size = pairs.y.shape[1]
    try:
        g = potentials.detach().expand(*pairs.shape, size).reshape(-1, size)
    except RuntimeError:
        raise MismatchError(
            f"potentials have shape {tuple(potentials.shape)}; one for each of the {size} points "
            "of y is needed.",
            code="weights-length",
        ) from None
    if not bool(g.isfinite().all()):
        raise MismatchError("potentials have values that are not finite.", code="measure-nan")
    return g.to(pairs.y.device, torch.float64)


def _bound(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, g: Tensor, effort: Effort
) -> tuple[float, float]:
    tiles = Tiles.of(x, y, effort.p)
    digits = float(torch.finfo(torch.float64).eps)
    # No cost, and no sum of costs with weights of sum 1, is off by more.
    room = 4.0 * (x.shape[1] + 8) * digits * tiles.largest
    f = _transform_exactly(tiles, g)
    g_best = _transform_exactly(tiles.transposed, f)
    lower = float(a @ f + b @ g_best) - 2.0 * room
    lower -= _ROUNDING * float(a @ f.abs() + b @ g_best.abs())
    upper = _compute_repaired_cost(tiles, a, b, g, effort.epsilon)
    return max(lower, 0.0), upper * (1.0 + _ROUNDING) + room


def _transform_exactly(tiles: Tiles, g: Tensor) -> Tensor:
    """Return the largest feasible f (c-transform) for g."""
    return torch.cat([tiles.cost(rows).sub_(g).amin(1) for rows in tiles.rows()])


def _compute_repaired_cost(tiles: Tiles, a: Tensor, b: Tensor, g: Tensor, epsilon: float) -> float:
    """Return the cost of the entropic plan of g after its marginals are made a and b."""
    f_array, columns, _ = TiledProblem(tiles, a, b).exact()(g.cpu().numpy(), epsilon)
    f, sums = (torch.from_numpy(k).to(a.device) for k in (f_array, columns))
    scale = torch.where(sums > b, b / sums, 1.0)
    lacking = (b - sums * scale).clamp(min=0.0)
    shifted = g / epsilon + b.log()
    total_cost, excess = 0.0, torch.zeros_like(a)
    spread = torch.zeros_like(a)
    for rows in tiles.rows():
        cost = tiles.cost(rows)
        plan = (cost * (-1.0 / epsilon)).add_(shifted).add_(f[rows, None] / epsilon).exp_()
        plan.mul_(scale).mul_(a[rows, None])
        excess[rows] = a[rows] - plan.sum(1)
        spread[rows] = cost @ lacking
        total_cost += float((plan * cost).sum())
    # Sums are rounded: the mass that they miss is charged the largest cost.
    missed = float((-excess).clamp(min=0.0).sum()) + 1e-15 * len(a)
    remainder = excess.clamp(min=0.0)
    total = max(float(lacking.sum()), float(remainder.sum()))
    if total > 0.0:
        total_cost += float(remainder @ spread) / total
    missed += abs(float(lacking.sum()) - float(remainder.sum()))
    return total_cost + missed * tiles.largest


@dataclass(frozen=True)
class Effort:
    """Options of an entropic problem."""

    epsilon: float
    """Regularisation, in units of cost."""
    p: int
    """Order."""
    tolerance: float
    """L1 error of the marginals."""
    most: int
    """Sweeps over the costs."""

    def __post_init__(self) -> None:
        integer(self.most, "max_iterations", "option-epsilon")
        for name in ("epsilon", "tolerance"):
            value = getattr(self, name)
            if not real(value, name, "option-epsilon") > 0.0:
                raise InputError(
                    f"{name} is {value!r}; a positive one is needed.", code="option-epsilon"
                )


@dataclass(frozen=True, eq=False)
class Entropic:
    """Potentials of a pair, and the costs that they are of."""

    tiles: Tiles
    a: Tensor
    b: Tensor
    f: Tensor
    g: Tensor
    epsilon: float

    @property
    def value(self) -> float:
        """The dual value."""
        return float(self.a @ self.f + self.b @ self.g)

    def plan(self, rows: slice, cost: Tensor, dtype: torch.dtype) -> Tensor:
        """Compute these rows of the plan, from their costs."""
        level = self.f[rows, None] / self.epsilon + self.a[rows, None].log()
        power = (cost * (-1.0 / self.epsilon)).add_(level)
        power += self.g / self.epsilon + self.b.log()
        return power.to(dtype).exp_()

    def slopes(self, first: bool, second: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Compute the gradients by x and y; one that is not wanted is zero."""
        x, y = self.tiles.x.to(dtype), self.tiles.y.to(dtype)
        by_x, by_y = torch.zeros_like(x), torch.zeros_like(y)
        for rows in self.tiles.rows():
            cost = self.tiles.cost(rows)
            pull = self.plan(rows, cost, dtype)
            if self.tiles.p == 2:
                pull.mul_(2.0)
            else:
                pull = torch.where(cost > 0.0, pull / cost, 0.0).to(dtype)
            if first:
                by_x[rows] = pull.sum(1)[:, None] * x[rows] - pull @ y
            if second:
                by_y += pull.sum(0)[:, None] * y - pull.T @ x[rows]
        return by_x.double(), by_y.double()


def solve(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, effort: Effort, *, symmetric: bool = False
) -> Entropic:
    """Solve for clouds (n, d), (m, d) and masses of sum 1, all without gradients.

    Raises
    ------
    InputError
        An epsilon that is lost beside the costs (``"option-epsilon"``).
    SolverError
        Marginals that are not within the tolerance (``"sinkhorn-iterations"``).
    """
    is_small = x.device.type == "cpu" and len(x) * len(y) <= _LARGEST_MATRIX
    run = _solve_by_kernels if is_small and fits(len(x), len(y), x.shape[1]) else _solve_by_tiles
    tiles, f, g, status = run(x, y, a, b, effort, symmetric)
    if status != "converged":
        raise SolverError(
            f"{status} Before that, neither value nor gradient is accurate.",
            code="sinkhorn-iterations",
        )
    return Entropic(tiles, a, b, f, g, effort.epsilon)


def _solve_by_kernels(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, effort: Effort, symmetric: bool
) -> tuple[Tiles, Tensor, Tensor, str]:
    """Solve with a matrix of costs; return it, the potentials and a status."""
    matrix = build_cost(x.numpy(), y.numpy(), effort.p).matrix
    plan = entropic_plan(
        matrix, a.numpy(), b.numpy(), effort.epsilon, effort.tolerance, effort.most,
        symmetric=symmetric,
    )  # fmt: skip
    f, g = (torch.from_numpy(k) for k in plan.potentials)
    return Tiles.of(x, y, effort.p, torch.from_numpy(matrix)), f, g, plan.status


def _solve_by_tiles(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, effort: Effort, symmetric: bool
) -> tuple[Tiles, Tensor, Tensor, str]:
    """Solve on the device of the tensors, whose costs are computed again in every sweep."""
    tiles = Tiles.of(x, y, effort.p)
    if effort.epsilon < _SMALLEST * tiles.largest:
        raise InputError(
            f"epsilon is {effort.epsilon!r}, which is negligible beside the costs.",
            code="option-epsilon",
        )
    rows, columns = a > 0.0, b > 0.0
    used = Tiles(tiles.x[rows], tiles.y[columns], effort.p)
    problem = TiledProblem(used, a[rows], b[columns])
    end = iterate(problem, effort.epsilon, effort.tolerance, effort.most, symmetric=symmetric)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    f[rows], g[columns] = (torch.from_numpy(k).to(x.device) for k in (end.f, end.g))
    # Points without mass get the potentials that a sweep would give them.
    if not bool(rows.all()):
        f = _transform(Tiles(tiles.x, used.y, effort.p), end.g, b[columns], effort.epsilon)
    if not bool(columns.all()):
        idle = _transform(Tiles(tiles.y, used.x, effort.p), end.f, a[rows], effort.epsilon)
        g = torch.where(columns, g, idle)
    return tiles, f, g, end.status(effort.tolerance)


def _transform(tiles: Tiles, g: Array, b: Tensor, epsilon: float) -> Tensor:
    problem = TiledProblem(tiles, torch.ones_like(tiles.x[:, 0]), b)
    return torch.from_numpy(problem.exact()(g, epsilon)[0]).to(b.device)


@dataclass(frozen=True, eq=False)
class Tiles:
    """``|x_i - y_j|^p`` for points (n, d) and (m, d), of the matrix where there is one."""

    x: Tensor
    y: Tensor
    p: int
    matrix: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, y: Tensor, p: int, matrix: Tensor | None = None) -> Tiles:
        """Make tiles of points around a common centre, where no offset costs digits."""
        centre = 0.5 * (x.mean(0) + y.mean(0))
        return cls(x - centre, y - centre, p, matrix)

    @property
    def transposed(self) -> Tiles:
        """The costs from y to x."""
        return Tiles(self.y, self.x, self.p, None if self.matrix is None else self.matrix.T)

    @property
    def largest(self) -> float:
        """A cost that no other exceeds."""
        lengths = [float(k.square().sum(1).max()) ** 0.5 for k in (self.x, self.y)]
        return max(sum(lengths) ** self.p, 1e-300)

    def rows(self) -> Iterator[slice]:
        """Iterate over the rows of the tiles."""
        size = _TILE if self.x.device.type == "cpu" else _LARGE_TILE
        step = max(1, size // len(self.y))
        return (slice(start, start + step) for start in range(0, len(self.x), step))

    def cost(self, rows: slice, dtype: torch.dtype = torch.float64) -> Tensor:
        """Compute a tile."""
        if self.matrix is not None:
            return self.matrix[rows].to(dtype)
        x, y = self.x[rows].to(dtype), self.y.to(dtype)
        if self.p == 1:
            # From differences: the root of a rounded square is far from zero.
            return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
        cost = torch.addmm(y.square().sum(1), x, y.T, alpha=-2.0)
        return cost.add_(x.square().sum(1)[:, None]).clamp_(min=0.0)


@dataclass(frozen=True, eq=False)
class TiledProblem:
    """Entropic transport whose costs are computed in every sweep (``_sweep.Sweepable``)."""

    tiles: Tiles
    a: Tensor
    mass: Tensor

    @property
    def b(self) -> Array:
        """Masses of the columns."""
        return self.mass.cpu().numpy()

    @property
    def largest(self) -> float:
        """A cost that no other exceeds."""
        return self.tiles.largest

    @property
    def penalty(self) -> float:
        """Marginals hold."""
        return math.inf

    def exact_start(self) -> None:
        """Return nothing: there is no matrix to solve."""

    def value(self, f: Array, g: Array, epsilon: float, columns: Array) -> float:
        """Return the dual value."""
        return float(self.a.cpu().numpy() @ f + self.b @ g)

    def curvature(
        self, f: Array, g: Array, sizes: Array, epsilon: float, *, single: bool
    ) -> tuple[Array, Product]:
        """Compute K again in every product."""
        # A share of the largest exponent is lost in single precision.
        is_fine = single and single_suits(self.largest, epsilon)
        dtype = torch.float32 if is_fine else torch.float64
        device = self.mass.device
        level, price, size = (torch.from_numpy(k).to(device) for k in (f, g, sizes))
        levels = (level / epsilon + 0.5 * self.a.log()).to(dtype)
        shifts = (price / epsilon + self.mass.log() - 0.5 * size.log()).to(dtype)

        def parts() -> Iterator[Tensor]:
            for rows in self.tiles.rows():
                part = (self.tiles.cost(rows, dtype) * (-1.0 / epsilon)).add_(shifts)
                yield part.add_(levels[rows, None]).exp_()

        def product(v: Array) -> Array:
            vector = torch.from_numpy(v).to(device, dtype)
            total = torch.zeros_like(self.mass)
            for part in parts():
                total += (part.T @ (part @ vector)).double()
            return total.cpu().numpy()

        squares = torch.zeros_like(self.mass)
        for part in parts():
            squares += part.square().sum(0).double()
        return squares.cpu().numpy(), product

    def exact(self) -> Sweep:
        """Return the sweep in double precision."""
        return partial(self._sweep, torch.float64)

    def rough(self, epsilon: float) -> Sweep | None:
        """Return the sweep in single precision, where that is of use."""
        is_of_use = single_suits(self.largest, epsilon)
        return partial(self._sweep, torch.float32) if is_of_use else None

    def _sweep(
        self,
        dtype: torch.dtype,
        g: Array,
        epsilon: float,
        *,
        near: Array | None = None,
        priced: bool = False,
    ) -> tuple[Array, Array, float]:
        moved = 0.0
        prices = torch.from_numpy(g).to(self.mass.device)
        shifted = (prices / epsilon + self.mass.log()).to(dtype)
        levels, columns = torch.empty_like(self.a), torch.zeros_like(self.mass)
        for rows in self.tiles.rows():
            cost = self.tiles.cost(rows, dtype)
            plan = (cost * (-1.0 / epsilon)).add_(shifted)
            peak = plan.amax(1)
            plan.sub_(peak[:, None]).exp_()
            total = plan.sum(1)
            levels[rows] = (peak + total.log()).double()
            masses = self.a[rows].to(dtype) / total
            columns += (masses @ plan).double()
            if priced:
                moved += float(masses @ (plan * cost).sum(1))
        f = (-epsilon * levels).cpu().numpy()
        return f, columns.cpu().numpy(), moved
