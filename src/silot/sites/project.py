"""A project: who belongs together, where they meet, and the files of silot's own that say so."""

from __future__ import annotations

import ipaddress
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..data.documents import complaint, read_fields
from ..data.files import write_whole
from ..data.foreign import JSON_BYTES, parse_json, read_bytes
from ..errors import FileError, InputError
from ..federation.protocol import COORDINATOR
from .authority import Authority, Role


def check_name(name: str) -> str:
    """Return a name that may stand in certificates and paths, or raise a ``ValueError``."""
    is_plain = all(c.isascii() and (c.isalnum() or c in "-_.@") for c in name)
    if not is_plain or not name[:1].isalnum() or len(name) > 60:
        raise ValueError(
            "only letters, digits and - _ . @, at most 60; the first is a letter or digit"
        )
    return name


Name = Annotated[str, AfterValidator(check_name)]

SERVER = "server"
"""Name of the server in its certificate: no member may have it, and addresses may be any."""

# RFC 1035: 63 letters a label, 253 in all. An underscore is in names of machines that exist.
_LONGEST_HOST = 253
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def check_host(text: str) -> str:
    """Return a name or an address of a server as certificates have it, or raise a ``ValueError``.

    Small letters, no dot at the end, no brackets around an IPv6 address, and that in its shortest
    form.
    """
    host = text.lower().removesuffix(".")
    with suppress(ValueError):
        # A zone, as in fe80::1%eth0, is a word of one machine: certificates have none.
        is_bracketed = host.startswith("[") and host.endswith("]")
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
        if "%" not in host:
            return str(address)
    labels = host.split(".")
    # A last label of digits alone is a mistyped IPv4 address.
    is_name = all(_LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit()
    if not is_name or len(host) > _LONGEST_HOST:
        raise ValueError(
            "a DNS name is needed (at most 253 letters, digits, - and dots, 63 between "
            "two dots; others as xn--...), or an IPv4 or IPv6 address without a zone"
        )
    return host


Host = Annotated[str, AfterValidator(check_host)]


def bracket(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def validate_fields(kind: type[Any], body: dict[str, Any], file: Path) -> Any:
    """Return a model of the fields of a file, or raise what is wrong (``project-field``)."""
    try:
        return kind(**body)
    except ValidationError as error:
        fault = complaint(error, body)
        place = ".".join(fault.place) or "the file"
        raise InputError(f"{file.name}, {place}: {fault.message}", code="project-field") from None


def read_json(file: Path) -> dict[str, Any]:
    """Return the fields of a JSON file that silot wrote.

    Raises a ``FileError`` if it cannot be read, or is not a mapping (``kit-format``).
    """

    def fail(why: str) -> FileError:
        return FileError(
            f"{file} cannot be read ({why}). Restore the file that silot wrote.", code="kit-format"
        )

    body = parse_json(read_bytes(file, fail, JSON_BYTES), fail)
    if not isinstance(body, dict):
        raise fail("it is not a mapping")
    return body


def write_json(file: Path, body: object) -> None:
    """Write plain values to a file that ``read_json`` reads."""
    write_whole(file, f"{json.dumps(body, indent=2)}\n".encode())


class StoredModel(BaseModel):
    """Fields that silot keeps in a JSON file of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read what ``write`` wrote, or raise as ``read_json`` and ``validate_fields``."""
        return validate_fields(cls, read_json(file), file)

    def write(self, file: Path, *, private: bool = False) -> None:
        """Write the fields to a file, which ``private`` keeps from other users."""
        write_whole(file, f"{self.model_dump_json(indent=2)}\n".encode(), private=private)


class Project(StoredModel):
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
        Other names and addresses of the server, for its certificate.
    """

    name: Name
    host: Host
    port: int = Field(default=8102, ge=1, le=65535, strict=True)
    sites: tuple[Name, ...] = Field(min_length=1)
    askers: tuple[Name, ...] = ("analyst",)
    hosts: tuple[Host, ...] = ()

    @model_validator(mode="after")
    def _check_distinct(self) -> Project:
        names = [*self.sites, *self.askers, COORDINATOR, SERVER]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{twice[0]!r} names two members: every site, every asker and the server needs "
                "its own name"
            )
        return self

    @classmethod
    def load(cls, path: str | Path) -> Project:
        """Read the file in which a coordinator describes a project (YAML or JSON).

        Raises a ``FileError`` if it is missing or unreadable, and an ``InputError`` if a field is
        wrong (``project-field``, with its place).
        """
        file = Path(path)
        return validate_fields(cls, read_fields(file), file)

    @property
    def address(self) -> str:
        """Where the server is reached, as ``host:port`` or ``[host]:port``."""
        return f"{bracket(self.host)}:{self.port}"

    @property
    def members(self) -> list[tuple[str, Role]]:
        """Names and roles that may have a certificate."""
        return [
            *((name, Role.SITE) for name in self.sites),
            *((name, Role.ASKER) for name in self.askers),
            (SERVER, Role.SERVER),
        ]


class Signed(StoredModel):
    """What a coordinator sends back for a request: a certificate, and what is public."""

    project: Project
    root: str
    certificate: str


def sign(authority: Authority, project: Project, request: bytes) -> Signed:
    """Answer a request with a certificate, if it is of a member of the project."""
    certificate = authority.sign(request, project.members)
    return Signed(project=project, root=authority.pem.decode(), certificate=certificate.decode())
