"""Two sites and an asker that compute with one another: real certificates, real engines."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.errors import HolderError
from silot.federation.exchange import Unreached
from silot.privacy.ledger import Ledger
from silot.sites.authority import Authority
from silot.sites.journal import Journal
from silot.sites.kit import Kit
from silot.sites.secure._link import listen
from silot.sites.secure_sites import SecureSites
from silot_transport import exact_plan

from ...ports import free_ports
from ..here import ASKER, project_in, site_at
from .needs import needs_noise, needs_spu

pytestmark = [needs_spu, pytest.mark.slow]

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 10)), RNG.normal(size=(22, 10)) + 1.0
NAMES = ("north", "south")
EXACT = exact_plan(X, Y).upper


def addresses(own: str, places: dict[str, str]) -> str:
    peers = "".join(f"    '{name}': '{at}'\n" for name, at in places.items() if name != own)
    return f"  listen: '{places[own]}'\n  peers:\n{peers}"


def told(text: str, by: int = 2) -> str:
    return "".join(f"{line[by:]}\n" for line in text.splitlines())


RULES = "exact_secure: 2\nprivacy_epsilon: 200\n"


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """The asker's, of a project whose sites and asker name each other's addresses."""
    labels = np.array(["a"])
    made = project_in(tmp_path, {"north": (X, labels.repeat(24)), "south": (Y, labels.repeat(22))})
    ports = free_ports(3)
    places = {name: f"127.0.0.1:{port}" for name, port in zip((*NAMES, ASKER), ports, strict=True)}
    for name in NAMES:
        (tmp_path / f"{name}.yml").write_text(f"{RULES}secure:\n{addresses(name, places)}")
    (made.folder / "secure.yml").write_text(told(addresses(ASKER, places)))
    return made


class Lossy:
    """A wire to sites that loses the first message that starts a run, though it arrives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        self.lost: set[str] = set()

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        self.sent.append(name)
        site = site_at(self.folder, name)
        # A hello, whether it will take part, and that it begins.
        if self.sent.count(name) == 3 and name not in self.lost:
            self.lost.add(name)
            threading.Thread(target=site.handle, args=(data,), daemon=True).start()
            raise Unreached
        return site.handle(data)


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    with Ledger(folder / f"{name}.ledger", readonly=True) as ledger:
        return [row.facts for row in ledger.read_latest("question")]


def test_two_sites_and_who_asks_compute_a_distance(kit: Kit, tmp_path: Path) -> None:
    wire = Lossy(tmp_path)
    journal = Journal(tmp_path / "journal", kit.identity().key)
    there = SecureSites(kit.identity(), wire, NAMES, journal=journal, run="one", kit=kit)
    found = silot.distance("north", "south", method="secure", federation=there)
    assert found.lower <= EXACT <= found.upper
    assert abs(found.value / EXACT - 1.0) < 0.01
    assert (found.holders, found.method, found.disclosure) == (NAMES, "secure", "statistics")
    assert wire.lost == set(NAMES)
    for name in NAMES:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            (row,) = [row for row in ledger.entries() if row.event == "count"]
            assert (row.asker, row.mechanism) == (ASKER, "statistics")
            assert ledger.count_answers("secure-distance") == 1
        ready, begun = lines(tmp_path, name)
        assert (begun["question"], begun["asker"]) == ("secure-distance", ASKER)
        assert begun["bytes"] > 0
        assert "code" not in ready | begun
    traffic = [each["bytes_sent"] for each in found.history]
    assert len(traffic) == 3
    assert min(traffic) > 1e5
    assert found.bytes_sent > sum(traffic)
    # A run that is done asks nobody.
    again = SecureSites(kit.identity(), nobody, NAMES, journal=journal, run="one", kit=kit)
    same = silot.distance("north", "south", method="secure", federation=again)
    assert (same.value, same.bounds) == (found.value, found.bounds)


@needs_noise
def test_two_sites_alone_compute_with_noise_and_tell_who_asks(kit: Kit, tmp_path: Path) -> None:
    (kit.folder / "secure.yml").unlink()
    there = SecureSites(kit.identity(), Lossy(tmp_path), NAMES, kit=kit)
    options: dict[str, Any] = {"two_party": True, "privacy_epsilon": 20.0, "diameter": 12.0}
    found = silot.distance(*NAMES, method="secure", federation=there, **options)
    assert found.interval is not None
    assert found.interval[0] <= EXACT <= found.interval[1]
    assert "which sent it to the asker" in found.status
    for name in NAMES:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            (row,) = [row for row in ledger.entries() if row.event == "reserve"]
            assert (row.asker, row.mechanism) == (ASKER, "secure distance")
            assert found.privacy_mu == pytest.approx(ledger.spent) == row.mu


def test_a_revoked_member_takes_part_in_nothing(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silot.sites.secure.party._MEETING", 8.0)
    south = Kit.load(tmp_path / "kits" / "south")
    made = Authority.load(tmp_path / "coordinator" / "authority")
    serial = Kit.load(tmp_path / "kits" / "north").identity().member().serial
    south.revoke(made.revoke([serial]))
    there = SecureSites(kit.identity(), Lossy(tmp_path), NAMES, kit=kit)
    with pytest.raises(HolderError) as caught:
        silot.distance(*NAMES, method="secure", federation=there)
    assert caught.value.code == "secure-certificate"
    for name in NAMES:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            assert not [row for row in ledger.entries() if row.event in ("count", "reserve")]
    # Nothing is left that listens.
    assert site_at(tmp_path, "north")._party._last[1].result(timeout=60.0)
    for line in (tmp_path / "north.yml", tmp_path / "south.yml"):
        at = silot.Policy.load(line).secure
        assert at is not None
        listen(at.listen).close()


def test_records_that_do_not_fit_the_scale_are_told_of_for_a_charge(
    kit: Kit, tmp_path: Path
) -> None:
    there = SecureSites(kit.identity(), Lossy(tmp_path), NAMES, kit=kit)
    with pytest.raises(HolderError, match="public scale") as caught:
        silot.distance(*NAMES, method="secure", scale=1e-6, federation=there)
    assert caught.value.code == "secure-scale"
    for name in NAMES:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            assert ledger.count_answers("secure-distance") == 1


def nobody(name: str, data: bytes, seconds: float) -> bytes:
    raise Unreached
