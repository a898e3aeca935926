"""Kits: the folder of one member of a project, as NVFlare and silot read it.

::

    KIT/silot/   project.json  member.json  signing.key  site.json      silot's own
    KIT/startup/ rootCA.pem  client.crt  client.key  fed_client.json    NVFlare's: who, where
    KIT/local/   resources.json  authorization.json  log_config.json    NVFlare's: what it may

What NVFlare can do beside carrying silot's messages is shut in every kit: no jobs (there is
nothing to launch them), no code of others, no shell commands, no stream of logs, and no classes but
silot's.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ..data.files import write_whole
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import Key
from .authority import (
    ROOT,
    Authority,
    Role,
    create_key,
    encode_key,
    make_request,
    parse_certificate,
    read_certificate,
    read_key,
    read_revocations,
    verify_member,
)
from .credential import Credential, Identity, RevocationList
from .engine import configure_local, configure_startup, name_certificate, name_startup
from .project import SERVER, Project, Signed, check_name, read_json, sign, write_json

PROJECT, MEMBER, SIGNING, SITE = "project.json", "member.json", "signing.key", "site.json"
REVOKED = "revoked.crl"
OWN, STARTUP, LOCAL = "silot", "startup", "local"


def begin_kit(folder: str | Path, name: str, role: Role, hosts: tuple[str, ...] = ()) -> bytes:
    """Make the keys of a kit in a new folder, and return the request for its certificate.

    Raises a ``FileError`` if the folder exists (``file-exists``) or cannot be made, and an
    ``InputError`` if the name cannot be one (``project-field``).
    """
    place = Path(folder)
    try:
        check_name(name)
    except ValueError as error:
        raise InputError(
            f"the name {name[:60]!r} is not allowed: {error}.", code="project-field"
        ) from None
    check_new(place)
    try:
        place.mkdir(mode=0o700, parents=True)
        for part in (OWN, STARTUP, LOCAL):
            (place / part).mkdir(mode=0o700)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}).", code="file-unwritable"
        ) from None
    private = create_key()
    key_file = place / STARTUP / f"{name_certificate(role)}.key"
    write_whole(key_file, encode_key(private), private=True)
    Key.new().save(place / OWN / SIGNING)
    write_json(place / OWN / MEMBER, {"name": name, "role": str(role)})
    return make_request(private, name, role, hosts)


def check_new(folder: Path) -> None:
    """Raise where a folder of keys exists already (``file-exists``)."""
    if folder.exists():
        raise FileError(
            f"{folder} already exists. Give a new folder: silot never overwrites keys.",
            code="file-exists",
        )


def complete_kit(folder: str | Path, signed: Signed) -> Kit:
    """Put a certificate into the kit whose request it answers.

    Raises a ``MismatchError`` if it is for another key or name (``certificate-key``), or not by its
    own root.
    """
    place = Path(folder)
    name, role = _read_member(place)
    certificate = parse_certificate(signed.certificate.encode())
    root = parse_certificate(signed.root.encode())
    startup = place / STARTUP
    private = read_key(startup / f"{name_certificate(role)}.key")
    member = verify_member(certificate, root)
    is_owner = (member.name, member.role) == (name, role)
    if not is_owner or certificate.public_key() != private.public_key():
        raise MismatchError(
            f"the certificate is of {member.role} {member.name!r}, not for the key of "
            f"{place}. Use the certificate that was signed for its request.",
            code="certificate-key",
        )
    if (startup / ROOT).exists() and read_certificate(startup / ROOT) != root:
        raise MismatchError(
            f"{place} belongs to another project. Make a kit for each: `silot site request`.",
            code="kit-project",
        )
    write_whole(startup / f"{name_certificate(role)}.crt", signed.certificate.encode())
    write_whole(startup / ROOT, signed.root.encode())
    signed.project.write(place / OWN / PROJECT)
    write_json(startup / name_startup(role), configure_startup(signed.project, name, role))
    for file, content in configure_local(signed.project, role).items():
        write_json(place / LOCAL / file, content)
    return Kit.load(place)


@dataclass(frozen=True)
class Kit:
    """A complete kit."""

    folder: Path
    """Where it is."""
    name: str
    """Of the member whose it is."""
    role: Role
    """Of that member."""
    project: Project
    """What it belongs to."""

    @classmethod
    def load(cls, folder: str | Path, role: Role | None = None) -> Kit:
        """Read a kit.

        Parameters
        ----------
        folder
            Of the kit.
        role
            What it must be.

        Raises
        ------
        FileError
            It is none, or not complete (``kit-format``).
        MismatchError
            It is of another role (``kit-role``).
        """
        place = Path(folder)
        if not (place / OWN / PROJECT).is_file():
            has_keys = (place / OWN / MEMBER).is_file()
            cure = (
                "it waits for its certificate: `silot site join`" if has_keys
                else "give the folder of `silot site request` or `silot project provision`"
            )  # fmt: skip
            raise FileError(f"{place} is not a complete kit: {cure}.", code="kit-format")
        kit = cls(place.resolve(), *_read_member(place), Project.read(place / OWN / PROJECT))
        if role is not None and kit.role is not role:
            raise MismatchError(
                f"{place} is the kit of {kit.role} {kit.name!r}, and that of "
                f"{'an' if role[0] in 'aeio' else 'a'} {role} is needed.",
                code="kit-role",
            )
        return kit

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """The files of the authority's certificate, the member's own, and its key."""
        startup, own = self.folder / STARTUP, name_certificate(self.role)
        return startup / ROOT, startup / f"{own}.crt", startup / f"{own}.key"

    @property
    def own(self) -> Path:
        """The folder of silot's own files."""
        return self.folder / OWN

    def identity(self) -> Identity:
        """Read the credential, the private key and the root of the kit's member."""
        root, certificate, private = self.files
        read_certificate(certificate)
        key = Key.load(self.own / SIGNING)
        credential = Credential.of(certificate.read_bytes(), read_key(private), key.public)
        return Identity(credential, key, read_certificate(root), self._revocations())

    def _revocations(self) -> RevocationList:
        return RevocationList(self.own / REVOKED, read_certificate(self.files[0]))

    def revoke(self, data: bytes) -> frozenset[int]:
        """Keep a list of revoked certificates; a process that runs with the kit obeys it at once.

        Raises a ``FileError`` if the list is not one of this project (``revocation-format``), or
        lacks
        a certificate that was revoked before (``revocation-older``).
        """
        numbers = read_revocations(data, read_certificate(self.files[0]))
        if not numbers >= self._revocations().read():
            raise FileError(
                "the list lacks certificates that were revoked before, so it is an older list.",
                code="revocation-older",
            )
        write_whole(self.own / REVOKED, data)
        return numbers

    def destroy(self) -> None:
        """Remove the keys and all that is made of them."""
        for name in (STARTUP, LOCAL):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in (SIGNING, PROJECT, MEMBER, SITE):
            (self.own / name).unlink(missing_ok=True)


def read_role(folder: str | Path) -> Role:
    """Return the role of the member whose kit this is, complete or not.

    Raises a ``FileError`` if it is none (``kit-format``).
    """
    place = Path(folder)
    if not (place / OWN / MEMBER).is_file():
        raise FileError(
            f"{place} is not a kit. Give the folder of `silot site request`.", code="kit-format"
        )
    return _read_member(place)[1]


def provision(project: Project, folder: str | Path) -> tuple[Authority, Kit]:
    """Make the authority of a project, and the kit of its server, in a new folder.

    Beside them the server's request and the answer are kept: its certificate can be renewed where
    its kit is not.

    Raises a ``FileError`` if the folder exists (``file-exists``), or cannot be made.
    """
    place = Path(folder)
    server = place / "server"
    hosts = dict.fromkeys((project.host, "localhost", *project.hosts))
    request = begin_kit(server, SERVER, Role.SERVER, tuple(hosts))
    (place / "authority").mkdir(mode=0o700)
    authority = Authority.new(project.name)
    authority.save(place / "authority")
    signed = sign(authority, project, request)
    write_whole(place / "server.request", request)
    signed.write(place / "server.signed")
    return authority, complete_kit(server, signed)


def _read_member(place: Path) -> tuple[str, Role]:
    """Return whose keys are in a kit."""
    file = place / OWN / MEMBER
    body = read_json(file)
    try:
        return str(body["name"]), Role(body["role"])
    except (KeyError, ValueError):
        raise FileError(f"{file} was changed after silot wrote it.", code="kit-format") from None
