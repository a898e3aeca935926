"""Releases on the command line: two machines that share files alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from silot.cli.app import app
from silot.data.loading import save_measure
from silot.data.reading import Schema
from tests.lazily import package

pl = package("polars")

BODY = {
    "name": "wards",
    "columns": {
        "glucose": {"kind": "number", "range": [2, 30], "unit": "mmol/L"},
        "age": {"kind": "number", "range": [0, 110], "unit": "a"},
        "note": {"kind": "text"},
    },
    "label": {"column": "ill", "classes": ["yes", "no"]},
    "read_off": ["age.range"],
}


def ward(rng: np.random.Generator, n: int, shift: float) -> pl.DataFrame:
    return pl.DataFrame({
        "age": np.clip(rng.normal(60, 15, n), 0, 110), "ill": rng.choice(["yes", "no"], n),
        "glucose": np.clip(rng.normal(6 + shift, 1.5, n), 2, 30), "note": ["x"] * n,
    })  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    schema = Schema.of(BODY)
    schema.save(tmp_path / "schema.yml")
    for k, name in enumerate(("north", "south", "west")):
        ward(rng, 1500, 2.0 * k).write_csv(tmp_path / f"{name}.csv")
    public = ward(rng, 400, 1.0)
    public.write_csv(tmp_path / "public.csv")
    save_measure(tmp_path / "public.npz", schema.measure(public))
    ward(rng, 300, 0.0).write_csv(tmp_path / "mine.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def released(name: str, *more: str) -> str:
    words = ("--schema", "schema.yml", "--public", "public.npz", "--ledger", f"{name}.ledger")
    return call("release", f"{name}.csv", *words, "-o", f"{name}.release", *more)


@pytest.mark.slow
def test_from_tables_on_three_machines_to_a_ranking(desk: Path) -> None:
    for name in ("north", "south", "west"):
        assert "epsilon 1" in released(name)
    analyst = desk / "analyst"
    analyst.mkdir()
    for name in ("north", "south", "west"):
        shutil.copy(f"{name}.release", analyst)
    shutil.copy("public.csv", analyst)
    shutil.copy("mine.csv", analyst)
    files = [str(path) for path in sorted(analyst.glob("*.release"))]
    # The schema is in the releases: tables are read by it.
    told = call("release", "combine", *files, "--public", "analyst/public.csv", "--validation",
                "analyst/mine.csv", "--report", "out.html", "--json")  # fmt: skip
    body = json.loads(told)
    ranking = sorted(body["values"]["holders"], key=lambda item: item["rank"])
    assert [item["holder"] for item in ranking] == ["north", "south", "west"]
    assert len(body["matrix"]["pairs"]) == 6
    assert "read off" in body["status"] and "read off" in Path("out.html").read_text()
    text = call("release", "combine", *files, "--public", "analyst/public.csv")
    assert "north; south; west" in text and "compare fingerprints" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_show_tells_a_protection_officer_what_is_inside(desk: Path) -> None:
    released("north", "--labels", "--period", "2026-10", "--epsilon", "0.5", "--report", "r.html")
    text = call("release", "show", "north.release")
    flat = " ".join(text.split())
    for words in ("wards", "mmol/L", "2026-10", "no, yes", "read off", "No exact count",
                  "at most 62 % sure", "a signature does not show whose key it is"):  # fmt: skip
        assert words in flat, words
    assert max(map(len, text.splitlines())) <= 80
    assert json.loads(call("release", "show", "north.release", "--json"))["epsilon"] <= 0.5
    assert "What it does not contain" in Path("r.html").read_text()
    Path("keys").mkdir()
    shutil.copy("north.pub", "keys")
    assert "a trusted key of north" in call("release", "show", "north.release", "--keys", "keys")


def test_a_file_called_show_is_reached_by_its_path(desk: Path) -> None:
    shutil.copy("north.csv", "show.csv")
    assert "show.release" in call(
        "release", "./show.csv", "--schema", "schema.yml", "--ledger", "s.ledger", "-o",
        "show.release",
    )  # fmt: skip
    assert "Usage" in call("release", "--help")


def test_files_are_locked_for_a_reader(desk: Path) -> None:
    call("release", "keys", "reader")
    released("north", "--to", "reader.pub")
    assert b"wards" not in Path("north.release").read_bytes()
    assert "wards" in call("release", "show", "north.release", "--key", "reader.key")
    with pytest.raises(Exception, match="sealed-locked"):
        call("release", "show", "north.release")
    with pytest.raises(Exception, match="key-exists"):
        call("release", "keys", "reader")


def test_the_same_question_is_told_from_the_ledger(desk: Path) -> None:
    released("north")
    assert "about the records at that time" in " ".join(released("north").split())
    with pytest.raises(Exception, match="ledger-budget"):
        released("north", "--period", "2026-11")
    with pytest.raises(Exception, match="ledger-absent"):
        call("release", "north.csv", "--schema", "schema.yml")


def test_releases_without_a_schema_say_so_and_prove_no_order(desk: Path) -> None:
    for name in ("north", "mine"):
        pl.read_csv(f"{name}.csv").select("age", "glucose").write_csv(f"{name}.plain.csv")
    pl.read_csv("public.csv").select("age", "glucose").write_csv("public.plain.csv")
    for name in ("north", "mine"):
        call("release", f"{name}.plain.csv", "--public", "public.plain.csv", "--ledger",
             f"{name}.ledger", "-o", f"{name}.release")  # fmt: skip
    words = ["release", "combine", "north.release", "mine.release", "--public"]
    text = " ".join(call(*words, "public.plain.csv").split())
    # Estimates without bounds and without intervals.
    assert "with no bounds: estimates" in text and "certified bounds" not in text
    assert text.count(" 1-2 ") == 4
    with pytest.raises(Exception, match="schema-mismatch"):
        call(*words, "public.csv", "--schema", "schema.yml")
