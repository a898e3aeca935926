"""The structure of the source, read from its imports: modules, rooms, floors and circles."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "packages/silot-transport/src/silot_transport", ROOT / "src/silot")
# Modules that hand on the names of others and define nothing.
FACES = {"silot", "silot.__main__", "silot._version", "silot.transport", "silot.torch"}

Graph = Mapping[str, set[str]]


@dataclass
class Module:
    """A file of the source, with the modules it imports."""

    name: str
    path: Path
    tree: ast.Module
    imports: set[str] = field(default_factory=set)
    """When it is loaded or when one of its functions runs."""
    types: set[str] = field(default_factory=set)
    """For type checkers alone."""

    @property
    def room(self) -> str:
        """Return the room it lies in: a folder or file of silot, or the whole transport package."""
        parts = self.name.split(".")
        return parts[0] if parts[0] != "silot" or len(parts) == 1 else parts[1]

    @property
    def lines(self) -> int:
        """Count the lines of code and docstrings: without blank lines and comments."""
        lines = map(str.strip, self.path.read_text(encoding="utf-8").splitlines())
        return sum(bool(line) and not line.startswith("#") for line in lines)

    @property
    def comment_lines(self) -> int:
        """Count the lines with a comment that says something, not a mark for a tool."""
        text = self.path.read_text(encoding="utf-8")
        marks = ("# noqa", "# fmt:", "# pyright:", "# type:")
        return len({
            token.start[0]
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT and not token.string.startswith(marks)
        })  # fmt: skip

    @property
    def code_lines(self) -> int:
        """Count the lines of code without docstrings."""
        strings = sum(
            node.body[0].end_lineno - node.body[0].lineno + 1
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        )
        return self.lines - strings


@cache
def modules() -> Mapping[str, Module]:
    """Read every module of both packages by its name."""
    files = {
        ".".join(_parts(path, package)): path
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
    }
    house = {name: Module(name, path, ast.parse(path.read_text())) for name, path in files.items()}
    for module in house.values():
        for node, for_types in _imports(module.tree):
            targets = module.types if for_types else module.imports
            targets.update(_targets(module, node, house))
    return house


def _parts(path: Path, package: Path) -> list[str]:
    parts = list(path.relative_to(package.parent).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imports(tree: ast.AST, for_types: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # Expressions hold no imports, and they are most of a tree.
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, for_types
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node, True)
        else:
            yield from _imports(node, for_types)


def _targets(module: Module, node: ast.stmt, house: Mapping[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in house)
    if not isinstance(node, ast.ImportFrom):
        return
    base = node.module or ""
    if node.level:
        package = module.name.split(".")
        up = node.level - (module.path.name == "__init__.py")
        parents = package[: len(package) - up] if up else package
        base = ".".join([*parents, *([node.module] if node.module else [])])
    for alias in node.names:
        name = f"{base}.{alias.name}"
        if name in house:
            yield name
        elif base in house:
            yield _source(base, alias.name, house)


def _source(module: str, name: str, house: Mapping[str, Module]) -> str:
    """Return the module that a name comes from when a package's face hands it on."""
    face = house[module]
    if face.path.name != "__init__.py":
        return module
    for node in ast.walk(face.tree):
        if isinstance(node, ast.ImportFrom) and any(
            (alias.asname or alias.name) == name for alias in node.names
        ):
            for target in _targets(face, ast.ImportFrom(
                node.module, [a for a in node.names if (a.asname or a.name) == name], node.level
            ), house):  # fmt: skip
                return target
    return module


def importers() -> Mapping[str, set[str]]:
    """Return which modules import each module, the faces of packages left out."""
    users: dict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        if module.path.name != "__init__.py":
            for target in (module.imports | module.types) - {module.name}:
                users[target].add(module.name)
    return users


def single_importers() -> dict[str, str]:
    """Return modules that one other module of their room alone imports, with that module."""
    house, users = modules(), importers()
    return {
        name: next(iter(users[name]))
        for name, module in house.items()
        if module.path.name != "__init__.py"
        and len(users[name]) == 1
        and house[next(iter(users[name]))].room == module.room
    }


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                components.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return components


def file_graph() -> Graph:
    """Return which file imports which, also within functions and for type checkers."""
    house = modules()
    return {
        name: {
            target
            for target in module.imports | module.types
            if house[target].path.name != "__init__.py" and target != name
        }
        for name, module in house.items()
        if module.path.name != "__init__.py"
    }


def room_graph() -> Graph:
    """Return which room uses which when it runs."""
    house = modules()
    graph: dict[str, set[str]] = {}
    for name, module in house.items():
        if name not in FACES:
            used = {house[target].room for target in module.imports if target not in FACES}
            graph.setdefault(module.room, set()).update(used - {module.room})
    return graph


def floors(graph: Graph) -> dict[str, int]:
    """Return the floor of each room: one above the highest that it uses."""

    @cache
    def floor(room: str) -> int:
        return 1 + max((floor(used) for used in graph[room]), default=0)

    return {room: floor(room) for room in graph}


@cache
def lines_by_room() -> dict[str, int]:
    """Count lines of code and docstrings of each room."""
    lines: dict[str, int] = defaultdict(int)
    for module in modules().values():
        lines["faces" if module.name in FACES else module.room] += module.lines
    return dict(lines)


def bound_names(tree: ast.AST) -> Iterable[tuple[str, int]]:
    """Return names that code binds, with their lines: variables, parameters, fields, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
