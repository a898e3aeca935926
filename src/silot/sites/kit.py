"""Kits: the folder of one member of a project, as the engine and silot read it.

::

    KIT/silot/   project.json  member.json  signing.key  site.json      silot's own
    KIT/startup/ rootCA.pem  client.crt  client.key  fed_client.json    the engine's: who, where
    KIT/local/   resources.json  authorization.json  log_config.json    the engine's: what it may

What the engine can do beside carrying silot's messages is shut in every kit: no jobs (there is
nothing to launch them), no code of others, no shell commands, no stream of logs, and no classes but
silot's.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cryptography import x509
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..data.documents import complaint, read_fields
from ..data.files import write_whole
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import Key
from ..federation.protocol import COORDINATOR
from .authority import (
    ROOT,
    Authority,
    Role,
    key_bytes,
    member_of,
    new_key,
    read_certificate,
    read_key,
    request,
    revoked_in,
)
from .credential import Credential, Identity, Revoked
from .engine import local, startup, startup_name, stem

PROJECT, MEMBER, SIGNING, SITE = "project.json", "member.json", "signing.key", "site.json"
REVOKED = "revoked.crl"
OWN, STARTUP, LOCAL = "silot", "startup", "local"


def _plain(name: str) -> str:
    fits = all(c.isascii() and (c.isalnum() or c in "-_.@") for c in name)
    if not fits or not name[:1].isalnum() or len(name) > 60:
        raise ValueError("letters, digits and - _ . @ alone, at most 60, the first no sign")
    return name


Name = Annotated[str, AfterValidator(_plain)]


class Project(BaseModel):
    """Who belongs together, and where the server is: public.

    Attributes
    ----------
    name
        Of the project.
    host, port
        Where sites and askers reach the server: its one open port.
    sites, askers
        Names of the members.
    hosts
        Other names of the server, for its certificate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    host: Name
    port: int = Field(default=8102, ge=1, le=65535, strict=True)
    sites: tuple[Name, ...] = Field(min_length=1)
    askers: tuple[Name, ...] = ("analyst",)
    hosts: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Project:
        names = [*self.sites, *self.askers, self.host, COORDINATOR, "server"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} names two: sites, askers and the server need their own")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Project:
        """Read a project's file.

        Raises
        ------
        FileError
            It is missing or unreadable.
        InputError
            ``project-field``, with its place.
        """
        file = Path(path)
        return _checked(cls, read_fields(file), file)

    @property
    def members(self) -> list[tuple[str, Role]]:
        """All who may have a certificate."""
        return [
            *((name, Role.SITE) for name in self.sites),
            *((name, Role.ASKER) for name in self.askers),
            (self.host, Role.SERVER),
        ]


class Signed(BaseModel):
    """What a coordinator sends back for a request: a certificate, and what is public."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Project
    root: str
    certificate: str

    @classmethod
    def load(cls, path: str | Path) -> Signed:
        """Read the file of ``silot deploy sign``."""
        file = Path(path)
        return _checked(cls, _json(file), file)

    def save(self, path: Path) -> None:
        """Write what ``load`` reads."""
        write_whole(path, f"{self.model_dump_json(indent=2)}\n".encode())


def begin_kit(folder: str | Path, name: str, role: Role, hosts: tuple[str, ...] = ()) -> bytes:
    """Make the keys of a kit in a new folder, and return the request for its certificate.

    Raises
    ------
    FileError
        The folder is there (``file-exists``), or cannot be made.
    InputError
        The name cannot be one (``project-field``).
    """
    place = Path(folder)
    try:
        _plain(name)
    except ValueError as error:
        raise InputError(
            f"the name {name[:60]!r} cannot be: {error}.", code="project-field"
        ) from None
    if place.exists():
        raise FileError(
            f"{place} is there. Give a new folder: keys are never written over.", code="file-exists"
        )
    try:
        place.mkdir(mode=0o700, parents=True)
        for each in (OWN, STARTUP, LOCAL):
            (place / each).mkdir(mode=0o700)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}).", code="file-unwritable"
        ) from None
    private = new_key()
    write_whole(place / STARTUP / f"{stem(role)}.key", key_bytes(private), private=True)
    Key.new().save(place / OWN / SIGNING)
    _write(place / OWN / MEMBER, {"name": name, "role": str(role)})
    return request(private, name, role, hosts)


def complete_kit(folder: str | Path, signed: Signed) -> Kit:
    """Put a certificate into the kit whose request it answers.

    Raises
    ------
    MismatchError
        It is for another key or name (``certificate-key``), or not by its own root.
    """
    place = Path(folder)
    name, role = _member(place)
    certificate = _certificate(signed.certificate)
    root = _certificate(signed.root)
    private = read_key(place / STARTUP / f"{stem(role)}.key")
    member = member_of(certificate, root)
    if (member.name, member.role) != (
        name,
        role,
    ) or certificate.public_key() != private.public_key():
        raise MismatchError(
            f"the certificate is of {member.role} {member.name!r}, and not for the key of {place}. "
            "Take the one that answers its request.",
            code="certificate-key",
        )
    if (place / STARTUP / ROOT).exists() and read_certificate(place / STARTUP / ROOT) != root:
        raise MismatchError(
            f"{place} belongs to another project. Make a kit for each: `silot site request`.",
            code="kit-project",
        )
    write_whole(place / STARTUP / f"{stem(role)}.crt", signed.certificate.encode())
    write_whole(place / STARTUP / ROOT, signed.root.encode())
    _write(place / OWN / PROJECT, signed.project.model_dump())
    _write(place / STARTUP / startup_name(role), startup(signed.project, name, role))
    for file, content in local(role).items():
        _write(place / LOCAL / file, content)
    return Kit.load(place)


@dataclass(frozen=True)
class Kit:
    """A complete kit.

    Attributes
    ----------
    folder
        Where it is.
    name, role
        Whose it is.
    project
        What it belongs to.
    """

    folder: Path
    name: str
    role: Role
    project: Project

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
            begun = (place / OWN / MEMBER).is_file()
            cure = (
                "it waits for its certificate: `silot site join`" if begun
                else "give the folder of `silot site request` or `silot deploy provision`"
            )  # fmt: skip
            raise FileError(f"{place} is no complete kit: {cure}.", code="kit-format")
        found = cls(
            place.resolve(), *_member(place),
            _checked(Project, _json(place / OWN / PROJECT), place / OWN / PROJECT),
        )  # fmt: skip
        if role is not None and found.role is not role:
            raise MismatchError(
                f"{place} is the kit of {found.role} {found.name!r}, and that of "
                f"{'an' if role[0] in 'aeio' else 'a'} {role} is needed.",
                code="kit-role",
            )
        return found

    def identity(self) -> Identity:
        """Who one is with it."""
        startup = self.folder / STARTUP
        file = startup / f"{stem(self.role)}.crt"
        read_certificate(file)
        private = read_key(startup / f"{stem(self.role)}.key")
        key = Key.load(self.folder / OWN / SIGNING)
        credential = Credential.of(file.read_bytes(), private, key.public)
        revoked = self._revoked()
        return Identity(credential, key, read_certificate(startup / ROOT), revoked)

    def revoked(self) -> frozenset[int]:
        """Numbers of certificates that are no longer valid."""
        return self._revoked().numbers()

    def _revoked(self) -> Revoked:
        root = read_certificate(self.folder / STARTUP / ROOT)
        return Revoked(self.folder / OWN / REVOKED, root)

    def revoke(self, data: bytes) -> frozenset[int]:
        """Keep a list of revoked certificates; it holds at once, for a process that runs too.

        Raises
        ------
        FileError
            It is none of this project, or lacks one that was revoked before (``revocation-format``,
            ``revocation-older``).
        """
        found = revoked_in(data, read_certificate(self.folder / STARTUP / ROOT))
        if not found >= self.revoked():
            raise FileError(
                "the list lacks certificates that were revoked before: it is an older one.",
                code="revocation-older",
            )
        write_whole(self.folder / OWN / REVOKED, data)
        return found

    def destroy(self) -> None:
        """Remove the keys and all that is made of them; the log stays."""
        for name in (STARTUP, LOCAL):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in (SIGNING, PROJECT, MEMBER, SITE):
            (self.folder / OWN / name).unlink(missing_ok=True)


def role_of(folder: str | Path) -> Role:
    """Whose a kit is, complete or not.

    Raises
    ------
    FileError
        It is none (``kit-format``).
    """
    place = Path(folder)
    if not (place / OWN / MEMBER).is_file():
        raise FileError(
            f"{place} is no kit. Give the folder of `silot site request`.", code="kit-format"
        )
    return _member(place)[1]


def provision(project: Project, folder: str | Path) -> tuple[Authority, Kit]:
    """Make the authority of a project, and the kit of its server, in a new folder.

    Beside them the server's request and what answered it are kept: its certificate can be renewed
    where its kit is not.

    Raises
    ------
    FileError
        The folder is there (``file-exists``), or cannot be made.
    """
    place = Path(folder)
    server = place / "server"
    asked = begin_kit(server, project.host, Role.SERVER, ("localhost", *project.hosts))
    (place / "authority").mkdir(mode=0o700)
    authority = Authority.new(project.name)
    authority.save(place / "authority")
    signed = sign(authority, project, asked)
    write_whole(place / "server.request", asked)
    signed.save(place / "server.signed")
    return authority, complete_kit(server, signed)


def sign(authority: Authority, project: Project, asked: bytes) -> Signed:
    """Answer a request with a certificate."""
    certificate = authority.sign(asked, project.members)
    return Signed(project=project, root=authority.pem.decode(), certificate=certificate.decode())


def _member(place: Path) -> tuple[str, Role]:
    """Whose keys are in a kit."""
    file = place / OWN / MEMBER
    body = _json(file)
    try:
        return str(body["name"]), Role(body["role"])
    except (KeyError, ValueError):
        raise FileError(f"{file} is not as silot wrote it.", code="kit-format") from None


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise FileError("the file holds no certificate (PEM).", code="certificate-format") from None


def _json(file: Path) -> dict[str, Any]:
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(
            f"{file} cannot be read ({type(error).__name__}). Put it back as it was.",
            code="kit-format",
        ) from None
    if not isinstance(body, dict):
        raise FileError(f"{file} is not as silot wrote it.", code="kit-format")
    return body


def _write(file: Path, body: object) -> None:
    write_whole(file, f"{json.dumps(body, indent=2)}\n".encode())


def _checked(kind: type[Any], body: dict[str, Any], file: Path) -> Any:
    try:
        return kind(**body)
    except ValidationError as error:
        fault = complaint(error, body)
        place = ".".join(fault.place) or "the file"
        raise InputError(f"{file.name}, {place}: {fault.message}", code="project-field") from None


__all__ = ["Kit", "Project", "Signed", "begin_kit", "complete_kit", "provision", "sign"]
