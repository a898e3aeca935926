"""``silot plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from ..api.plan import Planning, plan
from ..data.measure import Measure
from .console import steps
from .generate import command
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where


@command("plan", [Planning])
def plan_command(
    holders: HoldersArgument = None,
    *,
    validation: Annotated[Path, typer.Option(help="Data of the law that matters.")],
    method: Annotated[
        Literal["exact", "sketch"],
        typer.Option(
            "--method", "-m", help="From all records, which are disclosed; or private sketches."
        ),
    ] = "exact",
    where: Where,
    tables: Tables,
    release: Release,
    outputs: Outputs,
    **options: Any,
) -> None:
    """What would help most: whom to pool, part, leave out, what to drop or ask for."""
    loaded, own = where.load(tables, holders, validation)
    options |= release.read(tables) | {"method": method, "labels": tables.labels}
    with steps("plan") as progress:
        result = plan(loaded, cast("Measure", own), progress=progress, **options)
    outputs.finish(result)
