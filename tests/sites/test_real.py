"""Sites as processes on loopback, behind NVFlare and real certificates: one of each kind of thing.

`make sites-nightly` kills at every message; this is what is quick.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.errors import TEMPORARY, HolderError, RefusedError, WaitingError
from silot.federation import Holder, LocalFederation
from silot.federation.exchange import Limits, Unreached
from silot.privacy import Ledger
from silot.sites.checks import find_server_fault
from silot.sites.configuration import SiteConfiguration
from silot.sites.connection import Carry, Sites
from silot.sites.kit import OWN, Kit
from silot.sites.teacher import TeacherFiles, save_teacher

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from .browsing import serving
from .deployment import ASKER, Deployment, free_ports
from .proxy import ConnectProxy

pytestmark = pytest.mark.real

RULES = {
    "north": {"level": "record", "privacy_epsilon": 1.0},
    "south": {"level": "record", "privacy_epsilon": 1.0},
    "west": {"level": "record", "privacy_epsilon": 1.0, "ask": ["record"]},
}


PAIR = ["north", "south"]
PUBLIC = np.random.default_rng(9).normal(size=(300, 4))
LABELS = silot.distillation.LabelSpace.one_hot(["sick", "well"])


def rows(name: str) -> np.ndarray[Any, Any]:
    place = list(RULES).index(name)
    return np.random.default_rng(place).normal(size=(300 + 5 * place, 4)) + place


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("wards")
    data, policies = {}, {}
    for name, rules in RULES.items():
        data[name], policies[name] = folder / f"{name}.npz", folder / f"{name}.json"
        np.savez(data[name], X=rows(name))
        policies[name].write_text(json.dumps(rules))
    # One that no other test starts anew: torch is slow to import.
    taught = {"north": teaching} if find_spec("torch") else {}
    made = Deployment(folder, data, policies, taught)
    try:
        made.start("server", *RULES)
        made.ready()
        yield made
    finally:
        made.close()


def teaching(kit: Kit) -> TeacherFiles:
    """A teacher that was never trained."""
    from silot.distillation.recipes import Recipe

    recipe = Recipe("vectors", LABELS, {"dimension": 4, "hidden": [8]})
    return save_teacher(
        kit.folder / OWN, [(recipe.build(), recipe)], inputs=PUBLIC, size=300, askers=(ASKER,)
    )


def local(folder: Path) -> LocalFederation:
    holders = {
        name: Holder(Measure(rows(name)), Policy(**RULES[name]), Ledger(folder / f"{name}.l"))
        for name in PAIR
    }
    return LocalFederation(holders, asker=ASKER)


def plain(result: Any) -> Any:
    def timeless(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: timeless(value) for key, value in body.items() if key != "seconds"}
        return [timeless(value) for value in body] if isinstance(body, list) else body

    return timeless(result.to_dict())


def messages(result: Any) -> list[Any]:
    return [(e.round, e.holder, e.direction, e.payload) for e in result.transcript.entries]


FEDWAD: dict[str, Any] = {"method": "fedwad", "support": 20, "rounds": 5}


@pytest.mark.parametrize(
    "options",
    [{}, FEDWAD, {"method": "sketch", "public": PUBLIC}],
    ids=["direct", "fedwad", "sketch"],
)
def test_results_are_those_of_a_local_run(
    there: Deployment, tmp_path: Path, options: dict[str, Any]
) -> None:
    found = silot.distance("north", "south", federation=there.sites(PAIR), **options)
    same = silot.distance("north", "south", federation=local(tmp_path), **options)
    if options.get("method") == "sketch":
        # Its noise is fresh at every ledger.
        assert found.cost.privacy_mu == same.cost.privacy_mu > 0
    else:
        assert plain(found) == plain(same)
        assert messages(found) == messages(same)


class Killing:
    """A wire that kills a site at its first message of a round, and starts it again."""

    def __init__(self, there: Deployment, through: Carry, name: str, at: int) -> None:
        self.there, self.through, self.name, self.at, self.sent = there, through, name, at, 0

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        self.sent += name == self.name
        if name == self.name and self.sent == self.at:
            self.there.kill(name)
            self.there.start(name)
        return self.through(name, data, seconds)


def test_a_site_that_is_killed_changes_nothing(there: Deployment, tmp_path: Path) -> None:
    sites = there.sites()
    wire = Killing(there, sites._carry, "south", 4)
    kit = there.kits[ASKER]
    found = silot.distance("north", "south", federation=Sites(kit.identity(), wire, PAIR), **FEDWAD)
    assert wire.sent > wire.at
    same = silot.distance("north", "south", federation=local(tmp_path), **FEDWAD)
    assert plain(found) == plain(same)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_site_that_teaches_and_is_killed_changes_nothing(there: Deployment) -> None:
    from torch import nn

    def distilled(teachers: Any) -> silot.distillation.Distillation:
        return silot.distill(
            nn.Linear(4, 2), teachers, PUBLIC, labels=LABELS, memory=False, epochs=1, noise=64,
            question_batch=100,
        )  # fmt: skip

    sites = there.sites()
    # A hello, what it is, and the second of four batches.
    wire = Killing(there, sites._carry, "north", 4)
    found = distilled(Sites(there.kits[ASKER].identity(), wire, ["north"]))
    assert wire.sent > wire.at
    taught = SiteConfiguration.load(there.kits["north"]).teacher
    assert taught is not None
    teacher = taught.build(Policy(**RULES["north"]), Ledger())
    same = distilled(LocalFederation({"north": teacher}, asker=ASKER))
    assert found.excluded == {}
    assert found.weights.tolist() == same.weights.tolist()
    assert messages(found) == messages(same)


def test_a_site_that_hangs_fails_by_the_deadline_and_comes_back(there: Deployment) -> None:
    there.signal("south", signal.SIGSTOP)
    try:
        with pytest.raises(HolderError, match="'south'") as caught:
            silot.distance("north", "south", federation=there.sites(limits=Limits(deadline=4)))
    finally:
        there.signal("south", signal.SIGCONT)
    assert caught.value.code in ("holder-timeout", "holder-unreachable")
    assert caught.value.run.transcript.entries
    assert silot.distance("north", "south", federation=there.sites()).converged


def test_a_server_that_hangs_is_named_and_not_its_sites(there: Deployment) -> None:
    """It keeps its connections, and answers nothing; the sites are well."""
    sites = there.sites(PAIR, limits=Limits(deadline=12.0))
    assert silot.distance("north", "south", federation=sites).value > 0
    there.signal("server", signal.SIGSTOP)
    try:
        with pytest.raises(HolderError) as error:
            silot.distance("north", "south", federation=sites)
        assert error.value.code == "server-unreachable"
    finally:
        there.signal("server", signal.SIGCONT)
    there.ready(*PAIR)


def test_a_server_that_is_killed_comes_back(there: Deployment) -> None:
    federation = there.sites()
    before = silot.distance("north", "south", federation=federation)
    there.kill("server")
    again = threading.Thread(target=there.start, args=("server",))
    again.start()
    after = silot.distance("north", "south", federation=federation)
    again.join()
    assert plain(after) == plain(before)


def test_a_question_waits_for_a_person_and_is_refused_without(there: Deployment) -> None:
    with pytest.raises(WaitingError, match="'west' waiting"):
        silot.distance("north", "west", federation=there.sites())
    with Ledger(there.folder / "west.ledger", state=there.folder) as ledger:
        (held,) = ledger.waiting
        assert (held.asker, held.level) == (ASKER, "record")
        ledger.decide(held.id, approved=True)
    assert silot.distance("north", "west", federation=there.sites()).converged
    # It can do without the first.
    for kind in ("moments", "interpolate"):
        with pytest.raises(WaitingError):
            silot.distance("north", "west", federation=there.sites(), **FEDWAD)
        with Ledger(there.folder / "west.ledger", state=there.folder) as ledger:
            assert ledger.waiting[-1].question == kind
            ledger.decide(ledger.waiting[-1].id, approved=False)
    with pytest.raises(RefusedError, match="question-denied"):
        silot.distance("north", "west", federation=there.sites(), **FEDWAD)


def test_nothing_but_messages_goes_through(there: Deployment) -> None:
    """Jobs, with code or without, commands of a shell, logs: the engine's own are all shut."""
    from nvflare.fuel.flare_api.api_spec import AuthorizationError
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    session = new_secure_session(ASKER, str(there.kits[ASKER].folder), timeout=10.0)
    job = there.folder / "job"
    (job / "app/config").mkdir(parents=True)
    (job / "app/custom").mkdir()
    (job / "app/custom/evil.py").write_text("raise SystemExit")
    meta = {"name": "evil", "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    (job / "meta.json").write_text(json.dumps(meta))
    for side in ("server", "client"):
        (job / f"app/config/config_fed_{side}.json").write_text(json.dumps({"format_version": 2}))
    with pytest.raises(AuthorizationError):
        session.submit_job(str(job))
    registered = time.monotonic() + 600
    for command in (
        "ls north", "pwd north", "cat north silot/engine.log", "tail north silot/engine.log",
        "grep north data silot/site.json", "restart client north", "shutdown client north",
        "remove_client north", "sys_info client north", "configure_site_log all DEBUG",
    ):  # fmt: skip
        said = json.dumps(session.api.do_command(command), default=str)
        while "invalid target" in said:
            # A server that was killed answers before its sites have registered anew.
            assert time.monotonic() < registered, (command, said)
            time.sleep(0.5)
            said = json.dumps(session.api.do_command(command), default=str)
        # The server's own rules refuse, or nothing comes from the site.
        silent = "no re" in said.lower() or "did not respond" in said
        assert "authorized" in said or silent, (command, said)
    session.close()
    assert there.processes["north"].poll() is None
    assert silot.distance("north", "south", federation=there.sites()).converged


def test_logs_hold_no_value_and_no_text_of_errors(there: Deployment) -> None:
    for name in RULES:
        kept = there.kits[name].folder / "silot"
        engine = (kept / "engine.log").read_text()
        assert str(there.folder / f"{name}.npz") not in engine
        assert "Traceback" not in engine
        with Ledger(there.folder / f"{name}.ledger", readonly=True) as ledger:
            lines = [row.facts for row in ledger.read_latest("question")]
        assert {"asker", "question", "level", "bytes", "mu", "run", "round"} <= set(lines[0])
    assert all(line["asker"] == ASKER for line in lines)


def test_a_server_whose_port_is_taken_ends_and_says_so(tmp_path: Path) -> None:
    alone = Deployment(tmp_path, {"north": tmp_path / "x.npz"}, {"north": tmp_path / "p.yml"})
    port = alone.project.port
    try:
        with socket.socket() as other:
            # An outgoing connection may have any port: it need not listen.
            other.bind(("127.0.0.1", port))
            alone.start("server")
            # It may pass by itself: whoever supervises the server starts it again.
            assert alone.processes["server"].wait(60) == TEMPORARY
        assert f"port {port} is taken" in alone.said("server")
    finally:
        alone.close()


def test_a_member_with_many_idle_lines_locks_nobody_out(there: Deployment) -> None:
    """Each line keeps threads of the server's: the oldest of one member's end, and learn why."""
    import grpc
    from nvflare.fuel.f3.drivers.grpc.streamer_pb2_grpc import StreamerStub

    kit = there.kits[ASKER]
    root, certificate, key = (Path(file).read_bytes() for file in kit.files)
    credentials = grpc.ssl_channel_credentials(root, key, certificate)
    held, lines = threading.Event(), 300

    def never() -> Iterator[Any]:
        held.wait()
        yield from ()

    channels: list[Any] = []
    try:
        for _ in range(lines):
            channel = grpc.secure_channel(
                kit.project.address, credentials,
                options=[("grpc.use_local_subchannel_pool", 1)],
            )  # fmt: skip
            channels.append((channel, StreamerStub(channel).Stream(never())))
        # All but 32, and one more for who asks.
        wait_for(lambda: sum(not call.is_active() for _, call in channels) >= lines - 32)
        assert silot.distance("north", "south", federation=there.sites(PAIR)).value > 0
        ended = {(call.code(), call.details()) for _, call in channels if not call.is_active()}
        assert ended == {(grpc.StatusCode.RESOURCE_EXHAUSTED, "server-full")}
        assert "silot.server-full" in (there.server.folder / "silot/engine.log").read_text()
    finally:
        held.set()
        for channel, call in channels:
            call.cancel()
            channel.close()


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_member_with_too_many_connections_learns_so(there: Deployment) -> None:
    try:
        with pytest.raises(Unreached, match="server-full"):
            for _ in range(33):
                there.sites(PAIR).about("north")
        with pytest.raises(HolderError) as caught:
            limits = Limits(deadline=5.0)
            silot.distance("north", "south", federation=there.sites(PAIR, limits=limits))
        assert caught.value.code == "server-full"
    finally:
        there.hang_up()
    assert silot.distance("north", "south", federation=there.sites(PAIR)).value > 0


def one_site(folder: Path, host: str, **environment: str) -> Deployment:
    np.savez(folder / "north.npz", X=rows("north"))
    (folder / "p.json").write_text(json.dumps(RULES["north"]))
    return Deployment(
        folder, {"north": folder / "north.npz"}, {"north": folder / "p.json"}, host=host,
        environment=environment,
    )  # fmt: skip


def test_a_server_at_an_address_of_ipv6(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no loopback of IPv6")
    alone = one_site(tmp_path, "::1")
    try:
        alone.start("server", "north")
        alone.ready()
        assert find_server_fault(alone.kits[ASKER]) is None
        assert alone.sites().about("north").name == "north"
        # Nowhere else.
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", alone.project.port))
    finally:
        alone.close()


def test_a_server_with_a_long_name_behind_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ".".join(["department-of-medicine" * 2] * 5)
    assert len(host) > 200
    proxy = ConnectProxy({host: "127.0.0.1"})
    for name in ("http_proxy", "no_proxy", "no_grpc_proxy", "grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", proxy.url)
    alone = one_site(tmp_path, host)
    try:
        alone.start("server", "north")
        alone.ready()
        assert find_server_fault(alone.kits[ASKER]) is None
        assert alone.sites().about("north").name == "north"
        assert set(proxy.requests) == {alone.project.address}
        # A name that the certificate has not.
        wrong = alone.kits[ASKER].project.model_copy(update={"host": "other.example"})
        proxy.names["other.example"] = "127.0.0.1"
        fault = find_server_fault(replace(alone.kits[ASKER], project=wrong))
        assert fault is not None and fault.code == "server-certificate"
    finally:
        alone.close()
        proxy.close()


def test_who_supervises_asks_processes_on_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "north.npz", X=rows("north"))
    (tmp_path / "p.json").write_text(json.dumps(RULES["north"]))
    alone = Deployment(tmp_path, {"north": tmp_path / "north.npz"}, {"north": tmp_path / "p.json"})
    ports = dict(zip(("server", "north"), free_ports(2), strict=True))

    def get(name: str, path: str) -> str:
        line = http.client.HTTPConnection("127.0.0.1", ports[name], timeout=5)
        line.request("GET", path)
        return line.getresponse().read().decode()

    try:
        for name, port in ports.items():
            monkeypatch.setenv("SILOT_HEALTH", str(port))
            alone.start(name)
        alone.ready()
        assert get("server", "/ready") == get("north", "/ready") == "ready\n"
        assert 'silot_connected{project="wards",member="north",role="site"} 1.0' in get(
            "north", "/metrics"
        )
        text = get("server", "/metrics")
        assert re.search(r"^silot_relayed_total\{.*\} [1-9]", text, re.MULTILINE)
        assert re.search(r"^silot_members\{.*\} [12]\.0$", text, re.MULTILINE)
    finally:
        alone.close()


def test_a_page_starts_a_comparison_and_shows_its_result(
    there: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the form to the report: what runs is a process of its own, beside the page's."""
    pytest.importorskip("uvicorn", reason="the extra console is not installed")
    from silot.api._methods import PAIRWISE
    from silot.sites.asker_page import AskerPage

    monkeypatch.setenv("SILOT_STATE", str(tmp_path))
    desk = AskerPage(there.kits[ASKER], PAIRWISE)
    with serving(desk) as browser:
        browser.enter()
        form = {"method": "fedwad", "site-north": "yes", "site-south": "yes"}
        page = browser.get("/compare?" + urlencode(form)).text
        form |= dict(re.findall(r'<input type="hidden" name="(token|run)" value="([^"]+)"', page))
        assert browser.post("/compare", **form, support="20", rounds="5").status == 303
        words = "3 of 3 sites answered"
        for path, expected in (("/", words), (f"/run/{form['run']}", "It is done.")):
            end = time.monotonic() + 300
            while expected not in (shown := browser.get(path).text):
                assert time.monotonic() < end, shown
                time.sleep(0.5)
        assert browser.get(f"/run/{form['run']}/report").status == 200
    # A process of its own outlives the page.
    assert [process.wait(60) for process in desk.workers._processes.values()] == [0]
    same = silot.distance("north", "south", federation=there.sites(PAIR), **FEDWAD)
    assert re.search(rf"W2 +{same.value:.6g}", shown)


def test_a_hostile_server_gets_nothing_done_at_a_site(there: Deployment) -> None:
    """It passes over its own rules, and does not ask the site for its."""
    kit = there.server
    resources = kit.folder / "local/resources.json"
    before = resources.read_text()
    body = json.loads(before)
    body["components"][0]["path"] = "tests.sites.hostile.Hostile"
    body["class_allow_list"] = ["tests.sites.hostile.Hostile"]
    there.kill("server")
    resources.write_text(json.dumps(body))
    try:
        there.start("server")
        there.ready()
        (kit.folder / "go").touch()
        replies = kit.folder / "replies.json"
        end = time.monotonic() + 600
        while not replies.exists():
            assert time.monotonic() < end
            threading.Event().wait(0.1)
        said = json.loads(replies.read_text())
        assert len(said) == 12
        for topic, (code, payload) in said.items():
            assert (code in ("invalid_request", "timeout"), payload) == (True, "None"), topic
        assert there.processes["north"].poll() is None
    finally:
        there.kill("server")
        resources.write_text(before)
        there.start("server")
        there.ready()
    assert silot.distance("north", "south", federation=there.sites()).converged
