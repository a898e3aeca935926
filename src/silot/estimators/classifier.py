"""A classifier that is fitted on records that were screened."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import column_or_1d, has_fit_parameter, validate_data

from ..data.tables import align
from ..errors import InputError, MismatchError
from ._wrapping import WrappingClassifier
from .screener import RecordScreener

Flags = npt.NDArray[np.bool_]


class CleanedClassifier(WrappingClassifier):
    """Screen training records by trusted records, and fit a classifier on what is kept.

    ``fit`` takes a mask of the records that are trusted. All others are screened by them
    (``RecordScreener.screen``), flagged ones are left out, and the classifier is fitted on the
    others, trusted ones included. A classifier that takes ``sample_weight`` gets each record with
    the probability that it is not faulty. The mask is metadata: it goes through pipelines and is
    cut with the records in cross-validation.

    Parameters
    ----------
    estimator
        The classifier.
    screener
        A ``RecordScreener``; ``None`` for one that judges labels.

    Attributes
    ----------
    estimator_
        The fitted classifier.
    screener_
        The fitted screener, ``None`` where no record was to be screened.
    screening_
        What it said of the records that are not trusted, in their order, ``RecordScores``; or
        ``None``.
    kept_
        Whether each record given to ``fit`` was kept (n,).
    weights_
        The probability (n,) that each is not faulty: 1 if trusted, 0 if left out.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ValueError
        What the classifier or scikit-learn says of X, y and metadata.
    InputError, MismatchError
        Of ``fit``: what ``RecordScreener`` says; ``trusted-mask`` for a mask that is none.

    See Also
    --------
    RecordScreener : Its models, and repair of records that are to be classified.

    Notes
    -----
    Without a mask all records are trusted and none is left out; a warning says so.

    Scores of a cross-validation are of records that may be broken too; give ``trusted`` as their
    ``sample_weight`` as well (metadata routing) to be scored on trusted ones alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from silot.estimators import CleanedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(300, 2)), np.arange(300) % 2
    >>> X[:, 0] += 4.0 * y
    >>> y[100:130] = 1 - y[100:130]
    >>> trusted = np.arange(300) < 100
    >>> model = CleanedClassifier(LogisticRegression()).fit(X, y, trusted=trusted)
    >>> bool((~model.kept_[100:130]).sum() > 20), int((~model.kept_[130:]).sum()) < 5
    (True, True)
    """

    def __init__(self, estimator: Any, *, screener: RecordScreener | None = None) -> None:
        self.estimator = estimator
        self.screener = screener

    def fit(self, X: Any, y: Any, trusted: Any = None, **fit_params: Any) -> Self:  # noqa: N803
        """Screen records, and fit the classifier on what is kept.

        Parameters
        ----------
        X
            Records (n, d).
        y
            Labels (n,).
        trusted
            Which records are trusted (n,), truth values; ``None``: all.
        **fit_params
            Of the classifier's ``fit``, such as ``sample_weight``; what has one entry a record is
            cut with them. With metadata routing they are those that it requests.

        Returns
        -------
        CleanedClassifier
            This one.
        """
        y, trusted = align(X, y, "y"), align(X, trusted, "trusted")
        fit_params = {name: align(X, value, name) for name, value in fit_params.items()}
        validate_data(self, X, y, skip_check_array=True)
        size = len(y) if hasattr(y, "__len__") else 0
        sure = _mask(trusted, size)
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", trusted=trusted, **fit_params)
        else:
            routed = Bunch(estimator=Bunch(fit=fit_params))
        self.screener_, self.screening_ = None, None
        self.kept_, self.weights_ = np.ones(size, dtype=np.bool_), np.ones(size)
        params = dict(routed.estimator.fit)
        if not sure.all():
            self._screen(X, column_or_1d(y, warn=True), sure)
            X, y = _safe_indexing(X, self.kept_), _safe_indexing(y, self.kept_)
            params = {name: _cut(value, self.kept_) for name, value in params.items()}
            if has_fit_parameter(self.estimator, "sample_weight"):
                own = params.get("sample_weight")
                sound = self.weights_[self.kept_]
                params["sample_weight"] = sound if own is None else sound * np.asarray(own)
        classifier: Any = clone(self.estimator)
        self.estimator_ = classifier.fit(X, y, **params)
        self.classes_ = self.estimator_.classes_
        return self

    def _screen(self, X: Any, y: Any, sure: Flags) -> None:  # noqa: N803
        is_default = self.screener is None
        screener: Any = RecordScreener(labels=True) if is_default else clone(self.screener)
        self.screener_ = screener.fit(_safe_indexing(X, sure), y[sure])
        self.screening_ = self.screener_.screen(_safe_indexing(X, ~sure), y[~sure])
        self.kept_[~sure] = ~self.screening_.flagged
        self.weights_[~sure] = expit(-self.screening_.scores) * self.kept_[~sure]

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who requests which metadata: this one ``trusted``, the classifier its own."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)


def _mask(trusted: Any, size: int) -> Flags:
    """Return which records are trusted."""
    if trusted is None:
        warnings.warn(
            "no record is screened: give trusted=, a mask of the records that are reliable.",
            UserWarning,
            stacklevel=3,
        )
        return np.ones(size, dtype=np.bool_)
    mask = np.asarray(trusted)
    if mask.shape != (size,):
        raise MismatchError(
            f"trusted has shape {mask.shape} and there are {size} records. Give a truth value for "
            "each.",
            code="trusted-mask",
        )
    if mask.dtype != np.bool_:
        raise InputError(
            f"trusted is of type {mask.dtype}; truth values are needed, one for each record.",
            code="trusted-mask",
        )
    return mask


def _cut(value: Any, kept: Flags) -> Any:
    """Cut what has one entry a record to those that are kept; return all else as it is."""
    sized = not isinstance(value, str | dict) and hasattr(value, "__len__")
    return _safe_indexing(value, kept) if sized and len(value) == len(kept) else value
