"""``silot plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

from ..api.plan import Planning, plan
from ..data.measure import Measure
from .console import steps
from .generate import command, flag
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where


@command("plan", [Planning])
def plan_command(
    holders: HoldersArgument = None,
    *,
    validation: Path = flag("Data as they should be.", default=...),
    method: Literal["exact", "sketch"] = flag(
        "From all records, which are disclosed; or private sketches.",
        "-m",
        default="exact",
    ),
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
