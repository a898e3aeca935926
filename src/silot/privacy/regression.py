"""A local regression that corrects distances between sketches, fitted where they are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from silot_transport._check import Array

_LEVEL = 0.95
# All pairs are of one public sample, and err alike where that is not as its law: on 19 tables of
# known distances intervals had to be so much longer to cover as often as they say.
_ALIKE_ERRORS = 1.15
# Part of the simulated pairs a distance is judged by: those whose sketches look most alike.
_NEAR = 0.2
_RIDGE = 0.1
# Squared lengths are told apart down to this part of the public variance.
_FLOOR = 0.02
# Sketches further from the simulated ones than so many deviations are judged like those there.
_FURTHEST = 3.5


@dataclass(frozen=True)
class Estimate:
    """A distance, and where 95 % of true distances are."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Fit:
    r"""Local regression of log W on what two sketches look like.

    .. math:: \log W = \log B + \beta_0(z) + \beta(z)^T z

    B is the estimate from samples of both (``compare.distances_of``), z the standardised
    ``looks``. The coefficients are fitted by ridge regression on the simulated pairs nearest to
    z, the interval is of their residuals with each pair left out.
    """

    mean: Array = field(repr=False)
    spread: Array = field(repr=False)
    features: Array = field(repr=False)
    errors: Array = field(repr=False)
    unit: float

    @classmethod
    def of(cls, lengths: Array, truth: Array, unit: float) -> Fit:
        """Fit to lengths (K, 10) of pairs with true squared distances (K,)."""
        looks = _looks(lengths, unit)
        mean, spread = looks.mean(axis=0), looks.std(axis=0) + 1e-9
        # Chance may take away more than there is between two laws; never all.
        errors = 0.5 * np.log(np.maximum(truth, 1e-6 * unit)) - _base(lengths, unit)
        return cls(mean, spread, (looks - mean) / spread, errors, unit)

    def estimates(self, lengths: Array) -> list[Estimate]:
        """Estimate distances and intervals from the lengths (N, 10) of pairs of sketches."""
        place = np.clip(
            (_looks(lengths, self.unit) - self.mean) / self.spread, -_FURTHEST, _FURTHEST
        )
        away = self.features - place[:, None]
        apart = np.linalg.norm(away, axis=2)
        width = np.maximum(np.quantile(apart, _NEAR, axis=1), 1e-9)[:, None] * 1.001
        # Pairs that are not near have no weight.
        kernel = np.maximum(1.0 - (apart / width) ** 2, 0.0)
        total = kernel.sum(axis=1)
        design = np.concatenate([np.ones((*apart.shape, 1)), away], axis=2)
        weighted = design * kernel[:, :, None]
        penalty = _RIDGE * np.eye(design.shape[2])
        # The intercept is the estimate itself, and shrinking it would pull towards no correction.
        penalty[0, 0] = 0.0
        turned = weighted.transpose(0, 2, 1)
        inverse = np.linalg.inv(turned @ design + penalty * total[:, None, None])
        slopes = inverse @ (turned @ self.errors)[:, :, None]
        leverage = (weighted @ inverse * design).sum(axis=2)
        misses = self.errors - (design @ slopes)[:, :, 0]
        # The residual with a pair left out is its residual over one minus its leverage; the floor
        # keeps a pair that nearly fits itself from deciding the interval.
        residuals = misses / np.maximum(1.0 - leverage, 0.3)
        order = np.argsort(residuals, axis=1, kind="stable")
        mass = np.take_along_axis(kernel, order, axis=1).cumsum(axis=1) / total[:, None]
        ranked = np.take_along_axis(residuals, order, axis=1)
        tail = 0.5 * (1.0 - _LEVEL)
        low, high = (
            np.take_along_axis(ranked, (mass < q).sum(axis=1, keepdims=True), axis=1)[:, 0]
            for q in (tail, 1.0 - tail)
        )
        # What the fit itself errs by here: little in the midst of pairs, more at their edge.
        unsure = ((inverse[:, :1] @ turned) ** 2).sum(axis=(1, 2))
        wider = _ALIKE_ERRORS * np.sqrt(1.0 + unsure)
        centre = _base(lengths, self.unit) + slopes[:, 0, 0]
        # An interval always holds its estimate, also where all residuals have one sign.
        ends = (centre, centre + wider * np.minimum(low, 0.0), centre + wider * np.maximum(high, 0))
        return [Estimate(*row) for row in np.exp(np.stack(ends, axis=1)).tolist()]


def _looks(lengths: Array, unit: float) -> Array:
    """Bring lengths to one scale: logarithms, and differences over the public length."""
    logs = 0.5 * np.log(lengths + _FLOOR * unit)
    for differences in (6, 8):
        logs[:, differences] = np.sqrt(lengths[:, differences] / unit)
    return logs


def _base(lengths: Array, unit: float) -> Array:
    return 0.5 * np.log(lengths[:, -1] + 0.25 * _FLOOR * unit)
