"""``silot records``, and what ``silot value --records`` shares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, cast

import typer
from rich.table import Table

from ..api.records import value_records
from ..data.files import write_whole
from ..data.loading import load_identifiers, load_images
from ..data.measure import Measure
from ..distances.worth.result import Contributions
from ..errors import InputError
from ..federation.party import Own
from ..records.counts import BrokenCounts
from ..records.gradients import RecordGradients
from ..records.result import Contents, RecordScores, records_csv
from ..records.validation import RecordScreening, check_enough, fitted
from ..render.words import printable
from .console import OUT, progress_bar, save_transcript, say_where, show, steps, write_report
from .generate import Flags, taking
from .options import (
    NamedTables,
    Outputs,
    Release,
    given,
)
from .sites import Where, names_of
from .suspects import count_suspects


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


@dataclass(frozen=True, kw_only=True)
class Listing(Flags):
    """Which records are flagged, and where they are listed and shown."""

    fdr: FdrOption = None
    csv: CsvOption = None
    image_shape: ShapeOption = None

    def check(self) -> None:
        """Raise where a list of records has an ending that promises something else."""
        if self.csv is not None and self.csv.suffix.lower() != ".csv":
            raise InputError(
                f"{self.csv.name} is no name for a list of records. Give one that ends in .csv.",
                code="file-kind",
            )


@dataclass(frozen=True, kw_only=True)
class RecordOutputs(Outputs):
    """Where a result goes whose report shows what was told alone."""

    report: ReportOption = None


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("records")(taking([RecordGradients])(records_command))


def records_command(
    holder: Annotated[Path, typer.Argument(help="The holder whose records are scored.")],
    *,
    validation: Annotated[Path, typer.Option(help="Data that are trusted.")],
    where: Where,
    tables: NamedTables,
    method: Annotated[
        RecordMethod, typer.Option("--method", "-m", help="How records are scored.")
    ] = RecordMethod.screening,
    release: Release,
    listing: Listing,
    outputs: RecordOutputs,
    **options: Any,
) -> None:
    """How suspect each record of a holder is, compared with validation data."""
    listing.check()
    private_counts = method is RecordMethod.private
    where.refuse(csv=listing.csv, image_shape=listing.image_shape)
    if private_counts:
        where.refuse(report=outputs.report)
    options |= given(fdr=listing.fdr)
    _check_options(method, options)
    loaded, own = where.load(tables, [holder], validation)
    (name,) = names_of(loaded)
    trusted = cast("Measure", own)
    contents, images = None, {}
    if isinstance(loaded, dict):
        identifiers = _identifiers(holder, tables.identifiers)
        contents = Contents(records=loaded[name], validation=trusted, identifiers=identifiers)
        if outputs.report is not None:
            images = load_pictures({name: holder}, listing.image_shape)
    private = release.read(tables)
    if private_counts:
        counted = count_suspects(loaded, trusted, labels=tables.labels, **private, **options)
        save_transcript(counted, outputs.transcript)
        # The coordinator's records stay with it: the nearest good ones are public.
        theirs = None if contents is None else replace(contents, validation=private["public"])
        _show_counts(counted, theirs, images, listing, outputs)
        return
    if private:
        raise InputError(
            f"{', '.join(sorted(private))}: options of method 'private'. Give --method private.",
            code="option-unknown",
        )
    with steps("records") as progress:
        result = value_records(
            loaded[name] if isinstance(loaded, dict) else loaded,
            trusted,
            labels=tables.labels,
            method=method.value,
            name=name,
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    beside = {} if contents is None else {name: contents}
    write_outputs(listing.csv, outputs.report, None, {name: result}, beside, images)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result, contents=contents)
    say_where(list=listing.csv, report=outputs.report)


def _show_counts(
    counted: BrokenCounts,
    contents: Contents | None,
    images: Mapping[str, Any],
    listing: Listing,
    outputs: Outputs,
) -> None:
    """Show what the coordinator is told, and write what the holder alone sees of its records."""
    name = next(iter(counted.holders))
    if contents is not None and (listing.csv is not None or outputs.report is not None):
        scores = {name: counted.screen(contents.records, name=name)}
        write_outputs(listing.csv, outputs.report, None, scores, {name: contents}, images)
    if outputs.json:
        typer.echo(counted.to_json())
        return
    show(counted)
    alone = {"list": listing.csv, "report": outputs.report}
    say_where(**{f"{what} for {name} alone": path for what, path in alone.items()})


def _check_options(method: RecordMethod, options: Mapping[str, object]) -> None:
    other = ("fdr",) if method is RecordMethod.published else ("support", "t")
    odd = [name for name in other if name in options]
    if odd:
        raise InputError(f"--method {method} has no option --{odd[0]}.", code="option-unknown")


def _identifiers(path: Path, column: str | None) -> list[str] | None:
    return None if column is None else load_identifiers(path, column)


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
        **options: Any,
    ) -> Self:
        """Check options and fit models, before any holder is asked anything."""
        identifiers = {name: _identifiers(file, id_column) for name, file in files.items()}
        trusted, checked = Own(validation), RecordScreening(**options)
        models, _, _ = fitted(trusted, labels=checked.labels, seed=checked.seed)
        check_enough(models, checked.fdr)
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
