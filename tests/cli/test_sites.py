"""Commands over sites: what they print is what they print of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.data.reading import Schema
from silot.errors import FileError, HolderError, InputError, MismatchError, WaitingError
from silot.federation.exchange import Unreached
from silot.privacy import Ledger
from silot.sites import run_connection as module
from silot.sites.configuration import SiteConfiguration
from silot.sites.kit import Kit
from silot.sites.runs import all_runs

from ..sites.here import project_in, site_at, wire_of
from .conftest import Silot

NAMES = ("north", "south", "west")


def rows(k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    points = rng.normal(size=(420, 3)) + 0.3 * k
    return points, np.array(["sick", "well"])[(points[:, 0] > 0.3 * k).astype(int)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    project_in(folder, {name: rows(k) for k, name in enumerate(NAMES)})
    for k, (name, size) in enumerate({"mine": 420, "public": 150}.items()):
        points, labels = rows(7 + k)
        np.savez(folder / f"{name}.npz", X=points[:size], y=labels[:size])
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the project's folder, ledgers and all, beside a state of its own."""
    folder = tmp_path / "desk"
    shutil.copytree(made, folder)
    for name in NAMES:
        file = folder / "kits" / name / "silot" / "site.json"
        file.write_text(file.read_text().replace(str(made), str(folder)))
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(module, "_wire", lambda kit: wire_of(folder))
    return folder


def timeless(text: str) -> Any:
    def without(body: Any) -> Any:
        if isinstance(body, dict):
            gone = ("seconds", "preflight")
            return {key: without(value) for key, value in body.items() if key not in gone}
        return [without(value) for value in body] if isinstance(body, list) else body

    return without(json.loads(text))


COMMANDS = {
    "direct": "distance north south",
    "fedwad": "distance north south --method fedwad --support 10 --rounds 3",
    "sketch": "distance north south --method sketch --public public.npz",
    "labels": "distance north south --labels",
    "matrix": "distance matrix",
    "cluster": "distance groups --level 0.1",
    "cluster by fedwad": "distance groups north south west --method fedwad --support 10 -k 2",
    "value": "value --validation mine.npz",
    "value of the barycenter": "value north south west",
    "value with a map": "value --validation mine.npz --map sketch --public public.npz",
    "records private": "records north --validation mine.npz --method private --public public.npz",
    "records": "records north --validation mine.npz",
    "barycenter": "distance barycenter --support 6 --rounds 2",
    "coreset": "train coreset --size 6 --rounds 3 --active 1",
    "coreset with labels": "train coreset --size 6 --rounds 2 --labels --test mine.npz",
    "coreset of sketches": "train coreset --size 6 --method sketch --public public.npz",
    "pooled": "distance pooled north south --buyer mine.npz",
    "train": "train --model logistic --rounds 3",
    "train by groups": "train --rounds 2 --groups 2 --weights worth --validation mine.npz",
    "adapt": "train adapt --model logistic",
    "links": "train links",
}

# Noise is another one each time.
# How many cells there are, and so bytes, follows from a count with noise.
BILL = ("rounds", "privacy_mu", "disclosure", "preflight")


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_over_sites_prints_what_it_prints_of_files(
    command: str, desk: Path, silot_: Silot
) -> None:
    words = command.split()
    there = timeless(silot_(*words, "--sites", "kits/asker", "--json"))
    named = [word for word in words if word in NAMES]
    files = [f"{word}.npz" if word in NAMES else word for word in words]
    files += [] if named else [f"{name}.npz" for name in NAMES]
    here = timeless(silot_(*files, "--json"))
    if "public.npz" in command:
        assert set(there) == set(here)
        assert [there.get(name) for name in BILL] == [here.get(name) for name in BILL]
    else:
        assert there == here
    (run,) = all_runs()
    assert (run.state, run.request.names) == ("done", tuple(named) or NAMES)
    # From the journal alone: the sites are gone.
    assert timeless(silot_("project", "resume", run.request.run[:6])) == there


@pytest.mark.heavy
@pytest.mark.parametrize("private", [False, True])
def test_sites_are_compared_as_their_files_are(private: bool, desk: Path, silot_: Silot) -> None:
    words = ["compare", "--validation", "mine.npz", "--json"]
    words += ["--public", "public.npz"] if private else []
    there = timeless(silot_(*words, "--sites", "kits/asker", "--out", "there"))
    here = timeless(silot_(*words, *(f"{name}.npz" for name in NAMES), "--out", "here"))
    assert there["disclosure"] == ("private" if private else "record")
    assert [item["site"] for item in there["decisions"]]
    if not private:
        # Files of one's own are sent to nobody.
        assert here["disclosure"] == "" and here["rounds"] == 0
        assert there["decisions"] == here["decisions"]
    # From the journal alone: the sites are gone.
    (run,) = all_runs()
    assert timeless(silot_("project", "resume", run.request.run[:6])) == there


def test_no_option_asks_for_records_that_are_at_sites(desk: Path, silot_: Silot) -> None:
    for command in (
        "records north --validation mine.npz --sheet list.csv",
        "records north --validation mine.npz --image-shape 1x3",
        "records north --validation mine.npz --method private --public public.npz --report r.html",
        "value --validation mine.npz --records",
        "train adapt --test .",
        "train adapt --label-column y",
        "train adapt --source mine.npz --epsilon 4 --ledgers l",
        "train adapt --source mine.npz --epsilon 4 --budget-epsilon 2",
    ):
        with pytest.raises(InputError, match="option-sites"):
            silot_(*command.split(), "--sites", "kits/asker")
    with pytest.raises(InputError, match="option-ledgers"):
        silot_(
            *["distance", "matrix", "--method", "sketch", "--ledgers", "l", "--sites", "kits/asker"]
        )
    with pytest.raises(MismatchError, match="holder-unknown"):
        silot_("distance", "north", "east", "--sites", "kits/asker")
    with pytest.raises(InputError, match="holder-names"):
        silot_("distance", "north", "north", "--sites", "kits/asker")
    with pytest.raises(InputError, match="holder-names"):
        silot_("distance", "matrix")
    with pytest.raises(MismatchError, match="kit-role"):
        silot_("distance", "matrix", "--sites", "kits/north")
    assert all_runs() == []


def test_a_run_waits_for_a_person_and_goes_on(desk: Path, silot_: Silot) -> None:
    (desk / "north.yml").write_text("level: record\nask: [record]\n")
    words = ["distance", "north", "south", "--sites", "kits/asker", "--json"]
    with pytest.raises(WaitingError) as caught:
        silot_(*words)
    (run,) = all_runs()
    assert run.state == "waiting for north"
    assert caught.value.message.endswith(f"`silot project resume {run.request.run}` continues it.")
    assert json.loads(silot_("project", "runs", "--json"))[0]["state"] == "waiting for north"
    assert run.request.run in silot_("project", "runs")
    with pytest.raises(WaitingError):
        silot_("project", "resume", run.request.run)
    with Ledger(desk / "north.ledger") as ledger:
        (held,) = ledger.waiting
        # Who decides sees of which computation it is, and the name that who asked sees.
        assert held.run == f"distance-{run.request.run}"
        ledger.decide(held.id, approved=True)
    found = timeless(silot_("project", "resume", run.request.run, "--report", "r.html"))
    assert found == timeless(silot_("distance", "north.npz", "south.npz", "--json"))
    assert (desk / "r.html").exists()
    assert run.state == "done"


def test_a_run_that_is_cancelled_stays_so(desk: Path, silot_: Silot, monkeypatch: Any) -> None:
    through, asked = wire_of(desk), [0]

    def cancelling(name: str, data: bytes, seconds: float) -> bytes:
        asked[0] += 1
        if asked[0] == 9:
            (run,) = all_runs()
            assert run.state == "running"
            silot_("project", "cancel", run.request.run)
        return through(name, data, seconds)

    monkeypatch.setattr(module, "_wire", lambda kit: cancelling)
    with pytest.raises(HolderError, match="run-cancelled"):
        silot_(
            *["value", "--validation", "mine.npz", "--method", "fedwad", "--sites", "kits/asker"]
        )
    (run,) = all_runs()
    assert run.state == "cancelled"
    assert asked[0] < 15
    with pytest.raises(MismatchError, match="run-cancelled"):
        silot_("project", "resume", run.request.run)


def test_runs_that_cannot_be_gone_on_with(desk: Path, silot_: Silot) -> None:
    for name in ("", "../x", "abc"):
        with pytest.raises(FileError, match="run-unknown"):
            silot.resume(name)
    silot_(*["value", "--validation", "mine.npz", "--sites", "kits/asker"])
    (run,) = all_runs()
    held = run.lock()
    with pytest.raises(InputError, match="run-running"):
        silot.resume(run.request.run)
    held.release()
    (desk / "mine.npz").write_bytes((desk / "public.npz").read_bytes())
    with pytest.raises(MismatchError, match="run-changed"):
        silot_("project", "resume", run.request.run)
    with silot.connect(desk / "kits" / "asker") as sites:
        assert sites.names == NAMES
        silot.distance("north", "south", federation=sites)
    with pytest.raises(InputError, match="run-python"):
        silot_("project", "resume", sites.run_id)


@pytest.mark.heavy
def test_python_goes_on_with_a_run(desk: Path, monkeypatch: Any) -> None:
    def dying(name: str, data: bytes, seconds: float) -> bytes:
        if name == "south":
            raise Unreached
        return wire_of(desk)(name, data, seconds)

    monkeypatch.setattr(module, "_wire", lambda kit: dying)
    kit = desk / "kits" / "asker"
    with (
        pytest.raises(HolderError, match="continues it") as caught,
        silot.connect(kit, ["north", "south"], timeout=6.0) as sites,
    ):
        silot.distance("north", "south", federation=sites)
    assert caught.value.code == "holder-unreachable"
    monkeypatch.setattr(module, "_wire", lambda kit: wire_of(desk, gone=("north",)))
    with silot.resume(sites.run_id) as again:
        found = silot.distance("north", "south", federation=again)
        assert again.names == ("north", "south")
    assert found.value > 0
    assert [run.state for run in all_runs()] == ["done"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    [
        "value --validation mine.npz --quorum 2",
        "value --validation mine.npz --method fedwad --quorum 2",
        "value --quorum 2",
        "distance barycenter --support 6 --rounds 2 --quorum 2",
        "distance pooled --buyer mine.npz --quorum 2",
        "train adapt --model logistic",
    ],
)
def test_a_run_goes_on_without_a_site(
    command: str, desk: Path, silot_: Silot, monkeypatch: Any
) -> None:
    for name in NAMES:
        site_at(desk, name)
    monkeypatch.setattr(module, "TIMEOUT", 10.0)
    monkeypatch.setattr(module, "_wire", lambda kit: wire_of(desk, gone=("west",)))
    found = json.loads(silot_(*command.split(), "--sites", "kits/asker", "--json"))
    assert "west" in found["status"]


SCHEMA = """silot: schema
version: 1
name: {}
columns:
  a: {{kind: number, range: [0, {}]}}
"""


def read_by(desk: Path, **ends: int) -> None:
    """Have sites read tables of one column by a schema of their own."""
    # Records of their own: those of one site are other people than those of another.
    for name, end in ends.items():
        share = {"north": 0.25}.get(name, 0.5)
        (desk / f"{name}.csv").write_text("a\n" + "".join(f"{k + share}\n" for k in range(30)))
        (desk / f"{name}-schema.yml").write_text(SCHEMA.format(f"of-{name}", end))
        kit = Kit.load(desk / "kits" / name)
        joined = SiteConfiguration.load(kit).model_copy(
            update={"data": desk / f"{name}.csv", "schema_file": desk / f"{name}-schema.yml"}
        )
        joined.save(kit)


def told(desk: Path, name: str) -> int:
    with Ledger(desk / f"{name}.ledger") as ledger:
        return sum(entry.event == "question" for entry in ledger.entries())


def test_sites_of_other_schemas_are_not_asked(desk: Path, silot_: Silot) -> None:
    read_by(desk, north=40, south=50)
    words = ["distance", "north", "south", "--sites", "kits/asker", "--json"]
    with pytest.raises(MismatchError, match="schema-mismatch") as caught:
        silot_(*words)
    assert "'of-north'" in caught.value.message and "'of-south'" in caught.value.message
    # A schema of one's own is compared too, and nobody was asked either.
    with pytest.raises(MismatchError, match="schema-mismatch") as caught:
        silot_(*words, "--schema", "north-schema.yml")
    assert "'south'" in caught.value.message and "--schema" in caught.value.message
    assert [told(desk, name) for name in ("north", "south")] == [0, 0]
    assert all_runs() == []
    read_by(desk, south=40)
    site_at.cache_clear()
    found = json.loads(silot_(*words, "--schema", "south-schema.yml"))
    assert found["preflight"] is None
    assert [told(desk, name) for name in ("north", "south")] == [1, 1]
    # Columns of the sites have the names of the schema.
    parts = json.loads(silot_(*words, "--schema", "south-schema.yml", "--why"))["parts"]
    assert list(parts["columns"]) == ["a"]
    # Who has none fits all.
    own = Schema.load("north-schema.yml")
    with (
        silot.connect("kits/asker", schema=own) as sites,
        pytest.raises(MismatchError, match="dimension"),
    ):
        silot.distance("west", "north", federation=sites)


@pytest.mark.heavy
def test_a_site_that_comes_back_with_another_schema_is_not_asked(
    desk: Path, silot_: Silot, monkeypatch: Any
) -> None:
    read_by(desk, north=40, south=50)
    monkeypatch.setattr(module, "TIMEOUT", 10.0)
    monkeypatch.setattr(module, "_wire", lambda kit: wire_of(desk, gone=("south",)))
    with pytest.raises(HolderError, match="holder-unreachable"):
        silot_("distance", "north", "south", "--sites", "kits/asker")
    (run,) = all_runs()
    monkeypatch.setattr(module, "_wire", lambda kit: wire_of(desk, gone=("north",)))
    with pytest.raises(MismatchError, match="schema-mismatch"):
        silot_("project", "resume", run.request.run)
    assert told(desk, "south") == 0
