"""Every fault at every message, with real processes: `make sites-nightly`, in shards.

A site is killed before a message reaches it, while it answers, and once it has answered; lines are
stopped, cut and slowed; disks are full. What comes is the result of an undisturbed run, or a code.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot import Holder, LocalFederation, Measure, Policy
from silot.errors import HolderError, MismatchError, SilotError
from silot.federation.exchange import Limits
from silot.privacy import Ledger
from silot.sites import authority as authorities
from silot.sites.authority import make_request, read_key
from silot.sites.connection import Carry, Sites
from silot.sites.engine import name_certificate
from silot.sites.kit import STARTUP
from silot.sites.project import sign
from silot.sites.runs import all_runs

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from .deployment import ASKER, Deployment
from .proxy import Proxy

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
NAMES = ["north", "south"]
RULES = {"level": "record", "privacy_epsilon": 1e6}
PUBLIC = np.random.default_rng(9).normal(size=(300, 4))
PATIENT = Limits(deadline=600.0)


def measure(name: str) -> Measure:
    place = NAMES.index(name)
    rng = np.random.default_rng(place)
    labels = rng.integers(3, size=300 + 5 * place).astype(str)
    return Measure(rng.normal(size=(len(labels), 4)) + place, labels=labels)


RUNS: dict[str, Callable[[Any, int], Any]] = {
    "fedwad": lambda fed, _: silot.distance(
        *NAMES, method="fedwad", support=20, rounds=5, federation=fed
    ),
    # Other sketches each time, or all would be told from the ledger.
    "sketch": lambda fed, at: silot.distance(
        *NAMES, method="sketch", public=PUBLIC, seed=at, federation=fed
    ),
    "barycenter": lambda fed, _: silot.barycenter(fed, support=8, rounds=4),
    "adapt": lambda fed, _: silot.adapt(fed, model="logistic", iterations=40, budget=0.9),
}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("faults")
    data, policies = {}, {}
    for name in NAMES:
        data[name], policies[name] = folder / f"{name}.npz", folder / f"{name}.json"
        rows = measure(name)
        np.savez(data[name], X=rows.points, y=np.asarray(rows.names))
        policies[name].write_text(json.dumps(RULES))
    made = Deployment(folder, data, policies)
    try:
        made.start("server", *NAMES)
        made.ready()
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def _hang_up(there: Deployment) -> Iterator[None]:
    """Hundreds of connections that all come back after a server's death would be a fault apart."""
    yield
    there.hang_up()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    folder = tmp_path_factory.mktemp("local")
    holders = {
        name: Holder(measure(name), Policy(**RULES), Ledger(folder / f"{name}.l")) for name in NAMES
    }
    kept: dict[str, Any] = {}

    def result(name: str) -> Any:
        if name not in kept:
            kept[name] = plain(RUNS[name](LocalFederation(holders, asker=ASKER), 0))
        return kept[name]

    return result


def plain(result: Any) -> Any:
    def timeless(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: timeless(value) for key, value in body.items() if key != "seconds"}
        return [timeless(value) for value in body] if isinstance(body, list) else body

    return timeless(result.to_dict())


class Killing:
    """A wire at one of whose messages a site is killed, and started again."""

    def __init__(self, there: Deployment, at: int, point: str) -> None:
        self._there, self._at, self._point = there, at, point
        self._through: Carry = there.sites()._carry
        self.sent = 0

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        if name != "south":
            return self._through(name, data, seconds)
        self.sent += 1
        if self.sent != self._at:
            return self._through(name, data, seconds)
        if self._point == "before":
            self._restart()
            return self._through(name, data, seconds)
        if self._point == "during":
            timer = threading.Timer(0.004, self._restart)
            timer.start()
            try:
                return self._through(name, data, seconds)
            finally:
                timer.join()
        reply = self._through(name, data, seconds)
        self._restart()
        return reply

    def _restart(self) -> None:
        self._there.kill("south")
        self._there.start("south")


def spent(there: Deployment, name: str) -> tuple[float, int]:
    with Ledger(there.folder / f"{name}.ledger", readonly=True, state=there.folder) as ledger:
        ledger.verify()
        ledger.check_place()
        return ledger.spent, sum(row.event == "reserve" for row in ledger.entries())


@pytest.mark.parametrize("point", ["before", "during", "after"])
@pytest.mark.parametrize("name", RUNS)
def test_a_site_killed_at_every_message(
    there: Deployment, expected: Callable[[str], Any], name: str, point: str
) -> None:
    identity, at = there.kits[ASKER].identity(), 0
    while True:
        at += 1
        wire = Killing(there, at, point)
        before = {each: spent(there, each) for each in NAMES}
        found = RUNS[name](Sites(identity, wire, NAMES, limits=PATIENT), 1000 * len(point) + at)
        if name == "sketch":
            for each in NAMES:
                after = spent(there, each)
                told = after[0] ** 2 - before[each][0] ** 2
                assert found.bill.privacy_mu**2 == pytest.approx(told), (at, each)
        else:
            assert plain(found) == expected(name), at
        there.hang_up()
        if wire.sent < at:
            return


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("name", ["fedwad", "sketch", "adapt"])
def test_an_asker_killed_at_every_message(
    there: Deployment, expected: Callable[[str], Any], name: str, point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Another process goes on with the run: nobody is charged twice, and the result is the same."""
    monkeypatch.setenv("SILOT_STATE", str(there.folder))
    kit, ended, gone_on = str(there.kits[ASKER].folder), -signal.SIGKILL, 0
    for index in count(1):
        seed, before = 2000 * len(point) + index, {each: spent(there, each) for each in NAMES}
        words = ["-m", "tests.sites.dying", kit, name, str(seed), str(index), point]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode in (0, ended), done.stderr
        begun = [each for each in all_runs() if each.request.run == done.stdout.strip()]
        if not begun:
            # It was killed before anything was asked.
            assert done.returncode == ended and before == {
                each: spent(there, each) for each in NAMES
            }
            continue
        with silot.resume(begun[0].request.run) as sites:
            found = RUNS[name](sites, seed)
        if name == "sketch":
            for each in NAMES:
                after = spent(there, each)
                told = after[0] ** 2 - before[each][0] ** 2
                assert found.bill.privacy_mu**2 == pytest.approx(told), (index, each)
        else:
            assert plain(found) == expected(name), index
        gone_on += done.returncode == ended
        if done.returncode == 0:
            break
    # Of each site a question at least.
    assert gone_on >= len(NAMES)


@pytest.mark.parametrize("seed", range(int(os.environ.get("SILOT_SCHEDULES", "20"))))
def test_random_schedules(there: Deployment, expected: Callable[[str], Any], seed: int) -> None:
    """Kills and stops of sites and server at random moments of a run."""
    rng = random.Random(seed)
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(rng.uniform(0.02, 1.0)):
            name = rng.choice([*NAMES, "server"])
            if rng.random() < 0.5:
                there.kill(name)
                there.start(name)
            else:
                there.signal(name, signal.SIGSTOP)
                over.wait(rng.uniform(0.1, 3.0))
                there.signal(name, signal.SIGCONT)
            over.wait(rng.uniform(4.0, 8.0))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        found = plain(RUNS["fedwad"](there.sites(NAMES, limits=PATIENT), seed))
        assert found == expected("fedwad"), f"seed {seed}"
    except HolderError as error:
        assert error.code in ("holder-timeout", "holder-unreachable", "server-unreachable"), seed
    finally:
        over.set()
        thread.join()
    there.ready()


@pytest.fixture
def behind(there: Deployment) -> Iterator[Proxy]:
    """South reaches the server through a proxy."""
    proxy = Proxy(there.project.port)
    file = there.kits["south"].folder / "startup/fed_client.json"
    before = file.read_text()
    body = json.loads(before)
    body["servers"][0]["service"]["target"] = f"localhost:{proxy.port}"
    file.write_text(json.dumps(body))
    there.kill("south")
    there.start("south")
    there.ready()
    yield proxy
    proxy.flow = "on"
    proxy.close()
    file.write_text(before)
    there.kill("south")
    there.start("south")
    there.ready()


@pytest.mark.parametrize("flow", ["stopped", "cut"])
@pytest.mark.parametrize("seconds", [1, 30])
def test_a_line_that_fails_for_a_while(
    there: Deployment, behind: Proxy, expected: Callable[[str], Any], flow: str, seconds: int
) -> None:
    behind.flow = flow
    timer = threading.Timer(seconds, lambda: setattr(behind, "flow", "on"))
    timer.start()
    try:
        found = RUNS["fedwad"](there.sites(NAMES, limits=PATIENT), 0)
    finally:
        timer.join()
    assert plain(found) == expected("fedwad")


@pytest.mark.parametrize("flow", ["stopped", "cut"])
def test_a_line_that_fails_for_good(there: Deployment, behind: Proxy, flow: str) -> None:
    behind.flow = flow
    with pytest.raises(HolderError) as caught:
        RUNS["fedwad"](there.sites(NAMES, limits=Limits(deadline=5)), 0)
    assert caught.value.code in ("holder-timeout", "holder-unreachable")
    assert "'south'" in str(caught.value)


def test_a_slow_line(there: Deployment, behind: Proxy, expected: Callable[[str], Any]) -> None:
    behind.rate = 4000
    found = silot.distance(*NAMES, federation=there.sites(NAMES, limits=PATIENT))
    behind.rate = 0
    assert found.converged


@pytest.mark.parametrize(
    "times", [{"_SPAN": timedelta(minutes=-1)}, {"_SLACK": timedelta(minutes=-10)}],
    ids=["expired", "ten minutes early"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["south", "server", ASKER])
def test_a_certificate_out_of_its_time(
    there: Deployment, name: str, times: dict[str, timedelta], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes early is what a clock that is ten minutes behind makes of a new one."""
    kit = there.server if name == "server" else there.kits[name]
    place = kit.folder / STARTUP / f"{name_certificate(kit.role)}.crt"
    key, before = read_key(place.with_suffix(".key")), place.read_bytes()
    asked = make_request(key, kit.name, kit.role, ["localhost"] if name == "server" else ())
    with monkeypatch.context() as then:
        for field, value in times.items():
            then.setattr(authorities, field, value)
        place.write_text(sign(there.authority, there.project, asked).certificate)
    ends = {"certificate-expired", "certificate-early", "holder-unreachable", "holder-timeout",
            "server-unreachable"}  # fmt: skip
    running = [each for each in ("south", "server") if each == name]
    try:
        for each in running:
            there.kill(each)
            there.start(each)
        with pytest.raises(SilotError) as caught:
            silot.distance(*NAMES, federation=there.sites(limits=Limits(deadline=10)))
        assert caught.value.code in ends
        # Who has it is told why, before anything begins.
        with pytest.raises(MismatchError, match=r"certificate-(expired|early)"):
            kit.identity().member()
    finally:
        place.write_bytes(before)
        there.hang_up()
        for each in running:
            there.kill(each)
            there.start(each)
    there.ready()
    assert silot.distance(*NAMES, federation=there.sites(NAMES)).converged


def test_garbage_on_the_port(there: Deployment) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", there.project.port), 5) as line:
        try:
            for _ in range(64):
                line.sendall(bytes(1 << 20))
        except OSError:
            pass
    assert silot.distance(*NAMES, federation=there.sites(NAMES)).converged


def test_data_that_changed_are_not_told(there: Deployment) -> None:
    path = there.data["south"]
    before, times = path.read_bytes(), path.stat()
    np.savez(path, X=np.zeros((5, 2)))
    try:
        with pytest.raises(SilotError, match="data-changed"):
            silot.distance(*NAMES, federation=there.sites(NAMES))
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert silot.distance(*NAMES, federation=there.sites(NAMES)).converged
