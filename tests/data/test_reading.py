"""Tables read by a schema: record by record, from any file, or refused by column."""

import datetime as dt
import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import silot
from silot import Measure, Schema, load_measure
from silot.data import Site, dialect, save_measure
from silot.data.fields import Sample
from silot.data.notation import Notation, possible, read_numbers
from silot.data.reading import read_by_schema
from silot.errors import FileError, InputError, MismatchError
from tests.lazily import package
from tests.tiers import examples

pl = package("polars")

SCHEMA = Schema.of(
    {
        "columns": {
            "age": {"kind": "integer", "range": [0, 110], "missing": "indicator"},
            "glucose": {"kind": "number", "unit": "mg/dL", "substance": "glucose",
                        "range": [20, 600], "transform": "log", "sentinels": [-999],
                        "missing": {"value": 100}, "notation": {"decimal": "."}},
            "dose": {"kind": "number", "transform": "rank", "quantiles": [0, 1, 4, 50],
                     "notation": {"decimal": "."}},
            "sex": {"kind": "category", "categories": ["f", "m"], "other": True},
            "stage": {"kind": "ordered", "categories": ["I", "II", "III"], "missing": "indicator"},
            "smoker": {"kind": "yes/no", "missing": "indicator"},
            "day": {"kind": "date", "range": ["2020-01-01", "2026-12-31"], "period": "year",
                    "missing": "indicator"},
        },
        "label": {"column": "ill", "classes": ["a", "b"], "other": True, "missing": "b"},
        "weight": {"column": "w", "limit": 2},
    }
)  # fmt: skip
HEADER = ["age", "glucose", "dose", "sex", "stage", "smoker", "day", "ill", "w"]

FIELDS = {
    "age": st.one_of(st.integers(0, 120).map(str), st.just(""), st.just("NA")),
    "glucose": st.one_of(
        st.floats(10, 700).map(repr), st.sampled_from(["", "-999", "1e2", " 80 "])
    ),
    "dose": st.floats(0, 50).map(repr),
    "sex": st.sampled_from(["f", "m", "x", "1", "m ", "0.0"]),
    "stage": st.sampled_from(["I", "II", "III", ""]),
    "smoker": st.sampled_from(["yes", "NO", "1", "0", "true", ""]),
    "day": st.sampled_from(["2020-01-01", "2024-02-29", "2026-12-31", "2024-05-05T12:30", ""]),
    "ill": st.sampled_from(["a", "b", "c", "", "NA"]),
    "w": st.floats(0.25, 3).map(repr),
}
RECORDS = st.tuples(*(FIELDS[name] for name in HEADER))


def table(path: Path, rows: list[tuple[str, ...]]) -> Path:
    lines = [",".join(HEADER), *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def arrays(measure: Measure) -> list[bytes]:
    assert measure.names is not None
    return [
        point.tobytes() + mass.tobytes() + str(name).encode()
        for point, mass, name in zip(measure.points, measure.masses, measure.names, strict=True)
    ]


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever share is cut to the range: this is about records."""
    monkeypatch.setattr("silot.data.fit.MOST_OUTSIDE", 2.0)


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(RECORDS, min_size=1, max_size=8), RECORDS, st.integers(0, 8), st.integers(1, 3))
@pytest.mark.usefixtures("unlimited")
def test_adding_a_record_changes_no_other_by_a_bit(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    more: tuple[str, ...],
    place: int,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    place = min(place, len(rows))
    grown = [*rows[:place], more, *rows[place:]]
    without = arrays(load_measure(table(folder / "a.csv", rows), schema=SCHEMA))
    whole = arrays(load_measure(table(folder / "b.csv", grown), schema=SCHEMA))
    assert whole[:place] + whole[place + 1 :] == without
    # Nor does it matter how many are read at a time.
    kept, dialect._ROWS = dialect._ROWS, block
    try:
        assert arrays(load_measure(folder / "b.csv", schema=SCHEMA)) == whole
    finally:
        dialect._ROWS = kept


COSTS = st.sampled_from(["1.234", "12.5", "0.125", "7", "1.000", "1.234.567", "1,5", "1,234", ""])


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(COSTS, min_size=1, max_size=5), COSTS, st.integers(0, 5))
def test_a_record_more_changes_no_number_of_another_and_may_have_the_table_refused(
    costs: list[str], more: str, place: int
) -> None:
    place = min(place, len(costs))
    without, whole = possible(costs), possible([*costs[:place], more, *costs[place:]])
    if without.notation and whole.notation:
        before, after = (read_numbers(costs, one.notation).values for one in (without, whole))
        np.testing.assert_array_equal(before, after)


@pytest.mark.heavy
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=12))
def test_files_and_frames_of_the_same_fields_give_the_same_coordinates(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    path = table(folder / "a.csv", rows)
    loaded = read_by_schema(path, SCHEMA, check=False)
    with gzip.open(folder / "a.csv.gz", "wt") as packed:
        packed.write(path.read_text())
    frame = pl.DataFrame(rows, schema=HEADER, orient="row")
    frame.write_parquet(folder / "a.parquet")
    for name in ("a.csv.gz", "a.parquet"):
        again = read_by_schema(folder / name, SCHEMA, check=False)
        assert arrays(again.measure) == arrays(loaded.measure)
        for name, column in loaded.fit.columns.items():
            assert again.fit.columns[name].counts == column.counts


ANYTHING = st.sampled_from(
    [None, True, False, 0, 1, 2, 1.0, 0.5, -0.0, -999, 2**53 + 1, 10**30, 1e300, "1", "1.0", " 2 ",
     "f", "II", "yes", "", "NA", "1_0", "2024-02-29", dt.date(2024, 2, 29), Decimal(1),
     Decimal("1.10"), dt.datetime(2024, 2, 29, 12), np.float32(0.1), np.int8(2), b"1", (1,)]
)  # fmt: skip
MIXED = st.tuples(*(ANYTHING for _ in HEADER[:-2]), st.just("a"), st.just(1.0))


def mixed(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Fields as they are: no type of a column is made of them."""
    columns = zip(HEADER, zip(*rows, strict=True), strict=True)
    return pd.DataFrame({name: pd.Series(list(each), dtype=object) for name, each in columns})


@pytest.mark.heavy
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(MIXED, min_size=1, max_size=5))
def test_fields_of_mixed_types_are_read_each_as_if_alone(rows: list[tuple[Any, ...]]) -> None:
    alone = [read_by_schema(mixed([row]), SCHEMA, check=False) for row in rows]
    expected = [record for each in alone for record in arrays(each.measure)]
    frame = mixed(rows)
    assert arrays(read_by_schema(frame, SCHEMA, check=False).measure) == expected
    # Pandas calls a column of texts alone a column of texts, and of nothing alone of nothing.
    inferred = frame.infer_objects()
    pieces = [read_by_schema(inferred.iloc[[k]], SCHEMA, check=False) for k in range(len(rows))]
    read = arrays(read_by_schema(inferred, SCHEMA, check=False).measure)
    assert read == [record for each in pieces for record in arrays(each.measure)]


def test_categories_of_pandas_are_read_as_what_they_are() -> None:
    rows = [(k, 90.5, 3, "f", "I", k > 50, "2024-02-29", "a", 1.5) for k in (30, 70)]
    frame = mixed(rows)
    assert arrays(SCHEMA.measure(frame.astype("category"))) == arrays(SCHEMA.measure(frame))


def test_typed_columns_are_read_as_their_texts_are(tmp_path: Path) -> None:
    rows = [("70", "90.5", "3.0", "f", "I", "1", "2024-02-29", "a", "1.5")] * 2
    path = table(tmp_path / "a.csv", rows)
    from datetime import date

    frame = pl.DataFrame(
        {
            "age": [70, 70], "glucose": [90.5] * 2, "dose": [3.0] * 2,
            "sex": pl.Series(["f"] * 2, dtype=pl.Categorical), "stage": ["I"] * 2,
            "smoker": [True] * 2, "day": [date(2024, 2, 29)] * 2, "ill": ["a"] * 2, "w": [1.5] * 2,
        }
    )  # fmt: skip
    assert arrays(SCHEMA.measure(frame)) == arrays(load_measure(path, schema=SCHEMA))
    assert arrays(SCHEMA.measure(frame.to_pandas())) == arrays(SCHEMA.measure(frame))


GOOD = ("70", "90.5", "3.0", "f", "I", "yes", "2024-02-29", "a", "1.5")


def put(column: str, *values: str) -> list[tuple[str, ...]]:
    """Forty records, the first with these values in a column."""
    place = HEADER.index(column)
    rows = [GOOD] * 40
    for k, value in enumerate(values):
        rows[k] = (*GOOD[:place], value, *GOOD[place + 1 :])
    return rows


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("age", ["seventy"], "fields are not numbers"),
        ("age", ["70.5"], "fractions"),
        ("age", ["1_0"], "fields are not numbers"),
        ("age", ["inf"], "fields are not numbers"),
        ("dose", [""], "have no value"),
        ("sex", [""], "have no value"),
        ("smoker", ["perhaps"], "yes or no"),
        ("stage", ["IV", "iv"], "a category that the schema does not have"),
        ("day", ["29.02.2024"], "are not dates"),
        ("glucose", ["5.1"] * 4, "out of the range"),
        ("age", ["-999"], "codes for missing values"),
        ("w", ["-1"], "not weights"),
    ],
)
def test_what_does_not_fit_is_refused_by_column_in_counts(
    tmp_path: Path, column: str, values: list[str], words: str
) -> None:
    path = table(tmp_path / "a.csv", put(column, *values))
    with pytest.raises(InputError, match=words) as caught:
        load_measure(path, schema=SCHEMA)
    assert caught.value.code == "schema-fit"
    assert f"{column!r}: {len(values)} of 40" in caught.value.message
    assert not any(value in caught.value.message for value in values if len(value) > 3)


def test_few_numbers_out_of_the_range_are_cut_to_it_and_counted(tmp_path: Path) -> None:
    found = read_by_schema(table(tmp_path / "a.csv", put("age", "111", "-5.0")), SCHEMA)
    assert found.measure.points[:3, 0].tolist() == [1.0, 0.0, 70 / 110]
    assert found.fit.columns["age"].counts["above"] == found.fit.columns["age"].counts["below"] == 1
    (problem,) = [each for each in found.fit.problems if each.kind == "outside"]
    assert not problem.refused


@pytest.mark.parametrize("day", ["1900-01-01", "9999-12-31", "1970-01-01 00:00"])
def test_days_that_stand_for_none_are_refused_however_few(tmp_path: Path, day: str) -> None:
    row = ("70", "90.5", "3.0", "f", "I", "1", "2024-02-29", "a", "1.5")
    rows = [row] * 400 + [(*row[:6], day, *row[7:])] * 2
    with pytest.raises(InputError, match="'day': 2 of 402 days are out of the range") as raised:
        load_measure(table(tmp_path / "a.csv", rows), schema=SCHEMA)
    assert day[:10] not in str(raised.value).replace("1900-01-01 and the like", "")
    # Another day out of the range is cut to it.
    rows[-2:] = [(*row[:6], "2019-05-05", *row[7:])] * 2
    assert load_measure(table(tmp_path / "b.csv", rows), schema=SCHEMA).size == 402


def test_repeated_records_and_identifiers_are_counted(tmp_path: Path) -> None:
    schema = Schema.of({"columns": {"id": {"kind": "identifier"}, "x": {"kind": "yes/no"},
                                    "y": {"kind": "number", "range": [0, 9]}}})  # fmt: skip
    frame = pl.DataFrame({"id": ["a", "b", "a", "c"], "x": [1, 0, 1, 0], "y": [1.0, 2.0, 1.0, 2.5]})
    frame.write_csv(tmp_path / "a.csv")
    fit = read_by_schema(tmp_path / "a.csv", schema).fit
    assert fit.repeated == 1
    assert fit.shared_identifiers == {"id": 1}
    once = read_by_schema(tmp_path / "a.csv", schema, Site.of({"repeats": "drop"}))
    assert once.measure.masses.tolist() == [1, 1, 0, 1]
    assert "1 of 4 records are equal to an earlier one, and are left out." in [
        problem.sentence for problem in once.fit.problems
    ]
    # Records of two identifiers are two, whatever else they have in common.
    frame.with_columns(id=pl.Series(["a", "b", "d", "c"])).write_csv(tmp_path / "b.csv")
    assert read_by_schema(tmp_path / "b.csv", schema).fit.repeated == 0


def test_columns_that_are_absent_or_too_many_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("age,extra\n1,2\n")
    with pytest.raises(InputError, match="'glucose', 'dose'") as caught:
        load_measure(path, schema=SCHEMA)
    assert caught.value.code == "schema-columns"
    frame = pl.DataFrame([GOOD], schema=HEADER, orient="row").with_columns(extra=pl.lit(1))
    frame.write_csv(path)
    assert read_by_schema(path, SCHEMA).fit.extra == ("extra",)


def test_a_site_says_how_it_writes_its_columns(tmp_path: Path) -> None:
    site = Site.of(
        {
            "columns": {
                "age": {"from": "ALTER"},
                "glucose": {"unit": "mmol/L"},
                "sex": {"codes": {"1": "m", 2: "f"}},
                "smoker": {"codes": {"J": True, "N": "no"}},
                "day": {"format": "%d.%m.%Y"},
                "stage": {"sentinels": [9]},
                "ill": {"codes": {"A00": "a"}},
            },
            "decimal": ",",
        }
    )
    path = tmp_path / "a.csv"
    names = ["ALTER", *HEADER[1:]]
    row = ["70", "5,0225", "3,0", "2", "9", "J", "29.02.2024", "A00", "1,5"]
    path.write_text(";".join(names) + "\n" + ";".join(row) + "\n")
    found = load_measure(path, schema=SCHEMA, site=site)
    row = ["70", repr(5.0225 * 18.0156), "3.0", "f", "", "yes", "2024-02-29", "a", "1.5"]
    expected = load_measure(table(tmp_path / "b.csv", [tuple(row)]), schema=SCHEMA)
    np.testing.assert_allclose(found.points, expected.points, rtol=1e-12)
    assert found.names is not None
    assert found.names.tolist() == ["a"]
    for odd, where in (
        ({"columns": {"gluc": {"from": "x"}}}, "gluc"),
        ({"columns": {"sex": {"codes": {"1": "male"}}}}, "sex"),
        ({"columns": {"sex": {"unit": "kg"}}}, "sex"),
        ({"columns": {"age": {"format": "%Y"}}}, "age"),
        ({"columns": {"age": {"unit": "kg"}}}, "age"),
        ({"columns": {"age": {"form": "%Y"}}}, "form"),
    ):
        with pytest.raises(InputError, match=where) as caught:
            load_measure(tmp_path / "b.csv", schema=SCHEMA, site=Site.of(odd))
        assert caught.value.code == "site-invalid"


def test_public_records_need_neither_weights_nor_labels(tmp_path: Path) -> None:
    frame = pl.DataFrame([GOOD], schema=HEADER, orient="row").drop("w", "ill")
    frame.write_csv(tmp_path / "a.csv")
    found = read_by_schema(tmp_path / "a.csv", SCHEMA, complete=False).measure
    assert not found.labelled
    assert found.schema == SCHEMA


def test_coordinates_are_written_with_their_schema(tmp_path: Path) -> None:
    measure = load_measure(table(tmp_path / "a.csv", [GOOD] * 3), schema=SCHEMA)
    save_measure(tmp_path / "a.npz", measure)
    for again in (
        load_measure(tmp_path / "a.npz"),
        load_measure(tmp_path / "a.npz", schema=SCHEMA),
    ):
        assert arrays(again) == arrays(measure)
        assert again.schema == SCHEMA
    np.savez(tmp_path / "b.npz", X=measure.points)
    with pytest.raises(FileError, match=r"b\.npz") as caught:
        load_measure(tmp_path / "b.npz", schema=SCHEMA)
    assert caught.value.code == "schema-npz"


def other(change: Callable[[dict[str, Any]], None]) -> Schema:
    body = SCHEMA.body()
    change(body["columns"])
    return Schema.of(body)


def test_data_of_two_schemas_are_not_compared(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", [GOOD] * 3)
    one = load_measure(path, schema=SCHEMA)
    two = load_measure(path, schema=other(lambda c: c["age"].update(range=[0, 120])))
    for there in (two, one.points):
        with pytest.raises(MismatchError) as caught:
            silot.distance(one, there)
        assert caught.value.code == "schema-mismatch"
    with pytest.raises(MismatchError, match="'age'"):
        silot.distance(one, two)
    fed = {
        "a": silot.federation.Holder(one, silot.Policy.open()),
        "b": silot.federation.Holder(two, silot.Policy.open()),
    }
    with pytest.raises(MismatchError, match="'age'"):
        silot.federation.LocalFederation(fed)


def test_quartiles_are_of_records_evenly_over_the_file() -> None:
    sample = Sample(1 << 15)
    values = np.arange(200_000.0)
    for start in range(0, len(values), 777):
        block = values[start : start + 777]
        kept = sample.add(len(block), block[sample.rows()])[0]
    quartiles = np.quantile(kept, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [50_000, 100_000, 150_000], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("M\u00fcller", "Mu\u0308ller"), ("covid-19", "covid\u201319"), ("Crohn's", "Crohn\u2019s"),
        ("ill", "i\u200bll"), ("ill", "ill\u00ad"), ("A1", "\uff21\uff11"), ("ill", "ill "),
    ],
)  # fmt: skip
def test_categories_that_look_alike_are_one(name: str, written: str) -> None:
    schema = Schema.of({"columns": {"dx": {"kind": "category", "categories": [name, "well"]}}})
    own, other = (pl.DataFrame({"dx": [text, "well"]}) for text in (name, written))
    np.testing.assert_array_equal(schema.measure(own).points, schema.measure(other).points)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("krank", "\u043arank"), ("krank", "kr\u0430nk"), ("AB", "\u0391\u0392"), ("1/2", "\u00bd"),
        ("a/b", "a\u2044b"), ("H2O", "H\u2082O"), ("ill", "I l-l"),
    ],
)  # fmt: skip
def test_a_category_that_a_reader_takes_for_one_of_the_schema_is_refused(
    name: str, written: str
) -> None:
    body = {"kind": "category", "categories": [name, "well"], "other": True}
    schema = Schema.of({"columns": {"dx": body}})
    with pytest.raises(InputError, match="case, blanks, signs or the alphabet") as caught:
        schema.measure(pl.DataFrame({"dx": [written, "well"] * 5}))
    assert caught.value.code == "schema-fit"


@pytest.mark.parametrize(
    ("written", "site", "cure"),
    [
        ("1 234", "decimal: ','", {"group": " "}),
        ("1'234", "group: '.'", {"group": "'"}),
        ("1.234,5", "decimal: ','", {"decimal": ",", "group": "."}),
        ("1.234", "decimal: ','", {"decimal": ",", "group": "."}),
    ],
)
def test_what_is_said_of_another_notation_than_the_one_declared_reads_the_numbers(
    written: str, site: str, cure: dict[str, str], tmp_path: Path
) -> None:
    schema = Schema.of({"columns": {"cost": {"kind": "number", "range": [0, 2000]}}})
    path, declared = tmp_path / "a.csv", tmp_path / "site.yml"
    path.write_text("cost;days\n" + f"{written};1\n12;2\n" * 5)
    declared.write_text(f"{site}\n")
    with pytest.raises(InputError) as caught:
        load_measure(path, schema=schema, site=declared)
    assert str(Notation.model_validate(cure)) in caught.value.message


@pytest.mark.parametrize("written", ["90+", "~90", "90*", ">= 90", "* 90"])
def test_numbers_with_a_mark_of_a_limit_or_a_footnote_are_numbers(written: str) -> None:
    reading = possible(["12", written, "7.5"])
    assert reading.notation is not None
    np.testing.assert_array_equal(
        read_numbers(["12", written, "7.5"], reading.notation).values, [12, 90, 7.5]
    )
