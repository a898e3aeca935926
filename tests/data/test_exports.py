"""Files as programs of others write them: read as what they say, or refused with the cure."""

from __future__ import annotations

import gzip
import io
import os
import sqlite3
import threading
import zipfile
from datetime import time
from pathlib import Path
from typing import Any

import pytest

from silot import Schema, check_schema, load_measure
from silot.data import Site
from silot.data.reading import read_by_schema
from silot.errors import SilotError
from tests.lazily import package

pl, pandas = package("polars"), package("pandas")

ROWS = [[1.0, 2.0], [3.0, 4.0]]


def _refused(path: Path, code: str, *words: str, **options: Any) -> None:
    with pytest.raises(SilotError) as refused:
        load_measure(path, **options)
    assert refused.value.code == code, refused.value
    assert all(word in refused.value.message for word in words), refused.value


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        # The index of a data frame, which is no feature.
        (",a,b\n0,1,2\n1,3,4\n", "measure-unnamed", "column no. 1"),
        ('"";"a";"b"\n"1";1;2\n"2";3;4\n', "measure-unnamed", "column no. 1"),
        ("Unnamed: 0,a\n0,1\n1,3\n", "measure-unnamed", "column no. 1"),
        ("a,b,\n1,2,\n3,4,5\n", "measure-unnamed", "column no. 3"),
        # Names behind a mark of comments, and numbers below that count columns.
        ("#a,b\n1,2\n3,4\n", "file-unreadable", "file: {header: 1}"),
        ("## by me\n#a\tb\tc\n1\t2\t3\n4\t5\t6\n", "file-unreadable", "file: {header: 2}"),
        ("Export; Ward 3\nage;dose\n1;2\n3;4\n", "measure-dtype", "file: {header: 2}"),
        ("Report:;Ward\n\nage;dose;x\n1;2;3\n3;4;5\n", "file-unreadable", "file: {header: 3}"),
        (",,\na,b,c\n1,2,3\n", "file-unreadable", "file: {header: 2}"),
        ("a,b\n1,2,\n3,4,\n", "file-unreadable", "line 2 has 3 fields"),
        ("a b\n1 2\n3 4\n", "measure-dtype", "file: {separator: ' '}"),
        ('"a" "b"\n"1" 1 2\n', "file-unreadable", "file: {separator: ' '}"),
        ("\n\n\n", "file-unreadable", "empty"),
    ],
)
def test_what_is_no_feature_and_no_title_is_named_with_its_cure(
    text: str, code: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    _refused(path, code, words, "a.csv")
    if "{header: 2}" not in words:
        return
    read = load_measure(path, site=Site.of({"file": {"header": 2}}))
    assert read.points[0].tolist() == [1.0, 2.0, 3.0][: len(read.points[0])]


def test_a_cure_that_cures_nothing_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ("a,b\n1,2,\n3,4,\n", "a,b\n1,5,2,5\n", "a\n\n1\n"):
        path.write_text(text)
        with pytest.raises(SilotError) as refused:
            load_measure(path)
        assert "header" not in refused.value.message


def test_features_that_are_named_may_stand_beside_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",a,b\n7,1,2\n8,3,4\n")
    assert load_measure(path, columns=["a", "b"]).points.tolist() == ROWS
    schema = Schema.of({"columns": {n: {"kind": "number", "range": [0, 1]} for n in "ab"}})
    path.write_text("a,b,\n1,0,\n0,1,\n")
    assert load_measure(path).points.tolist() == [[1, 0], [0, 1]]
    assert load_measure(path, schema=schema).points.tolist() == [[1, 0], [0, 1]]


NUMBERS = Schema.of({"columns": {"a": {"kind": "number", "range": [0, 1e4], "weight": 1e4}}})
GERMAN = Site.of({"decimal": ",", "group": "."})


@pytest.mark.parametrize("of", ["frame", "sqlite", "xlsx"])
def test_numbers_among_texts_have_no_notation(of: str, tmp_path: Path) -> None:
    """A cell of a number is that number, and says nothing about the texts beside it."""
    values = ["1.234", 3.567, 2.5, "0,5"]

    def read(values: list[Any], schema: Schema | None, site: Site | None = None) -> Any:
        path = tmp_path / f"a.{of}"
        path.unlink(missing_ok=True)
        if of == "frame":
            assert schema is not None
            return read_by_schema(
                pandas.DataFrame({"a": values}, dtype=object), schema, site
            ).measure
        if of == "sqlite":
            base = sqlite3.connect(path)
            base.execute("CREATE TABLE t(a)")
            base.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
            base.commit()
            base.close()
        else:
            pytest.importorskip("python_calamine")
            book = pytest.importorskip("openpyxl").Workbook()
            for value in ["a", *values]:
                book.active.append([value])
            book.save(path)
        return load_measure(path, schema=schema, site=site)

    points = read(values, NUMBERS, GERMAN).points[:, 0]
    assert points.tolist() == pytest.approx([1234, 3.567, 2.5, 0.5], rel=1e-12)
    if of != "frame":
        with pytest.raises(SilotError, match="can be read as different numbers"):
            read(["1.234", 3.5], None)
        assert read(["1,5", 3.5], None).points.tolist() == [[1.5], [3.5]]
    if of == "xlsx":
        assert read([time(12, 30), time(1)], None).points.tolist() == [[12.5], [1.0]]


def _packed(values: list[float]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": values}).write_parquet(buffer)
    return gzip.compress(buffer.getvalue())


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet.gz"
    for values in ([1.0, 2.0], [7.0, 8.0, 9.0]):
        path.write_bytes(_packed(values))
        assert load_measure(path).points[:, 0].tolist() == values


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
def test_a_pipe_is_read_once_and_another_of_its_name_anew(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    for number in (1.0, 7.0):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        text = f"a,b\n{number},2\n"
        writer = threading.Thread(target=path.write_text, args=(text,), daemon=True)
        writer.start()
        assert [load_measure(path).points[0, 0] for _ in range(2)] == [number] * 2
        writer.join()


def test_names_of_files_are_no_patterns(tmp_path: Path) -> None:
    for name in ("table[1]", "[a]*"):
        pl.DataFrame({"a": [1.0]}).write_parquet(tmp_path / f"{name}.parquet")
        pl.DataFrame({"a": [1.0]}).write_ipc(tmp_path / f"{name}.arrow")
        pl.DataFrame({"b": ["x"]}).write_parquet(tmp_path / "table1.parquet")
        for ending in ("parquet", "arrow"):
            assert load_measure(tmp_path / f"{name}.{ending}").columns == ("a",)


def test_parts_are_named_where_there_are_some(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    _refused(Path(f"{path}#Sheet2"), "file-part", "a.csv has no parts")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x#1.csv", "a,b\n1,2\n3,4\n")
        archive.writestr("y.csv", "a,b\n5,6\n")
    assert load_measure(f"{tmp_path / 'a.zip'}#x#1.csv").points.tolist() == ROWS


def test_a_database_is_read_if_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE t(a, b, image)")
    base.executemany("INSERT INTO t VALUES (?, ?, x'00ff')", ROWS)
    base.commit()
    base.close()
    # A column of bytes is none that is asked for.
    assert load_measure(path, columns=["a", "b"]).points.tolist() == ROWS
    _refused(path, "measure-dtype", "'image'")
    journal = tmp_path / "a.sqlite-journal"
    journal.write_bytes(b"\0" * 512)
    assert load_measure(path, columns=["a", "b"]).points.tolist() == ROWS
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 504)
    _refused(path, "file-unreadable", "a.sqlite-journal")


def test_a_file_that_may_not_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")

    def refuse(*_: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    _refused(path, "file-unreadable", "no permission to read a.csv")


def test_a_gap_is_one_in_every_kind_of_column_and_weights_are_judged(tmp_path: Path) -> None:
    entry = {"kind": "category", "categories": ["x"], "other": True, "missing": "indicator"}
    path, points = tmp_path / "a.csv", []
    for gap in ("", "n/a", "N/A"):
        path.write_text(f"c;w\nx;1,5\n{gap};2\n")
        points.append(load_measure(path, schema=Schema.of({"columns": {"c": entry}})).points)
    assert all((one == points[0]).all() for one in points)
    schema = Schema.of({"columns": {"c": entry}, "weight": {"column": "w", "limit": 9}})
    path.write_text("c;w\nx;1,5\nx;2,5\n")
    problems = check_schema(path, schema).problems
    assert [(one.kind, one.column) for one in problems if one.refused] == [("unread", "w")]


def test_a_column_of_bytes_is_refused_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE t(a, picture)")
    base.execute("INSERT INTO t VALUES (1, x'00ff'), (2, x'01')")
    base.commit()
    base.close()
    _refused(path, "measure-dtype", "'picture'", "a.sqlite")
    assert load_measure(path, columns=["a"]).points.tolist() == [[1.0], [2.0]]
