"""``silot schema``: what its commands print, write and end with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from silot import Schema, load_measure
from tests.cli.running import within
from tests.lazily import package

pl = package("polars")

N = 120


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    for name, factor in (("north", 1.0), ("south", 18.0156)):
        pl.DataFrame({
            "patient": [f"{name}{k:03}" for k in range(N)],
            "age": rng.integers(20, 95, N),
            "glucose": (rng.normal(5.6, 0.7, N) * factor).round(2),
            "sex": rng.choice(["f", "m"], N),
            "ill": rng.choice(["sick", "well"], N),
        }).write_csv(folder / f"{name}.csv")  # fmt: skip
    silot(folder, "schema", "draft", "north.csv", "-o", "schema.yml", "--label", "ill")
    (folder / "site.yml").write_text("columns: {glucose: {unit: mg/dL}}")
    return folder


def silot(folder: Path, *words: str, status: int = 0) -> str:
    done = within(folder, *words)
    assert done.returncode == status, done.stdout + done.stderr
    assert not any(line.startswith("Traceback") for line in done.stderr.splitlines())
    return done.stdout or done.stderr


def test_a_draft_is_shown_in_eighty_columns_and_written(desk: Path) -> None:
    shown = silot(desk, "schema", "draft", "north.csv", "-o", "again.yml", "--label", "ill",
                  "--report", "draft.html")  # fmt: skip
    assert max(map(len, shown.splitlines())) <= 80
    assert "glucose.unit" in shown and "confirmed_by" in shown
    written = (desk / "again.yml").read_text()
    assert written.startswith("# A draft") and Schema.load(desk / "again.yml").classes
    assert "A draft of a schema" in (desk / "draft.html").read_text()
    told = json.loads(silot(desk, "schema", "draft", "north.csv", "--label", "ill", "--json"))
    assert Schema.of(told["schema"]).hash == Schema.load(desk / "again.yml").hash == told["hash"]


@pytest.mark.heavy
def test_a_check_ends_with_five_where_a_table_does_not_fit(desk: Path) -> None:
    silot(desk, "schema", "check", "north.csv", "--schema", "schema.yml")
    shown = silot(desk, "schema", "check", "south.csv", "--schema", "schema.yml",
                  "--report", "check.html", status=5)  # fmt: skip
    assert "mg/dL" in shown and max(map(len, shown.splitlines())) <= 80
    assert "does not fit" in (desk / "check.html").read_text()
    told = json.loads(
        silot(desk, "schema", "check", "south.csv", "--schema", "schema.yml", "--json", status=5)
    )
    assert not told["fits"] and told["problems"][0]["kind"] == "unit"
    silot(desk, "schema", "check", "south.csv", "--schema", "schema.yml", "--site", "site.yml")


@pytest.mark.heavy
def test_a_run_refuses_another_unit_by_its_code(desk: Path) -> None:
    words = ("distance", "north.csv", "south.csv", "--schema", "schema.yml")
    assert "[schema-unit] south.csv" in silot(desk, *words, status=3)
    silot(desk, *words, "--site", "south=site.yml")


@pytest.mark.heavy
def test_reports_and_json_change_nothing(desk: Path) -> None:
    words = ("schema", "check", "south.csv", "--schema", "schema.yml", "--json")
    plain = silot(desk, *words, status=5)
    assert silot(desk, *words, "--report", "r.html", status=5) == plain


def test_schemas_are_shown_and_compared(desk: Path) -> None:
    shown = silot(desk, "schema", "show", "schema.yml")
    schema = Schema.load(desk / "schema.yml")
    assert schema.hash in shown and max(map(len, shown.splitlines())) <= 80
    assert json.loads(silot(desk, "schema", "show", "schema.yml", "--json"))["hash"] == schema.hash
    body = schema.body()
    body["columns"]["age"]["range"] = [0, 110]
    Schema.of(body).save(desk / "other.json")
    silot(desk, "schema", "diff", "schema.yml", "schema.yml")
    shown = silot(desk, "schema", "diff", "schema.yml", "other.json", status=5)
    assert "age" in shown and "110" in shown and "glucose" not in shown
    told = json.loads(silot(desk, "schema", "diff", "schema.yml", "other.json", "--json", status=5))
    assert told == {"same": False, "differing": ["age"]}


def test_the_json_schema_takes_what_a_draft_writes(desk: Path) -> None:
    form = json.loads(silot(desk, "schema", "json"))
    assert set(form["properties"]) == set(Schema.model_fields)


def test_coordinates_are_written_with_their_schema(desk: Path) -> None:
    silot(desk, "schema", "apply", "north.csv", "--schema", "schema.yml", "-o", "north.npz")
    schema = Schema.load(desk / "schema.yml")
    again, table = (load_measure(desk / n, schema=schema) for n in ("north.npz", "north.csv"))
    np.testing.assert_array_equal(again.points, table.points)
    pl.read_csv(desk / "north.csv").drop("ill").write_csv(desk / "public.csv")
    words = ("schema", "apply", "public.csv", "--schema", "schema.yml", "-o", "public.npz")
    assert "schema-columns" in silot(desk, *words, status=3)
    silot(desk, *words, "--public")


def test_three_commands_lead_from_raw_files_to_a_distance(desk: Path) -> None:
    sugar = (pl.col("glucose") * 18.0156).round(1).cast(pl.String)
    table = pl.read_csv(desk / "north.csv").with_columns(
        glucose=sugar.str.replace(".", ",", literal=True),
        sex=pl.col("sex").replace({"f": "weiblich", "m": "männlich"}),
    )
    table = table.rename({"age": "Age (years)", "ill": "ILL"})
    table.write_csv(desk / "other.csv", separator=";")
    draft = ("schema", "draft", "north.csv", "other.csv", "--label", "ill")
    shown = silot(desk, *draft, "-o", "two.yml")
    assert "site file of other in two.other.site.yml" in shown
    confirm, distance = (line.split() for line in shown.splitlines()[-2:])
    words = ("schema", "confirm", "two.yml", "two.other.site.yml", "--by")
    assert confirm[1:6] == [*words]
    assert "site-unconfirmed" in silot(desk, *distance[1:], status=3)
    # All files are confirmed, or none.
    assert "file-missing" in silot(desk, *words[:3], "none.site.yml", "--by", "A", status=4)
    assert Schema.load(desk / "two.yml").warning
    silot(desk, *words, "A. Name")
    assert 0 <= json.loads(silot(desk, *distance[1:], "--json"))["value"] < 1e-3
    check = ("schema", "check", "other.csv", "--schema", "two.yml")
    silot(desk, *check, "--site", "two.other.site.yml")
    cure = silot(desk, *check, status=5)
    assert "unit: mg/dL" in cure and "weiblich: f" in cure
    body = json.loads(silot(desk, *draft, "--json"))
    assert "from: Age (years)" in body["sites"]["other"]["site"]


def test_nothing_is_written_over_what_is_read(desk: Path) -> None:
    words = ("schema", "draft", "north.csv", "-o", "north.csv")
    assert "file-twice" in silot(desk, *words, status=4)
