"""Schemas: what is one, when two are the same, and what coordinates they give."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import silot
from silot import Measure, Schema, check_schema, load_measure
from silot.data import Site
from silot.errors import InputError
from tests.lazily import package

pl = package("polars")

WARD: dict[str, Any] = {
    "name": "ward",
    "columns": {
        "patient": {"kind": "identifier"},
        "age": {"kind": "number", "unit": "a", "range": [0, 100]},
        "dose": {"kind": "number", "range": [1, 100], "transform": "log"},
        "ill": {"kind": "yes/no"},
        "sex": {"kind": "category", "categories": ["f", "m"]},
        "stage": {"kind": "ordered", "categories": ["I", "II", "III"]},
        "day": {"kind": "date", "range": ["2024-01-01", "2024-01-11"]},
        "hour": {"kind": "number", "range": [0, 24], "period": 24},
    },
}
FRAME = pl.DataFrame(
    {
        "hour": [0.0, 12.0],
        "day": ["2024-01-06", "2024-01-11"],
        "stage": ["II", "III"],
        "sex": ["f", "m"],
        "ill": ["yes", "No"],
        "dose": [10.0, 100.0],
        "age": [50, 25],
    }
)


def changed(column: str, **entries: Any) -> dict[str, Any]:
    return {**WARD, "columns": {**WARD["columns"], column: {**WARD["columns"][column], **entries}}}


def read(column: dict[str, Any], *values: Any) -> np.ndarray:
    schema = Schema.of({"columns": {"x": column}})
    return schema.measure(pl.DataFrame({"x": list(values)})).points


def test_coordinates_of_every_kind() -> None:
    half = 1.0 / np.sqrt(2.0)
    measure = Schema.of(WARD).measure(FRAME)
    assert measure.columns == (
        "age", "dose", "ill", "sex=f", "sex=m", "stage", "day", "hour (cos)", "hour (sin)",
    )  # fmt: skip
    expected = [
        [0.5, 0.5, 1.0, half, 0.0, 0.5, 0.5, 0.5, 0.0],
        [0.25, 1.0, 0.0, 0.0, half, 1.0, 1.0, -0.5, 0.0],
    ]
    np.testing.assert_allclose(measure.points, expected, atol=1e-15)


def test_another_category_and_the_other_end_of_a_circle_are_one_weight_away() -> None:
    sexes = read({"kind": "category", "categories": ["f", "m"], "weight": 3.0}, "f", "m")
    assert np.linalg.norm(sexes[0] - sexes[1]) == pytest.approx(3.0)
    hours = read({"kind": "number", "range": [0, 24], "period": 24, "weight": 3.0}, 3.0, 15.0)
    assert np.linalg.norm(hours[0] - hours[1]) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("period", "equal"),
    [
        ("year", ("2023-03-01", "2025-03-01")),
        ("week", ("2024-01-01", "2024-02-05")),
        ("day", ("2024-01-01T06:00", "2024-02-05T06:00")),
    ],
)
def test_days_of_a_circle_come_again(period: str, equal: tuple[str, str]) -> None:
    column = {"kind": "date", "range": ["2020-01-01", "2026-01-01"], "period": period}
    points = read(column, *equal)
    np.testing.assert_allclose(points[0], points[1], atol=1e-12)


def test_ranks_by_public_quantiles_are_shares_of_the_law_below() -> None:
    column = {"kind": "number", "transform": "rank", "quantiles": [0, 1, 10, 1000]}
    found = read(column, 0.0, 0.5, 1.0, 505.0, 1000.0)[:, 0]
    np.testing.assert_allclose(found, [0, 1 / 6, 1 / 3, 5 / 6, 1])


def test_missing_values_have_a_coordinate_or_a_public_value() -> None:
    column = {"kind": "number", "range": [0, 10]}
    assert read({**column, "missing": "indicator"}, 2.0, None).tolist() == [[0.2, 0.0], [0.5, 1.0]]
    assert read({**column, "missing": {"value": 3}}, 2.0, None).tolist() == [[0.2], [0.3]]
    with pytest.raises(InputError, match="'x': 1 of 2") as caught:
        read(column, 2.0, None)
    assert caught.value.code == "schema-fit"


def test_sentinels_are_missing_values_as_numbers_and_as_texts() -> None:
    column = {
        "kind": "number", "range": [0, 10], "sentinels": [-999, "unk"], "missing": {"value": 1},
    }  # fmt: skip
    assert read(column, -999.0, 2.0).tolist() == [[0.1], [0.2]]
    assert read(column, "-999.0", "unk", "2").tolist() == [[0.1], [0.1], [0.2]]


def test_all_records_lie_in_the_box_and_the_ball() -> None:
    schema = Schema.of(WARD)
    points = schema.measure(FRAME).points
    assert ((schema.low <= points + 1e-12) & (points <= schema.high + 1e-12)).all()
    middle = 0.5 * (schema.low + schema.high)
    assert (np.linalg.norm(points - middle, axis=1) <= schema.radius).all()


def test_a_schema_that_was_written_is_the_same(tmp_path: Path) -> None:
    schema = Schema.of(WARD)
    for name in ("s.yml", "s.json"):
        schema.save(tmp_path / name)
        again = Schema.load(tmp_path / name)
        assert again == schema
        assert again.hash == schema.hash
    assert Schema.of(json.loads(json.dumps(schema.body()))) == schema


def test_the_hash_is_of_what_decides_coordinates_alone() -> None:
    schema = Schema.of(WARD)
    same = [
        changed("age", about="in whole years"),
        changed("age", typical=[40, 50, 60]),
        changed("age", range=[0.0, 100.0]),
        {**WARD, "name": "other"},
        {**WARD, "confirmed_by": "somebody", "read_off": ["age.range"]},
    ]
    assert {Schema.of(body).hash for body in same} == {schema.hash}
    other = {
        "age": changed("age", range=[0, 101]),
        "sex": changed("sex", categories=["m", "f"]),
        "day": changed("day", period="week"),
        "label": {**WARD, "label": {"column": "y", "classes": ["a"]}},
        "weight": {**WARD, "weight": {"column": "w", "limit": 2}},
        "order of columns": {**WARD, "columns": dict(reversed(list(WARD["columns"].items())))},
    }
    for name, body in other.items():
        assert Schema.of(body).hash != schema.hash
        assert schema.differing(Schema.of(body)) == [name]


def test_what_was_read_off_data_is_said_until_somebody_confirms_it() -> None:
    body = {**WARD, "read_off": ["age.range", "sex.categories"]}
    assert "age.range, sex.categories" in Schema.of(body).warning
    assert Schema.of({**body, "confirmed_by": "the registry's office"}).warning == ""
    assert Schema.of(WARD).warning == ""


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"columns": {}}, "columns"),
        ({"columns": {"x": {"kind": "text"}}}, "left out"),
        (changed("age", range=[3, 3]), "range"),
        (changed("age", range=[0, float("inf")]), "range"),
        (changed("age", weight=0), "weight"),
        (changed("age", unknown=1), "unknown"),
        (changed("age", missing={"value": 101}), "missing"),
        (changed("age", missing={"value": "x"}), "missing"),
        (changed("age", missing="drop"), "missing"),
        (changed("dose", range=[0, 1]), "logarithm"),
        (changed("sex", categories=["f", "f"]), "categories"),
        (changed("sex", categories=["f", True]), "quotes"),
        (changed("sex", categories=[1, 1.0]), "categories"),
        (changed("stage", missing={"value": "IV"}), "missing"),
        (changed("day", range=["2024-01-01", "soon"]), "range"),
        ({**WARD, "label": {"column": "age", "classes": ["a"]}}, "label"),
        ({**WARD, "version": 2}, "version"),
        ({**WARD, "columns": {**WARD["columns"], "sex=f": {"kind": "yes/no"}}}, "sex=f"),
        ([], "mapping"),
    ],
)
def test_what_is_no_schema_is_said_with_its_place(body: Any, place: str) -> None:
    with pytest.raises(InputError, match=place) as caught:
        Schema.of(body)
    assert caught.value.code == "schema-invalid"


def test_a_file_that_is_no_schema_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.yml").write_text("columns: {age: {kind: numbr, range: [0, 1]}}")
    with pytest.raises(InputError, match=r"s\.yml.*age.*identifier") as caught:
        Schema.load(tmp_path / "s.yml")
    assert caught.value.code == "schema-invalid"


def test_a_measure_keeps_its_schema() -> None:
    import copy
    import pickle

    schema = Schema.of(WARD)
    measure = schema.measure(FRAME)
    assert measure.schema is schema
    assert copy.deepcopy(measure).schema == schema
    again = pickle.loads(pickle.dumps(measure))
    assert isinstance(again, Measure)
    assert again.schema == schema
    assert measure.ordered(tuple(reversed(schema.features))).schema is schema


def test_yes_and_no_are_names_of_fields_as_yaml_writes_them(tmp_path: Path) -> None:
    text = "columns: {smoker: {kind: yes/no, yes: [ja], no: [nein]}}"
    (tmp_path / "s.yml").write_text(text)
    schema = Schema.load(tmp_path / "s.yml")
    frame = pl.DataFrame({"smoker": ["ja", "nein", "ja"]})
    assert schema.measure(frame).points.ravel().tolist() == [1.0, 0.0, 1.0]


def test_a_field_that_a_site_file_has_not_is_told_beside_those_it_has(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("label: {from: Dx}")
    with pytest.raises(InputError, match="there are silot, columns, decimal") as caught:
        Site.load(tmp_path / "site.yml")
    assert caught.value.code == "site-invalid"


def test_a_schema_and_a_site_file_are_given_by_their_paths_too(tmp_path: Path) -> None:
    schema = Schema.of({"columns": {"age": {"kind": "number", "range": [0, 100]}}})
    site = {"columns": {"age": {"from": "Alter"}}}
    schema.save(tmp_path / "s.yml")
    (tmp_path / "site.json").write_text(json.dumps(site))
    (tmp_path / "north.csv").write_text("Alter\n10\n50\n")
    frame = pl.DataFrame({"Alter": [10, 50]})
    expected = [0.1, 0.5]
    files = {"schema": tmp_path / "s.yml", "site": str(tmp_path / "site.json")}
    objects = {"schema": schema, "site": Site.of(site)}
    for given in (files, objects):
        found = load_measure(tmp_path / "north.csv", **given)  # type: ignore[arg-type]
        assert found.points.ravel().tolist() == expected
        assert check_schema(frame, **given).fits  # type: ignore[arg-type]
    assert schema.measure(frame, files["site"]).points.ravel().tolist() == expected
    with pytest.raises(InputError, match="of type int") as caught:
        load_measure(tmp_path / "north.csv", schema=3)  # type: ignore[arg-type]
    assert caught.value.code == "schema-invalid"


def test_effects_and_histograms_are_in_the_units_of_the_columns() -> None:
    schema = Schema.of(
        {
            "columns": {
                "weight": {"kind": "number", "range": [30, 130], "weight": 2.0},
                "pulse": {"kind": "number", "range": [40, 140], "spread": 10.0},
                "crp": {"kind": "number", "range": [1, 100], "transform": "log"},
                "ward": {"kind": "category", "categories": ["a", "b"]},
                "ill": {"kind": "yes/no"},
            }
        }
    )
    rng = np.random.default_rng(0)

    def ward(n: int, more: float) -> silot.Measure:
        frame = pd.DataFrame(
            {
                "weight": rng.normal(80 + 2 * more, 8, n),
                "pulse": rng.normal(80 + more, 8, n),
                "crp": np.exp(rng.normal(2, 0.5, n)),
                "ward": np.where(rng.random(n) < 0.5 + more / 40, "a", "b"),
                "ill": np.where(rng.random(n) < 0.2 + more / 40, "yes", "no"),
            }
        )
        return schema.measure(frame)

    verdict = silot.distance(ward(800, 0.0), ward(800, 10.0)).test
    assert verdict is not None
    for name, shift, room in (
        ("weight", 20.0, 2.0), ("pulse", 10.0, 2.0), ("ward=a", 0.25, 0.1), ("ill", 0.25, 0.1),
        ("crp", 0.0, 0.05),
    ):  # fmt: skip
        assert abs(verdict[name].shift - shift) < room, (name, verdict[name])
    edges = next(item.edges for item in verdict.histograms if item.name == "weight")
    assert 45 < edges[0] < 70 and 105 < edges[-1] < 130
