"""Every public computation by files, in other processes and folders, is the one between parties."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import silot
from silot import LocalFederation, Measure, Policy, Schema
from silot.api.answering import answer, read_question, request_in_words
from silot.api.exchange import OwnData, ask, resume
from silot.data.loading import load_measure
from silot.errors import SilotError
from silot.federation import Holder, Key
from silot.federation.message import pack
from silot.federation.sealed import read_sealed, write_sealed
from silot.privacy import Ledger
from tests.api.test_exchange import untimed
from tests.tiers import examples

OPEN = Policy(level="record", privacy_epsilon=4.0)
NAMES = ("n\u00f6rd", "south/2", "west")
SIZES = (70, 41, 55)
RUNNER = """
import json, sys
from silot.cli.app import build
for words in json.loads(sys.argv[1]):
    build(words[0])(words, standalone_mode=False)
"""


def processed(folder: Path, *lines: list[str]) -> str:
    """What command lines print in a process and folder of their own."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, json.dumps(lines)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def arrays(k: int, records: int) -> dict[str, Any]:
    """Records of one holder: labelled, and of unequal weights."""
    rng = np.random.default_rng(k)
    y = rng.integers(0, 2, records)
    x = rng.normal(size=(records, 2)) + 0.4 * k + 2.0 * y[:, None]
    return {"X": x, "y": y, "w": rng.uniform(0.5, 1.5, records)}


# Command line; names of the holders; the public function on a federation and the asker's data.
CASES: dict[str, tuple[list[str], int, Any]] = {
    "distance": (
        ["--labels", "--method", "trianglewad", "--covariance", "full"], 2,
        lambda fed, own: silot.distance(
            *NAMES[:2], method="trianglewad", labels=True, covariance="full",
            federation=fed,
        ),
    ),
    "matrix": (
        ["--method", "direct"], 3, lambda fed, own: silot.distance_matrix(fed, method="direct")
    ),
    "matrix of several exchanges": (
        ["--method", "trianglewad", "--labels"], 3,
        lambda fed, own: silot.distance_matrix(fed, method="trianglewad", labels=True),
    ),
    "pooled": (
        ["--buyer", "own.npz", "--seed", "3"], 3,
        lambda fed, own: silot.pooled_distance(fed, own, seed=3),
    ),
    "value": (
        ["--validation", "own.npz", "--labels", "--map", "direct", "--shapley"], 3,
        lambda fed, own: silot.value_holders(fed, own, labels=True, map="direct", shapley=True),
    ),
    "value of a barycenter": (["--support", "7"], 3,
        lambda fed, own: silot.value_holders(fed, support=7)),
    "barycenter": (
        ["--support", "6", "--weights", "1,2,1"], 3,
        lambda fed, own: silot.barycenter(
            fed, support=6, weights=dict(zip(NAMES, (1.0, 2.0, 1.0), strict=True))
        ),
    ),
    "cluster": (
        ["--labels", "-k", "2", "--resamples", "9"], 3,
        lambda fed, own: silot.cluster(fed, labels=True, k=2, resamples=9),
    ),
    "coreset": (
        ["--labels", "--size", "5", "--rounds", "2", "--test", "own.npz"], 3,
        lambda fed, own: silot.coreset(fed, 5, labels=True, rounds=2, test=own),
    ),
    "plan": (
        ["--validation", "own.npz", "--labels"], 3,
        lambda fed, own: silot.plan(fed, own, labels=True),
    ),
    "records": (
        ["--validation", "own.npz", "--labels"], 1,
        lambda fed, own: silot.value_records(fed, own, labels=True, name=NAMES[0]),
    ),
    "records as published": (
        ["--validation", "own.npz", "--method", "published"], 1,
        lambda fed, own: silot.value_records(fed, own, method="published", name=NAMES[0]),
    ),
}  # fmt: skip


def answered(folder: Path, questions: dict[str, Path], policy: Policy = OPEN) -> list[str]:
    """Answers of holders, in the process of the test: the asker is in others."""
    made: list[str] = []
    for name, file in questions.items():
        k = NAMES.index(name)
        answer(file, load_measure(folder / f"{k}.npz"), folder / f"{k}.answer", policy=policy,
               ledger=folder / f"{k}.ledger")  # fmt: skip
        made.append(str(folder / f"{k}.answer"))
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "sites").mkdir()
    (tmp_path / "desk").mkdir()
    np.savez(tmp_path / "desk" / "own.npz", **arrays(9, 120))
    for k, records in enumerate(SIZES):
        np.savez(tmp_path / "sites" / f"{k}.npz", **arrays(k, records))
    return tmp_path / "desk"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_run_between_connected_parties(case: str, desk: Path) -> None:
    words, count, function = CASES[case]
    sites, one_run = desk.parent / "sites", not case.startswith(("matrix", "cluster"))
    said = processed(desk, ["ask", case.split()[0], *NAMES[:count], *words, "-o", "run", "--json"])
    for _ in range(30):
        state = json.loads(said)
        if "questions" not in state:
            break
        files = {name: desk / path for name, path in state["questions"].items()}
        more = ["--transcript", "run.transcript"] if one_run else []
        answers = answered(sites, files)
        said = processed(desk, ["ask", "--continue", "run", *answers, "--json", *more])
    holders = {
        name: Holder(load_measure(sites / f"{k}.npz"), OPEN, Ledger())
        for k, name in enumerate(NAMES[:count])
    }
    here = function(LocalFederation(holders), load_measure(desk / "own.npz"))
    assert untimed(json.loads(said)) == untimed(json.loads(here.to_json()))
    if one_run:
        there = silot.Transcript.load(desk / "run.transcript")
        pairs = zip(there.entries, here.transcript.entries, strict=True)
        assert all(a.payload == b.payload and a.holder == b.holder for a, b in pairs)


def code_of(call: Any) -> str:
    with pytest.raises(SilotError) as caught:
        call()
    return caught.value.code


def test_a_run_by_a_schema_is_told_in_the_words_of_the_schema(tmp_path: Path) -> None:
    body = {
        "columns": {
            "age": {"kind": "number", "range": [0, 100]},
            "ward": {"kind": "category", "categories": ["a", "b"]},
        },
        "label": {"column": "ill", "classes": ["yes", "no"]},
    }
    schema = Schema.of(body)
    rng = np.random.default_rng(0)

    def table(records: int) -> pl.DataFrame:
        return pl.DataFrame({
            "ward": rng.choice(["a", "b"], records), "age": rng.uniform(1, 99, records),
            "ill": rng.choice(["yes", "no"], records),
        })  # fmt: skip

    mine = tmp_path / "mine.csv"
    table(60).write_csv(mine)
    data = {name: schema.measure(table(n)) for name, n in zip(NAMES, SIZES, strict=True)}
    own, run = OwnData.of(mine), tmp_path / "run"
    asked = ask("value", NAMES, run, own=own, schema=schema, labels=True, why=True)
    while asked.result is None:
        files = [tmp_path / f"{k}.answer" for k in range(len(asked.questions))]
        for file, (name, question) in zip(files, asked.questions.items(), strict=True):
            answer(question, data[name], file, policy=OPEN)
        asked = resume(run, files)
    holders = {name: Holder(each, OPEN, Ledger()) for name, each in data.items()}
    here = silot.value_holders(
        LocalFederation(holders), load_measure(mine, schema=schema), labels=True, why=True
    )
    assert untimed(json.loads(asked.result.to_json())) == untimed(json.loads(here.to_json()))
    # Records that were read in another way are not asked about.
    other = tmp_path / "other"
    asked = ask("value", NAMES, other, own=own, schema=schema)
    bare = Measure(data[NAMES[0]].points)
    question = asked.questions[NAMES[0]]
    assert code_of(lambda: answer(question, bare, tmp_path / "a")) == "schema-mismatch"


def test_a_run_whose_own_data_or_folder_changed_stops(desk: Path) -> None:
    sites, own = desk.parent / "sites", desk / "own.npz"
    asked = ask("pooled", NAMES, desk / "run", own=OwnData.of(own), seed=1)
    files = answered(sites, dict(asked.questions))
    kept = own.read_bytes()
    np.savez(own, **arrays(10, 120))
    assert code_of(lambda: resume(desk / "run", files)) == "run-changed"
    own.write_bytes(kept)
    assert resume(desk / "run", files).round != 1
    # Another option in the run file asks other things, under names of before.
    again = ask("distance", NAMES[:2], desk / "again", method="trianglewad", t=0.3)
    body = json.loads((desk / "again" / "run.json").read_text())
    body["options"]["t"] = 0.4
    for _ in range(2):
        again = resume(desk / "again", answered(sites, dict(again.questions)))
    (desk / "again" / "run.json").write_text(json.dumps(body))
    assert code_of(lambda: resume(desk / "again")) == "run-changed"
    own.unlink()
    assert code_of(lambda: resume(desk / "run")) == "file-missing"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sums", "a", "b"), "option-computation"),
        (("distance", "a"), "holder-names"),
        (("distance", "a", "b", "c"), "holder-names"),
        (("matrix", "a"), "holder-names"),
        (("cluster", "a"), "holder-names"),
        (("records", "a", "b"), "holder-names"),
        (("matrix", "a", "coordinator"), "holder-names"),
        (("pooled", "a"), "validation-absent"),
        (("plan", "a"), "validation-absent"),
        (("records", "a"), "validation-absent"),
    ],
)
def test_what_cannot_begin_has_a_code_and_leaves_nothing(
    words: tuple[str, ...], code: str, tmp_path: Path
) -> None:
    computation, *names = words
    assert code_of(lambda: ask(computation, names, tmp_path / "run")) == code
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("computation", "options"),
    [
        ("distance", {"method": "sketch"}),
        ("matrix", {"method": "secure"}),
        ("value", {"map": "sketch"}),
        ("value", {"method": "sketch"}),
        ("barycenter", {"method": "sketch"}),
        ("cluster", {"method": "sketch"}),
        ("coreset", {"method": "sketch"}),
        ("plan", {"method": "sketch"}),
        ("pooled", {"method": "secure"}),
        ("distance", {"reference": np.zeros((3, 2))}),
    ],
)
def test_what_no_question_carries_is_refused(
    computation: str, options: dict[str, Any], desk: Path
) -> None:
    own = OwnData.of(desk / "own.npz") if computation in ("pooled", "plan") else None
    run = desk / "run"
    assert code_of(lambda: ask(computation, ["a", "b"], run, own=own, **options)) == "option-method"
    assert not run.exists()


def test_a_refusal_names_the_holder_and_its_rule(desk: Path) -> None:
    sites = desk.parent / "sites"
    asked = ask("matrix", NAMES, desk / "run")
    files = answered(sites, dict(asked.questions), Policy(level="sketch"))
    with pytest.raises(SilotError) as caught:
        resume(desk / "run", files)
    assert caught.value.code == "policy-level" and repr(NAMES[0]) in caught.value.message


def test_all_pairs_of_a_matrix_are_asked_together(desk: Path) -> None:
    sites = desk.parent / "sites"
    asked = ask("matrix", NAMES, desk / "run")
    assert list(asked.questions) == list(NAMES)
    # Of one of three answers no pair can be finished: the others wait.
    first = resume(desk / "run", answered(sites, {NAMES[0]: asked.questions[NAMES[0]]}))
    assert sorted(first.questions) == sorted(NAMES[1:])
    rest = {name: file for name, file in asked.questions.items() if name != NAMES[0]}
    found = resume(desk / "run", answered(sites, rest)).result
    holders = {name: load_measure(sites / f"{k}.npz") for k, name in enumerate(NAMES)}
    np.testing.assert_array_equal(found.values, silot.distance_matrix(holders).values)


def test_what_is_disclosed_is_said_by_the_holder_and_not_by_who_asks(desk: Path) -> None:
    asked = ask("distance", NAMES[:2], desk / "run")
    sealed = read_sealed(asked.questions[NAMES[0]], ["question"])
    lie = dataclasses.replace(
        sealed, discloses="Nothing.", facts={**sealed.facts, "computation": "\x1b[2J" * 9}
    )
    write_sealed(desk / "lie.question", lie, Key.new())
    words = request_in_words(read_question(desk / "lie.question"))
    assert "Nothing." not in words and words.isprintable() and "record" in words
    made = answer(
        desk / "lie.question", load_measure(desk / "own.npz"), desk / "a.answer", policy=OPEN
    )
    assert "record" in made.discloses


def test_long_and_foreign_names_have_files(tmp_path: Path) -> None:
    names = ["\u4e2d" * 200, "\u4e2d" * 199 + "b", "../up", ".."]
    asked = ask("barycenter", names, tmp_path / "run")
    assert len(set(asked.questions.values())) == len(names)
    assert all(file.parent == tmp_path / "run" for file in asked.questions.values())
    files = [tmp_path / f"{k}.answer" for k in range(4)]
    for file, question in zip(files, asked.questions.values(), strict=True):
        answer(question, [[0.0], [1.0]], file, policy=OPEN)
    assert len(list(tmp_path.glob("*.key"))) == 4
    assert resume(tmp_path / "run", files).round != 1


def test_fences_hold_over_processes_and_without_a_ledger_nothing_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(400, 20)))
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(50, 20)))
    (tmp_path / "fence.yml").write_text("level: scalar\nnumbers: 5\nbehind: 2\n")
    refused: list[str] = []
    for k, more in enumerate([[]] + 3 * [["--ledger", "a.ledger"]]):
        run, line = tmp_path / f"run{k}", ["--data", "a.npz", "--policy", "fence.yml", "--json"]
        asked = ask("pooled", ["a"], run, own=OwnData.of(tmp_path / "own.npz"), seed=k)
        answer(asked.questions["a"], rng.normal(size=(400, 20)), tmp_path / "size.answer")
        # The size is free; what comes next are numbers about what the asker chose.
        second = resume(run, [tmp_path / "size.answer"]).questions["a"]
        assert second.name == "a+2.question"
        words = ["answer", str(second), *line, *more, "-o", f"{k}.answer"]
        refused.append(json.loads(processed(tmp_path, words))["refused"])
    assert refused == ["ledger-absent", "", "", "policy-numbers"]


def test_without_data_nothing_is_answered_and_the_request_is_said(desk: Path) -> None:
    asked = ask("matrix", NAMES, desk / "run", asker="bank")
    file = asked.questions[NAMES[0]]
    said = json.loads(processed(desk, ["answer", str(file), "--json"]))
    assert said["exchange"] == 1 and said["asker"] == "unknown"
    assert "'bank' asks" in said["says"] and "exchange 1 of 'matrix'" in said["says"]
    assert not file.with_suffix(".answer").exists() and not list(desk.glob("*.key"))


@settings(deadline=None, max_examples=examples(60))
@given(place=st.integers(0, 10**9), value=st.integers(0, 255), cut=st.booleans())
def test_files_that_were_changed_or_cut_have_a_code(
    place: int, value: int, cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    asked = ask("distance", ["a", "b"], folder / "run")
    file = asked.questions["a"]
    answer(file, [[0.0], [1.0]], folder / "a.answer", policy=OPEN)
    for path, read in (
        (file, read_question),
        (folder / "a.answer", lambda each: resume(folder / "run", [each])),
    ):
        whole = path.read_bytes()
        k = place % len(whole)
        path.write_bytes(whole[:k] if cut else whole[:k] + bytes([value]) + whole[k + 1 :])
        if path.read_bytes() != whole:
            assert code_of(lambda read=read, path=path: read(path)).startswith("sealed-")
        path.write_bytes(whole)


def test_a_question_of_much_larger_arrays_than_its_file_costs_no_memory(tmp_path: Path) -> None:
    asked = ask("distance", ["a", "b"], tmp_path / "run", method="trianglewad", support=5)
    sealed = read_sealed(asked.questions["a"], ["question"])
    claimed = pack({
        "kind": "distance-to", "scalars": {}, "arrays": {
            "reference": {"dtype": "<f8", "shape": [1 << 30, 64], "data": b"\0" * 64}
        },
    })  # fmt: skip
    huge = tmp_path / "huge.question"
    write_sealed(huge, dataclasses.replace(sealed, question=claimed), Key.new())
    tracemalloc.start()
    assert code_of(lambda: read_question(huge)) == "question-format"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24
