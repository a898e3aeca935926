"""``DomainAdapter``: the least change that explains a target, and a classifier for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from silot.errors import SilotError
from silot.estimators import DomainAdapter, DomainChange

Array = np.ndarray
SCALE, OFFSET = np.array([18.0, 1.0, 0.5]), np.array([5.0, -1.0, 0.0])


def draw(seed: int, n: int, share: float) -> tuple[Array, Array]:
    """Two classes that are not each other's mirror image."""
    rng = np.random.default_rng([seed, 41])
    y = (rng.random(n) < share).astype(int)
    x = rng.normal(size=(n, 3)) * np.where(y, 0.7, 1.3)[:, None] + 2.0 * y[:, None]
    return x, y


def adapted(
    source: tuple[Array, Array], target: Array, estimator: Any = None, **options: Any
) -> DomainAdapter:
    x, y = source
    domain = np.concatenate([np.ones(len(x)), -np.ones(len(target))])
    hidden = np.concatenate([y, np.full(len(target), -1)])
    model = DomainAdapter(estimator or LogisticRegression(), **options)
    return model.fit(np.concatenate([x, target]), hidden, sample_domain=domain)


def test_records_of_one_law_change_nothing() -> None:
    source, (target, _) = draw(0, 300, 0.5), draw(1, 300, 0.5)
    model = adapted(source, target)
    assert model.adaptation_.change == "none"
    plain = LogisticRegression().fit(*source)
    np.testing.assert_array_equal(model.predict_proba(target), plain.predict_proba(target))


@pytest.mark.parametrize("absent", [np.nan, None])
def test_labels_of_the_target_may_be_missing(absent: object) -> None:
    (x, y), (target, right) = draw(0, 300, 0.5), draw(1, 300, 0.5)
    labels = [*(y.astype(float) if absent is not None else np.array(["a", "b"])[y])]
    hidden = np.array([*labels, *[absent] * len(target)], dtype=None if absent else object)
    domain = np.repeat([1, -1], [len(x), len(target)])
    model = DomainAdapter(LogisticRegression()).fit(np.concatenate([x, target]), hidden, domain)
    assert (model.predict(target) == np.array(sorted(set(labels)))[right]).mean() > 0.9
    with pytest.raises(ValueError):
        DomainAdapter(LogisticRegression()).fit(np.concatenate([x, target]), hidden, -domain)


def test_more_classes_than_are_compared_are_refused() -> None:
    (x, _), (target, _) = draw(0, 300, 0.5), draw(1, 300, 0.5)
    with pytest.raises(ValueError, match="40 classes while at most 30"):
        adapted((x, np.arange(300) % 40), target)


def test_other_shares_of_the_classes_are_found_and_no_record_is_moved() -> None:
    source, (target, right) = draw(0, 400, 0.5), draw(1, 400, 0.15)
    model = adapted(source, target)
    assert model.adaptation_.change == "classes"
    assert model.adaptation_.shares["1"][1] == pytest.approx(right.mean(), abs=0.05)
    assert set(model.adaptation_.scale.values()) == {1.0}
    assert model.score(target, right) > LogisticRegression().fit(*source).score(target, right)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:A change explains:UserWarning", "ignore:Neither:UserWarning")
def test_a_change_that_was_fitted_to_noise_is_not_made() -> None:
    # At this level half of the samples from one distribution count as different.
    changes = [
        adapted(draw(k, 60, 0.5), draw(100 + k, 60, 0.5)[0], level=0.5).adaptation_
        for k in range(10)
    ]
    kinds = [found.change for found in changes]
    assert sum(kind in ("none", "unproven", "unexplained") for kind in kinds) >= 9
    unproven = next(found for found in changes if found.change == "unproven")
    assert any(step.explains and not step.helps for step in unproven.steps)
    assert set(unproven.scale.values()) == {1.0} and set(unproven.offset.values()) == {0.0}
    assert all(own == there for own, there in unproven.shares.values())
    assert "nothing was changed" in unproven._repr_html_()


@pytest.mark.heavy
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_other_units_are_found_where_shares_differ_too(share: float) -> None:
    source, (target, right) = draw(2, 500, 0.5), draw(3, 500, share)
    model = adapted(source, target * SCALE + OFFSET)
    found = model.adaptation_
    assert found.change == "units"
    np.testing.assert_allclose(list(found.scale.values()), SCALE, rtol=0.15)
    assert found.shares["1"][1] == pytest.approx(right.mean(), abs=0.08)
    assert [step.explains for step in found.steps] == [False, False, True]
    # Nearly all of the difference is gone, of records that the units were not fitted on.
    assert found.steps[-1].helps and found.steps[-1].nearer > 0.8
    here = LogisticRegression().fit(target * SCALE + OFFSET, right)
    best = here.score(target * SCALE + OFFSET, right)
    assert model.score(target * SCALE + OFFSET, right) > best - 0.03


@pytest.mark.heavy
def test_labels_of_the_target_are_not_looked_at() -> None:
    source, (target, right) = draw(0, 300, 0.5), draw(1, 300, 0.2)
    both = np.concatenate([source[0], target])
    domain = np.repeat([2, -1], 300)
    one, other = (
        DomainAdapter(LogisticRegression()).fit(
            both, np.concatenate([source[1], told]), sample_domain=domain
        )
        for told in (right, 1 - right)
    )
    assert one.adaptation_ == other.adaptation_
    np.testing.assert_array_equal(one.predict_proba(target), other.predict_proba(target))


@pytest.mark.heavy
def test_the_unit_of_the_whole_table_is_no_matter() -> None:
    source, (target, _) = draw(0, 300, 0.5), draw(1, 300, 0.3)
    one = adapted(source, target * SCALE)
    other = adapted((source[0] * 512.0, source[1]), target * SCALE * 512.0)
    assert one.adaptation_.scale == pytest.approx(other.adaptation_.scale)
    assert one.adaptation_.shares == other.adaptation_.shares


@pytest.mark.heavy
def test_a_law_that_nothing_explains_is_left_with_a_warning() -> None:
    rng = np.random.default_rng(2)
    x, y = draw(0, 300, 0.5)
    # Two clouds that no scale of columns brings upon the source.
    target = np.sign(rng.normal(size=(300, 1))) * 6.0 + rng.normal(size=(300, 3)) * 0.1
    with pytest.warns(UserWarning, match="nothing was changed"):
        left = adapted((x, y), target)
    assert left.adaptation_.change == "unexplained"
    plain = LogisticRegression().fit(x, y)
    np.testing.assert_array_equal(left.predict_proba(target), plain.predict_proba(target))


@pytest.mark.heavy
def test_a_classifier_without_weights_and_columns_without_spread_are_taken() -> None:
    (x, y), (target, right) = draw(0, 300, 0.5), draw(1, 300, 0.5)
    flat = np.full((300, 1), 7.0)
    both = np.hstack([x, flat]), np.hstack([target * SCALE, flat + 1.0])
    model = adapted((both[0], y), both[1], KNeighborsClassifier(5))
    assert model.adaptation_.change == "units"
    assert model.adaptation_.scale["3"] == 1.0
    assert model.adaptation_.offset["3"] == pytest.approx(1.0)
    # The first column decides who is near, in these units.
    here = KNeighborsClassifier(5).fit(x * SCALE, y)
    assert model.score(both[1], right) > here.score(target * SCALE, right) - 0.03


@pytest.mark.heavy
def test_shares_reach_a_classifier_whose_fit_takes_no_weights() -> None:
    source, (target, _) = draw(0, 400, 0.5), draw(1, 400, 0.1)
    weighted = adapted(source, target)
    drawn = adapted(source, target, make_pipeline(StandardScaler(), LogisticRegression()))
    assert weighted.adaptation_ == drawn.adaptation_
    both = [model.predict(target).mean() for model in (weighted, drawn)]
    assert both[1] == pytest.approx(both[0], abs=0.02)
    assert both[1] < LogisticRegression().fit(*source).predict(target).mean()


@pytest.mark.heavy
@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()])
def test_a_class_of_few_records_is_kept(estimator: Any) -> None:
    (x, y), (target, _) = draw(0, 3000, 0.5), draw(1, 600, 0.2)
    y[:2] = 2
    # One that takes weights, and one that gets records drawn.
    model = adapted((x, y), target, estimator)
    assert model.classes_.tolist() == [0, 1, 2]
    assert set(model.adaptation_.shares) == {"0", "1", "2"}
    assert np.isfinite(model.predict_proba(target)).all()


@pytest.mark.heavy
def test_on_a_real_table_in_other_units_with_other_shares() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(5)
    order = rng.permutation(len(x))
    source, target = order[:280], order[280:]
    target = target[rng.random(len(target)) < np.where(y[target] == 1, 0.25, 1.0)]
    there = x * rng.uniform(0.6, 1.7, x.shape[1]) + 0.3 * x.std(axis=0)
    base = make_pipeline(StandardScaler(), LogisticRegression())
    model = adapted((x[source], y[source]), there[target], base)
    plain = base.fit(x[source], y[source]).score(there[target], y[target])
    assert model.adaptation_.change == "units"
    assert model.score(there[target], y[target]) > max(plain, 0.85)


@pytest.mark.heavy
def test_what_was_found_shows_itself() -> None:
    source, (target, _) = draw(0, 300, 0.5), draw(1, 300, 0.2)
    found = adapted(source, target * SCALE).adaptation_
    assert isinstance(found, DomainChange)
    page = found._repr_html_()
    assert "Other units of the columns" in page and "Shares of the classes" in page


@pytest.mark.parametrize(
    ("domain", "code"),
    [
        (np.ones(5), "sample-domain"),
        (np.zeros(300), "sample-domain"),
        (np.full(300, np.nan), "sample-domain"),
        (np.array(["source"] * 300), "sample-domain"),
    ],
)
def test_domains_that_are_none_are_errors_with_a_code(domain: Any, code: str) -> None:
    with pytest.raises(SilotError) as caught:
        DomainAdapter(LogisticRegression()).fit(*draw(0, 300, 0.5), sample_domain=domain)
    assert caught.value.code == code


def test_values_whose_squares_are_no_numbers_are_refused_and_classes_go_by_any_name() -> None:
    (x, y), (target, _) = draw(0, 100, 0.5), draw(1, 100, 0.5)
    with pytest.raises(SilotError) as caught:
        adapted((x, y), target * 1e200)
    assert caught.value.code == "measure-magnitude"
    words = adapted((x, np.where(y, "ill", "well")), target * SCALE, KNeighborsClassifier())
    assert set(words.predict(target * SCALE)) == {"ill", "well"}
    assert set(words.adaptation_.shares) == {"ill", "well"}


def test_too_few_records_of_a_side_are_refused() -> None:
    x, y = draw(0, 100, 0.5)
    domain = np.where(np.arange(100) < 95, 1, -1)
    with pytest.raises(ValueError, match="5 sample"):
        DomainAdapter(LogisticRegression()).fit(x, y, sample_domain=domain)
    with pytest.raises(ValueError, match="0 sample"):
        DomainAdapter(LogisticRegression()).fit(x, y, sample_domain=-np.ones(100))
