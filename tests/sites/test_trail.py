"""Exported trails: whoever has one verifies it, and no row of it can be another."""

from __future__ import annotations

import csv
import dataclasses
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.errors import FileError, InputError, MismatchError, SilotError
from silot.privacy import Ledger
from silot.privacy.ledger_file import COLUMNS, Row
from silot.sites.kit import Kit
from silot.sites.trail import Format, Trail, choose_format, export_trail, verify_trail

from ..tiers import examples
from .project import authority, identity

pytestmark = pytest.mark.all_cases

PROJECT = "wards"


def kit(name: str = "north", project: str = PROJECT) -> Kit:
    """What an export needs of a kit."""
    return cast("Kit", SimpleNamespace(
        name=name, project=SimpleNamespace(name=project),
        identity=lambda: identity(name, project=project),
    ))  # fmt: skip


def filled(size: int = 12) -> Ledger:
    ledger = Ledger()
    ledger.hold("a" * 64, question="records", level="record", asker="uni")
    ledger.decide(ledger.waiting[0].id, approved=False)
    for number in range(size):
        ledger.log_question({"asker": "=1+1", "round": number, "question": "moments",
                             "level": "statistics", "bytes": 10, "mu": 0.0})  # fmt: skip
    ledger.refuse("records", "policy-level", "bank")
    ledger.reserve("b" * 64, mu=0.25, budget=1.0, mechanism="noise", asker="uni")
    ledger.commit("b" * 64, b"SECRET")
    return ledger


def written(path: Path, first: int = 0) -> Trail:
    with filled() as ledger:
        return export_trail(ledger, kit(), path, "json", first, ledger.size - 1)


def test_another_machine_verifies_it_with_the_root_or_says_whom_it_trusts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    trail = written(path)
    assert verify_trail(path) == (trail, authority(PROJECT).fingerprint)
    assert verify_trail(path, authority(PROJECT).certificate)[0] == trail
    assert (trail.site, trail.project, trail.before) == ("north", PROJECT, "0" * 64)
    # Another project's authority did not certify the site.
    with pytest.raises(MismatchError) as caught:
        verify_trail(path, authority("others").certificate)
    assert caught.value.code == "certificate-authority"
    body = json.loads(path.read_text())
    assert [row["event"] for row in body["rows"]][:3] == ["open", "wait", "deny"]
    assert "SECRET" not in path.read_text() and len(body["rows"]) == trail.last + 1


@given(st.integers(0, 17), st.integers(0, 17))
@settings(max_examples=examples(30), deadline=None)
def test_an_excerpt_of_the_middle_verifies_by_itself(one: int, other: int) -> None:
    path = Path(mkdtemp()) / "a.json"
    first, last = sorted((one, other))
    with filled() as ledger:
        rows = ledger.entries()
        trail = export_trail(ledger, kit(), path, "json", first, last)
        assert (trail.before, trail.head) == (rows[first].previous, rows[last].hash)
        assert verify_trail(path)[0] == trail
        # Two that follow one another have it in common.
        if last + 1 < len(rows):
            after = export_trail(ledger, kit(), path, "json", last + 1, len(rows) - 1)
            assert after.before == trail.head


@cache
def lines() -> tuple[str, ...]:
    path = Path(mkdtemp()) / "a.json"
    written(path, 3)
    return tuple(path.read_text().splitlines())


def code_of(text: str) -> str:
    """The code and the row that verifying a file ends in; nothing where it is sound."""
    path = Path(mkdtemp()) / "a.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    try:
        verify_trail(path, authority(PROJECT).certificate)
    except SilotError as error:
        return f"{error.code} {error.message}"
    return ""


def row_of(line: str) -> Row:
    return Row(**json.loads(line.removesuffix(",")))


def joined(rows: list[Row]) -> str:
    body = ",\n".join(json.dumps(dataclasses.asdict(row)) for row in rows)
    return f"{lines()[0]}\n{body}\n]}}\n"


def test_untouched_it_is_sound() -> None:
    assert code_of("\n".join(lines()) + "\n") == ""
    assert code_of(joined([row_of(line) for line in lines()[1:-1]])) == ""


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_row_that_was_changed_removed_or_put_in_is_named(data: st.DataObject) -> None:
    rows = [row_of(line) for line in lines()[1:-1]]
    at = data.draw(st.integers(0, len(rows) - 1))
    row, how = (
        rows[at],
        data.draw(st.sampled_from(["change", "rehash", "rechain", "cut", "put in"])),
    )
    number = row.sequence
    if how == "cut":
        del rows[at]
        expected = {f"row {number} is missing"}
    elif how == "put in":
        new = dataclasses.replace(row, asker="nobody", previous=row.hash).with_hash()
        rows.insert(at + 1, new)
        expected = {f"row {number} was put in"}
    else:
        column = data.draw(st.sampled_from([c for c in COLUMNS if c not in ("sequence", "hash")]))
        value: Any = 0.75 if column in ("mu", "total") else "x" * 64
        changed = dataclasses.replace(row, **{column: value})
        rows[at] = changed
        expected = {f"row {number} was changed", f"row {number} does not follow"}
        if how != "change" and column != "previous":
            rows[at] = changed.with_hash()
            expected = {f"row {number + 1} does not follow", f"row {number} or one before"}
        if how == "rechain" and column != "previous":
            for k in range(at + 1, len(rows)):
                rows[k] = dataclasses.replace(rows[k], previous=rows[k - 1].hash).with_hash()
            expected = {f"row {rows[-1].sequence} or one before it was changed"}
    said = code_of(joined(rows))
    assert said.startswith("trail-broken") and any(words in said for words in expected), said


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=examples(150), deadline=None)
def test_no_byte_can_be_another(at: int, by: int) -> None:
    data = bytearray(("\n".join(lines()) + "\n").encode())
    at %= len(data)
    data[at] ^= by
    text = data.decode(errors="surrogateescape")
    path = Path(mkdtemp()) / "a.json"
    path.write_bytes(bytes(data))
    try:
        trail, _ = verify_trail(path, authority(PROJECT).certificate)
    except SilotError:
        return
    # The root in the file is not what it was verified by; a space or an escape may be another.
    before = json.loads("\n".join(lines()))
    after = json.loads(text)
    assert (after["signed"], after["rows"]) == (before["signed"], before["rows"])
    assert trail.head == before["signed"]["head"]


@pytest.mark.parametrize("field", ["project", "site", "written", "first", "last", "before", "head"])
def test_what_the_site_signed_cannot_be_other_words(field: str) -> None:
    head = json.loads(lines()[0] + "]}")
    value = head["signed"][field]
    head["signed"][field] = value - 1 if isinstance(value, int) else value.replace("0", "1") + "x"
    if field == "written":
        head["signed"][field] = datetime.now(UTC).isoformat()
    text = "\n".join([json.dumps(head)[:-2], *lines()[1:]]) + "\n"
    assert code_of(text).startswith("trail-signature")


def test_a_certificate_that_is_no_site_s_or_expired_signs_nothing(tmp_path: Path) -> None:
    head = json.loads(lines()[0] + "]}")
    late = datetime.now(UTC) + timedelta(days=4000)
    head["signed"]["written"] = late.isoformat()
    text = "\n".join([json.dumps(head)[:-2], *lines()[1:]]) + "\n"
    assert code_of(text).startswith("certificate-expired")
    other = identity("south")
    head["certificate"] = other.credential.certificate.decode()
    text = "\n".join([json.dumps(head)[:-2], *lines()[1:]]) + "\n"
    assert code_of(text).startswith("certificate-proof")
    with filled() as ledger:
        path = tmp_path / "a.json"
        # The key and certificate of one site, and the name of another.
        both = cast("Kit", SimpleNamespace(
            name="south", project=SimpleNamespace(name=PROJECT), identity=lambda: identity("north")
        ))  # fmt: skip
        export_trail(ledger, both, path, "json", 0, 3)
        with pytest.raises(FileError, match="trail-signature"):
            verify_trail(path)


@pytest.mark.parametrize(
    "text", ["", "\n", "{}\n", "[" * 10_000, "\x00", "{\"silot_trail\": 1", "x" * (1 << 21)]
)  # fmt: skip
def test_files_that_are_no_trails(text: str) -> None:
    assert code_of(text).startswith("trail-format")


def test_a_trail_that_was_cut_off_or_goes_on_is_refused() -> None:
    assert "is missing" in code_of("\n".join(lines()[:5]) + "\n")
    assert code_of("\n".join([*lines()[:5], "]}"]) + "\n").startswith("trail-broken")
    assert code_of("\n".join([*lines(), "{}"]) + "\n").startswith("trail-format")


def test_a_sheet_has_every_row_and_no_formula(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("xlsxwriter")
    with filled() as ledger:
        for name in ("csv", "xlsx"):
            export_trail(ledger, kit(), tmp_path / f"a.{name}", cast("Format", name), 0, 18)
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [int(row["sequence"]) for row in rows] == list(range(19))
    asked, refused, charged = rows[3], rows[15], rows[16]
    assert (asked["asker"], asked["question"], asked["level"], asked["bytes"]) == (
        "'=1+1", "moments", "statistics", "10"
    )  # fmt: skip
    denied = rows[2]
    assert (denied["event"], denied["question"], denied["level"]) == ("deny", "records", "record")
    assert denied["by"]
    assert (refused["asker"], refused["code"]) == ("bank", "policy-level")
    assert (charged["mu"], charged["total"], charged["question"]) == ("0.25", "0.25", "noise")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    cells = list(sheet.iter_rows(values_only=True))
    assert list(cells[0]) == list(rows[0]) and len(cells) == len(rows) + 1
    assert [str(line[-1]) for line in cells[1:]] == [row["hash"] for row in rows]
    assert all(cell.data_type != "f" for line in sheet for cell in line)


def test_the_name_or_the_option_says_the_format() -> None:
    assert choose_format(Path("a.CSV"), None) == "csv"
    assert choose_format(Path("a.txt"), "json") == "json"
    for path, word in (("a.txt", None), ("a.csv", "pdf")):
        with pytest.raises(InputError, match="trail-kind"):
            choose_format(Path(path), word)


def test_rows_that_were_changed_are_not_exported(tmp_path: Path) -> None:
    with filled() as ledger:
        ledger._connection.execute("DROP TRIGGER no_change")
        ledger._connection.execute("UPDATE rows SET asker = 'x' WHERE sequence = 5")
        with pytest.raises(FileError, match="row 5 was changed"):
            export_trail(ledger, kit(), tmp_path / "a.json", "json", 0, 9)
    assert list(tmp_path.iterdir()) == []
