"""``silot value``."""

from __future__ import annotations

import json as jsonlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..api.value import value_holders
from ..distances.pairwise import comparing
from ..errors import InputError
from ..records.contents import Contents
from ..records.result import RecordScores
from ..render.words import format_bytes
from .console import (
    OUT,
    save_transcript,
    say_where,
    show,
    steps,
)
from .generate import taking
from .options import (
    AccuracyOption,
    HoldersArgument,
    JsonOption,
    NamedTables,
    Release,
    RoundsOption,
    SecureScaleOption,
    SeedOption,
    SupportOption,
    TranscriptOption,
    check_outputs,
    given,
)
from .records import (
    CsvOption,
    FdrOption,
    ReportOption,
    ShapeOption,
    Trial,
    check_list,
    load_pictures,
    show_summaries,
    write_outputs,
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


MetricOption = Annotated[LabelMetric, typer.Option(help="How labels are compared.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("value")(taking([], choose="target", among=comparing())(value_command))


def value_command(
    holders: HoldersArgument,
    *,
    validation: Annotated[
        Path | None, typer.Option(help="Data of the law that matters. Default: the barycenter.")
    ] = None,
    method: str,
    tables: NamedTables,
    label_metric: MetricOption = LabelMetric.classes,
    class_tolerance: Annotated[
        float,
        typer.Option(min=0, help="Standard errors of class proportions that are not charged."),
    ] = 3.0,
    support: SupportOption = None,
    rounds: RoundsOption = None,
    release: Release,
    quorum: Annotated[
        int | None, typer.Option(min=1, help="Fewest holders that must answer. Default: all.")
    ] = None,
    holder_map: Annotated[
        MapMethod | None,
        typer.Option(
            "--map", help="Distances between holders too, by this; direct discloses records."
        ),
    ] = None,
    shapley: Annotated[
        bool,
        typer.Option(
            "--shapley", help="Shapley shares too: they disclose records, but with -m sketch."
        ),
    ] = False,
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
    csv: CsvOption = None,
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
    paths = [*holders, *([validation] if validation is not None else [])]
    check_outputs(report, transcript, csv, inputs=[*paths, release.public])
    check_list(csv)
    if records and validation is None:
        raise InputError(
            "record scores need data that are trusted: give --validation.", code="option-records"
        )
    if not records and (csv is not None or fdr is not None):
        what = "--csv lists the flagged records" if csv is not None else "--fdr flags records"
        raise InputError(f"{what} of holders: give --records too.", code="option-records")
    if records and transcript is not None:
        raise InputError(
            "--transcript keeps the messages of one run, and --records makes one a holder: leave "
            "one of them out.",
            code="option-transcript",
        )
    if transcript is not None and method != "sketch" and _apart(holder_map):
        raise InputError(
            f"--transcript keeps the messages of one run, and --map {holder_map} makes others: "
            "leave one of them out.",
            code="option-transcript",
        )
    labels, loaded = tables.labels, tables.load(paths)
    files = dict(zip(loaded, paths, strict=True))
    own = loaded.pop(list(loaded)[-1]) if validation is not None else None
    of_holders = {name: files[name] for name in loaded}
    images = load_pictures(of_holders, image_shape) if records else {}
    trial = None
    if records and own is not None:
        trial = Trial.of(own, of_holders, tables.identifiers, labels=labels, fdr=fdr, seed=seed)
    options = given(support=support, rounds=rounds, quorum=quorum, why=why or None)
    options |= given(shapley=shapley or None)
    sketched = release.read(tables)
    chosen = None if accuracy is None else accuracy.value
    # Never for a report's sake: what holders are asked does not depend on who shows it.
    of_map = given(scale=scale, accuracy=chosen)
    if method == "sketch":
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
            method=method,
            map=None if holder_map is None else holder_map.value,
            map_options=of_map,
            seed=seed,
            progress=progress,
            **options,
        )
    save_transcript(result, transcript)
    scored: dict[str, RecordScores] = {}
    contents: dict[str, Contents] = {}
    if trial is not None:
        scored = trial.scores({name: loaded[name] for name in result.names})
        contents = {name: trial.contents(name, loaded[name]) for name in scored}
    write_outputs(csv, report, result, scored, contents, images)
    if json:
        found = result.to_dict()
        if records:
            found["records"] = [item.to_dict() for item in scored.values()]
        typer.echo(jsonlib.dumps(found, allow_nan=False))
        return
    show(result)
    show_summaries(scored)
    if scored:
        traffic = sum(item.bytes_sent + item.bytes_received for item in scored.values())
        OUT.print(
            f"scoring took {format_bytes(traffic)} more, and disclosed every record",
            highlight=False,
        )
    say_where(list=csv, report=report)


def _apart(holder_map: MapMethod | None) -> bool:
    """Whether a map is made by runs of its own."""
    return holder_map not in (None, MapMethod.direct)
