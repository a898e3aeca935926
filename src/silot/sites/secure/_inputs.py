"""What a holder puts into a secure computation, prepared where its records are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import ExtraError, InputError
from ...federation.answer import Answer, Array
from ...federation.disclosure import Disclosure
from ...federation.question import Names, Question

NAMES = ("points", "weights", "roots", "mean", "numbers")
# Where the means may lie, in units of the scale; only their difference is squared.
_FURTHEST = 2.0**20
# Above it, noise has no exact float64.
_LARGEST_NOISE = 2.0**46


@dataclass(frozen=True, kw_only=True)
class SecureInputs(Question):
    """A holder's secret inputs. It is not registered: it cannot be asked over any wire.

    Attributes
    ----------
    scale
        Public length all data are divided by.
    diameter
        Public diameter of the ball around the origin records are clipped to; 0 for none.
    noise
        Scale of the holder's noise, in units of ``scale`` squared; 0 for none.
    largest
        Largest distance of a record from the mean, in units of ``scale``.
    unit
        Step of the engine's numbers, and of the grid of the noise.
    lightest
        Smallest weight that can be computed with.
    """

    kind: ClassVar[str] = "secure-inputs"
    level: ClassVar[Disclosure] = Disclosure.SCALAR

    scale: float
    unit: float
    largest: float
    diameter: float = 0.0
    noise: float = 0.0
    lightest: float = 1e-9

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        """Centre, scale and clip; nothing in the answer may be shown to anybody else."""
        used = weights > 0
        mass = weights[used] / weights[used].sum()
        cloud = points[used] / self.scale
        if self.diameter > 0:
            cloud = _clipped(cloud, 0.5 * self.diameter / self.scale)
            if np.ptp(mass) > 1e-12 * mass.max():
                raise InputError(
                    "the records have weights, and noise is for records that count alike. Leave "
                    "the weights or privacy_epsilon out.",
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
        # What rounding leaves of a constant column is no spread.
        centred[np.abs(centred) <= 4.0 * np.finfo(float).eps * np.abs(cloud).max()] = 0.0
        norms = np.einsum("ij,ij->i", centred, centred)
        far = np.abs(mean).max() > _FURTHEST * self.largest
        if far or norms.max() > self.largest**2:
            raise InputError(
                f"the records are too far apart for the public scale {self.scale:g}: one is more "
                f"than {self.largest:g} scales from their mean. Agree on a larger scale.",
                code="secure-scale",
            )
        numbers = np.array([mass @ norms, self._draw()])
        return Answer(
            dict(zip(NAMES, (centred, mass, mass**-0.5, mean, numbers), strict=True)),
            {"records": len(mass), "dimension": cloud.shape[1]},
        )

    def _draw(self) -> float:
        if self.noise == 0:
            return 0.0
        return laplace(self.noise / self.unit) * self.unit


def laplace(scale: float) -> int:
    """Draw discrete Laplace noise from the randomness of the system.

    There is no seed, on purpose: noise that somebody can draw again is no noise.
    """
    if not scale <= _LARGEST_NOISE:
        raise InputError(
            "the noise asked for exceeds what can be represented. Give a larger privacy_epsilon "
            "or a larger scale.",
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


def _clipped(cloud: Array, radius: float) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->i", cloud, cloud))
    return cloud * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
