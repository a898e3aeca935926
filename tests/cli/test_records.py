"""What a steward gets to act on: every suspect record, called as its holder calls it."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from silot.cli.app import app
from silot.data.names import canonical
from silot.errors import SilotError
from silot.federation import Transcript
from tests.lazily import package

pl = package("polars")

COLUMNS = ("glucose", "blood pressure, systolic", "age", "bmi")
CLASSES = np.array(["healthy", "sick", "very ill, treated"])
HOSTILE = (
    "=1+1",
    "",
    "<script>alert(1)</script>",
    "p-4",
    "p-4",
    '@a,"q"\nb',
    "\x1b[31mred",
    "東京",
)
LONG = "x" * 253 + ".csv"
OPTIONS = ("--labels", "--label-column", "diagnosis", "--id-column", "patient")


def drawn(seed: int, size: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=size)
    points = rng.normal(size=(size, 4))
    points[:, :3] += 4.0 * np.eye(3)[codes]
    return points, codes


def write(path: Path, points: Any, labels: Any, identifiers: Any = None) -> None:
    columns: dict[str, Any] = {name: points[:, k] for k, name in enumerate(COLUMNS)}
    if identifiers is not None:
        columns = {"patient": list(identifiers), **columns}
    frame = pl.DataFrame({**columns, "diagnosis": list(map(str, labels))})
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ward with wrong labels, broken columns, copies and a class of its own; trusted records."""
    place = tmp_path_factory.mktemp("wards")
    points, codes = drawn(0, 300)
    labels = CLASSES[codes].astype(object)
    labels[:12] = CLASSES[(codes[:12] + 1) % 3]
    points[20:60, 3] += 30.0
    points[70], labels[70] = points[69], labels[69]
    labels[80] = "sikc"
    identifiers = [*HOSTILE, *(f"p-{k}" for k in range(len(HOSTILE), 300))]
    write(place / "ward.csv", points, labels, identifiers)
    write(place / "ward.parquet", points, labels, identifiers)
    write(place / "bare.csv", points, labels)
    for name, seed in (("good", 1), ("clean", 2)):
        other, kinds = drawn(seed, 300)
        write(place / f"{name}.csv", other, CLASSES[kinds])
        # The trusted side may call its records something too.
        write(place / f"{name}-named.csv", other, CLASSES[kinds], [f"v{k}" for k in range(300)])
        np.savez(place / f"{name}.npz", X=other, y=CLASSES[kinds])
    return place


def invoke(folder: Path, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(folder: Path, *arguments: str) -> str:
    with pytest.raises(SilotError) as caught:
        invoke(folder, *arguments)
    return caught.value.code


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.heavy
@pytest.mark.parametrize("ward", ["ward.csv", "ward.parquet"])
def test_a_list_has_every_suspect_record_with_its_name_and_why(
    folder: Path, tmp_path: Path, ward: str
) -> None:
    path = tmp_path / "flagged.csv"
    arguments = ("records", ward, "--validation", "good.csv", *OPTIONS, "--sheet", str(path))
    told = json.loads(invoke(folder, *arguments, "--json"))
    rows = rows_of(path)
    named = {int(row["record"]): row for row in rows}
    assert {k for k, row in named.items() if row["flagged"] == "yes"} == set(told["flagged"])
    copies = [k for k, origin in enumerate(told["screening"]["copy_of"]) if origin >= 0]
    head = np.argsort(-np.array(told["scores"]), kind="stable")[:10].tolist()
    assert set(named) == {*told["flagged"], *copies, *head, 80}
    assert [float(row["score"]) for row in rows] == sorted(
        (float(row["score"]) for row in rows), reverse=True
    )
    for k in sorted(set(named) - set(range(len(HOSTILE)))):
        assert named[k]["identifier"] == f"p-{k}"
    assert named[70]["kind"] == "copy" and named[70]["copy_of_identifier"] == "p-69"
    assert named[80]["kind"] == "unknown label" and named[80]["label"] == "sikc"
    assert named[80]["suggested_label"] in CLASSES
    points, _ = drawn(0, 300)
    good, kinds = drawn(1, 300)
    broken = [row for row in rows if "features" in row["kind"]]
    assert {int(row["record"]) for row in broken} >= set(range(20, 60))
    for row in broken:
        if int(row["record"]) in range(20, 60):
            nearest, value = int(row["nearest_good"]), points[int(row["record"]), 3] + 30.0
            low, high = np.quantile(good[:, 3], [0.01, 0.99])
            told_ = f"bmi {value:.6g} ({low:.4g} to {high:.4g} expected"
            assert row["columns"].startswith(told_) and "times usual" in row["columns"]
            assert row["nearest_good_label"] == CLASSES[kinds[nearest]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_cell_of_a_list_is_a_formula(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "flagged.csv"
    invoke(
        folder, "records", "ward.csv", "--validation", "good.csv", *OPTIONS, "--sheet", str(path)
    )
    named = {int(row["record"]): row["identifier"] for row in rows_of(path)}
    expected = {k: text for k, text in enumerate(HOSTILE) if k in named}
    assert len(expected) > 5
    for k, text in expected.items():
        assert named[k] == (f"'{text}" if text[:1] in ("=", "@") else text)


@pytest.mark.heavy
def test_names_of_records_are_no_feature_and_are_told_to_nobody(
    folder: Path, tmp_path: Path
) -> None:
    plain = ("--labels", "--label-column", "diagnosis")
    scores, sizes = [], []
    for k, (ward, good, options) in enumerate(
        (
            ("bare.csv", "good.csv", plain),
            ("ward.csv", "good.csv", OPTIONS),
            ("ward.csv", "good-named.csv", OPTIONS),
            ("ward.csv", "good.npz", OPTIONS),
        )
    ):
        run = tmp_path / f"{k}.transcript"
        arguments = ("records", ward, "--validation", good, *options, "--transcript", str(run))
        scores.append(json.loads(invoke(folder, *arguments, "--json"))["scores"])
        if good != "good.npz":
            entries = Transcript.load(run).entries
            assert not any("p-10" in repr(entry.open()) for entry in entries)
            sizes.append([len(repr(entry.open())) for entry in entries])
    assert scores[0] == scores[1] == scores[2]
    assert scores[3] == scores[0]


@pytest.mark.heavy
def test_the_terminal_says_what_the_result_says_within_80_columns(folder: Path) -> None:
    arguments = ("records", "ward.csv", "--validation", "good.csv", *OPTIONS)
    shown = invoke(folder, *arguments)
    told = json.loads(invoke(folder, *arguments, "--json"))
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in shown
    # After the chart.
    head = [line.split() for line in lines].index(["record", "identifier", "score", "kind", "why"])
    lines = lines[head:]
    # One line a record.
    assert [int(line.split()[0]) for line in lines[1:11]] == [
        k for k in np.argsort(-np.array(told["scores"]), kind="stable") if k in told["flagged"]
    ][:10]
    words = " ".join(shown.split())
    assert f"{len(told['flagged'])} of 300 flagged (" in words
    assert ("; about " in words and "copy; 1 unknown label" in words) or "copies; 1" in words
    assert " expected" in shown


@pytest.mark.heavy
def test_of_a_clean_holder_the_most_suspect_are_listed_and_not_flagged(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "none.csv"
    shown = invoke(
        folder, "records", "clean.npz", "--validation", "good.npz", "--labels", "--fdr", "0",
        "--sheet", str(path), "--report", str(tmp_path / "r.html"),
    )  # fmt: skip
    assert "0 of 300 flagged; about" in " ".join(shown.split())
    rows = rows_of(path)
    assert len(rows) == 10 and {row["flagged"] for row in rows} == {"no"}
    assert path.read_text().splitlines()[0] == (
        "record,score,flagged,precision_so_far,kind,label,suggested_label,columns,copy_of,"
        "nearest_good,nearest_good_label"
    )


def test_a_workbook_has_the_rows_of_the_list_and_no_formula(folder: Path, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    arguments = ("records", "ward.csv", "--validation", "good.csv", *OPTIONS, "--sheet")
    for name in ("a.csv", "a.xlsx"):
        invoke(folder, *arguments, str(tmp_path / name))
    cells = list(openpyxl.load_workbook(tmp_path / "a.xlsx").active.iter_rows(values_only=True))
    rows = rows_of(tmp_path / "a.csv")
    assert list(cells[0]) == list(rows[0]) and len(cells) == len(rows) + 1
    place = cells[0].index("identifier")
    # Control characters are escaped in workbooks.
    texts = [(row[place] or "").replace("_x001B_", "\x1b") for row in cells[1:]]
    assert texts == [row["identifier"].removeprefix("'") for row in rows]
    assert all(cell.data_type != "f" for line in
               openpyxl.load_workbook(tmp_path / "a.xlsx").active for cell in line)  # fmt: skip


@pytest.mark.heavy
def test_a_holder_that_differs_as_a_whole_has_no_flags_and_the_status_says_so(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "all.csv"
    np.savez(folder / "far.npz", X=drawn(3, 60)[0] * 50.0 + 1e4)
    np.savez(folder / "one.npz", X=drawn(3, 60)[0][:, :1])
    np.savez(folder / "one-good.npz", X=drawn(4, 50)[0][:, :1])
    arguments = ("--sheet", str(path), "--report", str(tmp_path / "r.html"), "--json")
    found = json.loads(invoke(folder, "records", "far.npz", "--validation", "good.npz", *arguments))
    # The most suspect are listed still, and all of them may be faulty.
    assert not found["flagged"] and len(rows_of(path)) == 10
    assert "as a whole differ" in found["status"]
    assert found["screening"]["broken"]["all"]["high"] == 60.0
    assert "column 0 " in path.read_text() and "nan" not in path.read_text()
    # 50 records of one column are enough for a level of .1.
    json.loads(invoke(folder, "records", "one.npz", "--validation", "one-good.npz", *arguments))


@pytest.mark.heavy
def test_the_published_method_has_a_list_and_a_report_too(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "flagged.csv"
    shown = invoke(
        folder, "records", "ward.csv", "--validation", "good.csv", *OPTIONS, "-m", "published",
        "--sheet", str(path), "--report", str(tmp_path / "r.html"), "--t", "0.3",
    )  # fmt: skip
    rows = rows_of(path)
    assert list(rows[0]) == ["record", "identifier", "score", "flagged"]
    assert f"{len(rows)} of 300 flagged" in shown and "broken (" not in shown


@pytest.mark.heavy
def test_a_list_of_several_holders_names_them(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "flagged.csv"
    arguments = ("value", "ward.csv", "clean-named.csv", "--validation", "good.csv", *OPTIONS)
    shown = invoke(
        folder, *arguments, "--records", "--sheet", str(path), "--report", str(tmp_path / "r.html")
    )
    rows = rows_of(path)
    assert next(iter(rows[0])) == "holder"
    assert {row["identifier"][0] for row in rows if row["holder"] == "clean-named"} <= {"v"}
    assert sum(row["holder"] == "ward" for row in rows) >= 50
    flat = " ".join(shown.split())
    assert "ward 5" in flat and "of 300 flagged (" in flat and f"list in {path}" in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("bare.csv", "--validation", "good-named.csv", *OPTIONS), "file-columns"),
        (("good.npz", "--validation", "good-named.csv", *OPTIONS), "file-columns"),
        (("ward.csv", "--validation", "good.csv", *OPTIONS[:-1], "pateint"), "file-columns"),
        (("good.npz", "--validation", "clean.npz", "--id-column", "y"), "option-unknown"),
        (
            ("ward.csv", "--validation", "good.csv", "--label-column", "patient",
             "--id-column", "patient"),
            "option-columns",
        ),
        (
            ("ward.csv", "--validation", "good.csv", "--columns", "age,glucose",
             "--id-column", "glucose"),
            "option-columns",
        ),
        (("clean.npz", "--validation", "good.npz", "--sheet", "no/f.csv"), "file-unwritable"),
        (("clean.npz", "--validation", "good.npz", "--sheet", "taken.csv"), "file-unwritable"),
        (("clean.npz", "--validation", "good.npz", "--sheet", LONG), "file-unwritable"),
        (("clean.npz", "--validation", "good.npz", "--sheet", "f.pdf"), "file-kind"),
        (("ward.csv", "--validation", "good.csv", "--sheet", "ward.csv"), "file-twice"),
        (("ward.csv", "--validation", "good.csv", "--sheet", "./good.csv"), "file-twice"),
        (("clean.npz", "--validation", "good.npz", "--fdr", "1"), "option-fdr"),
        (("clean.npz", "--validation", "good.npz", "--fdr", "0.01"), "validation-few"),
        (("clean.npz", "--validation", "good.npz", "--t", "0.5"), "option-unknown"),
        (
            ("clean.npz", "--validation", "good.npz", "-m", "published", "--fdr", "0.1"),
            "option-unknown",
        ),
    ],
)  # fmt: skip
def test_wrong_use_is_a_code_and_nothing_is_written(
    folder: Path, arguments: tuple[str, ...], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "taken.csv").mkdir(exist_ok=True)
    before = sorted(folder.iterdir())
    if code != "validation-few":
        monkeypatch.setattr("silot.federation.LocalFederation.exchange", None)
    assert refused(folder, "records", *arguments) == code
    assert sorted(folder.iterdir()) == before


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ward = 1 [b]", "=ward", "東京", "-w'ard\"", "<b>w", "w\nd"])
def test_names_of_files_are_text_and_nothing_else(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.csv").write_bytes((folder / "ward.csv").read_bytes())
    arguments = ("value", str(tmp_path / f"{name}.csv"), "--validation", "good.csv", *OPTIONS)
    path = tmp_path / "out [a] =.csv"
    shown = invoke(folder, *arguments, "--records", "--sheet", str(path))
    holder = rows_of(path)[0]["holder"]
    assert holder.removeprefix("'") == canonical(name) and holder[0] not in "=-"
    assert max(map(len, shown.splitlines()[:-1])) <= 80 and str(path) in shown


@pytest.mark.heavy
def test_a_list_and_a_report_change_nothing_that_is_told(folder: Path, tmp_path: Path) -> None:
    arguments = ("records", "ward.csv", "--validation", "good.csv", *OPTIONS, "--json")
    outputs = ("--sheet", str(tmp_path / "f.csv"), "--report", str(tmp_path / "r.html"))
    told, messages = [], []
    for k, more in enumerate(((), outputs)):
        run = tmp_path / f"{k}.transcript"
        found = json.loads(invoke(folder, *arguments, *more, "--transcript", str(run)))
        told.append({name: found[name] for name in ("scores", "flagged", "disclosure", "rounds")})
        messages.append([repr(entry.open()) for entry in Transcript.load(run).entries])
    assert told[0] == told[1] and messages[0] == messages[1]
    assert "NaN" not in json.dumps(told) and "Infinity" not in json.dumps(told)


@pytest.mark.heavy
def test_the_report_of_records_calls_them_as_their_holder_does(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "r.html"
    arguments = ("records", "ward.csv", "--validation", "good.csv", *OPTIONS)
    invoke(folder, *arguments, "--report", str(path), "--sheet", str(tmp_path / "f.csv"))
    text = path.read_text()
    rows = rows_of(tmp_path / "f.csv")
    assert text.count("<tr data-kinds=") == len(rows)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "<script>alert" not in text
    assert "\x1b" not in text and "This report contains raw records." in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.heavy
def test_a_private_count_has_a_list_for_the_holder_alone(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    path = tmp_path / "flagged.csv"
    shown = invoke(
        folder, "records", "ward.csv", "--validation", "good.csv", *OPTIONS, "-m", "private",
        "--public", "clean-named.csv", "--epsilon", "8", "--sheet", str(path),
        "--report", str(tmp_path / "r.html"),
    )  # fmt: skip
    rows = {int(row["record"]): row for row in rows_of(path)}
    assert {row["identifier"] for k, row in rows.items() if k > 8} <= {f"p-{k}" for k in range(300)}
    public, kinds = drawn(2, 300)
    broken = [k for k in range(20, 60) if k in rows]
    assert len(broken) >= 30
    for k in broken:
        nearest = int(rows[k]["nearest_good"])
        low, high = np.quantile(public[:, 3], [0.01, 0.99])
        assert f"({low:.4g} to {high:.4g} expected" in rows[k]["columns"]
        assert rows[k]["nearest_good_label"] == CLASSES[kinds[nearest]]
    assert f"list for ward alone in {path}" in shown and "p-3" not in shown
