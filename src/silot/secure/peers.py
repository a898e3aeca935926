"""Who computes together, where, and by which certificates: ``peers.yml``."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..data.documents import complaint, read_fields
from ..errors import FileError, InputError
from .options import ROLES, Role


class Tls(BaseModel):
    """Files of this party's certificate; ``{role}`` in a path stands for its role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ca: str
    certificate: str
    key: str


class Peers(BaseModel):
    """Addresses of the computing parties, ``host:port``, and this party's certificates.

    All links are encrypted, and each end shows a certificate of the same authority whose common
    name is the party's role.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    a: str
    b: str
    third: str | None = None
    tls: Tls
    session: str = Field(default="silot", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    folder: Path = Path()

    @field_validator("a", "b", "third")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None:
            host, _, port = value.rpartition(":")
            known = port.isascii() and port.isdigit() and len(port) <= 5
            if not host or not known or not 0 < int(port) < 65536:
                raise ValueError("an address is host:port")
        return value

    @classmethod
    def load(cls, path: str | Path) -> Peers:
        """Read a ``peers.yml``.

        Raises
        ------
        FileError
            As ``read_fields``; code ``"peers-invalid"`` where a field is missing or wrong.
        """
        file = Path(path)
        body = read_fields(file)
        try:
            return cls(**{**body, "folder": file.resolve().parent})
        except ValidationError as error:
            found = complaint(error, body)
            raise FileError(
                f"{file.name}, {'.'.join(found.place)}: {found.message} It needs a, b (and third) "
                "as host:port, and tls with ca, certificate and key.",
                code="peers-invalid",
            ) from None

    def addresses(self, parties: int) -> dict[str, str]:
        """Addresses by role, in the order of roles."""
        given = dict(zip(ROLES, (self.a, self.b, self.third)[:parties], strict=False))
        found: dict[str, str] = {}
        for role, address in given.items():
            if address is None:
                raise InputError(
                    f"peers.yml has no address of {role!r}, which computes too. Add it, or use "
                    "the two-party protocol.",
                    code="peers-invalid",
                )
            found[role] = address
        if len(set(found.values())) < len(found):
            raise InputError("two parties have one address in peers.yml.", code="peers-invalid")
        return found

    def files(self, role: Role) -> tuple[Path, Path, Path]:
        """Authority, certificate and key of a role; a missing file is a ``FileError``."""
        tls = self.tls
        names = [text.replace("{role}", role) for text in (tls.ca, tls.certificate, tls.key)]
        ca, certificate, key = (self.folder / name for name in names)
        for path in (ca, certificate, key):
            if not path.is_file():
                raise FileError(
                    f"{path} does not exist. `silot secure-keys` makes certificates for a trial.",
                    code="file-missing",
                )
        return ca, certificate, key
