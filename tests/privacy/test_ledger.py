"""The ledger: what was spent stays spent, whatever happens to the process, and edits are found."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import FileError, InputError, RefusedError, SilotError
from silot.privacy import BudgetError, Ledger, compose, ledger_file
from silot.privacy.ledger_file import COLUMNS
from silot.privacy.ledger_head import Place
from tests.tiers import examples

pytestmark = pytest.mark.all_cases


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def key(number: int) -> str:
    return f"{number:064x}"


def charge(ledger: Ledger, number: int, mu: float = 0.1, budget: float = 1.0) -> None:
    ledger.reserve(key(number), mu=mu, budget=budget, mechanism="noise", parameters={"n": number})


def release(ledger: Ledger, number: int, mu: float = 0.1) -> bytes:
    charge(ledger, number, mu)
    return ledger.commit(key(number), b"answer %d" % number)


def code(error: pytest.ExceptionInfo[SilotError]) -> str:
    return error.value.code


# What was spent


@given(st.lists(st.floats(0.01, 1.0), max_size=12), st.floats(0.1, 2.0))
@settings(deadline=None, max_examples=examples(50))
def test_all_that_is_reserved_stays_within_the_budget(mus: list[float], budget: float) -> None:
    with Ledger() as ledger:
        granted: list[float] = []
        for number, mu in enumerate(mus):
            fits = compose([*granted, mu]) <= budget
            try:
                charge(ledger, number, mu, budget)
            except BudgetError as error:
                assert not fits
                assert error.spent == pytest.approx(compose(granted))
                assert error.requested == mu
                # Exactly what is left would still be granted.
                assert compose([error.spent, error.remaining]) == pytest.approx(budget)
            else:
                granted.append(mu)
                assert compose(granted) <= budget * (1 + 1e-8)
        assert ledger.spent == pytest.approx(compose(granted))
        ledger.verify()


def test_a_budget_split_by_squares_can_be_spent_to_the_last() -> None:
    for budget in (0.2471718, 1 / 3, 0.9):
        with Ledger() as ledger:
            charge(ledger, 1, budget * 0.02**0.5, budget)
            charge(ledger, 2, budget * 0.98**0.5, budget)
            with pytest.raises(BudgetError):
                charge(ledger, 3, budget * 1e-3, budget)


def test_what_was_reserved_and_never_released_is_spent(path: Path) -> None:
    with Ledger(path) as ledger:
        charge(ledger, 1, 0.8)
    with Ledger(path) as ledger:
        assert ledger.spent == 0.8
        with pytest.raises(RefusedError) as caught:
            charge(ledger, 2, 0.8)
        assert code(caught) == "ledger-budget"
        for word in ("0.8 is spent", "0.8 was requested", "0.6 is left"):
            assert word in str(caught.value)
        assert [row.event for row in ledger.entries()] == ["open", "reserve"]


def test_a_refusal_writes_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        head = ledger.head
        with pytest.raises(BudgetError):
            charge(ledger, 1, 2.0)
        assert ledger.head == head and ledger.spent == 0.0


def test_an_infinite_budget_refuses_nothing_and_still_counts() -> None:
    with Ledger() as ledger:
        for number in range(5):
            charge(ledger, number, 10.0, float("inf"))
        assert ledger.spent == pytest.approx(10 * 5**0.5)


def test_a_budget_that_is_no_number_allows_nothing() -> None:
    with Ledger() as ledger, pytest.raises(BudgetError):
        charge(ledger, 1, 0.1, float("nan"))


@pytest.mark.parametrize("mu", [0.0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_mu_out_of_range_is_coded(mu: float) -> None:
    with Ledger() as ledger, pytest.raises(InputError) as caught:
        charge(ledger, 1, mu)
    assert code(caught) == "option-mu"


# One question, one answer


def test_a_stored_answer_is_found_by_other_processes_and_after_a_restart(path: Path) -> None:
    with Ledger(path) as first, Ledger(path) as second:
        release(first, 1)
        assert second.find(key(1)) == b"answer 1"
    with Ledger(path) as ledger:
        assert ledger.find(key(1)) == b"answer 1"
        assert ledger.find(key(2)) is None
        assert ledger.spent == 0.1


def test_a_question_whose_answer_was_never_stored_is_charged_once(path: Path) -> None:
    with Ledger(path) as ledger:
        charge(ledger, 1)
    with Ledger(path) as ledger:
        release(ledger, 1)
        assert ledger.spent == 0.1
        assert [row.event for row in ledger.entries()] == ["open", "reserve", "release", "commit"]


def test_of_two_answers_to_one_question_the_first_stored_leaves(path: Path) -> None:
    with Ledger(path) as first, Ledger(path) as second:
        charge(first, 1)
        charge(second, 1)
        assert first.commit(key(1), b"one") == b"one"
        assert second.commit(key(1), b"other") == b"one"
        assert second.spent == 0.1


def test_a_question_keeps_its_mu() -> None:
    with Ledger() as ledger:
        charge(ledger, 1, 0.1)
        with pytest.raises(InputError) as caught:
            charge(ledger, 1, 0.2)
    assert code(caught) == "option-mu"


def test_nothing_is_stored_without_a_reserve() -> None:
    with Ledger() as ledger:
        with pytest.raises(InputError) as caught:
            ledger.commit(key(1), b"free")
        assert code(caught) == "ledger-order"
        assert ledger.find(key(1)) is None


def test_an_answer_that_was_stored_and_not_handed_over_is_marked_when_it_is(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
        rows = ledger.entries()
    # As if the process had been killed between the two transactions.
    with_raw(path, "DROP TRIGGER no_removal", "DELETE FROM rows WHERE event = 'commit'")
    with_raw(path, NO_REMOVAL)
    Ledger.trust(path)
    with Ledger(path) as ledger:
        assert [row.event for row in ledger.entries()][-1] == "release"
        assert ledger.find(key(1)) == b"answer 1"
        assert [row.event for row in ledger.entries()] == [row.event for row in rows]
        ledger.verify()


# Many at once


def test_threads_together_stay_within_the_budget(path: Path) -> None:
    granted: list[int] = []
    with Ledger(path) as one, Ledger(path) as other:

        def spend(worker: int) -> None:
            for number in range(10):
                try:
                    charge([one, other][worker % 2], 100 * worker + number, 0.2)
                except BudgetError:
                    continue
                granted.append(number)

        threads = [threading.Thread(target=spend, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == 25  # 25 * 0.2^2 = 1
        assert one.spent == pytest.approx(1.0)
        one.verify()


_SPENDER = """
import sys
from silot.privacy.ledger import BudgetError, Ledger
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    # Half of the questions are everybody's, half are its own.
    name = f"{number:064x}" if number % 2 else f"{sys.argv[2]}-{number}"
    try:
        ledger.reserve(name, mu=0.1, budget=0.5, mechanism="noise")
    except BudgetError:
        continue
    print(name, ledger.commit(name, sys.argv[2].encode()).decode(), flush=True)
"""


def test_processes_together_stay_within_the_budget_and_agree_on_answers(path: Path) -> None:
    Ledger(path).close()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _SPENDER, str(path), str(worker)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for worker in range(4)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    answers: dict[str, set[str]] = {}
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        for line in worker.communicate()[0].splitlines():
            name, answer = line.split()
            answers.setdefault(name, set()).add(answer)
        assert worker.returncode == 0
    assert all(len(found) == 1 for found in answers.values())
    with Ledger(path) as ledger:
        reserved = [row for row in ledger.entries() if row.event == "reserve"]
        assert len(reserved) == len(answers) == 25
        assert ledger.spent == pytest.approx(0.5)


def test_many_processes_may_make_the_ledger_at_once(path: Path) -> None:
    made: list[str] = []

    def make() -> None:
        with Ledger(path) as ledger:
            made.append(ledger.entries()[0].hash)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8 and len(set(made)) == 1


def test_a_forked_process_must_open_the_ledger_anew(path: Path) -> None:
    with Ledger(path) as ledger:
        charge(ledger, 1)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ledger.close()
                charge(ledger, 2)
            except FileError as error:
                status = 0 if error.code == "ledger-forked" else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        charge(ledger, 3)
        ledger.verify()


# The file


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    umask = os.umask(0)
    try:
        with Ledger(path) as ledger:
            charge(ledger, 1)
            found = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
    finally:
        os.umask(umask)
    assert found == {"a.ledger": 0o600, "a.ledger-wal": 0o600, "a.ledger-shm": 0o600}


def test_every_row_reaches_the_disk(path: Path) -> None:
    with Ledger(path) as ledger:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2)):
            assert ledger._connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_rows_say_who_asked_what_and_when(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.reserve(key(1), mu=0.1, budget=1.0, mechanism="noise", parameters={"b": 1, "a": 2.5},
                       asker="evil\x1b[2J\nname" + "x" * 500)  # fmt: skip
        ledger.commit(key(1), b"answer")
        first, reserved, released, committed = ledger.entries()
    assert json.loads(first.parameters)["version"] == ledger_file.VERSION
    assert reserved.parameters == '{"a":2.5,"b":1}'
    assert (reserved.mechanism, reserved.mu, reserved.total) == ("noise", 0.1, 0.1)
    assert reserved.asker.startswith("evil?[2J?name") and len(reserved.asker) == 200
    assert reserved.time.endswith("+00:00")
    assert released.digest and released.total == committed.total == 0.1


def test_parameters_that_are_no_json_are_coded() -> None:
    for value in (float("nan"), object(), {1, 2}):
        with Ledger() as ledger, pytest.raises(InputError) as caught:
            ledger.reserve(key(1), mu=0.1, budget=1.0, mechanism="noise", parameters={"v": value})
        assert code(caught) == "release-parameters"


def test_a_ledger_can_only_be_added_to(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    columns = ", ".join(name if name != "mu" else "0.01" for name in COLUMNS)
    for statement in (
        "UPDATE rows SET mu = 0.01 WHERE event = 'reserve'",
        "DELETE FROM rows WHERE sequence = 3",
        f"REPLACE INTO rows SELECT {columns}, reply FROM rows WHERE sequence = 1",
        "INSERT INTO rows SELECT 9, 'reserve', time, asker, mechanism, parameters, 'x', mu, total, "
        "digest, previous, hash, reply FROM rows WHERE sequence = 1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            with_raw(path, statement)
    with Ledger(path) as ledger:
        ledger.verify()


def with_raw(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    try:
        with connection:
            for statement in statements:
                connection.execute(statement)
    finally:
        connection.close()


NO_CHANGE = (
    "CREATE TRIGGER no_change BEFORE UPDATE ON rows "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END"
)
NO_REMOVAL = NO_CHANGE.replace("no_change", "no_removal").replace("UPDATE", "DELETE")

EDITS = {
    "UPDATE rows SET mu = 0.01 WHERE sequence = 1": "row 1 was changed",
    "UPDATE rows SET asker = 'nobody' WHERE sequence = 4": "row 4 was changed",
    "UPDATE rows SET time = '2020-01-01' WHERE sequence = 0": "row 0 was changed",
    "UPDATE rows SET reply = x'00' WHERE sequence = 2": "row 2 does not add up",
    "UPDATE rows SET hash = substr(hash, 2) || substr(hash, 1, 1) WHERE sequence = 3": "row [34]",
    "DELETE FROM rows WHERE sequence = 4": "row 4 is missing",
    "DELETE FROM rows WHERE sequence = 0": "row 0 is missing",
    "DELETE FROM rows": "row 0 is missing",
}


@pytest.mark.parametrize(("edit", "first"), EDITS.items())
def test_an_edited_file_names_the_first_broken_row(path: Path, edit: str, first: str) -> None:
    with Ledger(path) as ledger:
        for number in range(3):
            release(ledger, number)
    with_raw(path, "DROP TRIGGER no_change", "DROP TRIGGER no_removal", edit)
    with_raw(path, NO_CHANGE, NO_REMOVAL)
    with pytest.raises(FileError, match=first) as caught:
        Ledger(path)
    assert code(caught) == "ledger-broken"


def test_a_file_without_its_rules_is_broken(path: Path) -> None:
    Ledger(path).close()
    with_raw(path, "DROP TRIGGER no_change")
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert code(caught) == "ledger-broken"


def test_an_edit_while_the_ledger_is_open_is_found_when_it_matters(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
        with_raw(path, "DROP TRIGGER no_change", "UPDATE rows SET reply = x'00' WHERE sequence = 2")
        with pytest.raises(FileError) as caught:
            ledger.find(key(1))
    assert code(caught) == "ledger-broken"


def test_rows_cut_off_at_the_end_are_refused_until_the_owner_trusts_the_file(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
        early = ledger.head
        release(ledger, 2)
        late = ledger.head
        assert ledger.verify(head=early) == ledger.verify(head=late.upper()) == late
    with_raw(path, "DROP TRIGGER no_removal", "DELETE FROM rows WHERE sequence > 3")
    with_raw(path, NO_REMOVAL)
    with pytest.raises(FileError, match="older copy") as caught:
        Ledger(path)
    assert code(caught) == "ledger-older"
    head = Ledger.trust(path)
    with Ledger(path) as ledger:
        assert ledger.verify() == ledger.verify(head=early) == head
        # What was cut off stays spent.
        assert ledger.spent == pytest.approx(0.1 * 2**0.5)
        assert len(ledger.entries()) == 5
        with pytest.raises(FileError, match="cut off") as caught:
            ledger.verify(head=late)
    assert code(caught) == "ledger-broken"


def test_two_ledgers_are_told_apart_by_their_heads(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a") as one, Ledger(tmp_path / "b") as other:
        assert one.head != other.head


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_never_a_fresh_ledger(path: Path, share: float) -> None:
    with Ledger(path) as ledger:
        for number in range(20):
            charge(ledger, number)
            ledger.commit(key(number), b"x" * 3000)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert code(caught) in ("ledger-broken", "ledger-kind")


@pytest.mark.parametrize("position", [0.02, 0.3, 0.6, 0.95])
def test_bytes_flipped_anywhere_are_found_or_harmless(path: Path, position: float) -> None:
    with Ledger(path) as ledger:
        for number in range(20):
            charge(ledger, number)
            ledger.commit(key(number), b"x" * 3000)
        before = ledger.entries()
    data = bytearray(path.read_bytes())
    start = int(position * len(data))
    data[start : start + 40] = bytes(255 - byte for byte in data[start : start + 40])
    path.write_bytes(data)
    try:
        with Ledger(path) as ledger:
            assert ledger.entries() == before
    except FileError as error:
        assert error.code in ("ledger-broken", "ledger-kind", "file-unreadable")


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a ledger" * 100)
    other = tmp_path / "other.db"
    with_raw(other, "CREATE TABLE rows (sequence)")
    for path in (text, other):
        data = path.read_bytes()
        with pytest.raises(FileError) as caught:
            Ledger(path)
        assert code(caught) == "ledger-kind"
        assert path.read_bytes() == data


def test_a_ledger_of_another_version_is_said(path: Path) -> None:
    Ledger(path).close()
    with_raw(path, f"PRAGMA user_version = {ledger_file.VERSION + 1}")
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert code(caught) == "file-version"


def test_a_ledger_that_is_gone_while_its_log_is_there_is_not_made_anew(path: Path) -> None:
    with Ledger(path) as ledger:
        charge(ledger, 1)
        path.unlink()
        with pytest.raises(FileError) as caught:
            Ledger(path)
        assert code(caught) == "ledger-gone"
        with pytest.raises(InputError, match="wal") as there:
            Ledger.forget(path)
    assert there.value.code == "ledger-present"


def test_a_ledger_that_another_process_makes_meanwhile_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Place.check_free
    with ExitStack() as others:

        def faster(place: Place) -> None:
            monkeypatch.undo()
            check(place)
            charge(others.enter_context(Ledger(path)), 1)

        monkeypatch.setattr(Place, "check_free", faster)
        with Ledger(path) as ledger:
            charge(ledger, 2)
            assert len(ledger.entries()) > 2
            ledger.verify()


# Another file than it was


def copied(path: Path, name: str) -> Path:
    other = path.with_name(name)
    shutil.copy(path, other)
    return other


def test_a_file_removed_under_a_ledger_that_is_open_ends_it_and_no_other_takes_its_place(
    path: Path,
) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        for act in (lambda: release(ledger, 2), lambda: ledger.find(key(1)), lambda: Ledger(path)):
            with pytest.raises(FileError, match="forget") as caught:
                act()
            assert code(caught) == "ledger-gone"
    assert Ledger.forget(path)
    with Ledger(path) as ledger:
        assert ledger.spent == 0.0


def test_a_removed_file_is_not_made_anew_by_the_next_run(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    path.unlink()
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert code(caught) == "ledger-gone" and not path.exists()


def test_an_older_copy_is_refused_and_the_newest_goes_on(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    old = copied(path, "old")
    with Ledger(path) as ledger:
        release(ledger, 2)
    new = copied(path, "new")
    shutil.copy(old, path)
    for each in (path, old):
        with pytest.raises(FileError) as caught:
            Ledger(each)
        assert code(caught) == "ledger-older"
    shutil.copy(new, path)
    with Ledger(path) as ledger:
        assert ledger.spent == pytest.approx(0.02**0.5)


def test_an_older_copy_put_under_a_ledger_that_is_open_is_refused(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    old = copied(path, "old")
    with Ledger(path) as ledger:
        release(ledger, 2)
        old.replace(path)
        with pytest.raises(FileError) as caught:
            release(ledger, 3)
        assert code(caught) == "ledger-replaced"


def test_two_copies_are_never_two_budgets(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    other = copied(path, "copy")
    with Ledger(path) as one, Ledger(other) as two:
        release(one, 2)
        with pytest.raises(FileError) as caught:
            release(two, 3)
    assert code(caught) == "ledger-older"


def test_a_fresh_ledger_put_in_the_place_of_another_is_refused(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    with Ledger(path.with_name("fresh")):
        pass
    path.with_name("fresh").replace(path)
    with pytest.raises(FileError, match="not the ledger that was used here") as caught:
        Ledger(path)
    assert code(caught) == "ledger-replaced"


def test_a_moved_ledger_goes_on_in_its_new_place(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    moved = path.with_name("moved")
    path.rename(moved)
    with Ledger(moved) as ledger:
        release(ledger, 2)
    with Ledger(moved) as ledger:
        assert ledger.spent == pytest.approx(0.02**0.5)
    with pytest.raises(FileError) as caught:
        Ledger(path)
    assert code(caught) == "ledger-gone"


def test_a_link_that_is_turned_to_another_folder_is_no_new_budget(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "v1")
    with Ledger(current / "n.ledger") as ledger:
        release(ledger, 1)
    current.unlink()
    current.symlink_to(tmp_path / "v2")
    with pytest.raises(FileError) as caught:
        Ledger(current / "n.ledger")
    assert code(caught) == "ledger-gone"
    with Ledger(tmp_path / "v1" / "n.ledger") as ledger:
        assert ledger.find(key(1)) == b"answer 1"


def test_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger("n.ledger") as ledger:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        release(ledger, 1)
    monkeypatch.setenv("SILOT_STATE", "state")
    with pytest.raises(FileError, match="absolute") as caught:
        Ledger(tmp_path / "n.ledger")
    assert code(caught) == "ledger-head"


def test_a_ledger_from_another_machine_is_trusted_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "elsewhere"))
    with pytest.raises(FileError, match="another machine") as caught:
        Ledger(path)
    assert code(caught) == "ledger-unknown"
    Ledger.trust(path)
    with Ledger(path) as ledger:
        assert ledger.find(key(1)) == b"answer 1"


def test_without_a_place_for_heads_nothing_is_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path) as ledger:
        (tmp_path / "file").write_text("")
        assert ledger._place is not None
        monkeypatch.setattr(ledger._place._heads, "folder", tmp_path / "file")
        with pytest.raises(FileError, match="SILOT_STATE") as caught:
            release(ledger, 1)
    assert code(caught) == "ledger-head"


def test_forgetting_leaves_a_file_that_is_there_alone(path: Path) -> None:
    Ledger(path).close()
    with pytest.raises(InputError) as caught:
        Ledger.forget(path)
    assert caught.value.code == "ledger-present" and path.exists()


# Exact answers


def note(ledger: Ledger, number: int, **more: Any) -> str:
    options: dict[str, Any] = {
        "level": "statistics", "question": "distance-to", "asker": "clinic", **more,
    }  # fmt: skip
    return ledger.note(key(number), **options)


def test_exact_answers_are_noted_once_spend_nothing_and_have_no_limit(path: Path) -> None:
    with Ledger(path) as ledger:
        for number in (*range(30), 1, 1):
            assert note(ledger, number) == ""
        note(ledger, 40, level="record", question="records", asker="bank")
    with Ledger(path) as ledger:
        answers = {(one.asker, one.level, one.kind): one.times for one in ledger.answers}
        assert answers == {
            ("clinic", "statistics", "distance-to"): 30, ("bank", "record", "records"): 1,
        }  # fmt: skip
        assert ledger.count_answers("distance-to") == 30 and ledger.spent == 0.0


def test_the_answer_of_a_noted_question_is_stored_once(path: Path) -> None:
    with Ledger(path) as ledger:
        assert ledger.before(key(1)) is None
        note(ledger, 1)
        assert ledger.before(key(1)) == b""
        first = ledger.store_answer(key(1), b"first")
        assert first == ledger.store_answer(key(1), b"second") == b"first"
        assert ledger.before(key(1)) == b"first"
        with pytest.raises(InputError) as caught:
            ledger.store_answer(key(9), b"never noted")
    assert caught.value.code == "ledger-order"


def test_a_further_asker_of_a_question_is_noted_once_and_charged_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.reserve(key(1), mu=0.1, budget=1.0, mechanism="sketch", asker="clinic")
        ledger.commit(key(1), b"noisy")
        note(ledger, 2)
        note(ledger, 3, level="record")
        for asker in ("bank", "bank", "clinic"):
            assert ledger.find(key(1), asker) == b"noisy"
            note(ledger, 2, asker=asker)
            note(ledger, 3, asker=asker, level="record")
        assert ledger.spent == pytest.approx(0.1)
        # Below level record.
        assert ledger.count_answers("distance-to") == 1
        answers = {(one.asker, one.level): one for one in ledger.answers}
    assert {pair for pair, one in answers.items() if one.again} == {
        ("bank", "private"), ("bank", "statistics"), ("bank", "record"),
    }  # fmt: skip
    assert answers["bank", "private"].mu == answers["clinic", "private"].mu == pytest.approx(0.1)
    assert all(one.times == 1 for one in answers.values())
    with Ledger(path, readonly=True) as ledger:
        ledger.verify()


def test_what_is_beyond_a_limit_is_refused_noted_once_and_counts_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        assert note(ledger, 1, most=1) == ""
        for number in (2, 3):
            assert note(ledger, number, most=1) == "policy-exact"
        # What was answered before is no further answer.
        assert note(ledger, 1, most=1) == note(ledger, 1, most=0) == ""
        ledger.refuse("distance-to", "policy-exact", "clinic")
        ledger.refuse("distance-to", "policy-exact", "bank")
        assert [row.asker for row in ledger.entries() if row.event == "refuse"] == [
            "clinic", "bank",
        ]  # fmt: skip
        assert ledger.count_answers("distance-to") == 1


def test_threads_and_processes_together_stay_within_a_limit(path: Path) -> None:
    script = """
import sys
from silot.privacy import Ledger
with Ledger(sys.argv[1]) as ledger:
    for number in range(30):
        key = f"{int(sys.argv[2]) * 100 + number:064x}"
        if not ledger.note(key, level="statistics", question="q", most=12):
            ledger.store_answer(key, b"answer")
"""
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(k)]) for k in range(3)
    ]
    assert [process.wait(timeout=1200) for process in running] == [0, 0, 0]
    with Ledger(path) as ledger:
        assert ledger.count_answers("q") == 12
        assert sum(row.event == "answered" for row in ledger.entries()) == 12


def test_a_ledger_of_the_first_version_goes_on(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    with_raw(path, "PRAGMA user_version = 1")
    with Ledger(path) as ledger:
        note(ledger, 2)
        assert ledger.spent == pytest.approx(0.1)


def test_an_absent_ledger_is_made_only_where_that_is_wanted(path: Path) -> None:
    for options in ({"create": False}, {"readonly": True}):
        with pytest.raises(FileError) as caught:
            Ledger(path, **options)
        assert code(caught) == "file-missing"
    assert list(path.parent.iterdir()) == []
    with pytest.raises(FileError) as caught:
        Ledger(path.parent / "absent" / "a.ledger")
    assert code(caught) == "file-unwritable"


def test_making_a_ledger_leaves_no_other_file(path: Path) -> None:
    Ledger(path).close()
    assert list(path.parent.iterdir()) == [path]


def test_a_locked_ledger_is_said_and_nothing_is_charged(path: Path) -> None:
    Ledger(path).close()
    blocker = sqlite3.connect(path, isolation_level=None)
    try:
        with Ledger(path, timeout=0.05) as ledger:
            blocker.execute("BEGIN IMMEDIATE")
            with pytest.raises(FileError) as caught:
                charge(ledger, 1)
            assert code(caught) == "ledger-locked"
            blocker.execute("ROLLBACK")
            charge(ledger, 1)
            assert ledger.spent == 0.1
    finally:
        blocker.close()


def test_a_full_disk_is_said_and_no_answer_leaves(path: Path) -> None:
    with Ledger(path) as ledger:
        charge(ledger, 1)
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(FileError) as caught:
            ledger.commit(key(1), b"x" * 100_000)
        assert code(caught) == "ledger-full"
        assert ledger.find(key(1)) is None
        ledger._connection.execute("PRAGMA max_page_count = 1000000")
        assert release(ledger, 1) == b"answer 1"
        ledger.verify()


def test_a_ledger_open_for_reading_charges_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        release(ledger, 1)
    with Ledger(path, readonly=True) as ledger:
        assert ledger.spent == 0.1
        with pytest.raises(FileError) as caught:
            charge(ledger, 2)
        assert code(caught) == "ledger-read-only"


def test_a_closed_ledger_is_said(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close()
    ledger.close()
    for use in (lambda: ledger.spent, lambda: charge(ledger, 1), ledger.verify):
        with pytest.raises(FileError) as caught:
            use()
        assert code(caught) == "ledger-closed"


def test_the_refusal_keeps_its_numbers_when_it_is_copied() -> None:
    import copy

    with Ledger() as ledger, pytest.raises(BudgetError) as caught:
        charge(ledger, 1, 2.0)
    found = copy.copy(caught.value)
    assert (found.spent, found.requested, found.remaining) == (0.0, 2.0, 1.0)
    assert str(found) == str(caught.value)


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    import gc

    yield
    gc.collect()
