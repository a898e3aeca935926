"""Rules of the house that no linter knows."""

import ast
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
    every = {path.name: tables(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert {name: lines for name, lines in every.items() if lines} == {}
