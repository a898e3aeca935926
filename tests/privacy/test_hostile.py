"""Questions made to break a sensitivity or to fail for some records only."""

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances.questions import Describe, DistanceTo, InterpolateByClass
from silot.distances.sketches.questions import SketchRecords, SketchTree
from silot.errors import WireError
from silot.federation import Answer, Failure, Holder, Question
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.privacy import Ledger

pytestmark = pytest.mark.all_cases

ZEROS = np.zeros((8, 2))


def sketch(**changes: object) -> SketchRecords:
    given: dict[str, object] = {
        "privacy_mu": 0.1, "centres": np.zeros((1, 2)), "radius": 1.0, "radius2": 2.0,
    }  # fmt: skip
    return SketchRecords(**{**given, **changes})  # type: ignore[arg-type]


def asked(question: SketchRecords, ledger: Ledger) -> Answer | Failure:
    policy = Policy(privacy_epsilon=1.0)
    holder = Holder(Measure(ZEROS, labels=["a"] * 8), policy, ledger)
    return decode_reply(holder.reply(encode_question(question)))


@pytest.mark.parametrize(
    "changes",
    [
        # Squares of these are 0 or infinite: one record at a centre would move the answer by 2**63.
        {"radius": 5e-324},
        {"radius": 1e-200, "centres": np.full((1, 2), 1e-170)},
        {"radius2": 5e-324},
        {"radius2": 1e-200},
        {"radius2": 1e200},
        {"radius": 0.0},
        {"radius": float("nan")},
        {"radius2": float("inf")},
        # Memory would run out for many records and not for few.
        {"centres": np.zeros((4097, 2))},
        {"classes": "no list"},
        {"classes": '["a", "a"]'},
    ],
)
def test_a_question_made_to_break_the_sensitivity_is_refused_before_the_charge(
    changes: dict[str, object],
) -> None:
    question, ledger = sketch(**changes), Ledger()
    answer = asked(question, ledger)
    assert isinstance(answer, Failure) and answer.code == "question-fields"
    assert ledger.spent == 0.0
    with pytest.raises(WireError):
        question.exact(ZEROS, np.ones(8), np.array(["a"] * 8))


@pytest.mark.parametrize("radius", [1e-100, 1e-50, 1.0, 1e100, 1e150])
@pytest.mark.parametrize("radius2", [1e-100, 1.0, 1e150])
@pytest.mark.parametrize("centre", [0.0, 5e-324, -1e-162, 1e-100, 1.0, 1e150, -1e308])
def test_at_the_ends_of_what_is_allowed_one_record_moves_no_more_than_the_sensitivity(
    radius: float, radius2: float, centre: float
) -> None:
    question = sketch(radius=radius, radius2=radius2, centres=np.array([[centre, 0.0], [0.0, 1.0]]))
    for value in (0.0, 5e-324, 1e-170, 1e-154, 1e-101, 1e-99, 1.0, 1e100, 1e150, 1e300):
        record = np.array([[value, -value]])
        for mass in (1.0, 0.5, 5e-324):
            alone = question.exact(record, np.array([mass])).astype(float)
            assert np.linalg.norm(alone) <= question.sensitivity


@pytest.mark.parametrize(
    "low, high", [(0.0, 5e-324), (-1e308, 1e308), (1.0, np.nextafter(1.0, 2.0)), (-1e-300, 1e-300)]
)
def test_in_any_box_every_record_counts_once_a_level(low: float, high: float) -> None:
    question = SketchTree(privacy_mu=0.1, low=np.full(2, low), high=np.full(2, high), depth=6)
    for value in (0.0, low, high, 5e-324, -5e-324, 1.0, 1e150, -1e150, 1e300, -1e300):
        alone = question.exact(np.array([[value, -value]]), np.ones(1))
        assert alone.min() >= 0 and np.linalg.norm(alone) <= question.sensitivity


ATOMS = np.random.default_rng(1).normal(size=(20, 2))
EQUAL = np.full(20, 0.05)


@pytest.mark.parametrize(
    "question", [Describe(), DistanceTo(reference=ATOMS, reference_weights=EQUAL)]
)
def test_a_holder_of_releases_alone_tells_no_exact_number(question: Question) -> None:
    policy = Policy(privacy_epsilon=1.0)
    answer = Holder(Measure(ATOMS), policy, Ledger()).answer(question)
    assert isinstance(answer, Failure) and answer.code == "policy-level"


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_a_reference_of_weights_that_are_no_masses_is_an_error(weight: float) -> None:
    weights = np.where(np.arange(20) < 5, weight, EQUAL)
    question = DistanceTo(reference=ATOMS, reference_weights=weights)
    answer = Holder(Measure(ATOMS), Policy.open()).answer(question)
    assert isinstance(answer, Failure) and answer.kind == "failed"


@pytest.mark.parametrize("t", [np.nan, np.inf, -0.5, 2.0])
def test_an_interpolant_by_class_lies_between_its_ends(t: float) -> None:
    question = InterpolateByClass(
        target=ATOMS, target_weights=EQUAL, target_codes=np.zeros(20, dtype=np.int64), t=t
    )
    answer = Holder(Measure(ATOMS), Policy(level="record")).answer(question)
    assert isinstance(answer, Failure) and answer.code in ("policy-t", "question-fields")
