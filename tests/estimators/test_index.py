"""Fields of pandas follow their index in every estimator, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from silot.errors import MismatchError
from silot.estimators import CleanedClassifier, DomainAdapter, RecordScreener
from tests.problems import assert_refused

RNG = np.random.default_rng(5)
Y = np.arange(120) % 2
X = RNG.normal(size=(120, 2)) + 3.0 * Y[:, None]
HALF = np.arange(120) < 60
TURN = RNG.permutation(120)


def trained_on(x: Any) -> Any:
    """Return the records in the form of others, or scikit-learn warns of absent names."""
    return X if isinstance(x, np.ndarray) else x.reset_index(drop=True)


def screened(x: Any, y: Any, _: Any) -> Any:
    return RecordScreener(labels=True).fit(x, y).offset_


def scored(x: Any, y: Any, _: Any) -> Any:
    return RecordScreener(labels=True).fit(trained_on(x), Y).score_samples(x, y)


def screened_together(x: Any, y: Any, _: Any) -> Any:
    return RecordScreener(labels=True).fit(trained_on(x), Y).screen(x, y).scores


def cleaned(x: Any, y: Any, mask: Any) -> Any:
    return CleanedClassifier(LogisticRegression()).fit(x, y, trusted=mask).estimator_.coef_


def weighted(x: Any, y: Any, mask: Any) -> Any:
    model = CleanedClassifier(LogisticRegression())
    return model.fit(x, y, trusted=np.ones(120, bool), sample_weight=mask + 0.5).estimator_.coef_


def adapted(x: Any, y: Any, mask: Any) -> Any:
    model = DomainAdapter(LogisticRegression())
    return model.fit(x, y, sample_domain=2 * mask.astype(int) - 1).estimator_.coef_


def share(x: Any, y: Any, mask: Any) -> Any:
    model = DomainAdapter(LogisticRegression()).fit(trained_on(x), Y, sample_domain=np.ones(120))
    return model.score(x, y, mask + 0.5)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:no record")
@pytest.mark.parametrize(
    "compute", [screened, scored, screened_together, cleaned, weighted, adapted, share]
)
def test_fields_follow_their_index_or_are_refused(compute: Callable[[Any, Any, Any], Any]) -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.Index([f"p{k}" for k in range(120)])
    x = pandas.DataFrame(X, columns=["a", "b"], index=index)
    y, mask = pandas.Series(Y, index=index), pandas.Series(HALF, index=index)
    truth = compute(X, Y, HALF)
    np.testing.assert_array_equal(compute(x, y, mask), truth)
    turned = y.iloc[TURN], mask.iloc[TURN]
    np.testing.assert_array_equal(compute(x, *turned), truth)
    other = (side.reset_index(drop=True) for side in turned)
    assert_refused(lambda: compute(x, *other), MismatchError, "frame-index", quoting="to_numpy()")
