"""What a site keeps of questions, answers, decisions and charges, as files for others.

A file of a trail is JSON, with one row of the ledger on each line. The site signs the hashes before
the first row and of the last one: the chain of hashes ties all rows in between to them.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Literal, get_args

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from ..data.files import open_whole
from ..data.foreign import parse_json
from ..data.sheets import csv_lines, write_workbook
from ..errors import FileError, InputError
from ..federation.keys import verify_signature
from ..privacy.ledger import Ledger
from ..privacy.ledger_file import COLUMNS, Chain, Row
from .authority import Role, fingerprint_certificate, parse_certificate
from .credential import Credential
from .kit import Kit

VERSION = 1
Format = Literal["json", "csv", "xlsx"]

_MAGIC = b"silot-trail-1\n"
_END = "]}"
# Bytes of a line, at most.
_LONGEST = 1 << 20
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST_SPAN = timedelta(days=366)
_TYPES = {"sequence": int, "mu": float, "total": float}
_FACTS = ("time", "event", "asker", "question", "level", "run", "round", "bytes", "code", "refused",
          "by", "until")  # fmt: skip
_SHEET = ("sequence", *_FACTS, "mu", "total", "key", "digest", "parameters", "previous", "hash")


@dataclass(frozen=True)
class Trail:
    """Rows of a site's ledger, from one to another.

    Attributes
    ----------
    project, site
        Whose it is.
    written
        When, as the site says (UTC).
    first, last
        Numbers of the first and the last row.
    before, head
        The hash that the first row follows, and that of the last row.
    """

    project: str
    site: str
    written: str
    first: int
    last: int
    before: str
    head: str

    @property
    def summary(self) -> dict[str, str]:
        """The numbers of its rows, and the hashes before them and of the last."""
        rows = f"{self.first} to {self.last}, the chain is intact"
        return {"rows": rows, "after": self.before, "head": self.head}


def parse_day(text: str) -> date:
    """Read the date of a first or last row."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{text[:20]!r} is not a date. Give one such as 2026-01-31.", code="trail-day"
        ) from None


def parse_span(text: str) -> timedelta:
    """Read how long an approval is valid: ``30m``, ``1h``, ``2d``."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text.strip())
    span = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else _LONGEST_SPAN * 2
    if span > _LONGEST_SPAN:
        raise InputError(
            f"--for is {text[:20]!r}; minutes, hours or days are needed, 30m, 1h or 2d, a year at "
            "most.",
            code="approval-span",
        )
    return span


def choose_format(path: Path, format: str | None) -> Format:
    """Return the format that is requested, or that a file's name has."""
    word = path.suffix.lower().removeprefix(".") if format is None else format
    for name in get_args(Format):
        if name == word:
            return name
    raise InputError(
        f"{path.name} is not a .json, .csv or .xlsx. Give --format, or another name.",
        code="trail-kind",
    )


def export_trail(
    ledger: Ledger, kit: Kit, path: Path, format: Format, first: int, last: int
) -> Trail:
    """Write rows of a site's ledger to a file, whole or not at all; JSON is signed."""
    ends = [*ledger.read_span(first, first), *ledger.read_span(last, last)]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    trail = Trail(
        kit.project.name, kit.name, now, first, last, ends[0].previous, ends[-1].hash
    )  # fmt: skip
    rows = ledger.read_span(first, last)
    cells = (_list_cells(row) for row in rows)
    with open_whole(path, private=True) as file:
        if format == "json":
            _write_signed(file, kit, trail, rows)
        elif format == "csv":
            file.writelines(line.encode(errors="replace") for line in csv_lines(_SHEET, cells))
        else:
            write_workbook(file, "trail", _SHEET, cells, is_long=True)
    return trail


def verify_trail(path: Path, root: x509.Certificate | None = None) -> tuple[Trail, str]:
    """Check the signature and every row of a file that ``export_trail`` wrote as JSON.

    Parameters
    ----------
    path
        The file.
    root
        The certificate of the project's authority; by default the one in the file.

    Returns
    -------
    tuple
        What the file holds, and the fingerprint of the authority that certified the site.

    Raises
    ------
    FileError
        It is not such a file (``trail-format``), its signature is not the site's
        (``trail-signature``), or a row was changed, removed or put in (``trail-broken``).
    MismatchError
        The site's certificate is not the authority's (``certificate-...``).
    """
    try:
        with path.open("rb") as file:
            lines = _read_lines(file, path.name)
            trail, root = _read_head(next(lines, ""), path.name, root)
            _follow(lines, trail, path.name)
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({type(error).__name__}). Check the path and the permissions.",
            code="file-missing",
        ) from None
    return trail, fingerprint_certificate(root)


def _list_cells(row: Row) -> dict[str, object]:
    facts = row.facts
    cells = {name: getattr(row, name) for name in _SHEET if hasattr(row, name)}
    return {name: facts.get(name, "") for name in _FACTS} | cells


def _write_signed(file: IO[bytes], kit: Kit, trail: Trail, rows: Iterator[Row]) -> None:
    identity = kit.identity()
    # Raises where the certificate is not valid now: nobody could trust the signature.
    identity.member()
    credential = identity.credential
    head = {
        "silot_trail": VERSION,
        "signed": asdict(trail),
        "signature": _encode(identity.key.sign(_to_sign(trail))),
        "key": [_encode(part) for part in credential.pack()[1:]],
        "certificate": credential.certificate.decode(),
        "root": identity.root.public_bytes(Encoding.PEM).decode(),
    }
    file.write(f'{json.dumps(head)[:-1]}, "rows": ['.encode())
    for number, row in enumerate(rows):
        file.write(f"{',' if number else ''}\n{json.dumps(asdict(row))}".encode())
    file.write(f"\n{_END}\n".encode())


def _read_lines(file: IO[bytes], name: str) -> Iterator[str]:
    number = 0
    while line := file.readline(_LONGEST + 1):
        number += 1
        if len(line) > _LONGEST or not line.endswith(b"\n"):
            raise _malformed(name, number, "it is too long, or was cut off")
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise _malformed(name, number, "it is no UTF-8") from None


def _read_head(
    line: str, name: str, root: x509.Certificate | None
) -> tuple[Trail, x509.Certificate]:
    """Return what the first line says, once it is certain who signed it."""

    def fail(why: str) -> FileError:
        return _malformed(name, 1, why)

    body = parse_json(f"{line}{_END}", fail, strict=True)
    names = {"silot_trail", "signed", "signature", "key", "certificate", "root", "rows"}
    if not isinstance(body, dict) or set(body) != names:
        raise fail("its fields are others")
    if body["silot_trail"] != VERSION:
        raise FileError(
            f"{name} was written by another version of silot. Read it with that version.",
            code="file-version",
        )
    signed, kinds = body["signed"], {item.name: item.type for item in fields(Trail)}
    if not isinstance(signed, dict) or {key: type(value).__name__ for key, value in signed.items()
                                        } != kinds:  # fmt: skip
        raise fail("its fields are others")
    trail = Trail(**signed)
    try:
        parts = [b64decode(part, validate=True) for part in body["key"]]
        signature, written = b64decode(body["signature"]), datetime.fromisoformat(trail.written)
    except (TypeError, ValueError):
        raise fail("a field cannot be decoded") from None
    credential = Credential.unpack([str(body["certificate"]).encode(), *parts])
    if root is None:
        root = parse_certificate(str(body["root"]).encode(), name)
    member = credential.member(root, now=written.astimezone(UTC))
    is_signed = verify_signature(credential.key.signing, signature, _to_sign(trail))
    if member.role is not Role.SITE or member.name != trail.site or not is_signed:
        raise FileError(
            f"{name} is not as {trail.site[:60]!r} signed it: its first line was changed.",
            code="trail-signature",
        )
    return trail, root


def _follow(lines: Iterator[str], trail: Trail, name: str) -> None:
    """Check that the rows lead from the hash before the first to that of the last."""

    def fail(number: int, what: str) -> FileError:
        return FileError(
            f"{name}: row {number} {what}. The file is not what the site signed.",
            code="trail-broken",
        )

    chain = Chain(fail, trail.first, trail.before)
    for number, line in enumerate(lines, start=2):
        if line == _END:
            if chain.next <= trail.last:
                raise fail(chain.next, "is missing")
            if next(lines, None) is not None:
                raise _malformed(name, number + 1, "nothing may follow")
            return
        row = _parse_row(line.removesuffix(","), name, number)
        if row.sequence > trail.last:
            raise fail(row.sequence, "was put in")
        chain.follow(row)
        if row.sequence == trail.last and row.hash != trail.head:
            raise fail(row.sequence, "or one before it was changed, with all hashes after it")
    raise fail(chain.next, "is missing")


def _parse_row(line: str, name: str, number: int) -> Row:
    body: Any = parse_json(line, lambda why: _malformed(name, number, why), strict=True)
    kinds = {column: _TYPES.get(column, str) for column in COLUMNS}
    if not isinstance(body, dict) or {key: type(value) for key, value in body.items()} != kinds:
        raise _malformed(name, number, "it is not a row")
    return Row(**body)


def _to_sign(trail: Trail) -> bytes:
    return _MAGIC + json.dumps(asdict(trail), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return b64encode(data).decode()


def _malformed(name: str, number: int, why: str) -> FileError:
    return FileError(
        f"{name}, line {number}: {why}. Give the JSON file of `silot site export`, as it was "
        "written.",
        code="trail-format",
    )
