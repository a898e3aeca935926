"""Signed messages: releases that travel as files, and what sites and askers send one another.

A message is the magic, the signer's public key (32 bytes), its signature (64 bytes) and a map in
msgpack. The signature is over the magic, the key and the SHA-256 of the map: nothing in it is
outside what was signed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ..data.files import write_whole
from ..data.foreign import parse_json, read_bytes
from ..errors import FileError, WireError
from .keys import Key, Keyring, PublicKey, fingerprint_of, is_locked, verify_signature
from .message import Buffer, join, pack_parts, unpack
from .recorded import digest_of

Kind = Literal["question", "answer", "release"]

MAGIC = b"silot-sealed-1\n"
VERSION = 1
LARGEST_RELEASE = 1 << 25
"""Bytes of a release."""

_HEAD = len(MAGIC) + 32 + 64
_LONGEST_NAME = 200
_LONGEST_TEXT = 1 << 20
_TEXTS = ("kind", "author", "written", "run", "discloses", "schema", "facts")
_KINDS: dict[object, type] = {
    **dict.fromkeys(_TEXTS, str), "version": int, "round": int, "question": bytes, "reply": bytes
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What a file says.

    Attributes
    ----------
    kind
        ``"question"``, ``"answer"`` to one, or a ``"release"``: an answer to a public question that
        nobody had to send.
    author
        Who wrote it, in its own words: the signature ties it to a key, not to a name.
    question, reply
        The message that was asked, and the one that was answered; empty in a question.
    discloses
        What is disclosed by it, in plain words.
    schema
        The body of the schema the records were read by, if there was one.
    facts
        What else is public about it, as JSON has it.
    run, round
        Run of a protocol that it belongs to, and which exchange; empty in a release.
    written
        When, UTC.
    signer
        The public key that signed it (32 bytes); empty before it is written.
    file
        Name of the file it was read from.
    """

    kind: Kind
    author: str
    question: bytes = field(repr=False)
    reply: Buffer = field(default=b"", repr=False)
    discloses: str = ""
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    run: str = ""
    round: int = 0
    written: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), compare=False
    )
    signer: bytes = field(default=b"", repr=False)
    file: str = field(default="", compare=False)

    @property
    def answers(self) -> str:
        """SHA-256 of the question."""
        return digest_of(self.question)

    @property
    def fingerprint(self) -> str:
        """Of the key that signed it."""
        return fingerprint_of(self.signer)

    def to_bytes(self, key: Key) -> Buffer:
        """Sign with a key."""
        parts = list(pack_parts({
            "version": VERSION,
            "kind": self.kind,
            "author": self.author,
            "written": self.written,
            "run": self.run,
            "round": self.round,
            "discloses": self.discloses,
            "schema": "" if self.schema is None else _json(self.schema),
            "facts": _json(self.facts),
            "question": self.question,
            "reply": self.reply,
        }))  # fmt: skip
        signing = key.public.signing
        return join((MAGIC, signing, key.sign(_bytes_to_sign(signing, *parts)), *parts))

    @classmethod
    def of_bytes(cls, data: Buffer, file: str = "the file", *, views: bool = False) -> Sealed:
        """Read what was signed, trusting nothing. With ``views`` a large reply is no copy.

        Raises
        ------
        FileError
            ``sealed-format``, ``sealed-version``, ``sealed-signature``.
        """
        head = bytes(data[:_HEAD])
        if not head.startswith(MAGIC) or len(head) < _HEAD:
            raise _malformed(file, "it does not begin as a signed file")
        signer, signature = head[len(MAGIC) : len(MAGIC) + 32], head[len(MAGIC) + 32 :]
        body = memoryview(data)[_HEAD:]
        if not verify_signature(signer, signature, _bytes_to_sign(signer, body)):
            raise FileError(
                f"{file} differs from what was signed: it was cut off or changed on its way. "
                "Request it again.",
                code="sealed-signature",
            )
        try:
            fields = unpack(body, flat=True, views=views)
        except WireError:
            raise _malformed(file, "its body cannot be read") from None
        return cls(**_fields(fields, file), signer=signer, file=file)


def write_sealed(path: str | Path, sealed: Sealed, key: Key, to: PublicKey | None = None) -> None:
    """Sign a message and write it to a file, completely or not; ``to`` encrypts it."""
    data = sealed.to_bytes(key)
    write_whole(Path(path), bytes(data if to is None else to.lock(data)))


def read_sealed(path: str | Path, *, key: Key | None = None, keys: Keyring | None = None) -> Sealed:
    """Read the file of a release and check its signature.

    Parameters
    ----------
    path
        The file.
    key
        The reader's own key, for a file that was encrypted for it.
    keys
        Keys that are trusted: the author's must be among them.

    Raises
    ------
    FileError
        It is missing, too large (``sealed-size``), of another kind (``sealed-kind``), locked
        (``sealed-locked``), changed (``sealed-signature``) or no such file (``sealed-format``).
    MismatchError
        Another key signed it (``key-mismatch``, ``key-unknown``).
    """
    file = Path(path)
    data = _bytes_of(file)
    if is_locked(data):
        if key is None:
            raise FileError(
                f"{file.name} is encrypted for a reader's key. Give yours (--key NAME.key).",
                code="sealed-locked",
            )
        data = key.unlock(data)
    sealed = Sealed.of_bytes(data, file.name)
    if sealed.kind != "release":
        raise FileError(
            f"{file.name} holds a message of kind {sealed.kind}; a file with a release is needed.",
            code="sealed-kind",
        )
    if keys is not None:
        keys.check(sealed.author, sealed.signer, file.name)
    return sealed


def _bytes_to_sign(signer: bytes, *parts: Buffer) -> bytes:
    """Return the bytes that a signature is over."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return MAGIC + signer + digest.digest()


def _bytes_of(file: Path) -> bytes:
    return read_bytes(
        file,
        lambda why: FileError(
            f"{file} cannot be read ({why}). Check the path.", code="file-missing"
        ),
        LARGEST_RELEASE,
        lambda why: FileError(
            f"{file.name} is larger than a release: {why}. Request it again.", code="sealed-size"
        ),
    )


def _fields(body: object, file: str) -> dict[str, Any]:
    """Check the fields of a body and return them."""
    parts = cast("dict[object, object]", body) if isinstance(body, dict) else {}
    version = parts.get("version")
    if type(version) is int and version != VERSION:
        raise FileError(
            f"{file} is of version {version}, and this silot reads version {VERSION}. Install the "
            "same silot on both sides.",
            code="sealed-version",
        )
    texts = {name: parts.get(name) for name in _TEXTS}
    # Large bytes may be views.
    kinds = {
        name: bytes if isinstance(value, memoryview) else type(value)
        for name, value in parts.items()
    }
    if kinds != _KINDS:
        raise _malformed(file, "its fields are not those of this format")
    if any(len(cast("str", text)) > _LONGEST_TEXT for text in texts.values()):
        raise _malformed(file, "a text is too long")
    content = cast("dict[str, Any]", dict(parts))
    if content["kind"] not in get_args(Kind) or not is_name(content["author"]):
        raise _malformed(file, "it has no kind and author")
    if not 0 <= content["round"] < 1 << 31 or not _is_time(content["written"]):
        raise _malformed(file, "its round or its time is not valid")
    del content["version"]
    content["question"] = bytes(content["question"])
    content["schema"] = _mapping(content["schema"], file) if content["schema"] else None
    content["facts"] = _mapping(content["facts"], file)
    return content


def is_name(text: str) -> bool:
    """Return whether a text can name an author: printable, not empty, not long."""
    return text.isprintable() and len(text.strip()) > 0 and len(text) <= _LONGEST_NAME


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _mapping(text: str, file: str) -> dict[str, Any]:
    content = parse_json(
        text, lambda why: _malformed(file, f"its JSON is not valid ({why})"), strict=True
    )
    if not isinstance(content, dict):
        raise _malformed(file, "its JSON is not valid")
    return cast("dict[str, Any]", content)


def _json(value: object) -> str:
    # In the order it has: that of columns counts.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _malformed(file: str, why: str) -> FileError:
    return FileError(
        f"{file} is not a signed file of silot: {why}. Request it again.", code="sealed-format"
    )


__all__ = ["Sealed", "is_name", "read_sealed", "write_sealed"]
