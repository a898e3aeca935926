"""Signed messages between members of a project: who wrote it is known by a certificate.

A message is msgpack with the version of silot, the credential of who wrote it, and a ``Sealed``,
signed by the key that the credential is of, and locked for the key of who may read it. The server
that relays it can neither read nor change it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from .. import __version__
from ..errors import MismatchError, SilotError, WireError
from ..federation.keys import Key, PublicKey, verified
from ..federation.message import pack, unpack
from ..federation.sealed import Kind, Sealed
from .authority import Member, Role, member_of, read_bytes, revoked_in

_MAGIC = b"silot-credential-1\n"
_PRESENT = b"silot-present-1\n"
_LARGEST = 1 << 14
_PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)


@dataclass(frozen=True)
class Credential:
    """A key to sign messages with, and the certificate that says whose it is.

    Attributes
    ----------
    certificate
        PEM.
    key
        The public key that signs, and that messages are locked for.
    proof
        Signature of the key by the certificate's.
    """

    certificate: bytes = field(repr=False)
    key: PublicKey
    proof: bytes = field(repr=False)

    @classmethod
    def of(cls, certificate: bytes, private: RSAPrivateKey, key: PublicKey) -> Credential:
        """Tie a key to a certificate, by the certificate's own private key."""
        return cls(certificate, key, private.sign(_said(key), _PADDING, hashes.SHA256()))

    def body(self) -> list[bytes]:
        """As messages carry it."""
        return [self.certificate, self.key.signing, self.key.locking, self.proof]

    @classmethod
    def read(cls, body: object) -> Credential:
        """What ``body`` made, or a ``WireError``."""
        parts = cast("list[object]", body) if isinstance(body, list) else []
        if len(parts) != 4 or not all(isinstance(p, bytes) and len(p) < _LARGEST for p in parts):
            raise _odd("its credential is none")
        certificate, signing, locking, proof = cast("list[bytes]", parts)
        if len(signing) != 32 or len(locking) != 32:
            raise _odd("its credential is none")
        return cls(certificate, PublicKey(signing, locking), proof)

    def member(
        self,
        root: x509.Certificate,
        revoked: Container[int] = (),
        now: datetime | None = None,
    ) -> Member:
        """Whose it is, once all that was signed is checked.

        Raises
        ------
        MismatchError
            As ``member_of``; ``certificate-proof`` where the key is not the certificate's.
        """
        certificate = _proven(self)
        if certificate is None:
            raise MismatchError(
                "the message was signed by a key that is not the certificate's. Do not use it; ask "
                "who sent it.",
                code="certificate-proof",
            )
        return member_of(certificate, root, revoked, now)


class Revoked(Container[int]):
    """Numbers of certificates that are no longer valid, as the list in a file has them now.

    Parameters
    ----------
    file
        A list of ``Authority.revoke``, read anew whenever it changed; absent, it names nobody.
    root
        Whose list it must be.
    """

    def __init__(self, file: Path, root: x509.Certificate) -> None:
        self._file, self._root = file, root
        self._seen: tuple[int, ...] = ()
        self._numbers = frozenset[int]()

    def __contains__(self, serial: object) -> bool:
        return serial in self.numbers()

    def numbers(self) -> frozenset[int]:
        """All of them.

        Raises
        ------
        FileError
            The file cannot be read (``file-missing``), or is no such list
            (``revocation-format``): nobody can be known to be valid.
        """
        try:
            state = self._file.stat()
        except FileNotFoundError:
            # What was revoked stays so.
            return self._numbers
        seen = (state.st_ino, state.st_size, state.st_mtime_ns)
        if seen != self._seen:
            self._numbers |= revoked_in(read_bytes(self._file), self._root)
            self._seen = seen
        return self._numbers


@dataclass(frozen=True)
class Identity:
    """Who one is in a project: a credential with its private key, and the project's root."""

    credential: Credential
    key: Key = field(repr=False)
    root: x509.Certificate = field(repr=False)
    revoked: Container[int] = frozenset()

    def member(self) -> Member:
        """Oneself, as others see it."""
        return self.credential.member(self.root, self.revoked)

    def write(self, sealed: Sealed, to: PublicKey) -> bytes:
        """A message, signed, for one reader."""
        return pack({
            "silot": __version__,
            "credential": self.credential.body(),
            "sealed": to.lock(sealed.to_bytes(self.key)),
        })  # fmt: skip

    def read(self, data: bytes, kinds: Collection[Kind]) -> tuple[Sealed, Credential, Member]:
        """A message for oneself, its writer checked.

        Raises
        ------
        WireError
            It is none (``wire-format``).
        MismatchError
            Of another silot (``silot-version``), or by nobody of this project
            (``certificate-...``).
        FileError
            Locked for another reader (``sealed-locked``), or changed (``sealed-signature``).
        """
        version, credential, body = opened(data)
        # Of a large message no more copies are held than must be.
        del data
        check_version(version)
        member = credential.member(self.root, self.revoked)
        plain = self.key.unlock(body)
        del body
        sealed = Sealed.of_bytes(plain, "the message")
        del plain
        if sealed.signer != credential.key.signing or sealed.author != member.name:
            raise MismatchError(
                f"the message says it is of {sealed.author[:60]!r}, and its certificate is of "
                f"{member.name!r}.",
                code="certificate-name",
            )
        if sealed.kind not in kinds:
            raise _odd(f"it holds a {sealed.kind}")
        return sealed, credential, member


def opened(data: bytes) -> tuple[str, Credential, bytes]:
    """Version, credential and locked body of a message; nothing of it is checked yet."""
    body = unpack(data, flat=True)
    parts = cast("Mapping[object, object]", body) if isinstance(body, dict) else {}
    version, sealed = parts.get("silot"), parts.get("sealed")
    if set(parts) != {"silot", "credential", "sealed"} or not isinstance(sealed, bytes):
        raise _odd("its fields are others")
    if not isinstance(version, str) or re.fullmatch(r"[0-9A-Za-z.+]{1,40}", version) is None:
        raise _odd("it has no version")
    return version, Credential.read(parts["credential"]), sealed


def barred(data: bytes, role: Role, identity: Identity) -> str:
    """The code of why the writer of a message may not take part; empty where it may.

    Empty too where a message does not say who wrote it: whoever it is for refuses that. It is not
    known here whether the writer is who it says: that is inside, and locked.
    """
    try:
        body = unpack(data, flat=True)
        parts = cast("Mapping[object, object]", body) if isinstance(body, dict) else {}
        credential = Credential.read(parts.get("credential"))
    except WireError:
        return ""
    try:
        member = credential.member(identity.root, identity.revoked)
    except SilotError as error:
        return error.code
    return "" if member.role is role else "certificate-role"


def presence(identity: Identity, place: bytes) -> bytes:
    """A word of a member that it runs at a place, signed."""
    proof = identity.key.sign(_PRESENT + place)
    return pack({"credential": identity.credential.body(), "place": place, "proof": proof})


def present(data: bytes, identity: Identity) -> tuple[str, bytes]:
    """Which site runs at which place.

    Raises
    ------
    MismatchError, WireError
        It is no such word of a site of the project.
    """
    body = unpack(data, flat=True)
    parts = cast("Mapping[object, object]", body) if isinstance(body, dict) else {}
    place, proof = parts.get("place"), parts.get("proof")
    if not isinstance(place, bytes) or not isinstance(proof, bytes):
        raise _odd("its fields are others")
    credential = Credential.read(parts.get("credential"))
    member = credential.member(identity.root, identity.revoked)
    if member.role is not Role.SITE or not verified(
        credential.key.signing, proof, _PRESENT + place
    ):
        raise MismatchError("who says where it runs is no site.", code="certificate-role")
    return member.name, place


def check_version(version: str) -> None:
    """Refuse another silot: its numbers may be others.

    Raises
    ------
    MismatchError
        ``silot-version``.
    """
    here, there = (text.split(".")[:2] for text in (__version__, version))
    if here != there:
        raise MismatchError(
            f"the message is of silot {version}, and this is {__version__}. Install the same on "
            "all machines: `silot site check` shows it.",
            code="silot-version",
        )


@lru_cache(maxsize=1024)
def _proven(credential: Credential) -> x509.Certificate | None:
    """The certificate that a credential's key is of; ``None`` where that is not proven."""
    try:
        certificate = x509.load_pem_x509_certificate(credential.certificate)
        public = certificate.public_key()
        if not isinstance(public, RSAPublicKey):
            return None
        public.verify(credential.proof, _said(credential.key), _PADDING, hashes.SHA256())
    except (InvalidSignature, ValueError, TypeError):
        return None
    return certificate


def _said(key: PublicKey) -> bytes:
    return _MAGIC + key.signing + key.locking


def _odd(why: str) -> WireError:
    return WireError(f"the bytes are no message between sites: {why}.", code="wire-format")


__all__ = [
    "Credential", "Identity", "Revoked", "barred", "check_version", "opened", "presence", "present",
]  # fmt: skip
