"""What looks like a faulty record and is none, and faults that look like others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml

import silot
from silot import Measure, Schema
from silot.data.units import unit_mistake
from silot.distances.worth.shares import rank_by_utility
from silot.records import Contents
from tests.problems import Array

Labels = np.ndarray


def drawn(seed: int, n: int, d: int = 5) -> tuple[Array, Labels]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, d)) + 1.5 * y[:, None], np.array(["a", "b"])[y]


def screened(
    points: Array, labels: Labels, validation: tuple[Array, Labels]
) -> silot.records.RecordScores:
    v, kinds = validation
    return silot.value_records(
        Measure(points, labels=labels), Measure(v, labels=kinds), labels=True, seed=0
    )


def test_a_table_of_few_values_is_screened_however_often_a_row_is_there() -> None:
    v, kinds = drawn(0, 300)
    v[:90], kinds[:90] = v[0], kinds[0]
    result = screened(*drawn(1, 200), (v, kinds))
    assert result.converged and result.flagged.mean() < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_clean_records_are_not_flagged_for_their_number(seed: int) -> None:
    few, labels = drawn(seed, 3)
    result = screened(few.repeat(40, axis=0), labels.repeat(40), drawn(100 + seed, 200))
    assert result.flagged.sum() == 0


@pytest.mark.parametrize("factor", [2.2046, 10.0])
def test_values_far_out_are_counted_and_are_no_wrong_labels(factor: float) -> None:
    v, kinds = drawn(7, 200)
    x, labels = drawn(8, 300)
    x[:, 0], v[:, 0] = x[:, 0] + 20.0, v[:, 0] + 20.0
    x[:60, 0] *= factor
    result = screened(x, labels, (v, kinds))
    part = result.parts
    assert result.flagged[:60].all() and (part.kinds[:60] == "features").all()
    assert part.broken["features"].low > 20 and part.broken["features"].high >= 60
    assert part.broken["label"].high < 20
    assert not any(item.suggested for item in result.suspects() if item.record < 60)


def test_a_holder_in_other_units_may_have_any_number_of_faulty_records() -> None:
    x, labels = drawn(3, 200)
    result = screened(1000.0 * x, labels, drawn(4, 200))
    everything = result.parts.broken["all"]
    assert (everything.low, everything.high) == (0.0, 200.0)
    assert "as a whole differ" in result.status


def test_odds_that_are_sent_have_a_limit_and_are_read() -> None:
    rng = np.random.default_rng(0)
    result = silot.value_records(
        rng.normal(size=(60, 3)) * 50.0 + 1e9, rng.normal(size=(100, 3)), seed=0
    )
    assert np.abs(result.parts.features).max() <= 1e3


def test_of_the_first_records_no_more_are_faulty_than_of_all() -> None:
    result = screened(*drawn(5, 200), drawn(6, 200))
    first = np.arange(1, 201) * result.parts.precision
    assert (first <= result.parts.broken["all"].value + 1e-9).all()


SCHEMA = """\
silot: schema
version: 1
columns:
  weight: {kind: number, range: [2, 300], unit: kg, transform: log}
  sex: {kind: category, categories: [f, m]}
  crp: {kind: number, range: [0, 500], missing: indicator}
  born: {kind: date, range: [1920-01-01, 2020-01-01]}
"""


def test_what_is_listed_is_in_the_words_and_units_of_the_table() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)

    def table(n: int) -> object:
        days = pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D")
        return pd.DataFrame({
            "weight": rng.normal(75, 8, n), "sex": rng.choice(["f", "m"], n),
            "crp": rng.gamma(2.0, 3.0, n), "born": days.strftime("%Y-%m-%d"),
        })  # fmt: skip

    schema = Schema.model_validate(yaml.safe_load(SCHEMA))
    mine, theirs = table(200), table(200)
    theirs.loc[0, "weight"] = 180.0
    theirs.loc[1, "crp"] = np.nan
    own, other = schema.measure(mine), schema.measure(theirs)
    result = silot.value_records(other, own, seed=0)
    lines = {
        item.record: item.why for item in result.suspects(Contents(records=other, validation=own))
    }
    assert "weight 180 kg, lb for kg? (" in lines[0]
    assert "crp missing" in lines.get(1, "crp missing")
    contents = Contents(records=other, validation=own)
    assert contents.value(2, "sex=f") == theirs["sex"][2]
    assert contents.value(2, "born") == theirs["born"][2]
    assert contents.value(2, "weight") == pytest.approx(theirs["weight"][2])
    assert contents.value(1, "crp") == "missing"


@pytest.mark.parametrize(
    ("column", "value", "unit", "mistake"),
    [
        ("weight", 165.0, "kg", "lb for kg?"), ("weight", 75.0, "kg", ""),
        ("weight", 108.0, "kg", ""), ("weight_kg", 34.0, "", ""),
        ("weight", 34.0, "", "kg for lb?"), ("weight", 750.0, "", "10 times?"),
        ("sentiment", 165.0, "", ""),
    ],
)  # fmt: skip
def test_a_unit_is_suspected_with_evidence_only(
    column: str, value: float, unit: str, mistake: str
) -> None:
    assert unit_mistake(column, value, (46.0, 66.0, 84.0, 104.0), unit) == mistake


def test_around_zero_no_factor_is_suspected() -> None:
    assert unit_mistake("z", 10100.0, (-2.0, -0.7, 0.7, 1.8)) == ""


def test_ranks_are_by_distance_where_no_utility_is_sure() -> None:
    rng = np.random.default_rng(0)
    target, kinds = drawn(11, 150)
    holders = {
        f"h{k}": Measure(drawn(20 + k, 120)[0] + k, labels=rng.choice(["a", "b"], 120))
        for k in range(3)
    }
    worth = silot.value_holders(holders, Measure(target, labels=kinds), labels=True)
    assert worth.status.endswith("no utility is clearly above 0: ranks and shares are by distance")
    by_distance = sorted(worth.holders, key=lambda item: item.distance.value)
    assert [item.holder for item in by_distance] == ["h0", "h1", "h2"]
    sure = {item.holder: replace(item.utility, value=1.0, error=0.1) for item in worth.holders}
    assert rank_by_utility(worth, sure).status.endswith("ranks and shares are by utility")
