"""A coordinator that chooses its questions to single records out, against the default policy."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from silot import Holder, LocalFederation, Measure, Own, Policy
from silot.errors import RefusedError
from silot.federation import (
    Answer,
    DistanceTo,
    DomainErrors,
    DomainScores,
    Failure,
    InterpolantCosts,
    Interpolate,
    InterpolateByClass,
    LabelledDistanceTo,
    MeanFeatures,
    ProjectedQuantiles,
    Question,
    Spread,
    TrainDomain,
)
from silot.federation.question import encode_question
from silot.federation.reference import draw_reference, is_drawn
from silot.learning import ModelSpec
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


# ---- classifiers and thresholds that part records -----------------------------------------

FEW = np.random.default_rng(7).normal(size=(12, 3)).round(6)
RECORD_LEVEL = Policy(level="record")


def linear(rows: np.ndarray) -> dict[str, Any]:
    """Classifiers whose log odds are ``rows @ (record, 1)``."""
    return {
        "model": ModelSpec("logistic", (3,), 2).to_text(),
        "parameters": rows,
        "sides": np.zeros(len(rows), dtype=np.int64),
        "centre": np.zeros(3),
        "scale": np.ones(3),
    }


def coordinates() -> DomainScores:
    """The log odds of classifiers that are the coordinates, and a code that ties them."""
    rows = np.zeros((4, 4))
    rows[:3, :3], rows[3, :3] = np.eye(3), [1.0, 0.37, 0.113]
    return DomainScores(**linear(rows), quantiles=12 * 40 + 1)


def untangled(scores: np.ndarray) -> int:
    """Records that one answer to ``coordinates`` gives back."""
    *axes, tied = (np.unique(row.round(9)) for row in scores)
    places = np.array(list(product(*axes)))
    sums = places @ [1.0, 0.37, 0.113]
    found = places[np.abs(sums[:, None] - tied).argmin(axis=0)]
    return sum(bool((np.abs(found - record).max(axis=1) < 1e-6).any()) for record in FEW)


def steps() -> DomainErrors:
    """How many records lie beyond each of 400 thresholds along the first axis."""
    rows = np.tile([1.0, 0.0, 0.0, 0.0], (400, 1))
    return DomainErrors(**linear(rows), thresholds=np.linspace(-3.0, 3.0, 400))


def located(errors: np.ndarray) -> int:
    """Records whose first coordinate lies in a narrow step of the errors."""
    grid = np.linspace(-3.0, 3.0, 400)
    steps = grid[np.flatnonzero(np.diff(errors) < -0.01)]
    return sum(bool((np.abs(steps - x) < 0.02).any()) for x in FEW[:, 0])


def test_scores_of_chosen_classifiers_give_records_back_and_are_refused() -> None:
    told = Holder(Measure(FEW), Policy.open()).answer(coordinates())
    assert isinstance(told, Answer) and untangled(told.arrays["scores"]) == 12
    assert code(Holder(Measure(FEW)).answer(coordinates())) == "policy-level"
    # A holder that lets records out still tells averages of five.
    averages = Holder(Measure(FEW), RECORD_LEVEL).answer(coordinates())
    assert isinstance(averages, Answer)
    assert averages.arrays["scores"].shape == (4, 1)
    assert untangled(averages.arrays["scores"]) == 0


def test_errors_at_many_thresholds_locate_records_and_are_refused() -> None:
    told = Holder(Measure(FEW), Policy.open()).answer(steps())
    assert isinstance(told, Answer) and located(told.arrays["errors"]) == 12
    assert code(Holder(Measure(FEW)).answer(steps())) == "policy-level"
    assert code(Holder(Measure(FEW), RECORD_LEVEL).answer(steps())) == "answer-fine"


def test_no_question_with_classifiers_is_answered_by_default() -> None:
    rows = np.ones((1, 4))
    questions: list[Question] = [
        DomainScores(**linear(rows), quantiles=2),
        DomainErrors(**linear(rows), thresholds=np.zeros(1)),
        TrainDomain(**linear(rows), seeds=np.zeros(1, dtype=np.int64), iterations=1, batch=1,
                    rate=0.1),
    ]  # fmt: skip
    for question in questions:
        assert code_of(question) == "policy-level"
        assert code_of(question, RECORD_LEVEL) == "answered"


def test_a_mean_that_is_one_heavy_record_is_refused() -> None:
    weights = np.full(11, 1e-10)
    weights[0] = 1.0
    heavy = Measure(FEW[:11], weights)
    told = Holder(heavy, Policy.open()).answer(Spread())
    assert isinstance(told, Answer)
    np.testing.assert_allclose(told.arrays["mean"], FEW[0], atol=1e-8)
    for question in (
        Spread(),
        Spread(least=-9),
        MeanFeatures(features=2, bandwidth=1.0, seed=0),
        ProjectedQuantiles(directions=1, quantiles=1, seed=0),
    ):
        assert code(Holder(heavy).answer(question)) == "records-few"
        assert code_of(question) == "answered"


def test_more_numbers_than_the_records_have_are_refused_or_averaged() -> None:
    holder = Holder(Measure(FEW))
    assert code(holder.answer(MeanFeatures(features=8, bandwidth=1.0, seed=0))) == "answer-fine"
    assert code(holder.answer(MeanFeatures(features=6, bandwidth=1.0, seed=0))) == "answered"
    wide = ProjectedQuantiles(directions=9, quantiles=1, seed=0)
    assert code(holder.answer(wide)) == "answer-fine"
    told = holder.answer(ProjectedQuantiles(directions=3, quantiles=12, seed=0))
    assert isinstance(told, Answer) and told.arrays["quantiles"].shape == (3, 2)
