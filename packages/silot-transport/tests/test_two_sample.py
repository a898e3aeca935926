"""The test behind every verdict: its level, what it sees, what it names, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot_transport import (
    TwoSampleResult,
    group_histograms,
    group_samples,
    two_histograms,
    two_sample,
)
from silot_transport._features import RIDGE, build_families, column_features, whiten
from silot_transport.errors import InputError, MismatchError
from silot_transport.two_sample import Sample, draw_by_data, join_copies

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


ROUNDED = {
    "one decimal, fractions": (lambda x: x.round(1), lambda x: x),
    "kilograms, whole pounds": (lambda x: x.round(1), lambda x: np.round(x / 0.4536) * 0.4536),
    "wholes, halves": (np.round, lambda x: np.round(2 * x) / 2),
    "wholes, fives": (np.round, lambda x: np.round(x / 5) * 5),
    "many zeros, unlike decimals": (
        lambda x: np.maximum(x - 75, 0).round(1),
        lambda x: np.maximum(x - 75, 0).round(2),
    ),
}


@pytest.mark.parametrize("kind", ROUNDED)
def test_samples_that_are_rounded_unlike_do_not_differ_for_that(kind: str) -> None:
    alarms, seen = 0, 0
    for seed in range(40):
        x, y = draw(seed, 400 - 250 * (seed % 2)), draw(500 + seed, 300)
        first, second = ROUNDED[kind]
        x[:, 0], near = first(75 + 15 * x[:, 0]), second(75 + 15 * y[:, 0])
        far = second(75 + 15 * (y[:, 0] + 0.6))
        for place, column in enumerate((near, far)):
            y[:, 0] = column
            result = two_sample(x, y, detectable=False, seed=seed)
            alarms += not place and result.verdict == "different"
            seen += place and "0" in result.drivers
    assert alarms <= 6
    assert seen >= 36


def repeated(seed: int, n: int) -> Array:
    counts = np.random.default_rng(900 + seed).integers(1, 5, n)
    return np.repeat(draw(seed, n), counts, axis=0)


def test_copies_of_records_make_no_difference() -> None:
    alarms, seen = 0, 0
    for seed in range(40):
        x, y = repeated(seed, 50), repeated(500 + seed, 60) if seed % 2 else draw(500 + seed, 100)
        alarms += two_sample(x, y, detectable=False, seed=seed).verdict == "different"
        seen += "1" in two_sample(x, y + np.eye(3)[1], detectable=False, seed=seed).drivers
    assert alarms <= 7
    assert seen >= 36


def test_records_that_are_equal_by_nature_are_no_copies() -> None:
    for low in (2, 12):
        rng = np.random.default_rng(low)
        x, y = rng.integers(0, 12, (80, 2)), rng.integers(low, low + 12, (80, 2))
        sides = [Sample.of(1.0 * part, None, None, "x") for part in (x, y)]
        assert [len(side.points) for side in join_copies(sides)] == [80, 80]


def test_a_default_value_is_no_rounding() -> None:
    x, y = draw(16, d=4), draw(17, d=4)
    y[:20, 2] = 0.0
    assert two_sample(x, y, detectable=False).drivers == ("2",)


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


@pytest.mark.parametrize("known", [True, False])
def test_the_shift_that_releases_would_show_is_detected_as_often_as_named(known: bool) -> None:
    """Cells are means of records: what they do not show of a shift counts, where it is known."""
    rng = np.random.default_rng(7)
    cells = rng.normal(size=(24, 3))

    def count(shift: float) -> npt.NDArray[np.float64]:
        records = rng.normal(size=(1500, 3)) + shift * np.eye(3)[0]
        nearest = ((records[:, None] - cells) ** 2).sum(axis=2).argmin(axis=1)
        return np.bincount(nearest, minlength=24) + rng.normal(scale=4.0, size=24)

    def test(shift: float, seed: int) -> TwoSampleResult:
        return two_histograms(
            cells, count(0.0), count(shift), x_noise=4.0, y_noise=4.0,
            spread=np.ones(3) if known else None, seed=seed,
        )  # fmt: skip

    named = float(np.median([test(0.0, seed).detectable for seed in range(5)]))
    assert 0.08 < named < 0.3
    detected = sum(test(named, seed).verdict == "different" for seed in range(40))
    assert 24 <= detected <= 39 if known else detected >= 12


def test_histograms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        two_histograms(np.zeros((2, 1)), [9.0, 9.0], [9.0, 9.0], spread=[1.0, 1.0])
    assert caught.value.code == "measure-shape"
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


def test_what_is_read_late_is_of_the_records_as_they_were() -> None:
    x, y = draw(14), np.column_stack([draw(15)[:, :2], draw(15)[:, 2] + 1.0])
    before = two_sample(x, y)
    late, renamed = two_sample(x, y), two_sample(x, y).named(["u", "v", "w"])
    expected = before.to_dict()
    assert 0.0 < before.detectable < 1.0 and before.histograms[0].name == "2"
    x[:], y[:] = 0.0, 5.0
    assert late.to_dict() == expected and late == before
    assert renamed.detectable == before.detectable and renamed.histograms[0].name == "w"
    assert two_sample(draw(14), draw(15), detectable=False).detectable == np.inf


def test_a_copy_in_another_process_has_the_numbers_and_no_records() -> None:
    x, y = draw(16), draw(17) + 1.0
    result = two_sample(x, y)
    packed = pickle.dumps(result)
    assert not any(value.tobytes() in packed for value in (x[0], y[0]))
    assert pickle.loads(packed) == result == copy.deepcopy(result)


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


@given(st.integers(2, 30), st.integers(1, 30), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_whitening_is_the_same_whether_rows_or_columns_are_more(n: int, d: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(n, d))
    covariance = values.T @ values / n + RIDGE * np.eye(d)
    white = whiten(values)
    # What a rotation of the features does not change, is all that the test reads.
    np.testing.assert_allclose(
        white @ white.T, values @ np.linalg.solve(covariance, values.T), atol=1e-9
    )


def test_a_result_for_later_is_computed_once_when_a_field_is_read() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 2)), rng.normal([0.0, 2.0], size=(60, 2))
    calls = list[int]()

    def compute() -> TwoSampleResult:
        calls.append(1)
        return two_sample(x, y)

    result = TwoSampleResult.later(compute)
    renamed = result.named(["age", "weight"]).named(["years", "mass"])
    assert not calls and not hasattr(result, "__array__")
    assert renamed.drivers == ("mass",)
    assert (result.verdict, result.drivers) == ("different", ("1",))
    assert result == two_sample(x, y) == pickle.loads(pickle.dumps(result))
    assert calls == [1]
    with pytest.raises(AttributeError):
        getattr(result, "no_field")  # noqa: B009


def test_divisions_depend_on_the_data_and_not_on_their_order_or_side() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40), rng.normal(size=30)
    drawn = draw_by_data([x, y], 0, 4).random()
    assert drawn == draw_by_data([y[::-1], x], 0, 4).random()
    others = {draw_by_data([x + k, y], 0, 4).random() for k in (0.0, 1.0, 2.0)}
    assert len(others) == 3 and drawn in others


@pytest.mark.heavy
def test_the_level_holds_where_columns_repeat_one_another() -> None:
    # Sorted records had the same divisions by rank for all data: 12.5 % were at most .1.
    values = [
        two_sample(
            *(np.repeat(rng.normal(size=(50, 1)), 4, axis=1) for _ in range(2)), detectable=False
        ).p_value
        for rng in map(np.random.default_rng, range(5_000_000, 5_002_000))
    ]
    assert 165 <= sum(value <= 0.1 for value in values) <= 235


def test_no_shift_is_detectable_where_labels_alone_vary() -> None:
    ones, labels = np.ones((30, 2)), ["a", "b"] * 15
    result = two_sample(ones, ones, x_labels=labels, y_labels=labels[::-1])
    assert result.verdict == "not distinguishable" and np.isinf(result.detectable)
