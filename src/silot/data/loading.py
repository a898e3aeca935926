"""Measures from files of every kind."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileError, InputError
from .container import Source, recognise
from .files import write_whole
from .foreign import guard, parse_json, read_npz
from .matching import check_schemas
from .measure import Measure
from .names import canonical
from .reading import Schema, read_by_schema
from .site import Site
from .table_files import read_names, read_table


def load_measure(
    path: str | Path,
    *,
    label_column: str | None = None,
    weight_column: str | None = None,
    id_column: str | None = None,
    columns: Sequence[str] | None = None,
    missing_label: str | None = None,
    schema: Schema | str | Path | None = None,
    site: Site | str | Path | None = None,
) -> Measure:
    """Read a measure from a file.

    Parameters
    ----------
    path
        A table with one record a row and names of columns: text such as csv, packed or not,
        parquet or a folder of it, Arrow, a sheet of a workbook (``book.xlsx#Sheet``), a table of
        SQLite, ``-`` for standard input. Or ``.npz`` with an array ``X`` (images are flattened to
        rows), and optionally ``y`` (labels) and ``w`` (weights). What a file is, its first bytes
        say.
    label_column, weight_column
        Columns of a table that are not features.
    id_column
        Column of a table that is left out: what the holder calls its records, which
        ``load_identifiers`` reads.
    columns
        Feature columns of a table, in this order; by default every remaining column.
    missing_label
        Label of records whose field in the label column is empty; by default there may be none.
    schema, site
        The public contract of the table, and how this site writes its columns, or files with these.
        The schema names features, labels and weights: other options are left out then. Without a
        schema, a site file may say how the file is a table (``file:``), and nothing else.

    Returns
    -------
    Measure

    Raises
    ------
    FileError
        A file that is missing, unreadable, of another kind, or without the named columns.
    InputError
        Text among the features, empty tables, NaN: as ``Measure``; a schema in the file that
        cannot be (``schema-invalid``).

    Notes
    -----
    How one record is read depends on no other. Fields of a csv have no type: among features and
    weights each is a number by itself (``true`` and ``false`` are 1 and 0), among labels a text,
    and missing where it is empty or NA, N/A, n/a, NaN, nan, NULL or null. What a label is called
    is in ``measure.label_name``. A field that cannot be read fails the whole file: a holder that
    cannot load its data releases nothing.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> name = tempfile.mkdtemp() + "/north.npz"
    >>> np.savez(name, X=np.eye(3), y=[0, 1, 1])
    >>> load_measure(name)
    Measure(3 records, 3 features, 2 classes)
    """
    source = recognise(path)
    schema, site = Schema.coerce(schema), Site.coerce(site)
    if schema is not None:
        if any((label_column, weight_column, id_column, columns, missing_label)):
            raise InputError(
                "a schema names features, labels and weights. Leave the column options out.",
                code="schema-options",
            )
        if not source.is_table:
            return _of_coordinates(source, schema)
        return read_by_schema(source, schema, site).measure
    if not source.is_table and any((label_column, weight_column, id_column, columns)):
        raise FileError(
            f"{source.name} has no columns: an .npz names its arrays X, y and w. Leave the column "
            "options out.",
            code="file-columns",
        )
    site = site or Site()
    if site != Site(file=site.file):
        raise InputError(
            "a site file that describes columns goes with a schema. Give the schema, or file: "
            "alone.",
            code="schema-options",
        )
    with source.naming():
        if not source.is_table:
            return _from_npz(source)
        parts = read_table(source, site.file, (label_column, id_column)).parts(
            columns or None,
            labels=label_column or None,
            weights=weight_column or None,
            identifiers=id_column or None,
            missing_label=missing_label,
        )
        # No other array has these numbers.
        return Measure(*parts, copy=False)


def load_vocabulary(path: Path) -> tuple[list[str], Any]:
    """Load words and their vectors from an ``.npz`` file."""

    def fail(why: str) -> FileError:
        return FileError(
            f"{path.name} cannot be read as a vocabulary ({why}): an .npz with arrays 'words' and "
            "'vectors' is needed.",
            code="file-unreadable",
        )

    arrays = read_npz(path, fail)
    with guard(fail):
        words, vectors = arrays["words"], arrays["vectors"]
        texts = str(words).split("\n") if words.ndim == 0 else [str(word) for word in words]
        return texts, np.asarray(vectors, dtype=np.float64)


def load_identifiers(path: str | Path, column: str) -> list[str]:
    r"""Return what a holder calls its records: one column of a table as texts.

    One text for each record, as it is written; empty where there is nothing. They may be equal.

    Examples
    --------
    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/wards.csv"
    >>> _ = Path(name).write_text("patient,age\np-17,70\n,64\n")
    >>> load_identifiers(name, "patient")
    ['p-17', '']
    """
    source = recognise(path)
    if not source.is_table:
        raise FileError(
            f"{source.name} has no named columns, so no {column!r}. Save the records as a table, "
            "or leave the identifiers out.",
            code="file-columns",
        )
    with source.naming():
        table = read_table(source, texts=[column])
        name = canonical(column)
        table.check_names([name])
        return [text or "" for text in table.texts(name)]


def read_shape(text: str) -> tuple[int, ...]:
    """Read a shape such as ``28x28`` or ``32x32x3``."""
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(
            f"the image shape is {text!r}; give height x width, such as 28x28 or 32x32x3.",
            code="option-image-shape",
        )
    return tuple(int(part) for part in parts)


def load_images(path: str | Path, shape: tuple[int, ...] | None = None) -> npt.NDArray[Any] | None:
    """Return records of an ``.npz`` as images (n, h, w) or (n, h, w, 3), ``None`` if they are none.

    The shape of one image is by default that of the stored array.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> name = tempfile.mkdtemp() + "/images.npz"
    >>> np.savez(name, X=np.zeros((5, 8, 8)))
    >>> load_images(name).shape
    (5, 8, 8)
    """
    source = recognise(path)
    if source.is_table:
        if shape is not None:
            raise InputError(
                f"{source.name} is a table; images come from .npz.", code="report-images"
            )
        return None
    points = source.arrays()["X"]
    if shape is not None:
        if len(shape) not in (2, 3) or points.size != len(points) * int(np.prod(shape)):
            raise InputError(
                f"{source.name} has records of {points.size // max(len(points), 1)} numbers; they "
                f"are not images of shape {'x'.join(map(str, shape))}.",
                code="report-images",
            )
        return points.reshape(len(points), *shape)
    return points if points.ndim == 3 or (points.ndim == 4 and points.shape[3] == 3) else None


def column_names(path: str | Path) -> list[str]:
    """Return the names of the columns of a table, in the order of the file; none for an npz."""
    source = recognise(path)
    return read_names(source) if source.is_table else []


def save_measure(path: str | Path, measure: Measure) -> None:
    """Write a measure to an ``.npz`` that ``load_measure`` reads, with its schema if it has one.

    Parameters
    ----------
    path
        An ``.npz``; written whole or not at all.
    measure
        What to write: points ``X``, weights ``w`` and labels ``y`` where there are some, names of
        columns, and the schema as text.

    Raises
    ------
    FileError
        ``file-kind`` for another ending, ``file-unwritable``.

    Examples
    --------
    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/north.npz"
    >>> save_measure(name, Measure([[1.0, 2.0]], columns=["age", "dose"]))
    >>> load_measure(name)
    Measure(1 records, 2 features)
    """
    file = Path(path)
    if file.suffix.lower() != ".npz":
        raise FileError(f"{file.name} is not an .npz. Give NAME.npz.", code="file-kind")
    arrays: dict[str, npt.NDArray[Any]] = {"X": measure.points}
    if (measure.masses != 1.0).any():
        arrays["w"] = measure.masses
    if measure.names is not None:
        arrays["y"] = measure.names
    if measure.columns is not None:
        arrays["columns"] = np.array(measure.columns)
    if measure.schema is not None:
        arrays["schema"] = np.array(json.dumps(measure.schema.body()))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    write_whole(file, buffer.getvalue())


def _of_coordinates(source: Source, schema: Schema) -> Measure:
    """Read records that the same schema turned into coordinates before."""
    measure = _from_npz(source)
    if measure.schema is None:
        raise FileError(
            f"{source.name} does not say by which schema its records were read. Give the table, or "
            "write it with `silot schema apply`.",
            code="schema-npz",
        )
    check_schemas({source.name: measure.schema, "the schema given": schema})
    return measure


def _from_npz(source: Source) -> Measure:
    arrays = source.arrays()
    points = arrays["X"]
    if points.ndim > 2:
        points = points.reshape(len(points), int(np.prod(points.shape[1:])))
    columns, schema = None, None
    if "columns" in arrays and arrays["columns"].dtype.kind == "U":
        columns = [str(name) for name in arrays["columns"].ravel()]
    if "schema" in arrays and arrays["schema"].dtype.kind == "U":
        schema = _stored_schema(source.name, str(arrays["schema"]), columns)
    return Measure(points, arrays.get("w"), arrays.get("y"), columns, schema=schema)


def _stored_schema(name: str, text: str, columns: list[str] | None) -> Schema:
    def fail(why: str) -> InputError:
        return InputError(
            f"{name} holds a schema that cannot be read ({why}). Write it again with "
            "`silot schema apply`.",
            code="schema-invalid",
        )

    body = parse_json(text, fail)
    try:
        schema = Schema.of(body)
    except InputError as error:
        raise fail(error.message.removesuffix(".")) from None
    if list(schema.features) != columns:
        raise InputError(
            f"the columns of {name} are not those of the schema in it. Write it again with "
            "`silot schema apply`.",
            code="schema-invalid",
        )
    return schema
