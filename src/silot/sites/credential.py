"""Signed messages between members of a project: a certificate proves who wrote one.

A message is msgpack with the version of silot, the credential of its writer, and a ``Sealed``,
signed by the key of the credential and locked for the key of its reader. The server that relays
it can neither read nor change it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from .. import __version__
from ..data.foreign import guard
from ..errors import MismatchError, SilotError, WireError
from ..federation.keys import Key, PublicKey, read_bytes, verify_signature
from ..federation.message import Buffer, pack, pack_head, unpack
from ..federation.sealed import Kind, Sealed
from .authority import Member, Role, read_revocations, verify_member

# What is signed begins with its purpose, so that no signature serves another purpose.
_MAGIC = b"silot-credential-1\n"
_PRESENT = b"silot-present-1\n"
_LARGEST = 1 << 14
_PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)


@dataclass(frozen=True)
class Credential:
    """A key that signs messages, and the certificate that says whose it is."""

    certificate: bytes = field(repr=False)
    """PEM."""
    key: PublicKey
    """The public key that signs, and that messages are locked for."""
    proof: bytes = field(repr=False)
    """Signature of the key by the certificate's."""

    @classmethod
    def of(cls, certificate: bytes, private: RSAPrivateKey, key: PublicKey) -> Credential:
        """Tie a key to a certificate, by the certificate's own private key."""
        return cls(certificate, key, private.sign(_to_sign(key), _PADDING, hashes.SHA256()))

    def pack(self) -> list[bytes]:
        """Return the fields as messages carry them."""
        return [self.certificate, self.key.signing, self.key.locking, self.proof]

    @classmethod
    def unpack(cls, body: object) -> Credential:
        """Return the credential that ``pack`` wrote, or raise a ``WireError``."""
        parts = cast("list[object]", body) if isinstance(body, list) else []
        if len(parts) != 4 or not all(isinstance(p, bytes) and len(p) < _LARGEST for p in parts):
            raise _malformed("its credential is not valid")
        certificate, signing, locking, proof = cast("list[bytes]", parts)
        if len(signing) != 32 or len(locking) != 32:
            raise _malformed("its credential is not valid")
        return cls(certificate, PublicKey(signing, locking), proof)

    def member(
        self,
        root: x509.Certificate,
        revoked: Container[int] = (),
        now: datetime | None = None,
    ) -> Member:
        """Check every signature of the credential, and return whose it is.

        Raises a ``MismatchError`` as ``verify_member`` does, or with ``certificate-proof`` if the
        key is not the certificate's.
        """
        certificate = _verify_proof(self)
        if certificate is None:
            raise MismatchError(
                "the message was signed by a key that does not belong to the certificate. Do "
                "not use it; inform the sender.",
                code="certificate-proof",
            )
        return verify_member(certificate, root, revoked, now)


class RevocationList(Container[int]):
    """Numbers of certificates that are no longer valid, as the list in a file has them now.

    Parameters
    ----------
    file
        A list of ``Authority.revoke``, read again whenever it changed; absent, it names nobody.
    root
        Whose list it must be.
    """

    def __init__(self, file: Path, root: x509.Certificate) -> None:
        self._file, self._root = file, root
        self._last_state: tuple[int, ...] = ()
        self._numbers = frozenset[int]()

    def __contains__(self, serial: object) -> bool:
        return serial in self.read()

    def read(self) -> frozenset[int]:
        """Return all numbers.

        Raises a ``FileError`` if the file cannot be read (``file-missing``), or is not such a list
        (``revocation-format``): then no certificate can be shown to be valid.
        """
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            # A certificate that was revoked stays so, even if somebody removes the file.
            return self._numbers
        state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if state != self._last_state:
            self._numbers |= read_revocations(read_bytes(self._file), self._root)
            self._last_state = state
        return self._numbers


@dataclass(frozen=True)
class Identity:
    """One's own credential with its private key, and the project's root."""

    credential: Credential
    key: Key = field(repr=False)
    root: x509.Certificate = field(repr=False)
    revoked: Container[int] = frozenset()

    def member(self) -> Member:
        """Return oneself, as others see it."""
        return self.verify(self.credential)

    def verify(self, credential: Credential) -> Member:
        """Return whose a credential is, by this project's root and revocations."""
        return credential.member(self.root, self.revoked)

    def write(self, sealed: Sealed, to: PublicKey) -> memoryview:
        """Sign a message and lock it for one reader."""
        fields = {"silot": __version__, "credential": self.credential.pack(), "sealed": b""}
        # The last field, of one byte for its type and one for its length, becomes the long one.
        start = pack(fields)[:-2]
        return to.lock(sealed.to_bytes(self.key), lambda size: start + pack_head(size))

    def read(self, data: bytes, kinds: Collection[Kind]) -> tuple[Sealed, Credential, Member]:
        """Unlock a message for oneself, and check its writer.

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
        version, credential, body = split_message(data)
        check_version(version)
        member = self.verify(credential)
        plain = self.key.unlock(body)
        # Messages may be large: each copy is dropped before the next one is made.
        del data, body
        sealed = Sealed.of_bytes(plain, "the message", views=True)
        del plain
        if sealed.signer != credential.key.signing or sealed.author != member.name:
            raise MismatchError(
                f"the message says that it is from {sealed.author[:60]!r}, but its certificate "
                f"belongs to {member.name!r}.",
                code="certificate-name",
            )
        if sealed.kind not in kinds:
            raise _malformed(f"it holds a {sealed.kind}")
        return sealed, credential, member


def split_message(data: bytes) -> tuple[str, Credential, Buffer]:
    """Return the version, credential and locked body of a message; nothing is checked yet."""
    parts = _unpack_fields(data)
    version, sealed = parts.get("silot"), parts.get("sealed")
    if set(parts) != {"silot", "credential", "sealed"} or not isinstance(
        sealed, bytes | memoryview
    ):
        raise _malformed("its fields are not those of this format")
    if not isinstance(version, str) or re.fullmatch(r"[0-9A-Za-z.+]{1,40}", version) is None:
        raise _malformed("it has no version")
    return version, Credential.unpack(parts["credential"]), sealed


def find_writer_fault(data: bytes, role: Role, identity: Identity) -> str:
    """Return the code of why the writer of a message may not take part; empty if it may.

    Empty too where a message does not say who wrote it: its reader refuses that. Whether the
    writer is who it says cannot be checked here: the signature is inside, and locked.
    """
    try:
        credential = Credential.unpack(_unpack_fields(data).get("credential"))
    except WireError:
        return ""
    try:
        member = identity.verify(credential)
    except SilotError as error:
        return error.code
    return "" if member.role is role else "certificate-role"


def write_presence(identity: Identity, place: bytes) -> bytes:
    """Sign a member's statement that it runs at a place."""
    proof = identity.key.sign(_PRESENT + place)
    return pack({"credential": identity.credential.pack(), "place": place, "proof": proof})


def read_presence(data: bytes, identity: Identity) -> tuple[str, bytes]:
    """Return which site runs at which place.

    Raises a ``MismatchError`` or ``WireError`` if it is not such a statement of a site of the
    project.
    """
    parts = _unpack_fields(data)
    place, proof = parts.get("place"), parts.get("proof")
    if not isinstance(place, bytes) or not isinstance(proof, bytes):
        raise _malformed("its fields are not those of this format")
    credential = Credential.unpack(parts.get("credential"))
    member = identity.verify(credential)
    is_signed = verify_signature(credential.key.signing, proof, _PRESENT + place)
    if member.role is not Role.SITE or not is_signed:
        raise MismatchError("the sender of an address is not a site.", code="certificate-role")
    return member.name, place


def check_version(version: str) -> None:
    """Refuse a message of another version of silot: its numbers may mean other things.

    Raises a ``MismatchError`` (``silot-version``).
    """
    own, other = (text.split(".")[:2] for text in (__version__, version))
    if own != other:
        raise MismatchError(
            f"the message is of silot {version}, and this is {__version__}. Install the same on "
            "all machines: `silot site check` shows it.",
            code="silot-version",
        )


@lru_cache(maxsize=1024)
def _verify_proof(credential: Credential) -> x509.Certificate | None:
    """Return the certificate that a credential's key is of; ``None`` where that is not proven."""
    with suppress(WireError), guard(_malformed):
        certificate = x509.load_pem_x509_certificate(credential.certificate)
        public = certificate.public_key()
        if isinstance(public, RSAPublicKey):
            public.verify(credential.proof, _to_sign(credential.key), _PADDING, hashes.SHA256())
            return certificate
    return None


def _unpack_fields(data: bytes) -> dict[Any, Any]:
    body = unpack(data, flat=True, views=True)
    return cast("dict[Any, Any]", body) if isinstance(body, dict) else {}


def _to_sign(key: PublicKey) -> bytes:
    return _MAGIC + key.signing + key.locking


def _malformed(why: str) -> WireError:
    return WireError(f"the bytes are not a message between sites: {why}.", code="wire-format")
