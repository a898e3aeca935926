"""What is odd about a column is flagged, with its column and holder; honest columns are not."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot import Measure
from silot.data.preflight import Preflight
from tests.tiers import examples

NAMES = ["age", "glucose", "creatinine", "sbp"]


def ward(seed: int, size: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(64, 14, size).clip(18, 99).round(),
            rng.lognormal(4.65, 0.3, size),
            rng.lognormal(0, 0.35, size),
            rng.normal(132, 18, size).round(),
        ]
    )


def seen(tables: dict[str, np.ndarray], columns: list[str] | None = NAMES) -> Preflight | None:
    return Preflight.of({name: Measure(x, columns=columns) for name, x in tables.items()})


def flags(tables: dict[str, np.ndarray], columns: list[str] | None = NAMES) -> set[tuple]:
    found = seen(tables, columns)
    assert found is not None
    return {(each.kind, each.column, each.holders) for each in found.flags}


def wards(count: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    return {f"w{k}": ward(seed * 10 + k) for k in range(count)}


@settings(max_examples=examples(50))
@given(seed=st.integers(0, 10_000), count=st.integers(2, 6))
def test_tables_of_one_law_have_no_flag(seed: int, count: int) -> None:
    assert flags(wards(count, seed)) == set()


@given(seed=st.integers(0, 10_000))
def test_shares_are_those_of_the_variance_of_all_records(seed: int) -> None:
    tables = wards(3, seed)
    found = seen(tables)
    assert found is not None
    variance = np.vstack(list(tables.values())).var(axis=0)
    assert np.allclose(list(found.shares.values()), variance / variance.sum(), rtol=1e-9)


@pytest.mark.parametrize("factor", [1 / 18.016, 18.016, 10.0, 0.001])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_another_unit_is_flagged_at_its_holder(factor: float, count: int) -> None:
    tables = wards(count)
    tables["w1"][:, 1] *= factor
    found = seen(tables)
    assert found is not None
    (unit,) = [each for each in found.flags if each.kind == "unit"]
    assert unit.column == "glucose"
    assert np.isclose(unit.numbers["factor"], max(factor, 1 / factor))
    # Of two holders nobody knows which one is right; both are named.
    assert "'w1'" in unit.sentence if count == 2 else unit.holders == ("w1",)


def test_large_ratios_are_written_in_full_and_an_area_is_no_length() -> None:
    rng = np.random.default_rng(0)
    tables = {name: rng.lognormal(6.5, 0.4, (200, 2)) for name in ("w0", "w1", "w2")}
    tables["w1"][:, 0] *= 1000.0
    tables["w2"][:, 1] *= 100.0
    found = seen(tables, ["density", "area"])
    assert found is not None
    times, area = (flag.sentence for flag in found.flags if flag.kind == "unit")
    assert re.search(r"has (\d,\d{3}|\d{3}) times the median", times) and "e+" not in times
    assert "as between a unit and its hundredth (factor 100)" in area and "length" not in area


def test_another_unit_of_standardised_columns_is_another_spread() -> None:
    tables = wards(3)
    mean, std = tables["w0"].mean(axis=0), tables["w0"].std(axis=0)
    tables["w1"][:, 1] /= 18.016
    scaled = {name: (x - mean) / std for name, x in tables.items()}
    assert flags(scaled) == {("scale", "glucose", ("w1",))}
    assert flags(scaled, None) == {("scale", "column 1", ("w1",))}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", ["zz", "patient_id"])
def test_record_numbers_are_flagged(name: str, *, shuffled: bool) -> None:
    tables = {}
    for k, (who, x) in enumerate(wards(2).items()):
        numbers = np.arange(len(x)) + 100_000 * (k + 1)
        if shuffled:
            np.random.default_rng(k).shuffle(numbers)
        tables[who] = np.column_stack([numbers, x])
    assert ("identifier", name, ("w0", "w1")) in flags(tables, [name, *NAMES])


def test_numbers_of_parts_of_one_table_are_flagged() -> None:
    numbers = np.random.default_rng(0).permutation(400)
    tables = {
        who: np.column_stack([numbers[200 * k : 200 * (k + 1)], x])
        for k, (who, x) in enumerate(wards(2).items())
    }
    assert ("identifier", "zz", ("w0", "w1")) in flags(tables, ["zz", *NAMES])


@pytest.mark.parametrize(
    ("code", "count"), [(-999, 5), (9999, 1), (-1, 7), (0, 7), (999, 2), (-999, 80)]
)
def test_codes_for_missing_values_are_flagged(code: float, count: int) -> None:
    tables = wards(3)
    tables["w2"][:count, 3] = code
    found = seen(tables)
    assert found is not None
    (flag,) = [each for each in found.flags if each.kind == "sentinel"]
    assert (flag.column, flag.holders) == ("sbp", ("w2",))
    assert flag.numbers["value"] == code
    assert flag.numbers["count"] == count


def test_measurements_are_not_quoted() -> None:
    tables = wards(2)
    tables["w0"][:3, 1] = 54321.125
    found = seen(tables)
    assert found is not None
    (flag,) = [each for each in found.flags if each.kind == "sentinel"]
    assert "54321" not in str(found.to_dict())
    assert flag.numbers["count"] == 3


def test_a_few_codes_are_seen_among_many_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 2))
    x[[5, 40_001], 1] = -999.0
    found = flags({"a": x, "b": rng.normal(size=(300, 2))}, None)
    assert found == {("sentinel", "column 1", ("a",))}
    # The ends of the column, which are looked at beside a sample, are not taken twice.
    x[[5, 40_001], 1] = 0.0
    assert seen({"a": x, "b": x}, None) is None


def test_one_column_that_is_all_of_the_variance_is_flagged_where_nothing_explains_it() -> None:
    tables = {name: np.column_stack([x, 5e4 * x[:, 2]]) for name, x in wards(2).items()}
    columns = [*NAMES, "platelets"]
    assert flags(tables, columns) == {("domination", "platelets", ("w0", "w1"))}
    # Arrays are what their owner made of them.
    assert seen(tables, None) is None


def test_other_codings_of_classes_are_flagged_and_other_numbers_are_not() -> None:
    x, y = wards(2).values()

    def of(first: list[str], second: list[str]) -> list[tuple[str, bool]]:
        labelled = {
            "a": Measure(x, labels=np.resize(first, 200), columns=NAMES),
            "b": Measure(y, labels=np.resize(second, 200), columns=NAMES),
        }
        found = Preflight.of(labelled)
        assert found is not None
        return [(each.kind, each.flag) for each in found.noticed("labels")]

    assert ("coding", True) in of(["I21.4", "N17"], ["I214", "N17"])
    assert of(["1", "-1"], ["1", "-1"]) == []
    assert of(["1", "2"], ["1", "-1"]) == [("classes", False), ("classes", False)]


def test_facts_are_no_flags() -> None:
    tables = {
        name: np.column_stack([x, x[:, 3] * 2.0, 0 * x[:, 3]]) for name, x in wards(2).items()
    }
    tables["w1"][:, 0] += 60.0
    found = seen(tables, [*NAMES, "sbp2", "zero"])
    assert found is not None
    kinds = {(each.kind, each.column) for each in found.facts}
    assert kinds >= {("duplicate", "sbp2"), ("constant", "zero"), ("shift", "age")}
    assert found.flags == ()


def test_arrays_of_many_columns_and_measures_with_a_schema_are_not_looked_at() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 65))
    wide[:, 3] = np.arange(40)
    assert seen({"a": wide, "b": wide}, None) is None
    measure = Measure(wide[:, :4], columns=NAMES)
    object.__setattr__(measure, "schema", object())
    assert Preflight.of({"a": measure}) is None


def test_weight_zero_is_no_record() -> None:
    x = ward(0)
    x[0, 1] = -999.0
    weights = np.ones(200)
    weights[0] = 0.0
    found = Preflight.of({"a": Measure(x, weights, columns=NAMES)})
    assert found is not None
    assert found.flags == ()


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    scale=st.sampled_from([0.0, 1e-300, 1e-9, 1.0, 1e9, 1e140]),
    whole=st.booleans(),
)
def test_any_numbers_can_be_looked_at(
    seed: int, sizes: list[int], scale: float, *, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    tables = {f"h{k}": rng.normal(size=(n, 3)) * scale for k, n in enumerate(sizes)}
    if whole:
        tables = {name: np.rint(x) for name, x in tables.items()}
    found = seen(tables, ["a", "b", "c"])
    assert found is not None
    assert np.isfinite(list(found.shares.values())).all()
    numbers = [value for each in found.findings for value in each.numbers.values()]
    assert np.isfinite(numbers).all()


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10_000), size=st.integers(12, 80), count=st.integers(2, 6))
def test_heavy_tails_of_one_law_are_no_other_unit(seed: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    tables = {f"w{k}": rng.lognormal(0.0, 2.5, (size, 3)) for k in range(count)}
    assert not flags(tables, ["a", "b", "c"]) & {
        (kind, column, (name,)) for kind in ("unit", "scale") for column in "abc" for name in tables
    }


@pytest.mark.parametrize("size", [10, 30, 500])
def test_another_unit_is_no_chance_at_small_holders_either(size: int) -> None:
    tables = {f"w{k}": ward(k, size) for k in range(3)}
    tables["w1"][:, 1] /= 18.016
    assert ("unit", "glucose", ("w1",)) in flags(tables)


def test_a_factor_near_a_conversion_is_no_unit_where_quantiles_differ_by_many() -> None:
    rng = np.random.default_rng(0)
    tables = {
        "a": 0.3 + rng.exponential(1.0, (400, 1)),
        "b": rng.normal(8.0, 5.0, (400, 1)).clip(0.5),
    }
    assert not [each for each in flags(tables, ["z"]) if each[0] == "unit"]


def test_records_that_are_there_twice_are_no_codes() -> None:
    def sentinels_of(tables: dict[str, np.ndarray]) -> set[tuple]:
        return {each for each in flags(tables) if each[0] == "sentinel"}

    tables = wards(2)
    tables["w0"][:3] = [64.0, 1000.125, 1.1, 130.0]
    assert sentinels_of(tables) == set()
    # A value that is written for several records is.
    tables["w0"][:3, 0] = [50.0, 60.0, 70.0]
    assert sentinels_of(tables) == {("sentinel", "glucose", ("w0",))}


def test_codes_below_zero_are_seen_near_small_measurements_too() -> None:
    tables = wards(3)
    tables["w0"][:3, 0] = -1.0
    assert ("sentinel", "age", ("w0",)) in flags(tables)
    # Where others are below zero it is a number like them.
    rng = np.random.default_rng(0)
    change = rng.normal(0, 2, (200, 1)).round()
    assert flags({"a": change, "b": change + 0.0}, ["change"]) == set()


def test_records_that_are_there_before_are_flagged_where_others_have_none() -> None:
    tables = wards(3)
    tables["w1"] = np.vstack([tables["w1"], tables["w1"][:40]])
    assert flags(tables) == {("repeated", "records", ("w1",))}
    # Where few values are possible, records repeat everywhere.
    rng = np.random.default_rng(0)
    assert flags({name: rng.integers(0, 4, (300, 3)) for name in "abc"}, ["x", "y", "z"]) == set()


@pytest.mark.parametrize("count", [1, 3])
def test_a_few_values_in_another_unit_are_flagged(count: int) -> None:
    tables = wards(count)
    tables["w0"][:12, 1] /= 18.016
    found = seen(tables)
    assert found is not None
    (flag,) = found.flags
    assert (flag.kind, flag.column, flag.holders) == ("unit", "glucose", ("w0",))
    assert flag.numbers["count"] >= 10 and "mmol/L" in flag.sentence


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(["glucose", "creatinine", "temp", "sbp", "age", "bilirubin"]),
    ill=st.sampled_from([0.0, 0.02, 0.05]),
    times=st.floats(1.5, 6.0),
)
def test_the_very_ill_are_in_no_other_unit(seed: int, name: str, ill: float, times: float) -> None:
    rng = np.random.default_rng(seed)
    usual = {"glucose": 100.0, "creatinine": 0.9, "temp": 37.0, "sbp": 130.0, "age": 60.0}
    wide = {"temp": 0.015, "sbp": 0.1, "age": 0.2}.get(name, 0.3)
    x = usual.get(name, 0.7) * rng.lognormal(0.0, wide, 800)
    if name in ("glucose", "creatinine", "bilirubin"):
        x[rng.uniform(size=len(x)) < ill] *= times
    assert not [each for each in flags({"a": x[:, None]}, [name]) if each[0] == "unit"]
