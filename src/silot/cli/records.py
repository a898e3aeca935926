"""``silot records``, and what ``silot value --records`` shares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ..api.records import count_broken, value_records
from ..data.files import open_whole
from ..data.loading import load_identifiers, load_images, read_shape
from ..data.measure import Measure
from ..data.sheets import csv_lines, write_workbook
from ..distances.worth.result import Contributions
from ..errors import InputError
from ..federation.party import Own
from ..records.counts import BrokenCounts
from ..records.gradients import RecordGradients
from ..records.result import Contents, RecordScores, sheet_rows
from ..records.validation import RecordScreening, check_enough, fitted
from ..render.words import printable
from .console import counting, show_rows, steps, write_report
from .generate import Flags, argument, command, flag
from .options import NamedTables, Outputs, Release, drop_none
from .sites import Where, names_of

if TYPE_CHECKING:
    from ..sites.run_connection import Connection

Method = Literal["screening", "published", "private"]


class Listing(Flags):
    """Which records are flagged, and where they are listed and shown."""

    fdr: float | None = flag(
        "Share of the flagged records that may be clean. Default: 0.1; 0: no flags."
    )
    sheet: Path | None = flag(
        "Write the most suspect records and typical values to this file (.csv or .xlsx).",
        endings=(".csv", ".xlsx"),
    )
    image_shape: str | None = flag(
        "Shape of one record as an image, such as 28x28 or 32x32x3, for the report."
    )


class RecordOutputs(Outputs):
    """Where a result goes whose report shows what was disclosed, and nothing else."""

    report: Path | None = flag("Write an HTML report to this file.")


@command(
    [RecordGradients],
    calls=(
        "silot records north.csv --validation mine.csv --sheet suspects.xlsx",
        "silot records north.csv --validation mine.csv --label-column state --labels",
    ),
)
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
    """Score how likely each record of a holder is faulty, compared with validation data."""
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
        identifiers = read_identifiers(holder, tables.files.identifiers)
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
    others = ("fdr",) if method == "published" else ("support", "rounds", "t")
    odd = [name for name in others if name in options]
    if odd:
        raise InputError(f"--method {method} has no option --{odd[0]}.", code="option-unknown")


def read_identifiers(path: Path, column: str | None) -> list[str] | None:
    """Return what a holder calls its records, where a flag names the column."""
    return None if column is None else load_identifiers(path, column)


def fit_models(validation: Measure, **options: Any) -> Own:
    """Check options of scores and fit their models, before any holder is asked anything."""
    trusted, checked = Own(validation), RecordScreening(**options)
    models, _, _ = fitted(trusted, labels=checked.labels, seed=checked.seed)
    check_enough(models, checked.fdr)
    return trusted


def score_holders(
    holders: Mapping[str, Measure], trusted: Own, **options: Any
) -> dict[str, RecordScores]:
    """Score the records of each holder, one holder after the other."""
    scored: dict[str, RecordScores] = {}
    with counting("records", "holders") as progress:
        for name, measure in holders.items():
            scores = value_records(measure, trusted, name=name, **options)
            # Messages of a hundred runs, each with the validation records, are not kept.
            scored[name] = replace(scores, transcript=None)
            progress(len(scored), len(holders))
    return scored


def load_pictures(files: Mapping[str, Path], shape: str | None) -> dict[str, Any]:
    """Load records as pictures, of the holders that have them."""
    size = None if shape is None else read_shape(shape)
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
        with open_whole(sheet, private=True) as file:
            if is_csv:
                # A name that is no text can be a file's.
                file.write("".join(csv_lines(*rows)).encode(errors="replace"))
            else:
                write_workbook(file, "records", *rows)
    pictures = {name: pixels for name, pixels in images.items() if name in scored}
    beside = {"images": pictures or None, "contents": contents or None}
    if worth is None:
        write_report(report, scored, **beside)
    else:
        write_report(report, worth, records=scored or None, **beside)


def show_summaries(scored: Mapping[str, RecordScores]) -> None:
    """Print one line about the records of each holder."""
    show_rows({printable(name, 24): item.summary for name, item in scored.items()})
