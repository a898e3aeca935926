"""A classifier for records of another distribution, by the least change that explains them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from silot_transport._check import as_points

from ..data.tables import align
from ..errors import InputError, MismatchError
from ._checks import check_level, names_of, seed_of
from ._wrapping import WrappingClassifier
from .adaptation import VERDICTS, Array, DomainChange, draw_rows, explain_target, masses

# Classes whose mixtures are compared at most: more take minutes.
_MOST_CLASSES = 30
# Records of a side without which nothing can be told from chance.
_LEAST = 10
# Part of the weights that stays with the source's shares.
_KEPT = 0.2


class DomainAdapter(WrappingClassifier):
    r"""Fit a classifier for a target whose labels are unknown, on a labelled source.

    Of the changes that may have happened between source P and target Q the least is taken that
    explains Q, that is, leaves no difference that is clear (``ShiftDetector``):

    1. none;
    2. other shares of the classes c: the nearest mixture,
       :math:`\min_\lambda W_2(\sum_c \lambda_c P_c, Q)`;
    3. another scale and offset of each column, and shares: both in turn, from several starts, with
       columns of the mixture brought as near to the target's as mean and deviation, quartiles or
       ends of each do.

    A change is made only if it helps: it is fitted on half of the records, and between the other
    halves the energy distance (Székely and Rizzo, 2013) must be smaller with it by 1.645 standard
    errors, both halves in turn. Else the source is left as it is, and a warning says why.

    The classifier is fitted on source records so changed, weighted by the shares where it takes
    ``sample_weight``; a fifth of the source's own shares stays in the weights, for shares that are
    found from few records are too sharp. A classifier without weights gets records drawn by them.

    Parameters
    ----------
    estimator
        The classifier.
    level
        Chance, above 0 and up to 0.5, that records of one distribution are found to differ: lower,
        and less is changed.
    random_state
        Of the 600 records of each side, at most, that changes are tried on. A whole number makes
        results the same every time.

    Attributes
    ----------
    estimator_
        The fitted classifier; it takes records as the target has them.
    adaptation_
        What was found, a ``DomainChange``; ``None`` without a target.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ValueError
        Values that are not finite numbers, fewer than ten records of a side, more than 30 classes.
    InputError, MismatchError
        Of ``fit``: ``option-level``; ``sample-domain`` for domains that are none;
        ``measure-magnitude`` for values whose squares are not numbers.

    See Also
    --------
    ShiftDetector : Whether anything differs at all.

    Notes
    -----
    It does not know the target's labels: where the classes themselves changed places, or
    what another unit does looks like other shares, no method can know, and the least change may
    be the wrong one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from silot.estimators import DomainAdapter
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [200, 400])
    >>> X = rng.normal(size=(600, 3)) + 2.0 * y[:, None]
    >>> domain = np.where(rng.random(600) < 0.5, 1, -2)
    >>> X[domain < 0] = 18.0 * X[domain < 0] + 5.0
    >>> model = DomainAdapter(LogisticRegression()).fit(X, y, sample_domain=domain)
    >>> model.adaptation_.change, round(model.adaptation_.scale["0"], 0)
    ('units', 18.0)
    >>> model.score(X[domain < 0], y[domain < 0]) > 0.9
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        level: float = 0.05,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_domain: Any = None) -> Self:  # noqa: N803
        """Find what changed, and fit the classifier on the source so changed.

        Parameters
        ----------
        X
            Records of both (n, d).
        y
            Labels (n,); those of the target are not looked at.
        sample_domain
            Above 0 for records of the source, below 0 for those of the target (n,), as skada has
            it. ``None``: all are of the source, and the classifier is fitted as it is.

        Returns
        -------
        DomainAdapter
            This one.
        """
        check_level(self.level, "level")
        y, sample_domain = align(X, y, "y"), align(X, sample_domain, "sample_domain")
        if y is None:
            raise ValueError("DomainAdapter requires y to be passed, but the target y is None.")
        points = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(points, labels)
        of_source = _sources(sample_domain, len(labels))
        # Labels of the target may be missing.
        source = np.asarray(points)[of_source]
        untouched: Any = None
        own: Any = check_array(labels[of_source], ensure_2d=False, dtype=untouched)
        check_classification_targets(own)
        self.adaptation_, params = None, {}
        if not of_source.all():
            rng = np.random.default_rng([seed_of(self.random_state), 62])
            target = np.asarray(points)[~of_source]
            source, shares = self._adapt_source(source, own, target, rng)
            if shares and has_fit_parameter(self.estimator, "sample_weight"):
                params["sample_weight"] = masses(own, shares) * len(own)
            elif shares:
                chosen = draw_rows(own, shares, len(own), rng)
                source, own = source[chosen], own[chosen]
        classifier: Any = clone(self.estimator)
        self.estimator_ = classifier.fit(source, own, **params)
        self.classes_ = self.estimator_.classes_
        return self

    def _adapt_source(
        self, x: Array, labels: Any, y: Array, rng: np.random.Generator
    ) -> tuple[Array, Mapping[Any, float] | None]:
        """Change the source as far as explains the target; return it and shares that differ."""
        kinds = len(np.unique(labels))
        if kinds > _MOST_CLASSES:
            raise ValueError(f"{kinds} classes while at most {_MOST_CLASSES} are compared.")
        for name, side in (("source", x), ("target", y)):
            if len(side) < _LEAST:
                raise ValueError(
                    f"{len(side)} sample(s) of the {name} while a minimum of {_LEAST} is required."
                )
            # Squares of larger values are no numbers.
            as_points(side, name)
        change, steps, best = explain_target(x, labels, y, self.level, rng)
        if change in ("unproven", "unexplained"):
            warnings.warn(f"{VERDICTS[change]}: see adaptation_.", UserWarning, stacklevel=3)
        own = {label: float(np.mean(labels == label)) for label in np.unique(labels)}
        # A rare class may have no record among those that were looked at.
        shares = {label: float(best.shares.get(label, own[label])) for label in own}
        names = names_of(self) or tuple(str(k) for k in range(x.shape[1]))
        self.adaptation_ = DomainChange(
            change=change,
            steps=steps,
            shares={str(label): (own[label], shares[label]) for label in own},
            scale=dict(zip(names, best.scale.tolist(), strict=True)),
            offset=dict(zip(names, best.offset.tolist(), strict=True)),
        )
        if change not in ("classes", "units"):
            return x, None
        x = x * best.scale + best.offset
        return x, {label: (1.0 - _KEPT) * shares[label] + _KEPT * own[label] for label in own}

    def _prepare(self, X: Any) -> Any:  # noqa: N803
        return validate_data(self, X, reset=False, dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Distances are of numbers that are all there, whatever the classifier takes.
        tags.input_tags.sparse = tags.input_tags.allow_nan = False
        return tags


def _sources(sample_domain: Any, size: int) -> npt.NDArray[np.bool_]:
    """Return which records are of the source."""
    if sample_domain is None:
        warnings.warn(
            "no record belongs to a target: give sample_domain=, numbers above 0 for the "
            "source and below for the target.",
            UserWarning,
            stacklevel=3,
        )
        return np.ones(size, dtype=np.bool_)
    domain = np.asarray(sample_domain)
    if domain.shape != (size,):
        raise MismatchError(
            f"sample_domain has shape {domain.shape} and there are {size} records. Give a number "
            "for each.",
            code="sample-domain",
        )
    if domain.dtype.kind not in "iuf" or not (np.isfinite(domain).all() and domain.all()):
        raise InputError(
            "sample_domain is not a number above or below 0 for each record: above for the source, "
            "below for the target.",
            code="sample-domain",
        )
    return domain > 0
