"""The secret inputs of a holder, and the noise in them, prepared where its records are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from ...errors import ExtraError, InputError
from ...federation.answer import Answer, Array
from ...federation.disclosure import Disclosure
from ...federation.question import Names, Question

NAMES = ("points", "weights", "roots", "mean", "numbers")
# Where the means may lie, in units of the scale: further than records, because only the difference
# of means is squared.
_FURTHEST = 2.0**20
# Largest noise in steps of its grid: float64 holds larger whole numbers with gaps.
_LARGEST_NOISE = 2.0**46


@dataclass(frozen=True, kw_only=True)
class SecureInputs(Question):
    """A holder's secret inputs. The question is not registered, so that no wire can carry it."""

    kind: ClassVar[str] = "secure-inputs"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    scale: float
    """Public length all data are divided by."""
    unit: float
    """Step of the engine's numbers, and of the grid of the noise."""
    largest: float
    """Largest distance of a record from the mean, in units of ``scale``."""
    diameter: float = 0.0
    """Public diameter of the ball around the origin records are clipped to; 0 for none."""
    noise: float = 0.0
    """Scale of the holder's noise, in units of ``scale`` squared; 0 for none."""
    lightest: float = 1e-9
    """Smallest weight that can be computed with."""

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        """Centre, scale and clip records; the answer is secret, and must be split into shares."""
        is_used = weights > 0
        mass = weights[is_used] / weights[is_used].sum()
        cloud = points[is_used] / self.scale
        if self.diameter > 0:
            cloud = _clip(cloud, 0.5 * self.diameter / self.scale)
            # Equal weights may differ by what rounding their sum left.
            if np.ptp(mass) > 1e-12 * mass.max():
                raise InputError(
                    "the records have weights, but noise needs equal weights. Leave the weights "
                    "or privacy_epsilon out.",
                    code="secure-weights",
                )
        if mass.min() < self.lightest:
            raise InputError(
                f"a weight is below {self.lightest:g} of the sum. Drop such records, or set their "
                "weight to 0.",
                code="secure-weights",
            )
        mean = mass @ cloud
        centred = cloud - mean
        # A constant column has no spread: what is not 0 in it is rounding.
        centred[np.abs(centred) <= 4.0 * np.finfo(float).eps * np.abs(cloud).max()] = 0.0
        norms = np.einsum("ij,ij->i", centred, centred)
        is_far = np.abs(mean).max() > _FURTHEST * self.largest
        if is_far or norms.max() > self.largest**2:
            raise InputError(
                f"the records are too far apart for the public scale {self.scale:g}: one is more "
                f"than {self.largest:g} scales from their mean. Agree on a larger scale.",
                code="secure-scale",
            )
        noise = laplace(self.noise / self.unit) * self.unit if self.noise else 0.0
        numbers = np.array([mass @ norms, noise])
        return Answer(
            dict(zip(NAMES, (centred, mass, mass**-0.5, mean, numbers), strict=True)),
            {"records": len(mass), "dimension": cloud.shape[1]},
        )


def laplace(scale: float) -> int:
    """Draw discrete Laplace noise from the randomness of the system.

    It takes no seed, on purpose: noise that somebody can draw again protects nothing.
    """
    if not scale <= _LARGEST_NOISE:
        raise InputError(
            "the requested noise exceeds what can be represented. Give a larger "
            "privacy_epsilon or a larger scale.",
            code="option-privacy-epsilon",
        )
    try:
        from opendp import prelude
    except ImportError:
        raise ExtraError(
            "noise needs opendp. Run: pip install 'silot[privacy]'", code="extra-privacy"
        ) from None
    dp: Any = prelude
    dp.enable_features("contrib")
    domain = dp.atom_domain(T="i64")
    return int(dp.m.make_laplace(domain, dp.absolute_distance(T="i64"), scale=scale)(0))


def mu_of_laplace(epsilon: float) -> float:
    r"""Return the mu of what is epsilon-differentially private.

    .. math:: \mu = -2 \Phi^{-1}\big(1 / (1 + e^\epsilon)\big)

    The trade-off of pure differential privacy has its corner where both errors are
    1 / (1 + e^epsilon); the convex curve of mu through that corner lies below it everywhere else
    (Dong, Roth and Su 2022).

    Examples
    --------
    >>> round(mu_of_laplace(1.0), 3), round(mu_of_laplace(8.0), 3)
    (1.232, 6.803)
    """
    share = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    # Below the least share, epsilon is above 690 and mu above 37: nothing is private by then.
    return -2.0 * NormalDist().inv_cdf(max(share, 1e-300))


def _clip(cloud: Array, radius: float) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->i", cloud, cloud))
    return cloud * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
