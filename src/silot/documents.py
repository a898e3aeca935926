"""Mappings that users write as YAML or JSON, and what is wrong with them, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from .errors import FileError

_KINDS = (".json", ".yml", ".yaml")
_TYPES = {
    "bool": "true or false",
    "dict": "a mapping",
    "finite": "a finite number",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "mapping": "a mapping",
    "model": "a mapping",
    "path": "a path",
    "string": "a text",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "a number above {} is needed"),
    "greater_than_equal": ("ge", "a number of {} or more is needed"),
    "less_than": ("lt", "a number below {} is needed"),
    "less_than_equal": ("le", "a number of {} or less is needed"),
    "literal_error": ("expected", "{} is needed"),
    "string_too_short": ("min_length", "a text of length {} or more is needed"),
    "string_too_long": ("max_length", "a text of length {} or less is needed"),
    "string_pattern_mismatch": ("pattern", "a text that matches {} is needed"),
    "too_short": ("min_length", "{} or more entries are needed"),
    "too_long": ("max_length", "{} or fewer entries are needed"),
}


class _Once(yaml.SafeLoader):
    """Refuses a field that is given twice: YAML would keep the last, and say nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{name[:40]!r} is given twice", problem_mark=key.start_mark
                )
            if name is not None:
                seen.add(name)
        return super().construct_mapping(node, deep)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key[:40]!r} is given twice")
        found[key] = value
    return found


def read_fields(path: Path) -> dict[str, Any]:
    """Read a mapping of fields from a ``.yml``, ``.yaml`` or ``.json`` file.

    Raises
    ------
    FileError
        A file that is missing (``file-missing``), of another kind (``file-kind``), or none that
        can be read, gives a field twice, or is no mapping (``file-unreadable``).
    """
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise FileError(
            f"{path.name} is of no kind this is read from. Give .yml, .yaml or .json.",
            code="file-kind",
        )
    try:
        text = path.read_text(encoding="utf-8")
        if kind == ".json":
            body: Any = json.loads(text, object_pairs_hook=_once)
        else:
            # _Once builds what SafeLoader builds, no more.
            body = yaml.load(text, _Once)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist. Check the path.", code="file-missing") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise FileError(
            f"{path.name} cannot be read as {kind[1:]} ({_reason(error)}).",
            code="file-unreadable",
        ) from None
    if not isinstance(body, dict) or not all(isinstance(key, str) for key in body):
        raise FileError(f"{path.name} is no mapping of fields.", code="file-unreadable")
    return body


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {str(error.problem)[:80]}"
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: {error.msg}"
    if type(error) is ValueError:
        return str(error)[:80]
    return type(error).__name__


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a document.

    Attributes
    ----------
    kind
        ``"unknown"`` or ``"missing"`` field, or ``"value"``.
    place
        Where: names of fields and numbers of entries.
    message
        One sentence without the place.
    """

    kind: str
    place: tuple[str, ...]
    message: str


def complaint(error: ValidationError, body: Any) -> Complaint:
    """The first thing wrong with ``body``, in words.

    A misspelt field is missing and unknown: the second is told, for it tells more.
    """
    found = error.errors(include_url=False)
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    kind, location = first["type"], first["loc"]
    place = _place(body, location, kind)
    if kind == "extra_forbidden":
        message = "there is no such field. Check its spelling, or leave it out."
        return Complaint("unknown", place, message)
    if kind == "missing":
        entry = isinstance(location[-1], int)
        return Complaint("value" if entry else "missing", place, "it is missing.")
    context = first.get("ctx", {})
    if kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        message = text.format(context[key])
    elif kind == "value_error":
        message = str(context["error"])[:200].removesuffix(".")
    elif kind.split("_")[0] in _TYPES:
        # A field of several types has an error for each.
        here = [each for each in found if _place(body, each["loc"], each["type"]) == place]
        types = [_TYPES.get(each["type"].split("_")[0], "") for each in here]
        wanted = " or ".join(dict.fromkeys(name for name in types if name))
        came = "a fraction" if kind == "int_from_float" else _arrived(first["input"])
        message = f"{wanted} is needed; {came} arrived"
    else:
        message = first["msg"][:200]
    return Complaint("value", place, message + ".")


def _arrived(value: Any) -> str:
    """What came, by its kind: a value may be what a device told of its records."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    kinds = {type(None): "nothing", str: "a text", int: "a number", float: "a number"}
    return kinds.get(type(value), "a mapping" if isinstance(value, Mapping) else "something else")


def _place(body: Any, location: Sequence[int | str], kind: str) -> tuple[str, ...]:
    """Where in the document; pydantic also names types, which are in no document."""
    parts: list[str] = []
    for depth, part in enumerate(location):
        known = part in body if isinstance(body, Mapping) else _within(body, part)
        if known:
            body = body[part]
        elif not (kind == "missing" and depth == len(location) - 1):
            continue
        parts.append(str(part)[:40])
    return tuple(parts)


def _within(body: Any, part: int | str) -> bool:
    return isinstance(body, list | tuple) and isinstance(part, int) and part < len(body)
