"""``silot runs``, ``silot resume`` and ``silot cancel``: runs over sites."""

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

RunArgument = Annotated[str, typer.Argument(help="Its name, or the beginning of it.")]


@command("runs")
def runs_command(json: JsonOption = False) -> None:
    """Runs over sites: what was asked of whom, since when, and how far it is."""
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
        tell("no run over sites was begun")
        return
    cells = [
        (row["run"], row["computation"], ", ".join(row["sites"]), row["began"][:16], row["state"])
        for row in rows
    ]
    print_table({name: {"no_wrap": name in ("run", "began")} for name in rows[0]}, cells)


@command("resume")
def resume_command(run: RunArgument, *, outputs: Outputs) -> None:
    """Go on with a run where it was, to its result; no site is asked twice."""
    loaded = Run.load(run)
    words = list(loaded.request.words)
    if not words:
        name = loaded.request.run
        raise InputError(
            f"the run {name} is of Python: silot.resume({name!r}) goes on.", code="run-python"
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
            f"{loaded.request.folder}, where the run began, is gone. Put it back, or begin anew.",
            code="run-folder",
        ) from None
    RESUMED.set(loaded)
    from .app import build

    build(words[0])(words, standalone_mode=False)


@command("cancel")
def cancel_command(run: RunArgument) -> None:
    """Have a run ask nobody any more; it cannot be gone on with."""
    loaded = Run.load(run)
    if loaded.cancel():
        tell(f"{loaded.request.run} is cancelled")
    else:
        tell(f"{loaded.request.run} is done")
