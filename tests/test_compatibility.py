"""Formats have versions; another version is refused with a code, never read by guess."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from silot import Schema
from silot.data import checkpoint, schema
from silot.distances.questions import Moments
from silot.errors import SilotError, explanations
from silot.federation import Transcript, message, question, sealed, transcript
from silot.privacy import Ledger, ledger_file
from silot.sites import trail

from .federation.test_sealed import KEY, example
from .sites.test_trail import kit as trail_kit

pytestmark = pytest.mark.all_cases

PAGE = (Path(__file__).parents[1] / "docs" / "compatibility.md").read_text()
FIELDS = {"columns": {"age": {"kind": "number", "range": [0, 100]}}}


def wire(path: Path) -> None:
    path.write_bytes(question.encode_question(Moments()))


def wire_read(path: Path) -> None:
    question.decode_question(path.read_bytes())


def signed(path: Path) -> None:
    path.write_bytes(example().to_bytes(KEY))


def signed_read(path: Path) -> None:
    sealed.Sealed.of_bytes(path.read_bytes())


def ledger(path: Path) -> None:
    stamped = ledger_file.VERSION
    with pytest.MonkeyPatch.context() as today:
        # Making one opens it again.
        today.setattr(ledger_file, "VERSION", 3)
        Ledger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {stamped}")


def ledger_read(path: Path) -> None:
    Ledger(path).close()


def schema_written(path: Path) -> None:
    text = Schema.of(FIELDS).text()
    path.with_suffix(".yml").write_text(text.replace("version: 1", f"version: {schema.VERSION}"))


def trail_written(path: Path) -> None:
    with Ledger() as ledger:
        trail.export_trail(ledger, trail_kit(), path, "json", 0, 0)


def checkpoint_read(path: Path) -> None:
    assert checkpoint.load(path, "kind", "mark") is not None


# By the name of the page: the module of the constant, its name, what writes and what reads.
FORMATS: dict[str, tuple[ModuleType, str, Callable[[Path], object], Callable[[Path], object]]] = {
    "messages on the wire": (message, "VERSION", wire, wire_read),
    "signed files": (sealed, "VERSION", signed, signed_read),
    "schemas": (
        schema, "VERSION", schema_written, lambda path: Schema.load(path.with_suffix(".yml"))
    ),
    "ledgers": (ledger_file, "VERSION", ledger, ledger_read),
    "transcripts": (
        transcript, "_VERSION",
        lambda path: Transcript("direct", {}, ()).save(path), Transcript.load,
    ),
    "exported trails": (trail, "VERSION", trail_written, trail.verify_trail),
    "checkpoints of distillation": (
        checkpoint, "_VERSION",
        lambda path: checkpoint.save(path, "kind", "mark", {}, {}), checkpoint_read,
    ),
}  # fmt: skip


def rows() -> dict[str, tuple[int, str]]:
    found = re.findall(r"^\| ([^|:]+)[^|]*\| (\d+) \|.*`([\w-]+)` \|$", PAGE, flags=re.MULTILINE)
    return {name.strip(): (int(version), code) for name, version, code in found}


def test_the_page_has_the_versions_of_the_source() -> None:
    versions = {name: getattr(module, constant) for name, (module, constant, *_) in FORMATS.items()}
    assert {name: version for name, (version, _) in rows().items()} == versions
    assert {code for _, code in rows().values()} <= set(explanations())


@pytest.mark.parametrize("name", FORMATS)
def test_another_version_is_refused_with_its_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, constant, write, read = FORMATS[name]
    path = tmp_path / "file.bin"
    write(path)
    read(path)
    later = getattr(module, constant) + 1
    with monkeypatch.context() as patched:
        patched.setattr(module, constant, later)
        path = tmp_path / "later.bin"
        write(path)
    with pytest.raises(SilotError) as caught:
        read(path)
    assert caught.value.code == rows()[name][1]
