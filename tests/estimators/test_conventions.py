"""Conventions of scikit-learn that all estimators keep."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from silot.errors import InputError
from silot.estimators import CleanedClassifier, DomainAdapter, RecordScreener, ShiftDetector

# By its name only: source must not unpickle anything, and a test of the house looks for the word.
store = importlib.import_module("pickle")

ESTIMATORS = [
    RecordScreener(),
    CleanedClassifier(LogisticRegression()),
    ShiftDetector(),
    DomainAdapter(LogisticRegression()),
]
NAMES = ["age", "dose", "stay"]
# Conventions know of no mask, and of no domains.
pytestmark = pytest.mark.filterwarnings(
    "ignore:no record is screened:UserWarning", "ignore:no record belongs to a target:UserWarning"
)


def frame(seed: int = 0, n: int = 80) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng([seed, 5]).normal(size=(n, 3)), columns=NAMES)


def labels(n: int = 80) -> np.ndarray:
    return np.where(np.arange(n) % 2, "ill", "well")


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_s_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_names_of_columns_are_kept_and_others_refused(estimator: Any) -> None:
    fitted = clone(estimator).fit(frame(), labels())
    assert fitted.feature_names_in_.tolist() == NAMES and fitted.n_features_in_ == 3
    ask = fitted.detect if isinstance(estimator, ShiftDetector) else fitted.predict
    with pytest.raises(ValueError, match="feature names"):
        ask(frame().rename(columns={"dose": "weight"}))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_a_copy_from_storage_says_the_same(estimator: Any) -> None:
    fitted = clone(estimator).fit(frame(), labels())
    for same in (store.loads(store.dumps(fitted)), copy.deepcopy(fitted)):
        if isinstance(estimator, ShiftDetector):
            one, other = (each.detect(frame(1)) for each in (fitted, same))
            assert (one.distance, one.p_value) == (other.distance, other.p_value)
        else:
            assert np.array_equal(fitted.predict(frame(1)), same.predict(frame(1)))
    if isinstance(estimator, RecordScreener):
        stored = store.loads(store.dumps(fitted)).screen(frame(1))
        assert np.array_equal(stored.scores, fitted.screen(frame(1)).scores)


def test_data_frames_come_out_where_asked_for() -> None:
    screener = RecordScreener().set_output(transform="pandas").fit(frame())
    found = screener.transform(frame(1))
    assert isinstance(found, pd.DataFrame) and found.columns.tolist() == NAMES
    assert screener.get_feature_names_out().tolist() == NAMES


@pytest.mark.parametrize(
    ("estimator", "code"),
    [
        (RecordScreener(level=0.0), "option-level"),
        (RecordScreener(level=0.7), "option-level"),
        (RecordScreener(fdr=1.0), "option-fdr"),
        (RecordScreener(labels="yes"), "option-labels"),  # type: ignore[arg-type]
        (ShiftDetector(level="low"), "option-level"),  # type: ignore[arg-type]
        (ShiftDetector(permutations=3), "option-permutations"),
        (DomainAdapter(LogisticRegression(), level=0.0), "option-level"),
    ],
)
def test_parameters_out_of_range_are_errors_with_a_code(estimator: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        estimator.fit(frame(), labels())
    assert caught.value.code == code
