"""Declare flags that several commands share, and load the files of holders."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.container import recognise, stem_of
from ..data.loading import column_names, load_measure
from ..data.matching import match_columns
from ..data.measure import Covariance, Measure
from ..data.names import canonical
from ..data.reading import Schema, read_by_schema
from ..data.site import Site
from ..errors import InputError
from ..federation.parties import RESERVED
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


def read_shape(text: str) -> tuple[int, ...]:
    """Read a shape such as ``28x28`` or ``32x32x3``."""
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(
            f"the image shape is {text!r}; give height x width, such as 28x28 or 32x32x3.",
            code="option-image-shape",
        )
    return tuple(int(part) for part in parts)


class Columns(Flags):
    """What the columns of tables are."""

    label_column: LabelColumnOption = None
    weight_column: WeightColumnOption = None
    columns: ColumnsOption = None
    schema: Path | None = flag("Schema by which tables are read: columns, units, labels.")
    site: list[str] | None = flag(
        "Site file that says how a site writes its table: FILE, or NAME=FILE for one site."
    )

    def note_files(self, files: Iterable[Path]) -> None:
        # A site file that no table is read by changes nothing, and the result would look proven.
        # Of a sheet, the workbook is there.
        files = list(files)
        tables = {
            stem_of(path)
            for path in files
            if path.exists() or Path(str(path).rpartition("#")[0]).is_file()
        }
        for text in self.site or ():
            name = canonical(text.rpartition("=")[0])
            if name and name not in tables:
                absent = [path for path in files if path.suffix and stem_of(path) == name]
                cause = f": {absent[0]} does not exist" if absent else ""
                raise InputError(
                    f"--site {text[:80]}: no table here is called {name[:40]!r}{cause}. NAME is "
                    "the name of a table up to its first dot; FILE without NAME is for all tables.",
                    code="schema-options",
                )

    def contract(self) -> Schema | None:
        """Load the schema that tables are read by, if a flag names one."""
        if self.schema is None:
            return None
        if any((self.label_column, self.weight_column, self.columns)):
            raise InputError(
                "a schema names features, labels and weights. Leave the column options out.",
                code="schema-options",
            )
        return Schema.load(self.schema)

    def sites(self) -> dict[str, Site]:
        """Load by the site's name how it writes its columns; ``""`` stands for all others."""
        parted = [text.rpartition("=") for text in self.site or ()]
        return {canonical(name): Site.load(path) for name, _, path in parted}

    def site_of(self, path: Path, *, is_public: bool = False) -> Site | None:
        """Return how the site of a file writes it, if a flag says so."""
        sites = self.sites()
        return sites.get(stem_of(path), None if is_public else sites.get(""))

    def by_schema(self, path: Path, schema: Schema, *, complete: bool = True) -> Measure:
        """Read records of one file by a schema, and report its problems on stderr."""
        if not _is_table(path):
            return load_measure(path, schema=schema)
        # Public records are written as the schema says, unless somebody names them.
        site = self.site_of(path, is_public=not complete)
        with reading(path) as progress:
            records = read_by_schema(path, schema, site, complete=complete, tell=progress)
        for problem in records.fit.problems:
            tell(f"{path.name}: {problem.sentence}")
        return records.measure

    @property
    def identifiers(self) -> str | None:
        """Column of what holders call their records."""
        return None

    def chosen(self, path: Path) -> list[str] | None:
        """Return the columns of a table that are features; ``None`` for all."""
        if self.columns is None:
            return None
        plain = list(map(canonical, self.columns.split(",")))
        if set(plain) <= set(column_names(path)):
            return plain
        # Names with commas are quoted, as in the table.
        with suppress(csv.Error, StopIteration):
            return next(csv.reader([self.columns], skipinitialspace=True, strict=True)) or plain
        return plain

    def measure(self, path: Path, *, weights: bool = True) -> Measure:
        """Load records of one file; public ones have no ``weights``."""
        schema = self.contract()
        if schema is not None:
            return self.by_schema(path, schema, complete=weights)
        column = self.identifiers
        is_identified = bool(column) and column in column_names(path)
        return self._load(path, weights=weights, is_identified=is_identified)

    def _load(
        self, path: Path, *, labels: bool = True, weights: bool = True, is_identified: bool = True,
        missing_label: str | None = None,
    ) -> Measure:  # fmt: skip
        table = _is_table(path)
        return load_measure(
            path,
            label_column=self.label_column if table and labels else None,
            weight_column=self.weight_column if table and weights else None,
            id_column=self.identifiers if table and is_identified else None,
            columns=self.chosen(path) if table else None,
            missing_label=missing_label,
            site=self.site_of(path) if table else None,
        )


class Tables(Columns):
    """How the files of holders are read."""

    labels: bool = flag("Compare labelled records.", default=False)

    def load(self, paths: Sequence[Path], missing_label: str | None = None) -> dict[str, Measure]:
        """Load measures by the names of files, or by paths where two have one name.

        Columns of tables are matched by name, in the order of the first by that name. The column
        of identifiers is not a feature of the tables that have it.
        """
        names = _names(paths)
        if (schema := self.contract()) is not None:
            return self._all_by_schema(dict(zip(names, paths, strict=True)), schema)
        flags = (self.label_column, self.weight_column, self.identifiers, self.columns)
        if any(flags) and not any(map(_is_table, paths)):
            raise InputError(
                "column options are for tables; an .npz names its arrays X, y and w.",
                code="option-unknown",
            )
        unlabelled = set[Path]()
        if missing_label is not None and self.label_column is not None:
            unlabelled = _without(canonical(self.label_column), paths)
        # Where no table has it the name is wrong: whoever reads the first table says so.
        column = self.identifiers
        identified = {path for path in paths if column and column in column_names(path)} or paths
        loaded: dict[str, Measure] = {}
        for name, path in zip(names, paths, strict=True):
            loaded[name] = self._load(
                path,
                labels=path not in unlabelled,
                is_identified=path in identified,
                missing_label=missing_label,
            )
            if self.labels and not loaded[name].labelled:
                cure = "Save them as y."
                if _is_table(path):
                    cure = "Name the column with --label-column."
                raise InputError(f"{path.name} has no labels. {cure}", code="labels-absent")
        return match_columns(loaded)

    def _all_by_schema(self, paths: Mapping[str, Path], schema: Schema) -> dict[str, Measure]:
        if self.labels and schema.label is None:
            raise InputError(
                "the schema names no column of labels. Add label: to it.", code="labels-absent"
            )
        if schema.warning:
            tell(f"{schema.name or 'schema'}: {schema.warning}")
        return match_columns({name: self.by_schema(path, schema) for name, path in paths.items()})


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

    @property
    def identifiers(self) -> str | None:
        return None if self.id_column is None else canonical(self.id_column)


class Public(Flags):
    """Public records that releases are made with."""

    public: Path | None = flag(
        "For sketch and private: public records that belong to no holder and are distributed as "
        "the holders' records."
    )


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
        public = None if self.public is None else tables.measure(self.public, weights=False)
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


def _is_table(path: Path) -> bool:
    return recognise(path).is_table


def _names(paths: Sequence[Path]) -> list[str]:
    stems = list(map(stem_of, paths))
    names = [
        stem if stems.count(stem) == 1 and stem not in RESERVED else str(path)
        for stem, path in zip(stems, paths, strict=True)
    ]
    if len(set(names)) < len(names):
        raise InputError(
            "the same file is given twice. Give each holder once.", code="holder-names"
        )
    return names


def _without(label_column: str, paths: Sequence[Path]) -> set[Path]:
    """Return tables without the label column, where another has it."""
    tables = {path: names for path in paths if (names := column_names(path))}
    absent = {path for path, names in tables.items() if label_column not in names}
    return absent if len(absent) < len(tables) else set()
