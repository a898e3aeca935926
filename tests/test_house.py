"""Rules of the house that no linter knows; their numbers are in ``house.toml``."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import house

RULES = tomllib.loads((Path(__file__).parent / "house.toml").read_text(encoding="utf-8"))


def budget(room: str) -> int:
    """Return the lines a room may have: its budget, and what was granted with a reason."""
    granted = [entry for entry in RULES.get("raised", []) if entry["room"] == room]
    assert all(entry["gives"].strip() for entry in granted), room
    return RULES["lines"]["rooms"][room] + sum(entry["lines"] for entry in granted)


def test_every_room_has_a_budget() -> None:
    assert set(RULES["lines"]["rooms"]) == set(house.lines_by_room())


@pytest.mark.all_cases
@pytest.mark.parametrize("room", sorted(RULES["lines"]["rooms"]))
def test_a_room_keeps_its_budget(room: str) -> None:
    lines, most = house.lines_by_room()[room], budget(room)
    assert lines <= most, "take lines out, or add [[raised]] with what a user gets"
    assert lines >= most - RULES["lines"]["slack"], "lower the budget in house.toml"


def test_rooms_are_few() -> None:
    assert len(house.lines_by_room().keys() - {"faces"}) <= RULES["structure"]["rooms"]


def test_floors_are_few_and_no_room_stands_on_itself() -> None:
    graph = house.room_graph()
    assert house.circles(graph) == []
    assert max(house.floors(graph).values()) <= RULES["structure"]["floors"]


def test_no_files_import_one_another_in_a_circle() -> None:
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert house.circles(house.file_graph()) == []


def test_a_module_with_one_importer_is_an_exception() -> None:
    single = house.single_importers()
    assert len(single) <= RULES["structure"]["single_importers"], single


def test_names_say_what_they_hold() -> None:
    forbidden = set(RULES["words"]["forbidden"])
    assert {"found", "told"} <= {
        name
        for name, _ in house.bound_names(ast.parse("found = 1\ndef told(x): ..."))
        if name in forbidden
    }
    uses = [
        f"{module.path.relative_to(house.ROOT)}:{line} {name}"
        for module in house.modules().values()
        for name, line in house.bound_names(module.tree)
        if name in forbidden
    ]
    assert uses == []


@pytest.mark.parametrize("room", RULES["comments"]["rooms"])
def test_numerics_say_why(room: str) -> None:
    modules = [module for module in house.modules().values() if module.room == room]
    comments = sum(module.comment_lines for module in modules)
    assert comments >= RULES["comments"]["share"] * sum(module.code_lines for module in modules)


def sources() -> Iterator[tuple[str, str]]:
    """Yield the files of silot below its folder, with their text."""
    source = house.PACKAGES[1]
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")


def files_with(pattern: str) -> set[str]:
    return {name for name, text in sources() if re.search(pattern, text)}


def test_the_records_of_a_holder_are_opened_in_one_place() -> None:
    assert files_with(r"\.open_for\(") == {"federation/party.py"}


def test_nothing_is_ever_unpickled() -> None:
    assert files_with(r"\bpickle\b|allow_pickle=True") == set()


def test_every_error_code_is_written_as_words() -> None:
    for name, text in sources():
        for code in re.findall(r'code="([^"{]*)"', text):
            assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code), (name, code)


def test_codes_have_their_words_in_one_table() -> None:
    """A second table is a dict literal with error codes as keys and words as values."""
    from silot.errors import explanations

    def tables(source: str) -> list[int]:
        return [
            node.lineno
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Dict)
            and sum(
                getattr(key, "value", None) in explanations() and " " in ast.unparse(value)
                for key, value in zip(node.keys, node.values, strict=True)
            ) > 1
        ]  # fmt: skip

    assert tables("{'policy-level': 'is too fine', 'ledger-full': f'is full of {x}'}") == [1]
    assert tables("{'policy-level': 404, 'ledger-full': 409}") == []
    every = {name: tables(text) for name, text in sources()}
    assert {name: lines for name, lines in every.items() if lines} == {}
