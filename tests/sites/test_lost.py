"""What is lost, as full disks and sites that are gone: a code, or the run goes on."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot import Holder
from silot.api import connect as module
from silot.errors import FileError, HolderError
from silot.federation.exchange import Limits
from silot.privacy import Ledger
from silot.sites.configuration import LOG
from silot.sites.connection import Sites
from silot.sites.journal import Journal
from silot.sites.kit import Kit
from silot.sites.runs import all_runs

from .here import project_in, wire_of

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


def when_full(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, size: int) -> None:
    """Have one function write to a full disk."""
    before = getattr(kind, name)

    def limited(*args: Any) -> Any:
        with full(size):
            return before(*args)

    monkeypatch.setattr(kind, name, limited)


@pytest.mark.heavy
@pytest.mark.parametrize("code", ["log-unwritable", "ledger-disk"])
def test_a_site_whose_disk_is_full_tells_nothing(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    sites = Sites(kit.identity(), wire_of(tmp_path), NAMES, limits=Limits(deadline=20))
    for each in NAMES:
        sites.about(each)
    log = tmp_path / "kits" / "north" / "silot" / LOG
    with monkeypatch.context() as patched:
        if code == "log-unwritable":
            log.symlink_to("/dev/full")
        else:
            when_full(patched, Holder, "reply", 4096)
        with pytest.raises(HolderError, match=code) as caught:
            silot.distance(*NAMES, federation=sites, **SKETCH)
    log.unlink()
    # South may have told, and is charged.
    assert caught.value.run.privacy_mu < 0.3
    assert silot.distance(*NAMES, federation=sites, **SKETCH).converged
    spent: list[float] = []
    for each in NAMES:
        with Ledger(tmp_path / f"{each}.ledger", readonly=True) as ledger:
            ledger.verify()
            spent.append(ledger.spent)
    # Once, though one was asked again.
    assert spent[0] == pytest.approx(spent[1])


def test_a_run_that_cannot_be_kept_does_not_begin(kit: Kit) -> None:
    with (
        pytest.raises(FileError, match="file-unwritable"),
        module.connect(kit.folder) as sites,
        full(0),
    ):
        silot.distance(*NAMES, federation=sites)
    assert all_runs() == []


def test_a_run_whose_journal_is_full_goes_on_once_there_is_room(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileError, match="journal-unwritable"), module.connect(kit.folder) as sites:
        first = silot.distance(*NAMES, federation=sites)
        with monkeypatch.context() as patched:
            when_full(patched, Journal, "keep", 1000)
            silot.distance(*NAMES, method="fedwad", federation=sites)
    (run,) = all_runs()
    assert run.state == "stopped"
    with module.resume(run.request.run) as sites:
        assert silot.distance(*NAMES, federation=sites).value == first.value
        assert silot.distance(*NAMES, method="fedwad", federation=sites).value > 0


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
    with module.connect(kit.folder, timeout=4.0) as sites:
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
    with module.resume(sites.run_id) as again:
        same = asked(again)
    assert same.objective == found.objective and same.status == found.status
    assert rows(tmp_path / "north.ledger") == told
    assert asked_again == []
    with module.connect(kit.folder) as fresh:
        assert "south" not in asked(fresh).status
