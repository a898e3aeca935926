"""Screens: wrong labels, broken features, clean holders, units, order, odd data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import roc_auc_score

import silot
from silot.errors import InputError, WireError
from silot.records.screen import KINDS, Screen, Screened
from tests.problems import Array, seeds
from tests.tiers import examples

LABEL, FEATURES = KINDS.index("label"), KINDS.index("features")
TABLES = {"digits": load_digits, "cancer": load_breast_cancer, "wine": load_wine}
Codes = np.ndarray


def drawn(name: str, seed: int, n: int, m: int) -> tuple[Array, Codes, Array, Codes]:
    x, y = TABLES[name](return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))[: n + m]
    return x[order[:n]], y[order[:n]], x[order[n:]], y[order[n:]]


def screened(
    x: Array, y: Codes | None, v: Array, yv: Codes | None, fdr: float = 0.15, seed: int = 0
) -> Screened:
    classes = 0 if yv is None else int(yv.max()) + 1
    screen, _ = Screen.fit(v, np.full(len(v), 1 / len(v)), yv, classes, seed)
    screen.check()
    return screen(x, np.full(len(x), 1 / len(x)), y, fdr=fdr, seed=seed)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["digits", "cancer"])
@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_wrong_labels_are_found_flagged_counted_and_mended(name: str, share: float) -> None:
    rng = np.random.default_rng(1)
    x, y, v, yv = drawn(name, 1, 280, 280)
    bad = np.arange(280) < round(share * 280)
    wrong = np.where(bad, (y + rng.integers(1, y.max() + 1, 280)) % (y.max() + 1), y)
    found = screened(x, wrong, v, yv)
    assert roc_auc_score(bad, found.scores) >= 0.97
    flagged = found.kinds > 0
    assert (flagged & bad).sum() / flagged.sum() >= 0.75 and flagged[bad].mean() >= 0.75
    assert (found.kinds[flagged & bad] == LABEL).mean() >= 0.95
    assert (found.suggested[flagged & bad] == y[flagged & bad]).mean() >= 0.9
    assert found.shares[0, 1] <= share <= found.shares[0, 2]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["digits", "cancer"])
@pytest.mark.parametrize("labelled", [False, True])
def test_noise_in_features_is_found_and_named(name: str, labelled: bool) -> None:
    rng = np.random.default_rng(2)
    x, y, v, yv = drawn(name, 2, 280, 280)
    bad = np.arange(280) < 42
    x = x + bad[:, None] * rng.normal(size=x.shape) * v.std(axis=0) * 1.5
    found = screened(x, y if labelled else None, v, yv if labelled else None)
    flagged = found.kinds > 0
    assert roc_auc_score(bad, found.scores) >= 0.97
    assert (flagged & bad).sum() / flagged.sum() >= 0.7 and flagged[bad].mean() >= 0.6
    assert (found.kinds[flagged & bad] == FEATURES).mean() >= 0.9


def law(name: str, rng: np.random.Generator, n: int) -> Array:
    turn = np.eye(5) + 0.4 * rng.normal(size=(5, 5))
    if name == "t3":
        return rng.standard_t(3, size=(n, 5)) @ turn
    rows = rng.normal(size=(n, 5)) @ turn
    return np.exp(rows) if name == "lognormal" else rows


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["normal", "lognormal", "t3"])
@pytest.mark.parametrize("m", [50, 120])
def test_of_clean_records_no_more_than_the_level_are_flagged(name: str, m: int) -> None:
    rates = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = law(name, rng, m + 200)
        labels = (rows[:, 0] + rng.normal(size=len(rows)) > np.median(rows[:, 0])).astype(np.int64)
        found = screened(rows[m:], labels[m:], rows[:m], labels[:m], fdr=0.1)
        rates.append((found.kinds > 0).mean())
    assert np.mean(rates) <= 0.1 + 2 * np.std(rates) / 10**0.5
    # Far fewer: the level is of the flagged, not of all.
    assert np.mean(rates) <= 0.05


def test_the_column_of_a_gross_value_is_named() -> None:
    x, _, v, _ = drawn("cancer", 3, 200, 200)
    x = x.copy()
    x[5, 17] = v[:, 17].max() * 18
    found = screened(x, None, v, None)
    assert found.kinds[5] == FEATURES and found.columns[5, 0] == 17 and found.residuals[5, 0] > 3


@pytest.mark.parametrize("size", [12, 30])
@pytest.mark.parametrize("name", ["normal", "t3"])
def test_few_values_far_outside_are_flagged_whatever_their_number(name: str, size: int) -> None:
    found, others = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = law(name, rng, 550)
        x, v = rows[:300].copy(), rows[300:]
        gross, column = rng.choice(300, 4, replace=False), rng.integers(0, 5, 4)
        x[gross, column] += size * (np.quantile(v, 0.75, 0) - np.quantile(v, 0.25, 0))[column]
        result = screened(x, None, v, None, fdr=0.1)
        found.append((result.kinds[gross] == FEATURES).mean())
        others.append((result.kinds > 0).sum() - 4 * found[-1])
        hit = gross[result.kinds[gross] == FEATURES]
        assert (result.columns[hit, 0] == column[result.kinds[gross] == FEATURES]).all()
    # Of heavy tails twelve quartile ranges are no surprise.
    assert np.mean(found) >= {"normal": 0.5, "t3": 0.008 * size}[name]
    assert np.mean(others) <= 2.0


@pytest.mark.heavy
def test_no_flags_and_no_broken_records_go_together() -> None:
    """Hard classes and few validation records do not make an estimate of broken ones."""
    shares = []
    for seed in range(6):
        x, y, v, yv = drawn("digits", seed, 80, 100)
        found = screened(x, y, v, yv, fdr=0.1)
        shares.append(found.shares[2, 0])
        assert found.shares[2, 0] >= 0.9 * (found.kinds > 0).mean()
    assert np.mean(shares) <= 0.1


@pytest.mark.heavy
@given(seeds)
@settings(max_examples=examples(5))
def test_units_and_order_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, v, yv = drawn("wine", seed % 7, 60, 60)
    y = y.copy()
    y[:6] = (y[:6] + 1) % 3
    before = screened(x, y, v, yv)
    order, turned = rng.permutation(60), rng.permutation(60)
    after = screened(x[order], y[order], v[turned], yv[turned])
    np.testing.assert_allclose(after.scores, before.scores[order], atol=1e-6)
    np.testing.assert_array_equal(after.kinds, before.kinds[order])
    # Powers of two keep the digits that trees split at.
    scale, shift = 2.0 ** rng.integers(-8, 8, x.shape[1]), 0.0
    moved = screened(x * scale + shift, y, v * scale + shift, yv)
    np.testing.assert_allclose(moved.scores, before.scores, atol=1e-6)


def test_records_without_mass_are_scored_and_change_nothing() -> None:
    x, y, v, yv = drawn("cancer", 4, 120, 150)
    screen, _ = Screen.fit(v, np.full(150, 1 / 150), yv, 2, 0)
    weights = np.append(np.full(120, 1 / 120), np.zeros(9))
    odd = np.vstack([x, 50.0 * x[:9]])
    found = screen(odd, weights, np.append(y, y[:9]), fdr=0.1, seed=0)
    alone = screen(x, np.full(120, 1 / 120), y, fdr=0.1, seed=0)
    np.testing.assert_array_equal(found.kinds, np.append(alone.kinds, np.zeros(9)))
    np.testing.assert_allclose(found.scores[:120], alone.scores)
    assert (found.scores[120:] > np.median(alone.scores)).all()
    # Whoever reads the answer needs a class for each, of those that are not its own.
    assert (found.suggested >= 0).all() and (found.suggested[120:] != y[:9]).all()


@pytest.mark.heavy
def test_validation_records_without_mass_say_nothing_and_weights_count() -> None:
    x, y, v, yv = drawn("cancer", 5, 120, 150)
    weights = np.append(np.full(150, 1.0), np.zeros(30))
    junk = np.vstack([v, 30.0 * v[:30]])
    found, kept = Screen.fit(junk, weights / weights.sum(), np.append(yv, 1 - yv[:30]), 2, 0)
    plain, _ = Screen.fit(v, np.full(150, 1 / 150), yv, 2, 0)
    assert set(kept.tolist()) == set(range(150))
    uniform = np.full(120, 1 / 120)
    left, right = (one(x, uniform, y, fdr=0.1, seed=0) for one in (found, plain))
    np.testing.assert_allclose(left.scores, right.scores, atol=1e-9)
    heavy = np.where(yv == 0, 9.0, 1.0)
    assert Screen.fit(v, heavy / heavy.sum(), yv, 2, 0)[0].size < 150


@pytest.mark.heavy
def test_validation_records_given_twice_are_no_witnesses_of_one_another() -> None:
    x, y, v, yv = drawn("cancer", 6, 120, 150)
    once = screened(x, y, v, yv)
    twice = screened(x, y, np.vstack([v, v]), np.append(yv, yv))
    np.testing.assert_allclose(once.scores, twice.scores, atol=1e-6)


@pytest.mark.heavy
def test_classes_that_validation_records_lack_are_not_judged_and_get_a_suggestion() -> None:
    x, y, v, yv = drawn("digits", 7, 150, 200)
    named = np.where(y == 3, 10, y)
    screen, _ = Screen.fit(v, np.full(200, 1 / 200), yv, 10, 0)
    found = screen(x, np.full(150, 1 / 150), named, fdr=0.1, seed=0)
    strange = y == 3
    np.testing.assert_array_equal(found.judged == 0, strange)
    assert (found.labels[strange] == 0).all() and (found.kinds[strange] != LABEL).all()
    assert (found.suggested[strange] == 3).mean() >= 0.8


def odd_data() -> dict[str, Array]:
    rng = np.random.default_rng(8)
    normal = rng.normal(size=(60, 3))
    return {
        "constant columns": np.column_stack([normal[:, 0], np.full(60, 7.0), np.zeros(60)]),
        "one column": normal[:, :1],
        "binary": (normal > 0).astype(float),
        "huge": normal * 1e140,
        "tiny": normal * 1e-140,
        "far": normal + 1e12,
        "one far": np.vstack([normal[:-1], np.full((1, 3), 1e9)]),
        "collinear": np.repeat(normal[:, :1], 3, axis=1),
        "wide": rng.normal(size=(60, 200)),
    }


@pytest.mark.heavy
@pytest.mark.parametrize("case", odd_data())
@pytest.mark.parametrize("labelled", [False, True])
def test_odd_data_give_finite_scores(case: str, labelled: bool) -> None:
    rows = odd_data()[case]
    labels = (np.arange(60) % 3 == 0).astype(np.int64) if labelled else None
    found = screened(rows[::-1].copy(), labels, rows, labels, fdr=0.1)
    for part in (found.scores, found.labels, found.features, found.apart, found.residuals):
        assert np.isfinite(part).all()
    assert (found.kinds > 0).mean() <= 0.2


@given(st.integers(1, 9))
@settings(max_examples=examples(9))
def test_too_few_validation_records_are_refused(m: int) -> None:
    with pytest.raises(InputError) as caught:
        Screen.fit(np.random.default_rng(m).normal(size=(m, 2)), np.full(m, 1 / m), None, 0, 0)
    assert caught.value.code == "validation-few"


def test_one_class_alone_leaves_labels_unjudged() -> None:
    x, _, v, _ = drawn("wine", 9, 40, 60)
    found = screened(x, np.zeros(40, np.int64), v, np.zeros(60, np.int64))
    assert not found.judged.any() and (found.kinds != LABEL).all()


@pytest.mark.heavy
def test_many_validation_records_are_thinned() -> None:
    rng = np.random.default_rng(10)
    v = rng.normal(size=(2600, 3))
    screen, kept = Screen.fit(v, np.full(2600, 1 / 2600), (v[:, 0] > 0).astype(np.int64), 2, 0)
    assert len(screen.points) == len(kept) == 2000
    np.testing.assert_array_equal(v[kept], screen.points)
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] > 0).astype(np.int64)
    y[:30] = 1 - y[:30]
    found = screen(x, np.full(300, 1 / 300), y, fdr=0.1, seed=0)
    assert roc_auc_score(np.arange(300) < 30, found.scores) > 0.95


def test_flips_of_one_kind_are_learned() -> None:
    """Labels that always go to the next class: a record's own suspicion is a class, not all."""
    rng = np.random.default_rng(11)
    v, x = rng.normal(size=(400, 1)) * 2.0, rng.normal(size=(400, 1)) * 2.0
    classes = [np.clip(np.rint(each[:, 0] + 0.4 * rng.normal(size=400)) + 2, 0, 4).astype(np.int64)
               for each in (v, x)]  # fmt: skip
    bad = np.arange(400) < 120
    found = screened(x, np.where(bad, (classes[1] + 1) % 5, classes[1]), v, classes[0])
    right = np.where(bad, classes[1], -1)
    sure = bad & (found.kinds == LABEL)
    assert sure.sum() > 20 and (found.suggested[sure] == right[sure]).mean() > 0.6


@pytest.mark.heavy
def test_other_class_shares_are_learned_and_no_fault() -> None:
    """At the holder one class is rare: its records are no wrong labels, wrong ones are found."""
    rng = np.random.default_rng(12)
    aucs, rates = [], []
    for _ in range(4):
        classes = [rng.random(500) < share for share in (0.5, 0.9)]
        v, x = (each[:, None] + rng.normal(size=(500, 3)) for each in classes)
        yv, y = (each.astype(np.int64) for each in classes)
        bad = np.arange(500) < 60
        found = screened(x, np.where(bad, 1 - y, y), v, yv)
        shown = screened(x, y, v, yv, fdr=0.1)
        aucs.append(roc_auc_score(bad, found.scores))
        rates.append((shown.kinds > 0).mean())
    # With the odds of the validation data it is .86.
    assert np.mean(aucs) >= 0.94 and np.mean(rates) <= 0.02


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": np.zeros(60)},
        {"weights": np.full(60, 1 / 30)},
        {"sound": np.full(60, np.nan)},
        {"sound": np.zeros(59)},
        {"shares": np.zeros((60, 1))},
        {"points": np.zeros((59, 3))},
        {"points": np.full((60, 3), np.inf)},
    ],
)
def test_models_that_do_not_fit_are_refused(changes: dict[str, Array]) -> None:
    rows = np.random.default_rng(12).normal(size=(60, 3))
    screen, _ = Screen.fit(rows, np.full(60, 1 / 60), None, 0, 0)
    with pytest.raises(WireError):
        replace(screen, **changes).check()


def test_a_holder_of_one_record_is_judged_by_validation_records_alone() -> None:
    v = np.random.default_rng(13).normal(size=(200, 4))
    gross = screened(np.array([[0.0, 40.0, 0.0, 0.0]]), None, v, None, fdr=0.1)
    assert gross.kinds[0] == FEATURES and gross.columns[0, 0] == 1
    plain = screened(np.array([[0.1, -0.4, 0.3, 0.0]]), None, v, None, fdr=0.1)
    assert plain.kinds[0] == 0


def test_copies_of_one_wrong_label_do_not_vouch_for_one_another() -> None:
    rng = np.random.default_rng(14)
    v, x = rng.normal(size=(200, 4)), rng.normal(size=(60, 4))
    x[0] = [2.0, 0.0, 0.0, 0.0]
    y = (x[:, 0] > 0).astype(np.int64)
    copied, labels = np.vstack([x, np.tile(x[:1], (20, 1))]), np.append(y, np.zeros(20, np.int64))
    result = screened(copied, labels, v, (v[:, 0] > 0).astype(np.int64), fdr=0.1)
    assert (result.kinds[-20:] == LABEL).all() and (result.kinds[:60] == LABEL).mean() <= 0.1


def test_repeating_all_records_changes_nothing_that_is_said_of_them() -> None:
    rng = np.random.default_rng(0)
    x, trusted = rng.normal(size=(150, 4)), rng.normal(size=(120, 4))
    y, names = ((rows[:, 0] > 0).astype(int) for rows in (x, trusted))
    y[:15] = 1 - y[:15]
    own = silot.Measure(trusted, labels=names)
    once = silot.value_records(silot.Measure(x, labels=y), own, labels=True)
    twice = silot.value_records(
        silot.Measure(x.repeat(2, axis=0), labels=y.repeat(2)), own, labels=True
    )
    np.testing.assert_array_equal(twice.parts.features[::2], once.parts.features)
    np.testing.assert_array_equal(twice.parts.labels[::2], once.parts.labels)
