"""The test behind every verdict: its level, what it sees, what it names, and what it refuses."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from silot_transport import (
    group_histograms,
    group_samples,
    two_histograms,
    two_sample,
)
from silot_transport._features import build_families, column_features
from silot_transport.errors import InputError, MismatchError

Array = npt.NDArray[np.float64]


def draw(seed: int, n: int = 200, d: int = 3) -> Array:
    return np.random.default_rng([seed, 7]).normal(size=(n, d))


def test_features_do_not_depend_on_who_has_which_record() -> None:
    table = draw(0, 40)
    order = np.random.default_rng(1).permutation(40)
    plain = build_families(table, np.ones(40), None, 1, 0)
    mixed = build_families(table[order], np.ones(40), None, 1, 0)
    for name in ("mean", "shape", "tails", "pair"):
        np.testing.assert_allclose(plain[name].values[order], mixed[name].values, atol=1e-9)


def test_mid_ranks_of_ties_are_their_mean_and_monotone_maps_change_no_rank() -> None:
    column = np.array([3.0, 1.0, 3.0, 2.0])
    # Two of four are tied at the top: ranks 3 and 4, less one half.
    assert column_features(column)[0, 0] == column_features(column)[2, 0]
    cubes = column_features(draw(2)[:, 0] ** 3)
    np.testing.assert_allclose(cubes[:, 0], column_features(draw(2)[:, 0])[:, 0])


def test_over_all_divisions_of_few_records_the_level_is_exact() -> None:
    # All ways to divide ten records: their p-values are uniform, so at most a fifth is below .2.
    records = np.random.default_rng(3).exponential(size=(10, 2))
    below = 0
    divisions = list(combinations(range(10), 5))
    for k, side in enumerate(divisions):
        other = np.setdiff1d(np.arange(10), side)
        result = two_sample(
            records[list(side)], records[other], level=0.2, permutations=19, detectable=False,
            seed=k,
        )  # fmt: skip
        below += result.p_value <= 0.2
    expected = 0.2 * len(divisions)
    assert abs(below - expected) <= 4 * (expected * 0.8) ** 0.5


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["normal", "lognormal", "one-hot", "counts", "labels"])
def test_false_alarms_are_as_many_as_the_level_says(kind: str) -> None:
    alarms, runs = 0, 150
    for seed in range(runs):
        rng = np.random.default_rng([seed, 17])
        x, y = (
            {
                "normal": rng.normal(size=(n, 4)),
                "lognormal": rng.lognormal(size=(n, 4)),
                "one-hot": np.eye(4)[rng.integers(4, size=n)],
                "counts": rng.poisson(1.0, size=(n, 4)),
                "labels": rng.normal(size=(n, 2)),
            }[kind]
            for n in (60, 90)
        )
        labels = {}
        if kind == "labels":
            labels = {"x_labels": x[:, 0] > 0, "y_labels": y[:, 0] > 0}
        alarms += two_sample(x, y, detectable=False, seed=seed, **labels).p_value <= 0.05
    assert alarms <= runs * 0.05 + 4 * (runs * 0.05 * 0.95) ** 0.5


CHANGES = {
    "mean": lambda x, rng: x + np.eye(3)[1] * 0.8,
    "spread": lambda x, rng: x * [1.0, 2.0, 1.0],
    "dependence": lambda x, rng: np.column_stack([x[:, 0], 0.9 * x[:, 0] + 0.4 * x[:, 1], x[:, 2]]),
    "contamination": lambda x, rng: np.where(rng.random((len(x), 1)) < 0.1, x + 4.0, x),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_planted_change_is_seen(change: str) -> None:
    y = CHANGES[change](draw(5), np.random.default_rng(6))
    result = two_sample(draw(4), y, columns=["a", "b", "c"])
    assert result.verdict == "different"
    if change in ("mean", "spread"):
        assert result.drivers == ("b",)
    if change == "dependence":
        assert ("a", "b") in result.pairs


def test_the_shift_is_in_units_of_the_column_and_its_interval_holds_it() -> None:
    result = two_sample(
        draw(4) * [1.0, 10.0, 1.0], draw(5) * [1.0, 10.0, 1.0] + 36.0 * np.eye(3)[1]
    )
    low, high = result["1"].shift_interval
    assert low < 36.0 < high and result["1"].shift == pytest.approx(36.0, abs=5.0)
    # From the first to the second: turned round it has the other sign.
    back = two_sample(draw(5), draw(4) + np.eye(3)[1])
    assert back["1"].shift > 0 > two_sample(draw(4) + np.eye(3)[1], draw(5))["1"].shift


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["normal", "uniform", "lognormal", "years", "rare"])
def test_the_stated_shift_is_detected_in_about_80_percent(kind: str) -> None:
    detected = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 23])
        x, y = (
            {
                "normal": rng.normal(size=(150, 3)),
                "uniform": rng.random((150, 3)),
                "lognormal": rng.lognormal(size=(150, 3)),
                # Many levels and many ties: a shift by parts of a year would give itself away.
                "years": np.round(rng.normal(50.0, 15.0, size=(150, 3))),
                "rare": (rng.random((150, 3)) < 0.05).astype(float),
            }[kind]
            for _ in range(2)
        )
        by = two_sample(x, y, seed=seed).detectable * np.concatenate([x, y])[:, 0].std()
        if kind == "rare":
            # So many of those without the event get it that their mean moves by that.
            y[rng.random(150) < by / (1.0 - y[:, 0].mean()), 0] = 1.0
        elif kind == "years":
            y[:, 0] = np.floor(y[:, 0] + by + rng.random(150))
        else:
            y[:, 0] += by
        detected += two_sample(x, y, detectable=False, seed=seed).verdict == "different"
    assert 0.62 <= detected / 60 <= 0.97


def test_order_of_samples_and_records_changes_no_p_value() -> None:
    x, y = draw(8, 50), draw(9, 70) + 0.2
    plain = two_sample(x, y)
    assert plain.p_value == two_sample(y, x).p_value == two_sample(x[::-1], y[::-1]).p_value


def test_one_odd_value_neither_hides_nor_makes_a_shift() -> None:
    x = draw(10, 300)
    x[0, 0] = 1e6
    assert two_sample(x, draw(11, 300)).verdict == "not distinguishable"
    assert two_sample(x, draw(11, 300) + np.eye(3)[0]).drivers == ("0",)


def test_constants_and_near_constants_are_no_change() -> None:
    x, y = draw(12), draw(13)
    thirds = np.full((200, 1), np.float32(1) / np.float32(3))
    result = two_sample(np.hstack([x, thirds]), np.hstack([y, thirds]))
    assert result["3"].p_value == 1.0 and np.isnan(result["3"].spread_ratio)


def test_missing_values_take_part() -> None:
    x, y = draw(14), draw(15)
    y[:60, 1] = np.nan
    result = two_sample(x, y, columns=["a", "b", "c"])
    assert result.drivers[0] == "missing values of 'b'"


def test_what_is_missing_oftener_is_named_among_many_columns() -> None:
    named = 0
    for seed in range(20):
        x, y = draw(seed, d=12), draw(100 + seed, d=12)
        x[np.random.default_rng(seed).random(200) < 0.02, 4] = np.nan
        y[np.random.default_rng(50 + seed).random(200) < 0.12, 4] = np.nan
        result = two_sample(x, y, detectable=False, seed=seed)
        named += result.drivers[:1] == ("missing values of '4'",)
    assert named >= 14


def test_values_that_are_rounded_in_one_sample_alone_are_seen() -> None:
    x, y = draw(16, d=4), draw(17, d=4)
    x[:, 2] = x[:, 2].round(1)
    assert two_sample(x, y, detectable=False).drivers == ("2",)
    assert set(two_sample(x, y.round(1), detectable=False).drivers) == {"0", "1", "3"}


def test_records_that_both_have_are_no_rounding() -> None:
    alarms = 0
    for seed in range(40):
        x, more = draw(seed), draw(200 + seed)
        result = two_sample(x, np.concatenate([x, more]), detectable=False, seed=seed)
        alarms += result.verdict == "different"
    assert alarms <= 4


def test_renamed_classes_are_seen_and_named() -> None:
    x, y = draw(16), draw(17)
    a, b = np.where(x[:, 0] > 0, "yes", "no"), np.where(y[:, 0] > 0, "no", "yes")
    same = np.where(y[:, 0] > 0, "yes", "no")
    result = two_sample(x, y, x_labels=a, y_labels=b)
    assert result.verdict == "different" and set(result.classes) == {"yes", "no"}
    assert two_sample(x, y, x_labels=a, y_labels=same).verdict == "not distinguishable"


def test_weights_that_make_samples_alike_leave_nothing_to_see() -> None:
    x, y = draw(118, 400), draw(119, 400) + 0.5 * np.eye(3)[0]
    assert two_sample(x, y).drivers == ("0",)
    assert two_sample(x, y, x_weights=np.exp(0.5 * x[:, 0])).verdict == "not distinguishable"


def test_too_few_records_and_constant_tables_cannot_be_tested() -> None:
    few = two_sample(draw(20, 4), draw(21))
    assert few.verdict == "cannot be tested" and "4 records" in few.why
    assert two_sample(np.ones((9, 2)), np.ones((8, 2))).why == "no column varies"


@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        ({"level": 1.5}, InputError, "option-level"),
        ({"permutations": 5}, InputError, "option-permutations"),
        ({"columns": ["a"]}, MismatchError, "dimension-mismatch"),
        ({"x_labels": [1, 2], "y_labels": [0] * 200}, InputError, "measure-shape"),
        ({"x_weights": [1.0]}, InputError, "weights-shape"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict, kind: type, code: str) -> None:
    with pytest.raises((InputError, MismatchError)) as caught:
        two_sample(draw(22), draw(23), **options)
    assert isinstance(caught.value, kind)
    assert caught.value.code == code or code == "weights-shape"


def test_results_are_json_with_names_of_ones_own() -> None:
    result = two_sample(draw(24), draw(25) + 1.0).named(["x", "y", "z"])
    assert result.drivers and set(result.drivers) <= {"x", "y", "z"}
    assert result.to_dict()["columns"][0]["name"] == "x"


def test_other_names_are_also_those_of_missing_values() -> None:
    x, y = draw(18), draw(19)
    x[:60, 1] = np.nan
    result = two_sample(x, y, detectable=False).named(["age", "weight", "height"])
    assert result.drivers[0] == "missing values of 'weight'"
    assert result["missing values of 'weight'"].shift < 0


@pytest.mark.heavy
@pytest.mark.parametrize("count", [3, 8])
def test_planted_groups_are_the_groups(count: int) -> None:
    samples = [draw(30 + k, 120) + np.eye(3)[0] * (k % 2) for k in range(count)]
    result = group_samples(samples)
    assert result.groups == tuple(k % 2 for k in range(count))
    assert result.splits[0].change.drivers == ("0",)


@pytest.mark.heavy
def test_samples_of_one_distribution_are_one_group() -> None:
    alone = sum(
        group_samples([draw(100 * seed + k, 50) for k in range(5)], seed=seed).k == 1
        for seed in range(40)
    )
    assert alone >= 34


def test_releases_are_compared_through_their_noise() -> None:
    rng = np.random.default_rng(42)
    cells = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(30, 2)
    shares = rng.dirichlet(np.full(30, 50.0))
    tilted = shares * np.exp(0.3 * cells[:, 0])
    counts = [
        rng.multinomial(1000, p / p.sum()) + rng.normal(scale=5.0, size=30)
        for p in (shares, shares, tilted)
    ]
    same = two_histograms(cells, counts[0], counts[1], x_noise=5.0, y_noise=5.0)
    other = two_histograms(
        cells, counts[0], counts[2], x_noise=5.0, y_noise=5.0, columns=["a", "b"]
    )
    assert same.verdict == "not distinguishable"
    assert other.drivers == ("a",) and other["a"].shift > 0
    assert group_histograms(cells, counts, noise=[5.0] * 3).groups == (0, 0, 1)


def test_histograms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        two_histograms(np.zeros((3, 1)), [1.0, 2.0], [1.0, 2.0])
    assert caught.value.code == "measure-shape"
    with pytest.raises(InputError) as caught:
        group_samples([draw(0)])
    assert caught.value.code == "holder-names"


def test_constant_samples_and_few_records_cannot_be_tested_whoever_asks() -> None:
    same = np.ones((20, 2))
    assert two_sample(same, same).why == "no column varies"
    several = group_samples([same, same, same])
    assert (several.verdict, several.why, several.k) == (
        "cannot be tested",
        "no column varies",
        1,
    )
    # A column without any value is no difference; one that only some records lack is.
    empty = np.full((20, 1), np.nan)
    assert two_sample(empty, empty).verdict == "cannot be tested"
    partly = np.where(np.arange(20)[:, None] < 9, np.nan, 1.0)
    assert two_sample(partly, np.ones((20, 1))).verdict == "different"
    few = two_histograms([[0.0], [1.0]], [1.0, 1.0], [30.0, 20.0])
    assert few.verdict == "cannot be tested" and "2 records" in few.why


def test_a_missing_value_in_a_record_that_is_thinned_out_is_no_error() -> None:
    # 1,003 records make blocks of two, and one record has no block.
    for seed in range(12):
        x, y = draw(seed, 1003), draw(seed + 50, 1003)
        x[:, 1][seed] = np.nan
        names = [item.name for item in two_sample(x, y, detectable=False, seed=seed).columns]
        assert names == ["0", "1", "2", "missing values of '1'"]


def test_histograms_are_of_what_drives_and_count_every_record_once() -> None:
    x, y = draw(12), np.column_stack([draw(13)[:, :2], np.ones(200)])
    x[0, 0], y[:, 0] = 1e9, y[:, 0] + 2.0
    result = two_sample(x, y, columns=["a", "b", "c"])
    assert {item.name for item in result.histograms} == {"a", "c"}
    for item in result.histograms:
        assert len(item.edges) == len(item.first) + 1
        assert sum(item.first) == pytest.approx(1.0) and sum(item.second) == pytest.approx(1.0)
    # One value far out is in the last bin, and leaves the others theirs.
    first = next(item for item in result.histograms if item.name == "a")
    assert first.edges[-1] < 1e3 and max(first.first) < 0.5
    assert result.named(["u", "v", "w"]).histograms[0].name in {"u", "w"}
