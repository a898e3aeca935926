"""The authority of a project: it certifies members, and certificates are verified against it.

Certificates are X.509. A private key never leaves the machine it was made on: what travels is a
request (PKCS10), and the certificate that answers it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Container
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..data.files import write_whole
from ..data.foreign import guard
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import fingerprint_of, read_bytes

ROOT, ROOT_KEY = "rootCA.pem", "rootCA.key"

# RSA, because NVFlare signs its own tokens with the certificates' keys and supports no other kind.
_BITS = 3072
_ROOT_SPAN, _SPAN = timedelta(days=3650), timedelta(days=365)
# Clocks of machines differ by seconds to a few minutes where nothing keeps them in step.
_CLOCK_TOLERANCE = timedelta(minutes=5)
_PEM = serialization.Encoding.PEM


class Role(StrEnum):
    """What the holder of a certificate may do: relay, answer, or ask."""

    SERVER = "server"
    SITE = "site"
    ASKER = "asker"


# NVFlare's names of the roles: to it, an asker is one of its users.
_ENGINE_ROLES = {Role.SERVER: "server", Role.SITE: "client", Role.ASKER: "member"}


def describe_member(role: Role, name: str) -> str:
    """Return a member in words: a project has one server, and it needs no name."""
    return str(role) if role is Role.SERVER else f"{role} {name}"


@dataclass(frozen=True)
class Member:
    """The member that a certificate names."""

    name: str
    """The common name."""
    role: Role
    """What it may do."""
    serial: int
    """Number of the certificate, by which it is revoked."""
    until: datetime
    """When it expires."""


def create_key() -> RSAPrivateKey:
    """Create a private key for a certificate."""
    return generate_private_key(public_exponent=65537, key_size=_BITS)


def make_request(key: RSAPrivateKey, name: str, role: Role, hosts: Collection[str] = ()) -> bytes:
    """Request a certificate (PKCS10, PEM), signed by the key it is for."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_make_subject(name, role))
    names = [_parse_host(host) for host in hosts]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM)


def fingerprint_certificate(certificate: x509.Certificate) -> str:
    """Return the first 128 bits of the SHA-256 of a certificate, in groups of four digits."""
    return fingerprint_of(certificate.public_bytes(serialization.Encoding.DER))


@dataclass(frozen=True)
class Authority:
    """What certifies the members of one project.

    Parameters
    ----------
    certificate
        Its own, self-signed.
    key
        Its private key: whoever has it can certify members.
    """

    certificate: x509.Certificate
    key: RSAPrivateKey

    @classmethod
    def new(cls, project: str) -> Authority:
        """Create an authority for a new project."""
        key = create_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, project)])
        builder = _begin_certificate(name, name, key.public_key(), _ROOT_SPAN, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
        builder = builder.add_extension(_make_usage(certifies=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of its certificate, to compare by telephone before trusting its members."""
        return fingerprint_certificate(self.certificate)

    def save(self, folder: str | Path) -> None:
        """Write ``rootCA.pem``, for everybody, and ``rootCA.key``, for nobody else."""
        place = Path(folder)
        write_whole(place / ROOT_KEY, encode_key(self.key), private=True)
        write_whole(place / ROOT, self.pem)

    @classmethod
    def load(cls, folder: str | Path) -> Authority:
        """Read what ``save`` wrote, or raise a ``FileError``."""
        place = Path(folder)
        return cls(read_certificate(place / ROOT), read_key(place / ROOT_KEY))

    @property
    def pem(self) -> bytes:
        """Its certificate as a file holds it."""
        return self.certificate.public_bytes(_PEM)

    def sign(self, request: bytes, allowed: Collection[tuple[str, Role]]) -> bytes:
        """Answer a request with a certificate (PEM).

        Parameters
        ----------
        request
            As ``make_request`` makes it.
        allowed
            Names and roles that are members of the project.

        Raises
        ------
        FileError
            It is not a request, or was not signed by its own key (``request-format``).
        InputError
            Its name or role is not one of the project (``request-member``).
        """

        def fail(why: str) -> FileError:
            return FileError(
                f"the file is not a certificate request of silot ({why}). Ask the member for the "
                "file that `silot site request` wrote.",
                code="request-format",
            )

        with guard(fail):
            parsed = x509.load_pem_x509_csr(request)
            public = parsed.public_key()
            if not parsed.is_signature_valid or not isinstance(public, RSAPublicKey):
                raise InvalidSignature
            name, role = _parse_subject(parsed.subject)
        if (name, role) not in set(allowed):
            raise InputError(
                f"the request is of {role} {name[:60]!r}, but the project has no such member. "
                "Add it to the project's file, or reject the request.",
                code="request-member",
            )
        builder = _begin_certificate(
            parsed.subject, self.certificate.subject, public, _SPAN, self.key.public_key()
        )
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(_make_usage(certifies=False), critical=True)
        purpose = (
            ExtendedKeyUsageOID.SERVER_AUTH if role is Role.SERVER
            else ExtendedKeyUsageOID.CLIENT_AUTH
        )  # fmt: skip
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        for extension in parsed.extensions:
            # Only the server may name hosts: another member could pose as a server of any name.
            if role is Role.SERVER and isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM)

    def revoke(self, serials: Collection[int]) -> bytes:
        """Write the complete list of revoked certificates (CRL, PEM), earlier ones included."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - _CLOCK_TOLERANCE)
            .next_update(now + _ROOT_SPAN)
        )
        for serial in sorted(set(serials)):
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM)


def read_revocations(data: bytes, root: x509.Certificate) -> frozenset[int]:
    """Return the serial numbers in a list that ``Authority.revoke`` wrote.

    Raises a ``FileError`` if it is not a list, or not of this authority (``revocation-format``).
    """

    def fail(why: str) -> FileError:
        return FileError(
            f"the file is not a list of revoked certificates of this project ({why}). Ask its "
            "coordinator for the list that `silot project revoke` wrote.",
            code="revocation-format",
        )

    with guard(fail):
        revocations = x509.load_pem_x509_crl(data)
        key = root.public_key()
        if not isinstance(key, RSAPublicKey) or not revocations.is_signature_valid(key):
            raise InvalidSignature
        return frozenset(entry.serial_number for entry in revocations)


def verify_member(
    certificate: x509.Certificate,
    root: x509.Certificate,
    revoked: Container[int] = (),
    now: datetime | None = None,
) -> Member:
    """Check the signature, validity and revocation of a certificate, and return its member.

    Raises a ``MismatchError`` with the code ``certificate-authority``, ``-early``, ``-expired``,
    ``-revoked`` or ``-role``.
    """
    now = datetime.now(UTC) if now is None else now
    issued = _verify_issuer(certificate, root)
    if issued is None:
        raise _refuse(
            "was not signed by the authority of this project. Ask its coordinator for one",
            "certificate-authority",
        )
    since, until, member = issued
    if now + _CLOCK_TOLERANCE < since:
        raise _refuse(
            f"is valid from {since:%Y-%m-%d %H:%M} UTC, but the clock of this "
            f"machine says {now:%Y-%m-%d %H:%M}. Correct the clock",
            "certificate-early",
        )
    if now > until:
        raise _refuse(
            f"expired at {until:%Y-%m-%d %H:%M} UTC. Renew it: `silot project sign` of its "
            "request (of the server: `silot project renew`), then `silot site join`; or "
            "correct this machine's clock",
            "certificate-expired",
        )
    if certificate.serial_number in revoked:
        raise _refuse("was revoked. Ask the coordinator of the project", "certificate-revoked")
    if member is None:
        raise _refuse("has an unknown role", "certificate-role")
    return member


@lru_cache(maxsize=1024)
def _verify_issuer(
    certificate: x509.Certificate, root: x509.Certificate
) -> tuple[datetime, datetime, Member | None] | None:
    """Return the span and the member that the authority certifies, or ``None`` if it does not.

    Cached, because verifying the signature takes longer than every other check of a message.
    """
    try:
        with guard(_refuse_format):
            certificate.verify_directly_issued_by(root)
            since = max(root.not_valid_before_utc, certificate.not_valid_before_utc)
            until, member = certificate.not_valid_after_utc, None
    except FileError:
        return None
    with suppress(FileError), guard(_refuse_format):
        member = Member(*_parse_subject(certificate.subject), certificate.serial_number, until)
    return since, min(root.not_valid_after_utc, until), member


def _refuse_format(why: str, name: str = "the file") -> FileError:
    return FileError(
        f"{name} is not a certificate in PEM ({why}). Give the one that `silot project sign` "
        "wrote.",
        code="certificate-format",
    )


def parse_certificate(data: bytes, name: str = "the file") -> x509.Certificate:
    """Parse a certificate, or raise a ``FileError`` (``certificate-format``)."""
    with guard(lambda why: _refuse_format(why, name)):
        certificate = x509.load_pem_x509_certificate(data)
        # Parsed when they are used first: damage must show here.
        _ = certificate.subject, certificate.issuer, certificate.extensions
        certificate.public_key()
        return certificate


def read_certificate(path: Path) -> x509.Certificate:
    """Read a certificate from a file."""
    return parse_certificate(read_bytes(path), path.name)


def read_key(path: Path) -> RSAPrivateKey:
    """Read a private key from a file."""

    def fail(why: str) -> FileError:
        return FileError(
            f"{path.name} is not a private key of a certificate ({why}). Give the one that the kit "
            "made.",
            code="key-format",
        )

    with guard(fail):
        key = serialization.load_pem_private_key(read_bytes(path), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise fail("another kind of key")
    return key


def encode_key(key: RSAPrivateKey) -> bytes:
    """Encode a private key as its file holds it."""
    return key.private_bytes(
        _PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, key: RSAPublicKey, span: timedelta, signer: RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_TOLERANCE)
        .not_valid_after(now + span)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _make_usage(*, certifies: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=not certifies,
        data_encipherment=False, key_agreement=False, key_cert_sign=certifies, crl_sign=certifies,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _make_subject(name: str, role: Role) -> x509.Name:
    return x509.Name([
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, name),
        x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, _ENGINE_ROLES[role]),
    ])  # fmt: skip


def _parse_subject(subject: x509.Name) -> tuple[str, Role]:
    """Return the name and role of a subject, or raise a ``ValueError``."""
    (name,) = (str(item.value) for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    (word,) = subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
    (role,) = (role for role, engine in _ENGINE_ROLES.items() if engine == str(word.value))
    return name, role


def _parse_host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _refuse(why: str, code: str) -> MismatchError:
    return MismatchError(f"the certificate {why}.", code=code)
