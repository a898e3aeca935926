"""Parties as processes of their own, over mutually authenticated TLS on loopback."""

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from silot.errors import FileError, HolderError, InputError, SilotError
from silot.secure import Peers, make_keys
from silot.secure.tunnel import Tunnel
from silot.transport import exact_plan

from .needs import needs_keys, needs_spu

pytestmark = needs_keys

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=(10, 2)) + 1.0


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys")
    a, b, third = free_ports(3)
    text = (tmp_path / "keys/peers.yml").read_text()
    for old, new in ((9310, a), (9311, b), (9312, third)):
        text = text.replace(str(old), str(new))
    (tmp_path / "keys/peers.yml").write_text(text)
    np.savez(tmp_path / "a.npz", X=X)
    np.savez(tmp_path / "b.npz", X=Y)
    return tmp_path


class Processes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, role: str, *more: str, keys: str = "keys") -> None:
        data = [] if role == "third" else ["--data", f"{role}.npz"]
        arguments = ["--role", role, "--peers", f"{keys}/peers.yml", *data, "--json", *more]
        self.running[role] = subprocess.Popen(
            [sys.executable, "-c", "from silot.cli import main; main()", "secure", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip

    def ends(self, role: str, timeout: float = 120.0) -> tuple[int, str, str]:
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
        processes.start(role, "--receiver", "b", "--timeout", "60")
    ended = {role: processes.ends(role) for role in ("a", "b", "third")}
    assert {role: code for role, (code, _, _) in ended.items()} == {"a": 0, "b": 0, "third": 0}
    told = {role: json.loads(out) for role, (_, out, _) in ended.items()}
    assert told["a"]["distance"] is None
    assert told["third"]["distance"] is None
    exact = exact_plan(X, Y).upper
    assert abs(told["b"]["distance"]["value"] / exact - 1.0) < 0.01
    assert all(each["bytes_sent"] > 0 for each in told.values())


@needs_spu
@pytest.mark.slow
def test_parties_with_other_options_stop_and_name_them(processes: Processes) -> None:
    for role in ("a", "b", "third"):
        scale = "2" if role == "b" else "1"
        processes.start(role, "--scale", scale, "--timeout", "30")
    for role in ("a", "b", "third"):
        code, out, errors = processes.ends(role)
        assert (code, out) == (5, "")
        assert "[secure-options]" in errors
        assert "scale" in errors


@needs_spu
@pytest.mark.slow
def test_a_party_that_dies_does_not_hang_the_others(processes: Processes) -> None:
    for role in ("a", "b"):
        processes.start(role, "--timeout", "8")
    processes.start("third", "--timeout", "8")
    # Each is about to start: killed before or amid the run, the others end with a code.
    processes.running["third"].kill()
    for role in ("a", "b"):
        code, _, errors = processes.ends(role)
        assert code == 6
        assert "[secure-" in errors


def tunnel(folder: Path, role: str, keys: str = "keys", timeout: float = 2.0) -> Tunnel:
    peers = Peers.load(folder / "keys/peers.yml")
    mine = Peers.load(folder / keys / "peers.yml")
    return Tunnel(role, peers.addresses(2), mine.files(role), timeout)  # type: ignore[arg-type]


def code_of(link: Tunnel) -> str:
    with pytest.raises(SilotError) as caught, link:
        pass
    return caught.value.code


def test_a_peer_that_is_not_there_is_named(trial: Path) -> None:
    with pytest.raises(HolderError, match="'b'") as caught, tunnel(trial, "a", timeout=0.5):
        pass
    assert caught.value.code == "secure-unreachable"


def listening(folder: Path) -> tuple[Tunnel, tuple[str, int]]:
    """A party that serves, and is still waiting for the other one."""
    link = tunnel(folder, "b")
    link._thread.start()
    link._run(link._open())
    host, port = link.addresses["b"].split(":")
    return link, (host, int(port))


def test_a_certificate_of_another_authority_is_refused_by_both_ends(trial: Path) -> None:
    make_keys(trial / "other")
    link, _ = listening(trial)
    try:
        assert code_of(tunnel(trial, "a", keys="other")) == "secure-certificate"
    finally:
        link.close()


def test_the_certificate_of_another_role_is_refused(trial: Path) -> None:
    for end in ("pem", "key"):
        third = (trial / f"keys/third.{end}").read_bytes()
        (trial / f"keys/a.{end}").write_bytes(third)
    link, _ = listening(trial)
    try:
        assert code_of(tunnel(trial, "a")) == "secure-certificate"
    finally:
        link.close()


def test_nothing_is_told_without_a_certificate_or_in_plain(trial: Path) -> None:
    link, address = listening(trial)
    try:
        with socket.create_connection(address, timeout=3) as plain:
            plain.sendall(b"PRPC" + bytes(8))
            plain.settimeout(8)
            assert b"!" not in plain.recv(64)[:1]
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(address, timeout=3) as plain,
            pytest.raises((ssl.SSLError, OSError)),
            bare.wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(b"?")
            if wrapped.recv(1) == b"":
                raise OSError("refused")
    finally:
        link.close()


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
