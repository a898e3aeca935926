"""What is lost, as full disks and sites that are gone: a code, or the run goes on."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import silot
from silot.api import report
from silot.errors import FileError, HolderError, SilotError
from silot.federation import Holder
from silot.federation.exchange import Limits
from silot.federation.keys import Key
from silot.privacy import Ledger
from silot.sites import run_connection as module
from silot.sites.connection import Sites
from silot.sites.journal import Journal
from silot.sites.kit import Kit
from silot.sites.runs import all_runs
from silot.sites.trail import export_trail

from .filling import Disk, small_disk
from .here import project_in, site_at, wire_of

pytestmark = pytest.mark.all_cases

NAMES = ["north", "south"]
ONE = threading.RLock()
RNG = np.random.default_rng(3)
SKETCH: dict[str, Any] = {"method": "sketch", "public": RNG.normal(size=(300, 3))}


@contextmanager
def full(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    # One at a time: each puts back what it found.
    with ONE:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    rows = {name: (RNG.normal(size=(420, 3)), np.array(["a", "b"] * 210)) for name in NAMES}
    made = project_in(tmp_path, rows)
    monkeypatch.setattr(module, "_wire", lambda _: wire_of(tmp_path))
    return made


def when_full(monkeypatch: pytest.MonkeyPatch, kind: object, name: str, size: int) -> None:
    """Have one function write to a full disk."""
    before = getattr(kind, name)

    def limited(*args: Any) -> Any:
        with full(size):
            return before(*args)

    monkeypatch.setattr(kind, name, limited)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["reply", "_note"])
def test_a_site_whose_disk_is_full_tells_nothing(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sites = Sites(kit.identity(), wire_of(tmp_path), NAMES, limits=Limits(deadline=8))
    for each in NAMES:
        sites.about(each)
    with monkeypatch.context() as patched:
        there = [site_at(tmp_path, each) for each in NAMES]
        for kind in [Holder] if name == "reply" else there:
            when_full(patched, kind, name, 4096)
        with pytest.raises(HolderError, match="ledger-disk") as caught:
            silot.distance(*NAMES, federation=sites, **SKETCH)
    # South may have told, and is charged.
    assert caught.value.run.privacy_mu < 0.3
    assert silot.distance(*NAMES, federation=sites, **SKETCH).converged
    spent: list[float] = []
    for each in NAMES:
        with Ledger(tmp_path / f"{each}.ledger", readonly=True) as ledger:
            ledger.verify()
            spent.append(ledger.spent)
            # All that left is in the trail.
            lines = [row.facts for row in ledger.read_latest("question")]
            assert any("answer" in line for line in lines)
    # Once, though one was asked again.
    assert spent[0] == pytest.approx(spent[1])


def test_a_run_that_cannot_be_kept_does_not_begin(kit: Kit) -> None:
    with (
        pytest.raises(FileError, match="file-unwritable"),
        silot.connect(kit.folder) as sites,
        full(0),
    ):
        silot.distance(*NAMES, federation=sites)
    assert all_runs() == []


def test_a_run_whose_journal_is_full_goes_on_once_there_is_room(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileError, match="journal-unwritable"), silot.connect(kit.folder) as sites:
        first = silot.distance(*NAMES, federation=sites)
        with monkeypatch.context() as patched:
            when_full(patched, Journal, "keep", 1000)
            silot.distance(*NAMES, method="fedwad", federation=sites)
    (run,) = all_runs()
    assert run.state == "stopped"
    with silot.resume(run.request.run) as sites:
        assert silot.distance(*NAMES, federation=sites).value == first.value
        assert silot.distance(*NAMES, method="fedwad", federation=sites).value > 0


def test_a_large_reply_that_a_thread_could_not_write_stops_the_run_until_there_is_room(
    tmp_path: Path,
) -> None:
    key, large = Key.new(), RNG.bytes(3 << 20)
    with closing(Journal(tmp_path / "journal", key)) as journal:
        journal.keep("north", b"small", b"reply")
        with full(1 << 20):
            journal.keep("north", b"large", large)
            for _ in range(2):
                with pytest.raises(FileError, match="journal-unwritable"):
                    journal.settle()
        assert not journal.has("north", b"large")
    with closing(Journal(tmp_path / "journal", key)) as journal:
        assert journal.find("north", b"small") == b"reply"
        journal.keep("north", b"large", large)
        journal.settle(wait=False)
        journal.keep("south", b"small", b"of south")
        assert journal.find("north", b"large") == large
        journal.settle()
    with closing(Journal(tmp_path / "journal", key)) as journal:
        assert journal.find("north", b"large") == large
        assert journal.find("south", b"small") == b"of south"


def rows(ledger: Path) -> int:
    """How often it was told what is kept there."""
    with Ledger(ledger, readonly=True) as found:
        return sum(row.event in ("count", "reserve") for row in found.entries())


@pytest.mark.heavy
def test_a_resumed_run_goes_the_way_it_went_without_a_site(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(federation: Any) -> Any:
        return silot.barycenter(federation, support=6, rounds=2, quorum=1)

    monkeypatch.setattr(module, "_wire", lambda _: wire_of(tmp_path, gone=("south",)))
    with silot.connect(kit.folder, timeout=4.0) as sites:
        found = asked(sites)
    assert "south" in found.status
    told = rows(tmp_path / "north.ledger")
    assert told > 0
    # It is back, and the run that is done asks nobody anything.
    asked_again: list[str] = []

    def counted(name: str, data: bytes, seconds: float) -> bytes:
        asked_again.append(name)
        return wire_of(tmp_path)(name, data, seconds)

    monkeypatch.setattr(module, "_wire", lambda _: counted)
    with silot.resume(sites.run_id) as again:
        same = asked(again)
    assert same.objective == found.objective and same.status == found.status
    assert rows(tmp_path / "north.ledger") == told
    assert asked_again == []
    with silot.connect(kit.folder) as fresh:
        assert "south" not in asked(fresh).status


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def spent_at(folder: Path, name: str) -> float:
    with Ledger(folder / f"{name}.ledger", readonly=True) as ledger:
        ledger.verify()
        ledger.check_place()
        return ledger.spent


@pytest.mark.parametrize("place", ["ledger", "head"])
def test_an_account_on_a_full_disk_tells_nothing_and_goes_on(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The file of the ledger, whose questions are the trail, or the head that is noted outside."""
    state = disk.folder / "state" if place == "head" else tmp_path / "state"
    folder = disk.folder / "wards" if place == "ledger" else tmp_path / "wards"
    folder.mkdir()
    monkeypatch.setenv("SILOT_STATE", str(state))
    rows = {name: (RNG.normal(size=(420, 3)), np.array(["a", "b"] * 210)) for name in NAMES}
    made = project_in(folder, rows)
    # What is slow once is over before the deadline counts.
    first = Sites(made.identity(), wire_of(folder), NAMES)
    before = silot.distance(*NAMES, federation=first, **SKETCH, seed=1).cost.privacy_mu
    sites = Sites(made.identity(), wire_of(folder), NAMES, limits=Limits(deadline=6))
    with disk.full():
        with pytest.raises(HolderError) as caught:
            silot.distance(*NAMES, federation=sites, **SKETCH)
        assert caught.value.code in ("ledger-disk", "ledger-full", "ledger-head"), caught.value
        told = caught.value.run.privacy_mu
    found = silot.distance(*NAMES, federation=sites, **SKETCH)
    assert told <= found.cost.privacy_mu
    assert spent_at(folder, "north") == pytest.approx(spent_at(folder, "south"))
    assert spent_at(folder, "north") == pytest.approx(np.hypot(before, found.cost.privacy_mu))
    for each in NAMES:
        with Ledger(folder / f"{each}.ledger", readonly=True) as ledger:
            assert any("answer" in row.facts for row in ledger.read_latest("question"))


def test_a_journal_on_a_full_disk_is_resumed_once_there_is_room(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    rows = {name: (RNG.normal(size=(420, 3)), np.array(["a", "b"] * 210)) for name in NAMES}
    made = project_in(tmp_path, rows)
    calls = count()

    def carried(_: Kit) -> Any:
        through = wire_of(tmp_path)

        def carry(name: str, data: bytes, seconds: float) -> bytes:
            if next(calls) == 6:
                disk.fill()
            return through(name, data, seconds)

        return carry

    monkeypatch.setattr(module, "_wire", carried)
    # The sites keep their account elsewhere than who asks its journal.
    for each in NAMES:
        site_at(tmp_path, each)
    monkeypatch.setenv("SILOT_STATE", str(disk.folder / "asker"))
    with pytest.raises(FileError, match="journal-unwritable"), silot.connect(made.folder) as sites:
        silot.distance(*NAMES, method="fedwad", support=300, federation=sites)
    disk.make_room()
    with silot.resume(sites.run_id) as again:
        found = silot.distance(*NAMES, method="fedwad", support=300, federation=again)
    fresh = Sites(made.identity(), wire_of(tmp_path), NAMES)
    assert found.value == silot.distance(
        *NAMES, method="fedwad", support=300, federation=fresh
    ).value  # fmt: skip


def test_files_on_a_full_disk_are_written_whole_or_not_at_all(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report, a release, a trail and a copy of a ledger: a code, and the file of before stays."""
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    found = silot.distance(RNG.normal(size=(60, 2)), RNG.normal(size=(60, 2)))
    made = project_in(tmp_path, {"north": (RNG.normal(size=(420, 3)), np.array(["a", "b"] * 210))})
    kit = Kit.load(tmp_path / "kits" / "north")
    with Ledger(tmp_path / "north.ledger") as ledger:
        for number in range(200):
            ledger.log_question({"asker": made.name, "round": number, "question": "moments",
                                 "level": "statistics", "bytes": 10, "mu": 0.0})  # fmt: skip
    wards = silot.Schema.of({"columns": {"x": {"kind": "number", "range": [-9, 9]}}})
    table = wards.measure(pd.DataFrame({"x": RNG.normal(size=600)}))

    def write_trail(path: Path, format: Any) -> None:
        with Ledger(tmp_path / "north.ledger", readonly=True) as ledger:
            export_trail(ledger, kit, path, format, 0, ledger.size - 1)

    def back_up(path: Path) -> None:
        with Ledger(tmp_path / "north.ledger", readonly=True) as ledger:
            ledger.backup(path)

    writers: dict[str, Callable[[Path], object]] = {
        "report.html": lambda path: report.write(path, found),
        "north.release": lambda path: silot.release(
            table, path, name="north", ledger=tmp_path / "release.ledger"
        ),
        "trail.json": lambda path: write_trail(path, "json"),
        "trail.csv": lambda path: write_trail(path, "csv"),
        "trail.xlsx": lambda path: write_trail(path, "xlsx"),
        "copy.ledger": back_up,
    }
    for name, write in writers.items():
        path = disk.folder / name
        with disk.full(), pytest.raises(SilotError) as caught:
            write(path)
        assert caught.value.code in ("file-unwritable", "ledger-full", "ledger-disk"), (
            name,
            caught,
        )
        assert list(disk.folder.iterdir()) == [], name
        write(path)
        assert path.stat().st_size > 0
        path.unlink()
    # The release was charged before its file failed, and is the same afterwards.
    with Ledger(tmp_path / "release.ledger", readonly=True) as ledger:
        assert sum(row.event == "reserve" for row in ledger.entries()) == 1
