"""Keys that sign files, and that files are locked to: one file to keep, one to give away."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..data.files import write_whole
from ..data.foreign import guard
from ..errors import FileError, MismatchError
from .message import Buffer, make_buffer

KEY, PUBLIC = ".key", ".pub"
_WORD = "silot-key-1"
_LOCK = b"silot-locked-1\n"
_TAG = 16
# A file of keys is shorter.
_LARGEST = 4096


@dataclass(frozen=True)
class PublicKey:
    """Public part of a key: checks its signatures, and encrypts files for its owner.

    Attributes
    ----------
    signing
        Ed25519 public key (32 bytes).
    locking
        X25519 public key (32 bytes).
    """

    signing: bytes
    locking: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The first 128 bits of the SHA-256 of the signing key, to compare by telephone."""
        return fingerprint_of(self.signing)

    @property
    def text(self) -> str:
        """One line, as it is in a ``.pub`` file."""
        return f"{_WORD} {base64.b64encode(self.signing + self.locking).decode()}"

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a ``.pub`` file.

        Raises
        ------
        FileError
            It is missing (``file-missing``), or no public key (``key-format``).
        """
        words = read_bytes(Path(path), _LARGEST).split()
        try:
            raw = base64.b64decode(words[1], validate=True) if words[0] == _WORD.encode() else b""
        except (IndexError, ValueError):
            raw = b""
        if len(raw) != 64:
            raise _no_key(
                path, "a public key of silot (one line, NAME.pub of `silot release keys NAME`)"
            )
        return cls(raw[:32], raw[32:])

    def lock(self, data: Buffer, before: Callable[[int], bytes] = lambda _: b"") -> memoryview:
        r"""Encrypt data for the owner of the key.

        A fresh X25519 key e is made, and with s the shared secret of e and the receiver's key R,

        .. math:: k = \mathrm{HKDF}_{SHA256}(s;\ \mathrm{salt} = e_{pub} R,\
                  \mathrm{info} = \mathrm{magic})

        encrypts by ChaCha20-Poly1305, with a nonce of zeros (no key is used twice) and magic and
        :math:`e_{pub}` authenticated. The file is magic, :math:`e_{pub}`, and that; ``before`` it
        comes what the function returns of its length.
        """
        fresh = X25519PrivateKey.generate()
        public = fresh.public_key().public_bytes_raw()
        shared = fresh.exchange(X25519PublicKey.from_public_bytes(self.locking))
        secret = _derive_cipher(shared, public + self.locking)
        head = _LOCK + public
        # Written in place, because data may be large.
        size = len(head) + len(data) + _TAG
        start = before(size) + head
        locked = make_buffer(len(start) - len(head) + size)
        locked[: len(start)] = start
        secret.encrypt_into(bytes(12), data, head, locked[len(start) :])
        return locked


class Key:
    """A private key, of 32 random bytes.

    Its files are ``NAME.key`` (PKCS8 PEM, readable for its owner alone: who has it can sign in
    this name and read what was encrypted for it) and ``NAME.pub``, to be given to others.

    Examples
    --------
    >>> key = Key.new()
    >>> key.public.lock(b"for one pair of eyes") != key.public.lock(b"for one pair of eyes")
    True
    >>> bytes(key.unlock(key.public.lock(b"for one pair of eyes")))
    b'for one pair of eyes'
    """

    def __init__(self, signing: Ed25519PrivateKey) -> None:
        self._signing = signing
        seed = signing.private_bytes_raw()
        locking = HKDF(hashes.SHA256(), 32, None, b"silot-key-1 x25519").derive(seed)
        self._locking = X25519PrivateKey.from_private_bytes(locking)
        self.public = PublicKey(
            signing.public_key().public_bytes_raw(), self._locking.public_key().public_bytes_raw()
        )

    def __repr__(self) -> str:
        return f"Key({self.public.fingerprint})"

    @classmethod
    def new(cls) -> Key:
        """Make a key of fresh random bytes."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> Key:
        """Read a ``.key`` file.

        Raises
        ------
        FileError
            It is missing (``file-missing``), no key (``key-format``), or others may read it too
            (``key-open``).
        """
        file = Path(path)
        data = read_bytes(file, _LARGEST)
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise FileError(
                f"other users can read {file.name}, and could sign in its name. Remove their "
                "permissions (chmod 600), or make a new key.",
                code="key-open",
            )
        needed = "an unencrypted Ed25519 key (NAME.key of `silot release keys NAME`)"
        with guard(lambda _: _no_key(file, needed)):
            private_key = serialization.load_pem_private_key(data, password=None)
        if not isinstance(private_key, Ed25519PrivateKey):
            raise _no_key(file, needed)
        return cls(private_key)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write ``NAME.key`` and ``NAME.pub`` beside it; neither may be there.

        Raises
        ------
        FileError
            One of them is there (``key-exists``), or cannot be written.
        """
        file = Path(path)
        beside = file.with_suffix(PUBLIC)
        for path in (file, beside):
            if path.exists():
                raise FileError(
                    f"{path} already exists, and silot never overwrites keys: use it, or give "
                    "another name.",
                    code="key-exists",
                )
        pem = self._signing.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_whole(file, pem, private=True)
        write_whole(beside, f"{self.public.text} {file.stem}\n".encode())
        return file, beside

    def sign(self, data: bytes) -> bytes:
        """Sign data with Ed25519 (64 bytes)."""
        return self._signing.sign(data)

    def own(self, salt: bytes) -> ChaCha20Poly1305:
        """Derive a cipher that only the owner can use, by HKDF of the key and a salt."""
        seed = self._signing.private_bytes_raw()
        return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, salt, b"silot-key-1 own").derive(seed))

    def unlock(self, data: Buffer) -> memoryview:
        """Decrypt what was encrypted for this key.

        Raises
        ------
        FileError
            It was encrypted for another key, or was changed since (``sealed-locked``).
        """
        start = len(_LOCK) + 32
        head = bytes(data[:start])
        public = head[len(_LOCK) :]
        try:
            shared = self._locking.exchange(X25519PublicKey.from_public_bytes(public))
            secret = _derive_cipher(shared, public + self.public.locking)
            locked = memoryview(data)[start:]
            plain = make_buffer(len(locked) - _TAG)
            secret.decrypt_into(bytes(12), locked, head, plain)
            return plain.toreadonly()
        except (InvalidTag, ValueError):
            raise FileError(
                "the file was encrypted for another key, or was changed since. Ask its author to "
                f"encrypt it for the key {self.public.fingerprint}.",
                code="sealed-locked",
            ) from None


def is_locked(data: bytes) -> bool:
    """Return whether data were locked for somebody."""
    return data.startswith(_LOCK)


def verify_signature(signing: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether a signature is that of a key over data."""
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint_of(signing: bytes) -> str:
    """Return the first 128 bits of the SHA-256 of a signing key, in groups of four digits."""
    digits = hashlib.sha256(signing).hexdigest()[:32]
    return "-".join(digits[k : k + 4] for k in range(0, 32, 4))


@dataclass(frozen=True)
class Keyring:
    """Trusted public keys by the names of their owners."""

    keys: Mapping[str, PublicKey] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def load(cls, folder: str | Path) -> Keyring:
        """Read all ``NAME.pub`` of a folder.

        Raises
        ------
        FileError
            The folder has none (``key-none``), or one that is not a key (``key-format``).
        """
        place = Path(folder)
        files = sorted(place.glob(f"*{PUBLIC}")) if place.is_dir() else []
        if not files:
            raise FileError(
                f"{place} is not a folder with public keys (NAME.pub). Put the public keys of "
                "the sites into one.",
                code="key-none",
            )
        return cls({file.stem: PublicKey.load(file) for file in files})

    def name_of(self, signing: bytes) -> str:
        """Return the name that a key is trusted for; empty where it is not one of them."""
        return next((name for name, key in self.keys.items() if key.signing == signing), "")

    def check(self, name: str, signing: bytes, file: str) -> None:
        """Raise where a file was not signed by the key that is trusted for its author.

        Raises
        ------
        MismatchError
            ``key-unknown``, ``key-mismatch``.
        """
        if name not in self.keys:
            raise MismatchError(
                f"{file} says that it is from {name!r}, but there is no {name}.pub among the "
                "trusted keys. Request its public key from that site.",
                code="key-unknown",
            )
        if self.keys[name].signing != signing:
            raise MismatchError(
                f"{file} says that it is from {name!r}, but was signed by another key "
                f"({fingerprint_of(signing)}) than {name}.pub. Do not use it; inform that site.",
                code="key-mismatch",
            )


def _derive_cipher(shared: bytes, salt: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, salt, _LOCK).derive(shared))


def read_bytes(file: Path, most: int = 1 << 23) -> bytes:
    """Read a file, or the first ``most`` bytes of a longer one.

    By default a list of some 100,000 revoked certificates fits.
    """
    try:
        with file.open("rb") as handle:
            return handle.read(most)
    except OSError as error:
        raise FileError(
            f"{file} cannot be read ({type(error).__name__}). Check the path.", code="file-missing"
        ) from None


def _no_key(path: str | Path, needed: str) -> FileError:
    return FileError(f"{Path(path).name} is not {needed}.", code="key-format")


__all__ = ["Key", "Keyring", "PublicKey", "fingerprint_of", "read_bytes"]
