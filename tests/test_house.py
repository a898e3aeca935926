"""Rules of the house that no linter knows."""

import re
from pathlib import Path

import silot

SOURCE = Path(silot.__file__).parent


def lines_with(pattern: str) -> set[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        if re.search(pattern, path.read_text()):
            found.add(str(path.relative_to(SOURCE)))
    return found


def test_the_records_of_a_holder_are_opened_in_one_place() -> None:
    assert lines_with(r"\.open_for\(") == {"federation/party.py"}


def test_nothing_is_ever_unpickled() -> None:
    assert lines_with(r"\bpickle\b|allow_pickle=True") == set()


def test_every_error_code_is_written_as_words() -> None:
    for path in SOURCE.rglob("*.py"):
        for code in re.findall(r'code="([^"]*)"', path.read_text()):
            assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code), (path, code)
