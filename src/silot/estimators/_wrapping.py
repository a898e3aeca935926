"""What every estimator that wraps a classifier passes on to it."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..data.tables import align


def _has(method: str) -> Any:
    """Return whether the classifier has a method; its own error says that it has not."""

    def check(self: WrappingClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return available_if(check)


class WrappingClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Passes records on to ``estimator_``, which ``fit`` makes of ``estimator``."""

    estimator: Any
    estimator_: Any

    @_has("predict")
    def predict(self, X: Any) -> Any:  # noqa: N803
        """Classes (n,), by the fitted classifier."""
        return self._delegate("predict", X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Probabilities of classes (n, C), by the fitted classifier."""
        return self._delegate("predict_proba", X)

    @_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:  # noqa: N803
        """Log probabilities of classes (n, C), by the fitted classifier."""
        return self._delegate("predict_log_proba", X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Its decision function, (n,) or (n, C)."""
        return self._delegate("decision_function", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Share of records whose class is predicted, by weight."""
        weights = align(X, sample_weight, "sample_weight")
        return float(super().score(X, align(X, y, "y"), weights))

    def _delegate(self, method: str, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        return getattr(self.estimator_, method)(self._prepare(X))

    def _prepare(self, X: Any) -> Any:  # noqa: N803
        """Return the records as the classifier takes them."""
        return X

    def __sklearn_tags__(self) -> Tags:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.classifier_tags = own.input_tags, own.classifier_tags
        tags.target_tags.multi_output = False
        return tags
