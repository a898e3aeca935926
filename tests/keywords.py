"""What editors know of ``**options``: src/silot/keywords.pyi, made from the declared options.

``python -m tests.keywords`` writes it; tests/test_options.py fails where it is not as written here.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from silot.options import Options, declared

from .house import modules

PATH = Path(__file__).parents[1] / "src/silot/keywords.pyi"
_HEAD = '''"""Keywords that public functions take as ``**options``.

Written by ``python -m tests.keywords`` from the options that classes declare. Do not edit.
"""

'''


def functions() -> Iterator[Any]:
    """List the functions that say which options they take."""
    for name, module in modules().items():
        decorators = (
            item.func.id
            for node in module.tree.body
            if isinstance(node, ast.FunctionDef)
            for item in node.decorator_list
            if isinstance(item, ast.Call) and isinstance(item.func, ast.Name)
        )
        if name.startswith("silot") and not name.startswith("silot.cli") and "taking" in decorators:
            values = vars(import_module(name)).values()
            yield from (
                item for item in values if hasattr(item, "takes") and item.__module__ == name
            )


def written() -> str:
    """Return the file as the declared options make it."""
    words, classes, users = _Words(), dict[str, str](), dict[str, list[str]]()
    for function in functions():
        kinds, without = function.takes
        types: dict[str, dict[str, None]] = {}
        for kind in kinds:
            for item in declared(kind):
                if item.name not in without:
                    parts = dict.fromkeys(_parts(words.annotation(kind, item.name)))
                    types.setdefault(item.name, {}).update(parts)
        name = function.__annotations__["options"].removeprefix("Unpack[").removesuffix("]")
        fields = "".join(
            f"    {field}: {' | '.join(sorted(parts, key='None'.__eq__))}\n"
            for field, parts in types.items()
        )
        if classes.setdefault(name, fields) != fields:
            raise ValueError(f"{name} are options of two functions that take different ones")
        users.setdefault(name, []).append(f"``{function.__module__}.{function.__name__}``")
    bodies = (
        f'class {name}(TypedDict, total=False):\n    """Of {", ".join(users[name])}."""\n\n{fields}'
        for name, fields in sorted(classes.items())
    )
    text = _HEAD + "\n".join([*words.imports(), *bodies])
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PATH), "-"]
        text = subprocess.run(ruff, input=text, text=True, check=True, capture_output=True).stdout
    return text


class _Words:
    """The names in types of options, each with the one place that it is imported from."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {"TypedDict": "from typing import TypedDict"}

    def imports(self) -> list[str]:
        """Return the imports of all names."""
        return [
            place if place.endswith(f" {word}") else f"{place} as {word}"
            for word, place in self.places.items()
        ]

    def annotation(self, kind: type[Options], name: str) -> ast.expr:
        """Return the type of an option as its class declares it."""
        owner = next(base for base in kind.__mro__ if name in vars(base).get("__annotations__", ()))
        annotation = ast.parse(vars(owner)["__annotations__"][name], mode="eval").body
        places = _imported(owner.__module__)
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name) and node.id not in dir(builtins):
                place = places.get(node.id, f"from {owner.__module__} import {node.id}")
                place = place.replace("from silot.", "from .")
                if self.places.setdefault(node.id, place) != place:
                    node.id += f"Of{kind.__name__}"
                    self.places[node.id] = place
        return annotation


def _imported(name: str) -> dict[str, str]:
    """Return by the names that a module imports how it imports them."""
    places: dict[str, str] = {}
    for node in ast.walk(modules()[name].tree):
        if isinstance(node, ast.Import):
            places |= {item.asname or item.name: f"import {item.name}" for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = f"{name.rsplit('.', node.level)[0]}." if node.level else ""
            place = f"from {package}{node.module} import "
            places |= {item.asname or item.name: place + item.name for item in node.names}
    return places


def _parts(annotation: ast.expr) -> list[str]:
    """Return the types that a union is made of."""
    if isinstance(annotation, ast.BinOp):
        return [*_parts(annotation.left), *_parts(annotation.right)]
    return [ast.unparse(annotation)]


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
