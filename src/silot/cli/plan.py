"""``silot plan``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ..api.plan import Planning, plan
from ..data.measure import Measure
from .console import save_transcript, say_where, show, steps, write_report
from .generate import taking
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where


class PlanMethod(StrEnum):
    """What advice is computed from."""

    exact = "exact"
    sketch = "sketch"


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("plan")(taking([Planning])(plan_command))


def plan_command(
    holders: HoldersArgument = None,
    *,
    validation: Annotated[Path, typer.Option(help="Data of the law that matters.")],
    method: Annotated[
        PlanMethod,
        typer.Option(
            "--method", "-m", help="From all records, which are disclosed; or private sketches."
        ),
    ] = PlanMethod.exact,
    where: Where,
    tables: Tables,
    release: Release,
    outputs: Outputs,
    **options: Any,
) -> None:
    """What would help most: whom to pool, part, leave out, what to drop or ask for."""
    loaded, own = where.load(tables, holders, validation)
    options |= release.read(tables)
    with steps("plan") as progress:
        result = plan(
            loaded,
            cast("Measure", own),
            labels=tables.labels,
            method=method.value,
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report)
