"""``RecordScreener`` and ``CleanedClassifier``: the level, repair, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import silot
from silot import Measure
from silot.errors import InputError, MismatchError
from silot.estimators import CleanedClassifier, RecordScreener
from silot.federation import Own

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
    assert (model.weights_[trusted] == 1).all() and (model.weights_[~model.kept_] == 0).all()
    assert model.weights_[bad].max() < np.median(model.weights_[~bad])
    kept, weights = model.kept_, model.weights_[model.kept_]
    by_hand = LogisticRegression().fit(x[kept], y[kept], sample_weight=weights)
    assert np.array_equal(model.predict_proba(x), by_hand.predict_proba(x))
    # One that takes no weights is fitted on what is kept.
    near = CleanedClassifier(KNeighborsClassifier()).fit(x, y, trusted=trusted)
    plain = KNeighborsClassifier().fit(x[kept], y[kept])
    assert np.array_equal(near.predict_proba(x), plain.predict_proba(x))


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
    both = weights[kept] * pipeline[-1].weights_[kept]
    by_hand = LogisticRegression().fit(scaled[kept], y[kept], sample_weight=both)
    assert np.allclose(pipeline[-1].estimator_.coef_, by_hand.coef_)


SCHEMA = silot.Schema.of(
    {
        "columns": {
            "age": {"kind": "number", "range": [0, 100], "missing": "indicator"},
            "dose": {"kind": "number", "range": [0, 20]},
            "ward": {"kind": "category", "categories": ["east", "west"]},
        },
        "label": {"column": "state", "classes": ["ill", "well"]},
    }
)


def wards(seed: int, n: int) -> pd.DataFrame:
    """Two wards with doses of their own; a tenth of the ages is missing."""
    rng = np.random.default_rng([seed, 10])
    west, ill = rng.random(n) < 0.5, rng.random(n) < 0.5
    age = np.clip(rng.normal(50.0, 8.0, n), 0, 100)
    return pd.DataFrame(
        {
            "state": np.where(ill, "ill", "well"),
            "ward": np.where(west, "west", "east"),
            "dose": 5.0 + 5.0 * west + 3.0 * ill + 0.3 * rng.normal(size=n),
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
        }
    )


def test_a_table_of_words_and_missing_values_is_screened_as_by_value_records(
    tmp_path: Path,
) -> None:
    trusted, fresh = wards(0, 150), wards(1, 60)
    fresh.loc[:5, "ward"] = np.where(fresh["ward"][:6] == "west", "east", "west")
    fresh.loc[10:13, "state"] = np.where(fresh["state"][10:14] == "ill", "well", "ill")
    path = tmp_path / "schema.json"
    SCHEMA.save(path)
    for schema in (SCHEMA, path):
        found = RecordScreener(labels=True, schema=schema).fit(trusted).screen(fresh)
        same = silot.value_records(SCHEMA.measure(fresh), Own(SCHEMA.measure(trusted)), labels=True)
        np.testing.assert_allclose(found.scores, same.scores, rtol=1e-9)
        assert np.array_equal(found.screening.columns, same.screening.columns)
        assert set(np.r_[0:6, 10:14]) <= set(found.worst[:14].tolist())
    # Labels beside the table are those of its own column.
    apart = RecordScreener(labels=True, schema=SCHEMA).fit(
        trusted.drop(columns="state"), trusted["state"]
    )
    beside = apart.screen(fresh.drop(columns="state"), fresh["state"])
    assert np.array_equal(beside.scores, found.scores)


def test_by_a_schema_transform_returns_its_coordinates_repaired() -> None:
    screener = RecordScreener(schema=SCHEMA).set_output(transform="pandas").fit(wards(0, 150))
    assert screener.feature_names_in_.tolist() == ["age", "dose", "ward"]
    fresh = wards(1, 60)
    sound = fresh[screener.predict(fresh) > 0].reset_index(drop=True)
    # Columns go by name, whatever their order and whatever others there are.
    shown = screener.transform(sound[["dose", "ward", "age"]].assign(room=1))
    assert shown.columns.tolist() == list(SCHEMA.features)
    np.testing.assert_array_equal(shown, SCHEMA.measure(sound).points)
    broken = sound.assign(dose=np.where(sound.index < 3, 19.5, sound["dose"]))
    repaired = screener.transform(broken)["dose"] * 20.0
    assert np.abs(repaired - sound["dose"]).max() < 4.0
    assert screener.predict(broken.iloc[:1]).tolist() == [-1]
    # Far from the schema's columns: the reader's own error.
    with pytest.raises(InputError, match="schema-columns"):
        screener.predict(fresh.drop(columns="ward"))


def test_without_a_schema_words_and_missing_values_are_refused_with_what_to_do() -> None:
    table = wards(0, 50)
    for columns in (["age", "dose"], ["dose", "ward"]):
        with pytest.raises(ValueError, match=r"RecordScreener\(schema="):
            RecordScreener().fit(table[columns])


def test_a_classifier_is_cleaned_by_a_schema() -> None:
    table = wards(0, 240)
    wrong = np.arange(240) >= 200
    y = np.where(wrong ^ (table["state"] == "ill"), "ill", "well")
    inner = HistGradientBoostingClassifier(categorical_features="from_dtype")
    x = table.drop(columns="state").astype({"ward": "category"})
    cleaner = CleanedClassifier(inner, screener=RecordScreener(labels=True, schema=SCHEMA))
    model = cleaner.fit(x, y, trusted=np.arange(240) < 120)
    assert np.mean(model.kept_[wrong]) < 0.2 and np.mean(model.kept_[~wrong]) > 0.9
    assert model.score(x[wrong], table["state"][wrong]) > 0.9
