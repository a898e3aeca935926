"""Documents of users: every fault has a place and a sentence in silot's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, field_validator

from silot.data.documents import complaint, read_fields
from silot.errors import FileError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["inner"] = "inner"
    rate: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)
    file: Path = Path()


class Dot(BaseModel):
    kind: Literal["dot"]


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(default="a", min_length=1, max_length=5, pattern="^[a-z]*$")
    count: int = Field(default=1, ge=0, lt=9)
    strict: StrictInt = 1
    flag: bool = False
    kind: Literal["exact", "gp"] = "exact"
    triple: tuple[float, float, float] = (1.0, 2.0, 3.0)
    few: list[int] = Field(default=[1], min_length=1, max_length=2)
    inner: dict[str, Inner | float] = {}
    either: list[int] | float = 1.0
    other: StrictInt | Inner = 1
    tagged: Inner | Dot = Field(default=Inner(), discriminator="kind")
    names: frozenset[str] = frozenset()
    need: int

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("bad is no name.")
        return value


SECRET = 8675309


@pytest.mark.parametrize(
    ("fields", "kind", "place", "message"),
    [
        ({"ned": 3}, "unknown", "ned", "there is no such field. Check its spelling"),
        ({}, "missing", "need", "it is missing."),
        ({"need": "x"}, "value", "need", "a whole number is needed; a text arrived."),
        ({"need": 3.5}, "value", "need", "a whole number is needed; a fraction arrived."),
        ({"need": None}, "value", "need", "a whole number is needed; nothing arrived."),
        ({"strict": True}, "value", "strict", "a whole number is needed; true arrived."),
        ({"strict": [1, 2]}, "value", "strict", "a whole number is needed; a list of 2 arrived."),
        ({"flag": {}}, "value", "flag", "true or false is needed; a mapping arrived."),
        ({"flag": object()}, "value", "flag", "true or false is needed; something else arrived."),
        ({"count": -SECRET}, "value", "count", "a number of 0 or more is needed."),
        ({"count": SECRET}, "value", "count", "a number below 9 is needed."),
        ({"name": ""}, "value", "name", "a text of length 1 or more is needed."),
        ({"name": "abcdef"}, "value", "name", "a text of length 5 or less is needed."),
        ({"name": "A"}, "value", "name", "a text that matches ^[a-z]*$ is needed."),
        ({"name": "bad"}, "value", "name", "bad is no name."),
        ({"kind": "both"}, "value", "kind", "'exact' or 'gp' is needed."),
        ({"triple": 7}, "value", "triple", "a list is needed; a number arrived."),
        ({"triple": [1, 2]}, "value", "triple.2", "it is missing."),
        ({"few": []}, "value", "few", "1 or more entries are needed."),
        ({"few": [1, 2, 3]}, "value", "few", "2 or fewer entries are needed."),
        ({"few": [1, "x"]}, "value", "few.1", "a whole number is needed; a text arrived."),
        ({"either": "x"}, "value", "either", "a list or a number is needed; a text arrived."),
        ({"either": [1, "x"]}, "value", "either.1", "a whole number is needed; a text arrived."),
        ({"other": {"rate": "x"}}, "value", "other.rate", "a number is needed; a text arrived."),
        ({"other": "x"}, "value", "other", "a whole number or a mapping is needed; a text arr"),
        ({"other": 1.5}, "value", "other", "a whole number or a mapping is needed; a fraction"),
        ({"tagged": {"kind": str(SECRET)}}, "value", "tagged", "it is not one of 'inner', 'dot'."),
        ({"tagged": {}}, "value", "tagged", "'kind' is missing in it."),
        ({"names": 3}, "value", "names", "a list is needed; a number arrived."),
        ({"need": "9" * 5000}, "value", "need", "a whole number is needed."),
        ({"inner": []}, "value", "inner", "a mapping is needed; a list of 0 arrived."),
        ({"inner": {"x": {"rate": 0}}}, "value", "inner.x.rate", "a number above 0.0 is needed."),
        ({"inner": {"x": {"rate": 2}}}, "value", "inner.x.rate", "a number of 1.0 or less is"),
        ({"inner": {"x": {"rate": float("inf")}}}, "value", "inner.x.rate", "a finite number is"),
        ({"inner": {"x": {"rate": float("nan")}}}, "value", "inner.x.rate", "a finite number is"),
        ({"inner": {"x": {"file": 3}}}, "value", "inner.x.file", "a path is needed; a number arr"),
        ({"inner": {"x": {"speed": 3}}}, "unknown", "inner.x.speed", "there is no such field."),
    ],
)
def test_each_fault_has_a_place_and_a_sentence_without_the_value(
    fields: dict[str, Any], kind: str, place: str, message: str
) -> None:
    body = fields if kind == "missing" or "ned" in fields else {"need": 1} | fields
    with pytest.raises(ValidationError) as caught:
        Outer(**body)
    found = complaint(caught.value, body)
    assert (found.kind, ".".join(found.place)) == (kind, place)
    assert found.message.startswith(message)
    assert str(SECRET) not in found.message


@pytest.mark.parametrize("name", ["a.yml", "a.YAML", "a.json"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_mapping_is_read(tmp_path: Path, name: str, encoding: str) -> None:
    (tmp_path / name).write_text('{"a": 1, "b": {"a": [2.5, null]}}', encoding=encoding)
    assert read_fields(tmp_path / name) == {"a": 1, "b": {"a": [2.5, None]}}


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("a.yml", "a: 1\nb:\n  c: 1\n  c: 2\n", "file-unreadable", "line 4: 'c' is given twice"),
        ("a.json", '{"b": {"c": 1, "c": 2}}', "file-unreadable", "'c' is given twice"),
        ("a.yml", "a: [", "file-unreadable", "line 2: "),
        ("a.yml", "a: 1\nb: {", "file-unreadable", "line 3: "),
        ("a.yml", "a: !!python/object:os.system {}", "file-unreadable", "line 1: "),
        ("a.yml", "? [1, 2]\n: 3", "file-unreadable", "a.yml"),
        ("a.yml", "[" * 100_000, "file-unreadable", "a.yml"),
        ("a.yml", b"a: \xff", "file-unreadable", "it is not UTF-8 text"),
        ("a.json", "{\n1}", "file-unreadable", "line 2: "),
        ("a.json", "[" * 100_000, "file-unreadable", "more than 50 deep"),
        ("a.json", "[1]", "file-unreadable", "not a mapping"),
        ("a.yml", "1: 2", "file-unreadable", "not a mapping"),
        ("a.yml", "", "file-unreadable", "not a mapping"),
        ("a.yml", f"a: !!bool {SECRET}", "file-unreadable", "line 1: a value that is not"),
        ("a.yml", f"a: !!int x{SECRET}", "file-unreadable", "line 1: a value that is not"),
        ("a.yml", f"a: !!float x{SECRET}", "file-unreadable", "line 1: a value that is not"),
        ("a.yml", f"a: !!timestamp x{SECRET}", "file-unreadable", "line 1: a value that is not"),
        ("a.yml", 'a: !!int ""', "file-unreadable", "line 1: a value that is not"),
        ("a.yml", "a: 2026-02-31", "file-unreadable", "line 1: a value that is not"),
        ("a.yml", "a: !!map [1]", "file-unreadable", "line 1: expected a mapping"),
        ("a.yml", "a: !!set {x, x}", "file-unreadable", "'x' is given twice"),
        ("a.yml", "b: &b {x: 1, x: 2}\nc: {<<: *b}", "file-unreadable", "'x' is given twice"),
        ("a.json", f'{{"a": {"8" * 5000}}}', "file-unreadable", "a number is too long"),
        ("a.txt", "{}", "file-kind", "Give .yml, .yaml or .json"),
        ("a.yml", None, "file-missing", "does not exist"),
    ],
)
def test_files_that_are_none_are_refused(
    tmp_path: Path, name: str, text: str | bytes | None, code: str, words: str
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileError) as caught:
        read_fields(tmp_path / name)
    assert caught.value.code == code
    assert words in caught.value.message
    assert str(SECRET) not in caught.value.message


def test_aliases_and_merged_mappings_are_no_field_given_twice(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(
        "all:\n  one: {in: &a {x: 1, y: 2}}\n  two: {in: &b {<<: *a, x: 3}}\n"
        "north: {<<: *b, x: 4}\nsouth: *b\nboth: {<<: [*a, *b], y: 5}\n"
    )
    found = read_fields(tmp_path / "a.yml")
    assert found["north"] == {"x": 4, "y": 2}
    assert found["south"] == {"x": 3, "y": 2}
    assert found["both"] == {"x": 1, "y": 5}
