"""``silot distance``, ``silot matrix`` and ``silot pooled``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api._holders import Parties
from ..api._methods import METHODS, Comparison
from ..api.distances import distance_matrix, pooled_distance
from ..data.measure import Measure
from ..distances.pooled import Pooled
from ..distances.result import Distance
from ..errors import MismatchError
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
    JsonOption,
    LabelledTables,
    Outputs,
    ReportOption,
    Spending,
    check_outputs,
)


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
    a: Annotated[Path, typer.Argument(help="A holder: .npz, .csv, .csv.gz or .parquet.")],
    b: Annotated[Path, typer.Argument(help="Another holder.")],
    *,
    method: str,
    tables: LabelledTables,
    spending: Spending,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between two holders, with bounds, bill and disclosure."""
    check_outputs(outputs.transcript, outputs.report, inputs=[a, b, spending.public])
    holders = tables.load([a, b])
    options |= spending.read(tables)
    _check_dimensions(holders)
    with steps(method) as progress:
        parties = Parties.of(holders, tables.labels)
        compared = Comparison.of(method, parties, tables.covariance.value, options)
        tell = None if outputs.json else tell_forecast
        first, second = parties.names
        result = compared.between(first, second, progress, tell)
    save_transcript(result, outputs.transcript)
    _show(result, outputs)


def matrix_command(
    holders: Annotated[list[Path], typer.Argument(help="Two or more holders.")],
    *,
    method: str,
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
    check_outputs(report, plot, inputs=[*holders, spending.public])
    loaded = tables.load(holders)
    options |= spending.read(tables)
    with progress_bar(f"{method}") as bar:
        task = bar.add_task("pairs", total=len(loaded) * (len(loaded) - 1) // 2)
        result = distance_matrix(
            loaded,
            method=method,
            labels=tables.labels,
            covariance=tables.covariance.value,
            progress=lambda done, _: bar.update(task, completed=done),
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
    sellers: Annotated[list[Path], typer.Argument(help="Holders whose union is measured.")],
    *,
    buyer: Annotated[Path, typer.Option(help="The coordinator's own data.")],
    tables: LabelledTables,
    shares: Annotated[
        Shares, typer.Option(help="What a seller counts for: its records, or their weights' sum.")
    ] = Shares.records,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between the union of sellers and a buyer (TriangleWad)."""
    check_outputs(outputs.transcript, outputs.report, inputs=[*sellers, buyer])
    loaded = tables.load([*sellers, buyer])
    own = loaded.pop(list(loaded)[-1])
    with steps("pooled") as progress:
        result = pooled_distance(
            loaded,
            own,
            shares=shares.value,
            labels=tables.labels,
            covariance=tables.covariance.value,
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    _show(result, outputs)


def _check_dimensions(holders: dict[str, Measure]) -> None:
    first, second = holders.values()
    if first.dimension != second.dimension:
        # Before any question is sent; the protocol would find out in its first round.
        raise MismatchError(
            f"{' and '.join(holders)} have {first.dimension} and {second.dimension} features. "
            "Give both the same features in the same order.",
            code="dimension-mismatch",
        )


def _show(result: Distance, outputs: Outputs) -> None:
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report)
