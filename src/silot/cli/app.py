"""The ``silot`` command: its groups, its exit statuses, and how errors are shown."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import SilotError
from . import (
    adapt,
    audit,
    barycenter,
    demo,
    distances,
    distill,
    ledger,
    links,
    methods,
    policy,
    secure,
    valuation,
)
from .console import ERRORS

EPILOG = (
    "Exit statuses: 0 done; 1 unexpected error; 2 wrong usage; 3 data or option not valid; "
    "4 file missing or unreadable; 5 data that do not fit together; 6 a holder failed; "
    "7 a holder refused; 8 solver failed; 9 optional dependency missing; 10 broken message; "
    "130 interrupted."
)

app = typer.Typer(
    name="silot",
    help="Optimal transport across data silos.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"silot {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Optimal transport across data silos: distances with bounds, a bill and what they disclose."""


distances.register(app)
valuation.register(app)
barycenter.register(app)
methods.register(app)
audit.register(app)
ledger.register(app)
policy.register(app)
secure.register(app)
links.register(app)
adapt.register(app)
distill.register(app)
demo.register(app)


def main() -> None:
    """Run the command line; turn errors into a line on stderr and an exit status."""
    try:
        app()
    except SilotError as error:
        ERRORS.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        ERRORS.print("interrupted; nothing was written", markup=False)
        sys.exit(130)
