"""A teacher's boundary: what may be asked of a model, and what leaves it."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from silot import Measure, Policy
from silot.distances.questions import Describe, Records
from silot.distillation.questions import (
    RESOLUTION,
    DescribeTeacher,
    Predict,
    PredictNoise,
    ReleasePredictions,
    apply_temperature,
    check_inputs,
    encode_texts,
    find_fault,
    hash_inputs,
    round_probabilities,
)
from silot.distillation.teacher import Teacher
from silot.errors import InputError
from silot.federation import Answer, Failure, Holder, Question
from silot.federation.answer import decode_reply
from silot.federation.message import Message, encode
from silot.federation.question import encode_question
from silot.privacy import Ledger, compose

SECRET = "patient 4711"
X = np.random.default_rng(0).normal(size=(12, 3))
TEXTS = ["good", "bad", "\U0001f600 né\t\u2028", ""]
NOISY = Policy(privacy_epsilon=1.0)


def soft(x: np.ndarray) -> np.ndarray:
    logits = np.stack([x[:, 0], x[:, 1], -x[:, 2], np.zeros(len(x))], axis=1)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def by_length(texts: list[str]) -> np.ndarray:
    return np.array([[0.75, 0.25] if len(text) > 3 else [0.25, 0.75] for text in texts])


class Counting:
    """A model that counts what it is asked."""

    def __init__(self, model: Any = soft) -> None:
        self.model, self.calls = model, 0

    def __call__(self, inputs: Any) -> Any:
        self.calls += 1
        return self.model(inputs)


def asked(teacher: Teacher | Holder, question: Question, **more: Any) -> Answer | Failure:
    return decode_reply(teacher.reply(encode_question(question), **more))


def array(answer: Answer | Failure, name: str = "probabilities") -> np.ndarray:
    assert isinstance(answer, Answer), answer
    return answer.arrays[name]


def code(answer: Answer | Failure) -> str:
    assert isinstance(answer, Failure), answer
    return answer.code


def predict(**more: Any) -> Predict:
    return Predict(**{"labels": 4, "vectors": X} | more)


def simplex(labels: int = 5) -> st.SearchStrategy[np.ndarray]:
    raw = hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.just(labels)),
        elements=st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0, 3.0]) | st.floats(0, 1),
    )
    return raw.filter(lambda a: bool((a.sum(axis=1) > 1e-3).all())).map(
        lambda a: a / a.sum(axis=1, keepdims=True)
    )


def test_the_answer_is_what_the_model_says() -> None:
    np.testing.assert_allclose(array(asked(Teacher(soft), predict())), soft(X), rtol=1e-14)
    found = array(asked(Teacher(by_length), Predict(labels=2, texts=encode_texts(TEXTS))))
    np.testing.assert_array_equal(found, by_length(TEXTS))


def test_texts_arrive_as_they_were_sent() -> None:
    seen: list[list[str]] = []

    def note(texts: list[str]) -> np.ndarray:
        seen.append(texts)
        return by_length(texts)

    asked(Teacher(note), Predict(labels=2, texts=encode_texts(TEXTS)))
    assert seen == [TEXTS]


def test_places_in_a_shared_set_mean_its_inputs() -> None:
    mine = check_inputs(X)
    teacher = Teacher(soft, inputs=X)
    question = Predict(labels=4, indices=np.array([3, 0, 3]), shared=hash_inputs(mine))
    np.testing.assert_allclose(array(asked(teacher, question)), soft(X[[3, 0, 3]]), rtol=1e-14)
    texts = Teacher(by_length, inputs=TEXTS)
    question = Predict(labels=2, indices=np.array([1, 0]), shared=hash_inputs(TEXTS))
    np.testing.assert_array_equal(array(asked(texts, question)), by_length([TEXTS[1], TEXTS[0]]))


def test_inputs_that_differ_in_anything_have_another_digest() -> None:
    kinds = [X, X[::-1], X.T, X[:, :2], np.zeros((1, 3)), -X, TEXTS, TEXTS[::-1], ["", ""]]
    assert len({hash_inputs(check_inputs(kind)) for kind in kinds}) == len(kinds)


@given(simplex(), st.floats(0.05, 20.0), st.integers(-1, 6))
def test_whatever_is_shown_is_a_probability(p: np.ndarray, t: float, decimals: int) -> None:
    question = predict(labels=5, vectors=np.zeros((len(p), 1)), temperature=t, decimals=decimals)
    shown = array(asked(Teacher(lambda x: p), question))
    assert find_fault(shown, p.shape) is None
    if decimals >= 0:
        np.testing.assert_allclose(shown * 10**decimals, np.rint(shown * 10**decimals), atol=1e-9)
        assert np.abs(shown - apply_temperature(p, t)).max() < 10.0**-decimals * (1 + 1e-9)


@given(simplex())
def test_temperature_keeps_the_order_and_goes_from_sure_to_even(p: np.ndarray) -> None:
    np.testing.assert_array_equal(apply_temperature(p, 1.0), p)
    np.testing.assert_allclose(apply_temperature(apply_temperature(p, 2.0), 0.5), p, atol=1e-9)
    assert (apply_temperature(p, 0.01).max(axis=1) >= p.max(axis=1) - 1e-12).all()
    even = apply_temperature(p, 1e9)
    np.testing.assert_allclose(even, (p > 0) / (p > 0).sum(axis=1, keepdims=True), atol=1e-6)


def test_rounding_gives_the_largest_remainders() -> None:
    thirds = np.full((1, 3), 1 / 3)
    np.testing.assert_allclose(round_probabilities(thirds, 2), [[0.34, 0.33, 0.33]], atol=1e-15)
    np.testing.assert_array_equal(round_probabilities(np.array([[0.26, 0.74]]), 0), [[0.0, 1.0]])


def test_noise_is_answered_by_its_mean_alone() -> None:
    answer = asked(Teacher(soft), PredictNoise(labels=4, vectors=X))
    np.testing.assert_allclose(array(answer, "mean"), soft(X).mean(axis=0), rtol=1e-12)
    assert isinstance(answer, Answer)
    assert set(answer.arrays) == {"mean"}
    assert not answer.scalars
    warm = asked(Teacher(soft), PredictNoise(labels=4, vectors=X, temperature=3.0))
    np.testing.assert_allclose(array(warm, "mean"), apply_temperature(soft(X), 3.0).mean(axis=0))


def test_the_same_question_is_answered_once() -> None:
    model = Counting()
    teacher = Teacher(model)
    message = encode_question(predict())
    assert teacher.reply(message) == teacher.reply(message)
    assert model.calls == 1
    asked(teacher, predict(decimals=2))
    assert model.calls == 2


def test_an_exception_leaves_its_type_and_not_its_text() -> None:
    def raises(x: Any) -> Any:
        raise KeyError(SECRET)

    for question in (predict(), PredictNoise(labels=4, vectors=X)):
        reply = Teacher(raises).reply(encode_question(question))
        assert SECRET.encode() not in reply
        assert decode_reply(reply) == Failure("holder-raised", "failed", "KeyError")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (np.full((12, 4), np.nan), "prediction-nan"),
        (np.full((12, 4), np.inf), "prediction-nan"),
        (np.full((12, 4), 0.3), "prediction-simplex"),
        (np.tile([1.5, -0.5, 0.0, 0.0], (12, 1)), "prediction-simplex"),
        (np.full((12, 3), 1 / 3), "prediction-labels"),
        (np.full((11, 4), 0.25), "prediction-rows"),
        (np.full(4, 0.25), "answer-malformed"),
        (np.eye(4, dtype=int)[np.zeros(12, dtype=int)] * 2, "prediction-simplex"),
        (np.full((12, 4), 0.25 + 0j), "answer-malformed"),
        (np.full((12, 4), "a"), "answer-malformed"),
        (None, "answer-malformed"),
    ],
)
def test_a_model_that_gives_no_probabilities_is_a_failure(said: Any, expected: str) -> None:
    assert code(asked(Teacher(lambda x: said), predict())) == expected


def test_single_precision_is_precise_enough() -> None:
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=12).astype(np.float32)
    p[:, 0] += np.float32(3e-6)
    assert find_fault(array(asked(Teacher(lambda x: p), predict())), (12, 4)) is None
    assert code(asked(Teacher(lambda x: p.astype(np.float64)), predict())) == "prediction-simplex"


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16])
def test_a_model_that_is_always_sure_may_say_so_in_whole_numbers(dtype: Any) -> None:
    sure = np.eye(4)[np.arange(12) % 4]
    found = array(asked(Teacher(lambda x: sure.astype(dtype)), predict()))
    np.testing.assert_array_equal(found, sure)


def test_half_precision_is_brought_to_a_sum_of_one() -> None:
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=12).astype(np.float16)
    p[:, 0] += np.float16(4e-3)
    assert find_fault(array(asked(Teacher(lambda x: p), predict())), (12, 4)) is None
    assert code(asked(Teacher(lambda x: p.astype(np.float32)), predict())) == "prediction-simplex"
    p[0, 0] += np.float16(2e-2)
    assert code(asked(Teacher(lambda x: p), predict())) == "prediction-simplex"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (predict(vectors=np.zeros((0, 0))), "question-fields"),
        (predict(texts=encode_texts(TEXTS)), "question-fields"),
        (predict(vectors=np.zeros((2, 0, 3)), texts=np.zeros(0, np.uint8)), "question-fields"),
        (predict(vectors=np.full((2, 2), np.nan)), "question-fields"),
        (predict(vectors=np.zeros(3)), "question-fields"),
        (predict(vectors=np.zeros((0, 0)), texts=np.frombuffer(b'["a"', np.uint8)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), texts=np.frombuffer(b"[1]", np.uint8)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), texts=np.frombuffer(b"[]", np.uint8)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), texts=np.frombuffer(b"\xff\xfe", np.uint8)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), texts=np.frombuffer(b"[" * 99999, np.uint8)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), indices=np.array([12]), shared=hash_inputs(X)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), indices=np.array([-1]), shared=hash_inputs(X)),
         "question-fields"),
        (predict(vectors=np.zeros((0, 0)), indices=np.array([0]), shared=hash_inputs(X + 1)),
         "inputs-mismatch"),
        (predict(vectors=np.zeros((0, 0)), indices=np.array([0])), "inputs-mismatch"),
        (predict(vectors=np.zeros((17, 3))), "batch-large"),
        (predict(vectors=np.zeros((0, 0)), texts=encode_texts(["a"] * 17)), "batch-large"),
        (predict(vectors=np.zeros((0, 0)), indices=np.zeros(17, np.int64), shared=hash_inputs(X)),
         "batch-large"),
        (predict(labels=1), "question-fields"),
        (predict(labels=1 << 40), "question-fields"),
        (Describe(), "teacher-question"),
        (Records(), "teacher-question"),
    ],
)  # fmt: skip
def test_what_is_no_question_never_reaches_the_model(question: Question, expected: str) -> None:
    model = Counting()
    assert code(asked(Teacher(model, inputs=X, most_inputs=16), question)) == expected
    assert model.calls == 0


@pytest.mark.parametrize("more", [{"temperature": 0.0}, {"temperature": math.nan}, {"decimals": 13},
                                  {"temperature": -1.0}, {"decimals": -2}])  # fmt: skip
def test_options_out_of_range_are_a_failure(more: dict[str, Any]) -> None:
    assert code(asked(Teacher(soft), predict(**more))) == "question-fields"


@given(st.binary(max_size=300))
def test_no_bytes_make_a_teacher_raise(data: bytes) -> None:
    assert isinstance(decode_reply(Teacher(soft).reply(data)), Failure)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_changed_byte_makes_a_teacher_raise(place: int, value: int) -> None:
    data = bytearray(encode_question(predict(vectors=X[:2])))
    data[place % len(data)] = value
    decode_reply(Teacher(soft).reply(bytes(data)))


def test_a_teacher_has_no_records_and_a_holder_no_model() -> None:
    holder = Holder(Measure(X), Policy.open(), Ledger())
    for question in (
        predict(), PredictNoise(labels=4, vectors=X), DescribeTeacher(),
        ReleasePredictions(labels=4, vectors=X, privacy_mu=0.1),
    ):  # fmt: skip
        assert code(asked(holder, question)) == "teacher-absent"
    assert holder._ledger is not None
    assert holder._ledger.spent == 0.0


def test_a_teacher_without_a_policy_predicts_and_one_that_counts_does_not() -> None:
    teacher = Teacher(soft, size=100, ledger=Ledger())
    assert isinstance(asked(teacher, predict()), Answer)
    release = ReleasePredictions(labels=4, vectors=X, privacy_mu=0.1)
    closed = Teacher(soft, policy=Policy(privacy_epsilon=None), ledger=Ledger())
    assert code(asked(closed, release)) == "policy-budget"
    assert code(asked(Teacher(soft, policy=Policy(), ledger=Ledger()), predict())) == "policy-level"


def test_what_is_told_of_a_teacher_follows_its_policy() -> None:
    def told(**more: Any) -> dict[str, Any]:
        teacher = Teacher(soft, size=100, labels=("a", "b", "c", "d"), inputs=X, parts=3, **more)
        answer = asked(teacher, DescribeTeacher())
        assert isinstance(answer, Answer), answer
        assert not answer.arrays
        return dict(answer.scalars)

    public = {
        "parts": 3, "labels": '["a", "b", "c", "d"]', "inputs": 12, "shared": hash_inputs(X),
    }  # fmt: skip
    assert told() == public | {"size": 100}
    exact = Policy(level="statistics", questions=frozenset({"describe-teacher"}))
    assert told(policy=exact) == public | {"size": 100}
    # Beside answers with noise nothing exact is told, whatever the policy would allow.
    for policy in (Policy(), Policy.open(), NOISY):
        teacher = Teacher(soft, size=100, policy=policy)
        answer = asked(teacher, DescribeTeacher(private=True))
        assert isinstance(answer, Answer)
        assert answer.scalars == {"parts": 1}
    # A budget bounds all answers only where no exact number is told beside them.
    assert told(policy=NOISY) == public
    silent = Teacher(soft, policy=Policy(questions=frozenset({"predict"})))
    assert code(asked(silent, DescribeTeacher())) == "policy-question"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(level="statistics", questions=frozenset({"predict"})), "policy-level"),
        (NOISY, "policy-level"),
        (Policy(level="record", questions=frozenset({"predict-noise"})), "policy-question"),
    ],
)
def test_a_policy_refuses_before_the_model_is_asked(policy: Policy, expected: str) -> None:
    model = Counting()
    teacher = Teacher(model, size=100, policy=policy)
    assert asked(teacher, predict()) == Failure(expected, "refused")
    assert teacher.answer(predict()) == Failure(expected, "refused")
    assert model.calls == 0


def test_a_stricter_policy_stops_what_was_answered_before() -> None:
    teacher = Teacher(soft)
    assert isinstance(asked(teacher, predict()), Answer)
    teacher.policy = Policy()
    assert code(asked(teacher, predict())) == "policy-level"


def test_only_those_named_are_answered() -> None:
    teacher = Teacher(soft, askers={"hospital"})
    assert isinstance(asked(teacher, predict(), asker="hospital"), Answer)
    assert asked(teacher, predict(), asker="stranger") == Failure("policy-asker", "refused")
    assert asked(teacher, DescribeTeacher()) == Failure("policy-asker", "refused")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"predict": 3}, "teacher-model"),
        ({"size": 0}, "option-size"),
        ({"parts": 0}, "option-parts"),
        ({"parts": 1.5}, "option-parts"),
        ({"predict": [soft, soft], "parts": 3}, "option-parts"),
        ({"predict": []}, "teacher-model"),
        ({"predict": [soft, 3]}, "teacher-model"),
        ({"labels": "ab"}, "label-names"),
        ({"askers": "ab"}, "label-names"),
        ({"most_inputs": 0}, "option-inputs"),
        ({"inputs": "abc"}, "inputs-texts"),
        ({"inputs": ["a", 1]}, "inputs-texts"),
        ({"inputs": ["\ud800"]}, "inputs-texts"),
        ({"inputs": [[np.nan]]}, "measure-nan"),
        ({"inputs": []}, "measure-shape"),
    ],
)
def test_options_of_a_teacher_are_checked(options: dict[str, Any], expected: str) -> None:
    given: dict[str, Any] = {"predict": soft, **options}
    with pytest.raises(InputError) as caught:
        Teacher(**given)
    assert caught.value.code == expected


# Noise


def release(**more: Any) -> ReleasePredictions:
    return ReleasePredictions(**{"labels": 4, "vectors": X, "privacy_mu": 0.1} | more)


def noisy_teacher(model: Any = soft, **more: Any) -> tuple[Teacher, Ledger]:
    ledger = Ledger()
    return Teacher(model, policy=NOISY, ledger=ledger, **more), ledger


@given(
    st.integers(1, 4), st.integers(2, 5), st.integers(1, 7), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_one_part_moves_the_vector_by_no_more_than_the_sensitivity(
    parts: int, labels: int, rows: int, mean: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sharp = rng.choice([0.01, 0.1, 10.0])
    models = rng.dirichlet(np.full(labels, sharp), size=(parts, rows))
    changed = models.copy()
    changed[rng.integers(parts)] = np.eye(labels)[rng.integers(labels, size=rows)]
    question = release(labels=labels, vectors=np.zeros((rows, 1)), parts=parts, mean=mean)
    apart = question.vector(models.mean(axis=0)) - question.vector(changed.mean(axis=0))
    assert np.linalg.norm(apart) <= question.sensitivity


def test_the_sensitivity_is_no_larger_than_it_must_be() -> None:
    one, other = np.tile([1.0, 0.0, 0.0, 0.0], (12, 1)), np.tile([0.0, 1.0, 0.0, 0.0], (12, 1))
    apart = release().vector(one) - release().vector(other)
    assert np.linalg.norm(apart) > 0.9999 * release().sensitivity
    assert release().sensitivity / RESOLUTION == pytest.approx(math.sqrt(24), rel=1e-5)
    assert release(parts=10).sensitivity / RESOLUTION == pytest.approx(math.sqrt(24) / 10, rel=1e-4)
    single = release(vectors=X[:1])
    assert release().noise == pytest.approx(math.sqrt(12) * single.noise)
    assert release(mean=True).noise == pytest.approx(single.noise)


def test_rounding_is_part_of_the_sensitivity() -> None:
    parts = 10**7
    below, above = (np.array([[a, a, b, b]]) for a, b in ((0.49, 0.51), (0.51, 0.49)))
    base = RESOLUTION / 4 - np.array([0.0, 0.0, 1.0, 1.0])
    question = release(vectors=X[:1], parts=parts)
    one, other = ((base + each) / RESOLUTION for each in (below, above))
    assert np.linalg.norm(one - other) < np.sqrt(2) / parts
    apart = np.linalg.norm(question.vector(one) - question.vector(other))
    assert RESOLUTION * np.sqrt(2) / parts < apart <= question.sensitivity


def test_noise_is_as_wide_as_it_says() -> None:
    p = np.tile([0.1, 0.2, 0.3, 0.4], (4096, 1))
    question = release(vectors=np.zeros((4096, 1)), privacy_mu=0.2, parts=50)
    teacher, _ = noisy_teacher(lambda x: p[: len(x)], parts=50)
    found = array(asked(teacher, question), "noisy") / RESOLUTION - p
    assert found.std() == pytest.approx(question.noise, rel=0.03)
    assert abs(found.mean()) < 5 * question.noise / math.sqrt(found.size)


def test_a_release_is_charged_once_and_answered_the_same_for_ever() -> None:
    model = Counting()
    teacher, ledger = noisy_teacher(model)
    first, again = asked(teacher, release()), asked(teacher, release(), asker="another")
    assert ledger.spent == pytest.approx(0.1)
    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert (first.scalars["charged_mu"], again.scalars["charged_mu"]) == (0.1, 0.0)
    np.testing.assert_array_equal(array(first, "noisy"), array(again, "noisy"))
    calls = model.calls
    asked(teacher, release(vectors=X[:5], mean=True))
    assert ledger.spent == pytest.approx(compose([0.1, 0.1]))
    assert model.calls > calls


def test_a_release_over_the_budget_answers_and_charges_nothing() -> None:
    teacher, ledger = noisy_teacher()
    asked(teacher, release(privacy_mu=0.2))
    answer = asked(teacher, release(privacy_mu=0.19))
    assert isinstance(answer, Failure)
    assert (answer.code, answer.kind) == ("ledger-budget", "refused")
    assert set(answer.numbers) >= {"spent_mu", "asked_mu", "left_mu", "spent_epsilon"}
    assert ledger.spent == pytest.approx(0.2)
    # What was told before may be told again.
    assert isinstance(asked(teacher, release(privacy_mu=0.2)), Answer)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (release(parts=2), "parts-mismatch"),
        (release(parts=0), "question-fields"),
        (release(labels=3), "prediction-labels"),
        (release(embedding="full"), "release-embedding"),
        (release(vectors=np.zeros((0, 0))), "question-fields"),
        (release(vectors=np.zeros((5000, 1))), "batch-large"),
        (release(privacy_mu=-1.0), "option-mu"),
        (release(privacy_mu=1e-20), "option-mu"),
    ],
)
def test_what_fails_without_the_records_is_not_charged(question: Question, expected: str) -> None:
    model = Counting()
    teacher, ledger = noisy_teacher(model, labels=("a", "b", "c", "d"))
    assert code(asked(teacher, question)) == expected
    # Whether a model fails is made of the records: it is asked after the charge alone.
    assert model.calls == 0
    assert ledger.spent == 0.0
    assert ledger.find("0" * 64) is None


def test_without_a_ledger_there_are_no_releases() -> None:
    assert code(asked(Teacher(soft, policy=NOISY), release())) == "ledger-absent"


def test_a_broken_prediction_does_not_tell_itself_by_a_failure() -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        p = soft(x)
        p[:1], p[1:2] = np.nan, 7.0
        return p

    teacher, ledger = noisy_teacher(broken, parts=10_000)
    found = array(asked(teacher, release(parts=10_000)), "noisy") / RESOLUTION
    np.testing.assert_allclose(found[:2], 0.25, atol=0.05)
    np.testing.assert_allclose(found[2:], soft(X)[2:], atol=0.05)
    assert teacher.replaced == 2
    assert ledger.spent == pytest.approx(0.1)


def failing(x: Any) -> Any:
    raise KeyError(SECRET)


def leaving(x: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "broken",
    [
        failing,
        leaving,
        lambda x: None,
        lambda x: soft(x)[:, :3],
        lambda x: soft(x)[1:],
        lambda x: [[0.5, 0.5], [1.0]],
        lambda x: np.full((len(x), 4), "a"),
        lambda x: np.full((len(x), 4), np.nan),
    ],
)
def test_a_model_that_fails_is_not_to_be_told_from_a_uniform_one(broken: Any) -> None:
    teacher, ledger = noisy_teacher(broken, parts=10_000)
    found = array(asked(teacher, release(parts=10_000)), "noisy") / RESOLUTION
    np.testing.assert_allclose(found, 0.25, atol=0.05)
    assert teacher.replaced == 12
    assert ledger.spent == pytest.approx(0.1)


def test_a_part_that_fails_moves_the_mean_by_its_share() -> None:
    def shaky(x: np.ndarray) -> np.ndarray:
        p = soft(x)
        p[0] = np.nan
        return p

    parts, exact = 1000, soft(X)
    teacher, _ = noisy_teacher([soft] * (parts - 2) + [failing, shaky])
    question = release(parts=parts)
    found = array(asked(teacher, question), "noisy") / RESOLUTION
    # Six deviations: one false alarm in ten million, for 48 numbers.
    np.testing.assert_allclose(found, exact, atol=6 * question.noise + 2 / parts)
    assert teacher.replaced == 13


def test_several_models_are_a_teacher_of_so_many_parts() -> None:
    def even(x: np.ndarray) -> np.ndarray:
        return np.full((len(x), 4), 0.25)

    teacher = Teacher([soft, even, even])
    np.testing.assert_allclose(array(asked(teacher, predict())), (soft(X) + 0.5) / 3, rtol=1e-12)
    told = asked(teacher, DescribeTeacher())
    assert isinstance(told, Answer)
    assert told.scalars["parts"] == 3
    assert code(asked(Teacher([soft, failing]), predict())) == "holder-raised"


def test_neither_a_reply_nor_the_ledger_holds_more_than_noisy_numbers() -> None:
    teacher, ledger = noisy_teacher(size=1 << 62)
    answer = asked(teacher, release())
    assert isinstance(answer, Answer)
    assert set(answer.arrays) == {"noisy"}
    assert set(answer.scalars) == {"charged_mu"}
    exact = release().vector(soft(X))
    assert not np.isin(exact, array(answer, "noisy")).all()
    assert all(exact.tobytes() not in repr(row).encode() for row in ledger.entries())


def test_questions_of_the_wrong_type_are_refused_by_the_codec() -> None:
    plain = {"labels": 4, "temperature": 1.0, "decimals": -1, "shared": "", "embedding": "none"}
    arrays = {
        "vectors": X, "texts": np.zeros(0), "indices": np.zeros(0, dtype=np.int64),
    }  # fmt: skip
    message = encode(Message("question", "predict", plain, arrays))  # type: ignore[arg-type]
    assert code(decode_reply(Teacher(soft).reply(message))) == "question-fields"


def test_an_owner_may_have_predictions_rounded_before_anything_else() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.dirichlet(np.ones(4)), np.eye(4)
    known = {0.0: near, **{k + 1.0: row for k, row in enumerate(far)}}

    def model(x: np.ndarray) -> np.ndarray:
        return np.stack([known[float(row[0])] for row in x])

    teacher = Teacher(model, policy=Policy(level="record", prediction_decimals=2))
    vectors = np.zeros((1, 1))
    coarse = round_probabilities(near[None], 2)
    assert np.abs(coarse - near).max() > 1e-3
    told = array(asked(teacher, Predict(labels=4, vectors=vectors)), "probabilities")
    np.testing.assert_array_equal(told, coarse)
    sharp = array(
        asked(teacher, Predict(labels=4, vectors=vectors, temperature=0.1)), "probabilities"
    )
    np.testing.assert_array_equal(sharp, apply_temperature(coarse, 0.1))
    # Copies of an input among others, in many mixtures: rounded means of what is not rounded
    # give further digits of it.
    for copies in range(1, 30):
        mixed = np.concatenate([np.zeros((copies, 1)), [[1.0], [2.0], [3.0], [4.0]]])
        mean = array(asked(teacher, PredictNoise(labels=4, vectors=mixed)), "mean")
        expected = (copies * coarse[0] + far.sum(axis=0)) / (copies + 4)
        np.testing.assert_allclose(mean, expected, rtol=1e-12)


@pytest.mark.parametrize("parts", [1, 3])
def test_models_of_parts_are_rounded_together(parts: int) -> None:
    teacher = Teacher([soft] * parts, policy=Policy(level="record", prediction_decimals=1))
    told = array(asked(teacher, predict(vectors=X)), "probabilities")
    np.testing.assert_array_equal(told, round_probabilities(soft(X), 1))
