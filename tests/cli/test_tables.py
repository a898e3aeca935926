"""Commands that read raw tables by a schema: the example's five hospitals."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from examples import hospitals
from silot.cli.app import app
from silot.errors import SilotError

SITES = [f"--site={name}={name}.site.yml" for name in hospitals.SITES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    hospitals.main(made, most=250)
    return made / "hospitals"


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--schema", "ward.yml"])


def told(*arguments: str) -> dict[str, Any]:
    done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(*arguments: str) -> str:
    error = invoke(*arguments).exception
    assert isinstance(error, SilotError)
    return str(error)


def test_hospitals_rank_as_they_were_drawn_whatever_they_write() -> None:
    names = [f"{name}.csv" for name in hospitals.HOSPITALS]
    body = told("value", *names, "--validation", "../coordinator/validation.csv", *SITES)
    ranks = sorted(body["holders"], key=lambda item: item["distance"]["value"])
    assert {item["holder"] for item in ranks[:2]} == {"north", "south"}
    assert [item["holder"] for item in ranks[2:]] == ["east", "west", "coast"]


def test_a_hospital_with_another_unit_is_refused_by_the_name_of_the_column() -> None:
    text = refused("distance", "matrix", "north.csv", "east.csv")
    assert "east.csv" in text
    assert "'glucose': multiplied by 18.02 they would fit" in text
    assert "'sex'" in text


def test_what_distances_are_made_of_is_told_by_column() -> None:
    body = told("distance", "north.csv", "south.csv", "--why")
    names = "admitted age sex ward stage smoker glucose creatinine sbp"
    assert list(body["parts"]["columns"]) == names.split()
    assert sum(body["parts"]["columns"].values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_sketches_read_public_records_by_the_schema() -> None:
    body = told(
        "distance", "north.csv", "south.csv", "--method", "sketch", "--public", "public.csv"
    )
    assert body["disclosure"] == "private"


def test_what_is_cut_or_left_out_is_said_beside_the_result() -> None:
    done = invoke("distance", "north.csv", "south.csv")
    assert "north.csv: Column 'creatinine'" in done.stderr
    assert "have no value: an extra 0/1 feature says so" in done.stderr


def test_column_options_are_the_schemas() -> None:
    assert "schema-options" in refused("distance", "north.csv", "south.csv", "--columns", "age")
    done = CliRunner().invoke(
        app, ["distance", "north.csv", "south.csv", "--site", "east.site.yml"]
    )
    assert "schema-options" in str(done.exception)


def test_a_site_file_for_a_table_that_is_not_there_is_refused() -> None:
    """Nothing would be read by it, and what is found would look proven."""
    said = refused("distance", "north.csv", "east.csv", "--site", "easst=east.site.yml")
    assert "schema-options" in said and "'easst'" in said
    # Neither words of the command line nor the site file itself are tables.
    for words in ("direct=east.site.yml", "north=east.site.yml"):
        named = ["distance", "south.csv", "east.csv", "--method", "direct", "--site", words]
        assert "schema-options" in refused(*named)
    missing = refused("distance", "north.csv", "eest.csv", "--site", "eest=east.site.yml")
    assert "eest.csv does not exist" in missing
    both = told("distance", "north.csv", "east.csv", "--site", "east=east.site.yml")
    assert both["converged"]


def test_columns_are_named_as_the_table_names_them(tmp_path: Path) -> None:
    names = ["age", "weight, kg", "BMI"]
    lines = ['age,"weight, kg",BMI ', *(f"{k},{k * k},{-k}" for k in range(20))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "b.csv").write_text("\n".join(lines[:15]))
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for given in (' age , "weight, kg",BMI ', 'age,"weight, kg", BMI '):
        done = CliRunner().invoke(
            app, ["distance", *files, "--why", "--json", "--columns", given], catch_exceptions=False
        )
        assert set(json.loads(done.stdout)["parts"]["columns"]) == set(names)
    for given in ("", " ", "age\nBMI", 'age,"BMI', "bmi"):
        done = CliRunner().invoke(app, ["distance", *files, "--columns", given])
        assert "file-columns" in str(done.exception)


@pytest.mark.parametrize(
    "command",
    [
        ("distance", "north.csv", "south.csv", "--report"),
        ("distance", "matrix", "north.csv", "south.csv", "--report"),
        ("distance", "pooled", "north.csv", "--buyer", "south.csv", "--report"),
        ("value", "north.csv", "south.csv", "--report"),
        ("distance", "barycenter", "north.csv", "south.csv", "--report"),
        ("train", "coreset", "north.csv", "south.csv", "--size", "5", "--report"),
        ("records", "north.csv", "--validation", "south.csv", "--report"),
        ("release", "north.csv", "--ledger", "n.ledger", "--out"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_is_written_over_the_schema(command: tuple[str, ...]) -> None:
    before = Path("ward.yml").read_bytes()
    assert "file-twice" in refused(*command, "ward.yml")
    assert Path("ward.yml").read_bytes() == before


def test_a_release_is_not_written_over_the_key_that_signs_it() -> None:
    assert "file-twice" in refused(
        "release", "north.csv", "--ledger", "n.ledger", "-o", "north.key"
    )


def test_nothing_is_written_over_what_a_file_names(tmp_path: Path) -> None:
    """Files that are not on the command line: data of a distillation, evaluation records."""
    (tmp_path / "d.yml").write_text(
        "labels: {one_hot: true, names: ['0', '1']}\nglobal: {model: vectors, train: g.npz}\n"
        "teachers: {a: a.npz, b: {parameters: b.npz}}\ntransfer: t.npz\n"
    )
    for name in ("d.yml", "g.npz", "a.npz", "b.npz", "t.npz"):
        command = ["train", "distill", str(tmp_path / "d.yml"), "--report", str(tmp_path / name)]
        assert "file-twice" in str(CliRunner().invoke(app, command).exception), name
    for name in ("a.npz", "b.npz", "a.test.npz"):
        (tmp_path / name).write_bytes(b"")
    files = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    command = ["train", "adapt", *files, "--report", str(tmp_path / "a.test.npz")]
    assert "file-twice" in str(CliRunner().invoke(app, command).exception)
    assert not (tmp_path / "a.test.npz").read_bytes()


def test_names_on_the_command_line_are_those_of_files_and_columns(tmp_path: Path) -> None:
    """Some systems write the names of files with accents apart; people type dashes as they can."""
    names = [unicodedata.normalize(form, "M\u00fcller.csv") for form in ("NFD", "NFC")]
    for name, dash, label in zip(names, "\u2013-", ("covid\u201319", "covid-19"), strict=True):
        folder = tmp_path / dash
        folder.mkdir()
        rows = "".join(f"{label if k % 2 else 'well'},{k},{k * k}\n" for k in range(30))
        (folder / name).write_text(f"d{dash}x,a{dash}1,b\n{rows}")
    files = [str(tmp_path / dash / name) for name, dash in zip(names, "\u2013-", strict=True)]
    options = ["--labels", "--label-column", "d\u2212x", "--columns", "a\u20101, b ", "--json"]
    done = CliRunner().invoke(app, ["distance", *files, *options])
    assert done.exit_code == 0, done.output
    body = json.loads(done.stdout)
    assert body["value"] == 0.0 and "class" not in body["status"]
    (tmp_path / "s.yml").write_text("columns: {x: {kind: number, range: [0, 900]}}")
    (tmp_path / "site.yml").write_text("columns: {x: {from: b}}")
    (tmp_path / "other.csv").write_text("x\n" + "".join(f"{k * k}\n" for k in range(30)))
    words = ["--schema", str(tmp_path / "s.yml"), "--site", f"{names[1][:-4]}={tmp_path}/site.yml"]
    done = CliRunner().invoke(
        app, ["distance", files[0], str(tmp_path / "other.csv"), *words, "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["value"] == 0.0
