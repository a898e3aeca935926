"""Checks: what does not fit is said by column, in counts, and other units are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import Schema, check_schema, load_measure
from silot.data import Site
from silot.data.column_kinds import Number
from silot.data.fields import Alike
from silot.data.units import suspect_unit
from silot.errors import InputError
from tests.lazily import package

pl = package("polars")

RNG = np.random.default_rng(0)
N = 200
SUGAR = RNG.normal(5.6, 0.8, N).round(2)
BODY: dict[str, Any] = {
    "columns": {
        "glucose": {"kind": "number", "unit": "mmol/L", "substance": "glucose", "range": [0.5, 60],
                    "typical": [5.0, 5.6, 6.2]},
        "temp": {"kind": "number", "unit": "Cel", "range": [20, 46], "missing": "indicator"},
        "sex": {"kind": "category", "categories": ["f", "m"], "other": True},
        "stage": {"kind": "ordered", "categories": ["I", "II"], "missing": "indicator"},
    },
    "label": {"column": "ill", "classes": ["sick", "well"], "other": True},
}  # fmt: skip
SCHEMA = Schema.of(BODY)


def frame(**columns: Any) -> pl.DataFrame:
    good = {
        "glucose": SUGAR.tolist(), "temp": RNG.normal(37, 0.5, N).tolist(), "sex": ["f", "m"] * 100,
        "stage": ["I", "II"] * 100, "ill": ["sick", "well"] * 100,
    }  # fmt: skip
    return pl.DataFrame(good | columns, strict=False)


def changed(**columns: Any) -> Schema:
    return Schema.of({**BODY, "columns": {**BODY["columns"], **columns}})


def problems(data: pl.DataFrame, schema: Schema = SCHEMA, site: Site | None = None) -> Any:
    found = check_schema(data, schema, site=site)
    return {(p.column, p.kind): p for p in found.problems}


def test_a_table_that_fits() -> None:
    found = check_schema(frame(), SCHEMA)
    assert found.fits and not found.problems and found.records == N


@pytest.mark.parametrize(
    ("column", "values", "kind", "count"),
    [
        ("glucose", [None, 99.0], "missing", 1),
        ("glucose", ["hemolysed", "5"], "unread", 1),
        ("glucose", [-999.0] * 2, "sentinel", 2),
        ("sex", ["F", "M ", "F"], "alike", 3),
        ("sex", ["1", "2"] * 100, "other", N),
        ("stage", ["IV", "III"], "unknown", 2),
        ("stage", ["ii"], "alike", 1),
        ("ill", ["SICK"], "alike", 1),
        ("ill", ["1", "0"] * 100, "other", N),
        ("ill", [None], "missing", 1),
    ],
)
def test_what_refuses_a_table(column: str, values: list[Any], kind: str, count: int) -> None:
    rest = frame().get_column(column).to_list()[len(values) :]
    some = [v if v is None else str(v) for v in [*values, *rest]]
    data = frame(**{column: some})
    problem = problems(data)[column, kind]
    assert problem.refused and problem.count == count
    assert not any(repr(v) in problem.sentence for v in values if v is not None)
    with pytest.raises(InputError, match=repr(column)):
        SCHEMA.measure(data)


def test_columns_that_are_not_there_are_named_and_the_others_checked() -> None:
    found = check_schema(frame(stage=["IV"] * N).drop("sex", "ill"), SCHEMA)
    assert [(p.column, p.kind) for p in found.problems if p.refused] == [
        ("sex", "absent"), ("ill", "absent"), ("stage", "unknown"),
    ]  # fmt: skip
    none = check_schema(pl.DataFrame({"q": [1.0]}), SCHEMA)
    assert not none.fits and none.records == 0


def test_many_others_are_a_warning() -> None:
    problem = problems(frame(sex=["f", "x"] * 100))["sex", "other"]
    assert not problem.refused and problem.count == 100


# Units.


def test_another_unit_is_refused_unless_the_site_says_it() -> None:
    data = frame(glucose=(SUGAR * 18.0156).tolist())
    problem = problems(data)["glucose", "unit"]
    assert problem.refused and "mg/dL" in problem.sentence and "18.02" in problem.sentence
    with pytest.raises(InputError) as caught:
        SCHEMA.measure(data)
    assert caught.value.code == "schema-unit"
    site = Site.of({"columns": {"glucose": {"unit": "mg/dL"}}})
    assert ("glucose", "unit") not in problems(data, site=site)
    points = SCHEMA.measure(data, site=site).points[:, 0]
    np.testing.assert_allclose(points, SCHEMA.measure(frame()).points[:, 0], rtol=1e-3)


def test_a_unit_that_the_site_states_is_only_warned_of() -> None:
    data = frame(glucose=(SUGAR * 18.0156).tolist())
    wide = changed(glucose={**BODY["columns"]["glucose"], "range": [0.5, 600]})
    site = Site.of({"columns": {"glucose": {"unit": "mmol/L"}}})
    assert not problems(data, wide, site)["glucose", "unit"].refused
    # The range still holds.
    assert problems(data, SCHEMA, site)["glucose", "outside"].refused


def test_a_temperature_in_fahrenheit_is_told_by_the_range_alone() -> None:
    data = frame(temp=(RNG.normal(37, 0.5, N) * 1.8 + 32).tolist())
    problem = problems(data)["temp", "unit"]
    assert problem.refused and "[degF]" in problem.sentence


@pytest.mark.parametrize("count", [3, 12])
def test_a_few_temperatures_in_fahrenheit_are_named_and_many_refused(count: int) -> None:
    temps = RNG.normal(37, 0.5, N)
    temps[:count] = temps[:count] * 1.8 + 32
    data = frame(temp=temps.tolist())
    problem = problems(data)["temp", "unit"]
    assert problem.count == count and "[degF]" in problem.sentence
    assert problem.refused == (count > 10)
    # What is stated is believed, and cut to the range as before.
    site = Site.of({"columns": {"temp": {"unit": "Cel"}}})
    assert not problems(data, site=site)["temp", "unit"].refused


def test_few_numbers_in_another_unit_are_seen_among_any_number_of_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("silot.data.reading._SAMPLE", 256)
    temps = RNG.normal(37, 0.5, 64 * N)
    temps[5 : 5 + 60 * 17 : 17] = temps[5 : 5 + 60 * 17 : 17] * 1.8 + 32
    data = pl.concat([frame()] * 64).with_columns(temp=pl.Series(temps))
    problem = problems(data)["temp", "unit"]
    assert (problem.count, problem.refused) == (60, True)
    assert problem.sentence.startswith(f"Column 'temp': 60 of {64 * N:,} ".replace(",", ""))


def test_what_the_schema_counts_as_missing_is_not_out_of_the_range_however_much() -> None:
    zeros = RNG.normal(37, 0.5, N)
    zeros[: N // 2] = 0.0
    schema = changed(temp={**BODY["columns"]["temp"], "outside": "missing"})
    found = problems(frame(temp=zeros.tolist()), schema)
    assert not any(problem.refused for problem in found.values())
    assert found["temp", "filled"].count == N // 2
    points = schema.measure(frame(temp=zeros.tolist())).points
    assert points[:, schema.features.index("temp missing")].sum() == N // 2
    # Another unit is seen beside them, and nothing but numbers out of the range is another column.
    zeros[-12:] = zeros[-12:] * 1.8 + 32
    assert problems(frame(temp=zeros.tolist()), schema)["temp", "unit"].refused
    hot = (RNG.normal(37, 0.5, N) * 1.8 + 32).tolist()
    assert problems(frame(temp=hot), schema)["temp", "unit"].refused
    assert problems(frame(temp=RNG.normal(700, 9.0, N).tolist()), schema)["temp", "outside"].refused


@pytest.mark.parametrize(
    ("number", "far"),
    [
        ({"range": [0, 1000]}, True),
        ({"range": [0, 1000], "spread": 0.5}, True),
        ({"range": [10, 60]}, False),
        ({"range": [0, 1000], "transform": "rank", "quantiles": [0, 36.5, 37, 37.5, 1000]}, False),
        ({"range": [0, 1000], "missing": {"value": 37}}, False),
        ({"range": [0, 1000], "missing": {"value": 900}}, True),
    ],
)
def test_a_gap_that_would_be_far_from_all_records_is_said(number: Any, far: bool) -> None:
    column = {"kind": "number", "missing": "indicator", **number}
    temps: list[float | None] = RNG.normal(37, 0.5, N).tolist()
    temps[3] = None
    problem = problems(frame(temp=temps), changed(temp=column))["temp", "filled"]
    assert (problem.count, problem.refused) == (1, False)
    assert ("far from nearly all" in problem.sentence) == far


def test_numbers_out_of_the_range_are_no_other_unit_without_a_conversion_to_the_rest() -> None:
    temps = RNG.normal(37, 0.5, N)
    temps[:12] = RNG.normal(55, 2.0, 12)
    assert ("temp", "unit") not in problems(frame(temp=temps.tolist()))


def test_zeros_are_codes_where_the_range_has_none() -> None:
    temps = RNG.normal(37, 0.5, N)
    temps[:12] = 0.0
    found = problems(frame(temp=temps.tolist()))
    assert found["temp", "sentinel"].count == 12 and found["temp", "sentinel"].refused
    assert ("temp", "outside") not in found
    with_zero = changed(temp={**BODY["columns"]["temp"], "range": [0, 46]})
    assert ("temp", "sentinel") not in problems(frame(temp=temps.tolist()), with_zero)


@pytest.mark.parametrize(("count", "refused"), [(10, False), (11, True)])
def test_text_among_numbers_counts_as_missing_where_the_schema_says_so(
    count: int, refused: bool
) -> None:
    schema = changed(temp={**BODY["columns"]["temp"], "unread": "missing"})
    temps = ["high"] * count + [f"{36 + k % 3}.5" for k in range(N - count)]
    found = problems(frame(temp=temps), schema)
    assert found["temp", "unread"].refused == refused
    if not refused:
        points = schema.measure(frame(temp=temps)).points
        assert points[:, schema.features.index("temp missing")].sum() == count
    assert problems(frame(temp=temps))["temp", "unread"].refused


def test_the_same_unit_in_another_place_is_no_suspicion() -> None:
    for factor, shift in ((1.0, 3.0), (1.5, 0.0), (0.7, 0.0), (1.0, 8.0)):
        data = frame(glucose=(SUGAR * factor + shift).tolist())
        assert ("glucose", "unit") not in problems(data)


@pytest.mark.parametrize(
    ("name", "column", "quartiles", "strong"),
    [
        # Children weigh half as much, which pounds would too.
        ("weight", {"unit": "kg", "range": [0, 400], "typical": [60, 72, 85]},
         (132, 159, 187), False),
        ("crea", {"unit": "umol/L", "substance": "creatinine", "range": [5, 3000],
                  "typical": [60, 75, 92]}, (0.68, 0.85, 1.04), True),
        ("dose", {"range": [0, 10], "typical": [1, 2, 3]}, (1000, 2000, 3000), False),
        ("x", {"unit": "mm[Hg]", "range": [0, 300], "typical": [110, 120, 135]},
         (14.6, 16.0, 18.0), True),
    ],
)  # fmt: skip
def test_only_what_hardly_has_another_reason_is_strong(
    name: str, column: dict[str, Any], quartiles: tuple[float, float, float], strong: bool
) -> None:
    found = suspect_unit(name, Number.model_validate({"kind": "number", **column}), quartiles, 0.0)
    assert found is not None and found.strong is strong


def test_years_are_no_months_where_people_are_young() -> None:
    age = Number(kind="number", unit="a", range=(0, 120), typical=(40, 60, 75))
    assert suspect_unit("age", age, (3.0, 5.0, 6.0), 0.0) is None
    found = suspect_unit("age", age, (480.0, 720.0, 900.0), 1.0)
    assert found is not None and "in mo" in found.sentence


def test_few_records_are_not_refused_for_a_unit() -> None:
    few = [18.0156 * value for value in (4.8, 5.0, 5.3, 5.6, 5.9, 6.2, 6.4)]
    data = frame()[:7].with_columns(glucose=pl.Series(few))
    narrow = changed(glucose={**BODY["columns"]["glucose"], "range": [0.5, 600]})
    assert not problems(data, narrow)["glucose", "unit"].refused


def test_a_file_that_is_in_another_unit_is_refused_by_a_run(tmp_path: Path) -> None:
    frame(glucose=(SUGAR * 18.0156).tolist()).write_csv(tmp_path / "south.csv")
    with pytest.raises(InputError, match=r"south\.csv.*'glucose'") as caught:
        load_measure(tmp_path / "south.csv", schema=SCHEMA)
    assert caught.value.code == "schema-unit"


def test_names_that_are_alike() -> None:
    alike = Alike(["<=50K", "type 2", "-1", "1.5"])
    assert all(map(alike, ["<=50k", "Type-2", "TYPE 2", "-1.0", "1.50"]))
    assert not any(map(alike, [">50K", "type 3", "1", "type 2", "", "-"]))


def test_numbers_are_not_divided_until_they_fit_about_zero() -> None:
    column = Number.model_validate({"kind": "number", "range": (-100, 100)})
    assert suspect_unit("w", column, (2e4, 1e5, 1.5e5), 0.9) is None
    odd = suspect_unit("w", column, (1e4, 3e4, 6e4), 0.9)
    assert odd is not None and odd.factor == 1e-3


@pytest.mark.parametrize("factor", [0.1, 0.01, 0.001])
def test_skewed_numbers_are_as_far_below_as_above(factor: float) -> None:
    area = Number.model_validate(
        {"kind": "number", "range": (0, 5000), "typical": (515, 686, 1084)}
    )
    smaller = (521 * factor, 690 * factor, 1060 * factor)
    odd = suspect_unit("worst area", area, smaller, 0.0)
    assert odd is not None and odd.factor == pytest.approx(1 / factor)
    # Half as large is a population, and so are numbers that no power of ten brings close.
    assert suspect_unit("worst area", area, (260.0, 345.0, 530.0), 0.0) is None
    assert suspect_unit("worst area", area, (36.0, 48.0, 75.0), 0.0) is None


def test_numbers_around_zero_are_in_no_named_unit() -> None:
    score = Number.model_validate(
        {"kind": "number", "range": (-1, 1), "typical": (-0.037, -0.006, 0.035)}
    )
    odd = suspect_unit("bp", score, (-0.28, -0.045, 0.26), 0.6)
    assert odd is None or not odd.unit
    # A class of records that lies elsewhere, and spreads more, is in no other unit.
    other = Number.model_validate({"kind": "number", "range": (-9, 9), "typical": (-0.5, 0, 0.4)})
    assert suspect_unit("v", other, (-12.0, -5.0, -1.5), 0.3) is None
