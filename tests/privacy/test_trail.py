"""Questions in the ledger's chain: noted once, read in bounded memory, moved away and backed up."""

import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import FileError, InputError, SilotError
from silot.privacy import BudgetError, Ledger, ledger_file
from silot.privacy.ledger_head import Place

from ..tiers import examples

pytestmark = pytest.mark.all_cases

TOMORROW = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def facts(number: int, **more: Any) -> dict[str, Any]:
    return {
        "asker": "uni", "run": "r", "round": number, "question": "moments", "level": "statistics",
        "bytes": 100, "mu": 0.0, **more,
    }  # fmt: skip


def rounds(ledger: Ledger, **span: Any) -> list[int]:
    return [row.facts["round"] for row in ledger.read_latest("question", **span)]


def fill(ledger: Ledger, size: int) -> None:
    """Questions, a charge, a decision and a count among them."""
    ledger.hold("a" * 64, question="records", level="record", asker="uni")
    ledger.decide(ledger.waiting[0].id, approved=True)
    for number in range(size):
        ledger.log_question(facts(number))
        if number % 5 == 2:
            ledger.reserve(f"{number:064x}", mu=0.1, budget=9.0, mechanism="noise", asker="uni")
            ledger.commit(f"{number:064x}", b"answer")
        if number % 5 == 4:
            ledger.note(f"{number:064x}", level="statistics", question="exact", asker="uni")


def test_a_question_is_noted_once_for_each_outcome(path: Path) -> None:
    for _ in range(2):
        with Ledger(path) as ledger:
            ledger.log_question(facts(1, code="question-waits"))
            ledger.log_question(facts(1))
            ledger.log_question(facts(2))
            ledger.log_question({"refused": "wire-format", "message": "a" * 64})
    with Ledger(path) as ledger:
        assert rounds(ledger, last=4, skip=1) == [1, 1, 2]
        assert [row.event for row in ledger.entries()] == ["open", *["question"] * 4]
        first = next(ledger.read_latest("question"))
        assert first.facts == {**facts(1, code="question-waits"), "event": "question",
                               "time": first.time}  # fmt: skip
        assert ledger.count_history() == (4, 0)


def test_questions_and_decisions_are_read_in_their_order(path: Path) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 3)
        ledger.pause()
        events = [row.event for row in ledger.read_latest()]
        assert events == ["approve", "question", "question", "question", "pause"]
        approved = next(ledger.read_latest()).facts
        assert (approved["asker"], approved["question"], approved["level"]) == (
            "uni", "records", "record"
        )  # fmt: skip
        assert approved["by"]
        assert [row.event for row in ledger.read_latest(last=2)] == ["question", "pause"]
        assert rounds(ledger, last=2, skip=1) == [0, 1]
        assert rounds(ledger, last=2, skip=2) == [0]
        assert rounds(ledger, last=2, skip=3) == []


def test_a_process_that_is_killed_has_its_questions_in_the_ledger(path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom silot.privacy import Ledger\nledger = Ledger(sys.argv[1])\n"
        "for k in range(50): ledger.log_question({'round': k})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    with Ledger(path) as ledger:
        assert rounds(ledger) == list(range(50))
        assert ledger.count_history() == (50, 0)


def test_a_full_disk_is_said_loses_nothing_and_the_next_question_is_noted(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.log_question(facts(1))
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        number = 1
        with pytest.raises(FileError) as caught:
            while number < 100:
                number += 1
                ledger.log_question(facts(number, run="r" * 500))
        assert caught.value.code == "ledger-full"
        ledger._connection.execute("PRAGMA max_page_count = 1000000")
        ledger.log_question(facts(number, run="r" * 500))
        ledger.log_question(facts(number + 1))
        assert rounds(ledger) == list(range(1, number + 2))
        ledger.verify()


def test_a_note_outside_is_never_ahead_of_what_the_disk_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of questions are not synchronised one by one: the log is, before it is noted."""
    order: list[str] = []
    sync, note = ledger_file.sync_log, Place.note
    monkeypatch.setattr(ledger_file, "sync_log", lambda at: (order.append("sync"), sync(at)))
    monkeypatch.setattr(
        Place, "note", lambda place, last: (order.append("note"), note(place, last))
    )
    with Ledger(path) as ledger:
        order.clear()
        for number in range(3):
            ledger.log_question(facts(number))
        assert order == []
        # A row of another event is on the disk when its transaction ends, with all before it.
        ledger.refuse("records", "policy-level", "uni")
        assert order == ["note"]
        ledger.log_question(facts(3))
        ledger._settled = 0.0
        ledger.log_question(facts(4))
        assert order == ["note", "sync", "note"]
    with Ledger(path) as ledger:
        ledger.check_place()
        assert order == ["note", "sync", "note"]


@pytest.mark.parametrize("cut", [1, 4])
def test_questions_that_are_cut_off_are_missed(path: Path, cut: int) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 8)
        last = len(ledger.entries()) - 1
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_removal")
        connection.execute("DELETE FROM rows WHERE sequence > ?", (last - cut,))
        connection.execute(next(rule for rule in ledger_file.SCHEMA if "no_removal" in rule))
    connection.close()
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert caught.value.code == "ledger-older"


MEMORY = """
import resource, sys
from silot.privacy import Ledger
with Ledger(sys.argv[1], readonly=True, walk=False) as ledger:
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(list(ledger.read_latest(last=40))) == 40
    assert sum(1 for row in ledger.read_latest()) == ledger.count_history()[0] == 200_000
    ledger.verify()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun)
"""


@pytest.mark.slow
def test_a_ledger_of_200000_questions_is_read_in_bounded_memory(path: Path) -> None:
    Ledger(path).close()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("BEGIN")
        for number in range(200_000):
            ledger_file.add(connection, "question", f"{number:064x}", asker="uni",
                            parameters=json.dumps(facts(number)), mechanism="record")  # fmt: skip
        connection.execute("COMMIT")
    connection.close()
    # Its last row is noted nowhere.
    Ledger(path).close()
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 40_000


# What is moved away


def test_what_is_moved_away_leaves_budgets_answers_and_decisions(path: Path) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 20)
        spent, account = ledger.spent, ledger.answers
        kept = [row for row in ledger.entries() if row.event != "question"]
        span: list[tuple[int, int]] = []
        rotation = ledger.rotate(TOMORROW, lambda first, last: span.append((first, last)))
        assert span == [(0, rotation.until - 1)] and rotation.rows == 20
        assert [row for row in ledger.entries() if row.event != "rotate"] == kept
        assert (ledger.spent, ledger.answers) == (spent, account)
        assert ledger.find(f"{2:064x}", "uni") == b"answer"
        assert ledger.count_answers("exact") == 4
        assert ledger.count_history() == (20, 1)
        with pytest.raises(BudgetError):
            ledger.reserve("b" * 64, mu=1.0, budget=1.0, mechanism="noise")
        ledger.log_question(facts(77))
        ledger.verify()
        # A second part follows the first.
        again = ledger.rotate(TOMORROW, lambda first, last: span.append((first, last)))
        assert span[1][0] == rotation.until and again.rows >= 20
    with Ledger(path) as ledger:
        ledger.check_place()
        ledger.log_question(facts(78))
        assert rounds(ledger)[-1] == 78


def test_what_was_moved_away_is_in_no_span(path: Path) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 10)
        before = ledger.size
        assert ledger.find_span() == (0, before - 1)
        rotation = ledger.rotate(TOMORROW, lambda first, last: None)
        assert ledger.find_span()[0] == rotation.until
        today = datetime.now(UTC).date().isoformat()
        for since, code in ((today, "trail-moved"), (TOMORROW, "trail-empty")):
            with pytest.raises(InputError) as caught:
                ledger.find_span(since)
            assert caught.value.code == code
        with pytest.raises(InputError, match="trail-empty"):
            ledger.rotate("2001-01-01", lambda first, last: None)


def test_nothing_is_moved_where_the_file_for_it_fails(path: Path) -> None:
    def fail(first: int, last: int) -> None:
        raise FileError("full.", code="file-unwritable")

    with Ledger(path) as ledger:
        fill(ledger, 10)
        rows = ledger.entries()
        with pytest.raises(FileError):
            ledger.rotate(TOMORROW, fail)
        assert ledger.entries() == rows


@pytest.mark.parametrize("event", ["question", "count", "reserve", "rotate", "wait"])
def test_no_other_row_can_be_cut_out_beside_those_that_were_moved(path: Path, event: str) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 10)
        ledger.rotate(TOMORROW, lambda first, last: None)
        ledger.log_question(facts(11))
        ledger.log_question(facts(12))
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_removal")
        (number,) = connection.execute(
            "SELECT MIN(sequence) FROM rows WHERE event = ?", (event,)
        ).fetchone()
        connection.execute("DELETE FROM rows WHERE sequence = ?", (number,))
        connection.execute(next(rule for rule in ledger_file.SCHEMA if "no_removal" in rule))
    connection.close()
    with pytest.raises(SilotError) as caught:
        Ledger(path)
    assert caught.value.code == "ledger-broken"


@pytest.mark.heavy
def test_a_process_that_is_killed_while_rows_are_moved_leaves_a_ledger(path: Path) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 10)
        ledger.log_question(facts(99))
    code = (
        "import os, signal, sys\nfrom silot.privacy import Ledger\n"
        "from silot.privacy.ledger_head import Place\nledger = Ledger(sys.argv[1])\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"ledger.rotate('{TOMORROW}', lambda a, b: setattr(Place, 'note', die))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    with Ledger(path) as ledger:
        assert ledger.entries()[-1].event == "rotate"
        assert ledger.spent == pytest.approx(0.1 * 2**0.5)


# Backups


WRITER = """
import sys
from silot.privacy import Ledger
ledger = Ledger(sys.argv[1])
print("begun", flush=True)
k = 0
while True:
    ledger.log_question({"round": k})
    ledger.reserve(f"{k:064x}", mu=0.001, budget=9.0, mechanism="noise")
    ledger.commit(f"{k:064x}", b"x" * 5000)
    print(k, flush=True)
    k += 1
"""


@pytest.mark.heavy
def test_a_backup_while_another_process_writes_is_one_moment_of_the_ledger(path: Path) -> None:
    Ledger(path).close()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        copies: list[Path] = []
        for number in range(4):
            for line in writer.stdout:
                if line.strip().isdecimal() and int(line) >= 10 * number:
                    break
            copies.append(path.with_name(f"copy{number}"))
            with Ledger(path, readonly=True, walk=False) as ledger:
                last = ledger.backup(copies[-1])
                assert last.sequence > 0
        assert writer.poll() is None
        writer.kill()
    # One file each, for its owner alone, and each the beginning of the ledger.
    assert sorted(path.parent.glob("*copy*")) == copies
    assert all(oct(copy.stat().st_mode)[-3:] == "600" for copy in copies if os.name == "posix")
    with Ledger(path) as ledger:
        rows = ledger.entries()
    sizes: list[int] = []
    for copy in copies:
        with sqlite3.connect(copy) as connection:
            sizes.append(len(list(ledger_file.walk_chain(ledger_file.read_rows(connection)))))
            last = ledger_file.read_last(connection)
        connection.close()
        assert rows[last.sequence] == last
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_a_backup_goes_over_no_file_and_of_a_broken_ledger_there_is_none(path: Path) -> None:
    with Ledger(path) as ledger:
        fill(ledger, 3)
        (path.parent / "there").touch()
        with pytest.raises(FileError, match="file-exists"):
            ledger.backup(path.parent / "there")
        ledger._connection.execute("DROP TRIGGER no_change")
        ledger._connection.execute("UPDATE rows SET asker = 'x' WHERE sequence = 3")
        with pytest.raises(FileError, match="ledger-broken"):
            ledger.backup(path.parent / "copy")
    assert sorted(item.name for item in path.parent.iterdir()) == ["a.ledger", "there"]


def put_back(path: Path, copy: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    copy.rename(path)


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_backup_that_is_put_back_brings_no_budget_back(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_state: bool
) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    with Ledger(path) as ledger:
        ledger.reserve("a" * 64, mu=0.3, budget=0.5, mechanism="noise")
        ledger.backup(tmp_path / "copy")
        ledger.reserve("b" * 64, mu=0.4, budget=0.5, mechanism="noise")
    put_back(path, tmp_path / "copy")
    if not keeps_state:
        monkeypatch.setenv("SILOT_STATE", str(tmp_path / "other"))
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert caught.value.code == ("ledger-older" if keeps_state else "ledger-unknown")
    # Where nothing but a person knows, that person says what was spent.
    for _ in range(2):
        Ledger.trust(path, spent=0.0 if keeps_state else 0.5)
    with Ledger(path) as ledger:
        assert ledger.spent == pytest.approx(0.5)
        with pytest.raises(BudgetError):
            ledger.reserve("b" * 64, mu=0.4, budget=0.5, mechanism="noise")
        assert [row.event for row in ledger.entries()] == ["open", "reserve", "reserve"]
        assert ledger.entries()[-1].facts["by"]


def test_the_newest_backup_that_is_put_back_is_charged_nothing(path: Path, tmp_path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.reserve("a" * 64, mu=0.3, budget=0.5, mechanism="noise")
        ledger.log_question(facts(1))
        ledger.backup(tmp_path / "copy")
        before = ledger.entries()
    put_back(path, tmp_path / "copy")
    # Another file: opened anew, it has the row that was noted, and goes on.
    with Ledger(path) as ledger:
        assert ledger.entries() == before
        ledger.log_question(facts(2))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 40))
def test_whatever_is_moved_away_the_chain_holds(steps: list[int], at: int) -> None:
    """Any order of questions, charges, counts and moves verifies, and no charge is lost."""
    with Ledger() as ledger:
        charges = 0
        for number, step in enumerate(steps):
            if step == 0:
                ledger.reserve(f"{number:064x}", mu=0.1, budget=99.0, mechanism="noise")
                charges += 1
            elif step == 1:
                ledger.note(f"{number:064x}", level="statistics", question="q")
            elif step == 2 and ledger.size > 2:
                try:
                    ledger.rotate(TOMORROW, lambda first, last: None)
                except InputError as error:
                    assert error.code == "trail-empty"
            else:
                ledger.log_question({"round": number})
        ledger.verify()
        assert ledger.spent == pytest.approx(0.1 * charges**0.5)
        number = at % ledger.size
        rows = ledger.entries()
        if rows[number].event == "open" or number == len(rows) - 1:
            return
        connection = ledger._connection
        connection.execute("DROP TRIGGER no_removal")
        connection.execute("DELETE FROM rows WHERE sequence = ?", (rows[number].sequence,))
        connection.execute(next(rule for rule in ledger_file.SCHEMA if "no_removal" in rule))
        with pytest.raises(FileError) as caught:
            ledger.verify()
        assert caught.value.code == "ledger-broken"


def test_approvals_of_a_clock_that_went_astray_end_also_after_many_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The times of rows are looked at once, and those of new rows with every question."""
    with Ledger() as ledger:
        ledger.hold("a" * 64, question="records", level="record", asker="uni")
        ledger.decide(ledger.waiting[0].id, approved=True, span=timedelta(hours=1))
        for number in range(5):
            ledger.log_question(facts(number))
            assert ledger.hold("b" * 64, question="r", level="record", asker="uni") == "approved"
        late = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="seconds")
        with monkeypatch.context() as ahead:
            ahead.setattr(ledger_file, "now", lambda: late)
            ledger.log_question(facts(9))
        assert ledger.hold("c" * 64, question="r", level="record", asker="uni") == "waiting"
