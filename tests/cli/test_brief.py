"""Help fits on a screen, and ``--help-all`` has the remainder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from silot.cli import generate
from silot.cli.app import app, build
from silot.cli.tree import name_call


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*words, name))


COMMANDS = dict(walk(typer.main.get_command(app)))


def show(*words: str) -> str:
    done = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_on_a_screen(words: tuple[str, ...]) -> None:
    lines = show(*words, "--help").splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert lines[0].startswith("Usage: ")


def test_the_top_has_twelve_commands() -> None:
    top = [words[0] for words in COMMANDS if len(words) == 1]
    assert " ".join(top) == (
        "compare distance value records train release schema privacy site project doctor demo"
    )
    # Each function of a file is in the tree, and each name of the tree a function.
    leaves = [item for item in COMMANDS.values() if not hasattr(item, "commands")]
    assert len(leaves) == len(generate._COMMANDS)


def test_what_help_leaves_out_is_in_help_all() -> None:
    brief, every = show("train", "model", "--help"), show("train", "model", "--help-all")
    options = [name for item in COMMANDS["train", "model"].params for name in item.opts]
    hidden = [name for name in options if name not in brief]
    assert len(hidden) > 3 and all(name in every for name in hidden)
    # A required option is never hidden.
    assert "--validation" in show("records", "--help")


@pytest.mark.parametrize("words", [words for words, item in COMMANDS.items() if item.needs_words])
def test_a_call_without_words_says_what_to_type(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(build(*words), words, prog_name="silot", env={"COLUMNS": "80"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Usage: {' '.join(['silot', *words])} ")
    assert words == ("site",) or "Typical calls:\n  silot " in done.stderr


CALLS = [(words, call) for words, item in COMMANDS.items() for call in item.calls]


@pytest.mark.parametrize(("words", "call"), CALLS, ids=[call for _, call in CALLS])
def test_typical_calls_are_calls(words: tuple[str, ...], call: str) -> None:
    typed = call.split()[1:]
    item, path = COMMANDS[()], ()
    while hasattr(item, "commands"):
        name = typed.pop(0) if typed[0] in item.commands else item.default
        item, path = item.commands[name], (*path, name)
    assert path[: max(len(words) - 1, 0)] == words[:-1]
    context = item.make_context(path[-1], list(typed), resilient_parsing=True)
    assert [option for option in typed if option.startswith("--")] or context.args == []
    known = {name for param in item.params for name in param.opts}
    assert {option for option in typed if option.startswith("--")} <= known


def test_a_group_with_a_default_takes_what_names_no_command_for_its_argument() -> None:
    for words, called in {
        ("distance", "a.csv", "b.csv"): "pair", ("distance", "./matrix", "b.csv"): "pair",
        ("distance", "--json", "a.csv", "b.csv"): "pair", ("distance", "matrix", "b.csv"): "matrix",
        ("release", "a.csv"): "make", ("train", "--sites", "links"): "model",
    }.items():  # fmt: skip
        (group,) = build(*words).registered_groups
        assert [item.name for item in group.typer_instance.registered_commands] == [called]
    assert (
        name_call(("distance", "a.csv", "matrix")) == name_call(("distance", "pair")) == "distance"
    )
    assert name_call(("train", "adapt", "a.npz")) == "adapt"
