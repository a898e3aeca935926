"""``silot coreset``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api.coreset import coreset
from ..errors import InputError
from ..teaching.federated.coreset import Condensing
from .barycenter import Atoms, weights_of
from .console import save_transcript, say_where, show, steps, write_report
from .generate import taking
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where, names_of


class CoresetMethod(StrEnum):
    """How the points are found."""

    fedbary = "fedbary"
    sketch = "sketch"


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("coreset")(taking([Condensing])(coreset_command))


def coreset_command(
    holders: HoldersArgument = None,
    *,
    method: Annotated[
        CoresetMethod, typer.Option("--method", "-m", help="FedBary, or private sketches.")
    ] = CoresetMethod.fedbary,
    weights: Annotated[
        str | None,
        typer.Option(help="Weight of each holder, comma separated, in their order."),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Labelled records to test the 1-nearest-neighbour classifier on."),
    ] = None,
    where: Where,
    tables: Tables,
    release: Release,
    atoms: Atoms,
    outputs: Outputs,
    **options: Any,
) -> None:
    """A few points that stand for the holders' records, and a classifier on them."""
    atoms.check()
    if test is not None and not tables.labels:
        raise InputError(
            "--test needs a classifier, and points without labels are none. Give --labels.",
            code="labels-absent",
        )
    loaded, mine = where.load(tables, holders, test)
    options |= release.read(tables)
    with steps("coreset") as progress:
        result = coreset(
            loaded,
            method=method.value,
            labels=tables.labels,
            weights=weights_of(weights, list(names_of(loaded))),
            test=mine,
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    atoms.save(result)
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report)
