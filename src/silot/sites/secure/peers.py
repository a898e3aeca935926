"""Who computes together, where, and by which certificates: ``peers.yml``."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...data.documents import complaint, read_fields
from ...data.files import write_whole
from ...errors import FileError, InputError
from ...federation.addresses import Address
from .options import ROLES, Role

Files = tuple[Path, Path, Path]

# Days that certificates of a trial are valid.
_DAYS = 30
_PEERS = """\
# Addresses of the parties, and the certificates of the one that reads this file.
a: 127.0.0.1:{a}
b: 127.0.0.1:{b}
third: 127.0.0.1:{third}
tls:
  ca: ca.pem
  certificate: "{{role}}.pem"
  key: "{{role}}.key"
"""


@dataclass(frozen=True, kw_only=True)
class Links:
    """Where the parties of one run are, and how each proves which one it is."""

    addresses: Mapping[str, str]
    """``host:port`` by role; one's own is where one listens."""
    names: Mapping[str, str]
    """By role, the common name of the certificate that a party must show."""
    files: Files
    """One's own authority, certificate and key."""
    session: str = "silot"
    """Name of the run."""
    source: str = "peers.yml"
    """The file that says all that, for error messages."""
    owner: Callable[[bytes], str | None] | None = None
    """Returns whose a certificate (DER) is, or ``None`` if it is not to be trusted; by default
    whatever the authority signed is."""


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

        Raises a ``FileError`` as ``read_fields`` does, or if a field is missing or wrong (``peers-
        invalid``).
        """
        file = Path(path)
        body = read_fields(file)
        try:
            return cls(**{**body, "folder": file.resolve().parent})
        except ValidationError as error:
            fault = complaint(error, body)
            raise FileError(
                f"{file.name}, {'.'.join(fault.place)}: {fault.message} It needs a, b (and third) "
                "as host:port, and tls with ca, certificate and key.",
                code="peers-invalid",
            ) from None

    def links(self, role: Role, parties: int) -> Links:
        """Return what a party of a role needs to link with the others."""
        addresses = self.addresses(parties)
        names = {name: name for name in addresses}
        return Links(addresses=addresses, names=names, files=self.files(role), session=self.session)

    def addresses(self, parties: int) -> dict[str, str]:
        """Return addresses by role, in the order of roles."""
        addresses: dict[str, str] = {}
        for role, address in zip(ROLES, (self.a, self.b, self.third)[:parties], strict=False):
            if address is None:
                raise InputError(
                    f"peers.yml has no address of {role!r}, which computes too. Add it, or use "
                    "the two-party protocol.",
                    code="peers-invalid",
                )
            addresses[role] = address
        if len(set(addresses.values())) < len(addresses):
            raise InputError("two parties have one address in peers.yml.", code="peers-invalid")
        return addresses

    def files(self, role: Role) -> Files:
        """Return the authority, certificate and key of a role, which must exist."""
        tls = self.tls
        names = [text.replace("{role}", role) for text in (tls.ca, tls.certificate, tls.key)]
        ca, certificate, key = (self.folder / name for name in names)
        for path in (ca, certificate, key):
            if not path.is_file():
                raise FileError(
                    f"{path} does not exist. `silot distance secure-keys` makes certificates for a "
                    "trial.",
                    code="file-missing",
                )
        return ca, certificate, key


def make_keys(folder: str | Path, *, first_port: int = 9310) -> list[Path]:
    """Make an authority and a certificate for each party, and a ``peers.yml`` for one machine.

    For trials: all keys are made in one place. In earnest every party makes its own key, and
    the authority signs it without ever having it.

    Parameters
    ----------
    folder
        A new or empty folder. Keys in it are readable for their owner alone.
    first_port
        Port of ``a``; ``b`` and ``third`` get the next two.

    Returns
    -------
    list of Path
        The files made.

    Raises
    ------
    FileError
        The folder has files in it, or cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        is_empty = not any(place.iterdir())
    except OSError as error:
        raise FileError(
            f"{place} cannot be made a folder ({type(error).__name__}).", code="file-unwritable"
        ) from None
    if not is_empty:
        raise FileError(
            f"{place} is not empty. Give a new folder: silot never overwrites keys.",
            code="file-exists",
        )
    authority = f"silot trial {os.urandom(4).hex()}"
    ca_key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    paths: list[Path] = []

    def write(name: str, data: bytes, *, private: bool = False) -> None:
        write_whole(place / name, data, private=private)
        paths.append(place / name)

    certificate = _certify(authority, ca_key, authority, ca_key, is_authority=True)
    write("ca.pem", certificate.public_bytes(pem))
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write(f"{role}.key", secret, private=True)
        certificate = _certify(role, key, authority, ca_key, is_authority=False)
        write(f"{role}.pem", certificate.public_bytes(pem))
    ports = {role: first_port + step for step, role in enumerate(ROLES)}
    write("peers.yml", _PEERS.format(**ports).encode())
    return paths


def _certify(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    authority: str,
    ca_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    """Certify a key for a trial: that of the authority itself, or that of a party."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (subject, authority)]
    now = datetime.datetime.now(datetime.UTC)
    length = 0 if is_authority else None
    builder = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=length), True)
    )
    if not is_authority:
        # Each party is a client of some links and the server of others.
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), False)
    return builder.sign(ca_key, hashes.SHA256())
