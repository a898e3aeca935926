"""Codes of errors as the source has them: walked, not listed by hand."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "packages/silot-transport/src/silot_transport", ROOT / "src/silot")
TABLE = SOURCES[1] / "errors.toml"
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def source_files() -> list[Path]:
    """Return the files of both packages."""
    return sorted(path for source in SOURCES for path in source.rglob("*.py"))


# Calls whose first argument is a code.
_FIRST = {"Failure", "refusal", "Unreached", "_broken"}
# Calls whose fourth argument is one.
_FOURTH = {"Finding"}


@cache
def modules() -> list[ast.Module]:
    """Parse every file of the source, once."""
    return [ast.parse(path.read_text(encoding="utf-8")) for path in source_files()]


@dataclass
class Function:
    """A function, and the class it is in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    module: ast.Module
    method: bool = False

    def meant(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call may be of this function: private ones are of their file."""
        owner = getattr(getattr(call.func, "value", None), "id", "")
        if owner[:1].isupper() and not self.method:
            return False
        return not self.node.name.startswith("_") or self.module is scope.module

    @property
    def names(self) -> list[str]:
        found = [item.arg for item in (*self.node.args.posonlyargs, *self.node.args.args)]
        return found[1:] if self.method else found

    @property
    def keywords(self) -> list[str]:
        return [item.arg for item in self.node.args.kwonlyargs]

    def default(self, name: str) -> ast.expr | None:
        arguments = self.node.args
        plain = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
        pairs = dict(zip(plain[::-1], arguments.defaults[::-1], strict=False))
        pairs |= {
            item.arg: value
            for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if value is not None
        }
        return pairs.get(name)


@dataclass
class Package:
    """What the walk needs to know of all files."""

    functions: dict[str, list[Function]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[str, list[tuple[ast.Call, Scope]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    constants: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Scope:
    """Functions around a place, the innermost first, and its module."""

    module: ast.Module
    around: tuple[ast.AST, ...] = ()

    def values(self, name: str) -> Iterator[ast.expr]:
        """What is assigned to a name, here or around."""
        for place in (*self.around, self.module):
            if assigned := _assigned(place, name):
                yield from assigned
                return

    def parameter(self, name: str) -> str | None:
        """The function of which a name is a parameter."""
        for place in self.around:
            if isinstance(place, ast.FunctionDef | ast.AsyncFunctionDef):
                every = (*place.args.posonlyargs, *place.args.args, *place.args.kwonlyargs)
                if name in [item.arg for item in every]:
                    return place.name
        return None


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _assigned(place: ast.AST, name: str) -> list[ast.expr]:
    return [value for node in _assignments(place).get(name, ()) for value in _values(node, name)]


@cache
def _assignments(place: ast.AST) -> dict[str, list[ast.AST]]:
    """Statements of a place that assign, by the names they assign to."""
    named: dict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(place) if not isinstance(place, ast.Module) else place.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        texts = {one.id for target in targets if target for one in ast.walk(target)
                 if isinstance(one, ast.Name)}  # fmt: skip
        for text in texts:
            named[text].append(node)
    return named


def _values(node: ast.AST, name: str) -> Iterator[ast.expr]:
    if isinstance(node, ast.For | ast.comprehension):
        yield from _items(node.target, node.iter, name)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _paired(target, node.value, name)
    elif (
        isinstance(node, ast.AnnAssign | ast.NamedExpr)
        and node.value is not None
        and getattr(node.target, "id", "") == name
    ):
        yield node.value


@cache
def _checks() -> frozenset[str]:
    """Names of checks that modules keep to call them by: ``check_rate = number(above=0).of``."""
    return frozenset(
        getattr(item.targets[0], "id", "")
        for module in modules()
        for item in module.body
        if isinstance(item, ast.Assign) and getattr(item.value, "attr", "") == "of"
    )


@cache
def _returns(function: ast.AST) -> list[ast.expr]:
    """Expressions that a function returns."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Return))
    return [node.value for node in nodes if node.value is not None]


def _paired(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, ast.Tuple):
        place = [k for k, one in enumerate(target.elts) if getattr(one, "id", "") == name]
        if place:
            yield from _entries(value, place[0])


def _entries(value: ast.expr, place: int) -> Iterator[ast.expr]:
    """An entry of a tuple, or of one branch of many."""
    if isinstance(value, ast.Tuple) and len(value.elts) > place:
        yield value.elts[place]
    elif isinstance(value, ast.BoolOp | ast.IfExp):
        for one in value.values if isinstance(value, ast.BoolOp) else (value.body, value.orelse):
            yield from _entries(one, place)


def _items(target: ast.expr, every: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(every, ast.Tuple | ast.List | ast.Set):
        for item in every.elts:
            yield from _paired(target, item, name)
    elif isinstance(every, ast.Call) and _called(every) == "items":
        owner = getattr(every.func, "value", None)
        if isinstance(owner, ast.Dict) and isinstance(target, ast.Tuple):
            for key, value in zip(owner.keys, owner.values, strict=True):
                if key is not None:
                    yield from _paired(target, ast.Tuple([key, value]), name)


class Walk(ast.NodeVisitor):
    """Notes functions, calls and constants of one file."""

    def __init__(self, package: Package, module: ast.Module) -> None:
        self.package, self.module = package, module
        self.around: tuple[ast.AST, ...] = ()
        self.inside: list[bool] = [False]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for item in node.body:
            if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
                targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                for target in targets:
                    self.package.constants[getattr(target, "id", "")].append(item.value)
        self.inside.append(True)
        self.generic_visit(node)
        self.inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        static = any(getattr(item, "id", "") == "staticmethod" for item in node.decorator_list)
        self.package.functions[node.name].append(
            Function(node, self.module, self.inside[-1] and not static)
        )
        self.inside.append(False)
        self.around = (node, *self.around)
        self.generic_visit(node)
        self.around = self.around[1:]
        self.inside.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        # Of all that are called `of`, checks alone take codes.
        owner = getattr(node.func, "value", None)
        name = "of" if _called(node) in _checks() else _called(node)
        if _called(node) != "of" or getattr(owner, "attr", getattr(owner, "id", "")) == "check":
            self.package.calls[name].append((node, Scope(self.module, self.around)))
        self.generic_visit(node)


class Resolver:
    """The texts an expression may be: passes over the package, until nothing is added."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.before: dict[object, set[str]] = {}
        self.now: dict[object, set[str]] = {}

    def again(self) -> bool:
        """Whether the pass that ends found more than the one before it."""
        more = self.now != self.before
        self.before, self.now = self.now, {}
        return more

    def texts(self, value: ast.expr | None, scope: Scope) -> set[str]:
        match value:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp():
                return self._any((value.body, value.orelse), scope)
            case ast.BoolOp() | ast.Dict():
                return self._any(value.values, scope)
            case ast.NamedExpr() | ast.Subscript():
                return self.texts(value.value, scope)
            case ast.JoinedStr():
                return self._joined(value, scope)
            case ast.Name():
                place = id(scope.around[0]) if scope.around else id(scope.module)
                return self._kept((place, value.id), lambda: self._name(value.id, scope))
            case ast.Attribute() if value.attr not in ("code", "value", "name", "message"):
                held = self.package.constants.get(value.attr, [])
                return self._kept(value.attr, lambda: self._any(held, scope))
            case ast.Call():
                return self._call(value, scope)
            case _:
                return set()

    def _kept(self, key: object, find: Callable[[], set[str]]) -> set[str]:
        if key not in self.now:
            # What a circle comes back to is known from the pass before.
            self.now[key] = self.before.get(key, set())
            self.now[key] = self.now[key] | find()
        return self.now[key]

    def _any(self, values: Iterable[ast.expr], scope: Scope) -> set[str]:
        return {text for value in values for text in self.texts(value, scope)}

    def _joined(self, value: ast.JoinedStr, scope: Scope) -> set[str]:
        found = {""}
        for part in value.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            found = {a + b for a in found for b in self.texts(inner, scope)}
        return {text for text in found if _CODE.fullmatch(text)}

    def _name(self, name: str, scope: Scope) -> set[str]:
        assigned = list(scope.values(name))
        found = self._any(assigned, scope)
        asked = scope.parameter(name)
        if asked is not None:
            for function in self.package.functions[asked]:
                found |= self.texts(function.default(name), scope)
                for call, where in self.package.calls[asked]:
                    if function.meant(call, where):
                        found |= self.texts(argument(call, function, name), where)
        elif not assigned:
            # A constant of another module.
            found |= self._any(self.package.constants.get(name, []), scope)
        return found

    def _call(self, call: ast.Call, scope: Scope) -> set[str]:
        name, owner = _called(call), getattr(call.func, "value", None)
        if name == "replace" and owner is not None and len(call.args) == 2:
            old, new = (getattr(item, "value", "") for item in call.args)
            return {text.replace(old, new) for text in self.texts(owner, scope)}
        if name == "get" and owner is not None:
            return self.texts(owner, scope) | self._any(call.args[1:], scope)
        return self._kept((name, "()"), lambda: self._returned(name, scope))

    def _returned(self, name: str, scope: Scope) -> set[str]:
        found: set[str] = set()
        for function in self.package.functions.get(name, []):
            for value in _returns(function.node):
                found |= self.texts(value, Scope(scope.module, (function.node,)))
        return found


def argument(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """What a call gives for a parameter."""
    for item in call.keywords:
        if item.arg == name:
            return item.value
    names = function.names
    place = names.index(name) if name in names else -1
    return call.args[place] if 0 <= place < len(call.args) else None


def package() -> Package:
    known = Package()
    for module in modules():
        for item in module.body:
            if isinstance(item, ast.Assign):
                known.constants[getattr(item.targets[0], "id", "")].append(item.value)
        Walk(known, module).visit(module)
    return known


def _may_fail(name: str, call: ast.Call, known: Package) -> bool:
    """True where a call may name a code: most do not, and every pass goes over those that may."""
    return (
        name in _FIRST
        or name in _FOURTH
        or any(item.arg == "code" for item in call.keywords)
        or any(
            {"code", "fault"} & {*function.names, *function.keywords}
            for function in known.functions.get(name, [])
        )
    )


def codes() -> dict[str, set[str]]:
    """Every code, and the names of what is made with it: exceptions, failures, options."""
    known = package()
    resolver = Resolver(known)
    found: dict[str, set[str]] = defaultdict(set)

    def note(value: ast.expr | None, scope: Scope, by: str) -> None:
        for text in resolver.texts(value, scope):
            if _CODE.fullmatch(text):
                found[text].add(by)

    calls = [
        (n, *one)
        for n, every in known.calls.items()
        for one in every
        if _may_fail(n, one[0], known)
    ]
    while not found or resolver.again():
        for name, call, scope in calls:
            for item in call.keywords:
                if item.arg == "code":
                    note(item.value, scope, name)
            if name in _FIRST and call.args:
                note(call.args[0], scope, name)
            if name in _FOURTH and len(call.args) > 3:
                note(call.args[3], scope, name)
            for function in known.functions.get(name, []):
                for parameter in ("code", "fault"):
                    if function.meant(call, scope) and parameter in (
                        *function.names,
                        *function.keywords,
                    ):
                        note(argument(call, function, parameter), scope, name)
    # What holders fail with, in words of this side of the wire.
    for code in tomllib.loads(TABLE.read_text(encoding="utf-8"))["holder"]:
        if _CODE.fullmatch(code):
            found[code].add("Failure")
    # Of an option without a code of its own, the name makes one.
    for name in options():
        found[name].add("option")
    return dict(found)


def options() -> Iterator[str]:
    """Codes of options that are declared in classes, and name no code of their own."""
    makers = {"option", *_makers()}
    for module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
                own = any(item.arg == "code" for item in node.value.keywords)
                if _called(node.value) in makers and not own:
                    yield f"option-{getattr(node.target, 'id', '').replace('_', '-')}"


def _makers() -> Iterator[str]:
    """Names of functions that return an option whose code, if any, is their caller's."""
    for module in modules():
        for node in module.body:
            for value in _returns(node) if isinstance(node, ast.FunctionDef) else ():
                if isinstance(value, ast.Call) and _called(value) == "option":
                    held = [item.value for item in value.keywords if item.arg == "code"]
                    if not any(isinstance(code, ast.Constant) for code in held):
                        yield node.name
