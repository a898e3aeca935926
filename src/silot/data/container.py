"""What a file is, by its first bytes: arrays, columns of a type, cells, or text, packed or not.

An ending says nothing here. What is recognised and not read is refused by its name, with what to
do.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy.typing as npt

from ..errors import ExtraError, FileError, SilotError
from .foreign import UnfitError, check_unpacked, guard, read_npz
from .names import canonical, listing

Kind = Literal["arrays", "parquet", "arrow", "sqlite", "xlsx", "ods", "text"]

_HEAD = 512
# Bytes of memory that a frame of zstd may need; of level 19 it needs 2^23.
_WINDOW = 1 << 27
_BLOCK = 1 << 20
_TAKE = "Give a table (.csv, .parquet, .arrow, .xlsx, .ods, .sqlite; packed or not) or an .npz."
# Bytes of no text in any encoding of one byte a letter; UTF-16 has zeros.
_CONTROLS = {*range(9), *range(14, 27), *range(28, 32)}
_KINDS: tuple[tuple[bytes, Kind], ...] = (
    (b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"SQLite format 3\0", "sqlite"),
)  # fmt: skip
_PACKINGS = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_OTHERS = (
    (0, b"\x93NUMPY", "one array without a name", "Write it with numpy.savez(path, X=...)."),
    (0, b"PARE", "an encrypted parquet", "Write it without encryption."),
    (0, b"FEA1", "a Feather file of version 1", "Write it again, as version 2 or as parquet."),
    (0, b"\xff\xff\xff\xff", "a stream of Arrow", "Write it as an Arrow file or as parquet."),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old workbook (.xls), or one with a password",
     "Save it as .xlsx without a password, or as csv."),
    (8, b"DUCK", "a DuckDB database", "Export the table: COPY name TO 'name.parquet'."),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", "Write its table as csv or parquet."),
    (0, b"ORC", "an ORC file", "Write it as parquet."),
    (0, b"Obj\x01", "an Avro file", "Write it as parquet."),
    (0, b"<stata_dta>", "a Stata file", "Export it as csv."),
    (0, b"$FL2", "an SPSS file", "Export it as csv."),
    (0, b"$FL3", "an SPSS file", "Export it as csv."),
    (12, b"\xc2\xea\x81\x60\xb3\x14\x11\xcf", "a SAS table", "Export it as csv."),
    (0, b"HEADER RECORD*******", "a SAS transport file", "Export it as csv."),
    (0, b"RDX", "an R workspace", "Write the table with write.csv."),
    (0, b"X\n\0\0\0", "an R object", "Write the table with write.csv."),
    (0, b"\x89PNG", "an image", _TAKE),
    (0, b"\xff\xd8\xff", "an image", _TAKE),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it, or pack it as zip."),
    (0, b"Rar!", "a rar archive", "Unpack it, or pack it as zip."),
    (257, b"ustar", "a tar archive", "Unpack it, or pack its table as zip."),
    (0, b"version https://git-lfs", "a pointer of Git LFS", "Fetch the file itself: git lfs pull."),
    (0, b"\x80\x04\x95", "a file of Python objects", "Write its table as csv or parquet."),
    (0, b"\x80\x05\x95", "a file of Python objects", "Write its table as csv or parquet."),
)  # fmt: skip
"""What is recognised and not read: where its mark stands, the mark, its name, and what to do."""
_MARKED_UP = (
    (("<!doctype html", "<html"), "a web page", "Was a login page downloaded? Give the table."),
    (("%pdf-",), "a PDF", "Give the table behind it."),
    (("<?xml",), "XML", "Export it as csv."),
    (('{"', "{\n", "{ ", "[{", "[\n", "[["), "JSON", "Write it as csv or parquet."),
)


@dataclass(frozen=True)
class Source:
    """A file that may be a table, and what it is.

    Attributes
    ----------
    file
        Where its bytes are; of a folder of parquet files, the folder.
    name
        What messages call it.
    kind
        What the bytes are, when unpacked.
    packing
        How text is packed: ``""``, ``"gzip"``, ``"zip"``, ``"xz"``, ``"bzip2"`` or ``"zstd"``.
    part
        The sheet, table or member that the caller named after ``#``.
    """

    file: Path
    name: str
    kind: Kind
    packing: str = ""
    part: str = ""

    @property
    def is_table(self) -> bool:
        """Return whether it has columns."""
        return self.kind != "arrays"

    @cached_property
    def files(self) -> list[Path]:
        """The files that have the records: those of a folder, or one."""
        return _parts_of(self.file) if self.file.is_dir() else [self.file]

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Put the name of the file in front of an error that does not have it."""
        try:
            yield
        except SilotError as error:
            if self.name in error.message:
                raise
            raise type(error)(f"{self.name}: {error.message}", code=error.code) from None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Read the arrays of an archive that has records ``X``."""
        arrays = read_npz(self.file, self.fail)
        if "X" not in arrays:
            names = ", ".join(sorted(arrays)) or "nothing"
            raise FileError(
                f"{self.name} holds {names}; an array named X is needed (and y, w if any).",
                code="file-columns",
            )
        return arrays

    def fail(self, why: str) -> FileError:
        """Build the error of a file whose bytes cannot be read."""
        cures = {
            "parquet": "Write it again, with its records as rows and one type a column.",
            "arrow": "Write it again, with its records as rows and one type a column.",
            "arrays": "Write it with numpy.savez(path, X=..., y=..., w=...), without object "
            "arrays.",
            "sqlite": "Correct it there, or export the table as csv.",
            "xlsx": "Correct it there, or save the sheet as csv.",
            "ods": "Correct it there, or save the sheet as csv.",
            "text": "Correct it there, or export it again.",
        }
        text = f"{self.name} cannot be read as {self.called} ({why})."
        return FileError(f"{text} {cures[self.kind]}", code="file-unreadable")

    @property
    def called(self) -> str:
        """What it is, in a word or two."""
        words = {"arrays": ".npz", "text": "text", "arrow": "Arrow", "sqlite": "SQLite"}
        return f"{self.packing} of text" if self.packing else words.get(self.kind, self.kind)


def recognise(path: str | Path) -> Source:
    """Say what a file is, by its first bytes.

    Parameters
    ----------
    path
        A file, a folder of parquet files, a pipe, or ``-`` for standard input. A sheet of a
        workbook, a table of a database or a member of a zip is named after ``#``.

    Raises
    ------
    FileError
        ``file-missing``, ``file-empty``, ``file-kind`` for what is not read, with what to do, and
        ``file-unreadable`` for a file that is damaged.
    """
    name = str(path)
    if name.startswith(("http:/", "https:/", "s3:/", "ftp:/")):
        raise FileError(
            f"{name.partition('?')[0]} is an address, and silot downloads nothing. Download "
            "the file and give its path.",
            code="file-missing",
        )
    file, part = _existing(name)
    if file.is_dir():
        return Source(file, file.name or name, "parquet", part=part)
    name = f"{file.name}#{part}" if part else file.name
    if str(path) == "-":
        name, file = "standard input", _spooled("-", lambda: sys.stdin.buffer)
    elif not stat.S_ISREG(file.stat().st_mode):
        pipe = file
        name, file = file.name, _spooled(str(path), lambda: pipe.open("rb"), pipe)
    if file.stat().st_size == 0:
        raise FileError(f"{name} is empty (0 bytes).", code="file-empty")
    try:
        return _source(file, name, part)
    except PermissionError:
        raise FileError(f"you have no permission to read {name}.", code="file-unreadable") from None


def stem_of(path: Path) -> str:
    """Return what a holder is called by its file: the part named, or all up to the first dot."""
    part = path.name.rpartition("#")[2] if "#" in path.name and not path.exists() else ""
    return canonical(part or path.name.split(".")[0])


def _existing(name: str) -> tuple[Path, str]:
    """Return the path that is there, and the part of it that is named."""
    file, part = Path(name), ""
    signs = [k for k, sign in enumerate(name) if sign == "#"]
    for k in [len(name), *signs[::-1]]:
        if os.path.exists(name[:k]):  # noqa: PTH110 - no error for an overlong name
            file, part = Path(name[:k]), name[k + 1 :]
            break
    if name != "-" and not os.path.exists(file):  # noqa: PTH110
        raise FileError(
            f"{file} does not exist or is not a file. Check the path.", code="file-missing"
        )
    return (Path("/dev/stdin") if name == "-" else file), part


def _source(file: Path, name: str, part: str, *, is_inner: bool = False) -> Source:
    with file.open("rb") as handle:
        head = handle.read(_HEAD)
    kind = _kind(head)
    if kind is None:
        _refuse(head, f"{name} is")
    packing = next((packing for mark, packing in _PACKINGS if head.startswith(mark)), "")
    if kind is None and packing and _is_binary(head):
        if is_inner:
            raise FileError(
                f"{name} holds a packed file or a workbook. Unpack it once.", code="file-kind"
            )
        return _packed(Source(file, name, "text", packing, part))
    if part and kind != "sqlite":
        stem = name.removesuffix(f"#{part}")
        raise FileError(f"{stem} has no parts. Leave #{part} out.", code="file-part")
    return Source(file, name, kind or "text", part=part)


def _is_binary(head: bytes) -> bool:
    """Return whether bytes are of no text: a header may begin as the mark of a format does."""
    return bool(set(head) & _CONTROLS)


def _kind(head: bytes) -> Kind | None:
    for mark, kind in _KINDS:
        if head.startswith(mark) and _is_binary(head):
            return kind
    return None


def _refuse(head: bytes, front: str) -> None:
    """Refuse what is recognised and not read."""
    for start, mark, what, cure in _OTHERS:
        if head[start:].startswith(mark) and (len(mark) > 7 or _is_binary(head)):
            raise FileError(f"{front} {what}. {cure}", code="file-kind")
    text = head.decode("utf-8", errors="ignore").lstrip("\ufeff \r\n\t").lower()
    for marks, what, cure in _MARKED_UP:
        if text.startswith(marks):
            raise FileError(f"{front} {what}. {cure}", code="file-kind")


def _packed(source: Source) -> Source:
    """Look into a packed file: workbooks and archives of arrays are zips too."""
    if source.packing == "zip":
        members = _members(source)
        if not members:
            raise FileError(f"{source.name} is an archive with nothing in it.", code="file-empty")
        if any(member == "xl/workbook.xml" for member in members):
            return Source(source.file, source.name, "xlsx", part=source.part)
        if "content.xml" in members and "mimetype" in members:
            return Source(source.file, source.name, "ods", part=source.part)
        if not source.part and all(member.endswith(".npy") for member in members):
            return Source(source.file, source.name, "arrays")
        source = Source(source.file, source.name, "text", "zip", _member(source, members))
    with guard(source.fail), open_bytes(source) as stream:
        head = stream.read(_HEAD)
    _refuse(head, f"{source.name} holds")
    if not _kind(head) and not any(head.startswith(mark) for mark, _ in _PACKINGS):
        return source
    # What is no text is read from any place of its file, which no packed one has.
    with guard(source.fail):
        measure(source)
        key = f"{source.file}#{source.part}"
        file = _spooled(key, lambda: open_bytes(source), source.file)
    return _source(file, source.name, "", is_inner=True)


def _members(source: Source) -> list[str]:
    with guard(source.fail), zipfile.ZipFile(source.file) as archive:
        if any(entry.flag_bits & 1 for entry in archive.infolist()):
            raise UnfitError("it has a password: pack it without one")
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    return [n for n in names if not n.startswith("__MACOSX/") and not n.endswith("/.DS_Store")]


def _member(source: Source, members: list[str]) -> str:
    """Return the member of a zip that is meant."""
    return one_of(source, source.part, members, "file")


def one_of(source: Source, part: str, names: list[str], what: str) -> str:
    """Return the part of a file that was named, or the only one."""
    if part in names:
        return part
    if part or len(names) != 1:
        listed = listing([repr(name) for name in names]) or "none"
        why = f"has no {what} {part!r}" if part else f"has {len(names)} {what}s"
        stem = source.name.removesuffix(f"#{part}")
        raise FileError(
            f"{stem} {why}: {listed}. Name one: {stem}#{(names or ['NAME'])[0]}.",
            code="file-part",
        )
    return names[0]


@contextmanager
def open_bytes(source: Source, packed: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open what a file holds, unpacked; from a handle of it, whose place says how far it is."""
    if packed is None:
        with source.file.open("rb") as handle, open_bytes(source, handle) as stream:
            yield stream
        return
    match source.packing:
        case "":
            yield packed
        case "zip":
            with zipfile.ZipFile(packed) as archive, archive.open(source.part) as stream:
                yield stream
        case "zstd":
            with _zstd(source, packed) as stream:
                yield stream
        case packing:
            opener: Any = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}[packing]
            with opener(packed, "rb") as stream:
                yield stream


def _zstd(source: Source, packed: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ExtraError(
            f"{source.name} is packed by zstd. Run: pip install 'silot[zstd]', or unpack it: "
            "zstd -d FILE.",
            code="extra-zstd",
        ) from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return cast("IO[bytes]", unpacker.stream_reader(packed, read_across_frames=True))


def measure(source: Source) -> int:
    """Return how many bytes a file unpacks to, and refuse those that no table has."""
    packed = source.file.stat().st_size
    if not source.packing:
        return packed
    if source.packing == "zstd":
        return _measure_zstd(source, packed)
    count = 0
    with open_bytes(source) as stream:
        while block := stream.read(_BLOCK):
            count += len(block)
            check_unpacked(count, packed, is_held=False)
    return count


def _measure_zstd(source: Source, packed: int) -> int:
    """Measure frames, whose reader takes a file that is cut off for a whole one."""
    import zstandard

    count, frame = 0, None
    with source.file.open("rb") as handle:
        # A few bytes may unpack to 128 kB.
        while data := handle.read(1 << 10):
            while data:
                if frame is None or frame.eof:
                    frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
                count += len(frame.decompress(data))
                check_unpacked(count, packed, is_held=False)
                data = frame.unused_data if frame.eof else b""
    if frame is None or not frame.eof:
        raise EOFError
    return count


_spools: dict[str, tuple[Path, object]] = {}


def _spooled(key: str, opener: Callable[[], Any], origin: Path | None = None) -> Path:
    """Copy what can be read once to a file, which goes when this process ends.

    What was written again since, a file or a pipe, is copied again.
    """
    if key not in _spools or _spools[key][1] != _state(origin):
        handle, name = tempfile.mkstemp(prefix="silot-")
        atexit.register(Path(name).unlink, missing_ok=True)
        stream = opener()
        with os.fdopen(handle, "wb") as copy, stream as source:
            shutil.copyfileobj(source, copy, _BLOCK)
        _spools[key] = Path(name), _state(origin)
    return _spools[key][0]


def _state(origin: Path | None) -> object:
    state = None if origin is None else origin.stat()
    return state and (state.st_ino, state.st_mtime_ns, state.st_size)


def _parts_of(folder: Path) -> list[Path]:
    """Return the parquet files of a folder, as Spark, dask and duckdb write one."""
    name = folder.resolve().name
    entries = sorted(e for e in folder.iterdir() if not e.name.startswith((".", "_")))
    for entry in entries:
        if entry.is_dir() or entry.suffix.lower() != ".parquet":
            raise FileError(
                f"{name} is a folder with {entry.name!r} in it. A folder is read only if it "
                "holds nothing but parquet files.",
                code="file-kind",
            )
    if not entries:
        raise FileError(
            f"{folder.resolve().name} is a folder without parquet files.", code="file-empty"
        )
    return entries


def text_of(stream: IO[bytes], encoding: str) -> io.TextIOWrapper:
    """Decode bytes, and leave line breaks as they are."""
    return io.TextIOWrapper(stream, encoding=encoding, newline="")
