"""The ``silot`` command: its groups, its exit statuses, and how errors are shown."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

from .. import __version__
from ..errors import SilotError
from ..render.words import format_bytes
from .console import ERRORS, tell

if TYPE_CHECKING:
    from ..federation.result import Run

EPILOG = (
    "Exit statuses: 0 done; 1 unexpected error; 2 wrong usage; 3 data or option not valid; "
    "4 file missing or unreadable; 5 data that do not fit together; 6 a holder failed; "
    "7 a holder refused; 8 solver failed; 9 optional dependency missing; 10 broken message; "
    "11 memory too small; 12 a holder has not decided yet; 130 interrupted."
)

# Commands by the file they are in, in the order of the help. A file is imported when one of its
# commands is called, or the help wants all.
COMMANDS = {
    "distances": ("distance", "matrix", "pooled"),
    "plan": ("plan",),
    "cluster": ("cluster",),
    "valuation": ("value",),
    "records": ("records",),
    "barycenter": ("barycenter", "coreset"),
    "about": ("methods", "doctor", "help"),
    "audit": ("audit", "policy"),
    "ledger": ("ledger",),
    "schema": ("schema",),
    "release": ("release", "combine", "watch", "keys"),
    "secure": ("secure", "secure-keys"),
    "devices": ("links", "adapt"),
    "train": ("train",),
    "distill": ("distill",),
    "deploy": ("deploy",),
    "site": ("site",),
    "runs": ("runs", "resume", "cancel"),
    "demo": ("demo",),
}


def build(command: str = "all") -> typer.Typer:
    """Return the command line: with the file of one command, with all, or for ``--help`` none."""
    app = typer.Typer(
        name="silot",
        help="Optimal transport across data silos.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    if command == "--help":
        _add_helps(app)
        return app
    # What it imports is slow, and the help of all commands does without.
    from .generate import add_commands

    files = [file for file, names in COMMANDS.items() if command in names] or list(COMMANDS)
    for file in files:
        import_module(f".{file}", __package__)
        for name in COMMANDS[file]:
            add_commands(app, name)
    return app


def _add_helps(app: typer.Typer) -> None:
    """Add commands of which only the docstrings are read, so that ``--help`` imports nothing."""
    for file, names in COMMANDS.items():
        code = ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8"))
        docstrings = {
            item.name: ast.get_docstring(item)
            for item in code.body
            if isinstance(item, ast.FunctionDef)
        }
        for name in names:
            text = docstrings[f"{name.replace('-', '_')}_command"]
            app.command(name, help=text)(lambda: None)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, build())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"silot {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Optimal transport across data silos: distances with bounds, a bill and what they disclose."""


def main() -> None:
    """Run the command line; turn errors into a line on stderr and an exit status."""
    warnings.showwarning = _show_warning
    try:
        # A shell that completes a line says so in its environment, not in arguments.
        first = "all" if "_SILOT_COMPLETE" in os.environ else (sys.argv[1:] or ["--help"])[0]
        build(first)()
    except SilotError as error:
        line = f"error: {error}{_describe_disclosure(error.run)}"
        tell(line)
        # A person at a terminal gets a second line with a hint, a program the one line.
        if ERRORS.is_terminal:
            ERRORS.print(f"silot help {error.code}", style="dim", highlight=False)
        sys.exit(error.exit_status)
    except MemoryError:
        # Larger than what was foreseen: another process may have taken what was free.
        words = (
            "error: [memory-short] memory is used up; nothing was written. Take fewer records, or "
            "method 'sketch'."
        )
        tell(words)
        sys.exit(11)
    except KeyboardInterrupt as interrupted:
        _interrupted(interrupted)
    except SystemExit as ended:
        # The parser turns an interruption into a status, and keeps its cause.
        cause = ended.__context__ and ended.__context__.__cause__
        if isinstance(cause, KeyboardInterrupt):
            _interrupted(cause)
        raise


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
