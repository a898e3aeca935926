"""Data files as ``silot train distill`` reads them: texts stay texts, faults have codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot.distillation import LabelSpace
from silot.distillation.configuration import Columns, FileSource, read
from silot.errors import SilotError
from tests.lazily import package

pl = package("polars")

SPACE = LabelSpace.one_hot(["a", "b"])
TEXTS = Columns(text_column="text", label_column="y")


def refused(folder: Path, name: str, columns: Columns) -> str:
    with pytest.raises(SilotError) as caught:
        read(folder, FileSource(file=Path(name)), columns, SPACE)
    assert name in caught.value.message
    return caught.value.code


def test_texts_are_read_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,y\nNA,a\n7,b\n"null",a\n007,b\n')
    found = read(tmp_path, FileSource(file=Path("t.csv")), TEXTS, SPACE)
    assert list(found.inputs) == ["NA", "7", "null", "007"]
    assert found.truth.values.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("text,text,y\nx,z,a\n", "file-columns"),
        ("text\nx\n", "file-columns"),
        ("text,y\n", "measure-empty"),
        ("text,y\nx,\n", "labels-missing"),
        ("text,y\n,a\n", "text-missing"),
        ("text,y\nx,c\n", "labels-unknown"),
        ("text,y\nx,a,b\n", "file-unreadable"),
        ("", "file-empty"),
    ],
)
def test_tables_of_texts_that_are_none_have_a_code(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert refused(tmp_path, "t.csv", TEXTS) == code


@pytest.mark.heavy
@pytest.mark.parametrize(
    "column",
    [
        pl.Series("text", [[1], [2]]),
        pl.Series("text", [b"a", b"\xff"]),
        pl.Series("text", [{"k": 1}, {"k": 2}]),
    ],
    ids=lambda column: str(column.dtype).split("(")[0],
)
def test_columns_that_are_no_texts_have_a_code_or_are_read(
    tmp_path: Path, column: pl.Series
) -> None:
    pl.DataFrame([column, pl.Series("y", ["a", "b"])]).write_parquet(tmp_path / "t.parquet")
    try:
        found = read(tmp_path, FileSource(file=Path("t.parquet")), TEXTS, SPACE)
    except SilotError as error:
        assert error.code in ("measure-dtype", "text-missing")
    else:
        assert len(found.inputs) == 2


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"X": np.zeros((0, 2, 2)), "y": []}, "measure-empty"),
        ({"X": np.zeros((2, 2)), "y": ["a"]}, "labels-shape"),
        ({"X": np.zeros((2, 2))}, "labels-absent"),
        ({"X": np.array([[0.0, np.nan]]), "y": ["a"]}, "measure-nan"),
        ({"Z": np.zeros((2, 2))}, "file-columns"),
    ],
)
def test_archives_that_hold_no_records_have_a_code(
    tmp_path: Path, arrays: dict[str, Any], code: str
) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    assert refused(tmp_path, "t.npz", Columns()) == code


def test_images_are_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.arange(12.0).reshape(3, 2, 2), y=["a", "b", "a"])
    found = read(tmp_path, FileSource(file=Path("t.npz")), Columns(), SPACE)
    np.testing.assert_array_equal(found.inputs, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("more", ["9,0.5,2.0", "9,1e100,2", "true,0.25,1.0"])
def test_one_more_record_of_a_teacher_moves_no_other_to_another_part(
    tmp_path: Path, more: str
) -> None:
    pytest.importorskip("torch")
    from silot.distillation.building import split_records

    space = LabelSpace.one_hot(["0", "1", "2"])
    lines = [f"{k},{k + 1},{k % 3}" for k in range(30)]
    parts: list[set[tuple[int, bytes, int]]] = []
    for name, rows in (("without", lines), ("with", [*lines, more])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]))
        source = FileSource(file=Path(f"{name}.csv"))
        found = split_records(read(tmp_path, source, Columns(label_column="y"), space), 4)
        parts.append(
            {
                (place, np.asarray(record).tobytes(), int(code))
                for place, part in enumerate(found)
                for record, code in zip(part.inputs, part.truth.values, strict=True)
            }
        )
    assert parts[0] < parts[1] and len(parts[1]) == len(parts[0]) + 1
