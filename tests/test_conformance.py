"""What every distance method of the registry promises, present and future.

Only ``WANTS`` names methods, and what they cannot do without; others are run as they are.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import silot
from silot import Measure, Policy
from silot.api.report import render
from silot.errors import InputError, MismatchError, SilotError
from silot.federation import Holder, LocalFederation, Own
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.question import decode_question, encode_question
from silot.options import declared
from silot.privacy import Ledger
from silot.render import terminal
from silot.render.html import fragment
from silot_transport import exact_plan
from tests.problems import pairs
from tests.tiers import examples

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(200, 2))
WANTS: dict[str, dict[str, Any]] = {
    "sketch": {
        "records": 1400,
        "options": {"public": PUBLIC, "privacy_epsilon": 4.0},
        "certified": False,
        "drawn": True,
    },
    "private": {
        "records": 1400,
        "extra": "opendp",
        "options": {"privacy_epsilon": 4.0},
        "certified": False,
        "drawn": True,
    },
    "secure": {"extra": "spu", "certified": False, "near": 1e-6},
}
# Methods that compare holders with data of the asker, and no two holders with one another.
OWN = {"private"}
ALL = [name for name in silot.api.METHODS if find_spec(WANTS.get(name, {}).get("extra", "numpy"))]
# A secure computation takes seconds, and data of a public scale: tests/secure has its bounds.
CERTIFIED = [name for name in ALL if WANTS.get(name, {}).get("certified", True)]
ASKING = [name for name in ALL if silot.api.METHODS[name].asks]
PAIRED = [name for name in ASKING if name not in OWN]
X, Y = RNG.normal(size=(1400, 2)), RNG.normal((1.0, 0.0), size=(1200, 2))


def sides(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two clouds: small ones, where the method can do with them."""
    size = WANTS.get(name, {}).get("records", 40)
    return X[:size], Y[: size - 10]


def distance(name: str, *sides: Any, **options: Any) -> silot.distances.Distance:
    options = WANTS.get(name, {}).get("options", {}) | options
    if name in OWN:
        x, y = map(Measure.of, sides)
        protocol = silot.api.METHODS[name](**options).between("a", own=Own(y))
        return LocalFederation({"a": x}).run(protocol)
    return silot.distance(*sides, method=name, **options)


@cache
def once(name: str) -> silot.distances.Distance:
    return distance(name, *sides(name))


def timeless(result: silot.distances.Distance) -> dict[str, Any]:
    """A result but for its clock."""
    return replace(result, seconds=0.0).to_dict()


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_value_lies_between_its_bounds_and_the_result_says_what_it_is(name: str) -> None:
    result = once(name)
    assert 0 <= result.lower <= result.value <= result.upper
    assert result.status and result.disclosure == str(silot.api.METHODS[name].disclosure)
    assert result.rounds >= 1 and result.bytes_received > 0 and result.seconds >= 0


@pytest.mark.parametrize("name", CERTIFIED)
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_the_exact_distance_lies_between_certified_bounds(name: str, data: st.DataObject) -> None:
    pair = data.draw(pairs())
    plan = exact_plan(pair.x, pair.y, pair.a, pair.b, p=2)
    result = distance(name, Measure(pair.x, pair.a), Measure(pair.y, pair.b))
    room = 1e-9 * (1.0 + float(np.abs(pair.x).max() + np.abs(pair.y).max()))
    assert result.lower - room <= plan.cost**0.5 <= result.upper + room


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_nothing_is_between_a_measure_and_itself(name: str) -> None:
    x, _ = sides(name)
    # A secure computation and a sketch know it up to their resolution, and say so.
    assert distance(name, x, x).lower <= 1e-9 * float(np.abs(x).max())


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_one_seed_gives_one_result(name: str) -> None:
    again = distance(name, *sides(name))
    if WANTS.get(name, {}).get("drawn"):
        # Noise that a seed could tell would protect nothing.
        assert again.value != once(name).value
    elif "near" in WANTS.get(name, {}):
        # Secret shares are drawn anew, and their last bits are rounded up or down with them.
        assert again.value == pytest.approx(once(name).value, rel=WANTS[name]["near"])
        assert again.status == once(name).status
    else:
        assert timeless(again) == timeless(once(name))


@pytest.mark.heavy
@pytest.mark.parametrize("name", PAIRED)
def test_the_order_of_holders_changes_nothing(name: str) -> None:
    x, y = sides(name)
    data = {"a": x, "b": y, "c": y + np.array([0.0, 2.0])}
    options = WANTS.get(name, {}).get("options", {})
    first = silot.distance_matrix(data, method=name, **options)
    turned = silot.distance_matrix(dict(reversed(data.items())), method=name, **options)
    for a, b in first.pairs:
        near = 0.1 if WANTS.get(name, {}).get("drawn") else 1e-9
        assert turned[a, b].value == pytest.approx(first[a, b].value, rel=near)
        assert turned[a, b].holders == (b, a) and first[a, b].holders == (a, b)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([[np.nan, 0.0]], "measure-nan"),
        (np.zeros((0, 2)), "measure-empty"),
        (np.zeros((3, 5)), "dimension-mismatch"),
    ],
)
def test_bad_data_are_coded_errors_before_anything_is_asked(
    name: str, x: Any, expected: str
) -> None:
    with pytest.raises((InputError, MismatchError)) as caught:
        distance(name, x, sides(name)[1])
    assert caught.value.code == expected


@pytest.mark.parametrize("name", ALL)
def test_bad_options_are_coded_errors(name: str) -> None:
    for options, code in (({"p": 3}, "option-p"), ({"nonsense": 1}, "option-unknown")):
        with pytest.raises(InputError) as caught:
            distance(name, *sides(name), **options)
        assert caught.value.code == code
    for item in declared(silot.api.METHODS[name]):
        if item.flag and item.check.kind in (int, float):
            with pytest.raises(InputError) as caught:
                distance(name, *sides(name), **{item.name: "many"})
            assert caught.value.code.startswith("option-")


@pytest.mark.parametrize("name", ASKING)
def test_a_policy_that_forbids_is_obeyed_and_said(name: str) -> None:
    kind = silot.api.METHODS[name]
    x, y = sides(name)
    ledgers = {"a": Ledger(), "b": Ledger()}
    shut = {
        side: Holder(Measure(data), Policy(questions=[]), ledgers[side])
        for side, data in (("a", x), ("b", y))
    }
    against = {"own": Own(Measure(y))} if name in OWN else {"b": "b"}
    protocol = kind(**WANTS.get(name, {}).get("options", {})).between("a", **against)
    with pytest.raises(SilotError) as caught:
        LocalFederation(shut).run(protocol)
    assert caught.value.code in ("policy-question", "policy-level", "holder-refused")
    assert str(x[0, 0]) not in caught.value.message
    assert [ledger.spent for ledger in ledgers.values()] == [0.0, 0.0]


@pytest.mark.parametrize("name", ASKING)
def test_all_that_travelled_is_read_back_as_it_was(name: str) -> None:
    transcript = once(name).transcript
    assert transcript is not None and len(transcript.entries) > 0
    for entry in transcript.entries:
        if entry.direction == "sent":
            again = encode_question(decode_question(entry.payload))
        else:
            again = encode_reply(decode_reply(entry.payload))
        assert again == entry.payload


@pytest.mark.parametrize("name", ALL)
def test_options_make_an_object_and_an_object_says_its_options(name: str) -> None:
    kind = silot.api.METHODS[name]
    chosen = kind(seed=7, **WANTS.get(name, {}).get("options", {}))
    assert chosen.values().keys() == set(kind.options)
    same = kind(**chosen.chosen())
    for option in kind.options:
        assert getattr(same, option) is getattr(chosen, option) or (
            np.array_equal(getattr(same, option), getattr(chosen, option))
        )


@pytest.mark.parametrize("name", ALL)
def test_results_show_themselves_everywhere(name: str) -> None:
    result = once(name)
    out = io.StringIO()
    terminal.show(Console(file=out, width=80), result.sections())
    assert max(map(len, out.getvalue().splitlines())) <= 80
    number = f"{result.value:.6f}"[:4]
    for text in (out.getvalue(), fragment(result.sections()), render(result)):
        assert number in text and result.disclosure in text


@pytest.mark.parametrize("name", ALL)
def test_json_is_finite_and_has_the_fields_of_the_result(name: str) -> None:
    body = json.loads(json.dumps(once(name).to_dict(), allow_nan=False))
    assert body["method"] == name and body["value"] == once(name).value
    assert {"lower", "upper", "status", "converged", "disclosure", "rounds"} <= set(body)
