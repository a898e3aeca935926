"""``silot project`` as a coordinator runs it; real engines are in tests/sites."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from silot.errors import ExtraError
from silot.sites import authority as authorities
from silot.sites import engine
from silot.sites.authority import Role, read_revocations
from silot.sites.checks import find_server_fault
from silot.sites.deployment import Deployment
from silot.sites.kit import Kit
from silot.sites.project import Project, sign

from ..sites.project import authority
from .project import provisioned, quick, signed, silot


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quick(monkeypatch)
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))


def serial(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def test_init_writes_a_file_that_provision_takes(tmp_path: Path) -> None:
    plan = tmp_path / "project.yml"
    silot("project", "init", plan)
    assert Project.load(plan).sites == ("north", "south", "west")
    before = plan.read_bytes()
    assert "[file-exists]" in silot("project", "init", plan, status=4)
    assert plan.read_bytes() == before
    assert "[file-kind]" in silot("project", "init", tmp_path / "project.txt", status=4)


@pytest.mark.heavy
def test_provision_says_what_is_next_and_writes_over_nothing(tmp_path: Path) -> None:
    folder = provisioned(tmp_path)
    before = (folder / "authority/rootCA.key").read_bytes()
    text = silot("project", "provision", tmp_path / "project.yml", "-o", folder, status=4)
    assert "[file-exists]" in text
    assert (folder / "authority/rootCA.key").read_bytes() == before
    assert (folder / "authority/rootCA.key").stat().st_mode & 0o077 == 0
    text = silot("project", "provision", tmp_path / "project.yml", "-o", tmp_path / "again")
    for line in ("silot project serve", "silot site request south", "uni@x.org --asker"):
        assert line in text


def test_what_was_issued_is_kept(tmp_path: Path) -> None:
    folder = provisioned(tmp_path)
    signed(tmp_path, "north")
    issued = Deployment.load(folder).issued
    assert [(each.name, str(each.role), each.revoked) for each in issued] == [
        ("server", "server", False), ("north", "site", False),
    ]  # fmt: skip
    body = json.loads((tmp_path / "north.signed").read_text())
    certificate = x509.load_pem_x509_certificate(body["certificate"].encode())
    assert int(issued[1].serial, 16) == certificate.serial_number


def test_several_requests_are_signed_or_none(tmp_path: Path) -> None:
    folder = provisioned(tmp_path)
    for name in ("north", "east"):
        silot("site", "request", name, "-o", tmp_path / name)
    both = [tmp_path / "north.request", tmp_path / "east.request"]
    assert "[option-out]" in silot("project", "sign", folder, *both, "-o", "x", status=3)
    assert "[file-missing]" in silot("project", "sign", folder, both[0], "no", status=4)
    assert not (tmp_path / "north.signed").exists()
    assert "[request-member]" in silot("project", "sign", folder, both[1], status=3)
    # Members are added to the file of the folder.
    plan = folder / "project.yml"
    plan.write_text(plan.read_text().replace("south]", "south, east]"))
    silot("project", "sign", folder, *both)
    assert "east" in Kit.load(folder / "server").project.sites
    plan.write_text(plan.read_text().replace("9000", "9001"))
    text = silot("project", "sign", folder, *both, status=3)
    assert "[project-changed]" in text and "port" in text


def test_revoked_is_who_ever_was(tmp_path: Path) -> None:
    folder = provisioned(tmp_path)
    kits = {name: signed(tmp_path, name) for name in ("north", "south")}
    assert "[revoke-name]" in silot("project", "revoke", folder, "east", status=3)
    silot("project", "revoke", folder, "north")
    # Whoever has the key could use what is signed for it.
    text = silot("project", "sign", folder, tmp_path / "north.request", status=3)
    assert "[request-revoked]" in text
    # A new certificate for another is none of those.
    silot("site", "request", "north", "-o", tmp_path / "anew")
    silot("project", "sign", folder, tmp_path / "anew.request")
    silot("project", "revoke", folder, "south")
    root = authority().certificate
    found = read_revocations((folder / "authority/revoked.crl").read_bytes(), root)
    issued = Deployment.load(folder).issued
    assert found == {int(each.serial, 16) for each in issued if each.revoked}
    assert [each.revoked for each in issued if each.name == "north"] == [True, False]
    assert found == Kit.load(folder / "server").identity().revoked.read()
    assert "server" not in {each.name for each in issued if each.revoked}
    assert len(kits) == len(found) == 2


@pytest.mark.parametrize("here", [True, False], ids=["here", "moved"])
def test_the_server_is_renewed(tmp_path: Path, here: bool) -> None:
    folder, kit = provisioned(tmp_path), tmp_path / "wards/server"
    if not here:
        kit = kit.rename(tmp_path / "server")
    before = Kit.load(kit).identity().member()
    key = (kit / "startup/server.key").read_bytes()
    plan = folder / "project.yml"
    plan.write_text(plan.read_text().replace("south]", "south, east]"))
    text = silot("project", "renew", folder)
    assert "server until" in text
    if not here:
        assert "silot site join KIT server.signed" in text
        assert Kit.load(kit).identity().member() == before
        silot("site", "join", kit, folder / "server.signed")
    after = Kit.load(kit).identity().member()
    assert (after.name, after.role) == (before.name, before.role)
    assert after.serial != before.serial and after.until >= before.until
    assert (kit / "startup/server.key").read_bytes() == key
    # It brings the members of the project's file.
    assert "east" in Kit.load(kit).project.sites
    issued = Deployment.load(folder).issued
    assert [int(each.serial, 16) for each in issued] == [before.serial, after.serial]
    silot("project", "revoke", folder, "server")
    assert "revoked.crl" in silot("project", "revoke", folder, "server")


def test_all_is_done_where_the_server_is_on_another_machine(tmp_path: Path) -> None:
    folder = provisioned(tmp_path)
    kit = (folder / "server").rename(tmp_path / "server")
    north = signed(tmp_path, "north")
    silot("site", "join", kit, folder / "server.signed")
    silot("project", "revoke", folder, "north")
    silot("site", "revoke", kit, folder / "authority/revoked.crl")
    assert len(Kit.load(kit).identity().revoked.read()) == 1 and north.exists()
    plan = folder / "project.yml"
    plan.write_text(plan.read_text().replace("9000", "9001"))
    assert "[project-changed]" in silot("project", "renew", folder, status=3)


@pytest.mark.parametrize("name", ["", "wards/server", "wards/authority"])
def test_what_is_no_deployment(tmp_path: Path, name: str) -> None:
    provisioned(tmp_path)
    assert "[deploy-folder]" in silot("project", "revoke", tmp_path / name, "north", status=4)


def test_run_becomes_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    monkeypatch.setattr(os, "execve", lambda path, given, _: words.extend(given))
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    folder = provisioned(tmp_path, port)
    silot("project", "serve", folder / "server")
    assert "nvflare.private.fed.app.server.server_train" in words
    assert "secure_train=true" in words
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen()
        assert "[port-taken]" in silot("project", "serve", folder / "server", status=4)
    kit = signed(tmp_path, "uni@x.org", "--asker")
    silot("site", "join", kit, tmp_path / "uni@x.org.signed")
    assert "[kit-role]" in silot("project", "serve", kit, status=5)


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = provisioned(tmp_path)
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    with pytest.raises(ExtraError, match=r"silot\[nvflare\]") as caught:
        engine.build_command(folder / "server", "server", Role.SERVER)
    assert caught.value.code == "extra-nvflare"


def listening(context: ssl.SSLContext | None, listener: socket.socket) -> threading.Thread:
    def serve() -> None:
        plain, _ = listener.accept()
        with plain:
            if context is not None:
                try:
                    with context.wrap_socket(plain, server_side=True) as secure:
                        secure.sendall(b"x")
                        secure.recv(1)
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize("case", ["own", "other", "expired", "garbage", "nothing"])
def test_why_the_server_cannot_be_used(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        folder = provisioned(tmp_path, listener.getsockname()[1])
        kit = signed(tmp_path, "uni@x.org", "--asker")
        silot("site", "join", kit, tmp_path / "uni@x.org.signed")
        startup = folder / "server/startup"
        if case == "expired":
            # Valid from five minutes ago.
            monkeypatch.setattr(authorities, "_SPAN", timedelta(minutes=-1))
            signed_ = sign(authority(), Kit.load(kit).project,
                           (folder / "server.request").read_bytes())  # fmt: skip
            (startup / "server.crt").write_text(signed_.certificate)
            assert "[certificate-expired]" in silot("project", "serve", folder / "server", status=5)
        if case == "nothing":
            listener.close()
            found = find_server_fault(Kit.load(kit))
            assert found is not None and found.code == "server-unreachable"
            assert "[server-unreachable]" in silot("project", "check", kit, status=6)
            return
        context = None
        if case != "garbage":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(startup / "server.crt", startup / "server.key")
            context.verify_mode = ssl.CERT_REQUIRED
            root = authority("other") if case == "other" else authority()
            context.load_verify_locations(cadata=root.pem.decode())
        listener.listen()
        thread = listening(context, listener)
        found = find_server_fault(Kit.load(kit))
        thread.join()
        if case == "own":
            assert found is None
        else:
            assert found is not None
            wanted = {
                "other": {"server-refuses"},
                "expired": {"server-expired"},
                "garbage": {"server-refuses", "server-unreachable"},
            }
            assert found.code in wanted[case]


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[" * 100_000, b'{"certificates": 1}'])
def test_what_was_revoked_stays_so_without_the_register(tmp_path: Path, body: bytes | None) -> None:
    folder = provisioned(tmp_path)
    for name in ("north", "south"):
        signed(tmp_path, name)
    silot("project", "revoke", folder, "north")
    list_, register = folder / "authority/revoked.crl", folder / "authority/issued.json"
    before = read_revocations(list_.read_bytes(), authority().certificate)
    if body is None:
        register.unlink()
    else:
        register.write_bytes(body)
    if body == b"{}":
        silot("project", "sign", folder, tmp_path / "south.request")
        silot("project", "revoke", folder, "south")
        assert before < read_revocations(list_.read_bytes(), authority().certificate)
        return
    status = 3 if body and b"certificates" in body else 4
    for words in (("sign", folder, tmp_path / "south.request"), ("revoke", folder, "south")):
        text = silot("project", *words, status=status)
        assert "[kit-format]" in text or "[project-field]" in text
    assert read_revocations(list_.read_bytes(), authority().certificate) == before
