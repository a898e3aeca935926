"""Links between parties by the certificates of a project's kits: who gets in, and who does not."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from silot.federation.addresses import Addresses
from silot.sites import checks
from silot.sites import kit as kits
from silot.sites.authority import Role
from silot.sites.checks import check_site
from silot.sites.configuration import SiteConfiguration
from silot.sites.endpoint import Endpoint
from silot.sites.kit import Kit, begin_kit, complete_kit
from silot.sites.project import Project, sign
from silot.sites.secure.tunnel import Tunnel

from .project import authority, private

pytestmark = pytest.mark.all_cases

ASKER = "uni@example.org"
PROJECT = Project(name="wards", host="localhost", sites=("north", "south", "west"), askers=(ASKER,))
MEMBERS = {"a": "north", "b": "south", "third": ASKER}


@pytest.fixture
def places() -> dict[str, str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in MEMBERS]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return {name: f"127.0.0.1:{port}" for name, port in zip(MEMBERS.values(), ports, strict=True)}


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kit]:
    def made(name: str, project: str = "wards", folder: str = "") -> Kit:
        monkeypatch.setattr(kits, "create_key", lambda: private(name))
        place = tmp_path / (folder or name)
        role = Role.ASKER if name == ASKER else Role.SITE
        return complete_kit(place, sign(authority(project), PROJECT, begin_kit(place, name, role)))

    return made


def seat(kit: Kit, places: dict[str, str]) -> Endpoint:
    peers = {name: at for name, at in places.items() if name != kit.name}
    return replace(Endpoint.of(kit), addresses=Addresses(listen=places[kit.name], peers=peers))


def tunnel(kit: Kit, places: dict[str, str], **members: str) -> Tunnel:
    (own,) = [part for part, name in MEMBERS.items() if name == kit.name]
    links = seat(kit, places).links({**MEMBERS, **members}, "session")  # type: ignore[arg-type]
    return Tunnel(own, links)


def serve(tunnels: list[Tunnel], until: Callable[[], bool], seconds: float = 300.0) -> bool:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        for each in tunnels:
            each.poll(0.02)
    return until()


def refused(tunnels: list[Tunnel]) -> None:
    """No party hears another, and each says why."""

    def told() -> bool:
        errors = [each.find_unreachable() for each in tunnels]
        return all(error is not None and error.code == "secure-certificate" for error in errors)

    assert serve(tunnels, told)
    assert not any(words for each in tunnels for words in each.heard.values())


def test_check_says_whether_a_site_can_compute(
    kit: Callable[..., Kit], places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    north = kit("north")
    np.savez(tmp_path / "north.npz", X=np.eye(3))
    policy = tmp_path / "policy.json"
    joined = SiteConfiguration(
        data=tmp_path / "north.npz", ledger=tmp_path / "north.ledger", policy=policy
    )
    joined.save(north)
    joined.open_ledger().close()

    def found() -> list[tuple[str, str]]:
        return [(each.state, each.code) for each in check_site(north) if "secure" in each.name]

    policy.write_text("{}")
    assert found() == []
    links = {"listen": places["north"], "peers": {"south": places["south"]}}
    policy.write_text(json.dumps({"secure": links}))
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    assert found() == [("wrong", "extra-secure")]
    monkeypatch.setattr(checks, "find_spec", lambda _: True)
    assert found() == [("well", "")]
    with socket.create_server(("127.0.0.1", int(places["north"].split(":")[1]))):
        assert found() == [("warning", "secure-address")]


def test_members_hear_one_another(kit: Callable[..., Kit], places: dict[str, str]) -> None:
    with (
        tunnel(kit("north"), places) as a,
        tunnel(kit("south"), places) as b,
        tunnel(kit(ASKER), places) as third,
    ):
        all_ = [a, b, third]
        for each in all_:
            each.say(hello=each.role)
        assert serve(all_, lambda: all(all(each.heard.values()) for each in all_))
        for each in all_:
            assert {peer: words[0] for peer, words in each.heard.items()} == {
                peer: {"hello": peer} for peer in each.peers
            }


def test_a_revoked_certificate_is_refused(kit: Callable[..., Kit], places: dict[str, str]) -> None:
    north, south = kit("north"), kit("south")
    with tunnel(north, places) as a, tunnel(south, places) as b:
        # The list holds at once, for a process that began before it came.
        south.revoke(authority("wards").revoke([north.identity().member().serial]))
        a.say(hello=1)
        b.say(hello=2)
        refused([a, b])


def test_a_certificate_of_another_project_is_refused(
    kit: Callable[..., Kit], places: dict[str, str]
) -> None:
    with tunnel(kit("north"), places) as a, tunnel(kit("south", "other"), places) as b:
        a.say(hello=1)
        b.say(hello=2)
        refused([a, b])


def test_a_member_takes_nobody_else_s_place(
    kit: Callable[..., Kit], places: dict[str, str]
) -> None:
    # It has a certificate of the project, and listens where south should.
    west = seat(kit("west"), {**places, "west": places["south"]})
    links = west.links({"a": "north", "b": "west", "third": ASKER}, "session")
    with tunnel(kit("north"), places) as a, Tunnel("b", links) as b:
        a.say(hello=1)
        b.say(hello=2)
        refused([a, b])
