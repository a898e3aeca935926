r"""What targets pay for the models they mix: one object for each way to count it.

With weights a over k sources, mixing is :math:`\ell^\top a + s \sqrt{a^\top H a}` with positive
definite H. An optimum is interior to the face of its support, where stationarity is a linear
system. A face without an interior stationary point has nothing that a smaller one has not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .costs import MIXINGS, Array, Indices, LinkCosts, Mixing

# What a plan may have been made for: coverage has its own solver, and no mixing.
Objective = Mixing | Literal["coverage"]
# Faces solved at once: some 100 MB of matrices with 20 sources.
_BATCH = 20_000


class Mixture:
    r"""What mixing sources adds to a target's cost, :math:`m_j(\alpha_j)`; here nothing."""

    name: ClassVar[str] = "none"
    needs: ClassVar[str] = ""  # the field of LinkCosts with its data

    def check(self, costs: LinkCosts) -> None:
        """Refuse costs without its data."""
        if self.needs and getattr(costs, self.needs) is None:
            raise InputError(
                f"mixing={self.name!r} needs LinkCosts({self.needs}=...), which was not given.",
                code="mixing-data",
            )

    def cost(self, weights: Array, j: int, costs: LinkCosts) -> float:
        """:math:`m_j(a)` of the weights of all devices at target j."""
        used = np.flatnonzero(weights)
        return costs.mixing_scale * self.penalty(weights[used], used, j, costs)

    def penalty(self, weights: Array, used: Indices, j: int, costs: LinkCosts) -> float:
        """:math:`m_j(a)` of the weights of the used sources, without its scale."""
        return 0.0

    def shape(self, costs: LinkCosts, j: int, sources: Indices) -> Shape:
        """Cost of the weights of ``sources`` at target j, scales included."""
        return Shape(
            linear=costs.phi[1] * costs.transfer[sources, j],
            matrix=np.eye(len(sources)),
            scale=0.0,
            energy=costs.phi[2] * costs.energy[sources, j],
        )

    def terms(self, weights: Array, costs: LinkCosts) -> tuple[float, float]:
        """Transfer and mixing of a whole plan, without their scale."""
        active = weights > 0
        served = np.flatnonzero(active.any(axis=0)).tolist()
        mixed = sum(self.cost(weights[:, j], j, costs) for j in served)
        return float(weights[active] @ costs.transfer[active]), mixed


class Variance(Mixture):
    r""":math:`c \sqrt{\sum_i a_i^2 / n_i}`: few records make an uncertain model."""

    name = "variance"
    needs = "labelled"

    def penalty(self, weights: Array, used: Indices, j: int, costs: LinkCosts) -> float:
        return float(np.sqrt(np.sum(weights**2 / _data(costs.labelled)[used])))

    def shape(self, costs: LinkCosts, j: int, sources: Indices) -> Shape:
        return replace(
            super().shape(costs, j, sources),
            matrix=np.diag(1.0 / _data(costs.labelled)[sources]),
            scale=costs.phi[1] * costs.mixing_scale,
        )


class Coverage(Mixture):
    r"""Expected error, :math:`\sum_c \pi_{jc} \min_{i: a_i > 0} e_{ijc}`, in place of transfer."""

    name = "coverage"

    def check(self, costs: LinkCosts) -> None:
        """Refuse costs without shares and errors of classes."""
        self.data(costs)

    def data(self, costs: LinkCosts) -> tuple[Array, Array]:
        """Class shares and errors, refused when the costs do not have them."""
        if costs.shares is None or costs.class_errors is None:
            raise InputError(
                "links by coverage need LinkCosts(shares=..., class_errors=...), which were not "
                "given.",
                code="coverage-data",
            )
        return costs.shares, costs.class_errors

    def terms(self, weights: Array, costs: LinkCosts) -> tuple[float, float]:
        shares, errors = self.data(costs)
        served = np.flatnonzero((weights > 0).any(axis=0)).tolist()
        expected = (shares[j] @ errors[weights[:, j] > 0, j].min(axis=0) for j in served)
        return sum(map(float, expected)), 0.0


COVERAGE = Coverage()
_MIXTURES = {kind.name: kind() for kind in (Mixture, Variance)}


def mixture_named(mixing: str, costs: LinkCosts | None = None) -> Mixture:
    """The mixing of a name, refused when the costs do not have its data."""
    if mixing not in MIXINGS:
        raise InputError(
            f"mixing is {mixing!r}; give one of {', '.join(MIXINGS)}.", code="option-mixing"
        )
    mixture = _MIXTURES[mixing]
    if costs is not None:
        mixture.check(costs)
    return mixture


def _data(values: Array | None) -> Array:
    assert values is not None  # as ``check`` saw
    return values


@dataclass(frozen=True)
class Shape:
    """The function of one target, over some sources."""

    linear: Array
    matrix: Array
    scale: float
    energy: Array

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
        return weights @ self.linear + self.part(weights)

    def part(self, weights: Array) -> Array:
        """The root alone."""
        square = np.maximum(np.einsum("mi,ik,mk->m", weights, self.matrix, weights), 0.0)
        return self.scale * np.sqrt(square)

    def floor(self) -> float:
        """Lower bound of the convex part without its linear term, on every face."""
        if self.scale == 0.0 or len(self.linear) == 0:
            return 0.0
        # The least root of a'Ha among weights that sum to 1.
        least = (1.0 - 1e-9) / float(np.linalg.solve(self.matrix, np.ones(len(self.linear))).sum())
        return self.scale * least**0.5

    def faces(self, supports: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Stationary weights on faces of one size, rows over all sources; cost, inf if outside."""
        m, size = supports.shape
        rows = np.arange(m)[:, None]
        if size == 1 or self.scale == 0.0:
            weights = np.zeros((m, len(self.linear)))
            weights[rows, supports[:, :1]] = 1.0
            return weights, self._cost(weights, supports)
        block = self.matrix[supports[:, :, None], supports[:, None, :]]
        linear = self.linear[supports]
        both = np.stack([np.ones_like(linear), linear], axis=2)
        solved = np.linalg.solve(block, both)
        ones, sloped = solved[:, :, 0], solved[:, :, 1]
        # Stationary weights are level * ones - sloped; that they sum to 1 and solve the equation of
        # the root makes ``level`` the root of a quadratic.
        a, b = ones.sum(axis=1), sloped.sum(axis=1)
        c = np.einsum("mi,mi->m", linear, sloped)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            level = (b + np.sqrt(b**2 - a * (c - self.scale**2))) / a
            part = level[:, None] * ones - sloped
            part /= part.sum(axis=1, keepdims=True)
        # Weights of 0 belong to a smaller face, which is compared by itself.
        inside = np.isfinite(part).all(axis=1) & (np.nan_to_num(part) >= 1e-9).all(axis=1)
        weights = np.zeros((m, len(self.linear)))
        weights[rows[inside], supports[inside]] = part[inside]
        return weights, np.where(inside, self._cost(weights, supports), np.inf)

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
