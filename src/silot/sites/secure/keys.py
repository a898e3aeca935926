"""Certificates for a trial: an authority, and one certificate for each party."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from ...data.files import write_whole
from ...errors import ExtraError, FileError
from .options import ROLES

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


def make_keys(folder: str | Path, *, first_port: int = 9310) -> list[Path]:
    """Make an authority and a certificate for each party, and a ``peers.yml`` for one machine.

    For trials: all keys are made in one place. In earnest every party makes its own key, and
    the authority signs it without ever seeing it.

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
    ExtraError
        ``cryptography`` is not installed.
    """
    try:
        from cryptography import x509  # pyright: ignore[reportMissingImports]
        from cryptography.hazmat.primitives import hashes, serialization  # pyright: ignore[reportMissingImports]
        from cryptography.hazmat.primitives.asymmetric import ec  # pyright: ignore[reportMissingImports]
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ExtraError(
            "making certificates needs cryptography. Run: pip install 'silot[secure]'",
            code="extra-secure",
        ) from None
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        taken = any(place.iterdir())
    except OSError as error:
        raise FileError(
            f"{place} cannot be made a folder ({type(error).__name__}).", code="file-unwritable"
        ) from None
    if taken:
        raise FileError(
            f"{place} has files in it. Give a new folder: keys are never written over.",
            code="file-exists",
        )
    now = datetime.datetime.now(datetime.UTC)

    def name_of(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    authority = name_of(f"silot trial {os.urandom(4).hex()}")
    ca_key = ec.generate_private_key(ec.SECP256R1())

    def signed(subject: x509.Name, key: ec.EllipticCurvePrivateKey, ca: bool) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), True)
        )
        if not ca:
            both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(both), False)
        return builder.sign(ca_key, hashes.SHA256())

    pem = serialization.Encoding.PEM
    made: list[Path] = []

    def write(name: str, data: bytes, *, private: bool) -> None:
        write_whole(place / name, data, private=private)
        made.append(place / name)

    write("ca.pem", signed(authority, ca_key, True).public_bytes(pem), private=False)
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write(f"{role}.key", secret, private=True)
        write(f"{role}.pem", signed(name_of(role), key, False).public_bytes(pem), private=False)
    ports = {role: first_port + step for step, role in enumerate(ROLES)}
    write("peers.yml", _PEERS.format(**ports).encode(), private=False)
    return made
