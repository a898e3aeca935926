"""Where a source's records lie: a small density that it can send."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from silot_transport._check import real, whole

from ...errors import InputError, MismatchError
from .spec import Array

# Pseudo-records that pull the variances of a class to those of all records.
_SHRINKAGE = 10.0
# Least variance, as a share of the mean variance: a constant column has none.
_FLOOR = 1e-3


@dataclass(frozen=True)
class DensitySpec:
    r"""A mixture of Gaussians, one a class, on a public random projection.

    .. math:: D(x) = \sum_c \pi_c\, N\big(R^\top x;\ m_c, \mathrm{diag}(v_c)\big)

    with R of orthonormal columns drawn from the seed (the identity when there are no more
    features than dimensions). Variances of a class are shrunk to those within all classes, by
    10 pseudo-records.

    Parameters
    ----------
    inputs
        Numbers of a record, d.
    classes
        Number of classes.
    dimensions
        Columns of R, at most.
    seed
        Seed of R.
    sharpness
        Power the density is raised to, in (0, 1]: Gaussians in many dimensions are surer of a
        record's origin than the records warrant.

    Examples
    --------
    >>> DensitySpec(inputs=64, classes=10).size
    330
    """

    inputs: int
    classes: int
    dimensions: int = 16
    seed: int = 0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        whole(self.inputs, "inputs", "option-density")
        whole(self.classes, "classes", "option-density")
        whole(self.dimensions, "dimensions", "option-density", most=10_000)
        whole(self.seed, "seed", "option-seed", least=0, most=1 << 62)
        if not 0 < real(self.sharpness, "sharpness", "option-density") <= 1:
            raise InputError(
                f"sharpness is {self.sharpness}; it must be in (0, 1].", code="option-density"
            )

    @property
    def width(self) -> int:
        """Dimensions of the projected records."""
        return min(self.dimensions, self.inputs)

    @property
    def size(self) -> int:
        """Numbers that describe one density: mass, mean and variances of every class."""
        return self.classes * (1 + 2 * self.width)

    def project(self, points: Array) -> Array:
        """Records on the public projection, shape (n, width)."""
        if points.ndim != 2 or points.shape[1] != self.inputs:
            raise MismatchError(
                f"records have shape {points.shape}; (n, {self.inputs}) is needed.",
                code="dimension-mismatch",
            )
        if self.dimensions >= self.inputs:
            return points
        rng = np.random.default_rng([self.seed, 2])
        return points @ np.linalg.qr(rng.standard_normal((self.inputs, self.dimensions)))[0]


def fit_density(spec: DensitySpec, points: Array, codes: npt.NDArray[np.int64]) -> Array:
    """Fit the density of labelled records; a class without records gets no mass.

    Parameters
    ----------
    spec
        What is fitted.
    points, codes
        Records (n, inputs) and their classes (n,).

    Returns
    -------
    numpy.ndarray
        Shape (``spec.size``,): the masses, then the means, then the variances.

    Examples
    --------
    >>> spec = DensitySpec(inputs=1, classes=2)
    >>> fit_density(spec, np.array([[0.0], [2.0]]), np.array([1, 1]))[:2]
    array([0., 1.])
    """
    projected = spec.project(points)
    masses = np.bincount(codes, minlength=spec.classes) / len(codes)
    means = np.zeros((spec.classes, spec.width))
    for code in np.unique(codes):
        means[code] = projected[codes == code].mean(axis=0)
    squares = (projected - means[codes]) ** 2
    within = squares.mean(axis=0)
    within = np.maximum(within, max(_FLOOR * float(within.mean()), 1e-12))
    variances = np.tile(within, (spec.classes, 1))
    for code in np.unique(codes):
        own = squares[codes == code]
        variances[code] = (own.sum(axis=0) + _SHRINKAGE * within) / (len(own) + _SHRINKAGE)
    return np.concatenate([masses, means.ravel(), variances.ravel()])


def log_density(spec: DensitySpec, density: Array, points: Array) -> Array:
    """Logarithm of a density at records, shape (n,), times the sharpness.

    Raises
    ------
    MismatchError, InputError
        Numbers that are no density of this description.

    Examples
    --------
    >>> spec = DensitySpec(inputs=1, classes=1)
    >>> density = fit_density(spec, np.array([[-1.0], [1.0]]), np.array([0, 0]))
    >>> round(float(log_density(spec, density, np.array([[0.0]]))[0]), 4)
    -0.9189
    """
    check_density(spec, density)
    masses, rest = density[: spec.classes], density[spec.classes :]
    means, variances = rest.reshape(2, spec.classes, spec.width)
    projected = spec.project(points)
    logs = np.full((len(points), spec.classes), -np.inf)
    for code in np.flatnonzero(masses > 0):
        squares = (projected - means[code]) ** 2 / variances[code]
        volume = np.log(2.0 * math.pi * variances[code]).sum()
        logs[:, code] = math.log(masses[code]) - 0.5 * (squares.sum(axis=1) + volume)
    return spec.sharpness * np.asarray(logsumexp(logs, axis=1), dtype=np.float64)


def check_density(spec: DensitySpec, density: Array) -> None:
    """Raise unless the numbers are a density of this description."""
    if density.shape != (spec.size,):
        raise MismatchError(
            f"a density has shape {density.shape}; ({spec.size},) is needed.", code="density-shape"
        )
    masses, variances = density[: spec.classes], density[-spec.classes * spec.width :]
    sound = np.isfinite(density).all() and (masses >= 0).all() and (variances > 0).all()
    if not sound or abs(float(masses.sum()) - 1.0) > 1e-6:
        raise InputError(
            "a density has masses that do not sum to 1, or variances that are not positive.",
            code="density-invalid",
        )
