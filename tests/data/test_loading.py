"""Measures from files: what is written comes back, and what is broken is named."""

from __future__ import annotations

import contextlib
import csv
import gc
import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import silot
from silot import Schema
from silot.data.loading import column_names, load_identifiers, load_images, load_measure
from silot.data.tables import Texts
from silot.errors import ExtraError, FileError, InputError, MismatchError, SilotError
from tests.lazily import package
from tests.problems import SECRET, SECRET_TEXT, assert_refused, seeds
from tests.tiers import examples

pl = package("polars")

KINDS = ("csv", "csv.gz", "parquet")
kinds = pytest.mark.parametrize("kind", KINDS)


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    """A table in the format of the path's ending; csv by hand, so that text is what is read."""
    if path.name.endswith(".parquet"):
        pl.DataFrame(columns).write_parquet(path)
        return path
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(columns)
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    writer.writerows(rows)
    data = lines.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# Round trips.


def test_an_npz_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points, weights, labels = rng.standard_normal((7, 3)), rng.random(7), np.arange(7) % 3
    np.savez(tmp_path / "north.npz", X=points, w=weights, y=labels)
    measure = load_measure(tmp_path / "north.npz")
    assert np.array_equal(measure.points, points)
    np.testing.assert_allclose(measure.weights, weights / weights.sum(), rtol=1e-14)
    assert measure.labels is not None and np.array_equal(measure.labels, labels)


def test_a_compressed_npz_with_text_labels_comes_back(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "north.npz", X=np.eye(2), y=np.array(["cat", "dog"]))
    measure = load_measure(str(tmp_path / "north.npz"))
    assert measure.labels is not None and measure.labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("dtype", ["u1", "i8", "f2", "f4", "?"])
def test_images_are_flattened_to_rows(tmp_path: Path, dtype: str) -> None:
    images = np.random.default_rng(0).integers(0, 2, (5, 4, 3, 2)).astype(dtype)
    np.savez(tmp_path / "images.npz", X=images, y=np.arange(5))
    measure = load_measure(tmp_path / "images.npz")
    assert np.array_equal(measure.points, images.reshape(5, 24).astype(float))


@kinds
def test_a_table_comes_back(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    age, height, mass = rng.integers(0, 90, 9), rng.standard_normal(9), rng.random(9)
    city = ["a", "b", "c"] * 3
    path = write_table(
        tmp_path / f"site.{kind}", {"age": age, "city": city, "height": height, "mass": mass}
    )
    measure = load_measure(path, label_column="city", weight_column="mass")
    assert np.array_equal(measure.points, np.column_stack([age, height]))
    np.testing.assert_allclose(measure.weights, mass / mass.sum(), rtol=1e-14)
    assert measure.labels is not None and measure.labels.tolist() == city


@pytest.mark.heavy
@kinds
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20))
@given(n=st.integers(1, 20), d=st.integers(1, 6), seed=seeds)
def test_any_numbers_come_back_to_the_last_bit(
    tmp_path: Path, kind: str, n: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-30, 30, (n, d))
    path = write_table(tmp_path / f"any.{kind}", {f"c{k}": points[:, k] for k in range(d)})
    assert np.array_equal(load_measure(path).points, points)


@kinds
def test_chosen_columns_come_in_the_order_given(tmp_path: Path, kind: str) -> None:
    path = write_table(
        tmp_path / f"site.{kind}", {"a": [1, 2], "b": [3, 4], "c": [5, 6], "note": ["x", "y"]}
    )
    assert load_measure(path, columns=["c", "a"]).points.tolist() == [[5.0, 1.0], [6.0, 2.0]]


@kinds
def test_columns_named_for_labels_and_weights_are_no_features(tmp_path: Path, kind: str) -> None:
    path = write_table(tmp_path / f"site.{kind}", {"y": [0, 1], "x": [5.0, 6.0], "w": [1, 3]})
    measure = load_measure(path, label_column="y", weight_column="w")
    assert measure.points.tolist() == [[5.0], [6.0]]
    assert measure.weights.tolist() == [0.25, 0.75]
    assert load_measure(path).dimension == 3


@kinds
def test_booleans_and_integers_are_numbers(tmp_path: Path, kind: str) -> None:
    path = write_table(tmp_path / f"site.{kind}", {"ill": [True, False], "age": [40, -3]})
    assert load_measure(path).points.tolist() == [[1.0, 40.0], [0.0, -3.0]]


def test_parquet_categories_are_labels(tmp_path: Path) -> None:
    city = pl.Series(["x", "y", "x"], dtype=pl.Categorical)
    path = write_table(tmp_path / "site.parquet", {"a": [1.0, 2.0, 3.0], "city": city})
    measure = load_measure(path, label_column="city")
    assert measure.labels is not None and measure.labels.tolist() == ["x", "y", "x"]


def test_parquet_of_many_row_groups_comes_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "site.parquet"
    pl.DataFrame({"a": np.arange(100.0)}).write_parquet(path, row_group_size=7)
    assert load_measure(path).points[:, 0].tolist() == list(range(100))


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "site=3"
    folder.mkdir()
    assert load_measure(write_table(folder / "data.parquet", {"a": [1.0]})).dimension == 1


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = write(tmp_path / "excel.csv", "\ufeffa,b\n1,2\n")
    assert load_measure(path, columns=["a"]).points.tolist() == [[1.0]]


@pytest.mark.parametrize("name", ["NORTH.CSV", "North.Csv"])
def test_endings_are_read_whatever_their_case(tmp_path: Path, name: str) -> None:
    assert load_measure(write(tmp_path / name, "a\n1\n")).points.tolist() == [[1.0]]


def test_quoted_names_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "site.csv", '"age, in years","b"\r\n1,2\r\n3,4\r\n')
    measure = load_measure(path, columns=["age, in years"])
    assert measure.points.tolist() == [[1.0], [3.0]]


# Files that fail. Each case writes a file and gives the options it is read with.

Case = tuple[str, Callable[[Path], Path], dict[str, Any], type[SilotError], str, str]


def npz(**arrays: Any) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        np.savez(folder / "site.npz", **arrays)
        return folder / "site.npz"

    return build


def text(name: str, content: str | bytes) -> Callable[[Path], Path]:
    return lambda folder: write(folder / name, content)


def table(name: str, **columns: Any) -> Callable[[Path], Path]:
    return lambda folder: write_table(folder / name, columns)


def truncated(build: Callable[[Path], Path], keep: float) -> Callable[[Path], Path]:
    def cut(folder: Path) -> Path:
        path = build(folder)
        data = path.read_bytes()
        return write(path, data[: int(keep * len(data))])

    return cut


S = str(SECRET)
OBJECTS = np.array([[SECRET, None]], dtype=object)

FAILING: list[Case] = [
    ("missing", lambda folder: folder / "site.csv", {}, FileError, "file-missing", "not exist"),
    ("folder", lambda folder: folder, {}, FileError, "file-empty", "without parquet files"),
    ("a web page", text("site.csv", f"<html>{S}</html>"), {}, FileError, "file-kind", "web page"),
    ("a record alone", text("site.xlsx", S), {}, FileError, "file-header", "site.xlsx"),
    ("0 bytes npz", text("site.npz", ""), {}, FileError, "file-empty", "0 bytes"),
    ("0 bytes csv", text("site.csv", ""), {}, FileError, "file-empty", "0 bytes"),
    ("0 bytes csv.gz", text("site.csv.gz", ""), {}, FileError, "file-empty", "0 bytes"),
    ("0 bytes parquet", text("site.parquet", ""), {}, FileError, "file-empty", "0 bytes"),
    ("a word as npz", text("site.npz", f"a,b\n1,x{S}\n"), {}, InputError, "measure-dtype", "'b'"),
    ("text as parquet", text("site.parquet", S), {}, FileError, "file-header", "site.parquet"),
    ("broken csv.gz", text("site.csv.gz", b"\x1f\x8b" + S.encode()), {}, FileError,
     "file-unreadable", "site.csv.gz"),
    ("truncated parquet", truncated(table("site.parquet", a=[SECRET]), 0.5), {}, FileError,
     "file-unreadable", "site.parquet"),
    ("truncated csv.gz", truncated(table("site.csv.gz", a=np.arange(999.0)), 0.7), {}, FileError,
     "file-unreadable", "site.csv.gz"),
    ("objects in X", npz(X=OBJECTS), {}, FileError, "file-unreadable", "object arrays"),
    ("objects in y", npz(X=np.eye(1), y=OBJECTS[0, :1]), {}, FileError, "file-unreadable",
     "object arrays"),
    ("no X", npz(data=np.full((1, 1), SECRET), y=[1]), {}, FileError, "file-columns", "data, y"),
    ("nothing in it", npz(), {}, FileError, "file-empty", "nothing"),
    ("text in X", npz(X=np.array([[S]])), {}, InputError, "measure-dtype", "site.npz"),
    ("X of one dimension", npz(X=np.full(3, SECRET)), {}, InputError, "measure-shape", "(3,)"),
    ("X a number", npz(X=SECRET), {}, InputError, "measure-shape", "site.npz"),
    ("X of no records", npz(X=np.zeros((0, 28, 28))), {}, InputError, "measure-empty", "site.npz"),
    ("X of empty images", npz(X=np.zeros((2, 0, 3))), {}, InputError, "measure-empty", "site.npz"),
    ("NaN in X", npz(X=[[SECRET, np.nan]]), {}, InputError, "measure-nan", "row 0, column 1"),
    ("too few labels", npz(X=np.eye(3), y=[SECRET]), {}, MismatchError, "labels-shape", "site.npz"),
    ("labels in a column", npz(X=np.eye(1), y=[[SECRET]]), {}, MismatchError, "labels-shape", "1"),
    ("NaN label", npz(X=np.eye(2), y=[SECRET, np.nan]), {}, InputError, "labels-missing", "row 1"),
    ("negative weight", npz(X=np.eye(2), w=[SECRET, -1]), {}, InputError, "weights-negative",
     "site.npz"),
    ("too few weights", npz(X=np.eye(2), w=[SECRET]), {}, MismatchError, "weights-shape",
     "site.npz"),
    ("label option for npz", npz(X=np.eye(2)), {"label_column": "y"}, FileError, "file-columns",
     "Leave"),
    ("weight option for npz", npz(X=np.eye(2)), {"weight_column": "w"}, FileError,
     "file-columns", "Leave"),
    ("columns option for npz", npz(X=np.eye(2)), {"columns": ["X"]}, FileError, "file-columns",
     "Leave"),
    ("header only", text("site.csv", "a,b\n"), {}, InputError, "measure-empty", "site.csv"),
    ("header only, labelled", text("site.csv", "a,b\n"), {"label_column": "b"}, InputError,
     "measure-empty", "site.csv"),
    ("parquet of no rows", table("site.parquet", a=pl.Series([], dtype=pl.Float64)), {}, InputError,
     "measure-empty", "site.parquet"),
    ("blank lines", text("site.csv", "\n\n"), {}, FileError, "file-unreadable", "site.csv"),
    ("too short a line", text("site.csv", f"a,b\n1,2\n{S}\n"), {}, FileError,
     "file-unreadable", "line 3 has 1 field,"),
    ("too short a line for its label", text("site.csv", f"a,y\n1,2\n{S}\n"),
     {"label_column": "y"}, FileError, "file-unreadable", "line 3"),
    ("too long a line", text("site.csv", f"a,b\n1,2\n{S},1,2\n"), {}, FileError,
     "file-unreadable", "line 3 has 3 fields"),
    ("text column", text("site.csv", f"a,name\n1,x{S}\n"), {}, InputError, "measure-dtype",
     "'name'"),
    ("date column", text("site.csv", "a,born\n1,2020-01-01\n"), {}, InputError, "measure-dtype",
     "'born'"),
    ("text column chosen", text("site.csv", f"a,name\n1,x{S}\n"), {"columns": ["name"]},
     InputError, "measure-dtype", "'name'"),
    ("list column", table("site.parquet", a=[[SECRET, 1.0]]), {}, InputError, "measure-dtype",
     "'a'"),
    ("missing label column", text("site.csv", f"a,b\n1,{S}\n"), {"label_column": "c"}, FileError,
     "file-columns", "'a', 'b'"),
    ("missing weight column", text("site.csv", f"a,b\n1,{S}\n"), {"weight_column": "c"},
     FileError, "file-columns", "'c'"),
    ("missing feature column", text("site.csv", f"a,b\n1,{S}\n"), {"columns": ["a", "c"]},
     FileError, "file-columns", "'c'"),
    ("only a label column", text("site.csv", f"a\n{S}\n"), {"label_column": "a"}, InputError,
     "measure-empty", "feature"),
    ("NaN", text("site.csv", f"a,b\n1,nan\n{S},2\n"), {}, InputError, "measure-nan",
     "'b' (1, the first in line 2)"),
    ("empty field", text("site.csv", f"a,b\n1,{S}\n2,\n"), {}, InputError, "measure-nan",
     "line 3"),
    ("infinite", text("site.csv", f"a,b\n1,{S}\n2,inf\n"), {}, InputError, "measure-infinite",
     "line 3"),
    ("missing spelled out", text("site.csv", f"a,b\n1,{S}\n2,NA\n"), {}, InputError, "measure-nan",
     "line 3"),
    ("missing label spelled out", text("site.csv", f"a,y\n1,x{S}\n2,NA\n"), {"label_column": "y"},
     InputError, "labels-missing", "line 3"),
    ("missing text label", text("site.csv", f"a,y\n1,x{S}\n2,\n"), {"label_column": "y"},
     InputError, "labels-missing", "line 3"),
    ("text weights", text("site.csv", f"a,w\n1,x{S}\n"), {"weight_column": "w"}, InputError,
     "weights-dtype", "'w'"),
    ("empty column in parquet", table("site.parquet", a=[SECRET], b=[None]), {}, InputError,
     "measure-nan", "record 1"),
    ("text after a thousand numbers", text("site.csv", "a\n" + "1\n" * 1000 + f"x{S}\n"), {},
     InputError, "measure-dtype", "'a'"),
    ("null in parquet", table("site.parquet", a=[SECRET, None]), {}, InputError, "measure-nan",
     "record 2"),
    ("null label of a number", text("site.csv", f"a,y\n1,{S}\n2,\n"), {"label_column": "y"},
     InputError, "labels-missing", "line 3"),
    ("NaN label of a number", text("site.csv", f"a,y\n1,{S}\n2,nan\n"), {"label_column": "y"},
     InputError, "labels-missing", "line 3"),
    ("null label in parquet", table("site.parquet", a=[1.0, 2.0], y=[S, None]),
     {"label_column": "y"}, InputError, "labels-missing", "record 2"),
    ("negative weight in csv", text("site.csv", f"a,w\n1,{S}\n2,-1\n"), {"weight_column": "w"},
     InputError, "weights-negative", "line 3"),
    ("null weight", text("site.csv", f"a,w\n1,{S}\n2,\n"), {"weight_column": "w"}, InputError,
     "weights-nan", "line 3"),
    ("two columns of one name", text("site.csv", f"a,b,a\n1,2,{S}\n"), {}, FileError,
     "file-columns", "1 and 3"),
    ("two columns of the chosen name", text("site.csv", f"a,b,a\n1,2,{S}\n"), {"columns": ["a"]},
     FileError, "file-columns", "1 and 3"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAILING, ids=[case[0] for case in FAILING])
def test_a_file_that_fails_is_refused_with_its_code_and_its_name(
    case: Case, tmp_path: Path
) -> None:
    _, build, options, kind, code, quoting = case
    path = build(tmp_path)
    assert_refused(lambda: load_measure(path, **options), kind, code, quoting=quoting)
    assert_refused(lambda: load_measure(path, **options), kind, code, quoting=path.name)


def npy(folder: Path) -> Path:
    with (folder / "site.npz").open("wb") as file:
        np.save(file, np.full((2, 2), SECRET))
    return folder / "site.npz"


BROKEN: list[tuple[str, Callable[[Path], Path], dict[str, Any], str]] = [
    (
        "npy named npz",
        npy,
        {},
        "numpy returns an array, and 'with' raises an uncoded TypeError",
    ),
    (
        "the same feature twice",
        text("site.csv", f"a,b\n1,{S}\n"),
        {"columns": ["a", "a"]},
        "no error: the feature counts twice",
    ),
    (
        "label column among the features",
        text("site.csv", f"a,b\n1,{S}\n"),
        {"columns": ["a", "b"], "label_column": "b"},
        "no error: the label is a feature too",
    ),
]


@pytest.mark.parametrize(
    ("build", "options"),
    [pytest.param(build, options, id=name) for name, build, options, why in BROKEN],
)
def test_a_file_that_ought_to_be_refused_is(
    build: Callable[[Path], Path], options: dict[str, Any], tmp_path: Path
) -> None:
    path = build(tmp_path)
    with pytest.raises(SilotError) as caught:
        load_measure(path, **options)
    assert SECRET_TEXT not in str(caught.value)


def test_a_column_of_missing_values_is_not_called_text(tmp_path: Path) -> None:
    path = write(tmp_path / "site.csv", f"a,b\n{S},\n")
    assert_refused(
        lambda: load_measure(path),
        InputError,
        "measure-nan",
        quoting="'b' (1, the first in line 2)",
    )


def test_an_npz_whose_compressed_data_are_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "site.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).standard_normal((100, 3)))
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(data)
    assert_refused(lambda: load_measure(path), FileError, "file-unreadable")


def test_a_truncated_npz_is_refused_and_closed(tmp_path: Path) -> None:
    path = truncated(npz(X=np.full((9, 9), SECRET)), 0.5)(tmp_path)
    assert_refused(lambda: load_measure(path), FileError, "file-unreadable")
    # An open file is reported when it is collected, and pytest makes that an error.
    gc.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_one_file_and_no_pattern(tmp_path: Path, kind: str) -> None:
    write_table(tmp_path / f"site1.{kind}", {"a": [5.0]})
    path = write_table(tmp_path / f"site*.{kind}", {"a": [7.0]})
    assert load_measure(path).points.tolist() == [[7.0]]
    path = write_table(tmp_path / f"site[1].{kind}", {"a": [8.0]})
    assert load_measure(path).points.tolist() == [[8.0]]


def test_large_integers_are_read_as_the_nearest_number(tmp_path: Path) -> None:
    path = write(tmp_path / "site.csv", "id\n9007199254740993\n86753098675309867530\n")
    assert load_measure(path).points.tolist() == [[9007199254740992.0], [86753098675309867530.0]]


def test_a_fraction_after_a_thousand_integers_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "site.csv", "a\n" + "1\n" * 1000 + "1.5\n")
    assert load_measure(path).points[-1].tolist() == [1.5]


@pytest.mark.parametrize(
    ("field", "number"),
    [("1", 1.0), (" 2 ", 2.0), ("+3", 3.0), (".5", 0.5), ("1e-3", 0.001), ("true", 1.0),
     ("False", 0.0), ("007", 7.0), ("9007199254740993", 2.0**53)],
)  # fmt: skip
def test_a_field_is_a_number_by_itself(field: str, number: float, tmp_path: Path) -> None:
    for others in ("", "1.5\n", "1\ntrue\n", "0.25\n1e100\n"):
        path = write(tmp_path / "site.csv", f"a\n{others}{field}\n")
        assert load_measure(path).points[-1].tolist() == [number]


@pytest.mark.parametrize("field", ["1_0", "1.5.2", "0x1", "x", "1 2", "2020-01-01"])
def test_a_field_that_is_no_number_is_refused_with_its_row(field: str, tmp_path: Path) -> None:
    path = write(tmp_path / "site.csv", f"a\n1\n{field}\n")
    assert_refused(lambda: load_measure(path), InputError, "measure-dtype", quoting="line 3")


def test_the_missing_label_stands_for_empty_labels_of_any_column(tmp_path: Path) -> None:
    options = {"label_column": "y", "missing_label": "none"}
    for column in ([1, None, 2], [1.0, None, 2.0], ["1", "", "2"], [1.0, float("nan"), 2.0]):
        if "" not in column:
            table = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": column})
            table.write_parquet(tmp_path / "site.parquet")
            found = load_measure(tmp_path / "site.parquet", **options).names
            assert found is not None and found.tolist() == ["1", "none", "2"]
        lines = "\n".join(f"0,{'' if k is None else k}" for k in column)
        found = load_measure(write(tmp_path / "site.csv", f"x,y\n{lines}\n"), **options).names
        assert found is not None and found.tolist() == ["1", "none", "2"]


def test_decimals_are_read_as_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "site.parquet"
    pl.DataFrame({"a": pl.Series(["1.10", "12345678901234567.80"]).cast(pl.Decimal(38, 2))}
                 ).write_parquet(path)  # fmt: skip
    assert load_measure(path).points.ravel().tolist() == [1.1, 12345678901234567.8]


def test_a_csv_that_was_not_compressed_is_read_whatever_its_name(tmp_path: Path) -> None:
    assert load_measure(write(tmp_path / "a.csv.gz", "a\n1\n")).points.tolist() == [[1.0]]
    assert load_measure(write(tmp_path / "b.csv", gzip.compress(b"a\n1\n"))).size == 1


@pytest.mark.parametrize("name", ["site.npz", "site.csv", "site.csv.gz", "site.parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(content=st.binary(min_size=1, max_size=200))
def test_noise_is_refused_or_read_but_never_crashes(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = write(tmp_path / name, content)
    try:
        load_measure(path)
    except SilotError as error:
        assert error.code.startswith(("file-", "measure-"))


def test_many_columns_are_listed_in_part(tmp_path: Path) -> None:
    path = write_table(tmp_path / "wide.csv", {f"c{k}": [1.0] for k in range(40)})
    assert_refused(
        lambda: load_measure(path, label_column="y"),
        FileError,
        "file-columns",
        quoting="and 28 more",
    )


def test_images_of_a_file_that_is_missing_are_refused_as_such(tmp_path: Path) -> None:
    assert_refused(lambda: load_images(tmp_path / "gone.npz"), FileError, "file-missing")


def test_a_csv_of_semicolons_or_tabs_is_read_and_commas_in_it_are_points(tmp_path: Path) -> None:
    for name, text in (
        ("a.csv", "age,pulse,kind\n61,7.5,x\n40,-1e-3,y\n"),
        ("b.csv", 'age;"pulse";kind\n61;7,5;x\n40;-1e-3;y\n'),
        ("c.csv", "age\tpulse\tkind\n61\t7.5\tx\n40\t-1e-3\ty\n"),
        ("d.csv", 'age,pulse,kind\n61,"7,5",x\n40,"-0,001",y\n'),
    ):
        (tmp_path / name).write_text(text)
        found = load_measure(tmp_path / name, label_column="kind")
        np.testing.assert_array_equal(found.points, [[61, 7.5], [40, -1e-3]])
        assert found.names is not None and found.names.tolist() == ["x", "y"]
    # In one column one mark.
    (tmp_path / "e.csv").write_text("a;b\n1;7.5\n2;0,01\n")
    with pytest.raises(SilotError, match="measure-dtype"):
        load_measure(tmp_path / "e.csv")


def test_numbers_in_the_place_of_names_are_an_error_but_places_are_names(tmp_path: Path) -> None:
    for text in ("1.5,2\n3,4\n", "0,0,1\n1,2,3\n", "-1;2,5;3\n3;4;5\n"):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(SilotError, match="file-header"):
            load_measure(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("0,1,2\n5,6,7\n")
    assert load_measure(tmp_path / "a.csv").points.tolist() == [[5, 6, 7]]


HEADLESS = (
    f"p-{S},70,F,{S}\np-18,61,M,12.5\n",
    f"p-{S},{S}-01-31,F,1.5\np-18,2020-02-01,M,\n",
    f"p-{S},,F,\np-18,61,M,12.5\n",
    f"p-{S},0,F,0\np-18,61,M,12.5\n",
    f"p-{S},1,0,x\np-18,61,3,y\n",
    f"p-{S},NA,F,2e{S}\np-18,61,M,12.5\n",
    f"{S};x{S};yes\n61;y{S};no\n",
    f"x{S},a{S},yes\ny{S},b{S},no\n",
    f"x{S},a{S}, x{S},x{S}\ny{S},b{S},1,no\n",
)


@pytest.mark.parametrize("body", HEADLESS)
def test_a_record_in_the_place_of_names_is_quoted_in_no_error(body: str, tmp_path: Path) -> None:
    path = text("north.csv", body)(tmp_path)
    schema = Schema.of({"columns": {"age": {"kind": "number", "range": [0, 120]}}})
    first = {field for field in re.split("[,;\n]", body) if len(field) > 3}
    calls: tuple[Callable[[], object], ...] = (
        lambda: load_measure(path),
        lambda: load_measure(path, label_column="outcome"),
        lambda: load_measure(path, columns=["age", "pulse"], weight_column="w"),
        lambda: load_measure(path, schema=schema),
        lambda: load_identifiers(path, "id"),
        lambda: silot.draft_schema(path, label="outcome"),
    )
    for call in calls:
        with pytest.raises(SilotError) as caught:
            call()
        assert not any(field.strip() in caught.value.message for field in first), caught.value
        assert "'F'" not in caught.value.message
    said: list[str] = []
    with contextlib.suppress(SilotError):
        said = [each.sentence for each in silot.check_schema(path, schema).problems]
    assert not any(field.strip() in each for field in first for each in said)
    # Of texts alone nobody can tell: the draft says so.
    with contextlib.suppress(SilotError):
        assert "header" in {note.kind for note in silot.draft_schema(path).notes}


def test_names_of_columns_are_told_where_they_are_names_for_sure(tmp_path: Path) -> None:
    for body in ("age,ward\n70,x\n", "ward,born\nx,2020-01-31\n", "x,1999,2000,2001\ny,1,2,3\n"):
        path = text("north.csv", body)(tmp_path)
        assert column_names(path) == body.partition("\n")[0].split(",")
    assert_refused(
        lambda: load_measure(text("a.csv", "age,ward\n70,x\n")(tmp_path), label_column="y"),
        FileError, "file-columns", quoting="there is 'age', 'ward'",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("a;b\n1;2\n1.000;2,5\n", [[1, 2], [1000, 2.5]]),
        ("a;b\n1;2\n1,000;2.5\n", [[1, 2], [1000, 2.5]]),
        ("a;b\n1;2\n1.234.567,8;2\n", [[1, 2], [1234567.8, 2]]),
        ("a;b\n12:30;7 %\n01:06;1 %\n", [[12.5, 0.07], [1.1, 0.01]]),
        ("a;b\n1,000.50;(5)\n3;2\n", [[1000.5, -5], [3, 2]]),
        ("a;b\n(1,200.0);5-\n7;1\n", [[-1200, -5], [7, 1]]),
        ("a;b\n1'007.5;\u22125\n3;4\n", [[1007.5, -5], [3, 4]]),
        ("a;b\n1\u202f234,5;3\n2;4\n", [[1234.5, 3], [2, 4]]),
    ],
)
def test_numbers_are_read_in_the_only_notation_of_their_column(
    text: str, points: list[list[float]], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    np.testing.assert_allclose(load_measure(tmp_path / "a.csv").points, points, rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b\n1;2\n1.234;2\n", "{decimal: '.'} or {decimal: ',', group: '.'}"),
        ("a;b\n1;2\n1,234;2\n", "{decimal: ','} or {group: ','}"),
        ("a;b\n1;2\n2.5;1,0\n", "follow a point in 'a' and a comma in 'b'"),
        ("a;b\n1;(2)\n3;(1)\n", "{negative: '(5)'} or {negative: 'enclosed'}"),
        ("a;b\n1;2\n3;<0.5\n", "its numbers have limits"),
        ("a;b\n$1;2\n$2;1\n", "its numbers are in '$'"),
        ("a;b\n1;2 mg\n2;1 mg\n", "its numbers are in 'mg'"),
    ],
)
def test_numbers_of_two_notations_are_refused_with_both(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        load_measure(tmp_path / "a.csv")
    assert caught.value.code == "measure-dtype" and words in caught.value.message


# What a holder calls its records.


@kinds
def test_identifiers_come_back_as_texts_and_are_no_feature(tmp_path: Path, kind: str) -> None:
    names = ["=1+1", "", "007", "NA", "x", "x", " y ", "東京"]
    columns = {"id": names, "age": np.arange(8.0), "kind": ["a", "b"] * 4}
    path = write_table(tmp_path / f"wards.{kind}", columns)
    assert load_identifiers(path, "id") == names
    found = load_measure(path, label_column="kind", id_column="id")
    assert found.columns == ("age",)
    assert load_measure(path, label_column="kind", id_column="id", columns=["age"]).columns == (
        "age",
    )


def test_identifiers_of_a_parquet_may_be_numbers_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "wards.parquet"
    pl.DataFrame({"id": [17, None, 18], "age": [1.0, 2.0, 3.0]}).write_parquet(path)
    assert load_identifiers(path, "id") == ["17", "", "18"]
    pl.DataFrame({"id": [[1], [2]], "age": [1.0, 2.0]}).write_parquet(path)
    assert_refused(lambda: load_identifiers(path, "id"), InputError, "measure-dtype")


def test_identifiers_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "wards.csv", {"id": ["a"], "age": [1.0]})
    assert_refused(lambda: load_identifiers(path, "name"), FileError, "file-columns")
    assert_refused(lambda: load_measure(path, id_column="name"), FileError, "file-columns")
    np.savez(tmp_path / "x.npz", X=np.eye(3), id=np.arange(3))
    for call in (
        lambda: load_identifiers(tmp_path / "x.npz", "id"),
        lambda: load_measure(tmp_path / "x.npz", id_column="id"),
    ):
        assert_refused(call, FileError, "file-columns")
    for options in ({"label_column": "id"}, {"weight_column": "id"}, {"columns": ["id", "age"]}):
        assert_refused(
            lambda options=options: load_measure(path, id_column="id", **options),  # type: ignore[arg-type]
            InputError,
            "option-columns",
        )


def test_a_csv_needs_no_polars_and_a_parquet_says_which_extra_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,\n")
    monkeypatch.setitem(sys.modules, "polars", None)
    found = load_measure(tmp_path / "x.csv", columns=["a"])
    assert found.points.tolist() == [[1.0], [3.0]]
    for path in (tmp_path / "x.parquet",):
        with pytest.raises(ExtraError, match="extra-parquet") as caught:
            load_measure(path)
        assert "silot[parquet]" in caught.value.message


@given(st.lists(st.text(), max_size=30), st.lists(st.text(), max_size=30))
def test_texts_in_one_buffer_are_the_texts(first: list[str], second: list[str]) -> None:
    kept = Texts()
    kept.extend(first)
    kept.extend(second)
    assert list(kept) == [*first, *second] == [kept[k] for k in range(len(kept))]
    assert kept[2:5] == [*first, *second][2:5]
    with pytest.raises(IndexError):
        kept[len(kept)]
