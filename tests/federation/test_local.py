import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.distances.direct import direct
from silot.distances.fedwad import fedwad
from silot.distances.questions import (
    Describe,
    DistanceTo,
    InterpolantCosts,
    Interpolate,
    Moments,
    Records,
)
from silot.distances.trianglewad import trianglewad
from silot.errors import (
    FileError,
    HolderError,
    InputError,
    MismatchError,
    RefusedError,
    UnfitError,
    WireError,
)
from silot.federation import Answer, Failure, Holder, LocalFederation, Own, Question, Transcript
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.question import decode_question, encode_question
from silot.privacy import Ledger

pytestmark = pytest.mark.all_cases

SECRET = 123456.789
X = np.random.default_rng(0).normal(size=(30, 3))
Y = X[:20] + 1.0
OPEN = Policy.open()


class Broken(Holder):
    """A holder whose code raises, quoting a record."""

    def _data(self, question: Question) -> NoReturn:
        raise KeyError(f"patient {SECRET}")


class Silent(Holder):
    """A holder that does not answer before it is released."""

    released = threading.Event()

    def reply(self, message: bytes) -> bytes:
        self.released.wait(30)
        return super().reply(message)


class Garbled(Holder):
    """A holder that answers bytes which are no message."""

    def reply(self, message: bytes) -> bytes:
        return b"nonsense"


def test_a_run_carries_its_cost_and_transcript() -> None:
    result = LocalFederation({"a": X, "b": Y}).run(trianglewad("a", "b"))
    transcript = result.transcript
    assert transcript is not None
    sent = [entry for entry in transcript.entries if entry.direction == "sent"]
    received = [entry for entry in transcript.entries if entry.direction == "received"]
    assert result.rounds == transcript.rounds == 3
    assert len(sent) == len(received) == 6
    assert result.bytes_sent == sum(len(entry.payload) for entry in sent) > 0
    assert result.bytes_received == sum(len(entry.payload) for entry in received) > 0
    assert result.disclosure == "record"
    assert all(entry.seconds <= result.seconds for entry in transcript.entries)
    assert [type(entry.open()) for entry in transcript.seen_by("a")[:2]] == [Describe, Answer]


def test_the_cost_of_pooling_is_the_records() -> None:
    result = LocalFederation({"a": X, "b": Y}).run(direct("a", "b"))
    raw = 8 * (X.size + Y.size + len(X) + len(Y))
    assert raw <= result.bytes_received <= raw + 1000


def test_the_order_of_holders_changes_nothing() -> None:
    for build in (direct, fedwad, trianglewad):
        first = LocalFederation({"a": X, "b": Y}).run(build("a", "b"))
        second = LocalFederation({"b": Y, "a": X}).run(build("b", "a"))
        assert second.value == pytest.approx(first.value, rel=1e-12)
        assert second.bounds == pytest.approx(first.bounds, rel=1e-12)


def test_the_same_seed_gives_the_same_result() -> None:
    federation = LocalFederation({"a": X, "b": Y})
    assert federation.run(fedwad("a", "b", seed=3)).history == (
        LocalFederation({"a": X, "b": Y}).run(fedwad("a", "b", seed=3)).history
    )
    other = federation.run(fedwad("a", "b", seed=4))
    assert other.history != federation.run(fedwad("a", "b", seed=3)).history


def test_progress_is_told_after_every_exchange() -> None:
    seen: list[int] = []
    protocol = fedwad("a", "b", rounds=3)
    result = LocalFederation({"a": X, "b": Y}).run(
        protocol, progress=lambda step: seen.append(step.rounds)
    )
    assert seen == list(range(1, result.rounds + 1))
    assert result.rounds <= protocol.expected_rounds


def test_a_holder_that_raises_is_a_failure_without_the_text_of_the_exception() -> None:
    federation = LocalFederation({"a": Broken(Measure(X), OPEN), "b": Y})
    with pytest.raises(HolderError) as caught:
        federation.run(direct("a", "b"))
    assert caught.value.code == "holder-raised"
    assert "KeyError" in caught.value.message
    assert str(SECRET) not in str(caught.value)
    reply = Broken(Measure(X), OPEN).reply(encode_question(Records()))
    assert str(SECRET).encode() not in reply
    assert caught.value.exit_status == 6


def test_a_holder_that_refuses_is_a_coded_refusal() -> None:
    federation = LocalFederation({"a": Holder(Measure(X)), "b": Y})
    for build in (direct, fedwad, trianglewad):
        with pytest.raises(RefusedError) as caught:
            federation.run(build("a", "b"))
        assert caught.value.code == "policy-level"
        assert "'a'" in caught.value.message
        assert caught.value.exit_status == 7


def test_a_holder_that_does_not_answer_in_time_is_a_failure() -> None:
    Silent.released.clear()
    federation = LocalFederation({"a": Silent(Measure(X), OPEN), "b": Y}, timeout=0.2)
    with pytest.raises(HolderError) as caught:
        federation.run(direct("a", "b"))
    Silent.released.set()
    assert caught.value.code == "holder-timeout"


def test_a_reply_that_is_no_message_is_a_failure() -> None:
    federation = LocalFederation({"a": Garbled(Measure(X), OPEN), "b": Y})
    with pytest.raises(HolderError) as caught:
        federation.run(direct("a", "b"))
    assert caught.value.code == "wire-format"


def test_holders_answer_at_the_same_time() -> None:
    barrier = threading.Barrier(2, timeout=300)

    class Meeting(Holder):
        def reply(self, message: bytes) -> bytes:
            barrier.wait()
            return super().reply(message)

    holders = {name: Meeting(Measure(X), OPEN) for name in ("a", "b")}
    assert LocalFederation(holders).run(direct("a", "b")).value == pytest.approx(0, abs=1e-12)


def test_dimensions_that_differ_are_found_by_the_protocol_too() -> None:
    for build in (direct, fedwad, trianglewad):
        with pytest.raises(MismatchError) as caught:
            LocalFederation({"a": X, "b": Y[:, :2]}).run(build("a", "b"))
        assert caught.value.code == "dimension-mismatch"


def test_a_protocol_for_other_holders_is_refused_before_any_question() -> None:
    with pytest.raises(MismatchError) as caught:
        LocalFederation({"a": X}).run(direct("a", "b"))
    assert caught.value.code == "holder-unknown"


@pytest.mark.parametrize("holders", [{}, {"": X}, {"coordinator": X}])
def test_names_that_cannot_be(holders: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError) as caught:
        LocalFederation(holders)
    assert caught.value.code == "holder-names"


def test_two_sides_need_two_names() -> None:
    with pytest.raises(MismatchError):
        direct("a", "a")
    with pytest.raises(InputError):
        direct("a")
    with pytest.raises(InputError):
        direct("a", "b", own=Own(Measure(X)))


def test_the_coordinators_own_measure_never_travels() -> None:
    own = Own(Measure(Y))
    for build in (direct, fedwad, trianglewad):
        result = LocalFederation({"a": X}).run(build("a", own=own))
        both = LocalFederation({"a": X, "b": Y}).run(build("a", "b"))
        assert result.value == pytest.approx(both.value, rel=1e-12)
        assert result.transcript is not None
        assert {entry.holder for entry in result.transcript.entries} == {"a"}


# Policies


MANY = np.random.default_rng(4).normal(size=(400, 3))


def ask(policy: Policy, question: Question, data: np.ndarray = MANY) -> str:
    answer = Holder(Measure(data), policy, Ledger()).answer(question)
    return answer.code if isinstance(answer, Failure) else "answered"


NAMED = Policy(level="statistics", questions=["moments"])
REFERENCE = {"reference": X[:12], "reference_weights": np.full(12, 1 / 12)}
TARGET = {"target": X[:12], "target_weights": np.full(12, 1 / 12), "t": 0.5}


@pytest.mark.parametrize(
    ("policy", "question", "outcome"),
    [
        (Policy(), Records(), "policy-level"),
        (Policy(), Interpolate(**REFERENCE, t=0.5), "policy-level"),
        (Policy(), Moments(), "policy-level"),
        (Policy(), DistanceTo(**REFERENCE), "policy-level"),
        (Policy(), Describe(), "policy-level"),
        (NAMED, Moments(), "answered"),
        (NAMED, DistanceTo(**REFERENCE), "policy-question"),
        (NAMED, Describe(), "answered"),
        (NAMED, Records(), "policy-question"),
        (Policy(level="statistics", questions=["records"]), Records(), "policy-level"),
        (Policy(level="record"), Records(), "answered"),
        (Policy(level="record", questions=frozenset({"describe"})), Records(), "policy-question"),
        (Policy(level="statistics", questions=[]), Moments(), "policy-question"),
        (Policy(), InterpolantCosts(**REFERENCE, **TARGET), "policy-level"),
        (OPEN, Records(embedding="diagonal"), "labels-absent"),
        (OPEN, DistanceTo(reference=X[:12, :2], reference_weights=np.full(12, 1 / 12)),
         "dimension-mismatch"),
        (OPEN, Interpolate(**REFERENCE, t=1.5), "option-t"),
        (OPEN, Interpolate(**REFERENCE, t=0.5, p=3), "option-p"),
    ],
)  # fmt: skip
def test_a_policy_decides(policy: Policy, question: Question, outcome: str) -> None:
    assert ask(policy, question) == outcome


def test_a_policy_with_an_unknown_rule_or_question_is_refused() -> None:
    with pytest.raises(InputError, match="no question is called"):
        Policy(questions=frozenset({"steal"}))
    with pytest.raises(InputError, match="levels: there is no such field"):
        Policy(levels="record")  # type: ignore[call-arg]


def test_the_same_question_gets_the_same_bytes_without_computing_again() -> None:
    holder = Holder(Measure(X), OPEN)
    message = encode_question(Interpolate(**REFERENCE, t=0.5))
    assert holder.reply(message) is holder.reply(message)


def test_a_new_policy_holds_for_questions_that_were_answered_before() -> None:
    holder = Holder(Measure(X), OPEN)
    message = encode_question(Records())
    assert isinstance(decode_reply(holder.reply(message)), Answer)
    holder.policy = Policy()
    assert decode_reply(holder.reply(message)) == Failure("policy-level", "refused")
    holder.policy = OPEN
    assert isinstance(decode_reply(holder.reply(message)), Answer)


def test_exact_statistics_are_named_one_by_one_and_need_no_ledger() -> None:
    with pytest.raises(InputError, match=r"\[policy-field\].*questions: \[distance-to\]"):
        Policy(level="statistics")
    answer = Holder(Measure(MANY), NAMED).answer(Moments())
    assert isinstance(answer, Answer)
    np.testing.assert_allclose(answer.arrays["mean"], MANY.mean(axis=0), rtol=1e-12)


def test_an_exact_answer_is_noted_and_never_refused_for_how_many_there_were() -> None:
    ledger = Ledger()
    holder = Holder(Measure(MANY), Policy(level="statistics", questions=["distance-to"]), ledger)
    for k in range(20):
        question = DistanceTo(reference=X[:12] + k, reference_weights=np.full(12, 1 / 12))
        assert isinstance(holder.answer(question, "clinic"), Answer)
    (answers,) = ledger.answers
    assert (answers.asker, answers.level, answers.kind) == ("clinic", "statistics", "distance-to")
    assert answers.times == 20 and ledger.spent == 0.0


class Lying(Holder):
    """A holder that says what it likes about its size."""

    claim: float = 0.0

    def reply(self, message: bytes, asker: str = "coordinator") -> bytes:
        if isinstance(decode_question(message), Describe):
            lie = {"records": self.claim, "dimension": 3, "uniform": True}
            return encode_reply(Answer(scalars=lie))
        return super().reply(message, asker)


@pytest.mark.parametrize("claim", [0, 0.5, 1e13])
def test_a_size_that_is_no_count_is_malformed(claim: float) -> None:
    liar = Lying(Measure(X), OPEN)
    liar.claim = claim
    with pytest.raises(WireError) as caught:
        LocalFederation({"a": liar, "b": Y}).run(trianglewad("a", "b"))
    assert caught.value.code == "answer-malformed"


class Exploding(Holder):
    """A holder whose very reply raises, quoting a record."""

    def reply(self, message: bytes) -> bytes:
        raise KeyError(f"patient {SECRET}")


def test_what_a_reply_raises_does_not_reach_any_stream(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(HolderError) as caught:
        LocalFederation({"a": Exploding(Measure(X), OPEN), "b": Y}).run(direct("a", "b"))
    assert caught.value.code == "holder-raised"
    assert str(SECRET) not in "".join(capfd.readouterr())


# Transcripts


def test_a_transcript_can_be_saved_and_loaded(tmp_path: Path) -> None:
    result = LocalFederation({"a": X, "b": Y}).run(fedwad("a", "b", rounds=2))
    assert result.transcript is not None
    path = tmp_path / "run.transcript"
    result.transcript.save(path)
    assert Transcript.load(path) == result.transcript
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("keep", [0, 10, 500, -1])
def test_a_broken_transcript_is_a_file_error(tmp_path: Path, keep: int) -> None:
    result = LocalFederation({"a": X, "b": Y}).run(direct("a", "b"))
    assert result.transcript is not None
    path = tmp_path / "run.transcript"
    result.transcript.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileError) as caught:
        Transcript.load(path)
    assert caught.value.code == "file-unreadable"


def test_a_transcript_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    result = LocalFederation({"a": X, "b": Y}).run(direct("a", "b"))
    assert result.transcript is not None
    with pytest.raises(FileError) as caught:
        result.transcript.save(tmp_path / "absent" / "run.transcript")
    assert caught.value.code == "file-unwritable"
    assert list(tmp_path.iterdir()) == []


def test_data_that_do_not_fit_have_one_exit_status_whoever_finds_out() -> None:
    rows = np.arange(60.0)[:, None]
    x, y = (Measure(rows, labels=kinds * 30) for kinds in (["I21.4", "I21.0"], ["I214", "I210"]))
    with pytest.raises(UnfitError) as caught:
        silot.value_records(x, y, labels=True)
    assert (caught.value.code, caught.value.exit_status) == ("labels-disjoint", 5)
    assert isinstance(caught.value, HolderError) and isinstance(caught.value, MismatchError)
    fed = LocalFederation({"a": [[0.0]], "b": [[0.0, 1.0]]})
    with pytest.raises(MismatchError) as other:
        fed.run(direct("a", "b"))
    assert (other.value.code, other.value.exit_status) == ("dimension-mismatch", 5)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"level": "privat"}, "level: 'private', 'statistics' or 'record' is needed"),
        ({"level": "statistics"}, "level statistics answers only the exact statistics"),
        ({"exact_secure": -1}, "exact_secure: a number of 0 or more is needed"),
        ({"numbers": 3}, "numbers: there is no such field"),
        ({"lvel": "record"}, "lvel: there is no such field"),
        ({"privacy_epsilon": True}, "privacy_epsilon: a truth value arrived"),
        ({"questions": {"nothing"}}, "questions: no question is called 'nothing'"),
    ],
)
def test_a_policy_says_what_is_wrong_with_it(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Policy(**fields)
    assert caught.value.code == "policy-field"
    assert words in caught.value.message
