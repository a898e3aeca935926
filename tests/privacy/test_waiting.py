"""Questions that wait for a person: what a ledger remembers of them, over processes."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances import direct
from silot.distances.questions import Describe, Moments, Records
from silot.distances.sketches.questions import CountRecords
from silot.errors import InputError, RefusedError, WaitingError
from silot.federation import Holder, LocalFederation
from silot.federation.question import encode_question
from silot.privacy import Ledger
from silot.privacy import ledger as waits
from silot.privacy import ledger_file as table

pytestmark = pytest.mark.all_cases

ROWS = Measure(np.arange(24.0).reshape(12, 2))
RULES = Policy(level="record", ask=["record"])
QUESTION = encode_question(Records())


def asked(path: Path, asker: str = "uni", rules: Policy = RULES) -> tuple[str, str]:
    """What a holder of a new process replies."""
    with Ledger(path) as ledger:
        reply = Holder(ROWS, rules, ledger).reply(QUESTION, asker)
    from silot.federation.answer import Answer, decode_reply

    found = decode_reply(reply)
    return ("answered", "") if isinstance(found, Answer) else (found.kind, found.code)


def test_a_question_waits_until_it_is_approved_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "north.ledger"
    assert asked(path) == asked(path) == ("waiting", "question-waits")
    with Ledger(path) as ledger:
        (held,) = ledger.waiting
        assert (held.asker, held.level, held.state) == ("uni", "record", "waiting")
        ledger.decide(held.id[:5], approved=True)
        assert ledger.waiting[0].state == "approved"
    assert asked(path) == ("answered", "")
    # Another asker's is another question.
    assert asked(path, "bank") == ("waiting", "question-waits")


def test_exact_statistics_wait_as_records_do() -> None:
    """Enough distances to points of the asker's choice would give every record."""
    held, free = Holder(ROWS, RULES, Ledger()), Holder(ROWS, Policy(level="record"), Ledger())
    question = encode_question(Moments(embedding="none"))
    assert b"question-waits" in held.reply(question)
    assert b"question-waits" not in free.reply(question)
    # Nobody finds a record from sizes.
    assert b"question-waits" not in held.reply(encode_question(Describe(embedding="none")))


@pytest.mark.parametrize("epsilon, held", [(1.0, False), (math.inf, True)])
def test_noise_waits_as_records_do_only_where_no_budget_bounds_it(
    epsilon: float, held: bool
) -> None:
    rules = Policy(level="record", ask=["record"], privacy_epsilon=epsilon)
    question = CountRecords(privacy_mu=0.1)
    reply = Holder(ROWS, rules, Ledger()).reply(encode_question(question))
    assert (b"question-waits" in reply) == held
    assert ("and noisy ones" in rules.explain()) == held


def test_what_was_denied_stays_denied(tmp_path: Path) -> None:
    path = tmp_path / "north.ledger"
    asked(path)
    with Ledger(path) as ledger:
        word = ledger.waiting[0].id
        ledger.decide(word, approved=False)
        with pytest.raises(InputError, match="approval-decided"):
            ledger.decide(word, approved=True)
        ledger.decide(word, approved=False)
    assert asked(path) == ("refused", "question-denied")


def test_a_level_is_approved_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "north.ledger"
    asked(path)
    now = waits.utc()
    with Ledger(path) as ledger:
        ledger.decide(ledger.waiting[0].id, approved=True, span=timedelta(hours=1), asker="bank")
    assert asked(path, "bank") == ("answered", "")
    assert asked(path, "lab") == ("waiting", "question-waits")
    monkeypatch.setattr(waits, "utc", lambda: now + timedelta(hours=2))
    with Ledger(path) as ledger:
        assert not ledger.allowed
    assert asked(path, "bank") == ("waiting", "question-waits")
    # Nor while a clock says that it was not given yet.
    monkeypatch.setattr(waits, "utc", lambda: now - timedelta(days=2))
    with Ledger(path) as ledger:
        assert not ledger.allowed
    assert asked(path, "bank") == ("waiting", "question-waits")


def test_a_clock_that_is_set_back_makes_no_approval_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "north.ledger"
    asked(path)
    now = waits.utc()
    clock = [now]
    monkeypatch.setattr(waits, "utc", lambda: clock[0])
    monkeypatch.setattr(table, "now", lambda: clock[0].isoformat(timespec="seconds"))
    with Ledger(path) as ledger:
        ledger.decide(ledger.waiting[0].id, approved=True, span=timedelta(hours=1), asker="bank")
    assert asked(path, "bank") == ("answered", "")
    clock[0] = now + timedelta(minutes=61)
    assert asked(path, "lab") == ("waiting", "question-waits")
    clock[0] = now + timedelta(minutes=5)
    with Ledger(path) as ledger:
        assert not ledger.allowed


def test_an_approval_of_a_clock_that_was_ahead_is_void_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "north.ledger"
    asked(path)
    now = waits.utc()
    clock = [now + timedelta(days=2)]
    monkeypatch.setattr(waits, "utc", lambda: clock[0])
    monkeypatch.setattr(table, "now", lambda: clock[0].isoformat(timespec="seconds"))
    with Ledger(path) as ledger:
        held = ledger.waiting[0].id
        ledger.decide(held, approved=True, span=timedelta(hours=1), asker="bank")
        given = ledger.allowed[0].id
    clock[0] = now
    assert asked(path, "lab") == ("waiting", "question-waits")
    clock[0] = now + timedelta(days=2, minutes=10)
    with Ledger(path) as ledger:
        assert not ledger.allowed
        clock[0] = now
        assert ledger.end(given) is not None


def test_a_question_lapses_and_waits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "north.ledger"
    asked(path)
    now = waits.utc()
    monkeypatch.setattr(waits, "utc", lambda: now + waits.KEPT + timedelta(seconds=5))
    with Ledger(path) as ledger:
        (held,) = ledger.waiting
        assert held.state == "expired"
        with pytest.raises(InputError, match="approval-expired"):
            ledger.decide(held.id, approved=True)
    assert asked(path) == ("waiting", "question-waits")
    with Ledger(path) as ledger:
        assert [each.state for each in ledger.waiting] == ["expired", "waiting"]


@pytest.mark.parametrize("word", ["", "ab", "zzzzzz", "0000", "é", "\x00" * 9])
def test_words_that_name_no_question(tmp_path: Path, word: str) -> None:
    with Ledger(tmp_path / "a.ledger") as ledger, pytest.raises(InputError, match="approval-unk"):
        ledger.decide(word, approved=True)


def test_who_asks_without_end_fills_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_MOST", 3)
    ledger = Ledger()
    states = [
        ledger.hold(f"{k:064x}", question="get-points", level="record", asker="uni")
        for k in range(5)
    ]
    assert states == ["waiting"] * 3 + ["crowded"] * 2
    assert ledger.hold("ff", question="get-points", level="record", asker="bank") == "waiting"


def test_a_pause_outlasts_processes(tmp_path: Path) -> None:
    path, rules = tmp_path / "north.ledger", Policy(level="record")
    assert asked(path, rules=rules) == ("answered", "")
    for _ in range(2):
        with Ledger(path) as ledger:
            ledger.pause()
        assert asked(path, rules=rules) == ("waiting", "holder-paused")
        with Ledger(path) as ledger:
            ledger.pause(False)
            ledger.pause(False)
        assert asked(path, rules=rules) == ("answered", "")
    with Ledger(path) as ledger:
        ledger.verify()
        assert [row.event for row in ledger.entries() if "p" in row.event[:1]] == ["pause"] * 2


def test_other_levels_do_not_wait_and_rules_come_first() -> None:
    ledger = Ledger()
    holder = Holder(ROWS, Policy(level="statistics", questions=["moments"], ask=["record"]), ledger)
    assert b"policy-question" in holder.reply(QUESTION)
    assert b"policy-level" in Holder(ROWS, Policy(ask=["record"]), ledger).reply(QUESTION)
    assert not ledger.waiting
    assert b"ledger-absent" in Holder(ROWS, RULES).reply(QUESTION)


def test_a_run_says_who_waits_and_what_was_disclosed() -> None:
    ledger = Ledger()
    parties = {"north": Holder(ROWS, RULES, ledger), "south": ROWS}
    federation = LocalFederation(parties, asker="uni")
    with pytest.raises(WaitingError, match="'north' waiting") as caught:
        federation.run(direct("north", "south"))
    assert caught.value.exit_status == 12
    assert [e.holder for e in caught.value.run.transcript.entries if e.direction == "received"] == [
        "north",
        "south",
    ]
    ledger.decide(ledger.waiting[0].id, approved=True)
    assert federation.run(direct("north", "south")).value == 0
    ledger.pause()
    with pytest.raises(WaitingError, match="holder-paused"):
        federation.run(direct("north", "south"))


def test_denied_is_a_refusal() -> None:
    ledger = Ledger()
    parties = {"north": Holder(ROWS, RULES, ledger), "south": ROWS}
    with pytest.raises(WaitingError):
        LocalFederation(parties).run(direct("north", "south"))
    ledger.decide(ledger.waiting[0].id, approved=False)
    with pytest.raises(RefusedError, match="question-denied"):
        LocalFederation(parties).run(direct("north", "south"))


def test_a_policy_file_names_levels(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"level": "record", "ask": ["record", "statistics"]}))
    assert Policy.load(file).ask == {"record", "statistics"}
    file.write_text(json.dumps({"ask": ["everything"]}))
    with pytest.raises(InputError, match="policy-field"):
        Policy.load(file)
