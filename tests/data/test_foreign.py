"""Bytes and arrays of others: measured before they are read, and never moved unasked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import random
import re
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from silot import Measure
from silot.data import columnar, foreign
from silot.data.checkpoint import load, save
from silot.data.container import recognise
from silot.data.documents import read_fields
from silot.data.loading import load_measure
from silot.data.table_files import read_blocks
from silot.distances.questions import Describe, decode_classes
from silot.distillation.questions import parse_texts
from silot.errors import FileError, InputError, SilotError, WireError, explanations
from silot.federation.message import unpack
from silot.federation.question import encode_question
from silot.federation.transcript import Entry, Transcript
from silot.sites.secure.tunnel import _parse_words
from silot.teaching.federated import ModelSpec
from tests.lazily import package
from tests.tiers import examples

pl = package("polars")


class Foreign:
    """An array of a library that numpy does not know, on a device of DLPack."""

    def __init__(self, values: Any, device: int) -> None:
        self.values, self.device = np.asarray(values), device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        assert self.device == 1
        return self.values.__dlpack__(**options)


class Willing(Foreign):
    """One that would copy itself to the host, as arrays of jax do."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values.astype(dtype or self.values.dtype)


@pytest.mark.parametrize("kind", [Foreign, Willing])
def test_an_array_of_another_library_is_read(kind: type[Foreign]) -> None:
    points = np.arange(6.0).reshape(3, 2)
    measure = Measure(kind(points, 1), kind([1.0, 2.0, 3.0], 1), kind([0, 1, 0], 1))
    assert np.array_equal(measure.points, points)
    assert np.array_equal(measure.masses, [1.0, 2.0, 3.0])
    assert measure.names is not None and list(measure.names) == ["0", "1", "0"]


@pytest.mark.parametrize("kind", [Foreign, Willing])
@pytest.mark.parametrize("device", [2, 10])
def test_an_accelerator_is_not_read_from(kind: type[Foreign], device: int) -> None:
    far = kind(np.ones((3, 2)), device)
    for call in (lambda: Measure(far), lambda: Measure(np.ones((3, 2)), far)):
        with pytest.raises(InputError, match="Move it to the host") as refused:
            call()
        assert refused.value.code == "array-device"


BOMBS: dict[str, Callable[[], bytes]] = {
    "merges.yml": lambda: _nested("{{<<: [{}]}}", "{k: 1}").encode(),
    "lists.yml": lambda: _nested("[{}]", "[x, x]").encode(),
    "self.yml": lambda: b"a: &a [*a]",
    "deep.yml": lambda: b"a: " + b"[" * 900_000,
    "wide.yml": lambda: b"a: [" + b"x," * 900_000 + b"]",
    "base60.yml": lambda: b"a: 1" + b":1" * 900_000,
    "hexadecimal.yml": lambda: b"a: 0x" + b"f" * 1_900_000,
    # All these keys have the hash 0.
    "hashes.yml": lambda: f"a: {{{','.join(f'{k * (2**61 - 1)}: 1' for k in range(1, 40_000))}}}"
    .encode(),
    "large.yml": lambda: b"a: 1\n" + b"#" * (3 << 20),
    "deep.json": lambda: b"[" * 900_000,
    "mappings.json": lambda: b'{"a":' * 900_000,
    "empties.json": lambda: b'{"a":[' + b"{}," * 5_000_000 + b"{}]}",
    "quotes.json": lambda: b'"' * 20_000_000,
    "slashes.json": lambda: b'{"a":"' + b"\\" * 20_000_000,
    "digits.json": lambda: b'{"a":' + b"1" * 5_000_000 + b"}",
    "zeros.npz": lambda: _npz([("X.npy", _npy((12_500_000,)) + bytes(100_000_000))]),
    "claim.npz": lambda: _npz([("X.npy", _npy((10**12,)))]),
    "empty.npz": lambda: _npz([("X.npy", _npy((10**15, 0)))]),
    "nothing.npz": lambda: _npz([("X.npy", _npy((10**15,), "<U0"))]),
    "wide.npz": lambda: _npz([("X.npy", _npy((1,), "<U500000000"))]),
    "negative.npz": lambda: _npz([("X.npy", _npy((-1, 4)))]),
    "objects.npz": lambda: _npz([("X.npy", _npy((4,), "|O") + bytes(32))]),
    "header.npz": lambda: _npz([
        ("X.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 100_000_000) + b" " * 100_000_000)
    ]),
    "many.npz": lambda: _npz([(f"{k}.npy", _npy((0,))) for k in range(11_000)]),
    "packed.npz": lambda: _npz([("X.npy", _npy((2,)) + bytes(16))], zipfile.ZIP_BZIP2),
    "overlapping.npz": lambda: _overlapping(),
    "rows.csv.gz": lambda: gzip.compress(b"a,b\n" + b"0,0\n" * 20_000_000, 1),
    "line.csv.gz": lambda: gzip.compress(b"a" * 80_000_000, 1),
    "members.csv.gz": lambda: gzip.compress(b"a\n") + 20 * gzip.compress(b"0\n" * 2_000_000),
    "line.csv": lambda: b"a" * 20_000_000,
    "commas.csv": lambda: b"," * 4_000_000,
    "fields.csv": lambda: b'a,b\n' + b'"\n",' * 2_000_000,
    "short.csv": lambda: ",".join(f"a{k}" for k in range(150_000)).encode() + b"\n1" * 10_000,
    "rows.parquet": lambda: _parquet(a=np.zeros(20_000_000)),
    "texts.parquet": lambda: _parquet(a=["x" * 30_000] * 10_000),
    "names.parquet": lambda: _parquet(a=pl.Series(["x" * 5_000_000] * 400, dtype=pl.Categorical)),
    "footer.parquet": lambda: b"PAR1" + bytes(50) + struct.pack("<I", 2**31 - 1) + b"PAR1",
    "rows.csv.xz": lambda: lzma.compress(b"a,b\n" + b"0,0\n" * 20_000_000, preset=0),
    "rows.csv.bz2": lambda: bz2.compress(b"a,b\n" + b"0,0\n" * 20_000_000, 1),
    "rows.csv.zst": lambda: package("zstandard").compress(b"a,b\n" + b"0,0\n" * 20_000_000),
    "rows.zip": lambda: _npz([("a.csv", b"a,b\n" + b"0,0\n" * 20_000_000)]),
    "rows.arrow": lambda: _arrow(np.zeros(20_000_000)),
    "cells.xlsx": lambda: _xlsx("<row><c><v>1</v></c></row>" * 3_000_000),
    "far.xlsx": lambda: _xlsx('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'),
    "entities.xlsx": lambda: _xlsx("&b;", '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'),
    "deep.xlsx": lambda: _xlsx("<row>" * 100_000),
    "repeated.ods": lambda: _ods('<table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell office:value-type="float" office:value="1" '
        'table:number-columns-repeated="16384"/></table:table-row>'),
    "generated.sqlite": lambda: _sqlite(
        "CREATE TABLE t(a, b AS (hex(zeroblob(400000000))))", "INSERT INTO t(a) VALUES (1)"),
    "lists.transcript": lambda: b"\xdd\x00\x0f\xff\xff" * 200_000,
    "maps.transcript": lambda: b"\xdd" + struct.pack(">I", 9_000_000) + b"\x80" * 9_000_000,
    "claim.transcript": lambda: b"\xdd\xff\xff\xff\xff",
    "bytes.transcript": lambda: b"\xc6\xff\xff\xff\xffabc",
    "deep.transcript": lambda: b"\x91" * 5_000_000,
    "extension.transcript": lambda: b"\xc9\xff\xff\xff\xff\x01",
    "infinite.transcript": lambda: msgpack.packb({
        "magic": "silot-transcript", "version": 1, "protocol": "x", "parameters": {},
        "entries": [[math.inf, "a", "sent", 0, b"x"]],
    }),
    "inner.transcript": lambda: msgpack.packb({
        "magic": "silot-transcript", "version": 1, "protocol": "x", "parameters": {},
        "entries": [[0, "a", "sent", 0, b"\x93" * 40 + b"\x80" * 1_000_000]],
    }),
}  # fmt: skip


def _nested(form: str, first: str) -> str:
    """Nine aliases of nine aliases, and so on: a kilobyte that stands for 9**9 nodes."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{k}: &a{k} {form.format(', '.join([f'*a{k - 1}'] * 9))}" for k in range(1, 10)]
    return "\n".join(lines)


def _npy(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    head = str({"descr": kind, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def _npz(entries: list[tuple[str, bytes]], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def _xlsx(rows: str, head: str = "") -> bytes:
    kinds = "http://schemas.openxmlformats.org/"
    main = f'xmlns="{kinds}spreadsheetml/2006/main"'
    relations = f'xmlns:r="{kinds}officeDocument/2006/relationships"'
    return _npz([
        ("_rels/.rels", '<Relationships><Relationship Id="r1" Target="xl/workbook.xml" '
         f'Type="{kinds}officeDocument/2006/relationships/officeDocument"/></Relationships>'
         .encode()),
        ("xl/workbook.xml", f'<workbook {main} {relations}><sheets><sheet name="one" sheetId="1" '
         'r:id="r1"/></sheets></workbook>'.encode()),
        ("xl/_rels/workbook.xml.rels", b'<Relationships><Relationship Id="r1" '
         b'Target="worksheets/sheet1.xml" Type="http://schemas.openxmlformats.org/'
         b'officeDocument/2006/relationships/worksheet"/></Relationships>'),
        ("xl/worksheets/sheet1.xml",
         f"{head}<worksheet {main}><sheetData>{rows}</sheetData></worksheet>".encode()),
    ])  # fmt: skip


def _ods(rows: str) -> bytes:
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table")
    )
    return _npz([
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
        ("content.xml",
         f'<x{names}><table:table table:name="one">{rows}</table:table></x>'.encode()),
    ])  # fmt: skip


def _sqlite(*statements: str) -> bytes:
    base = sqlite3.connect(":memory:")
    for statement in statements:
        base.execute(statement)
    base.commit()
    return base.serialize()


def _arrow(values: Any) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": values}).write_ipc(buffer, compression="zstd")
    return buffer.getvalue()


def _overlapping() -> bytes:
    """Two hundred entries that are one and the same 40 MB."""
    data = _npz([("X.npy", _npy((5_000_000,)) + bytes(40_000_000))])
    end = data.rfind(b"PK\x05\x06")
    start = struct.unpack("<I", data[end + 16 : end + 20])[0]
    entries = data[start:end] * 200
    tail = data[end : end + 8] + struct.pack("<HHII", 200, 200, len(entries), start) + bytes(2)
    return data[:start] + entries + tail


def _parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def read(file: Path) -> object:
    """Read a file as silot reads files of its ending."""
    readers: dict[str, Callable[[Path], object]] = {
        ".yml": read_fields, ".json": read_fields, ".transcript": Transcript.load,
        ".checkpoint": lambda path: load(path, "kind", "mark"),
    }  # fmt: skip
    return readers.get(file.suffix, load_measure)(file)


@pytest.mark.heavy
@pytest.mark.all_cases
@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_bomb_is_refused_with_words(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BOMBS[name]())
    start = time.process_time()
    with pytest.raises(SilotError) as caught:
        read(tmp_path / name)
    assert time.process_time() - start < 5
    assert caught.value.code in explanations()
    # The file, what arrived in brackets, and what to do.
    assert re.match(rf".*{name}.*\(.{{10,}}\).* [A-Z].*\.$", caught.value.message)


_MEASURE = """
import sys
from pathlib import Path
from tests.data.test_foreign import read
from silot.errors import SilotError
for name in sys.argv[1:]:
    try:
        read(Path(name))
    except SilotError:
        # Not that of resource, which counts the process that started this one.
        status = Path("/proc/self/status").read_text()
        print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_bombs_take_little_memory(tmp_path: Path) -> None:
    names = ["lists.yml", "zeros.npz", "quotes.json", "rows.csv.gz", "rows.parquet",
             "names.parquet", "lists.transcript", "empties.json", "short.csv", "cells.xlsx",
             "repeated.ods", "generated.sqlite", "rows.csv.zst", "rows.arrow"]  # fmt: skip
    for name in names:
        (tmp_path / name).write_bytes(BOMBS[name]())
    command = [sys.executable, "-c", _MEASURE, *(str(tmp_path / name) for name in names)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert len(lines) == len(names) + 1
    assert 50 < int(lines[-2]) < 500


def _good(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    points, archive = rng.normal(size=(20, 3)), io.BytesIO()
    np.savez_compressed(archive, X=points, y=np.arange(20) % 3, columns=np.array(["a", "b", "c"]))
    save(folder / "good", "kind", "mark", {"a": 1}, {"w": points})
    question = encode_question(Describe())
    Transcript("x", {"a": 1}, (Entry(0, "n", "sent", 0.5, question),)).save(folder / "t")
    table = b"age,dose\n" + b"".join(b"%d,%.2f\n" % (60 + k, k / 3) for k in range(30))
    return {
        "a.yml": b"a: &a {kind: code, codes: [m, f]}\nb: {<<: *a, yes: 1.5e3}\nc: 'x\\n'\n",
        "a.json": b'{"a": [1, 2.5, null, {"b": "x\\\\\\"y"}], "c": {"d": []}}',
        "a.npz": archive.getvalue(),
        "a.csv": table,
        "a.csv.gz": gzip.compress(table),
        "a.xlsx": _xlsx(
            "".join(
                f"<row>{''.join(f'<c><v>{k}</v></c>' for k in range(3))}</row>" for _ in range(9)
            )
        ),
        "a.sqlite": _sqlite("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, 2), (3, 4)"),
        "a.arrow": _arrow(np.arange(9.0)),
        "a.zip": _npz([("a.csv", table)]),
        "a.checkpoint": (folder / "good").read_bytes(),
        "a.transcript": (folder / "t").read_bytes(),
    }


# Bytes that mean something in one of the formats.
_SIGNS = (b"\xff" * 4, b"\x7f" + b"\xff" * 7, b"\0" * 4, b"{", b"[", b'"', b"*a", b"<<: ", b"!!",
          b"1e999", b"\xdd", b"\xc6", b"PK", b"\n", b",", b"\xc3", b"9" * 20, b"NaN")  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, insert, repeat and cut bytes."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        place, sign = rng.randrange(len(content)), rng.choice(_SIGNS)
        match rng.randrange(6):
            case 0:
                content[place] ^= 1 << rng.randrange(8)
            case 1:
                content[place : place + len(sign)] = sign
            case 2:
                content[place:place] = sign
            case 3:
                content[place:place] = content[: rng.choice((1, 8, 64))]
            case 4:
                del content[place : place + rng.choice((1, 4, 100))]
            case _ if rng.random() < 0.3:
                del content[place:]
            case _:
                pass
        content = content or bytearray(b"\0")
    return bytes(content)


@pytest.mark.all_cases
@pytest.mark.parametrize(
    "name",
    [
        "a.yml",
        "a.json",
        "a.npz",
        "a.csv",
        "a.csv.gz",
        "a.checkpoint",
        "a.transcript",
        "a.xlsx",
        "a.sqlite",
        "a.arrow",
        "a.zip",
    ],
)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    data, rng, refused = _good(tmp_path)[name], random.Random(name), 0
    (tmp_path / name).write_bytes(data)
    read(tmp_path / name)
    count = examples(200)
    for _ in range(count):
        (tmp_path / name).write_bytes(mutate(data, rng))
        try:
            read(tmp_path / name)
        except SilotError as error:
            assert error.code in explanations()
            refused += 1
    assert refused > count / 5


@pytest.mark.all_cases
@pytest.mark.parametrize("text", [b"", b"[" * 60_000, b"\xff", b"9" * 5000, b'{"a": 1'])
def test_texts_of_others_are_refused_by_each_reader(text: bytes) -> None:
    readers = (decode_classes, ModelSpec.from_text)
    for reader in readers:
        with pytest.raises(WireError):
            reader(text.decode(errors="replace"))
    assert parse_texts(text) is None
    assert _parse_words(text) == {}


@pytest.mark.all_cases
@pytest.mark.parametrize("depth", [3, 40, 60])
def test_a_message_of_many_empty_maps_is_refused(depth: int) -> None:
    data = b"\x91" * depth + b"\xdc\x00\x40" + (b"\xdc\x00\x40" + b"\x80" * 64) * 64
    assert msgpack.unpackb(data)
    with pytest.raises(WireError) as caught:
        unpack(data, flat=True)
    assert caught.value.code == "wire-format"


def test_a_page_over_which_polars_ends_its_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.parquet"
    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(file)
    assert len(load_measure(file).points) == 2
    # What is read once is tried no more, until it changes.
    monkeypatch.setattr(columnar, "_TRIAL", "import os; os.abort()")
    assert len(load_measure(file).points) == 2
    pl.DataFrame({"a": [1.0, 2.0, 3.0]}).write_parquet(file)
    with pytest.raises(FileError, match="polars ends its process") as caught:
        load_measure(file)
    assert caught.value.code == "file-unreadable"


class Panic(BaseException):
    """As polars and cryptography raise where Rust panics."""


@pytest.mark.parametrize(
    "error", [Panic(), MemoryError(), RecursionError(), StopIteration(), KeyError("x")]
)
def test_every_failure_of_a_library_becomes_an_error_with_a_code(error: BaseException) -> None:
    with pytest.raises(FileError, match="because"), foreign.guard(_fail):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), InputError("x", code="y-z")])
def test_the_wish_to_end_and_errors_with_a_code_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, foreign.guard(_fail):
        raise error
    assert caught.value is error


def _fail(why: str) -> FileError:
    return FileError(f"because {why}.", code="file-unreadable")


@pytest.mark.heavy
def test_what_is_large_for_a_reason_is_read(tmp_path: Path) -> None:
    """A gzip of many rows, an archive of zeros below the bound, and a document of 20,000 nodes."""
    lines = "".join(f"{k},{k % 7}\n" for k in range(300_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"a,b\n{lines}".encode()))
    blocks = read_blocks(recognise(tmp_path / "a.csv.gz"), "a")
    heights = [len(block.columns["a"]) for block in blocks]
    assert sum(heights) == 300_000
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1_000_000, 7)))
    assert load_measure(tmp_path / "a.npz").points.shape == (1_000_000, 7)
    (tmp_path / "a.yml").write_text("".join(f"g{k}: {{kind: number}}\n" for k in range(5_000)))
    assert len(read_fields(tmp_path / "a.yml")) == 5_000


# Where else a library parses bytes, and why these are not foreign.
ELSEWHERE = {
    "data/foreign.py": "the one door",
    "data/container.py": "bytes of tables, within its guard and its bounds",
    "data/cells.py": "workbooks, within its guard and its bounds",
    "data/columnar.py": "columns of a type, within its guard and its bounds",
    "cli/audit.py": "what was just written",
    "errors.py": "the package's own table",
    "render/content.py": "the package's own table",
    "privacy/ledger.py": "rows of the owner, whose failures translate_errors catches",
    "privacy/ledger_file.py": "rows of the owner, whose failures translate_errors catches",
    "sites/runs_page.py": "what a command of ours printed, from a process of its own",
    "sites/overview.py": "rows of the owner's ledger, whose chain of hashes was verified",
    "sites/secure/_worker.py": "a pipe between a process and its own child",
}
PARSERS = re.compile(
    r"\byaml\.(?!safe_dump)\w|np\.load\(|gzip\.open|zipfile\.|\bunpackb\(|\bjsonl?i?b?_?\.loads?\("
    r"|\btomllib\.loads?\(|\b(read|scan)_(parquet|csv|ipc)\(|frombuffer\(.*read|pickle"
)


def test_there_is_no_second_door() -> None:
    assert PARSERS.search("json_.loads(text)") and PARSERS.search("jsonlib.load(file)")
    assert PARSERS.search("polars.read_parquet(x)") and not PARSERS.search("yaml.safe_dump(x)")
    source = Path(foreign.__file__).parents[1]
    doors = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if PARSERS.search(path.read_text(encoding="utf-8"))
    }
    assert doors == set(ELSEWHERE)
