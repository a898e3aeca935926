"""Who computes together, where, and by which certificates: ``peers.yml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...data.documents import complaint, read_fields
from ...errors import FileError, InputError
from ...federation.addresses import Address
from .options import ROLES, Role

Files = tuple[Path, Path, Path]


@dataclass(frozen=True, kw_only=True)
class Links:
    """Where the parties of one run are, and how each proves which one it is.

    Attributes
    ----------
    addresses
        ``host:port`` by role; one's own is where one listens.
    names
        By role, the common name of the certificate that a party must show.
    files
        One's own authority, certificate and key.
    session
        Name of the run.
    source
        What says all that, for who is to correct it.
    owner
        Whose a certificate (DER) is, or ``None`` if it is not to be trusted; by default whatever
        the authority signed is.
    """

    addresses: Mapping[str, str]
    names: Mapping[str, str]
    files: Files
    session: str = "silot"
    source: str = "peers.yml"
    owner: Callable[[bytes], str | None] | None = None


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

    a: Address
    b: Address
    third: Address | None = None
    tls: Tls
    session: str = Field(default="silot", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    folder: Path = Path()

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

    def links(self, role: Role, parties: int) -> Links:
        """What a party of a role needs to link with the others."""
        addresses = self.addresses(parties)
        names = {each: each for each in addresses}
        return Links(addresses=addresses, names=names, files=self.files(role), session=self.session)

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

    def files(self, role: Role) -> Files:
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
