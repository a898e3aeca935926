"""The server's part: it relays what it cannot read, of members who still are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from silot.federation.exchange import Unreached
from silot.sites.authority import Authority, Role
from silot.sites.connection import Sites
from silot.sites.kit import Kit, begin_kit, complete_kit
from silot.sites.project import sign
from silot.sites.site import read_refusal
from tests.lazily import package

from .here import ASKER, project_in, site_at

flare = package("silot.sites.flare", needs="nvflare")

pytestmark = pytest.mark.all_cases


class Cell:
    """The engine's connections, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.answers, self.passed = folder, dict[str, Any](), 0
        self.core_cell, self.replies, self.waits = self, Queue[Any](), list[float]()

    def register_request_cb(self, channel: str, topic: str, cb: Any) -> None:
        self.answers[topic] = cb

    def send_request(self, target: str, request: Any, timeout: float, **_: Any) -> Any:
        self.passed += 1
        self.waits.append(timeout)
        told = site_at(self.folder, target).handle(bytes(request.payload))
        return flare.make_reply(flare.ReturnCode.OK, "", told)

    def send_reply(self, reply: Any, to: str, ids: list[str], **_: Any) -> None:
        """Of what travels whole, later."""
        assert (to, ids) == ("asker", ["a"])
        self.replies.put(reply)


class Server:
    """The engine's own, that heard somebody before it had read its key."""

    my_own_token_signature: str | None = "NA"


class Line:
    """A connection of the server."""

    def __init__(self, kit: Kit) -> None:
        self.certificate, self.code = kit.identity().credential.certificate, ""

    def end(self, code: str) -> None:
        self.code = code


def driver(*lines: Line) -> Any:
    return SimpleNamespace(lines=list(lines), sweep=lambda: None)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    labels = np.array(["a"] * 9)
    rows = {"north": (np.zeros((9, 2)), labels), "south": (np.ones((9, 2)), labels)}
    project_in(tmp_path, rows)
    monkeypatch.chdir(tmp_path / "coordinator/server")
    return tmp_path


@pytest.fixture
def server(made: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell(made)
    monkeypatch.setattr("silot.sites.flare.find_drivers", lambda _: [driver()])
    engine = SimpleNamespace(get_cell=lambda: cell, server=Server())
    context = SimpleNamespace(get_engine=lambda: engine)
    flare.ServerComponent().handle_event(flare.EventType.SYSTEM_START, context)
    return cell


@pytest.fixture(params=[True, False], ids=["whole", "streamed"])
def carry(server: Cell, request: Any) -> Callable[[str, bytes, float], bytes]:
    key, back = flare.MessageHeaderKey, flare.StreamHeaderKey.STREAM_REQ_ID
    way = {key.ORIGIN: "asker", key.REQ_ID: "a"} if request.param else {back: "a"}

    def carried(name: str, data: bytes, seconds: float) -> bytes:
        message = flare.new_cell_message({flare._TO: name, flare._SECONDS: seconds, **way}, data)
        reply = server.answers["ask"](message)
        if request.param:
            assert reply is None
            reply = server.replies.get(timeout=600)
        if reply.get_header(flare.MessageHeaderKey.RETURN_CODE) != flare.ReturnCode.OK:
            raise Unreached
        return bytes(reply.payload)

    return carried


def asking(made: Path, carry: Any) -> Sites:
    return Sites(Kit.load(made / "kits/asker").identity(), carry, ["north", "south"])


def revoke(made: Path, *kits: str) -> None:
    """At the server alone, while it runs."""
    authority = Authority.load(made / "coordinator/authority")
    numbers = [Kit.load(made / "kits" / kit).identity().member().serial for kit in kits]
    Kit.load(made / "coordinator/server").revoke(authority.revoke(numbers))


def test_members_are_relayed_and_strangers_get_a_code(made: Path, server: Cell, carry: Any) -> None:
    assert asking(made, carry).about("north").name == "north"
    assert read_refusal(carry("east", b"", 1.0)) == "site-unknown"
    # What does not say who wrote it is for the site to refuse.
    assert read_refusal(carry("north", b"garbage", 1.0)) == "wire-format"


def test_no_asker_keeps_the_hands_of_the_server(made: Path, server: Cell, carry: Any) -> None:
    for seconds in (1e9, float("inf"), float("nan"), -1.0, 0.0, 5.0):
        carry("north", b"garbage", seconds)
    assert server.waits == [600.0, 600.0, 0.5, 0.5, 0.5, 5.0]


def test_a_revoked_asker_is_refused_before_a_site_hears_of_it(
    made: Path, server: Cell, carry: Any
) -> None:
    sites = asking(made, carry)
    sites.about("north")
    revoke(made, "asker")
    passed = server.passed
    with pytest.raises(Exception, match="certificate-revoked"):
        sites.about("north")
    assert server.passed == passed


def test_a_revoked_site_is_not_passed_on(made: Path, server: Cell, carry: Any) -> None:
    sites = asking(made, carry)
    sites.about("north")
    revoke(made, "north")
    for asked in (sites, asking(made, carry)):
        with pytest.raises(Exception, match="certificate-revoked"):
            asked.about("north")
        assert asked.about("south").name == "south"


@pytest.mark.heavy
def test_a_site_does_not_ask_and_another_project_has_no_say(
    made: Path, server: Cell, carry: Any
) -> None:
    south = Kit.load(made / "kits/south").identity()
    with pytest.raises(Exception, match="certificate-role"):
        Sites(south, carry, ["north"]).about("north")
    other = Authority.new("other")
    project = Kit.load(made / "kits/asker").project
    place = made / "kits/other"
    stranger = complete_kit(place, sign(other, project, begin_kit(place, ASKER, Role.ASKER)))
    sites = Sites(stranger.identity(), carry, ["north"])
    with pytest.raises(Exception, match="certificate-authority"):
        sites.about("north")


def test_a_broken_list_lets_nobody_through(made: Path, carry: Any) -> None:
    (made / "coordinator/server/silot/revoked.crl").write_bytes(b"none")
    with pytest.raises(Exception, match="revocation-format"):
        asking(made, carry).about("north")


def test_lines_of_a_revoked_site_are_cut_once_it_could_hear_why(made: Path) -> None:
    kits = [Kit.load(made / "kits" / name) for name in ("north", "south", "asker")]
    server, now = driver(*map(Line, kits)), [0.0]
    own = Kit.load(made / "coordinator/server").identity()
    looking = flare.ConnectionGuard(server, Server(), own, lambda: now[0])

    def codes() -> list[str]:
        looking.check()
        return [line.code for line in server.lines]

    assert codes() == [""] * 3
    revoke(made, "north", "asker")
    assert codes() == [""] * 3
    now[0] = 31.0
    assert codes() == ["certificate-revoked", "", ""]
    # It may come back, and ends at once.
    server.lines.append(Line(kits[0]))
    assert codes() == ["certificate-revoked", "", "", "certificate-revoked"]
    # A list that cannot be read revokes nobody: each message is refused, with a code.
    (made / "coordinator/server/silot/revoked.crl").write_bytes(b"none")
    server.lines.append(Line(kits[0]))
    assert codes()[-1] == ""


def test_a_server_that_was_heard_too_early_signs_what_it_sends() -> None:
    server = Server()
    flare.ConnectionGuard(driver(), server, None).check()  # type: ignore[arg-type]
    assert server.my_own_token_signature is None
