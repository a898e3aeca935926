"""Kits: keys that stay, certificates that come back, and engines that may do nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import FileError, InputError, MismatchError, SilotError
from silot.sites import kit as module
from silot.sites.authority import Authority, Role, make_request, read_revocations, verify_member
from silot.sites.engine import configure_startup
from silot.sites.kit import Kit, begin_kit, complete_kit, provision
from silot.sites.project import Project, Signed, sign
from tests.lazily import package
from tests.tiers import examples

from .project import authority, private

pytestmark = pytest.mark.all_cases

PROJECT = Project(name="wards", host="localhost", port=9000, sites=["north", "south"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are slow to make."""
    made = iter(range(100))
    monkeypatch.setattr(module, "create_key", lambda: private(f"kit{next(made)}"))
    root = authority()
    monkeypatch.setattr(Authority, "new", lambda project: root)


def made(folder: Path, name: str = "north", role: Role = Role.SITE) -> Kit:
    asked = begin_kit(folder / name, name, role)
    return complete_kit(folder / name, sign(authority(), PROJECT, asked))


def test_a_kit_proves_who_it_is(tmp_path: Path) -> None:
    kit = made(tmp_path)
    assert (kit.name, kit.role, kit.project) == ("north", Role.SITE, PROJECT)
    found = kit.identity().member()
    assert (found.name, found.role) == ("north", Role.SITE)
    assert Kit.load(tmp_path / "north", Role.SITE) == kit
    with pytest.raises(MismatchError, match="kit-role"):
        Kit.load(tmp_path / "north", Role.ASKER)


def test_no_private_key_travels_or_can_be_read_by_others(tmp_path: Path) -> None:
    asked = begin_kit(tmp_path / "north", "north", Role.SITE)
    signed = sign(authority(), PROJECT, asked)
    assert b"PRIVATE" not in asked
    assert "PRIVATE" not in signed.model_dump_json()
    complete_kit(tmp_path / "north", signed)
    secret = [
        p for p in (tmp_path / "north").rglob("*") if p.is_file() and b"PRIV" in p.read_bytes()
    ]
    assert {path.name for path in secret} == {"client.key", "signing.key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in secret)


def test_engines_may_carry_messages_and_nothing_else(tmp_path: Path) -> None:
    _, server = provision(PROJECT, tmp_path / "wards")
    for kit in (made(tmp_path), server):
        local = kit.folder / "local"
        resources = json.loads((local / "resources.json").read_text())
        assert resources["allow_log_streaming"] is False
        assert resources["class_list_enforcement_mode"] == "enforce"
        (component,) = resources["components"]
        assert resources["class_allow_list"] == [component["path"]]
        assert component["path"].startswith("silot.sites.flare.")
        rights = json.loads((local / "authorization.json").read_text())["permissions"]
        words = {right for each in rights.values() for right in each.values()}
        assert words == {"none"}
        assert set(rights["project_admin"]) >= {"byoc", "shell_commands", "submit_job"}
        logs = json.loads((local / "log_config.json").read_text())
        # No text of an exception or a message: those may quote data.
        assert "message" not in logs["formatters"]["plain"]["format"]


@pytest.mark.parametrize(
    ("name", "role"), [("east", Role.SITE), ("north", Role.ASKER), ("north", Role.SERVER)]
)
def test_strangers_are_not_signed(name: str, role: Role) -> None:
    with pytest.raises(InputError, match="request-member"):
        sign(authority(), PROJECT, make_request(private("a"), name, role))


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"])
def test_what_is_no_request(data: bytes) -> None:
    with pytest.raises(FileError, match="request-format"):
        sign(authority(), PROJECT, data)


def test_only_the_server_has_names_of_machines() -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("wards.example")])
    for role in (Role.SITE, Role.ASKER, Role.SERVER):
        asked = x509.load_pem_x509_csr(make_request(private("north"), "north", role))
        again = x509.CertificateSigningRequestBuilder(asked.subject, [])
        again = again.add_extension(names, critical=False)
        data = again.sign(private("north"), hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM
        )
        made = x509.load_pem_x509_certificate(authority().sign(data, [("north", role)]))
        found = [each for each in made.extensions if isinstance(each.value, type(names))]
        assert len(found) == (role is Role.SERVER)


def test_a_request_that_was_changed_is_none() -> None:
    asked = x509.load_pem_x509_csr(make_request(private("a"), "north", Role.SITE))
    body = asked.public_bytes(serialization.Encoding.DER).replace(b"north", b"south")
    text = base64.encodebytes(body)
    changed = b"-----BEGIN CERTIFICATE REQUEST-----\n%b-----END CERTIFICATE REQUEST-----\n" % text
    with pytest.raises(FileError, match="request-format"):
        sign(authority(), PROJECT, changed)


def test_a_certificate_goes_into_its_own_kit_alone(tmp_path: Path) -> None:
    asked = begin_kit(tmp_path / "a", "north", Role.SITE)
    begin_kit(tmp_path / "b", "north", Role.SITE)
    signed = sign(authority(), PROJECT, asked)
    with pytest.raises(MismatchError, match="certificate-key"):
        complete_kit(tmp_path / "b", signed)
    other = sign(authority("other"), PROJECT, asked)
    with pytest.raises(MismatchError, match="certificate-authority"):
        complete_kit(tmp_path / "a", signed.model_copy(update={"root": other.root}))
    with pytest.raises(FileError, match="kit-format"):
        Kit.load(tmp_path / "a")


def test_keys_are_never_written_over(tmp_path: Path) -> None:
    begin_kit(tmp_path / "a", "north", Role.SITE)
    before = (tmp_path / "a/startup/client.key").read_bytes()
    with pytest.raises(FileError, match="file-exists"):
        begin_kit(tmp_path / "a", "north", Role.SITE)
    assert (tmp_path / "a/startup/client.key").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a b", "../x", "é", "-n", "a" * 61, "a/b", "a\n", "a=b"])
def test_names_with_odd_characters(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="project-field"):
        begin_kit(tmp_path / "a", name, Role.SITE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("field", "value"),
    [("port", 0), ("port", "80"), ("sites", []), ("sites", ["a", "a"]), ("sites", ["analyst"]),
     ("host", "a b"), ("more", 1), ("sites", ["coordinator"]), ("sites", ["server"])],
)  # fmt: skip
def test_projects_that_cannot_be(tmp_path: Path, field: str, value: object) -> None:
    file = tmp_path / "project.json"
    body = PROJECT.model_dump() | {field: value}
    file.write_text(json.dumps(body))
    with pytest.raises(InputError, match="project-field"):
        Project.load(file)


LONG = ".".join(["department-of-medicine" * 2] * 5)


@pytest.mark.parametrize(
    ("text", "host"),
    [("LOCALHOST", "localhost"), ("Server.Hospital.Example.", "server.hospital.example"),
     ("10.0.0.5", "10.0.0.5"), ("::1", "::1"), ("[2001:DB8:0::1]", "2001:db8::1"),
     ("ward_7", "ward_7"), (LONG, LONG)],
)  # fmt: skip
def test_addresses_of_a_server(tmp_path: Path, text: str, host: str) -> None:
    """Its certificate has them as TLS compares them; its name there is another, and short."""
    project = PROJECT.model_validate(PROJECT.model_dump() | {"host": text, "hosts": ["::2", "x.y"]})
    _, kit = provision(project, tmp_path / "wards")
    assert (kit.name, project.host) == ("server", host)
    certificate = x509.load_pem_x509_certificate(kit.files[1].read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    shown = {*names.get_values_for_type(x509.DNSName),
             *map(str, names.get_values_for_type(x509.IPAddress))}  # fmt: skip
    assert shown == {host, "localhost", "::2", "x.y"}


@pytest.mark.parametrize(
    "text",
    ["", "a b", "é.example", "fe80::1%eth0", "10.0.0.256", "a..b", "-a", "a" * 64, LONG + LONG,
     "host:80", "[::1", "a/b", "a\n"],
)  # fmt: skip
def test_addresses_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match="host"):
        PROJECT.model_validate(PROJECT.model_dump() | {"host": text})


@pytest.mark.parametrize("host", ["::1", "2001:db8::5", "127.0.0.1", "localhost", LONG])
def test_the_engine_connects_to_the_address(host: str) -> None:
    utils = package("nvflare.fuel.f3.drivers.net_utils", needs="nvflare")
    project = PROJECT.model_copy(update={"host": host})
    startup = configure_startup(project, "north", Role.SITE)["servers"][0]
    params = utils.parse_url(f"grpcs://{startup['service']['target']}")
    assert utils.get_address(params) == project.address
    assert startup["identity"] == "server"


def test_revoked_certificates(tmp_path: Path) -> None:
    kit = made(tmp_path)
    serials = [kit.identity().member().serial, 7]
    assert kit.revoke(authority().revoke(serials[:1])) == {serials[0]}
    with pytest.raises(MismatchError, match="certificate-revoked"):
        kit.identity().member()
    with pytest.raises(FileError, match="revocation-older"):
        kit.revoke(authority().revoke([7]))
    with pytest.raises(FileError, match="revocation-format"):
        kit.revoke(authority("other").revoke(serials))
    assert kit.revoke(authority().revoke(serials)) == set(serials)


def test_a_list_that_changes_is_read_anew(tmp_path: Path) -> None:
    kit = made(tmp_path)
    identity, file = kit.identity(), kit.folder / "silot/revoked.crl"
    serial = identity.member().serial
    kit.revoke(authority().revoke([7]))
    identity.member()
    kit.revoke(authority().revoke([7, serial]))
    with pytest.raises(MismatchError, match="certificate-revoked"):
        identity.member()
    # Whoever could not be known to be valid is not; what was revoked stays so.
    file.write_bytes(b"none")
    with pytest.raises(FileError, match="revocation-format"):
        identity.member()
    file.unlink()
    with pytest.raises(MismatchError, match="certificate-revoked"):
        identity.member()


def test_a_long_list_of_revoked_certificates(tmp_path: Path) -> None:
    kit = made(tmp_path)
    many = set(range(1, 3000))
    assert (
        kit.revoke(authority().revoke(many))
        == Kit.load(kit.folder).identity().revoked.read()
        == many
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=200))
def test_garbage_has_codes(data: bytes) -> None:
    root = authority().certificate
    with pytest.raises(FileError, match="revocation-format"):
        read_revocations(data, root)


def test_a_root_signs_no_root(tmp_path: Path) -> None:
    """A member's certificate certifies nobody."""
    kit = made(tmp_path)
    certificate = x509.load_pem_x509_certificate(kit.identity().credential.certificate)
    forged = Authority(certificate, private("kit0")).sign(
        make_request(private("b"), "south", Role.SITE), [("south", Role.SITE)]
    )
    with pytest.raises(MismatchError, match="certificate-authority"):
        verify_member(x509.load_pem_x509_certificate(forged), authority().certificate)


def test_what_comes_back_is_checked(tmp_path: Path) -> None:
    for k, text in enumerate(["", "{}", "[]", '{"root": 1}']):
        file = tmp_path / f"{k}.signed"
        file.write_text(text)
        with pytest.raises(SilotError, match=r"kit-format|project-field"):
            Signed.read(file)


@pytest.mark.parametrize(
    "file",
    [
        "silot/member.json",
        "silot/project.json",
        "startup/client.crt",
        "startup/client.key",
        "startup/rootCA.pem",
        "silot/signing.key",
    ],
)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\0\xff", b'{"name": 5, "role": "x"}',
                                  b"[" * 100_000, None])  # fmt: skip
def test_broken_kits_have_codes(tmp_path: Path, file: str, body: bytes | None) -> None:
    kit = made(tmp_path)
    if body is None:
        (kit.folder / file).unlink()
    else:
        (kit.folder / file).write_bytes(body)
    with pytest.raises(SilotError) as caught:
        Kit.load(kit.folder).identity().member()
    assert caught.value.code in (
        "kit-format", "project-field", "certificate-format", "key-format", "file-missing"
    )  # fmt: skip
