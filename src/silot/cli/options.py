"""Declare flags that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.measure import Covariance
from ..federation.holder_files import FLAGS, HolderFiles
from ..federation.result import RunResult
from .console import print_json, reading, say_where, show, tell, write_report
from .generate import Flags, flag

HoldersArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Tables (.csv, .xlsx, ...) or .npz files, one for each holder; with --sites "
        "names of sites."
    ),
]
LabelColumnOption = Annotated[
    str | None, typer.Option(help="Column of a table that holds the labels.")
]
WeightColumnOption = Annotated[
    str | None, typer.Option(help="Column of a table that holds the weights.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Feature columns of a table, comma separated; quote names with commas. Default: all."
    ),
]
PortOption = Annotated[
    int, typer.Option(help="Port on 127.0.0.1; 0 chooses a free one.", min=0, max=65535)
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ReportOption = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]


def drop_none(**options: Any) -> dict[str, Any]:
    """Return the options that have a value; others keep their defaults."""
    return {name: value for name, value in options.items() if value is not None}


class Columns(Flags):
    """What the columns of tables are."""

    label_column: LabelColumnOption = None
    weight_column: WeightColumnOption = None
    columns: ColumnsOption = None
    schema: Path | None = flag(FLAGS["schema"])
    site: list[str] | None = flag(
        "Site file that says how a site writes its table: FILE, or NAME=FILE for one site."
    )

    def note_files(self, files: Iterable[Path]) -> None:
        self.files.check_sites(files)

    @property
    def files(self) -> HolderFiles:
        """How files are read by these flags, with a progress bar and notes on stderr."""
        names = {item.name for item in fields(HolderFiles)}
        how = {name: value for name, value in self.values().items() if name in names}
        return HolderFiles(**how, notify=tell, watch=reading)


class Tables(Columns):
    """How the files of holders are read."""

    labels: bool = flag(FLAGS["labels"], default=False)


class LabelledTables(Tables):
    """How the files of holders are read, whose labels are compared as vectors."""

    covariance: Covariance = flag("Covariance block of the label vectors.", default="diagonal")

    @property
    def comparison(self) -> dict[str, Any]:
        """Options of a comparison that say what of labels is compared."""
        return {"labels": self.labels, "covariance": self.covariance}


class NamedTables(Tables):
    """How the files of holders are read, whose records have identifiers."""

    id_column: str | None = flag(
        "Column of a table with identifiers of records, which is not a feature."
    )


class Public(Flags):
    """Public records that releases are made with."""

    public: Path | None = flag(FLAGS["public"])


class Charged(Flags):
    """Where releases are charged."""

    ledgers: Path | None = flag(
        "Folder of the holders' ledgers, which releases (sketch, private) are charged to."
    )
    budget_epsilon: float | None = flag(
        "With --ledgers: epsilon of all releases in a ledger together. Default: 1."
    )


class Noise(Flags):
    """What releases spend."""

    privacy_epsilon: float | None = flag(
        "Privacy budget of each holder. Default: 1. For secure: budget of the noise.", "--epsilon"
    )
    privacy_delta: float | None = flag(
        "For releases: probability that the budget is exceeded. Default: 1e-5."
    )
    mass_limit: float | None = flag("For weighted records: the largest weight, which is public.")


class Spending(Charged, Public):
    """What releases are made with, and where they are charged."""

    def read(self, tables: Tables) -> dict[str, Any]:
        """Return the options that have a value, the public records loaded."""
        public = None if self.public is None else tables.files.measure(self.public, weights=False)
        return self.values(public=public)


class Release(Noise, Spending):
    """Differentially private releases."""


Files = Mapping[str, Path | None]
_NONE: dict[str, Any] = {}


class Results(Flags):
    """Where a result goes beside the terminal."""

    report: ReportOption = None
    json: JsonOption = False

    def finish(
        self, result: Any, *, first: Files = _NONE, then: Files = _NONE,
        body: Mapping[str, Any] | None = None, page: Mapping[str, Any] = _NONE, **shown: Any,
    ) -> None:  # fmt: skip
        """Write the report of a result, and print it as JSON or in words.

        Other files that were written are printed ``first``, before the report's place, or ``then``.
        ``body`` is the JSON document where it is not the result's own. The ``page`` and the
        terminal show things beside the result.
        """
        write_report(self.report, result, **page)
        self.print(result, {**first, "report": self.report, **then}, body, **shown)

    def print(
        self, result: Any, files: Files = _NONE, body: Mapping[str, Any] | None = None, **shown: Any
    ) -> None:
        """Print a result as JSON, or in words with the places of its files."""
        if self.json:
            typer.echo(result.to_json()) if body is None else print_json(body)
            return
        show(result, **shown)
        say_where(**files)


class Outputs(Results):
    """Where a result of a run and its messages go beside the terminal."""

    transcript: Path | None = flag("Save all messages of the run to this file.")

    def save_messages(self, result: RunResult) -> None:
        """Save the messages of a run where a path names the file."""
        if self.transcript is not None and result.transcript is not None:
            result.transcript.save(self.transcript)

    def finish(self, result: Any, **how: Any) -> None:
        """Save the messages of the run first."""
        self.save_messages(result)
        super().finish(result, **how)
