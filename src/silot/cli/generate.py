"""Register commands, and make their flags of declared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, cast, dataclass_transform, get_type_hints

import typer

from ..options import Check, Declared, Options, declared, name_flag
from .brief import BriefCommand, with_calls
from .console import check_endings, check_outputs
from .tree import name_function

Kinds = Iterable[type[Options]]
Command = TypeVar("Command", bound=Callable[..., None])

# Flags of a command that stand after those of its methods.
_LAST = ("plot", "report", "transcript", "json")
# Arguments that name files of results; all others may name files that are read.
_RESULTS = ("out", "save", "sheet", "plot", "report", "transcript")

_COMMANDS: dict[Callable[..., None], tuple[tuple[str, ...], Callable[[], Callable[..., None]]]] = {}


@dataclass(frozen=True)
class Flag:
    """What the command line shows of a parameter, and its default, ``...`` where it has none."""

    shown: Any
    default: Any


def flag(
    help: str, *names: str, default: Any = None, endings: tuple[str, ...] = (), **how: Any
) -> Any:
    """Declare a flag: its help, ``names`` beside or in place of the parameter's, a default.

    It stands as the default of a parameter of a command or of a field of ``Flags``; ``how`` is as
    of ``typer.Option``. Truth values have no flag that says no. A file that it names must have one
    of the ``endings``.
    """
    shown: Any = typer.Option(..., *names, help=help, **how)
    shown.endings = endings
    return Flag(shown, default)


def argument(help: str, *, default: Any = ..., **how: Any) -> Any:
    """Declare an argument of a command as ``flag`` does a flag."""
    return Flag(typer.Argument(help=help, **how), default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Flags:
    """Base of flags that belong together; subclasses become frozen dataclasses of keywords.

    A command that has a parameter of such a class has its flags. They are a context of it.
    """

    def __init_subclass__(cls) -> None:
        for name, value in list(vars(cls).items()):
            if isinstance(value, Flag):
                setattr(cls, name, field(default=value.default, metadata={"shown": value.shown}))
        dataclass(frozen=True, kw_only=True)(cls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def values(self, **replaced: Any) -> dict[str, Any]:
        """Return by name the flags that have a value, some of them ``replaced`` or left out."""
        values = {item.name: getattr(self, item.name) for item in fields(cast("Any", self))}
        return {name: value for name, value in (values | replaced).items() if value is not None}

    def note_files(self, files: Iterable[Path]) -> None:
        """Receive what the command line names, files or not, beside results."""


def command(
    kinds: Kinds = (), *, calls: tuple[str, ...] = (), **how: Any
) -> Callable[[Command], Command]:
    """Register a command with flags as of ``taking``, and ``calls`` that are typical of it.

    Without words it shows its help, if it has calls and none of them is without words.
    """

    def register(function: Command) -> Command:
        # The flags are made when a command line is built: methods may be registered until then.
        _COMMANDS[function] = calls, lambda: taking(kinds, **how)(function)
        return function

    return register


def add_command(app: typer.Typer, path: str, file: str, calls: tuple[str, ...] = ()) -> None:
    """Add a command, such as that of ``silot site join``, from the file it is in."""
    name = path.rpartition(" ")[2]
    module = import_module(f".{file}", __package__)
    own, make = _COMMANDS[getattr(module, name_function(name))]
    calls = calls or own
    needs_words = bool(calls) and path not in calls
    app.command(name, cls=with_calls(BriefCommand, calls, needs_words=needs_words))(make())


def taking(
    kinds: Kinds = (),
    *,
    choose: str = "",
    among: Callable[[], Iterable[str]] = tuple,
    without: Collection[str] = (),
    help: Mapping[str, str] | None = None,
    checked: bool = True,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of some methods, in place of its ``**options``, and of its groups.

    The command receives the options of the command line; a method refuses those it does not have.
    Where ``choose`` names a default, the command also receives the ``method`` by its name:
    ``among`` these, or the methods. Options it is ``without`` get no flag, and ``help`` replaces
    the words of some.

    It is not called where its results could not be written, or would overwrite a file it reads,
    unless it is not ``checked`` because it makes their folders itself.
    """
    kinds = list(kinds)
    uses = _uses(kinds, without, help or {})
    if not choose:
        # All options are of one computation: where two classes have one, the first words it.
        uses = {name: using[:1] for name, using in uses.items()}
    many = len(kinds) if choose else 1
    flags = {name: _flag(name, using, many) for name, using in uses.items()}
    reads = {name: using[0][1].check.reads for name, using in uses.items()}
    if choose:
        names = list(among()) or [kind.name for kind in kinds]
        flags = {"method": _method(names, choose), **flags}

    def add_flags(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        groups: dict[str, type[Flags]] = {}
        own: list[inspect.Parameter] = []
        for name, item in inspect.signature(command).parameters.items():
            hint = hints.get(name)
            if isinstance(hint, type) and issubclass(hint, Flags):
                groups[name] = hint
                own += _group(hint)
            elif item.kind is not item.VAR_KEYWORD and name not in flags:
                own.append(_parameter(name, hint, item.default))
        first = [item for item in own if item.name not in _LAST]
        last = [item for name in _LAST for item in own if item.name == name]
        parameters = [
            item.replace(kind=item.KEYWORD_ONLY) for item in [*first, *flags.values(), *last]
        ]

        endings = _endings(own)

        @wraps(command)
        def run(**values: Any) -> None:
            check_endings(values, endings)
            results = [values.get(name) for name in _RESULTS]
            inputs = list(_named(values))
            if checked:
                check_outputs(*results, inputs=inputs)
            of_methods = {name: values.pop(name) for name in flags}
            with ExitStack() as stack:
                for name, group in groups.items():
                    own = {item.name: values.pop(item.name) for item in _group(group)}
                    values[name] = stack.enter_context(group(**own))
                    values[name].note_files(inputs)
                command(**values, **_read(of_methods, flags, reads))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        return run

    return add_flags


def _named(values: Mapping[str, Any]) -> Iterator[Path]:
    """List what a command line names beside results, as FILE or NAME=FILE, files or not."""
    for name, value in values.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if name not in _RESULTS and isinstance(item, (str, Path)) and "\0" not in str(item):
                yield Path(item)
                yield Path(str(item).rpartition("=")[2])


def _group(group: type[Flags]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _parameter(item.name, hints[item.name], Flag(item.metadata.get("shown"), item.default))
        for item in fields(cast("Any", group))
        if item.init
    ]


def _endings(parameters: Iterable[inspect.Parameter]) -> dict[str, tuple[str, ...]]:
    """Return the endings of the files that some flags name."""
    allowed: dict[str, tuple[str, ...]] = {}
    for item in parameters:
        shown = getattr(item.annotation, "__metadata__", (None,))[0]
        allowed[item.name] = getattr(shown, "endings", ())
    return {name: endings for name, endings in allowed.items() if endings}


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as typer reads it; its default may be a ``Flag``."""
    if isinstance(default, Flag):
        names = getattr(default.shown, "param_decls", None) or ()
        if (hint is bool or names) and not any(word.startswith("--") for word in names):
            default.shown.param_decls = (f"--{name.replace('_', '-')}", *names)
        hint = hint if default.shown is None else Annotated[hint, default.shown]
        default = inspect.Parameter.empty if default.default is ... else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _read(
    values: dict[str, Any],
    flags: dict[str, inspect.Parameter],
    reads: Mapping[str, Callable[[str], Any]],
) -> dict[str, Any]:
    """Return options as methods take them, of the flags that the command line has."""
    options: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or (isinstance(value, bool) and value is flags[name].default):
            continue
        options[name] = reads.get(name, str)(value) if isinstance(value, str) else value
    return options


def _uses(
    kinds: Kinds, without: Collection[str], help: Mapping[str, str]
) -> dict[str, list[tuple[str, Declared]]]:
    """Return by name what methods declare of an option, and the methods that do."""
    uses: dict[str, list[tuple[str, Declared]]] = {}
    for kind in kinds:
        for item in declared(kind):
            if item.flag and item.name not in without:
                worded = replace(item, brief=help.get(item.name, item.brief))
                uses.setdefault(item.name, []).append((kind.name, worded))
    return uses


def _method(names: list[str], default: str) -> inspect.Parameter:
    shown = typer.Option("--method", "-m", help="See `silot privacy methods`.")
    return inspect.Parameter(
        "method",
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[Literal[tuple(names)], shown],
    )


def _flag(name: str, uses: list[tuple[str, Declared]], kinds: int) -> inspect.Parameter:
    checks = [item.check for _, item in uses]
    kind, default = _kind(checks), None
    word = name_flag(name)
    names = [f"--{word}"]
    limits: dict[str, Any] = {}
    if kind in (int, float):
        leasts, mosts = [check.least for check in checks], [check.most for check in checks]
        limits["min"] = None if None in leasts else min(cast("list[float]", leasts))
        limits["max"] = None if None in mosts else max(cast("list[float]", mosts))
    if kind is bool:
        default = any(item.default for _, item in uses)
        names[0] += f"/--no-{word}" if default else ""
    shown = typer.Option(*names, help=_help(uses, kinds), metavar=checks[0].metavar, **limits)
    annotation = kind if kind is bool else kind | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[cast("Any", annotation), shown],
    )


def _kind(checks: list[Check]) -> Any:
    kinds = [check.kind for check in checks]
    if all(isinstance(kind, tuple) for kind in kinds):
        words = dict.fromkeys(word for kind in kinds for word in cast("tuple[str, ...]", kind))
        return Literal[tuple(words)]
    # A word or a number is read as a text.
    return str if str in kinds else kinds[0]


def _help(uses: list[tuple[str, Declared]], kinds: int) -> str:
    """Say what the option does, and for which methods where not for all."""
    texts: dict[str, list[str]] = {}
    for_all = len(uses) == kinds and len({item.brief for _, item in uses}) == 1
    for name, item in uses:
        # Flags have no default of their own: the help says the option's.
        has_default = item.default not in (None, "") and not isinstance(item.default, bool)
        has_default &= not (item.check.kind in (int, float) and isinstance(item.default, str))
        default = f" (default {_shown(item.default)})" if has_default else ""
        text = item.brief.rstrip(".") + default
        texts.setdefault(text, []).append(name)
    if for_all and len(texts) == 1:
        return f"{next(iter(texts))}."
    return (
        ". ".join(
            f"For {', '.join(names)}: {text[0].lower()}{text[1:]}" for text, names in texts.items()
        )
        + "."
    )


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
