"""A coordinator that chooses its questions to single records out, against the default policy."""

from typing import Any

import numpy as np
import pytest

from silot import Holder, LocalFederation, Measure, Own, Policy
from silot.errors import RefusedError
from silot.federation import (
    Answer,
    DistanceTo,
    Failure,
    InterpolantCosts,
    Interpolate,
    InterpolateByClass,
    LabelledDistanceTo,
    Question,
)
from silot.federation.question import encode_question
from silot.federation.reference import draw_reference, is_drawn
from silot.protocols import contributions, trianglewad

RECORDS = np.random.default_rng(11).normal(size=(600, 3)) @ np.diag([1.0, 5.0, 0.2]) + 40.0
CLOUD = draw_reference(0, 20, 3)


def even(size: int) -> np.ndarray:
    return np.full(size, 1.0 / size)


def cells(size: int = 20, *, seed: int = 0, t: float = 0.5, **more: Any) -> Interpolate:
    atoms = draw_reference(seed, size, 3)
    return Interpolate(
        reference=atoms, reference_weights=even(size), t=t, on_reference=True, **more
    )


def code_of(question: Question, policy: Policy | None = None) -> str:
    return code(Holder(Measure(RECORDS), policy).answer(question))


def code(answer: Answer | Failure) -> str:
    return answer.code if isinstance(answer, Failure) else "answered"


def chosen(**changes: Any) -> DistanceTo:
    return DistanceTo(**{"reference": CLOUD, "reference_weights": even(20), **changes})


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (chosen(reference=CLOUD[:1], reference_weights=even(1)), "policy-support"),
        (chosen(reference=np.repeat(CLOUD[:1], 20, axis=0)), "policy-support"),
        (chosen(reference=np.where(np.arange(20)[:, None] == 3, 1e6, CLOUD)), "policy-reach"),
        (chosen(reference=np.where(np.arange(20)[:, None] < 19, 1e-9, 1.0) * CLOUD),
         "policy-reach"),
        (chosen(reference_weights=np.arange(1.0, 21.0) / 210.0), "policy-weights"),
        (chosen(reference_weights=np.r_[0.9, np.full(19, 0.1 / 19)]), "policy-weights"),
        (cells(t=1e-9), "policy-t"),
        (cells(seed=1), "policy-reference"),
        (cells(size=60), "policy-cells"),
        (cells(interpolation="exact"), "policy-level"),
        (Interpolate(reference=CLOUD, reference_weights=even(20), t=0.5), "policy-level"),
    ],
)  # fmt: skip
def test_the_default_policy_refuses_each_with_its_own_code(
    question: Question, expected: str
) -> None:
    assert code_of(question) == expected
    assert code_of(question, Policy.open()) in ("answered", "option-t")


def test_cell_means_of_many_records_from_the_committed_reference_are_told_without_distances() -> (
    None
):
    answer = Holder(Measure(RECORDS)).answer(cells())
    assert isinstance(answer, Answer)
    assert set(answer.scalars) == {"geodesic", "optimal", "gap"}
    # A public shift and scale of the draw is the same reference.
    moved = cells()
    moved = Interpolate(reference=3.0 + 2.0 * moved.reference, reference_weights=even(20), t=0.5,
                        on_reference=True)  # fmt: skip
    assert code_of(moved) == "answered"


def test_cell_means_for_another_number_of_atoms_are_refused_afterwards() -> None:
    holder = Holder(Measure(RECORDS))
    assert code(holder.answer(cells(20))) == "answered"
    assert code(holder.answer(cells(20, t=0.3))) == "answered"
    assert code(holder.answer(cells(21))) == "policy-size"
    assert code(Holder(Measure(RECORDS)).answer(cells(21))) == "answered"


def test_weights_of_records_count_towards_the_size_of_cells() -> None:
    weights = np.ones(600)
    weights[0] = 500.0
    assert code(Holder(Measure(RECORDS, weights)).answer(cells())) == "policy-cells"


def test_the_same_question_gets_the_same_bytes_and_other_distances_come_to_an_end() -> None:
    holder = Holder(Measure(RECORDS), Policy(most_distances=5))
    message = encode_question(chosen())
    assert len({holder.reply(message) for _ in range(20)}) == 1
    told = [code(holder.answer(chosen(reference=CLOUD + k))) for k in range(7)]
    assert told == ["answered"] * 4 + ["policy-repeats"] * 3
    # What was told before is told again.
    assert len({holder.reply(message) for _ in range(3)}) == 1


def test_rules_hold_for_holders_that_let_records_out_too() -> None:
    policy = Policy(level="record")
    assert code_of(cells(60, seed=3), policy) == "answered"
    assert code_of(cells(t=1e-9), policy) == "policy-t"
    heavy = np.arange(1.0, 21.0) / 210.0
    assert code_of(cells(), policy) == "answered"
    question = InterpolantCosts(
        reference=CLOUD, reference_weights=even(20), t=0.5, target=CLOUD, target_weights=heavy
    )
    assert code_of(question, policy) == "policy-weights"


def test_every_atom_as_a_class_of_its_own_does_not_free_its_weight() -> None:
    question = LabelledDistanceTo(
        target=CLOUD,
        target_weights=np.arange(1.0, 21.0) / 210.0,
        target_codes=np.arange(20),
        class_distances=np.zeros((20, 20)),
        class_slack=np.zeros(20),
    )
    assert code_of(question) == "policy-weights"


def test_an_interpolant_by_class_near_zero_is_refused() -> None:
    question = InterpolateByClass(
        target=CLOUD, target_weights=even(20), target_codes=np.zeros(20, dtype=np.int64), t=1e-6
    )
    assert code_of(question, Policy(level="record")) == "policy-t"


def test_a_refusal_in_a_protocol_says_the_rule_and_the_cure() -> None:
    federation = LocalFederation(
        {"a": Holder(Measure(RECORDS), Policy(level="record", reach=3.0)), "b": RECORDS + 1.0}
    )
    far = np.vstack([CLOUD, [[50.0, 50.0, 50.0]]])
    with pytest.raises(RefusedError, match="reach") as caught:
        federation.run(trianglewad("a", "b", reference=far))
    assert caught.value.code == "policy-reach"


def test_valuing_holders_with_labels_goes_on_under_the_default_policy() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 600)
    holders = {
        "a": Holder(Measure(RECORDS[:300], labels=labels[:300])),
        "b": Holder(Measure(RECORDS[300:], labels=labels[300:])),
    }
    own = Own(Measure(rng.permutation(RECORDS)[:200], labels=labels[:200]))
    found = LocalFederation(holders).run(contributions("ab", own=own, labels="classes"))
    assert set(found.shares) == {"a", "b"}


def test_a_draw_is_told_from_what_looks_like_one() -> None:
    drawn = draw_reference(7, 50, 4)
    assert is_drawn(drawn, 7) and is_drawn(2.0 * drawn - 5.0, 7)
    assert not is_drawn(drawn, 8)
    assert not is_drawn(-drawn, 7)
    assert not is_drawn(np.zeros((50, 4)), 7)
    touched = drawn.copy()
    touched[3, 1] += 1e-4
    assert not is_drawn(touched, 7)
