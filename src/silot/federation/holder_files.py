"""Read the files of holders: tables, by names of columns or by a schema, and arrays."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..data.container import recognise, stem_of
from ..data.loading import column_names, load_measure
from ..data.matching import match_columns
from ..data.measure import Measure
from ..data.names import canonical
from ..data.reading import Schema, read_by_schema
from ..data.site import Site
from ..errors import FileError, InputError
from .parties import RESERVED

Shares = Callable[[float], None]
"""Receives the share of a file that was read."""
FLAGS = {
    "schema": "Schema by which tables are read: columns, units, labels.",
    "labels": "Use labels too, not the features alone.",
    "public": "For sketch and private: public records that belong to no holder and are distributed "
    "as the holders' records.",
}
"""What flags and fields of forms say of files, by their names."""
_TEST = ".test."


def _unwatched(_: Path) -> AbstractContextManager[Shares]:
    return nullcontext(lambda _: None)


@dataclass(frozen=True, kw_only=True)
class HolderFiles:
    """How files of holders are read.

    Attributes
    ----------
    label_column, weight_column, id_column, columns
        Columns of tables: of labels, weights and identifiers, and of features, comma separated.
    schema
        By which tables are read, in place of column names.
    site
        Site files that say how a site writes its table: ``FILE``, or ``NAME=FILE`` for one site.
    labels
        Whether records must have labels.
    notify
        Receives what a person should know of a table.
    watch
        Shows the progress of reading a file.
    """

    label_column: str | None = None
    weight_column: str | None = None
    id_column: str | None = None
    columns: str | None = None
    schema: Path | None = None
    site: Sequence[str] = ()
    labels: bool = False
    notify: Callable[[str], None] = lambda _: None
    watch: Callable[[Path], AbstractContextManager[Shares]] = _unwatched

    def check_sites(self, files: Iterable[Path]) -> None:
        """Raise where a site file is for a table that is not among the files.

        It would change nothing, and the result would look proven.
        """
        files = list(files)
        # Of a sheet, the workbook is there.
        tables = {
            stem_of(path)
            for path in files
            if path.exists() or Path(str(path).rpartition("#")[0]).is_file()
        }
        for text in self.site:
            name = canonical(text.rpartition("=")[0])
            if name and name not in tables:
                absent = [path for path in files if path.suffix and stem_of(path) == name]
                cause = f": {absent[0]} does not exist" if absent else ""
                raise InputError(
                    f"--site {text[:80]}: no table here is called {name[:40]!r}{cause}. NAME is "
                    "the name of a table up to its first dot; FILE without NAME is for all tables.",
                    code="schema-options",
                )

    def load_schema(self) -> Schema | None:
        """Load the schema that tables are read by, if one is named."""
        return self._schema

    @cached_property
    def _schema(self) -> Schema | None:
        if self.schema is None:
            return None
        if any((self.label_column, self.weight_column, self.columns)):
            raise InputError(
                "a schema names features, labels and weights. Leave the column options out.",
                code="schema-options",
            )
        return Schema.load(self.schema)

    @cached_property
    def identifiers(self) -> str | None:
        """Column of what holders call their records."""
        return None if self.id_column is None else canonical(self.id_column)

    @cached_property
    def _sites(self) -> dict[str, Site]:
        """By the site's name how it writes its columns; ``""`` stands for all others."""
        parted = [text.rpartition("=") for text in self.site]
        return {canonical(name): Site.load(path) for name, _, path in parted}

    def _site_of(self, path: Path, *, is_public: bool = False) -> Site | None:
        return self._sites.get(stem_of(path), None if is_public else self._sites.get(""))

    def by_schema(self, path: Path, schema: Schema, *, complete: bool = True) -> Measure:
        """Read records of one file by a schema; public ones are not ``complete``."""
        if not _is_table(path):
            return load_measure(path, schema=schema)
        # Public records are written as the schema says, unless somebody names them.
        site = self._site_of(path, is_public=not complete)
        with self.watch(path) as progress:
            records = read_by_schema(path, schema, site, complete=complete, tell=progress)
        for problem in records.fit.problems:
            self.notify(f"{path.name}: {problem.sentence}")
        return records.measure

    def measure(self, path: Path, *, weights: bool = True) -> Measure:
        """Load records of one file; public ones have no ``weights``."""
        if self._schema is not None:
            return self.by_schema(path, self._schema, complete=weights)
        column = self.identifiers
        is_identified = bool(column) and column in column_names(path)
        return self._load(path, weights=weights, is_identified=is_identified)

    def load(self, paths: Sequence[Path], missing_label: str | None = None) -> dict[str, Measure]:
        """Load measures by the names of files, or by paths where two have one name.

        Columns of tables are matched by name, in the order of the first by that name. The column
        of identifiers is not a feature of the tables that have it.
        """
        names = _names(paths)
        if self._schema is not None:
            return self._all_by_schema(dict(zip(names, paths, strict=True)), self._schema)
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

    def load_one(self, path: Path) -> Measure:
        """Load a single measure by the rules of ``load``."""
        return next(iter(self.load([path]).values()))

    def _all_by_schema(self, paths: Mapping[str, Path], schema: Schema) -> dict[str, Measure]:
        if self.labels and schema.label is None:
            raise InputError(
                "the schema names no column of labels. Add label: to it.", code="labels-absent"
            )
        if schema.warning:
            self.notify(f"{schema.name or 'schema'}: {schema.warning}")
        return match_columns({name: self.by_schema(path, schema) for name, path in paths.items()})

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
            columns=self._features(path) if table else None,
            missing_label=missing_label,
            site=self._site_of(path) if table else None,
        )

    def _features(self, path: Path) -> list[str] | None:
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


def find_evaluation(
    paths: Sequence[Path], folder: Path | None
) -> tuple[list[Path], dict[str, Path]]:
    """Return files of holders, and of their evaluation records by the name of the holder.

    Those are files of the same names in a folder, or ``NAME.test.npz`` beside ``NAME.npz``.
    """
    holders = [path for path in paths if _TEST not in path.name]
    stems = list(map(stem_of, holders))
    evaluation: dict[str, Path] = {}
    for stem, path in zip(stems, holders, strict=True):
        begin, dot, end = path.name.partition(".")
        beside = path.with_name(f"{begin}.test{dot}{end}") if folder is None else folder / path.name
        if beside.is_file():
            evaluation[stem if stems.count(stem) == 1 else str(path)] = beside
    if folder is not None and not evaluation:
        raise FileError(
            f"{folder} has no file with the name of a holder's file. Give evaluation records "
            "the names of the holders' files.",
            code="file-missing",
        )
    return holders, evaluation


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
