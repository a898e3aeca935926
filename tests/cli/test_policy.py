"""``silot privacy policy``: what an asker could learn at most."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from silot import Policy
from tests.cli.running import silot

pytestmark = pytest.mark.all_cases


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "north.npz"
    np.savez(path, X=np.random.default_rng(0).normal(size=(400, 5)))
    return path


def test_the_default_policy_is_explained_with_what_its_budget_bounds() -> None:
    done = silot("privacy", "policy")
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for words in ("together (1, 1e-05)-differentially private", "0.0198 of the members",
                  "area under the curve at most 0.575", "Exact answers: none"):  # fmt: skip
        assert words in text
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("level: record", "An asker can get every record"),
        ("level: private\nprivacy_epsilon: 2", "together (2, 1e-05)-differentially private"),
        ("level: private", "not even the number of records"),
        ("privacy_epsilon: null", "Releases with noise: none."),
        ("level: statistics\nquestions: [moments]", "Only these kinds of questions are answered"),
        ("level: statistics\nquestions: [moments]", "can test who is in the data"),
        ("exact_secure: 2", "Exact secure distances: 2 in all"),
        ("questions: [describe]", "Listed, but never answered at level private: describe."),
        (
            "level: statistics\nquestions: [moments, records]",
            "moments. - Listed, but never answered at level statistics: records.",
        ),
        ("level: record\nask: [record]", "wait until a person here approves them"),
    ],
)
def test_every_level_says_what_it_gives(tmp_path: Path, rules: str, words: str) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(rules)
    done = silot("privacy", "policy", path)
    assert done.returncode == 0 and words in " ".join(done.stdout.split())


def test_who_is_computed_with_is_said(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text("secure: {listen: '0.0.0.0:9410', peers: {south: 'south.example:9410'}}")
    text = " ".join(silot("privacy", "policy", path).stdout.split())
    assert "with south (south.example:9410) and with no other party" in text


def test_json_has_the_rules_and_what_they_allow(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text('{"exact_secure": 1}')
    body = json.loads(silot("privacy", "policy", path, "--json").stdout)
    assert body["policy"]["exact_secure"] == 1 and body["policy"]["level"] == "private"
    assert "Exact secure distances: 1 in all" in str(body["explanation"])


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("minimum_support: 3", "policy-field"),
        ("numbers: 1", "policy-field"),
        ("exact_secure: -1", "policy-field"),
        ("level: sketch", "policy-field"),
        ("level: statistics", "policy-field"),
        ("questions: [steal]", "policy-field"),
        ("secure: {listen: 'n:1'}", "policy-field"),
        ("secure: {listen: nowhere, peers: {s: 's:2'}}", "policy-field"),
        ("secure: {listen: 'n:1', peers: {s: 's:0'}}", "policy-field"),
        ("- level", "file-unreadable"),
    ],
)
def test_rules_that_are_none_are_said(tmp_path: Path, rules: str, code: str) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(rules)
    done = silot("privacy", "policy", path)
    assert done.returncode in (3, 4) and f"[{code}]" in done.stderr and done.stdout == ""


@pytest.mark.heavy
def test_an_audit_of_a_policy_prints_what_each_attack_got_and_the_bound(
    tmp_path: Path, data: Path
) -> None:
    pytest.importorskip("opendp", reason="silot[privacy] is not installed")
    policy = tmp_path / "policy.yml"
    policy.write_text("level: private")
    done = silot("privacy", "audit", "--policy", policy, "--data", data, "--draws", "50")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for words in ("membership", "attribute", "refusals", "Not tried", "0.575", "1.98%"):
        assert words in text
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    policy.write_text("level: record")
    body = json.loads(
        silot(
            "privacy", "audit", "--policy", policy, "--data", data, "--draws", "50", "--json"
        ).stdout
    )
    assert body["recovered"] == body["records"] == 400
    assert "400 of 400 records" in body["status"]
    few = silot("privacy", "audit", "--data", data, "--draws", "49")
    assert few.returncode == 2 and "--draws" in few.stderr


def test_an_audit_wants_a_run_or_a_holder(tmp_path: Path, data: Path) -> None:
    for arguments in ((), ("--policy", data), ("run.transcript", "--data", data)):
        done = silot("privacy", "audit", *arguments)
        assert done.returncode == 3 and "[audit-what]" in done.stderr


def test_the_fields_of_the_docs_are_the_fields_and_their_defaults(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    block = text.split("All fields of a policy, with their defaults:\n\n```\n")[1].split("```")[0]
    (tmp_path / "p.yml").write_text(block)
    assert Policy.load(tmp_path / "p.yml") == Policy()
    assert set(yaml.safe_load(block)) == set(Policy.model_fields)


@pytest.mark.heavy
def test_a_policy_has_one_text_in_every_process() -> None:
    program = (
        "from silot import Policy; "
        "print(Policy(questions={'predict', 'predict-noise', 'records'}).model_dump_json())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(texts) == 1
