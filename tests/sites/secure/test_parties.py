"""Parties as processes of their own, over mutually authenticated TLS on loopback."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from silot.errors import FileError, InputError
from silot.privacy.ledger import Ledger
from silot.sites.secure import Peers, make_keys
from silot.sites.secure.options import Role
from silot.sites.secure.tunnel import Tunnel
from silot_transport import exact_plan

from ...ports import free_ports
from .needs import needs_keys, needs_noise, needs_spu

pytestmark = [needs_keys, pytest.mark.all_cases]

RNG = np.random.default_rng(0)
_MAIN = "from silot.cli import main; main()"
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=(10, 2)) + 1.0


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys")
    a, b, third = free_ports(3)
    text = (tmp_path / "keys/peers.yml").read_text()
    for old, new in ((9310, a), (9311, b), (9312, third)):
        # A new port may end in the digits of the next.
        text = text.replace(f"127.0.0.1:{old}\n", f"127.0.0.1:{new}\n")
    (tmp_path / "keys/peers.yml").write_text(text)
    np.savez(tmp_path / "a.npz", X=X)
    np.savez(tmp_path / "b.npz", X=Y)
    return tmp_path


class Processes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, role: str, *more: str, keys: str = "keys", **environment: str) -> None:
        data = [] if role == "third" else ["--data", f"{role}.npz"]
        arguments = ["--role", role, "--peers", f"{keys}/peers.yml", *data, "--json", *more]
        self.running[role] = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "distance", "secure", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={**os.environ, **environment},
        )  # fmt: skip

    def ends(self, role: str, timeout: float = 300.0) -> tuple[int, str, str]:
        out, errors = self.running[role].communicate(timeout=timeout)
        return self.running[role].returncode, out, errors


@pytest.fixture
def processes(trial: Path) -> Iterator[Processes]:
    made = Processes(trial)
    yield made
    for process in made.running.values():
        process.kill()
        process.communicate()


@needs_spu
@pytest.mark.slow
def test_three_processes_tell_the_receiver_alone(processes: Processes) -> None:
    for role in ("a", "b", "third"):
        report = ("--report", f"{role}.html", "--transcript", f"{role}.transcript")
        processes.start(role, "--receiver", "b", "--timeout", "300", *report)
    ended = {role: processes.ends(role) for role in ("a", "b", "third")}
    written = {path.name for path in processes.folder.iterdir() if path.is_file()}
    assert written == {"a.npz", "b.npz", "b.html", "b.transcript"}
    assert {role: code for role, (code, _, _) in ended.items()} == {"a": 0, "b": 0, "third": 0}
    told = {role: json.loads(out) for role, (_, out, _) in ended.items()}
    assert told["a"]["distance"] is None
    assert told["third"]["distance"] is None
    exact = exact_plan(X, Y).upper
    assert abs(told["b"]["distance"]["value"] / exact - 1.0) < 0.01
    assert all(each["bytes_sent"] > 0 for each in told.values())


@pytest.mark.heavy
@pytest.mark.parametrize("read", ["a.npz", "keys/peers.yml", "keys/a.key"])
def test_a_report_is_not_written_over_what_is_read(processes: Processes, read: str) -> None:
    before = (processes.folder / read).read_bytes()
    processes.start("a", "--report", read)
    code, _, errors = processes.ends("a")
    assert (code, "[file-twice]" in errors) == (4, True)
    assert (processes.folder / read).read_bytes() == before


@needs_spu
@pytest.mark.slow
def test_parties_with_other_options_stop_and_name_them(processes: Processes) -> None:
    for role in ("a", "b", "third"):
        scale = "2" if role == "b" else "1"
        processes.start(role, "--scale", scale, "--timeout", "300")
    for role in ("a", "b", "third"):
        code, out, errors = processes.ends(role)
        assert (code, out) == (5, "")
        assert "[secure-options]" in errors
        assert "scale" in errors


def children_of(process: subprocess.Popen[str]) -> list[int]:
    told = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(word) for word in told.stdout.split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@needs_spu
@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 4.0])
def test_a_party_that_is_killed_ends_all_and_leaves_nothing(
    processes: Processes, seconds: float
) -> None:
    own = processes.folder / "tmp"
    own.mkdir()
    for role in ("a", "b", "third"):
        processes.start(role, "--timeout", "20", TMPDIR=str(own))
    time.sleep(seconds)
    workers = [pid for each in processes.running.values() for pid in children_of(each)]
    processes.running["third"].send_signal(signal.SIGKILL)
    for role in ("a", "b"):
        code, out, errors = processes.ends(role)
        # One that was killed before it met the others is not there, and time is up.
        assert (code, out) == (6, "")
        assert "[secure-" in errors
    end = time.monotonic() + 300.0
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    assert [path for path in own.iterdir() if path.name.startswith("silot-")] == []


@needs_spu
@needs_noise
@pytest.mark.slow
def test_a_run_is_charged_and_again_when_repeated(processes: Processes) -> None:
    folder = processes.folder
    (folder / "policy.yml").write_text("privacy_epsilon: .inf\n")
    noise = ("--epsilon", "20", "--diameter", "10", "--timeout", "300")
    own = ("--policy", "policy.yml", "--ledger", "north.ledger")
    for _ in range(2):
        for role in ("a", "b", "third"):
            processes.start(role, *noise, *(own if role == "a" else ()))
        codes = [processes.ends(role)[0] for role in ("a", "b", "third")]
        assert codes == [0, 0, 0]
    with Ledger(folder / "north.ledger") as ledger:
        rows = [row for row in ledger.entries() if row.event == "reserve"]
    assert [(row.mechanism, row.asker) for row in rows] == [("secure distance", "third")] * 2


@needs_spu
@pytest.mark.slow
def test_a_holder_whose_policy_refuses_ends_all_and_says_why_to_its_owner_alone(
    processes: Processes,
) -> None:
    (processes.folder / "policy.yml").write_text("level: private\n")
    for role in ("a", "b", "third"):
        own = ("--policy", "policy.yml") if role == "a" else ()
        processes.start(role, "--timeout", "300", *own)
    ended = {role: processes.ends(role) for role in ("a", "b", "third")}
    assert {role: code for role, (code, _, _) in ended.items()} == {"a": 7, "b": 6, "third": 6}
    assert "[secure-ledger]" in ended["a"][2]
    for role in ("b", "third"):
        assert "[secure-stopped]" in ended[role][2]
        assert "policy" not in ended[role][2]


def tunnel(folder: Path, role: Role, keys: str = "keys") -> Tunnel:
    peers = Peers.load(folder / "keys/peers.yml")
    mine = Peers.load(folder / keys / "peers.yml")
    return Tunnel(role, replace(peers.links(role, 2), files=mine.files(role)))


def serve(tunnels: list[Tunnel], until: Callable[[], bool], seconds: float = 300.0) -> bool:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        for each in tunnels:
            each.poll(0.02)
    return until()


def test_parties_hear_what_the_other_said_and_when_it_is_gone(trial: Path) -> None:
    with tunnel(trial, "a") as a:
        a.say(hello=1)
        with tunnel(trial, "b") as b:
            b.say(hello=2)
            assert serve([a, b], lambda: bool(a.heard["b"] and b.heard["a"]))
            assert (a.heard["b"][0], b.heard["a"][0]) == ({"hello": 2}, {"hello": 1})
            assert a.find_unreachable() is None
            assert not a.lost
        assert serve([a], lambda: a.lost == {"b"})


def test_the_engine_s_bytes_arrive_whole_and_in_order(trial: Path) -> None:
    sent = np.random.default_rng(0).bytes(20_000_000)
    with tunnel(trial, "a") as a, tunnel(trial, "b") as b:
        engine = socket.socket(socket.AF_UNIX)
        engine.bind(b.local()["b"].removeprefix("unix:"))
        engine.listen()
        engine.setblocking(False)
        near = socket.socket(socket.AF_UNIX)
        near.connect(a.local()["b"].removeprefix("unix:"))
        near.setblocking(False)
        taken: list[socket.socket] = []
        rest, arrived = memoryview(sent), bytearray()

        def step() -> bool:
            nonlocal rest
            with suppress(BlockingIOError):
                rest = rest[near.send(rest[: 2**16]) :] if rest else rest
            with suppress(BlockingIOError):
                taken.append(engine.accept()[0])
                taken[0].setblocking(False)
            with suppress(BlockingIOError):
                while taken and (data := taken[0].recv(2**18)):
                    arrived.extend(data)
            return len(arrived) == len(sent)

        assert serve([a, b], step)
        assert bytes(arrived) == sent
        assert a.sent == b.received == len(sent)
        near.close()
        taken[0].setblocking(True)
        serve([a, b], lambda: False, 0.3)
        assert taken[0].recv(1) == b""
        engine.close()
        taken[0].close()


def test_a_peer_that_is_not_there_is_named(trial: Path) -> None:
    with tunnel(trial, "a") as a:
        serve([a], lambda: False, 0.4)
        error = a.find_unreachable()
    assert error is not None
    assert "'b'" in error.message
    assert error.code == "secure-unreachable"


def test_a_certificate_of_another_authority_is_refused_by_both_ends(trial: Path) -> None:
    make_keys(trial / "other")
    with tunnel(trial, "a", keys="other") as a, tunnel(trial, "b") as b:
        serve([a, b], lambda: False, 0.5)
        for error in (a.find_unreachable(), b.find_unreachable()):
            assert error is not None
            assert error.code == "secure-certificate"


def test_the_certificate_of_another_role_is_refused(trial: Path) -> None:
    for end in ("pem", "key"):
        third = (trial / f"keys/third.{end}").read_bytes()
        (trial / f"keys/a.{end}").write_bytes(third)
    with tunnel(trial, "a") as a, tunnel(trial, "b") as b:
        a.say(hello=1)
        serve([a, b], lambda: False, 0.5)
        for error in (a.find_unreachable(), b.find_unreachable()):
            assert error is not None
            assert error.code == "secure-certificate"
        assert not b.heard["a"]


def test_nothing_is_told_without_a_certificate_or_in_plain(trial: Path) -> None:
    with tunnel(trial, "b") as b:
        host, port = b.addresses["b"].split(":")
        answers: list[bytes] = []

        def plain() -> None:
            with socket.create_connection((host, int(port)), timeout=3) as link:
                link.sendall(b"PRPC" + bytes(8))
                answers.append(link.recv(64)[:1])

        def bare() -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                with (
                    socket.create_connection((host, int(port)), timeout=3) as link,
                    context.wrap_socket(link) as wrapped,
                ):
                    wrapped.sendall(b"?")
                    answers.append(wrapped.recv(1))
            except OSError:
                answers.append(b"")

        threads = [threading.Thread(target=work) for work in (plain, bare)]
        for thread in threads:
            thread.start()
        assert serve([b], lambda: len(answers) == 2)
        for thread in threads:
            thread.join()
        # An alert of TLS, or nothing.
        assert set(answers) <= {b"", b"\x15"}


def test_keys_are_private_and_never_written_over(tmp_path: Path) -> None:
    made = make_keys(tmp_path / "keys")
    assert all(path.stat().st_mode & 0o077 == 0 for path in made if path.suffix == ".key")
    with pytest.raises(FileError) as caught:
        make_keys(tmp_path / "keys")
    assert caught.value.code == "file-exists"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "file-unreadable"),
        ("a: [", "file-unreadable"),
        ("a: h:1\na: h:2", "file-unreadable"),
        ("a: x\nb: y", "peers-invalid"),
        ("a: h:1\nb: h:2\ntls: {ca: c}", "peers-invalid"),
        ("a: h:1\nb: h:2\nfoo: 1", "peers-invalid"),
    ],
)
def test_a_file_that_is_no_peers_file_is_coded(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "peers.yml").write_text(text)
    with pytest.raises(FileError) as caught:
        Peers.load(tmp_path / "peers.yml")
    assert caught.value.code == code


def test_a_missing_third_address_is_coded(tmp_path: Path) -> None:
    (tmp_path / "peers.yml").write_text("a: h:1\nb: h:2\ntls: {ca: c, certificate: p, key: k}\n")
    peers = Peers.load(tmp_path / "peers.yml")
    assert list(peers.addresses(2)) == ["a", "b"]
    with pytest.raises(InputError) as caught:
        peers.addresses(3)
    assert caught.value.code == "peers-invalid"
