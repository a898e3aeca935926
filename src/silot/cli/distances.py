"""``silot distance``, ``silot matrix`` and ``silot pooled``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ..api._holders import Parties
from ..api._methods import METHODS, Comparison
from ..api.distances import distance_matrix, pooled_distance
from ..data.measure import Measure
from ..distances.pooled import Pooled
from ..distances.result import Distance
from .console import (
    OUT,
    check_figure,
    progress_bar,
    save_figure,
    save_transcript,
    say_where,
    show,
    steps,
    tell_forecast,
    write_report,
)
from .generate import taking
from .options import (
    HoldersArgument,
    JsonOption,
    LabelledTables,
    Outputs,
    ReportOption,
    Spending,
)
from .sites import Where


class Shares(StrEnum):
    """What a seller counts for in a union."""

    records = "records"
    weights = "weights"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for name, command in (("distance", distance_command), ("matrix", matrix_command)):
        app.command(name)(taking(METHODS.values(), choose="direct")(command))
    app.command("pooled")(taking([Pooled])(pooled_command))


def distance_command(
    a: Annotated[Path, typer.Argument(help="A holder: .npz, .csv, .csv.gz, .parquet; or a site.")],
    b: Annotated[Path, typer.Argument(help="Another holder.")],
    *,
    method: str,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between two holders, with bounds, bill and disclosure."""
    holders, _ = where.load(tables, [a, b])
    options |= spending.read(tables)
    with steps(method) as progress:
        parties = Parties.of(holders, tables.labels)
        compared = Comparison.of(method, parties, tables.covariance.value, options)
        tell = None if outputs.json else tell_forecast
        first, second = parties.names
        result = compared.between(first, second, progress, tell)
    save_transcript(result, outputs.transcript)
    _show(result, outputs)


def matrix_command(
    holders: HoldersArgument = None,
    *,
    method: str,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    plot: Annotated[Path | None, typer.Option(help="Draw a heat map to this file.")] = None,
    report: ReportOption = None,
    json: JsonOption = False,
    **options: Any,
) -> None:
    """Distances between all pairs of holders."""
    if plot is not None:
        check_figure(plot)
    loaded, _ = where.load(tables, holders)
    options |= spending.read(tables)
    with progress_bar(f"{method}") as bar:
        task = bar.add_task("pairs", total=None)
        result = distance_matrix(
            loaded,
            method=method,
            labels=tables.labels,
            covariance=tables.covariance.value,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
            **options,
        )
    if plot is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 5), layout="constrained")
        result.plot(figure.add_subplot())
        save_figure(figure, plot)
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    if plot is not None:
        OUT.print(f"heat map in {plot}", highlight=False)
    say_where(report=report)


def pooled_command(
    sellers: HoldersArgument = None,
    *,
    buyer: Annotated[Path, typer.Option(help="The coordinator's own data.")],
    where: Where,
    tables: LabelledTables,
    shares: Annotated[
        Shares, typer.Option(help="What a seller counts for: its records, or their weights' sum.")
    ] = Shares.records,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between the union of sellers and a buyer (TriangleWad)."""
    loaded, own = where.load(tables, sellers, buyer)
    with steps("pooled") as progress:
        result = pooled_distance(
            loaded,
            cast("Measure", own),
            shares=shares.value,
            labels=tables.labels,
            covariance=tables.covariance.value,
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    _show(result, outputs)


def _show(result: Distance, outputs: Outputs) -> None:
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report)
