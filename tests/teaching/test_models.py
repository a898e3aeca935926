"""Questions about models, over bytes and under policies."""

from typing import Any

import numpy as np
import pytest

from silot.data.measure import Measure
from silot.distances.questions import LabelledRecords, Moments, encode_classes
from silot.federation import Answer, Failure, Holder, Policy, Question
from silot.federation.answer import decode_reply
from silot.federation.disclosure import Disclosure
from silot.federation.question import decode_question, encode_question
from silot.privacy import Ledger
from silot.teaching.federated import (
    Model,
    ModelSpec,
    initial,
    probabilities,
    random_features,
    train,
)
from silot.teaching.questions import (
    ClassFeatures,
    CountLabelled,
    EvaluateCombination,
    ScoreModels,
    TrainModel,
    singles,
)

SPEC = ModelSpec("logistic", (2,), 2)
CLASSES = encode_classes(["a", "b"])
TEXT = SPEC.to_text()


def cloud(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return x, np.where(x[:, 0] > 0, "b", "a")


def ask(holder: Holder, question: Question) -> Answer | Failure:
    return decode_reply(holder.reply(encode_question(question)))


def told(holder: Holder, question: Question) -> Answer:
    answer = ask(holder, question)
    assert isinstance(answer, Answer), answer
    return answer


def code(holder: Holder, question: Question) -> str:
    answer = ask(holder, question)
    assert isinstance(answer, Failure)
    return answer.code


def combination(**fields: Any) -> Model:
    own = np.stack([initial(SPEC, 0), np.array([1.0, 0.0, 0.5])])
    return Model(
        spec=SPEC, classes=("a", "b"), parameters=own, weights=np.array([0.25, 0.75]), **fields
    )


_LONG = np.zeros(9, np.float32)
QUESTIONS: list[Question] = [
    CountLabelled(),
    TrainModel(model=TEXT, classes=CLASSES, folds=2),
    ClassFeatures(classes=CLASSES, features=8, bandwidth=1.0),
    EvaluateCombination.about(combination(factors=np.ones((2, 2)))),
    ScoreModels(
        model=TEXT,
        classes=CLASSES,
        parameters=np.zeros((2, 3), np.float32),
        weights=np.full(2, 0.5),
        trained=np.ones((2, 2), dtype=np.int64),
        factors=np.ones((1, 2, 2)),
        moves=np.array([[[1.0], [0.0]]]),
    ),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.kind)
def test_questions_survive_the_wire(question: Question) -> None:
    back = decode_question(encode_question(question))
    assert type(back) is type(question)
    for name, value in vars(question).items():
        np.testing.assert_array_equal(getattr(back, name), value)


def test_labelled_and_unlabelled_records_are_counted() -> None:
    x, y = cloud()
    marked = np.where(np.arange(40) < 25, y, "-1")
    holder = Holder(Measure(x, labels=marked), Policy.open())
    answer = told(holder, CountLabelled(unlabelled="-1"))
    assert answer.scalars["labelled"] == 25
    assert answer.scalars["unlabelled"] == 15
    assert answer.scalars["classes"] == CLASSES
    numbers = [(marked == name).sum() for name in "ab"]
    np.testing.assert_array_equal(answer.arrays["counts"], numbers)
    assert answer.number("variance") == pytest.approx(x.var(axis=0).sum())
    bare = told(Holder(x, Policy.open()), CountLabelled())
    assert bare.scalars["labelled"] == 0
    assert bare.scalars["unlabelled"] == 40
    weights = np.where(np.arange(40) < 10, 0.0, 1.0)
    part = told(Holder(Measure(x, weights, marked), Policy.open()), CountLabelled(unlabelled="-1"))
    assert part.scalars["labelled"] == 15


def test_a_model_is_trained_on_labelled_records_alone() -> None:
    x, y = cloud()
    marked = np.where(np.arange(40) < 25, y, "")
    marked[3] = "strange"
    question = TrainModel(model=TEXT, classes=CLASSES, iterations=30, rate=0.3, folds=4, seed=2)
    answer = told(Holder(Measure(x, labels=marked), Policy.open()), question)
    used = np.isin(marked, ["a", "b"])
    codes = (marked[used] == "b").astype(int)
    expected = train(SPEC, initial(SPEC, 2), x[used], codes, iterations=30, rate=0.3, seed=2)
    np.testing.assert_array_equal(answer.arrays["parameters"], singles(expected))
    wrong = probabilities(SPEC, expected, x[used]).argmax(axis=1) != codes
    assert answer.scalars["error"] == wrong.mean()
    assert 0 <= answer.number("held_out") <= 1


def test_what_marks_no_label_is_no_class_even_when_it_is_listed() -> None:
    x, y = cloud()
    marked = np.where(np.arange(40) < 25, y, "c")
    spec = ModelSpec("logistic", (2,), 3).to_text()
    question = TrainModel(model=spec, classes=encode_classes(["a", "b", "c"]), unlabelled="c")
    answer = told(Holder(Measure(x, labels=marked), Policy.open()), question)
    used = marked != "c"
    codes = (marked[used] == "b").astype(int)
    law = ModelSpec.from_text(spec)
    np.testing.assert_array_equal(
        answer.arrays["parameters"], singles(train(law, initial(law, 0), x[used], codes))
    )


def test_parameters_either_way_are_records_to_a_policy_and_statistics_are_not() -> None:
    x, y = cloud()
    kinds = {question.kind for question in QUESTIONS} | {"count-labelled"}
    rules = Policy(level="statistics", questions=frozenset(kinds))
    holder = Holder(Measure(x, labels=y), rules, Ledger(), Measure(x, labels=y))
    assert isinstance(ask(holder, CountLabelled(classes=CLASSES)), Answer)
    for question in QUESTIONS:
        if question.level == Disclosure.RECORD:
            assert code(holder, question) == "policy-level", question.kind
    strict = Holder(Measure(x, labels=y), evaluation=Measure(x, labels=y))
    for question in [*QUESTIONS, CountLabelled(classes=CLASSES)]:
        assert code(strict, question) == "policy-level"


def test_features_are_means_by_class_and_of_all() -> None:
    x, y = cloud()
    marked = np.where(np.arange(40) < 30, y, "")
    holder = Holder(Measure(x, labels=marked), Policy.open())
    question = ClassFeatures(classes=CLASSES, features=64, bandwidth=0.7, seed=3)
    answer = told(holder, question)
    lifted = random_features(x, features=64, bandwidth=0.7, seed=3)
    np.testing.assert_allclose(answer.arrays["mean"], lifted.mean(axis=0))
    for row, name in enumerate("ab"):
        np.testing.assert_allclose(answer.arrays["means"][row], lifted[marked == name].mean(axis=0))
        assert answer.arrays["counts"][row] == (marked == name).sum()


def test_only_evaluation_questions_see_evaluation_records() -> None:
    x, y = cloud()
    truth = np.array(["b"] * 20)
    sure = np.array([0.0, 0.0, 9.0])
    holder = Holder(Measure(x), Policy.open(), evaluation=Measure(np.zeros((20, 2)), labels=truth))
    question = EvaluateCombination.about(Model.of(SPEC, ("a", "b"), sure))
    answer = told(holder, question)
    assert answer.scalars == {"accuracy": 1.0}
    assert told(holder, CountLabelled()).scalars["unlabelled"] == 40
    assert code(holder, LabelledRecords(classes=CLASSES)) == "labels-absent"
    mean = told(holder, Moments()).array("mean", ndim=1)
    np.testing.assert_allclose(mean, x.mean(axis=0))
    # Without evaluation records the labels of the holder itself are not used instead.
    assert code(Holder(Measure(x, labels=y), Policy.open()), question) == "evaluation-absent"


def test_evaluation_records_without_labels_are_refused() -> None:
    x, _ = cloud()
    marked = np.array(["a"] * 10)
    holder = Holder(x, Policy.open(), evaluation=Measure(x[:10], labels=marked))
    question = EvaluateCombination.about(combination(), unlabelled="a")
    assert code(holder, question) == "labels-few"


def test_a_class_nobody_teaches_counts_as_a_mistake() -> None:
    holder = Holder(
        np.zeros((5, 2)), Policy.open(),
        evaluation=Measure(np.zeros((4, 2)), labels=["b", "b", "b", "new"]),
    )  # fmt: skip
    model = Model.of(SPEC, ("a", "b"), np.array([0, 0, 9.0]))
    answer = told(holder, EvaluateCombination.about(model))
    assert answer.scalars["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (TrainModel(model="{}", classes=CLASSES), "model-text"),
        (TrainModel(model=TEXT, classes="["), "question-fields"),
        (TrainModel(model=TEXT, classes=CLASSES, iterations=10**7), "question-fields"),
        (TrainModel(model=TEXT, classes=CLASSES, passes=float("inf")), "question-fields"),
        (TrainModel(model=TEXT, classes=encode_classes(["x", "y"])), "labels-absent"),
        (
            TrainModel(model=ModelSpec("logistic", (3,), 2).to_text(), classes=CLASSES),
            "dimension-mismatch",
        ),
        (ClassFeatures(classes=CLASSES, features=7, bandwidth=1.0), "option-features"),
    ],
)
def test_nonsense_is_a_failure_with_a_code(question: Question, expected: str) -> None:
    x, y = cloud()
    assert code(Holder(Measure(x, labels=y), Policy.open()), question) == expected


def test_a_holder_without_labels_trains_nothing() -> None:
    x, _ = cloud()
    assert code(Holder(x, Policy.open()), QUESTIONS[1]) == "labels-absent"
