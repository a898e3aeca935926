"""Costs of two clouds, some rows at a time, on the device of the clouds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from .._check import Array
from .._sweep import Sweep, single_suits

# Costs of a tile: what a cache holds, and what keeps an accelerator busy.
_TILE, _LARGE_TILE = 1 << 18, 1 << 24


@dataclass(frozen=True, eq=False)
class Tiles:
    """``|x_i - y_j|^p`` for points (n, d) and (m, d), of the matrix where there is one."""

    x: Tensor
    y: Tensor
    p: int
    matrix: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, y: Tensor, p: int, matrix: Tensor | None = None) -> Tiles:
        """Around a common mean, which costs no digits."""
        centre = 0.5 * (x.mean(0) + y.mean(0))
        return cls(x - centre, y - centre, p, matrix)

    @property
    def turned(self) -> Tiles:
        """From y to x."""
        return Tiles(self.y, self.x, self.p, None if self.matrix is None else self.matrix.T)

    @property
    def largest(self) -> float:
        """A cost that no other exceeds."""
        lengths = [float(k.square().sum(1).max()) ** 0.5 for k in (self.x, self.y)]
        return max(sum(lengths) ** self.p, 1e-300)

    def rows(self) -> Iterator[slice]:
        """The rows of each tile."""
        size = _TILE if self.x.device.type == "cpu" else _LARGE_TILE
        step = max(1, size // len(self.y))
        return (slice(start, start + step) for start in range(0, len(self.x), step))

    def cost(self, rows: slice, dtype: torch.dtype = torch.float64) -> Tensor:
        """A tile."""
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
    """Entropic transport whose costs are made again in every sweep (``_sweep.Sweepable``)."""

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

    def damped(self, epsilon: float) -> float:
        """Marginals hold: a whole step."""
        return 1.0

    def wanted(self, g: Array) -> Array:
        """Masses that the columns should have."""
        return self.b

    def exact(self) -> Sweep:
        """The sweep."""
        return partial(self._sweep, torch.float64)

    def rough(self, epsilon: float) -> Sweep | None:
        """The sweep in single precision."""
        suited = single_suits(self.largest, epsilon)
        return partial(self._sweep, torch.float32) if suited else None

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
