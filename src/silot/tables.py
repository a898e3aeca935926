"""Data files as they are: archives of arrays (.npz) and tables (csv, csv.gz, parquet)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .errors import FileError
from .files import DAMAGED_ARCHIVE

_TABLES = (".csv", ".csv.gz", ".parquet")
# Fields of a table that mean "missing".
_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")


def known_file(path: str | Path) -> tuple[Path, str]:
    """A file that is there and holds something, and its kind, which is its ending."""
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113 - unlike Path, no error for an overlong name
        raise FileError(
            f"{file} does not exist or is no file. Check the path.", code="file-missing"
        )
    kind = next((end for end in (".npz", *_TABLES) if file.name.lower().endswith(end)), None)
    if kind is None:
        raise FileError(
            f"{file.name} is of no kind silot reads. Give .npz, .csv, .csv.gz or .parquet.",
            code="file-kind",
        )
    if file.stat().st_size == 0:
        raise FileError(f"{file.name} is empty (0 bytes).", code="file-empty")
    return file, kind


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an archive that has records ``X``."""
    try:
        # Opened here, for numpy leaves a file open that turns out to be no archive.
        with file.open("rb") as handle:
            archive = np.load(handle, allow_pickle=False)
            # A single array saved under this name is no archive: it has no X.
            arrays = dict(archive.items()) if isinstance(archive, np.lib.npyio.NpzFile) else {}
    except DAMAGED_ARCHIVE as error:
        raise FileError(
            f"{file.name} cannot be read as .npz ({type(error).__name__}). Write it with "
            "numpy.savez(path, X=..., y=..., w=...), without object arrays.",
            code="file-unreadable",
        ) from None
    if "X" not in arrays:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise FileError(
            f"{file.name} holds {found}; an array named X is needed (and y, w if any).",
            code="file-columns",
        )
    return arrays


def read_table(file: Path, kind: str, *, as_text: bool = False) -> pl.DataFrame:
    """A table; ``as_text``: fields of a csv as they are written, for a text may be "NA" or "7"."""
    try:
        if kind == ".parquet":
            return pl.read_parquet(file, glob=False)
        # Types are inferred from every row, not from the first hundred.
        found = pl.read_csv(
            file,
            infer_schema=not as_text,
            infer_schema_length=None,
            null_values=None if as_text else list(_MISSING),
            glob=False,
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileError(
            f"{file.name} cannot be read as {kind} ({type(error).__name__}). It needs a header "
            "line and no line with more fields than that.",
            code="file-unreadable",
        ) from None
    doubled = [name for name in found.columns if re.search(r"_duplicated_\d+$", name)]
    if doubled:
        raise FileError(
            f"{file.name} has more than one column {doubled[0].rsplit('_duplicated_')[0]!r}. "
            "Rename them.",
            code="file-columns",
        )
    return found


def is_number(column: pl.Series) -> bool:
    """Whether a column is of numbers."""
    # A column of missing values only has no type of its own; its NaN are reported as such.
    kind = column.dtype
    return kind.is_numeric() or kind == pl.Boolean or column.null_count() == len(column)


def type_name(column: pl.Series) -> str:
    """Type of a column, without what stands in brackets: categories are values of the data."""
    return str(column.dtype).split("(")[0]


def numbers(column: pl.Series) -> npt.NDArray[np.float64]:
    """A column of numbers; missing fields are NaN."""
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
