r"""A target's own problem with mixing: a convex function on a simplex, and energy of its support.

With weights a over k sources, every mixing is :math:`\ell^\top a + s \sqrt{a^\top H a}` or
:math:`\ell^\top a + s\, a^\top H a + \text{const}` with positive semidefinite H. An optimum is
interior to the face of its support, where stationarity is a linear system. A face without an
interior stationary point, or with a flat direction, has nothing that a smaller one has not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ._mix import gram_around
from ._order import Indices
from .costs import Array, LinkCosts, Mixing

_BATCH = 20_000


@dataclass(frozen=True)
class Shape:
    """The function of one target, over some sources."""

    linear: Array
    matrix: Array
    scale: float
    root: bool
    offset: float
    energy: Array

    @classmethod
    def of(cls, costs: LinkCosts, j: int, sources: Indices, mixing: Mixing) -> Shape:
        """Cost of the weights of ``sources`` at target j, scales included."""
        k, transfer = len(sources), costs.phi[1]
        linear = transfer * costs.transfer[sources, j]
        scale, offset = transfer * costs.mixing_scale, 0.0
        matrix = np.eye(k)
        if mixing == "variance":
            assert costs.labelled is not None
            matrix = np.diag(1.0 / costs.labelled[sources])
        elif mixing == "mmd":
            assert costs.kernel is not None
            matrix = gram_around(costs.kernel, j, sources)
        elif mixing == "ambiguity" and k:
            assert costs.disagreement is not None
            apart = costs.disagreement[j][np.ix_(sources, sources)]
            means = apart.mean(axis=0)
            matrix = 0.5 * (means[:, None] + means[None, :] - apart - means.mean())
            _check_definite(matrix, costs.names[j])
            linear = linear + scale * (0.5 * means.mean() - means)
            # Any multiple of 11' only adds a constant, and makes the matrix regular.
            level = max(float(np.trace(matrix)) / k, 1e-300)
            matrix, offset = matrix + level, -scale * level
        return cls(
            linear=linear,
            matrix=matrix,
            scale=0.0 if mixing == "none" else scale,
            root=mixing != "ambiguity",
            offset=0.0 if mixing == "none" else offset,
            energy=costs.phi[2] * costs.energy[sources, j],
        )

    def restricted(self, which: Indices) -> Shape:
        """The same function over some of its sources."""
        return replace(
            self,
            linear=self.linear[which],
            matrix=self.matrix[np.ix_(which, which)],
            energy=self.energy[which],
        )

    def convex(self, weights: Array) -> Array:
        """Convex part at rows of weights over all sources."""
        return weights @ self.linear + self.part(weights) + self.offset

    def part(self, weights: Array) -> Array:
        """The root or the square alone."""
        square = np.maximum(np.einsum("mi,ik,mk->m", weights, self.matrix, weights), 0.0)
        return self.scale * (np.sqrt(square) if self.root else square)

    def floor(self) -> float:
        """Lower bound of the convex part without its linear term, on every face."""
        if self.scale == 0.0 or len(self.linear) == 0:
            return self.offset
        flat = np.linalg.lstsq(self.matrix, np.ones(len(self.linear)), rcond=None)[0]
        if not flat.sum() > 0 or np.abs(self.matrix @ flat - 1.0).max() > 1e-6:
            return self.offset  # the minimum is 0: the mixture may match exactly
        least = (1.0 - 1e-9) / flat.sum()
        return self.scale * (np.sqrt(least) if self.root else least) + self.offset

    def faces(self, supports: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Stationary weights on faces of one size, rows over all sources; cost, inf if outside."""
        m, size = supports.shape
        rows = np.arange(m)[:, None]
        if size == 1 or self.scale == 0.0:
            weights = np.zeros((m, len(self.linear)))
            weights[rows, supports[:, :1]] = 1.0
            return weights, self._cost(weights, supports)
        block = self.matrix[supports[:, :, None], supports[:, None, :]]
        # A flat face has a stationary point at its border, so its inner ones are not needed.
        block = block + 1e-14 * max(float(np.trace(self.matrix)), 1e-300) * np.eye(size)
        linear = self.linear[supports]
        both = np.stack([np.ones_like(linear), linear], axis=2)
        solved = np.linalg.solve(block, both)
        ones, sloped = solved[:, :, 0], solved[:, :, 1]
        a, b = ones.sum(axis=1), sloped.sum(axis=1)
        c = np.einsum("mi,mi->m", linear, sloped)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.root:
                level = (b + np.sqrt(b**2 - a * (c - self.scale**2))) / a
            else:
                level = (2.0 * self.scale + b) / a
            tries = [level[:, None] * ones - sloped]
            if self.root:  # where the mixture matches exactly
                tries.append(ones)
            found = [part / part.sum(axis=1, keepdims=True) for part in tries]
        best, value = np.zeros((m, len(self.linear))), np.full(m, np.inf)
        for part in found:
            inside = np.isfinite(part).all(axis=1) & (np.nan_to_num(part) >= 1e-9).all(axis=1)
            weights = np.zeros_like(best)
            weights[rows[inside], supports[inside]] = part[inside]
            cost = np.where(inside, self._cost(weights, supports), np.inf)
            better = cost < value
            best[better], value[better] = weights[better], cost[better]
        return best, value

    def _cost(self, weights: Array, supports: npt.NDArray[np.intp]) -> Array:
        return self.convex(weights) + self.energy[supports].sum(axis=1)

    def useful(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
        """Which masks of sources may have least cost on their inside, and sizes of all masks."""
        k = len(self.linear)
        # No face beats its best vertex if not even its least linear term and its energy do.
        alone = self.convex(np.eye(k)) + self.energy if k else np.zeros(0)
        vertex, least = np.full(2**k, np.inf), np.full(2**k, np.inf)
        energy, size = np.zeros(2**k), np.zeros(2**k, dtype=np.intp)
        for i in range(k):
            low, high = slice(0, 1 << i), slice(1 << i, 2 << i)
            vertex[high] = np.minimum(vertex[low], alone[i])
            least[high] = np.minimum(least[low], self.linear[i])
            energy[high] = energy[low] + self.energy[i]
            size[high] = size[low] + 1
        return (least + energy + self.floor() < vertex) | (size == 1), size

    def table(self) -> Array:
        """Least cost on the inside of every face, by mask of its sources; inf where no use."""
        useful, size = self.useful()
        cost = np.full(len(size), np.inf)
        for count in range(1, len(self.linear) + 1):
            chosen = np.flatnonzero(useful & (size == count))
            for begin in range(0, len(chosen), _BATCH):
                part = chosen[begin : begin + _BATCH]
                cost[part] = self.faces(members(part, len(self.linear)))[1]
        return cost

    def best(self) -> tuple[Array, float]:
        """Weights of least cost over all faces."""
        cost = self.table()
        mask = int(np.argmin(cost))
        weights, value = self.faces(members(np.array([mask]), len(self.linear)))
        return weights[0], float(value[0])


def members(masks: npt.NDArray[np.intp], k: int) -> npt.NDArray[np.intp]:
    """Indices of the bits of masks that have equally many."""
    bits = (masks[:, None] >> np.arange(k)) & 1
    return np.nonzero(bits)[1].reshape(len(masks), -1)


def _check_definite(matrix: Array, name: str) -> None:
    if np.linalg.eigvalsh(matrix).min() < -1e-8 * max(float(np.abs(matrix).max()), 1e-300):
        raise InputError(
            f"disagreement at {name!r} is not that of any predictions: it is not conditionally "
            "negative definite. Use mean squared differences of predicted probabilities.",
            code="disagreement-definite",
        )
