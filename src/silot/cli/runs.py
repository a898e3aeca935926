"""``silot runs``, ``silot resume`` and ``silot cancel``: runs over sites."""

from __future__ import annotations

import json as json_
import os
from typing import Annotated, Any

import typer
from rich.table import Table

from ..errors import FileError, InputError
from ..sites.runs import Run, all_runs
from .console import OUT, tell
from .generate import taking
from .options import JsonOption, Outputs
from .sites import RESUMED

RunArgument = Annotated[str, typer.Argument(help="Its name, or the beginning of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("runs")(taking()(runs_command))
    app.command("resume")(taking()(resume_command))
    app.command("cancel")(taking()(cancel_command))


def runs_command(json: JsonOption = False) -> None:
    """Runs over sites: what was asked of whom, since when, and how far it is."""
    rows: list[dict[str, Any]] = [
        {
            "run": each.request.run,
            "computation": each.request.computation,
            "sites": list(each.request.names),
            "began": each.request.began.isoformat(timespec="seconds"),
            "state": each.state,
        }
        for each in all_runs()
    ]
    if json:
        typer.echo(json_.dumps(rows))
        return
    if not rows:
        tell("no run over sites was begun")
        return
    table = Table(box=None, expand=False)
    for name in rows[0]:
        table.add_column(name, no_wrap=name in ("run", "began"))
    for row in rows:
        shown = {**row, "sites": ", ".join(row["sites"]), "began": row["began"][:16]}
        table.add_row(*map(str, shown.values()))
    OUT.print(table, markup=False)


def resume_command(run: RunArgument, *, outputs: Outputs) -> None:
    """Go on with a run where it was, to its result; no site is asked twice."""
    found = Run.load(run)
    words = list(found.request.words)
    if not words:
        name = found.request.run
        raise InputError(
            f"the run {name} is of Python: silot.resume({name!r}) goes on.", code="run-python"
        )
    for flag, path in (("--report", outputs.report), ("--transcript", outputs.transcript)):
        words += [] if path is None else [flag, str(path.absolute())]
    words += ["--json"] if outputs.json and "--json" not in words else []
    found.request.check_files()
    # As it was called: files that it names lie there.
    try:
        os.chdir(found.request.folder)
    except OSError:
        raise FileError(
            f"{found.request.folder}, where the run began, is gone. Put it back, or begin anew.",
            code="run-folder",
        ) from None
    RESUMED.set(found)
    from .app import build

    build(words[0])(words, standalone_mode=False)


def cancel_command(run: RunArgument) -> None:
    """Have a run ask nobody any more; it cannot be gone on with."""
    found = Run.load(run)
    if found.cancel():
        tell(f"{found.request.run} is cancelled")
    else:
        tell(f"{found.request.run} is done")
