"""Options declared once: their default, their check, their words, and the flag of a command.

A class of options is frozen and takes keywords only::

    class Gaussian(Pairwise):
        shrinkage: float = option("Shrink covariances.", share(), default=0.5)

Whatever is shown or asked elsewhere follows from that line: the keyword and its type, the error of
a wrong value, the parameters of the docstring, the flag ``--shrinkage`` and what a transcript says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from textwrap import wrap
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

from silot_transport._check import as_order, integer, interval, real
from silot_transport._check import flag as truth_value

from .errors import InputError

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

_KEY = "option"
# What callers give in other words.
_TAKEN = ("own", "labels", "embedding")
_WIDTH = 92
_SECTIONS = ("Returns", "Raises", "See Also", "Notes", "References", "Examples")

# Of options that the command line calls by another name.
_FLAG_NAMES = {"privacy_epsilon": "epsilon"}


@dataclass(frozen=True)
class Check:
    """What a value must be: ``of(value, name, code)`` returns it or raises an ``InputError``.

    Attributes
    ----------
    of
        The check.
    kind
        What a flag reads: a type, words to choose from, or ``None`` for what no flag can give.
    least, most
        Bounds that a flag shows.
    words
        What the value may be, for people.
    reads
        What makes the value of the text of a flag.
    metavar
        What stands for the value in the help of a flag; by default its kind does.
    """

    of: Callable[[Any, str, str], Any]
    kind: type | tuple[str, ...] | None
    words: str
    least: float | None = None
    most: float | None = None
    reads: Callable[[str], Any] = str
    metavar: str | None = None


def count(least: int = 1, most: int = 10_000_000) -> Check:
    """A whole number between bounds."""

    def of(value: Any, name: str, code: str) -> int:
        return integer(value, name, code, least=least, most=most)

    shown = most if most < 10_000_000 else None
    limit = f", at most {most}" if shown else ""
    return Check(of, int, f"int, {least} or more{limit}", least, shown)


def number(*, least: float | None = None, above: float | None = None) -> Check:
    """A finite number, at least ``least`` or above ``above``."""
    needed = "zero or more" if least == 0 else f"{least} or more"
    if above is not None:
        needed = f"a number above {above:g}"

    def of(value: Any, name: str, code: str) -> float:
        result = real(value, name, code)
        if (least is not None and result < least) or (above is not None and not result > above):
            raise InputError(f"{name} is {value!r}; {needed} is needed.", code=code)
        return result

    bounded = least is not None or above is not None
    return Check(of, float, f"float, {needed}" if bounded else "float")


def share() -> Check:
    """A number strictly between 0 and 1."""
    return Check(interval, float, "float, between 0 and 1")


def part(what: str = "share") -> Check:
    """A number from 0 up to, not including, 1."""

    def of(value: Any, name: str, code: str) -> float:
        result = real(value, name, code)
        if not 0.0 <= result < 1.0:
            raise InputError(
                f"{name} is {value!r}; a {what} from 0 up to, not including, 1 is needed.",
                code=code,
            )
        return result

    return Check(of, float, f"float, a {what} from 0 up to, not including, 1")


def truth() -> Check:
    """True or False."""
    return Check(truth_value, bool, "bool")


def order() -> Check:
    """The order of a distance, 1 or 2."""
    return Check(lambda value, *_: as_order(value), int, "1 or 2", 1, 2)


def seed() -> Check:
    """A seed numpy takes."""
    return Check(count(0, 2**63 - 1).of, int, "int, 0 or more", 0)


def word(*choices: str) -> Check:
    """One of some words."""

    def of(value: Any, name: str, code: str) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{name} is {value!r}; give one of {', '.join(choices)}.", code=code)
        return value

    return Check(of, choices, "{" + ", ".join(map(repr, choices)) + "}")


def anything(words: str, kind: type | tuple[str, ...] | None = None) -> Check:
    """Whatever its class checks as a whole; no flag can give it where it has no ``kind``."""
    return Check(lambda value, *_: value, kind, words)


def none_or(check: Check) -> Check:
    """``None``, or what a check says."""

    def of(value: Any, name: str, code: str) -> Any:
        return None if value is None else check.of(value, name, code)

    return replace(check, of=of, words=f"{check.words}, or None")


def word_or(text: str, check: Check) -> Check:
    """One word, or what a check says."""

    def of(value: Any, name: str, code: str) -> Any:
        if isinstance(value, str) and value == text:
            return value
        if isinstance(value, str):
            raise InputError(
                f"{name} is {value[:40]!r}; a number, or {text!r}, is needed.",
                code=code,
            )
        return check.of(value, name, code)

    words = f"{check.words}, or {text!r}"
    return replace(check, of=of, kind=str, words=words, reads=_number_or_text)


def _number_or_text(text: str) -> float | str:
    """A number where the text is one; what else it may be, the class says."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Declared:
    """What was said of one option: its words and check, and the code of a wrong value.

    ``flag`` is whether commands have it; ``brief`` its help there, the first sentence by default.
    """

    help: str
    check: Check
    code: str
    flag: bool
    brief: str
    name: str = ""
    default: Any = None


@cache
def declared(kind: type[Options]) -> tuple[Declared, ...]:
    """Return what was said of the options of a class, in their order."""
    return tuple(
        replace(item.metadata[_KEY], name=item.name, default=item.default)
        for item in fields(cast("Any", kind))
    )


def option(
    help: str, check: Check, *, default: T, code: str = "", flag: bool = True, brief: str = ""
) -> T:
    """Declare an option of a class of ``Options``.

    Parameters
    ----------
    help
        What it does, for docstrings; the first sentence is the help of the flag, unless ``brief``
        is.
    check
        What its values must be.
    default
        Its value when it is not given.
    code
        Of the error of a wrong value; ``option-NAME`` by default.
    flag
        Whether commands have it.
    brief
        Help of the flag.
    """
    flag = flag and check.kind is not None
    brief = brief or help.split(". ")[0].rstrip(".") + "."
    return field(default=default, metadata={_KEY: Declared(help, check, code, flag, brief)})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
class Options:
    """Base of whatever takes options. Subclasses become frozen dataclasses of keywords."""

    name: ClassVar[str] = ""
    options: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # Values may be arrays, which have no truth value to be equal by.
        dataclass(frozen=True, kw_only=True, eq=False)(cls)
        cls.options = tuple(item.name for item in declared(cls))
        cls.__doc__ = documented(cls)
        initialize = cls.__init__

        def checked(self: Any, **options: Any) -> None:
            type(self).check(options)
            initialize(self, **options)

        checked.__signature__ = inspect.signature(initialize)  # type: ignore[attr-defined]
        cls.__init__ = checked  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for item in declared(type(self)):
            code = item.code or f"option-{item.name.replace('_', '-')}"
            value = item.check.of(getattr(self, item.name), item.name, code)
            object.__setattr__(self, item.name, value)
        self.fit()

    def fit(self) -> None:
        """Raise where options do not go together."""

    @classmethod
    def check(cls, options: Mapping[str, object]) -> None:
        """Raise an ``InputError`` where an option is not one of the class's."""
        unknown = sorted(set(options) - set(cls.options))
        if unknown:
            raise InputError(
                f"{cls.name or cls.__name__} has no option {unknown[0]!r}; it takes "
                f"{', '.join(cls.options)}.",
                code="option-unknown",
            )

    @classmethod
    def of(cls, instance: Self | None, options: Mapping[str, Any]) -> Self:
        """Return what a call was given: an object of the class, or options by name."""
        if instance is None:
            return cls(**options)
        if not isinstance(instance, cls):
            raise InputError(
                f"an object of {cls.__name__} is needed; one of {type(instance).__name__} arrived.",
                code="option-object",
            )
        if options:
            raise InputError(
                f"{next(iter(options))!r} is given beside a {cls.__name__}. Give it to "
                f"{cls.__name__}(...).",
                code="option-object",
            )
        return instance

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return an object of the options that are the class's, and the other options by name."""
        own, others = part_options(options, *cls.options)
        return cls(**own), others

    def having(self, **changes: Any) -> Self:
        """A copy with some options changed, checked again."""
        return replace(cast("Any", self), **changes)

    def chosen(self) -> dict[str, Any]:
        """Options that differ from their defaults, by name."""
        defaults = {item.name: item.default for item in declared(type(self))}
        return {k: v for k, v in self.values().items() if v is not defaults[k]}

    def values(self, *names: str) -> dict[str, Any]:
        """Options by these names, or all."""
        return {name: getattr(self, name) for name in names or self.options}


def check_known(
    build: Callable[..., Any], options: Mapping[str, object], what: str, own: Collection[str] = ()
) -> dict[str, Any]:
    """Return options; raise where one is not a keyword of a function, nor one of ``own``."""
    keywords = [
        name
        for name, item in inspect.signature(build).parameters.items()
        if item.kind is item.KEYWORD_ONLY and name not in _TAKEN
    ]
    names = [*keywords, *own]
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise InputError(
            f"{what} has no option {unknown[0]!r}; it takes {', '.join(names)}.",
            code="option-unknown",
        )
    return dict(options)


def part_options(options: Mapping[str, Any], *names: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of these names, and the others."""
    own = {name: value for name, value in options.items() if name in names}
    return own, {name: value for name, value in options.items() if name not in names}


def documented(kind: type[Options], text: str | None = None, without: Collection[str] = ()) -> str:
    """Return a docstring, by default the class's own, with a numpydoc section of its options.

    Options ``without`` words here are those that the text explains itself.
    """
    own = inspect.cleandoc(text or vars(kind).get("__doc__") or "").splitlines()
    ends = (
        k for k, line in enumerate(own[:-1]) if line in _SECTIONS and own[k + 1].startswith("---")
    )
    place = next(ends, len(own))
    # A function has parameters of its own, before the options.
    heading = [] if "Parameters" in own else ["", "Parameters", "----------"]
    lines = ["\n".join(own[:place]).rstrip(), *heading]
    for item in declared(kind):
        if item.name in without:
            continue
        lines.append(f"{item.name} : {item.check.words}, default {item.default!r}")
        lines += [f"    {line}" for line in wrap(item.help, _WIDTH)]
    return "\n".join([*lines, "", *own[place:]]).rstrip() + "\n"


def taking(
    *kinds: type[Options], also: Collection[type[Options]] = (), without: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Show the options of classes as parameters of a function that takes them as ``**options``.

    Parameters that the function has itself stay as they are. It still shows ``**options`` where its
    docstring explains them: there are more than those of the classes. It takes those of the classes
    ``also`` too, and none that is called as in ``without``. From these ``python -m tests.keywords``
    writes ``silot/keywords.pyi``, which tells editors what ``**options`` may be.
    """

    def show(function: Function) -> Function:
        own = inspect.signature(function)
        text = inspect.cleandoc(function.__doc__ or "")
        shown = {k: item for k, item in own.parameters.items() if item.kind is not item.VAR_KEYWORD}
        last = [item for k, item in own.parameters.items() if k not in shown]
        for kind in kinds:
            text = documented(kind, text, without=tuple(shown))
            shown |= {
                name: item
                for name, item in inspect.signature(kind).parameters.items()
                if name not in shown
            }
        named: Any = function
        more = last if "**options" in text else []
        named.__signature__ = own.replace(parameters=[*shown.values(), *more])
        named.__doc__ = text
        named.takes = (*kinds, *also), {*own.parameters, *without}
        return function

    return show


def read_texts(kind: type[Options], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return options of a method from texts by name, such as those of a form.

    Options without a text keep their defaults, but truth values: those are true where there is a
    text. What is no number stays a text, which the method refuses in its own words.
    """
    options: dict[str, Any] = {}
    for item in declared(kind):
        text = texts.get(item.name, "").strip()
        if not item.flag or (not text and item.check.kind is not bool):
            continue
        read = {bool: bool, int: int, float: float}.get(cast("Any", item.check.kind))
        try:
            value = (read or item.check.reads)(text)
        except ValueError:
            value = text
        if value != item.default:
            options[item.name] = value
    return options


def write_flags(options: Mapping[str, Any]) -> list[str]:
    """Return options by name as the words of a command line that has them as flags."""
    words: list[str] = []
    for name, value in options.items():
        flag = name_flag(name)
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag}={value}")
    return words


def name_flag(name: str) -> str:
    """Return what the command line calls an option, without its dashes."""
    return _FLAG_NAMES.get(name, name).replace("_", "-")
