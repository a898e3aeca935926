"""Every notation in every container: read as what it says, or refused with its code and place.

One table of known numbers, days and names is written in each notation, and each of these tables in
each container, declared and undeclared. What is read is compared with the truth bit by bit, so a
cell can only be right or refused; faults that are planted must be refused where they are.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sqlite3
import unicodedata
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import Schema, load_measure
from silot.data import Site
from silot.data.notation import Notation
from silot.data.reading import read_by_schema
from silot.errors import SilotError
from tests.lazily import package

pl, pa, pandas = package("polars"), package("pyarrow"), package("pandas")

NUMBERS = [1234.5, -0.25, 7.0, 45.0, 1000000.0, -1234.0, 0.5, 99.75, 12.5, 3.0, 250.0, 1.125]
DAYS = ["2024-01-31", "2023-12-01", "2024-02-29", "1999-07-04", "2024-10-05", "2020-05-06"] * 2
WORDS = ["Müller", "covid-19", "it's", "a b", "no. 1", "x"] * 2
ANSWERS = ["yes", "no", "yes", "yes", "no", "no"] * 2


def grouped(number: float, group: str, mark: str, *, indian: bool = False) -> str:
    """Write a number with groups of digits."""
    whole, _, part = f"{abs(number)!r}".partition(".")
    if "e" in whole + part or number >= 1e16:
        raise ValueError
    head, groups = whole[:-3], [whole[-3:]]
    size = 2 if indian else 3
    while head:
        head, last = head[:-size], head[-size:]
        groups.insert(0, last)
    text = group.join(groups)
    return ("-" if number < 0 else "") + text + (f"{mark}{part}" if part and part != "0" else "")


def plain(number: float) -> str:
    return repr(number).removesuffix(".0")


def wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else sign for sign in text)


NOTATIONS: dict[str, tuple[Callable[[float], str], dict[str, Any]]] = {
    "plain": (plain, {}),
    "fixed": (lambda x: f"{x:.3f}", {}),
    "scientific": (lambda x: f"{x:.6e}", {}),
    "plus": (lambda x: f"{x:+}", {}),
    "wide": (lambda x: wide(plain(x)), {}),
    "minus": (lambda x: plain(x).replace("-", "\u2212"), {}),
    "blanks": (lambda x: f" {plain(x)} ", {}),
    "comma": (lambda x: plain(x).replace(".", ","), {"decimal": ","}),
    "comma wide": (lambda x: wide(plain(x).replace(".", ",")), {"decimal": ","}),
    "english": (lambda x: grouped(x, ",", "."), {"group": ","}),
    "german": (lambda x: grouped(x, ".", ","), {"decimal": ",", "group": "."}),
    "swiss": (lambda x: grouped(x, "'", "."), {"group": "'"}),
    "swiss curly": (lambda x: grouped(x, "\u2019", "."), {"group": "'"}),
    "french": (lambda x: grouped(x, "\u202f", ","), {"decimal": ",", "group": " "}),
    "french blank": (lambda x: grouped(x, " ", ","), {"decimal": ",", "group": " "}),
    "indian": (lambda x: grouped(x, ",", ".", indian=True), {"group": ",", "grouping": "indian"}),
    "trailing": (lambda x: plain(abs(x)) + "-" * (x < 0), {"negative": "5-"}),
    "accounting": (lambda x: f"({plain(-x)})" if x < 0 else plain(x), {"negative": "(5)"}),
    "accounting english": (
        lambda x: f"({grouped(-x, ',', '.')})" if x < 0 else grouped(x, ",", "."),
        {"negative": "(5)", "group": ","},
    ),
    "percent": (lambda x: f"{plain(x * 100)}%", {"affix": "%"}),
    "percent german": (lambda x: f"{plain(x * 100)} %".replace(".", ","),
                       {"affix": "%", "decimal": ","}),
    "dollar": (lambda x: f"${plain(x)}" if x >= 0 else f"-${plain(-x)}", {"affix": "$"}),
    "euro": (lambda x: f"{grouped(x, '.', ',')} €",
             {"affix": "€", "decimal": ",", "group": "."}),
    "code": (lambda x: f"CHF {plain(x)}", {"affix": "CHF"}),
    "unit": (lambda x: f"{plain(x)} kg", {"affix": "kg"}),
    "limit": (lambda x: f"<{plain(x)}" if x == 0.5 else plain(x), {"limits": True}),
    "limit wide": (lambda x: f"≥ {plain(x)}" if x == 250 else plain(x), {"limits": True}),
}  # fmt: skip
FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y", "%Y%m%d", "%d.%m.%y")
SPELLINGS: dict[str, Callable[[str], str]] = {
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "dashes": lambda text: text.replace("-", "\u2013").replace("'", "\u2019"),
    "blanks": lambda text: f" {text}\u00a0".replace(" ", "\u2009"),
    "zero width": lambda text: f"\u200b{text}\ufeff",
}
YES: dict[str, tuple[str, str]] = {
    "words": ("yes", "no"), "letters": ("Y", "N"), "digits": ("1", "0"), "truth": ("TRUE", "FALSE")
}  # fmt: skip


def _days(form: str) -> list[str]:
    days = [np.datetime64(day).astype(object) for day in DAYS]
    return DAYS if form == "iso" else [day.strftime(form) for day in days]


def _columns() -> dict[str, tuple[list[str], dict[str, Any], str]]:
    """Texts, the schema's entry, and the name of the plain column of the same records."""
    spread = {"kind": "number", "range": [-1e5, 1e7]}
    columns: dict[str, tuple[list[str], dict[str, Any], str]] = {}
    for name, (write, notation) in NOTATIONS.items():
        entry = {**spread, "notation": notation} if notation else spread
        columns[f"number {name}"] = [write(x) for x in NUMBERS], entry, "number plain"
    for place, form in enumerate(FORMATS):
        entry = {"kind": "date", "range": ["1950-01-01", "2030-01-01"]}
        entry |= {} if form == "iso" else {"format": form}
        columns[f"day {place}"] = _days(form), entry, "day 0"
    for name, spell in SPELLINGS.items():
        entry = {"kind": "category", "categories": sorted(set(WORDS))}
        columns[f"word {name}"] = [spell(word) for word in WORDS], entry, "word composed"
    for name, (yes, no) in YES.items():
        texts = [yes if answer == "yes" else no for answer in ANSWERS]
        columns[f"answer {name}"] = texts, {"kind": "yes/no"}, "answer words"
    for mark in ("", "NA", "n/a", "NaN", "null"):
        entry = {**spread, "missing": "indicator"}
        texts = [mark if k in (2, 5) else plain(x) for k, x in enumerate(NUMBERS)]
        columns[f"missing {mark or 'empty'}"] = texts, entry, "missing empty"
    return columns


COLUMNS = _columns()


def _text(columns: Mapping[str, Sequence[str]], separator: str, *, quoting: int = 0) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\n")  # type: ignore[arg-type]
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def _zip(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"folder/{name}", data)
        archive.writestr("__MACOSX/._x", b"x")
    return buffer.getvalue()


def _zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").compress(data)


def _xlsx(columns: Mapping[str, Sequence[Any]], path: Path, *, title: bool = False) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    sheet = book.active
    if title:
        sheet.append(["Export of the ward"])
        sheet.merge_cells("A1:D1")
        sheet.append([])
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append(list(row))
    book.save(path)


def _ods(columns: Mapping[str, Sequence[str]], path: Path) -> None:
    pytest.importorskip("python_calamine")

    def cell(text: str) -> str:
        safe = text.replace("&", "&amp;").replace("<", "&lt;")
        if not text:
            return "<table:table-cell/>"
        return (
            f'<table:table-cell office:value-type="string"><text:p>{safe}</text:p>'
            "</table:table-cell>"
        )

    rows = [list(columns), *zip(*columns.values(), strict=True)]
    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    names = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
        for short, long in (("office", "office"), ("table", "table"), ("text", "text"))
    )
    content = (
        f"<office:document-content{names}><office:body><office:spreadsheet>"
        f'<table:table table:name="one">{body}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("content.xml", f'<?xml version="1.0" encoding="UTF-8"?>{content}')
        archive.writestr(
            "META-INF/manifest.xml",
            "<manifest:manifest "
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
            "</manifest:manifest>",
        )


def _sqlite(columns: Mapping[str, Sequence[str]], path: Path) -> None:
    base = sqlite3.connect(path)
    names = ", ".join(f'"{name}" TEXT' for name in columns)
    base.execute(f"CREATE TABLE records ({names})")
    holes = ", ".join("?" * len(columns))
    base.executemany(f"INSERT INTO records VALUES ({holes})", zip(*columns.values(), strict=True))
    base.commit()
    base.close()


def _parquets(columns: Mapping[str, Sequence[str]], folder: Path) -> None:
    folder.mkdir()
    frame = pl.DataFrame(dict(columns))
    frame[:5].write_parquet(folder / "part-00000.snappy.parquet")
    frame[5:].write_parquet(folder / "part-00001.snappy.parquet")
    (folder / "_SUCCESS").write_text("")


def _packed_parquet(columns: Mapping[str, Sequence[str]], path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame(dict(columns)).write_parquet(buffer)
    path.write_bytes(gzip.compress(buffer.getvalue()))


def _bytes(make: Callable[[Mapping[str, Sequence[str]]], bytes]) -> Callable[[Any, Path], None]:
    return lambda columns, path: path.write_bytes(make(columns)) and None


Writer = Callable[[Mapping[str, Sequence[str]], Path], None]
TEXTS: dict[str, Callable[[Mapping[str, Sequence[str]]], bytes]] = {
    "commas": lambda c: _text(c, ",").encode(),
    "semicolons": lambda c: _text(c, ";").encode(),
    "tabs": lambda c: _text(c, "\t").encode(),
    "bars": lambda c: _text(c, "|").encode(),
    "quoted": lambda c: _text(c, ",", quoting=csv.QUOTE_ALL).encode(),
    "mark": lambda c: _text(c, ";").encode("utf-8-sig"),
    "utf-16": lambda c: _text(c, "\t").encode("utf-16"),
    "utf-16 big": lambda c: b"\xfe\xff" + _text(c, "\t").encode("utf-16-be"),
    "windows": lambda c: _text(c, ";").replace("\n", "\r\n").encode(),
    "returns": lambda c: _text(c, ";").replace("\n", "\r").encode(),
    "no last break": lambda c: _text(c, ";").rstrip("\n").encode(),
    "blank end": lambda c: (_text(c, ";") + "\n\n").encode(),
    "sep": lambda c: ("sep=;\n" + _text(c, ";")).encode(),
    "title": lambda c: ("Export of the ward\n\n" + _text(c, ";")).encode(),
    "padded title": lambda c: (f"Export{';' * (len(c) - 1)}\n" + _text(c, ";")).encode(),
    "comments": lambda c: ("# by the ward, in May\n# two\n" + _text(c, ";")).encode(),
    "gzip": lambda c: gzip.compress(_text(c, ",").encode()),
    "members": lambda c: b"".join(
        gzip.compress(part) for part in (_text(c, ",").encode()[:99], _text(c, ",").encode()[99:])
    ),
    "xz": lambda c: lzma.compress(_text(c, ",").encode()),
    "bzip2": lambda c: bz2.compress(_text(c, ",").encode()),
    "zip": lambda c: _zip("a.csv", _text(c, ",").encode()),
    "zip of utf-16": lambda c: _zip("a.txt", _text(c, "\t").encode("utf-16")),
    "zstd": lambda c: _zstd(_text(c, ",").encode()),
}
WRITERS: dict[str, Writer] = {
    **{name: _bytes(make) for name, make in TEXTS.items()},
    "parquet": lambda c, path: pl.DataFrame(dict(c)).write_parquet(path),
    "packed parquet": _packed_parquet,
    "folder": _parquets,
    "arrow": lambda c, path: pl.DataFrame(dict(c)).write_ipc(path),
    "xlsx": _xlsx,
    "xlsx with a title": lambda c, path: _xlsx(c, path, title=True),
    "ods": _ods,
    "sqlite": _sqlite,
}  # fmt: skip
FRAMES: dict[str, Callable[[dict[str, list[str]]], Any]] = {
    "polars": lambda c: pl.DataFrame(c),
    "pandas": lambda c: pandas.DataFrame(c),
    "pandas objects": lambda c: pandas.DataFrame(c, dtype=object),
    "pyarrow": lambda c: pa.table(c),
    "batch": lambda c: pa.RecordBatch.from_pydict(c),
    "dictionary": lambda c: pl.DataFrame(c, schema=dict.fromkeys(c, pl.Categorical)),
}


@pytest.fixture(autouse=True)
def _safe_names(monkeypatch: pytest.MonkeyPatch) -> None:
    # Decoding in a process of its own is tested elsewhere, and takes half a second a file.
    monkeypatch.setattr("silot.data.columnar._try", lambda *_: None)


def test_the_corpus_is_as_large_as_it_says() -> None:
    places = len(WRITERS) + len(FRAMES)
    fields = sum(len(texts) for texts, _, _ in COLUMNS.values())
    assert places * len(COLUMNS) * 2 > 3_000 and places * fields > 15_000


@pytest.mark.parametrize("container", [*WRITERS, *FRAMES])
def test_declared_columns_are_the_truth_in_every_container(container: str, tmp_path: Path) -> None:
    schema = Schema.of({"columns": {name: entry for name, (_, entry, _) in COLUMNS.items()}})
    columns = {name: list(texts) for name, (texts, _, _) in COLUMNS.items()}
    if container in FRAMES:
        measure = read_by_schema(FRAMES[container](columns), schema).measure
    else:
        WRITERS[container](columns, tmp_path / "table.any")
        measure = load_measure(tmp_path / "table.any", schema=schema)
    places: dict[str, list[int]] = {}
    for place, origin in enumerate(schema.origins):
        places.setdefault(origin, []).append(place)
    for name, (_, _, truth) in COLUMNS.items():
        ours, theirs = measure.points[:, places[name]], measure.points[:, places[truth]]
        assert np.array_equal(ours, theirs), name
    low, high = -1e5, 1e7
    exact = (np.array(NUMBERS) - low) / (high - low)
    assert np.array_equal(measure.points[:, places["number plain"][0]], exact)
    assert np.ptp(measure.points[:, places["answer words"][0]]) == 1.0
    assert measure.points[:, places["missing empty"][1]].tolist() == [
        1.0 if k in (2, 5) else 0.0 for k in range(12)
    ]


@pytest.mark.parametrize("container", [*WRITERS, *FRAMES])
def test_undeclared_columns_are_right_or_refused_in_every_container(
    container: str, tmp_path: Path
) -> None:
    """Without a schema, each column of numbers alone: the truth, or a refusal that names it."""
    right = 0
    for place, name in enumerate(f"number {notation}" for notation in NOTATIONS):
        columns = {"size": [f"{k}.5" for k in range(12)], "value": list(COLUMNS[name][0])}
        path = tmp_path / f"{place}.any"
        try:
            if container in FRAMES:
                # A frame says which type its columns have, and texts are no numbers.
                import silot

                silot.Measure(FRAMES[container](columns), columns=["value"])
            else:
                WRITERS[container](columns, path)
                read = load_measure(path, columns=["value"]).points[:, 0]
                assert read.tolist() == NUMBERS, name
                right += 1
        except SilotError as error:
            assert error.code == "measure-dtype", (name, error.message)
            assert "'value'" in error.message
    if container in TEXTS:
        # Plain ones, and those whose notation is the only possible one.
        assert right >= 15


FAULTS: dict[str, tuple[Callable[[list[str]], list[str]], str, str]] = {
    "a field too many": (lambda t: [*t[:5], t[5] + ";9", *t[6:]], "file-unreadable", "line 6 has"),
    "a field too few": (lambda t: [*t[:5], t[5].rpartition(";")[0], *t[6:]], "file-unreadable",
                        "line 6 has"),
    "a blank line": (lambda t: [*t[:5], "", *t[5:]], "file-unreadable", "line 6 is blank"),
    "an open quote": (lambda t: [*t[:5], '"' + t[5], *t[6:]], "file-unreadable", "line 6"),
    "text behind a quote": (lambda t: [*t[:5], '"1"x;2', *t[6:]], "file-unreadable", "line 6"),
    "a note at the end": (lambda t: [*t, "12 records"], "file-unreadable", "line 14 has 1 field"),
    "a comment inside": (lambda t: [*t[:5], "# checked", *t[5:]], "file-unreadable", "line 6"),
    "names twice": (lambda t: ["a;a", *t[1:]], "file-columns", "no. 1 and 2"),
    "no names": (lambda t: t[1:], "file-header", "line 1"),
    "empty names": (lambda t: [";", *t[1:]], "file-unreadable", "line 1 has no names"),
    "no records": (lambda t: t[:1], "measure-empty", "no record"),
    "a word": (lambda t: [*t[:5], "x;1", *t[6:]], "measure-dtype", "line 6"),
    "no number": (lambda t: [*t[:5], ";1", *t[6:]], "measure-nan", "line 6"),
    "infinity": (lambda t: [*t[:5], "inf;1", *t[6:]], "measure-infinite", "line 6"),
    "two notations": (lambda t: [*t[:5], "1.234,5;1", *t[6:]], "measure-dtype", "line"),
}  # fmt: skip


def _faulty(fault: str) -> str:
    lines = ["a;b", *(f"{k + 0.5};{k}" for k in range(12))]
    return "\n".join(FAULTS[fault][0](lines)) + "\n"


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "text": bytes, "gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress,
    "zip": lambda data: _zip("a.csv", data),
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "windows": lambda data: data.replace(b"\n", b"\r\n"),
    "returns": lambda data: data.replace(b"\n", b"\r"),
}  # fmt: skip


@pytest.mark.parametrize("packing", PACKED)
def test_a_fault_is_refused_with_its_code_and_its_line(packing: str, tmp_path: Path) -> None:
    for place, (fault, (_, code, quoting)) in enumerate(FAULTS.items()):
        path = tmp_path / f"{place}.any"
        path.write_bytes(PACKED[packing](_faulty(fault).encode()))
        with pytest.raises(SilotError) as refused:
            load_measure(path)
        assert refused.value.code == code, (fault, refused.value.message)
        assert quoting in refused.value.message, (fault, refused.value.message)
        assert path.name in refused.value.message


@pytest.mark.parametrize("packing", ["gzip", "xz", "bzip2", "zip", "zstd"])
def test_a_packed_file_that_is_cut_off_or_damaged_loses_no_record(
    packing: str, tmp_path: Path
) -> None:
    text = _text({"a": [f"{k * 7919 % 100_003}" for k in range(20_000)]}, ",").encode()
    data = _zstd(text) if packing == "zstd" else PACKED[packing](text)
    generator = np.random.default_rng(0)
    for trial in range(12):
        damaged = bytearray(data)
        if trial < 6:
            del damaged[int(len(data) * (trial + 1) / 7) :]
        else:
            place = int(generator.integers(20, len(data) - 30))
            damaged[place] ^= 0xFF
        path = tmp_path / f"{trial}.csv"
        path.write_bytes(bytes(damaged))
        if packing == "zstd" and trial >= 6:
            # Its frames have no checksum unless they are asked for.
            continue
        with pytest.raises(SilotError) as refused:
            load_measure(path)
        assert refused.value.code in ("file-unreadable", "file-kind"), refused.value


@pytest.mark.parametrize(
    ("encoding", "names"),
    [("cp1252", ("größe", "naïve")), ("latin-1", ("größe", "été")), ("shift_jis", ("年齢", "体重")),
     ("cp932", ("年齢", "体重")), ("euc-jp", ("年齢", "体重")), ("gb18030", ("年龄", "体重")),
     ("euc-kr", ("나이", "체중")), ("iso-8859-15", ("âge", "œdème")), ("utf-16-le", ("größe", "b")),
     ("cp1250", ("wiek", "płeć")), ("koi8-r", ("возраст", "вес")), ("mac-roman", ("größe", "é"))],
)  # fmt: skip
def test_an_encoding_is_declared_or_refused(
    encoding: str, names: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"{names[0]};{names[1]}\n1;2\n3;4\n".encode(encoding))
    with pytest.raises(SilotError, match="file-unreadable") as refused:
        load_measure(path)
    assert "file: {encoding:" in refused.value.message
    measure = load_measure(path, site=Site.of({"file": {"encoding": encoding}}))
    assert measure.columns == names and measure.points.tolist() == [[1, 2], [3, 4]]


def test_a_dialect_is_declared_where_two_fit_or_none_is_clear(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a, m;b, kg\n1,7;70,5\n1,6;64,2\n")
    with pytest.raises(SilotError, match="2 separators are possible") as refused:
        load_measure(path)
    assert "file: {separator: ';'}" in refused.value.message
    read = load_measure(path, site=Site.of({"file": {"separator": ";"}}))
    assert read.points.tolist() == [[1.7, 70.5], [1.6, 64.2]]
    path.write_text("1,2\nunits,years\nage,dose\n70,3\n")
    read = load_measure(path, site=Site.of({"file": {"header": 3}}))
    assert read.columns == ("age", "dose") and read.points.tolist() == [[70, 3]]
    path.write_text("age|dose\n! checked\n'7|0'|3\n")
    site = Site.of({"file": {"comment": "!", "quote": "'"}, "columns": {}})
    with pytest.raises(SilotError, match="line 3"):
        load_measure(path, site=site)
    with pytest.raises(SilotError, match="site file that describes columns"):
        load_measure(path, site=Site.of({"decimal": ","}))


def test_notations_of_the_corpus_are_those_of_the_model() -> None:
    """Every entry of a notation is in the corpus: a new one is read in all containers too."""
    entries = {key for _, notation in NOTATIONS.values() for key in notation}
    assert entries | {"clock"} == set(Notation.model_fields)


def _typed() -> dict[str, list[Any]]:
    days = [np.datetime64(day).astype(object) for day in DAYS]
    mixed: list[Any] = [f"{k}.5" if k % 3 else k + 0.5 for k in range(12)]
    return {
        "number": list(NUMBERS),
        # Decimals of three digits, which a text may also mean as thousands.
        "thousandths": [round(1 + k / 8, 3) for k in range(12)],
        "whole": list(range(12)),
        "day": days,
        "truth": [answer == "yes" for answer in ANSWERS],
        "mixed": mixed,
        "holes": [None if k in (2, 5) else k + 0.25 for k in range(12)],
        "word": list(WORDS),
    }


@pytest.mark.parametrize("container", ["xlsx", "sqlite"])
def test_cells_of_a_type_are_read_as_what_they_are(container: str, tmp_path: Path) -> None:
    spread = {"kind": "number", "range": [-1e5, 1e7]}
    schema = Schema.of({"columns": {
        "number": spread, "thousandths": spread, "whole": {"kind": "integer", "range": [0, 20]},
        "day": {"kind": "date", "range": ["1950-01-01", "2030-01-01"]}, "truth": {"kind": "yes/no"},
        "mixed": spread, "holes": {**spread, "missing": "indicator"},
        "word": {"kind": "category", "categories": sorted(set(WORDS))},
    }})  # fmt: skip
    columns, path = _typed(), tmp_path / "typed.any"
    if container == "xlsx":
        _xlsx(columns, path, title=True)
    else:
        stored = {k: [v.isoformat() if k == "day" else v for v in c] for k, c in columns.items()}
        base = sqlite3.connect(path)
        base.execute(f"CREATE TABLE t ({', '.join(stored)})")
        rows = zip(*stored.values(), strict=True)
        base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(stored))})", rows)
        base.commit()
        base.close()
    texts = {
        "day": DAYS, "truth": ANSWERS, "holes": ["" if v is None else v for v in columns["holes"]]
    }  # fmt: skip
    plain_file = tmp_path / "plain.csv"
    plain_file.write_text(_text({**columns, **texts}, ","))  # type: ignore[dict-item]
    typed, truth = (load_measure(file, schema=schema).points for file in (path, plain_file))
    assert np.array_equal(typed, truth)
    # Without a schema, too: a cell that is a number has no other reading.
    read = load_measure(path, columns=["number", "thousandths", "whole"]).points
    assert read.tolist() == [list(row) for row in zip(
        columns["number"], columns["thousandths"], columns["whole"], strict=True
    )]  # fmt: skip


def test_texts_in_cells_that_may_part_thousands_are_refused(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"a": [f"{k}.234" for k in range(1, 9)], "b": list(range(8))}
    _xlsx(columns, tmp_path / "a.xlsx")
    with pytest.raises(SilotError, match="measure-dtype") as refused:
        load_measure(tmp_path / "a.xlsx")
    assert "row 2" in refused.value.message and "'a'" in refused.value.message


def _edited(path: Path, edit: Callable[[Any], object]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    _xlsx({"a": list(range(9)), "b": list(range(9))}, path, title=True)
    book = openpyxl.load_workbook(path)
    edit(book.active)
    book.save(path)
    return path


def _error(sheet: Any) -> None:
    sheet["B7"].value, sheet["B7"].data_type = "#DIV/0!", "e"


SHEETS: dict[str, tuple[Callable[[Any], object], str]] = {
    "error": (_error, "B7"),
    "formula": (lambda sheet: sheet.__setitem__("B7", "=1+1"), "B7"),
    "hidden row": (lambda sheet: setattr(sheet.row_dimensions[9], "hidden", True), "row 9"),
    "merged": (lambda sheet: sheet.merge_cells("A5:B5"), "A5:B5"),
    "blank row": (lambda sheet: sheet.insert_rows(8), "row 8 is blank"),
    "no name": (lambda sheet: sheet.__setitem__("D9", 4), "column D has no name in row 3"),
    "far": (lambda sheet: sheet.__setitem__("XFD1048576", 1), "XFD1048576"),
    "two names": (lambda sheet: sheet.__setitem__("B3", "a"), "no. 1 and 2"),
    "missing": (lambda sheet: sheet.__setitem__("B7", None), "row 7"),
    "word": (lambda sheet: sheet.__setitem__("B7", "ask"), "row 7"),
}


@pytest.mark.parametrize("fault", SHEETS)
def test_a_fault_of_a_sheet_is_refused_with_its_place(fault: str, tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    edit, place = SHEETS[fault]
    path = _edited(tmp_path / "a.xlsx", edit)
    with pytest.raises(SilotError) as refused:
        load_measure(path)
    assert place in refused.value.message and "a.xlsx" in refused.value.message


def test_a_part_of_a_file_is_named_or_asked_for(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    for name, first in (("north", 1), ("süd", 5)):
        sheet = book.create_sheet(name)
        for row in (("a", "b"), (first, 2), (3, 4)):
            sheet.append(row)
    del book["Sheet"]
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(SilotError, match="file-part") as refused:
        load_measure(tmp_path / "a.xlsx")
    assert "'north', 'süd'" in refused.value.message and "a.xlsx#north" in refused.value.message
    assert load_measure(f"{tmp_path}/a.xlsx#süd").points.tolist() == [[5, 2], [3, 4]]
    (tmp_path / "b#c.csv").write_text("a,b\n1,2\n")
    assert load_measure(tmp_path / "b#c.csv").points.tolist() == [[1, 2]]


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    import os
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    text = _text({"a": ["1", "2"], "word": ["x", "y"]}, ";")
    writer = threading.Thread(target=lambda: path.write_text(text))
    writer.start()
    # Its names are read first, and its columns in two passes.
    assert load_measure(path, label_column="word").points.tolist() == [[1], [2]]
    writer.join()
