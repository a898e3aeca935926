"""Site files that are drafted: planted differences are proposed, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import silot
from silot import Schema, check_schema, draft_schema, load_measure
from silot.data import Draft, Site
from silot.data.column_kinds import Date
from silot.data.drafts.result import SiteDraft
from silot.errors import InputError
from tests.lazily import package
from tests.tiers import examples

pl = package("polars")

N = 150
RNG = np.random.default_rng(0)
DAYS = np.datetime64("2020-01-01") + RNG.integers(0, 700, N)
TRUE: dict[str, list[Any]] = {
    "age": RNG.integers(18, 90, N).tolist(),
    "weight": RNG.normal(75, 12, N).round(1).tolist(),
    "glucose": RNG.lognormal(1.75, 0.2, N).round(2).tolist(),
    "dose": RNG.normal(50, 9, N).round(1).tolist(),
    "sex": RNG.choice(["male", "female"], N, p=[0.6, 0.4]).tolist(),
    "smoker": RNG.choice(["yes", "no"], N, p=[0.3, 0.7]).tolist(),
    "race": RNG.choice(["White", "Black", "Asian"], N, p=[0.5, 0.3, 0.2]).tolist(),
    "visit": [str(day) for day in DAYS],
}


def file(path: Path, columns: Mapping[str, list[Any]], mark: str = ",") -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [columns, *rows]
    path.write_text("".join(mark.join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


def entries(site: SiteDraft) -> dict[str, Any]:
    return {f"{name}.{e.key}": e.value for name, parts in site.entries.items() for e in parts}


def drafted(tmp_path: Path, mark: str = ",", **changed: Any) -> Draft:
    """Draft of the true table, and of one with other columns: ``x=("X", values)`` renames one."""
    other: dict[str, list[Any]] = {}
    for name, values in TRUE.items():
        called, texts = changed.get(name, (name, values))
        other[called] = texts
    return draft_schema(
        file(tmp_path / "a.csv", TRUE), file(tmp_path / "b.csv", other, mark), label="smoker"
    )


def test_a_table_that_is_written_alike_needs_no_site_file(tmp_path: Path) -> None:
    draft = drafted(tmp_path)
    assert [entries(site) for site in draft.sites] == [{}, {}]
    assert draft.save(tmp_path / "trial.yml") == {}
    assert draft.schema == draft_schema(tmp_path / "a.csv", label="smoker").schema


WEIGHT, GLUCOSE = np.array(TRUE["weight"]), np.array(TRUE["glucose"])


@pytest.mark.parametrize(
    ("column", "called", "values", "expected"),
    [
        ("weight", "WEIGHT", TRUE["weight"], {"from": "WEIGHT"}),
        ("weight", "weight_kg", TRUE["weight"], {"from": "weight_kg"}),
        ("weight", "Weight (lb)", (WEIGHT * 2.2046).round(1).tolist(),
         {"from": "Weight (lb)", "unit": "[lb_av]"}),
        ("weight", "weight", (WEIGHT * 2.2046).round(1).tolist(), {"unit": "[lb_av]"}),
        ("glucose", "glucose", (GLUCOSE * 18.0156).round(1).tolist(), {"unit": "mg/dL"}),
        ("age", "age", [12 * age for age in TRUE["age"]], {"unit": "mo"}),
        ("dose", "dose", [*TRUE["dose"][:-6], *[-999] * 6], {"sentinels": [-999]}),
        ("dose", "dose", [*TRUE["dose"][:-6], *["unk"] * 6], {"sentinels": ["unk"]}),
        ("sex", "sex", [text.upper() for text in TRUE["sex"]],
         {"codes": {"MALE": "male", "FEMALE": "female"}}),
        ("sex", "sex", [{"male": "männlich", "female": "weiblich"}[t] for t in TRUE["sex"]],
         {"codes": {"männlich": "male", "weiblich": "female"}}),
        ("smoker", "smoker", [{"yes": "ja", "no": "nein"}[t] for t in TRUE["smoker"]],
         {"codes": {"ja": "yes", "nein": "no"}}),
        ("smoker", "smoker", [{"yes": 1, "no": 0}[t] for t in TRUE["smoker"]],
         {"codes": {"1": "yes", "0": "no"}}),
        ("race", "race", [text[:2] for text in TRUE["race"]],
         {"codes": {"Wh": "White", "Bl": "Black", "As": "Asian"}}),
        ("visit", "visit", [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in TRUE["visit"]],
         {"format": "%d.%m.%Y"}),
        ("visit", "visit", [f"{d[5:7]}/{d[8:]}/{d[:4]}" for d in TRUE["visit"]],
         {"format": "%m/%d/%Y"}),
    ],
)  # fmt: skip
def test_a_planted_difference_is_proposed_and_nothing_else(
    tmp_path: Path, column: str, called: str, values: list[Any], expected: dict[str, Any]
) -> None:
    draft = drafted(tmp_path, **{column: (called, values)})
    site = draft.sites[1]
    assert entries(site) == {f"{column}.{key}": value for key, value in expected.items()}
    assert site.drafted == [f"{column}.{key}" for key in expected]
    assert not [problem for problem in site.problems if problem.refused]


@pytest.mark.parametrize("factor", [0.001, 0.01, 0.1, 10.0, 100.0, 1000.0])
def test_a_power_of_ten_is_proposed_in_both_directions(tmp_path: Path, factor: float) -> None:
    # Most columns are skewed: a tenth of them is no spread below the lower quartile.
    bunch: Any = load_breast_cancer()
    names = [str(name) for name in bunch.feature_names if "error" not in name]
    rows = np.random.default_rng(0).permutation(len(bunch.data))
    kept = [k for k, name in enumerate(bunch.feature_names) if "error" not in name]
    parts = [bunch.data[rows[:150]][:, kept], bunch.data[rows[150:300]][:, kept]]
    parts[1] = parts[1] * factor
    files = [
        file(tmp_path / f"{name}.csv", dict(zip(names, part.T.tolist(), strict=True)))
        for name, part in zip("ab", parts, strict=True)
    ]
    found = entries(draft_schema(*files).sites[1])
    right = {f"{name}.factor": pytest.approx(1 / factor) for name in names}
    # Those with zeros have no logarithm, and the widest ones reach as far in one unit.
    wide = {f"{part} {what}.factor" for part in ("mean", "worst") for what in
            ("concavity", "concave points")}  # fmt: skip
    assert {name: found.get(name) for name in right.keys() - wide} == {
        name: value for name, value in right.items() if name not in wide
    }
    assert all(found[name] == right[name] for name in wide & found.keys())
    assert found.keys() <= right.keys()


@pytest.mark.parametrize(
    "numbers",
    [
        (RNG.lognormal(4.0, 1.6, 300)), (RNG.normal(0.0, 1.0, 300)), (RNG.normal(0.3, 1.0, 300)),
        (RNG.exponential(9.0, 300) * (RNG.random(300) < 0.6)), (RNG.poisson(1.5, 300)),
    ],
    ids=["wide", "around zero", "near zero", "with zeros", "counts"],
)  # fmt: skip
def test_no_power_of_ten_is_proposed_by_accident(tmp_path: Path, numbers: Any) -> None:
    paths = [
        file(tmp_path / f"{name}.csv", {"x": part.round(3).tolist(), "weight": TRUE["weight"]})
        for name, part in (("a", numbers[:N]), ("b", numbers[N:]))
    ]
    assert entries(draft_schema(*paths).sites[1]) == {}
    # Nor where one site has larger or smaller numbers.
    for k, factor in enumerate((0.5, 2.0)):
        other = {"x": (factor * numbers[N:]).round(3).tolist(), "weight": TRUE["weight"]}
        path = file(tmp_path / f"c{k}.csv", other)
        assert entries(draft_schema(paths[0], path).sites[1]) == {}


def test_a_logarithm_keeps_its_range_above_zero(tmp_path: Path) -> None:
    crp = RNG.lognormal(1.2, 1.5, N)
    files = [
        file(tmp_path / f"{name}.csv", {"crp": (part * crp).tolist(), "y": TRUE["weight"]})
        for name, part in (("a", 1.0), ("b", 0.003))
    ]
    crp_part: Any = draft_schema(*files).schema.columns["crp"]
    assert crp_part.transform == "log" and crp_part.range[0] > 0


def test_codes_that_shares_alone_suggest_are_refused_until_a_person_edits_them(
    tmp_path: Path,
) -> None:
    draft = drafted(tmp_path, sex=("sex", [{"male": 1, "female": 2}[t] for t in TRUE["sex"]]))
    assert entries(draft.sites[1]) == {"sex.codes": {"1": "EDIT male", "2": "EDIT female"}}
    files = draft.save(tmp_path / "trial.yml")
    text = files["b"].read_text()
    assert "60 %" in text or "61 %" in text or "59 %" in text or "by shares" in text
    with pytest.raises(InputError) as caught:
        Site.confirmed(files["b"], "A. Name")
    assert caught.value.code == "site-invalid" and "EDIT" in caught.value.message
    files["b"].write_text(text.replace("EDIT male", "male").replace("EDIT female", "female"))
    files["b"].write_text(Site.confirmed(files["b"], "A. Name"))
    both = [load_measure(tmp_path / "a.csv", schema=draft.schema),
            load_measure(tmp_path / "b.csv", schema=draft.schema, site=files["b"])]  # fmt: skip
    np.testing.assert_array_equal(both[0].points, both[1].points)


def test_no_table_is_read_by_a_site_file_that_nobody_confirmed(tmp_path: Path) -> None:
    draft = drafted(tmp_path, weight=("WEIGHT", TRUE["weight"]))
    files = draft.save(tmp_path / "trial.yml")
    assert [path.name for path in files.values()] == ["trial.b.site.yml"]
    text = files["b"].read_text()
    with pytest.raises(InputError) as caught:
        load_measure(tmp_path / "b.csv", schema=draft.schema, site=files["b"])
    assert caught.value.code == "site-unconfirmed"
    assert f'silot schema confirm {files["b"]} --by "YOUR NAME"' in caught.value.message
    with pytest.raises(InputError, match="nobody has confirmed"):
        draft.schema.measure(pl.read_csv(tmp_path / "b.csv"), site=draft.sites[1].site)
    # It may be tried, to see whether it fits.
    assert check_schema(tmp_path / "b.csv", draft.schema, site=files["b"]).fits
    confirmed = Site.confirmed(files["b"], 'A. "Name": yes')
    # The same fields; what a draft says of itself is gone.
    fields = text[text.index("silot: site") :].rstrip().replace("Confirm or edit: ", "")
    assert confirmed.startswith(fields)
    files["b"].write_text(confirmed)
    assert Site.load(files["b"]).confirmed_by == 'A. "Name": yes'
    # Another name takes the line of the first.
    assert Site.confirmed(files["b"], "B") == confirmed.replace('"A. \\"Name\\": yes"', '"B"')
    assert load_measure(tmp_path / "b.csv", schema=draft.schema, site=files["b"]).size == N


def test_a_schema_is_confirmed_in_its_file_and_stays_what_it_was(tmp_path: Path) -> None:
    draft = drafted(tmp_path)
    draft.save(tmp_path / "trial.yml")
    (tmp_path / "trial.yml").write_text(Schema.confirmed(tmp_path / "trial.yml", "A. Name"))
    schema = Schema.load(tmp_path / "trial.yml")
    assert (schema.hash, schema.confirmed_by) == (draft.schema.hash, "A. Name")
    assert draft.schema.warning and not schema.warning
    # What a draft says of itself is gone.
    assert (tmp_path / "trial.yml").read_text().startswith("silot: schema\n")
    schema.save(tmp_path / "t.json")
    for path, by, words in (
        (tmp_path / "trial.yml", " ", "Give your own"),
        (tmp_path / "trial.yml", "YOUR NAME", "Give your own"),
        (tmp_path / "t.json", "A", "no name can be written"),
    ):
        with pytest.raises(InputError, match=words):
            Schema.confirmed(path, by)


def test_the_same_records_written_otherwise_are_at_distance_zero(tmp_path: Path) -> None:
    other = {
        "VISIT": [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in TRUE["visit"]],
        "Sex": [{"male": "M", "female": "W"}[t] for t in TRUE["sex"]],
        "smoker": [{"yes": "ja", "no": "nein"}[t] for t in TRUE["smoker"]],
        "race": [text.lower() for text in TRUE["race"]],
        **{name: [str(v).replace(".", ",") for v in TRUE[name]] for name in ("dose", "weight")},
        "glucose_mmol": [str(v).replace(".", ",") for v in TRUE["glucose"]],
        "age": [12 * age for age in TRUE["age"]],
    }
    a, b = file(tmp_path / "a.csv", TRUE), file(tmp_path / "b.csv", other, ";")
    draft = draft_schema(a, b, label="smoker")
    files = draft.save(tmp_path / "trial.yml")
    files["b"].write_text(Site.confirmed(files["b"], "A. Name"))
    x, y = (
        load_measure(a, schema=draft.schema),
        load_measure(b, schema=draft.schema, site=files["b"]),
    )
    place = x.columns.index("age")  # type: ignore[union-attr]
    np.testing.assert_allclose(x.points[:, place], y.points[:, place], rtol=1e-14)
    np.testing.assert_array_equal(np.delete(x.points, place, 1), np.delete(y.points, place, 1))
    assert x.names.tolist() == y.names.tolist()  # type: ignore[union-attr]
    assert silot.distance(x, y).value < 1e-9


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10_000), tilt=st.sampled_from([0.0, 1.0, 2.0]))
def test_of_two_samples_of_one_table_nothing_is_proposed(
    tmp_path_factory: pytest.TempPathFactory, seed: int, tilt: float
) -> None:
    rng = np.random.default_rng(seed)
    old, male = np.argsort(np.argsort(TRUE["age"])) / N, np.array(TRUE["sex"]) == "male"
    weights = [np.exp(sign * tilt * (old + male)) for sign in (-1, 1)]
    rows = [rng.choice(N, 120, p=w / w.sum()) for w in weights]
    parts = [{name: [v[k] for k in some] for name, v in TRUE.items()} for some in rows]
    folder = tmp_path_factory.mktemp("null")
    draft = draft_schema(*(file(folder / f"{n}.csv", p) for n, p in zip("ab", parts, strict=True)))
    assert [entries(site) for site in draft.sites] == [{}, {}]


@pytest.mark.parametrize("years", [-10, 20, 36])
def test_another_population_is_no_other_unit(tmp_path: Path, years: int) -> None:
    draft = drafted(
        tmp_path, age=("age", [age + years for age in TRUE["age"]]),
        weight=("weight", (WEIGHT + years).tolist()),
    )  # fmt: skip
    assert entries(draft.sites[1]) == {}


def test_a_name_that_says_its_unit_is_believed(tmp_path: Path) -> None:
    heavy = {"weight_kg": (2.2 * WEIGHT).round(1).tolist(), "y": TRUE["age"]}
    light = {"weight_kg": TRUE["weight"], "y": TRUE["age"]}
    draft = draft_schema(file(tmp_path / "a.csv", light), file(tmp_path / "b.csv", heavy))
    assert entries(draft.sites[1]) == {}


def test_names_are_matched_one_to_one_or_not_at_all(tmp_path: Path) -> None:
    columns = {"dose": TRUE["dose"], "age": TRUE["age"]}
    a = file(tmp_path / "a.csv", columns)
    two = {"Dose": TRUE["dose"], "DOSE": TRUE["dose"], "age": TRUE["age"]}
    draft = draft_schema(a, file(tmp_path / "b.csv", two))
    assert entries(draft.sites[1]) == {}
    assert [p.kind for p in draft.sites[1].problems if p.refused] == ["absent"]


def test_a_new_category_is_no_recoding_of_one_that_is_there(tmp_path: Path) -> None:
    blood = RNG.choice(["A", "B", "0"], N).tolist()
    other = [*blood[:-20], *["AB"] * 20]
    a = file(tmp_path / "a.csv", {"blood": blood, "age": TRUE["age"]})
    draft = draft_schema(a, file(tmp_path / "b.csv", {"blood": other, "age": TRUE["age"]}))
    assert entries(draft.sites[1]) == {}
    # The schema takes it, or the table could not be read; a rare one it takes as other.
    assert draft.schema.body()["columns"]["blood"]["categories"] == ["0", "A", "AB", "B"]
    rare = [*blood[:-5], *["AB"] * 5]
    draft = draft_schema(a, file(tmp_path / "c.csv", {"blood": rare, "age": TRUE["age"]}))
    assert "blood.other" in draft.schema.read_off
    assert not [p for p in draft.sites[1].problems if p.refused]


def test_what_another_table_needs_is_entered_in_the_schema(tmp_path: Path) -> None:
    ages = [*[f"{age}.5" for age in TRUE["age"][:-5]], *[""] * 5]
    draft = drafted(tmp_path, age=("age", ages))
    age: Any = draft.schema.columns["age"]
    assert (age.kind, age.missing) == ("number", "indicator")
    assert {"age.kind", "age.missing"} <= {*draft.schema.read_off}
    assert load_measure(tmp_path / "b.csv", schema=draft.schema).size == N


def test_what_a_later_table_needs_refuses_no_earlier_one(tmp_path: Path) -> None:
    # Of four numbers beyond the range one looks like a code; once the range is wider, of one.
    numbers = {name: RNG.integers(0, 50, N) for name in "abc"}
    numbers["b"][:4] = [99, 52, 53, 54]
    numbers["c"][:30] = RNG.integers(50, 80, 30)
    paths = [
        file(tmp_path / f"{name}.csv", {"x": list(values), "y": TRUE["weight"]})
        for name, values in numbers.items()
    ]
    draft = draft_schema(paths[0], *paths[1:])
    assert [problem for site in draft.sites for problem in site.problems if problem.refused] == []


def test_a_table_of_other_years_is_read(tmp_path: Path) -> None:
    years = {"a": 2020, "b": 2023, "c": 2018}
    visits = {
        name: (np.datetime64(f"{year}-01-01") + RNG.integers(0, 360, N)).astype(str).tolist()
        for name, year in years.items()
    }
    # No day of anybody: it is refused as before.
    visits["c"][0] = "1900-01-01"
    paths = [
        file(tmp_path / f"{name}.csv", {"visit": days, "weight": TRUE["weight"]})
        for name, days in visits.items()
    ]
    draft = draft_schema(paths[0], *paths[1:])
    visit = draft.schema.used["visit"]
    assert isinstance(visit, Date) and [day.year for day in visit.range] == [2018, 2024]
    refused = [[p.kind for p in site.problems if p.refused] for site in draft.sites]
    assert refused == [[], [], ["sentinel"]]


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError) as caught:
        draft_schema(file(tmp_path / "a.csv", TRUE), file(tmp_path / "x" / "a.csv", TRUE))
    assert caught.value.code == "schema-options"


def test_a_site_file_quotes_no_rare_value(tmp_path: Path) -> None:
    race = [*[text.upper() for text in TRUE["race"][:-3]], "Inuit", "Inuit", "Sami"]
    draft = drafted(tmp_path, race=("race", race), dose=("dose", [*TRUE["dose"][:-1], "hemolysed"]))
    text = draft.to_json() + draft.sites[1].text()
    assert not any(word in text for word in ("Inuit", "Sami", "hemolysed"))


# The check.


def test_a_check_says_what_to_paste_and_with_it_the_table_fits(tmp_path: Path) -> None:
    draft = drafted(
        tmp_path, mark=";", weight=("Weight (lb)", (WEIGHT * 2.2046).round(1).tolist()),
        sex=("sex", [text[0] for text in TRUE["sex"]]),
        visit=("visit", [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in TRUE["visit"]]),
        dose=("dose", [*[str(v).replace(".", ",") for v in TRUE["dose"][:-8]], *["-9"] * 8]),
        smoker=("smoker", [{"yes": "ja", "no": "nein"}[t] for t in TRUE["smoker"]]),
    )  # fmt: skip
    check = check_schema(tmp_path / "b.csv", draft.schema)
    assert not check.fits and check.to_dict()["site"] == check.cure
    site = Site.of(yaml.safe_load(check.cure))
    assert site.columns["weight"].source == "Weight (lb)" and site.columns["dose"].sentinels
    assert check_schema(tmp_path / "b.csv", draft.schema, site=site).fits
    # What a site file says already is not proposed again, and stays where something is added.
    half = Site.of({**yaml.safe_load(check.cure), "columns": {
        **yaml.safe_load(check.cure)["columns"], "sex": {"codes": {"m": "male"}},
    }})  # fmt: skip
    more = yaml.safe_load(check_schema(tmp_path / "b.csv", draft.schema, site=half).cure)
    assert more == {"columns": {"sex": {"codes": {"m": "male", "f": "female"}}}}
    assert check_schema(tmp_path / "b.csv", draft.schema, site=site).cure == ""
    assert check_schema(tmp_path / "a.csv", draft.schema).cure == ""


@pytest.mark.parametrize(("count", "expected"), [(0, False), (60, True)])
def test_a_few_numbers_in_another_unit_are_noticed_within_the_range(
    count: int, expected: bool
) -> None:
    for seed in range(5):
        weight = 75 * np.exp(0.16 * np.random.default_rng(seed).normal(size=535))
        weight[:count] = (2.2046 * weight[:count]).clip(max=250)
        frame = pl.DataFrame({"weight": weight.round(1), "y": range(535)})
        schema = Schema.of({"columns": {"weight": {"kind": "number", "unit": "kg",
                                                   "range": [0.2, 700]}}})  # fmt: skip
        said = [p for p in check_schema(frame, schema).problems if p.kind == "unit"]
        assert bool(said) == expected and not any(p.refused for p in said)
        notes = draft_schema(frame.rename({"weight": "weight_kg"})).notes
        assert any("[lb_av]" in note.sentence for note in notes) == expected


def test_a_heavy_tail_is_no_other_unit() -> None:
    schema = Schema.of({"columns": {"weight": {"kind": "number", "unit": "kg",
                                               "range": [0.01, 90_000]}}})  # fmt: skip
    for seed in range(5):
        rng = np.random.default_rng(seed)
        frame = pl.DataFrame({"weight": 75 * np.exp(rng.laplace(0, 0.2, 4000))})
        assert not [p for p in check_schema(frame, schema).problems if p.kind == "unit"]
