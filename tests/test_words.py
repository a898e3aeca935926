"""Words that readers of the field do not know stand in no text that a reader sees."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from reference import pages as reference
from silot.cli.app import build
from silot.errors import explanations
from tests import house

ROOT = Path(__file__).parents[1]
# What is not written, and what is written instead.
INSTEAD = {
    r"laws?": "distribution",
    r"(than|by|what|pure) chance|chance (would|makes?|alone)": "sampling noise, or by guessing",
    r"(sound|broken) (records?|values?|features?)": "clean, faulty",
    r"bills?": "cost",
    r"told|tells|telling": "sends, reports, discloses, or distinguishes",
    r"whom to pool": "which sites to combine",
    r"computed back": "reconstructed",
    r"how fine|finest": "how detailed",
    r"gone on|go(es)? on with": "resume, continue",
    r"asks? nobody|nobody (is|was|any)": "asks no site",
    r"(are )?no days": "do not match the date format",
    r"coordinate of its own": "an extra 0/1 feature",
    r"mend(s|ed|ing)?|stumbl\w+": "fix, find",
    r"take it (if|when|where|to)|not to say|when not|to be said": "Use it when, It cannot tell you",
    r"(is|are) had|such a one|such ones": "a whole sentence",
    r"locked (for|from)": "encrypted",
}
_FORBIDDEN = {
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE): better for words, better in INSTEAD.items()
}
# Code has names of its own: fences, spans and what lies below ``>>>``.
_CODE = re.compile(r"^ *```.*?^ *```|``.*?``|`[^`\n]*`|^ *>>> .*$", re.DOTALL | re.MULTILINE)


def forbidden(text: str) -> list[str]:
    """Return each forbidden word of a text with what is written instead."""
    plain = _CODE.sub("`x`", text)
    return [
        f"{match[0]} -> {better}"
        for words, better in _FORBIDDEN.items()
        for match in words.finditer(plain)
    ]


def pages() -> Iterator[tuple[str, str]]:
    """Yield README, pages and the words of notebooks; pages of results are made from runs."""
    docs = ROOT / "docs"
    beside = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    readmes = (ROOT / "packages").glob("*/README.md")
    for path in [*beside, *readmes, *docs.glob("*.md"), *docs.glob("gallery/*.md")]:
        yield path.name, path.read_text(encoding="utf-8")
    for path in docs.glob("gallery/*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        yield path.name, "\n".join(line for line in lines if line.startswith("#"))


def helps() -> Iterator[tuple[str, str]]:
    """Yield the help of every command."""

    def walk(
        command: typer.core.TyperCommand | typer.core.TyperGroup, name: str
    ) -> Iterator[tuple[str, str]]:
        words = [command.help or "", *(getattr(item, "help", "") or "" for item in command.params)]
        yield name, "\n".join(words)
        for word, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{name} {word}")

    return walk(typer.main.get_command(build()), "silot")


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield docstrings of public modules, classes, their methods, and functions."""
    for module in ("silot", *reference.modules()):
        yield module, inspect.getdoc(importlib.import_module(module)) or ""
        for name, thing in reference.public(module).items():
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            yield f"{module}.{name}", inspect.getdoc(thing) or ""
            if inspect.isclass(thing):
                for word in vars(thing):
                    if not word.startswith("_"):
                        text = inspect.getdoc(getattr(thing, word, None))
                        yield f"{module}.{name}.{word}", text or ""


def shown() -> Iterator[tuple[str, str]]:
    """Yield the texts that reports, terminals and pages in a browser are made of."""
    for module in house.modules().values():
        if module.path.stem in ("view", "overview", "console", "checks", "figures"):
            notes = {node.value for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(module.tree):
                if not isinstance(node, ast.Constant) or node in notes:
                    continue
                if isinstance(node.value, str) and node.value.count(" ") >= 2:
                    yield f"{module.path.name}:{node.lineno}", node.value


def test_a_forbidden_word_is_found_but_not_in_code() -> None:
    assert forbidden("What a holder told.") == ["told -> " + INSTEAD["told|tells|telling"]]
    assert forbidden("Two samples of one law.") == ["law -> distribution"]
    assert forbidden("The finest thing.") == ["finest -> how detailed"]
    assert forbidden("`told`, ``law`` and\n```\nbill  3 rounds\n```\n") == []


def test_no_reader_meets_a_forbidden_word() -> None:
    codes = ((f"code {code}", said.words) for code, said in explanations().items())
    hits = [
        (place, hit)
        for texts in (pages(), helps(), docstrings(), codes, shown())
        for place, text in texts
        for hit in forbidden(text)
    ]
    assert hits == []


def test_terms_are_defined_on_one_page() -> None:
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    for term in ("site", "measure", "distance", "bounds", "verdict", "release", "policy", "ledger"):
        assert f"**{term}**" in concepts.lower(), term
