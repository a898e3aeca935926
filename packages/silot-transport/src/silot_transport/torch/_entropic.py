"""Entropic transport of one pair, by the kernels where costs are on the host, else by tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._check import Array, real, whole
from .._sweep import solved
from ..cost import build_cost
from ..entropic import entropic_plan
from ..errors import InputError, SolverError
from ..memory import fits
from ._tiles import TiledProblem, Tiles

# Entries of a matrix of costs that is kept: 1 GiB.
_LARGEST_MATRIX = 1 << 27
_SMALLEST = 1e-14


@dataclass(frozen=True)
class Effort:
    """What entropic transport is asked for.

    Attributes
    ----------
    epsilon
        Regularisation, in units of cost.
    p
        Order.
    tolerance
        L1 error of the marginals.
    most
        Sweeps over the costs.
    """

    epsilon: float
    p: int
    tolerance: float
    most: int

    def __post_init__(self) -> None:
        whole(self.most, "max_iterations", "option-epsilon")
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
        """Dual value."""
        return float(self.a @ self.f + self.b @ self.g)

    def plan(self, rows: slice, cost: Tensor, dtype: torch.dtype) -> Tensor:
        """Those rows of the plan, whose costs these are."""
        level = self.f[rows, None] / self.epsilon + self.a[rows, None].log()
        power = (cost * (-1.0 / self.epsilon)).add_(level)
        power += self.g / self.epsilon + self.b.log()
        return power.to(dtype).exp_()

    def slopes(self, first: bool, second: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Gradients by x and y, zero where they are not asked for."""
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


def entropic(
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
    whole_matrix = x.device.type == "cpu" and len(x) * len(y) <= _LARGEST_MATRIX
    if whole_matrix and fits(len(x), len(y), x.shape[1]):
        tiles, f, g, status = _by_kernels(x, y, a, b, effort, symmetric)
    else:
        tiles, f, g, status = _by_tiles(x, y, a, b, effort, symmetric)
    if status != "converged":
        raise SolverError(
            f"{status} Before that neither value nor gradient is known.",
            code="sinkhorn-iterations",
        )
    return Entropic(tiles, a, b, f, g, effort.epsilon)


Found = tuple[Tiles, Tensor, Tensor, str]


def _by_kernels(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, effort: Effort, symmetric: bool
) -> Found:
    matrix = build_cost(x.numpy(), y.numpy(), effort.p).matrix
    found = entropic_plan(
        matrix, a.numpy(), b.numpy(), effort.epsilon, effort.tolerance, effort.most,
        symmetric=symmetric,
    )  # fmt: skip
    tiles = Tiles.of(x, y, effort.p, torch.from_numpy(matrix))
    f, g = (torch.from_numpy(each) for each in found.potentials)
    return tiles, f, g, found.status


def _by_tiles(x: Tensor, y: Tensor, a: Tensor, b: Tensor, effort: Effort, symmetric: bool) -> Found:
    tiles = Tiles.of(x, y, effort.p)
    if effort.epsilon < _SMALLEST * tiles.largest:
        raise InputError(
            f"epsilon is {effort.epsilon!r}, which is lost beside the costs.",
            code="option-epsilon",
        )
    rows, columns = a > 0.0, b > 0.0
    used = Tiles(tiles.x[rows], tiles.y[columns], effort.p)
    problem = TiledProblem(used, a[rows], b[columns])
    found = solved(problem, effort.epsilon, effort.tolerance, effort.most, symmetric=symmetric)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    f[rows], g[columns] = (torch.from_numpy(each).to(x.device) for each in (found.f, found.g))
    if not bool(rows.all()):
        f = _transformed(Tiles(tiles.x, used.y, effort.p), found.g, b[columns], effort.epsilon)
    if not bool(columns.all()):
        idle = _transformed(Tiles(tiles.y, used.x, effort.p), found.f, a[rows], effort.epsilon)
        g = torch.where(columns, g, idle)
    return tiles, f, g, found.status(effort.tolerance)


def _transformed(tiles: Tiles, g: Array, b: Tensor, epsilon: float) -> Tensor:
    problem = TiledProblem(tiles, torch.ones_like(tiles.x[:, 0]), b)
    return torch.from_numpy(problem.exact()(g, epsilon)[0]).to(b.device)
