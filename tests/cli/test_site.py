"""``silot site`` as the admin of a site runs it; real engines are in tests/sites."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from silot.errors import TEMPORARY, explanations
from silot.privacy import Ledger
from silot.sites.configuration import SiteConfiguration
from silot.sites.kit import Kit
from silot.sites.project import Project, sign

from ..sites import project
from .project import answers, joined, provisioned, quick, signed, silot


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quick(monkeypatch)
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("SILOT_KIT", raising=False)
    provisioned(tmp_path, 1)


def hold(folder: Path, *keys: str) -> None:
    with Ledger(folder / "north.ledger") as ledger:
        for key in keys:
            ledger.hold(
                key * 64, question="records", level="record", asker="uni@x.org",
                run="barycenter-0123456789ab",
            )  # fmt: skip


def test_joining_names_files_by_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    joined(tmp_path)
    silot("site", "join", "north", "north.signed", "--data", "north.npz", "--ledger",
          "north.ledger")  # fmt: skip
    found = SiteConfiguration.load(Kit.load("north"))
    assert found.data == tmp_path / "north.npz"
    assert found.policy is None
    monkeypatch.chdir("/")
    with found.open_ledger() as ledger:
        assert found.build_holder(ledger).columns is None


def test_what_other_ledgers_spent_on_the_same_people_counts(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    records = np.load(tmp_path / "north.npz")["X"]
    with Ledger(tmp_path / "earlier.ledger") as ledger:
        assert ledger.register(records)
        ledger.reserve("a" * 64, mu=0.25, budget=1.0, mechanism="noise")
    assert json.loads(silot("site", "status", "--kit", kit, "--json"))["spent_mu"] == 0.25
    checked = json.loads(silot("site", "check", "--kit", kit, "--json", status=4))
    (text,) = (item["text"] for item in checked if item["name"] == "ledger")
    assert "spent mu 0.25" in text and "earlier.ledger too, about the same people" in text
    again = silot("site", "join", kit, tmp_path / "north.signed", *answers(tmp_path))
    assert "account" in again and "shared with" in again and "(mu 0.25)" in again


def test_a_certificate_is_renewed_and_the_rest_stays(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    before = Kit.load(kit).identity().member().serial
    silot("project", "sign", tmp_path / "wards", tmp_path / "north.request")
    text = silot("site", "join", kit, tmp_path / "north.signed")
    assert Kit.load(kit).identity().member().serial != before
    assert SiteConfiguration.load(Kit.load(kit)).data == tmp_path / "north.npz"
    assert "until" in text


@pytest.mark.parametrize("case", ["policy", "data", "ledger", "absent", "schema", "columns"])
def test_nothing_is_written_where_something_is_wrong(tmp_path: Path, case: str) -> None:
    np.savez(tmp_path / "north.npz", X=np.eye(3))
    (tmp_path / "policy.yml").write_text("levels: record\n" if case == "policy" else "{}")
    words = answers(tmp_path)
    status, code = 4, "file-missing"
    if case == "policy":
        status, code = 3, "policy-field"
    elif case == "data":
        (tmp_path / "north.npz").unlink()
    elif case == "ledger":
        (tmp_path / "north.ledger").write_bytes(b"none")
        code = "ledger-"
    elif case == "absent":
        words, status, code = [], 3, "join-data"
    elif case == "schema":
        words += ["--site", tmp_path / "site.yml"]
        status, code = 3, "schema-options"
    else:
        words += ["--label-column", "x"]
        code = "file-columns"
    kit = signed(tmp_path, "north")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    text = silot("site", "join", kit, tmp_path / "north.signed", *words, status=status)
    assert f"[{code}" in text
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_askers_have_no_data(tmp_path: Path) -> None:
    kit = signed(tmp_path, "uni@x.org", "--asker")
    text = silot("site", "join", kit, tmp_path / "uni@x.org.signed", "--data", "x.npz", status=3)
    assert "[join-data]" in text
    silot("site", "join", kit, tmp_path / "uni@x.org.signed")
    assert "[kit-role]" in silot("site", "check", "--kit", kit, status=5)


def test_a_kit_stays_in_its_project(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    other = project.authority("other")
    body = json.loads((tmp_path / "north.signed").read_text())
    asked = (tmp_path / "north.request").read_bytes()
    signed_ = sign(other, Project(**body["project"]), asked)
    (tmp_path / "other.signed").write_text(signed_.model_dump_json())
    text = silot("site", "join", kit, tmp_path / "other.signed", status=5)
    assert "[kit-project]" in text


def test_check_reads_the_policy_back(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    text = silot("site", "check", "--kit", kit, status=4)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "[server-unreachable]" in text
    assert "60 records of 3 features" in text
    assert "wait until a person" in " ".join(text.split())
    found = {each["name"]: each for each in json.loads(
        silot("site", "check", "--kit", kit, "--json", status=4)
    )}  # fmt: skip
    assert {name for name, each in found.items() if each["state"] == "wrong"} == {"server"}
    silot("site", "pause", "--kit", kit)
    (tmp_path / "north.npz").unlink()
    found = {each["name"]: each["code"] for each in json.loads(
        silot("site", "check", "--kit", kit, "--json", status=4)
    )}  # fmt: skip
    # Of the data alone: the rules can still be read.
    assert (found["data"], found["policy"]) == ("file-missing", "")
    assert found["ledger"] == "holder-paused"


def test_a_ledger_that_was_put_back_is_seen(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    before = (tmp_path / "north.ledger").read_bytes()
    hold(tmp_path, "a")
    for name in ("north.ledger-wal", "north.ledger-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "north.ledger").write_bytes(before)
    found = json.loads(silot("site", "check", "--kit", kit, "--json", status=4))
    assert "ledger-older" in {each["code"] for each in found}


def test_questions_are_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = joined(tmp_path)
    hold(tmp_path, "a", "b", "c")
    monkeypatch.setenv("SILOT_KIT", str(kit))
    text = silot("site", "inbox")
    assert "3 questions wait" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count("barycenter-0123456789ab") == 3
    ids = [each["id"] for each in json.loads(silot("site", "inbox", "--json"))]
    silot("site", "deny", ids[0])
    silot("site", "approve", ids[1][:6], "--for", "1h")
    assert "[approval-decided]" in silot("site", "deny", ids[1], status=3)
    assert "[approval-unknown]" in silot("site", "approve", "ffff", status=3)
    assert "[approval-options]" in silot("site", "approve", ids[2], "--asker", "x", status=3)
    text = silot("site", "approve", ids[2], "--for", "1h", "--asker", "x", status=3)
    assert "[approval-asker]" in text
    text = silot("site", "inbox")
    assert "1 question waits" in text and "level record of uni@x.org is approved" in text
    with Ledger(tmp_path / "north.ledger") as ledger:
        state = {
            key: ledger.hold(key * 64, question="records", level="record", asker="uni@x.org")
            for key in "abd"
        }
    # What was denied before is approved with its level: the later word holds.
    assert state["b"] == state["d"] == "approved"
    (stands,) = json.loads(silot("site", "status", "--json"))["allowed"]
    assert stands["id"] in text
    assert "[approval-unknown]" in silot("site", "approve", stands["id"], status=3)
    assert "ended" in silot("site", "deny", stands["id"][:6])
    assert "[approval-unknown]" in silot("site", "deny", stands["id"], status=3)
    assert "is approved" not in silot("site", "inbox")
    with Ledger(tmp_path / "north.ledger") as ledger:
        state = {
            key: ledger.hold(key * 64, question="records", level="record", asker="uni@x.org")
            for key in "abde"
        }
    assert len({state["d"], state["e"], "waiting"}) == 1
    # What was approved itself stays so.
    assert sorted([state["a"], state["b"]]) == ["approved", "denied"]


def test_who_decided_and_when_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = joined(tmp_path)
    hold(tmp_path, "a", "b")
    monkeypatch.setenv("SILOT_KIT", str(kit))
    monkeypatch.setenv("SUDO_USER", "anna")
    user = pwd.getpwuid(os.getuid()).pw_name
    ids = [each["id"] for each in json.loads(silot("site", "inbox", "--json"))]
    before = datetime.now(UTC).isoformat(timespec="seconds")
    silot("site", "approve", ids[0], "--for", "1h", "--asker", "uni@x.org")
    monkeypatch.delenv("SUDO_USER")
    silot("site", "deny", ids[1])
    silot("site", "pause")
    lines = json.loads(silot("site", "log", "--json"))
    assert [
        (line["event"], line["asker"], line.get("question"), line["by"]) for line in lines
    ] == [
        ("approve", "uni@x.org", "records", f"anna as {user}"),
        ("allow", "uni@x.org", None, f"anna as {user}"),
        ("deny", "uni@x.org", "records", user), ("pause", "", None, user),
    ]  # fmt: skip
    assert all(line["time"] >= before for line in lines)
    text = silot("site", "log")
    assert "denied" in text and "anna as" in text and "0 questions, 4 decisions" in text
    with Ledger(tmp_path / "north.ledger") as ledger:
        ledger.verify()


def test_the_log_is_paged(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    with Ledger(tmp_path / "north.ledger") as ledger:
        for k in range(100):
            ledger.log_question({"asker": f"q{k:03}", "question": "records"})
    assert "100 questions, 0 decisions; 40 are shown" in silot("site", "log", "--kit", kit)
    seen: list[str] = []
    for page in (4, 3, 2, 1):
        words = ("--last", "30", "--page", page, "--json")
        seen += [line["asker"] for line in json.loads(silot("site", "log", "--kit", kit, *words))]
    assert seen == [f"q{k:03}" for k in range(100)]
    second = json.loads(silot("site", "log", "--kit", kit, "--page", "2", "--json"))
    assert [line["asker"] for line in second] == [f"q{k:03}" for k in range(20, 60)]
    assert json.loads(silot("site", "log", "--kit", kit, "--page", "4", "--json")) == []
    assert len(json.loads(silot("site", "log", "--kit", kit, "--json"))) == 100


@pytest.mark.parametrize("span", ["", "1", "h", "1y", "-1h", "0h", "99999d", "1h ago", "1.5h"])
def test_spans_that_are_none(tmp_path: Path, span: str) -> None:
    kit = joined(tmp_path)
    hold(tmp_path, "a")
    (question,) = json.loads(silot("site", "inbox", "--kit", kit, "--json"))
    text = silot("site", "approve", question["id"], "--for", span, "--kit", kit, status=3)
    assert "[approval-span]" in text
    assert len(json.loads(silot("site", "inbox", "--kit", kit, "--json"))) == 1


def test_pausing(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    for word, paused in (("pause", True), ("pause", True), ("resume", False)):
        silot("site", word, "--kit", kit)
        facts = json.loads(silot("site", "status", "--kit", kit, "--json"))
        assert facts["paused"] is paused
    assert facts["running_since"] is None


def test_the_log_says_who_asked_what(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    with Ledger(tmp_path / "north.ledger") as ledger:
        ledger.log_question(
            {"asker": "uni@x.org", "question": "records", "level": "record", "bytes": 10, "mu": 0.1}
        )
        ledger.log_question({"refused": "certificate-expired"})
    text = silot("site", "log", "--kit", kit)
    for word in ("uni@x.org", "records", "0.1", "answered", "certificate-expired", "2 questions"):
        assert word in text
    assert all(len(line) <= 80 for line in text.splitlines())
    lines = json.loads(silot("site", "log", "--kit", kit, "--json"))
    assert len(lines) == 2 and lines[0]["bytes"] == 10


HOLDING = """
import sys
from silot.sites.kit import Kit
from silot.sites.process_lock import lock_kit
lock_kit(Kit.load(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.heavy
def test_a_kit_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = joined(tmp_path)
    began: list[str] = []
    monkeypatch.setattr(os, "execve", lambda path, given, _: began.extend(given))
    silot("site", "run", kit)
    assert "nvflare.private.fed.app.client.client_train" in began
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, kit], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        assert "[kit-in-use]" in silot("site", "run", kit, status=4)
        assert "[kit-in-use]" in silot("site", "leave", "--kit", kit, status=4)
        facts = json.loads(silot("site", "status", "--kit", kit, "--json"))
        assert facts["running_since"] is not None
        # Looking does not free it.
        again = subprocess.run([sys.executable, "-c", HOLDING, kit], capture_output=True, input=b"")
        assert b"kit-in-use" in again.stderr
        later = time.time() + 60
        os.utime(tmp_path / "north.npz", (later, later))
        found = json.loads(silot("site", "check", "--kit", kit, "--json", status=4))
        assert "data-changed" in {each["code"] for each in found}
        other.kill()
    silot("site", "run", kit)


def test_a_list_of_revoked_certificates_is_taken_over(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    signed(tmp_path, "south")
    silot("project", "revoke", tmp_path / "wards", "south")
    list_ = tmp_path / "wards/authority/revoked.crl"
    assert "1 certificates" in silot("site", "revoke", kit, list_)
    assert len(Kit.load(kit).identity().revoked.read()) == 1
    assert "[file-missing]" in silot("site", "revoke", kit, tmp_path / "no", status=4)
    assert "[revocation-format]" in silot("site", "revoke", kit, tmp_path / "policy.yml", status=4)
    silot("project", "revoke", tmp_path / "wards", "north")
    silot("site", "revoke", kit, list_)
    assert "[certificate-revoked]" in silot("site", "run", kit, status=5)


def test_who_leaves_keeps_data_and_no_key(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    silot("site", "leave", "--kit", kit)
    assert not list(kit.rglob("*.key"))
    assert (tmp_path / "north.npz").exists() and (tmp_path / "north.ledger").exists()
    assert "[kit-format]" in silot("site", "run", kit, status=4)


def test_the_unit_runs_the_site(tmp_path: Path) -> None:
    text = silot("site", "unit", joined(tmp_path))
    assert f'site run "{tmp_path / "north"}"' in text
    assert f'ReadWritePaths="{tmp_path}"' in text
    assert "SILOT_STATE" in text
    # What restarts follows from the nature of codes, and never ends where that may pass.
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(.*)$", text, re.M)
    (forced,) = re.findall(r"^RestartForceExitStatus=(.*)$", text, re.M)
    statuses = {said.exit_status for said in explanations().values()} - {None}
    assert set(map(int, prevented.split())) == statuses | {2}
    assert forced == str(TEMPORARY) and "StartLimitIntervalSec=0" in text
    text = silot("site", "unit", tmp_path / "wards/server")
    assert "project serve" in text


def test_requests_write_over_nothing(tmp_path: Path) -> None:
    kit = signed(tmp_path, "north")
    assert "[file-exists]" in silot("site", "request", "north", "-o", kit, status=4)
    (tmp_path / "north.request").unlink()
    assert "[file-exists]" in silot("site", "request", "north", "-o", kit, status=4)
    assert not (tmp_path / "north.request").exists()
    assert "[project-field]" in silot("site", "request", "a/b", "-o", tmp_path / "c", status=3)


def test_a_trail_is_exported_verified_elsewhere_and_moved_away(tmp_path: Path) -> None:
    kit = joined(tmp_path)
    with Ledger(tmp_path / "north.ledger") as ledger:
        for k in range(30):
            ledger.log_question({"asker": "uni@x.org", "round": k, "question": "records"})
        ledger.reserve("a" * 64, mu=0.1, budget=1.0, mechanism="noise")
    root, file = tmp_path / "wards" / "authority" / "rootCA.pem", tmp_path / "a.json"
    today = datetime.now(UTC).date()
    text = silot("site", "export", file, "--kit", kit, "--from", today, "--to", today)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "0 to 31, the chain is intact" in text
    # The machine of whoever verifies has neither kit nor ledger.
    moved = tmp_path / "elsewhere" / "a.json"
    moved.parent.mkdir()
    moved.write_bytes(file.read_bytes())
    text = silot("site", "verify", moved, "--root", root)
    assert "site north of wards" in text and "in the file itself" not in text
    assert "in the file itself" in " ".join(silot("site", "verify", moved).split())
    lines = moved.read_text().splitlines()
    moved.write_text("\n".join([*lines[:9], *lines[10:]]) + "\n")
    assert "[trail-broken] a.json: row 8 is missing" in silot("site", "verify", moved, status=4)
    for name, word in (("a.csv", "csv"), ("a.txt", "xlsx")):
        silot("site", "export", tmp_path / name, "--kit", kit, "--format", word)
    for options, code in (
        (("--from", "1 May"), "trail-day"), (("--from", "2100-01-01"), "trail-empty"),
    ):  # fmt: skip
        assert f"[{code}]" in silot("site", "export", file, "--kit", kit, *options, status=3)
    size = (tmp_path / "north.ledger").stat().st_size
    text = silot("site", "rotate", tmp_path / "old.json", "--kit", kit, "--until", today)
    assert "30 questions" in text and size
    silot("site", "verify", tmp_path / "old.json", "--root", root)
    assert "30 questions, 0 decisions; 0 are shown" in silot("site", "log", "--kit", kit)
    assert json.loads(silot("site", "status", "--kit", kit, "--json"))["spent_mu"] == 0.1
    assert "[file-exists]" in silot(
        "site", "rotate", tmp_path / "old.json", "--kit", kit, "--until", today, status=4
    )
    text = silot("site", "export", file, "--kit", kit, "--from", today, status=3)
    assert "[trail-moved]" in text
    silot("site", "export", file, "--kit", kit)
    old, new = (json.loads(f.read_text())["signed"] for f in (tmp_path / "old.json", file))
    assert new["before"] == old["head"]
