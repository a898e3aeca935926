"""``silot records``, and what ``silot value --records`` shares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from rich.table import Table

from ..api.records import value_records
from ..api.suspects import count_broken
from ..data.files import write_whole
from ..data.loading import load_identifiers, load_images
from ..data.measure import Measure
from ..distances.worth.result import Contributions
from ..errors import InputError
from ..federation.party import Own
from ..records.counts import BrokenCounts
from ..records.gradients import RecordGradients
from ..records.result import Contents, RecordScores, csv_text, sheet_rows, workbook
from ..records.validation import RecordScreening, check_enough, fitted
from ..render.words import printable
from .console import OUT, progress_bar, steps, write_report
from .generate import Flags, argument, command, flag
from .options import NamedTables, Outputs, Release, drop_none
from .sites import Where, names_of

if TYPE_CHECKING:
    from ..api.connect import Connection

Method = Literal["screening", "published", "private"]


class Listing(Flags):
    """Which records are flagged, and where they are listed and shown."""

    fdr: float | None = flag(
        "Share of the flagged records that may be clean. Default: 0.1; 0: no flags."
    )
    sheet: Path | None = flag(
        "List the most suspect records in this file (.csv or .xlsx), with values that stand there."
    )
    image_shape: str | None = flag(
        "Shape of one record as an image, such as 28x28 or 32x32x3, for the report."
    )

    def check(self) -> None:
        """Raise where a list of records has an ending that promises something else."""
        if self.sheet is not None and self.sheet.suffix.lower() not in (".csv", ".xlsx"):
            raise InputError(
                f"{self.sheet.name} is no name for a list of records. Give one that ends in .csv "
                "or .xlsx.",
                code="file-kind",
            )


class RecordOutputs(Outputs):
    """Where a result goes whose report shows what was disclosed, and nothing else."""

    report: Path | None = flag("Write an HTML report of what was told to this file.")


@command("records", [RecordGradients])
def records_command(
    holder: Path = argument("The holder whose records are scored."),
    *,
    validation: Path = flag("Data that are trusted.", default=...),
    where: Where,
    tables: NamedTables,
    method: Method = flag("How records are scored.", "-m", default="screening"),
    release: Release,
    listing: Listing,
    outputs: RecordOutputs,
    **options: Any,
) -> None:
    """How suspect each record of a holder is, compared with validation data."""
    listing.check()
    where.refuse(sheet=listing.sheet, image_shape=listing.image_shape)
    if method == "private":
        where.refuse(report=outputs.report)
    options |= drop_none(fdr=listing.fdr)
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
    if method == "private":
        counted = _count_broken(loaded, trusted, labels=tables.labels, **private, **options)
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
            method=method,
            name=name,
            progress=progress,
            **options,
        )
    outputs.save_messages(result)
    beside = {} if contents is None else {name: contents}
    write_outputs(listing.sheet, outputs.report, None, {name: result}, beside, images)
    files = {"list": listing.sheet, "report": outputs.report}
    outputs.print(result, files, contents=contents)


def _count_broken(
    holders: Mapping[str, Measure] | Connection, validation: Measure, **options: Any
) -> BrokenCounts:
    """Count the faulty records of one holder, with noise."""
    if "public" not in options:
        raise InputError(
            "method 'private' needs public records that models are fitted on: give --public.",
            code="public-absent",
        )
    if not isinstance(holders, Mapping) and "ledgers" not in options:
        # A resumed run repeats its questions, with the noise that was drawn for this run.
        budget = {"budget_epsilon": options.get("privacy_epsilon", 1.0)}
        options = {"ledgers": holders.folder, **budget, **options}
    with steps("suspects") as progress:
        return count_broken(holders, validation, progress=progress, **options)


def _show_counts(
    counted: BrokenCounts,
    contents: Contents | None,
    images: Mapping[str, Any],
    listing: Listing,
    outputs: Outputs,
) -> None:
    """Show what the coordinator receives, and write what the holder alone sees of its records."""
    outputs.save_messages(counted)
    name = next(iter(counted.holders))
    if contents is not None and (listing.sheet is not None or outputs.report is not None):
        scores = {name: counted.screen(contents.records, name=name)}
        write_outputs(listing.sheet, outputs.report, None, scores, {name: contents}, images)
    files = {"list": listing.sheet, "report": outputs.report}
    outputs.print(counted, {f"{what} for {name} alone": path for what, path in files.items()})


def _check_options(method: Method, options: Mapping[str, object]) -> None:
    others = ("fdr",) if method == "published" else ("support", "t")
    odd = [name for name in others if name in options]
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
        """Score the records of each holder."""
        scored: dict[str, RecordScores] = {}
        with progress_bar("records") as bar:
            task = bar.add_task("holders", total=len(holders))
            for name, measure in holders.items():
                scores = value_records(measure, self.trusted, name=name, **self.options)
                # Messages of a hundred runs, each with the validation records, are not kept.
                scored[name] = replace(scores, transcript=None)
                bar.advance(task)
        return scored

    def contents(self, name: str, measure: Measure) -> Contents:
        """Return the values in the records of a holder."""
        return Contents(
            records=measure, validation=self.validation, identifiers=self.identifiers[name]
        )


def load_pictures(files: Mapping[str, Path], shape: str | None) -> dict[str, Any]:
    """Load records as pictures, of the holders that have them."""
    size = None
    if shape is not None:
        parts = shape.lower().split("x")
        if not all(part.isdecimal() for part in parts):
            raise InputError(
                f"--image-shape is {shape!r}; give it as 28x28 or 32x32x3.", code="report-images"
            )
        size = tuple(int(part) for part in parts)
    pictures = {name: load_images(file, size) for name, file in files.items()}
    return {name: images for name, images in pictures.items() if images is not None}


def write_outputs(
    sheet: Path | None,
    report: Path | None,
    worth: Contributions | None,
    scored: Mapping[str, RecordScores],
    contents: Mapping[str, Contents],
    images: Mapping[str, Any],
) -> None:
    """Write the list of records and the report where paths name their files."""
    if sheet is not None:
        rows = sheet_rows(scored, contents, holders=worth is not None)
        is_csv = sheet.suffix.lower() == ".csv"
        # A name that is no text can be a file's.
        data = csv_text(*rows).encode(errors="replace") if is_csv else workbook(*rows)
        write_whole(sheet, data, private=True)
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
