"""The ``silot`` command: its groups, its exit statuses, and how errors are shown."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

import silot

from ..errors import TEMPORARY, ExtraError, MemoryShortError, SilotError, nature_of
from ..render.words import format_bytes
from .brief import BriefGroup, insert_default, with_calls
from .console import ERRORS, tell
from .tree import TREE, Group, name_function

if TYPE_CHECKING:
    from ..federation.result import Run

EPILOG = (
    "Exit statuses: 0 done; 1 unexpected error; 2 wrong usage; 3 data or option not valid; "
    "4 file missing or unreadable; 5 data that do not fit together; 6 a holder failed; "
    "7 a holder refused; 8 solver failed; 9 optional dependency missing; 10 broken message; "
    "11 memory too small; 12 a holder has not decided yet; 130 interrupted."
)


def build(*words: str) -> typer.Typer:
    """Return the command line: with all commands, or with what a call of ``words`` needs."""
    app = _app(TREE, name="silot", epilog=EPILOG, pretty_exceptions_enable=False)
    app.callback()(options)
    _fill(app, TREE, "silot", list(words) or None)
    return app


def _app(group: Group, **how: Any) -> typer.Typer:
    shown = with_calls(BriefGroup, group.calls, order=[*group.commands], default=group.default)
    return typer.Typer(cls=shown, help=group.words, **how)


def _fill(app: typer.Typer, group: Group, path: str, words: list[str] | None) -> None:
    """Add the commands of a group: the one that ``words`` call, or all of which they need help."""
    is_help, names = False, list(group.commands)
    if words is not None:
        words = insert_default(words, names, group.default)
        is_help = not words or words[0] == "--help"
        called = words[:1] if not is_help and words[0] in names else []
        names, words = called or names, words[1:] if called else None
    for name in names:
        item = group.commands[name]
        if is_help:
            # Only docstrings are read, so that the help of a group imports nothing.
            text = _docstring(item, name) if isinstance(item, str) else item.words
            app.command(name, help=text)(lambda: None)
        elif isinstance(item, Group):
            inner = _app(item)
            _fill(inner, item, f"{path} {name}", words)
            app.add_typer(inner, name=name)
        else:
            # What it imports is slow.
            from .generate import add_command

            calls = group.calls if name == group.default else ()
            add_command(app, f"{path} {name}", item, calls)


def _docstring(file: str, name: str) -> str:
    code = ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8"))
    function = name_function(name)
    (text,) = (
        ast.get_docstring(item)
        for item in code.body
        if isinstance(item, ast.FunctionDef) and item.name == function
    )
    return text or ""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, build())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"silot {silot.__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Optimal transport across data silos: distances with bounds, a cost and what they disclose."""


def main() -> None:
    """Run the command line; turn errors into a line on stderr and an exit status."""
    warnings.showwarning = _show_warning
    try:
        # A shell that completes a line says so in its environment, not in arguments.
        completes = "_SILOT_COMPLETE" in os.environ
        build(*([] if completes else sys.argv[1:] or ["--help"]))()
    except SilotError as error:
        line = f"error: {error}{_describe_disclosure(error.run)}"
        tell(line)
        # A person at a terminal gets a second line with a hint, a program the one line.
        if ERRORS.is_terminal:
            ERRORS.print(f"silot doctor {error.code}", style="dim", highlight=False)
        sys.exit(_find_status(error.code, error.exit_status))
    except MemoryError:
        # Larger than what was foreseen: another process may have taken what was free.
        words = (
            "error: [memory-short] memory is used up; nothing was written. Use fewer records, or "
            "method 'sketch'."
        )
        tell(words)
        sys.exit(_find_status("memory-short", MemoryShortError.exit_status))
    except KeyboardInterrupt as interrupted:
        _interrupted(interrupted)
    except SystemExit as ended:
        # The parser turns an interruption into a status, and keeps its cause.
        cause = ended.__context__ and ended.__context__.__cause__
        if isinstance(cause, KeyboardInterrupt):
            _interrupted(cause)
        raise


def _find_status(code: str, status: int) -> int:
    """Return the exit status, another one where a supervisor is to start the process again."""
    if code.startswith("extra-"):
        # Also of a holder: what to install is known.
        return ExtraError.exit_status
    serves = sys.argv[1:3] in (["site", "run"], ["project", "serve"])
    return TEMPORARY if serves and nature_of(code) == "passes" else status


_show_other = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning about accounts as a sentence, and others as Python does."""
    # Slow to import, and imported already by whoever warns.
    from ..privacy.people import PeopleWarning

    if issubclass(category, PeopleWarning):
        tell(f"warning: {message}")
    else:
        _show_other(message, category, filename, lineno, file, line)


def _describe_disclosure(run: Run | None) -> str:
    """Say what sites had disclosed and charged when a run failed, which stays so."""
    elsewhere = any(word.partition("=")[0] == "--sites" for word in sys.argv)
    if run is None or not run.disclosure or not (elsewhere or run.privacy_mu):
        return ""
    charged = f", and charged mu {run.privacy_mu:.3g}" if run.privacy_mu else ""
    return (
        f" By then holders had answered with {format_bytes(run.bytes_received)}, up to level "
        f"{run.disclosure}{charged}."
    )


def _interrupted(interrupted: KeyboardInterrupt) -> NoReturn:
    words = str(interrupted) or "nothing was written"
    tell(f"interrupted; {words}")
    sys.exit(130)
