"""Ledgers about the same people share one budget, whatever their files are called."""

from __future__ import annotations

import hmac
import json
import math
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

import silot
from silot import Measure, Policy
from silot.data.loading import load_measure
from silot.distances.sketches.questions import CountRecords
from silot.errors import FileError, SilotError
from silot.federation import Failure, Holder
from silot.privacy import BudgetError, Ledger, compose, ledger_file
from silot.privacy.people import (
    KEY,
    REGISTER,
    People,
    PeopleWarning,
    fingerprint_records,
    share_people,
)
from tests.lazily import package
from tests.tiers import examples

polars = package("polars")

COLUMNS = ("weight", "age", "dose")
RECORDS = np.random.default_rng(0).normal(50, 20, (400, 3))
OTHERS = np.random.default_rng(1).normal(50, 20, (400, 3))
POLICY = Policy(privacy_epsilon=1.0)
ROOT = Path(__file__).parents[2]


def prints(points, columns=None):
    return fingerprint_records(np.asarray(points, dtype=float), columns, b"k" * 32)


def question(resolution: int = 1024, share: float = 1.0) -> CountRecords:
    budget = POLICY.budget_mu
    assert budget is not None
    return CountRecords(privacy_mu=budget * share, resolution=resolution)


def register(path: Path, points=RECORDS, columns=COLUMNS) -> tuple[str, ...]:
    with Ledger(path) as ledger:
        return ledger.register(np.asarray(points), columns)


def reserve(path: Path, key: str, mu: float = 0.3, budget: float = 0.5) -> None:
    with Ledger(path) as ledger:
        ledger.reserve(key * 64, mu=mu, budget=budget, mechanism="toy")


# Which tables are about the same people.

MIXED = np.random.default_rng(2).permutation(len(RECORDS))
VERSIONS: dict[str, Callable[[], tuple[np.ndarray, tuple[str, ...] | None]]] = {
    "a copy": lambda: (RECORDS.copy(), COLUMNS),
    "a part": lambda: (RECORDS[100:140], COLUMNS),
    "of some people": lambda: (RECORDS[RECORDS[:, 1] > 60], COLUMNS),
    "in another order": lambda: (RECORDS[MIXED], COLUMNS),
    "columns in another order": lambda: (RECORDS[:, [2, 0, 1]], ("dose", "weight", "age")),
    "columns with other names": lambda: (RECORDS, ("a", "b", "c")),
    "columns without names, in another order": lambda: (RECORDS[:, [2, 0, 1]], None),
    "in single precision": lambda: (RECORDS.astype(np.float32).astype(np.float64), COLUMNS),
    "with more people": lambda: (np.vstack([OTHERS, RECORDS]), COLUMNS),
    "with a fifth of the people": lambda: (np.vstack([OTHERS, RECORDS[:80]]), COLUMNS),
    "corrected": lambda: (RECORDS + (np.arange(400) % 10 == 0)[:, None], COLUMNS),
}


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_a_version_of_a_table_joins_its_account(tmp_path: Path, version) -> None:
    assert register(tmp_path / "a") == ()
    points, columns = version()
    assert register(tmp_path / "b", points, columns) == (str(tmp_path / "a"),)


def test_a_file_of_another_format_joins(tmp_path: Path) -> None:
    frame = polars.DataFrame(dict(zip(COLUMNS, RECORDS.T, strict=True)))
    frame.write_csv(tmp_path / "x.csv")
    frame.select(sorted(COLUMNS)).write_parquet(tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", X=RECORDS.astype(np.float32))
    for number, kind in enumerate(("csv", "parquet", "npz")):
        measure = load_measure(tmp_path / f"x.{kind}")
        assert len(register(tmp_path / kind, measure.points, measure.columns)) == number


@given(st.integers(0, 2**32), st.integers(2, 300), st.integers(1, 8))
@settings(max_examples=examples(40))
def test_halves_of_a_continuous_table_are_different_people(seed, n, d) -> None:
    points = np.random.default_rng(seed).standard_normal((2 * n, d))
    assert not share_people(prints(points[:n]), prints(points[n:]))


def test_halves_of_a_table_with_repeated_rows_are_different_people() -> None:
    iris = load_iris(return_X_y=True)[0]
    draws = np.random.default_rng(3)
    for _ in range(10):
        rows = iris[draws.permutation(len(iris))]
        assert not share_people(prints(rows[:75]), prints(rows[75:]))


@given(st.integers(0, 2**32), st.integers(1, 60), st.data())
@settings(max_examples=examples(40))
def test_a_table_joins_its_parts_and_copies_whatever_it_holds(seed, n, data) -> None:
    draws = np.random.default_rng(seed)
    values = data.draw(st.sampled_from([2, 3, 10, 1000]))
    points = draws.integers(0, values, (n, data.draw(st.integers(1, 5)))).astype(float)
    part = points[draws.permutation(n)[: data.draw(st.integers(1, n))]]
    assert share_people(prints(points), prints(part))
    assert share_people(prints(part), prints(np.vstack([part, points + 0.5])))


def test_answers_of_other_people_to_few_questions_join_only_where_one_table_is_small() -> None:
    draws = np.random.default_rng(4)
    tables = [draws.integers(0, 2, (1000, 5)).astype(float) for _ in range(10)]
    for first, second in zip(tables[::2], tables[1::2], strict=True):
        assert not share_people(prints(first), prints(second))
        # Nobody can tell whether these 50 are of the 1000: it errs towards one budget.
        assert share_people(prints(first), prints(second[:50]))


def test_a_single_shared_record_joins_nothing() -> None:
    points = OTHERS.copy()
    points[7] = RECORDS[9]
    assert not share_people(prints(RECORDS), prints(points))
    points[8:11] = RECORDS[10:13]
    assert share_people(prints(RECORDS), prints(points))


# Fingerprints.


def test_a_record_has_one_fingerprint_however_its_numbers_are_written() -> None:
    first = prints([[0.0, 1.0, math.nan]])
    second = prints([[-0.0, 1.0, -np.float64("nan")]])
    assert first.has(second) and second.has(first)
    assert not first.has(prints([[0.0, 1.0001, math.nan]]))


def test_fingerprints_are_hmac_of_the_record_and_need_the_key() -> None:
    row = np.array([3.0, 1.0, 2.0])
    key = hmac.digest(b"k" * 32, b"named", "sha256")
    expected = hmac.digest(key, row.astype("<f4").tobytes(), "sha256")[:8]
    assert prints([row]).named.values.tobytes() == expected
    other = fingerprint_records(row[None], None, b"o" * 32)
    assert not other.named.has(prints([row]).named)


def test_labels_and_weights_make_no_other_people(tmp_path: Path) -> None:
    Holder(Measure(RECORDS, labels=RECORDS[:, 0] > 50), POLICY, Ledger(tmp_path / "a"))
    with pytest.warns(PeopleWarning, match="shares records"):
        Holder(Measure(RECORDS, weights=np.arange(400) + 1.0), POLICY, Ledger(tmp_path / "b"))


# One budget.


def test_a_new_ledger_gives_no_new_budget(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a") as ledger:
        assert not isinstance(Holder(RECORDS, POLICY, ledger).answer(question()), Failure)
    with Ledger(tmp_path / "b") as ledger:
        with pytest.warns(PeopleWarning, match="a release from one is charged to all"):
            holder = Holder(RECORDS, POLICY, ledger)
        refused = holder.answer(question(1000, 0.5))
        assert isinstance(refused, Failure) and refused.code == "ledger-budget"
        assert refused.numbers["left_mu"] == 0.0
        assert ledger.spent == 0.0 and ledger.account.spent == POLICY.budget_mu
        # The same question is another release here: its answer is of the other ledger's table.
        refused = holder.answer(question())
        assert isinstance(refused, Failure)
    with Ledger(tmp_path / "c") as ledger:
        assert not isinstance(Holder(OTHERS, POLICY, ledger).answer(question()), Failure)


def test_both_ledgers_charge_one_account_in_turns(tmp_path: Path) -> None:
    register(tmp_path / "a")
    register(tmp_path / "b")
    reserve(tmp_path / "a", "1")
    reserve(tmp_path / "b", "2")
    for name in ("a", "b"):
        with pytest.raises(BudgetError, match="other ledgers about the same people") as caught:
            reserve(tmp_path / name, "3")
        assert caught.value.spent == pytest.approx(math.hypot(0.3, 0.3))
    # Charged before: nothing is charged again.
    reserve(tmp_path / "a", "1")


def test_what_was_spent_before_they_joined_adds_up_and_others_join_through_them(tmp_path) -> None:
    register(tmp_path / "a")
    register(tmp_path / "b", OTHERS)
    reserve(tmp_path / "a", "1", 0.3)
    reserve(tmp_path / "b", "1", 0.4)
    both = register(tmp_path / "c", np.vstack([RECORDS, OTHERS]))
    assert both == (str(tmp_path / "a"), str(tmp_path / "b"))
    for name in "abc":
        with Ledger(tmp_path / name, readonly=True) as ledger:
            assert ledger.account.spent == pytest.approx(0.5)
            assert len(ledger.account.ledgers) == 3
            assert ledger.account.ledgers[0][0] == str(tmp_path / name)


def test_a_ledger_from_before_joins_with_what_it_spent(tmp_path: Path) -> None:
    reserve(tmp_path / "a", "1", 0.4)
    register(tmp_path / "a")
    register(tmp_path / "b")
    with Ledger(tmp_path / "b") as ledger:
        assert ledger.account.spent == pytest.approx(0.4)


def test_a_ledger_that_is_gone_and_forgotten_stays_charged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    register(path)
    reserve(path, "1", 0.5)
    path.unlink()
    assert Ledger.forget(path)
    assert register(path) == (str(path),)
    with pytest.raises(BudgetError):
        reserve(path, "2")


def test_an_older_copy_that_is_trusted_stays_charged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    register(path)
    older = path.read_bytes()
    reserve(path, "1", 0.3)
    reserve(path, "2", 0.3)
    path.write_bytes(older)
    Ledger.trust(path)
    with Ledger(path) as ledger:
        assert ledger.spent == ledger.account.spent == pytest.approx(math.hypot(0.3, 0.3))


def test_a_limited_number_of_exact_answers_is_one_for_all_ledgers(tmp_path: Path) -> None:
    for name in "ab":
        register(tmp_path / name)
    codes = []
    for number, name in enumerate("abab"):
        with Ledger(tmp_path / name) as ledger:
            key = f"{number:064x}"
            codes.append(ledger.note(key, level="statistics", question="secure-distance", most=2))
            # Noted before: not counted again.
            ledger.note(f"{0:064x}", level="statistics", question="secure-distance", most=2)
            assert ledger.count_answers("secure-distance") == min(number + 1, 2)
    assert codes == ["", "", "policy-exact", "policy-exact"]


def test_a_ledger_in_memory_registers_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    assert Ledger().register(RECORDS) == ()
    assert Ledger().account.spent == 0.0 and not (tmp_path / "state").exists()
    Ledger(tmp_path / "a").close()
    with Ledger(tmp_path / "a", readonly=True) as ledger:
        assert ledger.register(RECORDS) == ()
    assert not (tmp_path / "state" / REGISTER).exists()


def test_holders_of_the_same_people_in_one_run_are_charged_for_both_or_not_at_all(tmp_path) -> None:
    x = np.random.default_rng(7).standard_normal((2500, 2))
    run = {"public": x[:500] + 0.1, "ledgers": tmp_path / "ledgers", "privacy_epsilon": 0.9}
    with pytest.warns(PeopleWarning), pytest.raises(SilotError) as caught:
        silot.api.sketches({"a": x, "b": x[::-1]}, **run)
    assert caught.value.code == "ledger-budget"
    for name in "ab":
        with Ledger(tmp_path / "ledgers" / f"{name}.ledger", readonly=True) as ledger:
            assert ledger.account.spent == 0.0
    silot.api.sketches({"a": x, "b": x[::-1]}, **run, budget_epsilon=2.0)


# Other people.


def test_a_ledger_of_other_people_is_separated_for_good_and_that_is_noted(tmp_path: Path) -> None:
    few = np.random.default_rng(5).integers(0, 2, (900, 3)).astype(float)
    register(tmp_path / "a", few)
    reserve(tmp_path / "a", "1", 0.4)
    assert register(tmp_path / "b", few[:30])
    with Ledger(tmp_path / "b") as ledger:
        assert ledger.separate() == (str(tmp_path / "a"),)
        assert ledger.account.spent == 0.0 and ledger.separate() == ()
        ledger.verify()
        joined, separated = ledger.entries()[-2:]
        assert [joined.event, separated.event] == ["join", "separate"]
        assert json.loads(separated.parameters)["ledgers"] == [str(tmp_path / "a")]
        assert json.loads(separated.parameters)["by"]
    assert register(tmp_path / "b", few[:40]) == () == register(tmp_path / "a", few[:800])
    reserve(tmp_path / "b", "1", 0.4)
    with Ledger(tmp_path / "a") as ledger:
        assert ledger.account.spent == pytest.approx(0.4)


# Files, kills, and two processes at once.


def test_key_and_register_are_their_owner_s_and_hold_no_record(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    register(tmp_path / "a")
    for name in (KEY, REGISTER):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600
    assert len((tmp_path / "state" / KEY).read_bytes()) == 32
    held = (tmp_path / "state" / REGISTER).read_bytes()
    for kind in (np.float32, np.float64):
        assert all(row.tobytes() not in held for row in RECORDS.astype(kind))
    (tmp_path / "state" / KEY).write_bytes(bytes(32))
    with pytest.raises(FileError, match="Restore it") as caught:
        register(tmp_path / "b")
    assert caught.value.code == "ledger-head"


def test_a_release_that_was_charged_and_never_noted_is_charged_once(tmp_path, monkeypatch) -> None:
    for name in "ab":
        register(tmp_path / name)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for key in "12":
        with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
            context.setattr(ledger_file, "add", die)
            reserve(tmp_path / "a", key)
    with Ledger(tmp_path / "b") as ledger:
        # Until the ledger is charged again, what nobody received counts as spent.
        assert ledger.account.spent == pytest.approx(0.3)
    reserve(tmp_path / "a", "1")
    with Ledger(tmp_path / "b") as ledger:
        assert ledger.account.spent == pytest.approx(0.3)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 5)), max_size=12))
@settings(max_examples=examples(20))
def test_the_account_is_what_its_ledgers_noted_whoever_dies(tmp_path_factory, lives) -> None:
    folder = tmp_path_factory.mktemp("people")
    state = folder / "state"
    ledgers = {name: Ledger(folder / name, state=state) for name in "ab"}
    for ledger in ledgers.values():
        ledger.register(RECORDS)
    add, charged = ledger_file.add, set[tuple[str, int]]()
    with pytest.MonkeyPatch.context() as patch:
        for name, dies, number in lives:

            def die_or_add(*args, dies=dies, **fields):
                if dies:
                    raise KeyboardInterrupt
                add(*args, **fields)

            patch.setattr(ledger_file, "add", die_or_add)
            try:
                ledgers[name].reserve(f"{number:064x}", mu=0.1, budget=0.25, mechanism="toy")
                charged.add((name, number))
            except (KeyboardInterrupt, BudgetError):
                pass
    assert len(charged) <= 6
    for name, ledger in ledgers.items():
        spent = compose([0.1 for owner, _ in charged if owner == name] or [0.0])
        assert ledger.spent == pytest.approx(spent)
        ledger.close()
    with Ledger(folder / "a", state=state) as ledger:
        total = ledger.account.spent
    # A death at the end may leave one charge of each ledger that nobody used.
    assert compose([0.1] * len(charged) or [0.0]) <= total * (1 + 1e-9)
    assert total <= compose([0.1] * (len(charged) + 2)) * (1 + 1e-9)


LIFE = """
import os, secrets, sys
from pathlib import Path
from typing import Any
import numpy as np
from silot.privacy import BudgetError, Ledger
os.write(1, b"r")
with Ledger(sys.argv[1]) as ledger:
    ledger.register(np.random.default_rng(0).normal(50, 20, (400, 3)))
    os.write(1, b"o")
    for _ in range(int(sys.argv[2])):
        try:
            ledger.reserve(secrets.token_hex(32), mu=0.01, budget=0.2, mechanism="toy")
        except BudgetError:
            break
        os.write(1, b".")
"""


def live(path: Path, releases: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LIFE, str(path), str(releases)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def test_two_processes_at_once_make_one_account(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    processes = [live(tmp_path / name, 15) for name in "ab"]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs == [b"ro" + b"." * 15] * 2
    with Ledger(tmp_path / "a") as ledger:
        assert ledger.account.spent == pytest.approx(compose([0.01] * 30))


RACE = """
import sys
from pathlib import Path
from typing import Any
import numpy as np
from silot import Measure, Policy
from silot.federation import Holder
from silot.distances.sketches.questions import CountRecords
from silot.federation import Answer
from silot.privacy import Ledger
from silot.privacy.mechanism import noise_for

records, policy = np.random.default_rng(0).normal(50, 20, (400, 3)), Policy(privacy_epsilon=1.0)
noise_for(1.0, 0.1)
print("ready", flush=True)
for line in sys.stdin:
    folder, name, share = line.split()
    with Ledger(Path(folder) / name, state=Path(folder) / "state") as ledger:
        holder = Holder(Measure(records), policy, ledger)
        mu = policy.budget_mu * float(share)
        questions = [CountRecords(privacy_mu=mu, resolution=k) for k in (1000, 1001, 1002)]
        answers = [holder.answer(question) for question in questions]
    print(*[0 if isinstance(answer, Answer) else answer.code for answer in answers], flush=True)
"""


def race(folder: Path, rounds: int, processes: int = 3) -> list[float]:
    """What processes on fresh ledgers spent together by round, as shares of one budget.

    All ask at once about the same people, three questions each that two of fill the budget.
    """
    command = [sys.executable, "-W", "ignore", "-c", RACE]
    runners = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(processes)
    ]
    spent: list[float] = []
    for runner in runners:
        assert runner.stdout is not None and runner.stdout.readline() == "ready\n"
    for number in range(rounds):
        place, share = folder / str(number), (1.0, 0.75, 0.6)[number % 3]
        place.mkdir()
        for k, runner in enumerate(runners):
            assert runner.stdin is not None
            runner.stdin.write(f"{place} {k}.ledger {share}\n")
            runner.stdin.flush()
        codes: list[str] = []
        for runner in runners:
            assert runner.stdout is not None
            codes += runner.stdout.readline().split()
        assert len(codes) == 3 * processes and set(codes) == {"0", "ledger-budget"}, codes
        spent.append(math.hypot(*[share] * codes.count("0")))
    for runner in runners:
        runner.communicate(timeout=60)
    return spent


@pytest.mark.slow
def test_processes_that_race_on_fresh_ledgers_of_the_same_people_spend_one_budget(
    tmp_path: Path,
) -> None:
    """No round answers more than the budget allows, and none answers less."""
    spent = race(tmp_path, 6)
    assert spent == pytest.approx([1.0, 0.75, 0.6 * 2**0.5] * 2)


@pytest.mark.slow
def test_kills_of_two_writers_never_pass_one_budget(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    moments, answers = random.Random(6), 0
    for _ in range(10):
        processes = [live(tmp_path / name, 1000) for name in "ab"]
        for process in processes:
            assert process.stdout is not None and process.stdout.read(1) == b"r"
        time.sleep(moments.uniform(0.0, 0.3))
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
            answers += process.communicate()[0].count(b".")
    for process in [live(tmp_path / name, 1000) for name in "ab"]:
        answers += process.communicate(timeout=300)[0].count(b".")
    rows = []
    for name in "ab":
        with Ledger(tmp_path / name) as ledger:
            ledger.verify()
            rows += [row for row in ledger.entries() if row.event == "reserve"]
    with Ledger(tmp_path / "a") as ledger:
        account = ledger.account
    assert answers <= len(rows) <= 400 and len(account.ledgers) == 2
    assert compose([row.mu for row in rows]) <= account.spent * (1 + 1e-9)
    assert account.spent <= 0.2 * (1 + 1e-9)
    # A death costs the account at most a release for a while: little is lost in the end.
    assert len(rows) >= 398


def test_a_register_that_is_removed_while_it_is_opened_is_not_made_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, records = People(tmp_path), np.arange(12.0).reshape(6, 2)
    prints = people.fingerprint(records)
    people.register("a", tmp_path / "a", 0.0, prints)
    connect = People._connect

    def removed(self: People, path: Path) -> Any:
        path.unlink()
        return connect(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(People, "_connect", removed)
        with pytest.raises(FileError):
            people.register("a", tmp_path / "a", 0.0, prints)
    people.register("a", tmp_path / "a", 0.0, prints)
