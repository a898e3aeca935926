"""Pages of the reference: the API, commands, methods, files of fields, and error codes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic import BaseModel

import silot
from silot.api import METHODS
from silot.cli.app import EPILOG, build
from silot.data.reading import Schema
from silot.data.site import Site
from silot.errors import ExtraError, explanations
from silot.federation import Policy
from silot.options import declared
from silot.sites.kit import Project
from silot.sites.secure.method import Secure

# How an object of the API is shown.
_OBJECT = "    options:\n      heading_level: {level}\n      show_root_heading: true\n"


def pages() -> dict[str, str]:
    """Every page by its place in the docs."""
    made: dict[str, str] = {}
    for maker in (api, commands, methods, schema, policy, project, errors):
        made |= maker()
    return made


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(value: object) -> str:
    """Text that stays within its field of a table."""
    return re.sub(r"\s+", " ", str(value)).replace("|", "\\|").strip()


def plain(text: str) -> str:
    """Markdown of a docstring: roles and literal blocks of reStructuredText are translated."""
    text = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", text)
    text = re.sub(r"(?<![.:])::$", ":", text, flags=re.MULTILINE)
    return re.sub(r"^::$", "", text, flags=re.MULTILINE)


def summary(thing: object) -> str:
    """The first line of a docstring."""
    text = inspect.getdoc(thing) or ""
    return plain(text.split("\n\n")[0].replace("\n", " "))


# The API.


# Modules of silot that hand on the names of the other package, and where these are defined.
FACES = {"silot.transport": "silot_transport", "silot.torch": "silot_transport.torch"}


def modules() -> Iterator[str]:
    """Packages that say what is public in them."""
    for found in pkgutil.iter_modules(silot.__path__, "silot."):
        name = found.name.rpartition(".")[2]
        if name.startswith("_") or name == "cli" or not (found.ispkg or found.name in FACES):
            continue
        if getattr(importlib.import_module(found.name), "__all__", None):
            yield found.name


def public(module: str) -> dict[str, Any]:
    """Public names of a module, and what they are; modules among them have pages of their own."""
    home = importlib.import_module(module)
    named: dict[str, Any] = {}
    for name in home.__all__:
        try:
            named[name] = getattr(home, name)
        except ExtraError:
            # Its library is not here: the name has its page all the same.
            named[name] = None
    return {name: thing for name, thing in named.items() if not inspect.ismodule(thing)}


def place(name: str, thing: object) -> str:
    """The page of a name of the package. Names of classes and functions differ by case alone."""
    return f"class-{name.lower()}" if inspect.isclass(thing) else name.lower()


def api() -> dict[str, str]:
    """One page a name of ``silot``, and one a public package."""
    made: dict[str, str] = {}
    lines: dict[str, list[tuple[str, str]]] = {"Functions": [], "Classes": []}
    for name, thing in sorted(public("silot").items(), key=lambda pair: pair[0].lower()):
        target = place(name, thing)
        kind = "Classes" if inspect.isclass(thing) else "Functions"
        made[f"reference/api/{target}.md"] = (
            f"# silot.{name}\n\n::: silot.{name}\n{_OBJECT.format(level=2)}"
        )
        said = summary(thing) if kind == "Classes" or inspect.isfunction(thing) else ""
        lines[kind].append((f"[`{name}`]({target}.md)", said))
    packages = []
    for module in modules():
        target = module.partition(".")[2]
        said = summary(importlib.import_module(module))
        packages.append((f"[`{module}`](package-{target}.md)", said))
        home = FACES.get(module, module)
        objects = (f"::: {home}.{name}\n{_OBJECT.format(level=2)}" for name in public(module))
        made[f"reference/api/package-{target}.md"] = f"# {module}\n\n{said}\n\n" + "\n".join(
            objects
        )
    packages.append(("[`silot.errors`](package-errors.md)", summary(silot.errors)))
    raised = (
        f"::: silot.errors.{name}\n{_OBJECT.format(level=2)}"
        for name, kind in vars(silot.errors).items()
        if inspect.isclass(kind) and issubclass(kind, silot.errors.SilotError)
    )
    made["reference/api/package-errors.md"] = (
        f"# silot.errors\n\n{summary(silot.errors)} "
        "[Every code](../errors/index.md) has a page.\n\n" + "\n".join(raised)
    )
    parts = [f"## {title}\n\n{table(('name', 'meaning'), rows)}" for title, rows in lines.items()]
    parts.append(f"## Packages\n\n{table(('package', 'meaning'), packages)}")
    made["reference/api/index.md"] = (
        "# Python\n\nEverything that `import silot` offers, and what its packages make public.\n\n"
        + "\n".join(parts)
    )
    return made


# Commands.


@cache
def command_line() -> Any:
    """All commands."""
    return typer.main.get_command(build())


def commands() -> dict[str, str]:
    """One page a command, with its subcommands."""
    root = command_line()
    made: dict[str, str] = {}
    rows = []
    for name, command in getattr(root, "commands", {}).items():
        made[f"reference/commands/{name}.md"] = _command(f"silot {name}", command, 1)
        said = (command.help or "").split("\n\n")[0]
        rows.append((f"[`silot {name}`]({name}.md)", plain(said)))
    made["reference/commands/index.md"] = (
        "# Commands\n\nThe same is printed by `--help` after any of them. "
        "[Formats of files and exit statuses](../../cli.md).\n\n"
        + table(("command", "meaning"), rows)
        + f"\n## Of all\n\n{_options(root)}\n{EPILOG}\n"
    )
    return made


def _command(name: str, command: Any, level: int) -> str:
    inner = getattr(command, "commands", {})
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    usage = " ".join([name, *(_metavar(item) for item in arguments)])
    usage += " COMMAND" if inner else " [OPTIONS]"
    parts = [f"{'#' * level} {name}", f"```text\n{usage}\n```", plain(command.help or "")]
    rows = [(f"`{_metavar(item)}`", getattr(item, "help", "") or "") for item in arguments]
    if rows:
        parts.append(table(("argument", "meaning"), rows))
    options = _options(command)
    if options:
        parts.append(options)
    parts += [_command(f"{name} {word}", child, level + 1) for word, child in inner.items()]
    return "\n\n".join(parts) + "\n"


def _options(command: Any) -> str:
    rows = []
    for item in command.params:
        # Typer has classes of its own, which are none of click's.
        if item.param_type_name == "option" and not getattr(item, "hidden", False):
            flags = ", ".join(f"`{flag}`" for flag in (*item.opts, *item.secondary_opts))
            kind = "" if getattr(item, "is_flag", False) else _metavar(item)
            rows.append(
                (flags, f"`{kind}`" if kind else "", plain(item.help or ""), _default(item))
            )
    return table(("option", "takes", "meaning", "default"), rows) if rows else ""


def _metavar(item: Any) -> str:
    """What stands for a value in a line of usage."""
    if item.metavar:
        return item.metavar
    if item.param_type_name == "argument":
        return f"{item.name.upper()}{'...' if item.nargs == -1 else ''}"
    # Newer versions of Typer keep the annotation, older ones have a type of click.
    kind = getattr(getattr(item, "type_descriptor", None), "annotation", None)
    if kind is None:
        choices = getattr(item.type, "choices", ())
        return "|".join(map(str, choices)) or item.type.name.upper()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    choices = get_args(kind)
    if choices and all(isinstance(one, str) for one in choices):
        return "|".join(choices)
    words = {Path: "PATH", str: "TEXT", int: "INTEGER", float: "NUMBER"}
    return next((words[one] for one in (kind, *choices) if one in words), "VALUE")


def _default(item: Any) -> str:
    value = item.default
    if item.required:
        return "required"
    if value is None or value is False or callable(value) or repr(value).startswith("Sentinel"):
        return ""
    return f"`{getattr(value, 'value', value)}`"


# Methods.


def methods() -> dict[str, str]:
    """What every distance method sends, needs, guarantees and discloses, and its options."""
    parts = ["# Methods\n\nThe same is printed by `silot privacy methods`.\n"]
    every = {**METHODS, Secure.name: Secure} if "secure" not in METHODS else dict(METHODS)
    for method in every.values():
        parts.append(f"## {method.name}\n\n{summary(method)}\n")
        said = ("sends", "needs", "guarantees", "privacy", "disclosure")
        rows = [(word, getattr(method, word, "")) for word in said]
        parts.append(table(("it", "answer"), rows))
        if method.options:
            options = (
                (f"`{item.name}`", item.check.words, plain(item.help), f"`{item.default!r}`")
                for item in declared(method)
            )
            parts.append(table(("option", "takes", "meaning", "default"), options))
    return {"reference/methods.md": "\n".join(parts)}


# Files of fields.


def schema() -> dict[str, str]:
    """Fields of a schema, and of the file of a site."""
    text = (
        "# Schema\n\nFields of a schema file and of a site's own file. [What they are for and how "
        "to draft one](../schema.md). `silot schema json` prints the format as JSON Schema.\n\n"
    )
    return {"reference/schema.md": text + _fields(Schema) + "\n" + _fields(Site)}


def policy() -> dict[str, str]:
    """Fields of a policy."""
    text = (
        "# Policy\n\nFields of `policy.yml`. [What one does](../privacy.md#a-sites-policy); "
        "`silot privacy policy` says what askers could learn under one.\n\n"
    )
    return {"reference/policy.md": text + _fields(Policy)}


def project() -> dict[str, str]:
    """Fields of a project's file."""
    text = "# Project\n\nFields of the file of a project of [sites](../deploy.md).\n\n"
    return {"reference/project.md": text + _fields(Project)}


def _fields(model: type[BaseModel]) -> str:
    told = model.model_json_schema()
    every = {model.__name__: told, **told.get("$defs", {})}
    return "\n".join(_model(name, each) for name, each in every.items() if "properties" in each)


def _model(name: str, told: Mapping[str, Any]) -> str:
    text = told.get("description", "")
    meanings = meanings_of(name)
    rows = []
    for field, each in told["properties"].items():
        default = "required" if field in told.get("required", ()) else f"`{each.get('default')!r}`"
        said = each.get("description") or meanings.get(field, "")
        rows.append((f"`{field}`", takes(each), plain(said), default))
    lead = text.split("\n\n")[0].replace("\n", " ")
    return f"## {name}\n\n{plain(lead)}\n\n" + table(("field", "takes", "meaning", "default"), rows)


def meanings_of(name: str) -> dict[str, str]:
    """What docstrings of a model and of its bases say of its fields."""
    (kind,) = [kind for kind in _below(BaseModel) if kind.__name__ == name][:1] or [BaseModel]
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            said |= attributes(inspect.getdoc(base) or "")
    return said


def _below(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("silot."):
            yield child
        yield from _below(child)


def attributes(text: str) -> dict[str, str]:
    """What a docstring says of each attribute."""
    _, _, section = text.partition("Attributes\n----------\n")
    section = re.split(r"\n\w+\n-{3,}\n", f"\n{section}")[0]
    said: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(":")[0].split(",")]
        elif line.strip():
            for name in names:
                said[name] = f"{said.get(name, '')} {line.strip()}".strip()
    return said


def takes(each: Mapping[str, Any]) -> str:
    """What values a field of a JSON Schema takes, in words."""
    if "$ref" in each:
        return each["$ref"].rpartition("/")[2]
    if "const" in each:
        return f"`{each['const']}`"
    if "enum" in each:
        return ", ".join(f"`{value}`" for value in each["enum"])
    for union in ("anyOf", "oneOf"):
        if union in each:
            return " or ".join(takes(one) for one in each[union])
    kind = each.get("type", "anything")
    limits = [
        f"{words} {each[key]}"
        for key, words in (
            ("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"),
            ("exclusiveMaximum", "below"), ("maxLength", "of length up to"),
        )
        if key in each
    ]  # fmt: skip
    if kind == "array":
        inner = each.get("prefixItems", [])
        words = ", ".join(map(takes, inner)) if inner else takes(each.get("items", {}))
        kind = f"list of {words}"
    elif kind == "object":
        inside = each.get("additionalProperties")
        kind = f"names to {takes(inside)}" if isinstance(inside, Mapping) else "mapping"
    else:
        kind = {"string": "text", "boolean": "truth value", "integer": "whole number"}.get(
            kind, kind
        )
    return " ".join([kind, *limits])


# Error codes.


def errors() -> dict[str, str]:
    """One page a code, and a table of all."""
    made: dict[str, str] = {}
    rows: dict[str, list[tuple[str, str]]] = {}
    for code, said in explanations().items():
        what, _, cure = said.words.partition(". ")
        status = (
            "It ends no command: `silot site check` says it."
            if said.exit_status is None
            else f"The command ends with exit status {said.exit_status}."
        )
        kind = "" if said.kind == "Finding" else f" In Python it is a `silot.errors.{said.kind}`."
        text = (
            f"# {code}\n\n{what.rstrip('.')}.\n\n**What to do.** {cure or what}\n\n{status}{kind} "
            "Where a holder told it, the error is a `HolderError` or one of its kinds.\n\n"
            f"On the command line: `silot doctor {code}`. [All codes](index.md).\n"
        )
        made[f"reference/errors/{code}.md"] = text
        rows.setdefault(said.kind, []).append((f"[`{code}`]({code}.md)", said.words))
    parts = []
    for kind, every in rows.items():
        exception = getattr(silot.errors, kind, None)
        status = "" if exception is None else f", exit status {exception.exit_status}"
        parts.append(f"## {kind}{status}\n\n{table(('code', 'meaning'), sorted(every))}")
    made["reference/errors/index.md"] = (
        "# Error codes\n\nEvery error has a code between brackets. It is stable: programs may rely "
        "on it. `silot doctor CODE` prints the same words.\n\n" + "\n".join(parts)
    )
    return made
