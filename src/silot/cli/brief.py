"""Help that fits on a screen: what most people need, and ``--help-all`` for the others."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from copy import copy
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# A terminal of 24 lines and 80 columns.
_WIDTH, _LINES = 80, 24
# Beside options: usage, two lines of words, what --help-all has, and empty lines.
_OTHERS = 9
# Columns of options before their words.
_OPTION = 26
# What is shown first, after what is required and what typical calls have.
_FIRST = {name: k for k, name in enumerate((
    "method", "why", "validation", "labels", "label_column", "privacy_epsilon", "schema", "report",
    "out", "save", "sheet", "site", "budget_epsilon", "sites",
))}  # fmt: skip


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".;")


def _row(name: str, words: str, width: int = _OPTION) -> str:
    """Write a name and its words in one line, which ends between words."""
    line = f"  {name}{' ' * max(width - len(name), 2)}{_first_sentence(words)}"
    if len(line) <= _WIDTH:
        return line
    return f"{line[: _WIDTH - 1].rpartition(' ')[0].rstrip(',:')} …"


def _option_row(item: Any) -> str:
    names = ", ".join(sorted(item.opts, key=len))
    return _row(names if item.is_flag else f"{names} ...", item.help or "")


def _show_all(ctx: Any, _: Any, wanted: bool) -> None:
    if wanted:
        ctx.command.is_brief = False
        typer.echo(ctx.get_help())
        ctx.exit()


def _with_all(params: list[Any]) -> list[Any]:
    """Add ``--help-all``, made of ``--help``, which is the last parameter of a command."""
    every = copy(params[-1])
    every.name, every.opts, every.callback = "help_all", ["--help-all"], _show_all
    every.help = "Show all options, and exit."
    return [*params, every]


def _start(command: Any, ctx: Any) -> list[str]:
    """Write the usage of a command and what it does."""
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    words = [item.name.upper() + "..." * (item.nargs != 1) for item in arguments]
    usage = " ".join(["Usage:", ctx.command_path, *words, "[OPTIONS]"])
    return [usage, "", _first_sentence(command.help or ""), ""]


def _need_words(command: Any, ctx: Any, args: list[str]) -> None:
    """Show the help in place of a call without words, which would say nothing of what to type."""
    if command.needs_words and not args and not ctx.resilient_parsing:
        typer.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def _show_calls(calls: Sequence[str]) -> list[str]:
    return ["", "Typical calls:", *(f"  {call}" for call in calls)] if calls else []


def with_calls(kind: type[Any], calls: Sequence[str], **fields: Any) -> Any:
    """Return a kind of command or group whose help ends with typical calls."""
    return type(kind.__name__, (kind,), {"calls": calls, **fields})


def insert_default(words: list[str], commands: Collection[str], default: str) -> list[str]:
    """Put the command that is meant before words that name none, and do not ask for help."""
    is_meant = default and words and words[0] not in (*commands, "--help", "--help-all")
    return [default, *words] if is_meant else words


class BriefCommand(TyperCommand):
    """A command whose help shows its own options, one per line, and counts the others."""

    is_brief = True
    calls: Sequence[str] = ()
    needs_words = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _need_words(self, ctx, args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_all(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if not self.is_brief:
            super().format_help(ctx, formatter)
            return
        lines = _start(self, ctx)
        lines += [
            _row(item.name.upper(), getattr(item, "help", "") or "")
            for item in self.params
            if item.param_type_name == "argument"
        ]
        options = [item for item in self.params if item.param_type_name == "option"]
        calls, words = _show_calls(self.calls), {*" ".join(self.calls).split()}
        options.sort(key=lambda item: (
            not item.required, not words & {*item.opts}, _FIRST.get(item.name, len(_FIRST))
        ))  # fmt: skip
        shown = options[: _LINES - _OTHERS - (len(lines) - 4) - len(calls)]
        lines += [_option_row(item) for item in shown]
        if more := len(options) - len(shown):
            lines += [_row("--help-all", f"{more} more options, and the full text")]
        _write(formatter, [*lines, *calls])


class BriefGroup(TyperGroup):
    """A group whose help lists its commands, one per line."""

    is_brief = True
    calls: Sequence[str] = ()
    needs_words = True
    order: Sequence[str] = ()
    default = ""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        # Typer puts groups behind commands.
        self.commands = {name: self.commands[name] for name in self.order if name in self.commands}

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_all(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _need_words(self, ctx, args)
        return super().parse_args(ctx, insert_default(args, self.commands, self.default))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        items = super().shell_complete(ctx, incomplete)
        if command := self.commands.get(self.default):
            inner = command.make_context(self.default, [], parent=ctx, resilient_parsing=True)
            items += command.shell_complete(inner, incomplete)
        return items

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if not self.is_brief:
            super().format_help(ctx, formatter)
            return
        lines = _start(self, ctx)
        lines[0] = f"Usage: {ctx.command_path} COMMAND"
        width = max(map(len, self.commands)) + 4
        lines += [_row(name, item.help or "", width) for name, item in self.commands.items()]
        if len(lines) + len(calls := _show_calls(self.calls)) + 2 <= _LINES:
            lines += calls
        lines += ["", f"{ctx.command_path} COMMAND --help shows the options of a command."]
        if self.default:
            same = f"{ctx.command_path} {self.default}"
            lines.append(f"Without COMMAND, {ctx.command_path} is {same}.")
        _write(formatter, lines)


def _write(formatter: Any, lines: Sequence[str]) -> None:
    for line in lines:
        # Lists of names may need several lines.
        formatter.write_text(line) if len(line) > _WIDTH else formatter.write(f"{line}\n")
