"""Counts of suspect records: one record moves them by at most the sensitivity, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot import Measure, Policy
from silot.distances.questions import encode_classes
from silot.federation import Answer, Failure, Holder
from silot.federation.question import encode_question
from silot.privacy import Ledger, epsilon_of, mu_of
from silot.records.counted import Bins
from silot.records.questions.suspects import CountSuspects
from silot.records.screen import Screen
from tests.tiers import examples

from ..privacy.likelihood import audit

MU, DELTA = mu_of(1.0, 1e-5), 1e-5
RNG = np.random.default_rng(31)
CODES = RNG.integers(3, size=200)
PUBLIC = RNG.normal(size=(200, 3)) + 2.0 * CODES[:, None]
NAMES = ["a", "b", "c"]
RECORDS = RNG.normal(size=(30, 3)) + 2.0
LABELS = np.array(["a", "b", "c", "never heard of"])[RNG.integers(4, size=30)]


@cache
def screen_of(labelled: bool) -> Screen:
    codes, classes = (CODES, 3) if labelled else (None, 0)
    return Screen.fit(PUBLIC, np.full(200, 1 / 200), codes, classes, 0)[0]


def asked(labelled: bool = True, **changes: Any) -> CountSuspects:
    screen = screen_of(labelled)
    question = CountSuspects.of(
        screen,
        encode_classes(NAMES) if labelled else "",
        feature_edges=Bins.of_features(screen).edges,
        label_edges=Bins.of_labels(screen).edges if labelled else np.zeros(0),
        privacy_mu=MU,
    )
    return dataclasses.replace(question, **changes)


coordinates = st.one_of(st.floats(-6, 6), st.floats(-1e150, 1e150), st.sampled_from([0.0, 1e-300]))
records = st.one_of(
    st.tuples(*[coordinates] * 3), st.sampled_from([tuple(PUBLIC[k].tolist()) for k in range(5)])
)


@pytest.mark.heavy
@given(
    records, st.sampled_from([*NAMES, "other", ""]), st.floats(0.0, 1.5), st.integers(0, 30),
    st.sampled_from([16, 1024, 1 << 20]), st.sampled_from([0.0, 1.0]), st.booleans(),
)  # fmt: skip
@settings(deadline=None, max_examples=examples(60))
def test_one_record_anywhere_moves_counts_by_at_most_the_sensitivity_and_as_if_alone(
    record: tuple[float, ...],
    label: str,
    mass: float,
    place: int,
    resolution: int,
    limit: float,
    labelled: bool,
) -> None:
    question = asked(labelled, resolution=resolution, mass_limit=limit)
    masses = np.linspace(0.0, 1.0, 30)
    before = question.exact(RECORDS, masses, LABELS)
    after = question.exact(
        np.insert(RECORDS, place, np.array(record), axis=0),
        np.insert(masses, place, mass),
        np.insert(LABELS, place, label),
    )
    alone = question.exact(np.array([record]), np.array([mass]), np.array([label]))
    assert np.linalg.norm(after - before) <= question.sensitivity
    np.testing.assert_array_equal(after - before, alone)
    assert after.shape == (question.length,)


def test_a_record_moves_counts_by_the_sensitivity() -> None:
    for labelled, bins in ((True, 2), (False, 1)):
        question = asked(labelled)
        alone = question.exact(PUBLIC[:1], np.ones(1), np.array(["a"]))
        assert (alone > 0).sum() == bins
        assert np.linalg.norm(alone) == pytest.approx(question.sensitivity)


def test_records_of_no_mass_are_not_counted() -> None:
    question = asked(mass_limit=2.0)
    assert not question.exact(RECORDS, np.zeros(30), LABELS).any()


@pytest.mark.heavy
@pytest.mark.parametrize("labelled", [True, False])
def test_counts_are_never_seen_to_spend_more_than_they_say(labelled: bool) -> None:
    question = asked(labelled)
    with_ = Measure(np.vstack([RECORDS, [40.0, -40.0, 0.0]]), labels=np.append(LABELS, "a"))
    without = Measure(RECORDS, labels=LABELS)
    found = audit(question, without, with_, runs=4000)
    assert found.mu <= MU and found.epsilon <= epsilon_of(MU, DELTA)


# What is no question


def chain(question: CountSuspects) -> dict[str, Any]:
    """A thousand steps for records above zero, one for others."""
    size = 1001
    inner = np.arange(size) % 2 == 0
    inner[-1] = False
    leaves = np.full((size, 3), 1 / 3)
    return {
        "feature": np.where(inner, 0, -1),
        "right": np.where(inner, np.arange(size) + 2, 0),
        "threshold": np.zeros(size),
        "leaves": leaves,
        "roots": np.zeros(1, dtype=np.int64),
    }


def replaced(question: CountSuspects, field: str, value: int | None = None) -> dict[str, Any]:
    """The last step of a tree leads to another place: to itself, unless there is a value."""
    inner = int(np.flatnonzero(question.feature >= 0)[-1])
    steps = getattr(question, field).copy()
    steps[inner] = inner if value is None else value
    return {field: steps}


# Made of a question when a test runs, so that collecting tests fits no model.
FAULTS: dict[str, Callable[[CountSuspects], dict[str, Any]]] = {
    "slopes that are no numbers": lambda question: {"slopes": question.slopes * np.nan},
    "heights of public records that overflow": lambda question: {
        "points": np.full_like(question.points, 1e300)
    },
    "public records that are no numbers": lambda question: {"points": question.points * np.nan},
    "a tree that never ends": lambda question: replaced(question, "right"),
    "a tree of columns there are not": lambda question: replaced(question, "feature", 7),
    "a tree that takes long for some records": lambda question: chain(question),
    "no trees": lambda question: {"roots": question.roots[:0]},
    "leaves that are no numbers": lambda question: {"leaves": question.leaves * np.nan},
    "weights that are none": lambda question: {"point_weights": -question.point_weights},
    "edges that fall": lambda question: {"feature_edges": question.feature_edges[::-1].copy()},
    "edges that are no numbers": lambda question: {"label_edges": question.label_edges * np.nan},
    "no edges": lambda _: {"feature_edges": np.zeros(0)},
    "many edges": lambda _: {"feature_edges": np.arange(100.0)},
    "other classes": lambda _: {"classes": encode_classes(["a", "b"])},
    "classes twice": lambda _: {"classes": '["a","a","b"]'},
    "label coordinates": lambda _: {"embedding": "full"},
    "a fine resolution": lambda _: {"resolution": 1 << 40},
    "a negative limit": lambda _: {"mass_limit": -1.0},
    "a pool that is none": lambda question: {"pool": question.pool[:2]},
    "residues": lambda _: {"dimension": float("nan")},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_models_that_are_none_are_refused_and_charge_nothing(fault: str) -> None:
    ledger = Ledger()
    holder = Holder(Measure(RECORDS, labels=LABELS), Policy(privacy_epsilon=1.0), ledger)
    answer = holder.answer(dataclasses.replace(asked(), **FAULTS[fault](asked())))
    assert isinstance(answer, Failure)
    assert answer.code in ("question-fields", "release-embedding")
    assert ledger.spent == 0.0


@pytest.mark.parametrize("factor", [1e9, -1e9, 1e308])
def test_models_chosen_to_fail_on_some_records_move_counts_no_further(factor: float) -> None:
    # Numbers that are finite, and overflow for some records only.
    question = asked()
    with np.errstate(over="ignore"):
        slopes = np.nan_to_num(question.slopes * factor)
    wild = dataclasses.replace(question, broken=np.full((2, 4), factor), slopes=slopes)
    far = np.vstack([RECORDS, np.full(3, 1e150)])
    before = wild.exact(RECORDS, np.ones(30), LABELS)
    after = wild.exact(far, np.ones(31), np.append(LABELS, "a"))
    assert 0.0 < np.linalg.norm(after - before) <= wild.sensitivity


def test_what_a_question_lacks_is_said_before_it_is_charged() -> None:
    ledger = Ledger()
    policy = Policy(privacy_epsilon=1.0)
    for data, code in (
        (Measure(RECORDS), "labels-absent"),
        (Measure(RECORDS[:, :2], labels=LABELS), "dimension-mismatch"),
    ):
        answer = Holder(data, policy, ledger).answer(asked())
        assert isinstance(answer, Failure) and answer.code == code
    assert ledger.spent == 0.0


# Ledgers


def test_a_question_is_charged_once_and_another_screen_again() -> None:
    ledger = Ledger()
    holder = Holder(Measure(RECORDS, labels=LABELS), Policy(privacy_epsilon=1.5), ledger)
    first = holder.answer(asked())
    assert ledger.spent == pytest.approx(MU)
    again = holder.answer(asked())
    assert isinstance(first, Answer) and isinstance(again, Answer)
    np.testing.assert_array_equal(again.arrays["counts"], first.arrays["counts"])
    assert (first.scalars["charged_mu"], again.scalars["charged_mu"]) == (MU, 0.0)
    assert holder.reply(encode_question(asked())) == holder.reply(encode_question(asked()))
    other = holder.answer(asked(False))
    assert isinstance(other, Answer)
    assert ledger.spent == pytest.approx(MU * 2**0.5)
    refused = holder.answer(asked(privacy_mu=MU * 1.01))
    assert isinstance(refused, Failure) and refused.code == "ledger-budget"
    assert ledger.spent == pytest.approx(MU * 2**0.5)


def test_a_holder_answers_with_a_budget_and_a_ledger_alone() -> None:
    data = Measure(RECORDS, labels=LABELS)
    for policy, ledger, code in (
        (Policy(privacy_epsilon=None), Ledger(), "policy-budget"),
        (Policy(privacy_epsilon=1.0), None, "ledger-absent"),
        (Policy(questions=frozenset()), Ledger(), "policy-question"),
    ):
        answer = Holder(data, policy, ledger).answer(asked())
        assert isinstance(answer, Failure) and answer.code == code
    assert isinstance(Holder(data, Policy(), Ledger()).answer(asked()), Answer)


@given(st.permutations(range(30)))
@settings(deadline=None, max_examples=examples(5))
def test_the_order_of_records_does_not_show(order: list[int]) -> None:
    question = asked()
    np.testing.assert_array_equal(
        question.exact(RECORDS, np.ones(30), LABELS),
        question.exact(RECORDS[order], np.ones(30), LABELS[order]),
    )
