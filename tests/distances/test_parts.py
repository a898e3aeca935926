"""What distances are made of: in direct, worth and sketch, told by honest holders and others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import silot
from silot import Measure, Policy
from silot.distances.cost_parts import ClassPart, Parts, shortened
from silot.distances.direct import direct
from silot.distances.worth.contributions import contributions
from silot.errors import InputError, WireError
from silot.federation import Answer, Failure, Holder, LocalFederation, Own
from silot.privacy import Ledger
from tests.lazily import package
from tests.saying import Saying

pl = package("polars")

RNG = np.random.default_rng(5)
COLUMNS = ("age", "glucose", "bmi")


def patients(n: int, seed: int, unit: float = 1.0, shift: float = 0.0) -> pl.DataFrame:
    """A table of three columns and classes that differ in the first."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, n)
    return pl.DataFrame(
        {
            "age": rng.normal(50, 2, n) + 3.0 * kinds + shift,
            "glucose": unit * rng.normal(5.5, 1, n),
            "bmi": rng.normal(25, 2, n),
            "diagnosis": np.array(["flu", "none", "other"])[kinds],
        }
    )


GOOD, WRONG, VALIDATION = patients(120, 1), patients(150, 2, unit=18.0), patients(100, 3)


def features(table: pl.DataFrame) -> pl.DataFrame:
    return table.drop("diagnosis")


def integer(parts: Parts) -> float:
    return sum(parts.columns.values()) + (parts.labels or 0.0)


def assert_sums(found: silot.distances.Distance, rel: float = 1e-6) -> Parts:
    parts = found.parts
    assert parts is not None
    assert parts.cost == pytest.approx(found.value**2, rel=rel, abs=1e-12)
    expected = 1.0 if parts.cost > 0 else 0.0
    assert integer(parts) == pytest.approx(expected)
    assert all(share >= 0 for share in parts.columns.values())
    if parts.classes:
        assert sum(part.share for part in parts.classes.values()) == pytest.approx(expected)
        assert sum(part.mass for part in parts.classes.values()) == pytest.approx(1.0)
    json.loads(found.to_json())
    return parts


@st.composite
def measures(draw: st.DrawFn) -> tuple[Measure, Measure]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m, d = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.integers(1, 3))
    scale = draw(st.sampled_from([1.0, 1e6]))
    pair = []
    for size in (n, m):
        points = scale * (rng.integers(0, 4, (size, d)) + 1e3 * draw(st.booleans()))
        # Whole numbers have one sum in any order.
        weights = rng.integers(1, 9, size).astype(float)
        if size > 1 and draw(st.booleans()):
            weights[-1] = 0.0
        pair.append(Measure(points, weights, labels=rng.integers(0, 3, size)))
    return pair[0], pair[1]


@given(measures(), st.booleans(), st.sampled_from(["diagonal", "full"]))
def test_parts_sum_to_the_squared_distance(
    pair: tuple[Measure, Measure], labels: bool, covariance: Any
) -> None:
    x, y = pair
    found = silot.distance(x, y, labels=labels, covariance=covariance, why=True)
    parts = assert_sums(found)
    assert len(parts.columns) == x.dimension
    assert (parts.labels is not None) == labels == bool(parts.classes)
    plain = silot.distance(x, y, labels=labels, covariance=covariance)
    assert found.value == pytest.approx(plain.value, rel=1e-9, abs=1e-9)
    assert plain.parts is None


@given(measures(), st.integers(0, 99))
def test_parts_depend_on_no_order(pair: tuple[Measure, Measure], seed: int) -> None:
    x, y = pair
    rng = np.random.default_rng(seed)
    shuffled = []
    for each in pair:
        rows = rng.permutation(each.size)
        assert each.labels is not None
        shuffled.append(Measure(each.points[rows], each.masses[rows], each.labels[rows]))
    first = silot.distance(x, y, why=True).parts
    again = silot.distance(*shuffled, why=True).parts
    other = silot.distance(*shuffled[::-1], why=True).parts
    assert first is not None and again is not None and other is not None
    for parts in (again, other):
        assert list(parts.columns.values()) == pytest.approx(
            list(first.columns.values()), rel=1e-9, abs=1e-12
        )


def test_counts_are_weights_without_order() -> None:
    # Divided by their largest they would sum to another number in another order.
    masses = np.array([3.0, 6, 5, 4, 7, 6, 5, 1, 7, 7, 2, 3])
    points = np.arange(12.0)[:, None]
    for seed in range(50):
        rows = np.random.default_rng(seed).permutation(12)
        shuffled = Measure(points[rows], masses[rows]).weights
        assert (shuffled == Measure(points, masses).weights[rows]).all()


def test_parts_by_class_depend_on_no_order() -> None:
    table, other = patients(90, 1), patients(70, 2)
    first, again = (
        silot.distance(x, y, labels="diagnosis", why=True).parts
        for x, y in ((table, other), (table.sample(fraction=1, shuffle=True, seed=1), other[::-1]))
    )
    assert first is not None and again is not None
    assert dict(again.columns) == pytest.approx(dict(first.columns))
    for name, part in first.classes.items():
        assert again.classes[name].share == pytest.approx(part.share)


@given(measures(), measures(), st.sampled_from(["none", "classes", "vectors"]))
def test_what_holders_tell_sums_to_what_they_told(
    pair: tuple[Measure, Measure], others: tuple[Measure, Measure], labels: Any
) -> None:
    x, y = pair
    if others[0].dimension != x.dimension:
        return
    options: dict[str, Any] = {"labels": labels != "none"}
    if labels != "none":
        options["label_metric"] = labels
    market = {"x": x, "other": others[0]}
    try:
        result = silot.value_holders(market, y, why=True, **options)
    except InputError as error:
        assert error.code == "labels-disjoint"
        return
    for item in result.holders:
        parts = assert_sums(item.distance)
        assert (parts.labels is not None) == (labels != "none") == bool(parts.classes)
    plain = silot.value_holders(market, y, **options)
    assert [item.distance.value for item in plain.holders] == [
        item.distance.value for item in result.holders
    ]


def test_a_wrong_unit_shows_at_once() -> None:
    market = {"good": features(GOOD), "wrong": features(WRONG)}
    for options in ({}, {"method": "direct"}):
        result = silot.value_holders(market, features(VALIDATION), why=True, **options)
        parts = result["wrong"].distance.parts
        assert parts is not None and list(parts.columns) == list(COLUMNS)
        assert parts.largest[0][0] == "glucose" and parts.columns["glucose"] > 0.9
        good = result["good"].distance.parts
        assert good is not None and good.columns["glucose"] < 0.6
    parts = silot.distance(features(GOOD), features(WRONG), why=True).parts
    assert parts is not None and parts.columns["glucose"] > 0.9


def test_a_class_with_much_of_the_cost_and_few_records_shows() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    kinds = np.array(["7"] * 20 + ["1"] * 180)
    moved = x.copy()
    moved[:20, 0] += 2.0
    parts = silot.distance(Measure(moved, labels=kinds), Measure(x, labels=kinds), labels=True,
                           why=True).parts  # fmt: skip
    assert parts is not None
    assert parts.classes["7"].mass == pytest.approx(0.1)
    assert parts.classes["7"].share > 0.8
    assert parts.costliest[0][0] == "7"


def test_data_that_are_the_same_have_no_parts_to_blame() -> None:
    for labels in (False, "diagnosis"):
        table = GOOD if labels else features(GOOD)
        found = silot.distance(table, table, labels=labels, why=True)
        parts = assert_sums(found)
        assert parts.cost == 0 and set(parts.columns.values()) == {0.0}
        result = silot.value_holders({"same": table}, table, labels=labels, why=True)
        assert assert_sums(result["same"].distance).cost == 0


def test_classes_of_one_side_only() -> None:
    x = Measure(RNG.normal(size=(30, 2)), labels=["a"] * 10 + ["odd"] * 20)
    y = Measure(RNG.normal(size=(20, 2)), labels=["a"] * 10 + ["other"] * 10)
    result = silot.value_holders({"x": x}, y, labels=True, why=True)
    parts = assert_sums(result["x"].distance)
    # The holder's own name of a class is no answer; that of the asker's is not taken for it.
    assert set(parts.classes) == {"a", "other classes"}
    assert parts.classes["other classes"].mass == pytest.approx(2 / 3)
    found = silot.distance(x, y, labels=True, why=True)
    assert set(assert_sums(found).classes) == {"a", "odd"}


def test_names_of_columns_are_those_the_caller_gave() -> None:
    x, y = features(GOOD), features(WRONG).select("bmi", "age", "glucose")
    first, second = (silot.distance(*pair, why=True).parts for pair in ((x, y), (y, x)))
    assert first is not None and second is not None
    assert first.columns == pytest.approx(dict(second.columns))
    named = Measure(RNG.normal(size=(5, 2)), columns=("labels", "0"))
    parts = silot.distance(named, RNG.normal(size=(5, 2)), why=True).parts
    assert parts is not None and set(parts.columns) == {"labels", "0"}
    matrix = silot.distance_matrix({"a": x, "b": y, "c": features(VALIDATION)}, why=True)
    assert {tuple(pair.parts.columns) for pair in matrix.pairs.values() if pair.parts} == {COLUMNS}


def test_a_federation_of_holders_counts_columns_by_place() -> None:
    holders = {name: Holder(Measure(features(table)), Policy.open(), Ledger())
               for name, table in (("a", GOOD), ("b", WRONG))}  # fmt: skip
    parts = LocalFederation(holders).run(direct("a", "b", why=True)).parts
    assert parts is not None and list(parts.columns) == ["0", "1", "2"]


def test_the_barycenter_is_a_target_as_well() -> None:
    result = silot.value_holders({"a": GOOD, "b": WRONG}, labels="diagnosis", why=True)
    for item in result.holders:
        assert list(assert_sums(item.distance).columns) == list(COLUMNS)
    assert result.barycenter is not None
    assert all(each.parts is None for each in result.barycenter.distances.values())


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (lambda x: silot.distance(x, x + 1, why=True, p=1), "option-why"),
        (lambda x: silot.distance(x, x + 1, why="yes"), "option-why"),
        (lambda x: silot.distance(x, x + 1, why=True, method="fedwad"), "option-unknown"),
        (lambda x: silot.distance(x, x + 1, why=True, method="secure"), "option-unknown"),
        (lambda x: silot.value_holders([x], x, why=True, method="fedbary"), "option-why"),
        (lambda x: silot.value_holders([x], x, why=True, method="trianglewad"), "option-why"),
        (lambda x: silot.value_holders([x], x, why=1), "option-why"),
    ],
)
def test_methods_that_cannot_tell_say_so_first(run: Callable[..., Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        run(RNG.normal(size=(6, 2)))
    assert caught.value.code == code


# What it discloses


LARGE = {"a": Measure(patients(400, 7).drop("diagnosis")), "b": Measure(RNG.normal(size=(400, 3)))}


WORTH = frozenset({"distance-with-error", "distance-to", "describe"})


def test_a_policy_that_does_not_name_the_parts_leaves_them_out_and_nothing_else() -> None:
    strict = Policy(level="statistics", questions=WORTH)
    holders = {name: Holder(measure, strict, Ledger()) for name, measure in LARGE.items()}
    federation = LocalFederation(holders | {"open": Measure(RNG.normal(size=(50, 3)))})
    own = Own(Measure(features(VALIDATION)))
    result = federation.run(contributions(["a", "b", "open"], own=own, why=True))
    assert "no parts of distances from a (policy-question), b (policy-question)" in result.status
    assert result["a"].distance.parts is None and result["open"].distance.parts is not None
    assert result.missing == {} and result.converged


def test_disclosure_is_that_of_what_was_told() -> None:
    own = Own(Measure(features(VALIDATION)))
    protocol = contributions(["a"], own=own, why=True)
    assert str(protocol.disclosure) == "statistics"
    opened = LocalFederation({"a": LARGE["a"]}).run(protocol)
    assert opened.disclosure == "statistics"
    assert opened.rounds <= protocol.expected_rounds


# Holders that lie


def lying(change: Callable[[Answer], Answer | Failure], kind: str = "cost-parts") -> Holder:
    class Liar(Saying):
        def says(self, question: Any) -> Answer | Failure:
            answer = self.answer(question)
            if question.kind != kind or isinstance(answer, Failure):
                return answer
            return change(answer)

    return Liar(Measure(GOOD, labels="diagnosis"), Policy.open(), Ledger())


def altered(name: str, value: Any) -> Callable[[Answer], Answer]:
    def change(answer: Answer) -> Answer:
        if name in answer.scalars:
            return Answer(answer.arrays, {**answer.scalars, name: value})
        array = answer.arrays[name].copy()
        return Answer({**answer.arrays, name: value(array)}, answer.scalars)

    return change


def at(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        array[0] = value
        return array

    return put


LIES = [
    ("columns", at(np.nan)),
    ("columns", at(np.inf)),
    ("columns", at(-1.0)),
    ("columns", at(1e300)),
    ("columns", at(1e9)),
    ("columns", lambda array: array[:-1]),
    ("columns", lambda array: array * 0.0),
    ("columns", lambda array: array.astype(np.int64)),
    ("columns", lambda array: array[:, None]),
    ("class_costs", at(-1.0)),
    ("class_costs", at(1e9)),
    ("class_costs", lambda array: array[:-1]),
    ("masses", at(np.nan)),
    ("masses", at(2.0)),
    ("masses", at(-0.5)),
    ("labels", -1.0),
    ("labels", 1e200),
    ("labels", "much"),
]


@pytest.mark.parametrize(("name", "value"), LIES)
def test_parts_that_cannot_be_are_malformed(name: str, value: Any) -> None:
    federation = LocalFederation({"a": lying(altered(name, value))})
    own = Own(Measure(VALIDATION, labels="diagnosis"))
    with pytest.raises(WireError) as caught:
        federation.run(contributions(["a"], own=own, labels="classes", why=True))
    assert caught.value.code == "answer-malformed"


def test_labels_are_no_part_where_none_were_compared() -> None:
    def change(answer: Answer) -> Answer:
        share = float(answer.arrays["columns"].sum())
        return Answer({"columns": answer.arrays["columns"] * 0.0}, {"labels": share})

    federation = LocalFederation({"a": lying(change)})
    with pytest.raises(WireError):
        federation.run(contributions(["a"], own=Own(Measure(features(VALIDATION))), why=True))


@pytest.mark.parametrize(
    "change",
    [
        altered("codes", lambda codes: codes + 5),
        altered("codes", lambda codes: codes[:-1]),
        altered("codes", lambda codes: codes - 5),
        altered("codes", lambda codes: codes.astype(np.float64)),
        altered("weights", lambda weights: weights[:-1]),
    ],
)
def test_records_with_codes_of_no_class_are_malformed(change: Any) -> None:
    honest = Holder(Measure(VALIDATION, labels="diagnosis"), Policy.open(), Ledger())
    federation = LocalFederation({"a": lying(change, "records"), "b": honest})
    with pytest.raises(WireError) as caught:
        federation.run(direct("a", "b", embedding="diagonal", why=True))
    assert caught.value.code == "answer-malformed"


def test_names_of_classes_that_are_none_are_a_wire_error() -> None:
    honest = Holder(Measure(VALIDATION, labels="diagnosis"), Policy.open(), Ledger())
    liar = lying(lambda answer: replace(answer, scalars={"classes": "7"}), "records")
    with pytest.raises(WireError):
        LocalFederation({"a": liar, "b": honest}).run(
            direct("a", "b", embedding="diagonal", why=True)
        )


# From sketches


@pytest.mark.heavy
@pytest.mark.parametrize("labels", [False, "diagnosis"])
def test_sketches_tell_parts_of_what_they_told_already(labels: Any) -> None:
    tables = {
        "good": patients(2000, 1), "wrong": patients(2000, 2, unit=18.0),
        "mine": patients(500, 3), "public": patients(200, 4),
    }  # fmt: skip
    if not labels:
        tables = {name: features(table) for name, table in tables.items()}
    public, own = tables.pop("public"), tables.pop("mine")
    found = silot.api.sketches(tables, own, labels=labels, public=public, privacy_epsilon=4.0)
    plain, told = found.distance("good", "wrong"), found.distance("good", "wrong", why=True)
    assert plain.parts is None and replace(told, parts=None) == plain
    parts = told.parts
    assert parts is not None and parts.of == "cells" and list(parts.columns) == list(COLUMNS)
    assert integer(parts) == pytest.approx(1.0)
    # Records far beyond the public ones: which columns moved them shows in one direction alone.
    assert parts.beyond == "glucose" and "glucose" in parts.note
    assert (parts.labels is not None) == bool(labels) == bool(parts.classes)
    result = found.values(why=True)
    for target in ("validation", "barycenter"):
        worth = found.values(target, why=True)  # type: ignore[arg-type]
        wrong, good = (worth[name].distance.parts for name in ("wrong", "good"))
        assert wrong is not None and wrong.beyond == "glucose" and wrong.to_dict()["beyond"]
        assert good is not None and good.beyond is None and good.note == ""
    assert result.disclosure == "private"
    assert found.matrix(why=True)["good", "wrong"].parts == parts
    json.loads(result.to_json())


def test_a_distance_by_sketch_takes_why() -> None:
    options: dict[str, Any] = {"method": "sketch", "public": features(patients(600, 4))}
    found = silot.distance(
        features(patients(2000, 1)), features(patients(2000, 2, unit=1.3)), why=True, **options
    )
    assert found.disclosure == "private" and found.parts is not None
    # Within the public range shares are told as they are, but for noise and cells.
    assert found.parts.columns["glucose"] > 0.7


# How it is shown


def test_a_short_table_has_the_largest_and_one_row_for_all_others() -> None:
    columns = {str(k): 0.05 for k in range(18)} | {"big": 0.09}
    kinds = {str(k): ClassPart(share=0.1, mass=0.1) for k in range(10)}
    parts = Parts(cost=1.0, columns=columns, labels=0.01, classes=kinds)
    shown, classes = shortened(parts, 8)
    assert [name for name, _ in shown] == ["big", *map(str, range(7)), "11 more", "labels"]
    assert sum(share for _, share in shown) == pytest.approx(1.0)
    assert [name for name, _ in classes] == [*map(str, range(8)), "2 more"]
    assert sum(part.mass for _, part in classes) == pytest.approx(1.0)
