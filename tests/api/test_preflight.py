"""Every result of tables says what was seen of them, and nothing of it travels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import silot
from silot import report
from silot.api import _holders
from silot.data.preflight import Preflight
from silot.federation import LocalFederation
from silot.render import terminal

from ..data.test_preflight import NAMES, ward

Frames = dict[str, pl.DataFrame]


def frames(*, mixed: bool) -> Frames:
    """Three wards, of which one may have its glucose in mmol/L."""
    tables = {name: ward(k, 90) for k, name in enumerate(("north", "south", "west"))}
    if mixed:
        tables["west"][:, 1] /= 18.016
    return {
        name: pl.DataFrame(x, schema=NAMES).with_columns(
            ill=pl.Series(x[:, 3] > 130).cast(pl.String)
        )
        for name, x in tables.items()
    }


VALIDATION = pl.DataFrame(ward(9, 90), schema=NAMES).with_columns(ill=pl.lit("true"))


def without(holders: Frames) -> Frames:
    return {name: each.drop("ill") for name, each in holders.items()}


CALLS: dict[str, Callable[[Frames], Any]] = {
    "distance": lambda each: silot.distance(each["north"].drop("ill"), each["west"].drop("ill")),
    "matrix": lambda each: silot.distance_matrix(without(each)),
    "pooled": lambda each: silot.pooled_distance(without(each), VALIDATION.drop("ill")),
    "worth": lambda each: silot.value_holders(without(each), VALIDATION.drop("ill")),
    "map": lambda each: silot.value_holders(without(each), VALIDATION.drop("ill"), map="direct"),
    "barycenter": lambda each: silot.barycenter(without(each), support=4, rounds=2),
    "records": lambda each: silot.value_records(
        each["west"].drop("ill"), VALIDATION.drop("ill"), name="west"
    ),
    "adaptation": lambda each: silot.adapt(each, labels="ill", model="logistic"),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_result_and_page_says_what_is_odd_and_of_whom(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CALLS[name](frames(mixed=True))
    (flag,) = result.preflight.flags
    assert flag.column == "glucose"
    # The two sides of a distance are called x and y.
    assert ("'y'" if name == "distance" else "'west'") in flag.sentence
    assert result.to_dict()["preflight"]["flags"][0]["sentence"] == flag.sentence
    assert "look at 'glucose'" in result.status
    page = report.render(result)
    assert "The data as they were given" in page
    assert page.index("as between mmol/L and mg/dL of glucose") < page.index("<table")
    assert "The bounds prove" not in page
    terminal.show(terminal.Console(width=80), result.sections())
    shown = capsys.readouterr().out
    assert "'glucose' of" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", CALLS)
def test_tables_without_anything_odd_keep_their_words(name: str) -> None:
    result = CALLS[name](frames(mixed=False))
    assert result.preflight.flags == ()
    assert list(result.to_dict()["preflight"]["shares"]) == NAMES
    assert "as they were given" not in result.status
    assert "The data as they were given" in report.render(result)


def test_arrays_without_anything_odd_have_no_preflight() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    result = silot.value_holders({"a": x, "b": x + 5.0}, x, intervals=False)
    assert result.preflight is None
    assert result.to_dict()["preflight"] is None


@pytest.mark.parametrize("name", ["distance", "worth", "barycenter", "pooled"])
def test_messages_of_a_run_are_the_same_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def messages() -> list[tuple[str, str, bytes]]:
        entries = CALLS[name](frames(mixed=True)).transcript.entries
        return [(each.holder, each.direction, each.payload) for each in entries]

    sent = messages()
    monkeypatch.setattr(_holders.Preflight, "of", classmethod(lambda cls, *_: None))
    assert messages() == sent


def test_holders_of_a_federation_are_not_looked_at_and_nothing_is_proven_of_their_columns() -> None:
    held = without(frames(mixed=True))
    result = silot.value_holders(LocalFederation(held), VALIDATION.drop("ill"), intervals=False)
    assert isinstance(result.preflight, Preflight)
    assert result.preflight.unseen == tuple(held)
    assert result.preflight.holders == ("coordinator",)
    page = report.render(result)
    assert "Nobody looked at the columns of" in page
    assert "The bounds prove" not in page


def test_a_matrix_says_it_once() -> None:
    found = CALLS["matrix"](frames(mixed=True)).to_dict()
    assert found["preflight"] is not None
    assert [pair["preflight"] for pair in found["pairs"]] == [None] * 3
