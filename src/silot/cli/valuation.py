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

from ..api_value import value_holders, value_records
from ..errors import InputError
from ..federation.holder import Own
from ..loading import load_images
from ..measure import Measure
from ..results import Contributions, RecordScores, format_bytes
from ._tables import show_between, show_contributions
from .console import (
    OUT,
    bill_rows,
    progress_bar,
    save_transcript,
    show_rows,
    steps,
)
from .options import (
    AccuracyOption,
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
    SecureScaleOption,
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


class MapMethod(StrEnum):
    """How the distances of a map are found."""

    direct = "direct"
    sketch = "sketch"
    secure = "secure"


class ValueMethod(StrEnum):
    """How a holder is compared with validation data."""

    target = "target"
    fedbary = "fedbary"
    trianglewad = "trianglewad"
    direct = "direct"
    sketch = "sketch"


class RecordMethod(StrEnum):
    """How records are scored."""

    screening = "screening"
    published = "published"


FdrOption = Annotated[
    float | None,
    typer.Option(
        "--fdr", help="Share of the flagged records that may be sound. Default: 0.1; 0: no flags."
    ),
]
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
    holder_map: Annotated[
        MapMethod | None,
        typer.Option(
            "--map", help="Distances between holders too, by this; direct discloses records."
        ),
    ] = None,
    scale: SecureScaleOption = None,
    accuracy: AccuracyOption = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals/--no-intervals",
            help="The error of every distance too: four more exact numbers a holder.",
        ),
    ] = True,
    records: Annotated[
        bool,
        typer.Option("--records", help="Score every holder's records: it discloses records."),
    ] = False,
    fdr: FdrOption = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="What distances are made of, by column and class: it discloses that."
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
    if transcript is not None and method is not ValueMethod.sketch and _apart(holder_map):
        raise InputError(
            f"--transcript keeps the messages of one run, and --map {holder_map} makes others: "
            "leave one of them out.",
            code="option-transcript",
        )
    paths = [*holders, *([validation] if validation is not None else [])]
    loaded = load_holders(paths, label_column, weight_column, columns, labels)
    files = dict(zip(loaded, paths, strict=True))
    own = loaded.pop(list(loaded)[-1]) if validation is not None else None
    images = _images({name: files[name] for name in loaded}, image_shape) if records else {}
    options = given(support=support, rounds=rounds, quorum=quorum, why=why or None)
    sketched = sketch_options(
        public, privacy_epsilon, privacy_delta, mass_limit, ledgers, budget, label_column, columns
    )
    chosen = None if accuracy is None else accuracy.value
    # Never for a report's sake: what holders are asked does not depend on who shows it.
    of_map = given(scale=scale, accuracy=chosen)
    if method is ValueMethod.sketch:
        options |= sketched
    else:
        options |= {"class_tolerance": class_tolerance, "intervals": intervals}
        of_map |= sketched
    with steps("value") as progress:
        result = value_holders(
            loaded,
            own,
            labels=labels,
            label_metric=label_metric.value,
            method=method.value,
            map=None if holder_map is None else holder_map.value,
            map_options=of_map,
            seed=seed,
            progress=progress,
            **options,
        )
    save_transcript(result, transcript)
    scored: dict[str, RecordScores] = {}
    if records and own is not None:
        scored = _score_all({name: loaded[name] for name in result.names}, own, labels, fdr, seed)
    if report is not None:
        _write_report(report, result, scored, images)
    if json:
        found = result.to_dict()
        if records:
            found["records"] = [item.to_dict() for item in scored.values()]
        typer.echo(jsonlib.dumps(found, allow_nan=False))
        return
    show_contributions(result)
    if result.between is not None:
        show_between(result.between)
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
    fdr: FdrOption = None,
    method: Annotated[
        RecordMethod, typer.Option("--method", "-m", help="How records are scored.")
    ] = RecordMethod.screening,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    support: SupportOption = None,
    t: Annotated[
        float | None,
        typer.Option("--t", help="For published: interpolation parameter, between 0 and 1."),
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
            method=method.value,
            seed=seed,
            name=name,
            progress=progress,
            **given(fdr=fdr, support=support, t=t),
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


def _apart(holder_map: MapMethod | None) -> bool:
    """Whether a map is made by runs of its own."""
    return holder_map not in (None, MapMethod.direct)


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
    holders: Mapping[str, Measure], own: Measure, labels: bool, fdr: float | None, seed: int
) -> dict[str, RecordScores]:
    found: dict[str, RecordScores] = {}
    trusted = Own(own)
    with progress_bar("records") as bar:
        task = bar.add_task("holders", total=len(holders))
        for name, measure in holders.items():
            found[name] = value_records(
                measure, trusted, labels=labels, seed=seed, name=name, **given(fdr=fdr)
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


def _show_records(result: RecordScores) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    part = result.screening
    table.add_column("record", justify="right")
    table.add_column("score", justify="right")
    if part is not None:
        for title in ("fault", "seems to be", "columns", "copy of"):
            table.add_column(title)
    table.add_column("flagged")
    for place in result.worst[:10].tolist():
        row = [str(place), f"{result.scores[place]:.2f}"]
        if part is not None:
            kind, copied = str(part.kinds[place]), int(part.copy_of[place])
            like = "" if part.suggested is None else str(part.suggested[place])
            row += [
                kind,
                escape(like) if kind == "label" else "",
                escape(", ".join(map(str, part.columns[place]))) if kind == "features" else "",
                str(copied) if copied >= 0 else "",
            ]
        table.add_row(*row, "yes" if result.flagged[place] else "")
    OUT.print(table, highlight=False)
    rows = {"flagged": f"{int(result.flagged.sum())} of {len(result.scores)} records"}
    if part is not None:
        each = part.broken["all"]
        rows["broken"] = (
            f"about {each.value:.0f} of {len(result.scores)} ({each.low:.0f} to {each.high:.0f})"
        )
        rows["copies"] = f"{int(part.copies.sum())} records"
    show_rows(rows | {"rule": result.rule, "status": result.status, **bill_rows(result)})
