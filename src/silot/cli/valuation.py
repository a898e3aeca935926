"""``silot value`` and ``silot records``."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..api import value_holders, value_records
from ..errors import InputError
from ..loading import load_images
from ..measure import Measure
from ..results import Contributions, RecordScores, format_bytes
from .console import (
    OUT,
    bill_rows,
    interval,
    number,
    progress_bar,
    save_transcript,
    show_rows,
    steps,
)
from .options import (
    BudgetOption,
    ColumnsOption,
    DeltaOption,
    EpsilonOption,
    HoldersArgument,
    JsonOption,
    LabelColumnOption,
    LabelsOption,
    LedgersOption,
    MassOption,
    PublicOption,
    RoundsOption,
    SeedOption,
    SupportOption,
    TranscriptOption,
    WeightColumnOption,
    check_outputs,
    given,
    load_holders,
    sketch_options,
)


class LabelMetric(StrEnum):
    """How labels are compared."""

    classes = "classes"
    vectors = "vectors"


class ValueMethod(StrEnum):
    """How a holder is compared with validation data."""

    target = "target"
    fedbary = "fedbary"
    trianglewad = "trianglewad"
    direct = "direct"
    sketch = "sketch"


MetricOption = Annotated[LabelMetric, typer.Option(help="How labels are compared.")]
ReportOption = Annotated[
    Path | None, typer.Option(help="Write an HTML report of what was told to this file.")
]
ShapeOption = Annotated[
    str | None,
    typer.Option(help="Shape of one record as an image, such as 28x28 or 32x32x3, for the report."),
]
ValidationOption = Annotated[Path, typer.Option(help="Data that are trusted.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("value")(value_command)
    app.command("records")(records_command)


def value_command(
    holders: HoldersArgument,
    validation: Annotated[
        Path | None, typer.Option(help="Data of the law that matters. Default: the barycenter.")
    ] = None,
    method: Annotated[
        ValueMethod, typer.Option("--method", "-m", help="How holders meet validation data.")
    ] = ValueMethod.target,
    labels: LabelsOption = False,
    label_metric: MetricOption = LabelMetric.classes,
    class_tolerance: Annotated[
        float,
        typer.Option(min=0, help="Standard errors of class proportions that are not charged."),
    ] = 3.0,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    support: SupportOption = None,
    rounds: RoundsOption = None,
    public: PublicOption = None,
    privacy_epsilon: EpsilonOption = None,
    privacy_delta: DeltaOption = None,
    mass_limit: MassOption = None,
    ledgers: LedgersOption = None,
    budget: BudgetOption = None,
    quorum: Annotated[
        int | None, typer.Option(min=1, help="Fewest holders that must answer. Default: all.")
    ] = None,
    between: Annotated[
        bool,
        typer.Option("--between", help="Distances between holders too: it discloses records."),
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals/--no-intervals",
            help="The error of every distance too: three more exact numbers a holder.",
        ),
    ] = True,
    records: Annotated[
        bool,
        typer.Option(
            "--records", help="Score every holder's records, with --between: it discloses records."
        ),
    ] = False,
    report: ReportOption = None,
    image_shape: ShapeOption = None,
    seed: SeedOption = 0,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """What each holder's data are worth for validation data, or for the holders' barycenter."""
    check_outputs(report, transcript)
    if records and validation is None:
        raise InputError(
            "record scores need data that are trusted: give --validation.", code="option-records"
        )
    if records and transcript is not None:
        raise InputError(
            "--transcript keeps the messages of one run, and --records makes one a holder: leave "
            "one of them out.",
            code="option-transcript",
        )
    paths = [*holders, *([validation] if validation is not None else [])]
    loaded = load_holders(paths, label_column, weight_column, columns, labels)
    files = dict(zip(loaded, paths, strict=True))
    own = loaded.pop(list(loaded)[-1]) if validation is not None else None
    images = _images({name: files[name] for name in loaded}, image_shape) if records else {}
    options = sketch_options(
        public, privacy_epsilon, privacy_delta, mass_limit, ledgers, budget, label_column, columns
    )
    options |= given(support=support, rounds=rounds, quorum=quorum)
    if method is not ValueMethod.sketch:
        # Never for a report's sake: what holders are asked does not depend on who shows it.
        options |= {
            "class_tolerance": class_tolerance,
            "between": between or records,
            "intervals": intervals,
        }
    elif between:
        raise InputError(
            "sketches tell the distances between holders already: silot matrix --method sketch "
            "shows them. Leave --between out.",
            code="option-between",
        )
    with steps("value") as progress:
        result = value_holders(
            loaded,
            own,
            labels=labels,
            label_metric=label_metric.value,
            method=method.value,
            seed=seed,
            progress=progress,
            **options,
        )
    save_transcript(result, transcript)
    scored: dict[str, RecordScores] = {}
    if records and own is not None:
        scored = _score_all(
            {name: loaded[name] for name in result.names}, own, labels, label_metric, seed
        )
    if report is not None:
        _write_report(report, result, scored, images)
    if json:
        found = result.to_dict()
        if records:
            found["records"] = [item.to_dict() for item in scored.values()]
        typer.echo(jsonlib.dumps(found, allow_nan=False))
        return
    _show_contributions(result)
    for item in scored.values():
        OUT.print(
            f"{item.name}: {int(item.flagged.sum())} of {len(item.scores)} records flagged",
            highlight=False,
            markup=False,
        )
    if scored:
        traffic = sum(item.bytes_sent + item.bytes_received for item in scored.values())
        OUT.print(
            f"scoring took {format_bytes(traffic)} more, and disclosed every record",
            highlight=False,
        )
    if report is not None:
        OUT.print(f"report in {report}", highlight=False, markup=False, soft_wrap=True)


def records_command(
    holder: Annotated[Path, typer.Argument(help="The holder whose records are scored.")],
    validation: ValidationOption,
    labels: LabelsOption = False,
    label_metric: MetricOption = LabelMetric.classes,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    support: SupportOption = None,
    t: Annotated[
        float | None, typer.Option("--t", help="Interpolation parameter, between 0 and 1.")
    ] = None,
    report: ReportOption = None,
    image_shape: ShapeOption = None,
    seed: SeedOption = 0,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """How suspect each record of a holder is, compared with validation data."""
    check_outputs(report, transcript)
    loaded = load_holders([holder, validation], label_column, weight_column, columns, labels)
    name, other = loaded
    images = _images({name: holder}, image_shape) if report is not None else {}
    with steps("records") as progress:
        result = value_records(
            loaded[name],
            loaded[other],
            labels=labels,
            label_metric=label_metric.value,
            seed=seed,
            name=name,
            progress=progress,
            **given(support=support, t=t),
        )
    save_transcript(result, transcript)
    if report is not None:
        _write_report(report, None, {name: result}, images)
    if json:
        typer.echo(result.to_json())
        return
    _show_records(result)
    if report is not None:
        OUT.print(f"report in {report}", highlight=False, markup=False, soft_wrap=True)


def _images(files: Mapping[str, Path], shape: str | None) -> dict[str, Any]:
    """Records as pictures, of the holders that have them."""
    size = None
    if shape is not None:
        parts = shape.lower().split("x")
        if not all(part.isdecimal() for part in parts):
            raise InputError(
                f"--image-shape is {shape!r}; give it as 28x28 or 32x32x3.", code="report-images"
            )
        size = tuple(int(part) for part in parts)
    found = {name: load_images(file, size) for name, file in files.items()}
    return {name: images for name, images in found.items() if images is not None}


def _score_all(
    holders: Mapping[str, Measure], own: Measure, labels: bool, metric: LabelMetric, seed: int
) -> dict[str, RecordScores]:
    found: dict[str, RecordScores] = {}
    with progress_bar("records") as bar:
        task = bar.add_task("holders", total=len(holders))
        for name, measure in holders.items():
            found[name] = value_records(
                measure, own, labels=labels, label_metric=metric.value, seed=seed, name=name
            )
            bar.advance(task)
    return found


def _write_report(
    path: Path,
    found: Contributions | None,
    scored: Mapping[str, RecordScores],
    images: Mapping[str, Any],
) -> None:
    # Slow to import: it draws.
    from ..report import write_report

    shown = {name: pixels for name, pixels in images.items() if name in scored}
    write_report(path, contributions=found, records=scored or None, images=shown or None)


def ranking_table(result: Contributions) -> Table:
    """Holders by distance, the closest first, and what their distances owe to chance."""
    table = _table("rank", "holder", "distance", "bounds", "chance", "corrected", "95 %", "records")
    for item in result.ranking:
        chance = item.distance.chance
        table.add_row(
            item.place,
            escape(item.holder),
            number(item.distance.value),
            interval(item.distance),
            "" if chance is None else number(chance),
            "" if item.corrected is None else number(item.corrected),
            ""
            if item.interval is None
            else f"[{number(item.interval[0])}, {number(item.interval[1])}]",
            str(item.records),
        )
    return table


def shares_table(result: Contributions) -> Table:
    """What every holder is worth, in each of the ways to say it."""
    shapley = any(item.shapley_share is not None for item in result.holders)
    more = ("Shapley share",) if shapley else ()
    heads = ("share", "95 %", "explained", "95 %", "explained share", "95 %", *more)
    table = _table("rank", "holder", *heads)
    for item in result.ranking:
        cells = [
            _percent(item.share),
            _percents(item.share_interval),
            _percent(item.explained),
            _percents(item.explained_interval),
            _percent(item.explained_share),
            _percents(item.explained_share_interval),
        ]
        if shapley:
            cells.append("" if item.shapley_share is None else _percent(item.shapley_share))
        table.add_row(item.place, escape(item.holder), *cells)
    return table


def _table(rank: str, holder: str, *titles: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(rank, justify="right", no_wrap=True)
    table.add_column(holder)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _percents(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"


def _show_contributions(result: Contributions) -> None:
    OUT.print(ranking_table(result), highlight=False)
    OUT.print(shares_table(result), highlight=False)
    show_rows({"target": result.target, "status": result.status, **bill_rows(result)})


def _show_records(result: RecordScores) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for title in ("record", "score", "because of", "coordinator", "flagged"):
        table.add_column(title, justify="right")
    side = result.coordinator_side
    own = result.holder_side
    for place in result.worst[:10].tolist():
        by_label = own.labels is not None and own.labels[place] > own.features[place]
        table.add_row(
            str(place),
            f"{result.scores[place]:.2f}",
            "label" if by_label else "features",
            "" if side is None else f"{side.scores[place]:.2f}",
            "yes" if result.flagged[place] else "",
        )
    OUT.print(table, highlight=False)
    show_rows(
        {
            "flagged": f"{int(result.flagged.sum())} of {len(result.scores)} records",
            "rule": result.rule,
            "score": "0: the median of the validation records, 1: their 95 % quantile",
            "status": result.status,
            **bill_rows(result),
        }
    )
