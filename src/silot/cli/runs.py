"""``silot project``: runs over sites, for who asks."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ..errors import FileError, InputError
from ..sites.runs import Run, all_runs
from .console import print_json, print_table, tell
from .generate import command
from .options import JsonOption, Outputs
from .sites import RESUMED

RunArgument = Annotated[str, typer.Argument(help="Name of the run, or its first letters.")]


@command()
def runs_command(json: JsonOption = False) -> None:
    """List runs over sites: their sites, start and progress."""
    rows: list[dict[str, Any]] = [
        {
            "run": run.request.run,
            "computation": run.request.computation,
            "sites": list(run.request.names),
            "began": run.request.began.isoformat(timespec="seconds"),
            "state": run.state,
        }
        for run in all_runs()
    ]
    if json:
        print_json(rows)
        return
    if not rows:
        tell("there are no runs over sites")
        return
    shown = [{**row, "sites": ", ".join(row["sites"]), "began": row["began"][:16]} for row in rows]
    print_table(list(rows[0]), [list(row.values()) for row in shown])


@command()
def resume_command(run: RunArgument, *, outputs: Outputs) -> None:
    """Resume a run where it stopped, up to its result; no site answers a question twice."""
    loaded = Run.load(run)
    words = list(loaded.request.words)
    if not words:
        name = loaded.request.run
        raise InputError(
            f"the run {name} is of Python: silot.resume({name!r}) continues it.", code="run-python"
        )
    for flag, path in (("--report", outputs.report), ("--transcript", outputs.transcript)):
        words += [] if path is None else [flag, str(path.absolute())]
    words += ["--json"] if outputs.json and "--json" not in words else []
    loaded.request.check_files()
    # As it was called: files that it names lie there.
    try:
        os.chdir(loaded.request.folder)
    except OSError:
        raise FileError(
            f"{loaded.request.folder}, where the run began, is gone. Restore it, or start again.",
            code="run-folder",
        ) from None
    RESUMED.set(loaded)
    from .app import build

    build(*words)(words, standalone_mode=False)


@command()
def cancel_command(run: RunArgument) -> None:
    """Cancel a run: it sends no more questions, and cannot be resumed."""
    loaded = Run.load(run)
    if loaded.cancel():
        tell(f"{loaded.request.run} is cancelled")
    else:
        tell(f"{loaded.request.run} is done")
