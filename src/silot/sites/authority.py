"""Who belongs to a project: its authority, certificates for keys made elsewhere, and their check.

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
from typing import cast

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
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import fingerprint_of

ROOT, ROOT_KEY = "rootCA.pem", "rootCA.key"

# RSA, for the engine signs its own tokens with the certificates' keys, and knows no other.
_BITS = 3072
_ROOT_SPAN, _SPAN = timedelta(days=3650), timedelta(days=365)
# Clocks of machines differ.
_SLACK = timedelta(minutes=5)
# A list of some 100,000 revoked certificates.
_LARGEST = 1 << 23


class Role(StrEnum):
    """What a certificate is for: to relay, to answer, or to ask."""

    SERVER = "server"
    SITE = "site"
    ASKER = "asker"


# As the engine has them: who asks is one of its users.
_ENGINE = {Role.SERVER: "server", Role.SITE: "client", Role.ASKER: "member"}


@dataclass(frozen=True)
class Member:
    """Who a certificate is of.

    Attributes
    ----------
    name
        The common name.
    role
        What it may do.
    serial
        Number of the certificate, by which it is revoked.
    until
        When it expires.
    """

    name: str
    role: Role
    serial: int
    until: datetime


def new_key() -> RSAPrivateKey:
    """A fresh private key of a certificate."""
    return generate_private_key(public_exponent=65537, key_size=_BITS)


def request(key: RSAPrivateKey, name: str, role: Role, hosts: Collection[str] = ()) -> bytes:
    """A request for a certificate (PKCS10, PEM), signed by the key it is for."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name, role))
    names = [_host(each) for each in (*hosts, *([name] if role is not Role.ASKER else []))]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def fingerprint(certificate: x509.Certificate) -> str:
    """The first 128 bits of the SHA-256 of a certificate, in groups of four digits."""
    return fingerprint_of(certificate.public_bytes(serialization.Encoding.DER))


@dataclass(frozen=True)
class Authority:
    """What certifies the members of one project.

    Parameters
    ----------
    certificate
        Its own, self-signed.
    key
        Its private key: who has it can make members.
    """

    certificate: x509.Certificate
    key: RSAPrivateKey

    @classmethod
    def new(cls, project: str) -> Authority:
        """An authority for a new project."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, project)])
        builder = _builder(name, name, key.public_key(), _ROOT_SPAN, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
        builder = builder.add_extension(_usage(certifies=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def fingerprint(self) -> str:
        """Of its certificate, to compare by telephone: whoever sends another has other members."""
        return fingerprint(self.certificate)

    def save(self, folder: str | Path) -> None:
        """Write ``rootCA.pem``, for everybody, and ``rootCA.key``, for nobody else."""
        place = Path(folder)
        write_whole(place / ROOT_KEY, key_bytes(self.key), private=True)
        write_whole(place / ROOT, self.pem)

    @classmethod
    def load(cls, folder: str | Path) -> Authority:
        """Read what ``save`` wrote.

        Raises
        ------
        FileError
            A file is missing, or is none.
        """
        place = Path(folder)
        return cls(read_certificate(place / ROOT), read_key(place / ROOT_KEY))

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, request: bytes, allowed: Collection[tuple[str, Role]]) -> bytes:
        """The certificate that a request asks for (PEM).

        Parameters
        ----------
        request
            As ``request`` makes it.
        allowed
            Names and roles that are members of the project.

        Raises
        ------
        FileError
            It is no request, or was not signed by its own key (``request-format``).
        InputError
            Its name or role is not one of the project (``request-member``).
        """
        try:
            asked = x509.load_pem_x509_csr(request)
            if not asked.is_signature_valid or not isinstance(asked.public_key(), RSAPublicKey):
                raise InvalidSignature
            name, role = _named(asked.subject)
        except (ValueError, TypeError, InvalidSignature):
            raise FileError(
                "the file is no request for a certificate of silot. Ask for one of `silot site "
                "request`.",
                code="request-format",
            ) from None
        if (name, role) not in set(allowed):
            raise InputError(
                f"the request is of {role} {name[:60]!r}, and the project has none of that name. "
                "Add it to the project's file, or refuse it.",
                code="request-member",
            )
        builder = _builder(
            asked.subject, self.certificate.subject, asked.public_key(), _SPAN,
            self.key.public_key(),
        )  # fmt: skip
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(_usage(certifies=False), critical=True)
        purpose = (
            ExtendedKeyUsageOID.SERVER_AUTH if role is Role.SERVER
            else ExtendedKeyUsageOID.CLIENT_AUTH
        )  # fmt: skip
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        for extension in asked.extensions:
            # Others could be taken for a server of the names they wish.
            if role is Role.SERVER and isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def revoke(self, serials: Collection[int]) -> bytes:
        """The list of certificates that are no longer valid (CRL, PEM): all, not only new ones."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - _SLACK)
            .next_update(now + _ROOT_SPAN)
        )
        for serial in sorted(set(serials)):
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def revoked_in(data: bytes, root: x509.Certificate) -> frozenset[int]:
    """Serial numbers in a list of ``Authority.revoke``.

    Raises
    ------
    FileError
        It is no list, or not of this authority (``revocation-format``).
    """
    try:
        found = x509.load_pem_x509_crl(data)
        key = root.public_key()
        if not isinstance(key, RSAPublicKey) or not found.is_signature_valid(key):
            raise InvalidSignature
    except (ValueError, TypeError, InvalidSignature):
        raise FileError(
            "the file is no list of revoked certificates of this project. Ask its coordinator for "
            "that of `silot deploy revoke`.",
            code="revocation-format",
        ) from None
    return frozenset(each.serial_number for each in found)


def member_of(
    certificate: x509.Certificate,
    root: x509.Certificate,
    revoked: Container[int] = (),
    now: datetime | None = None,
) -> Member:
    """Who a certificate is of, once the authority's signature, time and revocation are checked.

    Raises
    ------
    MismatchError
        ``certificate-authority``, ``certificate-early``, ``certificate-expired``,
        ``certificate-revoked``, ``certificate-role``.
    """
    now = datetime.now(UTC) if now is None else now
    found = _issued(certificate, root)
    if found is None:
        raise _refused(
            "was not signed by the authority of this project. Ask its coordinator for one",
            "certificate-authority",
        )
    since, until, member = found
    if now + _SLACK < since:
        raise _refused(
            f"is valid from {since:%Y-%m-%d %H:%M} UTC, and this machine has "
            f"{now:%Y-%m-%d %H:%M}. Set its clock",
            "certificate-early",
        )
    if now > until:
        raise _refused(
            f"expired at {until:%Y-%m-%d %H:%M} UTC. Renew it: `silot deploy sign` of its "
            "request (of the server: `silot deploy renew`), then `silot site join`; or set this "
            "machine's clock",
            "certificate-expired",
        )
    if certificate.serial_number in revoked:
        raise _refused("was revoked. Ask the coordinator of the project", "certificate-revoked")
    if member is None:
        raise _refused("has no role that silot knows", "certificate-role")
    return member


@lru_cache(maxsize=1024)
def _issued(
    certificate: x509.Certificate, root: x509.Certificate
) -> tuple[datetime, datetime, Member | None] | None:
    """From when to when an authority vouches for whom; it takes longer than all else."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return None
    since = max(root.not_valid_before_utc, certificate.not_valid_before_utc)
    until, member = certificate.not_valid_after_utc, None
    with suppress(ValueError):
        member = Member(*_named(certificate.subject), certificate.serial_number, until)
    return since, min(root.not_valid_after_utc, until), member


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate of a file."""
    try:
        return x509.load_pem_x509_certificate(read_bytes(path))
    except ValueError:
        raise FileError(
            f"{path.name} is no certificate (PEM).", code="certificate-format"
        ) from None


def read_key(path: Path) -> RSAPrivateKey:
    """A private key of a file."""
    try:
        found = serialization.load_pem_private_key(read_bytes(path), password=None)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, RSAPrivateKey):
        raise FileError(f"{path.name} is no private key of a certificate.", code="key-format")
    return found


def key_bytes(key: RSAPrivateKey) -> bytes:
    """A private key as its file has it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: object,
    span: timedelta,
    signer: RSAPublicKey,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    public = cast("RSAPublicKey", key)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + span)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(*, certifies: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=not certifies,
        data_encipherment=False, key_agreement=False, key_cert_sign=certifies, crl_sign=certifies,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _subject(name: str, role: Role) -> x509.Name:
    return x509.Name([
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, name),
        x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, _ENGINE[role]),
    ])  # fmt: skip


def _named(subject: x509.Name) -> tuple[str, Role]:
    """Name and role of a subject, or ``ValueError``."""
    (name,) = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    (word,) = [
        str(each.value) for each in subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
    ]
    (role,) = [role for role, engine in _ENGINE.items() if engine == word]
    return name, role


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def read_bytes(path: Path) -> bytes:
    """A small file, or its beginning."""
    try:
        with path.open("rb") as handle:
            return handle.read(_LARGEST)
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({type(error).__name__}). Check the path.", code="file-missing"
        ) from None


def _refused(why: str, code: str) -> MismatchError:
    return MismatchError(f"the certificate {why}.", code=code)


__all__ = ["Authority", "Member", "Role", "member_of", "new_key", "request", "revoked_in"]
