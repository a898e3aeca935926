"""``silot privacy ledger`` as a user runs it."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from silot.privacy import Ledger

from .test_commands import silot

pytestmark = pytest.mark.all_cases


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "a.ledger") as ledger:
        for number in range(3):
            ledger.reserve(f"{number:064x}", mu=0.1, budget=1.0, parameters={"n": number},
                           mechanism="discrete Gaussian, sketch",
                           asker="coordinator.north-eastern-region.example")  # fmt: skip
            if number != 1:
                ledger.commit(f"{number:064x}", b"answer")
    return tmp_path / "a.ledger"


def test_show_lists_releases_within_80_columns(path: Path) -> None:
    done = silot("privacy", "ledger", "show", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for word in ("0.1732", "coordinator", "handed over", "nothing was", "policy"):
        assert word in done.stdout
    assert ["releases", "3"] in [line.split() for line in done.stdout.splitlines()]


def test_show_lists_exact_answers_and_refusals_by_asker(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.note("a" * 64, level="statistics", question="distance-to", asker="bank")
        ledger.refuse("records", "policy-level", "stranger")
    done = silot("privacy", "ledger", "show", path)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for word in ("distance-to", "bank", "statistics", "stranger", "policy-level"):
        assert word in done.stdout
    printed = json.loads(silot("privacy", "ledger", "show", path, "--json").stdout)
    assert [(item["question"], item["asker"], item["level"]) for item in printed["exact"]] == [
        ("distance-to", "bank", "statistics"),
        ("records", "stranger", "refused: policy-level"),
    ]


def test_a_lost_ledger_is_refused_until_it_is_forgotten_or_trusted(path: Path) -> None:
    old = path.read_bytes()
    with Ledger(path) as ledger:
        ledger.refuse("records", "policy-level", "stranger")
    path.write_bytes(old)
    done = silot("privacy", "ledger", "verify", path)
    assert done.returncode == 4 and "[ledger-older]" in done.stderr
    assert silot("privacy", "ledger", "forget", path).returncode == 3
    assert silot("privacy", "ledger", "trust", path).returncode == 0
    assert silot("privacy", "ledger", "verify", path).returncode == 0
    for each in path.parent.glob("*"):
        each.unlink()
    done = silot("privacy", "ledger", "forget", path)
    assert done.returncode == 0 and "forgotten" in done.stdout
    Ledger(path).close()


def test_show_prints_json_and_nothing_else(path: Path) -> None:
    done = silot("privacy", "ledger", "show", path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed["spent_mu"] == pytest.approx(0.03**0.5)
    assert [item["state"] for item in printed["releases"]] == ["commit", "reserve", "commit"]
    assert printed["releases"][2]["parameters"] == {"n": 2}


def test_verify_prints_the_head_and_compares_it_with_one_noted_before(path: Path) -> None:
    done = silot("privacy", "ledger", "verify", path)
    assert (done.returncode, done.stderr) == (0, "")
    with Ledger(path) as ledger:
        head = ledger.head
    assert head in done.stdout and "noted outside" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert silot("privacy", "ledger", "verify", path, "--head", head).returncode == 0
    other = silot("privacy", "ledger", "verify", path, "--head", "0" * 64)
    assert other.returncode == 4 and "[ledger-broken]" in other.stderr


def test_a_broken_ledger_exits_with_status_4_and_the_row(path: Path) -> None:
    connection = sqlite3.connect(path)
    with connection:
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'no_change'")
        trigger = sql.fetchone()[0]
        connection.execute("DROP TRIGGER no_change")
        connection.execute("UPDATE rows SET mu = 0.01 WHERE sequence = 4")
        connection.execute(trigger)
    connection.close()
    for command in ("show", "verify"):
        done = silot("privacy", "ledger", command, path)
        assert done.returncode == 4 and done.stdout == ""
        assert "[ledger-broken]" in done.stderr and "row 4" in done.stderr


def test_looking_at_a_ledger_that_is_not_there_makes_none(tmp_path: Path) -> None:
    for command in ("show", "verify"):
        done = silot("privacy", "ledger", command, tmp_path / "none.ledger")
        assert done.returncode == 4 and "[file-missing]" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_ledger_is_shown(tmp_path: Path) -> None:
    Ledger(tmp_path / "a").close()
    done = silot("privacy", "ledger", "show", tmp_path / "a")
    assert done.returncode == 0
    assert ["releases", "0"] in [line.split() for line in done.stdout.splitlines()]


def test_ledgers_of_the_same_people_share_an_account_until_they_are_separated(path: Path) -> None:
    records = np.random.default_rng(0).normal(size=(50, 2))
    other = path.with_name("b.ledger")
    for name in (path, other):
        with Ledger(name) as ledger:
            ledger.register(records)
    shown = json.loads(silot("privacy", "ledger", "show", other, "--json").stdout)
    assert shown["spent_mu"] == 0.0
    assert shown["account"]["spent_mu"] == pytest.approx(0.1 * 3**0.5)
    assert [each["path"] for each in shown["account"]["ledgers"]] == [str(other), str(path)]
    assert "shared with" in silot("privacy", "ledger", "show", path).stdout
    done = silot("privacy", "ledger", "separate", other)
    assert done.returncode == 0 and "declared its records to be about other people" in done.stdout
    assert "its own" in silot("privacy", "ledger", "show", other).stdout
    assert "nothing" in silot("privacy", "ledger", "separate", other).stdout
    missing = silot("privacy", "ledger", "separate", path.with_name("c.ledger"))
    assert missing.returncode == 4 and "[file-missing]" in missing.stderr


@pytest.mark.heavy
def test_a_release_warns_of_a_joined_account_in_one_sentence(tmp_path: Path) -> None:
    records = np.random.default_rng(0).normal(size=(500, 2))
    for name, rows in (("a", records), ("b", records[::-1]), ("public", records + 0.1)):
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
    done = [
        silot("release", tmp_path / f"{name}.csv", "--ledger", tmp_path / f"{name}.ledger",
              "--public", tmp_path / "public.csv", "--out", tmp_path / f"{name}.release")
        for name in "ab"
    ]  # fmt: skip
    assert [each.returncode for each in done] == [0, 7]
    first, second = done[1].stderr.splitlines()
    assert first.startswith("warning: ") and "silot privacy ledger separate" in first
    assert "[ledger-budget]" in second


def test_a_backup_is_put_back_and_what_was_spent_stays_spent(path: Path) -> None:
    copy = path.with_name("copy")
    done = silot("privacy", "ledger", "backup", path, copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the chain is intact" in done.stdout and "mu 0.173205" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "[file-exists]" in silot("privacy", "ledger", "backup", path, copy).stderr
    with Ledger(path) as ledger:
        ledger.reserve("f" * 64, mu=0.4, budget=1.0, mechanism="noise")
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    copy.replace(path)
    done = silot("privacy", "ledger", "verify", path)
    assert done.returncode == 4 and "[ledger-older]" in done.stderr
    done = silot("privacy", "ledger", "trust", path)
    assert "mu 0.43589" in done.stdout
    done = silot("privacy", "ledger", "trust", path, "--spent", "0.5")
    assert "mu 0.5" in done.stdout
    assert silot("privacy", "ledger", "trust", path, "--spent", "-1").returncode != 0
    assert silot("privacy", "ledger", "verify", path).returncode == 0
