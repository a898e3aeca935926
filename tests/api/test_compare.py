"""``silot.compare``: planted differences get the decision that they call for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.errors import SilotError
from silot.records.evidence import (
    Accuracy,
    Evidence,
    adjust,
    lacking_classes,
    shift_of,
    without_copies,
)
from silot.records.evidence import test as find_difference
from silot_transport import TwoSampleResult
from tests.cli.running import within
from tests.lazily import package

pl = package("polars")

Columns = dict[str, Any]


def patients(n: int, seed: int, *, older: float = 0.0) -> Columns:
    """Draw patients whose event depends on age, pressure and smoking."""
    rng = np.random.default_rng(seed)
    age = rng.normal(58 + older, 12, n).clip(20, 98)
    height = rng.normal(171, 9, n)
    weight = np.exp(rng.normal(np.log(26), 0.16, n)) * (height / 100) ** 2
    pressure = rng.normal(112 + 0.35 * age, 13, n)
    smoker = rng.random(n) < 0.25
    logit = 0.12 * (age - 58) + 0.05 * (pressure - 132) + 1.4 * smoker - 1.3
    event = rng.random(n) < 1 / (1 + np.exp(-1.5 * logit))
    return {
        "age": age.round(1), "height": height.round(1), "weight": weight.round(1),
        "sbp": pressure.round(0), "smoker": np.where(smoker, "yes", "no"),
        "event": np.where(event, "yes", "no"),
    }  # fmt: skip


def in_pounds(table: Columns) -> Columns:
    return table | {"weight": (table["weight"] * 2.20462).round(1)}


def in_whole_pounds(table: Columns) -> Columns:
    return table | {"weight": (table["weight"] * 2.20462).round(0)}


def in_metres(table: Columns) -> Columns:
    return table | {"height": (table["height"] / 100).round(3)}


def tenfold(table: Columns) -> Columns:
    return table | {"score": table["score"] * 10}


def some_pounds(table: Columns) -> Columns:
    weight = table["weight"].copy()
    weight[:30] = (weight[:30] * 2.20462).round(1)
    return table | {"weight": weight}


def few_events(table: Columns) -> Columns:
    rows = (table["event"] == "no") | (np.arange(len(table["event"])) % 4 == 0)
    return {name: values[rows] for name, values in table.items()}


def inverted(table: Columns) -> Columns:
    return table | {"event": np.where(table["event"] == "yes", "no", "yes")}


PLANTED: dict[str, tuple[Callable[[], Columns], list[str]]] = {
    "alike": (lambda: patients(400, 1), ["use"]),
    "pounds": (lambda: in_pounds(patients(500, 2)), ["convert", "use"]),
    "whole pounds": (lambda: in_whole_pounds(patients(500, 12)), ["convert", "use"]),
    "metres": (lambda: in_metres(patients(500, 3)), ["convert", "use"]),
    "mixed": (lambda: some_pounds(patients(500, 4)), ["clean", "use"]),
    "rare": (lambda: few_events(patients(900, 5)), ["ask"]),
    "older": (lambda: patients(500, 6, older=10.0), ["apart"]),
    "older pounds": (lambda: in_pounds(patients(500, 10, older=10.0)), ["convert", "apart"]),
    "inverted": (lambda: inverted(patients(900, 8)), ["exclude"]),
}


@cache
def planted() -> silot.api.SiteComparison:
    sites = {name: pl.DataFrame(draw()) for name, (draw, _) in PLANTED.items()}
    return silot.compare(sites, pl.DataFrame(patients(500, 0)), labels="event")


@pytest.mark.heavy
@pytest.mark.parametrize("site", PLANTED)
def test_what_was_planted_gets_the_steps_it_calls_for(site: str) -> None:
    item = planted()[site]
    verbs = [step.verb for step in item.steps]
    wanted = PLANTED[site][1]
    assert verbs[-1:] == wanted[-1:], (verbs, item.reason)
    # Flags of records may come beside what was planted, and nothing else may.
    assert [verb for verb in verbs if verb != "clean" or "clean" in wanted] == wanted


@pytest.mark.heavy
def test_the_evidence_is_about_what_was_planted() -> None:
    result = planted()
    assert result["pounds"].steps[0].object == "weight from lb to kg"
    assert result["older"].test.drivers[0] == "age"
    assert result["older"].group == result["older pounds"].group == 1
    faulty = result["mixed"].faulty
    assert faulty is not None and faulty.low <= 30 <= faulty.high
    # With site files unconfirmed, a person is asked to look at the units.
    assert set(result.sources.site_drafts) == {"pounds", "whole pounds", "metres", "older pounds"}
    order = [item.verb for item in result.decisions]
    assert order == sorted(order, key=("use", "ask", "apart", "exclude").index)
    for word in ("Use", "convert", "ask", "apart", "exclude"):
        assert word in result.verdict


def test_a_factor_that_no_unit_has_is_a_conversion_too() -> None:
    rng = np.random.default_rng(0)
    here, there, mine = (
        {"score": rng.normal(50, 5, 200), "x": rng.normal(size=200)} for _ in range(3)
    )
    result = silot.compare(
        {"a": pl.DataFrame(here), "b": pl.DataFrame(tenfold(there))}, pl.DataFrame(mine)
    )
    assert [step.verb for step in result["b"].steps] == ["convert", "use"]
    assert result["b"].steps[0].object == "score x 0.1"
    assert [step.verb for step in result["a"].steps] == ["use"]


def test_without_validation_data_the_largest_group_is_the_reference() -> None:
    x = np.random.default_rng(0).normal(size=(4, 80, 2))
    result = silot.compare({"a": x[0], "far": x[1] + 4.0, "b": x[2], "c": x[3]})
    assert result.groups[0] == ("a", "b", "c")
    assert {item.site: item.verb for item in result.decisions} == {
        "a": "use", "b": "use", "c": "use", "far": "apart",
    }  # fmt: skip


def test_the_first_table_is_not_the_reference_where_its_units_are_the_odd_ones() -> None:
    tables = {"lb": in_pounds(patients(120, 1))} | {f"kg{k}": patients(120, k) for k in (2, 3, 4)}
    result = silot.compare({name: pl.DataFrame(table) for name, table in tables.items()})
    converted = [item.site for item in result.decisions if item.steps[0].verb == "convert"]
    assert converted == ["lb"]


def test_adjusted_p_values_are_those_of_holm() -> None:
    def with_p(value: float) -> silot.transport.TwoSampleResult:
        result = silot.transport.TwoSampleResult.of_untestable("", 0.05, (1, 1))
        return replace(result, p_value=value)

    assert adjust([with_p(p) for p in (0.01, 0.04, 0.03)]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust([with_p(1.0)] * 2) == [1.0, 1.0]


def test_classes_that_lack_are_counted_where_shares_alone_differ() -> None:
    rng = np.random.default_rng(0)
    names = np.array(["a", "b"])

    def draw(counts: tuple[int, int], shift: float = 0.0) -> silot.Measure:
        codes = np.repeat([0, 1], counts)
        return silot.Measure(rng.normal(size=(sum(counts), 2)) + shift + codes[:, None],
                             labels=names[codes])  # fmt: skip

    reference = draw((200, 200))
    how = {"columns": None, "sites": 1, "seed": 0}
    # 300 to 100: 200 more of b bring both to 300.
    assert lacking_classes(draw((300, 100)), reference, **how) == (("b", 200),)
    assert lacking_classes(draw((300, 100), shift=1.0), reference, **how) == ()


def test_classes_that_lack_together_are_counted_together() -> None:
    rng = np.random.default_rng(0)
    names = np.array(["a", "b", "c"])

    def draw(*counts: int) -> silot.Measure:
        codes = np.repeat([0, 1, 2], counts)
        points = rng.normal(size=(sum(counts), 2)) + codes[:, None]
        return silot.Measure(points, labels=names[codes])

    reference = draw(150, 150, 300)
    how = {"columns": None, "sites": 1, "seed": 0}
    # 50, 50 and 300: 100 more of both bring their shares to a quarter.
    assert dict(lacking_classes(draw(50, 50, 300), reference, **how)) == {"a": 100, "b": 100}
    # Of a class that is not there at all nothing is compared.
    assert dict(lacking_classes(draw(150, 0, 300), reference, **how)) == {"b": 150}


def test_the_interval_of_the_largest_shift_allows_for_its_being_the_largest() -> None:
    how = {"labels": False, "columns": None, "sites": 1, "seed": 0}
    covered = 0
    for seed in range(40):
        x = np.random.default_rng(seed).normal(size=(2, 60, 30))
        site, reference = (silot.Measure(points) for points in x)
        shift = shift_of(find_difference(site, reference, **how), reference)
        assert shift is not None
        covered += shift[0].low <= 0 <= shift[0].high
    # Intervals of each column by itself miss 0 in most of these draws.
    assert covered >= 34


def test_copies_of_trusted_records_are_left_out() -> None:
    mine, others = pl.DataFrame(patients(120, 0)), pl.DataFrame(patients(120, 1))
    half = pl.concat([mine[:60], others[:60]])
    result = silot.compare({"copy": mine, "half": half}, mine)
    assert (result["copy"].verb, result["half"].verb) == ("exclude", "use")
    assert result["half"].test.sizes[1] == 60
    assert result["half"].notes[0].startswith("60 of 120 records equal a record of the reference")


@pytest.mark.parametrize("copied", [0, 60])
def test_records_that_are_equal_by_nature_are_no_copies(copied: int) -> None:
    rng = np.random.default_rng(0)
    # Of so few distinct records many are there several times.
    table = rng.normal(size=(1_000, 4))[rng.integers(1_000, size=12_000)]
    how: dict[str, Any] = {"labels": False, "columns": None, "sites": 1}
    untested = TwoSampleResult.of_untestable("", 0.05, (0, 0))
    different = copies = 0
    for seed in range(40):
        rows = table[rng.permutation(len(table))[:300]]
        reference, own = rows[:170], rows[170:]
        own[:copied] = reference[:copied]
        start = Evidence(
            site="a", delivered=silot.Measure(own), kept=silot.Measure(own), test=untested
        )
        item, others = without_copies(start, silot.Measure(reference), seed)
        copies += item.copies > 0
        different += find_difference(item.kept, others, seed=seed, **how).p_value <= 0.05
    # As often as the level says, whether records leave or not.
    assert different <= 5
    assert copies >= 38 if copied else copies <= 1


@pytest.mark.heavy
def test_records_that_were_entered_twice_count_once() -> None:
    mine, west = patients(200, 0), patients(150, 1)
    rows = np.concatenate([np.arange(150), np.arange(40)])
    twice = {name: values[rows] for name, values in west.items()}
    result = silot.compare({"west": pl.DataFrame(twice)}, pl.DataFrame(mine))
    once = silot.compare({"west": pl.DataFrame(west)}, pl.DataFrame(mine))
    assert [(step.verb, step.object) for step in result["west"].steps] == [
        ("clean", "40 repeated records"), ("use", ""),
    ]  # fmt: skip
    assert result["west"].test.p_value == once["west"].test.p_value
    assert "repeats: drop" in result.sources.site_drafts["west"].text()
    # Of yes/no and few categories records are equal by nature.
    common = {name: np.round(values, -1) if values.dtype.kind == "f" else values
              for name, values in twice.items() if name in ("age", "smoker", "event")}  # fmt: skip
    trusted = {name: np.round(values, -1) if values.dtype.kind == "f" else values
               for name, values in mine.items() if name in common}  # fmt: skip
    result = silot.compare({"west": pl.DataFrame(common)}, pl.DataFrame(trusted))
    assert all(step.verb != "clean" for step in result["west"].steps)


def test_what_stands_for_a_missing_number_is_no_value() -> None:
    def some(table: Columns, every: int) -> Any:
        gone = pl.int_range(300) % every == 0
        return pl.DataFrame(table).with_columns(
            age=pl.when(gone).then(None).otherwise(pl.col("age"))
        )

    mine = some(patients(300, 0), 12)
    alike, gaps = some(patients(300, 1), 12), some(patients(300, 2), 3)
    result = silot.compare({"alike": alike, "gaps": gaps}, mine)
    assert result["alike"].verb == "use"
    # Ages that are there are alike, and what stands for the others is none.
    assert result["gaps"].test.drivers == ("missing values of 'age'",)
    of = "100 of 300 records, and in 25 of 300 of the validation data"
    assert result["gaps"].notes[0] == f"age: no value in {of}"
    assert not any(note.startswith("age: no value") for note in result["alike"].notes)


def test_rare_categories_are_those_of_all_tables() -> None:
    # By the trusted table's alone, what is rare there would be other, and seem rarer than it is.
    def ward(counts: dict[str, int], seed: int) -> Any:
        names = [name for name, n in counts.items() for _ in range(n)]
        return pl.DataFrame({"ward": names, "age": patients(len(names), seed)["age"]})

    mine = ward({"heart": 60, "lung": 60, "kidney": 8, "skin": 2}, 0)
    west = ward({"heart": 60, "lung": 60, "kidney": 4, "skin": 3, "Heart": 12}, 1)
    codes = ward({"H": 60, "L": 60, "K": 12}, 2)
    result = silot.compare({"west": west, "codes": codes}, mine)
    draft = result.sources.draft
    assert draft is not None
    assert draft.schema.body()["columns"]["ward"]["categories"] == ["heart", "kidney", "lung"]


def test_records_without_a_label_are_left_out() -> None:
    table = pl.DataFrame(patients(300, 1))
    some = table.with_columns(event=pl.when(pl.int_range(300) % 6 > 0).then(pl.col("event")))
    result = silot.compare({"some": some}, pl.DataFrame(patients(300, 0)), labels="event")
    assert result["some"].test.sizes[1] == 250
    assert result["some"].notes[0] == "50 of 300 records have no label, and are left out here"
    assert "none" not in result["some"].reason


def test_a_column_is_read_as_all_tables_need_it() -> None:
    def with_visits(n: int, seed: int, most: int) -> Any:
        visits = np.random.default_rng(seed).integers(0, most + 1, n)
        return pl.DataFrame(patients(n, seed)).with_columns(visits=pl.Series(visits))

    mine = with_visits(200, 0, 1).with_columns(only=pl.int_range(200) / 7)
    former = with_visits(200, 3, 1).with_columns(
        smoker=pl.when(pl.int_range(200) % 3 > 0).then(pl.col("smoker")).otherwise(pl.lit("former"))
    )
    sites = {"often": with_visits(200, 1, 6), "once": with_visits(200, 2, 1), "former": former}
    result = silot.compare(sites, mine)
    assert {name: result[name].verb for name in sites} == {
        "often": "apart", "once": "use", "former": "apart",
    }  # fmt: skip
    assert result["often"].test.drivers == ("visits",)
    assert "smoker=other" in result["former"].test.drivers
    assert "Column 'only': no other table has it." in result.status


def test_no_site_is_a_reference_for_itself() -> None:
    x = np.random.default_rng(0).normal(size=(2, 80, 2))
    result = silot.compare({"a": x[0], "b": x[1] + 4.0})
    assert [item.verb for item in result.decisions] == ["apart", "apart"]
    with pytest.raises(SilotError, match="validation-absent"):
        silot.compare({"a": x[0]})


def test_accuracy_falls_with_wrong_labels_and_rises_with_more_records() -> None:
    def draw(n: int, seed: int) -> silot.Measure:
        return silot.Measure(pl.DataFrame(patients(n, seed)).drop("smoker"), labels="event")

    reference, more = draw(80, 0), draw(2000, 1)
    swapped = np.where(more.names == "yes", "no", "yes")
    accuracy = Accuracy(reference)
    assert accuracy.gain(silot.Measure(more.points, labels=swapped), 1).high < 0
    assert accuracy.gain(more, 1).value > -5.0


@pytest.mark.heavy
def test_releases_are_compared_without_records() -> None:
    rng = np.random.default_rng(0)
    sites = {name: rng.normal(size=(2000, 2)) + shift for name, shift in (("a", 0.0), ("b", 1.5))}
    public = rng.normal(size=(2000, 2))
    result = silot.compare(
        sites, rng.normal(size=(1500, 2)), public=silot.Measure(public), privacy_epsilon=2.0
    )
    assert {item.site: item.verb for item in result.decisions} == {"a": "use", "b": "apart"}
    assert result.disclosure == "private" and not result.scores and not result.measures


def test_a_budget_or_a_federation_needs_validation_data() -> None:
    x = np.zeros((8, 1))
    with pytest.raises(SilotError, match="validation-absent"):
        silot.compare({"a": x, "b": x}, privacy_epsilon=1.0)
    with pytest.raises(SilotError, match="validation-absent"):
        silot.compare(silot.federation.LocalFederation({"a": x, "b": x}))


def test_a_release_is_made_by_no_schema_that_tells_about_records(tmp_path: Path) -> None:
    tables = {name: pl.DataFrame(patients(400, k)) for k, name in enumerate(("a", "b", "mine"))}
    with pytest.raises(SilotError, match="option-privacy") as caught:
        silot.compare({"a": tables["a"]}, tables["mine"], privacy_epsilon=1.0)
    assert "--schema" in caught.value.message
    schema = silot.draft_schema(tables["mine"], tables["a"], tables["b"], label="event").schema
    pl.DataFrame(patients(600, 9)).write_csv(tmp_path / "public.csv")
    public = silot.load_measure(tmp_path / "public.csv", schema=schema)
    result = silot.compare(
        {name: tables[name] for name in "ab"}, tables["mine"], schema=schema, public=public
    )
    # Counts of what does not fit, and what a draft read off, are no noise.
    assert not any(item.notes for item in result.decisions)
    assert result.sources.draft is None and not result.sources.site_drafts
    assert result.disclosure == "private" and result.privacy_mu > 0


def test_the_trusted_table_has_a_site_file_too(tmp_path: Path) -> None:
    mine, near = in_pounds(patients(150, 0)), patients(120, 1)
    paths = [tmp_path / "mine.csv", tmp_path / "near.csv"]
    for path, table in zip(paths, (mine, near), strict=True):
        pl.DataFrame(table).write_csv(path)
    schema = tmp_path / "schema.yml"
    silot.draft_schema(paths[1], label="event").save(schema)
    how = {"labels": "event", "schema": schema}
    result = silot.compare([str(paths[1])], str(paths[0]), **how)
    # Its own numbers are read in pounds, and the command that follows says so.
    assert set(result.sources.site_drafts) == {"mine"}
    assert "--site mine=" in result.command(result.decisions[:1], tmp_path)
    assert result.decisions[0].verb == "use"
    site = tmp_path / "mine.site.yml"
    site.write_text("columns: {weight: {factor: 0.4536}}")
    stated = silot.compare([str(paths[1])], str(paths[0]), site_files={"mine": site}, **how)
    assert not stated.sources.site_drafts and stated.decisions[0].verb == "use"


def test_a_site_file_that_would_change_nothing_is_refused(tmp_path: Path) -> None:
    tables = {"a": pl.DataFrame(patients(30, 0)), "b": pl.DataFrame(patients(30, 1))}
    with pytest.raises(SilotError, match="schema-options"):
        silot.compare(tables, site_files={"a": silot.data.Site()})
    schema = silot.draft_schema(tables["a"]).schema
    with pytest.raises(SilotError, match="'c'"):
        silot.compare(tables, schema=schema, site_files={"c": silot.data.Site()})
    # The name of the coordinator is no site's: its table would be taken for the trusted one.
    with pytest.raises(SilotError, match="holder-names"):
        silot.compare(tables | {"coordinator": tables["a"]}, tables["b"])


def test_trusted_data_among_the_files_are_no_site(tmp_path: Path) -> None:
    for name, seed in (("mine", 0), ("near", 1)):
        pl.DataFrame(patients(150, seed)).write_csv(tmp_path / f"{name}.csv")
    every = sorted(tmp_path.glob("*.csv"))
    # As a pattern such as *.csv names them, by another way to the same file.
    result = silot.compare(every, tmp_path / ".." / tmp_path.name / "mine.csv")
    assert [item.site for item in result.decisions] == ["near"]


def test_files_called_alike_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / name / "data.csv" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        pl.DataFrame(patients(20, 0)).write_csv(path)
    with pytest.raises(SilotError, match="holder-names"):
        silot.compare(list(map(str, paths)))


@pytest.mark.heavy
def test_the_command_writes_what_its_cards_name(tmp_path: Path) -> None:
    tables = {"mine": patients(150, 0), "near": patients(120, 1)}
    tables["pounds"] = in_pounds(patients(120, 2))
    for name, table in tables.items():
        pl.DataFrame(table).write_csv(tmp_path / f"{name}.csv")
    done = within(tmp_path, "compare", "near.csv", "pounds.csv", "--validation", "mine.csv",
                  "--label-column", "event")  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "USE as it is" in shown and "CONVERT weight from lb to kg" in shown
    # Files are confirmed before the commands on the other cards are typed.
    assert shown.index("CONFIRM") < shown.index("USE as it is")
    folder = tmp_path / "compare"
    written = {path.name for path in folder.iterdir()}
    assert {"report.html", "schema.yml", "schema.pounds.site.yml", "compare.json"} <= written
    page = (folder / "report.html").read_text()
    assert "CONVERT weight from lb to kg" in page and "://" not in page
    # The next command of a card runs once its files are confirmed.
    files = ("compare/schema.yml", "compare/schema.pounds.site.yml")
    assert within(tmp_path, "schema", "confirm", *files, "--by", "Ann").returncode == 0
    distance = within(tmp_path, "distance", "mine.csv", "pounds.csv", "--schema", files[0],
                      "--site", f"pounds={files[1]}")  # fmt: skip
    assert distance.returncode == 0, distance.stderr


@pytest.mark.heavy
def test_one_card_of_several_sites_has_a_command_for_all(tmp_path: Path) -> None:
    names = [f"s{k}" for k in range(7)]
    for k, name in enumerate(["mine", *names]):
        table = {key: values for key, values in patients(60, k).items() if key != "event"}
        pl.DataFrame(table).write_csv(tmp_path / f"{name}.csv")
    files = [str(tmp_path / f"{name}.csv") for name in names]
    result = silot.compare(files, str(tmp_path / "mine.csv"))
    used = [item for item in result.decisions if [step.verb for step in item.steps] == ["use"]]
    assert len(used) == 7
    command = result.command(used, tmp_path / "compare")
    result.save(tmp_path / "compare")
    done = within(tmp_path, *shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names)
