"""Several models as one: by their outputs, or by their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ...errors import InputError, MismatchError
from .spec import Array, ModelSpec
from .training import probabilities

Rule = Literal["output", "parameter"]
RULES: tuple[str, ...] = get_args(Rule)


def combine(
    spec: ModelSpec,
    parameters: npt.ArrayLike,
    weights: npt.ArrayLike,
    points: npt.ArrayLike,
    *,
    rule: Rule = "output",
    factors: npt.ArrayLike | None = None,
    move: npt.ArrayLike | None = None,
) -> Array:
    r"""Predict with a weighted combination of models of one architecture.

    .. math::
        h(x) = \sum_k \alpha_k h_k(x), \qquad
        h(x) = h\Big(x; \sum_k \alpha_k \theta_k\Big)

    for the rules ``"output"`` and ``"parameter"``.

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
        parameters, as the paper does (its eq. 12), which needs models trained from one start.
    factors
        Shape (S, C): what each model's probabilities are multiplied by, class by class, before
        they are scaled to sum to 1 again and combined. The class proportions of the target over
        those a model was trained with adjust it to the target. Not for ``"parameter"``.
    move
        Shape (2, inputs): what columns are multiplied by, and what is added then, before models
        see them.

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
    if move is not None:
        scale, shift = _checked_move(move, spec)
        records = records * scale + shift
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
    return np.einsum("k,knc->nc", shares[used], outputs)


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
    factors: Array | None = None
    move: Array | None = None

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


def _checked_move(move: npt.ArrayLike, spec: ModelSpec) -> Array:
    values = np.asarray(move, dtype=np.float64)
    if values.shape != (2, spec.inputs) or not np.isfinite(values).all():
        raise InputError(
            f"move has shape {values.shape}; {(2, spec.inputs)} finite numbers are needed.",
            code="combination-move",
        )
    return values
