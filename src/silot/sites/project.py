"""A project: who belongs together, where they meet, and the files of silot's own that say so."""

from __future__ import annotations

import json
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
        raise ValueError("letters, digits and - _ . @ alone, at most 60, the first no sign")
    return name


Name = Annotated[str, AfterValidator(check_name)]


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

    Raises a ``FileError`` if it cannot be read, or is no mapping (``kit-format``).
    """

    def fail(why: str) -> FileError:
        return FileError(
            f"{file} cannot be read ({why}). Put it back as silot wrote it.", code="kit-format"
        )

    body = parse_json(read_bytes(file, fail, JSON_BYTES), fail)
    if not isinstance(body, dict):
        raise fail("it is no mapping")
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
        Other names of the server, for its certificate.
    """

    name: Name
    host: Name
    port: int = Field(default=8102, ge=1, le=65535, strict=True)
    sites: tuple[Name, ...] = Field(min_length=1)
    askers: tuple[Name, ...] = ("analyst",)
    hosts: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _check_distinct(self) -> Project:
        names = [*self.sites, *self.askers, self.host, COORDINATOR, "server"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} names two: sites, askers and the server need their own")
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
    def members(self) -> list[tuple[str, Role]]:
        """Names and roles that may have a certificate."""
        return [
            *((name, Role.SITE) for name in self.sites),
            *((name, Role.ASKER) for name in self.askers),
            (self.host, Role.SERVER),
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
