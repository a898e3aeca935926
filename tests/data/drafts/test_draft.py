"""Drafts: they load, read the table they are of, and say what they took from it."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silot import Schema, draft_schema, load_measure
from silot.data import Draft, Site
from silot.data.drafts import profile as profiles
from silot.data.drafts.number_proposals import rounded_outwards
from silot.errors import InputError, SilotError
from tests.lazily import package
from tests.tiers import examples

pl = package("polars")

RNG = np.random.default_rng(0)
N = 200


def written(path: Path, columns: dict[str, Sequence[Any]], mark: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def drafted(values: Sequence[Any], name: str = "x", **options: Any) -> Draft:
    return draft_schema(pl.DataFrame({name: values, "z": [0.5 * k for k in range(len(values))]},
                                     strict=False), **options)  # fmt: skip


def column(values: Sequence[Any], name: str = "x") -> Any:
    return drafted(values, name).schema.columns[name]


def spread(*values: Any) -> list[Any]:
    """Two hundred records of these values, in no order."""
    return [values[k] for k in RNG.permutation(N) % len(values)]


# Kinds.


@pytest.mark.parametrize(
    ("values", "name", "kind"),
    [
        ((30 + RNG.normal(size=N)).tolist(), "x", "number"),
        (spread(*range(30)), "x", "integer"),
        (spread("yes", "no"), "x", "yes/no"),
        (spread("Y", "N"), "x", "yes/no"),
        (spread(0, 1), "x", "yes/no"),
        (spread(True, False), "x", "yes/no"),
        (spread("ja", "nein"), "x", "category"),
        (spread("f", "m"), "sex", "category"),
        (spread("f"), "sex", "category"),
        (spread(1, 2), "sex", "category"),
        (spread(1, 2, 3), "ward", "category"),
        (spread("01234", "99001"), "x", "category"),
        (spread("I", "II", "III"), "x", "ordered"),
        (spread("low", "high"), "x", "ordered"),
        (spread("[0-10)", "[10-20)", "[30-40)"), "age", "ordered"),
        (spread("stage 1", "stage 3"), "x", "ordered"),
        (spread("ward 1", "ward 3"), "x", "category"),
        (spread("2024-01-31", "2024-05-01"), "x", "date"),
        (spread("20240131", "20240501"), "admission_date", "date"),
        (spread(20240131, 20240501, 20240613), "x", "integer"),
        (spread(dt.date(2024, 1, 31), dt.date(2024, 5, 1)), "x", "date"),
        ([f"P{k:04d}" for k in range(N)], "x", "identifier"),
        (list(range(1000, 1000 + N)), "x", "identifier"),
        (RNG.permutation(N).tolist(), "record", "identifier"),
        ([70003, 70011, 70024], "record_no", "identifier"),
        ([3, 11, 11], "record_no", "integer"),
        ([18, 22, 31], "body_mass_index", "integer"),
        ((18 + RNG.permutation(60)[:40]).tolist(), "body_mass_index", "integer"),
        ([3, 11, 24], "patient_index", "identifier"),
        ([3, 11, 24], "index", "identifier"),
        ([f"patient {k % 90} came" for k in range(N)], "x", "text"),
        ([None] * N, "x", "text"),
        (spread("1.5", "2.5", "2,5"), "x", "category"),
        (spread(["a"], ["b"]), "x", "text"),
        (spread(float("inf"), 1.0), "x", "category"),
        ((10.0 ** RNG.uniform(-300, 307, N)).tolist(), "x", "number"),
        (spread(-1e308, 1e308, 0.5), "x", "text"),
    ],
)  # fmt: skip
def test_kinds(values: list[Any], name: str, kind: str) -> None:
    assert column(values, name).kind == kind


def test_an_order_is_of_public_words_whether_or_not_the_records_have_them_all() -> None:
    assert column(spread("I", "IV")).kind == "category"
    assert column(spread("II", "IV")).categories == ("I", "II", "III", "IV")
    assert column(spread("Low", "High")).categories == ("Low", "Medium", "High")
    bands = column(spread("[0-10)", "[10-20)", "[30-40)")).categories
    assert bands == ("[0-10)", "[10-20)", "[20-30)", "[30-40)")


def test_ways_of_writing_days_are_told_and_doubtful_ones_said() -> None:
    assert column(spread("31.01.2024", "01.05.2024")).format == "%d.%m.%Y"
    assert column(spread("1/31/2024", "5/1/2024")).format == "%m/%d/%Y"
    doubtful = drafted(spread("01/02/2024", "03/04/2024"))
    assert any(note.kind == "date" and note.column == "x" for note in doubtful.notes)
    mixed = drafted(spread("31.01.2024", "2024-05-01", "12/31/2024"))
    assert mixed.schema.columns["x"].kind in ("text", "category")


def test_names_tell_units_and_public_limits() -> None:
    age = column([20 + k % 60 for k in range(N)], "age_years")
    assert (age.unit, age.range) == ("a", (0, 120))
    glucose = column((90 + 9 * RNG.normal(size=N)).tolist(), "glucose")
    assert (glucose.unit, glucose.substance) == ("mg/dL", "glucose")
    draft = drafted((5.5 + 0.4 * RNG.normal(size=N)).tolist(), "glucose")
    assert draft.schema.columns["glucose"].unit == "mmol/L"  # type: ignore[union-attr]
    # What only numbers tell depended on them; a public range did not.
    assert "glucose.unit" in draft.schema.read_off
    assert "glucose.range" not in draft.schema.read_off


def test_codes_for_missing_values_are_sentinels() -> None:
    values = [*(40 + k % 9 for k in range(N - 5)), *[-999] * 5]
    found = column(values, "dose")
    assert found.sentinels == ("-999",) and found.missing == "indicator"
    assert found.range[0] > 0
    assert column([*(40 + k % 9 for k in range(N - 1)), 999], "age").sentinels == ("999",)
    assert column([*(5 + k % 80 for k in range(N - 1)), -1], "age").sentinels == ("-1",)
    assert column(spread("unknown", "yes", "no")).sentinels == ("unknown",)
    assert column(
        [*(str(40 + k % 90) for k in range(N - 20)), *["n.a."] * 20], "dose"
    ).sentinels == ("n.a.",)


def test_a_heavy_tail_gets_a_logarithm_and_why() -> None:
    draft = drafted(np.exp(2.0 * RNG.normal(size=N)).tolist())
    assert draft.schema.columns["x"].transform == "log"  # type: ignore[union-attr]
    assert "x.transform" in draft.schema.read_off
    assert any(note.kind == "tail" for note in draft.notes)
    assert column(RNG.normal(50, 5, N).tolist()).transform == "none"


def test_rare_categories_are_other_and_never_written() -> None:
    draft = drafted([*["a"] * 100, *["b"] * 91, *["secret"] * 9])
    assert draft.schema.columns["x"].categories == ("a", "b")  # type: ignore[union-attr]
    assert draft.schema.columns["x"].other  # type: ignore[union-attr]
    assert "secret" not in draft.to_json()
    assert any(note.kind == "rare" for note in draft.notes)
    assert draft.schema.measure(pl.DataFrame({"x": ["secret"], "z": [1.0]})).size == 1


def test_a_category_called_other_is_the_other_one() -> None:
    draft = drafted(spread("a", "b", "other"))
    assert draft.schema.features[:3] == ("x=a", "x=b", "x=other")


def test_columns_that_say_the_same_are_noted() -> None:
    kinds = spread("a", "b", "c")
    frame = pl.DataFrame({
        "u": RNG.normal(size=N), "kind": kinds, "code": ["abc".index(kind) + 7.5 for kind in kinds],
    }).with_columns(v=2 * pl.col("u") + 1)  # fmt: skip
    notes = {(note.column, note.kind) for note in draft_schema(frame).notes}
    assert {("v", "duplicate"), ("code", "duplicate")} <= notes
    assert ("kind", "duplicate") not in notes


def test_all_that_depended_on_records_is_said() -> None:
    draft = draft_schema(
        pl.DataFrame({
            "age": [20 + k % 60 for k in range(N)], "dose": RNG.normal(9, 1, N).tolist(),
            "sex": spread("f", "m", None), "day": spread("01.02.2024", "17.03.2024"),
            "w": spread(0.5, 2.0), "ill": spread("a", "b"),
        }),
        label="ill", weight="w",
    )  # fmt: skip
    assert set(draft.schema.read_off) == {
        "age.typical", "dose.range", "dose.typical", "sex.categories", "sex.missing", "day.range",
        "day.format", "label.classes", "weight.limit",
    }  # fmt: skip
    assert "nobody has confirmed" in draft.schema.warning


# Whatever the table, the draft is a schema, and reads it or says why not.


def numbers(least: float = -1e12, most: float = 1e12) -> st.SearchStrategy[str]:
    return st.one_of(
        st.integers(-50, 150).map(str),
        st.floats(least, most).map(repr),
        st.sampled_from(["-0.0", "0", "1e2", " 7 ", "-999", "1e300", "007"]),
    )


WORDS = st.sampled_from(
    ["a", "A", "b", "yes", "no", "other", "unknown", "I", "II", "<5", "x=y", "Größe", "n/a", "?",
     "1", "2.0", "true", "\u200b", "low", "high", "2024-01-31", "31.01.2024", "01/02/2024", "1,5"]
)  # fmt: skip
FIELDS = st.one_of(numbers(), WORDS, st.text(max_size=6), st.just(""), st.just("NA"))
COLUMN = st.sampled_from([numbers(), WORDS, FIELDS, st.just(""), st.integers(1, 3).map(str)])
NAMES = st.one_of(
    st.sampled_from(["x", "x=a", "x missing", "age", "sex", "glucose", "Größe (cm)", "id",
                     "x (cos)", "dose", "", " ", "date", "a" * 201, "other"]),
    st.text(max_size=4),
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[str]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    height = draw(st.sampled_from([1, 3, 12, 40]))
    made: dict[str, list[str]] = {}
    for name in names:
        fields = draw(COLUMN)
        some = draw(st.lists(fields, min_size=1, max_size=4))
        made[name] = [some[k % len(some)] for k in range(height)]
        made[name][:1] = [draw(fields)]
    return made


@pytest.mark.heavy
@settings(
    max_examples=examples(400), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(tables(), st.sampled_from([",", ";"]), st.sampled_from([1, 5, 8192]))
def test_a_draft_of_any_table_is_a_schema_that_reads_it_or_says_why_not(
    tmp_path: Path, columns: dict[str, list[str]], mark: str, block: int
) -> None:
    path = written(tmp_path / "north.csv", columns, mark)
    patch = pytest.MonkeyPatch()
    patch.setattr("silot.data.dialect._ROWS", block)
    try:
        draft = draft_schema(path)
    except SilotError as error:
        # A file that cannot be read, or one without any feature.
        assert error.code in ("schema-columns", "measure-empty", "file-header", "file-columns",
                              "file-unreadable", "measure-dtype"), error  # fmt: skip
        return
    finally:
        patch.undo()
    draft.save(tmp_path / "schema.yml")
    schema = Schema.load(tmp_path / "schema.yml")
    assert schema == draft.schema and schema.hash == draft.schema.hash
    try:
        measure = load_measure(path, schema=schema)
    except InputError as error:
        assert not draft.readable and error.code in ("schema-fit", "schema-unit"), error
        # It names the columns that the draft named.
        said = [note.column for note in draft.notes if note.refused]
        assert any(repr(name) in error.message for name in said)
        return
    assert draft.readable
    assert measure.size == draft.records
    assert ((schema.low <= measure.points + 1e-9) & (measure.points <= schema.high + 1e-9)).all()


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_a_frame_of_texts_and_a_file_give_one_draft(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[str]]
) -> None:
    path = written(tmp_path_factory.mktemp("tables") / "a.csv", columns)
    try:
        of_file = draft_schema(path)
    except SilotError:
        return
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    if len(frame) == of_file.records:
        assert draft_schema(frame).schema == of_file.schema


def test_all_rows_count_whatever_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "_SAMPLE", 64)
    values = (50 + 5 * RNG.normal(size=20_000)).round(3)
    values[[11_111, 11_112]] = -999
    values[15_000] = 130.0
    draft = draft_schema(written(tmp_path / "a.csv", {"x": values.tolist()}))
    x: Any = draft.schema.columns["x"]
    assert x.sentinels == ("-999",)
    assert x.range[1] >= 130
    assert load_measure(tmp_path / "a.csv", schema=draft.schema).size == 20_000


# Tables as sites have them.


def test_a_little_text_in_a_column_of_numbers_is_missing_and_quoted_nowhere(tmp_path: Path) -> None:
    values = [*(f"{40 + k % 9}.5" for k in range(N - 2)), "hemolysed", "<5"]
    days = [*(f"2024-01-{1 + k % 28:02d}" for k in range(N - 2)), "in spring", "2024-01-03"]
    path = written(tmp_path / "a.csv", {"lactate": values, "day": days, "y": range(N)[::-1]})
    draft = draft_schema(path)
    assert draft.readable
    assert "hemolysed" not in draft.to_json() and "spring" not in draft.to_json()
    assert {"lactate.unread", "day.unread"} <= {*draft.schema.read_off}
    said = {note.column: note.sentence for note in draft.notes if note.kind == "unread"}
    assert "2 of 200" in said["lactate"] and "1 of 200" in said["day"]
    measure = load_measure(path, schema=draft.schema)
    place = measure.columns.index("lactate missing")  # type: ignore[union-attr]
    assert np.flatnonzero(measure.points[:, place]).tolist() == [N - 2, N - 1]
    site = Site.of({"columns": {"lactate": {"sentinels": ["hemolysed", "<5"]}}})
    named = draft_schema(path, site=site).schema.columns["lactate"]
    assert getattr(named, "unread", "") == "refuse"


def test_a_few_numbers_in_another_unit_are_noted_and_do_not_widen_the_range(
    tmp_path: Path,
) -> None:
    sugar = (110 + 15 * RNG.normal(size=400)).round()
    sugar[:12] = (sugar[:12] / 18.0156).round(1)
    draft = draft_schema(written(tmp_path / "a.csv", {"glucose": sugar.tolist()}))
    (note,) = [each for each in draft.notes if each.refused]
    assert (note.column, note.kind) == ("glucose", "unit") and "mmol/L" in note.sentence
    assert getattr(draft.schema.columns["glucose"], "range", None) == (10, 1100)
    with pytest.raises(InputError) as caught:
        load_measure(tmp_path / "a.csv", schema=draft.schema)
    assert caught.value.code == "schema-unit"


def test_a_site_file_is_read_as_for_every_table(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.csv",
        {"GESCHL": spread(1, 2), "ZUCKER": (5 + 0.1 * RNG.normal(size=N)).round(2).tolist(),
         "TAG": spread("1.2.24", "3.4.24")},
    )  # fmt: skip
    site = Site.of({"columns": {
        "sex": {"from": "GESCHL", "codes": {"1": "m", "2": "f"}},
        "glucose": {"from": "ZUCKER", "unit": "mmol/L"},
        "day": {"from": "TAG", "format": "%d.%m.%y"},
    }})  # fmt: skip
    draft = draft_schema(path, site=site)
    assert [each.kind for each in draft.schema.columns.values()] == ["category", "number", "date"]
    assert draft.schema.columns["sex"].categories == ("f", "m")  # type: ignore[union-attr]
    assert draft.schema.columns["glucose"].unit == "mmol/L"  # type: ignore[union-attr]
    assert load_measure(path, schema=draft.schema, site=site).size == N


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_weights_and_identifiers_that_are_named(tmp_path: Path, kind: str) -> None:
    frame = pl.DataFrame({
        "nr": [f"P {k // 2}" for k in range(N)], "x": RNG.normal(size=N), "w": spread(0.5, 1.5),
        "ill": [None, "rare", *spread("a", "b")[2:]],
    })  # fmt: skip
    path = tmp_path / f"a.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    draft = draft_schema(path, label="ill", weight="w", identifiers=["nr"])
    assert draft.schema.classes == ("a", "b", "none", "other")
    measure = load_measure(path, schema=draft.schema)
    assert measure.columns == ("x",)
    assert sorted(set(measure.names.tolist())) == ["a", "b", "none", "other"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"label": "absent"}, "schema-columns"),
        ({"label": "x"}, "schema-label"),
        ({"weight": "y"}, "weights-dtype"),
        ({"label": "y", "weight": "y"}, "option-columns"),
    ],
)
def test_columns_that_cannot_be_what_they_are_named(options: dict[str, str], code: str) -> None:
    frame = pl.DataFrame({"x": RNG.normal(size=N), "y": spread("a", "b"), "z": RNG.normal(size=N)})
    with pytest.raises(InputError) as caught:
        draft_schema(frame, **options)
    assert caught.value.code == code


def test_arrays_and_npz_have_no_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    for data in (np.eye(3), tmp_path / "a.npz"):
        with pytest.raises(SilotError) as caught:
            draft_schema(data)
        assert caught.value.code == "schema-columns"


@given(st.floats(-1e200, 1e200), st.floats(-1e200, 1e200))
def test_rounded_numbers_are_outside(a: float, b: float) -> None:
    low, high = rounded_outwards(min(a, b), max(a, b))
    assert low <= min(a, b) and max(a, b) <= high and low < high
