"""Runs by files: what was asked and answered in files is the run between connected parties."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import LocalFederation, Measure, Policy, distance
from silot.api._methods import METHODS
from silot.api.answering import answer, read_question, refusal_in
from silot.api.exchange import Asked, ask, resume
from silot.cli.app import app
from silot.errors import SilotError
from silot.federation import Holder, Key
from silot.federation.sealed import Sealed, read_sealed, write_sealed
from silot.privacy import Ledger

RNG = np.random.default_rng(7)
DATA = {"north": RNG.normal(size=(60, 2)), "south": RNG.normal(size=(50, 2)) + 1.0}
OPEN = Policy(level="record", privacy_epsilon=4.0)
# Sketches have files of their own.
BY_FILES = [name for name, kind in METHODS.items() if kind.asks and name != "sketch"]


def code_of(call: Any) -> str:
    with pytest.raises(SilotError) as caught:
        call()
    return caught.value.code


def answered(folder: Path, asked: Asked, policy: Policy = OPEN) -> list[Path]:
    """Answers to all questions of an exchange, each holder in a folder of its own."""
    files: list[Path] = []
    for name, question in asked.questions.items():
        desk = folder / name
        desk.mkdir(exist_ok=True)
        files.append(desk / f"{question.stem}.answer")
        answer(question, DATA[name], files[-1], policy=policy, ledger=desk / f"{name}.ledger")
    return files


def finished(folder: Path, method: str, **options: Any) -> tuple[Any, list[Path]]:
    asked, files = ask("distance", list(DATA), folder / "run", method=method, **options), []
    for _ in range(60):
        if asked.result is not None:
            return asked.result, files
        files = answered(folder, asked)
        asked = resume(folder / "run", files)
    raise AssertionError("the run never ends")


def plain(result: Any) -> dict[str, Any]:
    return untimed(json.loads(result.to_json()))


def untimed(body: Any) -> Any:
    """A result as JSON without the seconds that it took, which no two runs share."""
    if isinstance(body, dict):
        return {k: untimed(v) for k, v in body.items() if "seconds" not in k}
    return [untimed(item) for item in body] if isinstance(body, list) else body


@pytest.mark.parametrize("method", BY_FILES)
def test_a_run_by_files_is_the_run_between_connected_parties(method: str, tmp_path: Path) -> None:
    options = {"rounds": 3} if method == "fedwad" else {}
    found, _ = finished(tmp_path, method, **options)
    holders = {name: Holder(Measure(x), OPEN, Ledger()) for name, x in DATA.items()}
    here = distance(*DATA, method=method, federation=LocalFederation(holders), **options)
    assert plain(found) == plain(here)
    one, two = found.transcript, here.transcript
    assert [entry.payload for entry in one.entries] == [entry.payload for entry in two.entries]


def test_a_holder_decides_and_its_refusal_is_an_answer(tmp_path: Path) -> None:
    asked = ask("distance", list(DATA), tmp_path / "run", method="direct")
    closed = Policy(level="sketch", privacy_epsilon=1.0)
    files = answered(tmp_path, asked, closed)
    sealed = read_sealed(files[0], ["answer"])
    assert refusal_in(sealed) == "policy-level" and "refused" in sealed.discloses
    assert files[0].stat().st_mode & 0o077 == 0
    assert code_of(lambda: resume(tmp_path / "run", files)) == "policy-level"


def test_a_ledger_keeps_who_asked_by_the_key_that_is_trusted(tmp_path: Path) -> None:
    asked = ask("distance", list(DATA), tmp_path / "run", method="direct", asker="anybody")
    keys = tmp_path / "keys"
    keys.mkdir()
    question = asked.questions["north"]
    shutil.copy(tmp_path / "run" / "asker.pub", keys / "bank.pub")
    for folder, known in ((None, "unknown"), (keys, "bank")):
        ledger = tmp_path / f"{known}.ledger"
        answer(question, DATA["north"], tmp_path / "a", policy=OPEN, ledger=ledger, keys=folder)
        assert {row.asker for row in Ledger(ledger).entries() if row.event == "count"} == {known}
    # Somebody who takes a trusted name has another key.
    Key.new().save(tmp_path / "other.key")
    shutil.copy(tmp_path / "other.pub", keys / "anybody.pub")
    assert code_of(lambda: read_question(question, keys=keys)) == "key-mismatch"


def test_answers_of_other_runs_questions_and_keys_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = ask("distance", list(DATA), tmp_path / "one" / "run", method="trianglewad")
    two = ask("distance", list(DATA), tmp_path / "two" / "run", method="trianglewad")
    first, other = answered(tmp_path / "one", one), answered(tmp_path / "two", two)
    run = tmp_path / "one" / "run"
    assert code_of(lambda: resume(run, other)) == "answer-run"
    waiting = resume(run, first[:1])
    assert list(waiting.questions) == ["south"] and waiting.round == 1
    # The same file again is the same answer.
    assert list(resume(run, first[:1]).questions) == ["south"]
    second = resume(run, first)
    assert second.round == 2

    def forged(path: Path, key: Key, **changes: Any) -> list[Path]:
        sealed = dataclasses.replace(read_sealed(path, ["answer"]), **changes)
        write_sealed(tmp_path / "forged.answer", sealed, key)
        return [tmp_path / "forged.answer"]

    own = Key.load(tmp_path / "one" / "north" / "north.key")
    last = answered(tmp_path / "one", second)
    for path, key, changes, code in (
        (last[0], Key.new(), {}, "key-mismatch"),
        (last[0], own, {"author": "west"}, "holder-unknown"),
        (last[0], own, {"round": 0}, "answer-question"),
        (last[0], own, {"round": 7}, "answer-question"),
        (last[0], own, {"facts": {}}, "answer-question"),
        (last[0], own, {"facts": {"answers": [1]}}, "answer-question"),
        (first[0], own, {"reply": b"another"}, "answer-twice"),
        (last[0], own, {"kind": "release"}, "sealed-kind"),
    ):
        made = forged(path, key, **changes)
        assert code_of(lambda made=made: resume(run, made)) == code, changes
    # Nothing of what was refused was kept.
    assert resume(run, last).round in (0, 3)


def test_questions_that_cannot_be_answered_have_a_code(tmp_path: Path) -> None:
    asked = ask("distance", list(DATA), tmp_path / "run", method="direct")
    sealed = read_sealed(asked.questions["north"], ["question"])
    path = tmp_path / "odd.question"
    for changes in (
        {"facts": {}},
        {"facts": {"holder": "a\n"}},
        {"run": ""},
        {"question": b"\xc1"},
        {"schema": {"columns": 3}},
    ):
        write_sealed(path, dataclasses.replace(sealed, **changes), Key.new())
        assert code_of(lambda: read_question(path)) == "question-format", changes
    write_sealed(path, Sealed(kind="release", author="a", question=b""), Key.new())
    assert code_of(lambda: read_question(path)) == "sealed-kind"


def test_a_run_begins_once_and_well(tmp_path: Path) -> None:
    ask("distance", list(DATA), tmp_path / "run", method="direct")
    assert (
        code_of(lambda: ask("distance", list(DATA), tmp_path / "run", method="direct"))
        == "file-exists"
    )
    assert (
        code_of(lambda: ask("distance", list(DATA), tmp_path / "a", method="secure"))
        == "option-method"
    )
    assert (
        code_of(lambda: ask("distance", ["a", "a"], tmp_path / "a", method="direct"))
        == "holder-names"
    )
    assert (
        code_of(lambda: ask("distance", ["a"], tmp_path / "a", method="direct")) == "holder-names"
    )
    assert (
        code_of(lambda: ask("distance", list(DATA), tmp_path / "a", method="fedwad", support=0))
        == "option-support"
    )
    assert code_of(lambda: resume(tmp_path / "none")) == "file-missing"
    (tmp_path / "run" / "run.json").write_text('{"run": 3}')
    assert code_of(lambda: resume(tmp_path / "run")) == "run-format"


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    for name, x in DATA.items():
        np.savez(f"{name}.npz", X=x)
    Path("policy.yml").write_text("level: record\n")

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    told = json.loads(call("ask", "--method", "direct", "north", "south", "-o", "run1", "--json"))
    for name, file in told["questions"].items():
        text = call("answer", file, "--data", f"{name}.npz", "--policy", "policy.yml",
                    "--ledger", f"{name}.ledger", "-o", f"{name}.answer")  # fmt: skip
        assert "asked by unknown" in " ".join(text.split())
    text = call("ask", "--continue", "run1", "north.answer", "south.answer")
    assert "W2" in text and "direct, north and south" in text
