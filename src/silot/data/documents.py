"""Mappings that users write as YAML or JSON, and what is wrong with them, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..errors import FileError, InputError
from .foreign import JSON_BYTES, guard, parse_json, parse_yaml, read_bytes
from .names import canonical, header_names

EXACT = 2.0**53
"""Larger numbers have no exact text and no steps of one."""
LONGEST = 200
"""Letters of a name or a unit."""


def _distinct(columns: Any) -> Any:
    """Refuse two columns whose names look the same: the second would replace the first."""
    try:
        header_names(columns if isinstance(columns, Mapping) else ())
    except FileError as error:
        raise ValueError(error.message) from None
    return columns


# As people see it, before its length is checked: a name of blanks alone is empty.
_plain = BeforeValidator(lambda text: canonical(text) if isinstance(text, str) else text)
Plain = Annotated[str, _plain]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST), _plain]
V = TypeVar("V")
ByName = Annotated[Mapping[Name, V], BeforeValidator(_distinct)]
_KINDS = (".json", ".yml", ".yaml")
_TYPES = {
    "bool": "true or false",
    "finite": "a finite number",
    "float": "a number",
    "int": "a whole number",
    "path": "a path",
    "string": "a text",
    **dict.fromkeys(("dict", "mapping", "model"), "a mapping"),
    **dict.fromkeys(("frozen", "list", "set", "tuple"), "a list"),
}
_BOUNDS = {
    "greater_than": ("gt", "a number above {} is needed"),
    "greater_than_equal": ("ge", "a number of {} or more is needed"),
    "less_than": ("lt", "a number below {} is needed"),
    "less_than_equal": ("le", "a number of {} or less is needed"),
    "literal_error": ("expected", "{} is needed"),
    "union_tag_invalid": ("expected_tags", "it is not one of {}"),
    "union_tag_not_found": ("discriminator", "{} is missing in it"),
    "string_too_short": ("min_length", "a text of length {} or more is needed"),
    "string_too_long": ("max_length", "a text of length {} or less is needed"),
    "string_pattern_mismatch": ("pattern", "a text that matches {} is needed"),
    "too_short": ("min_length", "{} or more entries are needed"),
    "too_long": ("max_length", "{} or fewer entries are needed"),
}


def read_fields(path: Path) -> dict[str, Any]:
    """Read a mapping of fields from a ``.yml``, ``.yaml`` or ``.json`` file."""
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise FileError(
            f"{path.name} is not a kind of file that can be read here. Give .yml, .yaml or .json.",
            code="file-kind",
        )
    if not path.exists():
        raise FileError(f"{path} does not exist. Check the path.", code="file-missing")

    def fail(why: str) -> FileError:
        return FileError(
            f"{path.name} cannot be read as {kind[1:]} ({why}). Give a mapping of fields, "
            "in UTF-8.",
            code="file-unreadable",
        )

    data = read_bytes(path, fail, JSON_BYTES)
    with guard(fail):
        text = data.decode("utf-8-sig")
    body = parse_json(text, fail) if kind == ".json" else parse_yaml(text, fail)
    if not isinstance(body, dict) or not all(isinstance(key, str) for key in body):
        raise FileError(f"{path.name} is not a mapping of fields.", code="file-unreadable")
    return body


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a document, where, by names of fields, and a sentence without the place.

    The kind is an ``"unknown"`` or ``"missing"`` field, or ``"value"``.
    """

    kind: str
    place: tuple[str, ...]
    message: str


def neat(value: float) -> float:
    """A number as people write it: whole ones without a point."""
    return int(value) if value.is_integer() and abs(value) < EXACT else value


class Document(BaseModel):
    """What a file of fields says; no field but those it names, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    called: ClassVar[str]
    wrong: ClassVar[str]

    @classmethod
    def of(cls, body: Any) -> Self:
        """Return what plain mappings and lists say.

        Raises
        ------
        InputError
            ``schema-invalid`` or ``site-invalid``: which entry is wrong, and what is needed.
        """
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            problem = complaint(error, body, [*cls.__pydantic_fields__])
            place = ".".join(problem.place)
            raise InputError(
                f"{cls.called}{', ' * bool(place)}{place}: {problem.message}", code=cls.wrong
            ) from None

    @overload
    @classmethod
    def coerce(cls, document: Self | str | Path) -> Self: ...
    @overload
    @classmethod
    def coerce(cls, document: Self | str | Path | None) -> Self | None: ...
    @classmethod
    def coerce(cls, document: Self | str | Path | None) -> Self | None:
        """A document as a caller gives it: itself, or the file that it is in.

        Raises
        ------
        InputError
            It is neither; and as ``load``.
        """
        if isinstance(document, str | Path):
            return cls.load(document)
        if document is not None and not isinstance(document, cls):
            raise InputError(
                f"{cls.called} is of type {type(document).__name__}. Give a {cls.__name__}, or the "
                "path of its file.",
                code=cls.wrong,
            )
        return document

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a .yml, .yaml or .json file.

        Raises
        ------
        FileError
            A file that is missing or unreadable.
        InputError
            What ``of`` refuses, with the name of the file.
        """
        file = Path(path)
        return cls._in_file(file, read_fields(file))

    @classmethod
    def confirmed(cls, path: str | Path, by: str) -> str:
        """Return the text of a drafted file with the name of who has looked at all its entries.

        Raises
        ------
        FileError, InputError
            As ``load``; also for no name, and for a file without lines of YAML to write it in.
        """
        file = Path(path)
        body = {**read_fields(file), "confirmed_by": by.strip()}

        def fail(why: str) -> InputError:
            words = f"{file.name}: no name can be written into it ({why}). Write it there by hand."
            return InputError(words, code=cls.wrong)

        # JSON is YAML too, so the name cannot be read as anything but a text.
        line = f"confirmed_by: {json.dumps(by.strip(), ensure_ascii=False)}"
        text = read_bytes(file, fail, JSON_BYTES).decode("utf-8-sig").rstrip()
        # What a draft says of itself is no longer true.
        text = re.sub(r"\A# A draft(.*\n#)*.*\n", "", text).replace("# Confirm or edit: ", "# ")
        place = re.compile("^confirmed_by:.*$", re.MULTILINE)
        text = place.sub(lambda _: line, text) if place.search(text) else f"{text}\n{line}"
        if by.strip() in ("", "YOUR NAME"):
            raise InputError(
                "--by is the name of the person who has looked at each entry. Give your own.",
                code=cls.wrong,
            )
        if parse_yaml(text, fail) != body:
            raise fail("fields are not written line by line")
        cls._in_file(file, body)
        return f"{text}\n"

    @classmethod
    def _in_file(cls, file: Path, body: dict[str, Any]) -> Self:
        try:
            return cls.of(body)
        except InputError as error:
            raise InputError(f"{file.name}: {error.message}", code=error.code) from None


def complaint(error: ValidationError, body: Any, fields: Collection[str] = ()) -> Complaint:
    """The first thing wrong with ``body``, in words.

    A misspelt field is missing and unknown: the second is told, for it tells more; and which
    ``fields`` there are, if it is not one of the body's own.
    """
    errors = error.errors(include_url=False)
    places = [_place(body, item["loc"], item["type"]) for item in errors]
    kinds = [item["type"] for item in errors]
    if "extra_forbidden" in kinds:
        place = places[kinds.index("extra_forbidden")]
        choices = f"; there are {', '.join(fields)}" if fields and len(place) == 1 else ""
        message = f"there is no such field{choices}. Check its spelling, or leave it out."
        return Complaint("unknown", place, message)
    # A field of several types has errors for each: those inside it come from the type it is of.
    inside = [inner for inner in places if inner[: len(places[0])] == places[0]]
    place = max(inside, key=len)
    here = [item for item, where in zip(errors, places, strict=True) if where == place]
    first = here[0]
    if first["type"] == "missing":
        entry = isinstance(first["loc"][-1], int)
        return Complaint("value" if entry else "missing", place, "it is missing.")
    types = [_TYPES.get(item["type"].split("_")[0], "") for item in here]
    return Complaint("value", place, _sentence(first, [name for name in types if name]) + ".")


def _sentence(error: Any, types: Sequence[str]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        return text.format(context[key])
    if kind == "value_error":
        return str(context["error"]).removesuffix(".")
    if kind in ("finite_number", "int_parsing_size"):
        return f"{types[0]} is needed"
    if not types:
        return "it is not of a kind that is needed here"
    value = error["input"]
    fraction = isinstance(value, float) and "a number" not in types and not value.is_integer()
    came = "a fraction" if fraction else _arrived(value)
    wanted = " or ".join(dict.fromkeys(types))
    if came in types:
        return f"{wanted} is needed, and this one is out of range"
    return f"{wanted} is needed; {came} arrived"


def _arrived(value: Any) -> str:
    """Return what came, by its kind: a value may be what a device reported of its records."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    kinds = {type(None): "nothing", str: "a text", int: "a number", float: "a number"}
    return kinds.get(type(value), "a mapping" if isinstance(value, Mapping) else "something else")


def _place(body: Any, location: Sequence[int | str], kind: str) -> tuple[str, ...]:
    """Return where in the document; pydantic also names types, which are in no document."""
    parts: list[str] = []
    for depth, part in enumerate(location):
        if _has(body, part):
            body = body[part]
        elif not (kind == "missing" and depth == len(location) - 1):
            continue
        parts.append(str(part)[:40])
    return tuple(parts)


def _has(body: Any, part: int | str) -> bool:
    """Return whether a mapping has an entry, or a list an item."""
    if isinstance(body, Mapping):
        return part in body
    return isinstance(body, list | tuple) and isinstance(part, int) and part < len(body)
