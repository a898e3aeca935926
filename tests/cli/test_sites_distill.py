"""``silot train distill`` over sites: what it prints is what it prints of files."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from silot.distillation.configuration import SiteTeacher
from silot.errors import HolderError, WaitingError
from silot.federation import party
from silot.federation.exchange import Unreached
from silot.privacy import Ledger
from silot.sites import run_connection as module
from silot.sites.configuration import open_site
from silot.sites.kit import Kit
from silot.sites.runs import all_runs
from silot.sites.site import Site

from .conftest import Silot
from .project import provisioned, quick, signed, silot
from .test_distill import FIT, LABELS, MODEL, config, records

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

NAMES = ("north", "south")
TEACHER: dict[str, Any] = {
    "labels": LABELS, "model": MODEL, "fit": FIT, "transfer": "transfer.npz",
}  # fmt: skip
Over = Callable[..., dict[str, Any]]
RULES = "level: record\nprivacy_epsilon: 50\n"


def teach(folder: Path, name: str, *more: object, **fields: Any) -> Kit:
    """Join a site that teaches."""
    body = {**TEACHER, "train": f"{name}.npz", **fields}
    given = {key: value for key, value in body.items() if value != ()}
    (folder / f"{name}.yml").write_text(yaml.safe_dump(given))
    silot("site", "join", folder / name, folder / f"{name}.signed", "--teacher",
          folder / f"{name}.yml", "--ledger", folder / f"{name}.ledger", "--policy",
          folder / "policy.yml", *more)  # fmt: skip
    return Kit.load(folder / name)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two sites that teach, and an asker."""
    quick(monkeypatch)
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    provisioned(tmp_path)
    rng = np.random.default_rng(0)
    for name, shares in (("north", (6, 2, 1)), ("south", (1, 2, 6)), ("public", (1, 1, 1))):
        points, codes = records(rng, 20 if name == "public" else 120, shares)
        np.savez(tmp_path / f"{name}.npz", X=points, y=codes)
    points, codes = records(rng, 300)
    np.savez(tmp_path / "transfer.npz", X=points)
    np.savez(tmp_path / "test.npz", X=points, y=codes)
    (tmp_path / "policy.yml").write_text(RULES)
    for name in NAMES:
        signed(tmp_path, name)
        teach(tmp_path, name)
    silot("site", "join", signed(tmp_path, "uni@x.org", "--asker"), "uni@x.org.signed")
    return tmp_path


@pytest.fixture
def wire(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Sites:
    found = Sites(desk)
    monkeypatch.setattr(module, "_wire", lambda kit: found)
    monkeypatch.setattr(module, "TIMEOUT", 10.0)
    return found


class Sites:
    """A wire to sites in this process, made from what is on their disks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gone, self.asked = folder, set[str](), 0
        self.sites: dict[str, Site] = {}
        self.before: Callable[[str], object] = lambda name: None

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        self.asked += 1
        self.before(name)
        if name in self.gone:
            raise Unreached
        if name not in self.sites:
            self.sites[name] = open_site(Kit.load(self.folder / name))
        return self.sites[name].handle(data)


@pytest.fixture
def over_sites(silot_: Silot, wire: Sites) -> Callable[..., dict[str, Any]]:
    def run(*options: str, **fields: Any) -> dict[str, Any]:
        file = config(Path(), "sites.yml", teachers=list(NAMES), **fields)
        words = ["train", "distill", str(file), "--sites", "uni@x.org", "--json", *options]
        return json.loads(silot_(*words))

    return run


def of_files(**fields: Any) -> dict[str, Any]:
    return json.loads(silot("train", "distill", config(Path(), "files.yml", **fields), "--json"))


def timeless(body: Any) -> Any:
    if isinstance(body, dict):
        gone = ("seconds", "preflight", "resumed", "in_memory")
        return {key: timeless(value) for key, value in body.items() if key not in gone}
    return [timeless(value) for value in body] if isinstance(body, list) else body


@pytest.mark.heavy
@pytest.mark.parametrize(
    "fields",
    [{}, {"shared": True}, {"weights": "size"}, {"decimals": 2, "temperature": 2.0}],
    ids=["confidence", "shared", "size", "rounded"],
)
def test_over_sites_it_prints_what_it_prints_of_files(
    wire: Sites, over_sites: Over, silot_: Silot, fields: dict[str, Any]
) -> None:
    there = over_sites(**fields)
    assert timeless(there) == timeless(of_files(**fields))
    assert there["excluded"] == {}
    (run,) = all_runs()
    asked = wire.asked
    # From the journal alone.
    assert timeless(json.loads(silot_("project", "resume", run.request.run[:6]))) == timeless(there)
    assert wire.asked == asked


@pytest.mark.heavy
def test_noise_is_charged_once_and_stays_what_it_was(
    wire: Sites, over_sites: Over, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is the same at every ledger, so that sites and files can be compared."""

    def noise(sensitivity: float, mu: float) -> Any:
        drawn, scale = np.random.default_rng(5), sensitivity / mu
        return lambda exact: exact + np.rint(drawn.normal(size=exact.shape) * scale).astype(int)

    monkeypatch.setattr(party, "noise_for", noise)
    private = {"privacy_epsilon": 20.0, "weights": "uniform", "epochs": 2}
    for name in NAMES:
        teach(desk, name, parts=3)
    local = {name: {"train": f"{name}.npz", "parts": 3} for name in NAMES}
    there = over_sites(**private)
    assert timeless(there) == timeless(of_files(**private, teachers=local))
    assert there["privacy_mu"] > 0
    # Another run, of sites that were started anew: noise is drawn by none of them.
    monkeypatch.setattr(party, "noise_for", None)
    wire.sites.clear()
    free = timeless(there)
    free["privacy_mu"] = free["cost"]["privacy_mu"] = 0.0
    assert timeless(over_sites(**private)) == free
    with Ledger(desk / "north.ledger") as ledger:
        assert ledger.spent == pytest.approx(there["privacy_mu"])


@pytest.mark.heavy
def test_sites_that_are_killed_all_the_time_change_nothing(wire: Sites, over_sites: Over) -> None:
    expected, asked = timeless(over_sites()), wire.asked
    wire.before = lambda name: wire.sites.pop(name, None)
    assert timeless(over_sites()) == expected
    assert wire.asked == 2 * asked


@pytest.mark.heavy
def test_it_goes_on_without_a_site_and_says_so(
    wire: Sites, over_sites: Over, silot_: Silot
) -> None:
    wire.gone = {"south"}
    found = over_sites(min_teachers=1)
    assert found["excluded"] == {"south": "holder-unreachable"}
    assert "1 of 2 teachers" in found["status"]
    assert "south" in found["status"]
    with pytest.raises(HolderError, match="continues it") as caught:
        over_sites(min_teachers=2)
    assert caught.value.code == "teachers-few"
    wire.gone = set()
    (stopped,) = (run for run in all_runs() if run.state == "stopped")
    assert json.loads(silot_("project", "resume", stopped.request.run))["excluded"] == {}


@pytest.mark.heavy
def test_a_teacher_waits_for_a_person_and_refuses_who_it_does_not_know(
    over_sites: Over, wire: Sites, desk: Path, silot_: Silot
) -> None:
    (desk / "policy.yml").write_text(f"{RULES}ask: [record]\n")
    with pytest.raises(WaitingError):
        over_sites(question_batch=4096)
    for name in NAMES:
        with Ledger(desk / f"{name}.ledger") as ledger:
            (held,) = ledger.waiting
            assert (held.asker, held.question, held.level) == ("uni@x.org", "predict", "record")
            ledger.decide(held.id, approved=True)
    (run,) = all_runs()
    found = json.loads(silot_("project", "resume", run.request.run))
    assert timeless(found) == timeless(of_files(question_batch=4096))
    teach(desk, "south", askers=["other@x.org"])
    wire.sites.clear()
    found = over_sites(min_teachers=1, question_batch=4096)
    assert found["excluded"] == {"south": "policy-asker"}


@pytest.mark.heavy
def test_a_site_has_records_beside_its_teacher(
    over_sites: Over, wire: Sites, desk: Path, silot_: Silot
) -> None:
    for name in NAMES:
        teach(desk, name, "--data", desk / f"{name}.npz")
    words = ["distance", "--json"]
    there = silot_(*words, *NAMES, "--sites", "uni@x.org")
    here = silot_(*words, *(f"{name}.npz" for name in NAMES))
    assert timeless(json.loads(there)) == timeless(json.loads(here))
    assert timeless(over_sites()) == timeless(of_files())
    # South teaches no more.
    silot("site", "join", "south", "south.signed", "--data", "south.npz", "--ledger",
          "south.ledger", "--policy", "policy.yml")  # fmt: skip
    wire.sites.clear()
    assert over_sites(min_teachers=1)["excluded"] == {"south": "teacher-absent"}


@pytest.mark.heavy
def test_teachers_of_other_labels_and_without_the_transfer_set_are_left_out(
    over_sites: Over, wire: Sites, desk: Path
) -> None:
    model = desk / "north" / "silot" / "teacher-1.npz"
    (desk / "one.npz").write_bytes(model.read_bytes())
    teach(desk, "south", parameters="one.npz", train=(), transfer=(), model=(), fit=())
    assert over_sites(min_teachers=1, shared=True)["excluded"] == {"south": "inputs-absent"}
    names = {**LABELS, "names": ["one", "two", "three"]}
    teach(desk, "south", labels=names)
    wire.sites.clear()
    assert over_sites(min_teachers=1)["excluded"] == {"south": "labels-mismatch"}


def test_check_says_what_a_site_teaches(desk: Path) -> None:
    found = {each["name"]: each for each in json.loads(
        silot("site", "check", "--kit", "north", "--json", status=4)
    )}  # fmt: skip
    assert "data" not in found
    assert found["teacher"]["text"] == (
        "1 model (vectors) of the labels low, middle, high; of 120 records; 300 inputs of a "
        "transfer set are here; may answer every asker, as the policy allows"
    )
    (desk / "north" / "silot" / "teacher-1.npz").write_bytes(b"none")
    found = {each["name"]: each for each in json.loads(
        silot("site", "check", "--kit", "north", "--json", status=4)
    )}  # fmt: skip
    assert (found["teacher"]["state"], found["teacher"]["code"]) == ("wrong", "file-unreadable")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"train": ()}, "distill-teacher"),
        ({"parameters": "north.npz"}, "distill-field"),
        ({"transfer": ()}, "distill-field"),
        ({"model": ()}, "distill-field"),
        ({"labels": {"names": ["low"]}}, "distill-field"),
        ({"policy": {"level": "record"}}, "distill-unknown-field"),
        ({"train": "none.npz"}, "file-missing"),
        ({"parts": 400}, "distill-parts"),
        ({"seed": -1}, "distill-field"),
    ],
)
def test_what_is_wrong_with_a_teacher_is_said_and_nothing_is_written(
    desk: Path, fields: dict[str, Any], code: str
) -> None:
    before = {path: path.read_bytes() for path in (desk / "north").rglob("*.*")}
    body = {**TEACHER, "train": "north.npz", **fields}
    file = desk / "north.yml"
    file.write_text(yaml.safe_dump({key: value for key, value in body.items() if value != ()}))
    status = 4 if code.startswith("file") else 3
    text = silot("site", "join", "north", "north.signed", "--teacher", file, "--ledger",
                 "north.ledger", status=status)  # fmt: skip
    assert text.startswith(f"[{code}] north.yml, ")
    assert {path: path.read_bytes() for path in (desk / "north").rglob("*.*")} == before


def test_the_file_of_the_page_is_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "deploy.md"
    (text,) = re.findall(r"^```yaml\n(labels:.*?)```", page.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "teacher.yml").write_text(text)
    found = SiteTeacher.load(tmp_path / "teacher.yml")
    assert found.labels.space().names == ("low", "middle", "high")
    assert str(found.train and found.train.file) == "north.csv"
