"""Random features of a Gaussian kernel, whose means distinguish distributions."""

from __future__ import annotations

import math

import numpy as np

from silot_transport._check import integer, real

from ...errors import InputError, MismatchError
from .spec import Array

_ROWS = 4096


def random_features(points: Array, *, features: int, bandwidth: float, seed: int) -> Array:
    r"""Compute random Fourier features of a Gaussian kernel, (n, D).

    .. math:: \phi(x)^\top \phi(y) \approx e^{-|x - y|^2 / 2 h^2}, \quad
        \phi(x) = \sqrt{2 / D}\,[\cos(\omega_k^\top x), \sin(\omega_k^\top x)]_{k \le D / 2},
        \quad \omega_k \sim N(0, h^{-2} I)

    ``features`` is D, an even number, and ``bandwidth`` h, in the units of the records. Every row
    has norm 1. (Rahimi and Recht, *Random features for large-scale kernel machines*, 2007.)
    """
    half, odd = divmod(integer(features, "features", "option-features", most=1 << 16), 2)
    if odd or not real(bandwidth, "bandwidth", "option-bandwidth") > 0:
        raise InputError(
            f"features is {features} and bandwidth {bandwidth}; an even number of features and "
            "a positive bandwidth are needed.",
            code="option-features",
        )
    integer(seed, "seed", "option-seed", least=0, most=1 << 62)
    drawn = np.random.default_rng([seed, 3]).standard_normal((points.shape[1], half))
    lifted = np.empty((len(points), 2 * half))
    for at in range(0, len(points), _ROWS):
        angles = (points[at : at + _ROWS] / bandwidth) @ drawn
        lifted[at : at + _ROWS, :half] = np.cos(angles)
        lifted[at : at + _ROWS, half:] = np.sin(angles)
    return lifted / math.sqrt(half)


def in_units(points: Array, scale: Array) -> Array:
    """Divide each column of records by its scale; an empty scale changes nothing."""
    if not scale.size:
        return points
    if scale.shape != points.shape[1:]:
        raise MismatchError(
            f"the scale has {scale.size} columns, the records {points.shape[1]}.",
            code="dimension-mismatch",
        )
    if not np.isfinite(scale).all() or not (scale > 0).all():
        raise InputError("a scale is not positive and finite.", code="model-scale")
    return points / scale
