"""The one door for bytes that somebody else wrote: measured first, read second.

A library that reads a damaged or hostile file may fail with an exception of its own, or allocate
what the file claims to hold. Each function here counts what it would build (bytes, entries,
nesting) before it builds it, and turns every failure into the error that the caller makes from the
reason in words.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import numpy.typing as npt
import yaml

from ..errors import MemoryShortError, SilotError

Fail = Callable[[str], SilotError]
"""Builds the error of a caller from what is wrong with the bytes, in words that fit brackets."""

# Any file may unpack to the first number of bytes, and a larger one to so many times its own size.
# Tables of one-hot columns and dictionaries shrink up to hundredfold; bombs shrink a thousandfold.
FREE_BYTES, MOST_RATIO = 1 << 26, 200
# A schema of 20,000 columns has 80,000 nodes. An alias counts as all that it stands for.
YAML_BYTES, YAML_NODES = 1 << 21, 100_000
# An entry takes up to 250 bytes of Python objects. A schema of 60,000 columns has 240,000.
JSON_BYTES, JSON_ENTRIES = 1 << 26, 1_000_000
# No document or message of silot is deeper than 10. Python's own limit, 1000 calls, depends on who
# calls.
DEEPEST = 50
# A transcript has 6 nodes a message.
MSGPACK_NODES = 4_000_000
# Models of 1,000 layers have two arrays each.
NPZ_ARRAYS = 10_000
# Tables of gene expression have 60,000 columns, and a number has up to 20 characters.
ROW_LETTERS, COLUMNS = 1 << 22, 200_000

NOT_UTF8 = "it is not UTF-8 text"
_PIPE = 1 << 24
LARGE_BYTES = 1 << 16
"""Bytes above which a copy of them counts."""
# How msgpack writes the head of bytes that are so many: its type, and 4 bytes of length.
_LARGE_BIN, _LARGE_HEAD = 0xC6, 5
# Of the first byte of a msgpack value: how many bytes of a length follow, or that length, and how
# many values an entry has; 0 where the length is one of bytes.
_HEADS = {
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), (0, 0, 0)),
    **{0x80 + size: (0, size, 2) for size in range(16)},
    **{0x90 + size: (0, size, 1) for size in range(16)},
    **{0xA0 + size: (0, size, 0) for size in range(32)},
    0xCC: (0, 1, 0), 0xCD: (0, 2, 0), 0xCE: (0, 4, 0), 0xCF: (0, 8, 0), 0xCA: (0, 4, 0),
    0xD0: (0, 1, 0), 0xD1: (0, 2, 0), 0xD2: (0, 4, 0), 0xD3: (0, 8, 0), 0xCB: (0, 8, 0),
    0xC4: (1, 0, 0), 0xC5: (2, 0, 0), 0xC6: (4, 0, 0), 0xD9: (1, 0, 0), 0xDA: (2, 0, 0),
    0xDB: (4, 0, 0), 0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2),
}  # fmt: skip
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# Digits of a number in YAML; that of the largest float has 309.
_LONGEST_NUMBER = 400
# What PyYAML raises, beside its own errors, on a value that is none of its tag: `!!int x`.
_ODD_VALUE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
# The parser of libyaml is ten times faster; wheels of PyYAML have it.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnfitError(Exception):
    """Says what is wrong with bytes, without any value of them; ``guard`` hands it on."""


class _ShortError(UnfitError):
    """Says how much memory bytes would take, and how much there is."""


@contextmanager
def guard(fail: Fail) -> Iterator[None]:
    """Turn every failure of a library into the error of the caller.

    A panic of Rust, in polars or cryptography, is no ``Exception``: so all but the wish to end is
    caught.
    """
    try:
        yield
    except (SilotError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001
        failure = fail(_reason(error))
        if isinstance(error, _ShortError):
            cure = "Use fewer records, or a larger machine."
            failure = MemoryShortError(f"{failure.message} {cure}", code="memory-short")
        raise failure from None


def _reason(error: BaseException) -> str:
    """Say why, without any value of the file."""
    match error:
        case UnicodeDecodeError():
            return NOT_UTF8
        case yaml.MarkedYAMLError() if error.problem_mark is not None:
            return f"line {error.problem_mark.line + 1}: {str(error.problem)[:80]}"
        case json.JSONDecodeError():
            return f"line {error.lineno}: {error.msg}"
        case UnfitError():
            return str(error)
        case EOFError():
            return "it is cut off"
        case zlib.error() | lzma.LZMAError() | zipfile.BadZipFile() | gzip.BadGzipFile():
            return "its bytes are damaged"
        case MemoryError():
            return "it needs more memory than there is"
        case OSError():
            return type(error).__name__
        case _:
            return f"it is damaged, or of a kind that silot cannot read: {type(error).__name__}"


def check_count(count: int, most: int, things: str) -> None:
    """Refuse more things than a bound."""
    if count > most:
        raise UnfitError(f"it has {count:,} {things}; at most {most:,} are allowed")


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise UnfitError(f"lists and mappings are nested more than {DEEPEST} deep")


def check_unpacked(size: int, packed: int, *, is_held: bool = True) -> None:
    """Refuse what unpacks to far more bytes than a file has, or if held, than memory has."""
    most = max(FREE_BYTES, MOST_RATIO * packed)
    if size > most:
        raise UnfitError(
            f"{packed:,} bytes unpack to {size:,} or more; at most {most:,} are allowed "
            "for a file of this size"
        )
    if is_held and size > FREE_BYTES:
        # Here, for its room needs scipy, and most documents do not.
        from silot_transport.memory import available

        # Twice: what is read is converted once.
        if 2 * size > (free := available()):
            raise _ShortError(f"it holds {size:,} bytes, and {free:,.0f} are free")


def read_bytes(file: Path, fail: Fail, most: int, large: Fail | None = None) -> bytes:
    """Read a file of at most this many bytes; of a larger one nothing is read."""
    with guard(fail), file.open("rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        check_unpacked(size, size)
        # A pipe has no size, and a file may grow meanwhile. Python allocates what is asked for.
        most = min(most, max(size, _PIPE))
        data = handle.read(most + 1) if size <= most else b""
    with guard(large or fail):
        check_count(max(size, len(data)), most, "bytes or more")
    return data


def parse_json(
    text: str | bytes, fail: Fail, *, most: int = JSON_BYTES, strict: bool = False
) -> Any:
    """Parse JSON whose size, entries and depth were counted; strictly, without NaN and infinity.

    A field that is given twice is refused: of JSON parsers, some keep the first and some the last.
    """
    with guard(fail):
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        check_count(len(data), most, "bytes")
        # Without escapes, a text ends at the next quote; nothing within a text counts.
        bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        texts = bare.count(b'"') // 2
        bare = re.sub(rb'"[^"]*"?', b"", bare) if texts <= JSON_ENTRIES else b""
        entries = max(texts, *(bare.count(mark) for mark in (b",", b"[", b"{")))
        check_count(entries, JSON_ENTRIES, "entries or more")
        brackets = re.sub(rb"[^\[\]{}]+", b"", bare)
        _check_depth(max(accumulate(map(_STEPS.__getitem__, brackets)), default=0))
        numbers: Any = {"parse_constant": _finite, "parse_float": _finite} if strict else {}
        try:
            # Decoded here, because json also takes UTF-16 and UTF-32.
            plain = text if isinstance(text, str) else data.decode()
            return json.loads(plain, object_pairs_hook=_once, **numbers)
        except ValueError as error:
            # Python reads no whole number of more than 4300 digits.
            if type(error) is ValueError:
                raise UnfitError("a number is too long") from None
            raise


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise UnfitError("a number is not finite")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names: set[str] = set()
        twice = next(key for key, _ in pairs if key in names or names.add(key))
        raise UnfitError(f"{twice[:40]!r} is given twice")
    return fields


def parse_yaml(text: str, fail: Fail) -> Any:
    """Parse YAML whose nodes were counted, aliases and merged mappings in full."""
    with guard(fail):
        check_count(len(text), YAML_BYTES, "characters")
        _count_nodes(text)
        # _Once builds what SafeLoader builds, no more.
        return yaml.load(text, _Once)


def _count_nodes(text: str) -> None:
    """Count what a document stands for, event by event, before anything is composed."""
    nodes: float = 0
    sizes: dict[str | None, float] = {}
    open_nodes: list[tuple[str | None, float]] = []
    for event in yaml.parse(text, _Parser):
        if isinstance(event, yaml.AliasEvent):
            nodes += sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            nodes += 1
            # An alias within what it stands for has no end.
            sizes[event.anchor] = math.inf
            open_nodes.append((event.anchor, nodes))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes[anchor] = nodes - before + 1
        if nodes > YAML_NODES:
            problem = f"with its aliases it has more than {YAML_NODES:,} nodes, which is the limit"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=cast("Any", event.start_mark))
        _check_depth(len(open_nodes))


class _Once(_Parser):
    """Refuses a field that is given twice: YAML would keep the last, and say nothing."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: set[int] = set()

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        # Numbers of base 60 take a time that grows with the square of their length.
        is_long = isinstance(node, yaml.ScalarNode) and len(node.value) > _LONGEST_NUMBER
        if is_long and not node.tag.endswith((":str", ":binary")):
            raise _odd_node(node, "a number is too long")
        try:
            return super().construct_object(node, deep)
        except _ODD_VALUE:
            raise _odd_node(node, "a value that is not one of its kind") from None

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Before merged mappings (<<) are written into this one, which happens once or more.
        if id(node) not in self._checked:
            self._checked.add(id(node))
            names: set[str] = set()
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            is_column = any(key.value == "kind" for key in keys)
            for key in keys:
                # YAML reads yes and no as true and false; a column has fields of these names.
                if is_column and key.value in ("yes", "no"):
                    key.tag = "tag:yaml.org,2002:str"
                # Whole numbers above 2**61 may all have one hash, and make a mapping slow.
                if key.tag.endswith(":int") and len(key.value) > 18:
                    raise _odd_node(key, "a number is too long")
                if key.value in names:
                    raise _odd_node(key, f"{key.value[:40]!r} is given twice")
                names.add(key.value)
        super().flatten_mapping(node)


def _odd_node(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def read_npz(file: Path, fail: Fail) -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of an archive whose headers fit their entries, and these the file."""
    with guard(fail), file.open("rb") as handle:
        # A single array may be saved under this name.
        if handle.read(6) == b"\x93NUMPY":
            raise UnfitError("one array without a name")
        with zipfile.ZipFile(handle) as archive:
            entries = archive.infolist()
            check_count(len(entries), NPZ_ARRAYS, "arrays")
            # Before the headers, for one of them may be all of its entry.
            size = os.fstat(handle.fileno()).st_size
            check_unpacked(sum(entry.file_size for entry in entries), size)
            check_unpacked(sum(_measure_array(archive, entry) for entry in entries), size)
            return {
                entry.filename.removesuffix(".npy"): _read_array(archive, entry)
                for entry in entries
            }


def _measure_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Return the bytes that the header of an array claims, if its entry has as many.

    An extent of 0 counts as 1: it must not hide others, for each of which a weight is made.
    """
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnfitError("an entry is packed in a way that numpy does not use")
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise UnfitError(f"an array of format {version[0]}.{version[1]}")
        shape, _, dtype = read(stream)
        if dtype.hasobject:
            raise UnfitError("it holds Python objects")
        size = math.prod(shape) * dtype.itemsize
        if size != entry.file_size - stream.tell() or min(shape, default=0) < 0:
            raise UnfitError(f"an array of {size:,} bytes in an entry of {entry.file_size:,}")
    return math.prod(max(extent, 1) for extent in shape) * max(dtype.itemsize, 1)


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(entry) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        # To the end, where its checksum is compared.
        stream.read(1)
    if array.dtype.kind == "U":
        # numpy hands out any number as a character, and Python fails on it without a class.
        numbers = np.frombuffer(array.tobytes(), array.dtype.str[0] + "u4")
        if numbers.max(initial=0) > sys.maxunicode:
            raise UnfitError("a text with characters that do not exist")
    return array


# msgpack has no type stubs.
_UNPACK = cast("Callable[..., object]", getattr(msgpack, "unpackb"))  # noqa: B009


def unpack(
    data: bytes | bytearray | memoryview,
    fail: Fail,
    *,
    nodes: int = MSGPACK_NODES,
    longest: int | None = None,
    views: bool = False,
) -> object:
    """Read msgpack of at most this many nodes, and lists and maps of at most this many entries.

    With ``views`` bytes of more than ``LARGE_BYTES`` are views of ``data``, and not copied.
    """
    with guard(fail):
        view = memoryview(data)
        large = _count_values(view, nodes, longest or nodes)
        # msgpack allocates a list as long as its head claims: by now that is as long as it is.
        if not (views and large):
            return _UNPACK(data, raw=False, strict_map_key=True, max_ext_len=0)
        # Each is replaced by its number as an extension, which no message may have of its own.
        parts, at = list[bytes | memoryview](), 0
        for number, (start, end) in enumerate(large):
            parts += [view[at : start - _LARGE_HEAD], b"\xd6\0" + number.to_bytes(4, "big")]
            at = end
        return _UNPACK(
            b"".join((*parts, view[at:])), raw=False, strict_map_key=True, max_ext_len=4,
            ext_hook=lambda _, number: view[slice(*large[int.from_bytes(number, "big")])],
        )  # fmt: skip


def _count_values(data: memoryview, most: int, longest: int) -> list[tuple[int, int]]:
    """Walk over the heads of values, and refuse claims that the bytes do not bear out.

    Return where large bytes begin and end.
    """
    at, nodes, open_counts = 0, 0, [1]
    large: list[tuple[int, int]] = []
    while open_counts:
        if open_counts[-1] == 0:
            open_counts.pop()
            continue
        open_counts[-1] -= 1
        nodes += 1
        # Beyond the end this is an IndexError, which the guard catches.
        head = _HEADS.get(data[at])
        if head is None:
            raise UnfitError("it holds a type that silot does not send")
        width, size, factor = head
        at += 1 + width
        if width:
            size = int.from_bytes(data[at - width : at], "big")
        if at + size * max(factor, 1) > len(data):
            raise UnfitError("it is cut off")
        if factor == 0:
            at += size
            if size > LARGE_BYTES and data[at - size - _LARGE_HEAD] == _LARGE_BIN:
                large.append((at - size, at))
            continue
        if size > longest or nodes + size > most:
            raise UnfitError("it has more entries than such a message can have")
        if size:
            open_counts.append(size * factor)
            _check_depth(len(open_counts))
    return large
