"""``silot records``, and what ``silot value --records`` shares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich.table import Table

from ..api.records import value_records
from ..data.files import write_whole
from ..data.loading import load_identifiers, load_images
from ..data.measure import Measure
from ..errors import InputError
from ..federation.party import Own
from ..records.contents import Contents, records_csv
from ..records.result import RecordScores
from ..records.validation import check_enough, fitted, records
from ..render.words import printable
from ..value.result import Contributions
from .console import OUT, progress_bar, save_transcript, say_where, show, steps, write_report
from .generate import taking
from .options import (
    JsonOption,
    NamedTables,
    Release,
    SeedOption,
    SupportOption,
    TranscriptOption,
    check_outputs,
    given,
)
from .suspects import count_suspects, holders_own


class RecordMethod(StrEnum):
    """How records are scored."""

    screening = "screening"
    published = "published"
    private = "private"


FdrOption = Annotated[
    float | None,
    typer.Option(
        "--fdr", help="Share of the flagged records that may be sound. Default: 0.1; 0: no flags."
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="List flagged records and copies in this file, with values that stand there."
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option(help="Write an HTML report of what was told to this file.")
]
ShapeOption = Annotated[
    str | None,
    typer.Option(help="Shape of one record as an image, such as 28x28 or 32x32x3, for the report."),
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("records")(taking()(records_command))


def records_command(
    holder: Annotated[Path, typer.Argument(help="The holder whose records are scored.")],
    *,
    validation: Annotated[Path, typer.Option(help="Data that are trusted.")],
    tables: NamedTables,
    fdr: FdrOption = None,
    method: Annotated[
        RecordMethod, typer.Option("--method", "-m", help="How records are scored.")
    ] = RecordMethod.screening,
    support: SupportOption = None,
    t: Annotated[
        float | None,
        typer.Option("--t", help="For published: interpolation parameter, between 0 and 1."),
    ] = None,
    release: Release,
    csv: CsvOption = None,
    report: ReportOption = None,
    image_shape: ShapeOption = None,
    seed: SeedOption = 0,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """How suspect each record of a holder is, compared with validation data."""
    check_outputs(report, transcript, csv, inputs=[holder, validation, release.public])
    check_list(csv)
    _check_options(method, fdr=fdr, support=support, t=t)
    labels, loaded = tables.labels, tables.load([holder, validation])
    name, other = loaded
    contents = Contents(
        records=loaded[name],
        validation=loaded[other],
        identifiers=_identifiers(holder, tables.identifiers),
    )
    images = load_pictures({name: holder}, image_shape) if report is not None else {}
    private = release.read(tables)
    if method is RecordMethod.private:
        counted = count_suspects(
            loaded, name, other, labels=labels, fdr=fdr, seed=seed, options=private,
            unused={"support": support, "t": t},
        )  # fmt: skip
        save_transcript(counted, transcript)
        if csv is not None or report is not None:
            own = holders_own(counted, name, loaded[name])
            # The coordinator's records stay with it: the nearest good ones are public.
            theirs = replace(contents, validation=private["public"])
            write_outputs(csv, report, None, {name: own}, {name: theirs}, images)
        if json:
            typer.echo(counted.to_json())
            return
        show(counted)
        say_where(**{f"list for {name} alone": csv, f"report for {name} alone": report})
        return
    if private:
        raise InputError(
            f"{', '.join(sorted(private))}: options of method 'private'. Give --method private.",
            code="option-unknown",
        )
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
    write_outputs(csv, report, None, {name: result}, {name: contents}, images)
    if json:
        typer.echo(result.to_json())
        return
    show(result, contents=contents)
    say_where(list=csv, report=report)


def _check_options(method: RecordMethod, **options: object) -> None:
    other = ("fdr",) if method is RecordMethod.published else ("support", "t")
    odd = [name for name in other if options[name] is not None]
    if odd:
        raise InputError(f"--method {method} has no option --{odd[0]}.", code="option-unknown")


def _identifiers(path: Path, column: str | None) -> list[str] | None:
    return None if column is None else load_identifiers(path, column)


def check_list(csv: Path | None) -> None:
    """Raise where a list of records has an ending that promises something else."""
    if csv is not None and csv.suffix.lower() != ".csv":
        raise InputError(
            f"{csv.name} is no name for a list of records. Give one that ends in .csv.",
            code="file-kind",
        )


@dataclass(frozen=True)
class Trial:
    """How the records of several holders are scored, one after the other."""

    trusted: Own
    validation: Measure
    identifiers: Mapping[str, list[str] | None] = field(repr=False)
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        validation: Measure,
        files: Mapping[str, Path],
        id_column: str | None,
        *,
        labels: bool,
        fdr: float | None,
        seed: int,
    ) -> Self:
        """Check options and fit models, before any holder is asked anything."""
        options = {"labels": labels, "seed": seed, **given(fdr=fdr)}
        identifiers = {name: _identifiers(file, id_column) for name, file in files.items()}
        trusted = Own(validation)
        level = records("holder", own=trusted, **options).parameters["fdr"]
        assert isinstance(level, float)
        check_enough(fitted(trusted, labels=labels, seed=seed)[0], level)
        return cls(trusted, validation, identifiers, options)

    def scores(self, holders: Mapping[str, Measure]) -> dict[str, RecordScores]:
        """Scores of the records of each holder."""
        made: dict[str, RecordScores] = {}
        with progress_bar("records") as bar:
            task = bar.add_task("holders", total=len(holders))
            for name, measure in holders.items():
                found = value_records(measure, self.trusted, name=name, **self.options)
                # Messages of a hundred runs, each with the validation records, are not kept.
                made[name] = replace(found, transcript=None)
                bar.advance(task)
        return made

    def contents(self, name: str, measure: Measure) -> Contents:
        """What stands in the records of a holder."""
        return Contents(
            records=measure, validation=self.validation, identifiers=self.identifiers[name]
        )


def load_pictures(files: Mapping[str, Path], shape: str | None) -> dict[str, Any]:
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


def write_outputs(
    csv: Path | None,
    report: Path | None,
    worth: Contributions | None,
    scored: Mapping[str, RecordScores],
    contents: Mapping[str, Contents],
    images: Mapping[str, Any],
) -> None:
    """Write the list of records and the report, where they were asked for."""
    if csv is not None:
        text = records_csv(scored, contents, holders=worth is not None)
        # A name that is no text can be a file's.
        write_whole(csv, text.encode(errors="replace"), private=True)
    pictures = {name: pixels for name, pixels in images.items() if name in scored}
    beside = {"images": pictures or None, "contents": contents or None}
    if worth is None:
        write_report(report, scored, **beside)
    else:
        write_report(report, worth, records=scored or None, **beside)


def show_summaries(scored: Mapping[str, RecordScores]) -> None:
    """Print one line about the records of each holder."""
    if not scored:
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(max_width=24, no_wrap=True)
    table.add_column()
    for name, item in scored.items():
        table.add_row(printable(name), item.summary)
    OUT.print(table, highlight=False, markup=False)
