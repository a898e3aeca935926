"""A holder's release path: policy, ledger, noise, and what may cross the boundary."""

import errno
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances import Distance
from silot.distances.questions import encode_classes
from silot.distances.sketches.questions import SketchRecords
from silot.errors import HolderError, InputError, RefusedError
from silot.federation import Answer, Disclosure, Failure, Holder, LocalFederation, Protocol
from silot.federation import question as questions
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.message import Message, encode
from silot.federation.protocol import ask, failure_error, required
from silot.federation.question import encode_question
from silot.privacy import Ledger, epsilon_of, ledger_file, mu_of

from ..privacy.neighbours import noiseless
from ..privacy.toys import ToyHistogram, known

pytestmark = pytest.mark.all_cases

X = np.random.default_rng(3).uniform(size=(200, 2))
ALLOWED = Policy(privacy_epsilon=1.0, privacy_delta=1e-5)
MU = mu_of(1.0, 1e-5)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(questions, "_KINDS", dict(questions._KINDS))
    known()
    yield


def toys(mu: float = 0.1, **more: Any) -> ToyHistogram:
    return ToyHistogram(privacy_mu=mu, **more)


def asked(holder: Holder, question: ToyHistogram, asker: str = "coordinator") -> Answer | Failure:
    return decode_reply(holder.reply(encode_question(question), asker))


def counts(answer: Answer | Failure) -> list[int]:
    assert isinstance(answer, Answer), answer
    return answer.arrays["counts"].tolist()


def code(answer: Answer | Failure) -> str:
    assert isinstance(answer, Failure)
    return answer.code


class Counting(ToyHistogram):
    """Counts how often the exact vector is computed."""

    calls = 0

    def exact(self, points, masses, labels=None):
        Counting.calls += 1
        return super().exact(points, masses, labels)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr(Counting, "calls", 0)
    questions.register(Counting)
    return Counting


def test_an_answer_is_the_exact_vector_with_noise_of_the_scale_that_was_charged() -> None:
    ledger = Ledger()
    holder = Holder(Measure(X), Policy.open(), ledger)
    exact = toys().exact(X, np.ones(200))
    errors = [np.array(counts(asked(holder, toys(nonce=k)))) - exact for k in range(500)]
    scaled = np.concatenate(errors) * 0.1 / 1024
    assert scaled.std() == pytest.approx(1.0, abs=0.1)
    assert scaled.mean() == pytest.approx(0.0, abs=0.15)
    assert ledger.spent == pytest.approx(0.1 * 500**0.5)


def test_the_same_question_gets_the_same_answer_for_nothing(
    tmp_path: Path, counting: type[Counting]
) -> None:
    question = counting(privacy_mu=0.1)
    message = encode_question(question)
    with Ledger(tmp_path / "a") as ledger:
        holder = Holder(Measure(X), ALLOWED, ledger)
        first = asked(holder, question)
        again = {holder.reply(message, asker) for asker in ("one", "other") for _ in range(5)}
        direct = holder.answer(question)
        assert len(again) == 1
    with Ledger(tmp_path / "a") as ledger:
        later = asked(Holder(Measure(X), ALLOWED, ledger), question)
        assert ledger.spent == 0.1
    assert counting.calls == 1
    assert isinstance(first, Answer) and first.scalars["charged_mu"] == 0.1
    for answer in (decode_reply(again.pop()), direct, later):
        assert counts(answer) == counts(first)
        assert isinstance(answer, Answer) and answer.scalars["charged_mu"] == 0.0


def test_another_question_gets_other_noise() -> None:
    holder = Holder(Measure(X), ALLOWED, Ledger())
    assert counts(asked(holder, toys())) != counts(asked(holder, toys(nonce=1)))


def test_a_question_beyond_the_budget_is_refused_before_anything_is_computed(
    counting: type[Counting],
) -> None:
    ledger = Ledger()
    holder = Holder(Measure(X), ALLOWED, ledger)
    asked(holder, counting(privacy_mu=0.2))
    refused = asked(holder, counting(privacy_mu=0.2, nonce=1))
    assert counting.calls == 1
    assert ledger.spent == pytest.approx(0.2)
    last = ledger.entries()[-1]
    assert (last.event, last.mechanism) == ("refuse", "ledger-budget")
    head = ledger.head
    asked(holder, counting(privacy_mu=0.2, nonce=1))
    assert ledger.head == head
    assert isinstance(refused, Failure) and (refused.code, refused.kind) == (
        "ledger-budget", "refused",
    )  # fmt: skip
    left = (MU**2 - 0.04) ** 0.5
    assert refused.numbers == pytest.approx(
        {
            "delta": 1e-5,
            "spent_mu": 0.2,
            "asked_mu": 0.2,
            "left_mu": left,
            "spent_epsilon": epsilon_of(0.2, 1e-5),
            "asked_epsilon": epsilon_of(0.2, 1e-5),
            "left_epsilon": epsilon_of(left, 1e-5),
        },
        rel=1e-6,
    )
    # What is left can be asked for; the answer given before is given still.
    assert isinstance(asked(holder, counting(privacy_mu=left * 0.999, nonce=2)), Answer)
    assert isinstance(asked(holder, counting(privacy_mu=0.2)), Answer)


def test_the_refusal_says_spent_asked_and_left_in_words() -> None:
    error = failure_error("north", asked(Holder(Measure(X), ALLOWED, Ledger()), toys(5.0)))  # type: ignore[arg-type]
    assert isinstance(error, RefusedError) and error.code == "ledger-budget"
    for word in ("spent_mu 0", "asked_mu 5", "left_mu 0.2681", "left_epsilon 1", "delta 1e-05"):
        assert word in error.message


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(privacy_epsilon=None), "policy-budget"),
        (Policy(level="record", privacy_epsilon=None), "policy-budget"),
        (Policy(level="statistics", questions=["describe"]), "policy-question"),
        (Policy(privacy_epsilon=1.0, questions=frozenset({"describe"})), "policy-question"),
    ],
)
def test_the_policy_is_asked_first_for_stored_answers_too(policy: Policy, expected: str) -> None:
    ledger = Ledger()
    holder = Holder(Measure(X), ALLOWED, ledger)
    assert isinstance(asked(holder, toys()), Answer)
    holder.policy = policy
    assert code(asked(holder, toys())) == code(holder.answer(toys())) == expected
    assert ledger.spent == 0.1


def test_without_a_ledger_nothing_is_released() -> None:
    answer = asked(Holder(Measure(X), ALLOWED), toys())
    assert isinstance(answer, Failure) and answer.kind == "refused"
    assert answer.code == "ledger-absent"


def test_how_few_records_there_are_is_not_told_by_a_rule() -> None:
    for size in (1, 200):
        assert isinstance(asked(Holder(Measure(X[:size]), ALLOWED, Ledger()), toys()), Answer)


def test_a_release_of_label_vectors_is_refused_before_the_charge() -> None:
    ledger = Ledger()
    labelled = Measure(X, labels=np.arange(200) % 3)
    question = toys(embedding="diagonal")
    answer = asked(Holder(labelled, Policy.open(), ledger), question)
    assert code(answer) == "release-embedding"
    assert ledger.spent == 0.0


@pytest.mark.parametrize("mu", [0.0, -0.1, float("nan"), float("inf"), 1e-300])
def test_a_mu_that_is_none_is_refused(mu: float) -> None:
    ledger = Ledger()
    answer = asked(Holder(Measure(X), Policy.open(), ledger), toys(mu))
    assert code(answer) == "option-mu"
    assert ledger.spent == 0.0


def test_noise_that_cannot_be_drawn_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    monkeypatch.setitem(sys.modules, "opendp", None)
    answer = asked(Holder(Measure(X), ALLOWED, ledger), toys())
    assert answer == Failure("extra-privacy", "failed", "ExtraError")
    assert ledger.spent == 0.0


def test_what_does_not_fit_the_records_is_refused_before_the_charge() -> None:
    question = SketchRecords(
        privacy_mu=0.1, centres=np.zeros((3, 5)), radius=1.0, radius2=2.0, classes=""
    )
    ledger = Ledger()
    holder = Holder(Measure(X), ALLOWED, ledger)
    assert code(holder.answer(question)) == "dimension-mismatch"
    labelled = replace(question, centres=np.zeros((3, 2)), classes=encode_classes(["a", "b"]))
    assert code(holder.answer(labelled)) == "labels-absent"
    assert ledger.spent == 0.0


@pytest.mark.parametrize("resolution", [0, -5])
def test_a_sensitivity_that_is_none_is_refused_before_the_charge(resolution: int) -> None:
    ledger = Ledger()
    answer = asked(Holder(Measure(X), Policy.open(), ledger), toys(resolution=resolution))
    assert code(answer) == "option-sensitivity"
    assert ledger.spent == 0.0


def test_records_count_by_the_weight_they_were_given_never_by_their_share() -> None:
    doubled = np.vstack([X, X])
    for measure, expected in (
        (Measure(X), toys().exact(X, np.ones(200))),
        (Measure(doubled), 2 * toys().exact(X, np.ones(200))),
        (Measure(X, np.linspace(0, 1, 200)), toys().exact(X, np.linspace(0, 1, 200))),
    ):
        with noiseless():
            answer = asked(Holder(measure, Policy.open(), Ledger()), toys())
        assert counts(answer) == expected.tolist()


def test_a_ledger_that_cannot_be_written_keeps_the_answer_in(tmp_path: Path) -> None:
    Ledger(tmp_path / "a").close()
    with Ledger(tmp_path / "a", readonly=True) as ledger:
        answer = asked(Holder(Measure(X), ALLOWED, ledger), toys())
    assert answer == Failure("ledger-read-only", "failed", "FileError")
    # Closed meanwhile.
    assert code(asked(Holder(Measure(X), ALLOWED, ledger), toys())) == "ledger-closed"


def test_neither_ledger_nor_parameters_hold_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a"
    holder = Holder(Measure(X), ALLOWED, Ledger(path))
    asked(holder, toys())
    data = b"".join(item.read_bytes() for item in tmp_path.iterdir())
    for row in X:
        for value in row:
            assert value.tobytes() not in data and repr(float(value)).encode() not in data


def test_the_ledger_says_who_asked_and_what() -> None:
    ledger = Ledger()
    asked(Holder(Measure(X), ALLOWED, ledger), toys(), asker="north coordinator")
    reserved = ledger.entries()[1]
    assert reserved.asker == "north coordinator"
    assert reserved.mechanism == "discrete Gaussian, toy"
    assert '"sensitivity":1024.0' in reserved.parameters and '"cells":4' in reserved.parameters


def test_askers_share_one_budget() -> None:
    holder = Holder(Measure(X), ALLOWED, Ledger())
    assert isinstance(asked(holder, toys(0.2), "one"), Answer)
    assert code(asked(holder, toys(0.2, nonce=1), "other")) == "ledger-budget"


def test_threads_asking_at_once_get_one_answer_and_one_charge(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a")
    holder = Holder(Measure(X), ALLOWED, ledger)
    found: list[tuple[int, ...]] = []
    threads = [
        threading.Thread(target=lambda: found.append(tuple(counts(asked(holder, toys())))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert ledger.spent == 0.1


def test_holders_of_the_same_records_share_a_ledger_across_processes(tmp_path: Path) -> None:
    Ledger(tmp_path / "a").close()
    replies: list[bytes] = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with Ledger(tmp_path / "a") as ledger:
                    os.write(writing, Holder(Measure(X), ALLOWED, ledger).reply(
                        encode_question(toys())))  # fmt: skip
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            replies.append(pipe.read())
        os.waitpid(child, 0)
    assert counts(decode_reply(replies[0])) == counts(decode_reply(replies[1]))


# Failures that carry numbers


def test_only_finite_numbers_travel_with_a_failure() -> None:
    failure = Failure("ledger-budget", "refused", numbers={
        "spent_mu": 0.5, "left_mu": float("inf"), "asked_mu": float("nan")})  # fmt: skip
    found = decode_reply(encode_reply(failure))
    assert isinstance(found, Failure) and found.numbers == {"spent_mu": 0.5}


def test_replies_without_numbers_are_read_as_before_and_others_ignored() -> None:
    old = encode(Message("failure", "refused", {"code": "policy-level", "error": ""}))
    assert decode_reply(old) == Failure("policy-level", "refused")
    strange = encode(Message("failure", "refused", {
        "code": "x", "error": "", "flag": True, "text": "patient", "nothing": None,
        "infinite": float("inf"), "count": 3}))  # fmt: skip
    found = decode_reply(strange)
    assert isinstance(found, Failure) and found.numbers == {"count": 3.0}
    assert hash(found) == hash(Failure("x", "refused"))


def test_numbers_never_replace_the_code() -> None:
    failure = Failure("a", numbers={"code": 1.0, "error": 2.0})
    found = decode_reply(encode_reply(failure))
    assert found == Failure("a")


# The cost


def counted(mus: dict[str, list[float]]) -> Protocol[Distance]:
    rounds = max(len(each) for each in mus.values())

    def start():
        for number in range(rounds):
            answers = yield from ask(
                {name: toys(each[number], nonce=number) for name, each in mus.items()
                 if number < len(each)}
            )  # fmt: skip
            for name in answers:
                required(answers, name)
        return Distance(
            value=1.0,
            lower=0.0,
            upper=2.0,
            method="toy",
            status="",
            converged=True,
            holders=("a", "b"),
            p=2,
        )

    return Protocol("toy", tuple(mus), Disclosure.PRIVATE, start)


def test_plain_data_are_released_against_a_ledger_in_memory_and_costed() -> None:
    federation = LocalFederation({"a": X, "b": X + 1.0})
    found = federation.run(counted({"a": [0.3, 0.4], "b": [0.45]}))
    assert found.cost.privacy_mu == found.privacy_mu == pytest.approx(0.5)
    assert found.to_dict()["privacy_mu"] == pytest.approx(0.5)
    assert found.disclosure == "private"
    again = federation.run(counted({"a": [0.3, 0.4], "b": [0.45]}))
    assert again.privacy_mu == 0.0


def test_a_run_that_is_refused_names_the_holder() -> None:
    federation = LocalFederation({"a": Holder(Measure(X), ALLOWED, Ledger()), "b": X})
    with pytest.raises(RefusedError, match=r"holder .a. refused.*privacy budget") as caught:
        federation.run(counted({"a": [0.2, 0.2], "b": [0.2]}))
    assert caught.value.code == "ledger-budget"
    with pytest.raises(HolderError, match="no ledger"):
        LocalFederation({"a": Holder(Measure(X), ALLOWED), "b": X}).run(counted({"a": [0.2]}))


@dataclass
class Saying(Holder):
    """A holder that says what it likes about its charge."""

    charge: object = 0.0

    def __post_init__(self) -> None:
        super().__init__(Measure(X), ALLOWED, Ledger())

    def reply(self, message: bytes, asker: str = "") -> bytes:
        answer = decode_reply(super().reply(message))
        assert isinstance(answer, Answer)
        return encode_reply(replace(answer, scalars={"charged_mu": self.charge}))  # type: ignore[dict-item]


@pytest.mark.parametrize("charge", [-1.0, float("nan"), float("inf"), True, "much", None])
def test_a_charge_that_is_no_number_is_not_costed(charge: object) -> None:
    federation = LocalFederation({"a": Saying(charge)})
    assert federation.run(counted({"a": [0.2]})).privacy_mu == 0.0


def test_the_coordinator_cannot_answer_a_release_from_its_own_records() -> None:
    from silot.federation import Own

    with pytest.raises(InputError) as caught:
        Own(Measure(X)).answer(toys())
    assert caught.value.code == "ledger-absent"


# What fails after the charge


class Failing(ToyHistogram):
    """Fails on some records, in a way of the records' own."""

    fault: Exception | None = None

    def exact(self, points, masses, labels=None):
        if Failing.fault is not None:
            raise Failing.fault
        return super().exact(points, masses, labels)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[Failing]:
    monkeypatch.setattr(Failing, "fault", None)
    questions.register(Failing)
    return Failing


FAULTS = [MemoryError("900 rows"), InputError("record 7", code="records-few"), OSError(28, "full")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_stops_a_release_after_its_charge_leaves_as_one_code(
    fault: Exception, failing: type[Failing], caplog: pytest.LogCaptureFixture
) -> None:
    """The type of an exception, or its code, may tell which records raised it."""
    ledger = Ledger()
    holder = Holder(Measure(X), ALLOWED, ledger)
    first, question = toys(), failing(privacy_mu=0.1, nonce=1)
    before = counts(asked(holder, first))
    failing.fault = fault
    reply = holder.reply(encode_question(question))
    assert decode_reply(reply) == Failure("release-failed")
    assert holder.answer(question) == Failure("release-failed")
    assert type(fault).__name__ in caplog.text and "record 7" not in caplog.text
    assert ledger.spent == pytest.approx(0.1 * 2**0.5)
    assert counts(asked(holder, first)) == before
    failing.fault = None
    after = {tuple(counts(asked(holder, question))) for _ in range(3)}
    assert len(after) == 1
    assert ledger.spent == pytest.approx(0.1 * 2**0.5)
    events = [row.event for row in ledger.entries()]
    assert events == ["open", *["reserve", "release", "commit"] * 2]


@pytest.mark.parametrize("event", ["reserve", "release", "commit"])
@pytest.mark.parametrize("of_system", [True, False])
def test_a_full_disk_at_any_step_tells_nothing_twice_and_keeps_what_was_released(
    event: str, of_system: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ledger_file.add
    full: list[bool] = []

    def add(connection, what, *args, **kwargs):
        if full and what == event:
            if of_system:
                raise OSError(errno.ENOSPC, "No space left on device")
            # SQLite's own error of a full disk: a file of no more pages.
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
            kwargs["reply" if what != "reserve" else "parameters"] = "x" * 200_000
        return real(connection, what, *args, **kwargs)

    monkeypatch.setattr(ledger_file, "add", add)
    with Ledger(tmp_path / "a.ledger") as ledger:
        holder = Holder(Measure(X), ALLOWED, ledger)
        before = counts(asked(holder, toys()))
        full.append(True)
        code_ = code(asked(holder, toys(nonce=1)))
        expected = {"file-unwritable", "ledger-full"} if event == "reserve" else {"release-failed"}
        assert code_ in expected
        # The charge stands, and what was released before is there for the same asker.
        assert ledger.spent == pytest.approx(0.1 if event == "reserve" else 0.1 * 2**0.5)
        assert counts(asked(holder, toys())) == before
    full.clear()
    with Ledger(tmp_path / "a.ledger") as ledger:
        holder = Holder(Measure(X), ALLOWED, ledger)
        answers = {tuple(counts(asked(holder, toys(nonce=1)))) for _ in range(3)}
        assert len(answers) == 1 and counts(asked(holder, toys())) == before
        assert ledger.spent == pytest.approx(0.1 * 2**0.5)
        assert [row.event for row in ledger.entries()].count("reserve") == 2


def test_what_others_released_before_one_failed_costs_nothing_again(
    failing: type[Failing], tmp_path: Path
) -> None:
    """A run of several holders ends as one fails: their answers stay in their ledgers."""
    sides = "north", "south"

    def steps() -> Any:
        answers = yield dict.fromkeys(sides, failing(privacy_mu=0.1))
        seen.append([counts(required(answers, name)) for name in sides])
        raise InputError("enough was seen.", code="records-few")

    seen: list[list[list[int]]] = []
    protocol: Any = Protocol("both", sides, Disclosure.PRIVATE, steps, {})
    ledgers = {name: Ledger(tmp_path / f"{name}.ledger") for name in sides}
    holders = {
        name: Holder(Measure(X + 9.0 * k), ALLOWED, ledgers[name]) for k, name in enumerate(sides)
    }
    fed = LocalFederation(holders)
    before = counts(asked(holders["north"], failing(privacy_mu=0.1)))
    failing.fault = MemoryError()
    with pytest.raises(HolderError, match="release-failed"):
        fed.run(protocol)
    failing.fault = None
    with pytest.raises(InputError) as ended:
        fed.run(protocol)
    assert seen[0][0] == before and ended.value.run is not None
    # What failed was charged once.
    assert ended.value.run.privacy_mu == 0.1
    for ledger in ledgers.values():
        assert ledger.spent == 0.1
        assert [row.event for row in ledger.entries()].count("release") == 1
        ledger.close()
