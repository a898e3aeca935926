"""A coordinator's folder of a project: the authority, its certificates, and the server's kit.

::

    FOLDER/project.yml   who belongs to it: members are added here
    FOLDER/authority/    rootCA.pem  rootCA.key  issued.json  revoked.crl
    FOLDER/server/       the kit of the server, if it is not moved to another machine
    FOLDER/server.request, server.signed    what it asked for, and what it is to have
"""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ..data.files import write_whole
from ..errors import FileError, InputError
from ..federation.keys import read_bytes
from .authority import ROOT_KEY, Authority, Role, verify_member
from .credential import RevocationList
from .kit import PROJECT, Kit, check_new, complete_kit, provision
from .project import Project, Signed, StoredModel, sign

PLAN, AUTHORITY, SERVER = "project.yml", "authority", "server"
REQUEST, SIGNED = "server.request", "server.signed"
ISSUED, REVOKED = "issued.json", "revoked.crl"

TEMPLATE = """\
# A project: who belongs together, and where they meet. Nothing in here is secret.
name: {name}

# The server that all connect to, as sites and askers name it, and its one open port.
host: {host}
port: 8102

# Holders of data. Each makes its own keys: silot site request NAME
sites: [north, south, west]

# Who may ask them: silot site request NAME --asker
askers: [analyst]

# Other names or addresses of the server, if it has any.
# hosts: [10.0.0.5, "2001:db8::5"]
"""


class Issued(StoredModel):
    """A certificate that was issued.

    Attributes
    ----------
    name, role
        Whose.
    serial
        Its number, in hexadecimal digits.
    until
        When it expires.
    key
        SHA-256 of the public key it is for.
    revoked
        Whether it is no longer valid.
    """

    name: str
    role: Role
    serial: str
    until: datetime
    key: str = ""
    revoked: bool = False

    @classmethod
    def of(cls, certificate: x509.Certificate, root: x509.Certificate) -> Issued:
        """Return what is kept of a certificate that an authority made."""
        member, public = verify_member(certificate, root), certificate.public_key()
        key = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(
            name=member.name, role=member.role, serial=f"{member.serial:x}", until=member.until,
            key=sha256(key).hexdigest(),
        )  # fmt: skip


class _Register(StoredModel):
    certificates: tuple[Issued, ...] = ()


@dataclass(frozen=True)
class Deployment:
    """A project as its coordinator has it."""

    folder: Path
    """Where it is."""
    project: Project
    """Who belongs to it."""
    authority: Authority
    """What certifies them."""

    @classmethod
    def new(cls, plan: str | Path, folder: str | Path) -> Deployment:
        """Make a deployment of a project's file in a new folder.

        Raises a ``FileError`` if the file cannot be read or the folder exists (``file-exists``),
        and an ``InputError`` if a field is wrong (``project-field``).
        """
        place, project = Path(folder), Project.load(plan)
        text = read_bytes(Path(plan))
        check_new(place)
        # Built beside and renamed at the end: a folder that exists is never written over, so half
        # a one would stay in the way.
        partial = place.with_name(f".{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            authority, _ = provision(project, partial)
            # The copy is named .yml whatever the plan was: every JSON text is YAML too.
            write_whole(partial / PLAN, text)
            deployment = cls(partial, project, authority)
            deployment._keep([])
            deployment._note(Signed.read(partial / SIGNED).certificate.encode())
            partial.rename(place)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return cls(place.resolve(), project, authority)

    @classmethod
    def load(cls, folder: str | Path) -> Deployment:
        """Read a deployment; members that were added to its file belong to it from now on.

        Raises a ``FileError`` if the folder is not a deployment (``deploy-folder``) or a file of it
        cannot be read, and an ``InputError`` if a field is wrong (``project-field``) or more than
        members changed (``project-changed``).
        """
        place = Path(folder)
        if not (place / PLAN).is_file() or not (place / AUTHORITY / ROOT_KEY).is_file():
            raise FileError(
                f"{place} is not a deployment. Give the folder that `silot project provision` "
                "made.",
                code="deploy-folder",
            )
        project, signed = Project.load(place / PLAN), Signed.read(place / SIGNED)
        deployment = cls(place.resolve(), project, Authority.load(place / AUTHORITY))
        if signed.project != project:
            members = {"sites": (), "askers": ()}
            before, now = (plan.model_dump() | members for plan in (signed.project, project))
            if before != now:
                changed = ", ".join(name for name in now if now[name] != before[name])
                raise InputError(
                    f"{PLAN} has another {changed} than the certificates and kits. Restore it, or "
                    "provision a new folder.",
                    code="project-changed",
                )
            if deployment.server is not None:
                project.write(deployment.server.own / PROJECT)
            signed.model_copy(update={"project": project}).write(place / SIGNED)
        return deployment

    @property
    def server(self) -> Kit | None:
        """The kit of the server; ``None`` where it was moved to another machine."""
        place = self.folder / SERVER
        return Kit.load(place, Role.SERVER) if place.exists() else None

    @property
    def issued(self) -> tuple[Issued, ...]:
        """All certificates that were issued, the first first."""
        return _Register.read(self.folder / AUTHORITY / ISSUED).certificates

    def sign(self, request: bytes) -> tuple[Signed, Issued]:
        """Certify a member, and record that.

        Raises a ``FileError`` (``request-format``), or an ``InputError``: ``request-member``, or
        ``request-revoked`` if a certificate for the same key was revoked, which others may have.
        """
        signed = sign(self.authority, self.project, request)
        return signed, self._note(signed.certificate.encode())

    def renew(self) -> tuple[Path, Issued]:
        """Certify the server again, for the key it has; return the file that its kit needs.

        A kit that is in this folder receives it at once.

        Raises a ``FileError`` if its request is missing, or none (``request-format``).
        """
        signed, issued = self.sign(read_bytes(self.folder / REQUEST))
        file = self.folder / SIGNED
        signed.write(file)
        if self.server is not None:
            complete_kit(self.folder / SERVER, signed)
        return file, issued

    def revoke(self, names: list[str]) -> tuple[Path, list[Issued]]:
        """Revoke all certificates of members; return the list of all ever revoked, and the new.

        Raises an ``InputError`` if nobody of a name has a certificate (``revoke-name``).
        """
        issued = self.issued
        members = {item.name for item in issued}
        for name in names:
            if name not in members:
                raise InputError(
                    f"no certificate was issued to {name[:60]!r}. There are certificates of "
                    f"{', '.join(sorted(members))}.",
                    code="revoke-name",
                )
        fresh = [item for item in issued if item.name in names and not item.revoked]
        now = [
            item.model_copy(update={"revoked": item.revoked or item.name in names})
            for item in issued
        ]
        file = self.folder / AUTHORITY / REVOKED
        # The list is never shortened, even if somebody lost or edited the register.
        before = RevocationList(file, self.authority.certificate).read()
        numbers = {int(item.serial, 16) for item in now if item.revoked} | before
        data = self.authority.revoke(numbers)
        self._keep(now)
        write_whole(file, data)
        if self.server is not None:
            self.server.revoke(data)
        return file, fresh

    def _note(self, certificate: bytes) -> Issued:
        new = Issued.of(x509.load_pem_x509_certificate(certificate), self.authority.certificate)
        before = self.issued
        if any(item.revoked and item.key == new.key for item in before):
            raise InputError(
                f"a certificate of {new.name!r} for this key was revoked, and somebody else may "
                "have the key. The member must make a new kit: `silot site request`.",
                code="request-revoked",
            )
        self._keep([*before, new])
        return new

    def _keep(self, issued: Iterable[Issued]) -> None:
        _Register(certificates=tuple(issued)).write(self.folder / AUTHORITY / ISSUED)


def write_template(path: Path) -> None:
    """Write a project's file to fill in.

    Raises a ``FileError`` if it exists (``file-exists``), is of another kind (``file-kind``), or
    cannot be written.
    """
    if path.suffix not in (".yml", ".yaml"):
        raise FileError(f"{path.name} is not a .yml or .yaml. Give a .yml.", code="file-kind")
    if path.exists():
        raise FileError(f"{path} already exists. Give a new name, or edit it.", code="file-exists")
    name = path.resolve().parent.name
    fits = name[:1].isalnum() and all(c.isascii() and (c.isalnum() or c in "-_.") for c in name)
    text = TEMPLATE.format(name=name[:60] if fits else "wards", host=socket.gethostname())
    write_whole(path, text.encode())


def check_port(port: int) -> None:
    """Raise where the server could not listen.

    Raises a ``FileError`` if another process listens there (``port-taken``), or it may not be used
    (``port-denied``).
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.create_server(("", port), family=family).close()
        except PermissionError:
            raise FileError(
                f"port {port} is reserved for the system. Write a port of 1024 or more in the "
                "project's file.",
                code="port-denied",
            ) from None
        except OSError as error:
            # A machine may be without IPv6.
            if family is socket.AF_INET or error.errno == errno.EADDRINUSE:
                raise port_taken(port) from None


def port_taken(port: int) -> FileError:
    """Return the error for where another process has the server's port."""
    return FileError(
        f"port {port} is taken by another process. End it (`ss -tnap 'sport = :{port}'` names "
        "it), or provision another port.",
        code="port-taken",
    )
