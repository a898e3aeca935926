"""Several models as one: by their outputs, their parameters, or by where their data lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from silot_transport._check import integer, real

from ...errors import InputError, MismatchError
from .spec import Array, ModelSpec
from .training import probabilities

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
        integer(self.inputs, "inputs", "option-density")
        integer(self.classes, "classes", "option-density")
        integer(self.dimensions, "dimensions", "option-density", most=10_000)
        integer(self.seed, "seed", "option-seed", least=0, most=1 << 62)
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
    masses = density[: spec.classes]
    means, variances = density[spec.classes :].reshape(2, spec.classes, spec.width)
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


Rule = Literal["output", "parameter", "density"]
RULES: tuple[str, ...] = get_args(Rule)


def combine(
    spec: ModelSpec,
    parameters: npt.ArrayLike,
    weights: npt.ArrayLike,
    points: npt.ArrayLike,
    *,
    rule: Rule = "output",
    density: DensitySpec | None = None,
    densities: npt.ArrayLike | None = None,
    factors: npt.ArrayLike | None = None,
) -> Array:
    r"""Predict with a weighted combination of models of one architecture.

    .. math::
        h(x) = \sum_k \alpha_k h_k(x), \qquad
        h(x) = h\Big(x; \sum_k \alpha_k \theta_k\Big), \qquad
        h(x) \propto \sum_k \alpha_k D_k(x) h_k(x)

    for the rules ``"output"``, ``"parameter"`` and ``"density"``.

    Parameters
    ----------
    spec
        The architecture.
    parameters
        One model a row, shape (S, P).
    weights
        Shape (S,), zero or more, summing to 1. A model of weight 0 is not evaluated.
    points
        Records, shape (n, inputs).
    rule
        ``"output"`` averages predictions; ``"parameter"`` predicts with the average of the
        parameters, as the paper does (its eq. 12), which needs models trained from one start;
        ``"density"`` believes each model where its training data lie, which is what models
        that saw different classes need.
    density, densities
        For ``"density"``: the description, and one density a row, shape (S, D), of
        ``fit_density``.
    factors
        Shape (S, C): what each model's probabilities are multiplied by, class by class, before
        they are scaled to sum to 1 again and combined. The class proportions of the target over
        those a model was trained with adjust it to the target. Not for ``"parameter"``.

    Returns
    -------
    numpy.ndarray
        Probabilities (n, C); rows sum to 1.

    Raises
    ------
    InputError, MismatchError
        An unknown rule, weights that are no weights, arrays that do not fit together.
    ExtraError
        A cnn, and torch is not installed.

    Notes
    -----
    The distribution-weighted rule is that of Mansour, Mohri and Rostamizadeh, *Domain adaptation
    with multiple sources*, 2008.

    Examples
    --------
    >>> spec = ModelSpec("logistic", (1,), 2)
    >>> combine(spec, [[9.0, 0.0], [0.0, 0.0]], [0.5, 0.5], [[5.0]]).round(3)
    array([[0.25, 0.75]])
    """
    if rule not in RULES:
        raise InputError(f"rule is {rule!r}; give one of {', '.join(RULES)}.", code="option-rule")
    models = np.asarray(parameters, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    records = np.asarray(points, dtype=np.float64)
    _check_weights(shares, models)
    scales = None if factors is None else np.asarray(factors, dtype=np.float64)
    if scales is not None:
        _check_factors(scales, rule, (len(models), spec.classes))
    if rule == "parameter":
        return probabilities(spec, shares @ models, records)
    used = np.flatnonzero(shares > 0)
    outputs = np.stack([probabilities(spec, models[k], records) for k in used])
    if scales is not None:
        outputs = outputs * scales[used, None]
        outputs /= outputs.sum(axis=2, keepdims=True)
    if rule == "output":
        return np.einsum("k,knc->nc", shares[used], outputs)
    if density is None or densities is None:
        raise InputError("rule 'density' needs density and densities.", code="density-absent")
    laws = np.asarray(densities, dtype=np.float64)
    trust = _trust(spec, density, laws, shares, records)
    return np.einsum("kn,knc->nc", trust, outputs)


def _check_weights(shares: Array, models: Array) -> None:
    if models.ndim != 2 or shares.shape != models.shape[:1] or len(models) == 0:
        raise MismatchError(
            f"parameters have shape {models.shape} and weights {shares.shape}; (S, P) and (S,) "
            "are needed.",
            code="combination-shape",
        )
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1.0) > 1e-6:
        raise InputError(
            "weights of models are negative, not finite, or do not sum to 1.",
            code="combination-weights",
        )


def _trust(
    spec: ModelSpec, density: DensitySpec, laws: Array, shares: Array, records: Array
) -> Array:
    """How far each model of some weight is believed at each record; columns sum to 1."""
    if laws.shape != (len(shares), density.size) or density.inputs != spec.inputs:
        raise MismatchError(
            f"densities have shape {laws.shape}; {(len(shares), density.size)} is needed.",
            code="density-shape",
        )
    used = np.flatnonzero(shares > 0)
    scaled = spec.scaled(records)
    logs = np.stack([log_density(density, laws[k], scaled) for k in used]) + np.log(
        shares[used, None]
    )
    # Far from all sources every density underflows: only their ratios count.
    trust = np.exp(logs - logs.max(axis=0))
    return trust / trust.sum(axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Combination:
    """A combination of models, ready to predict; its fields are the arguments of ``combine``.

    Examples
    --------
    >>> spec = ModelSpec("logistic", (1,), 2)
    >>> model = Combination(spec=spec, parameters=np.array([[9.0, 0.0]]), weights=np.ones(1))
    >>> model.probabilities([[5.0], [-5.0]]).argmax(axis=1)
    array([1, 0])
    """

    spec: ModelSpec
    parameters: Array
    weights: Array
    rule: Rule = "output"
    density: DensitySpec | None = None
    densities: Array | None = None
    factors: Array | None = None

    def probabilities(self, points: npt.ArrayLike) -> Array:
        """Compute the probability of every class for every record, (n, C)."""
        return combine(points=points, **vars(self))


def _check_factors(factors: Array, rule: str, shape: tuple[int, int]) -> None:
    if factors.shape != shape or not np.isfinite(factors).all() or (factors <= 0).any():
        raise InputError(
            f"factors have shape {factors.shape}; {shape} positive numbers are needed.",
            code="combination-factors",
        )
    if rule == "parameter":
        raise InputError(
            "factors apply to the outputs of each model. Use another rule than 'parameter'.",
            code="combination-factors",
        )
