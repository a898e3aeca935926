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
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.errors import HolderError, MismatchError, SilotError
from silot.federation import Holder, LocalFederation
from silot.federation.answer import Answer, decode_reply
from silot.federation.exchange import Limits
from silot.federation.recorded import digest_of
from silot.federation.transcript import Transcript
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
from .filling import Disk, small_disk
from .proxy import Proxy

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
NAMES = ["north", "south"]
RULES = {"level": "record", "privacy_epsilon": 1e6}
PUBLIC = np.random.default_rng(9).normal(size=(300, 4))
PATIENT = Limits(deadline=600.0)
proxies: dict[str, Proxy] = {}


def measure(name: str) -> Measure:
    place = NAMES.index(name)
    rng = np.random.default_rng(place)
    labels = rng.integers(3, size=300 + 5 * place).astype(str)
    return Measure(rng.normal(size=(len(labels), 4)) + place, labels=labels)


OWN = Measure(PUBLIC, labels=np.resize(["0", "1", "2"], len(PUBLIC)))

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
    "value": lambda fed, _: silot.value_holders(fed, OWN, method="fedwad", support=10, rounds=4),
    "records": lambda fed, _: silot.value_records(fed, OWN, name="south"),
    "train": lambda fed, _: silot.train(fed, model="logistic", rounds=6),
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
    # South reaches the server through a proxy.
    proxies["south"] = Proxy(made.project.port)
    file = made.kits["south"].folder / "startup/fed_client.json"
    body = json.loads(file.read_text())
    body["servers"][0]["service"]["target"] = f"localhost:{proxies['south'].port}"
    file.write_text(json.dumps(body))
    try:
        made.start("server", *NAMES)
        made.ready()
        yield made
    finally:
        made.close()
        proxies.pop("south").close()


@pytest.fixture(autouse=True)
def _hang_up(there: Deployment) -> Iterator[None]:
    """Hundreds of connections that all come back after a server's death would be a fault apart."""
    yield
    there.hang_up()


@pytest.fixture
def behind(there: Deployment) -> Iterator[Proxy]:
    """The way of south to the server."""
    yield proxies["south"]
    proxies["south"].reset()
    there.ready()


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


# Who is at fault, by the codes that may say so. The server says that a site without a line is not
# connected, and of a silent one nothing.
HOPS = {
    "server": {"server-unreachable"},
    "line": {"holder-timeout", "holder-unreachable"},
    "site": {"holder-timeout", "holder-unreachable"},
}


@dataclass(frozen=True)
class Fault:
    """What fails at a message of a run, and for how many seconds: ``None`` for good."""

    what: Literal["kill", "stop", "cut", "half"]
    process: str
    at: int
    seconds: float | None = 0.0
    point: Literal["before", "during", "after"] = "before"

    def begin(self, there: Deployment) -> None:
        if self.process == "line":
            proxies["south"].flow = "stopped" if self.what == "stop" else self.what
        elif self.what == "kill":
            there.kill(self.process)
            there.start(self.process)
        else:
            there.signal(self.process, signal.SIGSTOP)

    def end(self, there: Deployment) -> None:
        if self.process == "line":
            proxies["south"].flow = "on"
        elif self.what != "kill":
            there.signal(self.process, signal.SIGCONT)

    @property
    def codes(self) -> set[str]:
        return HOPS[self.process if self.process in HOPS else "site"]


class Failing:
    """A wire at one of whose messages, to all or to one site, something fails."""

    def __init__(self, there: Deployment, fault: Fault | None, to: str = "") -> None:
        self._there, self._fault, self._to = there, fault, to
        self._through: Carry = there.sites()._carry
        self._lock, self._timers = threading.Lock(), list[threading.Timer]()
        self.sent = 0

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        with self._lock:
            counts = self._to in ("", name)
            self.sent += counts
            fails = self._fault is not None and counts and self.sent == self._fault.at
        if not fails:
            return self._through(name, data, seconds)
        assert self._fault is not None
        if self._fault.point == "before":
            self._begin(self._fault)
        elif self._fault.point == "during":
            self._later(0.004, lambda: self._begin(self._fault))
        try:
            return self._through(name, data, seconds)
        finally:
            if self._fault.point == "after":
                self._begin(self._fault)

    def _begin(self, fault: Fault | None) -> None:
        if fault is not None:
            fault.begin(self._there)
            if fault.seconds:
                self._later(fault.seconds, lambda: fault.end(self._there))

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        self._timers.append(threading.Timer(seconds, work))
        self._timers[-1].start()

    def close(self) -> None:
        """Wait for the end of what failed."""
        for timer in self._timers:
            timer.join()
        # One that begins during a message puts its end at the end of this list.
        for timer in self._timers:
            timer.join()
        if self._fault is not None:
            self._fault.end(self._there)


def spent(there: Deployment, name: str) -> tuple[float, int]:
    with Ledger(there.folder / f"{name}.ledger", readonly=True, state=there.folder) as ledger:
        ledger.verify()
        ledger.check_place()
        return ledger.spent, sum(row.event == "reserve" for row in ledger.entries())


@pytest.mark.parametrize("point", ["before", "during", "after"])
@pytest.mark.parametrize("name", RUNS)
def test_a_site_killed_at_every_message(
    there: Deployment, expected: Callable[[str], Any], name: str, point: Any
) -> None:
    identity, at = there.kits[ASKER].identity(), 0
    while True:
        at += 1
        wire = Failing(there, Fault("kill", "south", at, point=point), to="south")
        before = {each: spent(there, each) for each in NAMES}
        found = RUNS[name](Sites(identity, wire, NAMES, limits=PATIENT), 1000 * len(point) + at)
        if name == "sketch":
            for each in NAMES:
                after = spent(there, each)
                told = after[0] ** 2 - before[each][0] ** 2
                assert found.cost.privacy_mu**2 == pytest.approx(told), (at, each)
        else:
            assert plain(found) == expected(name), at
        wire.close()
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
                assert found.cost.privacy_mu**2 == pytest.approx(told), (index, each)
        else:
            assert plain(found) == expected(name), index
        gone_on += done.returncode == ended
        if done.returncode == 0:
            break
    # Of each site a question at least.
    assert gone_on >= len(NAMES)


def rows(there: Deployment, name: str) -> int:
    """How often a site was charged, or counted an exact answer: once for each question."""
    with Ledger(there.folder / f"{name}.ledger", readonly=True, state=there.folder) as ledger:
        ledger.verify()
        keys = [row.key for row in ledger.entries() if row.event in ("count", "reserve")]
    assert len(set(keys)) == len(keys)
    return len(keys)


def endure(
    there: Deployment, expected: Callable[[str], Any], name: str, fault: Fault, seed: int = 0
) -> str:
    """Run something with a fault: the result of an undisturbed run, charged once, or a code.

    The code says where it failed, and comes within the deadline. All that was told is in the
    trail of its site.
    """
    is_noisy = name == "sketch"
    if not is_noisy and name not in costs:
        # What is told again from the ledger costs nothing: after a first run the cost is the same.
        for _ in range(2):
            before, wire = rows(there, "south"), Failing(there, None)
            run = Sites(there.kits[ASKER].identity(), wire, NAMES, limits=PATIENT)
            RUNS[name](run, seed)
            costs[name] = rows(there, "south") - before
    limits = PATIENT if fault.seconds is not None else Limits(deadline=12.0)
    charged = {each: spent(there, each) for each in NAMES}
    before, wire = rows(there, "south"), Failing(there, fault)
    try:
        found = RUNS[name](Sites(there.kits[ASKER].identity(), wire, NAMES, limits=limits), seed)
        code, run = "", found
        if not is_noisy:
            assert plain(found) == expected(name)
    except HolderError as error:
        assert fault.seconds is None, error
        assert error.code in fault.codes, error
        code, run = error.code, error.run
    finally:
        wire.close()
        there.hang_up()
    there.ready()
    assert wire.sent >= fault.at
    told = {each: spent(there, each)[0] ** 2 - charged[each][0] ** 2 for each in NAMES}
    if is_noisy:
        # A site that released the first number in a run that failed releases it again for nothing,
        # and one may be charged for an answer that never arrived.
        most, billed = max(told.values()), run.privacy_mu**2
        assert most == pytest.approx(billed) or (code and most > billed)
    added = rows(there, "south") - before
    # Training goes on without a site that is lost, and asks the others something else.
    assert is_noisy or code or added <= costs[name]
    check_trail(there, run.transcript)
    return code


costs: dict[str, int] = {}


def check_trail(there: Deployment, transcript: Transcript) -> None:
    """Every answer that arrived is in the trail of the site that told it."""
    for name in NAMES:
        with Ledger(there.folder / f"{name}.ledger", readonly=True, state=there.folder) as ledger:
            ledger.verify()
            trail = {row.facts.get("answer") for row in ledger.read_latest("question")}
        told = {
            digest_of(entry.payload)
            for entry in transcript.entries
            if entry.holder == name and entry.direction == "received"
            and isinstance(decode_reply(entry.payload), Answer)
        }  # fmt: skip
        assert told <= trail, name


# What fails at a message of a run, and for how many seconds; None for good.
FAULTS = {
    "stop server": 9.0, "stop line": 9.0, "cut line": 4.0, "half line": 9.0, "stop south": 6.0,
    "kill server": 0.0, "kill south": 0.0, "stop server for good": None,
    "stop line for good": None, "half line for good": None,
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["fedwad", "value", "records", "train"])
def test_a_fault_in_the_middle_of_a_run(
    there: Deployment, behind: Proxy, expected: Callable[[str], Any], name: str, fault: str
) -> None:
    what, process = fault.split()[:2]
    # A site says who it is first; screening asks one site one question.
    at = 2 if name == "records" else 6
    endure(there, expected, name, Fault(what, process, at, FAULTS[fault]))  # type: ignore[arg-type]


# Kills, then partitions, over all kinds of runs.
KILLS, PARTITIONS = (int(os.environ.get(f"SILOT_{key}", n)) for key, n in
                     (("KILLS", "60"), ("PARTITIONS", "40")))  # fmt: skip
# Of each kind of run, how many messages it sends at least where none is lost.
MESSAGES = {"fedwad": 18, "value": 18, "records": 3, "sketch": 6, "train": 22}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_run_without_faults_sends_so_many_messages(there: Deployment, name: str) -> None:
    """A fault at a later message would never happen."""
    wire = Failing(there, None)
    RUNS[name](Sites(there.kits[ASKER].identity(), wire, NAMES, limits=PATIENT), 0)
    assert wire.sent >= MESSAGES[name]


def draw(seed: int, messages: int) -> Fault:
    """Draw a fault: a kill of a process below ``KILLS``, else a partition."""
    rng = random.Random(seed)
    at = rng.randint(1, messages)
    if seed < KILLS:
        point: Any = rng.choice(["before", "during", "after"])
        return Fault("kill", rng.choice([*NAMES, "server"]), at, 0.0, point)
    seconds = None if rng.random() < 0.25 else rng.choice([0.5, 2.0, 8.0, 20.0])
    process = rng.choice(["line", "line", "south", "server"])
    what: Any = rng.choice(["stop", "cut", "half"]) if process == "line" else "stop"
    return Fault(what, process, at, seconds)


@pytest.mark.parametrize("seed", range(KILLS + PARTITIONS))
def test_random_kills_and_partitions(
    there: Deployment, behind: Proxy, expected: Callable[[str], Any], seed: int
) -> None:
    name, messages = list(MESSAGES.items())[seed % len(MESSAGES)]
    fault = draw(seed, messages)
    print(seed, name, fault, endure(there, expected, name, fault, 10_001 + seed) or "same result")


@pytest.mark.parametrize("flow", ["stopped", "cut", "half"])
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


@pytest.mark.parametrize("flow", ["stopped", "cut", "half"])
def test_a_line_that_fails_for_good(there: Deployment, behind: Proxy, flow: str) -> None:
    behind.flow = flow
    with pytest.raises(HolderError) as caught:
        RUNS["fedwad"](there.sites(NAMES, limits=Limits(deadline=5)), 0)
    assert caught.value.code in ("holder-timeout", "holder-unreachable")
    assert "'south'" in str(caught.value)


LINES = {
    "slow": {"rate": 4000}, "far": {"delay": 0.15}, "uneven": {"delay": 0.02, "jitter": 0.6},
    "lossy": {"delay": 0.02, "loss": 0.03},
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_bad_line(
    there: Deployment, behind: Proxy, expected: Callable[[str], Any], line: str
) -> None:
    vars(behind).update(LINES[line])
    found = RUNS["fedwad"](there.sites(NAMES, limits=PATIENT), 0)
    assert plain(found) == expected("fedwad")


def test_sites_on_a_full_disk_go_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledgers, heads, trails, and what the engine logs, of processes that stay as they are."""
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setenv("SILOT_STATE", str(disk.folder))
        fill_and_go_on(disk)


def fill_and_go_on(disk: Disk) -> None:
    folder = disk.folder
    data, policies = {}, {}
    for name in NAMES:
        data[name], policies[name] = folder / f"{name}.npz", folder / f"{name}.json"
        np.savez(data[name], X=measure(name).points)
        policies[name].write_text(json.dumps(RULES))
    full = Deployment(folder, data, policies)
    try:
        full.start("server", *NAMES)
        full.ready()
        with disk.full(), pytest.raises(HolderError) as caught:
            RUNS["sketch"](full.sites(NAMES, limits=Limits(deadline=12.0)), 0)
        assert caught.value.code in ("ledger-disk", "ledger-full", "ledger-head")
        assert all(process.poll() is None for process in full.processes.values())
        # A site that is asked while there is no room is asked again, and answers once there is.
        disk.fill()
        timer = threading.Timer(4.0, disk.make_room)
        timer.start()
        found = RUNS["sketch"](full.sites(NAMES, limits=PATIENT), 0)
        timer.join()
        for name in NAMES:
            assert spent(full, name)[0] == pytest.approx(found.cost.privacy_mu)
        check_trail(full, found.transcript)
    finally:
        full.close()


@pytest.mark.parametrize(
    "times", [{"_SPAN": timedelta(minutes=-1)}, {"_CLOCK_TOLERANCE": timedelta(minutes=-10)}],
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
