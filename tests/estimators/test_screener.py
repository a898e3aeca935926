"""``RecordScreener`` and ``CleanedClassifier``: the level, repair, and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import silot
from silot import Measure, Own
from silot.errors import InputError, MismatchError
from silot.estimators import CleanedClassifier, RecordScreener

Array = np.ndarray


def drawn(seed: int, n: int, wrong: int = 0) -> tuple[Array, Array, Array]:
    """Two classes in correlated columns; the last records have wrong labels."""
    rng = np.random.default_rng([seed, 9])
    y = np.arange(n) % 2
    common = rng.normal(size=n)
    x = np.column_stack([common + 0.3 * rng.normal(size=n) for _ in range(4)])
    x[:, 0] += 4.0 * y
    x[:, 1] -= 4.0 * y
    bad = np.arange(n) >= n - wrong
    return x, np.where(bad, 1 - y, y), bad


def test_about_the_level_of_sound_records_is_called_broken() -> None:
    x, y, _ = drawn(0, 400)
    fresh, labels, _ = drawn(1, 2000)
    for level in (0.05, 0.2):
        screener = RecordScreener(level=level).fit(x)
        assert np.mean(screener.predict(x) < 0) <= level
        # Within four standard errors of the share, of both samples.
        room = 4 * (level * (1 - level) * (1 / 400 + 1 / 2000)) ** 0.5
        assert abs(np.mean(screener.predict(fresh) < 0) - level) <= room
    judged = RecordScreener(labels=True).fit(x, y)
    room = 4 * (0.05 * 0.95 * (1 / 400 + 1 / 2000)) ** 0.5
    assert abs(np.mean(judged.predict(fresh, labels) < 0) - 0.05) <= room


@pytest.mark.heavy
def test_a_record_is_judged_by_itself_and_wrong_labels_are_seen() -> None:
    x, y, _ = drawn(0, 200)
    screener = RecordScreener(labels=True).fit(x, y)
    fresh, right, _ = drawn(2, 60)
    together = screener.score_samples(fresh, right)
    alone = [screener.score_samples(fresh[k : k + 1], right[k : k + 1])[0] for k in range(60)]
    assert np.allclose(together, alone, atol=1e-9)
    assert np.mean(screener.predict(fresh, 1 - right) < 0) >= 0.9
    # A class that trusted records lack says nothing of a record.
    assert np.array_equal(
        screener.score_samples(fresh, np.full(60, 7)), screener.score_samples(fresh)
    )


@pytest.mark.heavy
def test_screen_is_value_records() -> None:
    x, y, _ = drawn(0, 200)
    fresh, labels, _ = drawn(1, 100, wrong=20)
    found = RecordScreener(labels=True, fdr=0.2).fit(x, y).screen(fresh, labels)
    same = silot.value_records(
        Measure(fresh, labels=labels), Own(Measure(x, labels=y)), labels=True, fdr=0.2
    )
    assert np.array_equal(found.scores, same.scores) and np.array_equal(found.flagged, same.flagged)


def test_a_broken_cell_is_repaired_and_the_others_stay() -> None:
    x, _, _ = drawn(0, 300)
    fresh, _, _ = drawn(1, 50)
    screener = RecordScreener().fit(x)
    fresh = fresh[screener.predict(fresh) > 0]
    broken = fresh.copy()
    broken[:, 3] += 30.0
    found = screener.transform(broken)
    assert np.array_equal(found[:, :3], broken[:, :3])
    # The column is its neighbours' but for noise of .3 in each.
    assert np.sqrt(np.mean((found[:, 3] - fresh[:, 3]) ** 2)) < 0.8
    assert np.array_equal(screener.transform(fresh), fresh)


def test_wrong_labels_are_left_out_and_trusted_records_never() -> None:
    x, y, bad = drawn(3, 400, wrong=80)
    trusted = np.arange(400) < 150
    model = CleanedClassifier(LogisticRegression()).fit(x, y, trusted=trusted)
    assert model.kept_[trusted].all()
    assert np.mean(model.kept_[bad]) < 0.1 and np.mean(model.kept_[~bad]) > 0.9
    assert np.array_equal(~model.kept_[~trusted], model.screening_.flagged)
    by_hand = LogisticRegression().fit(x[model.kept_], y[model.kept_])
    assert np.array_equal(model.predict_proba(x), by_hand.predict_proba(x))


def test_without_a_mask_all_are_trusted() -> None:
    x, y, _ = drawn(3, 60, wrong=10)
    with pytest.warns(UserWarning, match="no record is screened"):
        model = CleanedClassifier(LogisticRegression()).fit(x, y)
    assert model.kept_.all() and model.screening_ is None
    same = CleanedClassifier(LogisticRegression()).fit(x, y, trusted=np.ones(60, np.bool_))
    assert np.array_equal(model.predict(x), same.predict(x))


@pytest.mark.parametrize(
    ("mask", "kind", "code"),
    [
        (np.ones(59, np.bool_), MismatchError, "trusted-mask"),
        (np.arange(60), InputError, "trusted-mask"),
    ],
)
def test_a_mask_that_is_none_is_an_error(mask: Any, kind: Any, code: str) -> None:
    x, y, _ = drawn(0, 60)
    with pytest.raises(kind) as caught:
        CleanedClassifier(LogisticRegression()).fit(x, y, trusted=mask)
    assert caught.value.code == code


def test_labels_that_are_to_be_judged_are_needed() -> None:
    x, y, _ = drawn(0, 60)
    with pytest.raises(InputError, match="labels-absent"):
        RecordScreener(labels=True).fit(x)
    with pytest.raises(InputError, match="labels-absent"):
        RecordScreener(labels=True).fit(x, y).screen(x)


@pytest.mark.heavy
def test_the_mask_goes_through_a_pipeline_and_a_search() -> None:
    x, y, _ = drawn(3, 300, wrong=50)
    trusted = (np.arange(300) % 4 < 2) & (np.arange(300) < 250)
    pipeline = make_pipeline(
        StandardScaler(),
        CleanedClassifier(LogisticRegression(), screener=RecordScreener(labels=True)),
    )
    grid = {"cleanedclassifier__screener__fdr": [0.1, 0.3]}
    search = GridSearchCV(pipeline, grid, cv=2)
    search.fit(x, y, cleanedclassifier__trusted=trusted)
    assert not search.best_estimator_[-1].kept_[-50:].all()
    assert search.best_estimator_[-1].kept_[trusted].all()


def test_metadata_are_routed_and_cut_with_the_records() -> None:
    x, y, _ = drawn(3, 300, wrong=50)
    trusted, weights = np.arange(300) < 120, np.linspace(1, 2, 300)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = CleanedClassifier(inner).set_fit_request(trusted=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(x, y, trusted=trusted, sample_weight=weights)
    kept, scaled = pipeline[-1].kept_, pipeline[0].transform(x)
    assert not kept.all()
    by_hand = LogisticRegression().fit(scaled[kept], y[kept], sample_weight=weights[kept])
    assert np.allclose(pipeline[-1].estimator_.coef_, by_hand.coef_)
