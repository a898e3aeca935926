"""Sinkhorn divergences of many histograms at once, on common places."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ._check import Array

# Regularisation: this share of the mean cost, or so much that no exponent is beyond _FURTHEST.
_SHARE, _FURTHEST = 0.2, 300.0
_SWEEPS = 15
# Rows of one product.
_ROWS = 32


@dataclass(frozen=True, eq=False)
class Divergence:
    r"""Entropic transport between histograms on the same places, less that of each to itself.

    .. math:: S(a, b) = E(a, b) - \tfrac12 E(a, a) - \tfrac12 E(b, b), \quad
              E(a, b) = \langle a, f \rangle + \langle b, g \rangle
              - \varepsilon \Big( \sum_{ij} e^{(f_i + g_j - C_{ij}) / \varepsilon} - 1 \Big)

    f and g are where a fixed number of averaged sweeps led, so E is a lower bound of the entropic
    cost: a number to compare histograms by, that is no distance itself. Whatever else is computed
    beside it, a pair has the same bits, in either order.

    Attributes
    ----------
    places
        ``exp(-C / epsilon)`` (S, S), symmetric.
    epsilon
        Regularisation, in units of C.

    Notes
    -----
    Feydy et al., Interpolating between optimal transport and MMD using Sinkhorn divergences, 2019;
    averaged sweeps: sec. 3.1 there.
    """

    places: Array = field(repr=False)
    epsilon: float

    @classmethod
    def of(cls, cost: Array) -> Divergence:
        """On places of these costs (S, S)."""
        epsilon = max(_SHARE * float(cost.mean()), float(cost.max()) / _FURTHEST) or 1.0
        return cls(np.exp(-cost / epsilon), epsilon)

    def between(self, a: Array, b: Array, own: tuple[Array, Array]) -> Array:
        """Divergences (N,) of rows (N, S), whose costs to themselves are ``own``."""
        return np.maximum(self.cost(a, b) - 0.5 * (own[0] + own[1]), 0.0)

    def own(self, a: Array) -> Array:
        """Entropic costs (N,) of rows (N, S) to themselves."""
        return self.cost(a, a)

    def cost(self, a: Array, b: Array) -> Array:
        """Entropic costs E (N,) of rows (N, S)."""
        u, v = np.ones_like(a), np.ones_like(b)
        for _ in range(_SWEEPS):
            u, v = np.sqrt(u * a / self._times(v)), np.sqrt(v * b / self._times(u))
        # Places without mass have potentials that nothing is weighed by.
        potentials = _sum(a * np.log(np.where(a > 0, u, 1.0))) + _sum(
            b * np.log(np.where(b > 0, v, 1.0))
        )
        # The plan's mass, half by either order of summation.
        mass = 0.5 * (_sum(u * self._times(v)) + _sum(v * self._times(u)))
        return self.epsilon * (potentials - (mass - 1.0))

    def _times(self, rows: Array) -> Array:
        # Products of so many rows each: of others, bits depend on how many there are.
        count = -len(rows) % _ROWS
        whole = np.concatenate([rows, np.ones((count, rows.shape[1]))]) if count else rows
        found = np.matmul(whole.reshape(-1, _ROWS, rows.shape[1]), self.places)
        return found.reshape(whole.shape)[: len(rows)]


def _sum(rows: Array) -> Array:
    return rows.sum(axis=1)
