"""Sketches on the command line: values, ledgers and budgets, as real processes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from silot.federation import Transcript
from silot.privacy import Ledger
from silot.privacy.accounting import mu_of

from .running import silot


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sketch")
    rng = np.random.default_rng(31)
    np.savez(folder / "a.npz", X=rng.normal(size=(2000, 5)))
    np.savez(folder / "b.npz", X=rng.normal(size=(1500, 5)) + 1.0)
    np.savez(folder / "public.npz", X=rng.normal(size=(500, 5)) + 0.5)
    return folder


def sketch(data: Path, *more: object, command: str = "pair") -> tuple[int, str, str]:
    done = silot("distance", command, data / "a.npz", data / "b.npz", "--method", "sketch",
                 "--public", data / "public.npz", *more)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_distance_is_near_the_exact_one_and_says_it_is_not_certified(data: Path) -> None:
    status, out, err = sketch(data, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    exact = json.loads(silot("distance", data / "a.npz", data / "b.npz", "--json").stdout)
    assert found["value"] == pytest.approx(exact["value"], rel=0.15)
    assert found["upper"] is None and found["disclosure"] == "private"
    assert "not certified" in found["status"]
    assert found["privacy_mu"] == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)


@pytest.mark.slow
def test_a_ledger_answers_again_for_nothing_and_refuses_beyond_the_budget(
    data: Path, tmp_path: Path
) -> None:
    ledgers = tmp_path / "ledgers"
    first = json.loads(sketch(data, "--ledgers", ledgers, "--json")[1])
    again = json.loads(sketch(data, "--ledgers", ledgers, "--json")[1])
    assert again["value"] == first["value"]
    assert (first["privacy_mu"] > 0, again["privacy_mu"]) == (True, 0.0)
    status, out, err = sketch(data, "--ledgers", ledgers, "--epsilon", "0.9")
    assert (status, out) == (7, "")
    for word in ("[ledger-budget]", "spent", "asked", "left"):
        assert word in err
    status, _, err = sketch(data, "--ledgers", ledgers, "--epsilon", "0.9", "--budget-epsilon", 3)
    assert (status, err) == (0, "")
    with Ledger(ledgers / "a.ledger", create=False) as ledger:
        assert ledger.spent > first["privacy_mu"]


@pytest.mark.slow
def test_a_matrix_charges_the_same_release_once(data: Path, tmp_path: Path) -> None:
    status, out, _ = sketch(data, "--ledgers", tmp_path / "l", "--json", command="matrix")
    assert status == 0
    assert json.loads(out)["values"][0][1] > 0
    assert sketch(data, "--ledgers", tmp_path / "l")[0] == 0


@pytest.mark.slow
def test_a_matrix_shows_the_one_cost_of_all_pairs(data: Path) -> None:
    status, out, err = sketch(data, command="matrix")
    assert (status, err) == (0, "")
    assert "cost       2 rounds, " in out and "charged    mu 0.2681" in out
    # No pair has rounds, bytes or seconds of its own.
    assert " 0 B" not in out and "seconds" not in out


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        (("--budget-epsilon", 0.9), 7, "ledger-budget"),
        (("--public", "narrow.npz"), 5, "dimension-mismatch"),
        (("--support", 30), 3, "option-unknown"),
    ],
)
def test_a_run_that_cannot_be_charged_in_full_charges_nothing(
    data: Path, tmp_path: Path, more: tuple[object, ...], status: int, code: str
) -> None:
    np.savez(data / "narrow.npz", X=np.random.default_rng(2).normal(size=(500, 4)))
    given = [data / one if one == "narrow.npz" else one for one in more]
    failed = sketch(data, "--ledgers", tmp_path / "ledgers", *given)
    assert failed[0] == status and f"[{code}]" in failed[2]
    for path in (tmp_path / "ledgers").glob("*.ledger"):
        with Ledger(path) as ledger:
            assert [row.event for row in ledger.entries()] == ["open"]


@pytest.mark.slow
def test_a_run_that_its_ledger_cannot_pay_leaves_it_as_it_was(data: Path, tmp_path: Path) -> None:
    ledgers = ("--ledgers", tmp_path / "ledgers")
    assert sketch(data, *ledgers, "--epsilon", 0.9)[0] == 0
    with Ledger(tmp_path / "ledgers" / "a.ledger") as ledger:
        before = ledger.entries()
    status, _, err = sketch(data, *ledgers, "--epsilon", 0.8)
    assert status == 7 and "nothing was charged" in err
    with Ledger(tmp_path / "ledgers" / "a.ledger") as ledger:
        assert ledger.entries() == before
    # What was told is told again.
    assert sketch(data, *ledgers, "--epsilon", 0.9)[0] == 0


def test_records_that_are_too_few_are_told_and_the_error_says_it_is_charged(
    data: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "few.npz", X=np.random.default_rng(3).normal(size=(30, 5)))
    done = silot("distance", data / "a.npz", tmp_path / "few.npz", "-m", "sketch", "--public",
                 data / "public.npz", "--ledgers", tmp_path / "ledgers")  # fmt: skip
    assert done.returncode == 3
    assert "[sketch-small]" in done.stderr and "was released, and is charged" in done.stderr
    told = r"By then holders had answered with \d+ B, up to level private, and charged mu"
    assert re.search(told, done.stderr)
    with Ledger(tmp_path / "ledgers" / "few.ledger") as ledger:
        assert 0 < ledger.spent < 0.04


def test_an_unknown_option_is_told_the_known_ones_by_the_names_users_give(data: Path) -> None:
    status, _, err = sketch(data, "--support", 30)
    assert status == 3 and "privacy_epsilon" in err and "embedding" not in err


@pytest.mark.slow
def test_no_record_is_in_the_transcript(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.transcript"
    assert sketch(data, "--transcript", path)[0] == 0
    # Without the times of day that stand between them in the file.
    kept = b" ".join(entry.payload for entry in Transcript.load(path).entries)
    for name in "ab":
        with np.load(data / f"{name}.npz") as stored:
            values = stored["X"].ravel()
        assert not [value for value in values if value.tobytes() in kept]
        assert not [value for value in values[:500] if np.float32(value).tobytes() in kept]


@pytest.mark.parametrize(
    ("more", "code", "status"),
    [
        (("--epsilon", "0"), "option", 3),
        (("--epsilon", "0.01"), "sketch-small", 3),
        (("--budget-epsilon", "-1", "--ledgers", "l"), "option-budget", 3),
        (("--support", "5"), "option-unknown", 3),
    ],
)
def test_bad_options_are_coded(
    data: Path, tmp_path: Path, more: tuple[str, ...], code: str, status: int
) -> None:
    given = [str(tmp_path / item) if item == "l" else item for item in more]
    found, out, err = sketch(data, *given)
    assert (found, out) == (status, "") and f"[{code}" in err


BUDGET = ("--budget-epsilon", "2")


@pytest.mark.parametrize(
    "words",
    [
        ("distance", "a.npz", "b.npz", "-m", "sketch", "--public", "public.npz", *BUDGET),
        ("distance", "matrix", "a.npz", "b.npz", "-m", "sketch", "--public", "public.npz", *BUDGET),
        ("distance", "groups", "a.npz", "b.npz", "-m", "sketch", "--public", "public.npz", *BUDGET),
        ("value", "a.npz", "b.npz", "--validation", "public.npz", "--epsilon", "1", *BUDGET),
        ("value", "a.npz", "b.npz", "--map", "sketch", "--public", "public.npz", *BUDGET),
        ("distance", "barycenter", "a.npz", "-m", "sketch", "--public", "public.npz", *BUDGET),
        ("compare", "a.npz", "b.npz", "--validation", "public.npz", "--public", "public.npz",
         *BUDGET),
        ("records", "a.npz", "--validation", "b.npz", "-m", "private", "--public", "public.npz",
         *BUDGET),
        ("train", "adapt", "a.npz", "--source", "labelled.npz", "--epsilon", "4", *BUDGET),
        ("train", "adapt", "a.npz", "labelled.npz", *BUDGET),
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_a_budget_without_ledgers_is_refused_with_what_to_type(
    data: Path, words: tuple[str, ...]
) -> None:
    """Nothing enforces it: the next run spends as much again."""
    rng = np.random.default_rng(7)
    np.savez(data / "labelled.npz", X=rng.normal(size=(60, 5)), y=np.arange(60) % 2)
    done = silot(*words, cwd=data)
    assert (done.returncode, done.stdout) == (3, ""), done.stdout + done.stderr
    assert "[option-budget]" in done.stderr and "--ledgers FOLDER" in done.stderr


def test_a_charge_that_no_ledger_keeps_is_not_said_to_be_in_one(data: Path, tmp_path: Path) -> None:
    words = ("value", "a.npz", "b.npz", "--validation", "public.npz", "--epsilon", "1")
    page = tmp_path / "page.html"
    once = silot(*words, "--report", page, cwd=data)
    assert "of each holder, at most. Only this process" in " ".join(once.stdout.split())
    assert "each holder's ledger" not in once.stdout
    assert "remembered only by this process" in page.read_text()
    assert json.loads(silot(*words, "--json", cwd=data).stdout)["in_memory"] is True
    kept = silot(*words, "--ledgers", tmp_path / "l", "--report", page, cwd=data)
    assert "to each holder's ledger" in kept.stdout and "to a ledger" in page.read_text()


def test_a_distance_to_data_of_ones_own_takes_one_release_of_the_holder(
    data: Path, tmp_path: Path
) -> None:
    """``--method private``: the first file is the asker's, and only the second has a ledger."""
    words = ("distance", data / "public.npz", data / "a.npz", "-m", "private", "--epsilon", "1")
    done = silot(*words, "--ledgers", tmp_path / "l", "--json")
    found = json.loads(done.stdout)
    assert found["disclosure"] == "private" and found["holders"][0] == "a"
    low, high = found["interval"]
    assert 0 < low < found["value"] < high and 0.5 < found["value"] < 2.0
    assert [path.name for path in (tmp_path / "l").glob("*.ledger")] == ["a.ledger"]
    again = json.loads(silot(*words, "--ledgers", tmp_path / "l", "--json").stdout)
    assert (again["value"], again["privacy_mu"]) == (found["value"], 0.0)
    assert "95 %, of the noise; not certified" in " ".join(silot(*words).stdout.split())


def test_an_error_names_method_private_where_it_can_be_used(data: Path) -> None:
    for command in ("matrix", "pair", "groups"):
        err = silot("distance", command, data / "a.npz", data / "b.npz", "--epsilon", "1").stderr
        assert "Method private also has it" in err
        assert "silot distance MINE HOLDER" in err
    for command in ("matrix", "groups"):
        assert "'private'" in silot("distance", command, data / "a.npz", "-m", "private").stderr


def test_without_public_knowledge_the_error_asks_for_it(data: Path) -> None:
    done = silot("distance", data / "a.npz", data / "b.npz", "--method", "sketch")
    assert done.returncode == 3 and "[public-absent]" in done.stderr
