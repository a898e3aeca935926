"""Asking teachers: every answer checked, whoever fails named and left out."""

import signal
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

from silot import Policy
from silot.distillation import LabelSpace
from silot.distillation.protocol import distill
from silot.distillation.questions import (
    DescribeTeacher,
    Predict,
    PredictNoise,
    ReleasePredictions,
    apply_temperature,
    find_fault,
    hash_inputs,
    round_probabilities,
)
from silot.distillation.result import Predictions
from silot.distillation.teacher import Teacher
from silot.errors import HolderError
from silot.federation import Answer, Failure, LocalFederation, Question
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.question import decode_question, encode_question
from silot.privacy import Ledger, mu_of

from ..serving import Distant, model

X = np.random.default_rng(0).normal(size=(50, 2))
NOISE = np.random.default_rng(1).normal(size=(30, 2))
SPACE = LabelSpace([-1.0, 0.0, 1.0], names=["low", "middle", "high"])
NOISY = Policy(privacy_epsilon=1.0)


def even(x: Any) -> np.ndarray:
    return np.full((len(x), 3), 1 / 3)


def skewed(x: Any) -> np.ndarray:
    return np.tile([0.7, 0.2, 0.1], (len(x), 1))


def run(teachers: dict[str, Any], timeout: float | None = None, **options: Any) -> Predictions:
    given = {"labels": SPACE, "noise": NOISE, "question_batch": 8} | options
    inputs = given.pop("inputs", X)
    return LocalFederation(teachers, timeout=timeout).run(distill(list(teachers), inputs, **given))


class Lying:
    """Answers as a teacher does, except to some questions of a kind from some time on."""

    def __init__(self, change: Any, kind: type[Question] = Predict, after: int = 2) -> None:
        self.inner, self.change = Teacher(model, size=9, inputs=X), change
        self.kind, self.after, self.seen = kind, after, 0

    def reply(self, message: bytes) -> bytes:
        reply = self.inner.reply(message)
        if not isinstance(decode_question(message), self.kind):
            return reply
        self.seen += 1
        if self.seen <= self.after:
            return reply
        answer = decode_reply(reply)
        assert isinstance(answer, Answer)
        changed = self.change(answer)
        return changed if isinstance(changed, bytes) else encode_reply(changed)


def with_array(change: Any, name: str = "probabilities") -> Any:
    return lambda answer: Answer({name: change(answer.arrays[name].copy())})


def put(value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return with_array(change)


def raises(answer: Answer) -> Answer:
    raise RuntimeError("the power went")


def test_predictions_are_what_the_models_say_in_the_order_of_names() -> None:
    found = run({"b": Teacher(model, size=7), "a": Teacher(skewed)})
    assert found.names == ("a", "b")
    np.testing.assert_allclose(found.outputs, [skewed(X), model(X)], rtol=1e-13)
    assert found.biases is not None
    np.testing.assert_allclose(
        found.biases, [skewed(NOISE).mean(axis=0), model(NOISE).mean(axis=0)], rtol=1e-12
    )
    assert found.sizes == {"a": None, "b": 7}
    assert found.excluded == {}
    assert found.disclosure == "record"
    assert found.rounds == 1 + 10
    assert "2 of 2" in found.status
    assert run({"a": Teacher(model)}, noise=None).biases is None


@pytest.mark.parametrize("batch", [1, 7, 50, 400])
def test_the_batch_changes_nothing(batch: int) -> None:
    one, other = run({"a": Teacher(model)}), run({"a": Teacher(model)}, question_batch=batch)
    np.testing.assert_array_equal(one.outputs, other.outputs)
    assert one.biases is not None
    assert other.biases is not None
    np.testing.assert_allclose(one.biases, other.biases, rtol=1e-12)


def test_temperature_and_rounding_are_done_at_the_teacher() -> None:
    found = run({"a": Teacher(model)}, temperature=2.5, decimals=2)
    wanted = round_probabilities(apply_temperature(model(X), 2.5), 2)
    np.testing.assert_allclose(found.outputs[0], wanted, atol=1e-12)
    assert found.transcript is not None
    for entry in found.transcript.entries:
        opened = entry.open()
        if isinstance(opened, Answer) and "probabilities" in opened.arrays:
            told = opened.arrays["probabilities"]
            np.testing.assert_allclose(told, np.round(told, 2), atol=1e-12)


@pytest.mark.parametrize(("private", "shared"), [(False, False), (True, False), (False, True)])
def test_nothing_but_probabilities_leaves_a_teacher(private: bool, shared: bool) -> None:
    secret = 31.41592653589793

    def trained(x: Any) -> np.ndarray:
        return apply_temperature(model(x), secret)

    more: dict[str, Any] = {"policy": NOISY, "ledger": Ledger()} if private else {}
    if shared:
        more["inputs"] = X
    teachers = {n: Teacher(trained, size=9, labels=SPACE.names, **more) for n in ("a", "b")}
    if private:
        teachers["b"] = Teacher(trained, policy=NOISY, ledger=Ledger(), labels=SPACE.names)
    found = run(teachers, shared=shared, **({"privacy_epsilon": 1.0} if private else {}))
    assert found.transcript is not None
    kinds: Counter[str] = Counter()
    question: dict[str, Question] = {}
    for entry in found.transcript.entries:
        opened = entry.open()
        if isinstance(opened, Question):
            question[entry.holder] = opened
            continue
        assert isinstance(opened, Answer), opened
        asked = question[entry.holder]
        kinds[asked.kind] += 1
        if isinstance(asked, DescribeTeacher):
            assert not opened.arrays
            told = {"parts": 1, "labels": '["low", "middle", "high"]'}
            if shared:
                told |= {"shared": hash_inputs(X), "inputs": len(X)}
            assert opened.scalars == (told if private else told | {"size": 9})
        elif isinstance(asked, Predict):
            assert set(opened.arrays) == {"probabilities"}
            assert not opened.scalars
            rows = len(asked.indices if shared else asked.vectors)
            assert find_fault(opened.arrays["probabilities"], (rows, 3)) is None
        elif isinstance(asked, PredictNoise):
            assert set(opened.arrays) == {"mean"}
            assert not opened.scalars
            assert find_fault(opened.arrays["mean"], (3,)) is None
        else:
            assert isinstance(asked, ReleasePredictions)
            assert set(opened.arrays) == {"noisy"}
            assert set(opened.scalars) == {"charged_mu"}
            assert opened.arrays["noisy"].shape == (asked.rows, 3)
    expected = {"describe-teacher", "release-predictions"} if private else {
        "describe-teacher", "predict", *(["predict-noise"] if shared else [])
    }  # fmt: skip
    assert set(kinds) == expected
    assert found.disclosure == ("private" if private else "record")


def test_every_input_is_asked_once() -> None:
    seen: list[np.ndarray] = []

    def note(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return model(x)

    run({"a": Teacher(note)}, noise=None)
    np.testing.assert_array_equal(np.concatenate(seen), X)


def test_noise_is_asked_among_the_inputs() -> None:
    """No question says which of its inputs are noise, and their order does not tell."""
    seen: list[np.ndarray] = []

    def note(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return model(x)

    found = run({"a": Teacher(note)})
    assert found.transcript is not None
    kinds = {type(e.open()) for e in found.transcript.entries if e.direction == "sent"}
    assert kinds == {DescribeTeacher, Predict}
    asked = np.concatenate(seen)
    unmeant = (asked[:, None] == NOISE).all(axis=2).any(axis=1)
    assert np.sort(asked, axis=0).tolist() == np.sort(np.concatenate([X, NOISE]), axis=0).tolist()
    # Both halves of what is asked have noise, and neither kind is in its order.
    assert 5 < unmeant[:40].sum() < 25
    assert asked[unmeant].tolist() != NOISE.tolist()
    assert asked[~unmeant].tolist() != X.tolist()


def test_texts_and_shared_sets() -> None:
    texts = [f"{'long' * (i % 3)} {i}" for i in range(20)]

    def by_length(given: list[str]) -> np.ndarray:
        return np.eye(3)[[len(text.split(" ")[0]) // 4 for text in given]]

    sent = run({"a": Teacher(by_length)}, inputs=texts, noise=["", "long x"])
    np.testing.assert_array_equal(sent.outputs[0], by_length(texts))
    others = {
        "a": Teacher(by_length, inputs=texts),
        "b": Teacher(by_length, inputs=texts[::-1]),
        "c": Teacher(by_length),
    }
    found = run(others, inputs=texts, noise=None, shared=True)
    np.testing.assert_array_equal(found.outputs, sent.outputs)
    assert found.excluded == {"b": "inputs-mismatch", "c": "inputs-absent"}
    assert found.transcript is not None
    assert all(b"long" not in entry.payload for entry in found.transcript.entries)


FAULTS = [
    (put(np.nan), "prediction-nan"),
    (put(np.inf), "prediction-nan"),
    (put(-0.5), "prediction-simplex"),
    (with_array(lambda a: a * (1 + 3e-6)), "prediction-simplex"),
    (with_array(lambda a: a[:, :2]), "prediction-labels"),
    (with_array(lambda a: np.concatenate([a, 0 * a[:, :1]], axis=1)), "prediction-labels"),
    (with_array(lambda a: a[1:]), "prediction-rows"),
    (with_array(lambda a: a[None]), "answer-malformed"),
    (with_array(lambda a: a.astype(np.float32)), "answer-malformed"),
    (with_array(lambda a: np.rint(a).astype(np.int64)), "answer-malformed"),
    (lambda answer: Answer(), "answer-malformed"),
    (lambda answer: Answer(scalars={"probabilities": 0.5}), "answer-malformed"),
    (lambda answer: Failure("policy-level", "refused"), "policy-level"),
    (lambda answer: b"nonsense", "wire-format"),
    (raises, "holder-raised"),
]


@pytest.mark.parametrize(("change", "code"), FAULTS)
@pytest.mark.parametrize("after", [0, 2, 6])
def test_a_teacher_that_lies_or_fails_is_named_and_leaves_no_trace(
    change: Any, code: str, after: int
) -> None:
    honest = {"a": Teacher(model), "c": Teacher(skewed)}
    found = run(honest | {"b": Lying(change, after=after)})
    assert found.excluded == {"b": code}
    assert "'b'" in found.status
    alone = run(honest)
    assert found.names == alone.names
    np.testing.assert_array_equal(found.outputs, alone.outputs)
    assert found.biases is not None
    assert alone.biases is not None
    np.testing.assert_array_equal(found.biases, alone.biases)
    # Once is enough: it is not asked again.
    assert found.transcript is not None
    asked = [e for e in found.transcript.seen_by("b") if e.direction == "sent"]
    assert len(asked) == 1 + after + 1


@pytest.mark.parametrize(
    ("kind", "change", "code"),
    [
        (PredictNoise, with_array(lambda a: a * np.nan, "mean"), "prediction-nan"),
        (PredictNoise, with_array(lambda a: a[:2], "mean"), "prediction-labels"),
        (PredictNoise, with_array(lambda a: a * 2, "mean"), "prediction-simplex"),
        (PredictNoise, lambda a: Answer({"mean": np.zeros((1, 3))}), "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(), "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 0}), "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": True}), "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "size": -1}), "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "labels": "["}),
         "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "labels": "[1]"}),
         "answer-malformed"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "labels": '["high","lower"]'}),
         "labels-mismatch"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "labels": '["low","low"]'}),
         "labels-mismatch"),
        (DescribeTeacher, lambda a: Answer(scalars={"parts": 1, "shared": 3}), "answer-malformed"),
    ],
)  # fmt: skip
def test_what_it_says_of_noise_and_of_itself_is_checked_too(
    kind: type[Question], change: Any, code: str
) -> None:
    found = run({"a": Teacher(model, inputs=X), "b": Lying(change, kind, after=0)}, shared=True)
    assert found.excluded == {"b": code}
    assert found.names == ("a",)


def test_too_few_teachers_are_an_error_that_names_every_reason() -> None:
    teachers = {
        "a": Teacher(model), "b": Lying(put(np.nan)), "c": Teacher(model, policy=NOISY),
    }  # fmt: skip
    with pytest.raises(HolderError) as caught:
        run(teachers, min_teachers=2)
    assert caught.value.code == "teachers-few"
    assert "'b'" in caught.value.message
    assert "'c'" in caught.value.message
    assert "not finite" in caught.value.message
    assert run(teachers).excluded == {"b": "prediction-nan", "c": "policy-level"}


def test_sizes_are_needed_where_they_are_asked_for() -> None:
    teachers = {
        "a": Teacher(model, size=30),
        "b": Teacher(model),
    }
    assert run(teachers, sizes=True).excluded == {"b": "size-absent"}


def test_labels_are_matched_by_name_where_both_sides_have_names() -> None:
    straight = run({"a": Teacher(model, labels=SPACE.names)})
    other = {"a": Teacher(lambda x: model(x)[:, ::-1], labels=SPACE.names[::-1])}
    turned = run(other)
    np.testing.assert_allclose(turned.outputs, straight.outputs)
    assert turned.biases is not None and straight.biases is not None
    np.testing.assert_allclose(turned.biases, straight.biases)
    # Without names on one side labels are the same in the same order.
    for labels in (3, LabelSpace([0.0, 1.0, 2.0])):
        np.testing.assert_allclose(run(other, labels=labels).outputs[0], model(X)[:, ::-1])
    with pytest.raises(HolderError, match="not in the label space"):
        run({"a": Teacher(model, labels=["low", "middle", "highest"])})


@pytest.mark.parametrize("epsilon", [None, 50.0])
def test_a_teacher_of_some_labels_has_no_mass_on_the_others(epsilon: float | None) -> None:
    few = np.tile([0.9, 0.1], (len(X), 1))
    teacher = Teacher(
        lambda x: few[: len(x)],
        labels=["high", "low"],
        policy=Policy(level="record", privacy_epsilon=100.0),
        ledger=Ledger(),
        parts=50,
    )
    found = run({"a": teacher}, noise=None, privacy_epsilon=epsilon)
    assert found.outputs.shape == (1, len(X), 3)
    assert (found.outputs[..., 1] == 0).all()
    assert abs(found.outputs[..., 2].mean() - 0.9) < 0.1
    assert "some of the labels only" in found.status


def test_a_run_spends_its_epsilon_and_no_more() -> None:
    wide = Policy(privacy_epsilon=3.0)
    ledgers = {name: Ledger() for name in "ab"}
    teachers = {
        "a": Teacher(model, policy=wide, ledger=ledgers["a"], parts=4000),
        "b": Teacher(model, policy=wide, ledger=ledgers["b"]),
    }
    found = run(teachers, privacy_epsilon=2.0)
    mu = mu_of(2.0, 1e-5)
    assert found.privacy_mu == pytest.approx(mu, rel=1e-9)
    assert all(ledger.spent == pytest.approx(mu, rel=1e-9) for ledger in ledgers.values())
    expected = np.sqrt(2 * len(X) / 0.9) / mu
    assert found.noise["b"] == pytest.approx(expected, rel=1e-4)
    assert found.noise["a"] == pytest.approx(expected / 4000, rel=1e-2)
    np.testing.assert_allclose(found.outputs[0], model(X), atol=6 * found.noise["a"])
    assert "larger than the predictions of b:" in found.status
    assert find_fault(found.outputs, found.outputs.shape) is None
    # The same questions are free, and have the same answers.
    again = run(teachers, privacy_epsilon=2.0)
    assert again.privacy_mu == 0.0
    np.testing.assert_array_equal(again.outputs, found.outputs)


def test_temperature_after_the_noise_is_free() -> None:
    teachers = {"a": Teacher(model, policy=NOISY, ledger=Ledger(), parts=4000)}
    found = run(teachers, privacy_epsilon=1.0, noise=None)
    warm = run(teachers, privacy_epsilon=1.0, noise=None, temperature=2.0)
    assert found.privacy_mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)
    assert warm.privacy_mu == 0.0
    np.testing.assert_allclose(warm.outputs, apply_temperature(found.outputs, 2.0), atol=1e-12)


def test_no_exact_size_is_told_beside_noise() -> None:
    # A policy that would tell it, were it not for the noise.
    policy = Policy(level="record", privacy_epsilon=2.0)
    teachers = {"a": Teacher(model, policy=policy, ledger=Ledger(), size=4711, parts=500)}
    found = run(teachers, privacy_epsilon=1.0)
    assert found.sizes == {"a": None}
    assert found.transcript is not None
    answers = [e.open() for e in found.transcript.entries if e.direction == "received"]
    assert all(isinstance(answer, Answer) for answer in answers)
    assert all("size" not in a.scalars for a in answers if isinstance(a, Answer))
    assert run(teachers).sizes == {"a": 4711}


def test_a_model_that_fails_is_excluded_without_noise_only() -> None:
    def breaks(x: Any) -> Any:
        raise RuntimeError("record 7 is ill")

    def teachers() -> dict[str, Any]:
        policy = Policy(level="record", privacy_epsilon=2.0)
        return {n: Teacher(m, policy=policy, ledger=Ledger(), parts=10**6)
                for n, m in (("a", model), ("b", breaks))}  # fmt: skip

    assert run(teachers()).excluded == {"b": "holder-raised"}
    found = run(teachers(), privacy_epsilon=1.0)
    assert found.excluded == {}
    np.testing.assert_allclose(found.outputs[1], 1 / 3, atol=0.01)


@pytest.mark.parametrize("reply", [None, 5, "text", bytearray(b"abc"), [b"abc"]])
def test_a_party_whose_reply_is_no_bytes_is_out_and_the_others_go_on(reply: Any) -> None:
    class Odd:
        def reply(self, message: bytes) -> Any:
            return reply

    found = run({"odd": Odd(), "near": Teacher(skewed)})
    assert found.excluded == {"odd": "wire-format"}
    np.testing.assert_allclose(found.outputs, [skewed(X)], rtol=1e-12)


def test_as_much_noise_as_one_question_brings_is_asked_with_privacy() -> None:
    teachers = {"a": Teacher(model, policy=NOISY, ledger=Ledger(), parts=500)}
    noise = np.resize(NOISE, (4096, 2))
    found = run(teachers, privacy_epsilon=0.5, noise=noise)
    assert found.excluded == {}
    assert found.biases is not None


def test_modules_with_a_common_part_leave_each_other_alone() -> None:
    torch = pytest.importorskip("torch")
    from silot.distillation.fitting import module_predict

    common = torch.nn.Dropout(0.5)
    first, second, seen = threading.Event(), threading.Event(), []

    class Head(torch.nn.Module):
        def __init__(self, mine: threading.Event, other: threading.Event, wait: bool) -> None:
            super().__init__()
            self.common, self.mine, self.other, self.wait = common, mine, other, wait

        def forward(self, x: Any) -> Any:
            if self.wait:
                self.mine.set()
                # The other must not begin before this one is done: this waits in vain.
                self.other.wait(0.3)
            else:
                self.mine.set()
                threads[0].join(60.0)
                seen.append(common.training)
            return self.common(x)

    def ask(head: Any) -> None:
        module_predict(head, X[:3])

    heads = [Head(first, second, True), Head(second, first, False)]
    threads = [threading.Thread(target=ask, args=(head,)) for head in heads]
    threads[0].start()
    assert first.wait(60.0)
    threads[1].start()
    for thread in threads:
        thread.join(10.0)
    assert seen == [False]
    assert common.training


def test_a_budget_too_small_leaves_nothing_answered() -> None:
    ledger = Ledger()
    poor = Teacher(model, policy=Policy(privacy_epsilon=0.1), ledger=ledger, parts=9)
    rich = Teacher(model, policy=NOISY, ledger=Ledger(), parts=9)
    found = run({"poor": poor, "rich": rich}, privacy_epsilon=1.0, question_batch=None)
    assert found.excluded == {"poor": "ledger-budget"}
    assert found.transcript is not None
    answers = [entry.open() for entry in found.transcript.seen_by("poor")]
    assert all(not answer.arrays for answer in answers if isinstance(answer, Answer))
    assert ledger.spent == 0.0
    assert "budget" in found.status


# Real processes


@pytest.mark.heavy
@pytest.mark.parametrize("after", [0, 3, 7])
def test_a_teacher_killed_in_the_run_is_named_and_the_others_go_on(after: int) -> None:
    dying, living = Distant(after), Distant()
    try:
        found = run({"dying": dying, "living": living, "near": Teacher(skewed)})
        assert dying.process.returncode == -signal.SIGKILL
        assert found.excluded == {"dying": "holder-raised"}
        assert found.names == ("living", "near")
        np.testing.assert_allclose(found.outputs, [model(X), skewed(X)], rtol=1e-12)
        assert found.sizes == {"living": 50, "near": None}
    finally:
        dying.close()
        living.close()


def test_when_the_last_process_dies_the_run_ends_in_an_error() -> None:
    dying = Distant(after=6)
    try:
        with pytest.raises(HolderError) as caught:
            run({"dying": dying})
        assert caught.value.code == "teachers-few"
        assert "'dying'" in caught.value.message
    finally:
        dying.close()


@pytest.mark.heavy
def test_a_process_that_stops_answering_is_out_after_the_timeout() -> None:
    slow = Distant(after=2, harm=signal.SIGSTOP)
    try:
        # It has started before the clock matters.
        slow.reply(encode_question(DescribeTeacher()))
        found = run(
            {"slow": slow, "near": Teacher(skewed)}, timeout=15.0, noise=None, question_batch=50
        )
        assert found.excluded == {"slow": "holder-timeout"}
        np.testing.assert_allclose(found.outputs, [skewed(X)], rtol=1e-12)
    finally:
        slow.close()


def _right(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0] < 0, x[:, 0] >= 0], axis=1).astype(float)


@pytest.mark.parametrize("names", [None, ["0", "1"], ["no", "yes"]])
def test_teachers_of_labels_in_another_order_are_mapped_by_name_numbers_too(
    names: list[str] | None,
) -> None:
    own = names or ["0", "1"]
    fed = LocalFederation(
        {
            "a": Teacher(_right, labels=own),
            "b": Teacher(lambda x: _right(x)[:, ::-1], labels=own[::-1]),
        }
    )
    found = fed.run(distill(["a", "b"], [[-1.0], [2.0]], labels=LabelSpace([0.0, 1.0], names)))
    assert not found.excluded
    np.testing.assert_array_equal(found.outputs[0], found.outputs[1])


@pytest.mark.parametrize("labels", [2, LabelSpace([0.0, 1.0])])
def test_teachers_that_mean_other_things_by_unnamed_labels_are_not_mixed(
    labels: LabelSpace | int,
) -> None:
    fed = LocalFederation(
        {
            "a": Teacher(_right, labels=["cat", "dog"]),
            "b": Teacher(_right, labels=["dog", "cat"]),
            "c": Teacher(_right),
        }
    )
    found = fed.run(distill(["a", "b", "c"], [[-1.0], [2.0]], labels=labels))
    assert found.excluded["b"] == "labels-mismatch" and set(found.excluded) == {"b"}
