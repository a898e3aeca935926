"""A coordinator that chooses its questions to single records out, against a holder's policy."""

from pathlib import Path

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances.questions import (
    ClassSizes,
    Describe,
    DistanceTo,
    InterpolantDistance,
    LabelledDistanceTo,
    Moments,
    Records,
)
from silot.distances.sides import draw_reference, is_drawn
from silot.distances.worth.contributions import contributions
from silot.errors import InputError, RefusedError
from silot.federation import Answer, Failure, Holder, LocalFederation, Own, Question
from silot.privacy import Ledger
from silot.teaching.questions import CountLabelled, MeanFeatures, Spread

pytestmark = pytest.mark.all_cases

RNG = np.random.default_rng(11)
ROUND = RNG.normal(size=(120, 6)) @ np.diag([3.0, 2.0, 1.0, 0.5, 1.0, 1.0])
LABELS = np.array(["a"] * 80 + ["b"] * 39 + ["rare"])
FEATURES = {"features": 12, "bandwidth": 2.0, "seed": 0}


def even(size: int) -> np.ndarray:
    return np.full(size, 1.0 / size)


EXACT: list[Question] = [
    Describe(),
    Moments(),
    Spread(),
    MeanFeatures(**FEATURES),  # type: ignore[arg-type]
    DistanceTo(reference=draw_reference(0, 30, 6), reference_weights=even(30)),
    InterpolantDistance(
        reference=draw_reference(0, 30, 6), reference_weights=even(30), t=0.3,
        target=draw_reference(1, 20, 6), target_weights=even(20),
    ),
    LabelledDistanceTo(
        target=draw_reference(0, 30, 6), target_weights=even(30), target_codes=np.arange(30) % 2,
        classes='["a", "b"]', class_distances=np.array([[0.0, 2.0], [2.0, 0.0]]),
        class_slack=np.zeros(2),
    ),
    ClassSizes(classes='["a", "b"]'),
    CountLabelled(classes='["a", "b"]'),
    Records(),
]  # fmt: skip


def code(answer: Answer | Failure) -> str:
    return answer.code if isinstance(answer, Failure) else "answered"


@pytest.mark.parametrize("question", EXACT, ids=lambda question: question.kind)
def test_the_default_rules_answer_no_exact_question(question: Question) -> None:
    ledger = Ledger()
    holder = Holder(Measure(ROUND, labels=LABELS), ledger=ledger)
    assert code(holder.answer(question)) == "policy-level"
    assert not ledger.answers and [row.mechanism for row in ledger.refusals] == ["policy-level"]


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(level="statistics", questions=["moments", "distance-to", "class-sizes"]),
        Policy(level="record", questions=["describe"]),
    ],
)
def test_refusals_depend_on_rules_and_questions_and_never_on_records(policy: Policy) -> None:
    few = Measure(ROUND[:2], labels=LABELS[:2])
    same = Measure(np.zeros((50, 6)), labels=np.array(["a", "b"] * 25))
    for question in EXACT:
        rule = policy.refusal(question)
        for data in (Measure(ROUND, labels=LABELS), few, same):
            reply = code(Holder(data, policy, Ledger()).answer(question))
            assert (reply == rule) if rule else not reply.startswith("policy-")


def test_fields_out_of_range_are_refused_and_leave_nothing_behind() -> None:
    policy = Policy(level="statistics", questions=["mean-features"])
    holder = Holder(Measure(ROUND), policy, Ledger())
    for question in (
        MeanFeatures(features=-(10**15), bandwidth=1.0, seed=0),
        MeanFeatures(features=7, bandwidth=1.0, seed=0),
    ):
        assert code(holder.answer(question)) == "question-fields"
    assert code(holder.answer(MeanFeatures(features=4, bandwidth=1.0, seed=0))) == "answered"


def test_truth_values_of_yaml_are_no_numbers(tmp_path: Path) -> None:
    for field in ("privacy_epsilon", "privacy_delta", "prediction_decimals", "exact_secure"):
        (tmp_path / "p.yml").write_text(f"{field}: yes\n")
        with pytest.raises(InputError, match="policy-field"):
            Policy.load(tmp_path / "p.yml")


def test_valuing_holders_with_labels_is_refused_by_default_and_goes_on_where_it_is_named() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 4))
    labels = rng.integers(0, 3, 600)
    own = Own(Measure(rng.permutation(x)[:200], labels=labels[:200]))

    def federation(policy: Policy) -> LocalFederation:
        halves = {"a": slice(300), "b": slice(300, None)}
        return LocalFederation({
            name: Holder(Measure(x[rows], labels=labels[rows]), policy, Ledger())
            for name, rows in halves.items()
        })  # fmt: skip

    protocol = contributions("ab", own=own, labels="classes")
    with pytest.raises(RefusedError, match="policy-level"):
        federation(Policy()).run(protocol)
    named = ["class-sizes", "labelled-distance-to"]
    result = federation(Policy(level="statistics", questions=named)).run(protocol)
    assert set(result.shares) == {"a", "b"} and result.disclosure == "statistics"


def test_a_draw_is_told_from_what_looks_like_one() -> None:
    drawn = draw_reference(7, 50, 4)
    assert is_drawn(drawn, 7) and is_drawn(2.0 * drawn - 5.0, 7)
    assert not is_drawn(drawn, 8)
    assert not is_drawn(-drawn, 7)
    assert not is_drawn(np.zeros((50, 4)), 7)
    touched = drawn.copy()
    touched[3, 1] += 1e-4
    assert not is_drawn(touched, 7)
